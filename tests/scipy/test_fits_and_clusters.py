"""Estimates, empirical distribution functions and clusters of traced data."""

import inspect

import numpy as np
import pytest
import scipy.cluster.hierarchy as hierarchy
from scipy import stats
from scipy.cluster.vq import kmeans, kmeans2, vq, whiten
from scipy.spatial.distance import pdist

import numbatape as nt
from numbatape.testing import check_derivatives

SAMPLE = np.array([0.7, 3.1, 1.4, 2.2, 5.3, 0.9])
POINTS = np.array([[0.0, 0.3], [0.8, -0.2], [0.1, 0.9], [4.1, 4.0], [5.2, 3.7], [4.4, 4.9]])
SPREAD = np.random.default_rng(2).normal(size=(60, 2))  # clusters that are not found in two steps
CENTRES = np.array([[1.0, 0.0], [4.0, 5.0]])
DRAWN = {"rng" if "rng" in inspect.signature(kmeans2).parameters else "seed": 1}  # rng since SciPy 1.15
STEPS = stats.ecdf(SAMPLE)


def test_closed_estimates_have_their_formulas_derivatives():
    def f(x, loc):
        mean, spread = stats.norm.fit(x)
        return np.sin(mean) * spread + stats.norm.fit(x, floc=loc)[1] + stats.expon.fit(x, floc=0)[1]

    def formula(x, loc):
        spread = np.sqrt(np.mean((x - loc) ** 2))
        return np.sin(np.mean(x)) * np.std(x) + spread + np.mean(x)

    assert nt.grad(f)(SAMPLE, 1.0) == pytest.approx(nt.grad(formula)(SAMPLE, 1.0), rel=1e-9)
    check_derivatives(f, SAMPLE, 1.0, float32=False)


AT_AN_EDGE = {
    "expon": (lambda x: stats.expon.fit(x), lambda x: (np.min(x), np.mean(x) - np.min(x))),
    "expon, place": (
        lambda x: stats.expon.fit(x, floc=x[0] / 9),
        lambda x: (x[0] / 9, np.mean(x) - x[0] / 9),
    ),
    "expon, scale": (lambda x: stats.expon.fit(x, fscale=2.0), lambda x: (np.min(x), 2.0)),
    "uniform": (lambda x: stats.uniform.fit(x), lambda x: (np.min(x), np.ptp(x))),
    "uniform, place": (lambda x: stats.uniform.fit(x, floc=0.1), lambda x: (0.1, np.max(x) - 0.1)),
    "uniform, scale": (
        lambda x: stats.uniform.fit(x, fscale=9.0),
        lambda x: (0.5 * (np.min(x) + np.max(x) - 9.0), 9.0),
    ),
    "laplace": (lambda x: stats.laplace.fit(x), lambda x: (np.median(x), np.mean(np.abs(x - np.median(x))))),
    "laplace, place": (lambda x: stats.laplace.fit(x, floc=2.0), lambda x: (2.0, np.mean(np.abs(x - 2.0)))),
}


@pytest.mark.parametrize("name", AT_AN_EDGE)
def test_estimates_at_an_edge_have_their_formulas(name):
    def energy(pair):
        return pair[0] ** 2 + np.sin(pair[1])

    fit, formula = AT_AN_EDGE[name]
    assert list(map(type, nt.vjp(fit, SAMPLE)[0])) == list(map(type, fit(SAMPLE)))
    for x in (SAMPLE, SAMPLE[::-1] + 0.5):
        value, slope = nt.value_and_grad(lambda x: energy(fit(x)))(x)
        assert value == pytest.approx(energy(fit(x)), rel=1e-14)
        np.testing.assert_allclose(slope, nt.grad(lambda x: energy(formula(x)))(x), rtol=1e-12, atol=1e-14)


def test_what_a_fixed_place_does_not_allow_is_scipys_error():
    gradient = nt.grad(lambda x: stats.expon.fit(x, floc=0.0)[1])
    np.testing.assert_allclose(gradient(SAMPLE), np.full(6, 1 / 6))
    with pytest.raises(ValueError, match="Maximum likelihood estimation"):
        gradient(SAMPLE - 1.0)


def test_estimates_by_search_follow_the_implicit_function_theorem():
    def f(x):
        shape, _, scale = stats.gamma.fit(x, floc=0)
        return shape * scale

    value, slope = nt.value_and_grad(f)(SAMPLE)
    assert value == pytest.approx(f(SAMPLE), rel=1e-12)
    np.testing.assert_allclose(slope, np.full(6, 1 / 6), rtol=1e-3)  # the estimate of the mean is the mean


@pytest.mark.parametrize(
    "fit, message",
    [
        (lambda x: stats.pareto.fit(x, floc=0)[2], r"fix a parameter \(floc=0\)"),
        (lambda x: stats.gamma.fit(x, floc=0, method="MM")[0], "method='MM'"),
        (lambda x: stats.gamma.fit(x, x[0], floc=0)[0], "traced starting values"),
    ],
)
def test_estimates_without_a_derivative_are_refused(fit, message):
    with pytest.raises(nt.UnsupportedOperationError, match=message):
        nt.grad(fit)(SAMPLE)


def of_steps(x):
    places = np.append(SAMPLE + 0.05, [np.inf, -np.inf])
    values = stats.ecdf(x).sf.evaluate(places) @ np.arange(8.0)
    return (
        stats.ecdf(x).cdf.quantiles @ np.arange(6.0)
        + values * x[0]
        + np.sum(STEPS.cdf.evaluate(x + 0.03) * x**2)
    )


def of_clusters(points):
    centroids, labels = kmeans2(points, CENTRES, minit="matrix")
    drawn, _ = kmeans2(points[:, 0], 2, minit="++", **DRAWN)
    means, distortion = kmeans(points, CENTRES)
    best, _ = kmeans(points[:, 0], 2, **DRAWN)
    drawn = drawn * np.sum(means**2) + distortion + best[0] * best[1]
    codes, distances = vq(points, CENTRES)
    within = np.sum((points - centroids[labels]) ** 2) + np.sum(drawn**3)
    return within + np.sum(distances * (codes + 1)) + np.sum(whiten(points) ** 3)


def of_trees(points):
    joined = hierarchy.fcluster(hierarchy.linkage(points, "average"), 2, "maxclust")
    near = hierarchy.fcluster(hierarchy.linkage(pdist(points), "single"), 1.0, criterion="distance")
    direct = hierarchy.fclusterdata(points, 2, "maxclust")
    return sum(np.sum(points[labels == 1] ** 2) for labels in (joined, near, direct))


@pytest.mark.parametrize("f, x", [(of_steps, SAMPLE), (of_clusters, POINTS), (of_trees, POINTS)])
def test_positions_are_data_and_found_again(f, x):
    check_derivatives(f, x)
    other = np.roll(x[::-1] * 1.1, 1, 0)
    slope = nt.value_and_grad(f)
    slope(x)
    assert slope(other)[0] == pytest.approx(f(other), rel=1e-12)


def test_what_has_no_derivative_is_refused():
    with pytest.raises(nt.UnsupportedOperationError, match="fcluster of them is"):
        nt.grad(lambda x: np.sum(hierarchy.linkage(x)[:, 2]))(POINTS)
    with pytest.raises(nt.UnsupportedOperationError, match="pass a number as rng="):
        nt.grad(lambda x: np.sum(kmeans2(x, 2, minit="points")[0]))(POINTS)
    with pytest.raises(nt.UnsupportedOperationError, match="centroids instead of their number"):
        nt.grad(lambda x: np.sum(kmeans(x, 2)[0]))(POINTS)
    with pytest.raises(nt.UnsupportedOperationError, match="lower thresh="):
        nt.grad(lambda x: np.sum(kmeans(x, x[:2], thresh=10.0)[0]))(SPREAD)


def test_points_that_are_no_numbers_are_refused_where_they_are_checked():
    points = np.where(np.arange(2) == 1, np.nan, POINTS)
    with pytest.raises(ValueError, match="must not contain infs or NaNs"):
        nt.grad(lambda x: np.sum(whiten(x)))(points)
    assert np.isfinite(nt.grad(lambda x: np.sum(whiten(x, check_finite=False)[0, 0]))(points)[:, 0]).all()
