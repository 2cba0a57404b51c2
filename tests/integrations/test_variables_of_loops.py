# ruff: noqa: B023 (that functions do not bind the variables of a loop is what these tests are about)
"""Functions that solvers and rules get inside of a loop: they see the variables of their own turn.

A rule runs when the tape is swept, after the loop has ended.
"""

import functools
import types
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


rate, calls, log = 0.0, 0, []
settings = SimpleNamespace(rate=0.0)
module = types.ModuleType("settings")
module.rate = 0.0
table = {"rate": 0.0}


class Model:
    rate = 0.0


def decay(t, x):
    return np.exp(-rate * t * x)


def through_a_helper(t, x):
    return decay(t, x)


def counting(t, x):
    global calls
    calls += 1
    log.append(t)
    return decay(t, x)


def with_attribute(t, x):
    return np.exp(-with_attribute.rate * t * x)


def put_rate(now):
    global rate
    rate = now


def integrals(put, integrand):
    def of(x):
        for now in (1.0, 2.0, 3.0):
            put(now)
            yield scipy.integrate.quad(integrand, 0.0, 1.0, args=(x,))[0]

    return of


def by_traced_global(x):
    global rate
    for now in (1.0, 2.0, 3.0):
        rate = now * x
        yield scipy.integrate.quad(lambda t: decay(t, 1.0), 0.0, 1.0)[0]
    rate = 0.0


def by_default(x):
    def integrand(t, rate=0.0):
        return np.exp(-rate * t * x)

    for now in (1.0, 2.0, 3.0):
        integrand.__defaults__ = (now,)
        yield scipy.integrate.quad(integrand, 0.0, 1.0)[0]


GLOBALS = {
    "a global": integrals(put_rate, decay),
    "a global of a helper's": integrals(put_rate, through_a_helper),
    "a global, counts": integrals(put_rate, counting),
    "a traced global": by_traced_global,
    "a global namespace": integrals(
        lambda now: setattr(settings, "rate", now), lambda t, x: np.exp(-settings.rate * t * x)
    ),
    "a module": integrals(
        lambda now: setattr(module, "rate", now), lambda t, x: np.exp(-module.rate * t * x)
    ),
    "a global dictionary": integrals(
        lambda now: table.update(rate=now), lambda t, x: np.exp(-table["rate"] * t * x)
    ),
    "a function's attribute": integrals(lambda now: setattr(with_attribute, "rate", now), with_attribute),
    "defaults": by_default,
}
CASES = {
    **GLOBALS,
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


def test_counts_in_globals_go_on_in_each_call():
    global calls
    calls = 0
    log.clear()
    gradient = nt.grad(lambda x: sum(integrals(put_rate, counting)(x)))
    found = [(gradient(1.3), calls, len(log)) for _ in range(3)]
    assert found[0][0] == found[1][0] == found[2][0]
    assert 0 < found[0][1] < found[1][1] < found[2][1]
    assert 0 < found[0][2] < found[1][2] < found[2][2]


def test_what_methods_read_elsewhere_cannot_change():
    class Grows:
        def __call__(self, t, x):
            return np.exp(rate * t * x)

    by_class = integrals(lambda now: setattr(Model, "rate", now), lambda t, x: np.exp(-Model.rate * t * x))
    for turns, name in ((by_class, "Model.rate"), (integrals(put_rate, Grows()), "rate")):
        with pytest.raises(nt.UnsupportedOperationError, match=f"its function reads {name}, which was 1.0"):
            nt.grad(lambda x, turns=turns: sum(turns(x)))(1.3)


def test_a_rule_from_outside_cannot_read_a_global_that_the_function_assigns():
    rule = nt.primitive(lambda u: rate * u**2, pullback=lambda ybar, y, u: (2.0 * rate * u * ybar,))

    def f(x):
        put_rate(2.0)
        return rule(x)

    with pytest.raises(nt.UnsupportedOperationError, match="reads the global rate, which"):
        nt.grad(f)(1.3)
    put_rate(3.0)
    gradient = nt.grad(lambda x: rule(x))
    assert gradient(1.3) == pytest.approx(7.8)
    put_rate(4.0)
    assert gradient(1.3) == pytest.approx(10.4)
