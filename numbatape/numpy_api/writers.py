"""NumPy's functions that write into their first argument."""

from __future__ import annotations

import numpy as np

from ..trace.array import TracedArray
from ..trace.extents import arange
from ..trace.operands import find_trace, lift, values_of
from ..trace.plain_arrays import as_ndarrays, fixed
from ..trace.primitives import value_of
from ..trace.symbolic_sizes import code_of, is_size
from ..trace.writes import assign, masked, overlap, write_by, write_where
from .function_tables import in_place
from .select import wrapped


def _values(*parts):
    return values_of(as_ndarrays(parts))


@in_place(np.copyto)
def copyto(dst, src, casting="same_kind", where=True):
    np.copyto(_values(dst)[0].copy(), _values(src)[0], casting, _values(where)[0])  # raises NumPy's errors
    if where is True:
        assign(dst, Ellipsis, src, "np.copyto")
    else:
        write_where(dst, _lifted(src), as_ndarrays(where), "np.copyto")


@in_place(np.put)
def put(a, ind, v, mode="raise"):
    v = _lifted(v)
    trace = find_trace(ind)
    if trace is None or overlap(a, v, in_place=False):
        ind = fixed(as_ndarrays(ind))
        write_by(a, v, lambda target, source: np.put(target, ind, source, mode), "np.put")
        return
    np.put(_values(a)[0].copy(), *_values(ind, v), mode)  # raises NumPy's errors
    if not v.size or not np.size(_values(a)[0]):
        return
    ind = np.ravel(lift(trace, as_ndarrays(ind)))
    if mode != "raise":
        ind = wrapped(ind, np.size(_values(a)[0]), mode)
    flat = np.copy(np.ravel(a))
    flat[ind] = np.resize(v, ind.shape)
    assign(a, Ellipsis, np.reshape(flat, np.shape(_values(a)[0])), "np.put")


def _lifted(v):
    """Return values as one array, traced if one of them is."""
    v = as_ndarrays(v)
    trace = find_trace(v)
    return np.asarray(v) if trace is None else lift(trace, v)


def _cast(values, target):
    """Return values in the dtype of the array that they are written to, if NumPy would cast them implicitly.

    NumPy turns lists and Python's numbers into arrays of that dtype; `_lifted` does not know the dtype.
    """
    dtype = _values(target)[0].dtype
    # What has the dtype already is not copied, because NumPy reads what it has just written
    # where both overlap.
    return values.astype(dtype, copy=False) if dtype.kind == values.dtype.kind == "f" else values


def _in_shape_of(a, mask):
    """Return a traced mask in the shape of an array; NumPy only demands equal numbers of entries."""
    return np.astype(np.reshape(mask, np.shape(_values(a)[0])), bool)


@in_place(np.place)
def place(arr, mask, vals):
    np.place(_values(arr)[0].copy(), *_values(mask, vals))  # raises NumPy's errors, also for casts of lists
    vals = _cast(np.ravel(_lifted(vals)), arr)
    trace = find_trace(mask)
    if trace is None or overlap(arr, vals, in_place=False):
        mask = fixed(as_ndarrays(mask))
        write_by(arr, vals, lambda target, source: np.place(target, mask, source), "np.place")
        return
    chosen, count = _in_shape_of(arr, mask), len(vals)
    if not count:
        bool(np.any(chosen))  # records a guard: NumPy raises if one is chosen
        return
    turns = np.cumsum(np.ravel(chosen)) - 1  # how many entries before this one are written to
    entries = np.reshape(
        lift(trace, vals)[np.remainder(np.maximum(turns, 0), count)], np.shape(_values(arr)[0])
    )
    assign(arr, Ellipsis, masked(chosen, entries, as_ndarrays(arr)), "np.place")


@in_place(np.putmask)
def putmask(a, mask, values):
    np.putmask(_values(a)[0].copy(), *_values(mask, values))  # raises NumPy's errors, also for casts of lists
    values = _cast(_lifted(values), a)
    if find_trace(mask) is None or overlap(a, values):
        mask = fixed(as_ndarrays(mask))
        write_by(a, values, lambda target, source: np.putmask(target, mask, source), "np.putmask")
        return
    numbers = _values(a)[0]
    if not values.size:
        return
    if np.shape(value_of(values)) != numbers.shape and values.ndim:
        values = np.resize(values, numbers.shape)
    assign(a, Ellipsis, masked(_in_shape_of(a, mask), values, as_ndarrays(a)), "np.putmask")


@in_place(np.put_along_axis)
def put_along_axis(arr, indices, values, axis=-1):
    """Write to positions along one axis; positions that are traced are known when the tape runs."""
    if find_trace(indices) is None:
        indices = as_ndarrays(indices)

        def write(target, source):
            np.put_along_axis(target, indices, source, axis)

        write_by(arr, _lifted(values), write, "np.put_along_axis")
        return
    np.put_along_axis(_values(arr)[0].copy(), *_values(indices, values), axis)  # raises NumPy's errors
    shape = _values(arr)[0].shape
    if axis is None:
        assign(arr, np.unravel_index(as_ndarrays(indices), shape), values, "np.put_along_axis")
        return
    axis %= len(shape)
    places = list(np.ix_(*map(np.arange, shape)))  # positions with one entry along an axis serve all of it
    places[axis] = as_ndarrays(indices)
    assign(arr, tuple(places), values, "np.put_along_axis")


@in_place(np.fill_diagonal)
def fill_diagonal(a, val, wrap=False):
    if type(a) is TracedArray and a.ndim == 2 and not wrap and np.ndim(_values(val)[0]) == 0:
        rows, columns = a._sizes()
        if is_size(rows) or is_size(columns):  # a write to each entry keeps the sizes symbolic
            places = [arange(a._trace, code_of(a._trace, n)) for n in (rows, columns)]
            assign(
                a, Ellipsis, np.where(places[0][:, None] == places[1], _lifted(val), a), "np.fill_diagonal"
            )
            return

    def write(target, source):
        np.fill_diagonal(target, source, wrap)

    write_by(a, _lifted(val), write, "np.fill_diagonal")
