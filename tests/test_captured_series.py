"""Arithmetic of captured objects of pandas with traced values gives what pandas gives."""

from __future__ import annotations

import numpy as np
import pytest

import numbatape as nt

pd = pytest.importorskip("pandas")

DATA = pd.DataFrame(
    {
        "y": np.arange(6.0) + 0.3,
        "x": [2.0, 1.0, 2.0, 4.0, 3.0, 1.5],
        "z": np.arange(6.0) ** 2,
        "g": list("abaabb"),
    },
    index=list("pqrstu"),
)
Y, X, DESIGN = DATA["y"], DATA["x"], DATA[["x", "z"]]
DATES = pd.date_range("2024-01-01", periods=3, freq="7D")
END = Y.where(DATA.index != "u")  # the last one is
MISSING = Y.where(Y != 2.3)  # an entry is NaN
B, C6 = np.array([0.5, 0.7]), np.linspace(0.1, 1.0, 6)


def of_names(s):
    return s["q"] + s.loc["r"] + s.iloc[-1]


def of_parts(s):
    return s[Y > 2].sum() + s[["p", "u"]].sum() + s[1:3].sum() + s.loc["q":"s"].sum() + s[s > 1.0].sum()


def of_methods(s):
    chained = s.add(Y).mul(2.0).sub(0.1).div(3.0).pow(2).rsub(1.0).sum()
    return chained + s.abs().sum() + (-s).sum() + s.copy().astype(float).head(2).sum() + s.tail(1).sum()


def of_functions(s):
    return s.apply(np.exp).sum() + s.map(lambda v: v**2 if v > 1 else v).sum() + s.pipe(np.sin).mean()


def of_bounds(s):
    return s.clip(lower=0.55).sum() + s.clip(0.25, 0.95).sum() + np.clip(s, 0.12, 1.1).sum()


def of_products(s):
    return s.dot(X) + s @ X.to_numpy() + s @ s + Y @ s + np.dot(s, X) + np.vdot(s, Y) + np.inner(X, s)


def of_an_array(s):
    whole = s.to_numpy().std() + s.values.sum() + len(s) + s.shape[0] + s.size + sum(s.to_list())
    return whole + np.linalg.norm(s) + np.concatenate([s, B]).sum() + np.stack([s, X]).sum()


def of_loops(s):
    return sum(v**2 for v in s) + sum(v for k, v in s.items() if k > "q")


def of_moments(s):
    own = s.sum() + s.mean() + s.std() + s.var(ddof=0) + s.max() + s.min() + s.prod() + s.median()
    return own + np.sum(s) + np.mean(s) + np.std(s) + np.var(s) + np.max(s) + np.min(s) + np.prod(s)


def of_sums(s):
    return s.cumsum().iloc[-1] + np.cumsum(s).mean() + s.cumsum().std()


def of_comparisons(s):
    return (s > 1).sum() * s.sum() + ((s > 1) & (Y < 3)).sum() + s.notna().sum() - s.isna().sum()


def of_rows(s):
    moved = s.shift(1).sum() + s.shift(-2, fill_value=0.3).std() + s.diff().mean() + s.diff(-2).std()
    return moved + s.cumprod().mean() + s.cummax().sum() + s[::-1].cummin().std() + np.cumprod(s).iloc[1]


def of_gaps(s):
    filled = s.fillna(2.0).std() + s.dropna().var() + s.count() + s.sem() + s.quantile(0.3)
    return filled + s.where(Y > 2.0).sum() + s.mask(Y > 2.0, 0.5).std() + s.where([True, False] * 3, X).sum()


def of_functions_by_name(s):
    return s.agg("sum") + s.agg(np.std) + (s > 1).any() + (s > 0).all() + s.agg(lambda t: t.max())


def of_groups(s):
    groups = s.groupby(DATA.g)
    sizes = (groups.size() * groups.mean()).sum() + len(groups) + groups.count().sum()
    own = (
        groups.sum().std()
        + groups.mean()["a"]
        + groups.std().sum()
        + groups.max().prod()
        + groups.first().sum()
    )
    return own + sizes + (s - groups.transform("mean")).std() + s.groupby(list("abcabc")).agg(np.var).sum()


def of_parts_of_groups(s):
    return sum(k * part.mean() for k, (_, part) in enumerate(s.groupby(DATA.g.to_numpy()), 1))


OF_A_SERIES = [f for name, f in list(globals().items()) if name.startswith("of_")]


@pytest.mark.parametrize("f", OF_A_SERIES, ids=lambda f: f.__name__)
def test_a_series_of_traced_values_is_pandas_series(f):
    assert_right(lambda b: f(Y * b[0] + 0.01 * b[1]))


@pytest.mark.parametrize(
    "f", [of_parts, of_methods, of_moments, of_sums, of_comparisons, of_rows, of_gaps, of_groups]
)
def test_missing_entries_are_skipped(f):
    assert_right(lambda b: f(MISSING * b[0] + 0.01 * b[1]))


OPERATIONS = {
    "reflected": lambda b: ((b[0] - Y) / b[1] + 1 / (Y * b[0]) + b[0] / Y + 2.0 ** (Y * b[0])).sum(),
    "powers": lambda b: (Y ** b[0] + b[0] ** Y + np.power(Y, b[1])).std(),
    "remainders": lambda b: (Y // (3 * b[0]) + Y % (3 * b[0]) + np.float64(7) % (Y * b[1])).sum(),
    "a vector": lambda b: (Y[:2] * b).mean() + (b - Y[:2]).std() + (Y[:2] > b).sum() * b[0],
    "ufuncs": lambda b: (np.minimum(Y[:2], b) + np.multiply(b, Y[:2]) + np.exp(Y[:2] - b)).std(),
    "a regression": lambda b: ((DATA["y"] - b[0] - b[1] * DATA["x"]) ** 2).mean(),
    "a design": lambda b: (Y - DESIGN @ b).std() + DESIGN.dot(b).sum() + (b @ DESIGN.T).std(),
    "np.dot": lambda b: np.sum((DATA.y - np.dot(DESIGN, b)) ** 2) + np.matmul(DESIGN, b).std(),
    "groups": lambda b: sum(((s.y - b[0] * s.x) ** 2).sum() for _, s in DATA.groupby("g")),
    "an index": lambda b: (Y - b[DATA.g.map({"a": 0, "b": 1})]).pow(2).sum(),
    "np.where": lambda b: np.where(b[0] * Y > 1, Y * b[0], b[1]).sum(),
    "booleans": lambda b: ((DATA.g == "a") * b[0]).sum() + (DATA.g.eq("b") * b[1]).sum(),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operators_of_a_series_take_traced_values(name):
    assert_right(OPERATIONS[name])


def assert_right(f):
    value_and_grad = nt.value_and_grad(f)
    for b in (B, 1.01 * B):
        value, gradient = value_and_grad(b)
        np.testing.assert_allclose(value, f(b), rtol=1e-13)
        steps = 1e-6 * np.eye(2)
        differences = [(f(b + step) - f(b - step)) / 2e-6 for step in steps]
        np.testing.assert_allclose(gradient, differences, rtol=1e-6, atol=1e-7)


def test_scipys_functions_take_the_array():
    from scipy.stats import norm

    assert_right(lambda b: norm.logpdf(Y - b[0], scale=np.exp(X * b[1])).sum() + norm.cdf(x=Y * b[0]).std())


def test_a_result_is_a_series_and_its_jacobian_an_array():
    def f(b):
        return b[0] * Y + b[1]

    found = nt.jvp(f, (B,), (B,))[1]
    np.testing.assert_allclose(nt.jacobian(f)(B), np.stack([Y, np.ones(6)], 1))
    np.testing.assert_allclose(found, f(B))


def test_hessians_and_lanes():
    def f(b):
        return ((Y - b[0] * X) ** 2).sum() * np.exp(b[1])

    x = X.to_numpy()
    expected = 2 * np.exp(B[1]) * (x @ x)
    np.testing.assert_allclose(nt.hessian(f)(B)[0, 0], expected)
    np.testing.assert_allclose(nt.vmap(f)(np.stack([B, 2 * B])), [f(B), f(2 * B)])


def test_a_parameter_is_taken_by_its_name():
    beta = pd.Series({"low": 0.1, "slope": 0.7, "unused": 1.0})

    def f(beta):
        return ((Y - beta["low"] - beta.slope * X) ** 2).sum() + np.sum(beta[["low", "slope"]])

    gradient = nt.grad(f)(beta)
    array = nt.grad(lambda b: np.sum((Y.values - b[0] - b[1] * X.values) ** 2) + b[0] + b[1])
    np.testing.assert_allclose(gradient, array(beta.to_numpy()))
    assert list(gradient.index) == list(beta.index)


def test_pandas_is_as_it_was_after_a_trace():
    before = [vars(cls)[name] for cls in (pd.DataFrame, pd.Series) for name in ("dot", "__matmul__")]
    nt.grad(lambda b: (DESIGN @ b).sum())(B)
    with pytest.raises(KeyError, match="v"):
        nt.grad(lambda b: (DESIGN @ b)["v"])(B)
    after = [vars(cls)[name] for cls in (pd.DataFrame, pd.Series) for name in ("dot", "__matmul__")]
    assert before == after


ALIGNED = {
    "other labels": lambda b: (Y.iloc[::-1] + X.iloc[1:] * b[0]).sum(),
    "bounds of other rows": lambda b: (Y * b[0]).clip(lower=X[::-1]).sum(),
    "where of other rows": lambda b: (Y * b[0]).where(Y[::-1] > 2, b[1]).sum(),
    "several quantiles": lambda b: (Y * b[0]).quantile([0.3, 0.4]).sum(),
    "groups by a level": lambda b: (Y * b[0]).groupby(level=0).sum().std(),
    "groups by other rows": lambda b: (Y * b[0]).groupby(DATA.g[::-1]).sum().std(),
    "groups by a function": lambda b: (Y * b[0]).groupby(lambda k: k > "r").sum().std(),
    "running sums of groups": lambda b: ((Y * b[0]).groupby(DATA.g).cumsum() * C6).sum(),
    "nullable": lambda b: (Y.convert_dtypes() * b[0]).std() + (MISSING.convert_dtypes() * b[1]).sum(),
    "transforms": lambda b: (
        (Y * b[0]).transform(lambda s: s - s.mean()).std() + (Y * b[1]).transform(np.exp).sum()
    ),
    "ends of groups": lambda b: (
        (END * b[0]).groupby(DATA.g).first().sum() + (END * b[1]).groupby(DATA.g).last().sum()
    ),
    "few entries": lambda b: (
        (END * b[0]).groupby(DATA.g).sum(min_count=3).sum() + (END * b[1]).groupby(DATA.g).std().sum()
    ),
    "moments": lambda b: (Y * b[0] + b[1] * X**2).skew() + (END * b[0] + b[1] * X**2).kurt(),
    "correlations": lambda b: (
        (X * b[0] + b[1] * END).corr(Y) + (END * b[0]).cov(X[::-1]) + (X * b[0] + C6).cov(Y, ddof=0)
    ),
    "cumsum": lambda b: (Y * b[0]).cumsum(skipna=False).mean(),
    "sorted": lambda b: ((Y * b[0]).sort_values(ascending=False) * C6).sum(),
    "filled": lambda b: (
        (MISSING.fillna(b[0]) * C6).sum()
        + (MISSING * b[1]).fillna(b[0].item()).sum()
        + (MISSING.fillna(END * b[1]) ** 2).sum()
        + (MISSING * b[0]).ffill().mean()
        + (pd.DataFrame({"m": MISSING}).fillna(b[1]) ** 2).sum().sum()
    ),
    "sorted, with a missing entry": lambda b: sum(
        (
            (MISSING % 3.0 * b[0]).sort_values(ascending=up, na_position=place, kind="stable").fillna(b[1])
            * C6**2
        ).sum()
        for up in (True, False)
        for place in ("first", "last")
    ),
    "equal entries, sorted": lambda b: (
        ((X * b[0]).sort_values(ascending=False, kind="stable").index == list("qsrpuv")[:6]).sum() * b[1]
    ),
    "one row": lambda b: (Y.iloc[:1] * b[0]).cov(X, ddof=0) + b[1],
    "a Series made": lambda b: (
        pd.Series(b, ["low", "high"])["low"] * pd.Series({"u": b[1], "p": 2.0}) * Y
    ).sum(),
    "a lookup": lambda b: (Y - DATA.g.map({"a": b[0], "b": b[1]})).std(),
}


@pytest.mark.parametrize("name", ALIGNED)
def test_pandas_aligns_and_groups_series_of_traced_values(name):
    assert_right(ALIGNED[name])


def with_columns(b):
    data = DATA.copy()
    data["fit"] = b[0] * data.x + b[1]
    data["level"] = b[0]
    data["array"] = data.z.to_numpy() * b[1]
    data.loc[:, "fit"] = data["fit"] * 2
    return (data.y - data.fit).pow(2).sum() + data.level.sum() + data["array"].std()


def of_groups_of_a_frame(b):
    data = DATA.assign(fit=lambda d: b[0] * d.x, rest=DATA.y - b[1])
    own = data.groupby("g")[["fit", "rest"]].mean().sum().sum() + data.groupby("g").fit.std().sum()
    return (
        own
        + data.groupby("g").agg({"fit": "sum", "rest": "max"}).fit.prod()
        + data.groupby("g").first().fit.sum()
    )


def of_scaled_columns(b):
    scaled = (DESIGN * b - (DESIGN * b).mean()) / (DESIGN + b).std()
    return (scaled.iloc[:3] ** 2).sum().sum() + scaled.loc["r", "z"] + scaled["x"].clip(-0.5, 0.5).sum()


def of_joined_frames(b):
    levels = pd.DataFrame({"g": ["a", "b"], "level": b})
    both = pd.concat([DATA[["y", "g"]], (DESIGN * b)], axis=1).merge(levels, on="g")
    return (both.y - both.level * both.x).pow(2).sum() + pd.concat([DESIGN * b, DESIGN]).mean().sum()


def of_rows_of_a_frame(b):
    scaled = DESIGN * b
    own = (
        scaled.apply(lambda row: row.x * row.z, axis=1).sum()
        + scaled.apply(lambda column: column.std()).sum()
    )
    return own + sum(row.x for row in scaled.itertuples()) + sum(row["z"] for _, row in scaled.iterrows())


FRAMES = {
    "vectors": lambda b: (DESIGN * b).sum(axis=1).std() + ((b - DESIGN) / b).sum().sum(),
    "numbers": lambda b: ((b[0] * DESIGN + 1) / b[1]).to_numpy().sum() + (DESIGN - b[0]).values.std(),
    "methods": lambda b: (
        DESIGN.mul(b, axis=1).add(b[0]).mean(axis=1).sum() + DESIGN.sub(b[0] * Y, axis=0).std().sum()
    ),
    "matrices": lambda b: (DESIGN * np.outer(C6, b)).sum().sum() + (DESIGN @ np.diag(b)).iloc[2].std(),
    "ufuncs": lambda b: np.exp(-DESIGN * b).sum().sum() + np.sum(np.maximum(DESIGN, b).to_numpy()),
    "products": lambda b: ((DESIGN * b) @ C6[:2]).std() + (DESIGN * b).T.dot(Y).sum(),
    "comparisons": lambda b: ((DESIGN * b > 1.03) * b).sum().sum() + (DESIGN * b)[Y * b[0] > 1].sum().sum(),
    "statistics": lambda b: (DESIGN * b).cov().loc["x", "z"] + (DESIGN * b).quantile(0.3).sum(),
    "more statistics": lambda b: (
        (DESIGN * b + np.outer(C6, b)).corr().loc["x", "z"] + (DESIGN * b).clip(0.4, 1.3).sum().sum()
    ),
    "frames of rows": lambda b: (
        pd.DataFrame([{"u": b[0], "v": 1.0}, {"u": b[1]}]).sum().prod()
        + pd.DataFrame([[b[0], 2.0], [1.0, b[1]]], columns=list("uv")).prod(axis=1).sum()
    ),
    "frames of lists": lambda b: pd.DataFrame({"u": [b[0], 3.0], "v": list(b)}).std().sum(),
    "single entries": lambda b: pd.DataFrame({"u": END * b[0], "v": X}).std(axis=1).sum(),
    "frames made": lambda b: (
        pd.DataFrame({"u": b, "v": b**2, "w": 1.0}).mean().prod() + pd.DataFrame(np.outer(b, b)).std()[0]
    ),
    **{
        f.__name__: f
        for f in (with_columns, of_groups_of_a_frame, of_scaled_columns, of_joined_frames, of_rows_of_a_frame)
    },
}


@pytest.mark.parametrize("name", FRAMES)
def test_frames_take_traced_values(name):
    assert_right(FRAMES[name])


def test_a_frame_is_a_result():
    found = nt.jvp(lambda b: DESIGN * b, (B,), (np.ones(2),))[1]
    np.testing.assert_allclose(found, DESIGN)


@pytest.mark.parametrize("index", [None, list("pqr"), pd.date_range("2021-01-01", periods=3)])
def test_a_plain_series_is_a_result_beside_the_value(index):
    weights = pd.Series([1.0, 2.0, 3.0], index)
    verb = nt.value_and_grad(lambda b: (b[0] ** 2, {"weights": weights, "twice": b * 2.0}), has_aux=True)
    for b in (B, 2.0 * B):
        (value, aux), gradient = verb(b)
        assert value == b[0] ** 2
        np.testing.assert_array_equal(gradient, [2.0 * b[0], 0.0])
        pd.testing.assert_series_equal(aux["weights"], weights)
        np.testing.assert_array_equal(aux["twice"], 2.0 * b)


def test_frames_are_watched():
    data = DATA.copy()
    gradient = nt.grad(lambda b: (data[["x", "z"]] * b).sum().sum())
    np.testing.assert_allclose(gradient(B), data[["x", "z"]].sum())
    data.loc["p", "x"] = 50.0
    np.testing.assert_allclose(gradient(B), data[["x", "z"]].sum())


def test_one_tape_serves_all_signs_of_a_series():
    cache = nt.prepare_gradient_cache(lambda b: np.where((Y - b[0]).abs() < 1, Y * b[1], b[0]).sum(), B)
    for shift in range(4):
        nt.value_and_gradient(cache, B + shift)
    assert cache.traces == 1


def test_a_captured_frame_keeps_its_columns():
    data = DATA.copy()
    with pytest.raises(nt.UnsupportedOperationError, match=r"captured DataFrame at .*df\.copy\(\)"):
        nt.grad(lambda b: data.__setitem__("fit", b[0] * data.x))(B)
    pd.testing.assert_frame_equal(data, DATA)


def test_an_index_is_its_numbers_in_arithmetic():
    days, data = DATES, pd.Series([1.0, 2.0, 4.0], DATES)
    levels = pd.array([1.0, 2.0, 4.0], dtype="Float64")

    def f(b):
        fitted = b[0] * np.sin(days.day_of_year) + b[1] * (days - days[0]).days
        late = np.sum(np.where(days.day_of_year > 10 * b[0], b[1], 0.0))  # a comparison
        return ((data - fitted) ** 2).sum() + np.sum(levels * b[0]) + late

    def plain(b):
        fitted = b[0] * np.sin(np.array([1, 8, 15])) + b[1] * np.array([0, 7, 14])
        return np.sum((np.array([1.0, 2.0, 4.0]) - fitted) ** 2) + 7.0 * b[0] + 2 * b[1]

    np.testing.assert_allclose(nt.grad(f)(B[:2]), nt.grad(plain)(B[:2]))


ERRORS = {
    "weights": (lambda b: (Y * b[0]).ewm(2).std(), r"ewm\.ExponentialMovingWindow\.std at .*to_numpy"),
    "rank of groups": (lambda b: (Y * b[0]).groupby(DATA.g).rank().sum(), r"groupby\(\.\.\.\)\.rank"),
    "text": (lambda b: (DATA.g * b[0]).sum(), "Series of dtype .*no numbers.*astype"),
    "dates": (lambda b: DATES * b[0], "DatetimeIndex of dtype .*no numbers"),
    "truth": (lambda b: 1.0 if Y * b[0] else 2.0, "truth value of a Series is ambiguous"),
    "not aligned": (lambda b: Y @ (X[::-1] * b[0]), "not aligned"),
    "lengths": (lambda b: (DESIGN * np.stack([b[0]] * 3)).sum().sum(), "broadcast"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_what_is_not_known_raises(name):
    f, message = ERRORS[name]
    with pytest.raises(Exception, match=message):
        nt.grad(f)(B)


def test_the_tape_of_sums_of_groups_does_not_grow_with_the_groups():
    def lines(count):
        groups = np.arange(60) % count
        cache = nt.prepare_gradient_cache(lambda w: np.sum(np.bincount(groups, w) ** 2), np.ones(60))
        return str(cache.tape).count("\n")

    assert lines(20) == lines(2)


def test_a_kept_series_says_that_it_outlived_its_call():
    kept = {}

    def f(b):
        kept["fit"] = Y * b[0]
        return kept["fit"].sum()

    nt.grad(f)(B)
    for use in (lambda s: s.iloc[0], lambda s: (s * 2).sum()):
        with pytest.raises(nt.LeakError, match="outlived the call"):
            use(kept["fit"])
