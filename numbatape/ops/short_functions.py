"""Elementary functions of float32 cells: float64 arithmetic with as few terms as a float32 result needs.

A float32 has 24 bits, so a result with a relative error of 3e-9 is rounded to nearly the nearest one. Reduced
arguments need no second part, and results no care about their range: what is too large or too small for
float32 becomes infinity or zero when it is stored. Polynomials are Taylor's, and
``tests/engine/test_elementary.py`` holds these functions to 0.6 units in float32's last place.
"""

import math

from ..jit.language import bits_of, float_of
from .elementary import FAR, SHIFT, log_exponent, power_of_two

LN2 = 0.6931471805599453


def short_exp(x):
    x = min(max(x, -200.0), 200.0)
    k = (1.4426950408889634 * x + SHIFT) - SHIFT
    r = x - k * LN2
    u = r * r
    z = 0.5 + r * (1 / 6) + u * (1 / 24 + r * (1 / 120)) + u * u * (1 / 720 + r * (1 / 5040))
    return (1.0 + (r + u * z)) * power_of_two(k)


def short_log(x):
    z = log_of(x, 0.0)
    z = x if x == math.inf else z
    z = -math.inf if x == 0.0 else z
    return math.nan if x < 0.0 or x != x else z


def short_log1p(x):
    z = log_of(1.0 + x, x)
    z = x if math.fabs(x) < 1e-17 or x == math.inf else z
    z = -math.inf if x == -1.0 else z
    return math.nan if x < -1.0 or x != x else z


def log_of(u, x):
    """log(u); where u is near 1 and x is not zero, u - 1 is x."""
    e = log_exponent(u)
    k = float_of(e + 4841369599423283200) - (4503599627370496.0 + 1023.0)
    f = x if k == 0.0 and x != 0.0 else float_of(bits_of(u) - ((e - 1023) << 52)) - 1.0
    s = f / (2.0 + f)
    z = s * s
    return k * LN2 + 2.0 * s * (1.0 + z * (1 / 3 + z * (1 / 5) + z * z * (1 / 7 + z * (1 / 9))))


def short_turned(x, more):
    """The sine of x and some more quarter turns, for |x| up to `FAR`."""
    turns = x * 0.63661977236758134308 + SHIFT
    k = turns - SHIFT
    quarter = bits_of(turns + more)
    y = (x - k * 1.57079632673412561417) - k * 6.07710050650619224932e-11
    odd = quarter & 1 != 0
    z = y * y
    p = (-1 / 2 if odd else -1 / 6) + z * (1 / 24 if odd else 1 / 120)
    q = (-1 / 720 if odd else -1 / 5040) + z * (1 / 40320 if odd else 1 / 362880)
    q += z * z * (-1 / 3628800 if odd else -1 / 39916800)
    result = (1.0 if odd else y) + (z if odd else y * z) * (p + z * z * q)
    return float_of(bits_of(result) ^ (quarter & 2) << 62)


def short_sin(x):
    z = short_turned(x, 0.0)
    z = x if math.fabs(x) < 1e-9 else z
    return z if math.fabs(x) <= FAR else math.sin(x)


def short_cos(x):
    return short_turned(x, 1.0) if math.fabs(x) <= FAR else math.cos(x)
