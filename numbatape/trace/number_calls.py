"""Operators and ufuncs of numbers, each recorded as one instruction.

Programs with loops over scalars consist of little else, so this is as short as it can be (1 µs): a number's
value is computed by Python's arithmetic or by the ufunc itself, and its cell is the next one of a pool.
"""

from __future__ import annotations

import sys

import numpy as np

from ..ops import OPCODE, OPS, Elementwise
from ..stalls import LOOKS
from ..tape.instruction import NONE, opcode
from ..tape.packed_values import SHIFT
from ..tape.tape import ACTIVE, CONSTANT, F64, VARYING

float64 = np.float64
PLAIN_NUMBERS = (float, int, float64)

# Opcode and active operands of the ufuncs that have been called with numbers, see `note_number_row`.
number_rows: dict[np.ufunc, tuple[int, int]] = {}

TracedArray: type  # `equip` sets it, because this file cannot import the class, which is above it


def record_number(trace, value, code: int, active: int, level: int, a: int, b: int, depth: int = 2):
    """Record an instruction whose result is one float64 cell, and return the result.

    Parameters
    ----------
    value
        The result, as the user's program would get it.
    code
        The opcode.
    a, b
        Value numbers of the operands.
    depth
        How many frames up the user's is, if no library is in between.
    """
    tape = trace.tape
    pool = 2 * level
    cells = tape.pool_cells
    offset = cells[pool]
    cells[pool] = offset + 1
    words = tape.values.words
    number = len(words)
    words.append(~(offset << SHIFT | pool))
    line = trace.differentiating
    if line is None:
        frame = sys._getframe(depth)
        line = trace.places.get(id(frame.f_code) + frame.f_lasti)
        if line is None:
            line = trace.line()
    # The third field is the stage: `PROLOGUE` is 0 and `MAIN` is 1.
    tape.code.recent += (code, active, 1 if level else 0, number, a, b, NONE, NONE, line)
    if not offset & LOOKS:
        tape.look()
    self = TracedArray.__new__(TracedArray)
    self._trace = trace
    self._value = value
    self._id = number
    self._level = level
    self._family = F64
    return self


def call_of_numbers(trace, row: tuple[int, int], ufunc, inputs):
    """Record a ufunc of numbers by its entry in `number_rows`; None if an input is something else."""
    code, differentiable = row
    values, numbers, level, active = [], [], CONSTANT, 0
    for k, x in enumerate(inputs):
        kind = type(x)
        if kind is TracedArray and x._trace is trace:
            value, its_level = x._value, x._level
            if value.__class__ is not float64 and value.__class__ is not float:
                return None
            values.append(value)
            numbers.append(x._id)
            if its_level == ACTIVE and differentiable >> k & 1:
                active |= 1 << k
            if its_level > level:
                level = its_level
        elif kind in PLAIN_NUMBERS:
            values.append(x)
            numbers.append(trace.constants.number_of(x, F64, of_floats=True))
        else:
            return None
    value = ufunc(*values)
    if level == ACTIVE and not active:
        level = VARYING
    second = NONE if len(numbers) == 1 else numbers[1]
    return record_number(trace, value, code, active, level, numbers[0], second, 3)


def _number_row(op) -> tuple[int, int]:
    """Return an op's opcode, and which operands have a derivative."""
    differentiable = sum(1 << k for k, partial in enumerate(op.partials) if partial is not None)
    return opcode(OPCODE[op.name], F64), differentiable


POWER = _number_row(OPS[OPCODE["power"]])


def note_number_row(ufunc, op: Elementwise) -> None:
    """Let calls of a ufunc with one or two numbers be recorded by `call_of_numbers`, if that is possible."""
    of_floats = "d" * op.arity
    known = f"{of_floats}->d" in ufunc.types or f"{of_floats}->?" in ufunc.types
    if known and op.arity <= 2 and not op.opaque and ufunc is not np.multiply:  # x * x is a square
        number_rows[ufunc] = _number_row(op)


def equip(cls: type) -> None:
    """Take note of the class of traced arrays."""
    global TracedArray
    TracedArray = cls


def is_repeated(kind: type) -> bool:
    """Whether an integer times an object of a class repeats it, as it does Python's sequences."""
    method = getattr(kind, "__mul__", None)
    return type(method) is type(list.__mul__) and hasattr(kind, "__len__") and not hasattr(kind, "__array__")


def repeated(number, sequence):
    """Return a sequence as often as a number says: unlike its arrays, NumPy's numbers do what Python's do."""
    value = number._value
    if type(value) in (float, complex):
        return NotImplemented  # Python has an error
    if isinstance(value, np.bool_ | np.inexact):
        raise TypeError(f"can't multiply sequence by non-int of type 'numpy.{type(value).__name__}'")
    return sequence * int(number)
