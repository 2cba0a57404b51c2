"""The values of a tape with lanes: which have lanes, in which cells these are, and the views of them."""

from __future__ import annotations

import functools

import numpy as np

from ..ops import OPS, ArrayOp
from ..tape import Tape
from ..tape.column_scans import reach
from ..tape.combinations import FEW, flatnonzero, numbered
from ..tape.instruction import GUARD, chosen, copied, joined, replace_items, value_numbers
from ..tape.sizes import Sizes
from ..tape.tape import CONSTANT, POOLS, STORAGE, VALUE, Layout
from ..tape.uses import groups_of


@functools.cache
def _are_whole() -> np.ndarray:
    """Return for each row that an opcode can name whether its results are in one piece."""
    found = np.zeros((GUARD >> 1) + 1, bool)
    found[[k for k, op in enumerate(OPS) if isinstance(op, ArrayOp) and not op.repeats]] = True
    return found


def distinct(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct numbers in an array, ascending, and the place of each entry among these.

    That is what np.unique does, which imports numpy.ma: 20 ms.
    """
    if len(codes) <= FEW:
        different = sorted({*codes.tolist()})
        rank = {number: k for k, number in enumerate(different)}
        return np.array(different, codes.dtype), np.array([rank[each] for each in codes.tolist()], np.int64)
    places, count = numbered(codes)
    found = np.empty(count, codes.dtype)
    found[places] = codes
    return found, places


def _distinct_below(codes: np.ndarray, bound: int) -> tuple[np.ndarray, np.ndarray]:
    """Return what `distinct` returns, for numbers from 0 on if most numbers below their bound occur."""
    if len(codes) <= FEW:
        return distinct(codes)
    occurs = np.zeros(bound, bool)
    occurs[codes] = True
    different = flatnonzero(occurs)
    place = np.empty(bound, np.int32)
    place[different] = np.arange(len(different), dtype=np.int32)
    return different, place.take(codes)


class LaneValues:
    """Sizes, storages and values of the tape with lanes, while it is made.

    What shares cells is named by a *group*: a cell of a pool, or a storage with all of its views.

    Parameters
    ----------
    tape
        The tape without lanes.
    slots
        Numbers of the inputs that get lanes.
    fixed
        Whether the contents of the lanes never change.
    dimensions
        Some input dimensions for which the tape holds.
    behind
        As in `Lanes`.

    Attributes
    ----------
    lanes
        The number of lanes as a size code.
    group
        The group of each value of the tape; the last entry is for missing operands.
    laned, unchanging
        By group: whether it depends on the lanes; whether it depends on constants and fixed lanes only.
    """

    def __init__(
        self,
        tape: Tape,
        slots: frozenset[int],
        fixed: bool,
        dimensions: tuple[int, ...],
        behind: bool = False,
    ):
        self.tape = tape
        self.layouts = list(tape.layouts)
        self._layout_index = {(its.dims, its.strides): k for k, its in enumerate(self.layouts)}
        ranks = np.array([len(layout.dims) for layout in self.layouts], np.int8)
        self._ranks = ranks.take(tape.values["layout"])
        self._renumber(slots, dimensions, behind)
        self._first = np.concatenate([[0], np.cumsum(tape.storages["size"][: len(POOLS)])])
        storage, offset = tape.values["storage"], tape.values["offset"]
        in_pool = storage < len(POOLS)
        cells = self._first[np.where(in_pool, storage, 0)] + offset
        count = int(self._first[-1]) + len(tape.storages)
        self.group = np.append(np.where(in_pool, cells, self._first[-1] + storage), count)
        self._find_laned(slots, fixed, count)
        self._storages = [tape.storages]
        self._storage_count = len(tape.storages)
        self._values = tape.values
        self._value_count = len(tape.values)
        self._place()

    def group_of(self, storage):
        """Return the group of a storage that is no pool, or those of several."""
        return int(self._first[-1]) + storage

    def ranks_of(self, numbers: np.ndarray) -> np.ndarray:
        """Return the number of dimensions of values of the tape."""
        return self._ranks.take(numbers)

    # ---- sizes

    def _renumber(self, slots: frozenset[int], dimensions, behind: bool) -> None:
        """Number the input dimensions anew: the first one of an input with lanes is the lanes."""
        if behind:
            count = len(dimensions)
            self.sizes = Sizes.resume(self.tape.sizes, [*range(count)], [*dimensions])
            self.lanes = self.sizes.input(count, 2)
            self.leads = dict.fromkeys(slots, self.lanes)
            return
        tape, moved, leads = self.tape, [], {}
        new: list[int] = []
        old = iter(dimensions)
        for number, slot in enumerate(tape.inputs):
            if number in slots:
                leads[number] = len(new)
                new.append(2)
            for _ in slot.dims:
                moved.append(len(new))
                new.append(next(old))
        self.sizes = Sizes.resume(tape.sizes, moved, new)
        self.leads = {number: self.sizes.input(lead, 2) for number, lead in leads.items()}
        self.lanes, *others = self.leads.values()
        for other in others:
            self.sizes.guard(other, "==", self.lanes)

    # ---- what has lanes

    def _find_laned(self, slots: frozenset[int], fixed: bool, count: int) -> None:
        # What is not there is group 0 here, and all others are one more.
        shifted = np.append(self.group[:-1] + 1, 0).astype(np.int32)
        self._written, self._read = groups_of(self.tape.code, shifted)
        inputs = list(enumerate(self.tape.inputs))
        self.laned = self._dependents([slot.value for number, slot in inputs if number in slots], count)
        self.unchanging = np.zeros(count + 1, bool)
        if fixed:
            others = [s.value for number, s in inputs if number not in slots and s.level != CONSTANT]
            self.unchanging = ~self._dependents(others, count)
            self.unchanging[-1] = False
        self._laned_values = self.laned[self.group]

    def _dependents(self, sources: list[int], count: int) -> np.ndarray:
        """Return which groups depend on some values (included); the last entry, for no group, is False."""
        marked = np.zeros(count + 1, bool)
        marked[self.group[sources] + 1] = True
        found = reach(self._written, self._read, marked)
        return np.append(found[1:], False)

    # ---- cells

    def _place(self) -> None:
        """Choose where the lanes of each storage are, and make storages for one-cell values."""
        tape, first = self.tape, int(self._first[-1])
        whole = _are_whole()[tape.code["op"] >> 1]
        laned = self.laned[first:-1]
        kept_whole = np.zeros(len(self.laned) + 1, bool)
        kept_whole[self._written[whole]] = kept_whole[self._read[whole, -1]] = True
        self.interleaved = self.laned & ~kept_whole[1:] & self._mostly_cells()
        self.interleaved[:first] = False
        self._lane_stride = np.ones(len(self.laned), np.int64)
        sizes = tape.storages["size"].copy()
        apart = laned & ~self.interleaved[first:-1]
        self._lane_stride[first:-1][apart] = sizes[apart]
        sizes[laned] = self._times_lanes(sizes[laned])
        self._storages[0] = copied(tape.storages)
        self._storages[0]["size"] = sizes
        cells = flatnonzero(self.laned[:first])
        pool = np.searchsorted(self._first, cells, "right") - 1
        kinds = np.array(POOLS)[pool]
        self._storage_of_cell = np.zeros(first + 1, np.int64)
        self._storage_of_cell[cells] = self.new_storages(self.lanes, kinds[:, 1], kinds[:, 0])

    def _mostly_cells(self) -> np.ndarray:
        """Return the storages whose cells are more often read and written one at a time than as arrays."""
        values, count = self.tape.values, len(self.laned)
        single = self._ranks == 0
        some = np.zeros(count + 1, bool)  # groups other than pools' cells of which single cells are named
        some[self.group[:-1][single & (values["storage"] >= len(POOLS))] + 1] = True
        groups = np.concatenate((self._written[:, None], self._read[:, :-1]), axis=1).reshape(-1)
        at = flatnonzero(some.take(groups))
        row, place = np.divmod(at, self._read.shape[1])
        values_named = value_numbers(self.tape.code)[row, place]
        votes = np.bincount(groups[at], np.where(single[values_named], 1.0, -1.0), count + 1)
        return votes[1:] > 0

    def _times_lanes(self, codes: np.ndarray) -> np.ndarray:
        """Return the products of size codes with the number of lanes, each different one computed once."""
        if not len(codes):
            return codes
        found, places = distinct(codes)
        return np.array(self.sizes.multiples(self.lanes, found.tolist()), np.int64)[places]

    def new_storages(self, size: int, families, level) -> np.ndarray:
        """Append storages of one size, and return their numbers."""
        new = np.empty(np.size(families), STORAGE)
        new["size"], new["family"], new["level"] = size, families, level
        self._storages.append(new)
        first, self._storage_count = self._storage_count, self._storage_count + len(new)
        return np.arange(first, self._storage_count)

    def storages(self) -> np.ndarray:
        """Return all storages."""
        return joined(self._storages)

    # ---- values

    def layout(self, dims, strides) -> int:
        """Return the number of a layout."""
        key = tuple(dims), tuple(strides)
        number = self._layout_index.get(key)
        if number is None:
            number = self._layout_index[key] = len(self.layouts)
            self.layouts.append(Layout(*key))
        return number

    def new_values(self, storages: np.ndarray, offsets, layouts) -> np.ndarray:
        """Append values, and return their numbers."""
        first, stop = self._value_count, self._value_count + len(storages)
        # The columns of the tape itself are read-only, so they are copied first.
        if stop >= len(self._values):
            self._values, former = np.empty(2 * stop, VALUE), self._values
            replace_items(self._values, slice(first), former[:first])
        new = self._values[first:stop]
        new["storage"], new["offset"], new["layout"] = storages, offsets, layouts
        self._value_count = stop
        return np.arange(first, stop)

    def values(self) -> np.ndarray:
        """Return all values."""
        return self._values[: self._value_count]

    def views(self, numbers: np.ndarray, padding: np.ndarray | int = 0) -> np.ndarray:
        """Return values of the tape with lanes in front, then ``padding`` axes of one entry.

        Values without lanes, and missing operands, stay what they are.
        """
        found = np.array(numbers, np.int64)
        laned = self._laned_values[found]
        if not laned.any():
            return found
        padding = np.full(found.shape, padding)[laned]
        width = int(padding.max()) + 1
        keys = found[laned] * width + padding
        pairs, places = _distinct_below(keys, width * len(self.tape.values))
        number, padding = np.divmod(pairs, width) if width > 1 else (pairs, np.zeros(len(pairs), np.int64))
        old, group = chosen(self.tape.values, number), self.group[number]
        in_pools = int(self._first[-1])
        cell = group < in_pools
        storage = np.where(cell, self._storage_of_cell[np.where(cell, group, in_pools)], old["storage"])
        offset = np.where(cell, 0, old["offset"])
        between = self.interleaved[group]
        offset[between] = self._times_lanes(offset[between])
        strides, stride = distinct(self._lane_stride[group])
        kinds, kind = distinct(
            ((old["layout"].astype(np.int64) * width + padding) * len(strides) + stride) * 2 + between
        )
        layouts = np.array([self._laned_layout(*divmod(its, 2), width, strides) for its in kinds.tolist()])
        found[laned] = self.new_values(storage, offset, layouts[kind])[places]
        return found

    def _laned_layout(self, kind: int, between: int, width: int, lane_strides) -> int:
        """Return the layout of a view, for layout, padding and the stride of lanes as one number."""
        rest, stride = divmod(kind, len(lane_strides))
        layout, padding = divmod(rest, width)
        its = self.layouts[layout]
        strides = tuple(self.sizes.multiples(self.lanes, list(its.strides))) if between else its.strides
        return self.layout(
            (self.lanes, *[1] * padding, *its.dims), (int(lane_strides[stride]), *[0] * padding, *strides)
        )

    def stretch(self, storage: int, offset: int, count: int) -> np.ndarray:
        """Return adjacent cells of an array with lanes, lanes in front."""
        group, stride = self.group_of(storage), 1
        if self.interleaved[group]:
            offset, stride = self.sizes.mul(offset, self.lanes), self.lanes
        layout = self.layout((self.lanes, count), (int(self._lane_stride[group]), stride))
        return self.new_values(np.array([storage]), offset, layout)

    def seen_as(self, numbers: np.ndarray, dims, strides) -> np.ndarray:
        """Return other views of values' cells."""
        its = chosen(self.values(), numbers)
        return self.new_values(its["storage"], its["offset"], self.layout(dims, strides))

    def is_whole(self, value: int) -> bool:
        """Whether a value with lanes has all cells of its storage, lane after lane."""
        storage, offset, layout = self.tape.values[value].item()
        its = self.layouts[layout]
        expected, size = self.row_major(its.dims)
        return offset == 0 and its.strides == expected and size == int(self.tape.storages["size"][storage])

    def row_major(self, dims) -> tuple[tuple[int, ...], int]:
        """Return row-major strides and the number of cells, as size codes."""
        strides, size = [], 1
        for dim in reversed(dims):
            strides.append(size)
            size = self.sizes.mul(size, dim)
        return tuple(reversed(strides)), size
