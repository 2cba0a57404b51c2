"""Interpolating splines in ``scipy.interpolate`` through places that have a derivative, or with given ends.

Where places are data, SciPy makes a spline of unit vectors. Here the equations for its slopes, or for its
weights, are solved with traced matrices instead.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from ...numpy_api.creation import as_doubles
from ...numpy_api.sized import eye
from ...numpy_api.stand_ins import made
from ...trace.axes import length, lengths
from ...trace.operands import lift_all
from ...trace.primitives import sample_of
from ...trace.symbolic_sizes import is_size
from .free_knots import FreeKnots, of_traced_knots
from .hermite_splines import hermite
from .piecewise_polynomials import Piecewise


def cubic(original, x, y, axis=0, bc_type="not-a-knot", extrapolate=None) -> Piecewise:
    """Return the twice differentiable cubic spline of ``CubicSpline``, by its slopes at the places."""
    original(sample_of(x), sample_of(y), axis, _plain(bc_type), extrapolate)  # raises SciPy's errors
    x, y = map(as_doubles, lift_all(x, y))
    axis %= y.ndim
    y = np.moveaxis(y, axis, 0)
    n = length(x, 0)
    _ = bool(length(y, 0) == n)  # a guard
    columns = np.reshape(y, (n, -1))
    if bc_type == "periodic":
        slopes = _of_a_circle(x, columns) if n > 2 else 0.0 * columns
    else:
        n = n if n > 3 else int(n)  # few places have formulas of their own
        ends = [bc_type] * 2 if isinstance(bc_type, str) else list(bc_type)
        ends = [_order_and_value(end, n) for end in ends]
        parabola = n == 3 and ends == [None, None]
        slopes = _of_a_parabola(x, columns) if parabola else _between(x, columns, ends)
    if extrapolate is None:
        extrapolate = "periodic" if bc_type == "periodic" else True
    found = hermite(x, y, np.reshape(slopes, lengths(y)), 0, extrapolate)
    return Piecewise(None, found.c, x, extrapolate, axis)


NAMED = {"clamped": (1, 0.0), "natural": (2, 0.0), "not-a-knot": None}


def _plain(bc_type):
    """Return the conditions at the ends as SciPy takes them: traced values as plain ones."""
    if isinstance(bc_type, str):
        return bc_type
    return tuple(end if isinstance(end, str) else (end[0], sample_of(end[1])) for end in bc_type)


def _order_and_value(end, n: int):
    """Return which derivative has which value at an end; None for no condition on the third one."""
    found = NAMED[end] if isinstance(end, str) else tuple(end)
    # SciPy takes a line through two places where no condition is given.
    return "line" if found is None and n == 2 else found


def _differences(x, y):
    """Return the distances of the places, also as a column, and the slopes of lines between them."""
    steps = x[1:] - x[:-1]
    column = steps[:, None]
    return steps, column, (y[1:] - y[:-1]) / column


def _between(x, y, ends):
    """Return the slopes that make the second derivative continuous, with conditions at both ends."""
    steps, column, lines = _differences(x, y)
    inner = 3.0 * (column[1:] * lines[:-1] + column[:-1] * lines[1:])
    first = _at_an_end(ends[0], steps, lines, 1.0)
    last = _at_an_end(ends[1], steps[::-1], lines[::-1], -1.0)
    middle = np.concatenate([first[0][None], 2.0 * (steps[:-1] + steps[1:]), last[0][None]])
    above = np.concatenate([0.0 * steps[:1], first[1][None], steps[:-1]])
    below = np.concatenate([steps[1:], last[1][None], 0.0 * steps[:1]])
    right = np.concatenate([first[2][None], inner, last[2][None]])
    solve = made("scipy.linalg", "solve_banded", scipy.linalg.solve_banded)
    return solve((1, 1), np.stack([above, middle, below]), right)


def _at_an_end(end, steps, lines, sign: float):
    """Return factors of the slopes at an end and beside it, and the right-hand side of their equation.

    Distances and lines are counted from that end; the sign is that of the direction to the inside.
    """
    one, step, line = 1.0 + 0.0 * steps[0], steps[0], lines[0]
    if end == "line":
        return one, 0.0 * step, line
    if end is None:  # the third derivative is continuous at the next place
        both = step + steps[1]
        right = ((step + 2.0 * both) * steps[1] * line + step * step * lines[1]) / both
        return steps[1], both, right
    order, value = end
    if order == 1:
        return one, 0.0 * step, value + 0.0 * line
    return 2.0 * step, step, 3.0 * step * line - 0.5 * sign * value * step * step


def _of_a_parabola(x, y):
    """Return the slopes of the parabola through three places."""
    _, column, lines = _differences(x, y)
    middle = (column[1] * lines[0] + column[0] * lines[1]) / (column[0] + column[1])
    return np.stack([2.0 * lines[0] - middle, middle, 2.0 * lines[1] - middle])


def _of_a_circle(x, y):
    """Return the slopes of a spline that is the same at both ends, with two derivatives."""
    steps, column, lines = _differences(x, y)
    before, earlier = np.roll(steps, 1), np.roll(lines, 1, 0)
    n = len(steps)
    matrix = np.diag(2.0 * (before + steps))
    matrix = matrix + np.roll(np.eye(n), 1, 1) * before[:, None] + np.roll(np.eye(n), -1, 1) * column
    found = np.linalg.solve(matrix, 3.0 * (column * earlier + before[:, None] * lines))
    return np.concatenate([found, found[:1]])


def through(x, y, k: int = 3, axis: int = 0, extrapolate=True) -> FreeKnots:
    """Return the spline of degree k through all places, whose knots are places or between them.

    ``make_interp_spline`` chooses knots in this way, and so does FITPACK for splines that do not smooth.
    """
    x, y = map(as_doubles, lift_all(x, y))
    n, axis = length(x, 0), axis % y.ndim
    y = np.moveaxis(y, axis, 0)
    if length(y, 0) != n:
        raise ValueError(f"Shapes of x {x.shape} and y {y.shape} are incompatible")
    if bool(np.any(x[1:] <= x[:-1])):
        raise ValueError("Expect x to not have duplicates, and to be sorted")
    half, inner = (k + 1) // 2, x
    if k % 2 == 0:
        half, inner = k // 2, 0.5 * (x[1:] + x[:-1])
    t = np.concatenate([x[:1]] * (k + 1) + [inner[half : length(inner, 0) - half]] + [x[-1:]] * (k + 1))
    units = eye(x._trace, n) if is_size(n) else np.eye(n)
    basis = of_traced_knots(t, units, k, True, 0)(x)
    weights = np.linalg.solve(basis, np.reshape(y, (n, -1)))
    return of_traced_knots(t, np.moveaxis(np.reshape(weights, lengths(y)), 0, axis), k, extrapolate, axis)
