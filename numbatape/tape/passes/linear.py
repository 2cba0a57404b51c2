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

from dataclasses import dataclass, replace

import numpy as np

from ..instruction import MAIN, NONE, PROLOGUE, Instruction, columns, instructions, opcode
from ..tape import CONSTANT, F64
from ..uses import Uses, covers, dependents, layout_of

PLAIN, ZERO_VALUE, ZERO_COEFFICIENT = "plain", "zero value", "zero coefficient"
READERS = 3  # of one product that is carried on: each has a coefficient of its own to compute
TERMS = 4  # of a sum that is carried on
FACTORS = 8  # of a coefficient, before it is computed


@dataclass(frozen=True)
class Term:
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


def contract(builder, code: np.ndarray, goal) -> np.ndarray:
    """Rewrite what depends linearly on the goal's directions, with fewer passes over arrays with lanes."""
    return _Contraction(builder, code, goal).run() if goal.directions else code


class _Contraction:
    def __init__(self, builder, code: np.ndarray, goal):
        self.builder, self.code = builder, instructions(code.tolist())
        self.uses = Uses(builder, code, goal.outputs)
        sources = {self.uses.key(value) for value in goal.directions}
        self.laned = dependents(code, self.uses.keys, sources)
        self.linear = [self._is_linear(k) for k in range(len(self.code))]
        self.forms: dict[int, list[Term]] = {}  # of results that are passed on, by key
        self.rows: list[Instruction] = []

    def run(self) -> np.ndarray:
        for k, row in enumerate(self.code):
            if not self.linear[k]:
                self.rows.append(row)
                continue
            form = self._form(k)
            if self._carried(k, form):
                self.forms[self.uses.key(row.out)] = form
            elif len(form) == 1 and form[0].base in (row.a, row.b) and not form[0].more:
                self.rows.append(row)  # unchanged
            else:
                self._write(row, form)
        return columns(self.rows)

    def _is_linear(self, k: int) -> bool:
        """Whether a row makes an array with lanes by sums, or by products with values without lanes."""
        row = self.code[k]
        if row.is_guard or row.family != F64 or row.stage != MAIN:
            return False
        op = self.builder.ops[row.row]
        if not op.signs and op.factors != "xy":
            return False
        key = self.uses.key(row.out)
        alone = len(self.uses.of[key].writers) == 1
        if key not in self.laned or not alone or not self._shape(row.out):
            return False
        with_lanes = sum(self.uses.key(x) in self.laned for x in row.operands)
        return (
            with_lanes == (1 if op.factors else len(row.operands))
            and covers(self.builder, row.out)
            and all(self.uses.settled(x, k) for x in row.operands)
        )

    # ---- forms

    def _form(self, k: int) -> list[Term]:
        """Return a row's result as a sum of products."""
        row = self.code[k]
        op, a, b = self.builder.ops[row.row], row.a, row.b
        if op.signs:
            terms = []
            for operand, sign in zip(row.operands, op.signs, strict=True):
                its = self._terms(operand)
                terms += its if sign > 0 else map(_negated, its)
            return terms if len(op.signs) == 1 else self._merged(terms)
        value, coefficient = (a, b) if self.uses.key(a) in self.laned else (b, a)
        wins = {"": None, "x": a, "y": b}[op.zero_wins]
        applied = PLAIN if wins is None else ZERO_VALUE if wins == value else ZERO_COEFFICIENT
        terms = self._terms(value)
        # If a product grew with every row of a long loop, memory would grow with the square of its length.
        if any(term.more or len(term.factors) >= FACTORS for term in terms):
            terms = [self._settled(term, row.line) for term in terms]
        return [replace(term, factors=(*term.factors, (coefficient, applied))) for term in terms]

    def _terms(self, value: int) -> list[Term]:
        return self.forms.get(self.uses.key(value)) or [Term(value)]

    def _merged(self, terms: list[Term]) -> list[Term]:
        """Return the sum with one term per base."""
        found: dict[tuple, Term] = {}
        for term in terms:
            its = self.builder.values[term.base]
            known = found.get(its)
            if known is None:
                found[its] = term
            elif known.factors and term.factors:
                found[its] = replace(known, more=(*known.more, (term.factors, term.sign), *term.more))
            else:
                return terms  # x + x has no coefficients that could be added
        return list(found.values())

    def _carried(self, k: int, form: list[Term]) -> bool:
        """Whether a result is only needed as part of its readers' sums of products."""
        out = self.code[k].out
        use = self.uses.of[self.uses.key(out)]
        place = self._place(out)
        few = READERS if len(form) == 1 else 1 if len(form) <= TERMS else 0
        return (
            0 < len(use.readers) <= few
            and self.uses.key(out) not in self.uses.fixed
            and all(self.linear[r] for r in use.readers)
            and all(self._shape(self.code[r].out) == self._shape(out) for r in use.readers)
            and all(self._place(v) == place for v in use.values)
        )

    # ---- instructions

    def _write(self, row: Instruction, form: list[Term]) -> None:
        """Emit a sum of products into a row's result."""
        out, line = row.out, row.line
        first, *rest = sorted((self._settled(term, line) for term in form), key=lambda term: -term.sign)
        total = self._product(first, line, None if rest else out, out)
        for k, term in enumerate(rest, 1):  # subtracted terms come last
            part = self._product(replace(term, sign=1), line, None, out)
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
        shapes = [self._shape(x) for x in (a, b) if x != NONE]
        rank = max(map(len, shapes))
        padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
        dims = tuple(next((d for d in sizes if d != 1), 1) for sizes in zip(*padded, strict=True))
        level = max(self._level(x) for x in (a, b) if x != NONE)
        out = self.builder.array(dims, F64, level)
        self._emit(name, out, a, b, line, PROLOGUE if level == CONSTANT else MAIN)
        return out

    def _emit(self, name: str, out: int, a: int, b: int, line: int, stage: int = MAIN) -> None:
        op = opcode(self.builder.ops.number[name], F64)
        self.rows.append(Instruction(op, 0, stage, out, a, b, line=line))

    def _like(self, value: int) -> int:
        return self.builder.array(self._shape(value), F64, self._level(value))

    def _shape(self, value: int) -> tuple:
        return tuple(map(self.builder.sizes.settled, layout_of(self.builder, value).dims))

    def _place(self, value: int) -> tuple:
        """Return which cells a value is, and in which order."""
        storage, offset, _ = self.builder.values[value]
        strides = tuple(map(self.builder.sizes.settled, layout_of(self.builder, value).strides))
        return storage, offset, self._shape(value), strides

    def _level(self, value: int) -> int:
        return self.builder.storages[self.builder.values[value][0]][2]


def _strictest(*applied: str) -> str:
    """Return how a sum or a product of coefficients is applied: zeros stay zeros if they do for one."""
    return min(applied, key=(ZERO_VALUE, ZERO_COEFFICIENT, PLAIN).index)


def _negated(term: Term) -> Term:
    more = tuple((factors, -sign) for factors, sign in term.more)
    return replace(term, sign=-term.sign, more=more)
