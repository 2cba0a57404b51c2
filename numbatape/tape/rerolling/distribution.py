"""`Distribution`: how the turns of a loop are split into vectors, sums, and what stays as it is.

This is loop distribution (Allen and Kennedy, 1987): slots that depend on each other in a cycle stay scalar,
in the order of the loop; each other slot becomes one instruction over all turns. A cycle of additions whose
partial sums nobody reads becomes a sum. Guards, and instructions that are not elementwise, keep their order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .components import components
from .cycles import Step, steps_of
from .periods import CELL, FEWEST, SCALAR, VECTOR, Stretch
from .single_cells import Cells
from .turns import GATHERED, IRREGULAR, MISSING, SAME, TURN, Column, Turns

ONCE, VECTOR_SLOT, SUM, RECURRENCE, REST = range(5)  # what becomes of a component
SUM_CALL = 30.0  # nanoseconds that a sum takes in both sweeps, without those for its cells
RECURRENCE_CELL = 2.5  # nanoseconds
GATHER_CELL = 3.0
MOST_TRIES = 6


class Component(NamedTuple):
    """Slots that are emitted together, and what becomes of them."""

    what: int
    slots: list[int]


class Slots(NamedTuple):
    """What is known of the instructions of a stretch, by slot.

    Attributes
    ----------
    vector
        Whether instructions are elementwise ones on single cells.
    ordered
        Whether their order among each other must stay.
    addition
        1 where the second operand is added to the first one, -1 where it is subtracted, 0 elsewhere; it may
        be computed in another order.
    form
        What slots of a linear recurrence do (`numbatape.tape.rerolling.cycles`), if they may be computed
        with other bits.
    """

    vector: np.ndarray
    ordered: np.ndarray
    addition: np.ndarray
    form: np.ndarray


class Distribution:
    """The components of a stretch's turns, in an order in which they can run.

    Parameters
    ----------
    cells
        The cells that instructions read and write.
    stretch
        The instructions.
    slots
        Computes `Slots` of the stretch.
    """

    def __init__(self, cells: Cells, stretch: Stretch, slots: Callable[[Stretch], Slots]):
        self.cells, self.stretch, self.slots = cells, stretch, slots(stretch)
        self.parts: list[Component] = []
        self.saved = 0.0
        self.turns: Turns | None = None
        if self._try(0) and any(column.kind == IRREGULAR for row in self.turns.columns for column in row):
            found = self.turns, self.parts, self.saved
            if not self._try(1) or self.saved <= found[-1]:  # the first turn often differs from the others
                self.turns, self.parts, self.saved = found
        if self.turns is not None:
            self.turns.forget_tables()

    def _try(self, left_out: int) -> bool:
        """Find components for all turns but some of the first ones, or more; return whether there are any."""
        for _ in range(MOST_TRIES):
            if self.stretch.turns - left_out < FEWEST:
                return False
            self.turns = Turns(self.cells, self.stretch, left_out, self.turns)
            self._as_vector = [self._fits(slot) for slot in range(self.stretch.period)]
            parts = self._parts()
            needed = max(self._deepest(parts), self.turns.deepest)
            if needed <= left_out:
                self.parts, self.saved = parts, self._saving(parts)
                return True
            left_out = needed
        return False

    # ---- which slots become vectors

    def _fits(self, slot: int) -> bool:
        turns = self.turns
        return bool(
            self.slots.vector[slot]
            and turns.results[slot]
            and not turns.differing[slot]
            and all(self._regular(column) for column in turns.columns[slot])
        )

    def _regular(self, column: Column) -> bool:
        turns = self.turns
        if column.kind == TURN:
            return bool(turns.results[column.slot]) and column.lag < max(FEWEST, turns.count // 4)
        return column.kind != IRREGULAR

    def _parts(self) -> list[Component]:
        edges: list[set[int]] = [set(read) for read in self.turns.slots_read]
        ordered = np.flatnonzero(self.slots.ordered).tolist()
        for slot, before in zip(ordered, [*ordered[-1:], *ordered[:-1]], strict=True):
            # The first ordered slot of a turn follows the last one of the turn before.
            edges[slot].add(before)
        parts = []
        for slots in components(edges):
            if len(slots) > 1 or slots[0] in edges[slots[0]]:
                parts.append(Component(self._cycle(slots), slots))
            elif not self._as_vector[slots[0]]:
                parts.append(Component(REST, slots))
            else:
                parts.append(Component(VECTOR_SLOT, slots))
        return self._joined(self._hoisted(parts), edges)

    def _hoisted(self, parts: list[Component]) -> list[Component]:
        """Return the components, those being marked that compute the same in each turn."""
        turns, same = self.turns, set()
        lagged = {column.slot for columns in turns.columns for column in columns if column.lag > 0}
        found = []
        for part in parts:
            (slot, *more), what = part.slots, part.what
            steady = not more and what == VECTOR_SLOT and slot not in lagged
            steady = steady and bool(self.cells.movable[turns.out[slot]].all())
            if steady and all(self._same(slot, k, same) for k in range(3)):
                same.add(slot)
                what = ONCE
            found.append(Component(what, part.slots))
        return found

    def _same(self, slot: int, k: int, same: set[int]) -> bool:
        column = self.turns.columns[slot][k]
        return column.kind in (MISSING, SAME) or (column.kind == TURN and column.slot in same)

    def _joined(self, parts: list[Component], edges) -> list[Component]:
        """Return the components in an order in which as many as possible that stay scalar are neighbours.

        These are joined, so that their instructions keep the order of the loop.
        """
        home = {slot: k for k, part in enumerate(parts) for slot in part.slots}
        waits = [
            {home[other] for slot in part.slots for other in edges[slot]} - {k}
            for k, part in enumerate(parts)
        ]
        readers: list[list[int]] = [[] for _ in parts]
        for k, others in enumerate(waits):
            for other in others:
                readers[other].append(k)
        left = [len(others) for others in waits]
        ready: tuple[list[int], list[int]] = ([], [])  # vectors, and what stays scalar
        for k, part in enumerate(parts):
            if not left[k]:
                ready[part.what == REST].append(k)
        found: list[Component] = []
        while ready[0] or ready[1]:
            kind = 0 if ready[0] else 1
            slots: list[int] = []
            while ready[kind]:
                k = ready[kind].pop(0)
                if kind:
                    slots += parts[k].slots
                else:
                    found.append(parts[k])
                for reader in readers[k]:
                    left[reader] -= 1
                    if not left[reader]:
                        ready[parts[reader].what == REST].append(reader)
            if slots:
                found.append(Component(REST, sorted(slots)))
        return found

    def _cycle(self, slots: list[int]) -> int:
        """Return what becomes of slots that depend on one another."""
        if self._is_sum(slots):
            return SUM
        return RECURRENCE if self._is_recurrence(slots) else REST

    # ---- recurrences

    def steps(self, slots: list[int]) -> list[Step]:
        """Return the slots of a linear recurrence in the order of a turn."""
        found = steps_of(self.turns, slots, self.slots.form)
        assert found is not None
        return found

    def _is_recurrence(self, slots: list[int]) -> bool:
        """Whether slots are a linear recurrence whose coefficients and addends can be vectors."""
        turns = self.turns
        steps = steps_of(turns, slots, self.slots.form)
        if steps is None:
            return False
        tail = steps[-1].slot
        if any(column.slot == tail and column.lag > 1 for row in turns.columns for column in row):
            # A recurrence keeps one state before the first turn, so no slot may read an earlier one.
            return False
        return all(
            turns.results[slot]
            and not turns.differing[slot] & ~carried
            and all(
                self._regular(column) for k, column in enumerate(turns.columns[slot]) if not carried >> k & 1
            )
            for slot, carried, _ in steps
        )

    # ---- sums

    def _is_sum(self, slots: list[int]) -> bool:
        """Whether slots add to one number in each turn, and nobody reads it before the last one."""
        turns, cells, inside = self.turns, self.cells, set(slots)
        carried = 0
        for slot in slots:
            sign = int(self.slots.addition[slot])
            columns = turns.columns[slot][:2]
            mine = [k for k, column in enumerate(columns) if column.kind == TURN and column.slot in inside]
            if not sign or len(mine) != 1 or (sign < 0 and mine != [0]):
                return False
            if turns.differing[slot] >> (1 - mine[0]) & 1:
                return False
            if columns[mine[0]].lag > 1 or not self._regular(columns[1 - mine[0]]):
                return False
            if any(column.kind == IRREGULAR for column in columns):
                return False
            carried += columns[mine[0]].lag
        out = turns.out[slots, turns.left_out :]
        last = turns.out[self.tail(slots), -1]
        read = cells.reads[out] + cells.ends[out]
        read[out == last] = 1
        return carried == 1 and bool((read == 1).all() and cells.movable[out[out != last]].all())

    def tail(self, slots: list[int]) -> int:
        """Return the slot of a sum whose result the next turn reads."""
        inside = set(slots)
        carried = (
            column.slot
            for slot in slots
            for column in self.turns.columns[slot][:2]
            if column.kind == TURN and column.slot in inside and column.lag == 1
        )
        return next(carried, slots[-1])

    def addends(self, slots: list[int]) -> list[tuple[int, int, int]]:
        """Return what a sum's slots add, in order: (slot, number of the operand, sign)."""
        inside = set(slots)
        found = []
        for slot in slots:
            columns = self.turns.columns[slot]
            k = next(k for k in (1, 0) if not (columns[k].kind == TURN and columns[k].slot in inside))
            found.append((slot, k, int(self.slots.addition[slot])))
        return found

    def carried(self, slots: list[int]) -> tuple[int, int]:
        """Return the slot of a sum that reads the turn before, and the number of the operand."""
        inside = set(slots)
        return next(
            (slot, k)
            for slot in slots
            for k, column in enumerate(self.turns.columns[slot][:2])
            if column.kind == TURN and column.slot in inside and column.lag == 1
        )

    # ---- whether it pays

    def _read(self, part: Component) -> list[Column]:
        """Return the columns that a component reads as vectors."""
        if part.what == SUM:
            return [self.turns.columns[slot][k] for slot, k, _ in self.addends(part.slots)]
        if part.what == RECURRENCE:
            steps = self.steps(part.slots)
            return [
                self.turns.columns[its.slot][k] for its in steps for k in range(3) if not its.carried >> k & 1
            ]
        return [*self.turns.columns[part.slots[0]]] if part.what == VECTOR_SLOT else []

    def _deepest(self, parts: list[Component]) -> int:
        """Return how many turns must be left out so that vectors read only what the other turns compute."""
        return max((column.lag for part in parts for column in self._read(part)), default=0)

    def _saving(self, parts: list[Component]) -> float:
        """Return how many nanoseconds both sweeps save."""
        turns, total = self.turns.count, 0.0
        for part in parts:
            if part.what == REST:
                continue
            total += SCALAR * turns * len(part.slots)
            if part.what == ONCE:
                continue
            if part.what == RECURRENCE:  # a recurrence of a product and a sum needs no further vectors
                more = max(len(part.slots) - 2, 0)
                total -= VECTOR + RECURRENCE_CELL * turns + more * (VECTOR + CELL * turns)
            else:
                total -= VECTOR + CELL * turns if part.what == VECTOR_SLOT else SUM_CALL
            for column in self._read(part):
                if column.kind == GATHERED:
                    total -= VECTOR + GATHER_CELL * turns
        return total
