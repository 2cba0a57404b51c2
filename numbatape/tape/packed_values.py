"""`Values`: the addresses of the values of a tape that is being built.

Most values of a long trace are single cells. Their storage and offset are packed into one negative integer
of 64 bits, so that such a value takes 8 bytes; a tuple takes 100, and Python's garbage collector examines it
again and again. The addresses of all other values are in an array of three integers of 32 bits each, as a
frozen tape has them, and their integer is a place there.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

import numpy as np

from .combinations import FEW, flatnonzero
from .instruction import replace_items
from .tape import VALUE

SHIFT = 24
STORAGE = (1 << SHIFT) - 1  # the bits of a packed address in which the storage is; the offset is above them
FARTHEST = 1 << 31  # offsets of a tape have 32 bits

_set = dict.__setitem__


class Values(dict):
    """Addresses (storage, offset, layout) by the number of the value; a sequence of tuples.

    As a dictionary it holds the addresses that have been asked for: derivatives ask for each one ten times.

    Parameters
    ----------
    addresses
        The first ones, as a frozen tape has them.

    Attributes
    ----------
    words
        One integer for each value. Code that makes a single cell may append ``~(offset << SHIFT | storage)``.
    """

    __slots__ = ("_places", "words")

    def __init__(self, addresses: np.ndarray | None = None):
        super().__init__()
        self.words = array("q")
        self._places = array("i")
        if addresses is not None:
            for address in addresses.tolist():
                self.append(address)

    def __len__(self) -> int:
        return len(self.words)

    def __missing__(self, number: int) -> tuple[int, int, int]:
        if number < 0:
            raise IndexError(f"no value has the number {number}")
        word = self.words[number]
        found: tuple[int, int, int]
        if word < 0:  # a single cell, whose layout is that without dimensions, number 0
            found = ~word & STORAGE, ~word >> SHIFT, 0
        else:
            found = tuple(self._places[word : word + 3])  # type: ignore[assignment]
        super().__setitem__(number, found)
        return found

    def __setitem__(self, number: int, address: tuple[int, int, int]) -> None:
        self.words[number] = self._word(address)
        super().__setitem__(number, address)

    def append(self, address: tuple[int, int, int]) -> int:
        """Append the address of the next value; return its number."""
        storage, offset, layout = address
        if layout:
            return self.append_array(address)
        words = self.words
        number = len(words)
        if 0 <= offset < FARTHEST and storage <= STORAGE:  # This is what `_word` does, which takes longer.
            words.append(~(offset << SHIFT | storage))
            return number
        words.append(len(self._places))
        self._places.extend(address)
        return number

    def append_cell(self, pool: int, offset: int) -> int:
        """Append the address of a cell of a pool and keep it as a tuple, too: derivatives ask for it soon."""
        words = self.words
        number = len(words)
        words.append(~(offset << SHIFT | pool))
        _set(self, number, (pool, offset, 0))
        return number

    def append_array(self, address: tuple[int, int, int]) -> int:
        """Append the address of a value that is no single cell; return the value's number."""
        words, places = self.words, self._places
        number = len(words)
        _set(self, number, address)  # instructions on arrays look at their operands more than once
        words.append(len(places))
        places.extend(address)
        return number

    def extend(self, addresses: np.ndarray) -> None:
        """Append addresses, given as rows of storage, offset and layout."""
        addresses = np.ascontiguousarray(addresses, np.int32)
        storage, offset, layout = addresses.T
        others = (layout != 0) | (offset < 0) | (storage > STORAGE)
        count = np.count_nonzero(others)
        places = np.arange(len(self._places), len(self._places) + 3 * count, 3)
        if count == len(others):
            words = places
        else:
            words = ~(offset.astype(np.int64) << SHIFT | storage)
            words[others] = places
            addresses = addresses.take(flatnonzero(others), axis=0)
        self._places.frombytes(addresses.reshape(-1).view(np.uint8))  # type: ignore[arg-type]
        self.words.frombytes(words.view(np.uint8))  # type: ignore[arg-type]

    def _word(self, address: tuple[int, int, int]) -> int:
        storage, offset, layout = address
        if not layout and 0 <= offset < FARTHEST and storage <= STORAGE:
            return ~(offset << SHIFT | storage)
        self._places.extend(address)
        return len(self._places) - 3

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        return iter(self.columns().tolist())

    def at(self, numbers: np.ndarray | slice) -> tuple[np.ndarray, np.ndarray]:
        """Return storages and offsets of some values; what it returns for negative numbers has no meaning."""
        # None of these is a view, which would keep the array from growing.
        words = np.frombuffer(self.words, np.int64)[numbers]
        storage, offset = ~words & STORAGE, ~words >> SHIFT
        others = words >= 0
        if others.any():
            rows = np.frombuffer(self._places, np.int32).reshape(-1, 3).take(words[others] // 3, axis=0)
            storage[others], offset[others] = rows[:, 0], rows[:, 1]
        return storage, offset

    def rows(self, first: int, stop: int) -> np.ndarray:
        """Return the addresses of some values that follow one another, as rows of three integers."""
        if stop - first <= FEW:  # most of them are in the dictionary
            return np.array([self[number] for number in range(first, stop)], np.int32).reshape(-1, 3)
        return self.columns(np.arange(first, stop)).view(np.int32).reshape(-1, 3)

    def addresses(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the storages, offsets and layouts of all values, as 32-bit integers."""
        words = np.frombuffer(self.words, np.int64)
        others = flatnonzero(words >= 0)
        found = np.zeros((3, len(words)), np.int32)
        if 2 * len(others) > len(words):
            cells = flatnonzero(words < 0)
            packed = ~words.take(cells)
            found[0, cells], found[1, cells] = packed & STORAGE, packed >> SHIFT
        else:
            packed = ~words
            found[0], found[1] = packed & STORAGE, packed >> SHIFT
        if len(others):
            places = np.frombuffer(self._places, np.int32)
            first = words if len(others) == len(words) else words.take(others)
            for k, column in enumerate(found):
                column[others] = places.take(first + k)
        return found[0], found[1], found[2]

    def replace(self, numbers: np.ndarray, addresses: np.ndarray) -> None:
        """Give values other addresses, which are rows of storage, offset and layout."""
        count = len(self.words)
        self.extend(addresses)
        np.frombuffer(self.words, np.int64)[numbers] = self.words[count:]
        del self.words[count:]
        for number in numbers.tolist():
            self.pop(number, None)

    def columns(self, numbers: np.ndarray | None = None) -> np.ndarray:
        """Return the addresses of some values, or of all, as one array."""
        # This is copied, because a view would keep the array from growing.
        words = np.frombuffer(self.words, np.int64)
        words = words.copy() if numbers is None else words[numbers]
        found, packed = np.empty(len(words), VALUE), ~words
        # What these are for addresses that are not packed is overwritten.
        found["storage"], found["offset"], found["layout"] = packed & STORAGE, packed >> SHIFT, 0
        others = flatnonzero(words >= 0)
        if len(others):
            places = np.frombuffer(self._places, np.int32).reshape(-1, 3).take(words[others] // 3, axis=0)
            replace_items(found, others, places.view(VALUE)[:, 0])
        return found
