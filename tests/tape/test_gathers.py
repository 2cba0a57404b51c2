"""Elementwise operations are done before a gather of captured positions: the same numbers, fewer of them."""

from __future__ import annotations

import numpy as np
import pytest

import numbatape as nt
from numbatape.config import PASSES, STRIPS

RNG = np.random.default_rng(4)
GROUPS, COUNT = 20, 400
WITHOUT = nt.Config(passes=(*(name for name in PASSES if name != "gathers"), STRIPS))
EVERY = RNG.permutation(np.arange(COUNT) % GROUPS)  # positions of all entries
SOME = 1 + 3 * RNG.integers(6, size=COUNT)  # entries 0, 2, 3, ... are not read
ENDS = RNG.choice([-1, 0, GROUPS - 1, -2], size=COUNT)  # from either end, one entry by two positions
DATA = RNG.normal(size=COUNT)
X = RNG.uniform(0.5, 1.5, size=GROUPS + 2)


def shifted(x, positions):
    return np.sum((DATA - (x[0] + x[1] * x[2:][positions])) ** 2)


def every_exact_operation(x, positions):
    a = 2.0 - x[2:][positions]
    return np.sum(DATA * np.sqrt(np.abs(-(x[0] / (a * a + 0.5)) * x[1])) ** 3)


def two_tables(x, positions):
    return np.sum(DATA * (x[0] + x[2:][positions] * (x[2:] ** 2)[positions] - x[1]))


def nested(x, positions):
    return np.sum(np.exp(x[1] * (x[0] - x[2:][positions])[positions[:300]]) * DATA[:300])


def rows(x, positions):
    table = np.outer(x[2:], x[:2])
    return np.sum(DATA[:, None] * (x[:2] - x[0] * table[positions]) ** 2)


def read_elsewhere(x, positions):
    taken = x[2:][positions]
    return np.sum(taken * DATA) * np.sum((x[0] * taken) ** 2)


FUNCTIONS = [shifted, every_exact_operation, two_tables, nested, rows, read_elsewhere]


def ops_of(cache) -> list[tuple[str, int]]:
    """Return each instruction's op and the number of cells that it writes."""
    tape, dims = cache.tape, cache.tape.sizes.evaluate(tuple(len(x) for x in (X,)))
    sizes = [d if d >= 0 else dims[-d - 1] for d in tape.storages["size"].tolist()]
    storage = tape.values["storage"]
    return [(tape.name_of(k), sizes[storage[row.out]]) for k, row in enumerate(tape.instructions())]


def derivatives(function, x, positions, config):
    """Return value and gradient, which one more call repeats, and the cache."""
    cache = nt.prepare_gradient_cache(lambda x: function(x, positions), x, config=config)
    value, (gradient,) = nt.value_and_gradient(cache, x)
    again, (repeated,) = nt.value_and_gradient(cache, x)
    assert again == value and np.array_equal(repeated, gradient, equal_nan=True)
    return value, gradient, cache


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("positions", [EVERY, SOME, ENDS], ids=["every", "some", "ends"])
def test_values_keep_their_bits_and_derivatives_theirs_to_rounding(function, positions):
    value, gradient, _ = derivatives(function, X, positions, None)
    expected, slope, _ = derivatives(function, X, positions, WITHOUT)
    assert value == expected
    np.testing.assert_allclose(gradient, slope, rtol=1e-13, atol=1e-13 * np.max(np.abs(slope)))
    hessians = [
        nt.value_gradient_and_hessian(
            nt.prepare_hessian_cache(lambda x: function(x, positions), X, config=config), X
        )[2]
        for config in (None, WITHOUT)
    ]
    np.testing.assert_allclose(*hessians, rtol=1e-12, atol=1e-12 * np.max(np.abs(hessians[1])))


def test_operations_have_as_many_entries_as_are_read():
    for positions, read in ((EVERY, GROUPS), (SOME, 6), (ENDS, 4)):
        _, _, cache = derivatives(shifted, X, positions, None)
        ops = ops_of(cache)
        assert ("mul", read) in ops and ("add", read) in ops and ("mul", COUNT) not in ops
        _, _, cache = derivatives(shifted, X, positions, WITHOUT)
        assert ("mul", COUNT) in ops_of(cache)


def test_what_is_read_behind_the_gather_stays_there():
    _, _, cache = derivatives(read_elsewhere, X, EVERY, None)
    assert [op for op, _ in ops_of(cache)].count("take1") == 1


def test_few_repeats_and_short_vectors_stay():
    for positions in (np.arange(GROUPS).repeat(2), np.arange(COUNT) % GROUPS + RNG.integers(400, size=COUNT)):
        x = np.ones(500)

        def f(x, positions=positions):
            return np.sum(np.cos(x[0] * x[positions]))

        assert nt.prepare_gradient_cache(f, x).tape.digest == (
            nt.prepare_gradient_cache(f, x, config=WITHOUT).tape.digest
        )


@pytest.mark.parametrize("unread", [0.0, np.inf, -np.inf, np.nan])
def test_entries_that_nobody_reads_change_nothing(unread):
    x = X.copy()
    x[2:][np.setdiff1d(np.arange(GROUPS), SOME)] = unread
    for function in (shifted, every_exact_operation, rows):
        if function is rows and not np.isfinite(unread):
            continue  # its table is computed from the argument
        value, gradient, _ = derivatives(function, x, SOME, None)
        expected, slope, _ = derivatives(function, x, SOME, WITHOUT)
        assert np.isfinite(gradient).all() and value == expected
        np.testing.assert_allclose(gradient, slope, rtol=1e-12, atol=1e-12)


def test_other_lengths_of_the_table():
    """A longer one has entries that nobody reads; one that is too short fails as in NumPy."""
    for positions in (EVERY, SOME):

        def f(m, t, table, positions=positions):
            return np.sum(DATA * np.sin(m + t * table[positions]))

        cache = nt.prepare_gradient_cache(f, 0.3, 1.2, X[2:])
        for more in (0, 1, 300):
            table = np.append(X[2:], np.full(more, np.inf))
            value, gradients = nt.value_and_gradient(cache, 0.3, 1.2, table)
            plain = nt.prepare_gradient_cache(f, 0.3, 1.2, table, config=WITHOUT)
            expected, slopes = nt.value_and_gradient(plain, 0.3, 1.2, table)
            assert value == expected
            for one, other in zip(gradients, slopes, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
        with pytest.raises(IndexError):
            nt.value_and_gradient(cache, 0.3, 1.2, X[:10])
        value, _ = nt.value_and_gradient(cache, 0.3, 1.2, X[2:])
        np.testing.assert_allclose(value, f(0.3, 1.2, X[2:]), rtol=1e-13)


def test_positions_that_are_an_argument_may_change():
    """They are not known when the tape is frozen; nor do they have to have one length."""

    def f(x, positions):
        return np.sum(np.square(x[0] + x[1] * x[2:][positions]))

    cache = nt.prepare_gradient_cache(f, X, nt.Constant(EVERY))
    for positions in (EVERY, SOME, EVERY[:3], EVERY[:0]):
        value, (gradient, _) = nt.value_and_gradient(cache, X, nt.Constant(positions))
        expected = np.zeros_like(X)
        z = X[0] + X[1] * X[2:][positions]
        expected[:2] = 2 * np.sum(z), 2 * np.sum(z * X[2:][positions])
        np.add.at(expected[2:], positions, 2 * z * X[1])
        np.testing.assert_allclose(value, np.sum(z**2), rtol=1e-14)
        np.testing.assert_allclose(gradient, expected, rtol=1e-13, atol=1e-13)


def test_captured_positions_that_change_are_traced_again():
    positions = EVERY.copy()

    def f(x):
        return np.sum(DATA * np.exp(x[0] + x[1] * x[2:][positions]))

    cache = nt.prepare_gradient_cache(f, X)
    for k in range(3):
        positions[: 100 * k] = k
        value, (gradient,) = nt.value_and_gradient(cache, X)
        plain = nt.prepare_gradient_cache(f, X, config=WITHOUT)
        expected, (slope,) = nt.value_and_gradient(plain, X)
        assert value == expected
        np.testing.assert_allclose(gradient, slope, rtol=1e-12)


def test_float32_and_lanes():
    """Float32 results keep their bits, too; lanes have tables of their own."""
    narrow = X.astype(np.float32)

    def f(x):
        return np.sum((x[0] + x[1] * x[2:][SOME]) ** 2)

    values = [derivatives(lambda x, _: f(x), narrow, None, config)[:2] for config in (None, WITHOUT)]
    assert values[0][0] == values[1][0] and values[0][1].dtype == np.float32
    np.testing.assert_allclose(values[0][1], values[1][1], rtol=1e-5)
    points = np.stack([X, X + 0.25, 2 * X])
    each = np.array([f(x) for x in points])
    np.testing.assert_allclose(nt.vmap(f)(points), each, rtol=1e-13)
    slopes = [nt.value_and_gradient(nt.prepare_gradient_cache(f, X), x)[1][0] for x in points]
    np.testing.assert_allclose(nt.vmap(nt.grad(f))(points), slopes, rtol=1e-12)


def test_bodies_of_loops():
    """A body is frozen by itself, with sizes of its own."""

    def f(x):
        def step(carry, row):
            return carry + np.sum(row * (x[0] + carry * x[2:][EVERY])) * 1e-3, carry

        last, _ = nt.scan(step, x[1], DATA[:5])
        return last

    (value, slope, _), (expected, other, _) = (
        derivatives(lambda x, _: f(x), X, None, config) for config in (None, WITHOUT)
    )
    assert value == expected
    np.testing.assert_allclose(slope, other, rtol=1e-12)
