"""Statistics of samples in ``scipy.stats``: values against SciPy, derivatives of two orders."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from scipy import stats

import numbatape as nt
from tests.agreement import agrees

X = np.array([[0.8, 1.9], [1.1, 0.3], [2.7, 1.4], [0.5, 2.4]])
WEIGHTS = np.array([0.2, 0.5, 1.3, 0.4])

CASES = {
    "zscore": lambda x: stats.zscore(x.T, axis=1, ddof=1),
    "zmap": lambda x: stats.zmap(x[0], x[:, 1]),
    "gzscore": lambda x: stats.gzscore(x),
    "gmean": lambda x: stats.gmean(x) + stats.gmean(x[:, 0], weights=WEIGHTS),
    "hmean": lambda x: stats.hmean(x, axis=None) + stats.hmean(x[:, 0], weights=WEIGHTS),
    "pmean": lambda x: stats.pmean(x, 2.5) + stats.pmean(x, 0),
    "gstd": lambda x: stats.gstd(x),
    **{
        f"discrepancy, {method}": lambda x, method=method: stats.qmc.discrepancy(
            x / 3.0, method=method, iterative=method == "MD"
        )
        for method in ("CD", "WD", "MD", "L2-star")
    },
    "moment": lambda x: stats.moment(x, 3) + stats.moment(x, 2, center=1.0) + stats.moment(x, [2, 3])[1],
    "skew": lambda x: stats.skew(x) * stats.skew(x, axis=None, bias=False),
    "kurtosis": lambda x: stats.kurtosis(x) * stats.kurtosis(x, axis=None, bias=False, fisher=False),
    "sem": lambda x: stats.sem(x),
    "variation": lambda x: stats.variation(x, ddof=1),
    "trim_mean": lambda x: stats.trim_mean(x, 0.25) + stats.trim_mean(x, 0.25, axis=None, keepdims=True)[0],
    "iqr": lambda x: stats.iqr(x, axis=0) + stats.iqr(x, scale="normal"),
    "trim_mean of axes": lambda x: stats.trim_mean(x, 0.25, axis=(0, 1)),
    "median_abs_deviation": lambda x: stats.median_abs_deviation(x[:, 1], scale="normal"),
    "median_abs_deviation of a list": lambda x: stats.median_abs_deviation(list(x[:, 1])),
    "entropy": lambda x: (
        stats.entropy(x) + stats.entropy(x, WEIGHTS[:, None], base=2.0) + stats.entropy(x[0], 2.0)
    ),
    "boxcox_llf": lambda x: stats.boxcox_llf(x[0, 0] - 0.5, x[:, 1]),
}


@pytest.mark.parametrize("name", CASES)
def test_statistic(name):
    f = CASES[name]
    cache = nt.prepare_pullback_cache(f, X)
    want = f(X)
    for point in (X, X + 0.01):
        value, _ = nt.value_and_pullback(cache, np.ones(np.shape(want)), point)
        np.testing.assert_allclose(value, f(point), rtol=1e-13)
    nt.testing.check_derivatives(f, X, points=0)


HOLES = np.array([[False, True], [False, False], [True, False], [False, False]])
ONE_SAMPLE = ("gmean", "moment", "kurtosis", "sem", "iqr", "entropy")


@pytest.mark.parametrize("axis", [0, None])
def test_statistics_of_the_entries_that_are_not_nan(axis):
    def f(x):
        x = np.where(HOLES, np.nan, x)
        results = [getattr(stats, name)(x, axis=axis, nan_policy="omit") for name in ONE_SAMPLE]
        results += [
            stats.zscore(x, axis=axis, nan_policy="omit"),
            stats.pmean(x, 3.0, axis=0, nan_policy="omit"),
        ]
        return [np.nan_to_num(one) for one in results]

    value, pullback = nt.vjp(f, X)
    for ours, scipys in zip(value, f(X), strict=True):
        np.testing.assert_allclose(ours, scipys, rtol=1e-12)
    (gradient,) = pullback([np.ones(np.shape(one)) for one in value])
    ends = [sum(np.sum(one) for one in f(X + sign * 1e-6 * WEIGHTS[:, None])) for sign in (1, -1)]
    np.testing.assert_allclose(np.sum(gradient * WEIGHTS[:, None]), (ends[0] - ends[1]) / 2e-6, rtol=1e-6)


def test_nan_policies_are_guards():
    raising = nt.grad(lambda x: stats.skew(x, nan_policy="raise"))
    omitting = nt.grad(lambda x: stats.gmean(x, nan_policy="omit"))
    x = np.append(X[:, 0], 1.5)
    np.testing.assert_array_equal(raising(x), nt.grad(lambda x: stats.skew(x))(x))
    assert np.all(omitting(x) > 0)
    x[1] = np.nan
    with pytest.raises(ValueError, match="nan values"):
        raising(x)
    np.testing.assert_array_equal(omitting(x)[[0, 2]], nt.grad(stats.gmean)(np.delete(x, 1))[:2])
    with pytest.raises(nt.UnsupportedOperationError, match="nan_policy='omit'"):
        nt.grad(lambda x: stats.gmean(x, weights=np.ones(5), nan_policy="omit"))(x)


SAMPLE, OTHER = np.array([0.3, -0.5, 1.2, 0.9, -1.1, 0.4]), np.array([0.1, 0.8, -0.2, 1.5])
DISTANCES = {
    "obrientransform": lambda x: stats.f_oneway(*stats.obrientransform(x, x[:4] ** 2))[0],
    "obrientransform, equal lengths": lambda x: stats.obrientransform(x, x**2),
    "wasserstein_distance": lambda x: stats.wasserstein_distance(x, OTHER),
    "wasserstein_distance, second": lambda x: stats.wasserstein_distance(OTHER, x),
    "wasserstein_distance, weights": lambda x: stats.wasserstein_distance(SAMPLE, OTHER, np.exp(x), WEIGHTS),
    "energy_distance": lambda x: stats.energy_distance(x, OTHER),
    "energy_distance, weights": lambda x: stats.energy_distance(x, OTHER, v_weights=WEIGHTS),
}


@pytest.mark.parametrize("name", DISTANCES)
def test_distances_of_samples(name):
    agrees(DISTANCES[name], SAMPLE)


PAIRED = np.array([0.2, 0.1, 0.9, 1.3, -0.8, -0.6])
RANKS = {
    "kendalltau": lambda x: stats.kendalltau(x, PAIRED),
    "kendalltau, less": lambda x: stats.kendalltau(PAIRED, x, alternative="less"),
    "weightedtau": lambda x: stats.weightedtau(x, PAIRED),
    "wilcoxon": lambda x: stats.wilcoxon(x, PAIRED),
    "wilcoxon, one sample": lambda x: stats.wilcoxon(x, alternative="greater"),
    "mannwhitneyu": lambda x: stats.mannwhitneyu(x, OTHER),
    "cramervonmises_2samp": lambda x: stats.cramervonmises_2samp(x, OTHER),
    "logrank": lambda x: stats.logrank(x, OTHER),
}


@pytest.mark.parametrize("name", RANKS)
def test_statistics_of_ranks_are_data(name):
    """They are SciPy's for the numbers of each call, and have no derivative."""
    assert type(nt.vjp(lambda x: RANKS[name](x).statistic, SAMPLE)[0]) is type(RANKS[name](SAMPLE).statistic)
    statistic = nt.value_and_grad(lambda x: RANKS[name](x).statistic + x[0] ** 2)
    p = nt.value_and_grad(lambda x: x[0] * np.nan_to_num(RANKS[name](x).pvalue))
    for x in (SAMPLE, SAMPLE[::-1], SAMPLE**2 - 0.3):
        found = RANKS[name](x)
        value, gradient = statistic(x)
        np.testing.assert_allclose(value, found.statistic + x[0] ** 2, rtol=1e-12)
        np.testing.assert_array_equal(gradient, 2.0 * x * [1, 0, 0, 0, 0, 0])
        np.testing.assert_allclose(p(x)[1], [np.nan_to_num(found.pvalue), 0, 0, 0, 0, 0], rtol=1e-12)


def test_a_power_mean_of_order_zero_is_smooth_in_the_order():
    x = np.array([1.0, 2.0, 3.5, 0.7])
    value, slope = nt.value_and_grad(lambda p: stats.pmean(x, p))(0.0)
    middle = stats.gmean(x)
    assert (value, slope) == (
        pytest.approx(middle),
        pytest.approx(0.5 * middle * np.var(np.log(x)), rel=1e-14),
    )
    np.testing.assert_allclose(
        nt.grad(lambda x, p: stats.pmean(x, p), argnums=1)(np.array([0.0, 1.0]), 2.0),
        0.5**0.5 * (0.5 * np.log(2.0)) / 2.0,
    )


ALIKE = np.full(6, 0.7)  # whose mean is not 0.7 exactly
UNDEFINED = {
    "hmean": (stats.hmean, np.array([1.0, -0.5, 2.0, 3.0, 0.4, 1.0])),
    "pmean": (lambda x: stats.pmean(x, 2.0), np.array([1.0, -0.5, 2.0, 3.0, 0.4, 1.0])),
    "skew": (stats.skew, ALIKE),
    "kurtosis": (lambda x: stats.kurtosis(x, keepdims=True), ALIKE),
    "zscore": (lambda x: np.abs(stats.zscore(x)), ALIKE),  # their sum is rounding
    "an entry beside an infinite one": (
        lambda x: np.quantile(x, 0.7 + 0.0 * x[1], method="inverted_cdf"),
        np.array([0.3, 0.4, 0.5, 0.6, 0.7, np.inf]),
    ),
    "an entry before an infinite one": (
        lambda x: np.quantile(x, [0.4, 0.8, 1.0]) + np.percentile(x, 80.0, method="lower"),
        np.append(ALIKE[1:], np.inf),
    ),
    "quantile of an infinite entry": (lambda x: np.quantile(x, 0.12), np.append(ALIKE[1:], -np.inf)),
}


@pytest.mark.parametrize("name", UNDEFINED)
def test_later_samples_that_scipy_has_no_statistic_of(name):
    f, x = UNDEFINED[name]
    verb = nt.value_and_grad(lambda x: np.sum(f(x)))
    for sample in (np.array([1.0, 0.5, 2.0, 3.0, 0.4, 1.5]), x):
        with np.errstate(invalid="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            np.testing.assert_allclose(verb(sample)[0], np.sum(f(sample)), rtol=1e-13)


def test_a_negative_order_of_a_moment_raises():
    with pytest.raises(nt.UnsupportedOperationError, match="a negative order"):
        nt.grad(lambda x: stats.moment(x, [2, -1])[1])(SAMPLE)


@pytest.mark.parametrize("order", [0.0, 0.7, 2.0])
def test_powers_of_yeo_and_johnson_have_a_slope_at_zero(order):
    x = np.array([0.0, 0.4, -0.3, 1.7])
    assert nt.derivative(lambda t: stats.yeojohnson(t, order))(0.0) == 1.0
    beside = nt.grad(lambda x: stats.yeojohnson_llf(order, x))(x + 1e-9)
    np.testing.assert_allclose(nt.grad(lambda x: stats.yeojohnson_llf(order, x))(x), beside, rtol=1e-7)


def test_nan_in_lists_and_of_logarithms_are_left_out():
    row = np.array([0.3, np.nan, 1.2, 0.4])
    for statistic, x in (
        (lambda x: stats.sem(list(x), nan_policy="omit"), row),
        (lambda x: stats.moment([x[0], x[1], x[2], 0.7], 2, nan_policy="omit"), row),
        (lambda x: stats.gstd(x, nan_policy="omit"), row),
        (lambda x: stats.gstd(x, nan_policy="omit"), np.array([0.3, -1.0, 1.2, 0.4])),
        (lambda x: stats.gzscore(x, nan_policy="omit")[0], np.array([0.3, -1.0, 1.2, 0.4])),
    ):
        with np.errstate(invalid="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value, gradient = nt.value_and_grad(statistic)(x)
            assert value == pytest.approx(statistic(x), rel=1e-14)
        np.testing.assert_allclose(gradient[[0, 2]], nt.grad(statistic)(np.where(x > 0, x, np.nan))[[0, 2]])
        assert gradient[1] == 0.0 and gradient[0] != 0.0


@pytest.mark.parametrize("name", ["gmean", "hmean", "moment", "median_abs_deviation"])
def test_a_number_is_a_sample_of_one(name):
    statistic = getattr(stats, name)
    assert nt.value_and_grad(statistic)(1.3) == (statistic(1.3), 1.0 if name.endswith("mean") else 0.0)


TOO_FEW = {
    "zscore": lambda x, d: stats.zscore(x, ddof=d),
    "zscore, omit": lambda x, d: stats.zscore(np.where(x > 2, np.nan, x), ddof=d, nan_policy="omit"),
    "gzscore": lambda x, d: stats.gzscore(x, ddof=d),
    "zmap": lambda x, d: stats.zmap(x, x[:2], ddof=d),
    "gstd": lambda x, d: stats.gstd(x, ddof=d),
    "variation": lambda x, d: stats.variation(x, ddof=d),
    "sem": lambda x, d: stats.sem(x[0, :1], ddof=d) + stats.sem(x[:1], ddof=d),
    "nanstd": lambda x, d: np.nanstd(x, axis=0, ddof=d),
    "nanvar of integers": lambda x, d: np.nanvar(x.astype(int), ddof=d) * x,
}


@pytest.mark.parametrize("name", TOO_FEW)
def test_too_few_entries_for_their_degrees_of_freedom(name):
    f = TOO_FEW[name]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for x, ddof in itertools.product((X, X[:2], X[:3]), (0, 1, 2, 3, 4)):
            value = nt.jvp(lambda x, d=ddof: f(x, d), (x,), (x,))[0]
            np.testing.assert_allclose(value, f(x, ddof), rtol=1e-12)
