"""Solutions of equations, differentiated by the implicit function theorem: `root` and `fixed_point`.

Where ``residual(y, *p) = 0`` defines y as a function of p, its derivative solves a linear system with the
Jacobian of the residual at the solution. How the solution was found, and from where, plays no role.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..errors import SpecError
from ..late import imported
from ..rules.primitive import Primitive, Rule
from ..trace import pytrees
from ..trace.primitives import sample_of
from ..usercode.users_line import UsersLine
from ..verbs.directions import jvp
from ..verbs.jacobians import jacobian
from ..verbs.structures import flatten
from ..verbs.vjp import vjp
from .closures import Opened


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
    """

    def __init__(self, name: str, residual: Callable, solve: Callable):
        self._residual = residual
        rule = Rule(solve, self._pullback, self._pushforward, None)
        rule.name = name
        self.of = Primitive(rule)

    def _slope(self, y, p):
        """Return the Jacobian of the residual with respect to the solution, as a matrix."""
        size = int(np.size(sample_of(y)))
        return np.reshape(jacobian(lambda y: self._residual(y, *p))(y), (size, size))

    def _pullback(self, ybar, y, *p):
        weights = np.linalg.solve(self._slope(y, p).T, np.reshape(-ybar, (-1,)))
        return vjp(lambda *p: self._residual(y, *p), *p)[1](np.reshape(weights, np.shape(sample_of(y))))

    def _pushforward(self, tangents, y, *p):
        given = [0.0 * x if d is None else d for d, x in zip(tangents, p, strict=True)]
        moved = jvp(lambda *p: self._residual(y, *p), p, tuple(given))[1]
        step = np.linalg.solve(self._slope(y, p), np.reshape(-moved, (-1,)))
        return np.reshape(step, np.shape(sample_of(y)))


def root(f, x0, *args, tol=1e-12):
    """Return a solution of ``f(x, *args) = 0``, with derivatives by the implicit function theorem.

    Inside of a function that is differentiated, the solution depends on ``args`` and on whatever else ``f``
    uses, and not on the starting point. The derivatives are those of the exact solution.

    Parameters
    ----------
    f : callable
        As many equations as unknowns: it returns numbers in the structure of ``x0``.
    x0 : array, number, or pytree of them
        Where to start.
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

    def solve(function, start):
        found = imported("scipy.optimize").root(
            function, start, jac=jacobian(function), tol=tol, options={"xtol": tol}
        )
        if not found.success and np.max(np.abs(function(found.x)), initial=0.0) > np.sqrt(tol):
            raise RuntimeError(f"nt.root found no solution: {found.message}")
        return found.x

    return _solved("nt.root", f, x0, args, lambda value, x: value, solve)


def fixed_point(f, x0, *args, tol=1e-12, max_steps=10_000):
    """Return a solution of ``x = f(x, *args)``, with derivatives by the implicit function theorem.

    It is found by iteration; its derivatives are not those of the steps, but of the exact solution.

    Parameters
    ----------
    f : callable
        A contraction near its fixed point: it returns numbers in the structure of ``x0``.
    x0 : array, number, or pytree of them
        Where to start.
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

    def solve(function, x):
        for _ in range(max_steps):
            step = function(x)
            x = x - step
            if np.max(np.abs(step), initial=0.0) <= tol * np.maximum(1.0, np.max(np.abs(x), initial=0.0)):
                return x
        raise RuntimeError(f"nt.fixed_point did not converge in {max_steps} steps; the last one was {step}")

    return _solved("nt.fixed_point", f, x0, args, lambda value, x: x - value, solve)


def _solved(name: str, f: Callable, x0, args: tuple, difference: Callable, solve: Callable):
    """Return the solution of ``difference(f(x, *args), x) = 0`` in the structure of ``x0``."""
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
        return solve(residual, vector) if line is None else line.call(solve, residual, vector)

    if not opened.found:
        return flatten(x0)[1](found())
    rule = Solution(name, lambda x, *p: equation(p)[0](x), found)
    _, unflatten = flatten(_without_trace(x0))
    return unflatten(rule.of(*opened.found))


def _without_trace(tree):
    leaves, structure = pytrees.flatten(tree)
    return pytrees.unflatten(structure, [sample_of(leaf) for leaf in leaves])
