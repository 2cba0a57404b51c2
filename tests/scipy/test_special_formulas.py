"""Functions of ``scipy.special`` whose slopes are formulas of such functions: integrals, waves, harmonics."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special as sc

import numbatape as nt

X = np.array([0.15, 0.4, 0.7])


def total(results):
    """Return all results of a function in one real array, each with a weight of its own."""
    results = results if isinstance(results, tuple) else (results,)
    return np.concatenate([np.ravel(np.real(r) + 0.5 * np.imag(r)) for r in results])


def of(name, *orders):
    """Return a function of ``scipy.special`` of the last argument."""
    return lambda x: getattr(sc, name)(*orders, x)


INTEGRALS = {
    **{name: of(name) for name in ("itj0y0", "iti0k0", "it2j0y0", "it2i0k0", "itstruve0", "it2struve0")},
    **{name: of(name) for name in ("kelvin", "modfresnelp", "modfresnelm")},
    "modified Fresnel integrals left of 0": lambda x: sc.modfresnelp(-x) + sc.modfresnelm(-2.0 * x),
    "lqn": lambda x: sc.lqn(3, x - 0.4),
    "lqmn": lambda x: sc.lqmn(2, 3, x + 1.1),
    "riccati_jn": lambda x: sc.riccati_jn(3, x[1]) + sc.riccati_yn(2, x[2]),
    "lmbda": lambda x: sc.lmbda(2.5, x[0]) + sc.lmbda(2, -x[1]),
    "pbdv_seq": lambda x: sc.pbdv_seq(2.5, x[0]) + sc.pbvv_seq(1.0, x[1]),
    "pro_cv_seq": lambda x: (sc.pro_cv_seq(1, 4, x[1] + 1.0), sc.obl_cv_seq(0, 3, x[2])),
    "itstruve0 of negative numbers": lambda x: sc.itstruve0(x - 0.5),
    "besselpoly": lambda x: sc.besselpoly(x + 0.5, 0.5, [[1.5], [2.0]]),
    "log_wright_bessel": of("log_wright_bessel", 0.5, 1.2),
}
CV = float(sc.pro_cv(1, 2, 1.5)), float(sc.obl_cv(1, 2, 1.5))
WAVES = {
    **{name: of(name, [[1.3], [-0.4]]) for name in ("pbdv", "pbvv", "pbwa")},
    "mathieu_cem": lambda x: sc.mathieu_cem(2, 1.5, 30.0 * x),
    "mathieu_sem": lambda x: sc.mathieu_sem(2, 1.5, 30.0 * x),
    **{name: of(name, 2, 1.5) for name in ("mathieu_modcem1", "mathieu_modcem2")},
    **{name: of(name, 2, 1.5) for name in ("mathieu_modsem1", "mathieu_modsem2")},
    "mathieu_a": lambda x: sc.mathieu_a([[0], [2], [3]], 4.0 * x),
    "mathieu_b": lambda x: sc.mathieu_b([[1], [2], [5]], 4.0 * x),
    "pro_cv": lambda x: sc.pro_cv([[0], [1]], [[0], [4]], x + 2.0),
    "obl_cv": lambda x: sc.obl_cv([[0], [1]], [[1], [3]], x + 2.0),
    "pro_ang1": of("pro_ang1", 1, 2, 1.5),
    "pro_rad1": lambda x: sc.pro_rad1(1, 2, 1.5, x + 1.2),
    "pro_rad1_cv": lambda x: sc.pro_rad1_cv(1, 2, 1.5, CV[0], x + 1.2),
    "obl_ang1_cv": of("obl_ang1_cv", 1, 2, 1.5, CV[1]),
    "obl_rad1": of("obl_rad1", 1, 2, 1.5),
}
HARMONICS = {
    "legendre_p": lambda x, n: sc.legendre_p([[3], [0], [1]], x, diff_n=n),
    "legendre_p_all": lambda x, n: sc.legendre_p_all(3, x[0], diff_n=n),
    "assoc_legendre_p": lambda x, n: sc.assoc_legendre_p(4, 2, x, norm=True, diff_n=n),
    "assoc_legendre_p outside": lambda x, n: sc.assoc_legendre_p(3, -1, x + 1.0, branch_cut=3, diff_n=n),
    "assoc_legendre_p_all": lambda x, n: sc.assoc_legendre_p_all(3, 2, x, diff_n=n),
    "sph_legendre_p around the pole": lambda x, n: sc.sph_legendre_p(3, [[1], [2]], 6 * x - 1.85, diff_n=n),
    "sph_legendre_p_all": lambda x, n: sc.sph_legendre_p_all(2, 1, x, diff_n=n),
    "sph_harm_y": lambda x, n: sc.sph_harm_y([[3], [1]], -1, x, 2.0 * x[0], diff_n=n),
    "sph_harm_y_all": lambda x, n: sc.sph_harm_y_all(2, 2, x, 2.0 * x, diff_n=n),
}


@pytest.mark.parametrize("name", [*INTEGRALS, *WAVES])
def test_derivatives_of_integrals_and_waves(name):
    # Not in float32, in which loops of SciPy's own for such functions do not end at some points.
    function = {**INTEGRALS, **WAVES}[name]
    nt.testing.check_derivatives(lambda x: total(function(x)), X, points=1, float32=False)


@pytest.mark.parametrize("name", HARMONICS)
def test_derivatives_of_harmonics(name):
    highest = 0 if name.endswith("_all") else 2
    nt.testing.check_derivatives(lambda x: total(HARMONICS[name](x, highest)), X[:2], points=1)


def test_integrals_of_airy_functions():
    """SciPy's integrals err by 1e-6, so that differences of them are no reference."""
    slopes = nt.jacobian(lambda x: np.stack(sc.itairy(x)))(0.7)
    np.testing.assert_allclose(slopes, [*sc.airy(0.7)[::2], *sc.airy(-0.7)[::2]], rtol=1e-14)


@pytest.mark.parametrize("name", ["itj0y0", "it2j0y0", "it2i0k0"])
def test_integrals_of_bessel_functions_near_zero(name):
    """The slope of (1 - J0(x))/x and (I0(x) - 1)/x is 1/4 at 0, where both have lost all digits."""
    first = nt.value_and_jacobian(lambda x: getattr(sc, name)(x)[0])
    for x in (0.0, 1e-9, 0.3, 0.999, 1.001):
        slope = first(x)[1]
        want = {"itj0y0": sc.j0(x), "it2j0y0": x / 4 - x**3 / 64, "it2i0k0": x / 4 + x**3 / 64}[name]
        assert slope == pytest.approx(want, rel=0.01 if x > 0.5 else 1e-4 if x > 0.1 else 1e-14, abs=0.0)


def test_what_a_spherical_harmonic_returns():
    """Value, gradient and Hessian as SciPy's own, and the derivative from the right at the pole."""
    want = sc.sph_harm_y(3, 2, X, 0.2, diff_n=2)
    found, _ = nt.vjp(lambda x: sc.sph_harm_y(3, 2, x, 0.2, diff_n=2), X)
    for mine, its in zip(found, want, strict=True):
        np.testing.assert_allclose(mine, its, rtol=1e-13, atol=1e-14)
    assert nt.grad(lambda x: sc.sph_harm_y(1, 1, x, 0.0).real)(0.0) == pytest.approx(
        -np.sqrt(3.0 / (8.0 * np.pi))
    )


def test_orders_carry_no_derivative():
    with pytest.raises(
        nt.UnsupportedOperationError, match=r"pbdv.*argument 1 with a derivative.*argument 2 is"
    ):
        nt.grad(lambda v: sc.pbdv(v, 1.0)[0])(0.5)
    assert nt.grad(lambda x, v: sc.pbdv(v, x)[0])(1.0, nt.Constant(0.5)) == pytest.approx(
        sc.pbdv(0.5, 1.0)[1]
    )


SIZES = {
    "itj0y0": lambda x: sc.itj0y0(x)[0],
    "pbdv": lambda x: sc.pbdv(1.3, x)[0],
    "ellipkinc": lambda x: sc.ellipkinc(x, x),
    "legendre_p_all": lambda x: sc.legendre_p_all(2, x, diff_n=1),
}


@pytest.mark.parametrize("name", SIZES)
def test_one_trace_serves_all_lengths(name):
    cache = nt.prepare_gradient_cache(lambda x: np.sum(SIZES[name](x)), X)
    for n in (3, 2, 5):
        x = np.linspace(0.1, 0.9, n)
        value, (gradient,) = nt.value_and_gradient(cache, x)
        np.testing.assert_allclose(value, np.sum(SIZES[name](x)), rtol=1e-13)
        np.testing.assert_allclose(gradient, [nt.grad(lambda x: np.sum(SIZES[name](x)))(each) for each in x])
    assert cache.traces == 1


@pytest.mark.parametrize("name", ["ellipkinc", "ellipeinc"])
def test_a_second_derivative_for_the_parameter_serves_all_amplitudes(name):
    """The number of half turns in the amplitude is data, which each call finds again."""
    slope = nt.grad(getattr(sc, name), argnums=1)
    curvature = nt.grad(slope, argnums=1)
    for phi in (1.0, 5.0, -2.0):
        apart = (slope(phi, 0.3 + 1e-5) - slope(phi, 0.3 - 1e-5)) / 2e-5
        assert curvature(phi, 0.3) == pytest.approx(apart, rel=1e-8)
