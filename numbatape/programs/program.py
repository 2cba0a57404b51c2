"""`Program`: a function's traces, shared by the clones of a cache."""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from .. import threads
from ..capture import randomness
from ..capture.effects import covers, union
from ..capture.environment import Environment
from ..capture.moving_names import MovingName, without
from ..config import Config, chosen_passes
from ..errors import MissingBodyError, NumbatapeError
from ..late import imported
from ..recording.record import record
from ..recording.recorded import Manner
from ..stalls import TRACING
from .arguments import STATIC, Flattened
from .trace_log import Reason, TraceLog, reason_of
from .variant import Variant, VariantWorkspace, constant_contents

if TYPE_CHECKING:
    from ..capture.moving_names import Moving
    from .stops import Stop


class Program:
    """All traces of one function for one signature of arguments.

    Parameters
    ----------
    moving
        Variables of the function that are among the arguments of each call.
    changes
        Notes which further variables change from call to call.
    """

    def __init__(
        self,
        function,
        config: Config,
        transform=None,
        repeats: bool = False,
        moving: tuple[MovingName, ...] = (),
        changes: Moving | None = None,
    ):
        self.function = function
        self._moving, self._changes = moving, changes
        self.transform = transform  # what is traced is transform(function), a derivative of it
        self.config = config
        self.variants: OrderedDict[int, Variant] = OrderedDict()
        self.traces = 0
        self.log = TraceLog(function)
        self._data_integers = True  # whether Python ints are tried as data, see `record`
        self._once: Variant | None = None  # the last trace that served a single call
        self._captures = False  # whether captured arrays are traced, see `record`
        self.version = 0  # counts the times that captured values changed
        self._repeats = repeats
        self._written: list[tuple] = []  # places that the function only writes to, see `Effects.places`
        self._statics: list = []
        self._unread = False  # whether attributes that no trace reads are not watched (`capture.unread`)
        self._plain_arguments = True  # whether arguments have no methods of the user's
        self.keeps: tuple[str, ...] | None = None  # names of what made the last trace serve a single call
        self.renewed: str | None = None  # what `refresh` has found changed last
        self._refills: set[int] = set()  # ids of lists and dictionaries that the function itself changes
        self._observes: set[str] = set()  # names of attributes of which traces observe the first use
        self.environment = Environment(function, (), moving)
        # The lock is never held while the user's function runs.
        self._lock = threads.survives_fork(threading.RLock())
        self._tracing = threads.Patient()

    @property
    def name(self) -> str:
        """What messages call the function."""
        return getattr(self.function, "__name__", type(self.function).__name__)

    @property
    def variables(self) -> dict[str, Any]:
        """What a program of the function's derivative is given of its variables."""
        return {"moving": self._moving, "changes": self._changes}

    def refresh(self) -> bool:
        """Forget all traces if a captured value is no longer what it was; return whether that is so."""
        changed = self.environment.changed()
        if changed and self._without_unread():
            return False
        if changed:
            self.renewed = imported("..capture.changed_state", __package__).name_of_change(self.environment)
            if self._changes is not None and not self._changes.is_refused:
                self._changes.note(
                    imported("..capture.moving", __package__).changed(
                        self.environment, self._repeats, self._refills
                    )
                )
            with self._tracing, self._lock:
                self.variants.clear()
                self._written, self._statics, self._unread = [], [], False
                self.environment = self._environment(())
                self.version += 1
        return changed

    def _without_unread(self) -> bool:
        """Stop watching attributes that the function does not read, if only these have changed."""
        with self._tracing, self._lock:
            if self._observes or not self.variants or not self._plain_arguments:
                return False
            if not self.environment.changed():
                return True  # another thread has done it
            unread = imported("..capture.unread", __package__)
            written = self._written
            found = unread.without_unread(
                self.environment,
                lambda places: self._environment(union(written + places)),
                without(written, self._moving),
            )
            if found is not None:
                self.environment, self._unread = found, True
                self.version += 1
            return found is not None

    def find_or_trace(
        self,
        flat: Flattened,
        stop: Stop | None = None,
        tried: Collection[int] = (),
        refuted: frozenset[int] = frozenset(),
    ) -> tuple[Variant, bool]:
        """Return a trace that fits, and whether it was recorded for this call."""
        with self._tracing:
            variant = self.find(flat, stop, tried)
            if variant is not None:
                return variant, False
            variant = self.trace(flat, reason_of(self, flat, stop), stop is None, refuted)
            if stop is not None and stop.variant.records_the_same(variant):
                # A tie, about which NumPy and the kernel differ in the last bit. The path is known already.
                variant.single_use = True
                with self._lock:
                    self.variants.pop(id(variant), None)
            return variant, True

    def trace(
        self,
        flat: Flattened,
        reason: Reason,
        assumes: bool = False,
        refuted: frozenset[int] = frozenset(),
    ) -> Variant:
        """Run the function on traced arguments and keep the tape; see `record` for what it may assume."""
        with self._tracing, TRACING.piece(self.name):
            variant = self._trace(flat, assumes, refuted)
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
        try:
            another = missing.record(self.environment)
        except NumbatapeError:
            raise
        except Exception:
            if fresh:
                raise
            another = (
                True  # the next trace runs the sub-tape's function in place, whose caller may catch this
            )
        if another or (fresh and missing.keep_in_place()):
            with self._lock:
                self.variants.pop(id(variant), None)
            return True
        if fresh:
            raise missing.final() from None
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
        manner = self._manner(transform)
        with self._tracing, TRACING.piece(self.name):
            recording = imported("..recording.replayed", __package__).replay(
                space.variant.recording,
                space.outputs,
                space.dimensions,
                flat.inputs(),
                directions,
                flat.rebuild,
                manner,
            )
        variant = Variant(recording, flat, manner.values)
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

    def _manner(self, transform: Callable | None, **options: Any) -> Manner:
        """Return how a transform of the function is recorded."""
        config = self.config
        passes, strong = chosen_passes(config), config.strong_zero
        return Manner(transform=transform, passes=passes, strong=strong, values=config.values, **options)

    def _trace(self, flat: Flattened, assumes: bool, refuted: frozenset[int]) -> Variant:
        """Trace the function, and keep the variant for later calls unless it holds for this call alone."""
        watched, environment = self._captured_by(flat)
        by_identity = environment.identity_tests > 1
        if by_identity:
            imported("..capture.compared_truths", __package__).refuse(environment)
        before = environment.generator_states()
        # Code that compares numbers with ``is`` needs Python's own ints.
        manner = self._manner(
            self.transform,
            data_integers=self._data_integers and not by_identity,
            captures=self._captures,
            assumes=assumes,
            counts=True,
            refuted=refuted,
        )
        with self._undone_if_it_fails():
            recording = record(self.function, flat.inputs(), flat.rebuild, manner, environment)
        if environment.generator_states() != before:
            raise randomness.error("a random generator that it holds or is given")
        others = self.snapshot()
        if others:
            excluding = imported(".exclusive_sizes", __package__).excluding
            recording = excluding(recording, flat, others)
        captured = [array for array, _ in environment.arrays]
        variant = Variant(recording, flat, self.config.values, captured)
        outside = (*environment.opaque, *recording.outside)
        if outside:
            imported("..recording.warn", __package__).warn_of(outside)
        self._keep(variant, watched, environment, bool(outside))
        return variant

    @contextlib.contextmanager
    def _undone_if_it_fails(self):
        """Undo what a run does that raises, if variables are inputs: the function runs again without."""
        before = None
        if self._moving:
            before = Environment(self.function)
            for value in self._statics:
                before.add(value)
        try:
            yield
        except Exception:
            if before is not None:
                before.undo()
            raise
        if before is not None and self._changes is not None:
            self._changes.undo = before.undo

    def _captured_by(self, flat: Flattened) -> tuple[Environment, Environment]:
        """Return what the function captures as calls compare it, and as the next trace does."""
        with self._lock:
            self._plain_arguments = self._plain_arguments and _is_plain(flat)
            for value, spec in zip(flat.leaves, flat.specs, strict=True):
                if spec.level == STATIC and not any(value is known for known in self._statics):
                    self._statics.append(value)
            if self._unread:  # this trace may read what earlier ones do not
                former, self._unread = self.environment, False
                self.environment = self._environment(self._written)
                if former.changed():  # by another thread, since `refresh`
                    self.variants.clear()
                    self.version += 1
            watched = self.environment
            # Earlier traces go on comparing what they have read, which this one may only write.
            apart = self._written or self._observes or self._moving
            environment = self._environment((), watches=False) if apart else watched
            for value in self._statics:
                environment.add(value)
            environment.repeats = self._repeats
            environment.observes, environment.uncompared = self._observes, self._written
            return watched, environment

    def _keep(self, variant: Variant, watched: Environment, environment: Environment, outside: bool) -> None:
        """Keep a new variant for later calls, or for this one alone.

        Parameters
        ----------
        watched, environment
            From `_captured_by`.
        outside
            Whether the function has read from outside of the program.
        """
        recording = variant.recording
        # A function that changes what it captures has to run in every call, even from the same values, unless
        # a call without a trace can do the same.
        written = [] if recording.effects is None else recording.effects.places
        environment.forget(written)
        changes = (recording.kept and not written) or environment.changed()
        if changes:
            self._refills |= imported("..capture.moving", __package__).refilled(environment)
        with self._lock:
            self._data_integers, self._captures = recording.data_integers, recording.captures
            self.traces += 1
            dropped = watched is not self.environment  # another thread found a captured value changed
            variant.single_use = variant.single_use or changes or outside or dropped
            if written and not variant.single_use:
                if self._observes and not covers(self._written, written):
                    self.variants.clear()  # they may have read what this path assigns before it reads it
                    self.version += 1
                self._written = union(self._written + written)
                self.environment = self._environment(self._written)
            keeps = variant.single_use and (recording.kept or changes) and not outside
            self.keeps = environment.changes if keeps else None
            if variant.single_use:
                if self._once is not None:
                    variant.share_plans(self._once)
                self._once = variant
            else:
                self.variants[id(variant)] = variant

    def _environment(self, written, watches: bool = True) -> Environment:
        """Return what the function captures, without the places that it only writes to."""
        environment = Environment(self.function, written, self._moving, watches)
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


def _is_plain(flat: Flattened) -> bool:
    """Whether all containers among the arguments are Python's own, which have no methods of the user's."""
    waiting = [flat.outer, *(its for its in flat.inner if its is not None)]
    while waiting:
        its = waiting.pop()
        if not its.is_leaf():
            if its.type not in (tuple, list, dict):
                return False
            waiting += its.children()
    return True
