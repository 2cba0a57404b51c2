"""Elementary functions in the kernel language, without calls: loops over `simd` compute eight cells at once.

NumPy has SIMD code for some of these functions on some processors, and SciPy has none. These take one to
three nanoseconds per cell everywhere. All arithmetic is that of IEEE 754 on float64, without fused
multiply-adds, so a result has the same bits on every machine, for one cell and in a vector.
``tests/engine/test_elementary.py`` holds them to 1.5 ulp.

Methods and coefficients are those of fdlibm (Sun Microsystems, 1993) where nothing else is said. Each case of
a function is computed and one result is chosen, because SIMD lanes can't take different branches.
"""

import math

from ..jit.language import bits_of, float_of, horner

# Adding this rounds a float below 2**51 to an integer, which is then in the last bits of the sum.
SHIFT = 6755399441055744.0  # 1.5 * 2**52
LN2_HIGH = 6.93147180369123816490e-01  # 33 bits, so that products with exponents are exact
LN2_LOW = 1.90821492927058770002e-10
FAR = 1e6  # Beyond this `near_sin` and `near_cos` do not reduce their argument exactly.


def power_of_two(k):
    """2**k for a whole k from -1022 to 1023."""
    return float_of(bits_of(k + (SHIFT + 1023.0)) << 52)


def exp_rest(r):
    """(exp(r) - 1 - r)/r**2 for |r| < 0.3467: a Chebyshev fit, error 1e-18."""
    z = r * r
    low = (
        0.16666666666666669
        + r * 0.041666666666666664
        + z * (0.008333333333330051 + r * 0.0013888888888886545)
    )
    high = (
        0.00019841269863105968
        + r * 2.4801587317181886e-05
        + z * (2.7557268378684192e-06 + r * 2.755728291148268e-07)
    )
    return 0.5 + r * (low + z * z * (high + z * z * (2.5100424157005067e-08 + r * 2.0911264239196083e-09)))


def fast_exp(x):
    return exp_of_sum(x, 0.0)


def exp_of_sum(x, rest):
    """exp(x + rest) for a rest that is far smaller than one."""
    z = scaled_exp(x, rest, 0.0)
    z = math.inf if x > 709.782712893384 else z
    return 0.0 if x < -745.1332191019412 else z


def scaled_exp(x, rest, more):
    """exp(x + rest) * 2**more, which is in range; a small whole ``more``."""
    k = (1.4426950408889634 * x + SHIFT) - SHIFT
    high = x - k * LN2_HIGH
    low = k * LN2_LOW - rest
    r = high - low
    z = 1.0 + (high + (r * r * exp_rest(r) - low))
    k += more
    half = (0.5 * k + SHIFT) - SHIFT  # the power 2**k is applied in two steps, because it may be out of range
    return z * power_of_two(half) * power_of_two(k - half)


def half_exp(x):
    """exp(x)/2 for x >= 0: it is in range where a hyperbolic sine is."""
    z = scaled_exp(x, 0.0, -1.0)
    return math.inf if x > 710.4758600739439 else z


def fast_cosh(x):
    e = half_exp(math.fabs(x))
    return e + 0.25 / e


def fast_sinh(x):
    """A difference of exponentials, and Taylor's polynomial up to 1, where that loses digits.

    The exponential is `half_exp`, step by step, because what rounding it has lost is added to the difference.
    """
    a = math.fabs(x)
    k = (1.4426950408889634 * a + SHIFT) - SHIFT
    high = a - k * LN2_HIGH
    low = k * LN2_LOW
    r = high - low
    rise = high + (r * r * exp_rest(r) - low)
    e = 1.0 + rise
    lost = rise - (e - 1.0)
    k -= 1.0
    half = (0.5 * k + SHIFT) - SHIFT
    e = e * power_of_two(half) * power_of_two(k - half)
    lost = lost * power_of_two(half) * power_of_two(k - half)
    far = math.inf if a > 710.4758600739439 else e - (0.25 / e - lost)
    z = a * a
    u = z * z
    near = 1 / 6 + z * (1 / 120) + u * (1 / 5040 + z * (1 / 362880))
    near += (
        u * u * (1 / 39916800 + z * (1 / 6227020800) + u * (1 / 1307674368000 + z * (1 / 355687428096000)))
    )
    z = a + a * z * near if a < 1.0 else far
    return math.copysign(z, x) if x == x else x


def fast_cbrt(x):
    """FreeBSD's: a third of the exponent, a polynomial, rounding to 23 bits, a step of Newton's method."""
    a = math.fabs(x)
    small = a < 2.2250738585072014e-308
    a = 18014398509481984.0 * a if small else a  # 2**54 times a subnormal number
    k = float_of((bits_of(a) >> 32) + 4841369599423283200) - 4503599627370496.0
    t = float_of(bits_of(math.floor(k * 0.3333333333333333) + (4503599627370496.0 + 715094163.0)) << 32)
    r = t * t * (t / a)
    t = t * (
        horner(r, 1.87595182427177009643, -1.88497979543377169875, 1.621429720105354466140)
        + r * r * r * (-0.758397934778766047437 + r * 0.145996192886612446982)
    )
    t = float_of((bits_of(t) + 0x80000000) & -0x40000000)
    r = a / (t * t)
    t = t + t * ((r - t) / (t + t + r))
    t = 3.814697265625e-06 * t if small else t
    return math.copysign(t, x) if x != 0.0 and a < math.inf else x


def fast_expm1(x):
    """2**k (1 + p) - 1, where the large parts are added exactly; half of it, for 2**1024 is out of range."""
    k = (1.4426950408889634 * x + SHIFT) - SHIFT
    high = x - k * LN2_HIGH
    low = k * LN2_LOW
    r = high - low
    scale = power_of_two(k - 1.0)
    one = scale - 0.5
    part = scale * high
    total = one + part
    back = total - one
    lost = (one - (total - back)) + (part - back)
    z = 2.0 * (total + (lost + scale * (r * r * exp_rest(r) - low)))
    z = math.inf if x > 709.782712893384 else z
    z = -1.0 if x < -40.0 else z
    return x if math.fabs(x) < 1e-17 else z


def log_rest(f):
    """log(1 + f) - f + f**2/2, for 1 + f from 0.7 to 1.42."""
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    even = w * horner(w, 3.999999999940941908e-01, 2.222219843214978396e-01,
                      1.531383769920937332e-01)  # fmt: skip
    odd = z * horner(w, 6.666666666666735130e-01, 2.857142874366239149e-01, 1.818357216161805012e-01,
                     1.479819860511658591e-01)  # fmt: skip
    return s * (0.5 * f * f + (even + odd))


def log_exponent(x):
    """The exponent of a normal x that leaves a mantissa from 0.7071 to 1.4142, beside 1023."""
    return (bits_of(x) - 4604544271217802189 + 4607182418800017408) >> 52 & 0xFFF


def fast_log(x):
    small = x < 2.2250738585072014e-308
    y = 18014398509481984.0 * x if small else x  # 2**54 times a subnormal number
    e = log_exponent(y)
    k = float_of(e + 4841369599423283200) - (4503599627370496.0 + 1023.0)
    f = float_of(bits_of(y) - ((e - 1023) << 52)) - 1.0
    k = k - 54.0 if small else k
    z = k * LN2_HIGH - ((0.5 * f * f - (log_rest(f) + k * LN2_LOW)) - f)
    z = x if x == math.inf else z
    z = -math.inf if x == 0.0 else z
    return math.nan if x < 0.0 or x != x else z


def fast_log1p(x):
    """log(u) with u = 1 + x, plus what rounding u has lost; where u is near 1, f is x itself."""
    u = 1.0 + x
    back = u - 1.0
    lost = (1.0 - (u - back)) + (x - back)
    e = log_exponent(u)
    k = float_of(e + 4841369599423283200) - (4503599627370496.0 + 1023.0)
    near = k == 0.0
    f = x if near else float_of(bits_of(u) - ((e - 1023) << 52)) - 1.0
    c = 0.0 if near else lost / u
    z = k * LN2_HIGH - ((0.5 * f * f - (log_rest(f) + (k * LN2_LOW + c))) - f)
    z = x if math.fabs(x) < 1e-17 or x == math.inf else z
    z = -math.inf if x == -1.0 else z
    return math.nan if x < -1.0 or x != x else z


def log1p_to_one(x):
    """log(1 + x) for x from 0 to 1: as `fast_log1p`, with more terms, but with one division and no exponent.

    A fit of `benchmarks.coefficients`, error 1.2e-16 of what is a twentieth of the result.
    """
    s = x / (2.0 + x)
    z = s * s
    u = z * z
    half = 0.5 * x * x
    even = horner(u, 0.6666666666666666, 0.2857142856705403, 0.18181789200049642, 0.13314049880836407,
                  0.08796689421399231)  # fmt: skip
    odd = horner(u, 0.40000000000014807, 0.2222222272250845, 0.1538557622359978, 0.1200191452912421,
                 0.16172159344789994)  # fmt: skip
    return x - (half - s * (half + z * (even + z * odd)))


def fast_tanh(x):
    """Cephes: x + x**3 P/Q near zero, 1 - 2 exp(-2x)/(1 + exp(-2x)) beyond."""
    a = math.fabs(x)
    z = a * a
    top = (-9.64399179425052238628e-1 * z - 9.92877231001918586564e1) * z - 1.61468768441708447952e3
    bottom = ((z + 1.12811678491632931402e2) * z + 2.23548839060100448583e3) * z + 4.84406305325125486048e3
    is_near = a < 0.625
    e = fast_exp(-2.0 * a)  # The slope has this exponential as well, so a loop over both computes it once.
    # One division serves both, because it takes as long as half of all else.
    ratio = (top if is_near else e + e) / (bottom if is_near else 1.0 + e)
    z = math.copysign(a + a * z * ratio if is_near else 1.0 - ratio, x)
    return z if x == x else x


# ---- sine and cosine


def quarter_turns(x):
    """The number of quarter turns in x, in the last bits of the sum."""
    return x * 0.63661977236758134308 + SHIFT


def reduced_sine(x, turns, more):
    """The sine of x and some more quarter turns; ``turns`` are those in x, in the last bits.

    pi/2 is taken in pieces of 33, 33 and 53 bits, of which the first two give exact products. ``y + rest``
    is the reduced argument. Both functions are a start and a factor times a polynomial of six terms.
    """
    k = turns - SHIFT
    quarter = bits_of(turns + more)
    t = x - k * 1.57079632673412561417e00
    w = k * 6.07710050630396597660e-11
    r = t - w
    back = r - t
    lost = (t - (r - back)) - (w + back)
    w = k * 2.02226624879595063154e-21 - lost
    y = r - w
    rest = (r - y) - w
    z = y * y
    u = z * z
    odd = quarter & 1 != 0
    p = (4.16666666666666019037e-02 if odd else -1.66666666666666324348e-01) + z * (
        -1.38888888888741095749e-03 if odd else 8.33333333332248946124e-03
    )
    q = (2.48015872894767294178e-05 if odd else -1.98412698298579493134e-04) + z * (
        -2.75573143513906633035e-07 if odd else 2.75573137070700676789e-06
    )
    q += u * (
        (2.08757232129817482790e-09 if odd else -2.50507602534068634195e-08)
        + z * (-1.13596475577881948265e-11 if odd else 1.58969099521155010221e-10)
    )
    half = 0.5 * z
    one = 1.0 - half
    start = one if odd else y
    lost = (1.0 - one) - half - y * rest if odd else rest - half * rest
    result = start + (lost + z * (z if odd else y) * (p + u * q))
    return float_of(bits_of(result) ^ (quarter & 2) << 62)


def near_sin(x):
    """sin(x) for |x| up to `FAR`."""
    z = reduced_sine(x, quarter_turns(x), 0.0)
    return x if math.fabs(x) < 1e-9 else z


def near_cos(x):
    """cos(x) for |x| up to `FAR`."""
    return reduced_sine(x, quarter_turns(x), 1.0)


def fast_sin(x):
    return near_sin(x) if math.fabs(x) <= FAR else math.sin(x)


def fast_cos(x):
    return near_cos(x) if math.fabs(x) <= FAR else math.cos(x)
