"""Spherical Bessel functions of ``scipy.special``, and derivatives of them.

Numbers of formulas are those of the DLMF.
"""

from __future__ import annotations

import numpy as np
import scipy.special

from ...numpy_api.stand_ins import stands_for
from ...trace.primitives import by_row
from ..stats.laws import pick


def _of_first_kind(value, sign):
    """Return the derivative by z, without a division, 10.51.2 and 10.51.5."""

    def slope(n, z):
        below = np.where(np.equal(n, 0.0), 0.0, n * value(np.maximum(n - 1.0, 0.0), z))
        return (below + sign * (n + 1.0) * value(n + 1.0, z)) / (2.0 * n + 1.0)

    return slope


def _of_second_kind(value, sign):
    def slope(n, z):
        above = np.equal(n, 0.0)
        other = np.where(above, -value(1.0, z), sign * value(np.maximum(n - 1.0, 0.0), z))
        return other - np.where(above, 0.0, (n + 1.0) / z * value(n, z))

    return slope


def _mirrored(name, value, slope, n, z, derivative):
    """Return the function, or its derivative, at -z for z > 0, 10.47.14 and 10.47.16."""
    parity = 1.0 - 2.0 * np.remainder(n, 2.0)
    if name != "spherical_kn":
        even = parity if name != "spherical_yn" else -parity
        return -even * slope(n, z) if derivative else even * value(n, z)
    first = by_row("spherical_in")
    if derivative:
        return np.pi * _of_first_kind(first, 1.0)(n, z) + parity * slope(n, z)
    return -np.pi * first(n, z) - parity * value(n, z)


def _spherical(name, slope_of, sign):
    def function(n, z, derivative=False):
        n, value = np.asarray(n, float), by_row(name)
        slope = slope_of(value, sign)
        ahead = slope if derivative else value
        if np.isnan(scipy.special.spherical_jn(0, -1.0)):  # SciPy before 1.15 gives NaN here.
            return ahead(n, z)
        left = np.less(z, 0.0)
        return pick(
            left,
            lambda: _mirrored(name, value, slope, n, np.where(left, -z, 1.0), derivative),
            lambda: ahead(n, np.where(left, 1.0, z)),
        )

    stands_for("scipy.special", name)(function)


for _name, _slope_of, _sign in (
    ("spherical_jn", _of_first_kind, -1.0),
    ("spherical_yn", _of_second_kind, 1.0),
    ("spherical_in", _of_first_kind, 1.0),
    ("spherical_kn", _of_second_kind, -1.0),
):
    _spherical(_name, _slope_of, _sign)
