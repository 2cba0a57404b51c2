"""Determinants of complex matrices."""

from __future__ import annotations

import numpy as np

from .rules import MatrixRule, adjoint, traced

CONDITION = 1e6  # number of a matrix above which its adjugate is not computed from its inverse


def _across(x):
    return x[..., None, None]


def _is_regular(a) -> bool:
    """Whether the inverse is accurate."""
    try:
        inverse = np.linalg.inv(a)
    except np.linalg.LinAlgError:
        return False
    sizes = [np.max(np.sum(np.abs(x), -1), initial=0.0) for x in (a, inverse)]
    return bool(sizes[0] * sizes[1] < CONDITION)


def adjugate(a):
    """Return ``det(A) A^-1`` of a matrix of any rank, by singular values (Stewart 1998)."""
    if traced(a) or _is_regular(a):
        return _across(np.linalg.det(a)) * np.linalg.inv(a)
    u, s, vh = np.linalg.svd(a)
    one = np.ones((*s.shape[:-1], 1))
    before = np.concatenate([one, np.cumprod(s, -1)[..., :-1]], -1)
    behind = np.flip(np.concatenate([one, np.cumprod(np.flip(s, -1), -1)[..., :-1]], -1), -1)
    inner = (before * behind)[..., None] * adjoint(u)
    return _across(np.linalg.det(u) * np.linalg.det(vh)) * np.matmul(adjoint(vh), inner)


def _det_pullback(ybar, y, a):
    return (_across(ybar[0]) * adjoint(adjugate(a)) if 0 not in a.shape else np.zeros(a.shape),)


DET = MatrixRule("np.linalg.det", np.linalg.det, _det_pullback)


def _slogdet_pullback(ybar, y, a):
    """``d log|det| + d sign/sign = tr(A^-1 dA)``: real and imaginary part."""
    (sign, _), (sbar, lbar) = y, ybar
    if 0 in a.shape:
        return (np.zeros(a.shape),)
    turn = sbar.imag * sign.real - sbar.real * sign.imag
    return (_across(lbar + 1j * turn) * adjoint(np.linalg.inv(a)),)


SLOGDET = MatrixRule("np.linalg.slogdet", lambda a: tuple(np.linalg.slogdet(a)), _slogdet_pullback)
