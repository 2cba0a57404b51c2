"""Functions of Python's ``statistics`` and ``math`` that take many numbers, of traced ones."""

import math
import statistics

import numpy as np
import pytest
from scipy.stats import spearmanr

import numbatape as nt

X, OTHERS = np.array([1.2, 2.0, 3.5, 0.7]), [1.0, 2.0, 4.0, 3.0]
CASES = {
    "means": lambda x: statistics.fmean(x) * statistics.mean([x[0], 2 * x[1], 1.0]),
    "weights": lambda x: statistics.fmean(x, weights=OTHERS) + statistics.fmean(OTHERS, weights=list(x)),
    "other means": lambda x: statistics.geometric_mean(x) * statistics.harmonic_mean(list(x)),
    "weighted harmonic mean": lambda x: statistics.harmonic_mean(x, weights=OTHERS),
    "variances": lambda x: statistics.variance(x) * statistics.pvariance(x, mu=x[0]),
    "deviations": lambda x: statistics.stdev(list(x)) / statistics.pstdev(x, 1.0),
    "a type": lambda x: statistics.pstdev(x.tolist()) + statistics.harmonic_mean([x.item(0)]),
    "another type": lambda x: statistics.mean(x.tolist()) * statistics.variance(map(math.sin, x)),
    "order": lambda x: statistics.median(x) ** 2 + statistics.quantiles(x, n=4)[0],
    "pairs": lambda x: statistics.correlation(x, OTHERS) + statistics.covariance(OTHERS, x) * x[0],
    "a line": lambda x: np.prod(statistics.linear_regression(OTHERS, x)) * x[2],
    "a line through zero": lambda x: statistics.linear_regression(x, OTHERS, proportional=True).slope,
    "generators": lambda x: math.fsum(v * v for v in x) * statistics.fmean(1 / v for v in x),
    "iterators": lambda x: math.prod(map(math.exp, x)) + math.fsum(iter(x)),
}


@pytest.mark.parametrize("name", CASES)
def test_many_numbers(name):
    f = CASES[name]
    (value, same), gradient = nt.value_and_grad(lambda x: (f(x), f(x)), has_aux=True)(X)
    np.testing.assert_allclose(value, f(X), rtol=1e-13)
    assert type(same) is type(f(X))
    differences = [(f(X + step) - f(X - step)) / 2e-6 for step in 1e-6 * np.eye(4)]
    np.testing.assert_allclose(gradient, differences, rtol=1e-6, atol=1e-8)


ERRORS = {
    "one number": (lambda x: statistics.stdev(x[:1]), statistics.StatisticsError, "at least 2 data points"),
    "lengths": (lambda x: statistics.covariance(x, [1.0]), statistics.StatisticsError, "same number"),
    "weights": (lambda x: statistics.fmean(x, [1.0, 2.0]), statistics.StatisticsError, "same length"),
    "weights of zero": (lambda x: statistics.fmean(x, 0.0 * x), statistics.StatisticsError, "non-zero"),
    "negative": (lambda x: statistics.harmonic_mean(-x), statistics.StatisticsError, "negative values"),
    "constant": (lambda x: statistics.correlation(x, [2.0] * 4), statistics.StatisticsError, "is constant"),
    "no numbers": (lambda x: statistics.fmean(x[:0]), statistics.StatisticsError, "at least 1 data point"),
    "zeros": (lambda x: statistics.geometric_mean(x - x[0]), statistics.StatisticsError, "positive numbers"),
    "negative weights": (
        lambda x: statistics.harmonic_mean(x, -x),
        statistics.StatisticsError,
        "negative val",
    ),
    "a distribution": (lambda x: statistics.NormalDist(x[0]).cdf(1.0), nt.LeakError, "NormalDist"),
    "a correlation": (lambda x: statistics.correlation(x, x, method="other"), ValueError, "Unknown method"),
}


def test_equal_numbers_share_the_mean_of_their_ranks():
    x, y = np.array([1.2, 2.0, 2.0, 5.0, 3.0]), [2.0, 1.0, 4.0, 4.0, 7.0]
    value, gradient = nt.value_and_grad(lambda x: statistics.correlation(x, y, method="ranked"))(x)
    np.testing.assert_allclose(value, spearmanr(x, y).statistic, rtol=1e-13)
    assert not gradient.any()


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    f, kind, message = ERRORS[name]
    with pytest.raises(kind, match=message):
        nt.grad(f)(X)
