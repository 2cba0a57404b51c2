"""``multivariate_normal.cdf`` of one and of two variables, as bivariate probit models and copulas need it.

The slope with respect to an end is a density times the probability of the other variable given the first;
the slope with respect to the correlation is the density of both (R. L. Plackett, "A reduction formula for
normal multivariate integrals", 1954). SciPy integrates over more variables with random points.
"""

from __future__ import annotations

import numpy as np
import scipy.special as sc
import scipy.stats

from ...numpy_api.registration import unsupported_argument
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


def _standard(ends, mean, spread):
    finite = np.isfinite(ends)
    return np.where(finite, (np.where(finite, ends, 0.0) - mean) / spread, ends)


def multivariate_normal_cdf(x, mean=None, cov=1, allow_singular=False, maxpts=None, abseps=1e-5, releps=1e-5,
                            *, lower_limit=None, rng=None):  # fmt: skip
    lower = -np.inf if lower_limit is None else lower_limit
    parts = lift_all(x, 0.0 if mean is None else mean, 1.0 if cov is None else cov, lower)
    x, mean, cov, low = (part if type(part) is TracedArray else np.asarray(part, float) for part in parts)
    dim = max([np.shape(values_of(part))[-1] for part in (mean, cov) if np.ndim(values_of(part))], default=1)
    if dim > 2:
        raise unsupported_argument(NAME, f"{dim} variables", "one and two are")
    variances = np.diagonal(cov) if cov.ndim == 2 else cov
    spread = np.sqrt(variances)
    rows = np.expand_dims(x, -1) if dim == 1 and (x.ndim == 0 or np.shape(values_of(x))[-1] != 1) else x
    high, low = (
        _standard(np.broadcast_to(end, (*rows.shape[:-1], dim)), mean, spread) for end in (rows, low)
    )
    bounded = lower_limit is not None
    if dim == 1:
        return sc.ndtr(high[..., 0]) - (sc.ndtr(low[..., 0]) if bounded else 0.0)
    r = cov[0, 1] / (spread[0] * spread[1]) if cov.ndim == 2 else 0.0 * np.sum(spread)
    a, b = high[..., 0], high[..., 1]
    if not bounded:
        return of_two(a, b, r)
    c, d = low[..., 0], low[..., 1]
    return of_two(a, b, r) - of_two(c, b, r) - of_two(a, d, r) + of_two(c, d, r)


def multivariate_normal_logcdf(*args, **kwargs):
    return np.log(multivariate_normal_cdf(*args, **kwargs))
