"""SciPy's sparse matrices and arrays among traced operands.

A sparse matrix of plain numbers times a traced array is a gather, a product with the stored entries
and a scatter, O(nnz) each: rows of the op table, which have derivatives of all orders, lanes and patterns.
Entries are added up in the order in which SciPy adds them. A sparse matrix times a traced
number (or plus such a product) is a `TracedSparse`: plain positions, traced entries. So is one that is
made of traced entries (`numbatape.scipy_api.sparse.sparse_structure`).

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
    if type(matrix) is TracedSparse:
        return matrix.data, matrix.rows, matrix.cols, matrix.shape
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


def summed_up(data, rows, cols, shape, is_matrix: bool, order: str = "csr") -> TracedSparse:
    """Return a matrix with one entry a position, sorted as SciPy sorts them in the format ``order``."""
    rows, cols = np.asarray(rows, np.int64), np.asarray(cols, np.int64)
    places = cols * shape[0] + rows if order == "csc" else rows * shape[1] + cols
    kept, first, entry = np.unique(places, return_index=True, return_inverse=True)
    if len(kept) == len(places):
        data = data if np.array_equal(kept, places) else data[first]
    else:
        ones = np.ones(1, value_of(data).dtype)
        data = multiplied(data, entry, np.zeros(len(entry), int), len(kept), ones)
    return TracedSparse(data, rows[first], cols[first], shape, is_matrix, order)


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
        if ufunc is np.multiply:
            return operations.multiplied_by_entries(left, right)
    raise not_supported(
        f"{name} of a sparse matrix and a traced array",
        "A @ x, x @ A, A * x, A / x and sums are; A.toarray() is dense",
    )


def _is_product(left, right) -> bool:
    """Whether ``*`` is the product of matrices: for SciPy's matrices, not for its arrays."""
    matrix, other = (left, right) if is_sparse(left) else (right, left)
    return stands_for_matrix(matrix) and np.ndim(value_of(other)) > 0


def stands_for_matrix(matrix) -> bool:
    """Whether a sparse object is one of SciPy's matrices, not one of its arrays."""
    if type(matrix) is TracedSparse:
        return matrix.is_matrix
    return isinstance(matrix, sys.modules["scipy.sparse"].spmatrix)


# Functions that are zero at zero: sparse matrices have them as methods, which change the entries only.
ZERO_AT_ZERO = (
    *("arcsin", "arcsinh", "arctan", "arctanh", "deg2rad", "expm1", "log1p", "rad2deg"),
    *("sin", "sinh", "sqrt", "tan", "tanh"),
)


class TracedSparse(Sparse):
    """A sparse matrix with traced entries at plain positions. Not made by users.

    Entries at the same position count as their sum.

    Attributes
    ----------
    data, rows, cols
        The entries and their positions.
    shape
        Of the matrix.
    is_matrix
        Whether it stands for one of SciPy's matrices, for which ``*`` is the product, or for a sparse array.
    format
        The format of the object that SciPy would have made: "csr", "csc" or "coo".
    """

    __slots__ = ("cols", "data", "format", "is_matrix", "rows", "shape")
    __array_ufunc__ = None  # so ndarray's operators call those of this class

    def __init__(self, data, rows, cols, shape, is_matrix: bool, format: str = "csr"):
        self.data, self.rows, self.cols, self.shape = data, rows, cols, tuple(map(int, shape))
        self.is_matrix, self.format = is_matrix, format

    @classmethod
    def of(cls, matrix, factor, ufunc) -> TracedSparse:
        """Return a sparse matrix times (or divided by) numbers, entry by entry; one of the two is traced."""
        data, rows, cols, shape = entries(matrix)
        if type(factor) is TracedComplex or value_of(data).dtype.kind == "c":
            raise not_supported("a sparse matrix times traced or complex numbers", "use real ones")
        if np.ndim(value_of(factor)):
            factor = np.broadcast_to(factor, shape)[rows, cols]
        form = matrix.format if matrix.format in ("csc", "coo") else "csr"
        return cls(ufunc(data, factor), rows, cols, shape, stands_for_matrix(matrix), form)

    def with_data(self, data) -> TracedSparse:
        """Return a matrix with other entries at the same positions."""
        return TracedSparse(data, self.rows, self.cols, self.shape, self.is_matrix, self.format)

    def _summed_up(self, order: str) -> TracedSparse:
        return summed_up(self.data, self.rows, self.cols, self.shape, self.is_matrix, order)

    def _plus(self, other, sign: float):
        if not is_sparse(other):
            return operate_on_sparse(np.add if sign > 0 else np.subtract, self, other)
        data, rows, cols, shape = entries(other)
        if shape != self.shape:
            raise ValueError(f"inconsistent shapes {self.shape} and {shape}")
        return summed_up(
            np.concatenate([self.data, data if sign > 0 else -data]),
            *(np.concatenate(pair) for pair in ((self.rows, rows), (self.cols, cols))),
            shape,
            self.is_matrix and stands_for_matrix(other),
            "csc" if self.format == "csc" else "csr",
        )

    def __add__(self, other):
        return self._plus(other, 1.0)

    __radd__ = __add__

    def __sub__(self, other):
        return self._plus(other, -1.0)

    def __rsub__(self, other):
        return (-self)._plus(other, 1.0)

    def __neg__(self):
        return self.with_data(-self.data)

    def __abs__(self):
        found = self._summed_up(self.format)
        return found.with_data(np.abs(found.data))

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

    def __pow__(self, exponent):
        if not self.is_matrix:
            return self.power(exponent)
        if not (isinstance(exponent, (int, np.integer)) and exponent > 0):
            raise not_supported(f"M**{exponent!r} of a sparse matrix", "a whole positive power is")
        result = self
        for _ in range(int(exponent) - 1):
            result = result @ self
        return result

    def __getitem__(self, key):
        return operations.part_of_sparse(self, key)

    def power(self, n):
        """Return the matrix with each entry to the power of a number."""
        if np.ndim(value_of(n)) or not value_of(n) > 0:
            raise not_supported(
                "a power of sparse entries that is no positive number", "use A.toarray() ** n"
            )
        found = self._summed_up(self.format)
        return found.with_data(found.data**n)

    def multiply(self, other):
        """Return the product entry by entry."""
        if is_sparse(other):
            return operations.multiplied_by_entries(self, other)
        return TracedSparse.of(self, other, np.multiply)

    def dot(self, other):
        return self * other if np.ndim(value_of(other)) == 0 else self @ other

    @property
    def T(self) -> TracedSparse:
        form = {"csr": "csc", "csc": "csr"}.get(self.format, self.format)
        return TracedSparse(self.data, self.cols, self.rows, self.shape[::-1], self.is_matrix, form)

    def transpose(self) -> TracedSparse:
        return self.T

    @property
    def ndim(self) -> int:
        return 2

    @property
    def dtype(self):
        return self.data.dtype

    @property
    def nnz(self) -> int:
        """The number of stored entries."""
        return len(self.rows)

    def copy(self) -> TracedSparse:
        return self.with_data(np.copy(self.data))

    def asformat(self, format, copy=False):
        """Return the matrix in another format."""
        if format in (None, self.format):
            return self.copy() if copy else self
        if format == "coo":
            return TracedSparse(self.data, self.rows, self.cols, self.shape, self.is_matrix, "coo")
        if format in ("csr", "csc"):
            return self._summed_up(format)
        raise not_supported(f"the format {format!r} for traced entries", "'csr', 'csc' and 'coo' are")

    def tocsr(self, copy=False):
        return self.asformat("csr", copy)

    def tocsc(self, copy=False):
        return self.asformat("csc", copy)

    def tocoo(self, copy=True):
        return self.asformat("coo", copy)

    def toarray(self):
        places = self.rows * self.shape[1] + self.cols
        flat = multiplied(self.data, places, np.zeros(len(places), int), self.shape[0] * self.shape[1],
                           np.ones(1, self.dtype))  # fmt: skip
        return np.reshape(flat, self.shape)

    def sum(self, axis=None):
        if axis is None:
            return np.sum(self.data)
        ones = np.ones(self.shape[axis], self.dtype)
        total = self @ ones if axis % 2 else ones @ self
        return np.expand_dims(total, axis) if self.is_matrix else total

    def mean(self, axis=None):
        return self.sum(axis) / (self.shape[0] * self.shape[1] if axis is None else self.shape[axis])

    def diagonal(self, k=0):
        here = np.flatnonzero(self.cols - self.rows == k)
        rows, cols = self.shape
        size, ones = max(0, min(rows + min(k, 0), cols - max(k, 0))), np.ones(1, self.dtype)
        places = self.rows[here] + min(k, 0)
        return multiplied(self.data[here], places, np.zeros(len(here), int), size, ones)

    def astype(self, dtype, casting="unsafe", copy=True):
        return self.with_data(self.data.astype(dtype))

    def _deduped_data(self):
        """Return one entry for each position; ``scipy.sparse.linalg.norm`` asks for it."""
        return self._summed_up(self.format).data

    def trace(self, offset=0):
        return np.sum(self.diagonal(offset))

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if name in ZERO_AT_ZERO:
            found = self._summed_up(self.format)
            return lambda: found.with_data(getattr(np, name)(found.data))
        raise not_supported(
            f"{name!r} of a sparse matrix with traced entries",
            "products, powers, sums, parts (A[i, j]), T, toarray, tocsr, tocsc, tocoo, diagonal and "
            "scipy.sparse.linalg.spsolve are; the entries' positions must be plain",
        )
