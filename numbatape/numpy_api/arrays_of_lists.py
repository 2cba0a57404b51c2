"""NumPy's functions that make arrays of lists with traced entries."""

from __future__ import annotations

import functools
import inspect
import sys

import numpy as np

from ..tape.families import ACTIVE
from ..tape.tape import as_dtype
from ..trace import boxes, operations
from ..trace.array import TracedArray
from ..trace.operands import find_trace, is_wrong, lift, lift_all, lift_first, values_of
from .registration import unsupported_argument
from .stand_ins import named_like, stands_for, without_protocol

SEQUENCES = (list, tuple)
WEAK = (int, float, complex)
PLAIN = frozenset((np.ndarray, np.float64, float, int, bool))


def _filled_in(x, dtype, ndmin=0):
    if dtype is not None and as_dtype(dtype).kind == "O":
        raise unsupported_argument("np.array", "dtype=object", "a list of traced values is")
    x = lift_first(x)
    if x._trace.arguments.labels:
        x = operations.without_rows(x)
    x = x if dtype is None else np.astype(x, as_dtype(dtype))
    return np.expand_dims(x, tuple(range(ndmin - x.ndim))) if x.ndim < ndmin else x


@stands_for("numpy", "array")
def array(object, dtype=None, *, copy=True, order="K", subok=False, ndmin=0, ndmax=None):
    made = _filled_in(object, dtype, ndmin)
    # An array made from a list is new already.
    return made if type(object) in (list, tuple) else np.copy(made)


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
    if x.dtype.kind in "fc" and is_wrong(~np.all(np.isfinite(x))):
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


@stands_for("numpy", "arange")
def arange(start, stop=None, step=1, dtype=None, *, device=None, like=None):
    """Return evenly spaced points; how many there are is a guard."""
    start, stop = (0, start) if stop is None else (start, stop)
    count = max(int(np.ceil((stop - start) / step)), 0)
    kinds = [np.asarray(end).dtype for end in values_of((start, stop, step))]
    dtype = np.result_type(int, *kinds) if dtype is None else as_dtype(dtype)
    # NumPy computes the points by the same formula, from the first two in their dtype.
    first, second = (np.astype(asarray(end, dtype), dtype, copy=False) for end in (start, start + step))
    return first + np.arange(count) * (second - first)


def _whole(M) -> int:
    """Return the length of a window, which a guard holds."""
    count = int(M)
    if count != M:
        raise unsupported_argument("a window", f"M={M!r}", "a length without a fraction")
    return count


def _of_length(window):
    def call(M):
        return window(_whole(M))

    return call


for _window in (np.bartlett, np.blackman, np.hamming, np.hanning):
    stands_for("numpy", _window.__name__)(_of_length(_window))


@stands_for("numpy", "kaiser")
def kaiser(M, beta):
    """Return the window of a plain length; the roots are plain numbers, so those of 0 need no derivative."""
    count = _whole(M)
    if count == 1:
        return np.ones(1) + 0.0 * beta
    places = 2.0 * np.arange(count) / (count - 1) - 1.0
    return np.i0(beta * np.sqrt(1.0 - places**2)) / np.i0(beta)


@stands_for("numpy", "full")
def full(shape, fill_value, dtype=None, order="C"):
    return np.copy(np.broadcast_to(_filled_in(fill_value, dtype), shape))


def _of_lists(function):
    """Return NumPy's function with a list as its first argument stacked, if there are traced entries."""

    def call(*args, **kwargs):
        trace = find_trace(args, tuple(kwargs.values()))
        if trace is not None and args:
            args = lift(trace, args[0]), *args[1:]
        elif trace is not None:  # The first argument is given by its name, which is each function's own.
            name = next(iter(inspect.signature(function).parameters))
            if name in kwargs:
                kwargs[name] = lift(trace, kwargs[name])
        return function(*args, **kwargs)

    return call


OF_LISTS = (
    *("sum", "prod", "mean", "var", "std", "max", "min", "median", "cumsum", "cumprod", "diff", "sort"),
    *("amax", "amin", "ptp", "average", "argmax", "argmin", "argsort", "any", "all", "diag", "diagflat"),
    *("tril", "triu", "trace", "outer", "inner", "kron", "vdot", "cross", "convolve", "flip", "roll"),
    *("ravel", "reshape", "transpose", "repeat", "tile", "quantile", "percentile", "polyval", "vander"),
    *("ndim", "pad", "shape", "size", "take"),
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


# NumPy's protocol looks into the lists that these functions take, or they write to their first argument, or
# their answer depends on who asks.
OF_SEQUENCES = frozenset(
    (
        *("copyto", "fill_diagonal", "ndim", "place", "put", "put_along_axis", "putmask", "shape", "size"),
        *("block", "choose", "column_stack", "concat", "concatenate", "dstack", "einsum", "einsum_path"),
        *("histogram2d", "histogramdd", "hstack", "lexsort", "multi_dot", "piecewise"),
        *("ravel_multi_index", "select", "stack", "vstack"),
    )
)
MODULES = ("numpy", "numpy.linalg", "numpy.fft")


def stacking(module: str) -> dict[str, tuple]:
    """Return ``{name: (original, what makes the stand-in)}`` for NumPy's functions of arrays in a module.

    NumPy's protocol sees traced arrays, and no lists of them: the stand-ins stack those first.
    """
    return {
        name: (function, functools.partial(stacking_lists, function))
        for name, function in vars(sys.modules[module]).items()
        if hasattr(function, "_implementation") and name not in OF_SEQUENCES
    }


def stacking_lists(function):
    """Return a function that stacks lists with traced entries, and calls NumPy's."""
    short_way, protocol = without_protocol(function), hasattr(function, "_implementation")

    def call(*args, **kwargs):
        found = short_way(args, kwargs)
        if found is not NotImplemented:
            return found
        trace = find_trace([x for x in (*args, *kwargs.values()) if type(x) in SEQUENCES])
        if trace is not None:
            args = tuple([_stacked(trace, x) for x in args])
            kwargs = {name: _stacked(trace, x) for name, x in kwargs.items()}
        # NumPy's protocol does not look at options, such as the order of a norm.
        given = (*args, *kwargs.values())
        option = next((x for x in given if type(x) is TracedArray and x._level == ACTIVE), None)
        if protocol and option is not None and ORDINARY.issuperset(map(type, args)):
            return option.__array_function__(function, (), args, kwargs)
        return function(*args, **kwargs)

    return named_like(call, function)


ORDINARY = frozenset((np.ndarray, TracedArray, int, float))


def _stacked(trace, x):
    return lift(trace, x) if type(x) in SEQUENCES and find_trace(x) is not None else x


# ---- ufuncs


UFUNC_METHODS = frozenset(("accumulate", "outer", "reduce", "reduceat"))


class UfuncOfLists:
    """A ufunc that also takes lists with traced entries: ``np.exp([a, b])``, ``np.add.reduce([a, b])``.

    NumPy asks traced arrays what a ufunc does with them, but converts the entries of a list to numbers. So
    the user's code gets this stand-in, which stacks such lists. It has the ufunc's attributes, is equal to
    it, and is an instance of `np.ufunc` for tests of types.
    """

    __slots__ = ("__wrapped__", "_arity", "_stacking")

    def __init__(self, ufunc: np.ufunc):
        self.__wrapped__ = ufunc
        self._arity = ufunc.nin
        self._stacking = stacking_lists(ufunc)

    def __call__(self, *args, **kwargs):
        traced, usual = None, True
        for x in args:
            kind = type(x)
            if kind is TracedArray:
                traced = x
            elif kind in SEQUENCES:
                return self._stacking(*args, **kwargs)
            elif kind not in PLAIN:
                usual = False
        if usual and traced is not None and not kwargs and len(args) == self._arity:
            if self.__wrapped__ is np.matmul:
                traced._trace.capture.note_product(*args, sys._getframe(1))
            # NumPy would call the same method 1 µs later.
            return traced.__array_ufunc__(self.__wrapped__, "__call__", *args)
        return self.__wrapped__(*args, **kwargs)

    @property
    def __class__(self):
        return np.ufunc

    def __getattr__(self, name: str):
        found = getattr(self.__wrapped__, name)
        if name == "at":
            return _at(found)
        return stacking_lists(found) if name in UFUNC_METHODS else found

    def __eq__(self, other):
        return self.__wrapped__ == (other.__wrapped__ if type(other) is UfuncOfLists else other)

    def __hash__(self):
        return hash(self.__wrapped__)

    def __repr__(self):
        return repr(self.__wrapped__)


def _at(original):
    """Return ``ufunc.at``; a tuple of indices, one for each axis, is no list of numbers."""

    def at(a, indices, *operands):
        trace = find_trace(operands)
        return original(a, indices, *operands if trace is None else [_stacked(trace, x) for x in operands])

    return at


def ufuncs_of_lists(module) -> dict[str, tuple]:
    """Return ``{name: (original, what makes the stand-in)}`` for the ufuncs of a module."""
    found = ((name, value) for name, value in vars(module).items() if type(value) is np.ufunc)
    return {name: (ufunc, functools.partial(_ufunc_of_lists, ufunc)) for name, ufunc in found}


@functools.cache
def _ufunc_of_lists(ufunc: np.ufunc) -> UfuncOfLists:
    return UfuncOfLists(ufunc)


# ---- functions that join arrays


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
    trace = find_trace((a, b))
    if trace is not None:
        trace.capture.note_product(a, b, sys._getframe(2))  # the frame before is that of the stand-in
    return np.dot(*lift_all(a, b), **({} if out is None else {"out": out}))
