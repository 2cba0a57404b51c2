"""While tracing, a function's references to SciPy, ``math`` and ``np.array`` become stand-ins.

Functions such as ``scipy.special.logsumexp``, ``math.log`` and ``np.array`` call ``np.asarray`` or
``float`` on a traced value. So the tracer runs a copy of the user's function, and of the user's
helpers that it calls, whose globals and closure refer to functions that know traced arrays.
NumPy, SciPy and the user's modules stay as they are, and other threads notice nothing.

Objects of the user's classes become objects of a subclass whose methods are copies.

Not reached: classes, objects behind an object's attributes, functions in libraries, and functions
that assign to globals.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import types

from .functions.array_functions import JOINERS
from .functions.creation import creators
from .functions.distributions import thaw
from .functions.stand_ins import PENDING, complete
from .references import (
    assigns_globals,
    helpers_of,
    methods_of,
    names_of,
    needs,
    own_methods,
    python_function,
    reached,
    users_classes,
    writes,
)

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
        for name in loaded:
            found = complete(name)
            if name == "numpy":
                found |= JOINERS | (creators(found) if writes else {})
            self.functions |= {id(original): its for original, its in found.values()}
            self._originals += [original for original, _ in found.values()]
            if name == "scipy.stats":
                self._distributions = found
            proxies[name] = self._add(name, {key: its for key, (_, its) in found.items()})
        for package in PACKAGES:
            if package in sys.modules:
                inner = {
                    n.rpartition(".")[2]: p for n, p in proxies.items() if n.rpartition(".")[0] == package
                }
                proxies[package] = self._add(package, inner)

    def stand_in(self, value):
        """Return what stands for a value, or None: a function, or an object of ``scipy.stats``."""
        found = self.functions.get(id(value))
        if found is None and type(value).__module__.startswith("scipy.stats."):
            found = thaw(value, self._distributions)
        return found

    def _add(self, name: str, replaced: dict):
        module = sys.modules[name]
        proxy = copy_module(module, replaced)
        self.modules[id(module)] = frozenset(replaced), proxy
        return proxy


def copy_module(module: types.ModuleType, replaced: dict) -> types.ModuleType:
    """Return a module with the same attributes but for the replaced ones.

    A real module, so that looking up an attribute costs what it always does.
    """
    proxy = types.ModuleType(module.__name__, module.__doc__)
    proxy.__dict__.update(vars(module))
    proxy.__dict__.update(replaced)
    proxy.__dict__["__getattr__"] = functools.partial(getattr, module)  # what is loaded later
    return proxy


@functools.cache
def _table(loaded: tuple[str, ...], writes: bool) -> Table:
    return Table(loaded, writes)


def table(writes: bool = False) -> Table:
    """Return the stand-ins; with ``writes``, those of functions that make arrays too."""
    return _table(tuple(name for name in PENDING if name in sys.modules), writes)


# ---- copies


class _Rebinder:
    """The copies made for one trace."""

    def __init__(self, known: Table):
        self.known = known
        self.copies: dict[int, types.FunctionType] = {}
        self.scopes: dict[int, dict] = {}
        self.cells: dict[int, types.CellType] = {}
        self.modules: dict[int, types.ModuleType] = {}
        self.instances: dict[int, object] = {}
        self.classes: dict[type, type] = {}

    def function(self, original: types.FunctionType) -> types.FunctionType:
        found = self.copies.get(id(original))
        if found is not None:
            return found
        code = original.__code__
        if assigns_globals(code):  # its assignments would go to the copied globals
            self.copies[id(original)] = original
            return original
        scope = self.scopes.get(id(original.__globals__))
        if scope is None:
            scope = self.scopes[id(original.__globals__)] = dict(original.__globals__)
        # Closures are copied after the function is known, which may refer to itself.
        cells = original.__closure__
        closure = None if cells is None else tuple(self._new_cell(cell) for cell in cells)
        copy = types.FunctionType(code, scope, original.__name__, None, closure)
        self.copies[id(original)] = copy
        names = names_of(code)
        copy.__qualname__, copy.__doc__ = original.__qualname__, original.__doc__
        copy.__defaults__ = self._all(original.__defaults__, names)
        if original.__kwdefaults__:
            copy.__kwdefaults__ = {k: self.value(v, names) for k, v in original.__kwdefaults__.items()}
        copy.__dict__.update(original.__dict__)
        for name in names:
            if name in scope:
                value = original.__globals__[name]
                replaced = self.value(value, names)
                if replaced is not value:  # else another function's names may have replaced it
                    scope[name] = replaced
        for cell in cells or ():
            self._fill(cell, names)
        return copy

    def _all(self, values, names):
        return values and tuple(self.value(v, names) for v in values)

    def _new_cell(self, cell):
        """Return the cell itself unless its content is replaced: assignments must be seen."""
        found = self.cells.get(id(cell))
        if found is None:
            found = cell
            with contextlib.suppress(ValueError):
                if self._replaces(cell.cell_contents):
                    found = types.CellType()
            self.cells[id(cell)] = found
        return found

    def _replaces(self, value) -> bool:
        return (
            self.known.stand_in(value) is not None
            or value.__class__ is types.ModuleType
            or python_function(value) is not None
            or bool(methods_of(type(value)))
        )

    def _fill(self, cell, names) -> None:
        new = self.cells[id(cell)]
        if new is not cell:
            new.cell_contents = self.value(cell.cell_contents, names)

    def value(self, value, names):
        """Return what stands for a value in the copies."""
        stand_in = self.known.stand_in(value)
        if stand_in is not None:
            return stand_in
        if value.__class__ is types.ModuleType:
            replaced, proxy = self.known.modules.get(id(value), (frozenset(), None))
            if not replaced.isdisjoint(names):
                return proxy
            return self._users_module(value, names)
        helper = python_function(value)
        if helper is not None:
            return self.function(helper)
        return self.instance(value) if methods_of(type(value)) else value

    def instance(self, original):
        """Return an object with the same attributes whose methods are copies."""
        found = self.instances.get(id(original))
        if found is not None:
            return found
        result = original
        if hasattr(original, "__dict__") and type(original) in users_classes(type(original)):
            methods = methods_of(type(original)).values()
            # Not of tuples, enumerations and their like, which cannot be made without their contents.
            with contextlib.suppress(TypeError):
                if needs(list(reached(*methods)), self.known):
                    result = object.__new__(self._subclass(type(original)))
                    object.__setattr__(result, "__dict__", original.__dict__)
        self.instances[id(original)] = result
        return result

    def _subclass(self, cls: type) -> type:
        """Return a subclass with copied methods; ``super()`` finds copies too."""
        found = self.classes.get(cls)
        if found is None:
            made = {}
            for base in reversed(users_classes(cls)):
                parents = (base, *reversed(made.values())) if base is cls else (base,)
                body = {"__slots__": (), "__module__": base.__module__}
                made[base] = type(cls)(base.__name__, parents, body)
            found = self.classes[cls] = made[cls]
            for base, own in made.items():
                for name, method in own_methods(base).items():
                    setattr(own, name, self.function(method))
        return found

    def _users_module(self, module, names):
        """Return a copy of a user's module with the functions copied that code may call."""
        helpers = helpers_of(module, names)
        if not helpers:
            return module
        copy = self.modules.get(id(module))
        if copy is None:
            copy = self.modules[id(module)] = copy_module(module, {})
        for name, helper in helpers.items():
            copy.__dict__[name] = self.function(python_function(helper))
        return copy


def rebind(function):
    """Return a function whose references to what would leak are replaced, or the function itself.

    Parameters
    ----------
    function
        A plain function, a bound method, a ``functools.partial`` or a callable object; other
        callables are returned as they are.
    """
    if isinstance(function, functools.partial):
        inner = rebind(function.func)
        same = inner is function.func
        return function if same else functools.partial(inner, *function.args, **function.keywords)
    stand_in = table().stand_in(function)
    if stand_in is not None:
        return stand_in
    if isinstance(function, types.MethodType):
        target, methods = function.__func__, methods_of(type(function.__self__))
    else:
        target, methods = function, methods_of(type(function))
        target = methods.get("__call__", target)
    if not isinstance(target, types.FunctionType):
        return function
    functions = list(reached(target, *methods.values()))
    known = table(writes=any(writes(one.__code__) for one in functions))
    if not needs(functions, known):
        return function
    copies = _Rebinder(known)
    if isinstance(function, types.MethodType):
        return types.MethodType(
            copies.function(target), copies.value(function.__self__, names_of(target.__code__))
        )
    return copies.function(target) if target is function else copies.instance(function)
