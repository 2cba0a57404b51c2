"""``multivariate_normal.cdf`` and ``multivariate_t.cdf``, as probit models and copulas need them.

The slope with respect to an end is a density times the probability of the other variables given the first;
that with respect to a correlation is the density of both times the probability of the others given both (R.
L. Plackett, "A reduction formula for normal multivariate integrals", 1954). SciPy integrates over three and
more variables with random points, here the same ones in each call: the value is as accurate as there. Slopes
need the probabilities of one and two variables less, so those of three variables are exact. Student's law is
a normal one divided by an independent number: its slopes are the same, with densities of that law; given one
variable the others have one degree of freedom more, and given two as many, and another spread.
"""

from __future__ import annotations

import functools
import inspect

import numpy as np
import scipy.special as sc
import scipy.stats

from ...numpy_api.registration import unsupported_argument
from ...rules.primitive import Primitive, Rule
from ...trace.array import TracedArray
from ...trace.operands import lift_all, values_of
from ..special.ufunc_table import is_active
from .student_pairs import pairs, student_density

NAME = "scipy.stats.multivariate_normal.cdf"
INF = np.inf


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
    """Probabilities of boxes of ``count`` standard normal variables, or of Student's law, as a rule.

    Its arguments are upper ends, lower ends, and correlations, of which those above the diagonal count. The
    degrees of freedom of normal variables are infinite.
    """

    def __init__(self, count: int, options: tuple, df: float):
        self._count, self._options, self._df = count, options, df
        rule = Rule(self._value, self._pullback, self._pushforward, None, any_size=True)
        rule.name = NAME if df == INF else "scipy.stats.multivariate_t.cdf"
        self.of = Primitive(rule)

    def _value(self, high, low, R):
        whole = np.triu(R, 1)
        normal = self._df == INF
        law = scipy.stats.multivariate_normal if normal else scipy.stats.multivariate_t
        found = with_own_points(law.cdf)(
            high,
            np.zeros(self._count),
            whole + whole.T + np.eye(self._count),
            *([] if normal else [self._df]),
            lower_limit=low,
            **dict(self._options),
        )
        return np.reshape(found, np.shape(high)[:-1])

    def _density_of(self, fixed: list[int], at: list, r):
        """Return the density of one or two variables, the others' degrees of freedom, and their spread."""
        df, rest = self._df, 1.0 - r * r
        if len(fixed) == 2:
            square = (at[0] * at[0] - 2.0 * r * at[0] * at[1] + at[1] * at[1]) / rest
            constant = 2.0 * np.pi * np.sqrt(rest)
            if df == INF:
                return np.exp(-0.5 * square) / constant, df, 1.0
            return np.exp(-0.5 * df * np.log1p(square / df)) / constant, df, np.sqrt(1.0 + square / df)
        if df == INF:
            return np.exp(-0.5 * at[0] * at[0]) / np.sqrt(2.0 * np.pi), df, 1.0
        return student_density(at[0], df), df + 1.0, np.sqrt((df + at[0] * at[0]) / (df + 1.0))

    def _given(self, fixed: list[int], at: list, R):
        """Return the density of some variables at a point, and the probability of the others given them."""
        others = [k for k in range(self._count) if k not in fixed]
        r = R[fixed[0], fixed[1]] if len(fixed) == 2 else 0.0
        rest = 1.0 - r * r
        density, df, wider = self._density_of(fixed, at, r)

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
            return np.stack([(ends[..., k] - means[k]) / (spreads[k] * wider) for k in others], -1)

        return density, lambda high, low: box(moved(high), moved(low), remaining, self._options, df)

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
    known = inspect.signature(method).parameters
    name = next((name for name in ("rng", "random_state") if name in known), None)

    @functools.wraps(method)
    def call(*args, **kwargs):
        if name and kwargs.get(name) is None:
            kwargs[name] = np.random.default_rng(0)
        return method(*args, **kwargs)

    return call


areas = functools.cache(Areas)


def below_one(x, df: float):
    return sc.ndtr(x) if df == INF else sc.stdtr(df, x)


def below_two(a, b, r, df: float):
    return of_two(a, b, r) if df == INF else pairs(df).below(a, b, r)


def box(high, low, R, options: tuple = (), df: float = INF):
    """Return the probability that standard variables with correlations R are between ends."""
    count = np.shape(values_of(high))[-1]
    if count == 1:
        return below_one(high[..., 0], df) - below_one(low[..., 0], df)
    if count == 2:
        a, b, c, d, r = high[..., 0], high[..., 1], low[..., 0], low[..., 1], R[0, 1]
        return (
            below_two(a, b, r, df) - below_two(c, b, r, df) - below_two(a, d, r, df) + below_two(c, d, r, df)
        )
    return areas(count, options, df).of(high, low, R)


def _standard(ends, mean, spread):
    finite = np.isfinite(ends)
    return np.where(finite, (np.where(finite, ends, 0.0) - mean) / spread, ends)


def multivariate_normal_cdf(x, mean=None, cov=1, allow_singular=False, maxpts=None, abseps=1e-5, releps=1e-5,
                            *, lower_limit=None, rng=None):  # fmt: skip
    options = {"maxpts": maxpts, "abseps": abseps, "releps": releps, "allow_singular": allow_singular}
    return _cdf(x, mean, cov, lower_limit, options, INF)


def _cdf(x, mean, cov, lower_limit, options: dict, df: float):
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
        return below_one(high[..., 0], df) - (below_one(low[..., 0], df) if bounded else 0.0)
    if dim == 2 and not bounded:
        r = cov[0, 1] / (spread[0] * spread[1]) if cov.ndim == 2 else 0.0 * np.sum(spread)
        return below_two(high[..., 0], high[..., 1], r, df)
    R = cov / (np.expand_dims(spread, -1) * spread) if cov.ndim == 2 else np.zeros((dim, dim))
    return box(high, low, R, tuple(options.items()), df)


def multivariate_normal_logcdf(*args, **kwargs):
    return np.log(multivariate_normal_cdf(*args, **kwargs))


def multivariate_t_cdf(x, loc=None, shape=1, df=1, allow_singular=False, *, maxpts=None, lower_limit=None,
                       random_state=None):  # fmt: skip
    if is_active(df):
        hint = "for them there is no closed form; pass them as nt.Constant"
        raise unsupported_argument(
            "scipy.stats.multivariate_t.cdf", "degrees of freedom with a derivative", hint
        )
    df = 1.0 if df is None else float(df)
    if df == INF:
        hint = "multivariate_normal.cdf is"
        raise unsupported_argument("scipy.stats.multivariate_t.cdf", "infinite degrees of freedom", hint)
    if random_state is not None and not isinstance(random_state, int):
        raise unsupported_argument("scipy.stats.multivariate_t.cdf", "a random generator", "an int is")
    options = {"maxpts": maxpts, "allow_singular": allow_singular, "random_state": random_state}
    return _cdf(x, loc, shape, lower_limit, options, df)
