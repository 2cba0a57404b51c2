"""Products over an axis, variances, polynomials and grids of complex numbers."""

from __future__ import annotations

import numpy as np

from ...tape.tape import as_dtype
from ...trace import complex_parts
from ...trace.array import TracedArray
from ...trace.operands import lift, values_of
from ..dispatch import along
from ..function_tables import HOLDS, implements
from ..reductions import NO, flag, is_given


def _as_complex(a, dtype):
    """Return a traced array in complex numbers, of a dtype if one is asked for: NumPy casts first."""
    if dtype is None:
        return np.astype(a, complex) if type(a) is TracedArray else a
    return np.astype(a, dtype)


def _asks_for_real(dtype) -> bool:
    return dtype is not None and as_dtype(dtype).kind != "c"


def prod(a, axis=None, dtype=None, out=None, keepdims=False, initial=NO, where=NO):
    """Multiply the two halves of the entries, recursively, which needs neither logarithms nor long chains."""
    if where is not NO and where is not True:
        a = np.where(where, a, 1.0)
    if _asks_for_real(dtype):  # cast first, because NumPy casts before it multiplies
        return np.prod(np.astype(a, dtype), axis, keepdims=keepdims, initial=initial)
    a = _as_complex(a, dtype)
    keepdims = flag(keepdims)
    if is_given(initial):
        return np.prod(a, axis, dtype, keepdims=keepdims) * initial
    value = np.prod(values_of(a), axis=axis, dtype=dtype, keepdims=keepdims)
    if axis is None:
        axes = tuple(range(np.ndim(values_of(a))))
    else:
        # NumPy takes 0 for an axis of a number, too.
        axes = tuple(k % a.ndim for k in (axis if isinstance(axis, tuple) else (axis,)) if a.ndim)
    kept = [k for k in range(np.ndim(values_of(a))) if k not in axes]
    x = np.reshape(np.transpose(a, [*kept, *axes]), [*(a.shape[k] for k in kept), -1 if a.size else 0])
    while x.shape[-1] > 1:
        half = x.shape[-1] // 2
        product = x[..., :half] * x[..., half : 2 * half]
        x = np.concatenate([product, x[..., 2 * half :]], -1) if x.shape[-1] % 2 else product
    last = x[..., 0] if x.shape[-1] else np.ones_like(value)
    return np.reshape(last, np.shape(value))[()] if complex_parts.is_traced(last) else value


def cumprod(a, axis=None, dtype=None, out=None):
    if _asks_for_real(dtype):
        return np.cumprod(np.astype(a, dtype), axis)
    a = _as_complex(a, dtype)
    if axis is None or not np.ndim(values_of(a)):
        a, axis = np.ravel(a), 0
    parts = along(a, axis)
    for k in range(1, len(parts)):
        parts[k] = parts[k - 1] * parts[k]
    return np.stack(parts, axis) if parts else a


# ---- variances


def var(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, *, where=NO, mean=NO, correction=NO):
    """Add the variances of both parts.

    With a dtype, NumPy takes the mean in it: a real one is not that of the entries, but of their real parts.
    What it returns has this dtype.
    """
    options = dict(axis=axis, ddof=ddof if correction is NO else correction, keepdims=keepdims, where=where)
    if dtype is not None and not is_given(mean):
        mean = np.mean(a, axis, dtype, keepdims=True, where=where)
    means = (np.real(mean), np.imag(mean)) if is_given(mean) else (NO, NO)
    result = np.var(a.real, **options, mean=means[0])
    if np.iscomplexobj(values_of(a)):
        result = result + np.var(a.imag, **options, mean=means[1])
    return result if dtype is None else np.astype(result, dtype)


def std(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, **options):
    return np.sqrt(var(a, axis, dtype, ddof=ddof, keepdims=keepdims, **options))


# ---- polynomials, grids


def polyval(p, x):
    result = np.zeros_like(values_of(x))
    for k in range(len(p)):
        result = result * x + p[k]
    return result


def vander(x, N=None, increasing=False):
    if x.ndim != 1:
        raise ValueError("x must be a one-dimensional array or sequence.")
    x = np.astype(x, np.promote_types(x.dtype, int), copy=False)
    n = x.shape[0] if N is None else int(N)
    if n == 0:
        return lift(x._trace, np.zeros((x.shape[0], 0), x.dtype))
    columns = [np.ones_like(x)]
    for _ in range(n - 1):
        columns.append(columns[-1] * x)
    columns = columns[:n] if increasing else columns[:n][::-1]
    return np.stack([columns[0] + 0.0 * x, *columns[1:]] if len(columns) == 1 else columns, 1)


def linspace(start, stop, num=50, endpoint=True, retstep=False, dtype=None, axis=0, *, device=None):
    value = np.linspace(values_of(start), values_of(stop), num, endpoint, axis=axis)
    count = num - 1 if endpoint else num
    shape = (num, *(1,) * (value.ndim - 1))
    places = np.arange(num, dtype=float).reshape(shape) / max(count, 1)
    points = np.moveaxis(start + places * (stop - start), 0, axis)
    points = np.astype(points, value.dtype if dtype is None else as_dtype(dtype), copy=False)
    return (points, (stop - start) / count) if retstep else points


# ---- functions that turn complex where they must


def _extended(name: str, inside):
    """Register a function of ``np.emath``: complex if an entry is outside of the real domain (a guard)."""
    function, ufunc = getattr(np.emath, name), getattr(np, name)

    def extended(x):
        if np.iscomplexobj(values_of(x)):
            return ufunc(x)
        return ufunc(x) if bool(np.all(inside(x))) else ufunc(x + 0j)

    implements(function, complex=HOLDS)(extended)


for _name in ("sqrt", "log", "log2", "log10"):
    _extended(_name, lambda x: np.greater_equal(x, 0.0))
for _name in ("arcsin", "arccos", "arctanh"):
    _extended(_name, lambda x: np.less_equal(np.abs(x), 1.0))
