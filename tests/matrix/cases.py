"""Functions of matrices that are rules, and arguments: what `test_laws` checks each for."""

import numpy as np
import scipy.linalg as sl

from tests.every_case import OLDER

RNG = np.random.default_rng(3)
A, B = RNG.normal(size=(2, 4, 4))
C = A + 1j * B
D = C @ A
LONG = RNG.normal(size=(6, 3)) + 1j * RNG.normal(size=(6, 3))
TALL, WIDE = LONG.real.copy(), LONG.T.real.copy()
SLAB = LONG.T.copy()
V, W = RNG.normal(size=(2, 4))
SIX = RNG.normal(size=6)
REAL = 0.1 * A + np.diag([1.0, 2.0, 3.0, 4.0])  # real eigenvalues
SPREAD = A + 5.0 * np.diag([1.0, 2.0, 3.0, 4.0])
STACK = np.stack([A, B])
GAIN, COST = B[:, :2].copy(), RNG.normal(size=(2, 2))
BAND = RNG.normal(size=(4, 6)) + np.array([0, 0, 4, 0])[:, None]
UPPER = RNG.normal(size=(3, 6)) + np.array([0, 0, 9])[:, None]
LOWER = RNG.normal(size=(3, 6)) + np.array([9, 0, 0])[:, None]
FIRST = np.array([9.0, 0.0, 0.0, 0.0])


def whole(a):
    return a + np.conj(a.T)


def positive(a):
    return a @ np.conj(a.T) + np.eye(len(a))


def part(function, k, *args, **options):
    """Return a function of arguments that gives one of a function's results."""
    return lambda *x: function(*x, *args, **options)[k]


def projector(v):
    return v @ np.conj(v.T)


def reduced(k):
    return part(np.linalg.svd, k, full_matrices=False)


NUMPY = {
    "eig values": (part(np.linalg.eig, 0), A),
    "eig vectors": (part(np.linalg.eig, 1), A),
    "eig vectors, real": (part(np.linalg.eig, 1), SPREAD),
    "eig vectors, stack": (part(np.linalg.eig, 1), STACK),
    "eig vectors, complex": (part(np.linalg.eig, 1), C),
    "eigvals": (np.linalg.eigvals, A),
    "eigvals, real": (np.linalg.eigvals, SPREAD),
    "eigvals, complex": (np.linalg.eigvals, C),
    "spectral radius": (lambda a: np.max(np.abs(np.linalg.eigvals(a))), A),
    "eigh, complex": (lambda a: np.linalg.eigh(whole(a))[1], C),
    "eigh, complex, values": (lambda a: np.linalg.eigh(whole(a))[0], C),
    "eigh, complex, upper": (lambda a: np.linalg.eigh(whole(a), "U")[1], C),
    "eigh, upper": (lambda a: np.linalg.eigh(a, "U")[1], A),
    "eigvalsh, complex": (np.linalg.eigvalsh, C),
    "svd, complex, U": (reduced(0), LONG),
    "svd, complex, V": (reduced(2), LONG),
    "svd, complex, wide, U": (reduced(0), SLAB),
    "svd, complex, wide, V": (reduced(2), SLAB),
    "svd, complex, nearly square": (reduced(2), LONG[:4]),
    "svd, complex, nearly square, wide": (reduced(0), LONG[:4].T.copy()),
    "svd, complex, square": (part(np.linalg.svd, 0), C),
    "svd, complex, stack": (reduced(0), np.stack([C, D])),
    **{f"svd, full, {k}": (part(np.linalg.svd, k), TALL[:4]) for k in (0, 2)},
    **{f"svd, full, wide, {k}": (part(np.linalg.svd, k), WIDE[:, :4].copy()) for k in (0, 2)},
    "svd, full, complement": (lambda a: projector(np.linalg.svd(a)[0][:, 3:]), TALL),
    "svd, full, complement, complex": (lambda a: projector(np.linalg.svd(a)[2][3:].T), SLAB),
    "svd, full, complex": (lambda a: np.linalg.svd(a)[0][:, :3], LONG),
    "svd, full, stack": (part(np.linalg.svd, 0), np.stack([TALL[:4], TALL[2:]])),
    "qr, complete, Q": (lambda a: np.linalg.qr(a, "complete")[0], TALL[:4]),
    "qr, complete, R": (lambda a: np.linalg.qr(a, "complete")[1], LONG),
    "qr, complete, complement": (lambda a: projector(np.linalg.qr(a, "complete")[0][:, 3:]), LONG),
    "svdvals, complex": (np.linalg.svdvals, LONG),
    "qr, complex, Q": (part(np.linalg.qr, 0), LONG),
    "qr, complex, R": (part(np.linalg.qr, 1), LONG),
    "qr, complex, wide, Q": (part(np.linalg.qr, 0), SLAB),
    "qr, complex, wide, R": (lambda a: np.linalg.qr(a, "r"), SLAB),
    "cholesky, complex": (lambda a: np.linalg.cholesky(positive(a)), C),
    "cholesky, complex, upper": (lambda a: np.linalg.cholesky(positive(a), upper=True), C),
    "pinv, complex": (np.linalg.pinv, LONG),
    "pinv, complex, wide": (np.linalg.pinv, SLAB),
    "cond, complex": (np.linalg.cond, LONG),
    "norm 2, complex": (lambda a: np.linalg.norm(a, 2), LONG),
    "norm nuc, complex": (lambda a: np.linalg.matrix_norm(a, ord="nuc", keepdims=True), LONG),
    "norm 1, complex": (lambda a: np.linalg.matrix_norm(a, ord=1), LONG),
    "slogdet, complex": (part(np.linalg.slogdet, 0), np.stack([C, D])),
    "logdet, complex": (part(np.linalg.slogdet, 1), np.stack([C, D])),
}
BIG = RNG.normal(size=(100, 100)) + 1j * RNG.normal(size=(100, 100))
NUMPY |= {
    "solve, big and complex": (np.linalg.solve, BIG, BIG[:, :2].copy()),
    "solve, big and complex, one column": (np.linalg.solve, BIG, BIG[0].copy()),
    "solve, big and complex, stack": (np.linalg.solve, np.stack([BIG, BIG.T]), BIG[:, :2].real.copy()),
    "inv, big and complex": (np.linalg.inv, BIG),
}
EIGEN = {
    "eig": (part(sl.eig, 1), A),
    "eig values": (lambda a: sl.eig(a, right=False), A),
    "eigvals": (sl.eigvals, A),
    "eigvals, real": (sl.eigvals, SPREAD),
    "eigh": (lambda a: sl.eigh(a)[1] ** 2, A),  # the driver's signs change with rounding
    "eigh, upper": (lambda a: sl.eigh(a, lower=False, driver="evd")[1], A),
    "eigh, complex": (part(sl.eigh, 1, driver="evd"), C),
    "eigh, some values": (lambda a: sl.eigh(a, eigvals_only=True, subset_by_index=[1, 2]), A),
    "eigh, pair": (lambda a, b: sl.eigh(a, positive(b))[1], A, B),
    "eigh, pair, upper": (lambda a, b: sl.eigh(a, positive(b), lower=False)[1], A, B),
    "eigh, pair, values": (lambda a, b: sl.eigh(a, positive(b), eigvals_only=True), A, B),
    "eigh, complex pair": (lambda a, b: sl.eigh(a, positive(b))[1], C, D),
    "eigh, complex pair, upper": (lambda a, b: sl.eigh(whole(a), positive(b), lower=False)[1], C, D),
    "eigvalsh, pair": (lambda a, b: sl.eigvalsh(a, positive(b)), A, B),
    "eig, pair, values": (part(sl.eig, 0), whole(A), positive(B)),
    "eig, pair, vectors": (lambda a, b: sl.eig(a + a.T, positive(b))[1], A, B),
    "eigvals, pair": (sl.eigvals, A, SPREAD),
    "eigvals, pair, complex": (sl.eigvals, C, SPREAD),
    "schur, T": (part(sl.schur, 0), REAL),
    "schur, Z": (part(sl.schur, 1), REAL),
    "hessenberg": (sl.hessenberg, A),
    "hessenberg, Q": (part(sl.hessenberg, 1, calc_q=True), A),
    "hessenberg, complex": (part(sl.hessenberg, 1, calc_q=True), C),
    "eigh_tridiagonal": (lambda d, e: sl.eigh_tridiagonal(d, e)[1] ** 2, V, W[:3] ** 2 + 1),
    "eigvalsh_tridiagonal": (sl.eigvalsh_tridiagonal, V, W[:3] ** 2 + 1),
    "eigvals_banded": (sl.eigvals_banded, UPPER),
}
FACTORS = {
    "ldl, L": (part(sl.ldl, 0), whole(A)),
    "ldl, D": (part(sl.ldl, 1), whole(A)),
    "ldl, upper": (part(sl.ldl, 0, lower=False), whole(B)),
    "ldl, order": (lambda a: a[sl.ldl(a)[2]], whole(A)),
    "lu, L": (part(sl.lu, 1), A),
    "lu, U": (part(sl.lu, 2), A),
    "lu, P": (lambda a: sl.lu(a)[0] @ a, A),
    "lu, PL": (part(sl.lu, 0, permute_l=True), A),
    "lu, indices": (lambda a: a[sl.lu(a, p_indices=True)[0]], A),
    "lu, tall, L": (part(sl.lu, 1), TALL),
    "lu, tall, U": (part(sl.lu, 2), TALL),
    "lu, wide, L": (part(sl.lu, 1), WIDE),
    "lu, wide, U": (part(sl.lu, 2), WIDE),
    "lu, complex": (part(sl.lu, 2), C),
    "lu, stack": (part(sl.lu, 1), STACK),
    "lu_factor": (part(sl.lu_factor, 0), A),
    "lu_solve": (lambda a, b: sl.lu_solve(sl.lu_factor(a), b), A, V),
    "lu_solve, transposed": (lambda a, b: sl.lu_solve(sl.lu_factor(a), b, trans=1), A, B),
    "lu_solve, complex": (lambda a, b: sl.lu_solve(sl.lu_factor(a), b, trans=2), C, B),
    "lu_solve, plain factor": (lambda b: sl.lu_solve(sl.lu_factor(A), b), B),
    "rq, R": (part(sl.rq, 0, mode="economic"), WIDE),
    "rq, Q": (part(sl.rq, 1, mode="economic"), WIDE),
    "rq, square": (part(sl.rq, 1), A),
    "rq, complex": (lambda a: sl.rq(a, mode="r"), C),
    "polar, U": (part(sl.polar, 0), TALL),
    "polar, P": (part(sl.polar, 1), TALL),
    "polar, left": (part(sl.polar, 1, side="left"), SLAB),
    "polar, complex": (part(sl.polar, 0), LONG),
    "orthogonal_procrustes": (part(sl.orthogonal_procrustes, 0), A, B),
    "orthogonal_procrustes, scale": (part(sl.orthogonal_procrustes, 1), A, B),
    "orth": (sl.orth, TALL),
    "subspace_angles": (sl.subspace_angles, TALL, LONG.imag[:, :2].copy()),
    "subspace_angles, small": (lambda a, b: sl.subspace_angles(a, a + 0.1 * b), TALL, LONG.imag.copy()),
    "pinvh": (sl.pinvh, positive(A)),
    "pinvh, upper, complex": (lambda a: sl.pinvh(a, lower=False), positive(C)),
    "lstsq": (part(sl.lstsq, 0), TALL, SIX),
    "lstsq, residuals": (part(sl.lstsq, 1), TALL, BAND.T[:, :2].copy()),
    "lstsq, singular values": (part(sl.lstsq, 3), TALL, SIX),
}
EQUATIONS = {
    "solve_sylvester": (sl.solve_sylvester, A, B, D.real.copy()),
    "solve_sylvester, complex": (sl.solve_sylvester, C, D, C @ D),
    "solve_continuous_lyapunov": (sl.solve_continuous_lyapunov, A, B),
    "solve_continuous_lyapunov, complex": (sl.solve_continuous_lyapunov, C, B),
    "solve_discrete_lyapunov": (sl.solve_discrete_lyapunov, A / 4, B),
    "solve_discrete_lyapunov, complex": (sl.solve_discrete_lyapunov, C / 4, B),
    "solve_continuous_are": (
        lambda a, b, q, r: sl.solve_continuous_are(a, b, positive(q), positive(r)),
        *(A, GAIN, B, COST),
    ),
    "solve_discrete_are": (
        lambda a, b, q, r: sl.solve_discrete_are(a, b, positive(q), positive(r)),
        *(A, GAIN, B, COST),
    ),
    "solve_continuous_are, complex": (
        lambda a, b, q, r: sl.solve_continuous_are(a, b, positive(q), positive(r)),
        *(C, LONG[:4, :2].copy(), B, COST),
    ),
    "solve_banded": (lambda ab, b: sl.solve_banded((1, 2), ab, b), BAND, SIX),
    "solve_banded, complex": (lambda ab, b: sl.solve_banded((1, 2), ab, b), BAND + 0.5j, BAND.T.copy()),
    "solve_banded, wider than the matrix": (
        lambda ab, b: sl.solve_banded((3, 2), ab, b),
        *(np.where(np.arange(6)[:, None] == 2, 9.0, 1.0) + RNG.normal(size=(6, 2)), V[:2]),
    ),
    "solveh_banded": (sl.solveh_banded, UPPER, SIX),
    "solveh_banded, lower": (lambda ab, b: sl.solveh_banded(ab, b, lower=True), LOWER, BAND.T.copy()),
    "solveh_banded, complex": (
        lambda ab, b: sl.solveh_banded(ab * np.array([1, 1j, 1j])[:, None], b, lower=True),
        *(LOWER, SIX),
    ),
    "cholesky_banded": (sl.cholesky_banded, UPPER),
    "cholesky_banded, lower": (lambda ab: sl.cholesky_banded(ab, lower=True), LOWER),
    "cho_solve_banded": (lambda c, b: sl.cho_solve_banded((c, False), b), UPPER, SIX),
    "cho_solve_banded, lower": (lambda c, b: sl.cho_solve_banded((c, True), b), LOWER, BAND.T.copy()),
    "solve_toeplitz": (lambda c, b: sl.solve_toeplitz(c + FIRST, b), V, W),
    "solve_toeplitz, two": (lambda c, r, b: sl.solve_toeplitz((c + FIRST, r), b), V, W, A),
    "matmul_toeplitz": (lambda c, r, b: sl.matmul_toeplitz((c, r), b), V, W[:3], V[:3]),
    "solve_circulant": (lambda c, b: sl.solve_circulant(c + FIRST, b), V, W),
    "hankel": (sl.hankel, V),
    "hankel, two": (sl.hankel, V, W[:3]),
    "convolution_matrix": (lambda a: sl.convolution_matrix(a, 3), V),
    "convolution_matrix, same": (lambda a: sl.convolution_matrix(a, 7, "same"), V),
    "convolution_matrix, valid": (lambda a: sl.convolution_matrix(a, 3, "valid"), V),
    "khatri_rao": (sl.khatri_rao, A, B[:3]),
    "funm": (lambda a: sl.funm(a, lambda w: w * np.exp(0.3 * w)), A),
    "funm, real eigenvalues": (lambda a: sl.funm(a, np.sqrt), REAL),
    "funm, complex": (lambda a: sl.funm(a, np.exp), C),
    "matrix_balance": (lambda a: np.stack(sl.matrix_balance(a)), A * np.array([1.0, 30.0, 700.0, 1e4])),
    "matrix_balance, permuted": (lambda b: sl.matrix_balance(sl.block_diag(A[:1, :1], b).T)[0], B),
    "diagsvd": (lambda s: sl.diagsvd(s, 4, 6), V),
}
FUNCTIONS = {
    "logm": (sl.logm, positive(A) + 0.3 * B),
    "logm, complex": (sl.logm, C),
    "sqrtm": (sl.sqrtm, positive(A)),
    "sqrtm, complex result": (sl.sqrtm, A),
    "sqrtm, complex": (sl.sqrtm, C),
    # With SciPy 1.13 that of a real matrix is complex, and that of a complex one raises.
    **({} if OLDER else {"signm": (sl.signm, A), "signm, complex": (sl.signm, C)}),
    "fractional_matrix_power": (lambda a: sl.fractional_matrix_power(a, 0.3), positive(A)),
    "fractional_matrix_power, whole": (lambda a: sl.fractional_matrix_power(a, -2), positive(A)),
    "expm, complex": (sl.expm, C),
    "expm_frechet": (part(sl.expm_frechet, 1), A, B),
    "expm_frechet, alone": (lambda a, e: sl.expm_frechet(a, e, compute_expm=False), A, B),
    **{name: (getattr(sl, name), A) for name in ("cosm", "sinm", "tanm", "coshm", "sinhm", "tanhm")},
    "cosm, complex": (sl.cosm, C),
    "sinm, stack": (sl.sinm, STACK),
}
COMPLEX_SCIPY = {
    "solve": (sl.solve, C, V),
    "solve, pos": (lambda a, b: sl.solve(positive(a), b, assume_a="pos"), C, V),
    "cho_solve": (lambda a, b: sl.cho_solve(sl.cho_factor(positive(a)), b), C, B),
    "cho_solve, lower": (lambda a, b: sl.cho_solve(sl.cho_factor(positive(a), lower=True), b), C, V),
    "cholesky": (lambda a: sl.cholesky(positive(a), lower=True), C),
    "solve_triangular": (sl.solve_triangular, C, V),
    "solve_triangular, unit": (
        lambda a, b: sl.solve_triangular(a, b, trans="C", lower=True, unit_diagonal=True),
        *(C, B),
    ),
    "svd": (lambda a: sl.svd(a, full_matrices=False)[0], LONG),
    "svdvals": (sl.svdvals, LONG),
    "qr": (lambda a: sl.qr(a, mode="economic")[1], LONG),
    "pinv": (sl.pinv, LONG),
    "inv": (sl.inv, C),
    "det": (sl.det, C),
}

COMPLEX_NUMPY = {
    "tensorsolve": (np.linalg.tensorsolve, BIG[:4, :4].reshape(2, 2, 2, 2).copy(), C[:2, :2].copy()),
    "tensorinv": (np.linalg.tensorinv, BIG[:4, :4].reshape(2, 2, 2, 2).copy()),
    "lstsq": (part(np.linalg.lstsq, 0), LONG, LONG[:, 0].copy()),
    "lstsq, residuals": (part(np.linalg.lstsq, 1), LONG, BIG[:6, :2].copy()),
    "lstsq, singular values": (part(np.linalg.lstsq, 3), LONG, SIX),
    "matrix_rank": (lambda a: a * np.linalg.matrix_rank(a), C),
    "matrix_power": (lambda a: np.linalg.matrix_power(a, -3), C),
}
COMPLEX_SCIPY |= {
    "solve, sym": (lambda a, b: sl.solve(a, b, assume_a="sym", lower=True), C, V),
    "solve, her": (lambda a, b: sl.solve(a, b, assume_a="her"), C, V),
    "lstsq": (part(sl.lstsq, 0), LONG, SIX),
    "toeplitz": (sl.toeplitz, C[0].copy()),
    "circulant": (sl.circulant, C[0].copy()),
    "block_diag": (sl.block_diag, C, LONG),
    "polar, stack": (part(sl.polar, 0), np.stack([C, D])),
    "eigh, subset": (lambda a: sl.eigh(whole(a), subset_by_index=[1, 2])[1], A),
    "eigh, subset of a pair": (
        lambda a, b: sl.eigh(whole(a), positive(b), subset_by_index=[2, 3])[1],
        A,
        B,
    ),
    "svd, driver": (part(sl.svd, 0, lapack_driver="gesvd"), TALL[:4]),
    "svd, driver, thin": (part(sl.svd, 2, full_matrices=False, lapack_driver="gesvd"), TALL),
    "qr, full": (part(sl.qr, 0), TALL[:4]),
    "qr, full, R only": (lambda a: sl.qr(a, mode="r")[0], TALL),
    "qr, pivoting": (part(sl.qr, 1, pivoting=True), TALL),
    "qr, pivoting, wide": (part(sl.qr, 1, pivoting=True), WIDE),
    "null_space": (lambda a: projector(sl.null_space(a)), WIDE),
    "null_space of less than full rank": (lambda a: projector(sl.null_space(np.stack([a, 2.0 * a]))), V),
    "rq, stack": (part(sl.rq, 1), np.stack([A, B])),
}
