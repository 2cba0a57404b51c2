"""NumPy's functions that make arrays of lists with traced entries."""

from __future__ import annotations

import numpy as np

from ..trace import boxes
from ..trace.operands import find_trace, lift, lift_all
from ..trace.plain_arrays import as_ndarrays, has_plain, trace_of_plain, wrap
from .registration import unsupported_argument
from .stand_ins import stands_for


def _filled_in(x, dtype, ndmin=0):
    x = lift(find_trace(x), x)
    x = x if dtype is None else np.astype(x, np.dtype(dtype))
    return np.expand_dims(x, tuple(range(ndmin - x.ndim))) if x.ndim < ndmin else x


@stands_for("numpy", "array")
def array(object, dtype=None, *, copy=True, order="K", subok=False, ndmin=0):
    made = _filled_in(object, dtype, ndmin)
    return made if type(object) in (list, tuple) else np.copy(made)  # of a list it is a new array already


@stands_for("numpy", "asarray", "asanyarray")
def asarray(a, dtype=None, order=None, *, copy=None, device=None, like=None):
    return _filled_in(a, dtype)


@stands_for("numpy", "fromiter")
def fromiter(iter, dtype, count=-1, *, like=None):
    if len(iter) < count:
        raise ValueError(f"iterator too short: Expected {count} but iterator had only {len(iter)} items.")
    return array(iter, dtype)


@stands_for("numpy", "require")
def require(a, dtype=None, requirements=None, *, like=None):
    return _filled_in(a, dtype)


@stands_for("numpy", "from_dlpack", run=None)
def from_dlpack(x, /, *, device=None, copy=None):
    return np.copy(x) if copy else boxes.seen(x, np.from_dlpack)


@stands_for("numpy.ctypeslib", "as_array", run=None)
def as_array(obj, shape=None):
    return obj


@stands_for("numpy.ma", "filled", "getdata", run=None)
def filled(a, *args, **options):
    return a


@stands_for("numpy.lib.stride_tricks", "as_strided", run=None)
def as_strided(x, shape=None, strides=None, subok=False, writeable=True, **options):
    def view(value):
        return np.lib.stride_tricks.as_strided(value, shape, strides, writeable=writeable, **options)

    return boxes.seen(x, view)


@stands_for("numpy", "asarray_chkfinite")
def asarray_chkfinite(a, dtype=None, order=None):
    x = _filled_in(a, dtype)
    if x.dtype.kind in "fc" and not np.all(np.isfinite(x)):  # records a guard
        raise ValueError("array must not contain infs or NaNs")
    return x


@stands_for("numpy", "ascontiguousarray")
def ascontiguousarray(a, dtype=None):
    return _filled_in(a, dtype, ndmin=1)


@stands_for("numpy", "asfortranarray")
def asfortranarray(a, dtype=None):
    x = _filled_in(a, dtype, ndmin=1)
    return x if x._value.flags.f_contiguous else np.transpose(np.copy(np.transpose(x)))


@stands_for("numpy", "ndenumerate", run=None)
def ndenumerate(arr):
    x = lift(find_trace(arr), arr)
    return ((place, x[place]) for place in np.ndindex(x.shape))


@stands_for("numpy", "full")
def full(shape, fill_value, dtype=None, order="C"):
    return np.copy(np.broadcast_to(_filled_in(fill_value, dtype), shape))


def _of_lists(function):
    """Return NumPy's function with a list as its first argument stacked, if there are traced entries."""

    def call(a, *args, **kwargs):
        trace = find_trace(a, args, tuple(kwargs.values()))
        return function(a if trace is None else lift(trace, a), *args, **kwargs)

    return call


OF_LISTS = (
    *("sum", "prod", "mean", "var", "std", "max", "min", "median", "cumsum", "cumprod", "diff", "sort"),
    *("amax", "amin", "ptp", "average", "argmax", "argmin", "argsort", "any", "all", "diag", "diagflat"),
    *("tril", "triu", "trace", "outer", "inner", "kron", "vdot", "cross", "convolve", "flip", "roll"),
    *("ravel", "reshape", "transpose", "repeat", "tile", "quantile", "percentile", "polyval", "vander"),
    "pad",
    *("nansum", "nanmean", "nanmax", "nanmin", "squeeze", "atleast_1d", "atleast_2d", "broadcast_to", "clip"),
)
OF_LISTS_LINALG = (
    *("norm", "det", "slogdet", "inv", "pinv", "solve", "cholesky", "eigh", "eigvalsh", "qr", "svd"),
    *("matrix_power", "trace", "cond"),
)
for _name in OF_LISTS:
    stands_for("numpy", _name, run=None, for_lists=True)(_of_lists(getattr(np, _name)))
for _name in OF_LISTS_LINALG:
    stands_for("numpy.linalg", _name, run=None, for_lists=True)(_of_lists(getattr(np.linalg, _name)))


def _of_lists_of_lists(function):
    def call(arrays, *args, **kwargs):
        if isinstance(arrays, (list, tuple)):
            trace = find_trace(arrays)
            arrays = [lift(trace, x) if isinstance(x, (list, tuple)) else x for x in arrays]
        return function(arrays, *args, **kwargs)

    return call


for _name in ("concatenate", "stack", "hstack", "vstack", "dstack", "column_stack"):
    stands_for("numpy", _name, run=None)(_of_lists_of_lists(getattr(np, _name)))


@stands_for("numpy", "append", run=None)
def append(arr, values, axis=None):
    return np.append(*lift_all(arr, values), axis)


@stands_for("numpy", "dot", run=None, for_lists=True)
def dot(a, b, out=None):
    return np.dot(*lift_all(a, b), **({} if out is None else {"out": out}))


class _Joiner:
    """``np.r_`` and ``np.c_`` of arrays, numbers and slices."""

    def __init__(self, original, columns: bool):
        self._original, self._columns = original, columns

    def __getattr__(self, name):
        return getattr(self._original, name)

    def __len__(self):
        return 0

    def __getitem__(self, key):
        trace = find_trace(key)
        if trace is None:
            return (
                wrap(trace_of_plain(key), self._original[as_ndarrays(key)])
                if has_plain(key)
                else self._original[key]
            )
        key = as_ndarrays(key if isinstance(key, tuple) else (key,))
        parts = [self._original[part] if isinstance(part, slice) else part for part in key]
        if any(isinstance(part, str) for part in parts):
            raise unsupported_argument("np.r_", "directions in a string", "np.concatenate takes an axis")
        parts = [np.atleast_1d(lift(trace, part)) for part in parts]
        if self._columns:
            parts = [np.expand_dims(part, 1) if part.ndim == 1 else part for part in parts]
        return np.concatenate(parts, -1 if self._columns else 0)


JOINERS = {"r_": (np.r_, _Joiner(np.r_, False)), "c_": (np.c_, _Joiner(np.c_, True))}
