"""``scipy.stats``: distances of samples, the line of repeated medians, and tests by ranks.

A statistic of ranks does not change while no two observations change places: it is data, which is computed
again in each call and has no derivative, and so is its p-value.
"""

from __future__ import annotations

import numpy as np
import scipy.stats

from ...numpy_api.registration import run_record
from ...numpy_api.stand_ins import stands_for
from ...rules.searches import Search
from ...trace.operands import find_trace, lift_all, values_of

RANKS = ("kendalltau", "mannwhitneyu", "weightedtau", "wilcoxon")


def _cumulative(values, weights, places):
    """Return the cumulative distribution of a weighted sample at sorted places."""
    order = np.argsort(values)
    k = np.searchsorted(values[order], places, "right")
    if weights is None:
        return k / values.shape[0]
    if bool(np.any(weights < 0.0)):
        raise ValueError("All weights must be non-negative.")
    sums = np.concatenate([np.zeros(1), np.cumsum(weights[order])])
    return sums[k] / sums[-1]


def _gaps(u, v, u_weights, v_weights):
    """Return how far apart two distribution functions are between all values, and the distances of these."""
    given = lift_all(*(x for x in (u, v, u_weights, v_weights) if x is not None))
    parts = iter(given)
    u, v, u_weights, v_weights = (None if x is None else next(parts) for x in (u, v, u_weights, v_weights))
    every = np.sort(np.concatenate([u, v]))
    apart = _cumulative(u, u_weights, every[:-1]) - _cumulative(v, v_weights, every[:-1])
    return apart, every[1:] - every[:-1]


@stands_for("scipy.stats", "wasserstein_distance")
def wasserstein_distance(u_values, v_values, u_weights=None, v_weights=None):
    apart, steps = _gaps(u_values, v_values, u_weights, v_weights)
    return np.sum(np.abs(apart) * steps)


@stands_for("scipy.stats", "energy_distance")
def energy_distance(u_values, v_values, u_weights=None, v_weights=None):
    apart, steps = _gaps(u_values, v_values, u_weights, v_weights)
    return np.sqrt(2.0) * np.sqrt(np.sum(apart**2 * steps))


@stands_for("scipy.stats", "siegelslopes", run=run_record)
def siegelslopes(value, y, x=None, method="hierarchical"):
    y = np.ravel(y)
    x = np.arange(float(len(y))) if x is None else np.ravel(x)
    y, x = lift_all(y, x)
    across = x[:, None] - x
    same = np.equal(across, 0.0)  # SciPy leaves these pairs out
    across = np.where(same, np.nan, across)
    slope = np.median(np.nanmedian((y[:, None] - y) / across, 1))
    if method == "separate":
        intercept = np.median(np.nanmedian((y * x[:, None] - y[:, None] * x) / across, 1))
    else:
        intercept = np.median(y - slope * x)
    return type(value)(slope=slope, intercept=intercept)


def _of_ranks(name: str) -> None:
    """Register a test by ranks, whose statistic and p-value are data."""

    @stands_for("scipy.stats", name, run=None)
    def stand_in(*args, **kwargs):
        test = getattr(scipy.stats, name)
        keys = [*range(len(args)), *kwargs]
        given = dict(zip(keys, (*args, *kwargs.values()), strict=True))
        traced = [key for key in keys if find_trace(given[key]) is not None]

        def run(*numbers):
            filled = given | dict(zip(traced, numbers, strict=True))
            places = [filled.pop(k) for k in range(len(args))]
            return test(*places, **filled)

        samples = lift_all(*(given[key] for key in traced))
        found = Search(f"scipy.stats.{name}", run, samples, any_size=True)
        plain = run(*values_of(samples))
        made = type(plain)(
            found.numbers("statistic", lambda result: result.statistic),
            found.numbers("p-value", lambda result: result.pvalue),
        )
        for also in ("correlation", "zstatistic"):
            if hasattr(plain, also):
                setattr(made, also, found.numbers(also, lambda result, also=also: getattr(result, also)))
        return made


for _name in RANKS:
    _of_ranks(_name)
