"""Cholesky factors of correlation matrices; the last two axes are the matrix."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ..errors import ShapeError
from .constrained_vectors import TOLERANCE
from .transform import Transform, as_floats, require


class CorrelationCholesky(Transform):
    """Lower triangular matrices with a positive diagonal and rows of length 1.

    ``tanh`` of the free numbers, row by row, are the canonical partial correlations; an entry of the factor
    is one of them times the square root of what the entries before it leave of the row's length.
    """

    name = "correlation_cholesky"
    axes = 2

    def free_shape(self, shape):
        shape = super().free_shape(shape)
        n = shape[-1]
        if shape[-2] != n or n == 0:
            raise ShapeError(f"transforms.{self.name} is of a square matrix, got shape {shape}")
        return (*shape[:-2], n * (n - 1) // 2)

    def constrain(self, y):
        y = as_floats(y)
        places, _, _ = _rows(y.shape[-1])
        none = np.zeros_like(y, shape=(*y.shape[:-1], 1))
        partial = np.concatenate([np.tanh(y), none], -1)[..., places]
        left = np.concatenate([_log_rest(y), none], -1)[..., places]
        left = np.cumsum(left, -1) - left  # the sum over the columns before this one
        return (partial + np.eye(len(places))) * np.exp(0.5 * left)

    def log_jacobian(self, y):
        y = as_floats(y)
        _, rows, columns = _rows(y.shape[-1])
        # Its own derivative, and half of the factor of each later entry in its row.
        return np.sum((1.0 + 0.5 * (rows - columns - 1.0)) * _log_rest(y), -1)

    def unconstrain(self, x):
        x = as_floats(x)
        n = self.free_shape(x.shape)[-1]
        _, rows, columns = _rows(n)
        square = x**2
        fits = np.all(np.abs(np.sum(square, -1) - 1.0) <= TOLERANCE) and np.all(np.triu(x, 1) == 0.0)
        diagonal = np.diagonal(x, axis1=-2, axis2=-1)
        require(self, fits and np.all(diagonal > 0.0), x, "a lower triangular matrix with rows of length 1")
        left = np.cumsum(square[..., ::-1], -1)[..., ::-1]  # the sum over this column and later ones
        return np.arctanh(x[..., rows, columns] / np.sqrt(left[..., rows, columns]))


def _log_rest(y):
    """Return ``log(1 - tanh(y)**2)``, which stays exact where ``tanh`` rounds to 1."""
    return 2.0 * (np.log(2.0) - np.logaddexp(y, -y))


@lru_cache(maxsize=64)
def _rows(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return where each entry of the matrix is in the vector of free numbers, and their rows and columns.

    Entries on and above the diagonal point one behind the last number, where a zero is.
    """
    n = round((1.0 + np.sqrt(1.0 + 8.0 * count)) / 2.0)
    if n * (n - 1) // 2 != count:
        raise ShapeError(f"transforms.correlation_cholesky: no matrix has {count} entries below its diagonal")
    rows, columns = np.tril_indices(n, -1)
    places = np.full((n, n), count)
    places[rows, columns] = np.arange(count)
    return places, rows, columns


correlation_cholesky = CorrelationCholesky()
