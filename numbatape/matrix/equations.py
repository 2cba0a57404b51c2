"""Matrix equations, differentiated by the equations that their derivatives solve."""

from __future__ import annotations

import contextlib

import numpy as np

from ..trace.axes import length
from .matrix_rule import MatrixRule, adjoint, call, conjugate, identity


def linalg():
    import scipy.linalg

    return scipy.linalg


# ---- linear systems of complex matrices


def _solve_pullback(ybar, y, a, b):
    t = np.linalg.solve(adjoint(a), ybar[0])
    return -np.matmul(t, adjoint(y[0])), t


def _inv_pullback(ybar, y, a):
    back = adjoint(y[0])
    return (-np.matmul(back, np.matmul(ybar[0], back)),)


SOLVE = MatrixRule("np.linalg.solve", np.linalg.solve, _solve_pullback)
INV = MatrixRule("np.linalg.inv", np.linalg.inv, _inv_pullback)


# ---- equations in a matrix


def _sylvester_pullback(ybar, y, a, b, q):
    """``A X + X B = Q``: with ``A^H G + G B^H = Xbar``, Qbar = G, ``Abar = -G X^H``, ``Bbar = -X^H G``."""
    g = sylvester(adjoint(a), adjoint(b), ybar[0])
    back = adjoint(y[0])
    return -np.matmul(g, back), -np.matmul(back, g), g


def _solve_sylvester(a, b, q):
    """Call SciPy with matrices of one kind: given real and complex ones, SciPy 1.17 returns no solution."""
    kind = np.result_type(a, b, q)
    return linalg().solve_sylvester(a.astype(kind), b.astype(kind), q.astype(kind))


SYLVESTER = MatrixRule("scipy.linalg.solve_sylvester", _solve_sylvester, _sylvester_pullback)


def sylvester(a, b, q):
    return call(SYLVESTER, a, b, q)[0]


def _discrete_pullback(ybar, y, a, q):
    """``X = A X A^H + Q``: with ``G = A^H G A + Xbar``, Qbar = G, ``Abar = G A X^H + G^H A X``."""
    g = discrete_lyapunov(adjoint(a), ybar[0])
    ax = np.matmul(a, y[0])
    return np.matmul(g, np.matmul(a, adjoint(y[0]))) + np.matmul(adjoint(g), ax), g


DISCRETE = MatrixRule(
    "scipy.linalg.solve_discrete_lyapunov",
    lambda a, q: linalg().solve_discrete_lyapunov(a, q),
    _discrete_pullback,
)


def discrete_lyapunov(a, q):
    return call(DISCRETE, a, q)[0]


# ---- Riccati's equations. X is stationary in the gain K, so that the derivative of K drops out.


def _riccati(x, b, r, closed, gain, g):
    """Return the cotangents of A, B, Q and R, given that of the residual.

    Parameters
    ----------
    closed
        The factor in the residual's derivative ``dA^H (X closed) + (closed^H X) dA``.
    """
    abar = np.matmul(adjoint(x), np.matmul(closed, g)) + np.matmul(x, np.matmul(closed, adjoint(g)))
    return abar, -np.matmul(abar, adjoint(gain)), g, np.matmul(gain, np.matmul(g, adjoint(gain)))


def _continuous_are_pullback(ybar, y, a, b, q, r):
    (x,) = y
    gain = np.linalg.solve(r, np.matmul(adjoint(b), x))
    closed = a - np.matmul(b, gain)
    g = -sylvester(closed, adjoint(closed), ybar[0])
    return _riccati(x, b, r, identity(a), gain, g)


def _discrete_are_pullback(ybar, y, a, b, q, r):
    (x,) = y
    xb = np.matmul(x, b)
    gain = np.linalg.solve(r + np.matmul(adjoint(b), xb), np.matmul(adjoint(xb), a))
    closed = a - np.matmul(b, gain)
    g = discrete_lyapunov(closed, ybar[0])
    return _riccati(x, b, r, closed, gain, g)


CONTINUOUS_ARE = MatrixRule(
    "scipy.linalg.solve_continuous_are",
    lambda a, b, q, r: linalg().solve_continuous_are(a, b, q, r),
    _continuous_are_pullback,
)
DISCRETE_ARE = MatrixRule(
    "scipy.linalg.solve_discrete_are",
    lambda a, b, q, r: linalg().solve_discrete_are(a, b, q, r),
    _discrete_are_pullback,
)


# ---- functions of matrices


def by_block(name: str, value, varies: bool = True) -> MatrixRule:
    """Return the rule of an analytic function f of a matrix.

    Its pullback is a block of f at a matrix of twice the size (Higham 2008, "Functions of Matrices", 3.6):
    ``f([[A, E], [0, A]]) = [[f(A), f'(A; E)], [0, f(A)]]``, with A^T, and the conjugates of Fbar and Abar.
    """

    def pullback(ybar, y, a):
        n = length(a, -1)
        turned = np.swapaxes(a, -1, -2)
        upper = np.concatenate([turned, conjugate(ybar[0])], -1)
        lower = np.concatenate([np.zeros_like(turned), turned], -1)
        return (conjugate(call(rule, np.concatenate([upper, lower], -2))[0][..., :n, n:]),)

    rule = MatrixRule(name, value, pullback, varies)
    return rule


@contextlib.contextmanager
def undisturbed():
    """Restore NumPy's global generator, from which SciPy draws to estimate norms."""
    state = np.random.get_state()  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(state)  # noqa: NPY002


def _logm(a):
    with undisturbed():
        return linalg().logm(a)


EXPM = by_block("scipy.linalg.expm", lambda a: linalg().expm(a), varies=False)
LOGM = by_block("scipy.linalg.logm", _logm)


def _sqrtm_pullback(ybar, y, a):
    """``X dX + dX X = dA``."""
    back = adjoint(y[0])
    return (sylvester(back, back, ybar[0]),)


SQRTM = MatrixRule("scipy.linalg.sqrtm", lambda a: linalg().sqrtm(a), _sqrtm_pullback, varies=True)


# ---- banded systems


def without_last(x, count: int):
    """Return an array without its last so many rows, for every size."""
    return x[:-count] if count else x


def transposed_band(lower: int, upper: int, ab):
    """Return the conjugate transpose of a matrix in the same storage, with ``upper`` diagonals below."""
    rows = []
    for k in range(lower + upper + 1):  # row k has the diagonal upper - k, of length n - |upper - k|
        shift = upper - k
        row = conjugate(ab[k])
        if shift >= 0:
            rows.append(np.concatenate([row[shift:], np.zeros_like(row.real[:shift])]))
        else:
            rows.append(np.concatenate([np.zeros_like(row.real[:-shift]), without_last(row, -shift)]))
    return np.stack(rows[::-1])


def banded(lower: int, upper: int, checked: bool = True) -> MatrixRule:
    """Return the rule of ``scipy.linalg.solve_banded``, of columns.

    SciPy has an error for NaN where the right-hand side is the user's. A cotangent may be NaN.
    """

    def pullback(ybar, y, ab, b):
        (x,) = y
        turned = transposed_band(lower, upper, ab)
        t = call(banded(upper, lower, False), turned, ybar[0])[0]
        rows = []
        for k in range(lower + upper + 1):
            shift = upper - k  # the diagonal of the entries A[j - shift, j]
            left, right = (t, x[shift:]) if shift >= 0 else (t[-shift:], x)
            left, right = without_last(left, max(shift, 0)), without_last(right, max(-shift, 0))
            row, pad = -np.sum(left * conjugate(right), -1), np.zeros_like(ab[k].real[: abs(shift)])
            rows.append(np.concatenate([pad, row] if shift >= 0 else [row, pad]))
        return np.stack(rows), t

    def value(ab, b):
        return linalg().solve_banded((lower, upper), ab, b, check_finite=checked)

    return MatrixRule("scipy.linalg.solve_banded", value, pullback)
