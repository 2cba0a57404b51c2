"""Functions of ``scipy.special`` that return the values of all orders up to one, with their derivatives."""

from __future__ import annotations

import numpy as np
import scipy.special as sc

from ...numpy_api.registration import unsupported_argument
from ...numpy_api.stand_ins import stands_for
from ...trace.operands import values_of
from ...trace.primitives import by_row
from .formula_rules import formula_rule
from .ufunc_table import refuse_slope


def _orders(name: str, n) -> range:
    refuse_slope(name, n)
    return range(int(values_of(n)) + 1)


# ---- Riccati's Bessel functions x j(x) and x y(x), and their derivatives, DLMF 10.51.2


def _riccati(name: str, spherical: str) -> None:
    def pair(n, x):
        function, orders = by_row(spherical), np.array(_orders(name, n), float)
        value = function(orders, x)
        return x * value, (orders + 1.0) * value - x * function(orders + 1.0, x)

    stands_for("scipy.special", name)(pair)


_riccati("riccati_jn", "spherical_jn")
_riccati("riccati_yn", "spherical_yn")


# ---- Legendre functions of the second kind, whose equation is DLMF 14.2.2


def legendre_q(m, n, z):
    """Return the function of one order and degree, and its derivative.

    Below degree 2 SciPy's functions are asked for more degrees: outside of (-1, 1) its `lqn` has zeros there.
    """
    m, n = int(m), int(n)
    return [part[m, n] for part in sc.lqmn(m, max(n, 2), z)]


def _bend(z, m, n, x):
    rest = (1.0 - x) * (1.0 + x)
    return (2.0 * x * z - (n * (n + 1.0) - m * m / rest) * _VALUE(m, n, x)) / rest


_VALUE = formula_rule("legendre_q", {2: lambda z, *args: _SLOPE(*args)}, lambda both: both[0], home=__name__)
_SLOPE = formula_rule("legendre_q", {2: _bend}, lambda both: both[1], home=__name__)


@stands_for("scipy.special", "lqn")
def lqn(n, z):
    return tuple(np.stack([part(0.0, k, z) for k in _orders("lqn", n)]) for part in (_VALUE, _SLOPE))


@stands_for("scipy.special", "lqmn")
def lqmn(m, n, z):
    orders, degrees = _orders("lqmn", m), _orders("lqmn", n)
    return tuple(
        np.stack([np.stack([part(j, k, z) for k in degrees]) for j in orders]) for part in (_VALUE, _SLOPE)
    )


# ---- Jahnke and Emde's lambda function, gamma(v + 1) (2/x)**v J(v, x), whose limit at 0 is 1


@stands_for("scipy.special", "lmbda")
def lmbda(v, x):
    refuse_slope("lmbda", v)
    v = float(values_of(v))
    orders = v % 1.0 + np.arange(int(v) + 1.0)
    x = np.abs(x) if v % 1.0 else x  # SciPy's derivatives are even then
    function = sc.hyp0f1(orders + 1.0, -0.25 * x * x)
    return function, -0.5 * x / (orders + 1.0) * sc.hyp0f1(orders + 2.0, -0.25 * x * x)


# ---- parabolic cylinder functions, and characteristic values of spheroidal wave equations


def _of_orders(name: str, one: str) -> None:
    def pair(v, x):
        refuse_slope(name, v)
        v = float(values_of(v))
        if v < 0.0:
            raise unsupported_argument(f"scipy.special.{name}", "an order below 0", f"{one} is")
        whole = int(v)
        return getattr(sc, one)(v - whole + np.arange(max(whole, 1) + 1.0), x)

    stands_for("scipy.special", name)(pair)


_of_orders("pbdv_seq", "pbdv")
_of_orders("pbvv_seq", "pbvv")


def _values_of_equation(name: str, one: str) -> None:
    def all_of(m, n, c):
        m, n = (int(values_of(k)) for k in (m, n))
        return getattr(sc, one)(m, np.arange(m, n + 1), c)

    stands_for("scipy.special", name)(all_of)


_values_of_equation("pro_cv_seq", "pro_cv")
_values_of_equation("obl_cv_seq", "obl_cv")
