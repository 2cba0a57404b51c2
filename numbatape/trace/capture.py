"""What a function reads besides its arguments: closure cells, globals, attributes, defaults.

Such values are literals on a tape, so every call asks whether they are still what was traced:
bindings by identity (numbers by value), contents of containers entry by entry, contents of arrays
by comparison (in the sweep's kernel where that is possible).

Followed are the user's own functions, classes and objects, wherever they lead. Of objects of
libraries the attributes are read, but not the objects behind them.
"""

from __future__ import annotations

import collections
import functools
import io
import random
import types
from operator import is_

import numpy as np

from . import ownership

NUMBERS = (int, float, complex, str, bytes, bool, np.generic)
_ATOMS = (*NUMBERS, type(None), type(Ellipsis), np.dtype, np.ufunc, types.BuiltinFunctionType, type(np.sum))
_GENERATORS = (np.random.Generator, np.random.RandomState, np.random.BitGenerator, random.Random)
_SEQUENCES = (list, tuple, collections.deque)


def immutable(array: np.ndarray) -> bool:
    """Whether nobody can write to an array's memory through NumPy: its bases are read-only too."""
    while isinstance(array, np.ndarray):
        if array.flags.writeable:
            return False
        array = array.base  # type: ignore[assignment]
    return array is None or isinstance(array, bytes)


def module_of(value) -> str:
    """Return the name of the module of a value's class; with some metaclasses it is no text."""
    name = type(value).__module__
    return name if isinstance(name, str) else ""


class Environment:
    """The captured values of a function at the time of a trace.

    Attributes
    ----------
    arrays
        ``(array, copy)`` of arrays whose contents can change.
    """

    def __init__(self, function):
        self.arrays: list[tuple[np.ndarray, np.ndarray]] = []
        self._cells: list[tuple] = []
        self._bindings: list[tuple] = []  # (mapping, key, value)
        self._attributes: list[tuple] = []  # (owner, name, value)
        self._sequences: list[tuple] = []  # (container, its entries)
        self._sets: list[tuple] = []
        self._absent: list[tuple] = []  # (mapping, key that it does not have)
        self._iterates = False
        self._generators: list = []
        self._seen: dict[int, object] = {}  # keeps objects alive, so that an id stays its own
        ownership.adopt(function)
        self.add(function)

    @property
    def empty(self) -> bool:
        """Whether there is no binding that `rebound` would look at."""
        named = self._cells or self._bindings or self._attributes or self._absent
        return not (named or self._sequences or self._sets or self._iterates)

    def rebound(self) -> bool:
        """Whether a name stands for another value than before (contents of arrays aside)."""
        if self._iterates:
            return True
        try:
            for cell, value in self._cells:
                now = cell.cell_contents
                if now is not value and not _same(now, value):
                    return True
            for mapping, key, value in self._bindings:
                now = mapping[key]
                if now is not value and not _same(now, value):
                    return True
            for owner, name, value in self._attributes:
                now = getattr(owner, name)
                if now is not value and not _same(now, value):
                    return True
        except (ValueError, LookupError, AttributeError):
            return True  # unbound or removed
        for container, entries in self._sequences:
            if len(container) != len(entries) or not all(map(is_, container, entries)):
                return True
        if any(key in mapping for mapping, key in self._absent):
            return True
        return any(container != entries for container, entries in self._sets)

    def rewritten(self) -> bool:
        """Whether the contents of an array are other than before."""
        return any(
            array.shape != copy.shape or array.dtype != copy.dtype or array.tobytes() != copy.tobytes()
            for array, copy in self.arrays
        )

    def generator_states(self) -> list[str]:
        """Return the states of all captured random generators."""
        return [_state(generator) for generator in self._generators]

    # ---- reading

    def add(self, value) -> None:
        """Note everything that a value leads to."""
        pending = [value]
        while pending:
            value = pending.pop()
            if not isinstance(value, _ATOMS) and id(value) not in self._seen:
                self._seen[id(value)] = value
                pending.extend(self._read(value))

    def _read(self, value):
        """Note how a value can change; return the values behind it."""
        if isinstance(value, np.ndarray):
            return self._array(value)
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
            return self._instance(value)  # dok_matrix is a dictionary by name, and iterates without end
        if isinstance(value, (dict, types.MappingProxyType)):
            return (*self._sequence(value), *self._sequence(value.values()))
        if isinstance(value, _SEQUENCES):
            return self._sequence(value)
        if isinstance(value, (set, frozenset, bytearray)):
            self._sets.append((value, value.copy()))
            return tuple(value)
        if isinstance(value, _GENERATORS):
            self._generators.append(value)
            return ()
        if hasattr(type(value), "__next__") and not isinstance(value, io.IOBase):
            self._iterates = True  # what it gives next cannot be looked at
            return ()
        if isinstance(value, types.ModuleType):
            return ()  # only the attributes that code names are read: see _module
        if isinstance(value, type):
            return self._class(value)
        return self._instance(value)

    def _array(self, array):
        if array.dtype == object:
            return self._sequence(array.reshape(-1))
        if not immutable(array):
            self.arrays.append((array, array.copy()))
        return ()

    def _sequence(self, container):
        entries = tuple(container)
        if not isinstance(container, tuple):
            self._sequences.append((container, entries))
        return entries

    def _function(self, function: types.FunctionType):
        yield vars(function).get("__wrapped__")  # of a verb or a library's decorator too
        if not ownership.is_users_function(function):
            return
        for cell in function.__closure__ or ():
            try:
                value = cell.cell_contents
            except ValueError:  # a cell that is filled later
                continue
            self._cells.append((cell, value))
            if isinstance(value, types.ModuleType):
                yield from self._module(value, _names(function.__code__))
            else:
                yield value
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
        code = function.__code__
        if code.co_name in (*code.co_names, *code.co_freevars):  # it may make attributes of its own
            self._absent += [(attributes, n) for n in code.co_names if n not in attributes]
        names = _names(function.__code__)
        yield from self._bound(function.__globals__, names, names)

    def _bound(self, scope, wanted, names):
        """Note the names of a scope that code uses."""
        for name in wanted:
            if name not in scope:
                continue
            value = scope[name]
            if not isinstance(value, types.ModuleType):
                self._bindings.append((scope, name, value))
                yield value
            else:
                yield from self._module(value, names)

    def _module(self, module, names):
        """Note the names of a user's module that code uses."""
        if id(module) not in self._seen and ownership.is_users_module(module):
            self._seen[id(module)] = module
            yield from self._bound(vars(module), names, names)
            del self._seen[id(module)]  # other code may use other names of it

    def _class(self, cls):
        for base in cls.__mro__:
            if not ownership.is_users_class(base):
                continue
            members = vars(base)
            for name, value in list(members.items()):
                if not (name.startswith("__") and name.endswith("__") and name != "__call__"):
                    self._bindings.append((members, name, value))
                    yield value

    def _instance(self, value):
        cls = type(value)
        fields = getattr(value, "__dict__", None)
        if isinstance(value, types.SimpleNamespace):
            yield fields
        elif isinstance(fields, dict) and "py_func" in fields:  # a Numba dispatcher
            yield fields["py_func"]
        elif ownership.is_users_class(cls):
            yield cls
            for base in cls.__mro__:
                for name in _slots(base):
                    if hasattr(value, name):
                        part = getattr(value, name)
                        self._attributes.append((value, name, part))
                        yield part
            if isinstance(fields, dict):
                yield fields
        elif isinstance(fields, dict):
            for name, part in list(fields.items()):
                self._bindings.append((fields, name, part))
                if isinstance(part, (np.ndarray, *_SEQUENCES, dict, types.FunctionType, *_GENERATORS)):
                    yield part


def _same(now, before) -> bool:
    """Whether two objects are the same number or text."""
    return type(now) is type(before) and isinstance(before, NUMBERS) and repr(now) == repr(before)


def _names(code: types.CodeType) -> tuple[str, ...]:
    """Return the global and attribute names that code and its nested functions use."""
    found = dict.fromkeys(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found.update(dict.fromkeys(_names(constant)))
    return tuple(found)


def _slots(cls) -> tuple[str, ...]:
    slots = vars(cls).get("__slots__", ())
    names = (slots,) if isinstance(slots, str) else tuple(slots)
    return tuple(name for name in names if name not in ("__dict__", "__weakref__"))


def _state(generator) -> str:
    if isinstance(generator, random.Random):
        return str(hash(generator.getstate()))
    if isinstance(generator, np.random.RandomState):
        return repr(generator.get_state(legacy=False))
    bits = generator.bit_generator if isinstance(generator, np.random.Generator) else generator
    return repr(bits.state)
