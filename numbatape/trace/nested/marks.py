"""Marks before a stretch of a tape, zeros for what nothing depends on, cotangents times partials."""

from __future__ import annotations

import numpy as np

from ...ops import OPCODE
from ...tape.instruction import MAIN
from ...tape.tape import ACTIVE, CONSTANT, FAMILY_DTYPE
from ..array import TracedArray, new_traced, scalar_instruction
from ..primitives import dims_of, elementwise, family_of, row
from ..trace import Trace

WEIGH = OPCODE["weigh"]


def weigh(ct, slope):
    """Return ``ct * slope``, and zero wherever ct is zero."""
    if type(ct) is TracedArray and type(slope) is TracedArray:
        x, y = ct._value, slope._value
        if x.__class__ is np.float64 and y.__class__ is np.float64:
            return scalar_instruction(WEIGH, x * y if x != 0.0 else np.float64(0.0), ct, slope)
    if type(ct) is TracedArray or type(slope) is TracedArray:
        return elementwise("weigh", ct, slope)
    return np.where(np.equal(ct, 0.0), 0.0, np.multiply(ct, slope))


def strong_product(x, y):
    """Return ``x * y``, and zero wherever either is zero; its derivatives for both are not lost there."""
    if type(x) is TracedArray or type(y) is TracedArray:
        return elementwise("strong_mul", x, y)
    return row("strong_mul").numpy[0](x, y)


def mark(trace: Trace, leaf) -> TracedArray:
    """Return a new traced value equal to a leaf: what depends on it depends on nothing else of the leaf."""
    family = family_of(leaf._value if type(leaf) is TracedArray else leaf)
    if type(leaf) is TracedArray:
        number = leaf._id if leaf._family == family else trace.cast(leaf, family)
        dims, level, value = dims_of(leaf), leaf._level, leaf._value
        value = value.copy() if isinstance(value, np.ndarray) else value  # writes stay inside
    else:
        value = np.array(leaf, copy=True) if isinstance(leaf, np.ndarray) else leaf
        number, dims, level = trace.literal(value, family), np.shape(value), CONSTANT
    out = trace.tape.array(dims, family, ACTIVE)
    active = 1 if level == ACTIVE else 0
    trace.tape.emit(2 * OPCODE["copy"] + family, active, MAIN, out, number, line=trace.line())
    return new_traced(trace, value, out, ACTIVE, family)


def zeros_like(trace: Trace, number: int) -> TracedArray:
    """Return a marked array of zeros in the dimensions of a value."""
    tape = trace.tape
    storage, _, layout = tape.values[number]
    family, dims = tape.storages[storage][1], tape.layouts[layout].dims
    value = np.zeros(tuple(map(tape.sizes.value, dims)), FAMILY_DTYPE[family])[()]
    out = tape.array(dims, family, ACTIVE)
    zero = tape.literal(np.float64(0.0), family)
    op = "fill" if dims else "copy"
    tape.emit(2 * OPCODE[op] + family, 0, MAIN, out, zero, line=trace.line())
    return new_traced(trace, value, out, ACTIVE, family)
