"""Bound calls copy long arguments and gradients strip by strip, and keep all bits."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import numbatape as nt
from numbatape.caches.provenance import why_nonfinite
from numbatape.engine import segments
from numbatape.engine.strips import strip_copies
from numbatape.engine.strips.strip_rows import LEAST, STRIP
from numbatape.steady_calls.steady_strips import SteadyStrips

N = LEAST + 3 * STRIP + 5  # the last strip is not full
RNG = np.random.default_rng(5)
X, Y = RNG.normal(size=(2, N))


def softmax(x, y):
    e = np.exp(x - np.max(x))
    return np.sum(e * y) / np.sum(e)


def centred(x, y):
    z = x - np.mean(np.exp(x))  # a second block reads x again
    return np.sum(z * z * np.exp(y))


# A function, and how many of its two arguments and two gradients blocks copy.
FUNCTIONS = {
    "products": (lambda x, y: np.sum(x * y), 4),
    "squares": (lambda x, y: np.sum((x - y) ** 2), 4),
    "logarithms": (lambda x, y: np.sum(np.log(x * x + 1.0) - x * np.exp(-y)), 4),
    "one argument": (lambda x, y: np.sum(np.tanh(x)) + y[3], 2),
    "two blocks": (centred, 4),
    "a maximum": (softmax, 3),
    "neighbours": (lambda x, y: np.sum(np.exp(x[1:] - x[:-1]) * np.sin(y)[1:]), 2),  # those of y
}


def bound_and_not(f, x, y):
    """Return the bound callable and its cache."""
    cache = nt.prepare_gradient_cache(f, x, y)
    return cache.bind(x, y), cache


def copied(bound) -> int:
    return len(bound._alive[-1].copied)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_copying_by_strips_keeps_all_bits(name, dtype):
    f, count = FUNCTIONS[name]
    x, y = X.astype(dtype), Y.astype(dtype)
    bound, cache = bound_and_not(f, x, y)
    if dtype == np.float64:
        assert copied(bound) == count
    for _ in range(3):
        value, gradients = nt.value_and_gradient(cache, x, y)
        assert bound() == value
        for own, expected in zip(bound.out, gradients, strict=True):
            assert own.tobytes() == expected.tobytes()
        x *= 0.75
        y -= 0.125


def test_blocks_that_are_cut_copy_their_own_strips(monkeypatch):
    f, count = FUNCTIONS["logarithms"]
    value, gradients = nt.value_and_gradient(nt.prepare_gradient_cache(f, X, Y), X, Y)
    monkeypatch.setattr(segments, "MOST", 20_000)
    bound, _ = bound_and_not(f, X, Y)
    assert any(len(parts) > 1 for parts in bound._alive[2].plan.strips.parts)
    assert copied(bound) == count
    assert bound() == value
    for own, expected in zip(bound.out, gradients, strict=True):
        np.testing.assert_array_equal(own, expected)


@pytest.mark.parametrize("first", [True, False])
def test_a_gradient_that_is_a_part_of_an_array_fills_its_own_memory_alone(first):
    """That of a concatenation was copied whole, beyond the end of the caller's array."""

    def f(x):
        return np.sum(np.exp(np.concatenate([x, Y] if first else [Y, x])))

    memory = np.full(3 * N, 7.0)
    bound = nt.prepare_gradient_cache(f, X).bind(X, out=(memory[N : 2 * N],))
    assert bound() == pytest.approx(np.sum(np.exp(X)) + np.sum(np.exp(Y)), rel=1e-13)
    np.testing.assert_allclose(memory[N : 2 * N], np.exp(X), rtol=1e-15)
    assert np.all(memory[:N] == 7.0) and np.all(memory[2 * N :] == 7.0)


def test_gradients_may_overwrite_their_arguments():
    f = FUNCTIONS["logarithms"][0]
    memory = np.concatenate([X, np.zeros(7)])
    x, shifted, y = memory[:N], memory[7:], Y.copy()
    value, (dx, dy) = nt.value_and_gradient(nt.prepare_gradient_cache(f, X, Y), X, Y)
    for out in ((x, y), (shifted, np.empty(N))):
        x[:], y[:] = X, Y
        bound = nt.prepare_gradient_cache(f, x, y).bind(x, y, out=out)
        x[:], y[:] = X, Y
        assert bound() == value
        np.testing.assert_array_equal(out[0], dx)
        np.testing.assert_array_equal(out[1], dy)


def test_a_call_that_leaves_the_bound_path_reads_and_writes_cells():
    x, y = X.copy(), Y.copy()
    bound, cache = bound_and_not(FUNCTIONS["logarithms"][0], x, y)
    first = bound()
    elsewhere = bound._alive[4]
    x += 0.5
    for _ in range(2):
        value, gradients = nt.value_and_gradient(cache, x, y)
        assert elsewhere() == value != first
        for own, expected in zip(bound.out, gradients, strict=True):
            np.testing.assert_array_equal(own, expected)
            own[:] = 0.0
        assert bound() == value
        for own, expected in zip(bound.out, gradients, strict=True):
            np.testing.assert_array_equal(own, expected)
        x *= 0.5
        first = value


def test_plans_with_room_for_longer_vectors_copy_whole_arrays(monkeypatch):
    roomy = functools.partial(strip_copies.in_strips, spare=2.0)
    monkeypatch.setattr(strip_copies, "in_strips", roomy)
    bound, cache = bound_and_not(FUNCTIONS["logarithms"][0], X, Y)
    value, gradients = nt.value_and_gradient(cache, X, Y)
    for run in (bound, bound._alive[4]):
        assert run() == value
        np.testing.assert_array_equal(bound.out, gradients)
    assert copied(bound) == 0


def test_the_slope_of_expm1_is_one_instruction():
    cache = nt.prepare_gradient_cache(lambda x: np.sum(np.expm1(x)), X)
    _, (slope,) = nt.value_and_gradient(cache, X)
    listed = str(cache._space.plan.tape)
    assert [line.split()[1] for line in listed.splitlines() if " <- " in line] == ["expm1", "exp", "sum"]
    np.testing.assert_array_max_ulp(slope, np.exp(X), 2)


def test_gradients_of_sums_of_products_and_squares_are_one_instruction():
    """Where a factor itself is the gradient, it is copied, because each gradient has cells of its own."""
    for f, ops in ((FUNCTIONS["products"][0], "dot copy copy"), (FUNCTIONS["squares"][0], "sub dot mul neg")):
        cache = nt.prepare_gradient_cache(f, X, Y)
        value, (dx, dy) = nt.value_and_gradient(cache, X, Y)
        listed = str(cache._space.plan.tape)
        assert [line.split()[1] for line in listed.splitlines() if " <- " in line] == ops.split()
        assert value == pytest.approx(f(X, Y), rel=1e-13)
        assert not np.may_share_memory(dx, dy)
    np.testing.assert_array_equal(dx, 2.0 * (X - Y))
    np.testing.assert_array_equal(dy, -dx)


@pytest.fixture(params=["one", "many"])
def sweeps(request, monkeypatch):
    """Sweeps of one segment, which builtins enter, and of many, between which Python looks for signals."""
    if request.param == "many":
        monkeypatch.setattr(segments, "MOST", 4_000)
    return request.param


@pytest.mark.parametrize("name", FUNCTIONS)
def test_steady_calls_read_arguments_and_write_gradients_where_they_are(name, sweeps, monkeypatch):
    strips = []
    make = SteadyStrips.__init__

    def noted(self, *args, **kwargs):
        make(self, *args, **kwargs)
        strips.append(self)

    monkeypatch.setattr(SteadyStrips, "__init__", noted)
    f, count = FUNCTIONS[name]
    cache = nt.prepare_gradient_cache(f, X, Y)
    value_and_gradient = nt.value_and_grad(f, argnums=(0, 1))
    if sweeps == "many":  # the verb has plans that it made before
        value_and_gradient = nt.prepare_gradient_cache(f, X, Y).call
    kept = []
    for scale in (1.0, 0.5, -0.25, 1.0):
        x, y = scale * X, 0.5 * scale * Y
        if scale < 0.0:
            x = np.repeat(x, 2)[::2]
        kept.append((x, y, *value_and_gradient(x, y)))
    assert any(len(each._copies.copied) == count for each in strips)
    for x, y, value, gradients in kept:  # each call's gradients stay what they were
        bound = cache.bind(x.copy(), y)
        assert bound() == value
        for own, expected in zip(gradients, bound.out, strict=True):
            assert own.tobytes() == expected.tobytes()
            assert own.flags.owndata and own.flags.writeable


def test_steady_calls_of_other_kinds_read_cells(sweeps):
    """Where the captured array changes, or an argument is not contiguous, the general call serves.

    Between segments Python may copy such an argument, and strips read the copy.
    """
    data = Y.copy()
    value_and_gradient = nt.value_and_grad(lambda x: np.sum((x - data) ** 2 * np.exp(x)))
    reference = nt.value_and_grad(lambda x: np.sum((x - data) ** 2 * np.exp(x)) + 0.0)
    for k in range(6):
        x = X + 0.125 * k
        if k == 3:
            data[5] += 1.0  # what was captured is compared in the sweep
        if k == 4:
            data[5] -= 1.0
        given = np.repeat(x, 2)[::2] if k == 2 else x  # arrays that are not contiguous take the general call
        value, gradient = value_and_gradient(given)
        expected, slope = reference(np.repeat(x, 2)[::2])
        assert value == expected
        np.testing.assert_array_equal(gradient, slope)


def test_gradients_of_the_last_call_are_arguments_of_the_next(sweeps):
    """With `reuse_buffers` they are cells, which a block writes before another block reads the arguments."""

    def f(x, y):
        return np.sum(x * y) / np.sum(x * x) + np.sum(np.tanh(y) * x[::-1])

    value, slopes = nt.value_and_gradient(nt.prepare_gradient_cache(f, X, Y), X, Y)
    cache = nt.prepare_gradient_cache(f, X, Y, config=nt.Config(reuse_buffers=True))
    for order in ((0, 1), (1, 0)) * 2:
        _, owned = nt.value_and_gradient(cache, X, Y)
        given = [owned[k] for k in order]
        given[0][:], given[1][:] = X, Y
        assert nt.value_and_gradient(cache, *given)[0] == value
        for own, expected in zip(owned, slopes, strict=True):
            np.testing.assert_array_equal(own, expected)


def test_what_is_not_finite_is_found_behind_steady_calls():
    """They leave numbers of another call in the cells of the argument."""
    x = np.abs(X) + 1.0
    cache = nt.prepare_gradient_cache(lambda x: np.sum(np.log(x) - x * np.exp(-x)), x)
    for _ in range(5):
        assert np.isfinite(nt.value_and_gradient(cache, x)[0])
    x[3] = -5.0
    for _ in range(2):
        assert np.isnan(nt.value_and_gradient(cache, x)[0])
    assert why_nonfinite(cache, [f"x{k}" for k in range(N)], x).startswith("log is nan")
