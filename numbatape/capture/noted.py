"""Classes and arrays as they were, apart from the values in them: bases and members, sizes and memory.

Their own words in memory tell first whether anything has changed: Python numbers the versions of a class, and
an array's fields say where and how its entries lie. Only if these words differ are the details compared. If
those turn out to be the same (an equal number was assigned again), the present words are noted.
"""

from __future__ import annotations

import ctypes

import numpy as np

from ..jit import layout, steady
from ..usercode.ownership import is_users_class
from .references import members_of, same


class NotedClass:
    """A class with its bases, and the members of the user's classes among them."""

    def __init__(self, cls: type):
        self._class = cls
        self._order = cls.__mro__
        self._members = [(base, members_of(base)) for base in cls.__mro__ if is_users_class(base)]
        self._known = np.zeros(1, np.int64)
        self._note_version()

    def _note_version(self) -> None:
        self._word = layout.version_word(self._class)
        self._version = 0 if self._word is None else self._word.value
        self._known[0] = self._version

    def changed(self) -> bool:
        """Whether a base is another one, or a member is: set, deleted, or new."""
        if self._word is not None and self._word.value == self._version:
            return False
        if self._class.__mro__ is not self._order:
            return True
        for base, before in self._members:
            now = members_of(base)
            if now.keys() != before.keys():
                return True
            if not all(map(same, now.values(), map(before.__getitem__, now))):
                return True
        self._note_version()
        return False

    def row(self) -> dict | None:
        """Return a row of `jit.steady.WATCH`, which holds as long as the class has the noted version."""
        if self._word is None:
            return None
        return {"kind": steady.WORDED, "place": ctypes.addressof(self._word)} | _expected(self._known, 1)


class NotedArray:
    """The memory of an array, its sizes, strides and dtype, and whether it may be written to."""

    def __init__(self, array: np.ndarray):
        self._array = array
        self._details = self._present()
        self._fields = None
        if steady.available():
            words = ctypes.c_char * (layout.WORD * layout.ARRAY_FIELDS)
            self._fields = words.from_address(id(array) + layout.DATA)
            sizes = np.array((*array.shape, *array.strides), np.int64)
            self._known = np.concatenate([np.frombuffer(self._fields, np.int64), sizes])
            self._raw = self._fields.raw

    def _present(self) -> tuple:
        array = self._array
        return array.ctypes.data, array.shape, array.strides, array.dtype, array.flags.writeable

    def changed(self) -> bool:
        """Whether the array has other memory, sizes or rights than before."""
        array, (_, shape, strides, *_) = self._array, self._details
        raw = None if self._fields is None else self._fields.raw
        if raw is not None and raw == self._raw and array.shape == shape and array.strides == strides:
            return False
        if self._present() != self._details:
            return True
        if self._fields is not None:
            self._raw = raw
            self._known[: layout.ARRAY_FIELDS] = np.frombuffer(self._fields, np.int64)
        return False

    def row(self) -> dict | None:
        """Return a row of `jit.steady.WATCH`, which holds as long as the array has the noted fields."""
        if self._fields is None:
            return None
        place = {"kind": steady.SHAPED, "place": ctypes.addressof(self._fields)}
        return place | _expected(self._known, 2 * self._array.ndim)


def _expected(words: np.ndarray, count: int) -> dict:
    return {"expected": words.ctypes.data, "count": count}
