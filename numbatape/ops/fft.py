"""The discrete Fourier transform: mixed radix 2, 3, 4, 5, and Bluestein's algorithm for other lengths.

It has Stockham's form, which needs no reordering: each stage reads one buffer and writes another. The third
operand is a table that `plan_of` makes for a length: factors, roots of unity, Bluestein's chirp.
"""

import functools

import numpy as np

from ..jit.language import serial
from .dependencies import dense
from .status import DONE, INDEX
from .table import array_op

RADICES = (4, 2, 3, 5)
HALF_ROOT3 = 0.8660254037844386
COS1, COS2 = 0.30901699437494745, -0.8090169943749475  # cosines of 1/5 and 2/5 of a turn
SIN1, SIN2 = 0.9510565162951535, 0.5877852522924731


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
    """Return the first number from n on whose prime factors are 2, 3 and 5."""
    while factors_of(n) is None:
        n += 1
    return n


def _pairs(z) -> np.ndarray:
    return np.stack([z.real, z.imag], -1).reshape(-1)


@functools.lru_cache(maxsize=64)
def plan_of(n: int) -> np.ndarray:
    """Return the table for length n.

    ``[length of the stages, number of factors, factors..., roots of each stage...]``, and for
    Bluestein's algorithm (length of the stages other than n) the chirp and its transform.
    """
    length = n if factors_of(n) is not None else smooth(2 * n - 1)
    factors = factors_of(length) or []
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


def transform_pair(x, y, table=None):
    """Return the transform of ``x + iy`` as two rows; linear in x and y, of any dtype."""
    n = len(x)
    w = roots(np.outer(np.arange(n), np.arange(n)), n)
    return np.stack([w.real @ x - w.imag @ y, w.real @ y + w.imag @ x])


def with_plan(rng, shapes):
    n = shapes[0]
    return rng.normal(size=n), rng.normal(size=n), plan_of(*n)


def put(v, o, n, re, im, wr, wi):
    """Store a product; n cells lie between real and imaginary parts."""
    v[o] = re * wr - im * wi
    v[o + n] = re * wi + im * wr


def stage2(v, x, y, n, m, s, d, w, sw):
    for p in range(m):
        wr = d[w + 2 * p * sw]
        wi = d[w + (2 * p + 1) * sw]
        a0 = x + s * p
        a1 = a0 + s * m
        o = y + 2 * s * p
        for q in serial(s):
            x0 = v[a0 + q]
            y0 = v[a0 + q + n]
            x1 = v[a1 + q]
            y1 = v[a1 + q + n]
            v[o + q] = x0 + x1
            v[o + q + n] = y0 + y1
            put(v, o + s + q, n, x0 - x1, y0 - y1, wr, wi)


def stage3(v, x, y, n, m, s, d, w, sw):
    for p in range(m):
        t = w + 4 * p * sw
        w1r = d[t]
        w1i = d[t + sw]
        w2r = d[t + 2 * sw]
        w2i = d[t + 3 * sw]
        a0 = x + s * p
        a1 = a0 + s * m
        a2 = a1 + s * m
        o = y + 3 * s * p
        for q in serial(s):
            x0 = v[a0 + q]
            y0 = v[a0 + q + n]
            sr = v[a1 + q] + v[a2 + q]
            si = v[a1 + q + n] + v[a2 + q + n]
            dr = HALF_ROOT3 * (v[a1 + q] - v[a2 + q])
            di = HALF_ROOT3 * (v[a1 + q + n] - v[a2 + q + n])
            mr = x0 - 0.5 * sr
            mi = y0 - 0.5 * si
            v[o + q] = x0 + sr
            v[o + q + n] = y0 + si
            put(v, o + s + q, n, mr + di, mi - dr, w1r, w1i)
            put(v, o + 2 * s + q, n, mr - di, mi + dr, w2r, w2i)


def stage4(v, x, y, n, m, s, d, w, sw):
    for p in range(m):
        t = w + 6 * p * sw
        w1r = d[t]
        w1i = d[t + sw]
        w2r = d[t + 2 * sw]
        w2i = d[t + 3 * sw]
        w3r = d[t + 4 * sw]
        w3i = d[t + 5 * sw]
        a0 = x + s * p
        a1 = a0 + s * m
        a2 = a1 + s * m
        a3 = a2 + s * m
        o = y + 4 * s * p
        for q in serial(s):
            er = v[a0 + q] + v[a2 + q]
            ei = v[a0 + q + n] + v[a2 + q + n]
            fr = v[a0 + q] - v[a2 + q]
            fi = v[a0 + q + n] - v[a2 + q + n]
            gr = v[a1 + q] + v[a3 + q]
            gi = v[a1 + q + n] + v[a3 + q + n]
            hr = v[a1 + q] - v[a3 + q]
            hi = v[a1 + q + n] - v[a3 + q + n]
            v[o + q] = er + gr
            v[o + q + n] = ei + gi
            put(v, o + s + q, n, fr + hi, fi - hr, w1r, w1i)
            put(v, o + 2 * s + q, n, er - gr, ei - gi, w2r, w2i)
            put(v, o + 3 * s + q, n, fr - hi, fi + hr, w3r, w3i)


def stage5(v, x, y, n, m, s, d, w, sw):
    for p in range(m):
        t = w + 8 * p * sw
        a0 = x + s * p
        a1 = a0 + s * m
        a2 = a1 + s * m
        a3 = a2 + s * m
        a4 = a3 + s * m
        o = y + 5 * s * p
        for q in serial(s):
            x0 = v[a0 + q]
            y0 = v[a0 + q + n]
            ar = v[a1 + q] + v[a4 + q]
            ai = v[a1 + q + n] + v[a4 + q + n]
            br = v[a2 + q] + v[a3 + q]
            bi = v[a2 + q + n] + v[a3 + q + n]
            cr = v[a1 + q] - v[a4 + q]
            ci = v[a1 + q + n] - v[a4 + q + n]
            er = v[a2 + q] - v[a3 + q]
            ei = v[a2 + q + n] - v[a3 + q + n]
            mr = x0 + COS1 * ar + COS2 * br
            mi = y0 + COS1 * ai + COS2 * bi
            nr = x0 + COS2 * ar + COS1 * br
            ni = y0 + COS2 * ai + COS1 * bi
            fr = SIN1 * cr + SIN2 * er
            fi = SIN1 * ci + SIN2 * ei
            hr = SIN2 * cr - SIN1 * er
            hi = SIN2 * ci - SIN1 * ei
            v[o + q] = x0 + ar + br
            v[o + q + n] = y0 + ai + bi
            put(v, o + s + q, n, mr + fi, mi - fr, d[t], d[t + sw])
            put(v, o + 2 * s + q, n, nr + hi, ni - hr, d[t + 2 * sw], d[t + 3 * sw])
            put(v, o + 3 * s + q, n, nr - hi, ni + hr, d[t + 4 * sw], d[t + 5 * sw])
            put(v, o + 4 * s + q, n, mr - fi, mi + fr, d[t + 6 * sw], d[t + 7 * sw])


def stages(v, x, y, n, d, c, sc):
    """Transform the n numbers at x, with room at y; return the buffer that the result is in."""
    count = int(d[c + sc])
    w = c + (2 + count) * sc
    m = n
    s = 1
    for k in range(count):
        radix = int(d[c + (2 + k) * sc])
        m = m // radix
        if radix == 4:
            stage4(v, x, y, n, m, s, d, w, sc)
        elif radix == 2:
            stage2(v, x, y, n, m, s, d, w, sc)
        elif radix == 3:
            stage3(v, x, y, n, m, s, d, w, sc)
        else:
            stage5(v, x, y, n, m, s, d, w, sc)
        w += 2 * m * (radix - 1) * sc
        s *= radix
        held = x
        x = y
        y = held
    return x


def fits(d, c, sc, n, t):
    """Whether t cells are a table for length n: what the stages take from it as places is in range.

    The roots of all stages are 2*(length - 1) numbers, so that a table of Bluestein's algorithm says by its
    own size that there is room for four times the length.
    """
    if t < 2:
        return False
    length = d[c]
    factors = d[c + sc]
    if not (n <= length <= t and 0 <= factors <= t - 2):  # NaN fails these tests, too
        return False
    m = int(length)
    size = 2 + int(factors)
    if m != length or int(factors) != factors:
        return False
    for k in range(int(factors)):
        radix = d[c + (2 + k) * sc]
        if not (radix == 2.0 or radix == 3.0 or radix == 4.0 or radix == 5.0) or m % int(radix) != 0:
            return False
        m = m // int(radix)
        size += 2 * m * (int(radix) - 1)
    if length != n:
        size += 2 * n + 2 * int(length)
    return m == 1 and size <= t


def transform(v, x, n, d, c, sc):
    """Transform the n numbers at x, with room behind; return where the result is, real parts first.

    Imaginary parts lie as far behind as the table's length of the stages says.
    """
    length = int(d[c])
    if length == n:
        return stages(v, x, x + 2 * n, n, d, c, sc)
    # Bluestein: a convolution with the chirp, which turns the transform of any length into two others.
    chirp = c + (2 + int(d[c + sc]) + 2 * (length - 1)) * sc
    kernel = chirp + 2 * n * sc
    for step in serial(n):
        i = n - 1 - step  # from the end, because imaginary parts are moved to higher cells
        re = v[x + i]
        im = v[x + i + n]
        v[x + 2 * length + i] = re
        v[x + 3 * length + i] = im
    for i in serial(length):
        if i < n:
            put(
                v, x + i, length, v[x + 2 * length + i], v[x + 3 * length + i],
                d[chirp + 2 * i * sc], d[chirp + (2 * i + 1) * sc],
            )  # fmt: skip
        else:
            v[x + i] = 0.0
            v[x + i + length] = 0.0
    y = stages(v, x, x + 2 * length, length, d, c, sc)
    for i in serial(length):  # with both parts exchanged, the transform computes the inverse transform
        re = v[y + i]
        im = v[y + i + length]
        wr = d[kernel + 2 * i * sc]
        wi = d[kernel + (2 * i + 1) * sc]
        put(v, y + i, length, im, re, wr, -wi)
    other = x
    if y == x:
        other = x + 2 * length
    z = stages(v, y, other, length, d, c, sc)
    for i in serial(n):
        re = v[z + i + length]
        im = v[z + i]
        put(v, z + i, length, re, im, d[chirp + 2 * i * sc], d[chirp + (2 * i + 1) * sc])
    return z


SIZES = (1, 6, 7, 20)


@array_op(
    "fft",
    "(n),(n),(t)->(p,n)",
    transform_pair,
    scratch="4*n+t",
    index="c",
    linear=True,
    cases=tuple(((n,), (n,), plan_of(n).shape) for n in SIZES),
    make=with_plan,
    extents="p == 2",
    fallible=True,
    one_module=True,
)
class Fft:
    """The transform of ``a + ib``: a row of real parts and one of imaginary parts.

    With the parts exchanged in operands and result it is the inverse times n, which is the adjoint.
    """

    depends = dense

    def forward(v, d, o, a, b, c, n, t, sa0, sb0, sc0, s):
        if n == 0:
            return DONE
        if not fits(d, c, sc0, n, t):
            return INDEX
        for i in serial(n):
            v[s + i] = v[a + i * sa0]
            v[s + n + i] = v[b + i * sb0]
        gap = int(d[c])
        z = transform(v, s, n, d, c, sc0)
        for i in serial(n):
            v[o + i] = v[z + i]
            v[o + n + i] = v[z + gap + i]
        return DONE

    def reverse(v, g, d, o, a, b, c, n, sa0, sb0, sc0, s, need_a, need_b):
        if n == 0:
            return
        for i in serial(n):
            v[s + i] = g[o + n + i]
            v[s + n + i] = g[o + i]
        gap = int(d[c])
        z = transform(v, s, n, d, c, sc0)
        for i in serial(n):
            if need_a:
                g[a + i * sa0] += v[z + gap + i]
            if need_b:
                g[b + i * sb0] += v[z + i]

    def pullback(e, ct, z, operands, need):
        """The inverse transform times n: the same one with real and imaginary parts exchanged."""
        back = e.op("fft", e.entry(ct, 1, -2), e.entry(ct, 0, -2), operands[2], p=2)
        return e.entry(back, 1, -2), e.entry(back, 0, -2), None
