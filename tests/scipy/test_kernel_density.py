"""``scipy.stats.gaussian_kde``: at traced points, of traced samples, weights and bandwidths."""

import numpy as np
import pytest
import scipy.stats as stats

import numbatape as nt
from numbatape.testing import check_derivatives

SAMPLES = np.array([0.1, 0.4, 0.9, 1.3, 2.2])
PLANE = np.stack([SAMPLES, np.cos(3.0 * SAMPLES)])
WEIGHTS = np.array([1.0, 2.0, 0.5, 1.5, 1.0])
X = np.array([0.3, 1.1, 2.0])
PAIRS = np.array([[0.3, 1.1], [0.2, -0.4]])
KNOWN = stats.gaussian_kde(SAMPLES, weights=WEIGHTS)
CASES = {
    "points": (lambda x: KNOWN(x), X),
    "logpdf": (lambda x: KNOWN.logpdf(x), X),
    "made inside": (lambda x: stats.gaussian_kde(PLANE, "silverman").pdf(x), PAIRS),
    "one point": (lambda x: stats.gaussian_kde(PLANE).evaluate(x), np.array([0.3, 0.2])),
    "interval": (lambda x: KNOWN.integrate_box_1d(x[0], x[2]), X),
    "samples": (lambda s: stats.gaussian_kde(s, "silverman")(X), SAMPLES),
    "samples in the plane": (lambda s: stats.gaussian_kde(s, weights=WEIGHTS).logpdf(PAIRS), PLANE),
    "bandwidth and weights": (lambda w: stats.gaussian_kde(SAMPLES, w[0], w)(X), WEIGHTS),
    "interval of samples": (lambda s: stats.gaussian_kde(s).integrate_box_1d(0.2, 1.0), SAMPLES),
    "box of samples": (lambda s: stats.gaussian_kde(s).integrate_box([0.2, -1.0], [1.0, 0.5]), PLANE),
    "bandwidth by a function": (
        lambda s: stats.gaussian_kde(s, lambda kde: s[0] * kde.neff**-0.3)(X),
        SAMPLES,
    ),
    "beside a normal law": (lambda x: KNOWN.integrate_gaussian(x[0], x[1]), X),
    "samples beside it": (lambda s: stats.gaussian_kde(s).integrate_gaussian(s[:, 0], np.eye(2)), PLANE),
    "product": (lambda s: stats.gaussian_kde(s, weights=WEIGHTS).integrate_kde(KNOWN), SAMPLES),
    "marginal": (lambda s: stats.gaussian_kde(s, "silverman").marginal(-1)(X), PLANE),
    "attributes": (lambda s: attributes(stats.gaussian_kde(s, weights=s[0] + 1.0)), PLANE),
}


def attributes(kde):
    kde.set_bandwidth(0.7 * kde.silverman_factor())
    matrices = np.sum(kde.covariance * kde.inv_cov + kde.cho_cov, 0)
    return np.concatenate([matrices, np.stack([kde.factor, kde.neff, kde.log_det, kde.scotts_factor()])])


@pytest.mark.parametrize("name", CASES)
def test_values_and_derivatives(name):
    function, x = CASES[name]
    for point in (x, x + 0.01):
        value, _ = nt.vjp(function, point)
        np.testing.assert_allclose(value, function(point), rtol=1e-13)
    check_derivatives(function, x, points=1)


def test_errors():
    with pytest.raises(ValueError, match="points have dimension 3, dataset has dimension 2"):
        nt.grad(lambda x: np.sum(stats.gaussian_kde(PLANE)(np.stack([x, x, x]))))(X)
    with pytest.raises(ValueError, match="multiple elements"):
        nt.grad(lambda x: stats.gaussian_kde(x[:1])(0.3)[0])(X)
    with pytest.raises(ValueError, match="mean does not have dimension 2"):
        nt.grad(lambda x: stats.gaussian_kde(PLANE).integrate_gaussian(x, np.eye(2)))(X)
    with pytest.raises(ValueError, match="must be unique"):
        nt.grad(lambda x: np.sum(stats.gaussian_kde(x * PLANE[:, :3]).marginal([0, -2])(X)))(X)
    with pytest.raises(nt.UnsupportedOperationError, match=r"gaussian_kde\.resample of traced samples"):
        nt.grad(lambda x: np.sum(stats.gaussian_kde(x).resample(3)))(X)
