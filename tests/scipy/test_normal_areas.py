"""``multivariate_normal.cdf`` of one and of two variables."""

import numpy as np
import pytest
from scipy import stats

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


def test_more_variables_are_refused():
    with pytest.raises(nt.UnsupportedOperationError, match="3 variables"):
        nt.grad(lambda x: normal.cdf(x, cov=np.eye(3)))(np.zeros(3))
