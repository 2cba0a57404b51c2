"""Complex arguments and results in verbs and caches: conventions, structures, errors."""

import numpy as np
import pytest
import scipy.special

import numbatape as nt

RNG = np.random.default_rng(8)
Z = RNG.normal(size=3) + 1j * RNG.normal(size=3)
A = RNG.normal(size=(3, 3)) + 1j * RNG.normal(size=(3, 3))


def energy(z):
    return np.sum(np.abs(np.exp(z) * A[0]) ** 2) + np.real(z[0] * z[1])


def of_parts(function):
    return lambda x, y: function(x + 1j * y)


def test_the_conventions():
    assert nt.grad(lambda z: np.abs(z) ** 2)(1 + 1j) == 2 + 2j
    assert nt.grad(lambda z: np.real(z**2))(1 + 1j) == 2 - 2j
    assert nt.grad(lambda z: z**2, holomorphic=True)(1 + 1j) == 2 + 2j
    assert nt.jvp(lambda z: z**2, (1 + 1j,), (1.0,)) == (2j, 2 + 2j)
    assert nt.jvp(np.conj, (1 + 1j,), (1j,)) == (1 - 1j, -1j)
    assert nt.vjp(lambda z: z**2, 1 + 1j)[1](1.0) == (2 - 2j,)


def test_gradient_is_that_of_the_parts():
    x, y = nt.grad(of_parts(energy), argnums=(0, 1))(Z.real, Z.imag)
    np.testing.assert_allclose(nt.grad(energy)(Z), x + 1j * y, rtol=1e-14)
    value, gradient = nt.value_and_grad(energy)(Z)
    np.testing.assert_allclose(value, energy(Z), rtol=1e-14)
    assert gradient.dtype == complex


def test_jacobians():
    np.testing.assert_array_equal(nt.jacobian(lambda x: A @ x)(np.ones(3)), A)
    for mode in ("forward", "reverse", "auto"):
        np.testing.assert_allclose(
            nt.jacobian(lambda z: A @ z, mode=mode, holomorphic=True)(Z), A, rtol=1e-15
        )
        np.testing.assert_allclose(
            nt.jacobian(lambda z: np.abs(z) ** 2, mode=mode)(Z), np.diag(2 * Z), rtol=1e-15
        )
    tree = nt.jacobian(lambda p: {"y": p["z"] * 2.0, "n": p["z"] ** 2}, holomorphic=True)({"z": Z})
    np.testing.assert_allclose(tree["n"]["z"], np.diag(2 * Z), rtol=1e-15)
    mixed = nt.jacobian(lambda x, y: x * Z + 1j * y, argnums=(0, 1))(np.ones(3), np.ones(3))
    np.testing.assert_array_equal(mixed[0], np.diag(Z))
    np.testing.assert_array_equal(mixed[1], 1j * np.eye(3))


def test_derivatives_of_curves():
    assert abs(nt.derivative(lambda t: np.exp(1j * t))(0.3) - 1j * np.exp(0.3j)) < 1e-16
    second = nt.derivative(nt.derivative(lambda t: np.exp(1j * t) * Z))(0.3)
    np.testing.assert_allclose(second, -np.exp(0.3j) * Z, rtol=1e-15)
    assert abs(nt.derivative(np.exp, holomorphic=True)(1 + 1j) - np.exp(1 + 1j)) < 1e-15
    assert nt.derivative(nt.derivative(lambda z: -z, holomorphic=True), holomorphic=True)(1j) == 0j


def test_structures():
    value, gradient = nt.value_and_grad(lambda p: np.abs(p["a"] * p["b"]) ** 2 * p["n"])(
        {"a": 1 + 1j, "b": 2.0, "n": 3}
    )
    assert value == 24.0000000000000036 or abs(value - 24.0) < 1e-13
    assert abs(gradient["a"] - (24 + 24j)) < 1e-13 and abs(gradient["b"] - 24.0) < 1e-13
    assert gradient["n"] is None
    (first, second) = nt.grad(lambda z, w: np.real(z * w), argnums=(0, 1))(1 + 2j, 3j)
    assert (first, second) == (np.conj(3j), np.conj(1 + 2j))
    result, aux = nt.grad(lambda z: (np.abs(z) ** 2, 2j * z), has_aux=True)(1 + 1j)
    assert abs(result - (2 + 2j)) < 1e-15 and aux == -2 + 2j
    f_prime, aux = nt.grad(lambda z: (z**2, z), has_aux=True, holomorphic=True)(1 + 1j)
    assert f_prime == 2 + 2j and aux == 1 + 1j


def test_pullback_is_the_adjoint():
    def f(z, x):
        return {"w": np.exp(z) * x, "s": np.sum(np.abs(z)) * x[0]}

    x, v, u = RNG.normal(size=3), RNG.normal(size=3) + 1j * RNG.normal(size=3), RNG.normal(size=3)
    ybar = {"w": RNG.normal(size=3) + 1j * RNG.normal(size=3), "s": 0.7}
    _, pushed = nt.jvp(f, (Z, x), (v, u))
    _, pullback = nt.vjp(f, Z, x)
    gz, gx = pullback(ybar)
    assert gx.dtype == float
    left = np.sum(np.real(np.conj(ybar["w"]) * pushed["w"])) + ybar["s"] * pushed["s"]
    right = np.sum(np.real(np.conj(gz) * v)) + np.sum(gx * u)
    assert abs(left - right) < 1e-13 * abs(left) + 1e-13


# ---- caches


def test_gradient_cache():
    cache = nt.prepare_gradient_cache(energy, Z)
    assert "(3,) complex128" in repr(cache)
    for z in (Z, 2 * Z, Z.conj()):
        value, (gradient,) = nt.value_and_gradient(cache, z)
        np.testing.assert_allclose(value, energy(z), rtol=1e-13)
        np.testing.assert_allclose(gradient, nt.grad(energy)(z), rtol=1e-15)
    out = (np.empty(3, complex),)
    assert nt.value_and_gradient(cache, Z, out=out)[1] is out
    np.testing.assert_allclose(out[0], nt.grad(energy)(Z), rtol=1e-15)
    with pytest.raises(nt.SpecError, match=r"out for argument 0 .*needs complex128"):
        nt.value_and_gradient(cache, Z, out=(np.empty(3),))
    for other in (Z.real, Z.astype(np.complex64)):
        with pytest.raises(nt.DtypeError, match="prepared for dtype complex128, got"):
            nt.value_and_gradient(cache, other)


def test_steady_calls():
    def f(z, x):
        return np.sum(np.abs(np.exp(1j * z) * x) ** 2) if x > 0 else np.sum(z.imag) * x

    for z in (Z, 1j, np.array(1j), np.eye(2) * 1j):
        cache = nt.prepare_gradient_cache(f, z, 2.0)
        for x in (2.0, 3.0, 4.0, -1.0, -2.0, 5.0, 6.0):
            at = np.asarray(x * z) if isinstance(z, np.ndarray) else x * z
            value, (gradient, slope) = nt.value_and_gradient(cache, at, x)
            np.testing.assert_allclose(value, f(at, x), rtol=1e-13)
            expected = nt.grad(f, argnums=(0, 1))(at, x)
            np.testing.assert_allclose(gradient, expected[0], rtol=1e-14)
            np.testing.assert_allclose(slope, expected[1], rtol=1e-14)
            assert type(gradient) is type(expected[0]) and np.shape(gradient) == np.shape(z)
    cache = nt.prepare_gradient_cache(lambda z, c: np.sum(np.abs(z * c) ** 2), Z, nt.Constant(2.0))
    for n in (3, 3, 3, 4, 4):
        assert nt.value_and_gradient(cache, np.ones(n, complex))[1][1] is None
        np.testing.assert_array_equal(nt.value_and_gradient(cache, 1j * np.ones(n))[1][0], 8j * np.ones(n))


def test_constants_that_are_complex():
    cache = nt.prepare_gradient_cache(lambda x, c: np.sum(np.abs(x * c) ** 2), np.ones(3), nt.Constant(Z))
    x = RNG.normal(size=3)
    for c in (Z, 2j * Z):
        np.testing.assert_allclose(
            nt.value_and_gradient(cache, x, c)[1][0], 2 * x * np.abs(c) ** 2, rtol=1e-14
        )
    held = Z.copy()
    cache = nt.prepare_gradient_cache(lambda x, c: np.sum(np.abs(x * c) ** 2), np.ones(3), nt.Constant(held))
    for _ in range(3):
        np.testing.assert_allclose(
            nt.value_and_gradient(cache, x)[1][0], 2 * x * np.abs(held) ** 2, rtol=1e-14
        )
        held *= 2j


def test_captured_arrays_that_change():
    held = Z.copy()
    cache = nt.prepare_gradient_cache(lambda x: np.sum(np.abs(x * held) ** 2), np.ones(3))
    x = RNG.normal(size=3)
    for _ in range(3):
        np.testing.assert_allclose(
            nt.value_and_gradient(cache, x)[1][0], 2 * x * np.abs(held) ** 2, rtol=1e-14
        )
        held[0] *= 2j


def test_flat_gradients():
    config = nt.Config(friendly_tangents=False)
    cache = nt.prepare_gradient_cache(lambda z, x: np.sum(np.abs(z) ** 2) * x, Z, 2.0, config=config)
    flat = nt.value_and_gradient(cache, Z, 2.0)[1]
    np.testing.assert_allclose(flat[:-1], 4.0 * np.concatenate([Z.real, Z.imag]), rtol=1e-14)
    gradient, _ = cache.layout.unravel(flat)
    np.testing.assert_allclose(gradient, 4.0 * Z, rtol=1e-14)
    np.testing.assert_array_equal(cache.layout.ravel((Z, 2.0)), [*Z.real, *Z.imag, 2.0])
    assert [p[-5:] for p in cache.layout.paths] == [".real", ".imag", "(`x`)"]


def test_other_caches():
    ybar, v = Z[::-1].copy(), 1j * Z
    cache = nt.prepare_pullback_cache(lambda z: z * z, Z)
    value, (gradient,) = nt.value_and_pullback(cache, ybar, Z)
    np.testing.assert_allclose(gradient, np.conj(2 * Z) * ybar, rtol=1e-14)
    assert value.dtype == complex
    cache = nt.prepare_derivative_cache(lambda z: z * z, Z)
    np.testing.assert_allclose(nt.value_and_derivative(cache, (Z, v))[1], 2 * Z * v, rtol=1e-14)
    wide = nt.prepare_derivative_cache(lambda z: z * z, Z, lanes=2)
    pushed = nt.value_and_derivative(wide, (Z, np.stack([v, ybar])))[1]
    np.testing.assert_allclose(pushed, 2 * Z * np.stack([v, ybar]), rtol=1e-14)
    scalar = nt.prepare_derivative_cache(energy, Z)
    np.testing.assert_allclose(nt.value_and_gradient(scalar, Z)[1][0], nt.grad(energy)(Z), rtol=1e-13)
    with pytest.raises(nt.OutputError, match="holomorphic=True"):
        nt.value_and_jacobian(cache, Z)


def test_batched():
    points = np.stack([Z, 2j * Z])
    values, gradients = nt.batch(energy)(points)
    for z, value, gradient in zip(points, values, gradients, strict=True):
        np.testing.assert_allclose(value, energy(z), rtol=1e-13)
        np.testing.assert_allclose(gradient, nt.grad(energy)(z), rtol=1e-13)
    with pytest.raises(nt.OutputError, match=r"np\.real and np\.imag"):
        nt.batch(lambda z: z**2)(points)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.exp(1j * x[0]) * x[1],
        lambda x: A @ np.exp(1j * x),
        lambda x: np.exp(1j * x) if x[0] > 0 else 1j * x,
        lambda x: (x[:2] * 1j).astype(np.complex64),
    ],
    ids=["scalar", "array", "branches", "single"],
)
def test_batched_complex_results(f):
    points = RNG.normal(size=(6, 3))
    values, jacobians = nt.batch(f)(points)
    assert values.dtype == np.asarray(f(points[0])).dtype
    for x, value, jacobian in zip(points, values, jacobians, strict=True):
        np.testing.assert_allclose(value, f(x), rtol=1e-14 if value.dtype == complex else 1e-6)
        np.testing.assert_allclose(jacobian, nt.jacobian(f)(x), rtol=1e-14)


def test_bound():
    def f(z, x):
        return np.sum(np.abs(np.exp(1j * z) * x[0]) ** 2) if z[0].real > 0 else np.sum(z.imag) * x[1]

    z, x = Z.copy(), np.ones(2)
    cache = nt.prepare_gradient_cache(f, z, x)
    out = np.empty(3, complex), np.empty(2)
    for run in (cache.bind(z, x), cache.bind(z, x, out=out)):
        for turn in (1.0, 1j, -1.0, 1j):
            z *= turn
            assert run() == nt.value_and_grad(f)(z, x)[0]
            for mine, reference in zip(run.out, nt.grad(f, argnums=(0, 1))(z, x), strict=True):
                np.testing.assert_array_equal(mine, reference)
    assert run.out is out
    with pytest.raises(nt.SpecError, match="bind needs arrays"):
        nt.prepare_gradient_cache(np.abs, 1j).bind(1j)


def test_products_with_hessians_are_those_of_the_parts():
    v = 1j * Z[::-1]
    apart = nt.hvp(of_parts(energy), argnums=(0, 1))(Z.real, Z.imag, (v.real, v.imag))
    expected = apart[0] + 1j * apart[1]
    np.testing.assert_allclose(nt.hvp(energy)(Z, v), expected, rtol=1e-14)
    np.testing.assert_allclose(nt.jvp(nt.grad(energy), (Z,), (v,))[1], expected, rtol=1e-14)
    for mode in ("reverse_over_forward", "forward_over_reverse"):
        cache = nt.prepare_hvp_cache(energy, Z, config=nt.Config(second_order_mode=mode))
        for z in (Z, Z, 1j * Z):
            value, gradient, product = nt.value_and_hvp(cache, v, z)
            np.testing.assert_allclose(value, energy(z), rtol=1e-14)
            np.testing.assert_allclose(gradient, nt.grad(energy)(z), rtol=1e-13)
            np.testing.assert_allclose(product, nt.hvp(energy)(z, v), rtol=1e-13)
    assert nt.hvp(lambda z: np.real(z**3))(1j, 2.0 + 1j) == np.conj(6j * (2.0 + 1j))
    mixed = nt.hvp(lambda z, x: np.sum(np.abs(z) ** 2) * x, argnums=(0, 1))(Z, 2.0, (v, 1.0))
    np.testing.assert_allclose(mixed[0], 4 * v + 2 * Z, rtol=1e-14)
    np.testing.assert_allclose(mixed[1], np.sum(2 * np.real(np.conj(Z) * v)), atol=1e-14)

    def outer(t):
        return np.sum(np.abs(nt.hvp(energy)(t * Z, v)) ** 2)

    step = 1e-5
    difference = (outer(1 + step) - outer(1 - step)) / (2 * step)
    np.testing.assert_allclose(nt.grad(outer)(1.0), difference, rtol=1e-8)


# ---- inside of each other


def test_nested():
    def outer(x):
        return np.sum(np.abs(nt.grad(energy)(x + 1j * x)) ** 2)

    x, step = np.array([0.1, 0.2, -0.3]), 1e-6
    for k, unit in enumerate(np.eye(3)):
        expected = (outer(x + step * unit) - outer(x - step * unit)) / (2 * step)
        np.testing.assert_allclose(nt.grad(outer)(x)[k], expected, rtol=1e-7)
    assert abs(nt.grad(nt.grad(lambda z: z**4, holomorphic=True), holomorphic=True)(1 + 1j) - 24j) < 1e-13
    third = nt.jacobian(nt.jacobian(lambda z: z**3, holomorphic=True), holomorphic=True)(Z)
    np.testing.assert_allclose(third[1, 1, 1], 6 * Z[1], rtol=1e-14)
    assert nt.grad(lambda x: nt.jvp(lambda z: z * z, (x + 1j,), (1j,))[1].imag)(2.0) == 2.0
    assert nt.grad(lambda x: nt.vjp(lambda z: z * z, x + 1j)[1](1j)[0].imag)(2.0) == 2.0
    assert (
        abs(nt.grad(lambda x: np.abs(nt.derivative(lambda t: np.exp(1j * t * x))(1.0)) ** 2)(2.0) - 4.0)
        < 1e-14
    )
    rows = nt.jacobian(lambda x: nt.jacobian(lambda t: A @ np.exp(1j * t))(x).imag)(np.zeros(3))
    np.testing.assert_allclose(rows[0, 1, 1], -A[0, 1].imag, rtol=1e-14)


def test_branches():
    def f(z):
        return np.abs(z) if z else np.real(z)

    assert abs(nt.grad(f)(3 + 4j) - (0.6 + 0.8j)) < 1e-15
    assert nt.grad(f)(0j) == 1.0
    assert nt.grad(lambda x: x if 1j * x == 2j else 2.0 * x)(2.0) == 1.0
    assert nt.grad(lambda x: x if 1j * x == 2j else 2.0 * x)(3.0) == 2.0


def test_stop_gradient():
    assert nt.grad(lambda z: np.real(z * nt.stop_gradient(z)))(1 + 2j) == 1 - 2j


# ---- errors

ERRORS = {
    "complex result": (
        lambda: nt.grad(lambda z: z**2)(1j),
        nt.OutputError,
        "perhaps holomorphic=True, or np.real",
    ),
    "cache": (lambda: nt.prepare_gradient_cache(np.sum, Z), nt.OutputError, "complex numbers; perhaps"),
    "nested": (
        lambda: nt.grad(lambda x: nt.grad(lambda z: z * z)(1j * x).real)(1.0),
        nt.OutputError,
        "complex numbers; perhaps",
    ),
    "jacobian": (lambda: nt.jacobian(lambda z: z**2)(Z), nt.OutputError, "pass holomorphic=True if it is"),
    "real argument": (
        lambda: nt.grad(np.exp, holomorphic=True)(1.0),
        nt.DtypeError,
        "needs complex arguments",
    ),
    "real result": (
        lambda: nt.grad(np.abs, holomorphic=True)(1j),
        nt.OutputError,
        "needs a function with a complex",
    ),
    "real Jacobian": (lambda: nt.jacobian(np.abs, holomorphic=True)(Z), nt.OutputError, "complex result"),
    "derivative": (lambda: nt.derivative(np.exp)(1j), nt.DtypeError, "holomorphic=True"),
    "hessian": (lambda: nt.hessian(np.abs)(1j), nt.DtypeError, "real and imaginary parts"),
    "nested hessian": (
        lambda: nt.grad(lambda x: np.sum(nt.hessian(energy)(x + 1j * x)))(np.ones(3)),
        nt.DtypeError,
        "real and imaginary parts",
    ),
    "hessian cache": (lambda: nt.prepare_hessian_cache(energy, Z), nt.DtypeError, "real and imaginary parts"),
    "tangent": (lambda: nt.jvp(np.sin, (1.0,), (1j,)), nt.SpecError, "needs real numbers"),
    "cotangent": (lambda: nt.vjp(np.sin, 1.0)[1](1j), nt.SpecError, "must be real"),
    "searchsorted": (
        lambda: nt.grad(lambda z: z[np.searchsorted(z, 0.0)].real)(np.sort(Z)),
        nt.UnsupportedOperationError,
        r"np\.searchsorted of complex",
    ),
    "airye": (
        lambda: nt.grad(lambda z: scipy.special.airye(z)[0].real)(1j),
        nt.UnsupportedOperationError,
        "scipy.special.airye",
    ),
    "svd": (
        lambda: nt.grad(lambda a: np.abs(np.linalg.svd(a[:1])[2][1, 0]))(A),
        nt.UnsupportedOperationError,
        r"svd\(full_matrices=True\) one by one .* projector",
    ),
    "complex()": (lambda: nt.grad(lambda z: complex(z).real)(1j), nt.LeakError, "np.exp"),
    "float()": (lambda: nt.grad(lambda z: float(z.real))(1j), nt.LeakError, "float"),
    "hash": (lambda: nt.grad(lambda z: hash(z))(1j), nt.LeakError, "hash"),
    "asarray": (lambda: nt.grad(lambda z: np.ma.asarray(z).sum())(Z), nt.LeakError, "asarray"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    call, error, text = ERRORS[name]
    with pytest.raises(error, match=text):
        call()
