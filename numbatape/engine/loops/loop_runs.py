"""Loops as sweeps run them: the plan and the memory of a body, and the state that the kernels read.

The body has a workspace of its own, whose sweeps the kernels (`numbatape.engine.loops.loop_kernels`) call
once a step. A reverse sweep needs the cells of each step: they are saved on a stack, all but those of
captures. If the body calls rules or other loops, whose memory is that of their last call, only the carries
are saved, and each step is computed again before it is swept back.

A body that runs once shares its workspace with all other calls of the same plan: each call keeps the cells
that its reverse sweep needs, or computes them again.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from ... import jit
from ...errors import StepsError
from ...late import imported
from ...ops import status
from ...tape import Tape
from ...tape.loop import Loop
from ...threads import Kept
from ..failures import failure
from ..frame import WORD as FRAME_WORD
from ..interrupts import Lookout, steps_between_looks, work_of_plan
from ..kernels import sweep_address
from ..plan import Plan, make_plan
from ..segments import INSTRUCTION
from .deferred_products import DeferredProduct, deferred_products, may_defer
from .loop_kernels import ALONE_STOPPED, INTERRUPTED, TOO_MANY, body_source, loop_source
from .loop_lanes import LoopLanes, laned_body
from .loop_tables import LoopTables
from .loop_words import WORD

LIGHT = 5  # A light step is at most so many times the work of its instructions beside their cells.

_plans: Kept[Plan] = Kept(256)
_replanners: Kept[Any] = Kept(256)  # what plans bodies for further sizes


def body_plan(body: Tape, dimensions: tuple[int, ...], values: str) -> Plan:
    """Return the plan of a body; it is the same for all loops with this body."""
    key = body.digest, dimensions, values
    found = _plans.get(key)
    if found is None:
        found = _further_plan(body, dimensions, values) or make_plan(body, dimensions, values)
        _plans.put(key, found)
    return found


def _further_plan(body: Tape, dimensions: tuple[int, ...], values: str) -> Plan | None:
    """Return the plan of a body that has one for other dimensions; None where only Python makes it."""
    key = body.digest, values
    known = _replanners.get(key)
    first = known or next((plan for its, plan in _plans.items() if its[::2] == key), None)
    if first is None:
        return None
    if isinstance(first, Plan):
        made = imported("..replan", __package__).Replanner.of(first)
        if made is None:
            return None
        first = made
        _replanners.put(key, first)
    return first.plan(dimensions)


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
    alone
        What computes the lanes that take many more steps than others, if lanes may take different numbers.

    Attributes
    ----------
    forward, back
        Addresses of the kernels.
    state
        The words that the kernels read, besides those of the instruction.
    size, reverse
        The parameters.
    dimensions
        Those of the body when this was made.
    moving
        What lets it follow sizes, a `MovingLoop`; None as long as these have not changed.
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
        alone: LoopRun | None = None,
    ):
        self.loop = loop
        dimensions = self.dimensions = tuple(map(size, loop.dimensions))
        self._body = loop.body
        self._lanes = lanes or LoopLanes(1, 0, (0, 0, 0), frozenset())
        if lanes is not None and lanes.ports:
            self._body = laned_body(loop.body, lanes.ports, dimensions)
            dimensions = (*dimensions, lanes.count)
        deferred: list[DeferredProduct] = []
        self.reverse, self._may_defer = reverse, reverse and lanes is None and not loop.runs_once
        if self._may_defer:
            self._body, deferred = deferred_products(loop, dimensions)
        self.size, self._plan = size, body_plan(self._body, dimensions, values)
        self._space = space = _space(workspace, self._plan)
        self._test = None if loop.test is None else _space(workspace, self._plan_of_test(values))
        self._alone = alone
        frame = space.frame
        # The words are zero, because the loop's kernels clear and seed the adjoints themselves.
        for name in ("SEED_COUNT", "CELLS64", "CELLS32"):
            frame[FRAME_WORD[name]] = 0
        self._tables = tables = LoopTables(loop, self._body, self._plan, space, size)
        self.state = tables.words
        self._lookout: Lookout | None = None
        self.moving: Any = None
        self.alone = True  # whether nothing else runs in its workspace
        if loop.runs_once:
            kernels = jit.load("bodies", body_source()).address
            self.forward, self.back = kernels["once"], kernels["once_back"]
        else:
            kernels = jit.load("loops", loop_source()).address
            self.forward, self.back = kernels["forward"], kernels["reverse"]
        self._write_words(again)
        tables.write_lengths()
        if not loop.runs_once:
            self.look_for_signals()
        tables.write_forward()
        if self._test is not None:
            tables.write_test(self._test)
        if self._alone is not None:
            tables.write_apart(self._lanes.count, self._alone.state)
        if reverse:
            tables.write_reverse()
            tables.write_deferred(deferred)

    def _plan_of_test(self, values: str) -> Plan:
        """Return the plan of the test before each step."""
        test, dimensions, tested = self.loop.test, self.dimensions, self._lanes.tested
        assert test is not None
        if not tested:
            return body_plan(test, dimensions, values)
        return body_plan(laned_body(test, tested, dimensions), (*dimensions, self._lanes.count), values)

    def _write_words(self, again: bool) -> None:
        """Write the words of the state that say what the kernels do."""
        loop, reverse = self.loop, self.reverse
        # Rules and inner loops keep what their last call has left, which may be a call by another user of
        # this body.
        again = again or (loop.runs_once and (loop.recompute or bool(loop.body.calls)))
        words = {
            "VALUE": sweep_address("value"),
            "PULLBACK": sweep_address("pullback") if reverse else 0,
            "FRAME": self._space.address,
            "BACKWARDS": int(loop.reverse),
            "SAVING": int(reverse and not (again and loop.runs_once)),
            "AGAIN": int(again),
            "RECOMPUTE": int(bool(loop.body.calls)),
            "LANES": self._lanes.count,
            "FIRST": self._lanes.first,
            **dict(zip(("LANE_A", "LANE_B", "LANE_OUT"), self._lanes.steps, strict=True)),
        }
        for name, word in words.items():
            self.state[WORD[name]] = word

    @property
    def tables(self) -> LoopTables:
        """The state that the kernels read."""
        return self._tables

    @property
    def defers(self) -> bool:
        """Whether some sizes may have deferred products."""
        return self._may_defer and may_defer(self.loop)

    @property
    def in_lanes(self) -> bool:
        """Whether its body computes several lanes."""
        return self._lanes.count != 1

    def _settle(self) -> None:
        """Let the plan be that of the present sizes, if the body has moved."""
        if self.moving is not None:
            self._plan = self.moving.settle() or self._plan

    def again(self, lanes: LoopLanes | None) -> LoopRun:
        """Return a run of the same loop, with own memory, for another instruction with these operands."""
        found = copy.copy(self)
        self.alone = found.alone = False
        found._tables, found.moving = self._tables.again(), None
        found.state = found._tables.words
        found.state[WORD["FIRST"]] = 0 if lanes is None else lanes.first
        return found

    def place(self, v: int, g: int) -> None:
        """Set the base addresses of the cells and adjoints that the instruction's words count from."""
        self.state[WORD["V"]], self.state[WORD["G"]] = v, g
        if self._alone is not None:
            self._alone.place(v, g)

    @property
    def runs(self) -> list[LoopRun]:
        """What runs bodies."""
        return [self] if self._alone is None else [self, self._alone]

    @property
    def space(self):
        """The workspace of the body."""
        return self._space

    @property
    def spaces(self) -> list:
        """The workspaces of the body and of the condition."""
        return [self._space] if self._test is None else [self._space, self._test]

    @property
    def nbytes(self) -> int:
        """The bytes that the loop has besides its workspaces."""
        return self._tables.nbytes

    @property
    def work_of_step(self) -> int:
        """About how much work a step is, in the unit of `numbatape.engine.segments`."""
        return self._first_work if self.moving is None else self.moving.work_of_step

    @cached_property
    def _first_work(self) -> int:
        return INSTRUCTION + sum(
            work_of_plan(space.plan) + (0 if space.calls is None else space.calls.work)
            for space in self.spaces
        )

    @property
    def is_light(self) -> bool:
        """Whether a step takes its time for its instructions, and hardly longer with more cells."""
        count = sum(len(space.plan.tape) for space in self.spaces)
        return self.work_of_step <= LIGHT * INSTRUCTION * count

    @property
    def work(self) -> int:
        """About how much work all steps are."""
        return self.size(self.loop.length) * self.work_of_step

    def look_for_signals(self) -> None:
        """Let the kernels look for Ctrl-C from time to time, if there are many steps."""
        self.state[WORD["EVERY"]] = every = steps_between_looks(
            self.work_of_step, self.size(self.loop.length)
        )
        if every:
            self._lookout = self._lookout or Lookout()
            self.state[WORD["LOOK"]] = self._lookout.address

    def interrupt(self) -> BaseException | None:
        """Return, and forget, the exception of a signal's handler that stopped the last step, if one did."""
        stopped = int(self.state[WORD["STOPPED"]])
        if stopped == ALONE_STOPPED and self._alone is not None:
            return self._alone.interrupt()
        if stopped == INTERRUPTED and self._lookout is not None:
            return self._lookout.taken()
        if stopped != status.CALL:
            return None
        signals = [space.calls.interrupt() for space in self.spaces if space.calls is not None]
        return next((signal for signal in signals if signal is not None), None)

    # ---- running it

    def filled(self, operands) -> list[np.ndarray]:
        """Return what fills the inputs, given the cells of both operands."""
        self._settle()
        shapes = [self._plan.shape(slot.value) for slot in self.loop.body.inputs]
        rows = zip(self.loop.ports, shapes, strict=True)
        size = self.size
        return [
            operands[port.operand][size(port.start) :][: size(port.count)].reshape(shape).copy()
            for port, shape in rows
        ]

    def error(self, operands) -> BaseException:
        """Return what stopped the last step; ``operands`` are the cells of both."""
        self._settle()
        stopped, space = int(self.state[WORD["STOPPED"]]), self._space
        if stopped == ALONE_STOPPED and self._alone is not None:
            return self._alone.error(operands)
        if stopped == INTERRUPTED:
            return self.interrupt() or KeyboardInterrupt()
        if stopped == TOO_MANY:
            most = self.size(self.loop.length)
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
