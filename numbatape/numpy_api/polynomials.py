"""Polynomials by their coefficients, highest power first: roots and quotients."""

from __future__ import annotations

import numpy as np

from ..trace.axes import pinned
from ..trace.operands import lift_all, lift_first
from .registration import composes


@composes(np.roots)
def roots(p):
    """Eigenvalues of the companion matrix, as NumPy computes them; which ends are zero is guarded."""
    p = lift_first(p)
    if p.ndim == 0:
        p = np.reshape(p, (1,))
    if p.ndim != 1:
        raise ValueError("Input must be a rank-1 array.")
    first, last = 0, pinned(p, 0)
    while first < last and bool(p[first] == 0):
        first += 1
    while first < last and bool(p[last - 1] == 0):
        last -= 1
    if first == last:
        return np.array([])
    zeros = np.zeros(pinned(p, 0) - last)
    p = p[first:last]
    count = last - first - 1
    if count == 0:
        return zeros
    companion = np.concatenate([(-p[1:] / p[0])[None, :], np.eye(count - 1, count)])
    return np.concatenate([np.linalg.eigvals(companion), zeros])


@composes(np.polydiv)
def polydiv(u, v):
    """Long division; whether leading coefficients of the remainder are zero is guarded."""
    u, v = lift_all(u, v)
    u, v = (np.reshape(x, (-1,)) + 0.0 if x.ndim == 0 else x + 0.0 for x in (u, v))
    n = pinned(v, 0)
    steps = pinned(u, 0) - n + 1
    if steps < 1:
        return np.zeros(1) * (u[0] + v[0]), u
    scale, quotient, rest = 1.0 / v[0], [], u
    done = []
    for _ in range(steps):
        factor = scale * rest[0]
        quotient.append(factor)
        rest = np.concatenate([rest[:n] - factor * v, rest[n:]])
        done.append(rest[:1])
        rest = rest[1:]
    remainder = np.concatenate([*done, rest])
    while remainder.shape[0] > 1 and bool(np.allclose(remainder[0], 0, rtol=1e-14)):
        remainder = remainder[1:]
    return np.stack(quotient), remainder
