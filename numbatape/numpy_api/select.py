"""Choosing entries: by condition, by position, by bounds."""

from __future__ import annotations

import numpy as np

from ..late import imported
from ..tape.tape import as_dtype
from ..trace.array import TracedArray
from ..trace.axes import length, merge, one_axis, pinned
from ..trace.indexing import mask_positions
from ..trace.operands import adopt, find_trace, is_wrong, lift, lift_all, lift_first, may_be_guard, values_of
from ..trace.plain_arrays import fixed
from ..trace.primitives import BOOL, FLOAT64, elementwise, expand, value_of
from ..trace.symbolic_sizes import is_size
from .function_tables import HOLDS, implements
from .registration import composes, records, unsupported_argument

# Instructions take operands of these classes as they are; lists have to become arrays first.
ALREADY = (TracedArray, np.ndarray, float, int)
USUAL = frozenset((*ALREADY, np.float64))


def _is_number(operand) -> bool:
    return np.ndim(value_of(operand)) == 0


@implements(np.where, complex="complex_functions.where")
def where(condition, x=None, y=None, /):
    if x is None and y is None:
        return np.nonzero(condition)
    value = np.where(
        *[part._value if type(part) is TracedArray else values_of(part) for part in (condition, x, y)]
    )
    usual = USUAL.issuperset((type(condition), type(x), type(y)))
    if usual and getattr(value_of(condition), "dtype", None) is BOOL:
        return elementwise("where", condition, x, y, value=value)
    trace = find_trace(condition, x, y)
    if find_trace(condition) is None and np.asarray(condition).dtype.kind not in "biufc":
        condition = np.asarray(condition).astype(bool)  # None, text and objects have truth values, too
    parts = (condition, x, y)
    condition, x, y = (
        part if type(part) in ALREADY or _is_number(part) else lift(trace, part) for part in parts
    )
    if getattr(value_of(condition), "dtype", None) != np.bool_:
        condition = np.not_equal(condition, 0)
    return elementwise("where", condition, x, y, value=value)


@composes(np.clip, complex=HOLDS)
def clip(a, a_min=np._NoValue, a_max=np._NoValue, out=None, *, min=np._NoValue, max=np._NoValue, where=True,
         dtype=None, casting="same_kind", order="K", subok=True, **options):  # fmt: skip
    if options:
        raise unsupported_argument(np.clip, next(iter(options)))
    if where is not True:
        raise unsupported_argument(
            np.clip, "where", "it leaves other entries undefined: use np.where(mask, ..., ...)"
        )
    low = a_min if min is np._NoValue else min
    high = a_max if max is np._NoValue else max
    result = lift_first(a, low, high)
    if dtype is not None:
        result, low, high = (
            x if x is None or x is np._NoValue else np.astype(lift(result._trace, x), as_dtype(dtype))
            for x in (result, low, high)
        )
    if low is not None and low is not np._NoValue:
        result = np.maximum(result, low)
    if high is not None and high is not np._NoValue:
        result = np.minimum(result, high)
    return result[...] if result is a else result


@composes(np.select, complex="complex_functions.select")
def select(condlist, choicelist, default=0):
    result = default
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        result = np.where(condition, choice, result)
    return result


@records(np.nan_to_num, complex="by_parts")
def nan_to_num(value, x, nan=0.0, posinf=None, neginf=None):
    x = lift_first(x, nan, posinf, neginf)
    limits = np.finfo(value.dtype if value.dtype.kind == "f" else float)
    result = np.where(np.isnan(x), nan, x)
    result = np.where(np.equal(x, np.inf), limits.max if posinf is None else posinf, result)
    result = np.where(np.equal(x, -np.inf), limits.min if neginf is None else neginf, result)
    return adopt(result, value)


# ---- by position


def wrapped(indices, n: int, mode: str):
    """Return positions for "clip" and "wrap", which never fail."""
    if mode == "raise":
        return indices
    return np.minimum(np.maximum(indices, 0), n - 1) if mode == "clip" else np.remainder(indices, n)


@composes(np.ravel_multi_index)
def ravel_multi_index(multi_index, dims, mode="raise", order="C"):
    modes = (mode,) * len(dims) if isinstance(mode, str) else mode
    parts = [(wrapped(index, n, each), n) for index, n, each in zip(multi_index, dims, modes, strict=True)]
    total, stride = 0, 1
    for place, n in reversed(parts) if order in "Cc" else parts:
        total, stride = total + place * stride, stride * n
    return total


@composes(np.unravel_index)
def unravel_index(indices, shape, order="C"):
    sizes = tuple(np.atleast_1d(shape))
    rest, places = lift_first(indices), []
    inner = sizes[:0:-1] if order in "Cc" else sizes[:-1]
    for n in inner:
        rest, place = np.divmod(rest, n)
        places.append(place)
    # The outermost place is what is left: one beyond its size is out of bounds where it is used.
    places.append(rest)
    return tuple(reversed(places) if order in "Cc" else places)


def _usual_take(a, indices, axis=None, *options, **named):
    """Serve entries of vectors, and rows, at plain positions; see `composes`."""
    usual = not options and not named and type(a) is TracedArray and type(indices) is np.ndarray
    if (
        not usual
        or indices.ndim != 1
        or indices.dtype.kind not in "iu"
        or a._value.__class__ is not np.ndarray
    ):
        return None
    rows = (axis is None and a._value.ndim == 1) or (type(axis) is int and axis == 0 < a._value.ndim)
    return a[indices] if rows and a._value.dtype is FLOAT64 else None


@composes(np.take, complex="by_parts", usual=_usual_take)
def take(a, indices, axis=None, out=None, mode="raise"):
    x = lift_first(a, indices)
    if axis is None or not x.ndim:
        x, axis = merge(x, [x.ndim]), 0
    axis = one_axis(x, axis)
    if not isinstance(indices, TracedArray):
        indices = np.asarray(indices) if find_trace(indices) is None else lift_first(indices)
    if indices.dtype.kind not in "iu" and not is_size(indices):
        indices = np.astype(indices, int)  # True is entry 1 here: no mask
    indices = wrapped(indices, length(x, axis), mode) if mode != "raise" else indices
    return x[(*(slice(None),) * axis, indices)]


@composes(np.take_along_axis, complex="by_parts")
def take_along_axis(arr, indices, axis=-1):
    x, positions = lift_first(arr, indices), indices
    if axis is None:
        return merge(x, [x.ndim])[positions]
    sized = imported(".sized", __package__)  # imported late, because a first gradient does without it

    axis = one_axis(x, axis)
    key = [np.expand_dims(sized.positions(x, k), [j for j in range(x.ndim) if j != k]) for k in range(x.ndim)]
    key[axis] = positions
    return x[tuple(key)]


@composes(np.choose, complex=HOLDS)
def choose(a, choices, out=None, mode="raise"):
    trace = find_trace(a, choices)
    a = lift(trace, a)
    entries = np.broadcast_arrays(np.astype(a, int) if a.dtype.kind == "b" else a, *choices)
    stacked = np.stack([lift(trace, part) for part in entries[1:]])
    positions = wrapped(entries[0], len(choices), mode)
    if mode == "raise":  # NumPy does not count from the end here
        if is_wrong(np.any(positions < 0)):
            raise ValueError("invalid entry in choice array")
        if not may_be_guard(positions):  # nor do later steps: such a position is out of bounds
            positions = np.where(positions < 0, len(choices), positions)
    shape = stacked.shape[1:]
    return stacked[(positions, *np.ix_(*map(np.arange, shape)))]


def _positions(condition):
    """Return the positions at which a vector of conditions holds."""
    if isinstance(condition, TracedArray):
        condition = np.ravel(condition)
        condition = condition if condition.dtype.kind == "b" else np.not_equal(condition, 0)
        return mask_positions(condition)[0]
    return np.flatnonzero(condition)


@composes(np.compress, complex="by_condition")
def compress(condition, a, axis=None, out=None):
    x = lift_first(a, condition)
    return np.take(x if axis is not None else merge(x, [x.ndim]), _positions(condition), axis or 0)


@composes(np.extract, complex="by_condition")
def extract(condition, arr):
    x = lift_first(arr, condition)
    return np.take(merge(x, [x.ndim]), _positions(condition))


@composes(np.delete, complex="by_parts")
def delete(arr, obj, axis=None):
    """Take the entries that stay; positions that are traced are data, and their number is counted."""
    x = lift_first(arr)
    if axis is None:
        x, axis = merge(x, [x.ndim]), 0
    axis = one_axis(x, axis)
    if type(obj) is int or is_size(obj):
        lead = (slice(None),) * axis
        place = obj + length(x, axis) if obj < 0 else obj
        return np.concatenate([x[(*lead, slice(None, place))], x[(*lead, slice(place + 1, None))]], axis)
    n = length(x, axis)
    sized = imported(".sized", __package__)  # imported late, because a first gradient does without it
    if isinstance(obj, slice) and is_size(n):
        obj = sized.counted(n)[obj]
    elif is_size(n) and find_trace(obj) is None and np.asarray(obj).dtype.kind != "b":
        obj = lift(x._trace, np.asarray(obj, int))
    if type(obj) is TracedArray and obj.dtype.kind == "b":
        return np.compress(np.logical_not(obj), x, axis)
    if type(obj) is TracedArray:  # traced positions are data
        if is_wrong(np.logical_not(np.all(np.logical_and(obj + n >= 0, obj - n < 0)))):
            raise IndexError(f"index {obj._value} is out of bounds for axis {axis} with size {n}")
        obj = np.where(obj < 0, obj + n, obj)
        if obj.ndim == 0:
            places = sized.counted(n - 1)
            return np.take(x, places + (places >= obj).astype(int), axis)
        gone = np.any(np.equal(np.expand_dims(np.ravel(obj), -1), sized.counted(n)), 0)
        return np.compress(np.logical_not(gone), x, axis)  # np.compress counts how many entries are left
    return np.take(x, np.delete(np.arange(int(n)), obj), axis)


@records(np.insert, complex="complex_functions.insert")
def insert(value, arr, obj, values, axis=None):
    """Take the entries of both arrays, one behind the other, in the order that NumPy gives positions."""
    x, values = lift_all(arr, values)
    if axis is None:
        x, axis = merge(x, [x.ndim]), 0
    axis = one_axis(x, axis)
    trace = find_trace(obj)
    if values.ndim < x.ndim:
        values = expand(values, tuple(range(x.ndim - values.ndim)))
    if type(obj) is int or is_size(obj):
        place, lead = obj + length(x, axis) if obj < 0 else obj, (slice(None),) * axis
        block, shape = np.astype(np.moveaxis(values, 0, axis), x.dtype), list(x._sizes())
        shape[axis] = block._sizes()[axis]
        parts = x[(*lead, slice(None, place))], np.broadcast_to(block, tuple(shape))
        return adopt(np.concatenate([*parts, x[(*lead, slice(place, None))]], axis), value)
    n = pinned(x, axis)
    # The positions decide on slices, so they are guarded.
    obj = obj if trace is None else fixed(lift(trace, obj))
    count = np.shape(value)[axis] - n
    if np.ndim(obj) == 0 and not isinstance(obj, slice):
        values = np.moveaxis(values, 0, axis)
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    both = np.concatenate([x, np.broadcast_to(np.astype(values, x.dtype), shape)], axis)
    return adopt(np.take(both, np.insert(np.arange(n), obj, n + np.arange(count)), axis), value)
