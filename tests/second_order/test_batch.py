"""``nt.batch``: many points in one sweep, exact where branches part them."""

import numpy as np
import pytest
import scipy.special

import numbatape as nt
from numbatape.programs.program import Program

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 3))


def smooth(x, c):
    return np.sum(np.sin(x) * x**3) * c[0] + x[0] * x[1] * np.exp(x[2])


def branching(x):
    if x[0] > 0:
        return x[0] ** 3 + (x[1] if x[1] > 0.3 else -2 * x[1])
    total, n = 0.0, 0
    while total < 2.0 and n < 5:
        total = total + x[1] ** 2 + 0.2
        n += 1
    return total * x[2]


@pytest.mark.parametrize("function, rest", [(smooth, (np.array([2.0]),)), (branching, ())])
def test_values_and_gradients(function, rest):
    values, gradients = nt.batch(function)(X, *rest)
    single = nt.value_and_grad(function)
    for k, x in enumerate(X):
        value, gradient = single(x, *rest)
        np.testing.assert_allclose(values[k], value, rtol=1e-13, atol=1e-15)
        np.testing.assert_allclose(gradients[k], gradient, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("count", [1, 2, 7, 8, 9, 255, 256, 257])
def test_any_number_of_points(count):
    points = np.resize(X, (count, 3))
    values, gradients = nt.batch(branching)(points)
    again, _ = nt.batch(branching)(points)
    assert values.shape == (count,) and gradients.shape == (count, 3)
    np.testing.assert_array_equal(values, again)
    np.testing.assert_allclose(values, [branching(x) for x in points], rtol=1e-13)


def test_a_point_does_not_feel_the_others():
    w = RNG.normal(size=(5, 3))

    def f(x):
        return np.sum(np.exp(-((w @ x) ** 2))) + np.sin(x[0]) * np.tanh(x[1]) ** 2

    values, gradients = nt.batch(f)(X)
    for rows in (slice(0, 1), slice(3, 20), slice(100, 300)):
        some, its = nt.batch(f)(X[rows])
        np.testing.assert_array_equal(some, values[rows])
        np.testing.assert_array_equal(its, gradients[rows])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.stack([x[0] * x[1], np.sin(x[2])]),  # rows
        lambda x: np.stack([x[0] * x[1], np.sin(x[2]), x[0], x[2] ** 2]),  # columns
        lambda x: np.outer(x, x[:2]),
        lambda x: np.stack([x[0], x[1] * 0.0 + 1.0]) if x[2] > 0 else np.stack([x[1], x[0] * x[2]]),
    ],
)
def test_jacobians(function):
    values, jacobians = nt.batch(function)(X[:40])
    for k, x in enumerate(X[:40]):
        np.testing.assert_allclose(values[k], function(x), rtol=1e-14)
        np.testing.assert_allclose(jacobians[k], nt.jacobian(function)(x), rtol=1e-13, atol=1e-15)


def test_axes_and_structures():
    def f(p, y, c):
        return np.sum(p["a"] * y) ** 2 * p["b"] * c

    a, b, y = RNG.normal(size=(6, 2)), RNG.normal(size=6), RNG.normal(size=(2, 6))
    values, (gp, gy) = nt.batch(f, in_axes=(0, 1, None))({"a": a, "b": b}, y, 3.0)
    for k in range(6):
        value, grads = nt.value_and_grad(f, argnums=(0, 1))({"a": a[k], "b": b[k]}, y[:, k], 3.0)
        np.testing.assert_allclose(values[k], value, rtol=1e-13)
        np.testing.assert_allclose(gp["a"][k], grads[0]["a"], rtol=1e-13)
        np.testing.assert_allclose(gp["b"][k], grads[0]["b"], rtol=1e-13)
        np.testing.assert_allclose(gy[k], grads[1], rtol=1e-13)


def test_data_of_each_point_may_be_integers():
    def f(x, k):
        return x[0] ** 2 * k + x[1]

    values, gradients = nt.batch(f, in_axes=(0, 0))(X[:5, :2], np.arange(5))
    np.testing.assert_allclose(values, X[:5, 0] ** 2 * np.arange(5) + X[:5, 1], rtol=1e-15)
    np.testing.assert_allclose(gradients[:, 0], 2 * X[:5, 0] * np.arange(5), rtol=1e-15)


@pytest.mark.parametrize("axis", [0, 1])
def test_constants_of_each_point(axis):
    def f(x, k):
        return np.sum(np.exp(x * 0.1) * k) * np.log(k[0])

    k = RNG.uniform(1.0, 2.0, size=(6, 3))
    data = nt.Constant(k if axis == 0 else k.T)
    for points in (X[:6], X[6:12]):  # what would be prologue depends on lanes
        values, gradients = nt.batch(f, in_axes=(0, axis))(points, data)
        np.testing.assert_allclose(values, [f(x, y) for x, y in zip(points, k, strict=True)], rtol=1e-14)
        np.testing.assert_allclose(gradients, 0.1 * np.exp(points * 0.1) * k * np.log(k[:, :1]), rtol=1e-13)
    shared, _ = nt.batch(f)(X[:6], nt.Constant(k[0]))  # the same signature at a point
    np.testing.assert_allclose(shared, [f(x, k[0]) for x in X[:6]], rtol=1e-14)
    rows = nt.batch(lambda x, k: x * k, in_axes=(0, axis))(X[:6], data)
    np.testing.assert_allclose(rows[1], [np.diag(y) for y in k], rtol=1e-15)
    with pytest.raises(nt.SpecError, match="argument 1 is a Static, which all points share"):
        nt.batch(f, in_axes=(0, 0))(X, nt.Static(2))


def test_linear_algebra_in_lanes():
    a = RNG.normal(size=(20, 4, 4))
    spd = a @ a.swapaxes(1, 2) + 4 * np.eye(4)

    def f(m):
        return np.sum(np.log(np.diag(np.linalg.cholesky(m)))) + np.linalg.solve(m, np.ones(4))[0]

    values, gradients = nt.batch(f)(spd)
    for k in range(20):
        value, gradient = nt.value_and_grad(f)(spd[k])
        np.testing.assert_allclose(values[k], value, rtol=1e-12)
        np.testing.assert_allclose(gradients[k], gradient, rtol=1e-11, atol=1e-13)
    spd[7] = -spd[7]
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        nt.batch(f)(spd)


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda: nt.batch(lambda x, y: x[0] * y[0], in_axes=(0, 0))(X, X[:5]), ValueError, "the same number"),
        (lambda: nt.batch(lambda x: x[0], in_axes=(None,))(X), nt.SpecError, "batches none of them"),
        (lambda: nt.batch(lambda x: x[0], in_axes=2)(X), ValueError, "in_axes=2 names an axis"),
        (lambda: nt.batch(lambda x: {"a": x[0]})(X), nt.OutputError, "one number or array, got dict"),
        (
            lambda: nt.batch(lambda x: x[0])(np.arange(6).reshape(2, 3)),
            nt.DtypeError,
            "nothing to differentiate",
        ),
    ],
)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_a_point_that_fails_is_traced_alone(monkeypatch):
    traces, trace = [], Program.trace
    monkeypatch.setattr(
        Program, "trace", lambda self, *given, **how: traces.append(1) or trace(self, *given, **how)
    )

    def f(m):
        return np.sum(np.log(np.diag(np.linalg.cholesky(m))))

    points = np.stack([np.eye(3)] * 9)
    batched = nt.batch(f)
    values, _ = batched(points)
    assert np.all(values == 0.0)
    assert len(traces) == 1
    points[4] = -points[4]
    for _ in range(3):
        with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
            batched(points)
        batched(points[:3])
    assert len(traces) == 1 + 3  # the function might have caught what NumPy raises there


def test_rules_whose_pullback_cannot_be_traced():
    def value(x, workspace):
        workspace.c[...] = np.cos(x)
        return np.sin(x)

    rule = nt.primitive(
        value,
        pullback=lambda ybar, y, x, workspace: (ybar * workspace.c,),
        workspace=lambda x: {"c": (x.shape, x.dtype)},
    )
    values, gradients = nt.batch(lambda x: np.sum(rule(x) ** 2))(X[:20])
    np.testing.assert_allclose(values, np.sum(np.sin(X[:20]) ** 2, axis=1), rtol=1e-14)
    np.testing.assert_allclose(gradients, 2 * np.sin(X[:20]) * np.cos(X[:20]), rtol=1e-13, atol=1e-15)
    with pytest.raises(nt.UnsupportedOperationError, match="pro_rad2"):
        nt.batch(lambda x: np.sum(scipy.special.pro_rad2(1, 2, 1.5, x + 2.0)[0]))(X[:20])


def test_branches_that_return_a_constant():
    def f(x):
        return np.sum(x**2) if x[0] > 0 else 3.0

    points = X[:40].copy()
    points[0, 0] = 1.0
    values, gradients = nt.batch(f)(points)
    np.testing.assert_allclose(values, [f(x) for x in points], rtol=1e-15)
    np.testing.assert_allclose(gradients, np.where(points[:, :1] > 0, 2 * points, 0.0), rtol=1e-15)
