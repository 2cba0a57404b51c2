"""Powers of complex numbers: products for small whole exponents, else by size and angle."""

from __future__ import annotations

import numpy as np

from ...trace.array import TracedArray
from ..function_tables import complex_ufunc
from .complex_arithmetic import divide, full, is_zero, multiply, reciprocal, square
from .complex_elementary import exp, log

LARGEST = 100  # powers with whole exponents up to this one are products


def _whole(y) -> int | None:
    """Return a plain exponent that is a small integer."""
    x, im = y
    if not is_zero(im) or isinstance(x, np.ndarray) or not isinstance(x, (int, float, np.number)):
        return None
    return int(x) if float(x).is_integer() and abs(x) <= LARGEST else None


@complex_ufunc(np.float_power)
def float_power(a, b):
    return power(_in_doubles(a), _in_doubles(b))


def _in_doubles(x):
    """Return the parts of an operand in float64, in which NumPy computes this power."""
    return tuple([part if is_zero(part) else _in_double(part) for part in x])


def _in_double(part):
    return np.astype(part, float) if type(part) is TracedArray else np.float64(part)


@complex_ufunc(np.power)
def power(a, b):
    n = _whole(b)
    if n is not None:
        return _product(a, n)
    if is_zero(b[1]):
        return _real_power(a, b[0])
    return _complex_power(a, b)


def _product(a, n: int):
    """Return ``a**n`` by squaring."""
    if n == 0:
        x, y = full(a)
        return np.where(True, 1.0, x + y), None  # ones of the shape that both parts broadcast to
    of_python = all(getattr(x, "_value", 0.0).__class__ is float for x in a)
    base, result = a, (1.0, None) if of_python else None  # Python's power begins with a product with one
    k = abs(n)
    while k:
        if k & 1:
            result = base if result is None else multiply(result, base)
        k >>= 1
        if k:
            base = square(base)
    if n == -1 and any(getattr(x, "ndim", 0) for x in a):
        return reciprocal(a)  # NumPy takes the reciprocal of arrays here, too.
    return result if n > 0 else divide((1.0, None), result)


def _real_power(a, p):
    """``|a|^p`` at p times the angle; zero at zero."""
    x, y = full(a)
    size, turn = np.power(np.hypot(x, y), p), p * np.arctan2(y, x)
    return size * np.cos(turn), size * np.sin(turn)


def _complex_power(a, b):
    """``exp(b log(a))``; of zero: 1 for the exponent 0, 0 where the exponent's real part is positive."""
    x, y = full(a)
    c, d = full(b)
    at_zero = np.logical_and(np.equal(x, 0.0), np.equal(y, 0.0))
    safe = np.where(at_zero, 1.0, x), y
    re, im = exp(multiply(b, log(safe)))
    none = np.logical_and(np.equal(c, 0.0), np.equal(d, 0.0))
    of_zero = np.where(none, 1.0, np.where(np.greater(c, 0.0), 0.0, np.nan))
    return np.where(at_zero, of_zero, re), np.where(at_zero, np.where(np.isnan(of_zero), np.nan, 0.0), im)
