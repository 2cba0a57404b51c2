"""Derivatives are recorded without numbers, and Jacobians inside of a trace as one walk with lanes."""

import numpy as np
import pytest

import numbatape as nt
from numbatape.trace.evaluation import Evaluation

RNG = np.random.default_rng(3)
W = RNG.normal(size=(3, 3))


def loop(x):
    total = x[0]
    for k in range(3):
        total = np.tanh(total) * x[k] + x[k] / (1.0 + total**2)
    return total


def arrays(x):
    h = np.tanh(W @ x)
    a = np.outer(h, h) + np.diag(np.exp(x))
    return np.sum(np.linalg.solve(a, x)) + np.log(np.linalg.det(a)) + np.max(x) * np.sort(h)[1]


def written(x):
    y = np.zeros(4)
    y[1:] = np.sin(x)
    y[0] = np.sum(y)
    return np.sum(y**3)


FUNCTIONS = [loop, arrays, written]
VERBS = {
    "hessian": lambda f, x: nt.hessian(f)(x),
    "hvp": lambda f, x: nt.hvp(f)(x, x),
    "jacobian": lambda f, x: nt.jacobian(lambda x: f(x) * x)(x),
    "jvp": lambda f, x: nt.jvp(f, (x,), (x,)),
    "jacobian of a gradient": lambda f, x: nt.jacobian(nt.grad(f))(x),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_nothing_is_evaluated(f, verb, monkeypatch):
    """But what depends on a determinant's operand: by it the rule is chosen."""
    asked = []
    value = Evaluation.value
    monkeypatch.setattr(Evaluation, "value", lambda self, number: asked.append(number) or value(self, number))
    VERBS[verb](f, np.array([0.3, -0.2, 0.7]))
    assert not asked or f is arrays


def test_a_value_is_there_when_python_asks():
    seen = []

    def newton(a):
        x = 1.0 + 0.0 * a
        for _ in range(50):
            step = (x**2 - a) / nt.grad(lambda x: x**2 - a)(x)
            x = x - step
            seen.append(abs(step))
            if abs(step) < 1e-12:
                break
        return x

    assert nt.grad(newton)(2.0) == pytest.approx(0.5 / np.sqrt(2.0), rel=1e-12)
    assert len(seen) < 10


def test_what_is_kept_of_a_derivative_has_its_numbers():
    kept = {}

    def f(x):
        kept["slope"] = nt.grad(lambda x: np.sum(x**3))(x)
        return np.sum(x)

    nt.grad(f)(np.array([1.0, 2.0]))
    np.testing.assert_allclose(kept["slope"], [3.0, 12.0])


def several(x, y):
    return np.sin(x)[:, None] * y[0], np.sum(x) * y, x[0] * 2.0


def inside(derivative, *args):
    """Return the value of a derivative that is taken inside of a traced function."""
    return nt.jvp(derivative, args, tuple(np.zeros_like(x) for x in args))[0]


@pytest.mark.parametrize("mode", ["forward", "reverse", "auto"])
@pytest.mark.parametrize("f, args", [
    (lambda x: np.tanh(W @ x), (RNG.normal(size=3),)),
    (lambda x: np.sum(x**2), (RNG.normal(size=(2, 3)),)),
    (lambda x: np.linalg.inv(x), (RNG.normal(size=(3, 3)),)),
    (lambda x: x * np.arange(3.0), (np.float64(0.7),)),
    (lambda x: x[0] ** 2, (np.array([0.4]),)),
    (lambda x: np.cumprod(x)[::-1], (RNG.normal(size=4),)),
    (lambda x: x, (np.zeros(0),)),
])  # fmt: skip
def test_a_jacobian_inside_is_the_one_outside(f, args, mode):
    np.testing.assert_allclose(
        inside(nt.jacobian(f, mode=mode), *args), nt.jacobian(f, mode=mode)(*args), rtol=1e-13, atol=1e-14
    )


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_jacobians_of_several_leaves(mode):
    args = RNG.normal(size=3), RNG.normal(size=(2, 2))
    outside = nt.jacobian(several, argnums=(0, 1), mode=mode)(*args)
    found = inside(nt.jacobian(several, argnums=(0, 1), mode=mode), *args)
    for ours, theirs in zip(found, outside, strict=True):
        for part, other in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(part, other, rtol=1e-13, atol=1e-14)


def test_a_rule_is_called_for_one_direction_at_a_time():
    rule = nt.primitive(lambda x: np.sin(x), pullback=lambda ybar, y, x: (ybar * np.cos(x),))
    x = RNG.normal(size=3)
    found = inside(nt.jacobian(lambda x: rule(x) * x[0]), x)
    np.testing.assert_allclose(found, nt.jacobian(lambda x: np.sin(x) * x[0])(x), rtol=1e-13)


@pytest.mark.parametrize("derivative", [
    lambda f: nt.jacobian(f, mode="forward"),
    lambda f: nt.jacobian(f, mode="reverse"),
    lambda f: nt.hessian(lambda x: np.sum(f(x))),
], ids=["forward", "reverse", "hessian"])  # fmt: skip
def test_instructions_inside_do_not_grow_with_directions(derivative):
    def g(x):
        return np.sum(derivative(lambda x: np.tanh(x * x[::-1]) + np.sum(x))(x) ** 2)

    counts = {len(nt.prepare_gradient_cache(g, np.linspace(0.1, 1.0, n)).tape) for n in (3, 5, 9)}
    assert len(counts) == 1
