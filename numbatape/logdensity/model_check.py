"""``numbatape check``: value against NumPy, gradient against finite differences."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from numbatape.logdensity.columns import thetas_of
from numbatape.logdensity.draws import Draws, read_draws
from numbatape.logdensity.evaluate import Worker
from numbatape.logdensity.exits import InputError, ModelError, running_model
from numbatape.logdensity.matrix import Matrix, finite_rows
from numbatape.logdensity.models import Model, import_path, load_model
from numbatape.logdensity.progress import counted

VALUE_RTOL = 1e-10
# Five-point differences have a truncation error of about STEP**4, and a rounding error of eps / STEP.
STEP = 1e-3


def check(options: argparse.Namespace) -> tuple[dict[str, Any], str, int]:
    """Run the command; exit code 1 if value or gradient is off."""
    with import_path(options.model):
        # Files are read before the model runs, which may change the directory that relative paths start from.
        draws = read_draws(*options.draws) if options.draws else None
        model = load_model(options.model, options.data)
        points, names = _points(options, model, draws)
        worker = Worker(model, points[0])
        reports = [_compare(model, worker, theta, names, options.rtol) for theta in points]
    passed = all(report["passed"] for report in reports)
    summary = {
        "command": "check",
        "model": model.label,
        "passed": passed,
        "points": reports,
        "one_by_one": dict(worker.alone),
    }
    lines = [f"{model.label}: {counted(points.shape[1], 'parameter')}, {counted(len(points), 'point')}"]
    for k, report in enumerate(reports):
        state = "ok" if report["passed"] else "FAILED"
        lines.append(f"point {k}: {state}, logp {_shown(report['logp'])} (NumPy {_shown(report['numpy'])})")
    lines += _table(reports)
    for why, count in worker.alone.items():
        lines.append(f"one draw at a time: {count} draws, because nt.batch raised {why}")
    unknown = sum(report["numpy"] is None for report in reports)
    if unknown:
        lines.append(f"the log-density is not finite at {counted(unknown, 'point')}")
    if unknown < len(reports):
        lines.append("value and gradient agree" if passed else "value or gradient disagrees")
    return summary, "\n".join(lines), 0 if passed else 1


def _table(reports: list[dict[str, Any]]) -> list[str]:
    """Return all coordinates as the lines of a table, each at the point where it is worst, worst first."""
    worst: dict[str, tuple[float, int, dict[str, Any]]] = {}
    for point, report in enumerate(reports):
        for row in report["coordinates"]:
            error = np.inf if row["error"] is None else row["error"]
            if row["name"] not in worst or error > worst[row["name"]][0]:
                worst[row["name"]] = error, point, row
    rows = sorted(worst.values(), key=lambda found: -found[0])
    width = max(len("coordinate"), *map(len, worst))
    lines = [f"{'coordinate':<{width}}  {'error':>9} {'gradient':>24} {'finite differences':>24}  point"]
    for error, point, row in rows:
        gradient, differences = (_shown(row[key]) for key in ("gradient", "differences"))
        lines.append(f"{row['name']:<{width}}  {error:>9.2g} {gradient:>24} {differences:>24}  {point}")
    return lines


def _points(options: argparse.Namespace, model: Model, draws: Draws | None) -> tuple[Matrix, list[str]]:
    """Return the points to check at, and the names of their coordinates."""
    if draws is not None:
        thetas = thetas_of(model, draws)
        thetas = thetas[finite_rows(thetas)][: options.points]
        if len(thetas) == 0:
            raise InputError(f"{draws.source}: no draw is finite")
    else:
        start = model.parameters.start
        known = len(model.names or ()) if start is None else start.size
        size = options.size or known
        if not size:
            raise InputError(f"{model.path}: has no `names`; give --size or --draws")
        thetas = np.random.default_rng(options.seed).normal(scale=0.3, size=(options.points, size))
        if start is not None and start.size == size:
            thetas += start
    names = list(model.names or ())
    if len(names) != thetas.shape[1]:
        names = [f"theta[{k}]" for k in range(thetas.shape[1])]
    return thetas, names


def _compare(model: Model, worker: Worker, theta: Matrix, names: list[str], rtol: float) -> dict[str, Any]:
    """Compare value and gradient of the compiled model with NumPy's value and differences at a point."""
    table = np.empty((1, 1 + theta.size))
    worker.fill([0], theta[None], table)
    logp, gradient = float(table[0, 0]), table[0, 1:]
    plain = _numpy_value(model, theta)
    differences = np.array([_difference(model, theta, k) for k in range(theta.size)])

    scale = max(1.0, float(np.max(np.abs(gradient), initial=0.0, where=np.isfinite(gradient))))
    error = np.abs(gradient - differences) / scale
    order = np.argsort(-np.where(np.isnan(error), np.inf, error), kind="stable")
    rows = [
        {
            "name": names[k],
            "gradient": _json_number(gradient[k]),
            "differences": _json_number(differences[k]),
            "error": _json_number(error[k]),
        }
        for k in order
    ]
    value_ok = abs(logp - plain) <= VALUE_RTOL * max(1.0, abs(plain)) or _same(logp, plain)
    return {
        "passed": bool(value_ok and error[order[0]] <= rtol),
        "logp": _json_number(logp),
        "numpy": _json_number(plain),
        "worst": rows[0],
        "coordinates": rows,
        "theta": theta.tolist(),
    }


def _numpy_value(model: Model, theta: Matrix) -> float:
    """Call the model as the plain NumPy function that it is."""
    with running_model(f"{model.label}: evaluation by NumPy"), np.errstate(all="ignore"):
        value = model.logp(theta.copy(), *model.arguments)
    if np.shape(value) != ():
        raise ModelError(f"{model.label} returned shape {np.shape(value)}, expected a number")
    return float(value)


def _difference(model: Model, theta: Matrix, k: int) -> float:
    """Return the central difference of order four along one coordinate."""
    step = STEP * max(1.0, abs(float(theta[k])))

    def at(multiple: int) -> float:
        moved = theta.copy()
        moved[k] += multiple * step
        return _numpy_value(model, moved)

    return (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * step)


def _same(a: float, b: float) -> bool:
    return a == b or (np.isnan(a) and np.isnan(b))


def _shown(number: float | None) -> str:
    return "not finite" if number is None else repr(number)


def _json_number(number: float) -> float | None:
    return float(number) if np.isfinite(number) else None
