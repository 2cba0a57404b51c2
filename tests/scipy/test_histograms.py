"""``scipy.stats.rv_histogram`` of traced counts and boundaries, and at traced points."""

import numpy as np
import pytest
from scipy import stats

import numbatape as nt
from tests.agreement import agrees

BINS, COUNTS = np.array([0.0, 1.0, 2.0, 3.5, 4.0]), np.array([1.0, 3.0, 5.0, 0.5])
X, TAILS = np.array([0.3, 1.7, 2.2, 3.8, 5.0]), np.array([0.15, 0.3, 0.7, 0.95])
FIXED = stats.rv_histogram((COUNTS, BINS), density=False)
METHODS = {
    "pdf": lambda law: law.pdf(X),
    "logpdf": lambda law: law.logpdf(X[:-1]),
    "cdf, sf": lambda law: (law.cdf(X, 0.2, 1.3), law.sf(X), law.logcdf(X), law.logsf(X[:-1])),
    "ppf, isf": lambda law: (law.ppf(TAILS), law.isf(TAILS), law.median(), *law.interval(0.5)),
    "moments": lambda law: (law.mean(), law.var(), law.std(), law.moment(3), law.entropy()),
    "stats": lambda law: (*law.stats(loc=0.5, scale=2.0, moments="mvsk"), *law.support()),
    "frozen": lambda law: (law(loc=0.5).pdf(X), law(scale=2.0).mean()),
}
LAWS = {
    "counts": (lambda c: stats.rv_histogram((c, BINS), density=False), COUNTS),
    "a density": (lambda c: stats.rv_histogram((c, BINS), density=True), COUNTS),
    "counts, even bins": (lambda c: stats.rv_histogram((c, np.arange(5.0))), COUNTS),
    "boundaries": (lambda b: stats.rv_histogram((COUNTS, b), density=False), BINS),
}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("method", METHODS)
def test_of_traced(law, method):
    make, point = LAWS[law]
    agrees(lambda x: METHODS[method](make(x)), point)


def test_at_traced_points():
    frozen = FIXED(loc=0.5, scale=2.0)
    agrees(lambda x: (FIXED.pdf(x), FIXED.cdf(x[:4], x[4], 2.0), frozen.sf(x), frozen.pdf(x)), X)
    agrees(FIXED.ppf, TAILS)


def test_an_empty_bin_has_a_slope():
    def density(counts):
        return stats.rv_histogram((counts, np.arange(4.0))).pdf(1.5)

    np.testing.assert_allclose(nt.grad(density)(np.array([1.0, 0.0, 3.0])), [0.0, 0.25, 0.0])


@pytest.mark.parametrize("name", ["rvs", "expect", "fit"])
def test_what_is_refused(name):
    with pytest.raises(nt.UnsupportedOperationError, match=f"rv_histogram.{name}"):
        nt.grad(lambda c: getattr(stats.rv_histogram((c, BINS), density=False), name)(c))(COUNTS)
