"""``scipy.stats.gaussian_kde`` at traced points, and of traced samples.

The density is a mean of Gaussians at the samples. Their common covariance is the samples' own times the
square of a factor (Scott, Multivariate Density Estimation, 1992).
"""

from __future__ import annotations

import numpy as np
import scipy.special as sc

from ...errors import UnsupportedOperationError
from ...numpy_api.function_tables import MAKERS
from ...numpy_api.stand_ins import with_original
from ...trace import operations
from ...trace.axes import length, lengths
from ...trace.operands import find_trace, lift_all, values_of
from ...trace.plain_arrays import as_ndarrays
from ...usercode.frames import not_supported, where_in_user_code

FACTORS = {
    "scott": lambda n, d: n ** (-1.0 / (d + 4.0)),
    "silverman": lambda n, d: (n * (d + 2.0) / 4.0) ** (-1.0 / (d + 4.0)),
}


class Density:
    """The stand-in for a ``gaussian_kde``.

    Parameters
    ----------
    original
        SciPy's object, for plain points and for everything but values; None if the samples are traced.
    dataset : array, shape (d, n)
    weights : array, shape (n,)
    cholesky : array, shape (d, d)
        The lower factor of the Gaussians' covariance.
    """

    def __init__(self, original, dataset, weights, cholesky):
        self._original = original
        self.dataset, self.weights, self._cholesky = dataset, weights, cholesky

    def __getattr__(self, name: str):
        original = self.__dict__.get("_original")
        if original is None:
            raise not_supported(f"gaussian_kde.{name} of traced samples", "evaluate and logpdf are")
        return getattr(original, name)

    def evaluate(self, points):
        """Return the density at points, shape (d, m) or (m,)."""
        if find_trace(points) is None and self._original is not None:
            return self._original.evaluate(points)
        exponents, norm = self._terms(points)
        return self.weights @ np.exp(exponents) * norm

    __call__ = evaluate

    def pdf(self, x):
        """Return the density at points."""
        return self.evaluate(x)

    def logpdf(self, x):
        """Return the logarithm of the density at points."""
        if find_trace(x) is None and self._original is not None:
            return self._original.logpdf(x)
        exponents, norm = self._terms(x)
        return operations.logsumexp(exponents + np.log(self.weights)[:, None], axis=0) + np.log(norm)

    def integrate_box_1d(self, low, high):
        """Return the probability of an interval, of densities in one dimension."""
        if find_trace(low, high) is None and self._original is not None:
            return self._original.integrate_box_1d(low, high)
        if len(self.dataset) != 1:
            raise ValueError("integrate_box_1d() only handles 1D pdfs")
        scale, samples = self._cholesky[0, 0], self.dataset[0]
        parts = sc.ndtr((high - samples) / scale) - sc.ndtr((low - samples) / scale)
        return np.sum(self.weights * parts)

    def _terms(self, points):
        """Return the exponents of the Gaussians, shape (n, m), and the factor before them."""
        points, dataset, cholesky = lift_all(as_ndarrays(points), self.dataset, self._cholesky)
        points = np.atleast_2d(points)
        d = len(self.dataset)
        if length(points, 0) != d:
            if lengths(points) != (1, d):
                raise ValueError(f"points have dimension {points.shape[0]}, dataset has dimension {d}")
            points = np.reshape(points, (d, 1))
        inverse = np.linalg.inv(cholesky)
        gaps = (inverse @ dataset)[:, :, None] - (inverse @ points)[:, None, :]
        norm = (2.0 * np.pi) ** (-0.5 * d) / np.prod(np.diagonal(cholesky))
        return -0.5 * np.sum(gaps**2, 0), norm


def stand_in_of(value) -> Density | None:
    """Return the stand-in for a ``gaussian_kde`` that was made outside of the function, or None."""
    if type(value).__name__ != "gaussian_kde":
        return None
    return Density(value, value.dataset, value.weights, value.cho_cov)


def _of_traced(original, dataset, bw_method=None, weights=None) -> Density:
    """Return the density of traced samples, or with a traced bandwidth or traced weights."""
    original(*values_of((dataset, bw_method, weights)))  # raises SciPy's own errors
    dataset = np.atleast_2d(dataset)
    d = len(dataset)
    ones = np.ones_like(dataset[0], dtype=float) if weights is None else weights
    dataset, weights = lift_all(dataset, ones)
    _ = length(dataset, 1) < d, length(dataset, 1) < 2  # guards: SciPy has errors for so few samples
    weights = weights / np.sum(weights)
    effective = 1.0 / np.sum(weights**2)
    if bw_method is None or isinstance(bw_method, str):
        factor = FACTORS["scott" if bw_method is None else bw_method](effective, d)
    elif callable(bw_method):
        raise UnsupportedOperationError(
            f"gaussian_kde of traced samples at {where_in_user_code()} takes no function as bw_method; "
            "pass a number"
        )
    else:
        factor = bw_method
    gaps = dataset - np.sum(weights * dataset, 1, keepdims=True)
    # The unbiased covariance of weighted samples, as np.cov(..., aweights=weights) computes it.
    covariance = (weights * gaps) @ gaps.T / (1.0 - np.sum(weights**2))
    return Density(None, dataset, weights, np.linalg.cholesky(covariance) * factor)


MAKERS["scipy.stats"]["gaussian_kde"] = with_original(_of_traced, stand_in_of)
