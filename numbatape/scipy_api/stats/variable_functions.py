"""Functions of ``scipy.stats`` that make random variables of others, in traced functions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...numpy_api.function_tables import MAKERS
from .distribution_families import as_parameter, variable_of
from .laws import INF
from .random_variables import Folded, RandomVariable
from .transformed_variables import Increasing, Mixture, OrderStatistic, Truncated


def truncate(X, lb=-INF, ub=INF) -> RandomVariable:
    return Truncated(variable_of(X), as_parameter(lb), as_parameter(ub))


def order_statistic(X, /, *, r, n) -> RandomVariable:
    r, n = as_parameter(r), as_parameter(n)
    if np.any(np.not_equal(np.round(r), r) | (r <= 0)) or np.any(np.not_equal(np.round(n), n) | (n < r)):
        raise ValueError("`r` must contain only positive integers, and `n` only integers that are at least r")
    return OrderStatistic(variable_of(X), r, n)


def absolute(X, /) -> RandomVariable:
    return Folded(variable_of(X))


def exponential(X, /) -> RandomVariable:
    return Increasing(variable_of(X), "exp")


def logarithm(X, /) -> RandomVariable:
    variable = variable_of(X)
    if np.any(variable.support()[0] < 0):
        raise NotImplementedError(
            "The logarithm of a random variable is only implemented when the support is non-negative."
        )
    return Increasing(variable, "log")


def mixture(components, *, weights=None) -> RandomVariable:
    weights = None if weights is None else as_parameter(weights)
    if not len(components):
        raise ValueError("`components` must contain at least one random variable.")
    if weights is not None:
        if np.shape(weights) != (len(components),):
            raise ValueError("`components` and `weights` must have the same length.")
        if not np.isclose(np.sum(weights), 1.0) or not np.all(weights >= 0):
            raise ValueError("All `weights` must be non-negative, and they must sum to 1.0.")
    return Mixture([variable_of(one) for one in components], weights)


def _standing_for(function: Callable) -> Callable:
    return lambda original: function


for _name, _function in (
    ("Mixture", mixture),
    ("abs", absolute),
    ("exp", exponential),
    ("log", logarithm),
    ("order_statistic", order_statistic),
    ("truncate", truncate),
):
    MAKERS["scipy.stats"][_name] = _standing_for(_function)
