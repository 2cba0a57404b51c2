"""Quantiles and moments of the distributions of ``scipy.stats``, in standard form.

``ppf`` takes the lower tail probability, ``isf`` the upper one: where a law has both, each is accurate for
small probabilities.
"""

# ruff: noqa: E501  (a law is read as a line)
# fmt: off

from __future__ import annotations

import numpy as np
import scipy.special as sc

from . import discrete_laws  # noqa: F401  (this file extends some of its laws)
from .continuous_laws import PI, log_exponential_part, log_normal_mass, normal
from .distributions import extend, named
from .laws import LOG2, is_infinity, pick

EULER = 0.5772156649015329


def symmetric(name, ppf):
    """Register the quantiles of an even density."""
    extend(name, ppf=ppf, isf=lambda q, *shapes: -ppf(q, *shapes))


def quantiles(name, ppf, isf=None):
    extend(name, ppf=ppf, isf=isf)


def two_sided(half):
    """Return quantiles of an even density from those of the absolute value, ``half(upper tail, ...)``."""
    def ppf(q, *shapes):
        size = half(2.0 * np.where(q > 0.5, 1.0 - q, q), *shapes)
        return np.where(q > 0.5, size, -size)

    return ppf


def generalised_normal(p, b):
    """Return the size whose upper tail is p; at p = 1, where it is zero, its slope is that of a straight line."""
    middle = np.equal(p, 1.0)
    size = sc.gammainccinv(1.0 / b, np.where(middle, 0.5, p)) ** (1.0 / b)
    return np.where(middle, (1.0 - p) * sc.gamma(1.0 + 1.0 / b), size)


def double_gamma(p, a):
    """Return the size whose upper tail is p; near p = 1, where it is zero, the lower tail is a power of it."""
    middle = np.equal(p, 1.0)
    near = (1.0 - p) ** (1.0 / a) * sc.gamma(1.0 + a) ** (1.0 / a)
    return np.where(middle, near, sc.gammainccinv(a, np.where(middle, 0.5, p)))


def cauchy(q):
    return np.where(np.abs(q - 0.5) < 0.25, np.tan(PI * (q - 0.5)), -1.0 / np.tan(PI * q))


def asymmetric_laplace(q, k):
    total = k + 1.0 / k
    return np.where(q >= k / total, -np.log((1.0 - q) * total * k) / k, np.log(q * total / k) * k)


def truncated_normal(q, a, b):
    mass = log_normal_mass(a, b)
    return pick(
        np.less(a, 0.0),
        lambda: sc.ndtri_exp(np.logaddexp(sc.log_ndtr(a), np.log(q) + mass)),
        lambda: -sc.ndtri_exp(np.logaddexp(sc.log_ndtr(-b), np.log1p(-q) + mass)),
    )


def truncated_normal_isf(q, a, b):
    mass = log_normal_mass(a, b)
    return pick(
        np.less(b, 0.0),
        lambda: sc.ndtri_exp(np.logaddexp(sc.log_ndtr(a), np.log1p(-q) + mass)),
        lambda: -sc.ndtri_exp(np.logaddexp(sc.log_ndtr(-b), np.log(q) + mass)),
    )


def truncated_normal_ends(a, b):
    """Return the densities at both ends, and the ends, which are 0 where they are infinite."""
    mass, finite = log_normal_mass(a, b), [np.where(np.isinf(end), 0.0, end) for end in (a, b)]
    at = [np.where(np.isinf(end), 0.0, np.exp(normal(own) - mass)) for end, own in zip((a, b), finite, strict=True)]
    return *at, *finite


def truncated_normal_moments(a, b):
    """Return the mean and the variance."""
    at_a, at_b, a, b = truncated_normal_ends(a, b)
    mean = at_a - at_b
    return mean, 1.0 + at_a * (a - mean) - at_b * (b - mean)


def truncated_normal_raw(order, a, b):
    """Return a moment about zero, by those of lower orders."""
    at_a, at_b, a, b = truncated_normal_ends(a, b)
    before, moment = 0.0, 1.0 + 0.0 * at_a
    for k in range(1, order + 1):
        before, moment = moment, (k - 1.0) * before + at_a * a ** (k - 1) - at_b * b ** (k - 1)
    return moment


def truncated_normal_third(a, b):
    """Return the mean, the variance and the third moment about the mean."""
    mean, variance = truncated_normal_moments(a, b)
    return mean, variance, truncated_normal_raw(3, a, b) - 3.0 * mean * variance - mean**3


def truncated_normal_skewness(a, b):
    _, variance, third = truncated_normal_third(a, b)
    return third / variance**1.5


def truncated_normal_kurtosis(a, b):
    mean, variance, third = truncated_normal_third(a, b)
    fourth = truncated_normal_raw(4, a, b) - 4.0 * mean * third - 6.0 * mean**2 * variance - mean**4
    return fourth / np.square(variance) - 3.0


def trapezoid_moment(order, c, d):
    """Return a moment about zero; quotients of differences from one are sums of powers."""
    powers = [1.0 + 0.0 * d]
    for _ in range(order + 1):
        powers.append(powers[-1] * d)
    falling = sum(powers[: order + 1]) / (order + 1.0) - sum(powers) / (order + 2.0)
    rising, level = c ** (order + 1) / (order + 2.0), (d ** (order + 1) - c ** (order + 1)) / (order + 1.0)
    return 2.0 / (d - c + 1.0) * (rising + level + falling)


def fatigue(share, c):
    step = c * share
    return 0.25 * np.square(step + np.sqrt(step * step + 4.0))


def folded(x, tail):
    """Return the cumulative function of an even density, from the upper tail of the absolute value."""
    right = x > 0
    return np.where(right, 1.0 - 0.5 * tail(np.where(right, x, 1.0)), 0.5 * tail(np.where(right, 1.0, -x)))


def skellam_below(k, a, b):
    """Return the cumulative function: a noncentral chi-squared one, with the count's degrees of freedom."""
    negative = np.less(k, 0)
    below = sc.chndtr(2.0 * b, np.where(negative, -2.0 * k, 2.0), 2.0 * a)
    above = named("ncx2")[1].sf(2.0 * a, np.where(negative, 2.0, 2.0 * k + 2.0), 2.0 * b)
    return np.where(negative, below, above)


def inner(k, n):
    """Return counts below n; at n itself the cumulative sum is one."""
    return np.maximum(np.minimum(k, n - 1.0), 0.0)


def reciprocal_inverse_gauss(x, mu, sign):
    root = 1.0 / np.sqrt(x)
    return sc.ndtr(sign * root * (x - 1.0 / mu)) - sign * np.exp(2.0 / mu + sc.log_ndtr(-root * (x + 1.0 / mu)))


def trapezoid(x, c, d):
    height = 2.0 / (d - c + 1.0)
    rising, falling = x < c, x > d
    up = np.square(x) / np.where(rising, c, 1.0)
    down = np.square(1.0 - x) / np.where(falling, 1.0 - d, 1.0)
    return np.where(rising, 0.5 * height * up, np.where(falling, 1.0 - 0.5 * height * down, height * (x - 0.5 * c)))


def wrapped_cauchy(x, c):
    first = x < PI
    angle = np.arctan((1.0 + c) / (1.0 - c) * np.tan(0.5 * np.where(first, x, 2.0 * PI - x))) / PI
    return np.where(first, angle, 1.0 - angle)


def around_the_circle(x, kappa):
    """Return the cumulative function between -pi and pi, continued by one for each turn."""
    infinite = np.isinf(x)
    place = np.where(infinite, 0.0, x)
    turns = np.round(place / (2.0 * PI))
    below = turns + named("vonmises_line")[1].cdf(place - 2.0 * PI * turns, kappa)
    return np.where(infinite, np.where(x > 0, 1.0, 0.0), below)


# ---- on the whole line
symmetric("norm",      lambda q: sc.ndtri(q))
symmetric("cauchy",    cauchy)
symmetric("laplace",   two_sided(lambda p: -np.log(p)))
symmetric("logistic",  lambda q: sc.logit(q))
symmetric("hypsecant", lambda q: np.log(np.tan(0.5 * PI * q)))
symmetric("t",         lambda q, df: pick(is_infinity(df), lambda: sc.ndtri(q), lambda: sc.stdtrit(df, q)))
symmetric("gennorm",   two_sided(generalised_normal))
symmetric("dgamma",    two_sided(double_gamma))
symmetric("dweibull",  two_sided(lambda p, c: (-np.log(p)) ** (1.0 / c)))
quantiles("gumbel_r",  lambda q: -np.log(-np.log(q)), lambda q: -np.log(-np.log1p(-q)))
quantiles("gumbel_l",  lambda q: np.log(-np.log1p(-q)), lambda q: np.log(-np.log(q)))
quantiles("moyal",     lambda q: -2.0 * np.log(np.sqrt(2.0) * sc.erfcinv(q)), lambda q: -2.0 * np.log(np.sqrt(2.0) * sc.erfinv(q)))
quantiles("powernorm", lambda q, c: -sc.ndtri_exp(np.log1p(-q) / c), lambda q, c: -sc.ndtri_exp(np.log(q) / c))
quantiles("genlogistic", lambda q, c: -np.log(np.expm1(-np.log(q) / c)), lambda q, c: -np.log(np.expm1(-np.log1p(-q) / c)))
quantiles("loggamma",  lambda q, c: np.log(sc.gammaincinv(c, q)), lambda q, c: np.log(sc.gammainccinv(c, q)))
quantiles("johnsonsu", lambda q, a, b: np.sinh((sc.ndtri(q) - a) / b), lambda q, a, b: np.sinh((-sc.ndtri(q) - a) / b))
quantiles("laplace_asymmetric", asymmetric_laplace, lambda q, k: -asymmetric_laplace(q, 1.0 / k))

# ---- on a half line
quantiles("expon",    lambda q: -np.log1p(-q), lambda q: -np.log(q))
quantiles("gamma",    lambda q, a: sc.gammaincinv(a, q), lambda q, a: sc.gammainccinv(a, q))
quantiles("erlang",   lambda q, a: sc.gammaincinv(a, q), lambda q, a: sc.gammainccinv(a, q))
quantiles("chi2",     lambda q, df: 2.0 * sc.gammaincinv(0.5 * df, q), lambda q, df: 2.0 * sc.gammainccinv(0.5 * df, q))
quantiles("chi",      lambda q, df: np.sqrt(2.0 * sc.gammaincinv(0.5 * df, q)), lambda q, df: np.sqrt(2.0 * sc.gammainccinv(0.5 * df, q)))
quantiles("invgamma", lambda q, a: 1.0 / sc.gammainccinv(a, q), lambda q, a: 1.0 / sc.gammaincinv(a, q))
quantiles("gengamma", lambda q, a, c: np.where(c > 0, sc.gammaincinv(a, q), sc.gammainccinv(a, q)) ** (1.0 / c), lambda q, a, c: np.where(c > 0, sc.gammainccinv(a, q), sc.gammaincinv(a, q)) ** (1.0 / c))
quantiles("nakagami", lambda q, nu: np.sqrt(sc.gammaincinv(nu, q) / nu), lambda q, nu: np.sqrt(sc.gammainccinv(nu, q) / nu))
quantiles("f",        lambda q, m, n: n * sc.betaincinv(m / 2.0, n / 2.0, q) / (m * sc.betainccinv(n / 2.0, m / 2.0, q)), lambda q, m, n: n * sc.betainccinv(m / 2.0, n / 2.0, q) / (m * sc.betaincinv(n / 2.0, m / 2.0, q)))
quantiles("betaprime", lambda q, a, b: sc.betaincinv(a, b, q) / sc.betainccinv(b, a, q), lambda q, a, b: sc.betainccinv(a, b, q) / sc.betaincinv(b, a, q))
quantiles("lognorm",  lambda q, s: np.exp(s * sc.ndtri(q)), lambda q, s: np.exp(-s * sc.ndtri(q)))
quantiles("gibrat",   lambda q: np.exp(sc.ndtri(q)), lambda q: np.exp(-sc.ndtri(q)))
quantiles("halfnorm", lambda q: np.sqrt(2.0) * sc.erfinv(q), lambda q: -sc.ndtri(0.5 * q))
quantiles("halfcauchy", lambda q: np.tan(0.5 * PI * q), lambda q: 1.0 / np.tan(0.5 * PI * q))
quantiles("halflogistic", lambda q: 2.0 * np.arctanh(q), lambda q: np.log((2.0 - q) / q))
quantiles("halfgennorm", lambda q, b: sc.gammaincinv(1.0 / b, q) ** (1.0 / b), lambda q, b: sc.gammainccinv(1.0 / b, q) ** (1.0 / b))
quantiles("rayleigh", lambda q: np.sqrt(-2.0 * np.log1p(-q)), lambda q: np.sqrt(-2.0 * np.log(q)))
quantiles("maxwell",  lambda q: np.sqrt(2.0 * sc.gammaincinv(1.5, q)), lambda q: np.sqrt(2.0 * sc.gammainccinv(1.5, q)))
quantiles("weibull_min", lambda q, c: (-np.log1p(-q)) ** (1.0 / c), lambda q, c: (-np.log(q)) ** (1.0 / c))
quantiles("weibull_max", lambda q, c: -((-np.log(q)) ** (1.0 / c)), lambda q, c: -((-np.log1p(-q)) ** (1.0 / c)))
quantiles("exponweib", lambda q, a, c: (-np.log1p(-(q ** (1.0 / a)))) ** (1.0 / c), lambda q, a, c: (-np.log(-np.expm1(np.log1p(-q) / a))) ** (1.0 / c))
quantiles("exponpow", lambda q, b: np.log1p(-np.log1p(-q)) ** (1.0 / b), lambda q, b: np.log1p(-np.log(q)) ** (1.0 / b))
quantiles("invweibull", lambda q, c: (-np.log(q)) ** (-1.0 / c), lambda q, c: (-np.log1p(-q)) ** (-1.0 / c))
quantiles("gompertz", lambda q, c: np.log1p(-np.log1p(-q) / c), lambda q, c: np.log1p(-np.log(q) / c))
quantiles("lomax",    lambda q, c: np.expm1(-np.log1p(-q) / c), lambda q, c: np.expm1(-np.log(q) / c))
quantiles("burr",     lambda q, c, d: np.expm1(-np.log(q) / d) ** (-1.0 / c), lambda q, c, d: np.expm1(-np.log1p(-q) / d) ** (-1.0 / c))
quantiles("burr12",   lambda q, c, d: np.expm1(-np.log1p(-q) / d) ** (1.0 / c), lambda q, c, d: np.expm1(-np.log(q) / d) ** (1.0 / c))
quantiles("fisk",     lambda q, c: (q / (1.0 - q)) ** (1.0 / c), lambda q, c: ((1.0 - q) / q) ** (1.0 / c))
quantiles("mielke",   lambda q, k, s: np.expm1(-np.log(q) * s / k) ** (-1.0 / s), lambda q, k, s: np.expm1(-np.log1p(-q) * s / k) ** (-1.0 / s))
quantiles("loglaplace", lambda q, c: np.where(q < 0.5, 2.0 * q, 2.0 - 2.0 * q) ** (np.where(q < 0.5, 1.0, -1.0) / c), lambda q, c: np.where(q > 0.5, 2.0 - 2.0 * q, 2.0 * q) ** (np.where(q > 0.5, 1.0, -1.0) / c))
quantiles("alpha",    lambda q, a: 1.0 / (a - sc.ndtri(q * sc.ndtr(a))))
quantiles("fatiguelife", lambda q, c: fatigue(sc.ndtri(q), c), lambda q, c: fatigue(-sc.ndtri(q), c))
quantiles("levy",     lambda q: 0.5 / np.square(sc.erfcinv(q)), lambda q: 0.5 / np.square(sc.erfinv(q)))
quantiles("levy_l",   lambda q: -0.5 / np.square(sc.erfinv(q)), lambda q: -0.5 / np.square(sc.erfcinv(q)))
quantiles("powerlognorm", lambda q, c, s: np.exp(-s * sc.ndtri_exp(np.log1p(-q) / c)), lambda q, c, s: np.exp(-s * sc.ndtri_exp(np.log(q) / c)))
quantiles("pareto",   lambda q, b: np.exp(-np.log1p(-q) / b), lambda q, b: q ** (-1.0 / b))
quantiles("genpareto", lambda q, c: -np.log1p(-q) * sc.exprel(-c * np.log1p(-q)), lambda q, c: -np.log(q) * sc.exprel(-c * np.log(q)))
quantiles("genextreme", lambda q, c: -np.log(-np.log(q)) * sc.exprel(c * np.log(-np.log(q))), lambda q, c: -np.log(-np.log1p(-q)) * sc.exprel(c * np.log(-np.log1p(-q))))

# ---- on an interval
quantiles("uniform",  lambda q: q)
quantiles("beta",     lambda q, a, b: sc.betaincinv(a, b, q), lambda q, a, b: sc.betainccinv(a, b, q))
quantiles("arcsine",  lambda q: np.square(np.sin(0.5 * PI * q)), lambda q: np.square(np.cos(0.5 * PI * q)))
quantiles("powerlaw", lambda q, a: q ** (1.0 / a), lambda q, a: np.exp(np.log1p(-q) / a))
quantiles("bradford", lambda q, c: np.expm1(q * np.log1p(c)) / c)
quantiles("triang",   lambda q, c: np.where(q < c, np.sqrt(c * q), 1.0 - np.sqrt((1.0 - c) * (1.0 - q))))
quantiles("johnsonsb", lambda q, a, b: sc.expit((sc.ndtri(q) - a) / b), lambda q, a, b: sc.expit((-sc.ndtri(q) - a) / b))
quantiles("rdist",    lambda q, c: 2.0 * sc.betaincinv(0.5 * c, 0.5 * c, q) - 1.0, lambda q, c: 2.0 * sc.betainccinv(0.5 * c, 0.5 * c, q) - 1.0)
quantiles("anglit",   lambda q: np.arcsin(np.sqrt(q)) - PI / 4.0)
quantiles("truncexpon", lambda q, b: -np.log1p(q * np.expm1(-b)))
quantiles("truncnorm", truncated_normal, truncated_normal_isf)
quantiles("truncpareto", lambda q, b, c: np.exp(-np.log1p(q * np.expm1(-b * np.log(c))) / b))
for _name in ("loguniform", "reciprocal"):
    quantiles(_name, lambda q, a, b: np.exp(np.log(a) + q * (np.log(b) - np.log(a))), lambda q, a, b: np.exp(np.log(b) - q * (np.log(b) - np.log(a))))

# ---- cumulative functions beside those of the laws themselves
extend("rice",        cdf=lambda x, b: sc.chndtr(np.square(x), 2.0, np.square(b)))
extend("exponnorm",   far=True, cdf=lambda x, K: sc.ndtr(x) - np.exp(log_exponential_part(x, K)), sf=lambda x, K: sc.ndtr(-x) + np.exp(log_exponential_part(x, K)))
extend("skewcauchy",  cdf=lambda x, a: (1.0 - a) / 2.0 + (1.0 + np.sign(x) * a) / PI * np.arctan(x / (1.0 + np.sign(x) * a)))
extend("laplace_asymmetric", cdf=lambda x, k: np.where(x >= 0, 1.0 - np.exp(-np.where(x >= 0, x, 0.0) * k) / (k * k + 1.0), np.exp(np.where(x >= 0, 0.0, x) / k) * (k * k / (k * k + 1.0))),
       sf=lambda x, k: np.where(x >= 0, np.exp(-np.where(x >= 0, x, 0.0) * k) / (k * k + 1.0), 1.0 - np.exp(np.where(x >= 0, 0.0, x) / k) * (k * k / (k * k + 1.0))))
extend("truncpareto", cdf=lambda x, b, c: np.expm1(-b * np.log(x)) / np.expm1(-b * np.log(c)), sf=lambda x, b, c: x ** (-b) * np.expm1(b * np.log(x / c)) / np.expm1(-b * np.log(c)))
extend("triang",      cdf=lambda x, c: np.where(x < c, x * x / c, 1.0 - np.square(1.0 - x) / (1.0 - c)), sf=lambda x, c: np.where(x < c, 1.0 - x * x / c, np.square(1.0 - x) / (1.0 - c)))
extend("dweibull",    cdf=lambda x, c: folded(x, lambda size: np.exp(-(size**c))), sf=lambda x, c: folded(-x, lambda size: np.exp(-(size**c))))
extend("dgamma",      cdf=lambda x, a: folded(x, lambda size: sc.gammaincc(a, size)), sf=lambda x, a: folded(-x, lambda size: sc.gammaincc(a, size)))
extend("gengamma",    cdf=lambda x, a, c: np.where(c > 0, sc.gammainc(a, x**c), sc.gammaincc(a, x**c)), sf=lambda x, a, c: np.where(c > 0, sc.gammaincc(a, x**c), sc.gammainc(a, x**c)))

extend("recipinvgauss", cdf=lambda x, mu: reciprocal_inverse_gauss(x, mu, 1.0), sf=lambda x, mu: reciprocal_inverse_gauss(x, mu, -1.0))
extend("trapezoid",   cdf=trapezoid)
extend("wrapcauchy",  cdf=wrapped_cauchy)
extend("cosine",      cdf=lambda x: (PI + x + np.sin(x)) / (2.0 * PI), sf=lambda x: (PI - x - np.sin(x)) / (2.0 * PI))
extend("rdist",       cdf=lambda x, c: sc.betainc(0.5 * c, 0.5 * c, 0.5 * (x + 1.0)), sf=lambda x, c: sc.betaincc(0.5 * c, 0.5 * c, 0.5 * (x + 1.0)))
extend("vonmises",    cdf=around_the_circle)

# ---- moments: mean, variance, entropy
for _name, _mean, _var, _entropy in (
    ("norm",     lambda: 0.0, lambda: 1.0, lambda: 0.5 * (np.log(2.0 * PI) + 1.0)),
    ("laplace",  lambda: 0.0, lambda: 2.0, lambda: LOG2 + 1.0),
    ("logistic", lambda: 0.0, lambda: PI * PI / 3.0, lambda: 2.0),
    ("gumbel_r", lambda: EULER, lambda: PI * PI / 6.0, lambda: EULER + 1.0),
    ("gumbel_l", lambda: -EULER, lambda: PI * PI / 6.0, lambda: EULER + 1.0),
    ("t",        lambda df: np.where(df > 1, 0.0, np.inf), lambda df: np.where(df > 2, df / (df - 2.0), np.where(df > 1, np.inf, np.nan)),
                 lambda df: 0.5 * (df + 1.0) * (sc.psi(0.5 * (df + 1.0)) - sc.psi(0.5 * df)) + 0.5 * np.log(df) + sc.betaln(0.5 * df, 0.5)),
    ("expon",    lambda: 1.0, lambda: 1.0, lambda: 1.0),
    ("gamma",    lambda a: a, lambda a: a, lambda a: a + sc.gammaln(a) + (1.0 - a) * sc.psi(a)),
    ("erlang",   lambda a: a, lambda a: a, lambda a: a + sc.gammaln(a) + (1.0 - a) * sc.psi(a)),
    ("chi2",     lambda df: df, lambda df: 2.0 * df, lambda df: 0.5 * df + LOG2 + sc.gammaln(0.5 * df) + (1.0 - 0.5 * df) * sc.psi(0.5 * df)),
    ("invgamma", lambda a: np.where(a > 1, 1.0 / (a - 1.0), np.inf), lambda a: np.where(a > 2, 1.0 / (np.square(a - 1.0) * (a - 2.0)), np.inf), lambda a: a + sc.gammaln(a) - (1.0 + a) * sc.psi(a)),
    ("lognorm",  lambda s: np.exp(0.5 * s * s), lambda s: np.exp(s * s) * np.expm1(s * s), lambda s: 0.5 * (1.0 + np.log(2.0 * PI)) + np.log(s)),
    ("halfnorm", lambda: np.sqrt(2.0 / PI), lambda: 1.0 - 2.0 / PI, lambda: 0.5 * np.log(PI / 2.0) + 0.5),
    ("rayleigh", lambda: np.sqrt(0.5 * PI), lambda: 2.0 - 0.5 * PI, lambda: 0.5 * EULER + 1.0 - 0.5 * LOG2),
    ("maxwell",  lambda: 2.0 * np.sqrt(2.0 / PI), lambda: 3.0 - 8.0 / PI, lambda: EULER + 0.5 * np.log(2.0 * PI) - 0.5),
    ("weibull_min", lambda c: sc.gamma(1.0 + 1.0 / c), lambda c: sc.gamma(1.0 + 2.0 / c) - np.square(sc.gamma(1.0 + 1.0 / c)), lambda c: EULER * (1.0 - 1.0 / c) - np.log(c) + 1.0),
    ("pareto",   lambda b: np.where(b > 1, b / (b - 1.0), np.inf), lambda b: np.where(b > 2, b / ((b - 2.0) * np.square(b - 1.0)), np.inf), lambda b: 1.0 + 1.0 / b - np.log(b)),
    ("lomax",    lambda c: np.where(c > 1, 1.0 / (c - 1.0), np.inf), lambda c: np.where(c > 2, c / ((c - 2.0) * np.square(c - 1.0)), np.inf), lambda c: 1.0 + 1.0 / c - np.log(c)),
    ("invgauss", lambda mu: mu, lambda mu: mu**3, None),
    ("f",        lambda m, n: np.where(n > 2, n / (n - 2.0), np.inf), lambda m, n: np.where(n > 4, 2.0 * n * n * (m + n - 2.0) / (m * np.square(n - 2.0) * (n - 4.0)), np.inf), None),
    ("uniform",  lambda: 0.5, lambda: 1.0 / 12.0, lambda: 0.0),
    ("beta",     lambda a, b: a / (a + b), lambda a, b: a * b / (np.square(a + b) * (a + b + 1.0)),
                 lambda a, b: sc.betaln(a, b) - (a - 1.0) * sc.psi(a) - (b - 1.0) * sc.psi(b) + (a + b - 2.0) * sc.psi(a + b)),
    ("triang",   lambda c: (c + 1.0) / 3.0, lambda c: (1.0 - c + c * c) / 18.0, lambda c: 0.5 - LOG2 + 0.0 * c),
    ("bernoulli", lambda p: p, lambda p: p * (1.0 - p), lambda p: sc.entr(p) + sc.entr(1.0 - p)),
    ("binom",    lambda n, p: n * p, lambda n, p: n * p * (1.0 - p), None),
    ("poisson",  lambda mu: mu, lambda mu: mu, None),
    ("geom",     lambda p: 1.0 / p, lambda p: (1.0 - p) / (p * p), None),
    ("nbinom",   lambda n, p: n * (1.0 - p) / p, lambda n, p: n * (1.0 - p) / (p * p), None),
):
    extend(_name, mean=_mean, var=_var, entropy=_entropy)
extend("nbinom",    skewness=lambda n, p: (2.0 - p) / np.sqrt((1.0 - p) * n), kurtosis=lambda n, p: 6.0 / n + p * p / ((1.0 - p) * n))
extend("truncnorm", mean=lambda a, b: truncated_normal_moments(a, b)[0], var=lambda a, b: truncated_normal_moments(a, b)[1], raw=truncated_normal_raw,
       skewness=truncated_normal_skewness, kurtosis=truncated_normal_kurtosis)
extend("trapezoid", raw=trapezoid_moment)
extend("fisk",      raw=lambda order, c: sc.beta(1.0 - order / c, 1.0 + order / c))

# ---- counts: of a whole number k, from the support's low end on
extend("bernoulli", cdf=lambda k, p: 1.0 - p + 0.0 * k, sf=lambda k, p: p + 0.0 * k)
extend("binom",     cdf=lambda k, n, p: sc.betaincc(inner(k, n) + 1.0, n - inner(k, n), p), sf=lambda k, n, p: sc.betainc(inner(k, n) + 1.0, n - inner(k, n), p))
extend("poisson",   cdf=lambda k, mu: sc.pdtr(np.maximum(k, 0.0), mu), sf=lambda k, mu: sc.pdtrc(np.maximum(k, 0.0), mu))
extend("geom",      cdf=lambda k, p: -np.expm1(k * np.log1p(-p)), logsf=lambda k, p: k * np.log1p(-p))
extend("nbinom",    cdf=lambda k, n, p: sc.betainc(n, np.maximum(k, 0.0) + 1.0, p), sf=lambda k, n, p: sc.betaincc(n, np.maximum(k, 0.0) + 1.0, p))
extend("planck",    cdf=lambda k, a: -np.expm1(-a * (k + 1.0)), logsf=lambda k, a: -a * (k + 1.0))
extend("boltzmann", cdf=lambda k, a, n: np.expm1(-a * (k + 1.0)) / np.expm1(-a * n), sf=lambda k, a, n: np.exp(-a * (k + 1.0)) * np.expm1(-a * (n - k - 1.0)) / np.expm1(-a * n))
extend("randint",   cdf=lambda k, low, high: (k - low + 1.0) / (high - low))
extend("logser",    sf=lambda k, p: p ** (k + 1.0) / (k + 1.0) * sc.hyp2f1(1.0, k + 1.0, k + 2.0, p) / -np.log1p(-p))
extend("yulesimon", logsf=lambda k, alpha: np.log(np.maximum(k, 1.0)) + sc.betaln(np.maximum(k, 1.0), alpha + 1.0))
extend("skellam",   cdf=skellam_below, sf=lambda k, a, b: skellam_below(-k - 1.0, b, a))
extend("dlaplace",  cdf=lambda k, a: np.where(k >= 0, 1.0 - np.exp(-a * np.maximum(k, 0.0)) / (np.exp(a) + 1.0), np.exp(a * (np.minimum(k, 0.0) + 1.0)) / (np.exp(a) + 1.0)))
