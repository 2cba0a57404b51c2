"""What a traced call has changed in what its function captures, as effects that other calls repeat."""

from __future__ import annotations

import collections
import functools
import types
import weakref
from operator import is_
from typing import TYPE_CHECKING

import numpy as np

from ..late import imported
from ..trace.aliasing import root_of
from ..trace.array import TracedArray
from ..trace.complex_array import TracedComplex
from ..trace.integers import TracedInteger, lifted
from ..trace.plain_arrays import PlainArray, as_ndarrays
from ..trace.primitives import dense_number, stop_gradient
from ..usercode.ownership import is_users_class
from .captured import Captured, is_empty
from .effects import Effects
from .moving_names import key_of
from .references import Reference, Walk, references

if TYPE_CHECKING:
    from ..usercode.written_only import WrittenOnly

_ATOMS = frozenset((float, int, bool, complex, str, bytes, type(None), np.float64, np.float32))
_TRACED = frozenset((TracedArray, TracedComplex, TracedInteger))
_HOOKS = ("__setattr__", "__getattribute__", "__getattr__", "__delattr__")
_VALUES = type({}.values())
_DICTIONARIES = (dict, collections.Counter, collections.defaultdict, collections.OrderedDict)
_WEAK = (weakref.ReferenceType, *weakref.ProxyTypes)  # they lead to objects, and not to their stand-ins


def _values():
    return imported(".repeated_values", __package__)  # few functions have side effects


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
    if environment.uses is not None and environment.uses.may_have_read(environment.uncompared):
        trace.validity.failed = True  # what was read there is not compared, so this trace serves one call
    changes = _Changes(trace, environment, outputs)
    try:
        found = changes.effects()
        environment.changes = ()
    except NotRepeatable:
        found = None
        environment.changes = tuple(dict.fromkeys(changes.names))
    if found is None:
        del outputs[count:]
    return found


class _Changes:
    """What a traced call has changed; it raises `NotRepeatable` where a call without a trace cannot do so."""

    def __init__(self, trace, environment: Captured, outputs: list[int]):
        self._trace, self._environment, self._outputs = trace, environment, outputs
        self._fresh: set[int] = set()  # containers that the function has made
        # The keys are ids of the owners of memory; the values say what is kept of it, its
        # arrays and their templates.
        self._memory: dict[int, list[tuple]] = {}
        self.names: list[str] = []  # the names of what has changed
        self._before = {id(value) for value in environment.reached}
        self._dictionaries = environment.dictionaries()

    @functools.cached_property
    def _code(self) -> WrittenOnly:
        environment = self._environment
        held = any(getattr(value, "__name__", "") == "__init__" for _, _, value in environment.names())
        written_only = imported("..usercode.written_only", __package__)  # few functions have side effects
        return written_only.WrittenOnly(environment.running(), held)

    def effects(self) -> Effects | None:
        """Return what a call without a trace has to do to what the function captures; None for nothing."""
        found = Effects()
        for container, entries in self._environment.sequences:
            if type(container) is _VALUES:
                continue  # belongs to a dictionary, which is handled below
            if type(container) in _DICTIONARIES:
                _, before = self._dictionaries[id(container)]
                if any(key not in container for key in before):
                    raise NotRepeatable
                if any(key in before and before[key] is not value for key, value in container.items()):
                    imported(".rewritten_entries", __package__).put_back(container, before)
                for key, value in container.items():
                    moves = key_of(key, container) in self._trace.capture.moving
                    if not moves and (key not in before or before[key] is not value):
                        self._item(found, container, key, before.get(key), value)
            elif len(container) != len(entries) or not all(map(is_, container, entries)):
                if type(container) is collections.deque:
                    found.appended.append((container, _appended(container, entries)))
                else:
                    self._list(found, container, entries)
        self._variables(found)
        found.moved = [*self._trace.capture.reassigned.items()]
        if not found:
            return None
        self.names += [str(key) for _, key, _ in found.put if type(key) in _ATOMS]
        self._observe_others(found)
        for container, _ in found.appended:
            if not self._code.appended_to(self._name_of(container)):
                raise NotRepeatable
        for container, key, _ in found.put:
            self._require_written_only(container, key)
        found.appended = [(c, [self._template(part) for part in parts]) for c, parts in found.appended]
        found.put = [(c, key, self._template(part)) for c, key, part in found.put]
        found.moved = [(name, self._template(part)) for name, part in found.moved]
        return found

    def _item(self, found: Effects, mapping: dict, key, before, now) -> None:
        """Note that an item of a dictionary, or an attribute, has another value."""
        if type(before) is type(now) is int:
            owner = self._owner_of(mapping)
            if owner is None:
                counts = type(key) in _ATOMS and self._code.item_counted(self._name_of(mapping), key)
            else:
                counts = self._is_plain_attribute(owner, key) and self._code.counted(key)
            if counts:
                found.counted.append((mapping, key, now - before))
                return
        found.put.append((mapping, key, now))

    def _list(self, found: Effects, container, entries) -> None:
        """Note that a list has become longer, or that some of its entries have counted."""
        if type(container) is not list or len(container) < len(entries):
            raise NotRepeatable
        moving = self._trace.capture.moving
        changed = [k for k, entry in enumerate(entries) if container[k] is not entry]
        changed = [k for k in changed if key_of(k, container) not in moving]
        if not changed and len(container) == len(entries):
            return
        if not changed:
            found.appended.append((container, container[len(entries) :]))
            return
        name = self._name_of(container)
        if len(container) != len(entries):
            raise NotRepeatable
        for k in changed:
            if not (type(entries[k]) is type(container[k]) is int and self._code.item_counted(name, k)):
                raise NotRepeatable
            found.counted.append((container, k, container[k] - entries[k]))

    def _variables(self, found: Effects) -> None:
        """Note which global variables, attributes of functions and variables of closures have counted.

        Those with other changes are left to `Captured.rebound`, which would take a traced value for what was
        there before, if its number in this call is the same.
        """
        environment, moving = self._environment, self._trace.capture.moving
        for mapping, name, before in environment.bindings:
            now = mapping.get(name) if type(mapping) is dict else None
            if now is not before and type(now) is type(before) is int and self._code.counted(name):
                found.counted.append((mapping, name, now - before))
            elif type(now) in _TRACED and key_of(name, mapping) not in moving:
                raise NotRepeatable
        for cell, name, before in environment.variables():
            now = None if is_empty(cell) else cell.cell_contents
            if now is not before and type(now) is type(before) is int and self._code.counted(name):
                found.counted_variables.append((cell, now - before))
            elif type(now) in _TRACED and key_of(name, cell) not in moving:
                raise NotRepeatable
        slots = (getattr(owner, name, None) for owner, name, _ in environment.attributes)
        members = (place.get(name) for place, name, _ in environment.members_of_classes)
        if any(type(now) in _TRACED for now in (*slots, *members)):
            raise NotRepeatable

    def _observe_others(self, found: Effects) -> None:
        """Let the next run observe attributes that code does not only write."""
        for mapping, key, _ in found.put:
            if type(key) is str and self._owner_of(mapping) is not None and not self._code.assigned(key):
                self._environment.observes.add(key)

    def _require_written_only(self, mapping: dict, key) -> None:
        owner = self._owner_of(mapping)
        if owner is None:
            if type(key) not in _ATOMS or not self._code.item_put(self._name_of(mapping), key):
                raise NotRepeatable
        elif self._is_plain_attribute(owner, key) and self._code.assigned(key):
            return
        elif not self._assigned_first(owner, mapping, key):
            raise NotRepeatable

    def _assigned_first(self, owner, mapping: dict, key) -> bool:
        """Whether the run has assigned an attribute before anything can have read it."""
        environment = self._environment
        return (
            environment.uses is not None
            and environment.uses.assigned_first(mapping, key)
            and not _hooked(owner)
            and not self._hides_reads
            and not self._of_libraries.holds(owner)
        )

    @functools.cached_property
    def _hides_reads(self) -> bool:
        """Whether something may read any attributes without being seen."""
        environment = self._environment
        reflects = self._code.reflects or environment.runs_later
        return reflects or any(issubclass(type(value), _WEAK) for value in environment.reached)

    @functools.cached_property
    def _of_libraries(self) -> Reached:
        """What objects of libraries lead to; they read its attributes without being seen."""
        return Reached(self._environment.libraries_hold)

    def _is_plain_attribute(self, owner, key) -> bool:
        """Whether an attribute is read by its name only, and written without any code of the user's."""
        return (
            type(key) is str
            and not _hooked(owner)
            # Code that compares, prints or copies a dataclass reads its fields without naming them.
            and key not in getattr(type(owner), "__dataclass_fields__", ())
        )

    def _owner_of(self, mapping: dict):
        """Return the object of the user's whose attributes a dictionary holds."""
        for value in self._environment.reached:
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
        inside = (entries for other, entries in self._environment.sequences if type(other) is not _VALUES)
        hidden = any(part is container for entries in inside for part in entries)
        bound = any(
            isinstance(value, types.BuiltinFunctionType) and value.__self__ is container
            for value in self._environment.reached
        )
        if hidden or bound or len(found) != 1:
            raise NotRepeatable
        return next(iter(found.values()))

    def _template(self, value):
        """Return what stands for a value that was stored (`numbatape.capture.repeated_values`)."""
        values, copies = _values(), self._trace.capture.copies
        value = lifted(value if copies is None else copies.original(value))
        kind = type(value)
        if kind is TracedArray and value._trace is self._trace:
            captures = self._trace.capture.arrays
            original = None if captures is None else captures.original(value)
            if original is not None:
                return values.Same(original)
            return self._array(value, value._value, lambda: self._kept(value))
        if kind in _ATOMS or issubclass(kind, (np.number, np.bool_)) or id(value) in self._before:
            return values.Same(value)
        if kind is PlainArray or kind is np.ndarray:
            plain = as_ndarrays(value)
            own = plain.base is None and id(plain) not in self._trace.capture.borrowed
            if own and plain.dtype != object:
                return self._array(value, plain, lambda: values.Copied(plain.copy()))
        if kind in (list, dict, tuple) and id(value) not in self._fresh:
            self._fresh.add(id(value))
            if kind is dict and not all(type(key) in _ATOMS for key in value):
                raise NotRepeatable
            parts = value.values() if kind is dict else value
            return values.Made(kind, tuple(value) if kind is dict else (), tuple(map(self._template, parts)))
        raise NotRepeatable

    def _kept(self, value: TracedArray):
        self._outputs.append(dense_number(stop_gradient(value)))
        number = value._value
        return _values().Kept(len(self._outputs) - 1, type(number), np.asarray(number).dtype)

    def _array(self, value, number, template):
        """Return the template of a number or an array: one for each array, whatever names it has."""
        if not isinstance(number, np.ndarray):
            return template()
        values, others = _values(), self._memory.setdefault(id(root_of(number)), [])
        for known, memory, part in others:
            if known is value:
                return part
            if np.may_share_memory(memory, number):
                return self._view(values.View.of(part, memory, number))
        others.append((value, number, template()))
        return others[-1][-1]

    def _view(self, view):
        """Return a view of another array that is kept, which holds for the present sizes only."""
        if view is None:
            raise NotRepeatable
        for slot in self._trace.tape.inputs:
            for dim in slot.dims:
                self._trace.tape.sizes.pin(dim)
        return view


def _appended(container: collections.deque, entries: tuple) -> list:
    """Return what a deque has got at its end, of which the first entries make room for further ones."""
    now, room = [*container], container.maxlen
    for count in range(len(now) + 1):
        kept = len(now) - count
        whole = kept == len(entries) or (room == len(now) and kept < len(entries))
        if whole and all(map(is_, now[:kept], entries[len(entries) - kept :])):
            return now[kept:]
    raise NotRepeatable


class Reached(Walk):
    """What some references lead to."""

    def __init__(self, found: list[Reference]):
        super().__init__()
        self.walk(*found)

    def visit(self, reference: Reference) -> list[Reference]:
        return references(reference.value)

    def holds(self, value) -> bool:
        """Whether a value is among what was reached."""
        return id(value) in self.seen


def _hooked(owner) -> bool:
    """Whether code of the user's runs where attributes of an object are read or written."""
    return any(getattr(type(owner), hook, None) is not getattr(object, hook, None) for hook in _HOOKS)
