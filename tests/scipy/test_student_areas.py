"""``multivariate_t.cdf``: SciPy's values, slopes against integrals."""

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.special import gammaln

import numbatape as nt

student = stats.multivariate_t
POINTS = np.array([[0.3, -0.4], [1.2, 0.1], [-0.7, 2.0]])


def pairs(x, r):
    return np.sum(np.log(student.cdf(x, loc=[0.1, x[0, 1]], shape=np.array([[1.3, r], [r, 0.8]]), df=3.5)))


def boxes(x, scale):
    lower = np.stack([-scale, -np.inf])
    return np.sum(student.cdf(x, shape=scale * np.eye(2), df=4, lower_limit=lower, loc=[0.0, 0.2]))


@pytest.mark.parametrize("f", [pairs, boxes])
@pytest.mark.parametrize("scale", [0.4, -0.3])
def test_derivatives_for_two_variables(f, scale):
    scale = abs(scale) if f is boxes else scale
    value, back = nt.vjp(f, POINTS, scale)
    assert value == pytest.approx(f(POINTS, scale), rel=1e-3)  # SciPy's error
    direction = np.array([[0.3, -0.2], [0.5, 0.1], [-0.4, 0.7]])

    def along(t):
        return nt.vjp(f, POINTS + t * direction, scale + 0.1 * t)[0]

    slope = np.sum(back(1.0)[0] * direction) + 0.1 * back(1.0)[1]
    assert nt.jvp(f, (POINTS, scale), (direction, 0.1))[1] == pytest.approx(slope, rel=1e-12)
    h = 1e-3
    fourth = (8.0 * (along(h) - along(-h)) - along(2.0 * h) + along(-2.0 * h)) / (12.0 * h)
    assert slope == pytest.approx(fourth, rel=1e-8)
    bend = nt.hessian(lambda t: f(POINTS + t * direction, scale + 0.1 * t))(0.0)
    slopes = nt.grad(lambda t: f(POINTS + t * direction, scale + 0.1 * t))
    fourth = (8.0 * (slopes(h) - slopes(-h)) - slopes(2.0 * h) + slopes(-2.0 * h)) / (12.0 * h)
    assert bend == pytest.approx(fourth, rel=1e-8)


def as_mixture(x, r, df, lower=None):
    """The probability as that of normal variables divided by an independent spread."""
    cov = (1.0 - r) * np.eye(len(x)) + r * np.ones((len(x), len(x)))
    constant = np.log(2.0) + 0.5 * df * np.log(0.5 * df) - gammaln(0.5 * df)

    def inside(s):
        density = np.exp(constant + (df - 1.0) * np.log(s) - 0.5 * df * s * s)
        low = None if lower is None else s * lower
        return density * stats.multivariate_normal.cdf(s * x, cov=cov, lower_limit=low)

    return quad(inside, 1e-6, 6.0, epsabs=1e-11, epsrel=1e-11, limit=100)[0]


def test_a_value_and_slopes_of_two_variables():
    x, r, df = np.array([0.3, -0.8]), -0.6, 5.0
    value, slopes = nt.value_and_grad(
        lambda x, r: student.cdf(x, shape=(1.0 - r) * np.eye(2) + r, df=df), argnums=(0, 1)
    )(x, r)
    want, known = nt.value_and_grad(lambda x, r: as_mixture(x, r, df), argnums=(0, 1))(x, r)
    assert value == pytest.approx(want, rel=1e-10)
    np.testing.assert_allclose(slopes[0], known[0], rtol=1e-9)
    assert slopes[1] == pytest.approx(known[1], rel=1e-9)


def test_slopes_for_three_variables():
    x, r, df = np.array([0.3, 0.5, -0.2]), 0.4, 5.0

    def probability(x, r, low=None):
        return student.cdf(x, shape=(1.0 - r) * np.eye(3) + r, df=df, lower_limit=low, loc=np.zeros(3))

    def slope_for(k, step=1e-3):
        """By differences of one-dimensional integrals of the exact probability of equal correlations."""
        ends = []
        for h in (step, -step, 2 * step, -2 * step):
            at, rho = x.copy(), r
            if k < 3:
                at[k] += h
            else:
                rho += h
            ends.append(exact(at, rho, df))
        return (8.0 * (ends[0] - ends[1]) - (ends[2] - ends[3])) / (12.0 * step)

    value, slopes = nt.value_and_grad(probability, argnums=(0, 1))(x, r)
    assert value == pytest.approx(exact(x, r, df), abs=2e-4)  # SciPy's own error
    for k in range(3):
        assert slopes[0][k] == pytest.approx(slope_for(k), rel=1e-7)
    assert slopes[1] == pytest.approx(slope_for(3), rel=1e-7)
    assert nt.jvp(probability, (x, r), (x, 1.0))[1] == pytest.approx(x @ slopes[0] + slopes[1], rel=1e-12)
    low = np.array([-1.0, -np.inf, -2.0])
    sides = nt.grad(probability, argnums=(0, 2))(x, r, low)
    for k in (0, 2):
        assert sides[1][k] < 0.0 < sides[0][k]
    assert sides[1][1] == 0.0


def exact(x, r, df):
    """The probability with equal correlations: an integral over what is common, and one over the spread."""
    nodes, weights = np.polynomial.legendre.leggauss(80)
    common = 8.0 * nodes
    of_common = 8.0 * weights * np.exp(-0.5 * common**2) / np.sqrt(2.0 * np.pi)
    s = 1.75 * (nodes + 1.0)
    density = np.exp(
        np.log(2.0)
        + 0.5 * df * np.log(0.5 * df)
        - gammaln(0.5 * df)
        + (df - 1) * np.log(s)
        - 0.5 * df * s * s
    )
    places = (s[:, None, None] * x - np.sqrt(r) * common[:, None]) / np.sqrt(1.0 - r)
    inner = np.sum(of_common * np.prod(stats.norm.cdf(places), -1), -1)
    return float(np.sum(1.75 * weights * density * inner))


def test_what_is_refused():
    x = np.array([0.3, 0.2])
    with pytest.raises(nt.UnsupportedOperationError, match="degrees of freedom with a derivative"):
        nt.grad(lambda df: student.cdf(x, shape=np.eye(2), df=df))(3.0)
    with pytest.raises(nt.UnsupportedOperationError, match="multivariate_normal"):
        nt.grad(lambda x: student.cdf(x, shape=np.eye(2), df=np.inf))(x)
    with pytest.raises(nt.UnsupportedOperationError, match="an int is"):
        nt.grad(lambda x: student.cdf(x, shape=np.eye(2), df=3, random_state=np.random.default_rng(1)))(x)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_one_end_decides_where_variables_are_equal(sign):
    """The correlation of 3 / sqrt(3)**2 is above 1."""
    shape = np.array([[3.0, 3.0 * sign], [3.0 * sign, 3.0]])
    value, slopes = nt.value_and_grad(lambda x: student.cdf(x, shape=shape, df=4, allow_singular=True))(
        np.array([0.3, 0.5])
    )
    one = stats.t(4, scale=np.sqrt(3.0))
    assert value == pytest.approx(one.cdf(0.3) - (0.0 if sign > 0.0 else one.cdf(-0.5)), rel=1e-13)
    assert slopes == pytest.approx(one.pdf([0.3, 0.5]) * (1.0, float(sign < 0.0)), rel=1e-13)


def test_nan_is_no_end():
    for x in ([np.nan, 1.0], [np.inf, np.nan]):
        value, slopes = nt.value_and_grad(lambda x: student.cdf(x, shape=np.eye(2), df=4))(np.array(x))
        assert np.isnan(value)
        assert np.isnan(slopes[np.isnan(x)])
