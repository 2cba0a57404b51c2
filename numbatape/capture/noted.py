"""What captured classes, arrays and iterators were like when a function was traced.

Of a class these are its members, of an array its sizes and memory, of an iterator what it yields next.

The entries of an array are compared elsewhere. To compare all members of a class takes long, so a few words
of the object in memory are compared first: Python gives a class a new version number when anything in it
changes, and the fields of an array say where its entries are and how they are arranged. The details are
compared only if these words differ. If the details are the same (an equal number was assigned again), the
new words are noted.
"""

from __future__ import annotations

import ctypes
import io
import itertools
import types
import warnings
from collections.abc import Iterator

import numpy as np

from ..jit import address, object_layout
from ..trace.state import Outside
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

    @property
    def name(self) -> str:
        """What messages call the class."""
        return self._class.__qualname__

    def _note_version(self) -> None:
        self._word = object_layout.version_word(self._class)
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

    def restore(self) -> None:
        """Give the user's classes the members again that they had."""
        if not self.changed():
            return
        for base, before in self._members:
            now = members_of(base)
            # Attributes are set by `type`, because hooks of the metaclass are the user's code.
            for name in now.keys() - before.keys():
                type.__delattr__(base, name)
            for name, value in before.items():
                if now.get(name, self) is not value:
                    type.__setattr__(base, name, value)

    def row(self) -> dict | None:
        """Return a row of `object_layout.WATCH`, which holds as long as the class has the noted version."""
        if self._word is None:
            return None
        return {"kind": object_layout.WORDED, "place": ctypes.addressof(self._word)} | _expected(
            self._known, 1
        )


_FIELDS = ctypes.c_char * (object_layout.WORD * object_layout.ARRAY_FIELDS)
_WRITEABLE = 0x400  # NPY_ARRAY_WRITEABLE
_NAMES = ("data", "ndim", "shape", "strides", "base", "dtype", "flags")


class NotedArray:
    """The memory of an array, its sizes, strides and dtype, and whether it may be written to."""

    def __init__(self, array: np.ndarray):
        self._array = array
        self._shape, self._strides = array.shape, array.strides
        self._fields = (
            _FIELDS.from_address(id(array) + object_layout.DATA) if object_layout.readable() else None
        )
        self._raw = self._present() if self._fields is None else self._fields.raw
        self._known: np.ndarray | None = None

    def _present(self) -> tuple:
        """Return what fields tell, where they are not found in memory."""
        array = self._array
        return address(array), array.dtype, array.flags.writeable

    def is_among(self, ids) -> bool:
        """Whether the array is one of those with some ids."""
        return id(self._array) in ids

    def changed(self) -> bool:
        """Whether the array has other memory, sizes or rights than before."""
        array = self._array
        if array.shape != self._shape or array.strides != self._strides:
            return True
        if self._fields is None:
            return self._present() != self._raw
        raw = self._fields.raw
        if raw == self._raw:
            return False
        before, now = (
            dict(zip(_NAMES, np.frombuffer(each, np.int64), strict=True)) for each in (self._raw, raw)
        )
        if any(before[name] != now[name] for name in ("data", "dtype")):
            return True
        if (before["flags"] ^ now["flags"]) & _WRITEABLE:
            return True
        self._raw = raw
        if self._known is not None:
            self._known[: object_layout.ARRAY_FIELDS] = np.frombuffer(raw, np.int64)
        return False

    def row(self) -> dict | None:
        """Return a row of `object_layout.WATCH`, which holds as long as the array has the noted fields."""
        if self._fields is None:
            return None
        if self._known is None:
            sizes = np.array((*self._shape, *self._strides), np.int64)
            self._known = np.concatenate([np.frombuffer(self._raw, np.int64), sizes])
        place = {"kind": object_layout.SHAPED, "place": ctypes.addressof(self._fields)}
        return place | _expected(self._known, 2 * len(self._shape))


class NotedIterator:
    """An iterator or an open file, and what it yields next as far as it tells.

    Attributes
    ----------
    site
        The name by which code refers to it, and where.
    returns
        Whether it can be set back.
    """

    def __init__(self, value, site: Outside):
        self.site = site
        self._value = value
        self._position = _position(value)
        self._progress = _progress(value)
        self._state = None
        if isinstance(value, io.IOBase):
            self.returns = self._position is not None and value.seekable()
        else:
            if type(value).__module__ == "builtins" and hasattr(value, "__setstate__"):
                self._state = (*value.__reduce__(), None, None)[2]
            self.returns = self._position is not None and self._state is not None

    def moved(self) -> bool:
        """Whether it has yielded something since, as far as that can be seen."""
        now, before = _progress(self._value), self._progress
        return len(now) != len(before) or not all(map(_is_or_equals, now, before))

    def restore(self) -> bool:
        """Set it back to what it was to yield next; return whether it yields that now."""
        if self._position is None:
            return False
        if _position(self._value) != self._position and self.returns:
            try:
                if isinstance(self._value, io.IOBase):
                    self._value.seek(self._position)
                    return True  # a text file that was iterated over does not tell its position
                self._value.__setstate__(self._state)
            except (OSError, ValueError):  # the file was closed meanwhile
                return False
        return _position(self._value) == self._position


def _position(value) -> object:
    """Return where an iterator or a file is, as something that can be compared; None if it does not tell."""
    if isinstance(value, io.IOBase):
        try:
            return value.tell()
        except (OSError, ValueError):  # a pipe, or a closed file
            return None
    if type(value) is itertools.count:
        return repr(value)
    if type(value) is types.GeneratorType:
        return "finished" if value.gi_frame is None else None
    if type(value).__module__ == "builtins" and hasattr(value, "__length_hint__"):
        return value.__length_hint__()
    return None


def _progress(value) -> list:
    """Return what changes when an iterator yields something, as far as it tells."""
    position = _position(value)
    if position is not None:
        return [position]
    if type(value) is types.GeneratorType:
        return [value.gi_frame.f_lasti, *value.gi_frame.f_locals.values()]
    if type(value).__module__ not in ("builtins", "itertools"):
        return []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python 3.14 will no longer take those of itertools apart
            _, parts, *states = value.__reduce__()
    except TypeError:
        return []
    return [
        x for part in (*parts, *states) for x in (_progress(part) if isinstance(part, Iterator) else [part])
    ]


def _is_or_equals(now, before) -> bool:
    return now is before or (type(now) is type(before) in (int, str) and now == before)


def _expected(words: np.ndarray, count: int) -> dict:
    return {"expected": address(words), "count": count}
