"""Numbers in the tables of a loop that change with the sizes of a call, and what brings them up to date.

Each number knows what it depends on: it is a subclass of `int` with size codes, or with a place among the
cells of a body. `MovingWords` notes where such numbers stand when a table is written.
"""

from __future__ import annotations

from collections.abc import Iterable


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
    """The numbers of some tables that follow sizes."""

    def __init__(self):
        self._starts: list[tuple[memoryview, int, int]] = []
        self._addresses: list[tuple[memoryview, int, bool, tuple]] = []
        self._rooms: list[tuple[memoryview, int, tuple[int, int, int]]] = []
        self._totals: list[tuple[memoryview, int, int, tuple[int, ...]]] = []

    def note(self, words: memoryview, at: int, number: int) -> None:
        """Note that a number stands among some words."""
        if type(number) is Start:
            self._starts.append((words, at, number.code))
        elif type(number) is Address:
            self._addresses.append((words, at, number.place[0], number.place[1:]))
        elif type(number) is Room:
            self._rooms.append((words, at, number.place))
        elif type(number) is Total:
            self._totals.append((words, at, number.factor, number.codes))

    def follow(self, sizes: memoryview) -> None:
        """Follow sizes on which no body depends; ``sizes`` are the values of size codes."""
        for words, at, code in self._starts:
            words[at] = sizes[-code - 1]

    def move(self, body, test, sizes: memoryview) -> None:
        """Follow other sizes, to which a `MovingBody` and that of the test have moved."""
        self.follow(sizes)
        for words, at, of_test, place in self._addresses:
            words[at] = (test if of_test else body).address(place)
        for words, at, room in self._rooms:
            words[at] = body.room(room)
        for words, at, factor, codes in self._totals:
            words[at] = factor * sum_of(codes, sizes)


def sum_of(codes: Iterable[int], sizes: memoryview) -> int:
    """Return the sum of the values of size codes."""
    return sum([code if code >= 0 else sizes[-code - 1] for code in codes])
