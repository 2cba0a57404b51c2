"""`Rolling`: emits the instructions that replace the turns of a loop."""

from __future__ import annotations

import math

import numpy as np

from ..draft import Draft
from ..families import ACTIVE, CONSTANT, POOLS
from ..instruction import MAIN, NONE, PROLOGUE, Instruction, columns, opcode
from .distribution import ONCE, REST, SUM, Component, Distribution
from .single_cells import Cells
from .turns import LOOSE, MISSING, NUMBERS, SAME, TURN, inner_turns


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
    """

    def __init__(self, draft: Draft, cells: Cells, plan: Distribution):
        self.draft, self.cells, self.plan, self.turns = draft, cells, plan, plan.turns
        self.sizes = draft.sizes
        self._values = {
            name: self.turns.values(name)[self.turns.left_out :] for name in ("out", "a", "b", "c")
        }
        self._once: dict[int, int] = {}  # by slot: the value of what is computed once
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
            elif part.what == ONCE:
                self._compute_once(part.slots[0])
            else:
                self._vector(part.slots[0])
        self._flush()
        return self._rows

    def _flush(self) -> None:
        if self._new:
            self._rows.append(columns(self._new))
            self._new = []

    def _keep(self, slots: list[int]) -> None:
        """Keep the instructions of some slots, in the order of the loop."""
        self._flush()
        self._rows.append(self.cells.code[self._places(slots)])

    def _places(self, slots: list[int]) -> np.ndarray:
        """Return the instructions of some slots, in the order of the loop."""
        turns = self.turns.first + self.turns.stretch.period * np.arange(self.turns.count)
        return (turns[:, None] + np.array(slots)).reshape(-1)

    def _first(self, slot: int) -> Instruction:
        """Return a slot's instruction of the first turn."""
        return Instruction._make(self.cells.code[self.turns.first + slot].item())

    def _compute_once(self, slot: int) -> None:
        row = self._first(slot)
        self._new.append(row)
        self._once[slot] = row.out
        self.cells.merge(self.turns.out[self.turns.left_out :, slot])

    def _vector(self, slot: int) -> None:
        row, inner = self._first(slot), self._inner(slot)
        base, offset, step = self._place(slot)
        out = self._view(base, offset + self.turns.left_out * step, step, inner)
        a, b, c = (self._operand(slot, k, inner) for k in range(3))
        self._new.append(row.replace(out=out, a=a, b=b, c=c))

    def _inner(self, slot: int) -> int:
        """Return how many turns the inner loop has that a slot's operands see; 0 for none."""
        seen = {column.inner for column in self.turns.columns[slot]} - {0}
        return seen.pop() if len(seen) == 1 else 0

    # ---- where results stand

    def _place(self, slot: int) -> tuple[int, int, int]:
        """Return a value in the array that the results of a slot stand in, their first offset and the stride.

        If they stand in a pool, they move into a new array, with the turns that are left out.
        """
        cells, out = self.cells, self.turns.out[:, slot]
        home = int(cells.home[out[0]])
        if home < len(POOLS):
            level, family = POOLS[home]
            cells.move(out, self.draft.array((len(out),), family, level))
            home = int(cells.home[out[0]])
        first, second = cells.offset[out[:2]].tolist()
        base = self._base(home, int(self.turns.values("out")[0, slot]))
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

    def _operand(self, slot: int, k: int, inner: int = 0) -> int:
        """Return an operand of a slot in all turns: a vector, or a scalar where it is the same in all."""
        column, value = self.turns.columns[slot][k], self._values["abc"[k]][:, slot]
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
            if column.slot in self._once:
                return self._once[column.slot]
            base, offset, step = self._place(column.slot)
            return self._view(base, offset + (turns.left_out - column.lag) * step, step, inner)
        if column.kind == LOOSE and not self._gather_cells(cell):
            return self._copied(self._first(slot), k, value, inner)
        base, offsets = self._base(int(cells.home[cell[0]]), int(value[0])), cells.offset[cell]
        its, (first, second) = inner_turns(offsets), offsets[:2].tolist()
        if its == 0:
            return self._view(base, first, second - first, inner)
        if its == inner and its:
            return self._view(base, first, second - first, inner, int(offsets[inner]) - first)
        return self._gathered(self._first(slot), k, base, offsets, inner)

    def _gather_cells(self, cell: np.ndarray) -> bool:
        """Move cells into one array, unless they are in one; return whether they are now."""
        cells = self.cells
        home = int(cells.home[cell[0]])
        if (cells.home[cell] != home).any():
            return False
        if home < len(POOLS):
            if not cells.movable[cell].all() or (cells.writer[cell] >= self.turns.stretch.start).any():
                return False
            different = np.array(list(dict.fromkeys(cell.tolist())))
            level, family = POOLS[home]
            cells.move(different, self.draft.array((len(different),), family, level))
        return True

    def _copied(self, row: Instruction, k: int, values: np.ndarray, inner: int) -> int:
        """Return an array to which cells are copied one by one."""
        draft = self.draft
        family, level = draft.kind_of(int(values[0]))
        out = draft.array((len(values),), family, level)
        op = opcode(draft.ops.number["copy"], family)
        active = int(level == ACTIVE)
        stage = PROLOGUE if level == CONSTANT else MAIN
        for place, value in enumerate(values.tolist()):
            target = draft.view(out, place, (), ())
            self._new.append(Instruction(op, active, stage, target, value, line=row.line))
        return draft.view(out, 0, (len(values) // inner, inner), (inner, 1)) if inner else out

    def _gathered(self, row: Instruction, k: int, base: int, offsets: np.ndarray, inner: int) -> int:
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
        self._new.append(Instruction(op, active, stage, out, draft_view, positions, line=row.line))
        return draft.view(out, 0, (len(offsets) // inner, inner), (inner, 1)) if inner else out

    # ---- sums

    def _sum(self, part: Component) -> None:
        """Emit what a chain of additions comes to: the first addend plus the sum of what each turn adds."""
        plan = self.plan
        slot, k = plan.carried(part.slots)
        first, last = self._first(slot), self._first(plan.tail(part.slots))
        value, takes = int(self._values["abc"[k]][0, slot]), first.active >> k & 1
        out = int(self._values["out"][-1, plan.tail(part.slots)])
        kind = self.draft.kind_of(out)
        terms = self._terms(part, last, kind)
        for place, (term, active, sign) in enumerate(terms):
            name = "add" if sign > 0 else "sub"
            target = out if place == len(terms) - 1 else self.draft.array((), *kind)
            op = opcode(self.draft.ops.number[name], kind[0])
            self._new.append(last.replace(op=op, active=takes | active << 1, out=target, a=value, b=term))
            value, takes = target, int(takes or active)

    def _terms(self, part: Component, last: Instruction, kind) -> list[tuple[int, int, int]]:
        """Return the sums over all turns: (value, whether it takes an adjoint, sign)."""
        draft, turns, ops = self.draft, self.turns, self.draft.ops
        vectors, terms = [], []
        for slot, k, sign in self.plan.addends(part.slots):
            row, column = self._first(slot), turns.columns[slot][k]
            active = row.active >> k & 1
            if column.kind == NUMBERS:
                total = math.fsum(self.cells.numbers_of(self._values["abc"[k]][:, slot]))
                terms.append((draft.literal(np.array(total)), 0, sign))
                continue
            value = self._operand(slot, k)
            if column.kind == SAME or (column.kind == TURN and column.slot in self._once):
                out = draft.array((), *kind)
                times = draft.literal(np.array(float(turns.count)))
                op = opcode(ops.number["mul"], kind[0])
                self._new.append(last.replace(op=op, active=active << 1, out=out, a=times, b=value))
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
                self._new.append(last.replace(op=op, active=active | takes << 1, out=out, a=value, b=other))
                value, active = out, int(active or takes)
            out = draft.array((), *kind)
            self._new.append(
                last.replace(op=opcode(ops.number["sum"], kind[0]), active=active, out=out, a=value, b=NONE)
            )
            terms.insert(0, (out, active, sign))
        return terms
