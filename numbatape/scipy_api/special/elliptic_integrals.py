"""Carlson's symmetric elliptic integrals, DLMF 19.15 to 19.36, as compositions.

The arguments are brought together by the duplication theorem, a number of times that suffices for all
ratios that occur, and the rest is a series in their distances: B. C. Carlson, "Numerical computation of
real or complex elliptic integrals" (1995). Derivatives of all orders are those of the composition.
"""

from __future__ import annotations

import numpy as np
import scipy.special as sc

from ...numpy_api.registration import unsupported_argument
from ..stats.laws import pick
from .formula_rules import formula_rule
from .ufunc_table import UFUNCS, ufunc

# Each duplication brings the arguments four times closer to each other. After so many of them the first
# terms that the series leaves out are less than the rounding.
STEPS = 11


def _series(e2, e3, e4=0.0, e5=0.0):
    """Return R_D or R_J by the series 19.36.2, which holds where the arguments are close to each other."""
    linear = 1.0 - 3.0 / 14.0 * e2 + e3 / 6.0 + 9.0 / 88.0 * e2**2 - 3.0 / 22.0 * e4 - 9.0 / 52.0 * e2 * e3
    cubic = 3.0 / 26.0 * e5 - e2**3 / 16.0 + 3.0 / 40.0 * e3**2 + 3.0 / 20.0 * e2 * e4
    return linear + cubic + 45.0 / 272.0 * e2**2 * e3 - 9.0 / 68.0 * (e3 * e4 + e2 * e5)


def _first_kind(x, y, z):
    for _ in range(STEPS):
        a, b, c = np.sqrt(x), np.sqrt(y), np.sqrt(z)
        shift = a * b + a * c + b * c
        x, y, z = 0.25 * (x + shift), 0.25 * (y + shift), 0.25 * (z + shift)
    mean = (x + y + z) / 3.0
    X, Y = 1.0 - x / mean, 1.0 - y / mean
    Z = -X - Y
    e2, e3 = X * Y - Z**2, X * Y * Z
    series = 1.0 - e2 / 10.0 + e3 / 14.0 + e2**2 / 24.0 - 3.0 / 44.0 * e2 * e3
    return (series - 5.0 / 208.0 * e2**3 + 3.0 / 104.0 * e3**2 + e2**2 * e3 / 16.0) / np.sqrt(mean)


def _second_kind(x, y, z):
    total, power = 0.0, 1.0
    for _ in range(STEPS):
        a, b, c = np.sqrt(x), np.sqrt(y), np.sqrt(z)
        shift = a * b + a * c + b * c
        total = total + power / (c * (z + shift))
        power *= 0.25
        x, y, z = 0.25 * (x + shift), 0.25 * (y + shift), 0.25 * (z + shift)
    mean = (x + y + 3.0 * z) / 5.0
    X, Y = 1.0 - x / mean, 1.0 - y / mean
    Z = -(X + Y) / 3.0
    e2, e3 = X * Y - 6.0 * Z**2, (3.0 * X * Y - 8.0 * Z**2) * Z
    e4, e5 = 3.0 * (X * Y - Z**2) * Z**2, X * Y * Z**3
    return power * _series(e2, e3, e4, e5) / (mean * np.sqrt(mean)) + 3.0 * total


def _of_ratio(e, ratio):
    """Return R_C(1, 1 + e) = arctan(sqrt(e)) / sqrt(e), by its series where e is small."""
    near = np.abs(e) < 0.03
    series = sum((-e) ** k / (2.0 * k + 1.0) for k in range(10))
    right, left = np.where(e >= 0.03, e, 1.0), np.where(e <= -0.03, -e, 0.5)
    root, below = np.sqrt(left), np.where(e <= -0.03, ratio, 0.5)
    arctanh = np.log((1.0 + root) / np.sqrt(below))  # 1 - root would have lost its digits
    far = np.where(e > 0.0, np.arctan(np.sqrt(right)) / np.sqrt(right), arctanh / root)
    return np.where(near, series, far)


def _third_kind(x, y, z, p):
    """Return Carlson's integral R_J of positive arguments, by his duplication theorem."""
    total, power = 0.0, 1.0
    spread = (p - x) * (p - y) * (p - z)
    # A step divides p by 4 until it is like the others; how many times 8 steps are needed is a guard.
    ratio = p / (np.sqrt(x * y) + np.sqrt(x * z) + np.sqrt(y * z))
    ratio = np.where((ratio > 1.0) & (ratio < 1e300), ratio, 1.0)
    eights = int(np.ceil((5.0 + np.log(np.max(ratio)) / np.log(4.0)) / 8.0))
    for _ in range(8 * eights):
        a, b, c, d = np.sqrt(x), np.sqrt(y), np.sqrt(z), np.sqrt(p)
        shift = a * b + a * c + b * c
        width = (d + a) * (d + b) * (d + c)
        e = power**3 * spread / width**2
        ratio = np.where(e < -0.5, 2.0 * d * (p + shift) / width, 1.0 + e)  # equal, but for cancellation
        total = total + power / width * _of_ratio(e, ratio)
        power *= 0.25
        x, y, z, p = (0.25 * (part + shift) for part in (x, y, z, p))
    mean = (x + y + z + 2.0 * p) / 5.0
    X, Y, Z = 1.0 - x / mean, 1.0 - y / mean, 1.0 - z / mean
    P = -0.5 * (X + Y + Z)
    product = X * Y * Z
    e2 = X * Y + X * Z + Y * Z - 3.0 * P**2
    e3 = product + 2.0 * e2 * P + 4.0 * P**3
    e4 = (2.0 * product + e2 * P + 3.0 * P**3) * P
    return power * _series(e2, e3, e4, product * P**2) / (mean * np.sqrt(mean)) + 6.0 * total


def _infinite(kernel, infinite, *args):
    """Return an integral that is infinite under a condition, unless an argument is negative or NaN."""
    inside = kernel(*(np.where(infinite, 1.0, x) for x in args))
    zero = sum(0.0 * np.sqrt(np.where(infinite & ~np.equal(x, np.inf), x, 1.0)) for x in args)
    return np.where(infinite, 1.0 / zero, inside)


def _without_infinities(kernel, *args):
    """Return an integral that vanishes where an argument is infinite, unless another is negative or NaN."""
    far = sum(1.0 * np.isinf(x) for x in args) > 0.0
    outside = sum(0.0 * np.sqrt(np.where(far & ~np.equal(x, np.inf), x, 1.0)) for x in args)
    return np.where(far, outside, kernel(*(np.where(far, 1.0, x) for x in args)))


@ufunc("elliprf")
def elliprf(x, y, z):
    def kernel(x, y, z):
        zeros = 1.0 * np.equal(x, 0.0) + 1.0 * np.equal(y, 0.0) + 1.0 * np.equal(z, 0.0)
        return _infinite(_first_kind, zeros > 1.0, x, y, z)

    return _without_infinities(kernel, x, y, z)


@ufunc("elliprd")
def elliprd(x, y, z):
    def positive(x, y, z):
        return _infinite(_second_kind, np.equal(x, 0.0) & np.equal(y, 0.0), x, y, z)

    def kernel(x, y, z):
        return _without_infinities(positive, x, y, z)

    return _infinite(kernel, np.equal(z, 0.0), x, y, z)


@ufunc("elliprj")
def elliprj(x, y, z, p):
    if np.any(np.less(p, 0.0)):
        raise unsupported_argument("scipy.special.elliprj", "p < 0", "positive p are")
    return _without_infinities(_third_kind, x, y, z, p)


@ufunc("elliprc")
def elliprc(x, y):
    """Return R_C, 19.2.17; for y < 0 Cauchy's principal value, 19.2.20; NaN for y = 0, as in SciPy."""

    def kernel(x, y):
        negative = np.less(y, 0.0)

        def principal():
            a, b = np.where(negative, x, 1.0), np.where(negative, y, -1.0)
            return np.sqrt(a / (a - b)) * _first_kind(a - b, -b, -b)

        def usual():
            positive = np.greater(y, 0.0)
            a, b = np.where(positive, x, 1.0), np.where(positive, y, 1.0)
            return np.where(positive, _first_kind(a, b, b), np.multiply(np.nan, y))

        return pick(negative, principal, usual)

    return _without_infinities(kernel, x, y)


def _slope_of_second(x, a, b):
    """Return the slope of R_G for one of its arguments, x: (R_F - x R_D / 3) / 4, by 19.16.9 and 19.18.4."""
    zero, alone = np.equal(x, 0.0), np.equal(a, 0.0) & np.equal(b, 0.0)
    inside = np.where(zero | alone, 1.0, x)  # x R_D vanishes with x
    p, q = np.where(alone, 1.0, a), np.where(alone, 1.0, b)
    last = np.where(zero, 0.0, inside * sc.elliprd(p, q, inside) / 3.0)
    slope = 0.25 * (sc.elliprf(np.where(zero, x, inside), p, q) - last)
    return np.where(alone, 0.25 / np.sqrt(np.where(alone, x, 1.0)), slope)


UFUNCS["elliprg"] = formula_rule(
    "elliprg",
    {
        0: lambda value, x, y, z: _slope_of_second(x, y, z),
        1: lambda value, x, y, z: _slope_of_second(y, x, z),
        2: lambda value, x, y, z: _slope_of_second(z, x, y),
    },
)
