"""`nt.linear_solve` against the solution with a matrix, in all modes and to second order."""

import numpy as np
import pytest
from scipy.sparse.linalg import LinearOperator, cg

import numbatape as nt

N = 6
GENERAL = np.random.default_rng(0).normal(size=(N, N)) + 6.0 * np.eye(N)
SYMMETRIC = GENERAL @ GENERAL.T
RHS = np.arange(1.0, N + 1.0)
T = np.array([1.2, 0.3, 0.7])


def matrix_of(method):
    return SYMMETRIC if method in ("cg", "minres") else GENERAL


def solved(t, method, **options):
    """Solve (t[0] M + t[1]) x = t[2] b by products."""
    M = matrix_of(method)
    return nt.linear_solve(lambda x, s: t[0] * (M @ x) + s * x, t[2] * RHS, t[1], method=method, **options)


def exact(t, method):
    return np.linalg.solve(t[0] * matrix_of(method) + t[1] * np.eye(N), t[2] * RHS)


@pytest.mark.parametrize("method", ["gmres", "cg", "bicgstab", "minres"])
def test_against_the_matrix(method):
    f, g = lambda t: solved(t, method), lambda t: exact(t, method)
    np.testing.assert_allclose(f(T), g(T), rtol=1e-9)
    for mode in ("forward", "reverse"):
        found = nt.jacobian(f, mode=mode)
        for t in (T, 1.5 * T):  # a trace, and a call of its tape
            np.testing.assert_allclose(found(t), nt.jacobian(g)(t), rtol=1e-8, atol=1e-11)
    norm = lambda f: lambda t: np.sum(f(t) ** 2)  # noqa: E731
    np.testing.assert_allclose(nt.hessian(norm(f))(T), nt.hessian(norm(g))(T), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(nt.hvp(norm(f))(T, T), nt.hvp(norm(g))(T, T), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("method", ["gmres", "cg", "bicgstab", "minres"])
def test_start_and_preconditioner_have_no_influence(method):
    near = np.diag(1.0 / np.diag(matrix_of(method)))
    options = {"x0": np.ones(N), "preconditioner": lambda x: near @ x}
    f = lambda t: solved(t, method, **options)  # noqa: E731
    expected = nt.jacobian(lambda t: exact(t, method))(T)
    np.testing.assert_allclose(nt.jacobian(f, mode="reverse")(T), expected, rtol=1e-8, atol=1e-11)


def test_products_are_all_that_is_asked_for():
    """A system that is too large for a matrix: a diffusion with 40 000 unknowns."""
    size = 40_000

    def A(x, k):
        return x + k * (2.0 * x - np.roll(x, 1) - np.roll(x, -1))

    def f(k):
        return np.sum(nt.linear_solve(A, np.arange(size) % 5.0, k, method="cg") ** 2)

    step = 1e-5
    slope = nt.grad(f)(0.4)
    assert np.isclose(slope, (f(0.4 + step) - f(0.4 - step)) / (2 * step), rtol=1e-7)


def test_containers_and_matrices():
    def A(x, k):
        return {"u": k * x["u"] + x["v"][0], "v": x["v"] * 2.0}

    f = lambda k: nt.linear_solve(A, {"u": 1.0, "v": np.ones(2)}, k)["u"]  # noqa: E731
    assert np.isclose(f(2.0), 0.25) and np.isclose(nt.grad(f)(2.0), -0.125)
    found = nt.jacobian(lambda b: nt.linear_solve(GENERAL, b))(RHS)
    np.testing.assert_allclose(found, np.linalg.inv(GENERAL), atol=1e-11)
    by_matrix = nt.grad(lambda M: np.sum(nt.linear_solve(M, RHS)))(GENERAL)
    np.testing.assert_allclose(
        by_matrix, nt.grad(lambda M: np.sum(np.linalg.solve(M, RHS)))(GENERAL), atol=1e-11
    )


def test_integers_are_floats():
    f = lambda k: np.sum(nt.linear_solve(lambda x: k * x, np.array([1, 2]), x0=[0, 1]))  # noqa: E731
    assert np.isclose(f(2.0), 1.5) and np.isclose(nt.grad(f)(2.0), -0.75)


def test_errors():
    with pytest.raises(nt.ConfigError, match="method='lu' is none of cg, gmres, bicgstab"):
        nt.linear_solve(GENERAL, RHS, method="lu")
    with pytest.raises(nt.SpecError, match="A returns 3 entries for 6 unknowns"):
        nt.linear_solve(lambda x: x[:3], RHS)
    with pytest.raises(RuntimeError, match=r"gmres did not converge.* max_steps="):
        nt.grad(lambda k: np.sum(nt.linear_solve(lambda x: k * np.roll(x, 1), RHS, max_steps=1)))(1.0)
    product = lambda k: LinearOperator((N, N), lambda x: k * (SYMMETRIC @ x), dtype=float)  # noqa: E731
    with pytest.raises(nt.UnsupportedOperationError, match=r"nt\.linear_solve"):
        nt.grad(lambda k: np.sum(cg(product(k), RHS)[0]))(1.0)
