"""``multivariate_normal.cdf``: SciPy's values, slopes against formulas."""

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.special import ndtr

import numbatape as nt
from numbatape.testing import check_derivatives

POINTS = np.array([[0.3, -0.4], [1.2, 0.1], [-0.7, 2.0]])
normal = stats.multivariate_normal


def probit(x, r):
    """The log-likelihood of a bivariate probit model."""
    return np.sum(normal.logcdf(x, mean=[0.1, x[0, 1]], cov=np.array([[1.3, r], [r, 0.8]])))


def boxes(x, scale):
    lower = np.stack([-scale, -np.inf])
    frozen = normal([0.1, 0.2], np.stack([scale, 1.0]))
    return np.sum(frozen.cdf(x)) + np.sum(normal.cdf(x, cov=scale * np.eye(2), lower_limit=lower))


def single(x, scale):
    ends = np.sum(normal.cdf(x, mean=0.3, cov=scale)) + normal.cdf(x[0], mean=0.1, cov=scale)
    return ends + normal.cdf(np.stack([x[0], np.inf]), cov=np.eye(2))


@pytest.mark.parametrize("f, x", [(probit, POINTS), (boxes, POINTS), (single, POINTS[0])])
def test_derivatives_of_probabilities(f, x):
    assert nt.value_and_grad(f)(x, 0.4)[0] == pytest.approx(f(x, 0.4), rel=1e-13)
    check_derivatives(f, x, 0.4, float32=False)


def equal_correlations(ends, r):
    """The probability below ends of variables with correlation r each, as an integral of one variable."""

    def inside(t):
        return np.prod(ndtr((ends - np.sqrt(r) * t) / np.sqrt(1.0 - r))) * np.exp(-0.5 * t * t)

    return quad(inside, -np.inf, np.inf, epsabs=1e-13, epsrel=1e-13)[0] / np.sqrt(2.0 * np.pi)


def probability(x, r, lower=None):
    return normal.cdf(x, cov=(1.0 - r) * np.eye(3) + r * np.ones((3, 3)), lower_limit=lower)


def test_derivatives_for_three_variables():
    x, r = np.array([0.3, 0.5, -0.2]), 0.4
    value, slopes = nt.value_and_grad(probability, argnums=(0, 1))(x, r)
    want, known = nt.value_and_grad(equal_correlations, argnums=(0, 1))(x, r)
    assert value == pytest.approx(probability(x, r), abs=2e-5) == pytest.approx(want, abs=2e-5)
    np.testing.assert_allclose(slopes[0], known[0], rtol=1e-9)
    assert slopes[1] == pytest.approx(known[1], rel=1e-9)
    np.testing.assert_allclose(nt.hessian(probability)(x, r), nt.hessian(equal_correlations)(x, r), rtol=1e-8)
    # Both modes, and boxes: the probability of a box is a sum of eight others.
    assert nt.jvp(probability, (x, r), (x, 1.0))[1] == pytest.approx(x @ slopes[0] + slopes[1], rel=1e-12)
    low = np.array([-1.0, -np.inf, -2.0])
    of_x, of_low = nt.grad(probability, argnums=(0, 2))(x, r, low)
    wanted = nt.grad(
        lambda x, low: sum(
            sign * equal_correlations(np.stack([a, x[1], c]), r)
            for a, c, sign in (
                (x[0], x[2], 1.0),
                (low[0], x[2], -1.0),
                (x[0], low[1], -1.0),
                (low[0], low[1], 1.0),
            )
        ),
        argnums=(0, 1),
    )(x, low[[0, 2]])
    np.testing.assert_allclose(of_x, wanted[0], rtol=1e-8)
    np.testing.assert_allclose(of_low[[0, 2]], wanted[1], rtol=1e-8)
    assert of_low[1] == 0.0
