"""elementwise_grad, hessian_diagonal, laplacian, directional_derivative, make_hvp, value_and_jacobian.

The laws: each against `nt.jacobian`, `nt.hessian` or a nest of `nt.jvp`, outside and inside of functions that
are traced.
"""

import math
import pickle

import numpy as np
import pytest
import scipy.special as sc

import numbatape as nt

X = np.array([0.5, 1.5, -0.7])


def rosen(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def loops(x):
    out = np.zeros(2)
    for k in range(3):
        out[k % 2] += np.sin(x[k]) * x[0] ** k
    return out


SCALARS = {
    "rosen": (rosen, X),
    "number": (lambda t: math.exp(2 * t) * t, 0.3),
    "matrix": (lambda a: np.log(np.linalg.det(a @ a.T)), np.array([[2.0, 0.3], [0.1, 1.0]])),
    "special": (lambda x: np.sum(sc.gammaln(x**2) * x[0]), X),
    "linear": (lambda x: np.sum(2 * x), X),
    "constant": (lambda x: 3.0, X),
    "writes": (lambda x: np.sum(loops(x) ** 2), X),
}
ARRAYS = {
    "writes": (loops, X),
    "entry by entry": (lambda x: x**3 * np.cos(x), X),
    "matrix": (lambda a: a @ a.T @ a, np.array([[1.0, 2.0], [0.5, -1.0]])),
}


def second(f, x):
    """Return the second derivatives by each entry, out of all second derivatives."""
    whole = np.asarray(nt.jacobian(nt.jacobian(f))(x))
    n, out = np.size(x), np.shape(f(x))
    return whole.reshape(*out, n, n).diagonal(axis1=-2, axis2=-1).reshape(out + np.shape(x))


@pytest.mark.parametrize("name", SCALARS)
def test_hessian_diagonal_and_laplacian_of_numbers(name):
    f, x = SCALARS[name]
    hessian = np.reshape(nt.hessian(f)(x), (np.size(x), np.size(x)))
    diagonal = nt.hessian_diagonal(f)
    for _ in range(3):  # a general call, then steady ones
        assert np.allclose(np.ravel(diagonal(x)), hessian.diagonal(), rtol=1e-12, atol=1e-12)
        assert np.shape(diagonal(x)) == np.shape(x)
        assert np.isclose(nt.laplacian(f)(x), np.trace(hessian), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ARRAYS)
def test_hessian_diagonal_and_laplacian_of_arrays(name):
    f, x = ARRAYS[name]
    expected = second(f, x)
    assert np.allclose(nt.hessian_diagonal(f)(x), expected, rtol=1e-12, atol=1e-12)
    axes = tuple(range(expected.ndim - np.ndim(x), expected.ndim))
    assert np.allclose(nt.laplacian(f)(x), expected.sum(axes), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["rosen", "number", "special", "writes", "linear"])
def test_they_are_differentiated_again(name):
    """Inside of a trace they are recorded: the gradient of the Laplacian is a trace of third derivatives."""
    f, x = SCALARS[name]
    n = np.size(x)
    third = np.reshape(nt.jacobian(nt.hessian(f))(x), (n, n, n))
    expected = np.einsum("iik->k", third)
    assert np.allclose(np.ravel(nt.grad(nt.laplacian(f))(x)), expected, rtol=1e-11, atol=1e-11)
    slopes = np.reshape(nt.jacobian(nt.hessian_diagonal(f))(x), (n, n))
    assert np.allclose(slopes, np.einsum("iik->ik", third), rtol=1e-11, atol=1e-11)


def test_hessian_diagonal_of_containers():
    def f(p, scale):
        return scale * np.sum(p["a"] ** 3) * p["b"] ** 2

    p = {"a": np.array([1.0, 2.0]), "b": 3.0, "n": 2}
    found = nt.hessian_diagonal(f)(p, 2.0)
    assert np.allclose(found["a"], 2 * 6 * p["a"] * 9) and found["b"] == 36.0 and found["n"] is None
    assert nt.laplacian(f)(p, 2.0) == 36.0 + np.sum(108 * p["a"])
    by_both = nt.hessian_diagonal(f, argnums=(0, 1))(p, 2.0)
    assert by_both[1] == 0.0 and np.allclose(by_both[0]["a"], found["a"])
    assert np.allclose(nt.grad(lambda s: nt.laplacian(f)(p, s))(2.0), (36.0 + np.sum(108 * p["a"])) / 2)


@pytest.mark.parametrize("name", [*SCALARS, *ARRAYS])
@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_directional_derivative_is_a_nest_of_jvp(name, order):
    f, x = (SCALARS | ARRAYS)[name]
    v = np.cos(np.arange(float(np.size(x)))).reshape(np.shape(x))[()]

    def nest(k):
        return f if k == 0 else lambda x: nt.jvp(nest(k - 1), (x,), (v,))[1]

    expected = nest(order)(x)
    along = nt.directional_derivative(f, order)
    for _ in range(2):
        assert np.allclose(along(x, v), expected, rtol=1e-10, atol=1e-10)
    if order < 3 and np.ndim(f(x)) == 0 and np.ndim(x):
        inside = nt.grad(lambda v: along(x, v))(v)
        by_hand = nt.grad(f)(x) if order == 1 else 2 * nt.hvp(f)(x, v)
        assert np.allclose(inside, by_hand, rtol=1e-10, atol=1e-10)


def test_directional_derivative_of_more_arguments():
    along = nt.directional_derivative(lambda x, k, power: k * np.sum(x**power), 2, static_argnums=2)
    assert np.isclose(along(X, 3.0, 3, np.ones(3)), 3.0 * 6.0 * np.sum(X))
    p, v = {"a": X, "b": 2.0}, {"a": np.ones(3), "b": 1.0}
    assert np.isclose(nt.directional_derivative(lambda p: np.sum(p["a"]) * p["b"])(p, v), 3 * 2 + np.sum(X))


@pytest.mark.parametrize("f", [np.sin, lambda x: x**2 * np.exp(x), lambda x: np.where(x > 0, x**3, 0.0)])
def test_elementwise_grad(f):
    each = [nt.derivative(f)(t) for t in X]
    assert np.allclose(nt.elementwise_grad(f)(X), each, rtol=1e-14)
    again = [nt.derivative(nt.derivative(f))(t) for t in X]
    assert np.allclose(nt.elementwise_grad(nt.elementwise_grad(f))(X), again, rtol=1e-13)
    assert np.allclose(nt.jacobian(nt.elementwise_grad(f))(X), np.diag(again), rtol=1e-13)
    assert np.isclose(nt.elementwise_grad(f)(0.5), nt.derivative(f)(0.5))


def test_elementwise_grad_sums_columns():
    assert np.allclose(nt.elementwise_grad(loops)(X), np.sum(nt.jacobian(loops)(X), 0))
    by_second = nt.elementwise_grad(lambda x, y: x * y**2, argnums=1)(X, X + 1)
    assert np.allclose(by_second, 2 * X * (X + 1))
    data = np.array([1.0, 2.0, 3.0])
    slope = nt.elementwise_grad(lambda x: data * x)
    for data[0] in (1.0, 5.0):  # captured data is watched
        assert np.array_equal(slope(X), data)


@pytest.mark.parametrize("name", ["rosen", "matrix", "special", "linear", "writes"])
def test_make_hvp(name):
    f, x = SCALARS[name]
    product, gradient = nt.make_hvp(f)(x)
    assert np.allclose(gradient, nt.grad(f)(x), rtol=1e-13)
    for seed in range(3):
        v = np.random.default_rng(seed).normal(size=np.shape(x))
        assert np.allclose(product(v), nt.hvp(f)(x, v), rtol=1e-12, atol=1e-12)


def test_make_hvp_of_more_arguments():
    def f(k, p):
        return k**2 * np.sum(p["a"] ** 3)

    product, gradient = nt.make_hvp(f, argnums=1)(2.0, {"a": X})
    assert np.allclose(gradient["a"], 12 * X**2) and np.allclose(product({"a": X})["a"], 24 * X * X)
    inside = nt.grad(lambda x: np.sum(nt.make_hvp(f, 1)(2.0, {"a": x})[0]({"a": np.ones(3)})["a"]))(X)
    assert np.allclose(inside, 24.0)


@pytest.mark.parametrize("mode", ["auto", "forward", "reverse"])
@pytest.mark.parametrize("name", [*SCALARS, *ARRAYS])
def test_value_and_jacobian_of_a_function(name, mode):
    f, x = (SCALARS | ARRAYS)[name]
    for _ in range(2):
        value, jacobian = nt.value_and_jacobian(f, mode=mode)(x)
        assert np.allclose(value, f(x)) and np.allclose(jacobian, nt.jacobian(f, mode=mode)(x), rtol=1e-15)


def test_value_and_jacobian_inside_of_a_function():
    def f(x):
        value, jacobian = nt.value_and_jacobian(loops)(x)
        return np.sum(value) * np.sum(jacobian**2)

    def by_parts(x):
        return np.sum(loops(x)) * np.sum(nt.jacobian(loops)(x) ** 2)

    assert np.allclose(nt.grad(f)(X), nt.grad(by_parts)(X), rtol=1e-13)
    value, by_second = nt.value_and_jacobian(lambda x, y: x * y, argnums=1)(X, X + 1)
    assert np.allclose(value, X * (X + 1)) and np.allclose(by_second, np.diag(X))
    assert np.allclose(nt.value_and_jacobian(lambda x, y: x * y, 1)(X, X + 1)[1], by_second)


@pytest.mark.parametrize(
    "verb", ["elementwise_grad", "hessian_diagonal", "laplacian", "value_and_jacobian", "make_hvp"]
)
def test_what_verbs_return_is_made_once_and_pickles(verb):
    make = getattr(nt, verb)
    assert make(rosen) is make(rosen)
    again = pickle.loads(pickle.dumps(make(np.sum)))
    assert repr(again).startswith(f"<{verb} of")
    found = again(X)[1] if verb in ("make_hvp", "value_and_jacobian") else again(X)
    assert np.allclose(found, 0.0 if verb in ("hessian_diagonal", "laplacian") else 1.0)


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: nt.directional_derivative(rosen, 0), ValueError, "order=0: must be a positive integer"),
        (lambda: nt.directional_derivative(rosen)(X), nt.SpecError, "last, the direction"),
        (lambda: nt.directional_derivative(rosen)(X, np.ones(2)), nt.SpecError, r"shape \(3,\), got"),
        (lambda: nt.laplacian(rosen, argnums=(0, 1)), nt.SpecError, "must be an int"),
        (lambda: nt.laplacian(lambda x: (x, x))(X), nt.OutputError, "a number or an array, got a container"),
        (lambda: nt.elementwise_grad(lambda x: (x, x))(X), nt.OutputError, "returns one array, got tuple"),
        (lambda: nt.hessian_diagonal(rosen)(1j * X), nt.DtypeError, "complex"),
        (lambda: nt.hessian_diagonal(rosen)(np.arange(3)), nt.DtypeError, "only float64 and float32"),
        (lambda: nt.make_hvp(loops)(X), nt.OutputError, "one real scalar"),
        (lambda: nt.value_and_jacobian(loops, X), TypeError, r"value_and_jacobian\(f\)\(x\)"),
        (lambda: nt.value_and_jacobian(3.0), TypeError, "needs a function, or a cache .* got float"),
        (lambda: nt.value_and_jacobian(loops, mode="both"), ValueError, "mode='both': must be one of"),
        (
            lambda: nt.value_and_jacobian(nt.prepare_pullback_cache(loops, X), X, mode="forward"),
            TypeError,
            "takes `out` alone",
        ),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_check():
    nt.check(rosen, X)
    wrong = nt.primitive(lambda x: x**3, pullback=lambda ybar, y, x: (2.0 * ybar * x,))
    with pytest.raises(nt.testing.DerivativeError):
        nt.check(wrong, X, order=1)
