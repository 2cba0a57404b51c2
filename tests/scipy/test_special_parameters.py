"""Derivatives of special functions for their orders, and values at the ends of their ranges."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import scipy.special as sc
from scipy import stats

import numbatape as nt

# First and second derivatives for the order, by mpmath with 40 digits: v, x, first, second
ORDERS = {
    "jv": [
        (0.0, 1.0, 0.138633715204054, -1.7484515579225308),
        (2.5, 1e-05, -2.2387299503151564e-13, 2.9740201125346943e-12),
        (50.0, 30.0, -2.292627851628866e-08, 2.5036333695991985e-08),
        (3.0, 600.0, -0.0347099719503807, 0.05855238377467384),
        (-2.3, 0.001, -123209560.19379207, 1120811730.290641),
    ],
    "yv": [
        (0.0, 1.0, -1.2019697153172064, 0.41718298601596143),
        (200.0, 180.0, -20.320400672456866, -9.753897033353828),
        (-0.5, 1.0, -0.9462332553593081, -1.7882795387823636),
        (10.0, 10.0, -0.14849512576976434, 0.004706665494464859),
    ],
    "ive": [
        (0.0, 30.0, -1.995492040143749e-27, -0.002480387428825348),
        (50.0, 1.0, -4.982568566618329e-80, 2.297434136825676e-79),
        (-2.3, 0.001, -123086368.35060595, 1119691115.617027),
        (2.0, 800.0, -3.520122931317415e-05, -1.7512519816007226e-05),
    ],
    "struve": [
        (0.0, 1.0, -0.37069705368079886, -0.35145822469624793),
        (-2.2, 3.0, -1.1205059507499262, -0.31284893396141544),
        (7.0, 20.0, 113.15876532883468, -3.6135465537247233),
        (2.0, 150.0, 115.06606674529596, 400.1279117986822),
    ],
    "modstruve": [
        (1.5, 0.3, -0.013941671626031488, 0.03739145807270882),
        (0.0, 1.0, -0.5684741105285354, -0.14453661403788498),
        (0.5, 60.0, -4.9429656953755e22, -9.844152057964914e22),
    ],
}


@pytest.mark.parametrize("name", ORDERS)
def test_derivatives_of_bessel_and_struve_functions_for_their_order(name):
    v, x, first, second = np.array(ORDERS[name]).T
    function = getattr(sc, name)
    np.testing.assert_allclose(nt.grad(lambda v: function(v, x).sum())(v), first, rtol=1e-12)
    np.testing.assert_allclose(nt.hvp(lambda v: function(v, x).sum())(v, np.ones_like(v)), second, rtol=2e-12)


@pytest.mark.parametrize("name", ["jv", "yve", "iv", "ive", "struve", "modstruve"])
def test_orders_and_arguments_together(name):
    function = getattr(sc, name)
    nt.check(lambda v, x: function(v, x), np.array([0.3, 2.0, -1.4]), np.array([1.0, 2.0, 30.0]))


# By mpmath's quadrature with 50 digits: degrees of freedom, t, first and second derivative of stdtr for them
STUDENT = np.array(
    [
        (20.5, 0.01, 2.3418279583803285e-06, -2.2680988129183914e-07),
        (30.0, -2.4, -0.00011232951416923716, 7.824513659147082e-06),
        (1000.0, 2.5, 7.981162467258515e-08, -1.6000852355667103e-10),
        (10000.0, 0.3, 3.117761841632874e-10, -6.23544011991227e-14),
        (1000000.0, -6.0, -3.3731078492270763e-19, 6.747208687518526e-25),
        (1000000.0, 1.0, 1.2098530176687542e-13, -2.4197054304103946e-19),
        (100000000.0, 2.0, 1.3497741756525551e-17, -2.6995483641279632e-25),
        (1000000000000.0, 7.0, 7.992880361793594e-34, -1.5985760728061762e-45),
    ]
).T


def test_student_of_many_degrees_of_freedom():
    v, t, first, second = STUDENT
    slope = nt.grad(lambda v: sc.stdtr(v, t).sum())
    np.testing.assert_allclose(slope(v), first, rtol=2e-14)
    np.testing.assert_allclose(nt.hvp(lambda v: sc.stdtr(v, t).sum())(v, np.ones_like(v)), second, rtol=2e-13)
    np.testing.assert_allclose(nt.grad(lambda v: stats.t.sf(t, v).sum())(v), -first, rtol=2e-14)
    # SciPy's density itself has an error of 2e-12 at 10 000 degrees of freedom
    np.testing.assert_allclose(nt.grad(lambda t: stats.t.cdf(t, v).sum())(t), stats.t.pdf(t, v), rtol=1e-11)
    # Cornish and Fisher's expansion
    z = sc.ndtri(0.9)
    wanted = -(z**3 + z) / 4e16 - (5 * z**5 + 16 * z**3 + 3 * z) / 48e24
    assert nt.grad(lambda v: sc.stdtrit(v, 0.9))(1e8) == pytest.approx(wanted, rel=1e-14)
    for f, at, point in ((sc.stdtr, 1.3, stats.norm.pdf(1.3)), (sc.stdtrit, 0.9, 1.0 / stats.norm.pdf(z))):
        slopes = nt.grad(f, argnums=(0, 1))(np.inf, at)
        np.testing.assert_allclose(slopes, (0.0, point), rtol=1e-14)
        assert np.all(np.isfinite(nt.hessian(lambda x, f=f: f(x[0], x[1]))(np.array([np.inf, at]))))


# The same for betainc: a, b, x and the three slopes
BETA = np.array(
    [
        (1000.0, 1000.0, 0.5125, -0.004716220714435402, 0.004835621224284202, 19.10527889125088),
        (1000000.0, 1000.0, 0.99905, -3.6303716701147306e-06, 0.0037231405461247793, 3825.169585017497),
        (
            100000000.0,
            100000000.0,
            0.5000625,
            -5.912658467875159e-06,
            5.913397596380484e-06,
            2365.2112296047085,
        ),
        (
            10000000000.0,
            1000000.0,
            0.9999001,
            -2.6597248435075498e-08,
            0.00026609231346409593,
            2662653.349494418,
        ),
    ]
).T


def test_beta_of_large_parameters():
    *point, for_a, for_b, density = BETA
    slopes = nt.grad(lambda a, b, x: sc.betainc(a, b, x).sum(), argnums=(0, 1, 2))(*point)
    np.testing.assert_allclose(slopes, (for_a, for_b, density), rtol=4e-12)
    a, b, x = point
    f = nt.grad(lambda q: stats.f.cdf(q, 2.0 * a, 2.0 * b).sum())(b * x / (a * (1.0 - x)))
    np.testing.assert_allclose(f, density * a / b * (1.0 - x) ** 2, rtol=4e-12)
    inverse = nt.grad(lambda p: sc.betaincinv(1e8, 1e8, p))(0.5)
    assert inverse == pytest.approx(np.sqrt(np.pi / 4e8) * (1.0 + 1.0 / 16e8), rel=1e-13)


EDGES = {
    "agm of far numbers": (
        sc.agm,
        [1e180, 1e-150, 1e-150, 0.0, 1.0],
        [1e-150, 1e180, 1e-170, np.inf, np.inf],
    ),
    "agm of extreme numbers": (sc.agm, [1e308, 2.3e-308, -1.0, -3.0], [1.7e308, 6.7e-308, -np.inf, -2.0]),
    "inv_boxcox": (sc.inv_boxcox, [6.45e307, -6.45e307, -np.inf, 2.0], [155.0, -155.0, 0.0, 0.5]),
    "inv_boxcox1p": (sc.inv_boxcox1p, [6.45e307, -6.45e307, 1.5], [155.0, -155.0, 0.0]),
    "elliprc": (sc.elliprc, [1.0, np.inf, -1.0, 1.0], [np.inf, 1.0, np.inf, 2.0]),
    "elliprd": (lambda x, z: sc.elliprd(x, 1.0, z), [1.0, np.inf, 1.0, np.inf], [np.inf, 1.0, 2.0, 0.0]),
    "elliprf": (lambda x, z: sc.elliprf(x, 1.0, z), [1.0, 0.0, 1.0], [np.inf, np.inf, 2.0]),
    "elliprj": (lambda x, p: sc.elliprj(x, 1.0, 1.0, p), [1.0, np.inf, 1.0], [np.inf, 1.0, 2.0]),
    "complex xlogy": (sc.xlogy, [0j, 0j, 1.0 + 0j], [np.inf + 0j, 0j, 2.0 + 1j]),
}


@pytest.mark.parametrize("name", EDGES)
def test_values_at_the_ends_of_the_range(name):
    function, x, y = EDGES[name][0], *map(np.array, EDGES[name][1:])
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(
            nt.jvp(function, (x, y), (0.0 * x, 0.0 * y))[0], function(x, y), rtol=1e-12
        )


def test_the_agm_of_numbers_whose_squares_underflow_has_a_derivative():
    slope = nt.grad(sc.agm, argnums=(0, 1))(1e-150, 1e-170)
    np.testing.assert_allclose(slope, np.array(nt.grad(sc.agm, argnums=(0, 1))(1e150, 1e130)), rtol=1e-13)
    slope = nt.grad(sc.inv_boxcox)(6.45e307, 155.0)
    np.testing.assert_allclose(slope, sc.inv_boxcox(6.45e307, 155.0) / 155.0 / 6.45e307, rtol=1e-12)


def test_stacks_of_singular_values():
    s = np.array([[1.0, 2.0], [3.0, np.inf]])
    value, _ = nt.jvp(lambda s: scipy.linalg.diagsvd(s, 2, 3), (s,), (s,))
    np.testing.assert_array_equal(value, np.stack([scipy.linalg.diagsvd(row, 2, 3) for row in s]))
    with pytest.raises(ValueError, match="Length of s must be M or N"):
        nt.jvp(lambda s: scipy.linalg.diagsvd(s, 3, 3), (s,), (s,))
