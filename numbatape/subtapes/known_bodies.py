"""The traces of a sub-tape for one signature of its arguments.

The function is traced on its own, as a function that a verb is given is, so that its tape has no part of the
tape that calls it: it is the same for all callers and for all sizes. A trace that cannot stand for the
function in other calls (it writes to its arguments, its result is one of them, it reads a clock, it keeps
numbers) is dropped. The function is then recorded in place by whoever calls it, as any other function is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from ..capture.effects import union
from ..capture.environment import Environment
from ..capture.repeated_values import Same
from ..control.trees import parts_of
from ..errors import MissingBodyError, NumbatapeError, UnsupportedOperationError
from ..ops import ROWS
from ..recording.record import record
from ..recording.recorded import InputLeaf, Manner, Recording
from ..stand_ins.opened import Opened
from ..tape import Tape
from ..tape.loop import Branches, Loop
from ..tape.tape import ACTIVE, F64, NARROW, VARYING
from ..trace import operations, pytrees
from ..trace.aliasing import root_of
from ..trace.array import TracedArray, is_deferred, new_traced
from ..trace.complex_array import TracedComplex
from ..trace.integers import TracedInteger
from ..trace.plain_arrays import PlainArray, PlainComplex, as_ndarrays
from ..trace.primitives import operand
from ..trace.trace import Trace, current
from .call_arguments import Arguments, Kind, kind_of

_TRACED = frozenset((TracedArray, TracedComplex, TracedInteger, PlainArray, PlainComplex))
MOST_CALLS = 256  # ways of calling it that are kept: places of arguments and results
MOST_BODIES = 64  # traces for one signature: the oldest go


@pytrees.opaque
class Result:
    """What a trace of the function returned.

    Attributes
    ----------
    given
        The traced inputs.
    structure
        Of the result.
    leaves
        For each leaf its `Kind`, or (in a tuple) the value that is the same in all calls.
    shares
        Whether a part of it is an argument, or part of another one: writing to it would change that.
    """

    def __init__(self):
        self.given: list = []
        self.structure: Any = None
        self.leaves: list = []
        self.shares = False

    def take(self, result) -> tuple:
        """Note a result; return its traced leaves, in float64 cells."""
        given = self.given
        trace = current()
        assert trace is not None
        if trace.integers.hashed:
            result = operations.with_plain_keys(result)
        parts, self.structure = parts_of(result)
        self.leaves, found = [], []
        owned = {
            id(root_of(x._value))
            for x in given
            if type(x) is TracedArray and isinstance(x._value, np.ndarray)
        }
        for part in map(as_ndarrays, parts):
            array = part.lifted() if type(part) is TracedInteger else part
            if type(array) is not TracedArray:
                self.leaves.append((part.copy() if isinstance(part, np.ndarray) else part,))
                continue
            kind = kind_of(part)
            if kind is None:
                raise UnsupportedOperationError("a sub-tape returns real and complex numbers")
            self.leaves.append(kind._replace(active=True))
            if not is_deferred(array) and isinstance(array._value, np.ndarray):
                owner = id(root_of(array._value))
                self.shares = self.shares or owner in owned
                owned.add(owner)
            found.append(_wide(trace, array) if kind.dtype in NARROW else array)
        return tuple(found)


def _wide(trace: Trace, x: TracedArray) -> TracedArray:
    number = operand(trace, x, F64)
    return new_traced(trace, np.astype(x._value, np.float64), number, x._level, F64)


class Body:
    """One trace.

    Attributes
    ----------
    tape
        What it has recorded.
    result
        What the function returned.
    callees
        The sub-tapes that it calls, with their versions then.
    samples
        As in `Loop`.
    """

    def __init__(self, tape: Tape, result: Result, callees, samples: tuple | None):
        self.tape, self.result, self.samples = tape, result, samples
        self.callees = tuple(callees)

    @property
    def is_current(self) -> bool:
        """Whether no sub-tape in it has got another trace since."""
        return all(callee.version == version for callee, version in self.callees)

    @cached_property
    def forward_tape(self) -> Tape:
        """The same tape where nothing is swept back, so that cells are used again."""
        return replace(self.tape, forward=True)

    @cached_property
    def may_fail(self) -> bool:
        """Whether it may raise an error for some numbers, which the calling function may catch."""
        return _may_fail(self.tape)

    def allows(self, dimensions: tuple[int, ...]) -> bool:
        """Whether its guards on sizes hold."""
        sizes = self.tape.sizes
        try:
            return sizes.broken_guard(sizes.evaluate(dimensions)) is None
        except ZeroDivisionError:
            return False


class KnownBodies:
    """All traces for one signature.

    Parameters
    ----------
    name
        What error messages call the function.
    function
        ``function(captured, *args, **kwargs)``.
    opened
        The traced values that it captures.
    watched
        Everything that it refers to is reached from these.
    arguments
        Of a call with this signature.
    captured
        The kinds of traced values that the function captures, which are inputs behind the arguments.
    options
        ``(strong_zero, values)``, as in `Config`.
    is_local
        Whether the function exists in one trace of its caller only.

    Attributes
    ----------
    bodies
        Traces, the oldest first.
    version
        Counts them.
    in_place
        Whether callers record the function in place.
    raises
        Whether it has raised: callers that may catch that, because they are no bodies of loops,
        record it in place, with a guard on the branch that raises.
    written
        Containers that the function only writes to (`Effects.places`): it does so when it is traced.
    """

    def __init__(
        self,
        name: str,
        function: Callable,
        opened: Opened,
        watched,
        arguments: Arguments,
        captured,
        options,
        is_local: bool,
    ):
        self.name, self._function, self._opened, self._watched = name, function, opened, watched
        self._arguments, self._captured = arguments, list(captured)
        self._options, self.is_local = options, is_local
        self.bodies: list[Body] = []
        self.version = 0
        self._calls: dict[str, Loop | Branches] = {}
        self.in_place = self.raises = False
        self.is_recording = False
        self.written: list[tuple] = []
        self._environment = self._made_environment()
        if None in self._captured or self._refers_to_a_trace():
            self.in_place = True

    def _refers_to_a_trace(self) -> bool:
        """Whether it reaches a value of its caller's trace that is none of its inputs (a global variable)."""
        inputs = set(map(id, self._opened.found))
        return any(type(x) in _TRACED and id(x) not in inputs for x in self._environment.reached)

    @property
    def kinds(self) -> list[Kind]:
        """The kinds of all inputs."""
        return [*self._arguments.kinds, *self._captured]

    def _made_environment(self) -> Environment:
        environment = Environment(self._watched[0], self.written)
        for value in (*self._watched[1:], *self._arguments.statics.values()):
            environment.add(value)
        return environment

    @property
    def is_stale(self) -> bool:
        """Whether something that the function captures has changed."""
        return self._environment.changed()

    def refers_to(self, ids: set[int]) -> bool:
        """Whether the function refers to an object, directly or indirectly."""
        return any(id(value) in ids for value in self._environment.reached)

    def reads(self, assigned: set[tuple[int, str]]) -> bool:
        """Whether the function reads one of some global variables, given as (id of the globals, name)."""
        names = self._environment.names() if assigned else ()
        return any((id(holder), name) in assigned for holder, name, _ in names)

    def drop(self, bodies: list[Body]) -> None:
        """Forget some traces."""
        self.bodies = [body for body in self.bodies if body not in bodies]
        self.version += 1

    def only(self, made: Loop | Branches):
        """Return the one object that stands for calls like this one: what is derived from it is made once."""
        if len(self._calls) > MOST_CALLS:
            self._calls.clear()
        return self._calls.setdefault(made.fingerprint(), made)

    def record(self, given: list, caller: Environment | None = None) -> bool:
        """Trace the function for the inputs of a call; return whether a trace was added.

        Parameters
        ----------
        given
            The inputs.
        caller
            What the calling function captures. What this function writes to while it is traced is no side
            effect of the caller.
        """
        environment = self._made_environment()
        environment.repeats = True
        result, callees = Result(), []
        inputs = [
            InputLeaf(value, ACTIVE if kind.active else VARYING, wide=True)
            for value, kind in zip(given, self.kinds, strict=True)
        ]
        count, function = len(self._arguments.kinds), self._function

        def rebuild(traced: list) -> tuple[tuple, dict]:
            args, kwargs = self._arguments.rebuilt(traced[:count])
            result.given = traced
            return (tuple(traced[count:]), *args), kwargs

        def run(captured, *args, **kwargs):
            found = function(captured, *args, **kwargs)
            trace = current()
            callees[:] = [] if trace is None else trace.calls.sub_tapes
            return result.take(found)

        strong, values = self._options
        self.is_recording = True
        try:
            recording = record(run, inputs, rebuild, Manner(strong=strong, values=values), environment)
        except Exception:
            environment.undo()  # the function may run again, in its caller
            raise
        finally:
            self.is_recording = False
        places = [] if recording.effects is None else recording.effects.places
        if self._opened.written or not _stands_for_other_calls(recording, environment):
            environment.undo()
            self.in_place = True
            return True
        places = [*places, *(place for callee, _ in callees for place in callee.written)]
        environment.forget(places)
        if environment.changed():
            environment.undo()
            self.in_place = True
            return True
        self.written = union(self.written + places)
        if caller is not None:
            caller.note_again(self.written)
        self._environment = self._made_environment()
        known = {body.tape.digest for body in self.bodies if body.is_current}
        if recording.tape.digest in known:
            return False
        self.bodies = [body for body in self.bodies if body.is_current][-MOST_BODIES + 1 :]
        samples = tuple(np.asarray(value, float) for value in given) if recording.tape.calls_rules else None
        self.bodies.append(Body(recording.tape, result, callees, samples))
        self.version += 1
        return True

    def missing(self, cells: list[np.ndarray]) -> MissingBodyError:
        """Return the error that says that no trace holds for some inputs, given in float64."""
        given = [kind.made(each) for kind, each in zip(self.kinds, cells, strict=True)]
        return MissingBodyError(
            f"{self.name}: a branch in it takes a path that was not traced",
            lambda caller: not self.is_local and self.record_met(given, caller),
            self._keep_in_place,
        )

    def record_met(self, given: list, caller: Environment | None) -> bool:
        """Trace the function as `record` does, for numbers that were met; note whether it raises."""
        try:
            return self.record(given, caller)
        except NumbatapeError:
            raise
        except Exception:
            self.raises = True
            self.version += 1  # traces of callers that do not know it are old
            raise

    def _keep_in_place(self) -> bool:
        before, self.in_place = self.in_place, True
        return not (before or self.is_local)


def _stands_for_other_calls(recording: Recording, environment: Environment) -> bool:
    """Whether a trace is what the function does in other calls, too."""
    effects = recording.effects
    if effects is not None and (effects.counts or not all(map(_is_same, _parts(effects)))):
        return False  # side effects happen when a sub-tape is traced, but counters count calls
    if recording.kept or recording.failed or recording.pinned or recording.memory:
        return False
    return not (environment.opaque or recording.outside)


def _may_fail(tape: Tape) -> bool:
    """Whether an instruction of a tape, or of a body in it, may fail."""
    used = ROWS.is_any(ROWS.fallible - ROWS.with_trait("calls"), tape.code["op"])
    if used.any():
        return True
    return tape.calls_rules or any(_may_fail(body) for each in tape.calls for body in each.bodies)


def _parts(effects):
    for _, parts in effects.appended:
        yield from parts
    for _, _, part in effects.put:
        yield part


def _is_same(part) -> bool:
    return type(part) is Same
