"""Entries that a library writes anew in each call, with the contents that they had.

pint puts the definition of a unit into its registry whenever it reads a text like "cm^2": another object,
equal to the one before. Where nobody else holds the new object, no program can tell whether the old one has
stayed in its place. So it is put back, and the function has changed nothing.
"""

from __future__ import annotations

import sys
import types
import weakref

from ..usercode.ownership import is_users_class
from .references import is_atom, same, slots_of

_DEEPEST = 8  # how many objects inside of each other are compared
_OF_PYTHON = ("__slots__", "__dict__", "__annotations__")  # members of classes that are written in Python


def put_back(container: dict, before: dict) -> None:
    """Give a dictionary the objects again that it had, where it has got new ones that are equal.

    Parameters
    ----------
    before
        Its former items.
    """
    changed = [key for key, value in container.items() if key in before and before[key] is not value]
    for key in changed:
        # One reference is the dictionary's; the other is the argument of this call.
        held = sys.getrefcount(container[key])
        if held <= 2 and _is_library_object(container[key]) and _are_equal(container[key], before[key]):
            container[key] = before[key]


def _is_library_object(value) -> bool:
    """Whether a value is a library's own kind of object, whose end nothing notices."""
    kind = type(value)
    if is_atom(value) or kind.__module__ == "builtins" or is_users_class(kind):
        return False
    return not hasattr(kind, "__del__") and not weakref.getweakrefcount(value)


def _are_equal(now, before, depth: int = _DEEPEST) -> bool:
    """Whether two values have the same class and the same contents."""
    if same(now, before):
        return True
    if type(now) is not type(before) or is_atom(now) or not depth:
        return False
    parts, others = _parts(now), _parts(before)
    return (
        parts is not None
        and others is not None
        and len(parts) == len(others)
        and all(_are_equal(*pair, depth - 1) for pair in zip(parts, others, strict=True))
    )


def _parts(value) -> list | None:
    """Return all that makes up a value; None where that cannot be seen, as in objects of compiled classes."""
    parts: list = []
    for base in type(value).__mro__:
        if base in (tuple, list):
            parts += value
        elif base is dict:
            parts += [part for item in value.items() for part in item]
        elif base is not object and not _is_of_python(base):
            return None
    fields = getattr(value, "__dict__", {})
    parts += [part for item in fields.items() for part in item]
    for name in slots_of(type(value)):
        parts += [name, getattr(value, name)] if hasattr(value, name) else []
    return parts


def _is_of_python(cls: type) -> bool:
    members = vars(cls)
    written = any(name in members for name in _OF_PYTHON)
    return written or any(type(member) is types.FunctionType for member in members.values())
