"""Loading a model file: signature, data, hashes, tracebacks."""

import hashlib
import json
import sys

import numpy as np
import pytest

import numbatape as nt
from numbatape.logdensity.exits import InputError, ModelError, running_model
from numbatape.logdensity.jsonfile import to_arrays
from numbatape.logdensity.models import import_path, load_model


def write(path, text):
    path.write_text(text)
    return str(path)


def test_hashes_are_those_of_the_files(tmp_path):
    text = "def logp(theta, data): return 0.0\n"
    model_file = write(tmp_path / "m.py", text)
    data_file = write(tmp_path / "d.json", '{"y": [1, 2]}')
    model = load_model(model_file, data_file)
    assert model.label == "m.py:logp"
    assert model.sha256 == hashlib.sha256(text.encode()).hexdigest()
    assert model.data_sha256 == hashlib.sha256(b'{"y": [1, 2]}').hexdigest()
    np.testing.assert_array_equal(model.arguments[0]["y"], [1, 2])


def test_data_in_the_model_is_hashed_by_content(tmp_path):
    def digest(data):
        text = f"import numpy as np\ndata = {data}\ndef logp(theta, data): return 0.0\n"
        return load_model(write(tmp_path / "m.py", text), None).data_sha256

    assert digest("{'y': np.arange(3), 'n': 3}") == digest("{'n': 3, 'y': np.arange(3)}")
    assert digest("{'y': np.arange(3)}") != digest("{'y': np.arange(3.0)}")
    assert digest("[[1], 'a']") != digest("[[1], 'b']")


@pytest.mark.parametrize(
    "signature, with_data, arguments",
    [
        ("theta, data", True, 1),
        ("theta, data", False, 1),  # data=None
        ("theta", False, 0),
        ("theta, data=7", False, 0),
        ("theta, data=7", True, 1),
        ("theta, *rest", True, 1),
        ("theta, *, scale=2", False, 0),
    ],
)
def test_how_the_data_is_passed(tmp_path, signature, with_data, arguments):
    data = write(tmp_path / "d.json", "{}") if with_data else None
    model = load_model(write(tmp_path / "m.py", f"def logp({signature}): return 0.0"), data)
    assert len(model.arguments) == arguments
    if arguments and not with_data:
        assert model.arguments == (None,)


@pytest.mark.parametrize(
    "text, message",
    [
        ("def lp(theta): return 0", r"no function `logp` \(functions there: lp\)"),
        ("logp = 3", "no function `logp`"),
        ("def logp(): return 0", r"must take \(theta\) or \(theta, data\)"),
        ("def logp(a, b, c): return 0", r"must take \(theta\) or \(theta, data\)"),
        ("def logp(theta): return 0", "takes no data, but --data was given"),
    ],
)
def test_model_files_that_do_not_fit(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        load_model(write(tmp_path / "m.py", text), write(tmp_path / "d.json", "{}"))


@pytest.mark.parametrize(
    "text, message",
    [
        ("def logp(theta:\n", "SyntaxError"),
        ("import sys\nsys.exit(3)", "SystemExit: 3"),
        ("names = 'mu'\ndef logp(t): return 0", "must be a list of strings"),
        ("names = ['mu', 'mu']\ndef logp(t): return 0", "has mu more than once"),
        ("unconstrain = 3\ndef logp(t): return 0", "is not a function"),
    ],
)
def test_model_files_that_fail(tmp_path, text, message):
    with pytest.raises(ModelError, match=message):
        load_model(write(tmp_path / "m.py", text), None)


def test_traceback_is_short(tmp_path):
    text = "def deeper(n):\n    return deeper(n - 1) if n else 1 / 0\n\ndeeper(30)\n"
    with pytest.raises(ModelError) as error:
        load_model(write(tmp_path / "m.py", text), None)
    lines = str(error.value).splitlines()
    assert len(lines) < 25
    assert lines[-1] == "ZeroDivisionError: division by zero"
    assert "outer frames" in str(error.value) and "logdensity" not in str(error.value)


def test_traceback_of_text_among_the_data_ends_with_the_line_of_the_model(tmp_path):
    lines = "def logp(theta, data):\n    y = np.asarray(data['y'])\n    return -np.sum((y - theta[0]) ** 2)\n"
    file, data = write(tmp_path / "m.py", "import numpy as np\n" + lines), tmp_path / "data.json"
    data.write_text('{"y": ["a", "b"]}')
    model = load_model(file, str(data))
    with pytest.raises(ModelError) as error, running_model("tracing"):
        nt.grad(lambda theta: model.logp(theta, *model.arguments))(np.ones(1))
    assert "in logp" in str(error.value) and "numpy_api" not in str(error.value)


def test_another_function_and_missing_files(tmp_path):
    file = write(tmp_path / "m.py", "def other(theta): return 0.0")
    assert load_model(file + ":other", None).label == "m.py:other"
    for model, data in [("nowhere.py", None), (file + ":other", "nowhere.json")]:
        with pytest.raises(InputError, match="nowhere"):
            load_model(model, data)


def test_neighbours_can_be_imported_meanwhile(tmp_path):
    write(tmp_path / "my_helper_of_the_model.py", "HALF = 0.5")
    file = write(tmp_path / "m.py", "from my_helper_of_the_model import HALF\ndef logp(t): return HALF")
    with import_path(file):
        assert load_model(file, None).logp(None) == 0.5
    assert str(tmp_path) not in sys.path


def test_json_becomes_arrays():
    text = '{"n": 3, "s": 0.5, "y": [1, 2], "z": [1, 2.5], "m": [[1, 2], [3, 4]], "b": [true], "e": [],'
    text += '"ragged": [[1], [2, 3]], "text": ["a"], "nested": {"x": [1.5]}, "none": null}'
    data = to_arrays(json.loads(text))
    assert (data["n"], data["s"], data["none"], data["text"]) == (3, 0.5, None, ["a"])
    kinds = {name: value.dtype.kind for name, value in data.items() if hasattr(value, "dtype")}
    assert kinds == {"y": "i", "z": "f", "m": "i", "b": "b", "e": "f"}
    assert data["m"].shape == (2, 2)
    assert [list(row) for row in data["ragged"]] == [[1], [2, 3]]
    assert data["nested"]["x"].dtype == np.float64
