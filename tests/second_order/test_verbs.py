"""jvp, jacobian, hessian, hvp, derivative: the field's worked examples, nesting, structures, errors."""

import threading
from typing import NamedTuple

import numpy as np
import pytest
import scipy.special as sc
import scipy.stats

import numbatape as nt

D = nt.derivative
X = np.array([0.3, 0.5, 0.7])


def f(x):
    return np.sum(np.sin(x) * x**3) + x[0] * x[1] * np.exp(x[2])


def rosenbrock(x):
    return (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2


def pair(x):
    return np.stack([x[0] ** 2 + x[1], x[0] * x[1]])


@pytest.mark.parametrize("mode", ["auto", "forward", "reverse"])
def test_jacobian(mode):
    np.testing.assert_array_equal(
        nt.jacobian(pair, mode=mode)(np.array([2.0, 3.0])), [[4.0, 1.0], [3.0, 2.0]]
    )


def test_hessian_of_rosenbrock():
    hessian = nt.hessian(rosenbrock)(np.array([1.2, 1.2]))
    np.testing.assert_allclose(hessian, [[1250.0, -480.0], [-480.0, 200.0]], rtol=1e-14)


def test_hvp():
    np.testing.assert_array_equal(nt.hvp(lambda x: np.sum(x**2))(X, np.eye(3)[0]), [2.0, 0.0, 0.0])
    v = np.array([1.0, -2.0, 0.5])
    np.testing.assert_allclose(nt.hvp(f)(X, v), nt.hessian(f)(X) @ v, rtol=1e-13)


def test_no_perturbation_confusion():
    assert D(lambda x: x * D(lambda y: x + y)(1.0))(1.0) == 1.0
    assert D(lambda x: x * D(lambda y: x * y)(2.0))(3.0) == 6.0
    assert nt.grad(lambda x: nt.jvp(lambda y: x * y, (1.0,), (x,))[1])(3.0) == 6.0


@pytest.mark.parametrize(
    "order, expected", [(1, np.cos), (2, lambda t: -np.sin(t)), (4, np.sin), (5, np.cos)]
)
def test_derivatives_of_derivatives(order, expected):
    g = np.sin
    for _ in range(order):
        g = D(g)
    np.testing.assert_allclose(g(0.3), expected(0.3), rtol=1e-13)


def test_third_derivatives_of_special_functions():
    for function, third in (
        (sc.gammaln, lambda t: sc.polygamma(2, t)),
        (np.tanh, lambda t: (4 * np.tanh(t) ** 2 - 2 / np.cosh(t) ** 2) / np.cosh(t) ** 2),
        (sc.erf, lambda t: 2 / np.sqrt(np.pi) * np.exp(-t * t) * (4 * t * t - 2)),
        (lambda t: t**2.5, lambda t: 2.5 * 1.5 * 0.5 * t**-0.5),
    ):
        np.testing.assert_allclose(D(D(D(function)))(0.8), third(0.8), rtol=1e-11)


def test_gradient_of_a_function_of_gradients():
    def penalty(x):
        return np.sum(nt.grad(f)(x) ** 2)

    np.testing.assert_allclose(nt.grad(penalty)(X), 2 * nt.hessian(f)(X) @ nt.grad(f)(X), rtol=1e-12)
    np.testing.assert_allclose(nt.jacobian(nt.grad(f))(X), nt.hessian(f)(X), rtol=1e-13)


def test_verbs_inside_of_verbs_agree_with_those_outside():
    v = np.array([0.2, -1.0, 0.4])
    cases = [
        (lambda x: nt.hessian(f)(x)[0], lambda x: nt.hessian(f)(x)[0]),
        (lambda x: nt.hvp(f)(x, v), lambda x: nt.hvp(f)(x, v)),
        (lambda x: nt.jvp(f, (x,), (v,))[1] * np.ones(1), None),
        (lambda x: nt.vjp(lambda y: y**2, x)[1](x)[0], lambda x: 2 * x * x),
        (lambda x: nt.jacobian(lambda y: y**2, mode="reverse")(x)[1], None),
        (lambda x: nt.jacobian(lambda y: y**2, mode="forward")(x)[1], None),
        (lambda x: nt.value_and_grad(lambda y: (np.sum(y**2), y), has_aux=True)(x)[1], lambda x: 2 * x),
    ]
    for inside, outside in cases:
        plain = inside(X)  # nothing is traced around it
        traced, _ = nt.jvp(inside, (X,), (v,))
        np.testing.assert_allclose(traced, plain, rtol=1e-12)
        if outside is not None:
            np.testing.assert_allclose(plain, outside(X), rtol=1e-12)


def test_captured_traced_values_take_part():
    def outer(x):
        return nt.grad(lambda y: np.sum(y**2 * x))(np.ones(3)) @ np.ones(3)

    np.testing.assert_allclose(nt.grad(outer)(X), [2.0, 2.0, 2.0])
    assert nt.grad(lambda x: nt.hessian(lambda y: x * np.sum(y**3))(np.array([2.0]))[0, 0])(5.0) == 12.0


def test_a_derivative_of_plain_numbers_is_computed_then_and_there():
    seen = []
    nt.grad(lambda x: x * seen.append(float(nt.grad(np.sin)(0.0))) if False else x * float(D(np.sin)(0.0)))(
        2.0
    )

    def g(x):
        seen.append(float(D(np.sin)(0.0)))
        return x

    nt.grad(g)(1.0)
    assert seen == [1.0]


class Point(NamedTuple):
    a: np.ndarray
    b: float


def test_structures():
    p = Point(np.array([1.0, 2.0]), 3.0)

    def g(p):
        return {"u": p.a * p.b, "n": 3, "s": np.sum(p.a)}

    jacobian = nt.jacobian(g)(p)
    np.testing.assert_array_equal(jacobian["u"].a, 3.0 * np.eye(2))
    np.testing.assert_array_equal(jacobian["u"].b, p.a)
    np.testing.assert_array_equal(jacobian["s"].a, np.ones(2))
    np.testing.assert_array_equal(jacobian["n"].a, np.zeros(2))
    hessian = nt.hessian(lambda p: np.sum(p.a**2) * p.b)(p)
    np.testing.assert_array_equal(hessian.a.a, 6.0 * np.eye(2))
    np.testing.assert_array_equal(hessian.a.b, 2.0 * p.a)
    np.testing.assert_array_equal(hessian.b.a, 2.0 * p.a)
    assert hessian.b.b == 0.0
    value, tangent = nt.jvp(g, (p,), (Point(np.ones(2), 0.0),))
    np.testing.assert_array_equal(tangent["u"], [3.0, 3.0])
    assert value["n"] == 3 and tangent["n"] == 0.0
    product = nt.hvp(lambda p: np.sum(p.a**2) * p.b)(p, Point(np.zeros(2), 1.0))
    np.testing.assert_array_equal(product.a, 2.0 * p.a)


def test_argnums():
    def g(x, k, y):
        return np.sum(x**2 * y) * k

    x, y = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    blocks = nt.hessian(g, argnums=(0, -1))(x, 2, y)
    np.testing.assert_array_equal(blocks[0][0], np.diag(4.0 * y))
    np.testing.assert_array_equal(blocks[0][1], np.diag(4.0 * x))
    np.testing.assert_array_equal(blocks[1][0], np.diag(4.0 * x))
    np.testing.assert_array_equal(blocks[1][1], np.zeros((2, 2)))
    jacobians = nt.jacobian(lambda x, y: x * y, argnums=(0, 1))(x, y)
    np.testing.assert_array_equal(jacobians[0], np.diag(y))
    products = nt.hvp(g, argnums=(0, 2))(x, 2, y, (np.ones(2), np.zeros(2)))
    np.testing.assert_array_equal(products[0], 4.0 * y)
    np.testing.assert_array_equal(products[1], 4.0 * x)
    matrix = nt.jacobian(lambda a: a @ x)(np.arange(6.0).reshape(3, 2))
    np.testing.assert_array_equal(matrix, np.einsum("ij,k->ijk", np.eye(3), x))


def test_empty_and_single():
    assert nt.jacobian(lambda x: x**2)(np.zeros(0)).shape == (0, 0)
    assert nt.hessian(lambda x: np.sum(x**2))(np.zeros(0)).shape == (0, 0)
    np.testing.assert_array_equal(nt.hessian(lambda x: np.sum(x**3))(np.array([2.0])), [[12.0]])
    assert nt.jacobian(lambda x: x**2)(3.0) == 6.0
    assert nt.hessian(lambda x: x**3)(2.0) == 12.0


@pytest.mark.parametrize("mode", ["auto", "forward", "reverse"])
def test_results_without_a_derivative(mode):
    np.testing.assert_array_equal(nt.jacobian(lambda x: np.ones(2), mode=mode)(X), np.zeros((2, 3)))
    np.testing.assert_array_equal(nt.jacobian(lambda x: np.argmax(x), mode=mode)(X), np.zeros(3))
    np.testing.assert_array_equal(nt.hessian(lambda x: 3.0)(X), np.zeros((3, 3)))
    assert nt.jacobian(lambda x: x[:0], mode=mode)(X).shape == (0, 3)


def test_scalars_are_numpy_scalars():
    product = nt.hvp(lambda p: np.sum(p["a"] ** 2) * p["b"])({"a": X, "b": 2.0}, {"a": X, "b": 1.0})
    assert isinstance(product["b"], np.float64)
    assert isinstance(nt.hessian(lambda x: x**3)(2.0), np.float64)
    assert isinstance(nt.jvp(lambda x: np.sum(x), (X,), (X,))[1], np.float64)


def test_float32_stays_float32():
    x = X.astype(np.float32)
    assert nt.jacobian(lambda x: np.sin(x))(x).dtype == np.float32
    assert nt.hessian(lambda x: np.sum(np.sin(x)))(x).dtype == np.float32
    assert nt.hvp(lambda x: np.sum(np.sin(x)))(x, x).dtype == np.float32
    np.testing.assert_allclose(nt.hessian(lambda x: np.sum(np.sin(x)))(x), np.diag(-np.sin(x)), rtol=1e-6)


def test_what_is_not_chosen_stays_out():
    def g(x):
        return np.sum(np.where(x > 0, np.sqrt(np.where(x > 0, x, 1.0)) * np.log(x), 0.0))

    x = np.array([-1.0, 0.0, 2.0])
    hessian = nt.hessian(g)(x)
    assert np.isfinite(hessian).all()
    assert not hessian[:2].any() and not hessian[:, :2].any()


MISSING = np.array([0.3, np.nan, -0.2, 1.0])
MASKED = {
    "product": lambda t: np.sum(np.where(np.isnan(MISSING), 0.0, (MISSING - t) ** 2 * np.exp(-t))),
    "cube": lambda t: np.sum(np.where(np.isnan(MISSING), 0.0, (MISSING - t) ** 3)),
    "exp": lambda t: np.sum(np.where(np.isnan(MISSING), 0.0, np.exp(MISSING * t))),
    "logpdf": lambda t: np.sum(
        np.where(np.isnan(MISSING), 0.0, scipy.stats.norm.logpdf(MISSING, t, np.exp(t)))
    ),
    "nansum": lambda t: np.nansum(((MISSING - t) / np.exp(t)) ** 2),
    "loop": lambda t: sum((y - t) ** 3 * t for y in MISSING if y == y),
    "scalars": lambda t: sum(np.where(np.isnan(y), 0.0, (y - t) ** 3 * t) for y in MISSING),
}


@pytest.mark.parametrize("name", MASKED)
def test_missing_data_stay_out_of_every_way_to_a_second_derivative(name):
    g, h = MASKED[name], 1e-4
    expected = (nt.grad(g)(0.1 + h) - nt.grad(g)(0.1 - h)) / (2 * h)
    seconds = [nt.hessian(g)(0.1), nt.hvp(g)(0.1, 1.0), nt.grad(nt.grad(g))(0.1), D(D(g))(0.1)]
    seconds += [nt.grad(D(g))(0.1), D(nt.grad(g))(0.1), nt.jacobian(nt.grad(g), mode="reverse")(0.1)]
    for mode in ("reverse_over_forward", "forward_over_reverse"):
        cache = nt.prepare_hessian_cache(g, 0.1, config=nt.Config(second_order_mode=mode))
        seconds.append(nt.value_gradient_and_hessian(cache, 0.1)[2])
    np.testing.assert_allclose(seconds, expected, rtol=1e-6)
    np.testing.assert_allclose(seconds, seconds[0], rtol=1e-12)
    third = (nt.hessian(g)(0.1 + h) - nt.hessian(g)(0.1 - h)) / (2 * h)
    np.testing.assert_allclose(nt.grad(nt.grad(nt.grad(g)))(0.1), third, rtol=1e-5)


def test_forward_follows_ieee_and_reverse_does_not():
    def g(x):
        return np.log(0.0 * x[0] + x[1])

    x = np.array([1.0, 0.0])
    np.testing.assert_array_equal(nt.jacobian(g, mode="forward")(x), [np.nan, np.inf])
    strong = nt.prepare_derivative_cache(g, x, config=nt.Config(strong_zero=True))
    np.testing.assert_array_equal(nt.value_and_jacobian(strong, x)[1], [0.0, np.inf])


@pytest.mark.parametrize(
    "f, x, plain, strong",
    [
        (lambda x: np.log(0 * x[0] + x[1]), [1.0, 0.0], [np.nan, np.inf], [0.0, np.inf]),
        (lambda x: x[0] * np.exp(-x[1]), [1.0, -1000.0], [np.nan, np.nan], [np.inf, -np.inf]),
        (lambda x: np.minimum(1.0, 1.0 / x[0]), [0.0], [np.nan], [0.0]),
    ],
)
def test_a_zero_tangent_or_a_zero_partial(f, x, plain, strong):
    """Known cases of ForwardDiff's tests and of Enzyme's questions and answers."""
    x = np.array(x)
    for expected, config in ((plain, nt.Config()), (strong, nt.Config(strong_zero=True))):
        cache = nt.prepare_derivative_cache(f, x, config=config)
        slopes = [nt.value_and_derivative(cache, (x, unit))[1] for unit in np.eye(len(x))]
        np.testing.assert_array_equal(slopes, expected)


def test_the_second_derivative_of_a_root_at_zero():
    for root in (np.sqrt, lambda x: x**0.5):
        assert nt.derivative(nt.derivative(root))(0.0) == -np.inf
    np.testing.assert_array_equal(nt.hessian(lambda x: np.sqrt(x[0]))(np.array([-0.0])), [[-np.inf]])


@pytest.mark.parametrize(
    "product",
    [
        lambda a, b: a @ b,
        np.dot,
        lambda a, b: np.einsum("ij,jk->ik", a, b),
        lambda a, b: np.tensordot(a, b, 1),
        lambda a, b: np.stack([a, a])[:, :2] @ b,
        lambda a, b: (a @ b[:, 0])[:, None],
        lambda a, b: np.stack([np.dot(row, b[:, 1]) for row in a])[:, None],
    ],
)
@np.errstate(invalid="ignore")  # some BLAS kernels compute inf * 0 on the way, others do not
def test_strong_zero_of_products(product):
    a, b = np.array([[1.0, np.inf], [3.0, 4.0]]), np.array([[5.0, 2.0], [np.nan, 7.0]])
    strong = nt.Config(strong_zero=True)

    def masked(a, b):
        z = product(a, b)
        return np.sum(np.where(np.isfinite(z), z, 0.0) ** 2)

    value, gradients = nt.value_and_gradient(nt.prepare_gradient_cache(masked, a, b, config=strong), a, b)
    rows = np.isfinite(product(a, b))
    assert value == masked(a, b)
    assert np.isfinite(gradients[1][0]).all() or not rows.any()
    # Only tangents and cotangents that are not zero meet what is not finite.
    kept_a, kept_b = np.where(np.isfinite(a), a, 0.0), np.where(np.isfinite(b), b, 0.0)
    plain = nt.grad(lambda a, b: np.sum(np.where(rows, product(a, b), 0.0) ** 2), (0, 1))(kept_a, kept_b)
    for gradient, expected, own in zip(gradients, plain, (a, b), strict=True):
        np.testing.assert_allclose(gradient[np.isfinite(own)], expected[np.isfinite(own)], rtol=1e-13)
    pushed = nt.prepare_derivative_cache(product, a, b, config=strong)
    da = np.zeros((2, 2))
    _, dz = nt.value_and_derivative(pushed, (a, da), (b, np.zeros((2, 2))))
    np.testing.assert_array_equal(dz, np.zeros_like(dz))
    usual = nt.prepare_derivative_cache(product, a, b)
    assert np.isnan(nt.value_and_derivative(usual, (a, da), (b, np.zeros((2, 2))))[1]).any()


def test_strong_zero_switches_where_numbers_become_infinite():
    def f(a):
        z = a @ a
        return np.sum(np.where(np.isfinite(z), z, 0.0))

    good, bad = np.arange(4.0).reshape(2, 2), np.array([[1.0, 0.0], [np.inf, 2.0]])
    cache = nt.prepare_gradient_cache(f, good, config=nt.Config(strong_zero=True))
    first = nt.value_and_gradient(cache, good)[1][0]
    assert not np.isnan(nt.value_and_gradient(cache, bad)[1][0][0]).any()
    np.testing.assert_array_equal(nt.value_and_gradient(cache, good)[1][0], first)
    np.testing.assert_array_equal(first, nt.grad(f)(good))


@pytest.mark.parametrize("f", [np.prod, np.linalg.norm])
def test_a_reduction_with_a_zero_cotangent_adds_nothing(f):
    x = np.array([np.inf, 2.0])
    gradient = nt.grad(lambda x: np.where(x[1] > 0.0, x[1], f(x)))(x)
    np.testing.assert_array_equal(gradient, [0.0, 1.0])


REPEATED = {
    "scalar": lambda s: np.sum(np.broadcast_to(s[0] ** 2, (5,))),
    "cell-of-an-array": lambda s: np.sum(np.broadcast_to(s[0], (5,)) * s[1]),
    "sum-of-a-view": lambda s: np.sum(np.broadcast_to(s[:1] * s[1], (4, 3, 1)), axis=1)[2, 0],
    "scalar-beside-data": lambda s: np.sum(np.arange(5.0) - np.log(s[0])),
    "logpdf": lambda s: np.sum(scipy.stats.norm.logpdf(np.arange(5.0), s[1], s[0])),
    "rows": lambda s: np.sum(np.broadcast_to(s, (4, 2)), axis=0) @ s,
    "columns": lambda s: np.sum(np.broadcast_to(np.exp(s)[:, None], (2, 3)), axis=1) @ s,
    "mean": lambda s: np.mean(np.broadcast_to(s[0] * s[1], (3, 2)), axis=(0, 1)),
    "prod": lambda s: np.prod(np.broadcast_to(s[0] * s[1], (3,))),
    "cumsum": lambda s: np.sum(np.cumsum(np.broadcast_to(s[0] * s[1], (3,)))),
    "max": lambda s: np.max(np.broadcast_to(s[0] ** 2, (3,))) * s[1],
    "dot": lambda s: np.broadcast_to(s[0], (3,)) @ np.arange(3.0) * s[1],
    "matmul": lambda s: np.sum(np.broadcast_to(s[0], (3, 3)) @ np.broadcast_to(s[1], (3, 2))),
}


@pytest.mark.parametrize("name", REPEATED)
def test_cells_that_a_view_repeats_count_as_often(name):
    g, x, v = REPEATED[name], np.array([0.7, -0.4]), np.array([0.3, 1.1])
    gradient = nt.grad(g)(x)
    np.testing.assert_allclose(nt.jvp(g, (x,), (v,))[1], gradient @ v, rtol=1e-13)
    np.testing.assert_allclose(nt.jacobian(g, mode="forward")(x), gradient, rtol=1e-13)
    np.testing.assert_allclose(nt.grad(lambda x: nt.grad(g)(x) @ v)(x), nt.hessian(g)(x) @ v, rtol=1e-12)
    h = 1e-4
    steps = [(nt.grad(g)(x + h * e) - nt.grad(g)(x - h * e)) / (2 * h) for e in np.eye(2)]
    np.testing.assert_allclose(nt.hessian(g)(x), steps, rtol=1e-5, atol=1e-6)


def test_repeated_cells_at_other_sizes():
    cache = nt.prepare_derivative_cache(lambda s, y: np.sum(y - np.log(s)), 0.5, nt.Constant(np.ones(3)))
    for n in (3, 7, 2, 1, 0):
        assert nt.value_and_derivative(cache, (0.5, 1.0), np.ones(n))[1] == -2.0 * n


def test_branches():
    def g(x):
        return x[0] ** 3 if x[0] > 1 else x[0] ** 2

    for x, second in ((0.5, 2.0), (1.1, 6.6), (0.5, 2.0)):
        np.testing.assert_allclose(nt.hessian(g)(np.array([x])), [[second]], rtol=1e-14)
        np.testing.assert_allclose(D(D(lambda t: t**3 if t > 1 else t**2))(x), second, rtol=1e-14)


def test_inputs_are_left_alone_and_two_calls_agree():
    x = X.copy()
    first = nt.hessian(f)(x), nt.jacobian(pair)(x), nt.hvp(f)(x, x)
    second = nt.hessian(f)(x), nt.jacobian(pair)(x), nt.hvp(f)(x, x)
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(x, X)


def test_threads():
    expected = nt.hessian(f)(X)
    wrong = []

    def work(seed):
        for k in range(20):
            x = X + 0.01 * seed
            if not np.allclose(nt.hessian(f)(x), nt.jacobian(nt.grad(f))(x), rtol=1e-12):
                wrong.append((seed, k))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    np.testing.assert_array_equal(nt.hessian(f)(X), expected)


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda: nt.hessian(lambda x: x**2)(X), nt.OutputError, "a Hessian needs .* got an array of shape"),
        (lambda: nt.hvp(lambda x: x**2)(X, X), nt.OutputError, "got an array of shape"),
        (
            lambda: nt.jacobian(pair, mode="sideways"),
            ValueError,
            "must be one of 'auto', 'forward', 'reverse'",
        ),
        (lambda: nt.jacobian(pair)(np.arange(3)), nt.DtypeError, "only float64 and float32"),
        (lambda: nt.hvp(f)(X, np.ones(2)), nt.SpecError, r"the vector of argument 0 .* shape \(3,\)"),
        (lambda: nt.jvp(f, (X,), (np.ones(2),)), nt.SpecError, r"the tangent of argument 0 .* shape \(3,\)"),
        (lambda: nt.jvp(f, X, X), nt.SpecError, "primals and tangents as tuples"),
        (lambda: nt.jvp(f, (X,), ()), nt.SpecError, "1 primals and 0 tangents"),
        (lambda: nt.hvp(f, argnums=(0,))(X, X), nt.SpecError, "must be a tuple of 1"),
        (lambda: D(f)(X), nt.SpecError, "perhaps you meant grad or jacobian"),
        (lambda: nt.hessian(f, argnums=1)(X), nt.SpecError, "names argument 1"),
    ],
)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()


INNER = {
    "stack": lambda x: np.stack([x[0] ** 2 + x[1], x[0] * x[1], x[0]]),
    "one row": lambda x: np.stack([x[0] ** 2 * x[1]]),
    "square": lambda x: x**2,
    "exp": lambda x: np.exp(x) * x[::-1],
    "matrix": lambda x: np.outer(x, np.sin(x)),
}


@pytest.mark.parametrize("mode", ["auto", "forward", "reverse"])
@pytest.mark.parametrize("name", INNER)
@pytest.mark.parametrize(
    "total", [lambda j, x: np.sum(j**2), lambda j, x: np.sum(np.sin(j) * x)], ids=["squares", "products"]
)
def test_the_hessian_of_a_function_of_a_jacobian(mode, name, total):
    rows = nt.jacobian(INNER[name], mode=mode)

    def function(x):
        return total(rows(x), x)

    x, step = np.array([1.3, 0.7]), 1e-5
    slope = nt.grad(function)
    expected = np.array([(slope(x + h) - slope(x - h)) / (2 * step) for h in step * np.eye(2)])
    for hessian in (nt.hessian(function)(x), nt.jacobian(slope)(x)):
        np.testing.assert_allclose(hessian, expected, rtol=1e-7, atol=1e-7)
    cache = nt.prepare_hessian_cache(function, x)
    for _ in range(2):  # the second call is a steady one
        _, gradient, hessian = nt.value_gradient_and_hessian(cache, x)
        np.testing.assert_allclose(gradient, slope(x), rtol=1e-13)
        np.testing.assert_allclose(hessian, expected, rtol=1e-7, atol=1e-7)


def test_a_jacobian_says_which_mode_it_took():
    rows = nt.jacobian(lambda x: np.stack([x[0], x[1], x[0] * x[1]]))
    assert "auto, not called yet" in repr(rows)
    rows(np.ones(2))
    assert "auto, forward" in repr(rows)
    rows = nt.jacobian(np.sum)
    rows(np.ones(3))
    assert repr(rows) == "<jacobian of sum: auto, reverse>"
    assert repr(nt.jacobian(np.sin, mode="forward")).endswith(": forward>")


@pytest.mark.parametrize(
    "f",
    [
        lambda x, y: np.sum(x * 2.0 + np.sum(y)),
        lambda x, y: np.sum(np.sin(x) + np.sum(y) * y[0]),
        lambda x, y: np.sum(np.broadcast_to(y[1], (3, 5)) * 2.0 + x),
        lambda x, y: np.sum(np.outer(x, y) + np.prod(y) + np.sum(x, keepdims=True)),
    ],
)
def test_forward_through_what_is_broadcast(f):
    """The transpose of a sum over a broadcast entry: the entry's cotangent, as often as it was repeated."""
    x, y = np.arange(1.0, 6.0), np.array([0.5, 2.0, -1.0])
    u, v = np.cos(x), np.sin(y)
    gx, gy = nt.grad(f, argnums=(0, 1))(x, y)
    exact = np.sum(gx * u) + np.sum(gy * v)
    np.testing.assert_allclose(nt.jvp(f, (x, y), (u, v))[1], exact, rtol=1e-13)
    both = np.concatenate([u, v])
    joint = lambda z: f(z[:5], z[5:])  # noqa: E731
    z, h = np.concatenate([x, y]), 1e-4
    slope = (nt.grad(joint)(z + h * both) - nt.grad(joint)(z - h * both)) / (2 * h)
    np.testing.assert_allclose(nt.hvp(joint)(z, both), slope, rtol=1e-6, atol=1e-7)
