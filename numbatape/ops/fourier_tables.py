"""Tables of the discrete Fourier transform: by NumPy, and in the kernel language for computed lengths.

A table has the length of the stages, the number of factors, the factors, the roots of unity of each stage,
and for Bluestein's algorithm the chirp and its transform. Before that of real numbers stand two factors and
roots, as `numbatape.ops.real_fourier` says. The stages read a table as float64 cells, and so these functions
write it to such cells.

The chirp is transformed once for a length, by one stage for all factors: LLVM takes a third of the time for
it that it takes for the stages of `fourier`, which have a loop for each factor.
"""

import functools
import math

import numpy as np

from ..jit.language import parallel
from .fourier import put

RADICES = (4, 2, 3, 5, 7)
HALF_PI = 1.5707963267948966


def roots(k, n: int) -> np.ndarray:
    """Return ``exp(-2 pi i k/n)`` for integers k, each part within an ulp: turns are reduced exactly."""
    k = np.asarray(k, np.int64) % n
    quarter = (8 * k + n) // (2 * n)
    angle = 0.5 * np.pi * ((4 * k - quarter * n) / n)
    return np.exp(-1j * angle) * np.array([1, -1j, -1, 1j])[quarter % 4]


def factors_of(n: int) -> list[int] | None:
    """Return radices whose product is n, None if there are none."""
    found = []
    for radix in RADICES:
        while n % radix == 0:
            found.append(radix)
            n //= radix
    return found if n == 1 else None


def smooth(n: int) -> int:
    """Return the first number from n on whose prime factors are 2, 3, 5 and 7."""
    while factors_of(n) is None:
        n += 1
    return n


def stages_of(n: int) -> tuple[int, list[int]]:
    """Return the length of the stages for length n, and its factors."""
    length = n if factors_of(n) is not None else smooth(2 * n - 1)
    return length, factors_of(length) or []


def size_of_plan(n: int) -> int:
    """Return how many numbers the table for length n has."""
    length, factors = stages_of(n)
    return 2 + len(factors) + 2 * (length - 1) + (2 * (n + length) if length != n else 0)


def _pairs(z) -> np.ndarray:
    return np.stack([z.real, z.imag], -1).reshape(-1)


@functools.lru_cache(maxsize=64)
def plan_of(n: int) -> np.ndarray:
    """Return the table for length n.

    ``[length of the stages, number of factors, factors..., roots of each stage...]``, and for
    Bluestein's algorithm (length of the stages other than n) the chirp and its transform.
    """
    length, factors = stages_of(n)
    parts = [np.array([length, len(factors), *factors], float)]
    size = length
    for radix in factors:
        size //= radix
        parts.append(_pairs(roots(np.outer(np.arange(size), np.arange(1, radix)), size * radix).reshape(-1)))
    if length != n:
        chirp = roots(np.arange(n) ** 2, 2 * n)
        kernel = np.zeros(length, complex)
        kernel[:n] = chirp.conj()
        kernel[length - n + 1 :] = chirp[:0:-1].conj()
        parts += [_pairs(chirp), _pairs(np.fft.fft(kernel) / length)]
    table = np.concatenate(parts)
    table.flags.writeable = False
    return table


@functools.lru_cache(maxsize=64)
def real_plan_of(n: int, outer: float, inner: float) -> np.ndarray:
    """Return the table for n real numbers; outer and inner entries of their spectrum are multiplied."""
    m, w = (n, []) if n % 2 else (n // 2, roots(np.arange(n // 4 + 1), n))
    table = np.concatenate([[outer, inner], np.real(w), np.imag(w), plan_of(m)])
    table.flags.writeable = False
    return table


def size_of_real_plan(n: int) -> int:
    """Return how many numbers the table for n real numbers has."""
    return 2 + size_of_plan(n) if n % 2 else 4 + 2 * (n // 4) + size_of_plan(n // 2)


def without_factors(n):
    """Divide a number by 2, 3, 5 and 7 as often as that leaves no rest."""
    while n % 2 == 0:
        n = n // 2
    while n % 3 == 0:
        n = n // 3
    while n % 5 == 0:
        n = n // 5
    while n % 7 == 0:
        n = n // 7
    return n


def put_factors(v, o, n):
    """Write the factors of a number, those of 4 first; return how many there are."""
    count = 0
    while n % 4 == 0:
        v[o + count] = 4.0
        count += 1
        n = n // 4
    while n % 2 == 0:
        v[o + count] = 2.0
        count += 1
        n = n // 2
    while n % 3 == 0:
        v[o + count] = 3.0
        count += 1
        n = n // 3
    while n % 5 == 0:
        v[o + count] = 5.0
        count += 1
        n = n // 5
    while n % 7 == 0:
        v[o + count] = 7.0
        count += 1
        n = n // 7
    return count


def put_root(v, o, k, n):
    """Write ``exp(-2 pi i k/n)``; turns are reduced exactly, so each part is within an ulp."""
    k = k % n
    quarter = (8 * k + n) // (2 * n)
    angle = HALF_PI * (float(4 * k - quarter * n) / float(n))
    re = math.cos(angle)
    im = -math.sin(angle)
    turn = quarter % 4
    if turn == 0:
        v[o] = re
        v[o + 1] = im
    elif turn == 1:
        v[o] = im
        v[o + 1] = -re
    elif turn == 2:
        v[o] = -re
        v[o + 1] = -im
    else:
        v[o] = -im
        v[o + 1] = re


def put_chirp(v, chirp, n, length, s):
    """Write Bluestein's chirp, and to scratch what is transformed: its conjugate, which wraps around."""
    for i in parallel(2 * length):
        v[s + i] = 0.0
    for i in range(n):
        put_root(v, chirp + 2 * i, i * i, 2 * n)
        re = v[chirp + 2 * i]
        im = -v[chirp + 2 * i + 1]
        v[s + i] = re
        v[s + length + i] = im
        if i > 0:
            v[s + length - i] = re
            v[s + 2 * length - i] = im


def stage(v, x, y, gap, radix, m, s, w, roots):
    """Do what the stage of `fourier` for this factor does; ``roots`` are those of the factor."""
    for p in range(m):
        for k in range(radix):
            o = y + s * (radix * p + k)
            c = w + 2 * ((radix - 1) * p + k - 1)
            for q in range(s):
                re = 0.0
                im = 0.0
                for j in range(radix):
                    a = x + s * (p + j * m) + q
                    root = roots + 2 * ((j * k) % radix)
                    re += v[a] * v[root] - v[a + gap] * v[root + 1]
                    im += v[a] * v[root + 1] + v[a + gap] * v[root]
                if k == 0:
                    v[o + q] = re
                    v[o + q + gap] = im
                else:
                    put(v, o + q, gap, re, im, v[c], v[c + 1])


def transformed(v, o, n, x):
    """Transform the n numbers at x by the table at o; return the buffer that the result is in."""
    y = x + 2 * n
    roots = y + 2 * n
    count = int(v[o + 1])
    w = o + 2 + count
    m = n
    s = 1
    for k in range(count):
        radix = int(v[o + 2 + k])
        m = m // radix
        for j in range(radix):
            put_root(v, roots + 2 * j, j, radix)
        stage(v, x, y, n, radix, m, s, w, roots)
        w += 2 * m * (radix - 1)
        s *= radix
        held = x
        x = y
        y = held
    return x


def put_table(v, o, n, s):
    """Write the table for a length, for which `numbatape.ops.fft.ROOM` says that there are enough cells."""
    length = n
    if without_factors(n) != 1:
        length = 2 * n - 1
        while without_factors(length) != 1:
            length += 1
    count = put_factors(v, o + 2, length)
    v[o] = float(length)
    v[o + 1] = float(count)
    w = o + 2 + count
    size = length
    for k in range(count):
        radix = int(v[o + 2 + k])
        whole = size
        size = size // radix
        for p in range(size):
            for r in range(radix - 1):
                put_root(v, w, p * (r + 1), whole)
                w += 2
    if length != n:
        put_chirp(v, w, n, length, s)
        z = transformed(v, o, length, s)
        w += 2 * n
        for i in range(length):
            v[w + 2 * i] = v[z + i] / float(length)
            v[w + 2 * i + 1] = v[z + length + i] / float(length)


def put_real_table(v, o, n, outer, inner, s):
    """Write the table for n real numbers, which takes no more cells than that for n complex ones."""
    v[o] = outer
    v[o + 1] = inner
    if n % 2 == 1:
        put_table(v, o + 2, n, s)
    else:
        count = n // 4 + 1
        for k in range(count):
            put_root(v, s, k, n)
            v[o + 2 + k] = v[s]
            v[o + 2 + count + k] = v[s + 1]
        put_table(v, o + 2 + 2 * count, n // 2, s)
