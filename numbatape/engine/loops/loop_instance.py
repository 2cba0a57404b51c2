"""A loop over arrays that hold its cells: for `debug_mode`, and for numbers while a function is traced."""

from __future__ import annotations

import ctypes

import numpy as np

from ...jit.call_words import CALL_NUMBER, CALL_RAISED, CALL_STATUS, CALL_WORDS
from ...ops import status
from .branch_runs import BranchRun
from .loop_runs import LoopRun


class LoopInstance:
    """A loop at one place of a plan, where cells are in arrays; see `numbatape.engine.called.Instance`.

    The kernels find an adjoint at the place of its value, so both are copied into arrays with one layout:
    result, first operand, second operand.
    """

    def __init__(self, run: LoopRun | BranchRun, out, first, rest, out_adjoint, first_adjoint):
        self._run = run
        self._parts = out, first, rest
        self._adjoints = out_adjoint, first_adjoint
        self._words, self._raised = np.zeros(CALL_WORDS, np.int64), np.zeros(1, np.int64)
        m, n, p = map(len, self._parts)
        self._words[: CALL_NUMBER + 1] = 0, m, m, n, 1, m + n, p, 1, 0
        self._words[CALL_RAISED], self._words[CALL_STATUS] = self._raised.ctypes.data, status.CALL

    def _sweep(self, address: int, v: np.ndarray, g: np.ndarray) -> None:
        self._run.place(v.ctypes.data, g.ctypes.data)
        kernel = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(address)
        if kernel(self._words.ctypes.data, self._run.state.ctypes.data):
            raise self._run.error(self._parts[1:])

    def _cells(self) -> np.ndarray:
        return np.concatenate(self._parts, dtype=np.float64)

    def forward(self) -> None:
        """Compute the result."""
        v = self._cells()
        self._sweep(self._run.forward, v, np.zeros(0))
        self._parts[0][...] = v[: len(self._parts[0])]

    def reverse(self, rest_needed: bool) -> None:
        """Add to the adjoints of the first operand."""
        v, (ct, target) = self._cells(), self._adjoints
        if ct is None or target is None:
            return
        m, n = len(ct), len(target)
        g = np.zeros(len(v))
        g[:m] = ct
        self._sweep(self._run.back, v, g)
        target += g[m : m + n]
