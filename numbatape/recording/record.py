"""Record one run of a function: arguments in, tape out."""

from __future__ import annotations

import contextlib
import re
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ..capture import files, randomness
from ..capture.environment import Environment
from ..capture.kept_values import Kept
from ..capture.moving_names import moving_names
from ..emitter import instructions
from ..errors import ForeignTraceError, LeakError, MissingBodyError, NumbatapeError
from ..late import imported
from ..ops import UNKNOWN_PARTIALS
from ..stand_ins import rebinding
from ..stand_ins.captured_arrays import CapturedArrays
from ..stand_ins.copied_classes import restore
from ..tape import Tape
from ..tape.combinations import flatnonzero
from ..tape.instruction import GUARD, NONE
from ..tape.tape import F64
from ..threads import completed
from ..trace import operations, pytrees
from ..trace.array import TracedArray, compute_deferred, new_traced
from ..trace.evaluation import AssumptionError
from ..trace.integers import TracedInteger, lifted, settled
from ..trace.plain_arrays import as_ndarrays
from ..trace.primitives import dense_number, family_of, sample_of
from ..trace.shared_inputs import note_inputs, own_copy
from ..trace.state import PlainIndexError
from ..trace.trace import CURRENT, Trace
from . import contents  # noqa: F401  (it announces which file has what)
from .recorded import Factor, InputLeaf, Manner, Output, Recording, knows_literals

if TYPE_CHECKING:
    from .moving_inputs import MovingInputs

# The filter that makes an exception of the warning which ``bool(NotImplemented)`` gives before Python 3.14.
NO_TRUTH = ("error", re.compile("NotImplemented should not be used"), DeprecationWarning, None, 0)


@contextlib.contextmanager
def _only_truths():
    """Let a comparison that knows no traced values raise where Python would take its answer for true.

    ``(0.3).__lt__(x)`` answers ``NotImplemented``, whatever x is.
    """
    warnings.filters.insert(0, NO_TRUTH)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            warnings.filters.remove(NO_TRUTH)


def record(
    function,
    leaves: list[InputLeaf],
    rebuild,
    manner: Manner | None = None,
    environment: Environment | None = None,
) -> Recording:
    """Run ``function`` on traced leaves and return what it did.

    Where traced Python ints do not work (as a key of a dictionary, in code that insists on an int), the
    function runs once more with plain ints, whose values are guards.

    Parameters
    ----------
    function
        The user's function.
    leaves
        Argument leaves that become inputs of the tape.
    rebuild
        Callable from the list of traced leaves to ``(args, kwargs)``.
    manner
        How the run is recorded.
    environment
        What the function refers to.
    """
    manner = manner or Manner()
    runs = _Runs(function, leaves, rebuild, manner, environment)
    raised: set[str] = set()
    while True:
        try:
            recording = runs.with_integers() if manner.data_integers else runs.with_captured(False)
            if not recording.assumed or not recording.has_effects:
                return recording
            runs.assumes = False
            runs.undo()
        except AssumptionError:
            runs.assumes = False
            runs.undo()
        except MissingBodyError as missing:  # Python needed the numbers of a sub-tape
            runs.undo()
            try:
                if not missing.record(environment) and not missing.keep_in_place():
                    raise missing.final() from None
            except NumbatapeError:
                raise
            except Exception:  # the sub-tape's function runs in place in the next run, which may catch this
                if str(missing) in raised:
                    raise
                raised.add(str(missing))


class _Runs:
    """The runs of a function until one of them has recorded it.

    A run may meet something that only another way of tracing can record. Then what it did to what the
    function refers to is undone, and the function runs again in that way.
    """

    def __init__(self, function, leaves: list[InputLeaf], rebuild, manner: Manner, environment):
        self.function, self.leaves, self.rebuild = function, leaves, rebuild
        self.manner, self.environment = manner, environment
        self.assumes = manner.assumes
        self._traces: list[Trace] = []
        self._kept = False
        self._moving: MovingInputs | None = None  # variables that are inputs, if there are any

    def undo(self) -> None:
        """Undo what the last run did to what the function refers to."""
        if self.environment is not None:
            self.environment.undo()
        if self._moving is not None:
            self._moving.undo()

    def with_integers(self) -> Recording:
        """Record with Python ints as data; with plain ints, if that does not work."""
        self._traces.clear()
        try:
            recording = self.with_captured(True)
            # An exception that the function has caught itself may be due to a traced int, too.
            if not recording.failed or not self._has_integers():
                return recording
        except (MissingBodyError, AssumptionError):
            raise
        except Exception:
            # The function may raise anything because of a traced int that it cannot work with. It runs again
            # with plain ints: if these are not the cause, the second run raises the same exception.
            if not self._has_integers():
                raise
        self.undo()
        return self.with_captured(False)

    def _has_integers(self) -> bool:
        """Whether the function has met traced ints: among its arguments, or as sizes of arrays."""
        met = any(trace.integers.sizes_met for trace in self._traces)
        return met or any(type(leaf.value) is int for leaf in self.leaves)

    def with_captured(self, data_integers: bool) -> Recording:
        """Record with captured arrays as they are; with stand-ins, if that would lose a derivative.

        Arrays that are read at traced positions get stand-ins as well, so that the positions may change. If
        the function does not work with stand-ins, it reads plain numbers there, and the tape holds for these
        positions only.
        """
        if not self.manner.captures:
            try:
                return self._without_draws(False, data_integers)
            except LeakError as error:
                leak = error
                self.undo()
        try:
            return self._without_draws(True, data_integers)
        except LeakError:
            if self.manner.captures:
                raise
        except (MissingBodyError, AssumptionError):
            raise
        except Exception:
            if self.manner.captures or type(leak) is not PlainIndexError:
                raise
        if type(leak) is not PlainIndexError:
            raise leak
        self.undo()
        return self._without_draws(None, data_integers)

    def _without_draws(self, captures: bool | None, data_integers: bool) -> Recording:
        """Record a run, and raise if the function draws random numbers in it.

        With ``captures=None`` captured arrays get no stand-ins, and entries of them at traced positions are
        numbers that hold for these positions.
        """
        return randomness.repeated(lambda: self._run(captures, data_integers), self.undo)

    def _run(self, captures: bool | None, data_integers: bool) -> Recording:
        """Run the function in a new trace, and return what that has recorded."""
        trace = self._new_trace(captures)
        traced = self._traced(trace, data_integers)
        environment, manner = self.environment, self.manner
        outer = CURRENT.get()
        trace.capture.copies = outer and outer.capture.copies  # the copies that an enclosing trace has made
        try:
            CURRENT.set(trace)
            trace.start = sys._getframe()
            args, kwargs = self.rebuild(traced if data_integers else [settled(x) for x in traced])
            moving = {name: kwargs.pop(name) for name in moving_names(kwargs)}
            if moving:
                inputs = imported(".moving_inputs", __package__).MovingInputs
                self._moving = self._moving or inputs(tuple(moving))
                self._moving.begin(trace, moving)
            foreign = environment is not None and environment.foreign
            with np.errstate(all="ignore"), randomness.forbidden(), files.observed(foreign), _only_truths():
                run, args, kwargs = rebinding.rebind_call(self.function, args, kwargs)
                run = _with_lines(trace, run)
                if manner.transform is not None:
                    early = imported("..nested.early_passes", __package__)
                    run = manner.transform(early.passed(run, manner.passes))
                result = run(*args, **kwargs)
                if self._moving is not None:
                    self._moving.end(trace)
                if trace.memory.stores and environment is not None:
                    imported("..capture.hidden_memory", __package__).require_seen(trace, environment)
                restore(trace)
                if self._moving is not None:
                    self._moving.require_unwritten()
                if trace.validity.leak is not None:
                    raise trace.validity.leak  # code caught it, and took a path that is not the function's
                if trace.validity.missing is not None:
                    raise trace.validity.missing
                if trace.derivatives.mistaken:
                    raise AssumptionError
                repeats = environment if environment is not None and environment.repeats else None
                recording = finish(trace, result, manner.passes, repeats)
                reassigned = bool(trace.capture.reassigned) and recording.effects is None
        except Exception as error:
            if trace.derivatives.mistaken:
                raise AssumptionError from None
            found = imported(".leaks", __package__).explained(trace, error)
            if found is error:
                raise
            raise found from None
        finally:
            completed(
                lambda: CURRENT.set(outer), lambda: restore(trace), lambda: self._settle(trace), trace.close
            )
        return replace(recording, kept=True) if self._kept or reassigned else recording

    def _settle(self, trace: Trace) -> None:
        """Replace the traced values that the function has kept, and note whether there were any."""
        kept = Kept(trace)
        kept.settle([] if self.environment is None else self.environment.reached)
        self._kept = kept.found

    def _new_trace(self, captures: bool | None) -> Trace:
        """Return an empty trace that records in the way that was asked for."""
        trace, manner = Trace(), self.manner
        self._traces.append(trace)
        manner.begin(trace)
        trace.derivatives.assumes = self.assumes
        trace.capture.arrays = CapturedArrays(trace) if captures else None
        trace.capture.reads_constants = captures is None
        trace.capture.environment = self.environment
        if self.environment is not None:
            self.environment.observe()
        trace.tape.rolls = manner.transform is None and "reroll" in manner.passes
        trace.swept = manner.transform is None
        return trace

    def _traced(self, trace: Trace, data_integers: bool) -> list:
        """Return the argument leaves as traced values, the inputs of the trace's tape."""
        traced = []
        for leaf in self.leaves:
            value = leaf.value
            if isinstance(value, float) and not isinstance(value, np.float64):
                # The value's class is derived from float, and nothing that is traced would keep that class.
                value = float(value)
            family = family_of(value)
            number = trace.tape.input(np.shape(value), F64 if leaf.wide else family, leaf.level)
            trace.derivatives.know(number, leaf.value)
            if leaf.wide and family != F64:
                number = instructions.cast(trace.tape, number, family, NONE)
            x = new_traced(trace, own_copy(value), number, leaf.level, family)
            traced.append(TracedInteger(x) if type(value) is int else x)
        trace.integers.symbolic = data_integers
        trace.integers.counts = data_integers and self.manner.counts
        trace.integers.met = data_integers and any(type(leaf.value) is int for leaf in self.leaves)
        note_inputs(trace, traced, [leaf.value for leaf in self.leaves])
        return traced


def finish(trace: Trace, result, passes, environment: Environment | None) -> Recording:
    """Return what a trace has recorded, given what the function returned."""
    if trace.calls.rules is not None:
        trace.calls.rules.check()
    if result is None and len(trace.arguments.scratch) == 1:
        (result,) = trace.arguments.scratch  # the function writes its result into an argument
    if trace.integers.hashed:
        result = operations.with_plain_keys(result)
    leaves, structure = pytrees.flatten(result)
    noted, outputs, values = _outputs_of(trace, leaves)
    effects = None
    if environment is not None and (environment.uses or trace.capture.reassigned or environment.rebound()):
        effects = imported("..capture.found_effects", __package__).effects_of(trace, environment, outputs)
    compute_deferred(trace, leaves)
    # A transform may run the function several times.
    factors = _factors_of(trace) if trace.capture.products and trace.swept else ()
    # Derivatives have common subexpressions, because several rules need the same values.
    tape = trace.tape.freeze(
        tuple(outputs),
        passes,
        derivatives=trace.derivatives.taken,
        directions=trace.directions,
        forward=not trace.swept,
    )
    if trace.swept:
        _refuse_unknown(tape)
    if factors and not knows_literals(tape, trace.constants.contents()):
        factors = ()
    # A constant that is written to a traced array stands in active cells: the tape says what has adjoints.
    storages = tape.values["storage"][np.array(tape.outputs[: len(values)], int)]
    levels = tape.storages["level"][storages].tolist()
    kept = pytrees.unflatten(structure, noted)
    return Recording(
        tape,
        kept,
        tuple(values),
        tuple(levels),
        trace.validity.pinned,
        trace.validity.failed,
        trace.arguments.memory(),
        trace.integers.symbolic,
        tuple(trace.validity.outside),
        trace.capture.arrays is not None,
        effects,
        assumed=tuple(trace.derivatives.assumed),
        attempts=tuple(trace.validity.attempts),
        counted=trace.integers.counts_of(trace.tape),
        factors=factors,
        written=tuple(trace.capture.arrays.written_roots()) if trace.capture.arrays else (),
    )


def _outputs_of(trace: Trace, leaves) -> tuple[list, list[int], list]:
    """Return what stands for each leaf of a result, and the numbers and NumPy's values of traced ones."""
    outputs: list[int] = []
    values, noted = [], []
    for leaf in map(lifted, map(as_ndarrays, leaves)):
        if type(leaf) is not TracedArray:
            noted.append(_checked(leaf))
            continue
        if leaf._trace is not trace:
            raise ForeignTraceError(
                "the function returned a value of another trace; a traced value was stored"
            )
        noted.append(Output(len(outputs)))
        outputs.append(dense_number(leaf))
        values.append(sample_of(leaf))
    return noted, outputs, values


def _factors_of(trace: Trace) -> tuple[Factor, ...]:
    """Return the long arrays that code has multiplied with traced ones, each with the literal that it is."""
    products = trace.capture.products.values()
    found = ((array, trace.constants.known(array), places) for array, places in products)
    return tuple([Factor(x, data, tuple(places)) for x, data, places in found if data is not None])


def _refuse_unknown(tape: Tape) -> None:
    """Raise if a reverse sweep over a tape would need a derivative that is not known."""
    rows = flatnonzero(tape.code["op"] != GUARD)
    if np.any(tape.code["active"][rows] & UNKNOWN_PARTIALS[tape.code["op"][rows] >> 1]):
        imported("..derive.unknown", __package__).refuse_unknown(tape, rows.tolist())


def _checked(leaf):
    """Return a part of the result that is not traced; an array is copied, because it may change."""
    if not isinstance(leaf, np.ndarray):
        return leaf
    if leaf.dtype == object and any(type(part) is TracedArray for part in leaf.reshape(-1)):
        raise LeakError(
            "the function returned an array of dtype object that holds traced values; "
            "build it with np.stack or np.array of them"
        )
    return leaf.copy()


def _with_lines(trace: Trace, function: Callable) -> Callable:
    """Return a function of the user's that tells the guards on sizes, while it runs, at which line it is."""

    def run(*args, **kwargs):
        sizes = trace.tape.sizes
        sizes.here = trace.line
        try:
            return function(*args, **kwargs)
        finally:
            sizes.here = None  # the table must not keep the trace alive

    return run
