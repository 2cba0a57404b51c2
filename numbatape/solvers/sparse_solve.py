"""``spsolve`` and ``spsolve_triangular`` of SciPy: the pullback solves with the transposed factors.

For ``A x = b``: ``lam = A^-T xbar``, ``bbar = lam``, and an entry of A gets ``-lam[row] x[col]``.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse
from scipy.sparse.linalg import MatrixRankWarning, splu

from ..numpy_api.function_tables import MAKERS
from ..rules.primitive import Primitive, Rule
from ..scipy_api.sparse.dense_products import entries, multiplied, stands_for_matrix
from ..scipy_api.sparse.sparse_matrices import TracedSparse, is_sparse
from ..trace.array import TracedArray
from ..trace.operands import find_trace
from ..trace.primitives import value_of
from ..trace.trace import failing
from ..usercode.frames import UsersLine, not_supported


class System:
    """Systems with matrices of one pattern, and their solution as a rule of ``(entries, b)``.

    Parameters
    ----------
    rows, cols, shape
        The pattern.
    order : str
        SciPy's ``permc_spec``.
    transposed
        The system of the transposed matrix, if there is one already.
    """

    threshold: float | None = None  # SciPy's ``diag_pivot_thresh``

    def __init__(self, rows, cols, shape, order, transposed: System | None = None):
        self.rows, self.cols, self.shape, self.order = rows, cols, shape, order
        self.line = UsersLine() if transposed is None else transposed.line
        self._factored: tuple = (None, None)  # entries and their factors
        self._way = "N" if transposed is None else "T"
        self._owner = self if transposed is None else transposed
        self.solve = Primitive(Rule(self._value, self._pullback, self._pushforward, None))
        self.transposed = type(self)(rows, cols, shape, order, self) if transposed is None else transposed

    def factors(self, data):
        """Return the factors of the matrix, those of the last call where it has the same entries."""
        known, found = self._factored
        if known is None or not np.array_equal(known, data):
            matrix = scipy.sparse.csc_array((data, (self.rows, self.cols)), self.shape)
            try:
                found = splu(matrix, permc_spec=self.order, diag_pivot_thresh=self.threshold)
            except RuntimeError:  # singular: spsolve warns and returns NaN
                self.line.warn("Matrix is exactly singular", MatrixRankWarning)
                found = None
            self._factored = np.array(data), found
        return found

    def _value(self, data, b):
        dtype = np.result_type(data, b)
        dtype = dtype if dtype in (np.float32, np.float64) else np.dtype(float)
        lu = self._owner.factors(np.asarray(data, dtype))
        if lu is None:
            return np.full(b.shape, np.nan, dtype)
        return lu.solve(np.ascontiguousarray(b, dtype), self._way)

    def _at(self):
        return (self.rows, self.cols) if self._way == "N" else (self.cols, self.rows)

    def _pullback(self, xbar, x, data, b):
        rows, cols = self._at()
        lam = self.transposed.solve(data, xbar)
        products = lam[rows] * x[cols]
        return -(products if x.ndim == 1 else np.sum(products, 1)), lam

    def _pushforward(self, tangents, x, data, b):
        ddata, db = tangents
        if ddata is None:
            return self.solve(data, db)
        rows, cols = self._at()
        total = multiplied(ddata, rows, cols, self.shape[0], x)
        return self.solve(data, -total if db is None else db - total)


class Triangle(System):
    """Systems with triangular matrices: there is no pivoting, and a zero on the diagonal raises."""

    threshold = 0.0

    def factors(self, data):
        diagonal = np.zeros(self.shape[0])
        on = self.rows == self.cols
        np.add.at(diagonal, self.rows[on], np.asarray(data)[on])
        if not diagonal.all():
            raise np.linalg.LinAlgError("A is singular: zero entry on diagonal.")
        return super().factors(data)


def make_triangular(original):
    """Return what runs in place of ``spsolve_triangular`` while tracing."""

    def spsolve_triangular(A, b, lower=True, overwrite_A=False, overwrite_b=False, unit_diagonal=False):
        trace = A.values._trace if type(A) is TracedSparse else find_trace(A, b)
        if trace is None:
            rest = lower, overwrite_A, overwrite_b, unit_diagonal
            return UsersLine().call(original, A, b, *rest)
        with failing(trace):
            return _solve_triangle(A, b, lower, unit_diagonal)

    return spsolve_triangular


def _solve_triangle(matrix, b, lower, unit):
    data, rows, cols, shape, b = checked("spsolve_triangular", matrix, b)
    inside = rows >= cols if lower else rows <= cols
    if unit:
        inside &= rows != cols
    (kept,) = np.nonzero(inside)
    data, rows, cols = data[kept], rows[kept], cols[kept]
    if unit:
        every = np.arange(shape[0])
        data = np.concatenate([data, np.ones(shape[0])])
        rows, cols = np.concatenate([rows, every]), np.concatenate([cols, every])
    return Triangle(rows, cols, shape, "NATURAL").solve(data, b)


def make_spsolve(original):
    """Return what runs in place of ``spsolve`` while tracing."""

    def spsolve(A, b, permc_spec=None, use_umfpack=True):
        trace = A.values._trace if type(A) is TracedSparse else find_trace(A, b)
        if trace is None:
            return UsersLine().call(original, A, b, permc_spec, use_umfpack)
        with failing(trace):
            return _spsolve(A, b, permc_spec)

    return spsolve


def checked(name: str, matrix, b) -> tuple:
    """Return a matrix' entries, rows, columns and shape, and the right-hand side."""
    name = name if name.startswith("scipy.") else f"scipy.sparse.linalg.{name}"
    if find_trace(matrix) is not None:
        raise not_supported(f"{name} of a dense traced matrix", "use np.linalg.solve")
    if is_sparse(b):
        raise not_supported(f"{name} with a sparse right-hand side", "use b.toarray()")
    if not is_sparse(matrix):
        matrix = scipy.sparse.csc_array(matrix)
    data, rows, cols, shape = entries(matrix)
    b = b if type(b) is TracedArray else np.asarray(b)
    if shape[0] != shape[1]:
        raise ValueError(f"matrix must be square (has shape {shape})")
    if np.shape(value_of(b))[:1] != shape[:1]:
        raise ValueError(
            f"matrix - rhs dimension mismatch ({shape} - {np.shape(value_of(b))[:1] or 'a number'})"
        )
    if "c" in (value_of(data).dtype.kind, np.asarray(value_of(b)).dtype.kind):
        raise not_supported(f"{name} of complex numbers", "use real ones")
    return data, rows, cols, shape, b


def checked_system(name: str, matrix, order: str) -> tuple[System, TracedArray]:
    """Return the systems of a sparse matrix with traced entries, and the entries."""
    data, rows, cols, shape, _ = checked(name, matrix, np.zeros(int(np.shape(matrix)[0])))
    return System(rows, cols, shape, order), data


def _spsolve(matrix, b, order):
    if is_sparse(b):
        found = _spsolve(matrix, b.toarray(), order)
        dense = np.ndim(value_of(found)) < 2
        return found if dense else TracedSparse.of_dense(found, stands_for_matrix(matrix), "csc")
    data, rows, cols, shape, b = checked("spsolve", matrix, b)
    column = b.ndim == 2 and b.shape[1] == 1  # SciPy returns a vector for such a b.
    system = System(rows, cols, shape, order)
    return system.solve(data, np.reshape(b, (-1,)) if column else b)


MAKERS["scipy.sparse.linalg"].update(spsolve=make_spsolve, spsolve_triangular=make_triangular)
