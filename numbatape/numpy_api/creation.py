"""Diagonals, triangles, filled arrays, grids, conversions of dtype."""

from __future__ import annotations

import numpy as np

from ..tape.tape import CONSTANT, as_dtype, family_of_dtype
from ..trace import operations
from ..trace.array import TracedArray, new_traced
from ..trace.axes import length, pinned
from ..trace.extents import arange, filled
from ..trace.integers import lifted
from ..trace.operands import adopt, find_trace, is_wrong, lift_all, values_of
from ..trace.plain_arrays import wrap
from ..trace.primitives import array_instruction, broadcast_to, elementwise, expand, layout_of, rounded
from ..trace.symbolic_sizes import code_of, is_size
from .function_tables import HOLDS, implements
from .registration import composes, unsupported_argument


@composes(np.diag, complex="by_parts")
def diag(v, k=0):
    if v.ndim == 2:
        return np.diagonal(v, k)
    # Entry (i, i + k) is v[i] or, above the main diagonal, v[j - k].
    row = v if k == 0 else np.pad(v, (k, 0) if k > 0 else (0, -k))
    places = arange(v._trace, layout_of(row).dims[0])
    mask = np.equal(places[None, :], places[:, None] + k)
    return np.where(mask, row[None, :], 0.0)


@composes(np.diagflat, complex="by_parts")
def diagflat(v, k=0):
    return np.diag(np.ravel(v), k)


def _triangle(name: str, function):
    def triangle(m, k=0):
        k = int(k)
        if m.ndim == 1:
            n = pinned(m, 0)
            m = broadcast_to(m, (n, n))
        return array_instruction(name, (m, np.float64(k)), function(m._value, k))

    composes(function, complex="by_parts")(triangle)


_triangle("tril", np.tril)
_triangle("triu", np.triu)


FILLS = {np.zeros_like: 0, np.ones_like: 1, np.empty_like: 0}


def _plain_result(function, complex=None):
    """Let NumPy make an array that takes only shape and dtype from traced ones.

    The result is a plain array of the trace: traced values may be written into it.
    """

    def make(*args, **kwargs):
        trace = find_trace(args, tuple(kwargs.values()))
        alone = function in FILLS and len(args) == 1 and type(args[0]) is TracedArray
        if alone and kwargs.keys() <= {"dtype"}:
            dtype = as_dtype(args[0].dtype if kwargs.get("dtype") is None else kwargs["dtype"])
            if dtype.kind in "fbiu":
                return filled(trace, layout_of(args[0]).dims, FILLS[function], dtype, args[0]._value)
        for arg in (*args, *kwargs.values()):
            if type(arg) is TracedArray:
                arg.shape  # noqa: B018  (records a guard)
        return wrap(trace, function(*values_of(args), **values_of(kwargs)))

    implements(function, complex=complex)(make)


for _function in (np.zeros_like, np.ones_like, np.empty_like):
    _plain_result(_function, "of_shapes")
for _function in (
    (np.iscomplex, "complex_functions.iscomplex"),
    (np.isreal, "complex_functions.isreal"),
):
    _plain_result(*_function)


@composes(np.full_like, complex="complex_functions.full_like")
def full_like(a, fill_value, dtype=None, order="K", subok=True, shape=None, *, device=None):
    a, fill = lift_all(a, fill_value)
    kind = as_dtype(dtype) if dtype is not None else a.dtype
    if shape is not None:
        seen = np.broadcast_to(fill, shape)
    else:
        seen = broadcast_to(fill, np.shape(a._value), layout_of(a).dims)
    return np.astype(seen, kind)


@implements(np.astype, complex="complex_functions.astype")
def astype(x, dtype, /, *, copy=True, device=None):
    dtype = as_dtype(dtype)
    if not copy and dtype == x.dtype:
        return x
    if dtype.kind == "c":  # a complex dtype is given by its name, or by a function that passes its own on
        return operations.call_complex_function(np.astype, (x, dtype), {})
    # The array's method is used, because np.astype refuses scalars.
    value = np.asarray(x._value).astype(dtype)
    return adopt(_converted(x, dtype), value if isinstance(x._value, np.ndarray) else value[()])


def as_doubles(x):
    """Return real numbers as float64, in which SciPy's compiled code computes; complex ones as they are.

    Python's floats become NumPy's, whose division by zero does not raise.
    """
    if x.dtype.kind == "c":
        return x
    x = x if x.dtype == np.float64 else np.astype(x, np.float64)
    weak = type(getattr(x, "_value", None)) is float  # plain arrays come here, too
    return adopt(x, np.float64(x._value)) if weak else x


def _converted(x, dtype):
    if dtype == x.dtype:
        return elementwise("copy", x, value=np.asarray(x._value)[()])
    if dtype.kind == "b":
        return np.not_equal(x, 0)
    if dtype.kind in "iu":
        # Truncated, -0.3 is -0.0, which is no integer.
        whole = elementwise("add", elementwise("trunc", x), 0.0) if x.dtype.kind == "f" else _same_cells(x)
        # Traced integers count and number entries, whose range is that of int32; data may have any.
        narrow = dtype.itemsize <= (2 if x._level != CONSTANT or x.dtype.kind == "f" else 4)
        return _wrapped(whole, dtype) if narrow and not np.can_cast(x.dtype, dtype) else whole
    if dtype == np.float16:
        return rounded(x, np.asarray(x._value).astype(dtype)[()])
    if dtype not in (np.float64, np.float32):
        raise unsupported_argument(np.astype, f"dtype={dtype}", "float64, float32 and float16 are")
    if x._family == family_of_dtype(dtype):
        return elementwise("copy", x, value=np.asarray(x._value).astype(dtype)[()])
    return _same_cells(x)  # NumPy's value has the new dtype


def _wrapped(x, dtype):
    """Return whole numbers as small integers hold them: the nearest ones by the count of their values."""
    count, least = 2.0 ** (8 * dtype.itemsize), float(np.iinfo(dtype).min)
    return np.remainder(np.astype(x, np.float64) - least, count) + least


def _same_cells(x):
    """Return another traced value with the cells of an operand, which may be a Python float."""
    if np.ndim(x._value):
        return x[...]
    return new_traced(x._trace, np.asarray(x._value)[()], x._id, x._level, x._family)


@composes(np.real_if_close, complex="complex_functions.real_if_close")
def real_if_close(a, tol=100):
    return a if a.ndim else np.reshape(a, ())  # of Python's numbers NumPy makes an array


@implements(np.real, complex="complex_functions.real")
def real(val):
    return val


@implements(np.imag, complex="complex_functions.imag")
def imag(val):
    return val.imag


@composes(np.linspace, complex="complex_reductions.linspace")
def linspace(start, stop, num=50, endpoint=True, retstep=False, dtype=None, axis=0, *, device=None):
    """Compute the points from their number and a step, as NumPy does; the last one is ``stop`` itself."""
    start, stop = lift_all(lifted(start), lifted(stop))
    start, stop = (np.astype(x, float) if x.dtype.kind == "b" else x for x in (start, stop))
    trace = start._trace
    num = num if is_size(num) else int(num)
    count = num - 1 if endpoint else num
    step = (stop - start) / count if count > 0 else (stop - start) * np.nan
    places = arange(trace, code_of(trace, num)) + 0.0
    places = expand(places, tuple(range(1, 1 + max(start.ndim, stop.ndim))))
    if endpoint and num > 1:  # the last point is stop itself
        inner = expand(start, (0,)) + places[:-1] * expand(step, (0,))
        last = broadcast_to(expand(stop, (0,)), (1, *inner._value.shape[1:]), (1, *layout_of(inner).dims[1:]))
        points = np.concatenate([inner, last])
    elif num > 1:
        points = expand(start, (0,)) + places * expand(step, (0,))
    else:
        points = expand(start + 0.0 * stop, (0,))[:num]
    points = np.moveaxis(points, 0, axis)
    if dtype is not None:
        dtype = as_dtype(dtype)
        points = np.astype(np.floor(points) if dtype.kind in "iu" else points, dtype)
    return (points, step) if retstep else points


@composes(np.logspace)
def logspace(start, stop, num=50, endpoint=True, base=10.0, dtype=None, axis=0):
    if np.ndim(values_of(base)):  # the axes of an array of bases stand beside that of the points
        start, stop, base = lift_all(start, stop, base)
        most = max(start.ndim, stop.ndim, base.ndim)
        start, stop, base = (expand(x, tuple(range(most - x.ndim))) for x in (start, stop, base))
        base = np.expand_dims(base, axis)
    start, stop = lift_all(start, stop)
    points = np.power(base, np.linspace(start, stop, num, endpoint, axis=axis))
    return points if dtype is None else np.astype(points, as_dtype(dtype))


@composes(np.vander, complex="complex_reductions.vander")
def vander(x, N=None, increasing=False):
    if N is None and is_size(length(x, 0)) and length(x, 0) > 1:
        powers = _as_many_powers(x)
        return powers if increasing else powers[:, ::-1]
    if x.dtype.kind in "biu":
        x = np.astype(x, np.promote_types(x.dtype, int))
    n = pinned(x, 0) if N is None else int(N)
    if not n:
        return np.reshape(x[:0], (pinned(x, 0), 0))
    columns = [np.ones_like(x)]
    for _ in range(n - 1):
        columns.append(columns[-1] * x)
    return np.stack(columns[:n] if increasing else columns[:n][::-1], 1)


def _as_many_powers(x):
    """Return as many powers of a vector's entries as there are entries, for every length above one."""
    table, (dim,) = x._trace.tape.sizes, layout_of(x).dims
    less = table.sub(dim, 1)
    repeated = broadcast_to(expand(x, (1,)), (table.value(dim), table.value(less)), (dim, less))
    return np.concatenate([expand(np.ones_like(x), (1,)), np.cumprod(repeated, 1)], 1)


@composes(np.ix_)
def ix_(*args):
    count = len(args)
    vectors = [np.nonzero(v)[0] if v.dtype == np.bool_ else v for v in lift_all(*args)]
    return tuple(expand(v, tuple(j for j in range(count) if j != k)) for k, v in enumerate(vectors))


@implements(np.angle, complex=HOLDS)
def angle(z, deg=False):
    turn = np.arctan2(z.imag, z.real) if z.dtype.kind == "c" else np.arctan2(0, z)
    return turn * (180.0 / np.pi) if deg else turn


@composes(np.geomspace)
def geomspace(start, stop, num=50, endpoint=True, dtype=None, axis=0):
    start, stop = lift_all(start, stop)
    if is_wrong(np.any(np.equal(start, 0))) or is_wrong(np.any(np.equal(stop, 0))):
        raise ValueError("Geometric sequence cannot include zero")
    sign = np.sign(start)
    low, high = start / sign, stop / sign
    points = np.logspace(np.log10(low), np.log10(high), num, endpoint)
    low, high = (expand(x, (0,)) for x in np.broadcast_arrays(low, high))
    if num > 0:  # Both ends are written as they were given, without rounding.
        points = np.concatenate([low, points[1:]])
    if num > 1 and endpoint:
        points = np.concatenate([points[:-1], high])
    points = np.moveaxis(points * sign, 0, axis)
    return points if dtype is None else np.astype(points, as_dtype(dtype))
