"""Arrays put together from others: one storage, filled piece by piece."""

from __future__ import annotations

import numpy as np

from ..emitter import addresses, instructions
from ..tape.tape import family_of_dtype
from ..trace import extents, operations
from ..trace.array import TracedArray, new_traced
from ..trace.axes import length, merge, one_axis, pinned, unmerge
from ..trace.integers import settled
from ..trace.operands import find_trace, is_wrong, lift, lift_first, values_of
from ..trace.plain_arrays import fixed
from ..trace.primitives import FLOAT64, broadcast_to, dims_of, expand, layout_of, operand
from ..trace.symbolic_sizes import code_of, has_size, is_size, may_count
from ..trace.trace import failing
from .registration import composes, records

SEQUENCES = frozenset((list, tuple))
# Classes of operands of the instructions that join arrays; others become traced arrays first.
OPERANDS = (TracedArray, np.ndarray, np.float64, float, int)


def _numbers(trace, parts, family: int) -> list[int]:
    """Return the value numbers of parts, which may be plain, in a family's cells."""
    return [operand(trace, x if type(x) in OPERANDS else lift(trace, x), family) for x in parts]


def _cast(trace, arrays, dtype):
    """Return arrays in the dtype that the caller asks for, which may cut off or round what they hold."""
    return arrays if dtype is None else [np.astype(lift(trace, x), dtype) for x in arrays]


def join(trace, arrays, axis: int, value) -> TracedArray:
    """Return arrays one after another along an axis, as the new array ``value``."""
    family = family_of_dtype(value.dtype)
    numbers = _numbers(trace, arrays, family)
    out, level = instructions.joined(trace.tape, numbers, axis, family, trace.line())
    return new_traced(trace, value, out, level, family)


def join_stacked(trace, arrays, axis: int, value) -> TracedArray:
    """Return arrays one after another along a new axis, as the new array ``value``."""
    family, tape = family_of_dtype(value.dtype), trace.tape
    numbers = [addresses.expanded(tape, number, (axis,)) for number in _numbers(trace, arrays, family)]
    out, level = instructions.joined(tape, numbers, axis, family, trace.line())
    return new_traced(trace, value, out, level, family)


@records(np.concatenate, complex="by_parts")
def concatenate(value, arrays, /, axis=0, out=None, *, dtype=None, casting="same_kind"):
    trace = find_trace(arrays)
    arrays = _cast(trace, arrays, dtype)
    if axis is None:
        arrays = [lift(trace, x) for x in arrays]
        return join(trace, [merge(x, [x.ndim]) for x in arrays], 0, value)
    return join(trace, arrays, axis % value.ndim, value)


@records(np.stack, complex="by_parts")
def stack(value, arrays, axis=0, out=None, *, dtype=None, casting="same_kind"):
    trace = find_trace(*arrays)
    return join_stacked(trace, _cast(trace, arrays, dtype), axis % value.ndim, value)


# Which axes NumPy's functions give arrays of fewer dimensions, by their number.
ROWS, VECTORS, LAYERS = {0: (0, 1), 1: (0,)}, {0: (0,)}, {0: (0, 1, 2), 1: (0, 2), 2: (2,)}
COLUMNS = {0: (0, 1), 1: (1,)}


def _stacker(function, axes, axis_of):
    def stack(value, tup, *, dtype=None, casting="same_kind"):
        trace = find_trace(*tup)
        arrays = [lift(trace, x) for x in _cast(trace, tup, dtype)]
        arrays = [expand(x, axes[x.ndim]) if x.ndim in axes else x for x in arrays]
        return join(trace, arrays, axis_of(arrays), value)

    records(function, complex="by_parts")(stack)


_stacker(np.vstack, ROWS, lambda arrays: 0)
_stacker(np.hstack, VECTORS, lambda arrays: 0 if arrays[0].ndim == 1 else 1)
_stacker(np.dstack, LAYERS, lambda arrays: 2)
_stacker(np.column_stack, COLUMNS, lambda arrays: 1)


NUMBERS = frozenset((TracedArray, np.float64, float, int))


def array_of_numbers(args: tuple):
    """Return ``np.array(args[0])`` of a list of numbers, or of such lists, some of them traced.

    The general way, which other arguments take (NotImplemented), looks at each entry a dozen times.
    """
    if len(args) != 1 or type(args[0]) not in SEQUENCES:
        return NotImplemented
    rows = args[0]
    nested = bool(rows) and type(rows[0]) in SEQUENCES
    if nested and not (SEQUENCES.issuperset(map(type, rows)) and len(set(map(len, rows))) == 1):
        return NotImplemented
    parts = [x for row in rows for x in row] if nested else rows
    kinds = set(map(type, parts))
    if TracedArray not in kinds or not NUMBERS.issuperset(kinds):
        return NotImplemented
    trace = next(x for x in parts if type(x) is TracedArray)._trace
    value = np.array(values_of(rows))
    if value.dtype is not FLOAT64 or value.ndim != 1 + nested or trace.closed:
        return NotImplemented
    with failing(trace):
        made = join_stacked(trace, parts, 0, value.reshape(-1))
    if not nested:
        return made
    return new_traced(
        trace, value, addresses.reshaped(trace.tape, made._id, value.shape), made._level, made._family
    )


@records(np.append, complex="by_parts_of_two")
def append(value, arr, values, axis=None):
    return concatenate(value, [arr, values], axis)


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
    """Repeat by broadcasting if there is one count for all entries, and by a gather if each has its own."""
    x = lift_first(a, repeats)
    if axis is None or not x.ndim:
        x, axis = merge(x, [x.ndim]), 0
    axis = one_axis(x, axis)
    if is_size(repeats):
        reps = [1] * x.ndim
        reps[axis] = code_of(x._trace, repeats)
        return _repeat_blocks(expand(x, tuple(range(1, 2 * x.ndim, 2))), reps, first=False)
    trace = find_trace(repeats)
    if trace is not None and may_count(trace) and np.ndim(values_of(repeats)) == 1:
        return _repeat_counted(x, lift(trace, repeats), axis)
    # Counts decide a shape, so that traced ones record guards.
    counts = np.asarray(repeats if trace is None else fixed(lift(trace, repeats)))
    if counts.size == 1:
        reps = [1] * x.ndim
        reps[axis] = int(counts.reshape(()))
        return _repeat_blocks(expand(x, tuple(range(1, 2 * x.ndim, 2))), reps, first=False)
    positions = np.repeat(np.arange(pinned(x, axis)), counts)
    return np.take(x, positions, axis)


def _repeat_counted(x, repeats, axis: int):
    """Repeat each entry as often as data say; how many there are then is a size that is counted."""
    if is_wrong(np.any(repeats < 0)):
        raise ValueError("repeats may not contain negative values.")
    n = length(x, axis)
    repeats = np.broadcast_to(repeats, (n,)) if length(repeats, 0) == 1 else repeats
    x._trace.tape.sizes.same(dims_of(repeats)[0], layout_of(x).dims[axis])
    total = operations.counted(np.sum(repeats))
    # As many entries as end at a place or before it stand in front of the one that is repeated there.
    trace = x._trace
    ends = extents.filled(trace, (code_of(trace, total + 1),), 0.0, np.float64)
    ones = extents.filled(trace, dims_of(repeats), 1.0, np.float64)
    ends = operations.added_up(ends, ones, np.cumsum(repeats))
    return np.take(x, np.cumsum(ends[:-1]).astype(int), axis)


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
    places = length(x, axis)
    if is_size(shift) and not (0 < shift < places):
        shift = shift % places if places > 0 else int(shift)
    n = np.shape(x._value)[axis]
    if not is_size(shift) and shift == 0:
        return x[...]
    if n == 0:
        pinned(x, axis)
        return x[...]
    if type(shift) is int and abs(shift) > n:
        pinned(x, axis)
        shift %= n
        if shift == 0:
            return x[...]
    lead = (slice(None),) * axis
    first = places - shift if is_size(shift) else -shift
    return np.concatenate([x[(*lead, slice(first, None))], x[(*lead, slice(None, first))]], axis)


@composes(np.resize, complex="by_parts")
def resize(a, new_shape):
    x = lift_first(a)
    shape = (new_shape,) if np.ndim(new_shape) == 0 else tuple(new_shape)
    flat = merge(x, [x.ndim])
    count = int(np.prod(shape))
    n = pinned(flat, 0)
    if n == 0:
        return lift(x._trace, np.zeros(shape, x.dtype))
    return np.reshape(np.take(flat, np.arange(count) % n), shape)


# ---- borders

COPYING = ("edge", "reflect", "symmetric", "wrap")


@composes(np.pad, complex="complex_functions.pad")
def pad(array, pad_width, mode="constant", **options):
    """Write constants and copies of entries as concatenations; other modes run a copy of NumPy's code."""
    fills = options.get("constant_values", 0)
    x = lift_first(array, fills)
    if mode == "empty":  # NumPy leaves these entries undefined
        mode = "constant"
    copies = mode in COPYING and options.get("reflect_type", "even") == "even"
    # The mode computes entries: means, extremes, ramps, reflections at a point, functions.
    if mode != "constant" and not copies:
        return operations.library_copy(np.pad._implementation)(array, pad_width, mode, **options)
    if has_size(pad_width):
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
    # With fewer entries than this, an end is more than one slice: the array is reflected or repeated again.
    least = {"edge": 1, "reflect": max(width) + 1, "symmetric": max(width), "wrap": max(width)}[mode]
    if not n >= least:
        return np.take(x, np.pad(np.arange(pinned(x, axis)), settled(width), mode, **options), axis)

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
