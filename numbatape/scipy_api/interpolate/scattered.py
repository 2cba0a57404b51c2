"""Interpolation between scattered points in ``scipy.interpolate``: points are data, values may be traced.

Which triangle a point is in, and which of the given points is nearest to it, are searches. The weights of a
triangle's corners are linear in the point.
"""

from __future__ import annotations

import inspect

import numpy as np
import scipy.interpolate

from ...numpy_api.function_tables import MAKERS
from ...numpy_api.stand_ins import stands_for, with_original
from ...rules.searches import Search
from ...trace.operands import find_trace, lift_all
from ...trace.primitives import sample_of
from ...trace.trace import standing
from .piecewise_polynomials import column, refuse


def _points(args):
    """Return the points of a call: an array whose last axis is the coordinates, or one array for each."""
    if len(args) > 1:
        args = (tuple(args),)
    if isinstance(args[0], tuple):
        return np.stack(np.broadcast_arrays(*args[0]), -1)
    return lift_all(args[0])[0] if find_trace(args[0]) is not None else np.asarray(args[0], float)


class Scattered:
    """The stand-in for ``LinearNDInterpolator`` and ``NearestNDInterpolator``.

    Parameters
    ----------
    original
        SciPy's object, which knows the points.
    values : array
    scaled : tuple of two arrays, or None
        What the coordinates were shifted and divided by.
    fill
        The value outside of the hull of the points; None for the nearest point's value.
    traced : bool
        Whether the values are traced.
    """

    def __init__(self, original, values, scaled, fill, traced: bool):
        self._original, self._values, self._traced = original, values, traced
        self._scaled, self._fill = scaled, fill

    def __getattr__(self, name: str):
        if self.__dict__.get("_traced", True):
            raise refuse(f"an attribute ({name}) of an interpolator of traced values", "call it")
        return getattr(self._original, name)

    def __call__(self, *args, **options):
        if find_trace(args) is None and not self._traced:
            return self._original(*args, **options)
        if options:
            raise refuse(f"options ({', '.join(options)}) at traced points", "leave them out")
        points = _points(args)
        shape = np.shape(sample_of(points))
        points = np.reshape(points, (-1, shape[-1])) if len(shape) else points
        points, values = lift_all(points, self._values)
        made = self._nearest(points, values) if self._fill is None else self._linear(points, values)
        return np.reshape(made, (*shape[:-1], *values.shape[1:]))

    def _nearest(self, points, values):
        tree = self._original.tree
        search = Search(
            "scipy.interpolate.NearestNDInterpolator", lambda x: tree.query(x)[1], (self._scale(points),)
        )
        return values[search.positions("positions", lambda found: found)]

    def _linear(self, points, values):
        triangles, points = self._original.tri, self._scale(points)
        search = Search("scipy.interpolate.LinearNDInterpolator", triangles.find_simplex, (points,))
        found = search.positions("positions", lambda found: found)
        outside = found < 0
        at = np.where(outside, 0, found)
        maps, corners = lift_all(triangles.transform, triangles.simplices.astype(np.intp), points)[:2]
        d = triangles.ndim
        weights = np.sum(maps[at][:, :d] * (points - maps[at][:, d])[:, None, :], -1)
        weights = np.concatenate([weights, 1.0 - np.sum(weights, -1, keepdims=True)], -1)
        of_corners = values[corners[at]]
        trailing = values.ndim - 1
        made = np.sum(column(weights, trailing) * of_corners, 1)
        return np.where(column(outside, trailing), self._fill, made)

    def _scale(self, points):
        if self._scaled is None:
            return points
        offset, scale = self._scaled
        return (points - offset) / scale


def scattered_of(value, values=None) -> Scattered | None:
    """Return the stand-in for an interpolator that SciPy has made, with other values."""
    name = type(value).__name__
    if name not in ("LinearNDInterpolator", "NearestNDInterpolator"):
        return None
    scaled = None if value.scale is None else (value.offset, value.scale)
    own = values
    if own is None:
        own = np.asarray(value.values)
        if name == "LinearNDInterpolator":
            own = np.reshape(own, (len(own), *value.values_shape))
    fill = None if name == "NearestNDInterpolator" else value.fill_value
    return Scattered(value, own, scaled, fill, values is not None)


def _of_traced(original, *args, **kwargs) -> Scattered | None:
    """Return an interpolator of traced values: SciPy makes one of zeros, which knows the points."""
    options = inspect.signature(original).bind(*args, **kwargs).arguments
    points = options.pop("points" if "points" in options else "x")
    (values,) = lift_all(options.pop("values" if "values" in options else "y"))
    if find_trace(points, tuple(options.values())) is not None:
        raise refuse(f"{original.__name__} of traced points", "points are data, values may be traced")
    return scattered_of(original(points, np.zeros(values.shape), **options), values)


@stands_for("scipy.interpolate", "griddata", run=None)
def griddata(points, values, xi, method="linear", fill_value=np.nan, rescale=False):
    xi = _points((xi,))
    points = np.stack(np.broadcast_arrays(*points), -1) if isinstance(points, tuple) else np.asarray(points)
    if points.ndim < 2 or points.shape[-1] == 1:
        raise refuse("griddata in one dimension", "interp1d, or np.interp")
    if method == "nearest":
        return standing(scipy.interpolate.NearestNDInterpolator)(points, values, rescale=rescale)(xi)
    if method != "linear":
        raise refuse(f"griddata(method={method!r}) of traced values", "'linear' and 'nearest' are")
    return standing(scipy.interpolate.LinearNDInterpolator)(
        points, values, fill_value=fill_value, rescale=rescale
    )(xi)


MAKERS["scipy.interpolate"].update(
    dict.fromkeys(("LinearNDInterpolator", "NearestNDInterpolator"), with_original(_of_traced, scattered_of))
)
