"""``scipy.interpolate``: piecewise polynomials and grids, at traced points and of traced values.

An interpolator that was made outside, and one that is made inside of a traced function, are both replaced
by a stand-in. Where a construction is linear in the values (splines, linear interpolation), SciPy makes it
of unit vectors once, and traced values are combined with that.
"""

from __future__ import annotations

import functools
import inspect

import numpy as np
import scipy.interpolate

from ...errors import UnsupportedOperationError
from ...late import imported
from ...numpy_api.function_tables import MAKERS
from ...numpy_api.stand_ins import class_that_makes, with_original
from ...rules.searches import Search
from ...tape.families import ACTIVE
from ...trace.axes import entries, length
from ...trace.operands import find_trace, lift_all, lift_first
from ...trace.plain_arrays import as_ndarrays
from ...trace.primitives import sample_of
from ...trace.symbolic_sizes import is_size
from ...usercode.frames import not_supported

PIECEWISE = ("CubicSpline", "PchipInterpolator", "Akima1DInterpolator", "CubicHermiteSpline", "PPoly")
NAMES = (*PIECEWISE, "BSpline", "make_interp_spline", "make_lsq_spline", "make_smoothing_spline")
NAMES += ("interp1d", "RegularGridInterpolator")


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
        if find_trace(x) is None and self._original is not None:
            return self._original(x, nu, extrapolate) if extrapolate is not None else self._original(x, nu)
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        x, c, places = lift_all(x, self._differentiated(nu), self.x)
        if x.ndim == 0 and is_size(length(places, 0)):  # a number as an index would be settled for one size
            return self(x[None], nu, extrapolate)[(slice(None),) * self.axis + (0,)]
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
        for part in range(1, np.shape(sample_of(c))[0]):
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
        """Return the interpolator's antiderivative, which is zero at the first breakpoint, as a stand-in."""
        if self._original is not None:
            return stand_in_of(self._original.antiderivative(nu))
        c, x = lift_all(self.c, self.x)
        for _ in range(nu):
            shape = (-1, *(1,) * (c.ndim - 1))
            raised = c / np.reshape(np.arange(len(c), 0.0, -1.0), shape)
            steps = column(x[1:] - x[:-1], c.ndim - 2)
            whole = np.zeros(c.shape[1:])
            for part in range(len(c)):
                whole = (whole + raised[part]) * steps
            starts = np.concatenate([np.zeros((1, *c.shape[2:])), np.cumsum(whole, 0)[:-1]])
            c = np.concatenate([raised, starts[None]])
        extrapolate = False if self.extrapolate == "periodic" else self.extrapolate
        return Piecewise(None, c, self.x, extrapolate, self.axis)

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
        return _in_basis(
            t, weights, k, False if self.extrapolate == "periodic" else self.extrapolate, self.axis
        )

    def integrate(self, a, b, extrapolate=None):
        """Return the integral from a to b; without extrapolation the spline counts as zero outside."""
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        if not extrapolate:
            a, b = (np.clip(end, self.x[0], self.x[-1]) for end in (a, b))
        return super().integrate(a, b, extrapolate)


def _in_basis(t: np.ndarray, weights, k: int, extrapolate, axis: int) -> InBasis:
    """Return a spline of traced weights, whose first axis goes where ``axis`` says."""
    units, x = polynomials_of(t, np.eye(len(t) - k - 1), k)
    return InBasis(None, combined(units, weights), x, extrapolate, axis, t, weights, k)


def require_increasing(x) -> None:
    """Raise SciPy's error unless breakpoints ascend; of traced ones this is a guard."""
    x = np.asarray(x) if find_trace(x) is None else lift_all(x)[0]
    if bool(np.any(x[1:] <= x[:-1])):
        raise ValueError("`x` must be strictly increasing sequence.")


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


def stand_in_of(value):
    """Return the stand-in for an interpolator that SciPy has made, or None."""
    package = scipy.interpolate
    if isinstance(value, package.PPoly):
        return Piecewise(value, np.asarray(value.c), value.x, value.extrapolate, value.axis)
    if isinstance(value, package.BSpline):
        t, k = np.asarray(value.t), value.k
        weights = np.asarray(value.c)
        c, x = polynomials_of(t, weights, k)
        return InBasis(value, c, x, value.extrapolate, value.axis, t, weights, k)
    if isinstance(value, package.UnivariateSpline):
        return imported(".fitpack", __package__).fitted(value)
    if type(value) is package.interp1d:
        return imported(".interp1d", __package__).thawed(value)
    if type(value) is package.RegularGridInterpolator:
        return imported(".grids", __package__).grid_of(value)
    if isinstance(value, package.BivariateSpline):
        return imported(".grids", __package__).surface_of(value)
    if isinstance(value, (package.LinearNDInterpolator, package.NearestNDInterpolator)):
        return imported(".scattered", __package__).scattered_of(value)
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


def _make(name: str):
    """Return what makes the stand-in for a class of `scipy.interpolate`."""

    def make(original):
        call = with_original(functools.partial(_of_traced, name), stand_in_of)(original)
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


def _of_traced(name: str, original, *args, **kwargs):
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
PARAMETERS = {  # behind x and y
    "CubicSpline": ("axis", "bc_type", "extrapolate"),
    "make_interp_spline": ("k", "t", "bc_type", "axis", "check_finite"),
    "make_lsq_spline": ("t", "k", "w", "axis", "check_finite"),
    "make_smoothing_spline": ("w", "lam"),
    "interp1d": ("kind", "axis", "copy", "bounds_error", "fill_value", "assume_sorted"),
}


def _linear(name: str, original, x, y, *args, **kwargs):
    """Return an interpolator that is linear in its values, by those of unit vectors."""
    options = dict(zip(PARAMETERS[name], args, strict=False)) | kwargs
    if find_trace(x) is not None and name == "interp1d" and options.get("kind", "linear") in ("linear", 1):
        return imported(".interp1d", __package__).of_traced_places(original, x, y, options)
    if find_trace(x) is not None and name == "CubicSpline" and lift_first(x, y)._level != ACTIVE:
        return _cubic(original, lift_first(x, y), y, **options)
    if find_trace(x) is not None:
        raise refuse(f"{name} of traced breakpoints", "they are data: nt.stop_gradient(x), or np.interp")
    axis = options.pop("axis", -1 if name == "interp1d" else 0)
    bc = options.get("bc_type")
    if bc is not None and not isinstance(bc, str) and (name != "CubicSpline" or not _is_zero(bc)):
        raise refuse(f"{name}(bc_type={bc!r}) of traced values", "names and values of zero are")
    if len(x) != y.shape[axis]:
        original(x, sample_of(y), *args, **kwargs)  # raises SciPy's error
    y = np.moveaxis(y, axis, 0)
    axis = axis % y.ndim
    units, values = np.eye(len(x)), y
    if bc == "periodic":  # the last value is the first
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
        return _in_basis(made.t, combined(made.c, values), made.k, made.extrapolate, axis)
    return Piecewise(None, combined(base.c, values), base.x, base.extrapolate, axis)


def _cubic(original, x, y, axis=0, bc_type="not-a-knot", extrapolate=None):
    """Return a cubic spline between breakpoints without a derivative, such as ``np.arange(len(y))``."""
    if not isinstance(bc_type, str) or bc_type == "periodic":
        raise refuse(f"CubicSpline(bc_type={bc_type!r}) of traced breakpoints", "other names are")
    original(sample_of(x), sample_of(y), axis, bc_type, extrapolate)  # raises SciPy's errors
    _ = length(x, 0) == length(y, axis)  # a guard
    y, axis = np.moveaxis(y, axis, 0), axis % y.ndim

    def of_units(x):
        c = original(x, np.eye(len(x)), 0, bc_type).c
        return np.concatenate([c, np.zeros_like(c[:, :1])], 1)  # as many as there are breakpoints

    found = Search("scipy.interpolate.CubicSpline", of_units, (x,), any_size=True)
    parts = [found.numbers(f"coefficients {k}", lambda c, k=k: c[k])[:-1] for k in range(4)]
    c = np.stack([combined(part, y) for part in parts])
    return Piecewise(None, c, x, True if extrapolate is None else extrapolate, axis)


def _is_zero(bc) -> bool:
    """Whether all ends of a spline have names, or ``(order, 0.0)``."""
    return all(isinstance(end, str) or (len(end) == 2 and np.all(np.asarray(end[1]) == 0.0)) for end in bc)


def combined(c: np.ndarray, values):
    """Return coefficients of values, given those of unit vectors along the last axis."""
    return np.tensordot(c, values, 1)


def _ppoly(c, x, extrapolate=None, axis=0):
    c = np.moveaxis(np.moveaxis(c, axis + 1, 0), axis + 1, 0) if axis else c
    return Piecewise(None, c, x, True if extrapolate is None else extrapolate, axis)


def bspline(t, c, k, extrapolate=True, axis=0):
    """Return a spline of traced or plain knots and coefficients, at traced points."""
    if find_trace(t) is not None:
        return imported(".free_knots", __package__).of_traced_knots(t, c, k, extrapolate, axis)
    t = np.asarray(t, float)
    return _in_basis(t, np.moveaxis(c, axis, 0)[: len(t) - k - 1], k, extrapolate, axis)


for _name in NAMES:
    MAKERS["scipy.interpolate"][_name] = _make(_name)
