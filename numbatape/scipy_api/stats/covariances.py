"""``scipy.stats.Covariance`` of traced values: what it was made of is multiplied out to the matrix."""

from __future__ import annotations

import numpy as np

from ...numpy_api.function_tables import MAKERS
from ...numpy_api.registration import unsupported_argument
from ...trace.operands import find_trace, lift_first
from ...trace.trace import failing


class Covariance:
    """A covariance in a traced function.

    Parameters
    ----------
    matrix
        The whole matrix, traced.
    """

    def __init__(self, matrix):
        self.covariance = matrix

    @property
    def shape(self):
        return self.covariance.shape

    @property
    def rank(self):
        return self.covariance.shape[-1]

    @property
    def log_pdet(self):
        return np.linalg.slogdet(self.covariance)[1]


def _from_diagonal(diagonal):
    diagonal = lift_first(diagonal)
    return np.eye(diagonal.shape[-1]) * np.expand_dims(diagonal, -2)


def _from_cholesky(cholesky):
    factor = np.tril(lift_first(cholesky))
    return np.matmul(factor, np.swapaxes(factor, -1, -2))


def _from_precision(precision, covariance=None):
    if covariance is not None:
        raise unsupported_argument("scipy.stats.Covariance.from_precision", "covariance", "leave it out")
    lower = np.tril(lift_first(precision))  # SciPy reads this triangle
    return np.linalg.inv(lower + np.swapaxes(np.tril(lower, -1), -1, -2))


def _from_eigendecomposition(eigendecomposition):
    values, vectors = eigendecomposition
    if not bool(np.all(values > 0.0)):
        hint = "eigenvalues have to be positive"
        raise unsupported_argument(
            "scipy.stats.Covariance.from_eigendecomposition", "a singular matrix", hint
        )
    return np.matmul(vectors * np.expand_dims(values, -2), np.swapaxes(vectors, -1, -2))


WAYS = {
    "from_diagonal": _from_diagonal,
    "from_cholesky": _from_cholesky,
    "from_precision": _from_precision,
    "from_eigendecomposition": _from_eigendecomposition,
}


class _Ways:
    """The stand-in for SciPy's class, of which only the ways to make an object are called."""

    def __init__(self, original):
        self._original = original

    def __getattr__(self, name: str):
        usual = getattr(self._original, name)
        matrix_of = WAYS.get(name)
        if matrix_of is None:
            return usual

        def made(*args, **kwargs):
            trace = find_trace(args, tuple(kwargs.values()))
            if trace is None:
                return usual(*args, **kwargs)
            with failing(trace):
                return Covariance(matrix_of(*args, **kwargs))

        return made


def as_matrix(x):
    """Return the matrix of a covariance, SciPy's or a traced one; other arguments as they are."""
    if not hasattr(x, "log_pdet"):
        return x
    if type(x) is not Covariance and x.rank < x.shape[-1]:
        raise unsupported_argument(
            "scipy.stats.multivariate_normal", "a singular Covariance", "give a regular one"
        )
    return x.covariance


MAKERS["scipy.stats"]["Covariance"] = _Ways
