"""``scipy.interpolate.BSpline`` of traced knots, evaluated by de Boor's recursion.

Splines of plain knots are piecewise polynomials
(`numbatape.scipy_api.interpolate.piecewise_polynomials`). The coefficients of those are rational functions of
the knots, so here the weights are combined at each point instead.
"""

from __future__ import annotations

import numpy as np

from ...trace.axes import length
from ...trace.operands import lift_all
from .piecewise_polynomials import column, refuse, to_axis


class FreeKnots:
    """A B-spline whose knots are traced.

    Parameters
    ----------
    t : array
        Knots, in ascending order.
    c : array
        Weights, of which those of one spline of the basis are an entry of the first axis.
    k : int
        Degree.
    extrapolate : bool, "periodic" or None
    axis : int
        Where the points' axes go in the result.
    """

    def __init__(self, t, c, k: int, extrapolate, axis: int = 0):
        self.t, self.c = lift_all(t, c)
        self.k, self.extrapolate, self.axis = k, extrapolate, axis

    @property
    def x(self):
        """Return the breakpoints between which the spline is defined."""
        return self.t[self.k : length(self.t, 0) - self.k]

    def __getattr__(self, name: str):
        raise refuse(f"BSpline.{name} of traced knots", "call it, with nu= for derivatives")

    def __call__(self, x, nu: int = 0, extrapolate=None):
        """Return values (or derivatives of order ``nu``), where knots and coefficients may be traced."""
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        t, c, k = self.t, self.c, self.k
        first, last = t[k], t[-k - 1]
        for _ in range(nu):
            t, c, k = _slopes(t, c, k)
        x, t, c = lift_all(x, t, c)
        if extrapolate == "periodic":
            x = first + np.remainder(x - first, last - first)
        trailing = c.ndim - 1
        place = np.clip(np.searchsorted(t, x, "right") - 1, k, length(t, 0) - k - 2)
        parts = [c[place - k + j] for j in range(k + 1)]
        for level in range(1, k + 1):
            for j in range(k, level - 1, -1):
                left, right = t[place - k + j], t[place + 1 + j - level]
                share = column((x - left) / (right - left), trailing)
                parts[j] = (1.0 - share) * parts[j - 1] + share * parts[j]
        value = parts[k] + column(0.0 * x, trailing)
        if not extrapolate:
            value = np.where(column((x < first) | (x > last), trailing), np.nan, value)
        return to_axis(value, x.ndim, self.axis)

    def moved(self, axis: int) -> FreeKnots:
        """Return the spline whose points' axes go somewhere else in the result."""
        return FreeKnots(self.t, self.c, self.k, self.extrapolate, axis)

    def derivative(self, nu: int = 1):
        """Return the spline's derivative."""
        t, c, k = self.t, self.c, self.k
        for _ in range(nu):
            t, c, k = _slopes(t, c, k)
        return FreeKnots(t, c, k, self.extrapolate, self.axis)

    def antiderivative(self, nu: int = 1):
        """Return the spline's antiderivative, which is zero at the first of all knots."""
        t, c, k = self.t, self.c, self.k
        for _ in range(nu):
            sums = np.cumsum(column(t[k + 1 :] - t[: -k - 1], c.ndim - 1) * c, 0) / (k + 1)
            c = np.concatenate([np.zeros((1, *sums.shape[1:])), sums])
            t, k = np.concatenate([t[:1], t, t[-1:]]), k + 1
        extrapolate = False if self.extrapolate == "periodic" else self.extrapolate
        return FreeKnots(t, c, k, extrapolate, self.axis)

    def integrate(self, a, b, extrapolate=None):
        """Return the integral from a to b; without extrapolation the spline counts as zero outside."""
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        if extrapolate == "periodic":
            raise refuse("BSpline.integrate of traced knots and a periodic spline", "a sum of integrals is")
        if not extrapolate:
            ends = self.t[self.k], self.t[-self.k - 1]
            a, b = (np.clip(end, *ends) for end in (a, b))
        rising = self.antiderivative()
        return rising(b, extrapolate=True) - rising(a, extrapolate=True)


def _slopes(t, c, k: int):
    """Return knots, weights and degree of the derivative; the spline of a weight of no width vanishes."""
    if not k:
        return t, 0.0 * c, k
    width = t[k + 1 : -1] - t[1 : -k - 1]
    none = np.equal(width, 0.0)
    steps = column(np.where(none, 0.0, k / np.where(none, 1.0, width)), c.ndim - 1) * np.diff(c, axis=0)
    return t[1:-1], steps, k - 1


def of_traced_knots(t, c, k, extrapolate, axis: int) -> FreeKnots:
    """Return a spline of traced knots; that they ascend, and that there are enough weights, are guards."""
    t, c = lift_all(t, c)
    weights = length(c, axis)
    count = length(t, 0) - k - 1
    if k < 0 or t.ndim != 1 or count < k + 1 or weights < count:
        raise ValueError(f"{len(t)} knots and {int(weights)} weights make no spline of degree {k}")
    if bool(np.any(t[1:] < t[:-1])):
        raise ValueError("Knots must be in a non-decreasing order.")
    if not bool(t[k] < t[count]):
        raise ValueError("Internal knots are repeated over the whole interval.")
    return FreeKnots(t, np.moveaxis(c, axis, 0)[:count], k, extrapolate, axis % c.ndim)
