"""Functions of Python's ``statistics`` for traced numbers, which the module would convert to fractions."""

from __future__ import annotations

import statistics

import numpy as np

from ..trace.array import TracedArray
from ..trace.kinds import PYTHON
from ..trace.primitives import value_of
from ..trace.python_integers import weak
from .stand_ins import stands_for


def _listed(data):
    """Return data that can be read more than once."""
    return data if isinstance(data, np.ndarray) or type(data) is TracedArray else list(data)


def _array(data):
    """Return numbers as one array."""
    return np.stack(data) if type(data) is list else data


def _require(x, least: int, name: str):
    if len(x) < least:
        raise statistics.StatisticsError(f"{name} requires at least {least} data points")
    return x


def _float(x):
    """Return a number as one of Python's, which nearly all functions of the module give."""
    return weak(x) if type(x) is TracedArray else x


def _like(x, data):
    """Return a number as one of Python's if those of the data are."""
    own = not isinstance(data, np.ndarray) and type(data) is not TracedArray
    return _float(x) if own and all(type(value_of(part)) in PYTHON for part in data) else x


@stands_for("statistics", "fmean", run=None)
def fmean(data, weights=None):
    data = _listed(data)
    x = _require(_array(data), 1, "fmean")
    if weights is None:
        return _float(np.mean(x))
    weights = _array(_listed(weights))
    if len(weights) != len(x):
        raise statistics.StatisticsError("data and weights must be the same length")
    total = np.sum(weights)
    if total == 0.0:
        raise statistics.StatisticsError("sum of weights must be non-zero")
    return _float(np.dot(x, weights) / total)


@stands_for("statistics", "mean", run=None)
def mean(data):
    data = _listed(data)
    return _like(np.mean(_require(_array(data), 1, "mean")), data)


@stands_for("statistics", "geometric_mean", run=None)
def geometric_mean(data):
    x = _array(_listed(data))
    if len(x) == 0 or np.any(x <= 0.0):
        raise statistics.StatisticsError(
            "geometric mean requires a non-empty dataset containing positive numbers"
        )
    return _float(np.exp(np.mean(np.log(x))))


@stands_for("statistics", "harmonic_mean", run=None)
def harmonic_mean(data, weights=None):
    data = _listed(data)
    x = _require(_array(data), 1, "harmonic_mean")
    if np.any(x < 0.0):
        raise statistics.StatisticsError("harmonic mean does not support negative values")
    if weights is None:
        return data[0] if len(x) == 1 else _like(len(x) / np.sum(1.0 / x), data)
    weights = _array(_listed(weights))
    if len(weights) != len(x):
        raise statistics.StatisticsError("Number of weights does not match data size")
    if np.any(weights < 0.0):
        raise statistics.StatisticsError("harmonic mean does not support negative values")
    shares = np.where(weights == 0.0, 0.0, weights / x)  # a weight of zero leaves out a zero
    return _like(np.sum(weights) / np.sum(shares), data)


def _squares(x, center):
    return np.sum((x - (np.mean(x) if center is None else center)) ** 2)


def _deviation(data, center, name: str, lost: int):
    data = _listed(data)
    x = _require(_array(data), 1 + lost, name)
    return _like(_squares(x, center) / (len(x) - lost), data)


@stands_for("statistics", "pvariance", run=None)
def pvariance(data, mu=None):
    return _deviation(data, mu, "pvariance", 0)


@stands_for("statistics", "variance", run=None)
def variance(data, xbar=None):
    return _deviation(data, xbar, "variance", 1)


@stands_for("statistics", "pstdev", run=None)
def pstdev(data, mu=None):
    return _float(np.sqrt(_deviation(data, mu, "pstdev", 0)))


@stands_for("statistics", "stdev", run=None)
def stdev(data, xbar=None):
    return _float(np.sqrt(_deviation(data, xbar, "stdev", 1)))


def _centred(x, y, name: str) -> tuple:
    x, y = _array(_listed(x)), _array(_listed(y))
    if len(x) != len(y):
        raise statistics.StatisticsError(f"{name} requires that both inputs have same number of data points")
    _require(x, 2, name)
    return x - np.mean(x), y - np.mean(y)


@stands_for("statistics", "covariance", run=None)
def covariance(x, y, /):
    dx, dy = _centred(x, y, "covariance")
    return _float(np.dot(dx, dy) / (len(dx) - 1))


def _ranks(data):
    """Return the rank of each number; equal numbers share the mean of their ranks."""
    x = _array(_listed(data))
    ordered = np.sort(x)
    return 0.5 * (np.searchsorted(ordered, x, "left") + np.searchsorted(ordered, x, "right"))


@stands_for("statistics", "correlation", run=None)
def correlation(x, y, /, *, method="linear"):
    if method not in ("linear", "ranked"):
        raise ValueError(f"Unknown method: {method!r}")
    if method == "ranked":
        x, y = map(_ranks, (x, y))
    dx, dy = _centred(x, y, "correlation")
    product = np.dot(dx, dx) * np.dot(dy, dy)
    if product == 0.0:
        raise statistics.StatisticsError("at least one of the inputs is constant")
    return _float(np.dot(dx, dy) / np.sqrt(product))


@stands_for("statistics", "linear_regression", run=None)
def linear_regression(x, y, /, *, proportional=False):
    if proportional:
        x, y = _array(_listed(x)), _array(_listed(y))
        return statistics.LinearRegression(slope=_float(np.dot(x, y) / np.dot(x, x)), intercept=0.0)
    dx, dy = _centred(x, y, "linear regression")
    slope = _float(np.dot(dx, dy) / np.dot(dx, dx))
    means = [_float(np.mean(_array(_listed(data)))) for data in (x, y)]
    return statistics.LinearRegression(slope=slope, intercept=means[1] - slope * means[0])
