"""Distributions at the ends of their supports, with singular matrices, and far in their tails."""

import mpmath
import numpy as np
import pytest
import scipy.special as sc
import scipy.stats as st
from scipy.spatial import distance

import numbatape as nt

SINGULAR = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 2.0]])


def within(p):
    """Return a point in the range of `SINGULAR`."""
    return np.array([p[0], p[0], p[1]])


@pytest.mark.parametrize(
    "logp",
    [
        lambda p: st.multivariate_normal.logpdf(within(p), np.zeros(3), SINGULAR, allow_singular=True),
        lambda p: st.multivariate_normal(np.zeros(3), SINGULAR, allow_singular=True).pdf(within(p)),
        lambda p: st.multivariate_t.logpdf(p[0] * np.arange(3.0) + p[1], np.zeros(3), SINGULAR, 3.5),
        lambda p: st.multivariate_t.pdf(within(p), np.zeros(3), SINGULAR, 3.5, allow_singular=True),
        lambda p: st.multivariate_normal.entropy(None, np.diag(np.exp(p))),
        lambda p: st.multivariate_t.logpdf(p, np.zeros(2), np.eye(2) * (p[0] + 2.0), np.inf)[0],
    ],
)
def test_singular_matrices_and_infinite_degrees_of_freedom(logp):
    nt.check(logp, np.array([0.3, 0.5]))


def test_density_of_a_singular_normal_law_beyond_its_range():
    def logp(x):
        return st.multivariate_normal.logpdf(x, np.zeros(3), SINGULAR, allow_singular=True)

    value, slopes = nt.value_and_grad(logp)(np.array([1.0, 2.0, 3.0]))
    assert value == -np.inf and not slopes.any()
    assert nt.value_and_grad(logp)(np.array([1.0, 1.0, 3.0]))[1] == pytest.approx([-0.5, -0.5, -1.5])


def test_derivative_by_a_singular_matrix_is_refused():
    def logp(scale):
        return st.multivariate_normal.logpdf(np.zeros(3), np.zeros(3), SINGULAR * scale, allow_singular=True)

    with pytest.raises(nt.UnsupportedOperationError, match="a singular matrix"):
        nt.grad(logp)(1.0)


def test_kappa_density_at_the_ends_of_its_support():
    for x, h, k in ((2.0, 0.5, 0.5), (0.5, 0.1, 2.0), (1.0, 0.0, 1.0), (0.0, 1.0, 1.0)):
        # The first call traces elsewhere, so that the tape computes the value at the end.
        density = nt.value_and_grad(lambda x, h=h, k=k: st.kappa4.pdf(x, h, k))
        density(x - 0.1)
        assert density(x)[0] == st.kappa4.pdf(x, h, k)


def test_log_gamma_law_where_its_exponential_underflows():
    """The reference is the first term of the series, in 30 digits."""
    value_and_slopes = nt.value_and_grad(lambda p: st.loggamma.logcdf(p[0], p[1]))
    value_and_slopes(np.array([1.0, 0.02]))
    value, slopes = value_and_slopes(np.array([-800.0, 0.02]))
    with mpmath.workdps(30):
        known = mpmath.mpf("0.02") * -800 - mpmath.loggamma(mpmath.mpf("1.02"))
        assert value == pytest.approx(float(known), rel=1e-14)
        assert slopes == pytest.approx([0.02, float(-800 - mpmath.digamma(mpmath.mpf("1.02")))], rel=1e-14)
    lower = nt.value_and_grad(lambda x: st.loggamma.cdf(x, 0.02))
    lower(0.0)
    assert lower(-800.0)[0] == pytest.approx(st.loggamma.cdf(-800.0, 0.02), rel=1e-13)


@pytest.mark.parametrize("name", ["cdf", "sf", "logcdf", "logsf"])
def test_cumulative_functions_at_infinity(name):
    for law, shapes in ((st.loggamma, (2.0,)), (st.nct, (3.0, 0.5))):
        method = getattr(law, name)
        value_and_slope = nt.value_and_grad(lambda x, method=method, shapes=shapes: method(x, *shapes))
        value_and_slope(0.5)
        for x in (-np.inf, np.inf):
            value, slope = value_and_slope(x)
            assert value == method(x, *shapes) and not np.isnan(slope)


def test_noncentral_density_at_infinity_is_that_of_scipy():
    value_and_slope = nt.value_and_grad(lambda x: st.nct.pdf(x, 3.0, 0.5))
    value_and_slope(0.5)
    assert np.isnan(value_and_slope(np.inf)[0]) and np.isnan(st.nct.pdf(np.inf, 3.0, 0.5))


@pytest.mark.parametrize("name", ["dgamma", "dweibull"])
def test_logarithm_of_a_density_that_is_infinite_at_its_centre(name):
    value_and_slopes = nt.value_and_grad(lambda p: getattr(st, name).logpdf(p[0], p[1]))
    value_and_slopes(np.array([0.3, 0.5]))
    value, slopes = value_and_slopes(np.array([0.0, 0.5]))
    assert value == np.inf and slopes.tolist() == [0.0, -np.inf]


@pytest.mark.parametrize("p, q", [(1, -1), (-1, 1), (-1, -1)])
def test_distance_of_measures_with_negative_sums_is_that_of_the_distributions(p, q):
    a, b = np.array([0.2, 0.9, 0.4]), np.array([0.7, 0.3, 0.5])
    value, slopes = nt.value_and_grad(lambda a: distance.jensenshannon(p * a, q * b))(a)
    assert value == pytest.approx(distance.jensenshannon(a, b))
    np.testing.assert_allclose(slopes, nt.grad(lambda a: distance.jensenshannon(a, b))(a), rtol=1e-12)


def test_distance_of_distributions_that_are_equal_but_for_rounding():
    p = np.array([-0.8, -1.3, 2.5, 0.6, 0.3, -0.2])
    shares = sc.softmax(p)
    for other in (shares, np.nextafter(shares, 1.0), shares / 3.0 * 3.0):
        value, slopes = nt.value_and_grad(lambda p, q=other: distance.jensenshannon(sc.softmax(p), q))(p)
        assert value < 1e-7 and not np.isnan(slopes).any()
    nt.check(lambda p: distance.jensenshannon(sc.softmax(p), np.ones(6), 2.0), p)


def test_jensenshannon_keeps_the_slopes_beside_entries_that_are_zero():
    p, q = np.array([0.0, 1.0, 3.0]), np.array([0.4, 0.8, 0.0])
    at_p, at_q = nt.grad(distance.jensenshannon, (0, 1))(p, q)
    assert at_p[0] == at_q[2] == -np.inf
    for x, slopes, places in ((p, at_p, (1, 2)), (q, at_q, (0, 1))):
        for place in places:
            step = 1e-5 * np.eye(3)[place]
            ends = [distance.jensenshannon(*((x + h, q) if x is p else (p, x + h))) for h in (step, -step)]
            assert slopes[place] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-7)


def test_second_derivative_of_areas_by_a_shape_at_several_points():
    x = np.array([0.5, 2.0])
    slopes = nt.derivative(nt.derivative(lambda p: st.geninvgauss.cdf(x, p, 1.5)))(1.3)
    single = [nt.derivative(nt.derivative(lambda p, t=t: st.geninvgauss.cdf(t, p, 1.5)))(1.3) for t in x]
    np.testing.assert_allclose(slopes, single, rtol=1e-8)


def test_second_derivatives_at_the_ends_of_incomplete_integrals():
    """The densities of gamma(2) and beta(2, 3) rise linearly from zero: their slopes there are 1 and 12."""
    for sign, gamma, beta in ((1.0, sc.gammainc, sc.betainc), (-1.0, sc.gammaincc, sc.betaincc)):
        hessian = nt.hessian(lambda z, f=gamma: f(z[0], z[1]))(np.array([2.0, 0.0]))
        np.testing.assert_allclose(hessian, [[0.0, 0.0], [0.0, sign]], atol=1e-15)
        hessian = nt.hessian(lambda z, f=beta: f(2.0, 3.0, z[0]) + f(3.0, 2.0, z[1]))(np.array([0.0, 1.0]))
        np.testing.assert_allclose(hessian, [[12.0 * sign, 0.0], [0.0, -12.0 * sign]], rtol=1e-13)


@pytest.mark.parametrize("law, shapes", [(st.halfnorm, ()), (st.foldnorm, (0.5,))])
def test_the_logarithm_of_a_small_area_comes_from_the_area(law, shapes):
    """It is small where that of the rest is nearly 0, whose rounding left six digits."""
    value, slope = nt.value_and_grad(lambda x: law.logcdf(x, *shapes))(1e-6)
    np.testing.assert_allclose(value, law.logcdf(1e-6, *shapes), rtol=1e-12)
    np.testing.assert_allclose(slope, law.pdf(1e-6, *shapes) / law.cdf(1e-6, *shapes), rtol=1e-9)


@pytest.mark.parametrize(
    "f, at",
    [
        (lambda nc: st.ncx2.logpdf(3.0, 4.0, nc), 0.0),
        (lambda nc: st.ncx2.cdf(3.0, 4.0, nc), 0.0),
        (lambda w: sc.chndtr(3.0, 1.5, w), 0.0),
        (lambda x: st.rice.cdf(0.7, x), 0.0),
        (lambda b: st.rice.logpdf(0.7, b), 0.0),
        (lambda kappa: st.vonmises.logpdf(0.7, kappa), 0.0),
        (lambda kappa: st.vonmises_line.cdf(0.7, kappa), 0.0),
        (st.vonmises.entropy, 0.0),
        # smooth functions of |x| or of the sign of x
        (st.logistic.logpdf, 0.0),
        (lambda x: st.genlogistic.logpdf(x, 0.4), 0.0),
        (lambda x: st.gennorm.logpdf(x, 2.0), 0.0),
        (lambda x: st.pearson3.logpdf(x, 0.0), 0.0),
        (lambda x: st.dweibull.pdf(abs(x), 4.0), 0.0),
        (lambda x: st.dgamma.pdf(abs(x), 4.0), 0.0),
        # where the reciprocal of a gamma function is zero
        (lambda a: sc.eval_gegenbauer(0.7, 0.1 * a, 0.3), 0.0),
        (lambda k: sc.binom(0.7, 0.1 * k), -10.0),
    ],
)
def test_derivatives_where_a_parameter_is_zero(f, at):
    """The case that a law has there apart knows nothing of the parameter, and `i0e` has a kink at 0."""
    h = 2e-3
    values = [f(at + k * h) for k in range(5)]
    slope = np.dot([-25, 48, -36, 16, -3], values) / (12 * h)
    bend = np.dot([35, -104, 114, -56, 11], values) / (12 * h * h)
    np.testing.assert_allclose(
        [nt.grad(f)(at), nt.derivative(nt.derivative(f))(at)], [slope, bend], atol=1e-6
    )


def test_slopes_for_a_small_noncentrality():
    """They are sums of terms with 1/nc, which cancelled: at 1e-11 three digits were left."""
    for nc in (1e-12, 1e-7, 1e-3):
        slope = nt.grad(lambda nc: st.ncx2.logpdf(0.2, 19.0, nc))(nc)
        q = 0.05 * nc  # the density has the factor exp(-nc/2) (1 + q/9.5 (1 + q/21 (...)))
        assert slope == pytest.approx(-0.5 + 0.05 / 9.5 * (1.0 + q / 10.5 - q / 9.5), rel=1e-12)


@pytest.mark.parametrize("c", [0.9, 1.1, 2.5])
def test_moments_where_the_density_is_infinite_at_an_end_that_moves(c):
    def mean(c):
        return (1 - mpmath.gamma(1 + c)) / c

    assert nt.grad(st.genextreme.mean)(c) == pytest.approx(float(mpmath.diff(mean, c)), rel=1e-8)
    second = nt.grad(lambda c: st.genextreme.expect(lambda x: 2.0 * x, (c,), loc=3.0))(c)
    assert second == pytest.approx(2.0 * float(mpmath.diff(mean, c)), rel=1e-8)


def test_laws_that_become_others_in_the_limit():
    """An exponential part of scale K, or an end at 1/c, far beyond all entries: terms of 1/K**2 cancelled."""
    for K in (1e-5, 1e-9):
        value, slopes = nt.value_and_grad(st.exponnorm.logpdf, argnums=(0, 1))(-0.3, K)
        assert value == pytest.approx(st.norm.logpdf(-0.3 - K), abs=K)
        np.testing.assert_allclose(slopes, [0.3, -0.3], rtol=1e-4)
        below = nt.grad(st.exponnorm.cdf, argnums=1)(-0.3, K)
        assert below == pytest.approx(-st.norm.pdf(-0.3), rel=1e-4)
    near, far = (nt.grad(st.genhalflogistic.logpdf, argnums=1)(0.7, c) for c in (1e-12, 1e-5))
    assert near == pytest.approx(far, rel=1e-4)


ENDS = {
    "gammaincinv": (lambda a, p: sc.gammaincinv(a, p), 2.3),
    "gammainccinv": (lambda a, p: sc.gammainccinv(a, 1.0 - p), 0.4),
    "betaincinv": (lambda a, p: sc.betaincinv(a, 1.4 * a, p), 2.3),
    "betainccinv": (lambda b, p: sc.betainccinv(0.7, b, p), 2.3),
}


@pytest.mark.parametrize("name", ENDS)
def test_quantiles_at_the_ends_of_a_law_do_not_move_with_its_shape(name):
    f, shape = ENDS[name]
    for end in (0.0, 1.0) if "beta" in name else (0.0,):
        along = lambda a, end=end: f(a, end)  # noqa: E731
        assert nt.jvp(along, (shape,), (1.0,)) == (f(shape, end), 0.0)
        assert nt.grad(along)(shape) == nt.hessian(along)(shape) == 0.0


@pytest.mark.parametrize(
    ("law", "shapes"), [(st.t, 2.0), (st.genpareto, 0.2), (st.triang, 0.3), (st.gennorm, 1.3)]
)
def test_a_float_that_is_zero_is_a_number_of_scipy(law, shapes):
    """Python's division by zero would raise, where SciPy has an infinite density, a limit or no number."""
    verb = nt.value_and_grad(lambda x, a: law.logpdf(x, a))
    for shape in (shapes, 0.0, shapes):
        np.testing.assert_allclose(verb(0.3, shape)[0], law.logpdf(0.3, shape), rtol=1e-13)


def test_zeta_at_its_zeros_and_poles_and_far_away():
    verb = nt.value_and_grad(sc.zeta)
    for s in (3.0, -30.0, -2.0, np.inf):
        assert verb(s)[0] == pytest.approx(sc.zeta(s), rel=1e-14, abs=0.0)
    assert verb(-2.0)[1] == pytest.approx(-sc.zeta(3.0) / (4.0 * np.pi**2))
    both = nt.value_and_grad(lambda s, q: sc.zeta(s, q))
    for s, q in ((2.5, 1.2), (2.5, 0.0), (2.5, -3.0), (2.5, -1.5), (0.5, -1.0)):
        np.testing.assert_array_equal(both(s, q)[0], pytest.approx(sc.zeta(s, q), nan_ok=True))
    value, _ = nt.vjp(lambda s: sc.zeta(s, np.float32(1.5)) + sc.zeta([s[0], 3.0], 2.0), np.array([2.3, 3.1]))
    np.testing.assert_allclose(value, sc.zeta([2.3, 3.1], 1.5) + sc.zeta([2.3, 3.0], 2.0), rtol=1e-15)


def log_student(x, df):
    return (
        mpmath.loggamma((df + 1) / 2)
        - mpmath.loggamma(df / 2)
        - mpmath.log(df * mpmath.pi) / 2
        - (df + 1) / 2 * mpmath.log1p(x * x / df)
    )


FAR_PARAMETERS = {
    "t, many degrees": (st.t.logpdf, log_student, (1.3, 1e8)),
    "t, beyond a share of a tenth": (st.t.logpdf, log_student, (80.0, 3e4)),
    "kappa3, near zero": (st.kappa3.cdf, lambda x, a: x * (a + x**a) ** (-1 / a), (1.3, 1e-9)),
    "kappa3, left of one": (
        st.kappa3.logpdf, lambda x, a: mpmath.log(a) - (1 + 1 / a) * mpmath.log(a + x**a), (0.2, 1e-9)
    ),
    "gammainc, a large shape": (
        lambda x, a: sc.gammainc(a, x),
        lambda x, a: mpmath.gammainc(a, 0, x, regularized=True),
        (3100.0, 3000.0),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAR_PARAMETERS)
def test_slopes_at_extreme_parameters(name):
    """Differences of large terms lose the digits of plainer formulas there."""
    f, exact, point = FAR_PARAMETERS[name]
    slopes = nt.grad(f, (0, 1))(*point)
    with mpmath.workdps(50):
        point = [mpmath.mpf(x) for x in point]
        wanted = [float(mpmath.diff(exact, point, order)) for order in ((1, 0), (0, 1))]
    np.testing.assert_allclose(slopes, wanted, rtol=1e-12)


@pytest.mark.parametrize(
    ("law", "x"),
    [
        *((st.beta, x) for x in (1e-24, 1e-12, 0.3)),
        *((law, x) for law in (st.betaprime, st.f) for x in (1e-20, 1e-9, 1.0, 3.0, 1e11)),
    ],
)
@pytest.mark.parametrize("shapes", [(0.23, 0.06), (3.0, 5.0)])
def test_slopes_of_both_tails_are_opposite(law, x, shapes):
    """Also where one of them is nearly one, and the place rounds to the other end of the law."""
    below, above = (nt.grad(tail, argnums=(0, 1, 2))(x, *shapes) for tail in (law.cdf, law.sf))
    np.testing.assert_allclose(above, np.negative(below), rtol=1e-13)
    assert below[0] == pytest.approx(law.pdf(x, *shapes), rel=1e-11)
