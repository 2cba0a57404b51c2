"""Functions that SciPy returns together with their derivative: solutions of wave equations.

Parabolic cylinder, Mathieu and spheroidal wave functions. The equation of second order gives the derivative
of the second result; orders and parameters have no closed form.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.special as sc

from .formula_rules import formula_rule
from .ufunc_table import UFUNCS


def _solution(name: str, curvature: Callable, unit: float = 1.0) -> None:
    """Register a ufunc with the results ``(y, dy/dx)``, where x is the last argument.

    Parameters
    ----------
    curvature
        The second derivative, as a function of ``(y, dy/dx, *args)``.
    unit
        What one of x is in the argument of the equation, which ``dy/dx`` refers to.
    """

    def at_the_end(slope):
        return lambda z, *args: unit * slope(*args)

    def bend(*args):
        return curvature(value(*args), slope(*args), *args[:-1], unit * args[-1])

    value = formula_rule(name, {-1: at_the_end(lambda *args: slope(*args))}, lambda both: both[0])
    slope = formula_rule(name, {-1: at_the_end(bend)}, lambda both: both[1])
    UFUNCS[name] = lambda *args: (value(*args), slope(*args))


# ---- parabolic cylinder functions, DLMF 12.2.2 and 12.14.1
for _name in ("pbdv", "pbvv"):
    _solution(_name, lambda y, dy, v, x: (0.25 * x * x - v - 0.5) * y)
_solution("pbwa", lambda y, dy, a, x: (a - 0.25 * x * x) * y)

# ---- Mathieu functions of an angle in degrees, DLMF 28.2.1, and modified ones, DLMF 28.20.1
for _kind, _parity in (("a", "cem"), ("b", "sem")):

    def _angular(y, dy, m, q, x, kind=_kind):
        return (2.0 * q * np.cos(2.0 * x) - getattr(sc, f"mathieu_{kind}")(m, q)) * y

    def _modified(y, dy, m, q, x, kind=_kind):
        return (getattr(sc, f"mathieu_{kind}")(m, q) - 2.0 * q * np.cosh(2.0 * x)) * y

    _solution(f"mathieu_{_parity}", _angular, np.pi / 180.0)
    for _name in (f"mathieu_mod{_parity}1", f"mathieu_mod{_parity}2"):
        _solution(_name, _modified)


# Spheroidal wave functions with the characteristic value cv, DLMF 30.2.1; oblate ones have -c**2 for c**2,
# and radial ones of these i*x for x. Radial functions of the second kind are left out, because SciPy's do
# not fulfil the equation: for m = 1, n = 2, c = 1.5, x = 1.6 it gives y'' = -2.7, differences -4.1.
def _prolate(y, dy, m, n, c, cv, x):
    rest = (1.0 - x) * (1.0 + x)
    return (2.0 * x * dy - (cv - c * c * x * x - m * m / rest) * y) / rest


def _oblate_angular(y, dy, m, n, c, cv, x):
    rest = (1.0 - x) * (1.0 + x)
    return (2.0 * x * dy - (cv + c * c * x * x - m * m / rest) * y) / rest


def _oblate_radial(y, dy, m, n, c, cv, x):
    rest = 1.0 + x * x
    return ((cv - c * c * x * x - m * m / rest) * y - 2.0 * x * dy) / rest


def _with_value(kind: str, curvature: Callable) -> Callable:
    """Return the curvature for the functions that find the characteristic value themselves."""
    return lambda y, dy, m, n, c, x: curvature(y, dy, m, n, c, getattr(sc, f"{kind}_cv")(m, n, c), x)


for _kind, _curvatures in (
    ("pro", {"ang1": _prolate, "rad1": _prolate}),
    ("obl", {"ang1": _oblate_angular, "rad1": _oblate_radial}),
):
    for _name, _curvature in _curvatures.items():
        _solution(f"{_kind}_{_name}_cv", _curvature)
        _solution(f"{_kind}_{_name}", _with_value(_kind, _curvature))
