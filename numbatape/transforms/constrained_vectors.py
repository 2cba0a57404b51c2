"""Vectors that are ordered, or whose entries have a fixed sum; the last axis is the vector."""

from __future__ import annotations

import numpy as np

from ..errors import ShapeError
from .transform import Transform, as_floats, require

TOLERANCE = 1e-8  # Stan's, for sums of a simplex and lengths of rows


class Ordered(Transform):
    """Increasing entries: the first one, then ``exp`` of the others as steps."""

    name = "ordered"
    axes = 1

    def constrain(self, y):
        y = as_floats(y)
        return np.cumsum(np.concatenate([y[..., :1], np.exp(y[..., 1:])], -1), -1)

    def log_jacobian(self, y):
        return np.sum(as_floats(y)[..., 1:], -1)

    def unconstrain(self, x):
        x = as_floats(x)
        steps = x[..., 1:] - x[..., :-1]
        require(self, steps > 0.0, x, "increasing numbers")
        return np.concatenate([x[..., :1], np.log(steps)], -1)


class PositiveOrdered(Transform):
    """Positive, increasing entries: all of them sums of ``exp``."""

    name = "positive_ordered"
    axes = 1

    def constrain(self, y):
        return np.cumsum(np.exp(as_floats(y)), -1)

    def log_jacobian(self, y):
        return np.sum(as_floats(y), -1)

    def unconstrain(self, x):
        x = as_floats(x)
        steps = np.concatenate([x[..., :1], x[..., 1:] - x[..., :-1]], -1)
        require(self, steps > 0.0, x, "positive, increasing numbers")
        return np.log(steps)


class SumToZero(Transform):
    """Entries whose sum is zero: an orthonormal basis of such vectors, times the free numbers.

    The basis is that of the isometric log ratio (pivot coordinates): its vector number n is one over the
    first n entries, then -n, then zeros, divided by ``sqrt(n (n + 1))``.
    """

    name = "sum_to_zero"
    axes = 1

    def free_shape(self, shape):
        shape = super().free_shape(shape)
        if shape[-1] == 0:
            raise ShapeError(
                f"transforms.{self.name} is of a vector with an entry or more, got shape {shape}"
            )
        return (*shape[:-1], shape[-1] - 1)

    def constrain(self, y):
        y = as_floats(y)
        n = np.arange(1.0, y.shape[-1] + 1.0)
        parts = y / np.sqrt(n * (n + 1.0))
        none = np.zeros_like(y, shape=(*y.shape[:-1], 1))
        after = np.cumsum(parts[..., ::-1], -1)[..., ::-1]  # what later basis vectors add to each entry
        return np.concatenate([after, none], -1) - np.concatenate([none, n * parts], -1)

    def log_jacobian(self, y):
        return 0.0 * np.sum(as_floats(y), -1)

    def unconstrain(self, x):
        x = as_floats(x)
        off = np.abs(np.sum(x, -1))
        require(self, off <= TOLERANCE * np.maximum(1.0, np.sum(np.abs(x), -1)), x, "numbers with the sum 0")
        return self.coordinates(x)

    def coordinates(self, x):
        """Return the products of vectors with the basis, whatever the vectors' sums."""
        n = np.arange(1.0, x.shape[-1])
        return (np.cumsum(x[..., :-1], -1) - n * x[..., 1:]) / np.sqrt(n * (n + 1.0))


ordered = Ordered()
positive_ordered = PositiveOrdered()
sum_to_zero = SumToZero()


class Simplex(Transform):
    """Positive entries with the sum 1: the softmax of a vector whose sum is zero (since Stan 2.37)."""

    name = "simplex"
    axes = 1

    def free_shape(self, shape):
        super().free_shape(shape)
        return sum_to_zero.free_shape(shape)

    def _logarithms(self, y):
        z = sum_to_zero.constrain(y)
        return z - np.logaddexp.reduce(z, -1, keepdims=True)

    def constrain(self, y):
        return np.exp(self._logarithms(y))

    def log_jacobian(self, y):
        logs = self._logarithms(y)
        return np.sum(logs, -1) + 0.5 * np.log(logs.shape[-1])

    def unconstrain(self, x):
        x = as_floats(x)
        fits = np.all(x > 0.0, -1) & (np.abs(np.sum(x, -1) - 1.0) <= TOLERANCE)
        require(self, fits, x, "positive numbers with the sum 1")
        return sum_to_zero.coordinates(np.log(x))


simplex = Simplex()
