"""Ufuncs of NumPy that are compositions of rows, or not elementwise."""

from __future__ import annotations

import numpy as np

from ..ops import Elementwise
from ..trace import operations
from ..trace.array import TracedArray
from ..trace.operands import adopt, is_wrong, lift_all
from ..trace.primitives import elementwise, expand, stop_gradient, value_of
from ..usercode.frames import not_supported

COMPOSED: dict[np.ufunc, object] = {}


def composed(*ufuncs):
    """Register a function of traced arguments for ufuncs that have no row."""

    def register(function):
        for ufunc in ufuncs:
            COMPOSED[ufunc] = function
        return function

    return register


@composed(np.power)
def power(x, y):
    """``x**y``; small integer exponents become products, which never take a logarithm."""
    if isinstance(y, (int, float)) or (isinstance(y, np.generic) and y.dtype.kind in "if"):
        exponent = float(y)
        value = np.power(value_of(x), y)
        if np.asarray(value_of(x)).dtype.kind == "f":
            if exponent == 2.0:
                return elementwise("square", x, value=value)
            if exponent == 1.0:
                return elementwise("copy", x, value=value)
            if exponent == -1.0:
                return elementwise("reciprocal", x, value=value)
            # Products are within an ulp and a half of NumPy's powers.
            if exponent in (0.5, 3.0, 4.0) and x._trace.values == "fast":
                x = np.astype(x, value.dtype) if x.dtype != value.dtype else x
                if exponent == 0.5:
                    return elementwise("sqrt", x, value=value)
                square = elementwise("square", x)
                if exponent == 4.0:
                    return elementwise("square", square, value=value)
                return elementwise("mul", square, x, value=value)
    value = np.power(value_of(x), value_of(y))
    result = of_truths(np.power, (x, y), value)
    return elementwise("power", x, y, value=value) if result is None else result


@composed(np._core.umath.clip)
def clip(x, low, high):
    return np.clip(*lift_all(x, low, high))


@composed(np.divmod)
def divmod_(x, y):
    return np.floor_divide(x, y), np.remainder(x, y)


@composed(np.nextafter)
def nextafter(x, y):
    """The next number towards y; the derivative is that of x, because y only gives the direction."""
    value = np.nextafter(value_of(x), value_of(y))
    x, y = (value.dtype.type(each) if isinstance(each, (int, float)) else each for each in (x, y))
    pullback = lambda ybar, z, x, y: (ybar[0], None)  # noqa: E731
    return adopt(operations.call_rule("np.nextafter", np.nextafter, pullback, x, y)[0], value)


@composed(np.reciprocal)
def reciprocal(x):
    value = np.reciprocal(value_of(x))
    if value.dtype.kind == "f":
        return elementwise("reciprocal", x, value=value)
    if is_wrong(np.any(np.equal(x, 0))):
        raise not_supported("np.reciprocal of a traced integer 0", "NumPy's result depends on the processor")
    # The reciprocal of an integer is rounded towards zero.
    return adopt(np.where(np.abs(x) == 1, x, 0), value)


def _as_floats(x, dtype):
    """Return integers and booleans as the floats that NumPy's loops take them for."""
    return np.astype(x, dtype) if x.dtype.kind in "biu" else x


@composed(np.modf)
def modf(x):
    value = np.modf(value_of(x))
    x = _as_floats(x, value[0].dtype)
    whole = np.trunc(x)
    return adopt((np.where(np.isinf(x), np.copysign(0.0, x), x - whole), whole), value)


@composed(np.frexp)
def frexp(x):
    """The exponent is an integer, without a derivative: the mantissa is ``x`` times a constant."""
    mantissa, exponent = np.frexp(value_of(x))
    x = _as_floats(x, mantissa.dtype)
    still = np.abs(stop_gradient(x))
    usual = np.logical_and(still > 0.0, still < np.inf)
    # The rounded logarithm may be too large by one.
    power = np.floor(np.log2(np.where(usual, still, 1.0))) + 1.0
    small = _scaled(np.where(usual, still, 1.0), -power)
    power = power - np.where(small < 0.5, 1.0, 0.0) + np.where(small >= 1.0, 1.0, 0.0)
    power = np.where(usual, power, 0.0)
    return adopt((_scaled(x, -power), np.astype(power, exponent.dtype)), (mantissa, exponent))


def _scaled(x, power):
    value = np.ldexp(value_of(x), np.asarray(value_of(power)).astype(int))
    return elementwise("ldexp", x, power, value=value)


@composed(np.positive)
def positive(x):
    return elementwise("copy", x, value=np.positive(value_of(x)))


@composed(np.conjugate)
def conjugate(x):
    return adopt(
        elementwise("copy", np.astype(x, int) if x.dtype.kind == "b" else x), np.conjugate(value_of(x))
    )


@composed(np.isnat)
def isnat(x):
    raise TypeError("ufunc 'isnat' is only defined for np.datetime64 and np.timedelta64.")


def _matvec(x1, x2):
    a, b = lift_all(x1, x2)
    return np.matmul(a, expand(b, (-1,)))[..., 0]


def _vecmat(x1, x2):
    a, b = lift_all(x1, x2)
    return np.matmul(expand(a, (-2,)), b)[..., 0, :]


if hasattr(np, "matvec"):  # NumPy 2.2
    composed(np.matvec)(_matvec)
    composed(np.vecmat)(_vecmat)


def of_truths(ufunc, args, value) -> TracedArray | None:
    """Return a result of truth values that NumPy computes as int8: it is 0 or 1. None for other operands."""
    if getattr(value, "dtype", None) != np.int8 or {getattr(x, "dtype", None) for x in args} != {
        np.dtype(bool)
    }:
        return None
    return adopt(ufunc(*[np.astype(x, int) if type(x) is TracedArray else x * 1 for x in args]), value)


def divided_integers(op: Elementwise, x, divisor, value):
    """Return a quotient or remainder of integers, which is 0 in NumPy where the divisor is 0."""
    zero = np.equal(divisor, 0)
    if type(zero) is not TracedArray and not np.any(zero):
        return elementwise(op, x, divisor, value=value)
    with np.errstate(all="ignore"):
        return adopt(np.where(zero, 0, elementwise(op, x, np.where(zero, 1, divisor))), value)
