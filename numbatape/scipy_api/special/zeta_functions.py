"""Riemann's and Hurwitz' zeta functions in ``scipy.special``. Numbers of formulas are those of the DLMF."""

from __future__ import annotations

import numpy as np
import scipy.special as sc

from ...numpy_api.registration import unsupported_argument
from ...numpy_api.stand_ins import stands_for
from ...trace.array import TracedArray
from ...trace.operands import find_trace, lift_all, lift_first
from ...trace.primitives import by_row
from ..stats.laws import pick
from .ufunc_table import ufunc


def _hurwitz(s, q):
    """Return zeta by Euler and Maclaurin's sum, 25.11.5 to six terms; both arguments have derivatives."""
    count = 16
    s, q = np.asarray(s, float) if type(s) is not TracedArray else s, q
    places = np.arange(float(count))
    terms = np.power(np.expand_dims(q, -1) + places, -np.expand_dims(s, -1))
    t = 1.0 / (q + count)
    u = t * t
    tail = 1.0 - (s + 11.0) * (s + 12.0) * u * (35 / 1382)
    for k, constant in ((9.0, 691 / 27300), (7.0, 5 / 198), (5.0, 1 / 40), (3.0, 1 / 42), (1.0, 1 / 60)):
        tail = 1.0 - (s + k) * (s + (k + 1.0)) * u * constant * tail
    return np.sum(terms, -1) + (1.0 / (s - 1.0) + t * (0.5 + t * s / 12.0 * tail)) * np.power(t, s - 1.0)


# These are the coefficients of zeta's Taylor series at 0.
AROUND_ZERO = (-0.5, -0.9189385332046728, -1.0031782279542925, -1.0007851944770425)
AROUND_ZERO += (-0.9998792995005712, -1.0000019408963206, -1.000001301146014, -0.9999998313841736)
AROUND_ZERO += (-1.000000005764676, -1.0000000009110166, -0.9999999998502992, -1.000000000009407)
AROUND_ZERO += (-1.0000000000000409,)


def riemann(s, q=1.0):
    """Return ``zeta(s, q)`` for q = 1 or 2; to the left of 1/2 it is computed by reflection, 25.4.1."""
    left, tiny = np.less(s, 0.5), np.less(np.abs(s), 0.03)

    def expanded():
        result = 0.0
        for coefficient in reversed(AROUND_ZERO):
            result = result * np.where(tiny, s, 0.0) + coefficient
        return result - (q - 1.0)

    def reflected():
        # At 0 a pole of the reflection formula meets a zero, so the series is used near it.
        return pick(tiny, expanded, elsewhere)

    def elsewhere():
        t = np.where(left & ~tiny, s, -1.0)
        factor = np.power(2.0, t) * np.power(np.pi, t - 1.0) * sc.sindg(90.0 * t) * sc.gamma(1.0 - t)
        return factor * _hurwitz(1.0 - t, 1.0) - (q - 1.0)

    def right():
        endless = np.equal(s, np.inf)
        return np.where(endless, 2.0 - q, _hurwitz(np.where(left | endless, 2.0, s), q))

    return pick(left, reflected, right)


@stands_for("scipy.special", "zeta")
def zeta(x, q=None, out=None):
    if out is not None:
        raise unsupported_argument("scipy.special.zeta", "out")
    if q is None:
        return riemann(x)
    if find_trace(x) is None and np.all(np.greater_equal(x, 2.0) & np.equal(x, np.floor(x))):
        # The row holds to the left of 0 as well.
        return by_row("hurwitz")(np.asarray(x, float)[()], lift_first(q))
    x, q = lift_all(x, q)
    # A float32 number beside float64 is one of float64.
    weak = type(x._value) is float and type(q._value) is float
    dtype = np.result_type(x._value, q._value, np.float64 if weak else np.float32)
    x, q = (part if part.dtype == dtype else np.astype(part, dtype) for part in (x, q))

    def outside():
        pole = np.greater_equal(x, 1.0) & np.equal(q, np.floor(q))
        return np.where(pole, dtype.type(np.inf), dtype.type(np.nan))

    return pick(np.less(x, 1.0) | np.less_equal(q, 0.0), outside, lambda: _hurwitz(x, q))


@ufunc("zetac")
def zetac(x):
    return riemann(x, 2.0)
