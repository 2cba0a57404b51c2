"""Functions of Python's ``statistics`` for traced numbers, which the module would convert to fractions."""

from __future__ import annotations

import statistics

import numpy as np

from ..trace.array import TracedArray
from .stand_ins import stands_for


def _array(data):
    """Return numbers as one array."""
    return data if isinstance(data, np.ndarray) or type(data) is TracedArray else np.stack(list(data))


def _require(x, least: int, name: str):
    if len(x) < least:
        raise statistics.StatisticsError(f"{name} requires at least {least} data points")
    return x


@stands_for("statistics", "fmean", run=None)
def fmean(data, weights=None):
    x = _array(data)
    if weights is None:
        return np.mean(x)
    weights = _array(weights)
    if len(weights) != len(x):
        raise statistics.StatisticsError("data and weights must be the same length")
    total = np.sum(weights)
    if total == 0.0:
        raise statistics.StatisticsError("sum of weights must be non-zero")
    return np.dot(x, weights) / total


@stands_for("statistics", "mean", run=None)
def mean(data):
    return np.mean(_array(data))


@stands_for("statistics", "geometric_mean", run=None)
def geometric_mean(data):
    return np.exp(np.mean(np.log(_array(data))))


@stands_for("statistics", "harmonic_mean", run=None)
def harmonic_mean(data, weights=None):
    x = _array(data)
    weights = np.ones(len(x)) if weights is None else _array(weights)
    if np.any(x < 0.0):
        raise statistics.StatisticsError("harmonic mean does not support negative values")
    return np.sum(weights) / np.sum(weights / x)


def _squares(x, center):
    return np.sum((x - (np.mean(x) if center is None else center)) ** 2)


@stands_for("statistics", "pvariance", run=None)
def pvariance(data, mu=None):
    x = _array(data)
    return _squares(x, mu) / len(x)


@stands_for("statistics", "variance", run=None)
def variance(data, xbar=None):
    x = _require(_array(data), 2, "variance")
    return _squares(x, xbar) / (len(x) - 1)


@stands_for("statistics", "pstdev", run=None)
def pstdev(data, mu=None):
    return np.sqrt(pvariance(data, mu))


@stands_for("statistics", "stdev", run=None)
def stdev(data, xbar=None):
    return np.sqrt(variance(data, xbar))


def _centred(x, y, name: str) -> tuple:
    x, y = _array(x), _array(y)
    if len(x) != len(y):
        raise statistics.StatisticsError(f"{name} requires that both inputs have same number of data points")
    _require(x, 2, name)
    return x - np.mean(x), y - np.mean(y)


@stands_for("statistics", "covariance", run=None)
def covariance(x, y, /):
    dx, dy = _centred(x, y, "covariance")
    return np.dot(dx, dy) / (len(dx) - 1)


def _ranks(data):
    """Return the rank of each number; equal numbers share the mean of their ranks."""
    x = _array(data)
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
    return np.dot(dx, dy) / np.sqrt(product)


@stands_for("statistics", "linear_regression", run=None)
def linear_regression(x, y, /, *, proportional=False):
    if proportional:
        x, y = _array(x), _array(y)
        return statistics.LinearRegression(slope=np.dot(x, y) / np.dot(x, x), intercept=0.0)
    dx, dy = _centred(x, y, "linear regression")
    slope = np.dot(dx, dy) / np.dot(dx, dx)
    return statistics.LinearRegression(slope=slope, intercept=np.mean(_array(y)) - slope * np.mean(_array(x)))
