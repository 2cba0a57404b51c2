"""``scipy.optimize.nnls`` and ``lsq_linear``: linear least squares with bounds.

Which variables are at a bound is data. The others solve ordinary least squares: in one system of full rank,
each variable at a bound is an equation of its own.
"""

from __future__ import annotations

import numpy as np

from ..numpy_api.function_tables import MAKERS
from ..rules.searches import Search
from ..trace.library_kinds import is_sparse
from ..trace.operands import lift_all
from .solver_calls import as_array, refuse, result_of, where_traced


def _with_fixed(matrix, b, free, fixed):
    """Return the least squares of the free variables (1, else 0); the other ones are those of ``fixed``."""
    system = np.concatenate([matrix * free, np.diag(1.0 - free)])
    target = np.concatenate([b - matrix @ fixed, np.zeros(len(free))])
    return fixed + free * np.linalg.lstsq(system, target)[0]


def nnls(original, A, b, **options):
    """Return the solution, and the norm of the residual."""
    matrix, b = lift_all(A, b)
    search = Search("scipy.optimize.nnls", lambda A, b: original(A, b, **options)[0], (matrix, b))
    positive = search.numbers("positive entries", lambda x: x > 0.0)
    x = _with_fixed(matrix, b, positive, np.zeros(len(positive)))
    return x, np.linalg.norm(matrix @ x - b)


def lsq_linear(original, A, b, bounds=(-np.inf, np.inf), **options):
    """Return SciPy's result: the solution, its residuals, their cost, and which variables are at a bound."""
    if is_sparse(A) or not hasattr(as_array(A), "ndim"):
        raise refuse("scipy.optimize.lsq_linear of a sparse matrix or an operator", "use A.toarray()")
    low, high = (bounds.lb, bounds.ub) if hasattr(bounds, "lb") else bounds
    matrix, b, low, high = lift_all(*map(as_array, (A, b, low, high)))
    low, high = (np.broadcast_to(end, (matrix.shape[1],)) for end in (low, high))

    def solve(A, b, low, high):
        found = original(A, b, (low, high), **options)
        if not found.success:
            raise RuntimeError(f"no solution was found, so it has no derivative: {found.message}")
        return found

    search = Search("scipy.optimize.lsq_linear", solve, (matrix, b, low, high))
    side = search.numbers("variables at a bound", lambda found: found.active_mask)
    fixed = np.where(side < 0.0, low, np.where(side > 0.0, high, 0.0))
    x = _with_fixed(matrix, b, np.where(np.equal(side, 0.0), 1.0, 0.0), fixed)
    rest = matrix @ x - b
    return result_of(x, fun=rest, cost=0.5 * np.sum(rest**2), active_mask=np.astype(side, int))


MAKERS["scipy.optimize"].update(lsq_linear=where_traced(lsq_linear), nnls=where_traced(nnls))
