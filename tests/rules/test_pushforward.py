"""A pushforward that the user gives is what forward mode computes, in every verb and cache."""

import numba
import numpy as np
import pytest

import numbatape as nt

X = np.array([0.3, 0.5])


def pullback(ybar, y, x):
    return (ybar * np.cos(x),)


def pushforward(tangents, y, x):
    return (
        2.0 * tangents[0] * np.cos(x)
    )  # twice the derivative: the tests tell it from the pullback's transpose


RULES = {
    "Python": nt.primitive(lambda x: np.sin(x), pullback=pullback, pushforward=pushforward),
    "compiled pushforward": nt.primitive(
        lambda x: np.sin(x), pullback=pullback, pushforward=numba.njit(pushforward)
    ),
    "compiled": nt.primitive(
        numba.njit(lambda x: np.sin(x)), pullback=numba.njit(pullback), pushforward=numba.njit(pushforward)
    ),
    "with memory": nt.primitive(
        lambda x, workspace: np.sin(x),
        pullback=lambda ybar, y, x, workspace: pullback(ybar, y, x),
        pushforward=lambda t, y, x, workspace: pushforward(t, y, x),
        workspace=lambda x: {"memory": (x.shape, x.dtype)},
    ),
}


def by_cache(rule):
    return nt.value_and_derivative(nt.prepare_derivative_cache(rule, X), (X, np.ones(2)))[1]


def by_lanes(rule):
    cache = nt.prepare_derivative_cache(rule, X, lanes=2)
    return np.sum(nt.value_and_derivative(cache, (X, np.eye(2)))[1], axis=0)


FORWARD = {
    "jvp": lambda rule: nt.jvp(rule, (X,), (np.ones(2),))[1],
    "derivative": lambda rule: np.stack([nt.derivative(lambda t, k=k: rule(X + t)[k])(0.0) for k in (0, 1)]),
    "jacobian": lambda rule: np.sum(nt.jacobian(rule, mode="forward")(X), axis=1),
    "derivative cache": by_cache,
    "lanes": by_lanes,
    "Jacobian of a derivative cache": lambda rule: np.sum(
        nt.value_and_jacobian(nt.prepare_derivative_cache(rule, X), X)[1], axis=1
    ),
    "jvp in a jvp": lambda rule: nt.jvp(lambda x: nt.jvp(rule, (x,), (np.ones(2),))[1], (X,), (X,))[0],
}  # fmt: skip


@pytest.mark.parametrize("how", FORWARD)
@pytest.mark.parametrize("rule", RULES)
def test_forward_mode_calls_it(rule, how):
    np.testing.assert_allclose(FORWARD[how](RULES[rule]), 2.0 * np.cos(X), rtol=1e-14)


@pytest.mark.parametrize("rule", RULES)
def test_reverse_mode_does_not(rule):
    of = RULES[rule]
    np.testing.assert_allclose(nt.grad(lambda x: np.sum(of(x)))(X), np.cos(X), rtol=1e-14)
    np.testing.assert_allclose(nt.jacobian(of, mode="reverse")(X), np.diag(np.cos(X)), rtol=1e-14)
    np.testing.assert_allclose(nt.vjp(of, X)[1](np.ones(2))[0], np.cos(X), rtol=1e-14)


@pytest.mark.parametrize("rule", ["Python", "compiled pushforward", "compiled"])
def test_reverse_over_forward_differentiates_it_again(rule):
    of = RULES[rule]
    product = nt.hvp(lambda x: np.sum(of(x)))(X, np.ones(2))
    np.testing.assert_allclose(product, -2.0 * np.sin(X), rtol=1e-14)
    slope = nt.grad(lambda t: nt.jvp(of, (t,), (np.ones(2),))[1][0])(X)
    np.testing.assert_allclose(slope, [-2.0 * np.sin(X[0]), 0.0], rtol=1e-14)


def test_several_arguments_of_which_some_are_constant():
    def push(tangents, y, x, c, z):
        assert tangents[1] is None
        return 10.0 * (tangents[0] * c * z + x * c * tangents[2])

    product = nt.primitive(
        lambda x, c, z: x * c * z,
        pullback=lambda ybar, y, x, c, z: (ybar * c * z, None, ybar * x * c),
        pushforward=push,
    )
    c = np.array([2.0, 3.0])
    result = nt.jvp(lambda x, z: product(x, c, z), (X, X), (np.ones(2), np.zeros(2)))[1]
    np.testing.assert_allclose(result, 10.0 * c * X, rtol=1e-14)
