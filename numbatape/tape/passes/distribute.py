"""Sums of arrays with lanes are distributed over the narrow values that the arrays consist of.

The tangent of a parameter that is broadcast over data is narrow, but what is made of it has an entry for each
datum: in a mixture of ten normals over 200 observations, the tangent of each density is
``t = dm[j]*A[i,j] + ds[j]*B[i,j]``, which are 2 000 entries for each direction. If only sums read it, it is
not needed: ``sum_i w[i,j]*t[i,j]`` is ``dm[j]*sum_i(w*A) + ds[j]*sum_i(w*B)``, whose sums have no lanes, and
``sum_j w[i,j]*t[i,j]`` is a product of ``dm`` with the matrix ``w*A``, and of ``ds`` with ``w*B``, which BLAS
computes for all lanes at once. So arrays with lanes that are linear in narrow values are not computed but
carried as sums of products, up to the sums that read them. The whole is done if it leaves fewer operations.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..draft import Draft
from ..instruction import NONE, Instruction, rewritten
from ..tape import Layout
from .coefficients import PLAIN, ZERO_COEFFICIENT, ZERO_VALUE, Factors
from .narrow_rows import NarrowRows, narrow_rows, place_in
from .part_sums import CountedCoefficients, PartSums

FACTORS = 4  # All terms have at most this many factors in common, before these are multiplied.


class Term(NamedTuple):
    """A coefficient times a narrow value.

    Attributes
    ----------
    base
        The value.
    strides
        Its strides along the axes of the array, 0 where it does not change.
    coefficient
        A value without lanes, and how it is applied; None for 1.
    sign
        1 or -1.
    """

    base: int
    strides: tuple[int, ...]
    coefficient: tuple[int, str] | None = None
    sign: int = 1


class Form(NamedTuple):
    """An array as a sum of terms times factors that they have in common."""

    terms: tuple[Term, ...]
    factors: Factors = ()
    sign: int = 1


def distribute(draft: Draft, code: np.ndarray) -> np.ndarray:
    """Take sums of coefficients in place of sums of arrays with lanes, where that costs less."""
    rows = narrow_rows(draft, code) if draft.directions else None
    if rows is None:
        return code
    work = _Distribution(draft, rows)
    changes = work.changes()
    return rewritten(code, changes) if work.after < work.before else code


class _Distribution(CountedCoefficients):
    """Forms of arrays, and instructions that compute sums of them.

    Attributes
    ----------
    before
        The cost of the instructions that are replaced.
    """

    def __init__(self, draft: Draft, rows: NarrowRows):
        super().__init__(draft)
        self.rows = rows
        self.before = 0
        self.forms: dict[int, Form] = {}  # the keys are groups
        self.arrays: dict[int, int] = {}  # the keys are groups
        self.known: dict[tuple, tuple[int, str]] = {}  # coefficients that have been computed already
        self.zero, self.one = (self._number(value) for value in (0.0, 1.0))

    def _number(self, value: float) -> int:
        literal = self.draft.literal(np.array(value))
        self.made[literal] = (), self.draft.kind_of(literal)[1]
        return literal

    def changes(self) -> dict[int, list[Instruction]]:
        """Return what replaces each instruction."""
        found: dict[int, list[Instruction]] = {}
        for k, row in sorted((self.rows.arrays | self.rows.sums).items()):
            self.emitted = found[k] = []
            is_array = k in self.rows.arrays
            self.before += self.cost(row.out if is_array else row.a, laned=True)
            if is_array:
                group = self.group.item(row.out)
                self.forms[group], self.arrays[group] = self._form(row), row.out
            else:
                self._sum(row)
        return found

    # ---- forms

    def _form(self, row: Instruction) -> Form:
        op, whole = self.ops[row.row], self.draft.layout_of(row.out)
        if op.signs:
            first, *rest = (self._of(value, whole) for value in row.operands)
            first = first._replace(sign=first.sign * op.signs[0])
            return self._added(first, rest[0], op.signs[1], row.line) if rest else first
        (value,) = (x for x in row.operands if self.group.item(x) in self.forms or self._is_laned(x))
        factor = self._mask(row, value) if op.chooses else self._factor(row, value, op.zero_wins)
        terms, factors, sign = self._of(value, whole)
        if len(factors) == FACTORS:
            factors, sign = (self._product(factors, sign, row.line),), 1
        return Form(terms, (*factors, factor), sign)

    def _is_laned(self, value: int) -> bool:
        return bool(self.rows.laned[self.group.item(value)])

    def _of(self, value: int, whole: Layout) -> Form:
        form = self.forms.get(self.group.item(value))
        return Form((Term(value, place_in(self.draft, value, whole)[2]),)) if form is None else form

    def _factor(self, row: Instruction, value: int, zero_wins: str) -> tuple[int, str]:
        coefficient = row.b if value == row.a else row.a
        wins = {"": None, "x": row.a, "y": row.b}[zero_wins]
        return coefficient, PLAIN if wins is None else ZERO_VALUE if wins == value else ZERO_COEFFICIENT

    def _mask(self, row: Instruction, value: int) -> tuple[int, str]:
        """Return where a choice takes the value and not zero, as a coefficient."""
        name = "not_equal" if value == row.b else "equal"
        return self.joined(name, row.a, self.zero, row.line), ZERO_COEFFICIENT

    def _added(self, a: Form, b: Form, sign: int, line: int) -> Form:
        """Return ``a + sign*b``."""
        b = b._replace(sign=b.sign * sign)
        if a.terms == b.terms and a.factors and b.factors:
            (one, how), (other, its) = (self._product(form.factors, form.sign, line) for form in (a, b))
            return Form(a.terms, ((self.joined("add", one, other, line), self.strictest(how, its)),))
        found: dict[tuple, Term] = {}
        for term in (*self._apart(a, line), *self._apart(b, line)):
            place = *self.draft.address(term.base)[:2], term.strides
            known = found.get(place)
            found[place] = term if known is None else self._merged(known, term, line)
        return Form((*found.values(),))

    def _merged(self, term: Term, other: Term, line: int) -> Term:
        """Return the sum of two terms of one value."""
        (a, how), (b, its) = (x.coefficient or (self.one, PLAIN) for x in (term, other))
        total = self.joined("add" if term.sign == other.sign else "sub", a, b, line)
        return term._replace(coefficient=(total, self.strictest(how, its)))

    def _apart(self, form: Form, line: int) -> list[Term]:
        """Return the terms with the factors that they had in common."""
        return [
            term._replace(coefficient=self._of_term(term, form.factors, line), sign=term.sign * form.sign)
            for term in form.terms
        ]

    def _of_term(self, term: Term, factors: Factors, line: int) -> tuple[int, str] | None:
        """Return the coefficient of a term, with the factors."""
        if not factors or term.coefficient is None:
            return self._product(factors, 1, line) if factors else term.coefficient
        return self._product((term.coefficient, self._product(factors, 1, line)), 1, line)

    def _product(self, factors: Factors, sign: int, line: int) -> tuple[int, str]:
        key = factors, sign
        if key not in self.known:
            self.known[key] = self.product(factors, sign, line)
        return self.known[key]

    # ---- sums

    def _sum(self, row: Instruction) -> None:
        """Emit a sum of an array."""
        group = self.group.item(row.a)
        terms = sorted(self._apart(self.forms[group], row.line), key=lambda term: -term.sign)
        parts, total = PartSums(self, row, self.arrays[group]), NONE
        for k, term in enumerate(terms, 1):
            out = row.out if k == len(terms) else None
            coefficient, how = term.coefficient or (self.one, PLAIN)
            part = parts.of(
                term.base, term.strides, coefficient, how, out if k == 1 and term.sign > 0 else None
            )
            if k > 1:
                total = self.laned("add" if term.sign > 0 else "sub", out, total, part, row)
            else:
                total = part if term.sign > 0 else self.laned("neg", out, part, NONE, row)
