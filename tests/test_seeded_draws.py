"""Draws of generators that a function seeds itself are constants that follow sizes."""

from __future__ import annotations

import copy
import subprocess
import sys

import numpy as np
import pytest

import numbatape as nt
from tests.every_case import every


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


W = np.arange(6.0).reshape(3, 2) ** 2
R, G = np.random.RandomState, np.random.default_rng


def in_place(shuffle):
    def f(x):
        y = np.sin(x)
        shuffle(y)
        return np.sum(y * W)

    return f


def globally(x):
    np.random.seed(3)  # noqa: NPY002
    return np.sum(np.random.permutation(x) * W) + np.random.normal(x[0, 0], x[1, 1] ** 2)  # noqa: NPY002


def complexly(x):
    z = x + 1j * x[::-1]
    G(4).shuffle(z)
    return np.sum(z.real * W + z.imag**3)


def plainly(x):
    y = np.zeros((3, 2))
    y[:] = np.arange(6.0).reshape(3, 2)
    G(4).shuffle(y)
    y[0] += x[0]
    return np.sum(y * x)


def listed(x):
    entries, places = [*x[0], *x[1], *x[2]], list(range(6))
    for rng in (G(4), R(4)):
        rng.shuffle(entries)
        rng.shuffle(places)  # what nothing traced is in is shuffled, too
    return np.sum(np.array(entries)[places] * np.ravel(W)) + sum(k * x.flat[i] for k, i in enumerate(places))


OF_ARRAYS = {
    "shuffle": in_place(lambda y: G(4).shuffle(y)),
    "shuffle columns": in_place(lambda y: G(1).shuffle(y, axis=1)),
    "shuffle a state's": in_place(lambda y: R(3).shuffle(y)),
    "shuffle Generator": in_place(lambda y: np.random.Generator(np.random.PCG64(4)).shuffle(y)),
    "shuffle SeedSequence": in_place(lambda y: G(np.random.SeedSequence(4)).shuffle(y)),
    "shuffle spawned": in_place(lambda y: G(5).spawn(2)[0].shuffle(y)),
    "listed": listed,
    "permuted into itself": in_place(lambda y: G(4).permuted(y, axis=0, out=y)),
    "permuted": lambda x: np.sum(G(4).permuted(x) * W),
    "permuted in Fortran's order": lambda x: np.sum(G(4).permuted(np.asfortranarray(x * 2.0)) * W),
    "permutation": lambda x: np.sum(G(4).permutation(x) * W + R(2).permutation(x) ** 2 * W),
    "choice": lambda x: np.sum(G(4).choice(x, 3) * W) + G(2).choice([x[0, 0], x[1, 1]]) + R(1).choice(x[0]),
    "choice with p": lambda x: np.sum(G(4).choice(x[:, 0], (3, 2), p=[0.2, 0.3, 0.5]) * W),
    "normal": lambda x: np.sum(G(4).normal(x, x**2 + 0.1) * W + R(4).normal(x, 1.3, (3, 2)) ** 2),
    "normal of lists": lambda x: np.sum(G(4).normal([x[0, 0], 1.0], (x[1, 1] ** 2, 2.0)) * W),
    "uniform": lambda x: np.sum(G(4).uniform(x, 9.0) * W + R(4).uniform(-1.0, x) ** 2),
    "exponential": lambda x: G(4).exponential(x[0, 0] ** 2, 3).sum() + R(4).exponential(x[1, 1] ** 2),
    "globally": globally,
    "complexly": complexly,
    "plainly": plainly,
}


@every("name", OF_ARRAYS)
def test_traced_arrays_are_shuffled_chosen_from_and_scaled(name):
    f = OF_ARRAYS[name]
    f(np.ones((3, 2)))  # leaves the global generator as the function leaves it: a trace must not move it
    cache = nt.prepare_gradient_cache(f, np.ones((3, 2)))
    for seed in (1, 2):
        x, d = np.random.default_rng(seed).normal(size=(2, 3, 2))
        value, (gradient,) = nt.value_and_gradient(cache, x)
        np.testing.assert_allclose(value, f(x.copy()), rtol=1e-13)
        slope = (f(x + 1e-4 * d) - f(x - 1e-4 * d)) / 2e-4
        np.testing.assert_allclose(np.sum(gradient * d), slope, rtol=1e-6, atol=1e-6)


def test_parameters_that_numpy_refuses():
    with pytest.raises(ValueError, match="scale < 0"):
        nt.grad(lambda x: G(4).normal(0.0, x))(-1.0)
    with pytest.raises(ValueError, match="1-dimensional"):
        nt.grad(lambda x: np.sum(R(4).choice(x, 2)))(W)
    with pytest.raises(nt.UnsupportedOperationError, match="probabilities that depend on traced values"):
        nt.grad(lambda x: np.sum(G(4).choice(3, 4, p=x / np.sum(x))))(np.ones(3))
    with pytest.raises(ValueError, match="compatible"):
        nt.grad(lambda x: np.sum(G(4).normal(x, size=(2,))))(W)


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


@pytest.mark.filterwarnings("ignore:you are shuffling")
@every("dtype", [float, complex])
def test_rows_are_not_swapped_by_generators_that_are_not_seen(dtype):
    """Their compiled code would make two rows one: they are views where an array is no ndarray."""
    generator = G(3)

    def f(x):
        y = x.astype(dtype)
        copy.deepcopy(generator).shuffle(y)
        return np.sum(y.real * W)

    with pytest.raises(nt.UnsupportedOperationError, match="moves rows of an array by compiled code"):
        nt.grad(f)(np.ones((3, 2)))
