"""The continuous distributions of ``scipy.stats``: one law per distribution, in standard form."""

# ruff: noqa: E501  (a law is read as a line)
# fmt: off

from __future__ import annotations

import numpy as np
import scipy.special as sc

from ...trace.primitives import by_row
from .distributions import register
from .laws import INF, LOG2, Law, pick

LOGPI = 1.1447298858494002
LOG_ROOT_2PI = 0.9189385332046727  # log(sqrt(2 pi))
LOG_ROOT_2_OVER_PI = -0.22579135264472744  # log(sqrt(2 / pi))
PI = 3.141592653589793


def normal(x):
    return -0.5 * np.square(x) - LOG_ROOT_2PI


def any_real(*shapes):
    return [np.equal(shape, shape) for shape in shapes]


def log_cosh(x):
    return np.logaddexp(x, -x) - LOG2


def log_scaled_bessel(z):
    """Return ``log(i0e(z))`` for z >= 0. At 0, where `i0e` has a kink, its derivatives are those to the right."""
    square = z * z
    return np.where(np.equal(z, 0.0), square * (0.25 - square / 64.0) - z, np.log(sc.i0e(z)))


def von_mises_entropy(kappa):
    return kappa * (1.0 - sc.i1e(kappa) / sc.i0e(kappa)) + np.log(2.0 * PI) + log_scaled_bessel(kappa)


def log_difference(p, q):
    """Return ``log(exp(p) - exp(q))``."""
    return p + np.log(-np.expm1(q - p))


def log_normal_mass(a, b):
    """Return the logarithm of the normal distribution's mass between a and b, accurate in both tails."""
    return pick(
        b <= 0,
        lambda: log_difference(sc.log_ndtr(b), sc.log_ndtr(a)),
        lambda: pick(
            a > 0,
            lambda: log_difference(sc.log_ndtr(-a), sc.log_ndtr(-b)),
            lambda: np.log1p(-sc.ndtr(a) - sc.ndtr(-b)),
        ),
    )


def log1p_ratio(c, x):
    """Return ``log1p(c*x)/c``, which is smooth at c = 0."""
    return x / sc.exprel(np.log1p(c * x))


def log_exponential_part(x, K):
    """Return ``(0.5/K - x)/K + log_ndtr(x - 1/K)``, whose terms cancel for small K."""
    u = (1.0 / K - x) * 0.7071067811865476
    near = np.greater(u, -2.0)
    scaled = -0.5 * np.square(x) + np.log(0.5 * sc.erfcx(np.where(near, u, 1.0)))
    return np.where(near, scaled, (0.5 / K - x) / K + sc.log_ndtr(x - 1.0 / K))


def student(x, df):
    return by_row("student_tail")(df, x) + by_row("student_height")(df)


def skew_cauchy(x, a):
    return -np.log(PI * (x * x / np.square(a * np.sign(x) + 1.0) + 1.0))


def inverse_gauss_cdf(x, mu):
    root = 1.0 / np.sqrt(x)
    return np.logaddexp(sc.log_ndtr(root * (x / mu - 1.0)), 2.0 / mu + sc.log_ndtr(-root * (x / mu + 1.0)))


def inverse_gauss_sf(x, mu):
    root = 1.0 / np.sqrt(x)
    near, far = sc.log_ndtr(-root * (x / mu - 1.0)), 2.0 / mu + sc.log_ndtr(-root * (x / mu + 1.0))
    return near + np.log1p(-np.exp(far - near))


def triangle(x, c):
    return np.where(x <= c, np.log(2.0 * x / c), np.log(2.0 * (1.0 - x) / (1.0 - c)))


def power_of_size(x, b):
    """Return ``|x|**b``, which at zero has the derivatives of ``x**b`` where b is over one, and else none."""
    sign = np.where(x < 0, -1.0, np.where(np.equal(x, 0.0) & (b <= 1.0), 0.0, 1.0))
    return (sign * x) ** b


def generalised_normal_cdf(x, b):
    """Return the cumulative function; at zero, where |x|**b has no useful slope, that of a straight line."""
    middle = np.equal(x, 0.0)
    size = np.where(middle, 1.0, np.abs(x)) ** b
    tail = 0.5 * np.where(middle, 1.0, sc.gammaincc(1.0 / b, size))
    line = 0.5 + 0.5 * x / sc.gamma(1.0 + 1.0 / b)
    return np.where(middle, line, np.where(x > 0, 1.0 - tail, tail))


def centred(x):
    """Return the distance from the centre, which has no slope there, whatever it is multiplied by."""
    return np.where(np.equal(x, 0.0), 0.0, np.abs(x))


def log_gamma_cdf(c, y):
    lower = sc.gammainc(c, y)
    return np.where(lower < 0.5, np.log(lower), np.log1p(-sc.gammaincc(c, y)))


def beta_prime_below(x, a, b, near, far):
    """Return a tail of the beta law at ``x/(1 + x)``: from 1 on by the other share, which keeps its digits there."""
    small = x <= 1.0
    share = np.where(small, x, 1.0) / (1.0 + x)
    return np.where(small, near(a, b, share), far(b, a, share))


def log_gamma_law(far, near, at_infinity):
    """Return a cumulative function of the log-gamma law; where exp(x) underflows, one term of a series is it."""

    def function(x, c):
        low, high = x < -708.0, np.equal(x, INF)
        first = c * np.where(low, x, 0.0) - sc.gammaln(c + 1.0)
        rest = near(c, np.exp(np.where(low | high, 0.0, x)))
        return np.where(low, far(first), np.where(high, at_infinity, rest))

    return function


def trapezoid(x, c, d):
    rise = np.where(x < c, np.log(x / c), 0.0 * x)
    return LOG2 - np.log(d - c + 1.0) + np.where(x > d, np.log((1.0 - x) / (1.0 - d)), rise)


def normal_inverse_gauss(x, a, b):
    root = np.hypot(1.0, x)
    return np.log(a / PI) + np.sqrt(a * a - b * b) + b * x + np.log(sc.k1e(a * root)) - a * root - np.log(root)


def real(name, log, **options):
    register(name, Law(log, **options))


def right(name, log, low=0.0, **options):
    register(name, Law(log, low=low, **options))


def unit(name, log, low=0.0, high=1.0, **options):
    register(name, Law(log, low=low, high=high, **options))


# ---- on the whole line
real("norm",      normal, cdf=lambda x: sc.ndtr(x), sf=lambda x: sc.ndtr(-x), logcdf=lambda x: sc.log_ndtr(x), logsf=lambda x: sc.log_ndtr(-x))
real("cauchy",    lambda x: -LOGPI - np.log1p(x * x), cdf=lambda x: np.arctan2(1.0, -x) / PI, sf=lambda x: np.arctan2(1.0, x) / PI)
real("laplace",   lambda x: -LOG2 - np.abs(x), cdf=lambda x: np.where(x > 0, 1.0 - 0.5 * np.exp(-x), 0.5 * np.exp(x)), sf=lambda x: np.where(x > 0, 0.5 * np.exp(-x), 1.0 - 0.5 * np.exp(x)))
real("logistic",  lambda x: sc.log_expit(x) + sc.log_expit(-x), cdf=lambda x: sc.expit(x), sf=lambda x: sc.expit(-x), logcdf=lambda x: sc.log_expit(x), logsf=lambda x: sc.log_expit(-x))
real("gumbel_r",  lambda x: -x - np.exp(-x), logcdf=lambda x: -np.exp(-x), sf=lambda x: -np.expm1(-np.exp(-x)))
real("gumbel_l",  lambda x: x - np.exp(x), cdf=lambda x: -np.expm1(-np.exp(x)), logsf=lambda x: -np.exp(x))
real("hypsecant", lambda x: -LOGPI - log_cosh(x), cdf=lambda x: 2.0 / PI * np.arctan(np.exp(x)), sf=lambda x: 2.0 / PI * np.arctan(np.exp(-x)))
real("moyal",     lambda x: -(x + np.exp(-x)) / 2.0 - LOG_ROOT_2PI, cdf=lambda x: sc.erfc(np.exp(-0.5 * x) / np.sqrt(2.0)), sf=lambda x: sc.erf(np.exp(-0.5 * x) / np.sqrt(2.0)))
real("t",         student, cdf=lambda x, df: sc.stdtr(df, x), sf=lambda x, df: sc.stdtr(df, -x))
real("skewnorm",  lambda x, a: LOG2 + normal(x) + sc.log_ndtr(a * x), valid=any_real, cdf=lambda x, a: np.maximum(sc.ndtr(x) - 2.0 * sc.owens_t(x, a), 0.0))
real("skewcauchy", skew_cauchy, valid=lambda a: [np.abs(a) < 1])
real("powernorm", lambda x, c: np.log(c) + normal(x) + (c - 1.0) * sc.log_ndtr(-x), logsf=lambda x, c: c * sc.log_ndtr(-x))
real("exponnorm", lambda x, K: log_exponential_part(x, K) - np.log(K))
real("gennorm",   lambda x, b: np.log(0.5 * b) - sc.gammaln(1.0 / b) - power_of_size(x, b), cdf=generalised_normal_cdf, sf=lambda x, b: generalised_normal_cdf(-x, b))
real("genlogistic", lambda x, c: np.log(c) + c * sc.log_expit(x) + sc.log_expit(-x), logcdf=lambda x, c: c * sc.log_expit(x))
real("dgamma",    lambda x, a: sc.xlogy(a - 1.0, centred(x)) - centred(x) - LOG2 - sc.gammaln(a), hollow=True)
real("dweibull",  lambda x, c: np.log(c) - LOG2 + sc.xlogy(c - 1.0, centred(x)) - centred(x) ** c, hollow=True)
real("loggamma",  lambda x, c: c * x - np.exp(x) - sc.gammaln(c), cdf=log_gamma_law(np.exp, lambda c, y: sc.gammainc(c, y), 1.0), sf=log_gamma_law(lambda first: -np.expm1(first), lambda c, y: sc.gammaincc(c, y), 0.0),
     logcdf=log_gamma_law(lambda first: first, log_gamma_cdf, 0.0))
real("johnsonsu", lambda x, a, b: np.log(b) - 0.5 * np.log1p(x * x) + normal(a + b * np.arcsinh(x)), valid=lambda a, b: [b > 0, *any_real(a)],
     cdf=lambda x, a, b: sc.ndtr(a + b * np.arcsinh(x)), sf=lambda x, a, b: sc.ndtr(-a - b * np.arcsinh(x)))
real("laplace_asymmetric", lambda x, k: x * np.where(x >= 0, -k, 1.0 / k) - np.log(k + 1.0 / k))
real("norminvgauss", normal_inverse_gauss, far=True, valid=lambda a, b: [a > 0, np.abs(b) < a])
real("vonmises",  lambda x, kappa: kappa * sc.cosm1(x) - np.log(2.0 * PI) - log_scaled_bessel(kappa), valid=lambda kappa: [kappa >= 0], entropy=von_mises_entropy)
real("vonmises_line", lambda x, kappa: kappa * sc.cosm1(x) - np.log(2.0 * PI) - log_scaled_bessel(kappa), low=-PI, high=PI, valid=lambda kappa: [kappa >= 0], entropy=von_mises_entropy)

# ---- on the positive half line
right("expon",    lambda x: -x, cdf=lambda x: -np.expm1(-x), sf=lambda x: np.exp(-x), logsf=lambda x: -x)
right("gamma",    lambda x, a: sc.xlogy(a - 1.0, x) - x - sc.gammaln(a), cdf=lambda x, a: sc.gammainc(a, x), sf=lambda x, a: sc.gammaincc(a, x))
right("erlang",   lambda x, a: sc.xlogy(a - 1.0, x) - x - sc.gammaln(a), cdf=lambda x, a: sc.gammainc(a, x), sf=lambda x, a: sc.gammaincc(a, x))
right("chi2",     lambda x, df: sc.xlogy(df / 2.0 - 1.0, x) - x / 2.0 - sc.gammaln(df / 2.0) - LOG2 * df / 2.0, cdf=lambda x, df: sc.gammainc(df / 2.0, x / 2.0), sf=lambda x, df: sc.gammaincc(df / 2.0, x / 2.0))
right("chi",      lambda x, df: LOG2 - 0.5 * LOG2 * df - sc.gammaln(0.5 * df) + sc.xlogy(df - 1.0, x) - 0.5 * x * x, cdf=lambda x, df: sc.gammainc(0.5 * df, 0.5 * x * x), sf=lambda x, df: sc.gammaincc(0.5 * df, 0.5 * x * x))
right("invgamma", lambda x, a: -(a + 1.0) * np.log(x) - sc.gammaln(a) - 1.0 / x, open=True, cdf=lambda x, a: sc.gammaincc(a, 1.0 / x), sf=lambda x, a: sc.gammainc(a, 1.0 / x))
right("gengamma", lambda x, a, c: np.where(np.equal(x, 0.0) & (c < 0), -INF, np.log(np.abs(c)) + sc.xlogy(c * a - 1.0, x) - x**c - sc.gammaln(a)), valid=lambda a, c: [a > 0, np.not_equal(c, 0)])
right("nakagami", lambda x, nu: LOG2 + sc.xlogy(nu, nu) - sc.gammaln(nu) + sc.xlogy(2.0 * nu - 1.0, x) - nu * x * x, cdf=lambda x, nu: sc.gammainc(nu, nu * x * x), sf=lambda x, nu: sc.gammaincc(nu, nu * x * x))
right("f",        lambda x, m, n: m / 2.0 * np.log(m) + n / 2.0 * np.log(n) + sc.xlogy(m / 2.0 - 1.0, x) - (m + n) / 2.0 * np.log(n + m * x) - sc.betaln(m / 2.0, n / 2.0),
      cdf=lambda x, m, n: sc.fdtr(m, n, x), sf=lambda x, m, n: sc.fdtrc(m, n, x))
right("betaprime", lambda x, a, b: sc.xlogy(a - 1.0, x) - sc.xlog1py(a + b, x) - sc.betaln(a, b), open=True, cdf=lambda x, a, b: beta_prime_below(x, a, b, sc.betainc, sc.betaincc), sf=lambda x, a, b: beta_prime_below(x, a, b, sc.betaincc, sc.betainc))
right("lognorm",  lambda x, s: normal(np.log(x) / s) - np.log(s) - np.log(x), open=True, cdf=lambda x, s: sc.ndtr(np.log(x) / s), sf=lambda x, s: sc.ndtr(-np.log(x) / s),
      logcdf=lambda x, s: sc.log_ndtr(np.log(x) / s), logsf=lambda x, s: sc.log_ndtr(-np.log(x) / s))
right("gibrat",   lambda x: normal(np.log(x)) - np.log(x), open=True, cdf=lambda x: sc.ndtr(np.log(x)), sf=lambda x: sc.ndtr(-np.log(x)))
right("halfnorm", lambda x: LOG_ROOT_2_OVER_PI - x * x / 2.0, cdf=lambda x: sc.erf(x / np.sqrt(2.0)), sf=lambda x: sc.erfc(x / np.sqrt(2.0)), logsf=lambda x: LOG2 + sc.log_ndtr(-x))
right("foldnorm", lambda x, c: LOG_ROOT_2_OVER_PI + log_cosh(c * x) - (x * x + c * c) / 2.0, far=True, valid=lambda c: [c >= 0], cdf=lambda x, c: 0.5 * (sc.erf((x - c) / np.sqrt(2.0)) + sc.erf((x + c) / np.sqrt(2.0))), sf=lambda x, c: sc.ndtr(c - x) + sc.ndtr(-x - c))
right("halfcauchy", lambda x: np.log(2.0 / PI) - np.log1p(x * x), cdf=lambda x: 2.0 / PI * np.arctan(x), sf=lambda x: 2.0 / PI * np.arctan2(1.0, x))
right("foldcauchy", lambda x, c: np.log(1.0 / (1.0 + np.square(x - c)) + 1.0 / (1.0 + np.square(x + c))) - LOGPI, valid=lambda c: [c >= 0], cdf=lambda x, c: (np.arctan(x - c) + np.arctan(x + c)) / PI, sf=lambda x, c: (np.arctan2(1.0, x - c) + np.arctan2(1.0, x + c)) / PI)
right("halflogistic", lambda x: LOG2 - x - 2.0 * np.log1p(np.exp(-x)), cdf=lambda x: np.tanh(x / 2.0), sf=lambda x: 2.0 * sc.expit(-x))
right("halfgennorm", lambda x, b: np.log(b) - sc.gammaln(1.0 / b) - x**b, cdf=lambda x, b: sc.gammainc(1.0 / b, x**b), sf=lambda x, b: sc.gammaincc(1.0 / b, x**b))
right("rayleigh", lambda x: np.log(x) - 0.5 * x * x, open=True, cdf=lambda x: -np.expm1(-0.5 * x * x), logsf=lambda x: -0.5 * x * x)
right("maxwell",  lambda x: LOG_ROOT_2_OVER_PI + 2.0 * np.log(x) - 0.5 * x * x, cdf=lambda x: sc.gammainc(1.5, x * x / 2.0), sf=lambda x: sc.gammaincc(1.5, x * x / 2.0))
right("rice",     lambda x, b: np.log(x) - np.square(x - b) / 2.0 + log_scaled_bessel(x * b), valid=lambda b: [b >= 0])
right("weibull_min", lambda x, c: np.log(c) + sc.xlogy(c - 1.0, x) - x**c, cdf=lambda x, c: -np.expm1(-(x**c)), logsf=lambda x, c: -(x**c))
real("weibull_max", lambda x, c: np.log(c) + sc.xlogy(c - 1.0, -x) - (-x) ** c, high=0.0, logcdf=lambda x, c: -((-x) ** c), sf=lambda x, c: -np.expm1(-((-x) ** c)))
right("exponweib", lambda x, a, c: np.log(a) + np.log(c) + sc.xlogy(a - 1.0, -np.expm1(-(x**c))) - x**c + sc.xlogy(c - 1.0, x), cdf=lambda x, a, c: (-np.expm1(-(x**c))) ** a, sf=lambda x, a, c: -np.expm1(a * np.log1p(-np.exp(-(x**c)))))
right("exponpow", lambda x, b: 1.0 + np.log(b) + sc.xlogy(b - 1.0, x) + x**b - np.exp(x**b), cdf=lambda x, b: -np.expm1(-np.expm1(x**b)), logsf=lambda x, b: -np.expm1(x**b))
right("invweibull", lambda x, c: np.log(c) - (c + 1.0) * np.log(x) - x ** (-c), open=True, logcdf=lambda x, c: -(x ** (-c)), sf=lambda x, c: -np.expm1(-(x ** (-c))))
right("gompertz", lambda x, c: np.log(c) + x - c * np.expm1(x), cdf=lambda x, c: -np.expm1(-c * np.expm1(x)), logsf=lambda x, c: -c * np.expm1(x))
right("lomax",    lambda x, c: np.log(c) - (c + 1.0) * np.log1p(x), cdf=lambda x, c: -np.expm1(-c * np.log1p(x)), logsf=lambda x, c: -c * np.log1p(x))
right("burr",     lambda x, c, d: np.log(c) + np.log(d) + sc.xlogy(-c - 1.0, x) - sc.xlog1py(d + 1.0, x ** (-c)), open=True, logcdf=lambda x, c, d: -d * np.log1p(x ** (-c)))
right("burr12",   lambda x, c, d: np.log(c) + np.log(d) + sc.xlogy(c - 1.0, x) - sc.xlog1py(d + 1.0, x**c), logsf=lambda x, c, d: -d * np.log1p(x**c), cdf=lambda x, c, d: -np.expm1(-d * np.log1p(x**c)))
right("fisk",     lambda x, c: np.log(c) + sc.xlogy(c - 1.0, x) - 2.0 * np.log1p(x**c), far=True, logcdf=lambda x, c: -np.log1p(x ** (-c)), logsf=lambda x, c: -np.log1p(x**c))
right("mielke",   lambda x, k, s: np.log(k) + sc.xlogy(k - 1.0, x) - np.log1p(x**s) * (1.0 + k / s), cdf=lambda x, k, s: x**k / (1.0 + x**s) ** (k / s))
right("loglaplace", lambda x, c: np.log(c / 2.0) + sc.xlogy(np.where(x < 1, c - 1.0, -c - 1.0), x), cdf=lambda x, c: np.where(x < 1, 0.5 * x**c, 1.0 - 0.5 * x ** (-c)), sf=lambda x, c: np.where(x < 1, 1.0 - 0.5 * x**c, 0.5 * x ** (-c)))
right("alpha",    lambda x, a: -2.0 * np.log(x) + normal(a - 1.0 / x) - np.log(sc.ndtr(a)), open=True, cdf=lambda x, a: sc.ndtr(a - 1.0 / x) / sc.ndtr(a))
right("invgauss", lambda x, mu: -LOG_ROOT_2PI - 1.5 * np.log(x) - np.square(x / mu - 1.0) / (2.0 * x), open=True, logcdf=inverse_gauss_cdf, logsf=inverse_gauss_sf)
right("wald",     lambda x: -LOG_ROOT_2PI - 1.5 * np.log(x) - np.square(x - 1.0) / (2.0 * x), open=True, logcdf=lambda x: inverse_gauss_cdf(x, 1.0), logsf=lambda x: inverse_gauss_sf(x, 1.0))
right("recipinvgauss", lambda x, mu: -np.square(1.0 - mu * x) / (2.0 * x * mu * mu) - 0.5 * np.log(2.0 * PI * x), open=True)
right("fatiguelife", lambda x, c: np.log(x + 1.0) - np.square(x - 1.0) / (2.0 * x * c * c) - np.log(2.0 * c) - LOG_ROOT_2PI - 1.5 * np.log(x), open=True, cdf=lambda x, c: sc.ndtr((np.sqrt(x) - 1.0 / np.sqrt(x)) / c), sf=lambda x, c: sc.ndtr((1.0 / np.sqrt(x) - np.sqrt(x)) / c))
right("levy",     lambda x: -LOG_ROOT_2PI - 1.5 * np.log(x) - 1.0 / (2.0 * x), open=True, cdf=lambda x: sc.erfc(np.sqrt(0.5 / x)), sf=lambda x: sc.erf(np.sqrt(0.5 / x)))
real("levy_l",    lambda x: -LOG_ROOT_2PI - 1.5 * np.log(-x) + 1.0 / (2.0 * x), high=0.0, open=True, cdf=lambda x: sc.erf(np.sqrt(-0.5 / x)), sf=lambda x: sc.erfc(np.sqrt(-0.5 / x)))
right("powerlognorm", lambda x, c, s: np.log(c) - np.log(x) - np.log(s) + normal(np.log(x) / s) + sc.log_ndtr(-np.log(x) / s) * (c - 1.0), open=True, logsf=lambda x, c, s: c * sc.log_ndtr(-np.log(x) / s))
right("pareto",   lambda x, b: np.log(b) - (b + 1.0) * np.log(x), low=1.0, cdf=lambda x, b: 1.0 - x ** (-b), sf=lambda x, b: x ** (-b), logsf=lambda x, b: -b * np.log(x))
right("genpareto", lambda x, c: -log1p_ratio(c, x) - np.log1p(c * x), far=True, high=lambda c: pick(c < 0, lambda: -1.0 / c, lambda: np.full(np.shape(c), INF)), valid=any_real, cdf=lambda x, c: -np.expm1(-log1p_ratio(c, x)), logsf=lambda x, c: -log1p_ratio(c, x))

# ---- on an interval
unit("uniform",   lambda x: 0.0 * x, cdf=lambda x: x)
unit("beta",      lambda x, a, b: sc.xlog1py(b - 1.0, -x) + sc.xlogy(a - 1.0, x) - sc.betaln(a, b), cdf=lambda x, a, b: sc.betainc(a, b, x), sf=lambda x, a, b: sc.betaincc(a, b, x))
unit("arcsine",   lambda x: -LOGPI - 0.5 * np.log(x * (1.0 - x)), cdf=lambda x: 2.0 / PI * np.arcsin(np.sqrt(x)))
unit("powerlaw",  lambda x, a: np.where(np.equal(x, 0.0) & (a < 1.0), -INF, np.log(a) + sc.xlogy(a - 1.0, x)), cdf=lambda x, a: x**a, logcdf=lambda x, a: a * np.log(x))
unit("bradford",  lambda x, c: np.log(c) - np.log1p(c * x) - np.log(np.log1p(c)), cdf=lambda x, c: np.log1p(c * x) / np.log1p(c))
unit("triang",    triangle, valid=lambda c: [c >= 0, c <= 1])
unit("trapezoid", trapezoid, valid=lambda c, d: [c >= 0, c <= 1, d >= 0, d <= 1, d >= c])
unit("johnsonsb", lambda x, a, b: np.log(b) - np.log(x * (1.0 - x)) + normal(a + b * sc.logit(x)), open=True, valid=lambda a, b: [b > 0, *any_real(a)], cdf=lambda x, a, b: sc.ndtr(a + b * sc.logit(x)), sf=lambda x, a, b: sc.ndtr(-a - b * sc.logit(x)))
unit("rdist",     lambda x, c: -LOG2 + sc.xlog1py(c / 2.0 - 1.0, -(x + 1.0) / 2.0) + sc.xlogy(c / 2.0 - 1.0, (x + 1.0) / 2.0) - sc.betaln(c / 2.0, c / 2.0), low=-1.0)
unit("semicircular", lambda x: np.log(2.0 / PI) + 0.5 * np.log1p(-x * x), low=-1.0, cdf=lambda x: 0.5 + (x * np.sqrt(1.0 - x * x) + np.arcsin(x)) / PI)
unit("anglit",    lambda x: np.log(np.cos(2.0 * x)), low=-PI / 4.0, high=PI / 4.0, cdf=lambda x: np.square(np.sin(x + PI / 4.0)))
unit("cosine",    lambda x: np.log1p(np.cos(x)) - np.log(2.0 * PI), low=-PI, high=PI)
unit("wrapcauchy", lambda x, c: np.log((1.0 - c * c) / (2.0 * PI * (1.0 + c * c - 2.0 * c * np.cos(x)))), high=2.0 * PI, valid=lambda c: [c > 0, c < 1])
unit("truncexpon", lambda x, b: -x - np.log(-np.expm1(-b)), high=lambda b: b, cdf=lambda x, b: np.expm1(-x) / np.expm1(-b), sf=lambda x, b: (np.exp(-b) - np.exp(-x)) / np.expm1(-b))
unit("truncnorm", lambda x, a, b: normal(x) - log_normal_mass(a, b), low=lambda a, b: a, high=lambda a, b: b, valid=lambda a, b: [a < b], logcdf=lambda x, a, b: log_normal_mass(a, x) - log_normal_mass(a, b), logsf=lambda x, a, b: log_normal_mass(x, b) - log_normal_mass(a, b))
unit("truncpareto", lambda x, b, c: np.log(-b / np.expm1(-b * np.log(c))) - (b + 1.0) * np.log(x), low=1.0, high=lambda b, c: c, valid=lambda b, c: [np.not_equal(b, 0.0), c > 1])
unit("loguniform", lambda x, a, b: -np.log(x) - np.log(np.log(b) - np.log(a)), low=lambda a, b: a, high=lambda a, b: b, valid=lambda a, b: [a > 0, b > a], cdf=lambda x, a, b: (np.log(x) - np.log(a)) / (np.log(b) - np.log(a)))
unit("reciprocal", lambda x, a, b: -np.log(x) - np.log(np.log(b) - np.log(a)), low=lambda a, b: a, high=lambda a, b: b, valid=lambda a, b: [a > 0, b > a], cdf=lambda x, a, b: (np.log(x) - np.log(a)) / (np.log(b) - np.log(a)))
real("genextreme", lambda x, c: -np.exp(-log1p_ratio(-c, x)) - log1p_ratio(-c, x) - np.log1p(-c * x), valid=any_real,
     low=lambda c: pick(c < 0, lambda: 1.0 / c, lambda: np.full(np.shape(c), -INF)), high=lambda c: pick(c > 0, lambda: 1.0 / c, lambda: np.full(np.shape(c), INF)), open=True,
     logcdf=lambda x, c: -np.exp(-log1p_ratio(-c, x)), sf=lambda x, c: -np.expm1(-np.exp(-log1p_ratio(-c, x))))
