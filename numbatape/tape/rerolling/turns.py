"""`Turns`: what the operands of repeating instructions are, seen over all turns of a loop.

The instructions of a turn are its *slots*. A slot's operand in all turns is a column: the same cell in all of
them, numbers, the result of another slot a fixed number of turns before, cells of an array at a constant
stride, and so on. The first turns of a loop are often different; they are left out where that helps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..combinations import flatnonzero
from ..families import POOLS
from ..instruction import NONE
from .periods import Stretch
from .single_cells import UNKNOWN, Cells

# What a column is.
MISSING, SAME, NUMBERS, TURN, STRIDED, GATHERED, LOOSE, IRREGULAR = range(8)
MOST_LEFT_OUT = 2  # turns that are left out because what they read is read by all others, too


class Column(NamedTuple):
    """An operand of a slot in all turns.

    Attributes
    ----------
    kind
        MISSING, SAME (one cell), NUMBERS (literals), TURN (the result of a slot), STRIDED (cells of an
        array at one stride, or at two: of an inner and an outer loop), GATHERED (other cells of an array),
        LOOSE (cells of a pool, which may be moved), IRREGULAR.
    slot, lag
        Of a TURN: the slot, and how many turns before.
    inner
        Of STRIDED cells: how many turns the inner loop has, 0 for one stride.
    """

    kind: int
    slot: int = NONE
    lag: int = 0
    inner: int = 0


class Turns:
    """A stretch of repeating instructions.

    Parameters
    ----------
    cells
        The cells that they read and write.
    stretch
        Where they are.
    left_out
        How many of the first turns are left as they are.
    before
        The same stretch with other turns left out, before any cell has moved: what has been looked up for it
        holds here, too.

    Attributes
    ----------
    columns
        For each slot its three operands.
    results
        Whether the results of each slot may be, or are, the cells of an array at one stride.
    differing
        The operands of each slot, as bits, that take an adjoint in some turns only.
    slots_read
        For each slot the slots that its operands come from, in whatever turn.
    """

    def __init__(self, cells: Cells, stretch: Stretch, left_out: int = 0, before: Turns | None = None):
        self.cells, self.stretch, self.left_out = cells, stretch, left_out
        self._values: dict[str, np.ndarray] = {} if before is None else before._values
        self._known: dict[str, tuple[np.ndarray, ...]] = {} if before is None else before._known
        self.count = stretch.turns - left_out
        # The first instruction of the turns that are not left out.
        self.first = stretch.start + left_out * stretch.period
        self.out = self._cells(self.values("out")) if before is None else before.out
        self.slots_read: list[set[int]] = [set() for _ in range(stretch.period)]
        self.deepest = 0  # how many turns must be left out at least, so that fewer columns are irregular
        self.results = self._results() if before is None else before.results
        kept = self.values("active")[:, left_out:]
        self.differing = np.bitwise_or.reduce(kept ^ kept[:, :1], axis=1)
        operands = [self._operands(name) for name in "abc"]
        self.columns = list(zip(*operands, strict=True))

    def forget_tables(self) -> None:
        """Free what was looked up, more memory than the instructions take; little of it is asked again."""
        self._values, self._known = {}, {}

    def values(self, name: str) -> np.ndarray:
        """Return a field of the instructions: one row for each slot, one column for each turn.

        Most questions are about a slot in all turns, whose values follow one another in memory here.
        """
        found = self._values.get(name)
        if found is None:
            start, stop = self.stretch.start, self.stretch.stop
            table = self.cells.code[name][start:stop].reshape(self.stretch.turns, self.stretch.period)
            found = self._values[name] = np.ascontiguousarray(table.T)
        return found

    def _cells(self, values: np.ndarray) -> np.ndarray:
        return self.cells.alias.take(self.cells.of.take(values))

    def first_cell(self, slot: int, k: int) -> int:
        """Return the cell that an operand of a slot is in the first turn that is not left out."""
        value = self.cells.code["abc"[k]][self.first + slot]
        return int(self.cells.alias[self.cells.of[value]])

    def is_finite(self, slot: int, k: int) -> bool:
        """Whether an operand of a slot is a finite number in all turns, and known now."""
        cells, values = self.cells, self.values("abc"[k])[slot, self.left_out :]
        return bool(cells.is_literal[cells.of[values]].all() and np.isfinite(cells.numbers_of(values)).all())

    def _results(self) -> np.ndarray:
        """Return whether each slot's results may stand in an array at one stride."""
        cells, out = self.cells, self.out
        found = cells.movable[out].all(axis=1)
        arrays = flatnonzero(~found & (cells.home[out[:, 0]] >= len(POOLS)))
        if len(arrays):
            home, offset = cells.home[out[arrays]], cells.offset[out[arrays]]
            step = np.diff(offset, axis=1)
            strided = (home == home[:, :1]).all(axis=1) & (offset != UNKNOWN).all(axis=1)
            found[arrays] = strided & (step == step[:, :1]).all(axis=1) & (step[:, 0] != 0)
        return found

    def _operands(self, name: str) -> list[Column]:
        """Return one operand of each slot."""
        cells, values = self.cells, self.values(name)
        known = self._known.get(name)
        if known is None:
            operands = self._cells(values)
            known = operands, cells.single.take(values), cells.is_literal.take(operands)
            known = self._known[name] = *known, cells.writer.take(operands)
        operands, single, literal, writers = known
        found = [Column(MISSING if last == NONE else IRREGULAR) for last in values[:, -1].tolist()]
        # Most operands are whole arrays in some loops. Nothing more is asked about these.
        looked_up = single | literal | (writers != NONE)
        slots = flatnonzero((looked_up & (values != NONE)).any(axis=1))
        if len(slots):
            tables = values, operands, single, literal, writers
            if len(slots) < len(values):
                values, operands, single, literal, writers = (table[slots] for table in tables)
            columns = self._columns(slots.tolist(), values, operands, single, literal, writers)
            for slot, column in zip(slots.tolist(), columns, strict=True):
                found[slot] = column
        return found

    def _columns(self, slots: list[int], values, operands, is_single, is_literal, writers) -> list[Column]:
        """Return one operand of some slots, of which tables say what it is in each turn."""
        start, period, turns = self.stretch
        left_out = self.left_out
        behind = writers - np.arange(start, start + period * turns, period, dtype=np.int32)
        inside = writers >= start
        # These operands are results of turns that are not left out.
        late = writers >= self.first if left_out else inside
        ends = behind[:, -1].astype(np.int64)
        lag, slot = -(ends // period), ends % period
        constant = behind == behind[:, -1:]
        turn = inside[:, -1].copy()
        for at in flatnonzero(turn).tolist():
            turn[at] = constant[at, max(left_out, lag[at]) :].all()
        outside = ~late[:, left_out:].any(axis=1)
        kept = operands[:, left_out:]
        same = outside & (kept == kept[:, :1]).all(axis=1)
        numbers = is_literal[:, left_out:].all(axis=1)
        missing = values[:, -1] == NONE
        single = is_single.all(axis=1)
        for at in flatnonzero(inside.any(axis=1)).tolist():
            read = self.slots_read[slots[at]]
            if turn[at]:
                read.add(int(slot[at]))
                # The first turns have no turn so far before them. What they read may come from elsewhere in
                # the stretch: where a period begins in the middle of a loop's body, its first slots belong
                # to the turn before.
                made = writers[at, left_out : int(lag[at])]
                read.update(((made[made >= self.first] - start) % period).tolist())
            else:
                made = writers[at][inside[at]]
                read.update(flatnonzero(np.bincount((made - start) % period)).tolist())
        found = []
        flags = zip(
            *(each.tolist() for each in (missing, same & single, numbers, turn & single)), strict=True
        )
        for at, (is_missing, is_same, is_number, is_turn) in enumerate(flags):
            if is_missing:
                found.append(Column(MISSING))
            elif is_same:
                found.append(Column(SAME))
            elif is_number:
                found.append(Column(NUMBERS))
            elif is_turn:
                found.append(Column(TURN, int(slot[at]), int(lag[at])))
            elif outside[at] and single[at]:
                found.append(self._of_cells(kept[at], values[at, -1]))
            else:
                found.append(Column(IRREGULAR))
                last = int(writers[at, left_out:].max())
                if single[at] and start <= last < start + MOST_LEFT_OUT * period:
                    self.deepest = max(self.deepest, (last - start) // period + 1)
        return found

    def _of_cells(self, column: np.ndarray, value: int) -> Column:
        """Return what cells are that were computed before, or are no results; ``value`` is the last one."""
        cells = self.cells
        home = cells.home[column]
        if (home == home[0]).all() and home[0] >= len(POOLS):
            written = cells.draft.uses(cells.recorded).last_write
            if written[cells.draft.group[value]] >= self.stretch.start:
                return Column(IRREGULAR)  # the array is still being filled by the turns
            inner = inner_turns(cells.offset[column])
            return Column(GATHERED) if inner is None else Column(STRIDED, inner=inner)
        return Column(LOOSE) if self._may_move(column) else Column(IRREGULAR)

    def _may_move(self, column: np.ndarray) -> bool:
        cells = self.cells
        home = cells.home[column]
        return bool(cells.movable[column].all() and (home == home[0]).all())


def inner_turns(offsets: np.ndarray) -> int | None:
    """Return how offsets grow.

    The result is 0 for one stride, n for the strides of an inner loop of n turns and of an outer loop, and
    None if they grow in neither way.
    """
    steps = np.diff(offsets)
    other = np.flatnonzero(steps != steps[0])
    if not len(other):
        return 0
    inner = int(other[0]) + 1
    if inner < 2 or len(offsets) % inner:
        return None
    table = offsets.reshape(-1, inner)
    rows = table[:, 0]
    regular = (np.diff(table, axis=1) == steps[0]).all() and (np.diff(rows) == rows[1] - rows[0]).all()
    return inner if regular else None
