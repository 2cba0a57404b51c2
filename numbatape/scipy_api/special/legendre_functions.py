"""Legendre functions and spherical harmonics of ``scipy.special``, of whole degree n and order m.

SciPy returns their derivatives up to order ``diff_n`` as well, along an axis that comes first (behind all
others for spherical harmonics, whose derivatives are for two angles; definitions: DLMF 14.3, 14.30.1).
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from ...numpy_api.stand_ins import stands_for
from ...trace.array import TracedArray
from ...trace.operands import values_of
from .formula_rules import formula_rule


def _numbers(x):
    """Return a list as an array."""
    return x if type(x) is TracedArray else np.asarray(x)


def _grid(n, m, *arguments) -> tuple:
    """Return the degrees 0 to n and the orders ``[0, ..., m, -m, ..., -1]``, along two axes in front."""
    n, m = int(values_of(n)), abs(int(values_of(m)))
    ones = (1,) * len(np.broadcast_shapes(*(np.shape(values_of(x)) for x in arguments)))
    orders = np.concatenate([np.arange(m + 1), np.arange(-m, 0)])
    return np.arange(n + 1).reshape(n + 1, 1, *ones), orders.reshape(1, -1, *ones)


# ---- Legendre functions of the first kind


@functools.cache
def _legendre(norm: bool, branch_cut: int, nth: int) -> Callable:
    """Return the nth derivative of an associated Legendre function, as a function of ``(n, m, z)``."""

    def next_one(value, n, m, z):
        if nth < 2:
            return _legendre(norm, branch_cut, nth + 1)(n, m, z)
        # This is Legendre's equation, DLMF 14.2.2, differentiated once.
        function, slope = (_legendre(norm, branch_cut, k)(n, m, z) for k in (0, 1))
        rest = (1.0 - z) * (1.0 + z)
        share = m * m / rest
        factor = n * (n + 1.0) - 2.0 - share
        return (4.0 * z * value - factor * slope + 2.0 * z * share / rest * function) / rest

    return formula_rule(
        "assoc_legendre_p",
        {2: next_one},
        lambda derivatives: derivatives[nth],
        whole=(0, 1),
        norm=norm,
        branch_cut=branch_cut,
        diff_n=nth,
    )


def _derivatives(n, m, z, norm, branch_cut, diff_n):
    n, m = map(_numbers, (n, m))
    return np.stack([_legendre(bool(norm), int(branch_cut), k)(n, m, z) for k in range(diff_n + 1)])


@stands_for("scipy.special", "assoc_legendre_p")
def assoc_legendre_p(n, m, z, *, branch_cut=2, norm=False, diff_n=0):
    return _derivatives(n, m, z, norm, branch_cut, diff_n)


@stands_for("scipy.special", "assoc_legendre_p_all")
def assoc_legendre_p_all(n, m, z, *, branch_cut=2, norm=False, diff_n=0):
    return _derivatives(*_grid(n, m, z), z, norm, branch_cut, diff_n)


@stands_for("scipy.special", "legendre_p")
def legendre_p(n, z, *, diff_n=0):
    return _derivatives(n, 0, z, False, 2, diff_n)


@stands_for("scipy.special", "legendre_p_all")
def legendre_p_all(n, z, *, diff_n=0):
    degrees = _grid(n, 0, z)[0][:, 0]
    return _derivatives(degrees, 0, z, False, 2, diff_n)


# ---- spherical harmonics


def _ladder(nth: int, n, m, theta):
    """Return the nth derivative of the harmonic at longitude 0 with respect to the colatitude.

    A derivative is half the difference of the ladder operators, DLMF 14.30(ii). It has no quotient that is
    0/0 at the poles. SciPy takes the sine of the colatitude as positive, so functions are even around a pole,
    and have at 0 the derivative from the right.
    """
    if nth == 0:
        return _POLAR(n, m, theta)
    up = np.sqrt(np.maximum((n - m) * (n + m + 1.0), 0.0)) * _ladder(nth - 1, n, m + 1.0, theta)
    down = np.sqrt(np.maximum((n + m) * (n - m + 1.0), 0.0)) * _ladder(nth - 1, n, m - 1.0, theta)
    return np.where(np.sin(theta) < 0.0, -0.5, 0.5) * (up - down)


_POLAR = formula_rule(
    "sph_legendre_p",
    {2: lambda z, n, m, theta: _ladder(1, n, m, theta)},
    lambda derivatives: derivatives[0],
    whole=(0, 1),
)


@stands_for("scipy.special", "sph_legendre_p")
def sph_legendre_p(n, m, theta, *, diff_n=0):
    n, m = map(_numbers, (n, m))
    return np.stack([_ladder(k, n, m, theta) for k in range(diff_n + 1)])


@stands_for("scipy.special", "sph_legendre_p_all")
def sph_legendre_p_all(n, m, theta, *, diff_n=0):
    return sph_legendre_p(*_grid(n, m, theta), theta, diff_n=diff_n)


@stands_for("scipy.special", "sph_harm_y")
def sph_harm_y(n, m, theta, phi, *, diff_n=0):
    n, m, phi = map(_numbers, (n, m, phi))
    wave = np.exp(1j * (m * phi))
    polar = [_ladder(k, n, m, theta) for k in range(diff_n + 1)]
    value = polar[0] * wave
    if diff_n == 0:
        return value
    gradient = np.stack([polar[1] * wave, 1j * m * value], axis=-1)
    if diff_n == 1:
        return value, gradient
    mixed = 1j * m * (polar[1] * wave)
    rows = [np.stack([polar[2] * wave, mixed], axis=-1), np.stack([mixed, -m * m * value], axis=-1)]
    return value, gradient, np.stack(rows, axis=-2)


@stands_for("scipy.special", "sph_harm_y_all")
def sph_harm_y_all(n, m, theta, phi, *, diff_n=0):
    return sph_harm_y(*_grid(n, m, theta, phi), theta, phi, diff_n=diff_n)
