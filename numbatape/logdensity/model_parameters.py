"""What a model file says of its parameters: where they start, and what theta stands for."""

from __future__ import annotations

import types
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import numbatape as nt
from numbatape.integrations.vector_functions import traced
from numbatape.logdensity.exits import ModelError, running_model
from numbatape.logdensity.matrix import Matrix
from numbatape.trace import pytrees
from numbatape.transforms import Unconstrained, unconstrained
from numbatape.transforms.without_labels import without_labels
from numbatape.verbs.structures import path_of

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Parameters:
    """Theta, the vector without constraints, and the variables that it stands for.

    Attributes
    ----------
    names : tuple of str, or None
        Names of theta's elements.
    start : float64 array, or None
        Where samplers and optimisers start.
    constrain : callable, or None
        ``constrain(theta)`` → the variables of one theta, or of many, if `many` is True, by name. It can be
        differentiated.
    columns : tuple of str, or None
        The columns from which `from_columns` makes theta of many draws; None if `names` are those columns.
    density : callable, or None
        The log-density of theta without the Jacobian determinants of constraints; None if it has none.
    dims, coords : dict
        Names of the variables' axes, and labels along them.
    integers : tuple of str
        What `start` holds as integers: data, not parameters.
    """

    names: tuple[str, ...] | None
    start: Matrix | None = None
    constrain: Callable[[Any], dict[str, Any]] | None = None
    many: bool = False
    columns: tuple[str, ...] | None = None
    from_columns: Callable[[Matrix], Matrix] | None = None
    density: Callable[..., Any] | None = None
    dims: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    coords: Mapping[str, Any] = field(default_factory=dict)
    integers: tuple[str, ...] = ()


def read_parameters(
    module: types.ModuleType, logp: Callable[..., Any], data: tuple[Any, ...], where: str
) -> tuple[Parameters, Callable[..., Any]]:
    """Return the parameters, and the log-density of theta.

    A container as `start`, or `constraints`, says that the log-density takes constrained parameters in this
    structure; then theta is the vector that they are unconstrained to.
    """
    names, start = _names(module, where), getattr(module, "start", None)
    constraints = getattr(module, "constraints", None)
    if start is None and constraints is not None:
        raise ModelError(f"{where}: `constraints` need a `start`, which tells the parameters' shapes")
    if constraints is not None or not (start is None or _is_vector(start)):
        if names is not None:
            raise ModelError(f"{where}: has `start` as a structure and `names`; the structure has the names")
        with running_model(f"{where}: unconstraining `start`"):
            density = unconstrained(
                logp,
                start,
                constraints,
                dims=getattr(module, "dims", None),
                coords=getattr(module, "coords", None),
            )
            return _of_density(density, logp, start), density
    if start is not None:
        start = np.array(start, dtype=np.float64)
        if names is not None and len(names) != start.size:
            raise ModelError(f"{where}: `start` has {start.size} numbers, but `names` has {len(names)}")
    found = Parameters(
        names,
        start,
        constrain=_constrain(module, data, where),
        dims={name: tuple(axes) for name, axes in (getattr(module, "dims", None) or {}).items()},
        coords=dict(getattr(module, "coords", None) or {}),
    )
    return found, logp


def _is_vector(start: Any) -> bool:
    if isinstance(start, (list, tuple)):
        return all(isinstance(number, (int, float, np.number)) for number in start)
    return isinstance(start, np.ndarray) and start.ndim == 1


def _of_density(density: Unconstrained, logp: Callable[..., Any], start: Any) -> Parameters:
    """Return the parameters of a density with constraints: theta is its unconstrained vector."""
    plain = without_labels(start)[0]
    _, unflatten = nt.flatten(plain)
    leaves, structure = pytrees.flatten(plain)
    paths = zip(map(path_of, structure.paths()), leaves, strict=True)

    def constrain(thetas: Any) -> dict[str, Any]:
        return {path or "x": leaf for path, leaf in density.by_path(density.constrain(thetas)).items()}

    def from_columns(values: Matrix) -> Matrix:
        return np.asarray(density.unconstrain(unflatten(values)), dtype=np.float64)

    def constrained_density(theta: Any, *data: Any) -> Any:
        return traced(logp)(density.constrain(theta), *data)

    constrained_density.__wrapped__ = logp  # type: ignore[attr-defined]  # what it captures is watched
    return Parameters(
        names=density.unconstrained_names,
        start=density.start,
        constrain=constrain,
        many=True,
        columns=density.names,
        from_columns=from_columns,
        density=constrained_density,
        dims={path: tuple(axes) for path, axes in density.dims.items()},
        coords=dict(density.coords),
        integers=tuple(path for path, leaf in paths if type(leaf) is int),
    )


def _constrain(
    module: types.ModuleType, data: tuple[Any, ...], where: str
) -> Callable[[Any], dict[str, Any]] | None:
    """Return the model's `constrain`, with the data bound."""
    constrain = getattr(module, "constrain", None)
    if constrain is None:
        return None
    if not callable(constrain):
        raise ModelError(f"{where}: `constrain` is not a function")

    def constrained(theta: Any) -> dict[str, Any]:
        found = traced(constrain)(theta, *data)
        if not isinstance(found, dict):
            raise TypeError(
                f"constrain returned {type(found).__name__}, expected a dictionary of name to array"
            )
        return {str(name): value for name, value in found.items()}

    constrained.__wrapped__ = constrain  # type: ignore[attr-defined]  # what it captures is watched
    return constrained


def _names(module: types.ModuleType, where: str) -> tuple[str, ...] | None:
    names = getattr(module, "names", None)
    if names is None:
        return None
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise ModelError(f"{where}: `names` must be a list of strings")
    repeated = sorted(name for name, count in Counter(names).items() if count > 1)
    if repeated:
        raise ModelError(f"{where}: `names` has {', '.join(repeated)} more than once")
    return tuple(names)
