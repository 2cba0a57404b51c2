"""Functions of ``math`` with floats are called in a shorter way, which records what the general one does."""

import math

import numpy as np
import pytest

import numbatape as nt
from numbatape.numpy_api import stand_ins

X = np.array([0.3, 0.7, 0.9])

CALLS = {
    "one float": lambda x: math.sin(x[0]) + math.exp(-x[1]) + math.sqrt(x[2]),
    "without a guard": lambda x: math.tanh(x[0]) * math.atan(x[1]) + math.fabs(-x[2]),
    "two floats": lambda x: math.hypot(x[0], x[1]) + math.atan2(x[1], 2) + math.pow(x[2], 3),
    "three floats": lambda x: math.hypot(x[0], x[1], x[2]),
    "two constants": lambda x: math.fmod(5.5, x[0]) + math.copysign(x[1], -1.0),
    "row of the table": lambda x: math.erf(x[0]) + math.lgamma(x[1]) + math.gamma(1.0 + x[2]),
    "truth value": lambda x: x[1] if math.isnan(x[0]) or math.isinf(x[1]) else x[2],
    "whole number": lambda x: math.floor(10.0 * x[0]) * x[1] + math.ceil(x[2]) * x[0],
    "float32": lambda x: math.sin(np.float32(x[0])) + math.exp(x.astype(np.float32)[1]),
    "integer": lambda x: math.sqrt(np.sum(x > 0.5)) * x[0] + math.log(len(x)),
    "array of one entry": lambda x: math.sin(np.sum(x, keepdims=True)[0]) + math.cos(x[:1].reshape(())),
    "list": lambda x: math.prod([x[0], x[1], 2.0]) + math.fsum([x[0], x[2]]) + math.dist([x[0]], [x[2]]),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls_are_recorded_as_the_general_way_does(name, monkeypatch):
    f = CALLS[name]
    tapes, gradients = [], []
    for family in (stand_ins.F64, None):  # no array is of the second one: all calls take the general way
        monkeypatch.setattr(stand_ins, "F64", family)
        cache = nt.prepare_gradient_cache(lambda x: f(x) * 1.0, X)
        tapes.append(cache.tape.code.tolist())
        for x in (X, 1.1 * X):
            value, (gradient,) = nt.value_and_gradient(cache, x)
            assert value == pytest.approx(f(x), rel=1e-15)
            gradients.append(gradient.tolist())
    assert tapes[0] == tapes[1]
    assert gradients[:2] == gradients[2:]


def test_loops_over_numbers_take_the_shorter_way(monkeypatch):
    def refuse(*args):
        raise AssertionError("the general way")

    monkeypatch.setattr(stand_ins, "unflattened", refuse)
    value, gradient = nt.value_and_grad(lambda x: sum([math.sin(y) * math.pow(y, 2) for y in x]))(X)
    assert value == pytest.approx(np.sum(np.sin(X) * X**2), rel=1e-15)
    np.testing.assert_allclose(gradient, np.cos(X) * X**2 + 2.0 * X * np.sin(X), rtol=1e-14)


def test_errors_are_those_of_python():
    """A call that raises marks the trace, which holds for these arguments only."""

    def f(x):
        try:
            return math.sqrt(x[0]) + x[1]
        except ValueError:
            return x[2] * 3.0

    cache = nt.prepare_gradient_cache(f, X)
    for x in (X, -X, X, -2.0 * X):
        value, (gradient,) = nt.value_and_gradient(cache, x)
        assert value == pytest.approx(f(x))
        assert (gradient[2] == 3.0) == (x[0] < 0.0)
    with pytest.raises(OverflowError, match="math range error"):
        nt.grad(lambda x: math.exp(1e4 * x[0]))(X)
