"""Means, variances and covariances, and their versions without NaN."""

from __future__ import annotations

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from ..tape.tape import as_dtype
from ..trace import extents
from ..trace.array import TracedArray
from ..trace.axes import axes_of, entries, over_axes
from ..trace.operands import is_wrong, lift, lift_all, lift_first
from ..trace.primitives import expand, layout_of
from .function_tables import HOLDS
from .reductions import NO, flag, is_given, reduction, usual_axes
from .registration import at_first, composes, unsupported_argument


def _masked(where) -> bool:
    return where is not NO and where is not True


def _count(x, axes, where):
    """Return the number of entries of a mean: a number, or an array if there is a mask."""
    if not _masked(where):
        return entries(x, axes)
    where = lift(x._trace, where)
    if where.dtype.kind == "f":  # NumPy adds up the mask as whole numbers
        where = np.astype(where, int)
    return np.sum(np.broadcast_to(where, x._sizes()), axes, keepdims=True, dtype=float)


def _dtype(x, dtype):
    """Return the dtype in which a mean is taken."""
    if dtype is not None:
        return as_dtype(dtype)
    return x.dtype if x.dtype.kind == "f" else np.dtype(float)


def _mean(x, axes, keepdims, where, dtype=None):
    # A sum without options is one instruction.
    if not _masked(where) and x.dtype == _dtype(x, dtype) == np.float64:
        return over_axes("sum", x, axes, np.add.reduce, keepdims) / _count(x, axes, where)
    total = np.sum(x, axes, _dtype(x, dtype), keepdims=keepdims, where=where)
    count = _count(x, axes, where)
    if _masked(where) and not keepdims:
        count = np.squeeze(count, axes)
    return total / count


TOTAL = reduction("sum", np.add.reduce)


def _usual_mean(a, axis=None, *options, keepdims=False, **named):
    """Serve means without options, by the operations that NumPy's consist of; see `composes`."""
    if options or named or type(a) is not TracedArray:
        return None
    total = TOTAL(a, axis, keepdims=keepdims)
    return None if total is None else total / entries(a, usual_axes(axis, a._value.ndim))


def _usual_variance(a, axis=None, *options, ddof=0, keepdims=False, **named):
    """Serve variances without options, as `_usual_mean` serves means."""
    usual = type(a) is TracedArray and type(ddof) is int and type(keepdims) is bool
    if options or named or not usual:
        return None
    center = _usual_mean(a, axis, keepdims=True)
    if center is None:
        return None
    own = a._value
    axes = usual_axes(axis, own.ndim)
    count = 1
    for k in axes:
        count *= own.shape[k]
    if count <= ddof:
        return None  # NumPy warns
    return TOTAL(np.square(a - center), axis, keepdims=keepdims) / _freedom(a, axes, ddof)


def _usual_deviation(a, axis=None, *options, ddof=0, keepdims=False, **named):
    """Serve standard deviations without options, as `_usual_mean` serves means."""
    variance = _usual_variance(a, axis, *options, ddof=ddof, keepdims=keepdims, **named)
    return None if variance is None else np.sqrt(variance)


@composes(np.mean, complex="by_parts", usual=_usual_mean)
def mean(a, axis=None, dtype=None, out=None, keepdims=False, *, where=NO):
    x = lift_first(a, where)
    result = _mean(x, axes_of(x, axis), flag(keepdims), where, dtype)
    # NumPy writes the quotient to where the sum was.
    return np.astype(result, dtype) if dtype is not None and as_dtype(dtype).kind in "biu" else result


@composes(np.var, complex="complex_reductions.var", usual=at_first(_usual_variance))
def var(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, *, where=NO, mean=NO, correction=NO):
    if dtype is not None and as_dtype(dtype).kind not in "fc":  # NumPy rounds the mean, and each square
        raise unsupported_argument(np.var, f"dtype={as_dtype(dtype)}")
    x = lift_first(a, where, mean)
    axes = axes_of(x, axis)
    center = mean if is_given(mean) else _mean(x, axes, True, where, dtype)
    total = np.sum(np.square(x - center), axes, _dtype(x, dtype), keepdims=flag(keepdims), where=where)
    ddof = correction if correction is not NO else ddof
    if not _masked(where):
        return total / _freedom(x, axes, ddof)
    count = _count(x, axes, where)
    count = count if flag(keepdims) else np.squeeze(count, axes)
    return total / np.maximum(count - ddof, 0)


def _freedom(x, axes, ddof):
    """Return the number of entries of some axes less the degrees of freedom that are lost, at least 0."""
    if type(ddof) is not int:
        return np.maximum(entries(x, axes) - ddof, 0)
    table = x._trace.tape.sizes
    count = table.product(layout_of(x).dims[k] for k in axes)
    if table.value(count) < ddof:
        table.guard(ddof, ">=", count)
        return 0
    if ddof >= 0:  # a negative number is below each count
        table.guard(count, ">=", ddof)
    return entries(x, axes, ddof)


@composes(np.std, complex="complex_reductions.std", usual=at_first(_usual_deviation))
def std(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, *, where=NO, mean=NO, correction=NO):
    ddof = correction if correction is not NO else ddof
    return np.sqrt(np.var(a, axis, dtype, ddof=ddof, keepdims=flag(keepdims), where=where, mean=mean))


@composes(np.average, complex="by_parts")
def average(a, axis=None, weights=None, returned=False, *, keepdims=False):
    """Divide a weighted sum by the sum of the weights, in the dtypes that NumPy chooses."""
    keepdims = flag(keepdims)
    if weights is None:
        x = lift_first(a)
        axes = axes_of(x, axis)
        result = _mean(x, axes, keepdims, NO)
        return (result, np.full_like(result, entries(x, axes))) if returned else result
    x, w = lift_all(a, weights)
    axes = axes_of(x, axis)
    # As NumPy does: weights of integers are summed up in float64, whatever their own precision is.
    w = np.astype(w, np.result_type(x.dtype, w.dtype, *(["f8"] if x.dtype.kind in "biu" else [])))
    if w.ndim != x.ndim:
        w = _expanded_weights(w, x, axis)
    dims = layout_of(x).dims
    zeros = extents.filled(x._trace, dims, 0, w.dtype)
    total = np.sum(w + zeros, axes, keepdims=keepdims)
    if is_wrong(np.any(total == 0.0)):
        raise ZeroDivisionError("Weights sum to zero, can't be normalized")
    result = np.sum(x * w, axes, keepdims=keepdims) / total
    return (result, total) if returned else result


def _expanded_weights(w, x, axis):
    """Return weights along axes in the order in which the caller named them, with the axes of ``x``."""
    given = normalize_axis_tuple(axis, x.ndim)
    w = np.transpose(w, np.argsort(given))
    return expand(w, tuple(k for k in range(x.ndim) if k not in given))


# ---- covariance


@composes(np.cov, complex=HOLDS)
def cov(m, y=None, rowvar=True, bias=False, ddof=None, fweights=None, aweights=None, *, dtype=None):
    blocks = [_rows(_cast(lift_first(block, m, y), dtype), rowvar) for block in (m, y) if block is not None]
    x = np.concatenate(blocks)
    ddof = int(bias == 0) if ddof is None else ddof  # as NumPy asks: bias=None is one
    if fweights is not None or aweights is not None:
        return _weighted_cov(x, ddof, fweights, aweights)
    centered = x - np.mean(x, 1, keepdims=True)
    return np.squeeze(centered @ np.conj(centered.T) / _freedom(x.real, (1,), ddof))


def _weighted_cov(x, ddof, fweights, aweights):
    fweights, aweights = (w if w is None else lift_first(w, x) for w in (fweights, aweights))
    given = [w for w in (fweights, aweights) if w is not None]
    if any(is_wrong(np.any(w < 0)) for w in given):
        raise ValueError("fweights and aweights cannot be negative")
    weights = given[0] * given[1] if len(given) == 2 else given[0] * np.ones(x.shape[1])
    total = np.sum(weights)
    if is_wrong(total == 0):
        raise ZeroDivisionError("Weights sum to zero, can't be normalized")
    spread = 1.0 if aweights is None else np.sum(weights * aweights) / total
    centered = x - (np.sum(x * weights, 1) / total)[:, None]
    count = np.maximum(total - ddof * spread, 0.0)
    return np.squeeze(centered @ np.conj((centered * weights).T) / count)


def _cast(x, dtype):
    """Return observations in the dtype that the caller asks for, or in double precision.

    Of complex numbers a real dtype keeps the real parts.
    """
    if dtype is None:
        return np.astype(x, complex) if x.dtype == np.complex64 else x
    return np.astype(x if np.dtype(dtype).kind == "c" else np.real(x), dtype)


def _rows(x, rowvar):
    return np.atleast_2d(x) if rowvar or x.ndim == 1 else x.T


@composes(np.corrcoef, complex=HOLDS)
def corrcoef(x, y=None, rowvar=True, *, dtype=None):
    c = np.cov(x, y, rowvar, dtype=dtype)
    if c.ndim == 0:
        return c / c
    spread = np.sqrt(np.real(np.diagonal(c)))
    result = c / spread[:, None] / spread[None, :]
    if type(result) is TracedArray:
        return np.clip(result, -1.0, 1.0)
    return np.clip(result.real, -1.0, 1.0) + 1j * np.clip(result.imag, -1.0, 1.0)


# ---- without NaN


def _filled(a, fill):
    x = lift_first(a)
    return x if x.dtype.kind in "biu" else np.where(np.isnan(x), fill, x)


@composes(np.nansum, complex=HOLDS)
def nansum(a, axis=None, dtype=None, out=None, keepdims=False, initial=NO, where=NO):
    return np.sum(_filled(a, 0.0), axis, dtype, None, keepdims, initial, where)


@composes(np.nanprod, complex=HOLDS)
def nanprod(a, axis=None, dtype=None, out=None, keepdims=False, initial=NO, where=NO):
    return np.prod(_filled(a, 1.0), axis, dtype, None, keepdims, initial, where)


@composes(np.nanmean, complex=HOLDS)
def nanmean(a, axis=None, dtype=None, out=None, keepdims=False, *, where=NO):
    return np.mean(a, axis, dtype, None, flag(keepdims), where=_present(a, where))


@composes(np.nanvar, complex=HOLDS)
def nanvar(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, *, where=NO, mean=NO, correction=NO):
    ddof, keeps, present = correction if correction is not NO else ddof, flag(keepdims), _present(a, where)
    spread = np.var(a, axis, dtype, None, ddof, keeps, where=present, mean=mean)
    if lift_first(a).dtype.kind in "biu":
        return spread
    # Of no more entries than degrees of freedom are lost, np.var is infinite.
    return np.where(np.sum(present, axis, keepdims=keeps) <= ddof, np.nan, spread)


@composes(np.nanstd, complex=HOLDS)
def nanstd(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, *, where=NO, mean=NO, correction=NO):
    ddof = correction if correction is not NO else ddof
    return np.sqrt(np.nanvar(a, axis, dtype, None, ddof, flag(keepdims), where=where, mean=mean))


def _present(a, where):
    present = np.logical_not(np.isnan(a))
    return present if where is NO or where is True else np.logical_and(present, where)


def _nan_extremum(function, worst):
    def reduce(a, axis=None, out=None, keepdims=False, initial=NO, where=NO):
        result = function(_filled(a, worst), axis, None, flag(keepdims), initial, where)
        if is_given(initial):
            return result
        absent = np.all(np.isnan(a), axis, None, flag(keepdims))
        return np.where(absent, np.nan, result)

    return reduce


composes(np.nanmax, complex=HOLDS)(_nan_extremum(np.max, -np.inf))
composes(np.nanmin, complex=HOLDS)(_nan_extremum(np.min, np.inf))


@composes(np.nancumsum, complex=HOLDS)
def nancumsum(a, axis=None, dtype=None, out=None):
    return np.cumsum(_filled(a, 0.0), axis, dtype)


@composes(np.nancumprod, complex=HOLDS)
def nancumprod(a, axis=None, dtype=None, out=None):
    return np.cumprod(_filled(a, 1.0), axis, dtype)
