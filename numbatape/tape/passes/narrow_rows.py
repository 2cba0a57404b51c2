"""Which arrays with lanes are sums of products of narrow values, and are read by sums alone.

A value is narrow in an array if it does not change along some of its axes: a parameter that is broadcast over
data. What is found here need not be computed (`numbatape.tape.passes.distribute`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from ..column_scans import reach
from ..combinations import flatnonzero
from ..draft import Draft
from ..instruction import MAIN, Instruction, chosen, instructions
from ..tape import F64, Layout, axes_of
from .linear_rows import laned_groups, linear_numbers, reversed_edges

TERMS = 12  # An array has at most this many terms.

Place = tuple[int, int, tuple[int, ...]]  # storage, offset, and strides along the axes of an array


class NarrowRows(NamedTuple):
    """Arrays that need not be computed, and who reads them.

    Attributes
    ----------
    arrays
        The instructions that make such arrays, by number, in order.
    sums
        The sums of such arrays, by number, in order.
    laned
        Which groups have lanes.
    """

    arrays: dict[int, Instruction]
    sums: dict[int, Instruction]
    laned: np.ndarray


def narrow_rows(draft: Draft, code: np.ndarray) -> NarrowRows | None:
    """Return the arrays that are sums of products of narrow values, and that sums alone read."""
    totals = flatnonzero(draft.ops.is_any(draft.ops.with_trait("totals"), code["op"]))
    if not len(totals):
        return None
    uses = draft.uses(code)
    laned = laned_groups(draft, uses)
    rows = linear_numbers(draft, code, laned, _choices(draft, code, laned))
    results = uses.flags(uses.out[rows])
    totals = totals[(code["stage"][totals] == MAIN) & (code["op"][totals] & 1 == F64)]
    totals = totals[results[uses.operands[totals, 0]]]
    if not len(totals):
        return None
    others = np.ones(len(code), bool)
    others[rows] = others[totals] = False
    barred = uses.read_by(others) | draft.fixed(uses)
    # Arrays that are computed need their operands, and the operands of these.
    barred = reach(*reversed_edges(uses.out[rows], uses.operands[rows]), barred)
    rows = rows[~barred[uses.out[rows]]]
    found = _Narrow(draft, laned, *(dict(_numbered(code, its)) for its in (rows, totals)))
    return found.settle()


def _numbered(code: np.ndarray, rows: np.ndarray) -> Iterable[tuple[int, Instruction]]:
    return zip(rows.tolist(), instructions(chosen(code, rows).tolist()), strict=True)


def _choices(draft: Draft, code: np.ndarray, laned: np.ndarray) -> np.ndarray:
    """Return which instructions choose between a value with lanes and zero, by a value without."""
    found = np.zeros(len(code), bool)
    rows = flatnonzero(draft.ops.is_any(draft.ops.with_trait("chooses"), code["op"]))
    if len(rows):
        operands = draft.uses(code).operands[rows]
        zero = np.zeros(draft.count, bool)
        data = np.array([item.data.size == 1 and item.data[0] == 0.0 for item in draft.literals], bool)
        zero[draft.literal_groups()[data]] = True
        family = draft.storage_columns()[1][draft.storage[code["a"][rows]]]
        found[rows] = ~laned[operands[:, 0]] & zero[operands[:, 1:3]].any(axis=1) & (family == F64)
    return found


class _Narrow:
    """Leaves out arrays until only sums of those that are left, and each other, read those that are left."""

    def __init__(self, draft: Draft, laned, arrays: dict[int, Instruction], sums: dict[int, Instruction]):
        self.draft, self.laned = draft, laned
        self.arrays, self.sums = arrays, sums
        self.made = {draft.group.item(row.out): row.out for row in arrays.values()}

    def settle(self) -> NarrowRows | None:
        group = self.draft.group
        while True:
            terms = self._terms()
            read = self._badly_read(terms)
            left = {g: value for g, value in self.made.items() if terms[g] and g not in read}
            if len(left) == len(self.made):
                break
            self.made = left
            self.arrays = {k: row for k, row in self.arrays.items() if group.item(row.out) in left}
        sums = {k: row for k, row in self.sums.items() if group.item(row.a) in left}
        return NarrowRows(self.arrays, sums, self.laned) if sums else None

    def _terms(self) -> dict[int, frozenset[Place]]:
        """Return the values that each array is a sum of products of; none if one of them is not narrow.

        An array with such a value will be computed, so that it is a value itself for those that read it.
        """
        terms: dict[int, frozenset[Place]] = {}
        for row in self.arrays.values():
            whole = self.draft.layout_of(row.out)
            found: set[Place] = set()
            for value in row.operands:
                its = self.draft.group.item(value)
                if terms.get(its) and self._is_whole(value, self.made[its], whole):
                    found |= terms[its]
                elif self.laned[its]:
                    found.add(place_in(self.draft, value, whole))
            wide = any(len(varying(whole, place[2])) == _rank(whole) for place in found)
            terms[self.draft.group.item(row.out)] = frozenset(() if wide or len(found) > TERMS else found)
        return terms

    def _badly_read(self, terms: dict[int, frozenset[Place]]) -> set[int]:
        """Return the arrays that something reads which needs their entries."""
        draft, bad = self.draft, set()
        for row in self.sums.values():
            its = draft.group.item(row.a)
            if its in self.made and not is_served(draft, row, self.made[its], terms[its]):
                bad.add(its)
        for row in reversed(self.arrays.values()):
            out, result = draft.group.item(row.out), draft.layout_of(row.out)
            for value in row.operands:
                its = draft.group.item(value)
                if its in self.made and (
                    out in bad or not terms[out] or not self._is_whole(value, self.made[its], result)
                ):
                    bad.add(its)
        return bad

    def _is_whole(self, value: int, made: int, result: Layout) -> bool:
        """Whether a value is all of an array, in the shape of a result."""
        mine, its = self.draft.layout_of(value), self.draft.layout_of(made)
        if self.draft.address(value)[1] != self.draft.address(made)[1]:
            return False
        if mine == its and mine.dims == result.dims:
            return True
        settled = self.draft.sizes.settled
        return [*map(settled, mine.strides)] == [*map(settled, its.strides)] and [
            *map(settled, mine.dims)
        ] == [*map(settled, its.dims)] == [*map(settled, result.dims)]


def _rank(layout: Layout) -> int:
    """Return how many axes may have more than one entry."""
    return sum(dim != 1 for dim in layout.dims)


def place_in(draft: Draft, value: int, whole: Layout) -> Place:
    """Return where a value is that broadcasts to an array: its strides along steady axes are 0."""
    storage, offset, _ = draft.address(value)
    return storage, offset, strides_in(draft, draft.layout_of(value), len(whole.dims))


def strides_in(draft: Draft, layout: Layout, rank: int) -> tuple[int, ...]:
    """Return the strides of a layout along the last axes of an array, 0 where it does not change.

    A size of an argument that a guard says to be 1 broadcasts as 1 does.
    """
    pairs, settled = zip(layout.dims, layout.strides, strict=True), draft.sizes.settled
    its = tuple(0 if settled(dim) == 1 else stride for dim, stride in pairs)
    return (0,) * (rank - len(its)) + its


def varying(whole: Layout, strides: tuple[int, ...]) -> frozenset[int]:
    """Return the axes of an array along which a value with these strides changes."""
    pairs = enumerate(zip(whole.dims, strides, strict=True))
    return frozenset(axis for axis, (dim, stride) in pairs if dim != 1 and stride != 0)


def summed_axes(draft: Draft, row: Instruction, made: int) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return the axes that a sum of an array keeps, and those that it sums over; None if its view fits none.

    The view that is summed has all entries of the array: as a vector, or with its axes in some order.
    """
    view, whole = draft.layout_of(row.a), draft.layout_of(made)
    every = tuple(range(len(whole.dims)))
    if draft.address(row.a)[1] != 0:
        return None
    axes = axes_of(view, whole)
    if axes is not None and axes[-1] is not None and None not in axes:
        order = tuple(axis for axis in axes if axis is not None)
        rest = [axis for axis in every if axis not in order]
        if len({*order}) == len(order) and all(whole.dims[axis] == 1 for axis in rest):
            return order[:-1], order[-1:]
    strides, size = draft.builder.contiguous_strides(whole.dims)
    flat = whole.strides == strides and view == Layout((size,), (1,))
    return ((), every) if flat else None


def joined_axes(draft: Draft, whole: Layout, axes: tuple[int, ...]) -> tuple[int, int] | None:
    """Return size and stride of some axes of a contiguous array as one, or None if they are not adjacent."""
    sizes, strides = draft.sizes, draft.builder.contiguous_strides(whole.dims)[0]
    size, step = 1, 0
    for axis in reversed(axes):
        if whole.dims[axis] == 1:
            continue
        if size != 1 and sizes.settled(strides[axis]) != sizes.settled(sizes.mul(size, step)):
            return None
        if size == 1:
            step = strides[axis]
        size = sizes.mul(size, whole.dims[axis])
    return size, step


def is_served(draft: Draft, row: Instruction, made: int, terms: Iterable[Place]) -> bool:
    """Whether the sum of a product of each value is one of coefficients, or a product of a matrix with it."""
    axes, whole = summed_axes(draft, row, made), draft.layout_of(made)
    if axes is None:
        return False
    kept, summed = axes
    for _, _, strides in terms:
        along = varying(whole, strides)
        if not along.isdisjoint(summed):
            if not along <= {*summed} or len(along) > 1:
                return False
            if joined_axes(draft, whole, kept) is None:
                return False
    return True
