"""`Trace`: one recorded run of a user's function. The tracer carries NumPy's values along.

Every traced operation computes its value with NumPy itself, so shapes, dtypes, promotion, errors
and the paths that Python takes are NumPy's; the instruction is recorded besides.
"""

from __future__ import annotations

import sys
from contextvars import ContextVar
from types import FrameType
from typing import Any

import numpy as np

from ..emitter import instructions
from ..errors import LeakError, NumbatapeError, UnsupportedOperationError
from ..ops import ROWS
from ..tape import TapeBuilder
from ..tape.code import Code
from ..tape.instruction import NONE
from ..tape.loop import Branches, Loop
from ..tape.packed_values import Values
from ..tape.tape import ACTIVE, CONSTANT, F32, F64
from ..usercode.frames import LOGS, asked_by, may_be_caught, user_frame, where_in_user_code
from ..usercode.ownership import is_core, is_users_file
from . import operations
from . import symbolic_sizes as sizes
from .aliasing import Memory
from .constants import Constants
from .evaluation import Derivatives, Evaluation
from .state import Arguments, Calls, Capture, Integers, Reused, Validity

# The trace that runs in this thread, for functions that create arrays: they have no traced argument.
CURRENT: ContextVar[Trace | None] = ContextVar("numbatape_trace", default=None)


def current() -> Trace | None:
    """Return the innermost trace that this thread is recording, or None."""
    return CURRENT.get()


def _note_refusal(error: UnsupportedOperationError) -> None:
    """Note what the function cannot do here: if it catches the error, its path is not that of plain NumPy."""
    trace = CURRENT.get()
    if trace is None or trace.closed or trace.validity.leak is not None:
        return
    if may_be_caught(trace.start):
        trace.validity.leak = error


UnsupportedOperationError._noted = _note_refusal


def standing(value):
    """Return the stand-in for a value in the trace of this thread."""
    trace = current()
    return value if trace is None or trace.capture.copies is None else trace.capture.copies.value(value)


class failing:
    """``with failing(trace):`` marks the trace if the body raises.

    The function may catch the error and go on; no guard describes that path, so it holds for these inputs
    only.
    """

    __slots__ = ("trace",)

    def __init__(self, trace: Trace):
        self.trace = trace

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind, error, traceback) -> None:
        if kind is not None and issubclass(kind, Exception):
            self.trace.note_failure(error)


class Trace:
    """The state of one trace: the tape, what it is for, and an object for each topic of `state`.

    Parameters
    ----------
    tape
        The builder that the trace writes to; a new one, unless it is given.

    Attributes
    ----------
    validity
        For which calls the tape holds, beyond its guards.
    derivatives
        Derivatives taken inside, which are recorded without numbers.
    constants
        The literals of plain numbers and arrays.
    memory
        Which arrays share memory, and what has been written there.
    integers
        Python's ints that are traced.
    reused
        Values that are recorded once.
    arguments
        The arguments of the function.
    capture
        What it refers to, and what stands for it.
    calls
        The functions that the tape calls.
    values
        ``Config.values``: with "numpy", math's functions are recorded as such.
    strong
        ``Config.strong_zero``.
    swept
        Whether a reverse sweep may run over the tape; derivatives of a function are tapes of their own,
        which run forward only.
    distributes
        Whether loops may become vectors (`numbatape.emitter.loop_distribution`).
    rolls
        Whether loops over numbers become vectors in any case. They do not where points are lanes, because
        each number is a vector there already (`numbatape.control.emitted_scans`).
    directions
        Inputs that will have lanes (`TapeBuilder.freeze`).
    in_loop
        Whether the body of a loop is being recorded, where there are few guards (`may_guard`).
    differentiating
        The line of a user's rule whose pullback is being recorded, or None.
    closed
        Whether the run is over.
    start
        The frame that has called the function, while it runs.
    places
        The index of a source line by id of the code + offset of the instruction, which is an address inside
        of the code object. A frame has this offset, while the number of its line has to be searched in a
        table as long as the function.
    """

    __slots__ = (
        "arguments",
        "calls",
        "capture",
        "closed",
        "constants",
        "derivatives",
        "differentiating",
        "directions",
        "distributes",
        "in_loop",
        "integers",
        "memory",
        "places",
        "reused",
        "rolls",
        "start",
        "strong",
        "swept",
        "tape",
        "validity",
        "values",
    )

    def __init__(self, tape: TapeBuilder | None = None):
        self.tape = TapeBuilder(ROWS) if tape is None else tape
        self.validity = Validity()
        self.derivatives = Derivatives(self.tape)
        self.constants = Constants(self.tape)
        self.memory = Memory()
        self.integers = Integers()
        self.reused = Reused()
        self.arguments = Arguments()
        self.capture = Capture()
        self.calls = Calls()
        self.values = "fast"
        self.strong = self.swept = self.in_loop = self.closed = False
        self.distributes = self.rolls = True
        self.directions: tuple[int, ...] = ()
        self.differentiating: int | None = None
        self.start: FrameType | None = None
        self.places: dict[int, int] = {}

    # ---- derivatives taken inside

    @property
    def evaluation(self) -> Evaluation:
        """What computes numbers of derivatives, which are recorded without any.

        Raises
        ------
        AssumptionError
            If a rule has made an assumption that does not hold, so that what it appended does not compute the
            derivative here.
        """
        return self.derivatives.evaluated(self._results_of)

    def _results_of(self, call: int, operands):
        """Return the results of the call of a rule, or of a loop, one after the other."""
        called, (first, rest) = self.tape.calls[call], operands[:2]
        lanes = np.broadcast_shapes(first.shape[:-1], rest.shape[:-1])
        if lanes:
            pairs = [np.broadcast_to(x, (*lanes, x.shape[-1])) for x in (first, rest)]
            rows = [self._result_of(called, *(x[k] for x in pairs)) for k in np.ndindex(lanes)]
            return np.reshape(rows, (*lanes, -1))
        if isinstance(called, (Loop, Branches)):
            return self._result_of(called, first, rest)
        if call not in self.calls.sites:  # the call was recorded by another trace
            return self._result_of(called, first, rest)
        return np.concatenate([np.ravel(part._value) for part in self.calls.sites[call][1]])

    def _result_of(self, called, first, rest) -> np.ndarray:
        """Return the result of one lane of a call."""
        if isinstance(called, (Loop, Branches)):
            return operations.loop_values(called, self.tape.sizes.value, self.values, first, rest)
        size = self.tape.sizes.value
        result = np.empty(called.cells(size)[0], first.dtype)
        token = CURRENT.set(None)  # verbs that the rule calls do not belong to this trace
        try:
            called.place(size, result, first, rest, None, None).forward()
        finally:
            CURRENT.reset(token)
        return result

    # ---- source positions

    def line(self) -> int:
        """Return the index of the user's current source line, or of the one being differentiated."""
        if self.differentiating is not None:
            return self.differentiating
        frame: Any = sys._getframe(1)
        while frame is not None and is_core[frame.f_code.co_filename]:
            frame = frame.f_back
        if frame is not None:
            index = self.places.get(id(frame.f_code) + frame.f_lasti)
            if index is not None:
                return index
        if frame is None or not is_users_file(frame.f_code.co_filename, frame.f_globals.get("__name__")):
            frame = user_frame()
        index = self.tape.source.number(frame.f_code, frame.f_lineno)
        # The tape keeps the code alive, so that no other code gets its id.
        self.places[id(frame.f_code) + frame.f_lasti] = index
        return index

    def close(self) -> None:
        """End the trace. Whoever still refers to it does not keep its instructions and arrays in memory.

        Arrays refer to their trace. Without those that the trace refers to, it is freed as soon as nobody
        needs it; Python's garbage collector would examine all of it first.
        """
        self.closed = True
        self.start = None
        self.tape.code, self.tape.values, self.tape.storages = Code(), Values(), []
        self.derivatives.close()
        self.validity.close()
        self.constants.close()
        self.memory.arrays = []
        self.reused = Reused()
        for held in (
            self.arguments.inputs,
            self.arguments.twins,
            self.arguments.joined,
            self.calls.sites,
            self.memory.sharing,
            self.memory.boxes,
            self.capture.remembered,
            self.capture.snapshots,
        ):
            held.clear()

    def check_open(self) -> None:
        if self.closed:
            raise LeakError(
                "a traced value outlived the call that it was traced in "
                f"(used at {where_in_user_code()}); return it instead of storing it"
            )

    # ---- guards

    def may_guard(self, array) -> bool:
        """Whether Python may ask for the number of an array here.

        The body of a loop is traced once for all of its steps, so that what differs from step to step can't
        be a guard there, and code that asks this must compute what is right for any number.
        """
        return not self.in_loop or array._level == CONSTANT

    def guard(self, array, kind: str, outcome, counts: int = NONE):
        """Record that Python saw ``outcome`` in a one-element array; return it. ``counts`` as in `Guard`."""
        if self.validity.vouched:
            return outcome
        number = array._id
        # A truth value is often the same for many sizes, a number is not.
        if self.integers.origins is not None and kind != "bool" and sizes.rely_on(self, (array,)):
            return outcome
        if array._family == F32:
            number = self.cast(array, F64)
        self.tape.guard(number, kind, outcome, array._level, self.line(), counts)
        return outcome

    def cast(self, array, family: int) -> int:
        """Return the value number of an array in another family's cells."""
        return instructions.cast(self.tape, array._id, family, self.line())

    def note_text(self, level: int = ACTIVE) -> None:
        """Note that a value became text. Its use cannot be followed, so the tape holds for this value only.

        Text that is only written to a log does not count.
        """
        if self.closed or asked_by(LOGS):
            return
        if level == CONSTANT:
            self.pin_constants()
        else:
            self.note_one_step("makes text of a value")

    def note_one_step(self, what: str) -> None:
        """Note that the function did what no guard describes, or what holds, in a loop, for one step only."""
        self.validity.failed = True
        if self.in_loop:
            self.validity.unforeseen = f"{what} at {where_in_user_code()}"

    def note_failure(self, error: Exception) -> None:
        """Note that an operation raised: if the function goes on, no guard says for which inputs it does so.

        Whether an operation raises these errors may depend on numbers, which differ between steps of a loop.
        """
        if self.validity.is_foreseen(error):
            return
        self.validity.failed = True
        if isinstance(error, (ArithmeticError, ValueError)) and not isinstance(error, NumbatapeError):
            self.note_one_step(f"catches {type(error).__name__} ({error})")

    def pin_constants(self, *arrays) -> None:
        """Note that the contents of constants decided what is recorded.

        Parameters
        ----------
        arrays
            The constants, if they are known: those that depend on sizes only are fixed by these.
        """
        if not (arrays and self.integers.origins is not None and sizes.rely_on(self, arrays)):
            self.validity.pinned = True
            if self.integers.origins is not None:  # what was decided may depend on sizes, too
                for slot in self.tape.inputs:
                    for dim in slot.dims:
                        self.tape.sizes.pin(dim, self.line())
