"""Derivatives of 0F1, 1F1, 2F1, Tricomi's U and Wright's function for their parameters, against mpmath."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
import scipy.special as sc
import scipy.stats as stats

import numbatape as nt


def wright_bessel(a, b, x):
    return mp.nsum(lambda k: x**k * mp.rgamma(a * k + b) / mp.factorial(k), [0, 60])


FUNCTIONS = {
    "hyp0f1": mp.hyp0f1,
    "hyp1f1": mp.hyp1f1,
    "hyp2f1": mp.hyp2f1,
    "hyperu": mp.hyperu,
    "wright_bessel": wright_bessel,
}
# Series at once; polynomials; alternating terms that cancel; continuations
PLACES = [
    ("hyp0f1", (2.5, -40.0)),
    ("hyp0f1", (-1.5, 6.0)),
    ("hyp1f1", (0.5, 1.5, 0.3)),
    ("hyp1f1", (-3.0, 2.0, 5.0)),
    ("hyp1f1", (0.7, 1.2, -40.0)),
    ("hyp2f1", (0.5, 1.5, 2.2, 0.3)),
    ("hyp2f1", (-3.0, 1.2, 0.5, 0.8)),
    ("hyp2f1", (1.2, 2.3, 3.1, -2.5)),
]
# A line, a loop, a polynomial; terms at poles of gamma and beside them
INTEGRALS = [
    ("hyperu", (1.3, 0.7, 2.0)),
    ("hyperu", (-3.4, 4.3, 0.5)),
    ("hyperu", (-2.0, 6.7, 3.0)),
    ("wright_bessel", (1.3, 0.7, 3.0)),
    ("wright_bessel", (0.0, 1e-5, 0.5)),
]


@pytest.mark.parametrize(
    ("name", "place", "error"),
    [(*case, 2e-15) for case in PLACES] + [(*case, 4e-13) for case in INTEGRALS],
)
def test_derivatives_of_both_orders(name, place, error):
    function, exact, count = getattr(sc, name), FUNCTIONS[name], len(place)
    wanted = np.zeros((count, count))
    with mp.workdps(45):
        at = [mp.mpf(p) for p in place]

        def partial(*places):
            orders = tuple(sum(k == p for p in places) for k in range(count))
            return float(mp.diff(exact, tuple(at), orders, h=mp.mpf(10) ** -11))

        slopes = [partial(k) for k in range(count)]
        for i in range(count):
            for j in range(i, count):
                wanted[i, j] = wanted[j, i] = partial(i, j)
    found = nt.grad(lambda p: function(*p))(np.array(place))
    np.testing.assert_allclose(found[:-1], slopes[:-1], rtol=error)
    np.testing.assert_allclose(found[-1], slopes[-1], rtol=max(error, 1e-13))  # SciPy's own value
    bends = nt.hessian(lambda p: function(*p))(np.array(place))
    np.testing.assert_allclose(bends[:-1, :-1], wanted[:-1, :-1], rtol=error)
    np.testing.assert_allclose(bends, wanted, rtol=1e-12)


def test_the_logarithm_of_wrights_function_where_that_overflows():
    """The logarithm of the sum is, to first order, the exponent of its largest term."""
    place = np.array([1.3, 0.7, 1e6])
    assert np.isinf(sc.wright_bessel(*place))
    found = nt.grad(lambda p: sc.log_wright_bessel(*p))(place)
    ends = [sc.log_wright_bessel(*(place * (1.0 + sign * 1e-6))) for sign in (1.0, -1.0)]
    assert found @ place == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-8)
    nt.check(lambda a, b, x: sc.log_wright_bessel(a, b, x), *np.array([1.3, 0.7, 2.0]))


def test_where_differences_of_parameters_are_whole_numbers():
    """Numbers of mpmath with 60 digits, which takes seconds here."""
    cases = {
        (0.5, 1.0, 1.5, 0.999): (16.38379181649425, -10.550076777513345),
        (1.0, 2.0, 3.0, -25.0): (-0.1740893230816792, 0.02909173301486756),
    }
    for (a, b, c, x), wanted in cases.items():
        found = nt.grad(lambda a, c, b=b, x=x: sc.hyp2f1(a, b, c, x), argnums=(0, 1))(a, c)
        np.testing.assert_allclose(found, wanted, rtol=1e-15)


def test_arrays_of_parameters_and_places_beyond():
    a, x = np.array([[0.3], [1.7]]), np.array([0.0, 0.4, 1.0])
    value, slopes = nt.value_and_derivative(
        nt.prepare_derivative_cache(lambda a: sc.hyp2f1(a, 0.4, 3.0, x), a), (a, np.ones_like(a))
    )
    np.testing.assert_array_equal(value, sc.hyp2f1(a, 0.4, 3.0, x))
    near = [float(mp.diff(lambda a: mp.hyp2f1(a, 0.4, 3, 0.4), p)) for p in (0.3, 1.7)]
    ends = [float(mp.diff(lambda a: mp.hyp2f1(a, 0.4, 3, 1), p)) for p in (0.3, 1.7)]
    np.testing.assert_allclose(slopes, np.column_stack([np.zeros(2), near, ends]), rtol=1e-13)
    # There is no value where a bottom parameter is a pole, and none beyond the singularity at 1.
    assert np.isnan(nt.grad(lambda a: sc.hyp1f1(a, -2.0, 1.0))(0.3))
    assert np.isnan(nt.grad(lambda a: sc.hyp2f1(a, 1.0, 2.0, 1.5))(0.3))


def test_a_law_whose_density_is_normalised_by_one():
    """Watson's law on the sphere: the mean of the squared cosine is the slope of log M(1/2, 3/2, k)."""
    k = 3.0
    mean = nt.grad(lambda k: np.log(sc.hyp1f1(0.5, 1.5, k)))(k)
    t = np.linspace(0.0, 1.0, 20001)
    weight = np.exp(k * t * t)
    assert mean == pytest.approx(np.trapezoid(t * t * weight, t) / np.trapezoid(weight, t), rel=1e-8)
    shapes = np.array([2.0, 3.0, 1.5, 0.7])
    found = nt.grad(lambda s: stats.gausshyper.logpdf(0.4, *s))(shapes)
    for n, slope in enumerate(found):
        step = 1e-5 * (np.arange(4) == n)
        ends = [stats.gausshyper.logpdf(0.4, *(shapes + sign * step)) for sign in (1.0, -1.0)]
        assert slope == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-6)


DEGREES = {
    "eval_jacobi": lambda v: sc.eval_jacobi(v, 1.0, 2.0, 0.3),
    "eval_gegenbauer": lambda v: sc.eval_gegenbauer(v, 0.7, -0.3),
    "eval_genlaguerre": lambda v: sc.eval_genlaguerre(v, 0.7, 1.3),
    "eval_chebys": lambda v: sc.eval_chebys(v, 0.3) + sc.eval_chebyc(v, -0.8),
    "eval_sh_jacobi": lambda v: sc.eval_sh_jacobi(v, 2.5, 1.5, 0.3),
    "lpmv": lambda v: sc.lpmv(1, v, 0.3) + sc.lpmv(-2.0, v, -0.4),
}


@pytest.mark.parametrize("name", DEGREES)
def test_degrees_of_polynomials(name):
    nt.testing.check_derivatives(DEGREES[name], np.array([1.4, 3.0]), points=0, float32=False)
