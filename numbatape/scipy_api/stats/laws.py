"""`Law`: what is known of a distribution of ``scipy.stats`` in standard form, and helpers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...trace.array import TracedArray

INF = np.inf
LOG2 = 0.6931471805599453
LOG_HALF = -np.log(2.0)
ROOT_2PI = math.sqrt(2.0 * math.pi)


def log_rest(log):
    """Return ``log(1 - exp(log))``, accurately also where the exponential is close to 0 or 1."""
    return np.where(log > LOG_HALF, np.log(-np.expm1(log)), np.log1p(-np.exp(log)))


def any_of(conditions):
    """Return conditions joined by "or"; plain ones that hold nowhere are dropped."""
    joined = None
    for condition in conditions:
        if type(condition) is not TracedArray and not np.any(condition):
            continue
        joined = condition if joined is None else np.logical_or(joined, condition)
    return joined


def pick(condition, yes: Callable, no: Callable):
    """Return ``where(condition, yes(), no())``; a side that is not needed is not computed."""
    if type(condition) is not TracedArray:
        if np.all(condition):
            return yes()
        if not np.any(condition):
            return no()
    return np.where(condition, yes(), no())


def is_infinity(shape):
    """Return where a parameter is infinite, which a size is not."""
    of_size = type(shape) is TracedArray and shape._id in shape._trace.integers.fractions
    return False if of_size else np.equal(shape, INF)


def positive(*shapes):
    return [shape > 0 for shape in shapes]


@dataclass(frozen=True)
class Law:
    """One distribution in standard form (loc 0, scale 1): functions of ``(x, *shapes)``.

    Parameters
    ----------
    log
        The log-density, or log-mass, inside of the support.
    low, high
        The support's ends: numbers, or functions of the shapes.
    open
        Whether the ends themselves are outside of the support in SciPy.
    valid
        Conditions on the shapes; SciPy gives NaN where they do not hold.
    cdf, sf, logcdf, logsf
        Cumulative functions inside of the support; derived from one another where None.
    ppf, isf
        Quantiles, as functions of the lower and of the upper tail probability; one follows from the other.
    mean, var, skewness, kurtosis, entropy
        Moments, as functions of the shapes; NaN or infinite where they do not exist.
    raw
        Moments about zero that exist, as a function of ``(order, *shapes)``: where SciPy's formula has single
        values for some shapes, or asks another distribution's private method.
    far
        Whether infinite ends count as outside, because the formula gives NaN there.
    hollow
        Whether the density is zero somewhere inside of the support.
    discrete
        Whether it is a distribution of whole numbers; such a distribution has no scale.
    """

    log: Callable
    low: object = -INF
    high: object = INF
    open: bool = False
    valid: Callable = positive
    cdf: Callable | None = None
    sf: Callable | None = None
    logcdf: Callable | None = None
    logsf: Callable | None = None
    ppf: Callable | None = None
    isf: Callable | None = None
    mean: Callable | None = None
    var: Callable | None = None
    skewness: Callable | None = None
    kurtosis: Callable | None = None
    raw: Callable | None = None
    entropy: Callable | None = None
    far: bool = False
    hollow: bool = False
    discrete: bool = False

    def ends(self, shapes):
        return [end(*shapes) if callable(end) else end for end in (self.low, self.high)]
