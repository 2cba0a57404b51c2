"""Products with two literals become products with one, on tapes with derivatives."""

from __future__ import annotations

import numpy as np
import pytest

import numbatape as nt
from numbatape.config import PASSES
from numbatape.derive.tapes import gradient
from numbatape.recording.record import InputLeaf, Manner, record
from numbatape.tape.tape import ACTIVE

X = np.array([1.3, -0.7, 2.1])


def halved_square(x):
    return np.sum(-0.5 * x**2)


def chained(x):
    return np.sum(0.25 * -(8.0 * (x * 0.5)) * x)


def inexact(x):
    return np.sum(3.0 * (0.1 * np.sin(x)))


def subtracted(x):
    return x[0] - 0.7 * np.sin(x[1]) - 0.5 * x[2] ** 2


def read_twice(x):
    y = 2.0 * np.sin(x)
    return np.sum(0.25 * y + np.exp(y))


def ops_of(function, passes) -> list[str]:
    """Return the ops of the tape of a gradient."""
    leaves = [InputLeaf(X, ACTIVE)]
    recording = record(function, leaves, lambda traced: (tuple(traced), {}), Manner(passes=()))
    tape = gradient(recording.tape, (X.size,), passes)
    return [tape.name_of(k) for k in range(len(tape))]


@pytest.mark.parametrize(
    ("function", "ops"),
    [
        (halved_square, ["square", "mul", "sum", "neg"]),
        (
            chained,
            [*("mul", "mul", "neg", "mul", "mul", "sum"), *("mul", "neg", "mul", "mul", "add")],
        ),  # no weigh
        (inexact, ["sin", "mul", "mul", "sum", "cos", "weigh"]),  # three tenths are not exact
        (read_twice, ["sin", "mul", "mul", "exp", "add", "sum", "add", "mul", "cos", "weigh"]),
    ],
)
def test_two_literals_become_one_where_that_is_exact(function, ops):
    assert ops_of(function, ("literals",)) == ops


def test_what_is_subtracted_is_fused():
    assert ops_of(subtracted, ("fuse",)).count("addmul") == 2
    assert ops_of(subtracted, ("literals",)).count("addmul") == 0
    cache = nt.prepare_gradient_cache(subtracted, X)  # on a function's own tape as well, whose bits stay
    names = [line.split()[1] for line in cache.tape.listing().splitlines() if "<-" in line]
    assert names.count("addmul") == 2 and "sub" not in names
    value, (slope,) = nt.value_and_gradient(cache, X)
    assert value == subtracted(X)
    np.testing.assert_allclose(slope, [1.0, -0.7 * np.cos(X[1]), -X[2]], rtol=1e-15)
    nt.check(subtracted, X)


def test_a_value_overflows_where_numpys_does():
    points = np.array([[1e308, 1e308, 1e308], [1.0, 2.0, 3.0]])

    def overflowing(x):
        return np.sum(1.0 / (0.5 * (2.0 * x)))

    with np.errstate(over="ignore"):
        values = nt.batch(overflowing)(points)[0]
        np.testing.assert_array_equal(values, [overflowing(x) for x in points])


@pytest.mark.parametrize("function", [halved_square, chained, inexact, subtracted, read_twice])
def test_every_bit_stays(function):
    points = np.random.default_rng(4).normal(size=(9, 3))
    plain = nt.batch(function, config=nt.Config(passes="none"))(points)
    for result, expected in zip(nt.batch(function)(points), plain, strict=True):
        np.testing.assert_array_equal(result, expected)


def test_products_with_zeros_of_both_signs_keep_their_signs():
    def signs(x):
        return (
            np.copysign(1.0, x[0] - 0.0 * x[1]) + 10.0 * np.copysign(1.0, x[0] - (-0.0) * x[1]) + x[0] * x[1]
        )

    x = np.array([-0.0, 1.0])
    assert nt.value_and_grad(signs)(x)[0] == signs(x) == 9.0


@pytest.mark.parametrize(
    ("function", "product"),
    [
        (lambda x: -0.5 * np.log(x[0] ** 2), lambda x, v: np.array([v[0] / x[0] ** 2, 0.0, 0.0])),
        (lambda x: np.sum(0.25 * x**4), lambda x, v: 3.0 * x**2 * v),
    ],
)
def test_factors_whose_product_is_one_or_minus_one_leave_a_copy_or_a_negation(function, product):
    others = tuple(name for name in PASSES if name != "literals")
    v = np.array([0.4, -1.1, 0.3])
    products = []
    counts = []
    for passes in (others, "all"):
        cache = nt.prepare_hvp_cache(function, X, config=nt.Config(passes=passes))
        products.append(nt.value_and_hvp(cache, v, X)[2])
        counts.append(sum(cache.tape.name_of(k) in ("mul", "weigh") for k in range(len(cache.tape))))
    np.testing.assert_array_equal(*products)
    np.testing.assert_allclose(products[1], product(X, v), rtol=1e-14)
    assert counts[1] < counts[0]
