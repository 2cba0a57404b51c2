"""Tukey's lambda distribution, ``tklmbda``: its quantiles, which are elementary, give the slopes."""

from __future__ import annotations

import math

import numpy as np

from .formula_rules import formula_rule
from .ufunc_table import UFUNCS


def _density(p, x, power):
    inside = (p > 0.0) & (p < 1.0)
    p = np.where(inside, p, 0.5)
    return np.where(inside, 1.0 / (p ** (power - 1.0) + (1.0 - p) ** (power - 1.0)), 0.0)


def _part(p, power):
    """Return the slope of ``(p**power - 1) / power`` for the power."""
    t = power * np.log(p)
    small = np.abs(t) < 0.5
    near, far = np.where(small, t, 0.0), np.where(small, 1.0, t)
    series = 0.0
    for k in range(14, 1, -1):  # the Taylor series of (exp(t)*t - expm1(t))/t**2, by Horner's rule
        series = series * near + (k - 1.0) / math.factorial(k)
    ratio = np.where(small, series, (np.exp(far) * far - np.expm1(far)) / np.square(far))
    return np.square(np.log(p)) * ratio


def _slope(p, x, power):
    density = _density(p, x, power)
    p = np.where((p > 0.0) & (p < 1.0), p, 0.5)
    return -density * (_part(p, power) - _part(1.0 - p, power))


UFUNCS["tklmbda"] = formula_rule("tklmbda", {0: _density, 1: _slope})
