"""Shifted slices written in place, step after step: each step copies its array once, in a few pieces."""

import numpy as np
import pytest

import numbatape as nt

STEPS = 3
STENCILS = {}


def stencil(*shape):
    def register(f):
        STENCILS[f.__name__] = f, shape
        return f

    return register


@stencil(9)
def upwind(x):
    u = x.copy()
    for _ in range(STEPS):
        u[1:] -= 0.3 * (u[1:] - u[:-1])
    return u


@stencil(7, 8)
def heat(x):
    u = x * 1.0
    for _ in range(STEPS):
        u[1:-1, 1:-1] += 0.1 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1])
    return u


@stencil(7, 8)
def heat_in_columns(x):
    u = np.asfortranarray(np.exp(x))
    for _ in range(STEPS):
        u[1:-1, 1:-1] += 0.1 * u[2:, 1:-1] * u[1:-1, :-2]
    return u[::-1].T


@stencil(6, 7, 8)
def solid(x):
    u = x.copy()
    for _ in range(STEPS):
        u[1:-1, 1:-1, 1:-1] += 0.1 * (u[2:, 1:-1, 1:-1] - u[1:-1, 1:-1, :-2] * u[1:-1, :-2, 1:-1])
    return u


@stencil(9)
def wave(x):
    u = np.zeros((STEPS + 2, len(x)), x.dtype)
    u[0], u[1] = x, 0.9 * x
    for t in range(1, STEPS + 1):
        u[t + 1, 1:-1] = 2 * u[t, 1:-1] - u[t - 1, 1:-1] + 0.2 * (u[t, 2:] - 2 * u[t, 1:-1] + u[t, :-2])
    return u


@stencil(8, 10)
def red_and_black(x):
    u = x.copy()
    for step in range(2 * STEPS):
        k = step % 2
        u[1:-1, 1 + k : -1 : 2] = 0.5 * (u[:-2, 1 + k : -1 : 2] + u[1:-1, k:-2:2] * u[2:, 2 + k :: 2])
    return u


@stencil(8, 9)
def periodic(x):
    u = np.zeros((x.shape[0] + 2, x.shape[1] + 2), x.dtype)
    u[1:-1, 1:-1] = x
    for _ in range(STEPS):
        u[0], u[-1], u[:, 0], u[:, -1] = u[-2], u[1], u[:, -2], u[:, 1]
        u[1:-1, 1:-1] = u[1:-1, 1:-1] * u[2:, 1:-1] + 0.1 * u[1:-1, :-2]
    return u[1:-1, 1:-1]


@stencil(7, 8)
def rotated(x):
    z = np.zeros(x.shape, complex)
    z.real[...] = x
    for _ in range(STEPS):
        z[1:-1, 1:-1] += 0.1j * (z[2:, 1:-1] + z[1:-1, :-2])
    return z.real - z.imag


def point(shape):
    return np.random.default_rng(0).uniform(0.5, 1.5, shape)


@pytest.mark.parametrize("name", STENCILS)
def test_values_and_slopes(name):
    f, shape = STENCILS[name]
    x, direction = point(shape), np.sin(np.arange(float(np.prod(shape)))).reshape(shape)
    weights = np.cos(np.arange(f(x).size)).reshape(f(x).shape)
    value, gradient = nt.value_and_grad(lambda x: np.sum(weights * f(x)))(x)
    slope = np.sum(gradient * direction)
    np.testing.assert_allclose(value, np.sum(weights * f(x)), rtol=1e-13)
    near, far = (
        (np.sum(weights * f(x + h * direction)) - np.sum(weights * f(x - h * direction))) / (2 * h)
        for h in (1e-4, 2e-4)
    )
    np.testing.assert_allclose(slope, (4 * near - far) / 3, rtol=1e-9)
    np.testing.assert_allclose(np.sum(weights * nt.jvp(f, (x,), (direction,))[1]), slope, rtol=1e-12)


@pytest.mark.parametrize("name", STENCILS)
def test_instructions_do_not_grow_with_the_array(name):
    f, shape = STENCILS[name]
    few, many = (
        nt.prepare_gradient_cache(lambda x: np.sum(f(x) ** 2), point(np.multiply(shape, k))).tape
        for k in (1, 2)
    )
    assert len(few.code) == len(many.code)


# ---- linear expressions of shifted views are one instruction

LINEAR = ["upwind", "heat", "flat", "divided", "upside_down"]


@stencil(40)
def flat(x):
    u = x.copy()
    u[0] = 1.0
    for _ in range(STEPS):
        u[2:-2] = 0.5 * u[:-4] + (u[4:] - 2 * u[2:-2]) / 3.0 - (-u[1:-3])
    return u


@stencil(5, 6)
def divided(x):
    u = x.copy()
    for _ in range(STEPS):
        u[1:, 1:] = (u[1:, 1:] - u[:-1, 1:]) / 0.1 + (u[1:, 1:] - u[1:, :-1]) / 0.2
    return u


@stencil(6, 7)
def upside_down(x):
    u = x.copy()
    for _ in range(STEPS):
        u[:, 1:-1] = u[:, 2:] + 2.0 * (u[:, :-2] - u[:, 1:-1]) + u[:, 1:-1]
    return u.T[::-1]


@stencil(6, 7)
def with_a_parameter(x):
    u = x.copy()
    for _ in range(STEPS):
        u[1:-1] += x[0, 0] * (u[2:] - 2 * u[1:-1] + u[:-2]) + u[1:-1] * u[2:]
    return u


def random_program(seed):
    """Return a function that writes random linear expressions of slices into an array, and a shape."""
    rng = np.random.default_rng(seed)
    ndim = int(rng.integers(1, 4))
    shape = tuple(rng.integers(4, 7, ndim).tolist())
    lengths = [int(rng.integers(1, n)) for n in shape]

    def place():
        starts = [int(rng.integers(0, n - m + 1)) for n, m in zip(shape, lengths, strict=True)]
        return tuple(slice(k, k + m) for k, m in zip(starts, lengths, strict=True))

    def expression(depth):
        if depth == 0:
            at = place()
            return lambda u: u[at]
        left, right, kind, c = (
            expression(depth - 1),
            expression(depth // 2),
            int(rng.integers(6)),
            rng.normal(),
        )
        return (
            lambda u: left(u) + right(u),
            lambda u: left(u) - right(u),
            lambda u: -left(u) + right(u),
            lambda u: c * left(u) - right(u),
            lambda u: left(u) * c + right(u) * c,
            lambda u: right(u) - left(u) / c,
        )[kind]

    writes = [(place(), expression(int(rng.integers(1, 5)))) for _ in range(STEPS)]

    def f(x):
        u = x.copy()
        for at, its in writes:
            u[at] = its(u)
        return u

    return f, shape


def both_ways(f, x, verb):
    return [verb(f, x, nt.Config(passes=passes)) for passes in ("all", "none")]


def value_and_adjoint(f, x, config):
    cache = nt.prepare_pullback_cache(f, x, config=config)
    return nt.value_and_pullback(cache, np.cos(np.arange(f(x).size)).reshape(f(x).shape), x)


def value_and_hessian(f, x, config):
    cache = nt.prepare_hessian_cache(lambda x: np.sum(np.sin(f(x))), x, config=config)
    return nt.value_gradient_and_hessian(cache, x)


@pytest.mark.parametrize("case", [*STENCILS, *range(30)])
def test_bits_are_those_of_the_separate_operations(case):
    f, shape = STENCILS[case] if case in STENCILS else random_program(case)
    x = point(shape)
    (value, (adjoint,)), (expected, (other,)) = both_ways(f, x, value_and_adjoint)
    np.testing.assert_array_equal(value, expected)
    np.testing.assert_array_equal(value, f(x))
    np.testing.assert_allclose(adjoint, other, rtol=1e-13, atol=1e-13 * np.abs(other).max())


@pytest.mark.parametrize("case", [*LINEAR, *range(100, 110)])
def test_second_order_and_lanes(case):
    f, shape = STENCILS[case] if case in STENCILS else random_program(case)
    x = point(shape)
    (_, gradient, hessian), (_, other, expected) = both_ways(f, x, value_and_hessian)
    np.testing.assert_allclose(gradient, other, rtol=1e-12, atol=1e-13 * np.abs(other).max())
    np.testing.assert_allclose(hessian, expected, rtol=1e-12, atol=1e-12 * np.abs(expected).max())
    points = np.stack([x, x[::-1], 2 * x])
    values, gradients = nt.batch(lambda x: np.sum(np.sin(f(x))))(points)
    single = [nt.value_and_grad(lambda x: np.sum(np.sin(f(x))))(p) for p in points]
    np.testing.assert_allclose(values, [v for v, _ in single], rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(
        gradients, [g for _, g in single], rtol=1e-11, atol=1e-11 * np.abs(gradients).max()
    )


@pytest.mark.parametrize("case", ["heat", "flat", 100, 103])
def test_patterns_of_derivatives(case):
    f, shape = STENCILS[case] if case in STENCILS else random_program(case)
    dense = nt.jacobian(f)(point(shape)).reshape(-1, int(np.prod(shape)))
    vector = point(shape).reshape(-1)
    sparse = nt.sparse_jacobian(lambda v: f(v.reshape(shape)).reshape(-1))(vector)
    np.testing.assert_allclose(sparse.toarray(), dense, rtol=1e-12, atol=1e-13 * np.abs(dense).max())


@pytest.mark.parametrize("name", LINEAR)
def test_an_update_is_one_instruction_and_copies(name):
    f, shape = STENCILS[name]
    lines = nt.prepare_pullback_cache(f, point(shape)).tape.listing().splitlines()
    operations = [line.split()[1] for line in lines if "<-" in line]
    assert operations.count("stencil") == STEPS and {*operations[1:]} == {"stencil", "copy"}


def test_debug_mode():
    f, shape = STENCILS["heat"]
    config = nt.Config(debug_mode=True, silence_debug_messages=True)
    value, (adjoint,) = value_and_adjoint(f, point(shape), config)
    expected, (other,) = value_and_adjoint(f, point(shape), nt.Config())
    np.testing.assert_array_equal(value, expected)
    np.testing.assert_allclose(adjoint, other, rtol=1e-13)
