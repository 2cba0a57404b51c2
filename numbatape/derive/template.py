"""A template: what the derivative of an instruction appended, as the words that the kernel repeats it by."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import NamedTuple

import numpy as np

from ..emitter.emitter import Emitter
from ..emitter.symbol import Symbol
from ..tape.draft_values import SCALAR_LAYOUT
from ..tape.instruction import GUARD, NONE, Instruction, instruction
from ..tape.uses import key_of
from . import walk_words as names
from .accumulators import POOL_COUNT, Cells
from .row_classes import Kinds
from .walk_words import FRESH, OWN, THEIRS

LINE = NONE - 1  # the place of the line
MOST_NUMBERS = 1 << 16  # One template names at most this many plain numbers.


def newest(known: dict, count: int) -> list:
    """Return what was added to a dictionary since it had ``count`` items."""
    return list(islice(reversed(known.items()), len(known) - count))[::-1]


def named(number: int, emitter, numbers: list):
    """Return the cotangent, or the partial, that a kernel has a number for: a symbol or a plain number."""
    return Symbol(emitter, number) if number > names.FIRST_NUMBER else numbers[names.FIRST_NUMBER - number]


class Sums(dict[int, list]):
    """The products that tangents are sums of, by the tangent's value.

    Its items are those that Python has noted. Those that the kernel has noted are in its table.

    Attributes
    ----------
    table
        For each value how many products it is the sum of, and these.
    numbers
        The plain numbers among them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.table = np.zeros((0, names.SUM_WORDS), np.int32)
        self.numbers: list = []

    def products_of(self, tangent: Symbol) -> list:
        """Return the products that a tangent is the sum of, none if it is no sum."""
        value = tangent.number
        if value in self or value >= len(self.table):
            return self.get(value, [])
        count, *products = self.table[value].tolist()
        return [named(number, tangent.emitter, self.numbers) for number in products[:count]]


class Unrepeatable(Exception):
    """A derivative did something that the kernel cannot repeat."""


class NewValue(NamedTuple):
    """Where a new value is.

    Attributes
    ----------
    where
        FRESH: in a new cell of a pool. OWN: in a new storage. THEIRS: in the storage of another value.
    what
        FRESH: the pool. OWN: which of the new storages. THEIRS: the place of that value.
    which
        FRESH: whether another value is in this cell already. OWN, THEIRS: the place of a value that has the
        offset, or NONE.
    offset
        FRESH: which of the pool's new cells. Else the offset as a size code, if it is always the same.
    layout
        The number of the layout.
    """

    where: int
    what: int
    which: int
    offset: int
    layout: int


class Before:
    """The state of a tape before the derivative of an instruction is appended.

    Numbers are named by their *place* in a list: the signature's arguments, then the new values, then other
    numbers, then those of new guards, then the line and NONE. So NONE is also the place of operands that are
    not there.

    Parameters
    ----------
    sums
        The products that tangents are sums of.
    row
        The instruction.
    arguments
        Values that the signature names; the first are the result and the operands.
    moving
        Those of them that are arrays whose offsets do not follow from the signature.
    collected, added
        Values whose cotangents (or tangents) are read, and those to whose cotangents are added.
    number_of
        Gives the kernel's number of a cotangent, a tangent or a partial.
    """

    def __init__(
        self,
        emitter: Emitter,
        cells: Cells,
        sums: Sums,
        row: Instruction,
        arguments: list[int],
        moving: set[int],
        collected: list[int],
        added: list[int],
        number_of: Callable[[object], int],
    ):
        self._emitter = emitter
        self._tape = tape = emitter.tape
        self._cells = cells
        self._sums = sums
        self._number_of = number_of
        self._line = row.line
        self._own = (row.out, *row.operands)
        self._arguments = arguments
        self._moving = moving
        self._added = added
        self._touched = [*collected, *added]
        sized = (tape.code, tape.values, tape.storages, emitter.slopes, sums)
        self._counts = tuple(map(len, sized))
        self._guards = len(tape.guards)
        self._unrepeatable = self._other_counts()
        self._pools = list(tape.pool_cells)
        values, buffers = tape.values, cells.buffers
        # For each storage, a value in it, and how many contributions stay pending.
        self._arrays: dict[int, tuple[int, int]] = {}
        for value in added:
            storage = values[value][0]
            if storage >= POOL_COUNT:
                waiting = buffers[storage].count if storage in buffers else 0
                self._arrays[storage] = value, waiting
        self._before: dict[int, list] = {}  # for each storage, what was known of collected arrays
        for value in collected:
            storage, _, _ = values[value]
            if storage in buffers:
                self._arrays[storage] = value, NONE
                self._before[storage] = self._state(storage)
        self._parts = cells.parts = {}

    def _has_changed(self, storage: int) -> bool:
        """Whether the derivative may have changed the cotangents of an array."""
        return storage not in self._before or self._before[storage] != self._state(storage)

    def _state(self, storage: int) -> list:
        buffer = self._cells.buffers[storage]
        self._cells.list_early(buffer)
        parts = [(*address, self._number_of(ct)) for *address, ct in buffer.pending]
        return [buffer.base, *parts]

    def _other_counts(self) -> tuple[int, ...]:
        tape = self._tape
        literals = len(tape.literals) - len(tape.cell_literals)
        return len(tape.inputs), len(tape.calls), len(tape.inner), literals

    def words(self, kinds: Kinds) -> list[int]:
        """Return what was appended since as a template, see `numbatape.derive.walk_words`.

        Raises
        ------
        Unrepeatable
            If something else was done than to append instructions, values and storages, and guards whose
            outcome is assumed (`Emitter.ask`).
        """
        self._cells.parts = None
        tape = self._tape
        guards = tape.guards[self._guards :]
        known = not self._emitter.assumes or any(guard.kind != "bool" for guard in guards)
        if self._other_counts() != self._unrepeatable or (guards and known):
            raise Unrepeatable
        self._new_guards = len(guards)
        code, values, storages, slopes, sums = self._counts
        self._literals = set(tape.cell_literals.values())
        new = [value for value in range(values, len(tape.values)) if value not in self._literals]
        arguments = self._arguments
        self._places = {value: place for place, value in enumerate(new, len(arguments))}
        self._places |= {value: place for place, value in reversed([*enumerate(arguments)])}
        self._first = len(arguments) + len(new)
        self._others: dict[int, int] = {}  # places of other numbers
        self._new_cells = [0] * POOL_COUNT
        placed = self._placed(new, storages)
        parts: list[list] = [[] for _ in range(names.HEADER)]
        parts[names.NEW_VALUES] = [
            (*its, kinds.of(v, its.where != FRESH and its.which != NONE and tape.storage_of(v) >= POOL_COUNT))
            for its, v in zip(placed, new, strict=True)
        ]
        parts[names.POOL_PART] = [(pool, count) for pool, count in enumerate(self._new_cells) if count]
        parts[names.STORAGE_PART] = tape.storages[storages:]
        parts[names.CODE_PART] = [self._row(instruction(row)) for row in tape.code[code:]]
        parts[names.CELL_PART] = self._added_cells()
        parts[names.ARRAY_PART] = [
            self._array(storage, *its)
            for storage, its in self._arrays.items()
            if storage in self._cells.buffers and self._has_changed(storage)
        ]
        parts[names.SLOPE_PART] = [
            (self._place(value), operand, self._place_of(slope))
            for (value, operand), slope in newest(self._emitter.slopes, slopes)
        ]
        parts[names.SUM_PART] = [self._sum(value, terms) for value, terms in newest(self._sums, sums)]
        parts[names.SPARE_PART] = [(self._places[value],) for value in new if value in tape.spare]
        parts[names.GUARD_PART] = [()] * len(guards)
        parts[names.OTHERS] = [(number,) for number in self._others]
        if self._first + len(self._others) + len(guards) + 2 > MOST_NUMBERS:
            raise Unrepeatable
        words = [len(part) for part in parts]
        for part in parts:
            for group in part:
                words += group
        return words

    def _place(self, value: int) -> int:
        """Return the place of a value."""
        if value == NONE:
            return NONE
        if value not in self._places:
            if value not in self._literals:
                # The signature does not name this value, so no other instruction has one in its place.
                raise Unrepeatable
            self._places[value] = self._constant(value)
        return self._places[value]

    def _constant(self, number: int) -> int:
        """Return the place of a number that is the same wherever the template is repeated."""
        return self._others.setdefault(number, self._first + len(self._others))

    def _place_of(self, part) -> int:
        """Return the place of a cotangent or a partial."""
        number = self._number_of(part)
        return self._place(number) if number >= 0 else self._constant(number)

    def _row(self, row: Instruction) -> list[int]:
        """Return the places of an instruction's fields."""
        if row.line != self._line:
            raise Unrepeatable
        fields = [self._constant(number) for number in (row.op, row.active, row.stage)]
        fields += map(self._place, (row.out, row.a, row.b, row.c))
        if row.op == GUARD:
            return [*fields, LINE - self._new_guards + row.aux - self._guards, LINE]
        return [*fields, self._place(row.aux), LINE]

    def _placed(self, new: list[int], storages: int) -> list[NewValue]:
        """Return where the new values are; ``storages`` is the number of storages that there were."""
        values = self._tape.values
        cells: dict[tuple[int, int], int] = {}  # new ones
        old = {values[v][:2]: v for v in (*self._literals, *self._arguments)}
        begun = set()  # new storages whose first value has been seen: it begins where the storage does
        found = []
        for value in new:
            storage, offset, layout = place = values[value]
            if storage >= storages:
                cell = self._cell_of(value) if storage in begun else NONE
                begun.add(storage)
                found.append(NewValue(OWN, storage - storages, cell, offset, layout))
            elif storage >= POOL_COUNT:
                found.append(self._beside(value))
            elif place[:2] in old:
                its = self._place(old[place[:2]])
                found.append(NewValue(THEIRS, its, its, 0, layout))
            elif offset >= self._pools[storage]:
                view = place[:2] in cells
                if not view:
                    cells[place[:2]] = self._new_cells[storage]
                    self._new_cells[storage] += 1
                found.append(NewValue(FRESH, storage, view, cells[place[:2]], layout))
            else:
                raise Unrepeatable
        return found

    def _cell_of(self, value: int) -> int:
        """Return the place of the operand whose offset a new value has; NONE if the offset is no operand's.

        The offsets of parts of arrays follow from the signature, unless the part is a cell: then its sum is
        as far from the beginning of the sums as the cell from the beginning of its array.
        """
        part = self._parts.get(value) or self._viewed_part(value)
        if part is None or not part.cell:
            return NONE
        address = part.storage, part.offset, SCALAR_LAYOUT
        its = [v for v in self._touched if self._tape.values[v] == address]
        if part.start or not its:  # the kernel cannot add offsets, which may be symbolic sizes
            raise Unrepeatable
        return self._place(its[0])

    def _viewed_part(self, value: int):
        """Return the part of an array, a cell, that a new value is a view of: it has the cell's offset."""
        values = self._tape.values
        storage, offset, _ = values[value]
        for other, part in self._parts.items():
            if other < value and part.cell and values[other][0] == storage:
                if values[other][1] != offset:
                    raise Unrepeatable
                return part
        return None

    def _beside(self, value: int) -> NewValue:
        """Return where a view of the storage of an argument is."""
        values = self._tape.values
        storage, offset, layout = values[value]
        its = [v for v in self._arguments if values[v][0] == storage]
        if not its:
            raise Unrepeatable
        cell = self._cell_of(value)
        loose = [v for v in its if values[v][2] == SCALAR_LAYOUT or v in self._moving]
        same = [v for v in loose if values[v][1] == offset]
        if value in self._parts:
            if not self._moving.isdisjoint(its):
                raise Unrepeatable  # the sums may begin at the offset of an argument that is moving
        elif cell != NONE:
            if same:
                raise Unrepeatable  # the offset may be that of the part, or that of the argument
        elif loose:  # a view of a cell has the offset of the cell
            if len(loose) < len(its) or not same:
                raise Unrepeatable  # the offset may be that of the array, or that of one of its cells
            cell = self._place(same[0])
        return NewValue(THEIRS, self._place(its[0]), cell, offset, layout)

    def _added_cells(self) -> list[tuple[int, int]]:
        """Return which operands in cells of pools have cotangents now, and the places of these."""
        found = []
        for value in self._added:
            storage, offset, _ = self._tape.values[value]
            known = self._cells.cells.get(key_of(storage, offset)) if storage < POOL_COUNT else None
            if known is not None:
                found.append((self._own.index(value), self._place_of(known)))
        return found

    def _array(self, storage: int, value: int, waiting: int) -> list[int]:
        """Return what has become of the cotangents of an array."""
        buffer, stays = self._cells.buffers[storage], waiting != NONE
        if not stays:
            self._cells.list_early(buffer)
        pending = buffer.pending[len(buffer.pending) - buffer.count + waiting if stays else 0 :]
        base = NONE if buffer.base is None or stays else self._place(buffer.base)
        words = [self._own.index(value), int(stays), base, len(pending)]
        for *address, ct in pending:
            words += (self._added_to(storage, *address), self._place_of(ct))
        return words

    def _added_to(self, storage: int, offset: int, dims, strides) -> int:
        """Return the place of the argument that is this part of an array."""
        tape = self._tape
        for value in self._arguments:
            its, its_offset, layout = tape.values[value]
            known = tape.layouts[layout]
            if (its, its_offset, known.dims, known.strides) == (storage, offset, dims, strides):
                return self._place(value)
        raise Unrepeatable

    def _sum(self, value: int, terms: list) -> list[int]:
        places = list(map(self._place_of, terms))
        return [self._place(value), len(places), *places, *[NONE] * (3 - len(places))]
