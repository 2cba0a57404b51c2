"""Differences, integrals, convolutions, interpolation."""

from __future__ import annotations

import numpy as np

from ..tape.tape import ACTIVE, CONSTANT
from ..trace import extents, operations
from ..trace.array import TracedArray
from ..trace.axes import entries, is_empty, length, merge, one_axis, pinned
from ..trace.operands import adopt, find_trace, is_wrong, lift, lift_all, lift_first, may_be_guard, values_of
from ..trace.primitives import INT64, broadcast_to, dims_of, layout_of
from ..trace.symbolic_sizes import code_of, is_size
from .registration import composes, recurring
from .sliding import convolved, correlated

NO = np._NoValue


def sliced(x, axis: int, *span):
    return x[(*(slice(None),) * axis, slice(*span))]


@composes(np.diff, complex="by_parts")
def diff(a, n=1, axis=-1, prepend=NO, append=NO):
    x = lift_first(a, prepend, append)
    if n == 0:
        return x[...]
    axis = one_axis(x, axis)
    blocks = [_block(part, x, axis) for part in (prepend, x, append) if part is not NO]
    x = np.concatenate(blocks, axis) if len(blocks) > 1 else x
    subtract = np.not_equal if x.dtype == np.bool_ else np.subtract
    for _ in range(n):
        if np.shape(x._value)[axis] > 1:
            x = subtract(sliced(x, axis, 1, None), sliced(x, axis, None, -1))
        else:
            pinned(x, axis)
            x = sliced(x, axis, 0, 0)
    return x


def _block(part, x, axis):
    if np.ndim(values_of(part)):
        return part
    shape = list(x._sizes())
    shape[axis] = 1
    return np.broadcast_to(lift(find_trace(x), part), tuple(shape))


@composes(np.ediff1d, complex="by_parts")
def ediff1d(ary, to_end=None, to_begin=None):
    x = lift_first(ary, to_end, to_begin)
    steps = np.diff(merge(x, [x.ndim]))
    parts = [np.ravel(lift(x._trace, part)) for part in (to_begin, steps, to_end) if part is not None]
    return np.concatenate(parts) if len(parts) > 1 else steps


@composes(np.gradient, complex="by_parts")
def gradient(f, *varargs, axis=None, edge_order=1):
    trace = find_trace(f, *varargs)
    x = lift(trace, f)
    axes = tuple(range(x.ndim)) if axis is None else tuple(np.atleast_1d(axis) % x.ndim)
    spacings = varargs if len(varargs) == len(axes) else (varargs or (1.0,)) * len(axes)
    results = [_gradient(x, h, k, edge_order) for h, k in zip(spacings, axes, strict=True)]
    return results[0] if len(results) == 1 else tuple(results)


def _gradient(x, spacing, axis, edge_order):
    """Return the slopes along one axis: central ones inside, one-sided ones at both ends."""
    n = length(x, axis)
    even = not np.ndim(values_of(spacing))
    if not even:
        spacing = lift(x._trace, spacing)
        # NumPy takes equal steps for one number.
        if spacing._level != ACTIVE and may_be_guard(spacing):
            lengths = np.diff(spacing)
            even = bool(np.all(lengths == lengths[0]))
            spacing = lengths[0] if even else spacing
    if not even:
        steps = np.reshape(np.diff(spacing), [-1 if k == axis else 1 for k in range(x.ndim)])
    else:
        dims = [1] * x.ndim
        dims[axis] = x._trace.tape.sizes.sub(layout_of(x).dims[axis], 1)
        shape = [x._trace.tape.sizes.value(dim) for dim in dims]
        steps = broadcast_to(lift(x._trace, spacing), shape, dims)

    def at(array, *span):
        return sliced(array, axis, *span)

    slopes = np.diff(x, axis=axis) / steps
    if even:  # an entry that is NaN or infinite must not reach the slope at its own place
        inner = (at(x, 2, None) - at(x, None, -2)) / (2.0 * lift(x._trace, spacing))
    else:
        before, behind = at(steps, None, -1), at(steps, 1, None)
        inner = (at(slopes, None, -1) * behind + at(slopes, 1, None) * before) / (before + behind)
    first, last = at(slopes, 0, 1), at(slopes, -1, None)
    if edge_order != 1:  # NumPy takes 0 for 2, and refuses more
        first = first - at(steps, 0, 1) * _bend(slopes, steps, at, 0)
        last = last + at(steps, -1, None) * _bend(slopes, steps, at, n - 3)
    return np.concatenate([first, inner, last], axis)


def _bend(slopes, steps, at, k):
    """Return the second divided difference at points k, k+1, k+2."""
    wide = at(steps, k, k + 1) + at(steps, k + 1, k + 2)
    return (at(slopes, k + 1, k + 2) - at(slopes, k, k + 1)) / wide


@composes(np.trapezoid, complex="by_parts")
def trapezoid(y, x=None, dx=1.0, axis=-1):
    y = lift_first(y, x, dx)
    place = one_axis(y, axis)
    if x is None:
        steps = dx
    elif np.ndim(values_of(x)) == 1:
        steps = np.reshape(np.diff(x), [-1 if k == place else 1 for k in range(y.ndim)])
    else:
        steps = np.diff(x, axis=axis)  # x may have more axes than y, and so may the products
    return np.sum(steps * (sliced(y, place, 1, None) + sliced(y, place, None, -1)) / 2.0, axis)


# ---- convolution


def _correlated(long, short, mode: str):
    """Slide ``short`` along ``long``."""
    if is_empty(short):  # NumPy has raised here; the question is a guard, so that it does in later calls, too
        raise ValueError("a convolution with an empty array")
    if mode == "valid":
        return correlated(long, short)
    whole = convolved(long, short[::-1])
    if mode == "full":
        return whole
    width = length(short, 0)
    first = width - 1 - width // 2
    return sliced(whole, 0, first, first + length(long, 0))


MODES = {0: "valid", 1: "same", 2: "full"}


@composes(np.convolve, complex="bilinear")
def convolve(a, v, mode="full"):
    a, v = (np.ravel(x) for x in lift_all(a, v))
    if length(v, 0) > length(a, 0):
        a, v = v, a
    return _correlated(a, v[::-1], MODES.get(mode, mode))


@composes(np.correlate, complex="conjugating_second")
def correlate(a, v, mode="valid"):
    a, v = (np.ravel(x) for x in lift_all(a, v))
    if length(v, 0) > length(a, 0):
        return _correlated(v, a, MODES.get(mode, mode))[::-1]
    return _correlated(a, v, MODES.get(mode, mode))


# ---- interpolation, histograms


@composes(np.interp, complex="complex_functions.interp")
def interp(x, xp, fp, left=None, right=None, period=None):
    """Piecewise linear in x and fp; the knots are sorted, so that positions stay data."""
    x, xp, fp = (  # NumPy converts all, and differences of small integers would wrap around
        y if y.dtype in (np.float64, INT64) else np.astype(y, np.float64) for y in lift_all(x, xp, fp)
    )
    if length(xp, 0) != length(fp, 0):  # a guard: NumPy has raised here
        raise ValueError("fp and xp are not of the same length.")
    if x.ndim == 0 and x._level == xp._level == CONSTANT and is_size(length(xp, 0)):
        # A position that depends on sizes alone would be read as an int, on which the tape relies.
        return interp(np.expand_dims(x, 0), xp, fp, left, right, period)[0]
    if period is not None:
        period, left, right = abs(period), None, None
        x, xp = np.remainder(x, period), np.remainder(xp, period)
        order = np.argsort(xp)
        xp, fp = xp[order], fp[order]
        xp = np.concatenate([xp[-1:] - period, xp, xp[:1] + period])
        fp = np.concatenate([fp[-1:], fp, fp[:1]])
    finite = _is_short(xp, fp) if may_be_guard(xp) and may_be_guard(fp) else False
    value = np.interp(*values_of((x, xp, fp, left, right)))
    operands = x, xp, fp, left, right, finite
    # The guard is outside of what is repeated, because a template has none.
    return recurring(_between_knots, value, operands, {}, lambda: adopt(_between_knots(*operands), value))


def _is_short(xp, fp) -> bool:
    """Whether the short formula of `interp` serves: there is no jump at the end, and all is finite.

    This is a guard. The same knots and values are asked for once in a trace.
    """
    known = xp._trace.reused.short_interps
    key = xp._id, fp._id
    if key not in known:
        single = length(xp, 0) == 1
        known[key] = bool(
            single or np.logical_and(xp[-1] != xp[-2], np.isfinite(np.sum(fp) + xp[0] + xp[-1]))
        )
    return known[key]


def _between_knots(x, xp, fp, left, right, finite: bool):
    """Return what `interp` returns of sorted knots; `finite` is what `_is_short` says."""
    if length(xp, 0) == 1:
        inside = np.broadcast_to(fp[0], x._sizes()) + 0.0
    else:
        k = np.minimum(np.maximum(np.searchsorted(xp, x, "right") - 1, 0), entries(xp, (0,), 2))
        low, base = fp[k], xp[k]
        gap = xp[k + 1] - base
        if finite:
            inside = (fp[k + 1] - low) / gap * (x - base) + low
        else:
            inside = (fp[k + 1] - low) / np.where(gap == 0, 1.0, gap) * (x - base) + low
            inside = np.where(np.logical_and(gap == 0, np.equal(x, x)), fp[k + 1], inside)
            inside = _beside_infinite(inside, x, (base, xp[k + 1]), (low, fp[k + 1]))
    result = np.where(np.less(x, xp[0]), fp[0] if left is None else left, inside)
    return np.where(np.greater(x, xp[-1]), fp[-1] if right is None else right, result)


def _beside_infinite(inside, x, knots, values):
    """Return interpolated values as NumPy has them where a value or a knot next to them is not finite."""
    (base, end), (low, high) = knots, values
    backwards = (high - low) / (end - base) * (x - end) + high
    backwards = np.where(np.logical_and(np.isnan(backwards), np.equal(low, high)), low, backwards)
    inside = np.where(np.isnan(inside), backwards, inside)
    for knot, value in ((base, low), (end, high)):
        inside = np.where(np.logical_and(np.equal(x, knot), ~np.isfinite(inside)), value, inside)
    return np.where(np.isnan(x), x, inside)


def _counted(x, weights, minlength):
    """Count entries (or sum weights) in bins that are data; how many bins there are is a size."""
    some, most = length(x, 0) > 0, operations.range_of(x._trace, x)
    minlength = operations.counted(minlength) if type(minlength) is TracedArray else minlength
    if some and is_wrong(np.any(x < 0)):
        raise ValueError("'list' argument must have no negative elements")
    if most is not None and minlength > most and np.asarray(x._value).dtype == INT64:
        count = minlength  # the count is fixed, whatever the bins are
    elif minlength and some and not x._trace.may_guard(x) and int(np.max(x._value)) < minlength:
        # This is the body of a loop, where a bin beyond the last one raises when the tape runs.
        count = minlength
    else:
        count = operations.counted(np.max(x) + 1) if some else 0
        count = count if count > minlength else minlength
    trace = x._trace
    code = code_of(trace, count)
    bins = extents.filled(trace, (code,), 0.0, np.float64)
    ones = weights is None
    each = extents.filled(trace, dims_of(x), 1.0, np.float64) if ones else lift(trace, weights)
    found = operations.added_up(bins, each.astype(np.float64), x)
    return found.astype(int) if ones else found


FEW_SEGMENTS = 8


def sums_of_segments(x, indices):
    """Return ``np.add.reduceat(x, indices)`` of ascending positions; None if others, or known and few.

    Each entry is added to the sum of the segment that it is in. A sum begins with the neutral number, -0.0.
    """
    trace = x._trace
    if trace.values == "numpy" or (find_trace(indices) is None and np.size(indices) <= FEW_SEGMENTS):
        return None
    indices = lift(trace, indices)
    if indices.ndim != 1 or indices.dtype.kind not in "iu" or is_empty(indices):
        return None
    n = length(x, 0)
    if is_wrong(np.any(np.logical_or(indices < 0, indices - n >= 0))):
        return None  # NumPy's error
    if not np.all(np.diff(indices) > 0):
        return None
    ones = extents.filled(trace, dims_of(indices), 1.0, np.float64)
    starts = operations.added_up(extents.filled(trace, dims_of(x), 0.0, np.float64), ones, indices)
    segment = np.cumsum(starts) - 1.0
    each = np.where(segment < 0.0, -0.0, x)
    sums = extents.filled(trace, dims_of(indices), -0.0, np.float64)
    return operations.added_up(sums, each, np.maximum(segment, 0.0).astype(int))


@composes(np.bincount)
def bincount(x, /, weights=None, minlength=0):
    """Sum weights bin by bin; the bins are plain data."""
    if type(x) is TracedArray:
        return _counted(x, weights, minlength)
    bins = np.asarray(x, np.intp)
    count = max(int(bins.max()) + 1 if bins.size else 0, minlength)
    weights = lift_first(weights)
    if not count:
        return weights[:0]
    zeros, places = lift(weights._trace, np.zeros(count)), lift(weights._trace, bins)
    return operations.added_up(zeros, weights.astype(np.float64), places)


@composes(np.unwrap)
def unwrap(p, discont=None, axis=-1, *, period=2 * np.pi):
    x = lift_first(p)
    axis = one_axis(x, axis)
    steps = np.diff(x, axis=axis)
    low = -period / 2
    folded = np.remainder(steps - low, period) + low
    folded = np.where(np.logical_and(np.equal(folded, low), np.greater(steps, 0)), -low, folded)
    limit = period / 2 if discont is None else discont
    correction = np.where(np.less(np.abs(steps), limit), 0.0, folded - steps)
    rest = sliced(x, axis, 1, None) + np.cumsum(correction, axis)
    return np.concatenate([sliced(x, axis, 0, 1), rest], axis)
