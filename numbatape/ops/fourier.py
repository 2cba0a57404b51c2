"""The discrete Fourier transform in the kernel language: its stages and Bluestein's convolution.

It has Stockham's form, which needs no reordering: each stage reads one buffer and writes another. Several
transforms run side by side as lanes: the first stage then begins with as many neighbours as there are lanes.
`numbatape.ops.fft.plan_of` makes the table of a length.
"""

from ..jit.language import opaque, parallel, transpose8
from .status import DONE, INDEX

LANES = 8  # transforms of a batch that run side by side, in SIMD lanes
HALF_ROOT3 = 0.8660254037844386
COS1, COS2 = 0.30901699437494745, -0.8090169943749475  # cosines of 1/5 and 2/5 of a turn
SIN1, SIN2 = 0.9510565162951535, 0.5877852522924731
# Cosines of one, two and three sevenths of a turn.
C71, C72, C73 = 0.6234898018587336, -0.2225209339563144, -0.9009688679024191
S71, S72, S73 = 0.7818314824680298, 0.9749279121818236, 0.4338837391175581


def put(v, o, gap, re, im, wr, wi):
    """Store a product; the imaginary part lies ``gap`` cells behind the real one."""
    v[o] = re * wr - im * wi
    v[o + gap] = re * wi + im * wr


def stage2(v, x, y, gap, m, s, d, w, sw):
    for p in range(m):
        t = opaque(w + 2 * p * sw)
        wr = d[t]
        wi = d[t + sw]
        a0 = opaque(x + s * p)
        a1 = opaque(a0 + s * m)
        o = opaque(y + 2 * s * p)
        for q in parallel(s):
            x0 = v[a0 + q]
            y0 = v[a0 + q + gap]
            x1 = v[a1 + q]
            y1 = v[a1 + q + gap]
            v[o + q] = x0 + x1
            v[o + q + gap] = y0 + y1
            put(v, o + s + q, gap, x0 - x1, y0 - y1, wr, wi)


def stage3(v, x, y, gap, m, s, d, w, sw):
    """Do a stage for the factor 3, with two roots of unity for each place."""
    for p in range(m):
        t = opaque(w + 4 * p * sw)
        w1r = d[t]
        w1i = d[t + sw]
        w2r = d[t + 2 * sw]
        w2i = d[t + 3 * sw]
        a0 = opaque(x + s * p)
        a1 = opaque(a0 + s * m)
        a2 = opaque(a1 + s * m)
        o = opaque(y + 3 * s * p)
        for q in parallel(s):
            x0 = v[a0 + q]
            y0 = v[a0 + q + gap]
            sr = v[a1 + q] + v[a2 + q]
            si = v[a1 + q + gap] + v[a2 + q + gap]
            dr = HALF_ROOT3 * (v[a1 + q] - v[a2 + q])
            di = HALF_ROOT3 * (v[a1 + q + gap] - v[a2 + q + gap])
            mr = x0 - 0.5 * sr
            mi = y0 - 0.5 * si
            v[o + q] = x0 + sr
            v[o + q + gap] = y0 + si
            put(v, o + s + q, gap, mr + di, mi - dr, w1r, w1i)
            put(v, o + 2 * s + q, gap, mr - di, mi + dr, w2r, w2i)


def butterfly4(v, a0, step, o, s, gap, w1r, w1i, w2r, w2i, w3r, w3i):
    a1 = a0 + step
    a2 = a1 + step
    a3 = a2 + step
    er = v[a0] + v[a2]
    ei = v[a0 + gap] + v[a2 + gap]
    fr = v[a0] - v[a2]
    fi = v[a0 + gap] - v[a2 + gap]
    gr = v[a1] + v[a3]
    gi = v[a1 + gap] + v[a3 + gap]
    hr = v[a1] - v[a3]
    hi = v[a1 + gap] - v[a3 + gap]
    v[o] = er + gr
    v[o + gap] = ei + gi
    put(v, o + s, gap, fr + hi, fi - hr, w1r, w1i)
    put(v, o + 2 * s, gap, er - gr, ei - gi, w2r, w2i)
    put(v, o + 3 * s, gap, fr - hi, fi + hr, w3r, w3i)


def stage4(v, x, y, gap, m, s, d, w, sw):
    for p in range(m):
        t = opaque(w + 6 * p * sw)
        w1r = d[t]
        w1i = d[t + sw]
        w2r = d[t + 2 * sw]
        w2i = d[t + 3 * sw]
        w3r = d[t + 4 * sw]
        w3i = d[t + 5 * sw]
        a0 = opaque(x + s * p)
        o = opaque(y + 4 * s * p)
        if (
            s == 1
        ):  # the first stage of nearly all lengths, for which the loop would take longer than its body
            butterfly4(v, a0, m, o, 1, gap, w1r, w1i, w2r, w2i, w3r, w3i)
        else:
            for q in parallel(s):
                butterfly4(v, a0 + q, s * m, o + q, s, gap, w1r, w1i, w2r, w2i, w3r, w3i)


def stage5(v, x, y, gap, m, s, d, w, sw):
    """Do a stage for the factor 5: sums and differences of places p and 5 - p share all products."""
    for p in range(m):
        t = opaque(w + 8 * p * sw)
        a0 = opaque(x + s * p)
        a1 = opaque(a0 + s * m)
        a2 = opaque(a1 + s * m)
        a3 = opaque(a2 + s * m)
        a4 = opaque(a3 + s * m)
        o = opaque(y + 5 * s * p)
        for q in parallel(s):
            x0 = v[a0 + q]
            y0 = v[a0 + q + gap]
            ar = v[a1 + q] + v[a4 + q]
            ai = v[a1 + q + gap] + v[a4 + q + gap]
            br = v[a2 + q] + v[a3 + q]
            bi = v[a2 + q + gap] + v[a3 + q + gap]
            cr = v[a1 + q] - v[a4 + q]
            ci = v[a1 + q + gap] - v[a4 + q + gap]
            er = v[a2 + q] - v[a3 + q]
            ei = v[a2 + q + gap] - v[a3 + q + gap]
            mr = x0 + COS1 * ar + COS2 * br
            mi = y0 + COS1 * ai + COS2 * bi
            nr = x0 + COS2 * ar + COS1 * br
            ni = y0 + COS2 * ai + COS1 * bi
            fr = SIN1 * cr + SIN2 * er
            fi = SIN1 * ci + SIN2 * ei
            hr = SIN2 * cr - SIN1 * er
            hi = SIN2 * ci - SIN1 * ei
            v[o + q] = x0 + ar + br
            v[o + q + gap] = y0 + ai + bi
            put(v, o + s + q, gap, mr + fi, mi - fr, d[t], d[t + sw])
            put(v, o + 2 * s + q, gap, nr + hi, ni - hr, d[t + 2 * sw], d[t + 3 * sw])
            put(v, o + 3 * s + q, gap, nr - hi, ni + hr, d[t + 4 * sw], d[t + 5 * sw])
            put(v, o + 4 * s + q, gap, mr - fi, mi + fr, d[t + 6 * sw], d[t + 7 * sw])


def stage7(v, x, y, gap, m, s, d, w, sw):
    """Do a stage for the factor 7, as `stage5` does for 5."""
    for p in range(m):
        t = opaque(w + 12 * p * sw)
        a0 = opaque(x + s * p)
        a1 = opaque(a0 + s * m)
        a2 = opaque(a1 + s * m)
        a3 = opaque(a2 + s * m)
        a4 = opaque(a3 + s * m)
        a5 = opaque(a4 + s * m)
        a6 = opaque(a5 + s * m)
        o = opaque(y + 7 * s * p)
        for q in parallel(s):
            x0 = v[a0 + q]
            y0 = v[a0 + q + gap]
            ar = v[a1 + q] + v[a6 + q]
            ai = v[a1 + q + gap] + v[a6 + q + gap]
            br = v[a2 + q] + v[a5 + q]
            bi = v[a2 + q + gap] + v[a5 + q + gap]
            cr = v[a3 + q] + v[a4 + q]
            ci = v[a3 + q + gap] + v[a4 + q + gap]
            er = v[a1 + q] - v[a6 + q]
            ei = v[a1 + q + gap] - v[a6 + q + gap]
            fr = v[a2 + q] - v[a5 + q]
            fi = v[a2 + q + gap] - v[a5 + q + gap]
            hr = v[a3 + q] - v[a4 + q]
            hi = v[a3 + q + gap] - v[a4 + q + gap]
            v[o + q] = x0 + (ar + br + cr)
            v[o + q + gap] = y0 + (ai + bi + ci)
            mr = x0 + (C71 * ar + C72 * br + C73 * cr)
            mi = y0 + (C71 * ai + C72 * bi + C73 * ci)
            nr = S71 * er + S72 * fr + S73 * hr
            ni = S71 * ei + S72 * fi + S73 * hi
            put(v, o + s + q, gap, mr + ni, mi - nr, d[t], d[t + sw])
            put(v, o + 6 * s + q, gap, mr - ni, mi + nr, d[t + 10 * sw], d[t + 11 * sw])
            mr = x0 + (C72 * ar + C73 * br + C71 * cr)
            mi = y0 + (C72 * ai + C73 * bi + C71 * ci)
            nr = S72 * er - S73 * fr - S71 * hr
            ni = S72 * ei - S73 * fi - S71 * hi
            put(v, o + 2 * s + q, gap, mr + ni, mi - nr, d[t + 2 * sw], d[t + 3 * sw])
            put(v, o + 5 * s + q, gap, mr - ni, mi + nr, d[t + 8 * sw], d[t + 9 * sw])
            mr = x0 + (C73 * ar + C71 * br + C72 * cr)
            mi = y0 + (C73 * ai + C71 * bi + C72 * ci)
            nr = S73 * er - S71 * fr + S72 * hr
            ni = S73 * ei - S71 * fi + S72 * hi
            put(v, o + 3 * s + q, gap, mr + ni, mi - nr, d[t + 4 * sw], d[t + 5 * sw])
            put(v, o + 4 * s + q, gap, mr - ni, mi + nr, d[t + 6 * sw], d[t + 7 * sw])


def stages(v, x, y, n, lanes, d, c, sc) -> int:
    """Transform the n numbers of each lane at x, with room at y; return the buffer that the result is in."""
    count = int(d[c + sc])
    w = c + (2 + count) * sc
    gap = n * lanes
    m = n
    s = lanes
    for k in range(count):
        radix = int(d[c + (2 + k) * sc])
        m = m // radix
        if radix == 4:
            stage4(v, x, y, gap, m, s, d, w, sc)
        elif radix == 2:
            stage2(v, x, y, gap, m, s, d, w, sc)
        elif radix == 3:
            stage3(v, x, y, gap, m, s, d, w, sc)
        elif radix == 5:
            stage5(v, x, y, gap, m, s, d, w, sc)
        else:
            stage7(v, x, y, gap, m, s, d, w, sc)
        w += 2 * m * (radix - 1) * sc
        s *= radix
        held = x
        x = y
        y = held
    return x


def fits(d, c, sc, n, t) -> int:
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
        if not (2.0 <= radix <= 5.0 or radix == 7.0) or radix != int(radix) or m % int(radix) != 0:
            return False
        m = m // int(radix)
        size += 2 * m * (int(radix) - 1)
    if length != n:
        size += 2 * n + 2 * int(length)
    return m == 1 and size <= t


def weigh(v, x, re, im, gap, n, lanes, d, w, sc, sign):
    """Multiply n numbers by those at w, or by their conjugates: read ``re`` and ``im`` cells behind x."""
    if lanes == 1:
        for i in range(n):
            o = x + i
            t = w + 2 * i * sc
            put(v, o, gap, v[o + re], v[o + im], d[t], sign * d[t + sc])
    else:
        for i in range(n):
            t = opaque(w + 2 * i * sc)
            wr = d[t]
            wi = sign * d[t + sc]
            o = opaque(x + i * lanes)
            for j in parallel(lanes):
                put(v, o + j, gap, v[o + re + j], v[o + im + j], wr, wi)


def transform(v, x, n, lanes, d, c, sc) -> int:
    """Transform the n numbers of each lane at x, with room behind; return where the result is.

    The lanes of one number lie side by side. Imaginary parts lie as far behind the real ones as there are
    cells in all lanes, by the table's length of the stages.
    """
    length = int(d[c])
    if length == n:
        return stages(v, x, x + 2 * n * lanes, n, lanes, d, c, sc)
    # Bluestein's algorithm turns a transform of any length into two others, by a convolution with the chirp.
    chirp = c + (2 + int(d[c + sc]) + 2 * (length - 1)) * sc
    kernel = chirp + 2 * n * sc
    gap = length * lanes
    for step in range(n * lanes):
        # Entries are moved from the last one on, because imaginary parts go to higher cells.
        i = n * lanes - 1 - step
        re = v[x + i]
        im = v[x + i + n * lanes]
        v[x + 2 * gap + i] = re
        v[x + 3 * gap + i] = im
    weigh(v, x, 2 * gap, 3 * gap, gap, n, lanes, d, chirp, sc, 1.0)
    for i in range((length - n) * lanes):
        v[x + n * lanes + i] = 0.0
        v[x + n * lanes + i + gap] = 0.0
    y = stages(v, x, x + 2 * gap, length, lanes, d, c, sc)
    # The transform computes the inverse transform if real and imaginary parts are exchanged.
    weigh(v, y, gap, 0, gap, length, lanes, d, kernel, sc, -1.0)
    other = x
    if y == x:
        other = x + 2 * gap
    z = stages(v, y, other, length, lanes, d, c, sc)
    weigh(v, z, gap, 0, gap, n, lanes, d, chirp, sc, 1.0)
    return z


def take(v, s, xv, a, b, n, sa, sb, lanes, step_a, step_b) -> int:
    """Put the numbers of some lanes side by side, real parts from a and imaginary ones from b."""
    if lanes == 1:
        for i in range(n):
            v[s + i] = xv[a + i * sa]
            v[s + n + i] = xv[b + i * sb]
    else:
        take_part(v, s, xv, a, n, sa, lanes, step_a)
        take_part(v, s + n * lanes, xv, b, n, sb, lanes, step_b)
    return DONE


def take_part(v, s, xv, a, n, sa, lanes, step):
    """Put n numbers of some lanes side by side, eight by eight where rows of eight lanes are contiguous."""
    first = 0
    if lanes == LANES and sa == 1:
        first = n // LANES * LANES
        for block in range(n // LANES):
            transpose8(v, s + LANES * LANES * block, LANES, xv, a + LANES * block, step)
    for i in range(first, n):
        for j in range(lanes):
            v[s + i * lanes + j] = xv[a + i * sa + j * step]


def put_part(v, o, z, n, lanes, step):
    """Write n numbers of some lanes as rows, `take_part` backwards."""
    first = 0
    if lanes == LANES:
        first = n // LANES * LANES
        for block in range(n // LANES):
            transpose8(v, o + LANES * block, step, v, z + LANES * LANES * block, LANES)
    for j in range(lanes):
        for i in range(first, n):
            v[o + j * step + i] = v[z + i * lanes + j]


def forward_lanes(v, d, o, a, b, c, n, sa0, sb0, sc0, s, lanes, step_o, step_a, step_b):
    take(v, s, v, a, b, n, sa0, sb0, lanes, step_a, step_b)
    z = transform(v, s, n, lanes, d, c, sc0)
    gap = int(d[c]) * lanes
    put_part(v, o, z, n, lanes, step_o)
    put_part(v, o + n, z + gap, n, lanes, step_o)


def forward_turns(v, d, o, a, b, c, n, t, sa0, sb0, sc0, s, turns, step_o, step_a, step_b):
    """Transform one array, or those of a batch, of which several run side by side."""
    if n == 0:
        return DONE
    if not fits(d, c, sc0, n, t):
        return INDEX
    first = 0
    while first < turns:
        lanes = min(LANES, turns - first)
        forward_lanes(
            v, d, o + first * step_o, a + first * step_a, b + first * step_b, c,
            n, sa0, sb0, sc0, s, lanes, step_o, step_a, step_b,
        )  # fmt: skip
        first += lanes
    return DONE


def add_out(v, z, xg, a, n, sa, lanes, step):
    """Add the numbers of some lanes to adjoints."""
    for i in range(n):
        first = a + i * sa
        for j in range(lanes):
            xg[first + j * step] += v[z + i * lanes + j]


def reverse_lanes(v, g, d, o, a, b, c, n, sa0, sb0, sc0, s, need_a, need_b, lanes, step_o, step_a, step_b):
    take(v, s, g, o + n, o, n, 1, 1, lanes, step_o, step_o)
    z = transform(v, s, n, lanes, d, c, sc0)
    if need_a:
        add_out(v, z + int(d[c]) * lanes, g, a, n, sa0, lanes, step_a)
    if need_b:
        add_out(v, z, g, b, n, sb0, lanes, step_b)


def reverse_turns(v, g, d, o, a, b, c, n, sa0, sb0, sc0, s, need_a, need_b, turns, step_o, step_a, step_b):
    first = 0
    while first < turns and n > 0:
        lanes = min(LANES, turns - first)
        reverse_lanes(
            v, g, d, o + first * step_o, a + first * step_a, b + first * step_b, c,
            n, sa0, sb0, sc0, s, need_a, need_b, lanes, step_o, step_a, step_b,
        )  # fmt: skip
        first += lanes
