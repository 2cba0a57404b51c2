"""float16: computed through float32, rounded after every op as NumPy rounds, bit by bit."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special

import numbatape as nt

RNG = np.random.default_rng(16)
X = (3.0 * RNG.normal(size=7)).astype(np.float16)
Y = RNG.normal(size=7).astype(np.float16)
EVERY = np.arange(65536, dtype=np.uint16).view(np.float16)


def written(x):
    z = np.zeros(3, np.float16)
    z[1] = x[0] * x[1]
    z[2] = x[3] / 3
    z *= 2
    return np.sum(z)


def branching(x):
    return x[0] * x[1] if x[0] * 3 > x[1] else x[2] ** 2


FUNCTIONS = {
    "sum": lambda x: np.sum(x),
    "Python numbers": lambda x: np.sum(x * 2.1 + 0.3),
    "sin": lambda x: np.sum(np.sin(x) * x),
    "mean": lambda x: np.mean(x),
    "var": lambda x: np.var(x),
    "constants": lambda x: x / Y - Y,
    "entries": lambda x: x[0] * x[3],
    "where": lambda x: np.where(x > 0, x, -(x**2)),
    "dot": lambda x: np.dot(x, Y),
    "outer": lambda x: np.outer(x, Y) @ x,
    "max": lambda x: np.max(x) - np.min(x * 2),
    "sort": lambda x: np.sort(x) * x,
    "stack": lambda x: np.stack([x * 2, np.exp(x) / 3]),
    "power": lambda x: np.abs(x) ** 1.5,
    "written": written,
    "branching": branching,
    "to float32": lambda x: np.sum(x.astype(np.float32) ** 2),
    "from float32": lambda x: (x.astype(np.float32) / 3).astype(np.float16),
    "with float32": lambda x: x * Y.astype(np.float32),
    "with float64": lambda x: x * Y.astype(float),
    "with int8": lambda x: x * np.arange(7, dtype=np.int8),
    "with int64": lambda x: x * np.arange(7),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_dtypes_and_derivatives(name):
    function = FUNCTIONS[name]
    cache = nt.prepare_pullback_cache(function, X)
    for x in (X, (X * np.float16(1.1)), X[::-1].copy()):
        want = function(x)
        ybar = np.ones(np.shape(want), np.asarray(want).dtype)
        value, (grad,) = nt.value_and_pullback(cache, ybar, x)
        # NumPy sums squares of what it rounded to float32, we do not: that may be another float16.
        np.testing.assert_array_max_ulp(value, want, name == "var")
        assert np.asarray(value).dtype == np.asarray(want).dtype and grad.dtype == np.float16
        wide = x.astype(float)
        _, (exact,) = nt.value_and_pullback(
            nt.prepare_pullback_cache(function, wide), ybar.astype(float), wide
        )
        np.testing.assert_allclose(grad, exact, rtol=4e-3, atol=4e-3 * np.max(np.abs(exact)))
        tangent = np.ones(7, np.float16)
        _, slope = nt.jvp(function, (x,), (tangent,))
        assert np.asarray(slope).dtype == np.asarray(want).dtype
        np.testing.assert_allclose(np.sum(slope.astype(float)), np.sum(exact), rtol=1e-2, atol=0.05)


@pytest.mark.parametrize("seed", range(3))
def test_every_number_rounds_as_in_numpy(seed):
    other = np.random.default_rng(seed).permutation(EVERY)
    cache = nt.prepare_pullback_cache(lambda x, y: x * y + y, np.ones_like(EVERY), np.ones_like(EVERY))
    with np.errstate(all="ignore"):
        want = EVERY * other + other
        value, _ = nt.value_and_pullback(cache, np.ones_like(EVERY), EVERY, other)
    numbers = ~np.isnan(want)
    np.testing.assert_array_equal(np.isnan(value), ~numbers)
    np.testing.assert_array_equal(value[numbers].view(np.uint16), want[numbers].view(np.uint16))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_conversion_rounds_once(dtype):
    near = np.repeat(np.abs(EVERY[np.isfinite(EVERY)]).astype(dtype), 3)
    near[::3], near[2::3] = np.nextafter(near[::3], dtype(-1)), np.nextafter(near[2::3], dtype(1e6))
    ties = (near[1:-3:3] + near[4::3]) / 2
    points = np.concatenate([near, ties, -ties])
    cache = nt.prepare_pullback_cache(lambda x: x.astype(np.float16), np.ones_like(points))
    with np.errstate(all="ignore"):
        want = points.astype(np.float16)
        value, (grad,) = nt.value_and_pullback(cache, np.ones_like(want), points)
    np.testing.assert_array_equal(value, want)
    np.testing.assert_array_equal(grad[np.isfinite(want)], 1.0)
    assert grad.dtype == dtype


def test_other_verbs():
    f = lambda x: np.sum(np.sin(x) * x**2)  # noqa: E731
    x = np.array([0.5, -1.25, 2.0], np.float16)
    wide = x.astype(float)
    hessian = nt.hessian(f)(x)
    assert hessian.dtype == nt.hvp(f)(x, x).dtype == np.float16
    np.testing.assert_allclose(hessian, nt.hessian(f)(wide), atol=5e-3)
    for mode in ("forward", "reverse"):
        jacobian = nt.jacobian(np.exp, mode=mode)(x)
        assert jacobian.dtype == np.float16
        np.testing.assert_allclose(np.diag(jacobian), np.exp(wide), rtol=1e-3)
    values, grads = nt.batch(f)(np.stack([x, 2 * x]))
    assert values.dtype == grads.dtype == np.float16
    np.testing.assert_array_equal(values, [f(x), f(2 * x)])
    number = nt.grad(lambda s: s**3)(np.float16(2.0))
    assert number == 12.0 and isinstance(number, np.float16)
    run = nt.prepare_gradient_cache(f, x).bind(x)
    assert run() == f(x) and run.out[0].dtype == np.float16
    x[0] = 1.0
    assert run() == f(x)
    with pytest.raises(nt.DtypeError, match="float16 arrays have no bound form"):
        nt.prepare_hessian_cache(f, x).bind(x)


def test_called_again_and_checked():
    config = nt.Config(debug_mode=True)
    with pytest.warns(UserWarning, match="debug_mode is on"):
        cache = nt.prepare_gradient_cache(lambda x: np.sum(np.exp(x) * Y), X / 4, config=config)
    for x in (X / 4, Y, X / 4):
        value, (grad,) = nt.value_and_gradient(cache, x)
        assert value == np.sum(np.exp(x) * Y) and grad.dtype == np.float16
        np.testing.assert_allclose(grad, np.exp(x.astype(float)) * Y, rtol=2e-3, atol=1e-3)
    with pytest.raises(nt.DtypeError, match="prepared for dtype float16, got float64"):
        nt.value_and_gradient(cache, X.astype(float))


def test_special_functions_widen():
    grad = nt.grad(lambda x: np.sum(scipy.special.expit(x.astype(np.float32))))(X)
    s = scipy.special.expit(X.astype(float))
    np.testing.assert_allclose(grad, s * (1 - s), rtol=2e-3, atol=1e-6)


def test_what_numpy_refuses():
    with pytest.raises(TypeError, match="float16 is unsupported in linalg"):
        nt.grad(lambda a: np.linalg.det(a))(np.eye(2, dtype=np.float16))


def test_derivatives_are_checked_within_its_precision():
    x = np.array([0.3, 0.7, -1.0], np.float16)
    nt.check(lambda x: np.sum(np.sin(x) * x), x)
    tripled = nt.primitive(lambda x: x * x, pullback=lambda ybar, y, x: (3.0 * ybar * x,))
    with pytest.raises(AssertionError, match="the gradient at"):
        nt.check(lambda x: np.sum(tripled(x)), x)
