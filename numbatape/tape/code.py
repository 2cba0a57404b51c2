"""`Code`: instructions as a tracer appends them, and as passes read them; `SourceLines`: where they are from.

An instruction is appended as its fields, in the order of `Instruction`, to one list of integers: that takes
0.1 µs, and leaves no object that Python's garbage collector would examine again and again. Long lists are
packed into arrays of 32-bit integers, so that an instruction takes 36 bytes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from struct import Struct
from types import CodeType

import numpy as np

from .instruction import COLUMNS, NONE, Instruction, joined
from .tape import Line

WIDTH = len(Instruction._fields)
LAST_OUT = Instruction._fields.index("out") - WIDTH  # where the result of the last instruction is in `recent`
STRETCH = 4096  # instructions that are packed at once
_STRETCH = Struct(f"{STRETCH * WIDTH}i")  # packs integers in half of the time that NumPy takes


class Code:
    """The instructions of a tape under construction; a sequence of tuples.

    Parameters
    ----------
    rows
        The first ones, as `columns`.

    Attributes
    ----------
    recent
        The fields of the instructions that are not packed yet, one after the other. Code that appends an
        instruction may extend this list by its fields.
    """

    __slots__ = ("_count", "_firsts", "_packed", "recent")

    def __init__(self, rows: np.ndarray | None = None):
        self.recent: list[int] = []
        self._packed: list[np.ndarray] = []  # nobody changes these arrays
        self._firsts: list[int] = []  # the number of the first instruction in each of them
        self._count = 0  # how many instructions are packed
        if rows is not None:
            self._pack(rows)

    def __len__(self) -> int:
        return self._count + len(self.recent) // WIDTH

    def append(self, row: tuple) -> None:
        """Append one instruction."""
        self.recent += row

    def extend(self, rows: np.ndarray) -> None:
        """Append instructions, given as rows of their fields."""
        if len(rows):
            if self.recent:
                self._pack(np.frombuffer(np.array(self.recent, np.int32), COLUMNS))
                self.recent.clear()
            self._pack(np.frombuffer(rows[:-1].astype(np.int32), COLUMNS))
            self.recent += rows[-1].tolist()  # the last instruction's result is looked for there

    def pack(self) -> None:
        """Pack what is old enough, if it is worth the time.

        The last instruction stays, because its result is looked for in the list.
        """
        while len(self.recent) > STRETCH * WIDTH:
            fields = self.recent[: STRETCH * WIDTH]
            self._pack(np.frombuffer(_STRETCH.pack(*fields), COLUMNS))
            del self.recent[: STRETCH * WIDTH]

    def cut(self, start: int) -> None:
        """Drop the instructions from number ``start`` on."""
        rows = self.columns()[:start]
        self._packed, self._firsts, self._count = [], [], 0
        self._pack(rows)

    def _pack(self, rows: np.ndarray) -> None:
        self._packed.append(rows)
        self._firsts.append(self._count)
        self._count += len(rows)

    def columns(self) -> np.ndarray:
        """Return all instructions as one read-only array, whose fields are those of `Instruction`."""
        self.pack()
        if self.recent:
            self._pack(np.frombuffer(np.array(self.recent, np.int32), COLUMNS))
            self.recent.clear()  # cleared and not replaced, because others may hold this list
        if len(self._packed) != 1:
            self._packed = [joined([np.zeros(0, COLUMNS), *self._packed])]
            self._firsts = [0]
        (found,) = self._packed
        found.flags.writeable = False
        return found

    def part(self, start: int, stop: int) -> np.ndarray:
        """Return a stretch of the instructions as an array, see `columns`."""
        first = self._count
        fields = self.recent[max(start - first, 0) * WIDTH : max(stop - first, 0) * WIDTH]
        parts = [np.array(fields, np.int32).view(COLUMNS)]
        for place in range(len(self._packed) - 1, -1, -1):
            if start >= first:
                break
            first, rows = self._firsts[place], self._packed[place]
            if first < stop:
                parts.append(rows[max(start - first, 0) : stop - first])
        return parts[0] if len(parts) == 1 else joined(parts[::-1])

    def __getitem__(self, k):
        if isinstance(k, slice):
            start, stop, step = k.indices(len(self))
            assert step == 1
            return self._rows(start, stop)
        k = range(len(self))[k]
        if k >= self._count:
            first = (k - self._count) * WIDTH
            return tuple(self.recent[first : first + WIDTH])
        place = bisect_right(self._firsts, k) - 1
        return self._packed[place][k - self._firsts[place]].item()

    def __iter__(self) -> Iterator[tuple]:
        return iter(self._rows(0, len(self)))

    def _rows(self, start: int, stop: int) -> list[tuple]:
        found: list[tuple] = []
        for place in range(max(bisect_right(self._firsts, start) - 1, 0), len(self._firsts)):
            first, rows = self._firsts[place], self._packed[place]
            if first >= stop:
                break
            found += rows[max(start - first, 0) : stop - first].tolist()
        first = self._count
        fields = self.recent[max(start - first, 0) * WIDTH : max(stop - first, 0) * WIDTH]
        found += zip(*[iter(fields)] * WIDTH, strict=True)
        return found


class SourceLines:
    """The user's lines that instructions come from; `Instruction.line` is the number of one.

    Parameters
    ----------
    past
        Those of the frozen tape that a recording goes on from.
    """

    __slots__ = ("_numbers", "_past", "_places")

    def __init__(self, past: tuple[Line, ...] = ()):
        self._past = past
        self._numbers: dict[tuple[int, int], int] = {}
        self._places: list[tuple[CodeType, int]] = []

    def number(self, code: CodeType, line: int) -> int:
        """Return the number of a line of some code."""
        key = (id(code), line)  # a code object's own hash reads all of its bytecode
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._past) + len(self._numbers)
            self._places.append((code, line))  # keeps the code alive, so that no other gets its id
        return number

    def where(self, number: int) -> Line | str:
        """Return a line for an error's message."""
        return "an instruction without a source line" if number == NONE else self.table()[number]

    def table(self) -> tuple[Line, ...]:
        """Return the lines met so far, in the order of their numbers."""
        return (*self._past, *(Line(c.co_filename, n, c.co_qualname) for c, n in self._places))
