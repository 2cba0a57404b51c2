"""Quantiles and positions of entries, NaN left out; functions over several axes."""

from __future__ import annotations

import numpy as np

from ..trace.axes import axes_of, axis_to_end, count_of, length, merge, one_axis, pinned
from ..trace.operands import lift, lift_first, values_of
from ..trace.primitives import expand
from .registration import composes, unsupported_argument

NO = np._NoValue


def without_nan(x, axis, keepdims, reduce):
    """Reduce the entries that are not NaN along an axis; positions are data, their number is a guard."""
    if axis is None:
        flat = merge(x, [x.ndim])
        result = reduce(flat[np.logical_not(np.isnan(flat))])
        return expand(result, tuple(range(result.ndim, result.ndim + x.ndim))) if keepdims else result
    if np.ndim(axis):
        axes = axes_of(x, axis)
        if not axes:
            raise unsupported_argument(
                "np.nanquantile", f"axis={axis!r}", "one axis or several are, and None"
            )
        kept = [k for k in range(x.ndim) if k not in axes]
        rows = merge(np.transpose(x, [*kept, *axes]), [1] * len(kept) + [len(axes)])
        result = without_nan(rows, -1, False, reduce)
        return expand(result, tuple(a - x.ndim for a in sorted(axes))) if keepdims else result
    axis = one_axis(x, axis)
    rows = axis_to_end(x, axis)
    count = count_of(rows, range(rows.ndim - 1))
    shape = rows.shape[:-1]
    if count == 0:
        return np.sum(x, axis, keepdims=keepdims)
    rows = np.reshape(rows, (count, count_of(rows, (rows.ndim - 1,))))
    parts = [reduce(rows[k][np.logical_not(np.isnan(rows[k]))]) for k in range(count)]
    stacked = np.stack(parts, -1)
    result = np.reshape(stacked, (*stacked.shape[:-1], *shape))
    return expand(result, (axis - x.ndim,)) if keepdims else result


@composes(np.nanquantile)
def nanquantile(
    a, q, axis=None, out=None, overwrite_input=False, method="linear", keepdims=NO, *, weights=None
):
    if weights is not None:
        raise unsupported_argument(np.nanquantile, "weights")
    keepdims = keepdims is not NO and keepdims
    return _ordered(lift_first(a, q), axis, keepdims, np.shape(values_of(q)), np.quantile, q, method=method)


def _ordered(x, axis, keepdims, shape, function, *args, **options):
    """Reduce the entries that are not NaN by a function of order statistics with results of a shape."""

    def reduce(row):
        if pinned(row, 0):
            return function(row, *args, **options)
        return lift(x._trace, np.full(shape, np.nan))

    if any([length(x, k) == 0 for k in range(x.ndim)]):
        return np.nanmean(x, axis, keepdims=keepdims)  # as NumPy does, whatever the shape is
    return without_nan(x, axis, keepdims, reduce)


@composes(np.nanpercentile)
def nanpercentile(
    a, q, axis=None, out=None, overwrite_input=False, method="linear", keepdims=NO, *, weights=None
):
    return np.nanquantile(
        a, np.true_divide(q, 100.0), axis, method=method, keepdims=keepdims, weights=weights
    )


@composes(np.nanmedian)
def nanmedian(a, axis=None, out=None, overwrite_input=False, keepdims=NO):
    return _ordered(lift_first(a), axis, keepdims is not NO and keepdims, (), np.median)


def _nan_position(function, worst):
    def position(a, axis=None, out=None, *, keepdims=NO):
        filled = np.where(np.isnan(a), worst, a)
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
