"""``scipy.integrate.quad`` with traced limits and parameters: Leibniz' rule.

The derivative of an integral is the integral of the integrand's derivative, plus the integrand at the
limits times their derivatives. This holds where the integrand is continuous in its parameters: the
contribution of a jump whose place depends on a parameter is missing.
"""

from __future__ import annotations

from operator import is_

import numpy as np
import scipy.integrate

from ..errors import UnsupportedOperationError
from ..numpy_api.function_tables import MAKERS
from ..programs.roles import Constant
from ..rules.primitive import Primitive, Rule
from ..stand_ins.opened import Opened
from ..trace.operands import find_trace
from ..usercode.frames import UsersLine, not_supported, where_in_user_code
from ..verbs.directions import jvp
from ..verbs.vjp import vjp
from .kept_derivatives import KeptDerivatives
from .solver_calls import refuse, where_traced

OPTIONS = ("epsabs", "epsrel", "limit", "points")
OF_WEIGHTS = ("weight", "wvar", "wopts", "maxp1", "limlst")
# What SciPy multiplies an integrand by, as a function of x and ``wvar``. Other weights are powers that are
# singular at the limits, which must be plain numbers then.
WEIGHTS = {
    "cos": lambda x, w: np.cos(w * x),
    "sin": lambda x, w: np.sin(w * x),
    "cauchy": lambda x, c: 1.0 / (x - c),
}


class Integral:
    """The integral of ``f(x, *p)``, a number, as a rule of ``(a, b, *p)``, with SciPy's error estimate.

    Parameters
    ----------
    f : callable
    options : dict
        Of `quad`.
    line
        The user's line with the call, for SciPy's warnings.
    at : callable, optional
        ``at(p)`` is f as a function of x, for plain values p; where it is faster than f.
    """

    name = "scipy.integrate.quad"
    any_size = True  # its parameters may have other sizes than while tracing

    def __init__(self, f, options: dict, line: UsersLine, at=None):
        self.f, self.options, self.line = f, options, line
        self._with = at or (lambda p: lambda x: f(x, *p))
        self._kept = KeptDerivatives(f)
        rule = Rule(self._value, self._pullback, self._pushforward, None, self.any_size)
        rule.name = self.name
        self.integrate = Primitive(rule)
        self._more: dict = {}

    def _value(self, a, b, *p):
        integrand = self._with(p)
        return self._quad(lambda x: _number(integrand(x)), a, b)

    def _quad(self, integrand, a, b):
        quad = scipy.integrate.quad
        return self.line.call(quad, integrand, float(a), float(b), **self.options)[:2]

    def _at(self, x, p):
        """Return the integrand at a limit: zero at infinity, where the integral does not depend on it.

        That a traced limit is finite is a guard.
        """
        if not np.isfinite(x):
            return 0.0
        weight = self.options.get("weight")
        if weight is None:
            return self.f(x, *p)
        if weight not in WEIGHTS:
            return 0.0  # nobody asks, because the limits are plain
        return self.f(x, *p) * WEIGHTS[weight](x, self.options["wvar"])

    def _pushforward(self, tangents, results, a, b, *p):
        """Return the tangent of the integral: that of the integrand, and that of both limits."""
        da, db, *dp = tangents
        active = tuple(k for k, d in enumerate(dp) if d is not None)
        total = 0.0 * results[0]
        if active:
            count = len(p)

            def moved(x, *both):
                directions = iter(both[count:])
                along = [next(directions) if k in active else None for k in range(count)]
                if find_trace((x, *both)) is None:
                    zeros = [np.zeros(np.shape(p[k])) if d is None else d for k, d in enumerate(along)]
                    slope = jvp(self.f, (x, *both[:count]), (0.0, *zeros))[1]
                    if not np.any(np.isnan(slope)):
                        return slope
                # Zero times an infinite slope is NaN, so arguments without a direction are constants here.
                # This takes 18 us a point, and the direction above 2, because constants that change are
                # compared first.
                values = [Constant(p) if d is None else p for p, d in zip(both, along, strict=False)]
                return jvp(self.f, (Constant(x), *values), (None, *along))[1]

            inner = self._of(active, moved)
            total = total + inner.integrate(a, b, *p, *(dp[k] for k in active))[0]
        if db is not None:
            total = total + self._at(b, p) * db
        if da is not None:
            total = total - self._at(a, p) * da
        return total, 0.0 * results[1]

    def _pullback(self, ybar, results, a, b, *p):
        weight = ybar[0]
        slopes = (self._slopes if find_trace((ybar, a, b, *p)) is None else self._traced_slopes)(a, b, *p)
        return (-self._at(a, p) * weight, self._at(b, p) * weight, *(weight * its for its in slopes))

    def _slopes(self, a, b, *p):
        """Return the integrals of the derivatives with respect to the parameters, for plain numbers.

        Each is an integral with steps of its own. They begin with the same places, and those of similar
        derivatives stay the same, so that the derivatives at a place are computed together and kept.
        """
        known: dict = {}

        def gradient(x):
            found = known.get(x)
            if found is None:
                _, (_, *parts) = self._kept.pull(1.0, x, *p)
                found = known[x] = [entry for part in parts for entry in np.ravel(part).tolist()]
            return found

        def integral(k):
            return self._quad(lambda x: gradient(x)[k], a, b)[0]

        numbers = iter(range(sum(int(np.size(x)) for x in p)))
        return [np.reshape([integral(next(numbers)) for _ in range(np.size(x))], np.shape(x)) for x in p]

    def _traced_slopes(self, a, b, *p):
        """Return the same integrals as rules, which have derivatives."""
        found = []
        for k, x in enumerate(p):
            parts = [self._slope(k, place).integrate(a, b, *p)[0] for place in np.ndindex(*np.shape(x))]
            found.append(np.reshape(np.stack(parts), np.shape(x)) if parts else np.zeros(np.shape(x)))
        return found

    def _slope(self, k: int, place: tuple) -> Integral:
        """Return the integral of the derivative with respect to one entry of one parameter."""

        def slope(x, *p):
            gradient = vjp(self.f, x, *p)[1](np.ones(()))[1 + k]
            return gradient[place] if place else gradient

        return self._of((k, place), slope)

    def _of(self, key, f) -> Integral:
        """Return the integral of another function of the same arguments, which is made once."""
        if key not in self._more:
            self._more[key] = type(self)(f, self.options, self.line)
        return self._more[key]


def _number(value) -> float:
    """Return what an integrand has returned, a number or an array of one entry, as a number."""
    return value if isinstance(value, float) else float(np.reshape(value, ()))


def integrand_of(name: str, func, args):
    """Return ``at`` and p, the traced values that an integrand and its further arguments refer to.

    ``at(p)`` is the integrand as a function of x alone, with the values p in their places.
    """
    opened = Opened(name, (func, args if isinstance(args, tuple) else (args,)))

    def at(p):
        function, extra = opened.filled(p)
        return lambda x: function(x, *extra)

    return at, opened.found


def quad(original, func, a, b, args=(), complex_func=False, **options):
    at, p = integrand_of("scipy.integrate.quad", func, args)
    line, options = UsersLine(), _checked("quad", options, (*OPTIONS, *OF_WEIGHTS))
    weight = options.get("weight")
    if find_trace(options.get("wvar")) is not None or (
        weight is not None and weight not in WEIGHTS and find_trace(a, b) is not None
    ):
        raise refuse(f"scipy.integrate.quad(weight={weight!r})", "multiply the integrand by the weight")

    def integral(at):
        return Integral(lambda x, *p: np.reshape(at(p)(x), ()), options, line, at).integrate(a, b, *p)

    def of_part(part):
        def these(p):
            integrand = at(p)
            return lambda x: part(integrand(x))

        return these

    if not complex_func:
        return integral(at)
    real, imaginary = integral(of_part(np.real)), integral(of_part(np.imag))
    return tuple(x + 1j * y for x, y in zip(real, imaginary, strict=True))


# ---- several dimensions: integrals of integrals


def _nested(name: str, func, ranges: tuple, options: tuple, args: tuple):
    """Return an integral over several variables, and SciPy's estimate of the error of the outermost one.

    Parameters
    ----------
    name : str
        What messages call it.
    func : callable
        Of the variables, the innermost first, and of ``args``.
    ranges : tuple
        The limits for each variable, or a function of the variables outside of it.
    options : tuple of dict
        Of `quad`, for each variable.
    args : tuple
        Further arguments of ``func``, and of the functions among the limits.
    """
    opened, line = Opened(name, (func, ranges, args)), UsersLine()
    known: list = [None, None]  # the parameters of the integral that SciPy computes now, and what they fill

    def filled(p):
        if known[0] is None or not all(map(is_, known[0], p)):
            if find_trace(p) is not None:
                return opened.filled(p)
            known[:] = p, opened.filled(p)
        return known[1]

    def limits(k: int, outer: tuple, p):
        _, given, extra = filled(p)
        low, high = given[k](*outer, *extra) if callable(given[k]) else given[k]
        # Derivatives give floats in the place of integers, and a rule serves one kind of numbers.
        return tuple(x if find_trace(x) is not None else float(x) for x in (low, high))

    def over(k: int, count: int) -> Integral:
        """Return the integral over variables up to the k-th, as a rule of the other ones."""
        inner = over(k - 1, count) if k else None

        def integrand(x, *rest):
            outer, p = (x, *rest[: count - 1 - k]), rest[count - 1 - k :]
            if inner is not None:
                return inner.integrate(*limits(k - 1, outer, p), *outer, *p)[0]
            function, _, extra = filled(p)
            return np.reshape(function(*outer, *extra), ())

        return Integral(integrand, options[k], line)

    last = len(ranges) - 1
    return over(last, len(ranges)).integrate(*limits(last, (), opened.found), *opened.found)


def _checked(name: str, options: dict, known: tuple = OPTIONS) -> dict:
    refused = [key for key in options if key not in known]
    if refused:
        raise not_supported(
            f"scipy.integrate.{name}({', '.join(refused)}=...) of traced values", f"{', '.join(known)} are"
        )
    return options


def nquad(original, func, ranges, args=None, opts=None, full_output=False):
    if full_output or callable(opts) or (isinstance(opts, (list, tuple)) and any(map(callable, opts))):
        raise UnsupportedOperationError(
            f"scipy.integrate.nquad of traced values at {where_in_user_code()} takes neither full_output nor "
            "functions as opts"
        )
    given = tuple(opts) if isinstance(opts, (list, tuple)) else ({} if opts is None else opts,) * len(ranges)
    options = tuple(_checked("nquad", each) for each in given)
    args = () if args is None else tuple(args)
    return _nested("scipy.integrate.nquad", func, tuple(ranges), options, args)


def dblquad(original, func, a, b, gfun, hfun, args=(), epsabs=1.49e-8, epsrel=1.49e-8):
    options = ({"epsabs": epsabs, "epsrel": epsrel},) * 2
    return _nested("scipy.integrate.dblquad", func, (_between(gfun, hfun), (a, b)), options, tuple(args))


def tplquad(original, func, a, b, gfun, hfun, qfun, rfun, args=(), epsabs=1.49e-8, epsrel=1.49e-8):
    options = ({"epsabs": epsabs, "epsrel": epsrel},) * 3

    def innermost(y, x, *extra):
        return tuple(limit(x, y) if callable(limit) else limit for limit in (qfun, rfun))

    ranges = innermost, _between(gfun, hfun), (a, b)
    return _nested("scipy.integrate.tplquad", func, ranges, options, tuple(args))


def _between(low, high):
    """Return the limits as a function of the next variable outside, whatever else it gets."""
    return lambda y, *rest: tuple(x(y) if callable(x) else x for x in (low, high))


MAKERS["scipy.integrate"].update(
    quad=where_traced(quad),
    dblquad=where_traced(dblquad),
    nquad=where_traced(nquad),
    tplquad=where_traced(tplquad),
)
