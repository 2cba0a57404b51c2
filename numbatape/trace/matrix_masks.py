"""Masks that compare rows with columns: ``K[~np.eye(n, dtype=bool)]`` and ``K[np.tri(n, dtype=bool)]``.

Which entries such a mask selects follows from the size alone, as with the slices of `position_masks`: they
are those of a triangle, of a diagonal, or all beside the main diagonal.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..tape.rows import Traits
from . import extents, operations
from . import symbolic_sizes as sizes
from .array import TracedArray
from .operands import lift
from .position_sets import COMPARE, OPPOSITE, TURNED, Positions
from .primitives import dims_of, value_of

WIDEST = 100  # bands beside the diagonal; the first and the last rows are literals
BANDS = {"within": "beyond", "beyond": "within"}


class Pairs(NamedTuple):
    """Entries in row i and column j: those where ``j - i`` is less than k, equal to k, and so on.

    Within k are those of a band, where it is between -k and k; all others are beyond.
    """

    relation: str
    k: int

    def others(self) -> Pairs:
        return Pairs(OPPOSITE.get(self.relation) or BANDS[self.relation], self.k)


class Affine(NamedTuple):
    """Entries ``down * i + right * j + first`` in row i and column j."""

    down: int
    right: int
    first: int

    def __sub__(self, other: Affine) -> Affine:
        return Affine(*(mine - its for mine, its in zip(self, other, strict=True)))


def selected_pairs(mask: TracedArray) -> tuple | None:
    """Return the rows and the columns that a mask selects, for every size; None if they are not known."""
    trace, (rows, columns) = mask._trace, dims_of(mask)
    if rows != columns or rows >= 0:
        return None
    pairs = _Masks(trace, rows).pairs_of(mask._id)
    found = None if pairs is None else _positions(trace, rows, pairs)
    # What was read off the tape is compared with what is true for the sizes of this trace.
    if found is None or not all(map(np.array_equal, map(value_of, found), np.nonzero(mask._value))):
        return None
    return found


def _positions(trace, side: int, pairs: Pairs):
    """Return the rows and the columns of pairs in a square matrix, row by row; None for others."""
    relation, k = pairs
    n = sizes.seen(trace, side)
    if relation in (">", ">="):
        k += relation == ">"
        return operations.triu_indices(trace, n, k) if k >= 0 else None
    if relation in ("<", "<="):
        k -= relation == "<"
        return operations.tril_indices(trace, n, k) if k <= 0 else None
    table = trace.tape.sizes
    if relation == "==":
        count = table.sub(side, abs(k))
        if table.value(count) < 0:
            return None
        table.guard(count, ">=", 0)
        at = extents.arange(trace, count)
        return at + max(-k, 0), at + max(k, 0)
    if relation == "within":
        return _band(trace, side, k)
    if relation != "!=" or k or table.value(side) < 2:
        return None
    rest = table.sub(side, 1)
    table.guard(rest, ">=", 1)
    at = extents.arange(trace, table.mul(side, rest))
    row = at // (n - 1)
    column = at - row * (n - 1)
    return row, column + np.astype(column >= row, np.dtype(int))


def _band(trace, side: int, k: int):
    """Return the rows and the columns of a band, row by row; its first and last k rows are shorter."""
    table, width = trace.tape.sizes, 2 * k + 1
    if not 0 <= k <= WIDEST or table.value(side) < 2 * k:
        return None
    table.guard(side, ">=", 2 * k)
    rows, columns = np.divmod(np.arange(k * width), width)
    full = table.sub(side, 2 * k)
    middle = extents.arange(trace, table.mul(full, width)) + k * width
    behind = (sizes.seen(trace, full) + k) * width
    head, tail = np.flatnonzero(rows + columns >= k), np.flatnonzero(rows + columns < 2 * k)
    place = np.concatenate([lift(trace, head), middle, lift(trace, tail) + behind])
    row = place // width
    return row, row - k + (place - row * width)


class _Masks(Positions):
    """The comparisons of rows with columns of a square matrix, read off the tape."""

    def pairs_of(self, number: int) -> Pairs | None:
        """Return which entries a matrix of truth values, or of zeros and ones, has."""
        made = self._matrix(number)
        if made is None:
            return None
        op, (left, right, third) = made
        if op.logic == "not":
            found = self.pairs_of(left)
            return found and found.others()
        if op.signs == (1,):
            return self.pairs_of(left)
        if op.triangle and self._number(left) == 1:
            k = self._number(right)
            return Pairs(op.triangle, k) if type(k) is int else None
        if op.signs == (1, -1) and self._number(left) == 1:
            found = self.pairs_of(right)
            return found and found.others()
        if op.chooses:
            found, both = self.pairs_of(left), (self._number(right), self._number(third))
            if found is None or both not in ((0, 1), (1, 0)):
                return None
            return found if both == (1, 0) else found.others()
        return self._compared(op.compares, left, right) if op.compares else None

    def _compared(self, relation: str, left: int, right: int) -> Pairs | None:
        """Return where two values compare: a mask with a number, or two sums of rows and columns."""
        if self._number(left) is not None:
            left, right, relation = right, left, TURNED[relation]
        bound = self._number(right)
        if type(bound) is int:
            found, compare = self.pairs_of(left), COMPARE[relation]
            if found is not None and compare(1, bound) != compare(0, bound):
                return found if compare(1, bound) else found.others()
            made = self._matrix(left)
            if made is not None and made[0].magnitude and relation not in ("==", "!="):
                by = self._affine(made[1][0])
                if by not in (Affine(1, -1, 0), Affine(-1, 1, 0)):
                    return None
                k = bound - (relation in ("<", ">="))
                return Pairs("within" if relation in ("<", "<=") else "beyond", k)
        one, other = self._affine(left), self._affine(right)
        if one is None or other is None:
            return None
        down, right_by, first = one - other
        if (down, right_by) == (1, -1):
            return Pairs(TURNED[relation], first)
        return Pairs(relation, -first) if (down, right_by) == (-1, 1) else None

    def _matrix(self, number: int) -> tuple[Traits, tuple] | None:
        """Return the op that makes a whole value, and its operands; None if it is a part of what is made."""
        row, tape = self._made.get(self._place(number)), self._tape
        if row is None or (tape.offset_of(number), tape.layout_of(number)) != (
            tape.offset_of(row.out),
            tape.layout_of(row.out),
        ):
            return None
        return tape.ops[row.row], (row.a, row.b, row.c)

    def _part(self, number: int):
        """Return the instruction that makes a value, alone or beside others in one storage."""
        rows, tape = self._parts.get(self._place(number), ()), self._tape
        if len(rows) > 1:
            rows = [row for row in rows if tape.offset_of(row.out) == tape.offset_of(number)]
        return rows[0] if len(rows) == 1 else None

    def _affine(self, number: int) -> Affine | None:
        """Return how the entries of a value follow from their rows and columns."""
        known = self._number(number)
        if known is not None:
            return Affine(0, 0, known) if type(known) is int else None
        tape = self._tape
        row = self._part(number)
        if row is None:
            return None
        op, layout, made = tape.ops[row.row], tape.layout_of(number), tape.layout_of(row.out)
        operands = [self._number(row.a)] if op.counts_up else [self._affine(row.a)]
        operands += [self._affine(row.b)] if len(op.signs) == 2 else []
        if None in operands:
            return None
        if op.counts_up:
            found = Affine(0, 1, operands[0])
        elif op.signs == (1,):
            found = operands[0]
        elif len(op.signs) == 2:
            one, other = operands
            found = one - other if op.signs == (1, -1) else one - (Affine(0, 0, 0) - other)
        else:
            return None
        if tape.offset_of(number) != tape.offset_of(row.out):
            return None
        lead = len(made.dims) - 2
        grid = made.dims[max(lead, 0) :], made.strides[max(lead, 0) :]
        if lead >= 0 and set(made.dims[:lead]) <= {1} and grid == (layout.dims, layout.strides):
            return found
        if len(made.dims) != 1 or made.strides != (1,):
            return None
        # A vector, seen along rows or along columns.
        by = [0 if dim == 1 else stride for dim, stride in zip(layout.dims, layout.strides, strict=True)]
        down, right = [0, 0, *by][-2:]
        return (
            Affine(down * found.right, right * found.right, found.first) if {down, right} <= {0, 1} else None
        )
