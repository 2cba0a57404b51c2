"""`to_cyipopt`: an objective and constraints as a problem for Ipopt, with sparse second derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import OutputError, PatternError, SpecError
from ..programs.roles import Constant
from ..verbs.first_order import grad
from ..verbs.sparse import sparse_hessian, sparse_jacobian, sparsity
from .vector_functions import of_vector, package, traced


def to_cyipopt(
    f: Callable[..., Any],
    x0: Any,
    constraints: Any = None,
    *,
    lb: Any = None,
    ub: Any = None,
    cl: Any = 0.0,
    cu: Any = 0.0,
) -> Any:
    """Return a problem for Ipopt: minimise a function under constraints.

    They are ``cl <= constraints(x) <= cu`` and ``lb <= x <= ub``. The structures of the Jacobian of the
    constraints and of the Hessian of the Lagrangian are read off the tapes.

    Parameters
    ----------
    f : callable
        Function of the parameters that returns one real scalar.
    x0 : array, number, or pytree of them
        Where to start; ``f`` and ``constraints`` get the parameters in this structure.
    constraints : callable, optional
        Function of the parameters that returns a vector.
    lb, ub : array, number, or pytree of them, optional
        Bounds of the parameters: one for all, or in the structure of ``x0``.
    cl, cu : array or float
        Bounds of the constraints; equal ones, as by default, mean an equation.

    Returns
    -------
    cyipopt.Problem
        ``problem.solve(problem.x0)`` → ``(x, info)``; ``problem.unflatten(x)`` is the solution in the
        structure of ``x0``.

    Raises
    ------
    ModuleNotFoundError
        If cyipopt is not installed.
    OutputError
        If the objective is no real scalar, or the constraints are no vector.
    SpecError
        If ``cl`` or ``cu`` has another length than the constraints.
    PatternError
        From the solver: a derivative has entries at a point where it had none at ``x0``, because the
        functions branch.

    Examples
    --------
    >>> import numpy as np
    >>> from numbatape.integrations import to_cyipopt
    >>> f, g = lambda x: np.sum(x**2), lambda x: np.array([x[0] * x[1] - 4.0])
    >>> problem = to_cyipopt(f, np.ones(2), g)  # doctest: +SKIP
    >>> x, info = problem.solve(problem.x0)  # doctest: +SKIP
    """
    cyipopt = package("cyipopt", "to_cyipopt")
    functions = Derivatives(f, x0, constraints)
    count, size = functions.count, functions.x0.size
    for name in ("objective", "gradient", "constraints", "jacobian", "hessian"):
        setattr(functions, name, _tried(getattr(functions, name), cyipopt.CyIpoptEvaluationError))

    def bounds(given, missing: float):
        if given is None or isinstance(given, (int, float)):
            return np.full(size, missing if given is None else given, float)
        return of_vector(f, given)[1]

    def limits(name: str, given) -> np.ndarray:
        given = np.asarray(given, float)
        if given.shape not in ((), (count,)):
            raise SpecError(
                f"{name}: a number or an array of {count}, the number of constraints; got {given.shape}"
            )
        return np.full(count, given)

    class Problem(cyipopt.Problem):
        x0 = functions.x0
        unflatten = functions.unflatten

    return Problem(
        n=size,
        m=count,
        problem_obj=functions,
        lb=bounds(lb, -np.inf),
        ub=bounds(ub, np.inf),
        cl=limits("cl", cl),
        cu=limits("cu", cu),
    )


def _tried(callback, failure: type[Exception]):
    """Return a callback that tells Ipopt of a failed factorisation: it takes a shorter step then."""

    def run(*args):
        try:
            return callback(*args)
        except np.linalg.LinAlgError as error:
            raise failure(str(error)) from error

    return run


class Derivatives:
    """The callbacks that cyipopt calls, with the names that it wants.

    Parameters
    ----------
    f, x0, constraints
        As for `to_cyipopt`.
    """

    def __init__(self, f, x0, constraints):
        self._f, self.x0, self.unflatten = of_vector(f, x0)
        self._g = None if constraints is None else of_vector(constraints, x0)[0]
        self._gradient = grad(self._f)
        values = self.constraints(self.x0)
        if values.dtype == object:
            kind = type(self._g(self.x0)).__name__
            raise OutputError(f"constraints(x) must return one vector of real numbers, got a {kind}")
        if values.ndim != 1 or values.dtype.kind not in "fiu":
            raise OutputError(
                f"constraints must be a vector of real numbers, got {values.dtype} of shape {values.shape}"
            )
        self.count = values.size
        self._lagrangian = self._sum if self.count else self._f
        start = (self.x0, *self._weights(np.ones(self.count), 1.0))
        self._hessian = sparse_hessian(self._lagrangian)
        found = sparsity(self._lagrangian, *start, order=2).tocoo()
        self._lower = found.row[found.row >= found.col], found.col[found.row >= found.col]
        if self.count:
            self._jacobian = sparse_jacobian(self._g)
            found = sparsity(self._g, self.x0).tocoo()
            self._entries = found.row, found.col

    def _sum(self, x, multipliers, factor):
        return factor * traced(self._f)(x) + np.sum(multipliers * traced(self._g)(x))

    def _weights(self, multipliers, factor) -> tuple:
        return (Constant(np.asarray(multipliers)), Constant(float(factor))) if self.count else ()

    def objective(self, x):
        return float(self._f(x))

    def gradient(self, x):
        return self._gradient(x)

    def constraints(self, x):
        return np.zeros(0) if self._g is None else np.asarray(self._g(x))

    def jacobianstructure(self):
        return self._entries if self.count else (np.zeros(0, int), np.zeros(0, int))

    def jacobian(self, x):
        return values_at(self._jacobian(x), self._entries) if self.count else np.zeros(0)

    def hessianstructure(self):
        return self._lower

    def hessian(self, x, multipliers, factor):
        matrix = self._hessian(x, *self._weights(multipliers, factor))
        if not self.count:
            matrix = factor * matrix
        return values_at(matrix, self._lower, lower=True)


def values_at(matrix, entries: tuple, lower: bool = False) -> np.ndarray:
    """Return a sparse matrix' values at some entries; raise if it has others that are not zero."""
    found = matrix.tocoo()
    kept = found.row >= found.col if lower else np.ones(found.nnz, bool)
    values = np.asarray(matrix[entries], float).ravel()
    if np.count_nonzero(found.data[kept]) > np.count_nonzero(values):
        raise PatternError(
            "a derivative has entries here that it did not have at the starting point: the functions branch, "
            "and Ipopt needs one structure for all points"
        )
    return values
