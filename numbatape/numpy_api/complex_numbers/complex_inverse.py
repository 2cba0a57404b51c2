"""Inverse circular and hyperbolic functions of complex numbers.

After Kahan, "Branch cuts for complex elementary functions" (1987), by square roots, which have the same cuts.
"""

from __future__ import annotations

import numpy as np

from ..function_tables import complex_ufunc
from .complex_arithmetic import full
from .complex_elementary import sqrt


def _roots(a):
    """Return ``sqrt(1 - z)`` and ``sqrt(1 + z)``."""
    x, y = full(a)
    return sqrt((1.0 - x, -y)), sqrt((1.0 + x, y))


@complex_ufunc(np.arcsin)
def arcsin(a):
    x, _ = full(a)
    (a1, b1), (a2, b2) = _roots(a)
    return np.arctan2(x, a1 * a2 - b1 * b2), np.arcsinh(a1 * b2 - b1 * a2)


@complex_ufunc(np.arccos)
def arccos(a):
    (a1, b1), (a2, b2) = _roots(a)
    return 2.0 * np.arctan2(a1, a2), np.arcsinh(a2 * b1 - b2 * a1)


@complex_ufunc(np.arcsinh)
def arcsinh(a):
    """``-i arcsin(iz)``."""
    x, y = full(a)
    re, im = arcsin((-y, x))
    return im, -re


@complex_ufunc(np.arccosh)
def arccosh(a):
    x, y = full(a)
    (a1, b1), (a2, b2) = sqrt((x - 1.0, y)), sqrt((x + 1.0, y))
    return np.arcsinh(a1 * a2 + b1 * b2), 2.0 * np.arctan2(b1, a2)


@complex_ufunc(np.arctanh)
def arctanh(a):
    """By logarithms; far away it is ``1/a`` and a quarter of a turn, where squares would overflow."""
    x, y = full(a)
    side = np.where(np.less(x, 0.0), -1.0, 1.0)
    x = side * x
    size = np.hypot(x, y)
    far = size > 1e9
    p, q = np.where(far, 0.0, x), np.where(far, 0.0, y)
    near = 1.0 - p
    real = 0.25 * np.log1p(4.0 * p / (near * near + q * q))
    turn = 0.5 * np.arctan2(2.0 * q, near * (1.0 + p) - q * q)
    reached = far & ~np.isinf(size)
    length = np.where(reached, size, 1.0)
    p, q = (np.where(reached, part, 0.0) / length / length for part in (x, y))
    return side * np.where(far, p, real), np.where(far, np.copysign(0.5 * np.pi, y) - q, turn)


@complex_ufunc(np.arctan)
def arctan(a):
    """``-i arctanh(iz)``."""
    x, y = full(a)
    re, im = arctanh((-y, x))
    return im, -re
