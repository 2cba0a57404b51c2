"""``numbatape optimize``: the mode of a log-density, and standard errors by Laplace's approximation."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import numpy as np

import numbatape as nt
from numbatape.caches.provenance import listed
from numbatape.integrations.nutpie_model import JITTER
from numbatape.logdensity.clock import Clock
from numbatape.logdensity.matrix import Matrix
from numbatape.logdensity.mode import Mode, find_mode
from numbatape.logdensity.models import Model, import_path, load_model, model_path
from numbatape.logdensity.output import atomic_write, check_output
from numbatape.logdensity.progress import counted
from numbatape.logdensity.starts import require_finite, starts_of
from numbatape.logdensity.variables import elements_of, names_of, slopes_of

SUFFIXES = (".npz",)
ROWS_SHOWN = 40


def optimize(options: argparse.Namespace) -> tuple[dict[str, Any], str, int]:
    """Run the command; exit code 1 if no mode was found."""
    clock = Clock()
    # The model may change the directory that relative paths start from.
    out = Path(os.path.abspath(options.out)) if options.out else None
    if out is not None:
        check_output(out, [str(model_path(options.model)), options.data or ""], SUFFIXES)
    with import_path(options.model):
        model = load_model(options.model, options.data)
        points = _starts(options, model)
        clock.lap("read")
        own = model.parameters.density
        density = model.logp if own is None or options.jacobian else own
        modes = [
            find_mode(model.label, density, model.arguments, point, options.method, not options.no_hessian)
            for point in points
        ]
        clock.lap("search")
        best = max(modes, key=lambda mode: (mode.is_found, mode.logp))
        elements, errors = elements_of(model, best.theta), None
        if best.covariance is not None:
            errors = _errors(slopes_of(model, best.theta), best.covariance)
        clock.lap("curvature")
    names = names_of(model, best.theta.size)
    summary = {
        "command": "optimize",
        "version": nt.__version__,
        "model": model.label,
        "model_sha256": model.sha256,
        "data_sha256": model.data_sha256,
        "parameters": best.theta.size,
        "found": best.is_found,
        "logp": best.logp,
        "flat": [names[k] for k in best.flat],
        "distance": None if np.isnan(best.distance) else best.distance,
        "largest_gradient": float(np.max(np.abs(best.gradient), initial=0.0)),
        "iterations": sum(mode.iterations for mode in modes),
        "starts": [mode.logp for mode in modes],
        "message": best.message,
        "variables": [
            {"name": name, "mode": value, "error": None if errors is None else float(errors[k])}
            for k, (name, value) in enumerate(elements.items())
        ],
        "theta": dict(zip(names, best.theta.tolist(), strict=True)),
        "out": options.out,
    }
    if out is not None:
        _write(out, summary, elements, errors, best, names)
    clock.lap("write")
    summary["seconds"] = clock.seconds()
    return summary, _text(summary, best), 0 if best.is_found else 1


def _starts(options: argparse.Namespace, model: Model) -> Matrix:
    """Return the points to start from: the first as it is, the others around it."""
    points, radius, _ = starts_of(model, options.init)
    points = points[: options.starts]
    more = options.starts - len(points)
    if more:
        rng = np.random.default_rng(options.seed)
        radius = radius or JITTER  # points of a file have none
        around = points[0] + rng.uniform(-radius, radius, size=(more, points.shape[1]))
        points = np.vstack([points, around])
    require_finite(model, points[0])
    return points


def _errors(slopes: Matrix, covariance: Matrix) -> Matrix:
    """Return the standard errors of functions of theta, from their derivatives (the delta method)."""
    return np.sqrt(np.einsum("ij,jk,ik->i", slopes, covariance, slopes))


def _write(
    path: Path,
    summary: dict[str, Any],
    elements: dict[str, float],
    errors: Matrix | None,
    mode: Mode,
    names: tuple[str, ...],
) -> None:
    """Write the mode as a draw, which ``--init`` and ``--draws`` read, and what belongs to it."""
    arrays: dict[str, Any] = {
        "draws": np.array([list(elements.values())]),
        "names": np.array(list(elements), dtype=np.str_),
        "theta": mode.theta[None],
        "theta_names": np.array(names, dtype=np.str_),
        "logp": np.array(mode.logp),
        "gradient": mode.gradient,
    }
    if errors is not None:
        arrays["errors"] = errors
    for name in ("hessian", "covariance"):
        if getattr(mode, name) is not None:
            arrays[name] = getattr(mode, name)
    for key in ("version", "model", "model_sha256", "data_sha256"):
        arrays[key] = np.array(summary[key])
    atomic_write(path, lambda file: np.savez(file, **arrays))


def _text(summary: dict[str, Any], mode: Mode) -> str:
    rows = summary["variables"]
    about = f"{counted(summary['parameters'], 'parameter')}, logp {summary['logp']:.9g} at the mode"
    lines = [f"{summary['model']}: {about}"]
    shown = rows[:ROWS_SHOWN]
    width = max(len(row["name"]) for row in shown)
    lines.append(f"{'':<{width}}  {'mode':>12} {'std. error':>12}")
    for row in shown:
        error = "-" if row["error"] is None else format(row["error"], ".4g")
        lines.append(f"{row['name']:<{width}}  {row['mode']:>12.6g} {error:>12}")
    if len(rows) > len(shown):
        lines.append(f"and {len(rows) - len(shown)} more")
    if len(summary["starts"]) > 1:
        lines.append("logp from each start: " + ", ".join(f"{value:.6g}" for value in summary["starts"]))
    lines.append(_verdict(summary, mode))
    if summary["out"]:
        lines.append(f"wrote {summary['out']}")
    return "\n".join(lines)


def _verdict(summary: dict[str, Any], mode: Mode) -> str:
    steps = f"{summary['iterations']} iterations, {summary['seconds']['total']:.2f} s"
    if mode.hessian is None:
        state = "found" if mode.is_found else f"NOT FOUND: {mode.message}"
        return f"mode {state} (largest entry of the gradient {summary['largest_gradient']:.2g}; {steps})"
    if mode.covariance is None:
        return f"NOT A MODE: the Hessian is not negative definite, so there are no standard errors ({steps})"
    if mode.flat:
        names = list(summary["theta"])
        return (
            f"NOT A MODE: the log-density is flat along {listed([names[k] for k in mode.flat])}; the maximum "
            f"may be at infinity, or at the bound of a constraint ({steps})"
        )
    state = "found" if mode.is_found else f"NOT FOUND: {mode.message}"
    return f"mode {state} (within {mode.distance:.2g} standard errors; {steps})"
