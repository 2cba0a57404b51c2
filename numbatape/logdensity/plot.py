"""``numbatape plot``: pictures of what a run has left, by Matplotlib."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import numpy as np

from numbatape.logdensity.diagnostics import SUSPICIOUS, diagnosed
from numbatape.logdensity.exits import InputError
from numbatape.logdensity.optional import optional
from numbatape.logdensity.output import atomic_write, check_output
from numbatape.logdensity.run_results import Results, read_results

SUFFIXES = (".png", ".pdf", ".svg")
BARS, TRACES, PAIRED = 12, 4, 3  # coordinates shown: in the ranking, as traces, in pairs
WIDTH, HEIGHT = 12.0, 2.6  # the width of the figure and the height of a row, in inches
DIVERGENT = "crimson"


def plot(options: argparse.Namespace) -> tuple[dict[str, Any], str, int]:
    """Run the command."""
    optional("matplotlib", "numbatape plot")
    name = options.out or f"{options.results.rstrip('/')}.png"
    out = Path(os.path.abspath(name))
    check_output(out, [options.results], SUFFIXES)
    results = read_results(options.results)
    if not np.isfinite(results.lp).any():
        raise InputError(f"{results.source}: no log-density is finite")
    figure, worst = picture(results)
    kind = out.suffix.lower().removeprefix(".")
    atomic_write(out, lambda file: figure.savefig(file, format=kind, dpi=options.dpi))
    summary = {
        "command": "plot",
        "source": results.source,
        "chains": results.lp.shape[0],
        "draws": results.lp.shape[1],
        "worst": [{"name": results.names[k], "measure": float(value)} for k, value in worst],
        "out": name,
    }
    names = ", ".join(row["name"] for row in summary["worst"][:TRACES]) or "not known"
    return summary, f"{results.source}: worst coordinates {names}\nwrote {name}", 0


def picture(results: Results) -> tuple[Any, list[tuple[int, float]]]:
    """Return a figure, and the coordinates with a measure of how bad they are, worst first."""
    from matplotlib.figure import Figure

    label, worst = ranked(results)
    traces = [k for k, _ in worst[:TRACES]] if results.theta is not None else []
    pairs = [(a, b) for i, a in enumerate(traces[:PAIRED]) for b in traces[:PAIRED][i + 1 :]]
    rows = 2 + len(traces) + bool(pairs)
    figure = Figure(figsize=(WIDTH, HEIGHT * rows), layout="constrained")
    grid = figure.add_gridspec(rows, 6)
    _lines(figure.add_subplot(grid[0, :]), results.lp, "log-density", results.diverging)
    left, right = figure.add_subplot(grid[1, :3]), figure.add_subplot(grid[1, 3:])
    if results.gradient is not None:
        _lines(left, np.linalg.norm(results.gradient, axis=-1), "norm of the gradient", results.diverging)
        left.set_yscale("log")
    else:
        left.set_axis_off()
    _bars(right, [(results.names[k], value) for k, value in worst[:BARS]], label)
    for row, k in enumerate(traces, 2):
        assert results.theta is not None
        _lines(figure.add_subplot(grid[row, :]), results.theta[..., k], results.names[k], results.diverging)
    for column, (a, b) in enumerate(pairs):
        width = 6 // len(pairs)
        _scatter(figure.add_subplot(grid[rows - 1, column * width : (column + 1) * width]), results, a, b)
    figure.suptitle(results.source)
    return figure, worst


def ranked(results: Results) -> tuple[str, list[tuple[int, float]]]:
    """Return what coordinates are ranked by, and all of them, worst first.

    Draws of several chains are ranked by R-hat, those of one by how few of them are effective; where there
    are gradients alone, by their size.
    """
    if results.theta is not None and results.theta.shape[-1]:
        columns = {str(k): results.theta[..., k] for k in range(results.theta.shape[-1])}
        rows = diagnosed(columns)
        if any(row["r_hat"] is not None for row in rows):
            label, measures = "R-hat", [row["r_hat"] for row in rows]
        else:
            count = results.lp.size
            label = "draws for an effective one"
            measures = [None if row["ess_bulk"] is None else count / row["ess_bulk"] for row in rows]
    elif results.gradient is not None:
        label = "root mean square of the gradient"
        finite = results.gradient[np.isfinite(results.gradient).all(axis=-1)]
        measures = list(np.sqrt(np.mean(finite**2, axis=0))) if len(finite) else []
    else:
        return "", []
    known = [(k, float(value)) for k, value in enumerate(measures) if value is not None]
    return label, sorted(known, key=lambda entry: -entry[1])


def _lines(axes: Any, values: np.ndarray, label: str, diverging: np.ndarray | None) -> None:
    """Draw a line for each chain, with its divergences."""
    for chain, row in enumerate(values):
        axes.plot(row, linewidth=0.7, alpha=0.8, label=f"chain {chain}", rasterized=True)
        if diverging is not None and diverging[chain].any():
            at = np.flatnonzero(diverging[chain])
            axes.plot(at, row[at], ".", color=DIVERGENT)
    axes.set_ylabel(label)
    axes.set_xlabel("draw")
    axes.margins(x=0)


def _bars(axes: Any, rows: list[tuple[str, float]], label: str) -> None:
    if not rows:
        axes.set_axis_off()
        return
    positions = np.arange(len(rows))
    axes.barh(positions, [value for _, value in rows])
    axes.set_yticks(positions, [name for name, _ in rows])
    axes.invert_yaxis()
    axes.set_xlabel(label)
    if label == "R-hat":  # what matters is how far it is from 1
        low, high = min(1.0, rows[-1][1]), max(SUSPICIOUS, rows[0][1])
        axes.set_xlim(low, high + 0.05 * (high - low))
        axes.axvline(SUSPICIOUS, color=DIVERGENT, linewidth=0.7)


def _scatter(axes: Any, results: Results, a: int, b: int) -> None:
    assert results.theta is not None
    x, y = results.theta[..., a], results.theta[..., b]
    for chain in range(len(x)):
        axes.plot(x[chain], y[chain], ".", markersize=2, alpha=0.4, rasterized=True)
    if results.diverging is not None:
        at = np.asarray(results.diverging, dtype=bool)
        axes.plot(x[at], y[at], ".", color=DIVERGENT, label="divergences")
    axes.set_xlabel(results.names[a])
    axes.set_ylabel(results.names[b])
