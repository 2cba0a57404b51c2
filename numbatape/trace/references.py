"""What the user's code refers to: names, helpers, methods; and whether it writes to arrays."""

from __future__ import annotations

import contextlib
import dis
import functools
import types

import numpy as np

from .capture import is_user_file, is_users_class

STORE_GLOBAL = dis.opmap["STORE_GLOBAL"]
STORES = {dis.opmap[name] for name in ("STORE_SUBSCR", "STORE_SLICE") if name in dis.opmap}
STORE_ATTR = dis.opmap["STORE_ATTR"]
PARTS = frozenset(("real", "imag", "flat"))  # attributes of arrays that may be assigned to
IN_PLACE = {k for k, (name, _) in enumerate(dis._nb_ops) if "INPLACE" in name}  # type: ignore[attr-defined]
WRITERS = frozenset(
    ("at", "copyto", "fill", "fill_diagonal", "itemset", "place", "put", "put_along_axis", "putmask", "sort")
)


@functools.lru_cache(maxsize=10_000)
def names_of(code: types.CodeType) -> frozenset[str]:
    """Return the global and attribute names of code and of the functions inside it."""
    inner = (names_of(c) for c in code.co_consts if isinstance(c, types.CodeType))
    return frozenset(code.co_names).union(*inner)


@functools.lru_cache(maxsize=10_000)
def assigns_globals(code: types.CodeType) -> bool:
    inner = (c for c in code.co_consts if isinstance(c, types.CodeType))
    return STORE_GLOBAL in code.co_code[::2] or any(map(assigns_globals, inner))


@functools.lru_cache(maxsize=10_000)
def writes(code: types.CodeType) -> bool:
    """Whether code may write to an array: stores, augmented assignments, ``out=``, known names."""
    operations = zip(code.co_code[::2], code.co_code[1::2], strict=True)
    binary = dis.opmap["BINARY_OP"]
    return (
        any(op in STORES or (op == binary and arg in IN_PLACE) for op, arg in operations)
        or not WRITERS.isdisjoint(code.co_names)
        or (STORE_ATTR in code.co_code[::2] and not PARTS.isdisjoint(code.co_names))
        or any(isinstance(c, tuple) and "out" in c for c in code.co_consts)
        or any(writes(c) for c in code.co_consts if isinstance(c, types.CodeType))
    )


@functools.lru_cache(maxsize=10_000)
def is_users(code: types.CodeType) -> bool:
    return is_user_file(code.co_filename)


def python_function(value) -> types.FunctionType | None:
    """Return the user's Python function behind a value: itself, or a Numba dispatcher's."""
    if value.__class__ is not types.FunctionType:
        if not type(value).__module__.startswith("numba."):
            return None
        value = getattr(value, "py_func", None)
        if value.__class__ is not types.FunctionType:
            return None
    return value if is_users(value.__code__) else None


@functools.lru_cache(maxsize=1_000)
def users_classes(cls: type) -> tuple[type, ...]:
    """Return the user's own classes among a class and its bases, in the order of lookup.

    None where nothing can stand in for an object.
    """
    own = tuple(base for base in cls.__mro__ if is_users_class(base))
    return () if any("__init_subclass__" in vars(base) for base in own) else own


def own_methods(cls: type) -> dict[str, types.FunctionType]:
    """Return the methods that a class of the user's defines, as they are now."""
    members = vars(cls).items()
    return {k: v for k, v in members if v.__class__ is types.FunctionType and is_users(v.__code__)}


def methods_of(cls: type) -> dict[str, types.FunctionType]:
    """Return the user's own methods of a class; those of bases too, also where they are overridden."""
    classes = users_classes(cls)
    found = {f"{base.__qualname__}.{k}": v for base in classes for k, v in own_methods(base).items()}
    call = next((own_methods(base)["__call__"] for base in classes if "__call__" in own_methods(base)), None)
    return found if call is None else {**found, "__call__": call}


def referents(function: types.FunctionType):
    """Yield the values that a function refers to: globals by name, cells, defaults."""
    for value in _referred(function):
        yield value
        if type(value) is np.vectorize:
            yield value.pyfunc


def _referred(function: types.FunctionType):
    scope = function.__globals__
    for name in names_of(function.__code__):
        if name in scope:
            yield scope[name]
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):  # a cell that is filled later
            yield cell.cell_contents
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()


def reached(*functions: types.FunctionType):
    """Yield the user's functions that some functions can reach, these first."""
    seen, waiting = set(map(id, functions)), list(functions)
    while waiting:
        current = waiting.pop()
        yield current
        names = names_of(current.__code__)
        for value in referents(current):
            is_module = value.__class__ is types.ModuleType
            parts = helpers_of(value, names) if is_module else {**methods_of(type(value)), "": value}
            for part in parts.values():
                helper = python_function(part)
                if helper is not None and id(helper) not in seen:
                    seen.add(id(helper))
                    waiting.append(helper)


def needs(functions: list[types.FunctionType], known) -> bool:
    """Whether one of some functions refers to something replaced."""
    for function in functions:
        names = names_of(function.__code__)
        if not names.isdisjoint(known.builtins):
            return True
        for value in referents(function):
            if known.stand_in(value) is not None:
                return True
            if value.__class__ is types.ModuleType:
                replaced, _ = known.modules.get(id(value), (frozenset(), None))
                if not replaced.isdisjoint(names):
                    return True
                parts = helpers_of(value, names).values()
            else:
                parts = (value,)
            # A Numba dispatcher: its Python function is what can be traced.
            if any(python_function(part) not in (None, part) for part in parts):
                return True
    return False


def helpers_of(module: types.ModuleType, names) -> dict:
    """Return the functions of a user's module that code may call."""
    file = getattr(module, "__file__", None)
    if file is None or not is_user_file(file):
        return {}
    return {n: v for n, v in vars(module).items() if n in names and python_function(v) is not None}
