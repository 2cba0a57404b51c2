"""Fifteen fragments of ordinary NumPy and SciPy code, as they are written."""

import math

import numpy as np
import pytest
import scipy.special as sc
from scipy.special import logsumexp

import numbatape as nt

B = np.array([0.7, 1.2, 0.4])
DATA = np.random.default_rng(3).normal(size=(20, 3))
SEEN = (DATA[:, 0] > 0) * 1.0
FRAGMENTS = {}


def fragment(function):
    FRAGMENTS[function.__name__] = function
    return function


@fragment
def glm(b):
    eta = DATA @ b
    return np.sum(SEEN * eta - np.log1p(np.exp(eta)))


@fragment
def gammaln(b):
    return np.sum(sc.gammaln(b + 2.0))


@fragment
def log_ndtr(b):
    return np.sum(sc.log_ndtr(DATA @ b))


@fragment
def log_sum_exp(b):
    return logsumexp(DATA @ b)


@fragment
def cholesky(b):
    K = np.exp(-((b[:, None] - b[None, :]) ** 2)) + np.eye(3) * b[0]
    return np.sum(np.log(np.diag(np.linalg.cholesky(K))))


@fragment
def array_of_entries(b):
    w = np.array([b[0], 2 * b[1]])
    return np.sum(w**3)


@fragment
def filled(b):
    n = len(b)
    out = np.zeros(n)
    for i in range(n):
        out[i] = np.exp(b[i]) * (i + 1)
    return np.sum(out * out)


@fragment
def residuals(b):
    r = DATA @ b
    r += b[0]
    r -= SEEN
    r[0] = b[1] * 2.0
    return np.sum(r**2)


@fragment
def methods(b):
    return (DATA.T.reshape(3, 20).T @ b).sum() + b.dot(b) + b.reshape(1, 3).T.sum()


@fragment
def ufunc_methods(b):
    return np.logaddexp.reduce(b) + np.sum(np.add.accumulate(b) ** 2)


@fragment
def where(b):
    return np.sum(np.where(DATA @ b > 0.0, np.sqrt(np.abs(DATA @ b)), 0.1 * (DATA @ b)))


@fragment
def branch(b):
    return np.sum(b**2) if b[0] > b[1] else np.prod(b)


@fragment
def loop(b):
    x, k = b[0], 0
    while x < 5.0:
        x, k = x * 1.5 + b[k % 3], k + 1
    return x


@fragment
def math_log(b):
    return math.log(b[0]) * math.exp(b[1])


@pytest.mark.parametrize("name", FRAGMENTS)
def test_fragment(name):
    f = FRAGMENTS[name]
    value, gradient = nt.value_and_grad(f)(B)
    steps = 1e-6 * np.eye(3)
    np.testing.assert_allclose(value, f(B), rtol=1e-12)
    np.testing.assert_allclose(gradient, [(f(B + h) - f(B - h)) / 2e-6 for h in steps], rtol=1e-6, atol=1e-8)
