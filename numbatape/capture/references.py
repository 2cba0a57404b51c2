"""What a value refers to: the one place that knows where references are found.

A function refers to the contents of its closure, to globals that its code names, to defaults and attributes;
an object of the user's class to its class and attributes; containers and wrappers to their parts. All walks
follow these references: `Environment` notes how they can change, `Reach` finds what needs stand-ins, and
`numbatape.stand_ins.opened` looks for traced values. They differ in what they do with a reference, and
in which ones they follow.
"""

from __future__ import annotations

import collections
import contextlib
import enum
import functools
import sys
import types
import typing
import weakref
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..trace.pytrees import NAMESPACE, library
from ..usercode import ownership
from ..usercode.bytecode import DYNAMIC, LOOKUPS, globals_used, names_of, passed_on, texts_of
from ..usercode.ownership import (
    is_users_function,
    is_users_object_class,
    lent_classes,
    users_classes,
    users_metaclasses,
)
from .holders import parts_of

SEQUENCES = (list, tuple, collections.deque)
NUMBERS = (int, float, complex, str, bytes, bool, np.generic)
ATOMS = (
    *NUMBERS,
    type(None),
    type(Ellipsis),
    types.CodeType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    type(typing.Optional),  # what annotations are made of
    np.dtype,
)
# Values of exactly these classes are atoms, which is decided faster than by `isinstance`.
_EXACT = frozenset((int, float, complex, str, bytes, bool, type(None), np.float64))
# Exact classes of most values that do refer to others, which the slower test of `is_atom` would find, too.
_NO_ATOMS = frozenset((types.FunctionType, types.ModuleType, type, dict, list, tuple, property, staticmethod))
_NO_CONTAINERS = (int, float, complex, str, bytes, type(None))
_EQUAL_BY_CONTENT = frozenset((int, str, bytes, bool, type(None)))
_EQUAL_BY_NUMBER = ("decimal", "datetime")  # 1.0 and 1.00 are equal decimals, noon here and there equal times
# Numbers of these modules that differ have different texts.
_EXACT_TEXTS = ("builtins", "numpy", *_EQUAL_BY_NUMBER)
# Attributes of classes that say nothing about what its methods compute.
# The attribute of a stand-in for a class that has the originals of its objects, by the ids of these.
OWN_OBJECTS = "__numbatape_objects__"
_OF_CLASSES = frozenset(
    (
        *("__dict__", "__weakref__", "__class__", "__annotations__", "__annotate__", "__annotate_func__"),
        *("__dataclass_fields__", "__dataclass_params__", "__match_args__", "__slots__", "__parameters__"),
        "__slotnames__",  # written by the first copy of an object with slots
        *("__orig_bases__", "__abstractmethods__", "_abc_impl", "__firstlineno__", "__static_attributes__"),
        OWN_OBJECTS,
    )
)

CELL, GLOBAL, DEFAULT, ATTRIBUTE = "cell", "global", "default", "attribute"
CLASS, MEMBER, FIELDS, SLOT, PART = "class", "member", "fields", "slot", "part"


class Reference(NamedTuple):
    """A reference from one value to another.

    Attributes
    ----------
    value
        What is referred to.
    kind
        CELL, of a closure; GLOBAL, of a function or a module; DEFAULT, the attribute of a function that holds
        defaults of its parameters; ATTRIBUTE, of a function; MEMBER, of a class; CLASS or metaclass; FIELDS,
        the dictionary of an object's attributes; SLOT, an attribute of an object outside of that dictionary;
        PART, of a container or wrapper.
    place
        Where the reference is: a cell; the dictionary of globals, attributes or members; the owner of a
        default or a slot; None for the rest.
    name
        The name in that place, or of the variable in the cell.
    code
        The code that uses the name; None if no code does.
    """

    value: Any
    kind: str = PART
    place: Any = None
    name: str = ""
    code: types.CodeType | None = None

    @property
    def asked(self) -> frozenset[str] | None:
        """The attributes that code reads off the value (a module); None if it may read any."""
        if self.code is None or self.name in passed_on(self.code):
            return None
        names = names_of(self.code)
        return names if names.isdisjoint(DYNAMIC) and names.isdisjoint(LOOKUPS) else None


def is_atom(value) -> bool:
    """Whether a value refers to nothing else."""
    if type(value) in _NO_ATOMS:
        return False
    if type(value) in _EXACT or is_dead_proxy(value):
        return True
    return isinstance(value, ATOMS) and not isinstance(value, enum.Enum)


def is_dead_proxy(value) -> bool:
    """Whether a value is a weak proxy whose object is gone, of which even ``isinstance`` raises."""
    if type(value) in weakref.ProxyTypes:
        try:
            value.__class__  # noqa: B018 (reading it is the test)
        except ReferenceError:
            return True
    return False


def items_of(container) -> Iterable[tuple]:
    """Return the items of a dictionary, or a list's entries by their places and their number by -1."""
    return enumerate((len(container), *container), -1) if type(container) is list else container.items()


def same(now, before) -> bool:
    """Whether two values are the same object, or the same number or text."""
    return now is before or (
        type(now) is type(before)
        and isinstance(before, NUMBERS)
        and repr(now) == repr(before)
        and not is_users_object_class(type(before))  # objects of users' classes may have attributes
    )


def exact_key(value) -> Hashable:
    """Return a key that differs for hashable values between which a function may distinguish.

    Python's own equality does not: 1, 1.0 and True are equal, and so are 0.0 and -0.0, tuples of them,
    dictionaries in any order of their keys, and ranges that end at 3 or at 4. Values of classes that the user
    has written are told apart by these classes' own equality, and mappings among them by their items as well.
    """
    cls = type(value)
    if cls in _EQUAL_BY_CONTENT:
        return cls, value
    if isinstance(value, NUMBERS) or cls.__module__ in _EQUAL_BY_NUMBER:
        # A user's number may show itself with few digits.
        return (cls, repr(value)) if cls.__module__ in _EXACT_TEXTS else (cls, value, repr(value))
    if isinstance(value, tuple):
        return cls, value, tuple(map(exact_key, value))
    if isinstance(value, frozenset):
        return cls, value, frozenset(map(exact_key, value))
    if cls is range:
        return cls, value.start, value.stop, value.step
    if isinstance(value, Mapping):
        return cls, value, tuple((exact_key(key), key_of(part)) for key, part in value.items())
    fields = getattr(cls, "__dataclass_fields__", None)
    if fields is None or cls.__hash__ is object.__hash__:
        return cls, value
    hashed = (
        field.name for field in fields.values() if (field.compare if field.hash is None else field.hash)
    )
    return cls, value, tuple(exact_key(getattr(value, name, None)) for name in hashed)


def key_of(value) -> Hashable:
    """Return what tells a value from others: its `exact_key` if it has a hash, else its identity."""
    try:
        hash(value)
    except TypeError:
        return type(value), id(value)
    return exact_key(value)


def key_orders(tree) -> tuple:
    """Return the keys of a tree's dictionaries in their order; empty if there are none.

    Structures of optree are equal whatever the order, and for keys that are equal.
    """
    if isinstance(tree, dict):
        return tuple((exact_key(key), key_orders(part)) for key, part in tree.items())
    if isinstance(tree, (list, tuple)):
        children = tree
    elif isinstance(tree, _NO_CONTAINERS) or hasattr(tree, "ndim") or "optree" not in sys.modules:
        return ()  # optree is imported for the first container that Python's own classes are not
    else:
        try:
            one_level = library().tree_flatten_one_level
            children = one_level(tree, none_is_leaf=True, namespace=NAMESPACE)[0]
        except ValueError:  # a leaf of another class
            return ()
    parts = tuple(map(key_orders, children))
    return parts if any(parts) else ()


def atoms_only(values) -> bool:
    """Whether all values are plain numbers or text; a fast test for long containers of data."""
    return _EXACT.issuperset(map(type, values))


class Walk(ABC):
    """A walk over everything that some values refer to, directly or indirectly.

    Attributes
    ----------
    seen
        The values that were visited, kept alive so that no other object gets their ids.
    """

    def __init__(self):
        self.seen: dict[object, object] = {}

    def walk(self, *roots: Reference) -> None:
        """Visit what the roots lead to: each value once, and atoms never.

        A module is visited once for each set of names that code reads off it.
        """
        waiting = [*roots]
        while waiting:
            reference = waiting.pop()
            value = reference.value
            if id(value) in self.seen or is_atom(value):
                continue
            key = (id(value), reference.asked) if isinstance(value, types.ModuleType) else id(value)
            if key not in self.seen:
                self.seen[key] = value
                waiting.extend(self.visit(reference))

    @abstractmethod
    def visit(self, reference: Reference) -> Iterable[Reference]:
        """Note a value that a reference leads to; return the value's own references to be followed."""


def references(value) -> list[Reference]:
    """Return what a value refers to; of a library's object, only what it holds as a container or wrapper.

    What a module refers to depends on the code that uses it, see `of_module`.
    """
    parts = parts_of(value)
    found = [] if atoms_only(parts) else [*map(Reference, parts)]
    if type(value) is types.FunctionType:
        found += of_function(value)
    elif isinstance(value, type):
        found += of_class(value)
    elif is_users_object_class(type(value)):
        found += of_object(value)
    return found


def contents(function: types.FunctionType) -> Iterator[tuple[str, types.CellType, Any]]:
    """Yield the name, the cell and the value of each variable in a function's closure."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # an empty cell, which is filled later
            yield name, cell, cell.cell_contents


def of_function(function: types.FunctionType) -> list[Reference]:
    """Return what a function refers to; of a library's function, no globals."""
    code = function.__code__
    found = [Reference(value, CELL, cell, name, code) for name, cell, value in contents(function)]
    if function.__defaults__:
        found.append(Reference(function.__defaults__, DEFAULT, function, "__defaults__"))
    if function.__kwdefaults__:
        found.append(Reference(function.__kwdefaults__, DEFAULT, function, "__kwdefaults__"))
    attributes = function.__dict__
    # What `functools.wraps` copied from a function that Numba has compiled is that one's state.
    compiled = attributes.get("__wrapped__") if "py_func" in attributes else None
    copied = getattr(compiled, "__dict__", {})
    for name, value in attributes.items():
        if is_users_attribute(name) and (name not in copied or copied[name] is not value):
            found.append(Reference(value, ATTRIBUTE, attributes, name))
    if is_users_function(function):
        found += _bound(function.__globals__, globals_used(code), code)
    return found


def of_module(module: types.ModuleType, names, code: types.CodeType | None) -> list[Reference]:
    """Return what a user's module has of some names; for None, all that is not Python's own.

    Parameters
    ----------
    names
        The names that code reads off the module.
    code
        That code.
    """
    if not ownership.is_users_module(module):
        return []
    scope = vars(module)
    if names is None:
        names = [name for name in scope if not is_special(name) or name == "__getattr__"]
    return _bound(scope, names, code)


def _bound(scope: dict, names, code) -> list[Reference]:
    return [Reference(scope[name], GLOBAL, scope, name, code) for name in names if name in scope]


def looked_up(code: types.CodeType, scope: dict) -> list[str]:
    """Return the names of the user's modules that code may look up in ``sys.modules``."""
    if "modules" not in names_of(code):
        return []
    names = [*texts_of(code), *([scope.get("__name__")] if "__name__" in names_of(code) else [])]
    return [name for name in names if name in sys.modules and ownership.is_users_module(sys.modules[name])]


def of_class(cls: type) -> list[Reference]:
    """Return what a class refers to: members of the user's classes among its bases, and its metaclass."""
    meta = users_metaclasses(cls)
    found = [Reference(type(cls), CLASS)] if meta else []
    for base in (*users_classes(cls), *lent_classes(cls), *meta):
        members = vars(base)
        found += [Reference(part, MEMBER, members, name) for name, part in members_of(base).items()]
    return found


def of_object(value) -> list[Reference]:
    """Return what an object of a user's class refers to."""
    found = [Reference(type(value), CLASS)]
    fields = getattr(value, "__dict__", None)
    if isinstance(fields, dict):
        found.append(Reference(fields, FIELDS))
    owner = behind(value)
    for name, slot in slots_of(type(owner)).items():
        with contextlib.suppress(AttributeError):  # a slot without a value
            found.append(Reference(slot.__get__(owner), SLOT, owner, name))  # type: ignore[attr-defined]
    return found


def behind(value):
    """Return the object that an object stands in for, whose slots it reads; other objects as they are.

    A sub-tape and a loop's body have stand-ins of their own, for those of the trace around them.
    """
    while (own := vars(type(value)).get(OWN_OBJECTS)) is not None and id(value) in own:
        value = own[id(value)]
    return value


class Redirected(property):
    """A member of the stand-in for a class: an attribute of its objects whose value gets a stand-in, too."""


def members_of(cls: type) -> dict[str, object]:
    """Return the members that a user's class itself defines: functions, wrappers, and other values."""
    members = vars(cls).items()
    return {
        name: value for name, value in members if name not in _OF_CLASSES and type(value) is not Redirected
    }


@functools.lru_cache(maxsize=10_000)
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
    found: dict[str, object] = {}
    for reference in of_object(value):
        if reference.kind is FIELDS:
            found |= reference.value
        elif reference.kind is SLOT:
            found[reference.name] = reference.value
    return {name: part for name, part in found.items() if not is_atom(part)}


def is_special(name: str) -> bool:
    """Whether Python itself uses a name."""
    return name.startswith("__") and name.endswith("__")


def is_users_attribute(name: str) -> bool:
    """Whether an attribute of a function is the user's; others are Python's and numbatape's own."""
    return name == "__wrapped__" or not is_special(name)
