"""``expect`` and ``moment`` of the distributions of ``scipy.stats``: integrals and sums of a function.

The function may refer to traced values, and the parameters may be traced. An integral is in three pieces, as
in SciPy: the body of the distribution and its tails. Where these begin is data.
"""

from __future__ import annotations

import inspect
import math

import numpy as np
import scipy.integrate

from ..errors import UnsupportedOperationError
from ..numpy_api.function_tables import MAKERS
from ..numpy_api.registration import unsupported_argument
from ..numpy_api.stand_ins import made
from ..rules.searches import Search
from ..scipy_api.stats.distributions import LAWS
from ..scipy_api.stats.law_methods import is_infinite, operand
from ..scipy_api.stats.law_moments import moment_about_zero
from ..stand_ins.opened import Opened
from ..trace.operands import find_trace, lift_all
from ..trace.trace import failing
from ..usercode.frames import UsersLine, where_in_user_code

TAIL = 0.05  # SciPy's share of a distribution that is a tail
NOTHING = 1e-15  # counts are left out if all counts beyond them have no more probability
MOST = 1 << 20  # counts that are summed: a distribution with a heavy tail has far more
NEGLIGIBLE = 1e-13  # probability beyond the first `MOST` counts: more than what rounding leaves there
CHUNK = 32  # the number of counts is rounded up to a multiple of it, so that it seldom changes


def as_data(name: str, find, *given):
    """Return ``find(*given)``, numbers that depend on the given ones, of which some are traced, as data."""
    traced = [k for k, x in enumerate(given) if find_trace(x) is not None]
    if not traced:
        return find(*given)

    def filled(*numbers):
        known = dict(zip(traced, numbers, strict=True))
        return find(*(known.get(k, x) for k, x in enumerate(given)))

    search = Search(f"{name}.expect", filled, lift_all(*(given[k] for k in traced)))
    return search.numbers("quantiles", lambda found: found)


def _weighed(place, function, density, shapes, loc, scale, start, unit):
    x = start + unit * place
    return unit * function(x) * density(x, *shapes, loc=loc, scale=scale)


def _at_quantile(share, function, quantile, shapes, loc, scale):
    return function(quantile(share, *shapes, loc=loc, scale=scale))


def _over_shares(distribution, function, shapes, loc, scale, options):
    """Return an expectation as an integral over probabilities, from both ends to the median.

    At an end that moves with a shape, a density like ``(1 - c*x)**(1/c - 1)`` may be infinite, or its slope
    for the shape. Quantiles have no such singularities, and their slopes none that is not integrable.
    """
    quad, total = made("scipy.integrate", "quad", scipy.integrate.quad), 0.0
    for quantile in (distribution.ppf, distribution.isf):
        for first, last in ((0.0, TAIL), (TAIL, 0.5)):
            args = function, quantile, shapes, loc, scale
            total = total + quad(_at_quantile, first, last, args=args, **options)[0]
    return total


def _standing_still(low, high) -> tuple:
    """Return coordinates in which ends of a support do not move: where 0 is, the unit, and the ends.

    At an end that moves, the slope of a density for its shapes may be infinite, and no quadrature is exact.
    Whether an end is infinite is a guard where it is traced.
    """
    if bool(np.isinf(low)):
        return (0.0, 1.0, low, high) if bool(np.isinf(high)) else (high, 1.0, -np.inf, 0.0)
    return (low, 1.0, 0.0, np.inf) if bool(np.isinf(high)) else (low, high - low, 0.0, 1.0)


def _support(distribution, shapes, loc, scale) -> list:
    """Return the ends of the support, which are plain where they depend on nothing that is traced.

    The slope of an integral for its end is the density there, which may be infinite.
    """
    law = LAWS.get(distribution._original.name)
    if law is None:
        return distribution.support(*shapes, loc=loc, scale=scale)
    return [_placed(end, loc, scale) for end in law.ends(shapes)]


def _placed(end, loc, scale):
    if is_infinite(end):
        return end
    return loc if find_trace(end) is None and end == 0.0 else loc + scale * end


def _is_unbounded(distribution, shapes) -> bool:
    """Whether the density is infinite at an end of the support; for traced parameters this is a guard."""
    law = LAWS.get(distribution._original.name)
    ends = [] if law is None else [end for end in law.ends(shapes) if not is_infinite(end)]
    return any(bool(np.any(np.isinf(distribution.pdf(end, *shapes)))) for end in ends)


def _of_continuous(distribution, function, shapes, loc, scale, lb, ub, conditional, options):
    """Return the expectation under a continuous distribution, an integral over its support."""
    if (
        lb is None
        and ub is None
        and find_trace(loc, scale) is not None
        and _is_unbounded(distribution, shapes)
    ):
        # Where the density is infinite at an end, the integral has no slope for that end. So the law stays in
        # standard form, and the function is moved instead.
        def moved(y):
            return function(loc + scale * y)

        return _of_continuous(distribution, moved, shapes, 0.0, 1.0, lb, ub, conditional, options)
    original = distribution._original
    name = f"scipy.stats.{original.name}"
    support = _support(distribution, shapes, loc, scale)
    low, high = (own if end is None else end for own, end in zip(support, (lb, ub), strict=True))

    def body(low, high, start, unit, loc, scale, *shapes):
        ends = start + unit * np.array([low, high])
        below, above = original.cdf(ends, *shapes, loc=loc, scale=scale)
        shares = below + (above - below) * np.array([TAIL, 1.0 - TAIL])
        return (original.ppf(shares, *shapes, loc=loc, scale=scale) - start) / unit

    start, unit = 0.0, 1.0
    if lb is None and ub is None and find_trace(low, high) is not None and not options.get("points"):
        law = LAWS.get(original.name)
        if (
            find_trace(shapes) is not None
            and law is not None
            and law.ppf is not None
            and "weight" not in options
        ):
            return _over_shares(distribution, function, shapes, loc, scale, options)
        start, unit, low, high = _standing_still(low, high)
    middle = as_data(name, body, low, high, start, unit, loc, scale, *shapes)
    quad = made("scipy.integrate", "quad", scipy.integrate.quad)
    given, total = (function, distribution.pdf, shapes, loc, scale, start, unit), 0.0
    for first, last in ((low, middle[0]), (middle[0], middle[1]), (middle[1], high)):
        total = total + quad(_weighed, first, last, args=given, **options)[0]
    if not conditional:
        return total
    below, above = (
        distribution.cdf(start + unit * end, *shapes, loc=loc, scale=scale) for end in (low, high)
    )
    return total / (above - below)


def _of_counts(distribution, function, shapes, loc, scale, lb, ub, conditional, options):
    """Return the sum over all counts. So SciPy's options about when to stop are of no use."""
    original = distribution._original
    too_many = UnsupportedOperationError(
        f"scipy.stats.{original.name}.expect at {where_in_user_code()} would be a sum of more than a million "
        "terms; give the last count that matters as ub="
    )

    def ends(loc, *shapes):
        low, high = original.support(*shapes, loc=loc)
        low = max(low, original.ppf(NOTHING, *shapes, loc=loc)) if lb is None else lb
        if ub is not None:
            return np.array([low, ub])
        # SciPy's own search for the end of a heavy tail would take gigabytes.
        if high - low >= MOST and original.sf(low + MOST, *shapes, loc=loc) > NEGLIGIBLE:
            raise too_many
        wanted = original.isf(NOTHING, *shapes, loc=loc)
        return np.array([low, min(high, low + -(-(wanted - low + 1) // CHUNK) * CHUNK - 1)])

    low, high = (int(end) for end in as_data(f"scipy.stats.{original.name}", ends, loc, *shapes))
    counts = np.arange(low, high + 1)
    density = distribution.pmf(counts, *shapes, loc=loc)
    total = np.sum(function(counts) * density)
    return total / np.sum(density) if conditional else total


def _identity(x):
    return x


def expect(distribution):
    """Return the method ``expect`` of the stand-in for a distribution."""
    original = distribution._original
    signature = inspect.signature(original.expect)
    continuous = "scale" in signature.parameters

    def call(*args, **kwargs):
        """Return the expectation: an integral or a sum of traced values, if an argument is traced."""
        opened = Opened(f"scipy.stats.{original.name}.expect", (args, kwargs))
        if not opened.found:
            args, kwargs = opened.filled([])
            return UsersLine().call(original.expect, *args, **kwargs)
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = bound.arguments
        scales = {"scale": given["scale"]} if continuous else {}
        shapes, loc, scale = original._parse_args(*given["args"], loc=given["loc"], **scales)
        function = _identity if given["func"] is None else given["func"]
        # The law is one on a circle, and SciPy's ends do not depend on the scale.
        if original.name == "vonmises":
            given["lb"] = loc - np.pi if given["lb"] is None else given["lb"]
            given["ub"] = loc + np.pi if given["ub"] is None else given["ub"]
        with failing(opened.found[0]._trace):
            compute = _of_continuous if continuous else _of_counts
            return compute(
                *(distribution, function, shapes, loc, scale, given["lb"], given["ub"]),
                *(given["conditional"], given.get("kwds", {})),
            )

    return call


def moment(distribution):
    """Return the method ``moment`` of the stand-in for a distribution."""
    original = distribution._original

    def call(order, *args, **kwargs):
        if find_trace(order) is not None:
            raise unsupported_argument(f"scipy.stats.{original.name}.moment", "a traced order", "a number is")
        if find_trace(args, tuple(kwargs.values())) is None:
            return original.moment(order, *args, **kwargs)
        if order < 0 or order != int(order):
            return original.moment(order)  # SciPy's errors
        shapes, loc, scale = original._parse_args(*args, **kwargs)
        trace = find_trace(shapes, loc, scale)
        shapes, (loc, scale) = ([operand(trace, part) for part in parts] for parts in (shapes, (loc, scale)))
        first = order if find_trace(loc) is None and np.all(np.equal(loc, 0.0)) else 0
        # The result is a polynomial of loc and scale: the density may be infinite at ends that depend on
        # them.
        return sum(
            math.comb(int(order), k) * loc ** (order - k) * scale**k * standard(k, shapes)
            for k in range(int(first), int(order) + 1)
        )

    def standard(k: int, shapes):
        if k == 0:
            return 1.0
        if find_trace(shapes) is None:
            return original.moment(k, *shapes)
        # SciPy knows which moments do not exist; an integral would only get large.
        known = as_data(f"scipy.stats.{original.name}", lambda *shapes: original.moment(k, *shapes), *shapes)
        if not bool(np.all(np.isfinite(known))):
            return known
        law = LAWS.get(original.name)
        formula = None if law is None else moment_about_zero(original, law, k, shapes)
        if formula is not None:
            return formula
        return expect(distribution)(None if k == 1 else lambda x: x**k, shapes)

    return call


def negative_log_likelihood(distribution):
    """Return the method ``nnlf`` of the stand-in for a distribution."""

    def call(theta, x):
        if find_trace(theta, x) is None:
            return distribution._original.nnlf(theta, x)
        return -np.sum(distribution.logpdf(x, *theta))

    return call


MAKERS["scipy.stats"].update(
    {"_methods.expect": expect, "_methods.moment": moment, "_methods.nnlf": negative_log_likelihood}
)
