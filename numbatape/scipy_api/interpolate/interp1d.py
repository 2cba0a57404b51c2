"""``scipy.interpolate.interp1d`` of traced values and at traced points."""

from __future__ import annotations

import numpy as np
import scipy.interpolate

from ...trace.axes import length
from ...trace.operands import find_trace, is_wrong, lift_all
from ...trace.primitives import sample_of, stop_gradient
from .piecewise_polynomials import Piecewise, combined, polynomials_of, to_axis

STEPS = ("nearest", "nearest-up", "previous", "next", "zero")


class Steps:
    """A function that is constant between places: it takes the values at positions, which are data."""

    def __init__(self, kind: str, x, values, axis: int):
        self._kind, self.x, self.c, self.axis = kind, x, values, axis

    def __call__(self, x):
        places, values, x = lift_all(self.x, self.c, x)
        x, last = stop_gradient(x), len(self.x) - 1
        if self._kind.startswith("nearest"):
            middles = (places[1:] + places[:-1]) / 2.0
            k = np.searchsorted(middles, x, "right" if self._kind == "nearest-up" else "left")
        elif self._kind == "next":
            k = np.searchsorted(places, x, "left")
        else:
            k = np.searchsorted(places, x, "right") - 1
        found = values[np.clip(k, 0, last)]
        if self._kind == "zero":  # SciPy evaluates a spline of degree 0, which is NaN at NaN
            found = np.where(np.isnan(x)[(..., *(None,) * (found.ndim - x.ndim))], np.nan, found)
        return to_axis(found, x.ndim, self.axis)


class Interp1d:
    """The stand-in for ``interp1d``: it knows what to do outside of its range."""

    def __init__(self, original, inside: Piecewise | Steps, fill_value, bounds_error: bool):
        self._original, self._inside = original, inside
        self._fill, self._raises = fill_value, bounds_error

    def __call__(self, x):
        if find_trace(x) is None and find_trace(self._inside.c, self._inside.x, self._fill) is None:
            return self._original(x)
        value, fill = self._inside(x), self._fill
        if isinstance(fill, str):  # the only text that SciPy takes is "extrapolate"
            return value
        low, high = np.less(x, self._inside.x[0]), np.greater(x, self._inside.x[-1])
        if self._raises:
            if is_wrong(np.any(low | high)):
                raise ValueError("A value in x is outside of the interpolation range.")
            fill = np.nan  # A place outside gives NaN and no error in later steps of a loop.
        below, above = fill if isinstance(fill, tuple) else (fill, fill)
        # The dimensions of x stand where the values have the interpolated axis.
        first, count = self._inside.axis, np.ndim(sample_of(x))
        inner = tuple(range(first, first + count))
        outer = tuple(k for k in range(value.ndim) if k not in inner)
        low, high = np.expand_dims(low, outer), np.expand_dims(high, outer)
        below, above = (_beside(fill, inner, len(outer)) for fill in (below, above))
        return np.where(low, below, np.where(high, above, value))

    def __getattr__(self, name: str):
        return getattr(self.__dict__["_original"], name)


def _beside(fill, inner, outer: int):
    """Return a fill value, of a shape that fits the values without their axis, with the dimensions of x."""
    missing = outer - np.ndim(sample_of(fill))
    if missing == outer:
        return fill
    return np.expand_dims(np.expand_dims(fill, tuple(range(missing))), inner)


def of_scipys(value) -> Interp1d:
    """Return the stand-in for an `interp1d` that SciPy has made."""
    spline, kind = getattr(value, "_spline", None), getattr(value, "_kind", None)
    y = np.moveaxis(value.y, value.axis, 0)
    fill = value.fill_value
    if len(value.x) == 1 and kind not in STEPS:
        return _of_one_place(value, value.x, y, value.axis, fill, value.bounds_error)
    if kind in STEPS or (spline is not None and spline.k == 0):
        kind = kind if kind in STEPS else "zero"
        if isinstance(fill, str) and kind in ("previous", "next"):
            fill = (np.nan, y[-1]) if kind == "previous" else (y[0], np.nan)
        return Interp1d(value, Steps(kind, value.x, y, value.axis), fill, value.bounds_error)
    spline = scipy.interpolate.make_interp_spline(value.x, y, 1 if spline is None else spline.k)
    c, x = polynomials_of(spline.t, spline.c, spline.k)
    return Interp1d(value, Piecewise(None, c, x, True, value.axis), fill, value.bounds_error)


def _of_one_place(made, x, values, axis: int, fill, raises: bool) -> Interp1d:
    """Return a linear `interp1d` of one place: its value there; a line through it is NaN."""
    if isinstance(fill, str):
        values = np.nan * values
    return Interp1d(made, Steps("nearest", x, values, axis), fill, raises)


def linear(made, values, axis: int, fill, order) -> Interp1d:
    """Return an `interp1d` of traced values, given SciPy's one of unit vectors.

    Parameters
    ----------
    made
        SciPy's object.
    values : array
        With the interpolated axis first.
    axis : int
        Where this axis goes.
    fill
        As the user has given it; None for SciPy's choice.
    order : array, or None
        What sorts the places; None if they are sorted.
    """
    base = of_scipys(made)
    inner = base._inside
    if len(made.x) == 1 and made._kind not in STEPS:
        return _of_one_place(made, inner.x, values, axis, base._fill if fill is None else fill, base._raises)
    if isinstance(inner, Steps):
        values = values if order is None else values[order]
        inside: Piecewise | Steps = Steps(inner._kind, inner.x, values, axis)
        if fill == "extrapolate" and inner._kind in ("previous", "next"):
            fill = (np.nan, values[-1]) if inner._kind == "previous" else (values[0], np.nan)
    else:
        inside = Piecewise(None, combined(inner.c, values), inner.x, True, axis)
    return Interp1d(made, inside, base._fill if fill is None else fill, base._raises)


def of_traced_places(original, x, y, options: dict, through) -> Interp1d:
    """Return an `interp1d` whose places are traced, too.

    Parameters
    ----------
    through : callable
        What returns the polynomials between sorted places.
    """
    axis = options.get("axis", -1)
    x, y = lift_all(x, y)
    made = original(x._value, y._value, **{key: v for key, v in options.items() if key != "fill_value"})
    fill, raises = options.get("fill_value", np.nan), options.get("bounds_error")
    axis, y = axis % y.ndim, np.moveaxis(y, axis, 0)
    _ = length(x, 0) == length(y, 0)  # a guard: SciPy has an error for other sizes
    if not options.get("assume_sorted"):
        order = np.argsort(x, kind="stable")
        x, y = x[order], y[order]
    raises = "fill_value" not in options if raises is None else raises
    raises = raises and not isinstance(fill, str)
    if length(x, 0) == 1:
        return _of_one_place(made, x, y, axis, fill, raises)
    return Interp1d(made, through(x, y, axis), fill, raises)
