"""Piecewise polynomials at traced points, and of traced coefficients: the stand-ins for SciPy's splines."""

from __future__ import annotations

import numpy as np
import scipy.interpolate

from ...errors import UnsupportedOperationError
from ...late import imported
from ...trace.axes import entries, length
from ...trace.operands import find_trace, lift_all
from ...trace.plain_arrays import as_ndarrays
from ...trace.symbolic_sizes import is_size
from ...usercode.frames import not_supported


def refuse(what: str, instead: str) -> UnsupportedOperationError:
    """Return the error for what interpolators do not do with traced values."""
    return not_supported(f"scipy.interpolate.{what}", instead)


class Piecewise:
    """A piecewise polynomial at traced points; the stand-in for SciPy's interpolators in one variable.

    Parameters
    ----------
    original
        SciPy's object, for plain points and for everything but calls; None if the coefficients are traced.
    c : array
        Coefficients by descending powers: shape ``(order, intervals, ...)``.
    x : array
        Breakpoints.
    extrapolate : bool, "periodic" or None
    axis : int
        Where the points' axes go in the result.
    """

    def __init__(self, original, c, x, extrapolate, axis: int = 0):
        self._original, self.c = original, as_ndarrays(c)
        self.x = x if find_trace(x) is not None else np.asarray(x, float)
        self.extrapolate, self.axis = extrapolate, axis

    def __getattr__(self, name: str):
        original = self.__dict__.get("_original")
        if original is None:
            raise refuse(f"PPoly.{name} of a spline of traced values", "call it, with nu= for derivatives")
        return getattr(original, name)

    def __call__(self, x, nu: int = 0, extrapolate=None):
        """Return values (or derivatives of order ``nu``) at traced points."""
        if find_trace(x) is None and self._original is not None:
            return self._original(x, nu, extrapolate) if extrapolate is not None else self._original(x, nu)
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        x, c, places = lift_all(x, self._differentiated(nu), self.x)
        if x.ndim == 0 and is_size(length(places, 0)):  # a number as an index would be settled for one size
            return self(np.expand_dims(x, 0), nu, extrapolate)[(slice(None),) * self.axis + (0,)]
        first, last = places[0], places[-1]
        if extrapolate == "periodic":
            x = first + np.remainder(x - first, last - first)
        if self.x[0] > self.x[-1]:  # breakpoints of a PPoly may descend
            k = entries(places, (0,), 1) - np.searchsorted(places[::-1], x, "left")
            first, last = last, first
        else:
            k = np.searchsorted(places, x, "right") - 1
        k = np.clip(k, 0, entries(places, (0,), 2))
        trailing = c.ndim - 2
        step = column(x - places[k], trailing)
        value = c[0][k] + 0.0 * step
        for part in range(1, len(c)):  # which is a guard
            value = value * step + c[part][k]
        if not extrapolate:
            value = np.where(column((x < first) | (x > last), trailing), np.nan, value)
        return to_axis(value, x.ndim, self.axis)

    def _differentiated(self, nu: int):
        """Return the coefficients of a derivative."""
        if nu < 0:
            raise refuse("PPoly(x, nu < 0) of traced points", "antiderivative() of the interpolator")
        c = self.c
        for _ in range(nu):
            powers = np.arange(len(c) - 1.0, 0.0, -1.0)
            c = c[:-1] * column(powers, c.ndim - 1) if len(powers) else 0.0 * c
        return c

    def derivative(self, nu: int = 1):
        """Return the interpolator's derivative, as a stand-in."""
        original = self._original.derivative(nu) if self._original is not None else None
        if original is not None:
            return polynomial_of(original)
        return Piecewise(None, self._differentiated(nu), self.x, self.extrapolate, self.axis)

    def antiderivative(self, nu: int = 1):
        """Return the interpolator's antiderivative, which is zero at the first breakpoint, as a stand-in."""
        if self._original is not None:
            return polynomial_of(self._original.antiderivative(nu))
        c, x = lift_all(self.c, self.x)
        for _ in range(nu):
            shape = (-1, *(1,) * (c.ndim - 1))
            raised = c / np.reshape(np.arange(len(c), 0.0, -1.0), shape)
            steps = column(x[1:] - x[:-1], c.ndim - 2)
            whole = raised[0] * steps
            for part in range(1, len(c)):
                whole = (whole + raised[part]) * steps
            starts = np.concatenate([np.zeros_like(whole[:1]), np.cumsum(whole, 0)[:-1]])
            c = np.concatenate([raised, starts[None]])
        extrapolate = False if self.extrapolate == "periodic" else self.extrapolate
        return Piecewise(None, c, self.x, extrapolate, self.axis)

    def solve(self, y=0.0, discontinuity=True, extrapolate=None):
        """Return the places where the interpolator has a value."""
        if self._original is not None and find_trace(y) is None:
            return self._original.solve(y, discontinuity, extrapolate)
        return imported(".roots", __package__).solutions(self, y, discontinuity, extrapolate, refuse)

    def roots(self, discontinuity=True, extrapolate=None):
        """Return the places where the interpolator is zero."""
        return self.solve(0.0, discontinuity, extrapolate)

    def integrate(self, a, b, extrapolate=None):
        """Return the integral from a to b."""
        if find_trace(a, b) is None and self._original is not None:
            return self._original.integrate(a, b, extrapolate)
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        rising = self.antiderivative()
        if extrapolate != "periodic":
            return rising(b, extrapolate=extrapolate) - rising(a, extrapolate=extrapolate)
        first, last = self.x[0], self.x[-1]

        def up_to(x):
            turns = np.floor((x - first) / (last - first))
            # Rounding may leave the rest of the turns just outside of the breakpoints.
            return turns * rising(last) + rising(x - turns * (last - first), extrapolate=True)

        return up_to(b) - up_to(a)


class InBasis(Piecewise):
    """The stand-in for ``BSpline``, which defines integrals in its own way.

    Parameters
    ----------
    original, c, x, extrapolate, axis
        As of any piecewise polynomial.
    t : numpy.ndarray
        Knots.
    weights : array
        Of the splines of the basis, which are the entries of the first axis.
    k : int
        Degree.
    """

    def __init__(self, original, c, x, extrapolate, axis: int, t: np.ndarray, weights, k: int):
        super().__init__(original, c, x, extrapolate, axis)
        self._basis = t, weights, k

    def antiderivative(self, nu: int = 1):
        """Return the spline's antiderivative, which is zero at the first of all knots, as a stand-in."""
        if self._original is not None:
            return super().antiderivative(nu)
        t, weights, k = self._basis
        for _ in range(nu):
            widths = column(t[k + 1 :] - t[: -k - 1], weights.ndim - 1)
            sums = np.cumsum(widths * weights, 0) / (k + 1)
            weights = np.concatenate([np.zeros((1, *sums.shape[1:])), sums])
            t, k = np.concatenate([t[:1], t, t[-1:]]), k + 1
        return in_basis(
            t, weights, k, False if self.extrapolate == "periodic" else self.extrapolate, self.axis
        )

    def solve(self, y=0.0, discontinuity=True, extrapolate=None):
        """Raise, as SciPy's class has no such method."""
        return self.__getattr__("solve")

    def integrate(self, a, b, extrapolate=None):
        """Return the integral from a to b; without extrapolation the spline counts as zero outside."""
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        if not extrapolate:
            a, b = (np.clip(end, self.x[0], self.x[-1]) for end in (a, b))
        return super().integrate(a, b, extrapolate)


def in_basis(t: np.ndarray, weights, k: int, extrapolate, axis: int) -> InBasis:
    """Return a spline of traced weights, whose first axis goes where ``axis`` says."""
    units, x = polynomials_of(t, np.eye(len(t) - k - 1), k)
    return InBasis(None, combined(units, weights), x, extrapolate, axis, t, weights, k)


def require_increasing(x) -> None:
    """Raise SciPy's error unless breakpoints ascend; of traced ones this is a guard."""
    x = np.asarray(x) if find_trace(x) is None else lift_all(x)[0]
    if bool(np.any(x[1:] <= x[:-1])):
        raise ValueError("`x` must be strictly increasing sequence.")


def require_monotonic(x) -> None:
    """Raise SciPy's error unless breakpoints ascend or descend; of traced ones this is a guard."""
    x = np.asarray(x) if find_trace(x) is None else lift_all(x)[0]
    if bool(x[0] <= x[-1]):
        monotonic = bool(np.all(x[1:] >= x[:-1]))
    else:
        monotonic = bool(np.all(x[1:] <= x[:-1]))
    if not monotonic:
        raise ValueError("`x` must be strictly increasing or decreasing.")


def column(x, trailing: int):
    """Return an array with further axes of length 1."""
    return x[(..., *(None,) * trailing)] if trailing else x


def to_axis(value, points: int, axis: int):
    """Move the axes of the points, which come first, behind ``axis`` others."""
    if not axis:
        return value
    order = [*range(value.ndim)]
    order = order[points : points + axis] + order[:points] + order[points + axis :]
    return np.transpose(value, order)


def combined(c: np.ndarray, values):
    """Return coefficients of values, given those of unit vectors along the last axis."""
    return np.tensordot(c, values, 1)


def polynomial_of(value):
    """Return the stand-in for a piecewise polynomial or a spline that SciPy has made, or None."""
    if isinstance(value, scipy.interpolate.PPoly):
        return Piecewise(value, np.asarray(value.c), value.x, value.extrapolate, value.axis)
    if isinstance(value, scipy.interpolate.BSpline):
        t, k = np.asarray(value.t), value.k
        weights = np.asarray(value.c)
        c, x = polynomials_of(t, weights, k)
        return InBasis(value, c, x, value.extrapolate, value.axis, t, weights, k)
    return None


def polynomials_of(t: np.ndarray, c: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return coefficients and breakpoints of a spline, between its base knots, as a piecewise polynomial."""
    n = len(t) - k - 1
    made = [scipy.interpolate.PPoly.from_spline((t, column, k)) for column in c[:n].reshape(n, -1).T]
    x = made[0].x
    # Intervals of no length hold no points; those before t[k] and after t[n] are not SciPy's either.
    inside = np.flatnonzero((np.diff(x) > 0) & (x[:-1] >= t[k]) & (x[1:] <= t[n]))
    places = np.append(x[inside], x[inside[-1] + 1])
    stacked = np.stack([one.c[:, inside] for one in made], -1)
    return stacked.reshape(*stacked.shape[:2], *c.shape[1:]), places


def basis(t, k: int) -> Piecewise:
    """Return all splines of a basis."""
    t = np.asarray(t, float)
    c, x = polynomials_of(t, np.eye(len(t) - k - 1), k)
    return Piecewise(None, c, x, True)
