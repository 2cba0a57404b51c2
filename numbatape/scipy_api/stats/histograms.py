"""``scipy.stats.rv_histogram``: at traced points, and of traced counts and boundaries."""

from __future__ import annotations

import functools
import math

import numpy as np

from ...numpy_api.function_tables import MAKERS
from ...numpy_api.stand_ins import class_that_makes
from ...trace.operands import find_trace, lift, values_of
from ...trace.plain_arrays import as_ndarrays
from ...trace.trace import failing
from ...usercode.frames import not_supported
from .distributions import StandIn, method_of
from .law_methods import CONTINUOUS, OF_PARAMETERS
from .law_moments import ORDERS, about_the_mean
from .laws import Law


class Histogram:
    """Boundaries, the density between them with a zero on both sides, and the probability below them."""

    def __init__(self, bins, heights, reached):
        self.bins, self.heights, self.reached = bins, heights, reached
        self.trace = find_trace(bins, heights)
        self.law = Law(
            lambda x: np.log(self.height(x)),
            low=lambda: bins[0],
            high=lambda: bins[-1],
            cdf=lambda x: np.interp(x, bins, reached),
            ppf=lambda q: np.interp(q, reached, bins),
            entropy=self.entropy,
            **{name: functools.partial(self.about_the_mean, name, k) for k, name in enumerate(ORDERS, 1)},
        )
        self.methods = {**CONTINUOUS, **OF_PARAMETERS, "pdf": self.density}

    def height(self, x):
        """Return the density at points."""
        trace, heights = find_trace(self.heights, self.bins, x), self.heights
        return (heights if trace is None else lift(trace, heights))[
            np.searchsorted(self.bins, x, side="right")
        ]

    def raw(self, order: int):
        """Return a moment about zero."""
        powers = self.bins ** (order + 1)
        return np.sum(self.heights[1:-1] * (powers[1:] - powers[:-1]) / (order + 1))

    def about_the_mean(self, name: str, order: int):
        """Return the mean, the variance, the skewness or the kurtosis."""
        return about_the_mean(name, *map(self.raw, range(1, order + 1)))

    def entropy(self):
        """Return the entropy, to which empty bins add nothing."""
        inner = self.heights[1:-1]
        logs = np.log(np.where(inner > 0.0, inner, 1.0))
        return -np.sum(inner * logs * (self.bins[1:] - self.bins[:-1]))

    def density(self, distribution, law, x, args, kwargs):
        """Return the density by itself, because the slope of its logarithm is infinite for an empty bin."""
        _, loc, scale = distribution._parse_args(*args, **kwargs)
        return np.where(scale > 0, self.height((x - loc) / scale) / scale, np.nan)

    def moment(self, distribution, order: int, *args, **kwargs):
        """Return a moment about zero of the law at ``loc`` with a ``scale``."""
        _, loc, scale = distribution._parse_args(*args, **kwargs)
        terms = [math.comb(order, k) * scale**k * loc ** (order - k) * self.raw(k) for k in range(order + 1)]
        return sum(terms)

    def method(self, distribution, name: str):
        """Return a method; None for one of SciPy's own, which may be called if nothing is traced."""
        evaluate = self.methods.get(name)
        if self.trace is None:
            return None if evaluate is None else method_of(distribution, name, self.law, evaluate)
        if name == "moment":
            return self._in_trace(functools.partial(self.moment, distribution))
        if evaluate is None and not name.startswith("_"):
            hint = "densities, probabilities, quantiles and moments are"
            raise not_supported(f"rv_histogram.{name} of traced counts or boundaries", hint)
        if evaluate is None:
            return None

        def call(*args, **kwargs):
            leading = 0 if name in OF_PARAMETERS and name != "interval" else 1
            return evaluate(distribution, self.law, *args[:leading], args[leading:], kwargs)

        return self._in_trace(call)

    def _in_trace(self, call):
        """Return a function that runs in the trace, although its arguments may be plain numbers."""

        def run(*args, **kwargs):
            with failing(self.trace), np.errstate(all="ignore"):
                return call(*args, **kwargs)

        return run


def of_object(original) -> StandIn:
    """Return the stand-in for a distribution that was made outside of the function."""
    return StandIn(original, Histogram(original._hbins, original._hpdf, original._hcdf).method)


def _rv_histogram(original: type) -> type:
    """Return the stand-in for the class, which computes as the class does, with traced numbers."""

    def make(histogram, *args, density=None, **kwargs):
        if find_trace(histogram) is None:
            return of_object(original(histogram, *args, density=density, **kwargs))
        made = original(tuple(map(values_of, histogram)), *args, density=density, **kwargs)
        trace = find_trace(histogram)
        heights, bins = (lift(trace, as_ndarrays(part)) for part in histogram)
        widths = bins[1:] - bins[:-1]
        if not density and (density is not None or np.allclose(widths, widths[0])):
            heights = heights / widths
        heights = heights / np.sum(heights * widths)
        reached = np.concatenate([np.zeros(1), np.cumsum(heights * widths)])
        heights = np.concatenate([np.zeros(1), heights, np.zeros(1)])
        return StandIn(made, Histogram(bins, heights, reached).method)

    return class_that_makes(original, make)


MAKERS["scipy.stats"].update({"rv_histogram": _rv_histogram, "_methods.histogram": of_object})
