"""`CountedSizes`: the sizes of a trace that data decide, such as how many entries a mask selects.

On the tape such a size is the first dimension of a further input, behind those of the arguments, and a
guard compares it with what the data say (`numbatape.trace.extents.counted`). So one trace serves any number,
as it serves every length; only which number comes in a call is not known before the tape has counted. A call
tries the number that came last for arguments of its sizes. Where the guard sees another one, the trace is
planned for that.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..tape import Tape
from ..tape.instruction import GUARD, NONE
from ..tape.size_tables import SizeGuard

if TYPE_CHECKING:
    from .variant import VariantWorkspace

MOST_KNOWN = 4096  # the entries of each table that is kept here; then it is emptied
MOST_COUNTS = 200  # one call tries at most this many counts
# The entries for one set of sizes of the arguments: those whose counts constants decide, and others. Other
# constants make entries compute their prologues again.
MOST_OF_CONSTANTS, MOST_COUNTED = 4, 256


class CountedSizes:
    """The counted sizes of one trace.

    Parameters
    ----------
    tape
        Its tape, whose last inputs stand for them.
    counted
        The number of the guard of each (NONE if nothing compares it), and its value in the trace.

    Attributes
    ----------
    guards
        The numbers of the guards.
    in_prologue
        Whether constants decide all of them.
    """

    def __init__(self, tape: Tape, counted: tuple[tuple[int, int], ...]):
        self._sizes = tape.sizes
        self.guards = tuple(guard for guard, _ in counted)
        self._latest = tuple(count for _, count in counted)
        code = tape.code[tape.prologue :]
        late = code["aux"][code["op"] == GUARD].tolist()
        self.in_prologue = not set(late).intersection(self.guards)
        self._known: dict[tuple, tuple[int, ...]] = {}
        # All counts, by the arguments' dimensions and the first ones of them.
        self._began: dict[tuple, tuple[int, ...]] = {}
        self._followers: dict[tuple, tuple[int, ...] | None] = {}

    def are_enough(self, entries: int) -> bool:
        """Whether these are as many entries for some sizes as may differ in counts.

        Where constants decide, a general call for others takes the workspaces of one or two entries.
        """
        return entries >= (MOST_OF_CONSTANTS if self.in_prologue else MOST_COUNTED)

    @staticmethod
    def key_of(space: VariantWorkspace, dimensions: tuple[int, ...] | None) -> tuple:
        """Return the key of an entry of a trace for some sizes of all inputs, with a workspace's lanes."""
        return id(space.variant), dimensions, space.widths

    def tried_for(self, dimensions: tuple[int, ...]) -> tuple[int, ...] | None:
        """Return the dimensions of all inputs to try for arguments of some sizes; None if there are none."""
        return self._fitting(dimensions, list(self._known.get(dimensions, self._latest)), 0)

    def last_with(self, dimensions: tuple[int, ...]) -> tuple[int, ...]:
        """Return the dimensions of all inputs with the counts that came last."""
        return _whole(dimensions, list(self._latest))

    def seen(self, dimensions: tuple[int, ...], at: int) -> int:
        """Return the count that a sweep at some dimensions of all inputs had, of the guard with a number."""
        # The sizes are the last inputs, and each has two dimensions, see `_whole`.
        return dimensions[2 * (self.guards.index(at) - len(self.guards))]

    def corrected(self, dimensions: tuple[int, ...], tried: tuple[int, ...], at: int, count: int):
        """Return the dimensions to try after a guard has seen another count; None if the trace fits none.

        Parameters
        ----------
        dimensions, tried
            Those of the arguments, and of all inputs.
        at, count
            The number of the guard, and what it has seen.
        """
        counts = list(tried[len(dimensions) :: 2])
        place = self.guards.index(at)
        counts[place] = count
        if count < 0:
            return None
        counts = [*self._began.get((dimensions, *counts[: place + 1]), counts)]
        return self._fitting(dimensions, counts, place + 1)

    def following(self, space: VariantWorkspace) -> tuple[int, ...] | None:
        """Return the dimensions to try after a sweep of a workspace that has stopped at a guard, or None."""
        stopped, dimensions = space.stopped, space.dimensions
        key = dimensions, stopped, space.guard_value(stopped)
        if key not in self._followers:
            if len(self._followers) >= MOST_KNOWN:
                self._followers.clear()
            self._followers[key] = self._following(space.plan.tape, *key)
        return self._followers[key]

    def _following(self, tape: Tape, tried: tuple[int, ...], stopped: int, more: float):
        guard = int(tape.code["aux"][stopped])
        if guard not in self.guards or tape.code["op"][stopped] != GUARD or not math.isfinite(more):
            return None
        given = tried[: len(tried) - 2 * len(self.guards)]
        return self.corrected(given, tried, guard, self.seen(tried, guard) + int(more))

    def keep(self, dimensions: tuple[int, ...], tried: tuple[int, ...]) -> None:
        """Note that these were the right ones for arguments of some sizes."""
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
        if len(self._began) >= MOST_KNOWN:
            self._began.clear()
            self._followers.clear()
        counts = self._latest = self._known[dimensions] = tried[len(dimensions) :: 2]
        for place in range(1, len(counts)):
            key = (dimensions, *counts[:place])
            if self._began.get(key) != counts:
                self._began[key] = counts
                self._followers.clear()

    def _fitting(self, dimensions: tuple[int, ...], counts: list[int], known: int) -> tuple[int, ...] | None:
        """Return dimensions that the trace's relations between sizes allow; the first ``known`` counts stay.

        Counts often belong together: as many entries are read as are written. So where one has changed,
        others follow from the relations. This is a guess, which their guards check.
        """
        # A count that was changed may have to change once more, with a later one. Relations that contradict
        # each other must not keep this loop going.
        for _ in range(2 * len(counts) + 1):
            whole = _whole(dimensions, counts)
            try:
                guard = self._sizes.broken_guard(self._sizes.evaluate(whole))
                if guard is None:
                    return whole
                if not self._mend(guard, dimensions, counts, known):
                    return None
            except (ZeroDivisionError, OverflowError):
                return None
        return None

    def _mend(self, guard: SizeGuard, dimensions: tuple[int, ...], counts: list[int], known: int) -> bool:
        """Change one of the counts that are not known so that a relation holds; return whether one does."""
        gap = self._gap(guard, dimensions, counts)
        for place in reversed(range(len(counts))):  # later ones mostly follow from earlier ones
            if place < known and self.guards[place] != NONE:
                continue
            before = counts[place]
            counts[place] = before + 1
            slope = self._gap(guard, dimensions, counts) - gap
            counts[place] = before
            if slope:
                # Both sides become equal, or the left one larger by less than a slope, as `>=` allows.
                counts[place] += -(gap // slope) if slope > 0 else -gap // slope
                if counts[place] >= 0 and guard.holds(*self._ends(guard, dimensions, counts)):
                    return True
                counts[place] = before
        return False

    def _gap(self, guard, dimensions, counts) -> int:
        left, right = self._ends(guard, dimensions, counts)
        return left - right

    def _ends(self, guard, dimensions, counts) -> tuple[int, int]:
        values = self._sizes.evaluate(_whole(dimensions, counts))
        left, right = (code if code >= 0 else values[-code - 1] for code in (guard.left, guard.right))
        return left, right


def _whole(dimensions: tuple[int, ...], counts: list[int]) -> tuple[int, ...]:
    """Return the dimensions of all inputs: each count is that of an input with two, and no entries."""
    return (*dimensions, *(n for count in counts for n in (count, 0)))
