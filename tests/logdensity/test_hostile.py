"""Files and models that are odd, or hostile: exit code 2 and one line, or the right numbers."""

import gzip
import json
import os
import subprocess
import sys

import numpy as np
import pytest

import numbatape
from numbatape.logdensity import cli
from numbatape.logdensity.cli import main
from numbatape.logdensity.journal import DAMAGED

MODEL = """\
import numpy as np

def logp(theta, data):
    return -0.5 * np.sum(theta**2) * data["n"]

data = {"n": 2.0}
"""
DRAWS = "a,b\n1.0,2.0\n3.0,4.0\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a model and draws, which is the working directory."""
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "draws.csv").write_text(DRAWS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*argv):
    return main(["logp", "model.py", "--out", "out.npz", *argv])


def result(path="out.npz"):
    with np.load(path) as file:
        return file["logp"], file["grad"]


def one_line(capsys, text):
    """The one line on stderr, which holds a text."""
    (line,) = capsys.readouterr().err.splitlines()
    assert text in line
    return line


def test_a_model_that_changes_the_directory(folder, capsys):
    (folder / "elsewhere").mkdir()
    text = "import os\n" + MODEL + "\nos.chdir('elsewhere')\n"
    text += "\ndef moving(theta, data):\n    os.chdir('/')\n    return logp(theta, data)\n"
    (folder / "model.py").write_text(text)
    (folder / "data.json").write_text('{"n": 4.0}')
    for model in ("model.py", "model.py:moving"):
        os.chdir(folder)
        argv = ["logp", model, "--draws", "draws.csv", "--data", "data.json", "--out", "out.npz", "--resume"]
        assert main(argv) == 0
        np.testing.assert_array_equal(result(folder / "out.npz")[0], [-10.0, -50.0])
        os.remove(folder / "out.npz")
    os.chdir(folder)
    assert main(["check", "model.py", "--draws", "draws.csv", "--data", "data.json"]) == 0
    assert os.listdir(folder / "elsewhere") == []


DEEP = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize(
    "text, message",
    [
        (DEEP.encode(), "nested too deeply"),
        (b'{"n": ' + b"9" * 5000 + b"}", "digits"),
        (b"\xff\xfe{}", "not UTF-8"),
    ],
)
def test_odd_data(folder, capsys, text, message):
    (folder / "data.json").write_bytes(text)
    assert run("--draws", "draws.csv", "--data", "data.json") == 2
    one_line(capsys, message)


@pytest.mark.parametrize("text", [DEEP, '[{"a": [1' + "0" * 400 + "]}]"])
def test_odd_draws(folder, capsys, text):
    (folder / "draws.json").write_text(text)
    assert run("--draws", "draws.json") == 2
    one_line(capsys, "draws.json: ")


@pytest.mark.parametrize(
    "manifest",
    [b"\xff\xfe\n", b"[]\n", b"3\n", b"null\n", DEEP.encode() + b"\n", b"{}\n[]\n", b'{}\n{"start": "a"}\n',
     b'{}\n{"start": -1, "stop": 3, "sha256": ""}\n', b"\0\n"],
)  # fmt: skip
def test_a_damaged_manifest(folder, capsys, manifest):
    (folder / "out.npz.parts").mkdir()
    (folder / "out.npz.parts" / "manifest.jsonl").write_bytes(manifest)
    assert run("--draws", "draws.csv", "--resume") == 2
    one_line(capsys, DAMAGED)
    assert not (folder / "out.npz").exists()


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_during_imports(folder, capsys, monkeypatch):
    def interrupted(name):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli.importlib, "import_module", interrupted)
    assert run("--draws", "draws.csv") == 130
    one_line(capsys, "interrupted")
    monkeypatch.undo()
    os.chdir(folder)
    (folder / "model.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n" + MODEL)
    assert run("--draws", "draws.csv") == 130
    one_line(capsys, "interrupted")


@pytest.mark.parametrize("closing", ["sys.stdout.close()", "os.close(1)"])
def test_a_model_that_closes_its_output(folder, closing):
    (folder / "model.py").write_text(f"import os, sys\n{closing}\n" + MODEL)
    command = [sys.executable, "-m", "numbatape", "logp", "model.py"]
    command += ["--draws", "draws.csv", "--out", "out.npz"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 2 and done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert "standard output" in line
    np.testing.assert_array_equal(result()[0], [-5.0, -25.0])


@pytest.mark.skipif(sys.platform == "win32", reason="its pipes report other errors")
@pytest.mark.parametrize(
    "words",
    [["info"], ["info", "--json"], ["--help"], ["logp", "loud.py", "--draws", "draws.csv", "--out", "o.npz"]],
)
def test_a_reader_that_wants_no_more(folder, words):
    """As ``numbatape info | head -1``: no message, and the exit code of a program that SIGPIPE ends."""
    (folder / "loud.py").write_text(MODEL + "print('x' * 1_000_000)\n")
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "numbatape", *words]
    try:
        done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, timeout=300, check=False)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"numbatape {numbatape.__version__}\n"


# ---- several files, and compressed ones


def test_one_file_a_chain(folder, capsys):
    (folder / "second.csv").write_text("b,a\n6.0,5.0\n")
    assert run("--draws", "draws.csv", "second.csv") == 0
    assert "3 draws from draws.csv and 1 more" in capsys.readouterr().out
    logp, grad = result()
    np.testing.assert_array_equal(logp, [-5.0, -25.0, -61.0])
    np.testing.assert_array_equal(grad[2], [-10.0, -12.0])
    assert run("--draws", "draws.csv", "--draws", "second.csv") == 0
    np.testing.assert_array_equal(result()[0], logp)
    assert main(["check", "model.py", "--draws", "draws.csv", "second.csv", "--points", "3"]) == 0
    assert main(["logp", "--out", "out.npz", "--draws", "draws.csv", "second.csv", "model.py"]) == 0
    assert main(["logp", "--out", "out.npz", "--draws", "draws.csv", "second.csv"]) == 2
    assert main(["logp", "--out", "out.npz", "--draws", "model.py"]) == 2
    (folder / "third.csv").write_text("a,c\n6.0,5.0\n")
    capsys.readouterr()
    assert run("--draws", "draws.csv", "third.csv") == 2
    one_line(capsys, "draws.csv and third.csv differ in the columns b, c")
    np.save("bare.npy", np.ones((2, 2)))
    assert run("--draws", "draws.csv", "bare.npy") == 2
    one_line(capsys, "draws.csv names its columns, bare.npy does not")
    np.save("wide.npy", np.ones((2, 3)))
    assert run("--draws", "bare.npy", "wide.npy") == 2
    one_line(capsys, "wide.npy has 3 columns, bare.npy 2")


def test_resuming_asks_for_the_same_files(folder, capsys):
    (folder / "second.csv").write_text("a,b\n5.0,6.0\n")
    assert run("--draws", "draws.csv", "second.csv", "--resume") == 0
    capsys.readouterr()
    assert run("--draws", "draws.csv", "second.csv", "--resume", "--json") == 0
    assert json.loads(capsys.readouterr().out)["evaluated"] == 0
    assert run("--draws", "second.csv", "draws.csv", "--resume", "--json") == 0
    assert json.loads(capsys.readouterr().out)["evaluated"] == 3


def test_compressed_files(folder, capsys):
    (folder / "draws.csv.gz").write_bytes(gzip.compress(DRAWS.encode()))
    (folder / "data.json.gz").write_bytes(gzip.compress(b'{"n": 4.0}'))
    (folder / "draws.JSON.GZ").write_bytes(gzip.compress(b'[{"a": [1.0, 3.0], "b": [2.0, 4.0]}]'))
    for draws in ("draws.csv.gz", "draws.JSON.GZ"):
        assert run("--draws", draws, "--data", "data.json.gz") == 0
        np.testing.assert_array_equal(result()[0], [-10.0, -50.0])
    capsys.readouterr()
    (folder / "cut.csv.gz").write_bytes(gzip.compress(DRAWS.encode())[:-9])
    (folder / "not.csv.gz").write_text(DRAWS)
    for draws in ("cut.csv.gz", "not.csv.gz"):
        assert run("--draws", draws) == 2
        one_line(capsys, f"{draws}: not a whole gzip file")
    assert run("--draws", "draws.gz") == 2
    one_line(capsys, "draws are read from")


# ---- draws that are evaluated one by one


def test_draws_that_fail_are_the_models_business(folder, capsys):
    text = "import numpy as np\n\ndef logp(theta):\n    try:\n"
    text += "        np.linalg.cholesky(np.array([[theta[0], 0.5], [0.5, 1.0]]))\n"
    text += "    except np.linalg.LinAlgError:\n        return -1e10\n    return -np.sum(theta**2)\n"
    (folder / "model.py").write_text(text)
    matrix = np.random.default_rng(0).normal(size=(40, 2))
    np.save("draws.npy", matrix)
    assert run("--draws", "draws.npy", "--json") == 0
    assert json.loads(capsys.readouterr().out)["one_by_one"] == {}
    logp, grad = result()
    lost = matrix[:, 0] <= 0.25
    np.testing.assert_allclose(logp, np.where(lost, -1e10, -np.sum(matrix**2, axis=1)), rtol=1e-14)
    np.testing.assert_allclose(grad, np.where(lost[:, None], 0.0, -2 * matrix), rtol=1e-14)


def test_why_draws_are_evaluated_one_by_one(folder, capsys, monkeypatch):
    def batch(f):
        def call(*args):
            raise NotImplementedError("not in lanes\nand more")

        return call

    monkeypatch.setattr(numbatape, "batch", batch)
    assert run("--draws", "draws.csv") == 0
    said = capsys.readouterr().out
    assert "one draw at a time: 2 draws, because nt.batch raised NotImplementedError: not in lanes\n" in said
    assert run("--draws", "draws.csv", "--json") == 0
    assert json.loads(capsys.readouterr().out)["one_by_one"] == {"NotImplementedError: not in lanes": 2}
    assert main(["check", "model.py", "--draws", "draws.csv"]) == 0
    assert "one draw at a time" in capsys.readouterr().out


def test_an_interrupt_while_it_imports(monkeypatch, capsys):
    from numbatape.__main__ import run

    class Interrupted:
        def find_spec(self, name, path=None, target=None):
            if name == "numbatape.logdensity.cli":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "numbatape.logdensity.cli", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interrupted(), *sys.meta_path])
    assert run() == 2
    assert capsys.readouterr().err == "numbatape: interrupted\n"
