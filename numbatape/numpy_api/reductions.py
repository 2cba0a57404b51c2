"""Sums, products, extrema, tests, counts, cumulative operations."""

from __future__ import annotations

import numpy as np

from ..trace.array import TracedArray
from ..trace.axes import along_axis, axes_of, count_of, one_axis, over_axes
from ..trace.operands import adopt, lift_first
from ..trace.primitives import FLOAT64
from .function_tables import HOLDS
from .registration import composes, records, run_composition

NO = np._NoValue
LOWEST, HIGHEST = -np.inf, np.inf


def prepared(x, dtype=None, where=NO, fill=None):
    """Return a reduction's operand: converted, and with ``fill`` where the mask is False."""
    x = lift_first(x, where)
    if dtype is not None:
        x = np.astype(x, np.dtype(dtype))
    return x if where is NO or where is True else np.where(where, x, fill)


def is_given(argument) -> bool:
    return argument is not NO and argument is not None


def flag(keepdims) -> bool:
    return keepdims is not NO and bool(keepdims)


@records(np.sum, complex="by_parts")
def sum_(value, a, axis=None, *options, **named):
    if not options and not named and type(a) is TracedArray and a.dtype is FLOAT64:
        return over_axes("sum", a, axes_of(a, axis), None, value=value)  # most calls: NumPy is called once
    return run_composition(_sum, value, (a, axis, *options), named)


def _sum(a, axis=None, dtype=None, out=None, keepdims=False, initial=NO, where=NO):
    x = prepared(lift_first(a, initial, where), dtype, where, 0)
    result = over_axes("sum", x, axes_of(x, axis), np.add.reduce, flag(keepdims))
    return result + initial if is_given(initial) else result


@composes(np.prod, complex="complex_reductions.prod")
def prod(a, axis=None, dtype=None, out=None, keepdims=False, initial=NO, where=NO):
    x = prepared(lift_first(a, initial, where), dtype, where, 1)
    result = over_axes("prod", x, axes_of(x, axis), np.multiply.reduce, flag(keepdims))
    return result * initial if is_given(initial) else result


def _extremum(op: str, function, pairwise, worst):
    def reduce(a, axis=None, out=None, keepdims=False, initial=NO, where=NO):
        x = prepared(lift_first(a, initial, where), None, where, worst)
        axes = axes_of(x, axis)
        if not is_given(initial):
            return over_axes(op, x, axes, function, flag(keepdims))
        if count_of(x, axes) == 0:  # the op has no identity
            count_of(x, range(x.ndim))
            return np.broadcast_to(initial, np.shape(np.sum(x._value, axis, keepdims=flag(keepdims))))
        return pairwise(over_axes(op, x, axes, function, flag(keepdims)), initial)

    return reduce


composes(np.max, np.amax)(_extremum("max", np.maximum.reduce, np.maximum, LOWEST))
composes(np.min, np.amin)(_extremum("min", np.minimum.reduce, np.minimum, HIGHEST))


@composes(np.ptp)
def ptp(a, axis=None, out=None, keepdims=False):
    keepdims = flag(keepdims)
    return np.max(a, axis, keepdims=keepdims) - np.min(a, axis, keepdims=keepdims)


def _position(op: str, function):
    def reduce(a, axis=None, out=None, *, keepdims=False):
        x = lift_first(a)
        return over_axes(op, x, axes_of(x, axis), function, flag(keepdims), ordered=True)

    return reduce


composes(np.argmax)(_position("argmax", np.argmax))
composes(np.argmin)(_position("argmin", np.argmin))


def _test(op: str, function, neutral):
    def reduce(a, axis=None, out=None, keepdims=False, *, where=NO):
        x = prepared(a, None, where, neutral)
        return over_axes(op, x, axes_of(x, axis), function, flag(keepdims))

    return reduce


composes(np.any, complex="of_truth")(_test("any_nonzero", np.any, False))
composes(np.all, complex="of_truth")(_test("all_nonzero", np.all, True))


@composes(np.count_nonzero, complex="of_truth")
def count_nonzero(a, axis=None, *, keepdims=False):
    x = lift_first(a)
    return over_axes("count_nonzero", x, axes_of(x, axis), np.count_nonzero, keepdims)


# ---- cumulative


def _cumulative(op: str, function):
    def accumulate(a, axis=None, dtype=None, out=None):
        return along_axis(op, prepared(a, dtype), axis, function)

    return accumulate


cumsum = _cumulative("cumsum", np.cumsum)
cumprod = _cumulative("cumprod", np.cumprod)
composes(np.cumsum, complex="by_parts")(cumsum)
composes(np.cumprod, complex="complex_reductions.cumprod")(cumprod)


def _cumulative_with_initial(function, start):
    def accumulate(x, /, *, axis=None, dtype=None, out=None, include_initial=False):
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
