"""``solve_ivp`` with events: SciPy's result, and derivatives of their times and of the solution there."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import numbatape as nt

TIGHT = {"rtol": 1e-10, "atol": 1e-11}
P = np.array([10.0, 9.81, 0.1])  # speed, gravity, height of the start


def fall(t, y, g, *_):
    return np.stack([y[1], -g + 0.0 * y[1]])


def crossing(function, **attributes):
    function.__dict__.update(attributes)
    return function


def height(**attributes):
    return crossing(lambda t, y, *_: y[0], **attributes)


def speed(**attributes):
    return crossing(lambda t, y, *_: y[1], **attributes)


def wave(**attributes):
    return crossing(lambda t, y, g, *_: np.sin(3.0 * y[1] / g + t**2), **attributes)


def thrown(p, events, span=(0.0, 3.0), **options):
    start = np.stack([p[2], p[0]])
    return solve_ivp(fall, span, start, args=(p[1], p[2]), events=events, **TIGHT, **options)


def everything(found):
    parts = [found.t, np.ravel(found.y), *found.t_events, *map(np.ravel, found.y_events)]
    return np.concatenate([*parts, np.reshape(float(found.status), (1,))])


EVENTS = {
    "one": lambda: height(),
    "terminal": lambda: height(terminal=True),
    "a direction": lambda: height(terminal=True, direction=-1),
    "the other direction": lambda: [height(direction=1), speed(direction=1)],
    "several": lambda: [height(terminal=True, direction=-1), speed(), wave()],
    "the third": lambda: [speed(), wave(terminal=3)],
}


@pytest.mark.parametrize("t_eval", [None, np.linspace(0.0, 2.9, 7)], ids=["own times", "t_eval"])
@pytest.mark.parametrize("kind", EVENTS)
def test_value_is_scipys(kind, t_eval):
    f = lambda p: everything(thrown(p, EVENTS[kind](), t_eval=t_eval))  # noqa: E731
    np.testing.assert_allclose(nt.vjp(f, P)[0], f(P), rtol=1e-13, atol=1e-13)


def test_exact_derivatives():
    """Of a body that is thrown up from the ground: ``t = 2 v / g`` where it lands, ``v / g`` at the top."""

    def f(p):
        start = np.stack([0.0 * p[0], p[0]])
        events = height(terminal=True, direction=-1), speed()
        found = solve_ivp(fall, (0.0, 100.0), start, args=(p[1],), events=events, **TIGHT)
        landed, top = found.t_events[0][0], found.t_events[1][0]
        return np.stack([landed, top, found.y_events[1][0, 0], found.y[1, -1], found.t[-1]])

    def exact(p):
        v, g = p
        return np.stack([2.0 * v / g, v / g, 0.5 * v**2 / g, -v, 2.0 * v / g])

    p = P[:2]
    np.testing.assert_allclose(nt.vjp(f, p)[0], exact(p), rtol=1e-9)
    for mode in ("forward", "reverse"):
        np.testing.assert_allclose(nt.jacobian(f, mode=mode)(p), nt.jacobian(exact)(p), atol=1e-8)
    curved = [nt.hessian(lambda p, f=f: f(p)[0])(p) for f in (f, exact)]
    np.testing.assert_allclose(*curved, atol=1e-8)


@pytest.mark.parametrize("t_eval", [None, np.array([0.0, 0.5, 0.9])], ids=["own times", "t_eval"])
def test_derivatives(t_eval):
    def f(p):
        found = thrown(p, [height(terminal=True), speed(), wave()], t_eval=t_eval, dense_output=True)
        at = found.sol(found.t_events[0][-1])
        own = found.t[-1] if t_eval is None else found.y[0, -1]
        waves = np.sum(found.t_events[2]) + np.sum(np.sin(found.y_events[2]))
        return np.reshape(own + found.t_events[1][0] * at[1] + np.sum(found.y_events[0]) + waves, ())

    differences = [(f(P + d) - f(P - d)) / 2e-5 for d in 1e-5 * np.eye(3)]
    np.testing.assert_allclose(nt.grad(f)(P), differences, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(nt.jvp(f, (P,), (np.eye(3)[1],))[1], differences[1], rtol=1e-5)


def test_parameters_of_an_event_alone():
    """A level that only the event knows: the time at which an exponential passes it."""

    def f(level, k):
        passes = crossing(lambda t, y: y[0] - level, terminal=True)
        found = solve_ivp(lambda t, y: -k * y, (0.0, 50.0), [1.0], events=passes, **TIGHT)
        return found.t[-1]

    level, k = 0.25, 1.5
    np.testing.assert_allclose(f(level, k), np.log(4.0) / k, rtol=1e-8)
    slopes = nt.grad(f, (0, 1))(level, k)
    np.testing.assert_allclose(slopes, (-1.0 / (k * level), -np.log(4.0) / k**2), rtol=1e-7)


def test_backwards_in_time():
    passes = height(terminal=True)

    def f(p):
        found = solve_ivp(lambda t, y: p[0] + 0.0 * y, (p[1], -50.0), [2.0], events=passes, **TIGHT)
        return found.t[-1]  # 2 + v (t - t_0) = 0

    np.testing.assert_allclose(nt.grad(f)(np.array([0.5, 1.0])), [8.0, 1.0], rtol=1e-8)


def test_another_number_of_events_is_another_trace():
    def f(p):
        found = thrown(p, [wave(), height(terminal=True)], span=(0.0, 4.0))
        return np.sum(found.t_events[0]) + 10.0 * found.status

    cache = nt.prepare_gradient_cache(f, P)
    for v in (10.0, 4.0, 21.0, 10.0):  # at 21 it does not come down in time
        p = np.array([v, *P[1:]])
        value, (slope,) = nt.value_and_gradient(cache, p)
        np.testing.assert_allclose(value, f(p), rtol=1e-12)
        step = np.array([1e-5, 0.0, 0.0])
        np.testing.assert_allclose(slope[0], (f(p + step) - f(p - step)) / 2e-5, rtol=1e-5, atol=1e-5)


def test_a_wrong_terminal_is_scipys_error():
    with pytest.raises(ValueError, match="terminal"):
        nt.grad(lambda p: thrown(p, height(terminal=-1)).t[-1])(P)


def test_nothing_runs_behind_the_last_event():
    """The right-hand side has no value there, in derivatives either."""

    def f(k):
        def rhs(t, y):
            assert np.all(y > 0.0), "behind the event"
            return -k / y

        found = solve_ivp(
            rhs, (0.0, 10.0), [1.0], events=crossing(lambda t, y: y[0] - 0.5, terminal=True), max_step=0.05
        )
        return found.t_events[0][0]

    np.testing.assert_allclose(nt.grad(f)(1.0), -0.375, rtol=1e-4)  # y^2 = 1 - 2 k t
