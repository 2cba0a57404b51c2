"""The members of unions as rows of bits: one row per set, kept until its last use.

`IndexSets` makes unions in batches. In the batch of an array instruction no union refers to another one, so
a few NumPy calls compute all of them. Unions of one-cell instructions form chains and are computed one by
one, in the row of their predecessor where that is no longer needed.
"""

from __future__ import annotations

import numpy as np

ROOM = 1 << 24  # bytes gathered at once


def segments(start, length) -> np.ndarray:
    """Return ``start[0], start[0] + 1, ...``: the positions in all segments, one after the other."""
    before = np.cumsum(length) - length
    return np.repeat(start - before, length) + np.arange(int(length.sum()))


class BitRows:
    """Members of unions as bits.

    Parameters
    ----------
    size
        Number of things that may be in a set.
    start, length, union, cells
        The sets, as `IndexSets` keeps them.
    batches
        ``(first, last, independent)``: sets made together.
    """

    def __init__(self, size, start, length, union, cells, batches):
        self.start, self.length, self.union, self.cells = start, length, union, cells
        self.size, self.batches = size, batches
        self.uses = np.zeros(len(start), np.int64)
        self.slot = np.full(len(start), -1)
        self.rows = np.zeros((64, max(1, -(-size // 8))), np.uint8)
        self.free = list(range(64))

    def members(self, wanted: np.ndarray) -> dict[int, np.ndarray]:
        """Return the members of each of some (distinct) unions."""
        self.uses[wanted] = 1
        plan = []
        for first, last, independent in reversed(self.batches):
            needed = first + np.flatnonzero(self.union[first:last] & (self.uses[first:last] > 0))
            if independent:
                self._count(needed)
            else:
                needed = self._count_chain(first, last)
            plan.append((needed, independent))
        found: dict[int, np.ndarray] = {}
        final = np.zeros(len(self.start), bool)
        final[wanted] = True
        for needed, independent in reversed(plan):
            if independent:
                self._batch(needed)
            else:
                for number in needed.tolist():
                    self._one(number)
            for number in needed[final[needed]].tolist():
                row = self.rows[self.slot[number]]
                found[number] = np.flatnonzero(np.unpackbits(row, count=self.size, bitorder="little"))
                self._release(number)
        return found

    # ---- which are needed, how often

    def _count(self, needed) -> None:
        parts = self.cells[segments(self.start[needed], self.length[needed])]
        np.add.at(self.uses, parts[self.union[parts]], 1)

    def _count_chain(self, first, last) -> np.ndarray:
        needed = []
        for number in range(last - 1, first - 1, -1):
            if self.uses[number] and self.union[number]:
                needed.append(number)
                start = self.start[number]
                # The parts of a union are distinct, so that each place is added to once.
                self.uses[self.cells[start : start + self.length[number]]] += 1
        return np.array(needed[::-1], np.int64)

    # ---- rows

    def _release(self, number: int) -> None:
        self.uses[number] -= 1
        if not self.uses[number]:
            self.free.append(int(self.slot[number]))

    def _take_slots(self, count: int) -> np.ndarray:
        if len(self.free) < count:
            old = len(self.rows)
            more = max(count, old)
            self.rows = np.concatenate([self.rows, np.zeros((more, self.rows.shape[1]), np.uint8)])
            self.free += range(old, old + more)
        taken = self.free[len(self.free) - count :]
        del self.free[len(self.free) - count :]
        return np.array(taken, np.int64)

    def _one(self, number: int) -> None:
        """Compute one union, in the row of a part that nothing else needs, if there is one."""
        start = self.start[number]
        parts = self.cells[start : start + self.length[number]].tolist()
        nested = [part for part in parts if self.union[part]]
        heir = next((part for part in nested if self.uses[part] == 1), None)
        if heir is None:
            slot = self._take_slots(1)[0]
            self.rows[slot] = 0
        else:
            slot = self.slot[heir]
        row = self.rows[slot]
        self.slot[number] = slot
        for part in parts:
            if part == heir:
                continue
            if self.union[part]:
                row |= self.rows[self.slot[part]]
                self._release(part)
            else:
                first = self.start[part]
                for member in self.cells[first : first + self.length[part]].tolist():
                    row[member >> 3] |= 1 << (member & 7)

    def _batch(self, needed) -> None:
        """Compute unions none of which is a part of another."""
        slots = self._take_slots(len(needed))
        self.slot[needed] = slots
        self.rows[slots] = 0
        length = self.length[needed]
        owner = np.repeat(np.arange(len(needed)), length)
        parts = self.cells[segments(self.start[needed], length)]
        nested = self.union[parts]
        self._set_bits(slots[owner[~nested]], parts[~nested])
        self._or_rows(slots[owner[nested]], parts[nested])

    def _set_bits(self, slots, parts) -> None:
        lengths = self.length[parts]
        members = self.cells[segments(self.start[parts], lengths)]
        byte = np.repeat(slots * self.rows.shape[1], lengths) + (members >> 3)
        np.bitwise_or.at(self.rows.reshape(-1), byte, (1 << (members & 7)).astype(np.uint8))

    def _or_rows(self, slots, parts) -> None:
        """Unite rows with rows: the first part of each, then the second, so that targets are distinct."""
        while len(slots):
            _, first = np.unique(slots, return_index=True)
            step = max(1, ROOM // self.rows.shape[1])
            for k in range(0, len(first), step):
                now = first[k : k + step]
                self.rows[slots[now]] |= self.rows[self.slot[parts[now]]]
            rest = np.ones(len(slots), bool)
            rest[first] = False
            done = parts[first]
            np.subtract.at(self.uses, done, 1)
            spent = np.unique(done[self.uses[done] == 0])
            self.free += self.slot[spent].tolist()
            slots, parts = slots[rest], parts[rest]
