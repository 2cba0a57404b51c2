"""Arrays as sets, sorting by several keys, histograms: positions are data, numbers of entries are guards."""

from __future__ import annotations

import math

import numpy as np

from ..trace import operations
from ..trace.axes import along_axis, entries, is_empty, length, one_axis, pinned
from ..trace.operands import find_trace, is_wrong, lift, lift_all, lift_first, may_be_guard, values_of
from ..trace.symbolic_sizes import is_size, valued
from .function_tables import HOLDS, implements
from .registration import composes, records, unsupported_argument


def _flat(x):
    return np.ravel(x)


def _counted(x):
    """Return truth values as the numbers that NumPy takes them for in a histogram."""
    return np.astype(x, int) if x.dtype.kind == "b" else x


@composes(np.isin, complex=HOLDS)
def isin(element, test_elements, assume_unique=False, invert=False, *, kind=None):
    x, tests = lift_all(element, test_elements)
    found = np.any(np.equal(np.expand_dims(x, -1), _flat(tests)), axis=-1)
    return np.logical_not(found) if invert else found


@composes(np.union1d, complex=HOLDS)
def union1d(ar1, ar2):
    return np.unique(np.concatenate([_flat(x) for x in lift_all(ar1, ar2)]))


@composes(np.setdiff1d, complex=HOLDS)
def setdiff1d(ar1, ar2, assume_unique=False):
    x, others = lift_all(ar1, ar2)
    x = _flat(x) if assume_unique else lift(others._trace, np.unique(x))  # a plain array if it is empty
    return x[np.isin(x, others, invert=True)]


@composes(np.intersect1d, complex=HOLDS)
def intersect1d(ar1, ar2, assume_unique=False, return_indices=False):
    if return_indices:
        return operations.library_copy(np.intersect1d._implementation)(ar1, ar2, assume_unique, True)
    both = [_flat(x) if assume_unique else np.unique(x) for x in lift_all(ar1, ar2)]
    x = np.sort(np.concatenate(both))
    return x[:-1][x[1:] == x[:-1]]


@composes(np.setxor1d, complex=HOLDS)
def setxor1d(ar1, ar2, assume_unique=False):
    both = [_flat(x) if assume_unique else np.unique(x) for x in lift_all(ar1, ar2)]
    x = np.sort(np.concatenate(both))
    differs, end = x[1:] != x[:-1], np.ones(1, bool)
    return x[np.logical_and(np.concatenate([end, differs]), np.concatenate([differs, end]))]


@composes(np.unique_values, complex=HOLDS)
def unique_values(x):
    # NumPy promises no order; this one is sorted.
    return np.unique(lift_first(x), equal_nan=False)


@implements(np.partition, complex=HOLDS)
def partition(a, kth, axis=-1, kind="introselect", order=None):
    """Sort, which partitions at every position; NumPy leaves the order on both sides of kth open."""
    np.partition(values_of(a), valued(values_of(kth)), axis)  # raises NumPy's errors
    x = lift_first(a)
    _check_positions(x, kth, axis)
    return np.sort(x, axis)


def _check_positions(x, kth, axis) -> None:
    """Raise as NumPy does where an array of another size has no such entries; a guard."""
    count = entries(x, range(x.ndim)) if axis is None else length(x, one_axis(x, axis))
    if is_size(kth):
        furthest = kth + 1 if kth >= 0 else -kth
    else:
        furthest = int(np.max(np.abs(np.asarray(values_of(kth)) + 0.5) + 0.5))
    if count < furthest and not is_empty(x):  # of no entries NumPy asks nothing
        raise ValueError(f"kth(={furthest - 1}) out of bounds ({count})")


@implements(np.argpartition, complex=HOLDS)
def argpartition(a, kth, axis=-1, kind="introselect", order=None):
    np.argpartition(values_of(a), valued(values_of(kth)), axis)
    x = lift_first(a)
    _check_positions(x, kth, axis)
    return np.argsort(x, axis, kind="stable")


@records(np.lexsort)
def lexsort(value, keys, axis=-1):
    """Stable sorts by one key after the other; the last key is the primary one."""
    x = lift_first(keys)
    if x.ndim != 2:
        raise unsupported_argument(np.lexsort, "keys of more than one dimension")
    order = along_axis("argsort", x[0], -1, _stable, places=True)
    for k in range(1, pinned(x, 0)):
        order = order[along_axis("argsort", x[k][order], -1, _stable, places=True)]
    return order


def _stable(x, axis):
    return np.argsort(x, axis, kind="stable")


@composes(np.poly, complex=HOLDS)
def poly(seq_of_zeros):
    zeros = lift_first(seq_of_zeros)
    if zeros.ndim == 2:
        coefficients = np.poly(np.linalg.eigvals(zeros))
        return coefficients if np.iscomplexobj(values_of(zeros)) else np.real(coefficients)
    result = np.ones(1, zeros.dtype if zeros.dtype.kind in "fc" else float)
    for k in range(zeros.shape[0]):
        scaled = zeros[k] * result
        result = np.concatenate([result[:1], result[1:] - scaled[:-1], -scaled[-1:]])
    if zeros.dtype.kind == "c":
        in_pairs = np.all(np.sort(zeros) == np.sort(np.conj(zeros)))
        # Where this can't be a guard, the result stays complex, as the body of a loop is traced.
        if (values_of(in_pairs) or may_be_guard(in_pairs)) and in_pairs:
            return np.real(result)
    return result


def _edges(x, bins, range):
    """Return the edges of bins of equal widths, which move with the extreme entries if no range is given."""
    if isinstance(bins, str):
        return np.histogram_bin_edges(x, bins, range)
    bounds = None if find_trace(range) is None else range
    if bounds is None and (range is not None or find_trace(x) is None or is_empty(x)):
        return np.histogram_bin_edges(values_of(x), bins, range)
    low, high = (np.min(x), np.max(x)) if bounds is None else bounds
    if is_wrong(low > high):
        raise ValueError("max must be larger than min in range parameter.")
    if is_wrong(~np.isfinite(high - low)):
        raise ValueError(f"range of [{float(values_of(low))}, {float(values_of(high))}] is not finite")
    alone = np.equal(low, high)
    return np.linspace(np.where(alone, low - 0.5, low), np.where(alone, high + 0.5, high), int(bins) + 1)


def _is_number(bins) -> bool:
    return isinstance(bins, str) or (not isinstance(bins, (list, tuple)) and np.ndim(values_of(bins)) == 0)


def _given(ends, *others):
    """Return edges that the caller gave; they must ascend."""
    ends = np.asarray(ends) if find_trace(ends) is None else lift_first(ends, *others)
    if is_wrong(np.any(ends[:-1] > ends[1:])):
        raise ValueError("`bins` must increase monotonically, when an array")
    return ends


@composes(np.histogram)
def histogram(a, bins=10, range=None, density=None, weights=None):
    """Sum weights bin by bin; the bin of each entry is data."""
    x = _counted(_flat(lift_first(a, weights, bins, range)))
    edges = _edges(x, bins, range) if _is_number(bins) else _given(bins, x)
    low, high = edges[:-1, None], edges[1:, None]
    inside = np.logical_and(np.greater_equal(x, low), np.less(x, high))
    # Both ends of the last interval belong to it.
    last = np.logical_and(np.greater_equal(x, low[-1:]), np.less_equal(x, high[-1:]))
    inside = np.concatenate([inside[:-1], last])
    ones = 1.0 if weights is None else _flat(lift_first(weights, a))
    sums = np.sum(np.where(inside, ones, 0.0), 1)
    if density:
        sums = sums / np.diff(edges) / np.sum(sums)
    return sums, edges


def _edges_along(x, bins, range):
    """Return the edges along one axis of a histogram of several."""
    if not _is_number(bins):
        return _given(bins, x)
    # Without a traced end, the ends do not take the dtype of the sample.
    if range is not None and find_trace(range) is None:
        return np.histogram_bin_edges(np.zeros(0), bins, range)
    return _edges(x, bins, range)


@composes(np.histogramdd)
def histogramdd(sample, bins=10, range=None, density=None, weights=None):
    """Sum weights bin by bin; the bin of each row is data."""
    if isinstance(sample, (list, tuple)):  # a list is one of columns
        sample = np.stack([np.ravel(column) for column in sample], -1)
    x = lift_first(sample, weights, bins, range)
    x = np.reshape(x, (-1, 1)) if x.ndim == 1 else x
    count = x.shape[1]
    given = bins if isinstance(bins, (list, tuple)) else (bins,) * count
    ranges = (None,) * len(given) if range is None else range
    edges = [_edges_along(x[:, k], *two) for k, two in enumerate(zip(given, ranges, strict=True))]
    place, inside = 0, True
    for k, ends in enumerate(edges):
        column, last = x[:, k], len(ends) - 2
        inside = inside & np.greater_equal(column, ends[0]) & np.less_equal(column, ends[-1])
        bin_of = np.clip(np.searchsorted(ends, column, "right") - 1, 0, last)  # the last one has both ends
        place = place * (last + 1) + bin_of
    ones = np.ones_like(x[:, 0], float) if weights is None else _flat(lift_first(weights, sample))
    shape = tuple(len(ends) - 1 for ends in edges)
    sums = np.reshape(np.bincount(place, np.where(inside, ones, 0.0), math.prod(shape)), shape)
    if density:
        total = np.sum(sums)
        for k, ends in enumerate(edges):
            sums = sums / np.reshape(np.diff(ends), [-1 if j == k else 1 for j, _ in enumerate(edges)])
        sums = sums / total
    return sums, edges


@composes(np.histogram2d)
def histogram2d(x, y, bins=10, range=None, density=None, weights=None):
    """Sum weights bin by bin; the bin of each point is data."""
    if hasattr(bins, "__len__") and len(bins) not in (1, 2):
        bins = [bins, bins]  # One array of edges serves both axes.
    trace = find_trace(x, y, bins, range, weights)
    columns = [lift(trace, column) for column in (x, y)]
    sums, (first, second) = histogramdd(columns, bins, range, density, weights)
    return sums, first, second
