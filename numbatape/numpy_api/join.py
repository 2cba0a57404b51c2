"""Arrays put together from others: one storage, filled piece by piece."""

from __future__ import annotations

import numpy as np

from ..trace import operations
from ..trace.array import TracedArray
from ..trace.axes import length, merge, one_axis, pinned, unmerge
from ..trace.integers import settled
from ..trace.operands import find_trace, lift, lift_first, values_of
from ..trace.plain_arrays import fixed
from ..trace.primitives import assemble, broadcast_to, expand, layout_of
from ..trace.symbolic_sizes import code_of, has_size, is_size
from .function_tables import implements
from .registration import composes, records


def join(arrays, axis: int, value) -> TracedArray:
    """Return traced arrays one after another along an axis, as the new array ``value``."""
    trace = find_trace(arrays)
    sizes = trace.tape.sizes
    layouts = [layout_of(x).dims for x in arrays]
    dims = list(layouts[0])
    for other in layouts[1:]:
        for k, dim in enumerate(other):
            if k != axis:
                dims[k] = sizes.same(dims[k], dim)
    pieces, place = [], 0
    for x, own in zip(arrays, layouts, strict=True):
        key = [slice(None)] * len(own)
        key[axis] = (place, own[axis])
        pieces.append((key, x))
        place = sizes.add(place, own[axis])
    dims[axis] = place
    return assemble(trace, value.shape, value.dtype, pieces, dims, value)


@records(np.concatenate, *([np.concat] if hasattr(np, "concat") else []), complex="by_parts")
def concatenate(value, arrays, /, axis=0, out=None, *, dtype=None, casting="same_kind"):
    trace = find_trace(arrays)
    arrays = [lift(trace, x) for x in arrays]
    if axis is None:
        arrays, axis = [merge(x, [x.ndim]) for x in arrays], 0
    return join(arrays, one_axis(arrays[0], axis), value)


@records(np.stack, complex="by_parts")
def stack(value, arrays, axis=0, out=None, *, dtype=None, casting="same_kind"):
    trace = find_trace(*arrays)
    axis = axis + value.ndim if axis < 0 else axis
    return join([expand(lift(trace, x), (axis,)) for x in arrays], axis, value)


def _stacker(function, shaped, axis_of):
    def stack(value, tup, *, dtype=None, casting="same_kind"):
        trace = find_trace(*tup)
        arrays = [shaped(lift(trace, x)) for x in tup]
        return join(arrays, axis_of(arrays), value)

    records(function, complex="by_parts")(stack)


def _column(x):
    return x if x.ndim > 1 else expand(np.atleast_1d(x), (1,))


_stacker(np.vstack, np.atleast_2d, lambda arrays: 0)
_stacker(np.hstack, np.atleast_1d, lambda arrays: 0 if arrays[0].ndim == 1 else 1)
_stacker(np.dstack, np.atleast_3d, lambda arrays: 2)


@implements(np.column_stack, complex="by_parts")
def column_stack(tup):
    return np.concatenate([_column(lift_first(x, *tup)) for x in tup], 1)


@composes(np.append, complex="by_parts_of_two")
def append(arr, values, axis=None):
    arr, values = lift_first(arr, values), lift_first(values, arr)
    return np.concatenate([arr, values], axis)


@composes(np.block, complex="by_parts")
def block(arrays):
    depth, ndim = _depth(arrays), np.ndim(np.block(values_of(arrays)))
    trace = find_trace(arrays)

    def build(part, level):
        if isinstance(part, list):
            return np.concatenate([build(one, level + 1) for one in part], level - depth)
        part = lift(trace, part)
        return expand(part, tuple(range(ndim - part.ndim))) if part.ndim < ndim else part

    return build(arrays, 0)


def _depth(arrays) -> int:
    return 1 + _depth(arrays[0]) if isinstance(arrays, list) else 0


# ---- repetitions


@composes(np.tile, complex="by_parts")
def tile(A, reps):
    reps = tuple(reps) if isinstance(reps, (tuple, list)) or np.ndim(reps) else (reps,)
    x = lift_first(A)
    ndim = max(x.ndim, len(reps))
    reps = (1,) * (ndim - len(reps)) + tuple(code_of(x._trace, n) for n in reps)
    x = expand(x, tuple(range(ndim - x.ndim))) if x.ndim < ndim else x
    return _repeat_blocks(expand(x, tuple(range(0, 2 * ndim, 2))), reps, first=True)


def _repeat_blocks(x, reps, first: bool):
    """Broadcast the axes of size one beside each axis to ``reps`` and merge the pairs."""
    dims = list(layout_of(x).dims)
    for k, n in enumerate(reps):
        dims[2 * k + (not first)] = n
    sizes = x._trace.tape.sizes
    seen = broadcast_to(x, tuple(sizes.value(d) for d in dims), dims)
    return merge(seen, [2] * len(reps))


@composes(np.repeat, complex="by_parts")
def repeat(a, repeats, axis=None):
    x = lift_first(a, repeats)
    if axis is None:
        x, axis = merge(x, [x.ndim]), 0
    axis = one_axis(x, axis)
    if is_size(repeats):
        reps = [1] * x.ndim
        reps[axis] = code_of(x._trace, repeats)
        return _repeat_blocks(expand(x, tuple(range(1, 2 * x.ndim, 2))), reps, first=False)
    trace = find_trace(repeats)
    # Counts decide a shape, so that traced ones record guards.
    counts = np.asarray(repeats if trace is None else fixed(lift(trace, repeats)))
    if counts.size == 1:
        reps = [1] * x.ndim
        reps[axis] = int(counts.reshape(()))
        return _repeat_blocks(expand(x, tuple(range(1, 2 * x.ndim, 2))), reps, first=False)
    positions = np.repeat(np.arange(pinned(x, axis)), counts)
    return np.take(x, positions, axis)


@composes(np.roll, complex="by_parts")
def roll(a, shift, axis=None):
    if axis is None:
        flat = merge(a, [a.ndim])
        shift = shift if is_size(shift) else int(np.sum(shift))
        return unmerge(_rolled(flat, shift, 0), layout_of(a).dims)
    if is_size(shift) and np.ndim(axis) == 0:
        return _rolled(a, shift, one_axis(a, axis))
    shift, axis = np.broadcast_arrays(settled(shift), axis)
    for places, k in zip(shift.reshape(-1), axis.reshape(-1), strict=True):
        a = _rolled(a, int(places), one_axis(a, int(k)))
    return a


def _rolled(x, shift, axis: int):
    if is_size(shift) and not (0 < shift < length(x, axis)):
        shift = int(shift)
    n = np.shape(x._value)[axis]
    if n == 0 or shift == 0:
        pinned(x, axis)
        return x[...]
    if type(shift) is int and abs(shift) >= n:
        pinned(x, axis)
        shift %= n
        if shift == 0:
            return x[...]
    lead = (slice(None),) * axis
    return np.concatenate([x[(*lead, slice(-shift, None))], x[(*lead, slice(None, -shift))]], axis)


@composes(np.resize, complex="by_parts")
def resize(a, new_shape):
    x = lift_first(a)
    shape = (new_shape,) if np.ndim(new_shape) == 0 else tuple(new_shape)
    flat = merge(x, [x.ndim])
    count = int(np.prod(shape))
    n = pinned(flat, 0)
    if n == 0:
        return np.zeros(shape, x.dtype)
    return np.reshape(np.take(flat, np.arange(count) % n), shape)


# ---- borders

COPYING = ("edge", "reflect", "symmetric", "wrap")


@composes(np.pad, complex="complex_functions.pad")
def pad(array, pad_width, mode="constant", **options):
    fills = options.get("constant_values", 0)
    x = lift_first(array, fills)
    if mode == "empty":  # NumPy leaves these entries undefined
        mode = "constant"
    copies = mode in COPYING and options.get("reflect_type", "even") == "even"
    if mode != "constant" and not copies:  # means, extremes, ramps, reflections at a point, functions
        return operations.library_copy(np.pad._implementation)(array, pad_width, mode, **options)
    if has_size(pad_width) and mode == "constant":
        widths = _widths_of_sizes(x, pad_width)
    elif isinstance(pad_width, dict):
        widths = [(0, 0)] * x.ndim
        for axis, width in pad_width.items():
            widths[one_axis(x, axis)] = (width, width) if np.ndim(width) == 0 else tuple(width)
    else:
        widths = np.broadcast_to(np.asarray(settled(pad_width)), (x.ndim, 2)).tolist()
    if mode != "constant":
        for axis, width in enumerate(widths):
            x = _continued(x, axis, width, mode, options) if any(width) else x
        return x
    trace = find_trace(fills)
    fills = np.broadcast_to(np.asarray(fills) if trace is None else lift(trace, fills), (x.ndim, 2))
    for axis, (width, fill) in enumerate(zip(widths, fills, strict=True)):
        x = _bordered(x, axis, width, fill)
    return x


def _widths_of_sizes(x, pad_width) -> list:
    """Return the widths before and behind each axis, where some are sizes."""
    rows = pad_width if isinstance(pad_width, (list, tuple)) else (pad_width,)
    if not isinstance(rows[0], (list, tuple)):
        rows = (rows,)
    pairs = [tuple(row) * (3 - len(row)) for row in rows]
    table = x._trace.tape.sizes
    for n in (n for pair in pairs for n in pair if is_size(n)):
        table.guard(code_of(x._trace, n), ">=", 0, x._trace.line())
    return pairs * x.ndim if len(pairs) == 1 else pairs


def _continued(x, axis: int, width, mode: str, options):
    """Return ``x`` between entries of its own, as slices: so its size may be any."""
    n, lead = length(x, axis), (slice(None),) * axis
    before, behind = width
    # How far the entries next to the border are from it, and how many there are at least for one reflection.
    least = {"edge": 1, "reflect": max(width) + 1, "symmetric": max(width), "wrap": max(width)}[mode]
    if not n >= least:
        return np.take(x, np.pad(np.arange(pinned(x, axis)), width, mode, **options), axis)

    def part(first, last, step=1):
        """Return entries in this order, or the other one where the step is negative."""
        entries = x[(*lead, slice(first, last))]
        return entries if step > 0 else np.flip(entries, axis)

    if mode == "edge":
        ends = [np.repeat(part(0, 1), before, axis), np.repeat(part(n - 1, n), behind, axis)]
    elif mode == "wrap":
        ends = [part(n - before, n), part(0, behind)]
    else:
        skip = int(mode == "reflect")
        ends = [part(skip, skip + before, -1), part(n - skip - behind, n - skip, -1)]
    blocks = [ends[0], x, ends[1]]
    return np.concatenate(
        [block for block, some in zip(blocks, (before, 1, behind), strict=True) if some], axis
    )


def _bordered(x, axis, width, fill):
    """Return ``x`` between constant blocks: views of one cell."""
    sizes = x._trace.tape.sizes
    dtype = np.asarray(x._value).dtype
    blocks = [x]
    for side, (n, number) in enumerate(zip(width, fill, strict=True)):
        if n:
            cell = lift(
                x._trace,
                np.astype(number, dtype) if type(number) is TracedArray else np.asarray(number, dtype),
            )
            dims = list(layout_of(x).dims)
            dims[axis] = code_of(x._trace, n)
            border = broadcast_to(cell, tuple(sizes.value(d) for d in dims), dims)
            blocks.insert(0 if side == 0 else len(blocks), border)
    return np.concatenate(blocks, axis) if len(blocks) > 1 else x
