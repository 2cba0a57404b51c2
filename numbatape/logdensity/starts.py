"""Where chains and searches start, and why a model cannot start there."""

from __future__ import annotations

import contextlib
import sys

import numpy as np

import numbatape as nt
from numbatape.caches.provenance import listed, why_nonfinite
from numbatape.integrations.nutpie_model import JITTER
from numbatape.logdensity.columns import thetas_of
from numbatape.logdensity.draws import read_draws
from numbatape.logdensity.exits import InputError, ModelError, running_model
from numbatape.logdensity.matrix import Matrix, finite_rows
from numbatape.logdensity.models import Model
from numbatape.logdensity.variables import names_of


def starts_of(model: Model, init: str | None) -> tuple[Matrix, float, str]:
    """Return starting points of theta, the radius around them, and a text that identifies both.

    Parameters
    ----------
    init : str or None
        A number, the radius; or a file of draws, which are started from as they are.
    """
    if model.parameters.integers:
        names = listed([f"`{name}`" for name in model.parameters.integers])
        print(
            f"{model.label}: data, because `start` has integers there: {names} (0.0 is a parameter)",
            file=sys.stderr,
        )
    if init is not None:
        with contextlib.suppress(ValueError):
            radius = float(init)
            if not 0.0 <= radius < np.inf:
                raise InputError(f"--init {init}: the radius must be finite and not negative")
            return _own_start(model), radius, repr(radius)
        draws = read_draws(init)
        points = thetas_of(model, draws)
        if not finite_rows(points).all():
            raise InputError(f"{init}: has a point that is not finite")
        return points, 0.0, draws.sha256
    return _own_start(model), JITTER, "default"


def _own_start(model: Model) -> Matrix:
    parameters = model.parameters
    if parameters.start is not None:
        return parameters.start[None]
    if parameters.names is None:
        raise InputError(f"{model.path}: has neither `start` nor `names`; give --init with a file of points")
    return np.zeros((1, len(parameters.names)))


def require_finite(model: Model, theta: Matrix, gradient: bool = True) -> None:
    """Raise a `ModelError` unless the log-density, and its gradient, are finite at a starting point.

    The message names the term, its line, and the parameters that it depends on.
    """
    constants = [nt.Constant(value, frozen=True) for value in model.arguments]
    with running_model(f"{model.label}: the log-density at the starting point"), np.errstate(all="ignore"):
        cache = nt.prepare_gradient_cache(model.logp, theta, *constants)
        value, (slope, *_) = nt.value_and_gradient(cache, theta, *constants)
        names = names_of(model, theta.size)
        if not np.isfinite(value):
            raise ModelError(
                f"{model.label}: the log-density is {value} at the starting point: "
                + why_nonfinite(cache, names, theta)
                + "\ngive another `start` in the model, or --init"
            )
    bad = np.flatnonzero(~np.isfinite(slope))
    if gradient and bad.size:
        raise ModelError(
            f"{model.label}: the gradient is not finite at the starting point, in "
            + listed([f"{names[k]} ({slope[k]})" for k in bad])
        )
