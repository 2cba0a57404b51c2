"""Determinants: cofactors and their derivatives of every order, of matrices of any rank; complex ones.

The determinant is a polynomial, so it has derivatives also where there is no inverse. The k-th derivative
of the cofactors, along k matrices, is a rule whose pullback consists of rules of order k + 1: the
derivative is symmetric in its directions, and the cotangent is one more direction.
"""

from __future__ import annotations

import functools

import numpy as np

from .matrix_rule import MatrixRule, adjoint, call, conjugate

SMALL = 1e-6  # a share of the largest singular value; nothing is divided by singular values below it


def _across(x):
    return x[..., None, None]


class Expansion:
    """A matrix polynomial in infinitesimals whose squares are zero: one matrix for each subset of them.

    ``parts[m]`` is the coefficient of the product of those whose bits are set in m.
    """

    def __init__(self, parts):
        self.parts = parts

    @classmethod
    def constant(cls, matrix, count: int):
        parts = np.zeros((count, *matrix.shape), matrix.dtype)
        parts[0] = matrix
        return cls(parts)

    def __add__(self, other):
        return Expansion(self.parts + other.parts)

    def __sub__(self, other):
        return Expansion(self.parts - other.parts)

    def __matmul__(self, other):
        count = len(self.parts)
        shape = (count, self.parts.shape[1], other.parts.shape[2])
        parts = np.zeros(shape, np.result_type(self.parts, other.parts))
        for m in range(count):
            for n in range(count):
                if not m & n:
                    parts[m | n] += self.parts[m] @ other.parts[n]
        return Expansion(parts)

    def block(self, rows: slice, columns: slice):
        return Expansion(self.parts[:, rows, columns])

    def trace(self):
        return Expansion(np.trace(self.parts, axis1=1, axis2=2)[:, None, None])

    def times(self, number):
        """Multiply by an expansion of a number (1 by 1), or by a number."""
        if not isinstance(number, Expansion):
            return Expansion(number * self.parts)
        eye = np.eye(self.parts.shape[1])
        return Expansion(number.parts * eye) @ self


def _inverse(a: Expansion) -> Expansion:
    """Invert by Newton's iteration, which is exact after as many steps as there are infinitesimals."""
    count = len(a.parts)
    x = Expansion.constant(np.linalg.inv(a.parts[0]), count)
    twice = Expansion.constant(2.0 * np.eye(a.parts.shape[1]), count)
    for _ in range(count.bit_length()):
        x = x @ (twice - a @ x)
    return x


def _adjugate_by_traces(a: Expansion) -> tuple[Expansion, Expansion]:
    """Return adjugate and determinant without a division by an entry (Faddeev and Le Verrier)."""
    count, n = len(a.parts), a.parts.shape[1]
    eye = Expansion.constant(np.eye(n, dtype=a.parts.dtype), count)
    matrix, total = eye, Expansion.constant(np.ones((1, 1)), count)
    for k in range(1, n + 1):
        product = a @ matrix
        total = product.trace().times(1.0 / k)
        if k < n:
            matrix = eye.times(total) - product
    return matrix, total


def _determinant_near_one(a: Expansion) -> Expansion:
    """The determinant of the identity and infinitesimals: Newton's identities for traces of powers."""
    count, n = len(a.parts), a.parts.shape[1]
    rest = a - Expansion.constant(np.eye(n, dtype=a.parts.dtype), count)
    terms = [Expansion.constant(np.ones((1, 1)), count)]
    powers, power = [], Expansion.constant(np.eye(n, dtype=a.parts.dtype), count)
    for k in range(1, count.bit_length()):
        power = power @ rest
        powers.append(power.trace())
        parts = [powers[i].times(terms[k - 1 - i]).times((-1.0) ** i / k) for i in range(k)]
        terms.append(functools.reduce(Expansion.__add__, parts))
    return functools.reduce(Expansion.__add__, terms)


def _adjugate(a, directions):
    """Return the derivative of a matrix' adjugate along some matrices.

    In the bases of its singular vectors the matrix splits into an invertible block and a small block, of
    which only products are taken; Schur's complement combines both.
    """
    u, s, vh = np.linalg.svd(a)
    n, k = len(a), len(directions)
    left, right = np.conj(u.T), np.conj(vh.T)
    parts = np.zeros((1 << k, n, n), np.result_type(a, *directions, float))
    parts[0] = np.diag(s)
    for i, direction in enumerate(directions):
        parts[1 << i] = left @ direction @ right
    whole = Expansion(parts)
    rank = int(np.count_nonzero(s > SMALL * s.max(initial=0.0)))
    top, rest = slice(0, rank), slice(rank, n)
    inverse = _inverse(whole.block(top, top))
    down, across = whole.block(rest, top) @ inverse, inverse @ whole.block(top, rest)
    complement = whole.block(rest, rest) - whole.block(rest, top) @ across
    scaled = Expansion(whole.block(top, top).parts / s[:rank, None])
    factor = _determinant_near_one(scaled).times(np.prod(s[:rank]))
    if rank == n:
        result = inverse.times(factor)
    else:
        adjugate, determinant = _adjugate_by_traces(complement)
        upper = inverse.times(determinant) + across @ adjugate @ down
        rows = [[upper, (across @ adjugate).times(-1.0)], [(adjugate @ down).times(-1.0), adjugate]]
        joined = np.concatenate([np.concatenate([x.parts for x in row], 2) for row in rows], 1)
        result = Expansion(joined).times(factor)
    return np.linalg.det(u) * np.linalg.det(vh) * (right @ result.parts[-1] @ left)


def _cofactors(a, *directions):
    """Return the derivative of the cofactors of (a stack of) matrices along some matrices."""
    batch = np.broadcast_shapes(*(x.shape[:-2] for x in (a, *directions)))
    a, *directions = (np.broadcast_to(x, batch + x.shape[-2:]) for x in (a, *directions))
    result = np.zeros(a.shape, np.result_type(a, *directions))
    for k in np.ndindex(batch):
        if a[k].size and np.isfinite(a[k]).all():
            result[k] = _adjugate(a[k], [x[k] for x in directions]).T
        else:
            result[k] = np.nan
    return result


@functools.cache
def _rule(order: int) -> MatrixRule:
    """Return the derivative of the cofactors of an order as a rule of the matrix and its directions."""

    def pullback(ybar, y, a, *directions):
        ct = conjugate(ybar[0])
        others = [directions[:k] + directions[k + 1 :] for k in range(order)]
        parts = [_call(a, ct, *directions), *(_call(a, ct, *rest) for rest in others)]
        return tuple(map(conjugate, parts))

    return MatrixRule("np.linalg.det", _cofactors, pullback)


def _call(a, *directions):
    return call(_rule(len(directions)), a, *directions)[0]


def cofactors(a):
    """Return ``det(A) A^-T`` of matrices of any rank; its derivatives hold for any rank, too."""
    return _call(a)


def _det_pullback(ybar, y, a):
    return (_across(ybar[0]) * conjugate(cofactors(a)) if 0 not in a.shape else np.zeros(a.shape),)


DET = MatrixRule("np.linalg.det", np.linalg.det, _det_pullback)


def _slogdet_pullback(ybar, y, a):
    """``d log|det| + d sign/sign = tr(A^-1 dA)``: real and imaginary part."""
    (sign, logarithm), (sbar, lbar) = y, ybar
    if 0 in a.shape:
        return (np.zeros(a.shape),)
    turn = sbar.imag * sign.real - sbar.real * sign.imag
    cotangent, singular = _across(lbar + 1j * turn), _across(logarithm == -np.inf)
    # The derivative at a singular matrix is NaN, unless another value was chosen in the place of this one.
    inverse = adjoint(np.linalg.inv(a + np.where(singular, np.nan, 0.0)))
    return (np.where(np.logical_and(singular, cotangent == 0.0), 0.0, cotangent * inverse),)


SLOGDET = MatrixRule("np.linalg.slogdet", lambda a: tuple(np.linalg.slogdet(a)), _slogdet_pullback)
