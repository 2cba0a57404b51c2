"""Quantiles and positions of entries, NaN left out; functions over several axes."""

from __future__ import annotations

import numpy as np

from ..trace.axes import axes_of, axis_to_end, count_of, length, merge, one_axis, pinned
from ..trace.operands import is_wrong, lift, lift_first, values_of
from ..trace.primitives import expand
from .registration import composes, unsupported_argument

NO = np._NoValue


def without_nan(x, axis, keepdims, reduce, *others):
    """Reduce the entries that are not NaN along an axis; positions are data, their number is a guard.

    ``reduce`` gets the entries of a row, and those of other arrays of the same shape at these places.
    """
    if axis is None:
        flat, *more = (merge(each, [x.ndim]) for each in (x, *others))
        kept = np.logical_not(np.isnan(flat))
        result = reduce(flat[kept], *(each[kept] for each in more))
        return expand(result, tuple(range(result.ndim, result.ndim + x.ndim))) if keepdims else result
    if np.ndim(axis):
        axes = axes_of(x, axis)
        if not axes:
            raise unsupported_argument(
                "np.nanquantile", f"axis={axis!r}", "one axis or several are, and None"
            )
        kept = [k for k in range(x.ndim) if k not in axes]
        rows, *more = (
            merge(np.transpose(each, [*kept, *axes]), [1] * len(kept) + [len(axes)]) for each in (x, *others)
        )
        result = without_nan(rows, -1, False, reduce, *more)
        return expand(result, tuple(a - x.ndim for a in sorted(axes))) if keepdims else result
    axis = one_axis(x, axis)
    rows = axis_to_end(x, axis)
    count = count_of(rows, range(rows.ndim - 1))
    shape = rows.shape[:-1]
    if count == 0:
        return np.sum(x, axis, keepdims=keepdims)
    flat = (count, count_of(rows, (rows.ndim - 1,)))
    rows, *more = (np.reshape(each, flat) for each in (rows, *(axis_to_end(y, axis) for y in others)))
    masks = [np.logical_not(np.isnan(rows[k])) for k in range(count)]
    parts = [reduce(rows[k][kept], *(each[k][kept] for each in more)) for k, kept in enumerate(masks)]
    stacked = np.stack(parts, -1)
    result = np.reshape(stacked, (*stacked.shape[:-1], *shape))
    return expand(result, (axis - x.ndim,)) if keepdims else result


@composes(np.nanquantile)
def nanquantile(
    a, q, axis=None, out=None, overwrite_input=False, method="linear", keepdims=NO, *, weights=None
):
    keepdims = keepdims is not NO and keepdims
    x, options, shape = lift_first(a, q, weights), {"method": method}, np.shape(values_of(q))
    if weights is None:
        return _ordered(x, axis, keepdims, shape, np.quantile, q, **options)
    weights = lift(x._trace, weights)
    if weights.ndim != x.ndim:  # the weights are those of the axis, for each row
        weights = expand(weights, tuple(k for k in range(x.ndim) if k not in axes_of(x, axis)))
    weights = np.broadcast_to(weights, x.shape)

    def quantile(row, weights):
        return np.quantile(row, q, weights=weights, **options)

    return _ordered(x, axis, keepdims, shape, quantile, others=(weights,))


def _ordered(x, axis, keepdims, shape, function, *args, others=(), **options):
    """Reduce the entries that are not NaN by a function of order statistics with results of a shape."""

    def reduce(row, *more):
        if pinned(row, 0):
            return function(row, *more, *args, **options)
        return lift(x._trace, np.full(shape, np.nan))

    if any([length(x, k) == 0 for k in range(x.ndim)]):
        return np.nanmean(x, axis, keepdims=keepdims)  # NumPy does this, too, whatever the shape is
    return without_nan(x, axis, keepdims, reduce, *others)


@composes(np.nanpercentile)
def nanpercentile(
    a, q, axis=None, out=None, overwrite_input=False, method="linear", keepdims=NO, *, weights=None
):
    return np.nanquantile(
        a, np.true_divide(q, 100.0), axis, method=method, keepdims=keepdims, weights=weights
    )


@composes(np.nanmedian)
def nanmedian(a, axis=None, out=None, overwrite_input=False, keepdims=NO):
    """Take the middle entries of each sorted row, behind whose numbers NaN stands; how many count is data."""
    x, keepdims = lift_first(a), keepdims is not NO and keepdims
    if x.dtype.kind != "f" or any([length(x, k) == 0 for k in range(x.ndim)]):
        return _ordered(x, axis, keepdims, (), np.median)
    axes = axes_of(x, axis)
    kept = [k for k in range(x.ndim) if k not in axes]
    rows = np.sort(merge(np.transpose(x, [*kept, *axes]), [1] * len(kept) + [len(axes)]), -1)
    count = np.sum(np.logical_not(np.isnan(rows)), -1, keepdims=True)
    ends = np.maximum(count - 1, 0) // 2, np.minimum(count // 2, np.maximum(count - 1, 0))
    low, high = (np.take_along_axis(rows, end, -1)[..., 0] for end in ends)
    result = np.where(np.equal(*ends)[..., 0], low, (low + high) / 2)
    # NaN takes the place of what has no entries, without a slope.
    result = np.where(np.greater(count, 0)[..., 0], result, np.nan)
    return expand(result, tuple(sorted(axes))) if keepdims else result


def _nan_position(function, worst):
    def position(a, axis=None, out=None, *, keepdims=NO):
        unknown = np.isnan(a)
        if is_wrong(np.any(np.all(unknown, axis))):
            raise ValueError("All-NaN slice encountered")
        filled = np.where(unknown, worst, a)
        return function(filled, axis, None, keepdims=keepdims is not NO and keepdims)

    return position


composes(np.nanargmax)(_nan_position(np.argmax, -np.inf))
composes(np.nanargmin)(_nan_position(np.argmin, np.inf))


@composes(np.apply_over_axes)
def apply_over_axes(func, a, axes):
    for axis in axes_of(a, axes if np.ndim(axes) else (axes,)):
        result = func(a, axis)
        a = result if result.ndim == a.ndim else np.expand_dims(result, axis)
    return a
