"""``scipy.optimize.linprog`` and ``isotonic_regression``: which constraints hold with equality is data.

The solution of a linear program is a vertex: as many constraints as there are variables hold with equality,
and they are linearly independent. The vertex and the multipliers solve linear systems of these constraints.
"""

from __future__ import annotations

import inspect

import numpy as np
import scipy.optimize

from ..numpy_api.function_tables import MAKERS
from ..rules.searches import Search
from ..scipy_api.sparse.sparse_matrices import is_sparse
from ..trace.operands import lift_all
from ..trace.primitives import sample_of
from .solver_calls import as_array, refuse, result_of, where_traced

EQUAL = 1e-7  # SciPy's tolerance for constraints


def _rows(matrix, rhs, size: int) -> tuple:
    """Return the rows and right-hand sides of one kind of constraints."""
    if matrix is None:
        return np.zeros((0, size)), np.zeros(0)
    matrix = matrix.toarray() if is_sparse(matrix) else as_array(matrix)
    return np.reshape(matrix, (-1, size)), np.reshape(as_array(rhs), (-1,))


def _bounds(bounds, size: int) -> tuple:
    """Return all lower bounds and all upper ones."""
    if bounds is None:
        bounds = (0.0, None)
    pairs = [bounds] * size if len(bounds) == 2 and np.ndim(sample_of(bounds[0])) == 0 else bounds
    pairs = pairs if len(pairs) == size else list(pairs) * size
    low = [-np.inf if pair[0] is None else pair[0] for pair in pairs]
    ends = low, [np.inf if pair[1] is None else pair[1] for pair in pairs]
    return tuple(
        np.broadcast_to(as_array(list(end) if isinstance(end, tuple) else end), (size,)) for end in ends
    )


def _vertex(x, rows, rhs, weights, equations: int) -> np.ndarray:
    """Return which constraints a vertex solves: equations, then those that the cost pushes against most."""
    tight = np.abs(rows @ x - rhs) <= EQUAL * (1.0 + np.abs(rhs))
    order = [k for k in np.argsort(-np.abs(weights), kind="stable") if tight[k] and k >= equations]
    chosen: list[int] = []
    for k in (*range(equations), *order):
        if np.linalg.matrix_rank(rows[[*chosen, k]]) > len(chosen):
            chosen.append(k)
        if len(chosen) == len(x):
            return np.array(chosen)
    raise RuntimeError("scipy.optimize.linprog found a solution that is no vertex, so it has no derivative")


def linprog(original, *args, **kwargs):
    """Return SciPy's result: the vertex, its cost, what is left of each constraint, and the multipliers."""
    bound = inspect.signature(original).bind(*args, **kwargs)
    bound.apply_defaults()
    call = bound.arguments
    if call["integrality"] is not None and np.any(call["integrality"]):
        raise refuse("scipy.optimize.linprog with integers", "its cost is c @ x for the x that it finds")
    c = np.reshape(as_array(call["c"]), (-1,))
    size = int(np.shape(sample_of(c))[0])
    equal = _rows(call["A_eq"], call["b_eq"], size)
    below = _rows(call["A_ub"], call["b_ub"], size)
    low, high = _bounds(call["bounds"], size)
    given = lift_all(c, *equal, *below, low, high)
    counts = int(np.shape(sample_of(equal[1]))[0]), int(np.shape(sample_of(below[1]))[0])

    def constraints(given):
        _, equal, b_equal, below, b_below, low, high = given
        unit = np.eye(size)
        return np.concatenate([equal, below, unit, unit]), np.concatenate([b_equal, b_below, low, high])

    def solve(*given):
        c, equal, b_equal, below, b_below, low, high = given
        options = {key: call[key] for key in ("method", "callback", "options", "x0")}
        found = original(c, below, b_below, equal, b_equal, np.stack([low, high], 1), **options)
        if not found.success:
            raise RuntimeError(f"no solution was found, so it has no derivative: {found.message}")
        weights = np.concatenate(
            [found.eqlin.marginals, found.ineqlin.marginals, found.lower.marginals, found.upper.marginals]
        )
        return _vertex(found.x, *constraints(given), weights, counts[0])

    search = Search("scipy.optimize.linprog", solve, given)
    chosen = search.positions("constraints", lambda found: found)
    c, equal, b_equal, below, b_below, low, high = given
    rows, rhs = constraints(given)
    tight = rows[chosen]
    x = np.linalg.solve(tight, rhs[chosen])
    places = np.equal(np.arange(counts[0] + counts[1] + 2 * size)[:, None], chosen)
    multipliers = np.where(places, 1.0, 0.0) @ np.linalg.solve(tight.T, c)
    parts = np.split(multipliers, np.cumsum([*counts, size]))
    rests = [b_equal - equal @ x, b_below - below @ x, x - np.where(np.isinf(low), -np.inf, low), high - x]
    kinds = {
        name: scipy.optimize.OptimizeResult(residual=rest, marginals=part)
        for name, rest, part in zip(("eqlin", "ineqlin", "lower", "upper"), rests, parts, strict=True)
    }
    return result_of(x, fun=c @ x, con=rests[0], slack=rests[1], status=0, **kinds)


def isotonic_regression(original, y, *, weights=None, increasing=True):
    """Return SciPy's result: within blocks, which are data, the weighted mean."""
    y = np.reshape(as_array(y), (-1,))
    weights = np.ones(np.shape(sample_of(y))) if weights is None else as_array(weights)
    y, weights = lift_all(y, weights)
    search = Search(
        "scipy.optimize.isotonic_regression",
        lambda y, weights: original(y, weights=weights, increasing=increasing).blocks,
        (y, weights),
    )
    blocks = search.counted("blocks", lambda found: found)
    block = search.positions(
        "blocks of entries", lambda found: np.repeat(np.arange(len(found) - 1), np.diff(found))
    )
    weighed = weights * y
    total, mass = np.zeros_like(weighed), np.zeros_like(weights)
    np.add.at(total, block, weighed)
    np.add.at(mass, block, weights)
    x = total[block] / mass[block]
    return scipy.optimize.OptimizeResult(x=x, blocks=blocks)


MAKERS["scipy.optimize"].update(
    linprog=where_traced(linprog), isotonic_regression=where_traced(isotonic_regression)
)
