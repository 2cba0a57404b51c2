"""Which of a class and its bases are the user's, and whether its objects can have stand-ins."""

from __future__ import annotations

import enum

from .ownership import decided, is_users_class

# Exceptions are caught, and members of enumerations compared, by class: another class cannot stand in.
LENT = (BaseException, enum.Enum)


@decided
def users_classes(cls: type) -> tuple[type, ...]:
    """Return the user's own classes among a class and its bases, in the order of lookup.

    There are none where an object can have no stand-in (`lent_classes`).
    """
    if issubclass(cls, (*LENT, type)):
        return ()
    return tuple(base for base in cls.__mro__ if is_users_class(base))


@decided
def lent_classes(cls: type) -> tuple[type, ...]:
    """Return the user's own classes among a class and its bases where an object can have no stand-in.

    Their members are lent instead, see `numbatape.capture.lending`.
    """
    return tuple(base for base in cls.__mro__ if is_users_class(base)) if issubclass(cls, LENT) else ()


@decided
def users_metaclasses(cls: type) -> tuple[type, ...]:
    """Return the user's own classes among the metaclass of a class and its bases."""
    return tuple(base for base in type(cls).__mro__ if is_users_class(base))


@decided
def is_users_object_class(cls: type) -> bool:
    """Whether objects of a class are the user's: the class, or one of its bases, is the user's own."""
    return not issubclass(cls, type) and any(is_users_class(base) for base in cls.__mro__)
