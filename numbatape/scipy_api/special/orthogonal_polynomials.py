"""Orthogonal polynomials: of whole degree by recurrences of the DLMF's table 18.9.1, else hypergeometric.

So are those whose degree has a derivative: that of a hypergeometric function for its parameters.
"""

from __future__ import annotations

import functools

import numpy as np
import scipy.special as sc

from ...trace.array import TracedArray
from ...trace.operands import values_of
from .ufunc_table import is_active, refuse_slope, ufunc, whole, whole_order


def polynomial(name: str, first, step, between=None):
    """Register a family: its member of degree 1, and how member k follows from the two before.

    Both take ``(k, x, *parameters)``; `step` returns the factors of p(k-1) and p(k-2). SciPy's functions of
    other degrees than whole ones are hypergeometric, ``between(n, x, *parameters)``.
    """

    def evaluate(n, *rest):
        *parameters, x = rest
        if between is None:
            refuse_slope(name, n)
        elif is_active(n) or bool(np.any(np.less(n, 0) | np.not_equal(n, np.floor(n)))):
            n = n if type(n) is TracedArray else np.asarray(n, float)[()]
            return between(n, x, *parameters)
        degrees = np.unique(values_of(n))
        if len(degrees) == 1 and np.ndim(values_of(n)) == 0:
            return _members(whole(name, n), x, parameters)[-1]
        bool(np.all(functools.reduce(np.logical_or, [np.equal(n, degree) for degree in degrees])))  # a guard
        degrees = [whole(name, degree) for degree in degrees]
        members = _members(max(degrees), x, parameters)
        result = members[degrees[0]] + 0.0 * np.asarray(n)
        for degree in degrees[1:]:
            result = np.where(np.equal(n, degree), members[degree], result)
        return result

    def _members(count, x, parameters):
        one = x * 0.0 + 1.0
        for parameter in parameters:
            one = one + 0.0 * parameter
        members = [one]
        if count:
            members.append(one * first(x, *parameters))
        for k in range(2, count + 1):
            up, back = step(float(k), x, *parameters)
            members.append(up * members[-1] - back * members[-2])
        return members

    return ufunc(name)(evaluate)


def _jacobi_step(n, x, a, b):
    """Return the factors of the two polynomials before the n-th in the recurrence 18.9.2."""
    c = 2.0 * n + a + b
    scale = 2.0 * n * (n + a + b) * (c - 2.0)
    up = (c - 1.0) * (c * (c - 2.0) * x + a * a - b * b) / scale
    return up, 2.0 * (n + a - 1.0) * (n + b - 1.0) * c / scale


# ---- between whole degrees: 18.5.7, 18.5.9, 18.5.11, 18.5.12
jacobi = polynomial(
    "eval_jacobi",
    lambda x, a, b: a + 1.0 + 0.5 * (a + b + 2.0) * (x - 1.0),
    _jacobi_step,
    lambda n, x, a, b: sc.binom(n + a, n) * sc.hyp2f1(-n, n + a + b + 1.0, a + 1.0, 0.5 - 0.5 * x),
)
polynomial(
    "eval_gegenbauer",
    lambda x, a: 2.0 * a * x,
    lambda n, x, a: (2.0 * (n + a - 1.0) * x / n, (n + 2.0 * a - 2.0) / n),
    lambda n, x, a: (
        sc.gamma(n + 2.0 * a)
        * sc.rgamma(2.0 * a)  # which has a slope at zero
        / sc.gamma(n + 1.0)
        * sc.hyp2f1(-n, n + 2.0 * a, a + 0.5, 0.5 - 0.5 * x)
    ),
)
legendre = polynomial(
    "eval_legendre",
    lambda x: x,
    lambda n, x: ((2.0 - 1.0 / n) * x, 1.0 - 1.0 / n),
    lambda n, x: sc.hyp2f1(-n, n + 1.0, 1.0, 0.5 - 0.5 * x),
)
first_kind = polynomial(
    "eval_chebyt",
    lambda x: x,
    lambda n, x: (2.0 * x, 1.0),
    lambda n, x: sc.hyp2f1(-n, n, 0.5, 0.5 - 0.5 * x),
)


def _second_kind(n, x):
    return (n + 1.0) * sc.hyp2f1(-n, n + 2.0, 1.5, 0.5 - 0.5 * x)


second_kind = polynomial("eval_chebyu", lambda x: 2.0 * x, lambda n, x: (2.0 * x, 1.0), _second_kind)
polynomial("eval_chebys", lambda x: x, lambda n, x: (x, 1.0), lambda n, x: _second_kind(n, 0.5 * x))
polynomial(
    "eval_laguerre",
    lambda x: 1.0 - x,
    lambda n, x: (2.0 - (1.0 + x) / n, 1.0 - 1.0 / n),
    lambda n, x: sc.binom(n, n) * sc.hyp1f1(-n, 1.0, x),
)
_general_laguerre = polynomial(
    "eval_genlaguerre",
    lambda x, a: 1.0 + a - x,
    lambda n, x, a: ((2.0 * n - 1.0 + a - x) / n, (n + a - 1.0) / n),
    lambda n, x, a: sc.binom(n + a, n) * sc.hyp1f1(-n, a + 1.0, x),
)


@ufunc("eval_genlaguerre")
def eval_genlaguerre(n, a, x):
    """Return the polynomial, which SciPy has for parameters above -1 only."""
    return np.where(np.greater(a, -1.0), _general_laguerre(n, a, x), np.nan)


polynomial("eval_hermite", lambda x: 2.0 * x, lambda n, x: (2.0 * x, 2.0 * n - 2.0))
polynomial("eval_hermitenorm", lambda x: x, lambda n, x: (x, n - 1.0))


@ufunc("eval_chebyc")
def eval_chebyc(n, x):
    """Return twice the first kind at x/2, which is 18.1.3."""
    return 2.0 * first_kind(n, 0.5 * x)


@ufunc("eval_sh_legendre")
def eval_sh_legendre(n, x):
    return legendre(n, 2.0 * x - 1.0)


@ufunc("eval_sh_chebyt")
def eval_sh_chebyt(n, x):
    return first_kind(n, 2.0 * x - 1.0)


@ufunc("eval_sh_chebyu")
def eval_sh_chebyu(n, x):
    return second_kind(n, 2.0 * x - 1.0)


@ufunc("eval_sh_jacobi")
def eval_sh_jacobi(n, p, q, x):
    """Return the shifted Jacobi polynomial, by 18.1.2."""
    return jacobi(n, p - q, q - 1.0, 2.0 * x - 1.0) / sc.binom(2.0 * n + p - 1.0, n)


@ufunc("lpmv")
def lpmv(m, v, x):
    """Return the Legendre function, by 14.3.1 and 14.9.3, for slopes that the op table has no row of."""
    m = whole_order("lpmv", m)
    size, step = abs(m), np.arange(1.0 - abs(m), abs(m) + 1.0)
    falling = np.prod(np.expand_dims(v, -1) + step, -1)  # gamma(v + size + 1)/gamma(v - size + 1)
    sign = (-1.0) ** m / (2.0**size * sc.factorial(size))
    scale = sign * falling if m >= 0 else np.abs(sign)
    half = 0.5 - 0.5 * x
    power = (4.0 * half * (1.0 - half)) ** (0.5 * size)
    return scale * power * sc.hyp2f1(size - v, size + v + 1.0, size + 1.0, half)
