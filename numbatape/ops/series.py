"""Scalar functions that round, and what adds up series with them: zeta, and derivatives for parameters.

They are in the kernel language, and formulas get them by `numbatape.ops.scalars`.
"""

import math

# Whole numbers: from 2**52 on every float is one, and math.floor gives an int64.


def floor(x):
    return math.copysign(math.floor(x), x) if math.fabs(x) < 4503599627370496.0 else x


def rint(x):
    """Round half to even: adding 2**52 leaves no bits for the fraction."""
    if math.fabs(x) < 4503599627370496.0:
        return math.copysign(math.fabs(x) + 4503599627370496.0 - 4503599627370496.0, x)
    return x


def ldexp(x, y):
    """x * 2**y for whole y; in two steps, for 2**y alone may overflow. (The kernel language has no ldexp.)"""
    y = min(max(y, -2200.0), 2200.0)
    half = floor(0.5 * y)
    return x * math.pow(2.0, half) * math.pow(2.0, y - half)


# ---- Hurwitz' zeta function


def zeta(s, x) -> float:
    """Hurwitz' zeta, the sum of (x + n)**-s over n >= 0, for whole s >= 2.0.

    For x <= 0 it is the sum over all integers less that over n < 0. The former is periodic, and elementary
    for small s (DLMF 5.15.6). SciPy's own takes 260 ns, and -x of its steps left of 0.
    """
    if not x <= 0.0:  # The test is written so that NaN passes it, too.
        return zeta_right(s, x)
    r = x - rint(x)
    if r == 0.0 or x == -math.inf:
        return math.inf
    sine = math.sin(3.141592653589793 * r) / 3.141592653589793
    cosine = math.cos(3.141592653589793 * r)
    if s == 3.0:
        return cosine / (sine * sine * sine) + zeta_right(s, 1.0 - x)
    if s == 2.0:
        return 1.0 / (sine * sine) - zeta_right(s, 1.0 - x)
    if s == 4.0:
        every = (1.0 + 2.0 * cosine * cosine) / (3.0 * sine * sine * sine * sine)
        return every - zeta_right(s, 1.0 - x)
    # The sum over all integers has three parts: the integer nearest to -x, those above it and those below it.
    flip = 1.0 if s % 2.0 == 0.0 else -1.0
    every = reciprocal_power(r, s) + zeta_right(s, 1.0 + r) + flip * zeta_right(s, 1.0 - r)
    return every - flip * zeta_right(s, 1.0 - x)


def trigamma(x):
    """`zeta` for s = 2.0: nine terms, eight of them in pairs with one division, and the tail."""
    if not x > 0.0:
        return far_zeta(2.0, x)
    far = x > 1e8
    a = 1.0 if far else x
    t = x if far else x + 9.0
    r = 1.0 / t
    u = r * r
    tail = 1 / 30 - u * (5 / 66 - u * (691 / 2730 - u * (7 / 6 - u * (3617 / 510))))
    total = r * (1.0 + r * (0.5 + r * (1 / 6 - u * (1 / 30 - u * (1 / 42 - u * tail)))))
    pairs = pair_of_squares(a + 7.0) + pair_of_squares(a + 5.0)
    pairs = pairs + pair_of_squares(a + 3.0) + pair_of_squares(a + 1.0)
    return total if far else total + pairs + 1.0 / (x * x)


def pair_of_squares(x):
    """1/x**2 + 1/(x + 1)**2."""
    y = x + 1.0
    return (x * x + y * y) / (x * y * (x * y))


def far_zeta(s, x):
    return zeta(s, x)


def zeta_right(s, x):
    """`zeta` for x > 0: n terms, and Euler and Maclaurin's tail (DLMF 25.11.7) for the others.

    Small s need n terms up to x + n >= 16. The larger s, the larger is the tail's error beside the tail, and
    the smaller is the tail beside 16 terms: with these, no digit is lost for any s.
    """
    n = 16.0 if s > 4.0 else 0.0
    while x + n < 16.0:
        n += 1.0
    t = 1.0 / (x + n)
    u = t * t
    # Each constant is the ratio of two neighbours of B_2k / (2k)!, Bernoulli's numbers.
    tail = 1.0 - (s + 11.0) * (s + 12.0) * u * (35 / 1382)
    tail = 1.0 - (s + 9.0) * (s + 10.0) * u * (691 / 27300) * tail
    tail = 1.0 - (s + 7.0) * (s + 8.0) * u * (5 / 198) * tail
    tail = 1.0 - (s + 5.0) * (s + 6.0) * u * (1 / 40) * tail
    tail = 1.0 - (s + 3.0) * (s + 4.0) * u * (1 / 42) * tail
    tail = 1.0 - (s + 1.0) * (s + 2.0) * u * (1 / 60) * tail
    power = reciprocal_power(x + n, s - 1.0)
    total = 0.0 if power == 0.0 else (1.0 / (s - 1.0) + t * (0.5 + t * s / 12.0 * tail)) * power
    while n > 0.0:  # the smallest terms are added first
        n -= 1.0
        total += reciprocal_power(x + n, s)
    return total


def reciprocal_power(x, n):
    """x**-n for whole n >= 1.0: up to 8 by products, which take less time than pow and lose no digit yet."""
    if n > 8.0:
        return math.pow(x, -n)
    t = 1.0 / x
    power = t
    while n > 1.0:
        power *= t
        n -= 1.0
    return power


def kolmogorov_slope(n, x) -> float:
    """The n-th derivative of 2 sum_k (-1)**(k-1) exp(-2 k*k x*x), n 1.0, 2.0, ...

    For small x of its other form (DLMF 20.7.32), 1 - sqrt(2 pi) sum_k exp(-(2k-1)**2 pi**2/(8 x*x))/x. A
    term's derivatives follow from one another: f' = -4 k*k x f of the first form, and of the second
    x**3 f' = (2a - x*x) f, differentiated as often as it takes (Leibniz). Three to five terms are enough; the
    last one may be zero by chance where its derivative before is not.
    """
    if x != x:
        return math.nan
    total, k, sign = 0.0, 1.0, 2.0
    if x <= 0.0:
        return 0.0
    while k < 20.0:
        m, before, last = 0.0, 0.0, 0.0
        if x < 1.0:
            a = 1.2337005501361697 * k * k
            term = math.exp(-a / (x * x)) / x
            while m < n and term != 0.0:
                step = (2.0 * a / (x * x) - 1.0 - 3.0 * m) * term / x
                step -= m * (3.0 * m - 1.0) * last / (x * x)
                step -= m * (m - 1.0) * (m - 1.0) * before / (x * x * x)
                before, last, term = last, term, step
                m += 1.0
            total -= 2.5066282746310002 * term
            k += 2.0
        else:
            b = 4.0 * k * k
            term = math.exp(-0.5 * b * x * x)
            while m < n:
                last, term = term, -b * (x * term + m * last)
                m += 1.0
            total += sign * term
            sign = -sign
            k += 1.0
        if k > 3.0 and math.fabs(term) + math.fabs(last) <= 1e-20 * math.fabs(total):
            return total
    return total


# Derivatives of the regularised gamma function for its parameter. (`parameters` has the beta function's.)


def gamma_slope(n, a, x, digamma, factor) -> float:
    """The n-th derivative of gammainc(a, x) for a, n 1.0 or 2.0; digamma is that of a + 1,
    factor x**a exp(-x)/gamma(a).

    Left of a the series of DLMF 8.7.1, term by term: each has the sign of the sum. Right of it the
    continued fraction 8.9.2, differentiated level by level from behind (Moore 1982, AS 187).
    """
    if not (a > 0.0 and x >= 0.0):
        return math.nan
    if x == 0.0 or x == math.inf or a == math.inf:
        return 0.0
    logarithm = math.log(x)
    if a > 1e10:
        # The sums below have as many terms as the root of a. For so large an a, the x at which gammainc keeps
        # its value grows by (1 + x/a)/2 with a, to an error of (x - a)**3/a**4 (Cornish and Fisher 1938).
        rise = 0.5 * (1.0 + x / a)
        if n == 1.0:
            return -factor / x * rise
        return -factor / x * ((logarithm - digamma + 1.0 / a) * rise - 0.5 * x / (a * a))
    if x < a or x < 1.5:
        term = factor / a
        gap = logarithm - digamma
        bend = 0.0 if n == 1.0 else zeta(2.0, a + 1.0)
        total, k, least = 0.0, a, 0.0
        while True:
            part = term * (gap if n == 1.0 else gap * gap - bend)
            total += part
            least = 1e-17 * math.fabs(total)
            k += 1.0
            if (
                math.fabs(part) <= least and k > x + 2.0 and term * (1.0 + gap * gap) <= least
            ) or not math.fabs(term) > 0.0:  # No sum would end the loop after zero or NaN.
                return total
            term *= x / k
            gap -= 1.0 / k
            bend -= 1.0 / (k * k)
    # As many levels as it takes until the fraction, evaluated from the front (Lentz), stops changing. For
    # whole a the fraction ends early but its derivative does not, so a number nearby is taken.
    near = floor(a) + 0.5
    levels, b = 1.0, x + 1.0 - near
    c, ratio = 1e300, 0.0
    d = 1.0 / b
    while math.fabs(ratio - 1.0) > 3e-16 and levels < 1e7:
        b += 2.0
        step = levels * (near - levels)
        d = step * d + b
        d = 1.0 / (d if math.fabs(d) > 1e-300 else 1e-300)
        c = b + step / c
        c = c if math.fabs(c) > 1e-300 else 1e-300
        ratio = c * d
        levels += 1.0
    level = levels * 1.25 + 10.0 - (levels * 1.25) % 1.0
    f, f1, f2 = level + x, 0.0, 0.0
    while level > 0.0:
        u = level * (level - a) / f
        f2 = (2.0 * f1 * (u * f1 / f + level / f) - u * f2) / f
        f2, f1, f = -f2, -1.0 + (level + u * f1) / f, x + 2.0 * level - 1.0 - a - u
        level -= 1.0
    rise = logarithm - digamma + 1.0 / a - f1 / f
    if n == 1.0:
        return -factor / f * rise
    return -factor / f * (rise * rise - zeta(2.0, a + 1.0) - 1.0 / (a * a) - f2 / f + (f1 / f) * (f1 / f))


# Derivatives of the modified Bessel function of the second kind for its order.


def kve_slope(n, v, x, value):
    """The n-th derivative for v, n whole, of ``kve(v, x)``, whose value is given.

    K_v(x) is the integral of exp(-x cosh t) cosh(v t) over t > 0 (DLMF 10.32.9). In that of its n-th
    derivative there is a factor t**n, and sinh in place of cosh for odd n. Both integrands are even in t and
    analytic for abs(Im t) < pi/2, so the trapezoidal rule converges exponentially (Trefethen and Weideman
    2014). Both sums go from the peak of the integrand outwards, some 20 to 60 terms, and only their ratio is
    needed. They end where neither grows, which the sums of zeros, infinities or NaN do not, either.
    """
    a = math.fabs(v)
    odd = n % 2.0 == 1.0
    if not (x >= 0.0 and a < math.inf):
        return math.nan
    if odd and a == 0.0:
        return 0.0
    sign = -1.0 if odd and v < 0.0 else 1.0
    if x == 0.0:
        return sign * math.inf
    if not value > 0.0 or x == math.inf:
        return value * 0.0
    if value == math.inf:
        return sign * math.inf
    r = x * math.sqrt(1.0 + a / x * (a / x)) if a < x else a * math.sqrt(1.0 + x / a * (x / a))
    rise, fall = a + r, x / (a + r) * x  # x exp(peak), x exp(-peak)
    ratio = a / x
    # The peak is asinh(a / x); the quotient overflows for the smallest x.
    peak = math.asinh(ratio) if ratio < 1e150 else math.log(2.0 * a) - math.log(x)
    # The rule's error is the integrand's Fourier transform at 2 pi/step, in which v has that imaginary part.
    step = 6.283185307179586 / math.sqrt(900.0 + 100.0 * r)
    first = floor(peak / step) + 1.0
    if first > 4503599627370496.0:  # the integrand is that narrow; and k - 1 would be k, without an end
        return sign * value * math.pow(peak, n)
    forward, k = 1.0, first
    moment, total = 0.0, 0.0
    while k >= 0.0:
        t = k * step
        s = t - peak
        # The integrand's logarithm, less that at the peak, is v s - x (cosh t - cosh peak). Near the peak it
        # is written as v (s - sinh s) - r (cosh s - 1), in which nothing cancels, elsewhere as
        # v s - 2 x sinh(peak + s/2) sinh(s/2), of which no factor overflows but where the integrand is zero.
        if math.fabs(s) < 0.5:
            half = math.sinh(0.5 * s)
            u = s * s
            tail = 1.0 + u / 110.0 * (1.0 + u / 156.0 * (1.0 + u / 210.0))
            lag = s * u / 6.0 * (1.0 + u / 20.0 * (1.0 + u / 42.0 * (1.0 + u / 72.0 * tail)))
            weight = math.exp(-a * lag - 2.0 * r * half * half)
        else:
            up = math.exp(0.5 * s)
            down = 1.0 / up
            weight = math.exp(a * s - 0.5 * (rise * up - fall * down) * (up - down))
        mass = weight * (1.0 + math.exp(-2.0 * a * t))
        if k == 0.0:
            mass *= 0.5  # the other half belongs to t < 0
        term = math.pow(t, n) * (-weight * math.expm1(-2.0 * a * t) if odd else mass)
        moment += term
        total += mass
        if not (term > 1e-18 * moment or mass > 1e-18 * total):
            if forward < 0.0:
                return sign * value * moment / total
            forward, k = -1.0, first
        k += forward
    return sign * value * moment / total


# Differences of polygamma functions at two places.


def zeta_rise(s, x, w):
    """The sum of (x + n)**-s - (x + w + n)**-s over n >= 0, for whole s >= 1.0, x > 0 and x + w > 0.

    It is psi(x + w) - psi(x) for s = 1.0, else zeta(s, x) - zeta(s, x + w), in which more digits cancel the
    less w is beside x. Here each difference of powers is w times a sum of products. It is NaN for other x:
    tapes that have both cases of a choice go there, and do not use the result.
    """
    y = x + w
    if not (x > 0.0 and y > 0.0):
        return math.nan
    total = 0.0
    while x < 20.0 or y < 20.0:
        total += power_fall(s, 1.0 / x, 1.0 / y, w)
        x += 1.0
        y += 1.0
    p = 1.0 / x
    q = 1.0 / y
    total += math.log1p(w * p) if s == 1.0 else power_fall(s - 1.0, p, q, w) / (s - 1.0)
    total += 0.5 * power_fall(s, p, q, w)
    # The weights are Bernoulli's numbers B_2k / (2k)!, computed as ratios of neighbours.
    k = 0.0
    weight = s / 12.0
    while k < 6.0:
        total += weight * power_fall(s + 2.0 * k + 1.0, p, q, w)
        k += 1.0
        ratio = 1 / 60
        if k == 2.0:
            ratio = 1 / 42
        elif k == 3.0:
            ratio = 1 / 40
        elif k == 4.0:
            ratio = 5 / 198
        elif k == 5.0:
            ratio = 691 / 27300
        weight *= -(s + 2.0 * k - 1.0) * (s + 2.0 * k) * ratio
    return total


def psi_rise(x, w):
    """`zeta_rise` for s = 1.0, without loops: nine terms, and Euler and Maclaurin's tail (DLMF 5.11.2)."""
    y = x + w
    total = w / x / y
    near = 1.0 / ((x + 1.0) * (y + 1.0)) + 1.0 / ((x + 2.0) * (y + 2.0)) + 1.0 / ((x + 3.0) * (y + 3.0))
    near += 1.0 / ((x + 4.0) * (y + 4.0)) + 1.0 / ((x + 5.0) * (y + 5.0)) + 1.0 / ((x + 6.0) * (y + 6.0))
    near += 1.0 / ((x + 7.0) * (y + 7.0)) + 1.0 / ((x + 8.0) * (y + 8.0))
    p = 1.0 / (x + 9.0)
    q = 1.0 / (y + 9.0)
    fall = w * p * q  # the product is p - q
    u = p * p
    v = q * q
    # These are (u**k - v**k) / (u - v) for k = 2, 3, ...
    two = u + v
    power = u * u
    three = two * v + power
    power *= u
    four = three * v + power
    power *= u
    five = four * v + power
    power *= u
    six = five * v + power
    power *= u
    seven = six * v + power
    eight = seven * v + power * u
    tail = (
        1 / 12
        - two / 120.0
        + three / 252.0
        - four / 240.0
        + five / 132.0
        - six * (691 / 32760)
        + seven / 12.0
    )
    tail -= eight * (3617 / 8160)
    return total + w * near + math.log1p(w * p) + 0.5 * fall + fall * (p + q) * tail


def power_fall(n, p, q, w):
    """p**n - q**n, where p = 1/x and q = 1/(x + w), for whole n >= 1.0."""
    last = 1.0
    total = 1.0
    while n > 1.0:
        last *= p
        total = total * q + last
        n -= 1.0
    return w * p * q * total
