"""Axes of traced arrays: resolving, moving, merging, dropping; ops along axes. Sizes stay symbolic."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from ..emitter import addresses
from ..emitter.instructions import array_op_of_level, row
from ..errors import UnsupportedOperationError
from ..tape.tape import F32, F64
from . import symbolic_sizes as sizes
from .array import TracedArray, new_traced
from .primitives import NO_DIMS, array_instruction, contiguous, expand, layout_of, seen, transpose

MOST_PLACES = 2**24  # float32 does not hold all whole numbers beyond this


def axes_of(x, axis) -> tuple[int, ...]:
    """Return ``axis`` as a tuple of non-negative axes; None means all. Numbers have the axes 0 and -1."""
    if axis is None or (x.ndim == 0 and axis in (0, -1)):
        return tuple(range(x.ndim))
    return normalize_axis_tuple(axis, x.ndim)


def one_axis(x, axis) -> int:
    return normalize_axis_tuple(axis, x.ndim)[0]


def pinned(x: TracedArray, axis: int) -> int:
    """Return the size of one axis; the tape then holds for this size only."""
    if type(x) is not TracedArray:  # a complex array, whose parts record the guard
        return x.shape[axis]
    return x._trace.tape.sizes.pin(layout_of(x).dims[axis])


def count_of(x: TracedArray, axes) -> int:
    result = 1
    for axis in axes:
        result *= pinned(x, axis)
    return result


def _any_part(x):
    """Return a part of a complex array; both have its sizes."""
    return x._im if x._re is None else x._re


def length(x: TracedArray, axis: int):
    """Return the size of one axis as an int, traced if it depends on the arguments: it needs no guard."""
    if type(x) is not TracedArray:
        if isinstance(x, np.ndarray):
            return x.shape[axis]
        x = _any_part(x)
    return sizes.seen(x._trace, layout_of(x).dims[axis])


def lengths(x) -> tuple:
    """Return the sizes of all axes as ints, traced if they depend on the arguments."""
    return tuple([length(x, axis) for axis in range(x.ndim)])


def is_empty(x) -> bool:
    """Whether an array has no entries, which is a guard on its sizes."""
    return any([n < 1 for n in lengths(x)])


def is_square(x) -> bool:
    """Whether an array is one square matrix, which is a guard on its sizes."""
    return x.ndim == 2 and bool(length(x, 0) == length(x, 1))


def entries(x: TracedArray, axes, less: int = 0):
    """Return how many entries some axes have together, minus a number.

    The result is an int, or a traced number. A negative number is added: as a code it would name a size.
    """
    x = x if type(x) is TracedArray else _any_part(x)
    table = x._trace.tape.sizes
    count = table.product(layout_of(x).dims[k] for k in axes)
    code = table.sub(count, less) if less >= 0 else table.add(count, -less)
    number = table.settled(code)
    return number if number >= 0 else sizes.number_of(x._trace, code)


# ---- views that keep sizes symbolic


def merge(x: TracedArray, counts: Sequence[int]) -> TracedArray:
    """Return ``x`` with neighbouring axes merged: ``counts[k]`` of them become axis k.

    The result is a view where the strides allow it, else a copy. A count of zero makes an axis of size one.
    """
    tape = x._trace.tape
    number = addresses.merged(tape, x._id, counts)
    if number == x._id:
        return x
    if number is None:
        x = contiguous(x)
        number = addresses.merged(tape, x._id, counts)
        assert number is not None
    shape = [tape.sizes.value(d) for d in tape.layout_of(number).dims]
    return seen(x, np.reshape(x._value, shape), number)


def unmerge(x: TracedArray, dims) -> TracedArray:
    """Return ``x`` with the given size codes as its shape; their product is its size."""
    x = contiguous(x)
    tape = x._trace.tape
    value = np.reshape(x._value, [tape.sizes.value(d) for d in dims])
    return seen(x, value, addresses.reshaped(tape, x._id, dims))


def drop_axes(x: TracedArray, axes) -> TracedArray:
    """Return ``x`` without the given axes, whose size is one."""
    value = np.asarray(x._value).squeeze(tuple(axes))
    return seen(x, value[()], addresses.dropped(x._trace.tape, x._id, axes))


def axis_to_end(x: TracedArray, axis: int) -> TracedArray:
    if axis == x.ndim - 1:
        return x
    return transpose(x, [*(k for k in range(x.ndim) if k != axis), axis])


def axis_from_end(x: TracedArray, axis: int) -> TracedArray:
    """Undo `axis_to_end`."""
    if axis == x.ndim - 1:
        return x
    order = list(range(x.ndim - 1))
    order.insert(axis, x.ndim - 1)
    return transpose(x, order)


# ---- array ops over axes


def over_axes(
    op: str, x: TracedArray, axes, function, keepdims=False, ordered=False, value=None
) -> TracedArray:
    """Record a reduction ``(n)->()`` over several axes as one instruction.

    Parameters
    ----------
    function
        NumPy's reduction, for the value.
    ordered
        Whether the order of the entries matters (positions); otherwise it is that of memory.
    value
        The value, if NumPy's function has been called already.
    """
    merged = _axes_last(x, axes, row(op).nonempty, ordered)
    if ordered:
        _require_exact_places(merged)
    result = array_instruction(op, (merged,), function(merged._value, axis=-1) if value is None else value)
    return expand(result, tuple(axes)) if keepdims and axes else result


def _axes_last(x: TracedArray, axes, nonempty: bool, ordered: bool) -> TracedArray:
    """Return ``x`` with some of its axes merged into one, the last."""
    ndim = x.ndim
    kept = [k for k in range(ndim) if k not in axes]
    layout, table = layout_of(x), x._trace.tape.sizes
    if nonempty:  # NumPy raises if there are no entries
        for k in axes:
            table.guard(layout.dims[k], ">=", 1)
    if ordered or len(axes) == 1:
        order = sorted(axes)
    else:
        order = sorted(axes, key=lambda k: -abs(table.value(layout.strides[k])))
    moved = x if [*kept, *order] == list(range(ndim)) else transpose(x, [*kept, *order])
    return moved if len(order) == 1 else merge(moved, [1] * len(kept) + [len(order)])


def reduced(op, x: TracedArray, axes: tuple[int, ...], value) -> TracedArray:
    """Record a reduction of cells of float64 over several axes, whose value NumPy's function has returned.

    Parameters
    ----------
    op
        The row of the op table.
    """
    trace = x._trace
    tape = trace.tape
    number = x._id
    storage, offset, layout = tape.values[number]
    place = reduced, layout, (axes, op.nonempty)
    seen_as = tape.rearranged.get(place)
    if seen_as is None:
        merged = tape.values[_axes_last(x, axes, op.nonempty, False)._id]
        # It is -1 where the axes can only be merged in a copy.
        seen_as = merged[2] if merged[:2] == (storage, offset) else -1
        tape.rearranged[place] = seen_as
    if seen_as < 0:
        number = _axes_last(x, axes, op.nonempty, False)._id
    elif seen_as != layout:
        number = tape.seen_as(storage, offset, seen_as)
    out, level = array_op_of_level(tape, op, F64, (number,), trace.line(), NO_DIMS, True)
    return new_traced(trace, value, out, level, F64)


def _require_exact_places(x: TracedArray) -> None:
    """Refuse more entries along the last axis than there are positions in cells of float32."""
    if x._family == F32 and x.ndim:
        table, count = x._trace.tape.sizes, layout_of(x).dims[-1]
        if table.value(count) > MOST_PLACES:
            raise UnsupportedOperationError(
                f"positions among {table.value(count)} entries of {x.dtype}: their cells are float32, which "
                f"hold positions below {MOST_PLACES} only; write x.astype(np.float64)"
            )
        table.guard(MOST_PLACES, ">=", count)


def along_axis(op: str, x: TracedArray, axis, function, places: bool = False) -> TracedArray:
    """Record an op ``(n)->(n)`` along one axis; None means the flattened array.

    Parameters
    ----------
    places
        Whether the op keeps positions of entries.
    """
    if axis is None:
        x, axis = merge(x, [x.ndim]), 0
    if x.ndim == 0:  # NumPy treats a number as a vector of one entry
        return along_axis(op, expand(x, (0,)), axis, function, places)
    axis = one_axis(x, axis)
    moved = axis_to_end(x, axis)
    if places:
        _require_exact_places(moved)
    result = array_instruction(op, (moved,), function(moved._value, axis=-1))
    return axis_from_end(result, axis)
