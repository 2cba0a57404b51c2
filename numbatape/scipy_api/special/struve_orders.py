"""Struve's functions H and L with a derivative for their order.

There is no closed form. The power series, DLMF 11.2.1 and 11.2.2, is a power of x/2 times a hypergeometric
series, which is differentiated term by term in decimal numbers (`hypergeometric_parameters`), because terms
of H have alternating signs and cancel.

Rows of the op table serve calls in which the order has no derivative.
"""

from __future__ import annotations

import decimal
import math
from decimal import Decimal

import numpy as np
import scipy.special as sc

from ...trace.primitives import by_row
from .bessel_orders import arrays
from .formula_rules import formula_rule
from .hypergeometric_parameters import FURTHER_DIGITS, Series
from .ufunc_table import UFUNCS

FARTHEST = 2000.0  # The series has some one and a half times as many terms as x is large.


def _series(n: int, v: float, x: float, sign: int) -> list[float]:
    """Return the derivatives of orders 0 to n of ``1F2(1; 3/2, v + 3/2; sign*x**2/4)`` for v."""
    before = None
    for further in FURTHER_DIGITS:
        digits = 24 + int(0.44 * x) + further
        with decimal.localcontext(prec=digits, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN):
            half = Decimal("1.5")
            series = Series([Decimal(1), half, Decimal(v) + half], 1, (0, 0, n))
            found = series.series(sign * Decimal(x) ** 2 / 4, 0)
            if before and all(
                abs(a - b) <= Decimal("1e-17") * abs(a) for a, b in zip(found, before, strict=True)
            ):
                break
            before = found
    return [float(value) * math.factorial(k) for k, value in enumerate(found)]


def _with_sign(sign: int):
    def slope(n: int, v: float, x: float) -> float:
        """Return the n-th derivative for the order."""
        if not (0.0 <= x <= FARTHEST and abs(v) < math.inf) or (v + 1.5 <= 0.0 and v % 1.0 == 0.5):
            return math.nan
        if x == 0.0:
            return 0.0 if v > -1.0 else math.nan
        factor = np.exp((v + 1.0) * math.log(0.5 * x) - sc.gammaln(v + 1.5) - sc.gammaln(1.5))
        factor *= sc.gammasgn(v + 1.5)
        # The derivatives of the factor are it times polynomials in those of its logarithm.
        logs = [math.log(0.5 * x) - sc.psi(v + 1.5), *(-sc.polygamma(k, v + 1.5) for k in range(1, n))]
        parts = [1.0]
        for m in range(n):
            parts.append(sum(math.comb(m, k) * logs[k] * parts[m - k] for k in range(m + 1)))
        series = _series(n, v, x, sign)
        return float(factor * sum(math.comb(n, k) * parts[n - k] * series[k] for k in range(n + 1)))

    return arrays(slope)


struve_slope = _with_sign(-1)
modstruve_slope = _with_sign(1)


def _rest(n, v, x):
    """Return the n-th derivative for v, n < 3, of what DLMF 11.4.24 and 11.4.26 add to both neighbours."""
    rise = np.log(0.5 * x) - sc.psi(v + 1.5)
    factors = np.where(np.equal(n, 0.0), 1.0, rise), rise * rise - by_row("trigamma")(v + 1.5)
    factor = np.where(np.equal(n, 2.0), factors[1], factors[0])
    rest = 0.5 * np.power(0.5 * x, v) * sc.rgamma(v + 1.5) / np.sqrt(np.pi)
    return np.where(n > 2.0, np.nan, rest * factor)


def _with_order(name: str, sign: float) -> None:
    """Register a function whose derivative for x has half of both neighbours, the second one with a sign."""

    def for_x(function, n, v, x):
        return 0.5 * (function(v - 1.0, x) + sign * function(v + 1.0, x)) + _rest(n, v, x)

    slope = formula_rule(
        f"{name}_slope",
        {
            1: lambda z, n, v, x: slope(n + 1.0, v, x),
            2: lambda z, n, v, x: for_x(lambda v, x: slope(n, v, x), n, v, x),
        },
        home=__name__,
    )
    UFUNCS[name] = formula_rule(
        name,
        {0: lambda z, v, x: slope(1.0, v, x), 1: lambda z, v, x: for_x(getattr(sc, name), 0.0, v, x)},
    )


_with_order("struve", -1.0)
_with_order("modstruve", 1.0)
