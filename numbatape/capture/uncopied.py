"""Which functions and objects of the user's a trace leaves as they are, with the variables that they read.

A variable that is an input of the tape (`numbatape.capture.moving_names`) has a traced value in the copies
of functions (`numbatape.stand_ins.copies`). Functions that run as they are read its present value, which
would be a literal on the tape: those that objects of libraries hold, members of enumerations, and so on.
"""

from __future__ import annotations

import contextvars
import gc
import types
import weakref
from collections.abc import Iterable

from ..usercode.bytecode import names_of
from ..usercode.ownership import is_users_class, is_users_function, is_users_object_class
from .environment import Environment
from .holders import Wrapper
from .moving_names import MovingName
from .references import NUMBERS, Reference

_MOST = 10_000  # an object that leads to more than so many others may lead to anything
_ANYTHING = object()
# What is not followed: the walk over what a function refers to knows what these refer to.
_LEAVES = (type, types.FunctionType, types.ModuleType, types.BuiltinFunctionType, types.CodeType)


class Routes(Environment):
    """What some values refer to, and what each value there refers to itself.

    Attributes
    ----------
    parts
        The values that a value refers to, by its id.
    by_class
        Classes of the user's of which a number or a text is, that has no stand-in.
    """

    def __init__(self, values: list):
        self.parts: dict[int, list] = {}
        self.by_class: list[type] = []
        super().__init__(values)

    def holders_of(self, value) -> list[int]:
        """Return the ids of what refers to a value."""
        return [key for key, parts in self.parts.items() if any(part is value for part in parts)]

    def _followed(self, value, found: list[Reference]) -> list[Reference]:
        found = super()._followed(value, found)
        self.parts[id(value)] = [part.value for part in found]
        kinds = {type(part.value) for part in found if issubclass(type(part.value), NUMBERS)}
        self.by_class += filter(is_users_object_class, kinds)
        return found


def read_as_they_are(environment: Environment, copies, names: Iterable[MovingName]) -> list[MovingName]:
    """Return those of some variables that code may read which has run without being copied.

    Parameters
    ----------
    environment
        What the function refers to.
    copies
        The copies that its trace has made.
    """
    routes = Routes(environment.reached)
    held: list = [*routes.by_class]
    for value in routes.reached[1:]:  # the first one is the list of all
        if not isinstance(value, Wrapper) and _stays(value, copies):
            held += (*routes.parts[id(value)], *_referents(value))
    routes.add(held)
    found = _all(held, routes.parts)
    return [name for name in names if any(_reads(value, name) for value in found)]


def _stays(value, copies) -> bool:
    """Whether a value has no stand-in, or one that may ask it: that of a law does, about plain numbers."""
    return copies.value(value) is value or copies.known.stand_in(value) is not None


def _all(held: list, parts: dict[int, list]) -> list:
    """Return some values, and what they lead to."""
    found: dict[int, object] = {}
    waiting = [*held]
    while waiting:
        value = waiting.pop()
        if id(value) not in found:
            found[id(value)] = value
            waiting += parts.get(id(value), ())
    return [*found.values()]


def _reads(value, name: MovingName) -> bool:
    """Whether a value is a function that reads a variable, or what has it."""
    if value is name.holder or getattr(value, "__dict__", None) is name.holder or value is _ANYTHING:
        return True
    if type(value) is not types.FunctionType or not is_users_function(value):
        return False
    if type(name.holder) is types.CellType:
        return any(cell is name.holder for cell in value.__closure__ or ())
    return name.name in names_of(value.__code__)


def _referents(value) -> list:
    """Return functions, classes and objects of the user's to which an object of a library leads."""
    if _is_leaf(value):
        return []
    found: list = []
    if isinstance(value, weakref.ReferenceType):
        found.append(value())
    elif isinstance(value, weakref.finalize):
        found.append(value.peek())
    elif isinstance(value, contextvars.ContextVar):
        found.append(value.get(None))
    seen, waiting = {id(value)}, [value]
    while waiting:
        for part in gc.get_referents(waiting.pop()):
            if id(part) in seen:
                continue
            seen.add(id(part))
            if _is_users(part):
                found.append(part)
            elif not _is_leaf(part):
                waiting.append(part)
        if len(seen) > _MOST:
            return [_ANYTHING]
    return found


def _is_leaf(value) -> bool:
    """Whether a value is not followed; a traced one that the function has kept leads to the whole trace."""
    return isinstance(value, _LEAVES) or type(value).__module__.startswith("numbatape.trace")


def _is_users(value) -> bool:
    if type(value) is types.FunctionType:
        return is_users_function(value)
    return is_users_class(value) if isinstance(value, type) else is_users_object_class(type(value))
