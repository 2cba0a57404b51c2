"""Incomplete elliptic integrals and Jacobi's amplitude with a derivative for the parameter m, DLMF 19.4.

Rows of the op table serve calls in which m has no derivative.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.special as sc

from ..stats.laws import pick
from .formula_rules import formula_rule
from .ufunc_table import UFUNCS


def _third(phi, m, symmetric: Callable):
    """Return the integral of a squared sine over Delta or its cube, by Carlson's for a quarter period."""
    turns = np.round(phi / np.pi)
    phi = phi - np.pi * turns
    sine = np.sin(phi)
    rest = sine**3 * symmetric(np.square(np.cos(phi)), 1.0 - m * np.square(sine))
    whole = pick(np.equal(turns, 0.0), lambda: 0.0 * m, lambda: 2.0 * turns * symmetric(0.0, 1.0 - m))
    return (rest + whole) / 3.0


def _first_for_m(phi, m):
    return 0.5 * _third(phi, m, lambda cosine, delta: sc.elliprd(cosine, 1.0, delta))


def _second_for_m(phi, m):
    return -0.5 * _third(phi, m, lambda cosine, delta: sc.elliprd(cosine, delta, 1.0))


def _delta(phi, m):
    return np.sqrt(1.0 - m * np.square(np.sin(phi)))


UFUNCS["ellipkinc"] = formula_rule(
    "ellipkinc", {0: lambda z, phi, m: 1.0 / _delta(phi, m), 1: lambda z, phi, m: _first_for_m(phi, m)}
)
UFUNCS["ellipeinc"] = formula_rule(
    "ellipeinc", {0: lambda z, phi, m: _delta(phi, m), 1: lambda z, phi, m: _second_for_m(phi, m)}
)
amplitude = formula_rule(
    "ellipj",
    {0: lambda z, u, m: _delta(z, m), 1: lambda z, u, m: -_first_for_m(z, m) * _delta(z, m)},
    lambda results: results[3],
)
