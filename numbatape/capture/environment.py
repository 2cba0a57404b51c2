"""What a function reads besides its arguments: closure cells, globals, attributes, defaults.

Such values are literals on a tape, so `Captured` keeps their former state. The walk follows the user's own
functions, classes and objects to everything that they refer to, and the attributes of libraries' objects.
What cannot be inspected (a connection, an open file) is *opaque*: a tape that was recorded with it serves
one call. `numbatape.capture.watching` knows the kinds of objects.
"""

from __future__ import annotations

import builtins
import collections
import contextlib
import functools
import io
import os
import sys
import threading
import types

import numpy as np

from ..trace.trace import Outside
from ..usercode import ownership
from ..usercode.bytecode import globals_assigned, globals_read, imported, line_of, names_of, tests_identity
from . import watching
from .captured import NUMBERS, Captured
from .randomness import generators

_ATOMS = (*NUMBERS, type(None), type(Ellipsis), np.dtype, np.ufunc, type(np.sum))
_SEQUENCES = (list, tuple, collections.deque)
_BOUND = (types.BuiltinFunctionType, types.MethodWrapperType)  # methods of objects that are not the user's
_VIEWS = (type({}.keys()), type({}.values()), type({}.items()))
_SCOPES = frozenset(("globals", "locals", "vars", "eval", "exec"))  # the code does not name what these read
_LOOKUPS = frozenset(("getattr", "vars", "__dict__", "attrgetter"))
# Packages that compute and whose constants nobody changes; their functions that read files have stand-ins.
_SETTLED = frozenset(
    (
        *("", "_thread", "abc", "builtins", "cmath", "collections", "contextlib", "contextvars", "copy"),
        *("dataclasses", "enum", "functools", "itertools", "logging", "math", "numba", "numbatape", "numpy"),
        *("operator", "random", "re", "scipy", "statistics", "threading", "time", "types", "typing"),
        *("warnings", "weakref"),
    )
)
_MANY = 20_000  # once so many objects are noted, further objects of libraries count as opaque


def immutable(array: np.ndarray) -> bool:
    """Whether nobody can write to an array's memory through NumPy: its bases are read-only, too."""
    while isinstance(array, np.ndarray):
        if array.flags.writeable:
            return False
        array = array.base  # type: ignore[assignment]
    return array is None or isinstance(array, bytes)


def module_of(value) -> str:
    """Return the name of the module of a value's class; some metaclasses make it something else than text."""
    name = type(value).__module__
    return name if isinstance(name, str) else ""


def contents(function: types.FunctionType):
    """Yield the values in a function's closure."""
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):  # an empty cell, which is filled later
            yield cell.cell_contents


class Environment(Captured):
    """The captured values of a function, and everything that it refers to.

    Attributes
    ----------
    repeats
        Whether side effects that a call without a trace can repeat are looked for.
    tests_identity
        Whether the code compares identities, which stand-ins would change.
    foreign
        Whether the function may call libraries other than NumPy and the like, which may read files.
    """

    def __init__(self, function, written=()):
        super().__init__()
        self._written = {id(container): (container, keys) for container, keys in written}
        self._codes: dict[int, types.CodeType] = {}  # by the id of a function of the user's
        self._members: dict[int, set[str]] = {}  # the names of those that are methods and nothing else
        self.repeats = False
        self.tests_identity = False
        self.foreign = False
        self._sites: dict[int, tuple] = {}  # by id: the name under which code refers to a value, and the code
        self._seen: dict[int, object] = {}  # kept alive, so that no other object gets the id
        ownership.adopt(function)
        self.add(function)

    def reached(self) -> list:
        """Return all objects that the function refers to, directly or indirectly."""
        return list(self._seen.values())

    def add(self, value) -> None:
        """Note everything that a value refers to, directly or indirectly."""
        pending = [value]
        while pending:
            value = pending.pop()
            if not isinstance(value, _ATOMS) and id(value) not in self._seen:
                self._seen[id(value)] = value
                site = self._sites.get(id(value))
                for part in self._read(value):
                    if type(part) is types.FunctionType and not isinstance(value, type):
                        self._members[id(part)] = set()  # it can be called by other names than a method's
                    if site is not None and not isinstance(part, _ATOMS):
                        self._sites.setdefault(id(part), site)
                    pending.append(part)

    def _read(self, value):
        """Note how a value can change; return the values that it refers to."""
        if isinstance(value, np.ndarray):
            # Else it is an array of an enclosing trace, whose class only claims to be ndarray.
            return self._array(value) if issubclass(type(value), np.ndarray) else ()
        if isinstance(value, types.FunctionType):
            return self._function(value)
        if isinstance(value, types.MethodType):
            return value.__func__, value.__self__
        if isinstance(value, functools.partial):
            return value.func, value.args, value.keywords
        if isinstance(value, (staticmethod, classmethod)):
            return (value.__func__,)
        if isinstance(value, property):
            return value.fget, value.fset
        if module_of(value).startswith("scipy.sparse"):
            return self._instance(value)  # iterating over a dok_matrix, which is a dictionary, never ends
        if isinstance(value, _BOUND):
            owner = value.__self__
            self._note_foreign(owner.__name__ if isinstance(owner, types.ModuleType) else "")
            return () if isinstance(owner, (types.ModuleType, type)) else (owner,)
        if isinstance(value, _VIEWS):
            return (value.mapping,)
        if id(value) in self._written:
            return self._unwritten(*self._written[id(value)])
        if isinstance(value, (dict, types.MappingProxyType)):
            return (*self._sequence(value), *self._sequence(value.values()))
        if isinstance(value, _SEQUENCES):
            return self._sequence(value)
        if isinstance(value, (set, frozenset)):
            self._sets.append((value, value.copy()))
            return tuple(value)
        if isinstance(value, generators()) or module_of(value) == "scipy.stats._qmc":
            self._generators.append(value)
            return ()
        if isinstance(value, io.IOBase):
            return self._note_opaque(value)
        if hasattr(type(value), "__next__"):
            self._iterates = True  # what it yields next cannot be inspected
            return ()
        if isinstance(value, types.ModuleType):
            return ()  # only those attributes count that code names: see _module
        if isinstance(value, type):
            return self._class(value)
        return self._instance(value)

    def _array(self, array):
        """Note an array's contents; for an array of objects, their identities and the objects."""
        if not watching.is_constant(array):
            array = watching.in_order(array)
            self.arrays.append((array, array.copy()))
        return tuple(array.reshape(-1)) if array.dtype == object else ()

    def _note_opaque(self, value, always=False):
        """Note a value as opaque if it may give other numbers in each call."""
        if always or watching.is_opaque(value):
            kind = f"{type(value).__module__}.{type(value).__qualname__}"
            name, code = self._sites.get(id(value), ("", None))
            if code is None:
                self.opaque.append(Outside(f"a {kind}", "<unknown>", 0))
            else:
                line = line_of(code, name.rpartition(".")[2])
                self.opaque.append(Outside(f"`{name}` ({kind})", code.co_filename, line))
        return ()

    def _unwritten(self, container, keys):
        """Note the items of a dictionary that code does not only write to; of a list there are none."""
        if keys is None:
            return ()

        def read():
            return tuple([part for item in container.items() if item[0] not in keys for part in item])

        self._parts.append((read, read()))
        return self._parts[-1][1]

    def running(self) -> list[types.CodeType]:
        """Return the code that may run: not that of methods whose names no such code has."""
        waiting, found, names = dict(self._codes), [], {"__call__"}
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

    def _sequence(self, container):
        entries = tuple(container)
        if not isinstance(container, tuple):
            self._sequences.append((container, entries))
        return entries

    def _function(self, function: types.FunctionType):
        yield vars(function).get("__wrapped__")  # the function behind a verb or a decorator
        code = function.__code__
        if not ownership.is_users_function(function):
            self._note_foreign(function.__module__)
            yield from (value for value in contents(function) if isinstance(value, types.FunctionType))
            return
        names = names_of(code)
        self._codes[id(function)] = code
        self.tests_identity = self.tests_identity or tests_identity(code)
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            try:
                value = cell.cell_contents
            except ValueError:  # an empty cell, which is filled later
                continue
            self._cells.append((cell, value))
            self._variables[id(cell)] = name
            if isinstance(value, types.ModuleType):
                yield from self._module(value, names, code)
            else:
                yield self._named(value, name, code)
        if function.__defaults__:
            self._attributes.append((function, "__defaults__", function.__defaults__))
            yield function.__defaults__
        yield function.__kwdefaults__
        attributes = vars(function)
        for name, value in list(attributes.items()):
            if name == "__wrapped__":
                yield value
            elif not name.startswith("__"):
                self._bindings.append((attributes, name, value))
                yield value
        if code.co_name in (*code.co_names, *code.co_freevars):  # it may set attributes of itself
            self._absent += [(attributes, n) for n in code.co_names if n not in attributes]
        scope = function.__globals__
        assigned = globals_assigned(code)
        self._absent += [(scope, name) for name in assigned if name not in scope]
        yield from self._bound(scope, globals_read(code).union(assigned), names, code)
        for name in imported(code, scope.get("__package__") or ""):
            if name in sys.modules:
                yield from self._module(sys.modules[name], names, code)
            else:
                self.foreign = True
                self._absent.append((sys.modules, name))
        for name in _SCOPES.intersection(names).difference(scope):
            if _is_builtin(name, code):
                self.opaque.append(Outside(f"`{name}()`", code.co_filename, line_of(code, name)))

    def _named(self, value, name: str, code):
        """Note the name under which code refers to a value; return the value."""
        if not isinstance(value, _ATOMS):
            self._sites.setdefault(id(value), (name, code))
        return value

    def _bound(self, scope, wanted, names, code):
        """Note the bindings of a scope that code uses."""
        for name in wanted:
            if name not in scope:
                continue
            value = scope[name]
            if not isinstance(value, types.ModuleType):
                self._bindings.append((scope, name, value))
                yield self._named(value, name, code)
            else:
                yield from self._module(value, names, code)

    def _module(self, module, names, code):
        """Note the bindings of a module that code uses; of a library's, those of functions are left out."""
        if id(module) in self._seen:
            return
        scope = vars(module)
        if ownership.is_users_module(module):
            wanted = names
            if not _LOOKUPS.isdisjoint(names):
                wanted = [name for name in scope if not name.startswith("__")]
            self._seen[id(module)] = module
            yield from self._bound(scope, wanted, names, code)
            del self._seen[id(module)]  # other code may use other names of the module
        elif self._note_foreign(module.__name__):
            for name in names:
                value = scope.get(name)
                if watching.can_change(value) and not isinstance(value, os._Environ):
                    self._bindings.append((scope, name, value))
                    yield self._named(value, f"{module.__name__}.{name}", code)

    def _note_foreign(self, module) -> bool:
        """Note that code of a module may be called; return whether it may do more than compute."""
        found = ownership.top(module) not in _SETTLED
        self.foreign = self.foreign or found
        return found

    def _class(self, cls):
        yield type(cls)
        for base in cls.__mro__:
            if not ownership.is_users_class(base):
                self._note_foreign(base.__module__)
                continue
            members = vars(base)
            for name, value in list(members.items()):
                if type(value) is types.FunctionType and self._members.get(id(value), True):
                    self._members.setdefault(id(value), set()).add(name)
                if not (name.startswith("__") and name.endswith("__") and name != "__call__"):
                    self._bindings.append((members, name, value))
                    yield value
                elif isinstance(value, types.FunctionType):
                    yield value

    def _instance(self, value):
        """Note how an object can change: a user's object with its class, a library's by its attributes."""
        cls = type(value)
        fields = getattr(value, "__dict__", None)
        if isinstance(value, types.SimpleNamespace):
            yield fields
        elif isinstance(fields, dict) and "py_func" in fields:  # the dispatcher of a Numba function
            yield fields["py_func"]
        elif isinstance(value, threading.local):  # each thread sees attributes of its own
            yield from self._attributes_of(value, vars(value))
        elif ownership.is_users_class(cls):
            yield cls
            known = yield from self._numbers(value)
            yield from self._slots(value)
            if isinstance(fields, dict):
                yield fields if not known else {k: v for k, v in fields.items() if not k.startswith("_")}
        elif len(self._seen) > _MANY:
            self._note_opaque(value, always=True)
        elif not watching.is_closed_off(value):
            yield from self._of_library(value, fields)

    def _attributes_of(self, value, names):
        for name in list(names):
            if hasattr(value, name):
                part = getattr(value, name)
                self._attributes.append((value, name, part))
                yield part

    def _slots(self, value):
        for base in type(value).__mro__:
            yield from self._attributes_of(value, _slots(base))

    def _numbers(self, value):
        """Note the numbers in an object of a known kind; return whether they are all of its state."""
        fixed = watching.fixed_parts_of(value)
        if fixed is not None:
            yield from fixed
            return True
        memory, parts = watching.memory_of(value), watching.parts_of(value)
        if memory is not None:
            self.arrays.append((memory, memory.copy()))
            return True
        if parts is not None:
            try:
                found = parts()
            except (AttributeError, KeyError):  # another version of the library
                self._note_opaque(value, always=True)
            else:
                self._parts.append((parts, found))
                yield from found
            return True
        read = watching.contents_of(value)
        if read is not None:
            self._contents.append((read, read()))
        return read is not None

    def _of_library(self, value, fields):
        self._note_foreign(module_of(value))
        known = yield from self._numbers(value)
        if known and (watching.parts_of(value) or watching.fixed_parts_of(value)) is not None:
            return
        slots = list(self._slots(value))
        yield from slots
        if isinstance(fields, dict):
            # Attributes of distributions and of numbatape's objects are not followed further.
            shallow = module_of(value).startswith(("numbatape", "scipy.stats"))
            kinds = (np.ndarray, *_SEQUENCES, dict, types.FunctionType, *generators())
            for name, part in list(fields.items()):
                self._bindings.append((fields, name, part))
                if not shallow or isinstance(part, kinds):
                    yield part
        elif not known and not slots:
            self._note_opaque(value)


def _is_builtin(name: str, code: types.CodeType) -> bool:
    """Whether code calls a builtin of this name, and not a method with the same name."""
    return hasattr(builtins, name) and name in globals_read(code)


def _slots(cls) -> tuple[str, ...]:
    slots = vars(cls).get("__slots__", ())
    names = (slots,) if isinstance(slots, str) else tuple(slots)
    return tuple(name for name in names if name not in ("__dict__", "__weakref__"))
