"""Products of vectors, matrices and tensors: ``dot`` and ``matmul`` instructions over views."""

from __future__ import annotations

from operator import index

import numpy as np

from ..emitter import addresses, instructions
from ..tape.tape import F64
from ..trace.array import TracedArray, new_traced, revalue
from ..trace.axes import axes_of, axis_to_end, drop_axes, length, merge, pinned, unmerge
from ..trace.operands import lift_all
from ..trace.primitives import FLOAT64, array_instruction, elementwise, expand, layout_of, trace_of, transpose
from .function_tables import implements
from .registration import composes, records

DOT, MATMUL, MUL = map(instructions.row, ("dot", "matmul", "mul"))
FLAT = ((1, 1), (1, 2), (2, 1), (2, 2))


def multiply_matrices(a, b, value=None):
    """Return ``a @ b`` of traced operands, vectors included."""
    if a._trace.strong and not (is_finite(a) and is_finite(b)):
        return _by_entries(a, b)
    rank = a._value.ndim, b._value.ndim
    if rank in FLAT:
        value = np.matmul(a._value, b._value) if value is None else value
        if value.dtype is FLOAT64 and a._family == b._family == F64:
            return _of_doubles(a, b, rank, value)
        if rank in ((1, 1), (2, 2)):
            return array_instruction("dot" if rank == (1, 1) else "matmul", (a, b), value)
    left = expand(a, (0,)) if a.ndim == 1 else a
    right = expand(b, (1,)) if b.ndim == 1 else b
    if left.ndim > 2 and right.ndim == 2:  # One product of matrices replaces one for each batch entry.
        rows = merge(left, [left.ndim - 1, 1])
        result = array_instruction("matmul", (rows, right), np.matmul(rows._value, right._value))
        result = unmerge(result, (*layout_of(left).dims[:-1], layout_of(result).dims[-1]))
    else:
        shaped = np.matmul(left._value, right._value) if value is None else _full(value, a, b)
        result = array_instruction("matmul", (left, right), shaped)
    thin = [axis for axis, x in ((-2, a), (-1, b)) if x.ndim == 1]
    return drop_axes(result, thin) if thin else result


def _of_doubles(a, b, rank: tuple[int, int], value):
    """Return a product of vectors and matrices, sooner than `array_instruction`, which takes any operands."""
    trace = trace_of((a, b))
    tape, left, right = trace.tape, a._id, b._id
    if rank == (1, 1):
        number, level = instructions.array_op_of_level(tape, DOT, F64, (left, right), trace.line(), {}, True)
        return new_traced(trace, value, number, level, F64)
    if rank == (1, 2):
        left = addresses.expanded(tape, left, (0,))
    elif rank == (2, 1):
        right = addresses.expanded(tape, right, (1,))
    number, level = instructions.array_op_of_level(tape, MATMUL, F64, (left, right), trace.line(), {}, True)
    if rank != (2, 2):
        number = addresses.dropped(tape, number, (0,) if rank == (1, 2) else (1,))
    return new_traced(trace, value, number, level, F64)


def is_finite(x) -> bool:
    """Whether all entries are finite: a guard."""
    return bool(np.all(np.isfinite(x)))


def _by_entries(a, b):
    """Return ``a @ b`` as elementwise products and a sum, in which zero tangents and cotangents stay zero.

    ``Config(strong_zero=True)`` records this where an entry is infinite or NaN. It takes n times the memory.
    """
    left = expand(a, (0,)) if a.ndim == 1 else a
    right = expand(b, (1,)) if b.ndim == 1 else b
    result = np.sum(expand(left, (-1,)) * expand(right, (-3,)), -2)
    thin = [axis for axis, x in ((-2, a), (-1, b)) if x.ndim == 1]
    return drop_axes(result, thin) if thin else result


def _full(value, a, b):
    """Return a product with the axes of size one that it lost because an operand is a vector."""
    value = np.asarray(value)
    value = value[..., None] if b.ndim == 1 else value
    return value[..., None, :] if a.ndim == 1 else value


@records(np.matmul)
def matmul(value, x1, x2):
    both = type(x1) is TracedArray and type(x2) is TracedArray
    a, b = (x1, x2) if both else lift_all(x1, x2)
    result = multiply_matrices(a, b, value)
    if result._value is not value:
        revalue(result, value)
    return result


@implements(np.linalg.matmul, complex="bilinear")
def linalg_matmul(x1, x2, /):
    return np.matmul(x1, x2)


def contract(a, b, axes_a, axes_b):
    """Return the sum of products over pairs of axes: free axes of ``a``, then those of ``b``."""
    free_a = [k for k in range(a.ndim) if k not in axes_a]
    free_b = [k for k in range(b.ndim) if k not in axes_b]
    count = len(axes_a)
    left = merge(transpose(a, [*free_a, *axes_a]), [len(free_a), count])
    right = merge(transpose(b, [*axes_b, *free_b]), [count, len(free_b)])
    if not free_a and not free_b:
        return multiply_matrices(drop_axes(left, (0,)), drop_axes(right, (1,)))
    dims = [layout_of(x).dims[k] for x, free in ((a, free_a), (b, free_b)) for k in free]
    return unmerge(multiply_matrices(left, right), dims)


def _usual_product(function):
    """Return what serves products of vectors and matrices of float64 in one instruction; see `composes`."""

    def product(*operands, **named):
        if len(operands) != 2 or named:
            return None
        values = []
        for x in operands:
            kind = type(x)
            x = x._value if kind is TracedArray else x if kind is np.ndarray else None
            if x.__class__ is not np.ndarray or x.dtype is not FLOAT64 or not x.size:
                return None
            values.append(x)
        left, right = values
        rank = left.ndim, right.ndim
        if rank not in FLAT or (rank != (1, 1) and function is not np.dot):
            return None
        a, b = operands
        a, b = operands if type(a) is type(b) else lift_all(a, b)
        return multiply_matrices(a, b, function(left, right))

    return product


@composes(np.dot, complex="bilinear", usual=_usual_product(np.dot))
def dot(a, b, out=None):
    a, b = lift_all(a, b)
    if a.ndim == 0 or b.ndim == 0:
        return elementwise("mul", a, b)
    if b.ndim <= 2:
        return multiply_matrices(a, b)
    return contract(a, b, [a.ndim - 1], [b.ndim - 2])


@composes(np.inner, complex="bilinear", usual=_usual_product(np.inner))
def inner(a, b, /):
    a, b = lift_all(a, b)
    if a.ndim == 0 or b.ndim == 0:
        return elementwise("mul", a, b)
    return contract(a, b, [a.ndim - 1], [b.ndim - 1])


@composes(np.vdot, complex="conjugating_first", usual=_usual_product(np.vdot))
def vdot(a, b, /):
    a, b = (merge(x, [x.ndim]) for x in lift_all(a, b))
    return multiply_matrices(a, b)


@records(np.vecdot)
def vecdot(value, x1, x2, /):
    return array_instruction("dot", tuple(lift_all(x1, x2)), value)


@composes(np.linalg.vecdot, complex="conjugating_first")
def linalg_vecdot(x1, x2, /, *, axis=-1):
    a, b = lift_all(x1, x2)
    moved = [axis_to_end(x, axes_of(x, axis)[0]) for x in (a, b)]
    return np.vecdot(*moved)


def _usual_outer(a, b, *options, **named):
    """Serve outer products of traced vectors; see `composes`."""
    if options or named or type(a) is not TracedArray or type(b) is not TracedArray:
        return None
    left, right = a._value, b._value
    if not (left.__class__ is right.__class__ is np.ndarray and left.ndim == right.ndim == 1):
        return None
    trace = trace_of((a, b))
    value = np.multiply.outer(left, right)
    if value.dtype is not FLOAT64 or not value.size or not a._family == b._family == F64:
        return None
    tape = trace.tape
    numbers = addresses.expanded(tape, a._id, (1,)), addresses.expanded(tape, b._id, (0,))
    out, level = instructions.elementwise_of_level(tape, MUL, F64, numbers, trace.line())
    return new_traced(trace, value, out, level, F64)


@composes(np.outer, complex="bilinear", usual=_usual_outer)
def outer(a, b, out=None):
    a, b = (merge(x, [x.ndim]) for x in lift_all(a, b))
    return elementwise("mul", expand(a, (1,)), expand(b, (0,)))


@composes(np.linalg.outer, complex="bilinear")
def linalg_outer(x1, x2, /):
    return np.outer(x1, x2)


@composes(np.tensordot, complex="bilinear")
def tensordot(a, b, axes=2):
    a, b = lift_all(a, b)
    if np.ndim(axes) == 0:
        count = index(axes)
        axes_a, axes_b = list(range(a.ndim - count, a.ndim)), list(range(count))
    else:
        axes_a, axes_b = axes
        axes_a, axes_b = axes_of(a, axes_a), axes_of(b, axes_b)
    if len(axes_a) > 1:  # several axes are merged: guards say that each pair agrees, not only their products
        for one, other in zip(axes_a, axes_b, strict=True):
            if length(a, one) != length(b, other):
                raise ValueError("shape-mismatch for sum")
    return contract(a, b, list(axes_a), list(axes_b))


@composes(np.linalg.tensordot, complex="bilinear")
def linalg_tensordot(x1, x2, /, *, axes=2):
    return np.tensordot(x1, x2, axes)


@composes(np.kron, complex="bilinear")
def kron(a, b):
    a, b = lift_all(a, b)
    ndim = max(a.ndim, b.ndim)
    a, b = (expand(x, tuple(range(ndim - x.ndim))) if x.ndim < ndim else x for x in (a, b))
    if ndim == 0:
        return elementwise("mul", a, b)
    a = expand(a, tuple(range(1, 2 * ndim, 2)))
    b = expand(b, tuple(range(0, 2 * ndim, 2)))
    return merge(elementwise("mul", a, b), [2] * ndim)


@composes(np.trace, complex="by_parts")
def trace(a, offset=0, axis1=0, axis2=1, dtype=None, out=None):
    return np.sum(np.diagonal(a, offset, axis1, axis2), -1, dtype)


@composes(np.linalg.trace, complex="by_parts")
def linalg_trace(x, /, *, offset=0, dtype=None):
    return np.sum(np.diagonal(x, offset, -2, -1), -1, dtype)


def _cross(a, b, counts):
    """Return the cross product along the last axis, where one of the vectors may lack its third entry."""
    u, v = ([x[..., k] for k in range(n)] for x, n in zip((a, b), counts, strict=True))
    if counts == (3, 3):
        first, second = u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2]
    elif counts == (2, 3):
        first, second = u[1] * v[2], -(u[0] * v[2])
    else:
        first, second = -(u[2] * v[1]), u[2] * v[0]
    return np.stack([first, second, u[0] * v[1] - u[1] * v[0]], -1)


@composes(np.cross, complex="bilinear")
def cross(a, b, axisa=-1, axisb=-1, axisc=-1, axis=None):
    axisa, axisb, axisc = (axis,) * 3 if axis is not None else (axisa, axisb, axisc)
    a, b = lift_all(a, b)
    a, b = np.moveaxis(a, axisa, -1), np.moveaxis(b, axisb, -1)
    counts = pinned(a, -1), pinned(b, -1)
    if counts == (2, 2):
        return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]
    return np.moveaxis(_cross(a, b, counts), -1, axisc)


@composes(np.linalg.cross, complex="bilinear")
def linalg_cross(x1, x2, /, *, axis=-1):
    return np.cross(x1, x2, axis=axis)
