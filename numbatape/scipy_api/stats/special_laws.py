"""Rarer distributions of ``scipy.stats``: one law per distribution, in standard form."""

# ruff: noqa: E501  (a law is read as a line)
# fmt: off

from __future__ import annotations

import numpy as np
import scipy.special as sc

from ...numpy_api.reductions import logsumexp
from ...trace.operands import find_trace
from ...trace.primitives import by_row, stop_gradient
from ..special.ufunc_table import whole
from ..special.zeta_functions import riemann
from .continuous_laws import LOG_ROOT_2PI, PI, log1p_ratio, log_difference, normal, right, unit
from .discrete_laws import count, log_choose, mass
from .distributions import register
from .laws import INF, LOG2, Law, pick


def full(c, value):
    return np.full(np.shape(c), value)


def gamma_density(x, a):
    return sc.xlogy(a - 1.0, x) - x - sc.gammaln(a)


def argus_phi(chi):
    return 0.5 * sc.gammainc(1.5, 0.5 * chi * chi)


def crystal_ball(x, beta, m):
    width = m / beta
    norm = width / (m - 1.0) * np.exp(-0.5 * beta * beta) + np.sqrt(2.0 * PI) * sc.ndtr(beta)
    near = x > -beta
    far = np.where(near, -beta, x)
    return np.where(near, -0.5 * x * x, m * np.log(width) - 0.5 * beta * beta - m * np.log(width - beta - far)) - np.log(norm)


def crystal_ball_below(x, beta, m):
    """Return the cumulative function, whose left tail is a power."""
    width = m / beta
    far = width / (m - 1.0) * np.exp(-0.5 * beta * beta)
    near = np.sqrt(2.0 * PI) * sc.ndtr(beta)
    gaussian = x > -beta
    tail = far * (width / (width - beta - np.where(gaussian, -beta, x))) ** (m - 1.0)
    body = far + np.sqrt(2.0 * PI) * (sc.ndtr(np.where(gaussian, x, 0.0)) - sc.ndtr(-beta))
    return np.where(gaussian, body, tail) / (far + near)


def crystal_ball_above(x, beta, m):
    total = m / beta / (m - 1.0) * np.exp(-0.5 * beta * beta) + np.sqrt(2.0 * PI) * sc.ndtr(beta)
    gaussian = x > -beta
    body = np.sqrt(2.0 * PI) * sc.ndtr(-np.where(gaussian, x, 0.0)) / total
    return np.where(gaussian, body, 1.0 - crystal_ball_below(np.where(gaussian, -beta, x), beta, m))


def log_mills(x):
    """Return the logarithm of the normal distribution's (1 - cdf)/pdf."""
    return np.log(np.sqrt(0.5 * PI) * sc.erfcx(x / np.sqrt(2.0)))


def pareto_lognormal(x, u, s, a, b):
    z = (np.log(x) - u) / s
    return np.log(a * b / (a + b)) - np.log(x) + normal(z) + np.logaddexp(log_mills(a * s - z), log_mills(b * s + z))


def exponent(x, a, b, c):
    """Return minus the logarithm of the generalised exponential distribution's sf."""
    return (a + b) * x + b * np.expm1(-c * x) / c


def log_k(order, x):
    return np.log(sc.kve(order, x)) - x


def hyperbolic(x, p, a, b):
    root, width = np.hypot(1.0, x), np.sqrt((a - b) * (a + b))
    return (p * np.log(width) - LOG_ROOT_2PI - (p - 0.5) * np.log(a) - log_k(p, width)
            + (p - 0.5) * np.log(root) + log_k(p - 0.5, a * root) + b * x)


def skew_share(x, a, b):
    """Return ``x/sqrt(a + b + x*x)``, at infinity too."""
    return np.sin(np.arctan2(x, np.sqrt(a + b)))


def skew_rest(x, a, b):
    """Return one minus `skew_share`."""
    length = np.hypot(np.sqrt(a + b), x)
    return np.where(x > 0, (a + b) / (length * (length + np.abs(x))), 1.0 - x / length)


def skew_t(x, a, b):
    scale = (a + b - 1.0) * LOG2 + sc.betaln(a, b) + 0.5 * np.log(a + b)
    return (a + 0.5) * np.log(skew_rest(-x, a, b)) + (b + 0.5) * np.log(skew_rest(x, a, b)) - scale


def kappa_near(x, a):
    """Return ``log(a + x**a)/a`` for x up to 1, without a difference that cancels near a = 0."""
    return log1p_ratio(a, 1.0 + sc.boxcox(x, a))


def kappa_three(x, a):
    low = x < 1.0
    size = np.where(low, 1.0, x)
    far = np.log(size) + log1p_ratio(a, size**-a)
    return np.log(a) - (a + 1.0) * np.where(low, kappa_near(np.where(low, x, 1.0), a), far)


def kappa_three_below(x, a):
    """Return the logarithm of the cumulative function, by that of x where the power of x is small."""
    low = x**a < 0.05
    far = log1p_ratio(a, np.where(low, 1.0, x) ** -a)
    return np.where(low, np.log(x) - kappa_near(np.where(low, x, 1.0), a), -far)


def kappa_tail(x, k):
    """Return ``(1 - k*x)**(1/k)``, which is smooth at k = 0."""
    return np.exp(-log1p_ratio(-k, x))


def kappa_power(c, x):
    """Return ``log((1 - c*x)**(1/c - 1))``, smooth at c = 0; at x = 1/c it is 0 for c = 1, else infinite."""
    size = log1p_ratio(-c, x)
    even = np.equal(c, 1.0) & np.isinf(size)
    return np.where(even, 0.0, (c - 1.0) * np.where(even, 1.0, size))


def kappa(x, h, k):
    return kappa_power(k, x) + kappa_power(h, kappa_tail(x, k))


def kappa_low(h, k):
    logarithm = np.log(np.where(h > 0, h, 1.0))
    below = np.where(k < 0, 1.0 / np.where(k < 0, k, -1.0), -INF)
    return np.where(h > 0, logarithm * sc.exprel(-k * logarithm), below)


def kappa_high(h, k):
    return np.where(k > 0, 1.0 / np.where(k > 0, k, 1.0), INF)


def kappa_ppf(q, h, k):
    y = -np.log(q) * sc.exprel(h * np.log(q))
    return -np.log(y) * sc.exprel(k * np.log(y))


def by_skew(skew, normal_and_terms, general):
    """Return a function of a Pearson law: that of the normal law where SciPy takes the skewness for zero.

    There, ``normal_and_terms`` returns the normal function and the coefficients of the skewness and of its square,
    which give the derivatives by it.
    """
    zero = np.abs(skew) < 0.000016

    def near():
        plain, first, second = normal_and_terms()
        if find_trace(skew) is None:
            return plain
        nothing = skew - stop_gradient(skew)
        return plain + nothing * first + nothing * nothing * second

    return pick(zero, near, lambda: general(2.0 / np.where(zero, 1.0, skew)))


def pearson(x, skew):
    square = x * x
    return by_skew(
        skew,
        lambda: (normal(x), x * (square - 3.0) / 6.0, (-3.0 * square * square + 6.0 * square - 1.0) / 48.0),
        lambda beta: np.log(np.abs(beta)) + gamma_density(beta * (x + beta), beta * beta),
    )


def pearson_cdf(x, skew):
    def near():
        density, square = np.exp(normal(x)), x * x
        fifth = x * (square * square - 10.0 * square + 15.0)
        return sc.ndtr(x), -density * (square - 1.0) / 6.0, -density * (x * (square - 3.0) / 16.0 + fifth / 72.0)

    def general(beta):
        share, place = beta * beta, beta * (x + beta)
        return np.where(skew > 0, sc.gammainc(share, place), sc.gammaincc(share, place))

    return by_skew(skew, near, general)


def pearson_ppf(q, skew):
    def near():
        z = sc.ndtri(q)
        square = z * z
        return z, (square - 1.0) / 6.0, z * ((square - 3.0) / 16.0 - (2.0 * square - 5.0) / 36.0)

    def general(beta):
        share = beta * beta
        return np.where(skew > 0, sc.gammaincinv(share, q), sc.gammainccinv(share, q)) / beta - beta

    return by_skew(skew, near, general)


def breit_wigner(x, rho):
    slope = np.hypot(1.0, 1.0 / rho)
    scale = 0.5 * (np.log(2.0) + 2.0 * np.log(slope) - np.log1p(slope)) + np.log(2.0 / PI)
    return scale - np.log1p(np.square((x - rho) * (x + rho) / rho))


def tukey(x, c):
    below, above = sc.tklmbda(x, c), sc.tklmbda(-x, c)
    return -np.log(below ** (c - 1.0) + above ** (c - 1.0))


def tukey_end(c):
    return np.where(c > 0, 1.0 / np.where(c > 0, c, 1.0), INF)


def breit_wigner_below(x, rho):
    """Return the imaginary part of SciPy's formula, which may exceed one by rounding."""
    scale = 2.0 / PI * np.sqrt(2.0 / (1.0 + np.sqrt(1.0 + 1.0 / np.square(rho))))
    turned = np.sqrt(-1.0 + 1j / rho) * np.arctan(x / np.sqrt(-rho * (rho + 1j)))
    return np.minimum(scale * np.imag(turned), 1.0)


def truncated_weibull(x, c, a, b):
    return log_difference(-(a**c), -(b**c))


def zipfian(k, a, n):
    places = np.arange(1.0, whole("zipfian", n) + 1.0)
    return -a * np.log(k) - logsumexp(-np.expand_dims(a, -1) * np.log(places), -1)


def fisher_hypergeometric(k, M, n, N, odds):
    M, n, N = (whole("nchypergeom_fisher", size) for size in (M, n, N))
    every = np.arange(max(0, N - (M - n)), min(n, N) + 1.0)

    def weight(k, odds):
        return log_choose(n, k) + log_choose(M - n, N - k) + k * np.log(odds)

    return weight(k, odds) - logsumexp(weight(every, np.expand_dims(odds, -1)), -1)


def wallenius(k, M, n, N, odds):
    """Return the logarithm of the integral of ``(1 - v**odds)**k * (1 - v)**(N - k)`` with the counts of choices.

    The integral goes over v**left from 0 to 1, where left is what the balls that are left weigh. In the
    logarithm of -log(v), from the place of the peak on, the integrand is no narrower than 1/sqrt(N + 1) for
    any odds, and equal steps of a part of that have all digits.
    """
    N = whole("nchypergeom_wallenius", N)
    left = odds * (n - k) + (M - n) - (N - k)
    steps, step = np.linspace(-45.0, 5.0, int(150.0 * np.sqrt(N + 1.0)), retstep=True)
    k, left, odds = (np.expand_dims(part, -1) for part in (k, left, odds))
    some = np.where(left > 0.0, left, 1.0)
    place = np.exp(steps) * (N + 1.0) / some
    taken = sc.xlogy(k, -np.expm1(-odds * place)) + sc.xlogy(N - k, -np.expm1(-place))
    terms = taken - some * place + np.log(some * place) + np.log(step)
    whole_urn = np.squeeze(left, -1) <= 0.0  # all balls are drawn, with certainty
    k = np.squeeze(k, -1)
    return np.where(whole_urn, 0.0, log_choose(n, k) + log_choose(M - n, N - k) + logsumexp(terms, -1))


def real(name, log, **options):
    register(name, Law(log, **options))


def half_logistic(x, c):
    r = log1p_ratio(-c, x)
    return LOG2 + (c - 1.0) * r - 2.0 * np.log1p(np.exp(-r))


# ---- on the whole line
real("crystalball", crystal_ball, valid=lambda beta, m: [m > 1, beta > 0], cdf=crystal_ball_below, sf=crystal_ball_above)
real("genhyperbolic", hyperbolic, far=True, valid=lambda p, a, b: [np.where(p >= 0, np.abs(b) < a, np.abs(b) <= a)])
real("jf_skew_t", skew_t, cdf=lambda x, a, b: sc.betainc(a, b, 0.5 * (1.0 + skew_share(x, a, b))), sf=lambda x, a, b: sc.betaincc(a, b, 0.5 * (1.0 + skew_share(x, a, b))),
     ppf=lambda q, a, b: (2.0 * sc.betaincinv(a, b, q) - 1.0) * np.sqrt(a + b) / (2.0 * np.sqrt(sc.betaincinv(a, b, q) * sc.betainccinv(b, a, q))))
real("kappa4", kappa, far=True, low=kappa_low, high=kappa_high, valid=lambda h, k: [np.equal(h, h), np.equal(k, k)], logcdf=lambda x, h, k: -log1p_ratio(-h, kappa_tail(x, k)), ppf=kappa_ppf)
real("pearson3", pearson, far=True, low=lambda s: pick(s > 0, lambda: -2.0 / s, lambda: full(s, -INF)), high=lambda s: pick(s < 0, lambda: -2.0 / s, lambda: full(s, INF)),
     valid=lambda s: [np.equal(s, s)], cdf=pearson_cdf, ppf=pearson_ppf)
real("tukeylambda", tukey, far=True, open=True, low=lambda c: -tukey_end(c), high=tukey_end, valid=lambda c: [np.isfinite(c)], cdf=lambda x, c: sc.tklmbda(x, c), ppf=lambda q, c: sc.boxcox(q, c) - sc.boxcox1p(-q, c))

# ---- on the positive half line
right("dpareto_lognorm", pareto_lognormal, open=True, valid=lambda u, s, a, b: [s > 0, a > 0, b > 0])
right("genexpon", lambda x, a, b, c: np.log(a - b * np.expm1(-c * x)) - exponent(x, a, b, c), cdf=lambda x, a, b, c: -np.expm1(-exponent(x, a, b, c)), logsf=lambda x, a, b, c: -exponent(x, a, b, c))
right("geninvgauss", lambda x, p, b: (p - 1.0) * np.log(x) - 0.5 * b * (x + 1.0 / x) - LOG2 - log_k(p, b), open=True, valid=lambda p, b: [np.equal(p, p), b > 0])
right("kappa3",   kappa_three, logcdf=kappa_three_below, sf=lambda x, a: -np.expm1(kappa_three_below(x, a)), ppf=lambda q, a: (a / np.expm1(-a * np.log(q))) ** (1.0 / a), isf=lambda q, a: (a / np.expm1(-a * np.log1p(-q))) ** (1.0 / a))
right("kstwobign", lambda x: np.log(-by_row("kolmogorov_slope")(1.0, x)), open=True, sf=lambda x: sc.kolmogorov(x), isf=lambda q: sc.kolmogi(q))
right("rel_breitwigner", breit_wigner, cdf=breit_wigner_below)

# ---- on an interval
unit("argus",     lambda x, chi: 3.0 * np.log(chi) - LOG_ROOT_2PI - np.log(argus_phi(chi)) + np.log(x) + 0.5 * np.log1p(-x * x) - 0.5 * chi * chi * (1.0 - x * x), sf=lambda x, chi: argus_phi(chi * np.sqrt((1.0 - x) * (1.0 + x))) / argus_phi(chi))
unit("gausshyper", lambda x, a, b, c, z: sc.xlogy(a - 1.0, x) + sc.xlog1py(b - 1.0, -x) - c * np.log1p(z * x) - sc.betaln(a, b) - np.log(sc.hyp2f1(c, a, a + b, -z)), valid=lambda a, b, c, z: [a > 0, b > 0, np.equal(c, c), z > -1])
unit("genhalflogistic", half_logistic, high=lambda c: 1.0 / c, cdf=lambda x, c: np.tanh(0.5 * log1p_ratio(-c, x)), ppf=lambda q, c: 2.0 * np.arctanh(q) * sc.exprel(-2.0 * c * np.arctanh(q)))
unit("truncweibull_min", lambda x, c, a, b: np.log(c) + sc.xlogy(c - 1.0, x) - x**c - truncated_weibull(x, c, a, b), low=lambda c, a, b: a, high=lambda c, a, b: b, valid=lambda c, a, b: [c > 0, a >= 0, b > a],
     logcdf=lambda x, c, a, b: log_difference(-(a**c), -(x**c)) - truncated_weibull(x, c, a, b), logsf=lambda x, c, a, b: log_difference(-(x**c), -(b**c)) - truncated_weibull(x, c, a, b),
     ppf=lambda q, c, a, b: (a**c - np.log1p(q * np.expm1(a**c - b**c))) ** (1.0 / c))

# ---- counts
mass("zipf",      lambda k, a: -a * np.log(k) - np.log(riemann(a)), low=1.0, valid=lambda a: [a > 1])
mass("zipfian",   zipfian, low=1.0, high=lambda a, n: n, valid=lambda a, n: [a >= 0, *count(n), n >= 1])
mass("nchypergeom_fisher", fisher_hypergeometric, low=lambda M, n, N, odds: np.maximum(N - (M - n), 0.0), high=lambda M, n, N, odds: np.minimum(n, N), valid=lambda M, n, N, odds: [*count(M), *count(n), *count(N), n <= M, N <= M, odds > 0])
mass("nchypergeom_wallenius", wallenius, low=lambda M, n, N, odds: np.maximum(N - (M - n), 0.0), high=lambda M, n, N, odds: np.minimum(n, N), valid=lambda M, n, N, odds: [*count(M), *count(n), *count(N), n <= M, N <= M, odds > 0])
