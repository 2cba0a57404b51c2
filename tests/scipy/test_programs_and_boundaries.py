"""Linear programs, isotonic regression and boundary value problems inside of traced functions."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.integrate import solve_bvp
from scipy.optimize import isotonic_regression, linprog

import numbatape as nt
from tests.agreement import agrees

X = np.array([1.0, 0.7, 0.4, 1.3])
A = np.array([[1.0, 2.0, 1.0], [3.0, 1.0, 0.5]])


def everything(found):
    """Return all that a result has of the solution."""
    kinds = (found.eqlin, found.ineqlin, found.lower, found.upper)
    parts = [found.x, np.reshape(found.fun, 1), found.slack, found.con, *(kind.marginals for kind in kinds)]
    return np.concatenate(parts)


PROGRAMS = {
    "costs": lambda x: linprog(-x[:3], A, [4.0, 6.0]),
    "constraints": lambda x: linprog([-1.0, -2.0, -1.5], A * x[1], np.array([4.0, 6.0]) + x[:2]),
    "equations": lambda x: linprog(x[:3], A[:1] * x[3], x[2] * 9.0, A[1:], [3.0 * x[0]], bounds=(0.1, 5.0)),
    "bounds": lambda x: linprog(
        [1.0, -1.0, 2.0], A, [40.0, 60.0], bounds=[(x[0], None), (None, x[1]), (0.0, 1.0)]
    ),
    "one pair of bounds": lambda x: linprog(-x[:3], A, [40.0, 60.0], bounds=[(x[3], 5.0)]),
    "sparse": lambda x: linprog(-x[:3], sp.csr_array(A) * x[3], [4.0, 6.0]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_linear_programs(name):
    """Their solutions are those of linear systems, until another vertex is the best one."""
    agrees(lambda x: everything(PROGRAMS[name](x)), X, step=1e-3)


def test_one_tape_serves_all_vertices():
    f = lambda c: linprog(c, A, [4.0, 6.0]).x  # noqa: E731
    cache = nt.prepare_pullback_cache(f, -X[:3])
    for c in (-X[:3], np.array([-5.0, 1.0, 0.5]), np.array([1.0, -5.0, 2.0])):
        np.testing.assert_allclose(nt.value_and_pullback(cache, np.ones(3), c)[0], f(c), atol=1e-12)
    assert cache.traces == 1


def test_what_has_no_derivative():
    with pytest.raises(RuntimeError, match="infeasible"):
        nt.grad(lambda x: linprog(x[:3], A, [-1.0, -1.0]).fun)(X)
    with pytest.raises(nt.UnsupportedOperationError, match=r"linprog with integers"):
        nt.grad(lambda x: linprog(x[:3], A, [4.0, 6.0], integrality=1).fun)(X)
    with pytest.raises(nt.UnsupportedOperationError, match=r"solve_bvp with a singular term"):
        nt.grad(lambda x: bound(x, S=np.zeros((2, 2))))(X)


def test_isotonic_regression():
    y, weights = np.array([1.0, 3.0, 2.0, 2.2, 5.0, 4.0]), np.array([1.0, 2.0, 1.0, 1.5, 1.0, 3.0])
    agrees(lambda y: isotonic_regression(y).x, y)
    agrees(lambda w: isotonic_regression(y, weights=w, increasing=False).x, weights)
    agrees(lambda w: isotonic_regression([3, 1, 2, 5, 4, 6][: len(w)], weights=w).x, weights[:6])
    verb = nt.jacobian(lambda y: isotonic_regression(y).x)
    for each in (y, y[::-1].copy(), np.sort(y)):  # other numbers of blocks
        steps = [
            (isotonic_regression(each + h).x - isotonic_regression(each - h).x) / 2e-6
            for h in 1e-6 * np.eye(6)
        ]
        np.testing.assert_allclose(verb(each), np.stack(steps, 1), atol=1e-8)


MESH = np.linspace(0.0, 1.0, 41)  # fine enough for the tolerance below, so that SciPy keeps it


def bound(x, **options):
    found = solve_bvp(
        lambda t, y: np.vstack([y[1], -x[0] * np.exp(0.3 * y[0])]),
        lambda a, b: np.array([a[0], b[0] - x[1]]),
        *(MESH, np.zeros((2, 41))),
        **{"tol": 1e-5, **options},
    )
    return np.concatenate([found.sol(np.array([0.3, 0.71]))[0], found.y[1, ::40], found.sol(0.4, 1)])


def frequency(x):
    """A string with a weight of its own: the unknown parameter is its frequency."""
    found = solve_bvp(
        lambda t, y, p: [y[1], -(p[0] ** 2) * (1.0 + x[0] * t) * y[0]],
        lambda a, b, p: np.array([a[0], b[0], a[1] - x[1]]),
        *(MESH, np.stack([np.sin(np.pi * MESH), np.pi * np.cos(np.pi * MESH)]), np.array([3.1])),
        tol=1e-6,
    )
    return found.p[0]


def test_boundary_values():
    agrees(bound, X[:2], rtol=1e-5, value_rtol=1e-9)


def test_unknown_parameters():
    """The first frequency of a uniform string is pi, and half of a weight counts for half of it."""
    value, gradient = nt.value_and_grad(frequency)(np.array([0.0, 0.7]))
    np.testing.assert_allclose(value, np.pi, rtol=1e-6)
    np.testing.assert_allclose(gradient, [-np.pi / 4.0, 0.0], rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("count", [2, 3, 2001])
def test_sparse_systems_of_nodes(count):
    """Conditions that join both ends, on few nodes and on very many."""
    nodes = np.linspace(0.0, 1.0, count)

    def at_the_end(x):
        found = solve_bvp(
            lambda t, y: np.stack([y[1], x[0] ** 2 * y[0]]),
            lambda a, b: np.array([a[0] - x[1] * b[0], a[0] + a[1] - 1.0]),
            *(nodes, np.zeros((2, count))),
            tol=1e-10,
            max_nodes=5000,
        )
        return found.y[0, -1]

    def known(x):
        k, ratio = x  # A cosh(k t) + B sinh(k t)
        one = ratio * np.sinh(k) / (1.0 - ratio * np.cosh(k))  # A over B
        return (one * np.cosh(k) + np.sinh(k)) / (one + k)

    x = np.array([1.3, 0.4])
    value, slopes = nt.value_and_grad(at_the_end)(x)
    exact, exact_slopes = nt.value_and_grad(known)(x)
    np.testing.assert_allclose(value, exact, rtol=1e-8)
    np.testing.assert_allclose(slopes, exact_slopes, rtol=1e-7)
    if count == 2:
        np.testing.assert_allclose(nt.hessian(at_the_end)(x), nt.hessian(known)(x), rtol=1e-6)
