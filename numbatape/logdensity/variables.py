"""The variables that draws of theta stand for, by name and with their shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import numbatape as nt
import numbatape.numpy as nnp
from numbatape.logdensity.element_names import by_array, element_name
from numbatape.logdensity.exits import ModelError, running_model
from numbatape.logdensity.matrix import Matrix
from numbatape.logdensity.model_parameters import Arrays
from numbatape.logdensity.models import Model


def names_of(model: Model, size: int) -> tuple[str, ...]:
    """Return a name for each element of theta."""
    return model.names or tuple(f"theta[{k}]" for k in range(size))


def variables_of(model: Model, thetas: Matrix) -> Arrays:
    """Return the model's variables for thetas with any leading axes (chains and draws)."""
    constrain = model.parameters.constrain
    if constrain is None:
        return grouped(names_of(model, thetas.shape[-1]), thetas)
    lead = thetas.shape[:-1]
    points = [thetas] if model.parameters.many else list(thetas.reshape(-1, thetas.shape[-1]))
    with running_model(f"{model.path.name}: constraining the draws"), np.errstate(all="ignore"):
        rows = [
            {name: np.asarray(value, dtype=np.float64) for name, value in constrain(point.copy()).items()}
            for point in points
        ]
    if model.parameters.many:
        return rows[0]
    first = {name: array.shape for name, array in rows[0].items()}
    for number, row in enumerate(rows):
        if {name: array.shape for name, array in row.items()} != first:
            raise ModelError(
                f"{model.path.name}: constrain returned other names or shapes at draw {number} than before"
            )
    return {name: np.reshape([row[name] for row in rows], (*lead, *shape)) for name, shape in first.items()}


def elements_of(model: Model, theta: Matrix) -> dict[str, float]:
    """Return each number of the model's variables at one theta, by its name."""
    return {
        element_name(name, index): float(array[index])
        for name, array in variables_of(model, theta).items()
        for index in np.ndindex(array.shape)
    }


def slopes_of(model: Model, theta: Matrix) -> Matrix:
    """Return the derivatives of the numbers of `elements_of` by theta."""
    constrain = model.parameters.constrain
    if constrain is None:
        positions = grouped(names_of(model, theta.size), np.arange(float(theta.size)))
        order = np.concatenate([np.ravel(array) for array in positions.values()]).astype(int)
        return np.eye(theta.size)[order]

    def vector(theta: Any) -> Any:
        return nnp.concatenate([nnp.ravel(nnp.asarray(value)) for value in constrain(theta).values()])

    vector.__wrapped__ = constrain  # type: ignore[attr-defined]
    with running_model(f"{model.path.name}: differentiating what theta stands for"):
        return np.asarray(nt.jacobian(vector)(theta), dtype=np.float64)


def grouped(names: Sequence[str], values: Matrix) -> Arrays:
    """Return columns as arrays: ``x[0]`` and ``x[1]`` become ``x``, where the indices fill an array."""
    found: Arrays = {}
    for (base, axes), places in by_array(names).items():
        columns = {index: column for index, (column,) in places.items()}
        origins = [min(index[axis] for index in columns) for axis in range(axes)]
        shape = tuple(max(index[axis] for index in columns) + 1 - origins[axis] for axis in range(axes))
        bare = base in names or any(base == other and axes != n for other, n in by_array(names))
        if axes and (max(origins) > 1 or math.prod(shape) != len(columns) or bare):
            found |= {names[column]: values[..., column] for column in columns.values()}
        else:
            order = [columns[index] for index in sorted(columns)]
            found[base] = values[..., order].reshape((*values.shape[:-1], *shape))
    return found
