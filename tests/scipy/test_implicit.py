"""Solvers of SciPy inside of traced functions, `nt.root` and `nt.fixed_point`: the implicit function theorem.

Each is compared with differences of what the solver finds, and with a solution in closed form.
"""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import (
    Bounds,
    LinearConstraint,
    NonlinearConstraint,
    basinhopping,
    bisect,
    brent,
    brenth,
    brentq,
    curve_fit,
    differential_evolution,
    dual_annealing,
    fixed_point,
    fmin,
    fmin_bfgs,
    fmin_cg,
    fmin_powell,
    fminbound,
    fsolve,
    golden,
    least_squares,
    leastsq,
    lsq_linear,
    minimize,
    minimize_scalar,
    newton,
    nnls,
    ridder,
    root,
    root_scalar,
    shgo,
    toms748,
)
from scipy.stats import norm

import numbatape as nt
from numbatape.programs.program import Program
from numbatape.solvers.kept_derivatives import MOST_KINDS, KeptDerivatives
from tests.agreement import agrees


def cube(y, p):
    """Its root is the cube root of ``p[0] * p[1]``."""
    return y**3 - p[0] * p[1]


def cost(y, p):
    """Least where `cube` is zero."""
    return np.sum(0.25 * y**4 - p[0] * p[1] * y)


TIGHT = {"xtol": 1e-14, "rtol": 1e-14}
NUMBERS = {
    **{
        f.__name__: (lambda p, f=f: f(cube, 0.1, 9.0, args=(p,), **TIGHT))
        for f in (bisect, brenth, brentq, ridder, toms748)
    },
    "closure": lambda p: brentq(lambda y: cube(y, p), 0.1, 9.0, **TIGHT),
    "traced bracket": lambda p: brentq(cube, 0.1 * p[0], 9.0 * p[0], args=(p,), **TIGHT),
    "newton": lambda p: newton(cube, 1.5, args=(p,), tol=1e-14),
    "newton with fprime": lambda p: newton(cube, 1.5, lambda y, p: 3 * y**2, args=(p,), tol=1e-14),
    "root_scalar": lambda p: root_scalar(cube, args=(p,), bracket=(0.1, 9.0), **TIGHT).root,
    "fsolve": lambda p: fsolve(cube, 1.5, args=(p,), xtol=1e-13)[0],
    "root": lambda p: root(lambda y: [cube(y[0], p)], [1.5], tol=1e-13).x[0],
    "root with jac": lambda p: root(cube, [1.5], args=(p,), jac=lambda y, p: 3 * y**2, tol=1e-13).x[0],
    "minimize": lambda p: minimize(cost, [1.5], args=(p,), jac=nt.grad(cost), tol=1e-13).x[0],
    "minimize, value and gradient": lambda p: (
        minimize(nt.value_and_grad(lambda y: cost(y, p)), np.array([1.5]), jac=True, tol=1e-13).x[0]
    ),
    "minimize_scalar": lambda p: (
        minimize_scalar(cost, bracket=(1.0, 2.0), args=(p,), options={"xtol": 1e-12}).x
    ),
    "golden": lambda p: golden(cost, (p,), (1.0, 2.0), tol=1e-12),
    "brent": lambda p: brent(cost, (p,), (1.0, 2.0), tol=1e-12),
    "fminbound": lambda p: fminbound(cost, 0.1, 9.0, (p,), xtol=1e-9),
    "least_squares": lambda p: (
        least_squares(cube, [1.5], args=(p,), jac=lambda y, p: [3 * y**2], xtol=1e-15, gtol=1e-15, ftol=1e-15)
        .x[0]
    ),
    "leastsq": lambda p: leastsq(cube, [1.5], args=(p,), xtol=1e-15, ftol=1e-15, gtol=1e-15)[0][0],
    "fmin": lambda p: fmin(cost, [1.5], args=(p,), xtol=1e-9, ftol=1e-16, disp=0)[0],
    "fmin_bfgs": lambda p: fmin_bfgs(cost, [1.5], nt.grad(cost), (p,), gtol=1e-12, disp=0)[0],
    "fmin_cg": lambda p: fmin_cg(cost, [1.5], nt.grad(cost), (p,), gtol=1e-9, disp=0)[0],
    "fmin_powell": lambda p: np.ravel(fmin_powell(cost, [1.5], (p,), 1e-10, 1e-16, disp=0))[0],
    "differential_evolution": lambda p: differential_evolution(cost, [(0.1, 9.0)], (p,), rng=3).x[0],
    "basinhopping": lambda p: basinhopping(lambda y: cost(y, p), [1.5], 2, rng=3).x[0],
    "dual_annealing": lambda p: dual_annealing(cost, [(0.1, 9.0)], (p,), 20, rng=3).x[0],
    "shgo": lambda p: shgo(cost, [(0.1, 9.0)], (p,)).x[0],
    "nt.root": lambda p: nt.root(cube, 1.5, p),
    "nt.root, closure": lambda p: nt.root(lambda y: cube(y, p), 1.5),
    "nt.minimize_scalar": lambda p: nt.minimize_scalar(cost, 1.0, p),
    "nt.minimize_scalar, bounds": lambda p: nt.minimize_scalar(lambda y: cost(y, p), bounds=(0.1, 9.0)),
    "nt.fixed_point": lambda p: nt.fixed_point(lambda y: y - cube(y, p) / (3 * y**2), 1.5),
}  # fmt: skip
P = np.array([2.0, 1.7])
RTOL = {
    **dict.fromkeys(("minimize_scalar", "golden", "brent", "fminbound"), 1e-6),
    "minimize": 1e-7,
    "minimize, value and gradient": 1e-7,
    "least_squares": 1e-8,
    "leastsq": 1e-8,
    **dict.fromkeys(("differential_evolution", "basinhopping", "dual_annealing", "shgo"), 1e-6),
    **dict.fromkeys(("fmin", "fmin_bfgs", "fmin_cg", "fmin_powell", "fminbound"), 1e-6),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_against_the_closed_form(name):
    f, rtol = NUMBERS[name], RTOL.get(name, 1e-11)

    def exact(p):
        return np.cbrt(p[0] * p[1])

    for p in (P, P, 1.3 * P):  # a trace, and further calls of its tape
        value, gradient = nt.value_and_grad(f)(p)
        assert np.isclose(value, exact(p), rtol=rtol)
        assert np.allclose(gradient, exact(p) / (3 * p), rtol=rtol)
    bends = exact(P) * (1.0 - 3.0 * np.eye(2)) / (9 * np.outer(P, P))
    assert np.allclose(nt.hessian(f)(P), bends, rtol=10 * rtol)
    assert np.allclose(nt.jvp(f, (P,), (P,))[1], 2 * exact(P) / 3, rtol=rtol)
    assert np.isclose(f(P), exact(P), rtol=rtol)  # outside of a trace it is SciPy's own


def system(y, t):
    return np.array([y[0] ** 2 + y[1] - t[0], y[1] ** 2 - y[0] * t[1]])


VECTORS = {
    "fsolve": lambda t: fsolve(system, np.ones(2), args=(t,), xtol=1e-13),
    "root": lambda t: root(system, np.ones(2), args=(t,), tol=1e-13).x,
    "nt.root": lambda t: nt.root(system, np.ones(2), t),
    "fixed_point": lambda t: fixed_point(lambda y: y - 0.3 * system(y, t), np.ones(2), xtol=1e-13),
}


@pytest.mark.parametrize("name", VECTORS)
def test_systems(name):
    f, t = VECTORS[name], np.array([2.0, 1.0])
    y = f(t)
    by_hand = -np.linalg.solve(nt.jacobian(system)(y, t), nt.jacobian(system, argnums=1)(y, t))
    assert np.allclose(nt.jacobian(f)(t), by_hand, rtol=1e-10)
    assert np.allclose(nt.jacobian(f, mode="reverse")(t), by_hand, rtol=1e-10)
    step = 1e-5 * np.eye(2)
    differences = [(nt.jacobian(f)(t + d) - nt.jacobian(f)(t - d)) / 2e-5 for d in step]
    assert np.allclose(nt.jacobian(nt.jacobian(f))(t), np.moveaxis(differences, 0, -1), atol=1e-7)


@pytest.mark.parametrize(
    "bounds", [[(None, 0.4), (0.0, None)], Bounds([-np.inf, 0.0], [0.4, np.inf])], ids=["pairs", "Bounds"]
)
def test_a_variable_at_its_bound_stays_there(bounds):
    def cost(y, c):
        return np.sum((y - c) ** 2 * np.array([1.0, 2.0])) + y[0] * y[1]

    def f(c):
        options = {"bounds": bounds, "method": "L-BFGS-B", "options": {"ftol": 1e-15, "gtol": 1e-12}}
        return minimize(cost, np.full(2, 0.3), args=(c,), **options).x

    found = nt.jacobian(f)(np.array([1.0, 1.0]))
    assert np.allclose(found, [[0.0, 0.0], [0.0, 1.0]], atol=1e-6)  # the first is at 0.4


def test_value_at_the_minimum():
    def f(c):
        return minimize(lambda y: np.sum((y - c) ** 2) + np.sum(y), np.zeros(2), tol=1e-10).fun

    assert np.allclose(nt.grad(f)(np.array([1.0, 2.0])), [1.0, 1.0])  # the envelope theorem


def test_containers():
    def f(a):
        found = nt.root(
            lambda y: {"u": y["u"] ** 2 - a, "v": [y["v"][0] - y["u"] * a]}, {"u": 1.0, "v": [1.0]}
        )
        return found["v"][0]

    assert np.isclose(f(4.0), 8.0) and np.isclose(nt.grad(f)(4.0), 1.5 * 2.0)
    contraction = lambda x, a: {"x": np.cos(x["x"]) * a}  # noqa: E731
    g = lambda a: np.sum(nt.fixed_point(contraction, {"x": np.zeros(2)}, a)["x"])  # noqa: E731
    x = g(0.5) / 2
    assert np.isclose(nt.grad(g)(0.5), 2 * np.cos(x) / (1 + 0.5 * np.sin(x)))


def test_a_solver_that_fails():
    def no_root(a):
        return nt.root(lambda y: y**2 + a, 1.0)

    for call in (no_root, nt.grad(no_root)):
        with pytest.raises(RuntimeError, match=r"nt\.root found no solution"):
            call(1.0)
    assert np.isclose(nt.grad(no_root)(-4.0), -0.25)  # the failed calls left nothing behind
    with pytest.raises(RuntimeError, match="did not converge in 50 steps"):
        nt.grad(lambda a: nt.fixed_point(lambda x: a * x + 1.0, 0.0, max_steps=50))(-1.0)
    with pytest.raises(ValueError, match="different signs"):
        nt.grad(lambda a: brentq(lambda y: y**2 + a, -1.0, 1.0))(1.0)
    with pytest.raises(RuntimeError, match="no minimum was found"):
        nt.grad(lambda a: minimize(lambda y: a * y[0], [0.0], options={"maxiter": 3}).x[0])(1.0)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda a: brentq(lambda y: y - a, 0.0, 9.0, full_output=True)[0], r"brentq\(full_output=\.\.\.\)"),
        (lambda a: least_squares(lambda y: y - a, [1.0], loss="huber").x[0], r"least_squares\(loss=\.\.\.\)"),
        (
            lambda a: minimize(lambda y: (y[0] - a) ** 2, [1.0], callback=print).x[0],
            r"minimize\(callback=\.\.\.\) of traced values at .*test_implicit.py:\d+ .* not supported",
        ),
        (
            lambda a: curve_fit(lambda x, p: p * a * x, np.ones(3), np.ones(3), [1.0], full_output=True)[0],
            r"curve_fit\(full_output=\.\.\.\)",
        ),
    ],
)
def test_options_that_are_not_supported(call, message):
    with pytest.raises(nt.UnsupportedOperationError, match=message):
        nt.grad(call)(1.0)


@pytest.mark.parametrize("start", [3, np.int64(3), np.array(3)], ids=repr)
def test_a_start_of_integers_is_a_point(start):
    square = lambda a, x0: np.sum(nt.root(lambda x: x**2 - a, x0))  # noqa: E731
    heron = lambda a, x0: np.sum(nt.fixed_point(lambda x: 0.5 * (x + a / x), x0))  # noqa: E731
    for f in (square, heron):
        assert np.isclose(f(2.0, start), np.sqrt(2.0))
        assert np.isclose(nt.grad(f)(2.0, start), 0.5 / np.sqrt(2.0))
    np.testing.assert_allclose(nt.root(lambda x: [x[0] - 1.5, x[1] - 2.5], [1, 2.0]), [1.5, 2.5])


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("verb", [lambda f: f, nt.grad])
def test_a_function_that_is_nan_has_no_root(verb):
    with pytest.raises(RuntimeError, match=r"nt\.root found no solution: the function is NaN at"):
        verb(lambda a: nt.root(lambda x: np.sqrt(-a - x**2), 1.0))(1.0)


def test_another_number_of_equations():
    with pytest.raises(nt.SpecError, match=r"nt\.root: 2 equations for 1 unknowns"):
        nt.root(lambda y: np.array([y, y]), 1.0)


def differences(f, t, step=1e-4):
    return np.stack([(f(t + d) - f(t - d)) / (2 * step) for d in step * np.eye(len(t))], -1)


# Constraints of `distance` on x, for some t.
CONSTRAINTS = {
    "equation": lambda t: {"constraints": {"type": "eq", "fun": lambda x, c: np.sum(x) - c, "args": (t[2],)}},
    "active": lambda t: {"constraints": [{"type": "ineq", "fun": lambda x: 0.5 * t[1] - np.sum(x)}]},
    "not active": lambda t: {"constraints": [{"type": "ineq", "fun": lambda x: 30.0 * t[1] - np.sum(x)}]},
    "linear": lambda t: {"constraints": LinearConstraint(np.ones((1, 3)), -np.inf, t[0] * t[1])},
    "nonlinear": lambda t: {"constraints": NonlinearConstraint(lambda x: x[0] * x[1], 0.1, 0.2 * t[1])},
    "several": lambda t: {
        "constraints": [
            {"type": "eq", "fun": lambda x: x[0] ** 2 + x[1] - t[0]},
            NonlinearConstraint(lambda x: [x[1], x[2]], -np.inf, [0.8, 9.0]),
        ]
    },
    "bounds": lambda t: {
        "constraints": [{"type": "eq", "fun": lambda x: np.sum(x) - 1.0}],
        "bounds": [(0.0, None), (None, 0.4 * t[0]), (None, None)],
    },
}


def distance(x, t):
    return np.sum((x - t) ** 2) + 0.3 * x[0] * x[1] + np.sum(np.exp(0.2 * x))


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_minima_under_constraints(name):
    options = {"method": "SLSQP", "jac": nt.grad(distance), "options": {"ftol": 1e-14, "maxiter": 500}}

    def f(t):
        return minimize(distance, np.array([0.3, 0.5, 0.7]), args=(t,), **options, **CONSTRAINTS[name](t)).x

    t = np.array([1.0, 2.0, 0.5])
    assert np.allclose(nt.jacobian(f)(t), differences(f, t), atol=2e-5)
    if name in ("nonlinear", "bounds"):
        cost = lambda t: np.sum(f(t) ** 2)  # noqa: E731
        gradient = nt.grad(cost)
        slopes = (gradient(t + 1e-4 * t) - gradient(t - 1e-4 * t)) / 2e-4
        assert np.allclose(nt.hvp(cost)(t, t), slopes, atol=2e-5)


@pytest.mark.parametrize("method", ["SLSQP", "trust-constr"])
def test_the_nearest_point_of_a_disc(method):
    """Whatever the solver, the derivative is that of the projection."""

    def f(t):
        disc = NonlinearConstraint(lambda x: x @ x, -np.inf, 1.0)
        cost = lambda x: np.sum((x - t) ** 2)  # noqa: E731
        return minimize(cost, np.array([0.3, 0.5]), method=method, constraints=disc, tol=1e-8).x

    t = np.array([1.0, 2.0])
    assert np.allclose(nt.jacobian(f)(t), nt.jacobian(lambda t: t / np.sqrt(t @ t))(t), atol=1e-4)


def test_a_constrained_solver_that_stops_early():
    def f(a):
        half = {"type": "ineq", "fun": lambda x: x[0] + x[1] - a}
        return minimize(lambda x: np.sum(x**4), [3.0, 5.0], constraints=half, options={"ftol": 0.5}).x[0]

    with pytest.raises(RuntimeError, match=r"from where the conditions of a solution hold.* smaller tol="):
        nt.grad(f)(1.0)


X = np.linspace(0.0, 1.0, 12)
FITS = {
    "plain": {},
    "sigma": {"sigma": 1.0 + X},
    "covariance": {"sigma": np.diag(1.0 + X) + 0.1},
    "absolute sigma": {"sigma": 1.0 + X, "absolute_sigma": True},
    "bounds": {"bounds": ([0.0, 0.0], [10.0, 10.0])},
}


@pytest.mark.parametrize("name", FITS)
def test_curve_fit(name):
    options = FITS[name]

    def model(x, a, b):
        return a * np.exp(-b * x)

    def data(d):
        return 2.0 * np.exp(-1.3 * X) + 0.05 * np.sin(9.0 * X) + d[0] * X + d[1] * X**2

    def f(d):
        tight = {"xtol": 1e-14, "ftol": 1e-14, "gtol": 1e-14}
        found, covariance = curve_fit(model, X, data(d), p0=[1.0, 1.0], **options, **tight)
        return np.concatenate([found, np.ravel(covariance)])

    def by_hand(d):
        sigma = options.get("sigma", np.ones(12))
        weights = np.linalg.inv(sigma if np.ndim(sigma) == 2 else np.diag(sigma**2))
        cost = lambda p: 0.5 * (model(X, *p) - data(d)) @ weights @ (model(X, *p) - data(d))  # noqa: E731
        p = nt.root(nt.grad(cost), np.array([2.0, 1.3]))
        slopes = nt.jacobian(lambda p: model(X, p[0], p[1]))(p)
        covariance = np.linalg.inv(slopes.T @ weights @ slopes)
        scale = 1.0 if options.get("absolute_sigma") else 2.0 * cost(p) / 10.0
        return np.concatenate([p, np.ravel(scale * covariance)])

    d = np.array([0.1, 0.2])
    value, pull = nt.vjp(f, d)
    assert np.allclose(value, f(d), rtol=1e-6)
    assert np.allclose(pull(np.ones(6))[0], nt.vjp(by_hand, d)[1](np.ones(6))[0], rtol=1e-5)
    assert np.allclose(nt.jacobian(f)(d), nt.jacobian(by_hand)(d), rtol=1e-5, atol=1e-6)
    assert np.allclose(
        nt.jacobian(nt.jacobian(f))(d), nt.jacobian(nt.jacobian(by_hand))(d), rtol=1e-4, atol=1e-5
    )


def test_a_minimum_at_a_bound_moves_with_it():
    def f(b):
        return nt.minimize_scalar(lambda x: np.cosh(x) - 1.5 * b[0] * x, bounds=(-1.0, b[1]))

    assert np.allclose(nt.grad(f)(np.array([1.0, 0.7])), [0.0, 1.0])
    assert np.allclose(nt.grad(f)(np.array([0.1, 0.7])), [1.5 / np.cosh(f(np.array([0.1, 0.7]))), 0.0])
    with pytest.raises(RuntimeError, match="found no minimum where the derivative is zero"):
        nt.grad(lambda a: nt.minimize_scalar(lambda x: np.abs(x - a), 0.0))(0.3)


@pytest.mark.parametrize(
    "solve",
    [
        lambda p: nt.root(lambda x, p: np.cos(x) - p * x, 1.0, p),
        lambda p: nt.fixed_point(lambda x, p: np.cos(x) / p, 1.0, p),
        lambda p: nt.minimize_scalar(lambda x, p: 0.5 * p * x**2 - np.sin(x), 1.0, p),
        lambda p: root(lambda x: np.cos(x) - p * x, [1.0]).x[0],
        lambda p: minimize(lambda x: np.sum(0.5 * p * x**2 - np.sin(x)), [1.0], tol=1e-10).x[0],
    ],
    ids=["root", "fixed_point", "minimize_scalar", "scipy root", "scipy minimize"],
)  # fmt: skip
def test_the_equation_is_traced_for_the_first_gradient_only(solve, monkeypatch):
    """A further gradient runs tapes that exist: the rule keeps the caches of the equation's derivatives."""
    slope, traced = nt.grad(solve), []
    slope(1.5)
    record = Program._trace
    monkeypatch.setattr(Program, "_trace", lambda self, *args: traced.append(self) or record(self, *args))
    at = nt.root(lambda x, p: np.cos(x) - p * x, 1.0, 1.6)
    traced.clear()
    np.testing.assert_allclose(slope(1.6), -at / (np.sin(at) + 1.6), rtol=1e-6)
    assert not traced


DESIGN = np.random.default_rng(5).normal(size=(6, 3))
OBSERVED = DESIGN @ np.array([1.5, -1.0, 0.4]) + 0.1 * np.arange(6.0)


@pytest.mark.parametrize("of", ["matrix", "vector"])
def test_least_squares_that_are_not_negative(of):
    assert 0 < np.count_nonzero(nnls(DESIGN, OBSERVED)[0]) < 3
    if of == "matrix":
        agrees(lambda a: nnls(a, OBSERVED), DESIGN, value_rtol=1e-10)
    else:
        agrees(lambda b: nnls(DESIGN, b), OBSERVED, value_rtol=1e-10)


@pytest.mark.parametrize(
    "of",
    [
        lambda t: lsq_linear(DESIGN + t[0], OBSERVED, (-0.5, 1.0)),
        lambda t: lsq_linear(
            DESIGN, OBSERVED * t[0], ([-np.inf, -0.3, 0.0], [1.2, np.inf, t[1]]), method="bvls"
        ),
        lambda t: lsq_linear(DESIGN * t, OBSERVED),
    ],
    ids=["matrix", "bounds", "none"],
)
def test_linear_least_squares_with_bounds(of):
    def values(t):
        found = of(t)
        return np.concatenate([found.x, found.fun, [found.cost]])

    agrees(values, np.array([1.0, 0.3, 0.8]), value_rtol=1e-5, rtol=1e-5)


def of_no_root(y, a):
    return y**2 + a


def slow(y, a):
    """Least a thousand times as far away as a search begins."""
    return np.sum((np.asarray(y) - 1000.0 * a) ** 2)


FAILING = {
    "fmin": lambda a: fmin(slow, [5.0], (a,), maxiter=2, disp=0)[0],
    "minimize by Nelder-Mead": lambda a: minimize(slow, [5.0], (a,), "Nelder-Mead", options={"maxiter": 2}).x[
        0
    ],
    "minimize by Powell": lambda a: minimize(banana, [-1.2, 1.0], (a,), "Powell", options={"maxiter": 1}).x[
        0
    ],
    "golden": lambda a: golden(lambda y, a: np.cosh(y - 9.0 * a), (a,), maxiter=2),
    "brent": lambda a: brent(lambda y, a: np.cosh(y - 9.0 * a), (a,), maxiter=2),
    "fsolve": lambda a: fsolve(of_no_root, [3.0], (a,))[0],
    "newton": lambda a: newton(of_no_root, 3.0, args=(a,), maxiter=5, disp=False),
}


def banana(y, a):
    return 100.0 * (y[1] - y[0] ** 2) ** 2 + (a - y[0]) ** 2


@pytest.mark.filterwarnings("ignore:The iteration is not making good progress")
@pytest.mark.parametrize("name", FAILING)
def test_what_a_solver_has_not_solved_has_no_derivative(name):
    with pytest.raises(
        RuntimeError, match=r"no (minimum|root) was found|where the conditions of a solution hold"
    ):
        nt.grad(FAILING[name])(1.0)


@pytest.mark.parametrize(
    "search",
    [
        lambda p, q: minimize_scalar(lambda y: (y - p) ** 2, bounds=(0.0, q)).x,
        lambda p, q: fminbound(lambda y: (y - p) ** 2, 0.0, q),
    ],
)
def test_searches_that_end_at_a_bound_move_with_the_bound(search):
    """SciPy's search ends a little before the bound, where the slope of the function is not zero."""
    np.testing.assert_allclose(nt.grad(search, argnums=(0, 1))(0.4, 1.0), (1.0, 0.0), atol=1e-9)
    np.testing.assert_allclose(nt.grad(search, argnums=(0, 1))(2.0, 1.0), (0.0, 1.0), atol=1e-9)
    np.testing.assert_allclose(nt.grad(search, argnums=(0, 1))(-1.0, 1.0), (0.0, 0.0), atol=1e-9)


def test_a_global_minimum_at_its_bound_moves_with_it():
    def f(high):
        found = differential_evolution(
            lambda y: (y[0] - 0.9) ** 2 + y[1] ** 2, [(-1.0, high), (-1.0, 1.0)], rng=3, tol=1e-10
        )
        return found.x[0] + found.fun

    value, slope = nt.value_and_grad(f)(0.3)
    assert (value, slope) == (pytest.approx(0.66, rel=1e-9), pytest.approx(1.0 - 1.2, rel=1e-7))


def rate_of_return(flows):
    times = np.arange(len(flows))
    return brentq(lambda rate: np.sum(flows / (1.0 + rate) ** times) - 2.0, -0.5, 20.0)


SIZED = {  # how many numbers there are differs from call to call
    "brentq": rate_of_return,
    "root": lambda p: np.sum(root(lambda z: z + 0.1 * z**3 - p, np.zeros(len(p))).x ** 2),
    "fixed_point": lambda p: np.sum(fixed_point(lambda z: 0.3 * np.cos(z) + p, 0.0 * p)),
    "fewer unknowns": lambda p: fsolve(lambda z: z**3 + z - p[:2], np.ones(2)) @ p[-2:],
    "nt.root": lambda p: nt.root(lambda z: z**3 + z - p**2, np.ones(len(p))) @ p,
    "nt.root, a number": lambda p: nt.root(lambda z: z**3 + z - np.sum(p), 1.0) * p[0],
    "nt.root, a dictionary": lambda p: (
        nt.root(lambda z: {"a": z["a"] - p, "b": 2.0 * z["b"] - p}, {"a": p, "b": p})["a"] @ p**2
    ),
    "nt.fixed_point": lambda p: np.sum(nt.fixed_point(lambda z: 0.3 * np.cos(z) + p, np.zeros(len(p))) ** 2),
    "nt.minimize_scalar": lambda p: nt.minimize_scalar(lambda z: np.sum((z - p) ** 2) + z**4, 0.0) ** 2,
    "fit": lambda p: np.sum(np.stack(norm.fit(p)) ** 2),
    "quad": lambda p: quad(lambda t: np.sum(p * np.cos(p * t)), 0.0, p[0])[0],
}


@pytest.mark.parametrize("name", SIZED)
def test_one_tape_serves_parameters_of_any_length(name):
    f = SIZED[name]
    first = np.array([0.9, 0.3, 0.7])
    cache, products = nt.prepare_gradient_cache(f, first), nt.prepare_hvp_cache(f, first)
    for n in (5, 2, 4):
        p, d = np.linspace(0.5, 1.2, n), np.cos(np.arange(n))
        gradient = nt.grad(lambda p: f(p))
        np.testing.assert_allclose(nt.value_and_gradient(cache, p)[0], f(p), rtol=1e-9)
        np.testing.assert_allclose(nt.value_and_gradient(cache, p)[1][0], gradient(p), rtol=1e-9)
    expected = (gradient(p + 1e-5 * d) - gradient(p - 1e-5 * d)) / 2e-5
    np.testing.assert_allclose(nt.value_and_hvp(products, d, p)[2], expected, rtol=1e-5, atol=1e-8)
    assert cache.traces == (4 if name == "nt.root, a dictionary" else 1)


def test_derivatives_that_a_rule_keeps_are_not_more_for_more_sizes():
    """A system has as many directions as unknowns, and a cache for each number of them."""
    kept = KeptDerivatives(lambda y, p: y**2 - p)
    for n in range(1, MOST_KINDS + 4):
        slopes = kept.push((np.ones(n), np.ones(n)), (np.eye(n), None), n)[1]
        np.testing.assert_array_equal(slopes, 2.0 * np.eye(n))
    assert len(kept._idle) == MOST_KINDS
