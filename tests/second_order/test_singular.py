"""Polynomials at singular points: determinants of any rank, products with zeros; logsumexp of infinity."""

import itertools

import numpy as np
import pytest
import scipy.special as sc

import numbatape as nt
from numbatape.trace.evaluation import Evaluation

MODES = ("reverse_over_forward", "forward_over_reverse")


def leibniz(a):
    """The determinant as a sum of products, which has derivatives of all orders anywhere."""
    n = a.shape[-1]
    total = 0.0
    for order in itertools.permutations(range(n)):
        term = np.linalg.det(np.eye(n)[list(order)]).round()
        for i, j in enumerate(order):
            term = term * a[..., i, j]
        total = total + term
    return total


def of_rank(n, rank, kind=float):
    rng = np.random.default_rng(10 * n + rank)
    left, right = rng.normal(size=(n, rank)), rng.normal(size=(rank, n))
    return (left + 1j * rng.normal(size=left.shape)) @ right if kind is complex else left @ right


RANKS = [(1, 0), (2, 1), (2, 0), (3, 3), (3, 2), (3, 1), (3, 0), (4, 3), (4, 2)]


@pytest.mark.parametrize("n, rank", RANKS)
def test_hessians_and_directions_of_det(n, rank):
    a = of_rank(n, rank)
    v = np.random.default_rng(n).normal(size=(n, n))
    want = nt.hessian(leibniz)(a)
    for mode in MODES:
        cache = nt.prepare_hessian_cache(np.linalg.det, a, config=nt.Config(second_order_mode=mode))
        _, gradient, hessian = nt.value_gradient_and_hessian(cache, a)
        np.testing.assert_allclose(hessian, want, atol=1e-13)
        np.testing.assert_allclose(gradient, nt.grad(leibniz)(a), atol=1e-13)
    np.testing.assert_allclose(nt.jvp(np.linalg.det, (a,), (v,)), nt.jvp(leibniz, (a,), (v,)), atol=1e-13)


@pytest.mark.parametrize("n, rank", [(2, 1), (3, 3), (3, 1), (3, 0)])
def test_third_derivatives_of_det(n, rank):
    """Along two directions, which no entry of the tensor is orthogonal to."""
    a = of_rank(n, rank)
    for v in np.random.default_rng(n + rank).normal(size=(2, n, n)):
        got, want = (nt.jvp(nt.hessian(f), (a,), (v,))[1] for f in (np.linalg.det, leibniz))
        np.testing.assert_allclose(got, want, atol=1e-12)


def test_a_cache_goes_from_regular_to_singular_matrices_and_back():
    cache = nt.prepare_hessian_cache(np.linalg.det, np.eye(3))
    for rank in (3, 1, 2, 3):
        a = of_rank(3, rank)
        np.testing.assert_allclose(
            nt.value_gradient_and_hessian(cache, a)[2], nt.hessian(leibniz)(a), atol=1e-13
        )


def filtered(det):
    """A sum over matrices, of which ``x[k]`` decides whether the k-th one is singular."""
    return lambda x: sum(np.sin(det(np.array([[x[k], 1.0], [x[k - 1], 2.0]]))) for k in range(len(x)))


def test_rules_assume_regular_matrices_and_evaluate_nothing(monkeypatch):
    x = np.linspace(1.0, 3.0, 30)
    want = nt.hessian(filtered(leibniz))(x)
    monkeypatch.setattr(Evaluation, "value", None)
    np.testing.assert_allclose(nt.hessian(filtered(np.linalg.det))(x), want, atol=1e-13)


@pytest.mark.parametrize("singular", [{0}, {7}, {3, 29}])
def test_what_a_rule_has_assumed_is_checked(singular):
    """In the first call by its sweep; the second one finds the trace that assumed nothing."""
    x = np.linspace(1.0, 3.0, 30)
    for k in singular:
        x[k] = x[k - 1] / 2.0
    want, f = nt.hessian(filtered(leibniz))(x), filtered(np.linalg.det)
    for _ in range(2):
        np.testing.assert_allclose(nt.hessian(f)(x), want, atol=1e-13)


@pytest.mark.parametrize("corner", [0.5, 0.25])
def test_python_sees_numbers_of_derivatives_that_hold(corner):
    """With ``corner=0.5`` the matrix is singular, and the function asks for a number of the gradient."""
    calls = []

    def f(det):
        def run(x):
            calls.append(None)
            slope = nt.grad(lambda y: det(np.array([[y[0], 1.0], [y[1], 2.0]])))(x)
            try:
                steep = bool(slope[0] > 1.0)
            except Exception:
                steep = False
            return np.sum(slope * x) * x[0] if steep else np.sum(x**3)

        return run

    x = np.array([corner, 1.0])
    want = nt.hessian(f(leibniz))(x)
    count = len(calls)
    np.testing.assert_allclose(nt.hessian(f(np.linalg.det))(x), want, atol=1e-13)
    assert len(calls) == 2 * count  # a trace that starts again undoes what the first one did


def test_stacks_and_singles_of_det():
    a = np.stack([of_rank(3, rank) for rank in (1, 2, 3)])

    def f(det):
        return lambda x: np.sum(np.sin(det(x)))

    np.testing.assert_allclose(nt.hessian(f(np.linalg.det))(a), nt.hessian(f(leibniz))(a), atol=1e-13)
    low = a.astype(np.float32)
    got = nt.hvp(f(np.linalg.det))(low, np.ones_like(low))
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, nt.hvp(f(leibniz))(a, np.ones_like(a)), atol=1e-4)


@pytest.mark.parametrize("n", [8, 30])
def test_det_near_singular_matrices(n):
    """Its Hessian along a matrix V, twice, from the determinant along t V as a polynomial."""
    rng = np.random.default_rng(n)
    u, v = (np.linalg.qr(rng.normal(size=(n, n)))[0] for _ in range(2))
    s = np.linspace(0.5, 1.5, n)
    for small in ([0.0], [1e-12], [0.0, 0.0], [0.0, 1e-9, 0.0]):
        s[: len(small)] = small
        a, direction = (u * s) @ v, np.outer(u[:, 0], v[0]) + np.outer(u[:, 1], v[1])
        got = np.sum(direction * nt.hvp(np.linalg.det)(a, direction))
        # det(a + t direction) = det(u v) (s0 + t)(s1 + t) s2 s3 ...
        want = 2.0 * np.linalg.det(u) * np.linalg.det(v) * np.prod(s[2:])
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12 * abs(np.prod(s[3:])))


@pytest.mark.parametrize("n, rank", [(2, 1), (3, 1)])
def test_complex_det(n, rank):
    a = of_rank(n, rank, complex)
    weight = 0.3 - 0.7j

    def f(det):
        return lambda x: np.real(weight * det(x)) + np.abs(det(x)) ** 2

    v = np.random.default_rng(1).normal(size=(n, n)) + 0.5j
    for verb in (
        lambda g: nt.grad(g)(a),
        lambda g: nt.jvp(g, (a,), (v,))[1],
        lambda g: nt.jvp(lambda x: nt.grad(g)(x), (a,), (v,))[1],
    ):
        np.testing.assert_allclose(verb(f(np.linalg.det)), verb(f(leibniz)), atol=1e-12)


def test_products_with_zeros():
    x = np.array([1.5, 0.0, -2.0, 0.0, 3.0])

    def product(x):
        return x[0] * x[1] * x[2] * x[3] * x[4]

    for verb in (nt.grad, nt.hessian, lambda f: nt.jacobian(nt.hessian(f))):
        np.testing.assert_allclose(verb(np.prod)(x), verb(product)(x), rtol=1e-14)
    np.testing.assert_allclose(
        nt.hessian(lambda x: np.sum(np.cumprod(x)))(x),
        nt.hessian(
            lambda x: x[0] + x[0] * x[1] + x[0] * x[1] * x[2] + x[0] * x[1] * x[2] * x[3] + product(x)
        )(x),
        rtol=1e-14,
    )


INF = np.inf


@pytest.mark.parametrize("x", [[1.0, INF], [INF, INF], [-INF, -INF], [-INF, 1.0], [INF, -INF, INF]], ids=str)
def test_logsumexp_of_infinities(x):
    """Infinite maxima share, as in the gradient; forward mode agrees, and so does the Hessian."""
    x = np.array(x)
    share = nt.grad(sc.logsumexp)(x)
    for k, unit in enumerate(np.eye(len(x))):
        np.testing.assert_array_equal(nt.jvp(sc.logsumexp, (x,), (unit,))[1], share[k])
    want = np.diag(share) - np.outer(share, share)
    for mode in MODES:
        cache = nt.prepare_hessian_cache(sc.logsumexp, x, config=nt.Config(second_order_mode=mode))
        np.testing.assert_array_equal(nt.value_gradient_and_hessian(cache, x)[2], want)
