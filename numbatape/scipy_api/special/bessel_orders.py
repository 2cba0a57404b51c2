"""Bessel functions of the first and second kind, and modified ones, with a derivative for their order.

There is no closed form. Schlaefli's integrals, DLMF 10.9.6, 10.9.7 and 10.32.4, are differentiated under the
integral sign, n times: each is the integral of ``exp(x sinh w - v w)``, or with cosh, along a path in the
complex plane, so that its n-th derivative for the order v has a factor ``(-w)**n``. The path is vertical from
``a - i pi`` to ``a + i pi`` and then horizontal to infinity; with a at the saddle point, the integrand is
nowhere larger than the integral, and nothing cancels. For arguments that are large beside the order's square
Hankel's expansion, 10.17.5, is differentiated term by term. Negative orders are reflected, 10.4.7, 10.27.2.

Rows of the op table serve calls in which the order has no derivative.
"""

from __future__ import annotations

import functools
import math

import numpy as np
import scipy.special as sc

from ...ops.bessel import kve_order_derivative
from .formula_rules import formula_rule
from .ufunc_table import UFUNCS

NEGLIGIBLE = 45.0  # exponent of what is no part of a sum: exp(-45) is 3e-20
NODES = 20  # A panel of the quadrature has this many nodes.
UNDERFLOW, OVERFLOW = 745.0, 709.0  # exp(-746) is zero, and exp(710) infinite
# From this ratio on, acosh and asinh are the logarithm of its double, taken as a difference, because the
# ratio itself may overflow.
LARGE_RATIO = 1e150


@functools.cache
def _gauss(nodes: int):
    return np.polynomial.legendre.leggauss(nodes)


def panels(start: float, end: float, count: int):
    """Return points and weights of Gauss's rule on panels between two ends."""
    points, weights = _gauss(NODES)
    half = 0.5 * (end - start) / count
    middles = start + half * (2.0 * np.arange(count) + 1.0)
    return (middles[:, None] + half * points).ravel(), np.tile(half * weights, count)


def _turned(v: float) -> complex:
    """Return ``exp(-i pi v)``, exact in the whole part of v."""
    part = math.fmod(v, 2.0)
    return complex(sc.cosdg(180.0 * part), -sc.sindg(180.0 * part))


def _vertical(n, v, r, m, a) -> complex:
    """Return the integral of ``(-w)**n exp(r (cos t - 1) + i (m sin t - v t))`` over t in (0, pi).

    There w is ``a + i t``.
    """
    end = 2.0 * math.asin(min(1.0, math.sqrt(0.5 * NEGLIGIBLE / r))) if r > 0.0 else math.pi
    turns = v * (end - math.sin(end)) if m == v else (m + v) * end
    t, weights = panels(0.0, end, 6 + int(turns / 8.0))
    decay = np.exp(-2.0 * r * np.square(np.sin(0.5 * t)) + 1j * (m * np.sin(t) - v * t))
    return np.sum(weights * (-a - 1j * t) ** n * decay)


def _horizontal(n, v, r, m, a) -> complex:
    """Return the integral for t > 0 of ``(-w)**n exp(-r (cosh t + 1) - m sinh t - v (t + i pi))``."""
    if 2.0 * r > UNDERFLOW:
        return 0j
    end = NEGLIGIBLE / v if v > 0.0 else math.inf
    if m > 0.0:
        end = min(end, math.asinh(NEGLIGIBLE / m))
    if r > 0.0:
        end = min(end, math.acosh(1.0 + NEGLIGIBLE / r))
    t, weights = panels(0.0, end, 6 + int(end))
    decay = np.exp(-r * (np.cosh(t) + 1.0) - m * np.sinh(t) - v * t)
    return _turned(v) * np.sum(weights * (-a - t - 1j * math.pi) ** n * decay)


def _along_path(n, v, r, m, a, height) -> float:
    total = _vertical(n, v, r, m, a).real + _horizontal(n, v, r, m, a).imag
    return math.exp(height) * total / math.pi


def _growing(n, v, x) -> float:
    """Return the integral over t > 0 of ``t**n exp(v t - x sinh t)``."""
    ratio = v / x
    peak = (
        0.0 if ratio <= 1.0 else math.acosh(ratio) if ratio < LARGE_RATIO else math.log(2.0 * v) - math.log(x)
    )
    r = math.sqrt(v - x) * math.sqrt(v + x) if v > x else 0.0

    def exponent(s):
        """Return the exponent of the integrand at ``peak + s``, less that at the peak."""
        if v > x:
            return v * (s - np.sinh(s)) - r * (np.cosh(s) - 1.0)
        return v * s - x * np.sinh(s)

    def reach(sign: float, most: float) -> float:
        """Return how far from the peak the integrand still counts in the integral."""
        low, high = 0.0, most
        if exponent(sign * high) > -NEGLIGIBLE:
            return high
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if exponent(sign * middle) > -NEGLIGIBLE else (low, middle)
        return high

    right = reach(1.0, 5.0 + math.asinh(NEGLIGIBLE / x) if v <= x else 60.0)
    left = reach(-1.0, peak)
    s, weights = panels(-left, right, 16 + int(left + right))
    total = np.sum(weights * (peak + s) ** n * np.exp(exponent(s)))
    height = v * peak - r
    return math.inf if height > 700.0 else math.exp(height) * total


def _hankel(n, v, x) -> complex:
    """Return the n-th derivative of the Hankel function ``J + i Y``, by 10.17.5."""
    # The coefficients a_k(v + e) are polynomials in e, kept up to e**n.
    term = np.zeros(n + 1, dtype=complex)
    term[0] = 1.0
    total, size, k = term.copy(), 1.0, 0
    while True:
        k += 1
        factor = np.array([4.0 * v * v - (2.0 * k - 1.0) ** 2, 8.0 * v, 4.0])
        term = np.convolve(term, factor)[: n + 1] * (1j / (8.0 * k * x))
        before, size = size, np.max(np.abs(term))
        if size < 1e-18 * np.max(np.abs(total)) or (k > abs(v) and size > before):
            break
        total += term
    phase = x - 0.5 * math.pi * v - 0.25 * math.pi
    wave = np.array([(-0.5j * math.pi) ** j / math.factorial(j) for j in range(n + 1)])
    found = np.convolve(total, wave)[n] * math.factorial(n)
    return math.sqrt(2.0 / (math.pi * x)) * complex(math.cos(phase), math.sin(phase)) * found


def _both_kinds(n: int, v: float, x: float) -> tuple[float, float]:
    """Return the n-th derivatives for v >= 0 of J and Y."""
    # There the expansion for large x has all digits in a few terms.
    if x > 500.0 and v * v < 10.0 * x:
        both = _hankel(n, v, x)
        return both.real, both.imag
    if v > x:
        r = math.sqrt(v - x) * math.sqrt(v + x)
        ratio = v / x
        a = math.acosh(ratio) if ratio < LARGE_RATIO else math.log(2.0 * v) - math.log(x)
        first = _along_path(n, v, r, v, a, r - v * a)
    else:
        first = _along_path(n, v, 0.0, x, 0.0, 0.0)
    waves = _vertical(n, v, 0.0, x, 0.0).imag - _horizontal(n, v, 0.0, x, 0.0).real
    return first, (waves - _growing(n, v, x)) / math.pi


def _reflected(n: int, wave: int, v: float, part) -> float:
    """Return the n-th derivative of ``cos(pi v)`` or sin times a function with derivatives part(k)."""
    cosine, sine = _turned(v).real, -_turned(v).imag
    cycle = (cosine, -sine, -cosine, sine) if wave == 0 else (sine, cosine, -sine, -cosine)
    return sum(math.comb(n, k) * math.pi**k * cycle[k % 4] * part(n - k) for k in range(n + 1))


def _plain(kind: int, n: int, v: float, x: float) -> float:
    """Return the n-th derivative for v of J (kind 0) or Y (kind 1)."""
    if not (0.0 < x < math.inf and abs(v) < math.inf):
        return 0.0 if kind == 0 and x == 0.0 and v > 0.0 else math.nan
    if v >= 0.0:
        return _both_kinds(n, v, x)[kind]
    parts = [_both_kinds(k, -v, x) for k in range(n + 1)]
    if kind == 0:
        cosines = _reflected(n, 0, -v, lambda k: parts[k][0])
        return (-1.0) ** n * (cosines - _reflected(n, 1, -v, lambda k: parts[k][1]))
    cosines = _reflected(n, 0, -v, lambda k: parts[k][1])
    return (-1.0) ** n * (cosines + _reflected(n, 1, -v, lambda k: parts[k][0]))


def _modified(n: int, v: float, x: float) -> float:
    """Return the n-th derivative for v of ``exp(-x) I``."""
    if not (0.0 < x < math.inf and abs(v) < math.inf):
        return 0.0 if x == 0.0 and v > 0.0 else math.nan
    order = abs(v)
    r = math.hypot(order, x)
    ratio = order / x
    a = math.asinh(ratio) if ratio < LARGE_RATIO else math.log(2.0 * order) - math.log(x)
    height = order * (order / (r + x)) - order * a  # r - x, in which nothing cancels
    found = _along_path(n, order, r, order, a, height)
    if v < 0.0:

        def second(k):
            kve = kve_order_derivative(float(k), order, x) if k else sc.kve(order, x)
            return 2.0 / math.pi * math.exp(-2.0 * x) * kve

        found = (-1.0) ** n * (found + _reflected(n, 1, order, second))
    return found


def arrays(function):
    """Return a function of three numbers as one of arrays."""

    def of_arrays(n, v, x):
        with np.errstate(all="ignore"):
            return np.vectorize(lambda n, v, x: function(int(n), float(v), float(x)), otypes=[float])(
                n, v, x
            )[()]

    return of_arrays


jv_slope = arrays(lambda n, v, x: _plain(0, n, v, x))
yv_slope = arrays(lambda n, v, x: _plain(1, n, v, x))
ive_slope = arrays(_modified)


def _iv_slope(n: int, v: float, x: float) -> float:
    return _modified(n, v, x) * (math.exp(x) if x < OVERFLOW else math.inf)


iv_slope = arrays(_iv_slope)


def _with_order(name: str, sign: float, scale: float = 0.0, also: str | None = None) -> None:
    """Register a function whose derivative for x is half of both neighbours plus scale times it: 10.6.1."""

    def neighbours(function, v, x):
        return 0.5 * (function(v - 1.0, x) + sign * function(v + 1.0, x))

    # This is the n-th derivative for the order, as a function of n, v and x.
    slope = formula_rule(
        f"{name}_slope",
        {
            1: lambda z, n, v, x: slope(n + 1.0, v, x),
            2: lambda z, n, v, x: scale * z + neighbours(functools.partial(slope, n), v, x),
        },
        home=__name__,
    )
    for each in (name, also):
        if each is not None:
            UFUNCS[each] = formula_rule(
                each,
                {
                    0: lambda z, v, x: slope(1.0, v, x),
                    1: lambda z, v, x: scale * z + neighbours(getattr(sc, name), v, x),
                },
            )


_with_order("jv", -1.0, also="jve")
_with_order("yv", -1.0, also="yve")
_with_order("iv", 1.0)
_with_order("ive", 1.0, scale=-1.0)
