"""`Stop`: the guard at which a sweep has stopped, and which traces the inputs may fit instead."""

from __future__ import annotations

import math

from ..late import imported
from ..savings import frozen
from .arguments import Flattened
from .variant import Variant, VariantWorkspace


@frozen()
class Stop:
    """The guard at which a sweep stopped, because its outcome is not the recorded one."""

    variant: Variant
    at: int  # the number of the guard that did not hold
    seen: float
    in_prologue: bool  # guards of the main part have not run yet, even those traced before it
    dimensions: tuple[int, ...]  # those of all inputs without lanes, one after the other

    @classmethod
    def of(cls, space: VariantWorkspace) -> Stop:
        tape = space.plan.tape
        at = space.stopped_guard
        seen = space.guard_value(space.stopped)
        kind = tape.guards[at].kind
        if kind == "bool":
            seen = bool(seen)
        elif kind == "count" and math.isfinite(seen):
            # The guard's number is relative to the count that was tried, which is added here.
            assert space.variant.counted is not None
            seen = int(seen) + space.variant.counted.seen(space.dimensions, at)
        elif kind == "int" and math.isfinite(seen):  # NaN and infinities are no integers, and fit no variant
            seen = int(seen)
        return cls(space.variant, at, seen, space.stopped < tape.prologue, space.dimensions)

    @property
    def is_counted(self) -> bool:
        """Whether the guard compares a size that data decide."""
        return self.variant.counted is not None and self.at in self.variant.counted.guards

    def other_sizes(self, flat: Flattened, stops: int) -> tuple[int, ...] | None:
        """Return dimensions of all inputs that the same trace may hold for, after so many stops, or None."""
        counted = self.variant.counted
        if counted is None or not self.is_counted or not math.isfinite(self.seen):
            return None
        if stops > imported(".counted_sizes", __package__).MOST_COUNTS:
            return None
        return counted.corrected(flat.dimensions, self.dimensions, self.at, int(self.seen))

    def allows(self, other: Variant) -> bool:
        """Whether the inputs that stopped there may take another variant's path."""
        if self.is_counted:
            # A guard on a count is relative to the size that its own sweep tries, so its
            # outcomes cannot be compared.
            return other is not self.variant
        if other.outcomes[: self.at] != self.variant.outcomes[: self.at]:
            return self.in_prologue
        return other.outcomes[self.at : self.at + 1] == (self.seen,)
