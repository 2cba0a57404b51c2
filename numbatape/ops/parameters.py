"""Derivatives of regularised gamma and beta functions for their parameters, and of Student's law.

There is no closed form: series and continued fractions are differentiated term by term, to a relative error
of about 1e-13 wherever the derivative itself does not cancel. There are no third derivatives with respect
to parameters only: the tracer refuses them where they are needed, not already where a second one is
computed.
"""

# ruff: noqa: E501  (a row is read as a line)
# fmt: off

import math

import numpy as np

from .series import floor, gamma_slope, zeta
from .table import POSITIVE, POSITIVES, PROBABILITY, UNKNOWN, binary, ternary

# ---- the regularised beta function, in the kernel language (`series` has gamma functions')


def beta_factor(a, b, x, rest) -> float:
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


def log_of_rest(x, rest):
    """log(1 - x), where rest is 1 - x."""
    return math.log1p(-x) if x < 0.5 else math.log(rest)


def beta_levels(a, b, x):
    """The level at which `beta_slope` begins with its fraction; it is found as in `gamma_slope`."""
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
    return levels * 1.25 + 10.0 - (levels * 1.25) % 1.0


def beta_slope(p, q, a, b, x, rest, digamma_a, digamma_b, digamma_ab, factor) -> float:
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
    level = beta_levels(a, b, x)
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
    # These are derivatives of the value's logarithm.
    la = math.log(x) - digamma_a + digamma_ab - ta / t
    lb = log_of_rest(x, rest) - digamma_b + 1.0 / b + digamma_ab - tb / t
    if a > 30.0 and b > 30.0:  # This is the same without differences of logarithms.
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
    u = -log_of_rest(near, far)
    return (b + 0.5 * (a - 1.0)) * u if a < b else (a + 0.5 * (b - 1.0)) * u


def uneven_factor(a, b, x, rest, whole) -> float:
    """x**a rest**b / beta(a, b), given y**a exp(-y)/gamma(a) of the smaller parameter at `uneven_place`.

    The beta function's own logarithm is a difference of large ones.
    """
    near = x if a < b else rest
    far = rest if a < b else x
    small = a if a < b else b
    n = b + 0.5 * (a - 1.0) if a < b else a + 0.5 * (b - 1.0)
    u = -log_of_rest(near, far)
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
    u = -log_of_rest(x, rest)
    y = n * u
    r = 1.0 / n
    c = a * (a * a - 1.0) / 24.0 * r * r
    ca = (3.0 * a * a - 1.0) / 24.0 * r * r - c * r
    cb = -2.0 * c * r
    # The whole is y**a exp(-y)/gamma(a), and d its quotient by a.
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


# ---- Student's law, of which the number v of degrees of freedom is from 20 on, in the kernel language


def student_fall(v, t):
    """The derivative for v of -(v + 1)/2 log1p(t*t/v), the tail of the density's logarithm, for any v: a
    function of the share t*t/(v + t*t), by its series where its terms cancel."""
    s = t * t / (v + t * t)
    bow = 1 / 10 + s * (1 / 11 + s * (1 / 12 + s * (1 / 13 + s * (1 / 14 + s * (1 / 15 + s / 16)))))
    bow = 1 / 5 + s * (1 / 6 + s * (1 / 7 + s * (1 / 8 + s * (1 / 9 + s * bow))))
    bow = s * s * (1 / 2 + s * (1 / 3 + s * (1 / 4 + s * bow))) if math.fabs(s) < 0.1 else math.log1p(t * t / v) - s
    return 0.5 * (s / v - bow)


def student_score(v, t):
    """The derivative of the density's logarithm for v at t: that of its tail, and of its height at 0, which
    is an asymptotic series (DLMF 5.11.2)."""
    u = 1.0 / (v * v)
    start = 1365.25 - u * (29049.03125 - u * (800572.75 - u * (27741322.625 - u * 1180529130.25)))
    start = 0.25 - u * (0.125 - u * (0.25 - u * (1.0625 - u * (7.75 - u * (86.375 - u * start)))))
    return u * start + student_fall(v, t)


def student_bend(v, t):
    """The derivative of `student_score` for v."""
    u = 1.0 / (v * v)
    s = t * t / (v + t * t)
    start = 19113.5 - u * (464784.5 - u * (14410309.5 - u * (554826452.5 - u * 25971640865.5)))
    start = 0.5 - u * (0.5 - u * (1.5 - u * (8.5 - u * (77.5 - u * (1036.5 - u * start)))))
    return u * (0.5 * s * ((v - 1.0) * s - 2.0 * (1.0 - s)) - start / v)


def student_rise(n, v, t):
    """How fast t grows with v where the distribution function stays; for n 2.0 the derivative of that for v.

    It solves q' = (v + 1) t/(v + t*t) q - score. Near 0 that is a series of powers of t, and from t*t = 6 on
    an integral: of the score times the density from t on, over the density, by the trapezoidal rule in a
    variable in which both ends fall off doubly exponentially. Neither takes a difference, as the incomplete
    beta function has to: the result is as small as t**3/v**2.
    """
    y = t * t
    if not (y < math.inf and v < math.inf):
        return 0.0 if y == y else math.nan
    if y < 6.0:
        # M and q are coefficients of (v + y)*score and of q; bend and slope are their derivatives for v.
        m, bend = student_score(v, 0.0), student_bend(v, 0.0)
        q, slope, power, j = -m, -bend, 1.0, 1.0
        total, rise = q, slope
        m, bend, ratio = m + 0.5 / v, bend - 0.5 / (v * v), 0.5
        while j < 60.0 and power > 1e-18:
            gain, scale = v + 2.0 - 2.0 * j, 1.0 / (v * (2.0 * j + 1.0))
            slope = (q + gain * slope - bend) * scale
            q = (gain * q - m) * scale
            slope -= q / v
            power *= y
            total += q * power
            rise += slope * power
            j += 1.0
            ratio = -ratio / v
            m = ratio / (j * (j - 1.0))
            bend = (1.0 - j) * m / v
        return t * (total if n == 1.0 else rise)
    sine = math.fabs(t) / math.sqrt(v)
    cosine = math.sqrt(1.0 + sine * sine)
    total, bend, s = 0.0, 0.0, -3.75
    while s < 4.5:
        w = cosine / (v * sine) * math.exp(s - math.exp(-s))
        drop = math.sinh(0.5 * w)
        drop = v * math.log1p(2.0 * drop * drop + sine / cosine * math.sinh(w)) if w < 300.0 else 1e4
        place = math.sqrt(v) * (sine * math.cosh(w) + cosine * math.sinh(w)) if drop < 60.0 else t
        score = student_score(v, place)
        weight = 0.125 * math.exp(-drop) * w * (1.0 + math.exp(-s))
        total += weight * score
        bend += weight * (score * score + student_bend(v, place))
        s += 0.125
    # This factor leads from the variable of the sum to t.
    scale = math.copysign(math.sqrt(v) * cosine, t)
    return scale * (total if n == 1.0 else bend - student_score(v, t) * total)


# ---- texts and rows


def gamma_text(n, a, x):
    """Text of the n-th derivative of gammainc(a, x) for a."""
    factor = f"(sc._igam_fac({a}, {x}) if {a} > 10.0 else {a}*math.exp(sc.xlogy({a}, {x}) - {x} - sc.gammaln({a} + 1.0)))"
    return f"gamma_slope({n}.0, {a}, {x}, sc.psi({a} + 1.0), {factor})"


def gamma_density(a, x):
    """Text of the derivative of gammainc(a, x) for x; the exponential's operand loses all digits of a large a."""
    return f"(sc._igam_fac({a}, {x})/({x}) if {a} > 10.0 and {x} > 0.0 else math.exp(sc.xlogy({a} - 1.0, {x}) - {x} - sc.gammaln({a})))"


def large_beta(a, b, x, rest, scale=""):
    """Begin a text for large a or b inside of the ends, where logarithms of the powers, or of the beta function, lose as many digits as they have."""
    inside = f"{x} > 0.0 and {rest} > 0.0"
    even = f"beta_factor({a}, {b}, {x}, {rest}){scale} if {a} > 30.0 and {b} > 30.0 and {inside}"
    if "0.5" in (a, b):  # The function is that of Student's law, whose other parameter is small.
        return even
    uneven = f"uneven_factor({a}, {b}, {x}, {rest}, sc._igam_fac({a} if {a} < {b} else {b}, uneven_place({a}, {b}, {x}, {rest}))){scale} if unevenness({a}, {b}) > 0.0 and {inside}"
    return f"{uneven} else {even}"


def beta_density(a, b, x):
    """Text of the derivative of betainc(a, b, x) for x."""
    large = large_beta(a, b, x, f"1.0 - {x}", f"/({x}*(1.0 - {x}))")
    return f"({large} else math.exp(sc.xlogy({a} - 1.0, {x}) + sc.xlog1py({b} - 1.0, -{x}) - sc.betaln({a}, {b})))"


def beta_text(p, q, a, b, x, rest=None):
    """Text of the derivative of betainc(a, b, x), p times for a and q times for b; rest is 1 - x."""
    digammas = f"sc.psi({a} + 1.0), sc.psi({b} + 1.0), sc.psi({a} + {b})"
    rest = rest or f"1.0 - {x}"
    power = f"sc.xlogy({b}, {rest})" if rest != f"1.0 - {x}" else f"sc.xlog1py({b}, -{x})"
    factor = f"({large_beta(a, b, x, rest)} else math.exp(sc.xlogy({a}, {x}) + {power} - sc.betaln({a}, {b})))"
    return f"beta_slope({p}.0, {q}.0, {a}, {b}, {x}, {rest}, {digammas}, {factor})"


def _vectorised(text, names):
    """Return a formula as a function of arrays: what the rows' own values are compared with."""
    def function(*args):
        """Evaluate the formula for each entry; what raises in Python is NaN."""
        import types

        import scipy.special

        special = types.SimpleNamespace(_igam_fac=scipy.special._ufuncs._igam_fac, **{name: getattr(scipy.special, name) for name in ("psi", "xlogy", "xlog1py", "gammaln", "betaln")})
        scope = {**globals(), "sc": special}
        code = compile(text, "<formula>", "eval")

        def one(*values):
            try:
                return eval(code, scope, dict(zip(names, map(np.float64, values), strict=True)))
            except (ArithmeticError, ValueError):  # `math` raises where compiled code gives inf or NaN
                return np.nan

        with np.errstate(all="ignore"):
            return np.vectorize(one, otypes=[float])(*args)[()]

    return function


def _of_gamma(name, text, **options):
    binary(name, text, _vectorised(text, "xy"), POSITIVES, **options)


def _of_beta(name, text, **options):
    ternary(name, text, _vectorised(text, "xyw"), (POSITIVE, POSITIVE, PROBABILITY), **options)


_THIRD_OF_GAMMA = "gammainc (of gammainc, gammaincc, their inverses, chdtr, gdtr and the distributions made of them)"
_THIRD_OF_BETA = "betainc (of betainc, betaincc, their inverses, stdtr, fdtr and the distributions made of them)"

_GAMMA_DENSITY = gamma_density("x", "y")
_BETA_DENSITY = beta_density("x", "y", "w")
_FOR_A = "(math.log(w) - sc.psi(x) + sc.psi(x + y))"
_FOR_B = "(math.log1p(-w) - sc.psi(y) + sc.psi(x + y))"

_of_gamma("gamma_factor", "sc._igam_fac(x, y)", dx="z*(math.log(y) - sc.psi(x))", dy="z*(x/y - 1.0)", dxx="dx*(math.log(y) - sc.psi(x)) - z*zeta(2.0, x)",
     dxy="dy*(math.log(y) - sc.psi(x)) + z/y", dyy="dy*(x/y - 1.0) - z*x/y/y")
_of_gamma("gammainc_a",  gamma_text(1, "x", "y"), dx=gamma_text(2, "x", "y"), dy=f"strong_mul({_GAMMA_DENSITY}, math.log(y) - sc.psi(x))",
     dxy="dy*(math.log(y) - sc.psi(x)) - dy/(math.log(y) - sc.psi(x))*zeta(2.0, x)", dyy=f"dy*((x - 1.0)/y - 1.0) + {_GAMMA_DENSITY}/y")
_of_gamma("gammainc_aa", gamma_text(2, "x", "y"), third_of=_THIRD_OF_GAMMA, dx=UNKNOWN, dy=f"{_GAMMA_DENSITY}*((math.log(y) - sc.psi(x))*(math.log(y) - sc.psi(x)) - zeta(2.0, x))")
_of_beta("betainc_a",   beta_text(1, 0, "x", "y", "w"), dx=beta_text(2, 0, "x", "y", "w"), dy=beta_text(1, 1, "x", "y", "w"), dw=f"strong_mul({_BETA_DENSITY}, {_FOR_A})",
     second={"xw": f"dw*{_FOR_A} + {_BETA_DENSITY}*(zeta(2.0, x + y) - zeta(2.0, x))", "yw": f"dw*{_FOR_B} + {_BETA_DENSITY}*zeta(2.0, x + y)", "ww": f"dw*((x - 1.0)/w - (y - 1.0)/(1.0 - w)) + {_BETA_DENSITY}/w"})
_of_beta("betainc_b",   beta_text(0, 1, "x", "y", "w"), dx=beta_text(1, 1, "x", "y", "w"), dy=beta_text(0, 2, "x", "y", "w"), dw=f"strong_mul({_BETA_DENSITY}, {_FOR_B})",
     second={"xw": f"dw*{_FOR_A} + {_BETA_DENSITY}*zeta(2.0, x + y)", "yw": f"dw*{_FOR_B} + {_BETA_DENSITY}*(zeta(2.0, x + y) - zeta(2.0, y))", "ww": f"dw*((x - 1.0)/w - (y - 1.0)/(1.0 - w)) - {_BETA_DENSITY}/(1.0 - w)"})
_of_beta("betainc_aa",  beta_text(2, 0, "x", "y", "w"), third_of=_THIRD_OF_BETA, dx=UNKNOWN, dy=UNKNOWN, dw=f"{_BETA_DENSITY}*({_FOR_A}*{_FOR_A} + zeta(2.0, x + y) - zeta(2.0, x))")
_of_beta("betainc_ab",  beta_text(1, 1, "x", "y", "w"), third_of=_THIRD_OF_BETA, dx=UNKNOWN, dy=UNKNOWN, dw=f"{_BETA_DENSITY}*({_FOR_A}*{_FOR_B} + zeta(2.0, x + y))")
_of_beta("betainc_bb",  beta_text(0, 2, "x", "y", "w"), third_of=_THIRD_OF_BETA, dx=UNKNOWN, dy=UNKNOWN, dw=f"{_BETA_DENSITY}*({_FOR_B}*{_FOR_B} + zeta(2.0, x + y) - zeta(2.0, y))")
