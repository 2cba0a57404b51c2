"""Places at which a spline of traced values takes a value: its roots, and what solves it.

SciPy finds them for plain numbers. Two of Newton's steps from there have the first three derivatives of the
equation's solution, and change its value by rounding only. A place at which the spline jumps over the value
is a breakpoint, and moves with that.
"""

from __future__ import annotations

import numpy as np
import scipy.interpolate

from ...rules.searches import Search
from ...trace.operands import lift_all, values_of
from ...trace.primitives import stop_gradient

STEPS = 2
JUMP = 1e-8  # at a breakpoint, rest of the equation below this, over the largest coefficient, is rounding


def solutions(spline, y, discontinuity: bool, extrapolate, refuse):
    """Return the places where a spline has the value y."""
    c, x, y = lift_all(spline.c, spline.x, y)
    if c.ndim > 2:
        raise refuse("PPoly.solve of several splines of traced values", "that of one is")

    def search(c, x, y):
        plain = scipy.interpolate.PPoly(c, x, spline.extrapolate)
        found = plain.solve(float(y), discontinuity, extrapolate)
        return np.asarray(found)[~np.isnan(found)]  # NaN stands behind an interval of nothing but roots

    found = Search("scipy.interpolate.PPoly.solve", search, (c, x, y))
    int(found.numbers("number of solutions", len))  # a guard
    places = found.numbers("solutions", lambda found: found)
    if not np.size(values_of(places)):
        return places
    slope = spline.derivative()
    breakpoints = x[np.argmin(np.abs(np.expand_dims(places, -1) - stop_gradient(x)), -1)]
    # Far outside, what rounding leaves of the equation is large; but a jump is exactly at its breakpoint.
    small = np.abs(spline(places, extrapolate=True) - y) <= JUMP * (np.max(np.abs(c)) + np.abs(y))
    crossed = small | (places != stop_gradient(breakpoints))
    root = places
    for _ in range(STEPS):
        rise = np.where(crossed, slope(root, extrapolate=True), 1.0)
        root = root - np.where(crossed, (spline(root, extrapolate=True) - y) / rise, 0.0)
    return np.where(crossed, root, breakpoints)
