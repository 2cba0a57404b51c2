"""Which instructions nobody needs: their results are read by none that is needed, and are no output."""

from __future__ import annotations

import numpy as np

from .instruction import GUARD, NONE


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

    def live_without(self, dead) -> np.ndarray:
        """Return which groups are needed when some instructions are gone."""
        live = self.ends.copy()
        live[self.operands[~dead].reshape(-1)] = True
        live[self.out[~dead]] = True
        live[-1] = False
        return live


def _sorted_by(keys, count: int) -> tuple[list[int], list[int]]:
    """Return places sorted by what is there, and where those of each key begin.

    As lists, because reading an entry of an array takes ten times as long.
    """
    order = np.argsort(keys, kind="stable")
    return order.tolist(), np.searchsorted(keys[order], np.arange(count + 1)).tolist()
