"""Determinants: with sign, in logarithms, and of singular matrices."""

import math
import warnings

import numpy as np

from ..jit.language import getrf, getrs, lu_sign, opaque, trsm
from .dependencies import dense, everything
from .linalg import SQUARES, add_matrix, copy_matrix, put_identity, well_conditioned
from .status import DONE
from .table import array_op

BIG = 2.0**256
SMALL = 2.0**-256
# If the smallest pivot is less than this share of the largest, the adjoint of det is computed by a
# factorisation that reveals the rank.
DEFICIENT = 1e-6


@array_op("logabsdet", "(n,n)->()", scratch="2*n*n+n", cases=SQUARES, make=well_conditioned)
class Logabsdet:
    """``log(abs(det(A)))``; ``Abar += zbar A^-T``.

    For a singular matrix: -inf, with NaN adjoints, unless the cotangent is zero: another value was chosen.
    """

    depends, interacts = dense, everything

    def oracle(a):
        return np.linalg.slogdet(a)[1]

    def forward(v, o, a, n, sa0, sa1, s):
        copy_matrix(v, s, v, a, sa0, sa1, n, n)
        total = 0.0
        if n > 0:
            if getrf(v, s, n, s + n * n) != 0:
                total = -math.inf
            else:
                for i in range(n):
                    total += math.log(abs(v[s + i * (n + 1)]))
        v[o] = total
        return DONE

    def reverse(v, g, o, a, n, sa0, sa1, s):
        gz = g[o]
        if n > 0 and gz != 0.0:
            t = s + n * n + n
            put_identity(v, t, n)
            if v[o] == -math.inf:
                gz = math.nan
            else:
                getrs(v, s, n, s + n * n, v, t, n, n, 1)
            add_matrix(g, a, sa0, sa1, v, t, n, n, gz)

    def pullback(e, ct, z, operands, need):
        singular = e.expand(e.row("equal", z, -np.inf), (-2, -1))
        # NaN replaces the error that it would raise.
        inverse = e.op("inv", operands[0] + e.where(singular, np.nan, 0.0))
        return (e.row("weigh", e.expand(ct, (-2, -1)), e.transposed(inverse)),)


@array_op("detsign", "(n,n)->()", scratch="n*n+n", cases=SQUARES, make=well_conditioned)
class Detsign:
    """Sign of the determinant; 0 for a singular matrix."""

    def oracle(a):
        return np.linalg.slogdet(a)[0]

    def forward(v, o, a, n, sa0, sa1, s):
        copy_matrix(v, s, v, a, sa0, sa1, n, n)
        sign = 1.0
        if n > 0:
            if getrf(v, s, n, s + n * n) != 0:
                sign = 0.0
            else:
                sign = lu_sign(v, s, n, s + n * n)
                for i in range(n):
                    if v[s + i * (n + 1)] < 0.0:
                        sign = -sign
        v[o] = sign
        return DONE


def scaled_product(v, a, n, sign):
    """The product of a diagonal, which neither overflows nor underflows before its end."""
    product = sign
    shift = 0
    for i in range(n):
        x = v[a + i * (n + 1)]
        if abs(x) > BIG:
            x *= SMALL
            shift += 1
        elif abs(x) < SMALL:
            x *= BIG
            shift -= 1
        product *= x
        if abs(product) > BIG:
            product *= SMALL
            shift += 1
        elif abs(product) < SMALL:
            product *= BIG
            shift -= 1
    while shift > 0:
        product *= BIG
        shift -= 1
    while shift < 0:
        product *= SMALL
        shift += 1
    return product


def exchange(v, a, b, n, stride):
    for i in range(n):
        x = v[a + i * stride]
        v[a + i * stride] = v[b + i * stride]
        v[b + i * stride] = x


def factor_completely(v, u, n, p, q):
    """LU with complete pivoting, in place; p and q take the row and column orders.

    Returns the sign of the exchanges. What is left when the pivots run out is zero.
    """
    sign = 1.0
    for i in range(n):
        v[p + i] = float(i)
        v[q + i] = float(i)
    for step in range(n):
        largest = 0.0
        row = step
        column = step
        for i in range(step, n):
            place = opaque(u + i * n)
            for j in range(step, n):
                x = abs(v[place + j])
                if x > largest:
                    largest = x
                    row = i
                    column = j
        if row != step:
            exchange(v, u + step * n, u + row * n, n, 1)
            exchange(v, p + step, p + row, 1, 1)
            sign = -sign
        if column != step:
            exchange(v, u + step, u + column, n, n)
            exchange(v, q + step, q + column, 1, 1)
            sign = -sign
        if largest > 0.0:
            for i in range(step + 1, n):
                ratio = v[u + i * n + step] / v[u + step * n + step]
                v[u + i * n + step] = ratio
                target = opaque(u + i * n)
                for j in range(step + 1, n):
                    v[target + j] -= ratio * v[u + step * n + j]
    return sign


def pivots_are_small(v, a, n):
    """Whether a factor's diagonal says that the matrix has no accurate inverse."""
    largest = 0.0
    smallest = math.inf
    for i in range(n):
        x = abs(v[a + i * (n + 1)])
        largest = max(largest, x)
        smallest = min(smallest, x)
    return smallest == 0.0 or not smallest >= DEFICIENT * largest


@array_op("near_singular", "(n,n)->()", scratch="n*n+n", cases=SQUARES, make=well_conditioned)
class NearSingular:
    """1 where `Det` uses the rank-revealing factorisation, 0 elsewhere."""

    def oracle(a):
        if not a.size:
            return 0.0
        import scipy.linalg

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", scipy.linalg.LinAlgWarning)
            pivots = np.abs(np.diag(scipy.linalg.lu_factor(a, check_finite=False)[0]))
        return float(pivots.min() == 0.0 or not pivots.min() >= DEFICIENT * pivots.max())

    def forward(v, o, a, n, sa0, sa1, s):
        copy_matrix(v, s, v, a, sa0, sa1, n, n)
        v[o] = 0.0
        if n > 0:
            getrf(v, s, n, s + n * n)
            v[o] = 1.0 if pivots_are_small(v, s, n) else 0.0
        return DONE


@array_op("det", "(n,n)->()", np.linalg.det, scratch="2*n*n+2*n+1", cases=SQUARES, make=well_conditioned)
class Det:
    """``Abar += zbar * cofactors(A)``, singular or not.

    The cofactors usually are det(A) A^-T. Where pivots are small: ``P A Q = L D U`` by complete pivoting,
    whose L and U are well conditioned, so that ``U^-1 adj(D) L^-1`` is accurate at any rank (Stewart 1998,
    "On the adjugate matrix"). The scratch has the factor, n*n cells to work in, the pivots, the column
    order, and which of the two ways was taken.
    """

    depends, interacts = dense, everything

    def forward(v, o, a, n, sa0, sa1, s):
        p = s + 2 * n * n
        copy_matrix(v, s, v, a, sa0, sa1, n, n)
        v[o] = 1.0
        if n > 0:
            getrf(v, s, n, p)
            v[o] = scaled_product(v, s, n, lu_sign(v, s, n, p))
            v[p + 2 * n] = 1.0 if pivots_are_small(v, s, n) else 0.0
        return DONE

    def reverse(v, g, o, a, n, sa0, sa1, s):
        """Multiply by an inverse, or where pivots are small by the adjugate of a complete factorisation."""
        if n > 0:
            t = s + n * n
            p = t + n * n
            q = p + n
            put_identity(v, t, n)
            if v[q + n] == 0.0:
                getrs(v, s, n, p, v, t, n, n, 1)
                add_matrix(g, a, sa0, sa1, v, t, n, n, g[o] * v[o])
            else:
                copy_matrix(v, s, v, a, sa0, sa1, n, n)
                scale = g[o] * factor_completely(v, s, n, p, q)
                trsm(v, s, n, 1, 0, 1, v, t, n, n, n)
                # Each row is multiplied by the product of all other pivots, before and behind it.
                before = 1.0
                behind = 1.0
                for i in range(n):
                    last = n - 1 - i
                    for j in range(n):
                        v[t + i * n + j] *= before
                        v[t + last * n + j] *= behind
                    before *= v[s + i * (n + 1)]
                    behind *= v[s + last * (n + 1)]
                for i in range(n):
                    for j in range(i + 1, n):
                        if v[s + i * (n + 1)] != 0.0:
                            v[s + i * n + j] /= v[s + i * (n + 1)]
                trsm(v, s, n, 0, 0, 1, v, t, n, n, n)
                for i in range(n):
                    for j in range(n):
                        cell = a + int(v[p + i]) * sa0 + int(v[q + j]) * sa1
                        g[cell] += scale * v[t + j * n + i]

    def pullback(e, ct, z, operands, need):
        """``z A^-T``; near singular matrices the cofactors, which have derivatives there too."""
        (a,) = operands
        if e.is_empty(a):
            return (None,)
        near = e.op("near_singular", e.still(a))
        if e.ask(e.over_axes("any_nonzero", near, range(near.ndim)) if near.ndim else near, usual=False):
            return (e.expand(ct, (-2, -1)) * e.cofactors(a),)
        return (e.expand(ct * z, (-2, -1)) * e.transposed(e.op("inv", a)),)
