"""Dot products and norms of vectors, and sums of outer products."""

import math

import numpy as np

from ..jit.language import lane_dot, lane_gaps, parallel
from .dependencies import dense, everything, pairs
from .reduce import BLOCK, LENGTHS, compensated, rounding_error, sum_cells
from .status import DONE
from .table import array_op

SHORT = 12  # entries of vectors that are gone through once, not once for each adjoint in SIMD lanes
PAIRS = (((0,), (0,)), ((1,), (1,)), ((7,), (7,)))


def block_dot(v, a, b, n, sa0, sb0):
    if sa0 == 1 and sb0 == 1:
        return lane_dot(v, a, v, b, n)
    total = 0.0
    for i in range(n):
        total += v[a + i * sa0] * v[b + i * sb0]
    return total


def dot_cells(v, a, b, n, sa0, sb0):
    total = block_dot(v, a, b, min(n, BLOCK), sa0, sb0)
    lost = 0.0
    first = BLOCK
    while first < n:
        part = block_dot(v, a + first * sa0, b + first * sb0, min(BLOCK, n - first), sa0, sb0)
        new = total + part
        lost += rounding_error(total, part, new)
        total = new
        first += BLOCK
    return compensated(total, lost)


@array_op(
    "dot",
    "(n),(n)->()",
    np.vecdot,
    bilinear=True,
    cases=PAIRS,
    reads_narrow=True,
    adds_parts=block_dot,
    of_gaps="distance2",
    takes_numbers=True,
    two_tiers="forward",
    integers="sum",
)
class Dot:
    """``sum(x*y)``, fused: as accurate as a sum, and a zero cotangent adds nothing."""

    depends = dense

    def interacts(sets, operands):
        return [pairs(*operands)]

    def forward(v, o, a, b, n, sa0, sb0):
        # Points in the plane or in space have few entries, and choosing among ways to add would take longer.
        if n < 4:
            total = 0.0
            for i in range(n):
                total += v[a + i * sa0] * v[b + i * sb0]
            v[o] = total
        else:
            v[o] = dot_cells(v, a, b, n, sa0, sb0)
        return DONE

    def reverse(v, g, o, a, b, n, sa0, sb0, need_a, need_b):
        gz = g[o]
        if gz == 0.0:
            return
        if a == b and sa0 == 1 and sb0 == 1 and need_a and need_b:  # This is a sum of squares.
            for i in parallel(n):
                g[a + i] += 2.0 * gz * v[a + i]
            return
        if need_a:
            for i in parallel(n):
                g[a + i * sa0] += gz * v[b + i * sb0]
        if need_b:
            for i in parallel(n):
                g[b + i * sb0] += gz * v[a + i * sa0]

    def pullback(e, ct, z, operands, need):
        a, b = operands
        if a.number == b.number:  # This is a sum of squares, and doubling is exact.
            return e.times(e.last(2.0 * ct), a), None
        return e.times(e.last(ct), b) if need[0] else None, e.times(e.last(ct), a) if need[1] else None


def add_gaps(v, a, b, n, sa0, sb0):
    """Return the sum of squared differences, which has the bits of the `dot` of the differences."""
    if n < 4 or sa0 != 1 or sb0 != 1:
        total = 0.0
        for i in range(n):
            gap = v[a + i * sa0] - v[b + i * sb0]
            total += gap * gap
        return total
    total = lane_gaps(v, a, v, b, min(n, BLOCK))
    lost = 0.0
    first = BLOCK
    while first < n:
        part = lane_gaps(v, a + first, v, b + first, min(BLOCK, n - first))
        new = total + part
        lost += rounding_error(total, part, new)
        total = new
        first += BLOCK
    return compensated(total, lost)


def add_scaled_gaps(v, g, target, scale, a, b, n, st0, sa0, sb0):
    """Add the differences of two vectors, times a number, to the adjoint of one of them."""
    for i in parallel(n):
        g[target + i * st0] += scale * (v[a + i * sa0] - v[b + i * sb0])


@array_op("distance2", "(n),(n)->()", cases=PAIRS, beside="turns >= 4 and (n == 2 or n == 3)")
class SquaredDistance:
    """``sum((x - y)**2)`` without an array of the differences, which for all pairs of points is large."""

    depends = dense

    def interacts(sets, operands):
        """Cells of one place interact with one another."""
        return [pairs(x, y) for x in operands for y in operands]

    def oracle(x, y):
        return np.sum((x - y) ** 2)

    def forward(v, o, a, b, n, sa0, sb0):
        v[o] = add_gaps(v, a, b, n, sa0, sb0)
        return DONE

    def reverse(v, g, o, a, b, n, sa0, sb0, need_a, need_b):
        scale = 2.0 * g[o]
        if scale == 0.0:
            return
        if n < SHORT:
            for i in range(n):
                term = scale * (v[a + i * sa0] - v[b + i * sb0])
                if need_a:
                    g[a + i * sa0] += term
                if need_b:
                    g[b + i * sb0] -= term
            return
        if need_a:
            add_scaled_gaps(v, g, a, scale, a, b, n, sa0, sa0, sb0)
        if need_b:
            add_scaled_gaps(v, g, b, scale, b, a, n, sb0, sb0, sa0)

    def forward_across(v, o, a, b, n, sa0, sb0, turns, step_o, step_a, step_b):
        """Do it for points in the plane or in space, without a loop over two or three entries."""
        third = 2 if n == 3 else 0
        for turn in range(turns):
            x = a + turn * step_a
            y = b + turn * step_b
            p = v[x] - v[y]
            q = v[x + sa0] - v[y + sb0]
            r = v[x + third * sa0] - v[y + third * sb0] if n == 3 else 0.0
            v[o + turn * step_o] = p * p + q * q + r * r
        return DONE

    def reverse_across(v, g, o, a, b, n, sa0, sb0, need_a, need_b, turns, step_o, step_a, step_b):
        for turn in range(turns):
            scale = 2.0 * g[o + turn * step_o]
            x = a + turn * step_a
            y = b + turn * step_b
            if scale != 0.0:
                p = scale * (v[x] - v[y])
                q = scale * (v[x + sa0] - v[y + sb0])
                r = scale * (v[x + 2 * sa0] - v[y + 2 * sb0]) if n == 3 else 0.0
                if need_a:
                    g[x] += p
                    g[x + sa0] += q
                    if n == 3:
                        g[x + 2 * sa0] += r
                if need_b:
                    g[y] -= p
                    g[y + sb0] -= q
                    if n == 3:
                        g[y + 2 * sb0] -= r

    def pullback(e, ct, z, operands, need):
        x, y = operands
        of_x = e.times(e.last(2.0 * ct), x - y)
        return of_x if need[0] else None, -of_x if need[1] else None


def sum_rows(v, a, m, n, sa0, sa1):
    total = 0.0
    for i in range(m):
        total += sum_cells(v, a + i * sa0, n, sa1)
    return total


def sum_squares(v, a, m, n, sa0, sa1):
    total = 0.0
    for i in range(m):
        total += block_dot(v, a + i * sa0, a + i * sa0, n, sa1, sa1)
    return total


def add_scaled_sum(v, g, scale, a, m, n, sa0, sa1, b, h, k, sb0, sb1):
    """Add ``scale`` times the sum of b's entries to each adjoint of a's."""
    total = scale * sum_rows(v, b, h, k, sb0, sb1)
    if total - total != 0.0:
        total = 0.0
        for i in range(h):
            for j in range(k):
                total += scale * v[b + i * sb0 + j * sb1]
    for i in range(m):
        for j in parallel(n):
            g[a + i * sa0 + j * sa1] += total


def add_up_products(v, a, b, m, n, h, k, sa0, sa1, sb0, sb1):
    total = 0.0
    for i in range(m):
        for j in range(n):
            x = v[a + i * sa0 + j * sa1]
            for r in range(h):
                for t in range(k):
                    total += x * v[b + r * sb0 + t * sb1]
    return total


@array_op(
    "outer_sum",
    "(m,n),(h,k)->()",
    bilinear=True,
    cases=(((0, 2), (1, 3)), ((1, 1), (1, 1)), ((1, 300), (3, 2)), ((2, 3), (4, 5))),
    integers="sum",
)
class OuterSum:
    """The sum of all products of an entry of ``x`` and one of ``y``, which is the product of their sums.

    That is not so where a product or a sum is infinite or NaN: there, all products are added up.
    """

    depends = dense

    def interacts(sets, operands):
        x, y = operands
        return [] if x is None or y is None else [pairs(sets.whole(x), sets.whole(y))]

    def oracle(x, y):
        return np.sum(np.multiply.outer(x, y))

    def forward(v, o, a, b, m, n, h, k, sa0, sa1, sb0, sb1):
        bound = sum_squares(v, a, m, n, sa0, sa1) * sum_squares(v, b, h, k, sb0, sb1)
        if bound - bound == 0.0:
            v[o] = sum_rows(v, a, m, n, sa0, sa1) * sum_rows(v, b, h, k, sb0, sb1)
        else:
            v[o] = add_up_products(v, a, b, m, n, h, k, sa0, sa1, sb0, sb1)
        return DONE

    def reverse(v, g, o, a, b, m, n, h, k, sa0, sa1, sb0, sb1, need_a, need_b):
        gz = g[o]
        if gz == 0.0:
            return
        if need_a:
            add_scaled_sum(v, g, gz, a, m, n, sa0, sa1, b, h, k, sb0, sb1)
        if need_b:
            add_scaled_sum(v, g, gz, b, h, k, sb0, sb1, a, m, n, sa0, sa1)

    def pullback(e, ct, z, operands, need):
        def scaled(x):
            return e.last(e.last(e.times(ct, e.sum(x, (-2, -1)))))

        a, b = operands
        return scaled(b) if need[0] else None, scaled(a) if need[1] else None


def block_squares(v, a, n, sa0):
    return block_dot(v, a, a, n, sa0, sa0)


@array_op(
    "norm2",
    "(n)->()",
    np.linalg.norm,
    cases=LENGTHS,
    light=True,
    adds_parts=block_squares,
    rooted=True,
    two_tiers="forward",
)
class Norm2:
    """Euclidean norm; ``dx = x/z``, and 0 at 0."""

    depends, interacts = dense, everything

    def forward(v, o, a, n, sa0):
        v[o] = math.sqrt(dot_cells(v, a, a, n, sa0, sa0))
        return DONE

    def reverse(v, g, o, a, n, sa0):
        if v[o] != 0.0 and g[o] != 0.0:
            scale = g[o] / v[o]
            for i in parallel(n):
                g[a + i * sa0] += scale * v[a + i * sa0]

    def pullback(e, ct, z, operands, need):
        at_zero = z == 0.0
        inverse = e.where(at_zero, 0.0, 1.0 / e.where(at_zero, 1.0, z))
        return (e.times(e.last(e.times(ct, inverse)), operands[0]),)
