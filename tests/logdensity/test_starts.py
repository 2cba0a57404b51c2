"""A model that cannot start where it is told to: the term, its line and its parameters are named."""

import numpy as np
import pytest

from numbatape.logdensity.exits import InputError, ModelError
from numbatape.logdensity.models import load_model
from numbatape.logdensity.starts import require_finite, starts_of

MODEL = """\
import numpy as np
names, start = ["a", "s"], [1.0, -1.0]
data = {"y": np.array([1.0, 2.0])}
def logarithm(theta):
    a, s = theta
    return -0.5 * a**2 + np.log(s)
def later(theta):
    z = np.arange(3.0) / (theta[1] + 1)
    return -0.5 * np.sum(z**2) + np.exp(-theta[0] / (theta[1] + 1))
def branch(theta):
    if theta[1] < 0.5:
        return -np.inf
    return np.sum(theta)
def chosen(theta):
    harmless = np.exp(np.log(theta[0] - 1.0))
    return harmless + np.where(theta[1] > 0, 0.0, -np.inf)
def always(theta):
    return -np.inf
def overflow(theta, data):
    return theta[0] + np.sum(data["y"] / 0.0)
def slope(theta):
    return theta[0] - np.sqrt(theta[1] + 1)
def singular(theta):
    return np.linalg.cholesky(np.array([[theta[1]]]))[0, 0]
"""


@pytest.fixture
def model(tmp_path):
    (tmp_path / "model.py").write_text(MODEL)

    def load(name):
        return load_model(f"{tmp_path / 'model.py'}:{name}", None)

    return load


@pytest.mark.parametrize(
    "name, parts",
    [
        ("logarithm", ["log is nan", "model.py:6 in logarithm", "+ np.log(s)", "depends on s = -1\n"]),
        ("later", ["model.py:8 in later", "np.arange(3.0) / (theta[1] + 1)", "depends on s = -1\n"]),
        ("branch", ["is -inf", "returned from a branch, at", "model.py:11", "depends on s = -1\n"]),
        ("chosen", ["where is -inf", "model.py:16", "depends on s = -1\n"]),
        ("always", ["the function returns it whatever its argument"]),
        ("slope", ["the gradient is not finite at the starting point, in s (-inf)"]),
        ("singular", ["the log-density at the starting point failed", "LinAlgError", "in singular"]),
    ],
)
def test_what_is_not_finite_is_named(model, name, parts):
    bad = model(name)
    with pytest.raises(ModelError) as error:
        require_finite(bad, bad.parameters.start)
    for part in parts:
        assert part in str(error.value)


def test_the_message_ends_with_what_to_do(model):
    with pytest.raises(ModelError, match="give another `start` in the model, or --init"):
        require_finite(model("logarithm"), np.array([0.0, -2.0]))


def test_starting_points(model, tmp_path):
    good = model("slope")
    (points,), radius, text = starts_of(good, None)
    assert points.tolist() == [1.0, -1.0] and radius == 1.0 and text == "default"
    assert starts_of(good, "0.5")[1:] == (0.5, "0.5")
    (tmp_path / "points.csv").write_text("s,a\n1,2\n3,4\n")
    points, radius, text = starts_of(good, str(tmp_path / "points.csv"))
    assert points.tolist() == [[2.0, 1.0], [4.0, 3.0]] and radius == 0.0 and len(text) == 64
    (tmp_path / "points.csv").write_text("s,a\n1,nan\n")
    for init, message in (("-1", "must be finite"), (str(tmp_path / "points.csv"), "not finite")):
        with pytest.raises(InputError, match=message):
            starts_of(good, init)


def test_integers_in_a_start_are_said_to_be_data(tmp_path, capsys):
    path = tmp_path / "mixed.py"
    path.write_text("start = {'mu': 0, 'tau': 1.0}\ndef logp(p): return -(p['tau'] - p['mu']) ** 2\n")
    starts, _, _ = starts_of(load_model(str(path), None), None)
    assert starts.shape == (1, 1) and "integers there: `mu`" in capsys.readouterr().err
    path.write_text(path.read_text().replace("0,", "0.0,"))
    starts_of(load_model(str(path), None), None)
    assert capsys.readouterr().err == ""


def test_an_error_about_a_start_has_frames_of_the_model_alone(tmp_path):
    path = tmp_path / "outside.py"
    text = "from numbatape import transforms\nstart, constraints = {'s': -1.0}, transforms.positive\n"
    path.write_text(text + "def logp(p): return -p['s']\n")
    with pytest.raises(ModelError, match=r"failed\nnumbatape.errors.SpecError: s: transforms.positive needs"):
        load_model(str(path), None)
