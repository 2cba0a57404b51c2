"""One tape for every length: sizes that a function computes with cost no trace, and results are right."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from scipy import fft, integrate, interpolate, linalg, signal, special, stats
from scipy.spatial import distance

import numbatape as nt
from tests.every_case import every

LENGTHS = (5, 6, 11, 2, 8)


def vector(n):
    return np.random.default_rng(n).normal(size=n)


def matrix(rows, columns):
    return np.random.default_rng(rows + 7 * columns).normal(size=(rows, columns))


def own_loop(x):
    total = 0.0
    for k in range(len(x)):
        total = total + k * x[k]
    return total


def made_inside(x):
    out = np.zeros(len(x))
    out[:] = x**2
    return np.sum(out * x)


def positive_part(x):
    y = x**3
    y[y < 0.0] = 0.0
    return np.sum(y)


def with_diagonal(x):
    K = np.outer(x, x)
    np.fill_diagonal(K, 2.0 + x[0])
    return np.sum(K**2)


def kernel_matrix(x):
    return np.outer(x, x) + np.diag(np.arange(len(x)) + 1.0)


def of_values_and_vectors(x):
    values, vectors = np.linalg.eigh(kernel_matrix(x))
    return np.sum((vectors * np.exp(-values / 10.0)) @ vectors.T)


def of_singular_vectors(x):
    left, values, right = np.linalg.svd(np.vander(np.tanh(x), 2), full_matrices=False)
    return np.sum((left * np.exp(-values)) @ right)


def fitted(x):
    solution, residuals, rank, values = np.linalg.lstsq(np.vander(np.tanh(x), 2), x**2, rcond=None)
    return np.sum(solution**2) + np.sum(residuals) / rank + values[0]


def distances(x):
    i, j = np.triu_indices(len(x), k=1)
    return np.sum(np.exp(-((x[i] - x[j]) ** 2))) / len(i)


def reversals(x):
    """Return slices of slices whose strides are negative numbers times sizes, or products of them."""
    grid = np.outer(x, np.exp(x))
    back, both = x[::-2][::-1], grid[::-1, ::-1]
    return x[::-1][::-1], back[::-3], grid[::-1][::-1, 0], both[::-1][1:, 0], both.T[::-2][::-1].ravel()[::-1]


ONE_TAPE = {
    "sum and len": lambda x: sum(x * x) / len(x),
    "size": lambda x: np.sum(x * x) / x.size,
    "a filter of first order": lambda x: np.sum(signal.lfilter([1.0, 0.5], [1.0, 0.2], x) ** 2),
    "a filter without feedback": lambda x: np.sum(signal.lfilter([1.0, 0.5], 2.0, x) ** 2),
    "slices from the end": lambda x: np.sum((x[-2:-1] * 0.5 - x[-1:] * 0.3) ** 2),
    "np.size": lambda x: np.sum(x * x) / np.size(x),
    "np.shape": lambda x: np.sum(x * x) / np.shape(x)[0],
    "len - 1": lambda x: np.sum(x * x) / (len(x) - 1),
    "powers of a length": lambda x: np.sum(x * x) * len(x) ** 2 + len(x) ** 0.5 * x[0],
    "functions of a length": lambda x: np.sum(x) * math.sqrt(len(x)) + np.log(x.size) - math.log(len(x)),
    "length modulo a number": lambda x: np.sum(x) * (len(x) % 7 + len(x) // 2),
    "mean": lambda x: np.mean(x**2),
    "method mean": lambda x: (x**2).mean(),
    "var": lambda x: np.var(x, ddof=1),
    "var of negative ddof": lambda x: np.var(x, ddof=-2),
    "std": lambda x: x.std(),
    "average": lambda x: np.average(x**2) + np.average(x, weights=np.exp(x)),
    "float of a length": lambda x: np.sum(x * x) / float(len(x)) + x[0] * float(1 / len(x)),
    "int of a length": lambda x: np.sum(x * x) / len(x),
    "int of half a length": lambda x: np.sum(x[: int(len(x) / 2)] ** 2) + x[math.floor(len(x) / 2.0)],
    "int of a share": lambda x: np.sum(x[: int(0.8 * len(x))] ** 2) + x[int(0.29 * (len(x) - 1))],
    "rounded up": lambda x: np.sum(x[: math.ceil(len(x) / 3)] ** 2),
    "a type and a call": lambda x: np.sum(x.astype(float)) * float(x.size) * isinstance(len(x), int),
    "product of a shape": lambda x: np.sum(x) / np.prod(x.shape) + np.prod((len(x), 3)) * x[0],
    "arange": lambda x: np.sum(x * np.arange(len(x))),
    "arange from 1": lambda x: np.sum(x * np.arange(1, len(x) + 1)),
    "arange of floats": lambda x: np.sum(x * np.arange(0.0, x.size)),
    "arange by steps": lambda x: np.sum(x[::2] * np.arange(0, len(x), 2)),
    "grid": lambda x: np.sum(x * (np.arange(len(x)) / len(x))),
    "linspace": lambda x: np.sum(x * np.linspace(0, 1, len(x))),
    "linspace between traced ends": lambda x: np.sum(x * np.linspace(x[0], x[1], len(x), endpoint=False)),
    "zeros": lambda x: np.sum(np.zeros(x.shape) + x**2),
    "ones": lambda x: np.dot(np.ones(len(x)), x**2),
    "ones_like": lambda x: np.dot(np.ones_like(x), x**2),
    "full": lambda x: np.sum(np.full(len(x), 2.5) * x) + np.sum(np.full(x.shape, x[0])),
    "written as a whole": made_inside,
    "eye": lambda x: x @ np.eye(len(x)) @ x + x[1:] @ np.eye(len(x), k=1)[:-1, 1:] @ x[1:],
    "identity": lambda x: x @ np.identity(len(x)) @ x,
    "diag": lambda x: np.sum(np.diag(x) @ x),
    "reshape": lambda x: np.sum(np.exp(x.reshape(len(x), -1))),
    "rolled by several": lambda x: np.sum(np.stack([np.roll(x, k) for k in range(3)]) ** 2 * x),
    "partitioned": lambda x: (
        np.sum(np.partition(x, len(x) // 2)[: len(x) // 2]) + x[np.argpartition(x, -1)[-1]] ** 2
    ),
    "transforms of axes": lambda x: np.sum(
        np.fft.irfft2(np.fft.rfft2(x * x[:, None]) * 2.0, s=(len(x), len(x))) ** 2
        + np.fft.irfftn(np.fft.fftn(x * x[:, None], (12, 2 * len(x)), (0, 1)), (len(x), len(x)), (0, 1))
    ),
    "second half": lambda x: np.sum(np.exp(x[len(x) // 2 :])),
    "first half": lambda x: np.sum(np.exp(x[: len(x) // 2])),
    "to the last but one": lambda x: np.sum(np.exp(x[: len(x) - 1]) * x[1:]),
    "from the end by a size": lambda x: np.sum(np.exp(x[-(len(x) // 2) :])),
    "entries by a size": lambda x: np.exp(x[len(x) - 1]) * x[len(x) // 2],
    "every other entry": lambda x: np.sum(np.exp(x[1::2])),
    "cov": lambda x: np.cov(x) * 2.0,
    "gradient": lambda x: np.sum(np.gradient(x, 0.1) ** 2),
    "repeat": lambda x: np.sum(np.repeat(np.exp(x), len(x))),
    "repeat a number": lambda x: np.sum(np.repeat(np.exp(x[0]), len(x)) * x),
    "tile": lambda x: np.sum(np.tile(x[:2], (len(x), 1)) ** 2) * np.sum(np.tile(x, len(x)) ** 3),
    "broadcast_to": lambda x: np.sum(np.broadcast_to(x, (3, len(x))) ** 2),
    "diff": lambda x: np.sum(np.diff(x) ** 2),
    "outer": lambda x: np.sum(np.outer(x, x) ** 2),
    "concatenate": lambda x: np.sum(np.concatenate([x, np.ones(len(x)), x]) ** 3),
    "column_stack": lambda x: np.sum(np.column_stack([np.ones(len(x)), x]) ** 3),
    "cumsum": lambda x: np.sum(np.cumsum(x) ** 2),
    "sort": lambda x: np.sum(np.sort(x) * np.arange(len(x))),
    "argmax": lambda x: x[np.argmax(x)] * x[0],
    "quantile": lambda x: np.quantile(x, 0.3) + np.quantile(x, 0.9),
    "quantiles of columns": lambda x: np.sum(np.quantile(np.outer(x, x[1:]), [0.2, 0.7], axis=0) ** 2),
    "clip": lambda x: x[np.clip(np.arange(len(x)) + 1, 0, len(x) - 1)] @ x + np.sum(x.clip(0, len(x) - 4)),
    "least of positions": lambda x: np.minimum(np.arange(len(x)), len(x) // 2) @ x,
    "take": lambda x: sum(np.take(x, np.arange(len(x)) + 2, mode=mode) @ x**2 for mode in ("wrap", "clip")),
    "trace of a rectangle": lambda x: np.trace(np.outer(x, x[1:])) + np.trace(np.outer(x, x[1:]), -1),
    "diagonal of a rectangle": lambda x: np.sum(np.diag(np.outer(x[1:], x)) ** 2),
    "polyder, polyint": lambda x: np.polyval(np.polyder(x), 0.3) + np.sum(np.polyint(x, 2, [1.0, 2.0]) ** 2),
    "polymul, polyadd": lambda x: np.sum(np.polymul(x, x) ** 2) + np.sum(np.polysub(x, x[1:]) ** 2),
    "distances of samples": lambda x: (
        stats.wasserstein_distance(x, x[1:] + 0.3) + stats.energy_distance(x, x[:-1])
    ),
    "cholesky": lambda x: np.sum(np.log(np.diag(np.linalg.cholesky(np.outer(x, x) + np.eye(len(x)))))),
    "trace": lambda x: np.trace(np.outer(x, x)),
    "where": lambda x: np.sum(np.where(x > 0, x**2, np.zeros_like(x))),
    "interp": lambda x: np.sum(np.interp(np.linspace(0, 1, 7), np.linspace(0, 1, len(x)), x) ** 2),
    "resampled": lambda x: np.sum(np.interp(np.linspace(-1, 9, 2 * len(x)), np.arange(len(x)), x) ** 2),
    "diff with an entry before": lambda x: np.sum(np.diff(x, prepend=x[0], append=2.0) ** 3),
    "inserted": lambda x: np.sum(np.insert(x, 0, 0.5) * np.insert(x, -1, x[0])),
    "deleted": lambda x: np.sum(np.delete(x, 0) ** 2) + np.sum(np.delete(x, -2) ** 3),
    "pad": lambda x: np.sum(np.pad(x, (1, len(x)), constant_values=2.0) ** 2),
    "pad by edges": lambda x: np.sum(np.pad(x, (2, 3), mode="edge") ** 2),
    "pad by reflections": lambda x: np.sum(np.pad(x, 1, mode="reflect") * np.pad(x, 1, mode="symmetric")),
    "pad by wrapping": lambda x: np.sum(np.diff(np.pad(x, (2, 1), mode="wrap")) ** 2),
    "masked write": lambda x: positive_part(x),
    "diagonal": lambda x: with_diagonal(x),
    "tri": lambda x: np.sum((np.tri(len(x), k=1) @ x) ** 2),
    "windows": lambda x: np.sum((x * (np.hanning(len(x)) + np.blackman(len(x)) + np.bartlett(len(x)))) ** 2),
    "skew": lambda x: stats.skew(x) + stats.kurtosis(x) * stats.sem(x),
    "nanmean": lambda x: np.nanmean(x) * np.nanstd(x),
    "reduceat": lambda x: np.sum(np.add.reduceat(x, [0]) ** 2),
    "multivariate": lambda x: stats.multivariate_normal.logpdf(x, np.zeros(len(x)), np.eye(len(x))),
    "cumulative integral": lambda x: np.sum(integrate.cumulative_trapezoid(x, dx=0.1, initial=0) ** 2),
    "analytic signal": lambda x: np.sum(np.abs(signal.hilbert(x)) ** 3),
    "logpdf": lambda x: np.mean(stats.norm.logpdf(x, 0.1, 1.2)),
    "trapezoid": lambda x: np.trapezoid(x**2, dx=1 / (len(x) - 1)),
    "meshes": lambda x: np.sum((x[:, None] - x[None, :]) ** 2) / len(x) ** 2,
    "compared with a bound": lambda x: np.max(x) * max(len(x), 1),
    "reversed slices": lambda x: sum(
        np.sin(part) @ part[::-1] * (k + 1) for k, part in enumerate(reversals(x))
    ),
    "indices": lambda x: np.sum(x[np.arange(len(x)) // 2] ** 2),
    "indices modulo a length": lambda x: np.sum(x * x[(np.arange(len(x)) + 1) % len(x)]),
    "int of a root": lambda x: np.sum(x[: int(np.sqrt(len(x)))] ** 2) + x[int(len(x) ** 0.5) - 1],
    "a root rounded up": lambda x: np.sum(x[: math.ceil(math.sqrt(len(x)))] ** 2) * math.isqrt(len(x)),
    "rounded shares": lambda x: np.sum(x[: round(0.6 * len(x))] ** 2) + x[int(np.ceil(0.3 * len(x))) - 1],
    "the largest so far": lambda x: np.max(np.maximum.accumulate(np.cumsum(x)) - np.cumsum(x)),
    "the smallest so far": lambda x: np.sum(np.minimum.accumulate(x) * np.arange(len(x))),
    "pairs": distances,
    "lower triangle": lambda x: np.sum(kernel_matrix(x)[np.tril_indices(len(x), -1)] ** 2),
    "upper triangle": lambda x: np.sum(np.exp(np.outer(x, x)[np.triu_indices_from(np.outer(x, x))])),
    "Toeplitz matrix": lambda x: x @ linalg.toeplitz(0.5 ** np.arange(len(x)), x) @ x,
    "circulant matrix": lambda x: np.sum((linalg.circulant(x) @ np.arange(len(x))) ** 2),
    "eigenvalues": lambda x: np.sum(np.log(np.linalg.eigvalsh(kernel_matrix(x)))),
    "eigenvectors": of_values_and_vectors,
    "singular values": lambda x: np.linalg.norm(kernel_matrix(x), 2) + np.linalg.cond(kernel_matrix(x)),
    "QR": lambda x: np.sum(np.linalg.qr(kernel_matrix(x), mode="r") ** 2),
    "windows of a vector": lambda x: np.sum(sliding_window_view(x, len(x) // 2).mean(-1) ** 2),
    "rolled by a half": lambda x: np.sum(x * np.roll(x, len(x) // 2)),
    "split at a half": lambda x: sum(k * np.sum(p**2) for k, p in enumerate(np.split(x, [len(x) // 2]))),
    "put in the middle": lambda x: np.sum(np.insert(x, len(x) // 2, x[0]) * np.arange(len(x) + 1)),
    "left out in the middle": lambda x: np.sum(np.delete(x, len(x) // 2) * np.arange(len(x) - 1)),
    "at most so many": lambda x: np.sum(x[:100] ** 2) + np.sum(x[-100:] * x) + np.sum(x[100:]),
    "every other from the end": lambda x: np.sum(x[::-2] ** 3),
    "an array of a length": lambda x: np.sum(x**2) / np.array(len(x)) - x[0] * np.asarray(len(x), float),
    "a ufunc of lengths": lambda x: np.sum(x[: np.floor_divide(len(x), 2)]) * np.add(len(x), 1),
    "arange of floats to a float": lambda x: np.sum(x * np.arange(1.0, len(x) + 1.0)),
    "points at equal ratios": lambda x: x @ (np.logspace(0, 1, len(x)) + np.geomspace(0.5, 9.0, len(x))),
    "as many powers as entries": lambda x: np.sum(np.vander(np.tanh(x)) * x + np.vander(x, increasing=True)),
    "grids": lambda x: np.sum(np.subtract(*np.indices((len(x), len(x)))) * np.outer(x, x**2)),
    "a grid of slices": lambda x: np.sum(np.mgrid[0 : len(x), 1 : len(x) + 1][1] * np.outer(x, x**2)),
    "an open grid": lambda x: np.sum(x * np.ogrid[0 : len(x)]) + sum(np.ogrid[0 : len(x), 0:2])[-1, 1] * x[0],
    "a function of positions": lambda x: (
        x @ np.fromfunction(lambda i, j: 0.5 ** abs(i - j), (len(x),) * 2) @ x
    ),
    "rows of a matrix": lambda x: sum(k * np.sum(row**2) for k, row in enumerate(np.stack([x, x**3]))),
    "Hankel matrix": lambda x: np.sum((linalg.hankel(x) @ linalg.hankel(x, x[::-1])) ** 2),
    "Toeplitz system": lambda x: np.sum(linalg.solve_toeplitz(np.append(9.0 + x @ x, x[1:]), x) ** 2),
    "circulant system": lambda x: np.sum(linalg.solve_circulant(np.append(9.0 + x @ x, x[1:]), x) ** 2),
    "blocks on a diagonal": lambda x: np.sum(linalg.block_diag(np.outer(x, x), x) ** 2),
    "cosine transform": lambda x: np.sum(fft.idct(fft.dct(x) ** 2, norm="ortho") ** 3),
    "half of a cosine transform": lambda x: np.sum(fft.idct(fft.dct(x)[: len(x) // 2], n=len(x)) ** 3),
    "filled up before a sine transform": lambda x: np.sum(fft.dst(x, 3, n=2 * len(x)) ** 3),
    "other sampling rates": lambda x: (
        np.sum(signal.resample_poly(x, 3, 2) ** 3) + np.sum(signal.decimate(x, 2, ftype="fir"))
    ),
    "sine transform": lambda x: np.sum(fft.idst(fft.dst(x, norm="forward") ** 2) ** 3),
    "degrees of freedom": lambda x: np.sum(stats.t.logpdf(x, len(x) - 1)) + stats.t.ppf(0.3, len(x)) * x[0],
    "tails": lambda x: (
        stats.chi2.sf(np.sum(x**2), len(x) - 1) + stats.f(len(x), 3).cdf(x[0] ** 2) * np.sum(x)
    ),
    "numbers of trials": lambda x: stats.binom.logpmf(np.arange(len(x)), len(x), np.exp(-(x[0] ** 2))) @ x,
    "counts": lambda x: (
        stats.poisson.logpmf(len(x), x[0] ** 2) + stats.nbinom.logpmf(2, len(x), np.exp(-(x[1] ** 2)))
    ),
    "a sequence with itself": lambda x: (
        np.sum(np.convolve(x, x) ** 2) + np.sum(np.correlate(x, np.sin(x), "full") ** 3)
    ),
    "distances of all pairs": lambda x: np.sum(np.sqrt(distance.pdist(np.outer(x, [0.2, 0.5])))) + np.sum(x),
    "interpolated at one place": lambda x: np.interp(0.3, np.linspace(0.0, 1.0, len(x)), x) ** 2 + x[0],
    "is it iterable": lambda x: np.sum(x**2) * np.iterable(x),
}


def halved(x):
    return x[: len(x) // 2], x[len(x) // 2 :]


def marked(x):
    """A mask of positions says where a number is written: no entries are chosen by it."""
    weights = np.ones(len(x))
    weights[np.arange(len(x)) > 2] = x[0]
    return np.sum(weights * x**2)


# SciPy's own Python code, which runs as a copy, follows sizes as the user's code does.
STATISTICS = {
    "linregress": lambda x: sum(stats.linregress(np.arange(len(x)) / len(x), x)[:3]),
    "linregress of pairs": lambda x: stats.linregress(x[:-1], x[1:]).pvalue,
    "pearsonr": lambda x: sum(stats.pearsonr(x[1:], x[:-1])),
    "ttest_1samp": lambda x: sum(stats.ttest_1samp(x, 0.1)),
    "ttest_ind": lambda x: sum(stats.ttest_ind(*halved(x))),
    "Welch": lambda x: sum(stats.ttest_ind(*halved(x), equal_var=False)),
    "ttest_rel": lambda x: sum(stats.ttest_rel(x, x**2)),
    "f_oneway": lambda x: sum(stats.f_oneway(*halved(x), x**2)),
    "tmean": lambda x: stats.tmean(x) + stats.tvar(x) * stats.tsem(x),
    "tmean in limits": lambda x: stats.tmean(x, (-9.0, 9.0)),
    "describe": lambda x: stats.describe(x).variance * stats.describe(x).skewness,
    "jarque_bera": lambda x: stats.jarque_bera(x).statistic,
    "normaltest": lambda x: stats.normaltest(x).statistic + stats.skewtest(x).pvalue,
    "bartlett": lambda x: stats.bartlett(x, x**2 + x).statistic,
    "alexandergovern": lambda x: stats.alexandergovern(x, x**2).statistic,
    "circmean": lambda x: stats.circmean(x) * stats.circstd(x),
    "kstat": lambda x: stats.kstat(x, 2) + stats.kstatvar(x, 1),
    "pointbiserialr": lambda x: stats.pointbiserialr(np.arange(len(x)) % 2, x).statistic,
    "trim_mean": lambda x: stats.trim_mean(x, 0.1),
    "boxcox_llf": lambda x: stats.boxcox_llf(0.5, np.abs(x) + 0.1),
    "gaussian_kde at points": lambda x: np.sum(stats.gaussian_kde(np.linspace(0, 1, 7))(x)),
    "gaussian_kde of samples": lambda x: np.sum(stats.gaussian_kde(x).logpdf([0.2, 0.4])),
    "histogram": lambda x: np.sum(np.histogram(x, bins=3)[0] * x[0]),
    "lombscargle": lambda x: np.sum(signal.lombscargle(np.linspace(0, 9, len(x)), x, np.array([1.0, 2.0]))),
    "interp1d": lambda x: np.sum(interpolate.interp1d(np.linspace(0, 1, len(x)), x)([0.1, 0.7]) ** 2),
    "broadcast_shapes": lambda x: np.sum(np.broadcast_to(x, np.broadcast_shapes((3, 1), x.shape)) ** 2),
    "an array of sizes": lambda x: np.sum(x**2) / np.prod(np.array([len(x), 3])),
    "a mask of positions": marked,
}

# One tape for two matrices that are taller than wide, another one for those that are not.
TALL = {"fit": fitted, "left and right vectors": of_singular_vectors}


def finite_differences(x):
    slope = np.empty_like(x)
    slope[0], slope[-1] = x[1] - x[0], x[-1] - x[-2]
    slope[1:-1] = (x[2:] - x[:-2]) / 2
    return np.sum(slope**2 * x)


def halves(x):
    n = len(x)
    out = np.zeros(n)
    out[: n // 2] = x[: n // 2] ** 2
    out[n // 2 :] = x[n // 2 :] ** 3
    return np.sum(out * np.arange(n))


def every_other(x):
    out = np.empty(len(x))
    out[::2], out[1::2] = np.sin(x[::2]), np.cos(x[1::2])
    out[::3] *= 2.0
    return np.sum(out * x)


def in_place(x):
    y = x.copy()
    inner = y[1:]
    y[1:] += 0.5 * x[:-1]
    y[-1] *= inner[0]
    inner[:1] = 3.0 * y[0]  # `y` sees it
    return np.sum(y**2) + np.sum(inner**3)


def columns(x):
    X = np.ones((len(x), 3))
    X[:, 1], X[1:, 2], X[0] = x, x[1:] ** 2, x[0]
    X[1:-1, 1:] *= 2.0
    return np.sum((X @ np.array([1.0, 2.0, 3.0])) ** 2)


def diffused(x):
    u = np.outer(x, x)
    for _ in range(3):
        u[1:-1, 1:-1] += 0.1 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1])
    return np.sum(u**2)


def overlapping(x):
    y = np.exp(x)
    y[1:] = y[:-1]
    y[:-1] = y[1:] * y[0]
    return np.sum(y * x)


def entry_by_entry(x):
    y = x.copy()
    for k in range(1, 3):
        y[-k] = y[k - 1] * y[0]
    return np.sum(y**2)


def first_three(x):
    """For three entries ``y[:3]`` is all of y, and only for three."""
    y = x**2
    start = y[:3]
    y[:] = x
    return np.sum(start) + np.sum(y**2)


MANY = np.arange(18) % 3


def listed(x):
    """Entries that lists name: few, many, twice, of rows and columns, of pairs, none."""
    y, table, flags = 2.0 * x, np.outer(x, x), np.zeros(len(x))
    y[[0, -1]] = 0.5
    y[[1, 0]] += y[[0, 1]] * x[-2:]
    y[[0, 0, 1]] = x[:3]
    y[MANY] = x[0] * np.arange(18.0)
    table[:, [0, -1]] = 0.0
    table[[0, -1]] = 3.0 * x
    table[[2, 1], 1:] = np.stack([x[1:], x[:-1]])
    table[0, [1, 2]] = x[:1]
    table[[0, 1], [1, 0]] *= x[:2]
    flags[[]] = 5.0
    flags[np.array([0, 2])] = 1.0
    return np.sum(y**2 * x) + np.sum(table**2) + flags @ x


PARTS = {
    f.__name__: f
    for f in (
        *(finite_differences, halves, every_other, in_place, columns, diffused, overlapping),
        *(entry_by_entry, first_three, listed),
    )
}


def checked(f, arguments_of, lengths=LENGTHS):
    """Call one cache with arguments of several lengths, compare with fresh caches, return the cache."""
    cache = nt.prepare_gradient_cache(f, *arguments_of(lengths[0]))
    for n in lengths[1:]:
        arguments = arguments_of(n)
        value, gradients = nt.value_and_gradient(cache, *arguments)
        bare = [a.value if isinstance(a, nt.Constant) else a for a in arguments]
        np.testing.assert_allclose(value, f(*bare), rtol=1e-13)
        fresh = nt.prepare_gradient_cache(f, *arguments)
        for gradient, expected in zip(gradients, nt.value_and_gradient(fresh, *arguments)[1], strict=True):
            if expected is not None:
                np.testing.assert_allclose(gradient, expected, rtol=1e-12, atol=1e-14)
                assert gradient.shape == expected.shape
    return cache


@every("name", ONE_TAPE)
def test_one_tape_serves_every_length(name):
    assert checked(ONE_TAPE[name], lambda n: (vector(n),), (5, 2, 8)).traces == 1


@pytest.mark.parametrize("lengths", [(1, 3, 2), (3, 1, 2)])
def test_a_vector_that_is_rolled_by_one_may_have_one_entry(lengths):
    """The trace at this length serves others, so a call gets the same bits whichever calls came before."""
    for shift in (1, -1):
        assert checked(lambda x, by=shift: x @ np.roll(x, by), lambda n: (vector(n),), lengths).traces == 1


@pytest.mark.parametrize("name", STATISTICS)
def test_one_tape_serves_samples_of_every_size(name):
    assert checked(STATISTICS[name], lambda n: (vector(n),), (9, 30, 12)).traces == 1


def power_series(x):
    integral = np.polynomial.polynomial.polyint(x, k=[2.0], lbnd=0.5)
    slope = np.polynomial.Polynomial(x).deriv()
    return np.sum(np.polynomial.polynomial.polyval(x[:2], integral) ** 2) + slope(0.3)


CONSTRUCTIONS = {
    "ranks": lambda x: stats.rankdata(x) @ x + stats.rankdata(np.round(x)) @ x,
    "spearmanr": lambda x: stats.spearmanr(x, np.sin(x)).statistic * x[0],
    "kendalltau": lambda x: stats.kendalltau(x, np.sin(3 * x)).statistic * x[0],
    "squareform": lambda x: np.sum(distance.squareform(distance.pdist(x[:, None]))[0] ** 2),
    "polyval": lambda x: np.polyval(x, 0.3) + np.sum(np.polyval(x, x[:2]) ** 2),
    "linear": lambda x: interpolate.interp1d(np.linspace(0, 1, len(x)), x)(0.3) ** 2,
    "cubic": lambda x: interpolate.CubicSpline(np.arange(len(x)), x)(1.3) ** 2,
    "natural": lambda x: np.sum(
        interpolate.CubicSpline(np.linspace(0, 1, len(x)), np.outer(x, x), 1, "natural")([0.1, 0.7], 1) ** 2
    ),
    "cubic, places": lambda x: np.sum(
        interpolate.CubicSpline(np.cumsum(np.exp(x)), np.outer(x, x[:2]))([1.3, 1.7], 1) ** 2
    ),
    "integral of a spline": lambda x: interpolate.CubicSpline(
        np.arange(len(x)) + 0.1 * np.tanh(x), x
    ).integrate(0.5, 1.3),
    "make_interp_spline": lambda x: np.sum(
        interpolate.make_interp_spline(np.arange(len(x) + 1), np.append(x, 0.5))([0.5, 1.7]) ** 2
    ),
    "make_interp_spline, places": lambda x: interpolate.make_interp_spline(np.cumsum(np.exp(x)), x, 2)(1.3),
    "pchip": lambda x: interpolate.PchipInterpolator(np.arange(len(x)), x)(1.3),
    "akima": lambda x: np.sum(interpolate.Akima1DInterpolator(np.arange(len(x)), x)([0.5, 2.3])),
    "power series": power_series,
    "weights in logsumexp": lambda x: special.logsumexp(x, b=1.0 / len(x)) + np.max(x, initial=0.5),
    "pairs": lambda x: np.mean(x) * special.comb(len(x), 3) + np.sum(x) / (math.comb(len(x), 2) + 1),
    "a counted loop": lambda x: nt.fori_loop(1, len(x), lambda k, y: np.sin(y) * x[k], 0.5),
    "a window of Bessel functions": lambda x: np.kaiser(len(x), 3.0) @ x,
    "frequencies": lambda x: np.abs(fft.rfft(x, 2 * len(x))) @ fft.rfftfreq(2 * len(x), 0.5),
}


@pytest.mark.parametrize("name", CONSTRUCTIONS)
def test_one_tape_serves_what_is_made_of_any_number_of_entries(name):
    """Two where fewer entries mean another formula, as with splines of three points."""
    f = CONSTRUCTIONS[name]
    traces = checked(f, lambda n: (vector(n),), (9, 30, 12, 5)).traces
    assert traces == 1
    assert checked(f, lambda n: (vector(n),), (9, 3, 4, 9, 3)).traces <= 3


@pytest.mark.filterwarnings("ignore:Polyfit may be poorly")
def test_the_cutoff_of_polyfit_is_that_of_each_call():
    """Singular values below a share of the largest one are zero, and the share is larger for more places."""

    def f(places):
        return np.sum(np.polyfit(places, np.cos(np.arange(len(places))), 1) ** 2)

    cache = nt.prepare_gradient_cache(f, np.linspace(0.0, 1.0, 4))
    close = 1.0 + np.linspace(-3e-13, 3e-13, 3000)
    with pytest.raises(nt.UnsupportedOperationError, match="less than full rank"):
        nt.value_and_gradient(cache, close)


def test_pairs_that_are_those_of_no_points_are_an_error():
    gradient = nt.grad(lambda x: np.sum(distance.squareform(x) ** 2))
    for n in (3, 6, 10, 1, 0):
        np.testing.assert_allclose(gradient(np.ones(n)), np.full(n, 4.0))
    with pytest.raises(ValueError, match="Incompatible vector size"):
        gradient(np.ones(4))


def test_cubic_interp1d_follows_sizes():
    def f(x):
        places = np.linspace(0.0, 1.0, len(x)) ** 2
        inside = interpolate.interp1d(places, x, kind="cubic")(np.array([0.2, 0.7]))
        beyond = interpolate.interp1d(places[::-1], np.outer(x, x), 3, axis=0, fill_value="extrapolate")(1.1)
        return np.sum(inside**2) + np.sum(beyond)

    cache = nt.prepare_gradient_cache(f, vector(7))
    for n in (12, 5, 4):
        value, (gradient,) = nt.value_and_gradient(cache, vector(n))
        np.testing.assert_allclose(value, f(vector(n)), rtol=1e-10)
        fresh = nt.prepare_gradient_cache(f, vector(n))
        expected = nt.value_and_gradient(fresh, vector(n))[1][0]
        np.testing.assert_allclose(gradient, expected, rtol=1e-8, atol=1e-10)
    assert cache.traces == 1
    with pytest.raises(ValueError, match="derivatives at boundaries"):
        nt.value_and_gradient(cache, vector(3))


def test_breakpoints_may_be_an_argument_without_a_derivative():
    def f(t, y):
        return np.sum(interpolate.CubicSpline(t, y)([0.4, 1.1]) ** 2)

    for n in (6, 4, 9):
        t, y = np.linspace(0.0, 2.0, n) ** 1.5, vector(n)
        _, gradient = nt.value_and_grad(f, argnums=1)(nt.Constant(t), y)
        np.testing.assert_allclose(gradient, nt.grad(lambda y, t=t: f(t, y))(y), rtol=1e-12)


@pytest.mark.filterwarnings("ignore")  # SciPy's, of few observations
@pytest.mark.parametrize("name", ["ttest_1samp", "ttest_ind", "f_oneway", "jarque_bera", "tmean"])
def test_samples_of_few_entries(name):
    """A statistic of none, one or two entries is SciPy's, also where a larger sample was traced."""
    f = STATISTICS[name]
    cache = nt.prepare_gradient_cache(f, vector(9))
    for n in (2, 0, 1, 3, 9, 2):
        np.testing.assert_allclose(
            nt.value_and_gradient(cache, vector(n))[0], f(vector(n)), rtol=1e-11, err_msg=str(n)
        )


def test_interpolation_of_other_numbers_of_places_and_values_is_an_error():
    gradient = nt.grad(lambda x, y: np.sum(interpolate.interp1d(np.arange(len(x)), y * 2)(0.5)) + np.sum(x))
    for n in (5, 7, 6):
        gradient(np.ones(n), np.ones(n))
    with pytest.raises(ValueError, match="equal in length"):
        gradient(np.ones(5), np.ones(6))


def test_a_density_of_too_few_samples_is_an_error():
    gradient = nt.grad(lambda x: np.sum(stats.gaussian_kde(x).logpdf(np.zeros((2, 1)))))
    for n in (5, 7, 6):
        assert gradient(matrix(2, n)).shape == (2, n)
    with pytest.raises(ValueError, match="number of samples"):
        gradient(matrix(2, 1))


def test_statistics_of_so_few_entries_that_they_are_not_defined():
    with pytest.warns(stats._axis_nan_policy.SmallSampleWarning):
        assert np.isnan(nt.value_and_grad(lambda x: stats.shapiro(x).statistic)(vector(2))[0])
    square = nt.value_and_grad(lambda x: np.sum(distance.squareform(distance.pdist(x[:, None])) ** 2))
    assert square(vector(1))[0] == 0.0 == square(vector(0))[0]


@pytest.mark.parametrize("name", TALL)
def test_one_tape_serves_every_tall_matrix(name):
    assert checked(TALL[name], lambda n: (vector(n),), (5, 3, 12)).traces == 1


@pytest.mark.parametrize("name", PARTS)
def test_one_tape_serves_writes_to_parts_for_every_length(name):
    assert checked(PARTS[name], lambda n: (vector(n),), (3, 4, 7, 12, 5)).traces == 1


def test_an_array_of_many_patches_is_right_for_every_length():
    def f(x):
        y = x.copy()
        for k in range(1, 20):
            y[k] = 0.5 * y[k - 1] + x[k]
        return np.sum(y**2)

    checked(f, lambda n: (vector(n),), (20, 23, 21))


FACTORS = (0.29, 0.57, 0.07, 0.8, 0.5, 1 / 3)
ROUNDED_SIZES = {
    "down": lambda n: (
        sum(int(c * n) for c in FACTORS[:2]) + math.floor(n / 7) + int(np.floor(FACTORS[2] * n))
    ),
    "up": lambda n: (
        sum(math.ceil(c * n) for c in FACTORS[::2]) - int(np.ceil(FACTORS[1] * n)) + math.ceil(n / 7)
    ),
    "near": lambda n: round(n / 2) - round(n / 6) + sum(round(c * n) for c in FACTORS[2:4]),
    "near by NumPy": lambda n: int(np.round(FACTORS[4] * n)) + int(np.rint(n / 6)),
    "roots": lambda n: int(np.sqrt(n)) + math.isqrt(n) + int(n**0.5) - int(np.ceil(np.sqrt(n))),
    "near roots": lambda n: round(math.sqrt(n)) + math.ceil(n**0.5) - int(np.rint(np.sqrt(n))),
}


@pytest.mark.parametrize("size", ROUNDED_SIZES.values(), ids=ROUNDED_SIZES)
def test_rounded_fractions_of_sizes_are_those_of_python(size):
    """``int(0.29 * 100)`` is 28: floats are rounded before they are cut off. A half goes to the even side."""
    cache = nt.prepare_gradient_cache(lambda x: np.sum(x[: size(len(x))]), np.ones(3))
    lengths = (*range(50), 99, 100, 101, 575, 700, 1023, 1024)
    for n in lengths:
        assert nt.value_and_gradient(cache, np.ones(n))[0] == min(size(n), n)
    assert cache.traces <= 3  # a size may be larger than the length, or zero


TWO_ARGUMENTS = {
    "A @ x": (lambda A, x: np.sum((A @ x) ** 2), lambda n: (matrix(n + 1, n), vector(n))),
    "data": (lambda p, t: np.sum((t - p[0]) ** 2) / len(t), lambda n: (vector(2), nt.Constant(vector(n)))),
    "mean over data": (lambda p, t: np.mean((t - p) ** 2), lambda n: (0.5, nt.Constant(vector(n)))),
    "rows and columns": (
        lambda X, p: np.sum((X - X.mean(0)) ** 2) / (X.shape[0] * X.shape[1]) + np.sum(X, axis=0) @ p,
        lambda n: (matrix(n, n + 3), vector(n + 3)),
    ),
    "averages of rows": (
        lambda X, w: np.sum(np.average(X, axis=0, weights=w) ** 2),
        lambda n: (matrix(n, 3), np.abs(vector(n))),
    ),
    "gathered rows": (
        lambda p, t: np.mean(p[t] ** 2) + np.mean(p[:, 1]),
        lambda n: (matrix(n, 2), nt.Constant(np.arange(3 * n) % n)),
    ),
    "gathered entries": (
        lambda P, t: -np.sum(P[np.arange(len(t)), t]),
        lambda n: (matrix(n, 3), nt.Constant(np.arange(n) % 3)),
    ),
    "lengths of two arguments": (
        lambda x, y: np.sum(x) * len(y) + np.sum(y) / len(x),
        lambda n: (vector(n), vector(2 * n + 1)),
    ),
}


@pytest.mark.parametrize("name", TWO_ARGUMENTS)
def test_one_tape_serves_every_length_of_several_arguments(name):
    f, arguments_of = TWO_ARGUMENTS[name]
    assert checked(f, arguments_of).traces == 1


def parabolas(x):
    """Two samples are a trapezium; an even number of them has a last interval of its own."""
    return integrate.simpson(np.sin(x), dx=0.1) + integrate.simpson(x**2, x=np.cumsum(1.0 + x**2))


STEERING = {
    "a loop": (own_loop, 5),
    "iteration": (lambda x: sum(v * v for v in x), 5),
    "a comparison": (lambda x: np.sum(x) if len(x) > 7 else np.sum(x**2), 2),
    "equal or not": (lambda x: np.sum(x) if x.shape == (6,) else np.sum(x**2), 4),
    "parity": (lambda x: np.median(x), 2),
    "a power of two": (lambda x: np.sum(np.abs(np.fft.rfft(x, 1 << (len(x) - 1).bit_length()))), 4),
    "a power of two by its logarithm": (
        lambda x: np.sum(np.fft.rfft(x, 2 ** math.ceil(math.log2(len(x)))).real),
        4,
    ),
    "bits": (lambda x: np.sum(x) * int(np.log2(len(x))) + np.floor(np.log2(len(x) + 1)), 4),
    "a fast length": (lambda x: np.sum(fft.rfft(x, fft.next_fast_len(10 * len(x))).real), 5),
    "parity of samples": (parabolas, 3),
    "a key of a dictionary": (lambda x: np.sum(x) * {5: 2.0}.get(len(x), 1.0), 5),
    "a position": (lambda x: x[int(len(x) ** 0.4)] ** 2, 5),
    "text": (lambda x: np.sum(x**2) * len(f"{len(x)}"), 5),
}


@pytest.mark.parametrize("name", STEERING)
def test_a_size_that_steers_python_is_a_guard(name):
    f, most = STEERING[name]
    cache = checked(f, lambda n: (vector(n),))
    assert 1 < cache.traces <= most
    traces = cache.traces
    for n in LENGTHS:
        np.testing.assert_allclose(nt.value_and_gradient(cache, vector(n))[0], f(vector(n)), rtol=1e-13)
    assert cache.traces == traces  # all of these are known


def test_no_entries_have_no_transform_whatever_was_traced():
    cache = nt.prepare_gradient_cache(lambda x: np.sum(np.abs(np.fft.fft(x))), np.ones(4))
    with pytest.raises(ValueError, match="data points"):
        nt.value_and_gradient(cache, np.ones(0))


READ_FROM_POSITIONS = {
    "counts": lambda x: np.sum(np.repeat(x, np.arange(len(x)) % 3) ** 2),
    "a float": lambda x: np.sum(x) * float(np.arange(len(x)).sum()),
    "an int": lambda x: np.sum(x) * int(np.arange(len(x))[-1]),
    "entries": lambda x: np.sum(x) * [k for k in np.arange(len(x))][-1],
    "a mask": lambda x: np.sum(x[np.arange(len(x)) % 3 != 1]),
}


@pytest.mark.parametrize("first", [1, 3])
@pytest.mark.parametrize("name", READ_FROM_POSITIONS)
def test_what_python_reads_of_positions_is_a_guard_on_the_size(name, first):
    """Nothing else in these functions depends on the size in a way that the tape would notice."""
    f = READ_FROM_POSITIONS[name]
    cache = nt.prepare_gradient_cache(f, np.ones(first))
    for n in (1, 2, 3, 5):
        assert nt.value_and_gradient(cache, np.arange(1.0, n + 1.0))[0] == f(np.arange(1.0, n + 1.0))


@pytest.mark.parametrize("traced_at", [9, 3])
def test_a_negative_number_that_is_rounded_is_no_size(traced_at):
    def f(x):
        n = len(x) - 4
        return x[0] * (int(n / 2) + round(n / 2) + math.ceil(n * 0.5) + int(np.floor(n / 3)))

    checked(f, lambda n: (vector(n),), (traced_at, 2, 3, 4, 5, 8))


def test_sizes_are_ints_to_the_function():
    seen = []

    def f(x):
        n = len(x)
        seen.append(
            (isinstance(n, int), type(n) is int, n == 5, n + 1 == 6, -n == -5, n // 2 * 2 + n % 2 == n)
        )
        return np.sum(x)

    nt.grad(f)(np.ones(5))
    assert seen == [(True,) * 6]


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_slices_by_sizes_that_become_negative_are_traced_anew(n):
    """``len(x) - 3`` counts from the end where it is negative."""

    def f(x):
        return np.sum(x[len(x) - 3 :] ** 2)

    cache = nt.prepare_gradient_cache(f, vector(6))
    np.testing.assert_allclose(nt.value_and_gradient(cache, vector(n))[0], f(vector(n)), rtol=1e-13)


def test_a_division_by_a_length_of_zero_raises_as_python_does():
    def f(x):
        return np.sum(x) + 1 / len(x)

    cache = nt.prepare_gradient_cache(f, np.ones(3))
    with pytest.raises(ZeroDivisionError):
        nt.value_and_gradient(cache, np.ones(0))
    assert nt.value_and_gradient(cache, np.ones(4))[0] == 4.25


def test_second_derivatives_of_one_tape():
    def f(x):
        return np.var(x) * np.mean(x**3) + np.sum(np.sin(x) * np.arange(len(x)))

    cache = nt.prepare_hessian_cache(f, vector(4))
    for n in (3, 6, 5):
        x = vector(n)
        _, gradient, hessian = nt.value_gradient_and_hessian(cache, x)
        np.testing.assert_allclose(gradient, nt.grad(f)(x), rtol=1e-12)
        expected = nt.jacobian(nt.grad(f))(x)
        np.testing.assert_allclose(hessian, expected, rtol=1e-10, atol=1e-12)


def test_batches_and_jacobians_of_sizes():
    def f(x):
        return np.mean(x**3) * len(x) + np.linspace(0, 1, len(x)) @ x

    for n in (3, 4):
        points = matrix(5, n)
        values, gradients = nt.batch(f)(points)
        np.testing.assert_allclose(values, [f(x) for x in points], rtol=1e-13)
        np.testing.assert_allclose(gradients, [nt.grad(f)(x) for x in points], rtol=1e-12)
        jacobian = nt.jacobian(lambda x: x / len(x) - np.mean(x))(points[0])
        np.testing.assert_allclose(jacobian, np.eye(n) / n - 1 / n, rtol=1e-12)


@pytest.mark.parametrize("function", [np.convolve, np.correlate])
@pytest.mark.parametrize("mode", ["same", "full", "valid"])
def test_the_longer_of_two_sequences_may_become_the_shorter(function, mode):
    def f(x):
        return np.sum(function(x, [0.3, 0.5, 0.2], mode) ** 2)

    cache = nt.prepare_gradient_cache(f, np.arange(1.0, 6.0))
    for count in (5, 2, 7, 1, 3):
        x = np.arange(1.0, count + 1.0)
        np.testing.assert_allclose(nt.value_and_gradient(cache, x)[0], f(x), rtol=1e-13)


WINDOWS = {
    "hann": lambda n: signal.windows.hann(n),
    "periodic hamming": lambda n: signal.windows.hamming(n, False),
    "flattop": lambda n: signal.windows.flattop(n, sym=False),
    "bartlett": lambda n: signal.windows.bartlett(n),
    "cosine": lambda n: signal.windows.cosine(n, False),
    "gaussian": lambda n: signal.windows.gaussian(n, 2.0),
    "general gaussian": lambda n: signal.windows.general_gaussian(n, 1.5, sig=3.0),
    "exponential": lambda n: signal.windows.exponential(n, tau=2.0),
    "kaiser": lambda n: signal.windows.kaiser(n, 3.5),
    "tukey": lambda n: signal.windows.tukey(n, 0.3),
    "boxcar": lambda n: signal.windows.boxcar(n) * signal.get_window(("tukey", 0.5), n),
    "by name": lambda n: signal.get_window(("kaiser", 4.0), n) * signal.get_window("nuttall", n),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_windows_follow_sizes(name):
    def f(x):
        return np.sum(WINDOWS[name](len(x)) * np.cumsum(x**2))

    cache = nt.prepare_gradient_cache(f, vector(5))
    for n in (4, 3, 2, 12, 5, 1):
        x = vector(n)
        value, (gradient,) = nt.value_and_gradient(cache, x)
        np.testing.assert_allclose(value, f(x), rtol=1e-12, atol=1e-14)
        expected = 2 * x * np.cumsum(WINDOWS[name](n)[::-1])[::-1]
        np.testing.assert_allclose(gradient, expected, rtol=1e-11, atol=1e-14)
    assert cache.traces == 2  # a window of one entry is SciPy's


def spaced(x):
    """Return a symmetric matrix with eigenvalues that are far from one another."""
    return np.outer(x, x) + np.diag(2.0 + np.arange(len(x)))


def wide(matrix):
    """Matrices with different numbers of null vectors."""
    return matrix[2:], matrix[1:]


def of_bands(band):
    """Return solutions and factors of matrices with three diagonals, or with two."""
    symmetric = linalg.cholesky_banded(band[:2]), linalg.cholesky_banded(band[1::-1], lower=True)
    solved = linalg.solveh_banded(band[:2], band[2]), linalg.solveh_banded(band[1::-1], band[2], lower=True)
    return np.stack([*symmetric[0], *symmetric[1], *solved, linalg.solve_banded((1, 1), band, band[0])])


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.prod(x) + np.sum(np.cumprod(x)),
        lambda x: np.sum(np.linalg.cholesky(spaced(x)) ** 3),
        lambda x: np.sum(np.linalg.eigh(spaced(x))[0] ** 3),
        lambda x: np.sum(np.linalg.svd(spaced(x)[1:], full_matrices=False)[1] ** 3),
        lambda x: np.sum(np.linalg.qr(spaced(x))[1] ** 4),
        lambda x: np.sum(np.linalg.svd(spaced(x)[1:])[2][:, 0] ** 4),
        lambda x: np.sum(linalg.lu(spaced(x))[2] ** 3),
        lambda x: np.sum(linalg.lu(spaced(x)[:, 1:])[1] ** 3),
        lambda x: np.sum(linalg.logm(spaced(x)) ** 3),
        lambda x: np.sum(np.real(np.linalg.eig(spaced(x) * (1 + np.arange(len(x))))[0]) ** 3),
        lambda x: np.sum(linalg.polar(spaced(x) * (1 + np.arange(len(x))))[0] ** 3),
        lambda x: np.sum(np.linalg.svd(spaced(x) * (1 + 1j * np.arange(len(x))))[1] ** 3),
        lambda x: np.sum(linalg.pinvh(spaced(x) * (1 + np.arange(len(x)))) ** 3),
        lambda x: np.sum(linalg.lstsq(spaced(x)[:, 1:], np.cos(x))[0] ** 3),
        lambda x: np.sum(linalg.orth(spaced(x)[:, 1:]) ** 4),
        lambda x: sum(np.sum((basis @ basis.T) ** 3) for basis in map(linalg.null_space, wide(spaced(x)))),
        lambda x: np.sum(linalg.subspace_angles(spaced(x)[:, :1], spaced(x)[:, 1:2]) ** 3),
        lambda x: np.sum(np.linalg.tensorsolve(spaced(x), x) ** 3) * np.linalg.matrix_rank(spaced(x)),
        lambda x: np.sum(of_bands(np.stack([x * 0.1, x**2 + 5, x**3])) ** 3),
        lambda x: np.sum(linalg.solve_continuous_are(*[spaced(x)] * 3, np.eye(len(x))) ** 3),
        lambda x: sum(np.sum(fft.dct(x, k) ** 3 + fft.idst(x, k, norm="ortho") ** 3) for k in (1, 3, 4)),
    ],
    ids=[
        *("products", "cholesky", "eigh", "svd", "qr", "full svd", "lu", "tall lu", "logm", "eig", "polar"),
        *("complex svd", "pinvh", "lstsq", "orth", "null space", "subspace angles", "tensorsolve"),
        *("bands", "riccati", "real transforms"),
    ],
)
def test_second_derivatives_and_tangents_follow_sizes(f):
    """Their instructions are those of pullbacks, which need matrices of the sizes that come."""
    caches = nt.prepare_hvp_cache(f, np.ones(3)), nt.prepare_derivative_cache(f, np.ones(3))
    traces = set()
    for n in (4, 3, 6, 5):
        x = 0.3 + np.sin(np.arange(float(n)))
        v = np.cos(np.arange(float(n)))
        value, gradient, product = nt.value_and_hvp(caches[0], v, x)
        assert value == pytest.approx(f(x), rel=1e-12)
        assert nt.value_and_derivative(caches[1], (x, v))[1] == pytest.approx(gradient @ v, rel=1e-11)
        slopes = [nt.value_and_grad(f)(x + h * v)[1] for h in (-2e-3, -1e-3, 1e-3, 2e-3)]
        differences = (slopes[0] - 8 * slopes[1] + 8 * slopes[2] - slopes[3]) / 0.012
        np.testing.assert_allclose(product, differences, rtol=1e-6, atol=1e-6 * np.max(np.abs(differences)))
        traces.add(tuple(cache.traces for cache in caches))
    assert len(traces) == 1
