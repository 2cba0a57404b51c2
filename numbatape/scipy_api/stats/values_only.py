"""Distributions of ``scipy.stats`` known by their values: no other functions make up their densities.

Their cumulative functions and quantiles have a derivative, the density, and so have p-values of tests. The
densities of Landau's and of stable laws have slopes by integrals (`stable_densities`). Those of Kolmogorov's
and Smirnov's statistics have values, as long as nobody asks for a derivative.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from ...numpy_api.function_tables import MAKERS
from ...numpy_api.registration import run_composition
from ...numpy_api.stand_ins import stand_in
from ...trace.operands import find_trace
from ...usercode.frames import not_supported
from ..special.formula_rules import formula_rule
from .distributions import StandIn
from .law_methods import operand
from .laws import pick

NAMES = ("ksone", "kstwo", "landau", "levy_stable")
QUANTILES = ("isf", "ppf")
BY_INTEGRALS = {"landau": 1, "levy_stable": 3}  # how many orders their slopes have: for x, and for the shapes


def _density_slopes(name: str) -> dict[int, Callable]:
    """Return the derivatives of a density for ``x`` and the shapes, as functions of ``(x, *shapes)``."""
    orders = BY_INTEGRALS[name]

    def raised(place: int, args):
        return [n + 1.0 if k == place else n for k, n in enumerate(args)]

    slope = formula_rule(
        f"{name}_slope",
        {orders + k: lambda z, *args, k=k: slope(*raised(k, args)) for k in range(orders)},
        home=f"{__package__}.stable_densities",
    )
    zeros = (0.0,) * orders
    return {k: lambda *args, k=k: slope(*raised(k, zeros), *args) for k in range(orders)}


@functools.cache
def _rules(name: str, usual: bool) -> dict[str, Callable]:
    """Return the methods of a distribution in standard form, by name, as functions of ``(x, *shapes)``.

    The integrals are for SciPy's usual parametrization of stable laws.
    """

    def rule(method: str, *slopes: Callable):
        return formula_rule(f"{name}.{method}", dict(enumerate(slopes)), home="scipy.stats")

    # The error comes when a number is asked for: a forward sweep records the density along with a tangent.
    def refuse(*_):
        raise not_supported(f"the derivative of scipy.stats.{name}.pdf", "its value is")

    def density(method: str, over: Callable):
        """Return a method whose slopes are those of the density, over what a function of its value gives."""
        slopes = _density_slopes(name) if usual and name in BY_INTEGRALS else {}
        known = [lambda z, *args, slope=slope: slope(*args) / over(z) for slope in slopes.values()]
        return rule(method, *(known or [refuse]))

    pdf = density("pdf", lambda z: 1.0)
    cdf, sf = (
        rule("cdf", lambda z, x, *shapes: pdf(x, *shapes)),
        rule("sf", lambda z, x, *shapes: -pdf(x, *shapes)),
    )
    return {
        "pdf": pdf,
        "logpdf": density("logpdf", np.exp),
        "cdf": cdf,
        "sf": sf,
        "logcdf": rule("logcdf", lambda z, x, *shapes: pdf(x, *shapes) / cdf(x, *shapes)),
        "logsf": rule("logsf", lambda z, x, *shapes: -pdf(x, *shapes) / sf(x, *shapes)),
        "ppf": rule("ppf", lambda z, q, *shapes: 1.0 / pdf(z, *shapes)),
        "isf": rule("isf", lambda z, q, *shapes: -1.0 / pdf(z, *shapes)),
    }


def _stable_loc(distribution, alpha, beta, loc, scale):
    """Return the location that stable laws have in standard form, where SciPy moves it for ``alpha == 1``.

    SciPy does so in its usual parametrization, "S1", and only in ``pdf`` and ``cdf``.
    """
    if distribution._parameterization() != "S1":
        return loc
    return pick(
        np.equal(alpha, 1.0),
        lambda: loc + 2.0 / np.pi * beta * scale * np.log(scale),
        lambda: loc,
    )


def _method(distribution, name: str):
    """Return the stand-in for a method; None for one that is SciPy's own."""
    if name not in _rules(distribution.name, True):
        return None

    def evaluate(x, *args, **kwargs):
        stable = distribution.name == "levy_stable"
        rule = _rules(distribution.name, not stable or distribution._parameterization() == "S1")[name]
        shapes, loc, scale = distribution._parse_args(*args, **kwargs)
        trace = find_trace(x, shapes, loc, scale)
        x, loc, scale, *shapes = (operand(trace, part) for part in (x, loc, scale, *shapes))
        if stable and name in ("pdf", "cdf"):
            loc = _stable_loc(distribution, *shapes, loc, scale)
        if name in QUANTILES:
            result = loc + scale * rule(x, *shapes)
        else:
            result = rule((x - loc) / scale, *shapes)
        if name == "pdf":
            result = result / scale
        elif name == "logpdf":
            result = result - np.log(scale)
        return np.where(scale > 0.0, result, np.nan)

    return stand_in(getattr(distribution, name), evaluate, run_composition)


for _name in NAMES:
    MAKERS["scipy.stats"][_name] = lambda original: StandIn(original, _method)
