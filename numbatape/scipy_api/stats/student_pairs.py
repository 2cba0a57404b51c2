"""The probability that two variables of Student's law with a correlation are below ends.

Its slope for the correlation is elementary (A. Genz, "Numerical computation of rectangular bivariate and
trivariate normal and t probabilities", 2004): the value is its integral from a correlation of 1 or -1, where
one variable decides. That for an end is a density times the probability of the other variable given this one.
"""

from __future__ import annotations

import functools
import math

import numpy as np
import scipy.special as sc

from ...rules.primitive import Primitive, Rule


def student_density(x, df: float):
    constant = math.exp(math.lgamma(0.5 * (df + 1.0)) - math.lgamma(0.5 * df)) / math.sqrt(math.pi * df)
    return constant * np.exp(-0.5 * (df + 1.0) * np.log1p(x * x / df))


def _area(a: float, b: float, r: float, df: float) -> float:
    """Return the probability that two Student's t variables are below ``a`` and ``b``."""
    if math.isnan(a) or math.isnan(b):
        return math.nan
    if -math.inf in (a, b):
        return 0.0
    if math.inf in (a, b):
        return float(sc.stdtr(df, min(a, b)))
    sign = 1.0 if r >= 0.0 else -1.0
    gap, product = a - sign * b, 4.0 * sign * a * b

    def slope(angle):  # the slope for the arcsine of the correlation, given its distance from the end
        sine = math.sin(angle)
        if sine == 0.0:
            return 0.0 if gap else math.exp(-0.5 * df * math.log1p(0.25 * product / df))
        square = (gap * gap + product * math.sin(0.5 * angle) ** 2) / (sine * sine)
        return math.exp(-0.5 * df * math.log1p(square / df))

    end = math.acos(min(abs(r), 1.0))  # rounded, the correlation of equal variables may be above 1
    # Imported late, because first gradients of other functions do without it.
    from scipy.integrate import quad

    middle = [min(abs(gap), 0.5 * end)] if gap and end else None
    area = quad(slope, 0.0, end, points=middle, epsabs=1e-14, epsrel=1e-13, limit=200, full_output=1)[0]
    if sign > 0.0:
        return float(sc.stdtr(df, min(a, b))) - area / (2.0 * math.pi)
    return max(0.0, float(sc.stdtr(df, a) - sc.stdtr(df, -b))) + area / (2.0 * math.pi)


class Pairs:
    """The probability, as a rule of two ends and the correlation."""

    def __init__(self, df: float):
        self._df = df
        rule = Rule(self._value, self._pullback, self._pushforward, None, any_size=True)
        rule.name = "scipy.stats.multivariate_t.cdf"
        self.below = Primitive(rule)

    def _value(self, a, b, r):
        areas = [_area(float(x), float(y), float(r), self._df) for x, y in zip(a.flat, b.flat, strict=True)]
        return np.reshape(np.array(areas), np.shape(a))

    def _slopes(self, a, b, r) -> tuple:
        # The rest is zero if the variables are equal, and one of the two ends decides.
        df, rest = self._df, np.sqrt(np.maximum((1.0 - r) * (1.0 + r), 0.0))
        finite = np.logical_not(np.isinf(a)), np.logical_not(np.isinf(b))
        x, y = np.where(finite[0], a, 0.0), np.where(finite[1], b, 0.0)

        def of_end(fixed, other, ends, one, another):
            """Return the slope for the end ``fixed``."""
            spread = rest * np.sqrt((df + fixed * fixed) / (df + 1.0))
            place = np.where(another, (other - r * fixed) / spread, ends)
            return np.where(one, student_density(fixed, df) * sc.stdtr(df + 1.0, place), 0.0)

        square = (x * x - 2.0 * r * x * y + y * y) / (rest * rest)
        both = np.exp(-0.5 * df * np.log1p(square / df)) / (2.0 * np.pi * rest)
        return (
            of_end(x, y, b, *finite),
            of_end(y, x, a, *reversed(finite)),
            np.where(finite[0] & finite[1], both, 0.0),
        )

    def _pullback(self, zbar, z, a, b, r):
        with np.errstate(all="ignore"):
            of_a, of_b, of_r = self._slopes(a, b, r)
        return zbar * of_a, zbar * of_b, np.sum(zbar * of_r)

    def _pushforward(self, tangents, z, a, b, r):
        with np.errstate(all="ignore"):
            pairs = zip(tangents, self._slopes(a, b, r), strict=True)
        return sum((t * slope for t, slope in pairs if t is not None), 0.0 * z)


pairs = functools.cache(Pairs)
