"""What a function computes twice of an array is one instruction; loops over numbers are left alone."""

from __future__ import annotations

import numpy as np
import pytest

import numbatape as nt
from numbatape.config import PASSES

X = np.linspace(0.2, 1.4, 7)
MATRIX = np.eye(7) + 0.1 * np.cos(np.arange(49.0)).reshape(7, 7)
WITHOUT = tuple(name for name in PASSES if name != "merge")


def kept(x):
    y = np.exp(x)
    return np.sum(y * np.sin(x)) + np.sum(y[1:] / np.sin(x)[:-1])


def repeated(x):
    return np.sum(np.exp(x) * np.sin(x)) + np.sum(np.exp(x)[1:] / np.sin(x)[:-1])


def written(x):
    y, z = np.exp(x), np.exp(x)
    y[2] = x[0]
    return np.sum(y * z)


def matrices(x):
    return np.sum(np.linalg.solve(MATRIX, x) ** 2) + np.sum((MATRIX @ x) * (MATRIX @ x))


def scalars(x):
    total = 0.0
    for k in range(20):
        total = total + np.sin(x[k % 7]) * x[0]
    return total


# A function, and how many of its instructions repeat others.
FUNCTIONS = {
    "kept": (kept, 1),  # sin(x)
    "repeated": (repeated, 2),
    "written": (written, 1),
    "matrices": (matrices, 1),
    "scalars": (scalars, 0),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_merging_drops_what_repeats(name):
    f, repeats = FUNCTIONS[name]
    merged = nt.prepare_gradient_cache(f, X)
    plain = nt.prepare_gradient_cache(f, X, config=nt.Config(passes=WITHOUT))
    assert len(plain.tape) - len(merged.tape) == repeats
    for x in (X, 1.1 * X):
        (value, (slopes,)), (its, (its_slopes,)) = (
            nt.value_and_gradient(cache, x) for cache in (merged, plain)
        )
        assert value == its
        np.testing.assert_allclose(value, f(x), rtol=1e-13)
        np.testing.assert_allclose(slopes, its_slopes, rtol=1e-13)
