"""Reverse rules of ``eigh``, ``svd`` and ``qr`` as compositions; formulas in `numbatape.ops.spectral`."""

from __future__ import annotations

import numpy as np

from ..primitives import expand
from .pullbacks import pulls, transposed, triangular


def _inverse(gap):
    """Return ``1/gap``, and 0 for equal values, whose vectors have no derivative of their own."""
    equal = gap == 0.0
    return np.where(equal, 0.0, 1.0 / np.where(equal, 1.0, gap))


def _split(x, *shapes):
    """Return the parts of a packed vector, in the given core shapes."""
    parts, first = [], 0
    for shape in shapes:
        last = first + int(np.prod(shape))
        parts.append(x[..., first:last].reshape(*x.shape[:-1], *shape))
        first = last
    return parts


def _diagonal(x, n: int):
    return expand(x, (-1,)) * np.eye(n)


@pulls("eigh")
def eigh(ct, z, operands, need):
    n = operands[0].shape[-1]
    if n == 0:
        return (None,)
    values, rows = _split(z, (n,), (n, n))
    its_values, its_rows = _split(ct, (n,), (n, n))
    gap = expand(values, (-2,)) - expand(values, (-1,))
    inner = _inverse(gap) * np.matmul(rows, transposed(its_rows)) + _diagonal(its_values, n)
    whole = np.matmul(transposed(rows), np.matmul(inner, rows))
    half = np.tril(np.ones((n, n)), -1) + 0.5 * np.eye(n)
    return ((whole + transposed(whole)) * half,)


@pulls("svd")
def svd(ct, z, operands, need):
    m, n = operands[0].shape[-2:]
    k = min(m, n)
    if k == 0:
        return (None,)
    shapes = (k,), (k, m), (n, k)
    s, rows, right = _split(z, *shapes)
    its_s, its_rows, its_right = _split(ct, *shapes)
    p, q = np.matmul(rows, transposed(its_rows)), np.matmul(transposed(right), its_right)
    across, down = expand(s, (-2,)), expand(s, (-1,))
    gap = _inverse((across - down) * (across + down))
    inner = gap * ((p - transposed(p)) * across + down * (q - transposed(q))) + _diagonal(its_s, k)
    left = np.matmul(transposed(rows), inner)
    if m > k:
        left = left + (transposed(its_rows) - np.matmul(transposed(rows), p)) * _inverse(across)
    result = np.matmul(left, transposed(right))
    if n > k:
        rest = (its_right - np.matmul(right, q)) * _inverse(across)
        result = result + np.matmul(transposed(rows), transposed(rest))
    return (result,)


@pulls("qr")
def qr(ct, z, operands, need):
    m, n = operands[0].shape[-2:]
    if n == 0:
        return (None,)
    rows, r = _split(z, (n, m), (n, n))
    its_rows, its_r = _split(ct, (n, m), (n, n))
    inner = np.matmul(r, transposed(its_r)) - np.matmul(its_rows, transposed(rows))
    symmetric = np.tril(inner) + transposed(np.tril(inner, -1))
    total = its_rows + np.matmul(symmetric, rows)
    return (transposed(triangular("solve_upper", r, total)),)
