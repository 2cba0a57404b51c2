"""While tracing, a function's references to SciPy, ``math`` and ``np.array`` become stand-ins.

Functions such as ``scipy.special.logsumexp``, ``math.log`` and ``np.array`` call ``np.asarray`` or
``float`` on a traced value. So the tracer runs a copy of the user's function, and of the user's
helpers that it calls, whose globals and closure refer to functions that know traced arrays.
NumPy, SciPy and the user's modules stay as they are, and other threads notice nothing.

Not reached: methods that a method calls, classes, functions in libraries, and functions that
assign to globals.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import sys
import types

from .capture import is_user_file
from .functions.array_functions import JOINERS
from .functions.distributions import thaw
from .functions.stand_ins import PENDING, complete

STORE_GLOBAL = dis.opmap["STORE_GLOBAL"]
PACKAGES = ("scipy",)  # modules that lead to modules with stand-ins


class Table:
    """The stand-ins for the modules imported so far.

    Attributes
    ----------
    functions
        Stand-in by the id of the original.
    modules
        ``(names, proxy)`` by the id of a module: what of it is replaced, and its copy.
    """

    def __init__(self, loaded: tuple[str, ...]):
        self.functions: dict[int, object] = {}
        self._distributions: dict[str, tuple] = {}
        self._originals: list = []  # kept, so that an id stays its object's
        self.modules: dict[int, tuple[frozenset, types.ModuleType]] = {}
        proxies = {}
        for name in loaded:
            found = complete(name)
            if name == "numpy":
                found |= JOINERS
            self.functions |= {id(original): its for original, its in found.values()}
            self._originals += [original for original, _ in found.values()]
            if name == "scipy.stats":
                self._distributions = found
            proxies[name] = self._add(name, {key: its for key, (_, its) in found.items()})
        for package in PACKAGES:
            if package in sys.modules:
                inner = {n.partition(".")[2]: p for n, p in proxies.items() if n.startswith(package + ".")}
                self._add(package, inner)

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
def _table(loaded: tuple[str, ...]) -> Table:
    return Table(loaded)


def table() -> Table:
    return _table(tuple(name for name in PENDING if name in sys.modules))


# ---- what code refers to


@functools.lru_cache(maxsize=10_000)
def _names(code: types.CodeType) -> frozenset[str]:
    """Return the global and attribute names of code and of the functions inside it."""
    inner = (_names(c) for c in code.co_consts if isinstance(c, types.CodeType))
    return frozenset(code.co_names).union(*inner)


@functools.lru_cache(maxsize=10_000)
def _assigns_globals(code: types.CodeType) -> bool:
    inner = (c for c in code.co_consts if isinstance(c, types.CodeType))
    return STORE_GLOBAL in code.co_code[::2] or any(map(_assigns_globals, inner))


@functools.lru_cache(maxsize=10_000)
def _is_users(code: types.CodeType) -> bool:
    return is_user_file(code.co_filename)


def _python_function(value) -> types.FunctionType | None:
    """Return the user's Python function behind a value: itself, or a Numba dispatcher's."""
    if value.__class__ is not types.FunctionType:
        if not type(value).__module__.startswith("numba."):
            return None
        value = getattr(value, "py_func", None)
        if value.__class__ is not types.FunctionType:
            return None
    return value if _is_users(value.__code__) else None


def _referents(function: types.FunctionType):
    """Yield the values that a function refers to: globals by name, cells, defaults."""
    scope = function.__globals__
    for name in _names(function.__code__):
        if name in scope:
            yield scope[name]
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):  # a cell that is filled later
            yield cell.cell_contents
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()


def _needs(function: types.FunctionType, known: Table) -> bool:
    """Whether a function, or a helper that it can reach, refers to something replaced."""
    seen, waiting = {id(function)}, [function]
    while waiting:
        current = waiting.pop()
        names = _names(current.__code__)
        for value in _referents(current):
            if known.stand_in(value) is not None:
                return True
            if value.__class__ is types.ModuleType:
                replaced, _ = known.modules.get(id(value), (frozenset(), None))
                if not replaced.isdisjoint(names):
                    return True
                parts = _helpers(value, names).values()
            else:
                parts = (value,)
            for part in parts:
                helper = _python_function(part)
                if helper is not None and helper is not part:
                    return True  # a Numba dispatcher: its Python function is what can be traced
                if helper is not None and id(helper) not in seen:
                    seen.add(id(helper))
                    waiting.append(helper)
    return False


def _helpers(module: types.ModuleType, names) -> dict:
    """Return the functions of a user's module that code may call."""
    file = getattr(module, "__file__", None)
    if file is None or not is_user_file(file):
        return {}
    return {n: v for n, v in vars(module).items() if n in names and _python_function(v) is not None}


# ---- copies


class _Rebinder:
    """The copies made for one trace."""

    def __init__(self, known: Table):
        self.known = known
        self.copies: dict[int, types.FunctionType] = {}
        self.scopes: dict[int, dict] = {}
        self.cells: dict[int, types.CellType] = {}
        self.modules: dict[int, types.ModuleType] = {}

    def function(self, original: types.FunctionType) -> types.FunctionType:
        found = self.copies.get(id(original))
        if found is not None:
            return found
        code = original.__code__
        if _assigns_globals(code):  # its assignments would go to the copied globals
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
        names = _names(code)
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
            or _python_function(value) is not None
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
        helper = _python_function(value)
        return value if helper is None else self.function(helper)

    def _users_module(self, module, names):
        """Return a copy of a user's module with the functions copied that code may call."""
        helpers = _helpers(module, names)
        if not helpers:
            return module
        copy = self.modules.get(id(module))
        if copy is None:
            copy = self.modules[id(module)] = copy_module(module, {})
        for name, helper in helpers.items():
            copy.__dict__[name] = self.function(_python_function(helper))
        return copy


def rebind(function):
    """Return a function whose references to what would leak are replaced, or the function itself.

    Parameters
    ----------
    function
        A plain function, a bound method or a ``functools.partial``; other callables are returned
        as they are.
    """
    if isinstance(function, functools.partial):
        inner = rebind(function.func)
        same = inner is function.func
        return function if same else functools.partial(inner, *function.args, **function.keywords)
    if isinstance(function, types.MethodType):
        inner = rebind(function.__func__)
        return function if inner is function.__func__ else types.MethodType(inner, function.__self__)
    known = table()
    if id(function) in known.functions:
        return known.functions[id(function)]
    if not isinstance(function, types.FunctionType) or not _needs(function, known):
        return function
    return _Rebinder(known).function(function)
