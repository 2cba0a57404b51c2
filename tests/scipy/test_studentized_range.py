"""The law of the studentized range: SciPy's values, slopes against differences."""

import numpy as np
import pytest
from scipy import stats

import numbatape as nt

law = stats.studentized_range
PLACES = [(3.5, 3.0, 10.0), (30.0, 3.0, 1.0), (0.5, 5.0, 4.0), (3.0, 1.5, 0.4), (4.0, 10.0, 3e4)]


@pytest.mark.filterwarnings("ignore::scipy.integrate.IntegrationWarning")
@pytest.mark.parametrize("place", PLACES)
def test_values_and_slopes(place):
    value, slopes = nt.value_and_grad(lambda p: law.cdf(*p))(np.array(place))
    assert value == pytest.approx(law.cdf(*place), rel=1e-10)
    for k in range(3):
        step = 0.01 * place[k]
        ends = []
        for h in (step, -step, 0.5 * step, -0.5 * step):
            moved = np.array(place)
            moved[k] += h
            ends.append(nt.vjp(lambda p: law.cdf(*p), moved)[0])  # as accurate as SciPy's, and faster
        slope = (8.0 * (ends[2] - ends[3]) - (ends[0] - ends[1])) / (6.0 * step)
        assert slopes[k] == pytest.approx(slope, rel=1e-6, abs=1e-15)
    density = nt.grad(lambda x: law.cdf(x, *place[1:]))(place[0])
    value, slope = nt.value_and_grad(lambda x: law.pdf(x, *place[1:]))(place[0])
    assert value == pytest.approx(density, rel=1e-10)
    assert slope == pytest.approx(nt.hessian(lambda x: law.cdf(x, *place[1:]))(place[0]), rel=1e-9)


def test_quantiles_and_tails():
    q, k, df = 0.95, 3.0, 12.0
    value, slopes = nt.value_and_grad(lambda q, k, df: law.ppf(q, k, df), argnums=(0, 1, 2))(q, k, df)
    assert value == pytest.approx(law.ppf(q, k, df), rel=1e-9)
    of_cdf = nt.grad(lambda p: law.cdf(*p))(np.array([value, k, df]))
    np.testing.assert_allclose(
        slopes, [1.0 / of_cdf[0], -of_cdf[1] / of_cdf[0], -of_cdf[2] / of_cdf[0]], rtol=1e-8
    )
    places = np.array([[1.0], [4.0]])
    freedoms = np.array([2.0, 1e5, np.inf])
    sums = lambda x: law.sf(x, 3.0, freedoms)  # noqa: E731
    value, back = nt.vjp(sums, places)
    np.testing.assert_allclose(value, sums(places), rtol=1e-11)
    np.testing.assert_allclose(
        back(np.ones((2, 3)))[0], -np.sum(law.pdf(places, 3.0, freedoms), 1, keepdims=True), rtol=1e-10
    )


def test_p_values_of_tukeys_test():
    rng = np.random.default_rng(3)
    groups = [rng.normal(size=5) + shift for shift in (0.0, 0.4, 1.1)]
    f = lambda x: stats.tukey_hsd(x, *groups[1:]).pvalue[0, 1]  # noqa: E731
    value, slopes = nt.value_and_grad(f)(groups[0])
    assert value == pytest.approx(f(groups[0]), rel=1e-9)
    step = 1e-4 * (np.arange(5) == 2)
    difference = (f(groups[0] + step) - f(groups[0] - step)) / 2e-4
    assert slopes[2] == pytest.approx(difference, rel=1e-5)
