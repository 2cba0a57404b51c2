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


STEPS = 5  # of a loop: passes over what a function has recorded want some instructions


def once(x):
    y, total = x, 0.0
    for _ in range(STEPS):
        z = np.tanh(MATRIX @ y)
        y = z + np.linalg.solve(MATRIX, z)
        total = total + np.sum(y * z)
    return total


def twice(x):
    y, total = x, 0.0
    for _ in range(STEPS):
        first, second, former = np.tanh(MATRIX @ y), np.tanh(MATRIX @ y), y
        y = first + np.linalg.solve(MATRIX, second)
        total = total + np.sum(y * np.tanh(MATRIX @ former))
    return total


def test_what_repeats_is_merged_before_derivatives_are_taken():
    """A function that computes arrays twice has the derivatives of one that keeps them."""
    caches = [nt.prepare_hvp_cache(f, X) for f in (once, twice)]
    direction = np.cos(X)
    results = [nt.value_and_hvp(cache, direction, X) for cache in caches]
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13)
    assert len(caches[0].tape) == len(caches[1].tape)


def entries(x):
    """Entries of arrays that repeat others, in an array that is read when all of them are written."""
    out = np.zeros((3, 7))
    for k in range(10):
        y, z = np.exp(x), np.exp(x)
        out[k % 3, 1:4], out[k % 2, 4:] = y[:3] * x[k % 7], z[2:5]
    out[2] = np.exp(x)
    return out


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_cells_of_what_repeats_stay(mode):
    merged = nt.jacobian(entries, mode=mode)(X)
    pushed = nt.jvp(entries, (X,), (np.cos(X),))[1]
    plain = nt.prepare_derivative_cache(entries, X, config=nt.Config(passes=WITHOUT))
    value, wanted = nt.value_and_derivative(plain, (X, np.cos(X)))
    np.testing.assert_array_equal(value, entries(X))
    np.testing.assert_allclose(pushed, wanted, rtol=1e-13)
    np.testing.assert_allclose(merged @ np.cos(X), wanted, rtol=1e-12, atol=1e-14)


def test_a_copy_that_has_an_adjoint_is_not_one_that_has_none():
    def f(x):
        u = np.floor(x)  # varies, but has no derivative
        return u**1 * x + nt.derivative(lambda y: y**1 * y * x)(u)

    assert nt.derivative(f)(2.5) == 6.0
    assert nt.derivative(nt.derivative(f))(2.5) == 0.0
