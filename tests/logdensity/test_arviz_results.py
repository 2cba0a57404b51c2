"""Outputs of ``numbatape logp`` as ArviZ reads them, and pictures of outputs."""

import json
import warnings

import numpy as np
import pytest

from numbatape.logdensity import evaluate, plot
from numbatape.logdensity.cli import main
from numbatape.logdensity.draws import read_draws
from numbatape.logdensity.plot import picture, ranked
from numbatape.logdensity.run_results import Results, read_results

MODEL = """
import numpy as np
names = ["x[1]", "x[2]", "s"]
def logp(theta):
    return -0.5 * np.sum(theta**2 * np.array([1.0, 4.0, 9.0]))
"""


@pytest.fixture
def run(tmp_path, capsys):
    """Evaluate two chains of five draws; return what `logp` says of it."""
    (tmp_path / "model.py").write_text(MODEL)
    theta = np.random.default_rng(0).normal(size=(10, 3))
    for name, rows in (("a.csv", theta[:5]), ("b.csv", theta[5:])):
        lines = ["s,x.1,x.2", *(",".join(map(repr, row)) for row in rows[:, [2, 0, 1]].tolist())]
        (tmp_path / name).write_text("\n".join(lines) + "\n")

    def run(out, *options):
        arguments = ["--draws", tmp_path / "a.csv", tmp_path / "b.csv", "--out", tmp_path / out, *options]
        code = main(["logp", str(tmp_path / "model.py"), *map(str, arguments), "--json"])
        return code, json.loads(capsys.readouterr().out)

    return run, theta


@pytest.mark.parametrize("suffix", [".nc", ".zarr"])
def test_chains_theta_and_gradients_are_there(run, tmp_path, suffix, monkeypatch):
    xarray = pytest.importorskip("xarray")
    engine = {".nc": "h5netcdf", ".zarr": "zarr"}[suffix]
    pytest.importorskip(engine)
    run, theta = run
    assert run(f"out{suffix}")[0] == 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Zarr's, of its format for strings
        options = {} if suffix == ".nc" else {"consolidated": False}
        with xarray.open_datatree(tmp_path / f"out{suffix}", engine=engine, **options) as tree:
            stats, group = tree["sample_stats"].to_dataset().load(), tree["unconstrained_posterior"].load()
    weights = np.array([1.0, 4.0, 9.0])
    shaped = theta.reshape(2, 5, 3)
    np.testing.assert_allclose(stats["lp"], -0.5 * np.sum(shaped**2 * weights, -1), rtol=1e-14)
    np.testing.assert_allclose(stats["gradient"], -shaped * weights, rtol=1e-14)
    assert list(stats["unconstrained_parameter"].values) == ["x[1]", "x[2]", "s"]
    np.testing.assert_array_equal(group["x"], shaped[..., :2])
    assert stats.attrs["model"] == "model.py:logp" and stats.attrs["inference_library"] == "numbatape"
    again = read_draws(str(tmp_path / f"out{suffix}"))
    assert again.chains == 2 and sorted(again.names) == ["s", "x[0]", "x[1]"]
    (tmp_path / "run").mkdir()  # a directory as `numbatape sample` leaves one
    (tmp_path / "run" / f"draws{suffix}").symlink_to(tmp_path / f"out{suffix}")
    found = read_draws(str(tmp_path / "run"))
    order = [found.names.index(name) for name in again.names]  # Zarr lists variables in any order
    np.testing.assert_array_equal(found.values[:, order], again.values)

    # The finished output of this very run is taken as it is; that of another is replaced.
    monkeypatch.setattr(evaluate.Worker, "fill", None)
    assert run(f"out{suffix}", "--resume")[1]["resumed"] == 10
    monkeypatch.undo()
    code, summary = run(f"out{suffix}", "--resume", "--no-grad")
    assert code == 0 and summary["resumed"] == 0
    assert read_results(str(tmp_path / f"out{suffix}")).gradient is None


@pytest.mark.parametrize("suffix", [".nc", ".npz", ".csv"])
def test_results_are_read_back(run, tmp_path, suffix):
    if suffix == ".nc":
        pytest.importorskip("h5netcdf")
    run, theta = run
    assert run(f"out{suffix}")[0] == 0
    found = read_results(str(tmp_path / f"out{suffix}"))
    gradient = dict(zip(found.names, found.gradient.reshape(10, 3).T, strict=True))
    np.testing.assert_allclose(gradient["s"], -9 * theta[:, 2], rtol=1e-14)
    np.testing.assert_allclose(found.lp.ravel(), -0.5 * (theta**2 @ [1.0, 4.0, 9.0]), rtol=1e-14)
    assert (found.theta is not None) == (suffix == ".nc")


def test_a_run_that_has_not_finished_and_other_files_are_named(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    (tmp_path / "run").mkdir()
    np.savez(tmp_path / "other.npz", x=np.ones(3))
    np.savez(tmp_path / "text.npz", logp=np.array(["a", "b"]))
    np.savez(tmp_path / "grad.npz", logp=np.ones(3), grad=np.ones((2, 2)))
    np.savez(tmp_path / "names.npz", logp=np.ones(3), grad=np.ones((3, 2)), names=np.array(["a"]))
    (tmp_path / "cut.npz").write_bytes((tmp_path / "other.npz").read_bytes()[:90])
    with open(tmp_path / "one.npz", "wb") as file:
        np.save(file, np.ones(3))
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    for name, message in (
        ("run", "the run has not finished"),
        ("other.npz", "has no `logp`"),
        ("text.npz", "has no `logp`"),
        ("grad.npz", "`grad` has the shape (2, 2), and `logp` (3,)"),
        ("names.npz", "one string for each column"),
        ("cut.npz", "not a NumPy file"),
        ("one.npz", "not an .npz file"),
        ("missing.npz", "No such file"),
        ("other.csv", "no column `logp`"),
        ("none.txt", "expected a directory of a run"),
    ):
        assert main(["plot", str(tmp_path / name)]) == 2
        assert message in capsys.readouterr().err


def results_of(theta, lp=None, gradient=None, diverging=None):
    names = tuple(f"x[{k}]" for k in range(theta.shape[-1]))
    lp = -0.5 * np.sum(theta**2, axis=-1) if lp is None else lp
    return Results("run", names, lp, -theta if gradient is None else gradient, theta, diverging)


def test_coordinates_without_draws_are_ranked_by_their_gradients():
    bare = Results(
        "run", ("a", "b"), np.zeros((1, 4)), np.array([[[1.0, 2], [1, 3], [np.nan, 1], [1, 4]]]), None, None
    )
    label, worst = ranked(bare)
    assert label == "root mean square of the gradient" and [k for k, _ in worst] == [1, 0]


@pytest.mark.parametrize("suffix", [".png", ".pdf", ".svg"])
def test_pictures(run, tmp_path, suffix, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    run, _ = run
    run("out.npz")
    out = tmp_path / f"picture{suffix}"
    monkeypatch.chdir(tmp_path)
    assert main(["plot", "out.npz", "--out", out.name, "--dpi", "20"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"wrote {out.name}"  # as the command line has it
    starts = {".png": b"\x89PNG", ".pdf": b"%PDF", ".svg": b"<?xml"}
    assert out.read_bytes().startswith(starts[suffix])


def test_a_picture_shows_traces_pairs_and_divergences(rng, monkeypatch):
    pytest.importorskip("matplotlib")
    r_hat = [1.0, 1.4, 1.1, 1.3, 1.2]  # ArviZ computes them; tests/integrations/programs/sample_command.py
    monkeypatch.setattr(plot, "diagnosed", lambda _: [{"r_hat": value} for value in r_hat])
    theta = rng.normal(size=(2, 20, 5))
    diverging = np.zeros((2, 20), bool)
    diverging[1, 3] = True
    figure, worst = picture(results_of(theta, diverging=diverging))
    log_density, norms, bars, *traces = figure.axes
    np.testing.assert_array_equal(log_density.lines[0].get_ydata(), -0.5 * np.sum(theta[0] ** 2, -1))
    assert [len(line.get_xdata()) for line in log_density.lines] == [20, 20, 1]
    assert log_density.lines[2].get_xdata().tolist() == [3]
    np.testing.assert_allclose(norms.lines[1].get_ydata(), np.linalg.norm(theta[1], axis=-1))
    shown = [k for k, _ in worst]
    assert shown == [1, 3, 4, 2, 0]
    assert [text.get_text() for text in bars.get_yticklabels()] == [f"x[{k}]" for k in shown]
    assert [axes.get_ylabel() for axes in traces[:4]] == [f"x[{k}]" for k in shown[:4]]
    pairs = [(axes.get_xlabel(), axes.get_ylabel()) for axes in traces[4:]]
    a, b, c = (f"x[{k}]" for k in shown[:3])
    assert pairs == [(a, b), (a, c), (b, c)]
