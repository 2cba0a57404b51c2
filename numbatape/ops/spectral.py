"""Eigenvalues, singular values and QR: ops whose results are packed into one vector.

Matrices in the vector are column-major, as LAPACK leaves them. Where two eigenvalues or singular values
coincide, single vectors have no derivative: the terms that would be divided by the difference are left out.

A function that turns of such vectors against each other do not change (a projector, a matrix function) has
cotangents whose difference is zero. Where both differences are nothing but rounding, their quotient may be
anything, so it is left out, too: `is_noise`. Rounding is measured by the cotangents: small eigenvalues that
are exact, as those of a diagonal matrix, keep their derivatives.
"""

import numpy as np

from ..jit.language import geqrf, gesdd, orgqr, parallel, syevd, trsm
from ..tape.tape import F64
from .dependencies import dense, everything
from .linalg import copy_matrix, half_triangle
from .products import multiply
from .status import DONE, FACTOR
from .table import array_op

SYMMETRIC = (((0, 0),), ((1, 1),), ((2, 2),), ((5, 5),), ((8, 8),))
TALL = (((0, 0),), ((1, 1),), ((3, 3),), ((5, 2),), ((9, 4),), ((4, 0),))
ANY = (*TALL, ((2, 5),), ((4, 9),), ((0, 3),))


def packed_eigh(a):
    """Eigenvalues, then eigenvectors, a row each, of the lower triangle."""
    values, vectors = np.linalg.eigh(a)
    return np.concatenate([values, vectors.T.ravel()])


def packed_svd(a):
    """Singular values, the left vectors a row each, the right ones a column each."""
    left, values, right = np.linalg.svd(a, full_matrices=False)
    return np.concatenate([values, left.T.ravel(), right.T.ravel()])


def packed_qr(a):
    """Q a row each column, then R."""
    q, r = np.linalg.qr(a)
    return np.concatenate([q.T.ravel(), r.ravel()])


def inverse_gap(x, y):
    return 1.0 / (x - y) if x != y else 0.0


def reciprocal_gap(e, gap):
    """Return ``1/gap``, and 0 for equal values, whose vectors have no derivative of their own."""
    equal = gap == 0.0
    return e.where(equal, 0.0, 1.0 / e.where(equal, 1.0, gap))


NOISE, SINGLE_NOISE = 4e-15, 2e-6  # the rounding of a sum of products as a share of the summands, and more
NEAR = 1e-3  # values whose difference is a larger share of the largest one are apart: no look is taken


def share_of_rounding(v, t):
    """Return the share for the cells of this kernel, of which one at ``t`` is scratch."""
    v[t] = 1.0 + 1e-10
    return NOISE if v[t] != 1.0 else SINGLE_NOISE


def size_of(g, a, step, n):
    """Return the sum of the absolute values of a vector's entries."""
    total = 0.0
    for k in range(n):
        total += abs(g[a + k * step])
    return total


def is_noise(e, turn, size, gap, values, family):
    """Return where what turns two vectors against each other, and their gap, are nothing but rounding.

    Parameters
    ----------
    turn, gap
        One for each pair of vectors.
    size
        For each pair, the sizes of the summands of ``turn``. Where these are zero, as in a pullback that is
        recorded to be transposed, nothing is left out: a pushforward turns vectors against each other by
        quotients of which the rounding cancels in such functions.
    """
    share = NOISE if family == F64 else SINGLE_NOISE
    near = e.row("abs", e.still(gap)) <= NEAR * e.last(e.max(e.row("abs", e.still(values))))
    return e.row("logical_and", e.row("abs", e.still(turn)) < share * e.still(size), near)


def excess(e, m, n):
    """Return the sign of the difference of two sizes (codes); this records a guard."""
    sizes = e.tape.sizes
    sign = (sizes.value(m) > sizes.value(n)) - (sizes.value(m) < sizes.value(n))
    less, larger = (n, m) if sign > 0 else (m, n)
    sizes.guard(larger, ">=" if sign else "==", sizes.add(less, 1) if sign else less)
    return sign


def all_zero(g, a, n):
    """Whether n adjoints are zero: those of vectors that nothing reads."""
    found = 0
    for i in parallel(n):
        found += 1 if g[a + i] != 0.0 else 0  # NaN differs from 0 and is counted, too
    return found == 0


@array_op(
    "eigh",
    "(n,n)->(q)",
    packed_eigh,
    scratch="2*n*n+11*n+4",
    cases=SYMMETRIC,
    extents="q == n + n*n",
    fallible=True,
    failure="eigh did not converge",
)
class Eigh:
    """``A = V W V^T`` of A's lower triangle, which alone gets an adjoint.

    ``Abar = V (Wbar + F o (V^T Vbar)) V^T``, F the inverse gaps (Giles 2008, section 3.1).
    """

    depends, interacts = dense, everything

    def forward(v, o, a, n, sa0, sa1, s):
        for i in range(n):
            for j in range(i + 1):
                x = v[a + i * sa0 + j * sa1]
                v[o + n + i * n + j] = x
                v[o + n + j * n + i] = x
        if n > 0 and syevd(v, o + n, n, o, s) != 0:
            return FACTOR
        return DONE

    def reverse(v, g, o, a, n, sa0, sa1, s):
        """Add the formula of the class; without cotangents of vectors it is one product with ``V``."""
        t = s + n * n
        u = o + n
        if n > 0:
            if all_zero(g, u, n * n):
                for i in range(n):
                    for j in parallel(n):
                        v[t + i * n + j] = g[o + i] * v[u + i * n + j]
            else:
                multiply(v, s, n, 1, v, u, n, 1, g, u, 1, n, n, n, n, 1.0, 0.0)
                share = share_of_rounding(v, t)
                near = NEAR * max(abs(v[o]), abs(v[o + n - 1]))
                for i in range(n):
                    v[t + i] = size_of(g, u + i * n, 1, n) * share
                for i in range(n):
                    for j in range(i):
                        turn = v[s + i * n + j] - v[s + j * n + i]
                        gap = v[o + j] - v[o + i]
                        noise = abs(turn) < v[t + i] + v[t + j] and abs(gap) <= near
                        turn = 0.0 if noise else 0.5 * turn * inverse_gap(v[o + j], v[o + i])
                        v[s + i * n + j] = turn
                        v[s + j * n + i] = turn
                    v[s + i * n + i] = g[o + i]
                multiply(v, t, n, 1, v, s, n, 1, v, u, n, 1, n, n, n, 1.0, 0.0)
            multiply(v, s, n, 1, v, u, 1, n, v, t, n, 1, n, n, n, 1.0, 0.0)
        for i in range(n):
            for j in range(i):
                g[a + i * sa0 + j * sa1] += v[s + i * n + j] + v[s + j * n + i]
            g[a + i * sa0 + i * sa1] += v[s + i * n + i]

    def pullback(e, ct, z, operands, need):
        (a,) = operands
        if e.is_empty(a):
            return (None,)
        n = a.dims[-1]
        values, rows = e.unpacked(z, (n,), (n, n))
        its_values, its_rows = e.unpacked(ct, (n,), (n, n))
        gap = e.expand(values, (-2,)) - e.last(values)
        # The symmetric part of F o (V^T Vbar), which alone counts, is written as such: then its derivative
        # turns two vectors of equal values against each other, so that rounding cancels.
        products = e.matmul(rows, e.transposed(its_rows))
        turn = products - e.transposed(products)
        size = e.sum(e.row("abs", its_rows), keepdims=True)
        noise = is_noise(e, turn, size + e.transposed(size), gap, values, a.family)
        inner = reciprocal_gap(e, gap) * e.where(noise, 0.0, 0.5 * turn)
        inner = inner + e.last(its_values) * e.eye(n, a.family)
        whole = e.matmul(e.transposed(rows), e.matmul(inner, rows))
        return ((whole + e.transposed(whole)) * half_triangle(e, n, a.family),)


@array_op(
    "svd",
    "(m,n)->(q)",
    packed_svd,
    scratch="5*m*n+15*m+15*n",
    cases=ANY,
    extents="q == min(m, n)*(1 + m + n)",
    fallible=True,
    failure="svd did not converge",
)
class Svd:
    """``A = U S V^T`` with ``k = min(m, n)`` vectors (Townsend 2016, "Differentiating the SVD").

    With the inverse gaps F of the squares and ``W = Sbar + (F o (P - P^T)) S + S (F o (Q - Q^T))``,
    ``P = U^T Ubar``, ``Q = V^T Vbar``: ``Abar = (U W + (Ubar - U P)/S) V^T + U ((Vbar - V Q)/S)^T``.
    """

    depends, interacts = dense, everything

    def forward(v, o, a, m, n, sa0, sa1, s):
        k = min(m, n)
        copy_matrix(v, s, v, a, sa1, sa0, n, m)
        if k > 0 and gesdd(v, s, m, n, o, o + k, o + k + k * m, s + m * n) != 0:
            return FACTOR
        return DONE

    def reverse(v, g, o, a, m, n, sa0, sa1, s):
        """Add the formula of the class; without cotangents of vectors this is a single product."""
        k = min(m, n)
        u = o + k
        t = u + k * m
        if k > 0 and all_zero(g, u, k * (m + n)):
            for i in range(k):
                for j in parallel(m):
                    v[s + i * m + j] = g[o + i] * v[u + i * m + j]
            multiply(g, a, sa0, sa1, v, s, 1, m, v, t, 1, k, m, n, k, 1.0, 1.0)
        elif k > 0:
            p = s
            q = p + k * k
            w = q + k * k
            left = w + k * k
            right = left + m * k
            multiply(v, p, k, 1, v, u, m, 1, g, u, 1, m, k, k, m, 1.0, 0.0)
            multiply(v, q, k, 1, v, t, 1, k, g, t, k, 1, k, k, n, 1.0, 0.0)
            share = share_of_rounding(v, left)
            for i in range(k):
                v[left + i] = size_of(g, u + i * m, 1, m) * share
                v[right + i] = size_of(g, t + i, k, n) * share
            for i in range(k):
                x = v[o + i]
                for j in range(k):
                    y = v[o + j]
                    gap = inverse_gap(y, x) / (y + x) if y != x else 0.0
                    turn = (v[p + i * k + j] - v[p + j * k + i]) * y
                    turn += x * (v[q + i * k + j] - v[q + j * k + i])
                    size = y * (v[left + i] + v[left + j]) + x * (v[right + i] + v[right + j])
                    noise = abs(turn) < size and abs(y - x) <= NEAR * v[o]
                    v[w + i * k + j] = 0.0 if noise else gap * turn
                v[w + i * k + i] = g[o + i]
            multiply(v, left, k, 1, v, u, 1, m, v, p, k, 1, m, k, k, -1.0, 0.0)
            multiply(v, right, k, 1, v, t, k, 1, v, q, k, 1, n, k, k, -1.0, 0.0)
            for j in range(k):
                x = v[o + j]
                scale = 1.0 / x if x != 0.0 else 0.0
                for i in range(m):
                    rest = g[u + j * m + i] + v[left + i * k + j] if m > k else 0.0
                    v[left + i * k + j] = scale * rest
                for i in range(n):
                    rest = g[t + i * k + j] + v[right + i * k + j] if n > k else 0.0
                    v[right + i * k + j] = scale * rest
            multiply(v, left, k, 1, v, u, 1, m, v, w, k, 1, m, k, k, 1.0, 1.0)
            multiply(g, a, sa0, sa1, v, left, k, 1, v, t, 1, k, m, n, k, 1.0, 1.0)
            multiply(g, a, sa0, sa1, v, u, 1, m, v, right, 1, k, m, n, k, 1.0, 1.0)

    def pullback(e, ct, z, operands, need):
        """Return what ``reverse`` adds, as instructions."""
        (a,) = operands
        m, n = a.dims[-2:]
        more = excess(e, m, n)
        k = n if more > 0 else m
        if e.is_none(k):
            return (None,)
        shapes = (k,), (k, m), (n, k)
        s, rows, right = e.unpacked(z, *shapes)
        its_s, its_rows, its_right = e.unpacked(ct, *shapes)
        p, q = e.matmul(rows, e.transposed(its_rows)), e.matmul(e.transposed(right), its_right)
        across, down = e.expand(s, (-2,)), e.last(s)
        gap = reciprocal_gap(e, (across - down) * (across + down))
        turn = (p - e.transposed(p)) * across + down * (q - e.transposed(q))
        size = e.sum(e.row("abs", its_rows), keepdims=True)
        its_size = e.sum(e.row("abs", its_right), (-2,), keepdims=True)
        size = (size + e.transposed(size)) * across + down * (its_size + e.transposed(its_size))
        turn = e.where(is_noise(e, turn, size, across - down, s, a.family), 0.0, turn)
        inner = gap * turn + e.last(its_s) * e.eye(k, a.family)
        left = e.matmul(e.transposed(rows), inner)
        if more > 0:
            rest = e.transposed(its_rows) - e.matmul(e.transposed(rows), p)
            left = left + rest * reciprocal_gap(e, across)
        result = e.matmul(left, e.transposed(right))
        if more < 0:
            rest = (its_right - e.matmul(right, q)) * reciprocal_gap(e, across)
            result = result + e.matmul(e.transposed(rows), e.transposed(rest))
        return (result,)


@array_op(
    "qr",
    "(m,n)->(q)",
    packed_qr,
    scratch="n*n+m*n+33*n",
    cases=TALL,
    extents="q == m*n + n*n and m >= n",
    fallible=True,
    failure="qr did not converge",
)
class Qr:
    """``A = Q R`` for m >= n; ``Abar = (Qbar + Q L) R^-T`` (Walter and Lehmann 2010), where L is
    symmetric with the lower triangle of ``R Rbar^T - Qbar^T Q``."""

    depends, interacts = dense, everything

    def forward(v, o, a, m, n, sa0, sa1, s):
        copy_matrix(v, o, v, a, sa1, sa0, n, m)
        r = o + n * m
        if n > 0:
            if geqrf(v, o, m, n, s, s + n) != 0:
                return FACTOR
            for i in range(n):
                for j in range(n):
                    v[r + i * n + j] = v[o + j * m + i] if i <= j else 0.0
            if orgqr(v, o, m, n, s, s + n) != 0:
                return FACTOR
        return DONE

    def reverse(v, g, o, a, m, n, sa0, sa1, s):
        r = o + n * m
        t = s + n * n
        if n > 0:
            multiply(v, s, n, 1, g, o, m, 1, v, o, 1, m, n, n, m, -1.0, 0.0)
            for i in range(n):
                for j in range(i + 1):
                    total = v[s + i * n + j]
                    for p in range(i, n):
                        total += v[r + i * n + p] * g[r + j * n + p]
                    v[s + i * n + j] = total
                    v[s + j * n + i] = total
            copy_matrix(v, t, g, o, m, 1, n, m)
            multiply(v, t, m, 1, v, s, n, 1, v, o, m, 1, n, m, n, 1.0, 1.0)
            trsm(v, r, n, 0, 0, 0, v, t, m, n, m)
            for i in range(m):
                for j in range(n):
                    g[a + i * sa0 + j * sa1] += v[t + j * m + i]

    def pullback(e, ct, z, operands, need):
        (a,) = operands
        if e.is_empty(a):
            return (None,)
        m, n = a.dims[-2:]
        rows, r = e.unpacked(z, (n, m), (n, n))
        its_rows, its_r = e.unpacked(ct, (n, m), (n, n))
        inner = e.matmul(r, e.transposed(its_r)) - e.matmul(its_rows, e.transposed(rows))
        symmetric = e.tril(inner) + e.transposed(e.tril(inner, -1))
        total = its_rows + e.matmul(symmetric, rows)
        return (e.transposed(e.op("solve_upper", r, total)),)
