"""What the user's code refers to: names, helpers, classes, objects.

`numbatape.usercode.bytecode` tells what a single piece of code does (names, writes, imports),
`numbatape.capture.holders` what containers and wrappers hold, `numbatape.usercode.ownership` whether code
is the user's.
"""

from __future__ import annotations

import contextlib
import enum
import types

import numpy as np

from ..usercode import ownership
from ..usercode.bytecode import imports, names_of, passed_on
from ..usercode.ownership import is_users_class, is_users_function
from .captured import NUMBERS
from .environment import contents, module_of
from .holders import HOLDERS, container_of, parts_of

ATOMS = (
    *NUMBERS,
    type(None),
    types.CodeType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
)
DYNAMIC = frozenset(("eval", "exec", "globals", "__dict__"))  # code may use names that it does not show
MARK = "__numbatape_scope__"  # a name in the globals of copies
LENT = (BaseException, enum.Enum)
_EXACT = frozenset((int, float, complex, str, bytes, bool, type(None)))
_OF_CLASSES = frozenset(("__dict__", "__weakref__", "__class__", "__annotations__", "__dataclass_fields__"))


def is_atom(value) -> bool:
    """Whether a value refers to nothing else."""
    return type(value) in _EXACT or (isinstance(value, ATOMS) and not isinstance(value, enum.Enum))


def python_function(value) -> types.FunctionType | None:
    """Return the user's Python function behind a value: itself, or a Numba dispatcher's.

    A library's function with a user's function in its closure (from a decorator) counts, too.
    """
    if type(value) is not types.FunctionType:
        if not module_of(value).startswith("numba."):
            return None
        value = getattr(value, "py_func", None)
        if type(value) is not types.FunctionType:
            return None
    if MARK in value.__globals__:
        return None  # it is a copy, or a copy has made it
    if is_users_function(value):
        return value
    return value if any(map(_is_users_function, contents(value))) else None


def _is_users_function(value) -> bool:
    return type(value) is types.FunctionType and MARK not in value.__globals__ and is_users_function(value)


@ownership.decided
def users_classes(cls: type) -> tuple[type, ...]:
    """Return the user's own classes among a class and its bases, in the order of lookup.

    There are none where an object can have no stand-in (`lent_classes`).
    """
    if issubclass(cls, (*LENT, type)):
        return ()
    return tuple(base for base in cls.__mro__ if is_users_class(base))


@ownership.decided
def lent_classes(cls: type) -> tuple[type, ...]:
    """Return the user's own classes among a class and its bases where an object can have no stand-in.

    Exceptions are caught, and members of enumerations compared, by class: `numbatape.capture.lending`.
    """
    return tuple(base for base in cls.__mro__ if is_users_class(base)) if issubclass(cls, LENT) else ()


@ownership.decided
def users_metaclasses(cls: type) -> tuple[type, ...]:
    """Return the user's own classes among the metaclass of a class and its bases."""
    return tuple(base for base in type(cls).__mro__ if is_users_class(base))


def members_of(cls: type) -> dict[str, object]:
    """Return the members that a user's class itself defines: functions in wrappers, and other values."""
    return {k: v for k, v in vars(cls).items() if k not in _OF_CLASSES and not is_atom(v)}


def slots_of(cls: type) -> dict[str, object]:
    """Return the slots of a class and its bases, by name."""
    found: dict[str, object] = {}
    for base in cls.__mro__:
        for name, member in vars(base).items():
            if type(member) is types.MemberDescriptorType:
                found.setdefault(name, member)
    return found


def fields_of(value) -> dict[str, object]:
    """Return the attributes of a user's object that refer to other values."""
    fields = getattr(value, "__dict__", None)
    found = dict(fields) if type(fields) is dict else {}
    for name, slot in slots_of(type(value)).items():
        with contextlib.suppress(AttributeError):  # a slot without a value
            found[name] = slot.__get__(value)  # type: ignore[attr-defined]
    return {k: v for k, v in found.items() if not is_atom(v)}


def contents_of(value) -> tuple:
    """Return the contents of an object whose class derives from a container."""
    kind = container_of(value)
    return () if kind is None else HOLDERS[kind].parts(value)


def used_globals(function: types.FunctionType):
    """Yield ``(name, attributes)`` of the globals and builtins that a function may use.

    The attributes are those that its code may read from the global; None for any, where the code passes it
    on.
    """
    names, handed_on = names_of(function.__code__), passed_on(function.__code__)
    if not names.isdisjoint(DYNAMIC):
        for name in names.union(function.__globals__):
            yield name, None
    else:
        for name in names:
            yield name, None if name in handed_on else names


def _referents(function: types.FunctionType):
    """Yield ``(value, names)`` of what a function refers to: globals, cells, defaults, attributes.

    The names are the attributes that its code reads; None for values that it may pass on to other code.
    """
    if is_users_function(function):
        scope = function.__globals__
        for name, asked in used_globals(function):
            if name in scope:
                yield scope[name], asked
        for value in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
            yield value, None
    for value in contents(function):
        yield value, None
    for value in vars(function).values():
        yield value, None


def _behind(value, names):
    """Yield ``(value, names)`` of what a value other than a function refers to."""
    if type(value) is types.ModuleType:
        for part in helpers_of(value, names).values():
            yield part, names
        return
    parts = [*parts_of(value)]
    if isinstance(value, type):
        for cls in (*users_classes(value), *lent_classes(value), *users_metaclasses(value)):
            parts += members_of(cls).values()
    elif users_classes(type(value)) or lent_classes(type(value)):
        parts += [type(value), *fields_of(value).values(), *contents_of(value)]
    for part in parts:
        yield part, None


class Reach:
    """Everything of the user that some values refer to, directly or indirectly.

    Attributes
    ----------
    functions
        The user's functions.
    others
        ``(value, names)`` of other values: the names are the attributes that code reads from the value,
        None where it may read any.
    """

    def __init__(self, *values):
        self.functions: list[types.FunctionType] = []
        self.others: list[tuple] = []
        seen: set = set()
        waiting = [(value, None) for value in values]
        while waiting:
            value, names = waiting.pop()
            if is_atom(value):
                continue
            key = (id(value), names) if type(value) is types.ModuleType else id(value)
            if key in seen:
                continue
            seen.add(key)
            helper = python_function(value)
            if helper is None:
                self.others.append((value, names))
                waiting += _behind(value, names)
                continue
            if helper is not value:
                self.others.append((value, names))
                if id(helper) in seen:
                    continue
                seen.add(id(helper))
            self.functions.append(helper)
            waiting += _referents(helper)

    def needs(self, known) -> bool:
        """Whether a table has a stand-in for any of these values."""
        for function in self.functions:
            if imports(function.__code__) or not names_of(function.__code__).isdisjoint(known.builtins):
                return True
        for value, names in self.others:
            if known.stand_in(value) is not None or python_function(value) is not None:
                return True
            if type(value) is np.vectorize:
                return True
            if type(value) is types.ModuleType:
                replaced, _ = known.modules.get(id(value), (frozenset(), None))
                if replaced and (names is None or not replaced.isdisjoint(names)):
                    return True
        return False


def helpers_of(module: types.ModuleType, names) -> dict:
    """Return the members of a user's module that code may use: functions, classes, objects, modules."""
    if not ownership.is_users_module(module):
        return {}
    found = vars(module)
    wanted = found if names is None else names
    return {n: found[n] for n in wanted if n in found and not is_atom(found[n])}
