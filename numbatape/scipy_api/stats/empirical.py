"""``scipy.stats.ecdf``: empirical distribution functions of traced samples, and at traced points.

Quantiles are entries of the sample. The probabilities are steps, so they have no derivative.
"""

from __future__ import annotations

import numpy as np

from ...numpy_api.function_tables import MAKERS
from ...trace.operands import find_trace, lift, lift_first
from ...trace.plain_arrays import as_ndarrays
from ...usercode.frames import not_supported


class StepFunction:
    """The stand-in for SciPy's ``EmpiricalDistributionFunction``: a function that steps at quantiles.

    Parameters
    ----------
    quantiles, probabilities
        Where it steps, and its values from there on.
    before : float
        Its value left of all quantiles.
    made
        SciPy's object, where it exists: if the sample is not traced.
    """

    def __init__(self, quantiles, probabilities, before: float, made=None):
        self.quantiles, self.probabilities = quantiles, probabilities
        self._before, self._made = before, made

    def evaluate(self, x):
        """Return the function's values."""
        x = as_ndarrays(x)
        if self._made is not None and find_trace(x) is None:
            return self._made.evaluate(x)
        x = lift_first(x, self.quantiles)
        steps = np.searchsorted(self.quantiles, x, side="right")
        values = lift(x._trace, np.concatenate([np.full(1, self._before), self.probabilities]))
        return np.where(np.isnan(x), np.nan, values[steps])

    def __getattr__(self, name: str):
        if name.startswith("__") or self._made is None:
            raise AttributeError(
                f"{name} of an empirical distribution function of a traced sample is not supported; "
                "quantiles, probabilities and evaluate are"
            )
        return getattr(self._made, name)


class Both:
    """The stand-in for SciPy's result, ``cdf`` and ``sf``."""

    def __init__(self, cdf: StepFunction, sf: StepFunction):
        self.cdf, self.sf = cdf, sf


def stand_in_of(value):
    """Return the stand-in for what SciPy's ``ecdf`` has returned, or for a part of it; else None."""
    kind = type(value).__name__
    if kind == "ECDFResult":
        return Both(_of(value.cdf), _of(value.sf))
    return _of(value) if kind == "EmpiricalDistributionFunction" else None


def _of(made) -> StepFunction:
    return StepFunction(made.quantiles, made.probabilities, 1.0 if made._kind == "sf" else 0.0, made)


def _ecdf(original):
    def ecdf(sample):
        sample = as_ndarrays(sample)
        if find_trace(sample) is None:
            return stand_in_of(original(sample))
        sample = lift_first(sample)
        if sample.ndim != 1:
            raise not_supported(f"scipy.stats.ecdf of a traced array of {sample.ndim} axes", "a vector is")
        quantiles, counts = np.unique(sample, return_counts=True)
        cdf = np.cumsum(counts) / np.sum(counts)
        return Both(StepFunction(quantiles, cdf, 0.0), StepFunction(quantiles, 1.0 - cdf, 1.0))

    return ecdf


MAKERS["scipy.stats"]["ecdf"] = _ecdf
