"""Sums, products, extrema, tests, counts, cumulative operations."""

from __future__ import annotations

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from ..emitter.instructions import row
from ..tape.tape import F64, as_dtype
from ..trace.array import TracedArray
from ..trace.axes import along_axis, axes_of, count_of, length, one_axis, over_axes, reduced
from ..trace.operands import adopt, begun, lift, lift_first
from ..trace.primitives import BOOL, FLOAT64, array_instruction, expand
from .function_tables import HOLDS
from .registration import composes

NO = np._NoValue
LOWEST, HIGHEST = -np.inf, np.inf


def prepared(x, dtype=None, where=NO, fill=None):
    """Return a reduction's operand: converted, and with ``fill`` where the mask is False."""
    x = lift_first(x, where)
    if dtype is not None:
        x = np.astype(x, as_dtype(dtype))
    return x if where is NO or where is True else np.where(where, x, fill)


def held(result, dtype=None):
    """Return a sum or product of whole numbers as its dtype holds it: small integers wrap around."""
    if dtype is None or as_dtype(dtype).kind not in "biu":
        return result
    if as_dtype(dtype).kind == "b":
        return np.not_equal(result, 0)
    return np.astype(result, as_dtype(dtype), copy=False)


def is_given(argument) -> bool:
    return argument is not NO and argument is not None


def flag(keepdims) -> bool:
    return keepdims is not NO and bool(keepdims)


def usual_axes(axis, ndim: int) -> tuple[int, ...]:
    """Return an axis that NumPy has accepted, or several, as a tuple of numbers that are not negative."""
    if axis is None:
        return tuple(range(ndim))
    return (axis % ndim,) if type(axis) is int else normalize_axis_tuple(axis, ndim)


ARITHMETIC = (np.add.reduce, np.multiply.reduce, np.maximum.reduce, np.minimum.reduce)


def reduction(op: str, function):
    """Return what serves reductions without options, of arrays of float64, by one call of NumPy's.

    Parameters
    ----------
    function
        The method of a ufunc that NumPy's own function calls.
    """
    its_row, kinds = row(op), (FLOAT64,) if function in ARITHMETIC else (FLOAT64, BOOL)

    def reduce(a, axis=None, *options, keepdims=False, **named):
        if options or named or type(a) is not TracedArray or a._family != F64:
            return None
        if type(keepdims) is not bool:
            return None  # NumPy takes any integer, too
        own = a._value
        if own.__class__ is not np.ndarray or own.dtype not in kinds or not (own.size and own.ndim):
            return None
        value = function(own, axis)
        axes = usual_axes(axis, own.ndim)
        result = reduced(its_row, a, axes, value)
        return expand(result, axes) if keepdims and axes else result

    return reduce


@composes(np.sum, complex="by_parts", usual=reduction("sum", np.add.reduce))
def sum_(a, axis=None, dtype=None, out=None, keepdims=False, initial=NO, where=NO):
    x = prepared(lift_first(a, initial, where), dtype, where, 0)
    result = over_axes("sum", x, axes_of(x, axis), np.add.reduce, flag(keepdims))
    return held(result + begun(initial, result.dtype) if is_given(initial) else result, dtype)


@composes(np.prod, complex="complex_reductions.prod", usual=reduction("prod", np.multiply.reduce))
def prod(a, axis=None, dtype=None, out=None, keepdims=False, initial=NO, where=NO):
    x = prepared(lift_first(a, initial, where), dtype, where, 1)
    result = over_axes("prod", x, axes_of(x, axis), np.multiply.reduce, flag(keepdims))
    return held(result * begun(initial, result.dtype) if is_given(initial) else result, dtype)


def _extremum(op: str, function, pairwise, worst):
    def reduce(a, axis=None, out=None, keepdims=False, initial=NO, where=NO):
        x = prepared(lift_first(a, initial, where), None, where, worst)
        axes = axes_of(x, axis)
        if not is_given(initial):
            return over_axes(op, x, axes, function, flag(keepdims))
        initial = begun(initial, lift_first(a).dtype)
        # An op without an identity has no result for no entries.
        if any([length(x, axis) < 1 for axis in axes]):
            count_of(x, range(x.ndim))
            shape = np.shape(np.sum(x._value, axis, keepdims=flag(keepdims)))
            return np.broadcast_to(lift(x._trace, initial), shape)
        return pairwise(over_axes(op, x, axes, function, flag(keepdims)), initial)

    return reduce


composes(np.max, np.amax, complex="complex_orders.largest", usual=reduction("max", np.maximum.reduce))(
    _extremum("max", np.maximum.reduce, np.maximum, LOWEST)
)
composes(np.min, np.amin, complex="complex_orders.smallest", usual=reduction("min", np.minimum.reduce))(
    _extremum("min", np.minimum.reduce, np.minimum, HIGHEST)
)


@composes(np.ptp, complex=HOLDS)
def ptp(a, axis=None, out=None, keepdims=False):
    keepdims = flag(keepdims)
    return np.max(a, axis, keepdims=keepdims) - np.min(a, axis, keepdims=keepdims)


def _position(op: str, function):
    def reduce(a, axis=None, out=None, *, keepdims=False):
        x = lift_first(a)
        return over_axes(op, x, axes_of(x, axis), function, flag(keepdims), ordered=True)

    return reduce


composes(np.argmax, complex="complex_orders.argmax")(_position("argmax", np.argmax))
composes(np.argmin, complex="complex_orders.argmin")(_position("argmin", np.argmin))


def _test(op: str, function, neutral):
    def reduce(a, axis=None, out=None, keepdims=False, *, where=NO):
        x = prepared(a, None, where, neutral)
        return over_axes(op, x, axes_of(x, axis), function, flag(keepdims))

    return reduce


composes(np.any, complex="of_truth", usual=reduction("any_nonzero", np.logical_or.reduce))(
    _test("any_nonzero", np.any, False)
)
composes(np.all, complex="of_truth", usual=reduction("all_nonzero", np.logical_and.reduce))(
    _test("all_nonzero", np.all, True)
)


@composes(np.count_nonzero, complex="of_truth")
def count_nonzero(a, axis=None, *, keepdims=False):
    x = lift_first(a)
    return over_axes("count_nonzero", x, axes_of(x, axis), np.count_nonzero, keepdims)


# ---- cumulative


def _cumulative(op: str, function):
    def accumulate(a, axis=None, dtype=None, out=None):
        return held(along_axis(op, prepared(a, dtype), axis, function), dtype)

    return accumulate


def _along_last(op: str, function):
    """Return what serves cumulative sums and products along the last axis by one call of NumPy's."""

    def accumulate(a, axis=None, *options, **named):
        if options or named or type(a) is not TracedArray or not (axis is None or type(axis) is int):
            return None
        own = a._value
        if own.__class__ is not np.ndarray or own.dtype is not FLOAT64 or not (own.size and own.ndim):
            return None
        last = own.ndim - 1
        if axis not in ((-1, 0, None) if last == 0 else (-1, last)):
            return None
        return array_instruction(op, (a,), function(own, last))

    return accumulate


composes(np.cumsum, complex="by_parts", usual=_along_last("cumsum", np.add.accumulate))(
    _cumulative("cumsum", np.cumsum)
)
composes(
    np.cumprod,
    complex="complex_reductions.cumprod",
    usual=_along_last("cumprod", np.multiply.accumulate),
)(_cumulative("cumprod", np.cumprod))


def _cumulative_with_initial(function, start):
    def accumulate(x, /, *, axis=None, dtype=None, out=None, include_initial=False):
        axis = axis[0] if isinstance(axis, tuple) else axis  # NumPy takes a tuple of one, too
        result = function(x, 0 if axis is None else axis, dtype)
        if not include_initial:
            return result
        axis = one_axis(result, 0 if axis is None else axis)
        block = (*result.shape[:axis], 1, *result.shape[axis + 1 :])
        return np.concatenate([np.full(block, start, result.dtype), result], axis)

    return accumulate


if hasattr(np, "cumulative_sum"):  # NumPy 2.1
    composes(np.cumulative_sum, complex=HOLDS)(_cumulative_with_initial(np.cumsum, 0))
    composes(np.cumulative_prod, complex=HOLDS)(_cumulative_with_initial(np.cumprod, 1))


# ---- logsumexp


def logsumexp(x, axis=None, keepdims=False):
    """Return ``log(sum(exp(x)))``, as ``np.logaddexp.reduce`` computes it."""
    x = lift_first(x)
    value = np.logaddexp.reduce(x._value, axis, keepdims=keepdims)
    return adopt(over_axes("logsumexp", x, axes_of(x, axis), np.logaddexp.reduce, keepdims), value)
