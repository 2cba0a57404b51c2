"""Numbers in the tables of a loop that change with the sizes of a call.

Each number knows what it depends on: it is a subclass of `int` with size codes, or with a place among the
cells of a body. `MovingWords` notes where such numbers stand when a table is written, and the kernel of
`numbatape.engine.moving.moving_kernels` brings them up to date.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ..plan_tables import STORAGE_WORDS


class Start(int):
    """Where a part of an operand or of the result begins, or its cells, with the size code that says so."""

    code: int


class Address(int):
    """The address of a value's first cell, or of its adjoint, with what says where that is.

    Attributes
    ----------
    place
        Whether it is in the test, and that of an adjoint; the family, the storage, and the size code of the
        offset in that.
    """

    place: tuple[bool, bool, int, int, int]


class Room(int):
    """The bytes of storages that lie next to each other, with their family, the first and the last one."""

    place: tuple[int, int, int]


class Total(int):
    """A factor times the sum of the values of size codes."""

    factor: int
    codes: tuple[int, ...]


class MovingWords:
    """The numbers of some tables that follow sizes.

    Attributes
    ----------
    starts, addresses, rooms, totals
        The address of each such number, and what it depends on: rows as the kernel reads them. Those of
        totals have codes, in place of where these are.
    """

    def __init__(self):
        self.starts: list[tuple[int, int]] = []
        self.addresses: list[tuple[int, ...]] = []
        self.rooms: list[tuple[int, ...]] = []
        self.totals: list[tuple[int, int, tuple[int, ...]]] = []

    def note(self, at: int, number: int) -> None:
        """Note that a number stands at an address."""
        if type(number) is Start:
            self.starts.append((at, number.code))
        elif type(number) is Address:
            of_test, adjoint, family, storage, offset = number.place
            self.addresses.append((at, of_test, adjoint, family, STORAGE_WORDS * storage, offset))
        elif type(number) is Room:
            family, first, last = number.place
            self.rooms.append((at, family, STORAGE_WORDS * first, STORAGE_WORDS * last))
        elif type(number) is Total:
            self.totals.append((at, number.factor, number.codes))


class Rows:
    """Tables of words, which live as long as this object.

    Attributes
    ----------
    last
        The last one.
    """

    def __init__(self):
        self._kept: list[np.ndarray] = []

    @property
    def last(self) -> np.ndarray:
        return self._kept[-1]

    def take(self, rows: Iterable[Sequence[int]]) -> tuple[int, int]:
        """Write rows of numbers one after the other; return their address, and how many they are."""
        rows = list(rows)
        table = np.array(rows, np.int64).reshape(-1)
        self._kept.append(table)
        return table.ctypes.data, len(rows)
