"""Noncentral laws, the skew normal one and sums of uniform variables: SciPy's values, slopes by formulas.

Their cumulative functions are sums or integrals without a closed form, which SciPy computes. Slopes for
degrees of freedom are in `degrees_of_freedom`.
"""

from __future__ import annotations

import numpy as np
import scipy.special as sc

from ..special.formula_rules import formula_rule
from .continuous_laws import any_real, normal
from .degrees_of_freedom import chi2_for_freedom, f_for_freedom, t_density_for_freedom, t_for_freedom
from .distributions import extend, register
from .laws import INF, LOG2, Law, pick


def rule(name: str, slopes: dict):
    """Return a method of a distribution of ``scipy.stats`` as a function with derivatives."""
    return formula_rule(name, slopes, home="scipy.stats")


def within(low, function):
    """Return a function of a law that other points do not reach, since slopes are NaN at infinity."""
    return lambda x, *shapes: function(np.where((x <= low) | np.equal(x, INF), 1.0, x), *shapes)


def finite(function, below, above):
    """Return a function of a law on the whole line, with its values at minus and plus infinity."""
    inside = within(-INF, function)

    def everywhere(x, *shapes):
        infinite = np.isinf(x)
        return np.where(infinite, np.where(x > 0, above, below), inside(x, *shapes))

    return everywhere


# ---- Student's t: with s = sqrt(chi2/df), the moments E[s**k * normal_density(x*s - nc)] give all slopes.


def _log_scale(df):
    """Return the logarithm of the constant of the density of s."""
    return 0.5 * df * np.log(0.5 * df) + LOG2 - sc.gammaln(0.5 * df)


def _moment(k: int, x, df, nc):
    """Return the k-th moment: a density of ``df + k - 1`` degrees of freedom, but for its constant."""
    d = df + (k - 1.0)
    ratio = d / df
    factor = np.exp(_log_scale(df) - _log_scale(d) + 0.5 * (d + 1.0) * np.log(ratio))
    return factor * T_PDF(x * np.sqrt(ratio), d, nc)


def zeroth_moment(x, df, nc):
    """Return the moment of order 0, by integration by parts where there are too few degrees of freedom."""
    few = np.less(df, 1.5)
    from_second = (np.square(x) / df + 1.0) * _moment(2, x, df, nc) - x / df * nc * T_PDF(x, df, nc)
    return np.where(few, from_second, _moment(0, x, np.where(few, 2.0, df), nc))


def _t_mean(df):
    """Return the mean of 1/s."""
    half = np.where(df > 1.0, 0.5 * df, 1.0)
    return np.sqrt(half) * sc.poch(half, -0.5)


def _t_variance(df, nc):
    some = np.where(df > 2.0, df, 3.0)
    square = np.square(nc)
    return np.where(
        df > 2.0, some * (1.0 + square) / (some - 2.0) - square * np.square(_t_mean(some)), np.nan
    )


T_PDF = rule(
    "nct.pdf",
    {
        0: lambda z, x, df, nc: nc * _moment(2, x, df, nc) - x * _moment(3, x, df, nc),
        1: t_density_for_freedom,
        2: lambda z, x, df, nc: x * _moment(2, x, df, nc) - nc * z,
    },
)
_T_CDF = rule(
    "nct.cdf",
    {
        0: lambda z, x, df, nc: T_PDF(x, df, nc),
        1: lambda z, x, df, nc: t_for_freedom(x, df, nc),
        2: lambda z, x, df, nc: -zeroth_moment(x, df, nc),
    },
)
_T_SF = rule(
    "nct.sf",
    {
        0: lambda z, x, df, nc: -T_PDF(x, df, nc),
        1: lambda z, x, df, nc: -t_for_freedom(x, df, nc),
        2: lambda z, x, df, nc: zeroth_moment(x, df, nc),
    },
)


# ---- F: a sum over Poisson's law, whose slope for nc is half the difference of two degrees of freedom.
# All three laws: Johnson, Kotz and Balakrishnan, "Continuous univariate distributions 2", chapters 29 to 31.


def _log_f(x, m, n, nc):
    central = 0.5 * m * np.log(m) + 0.5 * n * np.log(n) + sc.xlogy(0.5 * m - 1.0, x)
    share = m * x / (n + m * x)
    rest = 0.5 * (m + n) * np.log(n + m * x) + sc.betaln(0.5 * m, 0.5 * n)
    return central - rest - 0.5 * nc + np.log(sc.hyp1f1(0.5 * (m + n), 0.5 * m, 0.5 * nc * share))


def f_density(x, m, n, nc):
    """Return the density of the noncentral F distribution."""
    return np.exp(_log_f(x, m, n, nc))


def f_for_first(x, m, n, nc):
    """Return the slope of the noncentral F distribution function for the first degrees of freedom."""
    return f_for_freedom(True, f_density(x, m, n, nc), x, m, n, nc)


def f_for_second(x, m, n, nc):
    """Return the slope of the noncentral F distribution function for the second degrees of freedom."""
    return f_for_freedom(False, f_density(x, m, n, nc), x, m, n, nc)


def _f_for_noncentrality(cumulative):
    """Return the slope for nc of a cumulative function of x, which needs a scale for other degrees."""
    return lambda z, x, m, n, nc: 0.5 * (cumulative(x * m / (m + 2.0), m + 2.0, n, nc) - z)


F_CDF = rule(
    "ncf.cdf",
    {
        0: lambda z, x, m, n, nc: f_density(x, m, n, nc),
        1: lambda z, *args: f_for_first(*args),
        2: lambda z, *args: f_for_second(*args),
        3: lambda *args: _f_for_noncentrality(F_CDF)(*args),
    },
)
_F_SF = rule(
    "ncf.sf",
    {
        0: lambda z, x, m, n, nc: -f_density(x, m, n, nc),
        1: lambda z, *args: -f_for_first(*args),
        2: lambda z, *args: -f_for_second(*args),
        3: lambda *args: _f_for_noncentrality(_F_SF)(*args),
    },
)


def _f_variance(m, n, nc):
    some = np.where(n > 4.0, n, 5.0)
    spread = np.square(m + nc) + (m + 2.0 * nc) * (some - 2.0)
    value = 2.0 * np.square(some / m) * spread / (np.square(some - 2.0) * (some - 4.0))
    return np.where(n > 4.0, value, np.nan)


# ---- Chi-squared: like F

# Smaller Bessel functions are not used: the third derivatives of their logarithm would overflow.
_SMALL = 1e-100


def _log_near_central(x, df, nc):
    """Return the log-density where its Bessel function is small, or the first term of that function's series.

    Powers of ``nc``, which cancel, are left out: so slopes keep their digits down to ``nc == 0``. The series
    is one term times a sum. At orders below 100 a few terms of the sum are enough: ``x * nc`` is below 60
    where the function is small. At others the sum follows from Debye's expansion (DLMF 10.41.3), whose first
    term left out is below 1e-12.
    """
    order = 0.5 * df - 1.0
    central = sc.xlogy(order, 0.5 * x) - sc.gammaln(order + 1.0) - 0.5 * (x + nc) - LOG2
    few = np.less(order, 100.0)
    return central + np.where(
        few, _log_series(0.25 * x * nc, order), _log_debye(x * nc, np.where(few, 100.0, order))
    )


def _log_series(q, order):
    """Return log of 0F1(order + 1; q), for q up to a seventh of ``order + 1``."""
    total = 1.0
    for k in range(9, 0, -1):
        total = 1.0 + q * total / (k * (order + k))
    return np.log(total)


def _log_debye(square, order):
    """Return log of 0F1(order + 1; square/4) for large orders.

    The same expansion of the factorial is taken off, so that the result vanishes with ``square``.
    """
    square = square / np.square(order)
    root = np.sqrt(1.0 + square)
    exponent = square / (1.0 + root) - np.log(0.5 * (1.0 + root))
    terms = np.log(_debye_terms(order, 1.0 / root) / _debye_terms(order, 1.0))
    return order * exponent - 0.5 * np.log(root) + terms


def _debye_terms(order, p):
    """Return 1 + U_1(p)/order + U_2(p)/order**2 + U_3(p)/order**3 (DLMF 10.41.10)."""
    q = p * p
    first = p * (3.0 - 5.0 * q) / 24.0
    second = q * (81.0 + q * (385.0 * q - 462.0)) / 1152.0
    third = p * q * (30375.0 + q * (q * (765765.0 - 425425.0 * q) - 369603.0)) / 414720.0
    return 1.0 + (first + (second + third / order) / order) / order


def _log_chi2(x, df, nc):
    # The second condition is met by many degrees of freedom beside a small noncentrality: 1500, 0.3 and
    # x = 1500 let `ive` underflow. SciPy's logpdf, but not its pdf, is minus infinity there.
    few = np.less_equal(3.5 * x * nc, df)
    near = few | np.less(sc.ive(0.5 * df - 1.0, np.sqrt(nc * x)), _SMALL)

    def usual():
        mean, safe, more = (
            np.where(near, number, shape) for number, shape in ((1.0, x), (3.0, df), (1.0, nc))
        )
        gap = np.sqrt(mean) - np.sqrt(more)
        bessel = np.log(sc.ive(0.5 * safe - 1.0, np.sqrt(more * mean)))
        return -LOG2 - 0.5 * gap * gap + (0.25 * safe - 0.5) * np.log(mean / more) + bessel

    return pick(near, lambda: _log_near_central(x, np.where(near, df, 4.0), nc), usual)


def chi2_density(x, df, nc):
    """Return the density of the noncentral chi-squared distribution."""
    return np.exp(_log_chi2(x, df, nc))


_CHI2_SF = rule(
    "ncx2.sf",
    {
        0: lambda z, x, df, nc: -chi2_density(x, df, nc),
        1: lambda z, x, df, nc: -chi2_for_freedom(x, df, nc),
        2: lambda z, x, df, nc: 0.5 * (_CHI2_SF(x, df + 2.0, nc) - z),
    },
)


# ---- The skew normal law (A. Azzalini, "A class of distributions which includes the normal ones", 1985)


def _skew_density(z, x, a):
    return 2.0 * np.exp(normal(x) + sc.log_ndtr(a * x))


def _skew_slope(z, x, a):
    square = np.square(a)
    return -np.exp(-0.5 * np.square(x) * (1.0 + square)) / (np.pi * (1.0 + square))


_SKEW_CDF = rule("skewnorm.cdf", {0: _skew_density, 1: _skew_slope})

# ---- Irwin and Hall's law (1927), a sum of n uniform variables: a spline, whose slope is a difference of two


def _sum_slope(z, x, n):
    alone = np.less_equal(n, 1.0)
    fewer = np.where(alone, 1.0, n - 1.0)
    return np.where(alone, 0.0, _SUM_PDF(x, fewer) - _SUM_PDF(x - 1.0, fewer))


_SUM_PDF = rule("irwinhall.pdf", {0: _sum_slope})
_SUM_CDF = rule("irwinhall.cdf", {0: lambda z, x, n: _SUM_PDF(x, n)})
_SUM_SF = rule("irwinhall.sf", {0: lambda z, x, n: -_SUM_PDF(x, n)})

register(
    "irwinhall",
    Law(
        lambda x, n: np.log(_SUM_PDF(x, n)),
        low=0.0,
        high=lambda n: n,
        valid=lambda n: [n > 0, np.equal(n, np.floor(n))],
        cdf=_SUM_CDF,
        sf=_SUM_SF,
        mean=lambda n: 0.5 * n,
        var=lambda n: n / 12.0,
    ),
)
register(
    "nct",
    Law(
        # Where this is NaN, SciPy's density is, too.
        finite(lambda x, df, nc: np.log(T_PDF(x, df, nc)), np.nan, np.nan),
        valid=lambda df, nc: [df > 0, *any_real(nc)],
        cdf=finite(_T_CDF, 0.0, 1.0),
        sf=finite(_T_SF, 1.0, 0.0),
        mean=lambda df, nc: np.where(df > 1.0, nc * _t_mean(df), np.nan),
        var=_t_variance,
    ),
)
register(
    "ncf",
    Law(
        _log_f,
        low=0.0,
        valid=lambda m, n, nc: [m > 0, n > 0, nc >= 0],
        cdf=within(0.0, F_CDF),
        sf=within(0.0, _F_SF),
        mean=lambda m, n, nc: np.where(n > 2.0, n * (m + nc) / (m * (n - 2.0)), np.nan),
        var=_f_variance,
    ),
)
register(
    "ncx2",
    Law(
        _log_chi2,
        low=0.0,
        far=True,
        valid=lambda df, nc: [df > 0, df < INF, nc >= 0],
        cdf=lambda x, df, nc: sc.chndtr(x, df, nc),
        sf=within(0.0, _CHI2_SF),
        mean=lambda df, nc: df + nc,
        var=lambda df, nc: 2.0 * df + 4.0 * nc,
    ),
)
extend("skewnorm", cdf=_SKEW_CDF, sf=lambda x, a: _SKEW_CDF(-x, -a))
