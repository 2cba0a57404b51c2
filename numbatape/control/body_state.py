"""What a body does to Python's own objects: in each step in Python, but once where a loop records the body.

A body that appends to a list, counts, or takes the next of an iterator would do so for one step only, and
what it computes from these would be that of one step: such bodies raise. What a body assigns before it reads
it (``self.residual = y - mu``), or computes once and keeps (``if self.factor is None: self.factor = ...``),
is allowed, because each step finds the same. To tell that from a state which one step leaves for the next
(``self.h = 0.5 * self.h + v``), a body that has assigned something runs once more, and has to record the
same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from operator import is_
from typing import Any, NoReturn

import numpy as np

from ..capture.captured import is_empty, is_module, is_unset
from ..capture.changed_names import name_of_container, name_of_entry
from ..capture.environment import Environment
from ..errors import UnsupportedOperationError
from ..tape.bodies import Stretch
from ..tape.tape import POOLS
from ..trace import pytrees
from ..trace.array import TracedArray
from ..trace.complex_array import TracedComplex
from ..trace.plain_arrays import as_ndarrays
from ..trace.trace import Trace
from .body_traces import BodyTrace, Leaf, getattr_or_none
from .trees import abandoned

_VALUES = type({}.values())
_NOTHING = object()


def raises_errors() -> bool:
    """Whether NumPy raises floating-point errors now: in a trace, only the function itself says so."""
    return not {"raise", "call"}.isdisjoint(np.geterr().values())


class Place:
    """A variable, an attribute or an entry of a container that a body has assigned."""

    def __init__(self, get: Callable[[], Any], put: Callable[[Any], None], name: str):
        self.get, self.put, self.name = get, put, name

    @classmethod
    def of_entry(cls, container, key, name: str) -> Place:
        return cls(lambda: container[key], partial(container.__setitem__, key), name)


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
        self._trace, self._name = trace, name
        self._before = [_State(function) for function in functions]

    def assigned(self) -> list[Place]:
        """Return the places that have other values now; raise where something else has changed."""
        found: list[Place] = []
        # What a sub-tape appends is appended when it is traced, wherever that happens.
        written = (place for callee, _ in self._trace.calls.sub_tapes for place in callee.written)
        of_sub_tapes = {id(container) for container, _ in written}
        for state in self._before:
            changed = state.changed(of_sub_tapes)
            if changed is not None:
                self.refuse(changed)
            found += state.assigned()
        return found

    def refuse(self, what: str) -> NoReturn:
        raise UnsupportedOperationError(
            f"{self._name}: its body changes {what}, which Python would do in each step, and the body runs "
            "once: make it part of the carry or of the outputs, or do it outside of the body"
        )

    def check_traced(self) -> None:
        """Raise if the functions have left anything behind but traced values."""
        for place in self.assigned():
            if type(place.get()) not in (TracedArray, TracedComplex):  # these refuse to be used outside
                self.refuse(place.name)

    def undo(self) -> None:
        """Set back what the functions have changed."""
        for state in self._before:
            state.undo()

    def later(self) -> BodyState:
        """Return the present state of what these functions refer to."""
        return BodyState(self._trace, self._name, [state.function for state in self._before])


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
            return places.get(keys[number], keys[number]), offset if storage >= pools else 0, layout

        self.steps = [(row.op, row.line, *map(place_of, row.operands)) for row in stretch.body]
        self.results = [_part_of(leaf, place_of) for leaf in pytrees.leaves(result)]
        self._others = Counter(
            (row.op, row.line, *(keys[x] for x in row.operands if keys[x] in stretch.literals))
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


def _is_same(now, before) -> bool:
    if type(now) is not type(before):
        return False
    if isinstance(now, np.ndarray):
        return now.shape == before.shape and now.tobytes() == before.tobytes()
    return now is before or bool(now == before)


def run_alike(body: BodyTrace, state: BodyState, run: Callable[[], Any]):
    """Run a body; raise if another step would find another state of Python's own objects."""
    result = run()
    with abandoned(body):
        places = state.assigned()
        if not places:
            return result
        first, state = _Recorded(body, result), state.later()
    body.abandon()
    result = run()
    with abandoned(body):
        state.check_traced()
        if not _Recorded(body, result, first.once).repeats(first):
            state.refuse(f"{places[0].name}, and uses what the step before has left there")
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


class _State(Environment):
    """What one function refers to."""

    def __init__(self, function):
        super().__init__(function)
        self.function = function

    def changed(self, others: Collection[int]) -> str | None:
        """Return the name of an object that was changed in a way that no assignment of a step repeats.

        Parameters
        ----------
        others
            Ids of containers that do not count.
        """
        for noted in self._iterators:
            if noted.moved():
                return str(noted.site)
        for container, members in self._sets:
            if len(container) != len(members):
                return name_of_container(self, container)
        for known in self._classes:
            if known.changed():
                return f"the class {known.name}"
        dictionaries = self.dictionaries()
        for container, entries in self._sequences:
            if isinstance(container, dict):
                if any(key not in container for key in dictionaries[id(container)][1]):
                    return name_of_container(self, container)
            elif type(container) is not _VALUES and id(container) not in others:
                moved = type(container) is not list and not all(map(is_, container, entries))
                if moved or len(container) != len(entries):
                    return name_of_container(self, container)
        return None

    def assigned(self) -> Iterator[Place]:
        """Yield the places that have other values than before."""
        for container, entries in self._sequences:
            if type(container) is list:
                for k, (now, before) in enumerate(zip(container, entries, strict=False)):
                    if now is not before:
                        yield Place.of_entry(container, k, name_of_entry(self, container, k))
        for mapping, before in self.dictionaries().values():
            for key in [k for k, now in mapping.items() if now is not before.get(k, _NOTHING)]:
                yield Place.of_entry(mapping, key, name_of_entry(self, mapping, key))
        for mapping, key, value in self._bindings:
            if mapping.get(key, _NOTHING) is not value:
                yield Place.of_entry(mapping, key, f"`{key}`")
        for mapping, key in self._absent:
            if key in mapping and not is_module(mapping[key]):
                yield Place.of_entry(mapping, key, f"`{key}`")
        for cell, value in self._cells:
            if is_empty(cell) or cell.cell_contents is not value:
                put = partial(setattr, cell, "cell_contents")
                yield Place(lambda cell=cell: cell.cell_contents, put, f"`{self._variables[id(cell)]}`")
        for owner, name, value in self._attributes:
            if getattr(owner, name, _NOTHING) is not value:
                yield Place(partial(getattr, owner, name), partial(setattr, owner, name), f"`.{name}`")
        for slot, owner in self._unset:
            if not is_unset(slot, owner):
                put = partial(slot.__set__, owner)
                yield Place(partial(slot.__get__, owner), put, f"`.{slot.__name__}`")
