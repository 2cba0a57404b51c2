"""FITPACK's splines in ``scipy.interpolate``: `splrep`, `splev`, `splint` and `UnivariateSpline`.

A spline that interpolates is linear in the values: SciPy makes it of unit vectors once. One that smooths
chooses its knots by the values, and has no derivative.
"""

from __future__ import annotations

import inspect

import numpy as np
import scipy.interpolate

from ...numpy_api.function_tables import MAKERS
from ...numpy_api.stand_ins import named_like, stands_for, with_original
from ...trace.operands import find_trace, is_wrong, values_of
from ...trace.primitives import sample_of
from .free_knots import FreeKnots
from .interpolation import bspline, of_traced, stand_in_of
from .moving_places import through
from .piecewise_polynomials import InBasis, Piecewise, refuse
from .roots import solutions

SMOOTH = "interpolating splines (s=0) are, and so is make_interp_spline"


class Fitted:
    """The stand-in for an object of `UnivariateSpline` and the classes that derive from it.

    Parameters
    ----------
    original
        SciPy's object, for plain points; None if its values are traced.
    inside : Piecewise or FreeKnots
    ext : int
        What is done outside of the knots, as in `splev`.
    """

    def __init__(self, original, inside, ext: int):
        self._original, self._inside, self._ext = original, inside, ext

    def __call__(self, x, nu: int = 0, ext=None):
        if find_trace(x) is None and self._original is not None:
            return self._original(x, nu, ext)
        return _evaluated(self._inside, x, nu, self._ext if ext is None else EXTENSIONS[ext])

    def derivative(self, n: int = 1):
        """Return the derivative, as a stand-in."""
        if self._original is not None:
            return fitted(self._original.derivative(n))
        return Fitted(None, self._inside.derivative(n), self._ext)

    def integral(self, a, b):
        """Return the integral from a to b; the spline counts as zero outside of its knots."""
        if self._original is not None and find_trace(a, b) is None:
            return self._original.integral(a, b)
        rising, (low, high) = self._inside.antiderivative(), self._inside.x[[0, -1]]
        return rising(np.clip(b, low, high)) - rising(np.clip(a, low, high))

    def derivatives(self, x):
        """Return the spline and all of its derivatives at a number."""
        if self._original is not None and find_trace(x) is None:
            return self._original.derivatives(x)
        return _all_derivatives(x, self._inside)

    def roots(self):
        """Return the roots between the knots of a cubic spline."""
        if self._original is not None:
            return self._original.roots()
        return _roots(self._inside)

    def __getattr__(self, name: str):
        original = self.__dict__.get("_original")
        if original is None:
            raise refuse(f"UnivariateSpline.{name} of traced values", "call it, with nu= for derivatives")
        return getattr(original, name)


EXTENSIONS = {0: 0, "extrapolate": 0, 1: 1, "zeros": 1, 2: 2, "raise": 2, 3: 3, "const": 3}


def fitted(value) -> Fitted:
    """Return the stand-in for a spline that SciPy has fitted."""
    return Fitted(value, bspline(*value._eval_args), EXTENSIONS[value.ext])


def _evaluated(inside, x, nu: int, ext: int):
    """Return the values of a spline, or of its derivative, with one of FITPACK's four extensions."""
    first, last = inside.x[0], inside.x[-1]
    if ext == 3 and nu == 0:  # FITPACK's derivatives are extrapolated instead
        x = np.clip(x, first, last)
    value = inside(x, nu)
    if ext in (1, 2):
        outside = np.less(x, first) | np.greater(x, last)
        if ext == 2 and is_wrong(np.any(outside)):
            raise ValueError("a value of x is outside of the knots of the spline")
        # In later steps of a loop, a place outside gives NaN and no error.
        value = np.where(outside, np.nan if ext == 2 else 0.0, value)
    return value


@stands_for("scipy.interpolate", "splev")
def splev(x, tck, der=0, ext=0):
    if hasattr(tck, "tck"):
        tck = tck.tck
    t, c, k = tck
    if isinstance(c, list):  # a curve: one spline for each coordinate
        return [splev(x, (t, one, k), der, ext) for one in c]
    return _evaluated(bspline(t, c, int(sample_of(k))), x, der, ext)


def _splev_of_objects(original, of_tuples=MAKERS["scipy.interpolate"]["splev"]):
    """Return the stand-in for `splev`, which also takes splines that are objects."""
    call = of_tuples(original)

    def splev(x, tck, der=0, ext=0):
        if not isinstance(tck, (InBasis, FreeKnots)):
            return call(x, tck, der, ext)
        if ext != 0:
            raise ValueError(f"Extrapolation mode {ext} is not supported by BSpline.")
        return tck(x, der, extrapolate=True)

    return named_like(splev, original)


MAKERS["scipy.interpolate"]["splev"] = _splev_of_objects


def _degree(inside) -> int:
    return inside._basis[2] if isinstance(inside, InBasis) else inside.k


def _all_derivatives(x, inside):
    return np.stack([inside(x, nu) for nu in range(_degree(inside) + 1)])


def _roots(inside):
    if _degree(inside) != 3:
        raise NotImplementedError("finding roots unsupported for non-cubic splines")  # SciPy's error
    if isinstance(inside, FreeKnots):
        raise refuse("UnivariateSpline.roots of traced places", "CubicSpline(x, y).roots() is")
    return solutions(Piecewise(None, inside.c, inside.x, False), 0.0, False, False, refuse)


@stands_for("scipy.interpolate", "spalde")
def spalde(x, tck):
    t, c, k = tck
    inside = bspline(t, c, k)
    if np.ndim(values_of(x)) == 0:
        return _all_derivatives(x, inside)
    return [_all_derivatives(x[place], inside) for place in range(len(x))]


@stands_for("scipy.interpolate", "sproot")
def sproot(tck, mest=10):
    t, c, k = tck
    return _roots(bspline(t, c, k))


@stands_for("scipy.interpolate", "splint")
def splint(a, b, tck, full_output=0):
    """Return an integral by the antiderivative; the spline counts as zero outside of its knots."""
    t, c, k = tck
    if full_output:
        raise refuse("splint with full_output of traced arguments", "without it, the integral is")
    return Fitted(None, bspline(t, c, k), 0).integral(a, b)


@stands_for("scipy.interpolate", "splrep")
def splrep(x, y, w=None, xb=None, xe=None, k=3, task=0, s=None, t=None, full_output=0, per=0, quiet=1):
    if find_trace(w, xb, xe, t) is not None:
        raise refuse("splrep of traced weights, ends or knots", "places x and values y may be traced")
    if full_output or (task == 0 and not (s == 0 or (s is None and w is None))) or task == 1:
        raise refuse("splrep of traced values with s > 0", SMOOTH)
    if find_trace(x) is not None:
        if xb is not None or xe is not None or task or per:
            raise refuse("splrep of traced places with ends, knots or a period", "make_interp_spline is")
        made = through(x, y, k)
        return made.t, np.concatenate([made.c, np.zeros(k + 1)]), k
    options = {"w": w, "xb": xb, "xe": xe, "k": k, "task": task, "t": t, "per": per, "quiet": quiet}
    made = [scipy.interpolate.splrep(x, unit, s=0, **options) for unit in np.eye(len(x))]
    return made[0][0], np.stack([c for _, c, _ in made], 1) @ y, k


def _made(original, x, y, *, w=None, xb=None, xe=None, k=3, s=0, t=None, nest=None, bc_type=None):
    """Return what `make_splrep` makes of traced values."""
    if s != 0:
        raise refuse("make_splrep of traced values with s > 0", SMOOTH)
    sizes = [np.asarray(sample_of(part)) for part in (x, y)]
    original(*sizes, w=w, xb=xb, xe=xe, k=k, s=s, t=t, nest=nest, bc_type=bc_type)  # raises SciPy's errors
    return of_traced("make_interp_spline", scipy.interpolate.make_interp_spline, x, y, k=k, bc_type=bc_type)


MAKERS["scipy.interpolate"]["make_splrep"] = with_original(_made, stand_in_of)


def _of_traced(original, *args, **kwargs) -> Fitted:
    """Return a spline of traced values, of one of SciPy's classes."""
    name = original.__name__
    bound = inspect.signature(original).bind(*args, **kwargs).arguments
    y = bound.pop("y")
    if name == "UnivariateSpline" and bound.get("s") != 0:
        raise refuse(f"{name} of traced values with s > 0", SMOOTH)
    if find_trace(bound["x"]) is not None and name != "LSQUnivariateSpline" and bound.get("bbox") is None:
        made = through(bound["x"], y, bound.get("k", 3))
        return Fitted(None, made, EXTENSIONS[bound.get("ext", 0)])
    if find_trace(tuple(bound.values())) is not None:
        raise refuse(f"{name} of traced places", "the values y may be traced, and places of one with s=0")
    made = [original(y=unit, **bound) for unit in np.eye(len(bound["x"]))]
    t, c, k = made[0]._eval_args
    c = np.stack([one._eval_args[1] for one in made], 1) @ y
    return Fitted(None, bspline(t, c, k), EXTENSIONS[made[0].ext])


for _name in ("UnivariateSpline", "InterpolatedUnivariateSpline", "LSQUnivariateSpline"):
    MAKERS["scipy.interpolate"][_name] = with_original(_of_traced, fitted)
