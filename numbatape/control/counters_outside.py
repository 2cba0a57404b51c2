"""What a body may count, or write down, for the caller of the function that is traced.

A list from outside that a body appends to, or a number of calls, tells the caller how often the body ran:
once for each trace, where Python runs it in each step. It is harmless as long as nothing that is computed
depends on it. So the object has to be older than the call, and no code that the traced function runs may
read it by any of its names, but the body's own (of which another run has shown that it records the same).
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..capture.environment import Environment
from ..usercode.bytecode import LOOKUPS, names_of, names_read

NOTHING = object()  # stands for the value of an entry that did not exist


@dataclass
class Change:
    """A variable, an attribute, an entry, or a container, that a body has changed.

    Attributes
    ----------
    name
        What messages call it.
    holder
        The container, dictionary, cell or object that has it.
    key
        The name by which code reads it; None where code reads it by the names of the holder.
    get
        Returns the new value; None where it is not a value that was assigned.
    undo
        Sets it back; None where that is not possible.
    """

    name: str
    holder: Any
    key: str | None = None
    get: Callable[[], Any] | None = None
    undo: Callable[[], Any] | None = None

    @classmethod
    def of_entry(cls, name: str, container, key, before, attribute: str | None = None) -> Change:
        if before is NOTHING:
            undo = partial(container.pop, key)
        else:
            undo = partial(container.__setitem__, key, before)
        return cls(name, container, attribute, partial(container.__getitem__, key), undo)


def is_for_the_caller(change: Change, environment: Environment | None, bodies: Iterable[Environment]) -> bool:
    """Whether nothing but the body reads what it has changed, and the caller has made it.

    Parameters
    ----------
    environment
        What the traced function refers to.
    bodies
        What the functions of the body refer to.
    """
    if environment is None or change.undo is None or not _is_older(change.holder, environment):
        return False
    names = {change.key}
    if change.key is None:
        names = {name for its in (environment, *bodies) for name in _names_of(change.holder, its)}
    own = {code for its in bodies for code in its.running()}
    return (
        bool(names)
        and None not in names
        and not any(
            not names.isdisjoint(names_read(code, own)) or not LOOKUPS.isdisjoint(names_of(code))
            for code in environment.running()
            if code not in own
        )
    )


def _names_of(holder, environment: Environment) -> Iterator[str | None]:
    """Yield the names by which code reads an object; None where another container has it."""
    for _, name, value in environment.names():
        if value is holder:
            yield name
    fields = {id(vars(x)) for x in environment.reached() if hasattr(x, "__dict__")}
    for mapping, items in environment.dictionaries().values():
        for name, value in items.items():
            if value is holder:
                yield name if id(mapping) in fields else None


def _is_older(holder, environment: Environment) -> bool:
    """Whether the traced function reaches an object from outside, so that it is older than the call."""
    if type(holder) is types.CellType:
        return any(cell is holder for cell, _, _ in environment.variables())
    if isinstance(holder, dict) and "__builtins__" in holder:
        return True  # global variables, of a copy of the function perhaps
    return id(holder) in environment.dictionaries() or any(x is holder for x in environment.reached())
