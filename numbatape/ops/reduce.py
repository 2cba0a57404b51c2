"""Sums and products along one core axis, and the largest entry of one."""

import math

import numpy as np

from ..jit.language import bits_of, float_of, lane_sum, parallel
from .dependencies import dense, everything
from .status import DONE
from .table import array_op

LENGTHS = (((0,),), ((1,),), ((2,),), ((7,),))
NONEMPTY = LENGTHS[1:]
BLOCK = 256  # cells summed naively; block totals are summed with compensation


def block_sum(v, a, n, sa0):
    if sa0 == 1:
        return lane_sum(v, a, n)
    total = 0.0
    for i in range(n):
        total += v[a + i * sa0]
    return total


def rounding_error(x, y, z):
    """Return what ``x + y`` lost when it was rounded to ``z`` (Knuth's two-sum)."""
    back = z - x
    return (x - (z - back)) + (y - back)


def compensated(total, lost):
    """Return a total with what its additions lost, which is NaN if an entry is infinite."""
    if lost - lost == 0.0:
        total += lost
    return total


def sum_cells(v, a, n, sa0):
    """Sum blocks, and their totals with compensation."""
    if n < 4:  # Choosing among ways to add would take longer.
        total = 0.0
        for i in range(n):
            total += v[a + i * sa0]
        return total
    total = block_sum(v, a, min(n, BLOCK), sa0)
    lost = 0.0
    first = BLOCK
    while first < n:
        part = block_sum(v, a + first * sa0, min(BLOCK, n - first), sa0)
        new = total + part
        lost += rounding_error(total, part, new)
        total = new
        first += BLOCK
    return compensated(total, lost)


@array_op(
    "sum",
    "(n)->()",
    np.sum,
    linear=True,
    cases=LENGTHS,
    beside=f"step_o == 1 and step_a == 1 and sa0 != 1 and turns >= 4 and n <= {4 * BLOCK}",
    totals=True,
    takes_numbers=True,
    reads_narrow=True,
    adds_parts=block_sum,
    two_tiers="forward",
    integers="sum",
)
class Sum:
    """Blocks in SIMD lanes, their totals with Knuth's two-sum: no less accurate than pairwise summation.

    Sums over an axis that is not the last one in memory go row by row, four at a time, because summing a
    column alone reads a cache line per cell (200 rows of 10: 0.7 ns per cell, 0.25 row by row).
    """

    depends = dense

    def forward(v, o, a, n, sa0):
        v[o] = sum_cells(v, a, n, sa0)
        return DONE

    def reverse(g, o, a, n, sa0):
        gz = g[o]
        for i in parallel(n):
            g[a + i * sa0] += gz

    def forward_across(v, o, a, n, sa0, turns):
        for j in parallel(turns):
            v[o + j] = 0.0
        whole = n - n % 4
        for i in range(0, whole, 4):
            first = a + i * sa0
            for j in parallel(turns):
                p = v[first + j] + v[first + sa0 + j]
                q = v[first + 2 * sa0 + j] + v[first + 3 * sa0 + j]
                v[o + j] += p + q
        for i in range(whole, n):
            for j in parallel(turns):
                v[o + j] += v[a + i * sa0 + j]
        return DONE

    def reverse_across(g, o, a, n, sa0, turns):
        for i in range(n):
            first = a + i * sa0
            for j in parallel(turns):
                g[first + j] += g[o + j]

    def pullback(e, ct, z, operands, need):
        return (e.last(ct),)


@array_op(
    "prod",
    "(n)->()",
    np.prod,
    scratch="n",
    keeps=True,
    cases=LENGTHS,
    integers="product",
    two_tiers="forward",
)
class Prod:
    """Products of all entries before (kept) and behind an entry: exact with zeros, without division."""

    depends, interacts = dense, everything

    def forward(v, o, a, n, sa0, s):
        total = 1.0
        for i in range(n):
            v[s + i] = total
            total *= v[a + i * sa0]
        v[o] = total
        return DONE

    def reverse(v, g, o, a, n, sa0, s):
        behind = g[o]
        if behind == 0.0:
            return
        for step in range(n):
            i = n - 1 - step
            x = v[a + i * sa0]
            g[a + i * sa0] += v[s + i] * behind
            behind *= x

    def pullback(e, ct, z, operands, need):
        """The products of what stands before and behind: exact with zeros."""
        (x,) = operands
        if e.is_empty(x):
            return (None,)
        before = e.join(1.0, e.head(e.op("cumprod", x)))
        behind = e.flip(e.join(1.0, e.head(e.op("cumprod", e.flip(x)))))
        return (e.times(e.last(ct), before * behind),)


def larger(x, y):
    """The larger of two numbers, and NaN if one is."""
    return x if x > y or x != x else y


def reordered(bits):
    """Turn the bits of a number into an integer that is larger for larger numbers, and back."""
    return bits ^ ((bits >> 63) & 0x7FFFFFFFFFFFFFFF)


def largest_of(v, a, n, sa0, sign):
    """The largest of n entries times ``sign`` (one or minus one), NaN if one of them is.

    Comparisons wait for one another, so there are four at a time. In SIMD lanes it would depend on their
    order which of two zeros, and which NaN, is found; integers have no such doubles.
    """
    if sa0 == 1 and n >= 32:
        most = reordered(bits_of(-math.inf))
        unknown = 0
        for i in parallel(n):
            x = sign * v[a + i]
            most = max(most, reordered(bits_of(x)))
            unknown += 1 if x != x else 0
        return float_of(reordered(most)) if unknown == 0 else math.nan
    p = -math.inf
    if n < 8:
        for i in range(n):
            p = larger(sign * v[a + i * sa0], p)
        return p
    q = -math.inf
    r = -math.inf
    t = -math.inf
    whole = n - n % 4
    for i in range(0, whole, 4):
        first = a + i * sa0
        p = larger(sign * v[first], p)
        q = larger(sign * v[first + sa0], q)
        r = larger(sign * v[first + 2 * sa0], r)
        t = larger(sign * v[first + 3 * sa0], t)
    for i in range(whole, n):
        p = larger(sign * v[a + i * sa0], p)
    return larger(larger(t, r), larger(q, p))
