"""``scipy.linalg``'s banded, block diagonal, Toeplitz and circulant matrices.

SciPy solves banded systems. Toeplitz and circulant systems, and a band's Cholesky factor, are computed with
the whole matrix: O(n^2) memory, O(n^3) time.
"""

from __future__ import annotations

import functools

import numpy as np

from ...matrix import equations
from ...matrix.eigen import hermitian
from ...matrix.equations import linalg
from ...matrix.matrix_rule import MatrixRule, adjoint, call, conjugate, diagonal, is_complex
from ...numpy_api.registration import unsupported_argument
from ...numpy_api.sized import positions
from ...numpy_api.stand_ins import stands_for
from ...trace.axes import length, lengths
from ...trace.operands import lift_all, lift_first
from .factors_and_equations import refuse
from .linear_systems import triangular

# ---- banded


def _columns(function, b):
    """Apply a function of columns to columns or to one vector."""
    return function(b) if b.ndim > 1 else function(b[:, None])[:, 0]


@stands_for("scipy.linalg", "solve_banded")
def solve_banded(l_and_u, ab, b, overwrite_ab=False, overwrite_b=False, check_finite=True):
    lower, upper = (int(n) for n in l_and_u)
    ab, b = lift_all(ab, b)
    return _columns(lambda x: call(equations.banded(lower, upper), ab, x)[0], b)


def _hermitian_band(lower: bool, checked: bool = True) -> MatrixRule:
    """Return the rule of `scipy.linalg.solveh_banded`, of columns: the matrix is its own adjoint.

    SciPy has an error for NaN where the right-hand side is the user's. A cotangent may be NaN.
    """

    def value(ab, b):
        return linalg().solveh_banded(ab, b, lower=lower, check_finite=checked)

    def pullback(ybar, y, ab, b):
        (t,), (x,) = call(_hermitian_band(lower, False), ab, ybar[0]), y
        rows = []
        for d in range(len(ab)):
            # Those of the rows and those of the columns of the diagonal's entries.
            t_in, x_in = ((v[d:], equations.without_last(v, d)) for v in (t, x))
            i, j = (0, 1) if lower else (1, 0)
            row = -np.sum(t_in[i] * conjugate(x_in[j]) + conjugate(t_in[j]) * x_in[i], -1)
            row, pad = 0.5 * row if d == 0 else row, np.zeros_like(ab[0].real[:d])
            rows.append(np.concatenate([row, pad] if lower else [pad, row]))
        return np.stack(rows if lower else rows[::-1]), t

    return MatrixRule("scipy.linalg.solveh_banded", value, pullback)


@stands_for("scipy.linalg", "solveh_banded")
def solveh_banded(ab, b, overwrite_ab=False, overwrite_b=False, lower=False, check_finite=True):
    ab, b = lift_all(ab, b)
    return _columns(lambda x: call(_hermitian_band(bool(lower)), ab, x)[0], b)


def _lower_triangle(ab, lower: bool):
    """Return the lower triangular matrix with this band, or a stack of them."""
    width, n = int(length(ab, -2)), length(ab, -1)
    total = None
    for d in range(width):
        if not d < n:
            break
        row = ab[..., d, : n - d] if lower else conjugate(ab[..., width - 1 - d, d:])
        part = diagonal(row)  # which is moved below the diagonal
        part = np.pad(part, (*[(0, 0)] * (ab.ndim - 2), (d, 0), (0, d))) if d else part
        total = part if total is None else total + part
    return total


def _band(low, given, lower: bool):
    """Return the band of a lower triangle, or of its adjoint; unused places keep what is given."""
    width, n = int(length(given, -2)), length(given, -1)
    rows = []
    for d in range(width):
        old = given[..., d if lower else width - 1 - d, :]
        if d < n:
            row = np.diagonal(low, -d, -2, -1)
            old = np.concatenate([row, old[..., n - d :]] if lower else [old[..., :d], conjugate(row)], -1)
        rows.append(old)
    return np.stack(rows if lower else rows[::-1], -2)


@stands_for("scipy.linalg", "cholesky_banded")
def cholesky_banded(ab, overwrite_ab=False, lower=False, check_finite=True):
    ab = lift_first(ab)
    return _band(np.linalg.cholesky(_lower_triangle(ab, lower)), ab, lower)


@stands_for("scipy.linalg", "cho_solve_banded")
def cho_solve_banded(cb_and_lower, b, overwrite_b=False, check_finite=True):
    band, lower = cb_and_lower
    band, b = lift_all(band, b)
    low = _lower_triangle(band, lower)
    if band.ndim == 2 or b.ndim > 1:
        return triangular(low, triangular(low, b, True), True, 2)
    # The vector is repeated for each matrix of a stack.
    column = np.broadcast_to(b[:, None], (*low.shape[:-1], 1))
    return triangular(low, triangular(low, column, True), True, 2)[..., 0]


@stands_for("scipy.linalg", "eigvals_banded")
def eigvals_banded(
    a_band, lower=False, overwrite_a_band=False, select="a", select_range=None, check_finite=True
):
    refuse("scipy.linalg.eigvals_banded", {"select": None if select in ("a", "all", 0) else select})
    return np.linalg.eigvalsh(_lower_triangle(lift_first(a_band), lower))


@functools.cache
def _banded_eigen(width: int, lower: bool):
    """Return the rule of `eig_banded`, as a function of the lower triangle of the matrix."""

    def value(low):
        given = np.zeros((*low.shape[:-2], width, low.shape[-1]))
        return linalg().eig_banded(_band(low, given, lower), lower=lower)

    return hermitian("scipy.linalg.eig_banded", value, True)


@stands_for("scipy.linalg", "eig_banded")
def eig_banded(a_band, lower=False, eigvals_only=False, overwrite_a_band=False, select="a", select_range=None,
               max_ev=0, check_finite=True):  # fmt: skip
    if eigvals_only:
        return eigvals_banded(a_band, lower, select=select)
    refuse("scipy.linalg.eig_banded", {"select": None if select in ("a", "all", 0) else select})
    band = lift_first(a_band)
    if is_complex(band):  # the vectors of a complex matrix may be turned by any phase
        hint = "eigvals_banded is, and np.linalg.eigh of the whole matrix"
        raise unsupported_argument("scipy.linalg.eig_banded", "vectors of complex matrices", hint)
    return tuple(call(_banded_eigen(int(length(band, -2)), bool(lower)), _lower_triangle(band, lower)))


# ---- constant along diagonals


def _toeplitz(c_or_cr, *others):
    pair = c_or_cr if isinstance(c_or_cr, tuple) else (c_or_cr,)
    traced = lift_all(*pair, *others)
    c = traced[0]
    r = traced[1] if len(pair) == 2 else conjugate(c)
    if c.ndim != 1 or r.ndim != 1:
        raise unsupported_argument(
            "scipy.linalg", "several matrices of Toeplitz", "one column and one row are"
        )
    down, right = positions(c, 0), positions(r, 0)
    values = np.concatenate([np.flip(r[1:], 0), c])
    return values[length(r, 0) - 1 + down[:, None] - right], traced[-1]


@stands_for("scipy.linalg", "solve_toeplitz")
def solve_toeplitz(c_or_cr, b, check_finite=True):
    return np.linalg.solve(*_toeplitz(c_or_cr, b))


@stands_for("scipy.linalg", "matmul_toeplitz")
def matmul_toeplitz(c_or_cr, x, check_finite=False, workers=None):
    return np.matmul(*_toeplitz(c_or_cr, x))


@stands_for("scipy.linalg", "solve_circulant")
def solve_circulant(c, b, singular="raise", tol=None, caxis=-1, baxis=0, outaxis=0):
    c, b = lift_all(c, b)
    usual = caxis in (-1, 0) and baxis == 0 and outaxis == 0
    if singular != "raise" or tol is not None or c.ndim != 1 or not usual:
        raise unsupported_argument("scipy.linalg.solve_circulant", "other options or several c")
    places = positions(c, 0)
    return np.linalg.solve(c[(places[:, None] - places) % length(c, 0)], b)


@stands_for("scipy.linalg", "hankel")
def hankel(c, r=None):
    c = np.ravel(lift_first(c, r))
    r = np.zeros_like(c) if r is None else np.ravel(lift_first(r, c))
    return np.concatenate([c, r[1:]])[positions(c, 0)[:, None] + positions(r, 0)]


@stands_for("scipy.linalg", "convolution_matrix")
def convolution_matrix(a, n, mode="full"):
    a, n = lift_first(a), int(n)
    m = a.shape[-1]
    padded = np.pad(a, [(0, 0)] * (a.ndim - 1) + [(n - 1, n - 1)])
    rows = np.arange(m + n - 1)
    extra = {"full": 0, "same": min(m, n) - 1, "valid": 2 * (min(m, n) - 1)}[mode]
    rows = rows[extra // 2 : len(rows) - (extra - extra // 2)]
    return padded[..., n - 1 + rows[:, None] - np.arange(n)]


@stands_for("scipy.linalg", "khatri_rao")
def khatri_rao(a, b):
    a, b = lift_all(a, b)  # stacked along leading axes since SciPy 1.17
    products = np.einsum("...ij,...kj->...ikj", a, b)
    rows = length(a, -2) * length(b, -2)
    return np.reshape(products, (*lengths(products)[:-3], rows, length(a, -1)))


@stands_for("scipy.linalg", "diagsvd")
def diagsvd(s, M, N):
    s = lift_first(s)
    n, rows, columns = length(s, -1), int(M), int(N)
    if n not in (rows, columns):
        raise ValueError("Length of s must be M or N.")  # SciPy's own words
    square = np.where(np.eye(n, dtype=bool), np.expand_dims(s, -1), s.dtype.type(0))
    return np.pad(square, (*((0, 0),) * (s.ndim - 1), (0, rows - n), (0, columns - n)))


@stands_for("scipy.linalg", "block_diag")
def block_diag(*arrs):
    blocks = [np.atleast_2d(x) for x in lift_all(*arrs)]
    batch = ()
    if any(x.ndim > 2 for x in blocks):  # stacks of blocks since SciPy 1.16
        batch = np.broadcast_shapes(*(x.shape[:-2] for x in blocks))
    width = sum(length(x, -1) for x in blocks)
    rows, first = [], 0
    for x in blocks:
        n = length(x, -1)
        x = np.broadcast_to(x, batch + x.shape[-2:]) if batch and x.shape[:-2] != batch else x
        rows.append(np.pad(x, (*[(0, 0)] * (len(batch) + 1), (first, width - first - n))))
        first += n
    return np.concatenate(rows, -2)


@stands_for("scipy.linalg", "toeplitz")
def toeplitz(c, r=None):
    c, r = lift_all(c, np.conj(c) if r is None else r)  # stacked along leading axes since SciPy 1.17
    c, r = (np.reshape(x, (1,)) if x.ndim == 0 else x for x in (c, r))
    down, right = positions(c, -1), positions(r, -1)
    values = np.concatenate([np.flip(r[..., 1:], -1), c], -1)
    return values[..., (length(r, -1) - 1) + down[:, None] - right]


@stands_for("scipy.linalg", "circulant")
def circulant(c):
    c = np.atleast_1d(lift_first(c))
    at = positions(c, -1)
    return c[..., (at[:, None] - at) % length(c, -1)]


# ---- predicates


@stands_for("scipy.linalg", "issymmetric")
def issymmetric(a, atol=None, rtol=None):
    return _equals(a, np.matrix_transpose(lift_first(a)), atol, rtol)


@stands_for("scipy.linalg", "ishermitian")
def ishermitian(a, atol=None, rtol=None):
    return _equals(a, adjoint(lift_first(a)), atol, rtol)


def _equals(a, other, atol, rtol) -> bool:
    """Whether two matrices agree: a guard."""
    if atol is None and rtol is None:
        return bool(np.array_equal(a, other))
    return bool(np.allclose(a, other, rtol=rtol or 0.0, atol=atol or 0.0))
