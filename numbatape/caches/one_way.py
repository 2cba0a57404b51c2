"""Value and gradient of a function of long vectors by one forward sweep, which runs strip by strip.

The reverse sweep of a function reads what the forward sweep has left: for vectors that do not fit into the
processor's caches, both wait for memory. The cotangent of a scalar result is known in advance: it is one. So
value and gradient are a tape of their own (`numbatape.derive.tapes.gradient`), and both are computed from one
strip of the vectors after the other (`numbatape.engine.strip_blocks`).

Which way a gradient is computed depends on the trace and on sizes alone. So a cache's results keep their bits
from call to call.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np

from ..config import STRIPS, Config, chosen_passes
from ..engine.frame import WORD
from ..engine.placement import evaluated
from ..engine.plan import Plan, make_plan
from ..engine.segments import work_of
from ..engine.strip_plan import strip_plan
from ..engine.workspace import Adjoints, Workspace
from ..late import imported
from ..ops import OPS, ArrayOp
from ..tape import Tape
from ..tape.tape import ACTIVE, F64
from .variant import LONG, VariantWorkspace

if TYPE_CHECKING:
    from .variant import Variant

MOST_INSTRUCTIONS = 512  # of a trace: deriving its gradient's tape takes some 0.3 ms each
LEAST_SHARE = 0.25  # of a gradient's work that runs strip by strip
MOST_PLANS = 64  # that a variant keeps
MOST_WORK = 4.0  # of the gradient's tape, in times that of the function's


class OneWay:
    """The ways in which a variant's gradient is computed, by input dimensions."""

    def __init__(self, variant: Variant, config: Config):
        tape = variant.tape
        self._variant, self._values = variant, config.values
        self._passes: Collection[str] = chosen_passes(config)
        self._tapes: list[Tape] = []
        self._plans: dict[tuple[int, ...], Plan | None] = {}
        self._possible = (
            STRIPS in self._passes
            and not (config.debug_mode or config.strong_zero or variant.is_more_than_sweeps)
            and not (tape.guards or tape.calls or tape.forward)
            and len(tape) <= MOST_INSTRUCTIONS
            and len(tape.outputs) == 1
            and _is_active_scalar(tape, tape.outputs[0])
        )

    def may_serve(self, cells: tuple[int, ...]) -> bool:
        """Whether a plan of so many cells by family may have another way."""
        return self._possible and cells[F64] >= LONG and cells[1 - F64] == 0

    def plan(self, dimensions: tuple[int, ...]) -> Plan | None:
        """Return the plan of value and gradient for some sizes; None where two sweeps are better."""
        if dimensions not in self._plans:
            if len(self._plans) >= MOST_PLANS:
                self._plans.clear()
            self._plans[dimensions] = self._made_plan(dimensions)
        return self._plans[dimensions]

    def _made_plan(self, dimensions: tuple[int, ...]) -> Plan | None:
        both = self._variant.plan(dimensions)
        if both is None or not self.may_serve(both.cells):
            return None
        tape = self._tape(dimensions)
        if tape.guards or _may_fail(tape) or not _are_own(tape):
            return None
        plan = strip_plan(tape, dimensions, self._values)
        if plan is None or plan.strips is None:
            return None
        work = _work(plan.tape, plan.sizes)
        in_strips = sum(work[start:stop].sum() for start, stop in plan.strips.extents)
        most = MOST_WORK * _work(both.tape, both.sizes).sum()
        return plan if in_strips >= LEAST_SHARE * work.sum() and work.sum() <= most else None

    def _tape(self, dimensions: tuple[int, ...]) -> Tape:
        """Return the tape of value and gradient: one that holds for these sizes, or a new one."""
        for tape in self._tapes:
            if tape.sizes.broken_guard(tape.sizes.evaluate(dimensions)) is None:
                return tape
        derive = imported("..derive.tapes", __package__)
        self._tapes.append(derive.gradient(self._variant.tape, dimensions, self._passes))
        return self._tapes[-1]


class OneWayWorkspace(VariantWorkspace):
    """A workspace whose forward sweep computes the gradient too; the reverse sweep does nothing."""

    def __init__(self, plan: Plan, variant: Variant, adjoints: Adjoints | None = None):
        super().__init__(plan, variant, adjoints)
        self.frame[WORD["ONE_WAY"]] = 1
        parts = iter(self.outputs[1:])
        self.gradients = tuple(next(parts) if slot.level == ACTIVE else None for slot in plan.tape.inputs)
        self.outputs = self.outputs[:1]

    def whole(self) -> Workspace:
        plan = self.plan
        space = Workspace(make_plan(plan.tape, plan.dimensions, plan.values))
        for cells, its in zip(space.inputs, self.inputs, strict=True):
            cells[...] = its
        return space

    def require_reverse(self) -> None:
        """There is no reverse sweep that could fail."""


def _is_active_scalar(tape: Tape, value: int) -> bool:
    storage, _, layout = tape.values[value].item()
    family, level = (tape.storages[name][storage] for name in ("family", "level"))
    return family == F64 and level == ACTIVE and not tape.layouts[layout].dims


def _may_fail(tape: Tape) -> bool:
    """Whether a factorisation may fail: a derivative must not, where the function itself has a value."""
    rows = np.flatnonzero(np.bincount(tape.code["op"] >> 1))
    ops = [OPS[row] for row in rows.tolist()]
    return any(isinstance(op, ArrayOp) and op.fallible and not op.index for op in ops)


def _are_own(tape: Tape) -> bool:
    """Whether each gradient has cells of its own: callers add to them, and keep them."""
    storage = tape.values["storage"]
    taken = [int(storage[slot.value]) for slot in tape.inputs] + [item.storage for item in tape.literals]
    gradients = [int(storage[value]) for value in tape.outputs[1:]]
    return len({*gradients}) == len(gradients) and not {*gradients} & {*taken}


def _work(tape: Tape, sizes: np.ndarray) -> np.ndarray:
    return work_of(tape, lambda codes: evaluated(codes, sizes))
