"""Arithmetic of traced ints with ints and floats, with Python's meaning.

Results are recorded as floats, which are exact up to `LARGEST`; that they stay below is a guard.
`TracedInteger` is above this file, so it is looked up among the operations.
"""

from __future__ import annotations

import operator

import numpy as np

from ..emitter.instructions import row
from . import operations, size_fractions
from .array import TracedArray
from .primitives import elementwise

# Up to here, quotients of integers round down to the right integer, and sums and products are exact.
LARGEST = 2**52


def number_of(x):
    return x._value if type(x) is operations.TracedInteger else x


def required(condition, outcome: bool) -> bool:
    """Record that a condition of traced numbers must have the given outcome, and return the outcome."""
    return condition._trace.guard(condition, "bool", outcome)


def _by_python(apply, left, right):
    """Return the result of Python's operator on plain numbers, whose values become guards."""
    return apply(operations.settled(left), operations.settled(right))


def with_float(name: str, apply, left, right):
    """Return the result of Python's operator on an int and a float: a weakly typed float."""
    divisor = right if name in ("truediv", "floordiv", "mod") else None
    if divisor is not None and divisor == 0:
        return _by_python(apply, left, right)  # raises Python's error
    if name == "pow":
        return _float_power(left, right)
    return apply(operations.lifted(left), operations.lifted(right))


def _float_power(base, exponent):
    with np.errstate(all="ignore"):
        value = np.power(float(number_of(base)), float(number_of(exponent)))
    power = recorded("power", float(value), base, exponent)
    if not required(np.isfinite(power), bool(np.isfinite(value))):
        return _by_python(operator.pow, base, exponent)  # Python raises here, or gives a complex number
    return power


def recorded(op: str, value, *operands) -> TracedArray:
    """Record an instruction of numbers; the result is weakly typed."""
    result = elementwise(op, *map(operations.lifted, operands), value=np.float64(value))
    result._value = value
    return result


def exact_integer(op: str, value: int, *operands):
    """Record an instruction whose result is an integer; None if the result is too large to be exact."""
    result = recorded(op, value, *operands)
    if not row(op).signs:
        result = recorded("add", value, result, 0)  # adding 0 turns -0.0 into 0.0
    inside = np.less_equal(np.absolute(result), float(LARGEST))
    return operations.TracedInteger(result) if required(inside, abs(value) <= LARGEST) else None


def _exactly(op: str, apply):
    divides = bool(row(op).floored)

    def combine(left, right):
        if divides and right == 0:
            return _by_python(apply, left, right)  # raises Python's error
        made = exact_integer(op, apply(number_of(left), number_of(right)), left, right)
        return _by_python(apply, left, right) if made is None else made

    return combine


def _quotient(left, right):
    if right == 0:
        return _by_python(operator.truediv, left, right)  # raises Python's error
    quotient = recorded("div", number_of(left) / number_of(right), left, right)
    return size_fractions.noted(quotient, "truediv", left, right)


def _power(left, right):
    if right < 0:
        return _by_python(operator.pow, left, right) if left == 0 else _float_power(left, right)
    with np.errstate(over="ignore"):
        size = np.power(float(abs(number_of(left))), float(number_of(right)))
    power = recorded("power", float(size), abs(left), right)
    if not required(np.less_equal(power, float(LARGEST)), bool(size <= LARGEST)):
        return _by_python(operator.pow, left, right)
    value = number_of(left) ** number_of(right)
    return exact_integer("rint", value, recorded("power", float(value), left, right))


INTEGER = {
    "add": _exactly("add", operator.add),
    "sub": _exactly("sub", operator.sub),
    "mul": _exactly("mul", operator.mul),
    "floordiv": _exactly("floor_divide", operator.floordiv),
    "mod": _exactly("remainder", operator.mod),
    "truediv": _quotient,
    "pow": _power,
}
