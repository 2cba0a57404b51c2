"""What the user's code refers to: names, helpers, classes, objects; and whether it writes to arrays."""

from __future__ import annotations

import dis
import enum
import functools
import types

import numpy as np

from . import ownership
from .capture import NUMBERS, contents, module_of
from .code import names_of
from .ownership import is_users_class, is_users_function

ATOMS = (
    *NUMBERS,
    type(None),
    np.ndarray,
    types.CodeType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
)
CACHED = type(functools.lru_cache(len))
CONTAINERS = frozenset((list, tuple, dict))
SHORT = 100  # entries of a container that are looked at
_OF_CLASSES = frozenset(("__dict__", "__weakref__", "__class__", "__annotations__", "__dataclass_fields__"))
IMPORT_NAME = dis.opmap["IMPORT_NAME"]
STORES = {dis.opmap[name] for name in ("STORE_SUBSCR", "STORE_SLICE") if name in dis.opmap}
STORE_ATTR = dis.opmap["STORE_ATTR"]
PARTS = frozenset(("real", "imag", "flat"))  # attributes of arrays that may be assigned to
IN_PLACE = {k for k, (name, _) in enumerate(dis._nb_ops) if "INPLACE" in name}  # type: ignore[attr-defined]
WRITERS = frozenset(
    ("at", "copyto", "fill", "fill_diagonal", "itemset", "place", "put", "put_along_axis", "putmask", "sort")
)


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


def python_function(value) -> types.FunctionType | None:
    """Return the user's Python function behind a value: itself, or a Numba dispatcher's.

    A library's function that has one of the user's in its closure, as decorators make them, counts too.
    """
    if value.__class__ is not types.FunctionType:
        if not module_of(value).startswith("numba."):
            return None
        value = getattr(value, "py_func", None)
        if value.__class__ is not types.FunctionType:
            return None
    if is_users_function(value):
        return value
    return value if any(map(_is_users_function, contents(value))) else None


def _is_users_function(value) -> bool:
    return value.__class__ is types.FunctionType and is_users_function(value)


@ownership.decided
def users_classes(cls: type) -> tuple[type, ...]:
    """Return the user's own classes among a class and its bases, in the order of lookup.

    None where nothing can stand in for an object: exceptions are caught, and members of enumerations
    compared, by class.
    """
    if issubclass(cls, (BaseException, enum.Enum, type)):
        return ()
    own = tuple(base for base in cls.__mro__ if is_users_class(base))
    return () if any("__init_subclass__" in vars(base) for base in own) else own


def members_of(cls: type) -> dict[str, object]:
    """Return what a class of the user's defines itself: functions in any wrapping, and what code may use."""
    return {k: v for k, v in vars(cls).items() if not isinstance(v, ATOMS) and k not in _OF_CLASSES}


def functions_in(value) -> tuple:
    """Return the functions inside of a method or a descriptor, and of what wraps one."""
    if isinstance(value, (staticmethod, classmethod)):
        return (value.__func__,)
    if isinstance(value, property):
        return value.fget, value.fset, value.fdel
    if isinstance(value, functools.cached_property):
        return (value.func,)
    if type(value) is np.vectorize:
        return (value.pyfunc,)
    if isinstance(value, types.MethodType):
        return value.__func__, value.__self__
    if isinstance(value, functools.partial):
        return value.func, *value.args, *value.keywords.values()
    if isinstance(value, CACHED) and value.__wrapped__.__code__.co_argcount:
        return (value.__wrapped__,)
    return ()


def small(value):
    """Return the entries of a short list, tuple or dictionary, which may be functions."""
    if value.__class__ in CONTAINERS and len(value) <= SHORT:
        return value.values() if value.__class__ is dict else value
    return ()


def fields_of(value) -> dict[str, object]:
    """Return the attributes of an object of the user's that lead to something else."""
    fields = getattr(value, "__dict__", None)
    if fields.__class__ is not dict:
        return {}
    return {k: v for k, v in fields.items() if not isinstance(v, ATOMS)}


def referents(function: types.FunctionType):
    """Yield the values that a function refers to: globals by name, cells, defaults."""
    if is_users_function(function):
        scope = function.__globals__
        for name in names_of(function.__code__):
            if name in scope:
                yield scope[name]
        yield from function.__defaults__ or ()
        yield from (function.__kwdefaults__ or {}).values()
    yield from contents(function)


class Reach:
    """Everything of the user's that some values lead to.

    Attributes
    ----------
    functions
        The user's functions.
    others
        ``(value, names)`` of what else was met: the names are those that the code which refers to it uses,
        None where no code does directly.
    """

    def __init__(self, *values):
        self.functions: list[types.FunctionType] = []
        self.others: list[tuple] = []
        seen: set = set()
        waiting = [(value, None) for value in values]
        while waiting:
            value, names = waiting.pop()
            if isinstance(value, ATOMS):
                continue
            is_module = value.__class__ is types.ModuleType
            key = (id(value), names) if is_module else id(value)
            if key in seen:
                continue
            seen.add(key)
            helper = python_function(value)
            if helper is not None:
                if helper is not value:
                    self.others.append((value, names))
                    if id(helper) in seen:
                        continue
                    seen.add(id(helper))
                self.functions.append(helper)
                used = names_of(helper.__code__)
                waiting += [(part, used) for part in referents(helper)]
                continue
            self.others.append((value, names))
            if is_module:
                waiting += [(part, names) for part in helpers_of(value, names).values()]
                continue
            parts = [*functions_in(value), *small(value)]
            if isinstance(value, type):
                parts += [part for cls in users_classes(value) for part in members_of(cls).values()]
            elif users_classes(type(value)):
                parts += [type(value), *fields_of(value).values()]
            waiting += [(part, None) for part in parts]

    def needs(self, known) -> bool:
        """Whether something of it is replaced."""
        for function in self.functions:
            if imports(function.__code__) or not names_of(function.__code__).isdisjoint(known.builtins):
                return True
        for value, names in self.others:
            if known.stand_in(value) is not None or python_function(value) is not None:
                return True
            if type(value) is np.vectorize:
                return True
            if value.__class__ is types.ModuleType:
                replaced, _ = known.modules.get(id(value), (frozenset(), None))
                if replaced and (names is None or not replaced.isdisjoint(names)):
                    return True
        return False


@functools.lru_cache(maxsize=10_000)
def imports(code: types.CodeType) -> bool:
    """Whether code imports something when it runs."""
    inner = (c for c in code.co_consts if isinstance(c, types.CodeType))
    return IMPORT_NAME in code.co_code[::2] or any(map(imports, inner))


@functools.lru_cache(maxsize=10_000)
def globals_assigned(code: types.CodeType) -> tuple[str, ...]:
    """Return the names of the globals that code assigns to."""
    found = {i.argval for i in dis.get_instructions(code) if i.opname in ("STORE_GLOBAL", "DELETE_GLOBAL")}
    return tuple(found.union(*(globals_assigned(c) for c in code.co_consts if isinstance(c, types.CodeType))))


@functools.lru_cache(maxsize=10_000)
def assigns_attributes(code: types.CodeType) -> bool:
    """Whether code may assign to attributes of itself, a function of that name."""
    names = (*code.co_names, *code.co_freevars)
    return code.co_name in names and any(i.opname == "STORE_ATTR" for i in dis.get_instructions(code))


def helpers_of(module: types.ModuleType, names) -> dict:
    """Return what of a user's module code may use: functions, classes, objects, modules."""
    if names is None or not ownership.is_users_module(module):
        return {}
    found = vars(module)
    return {n: found[n] for n in names if n in found and not isinstance(found[n], ATOMS)}
