"""Models that say how their parameters look: start, constraints, constrain."""

import json

import numpy as np
import pytest

from numbatape.logdensity.cli import main
from numbatape.logdensity.exits import ModelError
from numbatape.logdensity.models import load_model
from numbatape.logdensity.variables import grouped, variables_of

STRUCTURED = """
import numpy as np
from numbatape import transforms

start = {"mu": 0.5, "scale": np.array([1.0, 2.0])}
constraints = {"scale": transforms.positive}

def logp(p, data=None):
    return -0.5 * p["mu"] ** 2 - np.sum(p["scale"])
"""


def loaded(tmp_path, text):
    (tmp_path / "model.py").write_text(text)
    return load_model(str(tmp_path / "model.py"), None)


def test_a_structured_start_makes_a_density_of_theta(tmp_path):
    model = loaded(tmp_path, STRUCTURED)
    assert model.names == ("mu", "scale[0]", "scale[1]")
    np.testing.assert_allclose(model.parameters.start, [0.5, 0.0, np.log(2.0)], rtol=1e-15)
    theta = np.array([0.3, 0.1, -0.2])
    expected = -0.5 * 0.3**2 - np.sum(np.exp(theta[1:])) + np.sum(theta[1:])
    np.testing.assert_allclose(model.logp(theta), expected, rtol=1e-14)
    found = variables_of(model, np.array([[theta, theta + 1]]))
    assert {name: array.shape for name, array in found.items()} == {"mu": (1, 2), "scale": (1, 2, 2)}
    np.testing.assert_allclose(found["scale"][0, 1], np.exp(theta[1:] + 1), rtol=1e-15)


@pytest.mark.parametrize("columns", ["scale.1,mu,lp__,scale.2", "scale[0],mu,x,scale[1]"])
def test_draws_of_constrained_parameters_are_unconstrained(tmp_path, capsys, columns):
    loaded(tmp_path, STRUCTURED)
    (tmp_path / "draws.csv").write_text(f"{columns}\n2.0,0.1,9,3.0\n1.0,0.2,9,nan\n")
    arguments = ["logp", tmp_path / "model.py", "--draws", tmp_path / "draws.csv"]
    assert main([*map(str, arguments), "--out", str(tmp_path / "out.npz")]) == 0
    with np.load(tmp_path / "out.npz") as out:
        expected = -0.5 * 0.1**2 - 5.0 + np.log(2.0) + np.log(3.0)
        np.testing.assert_allclose(out["logp"], [expected, np.nan], rtol=1e-14)
        np.testing.assert_allclose(out["grad"][0], [-0.1, -1.0, -2.0], rtol=1e-14)
    (tmp_path / "draws.csv").write_text("scale.1,mu,scale.2\n-2.0,0.1,3.0\n")
    assert main([*map(str, arguments), "--out", str(tmp_path / "out.npz")]) == 2
    assert "draws.csv: scale:" in capsys.readouterr().err
    assert main(["check", str(tmp_path / "model.py"), "--points", "1"]) == 0


def test_constrain_makes_the_variables_of_a_plain_model(tmp_path):
    model = loaded(
        tmp_path,
        """
import numpy as np
names = ["log_s", "x[1]", "x[2]"]
start = [0.0, 1.0, 2.0]
data = {"k": 3.0}
def logp(theta, data):
    return -np.sum(theta**2)
def constrain(theta, data):
    return {"s": data["k"] * np.exp(theta[0]), "x": theta[1:]}
""",
    )
    assert model.parameters.start.tolist() == [0.0, 1.0, 2.0]
    thetas = np.arange(12.0).reshape(2, 2, 3)
    found = variables_of(model, thetas)
    np.testing.assert_array_equal(found["s"], 3.0 * np.exp(thetas[..., 0]))
    np.testing.assert_array_equal(found["x"], thetas[..., 1:])


@pytest.mark.parametrize(
    "names, shapes",
    [
        (["a", "x[0]", "x[1]"], {"a": (), "x": (2,)}),
        (["x[2]", "x[1]"], {"x": (2,)}),
        (["m[1,1]", "m[1,2]", "m[2,1]", "m[2,2]"], {"m": (2, 2)}),
        (["m[1,1]", "m[1,2]", "m[2,1]"], {"m[1,1]": (), "m[1,2]": (), "m[2,1]": ()}),
        (["x[5]", "x[6]"], {"x[5]": (), "x[6]": ()}),  # a part of an array
        (["x", "x[0]"], {"x": (), "x[0]": ()}),
    ],
)
def test_columns_become_arrays_where_they_fill_them(names, shapes):
    values = np.arange(2.0 * len(names)).reshape(1, 2, len(names))
    found = grouped(names, values)
    assert {name: array.shape[2:] for name, array in found.items()} == shapes
    by_column = {name: values[..., k] for k, name in enumerate(names)}
    for name, array in found.items():
        if array.ndim == 2:
            np.testing.assert_array_equal(array, by_column[name])
    single = grouped(names, values[0, 0])  # a point, in place of chains of draws
    assert {name: array.shape for name, array in single.items()} == shapes
    if names == ["x[2]", "x[1]"]:
        np.testing.assert_array_equal(found["x"], values[..., ::-1])


@pytest.mark.parametrize(
    "text, message",
    [
        ("constraints = None\nstart = {'a': 0.0}\nnames = ['a']", "the structure has the names"),
        ("from numbatape import transforms\nconstraints = transforms.positive", "need a `start`"),
        ("start = [0.0, 1.0]\nnames = ['a']", "`start` has 2 numbers, but `names` has 1"),
        ("from numbatape.transforms import positive as constraints\nstart = {'a': -1.0}", "unconstraining"),
        ("start = {'a': 0.0}\ndef unconstrain(draw): return draw", "which does the same"),
        ("constrain = 3", "`constrain` is not a function"),
    ],
)
def test_contradictions_are_named(tmp_path, text, message):
    with pytest.raises(ModelError, match=message):
        loaded(tmp_path, text + "\ndef logp(theta): return 0.0\n")


@pytest.mark.parametrize(
    "package, command",
    [("nutpie", ["sample"]), ("arviz", ["sample"]), ("xarray", ["sample"]), ("zarr", ["sample", "--zarr"])],
)
def test_a_missing_package_is_named(tmp_path, capsys, monkeypatch, package, command):
    from numbatape.logdensity import optional

    def package_of(name, needed_by, pip=None):
        if name == package:
            raise ModuleNotFoundError(f"{needed_by} needs the package {name}: pip install {pip or name}")

    monkeypatch.setattr(optional, "package", package_of)
    loaded(tmp_path, STRUCTURED)
    arguments = [*command, str(tmp_path / "model.py"), "--out", str(tmp_path / "run"), "--json"]
    assert main(arguments) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert f"needs the package {package}" in error and "pip install" in error
    assert not (tmp_path / "run").exists()
