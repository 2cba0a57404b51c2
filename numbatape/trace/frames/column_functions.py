"""Reductions of traced columns as pandas defines them: missing entries are left out."""

from __future__ import annotations

import numpy as np

from ..array import TracedArray


def read(x) -> np.ndarray:
    """Return the numbers of an array without a derivative; by a guard, the tape holds for these only."""
    if type(x) is not TracedArray:
        return np.asarray(x)
    numbers = np.array(x._value)
    bool(np.all(np.equal(x, numbers)))  # Asking for the truth value records the guard.
    return numbers


def missing(x) -> np.ndarray:
    """Return which entries are missing."""
    return read(np.isnan(x)) if x.dtype.kind == "f" else np.zeros(len(x), bool)


def _moments(x, *powers):
    distances = x - np.mean(x)
    return [np.sum(distances**power) for power in powers]


def _skew(x, ddof):
    n, (second, third) = len(x), _moments(x, 2, 3)
    return n * np.sqrt(n - 1) / (n - 2) * third / second**1.5


def _kurt(x, ddof):
    n, (second, fourth) = len(x), _moments(x, 2, 4)
    ratio = n * (n + 1) * (n - 1) * fourth / ((n - 2) * (n - 3) * second**2)
    return ratio - 3 * (n - 1) ** 2 / ((n - 2) * (n - 3))


# The keys are names that pandas uses; the values, functions of entries that are present and of
# the number that is subtracted from the size in a variance; and how many entries they need,
# beyond that number in a variance.
REDUCTIONS = {
    "sum": (lambda x, ddof: np.sum(x), 0),
    "prod": (lambda x, ddof: np.prod(x), 0),
    "any": (lambda x, ddof: np.any(x), 0),
    "all": (lambda x, ddof: np.all(x), 0),
    "mean": (lambda x, ddof: np.mean(x), 1),
    "median": (lambda x, ddof: np.median(x), 1),
    "min": (lambda x, ddof: np.min(x), 1),
    "max": (lambda x, ddof: np.max(x), 1),
    "first": (lambda x, ddof: x[0], 1),
    "last": (lambda x, ddof: x[-1], 1),
    "std": (lambda x, ddof: np.std(x, ddof=ddof), 1),
    "var": (lambda x, ddof: np.var(x, ddof=ddof), 1),
    "sem": (lambda x, ddof: np.std(x, ddof=ddof) / np.sqrt(len(x)), 1),
    "skew": (_skew, 3),
    "kurt": (_kurt, 4),
}


def reduced(name: str, x, options: dict):
    """Return a reduction of a column; NaN if there are too few entries."""
    if options.get("skipna", True) and (gone := missing(x)).any():
        x = x[~gone]
    function, least = REDUCTIONS[name]
    ddof = options.get("ddof", 1)
    least += ddof if name in ("std", "var", "sem") else 0
    return np.nan if len(x) < max(least, options.get("min_count", 0)) else function(x, ddof)


def _running(over_all, skipping):
    def run(x, skipna):
        if not skipna or x.dtype.kind != "f":
            return over_all(x)
        return np.where(np.isnan(x), x, skipping(x))

    return run


def _extremes(ufunc, least: float):
    return _running(ufunc.accumulate, lambda x: ufunc.accumulate(np.where(np.isnan(x), least, x)))


ACCUMULATIONS = {
    "cumsum": _running(np.cumsum, np.nancumsum),
    "cumprod": _running(np.cumprod, np.nancumprod),
    "cummax": _extremes(np.maximum, -np.inf),
    "cummin": _extremes(np.minimum, np.inf),
}


def over_groups(name: str, x, groups: np.ndarray, count: int, options: dict):
    """Return a reduction of each group, or an accumulation within groups.

    Parameters
    ----------
    groups
        The group of each entry; -1 for entries of none.
    count
        How many groups there are.
    """
    if name in ("sum", "mean") and options.get("skipna", True):
        kept = (groups >= 0) & ~missing(x)
        totals = np.bincount(groups[kept], x[kept], count)
        sizes = np.bincount(groups[kept], minlength=count)
        if name == "mean":
            return np.where(sizes > 0, totals / np.maximum(sizes, 1), np.nan)
        return np.where(sizes >= options["min_count"], totals, np.nan)
    places = [np.flatnonzero(groups == k) for k in range(count)]
    if name in REDUCTIONS:
        return np.stack([reduced(name, x[its], options) for its in places])
    found = [ACCUMULATIONS[name](x[its], options.get("skipna", True)) for its in places]
    alone = np.flatnonzero(groups < 0)
    order = np.argsort(np.concatenate([*places, alone]))
    return np.concatenate([*found, np.full(len(alone), np.nan)])[order]


def covariance(x, y, ddof: int = 1, scaled: bool = False):
    """Return the covariance of two columns, or their correlation, over rows in which both are present."""
    kept = ~missing(x) & ~missing(y)
    x, y = x[kept], y[kept]
    if len(x) <= (1 if scaled else ddof):
        return np.nan
    dx, dy = x - np.mean(x), y - np.mean(y)
    product = np.dot(dx, dy)
    return product / np.sqrt(np.dot(dx, dx) * np.dot(dy, dy)) if scaled else product / (len(x) - ddof)
