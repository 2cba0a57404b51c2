"""What has changed of what a function refers to: each variable, attribute, entry or container by itself.

`Captured` says whether anything has changed, in the time that a repeated call has for it. This says what, and
by which names code reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from operator import is_
from types import CodeType
from typing import Any

from ..usercode.bytecode import LOOKUPS, names_of, names_read
from .captured import Captured, is_empty, is_module, is_unset
from .environment import Environment

_VALUES = type({}.values())
NOTHING = object()  # stands for the value of an entry that did not exist


@dataclass
class Change:
    """A variable, an attribute, an entry, or a container, that has changed.

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

    def names(self, *environments: Environment) -> set[str | None]:
        """Return the names by which code reads it; None among them where another container has it."""
        if self.key is not None:
            return {self.key}
        return {name for its in environments for name in _names_of(self.holder, its)}


def differences(noted: Environment, others: Collection[int] = ()) -> Iterator[Change]:
    """Yield what has changed, but for the contents of arrays.

    Parameters
    ----------
    noted
        What a function refers to, as it was.
    others
        Ids of containers that do not count.
    """
    for iterator in noted.iterators:
        if iterator.moved():
            yield Change(str(iterator.site), iterator)
    for known in noted.classes:
        if known.changed():
            yield Change(f"the class {known.name}", known)
    for container, members in noted.sets:
        if len(container) != len(members):
            yield _refilled(noted, container, members, container.update)
    for container, entries in noted.sequences:
        if isinstance(container, (dict, _VALUES)) or id(container) in others:
            continue
        if len(container) != len(entries) or not all(map(is_, container, entries)):
            if type(container) is list and len(container) == len(entries):
                yield from _entries(noted, container, dict(enumerate(entries)), enumerate(container))
            else:
                yield _refilled(noted, container, entries, container.extend)
    for mapping, before in noted.dictionaries().values():
        yield from _entries(noted, mapping, before, mapping.items())
        if any(key not in mapping for key in before):
            yield _refilled(noted, mapping, before, mapping.update)
    yield from _variables_changed(noted)


def _refilled(noted: Environment, container, entries, fill: Callable) -> Change:
    """Return the change of a container that has other entries than before."""

    def undo():
        container.clear()
        fill(entries)

    return Change(name_of_container(noted, container), container, undo=undo)


def _entries(noted: Environment, container, before: dict, entries: Iterable) -> Iterator[Change]:
    """Yield the entries of a list or a dictionary that are other objects than before."""
    for key in [key for key, now in entries if now is not before.get(key, NOTHING)]:
        name = name_of_entry(noted, container, key)
        attribute = None if owner_of(noted, container) is None else key
        yield Change.of_entry(name, container, key, before.get(key, NOTHING), attribute)


def _variables_changed(noted: Environment) -> Iterator[Change]:
    """Yield variables, and attributes that are no entries of a dictionary."""
    for mapping, key, value in noted.bindings:
        if mapping.get(key, NOTHING) is not value:
            yield Change.of_entry(f"`{key}`", mapping, key, value, key)
    for mapping, key in noted.absent:
        if key in mapping and not is_module(mapping[key]):
            yield Change.of_entry(f"`{key}`", mapping, key, NOTHING, key)
    for cell, name, value in noted.variables():
        if is_empty(cell) or cell.cell_contents is not value:
            get = partial(getattr, cell, "cell_contents")
            undo = partial(setattr, cell, "cell_contents", value)
            yield Change(f"`{name}`", cell, name, get, undo)
    for owner, name, value in noted.attributes:
        if getattr(owner, name, NOTHING) is not value:
            get, undo = partial(getattr, owner, name), partial(setattr, owner, name, value)
            yield Change(f"`.{name}`", owner, name, get, undo)
    for slot, owner in noted.unset:
        if not is_unset(slot, owner):
            name = slot.__name__
            get, undo = partial(slot.__get__, owner), partial(slot.__delete__, owner)
            yield Change(f"`.{name}`", owner, name, get, undo)


def arrays_written(noted: Environment) -> Iterator[Change]:
    """Yield arrays that have other contents, another shape or another dtype than before."""
    for array in noted.written_arrays():
        yield Change(name_of_container(noted, array), array)


def name_of_change(noted: Environment) -> str | None:
    """Return what messages call something that has changed; None where it has no name."""
    return next((change.name for change in chain(differences(noted), arrays_written(noted))), None)


def reads(noted: Environment, change: Change) -> bool:
    """Whether the function's code may read what has changed, by its name or by another object's."""
    return may_read(change.names(noted), noted.running())


def may_read(names: set[str | None], codes: Iterable[CodeType], but: Container[CodeType] = ()) -> bool:
    """Whether any code may read something by its names (`Change.names`).

    Parameters
    ----------
    but
        Code that does not count, also where other code defines it.
    """
    return (
        not names
        or None in names
        or any(
            not names.isdisjoint(names_read(code, but)) or not LOOKUPS.isdisjoint(names_of(code))
            for code in codes
            if code not in but
        )
    )


def _names_of(holder, environment: Environment) -> Iterator[str | None]:
    """Yield the names by which code reads an object; None where another container has it."""
    for _, name, value in environment.names():
        if value is holder:
            yield name
    fields = {id(vars(x)) for x in environment.reached if hasattr(x, "__dict__")}
    for mapping, items in environment.dictionaries().values():
        for name, value in items.items():
            if value is holder:
                yield name if id(mapping) in fields else None


# ---- what messages call things


def name_of_container(noted: Captured, container) -> str:
    """Return what messages call a list, a dictionary or a set."""
    for _, name, value in noted.names():
        if value is container:
            return f"`{name}`"
    for mapping, before in noted.dictionaries().values():
        for key, value in before.items():
            if value is container and isinstance(key, str):
                return name_of_entry(noted, mapping, key)
    return f"a {type(container).__name__}"


def owner_of(noted: Captured, mapping):
    """Return the object whose attributes a dictionary holds; None if it is a dictionary like others."""
    return next((x for x in noted.reached if getattr(x, "__dict__", None) is mapping), None)


def name_of_entry(noted: Captured, mapping, key) -> str:
    """Return what messages call an entry of a container, or an attribute of the object that has it."""
    owner = owner_of(noted, mapping)
    if owner is not None:
        return f"`{type(owner).__name__}.{key}`"
    name = name_of_container(noted, mapping)
    return f"{name[:-1]}[{key!r}]`" if name.endswith("`") else f"{name}[{key!r}]"
