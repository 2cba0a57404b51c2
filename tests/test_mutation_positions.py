"""Writes at positions that are data: NumPy's meaning of repeated and negative ones, and what they cost."""

import numpy as np
import pytest

import numbatape as nt
from numbatape.trace import patches

RNG = np.random.default_rng(5)
X = RNG.normal(size=12)
V = RNG.normal(size=7)
UFUNCS = (np.add, np.subtract, np.multiply, np.maximum, np.logaddexp, np.divide)


def vector(x, v, k):
    y = x * 1.0
    y[k] = v**2
    return np.sum(y * X)


def one_number(x, v, k):
    y = np.sin(x)
    y[k] = v[0]
    y[k[0]] = v[1] * y[k[1]]
    return np.sum(y * X)


def augmented(x, v, k):
    y = np.zeros(12)
    y[k] += v * x[k]
    y[k[:3]] *= x[0]
    return np.sum(y * X)


def matrix(x, v, k):
    m = (x * 1.0).reshape(3, 4)
    m[k % 3, k % 4] = v
    m[k[:2] % 3] = x[:4]
    m[1, k[:2] % 4] += v[:2]
    return np.sum(np.sin(m))


def totals(x, v, k):
    y = x * 1.0
    np.add.at(y, k, v)
    np.subtract.at(y, k[1:], v[1:] ** 2)
    m = np.zeros((3, 4))
    np.add.at(m, (k % 3, slice(None)), x[:4])
    np.add.at(m, k % 3, 1.0)
    return np.sum(np.sin(y)) + np.sum(m**2)


def functions(x, v, k):
    y = x * 1.0
    np.put_along_axis(y, k, v, 0)
    m = np.outer(v[:3], x[:4])
    np.put_along_axis(m, (k[:3] % 4)[:, None], x[:3, None], 1)
    return np.sum(np.exp(0.3 * y)) + np.sum(m**2)


def differences(f, x, v, k):
    """Return central differences of both gradients, extrapolated."""
    result = []
    for n, a in enumerate((x, v)):
        slope = np.zeros(a.size)
        for j in range(a.size):
            steps = []
            for h in (2e-3, 1e-3):
                up, down = ([b.copy() for b in (x, v)] for _ in range(2))
                up[n][j] += h
                down[n][j] -= h
                steps.append((f(*up, k) - f(*down, k)) / (2 * h))
            slope[j] = steps[1] + (steps[1] - steps[0]) / 3
        result.append(slope)
    return result


@pytest.mark.parametrize("f", [vector, one_number, augmented, matrix, totals, functions])
def test_against_numpy_and_differences(f):
    cache = nt.prepare_gradient_cache(f, X, V, np.arange(7))
    hessian = nt.hessian(f)(X, V, np.arange(7))
    np.testing.assert_allclose(hessian, hessian.T, atol=1e-12)
    for k in (
        np.array([0, 3, 3, -1, 11, 3, 0]),
        np.arange(7),
        np.full(7, -12),
        np.array([5, 4, 5, 4, 5, 4, 5]),
    ):
        value, gradient = nt.value_and_gradient(cache, X, V, k)
        np.testing.assert_allclose(value, f(X.copy(), V.copy(), k), rtol=1e-13)
        for mine, reference in zip(gradient, differences(f, X, V, k), strict=False):
            np.testing.assert_allclose(mine, reference, rtol=1e-7, atol=1e-7)
        pushed = nt.jvp(lambda x, v, k=k: f(x, v, k), (X, V), (V[0] * X, V))[1]
        np.testing.assert_allclose(pushed, gradient[0] @ (V[0] * X) + gradient[1] @ V, rtol=1e-12)
    assert cache.traces == 1


@pytest.mark.parametrize("ufunc", UFUNCS, ids=lambda u: u.__name__)
@pytest.mark.parametrize("k", [[0, 0, 2, 0, -1, 2, 0], np.arange(7)], ids=["repeated", "apart"])
def test_ufunc_at(ufunc, k):
    def f(x, v):
        y = x**2 + 1.0
        ufunc.at(y, k, v**2 + 0.5)
        return np.sum(y * X)

    def plain(x, v):
        entries = [x[j] ** 2 + 1.0 for j in range(12)]
        for n, j in enumerate(k):
            entries[j] = ufunc(entries[j], v[n] ** 2 + 0.5)
        return np.sum(np.stack(entries) * X)

    value, gradient = nt.value_and_grad(f, argnums=(0, 1))(X, V)
    np.testing.assert_allclose(value, f(X, V), rtol=1e-13)
    for mine, reference in zip(gradient, nt.grad(plain, argnums=(0, 1))(X, V), strict=True):
        np.testing.assert_allclose(mine, reference, rtol=1e-12, atol=1e-14)


def test_signs_of_zeros_and_infinities_arrive():
    def f(x, k):
        y = np.ones(4)
        y[k] = x
        return y

    x = np.array([-0.0, np.inf, np.nan, 3.0])
    result = nt.vjp(lambda x: f(x, np.array([1, 0, 2, 1])), x)[0]
    assert np.array_equal(result, [np.inf, 3.0, np.nan, 1.0], equal_nan=True)
    result = nt.jvp(f, (x[:2], np.array([1, 0])), (x[:2], None))[0]
    assert result[0] == np.inf and np.signbit(result[1])


@pytest.mark.parametrize("ufunc", [np.add, np.subtract])
@pytest.mark.parametrize("seed", range(12))
def test_zeros_keep_their_signs(ufunc, seed):
    rng = np.random.default_rng(seed)
    numbers = np.array([-0.0, 0.0, 1.5, -1.5, -0.0])
    count = rng.integers(0, 6)
    start, places, x = rng.choice(numbers, 4), rng.integers(0, 4, count), rng.choice(numbers, count)

    def f(x, places):
        y = start * 1.0
        ufunc.at(y, places, x)
        return y

    expected = f(x, places)
    for result in (nt.vjp(lambda x: f(x, places), x)[0], nt.vjp(f, x, places)[0]):
        np.testing.assert_array_equal(result, expected)
        np.testing.assert_array_equal(np.signbit(result), np.signbit(expected))


def test_positions_outside_raise_as_the_tape_runs():
    for f in (totals, vector):
        cache = nt.prepare_gradient_cache(f, X, V, np.arange(7))
        with pytest.raises(IndexError):
            nt.value_and_gradient(cache, X, V, np.full(7, 12))
        value = nt.value_and_gradient(cache, X, V, np.arange(7))[0]
        np.testing.assert_allclose(value, f(X.copy(), V, np.arange(7)), rtol=1e-14)


def test_what_it_costs():
    def histogram(x, k):
        y = 0.0 * x
        np.add.at(y, k, x**2)
        y[k[0]] = x[1]
        return np.sum(y * x)

    k = np.arange(7)
    cache = nt.prepare_gradient_cache(histogram, V, k)
    for n in (7, 20, 1000):
        x, k = np.ones(n), np.arange(n)
        np.testing.assert_allclose(nt.value_and_gradient(cache, x, k)[0], n)
    assert cache.traces == 1
    assert len(cache.tape) < 12


def test_rows_are_added_row_by_row():
    """At positions of the code's and of the caller, of all rows or few, of blocks, and for other sizes."""
    plain = np.array([3, -1, 0, 3, 3])

    def most(x, v, k):
        y = x * 1.0
        np.add.at(y, plain, v)
        np.subtract.at(y, k, v[:1] ** 2)  # broadcast
        return np.sum(y**3)

    def few(x, v, k):
        y = np.zeros((30, 2, 2))
        np.add.at(y, plain.reshape(5, 1), np.sin(v).reshape(5, 1, 2, 2))
        np.add.at(y, k[:1] * 0 + 20, x[0, 0])
        return np.sum(y[::-1] ** 3) + y[7, 0, 0]

    for f in (few, most):
        cache = nt.prepare_gradient_cache(
            f, X.reshape(3, 4)[[0, 1, 2, 0]], RNG.normal(size=(5, 4)), np.arange(5) % 3
        )
        for rows in (4, 6):
            x, v = RNG.normal(size=(rows, 4)), RNG.normal(size=(5, 4))
            k = RNG.integers(-4, 4, 5)
            assert nt.value_and_gradient(cache, x, v, k)[0] == pytest.approx(f(x, v, k), rel=1e-14)
            nt.testing.check_derivatives(lambda x, v, f=f, k=k: f(x, v, k), x, v)
        assert "add_rows_at" in cache.tape.listing()
    with pytest.raises(IndexError):
        nt.value_and_gradient(cache, x, v, np.full(5, 40))


def test_entries_that_are_written_again_are_compared_with_no_other(monkeypatch):
    """What covered an entry before is replaced; in between, wider writes and views cut it or take it in."""

    def f(x):
        y = x * 1.0
        for k in range(24):
            y[k % 4] = y[(k + 1) % 4] * x[1] + 0.1 * k
            y[-1] = y[-2] * 0.5 + y[-1]
            if k == 9:
                y[1:3] = x[-2:] * y[0]
            if k == 13:
                y[: len(x) // 2] *= 1.5
            if k == 17:
                y[::2] = y[1::2][: len(y[::2])] * 0.25 if len(x) % 2 == 0 else y[::2] * 2.0
        return np.sum(y * np.arange(1.0, len(x) + 1.0))

    outside, looks = patches.Patchwork._outside, []
    with monkeypatch.context() as patch:
        patch.setattr(patches.Patchwork, "_outside", lambda *args: looks.append(args) or outside(*args))
        cache = nt.prepare_gradient_cache(f, np.linspace(0.5, 0.9, 8))
    assert len(looks) < 24  # of 51 writes
    for n in (8, 12, 10, 14):
        x = np.linspace(0.4, 0.8, n)
        value, (gradient,) = nt.value_and_gradient(cache, x)
        assert value == pytest.approx(f(x), rel=1e-14)
        _, slope = nt.jvp(f, (x,), (np.cos(np.arange(n)),))
        assert gradient @ np.cos(np.arange(n)) == pytest.approx(slope, rel=1e-12)
