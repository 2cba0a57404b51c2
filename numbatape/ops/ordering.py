"""Sorting, searching and counts: array ops along one core axis."""

import math

import numpy as np

from ..jit.language import bits_of, parallel, simd
from .dependencies import dense, nothing
from .reduce import LENGTHS, reordered
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


FEW = 4  # entries from which on ranks are faster


def comes_before(x, y, j, i):
    """One if entry j, the number x, is before entry i, the number y, in stable order."""
    return 1.0 if x < y or (x == y and j < i) else 0.0


def rank_sort(v, a, sa0, n, p, q):
    """`merge_sort` of some numbers, none of them NaN: each counts those before it, in SIMD lanes.

    Whether one number is before another cannot be predicted, and a wrong guess takes longer than many counts.
    """
    for i in range(n):
        v[p + i] = float(i)
        v[q + i] = 0.0
    whole = n - n % 4
    for j in range(0, whole, 4):
        x = v[a + j * sa0]
        y = v[a + (j + 1) * sa0]
        z = v[a + (j + 2) * sa0]
        w = v[a + (j + 3) * sa0]
        for i in simd(n):
            here = v[a + i * sa0]
            place = v[p + i]
            first = comes_before(x, here, j, place) + comes_before(y, here, j + 1, place)
            v[q + i] += first + (comes_before(z, here, j + 2, place) + comes_before(w, here, j + 3, place))
    for j in range(whole, n):
        x = v[a + j * sa0]
        for i in simd(n):
            v[q + i] += comes_before(x, v[a + i * sa0], j, v[p + i])
    for i in range(n):
        v[p + int(v[q + i])] = float(i)


def short_sort(v, a, sa0, n, p, q):
    """`merge_sort` of fewer numbers than `digit_sort` takes."""
    unknown = 0 if n >= FEW else 1
    for i in parallel(n if n >= FEW else 0):
        x = v[a + i * sa0]
        unknown += 0 if x == x else 1
    if unknown > 0:
        merge_sort(v, a, sa0, n, p, q)
    else:
        rank_sort(v, a, sa0, n, p, q)


MANY = 224  # entries from which on sorting by digits is faster; digits have five bits
LONG, LONGER, LONGEST = 384, 1024, 6144  # entries from which on digits have six, eight, eleven bits


def key_of(x):
    """A whole number that is ordered as the numbers are; zeros are one number."""
    return reordered(bits_of(x + 0.0))


def digits_of(x, least, scale, base, shift):
    """A number's place between the smallest one and the largest, or some bits of the distance of their keys.

    Differences of keys wrap around: they have 64 bits without a sign.
    """
    return int((x - least) * scale) if scale > 0.0 else (key_of(x) - base) >> shift


def count_digits(v, k, c, count, least, scale, base, shift, width, turns):
    """Count at c how often each value of each digit occurs."""
    size = 1 << width
    for i in parallel(turns * size):
        v[c + i] = 0.0
    for i in range(count):
        digits = digits_of(v[k + i], least, scale, base, shift)
        for turn in range(turns):
            v[c + turn * size + ((digits >> (width * turn)) & (size - 1))] += 1.0


def pairs_of(v, c, size):
    """How many pairs of numbers have the same digit."""
    total = 0.0
    for i in range(size):
        total += v[c + i] * v[c + i]
    return 0.5 * total


def by_digits(v, p, q, k, m, c, count, least, scale, base, shift, width, turns):
    """Sort numbers at k and positions at p by digits that have been counted, the last one first."""
    size = 1 << width
    for turn in range(turns):
        table = c + turn * size
        total = 0.0
        for i in range(size):
            here = v[table + i]
            v[table + i] = total
            total += here
        for i in range(count):
            x = v[k + i]
            digits = digits_of(x, least, scale, base, shift)
            place = table + ((digits >> (width * turn)) & (size - 1))
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
    if turns % 2 == 1:
        for i in parallel(count):
            v[q + i] = v[p + i]
            v[m + i] = v[k + i]


def settled(v, p, k, count):
    """Insert numbers that are smaller than the one before where they belong; return 0 where it takes long."""
    left = 2 * count
    i = 1
    while i < count and left > 0:
        x = v[k + i]
        if x < v[k + i - 1]:
            at = v[p + i]
            j = i
            while j > 0 and x < v[k + max(j - 1, 0)]:
                v[k + j] = v[k + j - 1]
                v[p + j] = v[p + j - 1]
                j -= 1
            v[k + j] = x
            v[p + j] = at
            left -= i - j
        i += 1
    return 1 if i >= count else 0


def by_place(v, p, q, k, m, c, count, least, most, width):
    """Sort by two digits of the place between the smallest and the largest number.

    Return 0 where that does not do it: where numbers are infinite, or so many of them are close to one
    another that as many have the same digits.
    """
    size = 1 << width
    scale = (size * size - 1) / (most - least)
    if not (scale > 0.0 and scale - scale == 0.0):
        return 0
    count_digits(v, k, c, count, least, scale, 0, 0, width, 2)
    if pairs_of(v, c + size, size) > float(size * count):
        return 0
    by_digits(v, p, q, k, m, c, count, least, scale, 0, 0, width, 2)
    return settled(v, p, k, count)


def by_keys(v, p, q, k, m, c, count, least, most, width, turns):
    """Sort by the first half of the bits in which the keys of numbers differ; if need be, by all bits."""
    bits = width * turns
    base = key_of(least)
    span = key_of(most) - base
    shift = 0
    while shift < 64 - bits and not (0 <= span >> shift < 1 << bits):
        shift += 1
    count_digits(v, k, c, count, least, 0.0, base, shift, width, turns)
    by_digits(v, p, q, k, m, c, count, least, 0.0, base, shift, width, turns)
    if shift > 0 and settled(v, p, k, count) == 0:
        for half in range(2):
            count_digits(v, k, c, count, least, 0.0, base, half * bits, width, turns)
            by_digits(v, p, q, k, m, c, count, least, 0.0, base, half * bits, width, turns)


def digit_sort(v, a, sa0, n, p, q, k, m, c):
    """`merge_sort` of many numbers: by one digit after the other, in a time that grows with n.

    The numbers move with their positions, and are in order at k. Takes n cells each at q, m and c to work in.
    Two digits, of the place between the smallest and the largest number, leave few neighbours in disorder,
    which are inserted. Numbers of very different sizes have digits of their keys.
    """
    count = 0
    last = -math.inf
    steps = 0
    least = math.inf
    most = -math.inf
    for i in range(n):
        x = v[a + i * sa0]
        if x == x:
            v[k + count] = x
            v[p + count] = float(i)
            count += 1
            steps += 1 if x < last else 0
            last = x
            least = min(least, x)
            most = max(most, x)
    rest = count
    for i in range(n):
        x = v[a + i * sa0]
        if x != x:
            v[k + rest] = x
            v[p + rest] = float(i)
            rest += 1
    if steps > 0:
        width = 11 if n >= LONGEST else 8 if n >= LONGER else 6 if n >= LONG else 5
        # This many digits are half a key, and there are n cells to count them in.
        turns = 3 if n >= LONGEST else 4 if n >= LONGER else 6 if n >= LONG else 7
        if by_place(v, p, q, k, m, c, count, least, most, width) == 0:
            by_keys(v, p, q, k, m, c, count, least, most, width, turns)


ORDER = {"scratch": "4*n", "cases": LENGTHS, "two_tiers": "forward"}


@array_op("sort", "(n)->(n)", np.sort, keeps=True, moves=True, integers="within", **ORDER)
class Sort:
    """Ascending, NaN last; the permutation is kept, and maps the adjoints back."""

    depends, interacts = dense, nothing

    def forward(v, o, a, n, sa0, s):
        if n >= MANY:
            digit_sort(v, a, sa0, n, s, s + n, o, s + 2 * n, s + 3 * n)
            return DONE
        short_sort(v, a, sa0, n, s, s + n)
        for i in range(n):
            v[o + i] = v[a + int(v[s + i]) * sa0]
        return DONE

    def reverse(v, g, o, a, n, sa0, s):
        for i in range(n):
            g[a + int(v[s + i]) * sa0] += g[o + i]

    def pullback(e, ct, z, operands, need):
        inverse = e.op("argsort", e.op("argsort", operands[0]))
        return (e.op("take1", ct, inverse),)


@array_op("argsort", "(n)->(n)", np.argsort, integers="position", **ORDER)
class Argsort:
    """Positions in stable ascending order, NaN last."""

    def oracle(x):
        return np.argsort(x, kind="stable")

    def forward(v, o, a, n, sa0, s):
        if n >= MANY:
            digit_sort(v, a, sa0, n, o, s, s + n, s + 2 * n, s + 3 * n)
            return DONE
        short_sort(v, a, sa0, n, o, s)
        return DONE


def count_below(v, a, m, sa0, x):
    """How many of m sorted entries, NaN last, are smaller than a number.

    Nobody could predict which half is chosen. A product is no branch (of a choice between integers LLVM
    makes one), so that the next search begins meanwhile.
    """
    low = 0.0
    left = m
    while left > 0:
        half = left // 2
        low += float(v[a + (int(low) + half) * sa0] < x) * float(left - half)
        left = half
    return low


def count_up_to(v, a, m, sa0, x):
    """How many of m sorted entries, NaN last, are not larger than a number.

    It is apart from `count_below` because a search that is told which comparison to make takes 1.7 times as
    long: it is called twice in `PlacesLeft`, so LLVM does not make a copy of it for each comparison.
    """
    low = 0.0
    left = m
    while left > 0:
        half = left // 2
        low += float(v[a + (int(low) + half) * sa0] <= x) * float(left - half)
        left = half
    return low


def sorted_and_numbers(rng, shapes):
    """Sorted entries, some of them equal, and numbers among them, which a small step leaves there."""
    table = np.sort(rng.integers(-4, 4, shapes[0]).astype(float))
    return table, rng.integers(-5, 5, shapes[1]) + 0.5


PLACES = (((0,), (3,)), ((1,), (3,)), ((2,), (1,)), ((7,), (9,)), ((8,), (0,)), ((20,), (5,)))


@array_op("places_left", "(m),(n)->(n)", cases=PLACES, make=sorted_and_numbers, integers="position")
class PlacesLeft:
    """Where numbers belong in a sorted vector, in front of entries that are equal to them."""

    def oracle(x, y):
        return np.searchsorted(x, y)

    def forward(v, o, a, b, m, n, sa0, sb0):
        for i in range(n):
            x = v[b + i * sb0]
            place = count_below(v, a, m, sa0, x)
            v[o + i] = place if x == x else count_up_to(v, a, m, sa0, math.inf)
        return DONE


@array_op("places_right", "(m),(n)->(n)", cases=PLACES, make=sorted_and_numbers, integers="position")
class PlacesRight:
    """Where numbers belong in a sorted vector, behind entries that are equal to them."""

    def oracle(x, y):
        return np.searchsorted(x, y, "right")

    def forward(v, o, a, b, m, n, sa0, sb0):
        for i in range(n):
            x = v[b + i * sb0]
            v[o + i] = count_up_to(v, a, m, sa0, x) if x == x else float(m)
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


@array_op("count_nonzero", "(n)->()", np.count_nonzero, cases=LENGTHS, integers="position")
class CountNonzero:
    """How many entries are not zero; NaN counts as one."""

    def forward(v, o, a, n, sa0):
        count = 0
        for i in parallel(n):
            count += 1 if v[a + i * sa0] != 0.0 else 0
        v[o] = float(count)
        return DONE
