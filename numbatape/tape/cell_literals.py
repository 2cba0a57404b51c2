"""Literals of a tape under construction: most are single cells of float64, of which a loop may make many.

A loop that computes ``0.1 * k`` makes a literal in each turn. As objects of Python, with entries in three
dictionaries, such a literal would take 800 bytes. Here it takes 32, and one entry in one dictionary.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from itertools import chain
from typing import overload

import numpy as np

from .combinations import flatnonzero
from .families import F64
from .instruction import NONE
from .packed_values import SHIFT, STORAGE
from .tape import Literal

FEW = 4096  # This many numbers stand in a dictionary, where they are found faster than in arrays.


class Literals:
    """A sequence of `Literal`; single cells of float64 are packed.

    Parameters
    ----------
    items
        The first ones.
    """

    __slots__ = ("_numbers", "_others", "_words")

    def __init__(self, items=()):
        self._words = array("q")  # a negative one is a packed address, as in `Values`; others count `_others`
        self._numbers = array("d")
        self._others: list[Literal] = []
        for item in items:
            self.append(item)

    def append(self, item: Literal) -> None:
        """Append a literal."""
        self._words.append(len(self._others))
        self._numbers.append(0.0)
        self._others.append(item)

    def append_cell(self, storage: int, offset: int, number: float) -> None:
        """Append a literal of one float64 cell."""
        self._words.append(~(offset << SHIFT | storage))
        self._numbers.append(number)

    def extend_cells(self, storage: int, offsets: np.ndarray, numbers: np.ndarray) -> None:
        """Append literals of one float64 cell."""
        self._words.frombytes((~(offsets.astype(np.int64) << SHIFT | storage)).tobytes())
        self._numbers.frombytes(np.asarray(numbers, float).tobytes())

    def copy(self) -> Literals:
        """Return the same literals, to which others can be appended."""
        found = Literals()
        found._words, found._numbers = self._words[:], self._numbers[:]
        found._others = self._others[:]
        return found

    def __len__(self) -> int:
        return len(self._words)

    @overload
    def __getitem__(self, k: int) -> Literal: ...

    @overload
    def __getitem__(self, k: slice) -> list[Literal]: ...

    def __getitem__(self, k):
        if isinstance(k, slice):
            return [self[its] for its in range(*k.indices(len(self)))]
        word = self._words[k]
        if word >= 0:
            return self._others[word]
        return Literal(~word & STORAGE, ~word >> SHIFT, np.array([self._numbers[k]]))

    def __iter__(self) -> Iterator[Literal]:
        return map(self.__getitem__, range(len(self)))

    def others(self) -> list[Literal]:
        """Return the literals that are not packed."""
        return self._others

    def among(self, storage: int, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return which of some offsets, which ascend, have packed literals; and the numbers of these."""
        words = ~np.array(self._words, np.int64)
        mine = flatnonzero((words >= 0) & (words & STORAGE == storage))
        place = np.searchsorted(offsets, words[mine] >> SHIFT)
        found = np.append(offsets, NONE)[place] == words[mine] >> SHIFT
        return place[found], np.array(self._numbers)[mine[found]]

    def places(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the storages and the first offsets of all literals."""
        words = ~np.array(self._words, np.int64)
        storage, offset = words & STORAGE, words >> SHIFT
        others = words < 0
        if self._others:
            rows = np.array([(item.storage, item.offset) for item in self._others])
            storage[others], offset[others] = rows[~words[others]].T
        return storage, offset

    def first_numbers(self) -> np.ndarray:
        """Return the first number of each literal; nan for those without cells."""
        found = np.array(self._numbers)
        others = flatnonzero(np.array(self._words, np.int64) >= 0)
        found[others] = [item.data[0] if item.data.size else np.nan for item in self._others]
        return found


class Numbers:
    """The numbers of float64 literals of one cell, by value, with the part of a dict's methods that is
    needed.
    """

    __slots__ = ("_few", "_keys", "_numbers")

    def __init__(self):
        self._few: dict[int, np.float64] = {}
        self._keys, self._numbers = array("q"), array("d")  # The keys are in ascending order.

    def __setitem__(self, value: int, number: np.float64) -> None:
        # A value that would break the order of the keys goes to the dictionary, however large that is.
        if len(self._few) < FEW or (self._keys and value <= self._keys[-1]):
            self._few[value] = number
        else:
            self._keys.append(value)
            self._numbers.append(number)

    def get(self, value: int) -> np.float64 | None:
        """Return the number of a value, None for one that is no literal of one cell."""
        found = self._few.get(value)
        if found is None and self._keys:
            place = bisect_left(self._keys, value)
            if place < len(self._keys) and self._keys[place] == value:
                return np.float64(self._numbers[place])
        return found

    def __getitem__(self, value: int) -> np.float64:
        found = self.get(value)
        if found is None:
            raise KeyError(value)
        return found

    def __contains__(self, value: int) -> bool:
        return self.get(value) is not None

    def __iter__(self) -> Iterator[int]:
        return chain(self._few, self._keys)

    def __len__(self) -> int:
        return len(self._few) + len(self._keys)

    def among(self, values: np.ndarray) -> np.ndarray:
        """Return which of some values, which ascend, are literals."""
        keys = np.append(np.fromiter(self._few, np.int64), np.array(self._keys, np.int64))
        place = np.searchsorted(values, keys)
        found = np.zeros(len(values), bool)
        found[place[np.append(values, NONE)[place] == keys]] = True
        return found


class CellLiterals:
    """Values of literals of one cell, by contents and family.

    Attributes
    ----------
    floats
        Those of float64, by number. Zeros and NaN are not here, because 0.0 equals -0.0, and NaN equals
        nothing.
    """

    __slots__ = ("_others", "floats")

    def __init__(self):
        self.floats: dict[float, int] = {}
        self._others: dict[tuple[bytes, int], int] = {}

    def get(self, number, family: int) -> int | None:
        """Return the value of the literal that holds a number, None if there is none."""
        if family == F64 and number and number == number:
            return self.floats.get(number)
        return self._others.get((number.tobytes(), family))

    def note(self, number, family: int, value: int) -> None:
        """Note the value of a literal, unless one that holds the same is known."""
        if family == F64 and number and number == number:
            self.floats.setdefault(float(number), value)
        else:
            self._others.setdefault((number.tobytes(), family), value)

    def values(self) -> Iterator[int]:
        """Return the values."""
        return chain(self.floats.values(), self._others.values())

    def __len__(self) -> int:
        return len(self.floats) + len(self._others)
