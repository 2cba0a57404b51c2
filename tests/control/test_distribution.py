"""Scans of which a part, or all, becomes vectors: what stays in the loop, and that results stay the same."""

import numpy as np
import pytest

import numbatape as nt
from numbatape.config import PASSES
from tests.control.python_loops import Python
from tests.control.scan_programs import checked

RNG = np.random.default_rng(3)
RETURNS = RNG.normal(size=9)


def garch(t, returns=RETURNS):
    def step(carry, y):
        variance, total = carry
        residual = y - t[0]
        total = total - 0.5 * (np.log(variance) + residual**2 / variance)
        return (t[1] + t[2] * residual**2 + t[3] * variance, total), None

    return nt.scan(step, (0.3, 0.0), returns)[0][1]


def moving(t, y=RETURNS):
    """A carry that is the row before, one that is linear, one that stays, one that counts."""

    def step(carry, y):
        before, error, shift, k = carry
        error = y - t[0] - t[1] * before + shift * (t[2] - error)
        return (y, error, shift, k + 1), k * error**2

    last, terms = nt.scan(step, (t[3], 0.0, t[1], 0), y, reverse=True)
    return np.sum(terms) + sum(last)


def around_a_loop(t, y=RETURNS):
    """Only the logistic map needs the step before in another way than a linear one."""

    def step(carry, y):
        z, total = carry
        z = np.exp(t[0] * y) * z * (1.0 - z) * t[1]
        return (z, total + np.sin(z) * t[2]), None

    return nt.scan(step, (0.4, 0.0), y)[0][1]


def network(t, y=RETURNS):
    """Products with rows of the data, with a carry, and with what each step gives."""
    w = np.outer(t, 0.1 + np.arange(6.0))

    def step(h, x):
        h = np.tanh(x @ w[:2, :4] + (w[:, ::2] @ np.array([x[0], 1.0, x[1]])) + h @ w[:, 2:])
        return h, (np.sin(h @ w), w.T @ (h * h))

    h, (rows, columns) = nt.scan(step, t, np.stack([y, y**2], axis=1))
    return np.sum(h) + np.sum(rows * columns)


def indexed(t, y=RETURNS):
    """The entries of arrays that steps take at positions of their own."""
    matrix = np.stack([y, np.cos(y)], axis=1) * t[0]

    def body(k, carry):
        z, total = carry
        z = np.exp(-y[k]) * z * (1.0 - z) * t[1]
        return z, total + np.sin(z) * t[k % 4] + np.sum(matrix[len(y) - 1 - k] * z)

    return nt.fori_loop(0, len(y), body, (0.4, 0.0))[1]


T = np.array([0.1, 0.2, 0.3, 0.5])


@pytest.mark.parametrize("seed", range(12))
def test_a_random_scan_is_what_its_python_loop_is(seed):
    checked(seed, second=seed % 2 == 0)


@pytest.mark.parametrize("f", [garch, moving])
def test_linear_carries_leave_no_loop(f):
    tape = nt.prepare_gradient_cache(f, T).tape
    assert not tape.calls
    assert "recurrence" in {tape.ops.names[row.row] for row in tape.instructions()}


def test_what_needs_no_step_before_leaves_the_loop():
    (loop,) = nt.prepare_gradient_cache(around_a_loop, T).tape.calls
    names = {loop.body.ops.names[row.row] for row in loop.body.instructions()}
    assert not {"exp", "sin"} & names
    assert len(loop.carries) == 1


def test_entries_at_positions_of_steps_are_taken_at_once():
    tape = nt.prepare_gradient_cache(indexed, T).tape
    (loop,) = tape.calls
    names = [loop.body.ops.names[row.row] for row in loop.body.instructions()]
    assert not {"take", "take1", "exp", "sin"} & {*names}
    slope = nt.grad(indexed)(T)
    for k, step in enumerate(1e-6 * np.eye(4)):
        np.testing.assert_allclose(slope[k], (indexed(T + step) - indexed(T - step)) / 2e-6, rtol=1e-7)


def test_products_with_the_same_matrix_in_all_steps_leave_the_loop():
    tape = nt.prepare_gradient_cache(network, T).tape
    (loop,) = tape.calls
    products = [row for row in loop.body.instructions() if tape.ops[row.row].product]
    assert len(products) == 1
    assert sum(tape.ops[row.row].product for row in tape.instructions()) == 4


@pytest.mark.parametrize("config", [nt.Config(passes="none"), nt.Config(values="numpy")])
@pytest.mark.parametrize("f", [garch, moving, around_a_loop, network, indexed])
def test_a_loop_stays_whole_where_its_bits_or_no_passes_are_wanted(f, config):
    cache = nt.prepare_gradient_cache(f, T, config=config)
    assert len(cache.tape.calls) == 1
    found, wanted = nt.value_and_gradient(cache, T), nt.value_and_grad(f)(T)
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-13)
    np.testing.assert_allclose(found[1][0], wanted[1], rtol=1e-11)


@pytest.mark.parametrize(
    ("f", "whole"), [(garch, True), (moving, True), (around_a_loop, True), (network, False), (indexed, False)]
)
def test_loops_over_numbers_stay_whole_where_points_are_lanes(f, whole):
    """Each number is a vector over the points; products of a body's arrays are still taken for all steps."""
    y = RNG.normal(size=47)
    without = tuple(name for name in PASSES if name != "reroll")
    tape = nt.prepare_gradient_cache(f, T, y, config=nt.Config(passes=without)).tape
    # What is the same in all calls, such as a number that counts steps, is computed once.
    names = {tape.ops.names[row.row] for row in tape.instructions()[tape.prologue :]}
    assert tape.calls
    assert bool({"recurrence", "mul", "matmul"} & names) is not whole
    points = T + 0.01 * RNG.normal(size=(5, len(T)))
    for n in (47, 1, 20, 39):
        values, slopes = nt.batch(lambda t, y=y[:n]: f(t, y))(points)
        for point, value, slope in zip(points, values, slopes, strict=True):
            wanted = nt.value_and_grad(f)(point, y[:n])
            np.testing.assert_allclose(value, wanted[0], rtol=1e-12)
            np.testing.assert_allclose(slope, wanted[1], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("f", [garch, moving, around_a_loop, network, indexed])
def test_one_trace_serves_every_length(f):
    cache = nt.prepare_gradient_cache(f, T, RETURNS)
    for n in (5, 40, 1, 1200, 7):
        y = RNG.normal(size=n)
        value, parts = nt.value_and_gradient(cache, T, y)
        again, wanted = nt.value_and_grad(lambda t, y: f(t, y), argnums=(0, 1))(T, y)
        np.testing.assert_allclose(value, again, rtol=1e-12)
        for part, want in zip(parts, wanted, strict=True):
            np.testing.assert_allclose(part, want, rtol=1e-10, atol=1e-12)
    assert cache.traces == 1


def test_a_step_that_computes_nothing():
    def f(x):
        last, ys = nt.scan(lambda c, v: (c, v), x[0], x)
        return last + np.sum(ys)

    np.testing.assert_array_equal(nt.grad(f)(np.ones(3)), [2.0, 1.0, 1.0])
    whole = nt.prepare_gradient_cache(f, np.ones(3), config=nt.Config(passes="none"))
    np.testing.assert_array_equal(nt.value_and_gradient(whole, np.ones(3))[1][0], [2.0, 1.0, 1.0])


def test_a_carry_that_stays_may_be_a_view():
    def f(flow, x):
        last, rows = flow.scan(lambda c, v: (c, c * v), x[::2], x)
        return np.sum(rows * np.arange(1.0, 16.0).reshape(5, 3)) + np.sum(np.sin(last))

    x = RNG.normal(size=5)
    for verb in (nt.value_and_grad, nt.hessian):
        found, wanted = (verb(lambda x, flow=flow: f(flow, x))(x) for flow in (nt, Python))
        for part, want in zip(found, wanted, strict=True):
            np.testing.assert_allclose(part, want, rtol=1e-12)
