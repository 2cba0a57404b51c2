"""``scipy.linalg`` of stacks, of lists and of integers: the values are SciPy's."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.interpolate as P
import scipy.linalg as L
import scipy.signal as S

import numbatape as nt
from tests.agreement import agrees
from tests.every_case import every

RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(2, 3, 3)), RNG.normal(size=(2, 3, 4))
BANDS = np.stack([[[4.0, 5.0, 6.0, 7.0], [1.0, 1.0, 0.5, 0.2]]] * 2)
WHOLE, TIMES = np.array([[1, 2], [3, 4], [5, 7]]), np.arange(6.0)


def projector(vectors):
    return vectors @ np.conj(np.swapaxes(vectors, -1, -2))


CASES = {
    "eigvals of pairs": (lambda a: np.abs(L.eigvals(a, A[::-1])), A),
    "eigvals_banded": (L.eigvals_banded, BANDS[:, ::-1]),
    "eig_banded": (lambda x: (*L.eig_banded(x, lower=True), *L.eig_banded(x[0, ::-1] + 0.1)), BANDS),
    "cholesky_banded": (lambda x: (L.cholesky_banded(x[:, ::-1]), L.cholesky_banded(x, lower=True)), BANDS),
    "cho_solve_banded": (lambda ab: L.cho_solve_banded((ab, True), np.ones(4)), BANDS),
    "khatri_rao": (lambda a: (L.khatri_rao(a, B[:, :2]), L.khatri_rao(a[0], B)), B),
    "expm_frechet": (lambda a: L.expm_frechet(a, A[0]), 0.3 * A),
    "null_space": (lambda a: projector(L.null_space(a)), B),
    "complex null_space": (lambda a: projector(L.null_space(a + 1j * B[1])), B[0]),
    "integers": (
        lambda b: (L.lstsq(WHOLE, b)[0], L.subspace_angles(WHOLE, b[:, None])),
        np.array([1.0, -2.0, 0.3]),
    ),
    "complex lists": (
        lambda x: (L.inv([[x, 1j], [2.0, x * 1j]]), L.det([[x, 1j], [2.0, x]])),
        np.array(1.3),
    ),
    "lists": (
        lambda x: (
            *(f([[2.0 * x, 1.0], [1.0, x]]) for f in (L.norm, L.svdvals, L.pinv, L.cholesky, L.inv)),
            L.cho_factor(np.array([[2.0 * x, 1.0], [1.0, x]]))[0],  # of lists, an error in SciPy 1.18
            L.qr([[2.0 * x, 1.0], [1.0, x]])[1],
        ),
        np.array(1.3),
    ),
    "qr_multiply": (
        lambda a: (
            *L.qr_multiply(a, A[0, :2]),
            *L.qr_multiply(a, A[1, 0], pivoting=True),
            *L.qr_multiply(a, A[0, :2, :2], "left"),
            *L.qr_multiply(a + 1j * A[1, :, :2], 1j * A[0, :2], conjugate=True),
        ),
        A[0, :, :2],
    ),
    "lists of values": (
        lambda y: tuple(
            make(TIMES[:4], [y[0], y[1], y[2], 1.0])(1.4)
            for make in (P.make_interp_spline, P.CubicSpline, P.interp1d)
        ),
        np.array([0.3, 1.2, 0.7]),
    ),
    "make_splrep": (lambda y: P.make_splrep(TIMES, y)(1.4), TIMES**1.5),
    "make_splrep of data": (lambda x: P.make_splrep(TIMES, TIMES**1.5, s=0.1)(x), np.array(1.4)),
    "repeated axis": (lambda x: np.lib.stride_tricks.sliding_window_view(x, (2, 3), (0, 0)) ** 2, TIMES),
}  # fmt: skip


@every("name", list(CASES))
def test_values_and_derivatives(name):
    function, x = CASES[name]
    agrees(function, x)


def test_smoothing_splines_of_traced_values_are_refused():
    with np.testing.assert_raises_regex(
        nt.UnsupportedOperationError, "make_splrep of traced values with s > 0"
    ):
        nt.grad(lambda y: P.make_splrep(TIMES, y, s=0.1)(1.4))(TIMES**1.5)


def test_options_by_position():
    def power(y):
        return np.sum(S.lombscargle(TIMES, y, np.array([0.3, 0.5]), True))

    with pytest.warns(DeprecationWarning, match="precenter"):
        slope = nt.grad(power)(TIMES**1.5)
    centred = nt.grad(lambda y: np.sum(S.lombscargle(TIMES, y - np.mean(y), np.array([0.3, 0.5]))))
    np.testing.assert_allclose(slope, centred(TIMES**1.5), rtol=1e-12)
