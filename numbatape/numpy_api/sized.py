"""NumPy's functions that make arrays of a size: ``np.zeros(x.shape)``, ``np.arange(len(x))``, ``np.eye(n)``.

None of their arguments is an array, so they never reach NumPy's protocols. These stand-ins make constants of
the tape whose sizes follow those of the arguments. What they do not know, NumPy makes from plain ints, which
the tape then relies on.
"""

from __future__ import annotations

import functools

import numpy as np

from ..tape.tape import CONSTANT, as_dtype
from ..trace import extents, operations, size_fractions
from ..trace import symbolic_sizes as sizes
from ..trace.array import TracedArray, new_traced
from ..trace.axes import length
from ..trace.integers import settled
from ..trace.operands import find_trace, lift_first, values_of
from ..trace.plain_arrays import wrap
from ..trace.primitives import broadcast_to, expand
from ..trace.trace import current, failing
from . import arrays_of_lists  # imported here, because the stand-ins of that file are wrapped
from .function_tables import MAKERS, REAL, implements
from .stand_ins import named_like


def _dims(trace, shape) -> tuple[int, ...]:
    """Return a shape as size codes, which must not be negative."""
    shape = shape if isinstance(shape, (tuple, list)) else (shape,)
    dims = tuple(sizes.code_of(trace, n) for n in shape)
    for dim in dims:
        trace.tape.sizes.guard(dim, ">=", 0)
    return dims


def zeros(trace, shape, dtype=float, order="C"):
    return extents.filled(trace, _dims(trace, shape), 0, dtype)


def ones(trace, shape, dtype=None, order="C"):
    return extents.filled(trace, _dims(trace, shape), 1, float if dtype is None else dtype)


def full(trace, shape, fill_value, dtype=None, order="C"):
    dims = _dims(trace, shape)
    if find_trace(fill_value) is None and np.ndim(fill_value) == 0:
        return extents.filled(
            trace, dims, fill_value, np.asarray(fill_value).dtype if dtype is None else dtype
        )
    x = lift_first(fill_value)
    x = x if dtype is None else np.astype(x, as_dtype(dtype))
    return np.copy(broadcast_to(x, [trace.tape.sizes.value(dim) for dim in dims], dims))


def indices(trace, dimensions, dtype=int, sparse=False):
    """Return the positions along each axis of a grid, one array an axis."""
    dims = _dims(trace, tuple(dimensions))
    shape = [trace.tape.sizes.value(dim) for dim in dims]
    found = []
    for axis, dim in enumerate(dims):
        places = np.astype(extents.arange(trace, dim), as_dtype(dtype))
        places = expand(places, [k for k in range(len(dims)) if k != axis])
        found.append(places if sparse else broadcast_to(places, shape, dims))
    return tuple(found) if sparse else np.stack(found)


def fromfunction(trace, function, shape, *, dtype=float, **options):
    return function(*indices(trace, shape, dtype), **options)


def eye(trace, N, M=None, k=0, dtype=float, order="C"):
    rows, columns = _dims(trace, (N, N if M is None else M))
    return extents.eye(trace, rows, columns, settled(k), dtype)


def identity(trace, n, dtype=None):
    return eye(trace, n, dtype=float if dtype is None else dtype)


def arange(trace, start, stop=None, step=1, dtype=None):
    """Return ``np.arange`` of sizes, for every size; None if a number is neither an int nor a size."""
    start, stop = (0, start) if stop is None else (start, stop)
    step = settled(step)
    if type(start) is float and start.is_integer():
        start, dtype = int(start), float if dtype is None else dtype
    if type(stop) is float and stop.is_integer():
        stop, dtype = int(stop), float if dtype is None else dtype
    if type(step) is float and step.is_integer():
        step, dtype = int(step), float if dtype is None else dtype
    if (
        type(step) is not int
        or not step
        or not all(type(n) is int or sizes.is_size(n) for n in (start, stop))
    ):
        return None
    table, first = trace.tape.sizes, sizes.code_of(trace, start)
    ends = sizes.code_of(trace, stop), first
    count = sizes.combined(table, "sub", *(ends if step > 0 else ends[::-1]))
    if table.value(count) < 0:
        return None  # the range is empty, which holds only for sizes in the same order
    table.guard(count, ">=", 0, trace.line())
    if abs(step) > 1:
        count = table.floordiv(table.add(count, abs(step) - 1), abs(step))
    result = extents.arange(trace, count)
    result = result if step == 1 else result * step
    if table.is_number(first):
        result = result + table.value(first) if table.value(first) else result
    else:
        result = result + start
    return result if dtype is None else np.astype(result, as_dtype(dtype))


def _with_whole_bounds(args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    """Return the arguments of ``np.arange(1.0, len(x) + 1.0)`` with sizes in place of floats."""
    found = [size_fractions.whole(x) for x in args[:3]]
    if all(size is None for size in found) or len(args) > 3:
        return args, kwargs
    whole = tuple(x if size is None else size for x, size in zip(args, found, strict=True))
    return whole, {"dtype": float, **kwargs}


def counted(n):
    """Return ``np.arange(n)``: a constant of the tape where n is a size."""
    return extents.arange(n._trace, n._code) if sizes.is_size(n) else np.arange(n)


def positions(x, axis: int):
    """Return ``np.arange`` of the size of an axis."""
    return counted(length(x, axis))


def tri(trace, N, M=None, k=0, dtype=float, *, like=None):
    rows, columns = _dims(trace, (N, N if M is None else M))
    down, right = extents.arange(trace, rows), extents.arange(trace, columns)
    return np.astype(down[:, None] >= right[None, :] - settled(k), as_dtype(dtype))


def tril_indices(trace, n, k=0, m=None):
    """Return the positions below a diagonal of a square matrix; None for what is no triangle."""
    k = settled(k)
    triangle = None if k > 0 else _triangle(trace, n, -k, m)
    if triangle is None:
        return None
    row, place, _ = triangle
    return row - k, place


def triu_indices(trace, n, k=0, m=None):
    """Return the positions above a diagonal of a square matrix, which are those below it, backwards."""
    k = settled(k)
    triangle = None if k < 0 else _triangle(trace, n, k, m)
    if triangle is None:
        return None
    row, place, side = triangle
    return side - 1 - row[::-1], n - 1 - place[::-1]


def _triangle(trace, n, less: int, m):
    """Return rows and places in them of a triangle whose rows have 1, 2, 3, ... entries, and its side."""
    dims = _dims(trace, (n, n if m is None else m))
    table = trace.tape.sizes
    side = table.sub(dims[0], less)
    if dims[0] != dims[1] or table.value(side) < 0:
        return None
    table.guard(side, ">=", 0)
    count = table.floordiv(table.mul(side, table.add(side, 1)), 2)
    at = extents.arange(trace, count)
    row = np.astype(np.floor((np.sqrt(8.0 * at + 1.0) - 1.0) / 2.0), np.dtype(int))
    return row, at - row * (row + 1) // 2, sizes.seen(trace, side)


def _from_matrix(function, indices):
    """Let ``np.tril_indices_from`` and its like follow the sizes of a matrix."""

    def make(arr, *args, **kwargs):
        value = function(*values_of((arr, *args)), **values_of(kwargs))  # raises for what is no matrix
        trace = find_trace(arr, args, tuple(kwargs.values()))
        rows, columns = (length(arr, axis) for axis in (0, 1))
        found = None
        if arr.ndim == 2 and sizes.is_size(rows) and rows == columns:
            found = indices(trace, rows, *args, **kwargs)
        if found is None:
            arr.shape  # noqa: B018  (records a guard)
            return wrap(trace, value)
        return found

    implements(function, complex="of_shapes")(make)


def diag_indices(trace, n, ndim=2):
    (dim,) = _dims(trace, n)
    return (extents.arange(trace, dim),) * settled(ndim)


for _function, _indices in {
    np.tril_indices_from: tril_indices,
    np.triu_indices_from: triu_indices,
    np.diag_indices_from: diag_indices,
}.items():
    _from_matrix(_function, _indices)


def _window(of_angles):
    """Return a window: a function of the angles from 0 to two pi, if it has more than one entry."""

    def window(trace, M):
        if not M > 1:
            return None
        return of_angles(extents.arange(trace, sizes.code_of(trace, M)) * (2.0 * np.pi / (M - 1)))

    return window


WINDOWS = {
    "hanning": lambda angle: 0.5 - 0.5 * np.cos(angle),
    "hamming": lambda angle: 0.54 - 0.46 * np.cos(angle),
    "blackman": lambda angle: 0.42 - 0.5 * np.cos(angle) + 0.08 * np.cos(2.0 * angle),
    "bartlett": lambda angle: 1.0 - np.abs(angle / np.pi - 1.0),
}


def kaiser(trace, M, beta):
    """Return a window of Bessel functions, if it has more than one entry."""
    if not (sizes.is_size(M) and M > 1):
        return None
    inside = 1.0 - (2.0 * extents.arange(trace, sizes.code_of(trace, M)) / (M - 1) - 1.0) ** 2
    return np.i0(beta * np.sqrt(np.maximum(inside, 0.0))) / np.i0(beta)


def prod(trace, a):
    """``np.prod(x.shape)``: an integer of NumPy's, not a size."""
    sizes_ = a if isinstance(a, (tuple, list)) else (a,)
    if not all(type(n) is int or sizes.is_size(n) for n in sizes_):
        return None
    code = trace.tape.sizes.product([sizes.code_of(trace, n) for n in sizes_])
    x = sizes.number_of(trace, code)
    return new_traced(trace, np.int64(x._value), x._id, x._level, x._family)


def broadcast_shapes(trace, *shapes):
    """``np.broadcast_shapes``: sizes that are equal are a guard, and so is one that is 1."""
    shapes = [shape if isinstance(shape, (tuple, list)) else (shape,) for shape in shapes]
    result = []
    for axis in range(-max(map(len, shapes)), 0):
        found = 1
        for n in [shape[axis] for shape in shapes if len(shape) >= -axis]:
            if type(n) is int and n == 1:
                continue
            if (type(found) is int and found == 1) or (n != found and found == 1):
                found = n
            elif not (n == found or n == 1):
                return None  # NumPy's error
        result.append(found)
    return tuple(result)


class SizedGrid:
    """``np.mgrid`` and ``np.ogrid``, which follow sizes in slices with steps of one."""

    def __init__(self, original):
        self._original = original

    def __getattr__(self, name):
        return getattr(self._original, name)

    def __getitem__(self, key):
        if not sizes.has_size(key):
            return self._original[key]
        trace = current()
        with failing(trace):
            found = self._points(trace, key)
        return self._original[settled(key)] if found is None else found

    def _points(self, trace, key):
        """Return the grid, or None if one of the slices has another step, or floats."""
        axes = []
        for part in key if isinstance(key, tuple) else (key,):
            start = 0 if part.start is None else part.start
            points = arange(trace, start, part.stop) if part.step in (None, 1) else None
            if points is None or points.dtype.kind != "i":
                return None
            axes.append(points)
        if not isinstance(key, tuple):
            return axes[0]
        axes = np.ix_(*axes)
        return axes if self._original.sparse else np.stack(np.broadcast_arrays(*axes))


def _implementation(name: str):
    """Return the implementation for traced arrays, which knows sizes."""

    def call(trace, *args, **kwargs):
        return REAL.find(getattr(np, name))(*args, **kwargs)

    return call


AT_PLACES = ("linspace", "logspace", "geomspace", "repeat", "tile", "broadcast_to", "reshape")
IMPLEMENTATIONS = {
    **{"zeros": zeros, "empty": zeros, "ones": ones, "full": full, "eye": eye, "identity": identity},
    "arange": arange,
    "prod": prod,
    "broadcast_shapes": broadcast_shapes,
    **{"indices": indices, "fromfunction": fromfunction},
    "tri": tri,
    **{"diag_indices": diag_indices, "tril_indices": tril_indices, "triu_indices": triu_indices},
    **{name: _window(of_angles) for name, of_angles in WINDOWS.items()},
    "kaiser": kaiser,
    **{name: _implementation(name) for name in AT_PLACES},
}


OF_SHAPES = (zeros, ones, eye, identity, arange)
# Only the first arguments of these are sizes; those of the others are at places that have a table.
BEGIN_WITH_SHAPES = (
    *(full, indices, tri, tril_indices, triu_indices, diag_indices, kaiser),
    *(IMPLEMENTATIONS[name] for name in WINDOWS),
)


def counted_sizes(args: tuple) -> tuple:
    """Return the arguments of ``np.zeros(k.max() + 1)`` with a size for an integer that data decide."""
    shape, *rest = args or (None,)
    if type(shape) is tuple or type(shape) is list:
        return (counted_sizes(tuple(shape)), *map(_counted, rest))
    return tuple(map(_counted, args))


def _counted(n):
    if type(n) is not TracedArray:
        return extents.as_size(n)
    return operations.counted(n) if n.ndim == 0 and n.dtype.kind == "i" and n._level == CONSTANT else n


def with_sizes(original, implementation, make):
    """Return a function that calls the implementation for sizes, and else what stands for the original."""
    otherwise = arrays_of_lists.stacking_lists(original) if make is None else make(original)

    def call(*args, **kwargs):
        if implementation is arange:
            args, kwargs = _with_whole_bounds(args, kwargs)
        if implementation is full and operations.among(args[1:2]):
            args = (args[0], operations.as_entries(args[1]), *args[2:])
        if implementation in OF_SHAPES:
            args = counted_sizes(args)
        elif implementation in BEGIN_WITH_SHAPES:
            args = (*counted_sizes(args[:1]), *args[1:])
        elif original.__name__ in AT_PLACES:
            args, kwargs = operations.sized_arguments(original, args, kwargs)
        if sizes.has_size(args) or (kwargs and sizes.has_size(tuple(kwargs.values()))):
            trace = current()
            with failing(trace):
                result = implementation(trace, *args, **kwargs)
            if type(result) is TracedArray or type(result) is tuple:
                return result
            args, kwargs = settled(args), settled(kwargs)
        return otherwise(*args, **kwargs)

    return named_like(call, original)


def of_integers(original, make):
    """Return ``np.array``, or its like, which makes arrays of traced ints, sizes too, without a guard."""

    def call(*args, **kwargs):
        if operations.among(args[:1]):
            args = (operations.as_entries(args[0]), *args[1:])
        return otherwise(*args, **kwargs)

    otherwise = make(original)
    return named_like(call, original)


def _register() -> None:
    makers = MAKERS["numpy"]
    for name in ("array", "asarray", "asanyarray"):
        makers[name] = functools.partial(of_integers, make=makers[name])
    makers["mgrid"] = makers["ogrid"] = SizedGrid
    for name, implementation in IMPLEMENTATIONS.items():
        makers[name] = functools.partial(with_sizes, implementation=implementation, make=makers.get(name))


_register()
