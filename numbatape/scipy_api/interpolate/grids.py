"""Interpolation on grids in ``scipy.interpolate``, of traced values and at traced points.

Splines on grids are tensor products. A spline is linear in its values, so SciPy makes those of unit vectors
along each axis once; at some points, these give one matrix of weights an axis, which the table is
multiplied with.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import scipy.interpolate

from ...numpy_api.function_tables import MAKERS
from ...numpy_api.stand_ins import stands_for, with_original
from ...rules.searches import Search
from ...trace.operands import find_trace, is_wrong, lift_all, lift_first, may_be_guard
from ...trace.primitives import sample_of, stop_gradient
from ...trace.trace import standing
from .piecewise_polynomials import basis, column, refuse

DEGREES = {"slinear": 1, "cubic": 3, "quintic": 5}
METHODS = ("linear", "nearest", *DEGREES)


class Grid:
    """The stand-in for ``RegularGridInterpolator``."""

    def __init__(self, original, points, values, bounds_error: bool, fill_value, method: str):
        self._original, self.grid, self.values = original, tuple(np.asarray(p, float) for p in points), values
        self.bounds_error, self.fill_value, self.method = bounds_error, fill_value, method

    def __call__(self, xi, method=None, *, nu=None):
        """Return the interpolated values at points; values or points may be traced."""
        method = self.method if method is None else method
        if find_trace(xi, self.values) is None:
            return self._original(xi, method, nu=nu)
        if method not in METHODS:
            raise refuse(
                f"RegularGridInterpolator(method={method!r}) of traced values", f"{', '.join(METHODS)} are"
            )
        if nu is not None and method not in DEGREES:
            raise ValueError(f"nu is only supported for spline methods, not for {method!r}")
        if isinstance(xi, tuple):
            xi = _points_of(xi)
            # SciPy returns one number for a tuple of numbers, but an array for a list of them.
            if len(np.shape(sample_of(xi))) == 1:
                return self(np.expand_dims(xi, 0), method, nu=nu)[0]
        elif isinstance(xi, list) and find_trace(xi) is not None:
            (xi,) = lift_all(xi)
        elif find_trace(xi) is None:
            xi = np.asarray(xi, float)
        if len(np.shape(sample_of(xi))) == 1:
            xi = np.reshape(xi, (1, -1)) if len(self.grid) > 1 else np.reshape(xi, (-1, 1))
        xi, values, *axes = lift_all(xi, self.values, *self.grid)
        outside: Any = False
        for d, axis in enumerate(axes):
            outside = outside | (xi[..., d] < axis[0]) | (xi[..., d] > axis[-1])
        # A place outside gives NaN and no error in later steps of a loop.
        fill = np.nan if self.bounds_error else self.fill_value
        if self.bounds_error and is_wrong(np.any(outside)):
            raise ValueError("One of the requested xi is out of bounds")
        if method == "nearest":
            total = values[tuple(_nearest(axis, xi[..., d]) for d, axis in enumerate(axes))]
        elif method == "linear":
            total = _multilinear(axes, values, xi)
        else:
            total = self._spline(values, xi, method, (0,) * len(axes) if nu is None else nu)
        if fill is None or (self.bounds_error and may_be_guard(outside)):
            return total
        return np.where(column(outside, values.ndim - len(self.grid)), fill, total)

    def _spline(self, values, xi, method: str, nu):
        """Return the value of a tensor product of splines.

        SciPy finds the coefficients by iteration, so that they are exact to some six digits. These are the
        coefficients here, too, and their derivatives are those of the exact ones.
        """
        k, shape, trailing = DEGREES[method], xi.shape[:-1], values.shape[len(self.grid) :]
        make, search = scipy.interpolate.RegularGridInterpolator, None
        if find_trace(self.values) is None:
            own = self._original if self._original is not None and self._original.method == method else None
            own = make(self.grid, self.values, method=method) if own is None else own
            c: Any = lift_all(own._spline.c, xi)[0]
        else:
            name = "scipy.interpolate.RegularGridInterpolator"
            search = Search(name, lambda values: make(self.grid, values, method=method)._spline.c, (values,))
            c = values - stop_gradient(values)
        made = [scipy.interpolate.make_interp_spline(x, np.eye(len(x)), k) for x in self.grid]
        if search is not None:
            for d, one in enumerate(made):
                c = np.moveaxis(np.tensordot(one.c, c, (1, d)), 0, d)
            c = c + search.numbers("coefficients", lambda found: found)
        xi = np.reshape(xi, (-1, len(self.grid)))
        total: Any = None
        for d, one in enumerate(made):
            units = basis(one.t, k)(xi[:, d], nu[d])
            if total is None:
                total = units @ np.reshape(c, (len(one.c), -1))
            else:
                total = np.sum(units[:, :, None] * np.reshape(total, (len(units), len(one.c), -1)), 1)
        return np.reshape(total, (*shape, *trailing))


def _interval(axis, x):
    return np.clip(np.searchsorted(axis, x, "right") - 1, 0, len(axis) - 2)


def _nearest(axis, x):
    """Return positions of the nearest entries; the first of two that are equally near, as SciPy."""
    k = _interval(axis, x)
    return np.where((x - axis[k]) / (axis[k + 1] - axis[k]) <= 0.5, k, k + 1)


def _multilinear(axes, values, xi):
    places, weights = [], []
    for d, axis in enumerate(axes):
        k = _interval(axis, xi[..., d])
        places.append(k)
        weights.append((xi[..., d] - axis[k]) / (axis[k + 1] - axis[k]))
    total: Any = 0.0
    trailing = values.ndim - len(axes)
    for corner in itertools.product((0, 1), repeat=len(axes)):
        weight: Any = 1.0
        for bit, w in zip(corner, weights, strict=True):
            weight = weight * (w if bit else 1.0 - w)
        entry = values[tuple(k + bit for k, bit in zip(places, corner, strict=True))]
        total = total + column(weight, trailing) * entry
    return total


def grid_of(value) -> Grid:
    """Return the stand-in for an interpolator on a grid that SciPy has made."""
    return Grid(
        value, value.grid, np.asarray(value.values), value.bounds_error, value.fill_value, value.method
    )


def make_grid(original, points, values, method="linear", bounds_error=True, fill_value=np.nan, **options):
    """Return the interpolator of traced values on a grid."""
    if find_trace(points) is not None:
        raise refuse("RegularGridInterpolator of traced grid points", "grid points are data")
    (values,) = lift_all(values)
    made = original(points, np.zeros(values.shape), "linear", bounds_error)  # checks the grid, and sorts it
    descending = [d for d, axis in enumerate(points) if axis[0] > axis[-1]]
    values = np.flip(values, descending) if descending else values
    return Grid(None, made.grid, values, bounds_error, fill_value, method)


def _points_of(columns: tuple):
    """Return the points that a tuple of their coordinates gives, which may be lists of traced numbers."""
    columns = lift_all(*columns) if find_trace(columns) is not None else columns
    return np.stack(np.broadcast_arrays(*columns), -1)


@stands_for("scipy.interpolate", "interpn", run=None)
def interpn(points, values, xi, method="linear", bounds_error=True, fill_value=np.nan):
    if isinstance(xi, tuple):
        xi = _points_of(xi)
    if method == "splinef2d":
        xi = lift_first(xi, values)
        for d, axis in enumerate(points):
            if np.any(np.less(xi[..., d], axis[0]) | np.greater(xi[..., d], axis[-1])):
                raise refuse("interpn(method='splinef2d') outside of the grid", "use method='cubic'")
        made = standing(scipy.interpolate.RectBivariateSpline)(*points, values)
        return made.ev(xi[..., 0], xi[..., 1])
    make = standing(scipy.interpolate.RegularGridInterpolator)
    return make(points, values, method=method, bounds_error=bounds_error, fill_value=fill_value)(xi)


# ---- FITPACK's splines of two variables


class Surface:
    """The stand-in for ``RectBivariateSpline`` and the other splines of two variables.

    Parameters
    ----------
    original
        SciPy's object, for plain points; None if its values are traced.
    knots : tuple of two arrays
    c : array
        Coefficients, one row for each spline of the first basis.
    degrees : tuple of two ints
    """

    def __init__(self, original, knots, c, degrees):
        self._original, self._knots, self._c, self._degrees = original, knots, c, degrees

    def __getattr__(self, name: str):
        original = self.__dict__.get("_original")
        if original is None:
            raise refuse(f"RectBivariateSpline.{name} of traced values", "calls, ev and integral are")
        return getattr(original, name)

    def __call__(self, x, y, dx=0, dy=0, grid=True):
        if find_trace(x, y, self._c) is None:
            return self._original(x, y, dx, dy, grid)
        if not grid:
            return self.ev(x, y, dx, dy)
        along_x, along_y = self._bases(np.atleast_1d(x), np.atleast_1d(y), dx, dy)
        return along_x @ self._c @ along_y.T

    def ev(self, xi, yi, dx=0, dy=0):
        """Return the values, or derivatives, at points."""
        if find_trace(xi, yi, self._c) is None:
            return self._original.ev(xi, yi, dx, dy)
        xi, yi = np.broadcast_arrays(xi, yi)
        shape = np.shape(sample_of(xi))
        along_x, along_y = self._bases(np.reshape(xi, (-1,)), np.reshape(yi, (-1,)), dx, dy)
        return np.reshape(np.sum((along_x @ self._c) * along_y, 1), shape)

    def integral(self, xa, xb, ya, yb):
        """Return the integral over a rectangle; outside of the knots the spline counts as zero."""
        if find_trace(xa, xb, ya, yb, self._c) is None:
            return self._original.integral(xa, xb, ya, yb)
        parts = []
        for t, k, low, high in zip(self._knots, self._degrees, (xa, ya), (xb, yb), strict=True):
            first, last = t[k], t[len(t) - k - 1]
            rising = basis(t, k).antiderivative()
            parts.append(rising(np.clip(high, first, last)) - rising(np.clip(low, first, last)))
        return parts[0] @ self._c @ parts[1]

    def _bases(self, x, y, dx, dy):
        """Return the splines of both bases at points, which FITPACK moves into the range of the knots."""
        found = []
        for t, k, points, nu in zip(self._knots, self._degrees, (x, y), (dx, dy), strict=True):
            found.append(basis(t, k)(np.clip(points, t[k], t[len(t) - k - 1]), nu))
        return found


def surface_of(value) -> Surface | None:
    """Return the stand-in for a spline of two variables that SciPy has made."""
    if not hasattr(value, "tck") or hasattr(value, "phi"):  # the spline is one on a sphere
        return None
    tx, ty, c = value.tck
    kx, ky = value.degrees
    return Surface(value, (tx, ty), np.reshape(c, (len(tx) - kx - 1, len(ty) - ky - 1)), (kx, ky))


def _rectangle(original, x, y, z, bbox=(None,) * 4, kx=3, ky=3, s=0, **options) -> Surface:
    """Return a ``RectBivariateSpline`` of traced values."""
    if find_trace(x, y, s) is not None or s != 0 or any(end is not None for end in bbox):
        raise refuse(
            "RectBivariateSpline of traced places, with s > 0 or bbox", "the values z of one with s=0 are"
        )
    found = []
    for places, k in ((x, kx), (y, ky)):
        places = np.asarray(places, float)
        made = scipy.interpolate.make_interp_spline(places, np.eye(len(places)), k)
        found.append((made.t, made.c))
    (tx, cx), (ty, cy) = found
    return Surface(None, (tx, ty), cx @ lift_all(z)[0] @ cy.T, (kx, ky))


@stands_for("scipy.interpolate", "bisplev", run=None)
def bisplev(x, y, tck, dx=0, dy=0):
    tx, ty, c, kx, ky = tck
    made = Surface(None, (tx, ty), np.reshape(c, (len(tx) - kx - 1, len(ty) - ky - 1)), (kx, ky))(
        x, y, dx, dy
    )
    if made.shape[1] > 1:
        return made if made.shape[0] > 1 else made[0]
    return made[:, 0] if made.shape[0] > 1 else made[0, 0]


MAKERS["scipy.interpolate"]["RectBivariateSpline"] = with_original(_rectangle, surface_of)
