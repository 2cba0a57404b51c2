"""Factorisations whose vectors are completed to a basis of the whole space: full SVD, complete QR.

The vectors beside those of the thin factorisation span its orthogonal complement, in which any other
orthonormal basis would do as well. So a function of several such vectors has a derivative only if it is the
same for each basis, as a projector is. These pullbacks let the complement turn as little as possible, and
raise where the function depends on the basis.
"""

from __future__ import annotations

import functools

import numpy as np

from ..errors import UnsupportedOperationError
from ..trace.axes import is_empty, length, lengths
from .eigen import _turn
from .factors import _svd_pullback, qr_cotangent
from .matrix_rule import MatrixRule, adjoint, call, is_complex, traced

DEPENDS = 1e-6  # A dependence on the basis below this share of the cotangent's size is taken for rounding.


def _without_complement(name: str, vectors, cotangent, k: int):
    """Return the cotangent of the first k vectors, to which that of the others is added."""
    thin, others = vectors[..., :k], vectors[..., k:]
    thin_bar, others_bar = cotangent[..., :k], cotangent[..., k:]
    if is_empty(others):
        return thin_bar
    if not traced(others_bar) and not traced(others):
        _check(name, others, others_bar)
    return thin_bar - np.matmul(others, np.matmul(adjoint(others_bar), thin))


def _check(name: str, others, others_bar) -> None:
    inner = np.matmul(adjoint(others), others_bar)
    if np.any(np.abs(inner - adjoint(inner)) > DEPENDS * np.max(np.abs(others_bar))):
        raise UnsupportedOperationError(
            f"what depends on the last {others.shape[-1]} vectors of {name} one by one has no derivative, "
            "since any basis of the space that they span would do; use their projector v @ v.T, or the thin "
            "factorisation"
        )


def _full_svd_pullback(ybar, y, a):
    (u, s, vh), (ubar, sbar, vhbar) = y, ybar
    k = length(s, -1)
    name = "svd(full_matrices=True)"
    left = _without_complement(name, u, ubar, k)
    right = _without_complement(name, adjoint(vh), adjoint(vhbar), k)
    return _svd_pullback((left, sbar, adjoint(right)), (u[..., :k], s, vh[..., :k, :]), a)


FULL_SVD = MatrixRule("np.linalg.svd", lambda a: tuple(np.linalg.svd(a)), _full_svd_pullback)


def svd_by(driver: str, full_matrices: bool):
    """Return the rule of SciPy's SVD by one of LAPACK's drivers, which differ in the signs of vectors."""

    def value(a):
        import scipy.linalg

        return scipy.linalg.svd(a, full_matrices, lapack_driver=driver)

    return MatrixRule("scipy.linalg.svd", value, _full_svd_pullback)


def svd(a, rule: MatrixRule = FULL_SVD):
    """U, singular values and V^H, with U and V square."""
    u, s, vh = call(rule, a)
    if not is_complex(u) or is_empty(a):
        return u, s, vh
    m, n = lengths(a)[-2:]
    k = n if m >= n else m
    lead = np.conj(np.swapaxes(vh[..., :k, :1], -1, -2)) if m >= n else u[..., :1, :k]
    turn = _turn(lead)
    left = np.concatenate([u[..., :k] * turn, u[..., k:]], -1)
    return left, s, np.concatenate([vh[..., :k, :] * np.conj(np.swapaxes(turn, -1, -2)), vh[..., k:, :]], -2)


@functools.cache
def null_space_by(rcond, driver: str, missing: int) -> MatrixRule:
    """Return the rule of ``scipy.linalg.null_space``, whose vectors turn as ``-A^+ dA N``.

    Matrices whose rank is by ``missing`` less than full have a rule of their own, because the number of their
    null vectors follows another law (`numbatape.rules.result_shapes`).
    """

    def value(a):
        import scipy.linalg

        # SciPy knows the driver's name since 1.14.
        options = {} if driver == "gesdd" else {"lapack_driver": driver}
        return scipy.linalg.null_space(a, rcond, **options)

    def pullback(ybar, y, a):
        (vectors,), (cotangent,) = y, ybar
        if is_empty(a) or is_empty(vectors):
            return (np.zeros_like(a),)
        if not traced(cotangent) and not traced(vectors):
            _check("null_space", vectors, cotangent)
        u, s, vh = np.linalg.svd(a, full_matrices=False)
        rank = length(a, -1) - length(vectors, -1)
        inverse = np.matmul(u[..., :rank] / s[..., None, :rank], vh[..., :rank, :])
        return (-np.matmul(inverse, np.matmul(cotangent, adjoint(vectors))),)

    return MatrixRule("scipy.linalg.null_space", value, pullback)


def _complete_qr_pullback(ybar, y, a):
    (q, r), (qbar, rbar) = y, ybar
    n = length(a, -1)
    if n < 1:
        return (np.zeros_like(a),)
    thin = _without_complement("qr of mode 'complete'", q, qbar, n)
    return (qr_cotangent(q[..., :n], r[..., :n, :], thin, rbar[..., :n, :]),)


COMPLETE_QR = MatrixRule(
    "np.linalg.qr", lambda a: tuple(np.linalg.qr(a, mode="complete")), _complete_qr_pullback
)


def tall_qr(a):
    """A square Q, and an R of the shape of a matrix with more rows than columns."""
    return call(COMPLETE_QR, a)


def _column_order(a):
    import scipy.linalg

    return np.asarray(scipy.linalg.qr(a, mode="r", pivoting=True)[1], float)


COLUMN_ORDER = MatrixRule("column order of scipy.linalg.qr", _column_order, lambda ybar, y, a: (None,))


def column_order(a):
    """Return the order of columns that ``scipy.linalg.qr(a, pivoting=True)`` chooses, as floats."""
    return call(COLUMN_ORDER, a)[0]
