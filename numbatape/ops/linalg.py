"""Linear algebra: matrix products, factorisations, determinants and general systems.

Operands may be any views (transposed, reversed, broadcast, overlapping); what LAPACK must see
contiguous is copied to scratch. Reverse kernels leave intact what a second sweep needs.

Numba compiles a helper anew for each pattern of literal integers among its arguments: hence
so0, so1 where n, 1 would do, which halves the time that these kernels take to compile.
"""

import math

import numpy as np

from ..jit.language import gemm, getrf, getrs, lu_sign, potrf, radd, trsm
from .status import DONE, FACTOR
from .table import array_op

SQUARES = (((0, 0),), ((1, 1),), ((2, 2),), ((5, 5),), ((8, 8),))
SYSTEMS = (
    ((0, 0), (0, 2)),
    ((1, 1), (1, 1)),
    ((3, 3), (3, 0)),
    ((4, 4), (4, 1)),
    ((5, 5), (5, 3)),
    ((7, 7), (7, 6)),
)
PRODUCTS = (
    ((2, 3), (3, 4)),
    ((1, 1), (1, 1)),
    ((5, 9), (9, 1)),
    ((1, 9), (9, 6)),
    ((3, 1), (1, 5)),
    ((7, 8), (8, 6)),
    ((2, 0), (0, 3)),
    ((0, 2), (2, 3)),
    ((3, 2), (2, 0)),
)

TINY_PRODUCT = 200  # multiplications; below, loops beat the call of gemm (70 ns)
COLUMNS = 32  # in a block of the Cholesky adjoint
BIG = 2.0**256
SMALL = 2.0**-256
DEFICIENT = 1e-6  # ratio of pivots below which det's adjoint takes the rank-revealing way


def well_conditioned(rng, shapes):
    square, *rest = shapes
    matrix = rng.normal(size=square) + 3.0 * np.eye(square[0])
    return matrix, *(rng.normal(size=shape) for shape in rest)


def positive_definite(rng, shapes):
    root = rng.normal(size=shapes[0])
    return (root @ root.T / max(len(root), 1) + np.eye(len(root)),)


def copy_matrix(cv, c, av, a, sa0, sa1, m, n):
    """Copy an m*n view to contiguous cells."""
    for i in range(m):
        for j in range(n):
            cv[c + i * n + j] = av[a + i * sa0 + j * sa1]


def add_matrix(g, a, sa0, sa1, v, t, m, n, scale):
    """Add scale times the contiguous m*n matrix at t to the adjoints of a view."""
    for i in range(m):
        row = a + i * sa0
        if sa1 == 1:
            for j in range(n):
                g[row + j] += scale * v[t + i * n + j]
        else:
            for j in range(n):
                g[row + j * sa1] += scale * v[t + i * n + j]


def put_identity(v, c, n):
    for i in range(n * n):
        v[c + i] = 0.0
    for i in range(n):
        v[c + i * (n + 1)] = 1.0


def put_transpose(v, c, n):
    for i in range(n):
        for j in range(i):
            x = v[c + i * n + j]
            v[c + i * n + j] = v[c + j * n + i]
            v[c + j * n + i] = x


def distinct(m, n, stride0, stride1):
    """Whether the cells of an m*n view are certainly distinct: not broadcast, no overlap."""
    step0 = abs(stride0)
    step1 = abs(stride1)
    if m <= 1:
        return n <= 1 or step1 > 0
    if n <= 1:
        return step0 > 0
    return (step0 > 0 and step1 > step0 * (m - 1)) or (step1 > 0 and step0 > step1 * (n - 1))


def add_rows(cv, c, sc0, av, a, sa0, sa1, bv, b, sb0, m, n, k, alpha):
    """``C += alpha*A@B`` by rows of C, where C and B have unit column stride."""
    for i in range(m):
        first = c + i * sc0
        row = a + i * sa0
        q = 0
        while q + 4 <= k:  # four rows of B a pass, to load and store C a quarter as often
            x0 = alpha * av[row + q * sa1]
            x1 = alpha * av[row + (q + 1) * sa1]
            x2 = alpha * av[row + (q + 2) * sa1]
            x3 = alpha * av[row + (q + 3) * sa1]
            b0 = b + q * sb0
            b1 = b0 + sb0
            b2 = b1 + sb0
            b3 = b2 + sb0
            for j in range(n):
                cv[first + j] += (x0 * bv[b0 + j] + x1 * bv[b1 + j]) + (x2 * bv[b2 + j] + x3 * bv[b3 + j])
            q += 4
        while q < k:
            x = alpha * av[row + q * sa1]
            b0 = b + q * sb0
            for j in range(n):
                cv[first + j] += x * bv[b0 + j]
            q += 1


def add_dots(cv, c, sc0, sc1, av, a, sa0, sa1, bv, b, sb0, sb1, m, n, k, alpha):
    """``C += alpha*A@B`` entry by entry."""
    for i in range(m):
        row = a + i * sa0
        for j in range(n):
            column = b + j * sb1
            total = 0.0
            if sa1 == 1 and sb0 == 1:
                for q in range(k):
                    total = radd(total, av[row + q] * bv[column + q])
            else:
                for q in range(k):
                    total = radd(total, av[row + q * sa1] * bv[column + q * sb0])
            cv[c + i * sc0 + j * sc1] += alpha * total


def multiply(cv, c, sc0, sc1, av, a, sa0, sa1, bv, b, sb0, sb1, m, n, k, alpha, beta):
    """``C = alpha*A@B + beta*C``, beta 0.0 or 1.0, for any strides.

    Loops serve products with a vector (gemm takes 3 to 5 times as long), tiny ones, and a C whose
    cells coincide (the adjoint of a broadcast operand), each of whose terms must be added.
    """
    if sc0 == 1 and (sc1 != 1 or (sa0 == 1 and m > n)):
        # By columns: C^T = B^T A^T, whose rows have unit stride.
        held = av
        av = bv
        bv = held
        first = a
        a = b
        b = first
        step = sc0
        sc0 = sc1
        sc1 = step
        step = sa0
        sa0 = sb1
        sb1 = step
        step = sa1
        sa1 = sb0
        sb0 = step
        size = m
        m = n
        n = size
    thin = m == 1 or n == 1 or k == 1 or m * n * k <= TINY_PRODUCT
    if not thin and distinct(m, n, sc0, sc1):
        gemm(cv, c, sc0, sc1, av, a, sa0, sa1, bv, b, sb0, sb1, m, n, k, alpha, beta)
    else:
        if beta == 0.0:
            for i in range(m):
                for j in range(n):
                    cv[c + i * sc0 + j * sc1] = 0.0
        dots = sa1 == 1 and sb0 == 1 and k > n
        if sc1 == 1 and sb1 == 1 and n > 1 and not dots:
            add_rows(cv, c, sc0, av, a, sa0, sa1, bv, b, sb0, m, n, k, alpha)
        else:
            add_dots(cv, c, sc0, sc1, av, a, sa0, sa1, bv, b, sb0, sb1, m, n, k, alpha)


@array_op("matmul", "(m,k),(k,n)->(m,n)", np.matmul, bilinear=True, cases=PRODUCTS)
class Matmul:
    """``Z = A B``; ``Abar += Zbar B^T``, ``Bbar += A^T Zbar`` (Giles 2008, section 2.2.1)."""

    def forward(v, o, a, b, m, k, n, so0, so1, sa0, sa1, sb0, sb1):
        multiply(v, o, so0, so1, v, a, sa0, sa1, v, b, sb0, sb1, m, n, k, 1.0, 0.0)
        return DONE

    def reverse(v, g, o, a, b, m, k, n, so0, so1, sa0, sa1, sb0, sb1, need_a, need_b):
        if need_a:
            multiply(g, a, sa0, sa1, g, o, so0, so1, v, b, sb1, sb0, m, k, n, 1.0, 1.0)
        if need_b:
            multiply(g, b, sb0, sb1, v, a, sa1, sa0, g, o, so0, so1, k, n, m, 1.0, 1.0)


def subtract_product(v, c, stride, a, sa0, sa1, b, m, n, k):
    """``C -= A@B`` for blocks of which C and B have this row stride and unit column stride."""
    if m > 0 and n > 0 and k > 0:
        gemm(v, c, stride, 1, v, a, sa0, sa1, v, b, stride, 1, m, n, k, -1.0, 1.0)


@array_op(
    "cholesky",
    "(n,n)->(n,n)",
    np.linalg.cholesky,
    scratch="2*n*n",
    cases=SQUARES,
    make=positive_definite,
)
class Cholesky:
    """``A = L L^T`` of A's lower triangle, which alone gets an adjoint.

    Blocks of columns from the last to the first (Murray 2016, arXiv:1602.07527, section 4.2).
    Within a block, with ``K`` the symmetric matrix whose lower triangle is that of ``L^T Lbar``,
    the adjoint is ``L^-T K L^-1`` below and half of it on the diagonal.
    """

    def forward(v, o, a, n, sa0, sa1):
        for i in range(n):
            for j in range(i + 1):
                v[o + i * n + j] = v[a + i * sa0 + j * sa1]
            for j in range(i + 1, n):
                v[o + i * n + j] = 0.0
        if n > 0 and potrf(v, o, n) != 0:
            return FACTOR
        return DONE

    def reverse(v, g, o, a, n, so0, so1, sa0, sa1, s):
        # The cells at s hold the adjoint, of L behind the column we are at and of A before it;
        # its upper triangle is never read: L's is constant, whatever adjoint it got.
        for i in range(n):
            for j in range(i + 1):
                v[s + i * n + j] = g[o + i * n + j]
        last = n
        while last > 0:
            first = max(0, last - COLUMNS)
            size = last - first
            below = n - last
            corner = first * (n + 1)  # the diagonal block's; C below it, R left of it, B left of C
            under = last * n + first
            t = s + n * n
            square = t + size * below
            if below > 0:
                for i in range(below):
                    for j in range(size):
                        v[t + j * below + i] = v[s + under + i * n + j]
                trsm(v, o + corner, n, 1, 1, 0, v, t, below, size, below)
                for i in range(below):
                    for j in range(size):
                        v[s + under + i * n + j] = v[t + j * below + i]
                subtract_product(v, s + last * n, n, s + under, so0, so1, o + first * n, below, first, size)
                subtract_product(v, s + corner, n, s + under, so1, so0, o + under, size, size, below)
                subtract_product(v, s + first * n, n, s + under, so1, so0, o + last * n, size, first, below)
            for i in range(size):
                for j in range(i + 1, size):
                    v[s + corner + i * n + j] = 0.0
            gemm(
                v,
                square,
                size,
                so1,
                v,
                o + corner,
                so1,
                so0,
                v,
                s + corner,
                so0,
                so1,
                size,
                size,
                size,
                1.0,
                0.0,
            )
            for i in range(size):
                for j in range(i):
                    v[square + j * size + i] = v[square + i * size + j]
            trsm(v, o + corner, n, 1, 1, 0, v, square, size, size, size)
            put_transpose(v, square, size)
            trsm(v, o + corner, n, 1, 1, 0, v, square, size, size, size)
            subtract_product(v, s + first * n, n, square, size, so1, o + first * n, size, first, size)
            for i in range(size):
                for j in range(i):
                    v[s + corner + i * n + j] = v[square + i * size + j]
                v[s + corner + i * (n + 1)] = 0.5 * v[square + i * (size + 1)]
            last = first
        for i in range(n):
            for j in range(i + 1):
                g[a + i * sa0 + j * sa1] += v[s + i * n + j]


@array_op(
    "solve",
    "(n,n),(n,k)->(n,k)",
    np.linalg.solve,
    scratch="2*n*n+n+n*k",
    cases=SYSTEMS,
    make=well_conditioned,
)
class Solve:
    """``X = A^-1 B``; ``T = A^-T Xbar``, ``Bbar += T``, ``Abar -= T X^T`` (Giles 2008, 2.3.1)."""

    def forward(v, o, a, b, n, k, sa0, sa1, sb0, sb1, s):
        copy_matrix(v, s, v, a, sa0, sa1, n, n)
        if n > 0 and getrf(v, s, n, s + n * n) != 0:
            return FACTOR
        copy_matrix(v, o, v, b, sb0, sb1, n, k)
        if n > 0 and k > 0:
            getrs(v, s, n, s + n * n, v, o, k, k, 0)
        return DONE

    def reverse(v, g, o, a, b, n, k, so0, so1, sa0, sa1, sb0, sb1, s, need_a, need_b):
        if n > 0 and k > 0:
            t = s + n * n + n
            product = t + n * k
            copy_matrix(v, t, g, o, so0, so1, n, k)
            getrs(v, s, n, s + n * n, v, t, k, k, 1)
            if need_b:
                add_matrix(g, b, sb0, sb1, v, t, n, k, 1.0)
            if need_a:
                gemm(v, product, n, 1, v, t, so0, so1, v, o, so1, so0, n, n, k, 1.0, 0.0)
                add_matrix(g, a, sa0, sa1, v, product, n, n, -1.0)


@array_op("inv", "(n,n)->(n,n)", np.linalg.inv, scratch="2*n*n+n", cases=SQUARES, make=well_conditioned)
class Inv:
    """``Z = A^-1``; ``Abar -= Z^T Zbar Z^T`` (Giles 2008, section 2.2.3)."""

    def forward(v, o, a, n, sa0, sa1, s):
        copy_matrix(v, s, v, a, sa0, sa1, n, n)
        if n > 0:
            if getrf(v, s, n, s + n * n) != 0:
                return FACTOR
            put_identity(v, o, n)
            getrs(v, s, n, s + n * n, v, o, n, n, 0)
        return DONE

    def reverse(v, g, o, a, n, so0, so1, sa0, sa1, s):
        if n > 0:
            t = s + n * n
            gemm(v, s, so0, so1, v, o, so1, so0, g, o, so0, so1, n, n, n, 1.0, 0.0)
            gemm(v, t, so0, so1, v, s, so0, so1, v, o, so1, so0, n, n, n, 1.0, 0.0)
            add_matrix(g, a, sa0, sa1, v, t, n, n, -1.0)


@array_op("logabsdet", "(n,n)->()", scratch="2*n*n+n", cases=SQUARES, make=well_conditioned)
class Logabsdet:
    """``log(abs(det(A)))``; ``Abar += zbar A^-T``. Of a singular matrix: -inf and NaN."""

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
        if n > 0:
            gz = g[o]
            t = s + n * n + n
            put_identity(v, t, n)
            if v[o] == -math.inf:
                gz = math.nan
            else:
                getrs(v, s, n, s + n * n, v, t, n, n, 1)
            add_matrix(g, a, sa0, sa1, v, t, n, n, gz)


@array_op("detsign", "(n,n)->()", scratch="n*n+n", cases=SQUARES, make=well_conditioned)
class Detsign:
    """Sign of the determinant; 0 of a singular matrix."""

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
            for j in range(step, n):
                x = abs(v[u + i * n + j])
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
                for j in range(step + 1, n):
                    v[u + i * n + j] -= ratio * v[u + step * n + j]
    return sign


@array_op("det", "(n,n)->()", np.linalg.det, scratch="2*n*n+2*n+1", cases=SQUARES, make=well_conditioned)
class Det:
    """``Abar += zbar * cofactors(A)``, singular or not.

    Usually det(A) A^-T. Where pivots are small: ``P A Q = L D U`` by complete pivoting, whose L and
    U are well conditioned, so that ``U^-1 adj(D) L^-1`` is accurate at any rank (Stewart 1998, "On
    the adjugate matrix"). Scratch: factor, n*n to work in, pivots, column order, which way.
    """

    def forward(v, o, a, n, sa0, sa1, s):
        p = s + 2 * n * n
        copy_matrix(v, s, v, a, sa0, sa1, n, n)
        v[o] = 1.0
        if n > 0:
            getrf(v, s, n, p)
            z = scaled_product(v, s, n, lu_sign(v, s, n, p))
            largest = 0.0
            smallest = math.inf
            for i in range(n):
                x = abs(v[s + i * (n + 1)])
                largest = max(largest, x)
                smallest = min(smallest, x)
            v[o] = z
            v[p + 2 * n] = 1.0 if z == 0.0 or smallest < DEFICIENT * largest else 0.0
        return DONE

    def reverse(v, g, o, a, n, sa0, sa1, s):
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
                # Rows times the product of the other pivots, from both ends.
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
