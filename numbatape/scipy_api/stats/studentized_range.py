"""``scipy.stats.studentized_range``, the law of Tukey's test, as sums over fixed nodes.

SciPy integrates twice for each number: over the smallest of k normal variables, and over the spread s that
the range is divided by. Both integrands are analytic and vanish fast at both ends, that of s as a function of
its logarithm, so the trapezoidal rule has an error of 1e-13 with these steps. The nodes do not depend on what
has a derivative, so the derivatives of the sums are those of the integrals, for k and the degrees of freedom,
too. From 100 000 degrees of freedom on SciPy has no spread at all.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.special as sc

from ...rules.searches import Search
from ...trace.operands import find_trace, lift_all
from .continuous_laws import right
from .laws import ROOT_2PI

SPREADS = 240  # nodes
Z = np.linspace(-8.5, 8.5, 161)
WEIGHTS = (Z[1] - Z[0]) * np.exp(-0.5 * Z * Z) / ROOT_2PI
# Areas are counted from this side, so that they are differences of small ones.
SIDES = np.where(Z > 0.0, -1.0, 1.0)
LEFT = sc.ndtr(-np.abs(Z))
MANY = 100_000.0
LOWEST = -36.0  # a logarithm of a spread
REST = 1e-15  # the probability beyond the nodes, on each side


def _places(df):
    """Return the logarithms of spreads that are nodes, and their distance, for plain degrees of freedom."""
    few = np.where(df < MANY, df, MANY)
    with np.errstate(all="ignore"):
        low, high = (0.5 * np.log(2.0 * f(0.5 * few, REST) / few) for f in (sc.gammaincinv, sc.gammainccinv))
    low = np.maximum(low, LOWEST)
    step = (high - low) / (SPREADS - 1.0)
    return np.where(df < MANY, low, 0.0), np.where(df < MANY, step, 0.0)


def _spreads(df):
    """Return spreads, and their probabilities."""
    if find_trace(df) is None:
        first, step = _places(df)
    else:
        search = Search("scipy.stats.studentized_range", _places, tuple(lift_all(df)))
        first, step = (search.numbers("nodes", lambda found, k=k: found[k]) for k in range(2))
    few = np.where(df < MANY, df, 1.0)
    logs = np.expand_dims(first, -1) + np.expand_dims(step, -1) * np.arange(float(SPREADS))
    density = np.exp(np.expand_dims(few, -1) * (logs - 0.5 * np.expm1(2.0 * logs)))
    # All probabilities add up to one, but for those of spreads that make any range zero.
    half = 0.5 * few
    whole = np.exp(half + sc.gammaln(half) - half * np.log(half) - math.log(2.0)) / np.where(
        step > 0.0, step, 1.0
    )
    total = np.where(np.greater(first, LOWEST), np.sum(density, -1), whole)
    return np.exp(logs), density / np.expand_dims(total, -1)


def _areas(x, s):
    """Return the places below the nodes by the range, and the normal probabilities in between."""
    lower = Z - np.expand_dims(np.expand_dims(x, -1) * s, -1)
    return lower, SIDES * (LEFT - sc.ndtr(SIDES * lower))


def _power(area, exponent):
    """Return ``area**exponent``, which is zero where an area underflows."""
    some = area > 0.0
    logs = np.log(np.where(some, area, 1.0))
    return np.where(some, np.exp(np.expand_dims(np.expand_dims(exponent, -1), -1) * logs), 0.0)


def below(x, k, df):
    s, share = _spreads(df)
    _, area = _areas(x, s)
    return np.minimum(k * np.sum(share * np.sum(WEIGHTS * _power(area, k - 1.0), -1), -1), 1.0)


def log_density(x, k, df):
    s, share = _spreads(df)
    lower, area = _areas(x, s)
    inner = np.sum(WEIGHTS / ROOT_2PI * np.exp(-0.5 * np.square(lower)) * _power(area, k - 2.0), -1)
    return np.log(k * (k - 1.0) * np.sum(share * s * inner, -1))


right(
    "studentized_range",
    log_density,
    open=True,
    valid=lambda k, df: [k > 1.0, df > 0.0],
    cdf=below,
)
