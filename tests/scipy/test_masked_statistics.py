"""``scipy.stats.mstats`` of traced arrays without masks."""

import numpy as np
import pytest
from scipy.stats import mstats

import numbatape as nt
from tests.agreement import agrees

ROW = np.array([0.3, -1.2, 2.5, 0.9, -0.4, 1.7, 0.1, 3.1, -2.2])
TABLE = np.concatenate([ROW, np.cos(3.0 * ROW), ROW[:2] ** 2]).reshape(5, 4)
CALLS = {
    "winsorize": (
        lambda x: (mstats.winsorize(x, 0.12), mstats.winsorize(x, (None, 0.3), (True, False))),
        ROW,
    ),
    "winsorize along an axis": (
        lambda x: (mstats.winsorize(x, (0.2, 0.4), axis=0), mstats.winsorize(x, (0.1, 0.2))),
        TABLE,
    ),
    "trimmed": (
        lambda x: (mstats.trimmed_mean(x), mstats.trimmed_var(x, (0.2, 0.3), (0, 0), ddof=1)),
        ROW,
    ),
    "trimmed along an axis": (
        lambda x: (mstats.trimmed_std(x, (0.2, 0.3), axis=0), mstats.trimmed_stde(x, (0.2, 0.3), axis=0)),
        TABLE,
    ),
    "quantiles": (lambda x: (mstats.mquantiles(x, 0.4), mstats.hdquantiles(x, [0.0, 0.3, 1.0])), ROW),
    "quantiles along an axis": (
        lambda x: (mstats.mquantiles(x, [0.2, 0.7], 0.5, 0.5, axis=1), mstats.hdquantiles(x, axis=0)),
        TABLE,
    ),
    "means": (lambda x: (mstats.gmean(x**2), mstats.hmean(x**2), mstats.sem(x), mstats.zscore(x)), ROW),
    "moments": (
        lambda x: (mstats.moment(x, moment=3), mstats.skew(x), mstats.kurtosis(x), mstats.variation(x)),
        ROW,
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_agrees_with_scipy(name):
    agrees(*CALLS[name])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: mstats.winsorize(x, (0.1, 1.5)), ValueError, "from the end should be"),
        (lambda x: mstats.winsorize(x, 0.1, inplace=True), nt.UnsupportedOperationError, "inplace"),
        (lambda x: mstats.trimmed_mean(x, (0.0, 1.0), relative=False), nt.UnsupportedOperationError, "rel"),
        (lambda x: mstats.winsorize(ROW, (x[0], 0.1)), nt.UnsupportedOperationError, "traced limits"),
    ],
)
def test_what_raises(call, error, message):
    with pytest.raises(error, match=message):
        nt.grad(lambda x: np.sum(call(x)))(ROW)
