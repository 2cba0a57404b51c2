"""Squared distances: sums of squares of differences are one instruction without an array of differences."""

import numpy as np
import pytest

import numbatape as nt
from numbatape import testing

RNG = np.random.default_rng(4)
PLAIN = nt.Config(passes="none")


def ops(cache):
    return [row["op"] for row in cache.profile(1)]


def of_pairs(x, y):
    return np.sum(np.sin(np.sum((x[:, None] - y) ** 2, axis=-1)))


@pytest.mark.parametrize("d", [1, 2, 3, 5, 13, 300])
def test_values_keep_their_bits(d):
    x, y = RNG.normal(size=(6, d)), RNG.normal(size=(5, d))
    cache, plain = (nt.prepare_gradient_cache(of_pairs, x, y, config=c) for c in (nt.Config(), PLAIN))
    assert ("distance2" in ops(cache)) == (d > 1)
    (value, slopes), (its, its_slopes) = (nt.value_and_gradient(c, x, y) for c in (cache, plain))
    assert value == its
    for slope, other in zip(slopes, its_slopes, strict=True):
        np.testing.assert_allclose(slope, other, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("d", [2, 3, 4])
def test_all_orders_of_pairs_within_one_array(d):
    def f(x):
        gaps = x[:, None] - x
        return np.sum(1.0 / (np.sum(gaps * gaps, axis=-1) + 0.5))

    x = RNG.normal(size=(4, d))
    assert "distance2" in ops(nt.prepare_gradient_cache(f, x))
    testing.check_derivatives(f, x)


def test_what_is_no_distance():
    first, second = np.array([0, 2, 1, 1, 0]), np.array([1, 1, 2, 0, 0])
    cases = {
        "differences are read again": lambda x: (
            np.sum((g := x[:, None] - x) ** 2, -1).sum() + np.sum(np.sin(g))
        ),
        "a column is broadcast": lambda x: np.sum(np.sin(np.sum((x[:, :1] - x) ** 2, -1))),
        "another axis": lambda x: np.sum(np.sin(np.sum((x[:, None] - x) ** 2, 0))),
        "gathered": lambda x: np.sum(np.sin(np.sum((x[first] - x[second]) ** 2, -1))),
    }
    x = RNG.normal(size=(3, 3))
    for name, f in cases.items():
        cache = nt.prepare_gradient_cache(f, x)
        assert ("distance2" in ops(cache)) == (name == "gathered"), name
        value, (slope,) = nt.value_and_gradient(cache, x)
        its, (other,) = nt.value_and_gradient(nt.prepare_gradient_cache(f, x, config=PLAIN), x)
        assert value == its, name
        np.testing.assert_allclose(slope, other, rtol=1e-13, err_msg=name)
    single = nt.prepare_gradient_cache(of_pairs, *np.ones((2, 3, 3), np.float32))
    assert "distance2" not in ops(single)  # differences are rounded to float32
