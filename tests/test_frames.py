"""DataFrames, DataArrays and polars' columns as arguments; captured ones of polars are watched by content."""

import numpy as np
import pytest

import numbatape as nt
from numbatape.programs.evaluator import Evaluator
from numbatape.steady_calls.front import MOST_STRUCTURES, Front

pd = pytest.importorskip("pandas")

DATA = pd.DataFrame({"x": [1.0, 2.0, 3.0], "y": [2.0, 3.0, 5.0]}, index=list("pqr"))
MIXED = DATA.assign(n=[1, 2, 3], s=["a", "b", "a"])
FLOAT32 = DATA.astype({"y": np.float32})


def loss(w, df):
    return np.sum((df["y"] - w * df["x"]) ** 2)


# What a function may do with a DataFrame, and the same with its array (columns x, y).
USES = {
    "columns": (lambda d: np.sum(d["x"] * d["y"] ** 2), lambda a: np.sum(a[:, 0] * a[:, 1] ** 2)),
    "attributes": (lambda d: np.sum(np.exp(d.x) * d.y), lambda a: np.sum(np.exp(a[:, 0]) * a[:, 1])),
    "arrays of columns": (
        lambda d: d["x"].to_numpy() @ d["y"].values,
        lambda a: a[:, 0] @ a[:, 1],
    ),
    "arithmetic": (lambda d: np.sum((2.0 * d + d**2) / d), lambda a: np.sum((2.0 * a + a**2) / a)),
    "with an array": (lambda d: np.sum(d["x"] @ (d * d.to_numpy())), lambda a: np.sum(a[:, 0] @ a**2)),
    "matmul": (lambda d: np.sum((d @ d.T) ** 2), lambda a: np.sum((a @ a.T) ** 2)),
    "functions": (lambda d: np.sum(np.dot(np.sin(d), [1.0, 2.0])), lambda a: np.sum(np.sin(a) @ [1.0, 2.0])),
    "choice": (lambda d: np.sum(d[["y", "x"]] * [1.0, 2.0]), lambda a: np.sum(a * [2.0, 1.0])),
    "by label": (
        lambda d: d.loc["q", "y"] * np.sum(d.loc[["p", "r"]] ** 2) * d["x"].loc["r"],
        lambda a: a[1, 1] * np.sum(a[[0, 2]] ** 2) * a[2, 0],
    ),
    "by place": (
        lambda d: d.iloc[0, 1] * d["x"].iloc[2] * len(d) * d.shape[1],
        lambda a: a[0, 1] * a[2, 0] * 6,
    ),
    "by name": (
        lambda d: sum(k * np.sum(d[name] ** 2) for k, name in enumerate(d.columns)) + len(d.index),
        lambda a: np.sum(a[:, 1] ** 2) + 3,
    ),
    "np.asarray": (lambda d: np.sum(np.asarray(d) ** 2), lambda a: np.sum(a**2)),
    "items": (lambda d: sum(np.sum(c**3) for name, c in d.items() if name in d), lambda a: np.sum(a**3)),
}


@pytest.mark.parametrize("name", USES)
@pytest.mark.parametrize("data", [DATA, FLOAT32], ids=["one array", "columns"])
def test_a_frame_in_a_function_is_its_columns(name, data):
    f, of_array = USES[name]
    rtol = 1e-12 if data is DATA else 1e-5
    plain = data.to_numpy(float)
    expected = nt.grad(of_array)(plain)
    gradient = nt.grad(f)
    for _ in range(3):
        found = gradient(data)
        assert found.columns.equals(data.columns) and found.index.equals(data.index)
        np.testing.assert_allclose(found.to_numpy(), expected, rtol)
    np.testing.assert_allclose(nt.value_and_grad(f)(data)[0], of_array(plain), rtol)


def test_frames_in_all_verbs():
    f, of_array = USES["columns"]
    array = DATA.to_numpy()
    np.testing.assert_allclose(nt.hessian(f)(DATA), nt.hessian(of_array)(array))
    product = nt.hvp(f)(DATA, DATA)
    pd.testing.assert_frame_equal(product, DATA * 0 + nt.hvp(of_array)(array, array))
    np.testing.assert_allclose(nt.jvp(f, (DATA,), (DATA,)), nt.jvp(of_array, (array,), (array,)))
    np.testing.assert_allclose(nt.jacobian(np.sin)(DATA), nt.jacobian(np.sin)(array))
    (cotangent,) = nt.vjp(lambda d: d["x"] * d.y, DATA)[1](np.ones(3))
    pd.testing.assert_frame_equal(cotangent, DATA[["y", "x"]].set_axis(["x", "y"], axis=1))
    inner = nt.grad(lambda d: np.sum(nt.grad(f)(d)["x"] ** 2))(DATA)
    np.testing.assert_allclose(inner, nt.grad(lambda a: np.sum(nt.grad(of_array)(a)[:, 0] ** 2))(array))
    blocks = nt.jacobian(lambda d: d["x"] * d["y"])(FLOAT32)
    np.testing.assert_allclose(blocks["x"], np.diag(FLOAT32["y"]))


def test_frames_of_data():
    """Columns of text and integers stay what they are; values may change without a trace."""
    gradient = nt.grad(loss)
    for data in (MIXED, MIXED.assign(x=2 * MIXED.x)):
        expected = -2 * np.sum((data["y"] - 2.0 * data["x"]) * data["x"])
        assert gradient(2.0, data) == gradient(2.0, nt.Constant(data)) == pytest.approx(expected, rel=1e-14)
    by_text = nt.grad(lambda w, d: np.sum(w[d["n"] - 1] * d["x"][(d["s"] == "a").to_numpy()].sum()))
    np.testing.assert_array_equal(by_text(np.ones(3), MIXED), [4.0, 4.0, 4.0])
    by_text = by_text(np.ones(3), MIXED.assign(s=["b", "b", "a"]))
    np.testing.assert_array_equal(by_text, [3.0, 3.0, 3.0])
    found = nt.grad(lambda d: np.sum(d["x"] * d["n"]))(MIXED)  # columns without a gradient are left out
    pd.testing.assert_frame_equal(found, pd.DataFrame({"x": [1.0, 2.0, 3.0], "y": 0.0}, index=list("pqr")))


def test_frames_of_data_need_no_general_call(monkeypatch):
    texts = MIXED.reset_index(drop=True)
    gradient = nt.grad(lambda w, d: np.sum((d["y"] - w * d["x"]) ** 2) * np.sum(d["s"] == "a"))
    whole = nt.grad(lambda w, s: np.sum(w * s))
    for data in (texts, texts[:2]) * 2:
        gradient(2.0, data)
        whole(2.0, data["x"])
    longer = pd.concat([texts, texts], ignore_index=True)
    gradient(2.0, longer)
    monkeypatch.setattr(Evaluator, "forward", None)  # what general calls go through
    for data in (texts, texts.assign(x=2.0 * texts.x), longer, texts[:2]):
        expected = -2 * np.sum((data["y"] - 2.0 * data["x"]) * data["x"]) * np.sum(data["s"] == "a")
        assert gradient(2.0, data) == pytest.approx(expected, rel=1e-14)
        assert data is longer or whole(2.0, data["x"]) == data["x"].sum()
    with pytest.raises(TypeError):
        gradient(2.0, texts.assign(s="b"))  # other texts are another structure


def test_resampled_frames_do_not_make_each_other_slower(monkeypatch):
    """Each resample has other labels, and a call is tried with the steady calls that are known."""
    fronts, table = [], Front._table
    monkeypatch.setattr(Front, "_table", lambda self, *args: fronts.append(self) or table(self, *args))
    shuffled = [MIXED.iloc[np.random.default_rng(k).integers(0, 3, 9)] for k in range(30)]
    whole = nt.value_and_grad(lambda w, d: np.sum(w * d["x"]))
    for data in [*shuffled, *shuffled[:2], *shuffled[-5:]]:
        assert whole(2.0, data) == (2.0 * data.x.sum(), data.x.sum())
    (front,) = set(fronts)
    assert len(front._known) == len(front._tables) == len(front._made_for) == MOST_STRUCTURES
    assert len(front._firsts) <= MOST_STRUCTURES
    monkeypatch.setattr(Evaluator, "forward", None)  # what general calls go through
    for data in shuffled[-5:]:
        assert whole(2.0, data)[1] == data.x.sum()


def sized_loss(w, df):
    return loss(w, df) / len(df) * df.shape[0] / df.shape[1] * 2.0 * len(df) / df.shape[0]


@pytest.mark.parametrize("loss", [loss, sized_loss])
def test_prepared_caches_take_frames_of_other_lengths(loss):
    plain = DATA.reset_index(drop=True)
    cache = nt.prepare_gradient_cache(loss, 2.0, nt.Constant(plain))
    for data in (plain, plain.iloc[:2], pd.concat([plain, plain], ignore_index=True)):
        value, (slope, _) = nt.value_and_gradient(cache, 2.0, data)
        assert value == loss(2.0, data) and slope == -2 * np.sum((data.y - 2 * data.x) * data.x)
    assert cache.traces == 1
    with pytest.raises(nt.StructureError, match=r"prepared for a DataFrame .* with other labels"):
        nt.value_and_gradient(cache, 2.0, DATA)


def test_frames_in_containers():
    found = nt.grad(lambda p: np.sum(p["d"]["x"] ** 2) * p["k"])({"d": DATA, "k": 2.0})
    pd.testing.assert_frame_equal(found["d"], pd.DataFrame({"x": 4 * DATA.x, "y": 0.0}))
    vector, unflatten = nt.flatten({"d": DATA})
    pd.testing.assert_frame_equal(unflatten(2 * vector)["d"], 2 * DATA)


def test_missing_entries_of_nullable_columns_are_nan():
    data = pd.DataFrame({"x": pd.array([1.0, None], "Float64"), "n": pd.array([1, 2], "Int64")})
    found = nt.grad(lambda w, d: np.nansum(w * d["x"]) + w * d["n"][1])(1.0, data)
    assert found == 3.0


@pytest.mark.parametrize(
    "use, message",
    [
        (lambda d: d.insert(0, "z", 1.0), r"DataFrame\.insert at .* may change an argument.*`\.copy\(\)`"),
        (lambda d: d.drop(columns="x", inplace=True), r"DataFrame\.drop\(inplace=True\) at "),
        (lambda d: d["x"].update(d["y"]), r"Series\.update at "),
        (lambda d: d.pipe(np.sum), r"DataFrame\.pipe at "),
        (lambda d: d.__setitem__("z", 1.0), r"DataFrame\[\.\.\.\] = \.\.\. at "),
        (lambda d: np.ma.masked_array(d), r"would drop the derivative"),
    ],
)
def test_what_frames_of_a_trace_do_not_have(use, message):
    with pytest.raises(nt.UnsupportedOperationError, match=message):
        nt.grad(lambda d: use(d) * 1.0)(DATA)
    with pytest.raises(KeyError, match="weight"):
        nt.grad(lambda d: np.sum(d["weight"]))(DATA)
    with pytest.raises(nt.UnsupportedOperationError, match="column 's' that is no numbers"):
        nt.grad(lambda w, d: np.sum(w * d.to_numpy()))(1.0, MIXED)


@pytest.mark.parametrize("data", [DATA, MIXED], ids=["numbers", "mixed"])
@pytest.mark.parametrize("name", ["at", "loc"])
def test_places_of_a_frame_are_not_written_to(name, data):
    def f(w, d):
        getattr(d, name)["p", "x"] = 0.0
        return w * d["x"].sum()

    with pytest.raises(nt.UnsupportedOperationError, match=r"an entry is written at .*\.copy\(\)"):
        nt.grad(f)(1.0, data)


WEIGHTS = pd.DataFrame({"k": [1, 2], "w": [2.0, 3.0]})
# What only pandas has; each is a function of the parameters and of `SURVEY`.
PANDAS = {
    "groups": lambda t, d: ((d["y"] - t[0] * d.groupby("k")["y"].transform("mean")) ** 2).sum(),
    "loop over groups": lambda t, d: sum(t[0] * q["y"].sum() * k for k, q in d.groupby("k")),
    "groups by text": lambda t, d: (d.groupby("s")["y"].std() * t[0]).sum(),
    "tuples": lambda t, d: sum((r.y - t[0] * r.x) ** 2 for r in d.itertuples()),
    "rows": lambda t, d: sum((r["y"] - t[0] * r["x"]) ** 2 * (r["s"] == "a") for _, r in d.iterrows()),
    "joined": lambda t, d: (
        (d.merge(WEIGHTS).eval("w * y") * t[0]).sum() + len(WEIGHTS.merge(d, on="k")) * t[1]
    ),
    "query": lambda t, d: (d.query("x > 2")["y"] * t[0]).sum(),
    "mask": lambda t, d: (d[d.x > 2]["y"] * t[0]).sum() + d.loc[d.s == "a", "y"].sum() * t[1],
    "entries": lambda t, d: d.at[1, "y"] * t[0] + d.iat[2, 1] * t[1] + d.iloc[3]["y"],
    "a copy": lambda t, d: d.assign(z=t[0] * d["x"]).copy().eval("z * y").sum(),
    "moments": lambda t, d: d[["x", "y"]].std() @ t + d["y"].corr(d["x"]),
    "lags": lambda t, d: ((d["y"] - t[0] * d["y"].shift(1)).dropna() ** 2).sum(),
    "windows": lambda t, d: d["y"].rolling(2).mean().dropna().sum() * t[0] * d["y"].diff().notna().sum(),
    "kinds": lambda t, d: t[0] * d.y.sum() if isinstance(d, pd.DataFrame) else t[0] * len(d),
    "kinds of columns": lambda t, d: t[0] * d.y.sum() if isinstance(2 * d.y, pd.Series) else t[1],
    "no array": lambda t, d: t[0] if isinstance(d.y, np.ndarray) else t[0] * d.y.sum(),
    "an array": lambda t, d: t[0] * d.y.sum() if type(d.y.to_numpy()) is np.ndarray else t[0],
    "attributes": lambda t, d: (
        t[0] * getattr(d.y, "iloc", d.y)[0] * (hasattr(d, "loc") + hasattr(d.x, "loc"))
    ),
}
SURVEY = pd.DataFrame(
    {"x": [1.0, 4.0, 3.0, 2.5], "y": [2.0, 3.0, 5.0, 2.2], "k": [1, 2, 1, 2], "s": list("abab")}
)


@pytest.mark.parametrize("name", PANDAS)
def test_an_argument_has_what_only_pandas_has(name):
    f, t = PANDAS[name], np.array([0.7, 1.3])
    gradient = nt.value_and_grad(f, argnums=(0, 1))
    for data in (SURVEY, SURVEY.assign(y=SURVEY.y * 1.1), SURVEY.iloc[:4].assign(x=SURVEY.x + 1.5)):
        value, (slope, of_data) = gradient(t, data)
        assert value == pytest.approx(f(t, data), rel=1e-14)
        captured = nt.grad(lambda t, data=data: f(t, data))(t)
        np.testing.assert_allclose(slope, captured, rtol=1e-12)
        step = np.array([0.3, -0.2, 0.5, 0.4])
        moved = [f(t, data.assign(y=data.y + h * step)) for h in (1e-6, -1e-6)]
        expected = (moved[0] - moved[1]) / 2e-6
        assert (of_data["y"] * step).sum() == pytest.approx(expected, rel=1e-6, abs=1e-8)


def test_arrays_of_xarray():
    xr = pytest.importorskip("xarray")
    data = xr.DataArray([[1.0, 2.0], [3.0, 4.0]], {"a": [10, 20]}, ("a", "b"), "q")
    f = lambda d: np.sum(d.values**2 * d) + np.sum(d.to_numpy()) + len(d.dims)  # noqa: E731
    for _ in range(3):
        xr.testing.assert_identical(nt.grad(f)(data), 3 * data**2 + 1)
    assert nt.grad(lambda w, d: np.sum(w * d["d"]))(1.0, {"d": data}) == 10.0
    np.testing.assert_array_equal(nt.hessian(f)(data), nt.hessian(lambda a: np.sum(a**3))(data.values))


def test_frames_of_polars():
    pl = pytest.importorskip("polars")
    data = pl.DataFrame({"x": [1.0, 2.0, 3.0], "y": [2.0, 3.0, 5.0], "s": ["a", "b", "a"]})
    plain = DATA.to_numpy()
    assert nt.grad(loss)(2.0, data) == -2 * np.sum((plain[:, 1] - 2 * plain[:, 0]) * plain[:, 0])
    found = nt.grad(lambda d: np.sum(d.to_numpy() ** 2) + np.sum(d["x"].to_numpy()))(data[["x", "y"]])
    assert found.equals(pl.DataFrame({"x": [3.0, 5.0, 7.0], "y": [4.0, 6.0, 10.0]}))
    assert nt.grad(lambda s: np.sum(s**2))(data["x"]).equals(pl.Series("x", [2.0, 4.0, 6.0]))


@pytest.mark.parametrize("change", [(0, "x", 10.0), (0, "s", "b"), (2, "n", 7)])
def test_captured_frames_of_polars_are_watched(change):
    pl = pytest.importorskip("polars")
    data = pl.DataFrame({"x": [1.0, 2.0, 3.0], "s": ["a", "b", "a"], "n": [1, None, 2]})

    def f(w):
        return w * (np.sum(data["x"].to_numpy()) + 10 * (data["s"] == "b").sum() + 100 * data["n"].sum())

    cache = nt.prepare_gradient_cache(f, 2.0)
    assert [nt.value_and_gradient(cache, 2.0)[0] for _ in range(3)] == [f(2.0)] * 3 and cache.traces == 1
    row, name, value = change
    data[row, name] = value
    assert nt.value_and_gradient(cache, 2.0)[0] == f(2.0)


def test_rows_that_pandas_would_align_are_not_taken_by_place():
    a = pd.Series([1.0, 2.0, 4.0], list("abc"))
    b = pd.Series([1.0, 2.0, 4.0], list("cab"))
    frames = [pd.DataFrame({"x": s, "y": s}) for s in (a, b)]
    for f, arguments in (
        (lambda a, b: np.sum(a * b), (a, b)),
        (lambda a, b: np.sum(np.exp(2.0 * a) - b), (a, b)),
        (lambda a, b: np.sum(a["x"] - b["y"]), frames),
        (lambda a, b: np.sum(np.sum(a - b)), frames),
    ):
        with pytest.raises(nt.UnsupportedOperationError, match="rows with different labels meet at"):
            nt.grad(f)(*arguments)
    whole = nt.value_and_grad(lambda a, b: a.to_numpy() @ b.values + np.sum(a * (2.0 * a)), argnums=(0, 1))
    value, (slope, other) = whole(a, b)
    assert value == a.to_numpy() @ b.to_numpy() + 2 * np.sum(a**2)
    pd.testing.assert_series_equal(slope, pd.Series(b.to_numpy() + 4 * a.to_numpy(), a.index))
    pd.testing.assert_series_equal(other, pd.Series(a.to_numpy(), b.index))
    renamed, counted = a.rename_axis("letter"), a.reset_index(drop=True)
    assert nt.value_and_grad(lambda a, b: np.sum(a * b))(a, renamed)[0] == 21.0
    assert nt.value_and_grad(lambda a, b: np.sum(a * b))(counted, counted.rename_axis("row"))[0] == 21.0


def test_deviations_of_a_series_say_what_they_divide_by():
    s = pd.Series([1.0, 2.0, 4.0], list("abc"))
    for f in (lambda s: s.std(), lambda s: (2 * s).var()):
        with pytest.raises(nt.UnsupportedOperationError, match=r"a Series divides by n - 1.*\(ddof=1\) or"):
            nt.grad(f)(s)
    value = nt.value_and_grad(lambda s: s.std(ddof=1) + s.to_numpy().std() + np.std(s))(s)[0]
    np.testing.assert_allclose(value, s.std() + 2 * s.to_numpy().std())


COUNTED = pd.Series([1.0, 2.0, 4.0, 7.0])
NUMBERED = pd.Series([1.0, 2.0, 4.0, 7.0], [3, 2, 1, 0])
SHEET = pd.DataFrame({"x": COUNTED, "y": COUNTED**2, "z": COUNTED - 3})


@pytest.mark.parametrize(
    "use",
    [
        lambda a: np.sum(a[1:] * a[:-1]),
        lambda a: np.sum(a.iloc[1:] * a.loc[:2]),
        lambda a: np.sum(a[a > 1.5] - a[a < 5.0]),
        lambda a: a[1:].dot(a[:-1]),
        lambda a: a[1:] @ a[:-1],
        lambda a: np.sum(np.logaddexp(a.copy()[1:], a.cumsum()[:-1])),
        lambda a: np.sum(a[a[1:] > 2.0]),
        lambda a: np.sum(a[NUMBERED > 1.0]),
    ],
)
def test_rows_that_pandas_would_align_within_one_series(use):
    with pytest.raises(nt.UnsupportedOperationError, match="rows with different labels meet at"):
        nt.grad(use)(COUNTED)


@pytest.mark.parametrize(
    "use, data",
    [
        (lambda a: np.sum(a[1:] * a[1:].to_numpy()) + np.sum(np.diff(a) ** 2), COUNTED),
        (lambda a: np.sum(np.asarray(a)[1:] * np.array(a)[:-1]), COUNTED),
        (lambda a: a[0] + 2 * a[1:][1] + 3 * a[[3, 1]].iloc[0] + 4 * (2 * a)[2:][3], COUNTED),
        (lambda a: a[0] + 2 * a[[3, 1]].iloc[0] + 4 * a.iloc[1:][1] + 5 * a.iloc[0], NUMBERED),
        (lambda a: sum(k * v for k, v in enumerate(a)) + np.sum(a[1:3] * a.loc[2:1]), NUMBERED),
        (lambda a: np.sum(a[a > 1.5] * np.exp(a)[a > 1.5]) + np.sum(a[list(a.index[1:])]), NUMBERED),
        (lambda d: np.sum(d.iloc[1:, 0] * d.loc[1:, "y"]) + np.sum(d.iloc[[0, 2], [0, 1]].to_numpy()), SHEET),
        (lambda d: np.sum(d.iloc[0] * d.loc[2] + d.iloc[1]), SHEET),
        (lambda d: np.sum(np.sum(d.loc[1:, ["x"]] * d[["x"]].iloc[1:])), SHEET),
        (lambda d: np.sum(d.iloc[1:].mean() ** 2) + np.sum((d.loc[1:, ["x", "y"]] * 2.0).sum() ** 2), SHEET),
        (lambda d: np.sum(d.loc[d.x > 1.5].max() ** 2) + np.sum(d.loc[d["x"] > 1.5, "y"]), SHEET),
        (lambda d: np.sum(np.exp(d).mean() ** 2) + np.sum((d * d.y.iloc[0])["x"] ** 3) + len(d * 2), SHEET),
        (lambda d: np.sum((d**2)[1:].std(ddof=1)) + np.max((d * 3.0)[["y", "x"]].sum(axis=1)), SHEET),
        (
            lambda d: np.sum(d.T.sum() ** 2) + np.sum((d * 2.0).T.max() ** 3) + isinstance(d.T, pd.DataFrame),
            SHEET,
        ),
        (lambda d: sum(len(name) * np.sum(d[name]) for name in d.iloc[1:]) / len(d) / d.shape[0], SHEET),
    ],
)
def test_entries_of_series_are_those_of_pandas(use, data):
    gradient = nt.value_and_grad(use)
    for values in (data, data + 1.0):
        assert gradient(values)[0] == pytest.approx(use(values), rel=1e-14)
    slope = gradient(data)[1]
    step = slope * 0 + np.linspace(0.5, 1.0, slope.size).reshape(slope.shape)
    expected = (use(data + 1e-6 * step) - use(data - 1e-6 * step)) / 2e-6
    assert float((slope * step).to_numpy().sum()) == pytest.approx(expected, rel=1e-7)


def test_rows_of_frames_that_pandas_would_align():
    for use in (
        lambda d: d.iloc[1:] * d.iloc[:-1],
        lambda d: d.iloc[:, :2] * d.iloc[:, 1:],
        lambda d: d.loc[1:, "x"] - d.loc[:2, "y"],
        lambda d: d[["x", "y", "z"]] * d["x"].iloc[:3],
    ):
        with pytest.raises(nt.UnsupportedOperationError, match="rows with different labels meet at"):
            nt.grad(lambda d, use=use: np.sum(use(d)))(SHEET)


def test_rows_are_compared_again_in_later_calls():
    f = nt.value_and_grad(lambda a, b: np.sum(a[a > 0] * b[b > 0]))
    a, b = pd.Series([1.0, -2.0, 3.0]), pd.Series([4.0, -1.0, 2.0])
    assert f(a, b)[0] == 10.0
    with pytest.raises(nt.UnsupportedOperationError, match="rows with different labels meet at"):
        f(a, -b)
    by_size = nt.value_and_grad(lambda a: np.sum(a[2:] * a[-2:]))
    assert by_size(COUNTED)[0] == 65.0
    with pytest.raises(nt.UnsupportedOperationError, match="rows with different labels meet at"):
        nt.grad(lambda a: np.sum(a[2:4] * a[-2:]))(pd.Series(np.arange(5.0)))
    mixed = nt.value_and_grad(lambda a: np.sum(a[2:4] * a[-2:]))
    assert mixed(COUNTED)[0] == 65.0
    with pytest.raises(nt.UnsupportedOperationError, match="rows with different labels meet at"):
        mixed(pd.Series(np.arange(5.0)))


@pytest.mark.parametrize(
    "use",
    [
        lambda s: (2 * s).sum() + s.mean() + np.max(s) * s.min() + s.prod(),
        lambda s: s.var(ddof=1) * np.mean(s**2) + (s.argmax() > 1) * s.iloc[-1],
        lambda s: s.cumsum().sum() + s.cumprod().iloc[-1] + s.sum(skipna=True),
    ],
)
def test_reductions_of_series_skip_missing_entries(use):
    gradient = nt.value_and_grad(use)
    for last in (4.0, np.nan):
        s = pd.Series([3.0, last, 1.0, 5.0])
        value, slope = gradient(s)
        assert value == pytest.approx(use(s), rel=1e-14)
        kept = nt.grad(use)(s.dropna().reset_index(drop=True))
        np.testing.assert_allclose(slope[s.notna()], kept)
        assert (slope[s.isna()] == 0.0).all()
    assert np.isnan(nt.value_and_grad(lambda s: s.sum(skipna=False))(s)[0])
    assert np.isnan(nt.value_and_grad(lambda s: s.to_numpy().sum())(s)[0])


def test_captured_series_are_aligned_with_what_is_computed_of_an_argument():
    known = pd.Series([1.0, 10.0, 100.0], list("cab"))
    a = pd.Series([1.0, 2.0, 4.0], list("abc"))
    f = lambda a: (known * (2 * a)).sum() + (known * a[1:]).sum()  # noqa: E731
    assert nt.value_and_grad(f)(a)[0] == f(a)
