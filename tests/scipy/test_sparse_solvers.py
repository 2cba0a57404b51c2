"""Eigenvalues and least squares of sparse matrices, by SciPy's iterations."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.integrate
import scipy.optimize
import scipy.sparse as sp
import scipy.sparse.linalg as spl

import numbatape as nt
from numbatape.capture.held import OfClasses
from tests.agreement import agrees

RNG = np.random.default_rng(3)
X = RNG.normal(size=7)
TALL = sp.csr_array(RNG.normal(size=(7, 5)) * (RNG.random((7, 5)) < 0.6) + np.eye(7, 5))
B = RNG.normal(size=7)


def symmetric(x):
    """Return a matrix whose three diagonals depend on x."""
    side = 0.3 * np.sin(x[1:])
    return sp.diags_array([np.arange(1.0, 8.0) + 0.2 * x, side, side], offsets=[0, 1, -1], format="csr")


def slanted(Q):
    """Return a matrix that is not symmetric."""
    return (Q * np.arange(1.0, 8.0)).tocsc()


def scaled(x):
    return TALL * (1.0 + 0.3 * np.sin(x))[:, None]


def projector(vectors):
    """Return what does not depend on the signs of vectors, one a column."""
    return vectors @ vectors.T


EIGENVALUES = {
    "eigsh": lambda x: spl.eigsh(symmetric(x), 2, which="SA")[0],
    "eigsh without vectors": lambda x: spl.eigsh(symmetric(x), k=3, return_eigenvectors=False),
    "eigsh vectors": lambda x: projector(spl.eigsh(symmetric(x), 2, which="BE")[1]),
    "eigsh inside": lambda x: spl.eigsh(symmetric(x).tocsc(), 2, sigma=4.2)[0],
    "eigsh dense": lambda x: spl.eigsh(symmetric(x).toarray(), 2)[0],
    "svds": lambda x: spl.svds(scaled(x), 2)[1],
    "svds wide": lambda x: spl.svds(scaled(x).T, 2, return_singular_vectors=False),
    "svds by propack": lambda x: spl.svds(scaled(x), 2, solver="propack")[1],
    "svds vectors": lambda x: (lambda u, s, v: (u * s) @ v)(*spl.svds(scaled(x), 2)),
}


@pytest.mark.parametrize("name", EIGENVALUES)
def test_eigenvalues(name):
    agrees(EIGENVALUES[name], X, rtol=1e-6)


SOLVERS = {"lsqr": (spl.lsqr, {"atol": 1e-14, "btol": 1e-14}), "lsmr": (spl.lsmr, {"maxiter": 60})}
KINDS = {"sparse": TALL, "dense": TALL.toarray(), "wide": TALL[:4], "operator": spl.aslinearoperator(TALL)}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SOLVERS)
def test_least_squares(name, kind):
    solver, options = SOLVERS[name]
    options = {"atol": 1e-14, "btol": 1e-14, **options}
    matrix = KINDS[kind]
    m, n = matrix.shape

    def f(x):
        plain = solver(matrix, B[:m] * x[:m] ** 2, **options)[0]
        damped = solver(matrix, B[:m] * x[:m] ** 2, damp=0.3, x0=np.ones(n), **options)
        lengths = [damped[k] for k in ((3, 4, 8) if name == "lsqr" else (3, 7))]
        return np.concatenate([plain, damped[0], np.stack(lengths)])

    agrees(f, X, rtol=1e-6, value_rtol=1e-9)


def lobpcg_of(Q):
    w, v = spl.lobpcg(Q, np.eye(7)[:, :1] + 0.1, tol=1e-12, maxiter=200)
    return np.concatenate([w, np.abs(v[:, 0])])


FUNCTIONS = {
    "norm": lambda Q: spl.norm(Q),
    "other norms": lambda Q: spl.norm(Q, 1) * spl.norm(Q, axis=1) + spl.norm(Q, np.inf),
    "inv": lambda Q: spl.inv(Q.tocsc()).toarray(),
    "expm": lambda Q: spl.expm(-0.1 * Q.tocsc()) @ B,
    "sparse right-hand side": lambda Q: spl.spsolve(Q.tocsc(), Q.tocsc()[:, :2]).toarray(),
    "cg": lambda Q: spl.cg(Q, B, rtol=1e-14)[0],
    "gmres": lambda Q: spl.gmres(Q.toarray(), B, rtol=1e-14, M=sp.diags_array(np.full(7, 0.2)))[0],
    "matrix_power": lambda Q: spl.matrix_power(Q, 2) @ B,
    "expm_multiply": lambda Q: spl.expm_multiply(-0.1 * Q, B),
    "operator": lambda Q: spl.aslinearoperator(Q).matvec(B),
    "splu": lambda Q: spl.splu(Q.tocsc()).solve(B),
    "splu, transposed": lambda Q: spl.splu(Q.tocsc(), "NATURAL").solve(np.outer(B, B), "T"),
    "splu, transposed or not": lambda Q: np.stack([spl.splu(slanted(Q)).solve(B, way) for way in "NnTtHh"]),
    "factorized": lambda Q: spl.factorized(Q.tocsc())(Q @ B),
    "lobpcg": lobpcg_of,
    "issparse": lambda Q: np.sum(Q @ B) if sp.issparse(Q) and not sp.isspmatrix(Q) else B[0],
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_traced_matrices(name):
    agrees(lambda x: FUNCTIONS[name](symmetric(x)), X)


REFUSED = {
    "eigs": (lambda x: spl.eigs(symmetric(x), 1)[0].real, r"linalg\.eigs.*np\.linalg\.eig"),
    "lobpcg": (lambda x: spl.lobpcg(symmetric(x), np.eye(7)[:, :1], B=np.eye(7))[0], r"with B, .*eigsh"),
    "factors": (lambda x: spl.splu(symmetric(x).tocsc()).L, r"splu\(A\)\.L .* solve is"),
    "incomplete factors": (lambda x: spl.spilu(symmetric(x).tocsc()).solve(B), "use splu"),
    "eigsh with M": (lambda x: spl.eigsh(symmetric(x), 1, M=np.eye(7))[0], r"eigsh with M"),
    "lsqr": (lambda x: spl.lsqr(symmetric(x), B)[0], r"lsqr with a traced A.*nt\.linear_solve"),
    "damping": (lambda x: spl.lsmr(TALL, B, damp=x[0])[0], r"lsmr with a traced damp"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_supported_is_named(name):
    f, message = REFUSED[name]
    with pytest.raises(nt.UnsupportedOperationError, match=message):
        nt.grad(lambda x: np.sum(f(x)))(X)


CALLED_BACK = {
    "odeint": lambda Q: scipy.integrate.odeint(lambda y, t: -(Q @ y), B, [0.0, 0.3], rtol=1e-11, atol=1e-11)[
        -1
    ],
    "root": lambda Q: scipy.optimize.root(lambda y: Q @ y + 0.1 * y**3 - B, np.zeros(7), tol=1e-13).x,
    "linear_solve": lambda Q: nt.linear_solve(lambda y: Q @ y, B),
}


@pytest.mark.parametrize("name", CALLED_BACK)
def test_functions_that_solvers_call_use_traced_matrices(name):
    agrees(lambda x: CALLED_BACK[name](symmetric(x)), X, rtol=1e-6, value_rtol=1e-9)


class Shifted(spl.LinearOperator):
    """An operator that holds the namespace of its arrays, as those of SciPy 1.18 do."""

    namespace = np

    def __init__(self, matrix):
        super().__init__(float, matrix.shape)
        self.matrix = matrix

    def _matvec(self, x):
        return self.namespace.reshape(self.matrix @ x, -1) + x


@pytest.mark.parametrize("way", "NnTtHh")
def test_plain_factors_take_letters_of_any_case(way):
    factors = spl.splu(slanted(symmetric(X)))
    agrees(lambda b: factors.solve(np.sin(b), way), B)


def test_an_unknown_way_to_solve_raises_as_in_scipy():
    factors = spl.splu(slanted(symmetric(X)))
    with pytest.raises(ValueError, match="trans must be N, T, or H"):
        nt.jacobian(lambda b: factors.solve(b, "X"))(B)


def test_the_namespace_of_an_operator_is_not_walked_through():
    """What a solver compares are the user's numbers; NumPy's modules refer to thousands of objects."""
    assert not any(value is np.linalg for value in OfClasses([Shifted]).seen.values())
    operator, b = Shifted(sp.diags_array(np.arange(1.0, 8.0))), B
    agrees(lambda x: spl.cg(operator, b * x, rtol=1e-14)[0], X)
