"""Extrema, positions, sorting, tests and counts: array ops along one core axis."""

import math

import numpy as np

from ..jit.language import bits_of, parallel
from .dependencies import dense, nothing
from .reduce import LENGTHS, NONEMPTY
from .status import DONE
from .table import array_op


def merge_sort(v, a, sa0, n, p, q):
    """Write to p the positions 0..n-1 in stable order of ``v[a + position*sa0]``, NaN last.

    Takes n cells at q to work in.
    """
    for i in range(n):
        v[p + i] = float(i)
    source = p
    target = q
    width = 1
    while width < n:
        first = 0
        while first < n:
            left = first
            middle = min(first + width, n)
            right = middle
            last = min(first + 2 * width, n)
            i = first
            x = v[a + int(v[source + left]) * sa0]
            y = v[a + int(v[source + min(right, n - 1)]) * sa0]
            while left < middle and right < last:
                if y < x or (x != x and y == y):
                    v[target + i] = v[source + right]
                    right += 1
                    y = v[a + int(v[source + min(right, n - 1)]) * sa0]
                else:
                    v[target + i] = v[source + left]
                    left += 1
                    x = v[a + int(v[source + min(left, n - 1)]) * sa0]
                i += 1
            for k in parallel(middle - left):
                v[target + i + k] = v[source + left + k]
            i += middle - left
            for k in parallel(last - right):
                v[target + i + k] = v[source + right + k]
            first = last
        swap = source
        source = target
        target = swap
        width *= 2
    if source != p:
        for i in parallel(n):
            v[p + i] = v[q + i]


MANY = 4096  # entries from which on sorting by digits is faster
DIGITS = 2048
SIGN = -(2**63)


def digit(x, shift):
    """Eleven bits of a whole number that is ordered as the numbers are; zeros are one number."""
    bits = bits_of(x + 0.0)
    return ((bits ^ (-1 if bits < 0 else SIGN)) >> shift) & (DIGITS - 1 if shift < 55 else 511)


def digit_sort(v, a, sa0, n, p, q, k, m, c):
    """`merge_sort` of many numbers: by eleven bits after the other, in a time that grows with n.

    The numbers move with their positions, and are in order at k. Takes n cells each at q and m to work in,
    and 2048 at c.
    """
    count = 0
    last = -math.inf
    steps = 0
    for i in range(n):
        x = v[a + i * sa0]
        if x == x:
            v[k + count] = x
            v[p + count] = float(i)
            count += 1
            steps += 1 if x < last else 0
            last = x
    rest = count
    for i in range(n):
        x = v[a + i * sa0]
        if x != x:
            v[k + rest] = x
            v[p + rest] = float(i)
            rest += 1
    moved = 0
    for turn in range(6 if steps > 0 else 0):
        shift = 11 * turn
        for i in parallel(DIGITS):
            v[c + i] = 0.0
        for i in range(count):
            v[c + digit(v[k + i], shift)] += 1.0
        if count > 0 and v[c + digit(v[k], shift)] < float(count):
            total = 0.0
            for i in range(DIGITS):
                x = v[c + i]
                v[c + i] = total
                total += x
            for i in range(count):
                x = v[k + i]
                place = c + digit(x, shift)
                at = v[place]
                v[place] = at + 1.0
                v[m + int(at)] = x
                v[q + int(at)] = v[p + i]
            swap = p
            p = q
            q = swap
            swap = k
            k = m
            m = swap
            moved = 1 - moved
    if moved != 0:
        for i in parallel(count):
            v[q + i] = v[p + i]
            v[m + i] = v[k + i]


@array_op("argmax", "(n)->()", np.argmax, cases=NONEMPTY, nonempty=True, integers="position")
class Argmax:
    """Position of the first NaN, or else of the first maximum."""

    def forward(v, o, a, n, sa0):
        best = -math.inf
        where = 0
        for i in range(n):
            x = v[a + i * sa0]
            if x > best or (x != x and best == best):
                best = x
                where = i
        v[o] = float(where)
        return DONE


@array_op("argmin", "(n)->()", np.argmin, cases=NONEMPTY, nonempty=True, integers="position")
class Argmin:
    """Position of the first NaN, or else of the first minimum."""

    def forward(v, o, a, n, sa0):
        best = math.inf
        where = 0
        for i in range(n):
            x = v[a + i * sa0]
            if x < best or (x != x and best == best):
                best = x
                where = i
        v[o] = float(where)
        return DONE


@array_op(
    "sort", "(n)->(n)", np.sort, scratch="4*n", cases=LENGTHS, moves=True, thorough=True, integers="within"
)
class Sort:
    """Ascending, NaN last; the permutation is kept, and maps the adjoints back."""

    depends, interacts = dense, nothing

    def forward(v, o, a, n, sa0, s):
        if n >= MANY:
            digit_sort(v, a, sa0, n, s, s + n, o, s + 2 * n, s + 3 * n)
            return DONE
        merge_sort(v, a, sa0, n, s, s + n)
        for i in range(n):
            v[o + i] = v[a + int(v[s + i]) * sa0]
        return DONE

    def reverse(v, g, o, a, n, sa0, s):
        for i in range(n):
            g[a + int(v[s + i]) * sa0] += g[o + i]

    def pullback(e, ct, z, operands, need):
        inverse = e.op("argsort", e.op("argsort", operands[0]))
        return (e.op("take1", ct, inverse),)


@array_op("argsort", "(n)->(n)", np.argsort, scratch="4*n", cases=LENGTHS, integers="position")
class Argsort:
    """Positions in stable ascending order, NaN last."""

    def oracle(x):
        return np.argsort(x, kind="stable")

    def forward(v, o, a, n, sa0, s):
        if n >= MANY:
            digit_sort(v, a, sa0, n, o, s, s + n, s + 2 * n, s + 3 * n)
            return DONE
        merge_sort(v, a, sa0, n, o, s)
        return DONE


@array_op("agree", "(n),()->()", agrees=True)
class Agree:
    """The second operand if every entry equals it, else the first entry that does not."""

    def oracle(x, y):
        return next((entry for entry in x if entry != y), y)

    def forward(v, o, a, b, n, sa0):
        seen = v[b]
        for i in range(n):
            x = v[a + i * sa0]
            if x != v[b]:  # NaN differs from everything, so it is found
                seen = x
                break
        v[o] = seen
        return DONE


@array_op("any_nonzero", "(n)->()", np.any, cases=LENGTHS)
class AnyNonzero:
    """Whether an entry is not zero; NaN counts as one."""

    def forward(v, o, a, n, sa0):
        found = 0
        for i in parallel(n):
            found += 1 if v[a + i * sa0] != 0.0 else 0
        v[o] = 1.0 if found > 0 else 0.0
        return DONE


@array_op("all_nonzero", "(n)->()", np.all, cases=LENGTHS)
class AllNonzero:
    """Whether no entry is zero; NaN counts as none."""

    def forward(v, o, a, n, sa0):
        found = 0
        for i in parallel(n):
            found += 1 if v[a + i * sa0] == 0.0 else 0
        v[o] = 1.0 if found == 0 else 0.0
        return DONE


@array_op("count_nonzero", "(n)->()", np.count_nonzero, cases=LENGTHS, integers="position")
class CountNonzero:
    """How many entries are not zero; NaN counts as one."""

    def forward(v, o, a, n, sa0):
        count = 0
        for i in parallel(n):
            count += 1 if v[a + i * sa0] != 0.0 else 0
        v[o] = float(count)
        return DONE
