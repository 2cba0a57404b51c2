"""Readers of draws, and the matching of columns."""

import json
import zipfile

import numpy as np
import pytest

from numbatape.logdensity.columns import match_columns, thetas_of
from numbatape.logdensity.draws import Draws, read_draws
from numbatape.logdensity.exits import InputError, ModelError
from numbatape.logdensity.models import load_model

CMDSTAN = """\
# stan_version_major = 2
# method = sample (Default)
lp__,accept_stat__,mu,theta.1,theta.2
# Adaptation terminated
# Step size = 0.4
-7.5,0.99,1.25,2e-3,-3
-8.5,1,nan,-inf,+4.

#
#  Elapsed Time: 0.01 seconds (Warm-up)
"""


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def draws_of(names, values):
    return Draws("draws.csv", tuple(names), np.array(values, dtype=float, ndmin=2), "")


def test_cmdstan_csv(tmp_path):
    draws = read_draws(write(tmp_path / "a.csv", CMDSTAN))
    assert draws.names == ("lp__", "accept_stat__", "mu", "theta.1", "theta.2")
    expected = [[-7.5, 0.99, 1.25, 2e-3, -3], [-8.5, 1, np.nan, -np.inf, 4]]
    np.testing.assert_array_equal(draws.values, expected)


@pytest.mark.parametrize(
    "text",
    [
        "mu,tau\n1,2\n3,4\n",
        "\ufeffmu,tau\r\n1,2\r\n3,4\r\n",
        "# made by hand\n mu , tau\n1, 2\n\n3,4",
        '"","mu","tau"\n"1",1,2\n"2",3,4\n',
        ",mu,tau\n0,1,2\n1,3,4\n",
        '"mu","tau"\n"1","2"\n3,4\n',
    ],
    ids=["plain", "bom-crlf", "comment-spaces", "R", "pandas", "quoted"],
)
def test_plain_csv(tmp_path, text):
    draws = read_draws(write(tmp_path / "a.csv", text))
    assert draws.names == ("mu", "tau")
    np.testing.assert_array_equal(draws.values, [[1, 2], [3, 4]])


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "empty, expected a header"),
        ("# only\n# comments\n", "empty, expected a header"),
        ("mu,tau\n", "holds no draws"),
        ("mu,tau\n1,2\n# note\n3,x4\n", r"line 4, column 2 \(tau\): `x4` is not a number"),
        ("mu,tau\n1,2\n3\n", r"line 3, column 2 \(tau\): the line ends after 1 of 2 values"),
        ("mu,tau\n1,2\n3,\n", r"line 3, column 2 \(tau\): no value"),
        ("mu,tau\n1,2,3\n4,5,6\n", "line 2, column 3: 3 values under 2 column names"),
        ("mu,tau,mu\n1,2,3\n", "line 1, column 3: duplicate column mu"),
        ("1,2\n3,4\n", "line 1, column 1: expected a header of names, found the number 1"),
        ("mu,,tau\n1,2,3\n", "line 1, column 2: empty column name"),
        ("mu,tau\n1_0,2\n", r"line 2, column 1 \(mu\): `1_0` is not a number"),
        (b"mu,tau\n1,\xff\n", "line 2, character 3: not UTF-8 text"),
        ('mu,tau\n1,"2\n', "line 2: "),
    ],
)
def test_malformed_csv_names_file_line_and_column(tmp_path, text, message):
    file = write(tmp_path / "bad.csv", text)
    with pytest.raises(InputError, match=message) as error:
        read_draws(file)
    assert str(error.value).startswith(file)


def test_numpy_files(tmp_path):
    matrix = np.arange(6).reshape(3, 2)
    np.save(tmp_path / "a.npy", matrix.astype(np.float32))
    np.savez(tmp_path / "b.npz", draws=matrix, names=["mu", "tau"], other=np.zeros(7))
    np.savez(tmp_path / "c.npz", mu=[1.0, 2.0], theta=np.arange(8).reshape(2, 2, 2))
    a, b, c = (read_draws(str(tmp_path / name)) for name in ("a.npy", "b.npz", "c.npz"))
    assert a.names is None and b.names == ("mu", "tau")
    assert a.values.dtype == np.float64
    np.testing.assert_array_equal(a.values, matrix)
    np.testing.assert_array_equal(b.values, matrix)
    assert c.names == ("mu", "theta[0,0]", "theta[0,1]", "theta[1,0]", "theta[1,1]")
    np.testing.assert_array_equal(c.values, [[1, 0, 1, 2, 3], [2, 4, 5, 6, 7]])


@pytest.mark.parametrize(
    "array, message",
    [
        (np.zeros(3), r"expected a matrix \(draws, parameters\), got shape \(3,\)"),
        (np.zeros((2, 2), dtype=complex), "expected real numbers, got dtype complex128"),
        (np.zeros((0, 2)), "holds no draws"),
        (np.array([["a"]], dtype=object), "not a NumPy file"),
    ],
)
def test_unsuitable_arrays(tmp_path, array, message):
    np.save(tmp_path / "a.npy", array, allow_pickle=True)
    with pytest.raises(InputError, match=message):
        read_draws(str(tmp_path / "a.npy"))


def test_damaged_and_unknown_files(tmp_path):
    for name, content, message in [
        ("a.npy", b"not numpy", "not a NumPy file"),
        ("a.npz", b"PK\x03\x04 cut", "not a NumPy file"),
        ("a.json", '[\n{"mu": [1, }]', "line 2, column 12: Expecting value"),
        ("a.json.zip", b"PK\x03\x04 cut", "damaged zip archive"),
        ("a.parquet", b"", "draws are read from .csv, .json"),
    ]:
        with pytest.raises(InputError, match=message):
            read_draws(write(tmp_path / name, content))
    with pytest.raises(InputError) as damaged:
        read_draws(write(tmp_path / "a.npy", b"not numpy"))
    assert "pickle" not in str(damaged.value)  # NumPy's advice for what is no file of its own
    with pytest.raises(InputError, match=r"holds no draws\.nc"):
        read_draws(str(tmp_path))
    with pytest.raises(InputError, match="No such file"):
        read_draws(str(tmp_path / "missing.csv"))


def test_posteriordb_json(tmp_path):
    chains = [{"mu": [1, 2.5], "theta[1]": [3, 4]}, {"theta[1]": [7, 8], "mu": [5, float("nan")]}]
    with zipfile.ZipFile(tmp_path / "a.json.zip", "w") as archive:
        archive.writestr("a.json", json.dumps(chains))
    draws = read_draws(str(tmp_path / "a.json.zip"))
    assert draws.names == ("mu", "theta[1]")
    np.testing.assert_array_equal(draws.values, [[1, 3], [2.5, 4], [5, 7], [np.nan, 8]])
    plain = read_draws(write(tmp_path / "a.json", json.dumps(chains)))
    np.testing.assert_array_equal(plain.values, draws.values)


@pytest.mark.parametrize(
    "chains, message",
    [
        ([{"a": [1]}, {"b": [1]}], "chain 2 and chain 1 differ in the columns a, b"),
        ([{"a": [1], "b": [1, 2]}], "chain 1 has columns of different lengths"),
        ([{"a": [1, None]}], "chain 1, column a, draw 2: None is not a number"),
        ([{"a": 1}], "chain 1, column a: expected a list of numbers"),
        ([1, 2], "expected a list of chains"),
        ([], "expected a list of chains"),
    ],
)
def test_unsuitable_json(tmp_path, chains, message):
    with pytest.raises(InputError, match=message):
        read_draws(write(tmp_path / "a.json", json.dumps(chains)))


@pytest.mark.parametrize(
    "columns",
    [
        ["mu", "theta[1]", "theta[2]"],
        ["mu", "theta.1", "theta.2"],
        ["mu", "theta[0]", "theta[1]"],
        ["mu", "theta.0", "theta.1"],
    ],
)
@pytest.mark.parametrize(
    "names",
    [["theta[1]", "theta[2]", "mu"], ["theta[0]", "theta[1]", "mu"], ["theta.1", "theta.2", "mu"]],
)
def test_spellings_of_one_column(names, columns):
    assert match_columns(names, draws_of(["lp__", *columns], np.zeros(4))) == [2, 3, 1]


def test_matrix_columns_are_spelled_three_ways():
    names = ["L[0,0]", "L[0,1]", "L[1,0]", "L[1,1]"]
    for columns in (["L.1.1", "L.1.2", "L.2.1", "L.2.2"], ["L[1][1]", "L[1][2]", "L[2][1]", "L[2][2]"]):
        assert match_columns(names, draws_of(columns[::-1], np.zeros(4))) == [3, 2, 1, 0]


def test_part_of_an_array():
    columns = draws_of(["theta[1]", "theta[2]", "theta[3]"], np.zeros(3))
    assert match_columns(["theta.2", "theta.3"], columns) == [1, 2]
    assert match_columns(["theta[0]", "theta[2]"], columns) == [0, 2]


@pytest.mark.parametrize(
    "names, columns, message",
    [
        (["mu", "tau"], ["mu", "tau_"], r"missing column tau \(did you mean tau_\?\); the file has mu, tau_"),
        (["x[1]", "x[2]"], ["x.1"], r"missing column x\[2\]"),
        (["x[1]"], ["x.1", "x[1]"], r"duplicate column: x\.1 and x\[1\] are the same"),
        (["x[1]", "x[2]"], ["x[0]", "x[1]", "x[2]"], "cannot tell whether x counts from 0 or from 1"),
        (["x"], ["x[1]"], "missing column x"),
    ],
)
def test_columns_that_do_not_match(names, columns, message):
    with pytest.raises(InputError, match=message):
        match_columns(names, draws_of(columns, np.zeros(len(columns))))


def test_columns_without_names(tmp_path):
    bare = Draws("a.npy", None, np.zeros((2, 3)), "")
    assert match_columns(["a", "b", "c"], bare) == [0, 1, 2]
    with pytest.raises(InputError, match="3 columns without names, but the model has 2 parameters"):
        match_columns(["a", "b"], bare)


HEAD = "import numpy as np\ndef logp(t): return 0.0\n"


def model_of(tmp_path, text):
    return load_model(
        write(tmp_path / "model.py", "import numpy as np\ndef logp(t): return 0.0\n" + text), None
    )


def test_model_without_names_takes_the_parameters_in_order(tmp_path):
    draws = draws_of(["lp__", "b", "a"], [[9, 1, 2]])
    np.testing.assert_array_equal(thetas_of(model_of(tmp_path, ""), draws), [[1, 2]])
    with pytest.raises(InputError, match="no column of a parameter"):
        thetas_of(model_of(tmp_path, ""), draws_of(["lp__"], [[9]]))


UNCONSTRAIN = "def unconstrain(draw): return np.array([draw['x[1]'], np.log(draw['tau'])])\n"


@pytest.mark.parametrize("spelling", ["x[1]", "x.1"])
def test_unconstrain(tmp_path, spelling):
    draws = draws_of([spelling, "tau", "unused"], [[1, 1, 0], [2, np.nan, 0], [3, 1, np.nan]])
    thetas = thetas_of(model_of(tmp_path, UNCONSTRAIN), draws)
    np.testing.assert_array_equal(thetas, [[1, 0], [2, np.nan], [3, 0]])


def test_unconstrain_may_fail_on_draws_that_are_not_finite(tmp_path):
    model = model_of(tmp_path, "import math\ndef unconstrain(draw): return [math.sqrt(-int(draw['a']))]\n")
    thetas = thetas_of(model, draws_of(["a"], [[-4], [np.nan], [np.inf]]))
    np.testing.assert_array_equal(thetas, [[2], [np.nan], [np.nan]])
    with pytest.raises(ModelError, match="unconstrain at draw 1 failed"):
        thetas_of(model, draws_of(["a"], [[-4], [4]]))


@pytest.mark.parametrize(
    "text, error, message",
    [
        ("def unconstrain(d): return [d['b']]", InputError, r"draws.csv: missing column b"),
        ("def unconstrain(d): return 1.0", ModelError, r"returned shape \(\), expected a vector"),
        (
            "def unconstrain(d): return [1] * int(d['a'])",
            ModelError,
            r"shape \(2,\) at draw 1, \(1,\) before",
        ),
        ("names = ['p', 'q']\ndef unconstrain(d): return [1]", ModelError, "`names` has 2"),
        ("def unconstrain(d): return 1 / 0", ModelError, "ZeroDivisionError"),
    ],
)
def test_unconstrain_that_fails(tmp_path, text, error, message):
    with pytest.raises(error, match=message):
        thetas_of(model_of(tmp_path, text), draws_of(["a"], [[1], [2]]))


def test_unconstrain_needs_names(tmp_path):
    with pytest.raises(InputError, match="needs column names"):
        thetas_of(model_of(tmp_path, UNCONSTRAIN), Draws("a.npy", None, np.zeros((1, 2)), ""))


def test_arviz_files_are_read_chain_after_chain(tmp_path):
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    rng = np.random.default_rng(0)
    mu, x = rng.normal(size=(2, 5)), rng.normal(size=(2, 5, 3))
    posterior = xarray.Dataset(
        {"mu": (("chain", "draw"), mu), "x": (("draw", "chain", "k"), x.swapaxes(0, 1))}
    )
    xarray.DataTree.from_dict({"posterior": posterior}).to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    draws = read_draws(str(tmp_path / "a.nc"))
    assert draws.names == ("mu", "x[0]", "x[1]", "x[2]") and draws.chains == 2 and draws.theta is None
    np.testing.assert_array_equal(draws.values, np.hstack([mu.reshape(-1, 1), x.reshape(-1, 3)]))
    both = read_draws(str(tmp_path / "a.nc"), str(tmp_path / "a.nc"))
    assert both.chains == 4 and len(both.values) == 20
    xarray.DataTree.from_dict({"prior": posterior}).to_netcdf(tmp_path / "b.nc", engine="h5netcdf")
    (tmp_path / "c.nc").write_text("not netCDF")
    for name, message in (("b.nc", "no group `posterior`"), ("c.nc", "c.nc"), ("d.nc", "no such file")):
        with pytest.raises(InputError, match=message):
            read_draws(str(tmp_path / name))
