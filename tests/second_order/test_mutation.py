"""Second order and nesting through writes in place, against the same functions without writes."""

import numpy as np
import pytest

import numbatape as nt

X = np.array([0.3, -0.5, 0.7, 1.1])


def entries(x):
    out = np.zeros(4)
    for i in range(4):
        out[i] = np.sin(x[i]) * x[i - 1]
    return np.sum(out**2)


def entries_plain(x):
    return np.sum((np.sin(x) * np.roll(x, 1)) ** 2)


def recurrence(x):
    y = x.copy()
    for i in range(1, 4):
        y[i] = y[i] * y[i - 1]
        y[i] += x[0]
    return np.sum(y**3)


def recurrence_plain(x):
    parts = [x[0]]
    for i in range(1, 4):
        parts.append(x[i] * parts[-1] + x[0])
    return np.sum(np.stack(parts) ** 3)


def overlapping(x):
    y = 1.0 * x
    y[1:] += y[:-1] ** 2
    v = y[2:4]
    v *= 2.0
    b = y
    b *= x
    return np.sum(np.exp(0.3 * y))


def overlapping_plain(x):
    y = np.concatenate([x[:1], x[1:] + x[:-1] ** 2])
    y = y * np.array([1.0, 1.0, 2.0, 2.0]) * x
    return np.sum(np.exp(0.3 * y))


def to_the_argument(x):
    x[0] = x[1] * x[2]
    x *= x
    return np.sum(x[:3] * x[1:])


def to_the_argument_plain(x):
    y = np.concatenate([(x[1] * x[2]).reshape(1), x[1:]]) ** 2
    return np.sum(y[:3] * y[1:])


def masked(x):
    y = np.zeros_like(x)
    y[x > 0] = x[x > 0] ** 2
    y[np.array([0, 0, 1])] += x[1:]
    return np.sum(y * x)


def masked_plain(x):
    # of repeated positions the last one counts, as in NumPy
    y = np.where(x > 0, x**2, 0.0)
    return np.sum((y + np.stack([x[2], x[3], 0.0 * x[0], 0.0 * x[0]])) * x)


PAIRS = [
    (entries, entries_plain),
    (recurrence, recurrence_plain),
    (overlapping, overlapping_plain),
    (to_the_argument, to_the_argument_plain),
    (masked, masked_plain),
]


@pytest.mark.parametrize("writes, plain", PAIRS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("mode", ["reverse_over_forward", "forward_over_reverse"])
def test_hessians(writes, plain, mode):
    cache = nt.prepare_hessian_cache(writes, X, config=nt.Config(second_order_mode=mode))
    for x in (X, X + 0.05):
        before = x.copy()
        value, gradient, hessian = nt.value_gradient_and_hessian(cache, x)
        np.testing.assert_array_equal(x, before)
        np.testing.assert_allclose(value, plain(x), rtol=1e-14)
        np.testing.assert_allclose(gradient, nt.grad(plain)(x), rtol=1e-13)
        np.testing.assert_allclose(hessian, nt.hessian(plain)(x), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("writes, plain", PAIRS, ids=lambda f: f.__name__)
def test_nesting_forward_mode_and_batches(writes, plain):
    v = np.array([1.0, -2.0, 0.5, 0.3])
    np.testing.assert_allclose(nt.jvp(writes, (X,), (v,))[1], nt.jvp(plain, (X,), (v,))[1], rtol=1e-13)
    third = nt.grad(lambda x: np.sum(nt.hessian(writes)(x) ** 2))(X)
    np.testing.assert_allclose(third, nt.grad(lambda x: np.sum(nt.hessian(plain)(x) ** 2))(X), rtol=1e-11)
    points = X + 0.01 * np.arange(5)[:, None]
    values, gradients = nt.batch(writes)(points)
    expected = nt.batch(plain)(points)
    np.testing.assert_allclose(values, expected[0], rtol=1e-13)
    np.testing.assert_allclose(gradients, expected[1], rtol=1e-12)


def test_a_gradient_may_be_written_to():
    def f(x):
        g = nt.grad(lambda y: np.sum(y**2) + np.sum(y) * 0.0)(x)
        before = np.sum(g * x)
        g[0] = 0.0
        g *= x
        return before + np.sum(g)

    def plain(x):
        return np.sum(2 * x**2) + np.sum(2 * x[1:] ** 2)

    np.testing.assert_allclose(nt.grad(f)(X), nt.grad(plain)(X), rtol=1e-14)
    np.testing.assert_allclose(nt.hessian(f)(X), nt.hessian(plain)(X), rtol=1e-14, atol=1e-15)


def test_what_is_written_after_a_gradient_does_not_reach_it():
    def f(x):
        y = x * 2.0
        total, pullback = nt.vjp(lambda z: np.sum(z * y * z), x)
        y[:] = 0.0
        return np.sum(pullback(1.0)[0]) + np.sum(y) + total

    np.testing.assert_allclose(nt.grad(f)(X), 8 * X + 6 * X**2, rtol=1e-14)


def test_inner_writes_stay_inside():
    def inner(y):
        y[0] = 5.0
        return np.sum(y**2)

    def f(x):
        return np.sum(nt.grad(inner)(x)) + x[0]

    np.testing.assert_allclose(nt.grad(f)(X), [1.0, 2.0, 2.0, 2.0])


def shifted(x):
    y = x**2
    y[1:] *= y[:-1]
    z = np.zeros((2, 2))
    z[0] = y[:2]
    z[1, 1] = y[3] * x[0]
    return {"y": y, "z": z, "view": y[::-1], "x": x}


def shifted_plain(x):
    y = np.concatenate([x[:1] ** 2, x[1:] ** 2 * x[:-1] ** 2])
    z = np.stack([y[0], y[1], 0.0 * x[0], y[3] * x[0]]).reshape(2, 2)
    return {"y": y, "z": z, "view": y[::-1], "x": x}


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_arrays_that_were_written_to_as_results(mode):
    mine, reference = (nt.jacobian(f, mode=mode)(X) for f in (shifted, shifted_plain))
    inner, plain = (
        nt.jacobian(lambda x, f=f: nt.jacobian(f, mode=mode)(x)["y"])(X) for f in (shifted, shifted_plain)
    )
    np.testing.assert_allclose(inner, plain, rtol=1e-14)
    pushed = nt.jvp(shifted, (X,), (X,))[1]
    for name, block in reference.items():
        np.testing.assert_allclose(mine[name], block, rtol=1e-14)
        np.testing.assert_allclose(pushed[name], block @ X, rtol=1e-13)
    batched = nt.batch(lambda x: shifted(x)["y"])(np.stack([X, 2 * X]))[1]
    np.testing.assert_allclose(batched[0], reference["y"], rtol=1e-14)
    sparse = nt.sparse_jacobian(lambda x: shifted(x)["y"])(X).toarray()
    np.testing.assert_allclose(sparse, reference["y"], rtol=1e-14)
    cache = nt.prepare_derivative_cache(lambda x: shifted(x)["y"], X)
    np.testing.assert_allclose(nt.value_and_jacobian(cache, X)[1], reference["y"], rtol=1e-14)


def test_the_derivative_of_a_function_that_returns_what_it_wrote():
    def powers(t):
        out = np.empty(3)
        for k in range(3):
            out[k] = t**k
        return out

    np.testing.assert_allclose(nt.derivative(powers)(2.0), [0.0, 1.0, 4.0])
    np.testing.assert_allclose(nt.derivative(nt.derivative(powers))(2.0), [0.0, 0.0, 2.0])


def test_plain_arrays_are_arguments_of_inner_verbs():
    def f(x):
        p = np.zeros(4)
        p[0] = 1.0
        inner = nt.grad(lambda w: np.sum((w - x) ** 2 * x))(p)
        return np.sum(inner) + nt.jvp(lambda w: np.sum(w * w * x), (p,), (p + 1.0,))[1]

    def plain(x):
        p = np.array([1.0, 0.0, 0.0, 0.0])
        return np.sum(2 * (p - x) * x) + 4.0 * x[0]

    np.testing.assert_allclose(nt.grad(f)(X), nt.grad(plain)(X), rtol=1e-14)


K = np.array([1.0, 2.0, 3.0, 4.0])


@pytest.mark.parametrize(
    "made",
    [
        lambda x: nt.grad(lambda a: np.sum(x**2))(x),
        lambda x: nt.jvp(lambda a: x**2, (x,), (x,))[1],
        lambda x: nt.jvp(lambda a: x, (x,), (x,))[0],
        lambda x: nt.value_and_grad(lambda a: np.sum(a**2))(K)[1],
        lambda x: nt.vjp(np.square, K)[1](K)[0],
        lambda x: nt.vmap(np.square)(K),
        lambda x: nt.jacobian(np.square)(K)[1],
        lambda x: nt.grad(lambda a: (np.sum(a**2), K), has_aux=True)(x)[1],
        lambda x: nt.grad(lambda a: (np.sum(a**2), K), has_aux=True)(K)[1],
        lambda x: nt.grad(lambda a: (np.sum(a**2), x), has_aux=True)(x)[1],
    ],
)
def test_what_verbs_return_may_be_written_to(made):
    """Also where it does not depend on what is traced; what the function refers to stays as it is."""

    def f(x):
        inner = x * 1.0
        result = made(inner)
        result[0] = x[1]
        return np.sum(result**2) + np.sum(inner) + np.sum(K)

    value, gradient = nt.value_and_grad(f)(X)
    np.testing.assert_allclose(value, f(X), rtol=1e-14)
    np.testing.assert_allclose(gradient @ K, nt.jvp(f, (X,), (K,))[1], rtol=1e-13)


def test_pullbacks_at_plain_points_take_traced_cotangents():
    def f(x, has_aux):
        function = (lambda a: (a**2 * K, a)) if has_aux else (lambda a: a**2 * K)
        pullback = nt.vjp(function, K, has_aux=has_aux)[1]
        return np.sum(pullback(x**2)[0]) + np.sum(pullback(K)[0])

    for has_aux in (False, True):
        np.testing.assert_allclose(nt.grad(f)(X, nt.Static(has_aux)), 4.0 * K**2 * X)
