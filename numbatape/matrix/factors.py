"""Factorisations: complex Cholesky, QR and SVD, RQ, LU with its pivots, the polar decomposition."""

from __future__ import annotations

import numpy as np

from ..trace.axes import is_empty, lengths
from .eigen import _turn, folded, sizes_of, without_noise
from .matrix_rule import (
    MatrixRule,
    adjoint,
    call,
    diagonal,
    identity,
    is_complex,
    solve_triangle,
)


def _lower_half(x):
    """Return the lower triangle with half the diagonal."""
    return 0.5 * (np.tril(x) + np.tril(x, -1))


# ---- complex Cholesky, QR, SVD


def _cholesky_pullback(ybar, y, a):
    (z,), (ct,) = y, ybar
    inner = _lower_half(np.matmul(adjoint(z), np.tril(ct)))
    left = solve_triangle(adjoint(z), inner, False)
    return (folded(adjoint(solve_triangle(adjoint(z), adjoint(left), False)), True),)


CHOLESKY = MatrixRule("np.linalg.cholesky", np.linalg.cholesky, _cholesky_pullback)


def qr_cotangent(q, r, qbar, rbar):
    """``(Qbar + Q L) R^-H`` with L Hermitian, of the lower triangle of ``R Rbar^H - Qbar^H Q`` (Walter and
    Lehmann 2010); R's diagonal is real."""
    inner = _lower_half(np.matmul(r, adjoint(rbar)) - np.matmul(adjoint(qbar), q))
    total = qbar + np.matmul(q, inner + adjoint(inner))
    return adjoint(solve_triangle(r, adjoint(total), False))


def _qr_pullback(ybar, y, a):
    return (np.zeros_like(a) if is_empty(a) else qr_cotangent(*y, *ybar),)


QR = MatrixRule("np.linalg.qr", lambda a: tuple(np.linalg.qr(a)), _qr_pullback)


def qr(a):
    """Q and R with min(m, n) columns and rows; for a wide matrix from the QR of its first columns."""
    m, n = lengths(a)[-2:]
    if n <= m:
        return call(QR, a)
    q, r = call(QR, a[..., :m])
    return q, np.concatenate([r, np.matmul(adjoint(q), a[..., m:])], -1)


def _svd_pullback(ybar, y, a):
    """As for real matrices (`numbatape.ops.spectral`).

    The phases of U and V contribute by the imaginary diagonal of ``U^H Ubar``.
    """
    u, s, vh = y
    ubar, sbar, vhbar = ybar
    if is_empty(a):
        return (np.zeros_like(a),)
    v, vbar = adjoint(vh), adjoint(vhbar)
    m, n = lengths(a)[-2:]
    p, q = np.matmul(adjoint(u), ubar), np.matmul(adjoint(v), vbar)
    across, down = s[..., None, :], s[..., :, None]
    gap = (across - down) * (across + down)
    same = np.equal(gap, 0.0)
    gap = np.where(same, 0.0, 1.0 / np.where(same, 1.0, gap))
    zero = np.equal(across, 0.0)
    inverse = np.where(zero, 0.0, 1.0 / np.where(zero, 1.0, across))
    turn = (p - adjoint(p)) * across + down * (q - adjoint(q))
    left, right = sizes_of(ubar, -2), sizes_of(vbar, -2)
    size = (left + np.swapaxes(left, -1, -2)) * across + down * (right + np.swapaxes(right, -1, -2))
    inner = gap * without_noise(turn, size, across - down, s) + diagonal(sbar)
    if is_complex(u):
        inner = inner + 0.5 * np.tril(np.triu(p - adjoint(p))) * inverse
    left = np.matmul(u, inner)
    if m > n:
        left = left + (ubar - np.matmul(u, p)) * inverse
    result = np.matmul(left, vh)
    if n > m:
        result = result + np.matmul(u, adjoint((vbar - np.matmul(v, q)) * inverse))
    return (result,)


SVD = MatrixRule("np.linalg.svd", lambda a: tuple(np.linalg.svd(a, full_matrices=False)), _svd_pullback)


def svd(a):
    """U, singular values and V^H with min(m, n) vectors.

    LAPACK makes the first row of V real where m >= n, else that of U.
    """
    u, s, vh = call(SVD, a)
    if not is_complex(u) or is_empty(a):
        return u, s, vh
    m, n = lengths(a)[-2:]
    lead = np.conj(np.swapaxes(vh[..., :, :1], -1, -2)) if m >= n else u[..., :1, :]
    turn = _turn(lead)
    return u * turn, s, vh * np.conj(np.swapaxes(turn, -1, -2))


# ---- RQ


def _rq(a):
    import scipy.linalg

    return scipy.linalg.rq(a, mode="economic")


def _flip(x, *axes):
    return np.flip(x, axes)


def _rq_pullback(ybar, y, a):
    """With J the exchange of order, ``A^H J = (Q^H J)(J R^H J)`` is a QR factorisation."""
    (r, q), (rbar, qbar) = y, ybar
    parts = (_flip(adjoint(q), -1), _flip(adjoint(r), -1, -2), _flip(adjoint(qbar), -1))
    return (adjoint(_flip(qr_cotangent(*parts, _flip(adjoint(rbar), -1, -2)), -1)),)


RQ = MatrixRule("scipy.linalg.rq", _rq, _rq_pullback)


# ---- LU


def _lu(a):
    import scipy.linalg

    order, lower, upper = scipy.linalg.lu(a, p_indices=True)
    # SciPy's order maps rows of L U to rows of A; this one maps rows of A to rows of L U.
    return np.argsort(np.asarray(order), -1).astype(float), lower, upper


def _lu_pullback(ybar, y, a):
    """``L^-H (strictly lower part of L^H Lbar + upper part of Ubar U^H) U^-H`` of the leading square."""
    (_, lbar, ubar), (order, low, up) = ybar, y
    (m, n), rest = lengths(a)[-2:], None
    square, upper, lbar_square, ubar_square = low, up, lbar, ubar
    if m > n:  # the rows below the square part are C = L2 U
        square, lbar_square = low[..., :n, :], lbar[..., :n, :]
        rest = adjoint(solve_triangle(upper, adjoint(lbar[..., n:, :]), False))
        ubar_square = ubar_square - np.matmul(adjoint(low[..., n:, :]), rest)
    elif n > m:  # the columns right of the square part are C = L U2
        upper, ubar_square = up[..., :, :m], ubar[..., :, :m]
        rest = solve_triangle(adjoint(square), ubar[..., :, m:], False)
        lbar_square = lbar_square - np.matmul(rest, adjoint(up[..., :, m:]))
    inner = np.tril(np.matmul(adjoint(square), lbar_square), -1)
    inner = inner + np.triu(np.matmul(ubar_square, adjoint(upper)))
    ct = adjoint(solve_triangle(upper, adjoint(solve_triangle(adjoint(square), inner, False)), False))
    if rest is not None:
        ct = np.concatenate([ct, rest], -2 if m > n else -1)
    back = np.astype(np.argsort(order, -1), int)
    return (np.take_along_axis(ct, back[..., None], -2),)


LU = MatrixRule("scipy.linalg.lu", _lu, _lu_pullback)


# ---- polar decomposition


def _polar(a):
    import scipy.linalg

    return scipy.linalg.polar(a)


def _hermitian_sylvester(p, q):
    """Return X with ``P X + X P = Q`` of a positive P; NaN of a singular one, whose factors have none."""
    w, v = np.linalg.eigh(p)
    sums = w[..., :, None] + w[..., None, :]
    lost = sums <= w.shape[-1] * np.finfo(w.dtype).eps * np.max(w, -1, initial=0.0)[..., None, None]
    inner = np.matmul(adjoint(v), np.matmul(q, v)) / np.where(lost, np.nan, sums)
    return np.matmul(v, np.matmul(inner, adjoint(v)))


def _hermitian_sylvester_pullback(ybar, y, p, q):
    """The solution S for Xbar is the cotangent of Q, as P is Hermitian; that of P is ``-(S X^H + X^H S)``."""
    share = call(OF_POLAR, p, ybar[0])[0]
    x = adjoint(y[0])
    return -(np.matmul(share, x) + np.matmul(x, share)), share


OF_POLAR = MatrixRule("scipy.linalg.polar", _hermitian_sylvester, _hermitian_sylvester_pullback)


def _polar_pullback(ybar, y, a):
    """``P (U^H dU) + (U^H dU) P = U^H dA - dA^H U`` and ``P = U^H A``: no gaps of singular values."""
    (ubar, pbar), (u, p) = ybar, y
    ubar = ubar + np.matmul(a, adjoint(pbar))
    inner = np.matmul(adjoint(u), ubar)
    (turn,) = call(OF_POLAR, p, inner)
    result = np.matmul(u, pbar + turn - adjoint(turn))
    m, n = lengths(a)[-2:]
    if m > n:
        result = result + adjoint(np.linalg.solve(p, adjoint(ubar - np.matmul(u, inner))))
    return (result,)


POLAR = MatrixRule("scipy.linalg.polar", _polar, _polar_pullback)


# ---- LU as LAPACK packs it


def _order(pivots):
    """Return the order of rows that a sequence of exchanges makes."""
    order = np.arange(len(pivots))
    for i, j in enumerate(np.asarray(pivots).astype(int)):
        order[[i, j]] = order[[j, i]]
    return order.astype(float)


ORDER = MatrixRule("order of pivots", _order, lambda ybar, y, pivots: (None,))


def _lu_factor(a):
    import scipy.linalg

    both, pivots = scipy.linalg.lu_factor(a)
    return both, pivots.astype(float), _order(pivots)


def _lu_factor_pullback(ybar, y, a):
    (ct, _, _), (both, _, order) = ybar, y
    parts = order, np.tril(both, -1) + identity(both), np.triu(both)
    return _lu_pullback((None, np.tril(ct, -1), np.triu(ct)), parts, a)


LU_FACTOR = MatrixRule("scipy.linalg.lu_factor", _lu_factor, _lu_factor_pullback)


# ---- L D L^H


def _ldl_parts(lower: bool):
    def value(a):
        import scipy.linalg

        factor, blocks, order = scipy.linalg.ldl(a, lower=lower)
        return factor[order], blocks, order.astype(float)

    return value


def _ldl_rule(lower: bool) -> MatrixRule:
    """Return the rule that gives L (or U), the blocks D on the diagonal, and the order of the pivots.

    With ``S = L^-1 dA L^-H``, dD is S in the blocks, and ``L^-1 dL D`` is S on the side of L outside of them.
    """

    def pullback(ybar, y, a):
        (lbar, dbar, _), (low, blocks, order) = ybar, y
        if is_empty(a):
            return (np.zeros_like(a),)
        pairs = np.not_equal(blocks, 0.0)  # pivots of two rows have an entry beside the diagonal
        inside = np.where(np.logical_or(pairs, identity(blocks) > 0.0), 1.0, 0.0)
        outside = np.tril(1.0 - inside, -1) if lower else np.triu(1.0 - inside, 1)
        moved = adjoint(np.linalg.solve(blocks, adjoint(np.matmul(adjoint(low), lbar))))
        inner = inside * dbar + outside * moved
        left = np.linalg.solve(adjoint(low), inner)
        ct = adjoint(np.linalg.solve(adjoint(low), adjoint(left)))
        back = np.astype(np.argsort(order), int)
        return (folded(0.5 * (ct + adjoint(ct))[back][:, back], lower),)

    return MatrixRule("scipy.linalg.ldl", _ldl_parts(lower), pullback)


LDL = {lower: _ldl_rule(lower) for lower in (False, True)}
