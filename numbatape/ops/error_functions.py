"""The error function and the normal distribution in the kernel language, as SIMD code.

Everything but erf near zero is made of exp(-x**2) and of ``scaled_erfc``, which is smooth from 0 to infinity.
There exp(-x**2) is computed from x in two parts, because the rounding of x**2 alone would be an error of
700 units in the last place at x = 27. ``tests/engine/test_elementary.py`` holds them to 4 ulp.

The polynomials are printed by ``python -m benchmarks.coefficients``.
"""

import math

from ..jit.language import bits_of, float_of, horner
from .elementary import exp_of_sum, fast_log, fast_log1p

HALF_ROOT = 0.7071067811865476  # 1/sqrt(2)


def scaled_erfc(a):
    """erfc(a) exp(a*a) for a >= 0: 1/(1 + 2a) times a polynomial in (a - 4)/(a + 4).

    After Shepherd and Laframboise, "Chebyshev approximation of (1 + 2x) exp(x**2) erfc(x)" (1981).
    """
    far = min(a, 1e300)
    x = 2.0 * far / (far + 4.0) - 1.0  # (far - 4)/(far + 4) would round more near zero
    u = x * x
    w = u * u
    p = horner(w, -0.1396211168405623, 0.09373283499909588, 0.005031970067902536, -2.439774275314445e-05,
               -8.210852679460681e-07, -1.2344079043068394e-08)  # fmt: skip
    q = horner(w, 0.015379652102619368, -0.06633036581242018, -0.0007577732752110214, -1.1221412816951497e-05,
               7.725144677909065e-08, 3.1122155599652728e-09)  # fmt: skip
    r = horner(w, 0.06809705425466907, 0.03716751552652789, -0.0001992571478236702, 5.706597365833897e-06,
               1.0633201839725074e-07, 9.306627965184026e-10)  # fmt: skip
    s = horner(w, -0.10103906603628866, -0.01619773405745404, 0.00015062154153571976, 2.9217760406888385e-07,
               -2.0412790412276123e-08, -2.5623646248261457e-10)  # fmt: skip
    z = 1.2329951186255526 + x * (p + x * q + u * (r + x * s))
    return 0.5 * z / (0.5 + a)


def gauss(a, factor):
    """exp(factor * a*a), where the square of a's first 26 bits is exact; factor 1.0, -1.0 or -0.5."""
    high = float_of(bits_of(a) & -134217728)
    return exp_of_sum(factor * (high * high), factor * ((a - high) * (a + high)))


def fast_erf(x):
    a = math.fabs(x)
    near = x * erf_ratio(x * x)
    far = min(a, 28.0)
    far = 1.0 - gauss(far, -1.0) * scaled_erfc(far)
    return near if a < 0.75 else math.copysign(far, x)


def erf_ratio(x):
    """erf(sqrt(x))/sqrt(x) for x up to 0.75**2."""
    u = x * x
    p = horner(u, 1.1283791670955126, 0.11283791670952477, 0.005223977615114152, 0.00012055288756007191,
               1.6430380359380077e-06, 1.1463527608419242e-08)  # fmt: skip
    q = horner(u, -0.37612638903183715, -0.02686617064440176, -0.0008548326168559442, -1.4924176112414485e-05,
               -1.5937534818437957e-07)  # fmt: skip
    return p + x * q


def fast_erfc(x):
    a = min(math.fabs(x), 28.0)
    z = gauss(a, -1.0) * scaled_erfc(a)
    z = 1.0 if a < 1e-17 else z
    return z if x >= 0.0 else 2.0 - z


def fast_erfcx(x):
    a = math.fabs(x)
    z = scaled_erfc(a)
    return z if x >= 0.0 else 2.0 * gauss(min(a, 28.0), 1.0) - z


def fast_ndtr(x):
    a = min(math.fabs(x), 40.0)
    z = 0.5 * (gauss(a, -0.5) * scaled_erfc(HALF_ROOT * a))
    return 1.0 - z if x >= 0.0 else z


def fast_log_ndtr(x):
    """log(exp(-x*x/2) q) left of zero, and log(1 - exp(-x*x/2) q) right of it: no sum cancels.

    From -3/8 to 5/4 the logarithm magnifies the errors of both factors most, so there it is one of three
    polynomials.
    """
    a = math.fabs(x)
    q = 0.5 * scaled_erfc(HALF_ROOT * a)
    far = fast_log(q) - 0.5 * x * x
    z = fast_log1p(-(gauss(min(a, 40.0), -0.5) * q))
    z = z if x >= 0.0 else far
    z = log_ndtr_near_zero(x + 0.0625) if -0.375 < x <= 0.25 else z
    z = log_ndtr_near_half(x - 0.4375) if 0.25 < x <= 0.625 else z
    return log_ndtr_near_one(x - 0.9375) if 0.625 < x < 1.25 else z


def log_ndtr_near_one(x):
    """log_ndtr(x + 0.9375) for x from -0.3125 to 0.3125."""
    u = x * x
    p = horner(u, -0.19146407681338665, -0.19439286950587814, 0.0006102614248541055, -0.0002680799152296294,
               3.681265011695292e-05, -3.4901400630762563e-06, 2.2088135310413745e-07)  # fmt: skip
    q = horner(u, 0.3113219848268821, 0.049206623563350024, -0.0018321626246967206, 9.110477636710916e-05,
               -1.138328337011664e-06, -5.412489680274969e-07)  # fmt: skip
    return p + x * q


def log_ndtr_near_zero(x):
    """log_ndtr(x - 0.0625) for x from -0.3125 to 0.3125."""
    u = x * x
    p = horner(u, -0.7442671616076408, -0.3250106880839201, 0.004781688494422271, -0.0001894381069144351,
               -3.060561388562679e-06, 8.681647649487155e-07, -3.0721487445718564e-08)  # fmt: skip
    q = horner(u, 0.838094432755064, 0.03513963738507969, 3.827753220508944e-05, -5.0977505212656605e-05,
               2.2890182611384332e-06, 9.877652106995523e-08)  # fmt: skip
    return p + x * q


def log_ndtr_near_half(x):
    """log_ndtr(x + 0.4375) for x from -0.1875 to 0.1875."""
    u = x * x
    p = horner(u, -0.40178347570279166, -0.2652924387446765, 0.0039426181414520195, -0.0003530267782843107,
               1.7498875594543303e-05, 2.5211224341868075e-07)  # fmt: skip
    q = horner(u, 0.5418000903881011, 0.04421211044648581, -0.0007937568616035837, -2.867258010798746e-05,
               6.372538944592044e-06)  # fmt: skip
    return p + x * q
