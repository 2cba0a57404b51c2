"""Derivatives of densities of Landau's law and of stable laws, by integrals of characteristic functions.

Landau's density is an integral along a vertical line, of ``exp(s log(s) + x s)``. On the left the line goes
through the saddle point ``s = exp(-1 - x)``, where nothing cancels; on the right it is folded around the
negative real axis. A stable density is the real part of the integral of ``exp(-i x t + psi(t))`` over t > 0,
divided by pi. The path is turned to where both parts decay, and psi is differentiated for alpha and beta
under the integral sign.
"""

from __future__ import annotations

import math

import numpy as np

from ..special.bessel_orders import NEGLIGIBLE, panels


def landau(n: int, x: float) -> float:
    """Return the n-th derivative of the density of SciPy's law, whose scale is 2/pi of Landau's own."""
    factor = 0.5 * math.pi
    return factor ** (n + 1) * _landau(n, factor * x + math.log(factor))


def _landau(n: int, x: float) -> float:
    if not abs(x) < math.inf:
        return 0.0 if abs(x) == math.inf else math.nan
    if x > -1.0:
        logs, weights = panels(-NEGLIGIBLE, math.log(min(24.0, NEGLIGIBLE / max(x, 1e-300))), 60)
        t = np.exp(logs)
        waves = np.exp(-t * logs - x * t) * np.sin(math.pi * t)
        return float(np.sum(weights * t * (-t) ** n * waves) / math.pi)
    saddle = math.exp(min(-1.0 - x, 700.0))
    if saddle > 800.0:
        return 0.0
    y, weights = panels(0.0, 30.0 + math.sqrt(2.5 * NEGLIGIBLE * saddle), 40)
    s = saddle + 1j * y
    waves = np.exp(s * np.log(s) + x * s + saddle)
    return float(math.exp(-saddle) * np.sum(weights * s**n * waves).real / math.pi)


def stable(n: int, i: int, j: int, x: float, alpha: float, beta: float) -> float:
    """Return the derivative of order n for x, i for alpha and j for beta, in SciPy's parametrization "S1"."""
    if not (0.0 < alpha <= 2.0 and abs(beta) <= 1.0 and i + j <= 2) or math.isnan(x):
        return math.nan
    if abs(x) == math.inf:
        return 0.0
    if x < 0.0:
        return (-1.0) ** (n + j) * stable(n, i, j, -x, alpha, -beta)
    if alpha == 1.0:
        return _of_order_one(n, beta, x) if i == j == 0 else math.nan
    half = 0.5 * math.pi
    tangent = math.tan(half * alpha)
    lean = math.atan(beta * tangent)
    turn = 0.6 * min(half, (half - lean) / alpha)
    # The integrand decays as the exponential of ``-x sin(turn) |t| - size |t|**alpha``.
    size = math.hypot(1.0, beta * tangent) * math.cos(alpha * turn + lean)
    end = math.log(NEGLIGIBLE / size) / alpha
    if x * math.sin(turn) > 0.0:
        end = min(end, math.log(NEGLIGIBLE / (x * math.sin(turn))))
    waves = NEGLIGIBLE * (1.0 / math.tan(turn) + abs(math.tan(alpha * turn + lean)))
    logs, weights = panels(end - NEGLIGIBLE, end + 0.5, 90 + int(waves / 4.0))
    t = np.exp(logs - 1j * turn)
    log_t, power = logs - 1j * turn, np.exp(alpha * (logs - 1j * turn))
    bent, bend = half * (1.0 + tangent * tangent), 2.0 * half * half * tangent * (1.0 + tangent * tangent)
    base = 1.0 - 1j * beta * tangent
    # These are the derivatives of psi for alpha and beta.
    for_a = -power * (log_t * base - 1j * beta * bent)
    for_b = 1j * tangent * power
    factor = (-1j * t) ** n * t
    if i + j == 1:
        factor = factor * (for_a if i else for_b)
    elif i == 2:
        factor = factor * (for_a**2 - power * (log_t**2 * base - 2j * beta * log_t * bent - 1j * beta * bend))
    elif i == 1:
        factor = factor * (for_a * for_b + 1j * power * (log_t * tangent + bent))
    elif j == 2:
        factor = factor * for_b**2
    return float(np.sum(weights * factor * np.exp(-1j * x * t - power * base)).real / math.pi)


def _of_order_one(n: int, beta: float, x: float) -> float:
    # Near zero the logarithm of t is the variable, because psi has one of its own.
    logs, beginning = panels(-NEGLIGIBLE, 0.0, 45)
    rest, weights = panels(1.0, NEGLIGIBLE, 60 + int(NEGLIGIBLE * (x + 4.0) / 8.0))
    t = np.concatenate([np.exp(logs), rest])
    weights = np.concatenate([beginning * np.exp(logs), weights])
    psi = -t * (1.0 + 2j / math.pi * beta * np.log(t))
    return float(np.sum(weights * (-1j * t) ** n * np.exp(psi - 1j * x * t)).real / math.pi)


def _arrays(function, orders: int):
    """Return a function of some orders and numbers as one of arrays."""

    def one(*args):
        return function(*map(int, args[:orders]), *map(float, args[orders:]))

    def of_arrays(*args):
        with np.errstate(all="ignore"):
            return np.vectorize(one, otypes=[float])(*args)[()]

    return of_arrays


landau_slope = _arrays(landau, 1)
levy_stable_slope = _arrays(stable, 3)
