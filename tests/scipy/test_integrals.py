"""Integrals over several variables: SciPy's values, and derivatives by those of integrals of integrals."""

import numpy as np
import pytest
from scipy.integrate import dblquad, nquad, quad, quad_vec, tplquad

import numbatape as nt
from numbatape.programs.program import Program
from tests.agreement import agrees

POINT = np.array([1.2, 0.7])
INTEGRALS = {
    "quad, cosine": lambda t: quad(lambda x: np.exp(-t[0] * x), 0.1, t[1], weight="cos", wvar=3.0)[0],
    "quad, infinite sine": lambda t: quad(lambda x: np.exp(-t[0] * x), t[1], np.inf, weight="sin", wvar=2.0)[
        0
    ],
    "quad, powers": lambda t: quad(lambda x: np.exp(-t[0] * x), 0, 1, weight="alg-loga", wvar=(0.5, -0.3))[0],
    "quad, principal value": lambda t: quad(np.exp, -t[1], t[0], weight="cauchy", wvar=0.3)[0],
    "quad, complex": lambda t: quad(lambda x: np.exp(1j * t[0] * x), 0.0, t[1], complex_func=True)[0],
    "dblquad": lambda t: dblquad(lambda y, x: np.exp(-t[0] * x * y), 0.0, 1.0, 0.0, t[1])[0],
    "dblquad, functions": lambda t: dblquad(
        lambda y, x, a: a * x * y, 0.0, 1.0, lambda x: t[0] * x, lambda x: 2.0, args=(t[1],)
    )[0],
    "quad_vec": lambda t: quad_vec(lambda x: np.exp(-t[0] * x * np.arange(3.0)), 0.1, t[1])[0],
    "quad_vec, args": lambda t: quad_vec(lambda x, a: np.sin(a * x), t[0], 2.0, args=(t,))[0],
    "quad_vec, infinite": lambda t: quad_vec(lambda x: np.exp(-t * x**2), 0.0, np.inf)[0],
    "nquad": lambda t: nquad(lambda x, y: t[0] * x * y, [lambda y: (0.0, t[1] * y), (0.0, 1.0)])[0],
    "nquad, options": lambda t: nquad(
        lambda x, y, a: np.abs(x - 0.5) * a * y, [(0.0, 1.0), (0.0, 1.0)], [t[0]], [{"points": [0.5]}, {}]
    )[0],
}


@pytest.mark.parametrize("name", INTEGRALS)
def test_integrals_over_several_variables(name):
    agrees(INTEGRALS[name], POINT, order=1)


def test_three_variables():
    volume = lambda a: tplquad(lambda z, y, x: a * y, 0.0, 1.0, 0.0, 1.0, 0.0, lambda x, y: x)[0]  # noqa: E731
    value, slope = nt.jvp(volume, (1.2,), (1.0,))
    np.testing.assert_allclose([value, slope], [0.3, 0.25], rtol=1e-12)


def test_second_derivative_between_integers():
    f = lambda t: dblquad(lambda y, x: np.exp(-t[0] * x * y), 0, 1, 0, t[1])[0]  # noqa: E731
    v = np.array([1.0, 2.0])
    steps = [nt.grad(f)(POINT + h * v) for h in (1e-4, -1e-4)]
    np.testing.assert_allclose(nt.hvp(f)(POINT, v), (steps[0] - steps[1]) / 2e-4, rtol=1e-6)


def test_the_integrand_is_traced_a_few_times(monkeypatch):
    """And not at each point, although the derivative of an integral is an integral of derivatives."""
    traced, record = [], Program._trace
    monkeypatch.setattr(Program, "_trace", lambda self, *args: traced.append(self) or record(self, *args))
    f = lambda t: dblquad(lambda y, x: np.exp(-t * x * y), 0, 1, 0, 1)[0]  # noqa: E731
    nt.jvp(f, (1.3,), (1.0,))
    assert len(traced) < 10


def test_second_derivative():
    volume = nt.hessian(lambda t: dblquad(lambda y, x: t * t * x * y, 0.0, 1.0, 0.0, 1.0)[0])
    np.testing.assert_allclose(volume(1.3), 0.5, rtol=1e-12)


def test_second_derivatives_of_integrals_of_arrays():
    f = lambda t: np.sum(quad_vec(lambda x: np.exp(-t[0] * x * np.arange(3.0)), 0.0, t[1])[0])  # noqa: E731
    v = np.array([1.0, 2.0])
    steps = [nt.grad(f)(POINT + h * v) for h in (1e-4, -1e-4)]
    np.testing.assert_allclose(nt.hvp(f)(POINT, v), (steps[0] - steps[1]) / 2e-4, rtol=1e-6)


def test_what_is_not_supported():
    with pytest.raises(
        nt.UnsupportedOperationError, match=r"nquad.* takes neither full_output nor functions"
    ):
        nt.grad(lambda t: nquad(lambda x: t * x, [(0.0, 1.0)], full_output=True)[0])(1.0)
    with pytest.raises(nt.UnsupportedOperationError, match=r"quad\(weight='sin'\).*multiply the integrand"):
        nt.grad(lambda t: quad(np.exp, 0.0, 1.0, weight="sin", wvar=t)[0])(1.0)
    with pytest.raises(nt.UnsupportedOperationError, match=r"quad_vec\(workers=\.\.\.\).* epsrel"):
        nt.grad(lambda t: np.sum(quad_vec(lambda x: t * x * np.ones(2), 0.0, 1.0, workers=2)[0]))(1.0)
    with pytest.raises(nt.UnsupportedOperationError, match=r"nquad\(weight=\.\.\.\)"):
        nt.grad(lambda t: nquad(lambda x: t * x, [(0.0, 1.0)], opts={"weight": "cos"})[0])(1.0)
