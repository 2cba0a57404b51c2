"""One tape for every length: sizes that a function computes with cost no trace, and results are right."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, signal, stats

import numbatape as nt

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
    "tile": lambda x: np.sum(np.tile(x[:2], (len(x), 1)) ** 2),
    "broadcast_to": lambda x: np.sum(np.broadcast_to(x, (3, len(x))) ** 2),
    "diff": lambda x: np.sum(np.diff(x) ** 2),
    "outer": lambda x: np.sum(np.outer(x, x) ** 2),
    "concatenate": lambda x: np.sum(np.concatenate([x, np.ones(len(x)), x]) ** 3),
    "column_stack": lambda x: np.sum(np.column_stack([np.ones(len(x)), x]) ** 3),
    "cumsum": lambda x: np.sum(np.cumsum(x) ** 2),
    "sort": lambda x: np.sum(np.sort(x) * np.arange(len(x))),
    "argmax": lambda x: x[np.argmax(x)] * x[0],
    "quantile": lambda x: np.quantile(x, 0.3) + np.quantile(x, 0.9),
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
    "indices": lambda x: np.sum(x[np.arange(len(x)) // 2] ** 2),
}


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


PARTS = {
    f.__name__: f
    for f in (
        *(finite_differences, halves, every_other, in_place, columns, diffused, overlapping),
        *(entry_by_entry, first_three),
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


@pytest.mark.parametrize("name", ONE_TAPE)
def test_one_tape_serves_every_length(name):
    assert checked(ONE_TAPE[name], lambda n: (vector(n),)).traces == 1


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


def test_rounded_fractions_of_sizes_are_those_of_python():
    """``int(0.29 * 100)`` is 28: floats are rounded before they are cut off."""
    factors = (0.29, 0.57, 0.07, 0.8, 0.9999, 1 / 3)
    cache = nt.prepare_gradient_cache(lambda x: x[0] * sum(int(c * len(x)) for c in factors), np.ones(3))
    for n in (*range(4, 30), 100, 700):
        assert nt.value_and_gradient(cache, np.ones(n))[0] == sum(int(c * n) for c in factors)
    assert cache.traces == 1


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
    "parity of samples": (parabolas, 3),
    "a key of a dictionary": (lambda x: np.sum(x) * {5: 2.0}.get(len(x), 1.0), 5),
    "a position": (lambda x: x[int(len(x) ** 0.5)] ** 2, 5),
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
