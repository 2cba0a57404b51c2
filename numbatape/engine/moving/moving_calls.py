"""What lets loops, branches and compiled rules follow sizes, see `numbatape.engine.moving.moving_kernels`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..compiled_calls import CompiledCall
from ..loops.branch_runs import BranchRun
from ..loops.loop_runs import LoopRun
from . import space_words as words
from .moving_spaces import SPARE, MovingSpace, spaces_of_bodies
from .moving_words import Rows

if TYPE_CHECKING:
    from ..plan import Plan


class MovingCall:
    """What the kernel reads of a call: its words, and how they are filled in."""

    def __init__(self, kind: int, state: np.ndarray):
        self.words = np.zeros(words.CALL_WORDS, np.int64)
        self._words, self.address = memoryview(self.words), self.words.ctypes.data
        self._rows, self._state = Rows(), state
        self._words[words.KIND], self._words[words.STATE] = kind, state.ctypes.data

    def _table(self, word: int, rows) -> None:
        """Write a table; its address stands in a word, and how many rows it has in the next one."""
        self._words[word], self._words[word + 1] = self._rows.take(rows)

    def _status(self) -> int:
        """Return what stopped the kernel here, and forget it."""
        found, self._words[words.STATUS] = self._words[words.STATUS], 0
        return found

    def helped(self, made: list[MovingSpace]) -> bool:
        """Do what the kernel waits for, here or further inside; return whether it can go on."""
        raise NotImplementedError


class MovingLoop(MovingCall):
    """A loop."""

    def __init__(self, run: LoopRun):
        super().__init__(words.LOOP, run.state)
        self._run, self._spaces = run, list[MovingSpace]()
        loop, tables, its = run.loop, run.tables, self._words
        moving = tables.moving
        self._table(words.STARTS_AT, moving.starts)
        self._table(words.ADDRESSES_AT, moving.addresses)
        self._table(words.ROOMS_AT, moving.rooms)
        own = loop.own_dimensions
        known = zip(loop.dimensions, run.dimensions, strict=True)
        dimensions = [(code, n, k in own) for k, (code, n) in enumerate(known)]
        self._table(words.DIMENSIONS_AT, dimensions)
        self._dimensions = self._rows.last
        outs, carries = [out.count for out in loop.outs], [loop.ports[k].count for k in loop.carries]
        codes, totals = [*outs, *carries], []
        for target, factor, parts in moving.totals:
            totals.append((target, factor, len(codes), len(codes) + len(parts)))
            codes += parts
        self._table(words.TOTALS_AT, totals)
        its[words.CODES_AT], _ = self._rows.take([(code,) for code in codes])
        its[words.OUTS_COUNT] = len(outs)
        # Only a loop that is swept back keeps cotangents of carries.
        self._carried = carries if run.reverse else []
        its[words.CARRIES_COUNT] = len(self._carried)
        its[words.EXTENT], its[words.ONCE] = loop.extents[0], loop.runs_once
        its[words.STEP_WORK] = run.work_of_step
        its[words.MOVES_BODY] = run.alone and not run.defers
        self._note_room()
        run.moving = self

    def _note_room(self) -> None:
        tables, its = self._run.tables, self._words
        its[words.COTANGENTS_ROOM], its[words.STACK_ROOM] = tables.cotangent_room, tables.stack_room

    def helped(self, made: list[MovingSpace]) -> bool:
        status, its = self._status(), self._words
        if status == words.ROOM:
            self._make_room()
        elif status == words.TABLES:
            self._spaces = spaces_of_bodies(self._run.spaces) or []
            its[words.MOVES_BODY] = bool(self._spaces)
            for word, space in zip((words.BODY, words.TEST_BODY), self._spaces, strict=False):
                its[word] = space.address
        elif status == words.LOOKOUT:
            self._run.look_for_signals()
        else:
            return any(space.helped(made) for space in self._spaces)
        return True

    def _make_room(self) -> None:
        run, tables = self._run, self._run.tables
        cotangents = sum(map(run.size, self._carried))
        if cotangents > tables.cotangent_room:
            tables.take_cotangents(int(SPARE * cotangents))
        stack = tables.stack_bytes
        if stack > tables.stack_room:
            tables.take_stack(int(SPARE * stack))
        self._note_room()

    def settle(self) -> Plan | None:
        """Let the workspaces of bodies have their present plans; return the body's, if it has moved."""
        plans = [space.settle(its) for space, its in zip(self._spaces, self._run.spaces, strict=False)]
        return plans[0] if plans else None

    @property
    def work_of_step(self) -> int:
        """About how much work a step is, in the unit of `numbatape.engine.segments`."""
        return self._words[words.STEP_WORK]


class MovingBranches(MovingCall):
    """Branches."""

    def __init__(self, run: BranchRun):
        super().__init__(words.BRANCHES, run.state)
        self._loops = [MovingLoop(one) for one in run.runs]
        self._table(words.STARTS_AT, run.starts())
        self._table(words.BODIES_AT, [(loop.address,) for loop in self._loops])

    def helped(self, made: list[MovingSpace]) -> bool:
        return any(loop.helped(made) for loop in self._loops)


class MovingRule(MovingCall):
    """A compiled rule."""

    def __init__(self, call: CompiledCall):
        super().__init__(words.RULE, call.words)
        self._call, its = call, self._words
        self._table(words.STARTS_AT, call.starts())
        its[words.RESULT_STORAGE], its[words.RESULT_OFFSET], its[words.RESULT_FAMILY] = call.result
        self._note_buffers()

    def _note_buffers(self) -> None:
        self._table(words.BUFFERS_AT, self._call.buffers())

    def helped(self, made: list[MovingSpace]) -> bool:
        if self._status() != words.ROOM:
            return False
        self._call.make_room()
        self._note_buffers()
        return True


def moving_call(its: LoopRun | BranchRun | CompiledCall) -> MovingCall:
    """Return what lets something that a tape calls follow sizes."""
    if isinstance(its, LoopRun):
        return MovingLoop(its)
    return MovingBranches(its) if isinstance(its, BranchRun) else MovingRule(its)
