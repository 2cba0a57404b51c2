"""Sorting, positions of entries, searching."""

from __future__ import annotations

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from ..trace import symbolic_sizes as sizes
from ..trace.axes import along_axis, is_empty, length, merge, one_axis, unmerge
from ..trace.indexing import mask_positions
from ..trace.operands import adopt, is_wrong, lift_all, lift_first, values_of
from ..trace.primitives import array_instruction, dims_of
from .function_tables import HOLDS
from .registration import composes, records


@composes(np.sort, complex="complex_functions.sort")
def sort(a, axis=-1, kind=None, order=None, *, stable=None):
    return along_axis("sort", lift_first(a), axis, np.sort, places=True)


def _stable_argsort(x, axis):
    return np.argsort(x, axis, kind="stable")


@records(np.sort_complex, complex=HOLDS)
def sort_complex(value, a):
    found = np.sort(a)
    return found if found.dtype == value.dtype else np.astype(found, value.dtype)


@records(np.argsort, complex="complex_functions.argsort")
def argsort(value, a, axis=-1, kind=None, order=None, *, stable=None):
    # The tape sorts stably whatever the kind, so ties have the order of a stable sort.
    found = along_axis("argsort", lift_first(a), axis, _stable_argsort, places=True)
    # NumPy's positions lie in memory row by row, whatever the axis and the array.
    return found if found._value.flags.c_contiguous else adopt(found, np.ascontiguousarray(found._value))


@records(np.nonzero, complex="of_truth")
def nonzero(value, a):
    x = lift_first(a)
    return tuple(mask_positions(x if x.dtype.kind == "b" else np.not_equal(x, 0)))


@composes(np.flatnonzero, complex="of_truth")
def flatnonzero(a):
    return np.nonzero(np.ravel(a))[0]


@composes(np.argwhere, complex="of_truth")
def argwhere(a):
    # A number has no axes, so there are as many empty rows as entries that are not zero.
    if np.ndim(values_of(a)) == 0:
        return np.stack(np.nonzero(np.atleast_1d(a)), -1)[:, :0]
    return np.stack(np.nonzero(a), -1)


@composes(np.trim_zeros, complex=HOLDS)
def trim_zeros(filt, trim="fb", axis=None):
    x = lift_first(filt)
    if x.ndim == 0:
        return np.reshape(x, ())
    axes = range(x.ndim) if axis is None else normalize_axis_tuple(axis, x.ndim)
    filled = np.not_equal(x, 0)
    empty = not np.any(filled)  # the positions of the first and the last such entry are guards
    places = [slice(None)] * x.ndim
    for k in axes:
        along = np.any(filled, axis=tuple(j for j in range(x.ndim) if j != k))
        first = 0 if empty else int(np.argmax(along))
        last = 0 if empty else along.shape[0] - int(np.argmax(along[::-1]))
        front, back = (empty or letter in trim.lower() for letter in "fb")
        places[k] = slice(first if front else None, last if back else None)
    return x[tuple(places)]


@composes(np.searchsorted)
def searchsorted(a, v, side="left", sorter=None):
    """Positions, which are data. NumPy has refused tables of another dimension, and other sides."""
    a, v = (  # cells of float32 hold no positions beyond 2**24
        x if x.dtype in (np.float64, np.int64) else np.astype(x, np.float64) for x in lift_all(a, v)
    )
    if sorter is not None:
        a = a[sorter]
    flat = merge(v, [v.ndim])  # A number becomes a vector here, too.
    op = "places_right" if str(side).lower().startswith("r") else "places_left"
    found = array_instruction(op, (a, flat), np.searchsorted(a._value, flat._value, side))
    return unmerge(found, dims_of(v)) if v.ndim != 1 else found


@composes(np.digitize)
def digitize(x, bins, right=False):
    x, bins = lift_all(x, bins)
    # NaN is behind all numbers, as `np.sort` has it.
    ascending = bool(bins.ndim == 0 or bins.size < 2 or bins[0] <= bins[-1]) or bool(np.isnan(bins[-1]))
    steps = np.diff(bins if ascending else bins[::-1])
    if is_wrong(np.any(steps < 0)):
        raise ValueError("bins must be monotonically increasing or decreasing")
    side = "left" if right else "right"
    if ascending:
        return np.searchsorted(bins, x, side)
    return bins.size - np.searchsorted(bins[::-1], x, side)


@records(np.unique, complex=HOLDS)
def unique(value, ar, return_index=False, return_inverse=False, return_counts=False, axis=None, **options):
    """Sort, and keep the first entry of each run of equal ones; how many there are is counted."""
    x = lift_first(ar)
    if is_empty(x):  # sorting the rows of an empty matrix has no keys
        return value
    if axis is None:
        rows = np.ravel(x)
        order = np.argsort(rows, kind="stable") if return_index or return_inverse else None
        ordered = np.sort(rows) if order is None else rows[order]
        first = _first_of_runs(ordered, options.get("equal_nan", True))
    else:
        rows = np.moveaxis(x, one_axis(x, axis), 0)
        columns = np.reshape(rows, (rows.shape[0], -1))
        order = np.lexsort(columns.T[::-1])
        ordered, sorted_columns = rows[order], columns[order]
        first = np.any(np.stack([_first_of_runs(column, False) for column in sorted_columns.T]), 0)
    found = ordered[first]
    results = [found if axis is None else np.moveaxis(found, 0, one_axis(x, axis))]
    if return_index:
        results.append(order[first])
    if return_inverse:
        group = np.cumsum(first) - 1
        group = group[np.argsort(order)]
        its = np.shape(value[1 + return_index])  # the shape is NumPy's own, because versions of NumPy differ
        if len(its) > 1:
            group = unmerge(group, dims_of(x)) if its == x._value.shape else np.reshape(group, its)
        results.append(group)
    if return_counts:
        starts = np.flatnonzero(first)
        results.append(np.diff(np.append(starts, sizes.number_of(x._trace, dims_of(first)[0]))))
    if len(results) == 1:
        return adopt(results[0], value)
    return tuple(adopt(one, its) for one, its in zip(results, value, strict=True))


def _first_of_runs(ordered, equal_nan: bool):
    """Return which entries of a sorted vector differ from the one before."""
    if length(ordered, 0) < 2:
        return np.equal(ordered, ordered) | True
    differ = ordered[1:] != ordered[:-1]
    if equal_nan and ordered.dtype.kind in "fc":
        differ = differ & ~(np.isnan(ordered[1:]) & np.isnan(ordered[:-1]))
    return np.concatenate([[True], differ])
