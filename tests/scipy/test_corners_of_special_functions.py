"""Corners that SciPy's own tests go to: formulas that are 0/0, branches on equality, complex numbers."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special as sc
import scipy.stats as stats

import numbatape as nt


def differences(f, x, step=1e-6):
    return (f(x + step) - f(x - step)) / (2.0 * step)


# SciPy's code branches where parameters are equal, or add up to zero.
RULES = {
    "jacobi, of sum zero": (lambda a: sc.roots_jacobi(3, a, -0.5), 0.5),
    "jacobi, equal": (lambda a: sc.roots_jacobi(4, a, 1.0), 1.0),
    "jacobi, the second of two zeros": (lambda b: sc.roots_jacobi(4, 0.0, b), 0.0),
    "shifted jacobi": (lambda p: sc.roots_sh_jacobi(3, p, 2.0), 3.0),
    "gegenbauer, zero": (lambda a: sc.roots_gegenbauer(4, a), 0.0),
}


@pytest.mark.parametrize("name", RULES)
def test_nodes_and_weights_for_parameters(name):
    rule, place = RULES[name]
    for part in range(2):
        value, back = nt.vjp(lambda p, part=part: rule(p)[part], place)
        wanted = rule(place)[part]
        np.testing.assert_allclose(value, wanted, rtol=1e-13, atol=1e-15)
        weights = np.arange(1.0, 1.0 + len(wanted))
        slope = weights @ differences(lambda p, part=part: rule(p)[part], place)
        assert back(weights)[0] == pytest.approx(slope, rel=1e-7)
    bend = nt.hessian(lambda p: np.sum(rule(p)[1] * rule(p)[0] ** 2))(place)
    slopes = nt.grad(lambda p: np.sum(rule(p)[1] * rule(p)[0] ** 2))
    assert bend == pytest.approx(differences(slopes, place), rel=1e-6)


@pytest.mark.parametrize("name", ["struve", "modstruve"])
def test_struve_functions_at_zero(name):
    function = getattr(sc, name)
    slopes = {0.0: 2.0 / np.pi, 1.0: 0.0, 2.5: 0.0}
    bends = {0.0: 0.0, 1.0: 4.0 / (3.0 * np.pi), 2.5: 0.0}
    for order in slopes:
        f = lambda x, order=order: function(order, x)  # noqa: E731
        assert nt.grad(f)(0.0) == pytest.approx(slopes[order], rel=1e-15)
        assert nt.hessian(f)(0.0) == pytest.approx(bends[order], rel=1e-15)


def test_legendre_functions_whose_order_is_minus_their_degree():
    f = lambda x: sc.lpmv(-3, 3, x)  # noqa: E731
    assert nt.grad(f)(0.3) == pytest.approx(differences(f, 0.3), rel=1e-8)


@pytest.mark.parametrize("name", ["jvp", "yvp", "ivp", "kvp"])
def test_derivatives_of_bessel_functions_for_the_order(name):
    function = getattr(sc, name)
    for order in (1.3, -0.7):
        slope = nt.grad(lambda v: function(v, 2.2, 2))(order)
        assert slope == pytest.approx(differences(lambda v: function(v, 2.2, 2), order, 1e-5), rel=1e-8)


def test_complex_numbers_far_away_and_functions_that_have_no_rule():
    z = np.array([1e20 + 0j, -1e200 + 1e200j, 1e300 + 0j])
    cache = nt.prepare_derivative_cache(sc.digamma, z)
    _, slope = nt.value_and_derivative(cache, (z, np.ones_like(z)))
    np.testing.assert_allclose(slope, 1.0 / z, rtol=1e-14)
    with pytest.raises(nt.UnsupportedOperationError, match="lqn"):
        nt.grad(lambda x: np.sum(sc.lqn(2, x + 1j)[0].real))(1.4)
    # SciPy has the complex numbers in such a call, of which only the real parts would be left.
    with pytest.raises(nt.UnsupportedOperationError, match="complex numbers"):
        nt.grad(lambda c: stats.genextreme.logpdf(0.3 + 1e-10j, c).real)(-0.1)


def test_laws_at_ends_and_without_a_mean():
    end = stats.tukeylambda.support(3.13)[1]
    assert nt.value_and_grad(lambda x: stats.tukeylambda.pdf(x, 3.13))(end) == (0.0, 0.0)
    assert nt.value_and_grad(lambda a: stats.betaprime.var(a, 1.0))(1.0)[0] == np.inf


@pytest.mark.filterwarnings("ignore:The occurrence of roundoff error")
def test_tangents_of_integrals_whose_integrand_underflows():
    f = lambda c: stats.loggamma.moment(1, c)  # noqa: E731
    with np.errstate(over="ignore"):  # in SciPy's density
        cache = nt.prepare_derivative_cache(f, 0.414)
        value, slope = nt.value_and_derivative(cache, (0.414, 1.0))
    assert (value, slope) == pytest.approx((sc.psi(0.414), float(sc.polygamma(1, 0.414))), rel=1e-9)


def test_moments_of_trapezoids():
    """By SciPy's formulas, which have cases for single values of the parameters, so that slopes are ours."""
    for c, d in ((0.2, 0.8), (0.3, 0.3), (0.0, 0.4)):
        for moments in "mvsk":
            f = lambda c, d, m=moments: stats.trapezoid.stats(c, d, moments=m)  # noqa: E731
            value, _ = nt.value_and_grad(f, argnums=(0, 1))(c, d)
            assert value == pytest.approx(f(c, d), rel=1e-12, abs=1e-13)
    # mpmath
    slope = nt.grad(lambda c: stats.trapezoid.stats(c, 0.8, moments="k"))(0.2)
    assert slope == pytest.approx(0.732749847343782, rel=1e-11)
