"""``__array_function__`` of complex numbers: dispatch, and functions that move or add up entries."""

from __future__ import annotations

import inspect

import numpy as np

from ...tape.tape import CONSTANT
from ..array import TracedArray
from ..functions import registry
from ..functions.common import plain
from ..plain import strip, trace_of_plain, wrap
from . import arrays
from .array import TracedComplex, meets
from .ufuncs import unsupported

HANDLED: dict = {}
implements = registry.registering(HANDLED)


def dispatch(function, args, kwargs):
    """Call the implementation of a NumPy function that was given something complex."""
    return registry.writing(_dispatch, function, args, kwargs)


def _dispatch(function, args, kwargs):
    trace = trace_of_plain(args, kwargs)
    args, kwargs = strip((args, kwargs))
    name = registry.full_name(function)
    if trace is not None and not any(True for _ in _traced((*args, *kwargs.values()))):
        return wrap(trace, function(*args, **kwargs))
    implementation = HANDLED.get(function)
    if implementation is not None:
        return implementation(*args, **kwargs)
    found = list(_traced((*args, *kwargs.values())))
    if all(leaf._level == CONSTANT for leaf in found):
        found[0]._trace.pin_constants()
        return function(*plain(args), **plain(kwargs))
    raise unsupported(name)


def _traced(tree):
    for leaf in tree:
        if arrays.is_traced(leaf):
            yield leaf
        elif isinstance(leaf, (list, tuple)):
            yield from _traced(leaf)


# ---- the real function of both parts


def real_of(x):
    """Return what stands for the real part in a call, lists and tuples entry by entry."""
    if isinstance(x, (list, tuple)):
        return x.__class__([real_of(one) for one in x])
    return x.real if arrays.is_traced(x) else np.real(x) if _is_plain_complex(x) else x


def imag_of(x):
    if isinstance(x, (list, tuple)):
        return x.__class__([imag_of(one) for one in x])
    if type(x) is TracedComplex:
        return x.imag
    if type(x) is TracedArray:
        return arrays.zeros_like(x)
    return np.imag(x) if _is_plain_complex(x) else np.zeros_like(x)[()]


def _is_plain_complex(x) -> bool:
    return isinstance(x, complex) or getattr(x, "dtype", np.dtype(float)).kind == "c"


def combine(re, im, value):
    """Return complex results of real ones: one array, or lists and tuples of them."""
    if isinstance(value, (list, tuple)):
        parts = [combine(*three) for three in zip(re, im, value, strict=True)]
        return value.__class__(parts)
    return arrays.make(re, im, value) if np.iscomplexobj(value) else re


def by_parts(count: int, *functions):
    """Register functions that are linear in their first ``count`` arguments, with real weights."""
    for function in functions:
        HANDLED[function] = _on_parts(function, count)


def _on_parts(function, count: int):
    def call(*args, **kwargs):
        args, kwargs = _positional(function, count, args, kwargs)
        rest = (*args[count:], *kwargs.values())
        if meets([x for x in rest if not _is_dtype(x)]):
            raise unsupported(registry.full_name(function), "its other arguments must be real")
        value = function(*plain(args), **plain(kwargs))
        kwargs = {k: _order(v, args[0]) for k, v in kwargs.items() if k != "dtype"}  # the value has it
        data, args = args[:count], tuple(_order(option, args[0]) for option in args)
        re = function(*map(real_of, data), *args[count:], **kwargs)
        im = function(*map(imag_of, data), *args[count:], **kwargs)
        return combine(re, im, value)

    return call


def _order(option, x):
    """Return an order of entries by the memory of the whole array: its parts are strided."""
    if not isinstance(option, str) or option not in ("A", "K") or type(x) is not TracedComplex:
        return option
    flags = np.asarray(x._value).flags
    if option == "A" or flags.forc:
        return "F" if flags.fnc else "C"
    return option


def _is_dtype(x) -> bool:
    return isinstance(x, (np.dtype, type))


def _positional(function, count: int, args, kwargs):
    """Return a call with the first arguments by position."""
    if len(args) >= count:
        return args, kwargs
    names = list(inspect.signature(function).parameters)[len(args) : count]
    kwargs = dict(kwargs)
    return (*args, *(kwargs.pop(name) for name in names if name in kwargs)), kwargs


by_parts(
    1,
    *(np.reshape, np.ravel, np.transpose, np.swapaxes, np.moveaxis, np.rollaxis, np.expand_dims),
    *(np.squeeze, np.matrix_transpose, np.linalg.matrix_transpose, np.broadcast_to, np.copy, np.flip),
    *(np.fliplr, np.flipud, np.rot90, np.roll, np.tile, np.repeat, np.resize, np.diag, np.diagonal),
    *(np.linalg.diagonal, np.diagflat, np.tril, np.triu, np.trace, np.linalg.trace, np.concatenate),
    *(np.stack, np.vstack, np.hstack, np.dstack, np.column_stack, np.block, np.split, np.array_split),
    *(np.hsplit, np.vsplit, np.dsplit, np.take, np.take_along_axis, np.delete, np.sum, np.cumsum),
    *(np.mean, np.average, np.diff, np.ediff1d, np.gradient, np.trapezoid, np.round, np.around),
    np.nan_to_num,
    *(getattr(np, name) for name in ("concat", "permute_dims", "unstack") if hasattr(np, name)),
)
by_parts(2, np.append)


def _of_all(function):
    """Register a function whose arguments are all data."""

    def call(*args, **kwargs):
        value = function(*plain(args), **kwargs)
        return combine(*(function(*map(half, args), **kwargs) for half in (real_of, imag_of)), value)

    HANDLED[function] = call


for _function in (np.atleast_1d, np.atleast_2d, np.atleast_3d, np.broadcast_arrays, np.meshgrid):
    _of_all(_function)


# ---- choosing


@implements(np.where)
def where(condition, x=None, y=None, /):
    condition = np.not_equal(condition, 0.0) if meets((condition,)) else condition
    if x is None and y is None:
        return np.nonzero(condition)
    value = np.where(*plain((condition, x, y)))
    return combine(*(np.where(condition, half(x), half(y)) for half in (real_of, imag_of)), value)


@implements(np.select)
def select(condlist, choicelist, default=0):
    result = default
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        result = np.where(condition, choice, result)
    return result


def _by_condition(function):
    def call(condition, a, *args, **kwargs):
        value = function(plain(condition), plain(a), *args, **kwargs)
        return combine(*(function(condition, half(a), *args, **kwargs) for half in (real_of, imag_of)), value)

    HANDLED[function] = call


_by_condition(np.compress)
_by_condition(np.extract)


@implements(np.pad)
def pad(array, pad_width, mode="constant", **options):
    value = np.pad(plain(array), pad_width, mode, **options)
    done = []
    for half in (real_of, imag_of):
        own = {k: half(v) if k == "constant_values" else v for k, v in options.items()}
        done.append(np.pad(half(array), pad_width, mode, **own))
    return combine(*done, value)


# ---- questions, conversions


def _of_values(*functions):
    """Let NumPy answer what depends on shapes and dtypes alone."""

    def register(function):
        def answer(*args, **kwargs):
            for arg in args:
                if arrays.is_traced(arg):
                    arg.shape  # noqa: B018  (a guard)
            return function(*plain(args), **plain(kwargs))

        HANDLED[function] = answer

    for function in functions:
        register(function)


_of_values(
    *(np.shape, np.size, np.result_type, np.can_cast, np.common_type, np.isrealobj, np.iscomplexobj),
)


def _of_shapes(function):
    def make(*args, **kwargs):
        found = next(_traced((*args, *kwargs.values())))
        found.shape  # noqa: B018  (a guard)
        return wrap(found._trace, function(*plain(args), **plain(kwargs)))

    HANDLED[function] = make


for _function in (np.zeros_like, np.ones_like, np.empty_like):
    _of_shapes(_function)
HANDLED[np.ndim] = lambda a: np.ndim(plain(a))
HANDLED[np.real] = lambda val: val.real
HANDLED[np.imag] = lambda val: val.imag
HANDLED[np.iscomplex] = lambda x: np.not_equal(x.imag, 0.0)
HANDLED[np.isreal] = lambda x: np.equal(x.imag, 0.0)
HANDLED[np.any] = lambda a, *args, **kwargs: np.any(np.not_equal(a, 0.0), *args, **kwargs)
HANDLED[np.all] = lambda a, *args, **kwargs: np.all(np.not_equal(a, 0.0), *args, **kwargs)
HANDLED[np.count_nonzero] = lambda a, *args, **kwargs: np.count_nonzero(np.not_equal(a, 0.0), *args, **kwargs)
HANDLED[np.nonzero] = lambda a: np.nonzero(np.not_equal(a, 0.0))


@implements(np.angle)
def angle(z, deg=False):
    turn = np.arctan2(z.imag, z.real)
    return turn * (180.0 / np.pi) if deg else turn


registry.implements(np.angle)(angle)


@implements(np.lib.stride_tricks.sliding_window_view)
def sliding_window_view(x, window_shape, axis=None, *, subok=False, writeable=False):
    windows = np.lib.stride_tricks.sliding_window_view
    value = windows(x._value, window_shape, axis, writeable=writeable)
    return arrays.each(x, lambda part: windows(part, window_shape, axis), value)


@implements(np.real_if_close)
def real_if_close(a, tol=100):
    bound = tol * np.finfo(a.dtype).eps if tol > 1 else tol
    return a.real if bool(np.all(np.abs(a.imag) < bound)) else a


@implements(np.astype)
def astype(x, dtype, /, *, copy=True, device=None):
    dtype = np.dtype(dtype)
    if not copy and dtype == x.dtype:
        return x
    value = np.asarray(x._value).astype(dtype)
    value = value if isinstance(x._value, np.ndarray) else value[()]
    if dtype.kind == "c":
        return arrays.make(*arrays.halves(x), value)
    if dtype.kind == "b":
        return np.not_equal(x, 0.0)
    return np.astype(x.real, dtype)


@implements(np.full_like)
def full_like(a, fill_value, dtype=None, order="K", subok=True, shape=None, *, device=None):
    value = np.full_like(plain(a), plain(fill_value), dtype, order, subok, shape)
    seen = np.broadcast_to(fill_value, np.shape(value))
    return np.astype(seen, value.dtype) if arrays.is_traced(seen) else value


# Compositions written for real arrays that hold for complex ones as they stand.
for _function in (
    *(np.isclose, np.allclose, np.array_equal, np.array_equiv),
    *(np.linalg.matrix_power, np.apply_along_axis),
):
    HANDLED[_function] = registry.HANDLED[_function]

from . import fft, linalg, products, reductions, stand_ins  # noqa: E402, F401  (they register themselves)
