"""Linear algebra: factorisations, inverses and general systems.

Operands may be any views (transposed, reversed, broadcast, overlapping); what LAPACK must see
contiguous is copied to scratch. Reverse kernels leave intact what a second sweep needs.

LLVM makes a copy of a helper for each call with literal integers among its arguments. To avoid that, calls
pass so0, so1 where n, 1 would do.
"""

import numpy as np

from ..jit.language import gemm, getrf, getrs, parallel, potrf, trsm
from .dependencies import dense, everything, systems
from .status import DONE, FACTOR
from .table import array_op

# On both sides of the size from which LAPACK is called (`numbatape.jit.linalg`).
SQUARES = (((0, 0),), ((1, 1),), ((2, 2),), ((5, 5),), ((8, 8),), ((13, 13),))
SYSTEMS = (
    ((0, 0), (0, 2)),
    ((1, 1), (1, 1)),
    ((3, 3), (3, 0)),
    ((4, 4), (4, 1)),
    ((5, 5), (5, 3)),
    ((7, 7), (7, 6)),
    ((13, 13), (13, 3)),
)

COLUMNS = 32  # per block of the Cholesky adjoint


def well_conditioned(rng, shapes):
    square, *rest = shapes
    matrix = rng.normal(size=square) + 3.0 * np.eye(square[0])
    return matrix, *(rng.normal(size=shape) for shape in rest)


def positive_definite(rng, shapes):
    root = rng.normal(size=shapes[0])
    return (root @ root.T / max(len(root), 1) + np.eye(len(root)),)


def half_triangle(e, dim, family):
    """Return ones below the diagonal, and halves on it, in a matrix of a size (a code)."""
    return e.tril(e.broadcast(e.symbol(1.0, family), (dim, dim))) - 0.5 * e.eye(dim, family)


def copy_matrix(cv, c, av, a, sa0, sa1, m, n) -> int:
    """Copy an m*n view to contiguous cells."""
    for i in range(m):
        for j in parallel(n):
            cv[c + i * n + j] = av[a + i * sa0 + j * sa1]
    return DONE


def add_matrix(g, a, sa0, sa1, v, t, m, n, scale: float) -> int:
    """Add scale times the contiguous m*n matrix at t to the adjoints of a view."""
    for i in range(m):
        for j in parallel(n):
            g[a + i * sa0 + j * sa1] += scale * v[t + i * n + j]
    return DONE


def put_identity(v, c, n):
    for i in parallel(n * n):
        v[c + i] = 0.0
    for i in range(n):
        v[c + i * (n + 1)] = 1.0


def put_transpose(v, c, n):
    for i in range(n):
        for j in range(i):
            x = v[c + i * n + j]
            v[c + i * n + j] = v[c + j * n + i]
            v[c + j * n + i] = x


def subtract_product(v, c, stride, a, sa0, sa1, b, m, n, k):
    """``C -= A@B`` for blocks of which C and B have this row stride and unit column stride."""
    if m > 0 and n > 0 and k > 0:
        gemm(v, c, stride, 1, v, a, sa0, sa1, v, b, stride, 1, m, n, k, -1.0, 1.0)


def pull_rows_below(v, o, so0, so1, s, n, first, last, scratch):
    """Turn the adjoint of the factor below a diagonal block into that of the matrix.

    The block C is below the diagonal block of columns first to last, R is left of that block, and B is left
    of C. Their adjoints, too, change by what C depends on.
    """
    size = last - first
    below = n - last
    corner = first * (n + 1)  # the diagonal block begins here, C at `under`
    under = last * n + first
    for i in range(below):
        for j in range(size):
            v[scratch + j * below + i] = v[s + under + i * n + j]
    trsm(v, o + corner, n, 1, 1, 0, v, scratch, below, size, below)
    for i in range(below):
        for j in range(size):
            v[s + under + i * n + j] = v[scratch + j * below + i]
    subtract_product(v, s + last * n, n, s + under, so0, so1, o + first * n, below, first, size)
    subtract_product(v, s + corner, n, s + under, so1, so0, o + under, size, size, below)
    subtract_product(v, s + first * n, n, s + under, so1, so0, o + last * n, size, first, below)


def pull_diagonal_block(v, o, so0, so1, s, n, first, last, square):
    """Turn the adjoint of a factor's diagonal block into that of the matrix; update what is left of it."""
    size = last - first
    corner = first * (n + 1)
    for i in range(size):
        for j in parallel(i + 1, size):
            v[s + corner + i * n + j] = 0.0
    gemm(v, square, size, so1, v, o + corner, so1, so0, v, s + corner, so0, so1, size, size, size, 1.0, 0.0)
    for i in range(size):
        for j in range(i):
            v[square + j * size + i] = v[square + i * size + j]
    trsm(v, o + corner, n, 1, 1, 0, v, square, size, size, size)
    put_transpose(v, square, size)
    trsm(v, o + corner, n, 1, 1, 0, v, square, size, size, size)
    subtract_product(v, s + first * n, n, square, size, so1, o + first * n, size, first, size)
    for i in range(size):
        for j in parallel(i):
            v[s + corner + i * n + j] = v[square + i * size + j]
        v[s + corner + i * (n + 1)] = 0.5 * v[square + i * (size + 1)]


def put_factor(v, o, a, n, sa0, sa1):
    """Put the Cholesky factor of A's lower triangle at o; return the status."""
    for i in range(n):
        for j in parallel(i + 1):
            v[o + i * n + j] = v[a + i * sa0 + j * sa1]
        for j in parallel(i + 1, n):
            v[o + i * n + j] = 0.0
    if n > 0 and potrf(v, o, n) != 0:
        return FACTOR
    return DONE


def pull_factor(v, g, o, a, n, so0, so1, sa0, sa1, s):
    """Add a Cholesky factor's adjoint to that of A, by blocks of columns from the last one to the first."""
    # The cells at s hold adjoints: of L in columns that are still to come, of A in columns that are done.
    # The upper triangle is never read, because that of L is constant.
    for i in range(n):
        for j in parallel(i + 1):
            v[s + i * n + j] = g[o + i * n + j]
    last = n
    while last > 0:
        first = max(0, last - COLUMNS)
        scratch = s + n * n
        square = scratch + (last - first) * (n - last)
        if last < n:
            pull_rows_below(v, o, so0, so1, s, n, first, last, scratch)
        pull_diagonal_block(v, o, so0, so1, s, n, first, last, square)
        last = first
    for i in range(n):
        for j in parallel(i + 1):
            g[a + i * sa0 + j * sa1] += v[s + i * n + j]


def factor_pullback(e, ct, z, operands, need):
    """``L^-T Phi(L^T Lbar) L^-1``, Phi the lower triangle with half its diagonal, as A's lower half."""
    half = half_triangle(e, z.dims[-1], z.family)
    inner = e.matmul(e.transposed(z), e.tril(ct)) * half
    left = e.op("solve_upper", e.transposed(z), inner)
    whole = e.transposed(e.op("solve_upper", e.transposed(z), e.transposed(left)))
    return ((whole + e.transposed(whole)) * half,)


@array_op(
    "cholesky",
    "(n,n)->(n,n)",
    np.linalg.cholesky,
    scratch="2*n*n",
    cases=SQUARES,
    make=positive_definite,
    fallible=True,
    failure="Matrix is not positive definite",
)
class Cholesky:
    """``A = L L^T`` of A's lower triangle, which alone gets an adjoint.

    Blocks of columns from the last to the first (Murray 2016, arXiv:1602.07527, section 4.2).
    Within a block, with ``K`` the symmetric matrix whose lower triangle is that of ``L^T Lbar``,
    the adjoint is ``L^-T K L^-1`` below and half of it on the diagonal.
    """

    def depends(sets, operands, positions, core):
        """Cell (i, j) of the factor depends on rows 0 to j of the triangle, and on row i up to column j."""
        lower = np.tril(operands[0])
        leading = sets.running(sets.along_last(lower))[:, None, :]
        return np.tril(sets.together(lower.shape, leading, sets.running(lower)))

    interacts = everything

    def forward(v, o, a, n, sa0, sa1):
        return put_factor(v, o, a, n, sa0, sa1)

    def reverse(v, g, o, a, n, so0, so1, sa0, sa1, s):
        pull_factor(v, g, o, a, n, so0, so1, sa0, sa1, s)

    def pullback(e, ct, z, operands, need):
        return factor_pullback(e, ct, z, operands, need)


def put_solution(v, o, a, b, n, k, sa0, sa1, sb0, sb1, s):
    """Put ``A^-1 B`` at o, and the factors of A at s; return the status."""
    copy_matrix(v, s, v, a, sa0, sa1, n, n)
    if n > 0 and getrf(v, s, n, s + n * n) != 0:
        return FACTOR
    copy_matrix(v, o, v, b, sb0, sb1, n, k)
    if n > 0 and k > 0:
        getrs(v, s, n, s + n * n, v, o, k, k, 0)
    return DONE


def pull_solution(v, g, o, a, b, n, k, so0, so1, sa0, sa1, sb0, sb1, s, need_a, need_b):
    """Add a solution's adjoint to those of A and B."""
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


def solution_pullback(e, ct, z, operands, need):
    t = e.op("solve", e.transposed(operands[0]), ct)
    return -e.matmul(t, e.transposed(z)) if need[0] else None, t


@array_op(
    "solve",
    "(n,n),(n,k)->(n,k)",
    np.linalg.solve,
    scratch="2*n*n+n+n*k",
    cases=SYSTEMS,
    make=well_conditioned,
    fallible=True,
)
class Solve:
    """``X = A^-1 B``; ``T = A^-T Xbar``, ``Bbar += T``, ``Abar -= T X^T`` (Giles 2008, 2.3.1)."""

    def depends(sets, operands, positions, core):
        x, y = operands
        matrix = None if x is None else sets.whole(x)[:, None, None]
        cols = None if y is None else sets.along_last(y.swapaxes(1, 2))[:, None, :]
        return sets.together((len(x if x is not None else y), *core), matrix, cols)

    interacts = systems

    def forward(v, o, a, b, n, k, sa0, sa1, sb0, sb1, s):
        return put_solution(v, o, a, b, n, k, sa0, sa1, sb0, sb1, s)

    def reverse(v, g, o, a, b, n, k, so0, so1, sa0, sa1, sb0, sb1, s, need_a, need_b):
        pull_solution(v, g, o, a, b, n, k, so0, so1, sa0, sa1, sb0, sb1, s, need_a, need_b)

    def pullback(e, ct, z, operands, need):
        return solution_pullback(e, ct, z, operands, need)


def put_inverse(v, o, a, n, sa0, sa1, s):
    """Put ``A^-1`` at o; return the status."""
    copy_matrix(v, s, v, a, sa0, sa1, n, n)
    if n > 0:
        if getrf(v, s, n, s + n * n) != 0:
            return FACTOR
        put_identity(v, o, n)
        getrs(v, s, n, s + n * n, v, o, n, n, 0)
    return DONE


def pull_inverse(v, g, o, a, n, so0, so1, sa0, sa1, s):
    """Add an inverse's adjoint to that of A."""
    if n > 0:
        t = s + n * n
        gemm(v, s, so0, so1, v, o, so1, so0, g, o, so0, so1, n, n, n, 1.0, 0.0)
        gemm(v, t, so0, so1, v, s, so0, so1, v, o, so1, so0, n, n, n, 1.0, 0.0)
        add_matrix(g, a, sa0, sa1, v, t, n, n, -1.0)


def inverse_pullback(e, ct, z, operands, need):
    turned = e.transposed(z)
    return (-e.matmul(e.matmul(turned, ct), turned),)


@array_op(
    "inv",
    "(n,n)->(n,n)",
    np.linalg.inv,
    scratch="2*n*n+n",
    cases=SQUARES,
    make=well_conditioned,
    fallible=True,
)
class Inv:
    """``Z = A^-1``; ``Abar -= Z^T Zbar Z^T`` (Giles 2008, section 2.2.3)."""

    depends, interacts = dense, everything

    def forward(v, o, a, n, sa0, sa1, s):
        return put_inverse(v, o, a, n, sa0, sa1, s)

    def reverse(v, g, o, a, n, so0, so1, sa0, sa1, s):
        pull_inverse(v, g, o, a, n, so0, so1, sa0, sa1, s)

    def pullback(e, ct, z, operands, need):
        return inverse_pullback(e, ct, z, operands, need)
