"""Points of a batch take their own paths, where a guard describes them and where none does."""

import math

import numpy as np
import pytest

import numbatape as nt

X = np.random.default_rng(5).normal(size=(11, 3))


def text(x):
    return x[0] ** 2 if "-" in f"{x[0]}" else x[1] * 3


def shown(x):
    return x[0] ** 2 if repr(x[0] * 1.0).startswith("np.float64(-") else x[1] * 3


def float_errors(x):
    with np.errstate(all="raise"):
        try:
            return np.log(x[0])
        except FloatingPointError:
            return 3.0 * x[1]


def factorisation(x):
    try:
        lower = np.linalg.cholesky(np.array([[x[0], x[1]], [x[1], 1.0]]))
    except np.linalg.LinAlgError:
        return -(x[2] ** 2)
    return np.sum(np.log(np.diag(lower)))


def penalty(x):
    try:
        np.linalg.cholesky(np.array([[x[0], x[1]], [x[1], 1.0]]))
    except np.linalg.LinAlgError:
        return -1e10
    return -np.sum(x**2)


def shapes(x):
    try:
        return np.sum(x[:2] if x[0] > 0 else np.reshape(x, (2, 2)))
    except ValueError:
        return x[1]


def domain(x):
    try:
        return math.sqrt(x[0])
    except ValueError:
        return x[1]


def masks(x):
    return np.sum(np.outer(x, x * x)[np.ix_(x > 0, x > -0.5)])


def row(x):
    try:
        return x[np.floor(3.0 * x[0]).astype(int)]
    except IndexError:
        return x[1] * x[2]


def whole_number(x):
    return x[0] ** 2 if x[0] > 0 else 7


FUNCTIONS = [text, shown, float_errors, factorisation, penalty, shapes, domain, masks, row, whole_number]


@pytest.mark.parametrize("f", FUNCTIONS)
@pytest.mark.parametrize("order", [1, -1])
def test_every_point_takes_its_own_path(f, order):
    points = X[::order]
    single = nt.value_and_grad(f)
    values, gradients = nt.batch(f)(points)
    for k, x in enumerate(points):
        value, gradient = single(x)
        assert value == pytest.approx(f(x), rel=1e-14)
        np.testing.assert_allclose(values[k], value, rtol=1e-13)
        np.testing.assert_allclose(gradients[k], gradient, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("f", [text, factorisation, penalty, domain])
def test_a_point_does_not_feel_the_others(f):
    values, gradients = nt.batch(f)(X)
    for rows in (slice(0, 1), slice(7, 9), slice(2, 10)):
        some, its = nt.batch(f)(X[rows])
        np.testing.assert_array_equal(some, values[rows])
        np.testing.assert_array_equal(its, gradients[rows])


def test_many_failing_points_among_many():
    points = np.random.default_rng(6).normal(size=(1500, 3))
    points[:, 0] = np.abs(points[:, 0]) + points[:, 1] ** 2 + 0.1
    lost = [0, 5, 700, 701, 1499]
    points[lost, 0] = -1.0
    values, gradients = nt.batch(factorisation)(points)
    np.testing.assert_allclose(values, [factorisation(x) for x in points], rtol=1e-12)
    np.testing.assert_array_equal(gradients[lost, 2], -2.0 * points[lost, 2])


def test_arrays_some_of_which_are_constant():
    for result in (lambda x: x[:2] ** 2, lambda x: np.concatenate([x**2, x])):

        def f(x, result=result):
            return np.zeros(np.shape(result(x))) if x[0] > 0 else result(x)

        for points in (X, X[::-1]):
            values, jacobians = nt.batch(f)(points)
            np.testing.assert_allclose(values, [f(x) for x in points], rtol=1e-15)
            np.testing.assert_allclose(jacobians, [nt.jacobian(f)(x) for x in points], rtol=1e-15)


def test_rules_that_raise():
    def value(x):
        if x[0] < 0:
            raise ValueError("negative")
        return np.sum(x**2)

    rule = nt.primitive(value, pullback=lambda ybar, y, x: (2.0 * ybar * x,))

    def f(x):
        try:
            return rule(x)
        except ValueError:
            return 3.0 * x[1]

    values, gradients = nt.batch(f)(X)
    np.testing.assert_allclose(values, np.where(X[:, 0] < 0, 3 * X[:, 1], np.sum(X**2, 1)), rtol=1e-14)
    np.testing.assert_allclose(gradients, np.where(X[:, :1] < 0, [[0.0, 3.0, 0.0]], 2 * X), rtol=1e-14)
    with pytest.raises(ValueError, match="negative"):
        nt.batch(lambda x: rule(x))(X)


def test_state_that_the_function_changes():
    class Counter:
        calls = 0

        def __call__(self, x):
            self.calls += 1
            return x[0] * self.calls

    values, gradients = nt.batch(Counter())(X[:6])
    np.testing.assert_allclose(values, X[:6, 0] * np.arange(1, 7), rtol=1e-15)
    np.testing.assert_array_equal(gradients[:, 0], np.arange(1.0, 7.0))
    seen = []

    def kept(x):
        seen.append(1)
        return x * len(seen)

    with pytest.raises(nt.UnsupportedOperationError, match="changes what it captures"):
        nt.batch(kept)(X[:6])


def test_contents_of_constants_that_steer():
    def f(x, c):
        return x[0] * len(np.unique(np.asarray(c)))

    data = np.array([[0.0, 1.0], [2.0, 2.0], [0.0, 0.0], [3.0, 1.0], [0.0, 1.0]])
    values, gradients = nt.batch(f, in_axes=(0, 0))(X[:5], nt.Constant(data))
    np.testing.assert_allclose(values, X[:5, 0] * [2, 1, 1, 2, 2], rtol=1e-15)
    np.testing.assert_array_equal(gradients[:, 0], [2, 1, 1, 2, 2])


MATH = [
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "cbrt", "fabs", "sin", "cos", "tan"),
    *("sinh", "cosh", "tanh", "asin", "acos", "atan", "asinh", "atanh", "erf", "erfc", "gamma", "lgamma"),
    *("degrees", "radians"),
]


@pytest.mark.parametrize("name", MATH)
def test_functions_of_math(name):
    names = {"math": math}
    exec(f"def f(x):\n    return math.{name}(x[0])", names)
    f = names["f"]
    points = np.linspace(0.1, 0.9, 9)[:, None]
    values, gradients = nt.batch(f)(points)
    np.testing.assert_allclose(values, [f(x) for x in points], rtol=1e-14)
    np.testing.assert_allclose(gradients, [nt.grad(f)(x) for x in points], rtol=1e-14)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: math.fsum(x),
        lambda x: math.hypot(x[0], x[1]),
        lambda x: math.hypot(*x),
        lambda x: math.prod(x),
        lambda x: math.dist(x, [0.0, 1.0, 2.0]),
        lambda x: math.pow(x[0], 2),
        lambda x: math.atan2(x[0], x[1]),
        lambda x: math.fmod(x[0], x[1]),
        lambda x: math.copysign(x[0], x[1]),
    ],
)
def test_functions_of_math_of_several_numbers(f):
    values, gradients = nt.batch(f)(X)
    assert values.dtype == float
    np.testing.assert_allclose(values, [f(x) for x in X], rtol=1e-13)
    np.testing.assert_allclose(gradients, [nt.grad(f)(x) for x in X], rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(
    "f, shape",
    [
        (lambda x: np.sum(x**2), (3,)),
        (lambda x: x[:2] ** 2, (3,)),
        (lambda x: math.log(x[0]), (3,)),
        (lambda x: x * 1j, (3,)),
        (lambda x: np.sum(np.log(np.diag(np.linalg.cholesky(x)))), (2, 2)),
    ],
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_no_points(f, shape, dtype):
    some = np.broadcast_to(np.eye(*shape) if len(shape) > 1 else np.ones(shape), (2, *shape)).astype(dtype)
    values, gradients = nt.batch(f)(some)
    for got, expected in zip(nt.batch(f)(some[:0]), (values, gradients), strict=True):
        assert got.shape == (0, *expected.shape[1:]) and got.dtype == expected.dtype


def test_no_points_of_several_arguments():
    def f(p, k, c):
        return p["a"] * c[k] * p["b"]

    none = {"a": np.zeros((0, 2)), "b": np.zeros(0)}
    ks = nt.Constant(np.zeros(0, int))
    values, gradients = nt.batch(f, in_axes=(0, 0, None))(none, ks, np.arange(3.0))
    assert values.shape == (0, 2)
    assert gradients["a"].shape == (0, 2, 2) and gradients["b"].shape == (0, 2)
    with pytest.raises(nt.SpecError, match="the shape of the function's result is not known"):
        nt.batch(lambda x: x[5])(np.zeros((0, 2)))


@pytest.mark.parametrize(
    "f, text",
    [
        (lambda x: x if x[0] > 0 else x[:2], "returns shape .* at some points and .* at others"),
        (lambda x: x[0] if x[0] > 0 else x, "returns shape .* at some points and .* at others"),
        (lambda x: x[0] if x[0] > 0 else x[0] * 1j, "complex ones at others"),
        (lambda x: {"a": x[0]}, "one number or array, got dict"),
    ],
)
def test_results_that_do_not_fit(f, text):
    with pytest.raises(nt.OutputError, match=text):
        nt.batch(f)(np.array([[1.0, 2.0, 3.0], [-1.0, 2.0, 3.0]]))


def side_of_one(x):
    return np.sum(x) ** 2 if np.sum(x) > 1.0 else np.sum(x)


@pytest.mark.parametrize(
    "run",
    [
        nt.batch(side_of_one),
        nt.batch(side_of_one, value_only=True),
        nt.batch(lambda x: np.stack([side_of_one(x), x[0]])),
        nt.vmap(side_of_one),
        nt.vmap(nt.grad(side_of_one)),
        nt.batch(nt.function(side_of_one)),
        lambda points: nt.grad(lambda p: np.sum(nt.vmap(side_of_one)(p)))(points),
    ],
)
def test_branches_that_hang_on_the_last_bit(run):
    """NumPy's sum and the kernel's may differ in the last bit: at the point of a trace NumPy's decides."""
    points = np.random.default_rng(5).uniform(size=(40, 50))
    points /= np.sum(points, axis=1, keepdims=True)  # the sums are 1.0 within an ulp or two
    found = run(points)
    first = np.reshape(found[0] if isinstance(found, tuple) else found, (40, -1))[:, 0]
    # Values are 1.0 on both sides; slopes are 2.0 on one and 1.0 on the other.
    assert all(min(abs(x - 1.0), abs(x - 2.0)) < 1e-13 for x in first)


def test_only_the_point_of_a_trace_has_numpys_side():
    """The other points of a batch take the side of the kernel's value, each with its own derivative."""
    points = np.random.default_rng(5).uniform(size=(40, 50))
    points /= np.sum(points, axis=1, keepdims=True)
    values, gradients = nt.batch(side_of_one)(points)
    np.testing.assert_allclose(values, 1.0, rtol=1e-14)
    sides = np.isclose(gradients[:, :1], [1.0, 2.0])
    assert sides.any(axis=1).all()
