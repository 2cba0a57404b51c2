"""``scipy.special`` of complex numbers: SciPy computes the value, a formula of such functions the derivative.

The functions are analytic, so one slope stands for both parts of the argument. Numbers of formulas are those
of the DLMF. Functions that SciPy scales by the size of the exponential (``ive``, ``jve``) are not analytic.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import scipy.special as sc

from ...derive.partials import weighed
from ...matrix.matrix_rule import is_complex
from ...numpy_api.registration import unsupported_argument
from ...rules.primitive import Primitive, Rule
from ...trace.complex_pairs import join
from ...trace.operands import adopt, values_of
from . import orthogonal_polynomials  # noqa: F401  (its ufuncs register themselves)
from .formula_rules import broadcast
from .ufunc_table import UFUNCS, is_active

ROOT_PI = math.sqrt(math.pi)
BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)


def trigamma(z):
    """Return the derivative of psi.

    It is computed by reflection, 5.5.4, recurrence, 5.15.5, and the asymptotic series, 5.15.8.
    """
    left = np.less(np.real(z), 0.5)
    w = np.where(left, 1.0 - z, z)
    far = 1.0 / (w + 15.0)  # the powers of the reciprocal do not overflow
    square, series = far * far, 0.0
    for number in reversed(BERNOULLI):
        series = (series + number) * square
    total = sum((1.0 / (w + k)) ** 2 for k in range(15)) + far * (1.0 + 0.5 * far + series)
    # Far from the real line the reflection is 0; there, and right of it, the sine is that of a number.
    mirrored = left & np.less(np.abs(np.imag(z)), 300.0)
    sine = np.sin(math.pi * np.where(mirrored, z, 0.5))
    return np.where(left, np.where(mirrored, (math.pi / sine) ** 2, 0.0) - total, total)


def _spence(y, z):
    """Return the slope; near one, where ``log(z)/(1 - z)`` is 0/0, it is the series in ``1 - z``."""
    near = np.less(np.abs(z - 1.0), 1e-3)
    small = np.where(near, 1.0 - z, 0.0)
    away = np.where(near, 2.0, z)
    return np.where(near, -sum(small**k / (k + 1) for k in range(7)), np.log(away) / (1.0 - away))


def _over(function, limit: float, z):
    """Return ``function(z)/z``, and its limit at zero."""
    nothing = np.equal(z, 0.0)
    away = np.where(nothing, 1.0, z)
    return np.where(nothing, limit, function(away) / away)


def _bessel(name: str, sign: float, size: float = 0.5, scale: complex = 0.0) -> Callable:
    """Return the derivative of a Bessel function, times ``exp(scale*z)``: 10.6.1 and 10.29.1."""

    def slope(y, v, z):
        function = getattr(sc, name)
        return scale * y + size * (function(v - 1.0, z) + sign * function(v + 1.0, z))

    return slope


# The derivatives of each result, as functions of all results, the parameters and the argument.
SLOPES: dict[str, Callable] = {
    "erf": lambda y, z: 2.0 / ROOT_PI * np.exp(-z * z),
    "erfc": lambda y, z: -2.0 / ROOT_PI * np.exp(-z * z),
    "erfcx": lambda y, z: 2.0 * z * y - 2.0 / ROOT_PI,
    "erfi": lambda y, z: 2.0 / ROOT_PI * np.exp(z * z),
    "dawsn": lambda y, z: 1.0 - 2.0 * z * y,
    "wofz": lambda y, z: 2.0j / ROOT_PI - 2.0 * z * y,
    "ndtr": lambda y, z: np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi),
    "log_ndtr": lambda y, z: np.exp(-0.5 * z * z - y) / math.sqrt(2.0 * math.pi),
    "exp1": lambda y, z: -np.exp(-z) / z,
    "expi": lambda y, z: np.exp(z) / z,
    "gamma": lambda y, z: y * sc.psi(z),
    "rgamma": lambda y, z: -y * sc.psi(z),
    "loggamma": lambda y, z: sc.psi(z),
    "psi": lambda y, z: trigamma(z),
    "spence": _spence,
    "wrightomega": lambda y, z: y / (1.0 + y),
    "_lambertw": lambda y, z, k, tol: np.exp(-y) / (1.0 + y),
    "sici": lambda s, c, z: (_over(np.sin, 1.0, z), np.cos(z) / z),
    "shichi": lambda s, c, z: (_over(np.sinh, 1.0, z), np.cosh(z) / z),
    "fresnel": lambda s, c, z: (np.sin(0.5 * math.pi * z * z), np.cos(0.5 * math.pi * z * z)),
    "airy": lambda ai, aip, bi, bip, z: (aip, z * ai, bip, z * bi),
    "hyp0f1": lambda y, v, z: sc.hyp0f1(v + 1.0, z) / v,
    "hyp1f1": lambda y, a, b, z: a / b * sc.hyp1f1(a + 1.0, b + 1.0, z),
    "hyp2f1": lambda y, a, b, c, z: a * b / c * sc.hyp2f1(a + 1.0, b + 1.0, c + 1.0, z),
    "jv": _bessel("jv", -1.0),
    "yv": _bessel("yv", -1.0),
    "iv": _bessel("iv", 1.0),
    "kv": _bessel("kv", 1.0, -0.5),
    "kve": _bessel("kve", 1.0, -0.5, 1.0),
    "hankel1": _bessel("hankel1", -1.0),
    "hankel1e": _bessel("hankel1e", -1.0, 0.5, -1.0j),
    "hankel2": _bessel("hankel2", -1.0),
    "hankel2e": _bessel("hankel2e", -1.0, 0.5, 1.0j),
}


def _xlogy(x, y):
    nowhere = np.equal(y, 0.0) | np.isinf(y)
    return x * np.log(np.where(np.equal(x, 0.0) & nowhere, 1.0, y))


COMPOSED: dict[str, Callable] = {
    "expm1": lambda z: np.expm1(z),
    "log1p": lambda z: np.log1p(z),
    "xlogy": _xlogy,
    "xlog1py": lambda x, y: _xlogy(x, 1.0 + y),
}


def _slopes(slope: Callable, ys, re, im, parameters, at: int) -> list:
    """Return the real and the imaginary part of the derivative of each result."""
    results = [ys[k] + 1j * ys[k + 1] for k in range(0, ys.shape[0], 2)]
    found = slope(*results, *parameters[:at], re + 1j * im, *parameters[at:])
    return [(np.real(each), np.imag(each)) for each in (found if isinstance(found, tuple) else (found,))]


def _rule(function, slope: Callable, at: int) -> Primitive:
    """Return a rule of the two parts of the argument at a place, and of the parameters.

    Its result has the parts of the function's results as rows. A part of a cotangent that is zero stays zero
    where the slope is infinite or NaN, as it does for rows of the op table.
    """

    name = function.__name__

    def value(re, im, *parameters):
        if name == "_lambertw":
            # The parameter is the number of a branch.
            parameters = np.asarray(parameters[0]).astype(int), *parameters[1:]
        found = function(*parameters[:at], re + 1j * im, *parameters[at:])
        results = found if isinstance(found, tuple) else (found,)
        return np.stack([part for each in results for part in (each.real, each.imag)])

    def pullback(bars, ys, re, im, *parameters):
        with np.errstate(all="ignore"):
            slopes = _slopes(slope, ys, re, im, parameters, at)
            pairs = [(bars[2 * k], bars[2 * k + 1], u, v) for k, (u, v) in enumerate(slopes)]
            of_re = sum(weighed(a, u) + weighed(b, v) for a, b, u, v in pairs)
            of_im = sum(weighed(b, u) - weighed(a, v) for a, b, u, v in pairs)
        return (of_re, of_im, *(None for _ in parameters))

    def pushforward(tangents, ys, re, im, *parameters):
        a, b = (0.0 * re if t is None else t for t in tangents[:2])
        with np.errstate(all="ignore"):
            slopes = _slopes(slope, ys, re, im, parameters, at)
            moved = [(weighed(a, u) - weighed(b, v), weighed(a, v) + weighed(b, u)) for u, v in slopes]
        return np.stack([part for pair in moved for part in pair])

    rule = Rule(value, pullback, pushforward, None, any_size=True)
    rule.name = f"scipy.special.{name}"
    return Primitive(rule)


def complex_special(function, inputs):
    """Return the result of a ufunc of complex numbers, or None for one that is not known."""
    name = function.__name__
    of_branches = name == "_lambertw"
    if not of_branches and getattr(sc, name, None) is not function:
        return None
    value = function(*map(values_of, inputs))
    if name in COMPOSED:
        return adopt(COMPOSED[name](*inputs), value)
    if name.startswith("eval_"):  # the recurrences of orthogonal polynomials hold for complex numbers, too
        with np.errstate(all="ignore"):
            return adopt(UFUNCS[name](*inputs), value)
    slope = SLOPES.get(name)
    if slope is None:
        return None
    at = 0 if of_branches else len(inputs) - 1
    parameters = [*inputs[:at], *inputs[at + 1 :]]
    if any(is_active(x) or is_complex(x) for x in parameters):
        hint = f"only argument {at + 1} may be complex or carry a derivative where it is complex"
        raise unsupported_argument(f"scipy.special.{name}", "complex numbers", hint)
    z = inputs[at]
    parts = _rule(function, slope, at)(*broadcast((np.real(z), np.imag(z), *parameters)))
    found = [join(parts[k], parts[k + 1]) for k in range(0, 2 * function.nout, 2)]
    return adopt(tuple(found), value) if function.nout > 1 else adopt(found[0], value)
