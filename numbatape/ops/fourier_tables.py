"""Tables of the discrete Fourier transform in the kernel language, for lengths that a tape computes.

They have the form of `numbatape.ops.fft.plan_of`: the length of the stages, the number of factors, the
factors, the roots of unity of each stage, and for Bluestein's algorithm the chirp and its transform. The
stages read a table as float64 cells, and so these functions write it to such cells.
"""

import math

from ..jit.language import parallel
from .fourier import stages

HALF_PI = 1.5707963267948966


def without_factors(n):
    """Divide a number by 2, 3 and 5 as often as that leaves no rest."""
    while n % 2 == 0:
        n = n // 2
    while n % 3 == 0:
        n = n // 3
    while n % 5 == 0:
        n = n // 5
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
        z = stages(v, s, s + 2 * length, length, 1, v, o, 1)
        w += 2 * n
        for i in range(length):
            v[w + 2 * i] = v[z + i] / float(length)
            v[w + 2 * i + 1] = v[z + length + i] / float(length)
