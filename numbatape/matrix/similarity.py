"""Matrices that are similar to a given one: its Hessenberg form, and its real Schur form."""

from __future__ import annotations

import numpy as np

from ..trace.axes import is_empty
from .eigen import inverse_gaps
from .matrix_rule import MatrixRule, adjoint, conjugate, is_complex


def hessenberg(a):
    """Return H and Q with ``A = Q H Q^H``, by the reflections that LAPACK's gehrd makes."""
    n = a.shape[-1]
    h, q = a, np.eye(n) + 0.0 * a
    for k in range(n - 1 if is_complex(a) else n - 2):
        column = h[k + 1 :, k]
        first, rest = column[0], column[1:]
        removed = np.sum(_squares(rest)) + (first.imag**2 if is_complex(a) else 0.0)
        if not bool(removed > 0.0):  # a guard: there is nothing to reflect
            continue
        size = np.sqrt(removed + first.real**2)
        end = np.where(np.less(first.real, 0.0), size, -size)
        factor = (end - first) / end
        axis = np.concatenate([np.ones(1), rest / (first - end)])
        weights = conjugate(axis)
        h = _rows_moved(h, k + 1, conjugate(factor) * axis[:, None] * (weights @ h[k + 1 :]))
        h = _columns_moved(h, k + 1, factor * (h[:, k + 1 :] @ axis)[:, None] * weights)
        q = _columns_moved(q, k + 1, factor * (q[:, k + 1 :] @ axis)[:, None] * weights)
    return np.triu(h, -1), q


def _squares(x):
    return x.real**2 + x.imag**2 if is_complex(x) else x * x


def _rows_moved(x, start: int, by):
    return np.concatenate([x[:start], x[start:] - by])


def _columns_moved(x, start: int, by):
    return np.concatenate([x[:, :start], x[:, start:] - by], 1)


def _schur(a):
    import scipy.linalg

    return scipy.linalg.schur(a)


def _schur_pullback(ybar, y, a):
    """The pullback for distinct real eigenvalues.

    With ``dZ = Z (L - L^T)`` for a strictly lower L, the part of ``L T - T L`` below the diagonal is that of
    ``S = Z^T dA Z``. What is on and above the diagonal stays there if it is multiplied by upper triangular
    matrices, so T's eigenvectors turn this equation into one for each entry of L.
    """
    (tbar, zbar), (t, z) = ybar, y
    if is_empty(a):
        return (np.zeros_like(a),)
    values, vectors = np.linalg.eig(t)
    upper = np.triu(tbar)
    turn = np.matmul(adjoint(z), zbar) - np.matmul(upper, adjoint(t)) + np.matmul(adjoint(t), upper)
    turn = np.tril(turn - adjoint(turn), -1)
    inner = np.matmul(adjoint(vectors), adjoint(np.linalg.solve(vectors, adjoint(turn))))
    inner = np.tril(inverse_gaps(values) * inner, -1)
    inner = np.matmul(np.linalg.solve(adjoint(vectors), inner), adjoint(vectors))
    return (np.matmul(z, np.matmul(upper + inner, adjoint(z))),)


SCHUR = MatrixRule("scipy.linalg.schur", _schur, _schur_pullback)
