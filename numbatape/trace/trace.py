"""`Trace`: one recorded run of a user's function. The tracer carries NumPy's values along.

Every traced operation computes its value with NumPy itself, so shapes, dtypes, promotion, errors
and the paths that Python takes are NumPy's; the instruction is recorded besides.
"""

from __future__ import annotations

import sys
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np

from ..emitter import instructions
from ..errors import LeakError, MissingBodyError, UnsupportedOperationError
from ..ops import ROWS
from ..tape import TapeBuilder
from ..tape.code import Code
from ..tape.loop import Branches, Loop
from ..tape.packed_values import Values
from ..tape.tape import ACTIVE, CONSTANT, F32, F64, POOLS
from ..usercode.frames import LOGS, asked_by, user_frame, where_in_user_code
from ..usercode.ownership import is_core, is_users_file
from . import operations
from . import symbolic_sizes as sizes
from .aliasing import contents_to_compare, is_as_it_was, memory_of, root_of
from .evaluation import AssumptionError, Evaluation
from .library_kinds import not_numpys

EXACT_INTEGER = 2**53
BEYOND_INTEGERS = 2**64  # no integer of NumPy's is as large
float64 = np.float64


# The trace that runs in this thread, for functions that create arrays: they have no traced argument.
CURRENT: ContextVar[Trace | None] = ContextVar("numbatape_trace", default=None)


def current() -> Trace | None:
    """Return the innermost trace that this thread is recording, or None."""
    return CURRENT.get()


class Outside(NamedTuple):
    """A source of numbers that cannot be checked before a call, and the line that reads it."""

    what: str
    file: str
    line: int


def standing(value):
    """Return the stand-in for a value in the trace of this thread."""
    trace = current()
    return value if trace is None or trace.copies is None else trace.copies.value(value)


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
            self.trace.failed = True


class Trace:
    """The state of one trace.

    Attributes
    ----------
    tape
        The builder that the trace writes to.
    pinned
        Whether constants' contents decided what was recorded, so that the tape holds for these
        contents only.
    failed
        Whether an operation raised. If the function went on, no guard says for which inputs it
        raises, and the tape holds for these inputs only.
    float_errors
        NumPy's treatment of floating-point errors outside of the trace; inside they are ignored.
    swept
        Whether a reverse sweep may run over the tape; derivatives of a function are tapes of their own,
        which run forward only.
    """

    def __init__(self):
        self.tape = TapeBuilder(ROWS)
        self.pinned = False
        self.failed = False
        self.float_errors = np.geterr()
        self.outside: list[Outside] = []  # what the function read that cannot be checked before a call
        self.swept = False
        self.closed = False
        self.distributes = True  # whether loops may become vectors, see `numbatape.emitter.loop_distribution`
        self.derives = False  # whether a derivative is taken inside
        self.differentiating: int | None = None  # the line of a user's rule whose pullback is being recorded
        self.emitter: Any = None  # what appends derivatives (`numbatape.nested.emitting`)
        self.given: list[tuple[int, Any]] = []  # values by number that derivatives are evaluated from
        self.deferred: list = []  # weak references to arrays whose numbers nobody has computed
        self._evaluation: Evaluation | None = None
        self.assumes = False  # whether rules may assume the usual case, see `assume`
        self.assumed: list[int] = []  # the guards on what they have assumed
        self._unchecked: list[tuple[int, bool]] = []  # assumed truth values that were not evaluated, by value
        self.mistaken = False  # whether one of them is wrong
        self.arrays: list[tuple] = []  # (id of the memory's owner, weak reference), not sorted yet
        self.sharing: dict[int, list] = {}  # weak references to arrays, by the id of the memory's owner
        self.integers = False  # whether there are traced Python ints, see `integers`
        self.symbolic = False  # whether the user's code sees sizes as traced ints
        self.writes = False  # whether the function may write to arrays
        self.has_sizes = False  # whether it has asked for one that depends on the arguments
        self.extents: dict = {}  # sizes as numbers in cells, by size code
        self.fft_tables: dict[int, Any] = {}  # of transforms, by the size code of the length
        self.fractions: dict[int, tuple[str, int, int]] = {}  # see `numbatape.trace.size_fractions`
        self.of_sizes = None  # finds what depends on sizes only, see `numbatape.trace.symbolic_sizes.rely_on`
        self.values = "fast"  # Config.values: with "numpy" math's functions are recorded as such
        self.strong = False  # Config.strong_zero
        self.factors: dict[int, Any] = {}  # Cholesky factors by the number of what `cho_factor` returned
        self.sites: dict[int, tuple] = {}  # traced arguments and results of rules' calls, by number
        self.directions: tuple[int, ...] = ()  # inputs that will have lanes, see `TapeBuilder.freeze`
        self.boxes: dict = {}  # of arrays that were written to, by the id of the memory's owner
        self.patchworks: dict[int, Any] = {}  # the same for `numbatape.trace.patches`
        self.regions: dict[int, Any] = {}  # by the id of a view's ndarray, see `numbatape.trace.regions`
        self.captures: Any = None  # stand-ins for captured arrays, if they are traced
        self.borrowed: set[int] = set()  # ids of captured arrays whose memory they have
        self.literal_roots: set[int] = set()  # ids of arrays that own memory which became literals
        self.captured: set[int] = set()  # ids of captured objects of pandas, polars and xarray
        self.stand_ins: list = []  # (object, its own class) of objects whose class has a stand-in
        self.leak: LeakError | None = None  # the first one, even if it was caught
        self.missing: MissingBodyError | None = None  # of a sub-tape whose numbers were needed
        self.assigned: frozenset[str] | None = None  # names of globals, once something has asked for them
        self.environment: Any = None  # what the function captures (`numbatape.capture.environment`)
        self.sub_tapes: list[tuple] = []  # those that were called, and how many traces each had then
        self.vouched = False  # whether a user's key stands for the guards (`numbatape.guarded`)
        self.containers: list = []  # (container, its copy, entries of both, how to change the container)
        self.lent: list = []  # (class, name) of members that are behind a switch
        self.library_copies = None  # copies of libraries' functions (`numbatape.capture.library_copies`)
        self.copies = None  # makes stand-ins for the user's values (`numbatape.capture.copies`)
        self.snapshots: dict[int, tuple] = {}  # by id: an array of the user's, and a copy for rules
        self.scratch: list = []  # memory that the function was given to write to
        self.inputs: dict = {}  # traced arguments by the id of their memory
        self.twins: dict[int, list] = {}  # arguments that are the same array; None if they only overlap
        self.joined: dict[int, object] = {}  # parts of complex arguments by the id of the inputs
        self.writes_inputs = False
        self.located: dict[int, list] = {}  # traced positions of rows that NumPy makes views, by storage
        # Weak references to arrays outside of the trace that have memory of plain arrays, and its owners.
        self.borrowers: list[tuple] = []
        self.grids: dict[tuple, np.ndarray] = {}  # arrays of consecutive numbers by shape, each one literal
        self.fixed: dict[int, np.ndarray] = {}  # by id: memory that the body under way may not write to
        self.labels: dict[int, Any] = {}  # of arguments with labels, by value number: see `trace/labels.py`
        self.in_loop = False  # whether the body of a loop is being recorded, where there can be no guards
        self.halves: dict[tuple, tuple] = {}  # a complex constant and its parts, by its memory
        # An array that was an operand, its value number, and what `is_as_it_was` compares. They are found by
        # the array's id and by its memory, because ``a.T`` is another object in each turn of a loop. The
        # arrays stay alive, so that no others get their ids and memory.
        self._arrays: dict[tuple, tuple[np.ndarray, int, np.ndarray | None]] = {}
        # The index of a source line by id of the code + offset of the instruction, which is an address inside
        # of the code object. A frame has this offset, while the number of its line has to be searched in a
        # table as long as the function.
        self.places: dict[int, int] = {}
        self.entries: dict[tuple[int, int], int] = {}  # value numbers of x[k] by the number of x and k
        # Value numbers of float64 literals, by number; zeros have no place there, because 0.0 and -0.0 are
        # equal.
        self.numbers = self.tape.cell_literals.floats

    # ---- derivatives taken inside

    @property
    def evaluation(self) -> Evaluation:
        """What computes numbers of derivatives, which are recorded without any.

        Raises
        ------
        AssumptionError
            If a rule has assumed what is not so: what it appended does not compute the derivative here.
        """
        if self._evaluation is None:
            self.tape.unroll()
            self._evaluation = Evaluation(self.tape, self._results_of)
            for number, value in self.given:
                self._evaluation.note(number, value)
        if self._unchecked:
            unchecked, self._unchecked = self._unchecked, []
            self.mistaken |= any(bool(self._evaluation.value(number)) != truth for number, truth in unchecked)
        if self.mistaken:
            raise AssumptionError
        return self._evaluation

    def assume(self, guard: int, condition: int, truth: bool) -> None:
        """Note that a rule has assumed the truth of a value, and recorded the guard of a given number on it.

        To evaluate the value takes longer than to record it. So that is left to the first sweep over the
        tape, unless the trace itself needs the number of a derivative.
        """
        self.assumed.append(guard)
        self._unchecked.append((condition, truth))

    def know(self, number: int, value) -> None:
        """Let the numbers of a value be known to who evaluates; nobody may write to them.

        They are noted by its cells, so a scalar must not move into an array that it is written to.
        """
        self.given.append((number, value))
        storage, offset, _ = self.tape.values[number]
        if storage < len(POOLS):
            self.tape.note_view(storage, offset)
        if self._evaluation is not None:
            self._evaluation.note(number, value)

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
        if call not in self.sites:  # another trace has recorded it
            return self._result_of(called, first, rest)
        return np.concatenate([np.ravel(part._value) for part in self.sites[call][1]])

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
        index = self.tape.line(frame.f_code, frame.f_lineno)
        # The tape keeps the code alive, so that no other code gets its id.
        self.places[id(frame.f_code) + frame.f_lasti] = index
        return index

    def close(self) -> None:
        """End the trace. Whoever still refers to it does not keep its instructions and arrays in memory.

        Arrays refer to their trace. Without those that the trace refers to, it is freed as soon as nobody
        needs it; Python's garbage collector would examine all of it first.
        """
        self.closed = True
        self.tape.code, self.tape.values, self.tape.storages = Code(), Values(), []
        self.arrays, self.given, self.deferred, self._evaluation = [], [], [], None
        if self.emitter is not None:  # the partials that it notes refer to it
            self.emitter.slopes, self.emitter = {}, None
        for held in (
            self.inputs,
            self.twins,
            self.joined,
            self.sites,
            self.sharing,
            self._arrays,
            self.boxes,
            self.snapshots,
        ):
            held.clear()

    def check_open(self) -> None:
        if self.closed:
            raise LeakError(
                "a traced value outlived the call that it was traced in "
                f"(used at {where_in_user_code()}); return it instead of storing it"
            )

    # ---- operands

    def literal(self, data, family: int) -> int:
        """Return the value number of a plain number or array."""
        kind = data.__class__
        if family == F64 and (kind is float or kind is int or kind is float64) and data:
            number = self.numbers.get(data)
            if number is None:
                if kind is int and not -BEYOND_INTEGERS < data < BEYOND_INTEGERS:
                    data = float(data)  # as NumPy does; for an array of integers it raises
                number = self.tape.literal(self._checked(np.asarray(data)), F64)
            return number
        if isinstance(data, np.ndarray) and type(data) not in (np.ndarray, np.memmap):
            raise UnsupportedOperationError(
                f"a {type(data).__name__} meets a traced value at {where_in_user_code()}; use plain arrays"
            )
        if isinstance(data, np.ndarray) and data.ndim:
            found = self._arrays.get((id(data), family))
            if found is not None and found[0] is data and is_as_it_was(data, found[2]):
                return found[1]
            place = (memory_of(data), family)
            found, root = self._arrays.get(place), root_of(data)
            if found is not None and root_of(found[0]) is root and is_as_it_was(data, found[2]):
                return found[1]
            number = self.tape.literal(self._checked(data), family)
            found = (data, number, contents_to_compare(data, self.tape.literals[-1].data))
            self._arrays[id(data), family] = self._arrays[place] = found
            self.literal_roots.add(id(root))
            return number
        if hasattr(type(data), "__array_ufunc__") and not isinstance(data, (np.generic, np.ndarray)):
            raise not_numpys(data)
        return self.tape.literal(self._checked(np.asarray(data)), family)

    def check_write(self, root: np.ndarray) -> None:
        """Raise if memory from outside of the loop body that is being recorded is written to."""
        if id(root) in self.fixed:
            raise LeakError(
                f"the body of a loop writes at {where_in_user_code()} to an array from outside; make it "
                "part of the carry, or return what is written"
            )

    def forget(self, root: np.ndarray) -> None:
        """Drop the literals of an array that was written to; its next use makes a new one."""
        for key, (data, *_) in list(self._arrays.items()):
            if root_of(data) is root:
                del self._arrays[key]
        for key, (array, *_) in list(self.halves.items()):
            if root_of(array) is root:
                del self.halves[key]
        self.literal_roots.discard(id(root))

    def _checked(self, data: np.ndarray) -> np.ndarray:
        if data.dtype.kind in "iu" and data.size and np.abs(data).max() > EXACT_INTEGER:
            raise UnsupportedOperationError(
                f"integers beyond 2**53 are not exact in a float64 ({where_in_user_code()})"
            )
        if data.dtype.kind not in "fiub" or data.dtype.itemsize > 8:
            raise UnsupportedOperationError(
                f"a constant of dtype {data.dtype} meets a traced value ({where_in_user_code()}); "
                "numbatape computes in float64 and float32"
            )
        return data

    # ---- guards

    def guard(self, array, kind: str, outcome):
        """Record that Python saw ``outcome`` in a one-element array; return it."""
        if self.vouched:
            return outcome
        number = array._id
        # A truth value is often the same for many sizes, a number is not.
        if self.of_sizes is not None and kind != "bool" and sizes.rely_on(self, (array,)):
            return outcome
        if array._family == F32:
            number = self.cast(array, F64)
        self.tape.guard(number, kind, outcome, array._level, self.line())
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
            self.failed = True

    def pin_constants(self, *arrays) -> None:
        """Note that the contents of constants decided what is recorded.

        Parameters
        ----------
        arrays
            The constants, if they are known: those that depend on sizes only are fixed by these.
        """
        if not (arrays and self.of_sizes is not None and sizes.rely_on(self, arrays)):
            self.pinned = True
            if self.of_sizes is not None:  # what was decided may depend on sizes, too
                for slot in self.tape.inputs:
                    for dim in slot.dims:
                        self.tape.sizes.pin(dim, self.line())
