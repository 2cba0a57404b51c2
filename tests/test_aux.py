"""``has_aux=True`` in all verbs: the derivative is that of the value alone, aux comes out of the same run."""

import numpy as np
import pytest

import numbatape as nt

X = np.array([0.5, 1.5])
V = np.array([1.0, -2.0])


def value_of(x):
    return np.sum(x**3) * x[0]


def aux_of(x):
    return {"twice": 2 * x, "sum": np.sum(x), "n": 3, "name": "run", "none": None, "rows": np.arange(2)}


def with_aux(x):
    w = np.zeros(2)  # written to, so that the function runs as a copy
    w[0] = value_of(x)
    return w[0], aux_of(x)


def same(a, b):
    assert a.keys() == b.keys()
    for name, part in a.items():
        if isinstance(part, str | None):
            assert part is None or part == b[name]
        else:
            assert np.allclose(part, b[name])


# Each returns (derivative, aux), given a verb's keywords.
VERBS = {
    "grad": lambda f, x, **k: nt.grad(f, **k)(x),
    "value_and_grad": lambda f, x, **k: nt.value_and_grad(f, **k)(x)[::-1],
    "jacobian": lambda f, x, **k: nt.jacobian(f, **k)(x),
    "jacobian, forward": lambda f, x, **k: nt.jacobian(f, mode="forward", **k)(x),
    "jacobian, reverse": lambda f, x, **k: nt.jacobian(f, mode="reverse", **k)(x),
    "value_and_jacobian": lambda f, x, **k: nt.value_and_jacobian(f, **k)(x)[::-1],
    "hessian": lambda f, x, **k: nt.hessian(f, **k)(x),
    "hessian_diagonal": lambda f, x, **k: nt.hessian_diagonal(f, **k)(x),
    "laplacian": lambda f, x, **k: nt.laplacian(f, **k)(x),
    "elementwise_grad": lambda f, x, **k: nt.elementwise_grad(f, **k)(x),
    "hvp": lambda f, x, **k: nt.hvp(f, **k)(x, V),
    "jvp": lambda f, x, **k: nt.jvp(f, (x,), (V,), **k)[1:],
    "vjp": lambda f, x, **k: ((made := nt.vjp(f, x, **k))[1](2.0)[0], *made[2:]),
    "derivative": lambda f, x, **k: nt.derivative(lambda t: f(x + t * V), **k)(0.0),
    "sparse_jacobian": lambda f, x, **k: entries(nt.sparse_jacobian(f, **k)(x)),
    "sparse_hessian": lambda f, x, **k: entries(nt.sparse_hessian(f, **k)(x)),
}


def entries(found):
    """Return the entries of a sparse derivative, which may come with aux."""
    return (found[0].data, found[1]) if isinstance(found, tuple) else found.data


def apart(name, found, has_aux: bool):
    """Return (derivative, aux), whatever stands beside them."""
    if name.startswith("value_and"):
        return found[0], found[1][1] if has_aux else None
    if has_aux:
        return found
    return (found[0], None) if name in ("jvp", "vjp") else (found, None)


@pytest.mark.parametrize("name", VERBS)
def test_derivative_of_the_value_and_aux(name):
    expected, _ = apart(name, VERBS[name](value_of, X), False)
    for x in (X, X, X):  # a general call, then steady ones
        found, aux = apart(name, VERBS[name](with_aux, x, has_aux=True), True)
        assert np.allclose(found, expected, rtol=1e-13)
        same(aux_of(x), aux)


@pytest.mark.parametrize("name", VERBS)
def test_other_points_and_sizes(name):
    for x in (X, X + 1.0):
        expected, _ = apart(name, VERBS[name](value_of, x), False)
        found, aux = apart(name, VERBS[name](with_aux, x, has_aux=True), True)
        assert np.allclose(found, expected, rtol=1e-13)
        same(aux_of(x), aux)


@pytest.mark.parametrize("name", VERBS)
def test_inside_of_a_function(name):
    """Derivative and aux can both be differentiated."""

    def f(x):
        found, aux = apart(name, VERBS[name](with_aux, x, has_aux=True), True)
        return np.sum(found) * aux["sum"] + np.sum(aux["twice"])

    def by_parts(x):
        found, _ = apart(name, VERBS[name](value_of, x), False)
        return np.sum(found) * np.sum(x) + np.sum(2 * x)

    assert np.allclose(nt.grad(f)(X), nt.grad(by_parts)(X), rtol=1e-11)


@pytest.mark.parametrize("name", VERBS)
def test_a_function_without_aux(name):
    with pytest.raises(nt.OutputError, match=r"has_aux=True needs a function that returns \(value, aux\)"):
        VERBS[name](value_of, X, has_aux=True)
    with pytest.raises(nt.OutputError, match=r"has_aux=True needs .* a tuple of 3"):
        VERBS[name](lambda x: (value_of(x), 1, 2), X, has_aux=True)


def test_jacobians_of_arrays():
    def f(x):
        return {"y": x**2, "z": np.sum(x)}, x[0]

    for mode in ("auto", "forward", "reverse"):
        jacobian, aux = nt.jacobian(f, mode=mode, has_aux=True)(X)
        assert np.allclose(jacobian["y"], np.diag(2 * X)) and np.allclose(jacobian["z"], 1.0)
        assert aux == 0.5
    value, pullback, aux = nt.vjp(f, X, has_aux=True)
    assert np.allclose(pullback({"y": np.ones(2), "z": 1.0})[0], 2 * X + 1) and aux == 0.5
    assert np.allclose(value["y"], X**2)


def test_a_constant_value():
    for mode in ("auto", "forward", "reverse"):
        jacobian, aux = nt.jacobian(lambda x: (3.0, x), mode=mode, has_aux=True)(X)
        assert np.array_equal(jacobian, np.zeros(2)) and np.array_equal(aux, X)


def test_verbs_that_are_made_of_others():
    def f(x):
        return np.sum(np.exp(x)), {"largest": np.max(x)}

    x, v = np.array([1.0, 2.0]), np.array([1.0, -2.0])
    for order in (1, 2, 3):
        d = nt.directional_derivative(f, order, has_aux=True)
        for derivative, aux in (d(x, v), d(x, v=v)):
            np.testing.assert_allclose(derivative, np.sum(np.exp(x) * v**order), rtol=1e-14)
            assert aux == {"largest": 2.0}
    product, gradient, aux = nt.make_hvp(f, has_aux=True)(x)
    np.testing.assert_allclose([gradient, product(v)], [np.exp(x), np.exp(x) * v], rtol=1e-14)
    assert aux == {"largest": 2.0}
