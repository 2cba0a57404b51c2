"""``odeint`` and ``solve_ivp``: values are SciPy's, derivatives those of the solution."""

from __future__ import annotations

import collections
import functools
import itertools
import math
import types

import numpy as np
import pytest
import scipy.integrate
from scipy.integrate import odeint, quad, solve_ivp

import numbatape as nt
from numbatape.solvers import flow, ode
from numbatape.testing import check_derivatives
from numbatape.testing.differences import extrapolated

TIGHT = {"rtol": 1e-10, "atol": 1e-11}
T = np.array([0.0, 0.3, 1.0])
THETA, Y0 = np.array([1.0, 0.5, 0.8, 0.3]), np.array([1.0, 0.7])


def predators(y, t, a, b, c, d):
    return [a * y[0] - b * y[0] * y[1], -c * y[1] + d * y[0] * y[1]]


def decay(y, t, k):
    return -k * y


@pytest.fixture(params=["sensitivities", "adjoint"])
def way(request, monkeypatch):
    """Pullbacks of both kinds; pushforwards along all directions together, and along their own."""
    few = flow.FEW if request.param == "sensitivities" else 0
    monkeypatch.setattr(flow.Flow.__init__, "__defaults__", (few, None))
    return request.param


# A solution is as good as its tolerance, and so is the agreement of modes.
LOOSE = {"rtol": 1e-5, "atol": 1e-6, "rtol_modes": 1e-6}


def check(f, *args):
    """Both modes along a random direction, against differences."""
    rng = np.random.default_rng(0)
    v = [rng.normal(size=np.shape(x))[()] for x in args]
    value, slope = nt.jvp(f, args, tuple(v))
    assert value == pytest.approx(f(*args), rel=1e-6)
    wanted, _ = extrapolated(lambda h: f(*(x + h * u for x, u in zip(args, v, strict=True))), 0.02, 1e-8)
    assert slope == pytest.approx(wanted, rel=1e-5, abs=1e-6)
    terms = np.concatenate(
        [np.ravel(g * u) for g, u in zip(nt.grad(f, argnums=tuple(range(len(args))))(*args), v, strict=True)]
    )
    assert np.sum(terms) == pytest.approx(slope, abs=1e-6 * np.sum(np.abs(terms)))


def test_value_is_scipys():
    value, _ = nt.vjp(lambda th: odeint(predators, Y0, T, tuple(th)), THETA)
    np.testing.assert_array_equal(value, odeint(predators, Y0, T, tuple(THETA)))
    value, _ = nt.vjp(lambda y: solve_ivp(lambda t, y: -2.0 * y, (0, 2), y, t_eval=T).y, Y0)
    np.testing.assert_array_equal(value, solve_ivp(lambda t, y: -2.0 * y, (0, 2), Y0, t_eval=T).y)


def test_all_of_odeints_arguments(way):
    def f(theta, y0, t):
        return np.sum(np.sin(odeint(predators, y0, t, tuple(theta), **TIGHT)))

    check_derivatives(f, THETA, Y0, T, order=1, points=0, float32=False, **LOOSE)


def test_against_the_exact_solution(way):
    """``y0 exp(-k (t - t0))``."""
    y0, k = np.array([2.0]), 1.5

    def f(k, y0, t):
        return odeint(decay, y0, t, (k,), **TIGHT)[-1, 0]

    g = nt.grad(f, argnums=(0, 1, 2))(k, y0, T)
    y = 2.0 * math.exp(-1.5)
    np.testing.assert_allclose(g[0], -y, rtol=1e-8)
    np.testing.assert_allclose(g[1], [y / 2.0], rtol=1e-8)
    np.testing.assert_allclose(g[2], [k * y, 0, -k * y], rtol=1e-8, atol=1e-8)
    H = nt.hessian(lambda k: f(k, y0, T))(k)
    np.testing.assert_allclose(H, y, rtol=1e-7)


def test_traced_values_in_closures_defaults_and_objects():
    class Rate:
        def __init__(self, k):
            self.k = k

        def __call__(self, t, y):
            return -self.k * y

    def f(th):
        scale, parts = np.exp(th[0]), {"b": [th[1], (th[2],)]}

        def rhs(t, y, c, d=th[3]):
            return np.array([parts["b"][0] * y[1] * math.cos(t), -scale * y[0] - c * parts["b"][1][0] * d])

        first = solve_ivp(rhs, (0, 2), Y0, t_eval=T[1:], args=(0.5,), method="DOP853", **TIGHT)
        return np.sum(first.y**2) + np.sum(
            solve_ivp(Rate(th[0]), (0, 1), Y0, "DOP853", [0.5, 1.0], **TIGHT).y
        )

    check(f, THETA)


class InSlots:
    __slots__ = ("k",)

    def __init__(self, k):
        self.k = k


class Node:
    """Refers to another node that refers back to it."""

    def __init__(self, k):
        self.k, self.other = k, None


def in_slots(k):
    held = InSlots(k)
    return lambda t: held.k * t


def in_a_circle(k):
    first, second = Node(1.0), Node(k)
    first.other, second.other = second, first
    return lambda t: first.other.other.other.k * t


def on_a_function(k):
    def scale(t):
        return scale.k * t

    scale.k = k
    return scale


@pytest.mark.parametrize("make", [in_slots, in_a_circle, on_a_function])
def test_places_of_traced_values(make):
    """The integral of ``k t`` over [0, 1] is k / 2, wherever the integrand has k from."""
    value, slope = nt.value_and_grad(lambda k: quad(make(k), 0.0, 1.0)[0])(3.0)
    np.testing.assert_allclose([value, slope], [1.5, 0.5], rtol=1e-12)


@pytest.mark.parametrize("method", ["DOP853", "Radau", "LSODA"])
def test_methods(method):
    def f(th, t1):
        y = solve_ivp(
            lambda t, y, k: [y[1] - k[0] * y[0], -k[1] * y[1]], (0, 1), Y0, method, [0.5, t1], args=(th,),
            rtol=1e-8, atol=1e-9,
        ).y  # fmt: skip
        return np.sum(y**2)

    check(f, THETA[:2], 0.9)


def test_second_derivatives(way):
    """``y0 exp(-k t)``: both nestings, the exact numbers."""
    f = lambda x: odeint(decay, x[:1], np.array([0.0, 0.5]), (x[1],), **TIGHT)[-1, 0]  # noqa: E731
    y0, k = 2.0, 1.5
    e = math.exp(-k * 0.5)
    exact = np.array([[0.0, -0.5 * e], [-0.5 * e, 0.25 * y0 * e]])
    x = np.array([y0, k])
    np.testing.assert_allclose(nt.hessian(f)(x), exact, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(
        nt.jacobian(nt.jacobian(f, mode="forward"), mode="reverse")(x), exact, rtol=1e-7, atol=1e-8
    )
    for mode in ("reverse_over_forward", "forward_over_reverse"):
        cache = nt.prepare_hvp_cache(f, x, config=nt.Config(second_order_mode=mode))
        np.testing.assert_allclose(nt.value_and_hvp(cache, x, x)[2], exact @ x, rtol=1e-7)


def test_branches_of_the_right_hand_side_are_taken_as_they_come():
    def rhs(y, t, k):
        return -k * y if y[0] > 0.5 else -k * y * 2.0 * y[0]  # continuous

    check(lambda k: np.sum(odeint(rhs, np.array([1.0]), T, (k,), **TIGHT)), 1.2)


def test_options_reach_scipy():
    atol = np.array([1e-9, 1e-10])

    def f(k, y0):
        return np.sum(
            odeint(lambda t, y, k: -k * y, y0, T, args=(k,), rtol=1e-9, atol=atol, hmax=0.1, tfirst=True)
        )

    check(f, 0.7, Y0)
    check(lambda k: np.sum(scipy.integrate.odeint(decay, 1.0, T, (k,), ml=0, mu=0, **TIGHT)), 0.7)
    f = lambda k: np.sum(solve_ivp(lambda t, y: -k * y, (0, 1), Y0, t_eval=[1.0], vectorized=True, **TIGHT).y)  # noqa: E731
    check(f, 0.7)


def test_backwards_in_time():
    check(lambda k: np.sum(odeint(decay, Y0, T[::-1], (k,), **TIGHT)), 0.4)
    check(lambda k: np.sum(solve_ivp(lambda t, y: -k * y, (1, 0), Y0, t_eval=[0.5], **TIGHT).y), 0.4)


def test_batches_and_jacobians():
    f = lambda th: odeint(predators, Y0, T, tuple(th), **TIGHT)[-1]  # noqa: E731
    reverse, forward = (nt.jacobian(f, mode=mode)(THETA) for mode in ("reverse", "forward"))
    np.testing.assert_allclose(reverse, forward, rtol=1e-7, atol=1e-9)
    points = np.stack([THETA, 1.1 * THETA])
    values, grads = nt.batch(lambda th: np.sum(f(th)))(points)
    for th, value, g in zip(points, values, grads, strict=True):
        np.testing.assert_allclose(value, np.sum(f(th)), rtol=1e-12)
        np.testing.assert_allclose(g, nt.grad(lambda th: np.sum(f(th)))(th), rtol=1e-9)


def test_what_is_captured_may_change():
    data = np.array([1.0])
    gradient = nt.grad(lambda k: odeint(lambda y, t: -k * data[0] * y, 1.0, T, **TIGHT)[-1, 0])
    one = gradient(0.5)
    data[0] = 2.0
    np.testing.assert_allclose(gradient(0.5), 2.0 * nt.grad(
        lambda k: odeint(decay, 1.0, T, (k,), **TIGHT)[-1, 0])(1.0), rtol=1e-8)  # fmt: skip
    assert one != gradient(0.5)


def test_a_solution_that_stops_is_seen():
    """``y' = y^2`` ends at 1 / y0."""

    def f(y0):
        found = solve_ivp(lambda t, y: y**2, (0.0, 1.0), np.array([y0]), t_eval=[1.0])
        return found.y[0, 0] if found.success else -y0

    cache = nt.prepare_gradient_cache(f, 0.5)
    assert nt.value_and_gradient(cache, 0.5)[1][0] == pytest.approx(4.0, rel=1e-2)
    assert nt.value_and_gradient(cache, 2.0) == (-2.0, (-1.0,))


@pytest.mark.parametrize(
    "f, hint",
    [
        (lambda k: odeint(decay, 1.0, T, (k,), full_output=True)[0][-1, 0], "full_output"),
        (lambda k: odeint(lambda y, t, z: -z.real * y, 1.0, T, (k * 1j,))[-1, 0], "complex"),
    ],
)
def test_what_there_is_not(f, hint):
    with pytest.raises(nt.UnsupportedOperationError, match=hint) as caught:
        nt.grad(f)(0.5)
    assert "test_ode.py" in str(caught.value)


def test_what_a_namespace_holds_takes_part():
    def f(k):
        held = types.SimpleNamespace(k=k)
        return odeint(lambda y, t: -held.k * y, 1.0, T)[-1, 0]

    np.testing.assert_allclose(nt.grad(f)(0.5), -T[-1] * np.exp(-0.5 * T[-1]), rtol=1e-6)


def test_what_a_library_object_holds_is_not_reached():
    def f(k):
        hidden = itertools.repeat(k)
        return odeint(lambda y, t: -next(hidden) * y, 1.0, T)[-1, 0]

    with pytest.raises((nt.UnsupportedOperationError, nt.LeakError)):
        nt.grad(f)(0.5)


@pytest.mark.parametrize(
    "hold",
    [
        lambda k: collections.defaultdict(lambda: k),
        lambda k: collections.deque([k]),
        lambda k: [k] * 300,
        lambda k: functools.partial(lambda k: k, k),
    ],
    ids=["default factory", "deque", "long list", "partial"],
)
def test_what_holders_hold_is_reached(hold):
    def value(held):
        return held() if callable(held) else held[0]

    def f(k):
        held = hold(k)
        return odeint(lambda y, t: -value(held) * y, 1.0, T, rtol=1e-9, atol=1e-9)[-1, 0]

    np.testing.assert_allclose(nt.grad(f)(0.5), -T[-1] * np.exp(-0.5 * T[-1]), rtol=1e-6)


def test_errors_of_the_right_hand_side_come_out():
    def rhs(y, t, k):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        nt.grad(lambda k: odeint(rhs, 1.0, T, (k,))[-1, 0])(0.5)


def chain(t, y, k):
    return np.stack([-k * y[0], k * y[0] - y[1]])


@pytest.mark.parametrize("span", [(0.0, 2.0), (2.0, 0.5)], ids=["forward", "backward"])
def test_the_solvers_own_times(span):
    """They are data: how many there are is a guard."""

    def f(k):
        found = solve_ivp(chain, (span[0], span[1] * k), Y0[:1].repeat(2), args=(k,), **TIGHT)
        assert found.t.shape[0] == found.y.shape[1]
        return np.concatenate([found.y[:, 0], found.y[:, -1]])

    slope = nt.jacobian(f)
    for k in (0.7, 0.8, 3.0, 0.7):
        np.testing.assert_allclose(nt.vjp(f, k)[0], f(k), rtol=1e-12)
        np.testing.assert_allclose(slope(k), (f(k + 1e-5) - f(k - 1e-5)) / 2e-5, rtol=1e-6, atol=1e-7)
    without_length = nt.vjp(lambda y: solve_ivp(chain, (2.0, 2.0), y, args=(0.5,)).y, np.ones(2))[0]
    np.testing.assert_array_equal(without_length, solve_ivp(chain, (2.0, 2.0), np.ones(2), args=(0.5,)).y)


@pytest.mark.parametrize("span", [(0.0, 2.0), (2.0, 0.0)], ids=["forward", "backward"])
def test_dense_output(span):
    """The solution at times in any order, and its derivatives by these."""

    def f(p):
        found = solve_ivp(chain, span, np.array([1.0, 2.0]), args=(p[0],), dense_output=True, **TIGHT)
        return np.concatenate([np.ravel(found.sol(p[1:])), found.sol(0.7)])

    p = np.array([0.7, 1.3, 0.2, 1.1])
    np.testing.assert_allclose(nt.vjp(f, p)[0], f(p), rtol=1e-6)  # SciPy interpolates
    steps = 1e-4 * np.eye(4)
    differences = np.stack([(nt.vjp(f, p + d)[0] - nt.vjp(f, p - d)[0]) / 2e-4 for d in steps], -1)
    np.testing.assert_allclose(nt.jacobian(f)(p), differences, rtol=1e-6, atol=1e-6)


def test_columns_of_a_jacobian_share_one_solution_of_the_sensitivities(monkeypatch):
    """Of more than one column, too, and with the time between the user's calls spent in builtins."""
    solved, value = [], flow.Flow._value
    monkeypatch.setattr(flow.Flow, "_value", lambda its, *given: solved.append(its.n) or value(its, *given))
    f = nt.jacobian(lambda th: odeint(predators, Y0 * th[0], T, tuple(th), **TIGHT)[-1], mode="forward")
    for k in range(3):
        f(THETA * (1.0 + 0.01 * k))
    solved.clear()
    monkeypatch.setattr("numbatape.steady_calls.entry.Entry.serve_as_bound", None)
    f(THETA)
    assert sorted(solved) == [2, 2 * (1 + 2 + 4)]


def test_a_call_copies_the_right_hand_side_some_times_and_not_for_each_time(monkeypatch):
    """Each copy traces the gradients that are taken in it."""
    copies, filled = [], ode.Opened.filled
    monkeypatch.setattr(ode.Opened, "filled", lambda *given: copies.append(1) or filled(*given))
    times = np.linspace(0.0, 1.0, 30)

    def motion(t, s, k):
        return np.append(s[1:], nt.grad(lambda q: k * np.sum(np.cos(q)))(s[:1]))

    cache = nt.prepare_gradient_cache(
        lambda k: np.sum(solve_ivp(motion, (0.0, 1.0), Y0, t_eval=times, args=(k,)).y), 1.3
    )
    nt.value_and_gradient(cache, 1.3)
    copies.clear()
    nt.value_and_gradient(cache, 1.3)
    assert 0 < len(copies) < times.size
