"""``scipy.stats``: distances and spreads of samples, the line of repeated medians, and tests by ranks.

A statistic of ranks does not change while no two observations change places: it is data, which is computed
again in each call and has no derivative, and so is its p-value.
"""

from __future__ import annotations

import numpy as np
import scipy.stats

from ...numpy_api.registration import run_record
from ...numpy_api.stand_ins import stands_for
from ...rules.searches import Search
from ...trace.axes import entries
from ...trace.operands import adopt, find_trace, is_wrong, lift_all, values_of

RANKS = (
    "ansari", "cramervonmises_2samp", "kendalltau", "logrank", "mannwhitneyu", "weightedtau", "wilcoxon"
)  # fmt: skip


def _cumulative(values, weights, places):
    """Return the cumulative distribution of a weighted sample at sorted places."""
    order = np.argsort(values)
    k = np.searchsorted(values[order], places, "right")
    if weights is None:
        return k / entries(values, (0,))
    if is_wrong(np.any(weights < 0.0)):
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
        """Run the test; its numbers are recorded as what a search through the samples finds."""
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

        def numbers(name):
            return adopt(found.numbers(name, lambda result: getattr(result, name)), getattr(plain, name))

        made = type(plain)(numbers("statistic"), numbers("pvalue"))
        for also in ("correlation", "zstatistic"):
            if hasattr(plain, also):
                setattr(made, also, numbers(also))
        return made


for _name in RANKS:
    _of_ranks(_name)


# ---- how far points are from being evenly spread: F. J. Hickernell, "A generalized discrepancy", 1998


def _centred(x, y, gap):
    return 1.0 + 0.5 * np.abs(x - 0.5) + 0.5 * np.abs(y - 0.5) - 0.5 * np.abs(gap)


def _wrapped(x, y, gap):
    size = np.abs(gap)
    return 1.5 - size * (1.0 - size)


def _mixture(x, y, gap):
    size = np.abs(gap)
    return 15.0 / 8.0 - 0.25 * np.abs(x - 0.5) - 0.25 * np.abs(y - 0.5) - 0.75 * size + 0.5 * np.square(size)


# The constant for each dimension, the factors of single points, and those of pairs.
DISCREPANCIES = {
    "CD": (
        13.0 / 12.0,
        lambda x: 1.0 + 0.5 * np.abs(x - 0.5) - 0.5 * np.square(x - 0.5),
        _centred,
    ),
    "WD": (4.0 / 3.0, None, _wrapped),
    "MD": (
        19.0 / 12.0,
        lambda x: 5.0 / 3.0 - 0.25 * np.abs(x - 0.5) - 0.25 * np.square(x - 0.5),
        _mixture,
    ),
    "L2-star": (1.0 / 3.0, lambda x: 1.0 - np.square(x), lambda x, y, gap: 1.0 - np.maximum(x, y)),
}


@stands_for("scipy.stats.qmc", "discrepancy")
def discrepancy(sample, *, iterative=False, method="CD", workers=1):
    """Return the discrepancy of points in the unit cube; its kinks are those of ``abs``."""
    (sample,) = lift_all(sample)
    constant, single, pair = DISCREPANCIES[method]
    count, dim = sample.shape[0] + iterative, sample.shape[1]
    x, y = np.expand_dims(sample, 1), np.expand_dims(sample, 0)
    total = np.sum(np.prod(pair(x, y, x - y), -1)) / count**2
    if single is None:
        return total - constant**dim
    singles = np.sum(np.prod(single(sample), -1)) / count
    if method == "L2-star":
        return np.sqrt(constant**dim - 2.0 ** (1.0 - dim) * singles + total)
    return constant**dim - 2.0 * singles + total


@stands_for("scipy.stats", "obrientransform", run=None)
def obrientransform(*samples):
    """Return the transformed samples: an array, or an array of arrays where they have other lengths."""
    found = []
    for sample in lift_all(*samples):
        n = 1.0 * sample.shape[0]
        squares = np.square(sample - np.mean(sample))
        total = np.sum(squares)
        found.append(((n - 1.5) * n * squares - 0.5 * total) / ((n - 1.0) * (n - 2.0)))
    if len({part.shape for part in found}) == 1:
        return np.stack(found)
    result = np.empty(len(found), object)
    for k, part in enumerate(found):
        result[k] = part
    return result
