"""``scipy.integrate.quad_vec``: integrals of arrays, with traced limits and parameters.

Their derivatives are integrals of arrays again, and the integrand at the limits (Leibniz' rule).
"""

from __future__ import annotations

import numpy as np
import scipy.integrate

from ..numpy_api.function_tables import MAKERS
from ..trace.operands import find_trace
from ..trace.primitives import sample_of
from ..usercode.frames import UsersLine, not_supported
from ..verbs.vjp import vjp
from .quadrature import Integral, integrand_of
from .solver_calls import where_traced

OPTIONS = ("epsabs", "epsrel", "norm", "cache_size", "limit", "points", "quadrature")


class IntegralOfArrays(Integral):
    """The integral of ``f(x, *p)``, an array, as a rule of ``(a, b, *p)``, with SciPy's error estimate."""

    name, any_size = "scipy.integrate.quad_vec", False

    def _value(self, a, b, *p):
        integrand = self._with(p)

        def entries(x):
            return np.array(integrand(x), float)  # SciPy keeps these, so they must be copies

        run = scipy.integrate.quad_vec
        value, error = self.line.call(run, entries, float(a), float(b), **self.options)
        return np.asarray(value)[()], np.float64(error)

    def _pullback(self, ybar, results, a, b, *p):
        weights = ybar[0]
        low, high = (np.sum(self._at(end, p) * weights) for end in (a, b))
        if not p:
            return -low, high

        def pulled(x, weights, *p):
            """Return the cotangents of all parameters, one after another."""
            if find_trace((x, weights, *p)) is None:
                parts = self._kept.pull(weights, x, *p)[1][1:]
            else:
                parts = vjp(self.f, x, *p)[1](weights)[1:]
            return np.concatenate([np.reshape(part, (-1,)) for part in parts])

        slopes = self._of("pullback", pulled).integrate(a, b, weights, *p)[0]
        shapes = [np.shape(sample_of(x)) for x in p]
        places = np.cumsum([0, *(int(np.prod(shape)) for shape in shapes)]).tolist()
        parts = (slopes[i:j] for i, j in zip(places[:-1], places[1:], strict=True))
        return -low, high, *map(np.reshape, parts, shapes)


def quad_vec(original, f, a, b, *given, args=(), **options):
    refused = [name for name in options if name not in OPTIONS]
    if given or refused:
        raise not_supported(
            f"scipy.integrate.quad_vec({', '.join(refused) or 'epsabs'}=...) of traced values",
            f"{', '.join(OPTIONS)} are, by name",
        )
    at, p = integrand_of("scipy.integrate.quad_vec", f, args)
    return IntegralOfArrays(lambda x, *p: at(p)(x), options, UsersLine(), at).integrate(a, b, *p)


MAKERS["scipy.integrate"]["quad_vec"] = where_traced(quad_vec)
