"""Chains of linear instructions along many directions: their coefficients are multiplied first.

What depends on a direction depends on it linearly. With directions in lanes, ``((t*a)*b + t*c)*d`` costs
four passes over all lanes; ``t*((a*b + c)*d)`` costs one, and three over coefficients, which have no lanes.
This is the accumulation of partials along the edges of the linearised graph (Griewank and Walther,
Evaluating Derivatives, ch. 9: cross-country elimination). An edge is eliminated only where this never adds a
pass: a result is passed on to its readers as a sum of products if it has one reader, or is a single product
with few readers.

The rules of ``weigh`` hold for products of coefficients, too: a zero stays zero beside an infinite partial.
Literals among the coefficients are multiplied here and now: ``-0.5 * x * 2.0`` is ``-x``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..draft import Draft
from ..instruction import NONE, Instruction, chosen, copied, instructions, rewritten
from ..tape import CONSTANT
from .coefficients import PLAIN, ZERO_COEFFICIENT, ZERO_VALUE, Coefficients, Factors
from .linear_rows import READERS, LinearRows, linear_rows

TERMS = 4  # a sum with more terms is computed, and not passed on
FACTORS = 8  # a coefficient with more factors is computed
LEAST, MOST = 1e-100, 1e100  # literals, and products of them, between which a further product is no 0 or inf


class Term(NamedTuple):
    """A coefficient times a value with lanes.

    Attributes
    ----------
    base
        The value.
    factors
        Coefficients in the order in which they are applied, and how each is: PLAIN, ZERO_VALUE (the product
        is zero where the value is), or ZERO_COEFFICIENT (it is zero where the coefficient is).
    scale
        The product of the factors that are literals, with the term's sign.
    more
        Other coefficients of the same base, which are added up: ``(factors, scale)`` each.
    """

    base: int
    factors: Factors = ()
    scale: float = 1.0
    more: tuple[tuple[tuple, float], ...] = ()

    @property
    def is_base(self) -> bool:
        """Whether the term is its base, up to the sign."""
        return not self.factors and abs(self.scale) == 1.0


def contract(draft: Draft, code: np.ndarray) -> np.ndarray:
    """Rewrite what depends linearly on the tape's directions, with fewer passes over arrays with lanes."""
    if not draft.directions:
        return code
    rows = linear_rows(draft, code)
    if not len(rows.numbers) or not draft.is_felt(code, rows.numbers):
        return code
    changes = _Contraction(draft, code, rows).changes()
    if not draft.is_felt(code, np.array([*changes], np.intp)):
        return code
    code = copied(code)
    # Tapes with directions are only swept forward, so that no operand takes an adjoint.
    code["active"][rows.numbers] = 0
    return rewritten(code, changes)


class _Contraction(Coefficients):
    """Forms of linear results as sums of products, and instructions that compute them.

    Parameters
    ----------
    rows
        The instructions that are linear.
    """

    def __init__(self, draft: Draft, code: np.ndarray, rows: LinearRows):
        super().__init__(draft)
        self.rows = rows
        self.code = instructions(chosen(code, rows.numbers).tolist())
        # The forms of results that are passed on; the keys are their groups.
        self.forms: dict[int, list[Term]] = {}
        self._numbers = draft.builder.numbers
        self._literals: dict[float, int] = {}  # the literals that this pass makes

    def changes(self) -> dict[int, list[Instruction]]:
        """Return what replaces each instruction that changes."""
        found = {}
        columns = (self.rows.numbers, self.rows.readers)
        for row, k, readers in zip(self.code, *(column.tolist() for column in columns), strict=True):
            if not readers and self._is_plain(row):
                # The instruction needs no change.
                continue
            self.emitted = []
            form = self._form(row)
            most = READERS if len(form) == 1 else 1 if len(form) <= TERMS else 0
            if 0 < readers <= most:
                self.forms[self.group.item(row.out)] = form
            elif len(form) == 1 and form[0].base in (row.a, row.b) and not form[0].more:
                if not self.emitted:
                    continue
                self.emitted.append(row)  # the instruction itself is unchanged
            else:
                self._write(row, form)
            found[k] = self.emitted
        return found

    # ---- forms

    def _is_plain(self, row: Instruction) -> bool:
        """Whether no operand is a sum of products that was passed on."""
        group, forms = self.group, self.forms
        return group.item(row.a) not in forms and (row.b == NONE or group.item(row.b) not in forms)

    def _form(self, row: Instruction) -> list[Term]:
        """Return a row's result as a sum of products."""
        op, a, b = self.ops[row.row], row.a, row.b
        if op.signs:
            first, *rest = op.signs
            terms = self._terms(a, first)
            return self._merged([*terms, *self._terms(b, *rest)]) if rest else terms
        value, coefficient = (a, b) if self.rows.laned[self.group.item(a)] else (b, a)
        wins = {"": None, "x": a, "y": b}[op.zero_wins]
        applied = PLAIN if wins is None else ZERO_VALUE if wins == value else ZERO_COEFFICIENT
        terms = self._terms(value)
        # If a product grew with every row of a long loop, memory would grow with the square of its length.
        if any(term.more or len(term.factors) >= FACTORS for term in terms):
            terms = [self._settled(term, row.line) for term in terms]
        number = self._numbers.get(coefficient)
        if number is not None and LEAST < abs(number) < MOST:
            scaled = [term._replace(scale=term.scale * float(number)) for term in terms]
            if all(LEAST < abs(term.scale) < MOST for term in scaled):
                return scaled
        factor = coefficient, applied
        return [Term(base, (*factors, factor), scale, more) for base, factors, scale, more in terms]

    def _terms(self, value: int, sign: int = 1) -> list[Term]:
        """Return an operand, with a sign, as a sum of products."""
        found = self.forms.get(self.group.item(value))
        if found is None:
            return [Term(value, scale=sign)]
        return found if sign > 0 else [_negated(term) for term in found]

    def _merged(self, terms: list[Term]) -> list[Term]:
        """Return the sum with one term per base."""
        if len({self.group.item(term.base) for term in terms}) == len(terms):
            return terms
        found: dict[tuple, Term] = {}
        for term in terms:
            its = self._address(term.base)
            known = found.get(its)
            if known is None:
                found[its] = term
            elif not known.is_base and not term.is_base:
                found[its] = known._replace(more=(*known.more, (term.factors, term.scale), *term.more))
            else:
                return terms  # x + x has no coefficients that could be added
        return list(found.values())

    # ---- instructions

    def _write(self, row: Instruction, form: list[Term]) -> None:
        """Emit a sum of products into a row's result."""
        out, line = row.out, row.line
        first, *rest = sorted((self._settled(term, line) for term in form), key=lambda term: -term.scale)
        total = self._product(first, line, None if rest else out, out)
        for k, term in enumerate(rest, 1):  # subtracted terms come last
            part = self._product(Term(term.base, term.factors), line, None, out)
            made = out if k == len(rest) else self.like(out)
            self.emit("sub" if term.scale < 0 else "add", made, total, part, line)
            total = made

    def _product(self, term: Term, line: int, into: int | None, like: int) -> int:
        """Emit a term that is settled; return its value, which is its base if the coefficient is 1."""
        if not term.factors and term.scale > 0 and into is None:
            return term.base
        out = self.like(like) if into is None else into
        if term.factors:
            ((coefficient, applied),) = term.factors
            self.apply(out, term.base, coefficient, applied, line)
        else:
            self.emit("copy" if term.scale > 0 else "neg", out, term.base, NONE, line)
        return out

    def _settled(self, term: Term, line: int) -> Term:
        """Return a term with a single coefficient, which is computed here; a sign is part of it.

        Only a term without a coefficient keeps its sign.
        """
        if term.is_base or (len(term.factors) == 1 and not term.more and term.scale == 1.0):
            return term
        total, how = self._scaled(term.factors, term.scale, line)
        for factors, scale in term.more:
            other, its = self._scaled(factors, abs(scale), line)
            total = self.joined("add" if scale > 0 else "sub", total, other, line)
            how = self.strictest(how, its)
        return Term(term.base, ((total, how),))

    def _scaled(self, factors: Factors, scale: float, line: int) -> tuple[int, str]:
        """Emit a product of coefficients and a number; return it, and how it is applied."""
        if not factors:
            return self._literal(scale), PLAIN
        if abs(scale) == 1.0:
            return self.product(factors, int(scale), line)
        total, how = self.product(factors, 1, line)
        return self.joined("mul", self._literal(scale), total, line), how

    def _literal(self, number: float) -> int:
        value = self._literals.get(number)
        if value is None:
            value = self._literals[number] = self.draft.literal(np.array(number))
            self.made[value] = (), CONSTANT
        return value

    def _address(self, value: int) -> tuple[int, int, int]:
        return self.storage.item(value), self.offset.item(value), self.layout.item(value)


def _negated(term: Term) -> Term:
    more = tuple((factors, -scale) for factors, scale in term.more)
    return Term(term.base, term.factors, -term.scale, more)
