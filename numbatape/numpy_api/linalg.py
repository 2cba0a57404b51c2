"""``np.linalg``: factorisations, systems, determinants, norms, powers."""

from __future__ import annotations

import string
from operator import index

import numpy as np

from ..emitter import addresses
from ..emitter.instructions import array_op_of_level, row
from ..tape.families import ACTIVE
from ..tape.tape import F64
from ..trace.array import TracedArray, new_traced
from ..trace.axes import axes_of, count_of, drop_axes, is_empty, length, over_axes
from ..trace.operands import lift, lift_all, lift_first
from ..trace.primitives import FLOAT64, array_instruction, expand, trace_of
from .caught_errors import columns, factorisation, fails_as, is_caught, triangle
from .decompositions import spectral_norm
from .function_tables import HOLDS
from .registration import composes, records


@records(np.linalg.cholesky, complex="complex_matrices.cholesky")
def cholesky(value, a, /, *, upper=False):
    return cholesky_factor(a, upper, value)


def cholesky_factor(a, upper: bool, value):
    """Return the factor of one triangle; the other one is not read."""
    if not upper:
        return factorisation("cholesky", (a,), value)
    lower = factorisation("cholesky", (np.matrix_transpose(a),), np.swapaxes(value, -1, -2))
    return np.matrix_transpose(lower)


@fails_as("numpy", "cholesky")
def _failed_cholesky(a, /, *, upper=False):
    return "cholesky", triangle(a, not upper)


def solve_system(op: str, a, b, value):
    """Return ``a^-1 b`` by an op for matrices; a vector ``b`` stands for one column."""
    if b.ndim > 1:
        return factorisation(op, (a, b), value)
    # One instruction on the cells takes less time to record than traced arrays of the views.
    if value.dtype is FLOAT64 and a._family == b._family == F64 and not is_caught(op, (a, b)):
        trace = trace_of((a, b))
        numbers = a._id, addresses.expanded(trace.tape, b._id, (1,))
        out, level = array_op_of_level(trace.tape, row(op), F64, numbers, trace.line(), {}, True)
        return new_traced(trace, value, addresses.dropped(trace.tape, out, (-1,)), level, F64)
    return drop_axes(factorisation(op, (a, expand(b, (1,))), value[..., None]), (-1,))


@records(np.linalg.solve, complex="complex_linalg.solve")
def solve(value, a, b):
    return solve_system("solve", *lift_all(a, b), value)


@fails_as("numpy", "solve")
def _failed_solve(a, b):
    return "solve", *columns(a, b)


@records(np.linalg.inv, complex="complex_linalg.inv")
def inv(value, a):
    return factorisation("inv", (a,), value)


@fails_as("numpy", "inv")
def _failed_inv(a):
    return "inv", lift_first(a)


@records(np.linalg.det, complex="complex_matrices.det")
def det(value, a):
    return array_instruction("det", (a,), value)


@records(np.linalg.slogdet, complex="complex_matrices.slogdet")
def slogdet(value, a):
    sign = array_instruction("detsign", (a,), value.sign)
    return type(value)(sign, array_instruction("logabsdet", (a,), value.logabsdet))


@composes(np.linalg.matrix_power, complex=HOLDS)
def matrix_power(a, n):
    n = index(n)
    if length(a, -2) != length(a, -1):  # a guard: the first power is a copy, which has any shape
        raise np.linalg.LinAlgError("Last 2 dimensions of the array must be square")
    if n == 0:
        return lift(a._trace, np.broadcast_to(np.eye(a.shape[-1], dtype=a.dtype), a.shape))
    a, n = (np.linalg.inv(a), -n) if n < 0 else (a, n)
    result, power = None, a
    while True:
        if n & 1:
            result = power if result is None else result @ power
        n >>= 1
        if not n:
            return result[...] if result is a else result
        power = power @ power


@composes(np.linalg.multi_dot, complex="complex_products.multi_dot")
def multi_dot(arrays, *, out=None):
    arrays = lift_all(*arrays)
    letters = string.ascii_letters
    terms, place = [], 0
    for x in arrays:
        terms.append(letters[place : place + x.ndim])
        place += x.ndim - 1
    return np.einsum(f"{','.join(terms)}->{terms[0][:-1]}{terms[-1][1:]}", *arrays)


# ---- norms


@composes(np.linalg.norm, complex="complex_linalg.norm")
def norm(x, ord=None, axis=None, keepdims=False):
    x = _as_floats(lift_first(x))
    axes = axes_of(x, axis)
    if ord is None:
        return _euclidean(x, axes, keepdims)
    return _norm(x, ord, axes, keepdims)


def _norm(x, ord, axes, keepdims):
    if len(axes) == 1:
        return _vector_norm(x, ord, axes, keepdims)
    if ord == "fro":
        return _euclidean(x, axes, keepdims)
    if ord in (1, -1, np.inf, -np.inf):
        return _matrix_norm(x, ord, axes, keepdims)
    return spectral_norm(x, ord, axes, keepdims)


def _euclidean(x, axes, keepdims):
    def value(merged, axis):
        return np.linalg.norm(merged, axis=axis)

    return over_axes("norm2", _as_floats(x), axes, value, keepdims)


def _as_floats(x):
    return x if x.dtype.kind == "f" else np.astype(x, float)


def moves(ord) -> bool:
    """Whether an order has a derivative, so that no formula for a single order gives that."""
    return type(ord) is TracedArray and ord._level == ACTIVE


def _vector_norm(x, ord, axes, keepdims):
    if not moves(ord) and ord == 2:
        return _euclidean(x, axes, keepdims)
    if ord == np.inf:
        least = {"initial": 0.0} if is_empty(x) else {}
        return np.max(np.abs(x), axes, keepdims=keepdims, **least)
    if ord == -np.inf:
        return np.min(np.abs(x), axes, keepdims=keepdims)
    if ord == 0:
        return np.astype(np.sum(np.not_equal(x, 0), axes, keepdims=keepdims), x.dtype)
    if not moves(ord) and ord == 1:
        return np.sum(np.abs(x), axes, keepdims=keepdims)
    total = np.sum(np.power(np.abs(x), ord), axes, keepdims=keepdims)
    if ord < 0:
        return np.power(total, 1.0 / ord)
    nothing = np.equal(total, 0.0)  # the norm of zero has derivative 0
    return np.where(nothing, 0.0, np.power(np.where(nothing, 1.0, total), 1.0 / ord))


def _matrix_norm(x, ord, axes, keepdims):
    row, column = axes
    summed, rest = (row, column) if abs(ord) == 1 else (column, row)
    sums = np.sum(np.abs(x), summed, keepdims=True)
    least = {"initial": 0.0} if ord > 0 and is_empty(sums) else {}
    result = (np.max if ord > 0 else np.min)(sums, rest, keepdims=True, **least)
    return result if keepdims else drop_axes(result, axes)


@composes(np.linalg.vector_norm, complex="complex_linalg.vector_norm")
def vector_norm(x, /, *, axis=None, keepdims=False, ord=2):
    x = lift_first(x)
    axes = axes_of(x, axis)
    if len(axes) != 1:  # several axes are one vector of all the entries, in the order of the axes
        kept = [k for k in range(x.ndim) if k not in axes]
        flat = np.reshape(np.transpose(x, [*kept, *axes]), [*(x.shape[k] for k in kept), count_of(x, axes)])
        result = _vector_norm(flat, ord, (flat.ndim - 1,), False)
        return expand(result, axes) if keepdims and axes else result
    return _vector_norm(x, ord, axes, keepdims)


@composes(np.linalg.matrix_norm, complex="complex_linalg.matrix_norm")
def matrix_norm(x, /, *, keepdims=False, ord="fro"):
    x = lift_first(x)
    return _norm(x, ord, (x.ndim - 2, x.ndim - 1), keepdims)
