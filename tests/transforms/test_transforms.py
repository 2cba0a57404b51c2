"""Transforms: the laws that make each one a change of variables, and Stan's formulas.

The formulas of the reference manual (version 2.37) are written here as its loops, entry by entry.
"""

import math

import numpy as np
import pytest

import numbatape as nt
from numbatape import transforms as tr

ROWS, COLUMNS = np.tril_indices(4, -1)
# Each with a shape, and which entries of the value determine the others.
CASES = {
    "real": (tr.real, (3,), slice(None)),
    "positive": (tr.positive, (3,), slice(None)),
    "lower": (tr.lower(-2.0), (2, 2), slice(None)),
    "upper": (tr.upper(1.5), (), slice(None)),
    "interval": (tr.interval(-1.0, 3.0), (3,), slice(None)),
    "ordered": (tr.ordered, (4,), slice(None)),
    "ordered, one entry": (tr.ordered, (1,), slice(None)),
    "positive_ordered": (tr.positive_ordered, (4,), slice(None)),
    "simplex": (tr.simplex, (4,), slice(0, 3)),
    "simplex, one entry": (tr.simplex, (1,), slice(0, 0)),
    "correlation_cholesky": (tr.correlation_cholesky, (4, 4), 4 * ROWS + COLUMNS),
    "correlation_cholesky, one entry": (tr.correlation_cholesky, (1, 1), slice(0, 0)),
}
ALL = {**CASES, "sum_to_zero": (tr.sum_to_zero, (4,), None)}


def point(transform, shape, seed=0):
    return np.random.default_rng(seed).normal(size=transform.free_shape(shape))


@pytest.mark.parametrize("name", ALL)
def test_inverse(name):
    transform, shape, _ = ALL[name]
    y = point(transform, shape)
    x = transform.constrain(y)
    assert np.shape(x) == shape
    assert np.allclose(transform.unconstrain(x), y, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_log_jacobian_is_that_of_the_jacobian(name):
    transform, shape, free = CASES[name]
    y = point(transform, shape, 1)
    matrix = np.reshape(nt.jacobian(transform.constrain)(y), (math.prod(shape), y.size))
    sign, logdet = np.linalg.slogdet(matrix[free])
    assert sign != 0
    assert np.isclose(np.sum(transform.log_jacobian(y)), logdet, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", [name for name in ALL if "one entry" not in name])
def test_derivatives(name):
    transform, shape, _ = ALL[name]
    y = point(transform, shape, 2)
    nt.testing.check_derivatives(transform.constrain, y, points=0)
    nt.testing.check_derivatives(transform.log_jacobian, y, points=0)
    x = transform.constrain(y)
    back, there = nt.jacobian(transform.unconstrain)(x), nt.jacobian(transform.constrain)(y)
    assert np.allclose(np.reshape(back, (y.size, -1)) @ np.reshape(there, (-1, y.size)), np.eye(y.size))


@pytest.mark.parametrize("name", ALL)
def test_leading_axes(name):
    transform, shape, _ = ALL[name]
    ys = np.random.default_rng(3).normal(size=(2, 3, *transform.free_shape(shape)))
    xs, logs = transform.constrain(ys), transform.log_jacobian(ys)
    for place in np.ndindex(2, 3):
        assert np.allclose(xs[place], transform.constrain(ys[place]), rtol=1e-14, atol=1e-15)
        assert np.allclose(logs[place], transform.log_jacobian(ys[place]), rtol=1e-14, atol=1e-15)
    assert np.allclose(transform.unconstrain(xs), ys, rtol=1e-12, atol=1e-12)


def test_sum_to_zero_is_stans_loop():
    y = np.array([0.3, -1.2, 0.7])
    x, total = np.zeros(4), 0.0
    for i in range(len(y), 0, -1):
        w = y[i - 1] / math.sqrt(i * (i + 1))
        total += w
        x[i - 1] += total
        x[i] -= w * i
    assert np.allclose(tr.sum_to_zero.constrain(y), x, rtol=1e-15, atol=1e-15)
    basis = nt.jacobian(tr.sum_to_zero.constrain)(y)
    assert np.allclose(basis.T @ basis, np.eye(3), atol=1e-15)  # so its Jacobian determinant is 1
    assert tr.sum_to_zero.log_jacobian(y) == 0.0
    softmax = np.exp(x) / np.sum(np.exp(x))
    assert np.allclose(tr.simplex.constrain(y), softmax, rtol=1e-14)


def test_correlation_cholesky_is_stans_loop():
    y = np.array([0.4, -0.8, 1.1, 0.2, 0.6, -0.3])
    z, factor, logs, k = np.tanh(y), np.zeros((4, 4)), np.sum(np.log1p(-(np.tanh(y) ** 2))), 0
    factor[0, 0] = 1.0
    for i in range(1, 4):
        used = 0.0
        for j in range(i):
            if j:
                logs += 0.5 * math.log1p(-used)
            factor[i, j] = z[k] * math.sqrt(1.0 - used)
            used += factor[i, j] ** 2
            k += 1
        factor[i, i] = math.sqrt(1.0 - used)
    assert np.allclose(tr.correlation_cholesky.constrain(y), factor, rtol=1e-14)
    assert np.isclose(tr.correlation_cholesky.log_jacobian(y), logs, rtol=1e-14)


@pytest.mark.parametrize("y", [-700.0, -40.0, 40.0, 700.0])
def test_far_out(y):
    """Nothing overflows into NaN, and logarithms of Jacobians stay exact."""
    assert tr.interval(0.0, 1.0).log_jacobian(y) == -abs(y)
    factor = tr.correlation_cholesky.constrain(np.array([y]))
    assert np.isfinite(factor).all() and np.allclose(np.sum(factor**2, 1), 1.0)
    assert np.isclose(tr.correlation_cholesky.log_jacobian(np.array([y])), math.log(4) - 2 * abs(y))
    assert np.isclose(np.sum(tr.simplex.constrain(np.array([y, 0.0]))), 1.0)
    assert np.isfinite(nt.grad(tr.simplex.log_jacobian)(np.array([y, 0.0]))).all()


@pytest.mark.parametrize(
    "transform, x, message",
    [
        (tr.positive, -1.0, r"transforms.positive needs numbers above 0.0, got -1"),
        (tr.positive, [1.0, np.nan], "needs numbers above"),
        (tr.upper(2.0), 2.0, r"transforms.upper\(2.0\) needs numbers below 2.0"),
        (tr.interval(0.0, 1.0), 1.0, "between 0.0 and 1.0"),
        (tr.ordered, [1.0, 1.0], "increasing"),
        (tr.positive_ordered, [-1.0, 1.0], "positive, increasing"),
        (tr.simplex, [0.5, 0.6], "the sum 1"),
        (tr.sum_to_zero, [0.5, 0.6], "the sum 0"),
        (tr.correlation_cholesky, [[1.0, 0.5], [0.5, 1.0]], "lower triangular"),
    ],
)
def test_values_that_break_the_constraint(transform, x, message):
    with pytest.raises(nt.SpecError, match=message):
        transform.unconstrain(x)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: tr.interval(1.0, 0.0), "must be below the second"),
        (lambda: tr.lower(-np.inf), "must be finite"),
        (lambda: tr.simplex.free_shape(()), "is of a vector"),
        (lambda: tr.simplex.free_shape((0,)), "an entry or more"),
        (lambda: tr.correlation_cholesky.free_shape((3,)), "is of a matrix"),
        (lambda: tr.correlation_cholesky.free_shape((3, 2)), "is of a square matrix"),
        (lambda: tr.correlation_cholesky.constrain(np.ones(4)), "no matrix has 4 entries"),
    ],
)
def test_wrong_shapes_and_bounds(make, message):
    with pytest.raises(nt.SpecError, match=message):
        make()
