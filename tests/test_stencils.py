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
