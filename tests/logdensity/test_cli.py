"""The commands from end to end: outputs, summaries, exit codes, interruption."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import numbatape as nt
from numbatape.logdensity import evaluate, logp, parts, progress
from numbatape.logdensity.cli import main

EXAMPLES = Path(__file__).parents[2] / "examples"
SCHOOLS = str(EXAMPLES / "eight_schools.py")
SCHOOL_DRAWS = str(EXAMPLES / "eight_schools_draws.csv")

MODEL = """\
import numpy as np

def logp(theta, data):
    if theta[0] > 0:
        return -0.5 * np.sum(theta**2)
    return np.sum(theta) + 0 * data

def vector(theta, data):
    return -0.5 * theta**2

def rooted(theta, data):
    return np.sum(np.sqrt(theta))

def raising(theta, data):
    if theta[0] > 1:
        raise RuntimeError("no such place")
    return np.sum(theta)

def alone(theta):
    print("a word from the model")
    return np.sum(theta**3)

data = 1.0
"""


@pytest.fixture
def model(tmp_path):
    (tmp_path / "model.py").write_text(MODEL)
    return str(tmp_path / "model.py")


@pytest.fixture
def draws(tmp_path):
    """300 draws of a[1], a[2]; theta as a matrix and as a file."""
    matrix = np.random.default_rng(0).normal(size=(300, 2))
    write_draws(tmp_path / "draws.csv", matrix)
    return str(tmp_path / "draws.csv"), matrix


def write_draws(path, matrix):
    lines = ["a.1,a.2", *(",".join(map(repr, row)) for row in matrix.tolist())]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def run_json(capsys, *argv):
    code = main([*map(str, argv), "--json"])
    captured = capsys.readouterr()
    return code, json.loads(captured.out), captured.err


def expected(matrix):
    side = matrix[:, :1] > 0
    logp = np.where(side[:, 0], -0.5 * np.sum(matrix**2, axis=1), np.sum(matrix, axis=1))
    return logp, np.where(side, -matrix, 1.0)


def test_without_a_command_all_commands_are_listed(capsys):
    assert main([]) == 2
    assert "warmup" in capsys.readouterr().err


def test_the_main_job(tmp_path, capsys):
    out = tmp_path / "out.npz"
    assert main(["logp", SCHOOLS, "--draws", SCHOOL_DRAWS, "--out", str(out)]) == 0
    text = capsys.readouterr().out
    assert "10 parameters, 1000 draws" in text and f"wrote {out}" in text
    with np.load(out) as file:
        assert file["logp"].shape == (1000,) and file["grad"].shape == (1000, 10)
        assert len(file["model_sha256"].item()) == len(file["data_sha256"].item()) == 64
        assert file["version"].item()
    assert os.listdir(tmp_path) == ["out.npz"]


def test_one_of_a_kind_is_written_without_an_s(tmp_path, capsys):
    model, draws = tmp_path / "model.py", tmp_path / "draws.csv"
    model.write_text("def logp(theta):\n    return -theta[0] ** 2\n")
    draws.write_text("theta\n1.5\n")
    assert main(["logp", str(model), "--draws", str(draws), "--out", str(tmp_path / "out.npz")]) == 0
    assert "1 parameter, 1 draw from" in capsys.readouterr().out


@pytest.mark.parametrize("options", [[], ["--threads", 1], ["--threads", 3, "--chunk", 7]])
def test_a_model_that_branches_on_theta(tmp_path, capsys, model, draws, options):
    file, matrix = draws
    out = tmp_path / "out.npz"
    code, summary, _ = run_json(capsys, "logp", model, "--draws", file, "--out", out, *options)
    assert code == 0
    assert summary["draws"] == summary["evaluated"] == 300 and summary["parameters"] == 2
    assert summary["nonfinite"] == {"draw": 0, "logp": 0, "grad": 0, "rows": []}
    logp, grad = expected(matrix)
    with np.load(out) as result:
        np.testing.assert_allclose(result["logp"], logp, rtol=1e-13)
        np.testing.assert_allclose(result["grad"], grad, rtol=1e-13)
        assert result["names"].tolist() == ["a.1", "a.2"]


def test_csv_and_npz_hold_the_same(tmp_path, capsys, model, draws):
    for name in ("a.npz", "a.csv"):
        assert main(["logp", model, "--draws", draws[0], "--out", str(tmp_path / name)]) == 0
    lines = (tmp_path / "a.csv").read_text().splitlines()
    assert lines[0].startswith("# numbatape {") and lines[1] == "logp,grad_a.1,grad_a.2"
    table = np.loadtxt(lines[2:], delimiter=",")
    with np.load(tmp_path / "a.npz") as file:
        np.testing.assert_array_equal(table, np.column_stack([file["logp"], file["grad"]]))


def test_without_gradient_and_without_data(tmp_path, capsys, model, draws):
    out = tmp_path / "out.npz"
    code, summary, err = run_json(
        capsys, "logp", model + ":alone", "--draws", draws[0], "--out", out, "--no-grad"
    )
    assert code == 0 and summary["with_grad"] is False and summary["data_sha256"] == ""
    assert "a word from the model" in err  # and not inside the JSON
    with np.load(out) as file:
        assert "grad" not in file
        np.testing.assert_allclose(file["logp"], np.sum(draws[1] ** 3, axis=1), rtol=1e-13)


def test_rows_that_are_not_finite_are_reported(tmp_path, capsys, model):
    matrix = np.ones((6, 2))
    matrix[1, 0], matrix[2, 1], matrix[4, 1] = np.nan, -1, 0
    file = write_draws(tmp_path / "draws.csv", matrix)
    out = tmp_path / "out.npz"
    argv = ["logp", model + ":rooted", "--draws", file, "--out", str(out)]
    code, summary, _ = run_json(capsys, *argv)
    assert code == 0
    assert summary["nonfinite"] == {"draw": 1, "logp": 1, "grad": 1, "rows": [1, 2, 4]}
    with np.load(out) as result:
        np.testing.assert_array_equal(np.isfinite(result["logp"]), [1, 0, 0, 1, 1, 1])
        np.testing.assert_array_equal(np.isfinite(result["grad"]).all(axis=1), [1, 0, 0, 1, 0, 1])
    assert main(argv) == 0
    assert (
        "not finite: 1 in the draw; 1 in the logp; 1 in the grad (draws 1, 2, 4)" in capsys.readouterr().out
    )


def test_no_draw_is_finite(tmp_path, capsys, model):
    file = write_draws(tmp_path / "draws.csv", np.full((2, 2), np.nan))
    code, summary, _ = run_json(capsys, "logp", model, "--draws", file, "--out", tmp_path / "out.npz")
    assert code == 0 and summary["logp"] is None and summary["nonfinite"]["draw"] == 2


@pytest.mark.parametrize(
    "name, message",
    [
        ("vector", "model.py:vector: tracing failed"),
        ("raising", "RuntimeError: no such place"),
    ],
)
def test_a_model_that_fails(tmp_path, capsys, model, draws, name, message):
    out = tmp_path / "out.npz"
    code, summary, err = run_json(capsys, "logp", f"{model}:{name}", "--draws", draws[0], "--out", out)
    assert code == summary["exit_code"] == 1
    assert message in err and "Traceback" not in err and len(err.splitlines()) < 20
    assert not out.exists()


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["unknown"],
        ["logp", SCHOOLS],
        ["logp", SCHOOLS, "--draws", SCHOOL_DRAWS, "--out", "a.npz", "--threads", "0"],
        ["logp", SCHOOLS, "--draws", SCHOOL_DRAWS, "--out", "a.txt"],
        ["logp", SCHOOLS, "--draws", SCHOOL_DRAWS, "--out", str(EXAMPLES)],
        ["logp", SCHOOLS, "--draws", "missing.csv", "--out", "a.npz"],
        ["logp", SCHOOLS + ":nothing", "--draws", SCHOOL_DRAWS, "--out", "a.npz"],
        ["logp", "missing.py", "--draws", SCHOOL_DRAWS, "--out", "a.npz"],
        ["check", "missing.py"],
        ["check", SCHOOLS, "--seed", "-1"],
        ["check", SCHOOLS, "--rtol", "nan"],
        ["sample", SCHOOLS, "--out", "a", "--tune", "0"],  # nutpie's threads would panic
    ],
)
def test_usage(tmp_path, monkeypatch, capsys, argv):
    monkeypatch.chdir(tmp_path)
    assert main(argv) == 2
    assert capsys.readouterr().err
    assert os.listdir(tmp_path) == []


def test_help(capsys):
    assert main(["--help"]) == 0
    assert "exit codes" in capsys.readouterr().out


def test_output_is_checked_before_any_work(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(logp, "load_model", lambda *args: pytest.fail("work was done"))
    assert main(["logp", SCHOOLS, "--draws", SCHOOL_DRAWS, "--out", str(tmp_path)]) == 2
    assert main(["logp", SCHOOLS, "--draws", SCHOOL_DRAWS, "--out", str(tmp_path / "no" / "a.npz")]) == 2


def test_resume_evaluates_only_what_is_missing(tmp_path, capsys, monkeypatch, model, draws):
    file, matrix = draws
    out = tmp_path / "out.npz"
    argv = ["logp", model, "--draws", file, "--out", out, "--chunk", 50, "--threads", 1, "--resume"]
    save = parts.Parts.save

    def interrupted(self, start, rows):
        if start == 150:
            raise KeyboardInterrupt
        save(self, start, rows)

    with monkeypatch.context() as patch:
        patch.setattr(parts.Parts, "save", interrupted)
        code, summary, err = run_json(capsys, *argv)
    assert code == 130 and err.endswith(
        "interrupted\n3 finished blocks are kept: the same command goes on from there\n"
    )
    assert not out.exists()

    filled = []
    fill = evaluate.Worker.fill

    def counted(self, rows, *tables):
        filled.extend(rows)
        fill(self, rows, *tables)

    monkeypatch.setattr(evaluate.Worker, "fill", counted)
    code, summary, _ = run_json(capsys, *argv)
    assert code == 0
    assert summary["resumed"] == 150 and summary["evaluated"] == 150
    assert sorted(set(filled)) == list(range(150, 300))  # some twice, to take their time
    assert not (tmp_path / "out.npz.parts").exists()
    with np.load(out) as result:
        np.testing.assert_allclose(result["logp"], expected(matrix)[0], rtol=1e-13)

    before = out.read_bytes()
    code, summary, _ = run_json(capsys, *argv)  # finished already
    assert summary["evaluated"] == 0 and out.read_bytes() == before


def test_resume_does_not_mix_models(tmp_path, capsys, monkeypatch, model, draws):
    argv = ["logp", model, "--draws", draws[0], "--out", tmp_path / "out.npz", "--chunk", 50, "--resume"]
    with monkeypatch.context() as patch:
        patch.setattr(parts.Parts, "remove", lambda self: self.close())
        assert run_json(capsys, *argv)[0] == 0
    Path(model).write_text(MODEL + "# changed\n")
    code, _, err = run_json(capsys, *argv)
    assert code == 2 and "belongs to another run (different: model_sha256)" in err


SLOW = """\
import time
from pathlib import Path

def unconstrain(draw):
    Path(__file__).with_name("started").touch()
    time.sleep(300.0)
    return [draw["a.1"]]

def logp(theta):
    return theta[0]
"""


def test_a_terminated_run_leaves_nothing(tmp_path, draws):
    (tmp_path / "slow.py").write_text(SLOW)
    before = {*os.listdir(tmp_path), "started"}
    command = [sys.executable, "-m", "numbatape", "logp", str(tmp_path / "slow.py")]
    command += ["--draws", draws[0], "--out", str(tmp_path / "out.npz")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        while process.poll() is None and not (tmp_path / "started").exists():
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=120)
    assert process.returncode == 128 + signal.SIGTERM and "terminated" in err
    assert set(os.listdir(tmp_path)) == before


def test_check(tmp_path, capsys, model):
    code, summary, _ = run_json(capsys, "check", SCHOOLS)
    assert code == 0 and summary["passed"] and len(summary["points"]) == 3
    worst = summary["points"][0]["worst"]
    assert worst["error"] < 1e-9 and worst["name"].startswith(("t[", "mu", "log_tau"))
    assert main(["check", SCHOOLS, "--draws", SCHOOL_DRAWS, "--points", "1"]) == 0
    assert "value and gradient agree" in capsys.readouterr().out
    assert main(["check", model]) == 2
    assert "give --size or --draws" in capsys.readouterr().err
    assert main(["check", model, "--size", "2"]) == 0


def test_check_finds_what_is_wrong(tmp_path, capsys):
    # numbatape is told that the exponential is a constant
    text = "import numpy as np\nimport numbatape as nt\nnames = ['a', 'b']\n"
    text += "def logp(theta): return theta[0] + np.sum(nt.stop_gradient(np.exp(theta[1])))\n"
    (tmp_path / "wrong.py").write_text(text)
    code, summary, _ = run_json(capsys, "check", tmp_path / "wrong.py", "--points", 1)
    assert code == 1 and not summary["passed"]
    assert summary["points"][0]["worst"]["name"] == "b"


def test_check_says_that_a_density_is_not_finite(tmp_path, capsys):
    text = "import numpy as np\nnames = ['a']\ndef logp(theta): return np.log(-1.0 - theta[0] ** 2)\n"
    (tmp_path / "model.py").write_text(text)
    assert main(["check", str(tmp_path / "model.py"), "--points", "2"]) == 1
    out = capsys.readouterr().out
    assert "logp not finite (NumPy not finite)" in out and "None" not in out
    assert out.endswith("the log-density is not finite at 2 points\n")


def test_check_lists_all_coordinates_by_error(tmp_path, capsys):
    text = "import numpy as np\nimport numbatape as nt\nnames = ['a', 'b', 'c']\nstart = [0.0, 1.0, 2.0]\n"
    text += "def logp(t): return t[0] + nt.stop_gradient(t[1] * 3.0 + t[2] * 1e-3) + t[1] * 1e-9\n"
    (tmp_path / "wrong.py").write_text(text)
    code, summary, _ = run_json(capsys, "check", tmp_path / "wrong.py", "--points", 2)
    assert code == 1
    for point in summary["points"]:
        errors = [row["error"] for row in point["coordinates"]]
        assert [row["name"] for row in point["coordinates"]] == ["b", "c", "a"]
        assert errors == sorted(errors, reverse=True) and point["worst"] == point["coordinates"][0]
    assert main(["check", str(tmp_path / "wrong.py"), "--points", "2"]) == 1
    lines = capsys.readouterr().out.splitlines()
    head = next(k for k, line in enumerate(lines) if line.startswith("coordinate"))
    assert [line.split()[0] for line in lines[head + 1 : head + 4]] == ["b", "c", "a"]


def test_info(capsys):
    code, summary, _ = run_json(capsys, "info")
    assert code == 0
    assert summary["versions"]["numpy"] == np.__version__
    assert summary["cache_dir"] and summary["cpu"]
    assert summary["kernel_bytes"] > 0
    assert main(["info"]) == 0
    assert "cache_dir" in capsys.readouterr().out


def test_info_shows_sizes_and_ages_and_deletes_the_oldest(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("NUMBATAPE_CACHE_DIR", str(tmp_path))
    tiers = {"a": b'{"tier": "optimised"}\n', "b": b'{"tier": "baseline"}\n', "c": b"damaged\n"}
    for name, size, days in (("sin-f64-a", 30, 0), ("sin-f64-b", 30, 40), ("dot-f64-c", 500, 100)):
        (tmp_path / f"{name}.nto").write_bytes(tiers[name[-1]].ljust(size, b"x"))
        (tmp_path / f"{name}.py").write_bytes(b"y" * size)
        used = time.time() - 86400 * days
        os.utime(tmp_path / f"{name}.nto", (used, used))
    code, summary, _ = run_json(capsys, "info")
    assert code == 0 and summary["pruned"] is None
    rows = {row["name"]: (row["versions"], row["bytes"]) for row in summary["table"]}
    assert rows == {"dot-f64": (1, 1000), "sin-f64": (2, 120)}
    assert summary["tiers"] == {"baseline": 1, "optimised": 1}
    assert [int(row["last_used"]) for row in summary["table"]] == [100, 0]
    assert main(["info"]) == 0
    shown = capsys.readouterr().out
    assert "100 d ago" in shown and "today" in shown
    assert "tiers       1 baseline, 1 optimised\n" in shown
    _, summary, _ = run_json(capsys, "info", "--prune")
    assert summary["pruned"] == {"days": 60.0, "kernels": 1, "bytes": 1000}
    _, summary, _ = run_json(capsys, "info", "--prune", 30)
    assert summary["pruned"]["kernels"] == 1 and summary["kernels"] == ["sin-f64"]
    assert main(["info", "--prune", "-1"]) == 2


def test_warmup_says_where_kernels_came_from(capsys, monkeypatch):
    given = []

    def warmup(dtypes, values, tell):  # all of them take minutes
        given.append((dtypes, values))
        for done in range(1, 5):
            tell(done, 4)
        return ["sweeps"]

    monkeypatch.setattr(nt, "warmup", warmup)
    counts = {"cache": 2, "compiled": 1, "wheel": 1}
    monkeypatch.setattr(nt, "kernel_info", lambda: {"counts": counts})
    code, summary, _ = run_json(capsys, "warmup")
    assert (code, summary["kernels"]) == (0, ["sweeps"])
    assert [summary[origin] for origin in ("compiled", "cache", "wheel")] == [1, 2, 1]
    assert main(["warmup", "--all"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("4 kernels ready in ")  # several have one name
    assert "1 compiled now, 2 from the cache, 1 from the wheel" in out
    assert "sweeps" not in out  # hundreds of names would fill several screens
    assert given == [(("f64",), ("fast",)), (("f64", "f32"), ("fast", "numpy"))]


def test_warmup_has_a_progress_bar(capsys, monkeypatch):
    def warmup(dtypes, values, tell):
        for done in range(1, 4):
            tell(done, 3)
        return []

    monkeypatch.setattr(nt, "warmup", warmup)
    monkeypatch.setattr(progress, "DELAY", 0.0)
    monkeypatch.setattr(progress, "INTERVAL", 0.0)
    monkeypatch.setattr(progress.importlib.util, "find_spec", lambda name: None)  # rich is not installed
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert main(["warmup"]) == 0
    assert "2/3 kernels, 0 s left" in capsys.readouterr().err


def test_python_dash_m(tmp_path):
    command = [sys.executable, "-m", "numbatape", "logp", SCHOOLS, "--draws", SCHOOL_DRAWS]
    command += ["--out", str(tmp_path / "out.csv"), "--json"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert json.loads(result.stdout)["draws"] == 1000
