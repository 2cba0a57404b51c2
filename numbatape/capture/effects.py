"""Side effects that a call repeats without a trace: ``self.history.append(loss)``, ``self.last = x``.

A function that stores values in containers has to do so in every call. The tape has these values as
additional outputs, and a call without a trace stores its own numbers in the same places. This needs two
conditions. First, only containers have changed: a list has become longer, or a dictionary or the attributes
of an object have other values. Second, the user's code only writes to these places, which is decided by the
names in it (`WrittenOnly`): then their contents cannot influence the result and need not be compared in each
call. A function that changes anything else is traced in every call.
"""

from __future__ import annotations

import types
from typing import NamedTuple

import numpy as np

from ..trace.array import TracedArray
from ..trace.primitives import dense_number, stop_gradient
from ..usercode.bytecode import WrittenOnly
from ..usercode.ownership import is_users_class
from .captured import Captured

_ATOMS = frozenset((float, int, bool, complex, str, bytes, type(None), np.float64, np.float32))
_HOOKS = ("__setattr__", "__getattribute__", "__getattr__", "__delattr__")
_VALUES = type({}.values())


class Kept(NamedTuple):
    """A traced value that the function stores: its output on the tape, and the class of its number."""

    output: int
    kind: type  # the class of the number; ndarray for arrays
    dtype: np.dtype

    def number(self, outputs):
        view = outputs[self.output]
        if self.kind is np.ndarray:
            return view.astype(self.dtype)  # a copy
        return self.kind(view[()])


class Made(NamedTuple):
    """A container that the function makes in each call, with templates of its entries."""

    kind: type
    keys: tuple
    parts: tuple


class Same(NamedTuple):
    """An object that is the same one in each call."""

    value: object


class Effects:
    """What a function did to containers that it captures.

    Attributes
    ----------
    appended
        (list, templates of what was added at its end).
    put
        (dictionary, key, template of what was put there).
    """

    def __init__(self):
        self.appended: list[tuple] = []
        self.put: list[tuple] = []

    def replay(self, outputs) -> None:
        """Repeat the side effects with the numbers of another call.

        Parameters
        ----------
        outputs
            Views of the tape's outputs.
        """
        for container, parts in self.appended:
            container.extend([_made(part, outputs) for part in parts])
        for container, key, part in self.put:
            container[key] = _made(part, outputs)

    @property
    def places(self) -> list[tuple]:
        """Pairs of a container and the keys that change; a list changes as a whole, and its keys are None."""
        return union(
            [(container, None) for container, _ in self.appended]
            + [(mapping, frozenset((key,))) for mapping, key, _ in self.put]
        )


def union(places: list[tuple]) -> list[tuple]:
    """Return places with one pair per container."""
    found: dict[int, tuple] = {}
    for container, keys in places:
        _, known = found.get(id(container), (None, keys))
        found[id(container)] = container, keys if keys is None else keys | known
    return list(found.values())


def _made(part, outputs):
    if part.__class__ is Kept:
        return part.number(outputs)
    if part.__class__ is Same:
        return part.value
    values = [_made(each, outputs) for each in part.parts]
    return dict(zip(part.keys, values, strict=True)) if part.kind is dict else part.kind(values)


class NotRepeatable(Exception):
    """The function did something that a call without a trace cannot repeat."""


def effects_of(trace, environment, outputs: list[int]) -> Effects | None:
    """Return what a traced call changed in captured containers; None if nothing, or if more changed.

    Parameters
    ----------
    environment
        What the function captures, as it was before the call.
    outputs
        Numbers of the tape's outputs, to which those of kept values are added.
    """
    count = len(outputs)
    try:
        found = _Changes(trace, environment, outputs).effects()
    except NotRepeatable:
        found = None
    if found is None:
        del outputs[count:]
    return found


class _Changes:
    def __init__(self, trace, environment: Captured, outputs: list[int]):
        self._trace, self._environment, self._outputs = trace, environment, outputs
        self._fresh: set[int] = set()  # containers that the function has made
        self._before = {id(value) for value in environment.reached()}
        self._dictionaries = environment.dictionaries()

    def effects(self) -> Effects | None:
        found = Effects()
        for container, entries in self._environment.sequences():
            if type(container) is _VALUES:
                continue  # belongs to a dictionary, which is handled below
            if type(container) is dict:
                _, before = self._dictionaries[id(container)]
                if any(key not in container for key in before):
                    raise NotRepeatable
                for key, value in container.items():
                    if key not in before or before[key] is not value:
                        found.put.append((container, key, value))
            elif len(container) != len(entries) or not all(map(_is, container, entries)):
                now = list(container)
                if type(container) is not list or not all(map(_is, now, entries)):
                    raise NotRepeatable
                if len(now) < len(entries):
                    raise NotRepeatable
                found.appended.append((container, now[len(entries) :]))
        if not found.appended and not found.put:
            return None
        code = WrittenOnly(self._environment.running())
        for container, _ in found.appended:
            if not code.appended_to(self._name_of(container)):
                raise NotRepeatable
        for container, key, _ in found.put:
            self._require_written_only(code, container, key)
        found.appended = [(c, [self._template(part) for part in parts]) for c, parts in found.appended]
        found.put = [(c, key, self._template(part)) for c, key, part in found.put]
        return found

    def _require_written_only(self, code: WrittenOnly, mapping: dict, key) -> None:
        owner = self._owner_of(mapping)
        if owner is None:
            if type(key) not in _ATOMS or not code.items_put_to(self._name_of(mapping)):
                raise NotRepeatable
        elif (
            type(key) is not str
            or any(getattr(type(owner), hook, None) is not getattr(object, hook, None) for hook in _HOOKS)
            # Code that compares, prints or copies a dataclass reads its fields without naming them.
            or key in getattr(type(owner), "__dataclass_fields__", ())
            or not code.assigned(key)
        ):
            raise NotRepeatable

    def _owner_of(self, mapping: dict):
        """Return the object of the user's whose attributes a dictionary holds."""
        for value in self._environment.reached():
            if getattr(value, "__dict__", None) is mapping:
                if is_users_class(type(value)):
                    return value
                raise NotRepeatable
        return None

    def _name_of(self, container) -> str:
        """Return the one name by which code can refer to a container."""
        found = {}
        for holder, name, value in self._environment.names():
            if value is container:
                found[id(holder), name] = name
        for mapping, before in self._dictionaries.values():
            for name, value in before.items():
                if value is container:
                    if self._owner_of(mapping) is None or type(name) is not str:
                        raise NotRepeatable
                    found[id(mapping), name] = name
        inside = (entries for other, entries in self._environment.sequences() if type(other) is not _VALUES)
        hidden = any(part is container for entries in inside for part in entries)
        bound = any(
            isinstance(value, types.BuiltinFunctionType) and value.__self__ is container
            for value in self._environment.reached()
        )
        if hidden or bound or len(found) != 1:
            raise NotRepeatable
        return next(iter(found.values()))

    def _template(self, value):
        kind = type(value)
        if kind is TracedArray and value._trace is self._trace:
            captures = self._trace.captures
            original = None if captures is None else captures.original(value)
            if original is not None:
                return Same(original)
            number = value._value
            self._outputs.append(dense_number(stop_gradient(value)))
            return Kept(len(self._outputs) - 1, type(number), np.asarray(number).dtype)
        if kind in _ATOMS or id(value) in self._before:
            return Same(value)
        if kind in (list, dict, tuple) and id(value) not in self._fresh:
            self._fresh.add(id(value))
            if kind is dict and not all(type(key) in _ATOMS for key in value):
                raise NotRepeatable
            parts = value.values() if kind is dict else value
            return Made(kind, tuple(value) if kind is dict else (), tuple(map(self._template, parts)))
        raise NotRepeatable


def _is(a, b) -> bool:
    return a is b
