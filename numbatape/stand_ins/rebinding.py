"""While tracing, a function's references to SciPy, ``math`` and ``np.array`` become stand-ins.

Functions such as ``scipy.special.logsumexp``, ``math.log`` and ``np.array`` call ``np.asarray`` or
``float`` on a traced value. So the tracer runs a copy of the user's function, and of the user's
helpers that it calls, whose globals and closure refer to functions that know traced arrays.
NumPy, SciPy and the user's modules stay as they are, and other threads notice nothing.

`numbatape.stand_ins.copies` makes the copies, and tells what can be reached.
"""

from __future__ import annotations

import builtins
import dataclasses
import functools
import sys
import types
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from ..capture.captured import uses_in
from ..capture.reach import Reach
from ..capture.references import is_atom
from ..late import imported
from ..numpy_api.arrays_of_lists import MODULES, stacking, ufuncs_of_lists
from ..numpy_api.function_tables import STAND_INS
from ..numpy_api.stand_ins import made, stand_in_of_object
from ..trace import operations, pytrees
from ..trace.complex_parts import is_traced
from ..trace.library_kinds import lending_package
from ..trace.plain_arrays import is_plain
from ..trace.trace import current
from ..usercode.bytecode import writes
from ..usercode.ownership import adopt, is_library_function, runs_as_users, users_classes
from . import clocks_and_files, module_copies, type_tests
from .captured_arrays import WithArrays
from .copies import Copies
from .module_copies import ModuleCopy, UsersModule
from .plain_creators import creators

# Packages without stand-ins of their own, which have modules with stand-ins.
PACKAGES = ("scipy",)
# Compiled modules, and the modules in Python that have the same functions.
IN_PYTHON = {
    "scipy.interpolate._rbfinterp_np": "scipy.interpolate._rbfinterp_xp",
    "scipy.spatial.transform._rotation_cy": "scipy.spatial.transform._rotation_xp",
    "scipy.spatial.transform._rigid_transform_cy": "scipy.spatial.transform._rigid_transform_xp",
}
IMPORTED_LATE = ("random", "testing")  # modules that NumPy imports when they are first asked for
ARRAY_MODULES = ("scipy._lib.array_api_compat.numpy", "scipy._external.array_api_compat.numpy")
OF_UFUNCS = ("numpy", "scipy.special")  # modules that have ufuncs
# Functions and classes of Python's own and other modules: by module and name, what makes the stand-in.
REPLACED: dict[str, dict[str, Callable]] = {}
for _file in (clocks_and_files, module_copies, type_tests):
    for _module, _makers in _file.REPLACED.items():
        REPLACED[_module] = REPLACED.get(_module, {}) | _makers

# SciPy's modules of which nothing has a stand-in of its own: their functions and classes run as copies.
INNER = (
    *("scipy.cluster", "scipy.constants", "scipy.optimize.elementwise", "scipy.spatial.transform"),
    "scipy.stats.contingency",
)


class Table:
    """The stand-ins for the modules imported so far, each made when it is first needed.

    Attributes
    ----------
    modules
        ``(names, proxy)`` by the id of a module: the names that are replaced in it, and its copy.
    builtins
        The stand-ins of builtin functions, by name.
    """

    def __init__(self, loaded: tuple[str, ...], writes: bool):
        self.builtins = clocks_and_files.BUILTINS | type_tests.BUILTINS
        self.modules: dict[int, tuple[frozenset, types.ModuleType]] = {}
        self._ready = {id(getattr(builtins, name)): its for name, its in self.builtins.items()}
        self._makers: dict[int, Callable] = {}  # makers of stand-ins, by the id of the original
        self._originals: list = []  # kept alive, so that no other object gets their ids
        proxies = {}
        for name in loaded:
            if name in IN_PYTHON:
                continue
            found = _replaced_in(name)
            if name == "numpy" and writes:
                found |= creators(found)
            self._makers |= {id(original): make for original, make in found.values()}
            self._originals += [original for original, _ in found.values()]
            late = {key: make for key, (_, make) in found.items()}
            if name == "numpy":
                # NumPy imports these when they are first asked for.
                late["polynomial"] = lambda: UsersModule(np.polynomial, _in_trace)
                for inner in IMPORTED_LATE:
                    late[inner] = functools.partial(self._imported, f"numpy.{inner}")
            proxies[name] = self._add(name, {}, _copied(sys.modules[name]) | late)
        proxies["numpy.lib"] = self._add("numpy.lib", {})
        for name, proxy in proxies.items():  # submodules, such as np.linalg, np.lib.stride_tricks and os.path
            package, _, leaf = name.rpartition(".")
            if package in proxies:
                setattr(proxies[package], leaf, proxy)
                replaced, around = self.modules[id(sys.modules[package])]
                self.modules[id(sys.modules[package])] = replaced | {leaf}, around
        for name in ARRAY_MODULES:  # NumPy under another name
            if name in sys.modules and "numpy" in proxies:
                module = sys.modules[name]
                self.modules[id(module)] = frozenset(vars(module)), proxies["numpy"]
        for name in loaded:
            if name in IN_PYTHON:
                module, written = sys.modules[name], sys.modules[IN_PYTHON[name]]
                both = frozenset(vars(module)).intersection(_like_users(written))
                self.modules[id(module)] = both, ModuleCopy(module, {}, {}, both, _twin_of(written))
        for package in PACKAGES:
            if package in sys.modules:
                inner = {
                    n.rpartition(".")[2]: p for n, p in proxies.items() if n.rpartition(".")[0] == package
                }
                proxies[package] = self._add(package, inner)

    def stand_in(self, value):
        """Return the stand-in for a value (a function, a distribution, an interpolator), or None."""
        key = id(value)
        found = self._ready.get(key)
        if found is None and key in self._makers:
            found = self._ready[key] = self._makers[key]()
        if found is None:
            found = stand_in_of_object(value)
        if found is None and is_library_function(value):
            found = self._ready[key] = operations.library_copy(value)
            self._originals.append(value)
        if found is None and isinstance(value, Path):
            found = clocks_and_files.noting_path(value)
        return found

    def _imported(self, name: str):
        """Return the stand-in for a module of NumPy's; importing it takes longer than most traces."""
        import_module(name)
        if id(sys.modules[name]) not in self.modules:
            found = _replaced_in(name)
            self._originals += [original for original, _ in found.values()]
            self._add(name, {}, {key: make for key, (_, make) in found.items()})
        return self.modules[id(sys.modules[name])][1]

    def _add(self, name: str, replaced: dict, late: dict | None = None):
        module, late = sys.modules[name], late or {}
        own = frozenset(_like_users(module)).difference(replaced, late)
        proxy = ModuleCopy(module, replaced, late, own, _in_trace)
        self.modules[id(module)] = own.union(replaced, late), proxy
        return proxy


def _once(make: Callable) -> Callable:
    """Return what calls a maker the first time, and returns the same again; `functools.cache` takes 5 µs."""
    made: list = []

    def found():
        if not made:
            made.append(make())
        return made[0]

    return found


def _replaced_in(name: str) -> dict[str, tuple]:
    """Return ``{name: (original, maker of the stand-in)}`` of a module."""
    module, found = sys.modules[name], {}
    for key in STAND_INS.get(name, ()):
        original: Any = module  # the names of classes' members have dots
        for part in key.split("."):
            original = getattr(original, part, None)  # older versions lack some names
        if original is not None:
            found[key] = original, _once(functools.partial(made, name, key, original))
    for key, make in REPLACED.get(name, {}).items():
        original = getattr(module, key, None)
        if original is not None:
            found[key] = original, _once(functools.partial(make, original))
    if name in MODULES:
        for key, its in stacking(name).items():
            found.setdefault(key, its)
    if name in OF_UFUNCS:
        for key, its in ufuncs_of_lists(module).items():
            found.setdefault(key, its)
    if name == "numpy":
        found["nditer"] = np.nditer, _nditer
        found["vectorize"] = np.vectorize, _vectorized
    return found


def _nditer():
    return imported(".iteration", __package__).nditer  # few functions need it


def _vectorized():
    return operations.Vectorized  # imported when it is first needed


def _copied(module) -> dict[str, Callable]:
    """Return makers of the stand-ins for a library's functions that run as copies, by name."""
    found = ((key, value) for key, value in vars(module).items() if is_library_function(value))
    return {key: functools.partial(_as_copy, value) for key, value in found}


def _like_users(module) -> list[str]:
    """Return the names of a library's classes and functions that are copied like the user's."""
    return [
        key
        for key, value in vars(module).items()
        if isinstance(value, (type, types.FunctionType)) and runs_as_users(value.__module__)
    ]


def _twin_of(python: types.ModuleType) -> Callable:
    """Return what finds the copy of the function in Python that does what a compiled one does."""
    return lambda compiled: _in_trace(getattr(python, compiled.__name__))


def _as_copy(function):
    return operations.library_copy(function)  # imported when the first of them is needed


def _in_trace(value):
    """Return the stand-in for a value in the copies of the running trace."""
    trace = current()
    return value if trace is None or trace.capture.copies is None else trace.capture.copies.value(value)


@functools.cache
def _table(loaded: tuple[str, ...], writes: bool) -> Table:
    return Table(loaded, writes)


def table(writes: bool = False) -> Table:
    """Return the stand-ins; with ``writes``, also those of functions that make arrays."""
    names = {**STAND_INS, **REPLACED, **dict.fromkeys((*MODULES, *IN_PYTHON, *INNER))}
    return _table(tuple(filter(sys.modules.__contains__, names)), writes)


def module_in_traces(module: types.ModuleType) -> types.ModuleType:
    """Return the stand-in for a module of NumPy in a function that writes to arrays."""
    return table(writes=True).modules[id(module)][1]


def nodes_in(tree):
    """Yield ``(object, whether it is a node)`` for the objects among arguments that are no numbers.

    Nodes are objects of the user's classes that the trace has made; leaves were passed unchanged.
    """
    kind = type(tree)
    if kind in pytrees.OPAQUE or is_traced(tree) or is_plain(tree) or is_atom(tree):
        return
    if dataclasses.is_dataclass(kind) or hasattr(kind, "_fields"):
        if users_classes(kind):
            yield tree, True
        names = (
            kind._fields if hasattr(kind, "_fields") else [field.name for field in dataclasses.fields(kind)]
        )
        tree = [getattr(tree, name, None) for name in names]
    elif isinstance(tree, dict):
        tree = tree.values()
    elif not isinstance(tree, (list, tuple)):
        yield tree, False
        return
    for part in tree:
        yield from nodes_in(part)


def rebind(function):
    """Return a function with stand-ins in place of functions that would leak, or the function itself."""
    return rebind_call(function, (), {})[0]


def rebind_call(function, args, kwargs):
    """Return a function and its arguments with stand-ins in place of functions that would leak.

    Parameters
    ----------
    function
        Any callable.
    args, kwargs
        Arguments that the trace has made. Objects in them get stand-ins for their classes; functions, modules
        and other static values are replaced.
    """
    found = list(nodes_in((args, kwargs)))
    nodes = [value for value, is_node in found if is_node]
    leaves = [value for value, is_node in found if not is_node]
    adopt(function)
    reach = Reach(function, *map(type, nodes), *leaves)
    trace = current()
    arrays = trace.capture.arrays if trace is not None else None
    stores = any(writes(one.__code__) for one in reach.functions)
    may_write = arrays is not None or stores

    if trace is not None:
        trace.memory.writes = trace.memory.writes or may_write
        trace.memory.stores = trace.memory.stores or stores
        labelled = [value for value, _ in reach.others if lending_package(value) is not None]
        if labelled:
            imported(".lent_methods", __package__).lend_methods(trace, labelled)

    def again():
        found = table(may_write)
        return found if arrays is None else arrays.tables.setdefault(id(found), WithArrays(found, arrays))

    known = again()
    copies = trace and trace.capture.copies
    moving = trace is not None and (bool(trace.capture.moving) or (copies is not None and copies.has_inputs))
    # Globals that copies assign have their new values in the copies' scope alone, until the copies are done.
    assigned = copies and reach.reads(copies.assigned)
    if uses_in(trace) is None and not (moving or reach.needs(known) or assigned):
        return function, args, kwargs
    if copies is None or copies.known is not known:
        copies = Copies(known, again)
        if trace is not None and trace.capture.copies is None:
            trace.capture.copies = copies
    copies.adopt(nodes)
    if leaves:
        args, kwargs = _replaced(args, copies), _replaced(kwargs, copies)
    return copies.value(function), args, kwargs


def _replaced(tree, copies):
    """Return arguments with static values replaced, also inside of containers."""
    if is_traced(tree) or is_plain(tree) or type(tree) in pytrees.OPAQUE:
        return tree
    if type(tree) in (list, tuple):
        return type(tree)([_replaced(part, copies) for part in tree])
    if type(tree) is dict:
        return {key: _replaced(part, copies) for key, part in tree.items()}
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        for field in dataclasses.fields(tree):
            part = getattr(tree, field.name, None)
            if not is_atom(part) and not is_traced(part):
                object.__setattr__(tree, field.name, _replaced(part, copies))
        return tree
    return copies.value(tree)
