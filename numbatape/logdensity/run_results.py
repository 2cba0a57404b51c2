"""What a run has left: log-densities, gradients and draws, read from its output."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from numbatape.logdensity.arviz_files import SUFFIXES as ARVIZ
from numbatape.logdensity.arviz_files import arrays_of, file_of_run, read_group
from numbatape.logdensity.arviz_results import AXIS, GRADIENT, LP
from numbatape.logdensity.columns import match_columns
from numbatape.logdensity.csvfile import parse_csv
from numbatape.logdensity.draws import read_archive, read_draws
from numbatape.logdensity.exits import InputError
from numbatape.logdensity.matrix import Matrix
from numbatape.logdensity.rawfile import read_bytes

NUMERIC = "biuf"  # kinds of dtypes of real numbers
GRADIENT_OF = "grad_"  # begins the columns of gradients in CSV


@dataclass(frozen=True)
class Results:
    """The output of `numbatape logp` or `sample`, along chains and draws.

    Attributes
    ----------
    names : tuple of str
        Of the coordinates of theta.
    lp : (chains, draws)
    gradient, theta : (chains, draws, coordinates), or None
    diverging : (chains, draws), or None
    """

    source: str
    names: tuple[str, ...]
    lp: Matrix
    gradient: Matrix | None
    theta: Matrix | None
    diverging: np.ndarray | None


def read_results(out: str) -> Results:
    """Read a file or a directory that a run has written."""
    path = Path(out)
    if path.is_dir() and path.suffix not in ARVIZ:
        path = file_of_run(path)
    suffix = path.suffix.lower()
    if suffix in ARVIZ:
        return _from_arviz(path)
    if suffix == ".npz":
        return _from_npz(path)
    if suffix == ".csv":
        return _from_csv(path)
    raise InputError(f"{out}: expected a directory of a run, or a .nc, .zarr, .npz or .csv file")


def _from_arviz(path: Path) -> Results:
    stats = read_group(path, "sample_stats")
    if stats is None or LP not in stats:
        raise InputError(f"{path}: has no `{LP}` in the group `sample_stats`")
    arrays = arrays_of(stats)
    gradient, lead = arrays.get(GRADIENT), arrays[LP].shape
    draws = read_draws(str(path))
    source = draws.theta or draws
    assert source.names is not None
    names, order = source.names, list(range(len(source.names)))
    if gradient is not None and AXIS in stats.coords:
        names = tuple(map(str, stats.coords[AXIS].to_numpy()))
        order = match_columns(names, source)  # the file has theta as arrays, perhaps in another order
    theta = source.values[:, order].reshape(*lead, -1)
    return Results(
        str(path), names, np.asarray(arrays[LP], dtype=np.float64), gradient, theta, arrays.get("diverging")
    )


def _from_npz(path: Path) -> Results:
    found = read_archive(read_bytes(path), str(path))
    lp, gradient = found.get("logp"), found.get("grad")
    if lp is None or lp.ndim != 1 or lp.dtype.kind not in NUMERIC:
        raise InputError(f"{path}: has no `logp` of several draws")
    if gradient is not None and (gradient.ndim != 2 or len(gradient) != len(lp)):
        raise InputError(f"{path}: `grad` has the shape {gradient.shape}, and `logp` {lp.shape}")
    names = found.get("names", np.empty(0, str))
    if names.ndim != 1 or (gradient is not None and names.size != gradient.shape[1]):
        raise InputError(f"{path}: `names` must hold one string for each column of `grad`")
    return _one_chain(path, lp, gradient, tuple(map(str, names)))


def _from_csv(path: Path) -> Results:
    columns, values = parse_csv(read_bytes(path), str(path))
    if "logp" not in columns:
        raise InputError(f"{path}: has no column `logp`")
    slopes = [k for k, name in enumerate(columns) if name.startswith(GRADIENT_OF)]
    names = tuple(columns[k].removeprefix(GRADIENT_OF) for k in slopes)
    return _one_chain(path, values[:, columns.index("logp")], values[:, slopes] if slopes else None, names)


def _one_chain(path: Path, lp: Matrix, gradient: Matrix | None, names: tuple[str, ...]) -> Results:
    return Results(str(path), names, lp[None], None if gradient is None else gradient[None], None, None)
