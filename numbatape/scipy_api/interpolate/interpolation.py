"""``scipy.interpolate``: what makes interpolators, at traced points and of traced values.

An interpolator that was made outside, and one that is made inside of a traced function, are both replaced
by a stand-in (for splines: `numbatape.scipy_api.interpolate.piecewise_polynomials`). Where a construction is
linear in the values (splines, linear interpolation), SciPy makes it of unit vectors once, and traced values
are combined with that.
"""

from __future__ import annotations

import functools
import inspect

import numpy as np
import scipy.interpolate

from ...late import imported
from ...numpy_api.creation import as_doubles
from ...numpy_api.function_tables import MAKERS
from ...numpy_api.stand_ins import class_that_makes, with_original
from ...rules.searches import Search
from ...tape.families import ACTIVE
from ...trace.axes import length
from ...trace.operands import find_trace, is_wrong, lift_first, values_of
from ...trace.primitives import sample_of
from .piecewise_polynomials import (
    InBasis,
    Piecewise,
    combined,
    in_basis,
    polynomial_of,
    refuse,
    require_monotonic,
)

PIECEWISE = ("CubicSpline", "PchipInterpolator", "Akima1DInterpolator", "CubicHermiteSpline", "PPoly")
NAMES = (*PIECEWISE, "BSpline", "make_interp_spline", "make_lsq_spline", "make_smoothing_spline")
NAMES += ("interp1d", "RegularGridInterpolator")


def stand_in_of(value):
    """Return the stand-in for an interpolator that SciPy has made, or None."""
    found = polynomial_of(value)
    if found is not None:
        return found
    package = scipy.interpolate
    if isinstance(value, package.UnivariateSpline):
        return imported(".fitpack", __package__).fitted(value)
    if type(value) is package.interp1d:
        return imported(".interp1d", __package__).of_scipys(value)
    if type(value) is package.RegularGridInterpolator:
        return imported(".grids", __package__).grid_of(value)
    if isinstance(value, package.BivariateSpline):
        return imported(".grids", __package__).surface_of(value)
    if isinstance(value, (package.LinearNDInterpolator, package.NearestNDInterpolator)):
        return imported(".scattered", __package__).scattered_of(value)
    return None


def _make(name: str):
    """Return what makes the stand-in for a class of `scipy.interpolate`."""

    def make(original):
        call = with_original(functools.partial(of_traced, name), stand_in_of)(original)
        if not isinstance(original, type):
            return call
        call = class_that_makes(original, call)
        for attribute in ("construct_fast", "design_matrix"):
            if hasattr(original, attribute):
                setattr(call, attribute, getattr(original, attribute))
        for attribute in ("from_spline", "from_bernstein_basis", "basis_element"):
            if hasattr(original, attribute):
                setattr(call, attribute, _maker_of(getattr(original, attribute)))
        return call

    return make


def _maker_of(original):
    """Return what makes the stand-in for what a class method makes of plain arguments."""

    signature = inspect.signature(original)

    def call(*args, **kwargs):
        options = signature.bind(*args, **kwargs).arguments
        given = options.pop(next(iter(options)))  # knots, or a spline
        knots = given if isinstance(given, Piecewise) else getattr(given, "t", given)
        if find_trace(knots) is None:
            plain = given._original if isinstance(given, Piecewise) else given
            if plain is not None:
                return stand_in_of(original(plain, **options))
        if original.__name__ != "from_spline":
            raise refuse(f"{original.__name__} of traced values", "BSpline(t, c, k) is")
        made = bspline(*given) if isinstance(given, (list, tuple)) else given
        if not isinstance(made, Piecewise):
            raise refuse("PPoly.from_spline of traced knots", "BSpline(t, c, k) is")
        extrapolate = options.get("extrapolate")
        return Piecewise(
            None, made.c, made.x, made.extrapolate if extrapolate is None else extrapolate, made.axis
        )

    return call


def of_traced(name: str, original, *args, **kwargs):
    """Return an interpolator of traced values."""
    if name == "PPoly":
        return _ppoly(*args, **kwargs)
    if name == "BSpline":
        return bspline(*args, **kwargs)
    if name == "RegularGridInterpolator":
        return imported(".grids", __package__).make_grid(original, *args, **kwargs)
    if name in SLOPES:
        return getattr(imported(".hermite_splines", __package__), SLOPES[name])(*args, **kwargs)
    return _linear(name, original, *args, **kwargs)


SLOPES = {"CubicHermiteSpline": "hermite", "PchipInterpolator": "pchip", "Akima1DInterpolator": "akima"}
PERIODIC = {"CubicSpline": 1e-15, "make_interp_spline": 1e-5}  # how far apart the ends may be
PARAMETERS = {  # the names of the parameters behind x and y
    "CubicSpline": ("axis", "bc_type", "extrapolate"),
    "make_interp_spline": ("k", "t", "bc_type", "axis", "check_finite"),
    "make_lsq_spline": ("t", "k", "w", "axis", "check_finite"),
    "make_smoothing_spline": ("w", "lam"),
    "interp1d": ("kind", "axis", "copy", "bounds_error", "fill_value", "assume_sorted"),
}


def _linear(name: str, original, x, y, *args, **kwargs):
    """Return an interpolator that is linear in its values, by those of unit vectors."""
    options = dict(zip(PARAMETERS[name], args, strict=False)) | kwargs
    x, y = (lift_first(part) if find_trace(part) is not None else np.asarray(part) for part in (x, y))
    made = _of_other_ways(name, original, x, y, options)
    if made is not None:
        return made
    bc = options.get("bc_type")
    axis = options.pop("axis", -1 if name == "interp1d" else 0)
    if bc is not None and not isinstance(bc, str) and name != "CubicSpline":
        raise refuse(f"{name}(bc_type={bc!r}) of traced values", "names and values of zero are")
    if len(x) != y.shape[axis]:
        original(x, sample_of(y), *args, **kwargs)  # raises SciPy's error
    y = np.moveaxis(y, axis, 0)
    axis = axis % y.ndim
    units, values = np.eye(len(x)), y
    if bc == "periodic":  # the last value is the first
        if is_wrong(np.any(np.abs(y[0] - y[-1]) > 1e-15 + PERIODIC[name] * np.abs(y[-1]))):
            original(x, values_of(y), axis=0, **options)  # raises SciPy's error
        units = np.concatenate([units[:-1, :-1], units[:1, :-1]])
        values = y[:-1]
    if isinstance(bc, (tuple, list)):
        zeros = np.zeros(units.shape[1])
        options["bc_type"] = tuple(end if isinstance(end, str) else (end[0], zeros) for end in bc)
    if name == "interp1d":
        fill = options.pop("fill_value", None)
        if isinstance(fill, str):
            options["fill_value"] = fill
        elif fill is not None:
            options.setdefault("bounds_error", False)
        made = original(x, units, axis=0, **options)
        order = None if options.get("assume_sorted") else np.argsort(x, kind="mergesort")
        return imported(".interp1d", __package__).linear(made, values, axis, fill, order)
    if name == "make_smoothing_spline" and options.get("lam") is None:
        raise refuse(
            "make_smoothing_spline of traced values without lam", "lam=... is: it is chosen by the values"
        )
    made = original(x, units, axis=0, **options)
    base = stand_in_of(made)
    if isinstance(base, InBasis):
        return in_basis(made.t, combined(made.c, values), made.k, made.extrapolate, axis)
    return Piecewise(None, combined(base.c, values), base.x, base.extrapolate, axis)


def _of_other_ways(name: str, original, x, y, options: dict):
    """Return an interpolator at traced places, a cubic one of data, or one with given slopes; else None."""
    if find_trace(x) is not None and name == "interp1d" and options.get("kind", "linear") in ("linear", 1):
        return imported(".interp1d", __package__).of_traced_places(original, x, y, options, _line)
    if name == "interp1d" and options.get("kind") in ("cubic", 3) and _is_data(x, y):
        return imported(".interp1d", __package__).of_traced_places(original, x, y, options, _through)
    if name == "CubicSpline" and _is_data(x, y):
        return _cubic(original, lift_first(x, y), y, **options)
    bc = options.get("bc_type")
    of_values = bc is not None and not isinstance(bc, str) and not _is_zero(bc)
    if name == "CubicSpline" and (of_values or find_trace(x) is not None):
        return imported(".moving_places", __package__).cubic(original, x, y, **options)
    return None if find_trace(x) is None else _of_moving_places(name, original, x, y, options)


def _of_moving_places(name: str, original, x, y, options: dict):
    """Return a spline through places that have a derivative."""
    through = imported(".moving_places", __package__).through
    degree = DEGREES.get(options.get("kind", "linear")) if name == "interp1d" else options.get("k", 3)
    if degree is not None and name == "interp1d":
        lines = lambda x, y, axis: through(x, y, degree, 0).moved(axis)  # noqa: E731
        return imported(".interp1d", __package__).of_traced_places(original, x, y, options, lines)
    if name == "make_interp_spline" and degree and options.get("t") is options.get("bc_type") is None:
        return through(x, y, degree, options.get("axis", 0))
    raise refuse(
        f"{name} of traced breakpoints", "interpolating splines are: make_interp_spline, CubicSpline"
    )


DEGREES = {"slinear": 1, "quadratic": 2, "cubic": 3, 2: 2, 3: 3, 4: 4, 5: 5}


def _cubic(original, x, y, axis=0, bc_type="not-a-knot", extrapolate=None):
    """Return a cubic spline between breakpoints without a derivative, such as ``np.arange(len(y))``."""
    if not isinstance(bc_type, str) or bc_type == "periodic":
        raise refuse(f"CubicSpline(bc_type={bc_type!r}) of traced breakpoints", "other names are")
    original(sample_of(x), sample_of(y), axis, bc_type, extrapolate)  # raises SciPy's errors
    _ = length(x, 0) == length(y, axis)  # a guard
    y, axis = np.moveaxis(y, axis, 0), axis % y.ndim

    def of_units(x):
        c = original(x, np.eye(len(x)), 0, bc_type).c
        # SciPy stores as many coefficients as there are breakpoints.
        return np.concatenate([c, np.zeros_like(c[:, :1])], 1)

    found = Search("scipy.interpolate.CubicSpline", of_units, (x,), any_size=True)
    parts = [found.numbers(f"coefficients {k}", lambda c, k=k: c[k])[:-1] for k in range(4)]
    c = np.stack([combined(part, y) for part in parts])
    return Piecewise(None, c, x, True if extrapolate is None else extrapolate, axis)


def _is_data(x, y) -> bool:
    """Whether breakpoints are traced, and have no derivative."""
    return find_trace(x) is not None and lift_first(x, y)._level != ACTIVE


def _line(x, y, axis: int) -> Piecewise:
    """Return straight lines between places."""
    steps = np.reshape(x[1:] - x[:-1], (-1, *(1,) * (y.ndim - 1)))
    return Piecewise(None, np.stack([(y[1:] - y[:-1]) / steps, y[:-1]]), x, True, axis)


def _through(x, y, axis: int) -> Piecewise:
    """Return the cubic spline of ``interp1d``, which SciPy has for four places or more."""
    _ = length(x, 0) >= 4  # a guard
    spline = _cubic(scipy.interpolate.CubicSpline, x, y)
    return Piecewise(None, spline.c, x, True, axis)


def _is_zero(bc) -> bool:
    """Whether all ends of a spline have names, or ``(order, 0.0)``."""
    values = [end[1] for end in bc if not isinstance(end, str) and len(end) == 2]
    return find_trace(values) is None and all(np.all(np.asarray(value) == 0.0) for value in values)


def _ppoly(c, x, extrapolate=None, axis=0):
    c, x = (as_doubles(part) if hasattr(part, "dtype") else part for part in (c, x))
    c = np.moveaxis(np.moveaxis(c, axis + 1, 0), axis + 1, 0) if axis else c
    require_monotonic(x)
    return Piecewise(None, c, x, True if extrapolate is None else extrapolate, axis)


def bspline(t, c, k, extrapolate=True, axis=0):
    """Return a spline of traced or plain knots and coefficients, at traced points."""
    if find_trace(t) is not None:
        return imported(".free_knots", __package__).of_traced_knots(t, c, k, extrapolate, axis)
    t = np.asarray(t, float)
    return in_basis(t, np.moveaxis(c, axis, 0)[: len(t) - k - 1], k, extrapolate, axis)


for _name in NAMES:
    MAKERS["scipy.interpolate"][_name] = _make(_name)
