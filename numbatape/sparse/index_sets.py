"""`IndexSets`: the sets of input cells that tape cells depend on, shared by number.

A set has a number: 0 is the empty set, 1 + j is {j}. Most operations leave a cell's set as it was, so
that a sweep over a tape is mostly a copying of numbers; only `unite` makes new sets. Small ones are
kept as sorted members. Large ones are kept as the numbers of the sets that they unite: a running
total over n inputs costs n pairs, where members would cost n**2 / 2. `resolve` multiplies out those
that the outputs need.
"""

from __future__ import annotations

import math

import numpy as np

from .bits import BitRows, segments

SMALL = 64  # sets of more members are kept as unions, unless they equal one of their parts
ONE_BY_ONE = 16  # batches up to this size take a running union cell by cell
FEW = 32  # up to so many sets are united one by one: 0.3 us each, arrays cost 0.3 ms
WEIGHT = 1 << 22  # members handled at once, and at most in one union


def distinct(keys: np.ndarray) -> np.ndarray:
    """Return the sorted distinct keys; `numpy.unique` without its options costs twice as much."""
    keys = np.sort(keys)
    return keys[np.append(True, keys[1:] != keys[:-1])] if keys.size else keys


def grown(array: np.ndarray, size: int) -> np.ndarray:
    """Return an array with room for ``size`` entries; doubling keeps many appends linear."""
    if size <= len(array):
        return array
    return np.append(array, np.zeros(max(size, len(array)), array.dtype))


class IndexSets:
    """Sets of numbers below ``size``.

    Attributes
    ----------
    size
        Number of things that may be in a set.
    count
        Number of sets so far.
    """

    def __init__(self, size: int):
        self.size = size
        self.count = size + 1
        self._start = np.append(0, np.arange(size))  # where a set's members (or parts) are in _cells
        self._length = np.append(0, np.ones(size, np.int64))
        self._union = np.zeros(size + 1, bool)  # whether _cells has the parts of a union
        self._cells = np.arange(size)
        # How many entries are used: of _cells, and of arrays with an entry for each set.
        self._used, self._filled = size, size + 1
        self._batches: list[tuple[int, int, bool]] = []  # (first, last, independent) of unions
        # One-cell instructions come by the hundred thousand, and work on these alone.
        self._members: dict[int, frozenset | None] = {0: frozenset()}  # None: a union
        self._parts: dict[int, tuple[int, ...]] = {}
        self._pairs: dict[tuple[int, int], int] = {}
        self._new: list[tuple[int, ...] | frozenset] = []  # made by `pair`, not in the arrays yet

    # ---- one at a time

    def pair(self, a: int, b: int) -> int:
        """Return the union of two sets."""
        if a == b or b == 0:
            return a
        if a == 0:
            return b
        key = (a, b) if a < b else (b, a)
        found = self._pairs.get(key)
        if found is None:
            found = self._pairs[key] = self._new_pair(a, b)
        return found

    def _new_pair(self, a: int, b: int) -> int:
        left, right = self._members_of(a), self._members_of(b)
        if left is None or right is None:
            if left is None and b in self._parts.get(a, ()):
                return a
            if right is None and a in self._parts.get(b, ()):
                return b
            return self._append_pair((a, b), None)
        union = left | right
        if len(union) == len(left):
            return a
        if len(union) == len(right):
            return b
        small = len(union) <= SMALL
        return self._append_pair((a, b), union if small else None)

    def _append_pair(self, parts, members: frozenset | None) -> int:
        number = self.count
        self.count += 1
        self._members[number] = members
        if members is None:
            self._parts[number] = parts
        self._new.append(parts if members is None else members)
        return number

    def _members_of(self, number: int) -> frozenset | None:
        try:
            return self._members[number]
        except KeyError:
            start, length = int(self._start[number]), int(self._length[number])
            cells = self._cells[start : start + length].tolist()
            if self._union[number]:
                self._parts[number] = tuple(cells) if length <= SMALL else ()
                found = None
            else:
                found = frozenset(cells)
            self._members[number] = found
            return found

    def _flush(self) -> None:
        """Bring what `pair` made into the arrays."""
        if not self._new:
            return
        new, self._new = self._new, []
        union = np.array([type(item) is tuple for item in new])
        length = np.array([len(item) for item in new])
        cells = np.array([cell for item in new for cell in sorted(item)])
        self._extend(length, cells, union, independent=False)

    def _extend(self, length, cells, union, independent=True) -> None:
        """Append sets to the arrays: members or parts, one after the other."""
        if not len(length):
            return
        first, last = self._filled, self._filled + len(length)
        self._start, self._length, self._union = (
            grown(array, last) for array in (self._start, self._length, self._union)
        )
        self._cells = grown(self._cells, self._used + len(cells))
        self._start[first:last] = self._used + np.cumsum(length) - length
        self._length[first:last] = length
        self._union[first:last] = union
        self._cells[self._used : self._used + len(cells)] = cells
        self._used += len(cells)
        self._filled = last
        if np.any(union):
            self._batches.append((first, last, independent))
        self.count = max(self.count, last)

    # ---- many at once

    def unite(self, owner: np.ndarray, member: np.ndarray, groups: int) -> np.ndarray:
        """Return the union of each group's sets: set ``member[k]`` belongs to group ``owner[k]``."""
        if len(member) <= FEW:
            few = [0] * groups
            for k, number in zip(owner.tolist(), member.tolist(), strict=True):
                few[k] = self.pair(few[k], number)
            return np.array(few, np.int64)
        self._flush()
        kept = member != 0
        key = distinct(owner[kept] * self.count + member[kept])
        owner, member = np.divmod(key, self.count)
        sizes = np.bincount(owner, minlength=groups)
        start = np.cumsum(sizes) - sizes
        result = np.zeros(groups, np.int64)
        lone = sizes == 1
        result[lone] = member[start[lone]]
        several = np.flatnonzero(sizes > 1)
        if not several.size:
            return result
        start, sizes = start[several], sizes[several]
        if sizes.max() == 2:  # unions of two are often the same in many cells
            pairs = member[start] * self.count + member[start + 1]
            pairs, inverse = np.unique(pairs, return_inverse=True)
            member = np.stack(np.divmod(pairs, self.count), axis=1).reshape(-1)
            result[several] = self._make(np.full(len(pairs), 2), member)[inverse]
        else:
            result[several] = self._make(sizes, member[segments(start, sizes)])
        return result

    def unite_rows(self, rows: np.ndarray) -> np.ndarray:
        """Return the union of the sets in each row of a matrix of set numbers."""
        count, width = rows.shape
        return self.unite(np.repeat(np.arange(count), width), rows.reshape(-1), count)

    def unite_cells(self, *operands: np.ndarray) -> np.ndarray:
        """Return the unions cell by cell of arrays of one shape."""
        first, *rest = operands
        if not rest or all(np.array_equal(first, other) for other in rest):
            return first
        columns = np.stack([array.reshape(-1) for array in operands], axis=1)
        return self.unite_rows(columns).reshape(first.shape)

    # ---- along axes: what array ops say about their operands (`numbatape.ops.dependencies`)

    def whole(self, *operands) -> np.ndarray:
        """Return one set a batch element: of all cells of all operands that there are."""
        present = [x.reshape(len(x), -1) for x in operands if x is not None]
        return self.unite_rows(np.concatenate(present, axis=1))

    def along_last(self, x: np.ndarray) -> np.ndarray:
        """Return the unions along the last axis."""
        return self.unite_rows(x.reshape(math.prod(x.shape[:-1]), x.shape[-1])).reshape(x.shape[:-1])

    def running(self, x: np.ndarray) -> np.ndarray:
        """Return, at each place of the last axis, the union of what stands there and before."""
        rows = x.reshape(math.prod(x.shape[:-1]), x.shape[-1])
        result = np.zeros_like(rows)
        if len(rows) <= ONE_BY_ONE:
            for row, line in enumerate(rows.tolist()):
                so_far = 0
                for k, number in enumerate(line):
                    line[k] = so_far = self.pair(so_far, number)
                result[row] = line
        else:
            totals = np.zeros(len(rows), np.int64)
            for k in range(rows.shape[1]):
                result[:, k] = totals = self.unite_cells(totals, rows[:, k])
        return result.reshape(x.shape)

    def together(self, shape, *operands) -> np.ndarray:
        """Return the unions cell by cell of those operands that there are, broadcast to a shape."""
        present = [np.broadcast_to(x, shape) for x in operands if x is not None]
        return self.unite_cells(*present) if present else np.zeros(shape, np.int64)

    def _make(self, sizes, parts) -> np.ndarray:
        """Return the numbers of unions of two or more distinct sets, ``sizes`` parts each."""
        start = np.cumsum(sizes) - sizes
        weight = np.add.reduceat(self._length[parts], start)
        direct = ~np.logical_or.reduceat(self._union[parts], start) & (weight <= WEIGHT)
        result = np.zeros(len(sizes), np.int64)
        lazy = [np.flatnonzero(~direct)]
        chosen = np.flatnonzero(direct)
        while chosen.size:
            fitting = max(1, int(np.searchsorted(np.cumsum(weight[chosen]), WEIGHT, "right")))
            now, chosen = chosen[:fitting], chosen[fitting:]
            result[now] = found = self._make_small(sizes[now], parts[segments(start[now], sizes[now])])
            lazy.append(now[found == 0])
        unions = np.sort(np.concatenate(lazy))
        if unions.size:
            result[unions] = self.count + np.arange(len(unions))
            self._extend(sizes[unions], parts[segments(start[unions], sizes[unions])], True)
        return result

    def _make_small(self, sizes, parts) -> np.ndarray:
        """Return the numbers of unions, 0 for those of more than `SMALL` members."""
        owner = np.repeat(np.arange(len(sizes)), sizes)
        lengths = self._length[parts]
        rows = np.repeat(owner, lengths)
        key = distinct(rows * self.size + self._cells[segments(self._start[parts], lengths)])
        rows, members = np.divmod(key, self.size)
        total = np.bincount(rows, minlength=len(sizes))
        result = np.zeros(len(sizes), np.int64)
        whole = np.flatnonzero(lengths == total[owner])  # a part with all of the union's members
        result[owner[whole]] = parts[whole]
        fresh = (result == 0) & (total <= SMALL)
        result[fresh] = self.count + np.arange(np.count_nonzero(fresh))
        self._extend(total[fresh], members[fresh[rows]], False)
        return result

    # ---- what is in them

    def resolve(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the members of sets as ``(indptr, indices)`` of a CSR matrix, one row per set."""
        self._flush()
        known, inverse = np.unique(numbers, return_inverse=True)
        large = {}
        if self._union[known].any():
            arrays = (array[: self.count] for array in (self._start, self._length, self._union))
            rows = BitRows(self.size, *arrays, self._cells, self._batches)
            large = rows.members(known[self._union[known]])
        length = self._length[known]
        start = self._start[known]
        cells = self._cells[: self._used]
        if large:
            rows = [large[number] for number in known[self._union[known]].tolist()]
            length[self._union[known]] = [len(row) for row in rows]
            start[self._union[known]] = len(cells) + np.cumsum([0] + [len(row) for row in rows[:-1]])
            cells = np.concatenate([cells, *rows])
        lengths = length[inverse]
        indices = cells[segments(start[inverse], lengths)]
        return np.append(0, np.cumsum(lengths)), indices
