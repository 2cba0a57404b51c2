"""Triangular systems, solved and differentiated: four ops that read one triangle each."""

import numpy as np

from ..jit.language import gemm, lane_dot, parallel, trsm
from .dependencies import lower_solution, systems, upper_solution
from .linalg import SYSTEMS, add_matrix, copy_matrix, well_conditioned
from .status import DONE, FACTOR
from .table import array_op


def substitute(v, a, sa0, sa1, n, lower, unit, b):
    """Solve the triangular system ``A x = b`` in place: one column, any strides of A.

    Three times as fast as LAPACK's trsm, which blocks for many columns.
    """
    for step in range(n):
        i = step if lower else n - 1 - step
        first = 0 if lower else i + 1
        last = i if lower else n
        if sa0 == 1:  # Columns of A are contiguous, so the new unknown is eliminated from the rest.
            x = v[b + i]
            if not unit:
                x /= v[a + i * (1 + sa1)]
            v[b + i] = x
            column = a + i * sa1
            rest = i + 1 if lower else 0
            for j in parallel(rest, rest + n - 1 - step):
                v[b + j] -= x * v[column + j]
        else:
            row = a + i * sa0
            total = 0.0
            if sa1 == 1:
                total = lane_dot(v, row + first, v, b + first, last - first)
            else:
                for j in range(first, last):
                    total += v[row + j * sa1] * v[b + j]
            x = v[b + i] - total
            if not unit:
                x /= v[row + i * sa1]
            v[b + i] = x


def solve_triangle(v, a, sa0, sa1, n, s, lower, unit, b, k) -> int:
    """Solve the triangular system ``A X = B`` in place; B is contiguous, s has room for A."""
    if k == 1:
        substitute(v, a, sa0, sa1, n, lower, unit, b)
    elif n > 0 and k > 0:
        matrix = a
        stride = sa0
        transposed = 0
        if sa0 == 1 and sa1 >= n:
            stride = sa1
            transposed = 1
        elif sa1 != 1 or sa0 < n:
            copy_matrix(v, s, v, a, sa0, sa1, n, n)
            matrix = s
            stride = n
        stored_lower = 1 - lower if transposed else lower
        trsm(v, matrix, stride, stored_lower, transposed, unit, v, b, k, n, k)
    return DONE


def triangle_forward(v, o, a, b, n, k, sa0, sa1, sb0, sb1, s, upper, unit) -> int:
    if not unit:
        for i in range(n):
            if v[a + i * (sa0 + sa1)] == 0.0:
                return FACTOR
    copy_matrix(v, o, v, b, sb0, sb1, n, k)
    solve_triangle(v, a, sa0, sa1, n, s, 1 - upper, unit, o, k)
    return DONE


def triangle_reverse(
    v, g, o, a, b, n, k, so0, so1, sa0, sa1, sb0, sb1, s, need_a, need_b, upper, unit
) -> int:
    """``Bbar += T``, ``Abar -= T X^T`` on A's triangle, with ``T = A^-T Xbar``."""
    t = s + n * n
    lower = 1 - upper
    copy_matrix(v, t, g, o, so0, so1, n, k)
    solve_triangle(v, a, sa1, sa0, n, s, 1 - lower, unit, t, k)
    if need_b:
        add_matrix(g, b, sb0, sb1, v, t, n, k, 1.0)
    if need_a:
        if k > 1:
            gemm(v, s, n, 1, v, t, so0, so1, v, o, so1, so0, n, n, k, 1.0, 0.0)
        for i in range(n):
            first = 0 if lower else i + unit
            last = i + 1 - unit if lower else n
            row = a + i * sa0
            if k == 1:
                x = v[t + i]
                for j in parallel(first, last):
                    g[row + j * sa1] -= x * v[o + j]
            elif k > 1:
                for j in parallel(first, last):
                    g[row + j * sa1] -= v[s + i * n + j]
    return DONE


def by_scipy(lower: bool, unit: bool):
    """Return a function that solves triangular systems by SciPy."""

    def solve(a, b):
        import scipy.linalg

        if not (a.size and b.size):
            return np.zeros(b.shape)
        return scipy.linalg.solve_triangular(a, b, lower=lower, unit_diagonal=unit)

    return solve


def triangle_pullback(lower: bool, unit: bool):
    """Return the pullback of a triangular system."""
    other = f"solve_{'upper' if lower else 'lower'}{'_unit' if unit else ''}"

    def pullback(e, ct, z, operands, need):
        t = e.op(other, e.transposed(operands[0]), ct)
        if not need[0]:
            return None, t
        product = e.matmul(t, e.transposed(z))
        return -(e.tril(product, -unit) if lower else e.triu(product, int(unit))), t

    return pullback


def triangle_op(name):
    return array_op(
        name,
        "(n,n),(n,k)->(n,k)",
        scratch="n*n+n*k",
        cases=SYSTEMS,
        make=well_conditioned,
        fallible=True,
    )


@triangle_op("solve_lower")
class SolveLower:
    """``X = A^-1 B`` with A's lower triangle; only this triangle is read and gets an adjoint."""

    depends, interacts = lower_solution, systems
    oracle = by_scipy(lower=True, unit=False)

    pullback = triangle_pullback(lower=True, unit=False)

    def forward(v, o, a, b, n, k, sa0, sa1, sb0, sb1, s):
        return triangle_forward(v, o, a, b, n, k, sa0, sa1, sb0, sb1, s, 0, 0)

    def reverse(v, g, o, a, b, n, k, so0, so1, sa0, sa1, sb0, sb1, s, need_a, need_b):
        triangle_reverse(v, g, o, a, b, n, k, so0, so1, sa0, sa1, sb0, sb1, s, need_a, need_b, 0, 0)


@triangle_op("solve_upper")
class SolveUpper:
    """``X = A^-1 B`` with A's upper triangle."""

    depends, interacts = upper_solution, systems
    oracle = by_scipy(lower=False, unit=False)

    pullback = triangle_pullback(lower=False, unit=False)

    def forward(v, o, a, b, n, k, sa0, sa1, sb0, sb1, s):
        return triangle_forward(v, o, a, b, n, k, sa0, sa1, sb0, sb1, s, 1, 0)

    def reverse(v, g, o, a, b, n, k, so0, so1, sa0, sa1, sb0, sb1, s, need_a, need_b):
        triangle_reverse(v, g, o, a, b, n, k, so0, so1, sa0, sa1, sb0, sb1, s, need_a, need_b, 1, 0)


@triangle_op("solve_lower_unit")
class SolveLowerUnit:
    """`solve_lower` with A's diagonal taken as ones."""

    depends, interacts = lower_solution, systems
    oracle = by_scipy(lower=True, unit=True)
    pullback = triangle_pullback(lower=True, unit=True)

    def forward(v, o, a, b, n, k, sa0, sa1, sb0, sb1, s):
        return triangle_forward(v, o, a, b, n, k, sa0, sa1, sb0, sb1, s, 0, 1)

    def reverse(v, g, o, a, b, n, k, so0, so1, sa0, sa1, sb0, sb1, s, need_a, need_b):
        triangle_reverse(v, g, o, a, b, n, k, so0, so1, sa0, sa1, sb0, sb1, s, need_a, need_b, 0, 1)


@triangle_op("solve_upper_unit")
class SolveUpperUnit:
    """`solve_upper` with A's diagonal taken as ones."""

    depends, interacts = upper_solution, systems
    oracle = by_scipy(lower=False, unit=True)
    pullback = triangle_pullback(lower=False, unit=True)

    def forward(v, o, a, b, n, k, sa0, sa1, sb0, sb1, s):
        return triangle_forward(v, o, a, b, n, k, sa0, sa1, sb0, sb1, s, 1, 1)

    def reverse(v, g, o, a, b, n, k, so0, so1, sa0, sa1, sb0, sb1, s, need_a, need_b):
        triangle_reverse(v, g, o, a, b, n, k, so0, so1, sa0, sa1, sb0, sb1, s, need_a, need_b, 1, 1)
