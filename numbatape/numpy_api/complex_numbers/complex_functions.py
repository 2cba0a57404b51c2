"""``__array_function__`` of complex numbers: dispatch, and functions that move or add up entries.

Most functions of complex arrays follow from the real ones: a *form* makes the implementation, and
the registration of the real function names the form (`numbatape.numpy_api.function_tables.implements`).
"""

from __future__ import annotations

import inspect

import numpy as np

from ...tape.tape import CONSTANT, as_dtype
from ...trace import complex_parts
from ...trace.array import TracedArray
from ...trace.complex_array import TracedComplex, meets
from ...trace.operands import adopt, may_be_guard, values_of
from ...trace.plain_arrays import as_ndarrays, trace_of_plain, wrap
from ..dispatch import writing
from ..function_tables import COMPLEX, form, full_name
from ..reductions import is_given
from .complex_ufuncs import unsupported


def call_complex_function(function, args, kwargs):
    """Call the implementation of a NumPy function that was given something complex."""
    return writing(_dispatch, function, args, kwargs)


def _dispatch(function, args, kwargs):
    trace = trace_of_plain(args, kwargs)
    args, kwargs = as_ndarrays((args, kwargs))
    name = full_name(function)
    if trace is not None and not any(True for _ in _traced((*args, *kwargs.values()))):
        return wrap(trace, function(*args, **kwargs))
    implementation = COMPLEX.find(function)
    if implementation is not None:
        return implementation(*args, **kwargs)
    found = list(_traced((*args, *kwargs.values())))
    if all(leaf._level == CONSTANT for leaf in found):
        found[0]._trace.pin_constants()
        return function(*values_of(args), **values_of(kwargs))
    raise unsupported(name)


def _traced(tree):
    for leaf in tree:
        if complex_parts.is_traced(leaf):
            yield leaf
        elif isinstance(leaf, (list, tuple)):
            yield from _traced(leaf)


# ---- the real function of both parts


def real_of(x):
    """Return an argument of a call with real parts in place of complex values, also in lists and tuples."""
    if isinstance(x, (list, tuple)):
        return x.__class__([real_of(one) for one in x])
    return x.real if complex_parts.is_traced(x) else np.real(x) if _is_plain_complex(x) else x


def imag_of(x):
    if isinstance(x, (list, tuple)):
        return x.__class__([imag_of(one) for one in x])
    if type(x) is TracedComplex:
        return x.imag
    if type(x) is TracedArray:
        return complex_parts.zeros_like(x)
    return np.imag(x) if _is_plain_complex(x) else np.zeros_like(x)[()]


def _is_plain_complex(x) -> bool:
    return isinstance(x, complex) or getattr(x, "dtype", np.dtype(float)).kind == "c"


def combine(re, im, value):
    """Return complex results of real ones: one array, or lists and tuples of them."""
    if isinstance(value, (list, tuple)):
        parts = [combine(*three) for three in zip(re, im, value, strict=True)]
        return value.__class__(parts)
    return complex_parts.make(re, im, value) if np.iscomplexobj(value) else re


@form
def by_parts(function):
    """Return the implementation of a function that is linear in its first argument, with real weights."""
    return _on_parts(function, 1)


@form
def by_parts_of_two(function):
    """Return the implementation of a function that is linear in its first two arguments."""
    return _on_parts(function, 2)


# Options whose values are put among the entries, or added to them: their own halves belong to both parts.
DATA = frozenset(("prepend", "append", "to_end", "to_begin", "initial"))


def _on_parts(function, count: int):
    """Return a function of complex arrays that NumPy computes of real and imaginary parts alike."""

    def call(*args, **kwargs):
        args, kwargs = _positional(function, count, args, kwargs)
        rest = (*args[count:], *(v for k, v in kwargs.items() if k not in DATA))
        if meets([x for x in rest if not _is_dtype(x)]):
            raise unsupported(full_name(function), "its other arguments must be real")
        value = function(*values_of(args), **values_of(kwargs))
        if kwargs.get("dtype") is not None:  # NumPy casts first
            kind = value.dtype if np.iscomplexobj(value) else as_dtype(kwargs["dtype"])
            args = (*(_cast(x, kind) for x in args[:count]), *args[count:])
            if kind.kind != "c":
                return function(*args, **kwargs)
        kwargs = {k: _order(v, args[0]) for k, v in kwargs.items() if k != "dtype"}
        data, args = args[:count], tuple(_order(option, args[0]) for option in args)
        args = (*data, *(None if _is_dtype(option) else option for option in args[count:]))

        def part(half):
            options = {k: half(v) if k in DATA and is_given(v) else v for k, v in kwargs.items()}
            return function(*map(half, data), *args[count:], **options)

        return combine(part(real_of), part(imag_of), value)

    return call


def _is_traced(x) -> bool:
    return type(x) in (TracedArray, TracedComplex)


def _cast(x, dtype):
    """Return a traced array, or a list of such arrays, in another dtype."""
    if isinstance(x, (list, tuple)):
        return [_cast(part, dtype) for part in x]
    return np.astype(x, dtype) if _is_traced(x) else x


def _order(option, x):
    """Return "C" or "F" for an order by memory, of the whole array: its parts have strides."""
    if not isinstance(option, str) or option not in tuple("AKak") or type(x) is not TracedComplex:
        return option
    if x.ndim > 1 and not x._trace.arguments.in_order:
        raise unsupported(f"order={option!r}", "the arguments are in another order than C; give 'C' or 'F'")
    x._trace.arguments.asks_order |= x.ndim > 1
    flags = np.asarray(x._value).flags
    if option in "Aa" or flags.forc:
        return "F" if flags.fnc else "C"
    return option


def _is_dtype(x) -> bool:
    return isinstance(x, (np.dtype, type))


def _positional(function, count: int, args, kwargs):
    """Return a call's arguments, the first ones by position, and data among the options by name."""
    if len(args) > count:
        names = _names(function)[: len(args)]
        first = next((k for k in range(count, len(names)) if names[k] in DATA), len(args))
        args, kwargs = args[:first], {**dict(zip(names[first:], args[first:], strict=False)), **kwargs}
    if len(args) >= count:
        return args, kwargs
    names = _names(function)[len(args) : count]
    kwargs = dict(kwargs)
    return (*args, *(kwargs.pop(name) for name in names if name in kwargs)), kwargs


def _names(function) -> list[str]:
    """Return the names of a function's parameters: none before NumPy 2.4, if it is written in C."""
    try:
        return list(inspect.signature(function).parameters)
    except ValueError:
        return []


@form
def of_all(function):
    """Return the implementation of a function whose arguments are all data."""

    def call(*args, **kwargs):
        value = function(*values_of(args), **kwargs)
        return combine(*(function(*map(half, args), **kwargs) for half in (real_of, imag_of)), value)

    return call


def insert(arr, obj, values, axis=None):
    value = np.insert(*values_of((arr, obj, values)), axis)
    parts = (np.insert(half(arr), obj, half(values), axis) for half in (real_of, imag_of))
    return combine(*parts, value)


# ---- order: by the real parts, and by the imaginary ones where those are equal


def argsort(a, axis=-1, kind=None, order=None, *, stable=None):
    if axis is None or a.ndim == 0:
        a, axis = np.ravel(a), 0
    second = np.argsort(a.imag, axis, kind="stable")
    first = np.argsort(np.take_along_axis(a.real, second, axis), axis, kind="stable")
    order = np.take_along_axis(second, first, axis)
    unknown = np.isnan(a)
    # Numbers with a NaN are behind all others, those with a real NaN last.
    if not may_be_guard(unknown) or np.any(unknown):
        kinds = np.take_along_axis(2.0 * np.isnan(a.real) + np.isnan(a.imag), order, axis)
        order = np.take_along_axis(order, np.argsort(kinds, axis, kind="stable"), axis)
    return order


def sort(a, axis=-1, kind=None, order=None, *, stable=None):
    if axis is None:
        a, axis = np.ravel(a), 0
    return np.take_along_axis(a, np.argsort(a, axis), axis)


def sinc(x):
    scaled = np.pi * x
    scaled = np.where(scaled == 0, 1e-20, scaled)  # NumPy replaces zeros by the same number.
    return np.sin(scaled) / scaled


# ---- choosing


def where(condition, x=None, y=None, /):
    condition = np.not_equal(condition, 0.0) if meets((condition,)) else condition
    if x is None and y is None:
        return np.nonzero(condition)
    value = np.where(*values_of((condition, x, y)))
    return combine(*(np.where(condition, half(x), half(y)) for half in (real_of, imag_of)), value)


def interp(x, xp, fp, left=None, right=None, period=None):
    if meets((x, xp)):
        raise unsupported("np.interp(x, xp, ...)", "only the values at the knots may be complex")
    value = np.interp(*values_of((x, xp, fp, left, right)), period)

    def part(half):
        ends = (None if end is None else half(end) for end in (left, right))
        return np.interp(x, xp, half(fp), *ends, period)

    return combine(part(real_of), part(imag_of), value)


def select(condlist, choicelist, default=0):
    result = default
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        result = np.where(condition, choice, result)
    return result


@form
def by_condition(function):
    """Return the implementation of a function that selects entries by a condition."""

    def call(condition, a, *args, **kwargs):
        value = function(values_of(condition), values_of(a), *args, **kwargs)
        condition = np.not_equal(condition, 0.0) if meets((condition,)) else condition
        return combine(*(function(condition, half(a), *args, **kwargs) for half in (real_of, imag_of)), value)

    return call


def pad(array, pad_width, mode="constant", **options):
    if mode in ("maximum", "minimum", "median") or callable(mode):
        raise unsupported(f"np.pad(..., mode={mode!r})", "an order by both parts has no derivative")
    value = np.pad(values_of(array), pad_width, mode, **options)
    done = []
    for half in (real_of, imag_of):
        own = {k: half(v) if k in ("constant_values", "end_values") else v for k, v in options.items()}
        done.append(np.pad(half(array), pad_width, mode, **own))
    return combine(*done, value)


# ---- questions, conversions


@form
def of_values(function):
    """Return the implementation of a function of shapes and dtypes: NumPy's own."""

    def answer(*args, **kwargs):
        for arg in args:
            if complex_parts.is_traced(arg):
                arg.shape  # noqa: B018  (records a guard)
        return function(*values_of(args), **values_of(kwargs))

    return answer


@form
def of_shapes(function):
    """Return the implementation of a function that makes an array like another one: NumPy's own."""

    def make(*args, **kwargs):
        found = next(_traced((*args, *kwargs.values())))
        found.shape  # noqa: B018  (records a guard)
        return wrap(found._trace, function(*values_of(args), **values_of(kwargs)))

    return make


@form
def of_truth(function):
    """Return the implementation of a function that asks which entries are not zero."""
    return lambda a, *args, **kwargs: function(np.not_equal(a, 0.0), *args, **kwargs)


def real(val):
    return val.real


def imag(val):
    return val.imag


def iscomplex(x):
    return np.not_equal(x.imag, 0.0)


def isreal(x):
    return np.equal(x.imag, 0.0)


def sliding_window_view(x, window_shape, axis=None, *, subok=False, writeable=False):
    windows = np.lib.stride_tricks.sliding_window_view
    value = windows(x._value, window_shape, axis, writeable=writeable)
    return complex_parts.each(x, lambda part: windows(part, window_shape, axis), value)


def real_if_close(a, tol=100):
    bound = tol * np.finfo(a.dtype).eps if tol > 1 else tol
    result = a.real if bool(np.all(np.abs(a.imag) < bound)) else a
    return (
        result if isinstance(values_of(a), np.ndarray) else np.copy(result)
    )  # of numbers NumPy makes an array


def astype(x, dtype, /, *, copy=True, device=None):
    dtype = as_dtype(dtype)
    if not copy and dtype == x.dtype:
        return x
    value = np.asarray(x._value).astype(dtype)
    value = value if isinstance(x._value, np.ndarray) else value[()]
    if dtype.kind == "c":
        return complex_parts.make(*complex_parts.halves(x), value)
    if dtype.kind == "b":
        return adopt(np.not_equal(x, 0.0), value)
    return np.astype(x.real, dtype)


def full_like(a, fill_value, dtype=None, order="K", subok=True, shape=None, *, device=None):
    value = np.full_like(values_of(a), values_of(fill_value), dtype, order, subok, shape)
    seen = np.broadcast_to(fill_value, np.shape(value))
    return np.astype(seen, value.dtype) if complex_parts.is_traced(seen) else value
