"""What the code of a function does with its variables, and which of them have changed.

`numbatape.capture.moving_names` is about variables that have changed often, and are inputs of a tape.
"""

from __future__ import annotations

import dataclasses
import functools
import types
from collections.abc import Container, Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from ..trace import pytrees
from ..trace.aliasing import root_of
from ..trace.array import TracedArray
from ..trace.trace import Trace
from ..usercode.bytecode import (
    DYNAMIC,
    attributes_assigned,
    identity_tests,
    makes_text,
    names_of,
    names_read,
    stored_names,
)
from ..usercode.written_only import REFLECTIVE, WrittenOnly
from .captured import is_empty
from .environment import Environment
from .moving_names import MovingName, can_move
from .references import same
from .uncopied import read_as_they_are
from .unread import BY_TEXT, former_attributes, former_items, is_plain_class, reads_unseen

# What dataclasses have of their module: what stands for a default that is made for each object, and, since
# Python 3.13, a method that `copy.replace` calls.
_OF_DATACLASSES = (
    dataclasses._HAS_DEFAULT_FACTORY,  # type: ignore[attr-defined]
    getattr(dataclasses, "_replace", None),
)
# Names by which code reads variables that it does not name.
_DYNAMIC = DYNAMIC.union(("__globals__", "__closure__", "cell_contents", "_getframe", "currentframe"))
# Names by which code reads attributes that it does not name; `getattr` finds the stand-in's, too.
_BY_TEXT = (BY_TEXT | REFLECTIVE) - {"getattr", "hasattr", "attrgetter", "copy"}
# Names by which code tells the user something in some calls, which calls without a trace do not do.
_TELLING = frozenset(
    (
        *("print", "pprint", "input", "display", "write", "writelines", "flush", "warn", "warn_explicit"),
        *("debug", "info", "warning", "error", "exception", "critical", "log_message"),
    )
)


class Code:
    """What the code of a function does with its variables.

    Parameters
    ----------
    environment
        What the function refers to.
    repeats
        Whether what it assigns to variables can be repeated in calls without a trace (`Effects.moved`).
    """

    def __init__(self, environment: Environment, repeats: bool = False):
        self._environment = environment
        self._codes = codes = environment.running()
        self._names = frozenset().union(*map(names_of, codes))
        self._read = frozenset().union(*map(names_read, codes))
        # Calls of other libraries, such as a plot in each hundredth call, are not repeated either.
        self._repeats = repeats and self._names.isdisjoint(_TELLING) and not environment.names_foreign
        self._stored = frozenset().union(*map(stored_names, codes))
        # A constructor assigns to attributes of a new object, unless other code calls it for an old one.
        others = [code for code in codes if code.co_name != "__init__"]
        again = any("__init__" in names_of(code) for code in others)
        self._assigned = frozenset().union(*map(attributes_assigned, codes if again else others))
        # Code that compares numbers with `is` needs Python's own, and code that reads variables by names
        # which it makes would read the caller's.
        compares = max([0, *map(identity_tests, codes)])
        hides = environment.has_sub_tapes or not _DYNAMIC.isdisjoint(self._names)
        # A trace that fails is undone, and the function runs again.
        self._open = compares < 2 and not hides and not environment.moves_on

    def reads(self, name: MovingName) -> bool:
        """Whether a variable can be an input: code reads it by its name, and calls repeat what it assigns."""
        if not self._open or not can_move(name.read()):
            return False
        if type(name.holder) is types.CellType:
            return self._repeats or name.name not in self._stored
        if id(name.holder) in self._environment.scopes():
            seen = self._environment.seen.values()
            # Code may read a module's attribute by way of the module, which is not copied.
            modules = (value for value in seen if type(value) is types.ModuleType)
            by_name = all(vars(value) is not name.holder for value in modules)
            return by_name and (self._repeats or name.name not in self._stored)
        return self._shows_attributes and (self._repeats or name.name not in self._assigned)

    def reads_item(self, name: MovingName) -> bool:
        """Whether an item of a list or a dictionary can be an input."""
        return self._open and self._repeats and self._shows_attributes and can_move(name.read())

    def uses(self, name: MovingName) -> bool:
        """Whether code reads variables or attributes of this name, or only keeps a value there in each call.

        Calls stop comparing an attribute that no code reads (`numbatape.capture.unread`). As an input, a list
        of the losses so far would have another structure in each call.
        """
        keeps = self._repeats and type(name.read()) not in (list, dict)
        return name.name in self._read or (keeps and name.name in self._stored)

    def leaves_unread(self, name: str) -> bool:
        """Whether no code reads an attribute of this name, by the name or in another way."""
        return self._open and name not in self._read and name not in self._assigned and self._shows_attributes

    def may_move(self, variables: set[str]) -> bool:
        """Whether code reads some variables of closures by their names, and does not change them."""
        return self._open and self._stored.isdisjoint(variables)

    @property
    def leaves_objects(self) -> bool:
        """Whether a copy of an object may stand for it: nothing is assigned to attributes, or kept for it."""
        return not self._assigned and not self._environment.keeps_results

    @functools.cached_property
    def _shows_attributes(self) -> bool:
        """Whether attributes are read by their names, and by code that has stand-ins for their objects."""
        its = self._environment
        if its.runs_later or its.libraries_hold or not self._names.isdisjoint(_BY_TEXT):
            return False
        if "copy" in self._names and WrittenOnly(self._codes).reflects:
            return False
        text = any(map(makes_text, self._codes))
        others = (each for each in its.reached if not any(each is own for own in _OF_DATACLASSES))
        return not any(reads_unseen(each, self._names, text) for each in others)


def contents_of(values: dict) -> list[tuple]:
    """Return the lists, dictionaries and arrays in some values, with what is in them."""
    found, waiting = [], [*values.values()]
    while waiting:
        value = waiting.pop()
        if type(value) in (list, tuple, dict):
            waiting += value.values() if type(value) is dict else value
        found.append((value, _inside(value)))
    return found


def _inside(value) -> tuple:
    """Return the entries of a list or a dictionary, keys included; the number of a traced array's value."""
    if type(value) is TracedArray:
        return (value._id,)
    if type(value) is dict:
        return (*value, *value.values())
    return (*value,) if type(value) is list else ()


def require_inputs(trace: Trace, variables: dict[MovingName, Any], contents: list[tuple]) -> None:
    """Raise if a traced function has written to a moving variable, or may have read another value of it.

    What it writes to an argument stays in the call, and what it writes to a captured array does not. It is
    the same with other captured arrays: a number that is written to one stays there, a traced value does not.
    Lists and dictionaries are copies, too.

    Parameters
    ----------
    variables
        The moving variables, and what the function got for them.
    contents
        From `contents_of`, before the function ran.
    """
    memory, captured = trace.memory, trace.capture.arrays
    arrays = [leaf._value for leaf in pytrees.leaves([*variables.values()]) if type(leaf) is TracedArray]
    roots = {id(root_of(array)) for array in arrays if type(array) is np.ndarray}
    if roots & (memory.boxes.keys() | memory.patchworks.keys()):
        raise RuntimeError("a variable that is an input was written to")
    if captured is not None and captured.written():
        raise RuntimeError("an array was written to, perhaps with a variable that is an input")
    require_same(contents)
    copies = trace.capture.copies
    if trace.capture.moving.keys() - copies.moved:
        raise RuntimeError("a variable that is an input has no stand-in")
    if copies.exposed or read_as_they_are(trace.capture.environment, copies, variables):
        raise RuntimeError("a variable that is an input is read by code that runs as it is")


def require_same(contents: list[tuple]) -> None:
    """Raise if containers or arrays that are inputs have other contents than before (from `contents_of`)."""
    if not all(_same_entries(_inside(value), before) for value, before in contents):
        raise RuntimeError("a container or an array that is an input was changed")


def _changed(environment: Environment) -> Iterator[MovingName]:
    """Yield variables that have another value, or hold an array or a container with other contents."""
    others = {id(array) for array in environment.written_arrays()} | refilled(environment)

    def moved(now, before) -> bool:
        return id(before) in others or not same(now, before)

    for cell, name, before in environment.variables():
        if not is_empty(cell) and moved(cell.cell_contents, before):
            yield MovingName(name, cell)
    scopes = environment.scopes()
    for mapping, name, before in environment.bindings:
        if id(mapping) in scopes and name in mapping and moved(mapping[name], before):
            yield MovingName(name, mapping)
    attributes = former_attributes(environment)
    for value in environment.reached:
        fields = getattr(value, "__dict__", None)
        plain = is_plain_class(type(value)) or type(value) is types.SimpleNamespace
        if plain and id(fields) in attributes:
            for name, before in attributes[id(fields)].items():
                if type(name) is str and name in fields and moved(fields[name], before):
                    yield MovingName(name, fields)


def _items_changed(environment: Environment, own: Container[int]) -> Iterator[MovingName]:
    """Yield the items that have other values in lists and dictionaries that the function itself changes."""
    attributes = {id(vars(value)) for value in environment.reached if hasattr(value, "__dict__")}
    for container, before in former_items(environment):
        if type(container) not in (dict, list) or id(container) not in own or id(container) in attributes:
            continue
        now = container if type(container) is dict else dict(enumerate(container))
        for key, value in before.items():
            if type(key) in (str, int) and key in now and not same(now[key], value):
                yield MovingName(key, container)


def refilled(environment: Environment) -> set[int]:
    """Return the ids of lists and dictionaries that have other entries than before."""
    found = set()
    for container, entries in environment.sequences:
        if type(container) is list and not _same_entries(container, entries):
            found.add(id(container))
    for (container, keys), (values, entries) in pairwise(environment.sequences):
        if type(container) is dict and not (
            _same_entries(container, keys) and _same_entries(values, entries)
        ):
            found.add(id(container))
    return found


def _same_entries(container, entries: tuple) -> bool:
    return len(container) == len(entries) and all(map(same, container, entries))


def changed(
    environment: Environment, repeats: bool, own: Container[int] = ()
) -> dict[tuple[int, str], MovingName]:
    """Return the variables that have changed and can be inputs, by their keys.

    Parameters
    ----------
    repeats
        As for `Code`.
    own
        Ids of lists and dictionaries that the function itself has changed.
    """
    code = Code(environment, repeats)
    found = [
        name
        for name in _changed(environment)
        if code.uses(name) and code.reads(name) and id(name.read()) not in own
    ]
    if repeats and own:
        found += [name for name in _items_changed(environment, own) if code.reads_item(name)]
    return {name.key: name for name in found}
