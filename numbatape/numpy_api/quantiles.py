"""Medians and quantiles, by sorting."""

from __future__ import annotations

import numpy as np

from ..rules.searches import Search
from ..tape.tape import CONSTANT
from ..trace.array import TracedArray
from ..trace.axes import axes_of, count_of, entries, length, lengths, merge, pinned
from ..trace.indexing import take_rows
from ..trace.operands import find_trace, lift, lift_all, lift_first
from ..trace.primitives import expand
from .reductions import flag
from .registration import composes, unsupported_argument


def _sorted_last(x, axis):
    """Return ``x`` sorted along the given axes, merged into the last one."""
    axes = axes_of(x, axis)
    kept = [k for k in range(x.ndim) if k not in axes]
    moved = np.transpose(x, [*kept, *axes])
    return np.sort(merge(moved, [1] * len(kept) + [len(axes)]), -1), axes


def _of_nothing(x, axis, keepdims):
    """Return the mean of no entries, which is NaN."""
    count_of(x, range(x.ndim))
    dtype = x.dtype if x.dtype.kind == "f" else np.dtype(float)
    return lift(x._trace, np.full(np.shape(np.sum(x._value, axis, keepdims=keepdims)), np.nan, dtype))


def _finish(ordered, result, axes, keepdims):
    # NumPy returns NaN where an entry is NaN; sorting puts NaN last.
    last = ordered[..., -1]
    result = np.where(np.isnan(last), last, result)
    return np.expand_dims(result, axes) if keepdims else result


@composes(np.median)
def median(a, axis=None, out=None, overwrite_input=False, keepdims=False):
    x = lift_first(a)
    ordered, axes = _sorted_last(x, axis)
    n = length(ordered, ordered.ndim - 1)
    if n == 0:
        return _of_nothing(x, axis, flag(keepdims))
    if ordered.dtype.kind != "f":
        ordered = np.astype(ordered, float)  # truth values become numbers, because True + True would be True
    middle = ordered[..., n // 2]
    if n % 2 == 0:
        middle = (ordered[..., n // 2 - 1] + middle) / 2
    return _finish(ordered, middle, axes, flag(keepdims))


def _interpolated(ordered, place, method: str):
    """Return the entry at a fractional position, as NumPy interpolates: next to infinite ones NaN."""
    n = length(ordered, ordered.ndim - 1)
    if method in OF_ONE_ENTRY:
        return ordered[..., int(place)] + 0.0
    # Left of the first entry, and right of the last one, both neighbours are that entry.
    if type(place) is TracedArray and place._level == CONSTANT:  # known before the entries are
        floor = np.floor(place)
        below, above = (np.minimum(np.maximum(k, 0), n - 1) for k in (floor, floor + 1))
        return _between(_at(ordered, below), _at(ordered, above), _weight(place, below, method))
    floor = int(np.floor(place))
    below, above = (min(max(k, 0), n - 1) for k in (floor, floor + 1))
    return _between(ordered[..., below], ordered[..., above], _weight(place, below, method))


def _weight(place, below, method: str):
    """Return the weight of the entry behind the position."""
    if method not in WEIGHTS:
        return place - below
    at_entry, between = WEIGHTS[method]
    if type(place) is TracedArray:
        return np.where(place == below, at_entry, between)
    return at_entry if place == below else between


def _between(low, high, weight):
    """Interpolate from the nearer entry, as NumPy does: the other one may be infinite."""
    gap = high - low
    if type(weight) is TracedArray:
        return np.where(weight >= 0.5, high - gap * (1.0 - weight), low + gap * weight)
    return high - gap * (1.0 - weight) if weight >= 0.5 else low + gap * weight


def _at(ordered, k):
    """Return the entries along the last axis at a traced position."""
    rows = np.moveaxis(ordered, -1, 0)
    return take_rows(rows, expand(k, (0,)))[0]


def _traced_places(function, q, scale: float, n: int, method):
    """Return the fractional positions of traced probabilities; which entries are next to them is guarded."""
    probabilities = np.ravel(q) / scale
    if not np.all((probabilities >= 0.0) & (probabilities <= 1.0)):
        raise ValueError(f"{function.__name__.capitalize()}s must be in the range [0, {scale:g}]")
    if method not in OF_ONE_ENTRY:
        return list(_places(probabilities, n, method))
    # A quantile of the numbers 0, 1, ... is its position.
    search = Search(
        f"numpy.{function.__name__}",
        lambda q: np.quantile(np.arange(float(n)), q, method="lower" if method == "ends" else method),
        (probabilities,),
    )
    return list(search.numbers("positions", np.asarray))


def _places(q, n, method: str):
    """Return fractional positions among ``n`` entries, rounded as NumPy rounds them.

    Next to an infinite entry the last bit decides between a number, an infinity and NaN.
    """
    if method in BETWEEN:
        before, behind = BETWEEN[method]
        return n * q + (before + q * (1 - before - behind)) - 1
    if method == "averaged_inverted_cdf":
        return n * q - 1
    place = (n - 1) * q
    return 0.5 * (np.floor(place) + np.ceil(place)) if method == "midpoint" else place


# Methods that interpolate have two numbers that say where the first and the last entry are (Hyndman and Fan,
# "Sample quantiles in statistical packages", 1996).
BETWEEN = {
    "interpolated_inverted_cdf": (0, 1),
    "hazen": (0.5, 0.5),
    "weibull": (0, 0),
    "median_unbiased": (1 / 3, 1 / 3),
    "normal_unbiased": (3 / 8, 3 / 8),
}
# Probabilities that are integers are the first and the last entry, between which NumPy does not interpolate.
OF_ONE_ENTRY = ("inverted_cdf", "closest_observation", "lower", "higher", "nearest", "ends")
# Weights of the entry behind a position, where the position is that of an entry, and elsewhere.
WEIGHTS = {"averaged_inverted_cdf": (0.5, 1.0), "midpoint": (0.0, 0.5)}


def _quantile(function, scale: float):
    """Return the implementation of a quantile; ``q`` is one of ``scale`` parts."""

    def quantile(a, q, axis=None, out=None, overwrite_input=False, method="linear", keepdims=False, *,
                 weights=None):  # fmt: skip
        if weights is not None:
            return _weighted_quantile(function, a, q, axis, flag(keepdims), weights, method)
        ordered, axes = _sorted_last(lift_first(a, q), axis)
        last = ordered.ndim - 1
        n = length(ordered, last) if method == "linear" else pinned(ordered, last)
        trace = find_trace(q)
        q = np.asarray(q) if trace is None else lift(trace, q)
        if method == "linear" and scale == 1.0 and q.dtype.kind in "iub":
            method = "ends"
        q = np.astype(q, float)
        if trace is not None:
            places = _traced_places(function, q, scale, n, method)
        elif method == "ends":
            places = [-1 if k else 0 for k in q.reshape(-1).tolist()]
        elif method == "linear":
            # Where there are no entries the result is NaN, as NumPy's own value is.
            count = entries(ordered, (last,), 1)
            places = [k * count for k in (q / scale).reshape(-1).tolist()]
        elif method in OF_ONE_ENTRY:  # a quantile of the numbers 0, 1, ... is its position
            places = np.quantile(np.arange(float(n)), (q / scale).reshape(-1), method=method)
        else:
            places = _places((q / scale).reshape(-1), n, method).tolist()
        # Where no quantile is asked for, one is computed for its shape.
        asked = places if len(places) else [0.0]
        parts = [_finish(ordered, _interpolated(ordered, p, method), axes, flag(keepdims)) for p in asked]
        return np.reshape(np.stack(parts)[: len(places)], (*q.shape, *lengths(parts[0])))

    return quantile


def _weighted_quantile(function, a, q, axis, keepdims: bool, weights, method: str):
    """Return quantiles of weighted entries, which are entries: which ones is data."""
    if find_trace(q) is not None:
        raise unsupported_argument(function, "weights", "plain probabilities")
    x, w = lift_all(a, weights)
    ordered, axes = _sorted_last(x, axis)
    kept = [k for k in range(x.ndim) if k not in axes]

    def ranks(a, w):
        """Return the quantiles of each entry's place in the order."""
        if w.shape != a.shape:
            w = np.transpose(w, np.argsort(axes)).reshape(
                [size if k in axes else 1 for k, size in enumerate(a.shape)]
            )
        rows, w = (
            np.transpose(each, [*kept, *axes]).reshape(*(a.shape[k] for k in kept), -1)
            for each in (a, np.broadcast_to(w, a.shape))
        )
        places = np.argsort(np.argsort(rows, -1, kind="stable"), -1)
        return np.moveaxis(function(places, np.ravel(q), -1, weights=w, method=method), 0, -1)

    places = Search(f"numpy.{function.__name__}", ranks, (x, w)).positions("places in the order", np.asarray)
    found = np.moveaxis(np.take_along_axis(ordered, places, -1), -1, 0)
    parts = [_finish(ordered, part, axes, keepdims) for part in found]
    if not parts:  # Where no quantile is asked for, one is computed for its shape.
        parts = [_finish(ordered, ordered[..., 0], axes, keepdims)]
    return np.reshape(np.stack(parts)[: np.size(q)], (*np.shape(q), *parts[0].shape))


composes(np.quantile)(_quantile(np.quantile, 1.0))
composes(np.percentile)(_quantile(np.percentile, 100.0))
