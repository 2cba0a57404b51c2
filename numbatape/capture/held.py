"""What functions, containers, objects, modules and classes hold, noted at one time and compared later.

`numbatape.stand_ins.opened` copies what has changed since a solver was called. A class is not copied, because
its objects would be of another class, so a change of a number that methods read is an error.
"""

from __future__ import annotations

import collections
import copy
import functools
import types
from collections.abc import Callable, Iterable
from operator import is_not
from typing import Any, NamedTuple

import numpy as np

from ..usercode.bytecode import (
    assigns_items,
    attributes_assigned,
    globals_assigned,
    globals_read,
    names_of,
)
from ..usercode.ownership import (
    is_users_function,
    is_users_module,
    is_users_object_class,
    users_classes,
)
from ..usercode.written_only import WrittenOnly
from .holders import container_of, holder_of
from .references import (
    GLOBAL,
    NUMBERS,
    SLOT,
    Reference,
    Walk,
    contents,
    of_object,
    references,
    same,
    slots_of,
)

MUTABLE = (dict, list, collections.deque, set)
_ABSENT = object()
_MOST = 1000  # entries of containers that methods read are compared, of longer ones none
_WRITERS = frozenset(
    (
        *("append", "extend", "insert", "add", "update", "setdefault", "pop", "popitem", "remove", "discard"),
        *("clear", "appendleft", "extendleft", "popleft", "sort", "reverse", "setattr", "__setitem__"),
    )
)


class OfFunction(NamedTuple):
    """What a function refers to: cells with their contents, global variables, defaults, attributes."""

    cells: list[tuple[types.CellType, Any]]
    variables: dict[str, Any]
    defaults: tuple | None
    keywords: dict | None
    attributes: dict[str, Any]

    @property
    def entries(self) -> list:
        """Everything, in one order."""
        parts: list = [part for pair in self.cells for part in pair]
        for named in (self.variables, self.keywords or {}, self.attributes):
            parts += [*named, *named.values()]
        return [*parts, *(self.defaults or ())]

    def now(self, function: types.FunctionType) -> OfFunction:
        """Return what a function refers to now, of the same global variables."""
        scope = function.__globals__
        variables = {name: scope.get(name, _ABSENT) for name in self.variables}
        return of_function(function)._replace(variables=variables)


def of_function(function: types.FunctionType, variables: bool = False) -> OfFunction:
    """Return what a function refers to now; of global variables, those that the code of a user's reads."""
    scope, found = function.__globals__, {}
    if variables and is_users_function(function):
        found = {name: scope[name] for name in globals_read(function.__code__) if name in scope}
    keywords = function.__kwdefaults__
    return OfFunction(
        [(cell, content) for _, cell, content in contents(function)],
        found,
        function.__defaults__,
        keywords and {**keywords},
        {**function.__dict__},
    )


def module_scope(reference: Reference) -> dict[str, Any]:
    """Return the attributes that code reads off a module of the user's, as far as the module has them.

    A module's own ``__getattr__`` may import something, or warn: it is left to the code that asks.
    """
    scope, names = vars(reference.value), reference.asked
    if names is None:
        names = frozenset(name for name in scope if not name.startswith("__"))
    return {name: scope[name] for name in names if name in scope}


def entries(value) -> list:
    """Return what a container or an object holds."""
    if isinstance(value, OfFunction):
        return value.entries
    if isinstance(value, dict):
        return [*value, *value.values()]
    if isinstance(value, (list, tuple, collections.deque)):
        return list(value)
    if isinstance(value, set):
        return [*value]
    if type(value) is np.ndarray:  # arrays of numbers refer to nothing
        return [*value.flat] if value.dtype == object else []
    slots = [part.value for part in of_object(value) if part.kind is SLOT] if slots_of(type(value)) else []
    return [*slots, *entries(getattr(value, "__dict__", ()))]


def duplicate(value):
    """Return a shallow copy; that of a stand-in has in its slots what the object behind it has there."""
    result = copy.copy(value)
    if result is not value and slots_of(type(value)) and is_users_object_class(type(value)):
        for part in of_object(value):
            if part.kind is SLOT:
                object.__setattr__(result, part.name, part.value)
    return result


def differ(now: list, before: list) -> bool:
    """Whether something holds other values than before."""
    if len(now) != len(before):
        return True
    return any(map(is_not, now, before)) and not all(map(same, now, before))


def can_change(value) -> bool:
    """Whether a value is a container or an object that can be written to."""
    holder = holder_of(value)
    if holder is not None:
        return holder.changed is not None
    if not is_users_object_class(type(value)):
        return False
    return container_of(value) in MUTABLE or bool(slots_of(type(value)))


def array_before(trace, array: np.ndarray) -> np.ndarray:
    """Return a copy of an array of numbers, the same one as long as these do not change."""
    copied = trace.capture.snapshots.get(id(array))
    if copied is None or not np.array_equal(copied[1], array, equal_nan=array.dtype.kind in "fc"):
        copied = trace.capture.snapshots[id(array)] = array, array.copy()
    return copied[1]


class Code:
    """What the code of some functions does to variables and attributes that others see."""

    def __init__(self, functions: Iterable[types.FunctionType]):
        self._codes = {function.__code__ for function in functions}
        self.assigned = {name for code in self._codes for name in globals_assigned(code)}
        self.attributes = {name for code in self._codes for name in attributes_assigned(code)}

    @functools.cached_property
    def _uses(self) -> WrittenOnly:
        return WrittenOnly(self._codes)

    @functools.cached_property
    def counted(self) -> set[str]:
        """The names of variables and attributes that code only counts in, or only assigns to."""
        names = self.assigned | self.attributes
        return {name for name in names if self._uses.counted(name) or self._uses.assigned(name)}

    def only_fills(self, name: str) -> bool:
        """Whether code only appends to what has this name, or assigns to its items and counts in them."""
        return self.fills and self._uses.only_filled(name)

    @functools.cached_property
    def fills(self) -> bool:
        """Whether code may write to a container."""
        return any(assigns_items(code) or not _WRITERS.isdisjoint(names_of(code)) for code in self._codes)


class OfClasses(Walk):
    """The numbers and texts that methods of classes read, beside the attributes of their own objects."""

    def __init__(self, classes: Iterable[type]):
        super().__init__()
        self.functions: list[types.FunctionType] = []
        self._noted: list[tuple[Callable[[], Any], Any, str, str]] = []
        self.walk(*map(Reference, classes))

    def visit(self, reference: Reference) -> list[Reference]:
        """Note the entries of an object that the run may change; return what it refers to."""
        value = reference.value
        found = references(value)
        if isinstance(value, type):
            for cls in users_classes(value):
                members = vars(cls)
                self._note(members, members.get, f"{cls.__name__}.")
        elif type(value) is types.FunctionType:
            self.functions.append(value)
            for name, cell, content in contents(value):
                self._note({name: content}, lambda _, cell=cell: cell.cell_contents, "")
            scope = value.__globals__
            used = globals_read(value.__code__) if is_users_function(value) else ()
            self._note({name: scope[name] for name in used if name in scope}, scope.get, "")
        elif type(value) is types.ModuleType:
            if not is_users_module(value):  # an operator of SciPy 1.18 refers to the namespace of its arrays
                return []
            module = module_scope(reference)
            self._note(module, functools.partial(getattr, value), f"{value.__name__}.")
            found = [Reference(part, GLOBAL) for part in module.values()]
        elif type(value) is dict and len(value) <= _MOST:
            self._note(value, value.get, "an item ")
        elif type(value) is list and len(value) <= _MOST:
            self._note(dict(enumerate(value)), value.__getitem__, "an item ")
        elif type(value) is types.SimpleNamespace:
            self._note(vars(value), functools.partial(getattr, value), f"{reference.name}.")
        return found

    def _note(self, values, look: Callable, owner: str) -> None:
        for name, value in values.items():
            if isinstance(value, NUMBERS):
                self._noted.append((functools.partial(look, name), value, owner, name))

    def changed(self, code: Code) -> str:
        """Return what has changed that code does not itself change, in words; empty if nothing has."""
        for look, before, owner, name in self._noted:
            try:
                now = look()
            except (AttributeError, LookupError, ValueError):
                now = None
            if now is before or same(now, before):
                continue
            if code.fills if owner == "an item " else name in code.assigned or name in code.attributes:
                continue
            return f"{owner}{name}, which was {before!r} and is {now!r} now"
        return ""
