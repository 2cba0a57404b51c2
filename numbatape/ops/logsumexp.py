"""Logarithms of sums of exponentials along one core axis."""

import math

import numpy as np

from ..jit.language import parallel, simd
from .dependencies import dense, everything
from .elementary import fast_exp, fast_log1p
from .reduce import LENGTHS, larger, largest_of
from .status import DONE
from .table import array_op

ROWS, SHORT = 64, 16  # rows that logsumexp takes at once; entries of those of which it takes fewer than eight


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
    keeps=True,
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
