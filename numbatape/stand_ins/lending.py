"""Members of classes that can have no stand-ins, lent for the duration of a trace.

Exceptions are caught, and members of enumerations compared, by the class itself. So the class stays in use,
and its members are replaced by switches: code of the trace that runs in this thread gets the stand-in for a
member, and all other code the member itself. The members are restored when no trace needs them any more.
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Callable

from ..capture.references import fields_of, members_of
from ..trace.trace import standing

_MISSING = object()
_lock = threading.Lock()
_lent: dict[tuple[type, str], list] = {}  # how many traces use a switch, and the former member


class Switch:
    """Returns a member of a class, or its stand-in in the trace of this thread."""

    __slots__ = ("__wrapped__",)

    def __init__(self, member):
        self.__wrapped__ = member

    def __get__(self, owner, cls=None):
        found = standing(self.__wrapped__)
        return found.__get__(owner, cls) if hasattr(type(found), "__get__") else found


class DataSwitch(Switch):
    """A switch for a property."""

    __slots__ = ()

    def __set__(self, owner, value):
        standing(self.__wrapped__).__set__(owner, value)

    def __delete__(self, owner):
        standing(self.__wrapped__).__delete__(owner)


class FieldSwitch:
    """Returns the stand-in for an attribute of an object, which is a member of an enumeration."""

    __slots__ = ("_name",)

    def __init__(self, name: str):
        self._name = name

    def __get__(self, owner, cls=None):
        try:
            return standing(vars(owner)[self._name])
        except (KeyError, TypeError):  # the class itself is asked for its descriptor, which has no value
            raise AttributeError(self._name) from None

    def __set__(self, owner, value):
        vars(owner)[self._name] = value

    def __delete__(self, owner):
        del vars(owner)[self._name]


def switch_for(member) -> Switch:
    """Return the switch for a member of a class."""
    return DataSwitch(member) if hasattr(type(member), "__set__") else Switch(member)


def lend(trace, cls: type, name: str, switch) -> None:
    """Put a switch into a class until a trace ends."""
    trace.capture.lent.append((cls, name))  # at first, because Ctrl-C may come between any two calls
    with _lock:
        entry = _lent.get((cls, name))
        if entry is None:
            entry = _lent[cls, name] = set(), vars(cls).get(name, _MISSING)
            type.__setattr__(cls, name, switch)
        entry[0].add(id(trace))


def lend_members(trace, cls: type, stand_in: Callable) -> None:
    """Lend the stand-ins for the members of a class, and for the attributes of an enumeration's members."""
    fields: dict[str, object] = {}
    if issubclass(cls, enum.Enum):
        for member in cls:
            fields |= fields_of(member)
    for name, part in fields.items():
        if stand_in(part) is not part:
            lend(trace, cls, name, FieldSwitch(name))
    for name, member in members_of(cls).items():
        of_enum = name.startswith("_") and name.endswith("_") and name[1] != "_"
        if not of_enum and stand_in(member) is not member:
            lend(trace, cls, name, switch_for(member))


def give_back(trace) -> None:
    """Restore the members that were lent to a trace, unless another trace still needs them."""
    with _lock:
        for cls, name in trace.capture.lent:
            entry = _lent.get((cls, name))
            if entry is None:
                continue
            entry[0].discard(id(trace))
            if entry[0]:
                continue
            # If the member is no switch, the function has assigned something else.
            if isinstance(vars(cls).get(name), (Switch, FieldSwitch)):
                if entry[1] is _MISSING:
                    type.__delattr__(cls, name)
                else:
                    type.__setattr__(cls, name, entry[1])
            _lent.pop((cls, name), None)
    trace.capture.lent.clear()
