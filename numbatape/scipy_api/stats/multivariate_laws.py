"""The multivariate distributions of ``scipy.stats``: log-densities by triangular solves and sums."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.special as sc
from scipy.stats._multivariate import _PSD

from ...numpy_api.function_tables import MAKERS
from ...numpy_api.registration import run_composition, unsupported_argument
from ...numpy_api.stand_ins import stand_in
from ...trace.array import TracedArray
from ...trace.operands import find_trace, is_wrong, lift, may_be_guard, values_of
from ...trace.primitives import array_instruction, stop_gradient
from .covariances import as_matrix
from .distributions import StandIn
from .normal_areas import (
    multivariate_normal_cdf,
    multivariate_normal_logcdf,
    multivariate_t_cdf,
    with_own_points,
)

LOG_2PI = 1.8378770664093453


def lifted(*operands):
    trace = find_trace(*operands)
    return [x if x is None or np.ndim(values_of(x)) == 0 else _array(trace, x) for x in operands]


def _array(trace, x):
    if type(x) is not TracedArray:
        x = lift(trace, x) if find_trace(x) is not None else np.asarray(x, np.float64)
    return np.astype(x, np.float64) if x.dtype != np.float64 else x


def factor_of(matrix):
    """Return the Cholesky factor; SciPy's eigenvectors of the same (lower) triangle give the same."""
    return np.linalg.cholesky(matrix)


def log_det_of(factor):
    return 2.0 * np.sum(np.log(np.diagonal(factor)))


def _solve_lower(factor, columns):
    trace = find_trace(factor, columns)
    if trace is None:
        return np.linalg.solve(factor, columns)
    factor, columns = lift(trace, factor), lift(trace, columns)
    value = np.linalg.solve(factor._value, columns._value)
    return array_instruction("solve_lower", (factor, columns), value)


def as_square(matrix, dim: int):
    """Return a covariance given as a number, a diagonal or a matrix, as a matrix."""
    ndim = np.ndim(values_of(matrix))
    if ndim == 2:
        return matrix
    return np.eye(dim) * matrix if ndim == 0 else np.eye(dim) * matrix[:, None]


def dimension(*parameters):
    """Return the dimension that SciPy takes from the parameters, never from the points: an int, or a size."""
    return next((sizes_of(p)[-1] for p in parameters if np.ndim(values_of(p))), 1)


def sizes_of(x) -> tuple:
    """Return the sizes of all axes: ints, or sizes that need no guard."""
    return x._sizes() if type(x) is TracedArray else np.shape(x)


def _deviations(x, mean, dim: int):
    """Return ``x - mean`` as rows, one per point, and the shape of the points, with axes of one entry."""
    if np.ndim(values_of(x)) == 0:
        x = np.reshape(x, (1,))
    elif np.ndim(values_of(x)) == 1 and dim == 1:
        x = np.reshape(x, (-1, 1))
    rows = x if mean is None else x - mean
    return np.reshape(rows, (-1, dim)), sizes_of(rows)[:-1] or (1,)


def _several(shape) -> tuple:
    return tuple(n for n in shape if n != 1)


def _mahalanobis(x, mean, matrix, law: str, singular: bool):
    """Return squared distances, the log-determinant, the dimension, and the shape of the points.

    A matrix without a derivative may be singular: then the distances are those within its range, its
    determinant is that of its range, and the fifth result is the null space, else None.
    """
    dim = dimension(matrix, mean)
    spread = as_square(matrix, dim)
    rows, shape = _deviations(x, mean, dim)
    if singular:
        within = _range(spread, law)
        if within is not None:
            distances = np.sum(np.square(np.matmul(rows, within.U)), -1)
            return distances, within.log_pdet, dim, shape, within
    factor = factor_of(spread)
    return (
        np.sum(np.square(_solve_lower(factor, np.transpose(rows))), 0),
        log_det_of(factor),
        dim,
        shape,
        None,
    )


def _range(matrix, law: str):
    """Return what SciPy knows of a singular matrix; None for one of full rank."""
    found = _PSD(values_of(matrix))
    if found.rank == len(found.V):  # The Cholesky factor raises in a later call with a singular matrix.
        return None
    if type(matrix) is TracedArray:
        hint = "its density has no derivative with respect to it; a matrix that is captured works"
        raise unsupported_argument(f"scipy.stats.{law}.logpdf", "a singular matrix", hint)
    return found


def multivariate_normal(x, mean=None, cov=1, allow_singular=False):
    x, mean, cov = lifted(x, mean, 1.0 if cov is None else cov)
    law = "multivariate_normal"
    distances, log_det, dim, shape, within = _mahalanobis(x, mean, cov, law, allow_singular)
    if within is None:
        return np.reshape(-0.5 * (dim * LOG_2PI + log_det + distances), _several(shape))
    rows, _ = _deviations(x, mean, dim)
    beyond = np.sqrt(np.sum(np.square(np.matmul(stop_gradient(rows), within.V)), -1)) >= within.eps
    log = np.where(beyond, -np.inf, -0.5 * (within.rank * LOG_2PI + log_det + distances))
    return np.reshape(log, _several(shape))


def multivariate_normal_entropy(mean=None, cov=1):
    mean, cov = lifted(mean, cov)
    dim = dimension(cov, *([] if mean is None else [mean]))
    return 0.5 * (dim * (1.0 + LOG_2PI) + log_det_of(factor_of(as_square(cov, dim))))


def multivariate_t(x, loc=None, shape=1, df=1):
    return _multivariate_t(x, loc, shape, df, True)


def multivariate_t_density(x, loc=None, shape=1, df=1, allow_singular=False):
    return np.exp(_multivariate_t(x, loc, shape, df, allow_singular))


def _multivariate_t(x, loc, shape, df, singular: bool):
    x, loc, matrix = lifted(x, loc, shape)
    distances, log_det, dim, points, within = _mahalanobis(x, loc, matrix, "multivariate_t", singular)
    if _has_no_end(df):  # SciPy keeps axes of one entry here
        rank = dim if within is None else within.rank
        return np.reshape(-0.5 * (rank * LOG_2PI + log_det + distances), points)
    points = _several(points)
    half = 0.5 * (dim + df)
    constant = sc.gammaln(half) - sc.gammaln(0.5 * df) - 0.5 * dim * np.log(df * np.pi) - 0.5 * log_det
    return np.reshape(constant - half * np.log1p(distances / df), points)


def _has_no_end(df) -> bool:
    """Whether degrees of freedom are infinite: a guard where they are traced and there can be one."""
    return bool(np.isinf(df)) if type(df) is not TracedArray or may_be_guard(df) else False


def dirichlet(x, alpha):
    x, alpha = lifted(x, alpha)
    entries, parameters = (len(part) for part in values_of((x, alpha)))
    if entries + 1 == parameters:  # the last entry is the rest to one
        last = 1.0 - np.sum(x, 0)
        x = np.concatenate([x, np.reshape(last, (1, *np.shape(values_of(x))[1:]))])
    if is_wrong(np.any(alpha <= 0.0)):
        raise ValueError("All parameters must be greater than 0")
    norm = np.sum(sc.gammaln(alpha)) - sc.gammaln(np.sum(alpha))
    powers = np.reshape(alpha - 1.0, (-1, *(1,) * (np.ndim(values_of(x)) - 1)))
    return np.sum(sc.xlogy(powers, x), 0) - norm


def multinomial(x, n, p):
    x, p = lifted(x, p)
    last = 1.0 - np.sum(p[..., :-1], -1, keepdims=True)  # SciPy computes the last probability from the others
    p = np.concatenate([p[..., :-1], last], -1)
    log = sc.gammaln(np.asarray(n) + 1.0) + np.sum(sc.xlogy(x, p) - sc.gammaln(x + 1.0), -1)
    outside = np.any(x < 0, -1) | np.not_equal(np.sum(x, -1), n) | np.any(np.not_equal(np.floor(x), x), -1)
    return np.where(outside, -np.inf, log)


def multigammaln(a, dim: int):
    total = 0.25 * dim * (dim - 1) * np.log(np.pi)
    for j in range(dim):
        total = total + sc.gammaln(a - 0.5 * j)
    return total


def wishart(x, df, scale):
    """Return the log-density of one matrix, or of several along the last axis, as in SciPy."""
    x, scale = lifted(x, scale)
    dim = dimension(scale)
    factor = factor_of(as_square(scale, dim))
    inverse = _solve_lower(factor, np.eye(dim))

    def one(matrix):
        # The trace depends on both triangles of the matrix, as in SciPy.
        trace = np.sum(inverse * np.matmul(inverse, matrix))
        log_det = log_det_of(factor_of(matrix))
        constant = 0.5 * df * dim * np.log(2.0) + 0.5 * df * log_det_of(factor) + multigammaln(0.5 * df, dim)
        return 0.5 * (df - dim - 1.0) * log_det - 0.5 * trace - constant

    return _each(one, x, dim, "wishart")


def invwishart(x, df, scale):
    x, scale = lifted(x, scale)
    dim = dimension(scale)
    root = factor_of(as_square(scale, dim))

    def one(matrix):
        factor = factor_of(matrix)
        trace = np.sum(np.square(_solve_lower(factor, root)))
        constant = 0.5 * df * dim * np.log(2.0) - 0.5 * df * log_det_of(root) + multigammaln(0.5 * df, dim)
        return -constant - 0.5 * (df + dim + 1.0) * log_det_of(factor) - 0.5 * trace

    return _each(one, x, dim, "invwishart")


def _each(function, x, dim: int, law: str):
    if np.ndim(values_of(x)) < 2:
        if dim != 1:
            raise unsupported_argument(
                f"scipy.stats.{law}.logpdf", "x with fewer than two axes", "give a matrix"
            )
        x = np.reshape(x, (1, 1, -1))
    if np.ndim(values_of(x)) == 2:
        return function(x)
    results = [function(x[..., k]) for k in range(np.shape(values_of(x))[-1])]
    return results[0] if len(results) == 1 else np.stack(results)


def dirichlet_multinomial(x, alpha, n):
    x, alpha = lifted(x, alpha)
    n = np.asarray(n, float) if find_trace(n) is None else n + 0.0
    total = np.sum(alpha, -1)
    inside = np.sum(sc.gammaln(x + alpha) - sc.gammaln(alpha) - sc.gammaln(x + 1.0), -1)
    log = sc.gammaln(total) + sc.gammaln(n + 1.0) - sc.gammaln(n + total) + inside
    return np.where(np.not_equal(np.sum(x, -1), n), -np.inf, log)


def _whitened(X, mean, row, column):
    """Return deviations without their covariances, transposed, and those covariances' factors."""
    X, mean, row, column = lifted(X, mean, row, column)
    rows, columns = sizes_of(X)[-2:]
    row_factor, column_factor = factor_of(as_square(row, rows)), factor_of(as_square(column, columns))
    deviations = X if mean is None else X - mean
    half = _solve_lower(row_factor, deviations)
    return _solve_lower(column_factor, np.swapaxes(half, -1, -2)), row_factor, column_factor, rows, columns


def _without_ones(result):
    return np.squeeze(result) if 1 in sizes_of(result) else result


def matrix_normal(X, mean=None, rowcov=1, colcov=1):
    white, row, column, m, n = _whitened(X, mean, rowcov, colcov)
    distances = np.sum(np.square(white), (-1, -2))
    return _without_ones(-0.5 * (m * n * LOG_2PI + n * log_det_of(row) + m * log_det_of(column) + distances))


def matrix_t(X, mean=None, row_spread=1, col_spread=1, df=1):
    white, row, column, m, n = _whitened(X, mean, row_spread, col_spread)
    factor = factor_of(np.eye(n) + white @ np.swapaxes(white, -1, -2))
    log_det = 2.0 * np.sum(np.log(np.diagonal(factor, axis1=-2, axis2=-1)), -1)
    whole = 0.5 * (df + m + n - 1.0)
    constant = multigammaln(whole, n) - multigammaln(0.5 * (df + n - 1.0), n) - 0.5 * m * n * np.log(np.pi)
    return _without_ones(
        constant - 0.5 * n * log_det_of(row) - 0.5 * m * log_det_of(column) - whole * log_det
    )


def vonmises_fisher(x, mu=None, kappa=1):
    x, mu = lifted(x, mu)
    if is_wrong(np.less_equal(kappa, 0.0)):
        raise ValueError("'kappa' must be a positive scalar.")
    dim = int(dimension(mu))  # an order of a Bessel function has no derivative: a trace for each dimension
    order = 0.5 * dim - 1.0
    norm = order * np.log(kappa) - 0.5 * dim * LOG_2PI - np.log(sc.ive(order, kappa)) - kappa
    return norm + kappa * (x @ mu)


def normal_inverse_gamma(x, s2, mu=0, lmbda=1, a=1, b=1):
    x, s2, mu, lmbda, a, b = lifted(x, s2, mu, lmbda, a, b)
    log = (
        0.5 * (np.log(lmbda) - LOG_2PI - np.log(s2)) + a * np.log(b) - sc.gammaln(a) - (a + 1.0) * np.log(s2)
    )
    log = log - (2.0 * b + lmbda * np.square(x - mu)) / (2.0 * s2)
    return np.where(s2 <= 0, -np.inf, log)


LAWS = {
    "dirichlet_multinomial": (dirichlet_multinomial, "logpmf", "pmf"),
    "matrix_normal": (matrix_normal, "logpdf", "pdf"),
    "matrix_t": (matrix_t, "logpdf", "pdf"),
    "vonmises_fisher": (vonmises_fisher, "logpdf", "pdf"),
    "normal_inverse_gamma": (normal_inverse_gamma, "logpdf", "pdf"),
    "multivariate_normal": (multivariate_normal, "logpdf", "pdf"),
    "multivariate_t": (multivariate_t, "logpdf", "pdf"),
    "dirichlet": (dirichlet, "logpdf", "pdf"),
    "multinomial": (multinomial, "logpmf", "pmf"),
    "wishart": (wishart, "logpdf", "pdf"),
    "invwishart": (invwishart, "logpdf", "pdf"),
}


OTHERS: dict[str, dict[str, Callable]] = {  # methods beside the density; more are in `multivariate_moments`
    "multivariate_normal": {
        **{"cdf": multivariate_normal_cdf, "logcdf": multivariate_normal_logcdf},
        "entropy": multivariate_normal_entropy,
    },
    "multivariate_t": {"pdf": multivariate_t_density, "cdf": multivariate_t_cdf},
}


def maker(law: str, log, log_name: str, name: str):
    """Return a function that makes the stand-ins for the methods of a law with a log-density."""

    def density(*args, **kwargs):
        return np.exp(log(*args, **kwargs))

    def make(original, method):
        implementation = {log_name: log, name: density, **OTHERS.get(law, {})}.get(method)
        if implementation is None:
            return None
        its = getattr(original, method)
        its = with_own_points(its) if method in ("cdf", "logcdf") else its
        usual = stand_in(its, implementation, run_composition)
        if log is not multivariate_normal:
            return usual

        def of_matrix(*args, **kwargs):
            return usual(*map(as_matrix, args), **{key: as_matrix(value) for key, value in kwargs.items()})

        return of_matrix

    return lambda original: StandIn(original, make)


for _name, _entry in LAWS.items():
    MAKERS["scipy.stats"][_name] = maker(_name, *_entry)
