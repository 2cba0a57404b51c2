"""Integrals of Bessel, Airy, Struve and Fresnel functions, and Kelvin functions, of ``scipy.special``."""

from __future__ import annotations

import numpy as np
import scipy.special as sc

from .formula_rules import formula_rule
from .ufunc_table import UFUNCS, ufunc


def _several(name: str, *slopes):
    """Return a function of one number with several results, from the derivative of each."""

    def nth(k, slope):
        return formula_rule(name, {0: lambda z, x: slope(x)}, lambda results: results[k])

    parts = [nth(k, slope) for k, slope in enumerate(slopes)]
    return lambda x: tuple(part(x) for part in parts)


def _over_x(sign: float, function):
    """Return ``x -> sign * (function(x) - 1)/x`` for the Bessel function J0 (sign -1) or I0 (sign 1)."""

    def quotient(x):
        near = np.less(np.abs(x), 1.0)
        total, square = 0.0, np.where(near, 0.25 * sign * x * x, 0.0)
        for k in range(9, 1, -1):  # the sum over k of (sign * x**2/4)**(k - 1)/k!**2, by Horner's rule
            total = (1.0 + total) * square / (k * k)
        away = np.where(near, 1.0, x)
        return np.where(near, 0.25 * x * (1.0 + total), sign * (function(away) - 1.0) / away)

    return quotient


# ---- the integrals of J0 and Y0, of I0 and K0, and of their quotients by x: DLMF 10.22.38, 10.43.11
UFUNCS["itj0y0"] = _several("itj0y0", lambda x: sc.j0(x), lambda x: sc.y0(x))
UFUNCS["iti0k0"] = _several("iti0k0", lambda x: sc.i0(x), lambda x: sc.k0(x))
UFUNCS["it2j0y0"] = _several("it2j0y0", _over_x(-1.0, lambda x: sc.j0(x)), lambda x: -sc.y0(x) / x)
UFUNCS["it2i0k0"] = _several("it2i0k0", _over_x(1.0, lambda x: sc.i0(x)), lambda x: -sc.k0(x) / x)

# ---- integrals of Ai and Bi from 0 to x, and from 0 to x of their mirror images
UFUNCS["itairy"] = _several(
    "itairy",
    lambda x: sc.airy(x)[0],
    lambda x: sc.airy(x)[2],
    lambda x: sc.airy(-x)[0],
    lambda x: sc.airy(-x)[2],
)


def _struve_over_x(x):
    """Return Struve's ``H0(x)/x``, which is 2/pi at 0."""
    away = np.where(np.equal(x, 0.0), 1.0, x)
    return np.where(np.equal(x, 0.0), 2.0 / np.pi, sc.struve(0.0, away) / away)


UFUNCS["itstruve0"] = formula_rule("itstruve0", {0: lambda z, x: sc.struve(0.0, x)})
UFUNCS["itmodstruve0"] = formula_rule("itmodstruve0", {0: lambda z, x: sc.modstruve(0.0, x)})
UFUNCS["it2struve0"] = formula_rule("it2struve0", {0: lambda z, x: -_struve_over_x(x)})


# This is the integral of x**lmb * J_nu(2 a x) from 0 to 1; J_nu' is half of J_(nu - 1) - J_(nu + 1), DLMF
# 10.6.1.
UFUNCS["besselpoly"] = _BESSELPOLY = formula_rule(
    "besselpoly",
    {0: lambda z, a, lmb, nu: _BESSELPOLY(a, lmb + 1.0, nu - 1.0) - _BESSELPOLY(a, lmb + 1.0, nu + 1.0)},
)


@ufunc("kelvin")
def kelvin(x):
    """Return Be, Ke and their derivatives, by DLMF 10.61.1 and 10.61.2."""
    return (
        sc.ber(x) + 1j * sc.bei(x),
        sc.ker(x) + 1j * sc.kei(x),
        sc.berp(x) + 1j * sc.beip(x),
        sc.kerp(x) + 1j * sc.keip(x),
    )


def _modified_fresnel(name: str, sign: float):
    """Return SciPy's modified Fresnel integrals of one sign.

    ``F' = -exp(sign*i*x**2)``, and ``K = exp(-sign*i*(x**2 + pi/4)) * F / sqrt(pi)``.
    """
    root = 1.0 / np.sqrt(2.0 * np.pi)

    def f_slope(z, x):
        """Return the slope of the imaginary part of F; left of 0 SciPy's is the real part of ``F(-x)``."""
        square = x * x
        return np.where(x < 0.0, np.cos(square), -sign * np.sin(square))

    f_real = formula_rule(name, {0: lambda z, x: -np.cos(x * x)}, lambda both: both[0].real)
    f_imaginary = formula_rule(name, {0: f_slope}, lambda both: both[0].imag)
    k_real = formula_rule(
        name, {0: lambda z, x: 2.0 * sign * x * k_imaginary(x) - root}, lambda both: both[1].real
    )
    k_imaginary = formula_rule(
        name, {0: lambda z, x: sign * (root - 2.0 * x * k_real(x))}, lambda both: both[1].imag
    )
    return lambda x: (f_real(x) + 1j * f_imaginary(x), k_real(x) + 1j * k_imaginary(x))


UFUNCS["modfresnelp"] = _modified_fresnel("modfresnelp", 1.0)
UFUNCS["modfresnelm"] = _modified_fresnel("modfresnelm", -1.0)
