"""Reductions of traced columns as pandas defines them: missing entries are skipped."""

from __future__ import annotations

import numpy as np


def _skipping(over_all, skipping):
    return lambda x, skipna, ddof: (skipping if skipna and x.dtype.kind == "f" else over_all)(x)


def _spread(over_all, skipping):
    return lambda x, skipna, ddof: (skipping if skipna and x.dtype.kind == "f" else over_all)(x, ddof=ddof)


def _standard_error(x, skipna, ddof):
    return REDUCTIONS["std"](x, skipna, ddof) / np.sqrt(_count(x))


def _count(x):
    return np.sum(np.logical_not(np.isnan(x)))


def _end(place: int):
    return lambda x, skipna, ddof: x[place]


# By the names that pandas uses: functions of an array, of whether missing entries are skipped, and of the
# number that is subtracted from the size in a variance.
REDUCTIONS = {
    "sum": _skipping(np.sum, np.nansum),
    "prod": _skipping(np.prod, np.nanprod),
    "mean": _skipping(np.mean, np.nanmean),
    "median": _skipping(np.median, np.nanmedian),
    "min": _skipping(np.min, np.nanmin),
    "max": _skipping(np.max, np.nanmax),
    "any": _skipping(np.any, np.any),
    "all": _skipping(np.all, np.all),
    "std": _spread(np.std, np.nanstd),
    "var": _spread(np.var, np.nanvar),
    "sem": _standard_error,
    "first": _end(0),
    "last": _end(-1),
}


def _running(over_all, skipping):
    def run(x, skipna, ddof=1):
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


def over_groups(function, name: str, x, groups: np.ndarray, count: int, options: dict):
    """Return a reduction of each group, or an accumulation within groups.

    Parameters
    ----------
    groups
        The group of each entry; -1 for entries of none.
    count
        How many groups there are.
    """
    if name in ("sum", "mean") and options.get("skipna", True):
        kept = groups >= 0
        present = np.logical_not(np.isnan(x))
        totals = np.bincount(groups[kept], np.where(present, x, 0.0)[kept], count)
        return totals if name == "sum" else totals / np.bincount(groups[kept], 1.0 * present[kept], count)
    places = [np.flatnonzero(groups == k) for k in range(count)]
    found = [function(x[its], options.get("skipna", True), options.get("ddof", 1)) for its in places]
    if name not in ACCUMULATIONS:
        return np.stack(found)
    order = np.argsort(np.concatenate([*places, np.flatnonzero(groups < 0)]))
    missing = np.full(int(np.sum(groups < 0)), np.nan)
    return np.concatenate([*found, missing])[order]
