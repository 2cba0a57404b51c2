"""The kernel language's functions beyond ``math``, in their plain Python form.

Kernels are written once, as Python over cell arrays (``v[o + i] = x``). They run in three forms:

* raw: compiled to machine code, every ``v[i]`` a load or store by address;
* checked: interpreted by Python over bounds-checked cells, calling the functions of this file;
* as text: ``python -m numbatape.engine`` prints them.

This file has the functions that the checked form calls. Those of the raw form, with the same names and
arguments, are in `numbatape.jit.lowering` and `numbatape.jit.linalg`. An operand of these functions is a
pair (cells, first cell).

Cells are read and written one by one, so that a cell class can check each access. LAPACK gets row-major
memory as a transposed matrix here, too, so that both forms pivot alike.
"""

from __future__ import annotations

import struct

import numpy as np

# Loops over ``range`` never become SIMD code. Those over one of the following names do.
#
# ``for i in parallel(n)`` says that no iteration reads or writes a cell that another one writes. While cells
# are contiguous (``v[first + i]``, or ``v[first + i * stride]`` of a stride that is 1, for what is read also
# 0), eight iterations are computed at once; the others follow one by one
# (`numbatape.jit.lowering.parallel_loops`). Iterations share no variable, except integers that they add to
# (``+=``) or take the maximum with (``x = max(x, ...)``).
parallel = range

# ``for i in simd(n)`` says the same, and computes eight iterations at once for all strides and to the last
# one (`numbatape.jit.lowering.simd_loops`), for functions as large as those of `numbatape.ops.elementary`.
# A loop over `range` may stand inside: eight iterations go through it together.
simd = range


def opaque(i):
    """Return an integer, of which LLVM does not know where it comes from.

    For the first cells of a loop that addresses many rows: where LLVM knows how they follow from one another,
    its search for the cheapest addresses (loop strength reduction) takes a third of the time of compilation.
    """
    return i


def bits_of(x):
    """Return the 64 bits of a float, as an integer."""
    return struct.unpack("q", struct.pack("d", x))[0]


def float_of(bits):
    """Return the float that has these 64 bits; bits beyond the 64th are cut off."""
    return np.float64(struct.unpack("d", struct.pack("Q", int(bits) & 0xFFFFFFFFFFFFFFFF))[0])


def horner(x, *coefficients):
    """Return a polynomial in x, whose first coefficient is the constant one.

    The raw form is the nested expression ``c0 + x * (c1 + x * ...)``, so x is a name.
    """
    z = coefficients[-1]
    for coefficient in coefficients[-2::-1]:
        z = coefficient + x * z
    return z


def lane_sum(v, a, n):
    """Return the sum of n contiguous cells; the raw form chooses the order."""
    total = 0.0
    for i in range(n):
        total += v[a + i]
    return total


def lane_dot(av, a, bv, b, n):
    """Return the sum of products of two arrays' n contiguous cells; the raw form chooses the order."""
    total = 0.0
    for i in range(n):
        total += av[a + i] * bv[b + i]
    return total


def lane_gaps(av, a, bv, b, n):
    """Return the sum of squared differences of two arrays' n contiguous cells, in the order of `lane_dot`."""
    total = 0.0
    for i in range(n):
        gap = av[a + i] - bv[b + i]
        total += gap * gap
    return total


def lane_dots(cv, c, sc0, av, a, sa0, bv, b, n, scale):
    """Add to four cells of c the products of four rows with b, each as `lane_dot` adds it up, times scale."""
    for r in range(4):
        cv[c + r * sc0] += scale * lane_dot(av, a + r * sa0, bv, b, n)


def eight_dots(cv, c, av, a, sa0, bv, b, m, k):
    """Write the products of m rows of k cells with b, each as `lane_dot` adds it up; m is a multiple of 8.

    Rows have fewer than 16 cells.
    """
    for i in range(m):
        cv[c + i] = lane_dot(av, a + i * sa0, bv, b, k)


def add_slim_rows(cv, c, av, a, sa, bv, b, sb, n, k):
    """Add k cells of a times k rows of b to n cells of c: eight rows at a time, by pairs, and then one."""
    for j in range(n):
        total = float(cv[c + j])
        for q in range(0, k - k % 8, 8):
            terms = [av[a + (q + r) * sa] * bv[b + (q + r) * sb + j] for r in range(8)]
            while len(terms) > 1:
                terms = [x + y for x, y in zip(terms[::2], terms[1::2], strict=True)]
            total += terms[0]
        for q in range(k - k % 8, k):
            total += av[a + q * sa] * bv[b + q * sb + j]
        cv[c + j] = total


def transpose8(zv, o, sz, xv, a, sa):
    """Write the cells of eight contiguous rows as columns; none that is written may be read."""
    for i in range(8):
        for j in range(8):
            zv[o + i * sz + j] = xv[a + j * sa + i]


def _strip_names(pattern, v, o, operands, i):
    """Return the operands of a strip at its cell i: an operand "v" is a vector, "s" is one cell."""
    names = {"z": v[o + i]} if o is not None else {}
    for name, first, kind in zip("xyw", operands, pattern, strict=False):
        names[name] = v[first + i] if kind == "v" else v[first]
    return names


def strip(formula, pattern, v, o, a, b, c, n):
    """Compute a formula of + - * / in x, y and w over n contiguous cells from o on, lane by lane."""
    for i in range(n):
        v[o + i] = eval(formula, _strip_names(pattern, v, None, (a, b, c), i))


def strip_adjoint(term, pattern, operand, v, g, o, a, b, c, n):
    """Add a term in x, y, w, z and gz to the adjoint of an operand; nothing where gz is zero.

    The adjoint of a one-cell operand gets the sum, in an order that the raw form chooses.
    """
    target, total = (a, b, c)[operand], 0.0
    for i in range(n):
        gz, linear = g[o + i], term in ("gz", "-gz")
        names = {"gz": gz} | ({} if linear else _strip_names(pattern, v, o, (a, b, c), i))
        value = eval(term, names) if gz != 0.0 else 0.0
        if pattern[operand] == "v":
            g[target + i] += value
        total += value
    if pattern[operand] == "s":
        g[target] += total


def _load(cells, first, stride0, stride1, m, n):
    """Copy an m*n view into an array, whose memory LAPACK sees as the transposed matrix."""
    matrix = np.empty((m, n))
    for i in range(m):
        for j in range(n):
            matrix[i, j] = cells[first + i * stride0 + j * stride1]
    return matrix


def _store(cells, first, stride0, stride1, matrix):
    for i, row in enumerate(matrix):
        for j, value in enumerate(row):
            cells[first + i * stride0 + j * stride1] = float(value)


def gemm(cv, c, sc0, sc1, av, a, sa0, sa1, bv, b, sb0, sb1, m, n, k, alpha, beta):
    """Set the (m,n) matrix C to ``alpha*A@B + beta*C``; A and B may have any strides.

    The cells of C must be distinct; beta 0.0 ignores what they hold.
    """
    product = alpha * (_load(av, a, sa0, sa1, m, k) @ _load(bv, b, sb0, sb1, k, n))
    if beta != 0.0:
        product += beta * _load(cv, c, sc0, sc1, m, n)
    _store(cv, c, sc0, sc1, product)


def potrf(v, a, n):
    """Put the Cholesky factor L of the matrix at a in its place, lower triangles only.

    The matrix is n*n, row-major and contiguous. The result is 0 unless it is not positive definite.
    """
    from scipy.linalg import lapack

    factor, info = lapack.dpotrf(_load(v, a, n, 1, n, n).T, lower=0, clean=0)
    for i, row in enumerate(factor.T):
        _store(v, a + i * n, 0, 1, row[None, : i + 1])
    return info


def getrf(v, a, n, p):
    """Factor the contiguous row-major n*n matrix at a in place, with n pivots kept from p on.

    Only `getrs` and `lu_sign` understand the result, except for its diagonal, whose product is the
    determinant up to `lu_sign`. The status is 0 unless the matrix is exactly singular.
    """
    from scipy.linalg import lapack

    factor, pivots, info = lapack.dgetrf(_load(v, a, n, 1, n, n).T)
    _store(v, a, n, 1, factor.T)
    _store(v, p, 0, 1, pivots[None, :])
    return info


def getrs(v, a, n, p, bv, b, sb0, k, transposed):
    """Solve ``M X = B``, or ``M^T X = B``, in place, with M's factor by `getrf`.

    B is (n,k) with row stride sb0 and unit column stride.
    """
    from scipy.linalg import lapack

    factor = _load(v, a, n, 1, n, n).T
    pivots = _load(v, p, 0, 1, 1, n)[0].astype(np.int32)
    solution, _ = lapack.dgetrs(factor, pivots, _load(bv, b, sb0, 1, n, k), trans=1 - transposed)
    _store(bv, b, sb0, 1, solution)


def lu_sign(v, a, n, p):
    """Return +1.0 or -1.0: the sign of the row exchanges that `getrf` made."""
    sign = 1.0
    for i in range(n):
        if v[p + i] != i:
            sign = -sign
    return sign


def trsm(av, a, sa0, lower, transposed, unit, bv, b, sb0, n, k):
    """Solve ``A X = B``, or ``A^T X = B``, in place; only the named triangle of A is read.

    A is n*n with row stride sa0, B is (n,k) with row stride sb0; column strides are 1. With
    unit, A's diagonal is taken as ones.
    """
    from scipy.linalg import blas

    matrix = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1) if lower else range(i, n):
            if not (unit and i == j):
                matrix[i, j] = av[a + i * sa0 + j]
    solution = blas.dtrsm(1.0, matrix, _load(bv, b, sb0, 1, n, k), lower=lower, trans_a=transposed, diag=unit)
    _store(bv, b, sb0, 1, solution)


def syevd(v, a, n, w, s):
    """Put the eigenvectors of the symmetric n*n matrix at a in its place, one per row.

    The eigenvalues, ascending, go to w; s has room for ``2*n*n + 11*n + 4`` cells. The result is 0
    unless the iteration did not converge.
    """
    from scipy.linalg import lapack

    values, vectors, info = lapack.dsyevd(_load(v, a, n, 1, n, n).T, lower=1)
    _store(v, a, n, 1, vectors.T)
    _store(v, w, 0, 1, values[None, :])
    return info


def gesdd(v, a, m, n, w, u, t, s):
    """Decompose the m*n matrix at a, which stands there column by column, into singular values and vectors.

    The values go to w, the left vectors to u, each a row, and the right ones to t, each a column; s has room
    for ``4*m*n + 15*m + 15*n`` cells.
    """
    from scipy.linalg import lapack

    left, values, right, info = lapack.dgesdd(_load(v, a, m, 1, n, m).T, full_matrices=0)
    k = len(values)
    _store(v, w, 0, 1, values[None, :])
    _store(v, u, m, 1, left.T)
    _store(v, t, k, 1, right.T)
    return info


def geqrf(v, a, m, n, t, s):
    """Factor the m*n matrix at a, column by column, in place; t takes n scales, s has 32*n cells."""
    from scipy.linalg import lapack

    factor, scales, _, info = lapack.dgeqrf(_load(v, a, m, 1, n, m).T)
    _store(v, a, m, 1, factor.T)
    _store(v, t, 0, 1, scales[None, :])
    return info


def orgqr(v, a, m, n, t, s):
    """Turn what `geqrf` left at a into the orthogonal factor, column by column."""
    from scipy.linalg import lapack

    factor, _, info = lapack.dorgqr(_load(v, a, m, 1, n, m).T, _load(v, t, 0, 1, 1, n)[0])
    _store(v, a, m, 1, factor.T)
    return info
