"""Traced values that a function captures, turned into its arguments.

A rule computes with plain numbers when a tape is swept, and a sub-tape has a trace of its own. A function
that they call (an integrand, say) and its extra arguments may refer to traced values: in closures, defaults,
partials, containers and attributes of the user's objects. `Opened` finds these values, and puts others in
their places.

A rule runs again long after the line that calls it, when a loop of the user's has given the variables of a
closure, a list or an object's attributes other contents. So `Opened` remembers what it has found there:
whatever has changed since then is copied as it was.
"""

from __future__ import annotations

import collections
import copy
import types
from abc import ABC, abstractmethod
from collections.abc import Callable
from operator import is_not

import numpy as np

from ..errors import UnsupportedOperationError
from ..trace.array import TracedArray
from ..trace.complex_array import TracedComplex
from ..trace.integers import TracedInteger
from ..trace.library_kinds import Sparse
from ..trace.plain_arrays import PlainArray
from ..trace.trace import current
from ..usercode.classes import is_users_object_class
from ..usercode.frames import where_in_user_code
from .holders import container_of, holder_of
from .references import (
    CLASS,
    FIELDS,
    GLOBAL,
    MEMBER,
    SLOT,
    Reference,
    Walk,
    contents,
    of_object,
    references,
    slots_of,
)

# What a copy of the function shares with the function itself: the walk does not look there.
_SHARED = frozenset((GLOBAL, CLASS, MEMBER))

_MUTABLE = (dict, list, collections.deque, set)
_CONSTRAINTS = ("Bounds", "LinearConstraint", "NonlinearConstraint")


class Wrapper(ABC):
    """What numbatape makes of a function, which is its ``__wrapped__``. Classes register themselves."""

    __wrapped__: Callable

    @abstractmethod
    def of(self, f: Callable):
        """Return the same of another function."""


class Opened(Walk):
    """A function or a value that may refer to traced values.

    Parameters
    ----------
    name
        What error messages call it.
    value
        The function or the value.
    arrays
        Whether arrays that were made in the trace count as traced values, too: the trace may write to them.

    Attributes
    ----------
    found : list
        The traced values.
    """

    def __init__(self, name: str, value, arrays: bool = False):
        super().__init__()
        self._name, self._value, self._arrays = name, value, arrays
        self.found: list[TracedArray] = []
        self._places: dict[int, int] = {}
        self._owners: dict[int, list[int]] = {}  # by id: the ids of what refers to a value
        self._leaves: list[int] = []  # the ids of traced and plain arrays
        self._made: list[tuple] = []  # copies of containers and objects, and what they held at first
        self._before: dict[int, object] = {}  # by id: what something that can change was when it was found
        self.walk(Reference(value))
        self._opened = self._above(self._leaves)

    def visit(self, reference: Reference) -> list[Reference]:
        value = reference.value
        kind = type(value)
        if kind is TracedComplex:
            raise UnsupportedOperationError(
                f"{self._name} with complex traced parameters at {where_in_user_code()} is not supported; "
                "pass real and imaginary parts"
            )
        if kind is TracedArray or kind is PlainArray or kind is TracedInteger:
            self._leaves.append(id(value))
            if kind is TracedArray or (self._arrays and kind is PlainArray):
                self._places[id(value)] = len(self.found)
                self.found.append(value)
            elif kind is PlainArray:
                self._before[id(value)] = value._value.copy()
            return []
        if isinstance(value, Wrapper):  # ``nt.value_and_grad(f)``
            found = [Reference(value.__wrapped__)]
        elif isinstance(value, Sparse):
            found = [Reference(value.data)]
        else:
            held = of_object(value) if _is_constraint(value) else references(value)
            found = [part for part in held if part.kind not in _SHARED]
        for part in found:
            self._owners.setdefault(id(part.value), []).append(id(value))
        if kind is np.ndarray and value.dtype != object:
            if (trace := current()) is not None and trace.writes:
                self._leaves.append(id(value))
                self._before[id(value)] = _array_before(trace, value)
        elif _can_change(value):
            self._before[id(value)] = _entries(value) if kind is types.FunctionType else copy.copy(value)
        return found

    def keep_all(self) -> None:
        """Let the next copy be one of everything that can change, not only of what has changed."""
        self._opened |= self._above([*self._before])

    def _changed(self) -> list[int]:
        """Return the ids of functions and containers that hold something else than when they were found."""
        found = []
        for key, before in self._before.items():
            now, held = _entries(self.seen[key]), _entries(before)
            if len(now) != len(held) or any(map(is_not, now, held)):
                found.append(key)
        return found

    def _above(self, ids: list[int]) -> set[int]:
        """Return the ids of all values that refer to one of some values, directly or indirectly."""
        above: set[int] = set()
        waiting = [*ids]
        while waiting:
            key = waiting.pop()
            if key not in above:
                above.add(key)
                waiting += self._owners.get(key, ())
        return above

    def filled(self, values):
        """Return a copy with other values in the places of the traced ones."""
        done: dict = {}
        if changed := self._changed():
            self._opened |= self._above(changed)
        copied = self._copy(self._value, values, done)
        self._made = [(its, _entries(its)) for its in done.values()]
        return copied

    @property
    def written(self) -> bool:
        """Whether the last copy has changed what it refers to, which the function itself would have
        changed."""
        return any(
            len(entries) != len(_entries(its))
            or any(a is not b for a, b in zip(entries, _entries(its), strict=True))
            for its, entries in self._made
        )

    def _copy(self, value, values, done):
        kind = type(value)
        if id(value) in self._places:
            return values[self._places[id(value)]]
        if kind is PlainArray or (kind is np.ndarray and value.dtype != object and id(value) in self._before):
            return self._before[id(value)]
        if kind is TracedInteger:
            return value.settled()
        if id(value) not in self._opened:
            return value
        if id(value) in done:
            return done[id(value)]

        def again(part):
            return self._copy(part, values, done)

        holder, key = holder_of(value), id(value)
        if kind is types.FunctionType and holder is None:
            return _function(value, self._before.get(key, ()), again, done)
        value = self._before.get(key, value)
        if isinstance(value, dict) and (holder is None or kind is dict):
            result = done[key] = copy.copy(value)  # noted first, because it may refer to itself
            result.update({key: again(part) for key, part in value.items()})
        elif holder is not None:
            result = holder.made(value, [again(part) for part in holder.parts(value)])
        elif isinstance(value, Wrapper):
            result = value.of(again(value.__wrapped__))
        elif isinstance(value, Sparse):
            result = value.with_data(again(value.data))
        elif isinstance(value, (list, tuple)):
            parts = [again(part) for part in value]
            result = kind(*parts) if hasattr(value, "_fields") else kind(parts)
        else:
            result = done[key] = copy.copy(value)
            self._put_attributes(result, value, again)
        done[key] = result
        return result

    def _put_attributes(self, result, value, again) -> None:
        for reference in of_object(value):
            if reference.kind is FIELDS:
                fields = self._before.get(id(reference.value), reference.value)
                result.__dict__.update({name: again(part) for name, part in fields.items()})
            elif reference.kind is SLOT:
                object.__setattr__(result, reference.name, again(reference.value))


def _is_constraint(value) -> bool:
    """Whether a value is a constraint of scipy.optimize, which holds what the user gave it."""
    kind = type(value)
    return kind.__module__.startswith("scipy.optimize") and kind.__name__ in _CONSTRAINTS


def _entries(value) -> list:
    """Return what a container or an object holds."""
    if isinstance(value, dict):
        return [*value, *value.values()]
    if isinstance(value, (list, tuple, collections.deque)):
        return list(value)
    if isinstance(value, set):
        return [*value]
    if type(value) is np.ndarray:  # of numbers, it is copied in any case
        return [*value.flat] if value.dtype == object else []
    if type(value) is types.FunctionType:
        return [part for _, cell, content in contents(value) for part in (cell, content)]
    slots = [part.value for part in of_object(value) if part.kind is SLOT] if slots_of(type(value)) else []
    return [*slots, *_entries(getattr(value, "__dict__", ()))]


def _can_change(value) -> bool:
    """Whether a value is a function with a closure, or a container that can be written to."""
    if type(value) is types.FunctionType:
        return bool(value.__closure__)
    holder = holder_of(value)
    if holder is not None:
        return holder.changed is not None
    if not is_users_object_class(type(value)):
        return False
    return container_of(value) in _MUTABLE or bool(slots_of(type(value)))


def _array_before(trace, array: np.ndarray) -> np.ndarray:
    """Return a copy of an array of numbers, the same one as long as these do not change."""
    copied = trace.snapshots.get(id(array))
    if copied is None or not np.array_equal(copied[1], array, equal_nan=array.dtype.kind in "fc"):
        copied = trace.snapshots[id(array)] = array, array.copy()
    return copied[1]


def _function(value, held, again, done):
    """Return a copy of a function, whose closure holds copies of what was in it."""
    cells = tuple(types.CellType() for _ in value.__closure__ or ())
    result = done[id(value)] = types.FunctionType(
        value.__code__, value.__globals__, value.__name__, None, cells or None
    )
    made = {id(old): new for old, new in zip(value.__closure__ or (), cells, strict=True)}
    for cell, content in zip(held[::2], held[1::2], strict=True):
        made[id(cell)].cell_contents = again(content)
    result.__defaults__ = value.__defaults__ and tuple(map(again, value.__defaults__))
    result.__kwdefaults__ = value.__kwdefaults__ and {k: again(v) for k, v in value.__kwdefaults__.items()}
    result.__qualname__ = value.__qualname__
    result.__dict__.update({name: again(part) for name, part in value.__dict__.items()})
    return result


def as_now(functions: tuple) -> tuple:
    """Return functions as they are: later turns of a loop cannot change what they refer to."""
    opened = Opened("a rule", functions)
    opened.keep_all()
    return opened.filled(opened.found)
