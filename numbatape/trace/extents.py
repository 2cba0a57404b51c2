"""Numbers and arrays that depend on sizes only: ``1 / len(x)``, ``np.arange(len(x))``, ``np.ones(x.shape)``.

They are constants of the tape that the prologue computes, so that a tape holds for every length. Where
Python needs their entries (an ``if``, a loop, a function of another library), the sizes become guards and the
entries are plain numbers.
"""

from __future__ import annotations

import numpy as np

from ..emitter import addresses
from ..tape.size_tables import (
    ADD,
    DIVIDED_NEAR,
    FLOORDIV,
    INPUT,
    MUL,
    ROOT,
    SCALED,
    SCALED_NEAR,
    SCALED_UP,
    SUB,
    fraction,
)
from ..tape.tape import CONSTANT, F64, as_dtype, family_of_dtype
from . import operations
from . import symbolic_sizes as sizes
from .array import TracedArray, new_traced
from .primitives import array_instruction, elementwise

LARGEST_COUNT = 2**31
ARITHMETIC = {ADD: "add", SUB: "sub", MUL: "mul", FLOORDIV: "floor_divide"}
ROUNDED = {SCALED: "trunc", SCALED_UP: "ceil", SCALED_NEAR: "rint", DIVIDED_NEAR: "rint", ROOT: "trunc"}


def extent(trace, code: int) -> TracedArray:
    """Return a size as a number in a cell, weakly typed like a Python int."""
    table = trace.tape.sizes
    value = table.value(code)
    if table.is_number(code):
        return new_traced(trace, value, trace.constants.number_of(float(value), F64), CONSTANT, F64)
    operation, left, right = table.rows[-code - 1]
    if operation == INPUT:
        result = array_instruction("extent", (_repeated(trace, code, value),), np.float64(value))
    elif operation in ROUNDED:
        size = sizes.number_of(trace, left)
        if operation == ROOT:
            number = elementwise("sqrt", size)
        elif operation == DIVIDED_NEAR:
            number = size / right
        else:
            numerator, denominator = fraction(right)
            number = size * (numerator / denominator)
        result = elementwise(ROUNDED[operation], number, value=np.float64(value))
    else:  # a difference of sizes may be negative, so it cannot be a number of entries
        operands = sizes.number_of(trace, left), sizes.number_of(trace, right)
        result = elementwise(ARITHMETIC[operation], *operands, value=np.float64(value))
    result._value = value
    return result


def _repeated(trace, code: int, count: int) -> TracedArray:
    """Return a vector of as many ones as a size code says, which takes no memory."""
    number = addresses.view(trace.tape, trace.constants.number_of(1.0, F64), (code,), (0,))
    sizes.note(trace)
    return new_traced(trace, np.broadcast_to(1.0, count), number, CONSTANT, F64)


def filled(trace, dims, fill, dtype, like: np.ndarray | None = None) -> TracedArray:
    """Return an array of the given dimensions (size codes) whose entries are all the same number.

    Its axes lie in memory in the order of those of ``like``, which has the same shape.
    """
    dtype = as_dtype(dtype)
    shape = [trace.tape.sizes.value(dim) for dim in dims]
    value = np.full(shape, fill, dtype) if like is None else np.full_like(like, fill, dtype)
    family = family_of_dtype(dtype)
    number = trace.constants.number_of(np.asarray(fill, dtype)[()], family)
    number = addresses.view(trace.tape, number, tuple(dims), (0,) * len(dims))
    sizes.note(trace)
    return new_traced(trace, value, number, CONSTANT, family)


def eye(trace, rows: int, columns: int, k: int = 0, dtype=float) -> TracedArray:
    """Return a matrix with ones on a diagonal, of as many rows and columns as two size codes say."""
    down, right = arange(trace, rows), arange(trace, columns)
    return np.astype(right[None, :] == down[:, None] + k, as_dtype(dtype))


def arange(trace, count: int) -> TracedArray:
    """Return the integers from 0 on, as many as a size code says."""
    zero = trace.constants.number_of(0.0, F64)
    zero = new_traced(trace, np.float64(0.0), zero, CONSTANT, F64)
    value = np.arange(trace.tape.sizes.value(count))
    result = array_instruction("arange", (zero,), value.astype(float), dims={"n": count})
    trace.integers.limit(trace.tape.values[result._id])
    sizes.note(trace)
    return new_traced(trace, value, result._id, CONSTANT, F64)


def counted(number: TracedArray):
    """Return a number of entries that data decide, such as how many a mask selects, for use as a size.

    It becomes a size of the tape: the first dimension of a further input, which has no entries. A guard
    compares it with what the data say in each call. Where they say something else, the same trace is planned
    for that size (`numbatape.programs.counted_sizes`). Where that is not possible the guard fixes the number.
    """
    trace, count = number._trace, int(number._value)
    integers = trace.integers
    if number._id in integers.counted:
        return sizes.seen(trace, integers.counted[number._id])
    if not 0 <= count < LARGEST_COUNT or not sizes.may_count(trace):
        return trace.guard(number, "int", count)
    code = trace.tape.layout_of(trace.tape.input((count, 0), F64, CONSTANT)).dims[0]
    integers.counted[number._id] = code
    sizes.note(trace)
    integers.sizes_met = True
    more = elementwise("sub", number, sizes.number_of(trace, code), value=np.float64(0.0))
    trace.tape.guard(more._id, "count", 0, more._level, trace.line(), len(integers.counted) - 1)
    return sizes.seen(trace, code)


def as_size(n):
    """Return an int among the arguments as a size, so that one trace serves all; other things as they are.

    It counts the entries of a further input, as numbers do that data decide. A negative one is the contrary
    of a count, as in ``x[-k:]``.
    """
    if type(n) is not operations.TracedInteger or n._settled or n._code is not None:
        return n
    if not sizes.may_count(n._trace):
        return n.settled()
    if n._value >= 0:
        return counted(n.lifted())
    contrary = 0 - n
    return 0 - (counted(contrary.lifted()) if type(contrary) is operations.TracedInteger else contrary)
