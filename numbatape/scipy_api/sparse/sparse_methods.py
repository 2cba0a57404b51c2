"""Methods and attributes of sparse matrices with traced entries that few programs use."""

from __future__ import annotations

import functools
import sys

import numpy as np

from ...trace.library_kinds import is_sparse
from ...trace.primitives import stop_gradient, value_of
from ...usercode.frames import not_supported
from .dense_products import stands_for_matrix
from .sparse_matrices import TracedSparse, operate_on_sparse

# Functions that are zero at zero: sparse matrices have them as methods, which change the entries only.
ZERO_AT_ZERO = (
    *("arcsin", "arcsinh", "arctan", "arctanh", "ceil", "deg2rad", "expm1", "floor", "log1p", "rad2deg"),
    *("rint", "sign", "sin", "sinh", "sqrt", "tan", "tanh", "trunc"),
)


def _of_scipy(matrix):
    """Return SciPy's class that a matrix stands for."""
    kind = "matrix" if matrix.is_matrix else "array"
    return getattr(sys.modules["scipy.sparse"], f"{matrix.format}_{kind}")


def attribute_of_sparse(matrix, name: str):
    """Return an attribute; raise AttributeError where SciPy's matrix has none of this name."""
    if name in ZERO_AT_ZERO:
        return functools.partial(_applied, matrix, getattr(np, name))
    if name in ATTRIBUTES:
        return ATTRIBUTES[name](matrix)
    if name in METHODS and hasattr(_of_scipy(matrix), name):  # some methods belong to SciPy's matrices only
        return functools.partial(METHODS[name], matrix)
    if not hasattr(_of_scipy(matrix), name):
        raise AttributeError(f"{_of_scipy(matrix).__name__!r} object has no attribute {name!r}")
    raise not_supported(
        f"{name!r} of a sparse matrix with traced entries",
        "products, powers, sums, parts (A[i, j]), T, toarray, tocsr, tocsc, tocoo, diagonal and "
        "scipy.sparse.linalg.spsolve are; the entries' positions must be plain",
    )


def _applied(matrix, function):
    found = matrix.asformat(matrix.format) if matrix.format != "coo" else matrix._summed_up("coo")
    if function is np.sqrt:
        found = found.stored  # the root's slope at a stored zero is infinite
    return found.with_data(function(found.values))


def _same(matrix, copy=True):
    return matrix.copy() if copy else matrix


def _dense(matrix, order=None, out=None):
    if matrix.is_matrix:
        raise not_supported("todense() of a sparse matrix, which is a np.matrix", "use toarray()")
    return matrix.toarray()


def _extreme(function, matrix, axis=None, out=None):
    dense = matrix.toarray()
    if axis is None:
        return function(dense)
    axis = np.lib.array_utils.normalize_axis_index(axis, 2)
    if not matrix.is_matrix:
        raise not_supported(
            f"{function.__name__}(axis={axis}), a one-dimensional sparse array",
            f"np.{function.__name__}(A.toarray(), {axis})",
        )
    return TracedSparse.of_dense(function(dense, axis, keepdims=True), True, "coo")


def _position(function, matrix, axis=None, out=None):
    dense = matrix.toarray()
    if axis is None or not matrix.is_matrix:
        return function(dense, axis)
    return function(dense, axis, keepdims=True)


def larger_or_smaller(function, matrix, other):
    """Return the entrywise maximum (minimum) of a matrix and a number, a matrix or a dense array."""
    dense = matrix.toarray()
    if is_sparse(other):
        both = stands_for_matrix(matrix) and stands_for_matrix(other)
        return TracedSparse.of_dense(function(dense, other.toarray()), both)
    if np.ndim(value_of(other)):
        return function(dense, other)
    return TracedSparse.of_dense(function(dense, other), stands_for_matrix(matrix))


def _reshaped(matrix, *shape, order="C", copy=False):
    shape = shape[0] if len(shape) == 1 and np.iterable(shape[0]) else shape
    sides = np.reshape(np.broadcast_to(0, matrix.shape), shape).shape  # raises NumPy's error
    if len(sides) != 2:
        raise not_supported(f"a sparse array of shape {sides} with traced entries", "two dimensions are")
    flat = np.ravel_multi_index((matrix.rows, matrix.cols), matrix.shape, order=order)
    rows, cols = np.unravel_index(flat, sides, order=order)
    return TracedSparse(matrix.values, rows, cols, sides, matrix.is_matrix, "coo", matrix.whole).asformat(
        matrix.format
    )


def _nonzero(matrix):
    kept = matrix._summed_up("csr")
    kept.whole = True
    return kept.stored.rows, kept.stored.cols


def _indices(matrix):
    found = _compressed(matrix, "indices")
    return (found.rows if matrix.format == "csc" else found.cols).astype(np.int32)


def _indptr(matrix):
    found = _compressed(matrix, "indptr")
    lines, size = (found.cols, 1) if matrix.format == "csc" else (found.rows, 0)
    return np.searchsorted(lines, np.arange(matrix.shape[size] + 1)).astype(np.int32)


def _count_stored(matrix, axis=None):
    found = matrix.stored
    if axis is None:
        return len(found.rows)
    axis = np.lib.array_utils.normalize_axis_index(axis, 2)
    return np.bincount(found.rows if axis else found.cols, minlength=matrix.shape[1 - axis])


def _compressed(matrix, name: str):
    if matrix.format == "coo":
        raise AttributeError(f"'coo_array' object has no attribute {name!r}")
    return matrix.stored


def _coordinate(axis: int):
    def of(matrix):
        if matrix.format != "coo":
            raise AttributeError(
                f"{matrix.format!r} matrices have no attribute {'row' if not axis else 'col'!r}"
            )
        return (matrix.stored.rows, matrix.stored.cols)[axis]

    return of


def _changed(change):
    """Return a method that changes the matrix itself, and returns nothing."""

    def method(matrix, *args, **options):
        matrix._take(change(matrix, *args, **options))

    return method


def _without_zeros(matrix):
    found = matrix.with_data(matrix.values)
    found.whole = True
    return found.stored


def _with_diagonal(matrix, values, k=0):
    rows, cols = matrix.shape
    size = max(0, min(rows + min(k, 0), cols - max(k, 0)))
    if np.ndim(value_of(values)):
        size = min(size, len(values))
    kept = np.flatnonzero((matrix.cols - matrix.rows != k) | (np.minimum(matrix.rows, matrix.cols) >= size))
    every = np.arange(size)
    values = values[:size] if np.ndim(value_of(values)) else values * np.ones(size)
    return TracedSparse(
        np.concatenate([matrix.values[kept], values]),
        np.concatenate([matrix.rows[kept], every - min(k, 0)]),
        np.concatenate([matrix.cols[kept], every + max(k, 0)]),
        matrix.shape,
        matrix.is_matrix,
        matrix.format,
        matrix.whole,
    )._summed_up(matrix.format)


def multiplied_entrywise(matrix, other):
    """Return ``A.multiply(other)`` of a plain or traced sparse matrix, of which one of the two is traced."""
    return (
        operate_on_sparse(np.multiply, matrix, other)
        if is_sparse(other)
        else TracedSparse.of(matrix, other, np.multiply)
    )


def compared_sparse(ufunc, matrix, other):
    """Return the sparse matrix of truth values of a comparison with a number, a matrix or a dense array."""
    if other is None or isinstance(other, str):
        return NotImplemented
    dense = other.toarray() if is_sparse(other) else other
    found = ufunc(matrix.toarray(), dense)
    if np.ndim(value_of(dense)) and not is_sparse(other):
        return found
    return TracedSparse.of_dense(found, matrix.is_matrix)


ATTRIBUTES = {
    "real": lambda matrix: matrix.with_data(matrix.values),
    "indices": _indices,
    "indptr": _indptr,
    "row": _coordinate(0),
    "col": _coordinate(1),
    "coords": lambda matrix: (_coordinate(0)(matrix), _coordinate(1)(matrix)),
    "size": lambda matrix: matrix.nnz,
    "has_canonical_format": lambda matrix: len(matrix._summed_up("csr").rows) == len(matrix.rows),
    "has_sorted_indices": lambda matrix: True,
}
METHODS = {
    "argmax": functools.partial(_position, np.argmax),
    "argmin": functools.partial(_position, np.argmin),
    "conj": _same,
    "conjugate": _same,
    "count_nonzero": lambda matrix, axis=None: np.count_nonzero(stop_gradient(matrix.toarray()), axis),
    "eliminate_zeros": _changed(_without_zeros),
    "getH": lambda matrix: matrix.T,
    "get_shape": lambda matrix: matrix.shape,
    "getcol": lambda matrix, j: matrix[:, [j]],
    "getformat": lambda matrix: matrix.format,
    "getnnz": _count_stored,
    "getrow": lambda matrix, i: matrix[[i]],
    "max": functools.partial(_extreme, np.max),
    "maximum": functools.partial(larger_or_smaller, np.maximum),
    "min": functools.partial(_extreme, np.min),
    "minimum": functools.partial(larger_or_smaller, np.minimum),
    "nonzero": _nonzero,
    "reshape": _reshaped,
    "setdiag": _changed(_with_diagonal),
    "sort_indices": lambda matrix: None,  # the indices of these matrices are always sorted
    "sum_duplicates": _changed(lambda matrix: matrix._summed_up(matrix.format)),
    "todense": _dense,
}
