"""Theta, log-densities and gradients as groups of ArviZ's files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from numbatape.logdensity.arviz_files import OURS, attribute, group, read_group, write_groups
from numbatape.logdensity.exits import InputError
from numbatape.logdensity.matrix import Matrix
from numbatape.logdensity.model_parameters import Arrays
from numbatape.logdensity.variables import grouped

LP, GRADIENT = "lp", "gradient"  # among the statistics of draws
AXIS = "unconstrained_parameter"


def about_of(identity: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes of a group."""
    return {"inference_library": OURS, "inference_library_version": identity["version"], **identity}


def theta_groups(names: Sequence[str], theta: Matrix, stats: Arrays, about: dict[str, Any]) -> dict[str, Any]:
    """Return the groups of theta and of the statistics of its draws.

    Parameters
    ----------
    names
        Of theta's elements.
    theta
        Along chains and draws.
    stats
        Arrays along chains and draws; the gradient has theta's elements as its last axis.
    about
        Attributes of the groups.
    """
    return {
        "unconstrained_posterior": group(grouped(names, theta), {}, {}, about),
        "sample_stats": group(stats, {GRADIENT: (AXIS,)}, {AXIS: np.array(names)}, about),
    }


def write_arviz_result(
    path: Path,
    identity: dict[str, Any],
    names: Sequence[str],
    theta: Matrix,
    logp: Matrix,
    grad: Matrix | None,
    chains: int,
) -> None:
    """Write log-densities and gradients of draws, one chain below the other, as a file of ArviZ."""
    stats = {LP: logp.reshape(chains, -1)}
    if grad is not None:
        stats[GRADIENT] = grad.reshape(chains, -1, grad.shape[-1])
    theta = theta.reshape(chains, -1, theta.shape[-1])
    write_groups(path, theta_groups(names, theta, stats, about_of(identity)))


def read_arviz_result(path: Path, identity: dict[str, Any]) -> Matrix | None:
    """Return (logp, grad) side by side if `path` holds the finished result of this very run."""
    try:
        stats = read_group(path, "sample_stats") if path.exists() else None
    except InputError:  # another file, or a damaged one
        return None
    if stats is None or any(stats.attrs.get(key) != attribute(value) for key, value in identity.items()):
        return None
    columns = [stats[LP].to_numpy().reshape(-1, 1)]
    if identity["with_grad"]:
        columns.append(stats[GRADIENT].to_numpy().reshape(len(columns[0]), -1))
    return np.hstack(columns)
