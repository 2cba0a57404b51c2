"""Functions with names, for tests that send caches to other processes."""

import dataclasses

import numba
import numpy as np


def scalar(x, scale=1.0):
    return np.sum(x**3) * scale


def vector(x, k):
    return x**2 * k


@numba.njit
def compiled(x):
    return np.sum(x**2)


@dataclasses.dataclass
class Model:
    weights: np.ndarray

    def __call__(self, x):
        return np.sum(self.weights * x)
