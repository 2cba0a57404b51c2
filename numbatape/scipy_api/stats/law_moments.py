"""Means, variances and entropies in standard form: those of a law, or SciPy's own formulas, run as copies."""

from __future__ import annotations

import numpy as np

from ...errors import LeakError, UnsupportedOperationError
from ...trace import operations
from ...trace.operands import find_trace
from ...usercode.frames import not_supported
from .laws import Law

GENERIC = ("rv_generic", "rv_continuous", "rv_discrete")  # their methods integrate or sum
# For the moments of these SciPy has a formula apart for a single value of a shape parameter, and
# the slope of such a formula is not that of the function there.
WITH_SINGLE_VALUES = ("genextreme", "trapezoid", "truncpareto")


def standard_moment(distribution, law: Law, name: str, shapes):
    """Return the mean, the variance or the entropy at loc 0 and scale 1."""
    known = getattr(law, name)
    if known is not None:
        return known(*shapes)
    if find_trace(shapes) is None:
        return getattr(distribution, name)(*shapes)
    try:
        result = _by_scipys_formula(distribution, name, [shape + 0.0 for shape in shapes])
    except (LeakError, UnsupportedOperationError, ValueError) as error:  # SciPy's own errors came before
        raise _unsupported(distribution, name) from error
    if result is None:
        raise _unsupported(distribution, name)
    return result


def _unsupported(distribution, name: str) -> UnsupportedOperationError:
    return not_supported(
        f"scipy.stats.{distribution.name}.{name} of traced shape parameters",
        f"of traced loc and scale it is, and so is {distribution.name}.expect",
    )


def _by_scipys_formula(distribution, name: str, shapes):
    """Return what SciPy's private methods with formulas give, or None if the distribution has none."""
    if name == "entropy":
        return _copied(distribution, "_entropy", *shapes)
    if distribution.name in WITH_SINGLE_VALUES:
        return None
    options = {"moments": "mv"} if distribution._stats_has_moments else {}
    both = _copied(distribution, "_stats", *shapes, **options)
    result = None if both is None else both[("mean", "var").index(name)]
    if result is not None:
        return result
    mean = _copied(distribution, "_munp", 1, *shapes)
    if mean is None or name == "mean":
        return mean
    return _copied(distribution, "_munp", 2, *shapes) - np.square(mean)


def _copied(distribution, method: str, *args, **options):
    """Call a copy of a method of SciPy's, unless it is the one that integrates."""
    function = getattr(type(distribution), method)
    if function.__qualname__.partition(".")[0] in GENERIC:
        return None
    return operations.library_copy(function)(distribution, *args, **options)
