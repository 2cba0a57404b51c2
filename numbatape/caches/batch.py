"""`Batch`: a function at many points, one lane per point.

Points that take different branches are swept separately: first those for which a variant's guards hold,
then the others, with a variant of their own path, which is traced at one of them if there is none yet. When
a sweep fails, its points are swept in halves until the failing point is alone; there the function itself
runs, because it may catch what NumPy raises. A trace that holds only for the point at which it was made
serves only that point.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ..config import Config, chosen_passes
from ..derive.lanes import Lanes
from ..engine.failures import failure
from ..errors import MissingBodyError
from ..ops import OPS, status
from ..programs.arguments import Flattened
from ..programs.evaluator import Evaluator
from ..programs.program import Program
from ..programs.stops import Stop
from ..programs.trace_log import reason_of
from ..programs.variant import Variant, VariantWorkspace, constant_contents
from ..tape.instruction import GUARD

# A single lane would be computed by other kernels, whose results may differ in the last bit.
NARROWEST, WIDEST = 8, 1024
# The cells of one sweep: 1 MB. Fewer cells would stay in a faster cache, but each instruction would be
# dispatched for fewer lanes. With 1 << 18, 17, 16 and 15 cells a point of the model garch11 takes 1.75, 1.57,
# 1.72 and 2.0 µs, one of the model arK 1.0, 0.83, 0.82 and 0.82.
CELLS = 1 << 17


# Cells of a block of points that are worth a thread: they take some 10 µs, and to give a helper a block takes
# one, as long as it has not fallen asleep.
CELLS_A_THREAD = 1 << 13


def over_points(config: Config) -> Config:
    """Return what the tapes that are swept over many points are made with.

    Their single cells are vectors over the points already, and vectors with such lanes take longer:
    re-rolled, 1 024 draws of arK took 3.3 ms instead of 1.3, of garch11 6.9 instead of 2.6.
    """
    passes = tuple(name for name in chosen_passes(config) if name != "reroll")
    return replace(config, passes=passes, threads=1)


class Batch:
    """Sweeps of one program over the lanes of points.

    Parameters
    ----------
    program
        Of a function, or of one of its derivatives.
    slots
        Numbers of the tape's inputs that have one lane per point.
    reverse
        Whether a reverse sweep follows.
    inner
        A level of lanes inside of each point (directions), and its width.
    threads
        How many threads may sweep over blocks of points at once.
    """

    def __init__(
        self,
        program: Program,
        slots: frozenset[int],
        reverse: bool,
        inner: tuple[Lanes, int] | None = None,
        threads: int = 1,
    ):
        # The bits of a point's result must not depend on the other points of the sweep.
        outer = Lanes(slots, hoist=not reverse, folded=False)
        self.program = program
        self.inner = () if inner is None else (inner[1],)
        self.evaluator = Evaluator(program, (outer,) if inner is None else (inner[0], outer))
        self.slots = slots
        self.reverse = reverse
        self.threads = threads

    def first(self, flat: Flattened) -> Lookup:
        """Return the variant for the arguments at some point, traced if there is none."""
        self.program.refresh()
        return self._lookup(flat)

    def run(
        self,
        flat_at: Callable[[int], Flattened],
        points: list[np.ndarray],
        visit: Callable,
        fill: Callable | None = None,
        usual: Lookup | None = None,
    ) -> list[Sweep]:
        """Sweep over all points, in order as far as possible; return the sweeps.

        Parameters
        ----------
        flat_at
            Arguments at one point.
        points
            One array per slot, in order, with the points as first axis.
        visit
            Called as ``visit(space, chosen, count)`` after each forward sweep: the points that
            ``chosen`` (a slice or an array of numbers) picks are in the first ``count`` lanes.
        fill
            Writes the inner lanes into a workspace.
        usual
            What `first` gave for the first point.
        """
        count = len(points[0])
        usual = usual or self.first(flat_at(0))
        width = self._width(usual.variant, flat_at(0), count)
        run = _Run(self, flat_at, points, visit, fill, width)
        for first in range(0, count, width):
            chosen = np.arange(first, min(first + width, count))
            run.group(Group(chosen, usual if first == 0 else usual.elsewhere()))
        return run.sweeps

    def _lookup(
        self,
        flat: Flattened,
        stop: Stop | None = None,
        tried=frozenset(),
        refuted: frozenset[int] = frozenset(),
    ) -> Lookup:
        """Return a variant that may hold at a point and that ``stop`` and ``tried`` do not rule out."""
        found = self.program.find(flat, stop, tried)
        return self._trace(flat, refuted) if found is None else Lookup(found)

    def _trace(self, flat: Flattened, refuted: frozenset[int] = frozenset()) -> Lookup:
        variant = self.program.trace(flat, reason_of(self.program, flat), refuted=refuted)
        # A function that has changed what it captures computes something else at the next point.
        changed = self.program.refresh()
        return Lookup(variant, fresh=True, alone=variant.single_use or changed, changed=changed)

    def _width(self, variant: Variant, flat: Flattened, count: int) -> int:
        """Return how many points a block has, of blocks of about the same size.

        Their cells fit into a core's cache, and each thread gets the same number of blocks.
        """
        dimensions = variant.sizes_for(flat)
        assert dimensions is not None
        cells = variant.cells_a_lane(dimensions, self.evaluator.levels, self.inner)
        blocks = -(-count // max(NARROWEST, min(WIDEST, CELLS // cells)))
        threads = max(1, min(self.threads, count * cells // CELLS_A_THREAD))
        blocks = -(-blocks // threads) * threads
        return -(-count // (blocks * NARROWEST)) * NARROWEST  # lanes of a cell start on cache lines

    def _parted(self, space: VariantWorkspace, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return which of the points the guard that stopped a sweep holds for, and what it sees at each."""
        plan, at = space.plan, space.stopped
        before = int(plan.tape.code["op"][at - 1]) if at else GUARD
        if before == GUARD or not OPS[before >> 1].agrees:  # the guard is on what all points share
            return np.zeros(len(chosen), bool), np.full(len(chosen), space.guard_value(at))
        seen = space.value_view(int(plan.tape.code["a"][at - 1])).reshape(-1)[: len(chosen)]
        wanted = space.value_view(int(plan.tape.code["b"][at]))[()]
        return seen == wanted, seen.copy()

    def leaving(
        self, space: VariantWorkspace, group: Group, chosen: np.ndarray, seen: np.ndarray, flat: Flattened
    ) -> list[Group]:
        """Return the groups of points for which the guard that stopped a sweep does not hold.

        Parameters
        ----------
        group
            The group that was swept.
        chosen, seen
            These points, and what the guard sees at each.
        flat
            The arguments at some point.
        """
        if not len(chosen):
            return []
        stop, variant = Stop.of(space), space.variant
        path = Group(chosen, None, stop, group.tried | {id(variant)})
        if not stop.is_counted:
            return [path]
        # The guard compares a size that data decide: points of another size are swept with the same trace.
        groups: list[Group] = []
        for more in np.unique(seen):
            there = chosen[seen == more] if more == more else chosen[seen != seen]
            assert variant.counted is not None
            at_count = replace(stop, seen=more + variant.counted.seen(space.dimensions, stop.at))
            sizes = at_count.other_sizes(flat, group.stops + 1)
            if sizes is None:
                groups.append(path._replace(chosen=there))
            else:
                groups.append(Group(there, Lookup(variant), None, group.tried, None, sizes, group.stops + 1))
        return groups


class Lookup(NamedTuple):
    """A variant for a point.

    Attributes
    ----------
    fresh
        Whether it was traced at this point, where the values that NumPy computed decided each guard.
    alone
        Whether it holds for this point only: the function used something that no guard describes (text, a
        caught exception), or has changed what it captures.
    changed
        Whether the function has changed what it captures.
    """

    variant: Variant
    fresh: bool = False
    alone: bool = False
    changed: bool = False

    def elsewhere(self) -> Lookup | None:
        """Return what is known of other points than the one that this was found for."""
        return None if self.alone else Lookup(self.variant)


@dataclass(frozen=True)
class Sweep:
    """One sweep that came to its end: the points that ``chosen`` picks were in the first lanes."""

    space: VariantWorkspace
    chosen: slice | np.ndarray
    count: int


class Group(NamedTuple):
    """Points that may take one path: their numbers, in rising order.

    Attributes
    ----------
    found
        The variant to sweep them with, if it is known.
    stop, tried
        The guard at which they left the last variant's path, and the variants known not to hold for them.
    error
        Why the last variant failed at this point, which is alone in its group.
    sizes, stops
        The dimensions of all inputs to try, if they are known, after so many others (`CountedSizes`).
    refuted
        Guards on whether a matrix has a factor that fail, whatever NumPy finds.
    """

    chosen: np.ndarray
    found: Lookup | None = None
    stop: Stop | None = None
    tried: frozenset[int] = frozenset()
    error: Exception | None = None
    sizes: tuple[int, ...] | None = None
    stops: int = 0
    refuted: frozenset[int] = frozenset()


class _Run:
    """One call of `Batch.run`: the sweeps over all of its points."""

    def __init__(self, batch: Batch, flat_at, points, visit, fill, width: int):
        self.batch, self.flat_at, self.points = batch, flat_at, points
        self.visit, self.fill, self.width = visit, fill, width
        self.sweeps: list[Sweep] = []

    def group(self, group: Group) -> None:
        """Sweep a group of points, and the groups that it falls into."""
        pending = [group]
        while pending:
            pending += reversed(self._step(pending.pop()))

    def _step(self, group: Group) -> list[Group]:
        """Sweep those points of a group that one variant serves; return the others."""
        flat = self.flat_at(int(group.chosen[0]))
        found = group.found or self._found(group, flat)
        serves = self._serves(found, group.chosen)
        if serves is None or serves.all():
            return self._sweep(found, group, flat)
        rest = group._replace(chosen=group.chosen[~serves], found=None)
        return [*self._sweep(found, group._replace(chosen=group.chosen[serves]), flat), rest]

    def _found(self, group: Group, flat: Flattened) -> Lookup:
        """Return the variant for a group's first point; run the function itself where its tape failed."""
        if group.error is None:
            return self.batch._lookup(flat, group.stop, group.tried, group.refuted)
        try:
            return self.batch._trace(flat)
        except type(group.error) as its:
            raise group.error from its

    def _serves(self, found: Lookup, chosen: np.ndarray) -> np.ndarray | None:
        """Return the points (the first one included) that a variant may serve, guards aside; None for all."""
        variant = found.variant
        if not found.alone and variant.contents is None and variant.memory is None:
            return None
        serves = np.ones(len(chosen), bool)
        if found.alone:
            serves[1:] = False
        else:
            for k in range(1, len(chosen)):
                flat = self.flat_at(int(chosen[k]))
                serves[k] = variant.fits(flat, lambda flat=flat: constant_contents(flat))
        return serves

    def _sweep(self, found: Lookup, group: Group, flat: Flattened) -> list[Group]:
        """Sweep points with one variant; return those that take another path, or fail."""
        batch, variant, fresh = self.batch, found.variant, found.fresh
        chosen = group.chosen
        left: list[Group] = []
        tried = group.tried | {id(variant)}
        width = self._lanes(len(chosen))
        dimensions = group.sizes or variant.sizes_for(flat)
        assert dimensions is not None
        space = batch.evaluator.workspace(variant, dimensions, (*batch.inner, width))
        space.load(flat, batch.evaluator.lanes)
        if self.fill is not None:
            self.fill(space)
        while len(chosen):
            count = len(chosen)
            rising = chosen[-1] - chosen[0] == count - 1
            place = slice(int(chosen[0]), int(chosen[-1]) + 1) if rising else chosen
            # Lanes that are left over repeat a point.
            lanes = place if count == width else np.append(chosen, np.full(width - count, chosen[0]))
            for slot, array in zip(sorted(batch.slots), self.points, strict=True):
                space.inputs[slot][...] = array[lanes]
            try:
                outcome = space.forward()
                while outcome == status.GUARD and fresh and count == 1 and not space.lacks_factor():
                    if Stop.of(space).other_sizes(flat, group.stops + 1) is not None:
                        break  # a count is the kernel's, see `Evaluator.forward`
                    outcome = space.accept_guard()
            except MissingBodyError as missing:
                alone = len(chosen) == 1
                if batch.evaluator.program.complete(missing, variant, fresh and alone) or alone:
                    return [Group(chosen, None, None, tried), *left]
                return self._failed(Lookup(variant, fresh), chosen, missing) + left
            except Exception as error:  # raised by a rule that the user has written
                return self._failed(Lookup(variant, fresh), chosen, error) + left
            if outcome == status.DONE:
                variant.counter[0] += count
                if variant.counted is not None:
                    variant.counted.keep(flat.dimensions, dimensions)
                self.visit(space, place, count)
                self.sweeps.append(Sweep(space, place, count))
                break
            if outcome != status.GUARD:
                return self._failed(Lookup(variant, fresh), chosen, failure(space, outcome)) + left
            holds, seen = batch._parted(space, chosen)
            if fresh and not holds[0]:
                # NumPy's value and the kernel's differ in the last bit. At the point of the trace NumPy's
                # decided, which is accepted where that point is alone; at the others the kernel's decides.
                (first,) = batch.leaving(space, group, chosen[:1], seen[:1], flat)
                if space.lacks_factor():
                    left.insert(0, first._replace(refuted=space.refuting(group.refuted)))
                else:
                    sizes = dimensions if first.sizes is None else first.sizes
                    left.insert(0, Group(chosen[:1], found, sizes=sizes, stops=first.stops))
                chosen, holds, seen, fresh = chosen[1:], holds[1:], seen[1:], False
            left[:0] = batch.leaving(space, group, chosen[~holds], seen[~holds], flat)
            chosen = chosen[holds]
        return left

    def _failed(self, found: Lookup, chosen: np.ndarray, error: Exception) -> list[Group]:
        """Return smaller groups of points of which one fails; run the function itself where it is alone."""
        if len(chosen) == 1:
            if found.fresh:
                raise error
            return [Group(chosen, error=error)]
        middle = len(chosen) // 2
        return [Group(chosen[:middle], found), Group(chosen[middle:], Lookup(found.variant))]

    def _lanes(self, count: int) -> int:
        """Return the lanes for so many points, one of a few widths: each width needs cells of its own.

        For the same reason a width close to that of whole blocks is replaced by it.
        """
        lanes = NARROWEST
        while lanes < count:
            lanes *= 8
        return lanes if 4 * lanes <= self.width else self.width
