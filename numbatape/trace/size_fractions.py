"""``int(len(x) / 2)``, ``round(0.8 * len(x))``, ``int(np.sqrt(len(x)))``: sizes that are rounded floats.

A float that is a size times or over a number, or the square root of a size, is noted when it is recorded.
When Python rounds it to an int, the result is an expression in the size, with the same rounding for every
length, instead of a guard. A rounded binary logarithm (``2 ** math.ceil(math.log2(len(x)))``) is an int, for
all lengths between two powers of two.
"""

from __future__ import annotations

import numpy as np

from ..tape.size_tables import (
    DENOMINATOR_BITS,
    DIVIDED_NEAR,
    MOST_NUMERATOR,
    ROOT,
    SCALED,
    SCALED_NEAR,
    SCALED_UP,
)
from ..tape.tape import CONSTANT
from . import operations
from . import symbolic_sizes as sizes
from .array import TracedArray

LARGEST_SIZE = 2**31  # dimensions are 32-bit numbers
# How a float was made of a size: divided by an int, times a fraction in one number, as the root or logarithm.
DIVIDED, TIMES, ROOT_OF, LOG_OF = sizes.DIVIDED, "times", "root of", "logarithm of"
DOWN, UP, NEAR = "down", "up", sizes.NEAR
OF_SIZES = {np.sqrt: ROOT_OF, np.log2: LOG_OF}
ROUNDINGS = {np.floor: DOWN, np.trunc: DOWN, np.ceil: UP, np.rint: NEAR}


def noted(result, name: str, left, right):
    """Note how a float was made of a size: over an int, times a float, plus a whole number, its root.

    Parameters
    ----------
    name
        The operation: ``truediv``, ``mul``, ``add``, ``sub`` or ``pow``; nothing is noted for others.
    """
    if type(result) is not TracedArray or result._level != CONSTANT:
        return result
    if name == "mul":
        left, right = (right, left) if sizes.is_size(right) else (left, right)
        factor = _fraction(right) if type(right) is float else None
        if sizes.is_size(left) and factor is not None:
            _note(result, TIMES, left._code, factor)
    elif name == "truediv" and sizes.is_size(left):
        divisor = int(right) if type(right) in (int, float) and right == right // 1 else 0
        if 0 < divisor < LARGEST_SIZE:
            _note(result, DIVIDED, left._code, divisor)
    elif name in ("add", "sub"):
        left, right = (right, left) if name == "add" and sizes.is_size(right) else (left, right)
        if sizes.is_size(left) and type(right) is float and right == right // 1 and abs(right) < LARGEST_SIZE:
            _note(result, DIVIDED, _shifted(left, name, int(right)), 1)
    elif name == "pow" and sizes.is_size(left) and type(right) is float and right == 0.5:
        _note(result, ROOT_OF, left._code, 0)
    return result


def noted_ufunc(ufunc: np.ufunc, x, result):
    """Note that a float is what a ufunc made of a noted one: its root, its logarithm, or a rounded one."""
    found = _found(x) if ufunc in OF_SIZES or ufunc in ROUNDINGS else None
    if found is None or type(result) is not TracedArray or result._level != CONSTANT:
        return result
    how, code, by = found
    if ufunc in OF_SIZES:
        if (how, by) == (DIVIDED, 1):
            _note(result, OF_SIZES[ufunc], code, 0)
    elif how == LOG_OF:
        return np.float64(_between_powers(x._trace, code, ROUNDINGS[ufunc]))
    else:
        _note(result, DIVIDED, _rounded(x._trace, found, ROUNDINGS[ufunc]), 1)
    return result


def _shifted(size, name: str, by: int) -> int:
    """Return the code of a size plus or minus an int."""
    table = size._trace.tape.sizes
    return sizes.combined(table, name, size._code, table.negative(by))


def whole(x):
    """Return a float such as ``len(x) + 1.0`` as a size; None for anything else."""
    return size_of(x) if type(x) is TracedArray and x.dtype.kind == "f" else None


def size_of(x):
    """Return a number that is a size as one; None for anything else."""
    found = _found(x)
    return None if found is None or (found[0], found[2]) != (DIVIDED, 1) else sizes.seen(x._trace, found[1])


def _note(result, how: str, code: int, by: int) -> None:
    if code < 0:
        result._trace.integers.fractions[result._id] = how, code, by


def _fraction(factor: float) -> int | None:
    """Return a float between 0 and 1 as numerator and denominator in one number; None if they are large."""
    if not 0.0 < factor < 1.0:
        return None
    # Imported late, because it takes 2 ms with `decimal`, and few programs get here.
    from fractions import Fraction

    near = Fraction(factor).limit_denominator(2**DENOMINATOR_BITS - 1)
    if not 0 < near.numerator <= MOST_NUMERATOR or near.numerator / near.denominator != factor:
        return None
    return near.numerator << DENOMINATOR_BITS | near.denominator


def rounded_to_size(x, rounding: str):
    """Return a noted float, or a size, as a rounded size; None for anything else."""
    found = _found(x)
    return None if found is None else sizes.seen(x._trace, _rounded(x._trace, found, rounding))


def integer_root(n):
    """Return ``math.isqrt(n)`` of a size as a size, None for anything else."""
    found = _found(n)
    if found is None or (found[0], found[2]) != (DIVIDED, 1):
        return None
    return sizes.seen(n._trace, _rounded(n._trace, (ROOT_OF, found[1], 0), DOWN))


def _rounded(trace, found: tuple[str, int, int], rounding: str) -> int:
    """Return the code of a noted float, rounded; the caller has guarded that it is not negative."""
    how, code, by = found
    table = trace.tape.sizes
    if how == LOG_OF:
        return _between_powers(trace, code, rounding)
    if how == TIMES:
        return table.rounded({DOWN: SCALED, UP: SCALED_UP, NEAR: SCALED_NEAR}[rounding], code, by)
    if how == DIVIDED:
        if rounding == NEAR and by > 1:
            return table.rounded(DIVIDED_NEAR, code, by)
        return table.floordiv(table.add(code, by - 1) if rounding == UP else code, by)
    if rounding == UP:
        if table.value(code) == 0:
            return table.pin(code, trace.line())
        table.guard(code, ">=", 1, trace.line())
        return table.add(table.rounded(ROOT, table.sub(code, 1), 0), 1)
    if rounding == NEAR:  # the root of an integer is never half of an odd number
        return table.floordiv(table.add(table.rounded(ROOT, table.mul(code, 4), 0), 1), 2)
    return table.rounded(ROOT, code, 0)


def _between_powers(trace, code: int, rounding: str) -> int:
    """Return the rounded binary logarithm of a size: the tape holds for all sizes that have the same one."""
    table, line = trace.tape.sizes, trace.line()
    number = table.value(code)
    if number < 1 or rounding == NEAR:
        table.pin(code, line)
        return int(np.rint(np.log2(number)))
    bits = (number - 1).bit_length() if rounding == UP else number.bit_length() - 1
    least, most = (2**bits // 2 + 1, 2**bits) if rounding == UP else (2**bits, 2 ** (bits + 1) - 1)
    table.guard(code, ">=", least if bits else 1, line)
    table.guard(most, ">=", code, line)
    return bits


def _found(x):
    """Return how a float was made of a size, None if it was not, or if the size is negative."""
    if type(x) is operations.TracedInteger:
        found = (DIVIDED, x._code, 1) if sizes.is_size(x) else None
    elif type(x) is not TracedArray or not x._trace.integers.fractions or x._level != CONSTANT:
        return None
    else:
        found = x._trace.integers.fractions.get(x._id)
    if found is None or x._trace.tape.sizes.value(found[1]) < 0:
        return None
    x._trace.tape.sizes.guard(found[1], ">=", 0, x._trace.line())
    return found
