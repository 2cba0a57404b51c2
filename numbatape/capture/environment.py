"""What a function reads besides its arguments: closure cells, globals, attributes, defaults.

Such values are literals on a tape, so `Captured` keeps their former state. The walk follows the user's own
functions, classes and objects to everything that they refer to (`numbatape.capture.references`), and the
attributes of libraries' objects (`numbatape.capture.library_objects`).
"""

from __future__ import annotations

import abc
import collections
import enum
import functools
import gc
import io
import os
import sys
import types
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from ..trace.state import Outside
from ..usercode import absences, ownership
from ..usercode.bytecode import (
    LOOKUPS,
    assigns_any_global,
    identity_tests,
    imported,
    line_of,
    names_of,
    only_passes_to,
    reads_builtin,
)
from ..usercode.ownership import is_users_object_class
from . import watching
from .captured import is_empty, is_unset
from .holders import CACHED, VIEWS, Wrapper, holder_of
from .library_objects import LibraryObjects
from .moving_names import key_of, without
from .noted import NotedClass
from .randomness import generators
from .references import (
    ATTRIBUTE,
    CELL,
    CLASS,
    DEFAULT,
    FIELDS,
    GLOBAL,
    MEMBER,
    NUMBERS,
    PART,
    SLOT,
    Reference,
    Walk,
    is_special,
    items_of,
    looked_up,
    of_module,
    references,
    slots_of,
)

_NEVER_CHANGE = (np.dtype, type(np.sum), type(Ellipsis))
# Code that calls one of these does not name what it reads.
_SCOPES = frozenset(("globals", "locals", "vars", "eval", "exec"))
_MANY = 20_000  # Once this many objects are noted, further objects of libraries count as opaque.


class Environment(LibraryObjects, Walk):
    """The captured values of a function, and everything that it refers to.

    Parameters
    ----------
    written, moving
        Places that calls change themselves (`Effects.places`), and variables that are inputs.
    watches
        Whether calls compare it; if not, dictionaries that hold moving variables are noted with these.

    Attributes
    ----------
    repeats
        Whether side effects that a call without a trace can repeat are looked for.
    identity_tests
        What code compares by identity, which stand-ins would change (`usercode.bytecode`).
    asks_caches
        Whether code asks how full caches of functions are, so that these have no stand-ins.
    reached
        All objects that the function refers to, directly or indirectly.
    """

    def __init__(self, function, written=(), moving=(), watches: bool = True):
        LibraryObjects.__init__(self)
        Walk.__init__(self)
        self._moving = {name.key for name in moving}
        self._written = {id(row[0]): row for row in without(written, moving if watches else ())}
        self._members: dict[int, set[str]] = {}  # the names of those that are methods and nothing else
        self.repeats, self.identity_tests = False, 0
        self.reached: list = []
        self._passed_on: dict[int, types.ModuleType] = {}  # modules of which any code may read attributes
        self._asked: set[tuple] = set()  # (module, name) of what code reads of those
        self._asked_of: list[tuple] = []  # (a module or a function, its name in code, the code)
        ownership.adopt(function)
        self.add(function)

    def add(self, value) -> None:
        """Note everything that a value refers to, directly or indirectly."""
        waiting = [Reference(value)]
        while waiting:
            self.walk(*waiting)
            waiting = self._followed(None, [*self._of_passed_modules(), *self._of_descriptors()])
        self._note_missing()
        # A thousand functions of one module name the same globals.
        for rows in (self.absent, self.bindings):
            rows[:] = {(id(row[0]), row[1]): row for row in rows}.values()
        names = frozenset().union(*map(names_of, self._codes.values()))
        self.asks_caches = "cache_info" in names
        self._note_states(names)

    def visit(self, reference: Reference) -> list[Reference]:
        """Note how a value can change; return what it refers to."""
        value = reference.value
        if type(value) is types.ModuleType:
            found = self._module(reference)
        elif isinstance(value, types.ModuleType) and is_users_object_class(type(value)):
            self._objects.append((value, type(value), None))
            self.reached.append(value)
            # Methods of the module may read what the code that names it does not.
            found = [*of_module(value, None, None), Reference(type(value), CLASS)]
        else:
            self.reached.append(value)
            found = _reader_of(type(value))(self, value)
        return self._followed(value, found)

    def _followed(self, value, found: list[Reference]) -> list[Reference]:
        """Note the references of a value, and return them."""
        site = self._sites.get(id(value))
        if self._moving:
            found = [part for part in found if key_of(part.name, part.place) not in self._moving]
        for part in tuple(found):
            if issubclass(type(part.value), NUMBERS) and is_users_object_class(type(part.value)):
                # Numbers are noted here, because the walk does not visit them.
                found += self._number(part.value)
            if part.kind is not PART and part.kind is not FIELDS:
                self._note(part)
            elif type(part.value) is types.FunctionType:
                # The function may be called by other names than that of the method.
                self._members[id(part.value)] = set()
            if part.code is not None:
                if issubclass(type(part.value), (types.FunctionType, types.ModuleType)):
                    self._asked_of.append((part.value, part.name, part.code))
                self._sites.setdefault(id(part.value), (part.name, part.code))
            elif site is not None:
                self._sites.setdefault(id(part.value), site)
        return found

    def _number(self, value) -> list[Reference]:
        """Return what a number, or a text, of a user's class refers to."""
        fields = getattr(value, "__dict__", None)
        if not isinstance(fields, dict) or isinstance(value, enum.Enum):
            return [Reference(type(value), CLASS)]
        self._objects.append((value, type(value), fields))
        return [Reference(type(value), CLASS), Reference(fields, FIELDS)]

    def _of_passed_modules(self) -> list[Reference]:
        """Return new references from modules that code passes on to other code.

        That code may read any attribute, but only names that occur in code which the function reaches.
        """
        if not self._passed_on:
            return []
        names = frozenset().union(*map(names_of, self._codes.values()))
        new = [
            part
            for key, module in self._passed_on.items()
            for part in of_module(module, names, None)
            if (key, part.name) not in self._asked
        ]
        self._asked.update((id(part.place), part.name) for part in new)
        return new

    def _note(self, reference: Reference) -> None:
        """Note what a reference leads to now, so that a later call sees whether it leads elsewhere."""
        value, kind, place, name, _ = reference
        if type(value) is types.FunctionType:
            if kind is not MEMBER:
                self._members[id(value)] = set()
            elif self._members.get(id(value), True):
                self._members.setdefault(id(value), set()).add(name)
        if id(place) in self._written:
            _, keys = self._written[id(place)]
            if keys is None or name in keys:
                return  # a counter may change: each call adds to it
        if kind is CELL:
            self._cells.append((place, value))
            self._variables[id(place)] = name
        elif kind is SLOT or kind is DEFAULT:
            self.attributes.append((place, name, value))
        elif kind is GLOBAL:
            self.bindings.append((place, name, value))
        elif kind is MEMBER and not is_special(name):
            self.members_of_classes.append((place, name, value))
        elif kind is ATTRIBUTE and not is_special(name):
            self.bindings.append((place, name, value))

    # ---- one reader for each kind of value: it notes how the value can change, and returns references

    def _nothing(self, value):
        return []

    def _mapping(self, value):
        if value is sys.modules:
            return []  # sys.modules refers to all modules, but code does not reach modules by way of it
        if id(value) in self._written:
            return [*map(Reference, self._unwritten(*self._written[id(value)]))]
        self.sequences.append((value, tuple(value)))
        self.sequences.append((value.values(), tuple(value.values())))
        return references(value)

    def _sequence(self, value):
        if id(value) in self._written:
            return [*map(Reference, self._unwritten(*self._written[id(value)]))]
        self.sequences.append((value, tuple(value)))
        return references(value)

    def _set(self, value):
        self.sets.append((value, tuple(value)))
        return references(value)

    def _unchanging(self, value):
        return references(value)

    def _cached(self, value):
        self._caches.append(value)
        return self._instance(value)

    def _class(self, cls):
        for base in cls.__mro__:
            if not ownership.is_users_class(base):
                self._note_foreign(base.__module__, named=False)
        if any(map(ownership.is_users_class, cls.__mro__)):
            self.classes.append(NotedClass(cls))
            self._abstract = self._abstract or isinstance(cls, abc.ABCMeta)
        return self._but_descriptors(cls, references(cls))

    def _note_missing(self) -> None:
        """Note names that a module or a function may get (see `absences`)."""
        caught = any(absences.may_catch(code, AttributeError, NameError) for code in self._codes.values())
        for owner, name, code in self._asked_of:
            names, scope = absences.asked_for(code), vars(owner)
            if caught:  # what code imports may have any name there, but no library's module gets new ones
                is_module, read = type(owner) is types.ModuleType, absences.attributes_read(code)
                any_name = not (name or (is_module and not ownership.is_users_module(owner)))
                names = names.union(attribute for place, attribute in read if any_name or place == name)
            self.absent += [(scope, each) for each in names if each not in scope]
        self._asked_of.clear()

    def _unwritten(self, container, keys):
        """Note the items of a dictionary or a list, but not those that calls change themselves."""
        if keys is None:
            return ()

        def read():
            return tuple([part for item in items_of(container) if item[0] not in keys for part in item])

        self._parts.append((read, read(), container))
        return self._parts[-1][1]

    def running(self, called: frozenset[str] = frozenset()) -> list[types.CodeType]:
        """Return code that may run: all but methods that neither it nor ``called`` names."""
        waiting, found, names = dict(self._codes), [], {"__call__", *called}
        while True:
            chosen = [
                key
                for key in waiting
                if not self._members.get(key)
                or any(n in names or n.startswith("__") for n in self._members[key])
            ]
            if not chosen:
                return found
            for key in chosen:
                found.append(waiting.pop(key))
                names |= names_of(found[-1])

    def _function(self, function: types.FunctionType):
        """Note what a function's code and globals rely on; return what is to be followed from there."""
        found = references(function)
        if not ownership.is_users_function(function):
            self._note_foreign(function.__module__)
            # The function dispatches by class, and further implementations may be registered.
            if holder_of(function) is not None:
                found.append(Reference(gc.get_referents(function.registry)[0]))  # type: ignore[attr-defined]
            # Functions in a library's closure may be the user's; what else is there is not followed.
            return [
                Reference(part.value)
                for part in found
                if part.name == "__wrapped__" or part.kind is PART or type(part.value) is types.FunctionType
            ]
        code, scope, attributes = function.__code__, function.__globals__, function.__dict__
        self._codes[id(function)] = code
        self.functions.append((function, code))  # a notebook's autoreload replaces the code of functions
        self.identity_tests = max(self.identity_tests, identity_tests(code))
        # The function knows its own name, and may set its own attributes.
        if code.co_name in (*code.co_names, *code.co_freevars):
            self.absent += [(attributes, n) for n in code.co_names if n not in attributes]
        self.absent += [(scope, name) for name in absences.unbound(code) if name not in scope]
        self._empty += [cell for cell in function.__closure__ or () if is_empty(cell)]
        if attributes:
            self.attributes.append((function, "__dict__", attributes))
        for name in (*imported(code, scope.get("__package__") or ""), *looked_up(code, scope)):
            if name in sys.modules:
                found.append(Reference(sys.modules[name], code=code))
                self.bindings.append((sys.modules, name, sys.modules[name]))
            else:
                self.foreign = self.names_foreign = True
                self.absent.append((sys.modules, name))
        if assigns_any_global(code):
            self._scopes.append((scope, dict(scope)))
        for name in _SCOPES.intersection(names_of(code)).difference(scope):
            # ``vars(x)`` gives attributes, which are watched like those of ``x.__dict__``.
            if reads_builtin(name, code) and not (name == "vars" and only_passes_to(name, code)):
                self.opaque.append(Outside(f"`{name}()`", code.co_filename, line_of(code, name)))
        return found

    def _module(self, reference: Reference):
        """Return what code uses of a module; of a library's, what is neither a function nor a class."""
        module, code = reference.value, reference.code
        if ownership.is_users_module(module):
            if reference.asked is not None or (code is not None and not LOOKUPS.isdisjoint(names_of(code))):
                return of_module(module, reference.asked, code)
            self._passed_on[id(vars(module))] = module
            return []
        found: list[Reference] = []
        if self._note_foreign(module.__name__) and code is not None:
            scope = vars(module)
            for name in names_of(code):
                value = scope.get(name)
                if watching.can_change(value) and not isinstance(value, os._Environ):
                    self._sites.setdefault(id(value), (f"{module.__name__}.{name}", code))
                    found.append(Reference(value, GLOBAL, scope, name, code))
        return found

    def _instance(self, value):
        """Return what an object refers to: a user's object with its class, a library's by its attributes."""
        fields = getattr(value, "__dict__", None)
        if is_users_object_class(type(value)):
            found, known = self._numbers(value)
            own = references(value)
            self._objects.append((value, type(value), fields if isinstance(fields, dict) else None))
            self.unset += [(slot, value) for slot in slots_of(type(value)).values() if is_unset(slot, value)]
            if known and fields:  # the library has told all of its state; private attributes only cache it
                public = {name: part for name, part in fields.items() if not name.startswith("_")}
                own = [part if part.kind is not FIELDS else Reference(public, FIELDS) for part in own]
            return found + own
        return self._of_library(value, fields, is_one_of_many=len(self.seen) > _MANY)


@functools.lru_cache(maxsize=10_000)
def _reader_of(cls: type) -> Callable[[Environment, Any], list[Reference]]:
    """Return the method of `Environment` that reads objects of a class."""
    module = cls.__module__ if isinstance(cls.__module__, str) else ""
    # Values of an enclosing trace never change.
    if issubclass(cls, _NEVER_CHANGE) or module.startswith("numbatape.trace"):
        return Environment._nothing
    if module.startswith("numbatape.subtapes"):
        return Environment._sub_tape
    if issubclass(cls, Wrapper):
        return Environment._wrapper
    if module.startswith("scipy.sparse"):
        return Environment._instance
    if issubclass(cls, generators()) or module == "scipy.stats._qmc":
        return Environment._random_generator
    for kinds, reader in _READERS:
        if issubclass(cls, kinds):
            return reader
    # An iterator of the user's class is an object like others: its attributes say what it yields next.
    owner = next((base for base in cls.__mro__ if "__next__" in vars(base)), None)
    return (
        Environment._instance if owner is None or ownership.is_users_class(owner) else Environment._iterator
    )


_READERS: tuple[tuple[tuple[type, ...], Callable], ...] = (
    ((np.ndarray,), Environment._array),
    ((np.ufunc,), Environment._ufunc),
    ((types.FunctionType,), Environment._function),
    ((types.BuiltinFunctionType, types.MethodWrapperType), Environment._method_of_library),
    ((dict, types.MappingProxyType), Environment._mapping),
    ((list, collections.deque), Environment._sequence),
    ((set, frozenset), Environment._set),
    ((tuple, types.MethodType, property, *VIEWS), Environment._unchanging),
    ((functools.partial, functools.partialmethod), Environment._partial),
    ((CACHED,), Environment._cached),
    ((staticmethod, classmethod), Environment._unchanging),
    ((io.IOBase, *weakref.ProxyTypes), Environment._note_opaque),  # proxies have the methods of iterators
    ((type,), Environment._class),
    ((types.ModuleType,), Environment._nothing),  # a stand-in for a module, in a nested trace
)
