"""Eigenvalues and singular values that are equal within rounding: of low rank, or so plus a multiple of one.

Single vectors of such values are arbitrary, but what does not depend on a choice of them has derivatives:
functions of the matrix, projectors, and vectors of values that are apart from all others.
"""

import numpy as np
import pytest
import scipy.linalg as sl

import numbatape as nt
from tests.agreement import agrees

RNG = np.random.default_rng(1)
X, C = RNG.normal(size=(6, 2)), RNG.normal(size=(6, 6)) / 3.0
D = C + 1j * RNG.normal(size=(6, 6)) / 3.0
METRIC = np.eye(6) + 0.1


def low(x, shift=0.0):
    """A matrix of rank two, plus a multiple of one."""
    return x @ x.T + shift * np.eye(6)


def hermitian(x, shift=0.0):
    z = x[:, :1] + 1j * x[:, 1:]
    return z @ z.conj().T + shift * np.eye(6)


def exponential(pair, weights):
    """A function of the matrix, by its eigenvalues and vectors."""
    w, v = pair
    return np.sum(
        np.real((v * np.exp(0.2 * w)[..., None, :]) @ np.swapaxes(np.conj(v), -1, -2) * weights) ** 2
    )


def projected(v):
    return np.sum((v @ v.T * C) ** 2)


def by_singular(parts):
    u, s, vh = parts
    return np.sum(((u * np.exp(0.2 * s)) @ vh * C) ** 2)


FUNCTIONS = {
    "of low rank": lambda x: exponential(np.linalg.eigh(low(x)), C),
    "of low rank, shifted": lambda x: exponential(np.linalg.eigh(low(x, 3.0)), C),
    "complex": lambda x: exponential(np.linalg.eigh(hermitian(x, 2.0)), D),
    "of a pair": lambda x: exponential(sl.eigh(low(x), METRIC + low(x)), C),
    "by another driver": lambda x: exponential(sl.eigh(low(x, 3.0), driver="ev"), C),
    "stacked": lambda x: exponential(np.linalg.eigh(np.stack([low(x, 1.0), 2.0 * low(x)])), C),
    "projector": lambda x: projected(np.linalg.eigh(low(x))[1][:, :4]),
    "first component": lambda x: (C[0] @ np.linalg.eigh(low(x))[1][:, -1]) ** 2,
    "singular values": lambda x: by_singular(np.linalg.svd(x @ x[::-1].T + 3.0 * np.eye(6))),
    "complex singular values": lambda x: np.sum(np.abs(by_singular(np.linalg.svd(hermitian(x, 3.0))))),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_the_same_for_all_choices(name):
    agrees(FUNCTIONS[name], X)


def test_against_the_function_of_the_matrix():
    """In larger matrices, and in single precision, there is more rounding."""
    x, c = RNG.normal(size=(60, 3)) / 8.0, RNG.normal(size=(60, 60))

    def shifted(x):
        return x @ x.T + 2.0 * np.eye(60, dtype=x.dtype)

    def f(x):
        w, v = np.linalg.eigh(shifted(x))
        return np.sum((v * np.exp(w)) @ v.T * c.astype(x.dtype))

    expected = nt.grad(lambda x: np.sum(sl.expm(shifted(x)) * c))(x)
    np.testing.assert_allclose(nt.grad(f)(x), expected, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(nt.jvp(f, (x,), (c[:, :3],))[1], np.sum(expected * c[:, :3]), rtol=1e-11)
    np.testing.assert_allclose(nt.grad(f)(x.astype(np.float32)), expected, rtol=1e-3, atol=2e-3)


def test_vectors_of_exact_small_values():
    """Those of a diagonal matrix are apart, however small: the derivative of its vectors is kept."""
    scales, off = np.diag([1.0, 1e-17, 3e-17]), 1e-18 * (np.ones((3, 3)) - np.eye(3))

    def vectors(a):
        return np.linalg.eigh(scales + a * off)[1]

    np.testing.assert_allclose(abs(nt.grad(lambda a: vectors(a)[2, 0])(0.0)), 0.05)  # 1e-18 / 2e-17
    np.testing.assert_allclose(abs(nt.jvp(vectors, (0.0,), (1.0,))[1][2, 0]), 0.05)
