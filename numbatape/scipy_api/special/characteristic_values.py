"""Characteristic values of Mathieu's equation and of spheroidal wave equations, by their parameter.

Each is an eigenvalue of a tridiagonal matrix that is linear in the parameter: ``D + s M``, for Fourier
coefficients, DLMF 28.4, or for coefficients of normalised Legendre functions, DLMF 30.8. With an eigenvector
v the slope is ``v M v``, and the second derivative a sum over the other eigenvectors. Values are SciPy's.
"""

from __future__ import annotations

import functools
import math
import types

import numpy as np

from ...numpy_api.registration import unsupported_argument
from .formula_rules import formula_rule
from .ufunc_table import UFUNCS


def _slopes(diagonal, moved, beside, s: float, place: int) -> tuple[float, float]:
    """Return the first and the second derivative of an eigenvalue for the factor s of a matrix.

    Parameters
    ----------
    diagonal : array, shape (n,)
        D, which is diagonal.
    moved, beside : array, shape (n,) and (n - 1,)
        M: its diagonal, and the one beside it.
    """
    # Imported late, because few programs ask for these slopes.
    from scipy.linalg import eigh_tridiagonal

    values, vectors = eigh_tridiagonal(diagonal + s * moved, s * beside)
    v = vectors[:, place]
    pushed = moved * v
    pushed[:-1] += beside * v[1:]
    pushed[1:] += beside * v[:-1]
    shares = np.delete(pushed @ vectors, place)
    return v @ pushed, 2.0 * np.sum(shares * shares / (values[place] - np.delete(values, place)))


def mathieu(kind: str, m: float, q: float) -> tuple[float, float]:
    """Return both derivatives of a (kind "a") or b, of order m, for q."""
    lowest = 0 if kind == "a" else 1
    if not (m >= lowest and m == int(m) and math.isfinite(q)):
        return math.nan, math.nan
    odd, place = int(m) % 2, (int(m) - lowest) // 2
    first = 1 if odd else 2 * lowest
    count = place + 25 + int(2.0 * math.sqrt(abs(q)))
    numbers = first + 2.0 * np.arange(count)
    moved, beside = np.zeros(count), np.ones(count - 1)
    if odd:
        moved[0] = 1.0 if kind == "a" else -1.0
    elif kind == "a":
        beside[0] = math.sqrt(2.0)
    return _slopes(numbers * numbers, moved, beside, q, place)


def spheroidal(kind: str, m: float, n: float, c: float) -> tuple[float, float]:
    """Return both derivatives of the characteristic value of a prolate or oblate equation for c."""
    if not (0 <= m <= n and m == int(m) and n == int(n) and math.isfinite(c)):
        return math.nan, math.nan
    place = int(n - m) // 2
    count = place + 25 + int(abs(c))
    degrees = m + (n - m) % 2 + 2.0 * np.arange(count)

    def factor(k):
        """Return how much of the Legendre function of degree k is in x times that of degree k - 1."""
        return np.sqrt((k * k - m * m) / (4.0 * k * k - 1.0))

    up, down, further = (factor(degrees + step) for step in (1.0, 0.0, 2.0))
    moved, beside = up * up + down * down, up * further
    side = 1.0 if kind == "pro" else -1.0
    first, second = _slopes(degrees * (degrees + 1.0), moved, beside[:-1], side * c * c, place)
    return 2.0 * side * c * first, 2.0 * side * first + 4.0 * c * c * second


SLOPES = types.SimpleNamespace()  # arrays of derivatives, by the names that rules find them by


def _register(name: str, derivatives) -> None:
    """Register a characteristic value whose last argument has two derivatives."""

    def refuse(z, *args):
        hint = "first and second ones are"
        raise unsupported_argument(f"scipy.special.{name}", "a third derivative", hint)

    def nth(k):
        return np.vectorize(lambda *args: derivatives(*args)[k], otypes=[float])

    setattr(SLOPES, f"{name}_slope", nth(0))
    setattr(SLOPES, f"{name}_bend", nth(1))
    bend = formula_rule(f"SLOPES.{name}_bend", {-1: refuse}, home=__name__)
    slope = formula_rule(f"SLOPES.{name}_slope", {-1: lambda z, *args: bend(*args)}, home=__name__)
    UFUNCS[name] = formula_rule(name, {-1: lambda z, *args: slope(*args)})


for _kind in "ab":
    _register(f"mathieu_{_kind}", functools.partial(mathieu, _kind))
for _kind in ("pro", "obl"):
    _register(f"{_kind}_cv", functools.partial(spheroidal, _kind))
