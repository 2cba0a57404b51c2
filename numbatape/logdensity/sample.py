"""``numbatape sample``: chains of NUTS over a model's log-density, by nutpie."""

from __future__ import annotations

import argparse
import os
import secrets
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

import numbatape as nt
from numbatape.late import imported
from numbatape.logdensity.arviz_files import DRAWS, NETCDF, group, require_packages, write_groups
from numbatape.logdensity.arviz_results import about_of, theta_groups
from numbatape.logdensity.chain_files import ChainFiles, identity_in
from numbatape.logdensity.chains import THETA, Sampler, Settings, run_chains
from numbatape.logdensity.clock import Clock
from numbatape.logdensity.diagnostics import SUSPICIOUS, as_text, diagnosed
from numbatape.logdensity.evaluate import usable_cpus
from numbatape.logdensity.matrix import Matrix
from numbatape.logdensity.model_parameters import Arrays
from numbatape.logdensity.models import Model, import_path, load_model
from numbatape.logdensity.optional import optional
from numbatape.logdensity.output import ZARR
from numbatape.logdensity.progress import Progress, counted
from numbatape.logdensity.starts import require_finite, starts_of
from numbatape.logdensity.variables import names_of, variables_of


def sample(options: argparse.Namespace) -> tuple[dict[str, Any], str, int]:
    """Run the command; return the summary as a dictionary and as text, and the exit code."""
    clock = Clock()
    suffix = ZARR if options.zarr else NETCDF
    for package in ("nutpie", "arviz"):
        optional(package, "sampling")
    require_packages(suffix)
    # The model may change the directory that relative paths start from.
    folder = Path(os.path.abspath(options.out))
    before = identity_in(folder)
    with import_path(options.model):
        model = load_model(options.model, options.data)
        starts, radius, init = starts_of(model, options.init)
        identity = _identity(options, model, init, before)
        settings = Settings(
            options.draws, options.tune, identity["seed"], options.target_accept, starts, radius
        )
        clock.lap("read")
        files = options.kept = ChainFiles(folder, identity)
        try:
            found = files.restore(range(options.chains))
            missing = [chain for chain in range(options.chains) if chain not in found]
            clock.lap("restore")
            if missing:
                for start in starts[: options.chains]:
                    require_finite(model, start)
                # Names and axes that the file cannot hold are told before the draws, not behind them.
                _posterior(model, starts[:1, None], about_of(identity))
                clock.lap("prepare")

                def finished(chain: int, arrays: Arrays) -> None:
                    files.save(chain, arrays)
                    found[chain] = arrays

                _draw(options, model, settings, missing, finished)
            clock.lap("sample")
            chains = {name: np.stack([found[k][name] for k in range(options.chains)]) for name in found[0]}
            out = folder / f"{DRAWS}{suffix}"
            theta = chains[THETA]
            stats = {name: array for name, array in chains.items() if name != THETA}
            about, names = about_of(identity), names_of(model, theta.shape[-1])
            variables, posterior = _posterior(model, theta, about)
            write_groups(out, {"posterior": posterior, **theta_groups(names, theta, stats, about)})
            clock.lap("write")
            rows = diagnosed(variables)
            clock.lap("diagnose")
        finally:
            files.close()
    diverging = chains.get("diverging", np.zeros(0))
    summary = {
        "command": "sample",
        **identity,
        "parameters": starts.shape[1],
        "chains": options.chains,
        "resumed": options.chains - len(missing),
        "divergences": int(diverging.sum()),
        "variables": rows,
        "out": str(Path(options.out) / out.name),
        "seconds": clock.seconds(),
    }
    return summary, _text(summary), 0


def _posterior(model: Model, theta: Matrix, about: dict[str, Any]) -> tuple[Arrays, Any]:
    """Return the variables that theta, along chains and draws, stands for; and the group of them."""
    variables = variables_of(model, theta)
    return variables, group(variables, model.parameters.dims, model.parameters.coords, about)


def _draw(
    options: argparse.Namespace,
    model: Model,
    settings: Settings,
    chains: list[int],
    finished: Callable[[int, Arrays], None],
) -> None:
    """Draw chains, here or on a cluster; `finished(chain, arrays)` is called for each."""
    if options.dask is None:
        with Progress(len(chains) * (options.draws + options.tune)) as progress:
            sampler = Sampler(model, settings, progress.advance)
            run_chains(sampler, chains, options.cores or usable_cpus(), finished)
        return
    draw_on_cluster = imported("numbatape.logdensity.cluster").draw_on_cluster
    with Progress(len(chains), "chains") as progress:
        for chain, arrays in draw_on_cluster(options.dask, model, settings, chains):
            finished(chain, arrays)
            progress.advance(1)


def _identity(options: argparse.Namespace, model: Model, init: str, before: dict[str, Any]) -> dict[str, Any]:
    """Return what must agree between two runs whose chains stand side by side."""
    seed = before.get("seed") if options.seed is None else options.seed
    if type(seed) is not int:
        seed = secrets.randbits(32)
    return {
        "version": nt.__version__,
        "nutpie": metadata.version("nutpie"),
        "model": model.label,
        "model_sha256": model.sha256,
        "data_sha256": model.data_sha256,
        "seed": seed,
        "draws": options.draws,
        "tune": options.tune,
        "init": init,
        "target_accept": options.target_accept,
    }


def _text(summary: dict[str, Any]) -> str:
    """Return the summary of a run as lines for the terminal."""
    chains, draws = summary["chains"], summary["draws"]
    lines = [
        f"{summary['model']}: {counted(summary['parameters'], 'parameter')}, {counted(chains, 'chain')} of "
        f"{draws} draws after {summary['tune']}, seed {summary['seed']}",
        *as_text(summary["variables"]),
        f"divergences: {summary['divergences']} of {chains * draws} draws",
    ]
    known = [row for row in summary["variables"] if row["r_hat"] is not None]
    if known:
        worst = max(known, key=lambda row: row["r_hat"])
        fewest = min(known, key=lambda row: row["ess_bulk"])
        lines.append(
            f"R-hat at most {worst['r_hat']:.4f} ({worst['name']}), "
            f"ESS at least {fewest['ess_bulk']:.0f} ({fewest['name']})"
            + ("; not converged: more draws are needed" if worst["r_hat"] > SUSPICIOUS else "")
        )
    if summary["resumed"]:
        drawn = chains - summary["resumed"]
        lines.append(f"resumed: {summary['resumed']} chains were there, {drawn} drawn")
    laps = ", ".join(f"{name} {value:.2f}" for name, value in summary["seconds"].items() if name != "total")
    lines.append(f"wrote {summary['out']} in {summary['seconds']['total']:.1f} s ({laps})")
    return "\n".join(lines)
