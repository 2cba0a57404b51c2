"""`Workspace`: the mutable half of a sweep. One thread's cells, adjoints and frame for one plan."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ..jit import address
from ..late import imported
from ..ops import status
from ..tape.instruction import GUARD
from ..tape.tape import ACTIVE, F32, F64, FAMILY_DTYPE
from . import kernels
from .frame import CELL_A, WORD, WORDS
from .placement import aligned
from .plan import Plan
from .segments import Segments

if TYPE_CHECKING:
    from .continued import Continued
    from .shared_beginnings import Beginning

LONG_LITERAL = 1 << 14  # bytes of a literal whose cells are worth looking for
SHORT_PLAN = 4096  # bytes of a plan that each workspace has a copy of, beside its frame
EXACT = 2.0**53  # from here on, several integers are one number of float64


def seed_table(plan: Plan) -> tuple[np.ndarray, int]:
    """Return (family, first cell, cells) of each output's adjoint, and the number of all cells."""
    rows = []
    for value in plan.tape.outputs:
        family, first = plan.cell(value)
        level = int(plan.tape.storages["level"][plan.tape.values["storage"][value]])
        # An output without a derivative has no adjoint cells to seed.
        cells = math.prod(plan.shape(value)) if level == ACTIVE else 0
        # The first cell of a value without cells is never used, and may not fit into 32 bits.
        rows.append((family, first if cells else 0, cells))
    return np.array(rows or [(0, 0, 0)], np.int32), sum(cells for _, _, cells in rows)


class SharedCells:
    """Cells that the workspaces of one owner share: no sweep reads what another one has left there.

    One memory for all sizes stays in the processor's caches when calls of many sizes take turns.

    Parameters
    ----------
    least
        So many cells there are at first.
    """

    def __init__(self, least: int = 0):
        self._least = least
        self._memory = [aligned(0, dtype) for dtype in FAMILY_DTYPE]

    def cells(self, counts) -> tuple[np.ndarray, ...]:
        """Return the given number of cells of each family.

        The memory grows; a workspace that has less keeps the memory that it had.
        """
        for family, count in enumerate(counts):
            have = len(self._memory[family])
            if count > have:
                self._memory[family] = aligned(max(count, have * 5 // 4, self._least), FAMILY_DTYPE[family])
        return tuple(memory[:count] for memory, count in zip(self._memory, counts, strict=True))


class Workspace:
    """Cells for one plan.

    Attributes
    ----------
    v, g
        Value and adjoint cells by family; ``g`` holds the active cells only.
    inputs, gradients
        A view of the value (and of the adjoint, None for constants) of each input slot.
    outputs
        A view of each output's value.
    seeds, seed
        Family, first cell and cells of each output's adjoint; the cotangents, one after the other.
    frame
        What the kernels get.
    continued
        Where calls go on that a guard of this workspace stops; None if nowhere.
    entrances
        By which beginnings calls of others come to this workspace, by number.
    """

    continued: Continued | None = None

    def __init__(self, plan: Plan, adjoints: SharedCells | None = None):
        self.plan = plan
        kernels.ensure(plan.kernels, plan.values, reverse=not plan.tape.forward)
        self.v = (aligned(plan.cells[F64], FAMILY_DTYPE[F64]), aligned(plan.cells[F32], FAMILY_DTYPE[F32]))
        self.g = (adjoints or SharedCells()).cells([n for _, n in plan.active])
        plan.write_literals(self.v)
        slots = plan.tape.inputs
        self.inputs = tuple(self.value_view(slot.value) for slot in slots)
        self.gradients = tuple(
            self.adjoint_view(slot.value) if slot.level == ACTIVE else None for slot in slots
        )
        self.outputs = tuple(self.value_view(value) for value in plan.tape.outputs)
        self.prologue_done = False
        self._fill_frame()
        self.segments = None if plan.cuts is None else Segments(self.frame, plan.cuts, kernels.sweep)
        self.calls = None
        if plan.tape.calls:  # most tapes have no rules and no loops, and do without the modules for them
            self.calls = (
                imported(".calls", __package__).Calls(plan, self.v, self.g, Workspace).into(self.frame)
            )

    def _view(self, cells, first, value) -> np.ndarray:
        plan = self.plan
        family = plan.cell(value)[0]
        itemsize = FAMILY_DTYPE[family].itemsize
        shape, strides = plan.shape(value), plan.strides(value)
        if 0 in shape:
            return np.zeros(shape, FAMILY_DTYPE[family])
        bytes_ = tuple(s * itemsize for s in strides)
        return np.ndarray(shape, FAMILY_DTYPE[family], cells, first * itemsize, bytes_)

    def value_view(self, value: int) -> np.ndarray:
        """Return a view of a value's cells."""
        family, first = self.plan.cell(value)
        return self._view(self.v[family], first, value)

    def adjoint_view(self, value: int) -> np.ndarray:
        """Return a view of an active value's adjoint cells."""
        family, first = self.plan.cell(value)
        return self._view(self.g[family], first - self.plan.active[family][0], value)

    def literal_like(self, data: np.ndarray) -> np.ndarray:
        """Return the cells of a literal with the numbers of a long array; if there is none, the array itself.

        No sweep writes to these cells, and the sweeps read them anyway: to compare an array with them moves
        two thirds of the memory that a copy of its own would. Positions are integers, and float64 in the
        cells: each of these that is less than `EXACT` stands for one integer.
        """
        is_integer = data.dtype == np.int64
        if data.nbytes < LONG_LITERAL or not (data.dtype in FAMILY_DTYPE or is_integer):
            return data
        if is_integer and np.abs(data, dtype=float).max() >= EXACT:
            return data
        numbers = data.reshape(-1).astype(float) if is_integer else data.reshape(-1)
        wanted, plan = numbers.view(np.uint8), self.plan
        for item in plan.tape.literals:
            if item.data.size == data.size and item.data.dtype == numbers.dtype:
                family = int(plan.tape.storages["family"][item.storage])
                first = int(plan.bases[item.storage]) + item.offset
                cells = self.v[family][first : first + data.size]
                if np.array_equal(cells.view(np.uint8), wanted):
                    return cells
        return data

    def _fill_frame(self) -> None:
        """Write the words that a sweep reads: addresses of code, cells, adjoints and tables, and counts."""
        plan = self.plan
        seeds, cells = seed_table(plan)
        frame = np.zeros(len(WORDS), np.int64)
        self.seeds, self.seed, code, aux = seeds, np.ones(max(1, cells)), plan.code, plan.aux
        if plan.nbytes <= SHORT_PLAN:
            # Calls of many sizes in turn wait for each line and page of memory that the caches do not hold.
            frame, self.seeds, self.seed, code, aux = kernels.in_one_block(frame, seeds, self.seed, code, aux)
        words = {
            "CODE": address(code),
            "AUX": address(aux),
            "V64": address(self.v[F64]),
            "V32": address(self.v[F32]),
            "G64": address(self.g[F64]) - 8 * plan.active[F64][0],
            "G32": address(self.g[F32]) - 4 * plan.active[F32][0],
            "FORWARD": address(kernels.forward_table(plan.values)),
            "REVERSE": address(kernels.REVERSE),
            "ITERATIONS": address(kernels.ITERATIONS),
            "SWEEPS": address(kernels.SWEEPS),
            "SEEDS": address(self.seeds),
            "SEED_COUNT": len(plan.tape.outputs),
            "SEED_DATA": address(self.seed),
            **plan.counts(),
        }
        if plan.strips is not None:
            kernels.ensure_strips(plan.values, plan.strips.opcodes)
            self._strips = plan.strips.words()
            words["STRIPS"] = address(self._strips[0])
        for name, word in words.items():
            frame[WORD[name]] = word
        self.entrances: dict[int, Beginning] = {}
        self.frame = frame
        self.address = address(frame)

    @property
    def stopped(self) -> int:
        """The instruction that the last sweep stopped at."""
        return int(self.frame[WORD["STOPPED"]])

    @property
    def nbytes(self) -> int:
        """The bytes of the cells, and of what loops and rules have besides: most of the memory, often."""
        besides = 0 if self.calls is None else self.calls.nbytes
        return sum(array.nbytes for array in (*self.v, *self.g)) + besides

    # ---- sweeps

    def _sweep(self, name: str, start: int = 0) -> int:
        """Run a sweep and return its status; raise what a rule in it raised."""
        if self.calls is None:
            return self.enter(name, start)
        self.calls.begin()
        outcome = self.enter(name, start)
        self.calls.end()
        return outcome

    def enter(self, name: str, start: int = 0) -> int:
        """Run a sweep and return its status, whatever rules in it have raised."""
        name = self.entry_point(name)
        if self.segments is not None:
            return self.segments.run(name, start)
        return kernels.sweep(name)(self.address, start)

    def entry_point(self, name: str) -> str:
        """Return the entry point of the sweeps that does for this workspace what the given one does."""
        return name

    def run_prologue(self) -> int:
        """Compute what depends on constants alone; needed before the first forward sweep."""
        outcome = self._sweep("prologue")
        self.prologue_done = outcome == status.DONE
        return outcome

    def forward(self) -> int:
        """Run the forward sweep, after the prologue if that is due; return its status."""
        if not self.prologue_done:
            outcome = self.run_prologue()
            if outcome:
                return outcome
        return self._sweep("value")

    def forward_lanes(self) -> None:
        """Run again what depends on lanes; guards on the rest have held."""
        self._sweep("lanes")

    def accept_guard(self) -> int:
        """Go on after a guard that stopped the sweep, with the traced outcome; return the status.

        This is for the call that was just traced: there NumPy's own value decided, and a kernel's value that
        differs in the last bit must not overrule it.
        """
        at = self.stopped
        # A sweep that stopped in the prologue leaves it to run again in the next sweep.
        self.prologue_done = at >= self.plan.prologue
        return self._sweep("resume", at + 1)

    def require_reverse(self) -> None:
        """Raise if a reverse sweep would not give the adjoints (`Plan.require_reverse`)."""
        self.plan.require_reverse()

    def reverse(self) -> None:
        """Run the reverse sweep with the cotangents in ``seed``; adjoints are cleared first."""
        self.require_reverse()
        self._sweep("pullback")

    def guard_cell(self, instruction: int) -> int | None:
        """Return the cell that a guard reads; None if what has stopped a sweep is no guard.

        A captured array that is watched stops a sweep, too, and leaves its own number, which may be that of
        any instruction.
        """
        code = self.plan.tape.code
        if instruction >= len(code) or code["op"][instruction] != GUARD:
            return None
        return int(self.plan.code[instruction, CELL_A])

    def guard_value(self, instruction: int) -> float:
        """Return the value that the guard at an instruction saw."""
        return float(self.v[F64][self.plan.code[instruction, CELL_A]])
