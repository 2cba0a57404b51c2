"""Questions about arrays: shapes, dtypes, closeness."""

from __future__ import annotations

import math
import sys

import numpy as np

from ..trace.axes import axes_of
from ..trace.operands import find_trace, lift_all, lift_first, may_be_guard, values_of
from ..trace.primitives import elementwise
from ..trace.shared_inputs import in_common_memory
from ..usercode.ownership import sees_sizes
from .function_tables import HOLDS, implements
from .registration import composes

STAND_INS = (
    "stand_ins.py",
    "arrays_of_lists.py",
)  # the files whose functions call NumPy's for the user's code


@implements(np.shape, complex="of_values")
def shape(a):
    return _sizes(a)


@implements(np.ndim, complex=HOLDS)
def ndim(a):
    return np.ndim(values_of(a))


@implements(np.size, complex="of_values")
def size(a, axis=None):
    shape = _sizes(a)
    return math.prod(shape[k] for k in axes_of(lift_first(a), axis))


def _sizes(a) -> tuple:
    """Return the shape, with traced ints if the user's code asks."""
    frame = sys._getframe(2)
    while not sees_sizes(frame) and frame.f_code.co_name != "__array_function__":
        frame = frame.f_back
    frame = frame.f_back or frame
    # Stand-ins are what the user's code calls in NumPy's place.
    while not sees_sizes(frame) and frame.f_code.co_filename.endswith(STAND_INS):
        frame = frame.f_back
    x = lift_first(a)
    return x._sizes() if sees_sizes(frame) else x.shape


def _of_dtypes(function, complex=None):
    """Let NumPy answer what depends on dtypes and dimensions alone."""

    def answer(*args, **kwargs):
        return function(*values_of(args), **values_of(kwargs))

    implements(function, complex=complex)(answer)


for _function in (np.result_type, np.can_cast, np.common_type, np.isrealobj, np.iscomplexobj):
    _of_dtypes(_function, "of_values")
_of_dtypes(np.min_scalar_type)


def _of_memory(function):
    """Let NumPy answer whether arrays share memory; the same array passed as two arguments does."""

    def answer(a, b, max_work=None):
        trace = find_trace(a, b)
        trace.arguments.written = True  # a tape for other arguments may do something else
        return function(*in_common_memory(trace, list(values_of((a, b)))), max_work)

    implements(function, complex="of_values")(answer)


for _function in (np.may_share_memory, np.shares_memory):
    _of_memory(_function)


@composes(np.isclose, complex=HOLDS)
def isclose(a, b, rtol=1e-05, atol=1e-08, equal_nan=False):
    # Python's numbers have no dtype of their own: tolerances are compared in that of the arrays.
    a, b = (x if isinstance(x, (int, float, complex)) else lift_all(x)[0] for x in (a, b))
    if isinstance(b, bool) or getattr(b, "dtype", None) == np.bool_:
        b = float(b) if isinstance(b, bool) else np.astype(b, float)
    near = np.less_equal(abs(a - b), atol + rtol * abs(b))
    result = np.logical_or(np.logical_and(near, np.isfinite(b)), np.equal(a, b))
    if equal_nan:
        result = np.logical_or(result, np.logical_and(np.isnan(a), np.isnan(b)))
    return result


@implements(np.allclose, complex=HOLDS)
def allclose(a, b, rtol=1e-05, atol=1e-08, equal_nan=False):
    return _truth(np.all(np.isclose(a, b, rtol, atol, equal_nan)))


@implements(np.array_equal, complex=HOLDS)
def array_equal(a1, a2, equal_nan=False):
    a1, a2 = lift_all(a1, a2)
    return a1.shape == a2.shape and _all_equal(a1, a2, equal_nan)


@implements(np.array_equiv, complex=HOLDS)
def array_equiv(a1, a2):
    a1, a2 = lift_all(a1, a2)
    try:
        np.broadcast_shapes(a1.shape, a2.shape)
    except ValueError:
        return False
    return _all_equal(a1, a2, False)


def _truth(outcome):
    """Return a truth value as Python's, as NumPy does; in the body of a loop it differs between steps."""
    return bool(outcome) if may_be_guard(outcome) else outcome


def _all_equal(a, b, equal_nan):
    same = np.equal(a, b)
    if equal_nan:
        same = np.logical_or(same, np.logical_and(np.isnan(a), np.isnan(b)))
    return _truth(np.all(same))


# ---- functions that are one row of the table


def _one_row(function, name: str, complex: str | None = None):
    def call(x, out=None):
        return elementwise(name, x)

    composes(function, complex=complex)(call)


_one_row(np.sinc, "sinc", "complex_functions.sinc")
_one_row(np.i0, "i0")
if not isinstance(np.fix, np.ufunc):
    _one_row(np.fix, "trunc")


def _infinite(function, sign):
    def test(x, out=None):
        return np.equal(x, sign * np.inf)

    composes(function)(test)


_infinite(np.isposinf, 1.0)
_infinite(np.isneginf, -1.0)


@composes(np.round, np.around, complex="by_parts")
def round_(a, decimals=0, out=None):
    if a.dtype.kind in "iu" and decimals >= 0:
        return a[...]
    if decimals == 0:
        return np.rint(a)
    scale = 10.0 ** abs(decimals)
    return np.rint(a * scale) / scale if decimals > 0 else np.rint(a / scale) * scale
