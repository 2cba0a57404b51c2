"""Scalar functions that formulas call by name: kernel language, floats in, float out.

A function is here if a plain expression would cancel, overflow or need two statements;
what a single expression can compute is written in the op's row.
"""

import math

from .parameters import (  # noqa: F401  (formulas call them)
    beta_factor,
    beta_slope,
    log1p_rest,
    log_of_rest,
    stirling_rest,
    student_bend,
    student_fall,
    student_rise,
    student_score,
    uneven_factor,
    uneven_place,
    unevenness,
)
from .series import (  # noqa: F401
    floor,
    gamma_slope,
    kolmogorov_slope,
    kve_slope,
    ldexp,
    power_fall,
    psi_rise,
    rint,
    trigamma,
    zeta,
    zeta_rise,
)


def sign(x):
    return 1.0 if x > 0.0 else -1.0 if x < 0.0 else x + 0.0  # x + 0.0 is +0.0 for both zeros, and NaN for NaN


def share(x, y):
    """The larger operand's share of the adjoint, as seen by x; a tie is shared equally."""
    return 1.0 if x > y else 0.5 if x == y else 0.0


def upper_share(x, y):
    """The share of x in the adjoint of the larger of two operands, which is NaN where one of them is."""
    return share(x, y) if x == x else 1.0


def lower_share(x, y):
    """The share of x in the adjoint of the smaller of two operands, which is NaN where one of them is."""
    return share(y, x) if x == x else 1.0


def upper_number_share(x, y):
    """The share of x in the adjoint of the larger of two operands, or of the one that is not NaN."""
    return share(x, y) if y == y else 1.0


def lower_number_share(x, y):
    """The share of x in the adjoint of the smaller of two operands, or of the one that is not NaN."""
    return share(y, x) if y == y else 1.0


def gap(x, y):
    """x - y, and zero between equal infinities."""
    return x - y if x != y else 0.0


def strong_mul(x, y):
    """x*y, and zero where either is zero, whatever the other is."""
    return x * y if x != 0.0 and y != 0.0 else 0.0


# Exponentials of -|x| only: nothing overflows and no 1 - z cancels.


def logistic(x):
    e = math.exp(-math.fabs(x))
    return (1.0 if x >= 0.0 else e) / (1.0 + e)


def expit_slope(x, z):
    """The derivative z*(1 - z) of z = logistic(x), by the larger of the two factors and exp(-|x|)."""
    upper = z if x >= 0.0 else 1.0 - z
    return math.exp(-math.fabs(x)) * (upper * upper)


def logistic_slope(x):
    e = math.exp(-math.fabs(x))
    return e / ((1.0 + e) * (1.0 + e))


def tanh_slope(x, z):
    """The derivative 1 - z*z of z = tanh(x), by 1 - |z| = exp(-2|x|)*(1 + |z|): without a division."""
    upper = 1.0 + math.fabs(z)
    return math.exp(-2.0 * math.fabs(x)) * (upper * upper)


def logaddexp(x, y):
    if x == y:
        return x + 0.6931471805599453  # equal infinities come here as well: their difference would be NaN
    return max(x, y) + math.log1p(math.exp(-math.fabs(x - y)))


def logaddexp2(x, y):
    if x == y:
        return x + 1.0
    return max(x, y) + 1.4426950408889634 * math.log1p(math.exp2(-math.fabs(x - y)))


# Powers and lengths.


def far_power(x, y):
    """x**y by the C library: in cells that few vectors have, so that SIMD code computes them one by one."""
    return math.pow(x, y)


def power_slope(x, y, z):
    """d/dx of z = x**y. z/x needs no second pow, and y - 1 would round; never a log."""
    if y == 0.0:
        return 0.0
    if 1e-290 < math.fabs(z) < 1e290:
        return y * (z / x)
    return y * far_power(x, y - 1.0)


def power_rise(x, y, z):
    """d/dy of z = x**y."""
    return 0.0 if x == 0.0 and y >= 0.0 else z * math.log(x)


def signed_power(x, y, z):
    """x**y, given that of |x|."""
    if math.copysign(1.0, x) > 0.0:
        return z
    if floor(y) != y:
        return z if x == 0.0 or x == -math.inf else math.nan
    return z if floor(0.5 * y) == 0.5 * y else -z


def hypot(x, y):
    """Within an ulp, and infinite for (inf, nan)."""
    z = math.sqrt(x * x + y * y)
    return z if 1e-140 < z < 1e150 or (x == 0.0 and y == 0.0) else far_hypot(x, y)


def far_hypot(x, y):
    if math.fabs(x) == math.inf or math.fabs(y) == math.inf:
        return math.inf
    # The two numbers are 2**600 and 2**-600.
    scale = 4.149515568880993e180 if math.fabs(x) + math.fabs(y) < 1.0 else 2.409919865102884e-181
    return math.sqrt((scale * x) * (scale * x) + (scale * y) * (scale * y)) / scale


def turn(x, y):
    """y / (x*x + y*y), in range wherever the operands and the result are."""
    square = x * x + y * y
    return y / square if 1e-280 < square < 1e290 else far_turn(x, y)


def far_turn(x, y):
    r = hypot(x, y)
    return y / r / r


# Remainders.


def remainder(x, y):
    """x % y. A quotient of up to 26 bits times each half of y is exact, and so are the differences."""
    ratio = x / y
    quotient = math.copysign(floor(math.fabs(ratio)), ratio)
    z = 134217729.0 * y
    high = z - (z - y)
    rest = x - quotient * high - quotient * (y - high)
    rest = rest + y if (rest < 0.0 and y > 0.0) or (rest > 0.0 and y < 0.0) else rest
    rest = math.copysign(rest, y)
    return rest if math.fabs(quotient) < 6e7 and 1e-280 < math.fabs(y) < 1e290 else far_remainder(x, y)


def far_remainder(x, y):
    return x % y


# ---- sin(t) / t


def sinc(x):
    t = 3.141592653589793 * (x if x != 0.0 else 1e-20)  # NumPy's own formula
    return math.sin(t) / t


def sinc_bend(t):
    """(d/dt sin(t)/t) / t; its Taylor series where the difference cancels."""
    u = t * t
    if u > 0.01:
        return (math.cos(t) - math.sin(t) / t) / u
    return -(1.0 - u * (0.1 - u * (1.0 / 280.0 - u * (1.0 / 15120.0)))) / 3.0


# What derivatives of special functions consist of.


def logit(x):
    """log(x/(1 - x)) with small relative error near one half."""
    return math.log1p((2.0 * x - 1.0) / (1.0 - x)) if 0.3 < x < 0.65 else math.log(x / (1.0 - x))


def log_ratio(x, y):
    """log(x/y) with small relative error near x == y."""
    return math.log1p((x - y) / y) if 0.5 * y < x < 2.0 * y else math.log(x / y)


def exprel_slope(x):
    """d/dx of (exp(x) - 1)/x by its Taylor series, for |x| < 0.03."""
    return 0.5 + x * (1 / 3 + x * (1 / 8 + x * (1 / 30 + x * (1 / 144 + x * (1 / 840 + x / 5760)))))


def exprel_bend(x):
    """d/dx of `exprel_slope`, for |x| < 0.03."""
    return 1 / 3 + x * (1 / 4 + x * (1 / 10 + x * (1 / 36 + x * (1 / 168 + x / 960))))


def erfc_ratio(n, x):
    """i^n erfc(x) / i^(n-1) erfc(x) for x >= 2, n 1.0, 2.0, ...: a continued fraction of positive
    terms (DLMF 7.18(v)), where the differences that define the repeated integrals cancel. The larger x, the
    fewer levels keep 16 digits. Below 2 there are none: tapes that have both cases of a choice go there, and
    do not use the result."""
    k = 2.0 * n + 8.0 + floor(360.0 / (x * x)) if x >= 2.0 else n
    ratio = 1.0 / (x + math.sqrt(x * x + 2.0 * k))
    while k > n:
        ratio = 1.0 / (2.0 * (x + k * ratio))
        k -= 1.0
    return ratio


def i0e_gap(x, i0e, i1e):
    """i0e(x) - |i1e(x)|; its asymptotic series (DLMF 10.40.1) where the difference cancels."""
    if math.fabs(x) < 200.0:
        return i0e - math.fabs(i1e)
    t = 1.0 / math.fabs(x)
    series = 25 / 128 + t * (13 / 32 + t * (1073 / 1024))
    return i0e * t * (0.5 + t * (1 / 8 + t * (1 / 8 + t * series)))


def i1e_bend(x, i1e, slope):
    """The second derivative of i1e for large |x|, from Bessel's equation and the first."""
    t = 1.0 / math.fabs(x)
    a = math.fabs(i1e) * t
    gap = slope + a
    return sign(x) * (a - 2.0 * gap + t * (2.0 * a - gap))


# Slopes of scaled Bessel functions far out lose all digits as differences of neighbouring orders: they are as
# small as z/x, and the terms of the recurrences as large as z. Debye's expansions (DLMF 10.41.3 to 10.41.6)
# hold for all orders v >= 0 at once, because their polynomials are those in (v/h)**2 over powers of h, the
# root of v*v + x*x. That of the function and that of its derivative agree in the first term, and their
# difference is known term by term. Six terms are exact from x = 300 on.


def debye_sum(q, t):
    """The expansion of the function itself, after its first term, which is 1."""
    third = 0.0732421875 - q * (0.8912109375 - q * (1.8464626736111112 - q * 1.0258125964506173))
    fourth = 0.112152099609375 - q * (
        2.3640869140625 - q * (8.78912353515625 - q * (11.207002616222994 - q * 4.669584423426247))
    )
    fifth = 42.53499874538846 - q * (91.81824154324002 - q * (84.63621767460073 - q * 28.212072558200244))
    fifth = 0.22710800170898438 - q * (7.368794359479632 - q * fifth)
    second = 0.0703125 - q * (0.4010416666666667 - q * 0.3342013888888889)
    return t * (0.125 - q * 0.20833333333333334 + t * (second + t * (third + t * (fourth + t * fifth))))


def debye_excess(q, t):
    """How much twice the difference of the two expansions is over its first term, which is 1."""
    third = 0.5126953125 - q * (9.8033203125 - q * (27.696940104166668 - q * 19.490438532561728))
    fourth = 149.41510009765624 - q * (235.34705494068288 - q * 116.73961058565618)
    fourth = 1.009368896484375 - q * (30.7331298828125 - q * fourth)
    fifth = 808.1649761623806 - q * (2111.8195555545206 - q * (2285.1778772142198 - q * 874.5742493042076))
    fifth = 2.498188018798828 - q * (110.53191539449448 - q * fifth)
    second = 0.3515625 - q * (3.609375 - q * 4.344618055555556)
    return t * (0.375 - q * 1.4583333333333333 + t * (second + t * (third + t * (fourth + t * fifth))))


def scaled_fall(side, v, x):
    """The slope of the logarithm of ive (side 1.0) or kve (side -1.0) from x = 300 on."""
    order = math.fabs(v)
    wide = order > x
    r = x / order if wide else order / x
    larger = 1.0 / math.sqrt(1.0 + r * r)
    cosine = r * larger if wide else larger  # x/h
    sine = larger if wide else r * larger  # v/h
    inverse = larger / order if wide else larger / x  # 1/h
    q, t = sine * sine, side * inverse
    ratio = (1.0 + debye_excess(q, t)) / (1.0 + debye_sum(q, t))
    return side * (order / x) * (sine / (1.0 + cosine)) - 0.5 * cosine * inverse * ratio


def scaled_bend(side, v, x):
    """The second derivative of ive or kve over the function, by Bessel's equation, from x = 300 on."""
    order = math.fabs(v)
    wide = order > x
    r = x / order if wide else order / x
    larger = 1.0 / math.sqrt(1.0 + r * r)
    cosine = r * larger if wide else larger
    sine = larger if wide else r * larger
    inverse = larger / order if wide else larger / x
    q, t = sine * sine, side * inverse
    below = debye_sum(q, t)
    rest = (debye_excess(q, t) - below) / (1.0 + below)
    turn = (order / x) * (sine / (1.0 + cosine))
    return turn * turn + side * (cosine * rest - sine * (order / x)) * inverse - scaled_fall(side, v, x) / x


def chi2_far(x, k, w, ive):
    """Twice the density of the noncentral chi-squared law at x, for k degrees of freedom and noncentrality w.

    The Bessel function, of order k/2 - 1 at the root of x*w, is a factor. At large orders it underflows where
    the power of x/w overflows: there it is taken by Debye's expansion, whose first term has that power.
    """
    if not (x > 0.0 and w > 0.0):
        return math.nan
    order = 0.5 * k - 1.0
    if ive > 1e-100 or not order > 100.0:
        gap = math.sqrt(x) - math.sqrt(w)
        return math.exp(0.5 * order * math.log(x / w) - 0.5 * gap * gap) * ive
    h = math.sqrt(order * order + x * w)
    q = order / h
    exponent = order * math.log(x / (order + h)) + h - 0.5 * (x + w) + math.log1p(debye_sum(q * q, 1.0 / h))
    return math.exp(exponent) * 0.3989422804014327 / math.sqrt(h)
