"""``scipy.integrate.quad`` with traced limits and parameters: Leibniz' rule.

The derivative of an integral is the integral of the integrand's derivative, plus the integrand at the
limits times their derivatives. This holds where the integrand is continuous in its parameters: the
contribution of a jump whose place depends on a parameter is missing.
"""

from __future__ import annotations

import sys

import numpy as np

from ..capture.opened import Opened
from ..errors import UnsupportedOperationError
from ..numpy_api.function_tables import MAKERS
from ..rules.primitive import Primitive, Rule
from ..trace.operands import find_trace
from ..usercode.frames import where_in_user_code
from ..usercode.users_line import UsersLine
from ..verbs.directions import jvp
from ..verbs.vjp import vjp
from .ode import guarded

OPTIONS = ("epsabs", "epsrel", "limit", "points")


class Integral:
    """The integral of ``f(x, *p)``, a number, as a rule of ``(a, b, *p)``, with SciPy's error estimate.

    Parameters
    ----------
    f : callable
    options : dict
        Of `quad`.
    line
        The user's line with the call, for SciPy's warnings.
    """

    def __init__(self, f, options: dict, line: UsersLine):
        self.f, self.options, self.line = f, options, line
        rule = Rule(self._value, self._pullback, self._pushforward, None)
        rule.name = "scipy.integrate.quad"
        self.integrate = Primitive(rule)
        self._more: dict = {}

    def _value(self, a, b, *p):
        quad = sys.modules["scipy.integrate"].quad
        found = self.line.call(quad, lambda x: float(self.f(x, *p)), float(a), float(b), **self.options)
        return found[:2]

    def _at(self, x, p):
        """Return the integrand at a limit: zero at infinity, where the integral does not depend on it."""
        if find_trace(x) is None and not np.isfinite(x):
            return 0.0
        return self.f(x, *p)

    def _pushforward(self, tangents, results, a, b, *p):
        da, db, *dp = tangents
        active = tuple(k for k, d in enumerate(dp) if d is not None)
        total = 0.0 * results[0]
        if active:
            count = len(p)

            def moved(x, *both):
                directions = iter(both[count:])
                along = [next(directions) if k in active else np.zeros(np.shape(p[k])) for k in range(count)]
                return jvp(self.f, (x, *both[:count]), (0.0 * x, *along))[1]

            inner = self._more.setdefault(active, Integral(moved, self.options, self.line))
            total = total + inner.integrate(a, b, *p, *(dp[k] for k in active))[0]
        if db is not None:
            total = total + self._at(b, p) * db
        if da is not None:
            total = total - self._at(a, p) * da
        return total, 0.0 * results[1]

    def _pullback(self, ybar, results, a, b, *p):
        weight = ybar[0]
        slopes = []
        for k, x in enumerate(p):
            parts = [
                weight * self._slope(k, place).integrate(a, b, *p)[0] for place in np.ndindex(*np.shape(x))
            ]
            slopes.append(np.reshape(np.stack(parts), np.shape(x)) if parts else np.zeros(np.shape(x)))
        return (-self._at(a, p) * weight, self._at(b, p) * weight, *slopes)

    def _slope(self, k: int, place: tuple) -> Integral:
        """Return the integral of the derivative with respect to one entry of one parameter."""

        def slope(x, *p):
            gradient = vjp(self.f, x, *p)[1](np.ones(()))[1 + k]
            return gradient[place] if place else gradient

        return self._more.setdefault((k, place), Integral(slope, self.options, self.line))


def quad(original, func, a, b, args=(), **options):
    refused = [name for name in options if name not in OPTIONS]
    if refused:
        raise UnsupportedOperationError(
            f"scipy.integrate.quad({', '.join(refused)}=...) of traced values at {where_in_user_code()} is "
            f"not supported; {', '.join(OPTIONS)} are"
        )
    opened = Opened("scipy.integrate.quad", (func, args if isinstance(args, tuple) else (args,)))

    def f(x, *p):
        function, extra = opened.filled(p)
        return np.reshape(function(x, *extra), ())

    return Integral(f, options, UsersLine()).integrate(a, b, *opened.found)


MAKERS.setdefault("scipy.integrate", {})["quad"] = guarded(quad)
