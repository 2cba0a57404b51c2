"""Functions of constant arrays whose positions, counts or other options follow from traced values."""

import math

import numpy as np
import pytest
from scipy import interpolate, signal, stats

import numbatape as nt

C = np.array([0.3, 1.4, -0.6, 2.2])
POINTS = np.array([[0.3, 0.7, 0.5, 0.1], [0.9, 0.45, 0.2, 0.6], [0.35, 0.41, 0.95, 0.6]])

SQUARE = C.reshape(2, 2)


def infinite(x):
    return np.where(x[0] < 0.32, np.inf, 3.0 + x[0])


CALLS = {
    "delete": lambda x: np.delete(C, np.argmax(x)) * x[0],
    "delete along an axis": lambda x: np.delete(C.reshape(2, 2), np.argmax(x) % 2, axis=0) * x[0],
    "delete two": lambda x: np.delete(C, np.argsort(x)[:2]) * x[0],
    "insert a constant": lambda x: np.insert(C, np.argmax(x), 2.0) * x[0],
    "insert": lambda x: np.insert(C, np.argmax(x), x[1]),
    "piecewise": lambda x: np.piecewise(C, [C > 0.5], [x[0], x[1]]),
    "partition": lambda x: np.partition(C, np.argmax(x)) * x[0],
    "split": lambda x: np.split(C, [np.argmax(x)])[0] * x[0],
    "array_split of constants": lambda x: np.array_split(C, np.argmax(x) + 1)[0] * x[0],
    "array_split": lambda x: np.array_split(x, np.argmax(x) + 1)[0] ** 2,
    "tile": lambda x: np.tile(C, np.argmax(x) + 1) * x[0],
    "rot90": lambda x: np.rot90(C.reshape(2, 2), np.argmax(x)) * x[0],
    "roll": lambda x: np.roll(C, np.argmax(x)) * x,
    "flip": lambda x: np.flip(C.reshape(2, 2), np.argmax(x) % 2) * np.reshape(x, (2, 2)),
    "tril": lambda x: np.tril(np.outer(C, C), np.argmax(x)) * x,
    "bincount": lambda x: np.bincount(np.argsort(x), weights=C) * x,
    "unwrap": lambda x: np.unwrap(3.0 * C, period=x[0] + 3.0) * x,
    # At the first point these are 0 or infinite, for which there is a shorter way.
    "border": lambda x: signal.convolve2d(SQUARE, SQUARE, boundary="fill", fillvalue=x[0] - 0.3) ** 2,
    "border, data": lambda x: signal.correlate2d(SQUARE, SQUARE, fillvalue=np.argmax(x) - 1) * x[0],
    "border of a line": lambda x: signal.upfirdn(C, C, 2, cval=x[0] - 0.3) ** 2,
    "normal law": lambda x: stats.multivariate_t.logpdf(x[:2], [0, 0], SQUARE @ SQUARE.T, infinite(x)),
    "entropy": lambda x: stats.multivariate_t.entropy(None, SQUARE @ SQUARE.T * x[0], infinite(x)),
    "count": lambda x: stats.dirichlet_multinomial.logpmf([np.argmax(x), 2], x[:2], np.argmax(x) + 2),
}


METHODS = ("hazen", "weibull", "interpolated_inverted_cdf", "median_unbiased", "normal_unbiased", "lower")
METHODS += ("higher", "nearest", "midpoint", "inverted_cdf", "averaged_inverted_cdf", "closest_observation")
CALLS |= {
    f"quantile, {name}": lambda x, name=name: np.quantile(C * x, [x[0] ** 2, x[1]], method=name) * x[:2]
    for name in METHODS
}
CALLS |= {
    "power mean": lambda x: stats.pmean(C**2, x[0]) + stats.pmean([x[0], 1.0], x[1], weights=x[2:]),
    "polynomials of lists": lambda x: (np.poly1d([x[0], 1.0]) * np.poly1d([1.0, 2.0, x[1]])).deriv()(x),
    "quotients of polynomials": lambda x: (
        sum(p(x) for p in np.poly1d([1.0, x[0], 2.0]) / (np.poly1d([x[1], 1.0]) + x[2]))
        + (-np.poly1d([1.0, 2.0]) / x[0])(x) * (2.0 / np.poly1d([x[1]])).integ()(np.poly1d([1.0, 3.0]))(x)
    ),
    "Lagrange's polynomial": lambda x: interpolate.lagrange(x, C)(C) + interpolate.lagrange(C, x)(x[0]),
}


# At the first point the option is one for which NumPy or SciPy has a formula apart.
CALLS |= {
    "euclidean norm": lambda x: np.linalg.norm(C, x[0] + 1.7),
    "sum of sizes": lambda x: np.linalg.vector_norm(C * x[1], ord=x[0] + 0.7),
    "complex norm": lambda x: np.linalg.vector_norm(C + 1j * x[1], ord=x[0] + 1.7),
    "logarithms": lambda x: stats.yeojohnson(C, x[0] - 0.3) + stats.yeojohnson(C, lmbda=x[0] + 1.7),
    "likelihood": lambda x: stats.yeojohnson_llf(x[0] - 0.3, C) + stats.yeojohnson_llf(x[0] + 1.7, C * x[1]),
}


@pytest.mark.filterwarnings("ignore:`lagrange` is deprecated:DeprecationWarning")  # since SciPy 1.18
@pytest.mark.parametrize("name", CALLS)
def test_of_constants(name):
    def f(x):
        return np.sum(CALLS[name](x))

    verb = nt.value_and_grad(f)
    for x in POINTS:
        value, gradient = verb(x)
        np.testing.assert_allclose(value, f(x), rtol=1e-13)
        h = 1e-6
        slopes = [(f(x + h * e) - f(x - h * e)) / (2 * h) for e in np.eye(4)]
        np.testing.assert_allclose(gradient, slopes, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("write", [np.place, np.putmask])
@pytest.mark.parametrize("values", [lambda x: [x[0], 0.15], lambda x: math.sin(x[1])], ids=["list", "float"])
def test_lists_and_floats_are_cast(dtype, write, values):
    def f(x):
        y = x * 1.0
        write(y, x > 0.4, values(x))
        return np.sum(y * y)

    for x in POINTS.astype(dtype):
        value, gradient = nt.value_and_grad(f)(x)
        assert value.dtype == gradient.dtype == dtype
        np.testing.assert_allclose(value, f(x), rtol=1e-6)


@pytest.mark.filterwarnings("ignore:divide by zero")
def test_a_sum_by_zero():
    """A slope that is no finite number is one of NumPy's numbers; the sum before it takes it."""

    def f(x):
        return np.sum(x) * 0.5 / 0.0

    np.testing.assert_array_equal(nt.grad(f)(C), np.full(4, np.inf))
    values, gradients = nt.batch(f)(POINTS)
    np.testing.assert_array_equal(values, np.full(3, np.inf))
    np.testing.assert_array_equal(gradients, np.full((3, 4), np.inf))


@pytest.mark.parametrize("function", [math.fsum, math.prod])
def test_of_no_entries(function):
    def f(x):
        return x[0] * function(x[x > 5.0]) + x[1]

    assert nt.value_and_grad(f)(C)[0] == f(C)


@pytest.mark.parametrize("order", [1.0, 0.0, -1.0, 0.7])
def test_a_power_divergence_is_smooth_in_its_order(order):
    counts = np.array([3.0, 5.0, 9.0, 4.0])
    f = lambda order: sum(stats.power_divergence(counts, lambda_=order))  # noqa: E731
    value, slope = nt.value_and_grad(f)(order)
    assert value == pytest.approx(f(order), rel=1e-13)
    assert slope == pytest.approx((f(order + 1e-3) - f(order - 1e-3)) / 2e-3, rel=1e-5)


@pytest.mark.parametrize("order", [2.0, -2.0])
def test_a_power_divergence_of_negative_counts_has_an_order_that_is_whole(order):
    counts, expected = np.array([3.0, -5.0, 9.0]), np.array([2.0, 1.0, 4.0])
    f = lambda x, order: stats.power_divergence(x, expected, lambda_=order)[0]  # noqa: E731
    value, (of_counts, of_order) = nt.value_and_grad(f, argnums=(0, 1))(counts, order)
    assert value == pytest.approx(f(counts, order), rel=1e-13)
    assert np.isnan(of_order)
    # SciPy wants counts of an expected sum: slopes may differ by what no such change of the counts shows.
    plain = nt.grad(lambda x: f(x, 1.0 * order))(counts)
    np.testing.assert_allclose(np.diff(of_counts), np.diff(plain), rtol=1e-13)
