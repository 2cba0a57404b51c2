"""``scipy.special``: functions that are no ufuncs: they are written in Python, and call np.asarray first."""

from __future__ import annotations

import math

import numpy as np
import scipy.special

from ...numpy_api.registration import unsupported_argument
from ...numpy_api.stand_ins import stands_for
from ...trace.axes import axes_of, count_of, drop_axes, length, over_axes
from ...trace.complex_array import TracedComplex
from ...trace.integers import lifted, settled
from ...trace.operands import find_trace, lift_all, lift_first, may_be_guard, values_of
from ...trace.primitives import elementwise, stop_gradient
from .ufunc_table import whole


@stands_for("scipy.special", "logsumexp")
def logsumexp(a, axis=None, b=None, keepdims=False, return_sign=False):
    """Add weighted exponentials relative to the largest one; without weights this is one instruction."""
    x = lift_first(a, b)
    axes = axes_of(x, axis)
    if type(x) is TracedComplex or type(b) is TracedComplex or np.asarray(values_of(b)).dtype.kind == "c":
        return _complex_logsumexp(x, axes, 1.0 if b is None else b, keepdims, return_sign)
    if b is None:
        result = over_axes("logsumexp", x, axes, np.logaddexp.reduce, keepdims)
        return (result, np.sign(np.exp(result))) if return_sign else result
    x, b = np.broadcast_arrays(x, b)
    if any([length(x, axis) < 1 for axis in axes]):
        count_of(x, range(x.ndim))
        nothing = np.log(np.zeros_like(x._value.sum(axes, keepdims=keepdims)))
        return (nothing, np.sign(nothing)) if return_sign else nothing
    largest = np.max(np.where(np.equal(b, 0), -np.inf, x), axes, keepdims=True, initial=-np.inf)
    largest = stop_gradient(np.where(np.isfinite(largest), largest, 0.0))
    above = x - largest
    # An entry without weight adds nothing, be it infinite, NaN, or far above the others.
    most = math.log(np.finfo(above.dtype).max)
    above = np.where(np.equal(b, 0) & ~(above < most), 0.999 * most, above)
    terms = b * np.exp(above)
    total = np.sum(terms, axes, keepdims=keepdims)
    largest = largest if keepdims else drop_axes(largest, axes)
    result = np.log(np.abs(total) if return_sign else total) + largest
    above_all = np.equal(total, np.inf)
    exceeds = np.any(above_all)
    if not may_be_guard(exceeds) or exceeds:  # infinite terms share the slope, as they do without weights
        infinite = np.where(np.equal(terms, np.inf), x + np.inf, -np.inf)
        shared = over_axes("logsumexp", infinite, axes, np.logaddexp.reduce, keepdims)
        result = np.where(above_all, shared, result)
    return (result, np.sign(total)) if return_sign else result


def _complex_logsumexp(x, axes, b, keepdims: bool, return_sign: bool):
    largest = np.max(np.where(np.equal(b, 0), -np.inf, np.real(x)), axes, keepdims=True, initial=-np.inf)
    largest = stop_gradient(np.where(np.isfinite(largest), largest, 0.0))
    above = x - largest
    terms = np.exp(above)
    infinite = np.isinf(np.real(above))
    some = np.any(infinite)
    if not may_be_guard(some) or some:  # an infinite term of phase zero is real
        terms = np.where(infinite & np.equal(np.imag(above), 0.0), np.exp(np.real(above)) + 0j, terms)
    total = np.sum(b * terms, axes, keepdims=keepdims)
    largest = largest if keepdims else drop_axes(largest, axes)
    if return_sign:
        size, zero = np.abs(total), np.equal(total, 0.0)
        sign = np.where(np.isfinite(size), total / np.where(zero, 1.0, size), complex(np.nan, np.nan))
        return np.log(size) + largest, np.where(zero, 0j, sign)
    return np.log(total) + largest


# Subtracting logsumexp would lose digits of all but the largest entry, so that entry is subtracted first.


@stands_for("scipy.special", "log_softmax")
def log_softmax(x, axis=None):
    x = lift_first(x)
    largest = np.max(np.real(x), axis, keepdims=True)
    below = x - stop_gradient(np.where(np.isfinite(largest), largest, 0.0))
    return below - np.log(np.sum(np.exp(below), axis, keepdims=True))


@stands_for("scipy.special", "softmax")
def softmax(x, axis=None):
    x = lift_first(x)
    terms = np.exp(x - stop_gradient(np.max(np.real(x), axis, keepdims=True)))
    return terms / np.sum(terms, axis, keepdims=True)


@stands_for("scipy.special", "polygamma")
def polygamma(n, x):
    order = whole("polygamma", n)
    x = lift_first(x)
    if order < 2:
        return elementwise(("psi", "trigamma")[order], x)
    return (
        (-1.0) ** (order + 1) * math.factorial(order) * elementwise("hurwitz", order + 1.0, x)
    )  # DLMF 25.11.12


@stands_for("scipy.special", "multigammaln")
def multigammaln(a, d):
    a = lift_first(a)
    d = int(d)
    total = 0.25 * d * (d - 1) * math.log(math.pi)
    for j in range(d):
        total = elementwise("gammaln", a - 0.5 * j) + total
    return total


@stands_for("scipy.special", "softplus")
def softplus(x):
    return np.logaddexp(0.0, lift_first(x))


@stands_for("scipy.special", "comb", knows_sizes=True)
def comb(N, k, *, exact=False, repetition=False):
    if exact:
        if find_trace(N, k) is not None:
            raise unsupported_argument("scipy.special.comb", "exact=True")
        return scipy.special.comb(*settled((N, k)), exact=True, repetition=repetition)
    n, k = lift_all(*map(lifted, (N, k)))
    if repetition:
        if scipy.special.comb(0.5, 0.3, repetition=True):  # All numbers count since SciPy 1.16.
            return np.where((k == 0) & (n >= 0), 1.0, elementwise("binom", n + k - 1, k))
        n = n + k - 1
    return np.where((k <= n) & (n >= 0) & (k >= 0), elementwise("binom", n, k), 0.0)


@stands_for("scipy.special", "perm")
def perm(N, k, exact=False):
    if exact:
        raise unsupported_argument("scipy.special.perm", "exact=True")
    n, k = lift_all(N, k)
    return np.where((k <= n) & (n >= 0) & (k >= 0), elementwise("poch", n - k + 1, k), 0.0)


@stands_for("scipy.special", "factorial")
def factorial(n, exact=False, extend="zero"):
    if exact or extend != "zero":
        raise unsupported_argument("scipy.special.factorial", "exact or extend")
    n = lift_first(n)
    return np.where(n < 0, 0.0, elementwise("gamma", n + 1))


def _bessel_derivative(row: str, sign: float, base: float):
    """Return a function for the n-th derivative, by the recurrence of DLMF 10.6.7 and 10.29.5."""

    def derivative(v, z, n=1):
        v, z = lift_all(v, z)
        function = getattr(scipy.special, row)
        total, factor = function(v - n, z), 1.0
        for i in range(1, n + 1):
            factor *= sign * (n - i + 1) / i
            total = total + factor * function(v - n + 2 * i, z)
        return total * (base * 0.5) ** n

    return derivative


_DERIVATIVES = {
    f"{row}p": _bessel_derivative(row, sign, base)
    for row, sign, base in (("jv", -1.0, 1.0), ("yv", -1.0, 1.0), ("iv", 1.0, 1.0), ("kv", 1.0, -1.0))
}
_DERIVATIVES |= {f"h{k}vp": _bessel_derivative(f"hankel{k}", -1.0, 1.0) for k in (1, 2)}
for _name, _its in _DERIVATIVES.items():
    stands_for("scipy.special", _name)(_its)
