"""Loops as sweeps run them: the plan and the memory of a body, and the state that the kernels read.

The body has a workspace of its own, whose sweeps the kernels (`numbatape.engine.loop_kernels`) call once a
step. A reverse sweep needs the cells of each step: they are saved on a stack, all but those of captures. If
the body calls rules or other loops, whose memory is that of their last call, only the carries are saved, and
each step is computed again before it is swept back.

A body that runs once shares its workspace with all other calls of the same plan: each call keeps the cells
that its reverse sweep needs, or computes them again.
"""

from __future__ import annotations

import copy
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from functools import cached_property

import numpy as np

from .. import jit
from ..errors import StepsError
from ..ops import status
from ..tape import Tape
from ..tape.families import ACTIVE, CONSTANT, F64, FAMILIES, FAMILY_DTYPE
from ..tape.loop import CAPTURE, CARRY, SLICE, STACK, SUM, Loop
from ..threads import survives_fork
from .chain import sweep_source
from .failures import failure
from .frame import WORD as FRAME_WORD
from .interrupts import Lookout, steps_between_looks, work_of_plan
from .loop_kernels import INTERRUPTED, TOO_MANY, WORD, WORDS, loop_source
from .loop_lanes import LoopLanes, laned_body
from .plan import Plan, make_plan

MOST_PLANS = 256
_plans: OrderedDict[tuple, Plan] = OrderedDict()
_lock = threading.Lock()
survives_fork(_lock)


def body_plan(body: Tape, dimensions: tuple[int, ...], values: str) -> Plan:
    """Return the plan of a body; it is the same for all loops with this body."""
    key = body.digest, dimensions, values
    with _lock:
        found = _plans.get(key)
    if found is None:
        found = make_plan(body, dimensions, values)
        with _lock:
            _plans[key] = found
            while len(_plans) > MOST_PLANS:
                _plans.popitem(last=False)
    return found


class LoopRun:
    """One loop of one workspace.

    Parameters
    ----------
    loop
        What runs.
    size
        Returns the value of a size code of the tape that the loop stands on.
    values
        As in `Config`.
    workspace
        Makes a workspace for a plan.
    reverse
        Whether a reverse sweep may follow a forward one.
    again
        Whether the reverse sweep computes the steps first, because other operands may have come between.
    lanes
        Where the lanes of an instruction with lanes are, if all of them are computed at once.

    Attributes
    ----------
    forward, back
        Addresses of the kernels.
    state
        The words that the kernels read, besides those of the instruction.
    """

    def __init__(
        self,
        loop: Loop,
        size: Callable[[int], int],
        values: str,
        workspace: Callable,
        reverse: bool,
        again: bool,
        lanes: LoopLanes | None = None,
    ):
        self.loop = loop
        dimensions = tuple(map(size, loop.dimensions))
        self._body = loop.body
        self._lanes = lanes or LoopLanes(1, 0, (0, 0, 0), frozenset())
        if lanes is not None and lanes.ports:
            self._body = laned_body(loop, lanes.ports, dimensions)
            dimensions = (*dimensions, lanes.count)
        self._size, self._plan = size, body_plan(self._body, dimensions, values)
        self._space = space = _space(workspace, self._plan)
        self._test = (
            None if loop.test is None else _space(workspace, body_plan(loop.test, dimensions, values))
        )
        frame = space.frame
        for name in ("SEED_COUNT", "CELLS64", "CELLS32"):  # the loop's kernels clear and seed adjoints
            frame[FRAME_WORD[name]] = 0
        self.state = np.zeros(len(WORDS), np.int64)
        self._stack_bytes = 0
        self._lookout: Lookout | None = None
        self._alive: list[np.ndarray] = []
        sweeps = jit.load("sweeps", sweep_source()).address
        kernels = jit.load("loops", loop_source()).address
        entries = ("once", "once_back") if loop.runs_once else ("forward", "reverse")
        self.forward, self.back = (kernels[name] for name in entries)
        # What rules and inner loops keep is that of their last call, which another call of this body may
        # make.
        again = again or (loop.runs_once and (loop.recompute or bool(loop.body.calls)))
        words = {
            "VALUE": sweeps["value"],
            "PULLBACK": sweeps["pullback"],
            "FRAME": space.address,
            "LENGTH": size(loop.length),
            "BACKWARDS": int(loop.reverse),
            "SAVING": int(reverse and not (again and loop.runs_once)),
            "AGAIN": int(again),
            "RECOMPUTE": int(bool(loop.body.calls)),
            "LANES": self._lanes.count,
            "FIRST": self._lanes.first,
            **dict(zip(("LANE_A", "LANE_B", "LANE_OUT"), self._lanes.steps, strict=True)),
            "RESULT": self._unwritten(),
            "STEPS": -1 if loop.steps is None else size(loop.steps),
        }
        for name, word in words.items():
            self.state[WORD[name]] = word
        if not loop.runs_once:
            self._look_for_signals()
        self._forward_tables()
        if self._test is not None:
            self._test_tables(self._test)
        if reverse:
            self._reverse_tables()

    def again(self, lanes: LoopLanes | None) -> LoopRun:
        """Return the same for another instruction with the same operands: it has what it keeps to itself."""
        found = copy.copy(self)
        found.state, found._alive = self.state.copy(), [*self._alive]
        found.state[WORD["FIRST"]] = 0 if lanes is None else lanes.first
        found._memory("STACK", self._stack_bytes)
        return found

    def place(self, v: int, g: int) -> None:
        """Set the base addresses of the cells and adjoints that the instruction's words count from."""
        self.state[WORD["V"]], self.state[WORD["G"]] = v, g

    @cached_property
    def work_of_step(self) -> float:
        """About how much work a step is, in the unit of `numbatape.engine.segments`."""
        spaces = [self._space] if self._test is None else [self._space, self._test]
        return sum(
            work_of_plan(space.plan) + (0.0 if space.calls is None else space.calls.work) for space in spaces
        )

    @property
    def work(self) -> float:
        """About how much work all steps are."""
        return self._size(self.loop.length) * self.work_of_step

    def _look_for_signals(self) -> None:
        """Let the kernels look for Ctrl-C from time to time, if there are many steps."""
        self.state[WORD["EVERY"]] = every = steps_between_looks(
            self.work_of_step, self._size(self.loop.length)
        )
        if every:
            self._lookout = Lookout()
            self.state[WORD["LOOK"]] = self._lookout.address

    def interrupt(self) -> BaseException | None:
        """Return the exception of a signal's handler that stopped the last step, if one did; and forget
        it."""
        stopped = int(self.state[WORD["STOPPED"]])
        if stopped == INTERRUPTED and self._lookout is not None:
            return self._lookout.taken()
        return (
            self._space.calls.interrupt()
            if stopped == status.CALL and self._space.calls is not None
            else None
        )

    # ---- what the kernels read

    def _table(self, name: str, rows: list[tuple]) -> None:
        array = np.array(rows, np.int64).reshape(-1)
        self._alive.append(array)
        self.state[WORD[name]] = array.ctypes.data
        self.state[WORD[f"{name}_COUNT"]] = len(rows)

    def _memory(self, name: str, size: int) -> None:
        array = np.empty(size // 8 + 1, np.int64)  # pages that are never written take no memory
        self._alive.append(array)
        self.state[WORD[name]] = array.ctypes.data

    def _address(self, value: int, adjoint: bool = False) -> int:
        """Return the address of a value's first cell, or of its adjoint."""
        plan, cells = self._plan, (self._space.v, self._space.g)[adjoint]
        family, cell = plan.cell(value)
        first = plan.active[family][0] if adjoint else 0
        return cells[family].ctypes.data + FAMILY_DTYPE[family].itemsize * (cell - first)

    def _is_active(self, value: int) -> bool:
        tape = self.loop.body
        return int(tape.storages["level"][tape.values["storage"][value]]) == ACTIVE

    def _unwritten(self) -> int:
        """Return the cells of the result, or 0 if the outputs of one step are all of them."""
        size, cells = self._size, self._size(self.loop.extents[0])
        return 0 if sum(size(out.count) for out in self.loop.outs) == cells else cells

    def _inputs(self, *roles: str) -> Iterator[tuple]:
        """Yield (port, value, first cell in the operand, cells) of the body's inputs that play a role."""
        size = self._size
        for port, slot in zip(self.loop.ports, self.loop.body.inputs, strict=True):
            count = size(port.count)
            if port.role in roles and count:
                yield port, slot.value, size(port.start), count

    def _outputs(self, *roles: str) -> Iterator[tuple]:
        """Yield (out, value, first cell in the result, cells) of the body's outputs that play a role."""
        size = self._size
        for out, value in zip(self.loop.outs, self.loop.body.outputs, strict=True):
            count = size(out.count)
            if out.role in roles and count:
                yield out, value, size(out.start), count

    def _history(self) -> Iterator[tuple[int, int, int]]:
        """Yield (value, first cell in the result, cells) of the carries that are stacked."""
        loop = self.loop
        for k, start in zip(loop.carries, loop.history or (), strict=False):
            count = self._size(loop.ports[k].count)
            if count:
                yield loop.body.inputs[k].value, self._size(start), count

    def _cells(self, value: int, like: int | None = None) -> tuple[int, int, int]:
        """Return the address of a value of the body, and its steps from cell to cell and from lane to lane.

        ``like`` is the value of the body without lanes.
        """
        plan = self._plan
        strides, rank = plan.strides(value), len(self._rank_of(value if like is None else like))
        if len(strides) == rank:
            return self._address(value), 1, 0
        return self._address(value), (strides[-1] if rank else 1), strides[0]

    def _rank_of(self, value: int) -> tuple[int, ...]:
        tape = self.loop.body
        return tape.layouts[tape.values["layout"][value]].dims

    def _forward_tables(self) -> None:
        loop, body = self.loop, self._body
        inputs = [
            self._cells(slot.value, old.value)
            for slot, old in zip(body.inputs, loop.body.inputs, strict=True)
        ]
        outputs = [self._cells(*pair) for pair in zip(body.outputs, loop.body.outputs, strict=True)]
        number = {slot.value: k for k, slot in enumerate(loop.body.inputs)}
        place = {id(out): k for k, out in enumerate(loop.outs)}

        def entering(*roles):
            for port, value, first, count in self._inputs(*roles):
                address, step, lane = inputs[number[value]]
                yield port.operand, first, address, count, step, lane

        def leaving(cells, first, count):
            address, step, lane = cells
            return address, first, count, step, lane

        ends = [
            (outputs[place[id(out)]], inputs[out.port], first, n)
            for out, _, first, n in self._outputs(CARRY, SUM)
        ]
        self._table("ENTER", [*entering(CARRY, CAPTURE, SUM)])
        self._table("SLICES", [*entering(SLICE)])
        self._table("HISTORY", [leaving(inputs[number[x]], first, n) for x, first, n in self._history()])
        self._table(
            "OUTPUTS",
            [leaving(outputs[place[id(out)]], first, n) for out, _, first, n in self._outputs(STACK)],
        )
        self._table(
            "CARRY",
            [(y[0], x[0], n, *y[1:], *x[1:]) for y, x, _, n in ends if y[0] != x[0]],
        )
        self._table("LEAVE", [leaving(x, first, n) for _, x, first, n in ends])

    def _test_tables(self, space) -> None:
        """Fill in the words for the test before each step."""
        size, loop, plan = self._size, self.loop, space.plan
        assert loop.test is not None
        enter, carried = [], []
        for port, slot in zip(loop.test_ports, loop.test.inputs, strict=True):
            count, (_, cell) = size(port.count), plan.cell(slot.value)
            address = space.v[F64].ctypes.data + 8 * cell
            if port.role == CARRY and count:
                carried.append(
                    (self._address(loop.body.inputs[port.start].value), address, count, 1, 0, 1, 0)
                )
            elif count:
                enter.append((port.operand, size(port.start), address, count, 1, 0))
        self._table("TEST_ENTER", enter)
        self._table("TEST_CARRY", carried)
        _, result = plan.cell(loop.test.outputs[0])
        self.state[WORD["TEST"]] = space.address
        self.state[WORD["TEST_RESULT"]] = space.v[F64].ctypes.data + 8 * result
        self.state[WORD["COUNTED"]] = size(loop.counted)
        self.state[WORD["STRICT"]] = int(loop.strict)

    def _reverse_tables(self) -> None:
        loop, back = self.loop, lambda value: self._address(value, adjoint=True)
        # The inputs of a body that runs once are those of this call alone, like its other cells.
        outside = set() if loop.runs_once else self._outside()
        saved = self._ranges(False, outside)
        if loop.runs_once and not self.state[WORD["SAVING"]]:
            saved = []
        elif loop.body.calls:
            saved = [(self._address(x), 8 * n) for _, x, _, n in self._inputs(CARRY)]
        self._table("SAVED", saved)
        self._table("CLEARED", self._ranges(True, outside))
        places, total = {}, 0
        for k in loop.carries:
            places[k] = total
            total += self._size(loop.ports[k].count)
        self._memory("COTANGENTS", 8 * total)
        stack = sum(size for _, size in saved)
        self.state[WORD["STACK_BYTES"]] = stack
        self._stack_bytes = stack * self._size(loop.length)
        self._memory("STACK", self._stack_bytes)
        active = self._is_active
        number = {slot.value: k for k, slot in enumerate(loop.body.inputs)}
        history = {x: first for x, first, _ in self._history()}
        sums = {out.port: first for out, _, first, _ in self._outputs(SUM)}
        carries = [(out, y, first, n) for out, y, first, n in self._outputs(CARRY)]
        carries = [row for row in carries if active(loop.body.inputs[row[0].port].value)]
        stacks = [row for row in self._outputs(STACK) if active(row[1])]
        kept = [row for row in self._inputs(CAPTURE, SUM) if active(row[1])]
        self._table(
            "SEED_CARRY",
            [(back(y) if active(y) else 0, first, n, places[out.port]) for out, y, first, n in carries],
        )
        self._table("SEED_ROWS", [(back(y), first, n) for _, y, first, n in stacks])
        self._table("KEPT", [(back(x), n, sums.get(number[x], -1)) for _, x, _, n in kept])
        self._table(
            "BACK_CARRY",
            [
                (back(x), p.operand, first, n, places[number[x]], history.get(x, -1))
                for p, x, first, n in self._inputs(CARRY)
                if active(x)
            ],
        )
        self._table(
            "BACK_SLICES",
            [(back(x), p.operand, first, n) for p, x, first, n in self._inputs(SLICE) if active(x)],
        )
        self._table("BACK_KEPT", [(back(x), p.operand, first, n) for p, x, first, n in kept])

    def _outside(self) -> set[int]:
        """Return the storages of captures and sums, whose cells are the same in all steps.

        Sums are never read, and their adjoints are those of the result.
        """
        return {int(self.loop.body.values["storage"][x]) for _, x, _, _ in self._inputs(CAPTURE, SUM)}

    def _ranges(self, adjoints: bool, kept: set[int]) -> list[tuple[int, int]]:
        """Return (address, bytes) of the cells that differ from step to step, or of their adjoints.

        ``kept`` are storages that do not.
        """
        plan, tape = self._plan, self.loop.body
        cells = (self._space.v, self._space.g)[adjoints]
        sizes = [plan.size(code) for code in tape.storages["size"].tolist()]
        found: list[tuple[int, int]] = []
        for family in range(len(FAMILIES)):
            itemsize = FAMILY_DTYPE[family].itemsize
            first = plan.active[family][0] if adjoints else 0
            spans = []
            for storage, (_, its, level) in enumerate(tape.storages.tolist()):
                if its != family or level == CONSTANT or not sizes[storage] or storage in kept:
                    continue
                if not adjoints or level == ACTIVE:
                    start = int(plan.bases[storage]) - first
                    spans.append((start, start + sizes[storage]))
            base = cells[family].ctypes.data
            for start, stop in _merged(spans, 64 // itemsize):
                size = -(-itemsize * (stop - start) // 8) * 8
                found.append((base + itemsize * start, size))
        return found

    # ---- running it

    def filled(self, operands) -> list[np.ndarray]:
        """Return what fills the inputs, given the cells of both operands."""
        shapes = [self._plan.shape(slot.value) for slot in self.loop.body.inputs]
        rows = zip(self.loop.ports, shapes, strict=True)
        size = self._size
        return [
            operands[port.operand][size(port.start) :][: size(port.count)].reshape(shape).copy()
            for port, shape in rows
        ]

    def error(self, operands) -> BaseException:
        """Return what stopped the last step; ``operands`` are the cells of both."""
        stopped, space = int(self.state[WORD["STOPPED"]]), self._space
        if stopped == INTERRUPTED:
            return self.interrupt() or KeyboardInterrupt()
        if stopped == TOO_MANY:
            most = self._size(self.loop.length)
            return StepsError(f"{self.loop.name}: the condition still holds after max_steps={most} steps")
        if self.state[WORD["TESTING"]]:
            self.state[WORD["TESTING"]] = 0
            space = self._test
        if stopped != status.CALL:
            return failure(space, stopped)
        try:
            space.calls.end()
        except BaseException as error:
            return error
        return RuntimeError(f"{self.loop!r} stopped for no reason (please report this)")


def _space(workspace, plan: Plan):
    """Return a workspace for a body, in which what depends on literals alone has been computed."""
    space = workspace(plan)
    if plan.prologue:
        outcome = space.run_prologue()
        assert outcome == status.DONE, "the prologue of a body only has literals"
    return space


def _merged(spans, gap: int) -> list[tuple[int, int]]:
    """Return ranges with those joined that lie next to each other: the gap is what alignment leaves."""
    found: list[tuple[int, int]] = []
    for start, stop in sorted(spans):
        if found and start - found[-1][1] < gap:
            found[-1] = found[-1][0], max(stop, found[-1][1])
        else:
            found.append((start, stop))
    return found
