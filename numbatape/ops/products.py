"""Products of matrices: the loops and the calls of BLAS that all linear algebra is made of."""

import numpy as np

from ..jit.language import add_slim_rows, eight_dots, gemm, lane_dot, lane_dots, parallel
from .dependencies import pairs
from .elementwise import strong_mul
from .status import DONE
from .table import array_op

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
    ((26, 3), (3, 3)),
    ((26, 7), (7, 1)),
    ((1, 6), (6, 19)),
    ((1, 26), (26, 7)),
    ((52, 3), (3, 2)),
    ((2, 2), (2, 51)),
)

# Up to this many multiplications, choosing between ways to multiply takes longer than they do.
FEW_TERMS = 16
# With more entries than this in three to eight columns, loops are faster, too: up to 1 200, OpenBLAS has
# code of its own for dots of contiguous rows and columns, which takes 0.8 to 0.95 of the time of loops.
SLIM_PRODUCT = 1200
# Of a matrix with so few columns, the product with a vector is added up in registers.
FEW_COLUMNS = 16
PART = 256  # and this many of its rows are gone through for some columns before the others
# Dots of so many cells are added up by parts, as they are where blocks run strip by strip.
LONG_DOT = 4096
TINY_PRODUCT = 200  # Below this many multiplications, loops are faster than the call of gemm (70 ns).


def distinct(m, n, stride0, stride1):
    """Whether the cells of an m*n view are certainly distinct: not broadcast, no overlap."""
    step0 = abs(stride0)
    step1 = abs(stride1)
    if m <= 1:
        return n <= 1 or step1 > 0
    if n <= 1:
        return step0 > 0
    return (step0 > 0 and step1 > step0 * (m - 1)) or (step1 > 0 and step0 > step1 * (n - 1))


def clear(cv, c, sc0, sc1, m, n):
    """``C = 0``, in one loop where rows have one entry or are contiguous: to begin one takes a while."""
    if n == 1 or (sc1 == 1 and sc0 == n):
        step = 1
        if n == 1:
            step = sc0
        for i in parallel(m * n):
            cv[c + i * step] = 0.0
    else:
        for i in range(m):
            for j in parallel(n):
                cv[c + i * sc0 + j * sc1] = 0.0


def add_few_columns(cv, c, av, a, sa1, bv, b, sb0, n, k):
    """``C += A@B`` for one row of A and few columns of B, by parts of B that stay in the first cache."""
    for q in range(0, k, PART):
        add_slim_rows(cv, c, av, a + q * sa1, sa1, bv, b + q * sb0, sb0, n, min(PART, k - q))


def write_short_dots(cv, c, av, a, sa0, bv, b, m, k):
    """``C = A@B`` for one column of B and short contiguous rows of A."""
    whole = m - m % 8
    eight_dots(cv, c, av, a, sa0, bv, b, whole, k)
    for i in range(whole, m):
        cv[c + i] = lane_dot(av, a + i * sa0, bv, b, k)


def write_part_of_rows(cv, c, av, a, sa0, sa1, bv, b, m, k):
    """``C = A@B`` for some rows of A, contiguous or in contiguous columns, as `multiply` adds up all."""
    if sa1 == 1 and k < FEW_COLUMNS:
        write_short_dots(cv, c, av, a, sa0, bv, b, m, k)
        return
    clear(cv, c, 1, 1, m, 1)
    if sa1 == 1:
        add_dots(cv, c, 1, 1, av, a, sa0, 1, bv, b, 1, 1, m, 1, k, 1.0)
    else:
        add_rows(cv, c, 1, bv, b, 1, 1, av, a, sa1, 1, m, k, 1.0)


def add_part_of_sums(cv, c, av, a, sa, bv, b, sb0, sb1, n, k):
    """``C += A@B`` for one row of A, and some rows of B."""
    if sb1 != 1:
        add_dots(cv, c, 1, 1, bv, b, sb1, 1, av, a, 1, 1, n, 1, k, 1.0)
    elif n <= FEW_COLUMNS:
        add_few_columns(cv, c, av, a, sa, bv, b, sb0, n, k)
    else:
        add_rows(cv, c, 1, av, a, 1, sa, bv, b, sb0, 1, n, k, 1.0)


def add_rows(cv, c, sc0, av, a, sa0, sa1, bv, b, sb0, m, n, k, alpha):
    """``C += alpha*A@B`` by rows of C, where C and B have unit column stride."""
    # An outer product has a loop of its own, because it needs none of the registers of the other loop.
    if k == 1:
        for i in range(m):
            first = c + i * sc0
            x = alpha * av[a + i * sa0]
            for j in parallel(n):
                cv[first + j] += x * bv[b + j]
        return
    for i in range(m):
        first = c + i * sc0
        row = a + i * sa0
        q = 0
        # Each pass takes four rows of B, so that C is loaded and stored a quarter as often.
        while q + 4 <= k:
            x0 = alpha * av[row + q * sa1]
            x1 = alpha * av[row + (q + 1) * sa1]
            x2 = alpha * av[row + (q + 2) * sa1]
            x3 = alpha * av[row + (q + 3) * sa1]
            b0 = b + q * sb0
            b1 = b0 + sb0
            b2 = b1 + sb0
            b3 = b2 + sb0
            for j in parallel(n):
                cv[first + j] += (x0 * bv[b0 + j] + x1 * bv[b1 + j]) + (x2 * bv[b2 + j] + x3 * bv[b3 + j])
            q += 4
        while q < k:
            x = alpha * av[row + q * sa1]
            b0 = b + q * sb0
            for j in parallel(n):
                cv[first + j] += x * bv[b0 + j]
            q += 1


def add_dots(cv, c, sc0, sc1, av, a, sa0, sa1, bv, b, sb0, sb1, m, n, k, alpha):
    """``C += alpha*A@B`` entry by entry: by four contiguous rows, long dots by parts."""
    if sa1 != 1 or sb0 != 1:
        for i in range(m):
            for j in range(n):
                total = 0.0
                for q in range(k):
                    total += av[a + i * sa0 + q * sa1] * bv[b + j * sb1 + q * sb0]
                cv[c + i * sc0 + j * sc1] += alpha * total
        return
    parts = 1
    part = k
    if k >= LONG_DOT:
        parts = (k + PART - 1) // PART
        part = PART
    fours = m - m % 4
    for i in range(0, fours, 4):
        for j in range(n):
            first = c + i * sc0 + j * sc1
            for p in range(parts):
                q = p * PART
                row = a + i * sa0 + q
                lane_dots(cv, first, sc0, av, row, sa0, bv, b + j * sb1 + q, min(part, k - q), alpha)
    for i in range(fours, m):
        for j in range(n):
            for p in range(parts):
                q = p * PART
                total = lane_dot(av, a + i * sa0 + q, bv, b + j * sb1 + q, min(part, k - q))
                cv[c + i * sc0 + j * sc1] += alpha * total


def add_entries(cv, c, sc0, sc1, av, a, sa0, sa1, bv, b, sb0, sb1, m, n, k, beta):
    """``C = A@B + beta*C`` entry by entry, without a choice: for matrices of a few entries."""
    for i in range(m):
        for j in range(n):
            x = a + i * sa0
            y = b + j * sb1
            total = 0.0
            for _ in range(k):
                total += av[x] * bv[y]
                x += sa1
                y += sb0
            z = c + i * sc0 + j * sc1
            if beta == 0.0:
                cv[z] = total
            else:
                cv[z] += total


def add_points(cv, c, sc0, sc1, av, a, sa0, sa1, bv, b, sb0, sb1, m, n, k):
    """``C += A@B`` for points of two or three coordinates and a matrix that stays in registers.

    OpenBLAS takes two to four times as long where it adds to C (16 us for 2000 points, 3 where C was zero).
    """
    b00 = bv[b]
    b01 = bv[b + sb1]
    b10 = bv[b + sb0]
    b11 = bv[b + sb0 + sb1]
    b02 = 0.0
    b12 = 0.0
    b20 = 0.0
    b21 = 0.0
    b22 = 0.0
    if n == 3:
        b02 = bv[b + 2 * sb1]
        b12 = bv[b + sb0 + 2 * sb1]
    if k == 3:
        b20 = bv[b + 2 * sb0]
        b21 = bv[b + 2 * sb0 + sb1]
        if n == 3:
            b22 = bv[b + 2 * sb0 + 2 * sb1]
    w = 0.0
    for i in range(m):
        at = a + i * sa0
        to = c + i * sc0
        x = av[at]
        y = av[at + sa1]
        if k == 3:
            w = av[at + 2 * sa1]
        cv[to] += x * b00 + y * b10 + w * b20
        cv[to + sc1] += x * b01 + y * b11 + w * b21
        if n == 3:
            cv[to + 2 * sc1] += x * b02 + y * b12 + w * b22


def multiply(cv, c, sc0, sc1, av, a, sa0, sa1, bv, b, sb0, sb1, m, n, k, alpha: float, beta: float) -> int:
    """``C = alpha*A@B + beta*C``, beta 0.0 or 1.0, for any strides.

    Loops serve products with a vector (gemm takes 3 to 5 times as long), tiny ones, slim ones of long
    contiguous rows and columns (the adjoint of points in a matrix of their distances), the adjoint of points
    in the plane or in space that a matrix has moved, and a C whose cells coincide (the adjoint of a broadcast
    operand), each of whose terms must be added.
    """
    short = 2 <= k < FEW_COLUMNS and sa1 == 1 and sb0 == 1
    if short and beta == 0.0 and alpha == 1.0 and m * n >= 16:
        if m == 1 and sc1 == 1:
            held = av
            av = bv
            bv = held
            first = a
            a = b
            b = first
            sa0 = sb1
            m = n
            n = 1
            sc0 = 1
        if n == 1 and sc0 == 1:
            write_short_dots(cv, c, av, a, sa0, bv, b, m, k)
            return DONE
    if sc0 == 1 and (sc1 != 1 or (sa0 == 1 and (m > n or sb1 != 1))):
        # The transposed product C^T = B^T A^T is computed, whose rows have unit stride.
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
    if beta != 0.0 and alpha == 1.0 and 2 <= n <= 3 and 2 <= k <= 3 and m * n * k > TINY_PRODUCT:
        add_points(cv, c, sc0, sc1, av, a, sa0, sa1, bv, b, sb0, sb1, m, n, k)
        return DONE
    thin = m == 1 or n == 1 or k == 1 or m * n * k <= TINY_PRODUCT
    slim = 2 < n <= 8 and sa1 == 1 and sb0 == 1 and k >= 64 and m * n > SLIM_PRODUCT
    if not thin and not slim and distinct(m, n, sc0, sc1):
        gemm(cv, c, sc0, sc1, av, a, sa0, sa1, bv, b, sb0, sb1, m, n, k, alpha, beta)
    else:
        if beta == 0.0:
            clear(cv, c, sc0, sc1, m, n)
        dots = sa1 == 1 and sb0 == 1 and k > n
        if sc1 == 1 and sb1 == 1 and n > 1 and not dots and m == 1 and n <= FEW_COLUMNS and alpha == 1.0:
            add_few_columns(cv, c, av, a, sa1, bv, b, sb0, n, k)
        elif sc1 == 1 and sb1 == 1 and n > 1 and not dots:
            add_rows(cv, c, sc0, av, a, sa0, sa1, bv, b, sb0, m, n, k, alpha)
        else:
            add_dots(cv, c, sc0, sc1, av, a, sa0, sa1, bv, b, sb0, sb1, m, n, k, alpha)
    return DONE


def part_of_rows(v, o, a, b, m, k, n, sa0, sa1, sb0, sb1):
    if n == 1 and sb0 == 1:
        write_part_of_rows(v, o, v, a, sa0, sa1, v, b, m, k)
    else:
        write_part_of_rows(v, o, v, b, sb1, sb0, v, a, n, k)


def part_of_sums(v, o, a, b, m, k, n, sa0, sa1, sb0, sb1):
    if n == 1:
        add_part_of_sums(v, o, v, b, sb0, v, a, sa1, sa0, m, k)
    else:
        add_part_of_sums(v, o, v, a, sa1, v, b, sb0, sb1, n, k)


@array_op(
    "matmul",
    "(m,k),(k,n)->(m,n)",
    np.matmul,
    bilinear=True,
    cases=PRODUCTS,
    product=True,
    one_module=True,
    integers="sum",
    part_of_rows=part_of_rows,
    part_of_sums=part_of_sums,
)
class Matmul:
    """``Z = A B``; ``Abar += Zbar B^T``, ``Bbar += A^T Zbar`` (Giles 2008, section 2.2.1)."""

    def depends(sets, operands, positions, core):
        x, y = operands
        rows = None if x is None else sets.along_last(x)[:, :, None]
        cols = None if y is None else sets.along_last(y.swapaxes(1, 2))[:, None, :]
        return sets.together((len(x if x is not None else y), *core), rows, cols)

    def interacts(sets, operands):
        """Column k of one operand interacts with row k of the other."""
        x, y = operands
        if x is None or y is None:
            return []
        return [pairs(sets.along_last(x.swapaxes(1, 2)), sets.along_last(y))]

    def forward(v, o, a, b, m, k, n, so0, so1, sa0, sa1, sb0, sb1):
        if m * n * k <= FEW_TERMS:
            add_entries(v, o, so0, so1, v, a, sa0, sa1, v, b, sb0, sb1, m, n, k, 0.0)
        else:
            multiply(v, o, so0, so1, v, a, sa0, sa1, v, b, sb0, sb1, m, n, k, 1.0, 0.0)
        return DONE

    def reverse(v, g, o, a, b, m, k, n, so0, so1, sa0, sa1, sb0, sb1, need_a, need_b):
        if m * n * k <= FEW_TERMS:
            if need_a:
                add_entries(g, a, sa0, sa1, g, o, so0, so1, v, b, sb1, sb0, m, k, n, 1.0)
            if need_b:
                add_entries(g, b, sb0, sb1, v, a, sa1, sa0, g, o, so0, so1, k, n, m, 1.0)
            return
        if need_a:
            multiply(g, a, sa0, sa1, g, o, so0, so1, v, b, sb1, sb0, m, k, n, 1.0, 1.0)
        if need_b:
            multiply(g, b, sb0, sb1, v, a, sa1, sa0, g, o, so0, so1, k, n, m, 1.0, 1.0)

    def pullback(e, ct, z, operands, need):
        a, b = operands
        return (
            e.matmul(ct, e.transposed(b)) if need[0] else None,
            e.matmul(e.transposed(a), ct) if need[1] else None,
        )


def add_up_strongly(v, o, a, b, m, k, n, so0, so1, sa0, sa1, sb0, sb1):
    for i in range(m):
        for j in range(n):
            total = 0.0
            for q in range(k):
                x = v[a + i * sa0 + q * sa1]
                y = v[b + q * sb0 + j * sb1]
                if x != 0.0 and y != 0.0:
                    total += x * y
            v[o + i * so0 + j * so1] = total


def has_nan(v, o, m, n, so0, so1):
    for i in range(m):
        for j in range(n):
            z = v[o + i * so0 + j * so1]
            if z != z:
                return True
    return False


@array_op("strong_matmul", "(m,k),(k,n)->(m,n)", bilinear=True, cases=PRODUCTS, product=True, one_module=True)
class StrongMatmul:
    """``Z = A B``, where a zero factor makes a product zero, even beside an infinite one.

    Zero times infinity is NaN, so the usual product is right wherever it has no NaN.
    """

    depends, interacts, reverse, pullback = Matmul.depends, Matmul.interacts, Matmul.reverse, Matmul.pullback

    def oracle(x, y):
        return np.sum(strong_mul(x[:, :, None], y[None]), axis=1)

    def forward(v, o, a, b, m, k, n, so0, so1, sa0, sa1, sb0, sb1):
        multiply(v, o, so0, so1, v, a, sa0, sa1, v, b, sb0, sb1, m, n, k, 1.0, 0.0)
        if has_nan(v, o, m, n, so0, so1):
            add_up_strongly(v, o, a, b, m, k, n, so0, so1, sa0, sa1, sb0, sb1)
        return DONE
