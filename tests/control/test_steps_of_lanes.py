"""Loops whose lanes take different numbers of steps: each lane has what it has alone."""

import ctypes

import numpy as np
import pytest

import numbatape as nt
from numbatape.engine import calls
from numbatape.engine.loops.loop_words import WORD

M = np.array([[0.6, 0.3], [-0.2, 0.7]])
ROWS = np.array([0.3, -0.1, 0.2])


class Python:
    """Loops as Python runs them."""

    @staticmethod
    def while_loop(holds, body, carry, max_steps):
        count = 0
        while holds(carry):
            assert count < max_steps
            carry, count = body(carry), count + 1
        return carry

    @staticmethod
    def scan(f, carry, rows):
        for row in rows:
            carry, _ = f(carry, row)
        return carry, None


def root(its, x):
    """Newton's method: the sum of the steps' results is a carry that the body does not read."""

    def body(c):
        y = 0.5 * (c[0] + x[0] * x[0] / c[0])
        return y, c[1] + y * x[1]

    y, total = its.while_loop(lambda c: np.abs(c[0] ** 2 - x[0] ** 2) > 1e-9, body, (x[0] ** 2, 0.0), 400)
    return y * total


def decay(its, x):
    """A counter that lanes share while they run, a condition on a number from outside, a vector."""

    def body(c):
        k, v = c
        return k + 1, np.tanh(M @ v) + 0.01 * np.sin(x)

    k, v = its.while_loop(lambda c: (c[0] < 250) & (np.sum(c[1] ** 2) > 0.1 * x[1] ** 2), body, (0, x), 400)
    return np.sum(v * v) + k * x[0]


def counted(its, x):
    """The number of steps is a number of the point, and the body writes and has a loop in it."""

    def body(c):
        k, v = c
        v = its.scan(lambda v, r: (v + 0.1 * r * np.cos(v * x), None), v, ROWS)[0]
        v[0] = 0.9 * v[1]
        return k + 1, v

    return np.sum(its.while_loop(lambda c: c[0] < 4 * x[0], body, (0, 1.0 * x), 400)[1] ** 2)


# The first one takes no step in two of the functions; the fourth one takes many more than the others.
POINTS = np.array(
    [[-1.0, 7.0], [0.4, 0.5], [0.9, -0.3], [30.0, 0.001], [1.1, 0.2], [0.7, 0.3], [0.0625, 2.0]]
)


@pytest.mark.parametrize("verb", [lambda f: f, nt.grad, nt.hessian], ids=["value", "grad", "hessian"])
@pytest.mark.parametrize("function", [root, decay, counted])
def test_each_lane_has_what_it_has_alone(function, verb, monkeypatch):
    found, lanes_of = [], calls.lanes_of
    monkeypatch.setattr(calls, "lanes_of", lambda *each: found.append(lanes_of(*each)) or found[-1])
    mapped, alone = nt.vmap(verb(lambda x: function(nt, x))), verb(lambda x: function(Python, x))
    for points in (POINTS, POINTS[:3], POINTS[::-1] * 0.5):
        expected = [alone(x) for x in points]
        np.testing.assert_allclose(mapped(points), expected, rtol=1e-11, atol=1e-12)
    assert any(each is not None and each.apart for each in found)
    assert all(each is not None for each in found if function is not counted)


@pytest.mark.parametrize("verb", [lambda f: f, nt.grad], ids=["value", "grad"])
def test_a_lane_with_many_more_steps_does_not_keep_the_others(verb, monkeypatch):
    """It is left alone: not all lanes compute all of its steps."""
    runs, make = [], calls.make_run

    def made(*args, **options):
        runs.append(make(*args, **options))
        return runs[-1]

    monkeypatch.setattr(calls, "make_run", made)

    def f(its, x):
        y = its.while_loop(lambda c: c[0] < x, lambda c: (c[0] + 1, np.sin(c[1] + x)), (0, x), 9000)[1]
        return y * y

    points = np.array([3.0, 8000.0, 5.0, 2.0, 4.0, 1.0])
    expected = [verb(lambda x: f(Python, x))(x) for x in points]
    np.testing.assert_allclose(nt.vmap(verb(lambda x: f(nt, x)))(points), expected, rtol=1e-11)
    counts = [int(run.state[WORD["COUNTS"]]) for run in runs if run.state[WORD["APART"]]]
    assert counts
    for address in counts:
        found = list((ctypes.c_int64 * len(points)).from_address(address))
        assert found[1] == -1
        assert found[:1] + found[2:] == [3, 5, 2, 4, 1]


def test_a_lane_that_takes_too_many_steps_is_an_error():
    f = nt.vmap(lambda x: nt.while_loop(lambda v: v < 1.0, lambda v: 2.0 * v, x, max_steps=5))
    np.testing.assert_allclose(f(np.array([0.1, 0.04, 3.0])), [1.6, 1.28, 3.0])
    with pytest.raises(nt.StepsError, match="max_steps=5"):
        f(np.array([0.1, 0.01, 3.0]))
    np.testing.assert_allclose(f(np.array([0.3, 0.04, 3.0])), [1.2, 1.28, 3.0])
