"""Variables whose values differ from call to call: a tape takes them as inputs, as if they were arguments.

A number or an array that a function captures is a literal on its tape, so another value needs another trace:
a millisecond, where a call takes microseconds. In a loop over batches
(``nt.grad(lambda w: loss(w, batch))``) each call has another one. A variable of a closure, a global or an
attribute that has changed twice is *moving*: its value is passed to the tape by keyword, as a constant, and
while the function is traced its copy (`numbatape.stand_ins.copies`) has a traced value under that name.
Numbers that never change stay literals, of which passes can make more.
"""

from __future__ import annotations

import types
from collections import Counter
from collections.abc import Callable, Iterable

import numpy as np

CHANGES = 2  # how often a variable has changed when it becomes an input
MOST_ENTRIES = 64  # a longer list or dictionary is data of another kind: each entry would be an input
_NUMBERS = frozenset((float, int, complex, np.float64))
# Each value of these has a trace of its own, as it has for an argument.
_OPTIONS = frozenset((bool, str, type(None)))
_CONTAINERS = frozenset((tuple, list, dict))


class MovingName(str):
    """The keyword by which a tape gets the value of a moving variable.

    Parameters
    ----------
    name
        The name of the variable; the key of an item.
    holder
        What has the value: the cell of a closure, the dictionary of globals or attributes, the function with
        the default, or the dictionary or list with the item.

    Attributes
    ----------
    key
        What tells the variable from others.
    label
        What messages call it.
    """

    __slots__ = ("holder", "key", "label", "name")

    def __new__(cls, name: str | int, holder: types.CellType | dict | list | types.FunctionType):
        key = key_of(name, holder)
        self = super().__new__(cls, f"{name} {key[0]}")  # two closures may have variables of one name
        self.name, self.holder, self.key, self.label = name, holder, key, f"variable `{name}`"
        return self

    def read(self):
        """Return the value that the variable has now; raise if it has none. (Defaults do not change.)"""
        holder = self.holder
        return holder.cell_contents if type(holder) is types.CellType else holder[self.name]

    def assign(self, value) -> None:
        """Give the variable another value."""
        if type(self.holder) is types.CellType:
            self.holder.cell_contents = value
        else:
            self.holder[self.name] = value

    @property
    def may_change(self) -> bool:
        """Whether something may be assigned to it: not to the default of an argument."""
        return type(self.holder) is not types.FunctionType

    @property
    def keys(self) -> frozenset[str] | None:
        """The keys of the variable in its holder; None for a cell, which has nothing else."""
        return None if type(self.holder) is types.CellType else frozenset((self.name,))


class Moving:
    """The moving variables of a function, as calls of verbs have found them.

    Attributes
    ----------
    names
        The moving variables; none at first.
    is_refused
        Whether the function cannot be traced with inputs in the place of variables.
    undo
        Undoes what the present call's trace of the function has done; None if there is none.
    """

    __slots__ = ("_counts", "is_refused", "names", "undo")

    def __init__(self):
        self.names: tuple[MovingName, ...] = ()
        self.is_refused = False
        self.undo: Callable[[], None] | None = None
        self._counts: Counter[tuple[int, str]] = Counter()

    def note(self, found: dict[tuple[int, str], MovingName]) -> None:
        """Note variables that have other values than those that a function's traces were made with."""
        self._counts.update(found.keys())
        known = {name.key for name in self.names}
        new = [key for key in found if self._counts[key] >= CHANGES and key not in known]
        self.names += tuple([found[key] for key in new])

    def forget(self) -> None:
        """Forget which variables have changed."""
        self.names, self.is_refused = (), False
        self._counts.clear()

    def refuse(self) -> None:
        """Note that the function cannot be traced with inputs in the place of variables."""
        self.is_refused, self.names = True, ()

    def set_back(self, values: dict[MovingName, object]) -> None:
        """Undo what a call that fails has done to what the function refers to; it began with these values."""
        if self.undo is not None:
            self.undo()
        for name, value in values.items():
            name.assign(value)

    def keywords(self) -> dict[MovingName, object] | None:
        """Return the values that the variables have now; None if one of them cannot be an input."""
        try:
            found = {name: name.read() for name in self.names}
        except (LookupError, ValueError):  # a variable that was deleted: the function itself raises
            return None
        return found if all(map(can_move, found.values())) else None


def can_move(value) -> bool:
    """Whether a value may be the input of a tape: a number, an array, an option, or a container of them."""
    kind = type(value)
    if kind in _NUMBERS or kind in _OPTIONS:
        return True
    if kind is np.ndarray or issubclass(kind, np.generic):
        return value.dtype.kind in "fiubc"
    if kind in _CONTAINERS and len(value) <= MOST_ENTRIES:
        return all(map(can_move, value.values() if kind is dict else value))
    return False


def key_of(name: str, holder) -> tuple[int, str]:
    """Return what tells a variable from others, given its name and the cell or dictionary that has it."""
    return id(holder), "" if type(holder) is types.CellType else name


def moving_names(keywords: Iterable[str]) -> tuple[MovingName, ...]:
    """Return the moving variables among keywords."""
    return tuple([name for name in keywords if type(name) is MovingName])


def without(written, moving: Iterable[MovingName]) -> list[tuple]:
    """Return places that calls need not compare (`Effects.places`), moving variables among them."""
    found = {id(container): (container, keys) for container, keys in written}
    for name in moving:
        holder = name.holder
        _, keys = found.get(id(holder), (holder, frozenset()))
        every = keys is None or name.keys is None
        found[id(holder)] = holder, None if every else keys | name.keys
    return [*found.values()]
