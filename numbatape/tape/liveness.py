"""Which instructions nobody needs: their results are read by none that is needed, and are no output."""

from __future__ import annotations

import numpy as np

from .instruction import GUARD, NONE
from .tape import POOLS


class Cells:
    """Which values of a builder share cells.

    Attributes
    ----------
    values
        The values as an array.
    group
        The group of each value: of a pool's cell, or of a storage with all of its views. The last entry is
        for operands that are not there.
    count
        How many groups there are; also the number of the group for missing operands.
    first
        The group of each pool's first cell; then that of the first storage.
    """

    def __init__(self, builder):
        self.values = builder.values.columns()
        self.first = np.concatenate([[0], np.cumsum(builder.pool_cells)])
        storage = self.values["storage"]
        in_pool = storage < len(POOLS)
        places = self.first[np.where(in_pool, storage, 0)] + self.values["offset"]
        group = np.where(in_pool, places, self.first[-1] + storage)
        self.count = int(self.first[-1]) + len(builder.storages)
        self.group = np.append(group, self.count)

    @classmethod
    def of(cls, builder) -> Cells:
        """Return the cells of a builder's values, which several steps of freezing ask for."""
        if builder.cells is None or len(builder.cells.values) != len(builder.values):
            builder.cells = cls(builder)
        return builder.cells

    def needed(self, builder, outputs) -> np.ndarray:
        """Return which groups are needed after the last instruction: those of outputs and inputs."""
        ends = np.zeros(self.count + 1, bool)
        ends[self.group[[*outputs, *(slot.value for slot in builder.inputs)]]] = True
        return ends

    def of_literal(self, item) -> int:
        """Return the group of a literal's cells."""
        if item.storage < len(POOLS):
            return int(self.first[item.storage]) + item.offset
        return int(self.first[-1]) + item.storage


def without_dead(builder, code: np.ndarray, outputs) -> np.ndarray:
    """Return the instructions that an output or a guard needs, and those that may fail.

    Whether an instruction fails decides what the function does, so it stays although nobody reads its result,
    unless it is `TapeBuilder.spare`; but no adjoint ever reaches it.
    """
    cells = Cells.of(builder)
    guards = code["op"] == GUARD
    fails = builder.ops.is_any(builder.ops.fallible, code["op"])
    if builder.spare:
        fails &= ~np.isin(code["out"], list(builder.spare))
    liveness = Liveness(code, cells.group, cells.needed(builder, outputs))
    dead = liveness.dead(guards)
    if (dead & fails).any():
        unread, dead = dead, liveness.dead(guards | fails)
        code = code.copy()
        code["active"][unread & ~dead] = 0
    return code[~dead] if dead.any() else code


class Liveness:
    """Who reads what, of all instructions at once.

    Most tapes hardly have an instruction that nobody reads: only those, and what they alone read, are looked
    at one by one.

    Parameters
    ----------
    code
        Instructions as columns, in program order.
    group
        The group of each value (values that share cells); the last entry is for missing operands.
    ends
        What is needed after the last instruction, by group.
    """

    def __init__(self, code, group, ends):
        scratch = np.where(code["op"] == GUARD, NONE, code["aux"])
        self.out = group[code["out"]]
        self.operands = np.stack([*(group[code[name]] for name in "abc"), group[scratch]], axis=1)
        self.ends = ends

    def dead(self, needed) -> np.ndarray:
        """Return the instructions that may go; those in ``needed`` stay whether they are read or not.

        What counts is who reads a result later: an instruction that adds to a buffer reads it too.
        """
        count, groups = len(self.out), len(self.ends)
        numbers = np.arange(count)
        last = np.full(groups, -1)  # the last instruction that reads a group
        last[self.operands.reshape(-1)] = np.repeat(numbers, 4)  # of several assignments the last one holds
        last[-1] = -1
        stays = needed | self.ends[self.out]
        dead = ~stays & (last[self.out] <= numbers)
        queue = np.flatnonzero(dead).tolist()
        if not queue:
            return dead
        readers, first_reader = _sorted_by(self.operands.reshape(-1), groups)
        writers, first_writer = _sorted_by(self.out, groups)
        end = first_reader[1:]  # behind the last reader of a group that is not dead
        settled, gone = (stays | dead).tolist(), dead.tolist()
        while queue:
            for own in self.operands[queue.pop()].tolist():
                if own == groups - 1:
                    continue
                while end[own] > first_reader[own] and gone[readers[end[own] - 1] // 4]:
                    end[own] -= 1
                read = readers[end[own] - 1] // 4 if end[own] > first_reader[own] else -1
                for k in reversed(writers[first_writer[own] : first_writer[own + 1]]):
                    if k < read:
                        break
                    if not settled[k]:
                        settled[k] = gone[k] = True
                        queue.append(k)
        return np.array(gone)


def _sorted_by(keys, count: int) -> tuple[list[int], list[int]]:
    """Return places sorted by what is there, and where those of each key begin.

    As lists, because reading an entry of an array takes ten times as long.
    """
    order = np.argsort(keys, kind="stable")
    return order.tolist(), np.searchsorted(keys[order], np.arange(count + 1)).tolist()
