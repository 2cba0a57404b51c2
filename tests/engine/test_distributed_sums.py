"""The pass "distribute": sums of what few numbers are broadcast over are sums of coefficients."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

import numbatape as nt

RNG = np.random.default_rng(3)
ROWS, COLUMNS = 12, 3
DATA, OTHER = RNG.normal(size=(ROWS, COLUMNS)), RNG.normal(size=(ROWS, COLUMNS))
CUBE = RNG.normal(size=(2, 6, COLUMNS))
X = RNG.normal(size=3 * COLUMNS + ROWS)


def parts(x):
    """Return three vectors along the columns of the data, and one along its rows."""
    return x[:3], x[3:6], x[6:9], x[9:]


def mixture(x):
    mu, log_sigma, log_weight, _ = parts(x)
    z = (DATA[:, :1] - mu) / np.exp(log_sigma)
    return np.sum(logsumexp(-0.5 * z * z - log_sigma + log_weight - logsumexp(log_weight), axis=1))


def two_ways(x):
    """What is broadcast along rows, and along columns; sums along both, whose cotangents share a buffer."""
    a, b, _, rows = parts(x)
    t = np.exp(-((DATA * a - rows[:, None]) ** 2) * 0.1) * b
    return np.sum(t.sum(axis=0) ** 2) + np.sum(np.sin(t.sum(axis=1))) + np.sum(t * OTHER)


def three_axes(x):
    a, b, _, rows = parts(x)
    t = CUBE * a - rows[:6, None] * b
    return np.sum(np.exp(-0.1 * t**2).sum(axis=-1) ** 2) + np.sum(np.sum(t**3, axis=0) * b)


def masked(x):
    """Infinite partials beside zero cotangents, and choices between what is broadcast and zero."""
    a, b, _, rows = parts(x)
    t = np.where(DATA > 0, OTHER * a + b, 0.0)
    root = np.sqrt(np.maximum(OTHER * a + rows[:, None], 0.0))
    return np.sum(np.where(OTHER > 0, 0.0, t) ** 2 * b) + np.sum(np.where(root > 0, root * t, 0.0))


def apart(x):
    """Arrays that are read otherwise, too: by a product of matrices, by a gather, as a part."""
    a, b, _, rows = parts(x)
    t = DATA * a - rows[:, None]
    return np.sum((t @ OTHER.T) ** 2 * 0.1) + np.sum(t[::2] ** 3) + np.sum(t[[0, 3, 3]] * b) + np.sum(t * t)


FUNCTIONS = [mixture, two_ways, three_axes, masked, apart]


def hessian_and_tape(function, passes):
    cache = nt.prepare_hessian_cache(function, X, config=nt.Config(passes=passes))
    hessian = nt.value_gradient_and_hessian(cache, X)[2]
    return hessian, cache._wide.last.plan.tape


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("passes", ["all", ("distribute",)])
def test_hessians_stay_what_they_were(function, passes):
    hessian, tape = hessian_and_tape(function, passes)
    if function in (mixture, masked):
        assert "distribute" in [name for name, *_ in tape.rewrites]
    np.testing.assert_allclose(hessian, hessian_and_tape(function, "none")[0], rtol=1e-11, atol=1e-12)
    gradient, step = nt.grad(function), 1e-6 * np.cos(np.arange(X.size))
    differences = (gradient(X + step) - gradient(X - step)) / 2
    np.testing.assert_allclose(hessian @ step, differences, rtol=1e-5, atol=1e-13)


def test_no_array_of_all_data_has_lanes():
    def most_axes(passes) -> int:
        tape = hessian_and_tape(mixture, passes)[1]
        layouts = tape.values["layout"][tape.code["out"][tape.uniform :]]
        return max(sum(dim != 1 for dim in tape.layouts[layout].dims) for layout in layouts)

    assert (most_axes("all"), most_axes(("sums", "linear", "merge", "fuse"))) == (2, 3)


def test_jacobians_are_distributed_too():
    def f(x):
        a, b, _, rows = parts(x)
        t = np.sin(DATA) * a - OTHER * rows[:, None] * 0.5 + b
        return np.concatenate([t.sum(axis=0), (t * DATA).sum(axis=1)])

    forward = nt.jacobian(f, mode="forward")
    np.testing.assert_allclose(forward(X), nt.jacobian(f, mode="reverse")(X), rtol=1e-13, atol=1e-14)


def test_other_sizes_have_the_same_tape():
    def f(x, data):
        return np.sum(logsumexp(-((data[:, None] - x[:4]) ** 2) + x[4:], axis=1))

    x = RNG.normal(size=8)
    cache = nt.prepare_hessian_cache(f, x, nt.Constant(np.ones(40)))
    for count in (40, 7, 1, 90):
        data = RNG.normal(size=count)
        hessian = nt.value_gradient_and_hessian(cache, x, nt.Constant(data))[2]
        again = nt.prepare_hessian_cache(f, x, nt.Constant(data), config=nt.Config(passes="none"))
        plain = nt.value_gradient_and_hessian(again, x, nt.Constant(data))[2]
        np.testing.assert_allclose(hessian, plain, rtol=1e-11, atol=1e-12)
    assert cache._wide.program.traces == 1


@settings(deadline=None, max_examples=8)
@given(st.lists(st.sampled_from("abrscmetlq"), min_size=2, max_size=8), st.integers(0, 2))
def test_random_programs(steps, total):
    def f(x):
        a, b, c, rows = parts(x)
        t, u, value = DATA * a, OTHER - rows[:, None], 0.0
        for step in steps:
            if step in "abr":
                t = t * u + {"a": a, "b": b * u, "r": rows[:, None]}[step]
            elif step == "s":
                value = value + np.sum(t.sum(axis=0) ** 2)
            elif step == "c":
                t, u = u, t - c
            elif step == "m":
                t = np.where(DATA > 0, t, 0.0)
            elif step == "e":
                t = np.tanh(t) * c
            elif step == "t":
                value = value + np.sum(np.exp(-(t.T**2)).sum(axis=0))
            elif step == "l":
                t = t - logsumexp(t, axis=1, keepdims=True)
            else:
                u = u * 0.5 - np.sin(b)
        return value + (np.sum(t * u), np.sum(np.cos(t)), np.sum(t.sum(axis=1) ** 2))[total] * 0.1

    hessian, expected = (hessian_and_tape(f, passes)[0] for passes in ("all", "none"))
    np.testing.assert_allclose(hessian, expected, rtol=1e-9, atol=1e-11 * (1 + np.max(np.abs(expected))))
