"""NumPy's functions that write into their first argument."""

from __future__ import annotations

import numpy as np

from ...errors import UnsupportedOperationError
from ..array import TracedArray
from ..plain import strip
from ..primitives import value_of
from ..trace import where_in_user_code
from ..writes import assign, masked
from . import select  # what it registers is wrapped here
from .common import find_trace, lift, plain
from .registry import HANDLED, implements, in_place


def _values(*parts):
    return plain(strip(parts))


@in_place(np.copyto)
def copyto(dst, src, casting="same_kind", where=True):
    np.copyto(_values(dst)[0].copy(), _values(src)[0], casting, _values(where)[0])  # NumPy's errors
    if where is not True:
        src = masked(strip(where), strip(src), strip(dst))
    assign(dst, Ellipsis, src, "np.copyto")


@in_place(np.put)
def put(a, ind, v, mode="raise"):
    indices, count = np.asarray(_values(ind)[0]).reshape(-1), _values(a)[0].size
    if find_trace(ind) is not None:
        raise UnsupportedOperationError(
            f"np.put at traced positions at {where_in_user_code()} is not supported; use x[...] = values"
        )
    np.put(_values(a)[0].copy(), indices, _values(v)[0], mode)
    if mode != "raise":
        indices = np.clip(indices, 0, count - 1) if mode == "clip" else indices % count
    if not len(indices) or not np.size(_values(v)[0]):
        return
    key = np.unravel_index(np.where(indices < 0, indices + count, indices), _values(a)[0].shape)
    assign(a, key, _repeated(v, len(indices)), "np.put")


def _lifted(v):
    """Return values as one array, traced if one of them is."""
    v = strip(v)
    trace = find_trace(v)
    return np.asarray(v) if trace is None else lift(trace, v)


def _repeated(v, count: int):
    v = _lifted(v)
    return v if v.ndim == 0 else np.resize(v, (count,))


@in_place(np.place)
def place(arr, mask, vals):
    condition = np.asarray(_values(mask)[0]).astype(bool)
    np.place(_values(arr)[0].copy(), condition, _values(vals)[0])
    count = int(np.count_nonzero(condition))
    if count:
        assign(arr, strip(mask), _repeated(np.ravel(_lifted(vals)), count), "np.place")


@in_place(np.putmask)
def putmask(a, mask, values):
    shape = _values(a)[0].shape
    np.putmask(_values(a)[0].copy(), *_values(mask, values))
    values = _lifted(values)
    if np.shape(value_of(values)) != shape and values.ndim:
        values = np.resize(values, shape)
    assign(a, Ellipsis, masked(strip(mask), values, strip(a)), "np.putmask")


@in_place(np.put_along_axis)
def put_along_axis(arr, indices, values, axis=-1):
    np.put_along_axis(_values(arr)[0].copy(), *_values(indices, values), axis)
    shape = _values(arr)[0].shape
    if axis is None:
        assign(arr, np.unravel_index(strip(indices), shape), values, "np.put_along_axis")
        return
    axis %= len(shape)
    places = list(np.ix_(*(np.arange(n) for n in np.shape(_values(indices)[0]))))
    places[axis] = strip(indices)
    assign(arr, tuple(places), values, "np.put_along_axis")


@in_place(np.fill_diagonal)
def fill_diagonal(a, val, wrap=False):
    numbers = _values(a)[0]
    np.fill_diagonal(numbers.copy(), _values(val)[0], wrap)
    marks = np.zeros(numbers.shape, bool)
    np.fill_diagonal(marks, True, wrap)
    key = np.nonzero(marks)
    val = _lifted(val)
    assign(a, key, _repeated(np.ravel(val) if val.ndim else val, len(key[0])), "np.fill_diagonal")


assert select
_nan_to_num = HANDLED[np.nan_to_num]


@implements(np.nan_to_num)
def nan_to_num(x, copy=True, **options):
    result = _nan_to_num(x, **options)
    if copy or type(x) is not TracedArray:
        return result
    assign(x, Ellipsis, result)
    return x
