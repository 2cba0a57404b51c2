"""The prepared caches of forward mode and second order: chunks, lanes, sizes, steady calls, errors."""

import numpy as np
import pytest

import numbatape as nt
from numbatape.caches import derived

MODES = ("reverse_over_forward", "forward_over_reverse")
X = np.array([0.3, -0.5, 0.7, 1.1, 0.2])


def f(x):
    return np.sum(x[1:] * np.sin(x[:-1])) + x[0] ** 3 * np.log(2.0 + x[-1])


def g(x):
    y = np.cumsum(x**2)
    return np.concatenate([y * x[0], np.exp(x[:2])])


@pytest.mark.parametrize("chunk", [None, 1, 2, 3, 4, 5, 6, 20])
def test_every_chunk_gives_the_same(chunk):
    config = nt.Config(chunk_size=chunk)
    forward = nt.prepare_derivative_cache(g, X, config=config)
    backward = nt.prepare_pullback_cache(g, X, config=config)
    hessian = nt.prepare_hessian_cache(f, X, config=config)
    for _ in range(2):
        x = X + 0.1
        expected = nt.jacobian(g)(x)
        value, by_columns = nt.value_and_jacobian(forward, x)
        np.testing.assert_allclose(by_columns, expected, rtol=1e-14, atol=1e-15)
        np.testing.assert_array_equal(value, g(x))
        np.testing.assert_allclose(nt.value_and_jacobian(backward, x)[1], expected, rtol=1e-13, atol=1e-15)
        np.testing.assert_allclose(
            nt.value_gradient_and_hessian(hessian, x)[2], nt.hessian(f)(x), rtol=1e-13, atol=1e-15
        )


@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 16, 17])
def test_sizes_at_the_edges_of_a_chunk(n):
    cache = nt.prepare_hessian_cache(lambda x: np.sum(x**3), np.ones(n), config=nt.Config(chunk_size=8))
    x = np.arange(float(n))
    np.testing.assert_array_equal(nt.value_gradient_and_hessian(cache, x)[2], np.diag(6.0 * x))


@pytest.mark.parametrize("mode", MODES)
def test_hessian_cache(mode):
    cache = nt.prepare_hessian_cache(f, X, config=nt.Config(second_order_mode=mode))
    gradient = nt.prepare_gradient_cache(f, X)
    h = 1e-5
    for x in (X, X + 0.1, X[:4], X, np.arange(1.0, 8.0)):
        value, grad, hessian = nt.value_gradient_and_hessian(cache, x)
        wanted, (wanted_grad,) = nt.value_and_gradient(gradient, x)
        np.testing.assert_allclose(value, wanted, rtol=1e-14)
        np.testing.assert_allclose(grad, wanted_grad, rtol=1e-13, atol=1e-15)
        sides = [
            (
                nt.value_and_gradient(gradient, x + h * e)[1][0]
                - nt.value_and_gradient(gradient, x - h * e)[1][0]
            )
            / (2 * h)
            for e in np.eye(x.size)
        ]
        np.testing.assert_allclose(hessian, sides, rtol=1e-7, atol=1e-7)
        v = np.cos(np.arange(x.size))
        for _ in range(2):  # the second call is steady
            _, again, product = nt.value_and_hvp(cache, v, x)
            np.testing.assert_allclose(product, hessian @ v, rtol=1e-12, atol=1e-14)
            np.testing.assert_allclose(again, grad, rtol=1e-13, atol=1e-15)
    assert mode.replace("_", " ") in repr(cache)


def test_results_are_fresh_and_steady_calls_the_same():
    cache = nt.prepare_hessian_cache(f, X)
    results = [nt.value_gradient_and_hessian(cache, X + 0.1 * (k % 2)) for k in range(6)]
    for a, b in zip(results[:2], results[2:4], strict=True):
        for left, right in zip(a, b, strict=True):
            np.testing.assert_array_equal(left, right)
    assert not np.array_equal(results[0][2], results[1][2])
    assert len({id(r[2]) for r in results}) == 6


def test_constants_and_captured_values_may_change():
    scale = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    cache = nt.prepare_hessian_cache(lambda x, c: np.sum(scale * c * x**2), X, nt.Constant(np.ones(5)))
    for _ in range(3):
        np.testing.assert_array_equal(nt.value_gradient_and_hessian(cache, X)[2], np.diag(2 * scale))
    scale[0] = 7.0
    np.testing.assert_array_equal(nt.value_gradient_and_hessian(cache, X)[2], np.diag(2 * scale))
    c = np.full(5, 2.0)
    np.testing.assert_array_equal(nt.value_gradient_and_hessian(cache, X, c)[2], np.diag(4 * scale))


def test_guards_of_steady_calls():
    cache = nt.prepare_hessian_cache(lambda x: x[0] ** 3 if x[0] > 1 else x[0] ** 2, np.ones(1))
    for x, second in ((0.5, 2.0), (0.6, 2.0), (1.1, 6.6), (1.2, 7.2), (0.5, 2.0)):
        hessian = nt.value_gradient_and_hessian(cache, np.array([x]))[2]
        np.testing.assert_allclose(hessian, [[second]], rtol=1e-14)
    assert cache.traces >= 1


def test_several_arguments():
    cache = nt.prepare_hessian_cache(lambda x, y: np.sum(x * y**2), np.ones(2), np.ones(2))
    x, y = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    _, gradient, hessian = nt.value_gradient_and_hessian(cache, x, y)
    np.testing.assert_array_equal(gradient[0], y**2)
    np.testing.assert_array_equal(hessian[0][1], np.diag(2 * y))
    np.testing.assert_array_equal(hessian[1][1], np.diag(2 * x))
    _, _, product = nt.value_and_hvp(cache, (np.ones(2), np.zeros(2)), x, y)
    np.testing.assert_array_equal(product[0], np.zeros(2))
    np.testing.assert_array_equal(product[1], 2 * y)


def test_derivative_cache():
    cache = nt.prepare_derivative_cache(g, X)
    v = np.cos(np.arange(5.0))
    for x in (X, X + 1, X[:3]):
        value, tangent = nt.value_and_derivative(cache, (x, v[: x.size]))
        np.testing.assert_array_equal(value, g(x))
        np.testing.assert_allclose(tangent, nt.jacobian(g, mode="reverse")(x) @ v[: x.size], rtol=1e-13)
    scalar = nt.prepare_derivative_cache(f, X)
    for x in (X, X + 0.1, X + 0.2, X[:3], X):  # the second call of a size is steady
        value, (gradient,) = nt.value_and_gradient(scalar, x)
        np.testing.assert_allclose(value, f(x), rtol=1e-14)
        np.testing.assert_allclose(gradient, nt.grad(f)(x), rtol=1e-13)


def test_lanes():
    cache = nt.prepare_derivative_cache(lambda x, y: {"p": x * y, "k": x[0]}, X, 2.0, lanes=3)
    dx, dy = np.random.default_rng(0).normal(size=(3, 5)), np.array([1.0, 0.0, -1.0])
    value, tangent = nt.value_and_derivative(cache, (X, dx), (2.0, dy))
    np.testing.assert_array_equal(value["p"], 2.0 * X)
    np.testing.assert_allclose(tangent["p"], 2.0 * dx + dy[:, None] * X, rtol=1e-15)
    np.testing.assert_array_equal(tangent["k"], dx[:, 0])
    with pytest.raises(nt.SpecError, match="plain tangent; a cache of lanes=3"):
        nt.value_and_derivative(cache, (X, X), (2.0, dy))
    with pytest.raises(nt.SpecError, match=r"needs real numbers of shape \(3, 5\)"):
        nt.value_and_derivative(cache, (X, dx[:2]), (2.0, dy))


def test_flat_tangents():
    config = nt.Config(friendly_tangents=False)
    p = {"a": np.array([1.0, 2.0]), "b": 3.0}
    cache = nt.prepare_hessian_cache(lambda p: np.sum(p["a"] ** 2) * p["b"], p, config=config)
    _, gradient, hessian = nt.value_gradient_and_hessian(cache, p)
    np.testing.assert_array_equal(gradient, [6.0, 12.0, 5.0])
    np.testing.assert_array_equal(hessian, [[6.0, 0.0, 2.0], [0.0, 6.0, 4.0], [2.0, 4.0, 0.0]])
    _, _, product = nt.value_and_hvp(cache, {"a": np.zeros(2), "b": 1.0}, p)
    np.testing.assert_array_equal(product, [2.0, 4.0, 0.0])
    np.testing.assert_array_equal(cache.layout.unravel(product)[0]["a"], [2.0, 4.0])


def test_passes_leave_results_as_they_are():
    function = lambda x: np.sum(np.sin(x) * np.cos(x)) + np.sum(np.sin(x) ** 2)  # noqa: E731
    caches = [nt.prepare_hessian_cache(function, X, config=nt.Config(passes=p)) for p in ("all", "none")]
    results = [nt.value_gradient_and_hessian(cache, X) for cache in caches]
    for left, right in zip(*results, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-14, atol=1e-15)
    tapes = [nt.prepare_gradient_cache(function, X, config=nt.Config(passes=p)).tape for p in ("all", "none")]
    assert len(tapes[0]) < len(tapes[1])


def test_bind():
    cache = nt.prepare_hessian_cache(f, X)
    x, g, h = X.copy(), np.empty(5), np.empty((5, 5))
    run = cache.bind(x, out=(g, h))
    for step in (0.0, 0.1, -0.3):
        x[:] = X + step
        value, gradient, hessian = nt.value_gradient_and_hessian(cache, X + step)
        assert run() == value
        np.testing.assert_array_equal(g, gradient)
        np.testing.assert_allclose(h, hessian, rtol=1e-14, atol=1e-16)
    with pytest.raises(nt.SpecError, match="native byte order"):
        cache.bind(X.astype(">f8"))
    branch = nt.prepare_hessian_cache(lambda x: x[0] ** 3 if x[0] > 1 else x[0] ** 2, np.ones(1))
    x = np.array([0.5])
    run = branch.bind(x)
    for point, second in ((0.5, 2.0), (2.0, 12.0), (0.7, 2.0)):
        x[0] = point
        run()
        np.testing.assert_allclose(run.out[1], [[second]])
    with pytest.raises(nt.SpecError, match="hessian must be a C-contiguous array"):
        cache.bind(X, out=(g, np.empty((5, 4))))


def banded(x):
    return np.sum((x[1:] - x[:-1] ** 2) ** 2) + np.sum(np.cos(x))


def banded_or_diagonal(x):
    return banded(x) if x[0] > 0 else np.sum(x**3)


def rows_of_five(x):
    return np.sum(np.sum(np.sin(x.reshape(-1, 5)), axis=1) ** 2)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("function", [banded, banded_or_diagonal, rows_of_five, lambda x: np.sum(3.0 * x)])
def test_hessians_with_few_colours(function, mode):
    """Their entries come from a few products; everything else is as with all columns."""
    config = nt.Config(second_order_mode=mode)
    cache = nt.prepare_hessian_cache(function, np.ones(40), config=config)
    every = nt.prepare_hessian_cache(function, np.ones(40), config=nt.Config(chunk_size=40))
    buffer = np.ones(40)
    bound = cache.bind(buffer)
    rng = np.random.default_rng(0)
    for n in (40, 40, 40, 25, 25, 40, 10, 40):
        x = rng.normal(size=n)
        value, gradient, hessian = nt.value_gradient_and_hessian(cache, x)
        wanted = nt.value_gradient_and_hessian(every, x)
        np.testing.assert_allclose(value, wanted[0], rtol=1e-14)
        np.testing.assert_allclose(gradient, wanted[1], rtol=1e-14, atol=1e-15)
        np.testing.assert_allclose(hessian, wanted[2], rtol=1e-13, atol=1e-14)
        if n == 40:
            buffer[:] = x
            assert bound() == value
            np.testing.assert_array_equal(bound.out[0], gradient)
            np.testing.assert_array_equal(bound.out[1], hessian)


def test_few_colours_in_several_sweeps(monkeypatch):
    """Where the cells of one colour fill the processor's cache, each colour takes a sweep of its own."""
    monkeypatch.setattr(derived, "LANE_CELLS", 1)
    cache = nt.prepare_hessian_cache(banded, np.ones(40))
    every = nt.prepare_hessian_cache(banded, np.ones(40), config=nt.Config(chunk_size=40))
    for x in np.random.default_rng(0).normal(size=(3, 40)):
        made, wanted = (nt.value_gradient_and_hessian(c, x) for c in (cache, every))
        for part, other in zip(made, wanted, strict=True):
            np.testing.assert_allclose(part, other, rtol=1e-13, atol=1e-14)


def test_clones_are_independent():
    cache = nt.prepare_hessian_cache(f, X)
    first = nt.value_gradient_and_hessian(cache, X)[2]
    other = cache.clone()
    second = nt.value_gradient_and_hessian(other, X + 0.1)[2]
    np.testing.assert_array_equal(nt.value_gradient_and_hessian(cache, X)[2], first)
    np.testing.assert_array_equal(nt.value_gradient_and_hessian(other, X + 0.1)[2], second)


@pytest.mark.parametrize(
    "call, error, text",
    [
        (
            lambda: nt.prepare_hessian_cache(g, X),
            nt.OutputError,
            "a Hessian needs a function that returns one real",
        ),
        (lambda: nt.prepare_hvp_cache(g, X), nt.OutputError, "a Hessian needs"),
        (
            lambda: nt.value_gradient_and_hessian(nt.prepare_hvp_cache(f, X), X),
            TypeError,
            "needs a cache of prepare_hessian_cache, got HvpCache",
        ),
        (lambda: nt.value_and_hvp(nt.prepare_hvp_cache(f, X), X[:2], X), nt.SpecError, r"shape \(5,\)"),
        (lambda: nt.prepare_derivative_cache(f, X, lanes=0), ValueError, "must be a positive integer"),
        (lambda: nt.Config(chunk_size=0), ValueError, "chunk_size must be a positive integer or None"),
        (
            lambda: nt.value_and_gradient(nt.prepare_derivative_cache(g, X), X),
            nt.OutputError,
            "perhaps you meant",
        ),
        (
            lambda: nt.value_and_jacobian(nt.prepare_gradient_cache(f, X), X),
            TypeError,
            "prepare_derivative_cache",
        ),
        (
            lambda: nt.value_and_derivative(nt.prepare_derivative_cache(f, X), X),
            nt.ArityError,
            r"a pair \(x, dx\)",
        ),
    ],
)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_a_constant_cotangent_is_there_before_the_prologue_needs_it():
    """The one-hot cotangent of an entry depends on constants alone, and weighs directions in lanes."""
    rates = np.array([2.0, 3.0])
    rule = nt.primitive(
        lambda x: rates * np.exp(-x[0]), pullback=lambda ybar, y, x: (np.array([-np.sum(ybar * y)]),)
    )
    x = np.array([1.5])
    exact = [[3.0 * np.exp(-1.5)]]
    np.testing.assert_allclose(nt.hessian(lambda x: rule(x)[1])(x), exact, rtol=1e-14)
    twice = nt.jacobian(nt.jacobian(lambda x: rule(x)[1], mode="reverse"), mode="reverse")
    np.testing.assert_allclose(twice(x), exact, rtol=1e-14)
