"""Captured things as rows of `numbatape.jit.object_layout.WATCH`, which the builtin of steady calls compares.

Each function returns a row, or None where the builtin cannot see whether the thing is as it was. A row holds
addresses: whoever uses it keeps the objects alive.
"""

from __future__ import annotations

import collections
import types

import numpy as np

from ..jit import address, object_layout

_PLAIN = (dict, collections.defaultdict, collections.Counter)  # dictionaries that keep no order of their own


def of_cell(cell: types.CellType, value) -> dict | None:
    """Return the row of a variable in a closure."""
    if not object_layout.watchable():
        return None
    return {"kind": object_layout.STORED, "place": id(cell) + object_layout.CELL, "expected": id(value)}


def of_empty_cell(cell: types.CellType) -> dict | None:
    """Return the row of a variable in a closure that has no value yet."""
    if not object_layout.watchable():
        return None
    return {"kind": object_layout.STORED, "place": id(cell) + object_layout.CELL, "expected": 0}


def of_object(value, cls: type, fields: dict | None) -> list[dict | None]:
    """Return the rows of an object's class, and of the dictionary of its attributes if it has one."""
    if not object_layout.readable():
        return [None]
    rows: list[dict | None] = [
        {"kind": object_layout.STORED, "place": id(value) + object_layout.TYPE, "expected": id(cls)}
    ]
    if fields is not None:
        place = object_layout.dictionary_place(value, fields)
        rows.append(place and {"kind": object_layout.STORED, "place": place, "expected": id(fields)})
    return rows


def of_entry(mapping, key, value) -> dict | None:
    """Return the row of a global or an attribute, given the dictionary that has it."""
    row = of_missing(mapping, key)
    return None if row is None else row | {"expected": id(value)}


def of_missing(mapping, key) -> dict | None:
    """Return the row of a name that a dictionary does not have."""
    if type(mapping) not in _PLAIN or type(key) is not str:
        return None
    return {"kind": object_layout.VALUE, "place": id(mapping), "key": id(key), "expected": 0}


def of_attribute(owner, name: str, value) -> dict | None:
    """Return the row of a function's code, defaults or attributes; attributes in other slots have none."""
    offset = object_layout.function_fields().get(name) if type(owner) is types.FunctionType else None
    if offset is None:
        return None
    return {"kind": object_layout.STORED, "place": id(owner) + offset, "expected": id(value)}


def of_list(container, entries: tuple, alive: list) -> dict | None:
    """Return the row of a list with these entries."""
    if type(container) is not list or not object_layout.watchable():
        return None
    return _of_objects(object_layout.LISTED, container, entries, alive) | {"count": len(entries)}


def of_dict(mapping: dict, before: dict, alive: list) -> dict | None:
    """Return the row of a dictionary that had these items, in this order."""
    if type(mapping) not in _PLAIN:
        return None
    objects = [part for item in before.items() for part in item]
    return _of_objects(object_layout.MAPPED, mapping, objects, alive) | {"count": len(before)}


def _of_objects(kind: int, container, objects, alive: list) -> dict:
    expected = np.array([id(part) for part in objects], np.int64)
    alive.append(expected)
    return {"kind": kind, "place": id(container), "expected": address(expected)}
