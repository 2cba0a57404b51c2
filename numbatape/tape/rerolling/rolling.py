"""`Rolling`: emits the instructions that replace the turns of a loop."""

from __future__ import annotations

import math

import numpy as np

from ..draft import Draft
from ..families import ACTIVE, CONSTANT, POOLS
from ..instruction import MAIN, NONE, PROLOGUE, Instruction, chosen, columns, opcode
from .cycles import RecurrenceRows
from .distribution import ONCE, RECURRENCE, REST, SUM, Component, Distribution
from .single_cells import Cells
from .turns import LOOSE, MISSING, NUMBERS, SAME, TURN, Column, inner_turns


class Rolling:
    """The vectors of one stretch.

    Parameters
    ----------
    draft
        To which arrays, views and literals are added.
    cells
        The cells of all instructions; some are moved into arrays.
    plan
        What becomes of the stretch.
    read_later
        Whether derivatives will be taken, which may read any result. Then the additions that sums replace
        stay, too. And results of instructions that stay scalar are copied into arrays, not moved there: their
        tangents and cotangents would be computed in place, in cells of arrays, which cannot be re-rolled.
    """

    def __init__(self, draft: Draft, cells: Cells, plan: Distribution, read_later: bool):
        self.read_later = read_later
        self.draft, self.cells, self.plan, self.turns = draft, cells, plan, plan.turns
        self.sizes = draft.sizes
        self._values = {
            name: self.turns.values(name)[:, self.turns.left_out :] for name in ("out", "a", "b", "c")
        }
        self._once: dict[int, int] = {}  # for each slot, the value of what is computed once
        self._kept: set[int] = set()  # slots that stay scalar
        self._known: dict[int, tuple[int, int, int]] = {}  # for each slot, what `_place` returns
        self._rows: list[np.ndarray] = []
        self._new: list[Instruction] = []

    def rows(self) -> list[np.ndarray]:
        """Return what replaces the stretch, as parts of instructions as columns."""
        self._rows.append(self.cells.code[self.turns.stretch.start : self.turns.first])
        for part in self.plan.parts:
            if part.what == REST:
                self._keep(part.slots)
            elif part.what == SUM:
                self._sum(part)
            elif part.what == RECURRENCE:
                self._recurrence(part)
            elif part.what == ONCE:
                self._compute_once(part.slots[0])
            else:
                self._vector(part.slots[0])
        self._flush()
        return self._rows

    def append(self, row: Instruction) -> None:
        """Append an instruction."""
        self._new.append(row)

    def _flush(self) -> None:
        if self._new:
            self._rows.append(columns(self._new))
            self._new = []

    def _keep(self, slots: list[int]) -> None:
        """Keep the instructions of some slots, in the order of the loop."""
        self._flush()
        self._kept.update(slots)
        self._rows.append(chosen(self.cells.code, self._places(slots)))

    def _places(self, slots: list[int]) -> np.ndarray:
        """Return the instructions of some slots, in the order of the loop."""
        turns = self.turns.first + self.turns.stretch.period * np.arange(self.turns.count)
        return (turns[:, None] + np.array(slots)).reshape(-1)

    def first_row(self, slot: int) -> Instruction:
        """Return a slot's instruction of the first turn."""
        return Instruction._make(self.cells.code[self.turns.first + slot].item())

    def _compute_once(self, slot: int) -> None:
        row = self.first_row(slot)
        self.append(row)
        self._once[slot] = row.out
        self.cells.merge(self.turns.out[slot, self.turns.left_out :])

    def _vector(self, slot: int) -> None:
        row, inner = self.first_row(slot), self._inner(slot)
        base, offset, step = self._place(slot)
        out = self._view(base, offset + self.turns.left_out * step, step, inner)
        a, b, c = (self.operand(slot, k, inner) for k in range(3))
        # A recurrence may start with a number: then what it carries takes an adjoint in later turns only.
        active = int(np.bitwise_or.reduce(self.turns.values("active")[slot, self.turns.left_out :]))
        self.append(row.replace(out=out, a=a, b=b, c=c, active=active))

    def _inner(self, slot: int) -> int:
        """Return how many turns the inner loop has that a slot's operands see; 0 for none."""
        seen = {column.inner for column in self.turns.columns[slot]} - {0}
        return seen.pop() if len(seen) == 1 else 0

    # ---- where results stand

    def _place(self, slot: int) -> tuple[int, int, int]:
        """Return a value in the array that the results of a slot stand in, their first offset and the stride.

        If they stand in a pool, they move into a new array, with the turns that are left out.
        """
        if slot in self._known:
            return self._known[slot]
        cells, out = self.cells, self.turns.out[slot]
        home = int(cells.home[out[0]])
        if home < len(POOLS):
            if self.read_later and slot in self._kept:
                values = self.turns.values("out")[slot]
                self._known[slot] = self._copied(self.first_row(slot), values), 0, 1
                return self._known[slot]
            level, family = POOLS[home]
            cells.move(out, self.draft.array((len(out),), family, level))
            home = int(cells.home[out[0]])
        first, second = cells.offset[out[:2]].tolist()
        base = self._base(home, int(self.turns.values("out")[slot, 0]))
        return base, first, second - first

    def _base(self, storage: int, value: int) -> int:
        """Return a value in a storage; ``value`` is one unless its cell was moved there."""
        return self.cells.bases.get(storage, value)

    def _view(self, base: int, offset: int, step: int, inner: int = 0, outer_step: int | None = None) -> int:
        """Return the cells of all turns at one stride, or at two."""
        count = self.turns.count
        if not inner:
            dims: tuple[int, ...] = (count,)
            steps: tuple[int, ...] = (step,)
        else:
            dims = (count // inner, inner)
            steps = (inner * step if outer_step is None else outer_step, step)
        return self.draft.view(base, offset, dims, tuple(map(self.sizes.negative, steps)))

    # ---- operands

    def operand(self, slot: int, k: int, inner: int = 0) -> int:
        """Return an operand of a slot in all turns: a vector, or a scalar where it is the same in all."""
        column, value = self.turns.columns[slot][k], self._values["abc"[k]][slot]
        turns, cells = self.turns, self.cells
        if column.kind == MISSING:
            return NONE
        if column.kind == SAME:
            return int(value[0])
        cell = cells.alias[cells.of[value]]
        if column.kind == NUMBERS:
            numbers = cells.numbers_of(value)
            return self.draft.literal(numbers.reshape(-1, inner) if inner else numbers)
        if column.kind == TURN:
            if self.is_once(column):
                return self._once[column.slot]
            base, offset, step = self._place(column.slot)
            return self._view(base, offset + (turns.left_out - column.lag) * step, step, inner)
        if column.kind == LOOSE and not self._gather_cells(cell):
            return self._in_rows(self._copied(self.first_row(slot), value), inner)
        base, offsets = self._base(int(cells.home[cell[0]]), int(value[0])), cells.offset[cell]
        its, (first, second) = inner_turns(offsets), offsets[:2].tolist()
        if its == 0:
            return self._view(base, first, second - first, inner)
        if its == inner and its:
            return self._view(base, first, second - first, inner, int(offsets[inner]) - first)
        return self._in_rows(self._gathered(self.first_row(slot), base, offsets), inner)

    def _in_rows(self, vector: int, inner: int) -> int:
        """Return a new vector with the turns of an inner loop, if there is one, as a second axis."""
        count = self.turns.count
        return self.draft.view(vector, 0, (count // inner, inner), (inner, 1)) if inner else vector

    def is_once(self, column: Column) -> bool:
        """Whether a column is the result of a slot that is computed once."""
        return column.kind == TURN and column.slot in self._once

    def _gather_cells(self, cell: np.ndarray) -> bool:
        """Move cells into one array, unless they are in one; return whether they are now."""
        cells = self.cells
        home = int(cells.home[cell[0]])
        if (cells.home[cell] != home).any():
            return False
        if home < len(POOLS):
            late = (cells.writer[cell] >= self.turns.stretch.start).any()
            if self.read_later or late or not cells.movable[cell].all():
                return False
            different = np.array(list(dict.fromkeys(cell.tolist())))
            level, family = POOLS[home]
            cells.move(different, self.draft.array((len(different),), family, level))
        return True

    def _copied(self, row: Instruction, values: np.ndarray) -> int:
        """Return an array to which cells are copied one by one."""
        draft = self.draft
        family, level = draft.kind_of(int(values[0]))
        out = draft.array((len(values),), family, level)
        op = opcode(draft.ops.number["copy"], family)
        active = int(level == ACTIVE)
        stage = PROLOGUE if level == CONSTANT else MAIN
        for place, value in enumerate(values.tolist()):
            target = draft.view(out, place, (), ())
            self.append(Instruction(op, active, stage, target, value, line=row.line))
        return out

    def _gathered(self, row: Instruction, base: int, offsets: np.ndarray) -> int:
        """Return cells of an array that follow one another in no regular way, gathered into a vector."""
        draft = self.draft
        storage = draft.address(base)[0]
        size, family, level = draft.storages[storage]
        out = draft.array((len(offsets),), family, level)
        draft_view = draft.view(base, 0, (size,), (1,))
        positions = draft.literal(offsets.astype(float))
        stage = PROLOGUE if level == CONSTANT else MAIN
        active = int(level == ACTIVE)
        op = opcode(draft.ops.number["take1"], family)
        self.append(Instruction(op, active, stage, out, draft_view, positions, line=row.line))
        return out

    # ---- recurrences

    def _recurrence(self, part: Component) -> None:
        """Emit a linear recurrence, and those results of its slots that are read elsewhere."""
        steps = self.plan.steps(part.slots)
        tail, left_out = steps[-1].slot, self.turns.left_out
        states = RecurrenceRows(self, steps).emit()
        out = self.turns.out[tail, left_out:]
        if self.cells.home[out[0]] < len(POOLS):
            self.cells.move(out, states, 1)
        else:
            base, offset, step = self._place(tail)
            row = self.first_row(tail)
            copy = opcode(self.draft.ops.number["copy"], row.family)
            active = int(self.draft.kind_of(states)[1] == ACTIVE)
            target = self._view(base, offset + left_out * step, step)
            found = self._view(states, 1, 1)
            self.append(Instruction(copy, active, row.stage, target, found, line=row.line))
        self._known[tail] = states, 1 - left_out, 1
        before = [step.slot for step in steps[:-1]]
        while before and not self._is_read_elsewhere(before[-1]):
            before.pop()
        for slot in before:
            self._vector(slot)

    def _is_read_elsewhere(self, slot: int) -> bool:
        """Whether anything but the next slot of its cycle reads the results of a slot."""
        cells = self.turns.out[slot, self.turns.left_out :]
        return bool(self.read_later or (self.cells.reads[cells] > 1).any() or self.cells.ends[cells].any())

    # ---- sums

    def _sum(self, part: Component) -> None:
        """Emit what a chain of additions comes to: the first addend plus the sum of what each turn adds."""
        plan = self.plan
        if self.read_later:
            self._flush()
            rows = chosen(self.cells.code, self._places(part.slots))
            self._rows.append(rows[rows["out"] != self._values["out"][plan.tail(part.slots), -1]])
        slot, k = plan.carried(part.slots)
        first, last = self.first_row(slot), self.first_row(plan.tail(part.slots))
        value, takes = int(self._values["abc"[k]][slot, 0]), first.active >> k & 1
        out = int(self._values["out"][plan.tail(part.slots), -1])
        kind = self.draft.kind_of(out)
        terms = self._terms(part, last, kind)
        for place, (term, active, sign) in enumerate(terms):
            name = "add" if sign > 0 else "sub"
            target = out if place == len(terms) - 1 else self.draft.array((), *kind)
            op = opcode(self.draft.ops.number[name], kind[0])
            self.append(last.replace(op=op, active=takes | active << 1, out=target, a=value, b=term))
            value, takes = target, int(takes or active)

    def _terms(self, part: Component, last: Instruction, kind) -> list[tuple[int, int, int]]:
        """Return the sums over all turns: (value, whether it takes an adjoint, sign)."""
        draft, turns, ops = self.draft, self.turns, self.draft.ops
        vectors, terms = [], []
        for slot, k, sign in self.plan.addends(part.slots):
            row, column = self.first_row(slot), turns.columns[slot][k]
            active = row.active >> k & 1
            if column.kind == NUMBERS:
                total = math.fsum(self.cells.numbers_of(self._values["abc"[k]][slot]))
                terms.append((draft.literal(np.array(total)), 0, sign))
                continue
            value = self.operand(slot, k)
            if column.kind == SAME or self.is_once(column):
                out = draft.array((), *kind)
                times = draft.literal(np.array(float(turns.count)))
                op = opcode(ops.number["mul"], kind[0])
                self.append(last.replace(op=op, active=active << 1, out=out, a=times, b=value))
                terms.append((out, active, sign))
            else:
                vectors.append((value, active, sign))
        if vectors:
            vectors.sort(key=lambda each: -each[2])
            value, active, sign = vectors[0]
            for other, takes, its in vectors[1:]:
                name = "add" if its == sign else "sub"
                out = draft.array((turns.count,), *kind)
                op = opcode(ops.number[name], kind[0])
                self.append(last.replace(op=op, active=active | takes << 1, out=out, a=value, b=other))
                value, active = out, int(active or takes)
            out = draft.array((), *kind)
            self.append(
                last.replace(op=opcode(ops.number["sum"], kind[0]), active=active, out=out, a=value, b=NONE)
            )
            terms.insert(0, (out, active, sign))
        return terms
