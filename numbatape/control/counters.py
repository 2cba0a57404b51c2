"""How far integers that a loop carries may be from zero.

A body has no guards, and is recorded before anybody knows what its steps add up to. So it is recorded on an
assumption, which its result then confirms or not: what starts small and grows by a small number in each step
stays small, as a counter does, and a remainder stays below its divisor. Where neither holds, the body is
recorded again, with instructions that raise where arithmetic leaves what a float64 holds exactly
(`numbatape.trace.integer_ranges`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..errors import UnsupportedOperationError
from ..trace.constants import EXACT_INTEGER
from ..trace.integer_ranges import USUAL, drift_of, range_of, require_below
from ..trace.primitives import INT64, sample_of
from ..trace.state import MOST_ENTRIES
from .body_traces import BodyTrace, Leaf

LONGEST = 2**31 - 1  # the most that a guard on a size can say
FIRST = MOST_ENTRIES // 2  # what a counter starts from; it leaves room for as many steps


class Counters:
    """What is assumed of the integers that a loop carries.

    Parameters
    ----------
    trace
        The trace.
    arrays
        The first carries, traced or not, None where there is none.

    Attributes
    ----------
    most
        The number of steps up to which what was assumed holds.
    """

    def __init__(self, trace, arrays: Sequence):
        self.trace = trace
        self.first = [None if x is None else self._first(x) for x in arrays]
        self.first = [x for x in self.first if x is not None]
        self.bounds = [min(max(MOST_ENTRIES, 2 * first), EXACT_INTEGER) for first in self.first]
        self.met = [False] * len(self.first)  # whether a bound is that of what the body has returned
        self.most = EXACT_INTEGER

    def _first(self, x) -> int:
        """Return how far a first carry is from zero; for one of another dtype, as far as there may be."""
        sample = np.asarray(sample_of(x))
        bound = range_of(self.trace, x) if sample.dtype == INT64 else EXACT_INTEGER
        if bound is None and not self.trace.in_loop and np.abs(sample).max(initial=0) < USUAL[0][0]:
            require_below(self.trace, x, FIRST)
            bound = FIRST
        return EXACT_INTEGER if bound is None else bound

    def assume(self, leaves: Sequence[Leaf]) -> None:
        """Note what is assumed in the carries before the first step."""
        for leaf, bound in zip(leaves, self.bounds, strict=True):
            leaf.bound = bound if leaf.dtype == INT64 else None

    def hold(self, body: BodyTrace, results: Sequence, steps: int) -> bool:
        """Return whether what was assumed holds; if not, something else is assumed from now on.

        Parameters
        ----------
        body
            The body, which has run.
        results
            The carries that it has returned.
        steps
            How many steps there are now.
        """
        self.most, again = EXACT_INTEGER, False
        for k, (leaf, result) in enumerate(zip(body.leaves, results, strict=False)):
            if leaf.bound is None or leaf.bound == EXACT_INTEGER:
                continue
            end = range_of(self.trace, result)
            if end is not None and end <= leaf.bound:
                continue
            most = self._most_steps(k, body.inputs[k], result)
            if steps <= most:
                self.most = min(self.most, most)
                continue
            known = end is not None and end < EXACT_INTEGER and not self.met[k]
            self.bounds[k] = end if known else EXACT_INTEGER
            self.met[k] = again = True
        return not again

    def _most_steps(self, k: int, number: int, result) -> int:
        """Return in how many steps a carry cannot grow beyond its bound; -1 if it does not grow steadily."""
        drift = drift_of(self.trace, result)
        if drift is None or drift.carry != self.trace.integers.key_of(self.trace.tape.values[number]):
            return -1
        room = self.bounds[k] - max(self.first[k], drift.least)
        return min(room // max(drift.by, 1), LONGEST)

    def guard(self, length: int) -> None:
        """Record that there must not be more steps (a size code) than what was assumed holds for."""
        if self.most < EXACT_INTEGER:
            self.trace.tape.sizes.guard(self.most, ">=", length)

    def too_many(self, name: str) -> Exception:
        """Return the error for a loop that takes more steps than was assumed."""
        return UnsupportedOperationError(
            f"{name}: integers in its carry may grow beyond what a float64 holds exactly in more than "
            f"{self.most} steps; say with max_steps= how many there may be"
        )
