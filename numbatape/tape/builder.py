"""`TapeBuilder`: appends values and instructions while tracing, then freezes them into a `Tape`.

Instructions are kept as `Code` and addresses as `Values`, which become arrays when the builder is frozen
(`numbatape.tape.freezing`).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from ..late import imported
from ..stalls import ARRAY_LOOKS, LOOKS, TRACING
from .cell_literals import CellLiterals, Literals, Numbers
from .code import Code, SourceLines
from .combinations import combinations
from .draft import Draft
from .draft_values import SCALAR_LAYOUT
from .freezing import freeze
from .instruction import GUARD, MAIN, NONE, PROLOGUE, Instruction, instructions, rows_as_columns
from .packed_values import Values
from .rows import Rows
from .sizes import Sizes
from .tape import CONSTANT, F64, FAMILY_DTYPE, POOLS, Guard, InputSlot, Layout, Line, Literal, Rewrite, Tape

WINDOW = 1 << 16  # instructions that are re-rolled at once while a long loop is recorded


class TapeBuilder:
    """A tape under construction.

    Parameters
    ----------
    ops
        The op table.

    Attributes
    ----------
    spare
        Results of fallible instructions that may be dropped all the same: parts of derivative rules, which
        fail only where the instruction that they are the derivative of has failed before.
    inner
        What belongs to the body of a loop, by key (`numbatape.tape.uses.keys_of`), and the loop's name:
        nothing else may read it.
    exact
        Whether all results have the bits of NumPy's own functions (``Config(values="numpy")``), and so passes
        may change none.
    rewrites
        What passes have done while recording, as `Tape.rewrites`.
    floor
        Values below this number keep their addresses: those from outside while a body is recorded.
    rolls
        Whether long loops may be re-rolled while they are recorded (`numbatape.tape.rerolling.windows`).
    """

    def __init__(self, ops: Rows):
        self.ops = ops
        self.names = ops.names
        self.spare: set[int] = set()
        self.inner: dict[int, str] = {}
        self.floor = 0
        self.rolls = False
        self._windows: Any = None
        self.exact = False
        self.rewrites: list[Rewrite] = []
        self.sizes = Sizes()
        self.code = Code()
        self.values = Values()
        self.storages: list[tuple[int, int, int]] = [(0, f, lv) for lv, f in POOLS]
        # The first storages as columns, in pieces: a tuple, because a copy of a builder adds its own pieces.
        self._columns: tuple[np.ndarray, ...] = ()
        self._in_columns = 0  # how many storages these are
        self.layouts: list[Layout] = [Layout((), ())]
        self.pool_cells = [0] * len(POOLS)
        self.literals = Literals()
        self.inputs: list[InputSlot] = []
        self.guards: list[Guard] = []
        self.calls: list = []  # rules by the number that call instructions have as an operand
        # The keys are dimensions and strides.
        self._layout_index: dict[tuple, int] = {((), ()): SCALAR_LAYOUT}
        self._dense: dict[tuple, tuple[int, int]] = {}  # layout and cells of new arrays by their dimensions
        self._row_major: dict[tuple, tuple[tuple[int, ...], int]] = {}  # cache of `contiguous_strides`
        self.rearranged: dict[tuple, Any] = {}  # cache of `numbatape.emitter.addresses`
        self.results: dict[tuple, tuple] = {}  # cache of `numbatape.emitter.instructions`
        self.cell_literals = CellLiterals()
        self.numbers = Numbers()
        self._expected: dict[tuple, int] = {}  # literals of guards
        self.source = SourceLines()
        self._viewed: set[tuple[int, int]] = set()  # pool cells that more than one value refers to

    # ---- values

    def scalar(self, family: int, level: int) -> int:
        """Return a new one-cell value."""
        pool = 2 * level + family
        offset = self.pool_cells[pool]
        self.pool_cells[pool] = offset + 1
        if not offset & LOOKS:
            self.look()
        return self.values.append((pool, offset, SCALAR_LAYOUT))

    def array(self, dims: tuple[int, ...], family: int, level: int) -> int:
        """Return a new contiguous value with a storage of its own."""
        if not dims:
            return self.scalar(family, level)
        return self.new_array(*self.dense(dims), family, level)

    def dense(self, dims: tuple[int, ...]) -> tuple[int, int]:
        """Return the layout and the number of cells of new arrays with the given dimensions."""
        found = self._dense.get(dims)
        if found is None:
            strides, size = self.contiguous_strides(dims)
            found = self._dense[dims] = self.layout_number(dims, strides), size
        return found

    def new_array(self, layout: int, cells: int, family: int, level: int) -> int:
        """Return a new value with a storage of its own, given what `dense` returns."""
        storages = self.storages
        storage = len(storages)
        storages.append((cells, family, level))
        if not storage & ARRAY_LOOKS:
            self.look()
        return self.values.append_array((storage, 0, layout))

    def storage_columns(self) -> np.ndarray:
        """Return size, family and level of all storages.

        They are kept: each derivative and each draft asks for those of all storages before it.
        """
        self._note_columns()
        if len(self._columns) != 1:
            self._columns = (np.concatenate(self._columns, axis=1),)
        return self._columns[0]

    def _note_columns(self) -> None:
        known = self._in_columns
        if known < len(self.storages):
            self._columns = *self._columns, rows_as_columns(self.storages[known:], 3)
            self._in_columns = len(self.storages)

    def add_storages(self, rows: np.ndarray) -> None:
        """Append storages, given as rows of size, family and level."""
        self._note_columns()
        self._columns = *self._columns, rows.T.astype(np.int32)
        first, number = combinations(*rows.T)
        kinds = [tuple(row) for row in rows[first].tolist()]  # One tuple serves many storages.
        self.storages += map(kinds.__getitem__, number.tolist())
        self._in_columns = len(self.storages)

    def set_level(self, storage: int, level: int) -> None:
        """Let a storage depend on what its cells depend on by now."""
        size, family, _ = self.storages[storage]
        self.storages[storage] = size, family, level
        if storage < self._in_columns:
            self._columns, self._in_columns = (), 0

    def view(self, storage: int, offset: int, dims, strides) -> int:
        """Return a value that is an address in an existing storage."""
        return self.seen_as(storage, offset, self.layout_number(tuple(dims), tuple(strides)))

    def seen_as(self, storage: int, offset: int, layout: int) -> int:
        """Return the value that `view` returns, given the number of its layout."""
        if storage < len(POOLS):
            self.note_views([(storage, offset)])
        return self.values.append((storage, offset, layout))

    def note_views(self, cells: list) -> None:
        """Note that more than one value refers to cells of pools, given by pool and cell."""
        if self._windows is not None and any(
            POOLS[pool][0] != CONSTANT and self._windows.has(pool, cell) for pool, cell in cells
        ):
            self.unroll()  # a window moves its cells, and would leave the other values behind
        self._viewed.update(cells)

    def layout_number(self, dims: tuple[int, ...], strides: tuple[int, ...]) -> int:
        """Return the number of a layout."""
        number = self._layout_index.get((dims, strides))
        if number is None:
            number = self._layout_index[(dims, strides)] = len(self.layouts)
            self.layouts.append(Layout(dims, strides))
        return number

    def rehome(self, number: int, storage: int, offset: int) -> bool:
        """Move a scalar into a storage's cell to which nothing writes; return whether that was possible.

        Its instruction then writes there, and its readers read there, which saves a copy.
        """
        if self._windows is not None and number < self._windows.values:
            self.unroll()
        pool, cell, _ = self.values[number]
        _, family, level = self.storages[storage]
        # The prologue does not write again what each sweep overwrites, so constants stay where they are. The
        # two cells must be of one pool's kind, and no other value may name the cell that is given up.
        if (
            number < self.floor
            or level == CONSTANT
            or pool != 2 * level + family
            or (pool, cell) in self._viewed
        ):
            return False
        self.values[number] = (storage, offset, SCALAR_LAYOUT)
        return True

    def contiguous_strides(self, dims) -> tuple[tuple[int, ...], int]:
        """Return row-major strides and the number of cells, as size codes."""
        dims = tuple(dims)
        found = self._row_major.get(dims)
        if found is None:
            strides, size = [], 1
            for dim in reversed(dims):
                strides.append(size)
                size = self.sizes.mul(size, dim)
            found = self._row_major[dims] = tuple(reversed(strides)), size
        return found

    def literal(self, data: np.ndarray, family: int) -> int:
        """Return a constant value holding a copy of ``data``."""
        data = np.asarray(data, FAMILY_DTYPE[family], order="C")
        if data.ndim == 0:
            number = data[()]
            value = self.cell_literals.get(number, family)
            if value is None:
                pool = 2 * CONSTANT + family
                offset = self.pool_cells[pool]
                value = self.scalar(family, CONSTANT)
                if family == F64:
                    self.literals.append_cell(pool, offset, number)
                else:
                    self.literals.append(Literal(pool, offset, data.flatten()))
                self.name_literal(value, number, family)
            return value
        value = self.array(data.shape, family, CONSTANT)
        self.literals.append(Literal(self.values[value][0], 0, data.flatten()))
        return value

    def name_literal(self, value: int, number, family: int) -> None:
        """Note that a value is a literal of one cell, which holds ``number``."""
        self.cell_literals.note(number, family, value)
        if family == F64:
            self.numbers[value] = number

    def input(self, shape: tuple[int, ...], family: int, level: int) -> int:
        """Return the value of the next argument leaf; its dimensions are symbols."""
        first = sum(len(slot.dims) for slot in self.inputs)
        dims = tuple(self.sizes.input(first + k, n) for k, n in enumerate(shape))
        strides, size = self.contiguous_strides(dims)
        self.storages.append((size if dims else 1, family, level))
        value = self.view(len(self.storages) - 1, 0, dims, strides)
        self.inputs.append(InputSlot(value, dims, level, family))
        return value

    def zero(self, family: int) -> int:
        """Return the literal 0.0."""
        return self.literal(np.float64(0.0), family)

    def layout_of(self, value: int) -> Layout:
        """Return a value's dimensions and strides as size codes."""
        return self.layouts[self.values[value][2]]

    def storage_of(self, value: int) -> int:
        """Return the number of the storage that a value's cells are in."""
        return self.values[value][0]

    def offset_of(self, value: int) -> int:
        """Return the size code of where a value's cells begin in its storage."""
        return self.values[value][1]

    def level_of(self, value: int) -> int:
        """Return the level of a value: that of its storage."""
        return self.storages[self.values[value][0]][2]

    def family_of(self, value: int) -> int:
        """Return the family of a value's cells."""
        return self.storages[self.values[value][0]][1]

    # ---- instructions

    def look(self) -> None:
        """Do what is due from time to time: pack instructions, and report how far a long trace has come."""
        windows = self._windows
        TRACING.step(len(self.code) + (windows.replaced if windows else 0), self._here)
        self.code.pack()
        if self.rolls and len(self.code) - (windows.stop if windows else 0) >= WINDOW:
            self._roll()

    def _roll(self) -> None:
        """Re-roll what was recorded last, so that it takes less memory; if that fails, stop trying."""
        if self._windows is None:
            self._windows = imported(".rerolling.windows", __package__).Windows(self)
        if not self._windows.roll():
            self.unroll()

    def unroll(self) -> None:
        """Let the instructions be those that were recorded, here and in future.

        Code that keeps places of instructions, or moves cells of values, must call this first.
        """
        windows, self._windows = self._windows, None
        self.rolls = False
        if windows is not None:
            fields = windows.recorded()
            self.code.cut(0)
            self.code.extend(fields)

    def part(self, pool_cells: list[int]) -> TapeBuilder:
        """Return an empty builder with the same sizes, layouts and storages; its pools have so many cells."""
        part = TapeBuilder(self.ops)
        part.exact, part.sizes, part.storages = self.exact, self.sizes, self.storages
        part.layouts, part._layout_index, part._row_major = self.layouts, self._layout_index, self._row_major
        part.pool_cells = pool_cells
        return part

    def _here(self) -> Line | str:
        """Return the user's line of the last instruction."""
        recent = self.code.recent
        return self.source.where(recent[-1]) if recent else "its beginning"

    def emit(self, op, active, stage, out, a=NONE, b=NONE, c=NONE, aux=NONE, line=NONE) -> None:
        """Append an instruction, given its fields (see `Instruction`)."""
        self.code.recent += (op, active, stage, out, a, b, c, aux, line)

    def instructions(self, start: int = 0, stop: int | None = None) -> list[Instruction]:
        """Return a stretch of the instructions, to be read one at a time."""
        return instructions(self.code[start:stop])

    def columns(self) -> np.ndarray:
        """Return all instructions as one array, see `Code.columns`."""
        return self.code.columns()

    def note_spare(self, start: int) -> None:
        """Allow unread instructions from a place on to be dropped, although they may fail."""
        self.spare.update(row.out for row in self.instructions(start) if row.row in self.ops.fallible)

    def guard(self, value: int, kind: str, outcome: int, level: int, line: int, counts: int = NONE) -> None:
        """Record that Python saw ``outcome`` in a one-cell float64 value; ``counts`` as in `Guard`."""
        key = kind, outcome
        expected = self._expected.get(key)
        if expected is None:
            expected = self.literal(np.float64(outcome), F64)
            # Zeros of floats are not kept: 0.0 and -0.0 are one key, and guards tell them apart.
            if outcome or kind != "float":
                self._expected[key] = expected
        stage = PROLOGUE if level == CONSTANT else MAIN
        self.code.recent += (GUARD, 0, stage, NONE, value, expected, NONE, len(self.guards), line)
        self.guards.append(Guard(kind, outcome, line, counts))

    def note_guards(self, rows: np.ndarray) -> None:
        """Note guards on truth values that were appended as instructions, each a row of columns."""
        numbers = self.numbers
        outcomes, lines = (rows[:, Instruction._fields.index(name)] for name in ("b", "line"))
        self.guards += [
            Guard("bool", bool(numbers[outcome]), line)
            for outcome, line in zip(outcomes.tolist(), lines.tolist(), strict=True)
        ]

    def freeze(
        self,
        outputs: tuple[int, ...],
        passes: Collection[str] = (),
        derivatives: bool = False,
        directions: tuple[int, ...] = (),
        forward: bool = False,
    ) -> Tape:
        """Return the tape that computes ``outputs``.

        Parameters
        ----------
        passes
            Names of the passes that run, see `numbatape.tape.passes`.
        derivatives
            Whether the tape contains derivatives, for which there are passes of their own.
        directions
            Inputs that will have lanes, if all values that depend on them are linear in them.
        forward
            Whether the tape will never be swept back.
        """
        if self._windows is not None:
            settled = None if directions else self._windows.settled(outputs)
            if settled is not None:
                return freeze(Draft(*settled), passes, derivatives, forward)
            self.unroll()
        return freeze(Draft(self, outputs, directions), passes, derivatives, forward)
