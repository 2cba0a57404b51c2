"""SciPy's errors for values that are not valid are raised at later points of the same cache, too."""

import re

import numpy as np
import pytest
import scipy.interpolate
import scipy.signal
import scipy.stats
from scipy.spatial import distance

import numbatape as nt

U, V, W = np.array([1.0, 2.0, 3.5]), np.array([2.0, -1.0, 0.3]), np.array([0.5, 0.2, 0.7])
POINTS = np.stack([U, V, W])
WEIGHTED = (
    "braycurtis", "canberra", "chebyshev", "cityblock", "cosine", "correlation", "euclidean", "minkowski",
    "sqeuclidean",
)  # fmt: skip
SPLINE = np.array([[1.0, 2.0], [0.5, -0.3]])

CASES = {
    **{name: (lambda w, name=name: getattr(distance, name)(U, V, w=w), W, -W) for name in WEIGHTED},
    "pdist": (lambda w: np.sum(distance.pdist(POINTS, "cosine", w=w)), W, -W),
    "cdist": (lambda w: np.sum(distance.cdist(POINTS, POINTS[:2], "euclidean", w=w)), W, -W),
    "minkowski's exponent": (lambda p: distance.minkowski(U, V, p), 1.5, -1.0),
    "squareform": (lambda x: np.sum(distance.squareform(x)), np.ones((3, 3)) - np.eye(3), POINTS),
    "squareform's diagonal": (lambda x: np.sum(distance.squareform(x)), 1.0 - np.eye(3), np.ones((3, 3))),
    "squareform's shape": (lambda x: np.sum(distance.squareform(x)), np.ones((3, 3)) - np.eye(3), POINTS[:2]),
    "integrate": (
        lambda x: scipy.interpolate.PPoly(SPLINE, x).integrate(0.3, 2.5),
        np.array([0.0, 1.0, 3.0]),
        np.array([0.0, 4.0, 3.0]),
    ),
    "PPoly": (
        lambda x: scipy.interpolate.PPoly(SPLINE, x)(0.3),
        np.array([3.0, 1.0, 0.0]),
        np.array([3.0, 4.0, 0.0]),
    ),
    "lfilter": (
        lambda a: np.sum(scipy.signal.lfilter([1.0, 0.5], a, U)),
        np.array([2.0, 0.3]),
        np.array([0.0, 0.3]),
    ),
    "dirichlet": (lambda a: scipy.stats.dirichlet.logpdf([0.3, 0.3, 0.4], a), U, V),
    "von Mises and Fisher": (
        lambda k: scipy.stats.vonmises_fisher.logpdf(np.eye(3)[0], np.eye(3)[1], k),
        1.5,
        -1.0,
    ),
    "a periodic spline": (
        lambda y: np.sum(scipy.interpolate.CubicSpline(np.arange(4.0), y, bc_type="periodic")(0.3)),
        np.array([1.0, 2.0, 0.5, 1.0]),
        np.array([1.0, 2.0, 0.5, 3.0]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_errors_at_another_point(name):
    function, valid, other = CASES[name]
    cache = nt.prepare_gradient_cache(function, valid)
    assert nt.value_and_gradient(cache, valid)[0] == pytest.approx(function(valid), rel=1e-13)
    with pytest.raises(ValueError, match=r"non-negative|must be|not supported") as its:
        function(other)
    with pytest.raises(ValueError, match=re.escape(str(its.value))):
        nt.value_and_gradient(cache, other)


def test_squareform_without_checks_takes_any_matrix():
    gradient = nt.grad(lambda x: distance.squareform(x, checks=False) @ U)
    np.testing.assert_array_equal(gradient(POINTS), [[0.0, 1.0, 2.0], [0.0, 0.0, 3.5], [0.0, 0.0, 0.0]])
