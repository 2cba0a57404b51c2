"""Windows over a traced column: pandas' ``rolling``, ``expanding`` and ``ewm``.

pandas says which rows a window has, by the same window over the numbers of the rows. Missing entries are left
out, and a window with too few others gives NaN.
"""

from __future__ import annotations

import copy
import functools
import sys

import numpy as np

from .column_functions import REDUCTIONS, covariance, missing, read


class Windows:
    """The windows of one of pandas' objects over a column of some length.

    Parameters
    ----------
    owner
        What ``rolling`` or ``expanding`` has made.
    index : pandas.Index
        Of the column.

    Attributes
    ----------
    starts, sizes : array
        The first row of each window, and how many rows it has.
    index : pandas.Index
        Of the windows.
    least : int
        How many entries must be there.
    """

    def __init__(self, owner, index):
        rows = sys.modules["pandas"].Series(np.arange(float(len(index))), index)
        same = copy.copy(owner)
        same.obj, same.min_periods = rows, 1
        first, last = same.min(), same.max()
        self.index, empty = first.index, first.isna().to_numpy()
        self.starts = np.where(empty, 0.0, first.to_numpy()).astype(int)
        self.sizes = np.where(empty, 0.0, last.to_numpy() - first.to_numpy() + 1.0).astype(int)
        least = owner.min_periods
        # The indexers of windows of pandas, which a user may give, say themselves how long one is.
        self.least = int(getattr(owner.window, "window_size", owner.window) if least is None else least)

    def _filled(self, x, chosen):
        """Return the entries of some windows, one a row, and which of them are there."""
        steps = np.arange(max(self.sizes[chosen], default=0))
        places = np.minimum(self.starts[chosen, None] + steps, len(x) - 1)
        return x[places], (steps < self.sizes[chosen, None]) & ~missing(x)[places]

    def _counts(self, x):
        total = np.concatenate([[0], np.cumsum(~missing(x))])
        return total[self.starts + self.sizes] - total[self.starts]

    def applied(self, x, function):
        """Return ``function(rows)`` of the rows of each window, with those whose entries are missing."""
        parts = zip(self.starts, self.sizes, self._counts(x) >= max(self.least, 1), strict=True)
        return np.stack([function(slice(k, k + size)) if enough else np.nan for k, size, enough in parts])

    def over_all(self, x, compute, least: int):
        """Return ``compute(entries, present, counts)`` of the windows that have enough entries, else NaN."""
        counts = self._counts(x)
        chosen = np.flatnonzero(counts >= max(self.least, least))
        found = np.zeros(0) if not len(chosen) else compute(*self._filled(x, chosen), counts[chosen])
        place = np.full(len(counts), len(chosen))
        place[chosen] = np.arange(len(chosen))
        return np.concatenate([found, np.full(1, np.nan)])[place]


def _sums(x, present, counts):
    return np.sum(np.where(present, x, 0.0), 1)


def _means(x, present, counts):
    return _sums(x, present, counts) / counts


def _variances(ddof: int):
    def compute(x, present, counts):
        apart = np.where(present, x - _means(x, present, counts)[:, None], 0.0)
        return np.sum(apart**2, 1) / (counts - ddof)

    return compute


def _quantiles(q, method: str):
    def compute(x, present, counts):
        return np.nanquantile(np.where(present, x, np.nan), q, axis=1, method=method)

    return compute


def _one_by_one(function):
    def compute(x, present, counts):
        return np.stack([function(row[its]) for row, its in zip(x, present, strict=True)])

    return compute


def reduced_windows(name: str, windows: Windows, x, ddof: int = 1, q: float = 0.5, method: str = "linear"):
    """Return a reduction of each window, by the name that pandas uses."""
    if name == "sum":
        return windows.over_all(x, _sums, 0)
    if name == "mean":
        return windows.over_all(x, _means, 1)
    if name in ("var", "std", "sem"):
        older = name == "sem" and _older_errors()
        found = windows.over_all(x, _variances(1 if older else ddof), ddof + 1)
        if name == "sem":
            found = found / (windows._counts(x) - (ddof if older else 0))
        return found if name == "var" else np.sqrt(found)
    if name in ("min", "max"):
        worst, extreme = (np.inf, np.min) if name == "min" else (-np.inf, np.max)
        return windows.over_all(x, lambda x, present, _: extreme(np.where(present, x, worst), 1), 1)
    if name in ("median", "quantile"):
        return windows.over_all(x, _quantiles(q, method), 1)
    function, least = REDUCTIONS[name]
    return windows.over_all(x, _one_by_one(lambda entries: function(entries, ddof)), least)


@functools.cache
def _older_errors() -> bool:
    """Whether standard errors of the mean are ``std() / sqrt(count() - ddof)``, as in pandas 2.2.

    Later versions have ``std(ddof) / sqrt(count())``.
    """
    return bool(sys.modules["pandas"].Series([0.0, 2.0]).expanding().sem().iloc[1] > 1.2)


def covariances(windows: Windows, x, y, ddof: int, scaled: bool):
    """Return the covariance of two columns in each window, or their correlation."""
    found = []
    for start, size in zip(windows.starts, windows.sizes, strict=True):
        parts = x[start : start + size], y[start : start + size]
        enough = np.sum(~missing(parts[0]) & ~missing(parts[1])) >= max(windows.least, 1)
        found.append(covariance(*parts, ddof, scaled) if enough else np.nan)
    return np.stack(found)


def weighted_means(owner, x):
    """Return what ``ewm(...).mean()`` gives: linear in the entries, with weights that pandas knows."""
    gone = missing(x)
    units = np.where(gone[:, None], np.nan, np.eye(len(x)))
    same = copy.copy(owner)
    same.obj = sys.modules["pandas"].DataFrame(units, owner.obj.index)
    weights = same.mean().to_numpy()
    known = ~np.isnan(weights).all(1)
    found = np.where(np.isnan(weights), 0.0, weights) @ np.where(gone, 0.0, x)
    return np.where(known, found, np.nan)


def ranks(x, method: str, ascending: bool, pct: bool):
    """Return the rank of each entry among those that are there."""
    kept = np.flatnonzero(~missing(x))
    entries = x[kept] if ascending else -x[kept]
    ordered = np.sort(entries)
    below = np.searchsorted(ordered, entries, "left")
    upto = np.searchsorted(ordered, entries, "right")
    count = len(kept)
    if method == "first":
        found = np.argsort(np.argsort(entries, kind="stable"), kind="stable") + 1.0
    elif method == "dense":
        distinct = np.unique(entries)
        found, count = np.searchsorted(distinct, entries, "left") + 1.0, len(distinct)
    else:
        found = {"average": 0.5 * (below + upto + 1.0), "min": below + 1.0, "max": 1.0 * upto}[method]
    found = found / count if pct else found
    place = np.full(len(x), len(kept))
    place[kept] = np.arange(len(kept))
    return np.concatenate([found, np.full(1, np.nan)])[place]


def first_places(x) -> np.ndarray:
    """Return the row of the first entry of each value, in the order of the rows."""
    return np.sort(read(np.unique(x, return_index=True)[1]))
