"""Cotangents, or tangents, of values on a tape, while they are added up.

The cotangent of a one-cell value is a sum; each addition makes a new value. Those of arrays are kept per
storage: as long as all of them belong to the same view, they are added up like scalars. Cotangents of parts
of a storage (``x[i]``, slices) are added in place to a buffer of zeros, by ``add`` instructions whose
result is their first operand. That operand takes no adjoint, because it has the same cells, and thus the
same adjoint, as the result.
"""

from __future__ import annotations

import functools
import operator
from typing import NamedTuple

import numpy as np

from ..emitter.emitter import Emitter
from ..emitter.symbol import Symbol
from ..ops import OPCODE
from ..tape.draft_values import SCALAR_LAYOUT
from ..tape.instruction import MAIN, NONE, PROLOGUE, Instruction, opcode
from ..tape.tape import ACTIVE, CONSTANT, FAMILY_DTYPE, POOLS, Layout
from ..tape.uses import key_of
from .fitting import Fitting

ADD, COPY = OPCODE["add"], OPCODE["copy"]
POOL_COUNT = len(POOLS)
MANY = 32  # parts of an array that wait, from which on they are added up as columns


class Buffer:
    """The cotangent of a storage.

    Attributes
    ----------
    pending
        Cotangents that have not been added up: (offset code, dims, strides, cotangent).
    early
        Cotangents that were added before the pending ones, many at once: columns of offsets, layouts and
        symbols.
    base
        The value, in a storage of its own, to which cotangents are added; None as long as there is none.
    """

    __slots__ = ("base", "early", "pending")

    def __init__(self):
        self.pending: list[tuple] = []
        self.early: list = []
        self.base: int | None = None

    @property
    def count(self) -> int:
        """How many cotangents have not been added up."""
        return len(self.pending) + sum([len(chunk[0]) for chunk in self.early])


class Part(NamedTuple):
    """A part of an array, and where the sum of its cotangents is.

    Attributes
    ----------
    storage, offset
        Where it begins.
    cell
        Whether it is a single cell.
    start
        Where the sums of the array's cotangents begin in their storage.
    """

    storage: int
    offset: int
    cell: bool
    start: int


class Cells(Fitting):
    """The cotangents (or tangents) of one walk: symbols, or numbers, which mean arrays with equal entries.

    Attributes
    ----------
    cells
        The cotangents of cells of pools, by `numbatape.tape.uses.key_of`.
    buffers
        Those of the other storages.
    parts
        For views of sums, the parts of arrays whose sums they are. It is None unless
        `numbatape.derive.template` has put a dictionary here.
    """

    def __init__(self, emitter: Emitter, lanes: int | None = None):
        super().__init__(emitter, lanes)
        self.cells: dict[int, object] = {}
        self.buffers: dict[int, Buffer] = {}
        self.parts: dict[int, Part] | None = None

    def begin(self, value: int, sums: int) -> None:
        """Let the cotangents of a value's storage be added, in place, to the cells of another value."""
        buffer = self.buffers[self.tape.storage_of(value)] = Buffer()
        buffer.base = sums

    def add(self, value: int, ct) -> None:
        """Add a cotangent to those of a value; sums over what was broadcast."""
        tape = self.tape
        storage, offset, layout = tape.values[value]
        family, fits = tape.storages[storage][1], False
        if ct.__class__ is Symbol:
            its_storage, _, its_layout = tape.values[ct.number]
            fits = its_layout == layout and self.lanes is None
            if tape.storages[its_storage][1] != family:
                ct = self.emitter.in_family(ct, family)
        elif ct.__class__ is np.ndarray:
            ct = self.emitter.literal(ct, family)
        if not layout and storage < POOL_COUNT:
            self._add_to_cell(key_of(storage, offset), ct if fits else self._fit(ct, ()))
            return
        its = tape.layouts[layout]
        dims, strides = its.dims, its.strides
        if storage < POOL_COUNT or (strides and min(strides) <= 0):  # symbolic strides are negative codes
            ct, dims = self._unrepeated(ct, dims, strides, family)
            fits = False
        if storage < POOL_COUNT:
            self._add_to_cell(key_of(storage, offset), self._fit(ct, ()))
            return
        buffer = self.buffers.get(storage)
        if buffer is None:
            buffer = self.buffers[storage] = Buffer()
        if not fits:
            ct = self._fit(ct, dims)
            if len(dims) > 1 and self.lanes is None and ct.__class__ is Symbol:
                ct = self._in_memory_order(ct, its)
        buffer.pending.append((offset, dims, strides, ct))

    def _add_to_cell(self, key: int, ct) -> None:
        known = self.cells.get(key)
        self.cells[key] = ct if known is None else known + ct  # type: ignore[operator]

    def whole(self, value: int):
        """Return the cotangent of a value as an array of its dimensions."""
        ct = self.collect(value)
        return self.spread(ct, value) if ct is not None and self.tape.layout_of(value).dims else ct

    def known(self, value: int) -> bool:
        """Whether a value has a cotangent."""
        storage, offset, _ = self.tape.values[value]
        return key_of(storage, offset) in self.cells if storage < POOL_COUNT else storage in self.buffers

    def collect(self, value: int):
        """Return the cotangent of a value as far as it is added up, or None."""
        tape = self.tape
        storage, offset, layout = tape.values[value]
        if storage < POOL_COUNT:
            return self.cells.get(key_of(storage, offset))
        buffer = self.buffers.get(storage)
        if buffer is None:
            return None
        its = tape.layouts[layout]
        if buffer.early and self._add_early(buffer, storage, (offset, layout)):
            return self._view(tape.storage_of(buffer.base), storage, offset, its.dims, its.strides)
        if buffer.base is None:
            pending = buffer.pending
            if len(pending) == 1 and pending[0][:3] == (offset, its.dims, its.strides):
                return pending[0][3]
            if 0 < len(pending) < MANY:
                pending = self._rearranged(pending, storage, offset, its)
            first = pending[0][:3]
            if len(pending) == 1 or all(part[:3] == first for part in pending):
                total = self._total([part[3] for part in pending])
                buffer.pending = [(*first, total)]
                if first == (offset, its.dims, its.strides):
                    return total
                if self._is_whole(storage, *first) and total.__class__ is Symbol:
                    if not any(total.layout.strides[len(self.lead) :]):
                        return self._repeated(total, its.dims)
                    total = self.emitter.dense(total)
                    buffer.pending = [(*first, total)]
                    base, start, _ = tape.values[total.number]
                    return self._view(base, storage, offset, its.dims, its.strides, start)
            if self._are_all_cells(storage, pending):
                return self._gathered(buffer, storage, offset, its)
            self._allocate(buffer, storage)
        if len(buffer.pending) < MANY:
            for part in buffer.pending:
                self._accumulate(buffer, storage, *part)
        else:
            self._write_parts(ADD, buffer, storage)
        buffer.pending = []
        assert buffer.base is not None
        return self._view(tape.storage_of(buffer.base), storage, offset, its.dims, its.strides)

    def add_columns(self, buffer: Buffer, values: np.ndarray, cts: np.ndarray) -> None:
        """Let the cotangents ``cts`` of ``values`` wait, many at once."""
        its = self.tape.values.columns(values)
        chunk = its["offset"], its["layout"], cts
        if self._are_columns(buffer):
            buffer.early.append(chunk)
        else:
            self._list(buffer, chunk)

    def _are_columns(self, buffer: Buffer) -> bool:
        """Let all cotangents that wait be columns, if they are symbols; return whether that is so."""
        pending, tape = buffer.pending, self.tape
        if self.lanes is not None or not all([part[3].__class__ is Symbol for part in pending]):
            return False
        if pending:
            rows = [(part[0], tape.layout_number(*part[1:3]), part[3].number) for part in pending]
            buffer.early.append(np.array(rows).T)
            buffer.pending = []
        return True

    def list_early(self, buffer: Buffer) -> None:
        """Let the early cotangents of a buffer be the first of those that are listed."""
        if buffer.early:
            pending, buffer.pending = buffer.pending, []
            for chunk in buffer.early:
                self._list(buffer, chunk)
            buffer.early = []
            buffer.pending += pending

    def _list(self, buffer: Buffer, chunk) -> None:
        rows, layouts = zip(*(column.tolist() for column in chunk), strict=True), self.tape.layouts
        buffer.pending += [
            (offset, *layouts[layout], Symbol(self.emitter, ct)) for offset, layout, ct in rows
        ]

    def _add_early(self, buffer: Buffer, storage: int, asked: tuple[int, int]) -> bool:
        """Add up cotangents of different parts of a storage as columns; list others, or their sum.

        ``asked`` has the offset and the layout of the part that is asked for.
        """
        if not self._are_columns(buffer):
            self.list_early(buffer)
            return False
        offsets, layouts, numbers = np.concatenate(buffer.early, axis=1)
        cells = layouts == SCALAR_LAYOUT
        if buffer.base is None:
            alike = np.all(offsets == offsets[0]) and np.all(layouts == layouts[0])
            if alike or (len(cells) == self.tape.storages[storage][0] and np.all(cells)):
                total = None
                if alike and len(numbers) >= MANY and asked == (offsets[0], layouts[0]):
                    total = self._added_up(numbers)
                if total is None:
                    self.list_early(buffer)
                else:
                    buffer.early = []
                    buffer.pending = [(asked[0], *self.tape.layouts[asked[1]], total)]
                return False
            self._allocate(buffer, storage)
        self._append_parts(ADD, buffer, storage, offsets, layouts, cells, numbers)
        buffer.early = []
        return True

    def _total(self, parts: list):
        """Return the sum of cotangents of one view, added up one after another."""
        total = None
        if len(parts) >= MANY and all([part.__class__ is Symbol for part in parts]):
            total = self._added_up(np.array([part.number for part in parts]))
        return functools.reduce(operator.add, parts) if total is None else total

    def _added_up(self, numbers: np.ndarray) -> Symbol | None:
        """Return the sum of values that are arrays, None for others, by the same instructions as columns.

        Such sums come from loops over arrays, which add to the cotangent of what they capture in each step.
        """
        tape, first = self.tape, Symbol(self.emitter, int(numbers[0]))
        dims, family = first.dims, first.family
        its = tape.values.columns(numbers)
        if not dims or any(tape.layouts[layout].dims != dims for layout in {*its["layout"].tolist()}):
            return None
        own = tape.storage_columns()[2][its["storage"]]
        levels = np.maximum.accumulate(own)[1:].tolist()
        count, storage, results = len(levels), len(tape.storages), np.arange(len(levels)) + len(tape.values)
        strides, size = tape.contiguous_strides(dims)
        layout = tape.layout_number(dims, strides)
        tape.storages += [(size, family, level) for level in levels]
        made = np.full((count, 3), layout)
        made[:, 0], made[:, 1] = storage + np.arange(count), 0
        tape.values.extend(made)
        totals = np.append(numbers[0], results[:-1])
        before = np.append(own[0], levels[:-1])
        active = (before == ACTIVE) | (own[1:] == ACTIVE) << 1
        stage = np.where(np.equal(levels, CONSTANT), PROLOGUE, MAIN)
        self._append(opcode(ADD, family), active, stage, results, totals, numbers[1:])
        return Symbol(self.emitter, int(results[-1]))

    def _append(self, *fields) -> None:
        """Append instructions given as columns, or as numbers that are the same in all of them."""
        rows = np.full((max(map(np.size, fields)), len(Instruction._fields)), NONE, np.int32)
        for k, field in enumerate(fields):
            rows[:, k] = field
        rows[:, -1] = self.emitter.line
        self.tape.code.extend(rows)

    def _view(self, base: int, storage: int, offset, dims, strides, start: int = 0) -> Symbol:
        """Return part of the cotangents of a storage.

        They are in a storage of their own, from an offset ``start`` on, lane after lane.
        """
        tape = self.tape
        place = tape.sizes.add(start, offset)
        number = tape.view(base, place, *self._with_lanes(storage, dims, strides))
        if self.parts is not None:
            self.parts[number] = Part(storage, offset, not dims, start)
        return Symbol(self.emitter, number)

    def _with_lanes(self, storage: int, dims, strides) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the dimensions and strides that a part of a storage has in the sums of cotangents."""
        step = () if self.lanes is None else (self.tape.storages[storage][0],)
        return (*self.lead, *dims), (*step, *strides)

    def _is_whole(self, storage: int, offset, dims, strides) -> bool:
        """Whether a view is all of a storage, in order."""
        (expected, size), sizes = self.tape.contiguous_strides(dims), self.tape.sizes
        return (
            offset == 0
            and sizes.all_agree(strides, expected)
            and sizes.agree(size, self.tape.storages[storage][0])
        )

    def _are_all_cells(self, storage: int, pending) -> bool:
        """Whether cotangents are those of the single cells of a storage, each of which has one."""
        count = self.tape.storages[storage][0]
        if self.lanes is not None or len(pending) != count or any(dims for _, dims, _, _ in pending):
            return False
        return {offset for offset, _, _, _ in pending} == set(range(count))

    def _gathered(self, buffer: Buffer, storage: int, offset, its: Layout) -> Symbol:
        """Copy the cotangents of all cells of a storage into an array."""
        tape, (size, family, _) = self.tape, self.tape.storages[storage]
        buffer.base = tape.array((size,), family, ACTIVE)
        self._write_parts(COPY, buffer, storage)
        buffer.pending = []
        return self._view(tape.storage_of(buffer.base), storage, offset, its.dims, its.strides)

    def _allocate(self, buffer: Buffer, storage: int) -> None:
        """Give a storage's cotangent cells of its own, zero at first."""
        size, family, _ = self.tape.storages[storage]
        cells = size if self.lanes is None else self.tape.sizes.mul(size, self.lanes)
        buffer.base = self.emitter.zeros((cells,), family).number

    def _accumulate(self, buffer: Buffer, storage: int, offset, dims, strides, ct) -> None:
        tape = self.tape
        assert buffer.base is not None
        base = tape.storage_of(buffer.base)
        family = tape.storages[base][1]
        target = self._view(base, storage, offset, dims, strides).number
        number, active = self._summand(ct, family), 0
        if ct.__class__ is Symbol and ct.level == ACTIVE:
            active = 2
        tape.emit(opcode(ADD, family), active, MAIN, target, target, number, line=self.emitter.line)

    def _write_parts(self, op: int, buffer: Buffer, storage: int) -> None:
        """Add the parts that wait to their cells, or copy them there, as columns; see `_accumulate`."""
        assert buffer.base is not None
        family = self.tape.storages[self.tape.storage_of(buffer.base)][1]
        offsets, dims, strides, summands = zip(*buffer.pending, strict=True)
        numbers = np.array([self._summand(ct, family) for ct in summands])
        views = [*zip(dims, strides, strict=True)]
        layouts = {view: self._laned_layout(storage, *view) for view in dict.fromkeys(views)}
        its = [layouts[view] for view in views]
        self._append_parts(op, buffer, storage, offsets, its, [not each for each in dims], numbers)

    def _laned_layout(self, storage: int, dims, strides) -> int:
        """Return the number of the layout that a part of a storage has in the sums of cotangents."""
        return self.tape.layout_number(*self._with_lanes(storage, dims, strides))

    def _append_parts(self, op: int, buffer: Buffer, storage: int, offsets, layouts, cells, numbers) -> None:
        """Do the same for parts given by where their sums are, whether each is a cell, and values."""
        tape = self.tape
        assert buffer.base is not None
        base = tape.storage_of(buffer.base)
        family = tape.storages[base][1]
        first, count = len(tape.values), len(numbers)
        places = np.full((count, 3), base)
        places[:, 1], places[:, 2] = offsets, layouts
        tape.values.extend(places)
        if self.parts is not None:
            parts = zip(np.array(offsets).tolist(), np.array(cells).tolist(), strict=True)
            for number, its in enumerate(parts, first):
                self.parts[number] = Part(storage, *its, 0)
        levels = tape.storage_columns()[2][tape.values.at(numbers)[0]]
        target = first + np.arange(count)
        operands = (target, numbers) if op == ADD else (numbers,)
        active = np.where(levels == ACTIVE, len(operands), 0)  # the bit of the last operand
        self._append(opcode(op, family), active, MAIN, target, *operands)

    def _summand(self, ct, family: int) -> int:
        """Return the value of a cotangent."""
        if ct.__class__ is Symbol:
            return ct.number
        return self.tape.literal(np.asarray(ct, FAMILY_DTYPE[family]), family)
