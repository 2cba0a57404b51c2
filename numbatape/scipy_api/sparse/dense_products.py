"""Products of sparse matrices and traced arrays, and what SciPy's product gets in a traced array's place.

A sparse matrix of plain numbers times a traced array is a gather, a product with the stored entries
and a scatter, O(nnz) each: rows of the op table, which have derivatives of all orders, lanes and patterns.
Entries are added up in the order in which SciPy adds them.

SciPy passes the other operand of a product to ``np.asanyarray``, and if that returns a zero-dimensional
object, leaves the product to the operand; `answer_to_sparse_product` returns such an object.
"""

from __future__ import annotations

import sys

import numpy as np

from ...trace import operations
from ...trace.array import TracedArray
from ...trace.complex_array import TracedComplex
from ...trace.library_kinds import Sparse, is_sparse
from ...trace.primitives import array_instruction, value_of
from ...usercode.frames import not_supported

PRODUCTS = ("_matmul_dispatch", "_mul_dispatch", "_divide")  # SciPy's; the second before 1.13
ELEMENTWISE = ("_multiply_2d_with_broadcasting", "multiply")


def answer_to_sparse_product(frame, value):
    """Return what ``np.asanyarray`` returns to SciPy's product of a sparse matrix; None for other callers."""
    name, module = frame.f_code.co_name, frame.f_globals.get("__name__", "")
    if not module.startswith("scipy.sparse"):
        return None
    if name == "dot" and module == "scipy.sparse._coo":
        # coo_array.dot reads the shape, then does what @ does.
        return np.broadcast_to(np.nan, np.shape(value))
    if name in ELEMENTWISE and not _of_operator(frame):
        raise not_supported(
            "A.multiply(x) of a sparse A and a traced x", "use A * x, of a sparse array (csr_array(A) * x)"
        )
    return np.array(None) if name in PRODUCTS or name in ELEMENTWISE else None


def _of_operator(frame) -> bool:
    """Whether a frame works for the operator ``*`` of a sparse array, not for its method ``multiply``."""
    while frame is not None and frame.f_globals.get("__name__", "").startswith("scipy.sparse"):
        if frame.f_code.co_name == "__mul__":
            return True
        frame = frame.f_back
    return False


def entries(matrix) -> tuple:
    """Return (entries, rows, columns, shape) in the order in which SciPy adds products up."""
    if isinstance(matrix, Sparse):
        return matrix.values, matrix.rows, matrix.cols, matrix.shape
    if matrix.format not in ("csr", "csc", "coo"):
        matrix = matrix.tocsr()
    if matrix.ndim == 1:
        (cols,), size = matrix.tocoo().coords, matrix.shape[0]
        return matrix.tocoo().data, np.zeros_like(cols), cols, (1, size)
    if matrix.ndim != 2:
        raise not_supported(
            f"a product with a sparse array of {matrix.ndim} dimensions", "use two-dimensional ones"
        )
    found = matrix.tocoo()
    return found.data, found.row, found.col, matrix.shape


def product(matrix, x, left: bool = True):
    """Return ``matrix @ x``, or ``x @ matrix`` if not ``left``."""
    data, rows, cols, shape = entries(matrix)
    if is_sparse(x):
        return operations.product_of_sparse(matrix, x) if left else operations.product_of_sparse(x, matrix)
    ndim, size = np.ndim(value_of(x)), shape[left]
    if ndim not in (1, 2) or np.shape(value_of(x))[0 if left else -1] != size:
        kind = "M @ x" if left else "x @ M"
        raise ValueError(f"{kind}: shapes {shape} of M and {np.shape(value_of(x))} of x do not fit")
    if type(x) is TracedComplex or value_of(data).dtype.kind == "c":
        return _complex(matrix, x, left)
    if not left:
        result = multiplied(data, cols, rows, shape[1], x if ndim == 1 else np.transpose(x))
        result = result if ndim == 1 else np.transpose(result)
    else:
        result = multiplied(data, rows, cols, shape[0], x)
    one_dimensional = matrix.ndim == 1
    return result[..., 0] if one_dimensional and not left else result[0] if one_dimensional else result


def multiplied(data, rows, cols, size: int, x):
    """Return sums of ``data * x[cols]`` over entries of equal row."""
    plain = [np.asarray(value_of(part)) for part in (data, x)]
    dtype = np.result_type(*plain)
    dtype = dtype if dtype in (np.float32, np.float64) else np.float64
    if type(data) is not TracedArray:
        data = np.asarray(data, dtype)
    gathered = x[cols]
    terms = (data if x.ndim == 1 else data[:, None]) * gathered
    if value_of(terms).dtype != dtype:
        terms = np.astype(terms, dtype)
    if not len(cols):
        return x[:0].sum(0) + np.zeros((size, *x.shape[1:]), dtype)
    value = np.zeros((size, *value_of(terms).shape[1:]), dtype)
    np.add.at(value, rows, value_of(terms))
    places = np.asarray(rows, np.float64)
    if type(terms) is not TracedArray:  # plain entries with a plain vector: nothing to record
        return value
    row = "scatter1" if x.ndim == 1 else "scatter"
    return array_instruction(row, (terms, places), value, dims={"m": size})


def _complex(matrix, x, left: bool):
    if isinstance(matrix, Sparse):
        raise not_supported("a product of traced sparse entries with complex numbers", "use real ones")
    halves = (matrix.real, matrix.imag) if matrix.dtype.kind == "c" else (matrix, None)

    def times(part):
        return None if part is None else product(part, x.real, left), (
            None if part is None or type(x) is not TracedComplex else product(part, x.imag, left)
        )

    (a, b), (c, d) = times(halves[0]), times(halves[1])
    real = a if d is None else a - d
    imag = b if c is None else c if b is None else b + c
    return real if imag is None else real + 1j * imag


def stands_for_matrix(matrix) -> bool:
    """Whether a sparse object is one of SciPy's matrices, not one of its arrays."""
    if isinstance(matrix, Sparse):
        return matrix.is_matrix
    return isinstance(matrix, sys.modules["scipy.sparse"].spmatrix)
