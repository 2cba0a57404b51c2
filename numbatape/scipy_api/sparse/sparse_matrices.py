"""Sparse matrices with traced entries at plain positions.

A plain sparse matrix times a traced number (or plus such a product) is a `TracedSparse`. So is one that is
made of traced entries (`numbatape.scipy_api.sparse.sparse_structure`).

A matrix that was made of a dense array, `whole`, has entries at all positions, because a zero has a
derivative like any other number. SciPy would not store it, and in a graph it would be no edge. So what
depends on which entries are stored goes by `TracedSparse.stored`, where they are a guard.
"""

from __future__ import annotations

import numpy as np

from ...trace import operations
from ...trace.complex_array import TracedComplex
from ...trace.library_kinds import Sparse, is_sparse
from ...trace.primitives import value_of
from ...usercode.frames import not_supported
from .dense_products import entries, multiplied, product, stands_for_matrix


def summed_up(
    data, rows, cols, shape, is_matrix: bool, order: str = "csr", whole: bool = False
) -> TracedSparse:
    """Return a matrix with one entry a position, sorted as SciPy sorts them in the format ``order``."""
    rows, cols = np.asarray(rows, np.int64), np.asarray(cols, np.int64)
    places = cols * shape[0] + rows if order == "csc" else rows * shape[1] + cols
    kept, first, entry = np.unique(places, return_index=True, return_inverse=True)
    if len(kept) == len(places):
        data = data if np.array_equal(kept, places) else data[first]
    else:
        ones = np.ones(1, value_of(data).dtype)
        data = multiplied(data, entry, np.zeros(len(entry), int), len(kept), ones)
    return TracedSparse(data, rows[first], cols[first], shape, is_matrix, order, whole)


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


class TracedSparse(Sparse):
    """A sparse matrix with traced entries at plain positions. Not made by users.

    Entries at the same position count as their sum.

    Attributes
    ----------
    values, rows, cols
        The entries and their positions.
    shape
        Of the matrix.
    is_matrix
        Whether it stands for one of SciPy's matrices, for which ``*`` is the product, or for a sparse array.
    format
        The format of the object that SciPy would have made: "csr", "csc" or "coo".
    whole
        Whether it has entries at positions that SciPy would not store if the entry is zero.
    """

    __slots__ = ("cols", "format", "is_matrix", "rows", "shape", "values", "whole")
    __array_ufunc__ = None  # This lets ndarray's operators call those of this class.

    def __init__(self, values, rows, cols, shape, is_matrix: bool, format: str = "csr", whole: bool = False):
        self.values, self.rows, self.cols, self.shape = values, rows, cols, tuple(map(int, shape))
        self.is_matrix, self.format, self.whole = is_matrix, format, whole

    @classmethod
    def of_dense(cls, dense, is_matrix: bool, format: str = "csr") -> TracedSparse:
        """Return the matrix of a dense array of two dimensions."""
        rows, cols = (places.ravel() for places in np.indices(np.shape(value_of(dense))))
        return cls(np.reshape(dense, (-1,)), rows, cols, np.shape(value_of(dense)), is_matrix, format, True)

    @property
    def stored(self) -> TracedSparse:
        """The matrix with the entries that SciPy would store."""
        if not self.whole:
            return self
        found = self._summed_up(self.format)
        zero = np.equal(found.values, 0.0)
        here = np.flatnonzero(~np.asarray(value_of(zero)))
        assert bool(np.array_equal(np.not_equal(found.values, 0.0), ~np.asarray(value_of(zero))))  # a guard
        places = found.rows[here], found.cols[here]
        return TracedSparse(found.values[here], *places, self.shape, self.is_matrix, self.format)

    @property
    def data(self):
        """The stored entries.

        They can only be written to where all entries are stored: a zero keeps its derivative otherwise.
        """
        found = self.stored
        if found is not self:
            if len(found.rows) == self.shape[0] * self.shape[1]:
                self._take(found)
            else:
                found.values._value.flags.writeable = False
        return found.values

    @data.setter
    def data(self, data):
        found = self.stored
        if np.shape(value_of(data)) != np.shape(value_of(found.values)):
            raise not_supported("another number of traced sparse entries", "make a new matrix")
        self._take(found.with_data(data))

    def _take(self, other: TracedSparse) -> None:
        """Become another matrix of the same format."""
        self.values, self.rows, self.cols, self.whole = other.values, other.rows, other.cols, other.whole

    @classmethod
    def of(cls, matrix, factor, ufunc) -> TracedSparse:
        """Return a sparse matrix times (or divided by) numbers, entry by entry; one of the two is traced."""
        data, rows, cols, shape = entries(matrix)
        if type(factor) is TracedComplex or value_of(data).dtype.kind == "c":
            raise not_supported("a sparse matrix times traced or complex numbers", "use real ones")
        if np.ndim(value_of(factor)):
            factor = np.broadcast_to(factor, shape)[rows, cols]
        form = matrix.format if matrix.format in ("csc", "coo") else "csr"
        whole = getattr(matrix, "whole", False)
        return cls(ufunc(data, factor), rows, cols, shape, stands_for_matrix(matrix), form, whole)

    def with_data(self, data) -> TracedSparse:
        """Return a matrix with other entries at the same positions."""
        return TracedSparse(data, self.rows, self.cols, self.shape, self.is_matrix, self.format, self.whole)

    def _summed_up(self, order: str) -> TracedSparse:
        return summed_up(self.values, self.rows, self.cols, self.shape, self.is_matrix, order, self.whole)

    def _plus(self, other, sign: float):
        if not is_sparse(other):
            if np.ndim(value_of(other)) == 0 and type(other) in (int, float) and other == 0:
                return self.copy()  # Python's sum() of sparse matrices begins with 0 + matrix.
            return operate_on_sparse(np.add if sign > 0 else np.subtract, self, other)
        data, rows, cols, shape = entries(other)
        if shape != self.shape:
            raise ValueError(f"inconsistent shapes {self.shape} and {shape}")
        return summed_up(
            np.concatenate([self.values, data if sign > 0 else -data]),
            *(np.concatenate(pair) for pair in ((self.rows, rows), (self.cols, cols))),
            shape,
            self.is_matrix and stands_for_matrix(other),
            "csc" if self.format == "csc" else "csr",
            True,  # SciPy does not store a sum that is zero
        )

    def __add__(self, other):
        return self._plus(other, 1.0)

    __radd__ = __add__

    def __sub__(self, other):
        return self._plus(other, -1.0)

    def __rsub__(self, other):
        return (-self)._plus(other, 1.0)

    def __neg__(self):
        return self.with_data(-self.values)

    def __abs__(self):
        found = self._summed_up(self.format)
        return found.with_data(np.abs(found.values))

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

    def _compared(self, other, ufunc):
        return operations.compared_sparse(ufunc, self, other)

    def __lt__(self, other):
        return self._compared(other, np.less)

    def __le__(self, other):
        return self._compared(other, np.less_equal)

    def __gt__(self, other):
        return self._compared(other, np.greater)

    def __ge__(self, other):
        return self._compared(other, np.greater_equal)

    def __eq__(self, other):
        return self._compared(other, np.equal)

    def __ne__(self, other):
        return self._compared(other, np.not_equal)

    __hash__ = Sparse.__hash__

    def __getitem__(self, key):
        return operations.part_of_sparse(self, key)

    def power(self, n):
        """Return the matrix with each entry to the power of a number."""
        if np.ndim(value_of(n)) or not value_of(n) > 0:
            raise not_supported(
                "a power of sparse entries that is no positive number", "use A.toarray() ** n"
            )
        found = self._summed_up(self.format)
        return found.with_data(found.values**n)

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
        sides = self.shape[::-1]
        return TracedSparse(self.values, self.cols, self.rows, sides, self.is_matrix, form, self.whole)

    def transpose(self, axes=None, copy=False) -> TracedSparse:
        if axes is not None and tuple(axes) not in ((1, 0), (-1, -2)):
            raise ValueError("Sparse matrices do not support an 'axes' parameter because swapping dimensions "
                             "is the only logical permutation.")  # fmt: skip
        return self.T

    @property
    def ndim(self) -> int:
        return 2

    @property
    def dtype(self):
        return self.values.dtype

    @property
    def nnz(self) -> int:
        """The number of stored entries."""
        return len(self.stored.rows)

    def copy(self) -> TracedSparse:
        return self.with_data(np.copy(self.values))

    def asformat(self, format, copy=False):
        """Return the matrix in another format."""
        if format in (None, self.format):
            return self.copy() if copy else self
        if format == "coo":
            found = self.copy() if copy else self.with_data(self.values)
            found.format = "coo"
            return found
        if format in ("csr", "csc"):
            found = self._summed_up(format)
            if found.values is self.values and self.values._trace.memory.stores:
                found.values = np.copy(self.values)  # SciPy's new matrix has its own entries
            return found
        raise not_supported(f"the format {format!r} for traced entries", "'csr', 'csc' and 'coo' are")

    def tocsr(self, copy=False):
        return self.asformat("csr", copy)

    def tocsc(self, copy=False):
        return self.asformat("csc", copy)

    def tocoo(self, copy=None):
        return self.asformat("coo", self.format == "csc" if copy is None else copy)  # SciPy's defaults

    def toarray(self, order=None):
        places = self.rows * self.shape[1] + self.cols
        flat = multiplied(self.values, places, np.zeros(len(places), int), self.shape[0] * self.shape[1],
                           np.ones(1, self.dtype))  # fmt: skip
        return np.reshape(flat, self.shape)

    def sum(self, axis=None, dtype=None, out=None):
        if dtype is not None or out is not None:
            raise not_supported("sum(dtype=..., out=...) of traced sparse entries", "leave both out")
        if axis is None or axis == () or (isinstance(axis, tuple) and len(axis) == 2):
            return np.sum(self.values)
        axis = np.lib.array_utils.normalize_axis_index(axis[0] if isinstance(axis, tuple) else axis, 2)
        ones = np.ones(self.shape[axis], self.dtype)
        total = self @ ones if axis else ones @ self
        return np.expand_dims(total, axis) if self.is_matrix else total

    def mean(self, axis=None, dtype=None, out=None):
        total = self.sum(axis, dtype, out)
        size = self.shape[0] * self.shape[1]
        return total / (size // max(np.size(value_of(total)), 1))

    def diagonal(self, k=0):
        here = np.flatnonzero(self.cols - self.rows == k)
        rows, cols = self.shape
        size, ones = max(0, min(rows + min(k, 0), cols - max(k, 0))), np.ones(1, self.dtype)
        places = self.rows[here] + min(k, 0)
        return multiplied(self.values[here], places, np.zeros(len(here), int), size, ones)

    def astype(self, dtype, casting="unsafe", copy=True):
        return self.with_data(self.values.astype(dtype))

    def _deduped_data(self):
        """Return one entry for each position; ``scipy.sparse.linalg.norm`` asks for it."""
        return self._summed_up(self.format).values

    def trace(self, offset=0):
        return np.sum(self.diagonal(offset))

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return operations.attribute_of_sparse(self, name)
