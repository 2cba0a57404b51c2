"""Inverses of the distribution functions of ``scipy.special`` for a parameter, and noncentral ones.

An inverse z solves ``F(z, others) = p``: its slope for p is ``1/F_z``, for another argument ``-F_arg/F_z``.
Values are SciPy's.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.special as sc

from ...trace.primitives import by_row
from ..stats.degrees_of_freedom import chi2_for_freedom, t_for_freedom
from ..stats.noncentral_laws import (
    F_CDF,
    T_PDF,
    chi2_density,
    f_density,
    f_for_first,
    f_for_second,
    zeroth_moment,
)
from .formula_rules import formula_rule
from .ufunc_table import UFUNCS


def _gamma_density(a, x):
    return np.exp(sc.xlogy(a - 1.0, x) - x - sc.gammaln(a))


def _beta_density(a, b, x):
    return np.exp(sc.xlogy(a - 1.0, x) + sc.xlog1py(b - 1.0, -x) - sc.betaln(a, b))


_gamma_for_a = by_row("gammainc_a")
_beta_for_a, _beta_for_b = by_row("betainc_a"), by_row("betainc_b")


def _inverse(name: str, probability: int, slope: Callable, others: dict[int, Callable]) -> None:
    """Register an inverse.

    Parameters
    ----------
    name
        SciPy's name.
    probability
        The position of the argument that F equals.
    slope
        ``F_z(z, *args)``.
    others
        ``F_arg(z, *args)`` for other arguments, by position.
    """
    known: dict[int, Callable] = {probability: lambda z, *args: 1.0 / slope(z, *args)}
    for k, part in others.items():
        known[k] = lambda z, *args, part=part: -part(z, *args) / slope(z, *args)
    if name not in OF_ANY_SIZE:
        known = {k: _where_found(part, ENDS.get(name, 1e100)) for k, part in known.items()}
    UFUNCS[name] = formula_rule(name, known)


# Inverses for the place, and for the noncentrality of Student's law, whose result may be zero.
OF_ANY_SIZE = ("chndtrix", "ncfdtri", "nctdtrit", "nctdtrinc")
ENDS = {"stdtridf": 1e10}  # where SciPy's search ends, if not at 1e100


def _where_found(slope: Callable, end: float) -> Callable:
    """Return a slope that is zero at the ends of SciPy's search, which are its results where it finds none.

    There, series have no end that could be waited for.
    """

    def inside(z, *args):
        size = np.abs(z)
        found = (size > 1e-300) & (size < end)
        return np.where(found, slope(np.where(found, z, 1.0), *args), np.where(np.isnan(z), np.nan, 0.0))

    return inside


# ---- gamma and chi-squared: gammainc(b, a*x), gammainc(v/2, x/2), gammaincc(k + 1, m)

_inverse(
    "gdtrib",
    1,
    lambda z, a, p, x: _gamma_for_a(z, a * x),
    {0: lambda z, a, p, x: x * _gamma_density(z, a * x), 2: lambda z, a, p, x: a * _gamma_density(z, a * x)},
)
_inverse(
    "chdtriv",
    0,
    lambda z, p, x: 0.5 * _gamma_for_a(0.5 * z, 0.5 * x),
    {1: lambda z, p, x: 0.5 * _gamma_density(0.5 * z, 0.5 * x)},
)
_inverse(
    "pdtrik",
    0,
    lambda z, p, m: -_gamma_for_a(z + 1.0, m),
    {1: lambda z, p, m: -_gamma_density(z + 1.0, m)},
)

# ---- beta, binomial: betainc(a, b, x), betainc(n - k, k + 1, 1 - p), betainc(n, k + 1, p)

_inverse(
    "btdtria",
    0,
    lambda z, p, b, x: _beta_for_a(z, b, x),
    {1: lambda z, p, b, x: _beta_for_b(z, b, x), 2: lambda z, p, b, x: _beta_density(z, b, x)},
)
_inverse(
    "btdtrib",
    1,
    lambda z, a, p, x: _beta_for_b(a, z, x),
    {0: lambda z, a, p, x: _beta_for_a(a, z, x), 2: lambda z, a, p, x: _beta_density(a, z, x)},
)


def _binomial_for_k(k, n, p):
    return _beta_for_b(n - k, k + 1.0, 1.0 - p) - _beta_for_a(n - k, k + 1.0, 1.0 - p)


def _binomial_for_n(k, n, p):
    return _beta_for_a(n - k, k + 1.0, 1.0 - p)


def _binomial_for_p(k, n, p):
    return -_beta_density(k + 1.0, n - k, p)


_inverse(
    "bdtrik",
    0,
    lambda z, y, n, p: _binomial_for_k(z, n, p),
    {1: lambda z, y, n, p: _binomial_for_n(z, n, p), 2: lambda z, y, n, p: _binomial_for_p(z, n, p)},
)
_inverse(
    "bdtrin",
    1,
    lambda z, k, y, p: _binomial_for_n(k, z, p),
    {0: lambda z, k, y, p: _binomial_for_k(k, z, p), 2: lambda z, k, y, p: _binomial_for_p(k, z, p)},
)
_inverse(
    "nbdtrik",
    0,
    lambda z, y, n, p: _beta_for_b(n, z + 1.0, p),
    {1: lambda z, y, n, p: _beta_for_a(n, z + 1.0, p), 2: lambda z, y, n, p: _beta_density(n, z + 1.0, p)},
)
_inverse(
    "nbdtrin",
    1,
    lambda z, k, y, p: _beta_for_a(z, k + 1.0, p),
    {0: lambda z, k, y, p: _beta_for_b(z, k + 1.0, p), 2: lambda z, k, y, p: _beta_density(z, k + 1.0, p)},
)

# ---- F: betainc(m/2, n/2, m*x/(m*x + n))


def _f_for_n(m, n, x):
    share = m * x / (m * x + n)
    moved = -share / (m * x + n)
    return 0.5 * _beta_for_b(0.5 * m, 0.5 * n, share) + _beta_density(0.5 * m, 0.5 * n, share) * moved


def _f_for_m(m, n, x):
    share = m * x / (m * x + n)
    moved = n * x / np.square(m * x + n)
    return 0.5 * _beta_for_a(0.5 * m, 0.5 * n, share) + _beta_density(0.5 * m, 0.5 * n, share) * moved


def _f_for_x(m, n, x):
    share = m * x / (m * x + n)
    return _beta_density(0.5 * m, 0.5 * n, share) * m * n / np.square(m * x + n)


_inverse(
    "fdtridfd",
    1,
    lambda z, m, p, x: _f_for_n(m, z, x),
    {0: lambda z, m, p, x: _f_for_m(m, z, x), 2: lambda z, m, p, x: _f_for_x(m, z, x)},
)

# ---- Student's t: half a betainc of t*t/(v + t*t), or of the rest in the tails


def _student_for_v(v, t):
    square = np.square(t)
    tail = np.greater(square, v)
    share = np.where(tail, v, square) / (v + square)
    moved = np.where(tail, 1.0, -1.0) * square / np.square(v + square)
    a, b = np.where(tail, 0.5 * v, 0.5), np.where(tail, 0.5, 0.5 * v)
    for_v = 0.5 * np.where(tail, _beta_for_a(a, b, share), _beta_for_b(a, b, share))
    inside = for_v + _beta_density(a, b, share) * moved
    return 0.5 * np.sign(t) * np.where(tail, -inside, inside)


def _student_density(v, t):
    log = -0.5 * (v + 1.0) * np.log1p(np.square(t) / v) - sc.betaln(0.5 * v, 0.5) - 0.5 * np.log(v)
    return np.exp(log)


_inverse("stdtridf", 0, lambda z, p, t: _student_for_v(z, t), {1: lambda z, p, t: _student_density(z, t)})

# ---- noncentral laws: chi-squared, F, Student's t, with a slope for each argument, and their inverses


def _noncentral(name: str, slopes: tuple[Callable, ...], inverses: str) -> None:
    """Register a distribution function, and its inverses for its arguments in order.

    Parameters
    ----------
    name
        SciPy's name.
    slopes
        The derivatives for the arguments, as functions of all of them.
    inverses
        SciPy's names of the inverses; a dash where there is none.
    """

    def of(slope):
        return lambda z, *args: slope(*args)

    UFUNCS[name] = formula_rule(name, {k: of(slope) for k, slope in enumerate(slopes)})
    for place, inverse in enumerate(inverses.split()):

        def at(slope, place=place):
            """Return a slope where z takes the place of the probability."""
            return lambda z, *args: slope(*args[:place], z, *args[place + 1 :])

        if inverse != "-":
            others = {k: at(slope) for k, slope in enumerate(slopes) if k != place}
            _inverse(inverse, place, at(slopes[place]), others)


def _chi2_for_noncentrality(x, df, nc):
    return 0.5 * (sc.chndtr(x, df + 2.0, nc) - sc.chndtr(x, df, nc))


def _f_for_noncentrality(m, n, nc, x):
    return 0.5 * (F_CDF(x * m / (m + 2.0), m + 2.0, n, nc) - F_CDF(x, m, n, nc))


_noncentral(
    "chndtr", (chi2_density, chi2_for_freedom, _chi2_for_noncentrality), "chndtrix chndtridf chndtrinc"
)
_noncentral(
    "ncfdtr",
    (
        lambda m, n, nc, x: f_for_first(x, m, n, nc),
        lambda m, n, nc, x: f_for_second(x, m, n, nc),
        _f_for_noncentrality,
        lambda m, n, nc, x: f_density(x, m, n, nc),
    ),
    "ncfdtridfn ncfdtridfd ncfdtrinc ncfdtri",
)
_noncentral(
    "nctdtr",
    (
        lambda df, nc, t: t_for_freedom(t, df, nc),
        lambda df, nc, t: -zeroth_moment(t, df, nc),
        lambda df, nc, t: T_PDF(t, df, nc),
    ),
    "nctdtridf nctdtrinc nctdtrit",
)
