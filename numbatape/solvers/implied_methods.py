"""Methods of distributions of ``scipy.stats`` that follow from others, where a law has no formula for them.

Quantiles are the inverse of the cumulative function, whose slopes are those of an integral of the density;
means, variances and entropies are expected values. The values are SciPy's own.
"""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np
import scipy.integrate

from ..numpy_api.function_tables import MAKERS
from ..numpy_api.stand_ins import made
from ..rules.primitive import Primitive, Rule
from ..scipy_api.special.formula_rules import formula_rule
from ..scipy_api.stats.law_methods import cumulative
from ..scipy_api.stats.law_moments import ORDERS, about_the_mean
from ..scipy_api.stats.laws import Law
from ..trace.operands import find_trace
from ..verbs.directions import jvp
from .expectations import as_data
from .kept_derivatives import KeptDerivatives

TOLERANCES = {"epsabs": 1e-14, "epsrel": 1e-12, "limit": 200, "full_output": 1}  # the last one: no warnings


class Slopes:
    """Partial derivatives of an elementwise function ``f(x, *shapes)`` for its parameters."""

    def __init__(self, f):
        self._f, self._kept = f, KeptDerivatives(f)

    def __call__(self, k: int, x, *shapes):
        """Return the derivative for the k-th of the parameters."""
        moving = shapes[k]
        if find_trace((x, *shapes)) is None:
            tangents = [np.ones((1, *np.shape(moving))) if j == k else None for j in range(len(shapes))]
            given = tuple(np.asarray(part, float)[()] for part in (x, *shapes))
            return self._kept.push(given, (None, *tangents))[1][0]
        along = lambda shape: self._f(x, *shapes[:k], shape, *shapes[k + 1 :])  # noqa: E731
        return jvp(along, (moving,), (np.ones(np.shape(moving)),))[1]


class Area:
    """The integral of ``f(x, *shapes)`` from the low end of its support to x, elementwise.

    Parameters
    ----------
    f : callable
        Whose integral over the whole support is zero, whatever the parameters.
    ends : tuple
        Of the support, which do not depend on the parameters.
    """

    def __init__(self, f, ends: tuple):
        self._f, self._ends, self._slopes = f, ends, Slopes(f)
        rule = Rule(self._value, self._pullback, self._pushforward, None, any_size=True)
        rule.name = "the area below a density"
        self.of = Primitive(rule)
        self._more: dict = {}

    def _value(self, x, *shapes):
        given = [np.asarray(part, float) for part in np.broadcast_arrays(x, *shapes)]
        found = np.empty(given[0].shape)
        for place in np.ndindex(found.shape):
            at, *own = (part[place][()] for part in given)
            found[place] = self._area(at, own)
        return found[()]

    def _area(self, x: float, shapes: list) -> float:
        low, high = self._ends

        def integrand(t):
            value = float(self._f(np.float64(t), *shapes))
            return value if np.isfinite(value) else 0.0  # where a density underflows, 0*inf

        if not low < x < high:
            return np.nan if np.isnan(x) else 0.0
        with np.errstate(all="ignore"):
            middle = 0.5 * (low + high) if np.isfinite(low) else np.clip(1.0, low, high)
            if x <= middle:
                return scipy.integrate.quad(integrand, low, x, **TOLERANCES)[0]
            return -scipy.integrate.quad(integrand, x, high, **TOLERANCES)[0]

    def _slope(self, k: int, x, *shapes):
        """Return the slope for x, or for one of the parameters."""
        if k == 0:
            return self._f(x, *shapes)
        if k not in self._more:
            slopes = self._slopes
            self._more[k] = Area(lambda x, *shapes: slopes(k - 1, x, *shapes), self._ends)
        return self._more[k].of(x, *shapes)

    def _pullback(self, zbar, z, *args):
        return tuple(zbar * self._slope(k, *args) for k in range(len(args)))

    def _pushforward(self, tangents, z, *args):
        return sum(t * self._slope(k, *args) for k, t in enumerate(tangents) if t is not None)


def with_quantiles(distribution, law: Law) -> Law:
    """Return a law with quantiles: the inverse of its cumulative functions."""

    def cdf(x, *shapes):
        return cumulative("cdf")(law, x, shapes, 1.0, None)

    slopes = Slopes(cdf)

    def density(x, shapes):
        return np.exp(law.log(x, *shapes))

    def rule(name: str, sign: float):
        def slope_of(k: int):
            return lambda z, q, *shapes: -slopes(k, z, *shapes) / density(z, shapes)

        count = distribution.numargs
        known = {1 + k: slope_of(k) for k in range(count)}
        known[0] = lambda z, q, *shapes: sign / density(z, shapes)
        return formula_rule(f"{distribution.name}.{name}", known, home="scipy.stats")

    return replace(law, ppf=rule("ppf", 1.0), isf=rule("isf", -1.0))


def with_areas(distribution, law: Law) -> Law:
    """Return a law with cumulative functions: integrals of its density."""

    def density(x, *shapes):
        return np.exp(law.log(x, *shapes))

    slopes = Slopes(density)
    areas = {}

    def area(k: int):
        if k not in areas:
            areas[k] = Area(lambda x, *shapes: slopes(k, x, *shapes), (law.low, law.high))
        return areas[k].of

    def rule(name: str, sign: float):
        known = {0: lambda z, x, *shapes: sign * density(x, *shapes)}
        for k in range(distribution.numargs):
            known[1 + k] = lambda z, x, *shapes, k=k: sign * area(k)(x, *shapes)
        return formula_rule(f"{distribution.name}.{name}", known, home="scipy.stats")

    return replace(law, cdf=rule("cdf", 1.0), sf=rule("sf", -1.0))


def expected(distribution, name: str, shapes):
    """Return a moment or the entropy in standard form by expected values."""
    stands = made("scipy.stats", distribution.name, distribution)
    # SciPy knows which moments do not exist; an integral would only get large.
    own = functools.partial(distribution.stats, moments=name[0]) if name in ORDERS else distribution.entropy
    known = as_data(f"scipy.stats.{distribution.name}", own, *shapes)
    if not bool(np.all(np.isfinite(known))):
        return known
    if name == "entropy":

        def information(x):
            log = (stands.logpmf if hasattr(distribution, "logpmf") else stands.logpdf)(x, *shapes)
            return np.where(np.isfinite(log), -log, 0.0)

        return stands.expect(information, shapes)
    higher = range(2, ORDERS.index(name) + 2)
    raw = (stands.expect(lambda x, k=k: x**k, shapes) for k in higher)
    return about_the_mean(name, stands.expect(None, shapes), *raw)


for _name, _function in (("areas", with_areas), ("quantiles", with_quantiles), ("expected", expected)):
    MAKERS["scipy.stats"][f"_implied.{_name}"] = lambda given, function=_function: function(*given)
