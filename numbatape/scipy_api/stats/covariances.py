"""``scipy.stats.Covariance`` of traced values: what it was made of is multiplied out to the matrix."""

from __future__ import annotations

import copy
import functools

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
    whiten, colorize
        Functions that make the entries of points independent, and that undo this. Which factor of the matrix
        they multiply by is that of the way in which SciPy is told the matrix.
    """

    def __init__(self, matrix, whiten, colorize):
        self.covariance = matrix
        self._whiten, self._colorize = whiten, colorize

    @property
    def shape(self):
        return self.covariance.shape

    @property
    def rank(self):
        return self.covariance.shape[-1]

    @property
    def log_pdet(self):
        return np.linalg.slogdet(self.covariance)[1]

    def whiten(self, x):
        return self._whiten(lift_first(x, self.covariance))

    def colorize(self, x):
        return self._colorize(lift_first(x, self.covariance))


def _transposed(matrix):
    return np.swapaxes(matrix, -1, -2)


def _solved(triangle, x):
    """Return points, which are rows, each solved by a triangle."""
    flat = np.reshape(x, (-1, x.shape[-1]))
    return np.reshape(np.linalg.solve(triangle, flat.T).T, x.shape)


def _from_diagonal(diagonal):
    diagonal = lift_first(diagonal)
    root = np.sqrt(diagonal)

    def each(x):
        return root if x.ndim < 2 else np.expand_dims(root, -2)

    matrix = np.eye(diagonal.shape[-1]) * np.expand_dims(diagonal, -2)
    return Covariance(matrix, lambda x: x / each(x), lambda x: x * each(x))


def _from_cholesky(cholesky):
    factor = np.tril(lift_first(cholesky))
    return Covariance(
        np.matmul(factor, _transposed(factor)),
        lambda x: _solved(factor, x),
        lambda x: np.matmul(x, _transposed(factor)),
    )


def _from_precision(precision, covariance=None):
    if covariance is not None:
        raise unsupported_argument("scipy.stats.Covariance.from_precision", "covariance", "leave it out")
    lower = np.tril(lift_first(precision))  # SciPy reads this triangle
    precision = lower + _transposed(np.tril(lower, -1))
    return Covariance(
        np.linalg.inv(precision),
        lambda x: np.matmul(x, np.linalg.cholesky(precision)),
        lambda x: _solved(_transposed(np.linalg.cholesky(precision)), x),
    )


def _from_eigendecomposition(eigendecomposition):
    values, vectors = eigendecomposition
    if not bool(np.all(values > 0.0)):
        hint = "eigenvalues have to be positive"
        raise unsupported_argument(
            "scipy.stats.Covariance.from_eigendecomposition", "a singular matrix", hint
        )
    values = np.expand_dims(values, -2)
    return Covariance(
        np.matmul(vectors * values, _transposed(vectors)),
        lambda x: np.matmul(x, vectors / np.sqrt(values)),
        lambda x: np.matmul(x, _transposed(vectors * np.sqrt(values))),
    )


WAYS = {
    "from_diagonal": _from_diagonal,
    "from_cholesky": _from_cholesky,
    "from_precision": _from_precision,
    "from_eigendecomposition": _from_eigendecomposition,
}


def _linear(name: str):
    """Return a method that multiplies traced points by what SciPy's own makes of unit vectors."""

    def method(self, x):
        own = getattr(super(type(self), self), name)
        if find_trace(x) is None:
            return own(x)
        return np.matmul(x, own(np.eye(self.shape[-1])))

    return method


@functools.cache
def _class_of_traced_points(known: type) -> type:
    return type(known.__name__, (known,), {name: _linear(name) for name in ("whiten", "colorize")})


def stand_in_of(value):
    """Return the stand-in for one of SciPy's covariances, a copy whose methods take traced points."""
    if isinstance(value, type):
        return None
    made = copy.copy(value)
    made.__class__ = _class_of_traced_points(type(value))
    return made


class _Ways:
    """The stand-in for SciPy's class, of which only the ways to make an object are called."""

    def __init__(self, original):
        self._original = original

    def __getattr__(self, name: str):
        usual = getattr(self._original, name)
        made_of = WAYS.get(name)
        if made_of is None:
            return usual

        def made(*args, **kwargs):
            trace = find_trace(args, tuple(kwargs.values()))
            if trace is None:
                return stand_in_of(usual(*args, **kwargs))
            with failing(trace):
                return made_of(*args, **kwargs)

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
