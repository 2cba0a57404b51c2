"""Arithmetic of Python's numbers that is not NumPy's: of ints and truth values, and powers of floats.

``True + True`` is 2, where both are ``a > 0``; results are weakly typed, a division by zero raises. Ints and
truth values are recorded with their numbers, without a guard; bits and repetitions need the value.
"""

from __future__ import annotations

import operator

import numpy as np

from ..tape.tape import ACTIVE
from ..usercode.frames import catches, where_in_user_code
from . import operations
from .array import TracedArray, new_traced
from .constants import EXACT_INTEGER
from .operators import require_divisor
from .primitives import value_of
from .trace import failing

DIVISIONS = (np.true_divide, np.floor_divide, np.remainder)
ARITHMETIC = {
    np.add: operator.add,
    np.subtract: operator.sub,
    np.multiply: operator.mul,
    np.true_divide: operator.truediv,
    np.floor_divide: operator.floordiv,
    np.remainder: operator.mod,
    np.power: operator.pow,
}


def combine_integers(ufunc, left, right):
    """Return ``left op right`` of ints and truth values, of which one at least is traced."""
    trace = (left if type(left) is TracedArray else right)._trace
    left, right = as_integer(left), as_integer(right)
    if _is_large(ufunc, value_of(left), value_of(right)):
        return ARITHMETIC[ufunc](int(left), int(right))  # Both conversions record guards.
    if ufunc is np.power:
        exponent = value_of(right)
        if type(right) is TracedArray and trace.may_guard(right):
            trace.guard(right < 0, "bool", exponent < 0)
        if exponent < 0:
            require_divisor(np.true_divide, right, left)  # Python raises for a divisor of 0
            left = left * 1.0 if type(left) is TracedArray else float(left)
    elif ufunc in DIVISIONS:
        require_divisor(ufunc, left, right)
    with failing(trace):
        result = operations.call_ufunc(ufunc, "__call__", (left, right), {})
    return weak(result)


def python_power(result: TracedArray, left, right):
    """Return ``left**right`` of a float of Python and another of its numbers, given NumPy's result.

    Where NumPy's power of finite numbers is infinite or no number, Python's raises or is complex. Guards keep
    these cases apart where that makes a difference. An error that nothing catches makes none: the power of
    an operand that is differentiated is a limit then.
    """
    result, trace = weak(result), result._trace
    traced = [x for x in (left, right) if type(x) is TracedArray]
    if not all(map(trace.may_guard, traced)):
        return result
    is_limit = any(x._level == ACTIVE for x in traced)
    errors = [
        kind for kind in (ZeroDivisionError, OverflowError) if not is_limit or catches(kind, trace.start)
    ]
    if not errors and not _may_be_complex(left, right):
        return result
    if np.isfinite(result) or not (np.isfinite(left) and np.isfinite(right)):
        return result
    if left == 0.0:
        kind, text = ZeroDivisionError, "0.0 cannot be raised to a negative power"
    elif left < 0.0 and right != np.floor(right):
        return (left + 0j) ** right
    else:
        kind, text = OverflowError, "the power is too large"
    if kind in errors:
        raise kind(f"{text} at {where_in_user_code()}")
    return result


def _may_be_complex(left, right) -> bool:
    """Whether a power may be complex for these or other numbers of the tape."""
    if type(left) is not TracedArray and left >= 0:
        return False
    exponent = value_of(right)
    return type(exponent) is float and (type(right) is TracedArray or not exponent.is_integer())


def _is_large(ufunc, left: int, right: int) -> bool:
    """Whether an operand or the result is an int that Python knows, and a cell cannot hold."""
    if max(abs(left), abs(right)) > EXACT_INTEGER:
        return True
    with np.errstate(all="ignore"):
        return EXACT_INTEGER < abs(ufunc(float(left), float(right))) < np.inf


def as_integer(x):
    """Return a truth value as an int, and an int as it is."""
    if type(x) is not TracedArray:
        return int(x)
    trace = x._trace
    if x._value.__class__ is bool:
        trace.integers.limit(trace.tape.values[x._id], 1)
    return new_traced(trace, int(x._value), x._id, x._level, x._family)


def weak(result: TracedArray) -> TracedArray:
    """Return a number that Python's arithmetic has made as one of Python's."""
    value = result._value
    result._value = value.item() if isinstance(value, np.generic) else value
    return result


def absolute_integer(x: TracedArray) -> TracedArray:
    """Return ``abs(x)`` of an int or a truth value."""
    return weak(np.absolute(as_integer(x)))


def combine_bits(ufunc, left, right):
    """Return ``left op right`` for an operator of bits: data for truth values, else with guards."""
    if all(type(value_of(x)) is bool for x in (left, right)) and ufunc in OF_TRUTH:
        with failing((left if type(left) is TracedArray else right)._trace):
            return weak(operations.call_ufunc(ufunc, "__call__", (left, right), {}))
    return OF_BITS[ufunc](*(int(x) for x in (left, right)))


OF_TRUTH = (np.bitwise_and, np.bitwise_or, np.bitwise_xor)
OF_BITS = {
    np.bitwise_and: operator.and_,
    np.bitwise_or: operator.or_,
    np.bitwise_xor: operator.xor,
    np.left_shift: operator.lshift,
    np.right_shift: operator.rshift,
}
