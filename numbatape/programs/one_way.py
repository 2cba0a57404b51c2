"""Value and gradient of a function of long vectors by one forward sweep, which runs strip by strip.

The reverse sweep of a function reads what the forward sweep has left: for vectors that do not fit into the
processor's caches, both wait for memory. The cotangent of a scalar result is known in advance: it is one. So
value and gradient are a tape of their own (`numbatape.derive.tapes.gradient`), and both are computed from one
strip of the vectors after the other (`numbatape.engine.strips.strip_blocks`).

Where vectors are shorter but many, as in the time steps of a differential equation, all of their cells may be
too many for the caches, because two sweeps keep each value and have an adjoint for it. In one sweep, cells
are used again as soon as nothing reads them any more.

A loop in lanes is another reason for such a tape: forward sweeps run all lanes of a loop together, reverse
sweeps one lane after another (a map of a scan over 1 024 rows and 100 steps: 4.4 ms instead of 14.9).

Which way a gradient is computed depends on the trace and on sizes alone. So a cache's results keep their bits
from call to call. For sizes that are new, a kernel finds out which way is theirs, and plans it
(`OneWayReplanner`).
"""

from __future__ import annotations

import ast
import functools
import re
import threading
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..config import STRIPS, Config, chosen_passes
from ..engine.placement import evaluated, placed_at, storage_sizes
from ..engine.plan import Plan, make_plan
from ..engine.replan import Replanner
from ..engine.replan_kernels import ALL_CELLS, LEVELS, OK
from ..engine.segments import LONG_CALLS, entries_of_layouts, work_of
from ..engine.strips.strip_plan import strip_plan
from ..engine.strips.strip_replan import StripReplanner
from ..engine.strips.strip_replan_kernels import OTHER_WAY
from ..engine.strips.strip_rows import LEAST
from ..engine.workspace import SharedCells, Workspace
from ..late import imported
from ..ops import OPS, ROWS, ArrayOp, Elementwise
from ..tape import Tape
from ..tape.instruction import GUARD, NONE
from ..tape.loop import Loop
from ..tape.tape import ACTIVE, CONSTANT, POOLS
from ..threads import survives_fork
from .variant import LONG, MANY, VariantWorkspace

if TYPE_CHECKING:
    from .variant import Variant

# Longer traces are not looked at: to derive the gradient's tape takes some 0.03 ms an instruction.
MOST_INSTRUCTIONS = 2048
MOST_PLANS = 64  # a variant keeps no more plans than these
# What a cell takes in a strip, in first caches, in place of a vector that each instruction reads and writes.
IN_STRIPS = 0.33
# What a reverse sweep takes of the work of an instruction whose results the forward sweep has kept.
KEPT = 0.25
# How many times the function's work one sweep may do around loops in lanes, and where it needs far fewer
# cells: that of a wave equation whose steps write into zeros does 3.5 times as much, in a third of the time.
MOST_WORK, MOST_SAVING = 3.5, 5.0
# Which share of many cells one sweep may need: time steps of vectors with 400 to 10 000 entries then take 0.5
# to 0.87 of the time of two sweeps.
MOST_NEEDED = 0.66


class OneWay:
    """The ways in which a variant's gradient is computed, by input dimensions."""

    def __init__(self, variant: Variant, config: Config):
        tape = variant.tape
        self._variant, self._values = variant, config.values
        self._passes: Collection[str] = chosen_passes(config)
        self._tapes: list[Tape] = []
        self._plans: dict[tuple[int, ...], Plan | None] = {}
        self._first: Plan | None = None  # the first plan that has strips
        self._replanner: OneWayReplanner | None = None
        self._lock = survives_fork(threading.Lock())  # clones in other threads share this object
        self._in_lanes = _has_loops_in_lanes(tape)
        self._saves: bool | None = None
        self._more_calls: bool | None = None
        self._two: float | None = None
        self._possible = (
            STRIPS in self._passes
            and not (config.debug_mode or config.strong_zero or variant.is_more_than_sweeps)
            and not (tape.forward or (tape.calls and not self._in_lanes) or _may_fail(tape))
            and len(tape) <= MOST_INSTRUCTIONS
            and len(tape.outputs) == 1
            and variant.counted is None
            # A guard may fail behind the first gradient. If that is in memory that callers have, it may be an
            # argument of this call, which another trace has to read.
            and not (tape.guards and config.reuse_buffers)
            and _is_active_scalar(tape, tape.outputs[0])
        )

    def may_serve(self, cells: tuple[int, int], longest: int) -> bool:
        """Whether a plan with so many cells by family, and so many in its longest vector, may be better."""
        least = LONG if longest >= LEAST else MANY
        return self._possible and sum(cells) >= least

    def refuses(self, dimensions: Sequence[int], cells: tuple[int, int], longest: int) -> bool:
        """Whether two sweeps are known to be better for some sizes, without making a plan for them."""
        if not self.may_serve(cells, longest):
            return True
        with self._lock:
            if self._replanner is None and self._first is not None:
                self._replanner = self.replanner(self._first)
            return self._replanner is not None and self._replanner.move(dimensions) == OTHER_WAY

    def replanner(self, plan: Plan) -> OneWayReplanner | None:
        """Return what plans value and gradient for further sizes; None where only `plan` does."""
        both = self._variant.plan(plan.dimensions)
        assert both is not None
        if not self._in_lanes and Replanner.serves(both.tape) and Replanner.serves(plan.tape):
            return OneWayReplanner(plan, both, self)
        return None

    def plan(self, dimensions: tuple[int, ...]) -> Plan | None:
        """Return the plan of value and gradient for some sizes; None where two sweeps are better."""
        if dimensions not in self._plans:
            if len(self._plans) >= MOST_PLANS:
                self._plans.clear()
            self._plans[dimensions] = self._made_plan(dimensions)
        return self._plans[dimensions]

    def _made_plan(self, dimensions: tuple[int, ...]) -> Plan | None:
        """Return the plan of the derivative swept forward; None where two sweeps are faster."""
        both = self._variant.plan(dimensions)
        if both is None or not self.may_serve(both.cells, _longest(both)):
            return None
        tape = self._tape(dimensions)
        # A derivative may have more guards.
        if tape.guards != self._variant.tape.guards or _may_fail(tape) or not _are_own(tape):
            self._possible = False
            return None
        if self._in_lanes:
            made = make_plan(tape, dimensions, self._values)
            # What surrounds the loops; each of their cells is at least written once.
            rest, whole = (_work(each.tape, each.sizes)[~_calls(each.tape)].sum() for each in (made, both))
            return made if rest <= MOST_WORK * (whole + sum(made.cells)) else None
        if _longest(both) < LEAST and not self._saves_cells():
            return None
        plan = strip_plan(tape, dimensions, self._values)
        assert plan.strips is not None
        if self._first is None:
            self._first = plan
        work, its = _work(both.tape, both.sizes), _work(plan.tape, plan.sizes)
        return plan if self.pays(plan.strips.work, its.sum(), work.sum(), sum(both.cells)) else None

    def pays(self, in_strips: float, work: float, function_work: float, cells: int) -> bool:
        """Whether one sweep is better: whether it does less work than two, if that of strips counts less.

        Gathers, products and running sums are done as often by both. But the derivative of a sort, for
        instance, sorts twice more in a tape of its own, where a reverse sweep has the order from the forward
        sweep.

        Parameters
        ----------
        in_strips, work, function_work
            The work of its strips, of all of it, and of the function alone.
        cells
            The cells of the function's values.
        """
        if not self._possible or self._calls_more():
            return False
        if work - (1.0 - IN_STRIPS) * in_strips <= self._both_sweeps() * function_work:
            return True
        return cells >= MANY and work <= MOST_SAVING * function_work and self._saves_cells()

    def _calls_more(self) -> bool:
        """Whether one sweep calls more of SciPy's functions and series than two, at the sizes of the trace.

        A tape has all cases of a choice, and its slopes are written so that they can be differentiated again.
        A reverse sweep computes the case that it needs, and differentiates nothing: it takes the slope of j1
        from j0 where one sweep calls jv, which takes fifty times as long.
        """
        if self._more_calls is None:
            dimensions = self._variant.dimensions
            both = self._variant.tape
            one_sweep, values, slopes = (
                _calls_of_library(tape, np.asarray(tape.sizes.evaluate(dimensions)), reverse)
                for tape, reverse in ((self._tape(dimensions), False), (both, False), (both, True))
            )
            self._more_calls = one_sweep > values + slopes
        return self._more_calls

    def _both_sweeps(self) -> float:
        """Return how much work two sweeps are, in that of the function's tape, at the sizes of the trace.

        A reverse sweep goes through each instruction once for each operand with an adjoint. What the forward
        sweep has kept, such as the order of a sort, it finds at once.
        """
        if self._two is None:
            tape = self._variant.tape
            code = tape.code[tape.prologue :]
            work = _work(tape, np.asarray(tape.sizes.evaluate(self._variant.dimensions)))
            active = tape.storages["level"][tape.values["storage"]] == ACTIVE
            keeps = ROWS.is_any(ROWS.with_trait("keeps"), code["op"])
            back = np.where(keeps, KEPT, 1.0)
            parts = sum(active[code[name]] & (code[name] != NONE) for name in "abc")
            self._two = float(work @ (1 + back * parts) / max(work.sum(), 1.0))
        return self._two

    def _saves_cells(self) -> bool:
        """Whether one sweep needs far fewer cells, at the sizes of the trace."""
        if self._saves is None:
            dimensions = self._variant.dimensions
            tape, both = self._tape(dimensions), self._variant.tape
            cells, all_cells = (sum(placed_at(each, dimensions)[1]) for each in (tape, both))
            self._saves = cells <= MOST_NEEDED * all_cells
        return self._saves

    def _tape(self, dimensions: tuple[int, ...]) -> Tape:
        """Return the tape of value and gradient: one that holds for these sizes, or a new one."""
        for tape in self._tapes:
            if tape.sizes.broken_guard(tape.sizes.evaluate(dimensions)) is None:
                return tape
        derive = imported("..derive.tapes", __package__)
        self._tapes.append(derive.gradient(self._variant.tape, dimensions, self._passes))
        return self._tapes[-1]


class OneWayReplanner(StripReplanner):
    """Plans of value and gradient in one sweep, for further sizes.

    Parameters
    ----------
    first, both
        The plan of value and gradient, and that of the function for the same sizes.
    one_way
        Decides which way is better.
    """

    def __init__(self, first: Plan, both: Plan, one_way: OneWay):
        self._both, self._way = Replanner(both), one_way
        self._ends = self._both.ends.data  # single numbers are read faster than those of an array
        super().__init__(first, self._both, (MANY, LONG))

    def move(self, dimensions: Sequence[int]) -> int:
        return super().move(dimensions) or (OK if self.pays() else OTHER_WAY)

    def pays(self) -> bool:
        """Whether one sweep is better for the last dimensions."""
        ends = self._ends
        cells = ends[ALL_CELLS] + ends[LEVELS + ALL_CELLS]  # those of float64, and of float32
        return self._way.pays(self.strip_work, self.work, self._both.work, cells)


class OneWayWorkspace(VariantWorkspace):
    """A workspace whose forward sweep computes the gradient too, so that there is no reverse sweep."""

    def __init__(self, plan: Plan, variant: Variant, adjoints: SharedCells | None = None):
        super().__init__(plan, variant, adjoints)
        parts = iter(self.outputs[1:])
        self.gradients = tuple(next(parts) if slot.level == ACTIVE else None for slot in plan.tape.inputs)
        self.outputs = self.outputs[:1]

    def whole(self) -> Workspace:
        plan = self.plan
        space = Workspace(make_plan(plan.tape, plan.dimensions, plan.values))
        for cells, its in zip(space.inputs, self.all_inputs, strict=True):
            cells[...] = its
        return space

    def replanner(self) -> OneWayReplanner | None:
        return None if self.one_way is None else self.one_way().replanner(self.plan)

    def results(self) -> list[tuple[int, np.ndarray | None, bool]]:
        tape = self.plan.tape
        numbers = iter(tape.outputs[1:])
        gradients = [(next(numbers), view, False) for view in self.gradients if view is not None]
        return [*gradients, (tape.outputs[0], self.outputs[0], False)]

    def entry_point(self, name: str) -> str:
        return {"gradient": "forward", "bound": "bound_value"}.get(name, name)

    def require_reverse(self) -> None:
        """There is no reverse sweep that could fail."""

    def reverse(self) -> None:
        """The forward sweep has computed the gradient."""


def _is_active_scalar(tape: Tape, value: int) -> bool:
    storage, _, layout = tape.values[value].item()
    return tape.storages["level"][storage] == ACTIVE and not tape.layouts[layout].dims


def _longest(plan: Plan) -> int:
    """Return the cells of the largest storage that is not constant."""
    tape = plan.tape
    sizes = storage_sizes(tape, plan.sizes)[tape.storages["level"] != CONSTANT]
    return int(sizes.max(initial=0))


def _has_loops_in_lanes(tape: Tape) -> bool:
    """Whether what a tape calls are loops, of which one has lanes that go through its steps together."""
    if tape.calls_rules or not all(isinstance(each, Loop) for each in tape.calls):
        return False
    if any(each.test is not None or each.steps is not None for each in tape.calls):
        return False  # the lanes of such a loop may take different numbers of steps
    layouts = tape.values["layout"][tape.code["out"][tape.prologue :][_calls(tape)]]
    return any(len(tape.layouts[k].dims) > 1 for k in layouts.tolist())


def _calls(tape: Tape) -> np.ndarray:
    """Return which instructions behind the prologue are calls."""
    return np.isin(tape.code["op"][tape.prologue :] >> 1, list(ROWS.with_trait("calls")))


def _may_fail(tape: Tape) -> bool:
    """Whether a factorisation may fail: a derivative must not, where the function itself has a value."""
    rows = np.unique(tape.code["op"][tape.code["op"] != GUARD] >> 1)
    ops = [OPS[row] for row in rows.tolist()]
    return any(isinstance(op, ArrayOp) and op.fallible and not op.index for op in ops)


def _are_own(tape: Tape) -> bool:
    """Whether each gradient has cells of its own: callers add to them, and keep them."""
    storages, offsets = (tape.values[name].tolist() for name in ("storage", "offset"))

    def place(value: int):
        """Return what no other gradient may share: the storage, or one cell of a pool (that of a number)."""
        return (storages[value], offsets[value]) if storages[value] < len(POOLS) else storages[value]

    taken = {place(slot.value) for slot in tape.inputs}
    for item in tape.literals:
        cells = range(item.offset, item.offset + item.data.size)
        taken |= {(item.storage, cell) for cell in cells} if item.storage < len(POOLS) else {item.storage}
    gradients = [place(value) for value in tape.outputs[1:]]
    return len({*gradients}) == len(gradients) and not taken.intersection(gradients)


def _work(tape: Tape, sizes: np.ndarray) -> np.ndarray:
    return work_of(tape, lambda codes: evaluated(codes, sizes))[tape.prologue :]


def _calls_of_library(tape: Tape, sizes: np.ndarray, reverse: bool) -> float:
    """Return how often a sweep calls functions that take as long as SciPy's."""
    entries = entries_of_layouts(tape, lambda codes: evaluated(codes, sizes))[tape.values["layout"]]
    active = tape.storages["level"][tape.values["storage"]] == ACTIVE
    code = tape.code[tape.prologue :]
    rows = np.where(code["op"] == GUARD, -1, code["op"].astype(int) >> 1)
    total = 0.0
    for instruction in code[np.isin(rows, [row for row in np.unique(rows) if _may_call(int(row))])]:
        op = OPS[instruction["op"] >> 1]
        assert isinstance(op, Elementwise)
        cells = entries[instruction["out"]]
        if not reverse:
            total += cells * _most_calls(op.value)
        elif active[instruction["out"]]:
            operands = [instruction[name] for name in "abc"[: op.arity]]
            total += cells * sum(
                _most_calls(partial)
                for partial, operand in zip(op.partials, operands, strict=False)
                if partial is not None and active[operand]
            )
    return total


@functools.cache
def _may_call(row: int) -> bool:
    """Whether a row or its partials call such functions; -1 is for guards."""
    op = None if row < 0 else OPS[row]
    return isinstance(op, Elementwise) and any(
        text and re.search(LONG_CALLS, text) for text in (op.value, *op.partials)
    )


@functools.cache
def _most_calls(formula: str) -> int:
    """Return how many such functions a formula calls, in the case of each choice that calls most of them."""

    def calls(node: ast.AST) -> int:
        if isinstance(node, ast.IfExp):
            return calls(node.test) + max(calls(node.body), calls(node.orelse))
        its = isinstance(node, ast.Call) and re.match(LONG_CALLS, f"{ast.unparse(node.func)}(") is not None
        return its + sum(map(calls, ast.iter_child_nodes(node)))

    return calls(ast.parse(formula, mode="eval").body)
