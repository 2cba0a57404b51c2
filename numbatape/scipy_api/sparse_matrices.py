"""SciPy's sparse matrices and arrays among traced operands.

A sparse matrix of plain numbers times a traced array is a gather, a product with the stored entries
and a scatter, O(nnz) each: rows of the op table, which have derivatives of all orders, lanes and patterns.
Entries are added up in the order in which SciPy adds them. A sparse matrix times a traced
number (or plus such a product) is a `TracedSparse`: plain positions, traced entries.

SciPy passes the other operand of a product to ``np.asanyarray``, and if that returns a zero-dimensional
object, leaves the product to the operand; `answer_to_sparse_product` returns such an object.
"""

from __future__ import annotations

import sys

import numpy as np

from ..errors import UnsupportedOperationError
from ..trace.array import TracedArray
from ..trace.complex_array import TracedComplex
from ..trace.library_kinds import Sparse, is_sparse
from ..trace.primitives import array_instruction, value_of
from ..usercode.frames import where_in_user_code

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
        raise refuse(
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


def refuse(what: str, hint: str) -> UnsupportedOperationError:
    """Return the error for an operation of sparse and traced operands that is not supported."""
    return UnsupportedOperationError(f"{what} at {where_in_user_code()} is not supported; {hint}")


def entries(matrix) -> tuple:
    """Return (entries, rows, columns, shape) in the order in which SciPy adds products up."""
    if type(matrix) is TracedSparse:
        return matrix.data, matrix.rows, matrix.cols, matrix.shape
    if matrix.format not in ("csr", "csc", "coo"):
        matrix = matrix.tocsr()
    if matrix.ndim == 1:
        (cols,), size = matrix.tocoo().coords, matrix.shape[0]
        return matrix.tocoo().data, np.zeros_like(cols), cols, (1, size)
    if matrix.ndim != 2:
        raise refuse(f"a product with a sparse array of {matrix.ndim} dimensions", "use two-dimensional ones")
    found = matrix.tocoo()
    return found.data, found.row, found.col, matrix.shape


def product(matrix, x, left: bool = True):
    """Return ``matrix @ x``, or ``x @ matrix`` if not ``left``."""
    data, rows, cols, shape = entries(matrix)
    if is_sparse(x):
        raise refuse("a product of two sparse matrices with traced entries", "multiply them with a vector")
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
    one_dimensional = type(matrix) is not TracedSparse and matrix.ndim == 1
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
    if type(matrix) is TracedSparse:
        raise refuse("a product of traced sparse entries with complex numbers", "use real ones")
    halves = (matrix.real, matrix.imag) if matrix.dtype.kind == "c" else (matrix, None)

    def times(part):
        return None if part is None else product(part, x.real, left), (
            None if part is None or type(x) is not TracedComplex else product(part, x.imag, left)
        )

    (a, b), (c, d) = times(halves[0]), times(halves[1])
    real = a if d is None else a - d
    imag = b if c is None else c if b is None else b + c
    return real if imag is None else real + 1j * imag


# ---- operators


def operate_on_sparse(ufunc, left, right):
    """Apply a binary operator of which one operand is sparse."""
    name = ufunc.__name__
    if ufunc is np.matmul or (ufunc is np.multiply and _is_product(left, right)):
        return product(left, right) if is_sparse(left) else product(right, left, left=False)
    if ufunc in (np.add, np.subtract) and is_sparse(left) != is_sparse(right):
        if np.ndim(value_of(right if is_sparse(left) else left)) == 0:
            raise NotImplementedError("adding a nonzero scalar to a sparse array is not supported")
        return ufunc(*(x.toarray() if is_sparse(x) else x for x in (left, right)))
    if ufunc is np.multiply or (ufunc is np.true_divide and is_sparse(left)):
        matrix, factor = (left, right) if is_sparse(left) else (right, left)
        if not is_sparse(factor):
            return TracedSparse.of(matrix, factor, ufunc)
    raise refuse(
        f"{name} of a sparse matrix and a traced array",
        "A @ x, x @ A, A * x, A / x and sums are; A.toarray() is dense",
    )


def _is_product(left, right) -> bool:
    """Whether ``*`` is the product of matrices: for SciPy's matrices, not for its arrays."""
    matrix, other = (left, right) if is_sparse(left) else (right, left)
    return _is_matrix(matrix) and np.ndim(value_of(other)) > 0


def _is_matrix(matrix) -> bool:
    if type(matrix) is TracedSparse:
        return matrix.is_matrix
    return isinstance(matrix, sys.modules["scipy.sparse"].spmatrix)


class TracedSparse(Sparse):
    """A sparse matrix with traced entries at plain positions. Not made by users.

    Entries at the same position count as their sum.
    """

    __slots__ = ("cols", "data", "is_matrix", "rows", "shape")
    __array_ufunc__ = None  # so ndarray's operators call those of this class

    def __init__(self, data, rows, cols, shape, is_matrix: bool):
        self.data, self.rows, self.cols, self.shape = data, rows, cols, tuple(shape)
        self.is_matrix = is_matrix

    @classmethod
    def of(cls, matrix, factor, ufunc) -> TracedSparse:
        """Return a sparse matrix times (or divided by) numbers, entry by entry; one of the two is traced."""
        data, rows, cols, shape = entries(matrix)
        if type(factor) is TracedComplex or value_of(data).dtype.kind == "c":
            raise refuse("a sparse matrix times traced or complex numbers", "use real ones")
        if np.ndim(value_of(factor)):
            factor = np.broadcast_to(factor, shape)[rows, cols]
        return cls(ufunc(data, factor), rows, cols, shape, _is_matrix(matrix))

    def _with(self, data) -> TracedSparse:
        return TracedSparse(data, self.rows, self.cols, self.shape, self.is_matrix)

    def _plus(self, other, sign: float):
        if not is_sparse(other):
            return operate_on_sparse(np.add if sign > 0 else np.subtract, self, other)
        data, rows, cols, shape = entries(other)
        if shape != self.shape:
            raise ValueError(f"inconsistent shapes {self.shape} and {shape}")
        return TracedSparse(
            np.concatenate([self.data, data if sign > 0 else -data]),
            *(np.concatenate(pair) for pair in ((self.rows, rows), (self.cols, cols))),
            shape,
            self.is_matrix,
        )

    def __add__(self, other):
        return self._plus(other, 1.0)

    __radd__ = __add__

    def __sub__(self, other):
        return self._plus(other, -1.0)

    def __rsub__(self, other):
        return (-self)._plus(other, 1.0)

    def __neg__(self):
        return self._with(-self.data)

    def __mul__(self, other):
        return operate_on_sparse(np.multiply, self, other)

    def __rmul__(self, other):
        return operate_on_sparse(np.multiply, other, self)

    def __truediv__(self, other):
        return operate_on_sparse(np.true_divide, self, other)

    def __matmul__(self, other):
        return product(self, other)

    def __rmatmul__(self, other):
        return product(self, other, left=False)

    def dot(self, other):
        return self * other if np.ndim(value_of(other)) == 0 else self @ other

    @property
    def T(self) -> TracedSparse:
        return TracedSparse(self.data, self.cols, self.rows, self.shape[::-1], self.is_matrix)

    def transpose(self) -> TracedSparse:
        return self.T

    @property
    def ndim(self) -> int:
        return 2

    @property
    def dtype(self):
        return self.data.dtype

    def toarray(self):
        places = self.rows * self.shape[1] + self.cols
        flat = multiplied(self.data, places, np.zeros(len(places), int), self.shape[0] * self.shape[1],
                           np.ones(1, self.dtype))  # fmt: skip
        return np.reshape(flat, self.shape)

    def sum(self, axis=None):
        if axis is None:
            return np.sum(self.data)
        ones = np.ones(self.shape[axis], self.dtype)
        return self @ ones if axis % 2 else ones @ self

    def diagonal(self):
        here = np.flatnonzero(self.rows == self.cols)
        size, ones = min(self.shape), np.ones(1, self.dtype)
        return multiplied(self.data[here], self.rows[here], np.zeros(len(here), int), size, ones)

    def __getattr__(self, name):
        raise refuse(
            f"{name!r} of a sparse matrix with traced entries",
            "products, sums, T, toarray, diagonal and scipy.sparse.linalg.spsolve are; "
            "the entries' positions must be plain",
        )
