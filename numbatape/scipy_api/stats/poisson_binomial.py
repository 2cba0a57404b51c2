"""``scipy.stats.poisson_binom``: the number of successes of trials, each with a probability of its own.

Its parameter is an array, whose last axis goes through the trials, so that it is no `Law` of numbers. The
masses of all counts follow from those of one trial fewer: each is a sum of positive terms.
"""

from __future__ import annotations

import numpy as np
import scipy.special as sc

from ...numpy_api.function_tables import MAKERS
from ...numpy_api.stand_ins import stand_in
from ...trace.axes import pinned
from ...trace.operands import find_trace
from .distributions import StandIn, run_broadcast
from .law_methods import operand
from .laws import log_rest


def _masses(p):
    """Return the masses of 0, 1, ..., n along a further axis; NaN where a probability is none."""
    masses = np.ones_like(p[..., :1])
    none = np.zeros_like(masses)
    for trial in range(pinned(p, -1)):
        yes = p[..., trial : trial + 1]
        masses = np.concatenate([masses * (1.0 - yes), none], -1) + np.concatenate([none, masses * yes], -1)
    valid = np.all((p >= 0.0) & (p <= 1.0), axis=-1, keepdims=True)
    return np.where(valid, masses, np.nan)


def _given(p, loc, *more):
    trace = find_trace(p, loc, more)
    return (operand(trace, part) for part in (p, loc, *more))


def _total(chosen):
    """Return a function of ``(k, p, loc)`` that adds the masses of those counts that are chosen for k."""

    def evaluate(k, p, loc=0):
        p, loc, k = _given(p, loc, k)
        masses = _masses(p)
        places = np.arange(np.shape(p)[-1] + 1.0)
        known = np.expand_dims(k - loc, -1)
        total = np.sum(np.where(chosen(places, known), masses, 0.0 * masses), -1)  # NaN stays
        return np.where(np.isnan(k), np.nan, total)

    return evaluate


_pmf = _total(lambda places, k: np.equal(places, k))
_cdf = _total(lambda places, k: places <= k)
_sf = _total(lambda places, k: places > k)


def _logarithm(function, other=None):
    """Return the logarithm of a method, by that of the other tail where this one is most of the whole."""

    def evaluate(k, p, loc=0):
        value = np.log(function(k, p, loc))
        return value if other is None else np.where(value > -0.5, log_rest(np.log(other(k, p, loc))), value)

    return evaluate


def _mean(p, loc=0):
    p, loc = _given(p, loc)
    return np.sum(p, -1) + loc


def _var(p, loc=0):
    p, loc = _given(p, loc)
    return np.sum(p * (1.0 - p), -1) + 0.0 * loc


def _stats(p, loc=0, moments="mv"):
    p, loc = _given(p, loc)
    spread = p * (1.0 - p)
    var = np.sum(spread, -1)
    of_moment = {
        "m": lambda: np.sum(p, -1) + loc,
        "v": lambda: var,
        "s": lambda: np.sum(spread * (1.0 - 2.0 * p), -1) / var**1.5,
        "k": lambda: np.sum(spread * (1.0 - 6.0 * spread), -1) / var**2,
    }
    found = tuple(make() for name, make in of_moment.items() if name in moments)
    return found if len(found) > 1 else found[0]


def _entropy(p, loc=0):
    p, loc = _given(p, loc)
    return np.sum(sc.entr(_masses(p)), -1) + 0.0 * loc


METHODS = {
    "pmf": _pmf,
    "cdf": _cdf,
    "sf": _sf,
    "logpmf": _logarithm(_pmf),
    "logcdf": _logarithm(_cdf, _sf),
    "logsf": _logarithm(_sf, _cdf),
    "mean": _mean,
    "var": _var,
    "std": lambda p, loc=0: np.sqrt(_var(p, loc)),
    "stats": _stats,
    "entropy": _entropy,
}


def _method(distribution, name: str):
    """Return the stand-in for a method; None for one that is SciPy's own."""
    evaluate = METHODS.get(name)
    if evaluate is None:
        return None

    def run(*args, **kwargs):
        with np.errstate(all="ignore"):  # logarithms of masses that are zero
            return evaluate(*args, **kwargs)

    return stand_in(getattr(distribution, name), run, run_broadcast)


MAKERS["scipy.stats"]["poisson_binom"] = lambda original: StandIn(original, _method)
