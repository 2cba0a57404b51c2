"""``int(len(x) / 2)`` and ``int(0.8 * len(x))``: sizes that the user's code gets by rounding floats.

A float that is a size times or over a number is noted when it is recorded. When Python rounds it to an int,
the result is an expression in the size, with the same rounding for every length, instead of a guard.
"""

from __future__ import annotations

from fractions import Fraction

from ..tape.sizes import DENOMINATOR_BITS, MOST_NUMERATOR
from ..tape.tape import CONSTANT
from . import operations
from . import symbolic_sizes as sizes
from .array import TracedArray

LARGEST_SIZE = 2**31  # dimensions are 32-bit numbers


def noted(result, name: str, left, right):
    """Note that a float is a size over an int, or a size times a float; return the float.

    Parameters
    ----------
    name
        The operation: ``truediv`` or ``mul``; nothing is noted for others.
    """
    if type(result) is not TracedArray or result._level != CONSTANT:
        return result
    if name == "mul":
        left, right = (right, left) if sizes.is_size(right) else (left, right)
        factor = _fraction(right) if type(right) is float else None
        if sizes.is_size(left) and factor is not None:
            result._trace.fractions[result._id] = sizes.code_of(result._trace, left), -factor
    elif name == "truediv" and sizes.is_size(left):
        divisor = int(right) if type(right) in (int, float) and right == right // 1 else 0
        if 0 < divisor < LARGEST_SIZE:
            result._trace.fractions[result._id] = sizes.code_of(result._trace, left), divisor
    return result


def _fraction(factor: float) -> int | None:
    """Return a float between 0 and 1 as numerator and denominator in one number; None if they are large."""
    if not 0.0 < factor < 1.0:
        return None
    near = Fraction(factor).limit_denominator(2**DENOMINATOR_BITS - 1)
    if not 0 < near.numerator <= MOST_NUMERATOR or near.numerator / near.denominator != factor:
        return None
    return near.numerator << DENOMINATOR_BITS | near.denominator


def truncated(x):
    """Return ``int(x)`` for a fraction of a size, None for anything else."""
    found = _found(x)
    if found is None:
        return None
    code, by = found
    table = x._trace.tape.sizes
    table.guard(code, ">=", 0, x._trace.line())
    return sizes.seen(x._trace, table.floordiv(code, by) if by > 0 else table.scaled(code, -by))


def rounded_up(x):
    """Return ``math.ceil(x)`` for a size over an int, None for anything else."""
    found = _found(x)
    if found is None or found[1] < 0:
        return None
    code, by = found
    table = x._trace.tape.sizes
    table.guard(code, ">=", 0, x._trace.line())
    return sizes.seen(x._trace, table.floordiv(table.add(code, by - 1), by))


def _found(x):
    if type(x) is operations.TracedInteger:
        return (sizes.code_of(x._trace, x), 1) if sizes.is_size(x) else None
    if type(x) is not TracedArray or not x._trace.fractions or x._level != CONSTANT:
        return None
    return x._trace.fractions.get(x._id)
