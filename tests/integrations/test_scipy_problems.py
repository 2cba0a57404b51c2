"""`scipy_problem`: keywords that SciPy's optimisers take as they are, for arrays and containers alike."""

import dataclasses
import warnings

import numpy as np
import pytest
import scipy.sparse
from scipy.optimize import OptimizeWarning, curve_fit, fsolve, least_squares, minimize, root

import numbatape as nt
from numbatape import transforms
from numbatape.integrations import scipy_problem

METHODS = [
    *[(method, None) for method in ("BFGS", "CG", "L-BFGS-B", "TNC", "SLSQP", "trust-constr")],
    *[(method, "product") for method in ("Newton-CG", "trust-ncg", "trust-krylov", "trust-constr")],
    *[(method, "dense") for method in ("Newton-CG", "dogleg", "trust-exact", "trust-constr")],
    ("trust-constr", "sparse"),
]


@dataclasses.dataclass
class Point:
    x: float
    rest: np.ndarray


def rosen(x, a=1.0):
    terms = np.zeros(2)
    terms[0] = np.sum(a * (x[1:] - x[:-1] ** 2) ** 2)
    terms[1] = np.sum((1 - x[:-1]) ** 2)
    return np.sum(terms)


STARTS = {
    "array": (np.full(3, 0.8), lambda x: x),
    "list": ([0.8, 0.8, 0.8], lambda x: x),
    "integers": (np.full(3, 2), lambda x: x),
    "dictionary": ({"b": np.full(2, 0.8), "a": 0.8}, lambda p: np.append(p["a"], p["b"])),
    "dataclass": (Point(0.8, np.full(2, 0.8)), lambda p: np.append(p.x, p.rest)),
}


@pytest.mark.parametrize("method, hess", METHODS)
@pytest.mark.filterwarnings("ignore:delta_grad == 0.0")  # of trust-constr's own update
def test_minimize(method, hess):
    problem = scipy_problem(rosen, np.full(3, 0.8), args=(2.0,), hess=hess)
    found = minimize(**problem, method=method)
    assert np.allclose(found.x, 1.0, atol=1e-3)
    assert np.allclose(problem.unflatten(found.x), found.x)


@pytest.mark.parametrize("kind", STARTS)
def test_containers(kind):
    start, parts = STARTS[kind]
    problem = scipy_problem(lambda p, a: rosen(parts(p), a), start, args=(2.0,), hess="product")
    solution = problem.unflatten(minimize(**problem, method="trust-ncg").x)
    assert type(solution) is (np.ndarray if kind in ("list", "integers") else type(start))
    assert np.allclose(parts(solution), 1.0, atol=1e-5)
    assert len(problem.names) == 3


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("kind", STARTS)
def test_least_squares(kind, sparse):
    start, parts = STARTS[kind]

    def residuals(p, a):
        x = parts(p)
        return np.append(a * (x[1:] - x[:-1] ** 2), 1 - x[:-1])

    problem = scipy_problem(residuals, start, args=(2.0,), solver="least_squares", sparse=sparse)
    assert scipy.sparse.issparse(problem["jac"](problem["x0"], 2.0)) == sparse
    found = least_squares(**problem)
    assert np.allclose(parts(problem.unflatten(found.x)), 1.0)


def test_root_and_fsolve():
    def f(x, t):
        return np.array([x[0] ** 2 + x[1] - t, x[1] - x[0]])

    problem = scipy_problem(f, [1.0, 1.0], args=(1.0,), solver="root")
    golden = (np.sqrt(5) - 1) / 2
    for method in ("hybr", "lm"):
        assert np.allclose(root(**problem, method=method).x, golden)
    assert np.allclose(fsolve(problem["fun"], problem["x0"], args=(1.0,), fprime=problem["jac"]), golden)
    single = scipy_problem(lambda x: x**2 - 2.0, 1.0, solver="root")
    assert np.allclose(root(**single).x, np.sqrt(2.0))


@pytest.mark.parametrize("by_name", [False, True])
def test_curve_fit(by_name):
    x = np.linspace(0.0, 3.0, 30)
    y = 2.0 * np.exp(-1.3 * x) + 0.5
    numbers = lambda x, a, b, c: a * np.exp(-b * x) + c  # noqa: E731
    names = lambda x, p: numbers(x, p["a"], p["b"], p["c"])  # noqa: E731
    start = {"a": 1.0, "b": 1.0, "c": 1.0} if by_name else [1.0, 1.0, 1.0]
    problem = scipy_problem(names if by_name else numbers, start, args=(x, y), solver="curve_fit")
    found, _ = curve_fit(**problem)
    assert np.allclose(found, [2.0, 1.3, 0.5])
    assert np.allclose(problem["jac"](x, *found), nt.jacobian(lambda v: numbers(x, *v))(found))


def test_a_density_with_constraints():
    def loss(s):
        return 3.0 * np.log(s) + 2.0 / s

    density = transforms.unconstrained(lambda s: -loss(s), 1.0, transforms.positive)
    problem = scipy_problem(lambda v: -(density(v) - density.log_jacobian(v)), density.start)
    assert np.allclose(density.constrain(minimize(**problem).x), 2.0 / 3.0, atol=1e-5)


def test_data_captured_by_the_function_is_watched():
    data = np.array([1.0, 2.0])
    problem = scipy_problem(lambda p: np.sum((p["x"] - data) ** 2), {"x": np.zeros(2)})
    for data[0] in (1.0, 5.0):
        assert np.allclose(minimize(**problem).x, data, atol=1e-6)


def test_gradients_are_fresh_arrays():
    """SciPy's BFGS keeps gradients, so that one in a reused buffer would spoil it."""
    fun = scipy_problem(rosen, np.zeros(3))["fun"]
    _, first = fun(np.zeros(3))
    kept = first.copy()
    fun(np.ones(3))
    assert np.array_equal(first, kept)


@pytest.mark.parametrize(
    "make, error, message",
    [
        (
            lambda: scipy_problem(rosen, np.ones(3), solver="fmin"),
            ValueError,
            "solver='fmin': must be one of",
        ),
        (lambda: scipy_problem(rosen, np.ones(3), hess=True), ValueError, "hess=True: must be one of"),
        (
            lambda: scipy_problem(rosen, np.ones(3), solver="root", hess="dense"),
            ValueError,
            "is for minimize",
        ),
        (lambda: scipy_problem(rosen, np.ones(3), sparse=True), ValueError, "takes hess='sparse'"),
        (lambda: scipy_problem(rosen, np.ones(3), "root"), TypeError, "solver='root'"),
        (lambda: scipy_problem(rosen, {"n": "x"}), nt.SpecError, "holds no floats"),
        (lambda: scipy_problem(3.0, np.ones(3)), TypeError, "is not callable"),
        (lambda: scipy_problem(rosen, [1.0], solver="curve_fit"), nt.SpecError, r"args=\(xdata, ydata\)"),
        (lambda: minimize(**scipy_problem(lambda x: x, np.ones(3))), nt.OutputError, "one real scalar"),
        (
            lambda: least_squares(
                **scipy_problem(lambda x: np.outer(x, x), np.ones(3), solver="least_squares")
            ),
            nt.OutputError,
            r"residuals must be a vector of real numbers, got float64 of shape \(3, 3\)",
        ),
    ],
)
def test_errors(make, error, message):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OptimizeWarning)
        with pytest.raises(error, match=message):
            make()
