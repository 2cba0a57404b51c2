"""Distributions of the user's own: subclasses of ``rv_continuous`` and ``rv_discrete``."""

import numpy as np
import pytest
import scipy.special as sc
from scipy import stats

import numbatape as nt
from numbatape.testing import check_derivatives


class Exponential(stats.rv_continuous):
    def _pdf(self, x, a):
        return a * np.exp(-a * x)

    def _cdf(self, x, a):
        return -np.expm1(-a * x)

    def _ppf(self, q, a):
        return -np.log1p(-q) / a

    def _stats(self, a):
        return 1 / a, 1 / a**2, None, None


class Kumaraswamy(stats.rv_continuous):
    def __init__(self, power, **options):
        super().__init__(**options)
        self.power = power

    def _logpdf(self, x, a, b):
        return self.power * (np.log(a * b) + (a - 1) * np.log(x) + (b - 1) * np.log1p(-(x**a)))

    def _pdf(self, x, a, b):
        return np.exp(self._logpdf(x, a, b))

    def _argcheck(self, a, b):
        return (a > 0.1) & (b > 0.1)

    def _get_support(self, a, b):
        return 0.0 * a, 1.0 + 0.0 * b


class Inflated(stats.rv_discrete):
    def _pmf(self, k, mu, share):
        usual = np.exp(sc.xlogy(k, mu) - mu - sc.gammaln(k + 1))
        return np.where(k == 0, share, 0.0) + (1 - share) * usual


exponential = Exponential(a=0.0, name="exponential")
kumaraswamy = Kumaraswamy(1.0, name="kumaraswamy", shapes="a, b")
inflated = Inflated(a=0, name="inflated")
frozen = exponential(2.0)
x = np.array([0.2, 0.5, 0.9])


def of_exponential(x, a, scale):
    small = exponential.logsf(x, a) + exponential.sf(x, a, scale=scale) + exponential.pdf(x, a, 0.1, scale)
    moments = exponential.mean(a) + exponential.var(a, scale=scale) + exponential.ppf(0.3, a)
    return np.sum(exponential.logpdf(x, a, scale=scale) + small) + moments + np.sum(frozen.logpdf(x))


def of_kumaraswamy(x, a, b):
    return np.sum(kumaraswamy.logpdf(x, a, b)) + np.sum(kumaraswamy.pdf(x / 2, a, b))


def of_inflated(mu, share):
    return np.sum(inflated.logpmf([0, 1, 3], mu, share) + inflated.pmf([0, 0, 2], mu, share))


@pytest.mark.parametrize(
    "f, arguments",
    [(of_exponential, (x, 1.3, 2.0)), (of_kumaraswamy, (x, 1.3, 2.0)), (of_inflated, (1.3, 0.2))],
)
def test_derivatives_are_those_of_the_users_formulas(f, arguments):
    np.testing.assert_allclose(nt.value_and_grad(f)(*arguments)[0], f(*arguments), rtol=1e-13)
    check_derivatives(f, *arguments)


def test_outside_of_support_and_parameters(monkeypatch):
    slope = nt.value_and_grad(lambda a: kumaraswamy.logpdf(0.3, a, 2.0))
    assert slope(1.3)[0] == pytest.approx(kumaraswamy.logpdf(0.3, 1.3, 2.0), rel=1e-14)
    assert np.isnan(slope(-1.0)[0])
    assert nt.value_and_grad(lambda a: exponential.logpdf(-1.0, a))(1.3) == (-np.inf, 0.0)
    before = slope(1.3)[1]
    monkeypatch.setattr(kumaraswamy, "power", 2.0)
    assert slope(1.3)[1] == pytest.approx(2.0 * before)


def test_what_the_class_does_not_define_is_refused():
    with pytest.raises(nt.UnsupportedOperationError, match=r"kumaraswamy\.cdf of a traced array"):
        nt.grad(lambda a: kumaraswamy.cdf(0.3, a, 2.0))(1.3)
