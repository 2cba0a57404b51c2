"""Solutions of equations, differentiated by the implicit function theorem: `root`, `fixed_point`, minima.

Where ``residual(y, *p) = 0`` defines y as a function of p, its derivative solves a linear system with the
Jacobian of the residual at the solution. How the solution was found, and from where, plays no role.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..control.argument_checks import check_count, check_functions, positive
from ..errors import DtypeError, SpecError
from ..late import imported
from ..rules.primitive import Primitive, Rule
from ..stand_ins.opened import Opened
from ..trace import pytrees
from ..trace.axes import lengths
from ..trace.operands import find_trace
from ..trace.primitives import sample_of
from ..usercode.frames import UsersLine
from ..verbs.directions import jvp
from ..verbs.first_order import grad
from ..verbs.jacobians import jacobian
from ..verbs.structures import flatten
from ..verbs.vjp import vjp
from .kept_derivatives import KeptDerivatives

# Steps of Newton's method behind SciPy's search for a minimum, which is exact to some 1e-8: two are enough
# where there is a minimum, and a long step says that there is none.
MOST_STEPS, FARTHEST = 20, 1e-3


def shape_of(y) -> tuple:
    """Return the shape of an array or a number; sizes of a traced one need no guard."""
    return np.shape(y) if find_trace(y) is None else lengths(y)


class Solution:
    """What a solver finds, an array of real numbers, as a rule of the parameters of the equation.

    Parameters
    ----------
    name : str
        What messages call the solver.
    residual : callable
        ``residual(y, *p)`` → array of the shape of y, zero at the solution.
    solve : callable
        ``solve(*p)`` → y, of plain numbers.
    any_size : bool
        Whether both serve parameters of any sizes, not just those of the trace in which they were made.
    """

    def __init__(self, name: str, residual: Callable, solve: Callable, any_size: bool = False):
        self._residual = residual
        self.kept = KeptDerivatives(residual)
        rule = Rule(solve, self._pullback, self._pushforward, None, any_size)
        rule.name = name
        self.of = Primitive(rule)

    def _slope(self, y, p):
        """Return the Jacobian of the residual with respect to the solution, as a matrix."""
        if find_trace((y, *p)) is None:
            return self.slope_of_numbers(y, *p)
        size = math.prod(shape_of(y))
        return np.reshape(jacobian(lambda y: self._residual(y, *p))(y), (size, size))

    def slope_of_numbers(self, y, *p):
        """Return the Jacobian for plain numbers."""
        return self._linearised(y, p)[1]

    def distance(self, y, *p) -> float:
        """Return about how far plain numbers are from the solution: how far a step of Newton's method goes.

        That of each number is relative to its absolute value plus 1. Unlike the residual, it does not depend
        on the units of the equation. It is infinite where the solution has no derivative.
        """
        residual, slopes = self._linearised(y, p)
        try:
            step = np.linalg.solve(slopes, np.ravel(residual))
        except np.linalg.LinAlgError:
            return np.inf
        return float(np.max(np.abs(step) / (1.0 + np.abs(np.ravel(y)))))

    def _linearised(self, y, p):
        size = np.size(y)
        unit = np.reshape(np.eye(size), (size, *np.shape(y)))
        value, columns = self.kept.push((y, *p), (unit, *(None for _ in p)), size)
        return value, np.reshape(columns, (size, size)).T

    def _solved(self, rate, y, p):
        """Return the solution of a linear system with the Jacobian, in the shape of y."""
        step = np.linalg.solve(self._slope(y, p), np.reshape(rate, (-1,)))
        return np.reshape(step, shape_of(y))

    def _solved_transposed(self, ybar, y, p):
        """Return the solution of a linear system with the transposed Jacobian, in the shape of y."""
        weights = np.linalg.solve(self._slope(y, p).T, np.reshape(ybar, (-1,)))
        return np.reshape(weights, shape_of(y))

    def _pullback(self, ybar, y, *p):
        weights = self._solved_transposed(-ybar, y, p)
        if find_trace((weights, y, *p)) is None:
            return self.kept.pull(weights, y, *p)[1][1:]
        return vjp(lambda *p: self._residual(y, *p), *p)[1](weights)

    def _pushforward(self, tangents, y, *p):
        if find_trace((tangents, y, *p)) is None:
            given = [None if d is None else np.asarray(d)[None] for d in tangents]
            return self._solved(-self.kept.push((y, *p), (None, *given))[1][0], y, p)
        given = [0.0 * x if d is None else d for d, x in zip(tangents, p, strict=True)]
        moved = jvp(lambda *p: self._residual(y, *p), p, tuple(given))[1]
        return self._solved(-moved, y, p)


def root(f: Callable[..., Any], x0: Any, *args: Any, tol: float = 1e-12) -> Any:
    """Return a solution of ``f(x, *args) = 0``, with derivatives by the implicit function theorem.

    Inside of a function that is differentiated, the solution depends on ``args`` and on whatever else ``f``
    uses, and not on the starting point. The derivatives are those of the exact solution.

    Parameters
    ----------
    f : callable
        As many equations as unknowns: it returns numbers in the structure of ``x0``.
    x0 : array, number, or pytree of them
        Where to start; integers count as floats.
    *args : arrays, numbers, or pytrees of them
        Further arguments of ``f``.
    tol : float
        Of SciPy's solver (Powell's hybrid method), which gets the exact Jacobian.

    Returns
    -------
    array, number, or pytree of them
        In the structure of ``x0``.

    Raises
    ------
    RuntimeError
        If no solution is found.
    SpecError
        If ``f`` returns another number of equations than there are unknowns.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> kepler = lambda E, e, M: E - e * np.sin(E) - M
    >>> nt.root(kepler, 1.0, 0.3, 1.0).round(9)
    np.float64(1.288091313)
    >>> nt.grad(lambda M: nt.root(kepler, 1.0, 0.3, M))(1.0).round(6)
    np.float64(1.091329)
    """

    positive("nt.root", "tol", tol)

    def solve(function, start, slope):
        found = imported("scipy.optimize").root(
            function, start, jac=slope or jacobian(function), tol=tol, options={"xtol": tol}
        )
        # SciPy stops at a function that is NaN, and may call that a success.
        left = np.max(np.abs(function(found.x)), initial=0.0)
        if np.isnan(left) or (not found.success and left > np.sqrt(tol)):
            reason = f"the function is NaN at {found.x}" if np.isnan(left) else found.message
            raise RuntimeError(f"nt.root found no solution: {reason}")
        return found.x

    return _solved("nt.root", f, x0, args, lambda value, x: value, solve)


def fixed_point(
    f: Callable[..., Any], x0: Any, *args: Any, tol: float = 1e-12, max_steps: int | None = 10_000
) -> Any:
    """Return a solution of ``x = f(x, *args)``, with derivatives by the implicit function theorem.

    It is found by iteration; its derivatives are not those of the steps, but of the exact solution.

    Parameters
    ----------
    f : callable
        A contraction near its fixed point: it returns numbers in the structure of ``x0``.
    x0 : array, number, or pytree of them
        Where to start; integers count as floats.
    *args : arrays, numbers, or pytrees of them
        Further arguments of ``f``.
    tol : float
        The iteration stops when no entry changes by more than this, relative to the largest entry (or 1).
    max_steps : int
        How many steps to take at most.

    Returns
    -------
    array, number, or pytree of them
        In the structure of ``x0``.

    Raises
    ------
    RuntimeError
        If the iteration does not converge.
    SpecError
        If ``f`` returns another number of entries than ``x0`` has.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> heron = lambda x, a: 0.5 * (x + a / x)
    >>> nt.fixed_point(heron, 1.0, 9.0)
    np.float64(3.0)
    >>> nt.grad(lambda a: nt.fixed_point(heron, 1.0, a))(9.0).round(9)
    np.float64(0.166666667)
    """

    positive("nt.fixed_point", "tol", tol)
    check_count("nt.fixed_point", "max_steps", max_steps)

    def solve(function, x, _):
        for _ in range(max_steps):
            step = function(x)
            x = x - step
            if np.max(np.abs(step), initial=0.0) <= tol * np.maximum(1.0, np.max(np.abs(x), initial=0.0)):
                return x
        raise RuntimeError(f"nt.fixed_point did not converge in {max_steps} steps; the last one was {step}")

    return _solved("nt.fixed_point", f, x0, args, lambda value, x: x - value, solve)


def at_bounds(slope, y, low, high):
    """Return the slope; for a variable at a bound the distance from that, because it stays there."""
    at_high = np.where(y >= high, y - np.where(np.isinf(high), 0.0, high), slope)
    return np.where(y <= low, y - np.where(np.isinf(low), 0.0, low), at_high)


def minimize_scalar(
    f: Callable[..., Any], x0: Any = None, *args: Any, bounds: Any = None, tol: float = 1e-12
) -> Any:
    """Return the number at which ``f(x, *args)`` is least, with derivatives by the implicit function theorem.

    Inside of a function that is differentiated, the minimum depends on ``args``, on ``bounds`` where it is at
    one of these, and on whatever else ``f`` uses. SciPy's search is followed by steps of Newton's method, so
    that the minimum, and with it the derivatives, are as exact as the derivatives of ``f``.

    Parameters
    ----------
    f : callable
        Function of one number, with two derivatives near its minimum.
    x0 : number, optional
        Where to start; the search goes downhill from there. Not needed with bounds.
    *args : arrays, numbers, or pytrees of them
        Further arguments of ``f``.
    bounds : (number, number), optional
        The minimum between these is searched.
    tol : float
        Newton's steps end when they change the minimum by less than this, relative to it (or to 1).

    Returns
    -------
    number
        The place of the minimum.

    Raises
    ------
    RuntimeError
        If no minimum is found at which the derivative of ``f`` is zero.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> tilted = lambda x, a: np.cosh(x) - a * x
    >>> nt.minimize_scalar(tilted, 0.0, 1.5).round(9)
    np.float64(1.194763217)
    >>> nt.grad(lambda a: nt.minimize_scalar(tilted, 0.0, a))(1.5).round(9)
    np.float64(0.554700196)
    """
    name = "nt.minimize_scalar"
    check_functions(name, f=f)
    positive(name, "tol", tol)
    opened = Opened(name, (f, x0, args, bounds))

    def problem(p):
        """Return the function of one number, where to start, and the bounds, for some parameters."""
        function, start, extra, ends = opened.filled(p)
        return lambda x: np.reshape(function(x, *extra), ()), start, ends

    def residual(x, *p):
        function, _, ends = problem(p)
        slope = grad(function)(x)
        return slope if ends is None else at_bounds(slope, x, *ends)

    if not opened.found:
        function, start, ends = problem(())
        slope = grad(function)
        curvature = grad(slope)
        return _least(function, start, ends, tol, lambda x: (slope(x), curvature(x)))
    line, kept = UsersLine(), KeptDerivatives(lambda x, *p: grad(problem(p)[0])(x))

    def found(*p):
        def slopes(x):
            slope, curvature = kept.push((x, *p), (np.ones(1), *(None for _ in p)))
            return slope, curvature[0]

        return line.call(_least, *problem(p), tol, slopes)

    return Solution(name, residual, found, any_size=True).of(*opened.found)


def _least(function: Callable, start, bounds, tol: float, slopes: Callable):
    """Return where a function of a number is least, by SciPy's search and Newton's method.

    ``slopes(x)`` returns its first and its second derivative.
    """
    search = imported("scipy.optimize").minimize_scalar
    if bounds is None:
        at = search(function, bracket=None if start is None else (start, start + 1.0)).x
    else:
        at = search(function, bounds=bounds, method="bounded", options={"xatol": 1e-8}).x
        at = min([*map(float, bounds), at], key=function)
        if at in bounds:
            return np.float64(at)
    at = np.float64(at)
    size = max(1.0, abs(at))
    for _ in range(MOST_STEPS):
        slope, curvature = slopes(at)
        step = slope / curvature
        if not abs(step) < FARTHEST * size:  # the function has no slope of zero here, or no curvature
            break
        at = at - step
        if abs(step) <= tol * size:
            return at
    raise RuntimeError(
        f"nt.minimize_scalar found no minimum where the derivative is zero: near {at:g} it is {slope:g}"
    )


def _solved(name: str, f: Callable, x0, args: tuple, difference: Callable, solve: Callable):
    """Return the solution of ``difference(f(x, *args), x) = 0`` in the structure of ``x0``.

    ``solve(residual, vector, slope)`` finds it from a starting vector; inside of a trace ``slope`` is the
    residual's Jacobian, by caches that serve all calls of the tape, and None elsewhere.
    """
    check_functions(name, f=f)
    x0 = with_floats(name, "x0", x0)
    opened = Opened(name, (f, x0, args))

    def equation(p):
        """Return the residual as a function of a vector, and the starting vector, for some parameters."""
        function, start, extra = opened.filled(p)
        vector, unflatten = flatten(start)

        def residual(x):
            value = flatten(function(unflatten(x), *extra))[0]
            if np.shape(sample_of(value)) != np.shape(sample_of(x)):
                counts = np.size(sample_of(value)), np.size(sample_of(x))
                raise SpecError(f"{name}: {counts[0]} equations for {counts[1]} unknowns")
            return difference(value, x)

        return residual, vector

    line = UsersLine() if opened.found else None

    def found(*p):
        residual, vector = equation(p)
        vector = np.array(vector, float)
        if line is None:
            return solve(residual, vector, None)
        return line.call(solve, residual, vector, lambda x: solution.slope_of_numbers(x, *p))

    if not opened.found:
        return flatten(x0)[1](found())
    sample = sample_of(x0)
    is_vector = isinstance(sample, np.ndarray) and sample.ndim == 1 and sample.dtype == float
    # Other arrays and containers are filled with parts that have the places of this call.
    any_size = is_vector or isinstance(sample, float)
    solution = Solution(name, lambda x, *p: equation(p)[0](x), found, any_size)
    x = solution.of(*opened.found)
    return x if is_vector else flatten(sampled(x0))[1](x)


def with_floats(name: str, parameter: str, tree):
    """Return a tree with floats in place of integers, which would not be unknowns but data."""
    leaves, structure = pytrees.flatten(tree)
    unknowns = []
    for leaf in leaves:
        kind = np.asarray(sample_of(leaf)).dtype.kind
        if kind not in "iufc":
            raise DtypeError(f"{name}: {parameter} must hold numbers, got {type(sample_of(leaf)).__name__}")
        unknowns.append(leaf * 1.0 if kind in "iu" else leaf)
    return pytrees.unflatten(structure, unknowns)


def sampled(tree):
    """Return a tree with plain arrays and numbers in place of traced ones."""
    leaves, structure = pytrees.flatten(tree)
    return pytrees.unflatten(structure, [sample_of(leaf) for leaf in leaves])
