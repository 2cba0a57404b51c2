"""Sparse matrices of SciPy's among traced operands, and systems with them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy
import scipy.sparse as sp
import scipy.sparse.linalg as spl
from scipy.sparse.linalg import spsolve

import numbatape as nt
from numbatape.testing import check_derivatives
from tests.agreement import agrees

RNG = np.random.default_rng(7)
A = sp.random_array((5, 4), density=0.5, rng=RNG, format="csr")
S = sp.random_array((5, 5), density=0.4, rng=RNG, format="csc") + 5.0 * sp.eye_array(5, format="csc")
X, Y = RNG.normal(size=4), RNG.normal(size=5)
M = RNG.normal(size=(4, 3))
FORMATS = ("csr", "csc", "coo", "dia", "bsr", "lil", "dok")


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csr_matrix])
@pytest.mark.parametrize("form", FORMATS)
def test_products_with_vectors(form, kind):
    B = kind(A).asformat(form)

    def f(x):
        return (
            np.sum(np.sin(B @ x) * Y) + np.sum((Y @ B) * x**2) + np.sum(B.dot(x) ** 2 * (B.T @ (Y * x[0]))[0])
        )

    check_derivatives(f, X, points=1)


@pytest.mark.parametrize("form", FORMATS)
def test_values_are_scipys(form):
    B = A.asformat(form)
    for f, x in (
        (lambda x: B @ x, X),
        (lambda x: x @ B, Y),
        (lambda x: B.T @ x, Y),
        (lambda x: B @ x, M),
        (lambda x: x.T @ B.T, M),
        (lambda x: B @ x, X[:, None]),
    ):
        value, _ = nt.vjp(f, x)
        assert value.shape == f(x).shape
        np.testing.assert_allclose(value, f(x), rtol=1e-15, atol=1e-16)


def test_products_with_matrices():
    C = sp.csr_matrix(A)
    check_derivatives(lambda x: np.sum((A @ x) ** 2) + np.sum(x.T @ A.T) ** 2 + np.sum(np.cos(x.T @ C.T)), M)


def test_star_of_a_matrix_is_its_product():
    C = sp.csr_matrix(A)
    check_derivatives(lambda x: np.sum((C * x) ** 2) + np.sum((x @ (C.T * 2.0)) ** 2), X)
    check_derivatives(lambda x: np.sum(x * C) ** 2, Y)


def test_star_and_slash_of_an_array_are_elementwise():
    check_derivatives(
        lambda x: np.sum(((A * x) @ x) ** 2) + np.sum((A / (2.0 + x[0] ** 2)).toarray() ** 3), X
    )
    check_derivatives(lambda y: np.sum(((A * y[:, None]).T @ y) ** 2), Y)


def test_sums_with_dense_arrays():
    check_derivatives(lambda x: np.sum((A + np.outer(Y, x)) ** 3) + np.sum((np.outer(Y, x) - A) ** 2), X)


def test_entries_that_are_traced():
    """A conditional autoregression: the precision's entries depend on a parameter."""
    W = A.T @ A

    def logp(rho, x):
        Q = sp.eye_array(4) - rho * W
        return (
            -0.5 * x @ (Q @ x)
            + np.sum(np.log(Q.diagonal() ** 2))
            + np.sum(Q.sum(0) ** 2)
            + np.sum(Q.T.sum(1))
        )

    check_derivatives(logp, 0.3, X)
    dense = -0.5 * X @ (np.eye(4) - 0.3 * W.toarray()) @ X
    assert nt.vjp(lambda r: -0.5 * X @ ((sp.eye_array(4) - r * W) @ X), 0.3)[0] == pytest.approx(
        dense, rel=1e-14
    )


def test_repeated_entries_count_as_their_sum():
    B = sp.coo_array(([1.0, 2.0, 4.0], ([0, 0, 1], [1, 1, 0])), (2, 2))
    np.testing.assert_array_equal(nt.jacobian(lambda x: B @ x)(np.ones(2)), B.toarray())
    np.testing.assert_array_equal(nt.jacobian(lambda s: (B * s).toarray())(2.0), B.toarray())


def test_matrices_without_entries():
    B = sp.csr_array((3, 2))
    np.testing.assert_array_equal(nt.jacobian(lambda x: B @ x)(np.ones(2)), np.zeros((3, 2)))
    np.testing.assert_array_equal(nt.grad(lambda x: np.sum(B @ x))(np.ones((2, 2))), np.zeros((2, 2)))


@pytest.mark.parametrize("entries", [np.float32, np.float64, np.int32, bool])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtypes(entries, dtype):
    B = sp.csr_array((A != 0).astype(entries))
    value, pull = nt.vjp(lambda x: B @ x, X.astype(dtype))
    assert value.dtype == (B @ X.astype(dtype)).dtype
    (g,) = pull(np.ones(5, value.dtype))
    assert g.dtype == dtype
    np.testing.assert_allclose(g, B.T @ np.ones(5), rtol=1e-6)


def test_complex_products():
    B = A.astype(complex) * (1.0 + 0.5j)

    def f(x):
        z = x + 1j * x**2
        return np.sum(np.abs(B @ z) ** 2) + np.sum(np.abs(A @ z) ** 4) + np.sum(np.abs(Y @ B * z))

    check_derivatives(f, X, order=1, points=1, float32=False)
    assert nt.vjp(lambda x: B @ x, X)[0].dtype == complex


def test_patterns_are_the_matrix_own():
    found = nt.sparsity(lambda x: np.sin(A @ x), X).toarray()
    np.testing.assert_array_equal(found != 0, A.toarray() != 0)
    second = nt.sparsity(lambda x: np.sum((A @ x) ** 4), X, order=2).toarray()
    np.testing.assert_array_equal(second != 0, (A.T @ A).toarray() != 0)
    J = nt.sparse_jacobian(lambda x: A @ np.exp(x))(X)
    np.testing.assert_allclose(J.toarray(), A.toarray() * np.exp(X), rtol=1e-14)


def test_batches_are_the_single_points():
    points = RNG.normal(size=(3, 4))
    values, grads = nt.batch(lambda x: np.sum(np.sin(A @ x)))(points)
    for x, value, g in zip(points, values, grads, strict=True):
        one = nt.value_and_grad(lambda x: np.sum(np.sin(A @ x)))(x)
        np.testing.assert_allclose(value, one[0], rtol=1e-14)
        np.testing.assert_allclose(g, one[1], rtol=1e-13, atol=1e-15)


def test_contents_that_change_are_seen():
    B = A.copy()
    gradient = nt.grad(lambda x: np.sum(B @ x))
    before = gradient(X)
    B.data *= 2.0
    np.testing.assert_allclose(gradient(X), 2.0 * before, rtol=1e-15)


def test_a_matrix_that_would_not_fit_if_it_were_dense():
    n = 100_000
    band = sp.diags_array([np.ones(n - 1), np.full(n, 2.0)], offsets=[-1, 0], shape=(n, n), format="csr")
    cache = nt.prepare_gradient_cache(lambda x: 0.5 * np.sum((band @ x) ** 2), np.ones(n))
    _, (g,) = nt.value_and_gradient(cache, np.ones(n))
    np.testing.assert_allclose(g, band.T @ (band @ np.ones(n)), rtol=1e-13)


# ---- matrices that are made of traced entries

ROWS, COLS = np.array([0, 1, 2, 0]), np.array([0, 1, 0, 0])  # one position twice
POINTERS = np.array([0, 2, 3, 4])
BLOCK = sp.csr_array(np.array([[0.0, 2.0], [1.0, 3.0]]))


def entries_of(x, kind=sp.csr_array):
    return kind((np.sin(x), (ROWS, COLS)), shape=(3, 3))


def triangle(x):
    return np.array([[x[0], 0.0, x[1]], [0.0, 0.0, x[2]]])


def with_diagonal(x):
    matrix = entries_of(x)
    matrix.setdiag(x[:2], 1)
    matrix.setdiag(-1.0, -1)
    return matrix.toarray()


MADE = {
    **{
        f"{name}, positions": lambda x, name=name: getattr(sp, name)(
            (x, (ROWS, COLS)), shape=(3, 3)
        ).toarray()
        for name in ("csr_array", "csc_array", "coo_array", "csr_matrix", "csc_matrix", "coo_matrix")
    },
    "shape of the positions": lambda x: sp.coo_array((x, (ROWS, COLS))).toarray(),
    "a list of entries": lambda x: sp.csr_array(([x[0], 2.0, x[1] * x[2]], ([0, 1, 1], [0, 0, 1]))).toarray(),
    "csr, pointers": lambda x: sp.csr_array((x, COLS[[1, 0, 2, 3]], POINTERS)).toarray(),
    "csc, pointers": lambda x: sp.csc_array((x, COLS[[1, 0, 2, 3]], POINTERS), shape=(4, 3)).toarray(),
    "bsr": lambda x: sp.bsr_array((x.reshape(1, 2, 2), [1], [0, 1]), shape=(2, 4)).toarray(),
    "dia": lambda x: sp.dia_array((x.reshape(2, 2), [0, -1]), shape=(3, 2)).toarray(),
    "dense": lambda x: sp.csr_array(x.reshape(2, 2)).toarray(),
    "of a sparse array": lambda x: sp.csc_matrix(entries_of(x)).toarray(),
    "diags": lambda x: sp.diags([x, -x[1:], 3.0], [0, 1, -2], shape=(4, 4)).toarray(),
    "diags, numbers": lambda x: sp.diags([x[0], 1.0, x[1] ** 2], [-1, 0, 1], shape=(3, 4)).toarray(),
    "diags_array": lambda x: sp.diags_array(x, offsets=1, format="csr").toarray(),
    "kron": lambda x: sp.kron(entries_of(x), BLOCK).toarray(),
    "kron, a number": lambda x: sp.kron(x[0], sp.kron(x.reshape(2, 2), 2.0)).toarray(),
    "kron, dense": lambda x: sp.kron(BLOCK, x.reshape(2, 2)).toarray(),
    "vstack": lambda x: sp.vstack([entries_of(x), 2.0 * sp.eye_array(3)]).toarray(),
    "hstack": lambda x: sp.hstack([BLOCK, BLOCK * x[0], sp.diags_array(x[:2])], format="csc").toarray(),
    "block_diag": lambda x: sp.block_diag([entries_of(x), x.reshape(2, 2), BLOCK]).toarray(),
    "bmat": lambda x: sp.bmat([[BLOCK * x[0], None], [None, BLOCK / x[1]]]).toarray(),
    "block_array": lambda x: sp.block_array([[BLOCK * x[0], BLOCK], [BLOCK.T, None]]).toarray(),
    "tril, triu": lambda x: sp.tril(entries_of(x), -1).toarray() - sp.triu(entries_of(x)).toarray(),
    "an entry": lambda x: entries_of(x)[0, 0] + entries_of(x)[1, 0] - entries_of(x)[2, 0],
    "rows": lambda x: entries_of(x)[[2, 0]].toarray(),
    "a block": lambda x: entries_of(x, sp.csc_array)[1:, :2].toarray(),
    "a column of a matrix": lambda x: entries_of(x, sp.csr_matrix)[:, 0].toarray(),
    "elementwise power": lambda x: (entries_of(x) ** 2).toarray(),
    "power of a matrix": lambda x: (entries_of(x, sp.csr_matrix) ** 3).toarray(),
    "product": lambda x: (entries_of(x) @ entries_of(x**2).T @ sp.diags_array(x[:3])).toarray(),
    "plain product": lambda x: (BLOCK @ sp.csr_array(x.reshape(2, 2))).toarray(),
    "entries times entries": lambda x: (entries_of(x) * entries_of(x).T).toarray(),
    "multiply": lambda x: (entries_of(x).multiply(x[:3]) + entries_of(x).multiply(sp.eye_array(3))).toarray(),
    "functions of entries": lambda x: (abs(entries_of(x)).sqrt() + entries_of(x).tanh()).toarray(),
    "data, csr": lambda x: entries_of(x).data,
    "data, csc": lambda x: entries_of(x).tocsc().data,
    "data of a sum": lambda x: (entries_of(x) + sp.eye_array(3)).tocsr().data,
    "data of a transpose": lambda x: entries_of(x).T.data,
    "means": lambda x: entries_of(x).mean() * entries_of(x).mean(0) + entries_of(x).mean(1),
    "other diagonals": lambda x: np.concatenate([entries_of(x).diagonal(-2), entries_of(x).diagonal(1)]),
    "trace": lambda x: entries_of(x).trace(),
    "plain multiply": lambda x: (
        BLOCK.multiply(x[:2]).toarray() + BLOCK.maximum(sp.csr_array(x.reshape(2, 2)))
    ),
    "extremes": lambda x: entries_of(x).max() * entries_of(x, sp.csr_matrix).min(0).toarray() + BLOCK.nnz,
    "comparison": lambda x: entries_of(x).multiply(entries_of(x) > 0.5).toarray(),
    "another shape": lambda x: entries_of(x).reshape((1, -1)).toarray() * entries_of(x).conj().T.trace(),
    "stored entries": lambda x: sp.csr_array(triangle(x)).data * sp.csr_array(triangle(x)).nnz,
    "stored positions": lambda x: sp.find(sp.csr_array(triangle(x)))[1] * x[0],
    "a sum that begins with 0": lambda x: sum([entries_of(x), entries_of(x).T]).sum(axis=-1),
    "NumPy's sum": lambda x: np.sum(entries_of(x), axis=0) + np.mean(entries_of(x)),
    "a diagonal": with_diagonal,
    "solve": lambda x: spsolve((entries_of(x) + 4.0 * sp.eye_array(3)).tocsc(), x[:3]),
}


@pytest.mark.parametrize("name", MADE)
def test_matrices_of_traced_entries(name):
    agrees(MADE[name], X**2 + 0.5)


def test_zeros_of_a_dense_array_have_derivatives_and_are_not_stored():
    x = np.array([2.0, 0.0, 3.0, 0.0])
    product = lambda x: sp.csr_array(x.reshape(2, 2)) @ np.array([1.0, 2.0])  # noqa: E731
    np.testing.assert_array_equal(nt.jacobian(product)(x), [[1.0, 2.0, 0.0, 0.0], [0.0, 0.0, 1.0, 2.0]])
    count = nt.prepare_gradient_cache(lambda x: sp.csr_array(x.reshape(2, 2)).nnz * x[0], x)
    for point, stored in ((x, 2.0), (np.ones(4), 4.0)):
        assert nt.value_and_gradient(count, point)[1][0][0] == stored


def test_attributes_are_those_of_scipys_matrices():
    def f(x):
        matrix = entries_of(x)
        with pytest.raises(AttributeError):
            matrix.indice  # noqa: B018
        return np.sum(x) * matrix.indices[0] + hasattr(matrix, "_asdict")

    np.testing.assert_array_equal(nt.grad(f)(X), np.full(4, entries_of(X).indices[0]))


def test_entries_may_be_at_positions_that_are_constants():
    cache = nt.prepare_gradient_cache(
        lambda x, i: np.sum(
            sp.csr_array((x, (i, [0, 0])), shape=(3, 1)).toarray() * np.ones((3, 1)).cumsum(0)
        ),
        np.ones(2),
        nt.Constant(np.array([0, 2])),
    )
    for places in ([0, 2], [1, 0]):
        _, (g, *_) = nt.value_and_gradient(cache, np.ones(2), np.array(places))
        np.testing.assert_array_equal(g, 1.0 + np.array(places))


# ---- errors


def test_shapes_that_do_not_fit():
    with pytest.raises(ValueError, match="do not fit"):
        nt.grad(lambda x: np.sum(A @ x))(Y)
    with pytest.raises(ValueError, match="do not fit"):
        nt.grad(lambda x: np.sum(x @ A))(X)


@pytest.mark.parametrize(
    "f, hint",
    [
        (lambda x: (A * x[0]).todia().sum(), "tocoo, diagonal"),
        (lambda x: (A * x[0])[0].sum(), r"use A\[\[i\]\]"),
        (lambda x: (sp.csr_matrix(A) * x[0])[[0], [1]].sum(), "use sparse arrays"),
        (lambda x: sp.csr_array((x, (np.argsort(x), [0] * 4))).sum(), "positions must be plain"),
        (lambda x: sp.csr_array((x * 1j, (range(4), [0] * 4))).sum(), "use real ones"),
        (lambda x: sp.diags_array(x, dtype=float).sum(), "leave dtype out"),
        (lambda x: np.sum(spsolve(S * (1.0 + 0.0j), x)), "use real ones"),
        (lambda x: np.sum(spsolve(x[:2, None] * x[:2], np.ones(2))), "np.linalg.solve"),
    ],
)
def test_what_there_is_not(f, hint):
    with pytest.raises(nt.UnsupportedOperationError, match=hint) as caught:
        nt.grad(f)(np.arange(1.0, 5.0) if "A" in f.__code__.co_names else Y)
    assert "test_sparse_operands.py" in str(caught.value)


def test_a_number_added_to_a_sparse_matrix():
    with pytest.raises(NotImplementedError, match="nonzero scalar"):
        nt.grad(lambda x: np.sum((A + x[0]) @ x))(X)


# ---- systems


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.sum(np.sin(spsolve(S, x))),
        lambda x: np.sum(np.sin(spl.spsolve(S.T.tocsr(), x, "NATURAL"))),
        lambda x: np.sum(np.sin(sp.linalg.spsolve(S * np.exp(x[0]) + S.T * x[1], x))),
        lambda x: np.sum(np.sin(scipy.sparse.linalg.spsolve(sp.csc_matrix(S), x[:, None] * x))),
        lambda x: np.sum(np.sin(spsolve(S * x[0] ** 2 + S, Y))),
    ],
    ids=["vector", "transposed", "entries", "matrix", "entries alone"],
)
def test_systems(f):
    check_derivatives(f, Y)


def test_systems_agree_with_dense_ones():
    inverse = np.linalg.inv(S.toarray())
    np.testing.assert_allclose(nt.jacobian(lambda b: spsolve(S, b))(Y), inverse, rtol=1e-13, atol=1e-15)
    value, _ = nt.vjp(lambda b: spsolve(S, b[:, None]), Y)
    assert value.shape == spsolve(S, Y[:, None]).shape
    values, _ = nt.batch(lambda b: np.sum(spsolve(S, b) ** 2))(np.stack([Y, 2.0 * Y]))
    np.testing.assert_allclose(values, [np.sum(spsolve(S, b) ** 2) for b in (Y, 2.0 * Y)], rtol=1e-13)


def test_singular_systems_are_nan_as_in_scipy():
    with pytest.warns(spl.MatrixRankWarning):
        value, _ = nt.vjp(lambda b: spsolve(sp.csc_array(np.diag([1.0, 0.0])), b), np.ones(2))
    assert np.isnan(value).all()


LU, OPERATOR = spl.splu(S), spl.aslinearoperator(S)
EACH = ("bicg", "bicgstab", "cg", "cgs", "gcrotmk", "gmres", "lgmres", "minres", "qmr", "tfqmr")
SYMMETRIC = S + S.T
LINEAR = {
    "splu, inside": lambda b: spl.splu(S).solve(b),
    "splu, outside": lambda b: LU.solve(b),
    "splu, transposed": lambda b: LU.solve(b[:, None] * Y, "T"),
    "factorized": lambda b: spl.factorized(S)(b),
    "LinearOperator, outside": lambda b: OPERATOR @ b + OPERATOR.T @ b**2 + OPERATOR.matvec(b),
    "LinearOperator, inside": lambda b: spl.LinearOperator((5, 5), matvec=lambda x: 2.0 * x) @ b,
    "products of operators": lambda b: (2.0 * OPERATOR * OPERATOR + OPERATOR).dot(b),
    **{name: lambda b, name=name: getattr(spl, name)(SYMMETRIC, b, rtol=1e-13)[0] for name in EACH},
    "one column": lambda b: spl.cg(SYMMETRIC, b[:, None], rtol=1e-13)[0],
    "with a preconditioner": lambda b: spl.gmres(S, b, M=spl.splu(S).L, rtol=1e-13)[0],
}


@pytest.mark.parametrize("name", LINEAR)
def test_linear_solvers_of_traced_vectors(name):
    f = LINEAR[name]
    agrees(lambda b: f(np.sin(b)), Y, rtol=1e-6, value_rtol=1e-9)


def test_a_solver_names_the_option_that_is_traced():
    with pytest.raises(nt.UnsupportedOperationError, match=r"cg with a traced x0 at .*stop_gradient"):
        nt.grad(lambda x: np.sum(spl.cg(SYMMETRIC, Y, x0=x)[0]))(Y)


def test_a_solver_that_does_not_converge_has_no_derivative():
    with pytest.raises(RuntimeError, match=r"scipy\.sparse\.linalg\.cg found no solution \(info=1\)"):
        nt.grad(lambda b: np.sum(spl.cg(SYMMETRIC, b, maxiter=1)[0]))(Y)


FIVE_PLACES = np.array([0, 0, 1, 2, 2]), np.array([1, 2, 0, 0, 2])


def _made(x, form):
    return sp.coo_array((x * 1.0, FIVE_PLACES), shape=(3, 3)).asformat(form)


def _of_new_entries(x, form):
    matrix = _made(x, form)
    matrix.data = matrix.data**2
    matrix.data *= 3.0
    return np.sum(matrix.toarray() ** 2)


def _of_zeros_and_others(x, form):
    matrix = sp.csr_array(np.outer(x, [1.0, 0.0, 2.0])).asformat(form)
    matrix.data = matrix.data**2
    return np.sum(matrix.toarray() * np.arange(3.0))


def _of_a_written_entry(x, form):
    matrix = sp.csr_array(np.outer(x, x)).asformat(form)  # which has no zeros
    matrix.data[1] = 7.0
    return np.sum(matrix.toarray() ** 2)


def _of_conversions(x, form):
    matrix = _made(x, form)
    other = matrix.tocoo()
    other.data[0] = 0.0
    other = matrix.tocsr()
    other.data[1] = 7.0
    turned = matrix.conj()
    turned.setdiag(5.0)
    return np.sum(matrix.toarray() ** 2) + np.sum(other.toarray() ** 3) + np.sum(turned.toarray() ** 4)


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
@pytest.mark.parametrize("f", [_of_new_entries, _of_zeros_and_others, _of_a_written_entry, _of_conversions])
def test_entries_that_are_written_or_replaced(f, form):
    agrees(lambda x: f(x, form), np.array([1.1, 2.0, 3.2, 0.4, 1.5]))


def test_entries_without_the_zeros_cannot_be_written_to():
    def f(x):
        matrix = sp.csr_array(np.outer(x, [1.0, 0.0]))
        matrix.data[0] = 7.0
        return np.sum(matrix.toarray())

    with pytest.raises(ValueError, match="read-only"):
        nt.grad(f)(Y)


def test_stored_entries_are_counted_along_an_axis():
    def f(x, kind):
        matrix = kind(np.outer(x, [1.0, 0.0, 2.0]) * (x > 1.0))
        return np.sum(x) * (
            matrix.getnnz(axis=0) @ [1, 2, 3] + matrix.getnnz(-1) @ [3, 2, 1] + matrix.getnnz()
        )

    agrees(lambda x: f(x, sp.csr_matrix), np.array([1.1, 2.0, 0.4]))
    with pytest.raises(AttributeError, match="getnnz"):
        nt.grad(lambda x: f(x, sp.csr_array))(np.array([1.1, 2.0, 0.4]))
