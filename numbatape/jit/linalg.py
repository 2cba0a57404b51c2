"""BLAS and LAPACK for kernels: wrappers as text in the kernel language, and the routines that they call.

A call of LAPACK takes 50 to 200 ns before it computes, much of it for the lock of OpenBLAS's memory. So the
wrappers treat matrices of a few rows themselves, in LAPACK's layout.

Those whose result is annotated are compiled once for all kernels (`numbatape.jit.shared`).

LAPACK's matrices are column-major, so it sees a row-major n*n block as the transposed matrix. The same
functions in checked form are in `numbatape.jit.language`.
"""

from __future__ import annotations

import re

from . import shared

# Name in the text → library, routine without its letter for the dtype, parameters: ``c`` a character code,
# ``i`` a 32-bit integer, ``d`` a float of the cells' dtype, ``p`` an address, ``o`` an integer result (the
# last), ``r`` an integer that the routine returns as a C function does. Those of "threads" have no dtype.
ROUTINES = {
    "_gemm": ("blas", "gemm", "cciiidpipidpi"),
    "_trsm": ("blas", "trsm", "cccciidpipi"),
    "_potrf": ("lapack", "potrf", "cipio"),
    "_getrf": ("lapack", "getrf", "iipipo"),
    "_syevd": ("lapack", "syevd", "ccipippipio"),
    "_gesdd": ("lapack", "gesdd", "ciipippipipipo"),
    "_geqrf": ("lapack", "geqrf", "iipippio"),
    "_orgqr": ("lapack", "orgqr", "iiipippio"),
    "_blas_threads": ("threads", "get", "r"),
    "_set_blas_threads": ("threads", "set", "i"),
}

# In the texts below, the numbers from 76 to 86 are LAPACK's letters in ASCII: 76 L, 78 N, 82 R, 83 S, 84 T,
# 85 U, 86 V.
#
# OpenBLAS divides every triangular system of 8 rows and 8 columns among its threads, and parts of the
# decompositions as well. Where another process has the second processor, such a call waits for the system's
# clock: 20 ms instead of 3 us for a system of 32 rows and columns. Up to this size, at which OpenBLAS gives a
# product of as much work to one thread, a call here has one thread, too. Setting the number takes 9 ns.
_THREADS = """
def _one_thread(work):
    if work >= 524288:
        return 1
    threads = _blas_threads()
    if threads > 1:
        _set_blas_threads(1)
    return threads

def _all_threads(before):
    if before > 1:
        _set_blas_threads(before)
    return 0
"""

_PRODUCTS = """
FEW_ROWS = 12  # matrices of so few rows are factored and solved here, in a fifth to a half of LAPACK's time

def gemm(cv, c, sc0, sc1, av, a, sa0, sa1, bv, b, sb0, sb1, m, n, k, alpha, beta):
    if m == 0 or n == 0:
        return 0
    small = m * n * k <= 64
    # The stride along an axis of size one is never taken, and 0 where an axis was added.
    a_rows = (sa1 == 1 or k == 1) and (sa0 >= max(1, k) or m == 1)
    a_columns = (sa0 == 1 or m == 1) and (sa1 >= max(1, m) or k == 1)
    b_rows = (sb1 == 1 or n == 1) and (sb0 >= max(1, n) or k == 1)
    b_columns = (sb0 == 1 or k == 1) and (sb1 >= max(1, k) or n == 1)
    c_rows = (sc1 == 1 or n == 1) and (sc0 >= max(1, n) or m == 1)
    if small or k == 0 or not ((a_rows or a_columns) and (b_rows or b_columns) and c_rows):
        for i in range(m):
            for j in range(n):
                total = 0.0
                for q in range(k):
                    total += av[a + i * sa0 + q * sa1] * bv[b + q * sb0 + j * sb1]
                old = 0.0
                if beta != 0.0:
                    old = beta * cv[c + i * sc0 + j * sc1]
                cv[c + i * sc0 + j * sc1] = old + alpha * total
        return 0
    # Row-major C = A B is column-major C' = B' A'.
    ta = 78 if a_rows else 84  # N, T
    tb = 78 if b_rows else 84
    la = max(sa0, 1, k) if a_rows else max(sa1, 1, m)
    lb = max(sb0, 1, n) if b_rows else max(sb1, 1, k)
    _gemm(tb, ta, n, m, k, alpha, at(bv, b), lb, at(av, a), la, beta, at(cv, c), max(sc0, 1, n))
    return 0

def potrf(v, a, n):
    if n > FEW_ROWS:
        return _potrf(85, n, at(v, a), n)  # U: row-major lower
    for i in range(n):
        row = a + i * n
        for j in range(i + 1):
            other = a + j * n
            x = v[row + j]
            for q in range(j):
                x -= v[row + q] * v[other + q]
            if j < i:
                v[row + j] = x / v[other + j]
            elif x <= 0.0:
                return i + 1
            else:  # NaN is no failure, as in LAPACK
                v[row + i] = math.sqrt(x)
    return 0

def _substitute(av, a, sa0, sa1, down, unit, bv, b, sb0, n, k) -> int:
    # Solve a triangular system of few rows in place, from the first row down or from the last one up.
    for step in range(n):
        i = step if down else n - 1 - step
        first = 0 if down else i + 1
        row = b + i * sb0
        for j in range(first, first + step):
            x = av[a + i * sa0 + j * sa1]
            other = b + j * sb0
            for col in parallel(k):
                bv[row + col] -= x * bv[other + col]
        if not unit:
            x = av[a + i * (sa0 + sa1)]
            for col in parallel(k):
                bv[row + col] /= x
    return 0

def _triangular(uplo, trans, diag, k, n, a, la, b, lb):
    threads = _one_thread(n * n * k)
    _trsm(82, uplo, trans, diag, k, n, 1.0, a, la, b, lb)
    _all_threads(threads)
    return 0

def getrf(v, a, n, p):
    if n > FEW_ROWS:
        return _getrf(n, n, at(v, a), n, at(v, p))
    status = 0
    exchanges_t = at(v, p)
    for q in range(n):
        row = a + q * n
        place = q
        for j in range(q + 1, n):
            if abs(v[row + j]) > abs(v[row + place]):
                place = j
        exchanges_t[q] = place + 1
        pivot_cell = v[row + place]
        if pivot_cell == 0.0:
            if status == 0:
                status = q + 1
        else:
            if place != q:
                for i in range(n):
                    other = a + i * n
                    x = v[other + q]
                    v[other + q] = v[other + place]
                    v[other + place] = x
            for j in parallel(q + 1, n):
                v[row + j] /= pivot_cell
            for i in range(q + 1, n):
                other = a + i * n
                x = v[other + q]
                for j in parallel(q + 1, n):
                    v[other + j] -= x * v[row + j]
    return status

def _row_swaps(v, n, p, bv, b, sb0, k, backwards):
    for q in range(n):
        i = n - 1 - q if backwards else q
        j = pivot(v, p, i) - 1
        if i != j:
            for col in range(k):
                old = bv[b + i * sb0 + col]
                bv[b + i * sb0 + col] = bv[b + j * sb0 + col]
                bv[b + j * sb0 + col] = old

def getrs(v, a, n, p, bv, b, sb0, k, transposed):
    # LAPACK factored F = M' = P L U, seen row-major: M = U' L' P'. Row-major right sides stay where
    # they are: a row-major X is the column-major X', multiplied from the other side (trsm SIDE=R).
    if n == 0 or k == 0:
        return 0
    if n <= FEW_ROWS:
        if transposed:
            _row_swaps(v, n, p, bv, b, sb0, k, False)
            _substitute(v, a, 1, n, True, True, bv, b, sb0, n, k)
            _substitute(v, a, 1, n, False, False, bv, b, sb0, n, k)
        else:
            _substitute(v, a, n, 1, True, False, bv, b, sb0, n, k)
            _substitute(v, a, n, 1, False, True, bv, b, sb0, n, k)
            _row_swaps(v, n, p, bv, b, sb0, k, True)
    elif transposed:  # M' X = P L U X = B
        _row_swaps(v, n, p, bv, b, sb0, k, False)
        _triangular(76, 84, 85, k, n, at(v, a), n, at(bv, b), sb0)
        _triangular(85, 84, 78, k, n, at(v, a), n, at(bv, b), sb0)
    else:  # M X = U' L' P' X = B
        _triangular(85, 78, 78, k, n, at(v, a), n, at(bv, b), sb0)
        _triangular(76, 78, 85, k, n, at(v, a), n, at(bv, b), sb0)
        _row_swaps(v, n, p, bv, b, sb0, k, True)
    return 0

def lu_sign(v, a, n, p):
    sign = 1.0
    for i in range(n):
        if pivot(v, p, i) != i + 1:
            sign = -sign
    return sign

def trsm(av, a, sa0, lower, transposed, unit, bv, b, sb0, n, k) -> int:
    # Row-major op(A) X = B is column-major X' op(A)' = B'; A seen column-major is A'.
    if n == 0 or k == 0:
        return 0
    if n <= FEW_ROWS:
        along = 1 if transposed else sa0
        across = sa0 if transposed else 1
        _substitute(av, a, along, across, lower != transposed, unit, bv, b, sb0, n, k)
        return 0
    uplo = 85 if lower else 76
    trans = 84 if transposed else 78
    diag = 85 if unit else 78
    _triangular(uplo, trans, diag, k, n, at(av, a), sa0, at(bv, b), sb0)
    return 0
"""

_FACTORS = """
def syevd(v, a, n, w, s):
    size = 1 + 6 * n + 2 * n * n  # V, L
    threads = _one_thread(n * n * n)
    status = _syevd(86, 76, n, at(v, a), n, at(v, w), at(v, s), size, at(v, s + size), 3 + 5 * n)
    _all_threads(threads)
    return status

def gesdd(v, a, m, n, w, u, t, s):
    k = min(m, n)
    size = 4 * m * n + 7 * m + 7 * n  # S
    threads = _one_thread(m * n * k)
    status = _gesdd(
        83, m, n, at(v, a), m, at(v, w), at(v, u), m, at(v, t), k, at(v, s), size, at(v, s + size)
    )
    _all_threads(threads)
    return status

def geqrf(v, a, m, n, t, s):
    threads = _one_thread(m * n * n)
    status = _geqrf(m, n, at(v, a), m, at(v, t), at(v, s), 32 * n)
    _all_threads(threads)
    return status

def orgqr(v, a, m, n, t, s):
    threads = _one_thread(m * n * n)
    status = _orgqr(m, n, n, at(v, a), m, at(v, t), at(v, s), 32 * n)
    _all_threads(threads)
    return status
"""


def with_wrappers(source: str) -> str:
    """Return a module's text with the wrappers that it calls in front, if it is not that of one of them."""
    if shared.is_shared(source):
        return source
    for names, text in _WRAPPERS:
        called = [name for name in names if f"{name}(" in source]  # faster than a pattern of all names
        if any(re.search(rf"\b{name}\(", source) for name in called):
            head, _, rest = source.partition("\n")  # the first line says what the cells are
            source = f"{head}\n{text}{rest}"
    return source


def parts(source: str) -> tuple[str, tuple[shared.Shared, ...]]:
    """Return the text that is compiled for a kernel, and the modules that must be loaded before it."""
    return shared.split(with_wrappers(source))


_WRAPPERS = (
    (("gemm", "potrf", "getrf", "getrs", "lu_sign", "trsm"), _PRODUCTS),
    (("syevd", "gesdd", "geqrf", "orgqr"), _FACTORS),
    (("_one_thread",), _THREADS),
)
