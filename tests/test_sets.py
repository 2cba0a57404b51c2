"""Sets, partitions, lexicographic orders, polynomials of roots, histograms."""

from __future__ import annotations

import numpy as np
import pytest

import numbatape as nt
from numbatape.testing import check_derivatives

A, B = np.array([3.0, 1.0, 2.0, 1.0, 5.0]), np.array([2.0, 7.0, 5.0])
EDGES = np.array([0.0, 1.5, 3.0, 6.0])

CASES = {
    "isin": (lambda x, y: x * np.isin(x, y) + np.sum(y * np.isin(y, x, invert=True)), A, B),
    "union1d": (lambda x, y: np.union1d(x, y) ** 2, A, B),
    "setdiff1d": (lambda x, y: np.setdiff1d(x, y) ** 2, A, B),
    "intersect1d": (lambda x, y: np.intersect1d(x, y) ** 2, A, B),
    "setxor1d": (lambda x, y: np.setxor1d(x, y) ** 2, A, B),
    "unique_values": (lambda x: np.sort(np.unique_values(x)) ** 3, B),
    "partition": (
        lambda x: np.partition(x, 2)[2] * np.sum(np.partition(x, 2)[:2]),
        np.array([3.0, 1.0, 2.5, 8.0, 5.0]),
    ),
    "argpartition": (lambda x: x[np.argpartition(x, 1)[1]] ** 2, B),
    "partition of no entries": (lambda x: np.sum(np.partition(x[:0], 3)) + np.sum(x), B),
    "lexsort": (lambda x: x[np.lexsort((B[[0, 1, 2, 0, 1]], np.floor(x)))] * np.arange(5.0), A + 0.5),
    "poly": (lambda x: np.poly(x), B),
    "roots": (lambda p: np.abs(np.roots(p) - 0.3), np.array([2.0, 1.0, 5.0, 3.0])),
    "real roots": (lambda p: np.roots(p), np.array([1.0, -3.5, 2.0, 0.5])),
    "roots of a line": (lambda p: np.roots(p), np.array([2.0, 3.0])),
    "roots and zeros": (lambda x: np.roots(np.concatenate([np.zeros(1), x, np.zeros(2)])).real, B[:3] + 5.0),
    "polydiv": (lambda u, v: np.concatenate(np.polydiv(u, v)), A, np.array([2.0, 1.0, 3.0])),
    "polydiv of a shorter one": (lambda u, v: np.concatenate(np.polydiv(u, v)), A[:2], A + 1.0),
    "histogram weights": (lambda w: np.histogram(A, EDGES, weights=w)[0] ** 2, A),
    "histogram density": (lambda w: np.histogram(A, 4, (0.0, 6.0), density=True, weights=w)[0], A),
}


@pytest.mark.parametrize("name", CASES)
def test_values_and_derivatives(name):
    f, *args = CASES[name]
    value = nt.vjp(f, *args)[0]
    assert value.dtype == f(*args).dtype
    np.testing.assert_allclose(value, f(*args), rtol=1e-14)
    if name in ("isin", "setdiff1d", "intersect1d", "setxor1d", "union1d"):
        return check_at_ties(f, *args)
    check_derivatives(lambda *a: np.sum(np.sin(f(*a))), *args, float32=False, points=0)


def check_at_ties(f, x, y):
    """Equal entries of two arrays do not stay equal where one moves: no differences there."""
    cache = nt.prepare_gradient_cache(lambda x, y: np.sum(f(x, y)), x, y)
    for shift in (0.0, 1.0, 0.5):
        value, grads = nt.value_and_gradient(cache, x + shift, y)
        assert value == np.sum(f(x + shift, y))
        other = nt.jvp(lambda x, y: np.sum(f(x, y)), (x + shift, y), (x, y))[1]
        np.testing.assert_allclose(other, np.sum(grads[0] * x) + np.sum(grads[1] * y), rtol=1e-13)


def test_roots_become_complex():
    f = lambda p: np.sum(np.abs(np.roots(p)) ** 3)  # noqa: E731
    cache = nt.prepare_gradient_cache(f, np.array([1.0, -3.0, 2.0]))
    for p in ([1.0, -3.0, 2.0], [1.0, -3.0, 4.0], [2.0, -3.0, 0.5]):
        value, gradient = nt.value_and_gradient(cache, np.array(p))
        np.testing.assert_allclose(value, f(np.array(p)), rtol=1e-13)
        np.testing.assert_allclose(gradient[0], nt.grad(f)(np.array(p)), rtol=1e-12)


def test_counts_follow_the_entries():
    counts = nt.jacobian(lambda x: np.histogram(x, EDGES)[0] * np.sum(x))(A)
    np.testing.assert_array_equal(counts, np.outer(np.histogram(A, EDGES)[0], np.ones(5)))


HISTOGRAMS = {
    "numbers": {"bins": [3, 4], "range": [[-2, 2], [-2, 2]]},
    "edges": {"bins": [np.linspace(-1, 1, 4), np.linspace(-1, 1, 3)], "density": True},
    "the same edges": {"bins": np.linspace(-1, 1, 4)},
}


@pytest.mark.parametrize("name", HISTOGRAMS)
def test_histograms_of_two_variables(name):
    """Weights are differentiated; in which bin a point is, is data."""
    options = HISTOGRAMS[name]
    x = np.random.default_rng(0).normal(size=30)
    p = np.stack([x, x**2 - 1.0, np.cos(x)])
    p[:2, 0] = 1.0  # at the end of the last bin
    of_rows = options | {"bins": [options["bins"]] * 2 if name == "the same edges" else options["bins"]}
    for f in (
        lambda p: np.histogram2d(p[0], p[1], weights=p[2], **options)[0],
        lambda p: np.histogramdd(p[:2].T, weights=p[2], **of_rows)[0],
    ):
        cache = nt.prepare_pullback_cache(f, p)
        for point in (p, p[:, ::-1] * 1.1):
            value, _ = nt.value_and_pullback(cache, np.ones_like(f(p)), point)
            np.testing.assert_allclose(value, f(point), rtol=1e-14)
        assert cache.traces == 1
        nt.check(f, 0.97 * p, points=0)  # no point on an edge, and of some nearby the differences cross one
    shares = nt.jacobian(lambda w: np.histogram2d(p[0], p[1], weights=w, bins=3)[0])(p[2])
    np.testing.assert_array_equal(shares.sum((0, 1)), np.ones(30))  # each point is in one bin


def test_complex_nans_are_one_value():
    x = np.array([complex(np.nan, 1), 2, complex(np.nan, 2), 2])
    value, slope = nt.jvp(np.unique, (x,), (np.array([1, 2j, 3, 4]),))
    np.testing.assert_array_equal(value, np.unique(x))
    assert slope[0] == 2j
