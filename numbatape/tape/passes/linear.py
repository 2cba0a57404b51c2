"""Chains of linear instructions along many directions: their coefficients are multiplied first.

What depends on a direction depends on it linearly. With directions in lanes, ``((t*a)*b + t*c)*d`` costs
four passes over all lanes; ``t*((a*b + c)*d)`` costs one, and three over coefficients, which have no lanes.
This is the accumulation of partials along the edges of the linearised graph (Griewank and Walther,
Evaluating Derivatives, ch. 9: cross-country elimination). Only such edges are eliminated that no pass is
ever added: a result is passed on to its readers as a sum of products if it has one reader, or is a single
product with few readers.

The rules of ``weigh`` hold for products of coefficients, too: a zero stays zero beside an infinite partial.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..draft import Draft
from ..instruction import MAIN, NONE, PROLOGUE, Instruction, instructions, opcode, rewritten
from ..tape import CONSTANT, F64
from .linear_rows import LinearRows, linear_rows

PLAIN, ZERO_VALUE, ZERO_COEFFICIENT = "plain", "zero value", "zero coefficient"
# A product is passed on to so many readers at most, because each computes a coefficient of its own.
READERS = 3
TERMS = 4  # a sum with more terms is computed, and not passed on
FACTORS = 8  # a coefficient with more factors is computed


class Term(NamedTuple):
    """A coefficient times a value with lanes.

    Attributes
    ----------
    base
        The value.
    factors
        Coefficients in the order in which they are applied, and how each is: PLAIN, ZERO_VALUE (the product
        is zero where the value is), or ZERO_COEFFICIENT (it is zero where the coefficient is).
    sign
        1 or -1.
    more
        Other coefficients of the same base, which are added up: ``(factors, sign)`` each.
    """

    base: int
    factors: tuple[tuple[int, str], ...] = ()
    sign: int = 1
    more: tuple[tuple[tuple, int], ...] = ()


def contract(draft: Draft, code: np.ndarray) -> np.ndarray:
    """Rewrite what depends linearly on the tape's directions, with fewer passes over arrays with lanes."""
    if not draft.directions:
        return code
    rows = linear_rows(draft, code)
    if not len(rows.numbers):
        return code
    code = code.copy()
    # Tapes with directions are only swept forward, so that no operand takes an adjoint.
    code["active"][rows.numbers] = 0
    return rewritten(code, _Contraction(draft, code, rows).changes())


class _Contraction:
    """Forms of linear results as sums of products, and instructions that compute them.

    Parameters
    ----------
    rows
        The instructions that are linear.
    """

    def __init__(self, draft: Draft, code: np.ndarray, rows: LinearRows):
        self.draft, self.ops, self.rows = draft, draft.ops, rows
        self.code = instructions(code[rows.numbers].tolist())
        # These columns lack the values that are made from now on, for which ``made`` has what is needed.
        self.group, self.storage, self.offset, self.layout = (
            draft.group,
            draft.storage,
            draft.offset,
            draft.layout,
        )
        self.level = draft.storage_columns()[2]
        self.shapes: dict[int, tuple] = {}  # by layout
        self.made: dict[int, tuple[tuple, int]] = {}  # shape and level of new values
        self.forms: dict[int, list[Term]] = {}  # of results that are passed on, by group
        self.emitted: list[Instruction] = []

    def changes(self) -> dict[int, list[Instruction]]:
        """Return what replaces each instruction that changes."""
        found = {}
        columns = (self.rows.numbers, self.rows.readers)
        for row, k, readers in zip(self.code, *(column.tolist() for column in columns), strict=True):
            if not readers and self._is_plain(row):
                continue  # the instruction needs no change
            self.emitted = []
            form = self._form(row)
            most = READERS if len(form) == 1 else 1 if len(form) <= TERMS else 0
            if 0 < readers <= most:
                self.forms[self.group.item(row.out)] = form
            elif len(form) == 1 and form[0].base in (row.a, row.b) and not form[0].more:
                if not self.emitted:
                    continue
                self.emitted.append(row)  # unchanged
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
        factor = coefficient, applied
        return [Term(base, (*factors, factor), sign, more) for base, factors, sign, more in terms]

    def _terms(self, value: int, sign: int = 1) -> list[Term]:
        """Return an operand, with a sign, as a sum of products."""
        found = self.forms.get(self.group.item(value))
        if found is None:
            return [Term(value, sign=sign)]
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
            elif known.factors and term.factors:
                found[its] = known._replace(more=(*known.more, (term.factors, term.sign), *term.more))
            else:
                return terms  # x + x has no coefficients that could be added
        return list(found.values())

    # ---- instructions

    def _write(self, row: Instruction, form: list[Term]) -> None:
        """Emit a sum of products into a row's result."""
        out, line = row.out, row.line
        first, *rest = sorted((self._settled(term, line) for term in form), key=lambda term: -term.sign)
        total = self._product(first, line, None if rest else out, out)
        for k, term in enumerate(rest, 1):  # subtracted terms come last
            part = self._product(Term(term.base, term.factors), line, None, out)
            made = out if k == len(rest) else self._like(out)
            self._emit("sub" if term.sign < 0 else "add", made, total, part, line)
            total = made

    def _product(self, term: Term, line: int, into: int | None, like: int) -> int:
        """Emit a term; return its value, which is its base if the coefficient is 1."""
        if not term.factors and term.sign > 0 and into is None:
            return term.base
        out = self._like(like) if into is None else into
        if term.factors:
            ((coefficient, applied),) = term.factors
            operands = (coefficient, term.base) if applied == ZERO_COEFFICIENT else (term.base, coefficient)
            self._emit("mul" if applied == PLAIN else "weigh", out, *operands, line)
        else:
            self._emit("copy" if term.sign > 0 else "neg", out, term.base, NONE, line)
        return out

    def _settled(self, term: Term, line: int) -> Term:
        """Return a term with a single coefficient, which is computed here; a sign is part of it."""
        if not term.factors or (len(term.factors) == 1 and not term.more and term.sign > 0):
            return term
        total, how = self._coefficient(term.factors, term.sign, line)
        for factors, sign in term.more:
            other, its = self._coefficient(factors, 1, line)
            total = self._joined("add" if sign > 0 else "sub", total, other, line)
            how = _strictest(how, its)
        return Term(term.base, ((total, how),))

    def _coefficient(self, factors, sign: int, line: int) -> tuple[int, str]:
        """Emit a product of coefficients; return it, and the op that applies it to a value with lanes."""
        (total, how), *rest = factors
        for factor, applied in rest:
            operands = (factor, total) if applied == ZERO_COEFFICIENT else (total, factor)
            total = self._joined("mul" if applied == PLAIN else "weigh", *operands, line)
            how = _strictest(how, applied)
        return (total if sign > 0 else self._joined("neg", total, NONE, line)), how

    def _joined(self, name: str, a: int, b: int, line: int) -> int:
        """Emit an instruction on coefficients into an array of their common shape."""
        dims, *other = (self._shape(x) for x in (a, b) if x != NONE)
        if other and other != [dims]:
            dims = _broadcast(dims, *other)
        level = max(self._level(x) for x in (a, b) if x != NONE)
        out = self._array(dims, level)
        self._emit(name, out, a, b, line, PROLOGUE if level == CONSTANT else MAIN)
        return out

    def _emit(self, name: str, out: int, a: int, b: int, line: int, stage: int = MAIN) -> None:
        op = opcode(self.ops.number[name], F64)
        self.emitted.append(Instruction(op, 0, stage, out, a, b, line=line))

    # ---- values

    def _like(self, value: int) -> int:
        return self._array(self._shape(value), self._level(value))

    def _array(self, dims: tuple, level: int) -> int:
        out = self.draft.array(dims, F64, level)
        self.made[out] = dims, level
        return out

    def _shape(self, value: int) -> tuple:
        if value in self.made:
            return self.made[value][0]
        layout = self.layout.item(value)
        shape = self.shapes.get(layout)
        if shape is None:
            shape = tuple(map(self.draft.sizes.settled, self.draft.layouts[layout].dims))
            self.shapes[layout] = shape
        return shape

    def _level(self, value: int) -> int:
        if value in self.made:
            return self.made[value][1]
        return self.level.item(self.storage.item(value))

    def _address(self, value: int) -> tuple[int, int, int]:
        return self.storage.item(value), self.offset.item(value), self.layout.item(value)


def _broadcast(*shapes: tuple) -> tuple:
    """Return the common shape of arrays; of two sizes of an axis that differ, one is 1."""
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    return tuple(next((d for d in sizes if d != 1), 1) for sizes in zip(*padded, strict=True))


def _strictest(*applied: str) -> str:
    """Return how a sum or a product of coefficients is applied: zeros stay zeros if they do for one."""
    return min(applied, key=(ZERO_VALUE, ZERO_COEFFICIENT, PLAIN).index)


def _negated(term: Term) -> Term:
    more = tuple((factors, -sign) for factors, sign in term.more)
    return Term(term.base, term.factors, -term.sign, more)
