"""The variables that draws of theta stand for, by name and with their shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from numbatape.logdensity.columns import by_array
from numbatape.logdensity.exits import ModelError, running_model
from numbatape.logdensity.matrix import Matrix
from numbatape.logdensity.model_parameters import Arrays
from numbatape.logdensity.models import Model


def names_of(model: Model, size: int) -> tuple[str, ...]:
    """Return a name for each element of theta."""
    return model.names or tuple(f"theta[{k}]" for k in range(size))


def variables_of(model: Model, thetas: Matrix) -> Arrays:
    """Return the model's variables for thetas with any leading axes (chains and draws)."""
    make = model.parameters.variables
    if make is None:
        return grouped(names_of(model, thetas.shape[-1]), thetas)
    with np.errstate(all="ignore"):
        if model.parameters.many:
            with running_model(f"{model.label}: constraining the draws"):
                return make(thetas)
        rows = [make(theta) for theta in thetas.reshape(-1, thetas.shape[-1])]
    first = {name: array.shape for name, array in rows[0].items()}
    for number, row in enumerate(rows):
        if {name: array.shape for name, array in row.items()} != first:
            raise ModelError(
                f"{model.path.name}: constrain returned other names or shapes at draw {number} than before"
            )
    lead = thetas.shape[:-1]
    return {name: np.reshape([row[name] for row in rows], (*lead, *shape)) for name, shape in first.items()}


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
            found[base] = values[..., order].reshape(*values.shape[:-1], *shape)
    return found
