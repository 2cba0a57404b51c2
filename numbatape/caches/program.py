"""`Program`: a function's traces, shared by the clones of a cache. `Evaluator`: one clone's workspaces."""

from __future__ import annotations

import functools
import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .. import threads
from ..capture import randomness
from ..capture.effects import union
from ..capture.environment import Environment
from ..config import Config, chosen_passes
from ..engine import Plan
from ..engine.frame import WORD
from ..engine.workspace import Adjoints
from ..errors import MissingBodyError, UnsupportedOperationError
from ..late import imported
from ..ops import status
from ..recording.record import record
from ..stalls import COMPILING, TRACING
from .arguments import STATIC, Flattened
from .trace_log import Reason, TraceLog, reason_of
from .variant import LONG, Variant, VariantWorkspace, constant_contents

if TYPE_CHECKING:
    from ..derive.lanes import Lanes

MOST_WORKSPACES = 1024  # that an evaluator keeps: one for each path and each set of sizes
MOST_BYTES = 1 << 28  # and their bytes, unless ``Config(max_bytes=...)`` says otherwise


@dataclass(frozen=True)
class Stop:
    """The guard at which a sweep stopped, because its outcome is not the recorded one."""

    variant: Variant
    at: int  # number of the guard
    seen: float
    in_prologue: bool  # guards of the main part have not run yet, even those traced before it

    @classmethod
    def of(cls, space: VariantWorkspace) -> Stop:
        tape = space.plan.tape
        at = int(tape.code["aux"][space.stopped])
        seen = space.guard_value(space.stopped)
        kind = tape.guards[at].kind
        if kind == "bool":
            seen = bool(seen)
        elif kind == "int" and math.isfinite(seen):  # NaN and infinities are no integers, and fit no variant
            seen = int(seen)
        return cls(space.variant, at, seen, space.stopped < tape.prologue)

    def allows(self, other: Variant) -> bool:
        """Whether the inputs that stopped there may take another variant's path."""
        if other.outcomes[: self.at] != self.variant.outcomes[: self.at]:
            return self.in_prologue
        return other.outcomes[self.at : self.at + 1] == (self.seen,)


class Program:
    """All traces of one function for one signature of arguments."""

    def __init__(self, function, config: Config, transform=None, repeats: bool = False):
        self.function = function
        self.transform = transform  # what is traced is transform(function), a derivative of it
        self.config = config
        self.variants: OrderedDict[int, Variant] = OrderedDict()
        self.traces = 0
        self.log = TraceLog()
        self._data_integers = True  # whether Python ints are tried as data, see `record`
        self._once: Variant | None = None  # the last trace that served a single call
        self._captures = False  # whether captured arrays are traced, see `record`
        self.version = 0  # counts the times that captured values changed
        self._repeats = repeats
        self._written: list[tuple] = []  # places that the function only writes to, see `Effects.places`
        self._statics: list = []
        self.environment = Environment(function)
        self._lock = threads.survives_fork(threading.RLock())  # never held while the function runs
        self._tracing = threads.Patient()

    @property
    def name(self) -> str:
        """What messages call the function."""
        return getattr(self.function, "__name__", type(self.function).__name__)

    def refresh(self) -> bool:
        """Forget all traces if a captured value is no longer what it was; return whether that is so."""
        changed = self.environment.rebound() or self.environment.rewritten()
        if changed:
            with self._tracing, self._lock:
                self.variants.clear()
                self._written, self._statics = [], []
                self.environment = Environment(self.function)
                self.version += 1
        return changed

    def find_or_trace(self, flat: Flattened, stop: Stop | None = None, tried=()) -> tuple[Variant, bool]:
        """Return a trace that fits, and whether it was recorded for this call."""
        with self._tracing:
            variant = self.find(flat, stop, tried)
            if variant is not None:
                return variant, False
            return self.trace(flat, reason_of(self, flat, stop), stop is None), True

    def trace(self, flat: Flattened, reason: Reason, assumes: bool = False) -> Variant:
        """Run the function on traced arguments and keep the tape; see `record` for what it may assume."""
        with self._tracing, TRACING.piece(self.name):
            variant = self._trace(flat, assumes)
            TRACING.count = max(TRACING.count, len(variant.tape))  # passes may have dropped most of them
            self.log.add(self.traces, reason, flat)
            if len(self.variants) > self.config.max_variants:
                self._drop_oldest()
            return variant

    def _drop_oldest(self) -> None:
        """Forget the traces beyond ``Config.max_variants`` that were not used for longest."""
        with self._lock:
            while len(self.variants) > self.config.max_variants:
                self.variants.popitem(last=False)
        self.log.over_budget(self.name, self.config.max_variants)

    def complete(self, missing: MissingBodyError, variant: Variant, fresh: bool) -> bool:
        """Let a sub-tape be traced for numbers for which a variant has no trace of it.

        Returns whether another trace of the function may hold. The variant is then dropped: the next one
        knows all traces of the sub-tape that there are. A fresh variant knows them already. Where none of
        them holds for it, NumPy's values and the kernel's differ in the last bit, on which a branch of the
        sub-tape hangs. The next trace then records that function in place, where NumPy's value decides.
        """
        if missing.record(self.environment) or (fresh and missing.keep_in_place()):
            with self._lock:
                self.variants.pop(id(variant), None)
            return True
        if fresh:
            raise UnsupportedOperationError(
                f"{missing}. A function that is made while its caller is traced has the traces of that run "
                "only: define it outside of the function that is differentiated, or use nt.cond"
            ) from None
        return False

    def replay(
        self, transform: Callable, flat: Flattened, directions: Collection[int], space: VariantWorkspace
    ) -> Variant:
        """Return the trace of a derivative for a call in which the function has run already.

        Parameters
        ----------
        transform
            What is traced is a transform of what the sweep has computed.
        flat
            The function's arguments, and the directions among them.
        directions
            The numbers of the inputs that are directions.
        space
            A sweep of the function itself.
        """
        passes, strong, values = chosen_passes(self.config), self.config.strong_zero, self.config.values
        with self._tracing, TRACING.piece(self.name):
            recording = imported("..recording.replayed", __package__).replay(
                space.variant.recording,
                space.outputs,
                flat.inputs(),
                directions,
                flat.rebuild,
                transform,
                passes,
                strong,
                values,
            )
        variant = Variant(recording, flat, values)
        variant.single_use = True
        with self._lock:
            self.traces += 1
            if self._once is not None:
                variant.share_plans(self._once)
            self._once = variant
        return variant

    @property
    def single_use(self) -> bool:
        """Whether the last trace served one call only."""
        return self._once is not None

    def _trace(self, flat: Flattened, assumes: bool) -> Variant:
        with self._lock:
            watched = self.environment
            for value, spec in zip(flat.leaves, flat.specs, strict=True):
                if spec.level == STATIC and not any(value is known for known in self._statics):
                    self._statics.append(value)
            environment = self._environment(()) if self._written else watched
            for value in self._statics:
                environment.add(value)
            environment.repeats = self._repeats
        before = environment.generator_states()
        passes, strong = chosen_passes(self.config), self.config.strong_zero
        data_integers = self._data_integers and not environment.tests_identity
        choices = self.transform, passes, strong, data_integers, environment
        recording = record(
            self.function, flat.inputs(), flat.rebuild, *choices, self.config.values, self._captures, assumes
        )
        if environment.generator_states() != before:
            raise randomness.error("a random generator that it holds or is given")
        variant = Variant(recording, flat, self.config.values)
        outside = (*environment.opaque, *recording.outside)
        if outside:
            imported("..recording.warn", __package__).warn_of(outside)
        # A function that changes what it captures has to run in every call, even from the same values, unless
        # a call without a trace can do the same.
        written = [] if recording.effects is None else recording.effects.places
        environment.forget(written)
        changes = (recording.kept and not written) or environment.rebound() or environment.rewritten()
        with self._lock:
            self._data_integers, self._captures = recording.data_integers, recording.captures
            self.traces += 1
            dropped = watched is not self.environment  # another thread found a captured value changed
            variant.single_use = variant.single_use or changes or bool(outside) or dropped
            if written and not variant.single_use:
                self._written = union(self._written + written)
                self.environment = self._environment(self._written)
            if variant.single_use:
                if self._once is not None:
                    variant.share_plans(self._once)
                self._once = variant
            else:
                self.variants[id(variant)] = variant
        return variant

    def _environment(self, written) -> Environment:
        """Return what the function captures, without the places that it only writes to."""
        environment = Environment(self.function, written)
        for value in self._statics:
            environment.add(value)
        return environment

    def find(self, flat: Flattened, stop: Stop | None = None, tried=()) -> Variant | None:
        """Return a trace that fits and that ``stop`` and ``tried`` do not rule out; None if there is none."""
        known: list[tuple] = []

        def contents() -> tuple:
            if not known:
                known.append(constant_contents(flat))
            return known[0]

        with self._tracing, self._lock:
            for variant in reversed(self.variants.values()):
                if id(variant) in tried or (stop is not None and not stop.allows(variant)):
                    continue
                if variant.fits(flat, contents):
                    self.variants.move_to_end(id(variant))
                    return variant
        return None

    def snapshot(self) -> list[Variant]:
        """Return the variants there are."""
        with self._lock:
            return list(self.variants.values())


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
        self._adjoints = Adjoints()
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
                    found = VariantWorkspace(plan, variant, self._adjoints)
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
        # One more of the usual size: where the bytes are used up, one more takes another's place.
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
        if dropped.entry is not None:
            dropped.entry.retire()

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
        key = (flat.statics, flat.dimensions, program.version)
        variant = self._last.get(key) if traced is None else traced
        if variant is None or variant.contents is not None or variant.sharing is not None:
            variant = traced
        tried: set[int] = set()
        stop, fresh = None, traced is not None
        while True:
            if variant is None:
                variant, fresh = program.find_or_trace(flat, stop, tried)
            tried.add(id(variant))
            space = self.workspace(variant, flat.dimensions, widths)
            space.load(flat, self.lanes)
            if fill is not None and not space.lanes_stay:
                fill(space)
                space.lanes_stay = any(level.fixed for level in self.levels)
            try:
                outcome = space.forward()
                while outcome == status.GUARD and fresh and not space.has_assumed():
                    outcome = space.accept_guard()
            except MissingBodyError as missing:
                program.complete(missing, variant, fresh)
                variant = None
                continue
            except Exception as error:  # raised by a rule that the user has written
                variant, fresh = self._after_failure(space, flat, error, fresh), True
                continue
            if outcome == status.GUARD:
                stop, variant = Stop.of(space), None
                continue
            if outcome != status.DONE:
                failure = imported("..engine.failures", __package__).failure(space, outcome)
                variant, fresh = self._after_failure(space, flat, failure, fresh), True
                continue
            if program.config.debug_mode and checks:
                imported(".debug", __package__).checked_forward(space)
            variant.counter[0] += 1
            if variant.effects is not None and not fresh:  # a fresh trace has just run it
                variant.effects.replay(space.outputs)
            if variant.single_use:
                return space
            if len(self._last) > 4 * program.config.max_variants:
                self._last.clear()
            self._last[key] = variant
            return space

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
        watched = [*self.program.environment.arrays, *((array, array.copy()) for array in arrays)]
        if not all(array.flags.c_contiguous for array, _ in watched):
            return False
        rows = [(a.ctypes.data, c.ctypes.data, a.nbytes) for a, c in watched]
        # Kept alive, because the kernel reads these by address.
        space.watched = watched, np.array(rows or [(0, 0, 0)], np.int64)
        space.frame[WORD["WATCH"]] = space.watched[1].ctypes.data
        space.frame[WORD["WATCH_COUNT"]] = len(rows)
        return True
