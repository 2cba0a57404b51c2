"""Re-rolling while a function is being recorded, so that a loop of a million instructions fits into memory.

Whenever 65 536 further instructions have been recorded, they become a *window*: they are re-rolled by
themselves, as if they were a whole tape, and the result stands in their place. A long loop becomes some
instructions on vectors for each of its windows.

At this time nobody knows what the function will do with the results, so a window keeps the instructions that
it replaces, compressed. When the recording is complete, `Windows.settled` looks whether a later instruction
reads a partial sum that a window no longer computes, and whether a guard depends on the last bits of a sum
that a window adds up in another order. If so, all windows are given up: the recorded instructions come back,
and are re-rolled together as those of shorter recordings are. The same happens as soon as other code asks
where instructions are, or moves a cell (`TapeBuilder.unroll`). Values keep the addresses that were recorded
until the recording is complete, so that the tracer does not notice windows.
"""

from __future__ import annotations

import zlib
from typing import NamedTuple

import numpy as np

from ..code import SourceLines
from ..column_scans import live
from ..combinations import numbered
from ..draft import Draft
from ..draft_values import SCALAR_LAYOUT
from ..families import CONSTANT, F64, POOLS
from ..instruction import COLUMNS, GUARD, NONE, value_numbers
from ..passes.reroll import reroll
from ..tape import Literal
from ..uses import SCRATCH, groups_of

SMALL = 8  # a window has to become so many times shorter; else it is not worth having


class Packed:
    """Columns of integers, compressed: those of a loop repeat each other's differences."""

    __slots__ = ("_bytes", "_shape")

    def __init__(self, columns: np.ndarray):
        self._shape = columns.shape
        self._bytes = zlib.compress(np.diff(columns, axis=1, prepend=np.int32(0)).tobytes(), 1)

    def columns(self) -> np.ndarray:
        """Return the columns."""
        steps = np.frombuffer(zlib.decompress(self._bytes), np.int32).reshape(self._shape)
        return np.cumsum(steps, axis=1, dtype=np.int32)


class Window(NamedTuple):
    """Instructions that stand for a longer stretch of a recording.

    Attributes
    ----------
    start, count
        Where it stands among the instructions, and how many it has.
    recorded
        The fields of the instructions that it replaces.
    moved
        Pool and offset of cells that have other places now, and these places: storage and offset.
    dropped
        Pool and offset of cells that nothing computes any more.
    """

    start: int
    count: int
    recorded: Packed
    moved: Packed
    dropped: Packed


class Windows:
    """The windows of a recording.

    Parameters
    ----------
    builder
        What records.

    Attributes
    ----------
    replaced
        How many instructions they stand for, less their own.
    values
        Values below this number may be in cells that windows have moved.
    """

    def __init__(self, builder):
        self.builder = builder
        self.replaced = 0
        self.values = 0
        # How many cells each pool had when the last window was made.
        self._cells = np.zeros(len(POOLS), np.int64)
        self._windows: list[Window] = []
        self._written = np.zeros(len(POOLS), np.int64)  # windows write no cell of a pool from this one on

    @property
    def stop(self) -> int:
        """The first instruction behind all windows."""
        return self._windows[-1].start + self._windows[-1].count if self._windows else 0

    def roll(self) -> bool:
        """Make a window of what was recorded behind the last one; return whether that was worth it."""
        builder, start = self.builder, self.stop
        rows = builder.columns()[start:]
        if self._writes_before(rows) or self._writes_entries(rows):
            return False
        part = _Part(builder, rows, self.values, self._cells)
        draft = Draft(part.builder, ())
        code = reroll(draft, part.code)
        if len(code) * SMALL > len(rows):
            return False
        made = _Made(part, draft)
        moved, dropped = made.moved(), made.dropped(code)
        if (dropped[0] >= len(POOLS)).any():
            return False
        pool, cell = self._written_cells(rows)
        np.maximum.at(self._written, pool, cell + 1)
        recorded = Packed(_fields(rows).T)
        new = made.append(code)
        builder.code.cut(start)
        builder.code.extend(_fields(new))
        self._windows.append(Window(start, len(new), recorded, Packed(moved), Packed(dropped)))
        self.values, self._cells = len(builder.values), np.array(builder.pool_cells)
        self.replaced += len(rows) - len(new)
        return True

    def has(self, pool: int, cell: int) -> bool:
        """Whether windows may have moved a cell of a pool."""
        return bool(cell < self._written[pool])

    def _writes_entries(self, rows: np.ndarray) -> bool:
        """Whether instructions compute single entries of arrays, of which a later window may compute more.

        Passes don't know who writes an entry of an array that an instruction writes to as a whole.
        """
        found = self.builder.values.columns(rows["out"][rows["op"] != GUARD])
        return bool(((found["layout"] == SCALAR_LAYOUT) & (found["storage"] >= len(POOLS))).any())

    def _written_cells(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the cells of pools that instructions write, as pools and offsets."""
        storage, offset = self.builder.values.at(rows["out"][rows["op"] != GUARD])
        pooled = storage < len(POOLS)
        return storage[pooled], offset[pooled]

    def _writes_before(self, rows: np.ndarray) -> bool:
        """Whether instructions write to cells that windows before them may have moved."""
        pool, cell = self._written_cells(rows)
        return bool((cell < self._written[pool]).any())

    def recorded(self) -> np.ndarray:
        """Return the fields of all instructions as they were recorded, as rows."""
        fields, parts, last = _fields(self.builder.columns()), [], 0
        for window in self._windows:
            parts += [fields[last : window.start], window.recorded.columns().T]
            last = window.start + window.count
        return np.concatenate([*parts, fields[last:]])

    # ---- when the recording is complete

    def settled(self, outputs: tuple[int, ...]):
        """Return a builder that has what windows have made, without all that nothing reads, and its outputs.

        Return None if something needs what windows have replaced.
        """
        builder = self.builder
        code = builder.columns()
        if self._writes_before(code[self.stop :]):
            return None
        part = _Part(builder, code, self.values, self._cells, outputs, self._places())
        if (part.addresses["storage"] == NONE).any():
            return None
        found, outputs = part.complete()
        return (found, outputs) if self._keeps_bits(Draft(found, outputs), part.code) else None

    def _places(self) -> list[np.ndarray]:
        """Return storages and offsets for the cells of each pool; NONE as a storage for what is not there."""
        homes = [
            np.stack([np.full(count, pool, np.int32), np.arange(count, dtype=np.int32)])
            for pool, count in enumerate(self.builder.pool_cells)
        ]
        for window in self._windows:
            dropped, moved = window.dropped.columns(), window.moved.columns()
            for k, home in enumerate(homes):
                home[0, dropped[1][dropped[0] == k]] = NONE
                mine = moved[0] == k
                home[:, moved[1][mine]] = moved[2:, mine]
        return homes

    def _keeps_bits(self, draft: Draft, code: np.ndarray) -> bool:
        """Whether guards and steps depend on no numbers that windows compute in another way."""
        ops = draft.ops
        jumps = (code["op"] == GUARD) | ops.is_any(ops.with_trait("jumps"), code["op"])
        if not jumps.any():
            return True
        uses = draft.uses(code)
        needed = live(uses.out, uses.operands, np.zeros(draft.count, bool), jumps)
        exact = ops.is_any(ops.with_trait("elementwise") & ops.with_trait("exact"), code["op"])
        exact &= draft.is_array(code["out"])
        others = needed & ~exact & ~jumps
        return not any(others[its.start : its.start + its.count].any() for its in self._windows)


class _Part:
    """Some instructions of a recording as a builder of their own, which numbers values and cells anew.

    Parameters
    ----------
    whole
        What records.
    rows
        The instructions.
    first_value, first_cells
        From these on, all values, and all cells of each pool, get numbers, because most of them occur. Of the
        ones before, only those that occur get numbers.
    outputs
        Further values that are needed.
    places
        For each pool: storages and offsets of its cells now.

    Attributes
    ----------
    builder, code
        The builder, and the instructions with its numbers.
    known, addresses
        The numbers and the addresses that its values have in the whole.
    cells
        By pool: the offsets that its cells have in the whole.
    """

    def __init__(self, whole, rows, first_value: int, first_cells: np.ndarray, outputs=(), places=()):
        self.whole, self.outputs = whole, outputs
        words = _numbers_in(rows)
        inputs = [slot.value for slot in whole.inputs] if places else []
        every, ends = words.reshape(-1), np.array([*outputs, *inputs], np.int32)
        # The value numbers of the whole, and which of them stands where.
        self.known, ranks = _ranked(np.append(every, ends), first_value)
        self.code = _renumbered(rows, ranks[: len(every)].reshape(words.shape))
        self._ends = ranks[len(every) :].tolist()
        self.addresses = whole.values.columns(self.known)
        storage, offset = self.addresses["storage"], self.addresses["offset"]
        recorded = storage.copy()
        for pool, (storages, offsets) in enumerate(places):
            mine = np.flatnonzero(recorded == pool)
            storage[mine], offset[mine] = storages[offset[mine]], offsets[offset[mine]]
        offset = offset.copy()
        self.cells: list[np.ndarray] = []
        for pool in range(len(POOLS)):
            mine = np.flatnonzero(storage == pool)
            cells, offset[mine] = _ranked(offset[mine], first_cells[pool])
            self.cells.append(cells)
        self.builder = part = whole.part([len(cells) for cells in self.cells])
        part.values.extend(np.stack([storage, offset, self.addresses["layout"]], axis=1))
        pool = 2 * CONSTANT + F64
        cells, numbers = whole.literals.among(pool, self.cells[pool])
        part.literals.extend_cells(pool, cells, numbers)

    def complete(self):
        """Return the builder with all that the whole has beside instructions and values, and its outputs."""
        whole, part = self.whole, self.builder
        part.code.extend(_fields(self.code))
        for value in np.flatnonzero(whole.numbers.among(self.known)).tolist():
            part.numbers[value] = whole.numbers[int(self.known[value])]
        for item in whole.literals.others():
            if item.storage >= len(POOLS):
                part.literals.append(item)
            elif item.offset in self.cells[item.storage]:
                place = int(np.searchsorted(self.cells[item.storage], item.offset))
                part.literals.append(Literal(item.storage, place, item.data))
        inputs = self._ends[len(self.outputs) :]
        slots = zip(whole.inputs, inputs, strict=True)
        part.inputs = [slot._replace(value=value) for slot, value in slots]
        part.guards, part.calls, part.rewrites = whole.guards, whole.calls, whole.rewrites
        part.source = SourceLines(whole.source.table())
        return part, tuple(self._ends[: len(self.outputs)])


class _Made:
    """What re-rolling has made of a part of a recording, by the numbers of the whole.

    Parameters
    ----------
    part, draft
        The part, and its draft after re-rolling.
    """

    def __init__(self, part: _Part, draft: Draft):
        self.part, self.draft, self.whole = part, draft, part.whole
        counts = self.whole.pool_cells
        self._storage, self._offset = draft.storage, draft.offset.astype(np.int64)
        for pool, cells in enumerate(part.cells):
            mine = np.flatnonzero(self._storage == pool)
            local = self._offset[mine]
            new = local >= len(cells)
            found = local - len(cells) + counts[pool]
            found[~new] = cells[local[~new]]
            self._offset[mine] = found

    def moved(self) -> np.ndarray:
        """Return pool and offset of cells that have moved, and storage and offset of their places."""
        before = self.part.addresses
        count = len(before)
        columns = before["storage"], before["offset"], self._storage[:count], self._offset[:count]
        moved = (columns[0] != columns[2]) | (columns[1] != columns[3])
        moved &= columns[0] < len(POOLS)
        return np.stack([column[moved] for column in columns]).astype(np.int32)

    def dropped(self, code: np.ndarray) -> np.ndarray:
        """Return pool and offset of the cells that the part computed, and its rewritten code does not."""
        draft, recorded = self.draft, self.part.code
        out, operands = groups_of(code, draft.group)
        written = np.zeros(draft.count, bool)
        written[out] = written[operands[:, SCRATCH]] = True
        results = recorded["out"][recorded["op"] != GUARD]
        found = self.part.addresses[results[~written[draft.group[results]]]]
        return np.stack([found["storage"], found["offset"]]).astype(np.int32)

    def append(self, code: np.ndarray) -> np.ndarray:
        """Give the whole what was made; return the rewritten code with its numbers."""
        whole, draft, count = self.whole, self.draft, len(self.part.addresses)
        first = len(whole.values)
        columns = self._storage[count:], self._offset[count:], draft.layout[count:]
        whole.values.extend(np.stack(columns, axis=1))
        for pool, cells in enumerate(self.part.cells):
            whole.pool_cells[pool] += draft.cells_of(pool) - len(cells)
        whole.storages += draft.storages[len(whole.storages) :]
        for value, item in draft.new_literals():
            number = first + value - count
            storage, offset, layout = whole.values[number]
            whole.literals.append(Literal(storage, offset, item.data))
            if layout == SCALAR_LAYOUT:
                whole.name_literal(number, item.data[0], whole.family_of(number))
        numbers = np.concatenate([self.part.known, np.arange(first, len(whole.values)), [NONE]])
        return _renumbered(code, numbers[_numbers_in(code)])


def _ranked(numbers: np.ndarray, first: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers that occur, or are between ``first`` and the largest one; and the rank of each.

    NONE has the rank NONE.
    """
    old = (numbers < first) & (numbers != NONE)
    rank, count = numbered(numbers[old])
    before = np.empty(count, np.int64)
    before[rank] = numbers[old]
    found = numbers - (first - count)
    found[numbers == NONE] = NONE
    found[old] = rank
    return np.append(before, np.arange(first, numbers.max(initial=first - 1) + 1)), found


def _numbers_in(rows: np.ndarray) -> np.ndarray:
    """Return result, operands and scratch of instructions, as rows of five; a guard has no scratch."""
    words = value_numbers(rows).copy()
    words[rows["op"] == GUARD, -1] = NONE
    return words


def _fields(rows: np.ndarray) -> np.ndarray:
    """Return instructions as rows of their fields."""
    return np.ascontiguousarray(rows).view(np.int32).reshape(-1, len(COLUMNS))


def _renumbered(rows: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Return instructions with other values; guards keep what stands in the place of the scratch."""
    found = rows.copy()
    guards = found["op"] == GUARD
    own = found["aux"][guards]
    for name, column in zip(("out", "a", "b", "c", "aux"), numbers.T, strict=True):
        found[name] = column
    found["aux"][guards] = own
    return found
