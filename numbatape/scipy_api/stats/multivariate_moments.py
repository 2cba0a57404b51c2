"""Means, variances, modes and entropies of the multivariate distributions of ``scipy.stats``."""

from __future__ import annotations

import numpy as np
import scipy.special as sc

from ...numpy_api.function_tables import MAKERS
from .laws import LOG2, is_infinity, pick
from .multivariate_laws import (
    LAWS,
    LOG_2PI,
    OTHERS,
    as_square,
    dimension,
    factor_of,
    lifted,
    log_det_of,
    maker,
    multigammaln,
    sizes_of,
)


def _spread_of_shares(shares, factor):
    """Return ``factor * (diag(p) - p p^T)``, the covariance of counts or of shares with means p."""
    return factor * (np.eye(dimension(shares)) * shares - np.expand_dims(shares, -1) * shares)


def _shares(alpha):
    (alpha,) = lifted(alpha)
    total = np.sum(alpha)
    return alpha, total, alpha / total


def dirichlet_mean(alpha):
    return _shares(alpha)[2]


def dirichlet_var(alpha):
    _, total, shares = _shares(alpha)
    return shares * (1.0 - shares) / (total + 1.0)


def dirichlet_cov(alpha):
    _, total, shares = _shares(alpha)
    return _spread_of_shares(shares, 1.0 / (total + 1.0))


def dirichlet_entropy(alpha):
    alpha, total, _ = _shares(alpha)
    count = 1.0 * dimension(alpha)
    rest = (total - count) * sc.digamma(total) - np.sum((alpha - 1.0) * sc.digamma(alpha))
    return np.sum(sc.gammaln(alpha)) - sc.gammaln(total) + rest


def _with_last(p):
    """Return probabilities of which the last one is the rest to one, as SciPy computes it."""
    (p,) = lifted(p)
    return np.concatenate([p[..., :-1], 1.0 - np.sum(p[..., :-1], -1, keepdims=True)], -1)


def multinomial_mean(n, p):
    return n * _with_last(p)


def multinomial_cov(n, p):
    return _spread_of_shares(_with_last(p), n)


def dirichlet_multinomial_mean(alpha, n):
    return n * _shares(alpha)[2]


def dirichlet_multinomial_cov(alpha, n):
    _, total, shares = _shares(alpha)
    return _spread_of_shares(shares, n * (n + total) / (1.0 + total))


def _wished(df, scale) -> tuple:
    """Return the degrees of freedom, the scale as a matrix, and its dimension."""
    df, scale = lifted(df, scale)
    dim = dimension(scale)
    return df, as_square(scale, dim), 1.0 * dim


def _squeezed(matrix):
    return np.squeeze(matrix)[()] if 1 in sizes_of(matrix) else matrix


def _digammas(start, dim):
    """Return the sum of ``digamma(start - i/2)`` for i below the dimension."""
    return np.sum(sc.digamma(start - 0.5 * np.arange(int(dim))))


def wishart_mean(df, scale):
    df, scale, _ = _wished(df, scale)
    return _squeezed(df * scale)


def wishart_mode(df, scale):
    df, scale, dim = _wished(df, scale)
    return _squeezed((df - dim - 1.0) * scale) if df >= dim + 1.0 else None


def _outer_diagonal(scale):
    diagonal = np.diagonal(scale)
    return np.expand_dims(diagonal, -1) * diagonal


def wishart_var(df, scale):
    df, scale, _ = _wished(df, scale)
    return _squeezed(df * (np.square(scale) + _outer_diagonal(scale)))


def wishart_entropy(df, scale):
    df, scale, dim = _wished(df, scale)
    half = 0.5 * (dim + 1.0) * log_det_of(factor_of(scale)) + 0.5 * dim * (dim + 1.0) * LOG2 + 0.5 * df * dim
    return half + multigammaln(0.5 * df, int(dim)) - 0.5 * (df - dim - 1.0) * _digammas(0.5 * df, dim)


def invwishart_mean(df, scale):
    df, scale, dim = _wished(df, scale)
    return _squeezed(scale / (df - dim - 1.0)) if df > dim + 1.0 else None


def invwishart_mode(df, scale):
    df, scale, dim = _wished(df, scale)
    return _squeezed(scale / (df + dim + 1.0))


def invwishart_var(df, scale):
    df, scale, dim = _wished(df, scale)
    if not df > dim + 3.0:
        return None
    total = (df - dim + 1.0) * np.square(scale) + (df - dim - 1.0) * _outer_diagonal(scale)
    return _squeezed(total / ((df - dim) * np.square(df - dim - 1.0) * (df - dim - 3.0)))


def invwishart_entropy(df, scale):
    df, scale, dim = _wished(df, scale)
    half = 0.5 * dim * df + 0.5 * (dim + 1.0) * (log_det_of(factor_of(scale)) - LOG2)
    return half + multigammaln(0.5 * df, int(dim)) - 0.5 * (df + dim + 1.0) * _digammas(0.5 * df, dim)


def multinomial_entropy(n, p):
    """Return the entropy, whose sums are over the counts of each outcome: their laws are binomial."""
    p = _with_last(p)
    count = int(n)
    k = np.arange(1.0, count + 1.0)
    share = np.expand_dims(p, -1)
    choose = sc.gammaln(count + 1.0) - sc.gammaln(k + 1.0) - sc.gammaln(count - k + 1.0)
    masses = np.exp(choose + sc.xlogy(k, share) + sc.xlog1py(count - k, -share))
    counted = np.sum(masses * sc.gammaln(k + 1.0), (-1, -2))
    return count * np.sum(sc.entr(p), -1) - sc.gammaln(count + 1.0) + counted


def multivariate_t_entropy(loc=None, shape=1, df=1):
    shape, df = lifted(shape, df)
    dim = dimension(shape) if loc is None else dimension(shape, lifted(loc)[0])
    width = 0.5 * log_det_of(factor_of(as_square(shape, dim)))

    def of_a_bell():
        whole, half = 0.5 * (dim + df), 0.5 * df
        constant = sc.betaln(half, 0.5 * dim) - sc.gammaln(0.5 * dim) + 0.5 * dim * np.log(df * np.pi)
        return constant + whole * (sc.digamma(whole) - sc.digamma(half))

    return width + pick(is_infinity(df), lambda: 0.5 * dim * (LOG_2PI + 1.0), of_a_bell)


def matrix_normal_entropy(rowcov=1, colcov=1):
    row, column = lifted(rowcov, colcov)
    m, n = 1.0 * dimension(row), 1.0 * dimension(column)
    return 0.5 * (
        m * n * (1.0 + LOG_2PI) + n * log_det_of(factor_of(row)) + m * log_det_of(factor_of(column))
    )


def vonmises_fisher_entropy(mu=None, kappa=1):
    half = 0.5 * int(dimension(*lifted(mu)))
    norm = (half - 1.0) * np.log(kappa) - half * LOG_2PI - np.log(sc.ive(half - 1.0, kappa)) - kappa
    return -norm - kappa * sc.ive(half, kappa) / sc.ive(half - 1.0, kappa)


def dirichlet_multinomial_var(alpha, n):
    _, total, shares = _shares(alpha)
    return n * shares * (1.0 - shares) * (n + total) / (1.0 + total)


def normal_inverse_gamma_mean(mu=0, lmbda=1, a=1, b=1):
    mu, lmbda, a, b = lifted(mu, lmbda, a, b)
    known = np.greater(a, 1.0) & np.greater(lmbda, 0.0) & np.greater(b, 0.0)
    return np.where(known, mu + 0.0 * (a + b), np.nan), np.where(known, b / (a - 1.0), np.nan)


def normal_inverse_gamma_var(mu=0, lmbda=1, a=1, b=1):
    mu, lmbda, a, b = lifted(mu, lmbda, a, b)
    valid = np.greater(lmbda, 0.0) & np.greater(b, 0.0)
    of_x = b / ((a - 1.0) * lmbda)
    of_square = np.square(b / (a - 1.0)) / (a - 2.0)
    return (
        np.where(valid & np.greater(a, 1.0), of_x, np.nan),
        np.where(valid & np.greater(a, 2.0), of_square, np.nan),
    )


METHODS = {
    "multivariate_t": {"entropy": multivariate_t_entropy},
    "dirichlet": {
        **{"mean": dirichlet_mean, "var": dirichlet_var, "cov": dirichlet_cov},
        "entropy": dirichlet_entropy,
    },
    "multinomial": {"mean": multinomial_mean, "cov": multinomial_cov, "entropy": multinomial_entropy},
    "dirichlet_multinomial": {
        **{"mean": dirichlet_multinomial_mean, "cov": dirichlet_multinomial_cov},
        "var": dirichlet_multinomial_var,
    },
    "wishart": {
        **{"mean": wishart_mean, "mode": wishart_mode, "var": wishart_var},
        "entropy": wishart_entropy,
    },
    "invwishart": {
        **{"mean": invwishart_mean, "mode": invwishart_mode, "var": invwishart_var},
        "entropy": invwishart_entropy,
    },
    "matrix_normal": {"entropy": matrix_normal_entropy},
    "vonmises_fisher": {"entropy": vonmises_fisher_entropy},
    "normal_inverse_gamma": {"mean": normal_inverse_gamma_mean, "var": normal_inverse_gamma_var},
}

for _name, _methods in METHODS.items():
    OTHERS[_name] = OTHERS.get(_name, {}) | _methods
    MAKERS["scipy.stats"][_name] = maker(_name, *LAWS[_name])
