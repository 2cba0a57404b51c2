"""Record one run of a function: arguments in, tape out."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np

from ..capture import files, randomness, rebinding
from ..capture.captured_arrays import CapturedArrays
from ..capture.copied_classes import restore
from ..capture.effects import Effects, effects_of
from ..capture.environment import Environment
from ..capture.kept_values import Kept
from ..config import PASSES
from ..emitter import instructions
from ..errors import ForeignTraceError, LeakError, MissingBodyError
from ..late import imported
from ..savings import frozen
from ..tape import Tape
from ..tape.instruction import NONE
from ..tape.tape import F64
from ..trace import pytrees
from ..trace.array import TracedArray, is_deferred, new_traced
from ..trace.evaluation import AssumptionError
from ..trace.integers import TracedInteger, lifted, settled
from ..trace.plain_arrays import as_ndarrays
from ..trace.primitives import dense_number, family_of, sample_of
from ..trace.shared_inputs import note_inputs
from ..trace.state import Outside, PlainIndexError
from ..trace.trace import CURRENT, Trace
from ..trace.unknown import refuse_unknown
from . import contents  # noqa: F401  (it announces which file has what)


@frozen()
class InputLeaf:
    """An argument leaf to trace.

    Attributes
    ----------
    value
        An array, a NumPy scalar, or a Python float or int (weakly typed).
    level
        Whether it takes a gradient.
    wide
        Whether its cells are float64, whatever its dtype is: those of a body are.
    """

    value: Any
    level: int
    wide: bool = False


@frozen()
class Recording:
    """The outcome of a trace.

    Attributes
    ----------
    tape
        The tape; its outputs are the traced leaves of the result, in order.
    result
        The function's result with an `Output` in place of each traced leaf.
    values
        The traced outputs' values, as NumPy computed them; of a derivative zeros of its shape and dtype.
    pinned
        Whether the tape holds for the present contents of the constants only.
    failed
        Whether the function caught an exception: the tape holds for the present inputs only.
    writes_inputs
        Whether the function wrote to an argument: the tape holds while the same arguments share memory.
    data_integers
        Whether Python ints among the arguments were data; else their values are guards.
    outside
        What the function read that cannot be checked before a call: the tape holds for this call only.
    captures
        Whether captured arrays were traced, as stand-ins.
    effects
        What the function does to what it captures in each call, where a call without a trace can repeat it.
    kept
        Whether the function kept numbers of this call: unless its effects can be repeated it has to run in
        each call.
    assumed
        The numbers of guards whose outcome a rule has assumed: the sweep after the trace checks them.
    """

    tape: Tape
    result: Any
    values: tuple
    levels: tuple[int, ...]
    pinned: bool
    failed: bool
    writes_inputs: bool
    data_integers: bool
    outside: tuple[Outside, ...]
    captures: bool
    effects: Effects | None = None
    kept: bool = False
    assumed: tuple[int, ...] = ()

    @property
    def has_effects(self) -> bool:
        """Whether the run did something else than to compute its result."""
        return bool(self.kept or self.failed or self.outside or self.effects is not None)


@pytrees.opaque
@frozen()
class Output:
    """The placeholder of a traced output in a recorded result."""

    number: int


def record(
    function,
    leaves: list[InputLeaf],
    rebuild,
    transform=None,
    passes: Collection[str] = PASSES,
    strong: bool = False,
    data_integers: bool = True,
    environment: Environment | None = None,
    values: str = "fast",
    captures: bool = False,
    assumes: bool = False,
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
    transform
        Optional: what is recorded is ``transform(function)``, a derivative of the function
        (`numbatape.nested`).
    passes
        Names of the rewrites of the tape that are done (`numbatape.tape.passes`).
    strong
        Whether products of matrices with infinite or NaN entries are recorded entry by entry
        (``Config.strong_zero``).
    data_integers
        Whether to try Python ints as data.
    environment
        What the function refers to.
    values
        ``Config.values``: which implementation's bits elementwise results have.
    captures
        Whether captured arrays are known to need tracing; otherwise this is found out.
    assumes
        Whether rules may assume that a number is as it usually is (that a matrix is not singular), if the
        function's only effect is its result. The caller has to check `Recording.assumed`.
    """
    while True:
        given = function, leaves, rebuild, transform, passes, strong, values, assumes, environment, captures
        try:
            recording = _with_integers(given, data_integers)
            if not recording.assumed or not recording.has_effects:
                return recording
            assumes = False
            if environment is not None:
                environment.undo()
        except AssumptionError:
            assumes = False
            if environment is not None:
                environment.undo()
        except MissingBodyError as missing:  # Python needed the numbers of a sub-tape
            if environment is not None:
                environment.undo()
            if not missing.record(environment) and not missing.keep_in_place():
                raise


def _with_integers(given: tuple, data_integers: bool) -> Recording:
    """Record with Python ints as data if that is asked for; with plain ints, if it does not work."""
    leaves, environment = given[1], given[8]
    traces: list[Trace] = []
    if data_integers:
        try:
            recording = _reaching(*given, traces, data_integers=True)
            # An exception that the function has caught itself may be due to a traced int, too.
            if not recording.failed or not _has_integers(traces, leaves):
                return recording
        except (MissingBodyError, AssumptionError):
            raise
        except Exception:
            # The function may raise anything because of a traced int that it cannot work with. It runs again
            # with plain ints: if these are not the cause, the second run raises the same exception.
            if not _has_integers(traces, leaves):
                raise
        if environment is not None:
            environment.undo()
    return _reaching(*given, traces, data_integers=False)


def _has_integers(traces: list[Trace], leaves: list[InputLeaf]) -> bool:
    """Whether the function has met traced ints: among its arguments, or as sizes of arrays."""
    met = any(trace.integers.sizes_met for trace in traces)
    return met or any(type(leaf.value) is int for leaf in leaves)


def _reaching(*given, data_integers: bool) -> Recording:
    """Record with captured arrays as they are; with stand-ins, if that would lose a derivative.

    Arrays that are read at traced positions get stand-ins as well, so that the positions may change. What
    does not work with stand-ins is recorded as it is, for these positions.
    """
    *rest, captures, traces = given
    environment = rest[-1]
    if not captures:
        try:
            return _undrawn(*rest, False, traces, data_integers)
        except LeakError as error:
            leak = error
            if environment is not None:
                environment.undo()
    try:
        return _undrawn(*rest, True, traces, data_integers)
    except LeakError:
        if captures:
            raise
    except (MissingBodyError, AssumptionError):
        raise
    except Exception:
        if captures or type(leak) is not PlainIndexError:
            raise
    if type(leak) is not PlainIndexError:
        raise leak
    if environment is not None:
        environment.undo()
    return _undrawn(*rest, None, traces, data_integers)


def _undrawn(*given) -> Recording:
    """Record, and raise if the function draws random numbers."""
    environment = given[8]
    undo = (lambda: None) if environment is None else environment.undo
    return randomness.repeated(lambda: _record(*given), undo)


def _record(
    function,
    leaves,
    rebuild,
    transform,
    passes,
    strong,
    values,
    assumes,
    environment,
    captures,
    traces,
    data_integers,
) -> Recording:
    trace = Trace()
    traces.append(trace)
    trace.strong, trace.values, trace.derivatives.assumes = strong, values, assumes
    trace.capture.arrays = CapturedArrays(trace) if captures else None
    trace.capture.reads_constants = captures is None
    trace.capture.environment = environment
    trace.tape.exact = values == "numpy"
    trace.tape.rolls = transform is None and "reroll" in passes
    trace.distributes = bool(passes) and values != "numpy"
    trace.swept = transform is None
    traced = []
    for leaf in leaves:
        value = leaf.value
        if isinstance(value, float) and not isinstance(value, np.float64):
            value = float(value)  # of a class derived from it, which nothing that is traced would keep
        family = family_of(value)
        if isinstance(value, np.ndarray):
            # The tracer works on a copy, so that later changes of the caller's array do not matter, and
            # vice versa.
            writeable = value.flags.writeable
            value = value.copy()
            value.flags.writeable = writeable  # the function may write to it if it may write to the caller's
        number = trace.tape.input(np.shape(value), F64 if leaf.wide else family, leaf.level)
        trace.derivatives.know(number, leaf.value)
        if leaf.wide and family != F64:
            number = instructions.cast(trace.tape, number, family, NONE)
        x = new_traced(trace, value, number, leaf.level, family)
        traced.append(TracedInteger(x) if type(value) is int else x)
    trace.integers.symbolic = data_integers
    trace.integers.met = data_integers and any(type(leaf.value) is int for leaf in leaves)
    note_inputs(trace, traced, [leaf.value for leaf in leaves])
    outer = CURRENT.get()
    trace.capture.copies = outer and outer.capture.copies  # the copies that an enclosing trace has made
    token = CURRENT.set(trace)
    try:
        args, kwargs = rebuild(traced if data_integers else [settled(x) for x in traced])
        foreign = environment is not None and environment.foreign
        with np.errstate(all="ignore"), randomness.forbidden(), files.observed(foreign):
            run, args, kwargs = rebinding.rebind_call(function, args, kwargs)
            if transform is not None:
                run = transform(imported("..nested.early_passes", __package__).passed(run, passes))
            result = run(*args, **kwargs)
            restore(trace)
            if trace.validity.leak is not None:
                raise trace.validity.leak  # code caught it and took a path that the function does not take
            if trace.validity.missing is not None:
                raise trace.validity.missing
            if trace.derivatives.mistaken:
                raise AssumptionError
            repeats = environment if environment is not None and environment.repeats else None
            recording = finish(trace, result, passes, repeats)
    except Exception as error:
        if trace.derivatives.mistaken:
            raise AssumptionError from None
        found = imported(".leaks", __package__).explained(trace, error)
        if found is error:
            raise
        raise found from None
    finally:
        CURRENT.reset(token)
        restore(trace)
        kept = Kept(trace)
        try:
            kept.settle([] if environment is None else environment.reached())
        finally:
            trace.close()
    return replace(recording, kept=True) if kept.found else recording


def finish(trace: Trace, result, passes, environment: Environment | None) -> Recording:
    """Return what a trace has recorded, given what the function returned."""
    if result is None and len(trace.arguments.scratch) == 1:
        (result,) = trace.arguments.scratch  # the function writes its result into an argument
    outputs: list[int] = []
    values, levels, noted = [], [], []
    leaves, structure = pytrees.flatten(result)
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
        levels.append(leaf._level)
    effects = None if environment is None else effects_of(trace, environment, outputs)
    evaluate_kept(trace, leaves)
    # Derivatives have common subexpressions, because several rules need the same values.
    tape = trace.tape.freeze(
        tuple(outputs),
        passes,
        derivatives=trace.derivatives.taken,
        directions=trace.directions,
        forward=not trace.swept,
    )
    if trace.swept:
        refuse_unknown(tape)
    kept = pytrees.unflatten(structure, noted)
    return Recording(
        tape,
        kept,
        tuple(values),
        tuple(levels),
        trace.validity.pinned,
        trace.validity.failed,
        trace.arguments.written,
        trace.integers.symbolic,
        tuple(trace.validity.outside),
        trace.capture.arrays is not None,
        effects,
        assumed=tuple(trace.derivatives.assumed),
    )


def evaluate_kept(trace: Trace, leaves) -> None:
    """Compute derivatives that somebody keeps beyond the trace, as long as its instructions are there."""
    returned = set(map(id, leaves))
    for reference in trace.derivatives.deferred:
        array = reference()
        if array is not None and id(array) not in returned and is_deferred(array):
            _ = array._value


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
