"""Windows, ranks and positions of pandas' columns with traced values: what pandas gives for numbers."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import numbatape as nt
from tests.test_captured_series import DATA, DESIGN, END, MISSING, B, X, Y, assert_right

pd = pytest.importorskip("pandas")

DAYS = pd.Series(
    np.cos(np.arange(8.0)), pd.to_datetime([f"2021-01-{k}" for k in (1, 2, 4, 5, 9, 10, 11, 12)])
)
GAPS = DAYS.where(np.arange(8) != 2)
SHAPES = {
    "whole": lambda s: s.rolling(3),
    "few entries": lambda s: s.rolling(3, min_periods=1),
    "in the middle": lambda s: s.rolling(4, min_periods=2, center=True),
    "days": lambda s: s.rolling("3D", closed="both"),
    "steps": lambda s: s.rolling(2, step=2),
    "from the start": lambda s: s.expanding(2),
    "ahead": lambda s: s.rolling(pd.api.indexers.FixedForwardWindowIndexer(window_size=2)),
}
WINDOWS = ("sum", "mean", "std", "var", "sem", "min", "max", "median", "skew", "kurt")


def column(b):
    return GAPS * b[0] + b[1] * GAPS**2


@pytest.mark.parametrize("shape", SHAPES)
def test_reductions_of_windows(shape):
    def f(b):
        windows = SHAPES[shape](column(b))
        found = [getattr(windows, name)() for name in WINDOWS]
        found += [windows.quantile(0.3), windows.var(ddof=0), windows.apply(lambda x: (x**2).sum(), raw=True)]
        return sum((k + 1.0) * one.sum() for k, one in enumerate(found)) + 0.1 * found[1].count()

    assert_right(f)


def ranked(s):
    kinds = ("average", "min", "max", "first", "dense")
    found = [s.rank(method=kind, ascending=kind != "min", pct=kind == "max") for kind in kinds]
    return sum(((k + 1.0) * one * s).sum() for k, one in enumerate(found))


OTHERS = {
    "weights": lambda b: sum(
        (column(b).ewm(alpha=0.4, adjust=adjust, ignore_na=ignores).mean() * DAYS).sum()
        for adjust in (True, False)
        for ignores in (True, False)
    ),
    "weights by time": lambda b: (DAYS * b[0]).ewm(halflife="2D", times=DAYS.index).mean().std(),
    "frames": lambda b: (
        ((DESIGN * b).rolling(2).mean() * DESIGN).sum().prod() + (DESIGN * b).rank().sum().sum() * b[0]
    ),
    "windows with another column": lambda b: (
        (X * b[0] + END).rolling(4).corr(Y * b[1] + X).sum() + (X * b[0]).rolling(3).cov(MISSING).sum()
    ),
    "columns of one name": lambda b: (
        (DESIGN.set_axis(["x"] * DESIGN.shape[1], axis=1) * b).rolling(2).mean().sum().prod()
    ),
    "quantiles by position": lambda b: (X * b[0]).rolling(2).quantile(0.3, "lower").sum() * b[1],
    "functions of windows": lambda b: (Y * b[0]).rolling(3).apply(lambda s: s.max() * s.iloc[0]).sum(),
    "ranks": lambda b: ranked(X * b[0]) + ranked(MISSING * b[1]),
    "largest": lambda b: (MISSING * b[0]).nlargest(3).prod() + (X * b[1]).nsmallest(2).prod(),
    "rows of largest": lambda b: (
        DATA.assign(fit=X * b[0]).nlargest(3, "fit").y.sum() * b[1]
        + DATA.assign(fit=X * b[0]).nsmallest(2, "fit").fit.prod()
    ),
    "places": lambda b: (
        Y[(X * b[0]).idxmax()] * b[0]
        + (MISSING * b[0]).argmin()
        + Y.iloc[(X * b[1]).argmax()]
        + len((DESIGN * b).idxmin()["x"]) * b[1]
        + Y[DESIGN.assign(x=X * b[0]).idxmax().iloc[-1]] * b[1]
    ),
    "members": lambda b: (
        (X * b[0])[(X * b[0]).isin([2.0 * b[0], 9.0])].prod() + X.isin([b[1] / b[1]]).sum() * b[1]
    ),
    "distinct": lambda b: (
        (X * b[0]).drop_duplicates().prod()
        + (X * b[0]).unique()[1] ** 2
        + ((X * b[0]).nunique() + (MISSING * b[0]).nunique(False)) * b[1]
        + (X * b[0]).drop_duplicates(ignore_index=True).index[-1] * b[0]
        + (X * b[1])[~(X * b[1]).duplicated()].prod()
    ),
    "lines through gaps": lambda b: (
        ((MISSING * b[0]).interpolate() * Y).sum() + (Y.shift(2) * b[1]).interpolate().sum()
    ),
    "places among sorted": lambda b: (
        Y.iloc[np.minimum((Y * b[0]).searchsorted([1.0, 2.0 * b[1]]), 5)].sum() * b[0]
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_pandas_computes_in_compiled_code(name):
    assert_right(OTHERS[name])


ERRORS = {
    "groups": (lambda b: (Y * b[0]).groupby(DATA.g).rolling(2).sum(), r"groupby\(\.\.\.\)\.rolling"),
    "pairs": (lambda b: (DESIGN * b).rolling(3).corr(), r"rolling\(\.\.\.\) of all pairs of columns"),
    "frequent": (lambda b: (Y * b[0]).mode(), r"Series\.mode at .*to_numpy"),
    "variance": (lambda b: (Y * b[0]).ewm(2).var(), r"ExponentialMovingWindow\.var at .*to_numpy"),
    "kept": (lambda b: (Y * b[0]).nlargest(2, keep="all"), "keep"),
    "skipped": (lambda b: (X * b[0]) * (MISSING * b[0]).argmax(skipna=False), "argmax .* skipna=False"),
    "in a row": (lambda b: (DESIGN * b).idxmax(axis=1).map(len) * b[0], "idxmax along rows"),
    "in place": (lambda b: (X * b[0]).drop_duplicates(inplace=True), "inplace=True"),
    "line": (lambda b: (Y * b[0]).interpolate(limit=1), "interpolate"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_what_is_not_known_raises(name):
    f, message = ERRORS[name]
    with pytest.raises(nt.NumbatapeError, match=message), warnings.catch_warnings():
        nt.grad(lambda b: f(b).sum())(B)


def test_pandas_is_as_it_was_after_a_trace():
    kinds = pd.api.typing.Rolling, pd.api.typing.Expanding
    before = [vars(kind)["sum"] for kind in kinds]
    nt.grad(lambda b: (Y * b[0]).rolling(2).sum().sum())(B)
    assert [vars(kind)["sum"] for kind in kinds] == before
