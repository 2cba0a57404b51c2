"""Functions of containers as functions of one vector, which is what optimisers and samplers take."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType

import numpy as np

from ..caches.gradient import prepare_gradient_cache, value_and_gradient
from ..caches.provenance import why_nonfinite
from ..errors import OutputError, SpecError
from ..programs.roles import Constant
from ..stand_ins import rebinding
from ..trace.trace import current
from ..transforms.density import Unconstrained, unconstrained
from ..transforms.without_labels import without_labels
from ..verbs.structures import Unflatten, flatten


def package(name: str, needed_by: str, pip: str | None = None) -> ModuleType:
    """Return an optional package; if it is not installed, say how to install it."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != name.partition(".")[0]:
            raise
        raise ModuleNotFoundError(
            f"{needed_by} needs the package {name.partition('.')[0]}, which is not installed: "
            f"pip install {pip or name}",
            name=error.name,
        ) from None


def traced(f: Callable) -> Callable:
    """Return what runs in place of a function: inside of a trace a copy that knows traced arrays."""
    return f if current() is None else rebinding.rebind(f)


def of_vector(f: Callable, start) -> tuple[Callable, np.ndarray, Unflatten]:
    """Return a function as one of a vector, the vector that a starting point is, and the way back.

    Parameters
    ----------
    f
        Function of the parameters, and of further arguments.
    start
        The parameters: an array, a number or a container of them.

    Raises
    ------
    SpecError
        If there are no floats among the parameters.
    """
    if not callable(f):
        raise TypeError(f"{f!r} is not callable")
    if isinstance(start, (list, tuple)) and all(isinstance(x, (int, float, np.number)) for x in start):
        start = np.array(start, float)  # SciPy's own functions take lists, too
    elif isinstance(start, np.ndarray) and start.dtype.kind in "iub":
        start = start.astype(float)
    start, _, _ = without_labels(start)
    vector, unflatten = flatten(start)
    if not unflatten.size:
        raise SpecError(
            f"the starting point holds no floats (got {start!r}); there is nothing to differentiate"
        )
    vector = np.array(vector, float)
    if isinstance(start, np.ndarray) and start.ndim == 1:
        return f, vector, unflatten

    def function(vector, *args, **kwargs):
        return traced(f)(unflatten(vector), *args, **kwargs)

    function.__wrapped__ = f  # type: ignore[attr-defined]  # what it captures is watched
    function.__name__ = getattr(f, "__name__", "function")
    return function, vector, unflatten


def density_of(logp, start, transforms, dims, coords) -> Unconstrained:
    """Return a model as samplers take it: a log-density of a vector, with names, and the way back."""
    if isinstance(logp, Unconstrained):
        if start is not None or transforms is not None:
            raise SpecError("a density made by transforms.unconstrained has its start and transforms already")
        return logp
    if start is None:
        raise SpecError("a starting point is needed: the parameters, as an array or a container of arrays")
    return unconstrained(logp, start, transforms, dims=dims, coords=coords)


def with_data(density: Unconstrained, data: dict) -> Callable:
    """Return a density with keyword data as a function of the vector and of the values of the data."""
    names = tuple(data)

    def function(vector, *values):
        return density(vector, **dict(zip(names, values, strict=True)))

    function.__wrapped__ = density  # type: ignore[attr-defined]  # what it captures is watched
    return function


def require_finite_start(value, density: Unconstrained, data: dict, needed_by: str) -> None:
    """Refuse a model by its log-density at the start, and say which term is not finite."""
    if np.ndim(value) or np.asarray(value).dtype.kind not in "fiub":
        got = f"an array of shape {np.shape(value)}" if np.ndim(value) else type(value).__name__
        raise OutputError(f"{needed_by} needs a log-density that returns one real number, got {got}")
    if np.isfinite(value):
        return
    gradient = prepare_gradient_cache(with_data(density, data), density.start, *map(Constant, data.values()))
    value, _ = value_and_gradient(gradient, density.start)
    raise SpecError(
        f"the log-density at the starting point is {value}; {needed_by} needs one that is finite there: "
        + why_nonfinite(gradient, density.unconstrained_names, density.start)
    )
