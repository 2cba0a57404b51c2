"""Exponentials, logarithms, roots and circular functions of complex numbers.

The formulas avoid cancellation and overflow. Where a formula is chosen by a sign, both are analytic, so that
derivatives of all orders are right for the chosen one.
"""

from __future__ import annotations

import math

import numpy as np

from ..function_tables import complex_ufunc
from .complex_arithmetic import full, is_zero, negated, times


@complex_ufunc(np.exp)
def exp(a):
    x, y = a
    if is_zero(y):
        return np.exp(x), y
    if is_zero(x):
        return np.cos(y), np.sin(y)
    size = np.exp(x)
    return size * np.cos(y), size * np.sin(y)


@complex_ufunc(np.exp2)
def exp2(a):
    return exp(tuple(x if is_zero(x) else x * math.log(2.0) for x in a))


@complex_ufunc(np.expm1)
def expm1(a):
    if is_zero(a[1]):
        return np.expm1(a[0]), a[1]
    x, y = full(a)
    half = np.sin(0.5 * y)
    return np.expm1(x) * np.cos(y) - 2.0 * (half * half), np.exp(x) * np.sin(y)


def log_size(x, y):
    """``log(hypot(x, y))``, accurate also where hypot is near one and the logarithm is small."""
    size = np.hypot(x, y)
    swap = np.abs(x) < np.abs(y)
    a, b = np.where(swap, y, x), np.where(swap, x, y)
    near = np.abs(size - 1.0) < 0.5
    small = np.where(near, (a - 1.0) * (a + 1.0) + b * b, 0.0)
    return np.where(near, 0.5 * np.log1p(small), np.log(np.where(near, 1.0, size)))


@complex_ufunc(np.log)
def log(a):
    x, y = full(a)
    return log_size(x, y), np.arctan2(y, x)


def _scaled_log(ufunc, scale):
    def scaled(a):
        x, y = log(a)
        return x * scale, y * scale

    complex_ufunc(ufunc)(scaled)


_scaled_log(np.log2, 1.0 / math.log(2.0))
_scaled_log(np.log10, 1.0 / math.log(10.0))


@complex_ufunc(np.log1p)
def log1p(a):
    x, y = full(a)
    near = np.hypot(x, y) < 0.5
    small = np.where(near, x * (2.0 + x) + y * y, 0.0)
    far = np.log(np.where(near, 1.0, np.hypot(1.0 + x, y)))
    return np.where(near, 0.5 * np.log1p(small), far), np.arctan2(y, 1.0 + x)


@complex_ufunc(np.sqrt)
def sqrt(a):
    """The root with real part >= 0; for negative numbers the sign of the imaginary zero decides."""
    x, y = full(a)
    left = np.less(x, 0.0)
    size = np.where(left, -x, x)  # this is abs(x), but np.abs would have derivative zero at zero
    root = np.sqrt(0.5 * size + 0.5 * np.hypot(x, y))
    at_zero = root == 0.0
    other = y / (2.0 * np.where(at_zero, 1.0, root))
    below = np.signbit(y)
    return (
        np.where(left, np.where(below, -other, other), root),
        np.where(left, np.where(below, -root, root), other),
    )


# ---- circular and hyperbolic


@complex_ufunc(np.sin)
def sin(a):
    x, y = a
    if is_zero(y):
        return np.sin(x), times(np.cos(x), y)
    if is_zero(x):
        return x, np.sinh(y)
    return np.sin(x) * np.cosh(y), np.cos(x) * np.sinh(y)


@complex_ufunc(np.cos)
def cos(a):
    x, y = a
    if is_zero(y):
        return np.cos(x), negated(times(np.sin(x), y))
    if is_zero(x):
        return np.cosh(y), negated(times(x, y))
    return np.cos(x) * np.cosh(y), -(np.sin(x) * np.sinh(y))


@complex_ufunc(np.sinh)
def sinh(a):
    x, y = a
    if is_zero(y):
        return np.sinh(x), y
    if is_zero(x):
        return times(x, np.cos(y)), np.sin(y)
    return np.sinh(x) * np.cos(y), np.cosh(x) * np.sin(y)


@complex_ufunc(np.cosh)
def cosh(a):
    x, y = a
    if is_zero(y):
        return np.cosh(x), times(x, y)
    if is_zero(x):
        return np.cos(y), times(x, np.sin(y))
    return np.cosh(x) * np.cos(y), np.sinh(x) * np.sin(y)


@complex_ufunc(np.tanh)
def tanh(a):
    """Numerator and denominator are divided by ``exp(2 |x|)``, so that neither overflows."""
    x, y = a
    if is_zero(y):
        return np.tanh(x), y
    if is_zero(x):
        return x, np.tan(y)
    side = np.where(np.less(x, 0.0), -1.0, 1.0)
    far = -2.0 * (side * x)
    left, e = -np.expm1(far), np.exp(far)
    sin, cos = np.sin(y), np.cos(y)
    scale = left * left + 4.0 * (e * (cos * cos))
    return side * (left * (1.0 + e)) / scale, 4.0 * (e * (sin * cos)) / scale


@complex_ufunc(np.tan)
def tan(a):
    """``-i tanh(iz)``."""
    x, y = a
    re, im = tanh((negated(y), x))
    return im, negated(re)
