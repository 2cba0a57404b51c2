"""``numpy.testing`` of traced arrays.

NumPy compares the numbers of the trace, and raises its own error. What is recorded is a guard on the outcome:
for numbers with another outcome the function runs again, and NumPy raises there.
"""

from __future__ import annotations

import numpy as np

from ..trace.operands import lift_all
from .stand_ins import stands_for


def _guard(outcome) -> None:
    """Record the outcome of a comparison of arrays."""
    bool(np.all(outcome))


@stands_for("numpy.testing", "assert_allclose")
def assert_allclose(actual, desired, rtol=1e-07, atol=0, equal_nan=True, *message, **options):
    actual, desired = lift_all(actual, desired)
    _guard(np.isclose(actual, desired, rtol, atol, equal_nan))


@stands_for("numpy.testing", "assert_array_equal", "assert_equal")
def assert_array_equal(actual, desired, *message, **options):
    actual, desired = lift_all(actual, desired)
    _guard((actual == desired) | (np.isnan(actual) & np.isnan(desired)))


def _almost_equal(decimals: int):
    def compare(actual, desired, decimal=decimals, *message, **options):
        actual, desired = lift_all(actual, desired)
        near = np.abs(desired - actual) < 1.5 * 10.0**-decimal
        _guard(near | (actual == desired) | (np.isnan(actual) & np.isnan(desired)))

    return compare


stands_for("numpy.testing", "assert_almost_equal")(_almost_equal(7))
stands_for("numpy.testing", "assert_array_almost_equal")(_almost_equal(6))


@stands_for("numpy.testing", "assert_array_less")
def assert_array_less(x, y, *message, **options):
    x, y = lift_all(x, y)
    _guard(x < y)
