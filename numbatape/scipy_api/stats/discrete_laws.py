"""The discrete distributions of ``scipy.stats``: one law per distribution, with an elementary log-mass."""

# ruff: noqa: E501  (a law is read as a line)
# fmt: off

from __future__ import annotations

import numpy as np
import scipy.special as sc

from ...trace.integers import TracedInteger
from .distributions import register
from .laws import INF, Law


def is_whole(x):
    return type(x) is TracedInteger or np.equal(np.floor(x), x)


def count(n):
    return [n >= 0, is_whole(n)]


def probability(p):
    return [p >= 0, p <= 1]


def log_choose(n, k):
    return sc.gammaln(n + 1.0) - sc.gammaln(k + 1.0) - sc.gammaln(n - k + 1.0)


def hypergeometric(k, M, n, N):
    bad = M - n
    return (sc.betaln(n + 1.0, 1.0) + sc.betaln(bad + 1.0, 1.0) + sc.betaln(M - N + 1.0, N + 1.0)
            - sc.betaln(k + 1.0, n - k + 1.0) - sc.betaln(N - k + 1.0, bad - N + k + 1.0) - sc.betaln(M + 1.0, 1.0))


def negative_hypergeometric(k, M, n, r):
    ends = np.equal(r, 0) & np.equal(k, 0)
    inside = (-sc.betaln(k + 1.0, r) + sc.betaln(k + r, 1.0) - sc.betaln(n - k + 1.0, M - r - n + 1.0)
              + sc.betaln(M - r - k + 1.0, 1.0) + sc.betaln(n + 1.0, M - n + 1.0) - sc.betaln(M + 1.0, 1.0))
    return np.where(ends, 0.0, inside)


def skellam(k, a, b):
    root = 2.0 * np.sqrt(a * b)
    return k / 2.0 * np.log(a / b) + np.log(sc.ive(np.abs(k), root)) - np.square(np.sqrt(a) - np.sqrt(b))


def mass(name, log, low=0.0, high=INF, **options):
    register(name, Law(log, low=low, high=high, discrete=True, **options))


mass("bernoulli", lambda k, p: sc.xlogy(k, p) + sc.xlog1py(1.0 - k, -p), high=1.0, valid=probability)
mass("binom",     lambda k, n, p: log_choose(n, k) + sc.xlogy(k, p) + sc.xlog1py(n - k, -p), high=lambda n, p: n, valid=lambda n, p: [*count(n), *probability(p)])
mass("poisson",   lambda k, mu: sc.xlogy(k, mu) - sc.gammaln(k + 1.0) - mu, valid=lambda mu: [mu >= 0])
mass("geom",      lambda k, p: sc.xlog1py(k - 1.0, -p) + np.log(p), low=1.0, valid=lambda p: [p > 0, p <= 1])
mass("nbinom",    lambda k, n, p: sc.gammaln(n + k) - sc.gammaln(k + 1.0) - sc.gammaln(n) + n * np.log(p) + sc.xlog1py(k, -p), valid=lambda n, p: [n > 0, p > 0, p <= 1])
mass("betabinom", lambda k, n, a, b: -np.log(n + 1.0) - sc.betaln(n - k + 1.0, k + 1.0) + sc.betaln(k + a, n - k + b) - sc.betaln(a, b), high=lambda n, a, b: n, valid=lambda n, a, b: [*count(n), a > 0, b > 0])
mass("betanbinom", lambda k, n, a, b: -np.log(n + k) - sc.betaln(n, k + 1.0) + sc.betaln(a + n, b + k) - sc.betaln(a, b), valid=lambda n, a, b: [*count(n), a > 0, b > 0])
mass("hypergeom", hypergeometric, low=lambda M, n, N: np.maximum(N - (M - n), 0.0), high=lambda M, n, N: np.minimum(n, N), valid=lambda M, n, N: [*count(M), *count(n), *count(N), n <= M, N <= M])
mass("nhypergeom", negative_hypergeometric, high=lambda M, n, r: n, valid=lambda M, n, r: [n >= 0, n <= M, r >= 0, r <= M - n, is_whole(M), is_whole(n), is_whole(r)])
mass("logser",    lambda k, p: k * np.log(p) - np.log(k) - np.log(-np.log1p(-p)), low=1.0, valid=lambda p: [p > 0, p < 1])
mass("planck",    lambda k, a: np.log(-np.expm1(-a)) - a * k)
mass("boltzmann", lambda k, a, n: np.log(-np.expm1(-a)) - a * k - np.log(-np.expm1(-a * n)), high=lambda a, n: n - 1.0, valid=lambda a, n: [a > 0, n > 0, is_whole(n)])
mass("dlaplace",  lambda k, a: np.log(np.tanh(a / 2.0)) - a * np.abs(k), low=-INF)
mass("randint",   lambda k, low, high: -np.log(high - low) + 0.0 * k, low=lambda low, high: low, high=lambda low, high: high - 1.0, valid=lambda low, high: [high > low, is_whole(low), is_whole(high)])
mass("skellam",   skellam, low=-INF)
mass("yulesimon", lambda k, alpha: np.log(alpha) + sc.betaln(k, alpha + 1.0), low=1.0)
