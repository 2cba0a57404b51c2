"""Cubic splines with given slopes in ``scipy.interpolate``, of traced values: Hermite's, Akima's, PCHIP's."""

from __future__ import annotations

import numpy as np

from ...numpy_api.creation import as_doubles
from ...trace.axes import length
from ...trace.operands import find_trace, lift_all
from ...trace.primitives import stop_gradient
from .piecewise_polynomials import Piecewise, refuse, require_increasing

# Differences of slopes count as zero where they are smaller than this, compared with the largest.
BREAK = 1e-9


def hermite(x, y, dydx, axis=0, extrapolate=None) -> Piecewise:
    """Return the piecewise cubic polynomial with values and slopes at breakpoints, which may be traced."""
    require_increasing(x)
    x, y, dydx = map(as_doubles, lift_all(x, y, dydx))
    dimensions = y.ndim
    y, dydx = np.moveaxis(y, axis, 0), np.moveaxis(dydx, axis, 0)
    return _polynomial(x, y, dydx, axis % dimensions, True if extrapolate is None else extrapolate)


def pchip(x, y, axis=0, extrapolate=None) -> Piecewise:
    """Return the monotonic cubic interpolator [1]_.

    .. [1] Fritsch and Butland, "A method for constructing local monotone piecewise cubic interpolants", 1984.
    """
    x, y, dimensions = _columns(x, y, axis)
    steps, slopes = _steps(x, y)
    if length(y, 0) == 2:
        made = np.concatenate([slopes, slopes])
    else:
        first, second = steps[:-1], steps[1:]
        before, after = slopes[:-1], slopes[1:]
        level = stop_gradient(np.sign(before) * np.sign(after)) <= 0.0
        weights = 2.0 * second + first, second + 2.0 * first
        mean = weights[0] / np.where(level, 1.0, before) + weights[1] / np.where(level, 1.0, after)
        inner = np.where(level, 0.0, (weights[0] + weights[1]) / mean)
        ends = (
            _end(steps[0], steps[1], slopes[0], slopes[1]),
            _end(steps[-1], steps[-2], slopes[-1], slopes[-2]),
        )
        made = np.concatenate([ends[0][None], inner, ends[1][None]])
    return _polynomial(x, y, made, axis % dimensions, True if extrapolate is None else extrapolate)


def _end(h0, h1, m0, m1):
    """Return the slope at an end, by three points, kept monotonic (Moler, Numerical Computing, 2004)."""
    slope = ((2.0 * h0 + h1) * m0 - h0 * m1) / (h0 + h1)
    other = np.sign(slope) != np.sign(m0)
    steep = (np.sign(m0) != np.sign(m1)) & (np.abs(slope) > 3.0 * np.abs(m0))
    return np.where(other, 0.0, np.where(steep, 3.0 * m0, slope))


def akima(x, y, axis=0, *, method="akima", extrapolate=None) -> Piecewise:
    """Return Akima's interpolator, or the modified one.

    Where all slopes around a breakpoint are (almost) the same, the mean of its neighbours is taken.
    """
    if method not in ("akima", "makima"):
        raise NotImplementedError(f"`method`={method} is unsupported.")
    x, y, dimensions = _columns(x, y, axis)
    _, slopes = _steps(x, y)
    if length(y, 0) == 2:
        made = np.concatenate([slopes, slopes])
    else:
        second, third = (slopes[1], slopes[-2]) if length(slopes, 0) > 1 else (slopes[0], slopes[0])
        left, right = 2.0 * slopes[0] - second, 2.0 * slopes[-1] - third
        ends = (2.0 * left - slopes[0], left), (right, 2.0 * right - slopes[-1])
        m = np.concatenate([np.stack(ends[0]), slopes, np.stack(ends[1])])
        change = np.abs(m[1:] - m[:-1])
        after, before = change[2:], change[:-2]
        if method == "makima":
            sums = np.abs(m[1:] + m[:-1])
            after, before = after + 0.5 * sums[2:], before + 0.5 * sums[:-2]
        total = after + before
        defined = total > BREAK * stop_gradient(np.max(total))
        share = before / np.where(defined, total, 1.0)
        made = np.where(defined, m[1:-2] + share * (m[2:-1] - m[1:-2]), 0.5 * (m[3:] + m[:-3]))
    return _polynomial(x, y, made, axis % dimensions, False if extrapolate is None else extrapolate)


def _columns(x, y, axis):
    require_increasing(x)
    x, y = map(as_doubles, lift_all(x, y))
    if y.dtype.kind == "c":
        raise refuse("an interpolator of complex values", "real and imaginary parts are, one by one")
    if x.ndim != 1 or length(x, 0) < 2 or length(y, axis) != length(x, 0):
        raise ValueError(f"`x` has shape {x.shape}, and `y` has shape {y.shape}: they do not fit")
    return x, np.moveaxis(y, axis, 0), y.ndim


def _steps(x, y):
    """Return the distances of the breakpoints, in the dimensions of y, and the slopes between them."""
    steps = np.reshape(x[1:] - x[:-1], (-1, *(1,) * (y.ndim - 1)))
    return steps, (y[1:] - y[:-1]) / steps


def _polynomial(x, y, dydx, axis: int, extrapolate) -> Piecewise:
    h, slopes = _steps(x, y)
    t = (dydx[:-1] + dydx[1:] - 2.0 * slopes) / h
    c = np.stack([t / h, (slopes - dydx[:-1]) / h - t, dydx[:-1], y[:-1]])
    return Piecewise(None, c, x if find_trace(x) is not None else np.asarray(x), extrapolate, axis)
