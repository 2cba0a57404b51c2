"""Rules written by the user, as sweeps call them.

A ``call`` instruction's kernel calls a function pointer of ctypes: no sweep stops for it, so that every
way of running one (steady closures, bound callables, lanes) serves tapes with rules too. What the
kernel tells, `Calls` turns into views of cells, once for each place on the plan: a call site, and in
lanes each lane, has an instance of its rule with memory of its own.

An exception cannot pass through compiled code. It is kept, the sweep returns ``status.CALL`` (a
reverse sweep goes on, but calls no more rules), and `Workspace` raises it.
"""

from __future__ import annotations

import ctypes
from typing import Protocol

import numpy as np

from ..ops import status
from ..tape.tape import FAMILY_DTYPE
from .frame import WORD

OPERANDS = 8  # words that a kernel writes into CALL
POINTER = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


class Instance(Protocol):
    """A rule at one place of a plan."""

    def forward(self) -> None: ...
    def reverse(self, rest_needed: bool) -> None: ...


class Call(Protocol):
    """An entry of `Tape.calls`."""

    family: int

    def place(self, out, first, rest, out_adjoint, first_adjoint) -> Instance:
        """Return an instance that reads and writes these one-dimensional views of cells.

        Adjoints are None where there are none.
        """


class Calls:
    """One workspace's instances of the rules on its tape.

    Parameters
    ----------
    plan
        Whose tape has calls.
    v, g
        Value and adjoint cells by family.
    """

    def __init__(self, plan, v, g):
        self._calls = plan.tape.calls
        self._cells = v, g
        self._active = plan.active
        self._instances: dict[tuple[int, int], Instance] = {}
        self.words = np.zeros(OPERANDS, np.int64)
        self.raised = np.zeros(1, np.int64)  # replaced by the frame's word
        self.error: BaseException | None = None
        # These refer to this object, and it to them: the garbage collector's.
        self._pointers = POINTER(self.forward), POINTER(self.reverse), POINTER(self.reverse_all)
        addresses = [ctypes.cast(pointer, ctypes.c_void_p).value for pointer in self._pointers]
        self._table = np.array(addresses, np.int64)

    def into(self, frame: np.ndarray) -> Calls:
        """Write the frame's words about calls."""
        frame[WORD["CALLS"]] = self._table.ctypes.data
        frame[WORD["CALL"]] = self.words.ctypes.data
        self.raised = frame[WORD["RAISED"] : WORD["RAISED"] + 1]
        return self

    def begin(self) -> None:
        """Forget what an earlier sweep raised, but no interrupt that a steady call swallowed."""
        error, self.error = self.error, None
        self.raised[0] = status.DONE
        if error is not None and not isinstance(error, Exception):
            raise error

    def end(self) -> None:
        """Raise what a rule raised in the sweep that has ended."""
        if self.error is not None:
            error, self.error = self.error, None
            self.raised[0] = status.DONE
            raise error

    def forward(self, number: int, out: int) -> int:
        """Compute the result of a call, at its first cell; return a status."""
        if self.error is not None:
            return status.CALL
        try:
            (self._instances.get((number, out)) or self._place(number, out)).forward()
        except BaseException as error:
            return self._failed(error)
        return status.DONE

    def reverse(self, number: int, out: int, rest_needed: bool = False) -> int:
        """Add to the adjoints of a call's arguments; return a status."""
        if self.error is not None:
            return status.CALL
        try:
            (self._instances.get((number, out)) or self._place(number, out)).reverse(rest_needed)
        except BaseException as error:
            return self._failed(error)
        return status.DONE

    def reverse_all(self, number: int, out: int) -> int:
        """Do the same where the arguments that a rule's pullback is not for take an adjoint too."""
        return self.reverse(number, out, True)

    def _failed(self, error: BaseException) -> int:
        self.error = error
        self.raised[0] = status.CALL
        return status.CALL

    def _place(self, number: int, out: int) -> Instance:
        """Make the instance of a call whose kernel has just said where its operands are."""
        call = self._calls[number]
        _, m, a, n, step_a, b, p, step_b = self.words.tolist()
        instance = self._instances[number, out] = call.place(
            self._view(call.family, out, m, 1),
            self._view(call.family, a, n, step_a),
            self._view(call.family, b, p, step_b),
            self._view(call.family, out, m, 1, adjoint=True),
            self._view(call.family, a, n, step_a, adjoint=True),
        )
        return instance

    def _view(self, family: int, first: int, size: int, step: int, adjoint: bool = False):
        """Return cells as a one-dimensional array; None for adjoints that are not there."""
        dtype = FAMILY_DTYPE[family]
        cells = self._cells[adjoint][family]
        if size == 0:
            return np.zeros(0, dtype)
        if adjoint:
            start, count = self._active[family]
            first -= start
            if not 0 <= first < count:
                return None
        return np.ndarray((size,), dtype, cells, first * dtype.itemsize, (step * dtype.itemsize,))


def expected(tape, operands, shape) -> np.ndarray:
    """Return a call's result as `Reference` computes it: with an instance of its own, without kernels."""
    first, rest, number = operands
    call = tape.calls[int(np.asarray(number).flat[0])]
    result = np.empty(shape, FAMILY_DTYPE[call.family])
    batch = shape[:-1]
    firsts, rests = (np.broadcast_to(x, (*batch, x.shape[-1])) for x in (first, rest))
    for k in np.ndindex(*batch):
        call.place(result[k], firsts[k], rests[k], None, None).forward()
    return result
