"""The discrete Fourier transform of real numbers, in the kernel language, and its adjoint.

The numbers at even and odd places are real and imaginary parts of half as many complex ones, whose spectrum
`numbatape.ops.fourier` computes; the spectrum of the real ones is a combination of its entries k and m - k.
An odd number of them is transformed as complex numbers without imaginary parts. Several transforms run side
by side, as there.

A table begins with the factors of the outer entries (the first one, and the last one of an even number), and
of the inner ones, which stand for two of the whole spectrum. Roots of unity follow (if n is even), and the
table of the complex transform.
"""

from ..jit.language import opaque, parallel, simd
from .fourier import LANES, fits, take, transform


def place_of_plan(n):
    """Return where in a table for n real numbers that of complex ones begins, behind factors and roots."""
    return 2 if n % 2 == 1 else 4 + 2 * (n // 4)


def fits_real(d, c, sc, n, h, t):
    """Whether t cells are a table for n real numbers, whose transform has h entries."""
    first = place_of_plan(n)
    m = n if n % 2 == 1 else n // 2
    return n > 0 and h == n // 2 + 1 and t > first and fits(d, c + first * sc, sc, m, t - first)


def pairs(v, z, gap, m, lanes, d, c, sc):
    """Make the spectrum of 2*m real numbers of that of m complex ones, the entries k and m - k at once."""
    half = 0.5 * d[c + sc]
    w = c + 2 * sc
    u = w + (m // 2 + 1) * sc
    rows = 1
    count = m // 2
    down = -1
    turn = sc
    if lanes > 1:
        rows = m // 2
        count = lanes
        down = 1
        turn = 0
    for k in range(rows):
        e = opaque(z + (k + 1) * lanes)
        f = opaque(z + (m - 1 - k) * lanes)
        wk = opaque(w + (k + 1) * sc)
        uk = opaque(u + (k + 1) * sc)
        for i in simd(count):
            xr = v[e + i]
            xi = v[e + gap + i]
            yr = v[f + i * down]
            yi = v[f + gap + i * down]
            wr = d[wk + i * turn]
            wi = d[uk + i * turn]
            er = half * (xr + yr)
            ei = half * (xi - yi)
            fr = half * (xi + yi)
            fi = half * (yr - xr)
            re = wr * fr - wi * fi
            im = wr * fi + wi * fr
            v[e + i] = er + re
            v[e + gap + i] = ei + im
            v[f + i * down] = er - re
            v[f + gap + i * down] = im - ei


def pairs_back(v, xv, s, a, b, m, sa, sb, lanes, step_a, step_b, d, c, sc):
    """Do the opposite, up to a factor: from a spectrum at a and b to scratch, its parts exchanged."""
    half = 0.5 * d[c + sc]
    w = c + 2 * sc
    u = w + (m // 2 + 1) * sc
    gap = m * lanes
    rows = 1
    count = m // 2
    down = -1
    turn = sc
    by_a = sa
    by_b = sb
    down_a = -sa
    down_b = -sb
    if lanes > 1:
        rows = m // 2
        count = lanes
        down = 1
        turn = 0
        by_a = step_a
        by_b = step_b
        down_a = step_a
        down_b = step_b
    for k in range(rows):
        e = opaque(s + (k + 1) * lanes)
        f = opaque(s + (m - 1 - k) * lanes)
        ak = opaque(a + (k + 1) * sa)
        bk = opaque(b + (k + 1) * sb)
        al = opaque(a + (m - 1 - k) * sa)
        bl = opaque(b + (m - 1 - k) * sb)
        wk = opaque(w + (k + 1) * sc)
        uk = opaque(u + (k + 1) * sc)
        for i in simd(count):
            xr = xv[ak + i * by_a]
            xi = xv[bk + i * by_b]
            yr = xv[al + i * down_a]
            yi = xv[bl + i * down_b]
            wr = d[wk + i * turn]
            wi = d[uk + i * turn]
            er = half * (xr + yr)
            ei = half * (xi - yi)
            fr = half * (xr - yr)
            fi = half * (xi + yi)
            re = wi * fr - wr * fi
            im = wi * fi + wr * fr
            v[e + i] = ei + im
            v[e + gap + i] = er + re
            v[f + i * down] = im - ei
            v[f + gap + i * down] = er - re


def spectra(v, s, xv, a, n, sa, lanes, step, d, c, sc) -> int:
    """Return where the spectra of real numbers are, one of them in each lane.

    The last entry is real if n is even, and takes the cell of the first one's imaginary part, which is zero,
    if the parts follow one another.
    """
    p = c + place_of_plan(n) * sc
    m = n
    if n % 2 == 0:
        m = n // 2
        take(v, s, xv, a, a + sa, m, 2 * sa, 2 * sa, lanes, step, step)
    else:
        for i in range(n):
            for j in range(lanes):
                v[s + i * lanes + j] = xv[a + i * sa + j * step]
                v[s + (n + i) * lanes + j] = 0.0
    z = transform(v, s, m, lanes, d, p, sc)
    gap = int(d[p]) * lanes
    if n % 2 == 0:
        for j in range(lanes):
            re = v[z + j]
            im = v[z + gap + j]
            v[z + j] = d[c] * (re + im)
            v[z + m * lanes + j] = d[c] * (re - im)
        pairs(v, z, gap, m, lanes, d, c, sc)
        return z
    for j in range(lanes):
        v[z + j] *= d[c]
    for i in parallel(n // 2 * lanes):
        v[z + lanes + i] *= d[c + sc]
        v[z + gap + lanes + i] *= d[c + sc]
    return z


def sequences(v, s, xv, a, b, n, sa, sb, lanes, step_a, step_b, d, c, sc) -> int:
    """Return where the real numbers of spectra are: those at odd places, and behind them the others."""
    p = c + place_of_plan(n) * sc
    m = n
    if n % 2 == 0:
        m = n // 2
        for j in range(lanes):
            first = xv[a + j * step_a]
            last = xv[a + m * sa + j * step_a]
            v[s + j] = d[c] * (first - last)
            v[s + m * lanes + j] = d[c] * (first + last)
        pairs_back(v, xv, s, a, b, m, sa, sb, lanes, step_a, step_b, d, c, sc)
    else:
        for i in parallel(2 * n * lanes):
            v[s + i] = 0.0
        for j in range(lanes):
            v[s + n * lanes + j] = d[c] * xv[a + j * step_a]
        for i in range(1, n // 2 + 1):
            for j in range(lanes):
                v[s + i * lanes + j] = d[c + sc] * xv[b + i * sb + j * step_b]
                v[s + (n + i) * lanes + j] = d[c + sc] * xv[a + i * sa + j * step_a]
    return transform(v, s, m, lanes, d, p, sc)


def put_spectra(v, d, o, a, c, h, n, sa, sc, s, turns, step_o, step_a):
    """Write the spectra of one array of real numbers, or of those of a batch."""
    gap = int(d[c + place_of_plan(n) * sc])
    first = 0
    while first < turns:
        lanes = min(LANES, turns - first)
        z = spectra(v, s, v, a + first * step_a, n, sa, lanes, step_a, d, c, sc)
        for j in range(lanes):
            to = opaque(o + (first + j) * step_o)
            y = opaque(z + gap * lanes + j)
            for k in parallel(h):
                v[to + k] = v[z + j + k * lanes]
                v[to + h + k] = v[y + k * lanes]
            v[to + h] = 0.0
            if n % 2 == 0:
                v[to + 2 * h - 1] = 0.0
        first += lanes


def add_spectra(v, g, d, o, a, b, c, h, n, sa, sb, sc, s, need_a, need_b, turns, step_o, step_a, step_b):
    """Add the spectra of adjoints at o to the adjoints of real and of imaginary parts."""
    gap = int(d[c + place_of_plan(n) * sc])
    first = 0
    while first < turns:
        lanes = min(LANES, turns - first)
        z = spectra(v, s, g, o + first * step_o, n, 1, lanes, step_o, d, c, sc)
        for j in range(lanes):
            if need_a:
                to = opaque(a + (first + j) * step_a)
                for k in parallel(h):
                    g[to + k * sa] += v[z + j + k * lanes]
            if need_b:
                to = opaque(b + (first + j) * step_b + sb)
                y = opaque(z + (gap + 1) * lanes + j)
                for k in parallel((n - 1) // 2):
                    g[to + k * sb] += v[y + k * lanes]
        first += lanes


def put_sequences(v, d, o, a, b, c, n, sa, sb, sc, s, turns, step_o, step_a, step_b):
    """Write the real numbers of one spectrum, or of those of a batch."""
    gap = int(d[c + place_of_plan(n) * sc])
    first = 0
    while first < turns:
        lanes = min(LANES, turns - first)
        z = sequences(
            v, s, v, a + first * step_a, b + first * step_b, n, sa, sb, lanes, step_a, step_b, d, c, sc
        )
        for j in range(lanes):
            to = opaque(o + (first + j) * step_o)
            y = opaque(z + gap * lanes + j)
            if n % 2 == 0:
                for k in range(n // 2):
                    v[to + 2 * k] = v[y + k * lanes]
                    v[to + 2 * k + 1] = v[z + j + k * lanes]
            else:
                for k in parallel(n):
                    v[to + k] = v[y + k * lanes]
        first += lanes


def add_sequences(v, g, d, o, a, c, h, n, sa, sc, s, turns, step_o, step_a):
    """Add the real numbers of the adjoints of spectra at o to adjoints."""
    gap = int(d[c + place_of_plan(n) * sc])
    first = 0
    while first < turns:
        lanes = min(LANES, turns - first)
        by = o + first * step_o
        z = sequences(v, s, g, by, by + h, n, 1, 1, lanes, step_o, step_o, d, c, sc)
        for j in range(lanes):
            to = opaque(a + (first + j) * step_a)
            y = opaque(z + gap * lanes + j)
            if n % 2 == 0:
                for k in range(n // 2):
                    g[to + 2 * k * sa] += v[y + k * lanes]
                    g[to + (2 * k + 1) * sa] += v[z + j + k * lanes]
            else:
                for k in range(n):
                    g[to + k * sa] += v[y + k * lanes]
        first += lanes
