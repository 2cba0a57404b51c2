"""Sums, products and logarithms of sums of exponentials along one core axis."""

import math

import numpy as np

from ..jit.language import bits_of, float_of, lane_sum, parallel, simd
from .dependencies import dense, everything
from .elementary import fast_exp, fast_log1p
from .status import DONE
from .table import array_op

LENGTHS = (((0,),), ((1,),), ((2,),), ((7,),))
NONEMPTY = LENGTHS[1:]
ROWS, SHORT = 64, 16  # rows that logsumexp takes at once; entries of those of which it takes fewer than eight
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
    if n < 4:  # choosing among ways to add would take longer
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
    thorough=True,
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


@array_op("prod", "(n)->()", np.prod, scratch="n", cases=LENGTHS, integers="product")
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


def one_if(e):
    """One for one, zero for all else."""
    return 1.0 if e == 1.0 else 0.0


def add_exponentials(v, s, n):
    """Keep the sum of exponentials behind them, then how many are one, and the sum of the others by that.

    The largest ones are counted, not summed, so that log1p keeps the digits of a small rest.
    """
    ties = 0.0
    rest = 0.0
    rest_q = 0.0
    rest_r = 0.0
    rest_t = 0.0
    whole = n - n % 4
    for i in range(0, whole, 4):
        p = v[s + i]
        q = v[s + i + 1]
        r = v[s + i + 2]
        t = v[s + i + 3]
        ties += one_if(p) + one_if(q) + (one_if(r) + one_if(t))
        rest += p - one_if(p)
        rest_q += q - one_if(q)
        rest_r += r - one_if(r)
        rest_t += t - one_if(t)
    for i in range(whole, n):
        p = v[s + i]
        ties += one_if(p)
        rest += p - one_if(p)
    rest = (rest + rest_q) + (rest_r + rest_t)
    v[s + n] = ties + rest if ties > 0.0 else 1.0
    v[s + n + 1] = ties
    v[s + n + 2] = rest / ties if ties > 0.0 else 0.0


def count_infinite(v, a, n, sa0, s, largest):
    """Write what infinite entries count instead of exponentials: those that are largest share the adjoint."""
    for i in range(n):
        e = 0.0
        if largest != largest:
            e = largest
        elif v[a + i * sa0] == math.inf:
            e = 1.0
        v[s + i] = e


def total_of(v, s, n, largest):
    """Return the logarithm of the sum of exponentials; the last word that is kept has become its log1p."""
    ties = v[s + n + 1]
    if ties > 0.0:
        return v[s + n + 2] + (math.log(ties) if ties > 1.0 else 0.0) + largest
    return largest


def exponential(x, largest):
    """Return what is kept of an entry, see `count_infinite`."""
    of_infinite = largest if largest != largest else one_if_infinite(x)
    return fast_exp(x - largest) if largest - largest == 0.0 else of_infinite


def one_if_infinite(x):
    return 1.0 if x == math.inf else 0.0


def unless_one(e):
    """Zero for one, and all else as it is."""
    return 0.0 if e == 1.0 else e


def logarithm_of(ties, rest, largest):
    """Return what `total_of` does."""
    return rest + (math.log(ties) if ties > 1.0 else 0.0) + largest if ties > 0.0 else largest


def rows_beside(v, o, a, n, sa0, s, rows, step_o, step_a):
    """Do what ``forward`` does for some rows at once, with the same bits.

    SIMD lanes are rows, so what is kept of a row lies ``rows`` cells apart.
    """
    total = s + n * rows
    number = total + rows
    share = number + rows
    for row in simd(rows):
        largest = -math.inf
        for i in range(n):
            largest = larger(v[a + i * sa0 + row * step_a], largest)
        v[o + row * step_o] = largest
    for i in range(n):
        for row in simd(rows):
            v[s + i * rows + row] = exponential(v[a + i * sa0 + row * step_a], v[o + row * step_o])
    for row in simd(rows):
        ties = 0.0
        p = 0.0
        q = 0.0
        r = 0.0
        t = 0.0
        for k in range(n // 4):
            first = v[s + 4 * k * rows + row]
            second = v[s + (4 * k + 1) * rows + row]
            third = v[s + (4 * k + 2) * rows + row]
            fourth = v[s + (4 * k + 3) * rows + row]
            ties += one_if(first) + one_if(second) + (one_if(third) + one_if(fourth))
            p += unless_one(first)
            q += unless_one(second)
            r += unless_one(third)
            t += unless_one(fourth)
        for i in range(n - n % 4, n):
            e = v[s + i * rows + row]
            ties += one_if(e)
            p += unless_one(e)
        rest = (p + q) + (r + t)
        v[total + row] = ties + rest if ties > 0.0 else 1.0
        v[number + row] = ties
        v[share + row] = rest / ties if ties > 0.0 else 0.0
    for row in simd(rows):
        v[share + row] = fast_log1p(v[share + row])
        v[o + row * step_o] = logarithm_of(v[number + row], v[share + row], v[o + row * step_o])


def one_row(v, o, a, n, sa0, s):
    """Do it for one row, whose entries are SIMD lanes."""
    largest = largest_of(v, a, n, sa0, 1.0)
    for i in simd(n):
        v[s + i] = fast_exp(v[a + i * sa0] - largest)
    if largest - largest != 0.0:
        count_infinite(v, a, n, sa0, s, largest)
    add_exponentials(v, s, n)
    v[s + n + 2] = fast_log1p(v[s + n + 2])
    v[o] = total_of(v, s, n, largest)


def add_adjoint_of_row(v, g, o, a, n, sa0, s):
    """Add the adjoints of its entries."""
    scale = g[o] / v[s + n]
    for i in parallel(n):
        g[a + i * sa0] += scale * v[s + i]


def rows_at_once(n, turns):
    """How many rows are SIMD lanes: of rows that are not short, those that fill vectors of eight."""
    return turns if n < SHORT else turns - turns % 8


@array_op(
    "logsumexp",
    "(n)->()",
    scratch="n+3",
    beside="turns >= 4 and n < 16 or turns >= 8 and (n < 56 or sa0 != 1)",
    rows_at_once=SHORT,
    cases=LENGTHS,
)
class Logsumexp:
    """``log(sum(exp(x)))``; ``dx = exp(x)/sum(exp(x))``.

    The shifted exponentials and their sum are kept: ``exp(x - z)`` would cost the reverse sweep
    another exp, and lose digits where |z| is large. Infinite maxima share the adjoint like ties.
    SIMD lanes are entries, or rows if these are short.
    """

    depends, interacts = dense, everything

    def oracle(x):
        import scipy.special

        return scipy.special.logsumexp(x) if x.size else -np.inf

    def forward(v, o, a, n, sa0, s):
        one_row(v, o, a, n, sa0, s)
        return DONE

    def forward_across(v, o, a, n, sa0, s, cells, turns, step_o, step_a):
        whole = rows_at_once(n, turns)
        for first in range(0, whole, ROWS):
            rows = min(ROWS, whole - first)
            rows_beside(
                v, o + first * step_o, a + first * step_a, n, sa0, s + first * cells, rows, step_o, step_a
            )
        for turn in range(whole, turns):
            one_row(v, o + turn * step_o, a + turn * step_a, n, sa0, s + turn * cells)
        return DONE

    def reverse_across(v, g, o, a, n, sa0, s, cells, turns, step_o, step_a):
        whole = rows_at_once(n, turns)
        for first in range(0, whole, ROWS):
            rows = min(ROWS, whole - first)
            for turn in range(rows):
                kept = s + first * cells + turn
                row = a + (first + turn) * step_a
                scale = g[o + (first + turn) * step_o] / v[kept + n * rows]
                for i in range(n):
                    g[row + i * sa0] += scale * v[kept + i * rows]
        for turn in range(whole, turns):
            add_adjoint_of_row(v, g, o + turn * step_o, a + turn * step_a, n, sa0, s + turn * cells)

    def reverse(v, g, o, a, n, sa0, s):
        add_adjoint_of_row(v, g, o, a, n, sa0, s)

    def pullback(e, ct, z, operands, need):
        (x,) = operands
        if e.is_empty(x):
            return (None,)
        largest = e.still(e.max(x))
        # Infinite maxima share the adjoint as equal ones do; if all entries are -inf, none gets an adjoint.
        terms = e.row("exp", e.where(largest == -math.inf, x, e.row("gap", x, largest)))
        total = e.sum(terms)
        return (e.last(ct / e.where(total == 0.0, 1.0, total)) * terms,)
