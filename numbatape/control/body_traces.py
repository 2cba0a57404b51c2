"""Recording a body: it is traced once, and becomes a tape of its own.

The body runs on stand-ins for what changes from step to step, in the trace that is under way. What it has
recorded is then cut out of the trace's tape (`numbatape.tape.bodies`), and one instruction takes its place
(`numbatape.control.packing`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..emitter import addresses, instructions
from ..emitter.instructions import row
from ..errors import DtypeError, ForeignTraceError, LeakError, ShapeError, UnsupportedOperationError
from ..stand_ins.rebinding import rebind
from ..tape import Tape
from ..tape.bodies import Stretch, address_of, input_codes
from ..tape.passes import PASSES
from ..tape.tape import ACTIVE, CONSTANT, F32, F64, NARROW, VARYING
from ..tape.uses import keys_of
from ..trace.aliasing import root_of
from ..trace.array import TracedArray, deferred, is_deferred, new_traced
from ..trace.integer_ranges import range_of
from ..trace.operands import lift
from ..trace.primitives import operand, sample_of
from ..trace.trace import Trace
from ..usercode.frames import where_in_user_code

FLOAT32 = np.dtype(np.float32)


@dataclass
class Leaf:
    """A carry before the first step, or a stacked operand.

    Attributes
    ----------
    where
        What error messages call it.
    number
        The value in float64 cells.
    dtype
        NumPy's dtype of it in the body.
    sample
        What the body sees while it is traced.
    dims
        Size codes of one step.
    weak
        Whether it is a Python number, which takes the dtype of what the body returns.
    lane
        The value of the first step, if nobody has computed its numbers yet: the sample is zeros then.
    bound
        How far integers of it may be from zero in any step, if that is known.
    """

    where: str
    number: int
    dtype: np.dtype
    sample: object
    dims: tuple[int, ...]
    weak: bool = False
    lane: int | None = None
    bound: int | None = None


def of_trace(trace: Trace, x) -> TracedArray:
    """Return a leaf as a traced array; raise for one of another trace."""
    if type(x) is TracedArray and x._trace is not trace:
        trace.check_open()
        raise ForeignTraceError(
            f"a loop at {where_in_user_code()} meets a value of another trace; a traced value was kept from "
            "an earlier call, or a prepared cache is used inside a traced function"
        )
    return lift(trace, x)


def carry_leaf(trace: Trace, x, where: str, dtype=None) -> Leaf:
    """Return a carry before the first step; ``dtype`` replaces that of a Python number."""
    weak = type(x) in (int, float, bool)
    array = of_trace(trace, np.asarray(x, dtype)[()] if weak and dtype is not None else x)
    sample = sample_of(array)
    number = operand(trace, array, F64)
    dims = trace.tape.layout_of(number).dims
    return Leaf(where, number, _dtype(sample, where), _copied(sample), dims, weak)


def stacked_leaf(trace: Trace, x, where: str) -> tuple[Leaf, int]:
    """Return a stacked operand, and how many rows it has (a size code)."""
    array = of_trace(trace, x)
    whole = sample_of(array)
    number = operand(trace, array, F64)
    length, *dims = trace.tape.layout_of(number).dims
    first = whole[0] if len(whole) else np.zeros(whole.shape[1:], whole.dtype)[()]
    lane = None
    if is_deferred(array) and len(whole):
        strides = trace.tape.layout_of(number).strides[1:]
        lane = addresses.view(trace.tape, number, dims, strides)
    kind, bound = _dtype(whole, where), range_of(trace, array)
    return Leaf(where, number, kind, _copied(first), tuple(dims), lane=lane, bound=bound), length


def _dtype(sample, where: str) -> np.dtype:
    dtype = np.asarray(sample).dtype
    if dtype.kind not in "biuf":
        raise DtypeError(f"{where} has dtype {dtype}; the bodies of loops compute with real numbers")
    return dtype


def _copied(sample):
    return np.array(sample) if isinstance(sample, np.ndarray) else np.asarray(sample)[()]


@dataclass
class Traced:
    """A body that was traced, and is a tape now.

    Attributes
    ----------
    tape
        The body.
    dimensions
        Size codes of the outer tape, one for each input dimension in the body's sizes.
    captured
        Keys (`numbatape.tape.uses.keys_of`) of what it reads from outside: its last inputs.
    samples
        As in `Loop`.
    """

    tape: Tape
    dimensions: tuple[int, ...]
    captured: list[int]
    samples: tuple | None = None


class BodyTrace:
    """A body that is being traced.

    Parameters
    ----------
    trace
        The trace that is under way.
    name
        What the user called.
    """

    def __init__(self, trace: Trace, name: str):
        self.trace, self.name, self.tape = trace, name, trace.tape

    def run(self, function: Callable, leaves: list[Leaf], levels: list[int] | None = None):
        """Call a function with a list of traced arrays, one for each leaf; return what it returns.

        ``levels`` are those of the traced arrays, where they are known before the function has run.
        """
        tape = self.tape
        tape.unroll()
        self.leaves = leaves
        known = [None] * len(leaves) if levels is None else levels
        self.inputs = [self._stand_in(leaf, level) for leaf, level in zip(leaves, known, strict=True)]
        self.start, self.first = len(tape.code), len(tape.values)
        given = [self._as_array(number, leaf) for number, leaf in zip(self.inputs, leaves, strict=True)]
        run, around = rebind(function), (tape.floor, self.trace.memory.fixed, self.trace.in_loop)
        self._outside = self._others([x for x in given if not is_deferred(x)])
        memory = {id(root): root for root in (root_of(x._value) for x in self._outside)}
        tape.floor, self.trace.memory.fixed = self.first, self.trace.memory.fixed | memory
        self.trace.in_loop |= levels is None
        try:
            return run(given)
        except BaseException:
            self.abandon()
            raise
        finally:
            tape.floor, self.trace.memory.fixed, self.trace.in_loop = around

    def _others(self, given) -> list:
        """Return all arrays of the trace that are alive, but those in the memory of the given ones."""
        self.trace.memory.sort_in()
        own = {id(x._value) for x in given}
        alive = [x for refs in self.trace.memory.sharing.values() for ref in refs if (x := ref()) is not None]
        return [x for x in alive if id(root_of(x._value)) not in own]

    def _stand_in(self, leaf: Leaf, level: int | None) -> int:
        """Return a new value, of which nothing is known, in the dimensions of a step."""
        tape = self.tape
        if level is None:
            level = ACTIVE if leaf.dtype.kind == "f" else VARYING
        strides, size = tape.contiguous_strides(leaf.dims)
        tape.storages.append((size if leaf.dims else 1, F64, level))
        number = tape.view(len(tape.storages) - 1, 0, leaf.dims, strides)
        if leaf.bound is not None:
            self.trace.integers.carries(tape.values[number], leaf.bound)
        if leaf.lane is None:
            self.trace.derivatives.know(number, leaf.sample)
        else:
            self.trace.evaluation.stands_for(number, leaf.lane)
        return number

    def _as_array(self, number: int, leaf: Leaf) -> TracedArray:
        trace, level, family = self.trace, self.tape.level_of(number), F64
        if leaf.dtype in NARROW:
            number, family = instructions.cast(self.tape, number, F32, trace.line()), F32
        if leaf.lane is not None:
            return deferred(trace, number)
        return new_traced(trace, _copied(leaf.sample), number, level, family)

    def abandon(self) -> None:
        """Take off what the body has recorded."""
        self._cut(Stretch(self.tape, self.start, self.inputs, [], True))

    def _cut(self, stretch: Stretch) -> None:
        """Take the body's instructions off the tape."""
        stretch.cut(self.name)
        if self.trace.derivatives.evaluation is not None:
            self.trace.derivatives.evaluation.forget(self.start)

    # ---- outputs

    def output(self, leaf) -> int:
        """Return the value of a part of the body's result, in dense float64 cells."""
        number = operand(self.trace, of_trace(self.trace, leaf), F64)
        return number if addresses.is_dense(self.tape, number) else self._copy(number)

    def next_carries(self, leaves) -> list[int]:
        """Return the values of the carries that the body returned, which are its first inputs' next ones."""
        tape, found = self.tape, []
        storages = {tape.storage_of(x): x for x in self.inputs}
        for own, before, leaf in zip(self.inputs, self.leaves, leaves, strict=False):
            number = self.output(leaf)
            its = storages.get(tape.storage_of(number))
            if its is not None and (its != own or tape.values[number] != tape.values[own]):
                number = self._copy(number)  # the input's cells get their next value before this is read
            for mine, dim in zip(before.dims, self.dims_of(number), strict=True):
                tape.sizes.same(mine, dim)
            found.append(number)
        return found

    def dims_of(self, number: int) -> tuple[int, ...]:
        return self.tape.layout_of(number).dims

    def _copy(self, number: int) -> int:
        return instructions.elementwise(self.tape, row("copy"), F64, [number], self.trace.line())

    def check_carry(self, leaf: Leaf, result) -> np.dtype | None:
        """Compare what a step returns with what it got; return another dtype to trace it with, or None."""
        sample = sample_of(of_trace(self.trace, result))
        shape = np.shape(leaf.sample)
        if np.shape(sample) != shape:
            raise ShapeError(
                f"{self.name}: {leaf.where} has shape {shape}, and the body returns it with shape "
                f"{np.shape(sample)}; it must keep its shape"
            )
        dtype = np.asarray(sample).dtype
        if dtype == leaf.dtype or (type(result) in (int, float, bool) and np.can_cast(dtype, leaf.dtype)):
            return None
        if leaf.weak and np.result_type(dtype, leaf.dtype) == dtype:
            return dtype
        raise DtypeError(
            f"{self.name}: {leaf.where} has dtype {leaf.dtype}, and the body returns it with dtype {dtype}; "
            "it must keep its dtype"
        )

    # ---- the tape

    def cut_out(self, outputs: list[int]) -> Stretch:
        """Take a body that runs at least once off the tape; it can be split before `close_part`."""
        stretch = Stretch(self.tape, self.start, self.inputs, outputs, True)
        self._refuse(stretch)
        self._cut(stretch)
        return stretch

    def close_part(self, stretch: Stretch, carries: int, levels: list[int]) -> Traced:
        """Return what `cut_out` has given, or a part of it, as a tape; see `close`."""
        return self._taped(stretch, carries, levels, tuple(PASSES))

    def close(self, outputs: list[int], carries: int, levels: list[int], runs: bool = False) -> Traced:
        """Cut out the body.

        Parameters
        ----------
        outputs
            Values; the first ones are the next carries.
        carries
            How many of them, and of the inputs, are carries.
        levels
            Of what fills the inputs at first.
        runs
            Whether the body runs at least once.
        """
        return self._closed(Stretch(self.tape, self.start, self.inputs, outputs, runs), carries, levels)

    def close_whole(self, outputs: list[int]) -> Traced:
        """Cut out a body that may not run, with all that it has recorded but guards on constants."""
        tape = self.tape
        guarded = [row.a for row in tape.instructions(self.start) if row.is_guard]
        keys = set(keys_of([tape.values[x] for x in guarded if tape.level_of(x) == CONSTANT]))
        # Arrays from outside that were written to before, and are first read here, are put together here.
        for x in self._outside:
            number = getattr_or_none(x, "_id")
            if number is not None and number >= self.first:
                keys.update(keys_of([tape.values[number]]))
        closed = self._closed(Stretch(self.tape, self.start, [], outputs, False, keys), 0, [])
        self.trace.reused.forget(self.first)
        return closed

    def close_lane(self, outputs: list[int], levels: list[int]) -> Traced:
        """Cut out a body that computes one lane of many; it may have guards, and no pass has rewritten it."""
        stretch = Stretch(self.tape, self.start, self.inputs, outputs, True)
        self._refuse_inner(stretch)
        self._cut(stretch)
        return self._taped(stretch, 0, levels, ())

    def _closed(self, stretch: Stretch, carries: int, levels: list[int]) -> Traced:
        self._refuse(stretch)
        self._cut(stretch)
        return self._taped(stretch, carries, levels, tuple(PASSES))

    def _taped(self, stretch: Stretch, carries: int, levels: list[int], passes: tuple[str, ...]) -> Traced:
        trace = self.trace
        captured = [self.tape.storages[address_of(key)[0]][2] for key in stretch.captured]
        stretch.levels(
            [max(VARYING, level) for level in levels],
            [max(VARYING, level) for level in captured],
            [(k, k) for k in range(carries)],
        )
        dimensions = input_codes(self.tape.sizes)  # the codes of the sizes that the body is given
        tape = stretch.tape(not trace.swept, passes, trace.derivatives.taken)
        return Traced(tape, dimensions, stretch.captured, self._samples(tape, stretch))

    def _samples(self, body: Tape, stretch: Stretch) -> tuple | None:
        """Return the numbers of the body's inputs if it calls a user's rule."""
        if not body.calls_rules:
            return None
        tape = self.tape
        found = [leaf.sample for leaf in self.leaves] if stretch.inputs else []
        for key in stretch.captured:
            storage, offset = address_of(key)
            size = tape.storages[storage][0] if key >= 0 else 1
            found.append(self.trace.evaluation.value(tape.view(storage, offset, (size,), (1,))))
        return tuple(found)

    def _refuse(self, stretch: Stretch) -> None:
        """Raise for a body that no loop can run."""
        tape = self.tape
        if stretch.guards:
            # An integer of many lanes has two guards, of which the first is the truth that all lanes agree.
            integers = [guard for guard in stretch.guards if tape.guards[guard.aux].kind != "bool"]
            guard = (integers or stretch.guards)[0]
            where, is_truth = tape.source.where(guard.line), not integers
            self._cut(stretch)
            if is_truth:
                raise UnsupportedOperationError(
                    f"{self.name}: its body needs the truth of a value that differs from step to step (at "
                    f"{where}), in Python's if, and, or, max, min, a function of math, or one of NumPy or "
                    "SciPy that branches; use np.where, np.maximum, np.exp, nt.cond or nt.switch, or leave "
                    "it to an nt.function that is defined outside, which may branch"
                )
            # Captured arrays are not traced at first: with this error the function is traced again, with
            # stand-ins for them, which an integer that is traced may be an index of.
            raise LeakError(
                f"{self.name}: its body needs the integer of a value that differs from step to step (at "
                f"{where}), by int, range, a bound of nt.fori_loop or a slice, or since how many entries a "
                "mask, np.unique or np.nonzero selects is such an integer; use np.where, nt.while_loop with "
                "max_steps, or leave it to an nt.function that is defined outside, which has a trace for "
                "each integer"
            )
        self._refuse_inner(stretch)

    def _refuse_inner(self, stretch: Stretch) -> None:
        """Raise for a body that reads what belongs to another one."""
        tape = self.tape
        for key in stretch.captured:
            if key in tape.inner:
                self._cut(stretch)
                raise LeakError(
                    f"{self.name}: its body uses a value from inside of the body of {tape.inner[key]}; "
                    "return it from there"
                )


def getattr_or_none(x, name: str):
    """Return an attribute that an object may not have yet, without computing it."""
    try:
        return object.__getattribute__(x, name)
    except AttributeError:
        return None
