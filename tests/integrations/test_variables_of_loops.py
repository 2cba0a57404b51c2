# ruff: noqa: B023 (that functions do not bind the variables of a loop is what these tests are about)
"""Functions that solvers and rules get inside of a loop: they see the variables of their own turn.

A rule runs when the tape is swept, after the loop has ended.
"""

import functools
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.integrate
import scipy.optimize

import numbatape as nt

cube_root = functools.partial(scipy.optimize.newton, x0=1.0, tol=1e-13)


class Slots:
    __slots__ = ("size",)


class Decay:
    def __init__(self, rate):
        self.rate, self.dose = rate, 0.0

    def __call__(self, t, y):
        return self.dose - self.rate * y


def by_number(x):
    for size in (1.0, 2.0, 3.0):
        yield cube_root(lambda u: u**3 - size * x)


def by_traced_number(x):
    for size in (1.0, 2.0, 3.0):
        y = size * x
        yield cube_root(lambda u: u**3 - y)


def by_helper(x):
    for size in (1.0, 2.0, 3.0):

        def helper(u):
            return u**3 - size

        yield cube_root(lambda u: helper(u / x) * x)


def by_container(holder, key):
    def of(x):
        held = holder()
        for size in (1.0, 2.0, 3.0):
            held[key] = size
            yield cube_root(lambda u: u**3 - held[key] * x)

    return of


def by_attribute(holder):
    def of(x):
        held = holder()
        for size in (1.0, 2.0, 3.0):
            held.size = size
            yield scipy.integrate.quad(lambda t: np.exp(-held.size * t * x), 0.0, 1.0)[0]

    return of


def by_object(x):
    decay = Decay(x)
    for dose in (1.0, 2.0, 3.0):
        decay.dose = dose
        yield scipy.integrate.solve_ivp(decay, (0.0, 1.0), [1.0], rtol=1e-10, atol=1e-10).y[0, -1]


def by_rule(x):
    for size in (1.0, 2.0, 3.0):
        yield nt.primitive(lambda u: size * u**2, pullback=lambda ybar, y, u: (2.0 * size * u * ybar,))(x)


CASES = {
    "a number": by_number,
    "a traced number": by_traced_number,
    "a function within": by_helper,
    "a list": by_container(lambda: [0.0], 0),
    "a dictionary": by_container(dict, "size"),
    "an array": by_container(lambda: np.zeros(2), 0),
    "an array from arithmetic": by_container(lambda: np.ones(2) * 2.0 + np.arange(2), 0),
    "a namespace": by_attribute(SimpleNamespace),
    "slots": by_attribute(Slots),
    "an object": by_object,
    "a rule": by_rule,
}


@pytest.mark.parametrize("name", CASES)
def test_each_turn_has_its_own_numbers(name):
    def f(x):
        return sum(k * found for k, found in enumerate(CASES[name](x), start=1))

    x, step = 1.3, 1e-4
    value, slope = nt.value_and_grad(f)(x)
    assert value == pytest.approx(f(x), rel=1e-9)
    assert slope == pytest.approx((f(x + step) - f(x - step)) / (2 * step), rel=1e-6)
    curvature = (nt.grad(f)(x + step) - nt.grad(f)(x - step)) / (2 * step)
    assert nt.grad(nt.grad(f))(x) == pytest.approx(curvature, rel=1e-5, abs=1e-8)


def test_a_function_may_count_its_calls():
    calls = []

    def f(x):
        seen = []

        def equation(u):
            seen.append(1)
            calls.append(1)
            return u**3 - x

        return scipy.optimize.brentq(equation, 0.0, 5.0, xtol=1e-14) + 0.0 * len(seen)

    assert nt.grad(f)(8.0) == pytest.approx(1.0 / 12.0)
    assert nt.grad(f)(27.0) == pytest.approx(1.0 / 27.0)
