"""Reading entries: basic indices are views, index arrays and masks are gathers."""

from __future__ import annotations

import numpy as np

from . import boxes, integers
from .array import TracedArray, new_traced, revalue
from .plain_arrays import is_plain
from .primitives import (
    array_instruction,
    broadcast_to,
    contiguous,
    elementwise,
    layout_of,
    reshape,
    transpose,
    value_of,
    view,
)

MOST_ENTRIES = 1_000


def item(x: TracedArray, k: int) -> TracedArray:
    """Return ``x[k]`` of a vector: a one-cell view, which the next ``x[k]`` finds in ``trace.entries``."""
    value = x._value[k]  # raises NumPy's IndexError
    trace = x._trace
    if trace.boxes:
        box = boxes.box_of(x)
        if box is not None:
            return boxes.entry(box, x, k)
    builder = trace.tape
    storage, start, layout = builder.values[x._id]
    layout = builder.layouts[layout]
    dim, stride = layout.dims[0], layout.strides[0]
    sizes = builder.sizes
    if k >= 0:
        if dim < 0:
            sizes.guard(dim, ">=", k + 1)
        step = k * stride if stride >= 0 else sizes.mul(k, stride)
    else:
        if dim < 0:
            sizes.guard(dim, ">=", -k)
        step = sizes.mul(sizes.sub(dim, -k), stride)
    offset = start + step if start >= 0 and step >= 0 else sizes.add(start, step)
    values = builder.values
    number = len(values)
    values.append((storage, offset, 0))
    if not trace.boxes:
        if len(trace.entries) >= MOST_ENTRIES:
            trace.entries.clear()
        trace.entries[x._id, k] = number
    return new_traced(trace, value, number, x._level, x._family)


def getitem(x: TracedArray, key) -> TracedArray:
    """Return ``x[key]`` with NumPy's meaning."""
    x._trace.check_open()
    given = key if isinstance(key, tuple) else (key,)
    key = tuple(_key_part(k) for k in given)
    if all(_is_basic(k) for k in key):
        result = basic(x, key)
        if value_of(result).__class__ is np.ndarray and any(map(_is_array, given)):
            return np.copy(result)  # an index without dimensions acts as a number, but selects a copy
        return result
    if any(map(_is_flag, key)):
        return _flagged(x, key)
    return advanced(x, key)


def _is_array(k) -> bool:
    return isinstance(k, np.ndarray)


def _is_flag(k) -> bool:
    return isinstance(k, (bool, np.bool_))


def _flagged(x: TracedArray, key) -> TracedArray:
    """Return ``x[key]`` with True or False among the indices: a new axis with one entry or none."""
    x._value[tuple(map(value_of, key))]  # NumPy's errors
    wider: list = []
    for k in key:
        if k is Ellipsis or _is_flag(k):
            wider.append(None if _is_flag(k) else k)
        elif k is not None:
            wider += [slice(None)] * _axes_of(k)
    places = tuple(np.zeros(int(k), int) if _is_flag(k) else k for k in key)
    return advanced(basic(x, tuple(wider)), places)


def _key_part(k):
    """Turn lists into arrays and index-like objects into int; keep traced integer scalars."""
    if is_plain(k):
        k = k._value
    k = integers.as_index(k)
    if type(k) is TracedArray and k.ndim == 0 and k.dtype.kind == "b":
        return bool(k)  # records a guard: it decides a shape
    if isinstance(k, list):
        return (
            np.stack(k)
            if any(isinstance(i, TracedArray) for i in k)
            else np.asarray(k, int if not k else None)
        )
    if isinstance(k, np.ndarray) and k.ndim == 0 and k.dtype.kind in "iub":
        return k.item()
    if isinstance(k, slice):
        return slice(*(None if part is None else part.__index__() for part in (k.start, k.stop, k.step)))
    if isinstance(k, np.integer):
        return int(k)
    return k


def _is_basic(k) -> bool:
    if k is None or k is Ellipsis or isinstance(k, slice):
        return True
    return isinstance(k, (int, np.integer)) and not isinstance(k, bool)


def _full_key(x: TracedArray, key) -> list:
    """Expand the ellipsis and missing trailing axes."""
    used = sum(_axes_of(k) for k in key if k is not None and k is not Ellipsis)
    missing = x.ndim - used
    if missing < 0:
        x._value[tuple(map(value_of, key))]  # NumPy's own IndexError
    if not any(k is Ellipsis for k in key):
        key = (*key, Ellipsis)
    place = next(n for n, k in enumerate(key) if k is Ellipsis)
    return [*key[:place], *[slice(None)] * missing, *key[place + 1 :]]


def _axes_of(k) -> int:
    value = value_of(k)
    if getattr(value, "dtype", None) == np.bool_ or isinstance(value, bool):
        return np.ndim(value)
    return 1


def basic(x: TracedArray, key) -> TracedArray:
    """Return the view that integers, slices, None and Ellipsis make."""
    box = boxes.box_of(x) if x._trace.boxes else None
    if box is not None:
        return boxes.entry(box, x, key)
    value = x._value[key]
    layout = layout_of(x)
    builder = x._trace.tape
    sizes = builder.sizes
    offset = builder.values[x._id][1]
    dims, strides, axis = [], [], 0
    for k in _full_key(x, key):
        if k is None:
            dims.append(1)
            strides.append(0)
            continue
        dim, stride = layout.dims[axis], layout.strides[axis]
        n = x._value.shape[axis]
        axis += 1
        if isinstance(k, int):
            sizes.guard(dim, ">=", k + 1 if k >= 0 else -k)
            first = k if k >= 0 else sizes.sub(dim, -k)
            offset = sizes.add(offset, sizes.mul(first, stride))
            continue
        first, size, step = _slice_codes(sizes, k, dim, n)
        offset = sizes.add(offset, sizes.mul(first, stride))
        dims.append(size)
        strides.append(stride if step == 1 else sizes.mul(sizes.negative(step), stride))
    return view(x, value, dims, strides, offset)


def _slice_codes(sizes, k: slice, dim: int, n: int):
    """Return (first, size, step) of a slice along an axis, as size codes where they follow it."""
    start, stop, step = k.indices(n)
    if k == slice(None):
        return 0, dim, 1
    plain = k.step in (None, 1) and dim < 0
    # x[i:], x[:-i], x[i:-j]: sizes that follow the axis, while the axis stays long enough.
    if plain and (k.start is None or 0 <= k.start <= n) and (k.stop is None or -n <= k.stop < 0):
        first, cut = k.start or 0, -(k.stop or 0)
        if first + cut <= n:
            sizes.guard(dim, ">=", first + cut)
            return first, sizes.sub(dim, first + cut), 1
    if plain and (k.start is None or k.start >= 0) and k.stop is not None and 0 <= k.stop <= n:
        sizes.guard(dim, ">=", k.stop)  # x[i:j] inside the axis
        return start, max(0, k.stop - start), 1
    if plain and k.stop is None and k.start is not None and -n <= k.start < 0:
        sizes.guard(dim, ">=", -k.start)  # x[-i:]
        return sizes.sub(dim, -k.start), -k.start, 1
    if k == slice(None, None, -1) and n:
        sizes.guard(dim, ">=", 1)
        return sizes.sub(dim, 1), dim, -1
    sizes.pin(dim)
    count = len(range(start, stop, step))
    return (start if count else 0), count, step


# ---- index arrays


def advanced(x: TracedArray, key) -> TracedArray:
    """Return a gather: index arrays, masks, and mixtures with slices."""
    whole = x
    value = x._value[tuple(map(value_of, key))]
    parts: list = []
    for k in _full_key(x, key):
        if getattr(value_of(k), "dtype", None) == np.bool_ or isinstance(value_of(k), bool):
            parts.extend(mask_positions(k))
        else:
            parts.append(k)
    if any(k is None for k in parts):
        kept = tuple(k for k in parts if k is not None)
        return reshape(advanced(x, kept), value.shape)
    # Slices are taken first, as a view; integers and index arrays are left.
    views = tuple(k if isinstance(k, slice) else slice(None) for k in parts)
    if any(k != slice(None) for k in views):
        x = basic(x, views)
    places = [n for n, k in enumerate(parts) if not isinstance(k, slice)]
    indices = [parts[n] for n in places]
    shape = np.broadcast_shapes(*(np.shape(value_of(k)) for k in indices))
    adjacent = places == list(range(places[0], places[-1] + 1))
    gathered = _gather(move_first(x, places), indices, shape)
    if adjacent and places[0] > 0:  # NumPy puts the new dimensions in place of adjacent indices
        lead, count = places[0], len(shape)
        order = [*range(count, count + lead), *range(count), *range(count + lead, gathered.ndim)]
        gathered = transpose(gathered, order)
    revalue(gathered, value)
    boxes.locate(gathered, whole, indices)
    return gathered


def move_first(x: TracedArray, axes) -> TracedArray:
    return transpose(x, [*axes, *(a for a in range(x.ndim) if a not in axes)])


def _gather(x: TracedArray, indices, shape) -> TracedArray:
    """Take from the leading axes of ``x`` at positions given by one index array per axis."""
    count = len(indices)
    sizes = [int(n) for n in x.shape[:count]]
    rest = x.shape[count:]
    if count > 1:
        position = _flat_position(indices, sizes)
        x = reshape(x, (int(np.prod(sizes)), *rest))
    else:
        position = indices[0]
    if isinstance(position, TracedArray):
        position = reshape(contiguous(broadcast_to(position, shape)), (-1,))
    else:
        position = np.ascontiguousarray(np.broadcast_to(position, shape)).reshape(-1)
    taken = take_rows(x, position)
    return reshape(taken, (*shape, *rest))


def _flat_position(indices, sizes):
    """Return positions into the merged axis; each index is wrapped and checked along its own."""
    total = None
    for k, (position, n) in enumerate(zip(indices, sizes, strict=True)):
        if isinstance(position, TracedArray):
            # A gather from 0..n-1 wraps negative positions and checks bounds when the tape runs.
            axis = np.arange(n, dtype=float)
            flat = reshape(contiguous(position), (-1,))
            wrapped = axis[value_of(flat)]
            position = reshape(array_instruction("take1", (axis, flat), wrapped), position._value.shape)
        else:
            position = np.where(np.asarray(position) < 0, np.asarray(position) + n, position).astype(float)
        stride = float(np.prod(sizes[k + 1 :]))
        part = position * stride
        total = part if total is None else total + part
    return total


def take_rows(x: TracedArray, position) -> TracedArray:
    """Return ``x[position]`` for a vector of positions along axis 0."""
    index = value_of(position)
    index = np.asarray(index).astype(np.intp)
    value = x._value[index]
    if x.ndim == 1:
        return array_instruction("take1", (x, position), value)
    rest = x.shape[1:]
    rows = reshape(x, (x.shape[0], int(np.prod(rest))))
    result = array_instruction("take", (rows, position), value.reshape(len(index), rows._value.shape[1]))
    return reshape(result, (len(index), *rest))


def mask_positions(mask) -> list:
    """Return index arrays of a mask's True entries; a traced mask guards their number only."""
    value = value_of(mask)
    if not np.ndim(value):
        return [np.zeros(int(bool(mask)), int)]  # records a guard for a traced mask
    if not isinstance(mask, TracedArray):
        return list(np.nonzero(value))
    count = int(np.count_nonzero(value))
    trace = mask._trace
    trace.guard(np.count_nonzero(mask), "int", count)
    flat = reshape(mask, (-1,))
    # A stable argsort of "not mask" lists the positions of True first, in order.
    order = np.argsort(elementwise("logical_not", flat), kind="stable")[:count]
    if mask.ndim == 1:
        return [order]
    if count == 0:
        return [order] * mask.ndim
    for dim in layout_of(mask).dims[1:]:
        trace.tape.sizes.pin(dim)
    result: list = []
    rest = order
    for k in range(1, mask.ndim + 1):
        stride = int(np.prod(value.shape[k:]))
        result.append(np.floor_divide(rest, float(stride)) if stride > 1 else rest)
        rest = rest - result[-1] * float(stride)
    for k, axis in enumerate(result):
        revalue(axis, np.nonzero(value)[k])
    return result
