"""``numbatape logp``: a log-density and its gradient for every draw of a file."""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from numbatape.late import imported
from numbatape.logdensity.arviz_files import SUFFIXES as ARVIZ
from numbatape.logdensity.arviz_files import require_packages
from numbatape.logdensity.arviz_results import read_arviz_result, write_arviz_result
from numbatape.logdensity.clock import Clock
from numbatape.logdensity.columns import thetas_of
from numbatape.logdensity.draws import Draws, read_draws
from numbatape.logdensity.evaluate import Worker, evaluate, split, usable_cpus
from numbatape.logdensity.matrix import Matrix, finite_rows
from numbatape.logdensity.models import Model, import_path, load_model, model_path
from numbatape.logdensity.output import SUFFIXES as TABLES
from numbatape.logdensity.output import check_output, read_result, write_result
from numbatape.logdensity.parts import Parts
from numbatape.logdensity.progress import Progress, counted

CHUNK = 1024
SUFFIXES = (*TABLES, *ARVIZ)
ROWS_LISTED = 100


def logp(options: argparse.Namespace) -> tuple[dict[str, Any], str, int]:
    """Run the command; return the summary as a dictionary and as text, and the exit code."""
    clock = Clock()
    # The model may change the directory that relative paths start from. So all files are read before it
    # runs, and the output gets an absolute path.
    out = Path(os.path.abspath(options.out))
    check_output(out, [str(model_path(options.model)), *options.draws, options.data or ""], SUFFIXES)
    if out.suffix in ARVIZ:
        require_packages(out.suffix)
    with import_path(options.model):
        draws = read_draws(*options.draws)
        model = load_model(options.model, options.data)
        clock.lap("read")
        thetas = thetas_of(model, draws)
        clock.lap("unconstrain")
        return _run(options, out, model, draws, thetas, clock)


def _run(
    options: argparse.Namespace, out: Path, model: Model, draws: Draws, thetas: Matrix, clock: Clock
) -> tuple[dict[str, Any], str, int]:
    """Evaluate the missing draws and write the result; return the summary, its text, the exit status."""
    rows, size = thetas.shape
    identity = _identity(model, draws, with_grad=not options.no_grad)
    table = np.full((rows, 1 if options.no_grad else 1 + size), np.nan)
    missing = [(0, rows)]
    parts = None
    if options.resume:
        earlier = (read_arviz_result if out.suffix in ARVIZ else read_result)(out, identity)
        if earlier is not None and earlier.shape == table.shape:
            table, missing = earlier, []
        else:
            parts = options.kept = Parts(out, identity)
            missing = parts.restore(table)
    try:
        threads, alone = _sweep(options, model, thetas, table, missing, parts, clock)
        names = _names(model, draws, size)
        values = np.ascontiguousarray(table[:, 0])
        grad = None if options.no_grad else np.ascontiguousarray(table[:, 1:])
        if out.suffix in ARVIZ:
            write_arviz_result(out, identity, names, thetas, values, grad, draws.chains)
        else:
            write_result(out, identity, names, values, grad)
        if parts is not None:
            parts.remove()
    finally:
        if parts is not None:
            parts.close()
    clock.lap("write")
    evaluated = sum(stop - start for start, stop in missing)
    summary = {
        "command": "logp",
        **identity,
        "draws": rows,
        "parameters": size,
        "evaluated": evaluated,
        "resumed": rows - evaluated,
        "threads": threads,
        "dask": options.dask,
        "one_by_one": alone,
        "out": options.out,
        "logp": _statistics(values),
        "nonfinite": _nonfinite(thetas, values, grad),
        "seconds": clock.seconds(),
    }
    return summary, _text(summary, draws.source), 0


def _sweep(
    options: argparse.Namespace,
    model: Model,
    thetas: Matrix,
    table: Matrix,
    missing: list[tuple[int, int]],
    parts: Parts | None,
    clock: Clock,
) -> tuple[int, dict[str, int]]:
    """Evaluate the missing rows of `table`.

    Returns
    -------
    threads
        How many were used; 0 for those of a cluster.
    alone
        How many draws were evaluated one by one, by the reason.
    """
    finite = finite_rows(thetas)
    todo = [row for start, stop in missing for row in range(start, stop) if finite[row]]
    if not todo:
        return 0, {}
    first = thetas[todo[0]]

    def finished(start: int, stop: int) -> None:
        if parts is not None:
            parts.save(start, table[start:stop])

    if options.dask is not None:
        blocks = split(missing, options.chunk or CHUNK)
        return 0, _sweep_on_cluster(options.dask, model, first, thetas, table, blocks, finished, clock)
    worker = Worker(model, first)
    worth = worker.is_worth_threads(todo, thetas, table)
    threads = options.threads or (usable_cpus() if worth else 1)
    clock.lap("prepare")

    blocks = split(missing, options.chunk or min(CHUNK, -(-len(todo) // threads)))
    threads = min(threads, len(blocks))
    workers = [worker] + [worker.clone() for _ in range(threads - 1)]
    with Progress(sum(stop - start for start, stop in missing)) as progress:
        evaluate(workers, blocks, thetas, table, progress.advance, finished)
    clock.lap("sweeps")
    alone: Counter[str] = Counter()
    for worker in workers:
        alone.update(worker.alone)
    return threads, dict(alone)


def _sweep_on_cluster(
    address: str,
    model: Model,
    first: Matrix,
    thetas: Matrix,
    table: Matrix,
    blocks: list[tuple[int, int]],
    finished: Callable[[int, int], None],
    clock: Clock,
) -> dict[str, int]:
    """Evaluate blocks of rows on a cluster of Dask; return how many draws were evaluated one by one."""
    evaluate_on_cluster = imported("numbatape.logdensity.cluster").evaluate_on_cluster
    alone: Counter[str] = Counter()
    with Progress(sum(stop - start for start, stop in blocks)) as progress:
        for start, stop, rows, reasons in evaluate_on_cluster(
            address, model, first, thetas, table.shape[1], blocks
        ):
            table[start:stop] = rows
            alone.update(reasons)
            finished(start, stop)
            progress.advance(stop - start)
    clock.lap("sweeps")
    return dict(alone)


def _identity(model: Model, draws: Draws, with_grad: bool) -> dict[str, Any]:
    """Return what must agree between two runs whose rows are mixed; it is stored in the output."""
    import numbatape as nt

    return {
        "version": nt.__version__,
        "model": model.label,
        "model_sha256": model.sha256,
        "data_sha256": model.data_sha256,
        "draws_sha256": draws.sha256,
        "with_grad": with_grad,
    }


def _names(model: Model, draws: Draws, size: int) -> list[str]:
    if model.names is not None:
        return list(model.names)
    if model.unconstrain is None and draws.names is not None:
        return [name for name in draws.names if not name.endswith("__")]
    return [f"theta[{k}]" for k in range(size)]


def _statistics(values: Matrix) -> dict[str, float] | None:
    finite = values[np.isfinite(values)]
    if finite.size == 0:
        return None
    return {name: float(getattr(finite, name)()) for name in ("mean", "std", "min", "max")}


def _nonfinite(thetas: Matrix, values: Matrix, grad: Matrix | None) -> dict[str, Any]:
    """Count the draws with something that is not finite, under the first thing that is not."""
    in_draw = ~finite_rows(thetas)
    in_logp = ~np.isfinite(values) & ~in_draw
    in_grad = np.zeros_like(in_draw)
    if grad is not None:
        in_grad = ~finite_rows(grad) & ~in_draw & ~in_logp
    bad = np.flatnonzero(in_draw | in_logp | in_grad)
    return {
        "draw": int(in_draw.sum()),
        "logp": int(in_logp.sum()),
        "grad": int(in_grad.sum()),
        "rows": bad[:ROWS_LISTED].tolist(),
    }


def _text(summary: dict[str, Any], source: str) -> str:
    """Return the summary as lines for the terminal."""
    seconds, statistics, bad = summary["seconds"], summary["logp"], summary["nonfinite"]
    counts = f"{counted(summary['parameters'], 'parameter')}, {counted(summary['draws'], 'draw')}"
    lines = [f"{summary['model']}: {counts} from {source}"]
    if statistics is not None:
        lines.append("logp: " + ", ".join(f"{name} {value:.6g}" for name, value in statistics.items()))
    counts = [f"{bad[kind]} in the {kind}" for kind in ("draw", "logp", "grad") if bad[kind]]
    if counts:
        rows = ", ".join(map(str, bad["rows"][:10])) + (", ..." if len(bad["rows"]) > 10 else "")
        lines.append(f"not finite: {'; '.join(counts)} (draws {rows})")
    for why, count in summary["one_by_one"].items():
        lines.append(f"one draw at a time: {count} draws, because nt.batch raised {why}")
    if summary["resumed"]:
        lines.append(f"resumed: {summary['resumed']} draws were there, {summary['evaluated']} evaluated")
    laps = ", ".join(f"{name} {value:.3f}" for name, value in seconds.items() if name != "total")
    threads = f"{summary['threads']} thread{'s' * (summary['threads'] != 1)}"
    if summary["dask"]:
        threads = f"on the cluster at {summary['dask']}"
    lines.append(f"wrote {summary['out']} in {seconds['total']:.2f} s ({laps}; {threads})")
    return "\n".join(lines)
