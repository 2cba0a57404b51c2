"""Recording a loop: its body is traced once, and becomes a tape of its own.

The body runs on stand-ins for what changes from step to step, in the trace that is under way. What it has
recorded is then cut out of the trace's tape (`numbatape.tape.bodies`), and one instruction takes its place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..capture.rebinding import rebind
from ..emitter import addresses, instructions
from ..emitter.instructions import row
from ..errors import DtypeError, ForeignTraceError, LeakError, ShapeError, UnsupportedOperationError
from ..tape.bodies import Stretch, address_of, input_codes
from ..tape.loop import CAPTURE, CARRY, SLICE, STACK, Loop, Out, Port
from ..tape.passes import PASSES
from ..tape.tape import ACTIVE, F32, F64, NARROW, VARYING
from ..trace.aliasing import root_of
from ..trace.array import TracedArray, deferred, new_traced
from ..trace.boxes import sort_in
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
    """

    where: str
    number: int
    dtype: np.dtype
    sample: object
    dims: tuple[int, ...]
    weak: bool = False


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
    dims = addresses.layout_of(trace.tape, number).dims
    return Leaf(where, number, _dtype(sample, where), _copied(sample), dims, weak)


def stacked_leaf(trace: Trace, x, where: str) -> tuple[Leaf, int]:
    """Return a stacked operand, and how many rows it has (a size code)."""
    array = of_trace(trace, x)
    whole = sample_of(array)
    number = operand(trace, array, F64)
    length, *dims = addresses.layout_of(trace.tape, number).dims
    first = whole[0] if len(whole) else np.zeros(whole.shape[1:], whole.dtype)[()]
    return Leaf(where, number, _dtype(whole, where), _copied(first), tuple(dims)), length


def _dtype(sample, where: str) -> np.dtype:
    dtype = np.asarray(sample).dtype
    if dtype.kind not in "biuf":
        raise DtypeError(f"{where} has dtype {dtype}; the bodies of loops compute with real numbers")
    return dtype


def _copied(sample):
    return np.array(sample) if isinstance(sample, np.ndarray) else np.asarray(sample)[()]


class Recorder:
    """A loop that is being recorded.

    Parameters
    ----------
    trace
        The trace that is under way.
    name
        What the user called.
    length
        The number of steps, a size code.
    """

    def __init__(self, trace: Trace, name: str, length: int, reverse: bool = False):
        self.trace, self.name, self.length, self.reverse = trace, name, length, reverse
        self.tape = trace.tape

    def run(self, function: Callable, carries: list[Leaf], slices: list[Leaf]):
        """Trace a body; return what it returned.

        Parameters
        ----------
        function
            Called with two lists of traced arrays, the carries and the rows. It returns anything: the
            outputs are told to `finish`.
        """
        tape = self.tape
        self.carries, self.slices = carries, slices
        inputs = [self._stand_in(leaf) for leaf in (*carries, *slices)]
        self.inputs = inputs
        self.start = len(tape.code)
        self._floor, tape.floor = tape.floor, len(tape.values)
        given = [
            self._as_array(number, leaf) for number, leaf in zip(inputs, (*carries, *slices), strict=True)
        ]
        run, around = rebind(function), self.trace.fixed
        self.trace.fixed = around | self._memory(given)
        try:
            return run(given[: len(carries)], given[len(carries) :])
        except BaseException:
            self._cut(Stretch(tape, self.start, inputs, [], True))
            raise
        finally:
            tape.floor, self.trace.fixed = self._floor, around

    def _memory(self, given) -> dict[int, np.ndarray]:
        """Return by id the memory of all arrays of the trace but the given ones."""
        sort_in(self.trace)
        own = {id(x._value) for x in given}
        alive = (ref() for refs in self.trace.sharing.values() for ref in refs)
        roots = (root_of(x._value) for x in alive if x is not None)
        return {id(root): root for root in roots if id(root) not in own}

    def _stand_in(self, leaf: Leaf) -> int:
        """Return a new value, of which nothing is known, in the dimensions of a step."""
        tape = self.tape
        level = ACTIVE if leaf.dtype.kind == "f" else VARYING
        strides, size = tape.contiguous_strides(leaf.dims)
        tape.storages.append((size if leaf.dims else 1, F64, level))
        number = tape.view(len(tape.storages) - 1, 0, leaf.dims, strides)
        self.trace.know(number, leaf.sample)
        return number

    def _as_array(self, number: int, leaf: Leaf) -> TracedArray:
        trace, level, family = self.trace, self.tape.level_of(number), F64
        if leaf.dtype in NARROW:
            number, family = instructions.cast(self.tape, number, F32, trace.line()), F32
        return new_traced(trace, _copied(leaf.sample), number, level, family)

    def _cut(self, stretch: Stretch) -> None:
        """Take the body's instructions off the tape."""
        tape = self.tape
        tape.code.cut(self.start)
        for each in stretch.others:
            tape.code.append(each)
        for key in (*stretch.made, *(stretch.keys[value] for value in stretch.inputs)):
            tape.inner[key] = self.name
        if self.trace._evaluation is not None:
            self.trace._evaluation.forget(self.start)

    # ---- outputs

    def output(self, leaf, dtype: np.dtype | None = None) -> int:
        """Return the value of a part of the body's result, in dense float64 cells."""
        trace = self.trace
        number = operand(trace, of_trace(trace, leaf), F64)
        if not addresses.is_dense(self.tape, number):
            number = self._copy(number)
        return number

    def _copy(self, number: int) -> int:
        return instructions.elementwise(self.tape, row("copy"), F64, [number], self.trace.line())

    def check_carry(self, leaf: Leaf, result, promote: bool) -> np.dtype | None:
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
        if leaf.weak and promote and np.result_type(dtype, leaf.dtype) == dtype:
            return dtype
        raise DtypeError(
            f"{self.name}: {leaf.where} has dtype {leaf.dtype}, and the body returns it with dtype {dtype}; "
            "it must keep its dtype"
        )

    def abandon(self) -> None:
        """Take off what the body has recorded, to trace it again."""
        self._cut(Stretch(self.tape, self.start, self.inputs, [], True))

    def finish(self, carries: list[int], stacks: list[int]) -> tuple[list[int], list[int]]:
        """Cut out the body and emit the loop; return the values of the last carries and of the stacks."""
        tape, trace = self.tape, self.trace
        storages = {tape.values[x][0]: x for x in self.inputs[: len(self.carries)]}
        for k, number in enumerate(carries):
            own = storages.get(tape.values[number][0])
            if own is not None and (own != self.inputs[k] or tape.values[number] != tape.values[own]):
                carries[k] = self._copy(number)  # the input's cells get their next value before this is read
            for mine, dim in zip(
                self.carries[k].dims, addresses.layout_of(tape, carries[k]).dims, strict=True
            ):
                tape.sizes.same(mine, dim)
        sizes = tape.sizes
        runs = sizes.value(self.length) >= 1
        if runs:
            sizes.guard(self.length, ">=", 1)
        outputs = [*carries, *stacks]
        stretch = Stretch(tape, self.start, self.inputs, outputs, runs)
        self._refuse(stretch)
        self._cut(stretch)
        sources = [leaf.number for leaf in (*self.carries, *self.slices)]
        levels = stretch.levels(
            [max(VARYING, tape.level_of(number)) for number in sources],
            [max(VARYING, self._level_of(key)) for key in stretch.captured],
            [(k, k) for k in range(len(carries))],
        )
        assert len(levels) == len(self.inputs)
        dimensions = input_codes(sizes)  # of the sizes that the body gets; packing makes more
        body = stretch.tape(not trace.swept, tuple(PASSES), trace.derives)
        pack = _Packing(tape, trace)
        ports = [
            pack.port(CARRY if k < len(self.carries) else SLICE, number, self.length, self._count(leaf.dims))
            for k, (leaf, number) in enumerate(zip((*self.carries, *self.slices), sources, strict=True))
        ]
        for key in stretch.captured:
            ports.append(pack.port(CAPTURE, *self._captured(key)))
        outs, end = [], 0
        for k, number in enumerate(outputs):
            count = self._count(addresses.layout_of(tape, number).dims)
            carry = k < len(carries)
            outs.append(Out(CARRY if carry else STACK, k if carry else -1, end, count))
            end = sizes.add(end, count if carry else sizes.mul(self.length, count))
        loop = Loop(
            self.name,
            body,
            dimensions,
            self.length,
            self.reverse,
            tuple(ports),
            tuple(outs),
            (end, *pack.ends),
        )
        if trace.derives:
            loop = loop.with_history(sizes)
        result = self._emit(loop, pack)
        found = []
        for out, number in zip(outs, outputs, strict=True):
            dims = addresses.layout_of(tape, number).dims
            dims = dims if out.role == CARRY else (self.length, *dims)
            found.append(addresses.view(tape, result, dims, tape.contiguous_strides(dims)[0], out.start))
        return found[: len(carries)], found[len(carries) :]

    def _emit(self, loop: Loop, pack: _Packing) -> int:
        tape = self.tape
        number = len(tape.calls)
        tape.calls.append(loop)
        operands = [*pack.operands(), tape.literal(float(number), F64)]
        return instructions.array_op(
            tape, row("call"), F64, operands, self.trace.line(), {"m": loop.extents[0]}
        )

    def _count(self, dims) -> int:
        return self.tape.sizes.product(dims)

    def _level_of(self, key: int) -> int:
        return self.tape.storages[address_of(key)[0]][2]

    def _captured(self, key: int) -> tuple[int, int, int]:
        """Return (value in float64 cells, 1, cells) of all that a captured key names."""
        tape = self.tape
        storage, offset = address_of(key)
        size = tape.storages[storage][0] if key >= 0 else 1
        number = tape.view(storage, offset, (size,), (1,))
        return instructions.in_family(tape, number, F64, self.trace.line()), 1, size

    def _refuse(self, stretch: Stretch) -> None:
        """Raise for a body that no loop can run."""
        tape = self.tape
        if stretch.guards:
            guard = stretch.guards[0]
            where, is_truth = tape.where(guard.line), tape.guards[guard.aux].kind == "bool"
            self._cut(stretch)
            if is_truth:
                raise UnsupportedOperationError(
                    f"{self.name}: its body needs the truth of a value that differs from step to step (at "
                    f"{where}); use np.where, nt.cond or nt.switch"
                )
            # Captured arrays are not traced at first: with this error the function is traced again, with
            # stand-ins for them, which an integer that is traced may be an index of.
            raise LeakError(
                f"{self.name}: its body needs the integer of a value that differs from step to step (at "
                f"{where}); only traced arrays, and NumPy's functions, take such an integer"
            )
        for key in stretch.captured:
            if key in tape.inner:
                self._cut(stretch)
                raise LeakError(
                    f"{self.name}: its body uses a value from inside of the body of {tape.inner[key]}; "
                    "return it from there"
                )


class _Packing:
    """The two operands of a loop, while they are put together."""

    def __init__(self, tape, trace: Trace):
        self.tape, self.trace = tape, trace
        self.pieces: tuple[list, list] = ([], [])
        self.ends = [0, 0]

    def port(self, role: str, number: int, length: int, count: int) -> Port:
        """Add a part; return its port."""
        tape, sizes = self.tape, self.tape.sizes
        operand_number = 0 if tape.level_of(number) == ACTIVE else 1
        extent = sizes.mul(length, count) if role == SLICE else count
        start = self.ends[operand_number]
        if not addresses.is_dense(tape, number):
            number = instructions.elementwise(tape, row("copy"), F64, [number], self.trace.line())
        flat = addresses.reshaped(tape, number, (extent,))
        self.pieces[operand_number].append(([(start, extent)], flat))
        self.ends[operand_number] = sizes.add(start, extent)
        return Port(role, operand_number, start, count)

    def operands(self) -> list[int]:
        """Return both operands; one without parts is a cell that nothing reads."""
        tape, found = self.tape, []
        for pieces, end in zip(self.pieces, self.ends, strict=True):
            if pieces:
                found.append(instructions.pieces(tape, (end,), F64, pieces, self.trace.line()))
            else:
                found.append(addresses.broadcast(tape, tape.zero(F64), (1,)))
        return found


def result_of(trace: Trace, number: int, dtype: np.dtype):
    """Return a part of a loop's result as a traced array of a dtype."""
    tape = trace.tape
    if dtype in NARROW:
        number = instructions.cast(tape, number, F32, trace.line())
    if dtype.kind == "f":
        return deferred(trace, number)
    if tape.level_of(number) == ACTIVE:
        number = instructions.copied(tape, number, VARYING, trace.line())
    value = np.asarray(trace.evaluation.value(number)).astype(dtype)
    return new_traced(trace, value if value.ndim else value[()], number, tape.level_of(number), F64)
