"""Products with a capture in the body of a loop, whose cotangents are added up for many steps at a time."""

import numpy as np
import pytest

import numbatape as nt
from numbatape.engine.loops.deferred_products import ONE_THREAD, STEPS, deferred_products
from tests.control.python_loops import Python

RNG = np.random.default_rng(4)
T = 0.4 * RNG.normal(size=48)
LENGTH = STEPS + 9


def rows(flow, t, xs):
    """A row times a matrix, and a bias that is the last row of the same array."""
    w = t[:42].reshape(7, 6)
    step = lambda h, x: (np.tanh(h @ w[:6] + w[6] + x), h[0])  # noqa: E731
    h, firsts = flow.scan(step, t[42:], xs)
    return np.sum(h**2) + np.sum(firsts**2)


def columns(flow, t, xs):
    """A matrix times a column, backwards."""
    w = t[:36].reshape(6, 6)
    h, all_h = flow.scan(lambda h, x: (np.tanh(w @ h) + x[0], h), t[42:], xs, reverse=True)
    return np.sum(h * t[:6]) + np.sum(all_h**2)


def transposed(flow, t, xs):
    """One array in three products: a part of it, its transpose, and every other column."""
    w = t.reshape(6, 8)

    def step(h, x):
        wide = np.tanh(h @ w)
        return 0.5 * np.tanh(w @ wide) + w[:, ::2] @ wide[::2] + 0.1 * x[:6], None

    return np.sum(flow.scan(step, t[42:], xs)[0] ** 2)


def matrices(flow, t, xs):
    """Products with matrices of few rows or columns, on either side."""
    w = t[:16].reshape(4, 4)

    def step(p, x):
        return 0.5 * np.tanh(w @ p[:3].T).T @ w + x[:4], None

    return np.sum(flow.scan(lambda p, x: (step(p, x)[0][:, :4], None), np.ones((3, 4)), xs)[0])


def inner_loops(flow, t, xs):
    """A product in a loop inside of another, and one that a test ends."""
    w = t[:36].reshape(6, 6)

    def step(h, x):
        h = flow.fori_loop(0, 3, lambda _, z: np.tanh(w @ z), h) + x
        return flow.while_loop(lambda z: np.sum(z**2) > 1.0, lambda z: 0.5 * np.tanh(z @ w), h, 50), None

    return np.sum(flow.scan(step, t[42:], xs)[0] * t[:6])


PROGRAMS = [rows, columns, transposed, matrices, inner_loops]


def loops(tape):
    for call in tape.calls:
        yield call
        for body in call.bodies:
            yield from loops(body)


@pytest.mark.parametrize("length", [1, LENGTH])
@pytest.mark.parametrize("f", PROGRAMS)
def test_derivatives_are_those_of_the_python_loop(f, length):
    xs = 0.3 * RNG.normal(size=(length, 6))
    scanned, looped = (lambda t, flow=flow: f(flow, t, xs) for flow in (nt, Python))
    cache = nt.prepare_gradient_cache(scanned, T)
    value, (gradient,) = nt.value_and_gradient(cache, T)
    wanted, slope = nt.value_and_grad(looped)(T)
    np.testing.assert_allclose(value, wanted, rtol=1e-12)
    np.testing.assert_allclose(gradient, slope, rtol=1e-10, atol=1e-13)
    again = nt.value_and_gradient(cache, T)[1][0]
    np.testing.assert_array_equal(again, gradient)


@pytest.mark.parametrize("f", PROGRAMS)
def test_second_derivatives_are_those_of_the_python_loop(f):
    xs, v = 0.3 * RNG.normal(size=(5, 6)), RNG.normal(size=48)
    found, wanted = (nt.hvp(lambda t, flow=flow: f(flow, t, xs))(T, v) for flow in (nt, Python))
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("f", PROGRAMS)
def test_products_with_captures_are_deferred(f):
    xs = RNG.normal(size=(LENGTH, 6))
    tape = nt.prepare_gradient_cache(lambda t: f(nt, t, xs), T).tape
    # Each dimension of these bodies is that of the argument.
    found = [deferred_products(loop, [len(T)] * len(loop.dimensions))[1] for loop in loops(tape)]
    assert any(found)


def test_large_products_are_computed_in_parts():
    """Of 210 rows at a time at most, so that BLAS takes one thread; the last part has fewer of them."""
    rows, columns, steps = 250, 156, 16
    assert ONE_THREAD // (steps * columns) == 210
    w, h = 0.1 * RNG.normal(size=(rows, columns)), RNG.normal(size=rows)

    def f(flow, w):
        return np.sum(flow.scan(lambda h, _: (np.tanh(w @ h[:156]), None), h, None, 40)[0])

    gradient = nt.grad(lambda w: f(Python, w))(w)
    np.testing.assert_allclose(nt.grad(lambda w: f(nt, w))(w), gradient, rtol=1e-9, atol=1e-13)
