"""Tricomi's U (``hyperu``) and Wright's Bessel function, with derivatives for their parameters.

There is no closed form. With ``f(t) = exp(-x t) t**(a - 1) (1 + t)**(b - a - 1)``, U is the integral of f
over t > 0, divided by gamma(a), DLMF 13.4.4: it is differentiated under the integral sign, in the logarithm
of t, where the integrand has one peak. Small and negative a take the loop around zero, 13.4.14: a circle,
and both sides of the rest of the real line. Wright's function is the sum of ``x**m / (m! gamma(a m + b))``,
10.46.1, whose terms are all positive.

Both are Taylor polynomials in changes of a and b: arrays with a row for each order in a.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.special as sc

from .bessel_orders import NEGLIGIBLE, panels
from .formula_rules import formula_rule
from .ufunc_table import UFUNCS

SMALL = 0.5  # the largest a of the loop
FARTHEST = 1e7  # The largest term of Wright's series has at most this number.


def _reciprocal_gamma(y, count: int):
    """Return Taylor coefficients of ``gamma(y)/gamma(y + e)`` in e, for y > 0."""
    logarithm = [0.0 * y, *(-sc.polygamma(n - 1, y) / math.factorial(n) for n in range(1, count))]
    terms = [1.0 + 0.0 * y]
    for n in range(1, count):
        terms.append(sum(k * logarithm[k] * terms[n - k] for k in range(1, n + 1)) / n)
    return terms


def _product(i: int, factor, terms):
    """Multiply a Taylor polynomial by one in changes of a alone."""
    return np.array([sum(factor[m - k] * terms[k] for k in range(m + 1)) for m in range(i + 1)])


def _moments(i: int, j: int, weights, for_a, for_b):
    """Return the Taylor polynomial of ``sum(weights * exp(for_a * change of a + for_b * change of b))``."""
    powers = [[for_a**m * for_b**n for n in range(j + 1)] for m in range(i + 1)]
    scales = [[1.0 / (math.factorial(m) * math.factorial(n)) for n in range(j + 1)] for m in range(i + 1)]
    return np.array([[np.sum(weights * power) for power in row] for row in powers]) * scales


def _reach(exponent, sign: float) -> float:
    """Return how far from a peak at zero an integrand still counts in the integral."""
    low, high = 0.0, 1.0
    while exponent(sign * high) > -NEGLIGIBLE:
        low, high = high, 2.0 * high
    for _ in range(20):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if exponent(sign * middle) > -NEGLIGIBLE else (low, middle)
    return high


def _line(i: int, j: int, a: float, b: float, x: float, start: float | None = None):
    """Return a scale's logarithm of f's integral from a start, or from 0, and the polynomial beside it."""
    linear = x - b + 1.0  # the slope of f in the logarithm of t is a - linear*t - x*t**2 over 1 + t
    square = linear * linear + 4.0 * x * a
    root = math.sqrt(max(square, 0.0))
    peak = 2.0 * a / (linear + root) if linear > 0.0 else (root - linear) / (2.0 * x)
    if start is not None and not (square > 0.0 and peak > start):
        peak = start

    def beside(d):
        """Return ``log((1 + t)/(1 + peak))`` at ``t = peak*exp(d)``."""
        return np.log1p(peak / (1.0 + peak) * np.expm1(d))

    def exponent(d):
        return -x * peak * np.expm1(d) + a * d + (b - a - 1.0) * beside(d)

    left = _reach(exponent, -1.0) if start is None else math.log(peak / start)
    right = _reach(exponent, 1.0)
    d, weights = panels(-left, right, 16 + int(left + right))
    for_b = math.log1p(peak) + beside(d)
    terms = _moments(i, j, weights * np.exp(exponent(d)), math.log(peak) + d - for_b, for_b)
    return -x * peak + a * math.log(peak) + (b - a - 1.0) * math.log1p(peak), terms


def _circle(i: int, j: int, a: float, b: float, x: float):
    """Return the radius of a circle, and as ``_line`` does, a scale and a polynomial of its part of the loop.

    The radius is that at which the largest integrand on the circle is smallest.
    """

    def exponent(radius, angle):
        """Return the logarithm of the integrand, and the parts of it that a and b multiply."""
        place = radius * np.exp(1j * angle)
        for_b = np.log(1.0 - place)
        for_a = np.log(radius) + 1j * angle - for_b
        return x * place + a * for_a + (b - 1.0) * for_b, for_a, for_b

    radii = np.exp(np.linspace(-math.log(2.0 + x + abs(a) + abs(b)) - 6.0, math.log(0.8), 160))
    heights = np.max(exponent(radii[:, None], np.linspace(0.0, math.pi, 33))[0].real, axis=1)
    best = np.argmin(heights)
    angles, weights = panels(0.0, math.pi, 16 + int((abs(a) + abs(b) + x * radii[best]) / 4.0))
    powers, for_a, for_b = exponent(radii[best], angles)
    height = heights[best]
    terms = _moments(i, j, weights / math.pi * np.exp(powers - height), for_a, for_b)
    return float(radii[best]), float(height), terms.real


def _loop(i: int, j: int, a: float, b: float, x: float):
    """Return a scale and a polynomial as ``_line`` does, of U times gamma(1 - a)**-1."""
    radius, height, terms = _circle(i, j, a, b, x)
    above, rest = _line(i, j, a, b, x, radius)
    part = math.fmod(a, 2.0)
    waves = [sc.sindg(180.0 * part), sc.cosdg(180.0 * part)]
    sines = [waves[n % 2] * (-1.0) ** (n // 2) * math.pi ** (n - 1) / math.factorial(n) for n in range(i + 1)]
    top = max(height, above)
    return top, math.exp(height - top) * terms + math.exp(above - top) * _product(i, sines, rest)


def _tricomi(i: int, j: int, k: int, a: float, b: float, x: float) -> float:
    """Return the derivative of U of order i for a, j for b and k for x."""
    if not (0.0 < x < math.inf and abs(a) < math.inf and abs(b) < math.inf):
        return math.nan
    lower, a, b = a, a + k, b + k  # the k-th derivative for x is (-1)**k (a)_k U(a + k, b + k, x), 13.3.23
    if a > SMALL:
        height, terms = _line(i, j, a, b, x)
        terms = _product(i, _reciprocal_gamma(a, i + 1), terms)
        height -= math.lgamma(a)
    else:
        height, terms = _loop(i, j, a, b, x)
        gammas = _reciprocal_gamma(1.0 - a, i + 1)  # of which the reciprocal series is needed, in -e
        inverse = [1.0]
        for n in range(1, i + 1):
            inverse.append(-sum(gammas[k] * inverse[n - k] for k in range(1, n + 1)))
        terms = _product(i, [(-1.0) ** n * value for n, value in enumerate(inverse)], terms)
        height += math.lgamma(1.0 - a)
    for m in range(k):
        terms = -_product(i, [lower + m, 1.0] + [0.0] * i, terms)
    return float(terms[i, j] * np.exp(height) * math.factorial(i) * math.factorial(j))


def _largest(a: float, b: float, log_x: float) -> int:
    """Return the number of the largest term of Wright's series."""

    def rises(m: int) -> bool:
        gammas = sc.gammaln(a * (m + 1.0) + b) - sc.gammaln(a * m + b) if a > 0.0 else 0.0
        return log_x - math.log(m + 1.0) > gammas

    low, high = -1, 1
    while rises(high) and high < FARTHEST:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if rises(middle) else (low, middle)
    return high


def _wright(i: int, j: int, k: int, a: float, b: float, x: float):
    """Return the logarithm of a scale, and derivatives of orders (0, 0, 0) and (i, j, k) beside it."""
    log_x = math.log(x) if x > 0.0 else -math.inf
    middle = _largest(a, b, log_x) if x > 0.0 else 0
    half = 60 + int(12.0 * math.sqrt(middle + 1.0))
    m = np.arange(max(0, middle - half), middle + half + 1 if x > 0.0 else 1, dtype=float)
    powers = m * log_x if x > 0.0 else 0.0 * m

    def total(i: int, j: int, k: int, height: float | None):
        """Return the height of the terms, if it is not given, and the sum of derivatives beside it."""
        y = a * (m + k) + b  # the k-th derivative for x is the function of a and b + k a
        low = y < 1.0  # there gamma(y) is gamma(y + 1)/y, whose reciprocal has no pole
        logs = powers - sc.gammaln(m + 1.0) - sc.gammaln(y + low)
        height = np.max(logs) if height is None else height
        n = i + j
        gammas = _reciprocal_gamma(y + low, n + 1)
        slope = np.where(low, y * gammas[n] + (gammas[n - 1] if n else 0.0), gammas[n])
        return height, np.sum(np.exp(logs - height) * slope * (m + k) ** i) * math.factorial(n)

    height, value = total(0, 0, 0, None)
    return height, value, total(i, j, k, height)[1]


def _inside(a: float, b: float, x: float) -> bool:
    return 0.0 <= a < math.inf and 0.0 <= b < math.inf and 0.0 <= x < math.inf


def _wright_slope(*args) -> float:
    if not _inside(*args[3:]):
        return math.nan
    height, _, slope = _wright(*args)
    return float(np.exp(height) * slope)


def _wright_ratio(*args) -> float:
    if not _inside(*args[3:]):
        return math.nan
    _, value, slope = _wright(*args)
    return float(slope / value)


def _arrays(function):
    """Return a function of three orders, two parameters and a number as one of arrays."""

    def one(i, j, k, a, b, x):
        return function(int(i), int(j), int(k), float(a), float(b), float(x))

    def of_arrays(*args):
        with np.errstate(all="ignore"):
            return np.vectorize(one, otypes=[float])(*args)[()]

    return of_arrays


def _raised(place: int, numbers) -> list:
    """Return orders of which one is larger by one, and what follows them."""
    return [n + 1.0 if k == place else n for k, n in enumerate(numbers)]


FIRST = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))  # orders of derivatives for a, b and x

hyperu_slope = _arrays(_tricomi)
wright_bessel_slope = _arrays(_wright_slope)
wright_bessel_ratio = _arrays(_wright_ratio)


def _with_parameters(name: str) -> None:
    slope = formula_rule(
        f"{name}_slope",
        {3 + k: lambda z, *args, k=k: slope(*_raised(k, args)) for k in range(3)},
        home=__name__,
    )
    UFUNCS[name] = formula_rule(name, {k: lambda z, *args, k=k: slope(*FIRST[k], *args) for k in range(3)})


_with_parameters("hyperu")
_with_parameters("wright_bessel")

# These are derivatives of Wright's function over the function, which may overflow.
_RATIO = formula_rule(
    "wright_bessel_ratio",
    {
        3 + k: lambda z, *args, k=k: _RATIO(*_raised(k, args)) - z * _RATIO(*FIRST[k], *args[3:])
        for k in range(3)
    },
    home=__name__,
)
UFUNCS["log_wright_bessel"] = formula_rule(
    "log_wright_bessel", {k: lambda z, *args, k=k: _RATIO(*FIRST[k], *args) for k in range(3)}
)
