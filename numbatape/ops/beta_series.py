"""Derivatives of the regularised beta function for its parameters, in the kernel language."""

import math

from .series import floor, gamma_slope, zeta


def beta_factor(a, b, x, rest):
    """x**a rest**b / beta(a, b) for a and b from 30 on, which are huge, all three.

    The height of the peak is taken by Stirling's series, and the powers of x and rest over a/(a + b) and
    b/(a + b), which are near 1.
    """
    gap = x * b - rest * a
    height = stirling_rest(a + b) - stirling_rest(a) - stirling_rest(b)
    height = height + (a * log1p_rest(gap / a) + b * log1p_rest(-gap / b))
    return math.exp(height) * math.sqrt(a / (a + b) * b) * 0.3989422804014327


def stirling_rest(x):
    """What log(gamma(x)) has beyond (x - 1/2) log(x) - x + log(2 pi)/2, for x >= 30 (DLMF 5.11.1)."""
    u = 1.0 / (x * x)
    return (1 / 12 - u * (1 / 360 - u * (1 / 1260 - u * (1 / 1680 - u / 1188)))) / x


def digamma_rest(x):
    """The digamma function less the logarithm, for x >= 30 (DLMF 5.11.2)."""
    u = 1.0 / (x * x)
    return -0.5 / x - u * (1 / 12 - u * (1 / 120 - u * (1 / 252 - u * (1 / 240 - u / 132))))


def log1p_rest(x):
    """log(1 + x) - x, by a series of x/(2 + x) where these are near one another."""
    r = x / (2.0 + x)
    u = r * r
    tail = 2 / 9 + u * (2 / 11 + u * (2 / 13 + u * (2 / 15 + u * (2 / 17))))
    near = r * u * (2 / 3 + u * (2 / 5 + u * (2 / 7 + u * tail))) - x * r
    return near if math.fabs(x) < 0.2 else math.log1p(x) - x


def beta_slope(p, q, a, b, x, rest, digamma_a, digamma_b, digamma_ab, factor):
    """The derivative of betainc(a, b, x) p times for a and q times for b, p + q 1.0 or 2.0.

    The continued fraction of DLMF 8.17.22, differentiated level by level from behind (Boik and
    Robison-Cox 1998), on the side where it converges fast. ``rest`` is 1 - x, the digammas
    are those of a + 1, b + 1 and a + b, factor x**a (1 - x)**b / beta(a, b).
    """
    if not (a > 0.0 and b > 0.0 and x >= 0.0 and rest >= 0.0):
        return math.nan
    if factor == 0.0:
        return 0.0
    sign = 1.0
    uneven = unevenness(a, b) > 0.0
    if a > b if uneven else x * (a + b + 2.0) > a + 1.0:
        sign = -1.0
        a, b, x, rest = b, a, rest, x
        p, q = q, p
        digamma_a, digamma_b = digamma_b, digamma_a
    if uneven:
        return sign * uneven_beta_slope(p, q, a, b, x, rest, digamma_a, factor)
    # The number of levels is found as in gamma_slope.
    near, levels, c, d, ratio = floor(b) + 0.5, 0.0, 1.0, 0.0, 0.0
    while math.fabs(ratio - 1.0) > 3e-16 and levels < 1e7:
        m = floor(0.5 * (levels + 1.0))
        if levels % 2.0 == 0.0:
            e = -(a + m) * (a + near + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0))
        else:
            e = m * (near - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m))
        d = 1.0 + e * d
        d = 1.0 / (d if math.fabs(d) > 1e-300 else 1e-300)
        c = 1.0 + e / c
        c = c if math.fabs(c) > 1e-300 else 1e-300
        ratio = c * d
        levels += 1.0
    level = levels * 1.25 + 10.0 - (levels * 1.25) % 1.0
    t, ta, tb, taa, tab, tbb = 1.0, 0.0, 0.0, 0.0, 0.0, 0.0
    while level >= 0.0:
        m = floor(0.5 * (level + 1.0))
        if level % 2.0 == 0.0:
            e = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0))
            r1, r2, r3, r4 = 1.0 / (a + m), 1.0 / (a + b + m), 1.0 / (a + 2.0 * m), 1.0 / (a + 2.0 * m + 1.0)
            slope = r1 + r2 - r3 - r4
            ea, eb = e * slope, e * r2
            eaa = e * (slope * slope - r1 * r1 - r2 * r2 + r3 * r3 + r4 * r4)
            eab, ebb = e * (slope * r2 - r2 * r2), 0.0
        else:
            eb = m * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m))
            e = eb * (b - m)
            r3, r4 = 1.0 / (a + 2.0 * m - 1.0), 1.0 / (a + 2.0 * m)
            slope = -r3 - r4
            ea, eab = e * slope, eb * slope
            eaa, ebb = e * (slope * slope + r3 * r3 + r4 * r4), 0.0
        u = e / t
        ua, ub = (ea - u * ta) / t, (eb - u * tb) / t
        uaa = (eaa - 2.0 * ua * ta - u * taa) / t
        uab = (eab - ua * tb - ub * ta - u * tab) / t
        ubb = (ebb - 2.0 * ub * tb - u * tbb) / t
        t, ta, tb, taa, tab, tbb = 1.0 + u, ua, ub, uaa, uab, ubb
        level -= 1.0
    value = sign * factor / (a * t)
    # derivatives of the value's logarithm
    la = math.log(x) - digamma_a + digamma_ab - ta / t
    lb = (math.log1p(-x) if x < 0.5 else math.log(rest)) - digamma_b + 1.0 / b + digamma_ab - tb / t
    if a > 30.0 and b > 30.0:  # the same without differences of logarithms
        gap = x * b - rest * a
        la = math.log1p(gap / a) - digamma_rest(a) - 1.0 / a + digamma_rest(a + b) - ta / t
        lb = math.log1p(-gap / b) - digamma_rest(b) + digamma_rest(a + b) - tb / t
    if p == 1.0 and q == 0.0:
        return value * la
    if p == 0.0 and q == 1.0:
        return value * lb
    both = zeta(2.0, a + b)
    if p == 1.0:
        return value * (la * lb + both - tab / t + ta * tb / (t * t))
    if p == 2.0:
        return value * (la * la + both - zeta(2.0, a + 1.0) - taa / t + ta * ta / (t * t))
    return value * (lb * lb + both - zeta(2.0, b + 1.0) - 1.0 / (b * b) - tbb / t + tb * tb / (t * t))


def unevenness(a, b):
    """Positive where one parameter is so large that `uneven_beta_slope` keeps 13 digits; NaN at infinity."""
    small = a if a < b else b
    large = b if a < b else a
    return large - 400.0 * small * math.sqrt(small) - 1e4 + 0.0 * large


def uneven_place(a, b, x, rest):
    """The place at which the gamma function of the smaller parameter is like the beta function."""
    near = x if a < b else rest
    far = rest if a < b else x
    u = -math.log1p(-near) if near < 0.5 else -math.log(far)
    return (b + 0.5 * (a - 1.0)) * u if a < b else (a + 0.5 * (b - 1.0)) * u


def uneven_factor(a, b, x, rest, whole):
    """x**a rest**b / beta(a, b), given y**a exp(-y)/gamma(a) of the smaller parameter at `uneven_place`.

    The beta function's own logarithm is a difference of large ones.
    """
    near = x if a < b else rest
    far = rest if a < b else x
    small = a if a < b else b
    n = b + 0.5 * (a - 1.0) if a < b else a + 0.5 * (b - 1.0)
    u = -math.log1p(-near) if near < 0.5 else -math.log(far)
    c = small * (small * small - 1.0) / 24.0 / n / n
    return whole / (1.0 + c) * math.exp(0.5 * (small - 1.0) * u - small * math.log(u / near))


def uneven_beta_slope(p, q, a, b, x, rest, digamma, factor):
    """`beta_slope` for b that is much larger than a, where the continued fraction loses digits as 1/b.

    With t = -log(1 - s) the integrand is exp(-N t) (2 sinh(t/2))**(a - 1), N = b + (a - 1)/2. The power of
    the sine is t**(a - 1) (1 + (a - 1) t*t/24 + ...), so betainc is gammainc(a, y), y = N u, u = -log(1 - x),
    and a correction of the order of a**3/N**2, here c times ``e``; the next one is below 1e-13 (Didonato and
    Morris 1992). ``digamma`` is that of a + 1.
    """
    n = b + 0.5 * (a - 1.0)
    u = -math.log1p(-x) if x < 0.5 else -math.log(rest)
    y = n * u
    r = 1.0 / n
    c = a * (a * a - 1.0) / 24.0 * r * r
    ca = (3.0 * a * a - 1.0) / 24.0 * r * r - c * r
    cb = -2.0 * c * r
    # y**a exp(-y)/gamma(a), and its quotient by a
    whole = factor * (1.0 + c) * math.exp(a * math.log(u / x) - 0.5 * (a - 1.0) * u)
    d = whole / a
    density, gap = whole / y, math.log(y) - digamma
    s = 1.0 / (a + 1.0)
    rise = a / y - y * s
    e, ey = d * (1.0 + y * s), d * rise
    ea = d * (gap * (1.0 + y * s) - y * s * s)
    if p == 1.0 and q == 0.0:
        return gamma_slope(1.0, a, y, digamma, whole) + 0.5 * u * density - ca * e - c * (ea + 0.5 * u * ey)
    if p == 0.0 and q == 1.0:
        return u * density - cb * e - c * u * ey
    bend = density * ((a - 1.0) / y - 1.0)
    eyy = d * ((a / y - 1.0) * rise - a / (y * y) - s)
    if p == 0.0:
        return u * u * bend - 6.0 * c * r * r * e - 2.0 * cb * u * ey - c * u * u * eyy
    mixed = density * (gap + 1.0 / a)
    eay = d * (gap * rise + 1.0 / y + y * s * s)
    if q == 1.0:
        cab = (3.0 * c - (3.0 * a * a - 1.0) / 12.0 * r) * r * r
        total = u * (mixed + 0.5 * u * bend) - cab * e - cb * (ea + 0.5 * u * ey) - ca * u * ey
        return total - c * u * (eay + 0.5 * u * eyy)
    caa = (0.25 * a - (3.0 * a * a - 1.0) / 24.0 * r + 0.5 * c) * r * r - ca * r
    eaa = d * ((gap * gap - zeta(2.0, a + 1.0)) * (1.0 + y * s) - 2.0 * gap * y * s * s + 2.0 * y * s * s * s)
    total = gamma_slope(2.0, a, y, digamma, whole) + u * mixed + 0.25 * u * u * bend
    return total - caa * e - 2.0 * ca * (ea + 0.5 * u * ey) - c * (eaa + u * eay + 0.25 * u * u * eyy)
