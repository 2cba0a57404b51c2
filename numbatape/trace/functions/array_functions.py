"""NumPy's functions that make arrays of lists with traced entries."""

from __future__ import annotations

import numpy as np

from ..primitives import expand
from .common import find_trace, lift, lift_all, unsupported_argument
from .stand_ins import stands_for


def _filled_in(x, dtype, ndmin=0):
    x = lift(find_trace(x), x)
    x = x if dtype is None else np.astype(x, np.dtype(dtype))
    return expand(x, tuple(range(ndmin - x.ndim))) if x.ndim < ndmin else x


@stands_for("numpy", "array")
def array(object, dtype=None, *, copy=True, order="K", subok=False, ndmin=0):
    return np.copy(_filled_in(object, dtype, ndmin))


@stands_for("numpy", "asarray", "asanyarray", "ascontiguousarray")
def asarray(a, dtype=None, order=None, *, copy=None):
    return _filled_in(a, dtype)


@stands_for("numpy", "asfortranarray")
def asfortranarray(a, dtype=None):
    x = _filled_in(a, dtype)
    return x if x._value.flags.f_contiguous else np.transpose(np.copy(np.transpose(x)))


@stands_for("numpy", "ndenumerate", run=None)
def ndenumerate(arr):
    x = lift(find_trace(arr), arr)
    return ((place, x[place]) for place in np.ndindex(x.shape))


@stands_for("numpy", "full")
def full(shape, fill_value, dtype=None, order="C"):
    return np.copy(np.broadcast_to(_filled_in(fill_value, dtype), shape))


def _of_lists(function):
    def call(a, *args, **kwargs):
        return function(lift(find_trace(a, args), a), *args, **kwargs)

    return call


for _name in ("sum", "prod", "mean", "var", "std", "max", "min", "median", "cumsum", "diff", "sort"):
    stands_for("numpy", _name, run=None)(_of_lists(getattr(np, _name)))


@stands_for("numpy", "dot", run=None)
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
            return self._original[key]
        parts = [self._original[part] if isinstance(part, slice) else part for part in key]
        if any(isinstance(part, str) for part in parts):
            raise unsupported_argument("np.r_", "directions in a string", "np.concatenate takes an axis")
        parts = [np.atleast_1d(lift(trace, part)) for part in parts]
        if self._columns:
            parts = [expand(part, (1,)) if part.ndim == 1 else part for part in parts]
        return np.concatenate(parts, -1)


JOINERS = {"r_": (np.r_, _Joiner(np.r_, False)), "c_": (np.c_, _Joiner(np.c_, True))}
