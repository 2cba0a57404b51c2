"""Ctrl-C in long loops: their kernels look for it from time to time.

Python handles signals between its own instructions, and a kernel runs none. So every few milliseconds a long
loop lets Python run for a moment. The exception that a signal's handler raises must not leave through the
kernel: it is kept, and the Python code that has called the kernel raises it.
"""

from __future__ import annotations

import ctypes

import numpy as np

from . import segments
from .plan import Plan

LOOK = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)


class Lookout:
    """What a loop's kernel calls from time to time.

    Attributes
    ----------
    address
        Of the function; it returns whether an exception came up.
    error
        The exception.
    """

    def __init__(self):
        self.error: BaseException | None = None
        waiting = _signals(self)
        next(waiting)
        # Python looks for signals where it begins to run a function, before any ``try`` in it. A generator
        # goes on in the middle, where the exception can be caught.
        self._pointer = LOOK(waiting.send)
        self.address = ctypes.cast(self._pointer, ctypes.c_void_p).value

    def taken(self) -> BaseException | None:
        """Return the exception, and forget it."""
        error, self.error = self.error, None
        return error


def _signals(lookout: Lookout):
    found = 0
    while True:
        try:
            yield found
            found = 0
        except GeneratorExit:
            return
        except BaseException as error:
            lookout.error, found = error, 1


def steps_between_looks(work_of_step: int, length: int) -> int:
    """Return after how many steps a loop looks for Ctrl-C; 0 for a loop that is short."""
    most = max(1, segments.MOST // work_of_step)
    return most if most < length else 0


def work_of_plan(plan: Plan) -> int:
    """Return about how much work the instructions of a plan are, besides the loops that they call."""
    return int(segments.work_of(plan.tape, np.vectorize(plan.size, otypes=[np.int64])).sum())
