"""``scipy.interpolate``: piecewise polynomials and grids, at traced points and of traced values.

An interpolator that was made outside, and one that is made inside of a traced function, are both replaced
by a stand-in. Where a construction is linear in the values (splines, linear interpolation), SciPy makes it
of unit vectors once, and traced values are combined with that.
"""

from __future__ import annotations

import itertools
import sys
from typing import Any

import numpy as np

from ..errors import UnsupportedOperationError
from ..late import imported
from ..numpy_api.function_tables import MAKERS
from ..trace.operands import find_trace, lift_all
from ..trace.primitives import sample_of
from ..trace.trace import failing
from ..usercode.frames import where_in_user_code

PIECEWISE = ("CubicSpline", "PchipInterpolator", "Akima1DInterpolator", "CubicHermiteSpline", "PPoly")
NAMES = (*PIECEWISE, "BSpline", "make_interp_spline", "interp1d", "RegularGridInterpolator")


def _package():
    return sys.modules["scipy.interpolate"]


def refuse(what: str, instead: str) -> UnsupportedOperationError:
    """Return the error for what interpolators do not do with traced values."""
    return UnsupportedOperationError(
        f"scipy.interpolate.{what} at {where_in_user_code()} is not supported; {instead}"
    )


class Piecewise:
    """A piecewise polynomial at traced points; the stand-in for SciPy's interpolators in one variable.

    Parameters
    ----------
    original
        SciPy's object, for plain points and for everything but calls; None if the coefficients are traced.
    c : array
        Coefficients by descending powers: shape ``(order, intervals, ...)``.
    x : numpy.ndarray
        Breakpoints.
    extrapolate : bool, "periodic" or None
    axis : int
        Where the points' axes go in the result.
    """

    def __init__(self, original, c, x, extrapolate, axis: int = 0):
        self._original, self.c, self.x = original, c, np.asarray(x, float)
        self.extrapolate, self.axis = extrapolate, axis

    def __getattr__(self, name: str):
        original = self.__dict__.get("_original")
        if original is None:
            raise refuse(f"PPoly.{name} of a spline of traced values", "call it, with nu= for derivatives")
        return getattr(original, name)

    def __call__(self, x, nu: int = 0, extrapolate=None):
        if find_trace(x) is None and self._original is not None:
            return self._original(x, nu, extrapolate) if extrapolate is not None else self._original(x, nu)
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        x, c, places = lift_all(x, self._differentiated(nu), self.x)
        first, last = self.x[0], self.x[-1]
        if extrapolate == "periodic":
            x = first + np.remainder(x - first, last - first)
        k = np.clip(np.searchsorted(places, x, "right") - 1, 0, len(self.x) - 2)
        trailing = c.ndim - 2
        step = _column(x - places[k], trailing)
        value = c[0][k] + 0.0 * step
        for part in range(1, np.shape(sample_of(c))[0]):
            value = value * step + c[part][k]
        if not extrapolate:
            value = np.where(_column((x < first) | (x > last), trailing), np.nan, value)
        return _to_axis(value, x.ndim, self.axis)

    def _differentiated(self, nu: int):
        """Return the coefficients of a derivative."""
        if nu < 0:
            raise refuse("PPoly(x, nu < 0) of traced points", "antiderivative() of the interpolator")
        c = self.c
        for _ in range(nu):
            powers = np.arange(np.shape(sample_of(c))[0] - 1.0, 0.0, -1.0)
            trailing = len(np.shape(sample_of(c))) - 1
            c = c[:-1] * np.reshape(powers, (-1, *(1,) * trailing)) if len(powers) else 0.0 * c
        return c

    def derivative(self, nu: int = 1):
        """Return the interpolator's derivative, as a stand-in."""
        original = self._original.derivative(nu) if self._original is not None else None
        if original is not None:
            return stand_in_of(original)
        return Piecewise(None, self._differentiated(nu), self.x, self.extrapolate, self.axis)

    def antiderivative(self, nu: int = 1):
        """Return the interpolator's antiderivative, as a stand-in."""
        if self._original is None:
            raise refuse("antiderivative of a spline of traced values", "np.trapezoid, or quad")
        return stand_in_of(self._original.antiderivative(nu))


def _column(x, trailing: int):
    """Return an array with further axes of length 1."""
    return x[(..., *(None,) * trailing)] if trailing else x


def _to_axis(value, points: int, axis: int):
    """Move the axes of the points, which come first, behind ``axis`` others."""
    if not axis:
        return value
    order = [*range(value.ndim)]
    order = order[points : points + axis] + order[:points] + order[points + axis :]
    return np.transpose(value, order)


class Grid:
    """The stand-in for ``RegularGridInterpolator`` with ``method="linear"``."""

    def __init__(self, original, points, values, bounds_error: bool, fill_value, method: str):
        self._original, self.grid, self.values = original, tuple(np.asarray(p, float) for p in points), values
        self.bounds_error, self.fill_value, self.method = bounds_error, fill_value, method

    def __call__(self, xi, method=None, *, nu=None):
        method = self.method if method is None else method
        if find_trace(xi, self.values) is None:
            return self._original(xi, method, nu=nu)
        if method != "linear" or nu is not None:
            raise refuse(f"RegularGridInterpolator(method={method!r}) of traced values", "method='linear' is")
        if isinstance(xi, tuple):
            xi = np.stack(np.broadcast_arrays(*xi), -1)
        elif isinstance(xi, list) and find_trace(xi) is not None:
            xi = np.stack(xi)
        elif find_trace(xi) is None:
            xi = np.asarray(xi, float)
        if len(np.shape(sample_of(xi))) == 1:
            xi = np.reshape(xi, (1, -1)) if len(self.grid) > 1 else np.reshape(xi, (-1, 1))
        xi, values, *axes = lift_all(xi, self.values, *self.grid)
        outside, places, weights = False, [], []
        for d, axis in enumerate(axes):
            x = xi[..., d]
            outside = outside | (x < axis[0]) | (x > axis[-1])
            k = np.clip(np.searchsorted(axis, x, "right") - 1, 0, len(self.grid[d]) - 2)
            places.append(k)
            weights.append((x - axis[k]) / (axis[k + 1] - axis[k]))
        if self.bounds_error and bool(np.any(outside)):
            raise ValueError("One of the requested xi is out of bounds")
        total: Any = 0.0
        trailing = values.ndim - len(self.grid)
        for corner in itertools.product((0, 1), repeat=len(self.grid)):
            weight: Any = 1.0
            for bit, w in zip(corner, weights, strict=True):
                weight = weight * (w if bit else 1.0 - w)
            entry = values[tuple(k + bit for k, bit in zip(places, corner, strict=True))]
            total = total + _column(weight, trailing) * entry
        if self.fill_value is None or self.bounds_error:
            return total
        return np.where(_column(outside, trailing), self.fill_value, total)


def stand_in_of(value):
    """Return the stand-in for an interpolator that SciPy has made, or None."""
    package = sys.modules.get("scipy.interpolate")
    if package is None:
        return None
    if isinstance(value, package.PPoly):
        return Piecewise(value, np.asarray(value.c), value.x, value.extrapolate, value.axis)
    if isinstance(value, package.BSpline):
        t, k = np.asarray(value.t), value.k
        c, x = _polynomials(t, np.asarray(value.c), k)
        return Piecewise(value, c, x, value.extrapolate, value.axis)
    if isinstance(value, package.UnivariateSpline):
        return imported(".fitpack", __package__).fitted(value)
    if type(value) is package.interp1d:
        return _thawed_interp1d(value)
    if type(value) is package.RegularGridInterpolator:
        options = value.bounds_error, value.fill_value, value.method
        return Grid(value, value.grid, np.asarray(value.values), *options)
    return None


def _polynomials(t: np.ndarray, c: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return coefficients and breakpoints of a spline as a piecewise polynomial."""
    n = len(t) - k - 1
    made = [_package().PPoly.from_spline((t, column, k)) for column in c[:n].reshape(n, -1).T]
    x = made[0].x[k : len(made[0].x) - k] if len(made[0].x) > 2 * k + 1 else made[0].x
    inside = np.flatnonzero(np.diff(made[0].x) > 0)  # intervals of no length hold no points
    x = np.append(made[0].x[inside], made[0].x[inside[-1] + 1])
    stacked = np.stack([one.c[:, inside] for one in made], -1)
    return stacked.reshape(*stacked.shape[:2], *c.shape[1:]), x


def _thawed_interp1d(value):
    spline = getattr(value, "_spline", None)
    kind = getattr(value, "_kind", None)
    if spline is None and kind != "linear":
        return Refused(value, f"interp1d(kind={kind!r})", "linear, quadratic and cubic ones are")
    y = np.moveaxis(value.y, value.axis, 0)
    spline = _package().make_interp_spline(value.x, y, 1 if spline is None else spline.k)
    c, x = _polynomials(spline.t, spline.c, spline.k)
    return Interp1d(value, Piecewise(None, c, x, True, value.axis))


class Interp1d:
    """The stand-in for ``interp1d``: a piecewise polynomial that knows what to do outside of its range."""

    def __init__(self, original, inside: Piecewise):
        self._original, self._inside = original, inside

    def __call__(self, x):
        if find_trace(x) is None and find_trace(self._inside.c) is None:
            return self._original(x)
        value, original = self._inside(x), self._original
        fill = original.fill_value
        if isinstance(fill, str):  # "extrapolate"
            return value
        low, high = np.less(x, self._inside.x[0]), np.greater(x, self._inside.x[-1])
        if original.bounds_error and bool(np.any(low | high)):
            raise ValueError("A value in x is outside of the interpolation range.")
        below, above = fill if isinstance(fill, tuple) else (fill, fill)
        return np.where(low, below, np.where(high, above, value))

    def __getattr__(self, name: str):
        return getattr(self.__dict__["_original"], name)


class Refused:
    """The stand-in for an interpolator that is not supported at traced points; it serves plain ones."""

    def __init__(self, original, what: str, instead: str):
        self._original, self._what, self._instead = original, what, instead

    def error(self):
        return refuse(f"{self._what} of traced numbers", self._instead)

    def __call__(self, x):
        if find_trace(x) is None:
            return self._original(x)
        raise self.error()

    def __getattr__(self, name: str):
        return getattr(self.__dict__["_original"], name)


def _make(name: str):
    """Return what makes the stand-in for a class of `scipy.interpolate`."""

    def make(original):
        def call(*args, **kwargs):
            trace = find_trace(args, tuple(kwargs.values()))
            if trace is None:
                made = original(*args, **kwargs)
                return stand_in_of(made) or made
            with failing(trace):
                return _of_traced(name, original, *args, **kwargs)

        call.__name__ = call.__qualname__ = name
        call.__doc__ = original.__doc__
        for attribute in ("construct_fast", "from_spline", "from_bernstein_basis", "design_matrix"):
            if hasattr(original, attribute):
                setattr(call, attribute, getattr(original, attribute))
        return call

    return make


def _of_traced(name: str, original, *args, **kwargs):
    """Return an interpolator of traced values."""
    if name == "PPoly":
        return _ppoly(*args, **kwargs)
    if name == "BSpline":
        return bspline(*args, **kwargs)
    if name == "RegularGridInterpolator":
        return _grid(original, *args, **kwargs)
    if name in ("PchipInterpolator", "Akima1DInterpolator", "CubicHermiteSpline"):
        raise refuse(
            f"{name} of traced values", "CubicSpline and make_interp_spline, which are linear in them, are"
        )
    return _linear(name, original, *args, **kwargs)


PARAMETERS = {  # behind x and y
    "CubicSpline": ("axis", "bc_type", "extrapolate"),
    "make_interp_spline": ("k", "t", "bc_type", "axis", "check_finite"),
    "interp1d": ("kind", "axis", "copy", "bounds_error", "fill_value", "assume_sorted"),
}


def _linear(name: str, original, x, y, *args, **kwargs):
    """Return an interpolator that is linear in its values, by those of unit vectors."""
    if find_trace(x) is not None:
        raise refuse(
            f"{name} of traced breakpoints", "breakpoints are data: nt.stop_gradient(x), or np.interp"
        )
    options = dict(zip(PARAMETERS[name], args, strict=False)) | kwargs
    axis = options.pop("axis", -1 if name == "interp1d" else 0)
    bc = options.get("bc_type")
    if bc is not None and not isinstance(bc, str) and (name != "CubicSpline" or not _is_zero(bc)):
        raise refuse(f"{name}(bc_type={bc!r}) of traced values", "names and values of zero are")
    y = np.moveaxis(y, axis, 0)
    axis = axis % y.ndim
    units, values = np.eye(len(x)), y
    if bc == "periodic":  # the last value is the first
        units = np.concatenate([units[:-1, :-1], units[:1, :-1]])
        values = y[:-1]
    if isinstance(bc, (tuple, list)):
        zeros = np.zeros(units.shape[1])
        options["bc_type"] = tuple(end if isinstance(end, str) else (end[0], zeros) for end in bc)
    made = original(x, units, axis=0, **options)
    if name == "interp1d":
        base = _thawed_interp1d(made)
        if isinstance(base, Refused):
            raise base.error()
        inner = base._inside
        return Interp1d(made, Piecewise(None, combined(inner.c, values), inner.x, True, axis))
    base = stand_in_of(made)
    return Piecewise(None, combined(base.c, values), base.x, base.extrapolate, axis)


def _is_zero(bc) -> bool:
    """Whether all ends of a spline have names, or ``(order, 0.0)``."""
    return all(isinstance(end, str) or (len(end) == 2 and np.all(np.asarray(end[1]) == 0.0)) for end in bc)


def combined(c: np.ndarray, values):
    """Return coefficients of values, given those of unit vectors along the last axis."""
    return np.tensordot(c, values, (2, 0))


def _ppoly(c, x, extrapolate=None, axis=0):
    if find_trace(x) is not None:
        raise refuse("PPoly of traced breakpoints", "breakpoints are data: nt.stop_gradient(x)")
    c = np.moveaxis(np.moveaxis(c, axis + 1, 0), axis + 1, 0) if axis else c
    return Piecewise(None, c, x, True if extrapolate is None else extrapolate, axis)


def bspline(t, c, k, extrapolate=True, axis=0) -> Piecewise:
    """Return a spline of plain knots and traced or plain coefficients, at traced points."""
    if find_trace(t) is not None:
        raise refuse("BSpline of traced knots", "knots are data: nt.stop_gradient(t)")
    t = np.asarray(t, float)
    n = len(t) - k - 1
    units, x = _polynomials(t, np.eye(n), k)
    values = np.moveaxis(c, axis, 0)[:n]
    return Piecewise(None, combined(units, values), x, extrapolate, axis)


def _grid(original, points, values, method="linear", bounds_error=True, fill_value=np.nan, **options):
    if find_trace(points) is not None:
        raise refuse("RegularGridInterpolator of traced grid points", "grid points are data")
    return Grid(None, points, values, bounds_error, fill_value, method)


for _name in NAMES:
    MAKERS.setdefault("scipy.interpolate", {})[_name] = _make(_name)
