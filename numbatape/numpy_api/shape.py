"""Other shapes of the same cells: views, with sizes kept symbolic where NumPy's call allows it."""

from __future__ import annotations

from operator import index

import numpy as np

from ..emitter.instructions import broadcast_dims
from ..trace import primitives
from ..trace.array import TracedArray, revalue
from ..trace.axes import axes_of, drop_axes, length, merge, one_axis, pinned
from ..trace.operands import find_trace, lift, lift_all, lift_first
from ..trace.primitives import elementwise, expand, layout_of, view
from ..trace.symbolic_sizes import code_of, is_size, valued
from .function_tables import implements
from .registration import composes, records, sees, unsupported_argument


def _order(function, x, order) -> str:
    """Return "C" or "F"; "A" and "K" ask for the order in memory of NumPy's own value."""
    order = (order or "C").upper()  # NumPy takes small letters, too.
    if order in ("C", "F") or x.ndim < 2:
        return order
    if not x._trace.arguments.in_order:
        raise unsupported_argument(
            function, f"order={order!r}", "the arguments are in another order than C, so say 'C' or 'F'"
        )
    x._trace.arguments.asks_order = True
    flags = np.asarray(x._value).flags
    if order == "A" or flags.c_contiguous or flags.f_contiguous:
        return "F" if flags.f_contiguous and not flags.c_contiguous else "C"
    raise unsupported_argument(function, f"order={order!r}", "of a strided view; order='C' is")


@sees(np.reshape, complex="by_parts")
def reshape(a, /, shape, order="C", *, copy=None):
    order = _order(np.reshape, a, order)
    if order == "F":
        shape = (shape,) if np.ndim(shape) == 0 else tuple(shape)
        return primitives.transpose(primitives.reshape(primitives.transpose(a), shape[::-1]))
    return primitives.reshape(a, shape)


@sees(np.ravel, complex="by_parts")
def ravel(a, order="C"):
    x = lift_first(a)
    order = _order(np.ravel, x, order)
    return merge(x if order == "C" else primitives.transpose(x), [x.ndim])


@sees(np.transpose, complex="by_parts")
def transpose(a, axes=None):
    axes = (axes,) if axes is not None and np.ndim(axes) == 0 else axes
    return primitives.transpose(lift_first(a), axes)


@sees(np.swapaxes, complex="by_parts")
def swapaxes(a, axis1, axis2):
    order = list(range(a.ndim))
    axis1, axis2 = one_axis(a, axis1), one_axis(a, axis2)
    order[axis1], order[axis2] = axis2, axis1
    return primitives.transpose(a, order)


@sees(np.matrix_transpose, np.linalg.matrix_transpose, complex="by_parts")
def matrix_transpose(x, /):
    return swapaxes(x, -1, -2)


@sees(np.moveaxis, complex="by_parts")
def moveaxis(a, source, destination):
    source, destination = axes_of(a, source), axes_of(a, destination)
    order = [k for k in range(a.ndim) if k not in source]
    for place, axis in sorted(zip(destination, source, strict=True)):
        order.insert(place, axis)
    return primitives.transpose(a, order)


@sees(np.rollaxis, complex="by_parts")
def rollaxis(a, axis, start=0):
    order = list(range(a.ndim))
    axis = one_axis(a, axis)
    start = start + a.ndim if start < 0 else start
    order.remove(axis)
    order.insert(start - 1 if axis < start else start, axis)
    return primitives.transpose(a, order)


@sees(np.expand_dims, complex="by_parts")
def expand_dims(a, axis):
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    return expand(lift_first(a), tuple(index(k) for k in axes))


@sees(np.squeeze, complex="by_parts")
def squeeze(a, axis=None):
    if axis is not None:
        return drop_axes(a, axes_of(a, axis))
    sizes = a._trace.tape.sizes
    ones = []
    for k, dim in enumerate(layout_of(a).dims):
        n = sizes.value(dim)
        if n == 1:
            ones.append(k)
        elif n:
            sizes.guard(dim, ">=", 2)
        else:
            sizes.pin(dim)
    return drop_axes(a, ones)


@sees(np.broadcast_to, complex="by_parts")
def broadcast_to(array, shape, subok=False):
    shape = tuple(shape) if isinstance(shape, (tuple, list)) or np.ndim(shape) else (shape,)
    x = lift_first(array)
    dims = [code_of(x._trace, n) for n in shape]
    return primitives.broadcast_to(x, [x._trace.tape.sizes.value(dim) for dim in dims], dims)


@records(np.broadcast_arrays, complex="of_all")
def broadcast_arrays(value, *args, subok=False):
    trace = find_trace(*args)
    arrays = [lift(trace, x) for x in args]
    shape = np.broadcast_shapes(*(np.shape(x._value) for x in arrays))
    dims = broadcast_dims(trace.tape, [layout_of(x).dims for x in arrays])
    results = tuple(primitives.broadcast_to(x, shape, dims) for x in arrays)
    for result, its in zip(results, value, strict=True):
        revalue(result, its)  # writes to NumPy's value give a warning
    return results


def _atleast(function, place):
    def atleast(*arys):
        results = [place(lift_first(x, *arys)) for x in arys]
        return results[0] if len(results) == 1 else tuple(results)

    composes(function, complex="of_all")(atleast)
    return atleast


def _three(x):
    return expand(x, ((0, 1, 2), (0, 2), (2,))[x.ndim]) if x.ndim < 3 else x


atleast_1d = _atleast(np.atleast_1d, lambda x: x if x.ndim else expand(x, (0,)))
atleast_2d = _atleast(np.atleast_2d, lambda x: expand(x, (0, 1)[: 2 - x.ndim]) if x.ndim < 2 else x)
atleast_3d = _atleast(np.atleast_3d, _three)


# ---- parts


def _cut(x, axis, places):
    """Return the parts between consecutive places along an axis."""
    lead = (slice(None),) * axis
    return [x[(*lead, slice(a, b))] for a, b in zip(places, places[1:], strict=False)]


def _whole(count) -> int:
    """Return a number of parts; NumPy cuts those off that are floats."""
    return int(count) if isinstance(count, (float, np.floating)) else index(count)


def _split(value, ary, indices_or_sections, axis=0):
    x = lift_first(ary)
    axis = one_axis(x, axis)
    if isinstance(indices_or_sections, (tuple, list)) or np.ndim(indices_or_sections):
        cuts = (i if is_size(i) else index(i) for i in indices_or_sections)
        ends = [None, *cuts, None]
        parts = _cut(x, axis, ends)
    else:
        count, n = _whole(indices_or_sections), length(x, axis)  # a traced count records a guard
        longer = int(n % count)  # the first ``longer`` parts have an entry more than the others
        ends = [k * (n // count) + min(k, longer) for k in range(count + 1)]
        parts = _cut(x, axis, ends)
    for part, its in zip(parts, value, strict=True):
        revalue(part, its)
    return parts


records(np.split, np.array_split, complex="by_parts", several=True)(_split)


@implements(np.hsplit, complex="by_parts")
def hsplit(ary, indices_or_sections):
    if ary.ndim == 0:
        raise ValueError("hsplit only works on arrays of 1 or more dimensions")
    return np.split(ary, indices_or_sections, 0 if ary.ndim == 1 else 1)


@implements(np.vsplit, complex="by_parts")
def vsplit(ary, indices_or_sections):
    if ary.ndim < 2:
        raise ValueError("vsplit only works on arrays of 2 or more dimensions")
    return np.split(ary, indices_or_sections, 0)


@implements(np.dsplit, complex="by_parts")
def dsplit(ary, indices_or_sections):
    if ary.ndim < 3:
        raise ValueError("dsplit only works on arrays of 3 or more dimensions")
    return np.split(ary, indices_or_sections, 2)


def unstack(x, /, *, axis=0):
    moved = np.moveaxis(x, axis, 0)
    return tuple(moved[k] for k in range(pinned(moved, 0)))


if hasattr(np, "unstack"):  # NumPy 2.1
    implements(np.unstack, complex="by_parts")(unstack)


# ---- other orders


@composes(np.flip, complex="by_parts")
def flip(m, axis=None):
    m = lift_first(m)
    if m.ndim == 0:
        return np.reshape(m, ())
    axes = axes_of(m, axis)
    return m[tuple(slice(None, None, -1) if k in axes else slice(None) for k in range(m.ndim))]


@composes(np.fliplr, complex="by_parts")
def fliplr(m):
    return m[:, ::-1]


@composes(np.flipud, complex="by_parts")
def flipud(m):
    return m[::-1]


@composes(np.rot90, complex="by_parts")
def rot90(m, k=1, axes=(0, 1)):
    first, second = axes_of(m, tuple(axes))
    k %= 4
    if k == 2:
        return np.flip(m, (first, second))
    if k == 1:
        return np.swapaxes(np.flip(m, second), first, second)
    return np.flip(np.swapaxes(m, first, second), second) if k else m[:]


@composes(np.diagonal, complex="by_parts")
def diagonal(a, offset=0, axis1=0, axis2=1):
    """The diagonal is a view whose size stays symbolic; a guard says whether rows or columns end it."""
    axis1, axis2 = one_axis(a, axis1), one_axis(a, axis2)
    layout, tape = layout_of(a), a._trace.tape
    sizes = tape.sizes
    rows, columns = layout.dims[axis1], layout.dims[axis2]
    start = tape.offset_of(a._id)
    value = np.diagonal(a._value, offset, axis1, axis2)
    # What is left of the rows, and of the columns, beside those that the offset leaves out.
    rows, columns = (sizes.sub(rows, -offset), columns) if offset < 0 else (rows, sizes.sub(columns, offset))
    if value.shape[-1]:
        longer, count = (columns, rows) if sizes.value(rows) <= sizes.value(columns) else (rows, columns)
        sizes.guard(longer, ">=", count)
        sizes.guard(count, ">=", 1)
    else:
        sizes.pin(layout.dims[axis1]), sizes.pin(layout.dims[axis2])
        count = 0
    if offset and value.shape[-1]:
        axis = axis2 if offset > 0 else axis1
        start = sizes.add(start, sizes.mul(abs(offset), layout.strides[axis]))
    kept = [k for k in range(a.ndim) if k not in (axis1, axis2)]
    dims = [*(layout.dims[k] for k in kept), count]
    step = sizes.add(layout.strides[axis1], layout.strides[axis2])
    return view(a, value, dims, [*(layout.strides[k] for k in kept), step], start)


@implements(np.lib.stride_tricks.sliding_window_view, complex="complex_functions.sliding_window_view")
def sliding_window_view(x, window_shape, axis=None, *, subok=False, writeable=False):
    windows = np.lib.stride_tricks.sliding_window_view
    value = windows(x._value, valued(window_shape), axis, writeable=writeable)
    layout, sizes = layout_of(x), x._trace.tape.sizes
    widths = tuple(window_shape) if np.iterable(window_shape) else (window_shape,)
    dims, added = list(layout.dims), []
    along = range(x.ndim) if axis is None else axis if np.iterable(axis) else (axis,)
    for width, k in zip(widths, (one_axis(x, k) for k in along), strict=True):  # an axis may be repeated
        size = code_of(x._trace, width if is_size(width) else index(width))
        sizes.guard(size, ">=", 0)
        sizes.guard(dims[k], ">=", size)
        dims[k] = sizes.sub(sizes.add(dims[k], 1), size)
        added.append((size, layout.strides[k]))
    return view(x, value, [*dims, *(n for n, _ in added)], [*layout.strides, *(step for _, step in added)])


@composes(np.linalg.diagonal, complex="by_parts")
def linalg_diagonal(x, /, *, offset=0):
    return np.diagonal(x, offset, -2, -1)


@composes(np.meshgrid, complex="of_all")
def meshgrid(*xi, copy=True, sparse=False, indexing="xy"):
    count = len(xi)
    grids = []
    for k, x in enumerate(lift_all(*xi)):
        flat = merge(x, [x.ndim])
        grids.append(expand(flat, tuple(j for j in range(count) if j != k)) if count > 1 else flat)
    if indexing == "xy" and count > 1:
        grids = [np.swapaxes(x, 0, 1) for x in grids]
    return tuple(grids if sparse else np.broadcast_arrays(*grids))


def _usual_copy(a, *options, **named):
    """Serve calls with one array of float64; see `composes`."""
    usual = not options and not named and type(a) is TracedArray and a._value.__class__ is np.ndarray
    return elementwise("copy", a, value=a._value.copy("K")) if usual else None


@composes(np.copy, complex="by_parts", usual=_usual_copy)
def copy(a, order="K", subok=False):
    return elementwise("copy", a, value=np.asarray(a._value)[()])
