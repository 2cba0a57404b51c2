"""What a function reads besides its arguments: closure cells, globals, attributes, defaults.

Such values are literals on a tape, so every call asks whether they are still what was traced:
bindings by identity, contents of writable arrays by comparison (in the sweep's kernel), contents
of small containers entry by entry.
"""

from __future__ import annotations

import functools
import random
import sysconfig
import types
from pathlib import Path

import numpy as np

from ..errors import UnsupportedOperationError
from .randomness import MESSAGE

MAX_DEPTH = 4
MAX_ENTRIES = 10_000

_PATHS = sysconfig.get_paths()
_LIBRARIES = tuple({_PATHS[k] for k in ("stdlib", "platstdlib", "purelib", "platlib")})
_PACKAGE = str(Path(__file__).parents[1])
_ATOMS = (int, float, complex, str, bytes, bool, type(None), type(Ellipsis), np.generic, np.dtype, type)


def is_user_file(filename: str) -> bool:
    """Whether code in a file is the user's own: not a library's, not ours."""
    return not filename.startswith((*_LIBRARIES, _PACKAGE, "<frozen"))


class Environment:
    """The captured values of a function at the time of a trace.

    Attributes
    ----------
    arrays
        Writable arrays whose contents must be compared.
    """

    def __init__(self, function):
        self._cells: list[tuple] = []
        self._items: list[tuple] = []  # (mapping or sequence, key, value)
        self._attributes: list[tuple] = []
        self._lengths: list[tuple] = []
        self._generators: list[tuple] = []
        self.arrays: list[np.ndarray] = []
        self._seen: set[int] = set()
        self._keep: list = []
        self._value(function, 0)
        self.empty = not (
            self._cells or self._items or self._attributes or self._lengths or self._generators
        )

    def changed(self) -> bool:
        """Whether a binding is another object than before (contents of arrays aside)."""
        try:
            for cell, value in self._cells:
                if cell.cell_contents is not value:
                    return True
            for container, key, value in self._items:
                if container[key] is not value:
                    return True
            for owner, name, value in self._attributes:
                if getattr(owner, name) is not value:
                    return True
        except (ValueError, LookupError, AttributeError):
            return True  # unbound or removed
        return any(len(container) != length for container, length in self._lengths)

    def check_generators(self) -> None:
        """Raise if a captured random generator moved since the environment was read."""
        for generator, state in self._generators:
            if _state(generator) != state:
                raise UnsupportedOperationError(MESSAGE.format(where=f" from {generator!r}"))

    # ---- reading

    def _value(self, value, depth: int) -> None:
        if isinstance(value, _ATOMS) or id(value) in self._seen or depth > MAX_DEPTH:
            return
        self._seen.add(id(value))
        self._keep.append(value)  # an id stays its object's while we compare by it
        if isinstance(value, np.ndarray):
            if value.flags.writeable and value.dtype != object:
                self.arrays.append(value)
        elif isinstance(value, types.FunctionType):
            self._function(value, depth)
        elif isinstance(value, types.MethodType):
            self._function(value.__func__, depth)
            self._value(value.__self__, depth)
        elif isinstance(value, functools.partial):
            for part in (value.func, *value.args, *value.keywords.values()):
                self._value(part, depth)
        elif hasattr(value, "py_func"):
            self._value(value.py_func, depth)
        elif isinstance(value, dict):
            self._container(value, value.items(), depth)
        elif isinstance(value, (list, tuple)):
            self._container(value, enumerate(value), depth)
        elif isinstance(value, (np.random.Generator, np.random.RandomState, random.Random)):
            self._generators.append((value, _state(value)))
        elif isinstance(value, types.ModuleType):
            pass  # only the attributes that code names are read: see _function
        else:
            self._instance(value, depth)

    def _container(self, container, items, depth) -> None:
        if len(container) > MAX_ENTRIES:
            return
        if not isinstance(container, tuple):
            self._lengths.append((container, len(container)))
        for key, value in list(items):
            if not isinstance(container, tuple):
                self._items.append((container, key, value))
            self._value(value, depth + 1)

    def _instance(self, value, depth) -> None:
        call = getattr(type(value), "__call__", None)
        if isinstance(call, types.FunctionType):
            self._function(call, depth)
        fields = getattr(value, "__dict__", None)
        if isinstance(fields, dict) and is_user_file(_file_of_class(type(value))):
            for name, part in list(fields.items()):
                self._items.append((fields, name, part))
                self._value(part, depth + 1)

    def _function(self, function: types.FunctionType, depth) -> None:
        if not is_user_file(function.__code__.co_filename):
            return
        for cell in function.__closure__ or ():
            try:
                value = cell.cell_contents
            except ValueError:  # a cell that is filled later
                continue
            self._cells.append((cell, value))
            self._value(value, depth)
        for part in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
            self._value(part, depth)
        names = _names(function.__code__)
        scope = function.__globals__
        for name in names:
            if name not in scope:
                continue
            value = scope[name]
            if isinstance(value, types.ModuleType):
                self._module(value, names, depth)
            else:
                self._items.append((scope, name, value))
                self._value(value, depth)

    def _module(self, module, names, depth) -> None:
        file = getattr(module, "__file__", None)
        if file is None or not is_user_file(file):
            return
        for name in names:
            if name in vars(module):
                value = vars(module)[name]
                self._attributes.append((module, name, value))
                self._value(value, depth + 1)


def _names(code: types.CodeType) -> tuple[str, ...]:
    """Return the global and attribute names that code and its nested functions use."""
    found = dict.fromkeys(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found.update(dict.fromkeys(_names(constant)))
    return tuple(found)


def _file_of_class(cls) -> str:
    import sys

    return getattr(sys.modules.get(cls.__module__), "__file__", None) or ""


def _state(generator):
    if isinstance(generator, random.Random):
        return hash(generator.getstate())
    if isinstance(generator, np.random.RandomState):
        return str(generator.get_state(legacy=False))
    return str(generator.bit_generator.state)
