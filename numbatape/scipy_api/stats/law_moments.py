"""Means, variances and entropies in standard form: those of a law, or SciPy's own formulas, run as copies."""

from __future__ import annotations

import numpy as np
import scipy.stats

from ...errors import LeakError, UnsupportedOperationError
from ...numpy_api.stand_ins import made
from ...trace import operations
from ...trace.operands import find_trace
from ...usercode.frames import not_supported
from .laws import Law

ORDERS = ("mean", "var", "skewness", "kurtosis")
GENERIC = ("rv_generic", "rv_continuous", "rv_discrete")  # their methods integrate or sum
# SciPy has a formula of its own for their moments at a single value of a shape parameter, and
# the slope of such a formula is not that of the function there.
WITH_SINGLE_VALUES = ("genextreme", "truncpareto")


def standard_moment(distribution, law: Law, name: str, shapes):
    """Return a mean, a variance, a skewness, a kurtosis or an entropy at loc 0 and scale 1."""
    known = getattr(law, name, None)
    if known is not None:
        return known(*shapes)
    if find_trace(shapes) is None:
        if name in ("skewness", "kurtosis"):
            return distribution.stats(*shapes, moments=name[0])
        return getattr(distribution, name)(*shapes)
    shapes = [shape + 0.0 for shape in shapes]
    # The distribution is that of a user's class.
    if getattr(scipy.stats, distribution.name, None) is not distribution:
        return _by_users_formula(distribution, law, name, shapes)
    result = _if_copies_run(shapes, lambda: _by_scipys_formula(distribution, law, name, shapes))
    return _expected(distribution, name, shapes) if result is None else result


def moment_about_zero(distribution, law: Law, order: int, shapes):
    """Return a moment about zero in standard form by formulas, or None where there are none."""
    shapes = [shape + 0.0 for shape in shapes]
    return _if_copies_run(shapes, lambda: _about_zero(distribution, law, order, shapes))


def _if_copies_run(shapes, compute):
    """Return what copies of SciPy's formulas give, or None where one needs plain numbers."""
    validity = find_trace(shapes).validity
    before = validity.leak
    try:
        return compute()
    except (LeakError, UnsupportedOperationError, ValueError, TypeError):  # SciPy's own errors came before
        validity.leak = before  # it is not the user's code that caught it
        return None


def _about_zero(distribution, law: Law, order: int, shapes):
    """Return a moment about zero by moments about the mean, as SciPy does, or by a formula of its own."""
    if distribution.name in WITH_SINGLE_VALUES:
        return None
    if order > len(ORDERS) or (law.raw and not law.mean):
        return _raw(distribution, law, order, shapes)
    formulas = [getattr(law, name, None) for name in ORDERS[:order]]
    stats = [None] * order if all(formulas) else _own_stats(distribution, shapes)
    known = [f(*shapes) if f else entry for f, entry in zip(formulas, stats, strict=False)]
    if any(entry is None for entry in known):
        return _raw(distribution, law, order, shapes)
    mean, variance, skewness, kurtosis = (*known, 0.0, 0.0, 0.0)[: len(ORDERS)]
    square = np.square(mean)
    if order < 3:
        return mean if order == 1 else variance + square
    third = skewness * variance**1.5
    if order == 3:
        return third + 3.0 * mean * variance + mean * square
    fourth = (kurtosis + 3.0) * np.square(variance)
    return fourth + 4.0 * mean * third + 6.0 * square * variance + square * square


def _own_stats(distribution, shapes):
    """Return a mean, a variance, a skewness and a kurtosis by SciPy's formulas, None where it has none."""
    options = {"moments": "mvsk"} if distribution._stats_has_moments else {}
    return _copied(distribution, "_stats", *shapes, **options) or [None] * len(ORDERS)


def _raw(distribution, law: Law, order: int, shapes):
    """Return a moment about zero by the law's formula, or by SciPy's."""
    return law.raw(order, *shapes) if law.raw else _copied(distribution, "_munp", order, *shapes)


def _by_users_formula(distribution, law: Law, name: str, shapes):
    try:
        result = _by_scipys_formula(distribution, law, name, shapes)
    except (LeakError, UnsupportedOperationError, ValueError) as error:
        raise _unsupported(distribution, name) from error
    if result is None:
        raise _unsupported(distribution, name)
    return result


def _unsupported(distribution, name: str) -> UnsupportedOperationError:
    return not_supported(
        f"scipy.stats.{distribution.name}.{name} of traced shape parameters",
        f"of traced loc and scale it is, and so is {distribution.name}.expect",
    )


def _expected(distribution, name: str, shapes):
    return made("scipy.stats", "_implied.expected", (distribution, name, shapes))


def _by_scipys_formula(distribution, law: Law, name: str, shapes):
    """Return what SciPy's private methods with formulas give, or None if the distribution has none."""
    if name == "entropy":
        return _copied(distribution, "_entropy", *shapes)
    if distribution.name in WITH_SINGLE_VALUES:
        return None
    result = _own_stats(distribution, shapes)[ORDERS.index(name)]
    if result is not None:
        return result
    raw = []  # moments about zero
    for order in range(1, ORDERS.index(name) + 2):
        raw.append(_raw(distribution, law, order, shapes))
        if raw[-1] is None:
            return None
    return about_the_mean(name, *raw)


def about_the_mean(name: str, mean, *raw):
    """Return a moment by the moments about zero."""
    if name == "mean":
        return mean
    square = np.square(mean)
    variance = np.where(np.isinf(mean), np.inf, raw[0] - square)
    if name == "var":
        return variance
    if name == "skewness":
        return (raw[1] - 3.0 * mean * variance - mean * square) / variance**1.5
    third = raw[1] - 3.0 * mean * variance - mean * square
    fourth = raw[2] - 4.0 * mean * third - 6.0 * square * variance - square * square
    return fourth / np.square(variance) - 3.0


def _copied(distribution, method: str, *args, **options):
    """Call a copy of a method of SciPy's, unless it is the one that integrates."""
    function = getattr(type(distribution), method)
    if function.__qualname__.partition(".")[0] in GENERIC:
        return None
    return operations.library_copy(function)(distribution, *args, **options)
