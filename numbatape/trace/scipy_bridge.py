"""While tracing, a function's references to SciPy, ``math`` and ``np.array`` become stand-ins.

Functions such as ``scipy.special.logsumexp``, ``math.log`` and ``np.array`` call ``np.asarray`` or
``float`` on a traced value. So the tracer runs a copy of the user's function, and of the user's
helpers that it calls, whose globals and closure refer to functions that know traced arrays.
NumPy, SciPy and the user's modules stay as they are, and other threads notice nothing.

`numbatape.trace.copies` makes the copies, and says what is reached.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
import types
from pathlib import Path

import numpy as np

from . import pytrees
from .capture import module_of
from .code import names_of
from .copies import Copies, copy_module
from .functions import outside, type_tests
from .functions.array_functions import JOINERS
from .functions.creation import creators
from .functions.distributions import thaw
from .functions.outside import OUTSIDE
from .functions.stand_ins import PENDING, complete
from .functions.vectorize import CLASSES
from .references import ATOMS, Reach, users_classes, writes

PACKAGES = ("scipy.sparse", "scipy.spatial", "scipy")  # that lead to modules with stand-ins; inner ones first


class Table:
    """The stand-ins for the modules imported so far.

    Attributes
    ----------
    functions
        Stand-in by the id of the original.
    modules
        ``(names, proxy)`` by the id of a module: what of it is replaced, and its copy.
    """

    def __init__(self, loaded: tuple[str, ...], writes: bool):
        self.functions: dict[int, object] = {}
        self._distributions: dict[str, tuple] = {}
        self._originals: list = []  # kept, so that an id stays its object's
        self.modules: dict[int, tuple[frozenset, types.ModuleType]] = {}
        proxies = {}
        self.builtins = outside.BUILTINS | type_tests.BUILTINS
        for name in loaded:
            found = complete(name) if name in PENDING else {}
            for key, make in OUTSIDE.get(name, {}).items():
                original = getattr(sys.modules[name], key, None)
                if original is not None:
                    found[key] = original, make(original)
            if name == "numpy":
                found |= JOINERS | CLASSES | (creators(found) if writes else {})
            self.functions |= {id(original): its for original, its in found.values()}
            self._originals += [original for original, _ in found.values()]
            if name == "scipy.stats":
                self._distributions = found
            proxies[name] = self._add(name, {key: its for key, (_, its) in found.items()})
        for name, proxy in proxies.items():  # np.linalg, os.path
            package, _, leaf = name.rpartition(".")
            if package in proxies:
                setattr(proxies[package], leaf, proxy)
                replaced, around = self.modules[id(sys.modules[package])]
                self.modules[id(sys.modules[package])] = replaced | {leaf}, around
        for package in PACKAGES:
            if package in sys.modules:
                inner = {
                    n.rpartition(".")[2]: p for n, p in proxies.items() if n.rpartition(".")[0] == package
                }
                proxies[package] = self._add(package, inner)

    def stand_in(self, value):
        """Return what stands for a value, or None: a function, or an object of ``scipy.stats``."""
        found = self.functions.get(id(value))
        if found is None and module_of(value).startswith("scipy.stats."):
            found = thaw(value, self._distributions)
        if found is None and isinstance(value, Path):
            found = outside.noting_path(value)
        return found

    def _add(self, name: str, replaced: dict):
        module = sys.modules[name]
        proxy = copy_module(module, replaced)
        self.modules[id(module)] = frozenset(replaced), proxy
        return proxy


@functools.cache
def _table(loaded: tuple[str, ...], writes: bool) -> Table:
    return Table(loaded, writes)


def table(writes: bool = False) -> Table:
    """Return the stand-ins; with ``writes``, those of functions that make arrays too."""
    return _table(tuple(name for name in {**PENDING, **OUTSIDE} if name in sys.modules), writes)


def objects_in(tree):
    """Yield the objects of the user's classes that are nodes of arguments."""
    cls = tree.__class__
    if cls in pytrees.OPAQUE or cls is np.ndarray:
        return
    if dataclasses.is_dataclass(cls) or hasattr(cls, "_fields"):
        if users_classes(cls):
            yield tree
        names = cls._fields if hasattr(cls, "_fields") else [field.name for field in dataclasses.fields(cls)]
        tree = [getattr(tree, name, None) for name in names]
    elif isinstance(tree, dict):
        tree = tree.values()
    elif not isinstance(tree, (list, tuple)):
        return
    for part in tree:
        if not isinstance(part, ATOMS):
            yield from objects_in(part)


def rebind(function, arguments=()):
    """Return a function whose references to what would leak are replaced, or the function itself.

    Parameters
    ----------
    function
        A plain function, a bound method, a ``functools.partial`` or a callable object; other
        callables are returned as they are.
    arguments
        Containers of arguments that the trace has made; objects in them get stand-ins for their classes.
    """
    if isinstance(function, functools.partial):
        inner = rebind(function.func, arguments)
        same = inner is function.func
        return function if same else functools.partial(inner, *function.args, **function.keywords)
    stand_in = table().stand_in(function)
    if stand_in is not None:
        return stand_in
    objects = list(objects_in(arguments))
    reach = Reach(function, *map(type, objects))
    if not reach.functions:
        return function
    may_write = any(writes(one.__code__) for one in reach.functions)
    known = table(may_write)
    if not reach.needs(known):
        return function
    copies = Copies(known, functools.partial(table, may_write))
    copies.adopt(objects)
    if isinstance(function, types.MethodType):
        names = names_of(function.__func__.__code__)
        return types.MethodType(copies.function(function.__func__), copies.value(function.__self__, names))
    return copies.value(function)
