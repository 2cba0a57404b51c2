"""What a function captures, as it was when it was traced.

Each call checks that nothing has changed: bindings by identity (numbers by value), contents of containers
entry by entry, contents of arrays by comparison (in the sweep's kernel where that is possible). When a
trace is started again, it starts from the same state. `numbatape.capture.environment` finds what there is to
note.
"""

from __future__ import annotations

import collections
import contextvars
import os
import types
from operator import is_
from typing import TYPE_CHECKING

import numpy as np

from ..errors import UnsupportedOperationError
from ..late import imported
from ..trace.state import Outside
from . import watch_rows, watching
from .noted import NotedArray, NotedClass, NotedIterator
from .references import same

if TYPE_CHECKING:
    from .first_uses import FirstUses


class Captured:
    """Captured values as they were at the time of a trace.

    Attributes
    ----------
    arrays
        ``(array, copy)`` of arrays whose contents can change.
    opaque
        Values that may give other numbers in each call, which cannot be noticed.
    """

    def __init__(self):
        self.arrays: list[tuple[np.ndarray, np.ndarray]] = []
        self._cells: list[tuple] = []
        self._variables: dict[int, str] = {}  # the keys are ids of cells
        self.bindings: list[tuple] = []  # (dictionary, name, value): globals, attributes, members
        self.attributes: list[tuple] = []  # (owner, name, value)
        self.functions: list[tuple] = []  # (function, its code)
        self._scopes: list[tuple] = []  # (globals that code may change by any name, what they were)
        # (container, its entries); behind a dictionary, which has its keys, stands the view of its values.
        self.sequences: list[tuple] = []
        self.sets: list[tuple] = []
        self.absent: list[tuple] = []  # (mapping, key that it does not have)
        self._empty: list[types.CellType] = []  # variables of closures that have no value yet
        self.unset: list[tuple] = []  # (slot of a class, object for which it has no value)
        self._objects: list[tuple] = []  # (object, its class, the dictionary of its attributes or None)
        self.classes: list[NotedClass] = []
        self.members_of_classes: list[tuple] = []  # (mapping, key, value) of those classes
        self._layouts: list[NotedArray] = []
        self._parts: list[tuple] = []  # (a function that gives an object's parts, the parts, the object)
        self._frames: dict[int, list] = {}  # columns of pandas' frames by id, see `watching.columns_of`
        self._process: dict[str, str] | None = None  # the process's environment, once code has changed it
        self._contents: list[tuple] = []  # (object, a function that gives its bytes, the bytes)
        self.opaque: list[Outside] = []
        self.iterators: list[NotedIterator] = []
        self._generators: list = []
        self.uses: FirstUses | None = None  # whose first uses the present run observes
        self.uncompared: list[tuple] = []  # places that calls do not compare, because they write there first
        self.observes: set[str] = set()  # names of attributes of which runs observe the first use
        self.changes: tuple[str, ...] = ()  # names of what the last run has changed, if no call can repeat it

    def observe(self) -> None:
        """Observe the first use of some attributes in the run that begins."""
        first_uses = imported(".first_uses", __package__) if self.observes else None  # few functions need it
        self.uses = first_uses and first_uses.FirstUses(self.observes)

    @property
    def empty(self) -> bool:
        """Whether there is nothing that `rebound` would check."""
        named = self._cells or self.bindings or self.attributes or self.absent or self.functions
        things = self._objects or self.classes or self._layouts or self._empty or self.unset
        others = self.sequences or self.sets or self.iterators or self._parts or self._contents
        return not (named or things or others)

    def watch_rows(self, alive: list) -> list[dict] | None:
        """Return rows of `WATCH` that hold as long as nothing is rebound; add to ``alive`` what they name.

        They are stricter than `rebound`, which takes equal numbers for the same. None if there is something
        that only `rebound` can check.
        """
        if self.iterators or self.sets or self._parts or self._contents or self.unset:
            return None
        dictionaries = self.dictionaries()
        empty = {id(mapping): mapping for mapping, _ in self.absent if not mapping}
        lists = [
            row
            for row in self.sequences
            if id(row[0]) not in dictionaries and type(row[0]) is not type({}.values())
        ]
        rows = [
            *(watch_rows.of_cell(cell, value) for cell, value in self._cells),
            *(watch_rows.of_empty_cell(cell) for cell in self._empty),
            *(row for each in self._objects for row in watch_rows.of_object(*each)),
            *(noted.row() for noted in (*self.classes, *self._layouts)),
            *(watch_rows.of_entry(*binding) for binding in self.bindings),
            *(watch_rows.of_attribute(*attribute) for attribute in self.attributes),
            *(watch_rows.of_attribute(function, "__code__", code) for function, code in self.functions),
            *(watch_rows.of_missing(mapping, key) for mapping, key in self.absent if mapping),
            # One row says of an empty dictionary that it has none of many names.
            *(watch_rows.of_dict(mapping, {}, alive) for mapping in empty.values()),
            *(watch_rows.of_list(container, entries, alive) for container, entries in lists),
            *(watch_rows.of_dict(mapping, before, alive) for mapping, before in dictionaries.values()),
        ]
        alive.append(self)
        return None if None in rows else rows  # type: ignore[return-value]

    def rebound(self) -> bool:
        """Whether a name is bound to another value than before (contents of arrays aside)."""
        if self.iterators:
            return True
        try:
            for cell, value in self._cells:
                now = cell.cell_contents
                if now is not value and not same(now, value):
                    return True
            for mapping, key, value in self.bindings:
                now = mapping[key]
                if now is not value and not same(now, value):
                    return True
            for owner, name, value in self.attributes:
                now = getattr(owner, name)
                if now is not value and not same(now, value):
                    return True
        except (ValueError, LookupError, AttributeError):
            return True  # the name or the attribute is gone, so something has changed
        # These are loops, because `any` of a generator takes 0.2 µs even of nothing.
        for function, code in self.functions:
            if function.__code__ is not code:
                return True
        for value, cls, fields in self._objects:
            if type(value) is not cls or (fields is not None and value.__dict__ is not fields):
                return True
        for container, entries in self.sequences:
            if len(container) != len(entries) or not all(map(is_, container, entries)):
                return True
        for mapping, key in self.absent:
            if key in mapping:
                return True
        for noted in self.classes:
            if noted.changed():
                return True
        for noted in self._layouts:
            if noted.changed():
                return True
        for cell in self._empty:
            if not is_empty(cell):
                return True
        for slot, value in self.unset:
            if not is_unset(slot, value):
                return True
        if self._parts or self._contents:
            try:
                if self._remade():
                    return True
            except Exception:
                # A library's object that was closed or released may raise anything when it is read. It counts
                # as changed; if the function still uses it, tracing raises the library's error.
                return True
        return any(_are_others(tuple(container), entries) for container, entries in self.sets)

    def _remade(self) -> bool:
        """Whether a library's object has other parts or numbers than before."""
        for read, parts, _ in self._parts:
            if _are_others(read(), parts):
                return True
        return any(read() != before for _, read, before in self._contents)

    def changed(self) -> bool:
        """Whether a name is bound to another value than before, or an array has other contents."""
        return self.rebound() or any(True for _ in self.written_arrays())

    def written_arrays(self):
        """Yield arrays that have other contents, another shape or another dtype than before."""
        for array, copy in self.arrays:
            if (array.shape, array.dtype) != (copy.shape, copy.dtype) or array.tobytes() != copy.tobytes():
                yield array

    def generator_states(self) -> list[object]:
        """Return the states of all captured random generators."""
        return [watching.state_of(generator) for generator in self._generators]

    # ---- the names by which code refers to mutable objects (`numbatape.capture.effects`)

    def dictionaries(self) -> dict[int, tuple[dict, dict]]:
        """Return, by id, each dictionary with its former items."""
        rows = zip(self.sequences, self.sequences[1:], strict=False)
        return {
            id(container): (container, dict(zip(keys, values, strict=True)))
            for (container, keys), (_, values) in rows
            if isinstance(container, dict)
        }

    def scopes(self) -> set[int]:
        """Return the ids of the dictionaries of globals of all functions."""
        return {id(function.__globals__) for function, _ in self.functions}

    def variables(self):
        """Yield (cell, the name of the variable in it, its former value)."""
        for cell, value in self._cells:
            yield cell, self._variables[id(cell)], value

    def names(self):
        """Yield (the object that holds a value, the name by which code refers to it, the value)."""
        yield from self.bindings
        yield from self.members_of_classes
        yield from self.attributes
        yield from self.variables()

    def forget(self, places) -> None:
        """Stop watching some containers and variables: calls repeat their changes (`Effects.places`)."""
        ids = {id(container) for container, _ in places}
        self._cells = [(cell, value) for cell, value in self._cells if id(cell) not in ids]
        self.bindings = [row for row in self.bindings if not is_among(places, row[0], row[1])]
        # The pair behind that of a dictionary is of its values, and goes with it.
        kept, skip = [], False
        for container, entries in self.sequences:
            drop, skip = (
                skip or id(container) in ids,
                not skip and id(container) in ids and isinstance(container, dict),
            )
            if not drop:
                kept.append((container, entries))
        self.sequences = kept

    def note_again(self, places) -> None:
        """Note what some containers and variables hold now (`Effects.places`), for later calls to compare."""
        ids = {id(container) for container, _ in places}
        self._cells = [
            (cell, cell.cell_contents if id(cell) in ids else value) for cell, value in self._cells
        ]
        self.bindings = [
            (mapping, name, mapping[name] if is_among(places, mapping, name) else value)
            for mapping, name, value in self.bindings
        ]
        found: list[tuple] = []
        for container, entries in self.sequences:
            of_dictionary = bool(found) and isinstance(found[-1][0], dict) and id(found[-1][0]) in ids
            if id(container) in ids or (of_dictionary and type(container) is type({}.values())):
                entries = tuple(container)
            found.append((container, entries))
        self.sequences = found

    def undo(self) -> None:
        """Restore what code has changed, so that a trace which starts again starts from the same state.

        Raises
        ------
        UnsupportedOperationError
            If an iterator has yielded something, or may have, that it cannot yield again, or an object of a
            library was changed.
        """
        for array, copy in self.arrays:
            if array.shape != copy.shape:
                array.resize(copy.shape, refcheck=False)
            if array.tobytes() != copy.tobytes():
                array[...] = copy
        for cell, value in self._cells:
            cell.cell_contents = value
        for cell in self._empty:
            if not is_empty(cell):
                del cell.cell_contents
        for value, cls, fields in self._objects:
            if type(value) is not cls:
                value.__class__ = cls
            if fields is not None and value.__dict__ is not fields:
                value.__dict__ = fields
        for mapping, key, value in self.bindings:
            if isinstance(mapping, dict) and mapping.get(key) is not value:
                mapping[key] = value
        for mapping, key in self.absent:
            # A module that the function has imported stays imported.
            made = mapping.get(key, types) if isinstance(mapping, dict) else types
            if not is_module(made):
                del mapping[key]
        for scope, before in self._scopes:
            scope.update(before)
            for name in [n for n, made in scope.items() if n not in before and not is_module(made)]:
                del scope[name]
        for owner, name, value in self.attributes:
            if getattr(owner, name, None) is not value:
                setattr(owner, name, value)
        for mapping, items in self.dictionaries().values():
            if list(mapping) != list(items) or not all(map(is_, mapping.values(), items.values())):
                mapping.clear()
                for key, value in items.items():
                    mapping[key] = value
        for container, entries in self.sequences:
            changed = len(container) != len(entries) or not all(map(is_, container, entries))
            if changed and isinstance(container, (list, collections.deque)):
                container.clear()
                container.extend(entries)
        for container, members in self.sets:
            if isinstance(container, set) and _are_others(tuple(container), members):
                container.clear()
                container.update(members)
        for slot, value in self.unset:
            if not is_unset(slot, value):
                slot.__delete__(value)
        for noted in self.classes:
            noted.restore()
        for value, read, before in self._contents:
            if read() != before:
                watching.put_back(value, before)
        if self._process is not None:
            os.environ.clear()
            os.environ.update(self._process)
        self._set_back()
        self._refuse_changed()

    def note_process(self) -> None:
        """Note that code is about to change the process's environment."""
        if self._process is None:
            self._process = dict(os.environ)

    def _refuse_changed(self) -> None:
        """Raise if an object of a library has other parts than before, because these cannot be set back."""
        for read, parts, value in self._parts:
            if not _are_others(read(), parts):
                continue
            if isinstance(value, contextvars.ContextVar) and parts[0] is not watching.UNSET:
                value.set(parts[0])
                continue
            if watching.has_columns(value, self._frames.get(id(value))):
                continue  # pandas arranges the memory of columns in its own way
            site = self.site_of(value)
            raise UnsupportedOperationError(
                f"{site}: the function changes it, and has to run twice, "
                "because a number among its arguments or an array that it refers to has to be traced in "
                "another way. Work on a copy of it, or change it outside of the function"
            )

    def site_of(self, value) -> Outside:
        """Return how code refers to a value, and where."""
        return Outside(f"a {type(value).__qualname__}", "<unknown>", 0)

    def _set_back(self) -> None:
        for noted in self.iterators:
            if not noted.restore():
                site = noted.site
                raise UnsupportedOperationError(
                    f"{site}: the function has to run twice here, and the "
                    "iterator cannot yield the same items again. Take the item outside of the "
                    "function and pass it as nt.Constant(...)"
                )


def uses_in(trace) -> FirstUses | None:
    """Return what the run that a trace records observes."""
    environment = None if trace is None else trace.capture.environment
    return None if environment is None else environment.uses


def _are_others(now: tuple, before: tuple) -> bool:
    """Whether an object has other parts than before."""
    if len(now) != len(before):
        return True
    return not all(map(is_, now, before)) and not all(map(same, now, before))


def is_among(places, mapping, name) -> bool:
    """Whether a name in a dictionary is one of some places (`Effects.places`)."""
    return any(container is mapping and keys is not None and name in keys for container, keys in places)


def is_module(value) -> bool:
    """Whether a value is a module, which stays where code has imported it."""
    return isinstance(value, types.ModuleType)


def is_empty(cell: types.CellType) -> bool:
    """Whether a variable of a closure has no value yet."""
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return True
    return False


def is_unset(slot, owner) -> bool:
    """Whether a slot of a class has no value for an object."""
    try:
        slot.__get__(owner)
    except AttributeError:
        return True
    return False
