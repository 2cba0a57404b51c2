"""``multivariate_normal.cdf``, as probit models and copulas need it.

The slope with respect to an end is a density times the probability of the other variables given the first;
that with respect to a correlation is the density of both times the probability of the others given both (R.
L. Plackett, "A reduction formula for normal multivariate integrals", 1954). SciPy integrates over three and
more variables with random points, here the same ones in each call: the value is as accurate as there. Slopes
need the probabilities of one and two variables less, so those of three variables are exact.
"""

from __future__ import annotations

import functools
import inspect

import numpy as np
import scipy.special as sc
import scipy.stats

from ...rules.primitive import Primitive, Rule
from ...trace.array import TracedArray
from ...trace.operands import lift_all, values_of

NAME = "scipy.stats.multivariate_normal.cdf"


def _value(a, b, r):
    law, points = scipy.stats.multivariate_normal, np.stack([a, b], -1)
    return np.reshape(law.cdf(points, cov=np.array([[1.0, r], [r, 1.0]])), np.shape(a))


def _slopes(a, b, r) -> tuple:
    rest = np.sqrt((1.0 - r) * (1.0 + r))
    # At an infinite end the densities are zero; numbers in its place keep the differences finite.
    low, high = np.clip(a, -50.0, 50.0), np.clip(b, -50.0, 50.0)
    density = np.exp(-0.5 * low**2) / np.sqrt(2.0 * np.pi)
    other = np.exp(-0.5 * high**2) / np.sqrt(2.0 * np.pi)
    both = density * np.exp(-0.5 * ((high - r * low) / rest) ** 2) / (np.sqrt(2.0 * np.pi) * rest)
    return density * sc.ndtr((high - r * low) / rest), other * sc.ndtr((low - r * high) / rest), both


def _pullback(ybar, y, a, b, r):
    da, db, dr = _slopes(a, b, r)
    return ybar * da, ybar * db, np.sum(ybar * dr)


def _pushforward(tangents, y, a, b, r):
    pairs = zip(tangents, _slopes(a, b, r), strict=True)
    return sum((t * slope for t, slope in pairs if t is not None), 0.0 * a)


_rule = Rule(_value, _pullback, _pushforward, None, any_size=True)
_rule.name = NAME
of_two = Primitive(_rule)


class Areas:
    """Probabilities of boxes of ``count`` standard normal variables, as a rule.

    Its arguments are upper ends, lower ends, and correlations, of which those above the diagonal count.
    """

    def __init__(self, count: int, options: tuple):
        self._count, self._options = count, options
        rule = Rule(self._value, self._pullback, self._pushforward, None, any_size=True)
        rule.name = NAME
        self.of = Primitive(rule)

    def _value(self, high, low, R):
        whole = np.triu(R, 1)
        found = with_own_points(scipy.stats.multivariate_normal.cdf)(
            high,
            np.zeros(self._count),
            whole + whole.T + np.eye(self._count),
            lower_limit=low,
            **dict(self._options),
        )
        return np.reshape(found, np.shape(high)[:-1])

    def _given(self, fixed: list[int], at: list, R):
        """Return the density of some variables at a point, and the probability of the others given them."""
        others = [k for k in range(self._count) if k not in fixed]
        r = R[fixed[0], fixed[1]] if len(fixed) == 2 else 0.0
        rest = 1.0 - r * r
        if len(fixed) == 2:
            square = (at[0] * at[0] - 2.0 * r * at[0] * at[1] + at[1] * at[1]) / rest
            density = np.exp(-0.5 * square) / (2.0 * np.pi * np.sqrt(rest))
        else:
            density = np.exp(-0.5 * at[0] * at[0]) / np.sqrt(2.0 * np.pi)

        def correlation(i, j):
            return R[min(i, j), max(i, j)]

        weights = {}
        for k in others:
            first = correlation(k, fixed[0])
            if len(fixed) == 1:
                weights[k] = [first]
            else:
                second = correlation(k, fixed[1])
                weights[k] = [(first - r * second) / rest, (second - r * first) / rest]

        def covariance(i, j):
            own = 1.0 if i == j else correlation(i, j)
            return own - sum(w * correlation(j, f) for w, f in zip(weights[i], fixed, strict=True))

        spreads = {k: np.sqrt(covariance(k, k)) for k in others}
        means = {k: sum(w * a for w, a in zip(weights[k], at, strict=True)) for k in others}
        zero = 0.0 * r
        remaining = np.stack(
            [
                np.stack(
                    [covariance(i, j) / (spreads[i] * spreads[j]) if i < j else zero for j in others]
                )
                for i in others
            ]
        )  # fmt: skip

        def moved(ends):
            return np.stack([(ends[..., k] - means[k]) / spreads[k] for k in others], -1)

        return density, lambda high, low: box(moved(high), moved(low), remaining, self._options)

    def _slopes(self, high, low, R):
        """Return the slopes for both ends, of each variable, and those for each pair's correlation."""
        ends = ((high, 1.0), (low, -1.0))
        of_ends: dict = {}
        for k in range(self._count):
            for end, sign in ends:
                finite = np.isfinite(end[..., k])
                density, rest = self._given([k], [np.where(finite, end[..., k], 0.0)], R)
                of_ends[k, sign] = np.where(finite, sign * density * rest(high, low), 0.0)
        of_pairs = {}
        for i in range(self._count):
            for j in range(i + 1, self._count):
                total = 0.0
                for first, one in ends:
                    for second, other in ends:
                        finite = np.isfinite(first[..., i]) & np.isfinite(second[..., j])
                        at = [np.where(finite, first[..., i], 0.0), np.where(finite, second[..., j], 0.0)]
                        density, rest = self._given([i, j], at, R)
                        total = total + np.where(finite, one * other * density * rest(high, low), 0.0)
                of_pairs[i, j] = total
        return of_ends, of_pairs

    def _pullback(self, ybar, y, high, low, R):
        of_ends, of_pairs = self._slopes(high, low, R)
        bars = [np.stack([ybar * of_ends[k, sign] for k in range(self._count)], -1) for sign in (1.0, -1.0)]
        zero = 0.0 * np.sum(ybar)
        pairs = [
            np.stack([np.sum(ybar * of_pairs[i, j]) if i < j else zero for j in range(self._count)])
            for i in range(self._count)
        ]
        return (*bars, np.stack(pairs))

    def _pushforward(self, tangents, y, high, low, R):
        of_ends, of_pairs = self._slopes(high, low, R)
        total = 0.0 * y
        for tangent, sign in zip(tangents[:2], (1.0, -1.0), strict=True):
            if tangent is not None:
                total = total + sum(tangent[..., k] * of_ends[k, sign] for k in range(self._count))
        if tangents[2] is not None:
            total = total + sum(tangents[2][pair] * slope for pair, slope in of_pairs.items())
        return total


def with_own_points(method):
    """Return a method of SciPy's that does not take its random points from the global generator."""
    knows = "rng" in inspect.signature(method).parameters

    @functools.wraps(method)
    def call(*args, **kwargs):
        if knows and kwargs.get("rng") is None:
            kwargs["rng"] = np.random.default_rng(0)
        return method(*args, **kwargs)

    return call


areas = functools.cache(Areas)


def box(high, low, R, options: tuple = ()):
    """Return the probability that standard normal variables with correlations R are between ends."""
    count = np.shape(values_of(high))[-1]
    if count == 1:
        return sc.ndtr(high[..., 0]) - sc.ndtr(low[..., 0])
    if count == 2:
        a, b, c, d, r = high[..., 0], high[..., 1], low[..., 0], low[..., 1], R[0, 1]
        return of_two(a, b, r) - of_two(c, b, r) - of_two(a, d, r) + of_two(c, d, r)
    return areas(count, options).of(high, low, R)


def _standard(ends, mean, spread):
    finite = np.isfinite(ends)
    return np.where(finite, (np.where(finite, ends, 0.0) - mean) / spread, ends)


def multivariate_normal_cdf(x, mean=None, cov=1, allow_singular=False, maxpts=None, abseps=1e-5, releps=1e-5,
                            *, lower_limit=None, rng=None):  # fmt: skip
    lower = -np.inf if lower_limit is None else lower_limit
    parts = lift_all(x, 0.0 if mean is None else mean, 1.0 if cov is None else cov, lower)
    x, mean, cov, low = (part if type(part) is TracedArray else np.asarray(part, float) for part in parts)
    dim = max([np.shape(values_of(part))[-1] for part in (mean, cov) if np.ndim(values_of(part))], default=1)
    variances = np.diagonal(cov) if cov.ndim == 2 else cov
    spread = np.sqrt(variances)
    rows = np.expand_dims(x, -1) if dim == 1 and (x.ndim == 0 or np.shape(values_of(x))[-1] != 1) else x
    high, low = (
        _standard(np.broadcast_to(end, (*rows.shape[:-1], dim)), mean, spread) for end in (rows, low)
    )
    bounded = lower_limit is not None
    if dim == 1:
        return sc.ndtr(high[..., 0]) - (sc.ndtr(low[..., 0]) if bounded else 0.0)
    if dim == 2 and not bounded:
        r = cov[0, 1] / (spread[0] * spread[1]) if cov.ndim == 2 else 0.0 * np.sum(spread)
        return of_two(high[..., 0], high[..., 1], r)
    R = cov / (np.expand_dims(spread, -1) * spread) if cov.ndim == 2 else np.zeros((dim, dim))
    options = {"maxpts": maxpts, "abseps": abseps, "releps": releps, "allow_singular": allow_singular}
    return box(high, low, R, tuple(options.items()))


def multivariate_normal_logcdf(*args, **kwargs):
    return np.log(multivariate_normal_cdf(*args, **kwargs))
