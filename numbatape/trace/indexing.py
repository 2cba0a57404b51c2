"""Reading entries: basic indices are views, index arrays and masks are gathers."""

from __future__ import annotations

import numpy as np

from ..emitter import instructions
from ..emitter.instructions import broadcast_dims
from ..tape.tape import CONSTANT
from . import boxes, integers, operations, position_masks, regions
from . import symbolic_sizes as sizes
from .array import TracedArray, new_traced, revalue
from .axes import merge, unmerge
from .index_parts import SizedStep, axes_of, full_key, is_basic, key_part, marks_of, span_of
from .operands import adopt
from .primitives import (
    array_instruction,
    broadcast_to,
    dims_of,
    elementwise,
    expand,
    layout_of,
    reshape,
    seen,
    transpose,
    value_of,
)

MOST_ENTRIES = 1_000  # entries of vectors that are kept for the next ``x[k]``, which bounds their memory


def item(x: TracedArray, k: int) -> TracedArray:
    """Return ``x[k]`` of a vector: a one-cell view, which the next ``x[k]`` finds in `Reused.entries`."""
    value = x._value[k]  # raises NumPy's IndexError
    trace = x._trace
    if trace.memory.boxes:
        box = boxes.box_of(x)
        if box is not None:
            return boxes.entry(box, x, k)
    if trace.memory.patchworks:
        found = operations.entry_of_patches(x, k)
        if found is not None:
            return found
    if (
        trace.memory.writes
        and x._level == CONSTANT
        and value.dtype.kind in "iub"
        and operations.becomes_plain(x)
    ):
        return value
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
    if trace.memory.overwritten and id(x._value) in trace.memory.overwritten:
        # What reads the copy leaves the array to the next write.
        number = instructions.copied(builder, number, x._level, trace.line())
        return new_traced(trace, value, number, x._level, x._family)
    if not trace.memory.boxes and not trace.arguments.labels:  # a number may be a label of a Series
        if len(trace.reused.entries) >= MOST_ENTRIES:
            trace.reused.entries.clear()
        trace.reused.entries[x._id, k] = number
    return new_traced(trace, value, number, x._level, x._family)


def getitem(x: TracedArray, key) -> TracedArray:
    """Return ``x[key]`` with NumPy's meaning."""
    trace = x._trace
    if trace.closed:
        trace.check_open()
    kind = type(key)
    if kind is list and key and {*map(type, key)} == {int}:
        key, kind = np.array(key), np.ndarray
    if kind is tuple or kind is slice or kind is int:
        found = _known_view(trace, x, key)
        if found is not None:
            return found
    elif kind is np.ndarray and key.ndim == 1 and x._value.__class__ is np.ndarray:
        if key.dtype.kind == "b":
            x._value[key]  # NumPy's error for a mask that is too long or too short
            trace.tape.sizes.same(len(key), dims_of(x)[0])
            key = np.flatnonzero(key)
        if key.dtype.kind in "iu":
            return take_rows(x, key)
    given = key if isinstance(key, tuple) else (key,)
    key = tuple(map(key_part, position_masks.as_positions(x, given)))
    if all(is_basic(k) for k in key):
        result = basic(x, key)
        if value_of(result).__class__ is np.ndarray and any(map(_is_array, given)):
            # An index without dimensions acts as a number, and a mask of positions as a slice: both copy.
            return np.copy(result)
        return result
    if any(map(_is_flag, key)):
        return _flagged(x, key)
    if trace.memory.patchworks and not any(map(_is_array, key)):
        operations.note_positions(x)
    value = x._value[tuple(map(value_of, key))]
    return operations.recurring(advanced, value, (x, *key), {}, lambda: advanced(x, key, value))


def _known_view(trace, x: TracedArray, key) -> TracedArray | None:
    """Return the view that an index of plain ints, slices, None and Ellipsis makes, or None for any other.

    Which entries it consists of, and the guards that this needs, follow from the layout of the array and the
    index alone: they are worked out once for both.
    """
    marks = marks_of(key if type(key) is tuple else (key,))
    if marks is None:
        return None
    if trace.memory.boxes and boxes.box_of(x) is not None:
        return None
    value = x._value[key]
    tape = trace.tape
    storage, start, layout = tape.values[x._id]
    place = basic, layout, marks
    found = tape.rearranged.get(place)
    if found is None:
        found = tape.rearranged[place] = _selection(x, key if type(key) is tuple else (key,))
    shift, layout, spans = found
    offset = start + shift if start >= 0 and shift >= 0 else tape.sizes.add(start, shift)
    result = new_traced(trace, value, tape.seen_as(storage, offset, layout), x._level, x._family)
    if trace.memory.writes and spans is not None and value.__class__ is np.ndarray:
        regions.note(x, value, spans)
    return result


def _is_array(k) -> bool:
    return isinstance(k, np.ndarray) or (type(k) is TracedArray and k.ndim > 0)


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
            wider += [slice(None)] * axes_of(k)
    places = tuple(np.zeros(int(k), int) if _is_flag(k) else k for k in key)
    return advanced(basic(x, tuple(wider)), places)


def basic(x: TracedArray, key) -> TracedArray:
    """Return the view that integers, slices, None and Ellipsis make."""
    box = boxes.box_of(x) if x._trace.memory.boxes else None
    if box is not None:
        return boxes.entry(box, x, integers.settled(key))
    value = x._value[sizes.valued(key)]
    shift, layout, spans = _selection(x, key)
    tape = x._trace.tape
    storage, start, _ = tape.values[x._id]
    result = seen(x, value, tape.seen_as(storage, tape.sizes.add(start, shift), layout))
    if x._trace.memory.writes and spans is not None and value.__class__ is np.ndarray:
        regions.note(x, value, spans)
    return result


def _selection(x: TracedArray, key: tuple) -> tuple[int, int, list | None]:
    """Return what a basic index selects of an array.

    That is how far its first cell is from the array's, the layout, and for each axis of the array the first
    entry, the number of entries and the step, as size codes. These are None where the index makes new axes or
    has a size for a step.
    """
    layout = layout_of(x)
    tape = x._trace.tape
    table = tape.sizes
    shift = 0
    dims, strides, spans = [], [], []
    for k in full_key(x, key):
        if k is None:
            dims.append(1)
            strides.append(0)
            continue
        dim, stride = layout.dims[len(spans)], layout.strides[len(spans)]
        first, size, step = span = span_of(x._trace, k, dim)
        spans.append(span)
        shift = table.add(shift, table.mul(first, stride))
        if type(step) is SizedStep:
            dims.append(size)
            strides.append(table.mul(step.code, stride))
        elif step is not None:
            dims.append(size)
            strides.append(stride if step == 1 else table.mul(table.negative(step), stride))
    number = tape.layout_number(tuple(dims), tuple(strides))
    known = None not in key and not any(type(step) is SizedStep for _, _, step in spans)
    return shift, number, spans if known else None


# ---- index arrays


def advanced(x: TracedArray, key, value=None) -> TracedArray:
    """Return a gather: index arrays, masks, and mixtures with slices; ``value`` is what NumPy selects."""
    whole = x
    if value is None:
        value = x._value[tuple(map(value_of, key))]
    parts: list = []
    table, dims = x._trace.tape.sizes, iter(dims_of(x))
    for k in full_key(x, key):
        if getattr(value_of(k), "dtype", None) == np.bool_ or isinstance(value_of(k), bool):
            for own, dim in zip(_dims(k), dims, strict=False):
                if table.value(own) == table.value(dim):
                    table.same(own, dim)  # NumPy raises if a mask is longer or shorter
                else:  # a mask without entries has no last axis to compare
                    table.pin(own)
                    table.pin(dim)
            parts.extend(mask_positions(k))
        else:
            parts.append(k)
            if k is not None:
                next(dims)
    if any(k is None for k in parts):
        # None in an index is a new axis of one entry.
        x = expand(x, tuple(n for n, k in enumerate(parts) if k is None))
        parts = [slice(None) if k is None else k for k in parts]
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
    count, tape = len(indices), x._trace.tape
    rest = dims_of(x)[count:]
    dims = broadcast_dims(tape, [_dims(position) for position in indices])
    if count > 1:
        position = flat_position(x._trace, indices, dims_of(x)[:count])
        x = merge(x, [count, *[1] * len(rest)])
    else:
        position = indices[0]
    if isinstance(position, TracedArray):
        if np.shape(position._value) != shape:
            position = broadcast_to(position, shape, dims)
        position = merge(position, [len(shape)])
    else:
        position = np.ascontiguousarray(np.broadcast_to(position, shape)).reshape(-1)
    taken = take_rows(x, position)
    return unmerge(taken, (*dims, *rest))


def _dims(position) -> tuple[int, ...]:
    return dims_of(position) if isinstance(position, TracedArray) else np.shape(position)


def flat_position(trace, indices, dims):
    """Return positions into the merged axis; each index is wrapped and checked along its own."""
    total, table = None, trace.tape.sizes
    for k, (position, dim) in enumerate(zip(indices, dims, strict=True)):
        if isinstance(position, TracedArray):
            # A gather from 0..n-1 wraps negative positions and checks bounds when the tape runs.
            # Positions that index several times are looked up once: equal lookups are merged.
            grids = trace.constants.grids
            axis = operations.arange(trace, dim) if dim < 0 else grids.setdefault((dim,), np.arange(dim))
            flat = merge(position, [position.ndim])
            wrapped = np.asarray(value_of(axis), float)[value_of(flat)]
            position = unmerge(array_instruction("take1", (axis, flat), wrapped), dims_of(position))
        else:
            position = np.asarray(position)
            low, high = (int(f(position, initial=0)) for f in (np.min, np.max))
            n = table.pin(dim) if low < 0 else table.value(dim)
            table.guard(dim, ">=", high + 1 if position.size else 0)
            position = np.where(position < 0, position + n, position).astype(float)
        stride = table.product(dims[k + 1 :])
        part = position
        if stride != 1:
            part = position * (float(stride) if stride >= 0 else sizes.number_of(trace, stride))
        total = part if total is None else total + part
    return total


def take_rows(x: TracedArray, position) -> TracedArray:
    """Return ``x[position]`` for a vector of positions along axis 0."""
    index = value_of(position)
    index = np.asarray(index).astype(np.intp)
    value = x._value[index]
    if x.ndim == 1:
        return array_instruction("take1", (x, position), value)
    rest = dims_of(x)[1:]
    rows = merge(x, [1, x.ndim - 1])
    result = array_instruction("take", (rows, position), value.reshape(len(index), rows._value.shape[1]))
    result = unmerge(result, (dims_of(result)[0], *rest))
    if not value.flags.c_contiguous:  # as rows may lie that have several axes
        return adopt(result, value)
    return result


def mask_positions(mask) -> list:
    """Return index arrays of a mask's True entries, whose number is a size where data decide it."""
    value = value_of(mask)
    if not np.ndim(value):
        return [np.zeros(int(bool(mask)), int)]  # records a guard for a traced mask
    if not isinstance(mask, TracedArray):
        return list(np.nonzero(value))
    trace = mask._trace
    if mask._level == CONSTANT and trace.integers.origins is not None:
        known = position_masks.selected_positions(mask)
        if known is not None:
            return known
    count = operations.counted(np.count_nonzero(mask))
    flat = reshape(mask, (-1,))
    # A stable argsort of "not mask" lists the positions of True first, in order.
    order = np.argsort(elementwise("logical_not", flat), kind="stable")[:count]
    if mask.ndim == 1:
        return [order]
    if count == 0:
        return [order] * mask.ndim
    result: list = []
    rest = order
    for k in range(1, mask.ndim + 1):
        stride = sizes.seen(trace, trace.tape.sizes.product(layout_of(mask).dims[k:]))
        result.append(rest // stride if stride > 1 else rest)
        rest = rest - result[-1] * stride
    for k, axis in enumerate(result):
        revalue(axis, np.nonzero(value)[k])
    return result
