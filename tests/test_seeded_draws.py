"""Draws of generators that a function seeds itself are constants that follow sizes."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import numbatape as nt


def of_generator(x):
    rng = np.random.default_rng(7)
    share = rng.uniform()
    z = rng.normal(size=(3, len(x)))
    scale = rng.normal()  # the same for all lengths only if nothing was drawn before
    chosen = rng.choice(len(x), size=4)
    again = rng.integers(0, len(x), len(x) // 2)
    return scale * np.sum(z @ x) + share * np.sum(x[chosen] ** 2) + np.sum(x[again] * rng.random(len(again)))


def of_state(x):
    rng = np.random.RandomState(3)
    signs = rng.choice([-1, 1], size=x.shape)
    return np.sum(x * rng.randn(len(x)) * signs) + rng.rand() * np.sum(x[rng.permutation(len(x))][::2] ** 2)


def bootstrap(x):
    rng = np.random.default_rng(3)
    means = [np.mean(x[rng.integers(0, len(x), size=len(x))]) for _ in range(3)]
    return sum(mean**2 for mean in means)


def shuffled(x):
    """What is not repeated is drawn for one length."""
    rng = np.random.default_rng(3)
    z = rng.normal(size=len(x))
    rng.shuffle(z)
    return np.sum(z * x) + np.sum(rng.normal(np.arange(len(x)), 1.0) * x**2)


@pytest.mark.parametrize(
    ("f", "traces"),
    [(of_generator, 1), (of_state, 1), (bootstrap, 1), (shuffled, 3)],
    ids=lambda f: str(f)[:18],
)
def test_draws_follow_lengths(f, traces):
    cache = nt.prepare_gradient_cache(f, np.ones(8))
    for n in (8, 9, 13, 9):
        x = np.random.default_rng(n).normal(size=n)
        value, (gradient,) = nt.value_and_gradient(cache, x)
        assert value == pytest.approx(f(x), rel=1e-13)
        np.testing.assert_array_equal(gradient, nt.value_and_gradient(cache, x)[1][0])
        np.testing.assert_allclose(gradient @ np.ones(n), nt.jvp(f, (x,), (np.ones(n),))[1], rtol=1e-12)
    assert cache.traces == traces


def test_draws_without_a_seed_raise_though_numpy_has_not_imported_its_generators():
    """``np.random`` is a module that NumPy imports when it is first asked for."""
    program = (
        "import sys, numpy as np, numbatape as nt\n"
        "assert 'numpy.random' not in sys.modules\n"
        "try: nt.grad(lambda x: x * np.random.default_rng().normal())(1.0)\n"
        "except nt.UnsupportedOperationError as error: assert 'draws random numbers' in str(error)\n"
        "else: raise AssertionError\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
