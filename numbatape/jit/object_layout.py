"""Where objects of Python's and NumPy's have their fields in memory, as far as samples confirm it.

`numbatape.jit.steady` compares these fields in each call, which takes a nanosecond or two each; asking
Python takes 0.3 µs or more. A field that no sample confirms is not used.
"""

from __future__ import annotations

import ctypes
import functools
import types

import numpy as np

WORD = 8  # bytes

# Offsets of an array's fields, which follow the head of every object:
# data, int nd, dimensions, strides, base, descr, int flags.
HEAD = object.__basicsize__
DATA, NDIM, SHAPE, STRIDES, DESCR, FLAGS = (HEAD + WORD * k for k in (0, 1, 2, 3, 5, 6))
ARRAY_FIELDS = 7  # words, from DATA on
TYPE = HEAD - WORD  # the address of an object's type ends its head
ITEMS = tuple.__basicsize__  # offset of a tuple's items
CELL = HEAD  # offset of a cell's contents
LIST_SIZE, LIST_ITEMS = HEAD, HEAD + WORD  # offsets of a list's length, and of the address of its items
# The row of something captured: the kind says what there is at the address ``place``.
WATCH = (
    "kind",
    "place",
    "key",  # the key of an entry
    "expected",  # the word or the entry's value; else the address of the objects that are expected
    "count",  # how many objects or words those are
)
# A word in memory, a dict's value for a key, a list, a whole dict, the fields of an array with its sizes and
# strides, some words in memory.
STORED, VALUE, LISTED, MAPPED, SHAPED, WORDED = range(6)

_MANAGED_DICT = 1 << 4  # flag of a type: the dictionary of an object's attributes stands before the object


def word_at(address: int) -> ctypes.c_int64:
    """Return the word at an address, whose ``value`` is what is there now."""
    return ctypes.c_int64.from_address(address)


@functools.cache
def readable() -> bool:
    """Whether arrays and tuples have their fields where they are looked for."""

    def word(address, kind=ctypes.c_void_p):
        return kind.from_address(address).value

    for array in (np.zeros((2, 3)), np.zeros((4, 3), np.float32)[:, 1:]):
        address = id(array)
        if ctypes.sizeof(ctypes.c_void_p) != WORD or np.ndarray.__basicsize__ < FLAGS + 4:
            return False
        fields = (word(address + TYPE), word(address + DATA), word(address + DESCR))
        if fields != (id(np.ndarray), array.ctypes.data, id(array.dtype)):
            return False
        if (word(address + NDIM, ctypes.c_int), word(address + FLAGS, ctypes.c_int)) != (2, array.flags.num):
            return False
        for field, sizes in (SHAPE, array.shape), (STRIDES, array.strides):
            if tuple(word(word(address + field) + WORD * k, ctypes.c_int64) for k in range(2)) != sizes:
                return False
    pair = ("first", "second")
    return [word(id(pair) + ITEMS + WORD * k) for k in range(2)] == [id(part) for part in pair]


@functools.cache
def watchable() -> bool:
    """Whether cells and lists have their fields where they are looked for."""
    listed = [HEAD, LIST_SIZE, WORD]
    found = (ctypes.c_int64 * 2).from_address(id(listed) + LIST_SIZE)
    items = (ctypes.c_int64 * len(listed)).from_address(found[1]) if found[0] == len(listed) else ()
    cell, empty = types.CellType(listed), types.CellType()
    there = [word_at(id(each) + CELL).value for each in (cell, empty)]
    return [*items] == [*map(id, listed)] and there == [id(listed), 0]


@functools.cache
def function_fields() -> dict[str, int]:
    """Return the offsets of a function's code, defaults and attributes, if they are found in a sample."""

    def sample(first=HEAD, *, second=WORD):
        return first, second

    sample.third = WORD  # type: ignore[attr-defined]
    words = (ctypes.c_int64 * (types.FunctionType.__basicsize__ // WORD)).from_address(id(sample))
    names = ("__code__", "__defaults__", "__kwdefaults__", "__dict__")
    values = {name: id(getattr(sample, name)) for name in names}
    places = {name: [k for k, word in enumerate(words) if word == value] for name, value in values.items()}
    return {name: WORD * found[0] for name, found in places.items() if len(found) == 1}


def dictionary_place(value, fields: dict) -> int | None:
    """Return the address at which an object refers to the dictionary of its attributes."""
    offset = type(value).__dictoffset__
    if offset > 0:
        candidates = [offset]
    elif type(value).__flags__ & _MANAGED_DICT:
        candidates = [-3 * WORD, -4 * WORD]  # which of these it is differs between versions of Python
    else:
        return None
    found = [at for at in candidates if word_at(id(value) + at).value == id(fields)]
    return id(value) + found[0] if found else None


def version_word(cls: type) -> ctypes.c_int64 | None:
    """Return the word with a class's version, which differs after any change of the class or of its bases.

    None if the class has no version, or versions are not where they are looked for.
    """
    offset = _version_offset()
    if offset is None:
        return None
    _look_up(cls)
    word = word_at(id(cls) + offset)
    return word if word.value else None


def _look_up(cls: type) -> None:
    """Let Python give a class a version, which it does when an attribute is looked up."""
    try:
        type.__getattribute__(cls, "no_class_has_this")
    except AttributeError:
        return


@functools.cache
def _version_offset() -> int | None:
    """Return the offset of a class's version: a word that every change of a sample gives another value.

    A change itself sets it to zero, and the next lookup gives the class another version. (Since Python 3.13
    a second word differs after each change: how many versions the class has had.)
    """
    base = type("base", (), {})
    sample = type("sample", (base,), {})
    seen = []

    def note():
        _look_up(sample)
        seen.append([*(ctypes.c_int64 * count).from_address(id(sample))])

    count = type.__basicsize__ // WORD
    note()
    note()  # This note differs from the one before in nothing.
    base.one = 1  # type: ignore[attr-defined]
    note()
    base.one = 2  # type: ignore[attr-defined]
    note()
    sample.one = 1  # type: ignore[attr-defined]
    note()
    sample.one = 2  # type: ignore[attr-defined]
    note()
    sample.one = 3  # type: ignore[attr-defined]
    changed = [*(ctypes.c_int64 * count).from_address(id(sample))]
    found = [
        k
        for k, (first, again, *others) in enumerate(zip(*seen, strict=True))
        if first == again
        and 0 not in (first, *others)
        and len({first, *others}) == 1 + len(others)
        and changed[k] == 0
    ]
    return WORD * found[0] if len(found) == 1 else None
