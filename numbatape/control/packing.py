"""Emitting the instruction of a loop, or of branches, whose bodies were traced."""

from __future__ import annotations

import numpy as np

from ..emitter import addresses, instructions
from ..emitter.instructions import row
from ..tape.bodies import address_of
from ..tape.loop import CAPTURE, SLICE, Branches, Loop, Port
from ..tape.tape import ACTIVE, F32, F64, NARROW, VARYING
from ..trace.array import deferred, new_traced
from ..trace.trace import Trace


class Packing:
    """The two operands of an instruction with bodies, while they are put together.

    Attributes
    ----------
    ends
        Cells of both operands so far, as size codes.
    """

    def __init__(self, trace: Trace):
        self.trace, self.tape = trace, trace.tape
        self.pieces: tuple[list, list] = ([], [])
        self.ends = [0, 0]
        self._captured: dict[int, Port] = {}

    def port(self, role: str, number: int, length: int, count: int) -> Port:
        """Add what fills an input, and return its port; ``count`` are the cells of a step."""
        tape, sizes = self.tape, self.tape.sizes
        operand = 0 if tape.level_of(number) == ACTIVE else 1
        extent = sizes.mul(length, count) if role == SLICE else count
        start = self.ends[operand]
        if not addresses.is_dense(tape, number):
            number = instructions.elementwise(tape, row("copy"), F64, [number], self.trace.line())
        self.pieces[operand].append(([(start, extent)], addresses.reshaped(tape, number, (extent,))))
        self.ends[operand] = sizes.add(start, extent)
        return Port(role, operand, start, count)

    def captured(self, key: int) -> Port:
        """Add all cells that a captured key names, once."""
        tape = self.tape
        if key not in self._captured:
            storage, offset = address_of(key)
            size = tape.storages[storage][0] if key >= 0 else 1
            number = tape.view(storage, offset, (size,), (1,))
            number = instructions.in_family(tape, number, F64, self.trace.line())
            self._captured[key] = self.port(CAPTURE, number, 1, size)
        return self._captured[key]

    def passive(self, number: int) -> int:
        """Add one number to the second operand; return its place."""
        if self.tape.level_of(number) == ACTIVE:
            number = instructions.copied(self.tape, number, VARYING, self.trace.line())
        return self.port(CAPTURE, number, 1, 1).start

    def operands(self) -> list[int]:
        """Return both operands; one without parts is a cell that nothing reads."""
        tape, found = self.tape, []
        for pieces, end in zip(self.pieces, self.ends, strict=True):
            if pieces:
                found.append(instructions.pieces(tape, (end,), F64, pieces, self.trace.line()))
            else:
                found.append(addresses.broadcast(tape, tape.zero(F64), (1,)))
        return found


def emit(trace: Trace, called: Loop | Branches, operands: list[int]) -> int:
    """Append the instruction; return its result."""
    tape = trace.tape
    number = tape.literal(float(len(tape.calls)), F64)
    tape.calls.append(called)
    extent = {"m": called.extents[0]}
    return instructions.array_op(tape, row("call"), F64, [*operands, number], trace.line(), extent)


def part(trace: Trace, result: int, dims, start: int) -> int:
    """Return a part of an instruction's result in its dimensions."""
    tape = trace.tape
    return addresses.view(tape, result, dims, tape.contiguous_strides(dims)[0], start)


def result_of(trace: Trace, number: int, dtype: np.dtype):
    """Return a part of a result as a traced array of a dtype."""
    tape = trace.tape
    if dtype in NARROW:
        number = instructions.cast(tape, number, F32, trace.line())
    if dtype.kind == "f":
        return deferred(trace, number)
    if tape.level_of(number) == ACTIVE:
        number = instructions.copied(tape, number, VARYING, trace.line())
    value = np.asarray(trace.evaluation.value(number)).astype(dtype)
    return new_traced(trace, value if value.ndim else value[()], number, tape.level_of(number), F64)
