"""`Evaluator`: the workspaces of one clone of a cache, in which the sweeps of its function's traces run."""

from __future__ import annotations

import functools
from collections import OrderedDict
from typing import TYPE_CHECKING

import numpy as np

from ..engine import Plan
from ..engine.frame import WORD
from ..engine.workspace import SharedCells
from ..errors import MissingBodyError
from ..late import imported
from ..ops import status
from ..stalls import COMPILING
from .arguments import Flattened
from .program import Program
from .trace_log import Reason
from .variant import LONG, Variant, VariantWorkspace

if TYPE_CHECKING:
    from ..derive.lanes import Lanes
    from .stops import Stop

# An evaluator keeps this many workspaces, one for each path and each set of sizes, and this many bytes of
# them, unless ``Config(max_bytes=...)`` says otherwise.
MOST_WORKSPACES = 2048
MOST_BYTES = 1 << 28


class Evaluator:
    """One thread's workspaces for a program.

    Parameters
    ----------
    levels
        Which inputs have lanes, as a leading dimension; of several levels, the last is the outermost.
    gradient
        Whether each forward sweep is followed by a reverse sweep with the cotangent one.
    """

    def __init__(self, program: Program, levels: tuple[Lanes, ...] = (), gradient: bool = False):
        self.program = program
        self.gradient = gradient
        self.levels = levels
        self.lanes = frozenset().union(*(level.slots for level in levels))
        self._workspaces: OrderedDict[tuple, VariantWorkspace] = OrderedDict()
        self._adjoints = SharedCells()
        self.values = SharedCells(512)  # what steady calls of many sizes compute with (`steady_values`)
        self._bytes = 0  # the bytes of all workspaces
        self._of_one_call: list[tuple] = []  # keys of workspaces whose variant serves one call only
        self._last: dict[tuple, Variant] = {}

    def workspace(self, variant: Variant, dimensions: tuple, widths: tuple = ()) -> VariantWorkspace:
        """Return the workspace of a variant for some sizes, with so many lanes a level."""
        key = (id(variant), dimensions, widths)
        found = self._workspaces.get(key)
        if found is None:
            with COMPILING.piece(self.program.name):
                if self.levels:
                    plan: Plan | None = variant.lane_plan(dimensions, self.levels, widths)
                else:
                    plan = variant.plan(dimensions)
                assert plan is not None
                found = self._one_way_workspace(variant, plan)
                if found is None:
                    found = VariantWorkspace(plan, variant, self._adjoints, dimensions, widths)
                if self.gradient:
                    found.one_way = functools.partial(variant.one_way, self.program.config)
                self._workspaces[key] = found
            self._bytes += found.nbytes
            if variant.single_use:
                self._drop_earlier_calls(key)
            self._trim()
        else:
            self._workspaces.move_to_end(key)
        return found

    def _one_way_workspace(self, variant: Variant, plan: Plan) -> VariantWorkspace | None:
        """Return a workspace whose forward sweep computes the gradient too, None if two sweeps are better."""
        if not self.gradient or sum(plan.cells) < LONG:
            return None
        its = variant.one_way(self.program.config).plan(plan.dimensions)
        if its is None:
            return None
        return imported(".one_way", __package__).OneWayWorkspace(its, variant, self._adjoints)

    def has_room(self) -> bool:
        """Whether a workspace for further sizes can be kept without dropping another one."""
        count = len(self._workspaces)
        # One more has the usual size: where the bytes are used up, it takes another's place.
        more = self._bytes // count if count else 0
        return count < MOST_WORKSPACES and self._bytes + more < self._most_bytes

    @property
    def _most_bytes(self) -> int:
        limit = self.program.config.max_bytes
        return MOST_BYTES if limit is None else limit

    def _trim(self) -> None:
        """Drop the workspaces that were not used for longest, as long as there are too many."""
        while len(self._workspaces) > 1 and (
            len(self._workspaces) > MOST_WORKSPACES or self._bytes > self._most_bytes
        ):
            self._drop(next(iter(self._workspaces)))

    def _drop_earlier_calls(self, key: tuple) -> None:
        """Drop what served one call each, when a further variant of that kind gets its first workspace."""
        if self._of_one_call and self._of_one_call[0][0] != key[0]:
            for each in self._of_one_call:
                self._drop(each)
            self._of_one_call.clear()
        self._of_one_call.append(key)

    def _drop(self, key: tuple) -> None:
        dropped = self._workspaces.pop(key, None)
        if dropped is None:
            return
        self._bytes -= dropped.nbytes
        dropped.retire_entry()

    def forward(
        self,
        flat: Flattened,
        widths: tuple = (),
        fill=None,
        checks: bool = True,
        traced: Variant | None = None,
    ) -> VariantWorkspace:
        """Run the forward sweep of the trace that fits; trace the function if none does.

        Parameters
        ----------
        widths, fill
            The number of lanes of each level, and a function that writes them into a workspace; the
            leaves of inputs with lanes stand for their shapes.
        checks
            Whether ``Config(debug_mode=True)`` checks the sweep: not while a cache is prepared.
        traced
            A trace that was made for this call, after `Program.refresh`.

        Raises
        ------
        IndexError, numpy.linalg.LinAlgError
            As NumPy would, with the source line.
        """
        program = self.program
        if traced is None:
            program.refresh()
        key = (flat.statics, flat.orders, flat.dimensions, program.version)
        variant = self._last.get(key) if traced is None else traced
        if variant is None or variant.contents is not None or variant.memory is not None or variant.apart:
            variant = traced
        tried: set[int] = set()
        refuted: frozenset[int] = frozenset()
        stop, fresh, sizes, stops = None, traced is not None, None, 0
        while True:
            if variant is None:
                variant, fresh = program.find_or_trace(flat, stop, tried, refuted)
            tried.add(id(variant))
            dimensions = variant.sizes_for(flat) if sizes is None else sizes
            assert dimensions is not None
            sizes = None
            space = self.workspace(variant, dimensions, widths)
            space.load(flat, self.lanes)
            if fill is not None and not space.lanes_stay:
                fill(space)
                space.lanes_stay = any(level.fixed for level in self.levels)
            try:
                outcome = self._outcome(space, flat, fresh, stops)
            except MissingBodyError as missing:
                program.complete(missing, variant, fresh)
                variant = None
                continue
            except Exception as error:  # raised by a rule that the user has written
                variant, fresh = self._after_failure(space, flat, error, fresh), True
                continue
            if outcome == status.GUARD:
                stop, stops = _stop_of(space), stops + 1
                sizes = stop.other_sizes(flat, stops)
                if fresh and space.lacks_factor():
                    refuted = space.refuting(refuted)
                variant = None if sizes is None else variant
                continue
            if outcome != status.DONE:
                failure = imported("..engine.failures", __package__).failure(space, outcome)
                variant, fresh = self._after_failure(space, flat, failure, fresh), True
                continue
            if program.config.debug_mode and checks:
                imported(".debug", __package__).checked_forward(space)
            variant.counter[0] += 1
            if variant.counted is not None:
                variant.counted.keep(flat.dimensions, dimensions)
            if variant.effects is not None and not fresh:  # a fresh trace has just run it
                variant.effects.replay(space.outputs)
            if not variant.single_use:
                self._note_last(key, variant)
            return space

    def _outcome(self, space: VariantWorkspace, flat: Flattened, fresh: bool, stops: int) -> int:
        """Sweep forward and return the status; guards of a fresh trace hold as NumPy has decided."""
        outcome = space.forward()
        while outcome == status.GUARD and fresh and not (space.has_assumed() or space.lacks_factor()):
            # NumPy decides about truth values. A count is the kernel's, as the positions are: with
            # NumPy's count of other entries, some would be taken twice, and others never.
            if _stop_of(space).other_sizes(flat, stops + 1) is not None:
                break
            outcome = space.accept_guard()
        return outcome

    def _note_last(self, key: tuple, variant: Variant) -> None:
        """Note which variant has served arguments of these sizes last."""
        if len(self._last) > 4 * self.program.config.max_variants:
            self._last.clear()
        self._last[key] = variant

    def _after_failure(self, space, flat: Flattened, error: Exception, fresh: bool) -> Variant:
        """Run the function itself where its tape failed: it may catch what NumPy raises there."""
        if fresh and not space.variant.recording.assumed:
            raise error
        try:
            text = f"{type(error).__name__} was raised, which the function may catch"
            return self.program.trace(flat, Reason(text))
        except type(error) as its:
            raise error from its

    def watch(self, space: VariantWorkspace, arrays) -> bool:
        """Let the sweep's kernel compare captured arrays and the given ones; return whether it can."""
        captured = [(array, space.literal_like(copy)) for array, copy in self.program.environment.arrays]
        watched = [*captured, *((array, array.copy()) for array in arrays)]
        if not all(array.flags.c_contiguous for array, _ in watched):
            return False
        rows = [(a.ctypes.data, c.ctypes.data, a.nbytes, a.dtype != c.dtype) for a, c in watched]
        # Kept alive, because the kernel reads these by address.
        space.watched = watched, np.array(rows or [(0, 0, 0, 0)], np.int64)
        space.frame[WORD["WATCH"]] = space.watched[1].ctypes.data
        space.frame[WORD["WATCH_COUNT"]] = len(rows)
        return True


def _stop_of(space: VariantWorkspace) -> Stop:
    """Return the guard at which a sweep has stopped; few calls get there."""
    return imported(".stops", __package__).Stop.of(space)
