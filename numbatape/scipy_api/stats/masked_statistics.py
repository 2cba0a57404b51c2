"""``scipy.stats.mstats`` of traced arrays, in which nothing is masked: results are arrays and numbers.

Which entries are cut off or replaced is data, as it is for sorting.
"""

from __future__ import annotations

import numpy as np
import scipy.special as sc
import scipy.stats

from ...numpy_api.stand_ins import made, stands_for
from ...trace.axes import length
from ...trace.operands import find_trace, lift_first
from ...usercode.frames import not_supported


def _rows(a, axis):
    """Return an array with an axis last, or all of its entries in one row."""
    return np.ravel(a) if axis is None else np.moveaxis(a, axis, -1)


def _columns(results, axis):
    """Return results that stand last for each row of `_rows` along the axis that the rows had."""
    return results if axis is None else np.moveaxis(results, -1, axis)


def _ends(n: int, limits, inclusive) -> tuple[int, int]:
    """Return the number of entries before the part of a sorted row that is kept, and before its end."""
    low, high = limits
    cuts = [
        0 if not share else int(share * n) if whole else int(np.round(share * n))
        for share, whole in zip((low, high), inclusive, strict=True)
    ]
    return cuts[0], n - cuts[1]


def _pair(limits):
    if find_trace(limits) is not None:
        raise not_supported("scipy.stats.mstats with traced limits", "plain ones are")
    limits = (limits, limits) if isinstance(limits, float) else limits
    for share, end in zip(limits or (), ("beginning", "end"), strict=False):
        if share is not None and not 0.0 <= share <= 1.0:
            raise ValueError(f"The proportion to cut from the {end} should be between 0. and 1.(got {share})")
    return limits


def _winsorized(rows, limits, inclusive):
    """Return rows whose smallest and largest entries are replaced by the next ones that stay."""
    start, end = _ends(int(length(rows, -1)), limits, inclusive)
    order = np.argsort(rows, axis=-1)
    place = np.argsort(order, axis=-1)
    ordered = np.take_along_axis(rows, order, axis=-1)
    raised = np.where(place < start, ordered[..., start : start + 1], rows)
    return np.where(place >= end, ordered[..., end - 1 : end], raised)


@stands_for("scipy.stats.mstats", "winsorize", run=None)
def winsorize(a, limits=None, inclusive=(True, True), inplace=False, axis=None, nan_policy="propagate"):
    if inplace:
        raise not_supported("scipy.stats.mstats.winsorize(inplace=True) of a traced array", "a copy is")
    a, limits = lift_first(a), _pair(limits)
    if nan_policy != "propagate" and bool(np.any(np.isnan(a))):
        raise not_supported(
            f"scipy.stats.mstats.winsorize(nan_policy={nan_policy!r}) of NaN", "'propagate' is"
        )
    if limits is None:
        return a[...]
    result = _winsorized(_rows(a, axis), limits, inclusive)
    return np.reshape(result, np.shape(a)) if axis is None else np.moveaxis(result, -1, axis)


def _trimmed(a, limits, inclusive, relative, axis):
    """Return sorted rows without what is cut off at their ends."""
    if not relative:
        raise not_supported("scipy.stats.mstats with relative=False of a traced array", "relative=True is")
    rows, limits = _rows(lift_first(a), axis), _pair(limits)
    if limits is None:
        return rows
    start, end = _ends(int(length(rows, -1)), limits, inclusive)
    return np.sort(rows, axis=-1)[..., start:end]


@stands_for("scipy.stats.mstats", "trimmed_mean", run=None)
def trimmed_mean(a, limits=(0.1, 0.1), inclusive=(1, 1), relative=True, axis=None):
    return np.mean(_trimmed(a, limits, inclusive, relative, axis), axis=-1)


@stands_for("scipy.stats.mstats", "trimmed_var", run=None)
def trimmed_var(a, limits=(0.1, 0.1), inclusive=(1, 1), relative=True, axis=None, ddof=0):
    return np.var(_trimmed(a, limits, inclusive, relative, axis), axis=-1, ddof=ddof)


@stands_for("scipy.stats.mstats", "trimmed_std", run=None)
def trimmed_std(a, limits=(0.1, 0.1), inclusive=(1, 1), relative=True, axis=None, ddof=0):
    return np.std(_trimmed(a, limits, inclusive, relative, axis), axis=-1, ddof=ddof)


@stands_for("scipy.stats.mstats", "trimmed_stde", run=None)
def trimmed_stde(a, limits=(0.1, 0.1), inclusive=(1, 1), axis=None):
    rows, limits = _rows(lift_first(a), axis), _pair(limits)
    root = np.sqrt(length(rows, -1))
    if limits is None:
        return np.std(rows, axis=-1, ddof=1) / root
    spread = np.std(_winsorized(rows, limits, inclusive), axis=-1, ddof=1)
    return spread / ((1.0 - limits[0] - limits[1]) * root)


@stands_for("scipy.stats.mstats", "mquantiles", run=None)
def mquantiles(a, prob=(0.25, 0.5, 0.75), alphap=0.4, betap=0.4, axis=None, limit=()):
    if limit:
        raise not_supported("scipy.stats.mstats.mquantiles(limit=...) of a traced array", "limit=() is")
    rows = np.sort(_rows(lift_first(a, prob), axis), axis=-1)
    n, prob = int(length(rows, -1)), np.atleast_1d(prob)
    place = n * prob + alphap + prob * (1.0 - alphap - betap)
    below = np.floor(np.clip(place, 1, n - 1)).astype(int)
    share = np.clip(place - below, 0.0, 1.0)
    result = (1.0 - share) * rows[..., below - 1] + share * rows[..., below]
    return _columns(result, axis)


@stands_for("scipy.stats.mstats", "hdquantiles", run=None)
def hdquantiles(data, prob=(0.25, 0.5, 0.75), axis=None, var=False):
    if var:
        raise not_supported("scipy.stats.mstats.hdquantiles(var=True) of a traced array", "var=False is")
    rows = np.sort(_rows(lift_first(data), axis), axis=-1)
    n, prob = int(length(rows, -1)), np.atleast_1d(prob)[:, None]
    reached = sc.betainc((n + 1) * prob, (n + 1) * (1.0 - prob), np.arange(n + 1) / n)
    weights = np.diff(reached, axis=-1)
    weights = np.where(prob == 0.0, np.arange(n) == 0, np.where(prob == 1.0, np.arange(n) == n - 1, weights))
    result = rows @ weights.T
    return _columns(result, axis)


def _as_in_stats(name: str, **renamed: str) -> None:
    """Register a statistic that ``scipy.stats`` has, too, without masks."""

    def call(*args, **kwargs):
        kwargs = {renamed.get(key, key): value for key, value in kwargs.items()}
        return made("scipy.stats", name, getattr(scipy.stats, name))(*args, **kwargs)

    stands_for("scipy.stats.mstats", name, run=None)(call)


_as_in_stats("moment", moment="order")
for _name in ("gmean", "hmean", "kurtosis", "sem", "skew", "variation", "zmap", "zscore"):
    _as_in_stats(_name)
