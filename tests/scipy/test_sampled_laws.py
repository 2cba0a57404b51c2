"""``rv_discrete(values=...)``: laws of some places, with traced probabilities, places and points."""

import numpy as np
import pytest
from scipy import stats

import numbatape as nt

PLACES = [5.0, 1.0, 2.5]
LAW = stats.rv_discrete(values=(PLACES, [0.5, 0.2, 0.3]))


def law(weights):
    return stats.rv_discrete(values=(PLACES, weights / np.sum(weights)))


def moved(places):
    return stats.rv_discrete(values=(places, [0.5, 0.2, 0.3]))


OF_THREE = {
    "masses": lambda w: law(w).pmf([1, 2, 5]) + np.exp(law(w).logpmf([[1.0], [2.5]])),
    "below": lambda w: law(w).cdf([0.0, 1.0, 2.4, 4.0, 5.0, 9.0]),
    "logarithms": lambda w: law(w).logcdf([1.0, 3.0]) + law(w).logsf(1.5),
    "above": lambda w: law(w).sf([0.0, 1.0, 3.0], loc=w[0] - 0.6),
    "moments": lambda w: np.array([law(w).mean(), law(w).var(w[0]), law(w).std(), law(w).moment(3)]),
    "stats": lambda w: np.array(law(w)(0.5).stats(moments="mvsk")),
    "entropy": lambda w: law(w).entropy(),
    "quantiles": lambda w: law(w).ppf([0.1, 0.4, 0.9, 1.0], w[0]) * w[1] + law(w).isf(0.3),
    "middle": lambda w: (law(w).median() + law(w).interval(0.5, w[1])[1]) * w[0],
    "expect": lambda w: law(w).expect(lambda k, s=w[0]: np.exp(-k * s)) + law(w)(0.5).expect(np.sqrt),
    "expect between": lambda w: law(w).expect(lambda k: k**2, lb=2.0, conditional=True),
    "places": lambda w: np.array([*moved(w).stats(moments="mvs"), moved(w).expect(np.exp)]),
    "quantiles of places": lambda w: moved(w).ppf([0.1, 0.4, 0.9]),
    "points": lambda w: LAW.pmf(np.round(w)) * w + LAW.cdf(w) + LAW(1.0).sf(2.0 * w),
    "moved": lambda w: np.array([LAW.mean(w[0]), LAW(w[1]).expect(lambda k: k * w[2])]),
    "quantiles of points": lambda w: LAW.ppf(w / 9.0) * w,
}


@pytest.mark.parametrize("name", OF_THREE)
def test_value_and_derivatives(name):
    function = OF_THREE[name]
    cache = nt.prepare_pullback_cache(function, np.array([1.0, 2.2, 3.1]))
    for point in ([1.0, 2.2, 3.1], [2.4, 0.9, 1.7]):
        x = np.array(point)
        value, jacobian = nt.value_and_jacobian(cache, x)
        np.testing.assert_allclose(value, function(x), rtol=1e-13)
        steps = 1e-5 * np.eye(3)
        slopes = np.stack([(function(x + h) - function(x - h)) / 2e-5 for h in steps], -1)
        np.testing.assert_allclose(jacobian, slopes, rtol=1e-7, atol=1e-8)


def test_the_class_is_scipys_in_tests_of_types_and_as_a_base():
    def f(x):
        made = stats.rv_discrete(values=([1, 2], [0.5, 0.5]))

        class Own(stats.rv_discrete):
            def _pmf(self, k):
                return 0.25 * k

        assert isinstance(made, stats.rv_discrete) and isinstance(Own(a=1, b=2), stats.rv_discrete)
        assert stats.rv_discrete.__name__ == "rv_discrete" and Own(a=1, b=2).pmf(2) == 0.5
        return x * made.mean()

    assert nt.value_and_grad(f)(2.0) == (3.0, 1.5)


def test_methods_without_a_formula_raise():
    with pytest.raises(nt.UnsupportedOperationError, match="rvs of traced"):
        nt.grad(lambda w: law(w).rvs() * w[0])(np.array([1.0, 2.0, 3.0]))
    with pytest.raises(ValueError, match="sum of provided pk"):
        nt.grad(lambda w: stats.rv_discrete(values=(PLACES, w)).mean())(np.array([1.0, 2.0, 3.0]))
