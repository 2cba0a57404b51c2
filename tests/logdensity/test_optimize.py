"""``numbatape optimize``: modes, standard errors, and what is no mode."""

import json

import numpy as np
import pytest

from numbatape.logdensity.cli import main

REGRESSION = """
import numpy as np
from numbatape import transforms

rng = np.random.default_rng(0)
X = rng.normal(size=(30, 2))
data = {"X": X, "y": X @ np.array([1.0, -2.0]) + 0.7 * rng.normal(size=30)}
start = {"beta": np.zeros(2), "sigma": 1.0}
constraints = {"sigma": transforms.positive}

def logp(p, data):
    r = (data["y"] - data["X"] @ p["beta"]) / p["sigma"]
    return -0.5 * np.sum(r**2) - r.size * np.log(p["sigma"])
"""

PLAIN = """
import numpy as np
names = ["x[2]", "log_s", "x[1]"]
start = [0.1, 0.2, 0.3]

def quadratic(theta):
    return -0.5 * (theta[0] - 1) ** 2 - 2 * (theta[1] + 1) ** 2 - (theta[2] - theta[0]) ** 2

def narrow(theta):
    x, y, z = theta
    return np.sum(np.log(theta)) - 5 * x - 7 * y - 9 * z

def choleskyed(theta):
    L = np.linalg.cholesky(np.diag(theta))
    return 2 * np.sum(np.log(np.diag(L))) - 5 * np.sum(theta)

def saddle(theta):
    return theta[0] ** 2 - theta[1] ** 2 - theta[2] ** 2

def boundary(theta):
    return -np.exp(theta[0]) - theta[1] ** 2 - theta[2] ** 2

def constrain(theta):
    return {"s": np.exp(theta[1]), "x": np.array([theta[2], theta[0]])}
"""


def run(capsys, *argv):
    code = main(["optimize", *map(str, argv), "--json"])
    return code, json.loads(capsys.readouterr().out)


def table(summary):
    return {row["name"]: (row["mode"], row["error"]) for row in summary["variables"]}


@pytest.fixture
def regression(tmp_path):
    (tmp_path / "model.py").write_text(REGRESSION)
    space = {}
    exec(REGRESSION, space)
    X, y = space["data"]["X"], space["data"]["y"]
    beta = np.linalg.lstsq(X, y)[0]
    variance = np.mean((y - X @ beta) ** 2)
    errors = np.sqrt(np.diag(np.linalg.inv(X.T @ X)) * variance)
    expected = {
        "beta[0]": (beta[0], errors[0]),
        "beta[1]": (beta[1], errors[1]),
        "sigma": (np.sqrt(variance), np.sqrt(variance / (2 * len(y)))),
    }
    return tmp_path / "model.py", expected


@pytest.mark.parametrize("method", ["both", "lbfgs", "trust"])
def test_mode_and_errors_of_a_regression(regression, capsys, method):
    model, expected = regression
    code, summary = run(capsys, model, "--method", method)
    assert code == 0, summary
    for name, pair in table(summary).items():
        np.testing.assert_allclose(pair, expected[name], rtol=1e-6)


def test_jacobians_move_the_mode(regression, capsys):
    model, expected = regression
    _, summary = run(capsys, model, "--jacobian")
    # The density of log(sigma) has a factor sigma more: n - 1 instead of n.
    np.testing.assert_allclose(table(summary)["sigma"][0], expected["sigma"][0] * np.sqrt(30 / 29), rtol=1e-8)


def test_the_mode_is_a_draw_and_a_start(regression, tmp_path, capsys):
    model, expected = regression
    code, summary = run(capsys, model, "--out", tmp_path / "mode.npz", "--starts", 2)
    assert code == 0 and len(summary["starts"]) == 2
    with np.load(tmp_path / "mode.npz") as file:
        assert file["names"].tolist() == list(expected) and file["draws"].shape == (1, 3)
        np.testing.assert_allclose(file["covariance"] @ -file["hessian"], np.eye(3), atol=1e-10)
        np.testing.assert_allclose(file["theta"][0, 2], np.log(file["draws"][0, 2]), rtol=1e-14)
    code, again = run(capsys, model, "--init", tmp_path / "mode.npz", "--method", "trust")
    assert code == 0 and again["iterations"] <= 1 and abs(again["logp"] - summary["logp"]) < 1e-9
    arguments = ["--draws", tmp_path / "mode.npz", "--out", tmp_path / "logp.npz"]
    assert main(["logp", str(model), *map(str, arguments)]) == 0


@pytest.fixture
def plain(tmp_path):
    (tmp_path / "model.py").write_text(PLAIN)
    return lambda name: f"{tmp_path / 'model.py'}:{name}"


def test_errors_of_what_theta_stands_for(plain, capsys):
    code, summary = run(capsys, plain("quadratic"))
    s, x0, x1 = (table(summary)[name] for name in ("s", "x[0]", "x[1]"))
    assert code == 0 and summary["theta"].keys() == {"x[2]", "log_s", "x[1]"}
    np.testing.assert_allclose(s, [np.exp(-1), np.exp(-1) / 2], rtol=1e-8)
    np.testing.assert_allclose([x1, x0], [[1, 1], [1, np.sqrt(1.5)]], rtol=1e-8)


@pytest.mark.parametrize("name, mode", [("narrow", [1 / 5, 1 / 7, 1 / 9]), ("choleskyed", [0.2, 0.2, 0.2])])
@pytest.mark.parametrize("method", ["both", "trust"])
def test_searches_step_back_from_where_the_model_has_no_value(plain, capsys, name, mode, method):
    code, summary = run(capsys, plain(name), "--method", method)
    assert code == 0
    np.testing.assert_allclose(list(summary["theta"].values()), mode, rtol=1e-6)


@pytest.mark.parametrize(
    "name, options, message",
    [
        ("saddle", ["--method", "trust"], "NOT A MODE"),
        ("boundary", [], "NOT A MODE: the log-density is flat along x[2]"),
        ("saddle", ["--method", "lbfgs", "--no-hessian"], "NOT FOUND"),
    ],
)
def test_what_is_no_mode(plain, capsys, name, options, message):
    assert main(["optimize", plain(name), *options]) == 1
    assert message in capsys.readouterr().out


def test_a_start_without_a_value_is_explained(plain, tmp_path, capsys):
    (tmp_path / "start.csv").write_text("log_s,x[1],x[2]\n-1,1,1\n")
    assert main(["optimize", plain("narrow"), "--init", str(tmp_path / "start.csv")]) == 1
    assert "log is nan" in capsys.readouterr().err
