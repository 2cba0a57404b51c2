"""What a body does to Python's own objects: in each step in Python, but once where a loop records the body.

A body that appends to a list, counts, or takes the next of an iterator would do so for one step only, and
what it computes from these would be that of one step: such bodies raise. What a body assigns before it reads
it (``self.residual = y - mu``), or computes once and keeps (``if self.factor is None: self.factor = ...``),
is allowed, because each step finds the same. To tell that from a state which one step leaves for the next
(``self.h = 0.5 * self.h + v``), a body that has changed something runs once more, and has to record the
same. Then it may also count its runs, or keep a log, for the caller (`numbatape.control.counters_outside`):
the count is that of the runs, and what the second run adds is taken back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import Any, NoReturn

import numpy as np

from ..capture.changed_state import Change, differences
from ..capture.environment import Environment
from ..errors import UnsupportedOperationError
from ..tape.bodies import Stretch
from ..tape.instruction import Instruction
from ..tape.tape import POOLS
from ..trace import pytrees
from ..trace.array import TracedArray
from ..trace.complex_array import TracedComplex
from ..trace.plain_arrays import as_ndarrays
from ..trace.trace import Trace
from .body_traces import BodyTrace, Leaf, getattr_or_none
from .counters_outside import is_for_the_caller
from .trees import abandoned


def raises_errors() -> bool:
    """Whether NumPy raises floating-point errors now: in a trace, only the function itself says so."""
    return not {"raise", "call"}.isdisjoint(np.geterr().values())


class BodyState:
    """What the functions of a body refer to, as it is before they run.

    Parameters
    ----------
    trace
        The trace that is under way.
    name
        What the user called.
    functions
        The user's functions.
    """

    def __init__(self, trace: Trace, name: str, functions: Iterable):
        self._trace, self._name, self._functions = trace, name, tuple(functions)
        self._before = [*map(Environment, self._functions)]

    def changes(self) -> list[Change]:
        """Return what is another object, or has other entries, than before."""
        # What a sub-tape appends is appended when it is traced, wherever that happens.
        written = (place for callee, _ in self._trace.calls.sub_tapes for place in callee.written)
        of_sub_tapes = {id(container) for container, _ in written}
        return [change for state in self._before for change in differences(state, of_sub_tapes)]

    def refuse(self, what: str) -> NoReturn:
        raise UnsupportedOperationError(
            f"{self._name}: its body changes {what}, which Python would do in each step, and the body runs "
            "once: make it part of the carry or of the outputs, or do it outside of the body"
        )

    def check_left(self) -> list[Change]:
        """Return what the functions have left for the caller alone; raise if they have left anything else.

        Traced values may stay, because they refuse to be used outside of the body.
        """
        left = [
            x for x in self.changes() if x.get is None or type(x.get()) not in (TracedArray, TracedComplex)
        ]
        for change in left:
            if not is_for_the_caller(change, self._trace.capture.environment, self._before):
                self.refuse(change.name)
        return left

    def undo(self) -> None:
        """Set back what the functions have changed."""
        for state in self._before:
            state.undo()

    def later(self) -> BodyState:
        """Return the present state of what these functions refer to."""
        return BodyState(self._trace, self._name, self._functions)


class _Recorded:
    """What a body has recorded, in terms that two runs of it have in common.

    Parameters
    ----------
    known
        Keys of what an earlier run has computed once for all steps, which this one may have found.
    """

    def __init__(self, body: BodyTrace, result, known: Collection[int] = ()):
        stretch = Stretch(body.tape, body.start, body.inputs, [], True)
        keys, values, pools = stretch.keys, body.tape.values, len(POOLS)
        self.once = {keys[row.out] for row in stretch.others if not row.is_guard}
        places: dict[int, object] = dict.fromkeys((*known, *self.once), "computed once")
        places |= {keys[number]: ("input", k) for k, number in enumerate(body.inputs)}
        places |= {keys[out]: ("step", k) for k, row in enumerate(stretch.body) for out in row.results}

        def place_of(number: int):
            storage, offset, layout = values[number]
            key, literal = keys[number], stretch.literals.get(keys[number])
            # An array that a body makes of numbers is another literal in each run.
            its = places.get(key, key) if literal is None else _contents(literal.data)
            return its, offset if storage >= pools else 0, layout

        def operands_of(row: Instruction) -> list:
            if row.is_guard or not body.tape.ops[row.row].calls:
                return [*map(place_of, row.operands)]
            called = body.tape.calls[int(body.tape.numbers[row.c])]
            # Loops, branches and rules in the body are recorded anew in each run.
            return [place_of(row.a), place_of(row.b), called.fingerprint()]

        self.steps = [(row.op, row.line, *operands_of(row)) for row in stretch.body]
        self.results = [_part_of(leaf, place_of) for leaf in pytrees.leaves(result)]
        self._others = Counter(
            (row.op, row.line, *(place_of(x) for x in row.operands if keys[x] in stretch.literals))
            for row in stretch.others
        )

    def repeats(self, first: _Recorded) -> bool:
        """Whether a later run has recorded what the first one did, but for what was computed once."""
        same = self.steps == first.steps and len(self.results) == len(first.results)
        return same and self._others <= first._others and all(map(_is_same, self.results, first.results))


def _part_of(leaf, place_of: Callable):
    """Return what can be compared of a part of a body's result."""
    if type(leaf) is TracedArray:
        number = getattr_or_none(leaf, "_id")
        return "written to" if number is None else place_of(number)
    return type(leaf) if type(leaf) is TracedComplex else as_ndarrays(leaf)


def _contents(data: np.ndarray) -> tuple:
    return data.dtype.str, data.shape, data.tobytes()


def _is_same(now, before) -> bool:
    if type(now) is not type(before):
        return False
    if isinstance(now, np.ndarray):
        return _contents(now) == _contents(before)
    return now is before or bool(now == before)


def run_alike(body: BodyTrace, state: BodyState, run: Callable[[], Any]):
    """Run a body; raise if another step would find another state of Python's own objects."""
    result = run()
    with abandoned(body):
        changes = state.changes()
        if not changes:
            return result
        first, again = _Recorded(body, result), state.later()
    body.abandon()
    result = run()
    with abandoned(body):
        left = again.check_left()
        if not _Recorded(body, result, first.once).repeats(first):
            state.refuse(f"{changes[0].name}, and uses what the step before has left there")
        for change in left:
            change.undo()
    return result


def run_step(body: BodyTrace, function: Callable, leaves: list[Leaf], users: Iterable):
    """Run a body as `BodyTrace.run` does; raise if it did what holds for the numbers of one step only.

    Parameters
    ----------
    users
        The user's functions, which ``function`` calls.
    """
    if raises_errors():
        raise UnsupportedOperationError(
            f"{body.name}: NumPy is told to raise floating-point errors, as it does while a body is "
            "traced, for the numbers of one step; leave the loop out of np.errstate, and test what it returns"
        )
    state, validity = BodyState(body.trace, body.name, users), body.trace.validity
    before, validity.unforeseen = validity.unforeseen, None
    result = run_alike(body, state, lambda: body.run(function, leaves))
    if validity.unforeseen is not None:
        body.abandon()
        raise UnsupportedOperationError(
            f"{body.name}: its body {validity.unforeseen}, which may differ from step to step, and the "
            "body runs once; do so outside of the loop, use np.where or nt.cond, or print the value"
        )
    validity.unforeseen = before
    return result
