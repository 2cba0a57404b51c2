"""``scipy.stats.gaussian_kde`` at traced points, and of traced samples.

The density is a mean of Gaussians at the samples. Their common covariance is the samples' own times the
square of a factor (Scott, Multivariate Density Estimation, 1992).
"""

from __future__ import annotations

import numpy as np
import scipy.special as sc
import scipy.stats

from ...numpy_api.creation import as_doubles
from ...numpy_api.function_tables import MAKERS
from ...numpy_api.stand_ins import made, with_original
from ...trace import operations
from ...trace.axes import length, lengths
from ...trace.operands import find_trace, lift_all, values_of
from ...trace.plain_arrays import as_ndarrays
from ...usercode.frames import not_supported

FACTORS = {
    "scott": lambda density: density.neff ** (-1.0 / (density.d + 4.0)),
    "silverman": lambda density: (density.neff * (density.d + 2.0) / 4.0) ** (-1.0 / (density.d + 4.0)),
}


class Density:
    """The stand-in for a ``gaussian_kde``, with its attributes.

    Parameters
    ----------
    original
        SciPy's object, for plain points; None if the samples are traced.
    dataset : array, shape (d, n)
    weights : array, shape (n,)
    data_covariance : array, shape (d, d)
        That of the samples, which times the square of a factor is the Gaussians'.
    factor : number or callable
        The factor, or what returns it for this object.
    """

    def __init__(self, original, dataset, weights, data_covariance, factor):
        self._original = original
        self.dataset, self.weights, self._data_covariance = dataset, weights, data_covariance
        self.d = len(dataset)
        self.neff = 1.0 / np.sum(weights * weights)
        self._set_factor(factor)

    def _set_factor(self, factor):
        self.factor = factor(self) if callable(factor) else factor
        self.covariance = self._data_covariance * self.factor**2
        self.cho_cov = np.linalg.cholesky(self._data_covariance) * self.factor

    def __getattr__(self, name: str):
        original = self.__dict__.get("_original")
        if original is None:
            hint = "values, integrals, marginals and attributes are"
            raise not_supported(f"gaussian_kde.{name} of traced samples", hint)
        return getattr(original, name)

    @property
    def n(self):
        """The number of samples, which stays a size."""
        return length(self.weights, 0)

    @property
    def inv_cov(self):
        """The inverse of the Gaussians' covariance."""
        return np.linalg.inv(self._data_covariance) / self.factor**2

    @property
    def log_det(self):
        """The logarithm of the determinant of ``2 pi`` times the Gaussians' covariance."""
        return 2.0 * np.sum(np.log(np.diagonal(self.cho_cov) * np.sqrt(2.0 * np.pi)))

    def covariance_factor(self):
        """Return the factor."""
        return self.factor

    def scotts_factor(self):
        """Return the factor by Scott's rule."""
        return FACTORS["scott"](self)

    def silverman_factor(self):
        """Return the factor by Silverman's rule."""
        return FACTORS["silverman"](self)

    def set_bandwidth(self, bw_method=None):
        """Take another factor from now on."""
        self._original = None
        self._set_factor(self.factor if bw_method is None else _factor_of(bw_method))

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
        scale, samples = self.cho_cov[0, 0], self.dataset[0]
        parts = sc.ndtr((high - samples) / scale) - sc.ndtr((low - samples) / scale)
        return np.sum(self.weights * parts)

    def integrate_box(self, low_bounds, high_bounds, maxpts=None, *, rng=None):
        """Return the probability of a box."""
        areas = made("scipy.stats", "multivariate_normal", scipy.stats.multivariate_normal)
        low, high = low_bounds - self.dataset.T, high_bounds - self.dataset.T
        options = {"lower_limit": low, "cov": self.covariance, "maxpts": maxpts, "rng": rng}
        return np.sum(areas.cdf(high, **options) * self.weights)

    def integrate_gaussian(self, mean, cov):
        """Return the integral of the density times a Gaussian."""
        mean, cov = np.atleast_1d(np.squeeze(as_ndarrays(mean))), np.atleast_2d(as_ndarrays(cov))
        if np.shape(mean) != (self.d,):
            raise ValueError(f"mean does not have dimension {self.d}")
        if np.shape(cov) != (self.d, self.d):
            raise ValueError(f"covariance does not have dimension {self.d}")
        return self._overlap(mean[:, None], 1.0, cov)

    def integrate_kde(self, other):
        """Return the integral of the product of two densities."""
        if other.d != self.d:
            raise ValueError("KDEs are not the same dimensionality")
        return self._overlap(other.dataset, other.weights, other.covariance)

    def _overlap(self, centres, weights, covariance):
        """Return the integral of the density times a sum of Gaussians with one covariance."""
        root = np.linalg.cholesky(self.covariance + covariance)
        exponents, norm = _of_pairs(np.linalg.inv(root), root, self.dataset, centres)
        return np.sum(self.weights @ np.exp(exponents) * weights) * norm

    def marginal(self, dimensions):
        """Return the density of some of the coordinates."""
        dims = np.atleast_1d(dimensions)
        if not np.issubdtype(dims.dtype, np.integer):
            raise ValueError(
                "Elements of `dimensions` must be integers - the indices of the marginal variables."
            )
        dims = np.arange(self.d)[dims]
        if len(np.unique(dims)) != len(dims):
            raise ValueError("All elements of `dimensions` must be unique.")
        return Density(
            None, self.dataset[dims], self.weights, self._data_covariance[np.ix_(dims, dims)], self.factor
        )

    def _terms(self, points):
        """Return the exponents of the Gaussians, shape (n, m), and the factor before them."""
        points, dataset, root = lift_all(as_ndarrays(points), self.dataset, self.cho_cov)
        points = np.atleast_2d(points)
        d = len(self.dataset)
        if length(points, 0) != d:
            if lengths(points) != (1, d):
                raise ValueError(f"points have dimension {points.shape[0]}, dataset has dimension {d}")
            points = np.reshape(points, (d, 1))
        return _of_pairs(np.linalg.inv(root), root, dataset, points)


def _of_pairs(inverse, root, samples, points):
    """Return the exponents of Gaussians, shape (n, m), and the factor before them."""
    gaps = (inverse @ samples)[:, :, None] - (inverse @ points)[:, None, :]
    norm = (2.0 * np.pi) ** (-0.5 * len(samples)) / np.prod(np.diagonal(root))
    return -0.5 * np.sum(gaps**2, 0), norm


def stand_in_of(value) -> Density | None:
    """Return the stand-in for a ``gaussian_kde`` that was made outside of the function, or None."""
    if type(value).__name__ != "gaussian_kde":
        return None
    return Density(value, value.dataset, value.weights, value._data_covariance, value.factor)


def _of_traced(original, dataset, bw_method=None, weights=None) -> Density:
    """Return the density of traced samples, or with a traced bandwidth or traced weights."""
    factor = _factor_of(bw_method)
    # This call raises SciPy's own errors.
    original(*values_of((dataset, None if callable(bw_method) else bw_method, weights)))
    dataset = np.atleast_2d(dataset)
    d = len(dataset)
    ones = np.ones_like(dataset[0], dtype=float) if weights is None else weights
    dataset, weights = lift_all(dataset, ones)
    _ = length(dataset, 1) < d, length(dataset, 1) < 2  # guards: SciPy has errors for so few samples
    weights = as_doubles(weights)
    weights = weights / np.sum(weights)
    gaps = dataset - np.sum(weights * dataset, 1, keepdims=True)
    # The unbiased covariance of weighted samples, as np.cov(..., aweights=weights) computes it.
    covariance = (weights * gaps) @ gaps.T / (1.0 - np.sum(weights**2))
    return Density(None, dataset, weights, covariance, factor)


def _factor_of(bw_method):
    """Return a bandwidth's factor, or what returns it for a density."""
    if bw_method is None or isinstance(bw_method, str):
        return FACTORS["scott" if bw_method is None else bw_method]
    return bw_method


MAKERS["scipy.stats"]["gaussian_kde"] = with_original(_of_traced, stand_in_of)
