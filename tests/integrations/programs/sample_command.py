"""``numbatape sample``: the same draws after a kill and on any number of cores; refusals; files of ArviZ."""

import io
import json
import os
import shutil
import signal
import tempfile
import warnings
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from distributed import Client

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # ArviZ announces its new version
    import arviz
    import nutpie  # noqa: F401
    import xarray

from numbatape.logdensity import chain_files
from numbatape.logdensity.cli import main
from numbatape.logdensity.models import load_model
from numbatape.logdensity.plot import ranked
from numbatape.logdensity.run_results import Results

MODEL = """
import numpy as np
from numbatape import transforms

data = {"y": [1.0, 2.0, 4.0]}
start = {"mu": 0.0, "scale": np.ones(2)}
constraints = {"scale": transforms.positive}
dims, coords = {"scale": ("side",)}, {"side": ["left", "right"]}

def logp(p, data):
    z = (data["y"] - p["mu"]) / p["scale"][0]
    return -0.5 * np.sum(z**2) - 3 * np.log(p["scale"][0]) - np.sum(p["scale"]) - 0.5 * p["mu"] ** 2

def raising(p, data):
    if p["mu"] > 0.5:
        raise RuntimeError("no such place")
    return -p["mu"] ** 2 - np.sum(p["scale"])

def nowhere(p, data):
    return np.where(np.abs(p["mu"]) < 1e-9, 0.0, -np.inf) - np.sum(p["scale"])

def plain(p, data):
    return -0.5 * p["mu"] ** 2 - np.sum(p["scale"])

def vector(theta, data):
    return -np.sum(theta**2)
"""
LOW = ["--draws", "30", "--tune", "30", "--cores", "2"]


def run(*argv):
    """Return the exit code, the summary and what was written to stderr."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main([*map(str, argv), "--json"])
    return code, json.loads(out.getvalue()), err.getvalue()


def killed_after_a_chain(*argv):
    """Run the command in a child that is killed right after its first chain is on disk."""
    child = os.fork()
    if child == 0:
        save = chain_files.ChainFiles.save

        def save_and_die(self, *args):
            save(self, *args)
            os.kill(os.getpid(), signal.SIGKILL)

        chain_files.ChainFiles.save = save_and_die
        run(*argv)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def draws_in(folder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return arviz.from_netcdf(folder / "draws.nc")


with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    model = folder / "model.py"
    model.write_text(MODEL)
    three = ["sample", model, *LOW, "--chains", 3, "--seed", 7]
    killed_after_a_chain(*three, "--out", folder / "killed")
    assert len(list((folder / "killed").glob("chain-*.npz"))) == 1
    assert not (folder / "killed" / "draws.nc").exists()

    code, summary, _ = run(*three, "--out", folder / "killed")
    assert code == 0 and summary["resumed"] == 1 and summary["chains"] == 3
    resumed = draws_in(folder / "killed")

    # Two chains on one core, then a third: the same draws, without a seed, as the directory has it.
    again = ["sample", model, *LOW[:4], "--cores", 1, "--out", folder / "again"]
    assert run(*again, "--chains", 2, "--seed", 7)[0] == 0
    code, summary, _ = run(*again, "--chains", 3)
    assert code == 0 and summary["resumed"] == 2 and summary["seed"] == 7
    whole = draws_in(folder / "again")
    for group in ("posterior", "unconstrained_posterior", "sample_stats"):
        assert resumed[group].identical(whole[group]), group

    posterior, theta, stats = whole.posterior, whole.unconstrained_posterior, whole.sample_stats
    assert posterior["scale"].dims == ("chain", "draw", "side")
    assert posterior["scale"].shape == (3, 30, 2) and list(posterior["side"].values) == ["left", "right"]
    np.testing.assert_allclose(np.log(posterior["scale"]), theta["scale"], rtol=1e-12)
    loaded = load_model(str(model), None)
    point = np.array([theta["mu"][1, 5], *theta["scale"][1, 5]])
    np.testing.assert_allclose(stats["lp"][1, 5], loaded.logp(point, *loaded.arguments), rtol=1e-12)
    assert list(stats["unconstrained_parameter"].values) == ["mu", "scale[0]", "scale[1]"]
    assert stats["gradient"].shape == (3, 30, 3) and stats["diverging"].dtype == bool
    assert {"acceptance_rate", "tree_depth", "step_size", "energy", "n_steps"} <= set(stats)
    rows = {row["name"]: row for row in summary["variables"]}
    assert set(rows) == {"mu", "scale[0]", "scale[1]"} and summary["divergences"] == int(
        stats["diverging"].sum()
    )
    np.testing.assert_allclose(rows["scale[1]"]["r_hat"], arviz.rhat(posterior)["scale"][1], rtol=1e-12)

    # Another seed, model or size: refused by name, and nothing is overwritten.
    kept = {path: path.read_bytes() for path in (folder / "again").iterdir()}
    for changed, what in (
        ([*again, "--seed", 8], "different: seed"),
        (["sample", f"{model}:plain", *again[2:]], "different: model"),
        ([*again, "--draws", 31], "different: draws"),
    ):
        code, summary, _ = run(*changed)
        assert code == 2 and what in summary["error"], summary
    assert kept == {path: path.read_bytes() for path in (folder / "again").iterdir()}
    (folder / "other").mkdir()
    (folder / "other" / "file").touch()
    code, summary, _ = run(*three, "--out", folder / "other")
    assert code == 2 and "is not empty, and holds no run" in summary["error"]

    # A cluster of Dask draws the same chains.
    with Client(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None) as client:
        address = client.scheduler.address
        code, summary, _ = run(*three, "--out", folder / "dask", "--dask", address)
    assert code == 0 and draws_in(folder / "dask").sample_stats.identical(whole.sample_stats)

    # A damaged chain is drawn again.
    chain = folder / "again" / "chain-0001.npz"
    chain.write_bytes(chain.read_bytes()[:-1])
    code, summary, _ = run(*again, "--chains", 3)
    assert (
        code == 0
        and summary["resumed"] == 2
        and whole.posterior.identical(draws_in(folder / "again").posterior)
    )

    # Chains that start at the draws of a file, as Zarr; the file is one of ArviZ.
    code, summary, _ = run(
        "sample", f"{model}:plain", *LOW, "--chains", 2, "--zarr", "--out", folder / "zarr",
        "--init", folder / "again" / "draws.nc",
    )  # fmt: skip
    assert code == 0, summary
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = xarray.open_datatree(folder / "zarr" / "draws.zarr", engine="zarr", consolidated=False)
        assert arviz.from_datatree(tree).posterior["mu"].shape == (2, 30)

    # Coordinates are ranked by R-hat, or by how many draws depend on each other.
    moved = np.random.default_rng(0).normal(size=(2, 50, 3))
    moved[1, :, 2] += 3.0
    moved[..., 0] = np.cumsum(moved[..., 0], axis=1)
    names = ("a", "b", "c")
    label, worst = ranked(Results("", names, moved[..., 0], None, moved, None))
    assert label == "R-hat" and worst[-1][0] == 1
    label, worst = ranked(Results("", names, moved[:1, :, 0], None, moved[:1], None))
    assert label == "draws for an effective one" and worst[0][0] == 0
    assert run("plot", folder / "killed", "--out", folder / "run.png", "--dpi", 20)[0] == 0

    # Labels that do not fit, and a full disk, are told before the draws, and before HDF5 crashes.
    fitted = MODEL.replace("start = {", "start, was = [0.0], {").replace("constraints =", "unused =")
    model.write_text(fitted + "\ndef constrain(t, data):\n    return {'scale': np.append(t, [t[0], 1.0])}\n")
    code, summary, _ = run("sample", f"{model}:vector", *LOW, "--out", folder / "labels")
    assert code == 2 and "do not fit its variables" in summary["error"]
    assert not list((folder / "labels").glob("chain-*"))
    model.write_text(MODEL)
    usage, shutil.disk_usage = shutil.disk_usage, lambda path: SimpleNamespace(free=1000)
    code, summary, _ = run(*again, "--chains", 3)
    shutil.disk_usage = usage
    assert code == 2 and "draws.nc: No space left on device" in summary["error"]

    # What the model raises on the way ends the run, with its line.
    code, summary, err = run("sample", f"{model}:raising", *LOW, "--out", folder / "raising")
    assert code == 1 and "no such place" in err and "model.py" in err and "in raising" in err, err
    assert "kept" not in err  # no chain was finished
    assert "panicked" not in err

    # So does nutpie's own error.
    code, summary, _ = run("sample", f"{model}:nowhere", *LOW, "--out", folder / "nowhere")
    assert code == 1 and "All initialization points failed" in summary["error"]
    assert "backtrace" not in summary["error"]
