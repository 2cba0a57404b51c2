"""``scipy.special``: functions that are compositions of rows, ufuncs and others.

Calls of a ufunc come from NumPy's protocol, wherever the call is (`numbatape.numpy_api.ufuncs`); other
functions have stand-ins. Numbers of formulas are those of the DLMF.
"""

from __future__ import annotations

import numpy as np
import scipy.special as sc

from ...numpy_api.stand_ins import stands_for
from ...trace.array import TracedArray
from ...trace.operands import adopt, lift_first, values_of
from ...trace.primitives import by_row
from ..stats.laws import pick
from . import (  # noqa: F401  (their ufuncs register themselves)
    bessel_orders,
    characteristic_values,
    elliptic_integrals,
    hypergeometric_parameters,
    orthogonal_polynomials,
    parameter_inverses,
    special_integrals,
    struve_orders,
    tricomi_and_wright,
    tukey_lambda,
    wave_functions,
    zeta_functions,
)
from .elliptic_parameters import amplitude
from .formula_rules import formula_rule
from .ufunc_table import UFUNCS, is_active, ufunc, whole


def composed_special(function, inputs, kwargs):
    """Return the result of a ufunc that is composed, or None."""
    implementation = UFUNCS.get(function.__name__)
    if implementation is None or getattr(sc, function.__name__, None) is not function:
        return None
    value = function(*map(values_of, inputs), **kwargs)
    dtype = np.asarray(value[0] if isinstance(value, tuple) else value).dtype
    with np.errstate(all="ignore"):
        return adopt(implementation(*(_widened(x, dtype) for x in inputs)), value)


def _widened(x, dtype):
    """Return a number or an array in the dtype of the result, if NumPy's functions of it would be narrower.

    The root of an int8 is a float16, in which a composition would lose most of its digits, and that of a
    float32 beside float64 is a float32.
    """
    its = np.asarray(values_of(x)).dtype
    double = dtype in (np.float64, np.complex128)
    if its.kind not in "buif" or its.itemsize > (4 if its.kind == "f" and double else 2):
        return x
    dtype = np.dtype(float) if double else dtype
    return np.astype(x, dtype) if isinstance(x, (TracedArray, np.ndarray)) else dtype.type(x)


# ---- distribution functions: counts as regularised gamma and beta functions, 8.4.10, 8.17.5
# SciPy cuts off the fractions of counts, so that these functions are steps of them.


@ufunc("bdtr")
def bdtr(k, n, p):
    k, n = np.floor(k), np.trunc(n)
    inside = by_row("betaincc")(np.minimum(k, n - 1.0) + 1.0, np.maximum(n - k, 1.0), p)
    return _counted(k, n, p, inside, 1.0)


@ufunc("bdtrc")
def bdtrc(k, n, p):
    k, n = np.floor(k), np.trunc(n)
    inside = by_row("betainc")(np.maximum(k, 0.0) + 1.0, np.maximum(n - k, 1.0), p)
    below = np.less(k, 0) & np.less_equal(k, n) & (p >= 0) & (p <= 1) & np.isfinite(n)
    return np.where(below, 1.0, _counted(k, n, p, inside, 0.0))


def _counted(k, n, p, inside, at_end):
    bad = (p < 0) | (p > 1) | np.less(n, k) | np.less(k, 0) | np.isinf(n)
    return np.where(bad, np.nan, np.where(np.equal(k, n), at_end, inside))


@ufunc("bdtri")
def bdtri(k, n, y):
    k, n = np.floor(k), np.trunc(n)
    bad = np.equal(k, n) | np.less(k, 0) | np.isinf(n)
    return np.where(bad, np.nan, by_row("betainccinv")(k + 1.0, n - k, y))


def _negative_binomial(row, k, n, p):
    k, n = np.trunc(k), np.trunc(n)
    return np.where(np.less(k, 0) | np.less_equal(n, 0), np.nan, by_row(row)(n, k + 1.0, p))


@ufunc("nbdtr")
def nbdtr(k, n, p):
    return _negative_binomial("betainc", k, n, p)


@ufunc("nbdtrc")
def nbdtrc(k, n, p):
    return _negative_binomial("betaincc", k, n, p)


@ufunc("nbdtri")
def nbdtri(k, n, y):
    found = _negative_binomial("betaincinv", k, n, y)
    at_end = np.greater_equal(np.trunc(k), 0) & (np.equal(y, 0.0) | np.equal(y, 1.0))
    return np.where(at_end, y, found)


@ufunc("pdtri")
def pdtri(k, y):
    # SciPy has no rate whose probability is one.
    inside = np.greater_equal(y, 0.0) & np.less(y, 1.0) & np.greater_equal(np.trunc(k), 0.0)
    return np.where(
        inside, by_row("gammainccinv")(np.trunc(k) + 1.0, np.where(inside, y, 0.5)), np.multiply(np.nan, y)
    )


@ufunc("chdtri")
def chdtri(v, p):
    return 2.0 * by_row("gammainccinv")(0.5 * v, p)


@ufunc("fdtri")
def fdtri(m, n, p):
    rest = by_row("betainccinv")(0.5 * n, 0.5 * m, p)  # 1 - w, because w near one would have lost its digits
    return by_row("betaincinv")(0.5 * m, 0.5 * n, p) * n / (m * rest)


@ufunc("gdtrix")
def gdtrix(a, b, p):
    return by_row("gammaincinv")(b, p) / a


@ufunc("gdtria")
def gdtria(p, b, x):
    return by_row("gammaincinv")(b, p) / x


@ufunc("nrdtrimn")
def nrdtrimn(p, std, x):
    return np.where(np.greater(std, 0.0), x - std * sc.ndtri(p), np.nan)


@ufunc("nrdtrisd")
def nrdtrisd(mn, p, x):
    return (x - mn) / sc.ndtri(p)


@ufunc("smirnov")
def smirnov(n, d):
    """Add the terms of Birnbaum and Tingey's sum, which terms are all positive."""
    n = whole("smirnov", n)
    return np.where((d < 0.0) | (d > 1.0), np.nan, np.power(1.0 - d, n) + d * _smirnov_sums(n, d)[0])


def _smirnov_sums(n: int, d):
    """Return the sum of all terms but the first, and its derivative."""
    j = np.arange(1.0, n)
    share = j / n
    d = np.expand_dims(d, -1)
    inside = np.less(d + share, 1.0)
    place, left = np.where(inside, d + share, 0.5), np.where(inside, 1.0 - d - share, 0.5)
    choose = sc.gammaln(n + 1.0) - sc.gammaln(j + 1.0) - sc.gammaln(n - j + 1.0)
    terms = np.where(inside, np.exp(choose + (j - 1.0) * np.log(place) + (n - j) * np.log(left)), 0.0)
    return np.sum(terms, -1), np.sum(terms * ((j - 1.0) / place - (n - j) / left), -1)


def _smirnov_slope(n, d):
    n = whole("smirnov", n)
    total, rise = _smirnov_sums(n, d)
    return total + d * rise - n * np.power(1.0 - d, n - 1)


_smirnovi = formula_rule("smirnovi", {1: lambda z, n, p: 1.0 / _smirnov_slope(n, z)})


@ufunc("smirnovi")
def smirnovi(n, p):
    return _smirnovi(whole("smirnovi", n), p)


# ---- several results


def results(*rows):
    def function(*args):
        return tuple(by_row(name)(*args) for name in rows)

    return function


UFUNCS["airy"] = results("airy_ai", "airy_aip", "airy_bi", "airy_bip")
UFUNCS["airye"] = results("airye_ai", "airye_aip", "airye_bi", "airye_bip")
UFUNCS["sici"] = results("sine_integral", "cosine_integral")
UFUNCS["shichi"] = results("sinh_integral", "cosh_integral")
UFUNCS["fresnel"] = results("fresnel_sine", "fresnel_cosine")


@ufunc("ellipj")
def ellipj(u, m):
    """Return sn, cn, dn and the amplitude, by 22.16.11 and 22.16.12."""
    phi = amplitude(u, m) if is_active(m) else by_row("amplitude")(u, m)
    sine, cosine = np.sin(phi), np.cos(phi)
    return sine, cosine, np.sqrt(cosine * cosine + (1.0 - m) * (sine * sine)), phi


# ---- complex results of real numbers


def _hankel(v, x, sign: float):
    """Return ``J + sign*i*Y``; at negative x, above the cut, by 10.11.5."""
    negative = np.less(x, 0.0)
    size = np.where(negative, -x, x)
    re, im = sc.jv(v, size), sign * sc.yv(v, size)

    def turned():
        turn = np.exp(-1j * np.pi * v)
        if sign > 0.0:
            return -turn * (re - 1j * im)
        return np.conj(turn) * (re - 1j * im) + 2.0 * np.cos(np.pi * v) * (re + 1j * im)

    return pick(negative, turned, lambda: re + 1j * im)


@ufunc("hankel1")
def hankel1(v, x):
    return _hankel(v, x, 1.0)


@ufunc("hankel2")
def hankel2(v, x):
    return _hankel(v, x, -1.0)


@ufunc("hankel1e")
def hankel1e(v, x):
    return hankel1(v, x) * np.exp(-1j * x)


@ufunc("hankel2e")
def hankel2e(v, x):
    return hankel2(v, x) * np.exp(1j * x)


@ufunc("wofz")
def wofz(x):
    """Return Faddeeva's function, by 7.5.1."""
    return np.exp(-np.square(x)) + 1j * (2.0 / np.sqrt(np.pi) * sc.dawsn(x))


@stands_for("scipy.special", "lambertw")
def lambertw(z, k=0, tol=1e-8):
    """Return one of the two real branches, 4.13.1; others come from SciPy's function of complex numbers."""
    z = lift_first(z) if isinstance(z, (list, tuple)) else z
    real = type(z) is TracedArray and k in (0, -1)
    if real and np.all(z >= -np.exp(-1.0) if k == 0 else (z >= -np.exp(-1.0)) & (z < 0)):
        return by_row("lambertw" if k == 0 else "lambertw_minus")(z) + 0j
    from scipy.special._ufuncs import _lambertw

    return _lambertw(z + 0j, np.asarray(k, int), tol)


# ---- elementary and elliptic


@ufunc("radian")
def radian(d, m, s):
    return np.deg2rad(d + m / 60.0 + s / 3600.0)


@ufunc("inv_boxcox")
def inv_boxcox(y, lmbda):
    return np.exp(_inverse_power(y, lmbda))


@ufunc("inv_boxcox1p")
def inv_boxcox1p(y, lmbda):
    return np.expm1(_inverse_power(y, lmbda))


def _inverse_power(y, lmbda):
    """Return ``log1p(lmbda*y)/lmbda``, which is smooth at lmbda = 0."""
    product = lmbda * y
    extreme = ~(np.abs(product) < 1e300)

    inside = np.where(extreme, 1.0, y) / sc.exprel(np.log1p(np.where(extreme, 0.0, product)))
    # The logarithm of a product that overflows: NaN where it is negative. Infinity times zero is infinity.
    power = np.where(extreme & ~np.equal(lmbda, 0.0), lmbda, 1.0)
    far = (np.log(np.abs(power)) + np.log(np.sign(power) * np.where(extreme, y, 1.0))) / power
    return np.where(extreme, np.where(np.equal(lmbda, 0.0), y, far), inside)


@ufunc("agm")
def agm(a, b):
    """Return the arithmetic-geometric mean, by 19.8.5.

    Where an argument is zero, so is the mean, and its slope for that argument is infinite.
    """
    a_is_zero, b_is_zero = np.equal(a, 0.0), np.equal(b, 0.0)
    zero = a_is_zero | b_is_zero
    # These are the numbers whose quotients by half the sum would lose digits or overflow, and zeros.
    extreme = zero | ~(np.abs(a) < 1e280 * np.abs(b)) | ~(np.abs(b) < 1e280 * np.abs(a))
    extreme = extreme | ~(np.abs(a) < np.inf) | ~(np.abs(b) < np.inf)

    def mean(a, b):
        half = 0.5 * a + 0.5 * b
        return half * (np.pi / 2.0 / sc.ellipkm1(a / half * (b / half)))

    def apart(a, b):
        """Return the mean where b is next to nothing beside a: there K is log(4) - log(k')."""
        return a * (np.pi / 4.0 / (np.log(2.0) + 0.5 * (np.log(np.abs(a)) - np.log(np.abs(b)))))

    inside = mean(*(np.where(extreme, 1.0, part) for part in (a, b)))
    a_is_large = np.abs(a) > np.abs(b)
    infinite = np.isinf(a) | np.isinf(b)
    alike = np.equal(np.sign(a), np.sign(b)) & extreme & ~zero & ~infinite
    large, small = np.where(a_is_large, a, b), np.where(a_is_large, b, a)
    far = apart(np.where(alike, large, 2.0), np.where(alike, small, 1.0))
    # The root is zero and has an infinite slope. At two zeros the slopes are those of equal arguments.
    roots = [np.sqrt(np.where(z, x, 1.0)) for z, x in ((a_is_zero, a), (b_is_zero, b))]
    root = np.where(a_is_zero, *roots)
    # Infinity and zero have no mean, nor have two numbers of different signs.
    endless = np.where(zero | np.not_equal(np.sign(a), np.sign(b)), np.nan, large)
    rest = np.where(infinite, endless, np.where(zero, root, np.where(alike, far, np.nan)))
    return np.where(a_is_zero & b_is_zero, 0.5 * (a + b), np.where(extreme, rest, inside))


@ufunc("voigt_profile")
def voigt_profile(x, sigma, gamma):
    """Return 7.19.1, by Faddeeva's function; far from the centre, in units of sigma, by its series.

    That series is the asymptotic one. The slope for sigma is that of its second term, so that it is lost in
    the rounding of the first one. Where gamma is next to nothing, the normal density is more than the series.
    """
    far = np.greater(np.square(x) + np.square(gamma), 225.0 * np.square(sigma)) & (gamma >= 1e-30 * sigma)

    def wide():
        place = np.where(far, x, 1.0) + 1j * gamma
        ratio, total = np.square(np.where(far, sigma, 0.0) / place), 1.0
        for k in range(21, 0, -2):
            total = 1.0 + k * ratio * total
        return (0.0 - np.imag(total / place)) / np.pi

    def folded():
        width = np.sqrt(2.0) * np.where(far, 1.0, sigma)
        return by_row("faddeeva_re")(x / width, gamma / width) / (np.sqrt(np.pi) * width)

    return pick(far, wide, folded)


@stands_for("scipy.special", "diric")
def diric(x, n):
    """Add cosines, by 1.15.3 or its analogue for even n: sums are smooth where the ratio of sines is 0/0."""
    n = whole("diric", n)
    x = lift_first(x)
    waves = np.arange(1.0 + n % 2, n, 2.0) / 2.0
    total = np.sum(np.cos(np.expand_dims(x, -1) * waves), -1)
    return (2.0 * total + n % 2) / n
