"""`Draft`: what a builder has recorded, as columns, while passes rewrite it and it becomes a tape.

A pass takes the instructions as columns (`numbatape.tape.instruction.columns`) and returns them rewritten.
The values are columns here, too (`numbatape.tape.draft_values`): passes give values other addresses, and what
they have made goes back to the builder at the end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .combinations import by_combination, flatnonzero
from .draft_values import SCALAR_LAYOUT, DraftValues
from .families import POOLS
from .instruction import NONE
from .sizes import FEW
from .tape import Rewrite, covers
from .uses import SCRATCH, Fields, Uses

UNFELT = 1000  # Nobody can measure one instruction among so many.
LANES = 8  # Most derivatives have at least this many directions.


class Draft(DraftValues):
    """A recording as columns.

    Parameters
    ----------
    builder
        What was recorded.
    outputs
        Values that the tape computes.
    directions
        Inputs that will have lanes, if all values that depend on them are linear in them.

    Attributes
    ----------
    calls
        The rules and loops by number, which passes may replace.
    rewrites
        What passes have done, as `Tape.rewrites`.
    forward
        Whether the tape will be swept forward alone.
    """

    forward = False

    def __init__(self, builder, outputs: tuple[int, ...], directions: tuple[int, ...] = ()):
        super().__init__(builder)
        self.outputs, self.directions = outputs, directions
        self.ops, self.calls = builder.ops, list(builder.calls)
        self._end_values = np.array([*outputs, *(slot.value for slot in builder.inputs)], np.intp)
        self.rewrites: list[Rewrite] = list(builder.rewrites)
        self._covering: dict[tuple[int, int], bool] = {}
        self._uses: Uses | None = None
        self._fields: Fields | None = None
        self._fixed: tuple[Uses, np.ndarray] | None = None  # see `fixed`

    # ---- who reads and writes

    def uses(self, code: np.ndarray) -> Uses:
        """Return who writes and reads which group; kept as long as a pass leaves instructions and values."""
        if self._uses is None or self._uses.code is not code or self._uses.count != self.count:
            self._uses = Uses(code, self.group, self.count)
        return self._uses

    def fields(self, code: np.ndarray) -> Fields:
        """Return the fields of instructions, kept as long as a pass leaves these."""
        if self._fields is None or self._fields.code is not code:
            self._fields = Fields(self.ops, code)
        return self._fields

    def forget_fields(self) -> None:
        """Free what `fields` keeps, which takes as much memory as the instructions."""
        self._fields = None

    def forget_uses(self) -> None:
        """Free what `uses` and `fields` keep, a large part of the memory of a long tape."""
        self._uses = self._fixed = self._fields = None

    def ends(self) -> np.ndarray:
        """Return for each group whether it is needed after the last instruction: outputs and inputs are."""
        return self.flags(self._end_values)

    def fixed(self, uses: Uses) -> np.ndarray:
        """Return the groups whose cells passes leave alone: `ends`, literal arrays and scratch."""
        if self._fixed is None or self._fixed[0] is not uses:
            found = self.ends() | uses.flags(uses.operands[:, SCRATCH])
            literals = self.literal_groups()
            found[literals[self.groups()[0][literals] >= len(POOLS)]] = True
            self._fixed = uses, found
        return self._fixed[1].copy()

    def array_rows(self, code: np.ndarray, ops) -> np.ndarray:
        """Return the numbers of the instructions that make arrays by one of some ops, given by row."""
        found = self.fields(code).of(ops)
        return found[self.is_array(self.fields(code).out.take(found))]

    def is_felt(self, code: np.ndarray, rows: np.ndarray) -> bool:
        """Whether a sweep may be measurably faster once some instructions are rewritten.

        A few instructions on few cells among thousands of others are not worth it: any change lets all later
        passes look at all instructions anew.
        """
        most = len(code) // UNFELT  # instructions on FEW cells
        if len(rows) > most:
            return True
        total = 0
        for layout in self.layout[self.fields(code).out[rows]].tolist():
            dims = [*map(self.sizes.settled, self.layouts[layout].dims)]
            total += max(FEW, math.prod(dims) * LANES)
            if min(dims, default=0) < 0 or total > FEW * most:
                return True
        return False

    # ---- other addresses

    def move(self, value: int, base: int, dims, strides) -> None:
        """Give a recorded value the address of another one, with a layout of its own."""
        storage, offset, _, group = self._row(base)
        layout = self.builder.layout_number(tuple(dims), tuple(strides))
        for column, number in zip(self._values, (storage, offset, layout, group), strict=True):
            column[value] = number
        self._uses = None

    def shorten(self, value: int, count: int) -> None:
        """Let a vector that begins a storage, and the storage, have fewer cells."""
        storage = self.address(value)[0]
        self._storage_columns = self.storage_columns().copy()
        self._storage_columns[0, storage] = count
        self.storages[storage] = (count, *self.storages[storage][1:])
        self._covering.clear()
        self.move(value, value, (count,), (1,))

    def redirect(self, alias: np.ndarray, but: Sequence[int] = ()) -> None:
        """Let each value name the cells of another group: that which ``alias`` has for the value's group.

        The values in ``but`` stay where they are.
        """
        storage, offset, _, group = self._columns()
        home, cell = self.groups()
        moves = alias[group[:-1]] != group[:-1]
        moves[list(but)] = False
        moved = flatnonzero(moves)
        group[moved] = alias[group[moved]]
        storage[moved] = home[group[moved]]
        pooled = moved[storage[moved] < len(POOLS)]
        offset[pooled] = cell[group[pooled]]
        self._uses = None

    def relocate(self, moved: np.ndarray, homes: np.ndarray, offsets: np.ndarray) -> None:
        """Move cells of pools into cells of arrays.

        Parameters
        ----------
        moved
            The groups whose cells move.
        homes, offsets
            An array for each of them, as a value that has all of its cells, and the cell there.
        """
        storage, offset, _, group = self._columns()
        place = np.full(self.count, NONE, np.int32)
        place[moved] = np.arange(len(moved), dtype=np.int32)
        found = flatnonzero(place[group[:-1]] != NONE)
        at = place[group[found]]
        storage[found], offset[found], group[found] = storage[homes[at]], offsets[at], group[homes[at]]
        self._uses = None

    def join(self, arrays: np.ndarray, whole: int, size: int) -> None:
        """Let arrays be parts of another one, which follow one another there.

        Parameters
        ----------
        arrays
            Their groups. Each has a storage to itself.
        whole
            A value that begins the other storage.
        size
            The cells of each array.
        """
        home, _, _, its = self._row(whole)
        storage, offset, _, group = self._columns()
        place = np.full(self.count, NONE, np.int32)
        place[arrays] = np.arange(len(arrays), dtype=np.int32)
        found = flatnonzero(place[group[:-1]] != NONE)
        starts = size * place[group[found]]
        for value, start in zip(found.tolist(), starts.tolist(), strict=True):
            offset[value] = self.sizes.add(offset.item(value), start)
        storage[found], group[found] = home, its
        self._uses = None

    # ---- back to the builder

    def write_back(self, code: np.ndarray, start: int) -> None:
        """Let the builder go on from what passes have made of what it recorded.

        Parameters
        ----------
        code
            The instructions.
        start
            The first one that passes have rewritten.
        """
        builder, known = self.builder, len(self.builder.values)
        storage, offset, layout, _ = self._columns()
        before = builder.values.addresses()
        rows = np.stack([storage, offset, layout], axis=1)
        moved = flatnonzero((before[0] != storage[:known]) | (before[1] != offset[:known]))
        builder.values.replace(moved, rows[moved])
        builder.note_views([(s, o) for s, o, _ in rows[moved].tolist() if s < len(POOLS)])
        builder.values.extend(rows[known:])
        builder.storages += self.storages[self._recorded_storages :]
        builder.pool_cells[:] = self._cells
        for value, item in self.new_literals():
            if layout[value] == SCALAR_LAYOUT:
                builder.name_literal(value, item.data[0], self.kind_of(value)[0])
        builder.literals = self.literals
        builder.rewrites[:] = self.rewrites
        builder.code.cut(start)
        builder.code.extend(code[start:].view(np.int32).reshape(-1, len(code.dtype)))

    # ---- what views cover

    def covers(self, values: np.ndarray) -> np.ndarray:
        """Return which values have every cell of their storage once, for all sizes that guards allow."""
        storage, offset, layout, _ = self._columns()
        whole = flatnonzero(offset[values] == 0)
        found = np.zeros(len(values), bool)
        sizes = self.storage_columns()[0][storage[values[whole]]]
        found[whole] = by_combination(self._covers, layout[values[whole]], sizes)
        return found

    def _covers(self, layout: int, size: int) -> bool:
        known = self._covering.get((layout, size))
        if known is None:
            known = self._covering[layout, size] = covers(self.builder, self.layouts[layout], size)
        return known
