"""Branches as sweeps run them: several bodies, of which one runs (`numbatape.engine.loops.loop_runs`)."""

from __future__ import annotations

import copy

import numpy as np

from ... import jit
from ...tape.loop import Branches, Loop
from .branch_kernels import BRANCH_STATE, BRANCH_WORD, NO_BODY
from .loop_kernels import body_source
from .loop_lanes import LoopLanes
from .loop_runs import LoopRun


class BranchRun:
    """The branches of one instruction of one workspace; the parameters are those of `LoopRun`."""

    def __init__(self, branches: Branches, size, values, workspace, reverse: bool, again: bool):
        self._branches = branches
        runs = [LoopRun(loop, size, values, workspace, reverse, again) for loop in branches.loops]
        kernels = jit.load("bodies", body_source()).address
        self.forward, self.back = kernels["branch"], kernels["branch_back"]
        self.state = np.zeros(len(BRANCH_STATE), np.int64)
        self._let_run(runs)
        self.state[BRANCH_WORD["BRANCH_BODIES"]] = len(self._runs)
        for word, code in self._codes():
            self.state[word] = -1 if code is None else size(code)

    def _codes(self) -> list[tuple[int, int | None]]:
        """Return the words that are values of size codes, with these codes."""
        branches = self._branches
        return [
            (BRANCH_WORD["BRANCH_INDEX"], branches.index),
            (BRANCH_WORD["BRANCH_PLACE"], branches.chosen),
        ]

    def starts(self) -> list[tuple[int, int]]:
        """Return the addresses of words that follow sizes, with their size codes."""
        first, step = self.state.ctypes.data, self.state.itemsize
        return [(first + step * word, code) for word, code in self._codes() if code is not None and code < 0]

    @property
    def in_lanes(self) -> bool:
        """Whether bodies compute several lanes."""
        return any(run.in_lanes for run in self._runs)

    @property
    def runs(self) -> list[LoopRun]:
        """What runs bodies."""
        return self._runs

    def _let_run(self, runs: list[LoopRun]) -> None:
        self._runs = runs
        self._states = np.array([run.state.ctypes.data for run in runs], np.int64)
        self.state[BRANCH_WORD["BRANCH_STATES"]] = self._states.ctypes.data

    def again(self, lanes: None) -> BranchRun:
        """Do what `LoopRun.again` does."""
        found = copy.copy(self)
        found.state = self.state.copy()
        found._let_run([run.again(lanes) for run in self._runs])
        return found

    def place(self, v: int, g: int) -> None:
        """Do what `LoopRun.place` does, for all bodies."""
        self.state[BRANCH_WORD["BRANCH_V"]] = v
        for run in self._runs:
            run.place(v, g)

    @property
    def work(self) -> int:
        """About how much work the longest body is."""
        return max(run.work for run in self._runs)

    def interrupt(self) -> BaseException | None:
        """Do what `LoopRun.interrupt` does."""
        number = int(self.state[BRANCH_WORD["BRANCH_CHOSEN"]])
        return None if number == NO_BODY else self._runs[number].interrupt()

    def error(self, operands) -> BaseException:
        """Return what stopped the body that ran, or what says that there is no body for some operands."""
        number = int(self.state[BRANCH_WORD["BRANCH_CHOSEN"]])
        if number != NO_BODY:
            return self._runs[number].error(operands)
        return self._branches.source.missing(self._runs[0].filled(operands))


def make_run(
    called: Loop | Branches, *args, lanes: LoopLanes | None = None, **options
) -> LoopRun | BranchRun:
    """Return what runs a loop or branches; the other parameters are those of `LoopRun`.

    Where lanes may take different numbers of steps, some compute what nobody needs while others go on. That
    takes no longer only where lanes hardly matter.
    """
    if not isinstance(called, Loop):
        return BranchRun(called, *args, **options)
    if lanes is None or not lanes.apart:
        return LoopRun(called, *args, lanes=lanes, **options)
    alone = LoopRun(called, *args, **options)
    return LoopRun(called, *args, lanes=lanes, alone=alone, **options) if alone.is_light else alone
