"""`to_nutpie`: a log-density as a model that nutpie samples."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..caches.arguments import Constant
from ..caches.gradient import prepare_gradient_cache, value_and_gradient
from ..caches.provenance import why_nonfinite
from ..errors import SpecError
from .vector_functions import density_of, package

JITTER = 1.0  # of initial points, in units of the unconstrained parameters: what PyMC adds


def to_nutpie(logp, start=None, transforms=None, *, data=None, dims=None, coords=None):
    """Return a model for ``nutpie.sample``.

    Each chain gets a cache of its own, whose sweeps release the GIL, so that chains run on several cores.

    Parameters
    ----------
    logp : callable or Unconstrained
        ``logp(parameters, **data)`` → log-density; or what `transforms.unconstrained` returned.
    start : array, number, or pytree of them, optional
        Parameters that satisfy the constraints: structure, shapes and starting point. Left out where
        ``logp`` is an `Unconstrained`.
    transforms : Transform or pytree of them, optional
        Constraints, as for `transforms.unconstrained`.
    data : dict, optional
        Keyword arguments of ``logp``: arrays, numbers, and containers of them (lists of numbers are
        arrays). ``model.with_data(name=value)`` changes them without a new trace.
    dims, coords : dict, optional
        Names of the parameters' axes, and labels along them; see `transforms.unconstrained`.

    Returns
    -------
    nutpie.compiled_pyfunc.PyFuncModel
        To be sampled; draws have the constrained parameters, by their paths.

    Raises
    ------
    ModuleNotFoundError
        If nutpie is not installed.
    SpecError
        If the log-density is not finite at the starting point.

    Examples
    --------
    >>> import numpy as np
    >>> from numbatape import transforms
    >>> from numbatape.integrations import to_nutpie
    >>> def logp(p, y):
    ...     return np.sum(-0.5 * ((y - p["mu"]) / p["sigma"]) ** 2 - np.log(p["sigma"])) - p["sigma"]
    >>> y = np.array([1.0, 2.0, 3.0])
    >>> start = {"mu": 0.0, "sigma": 1.0}
    >>> model = to_nutpie(logp, start, {"sigma": transforms.positive}, data={"y": y})  # doctest: +SKIP
    >>> trace = nutpie.sample(model)  # doctest: +SKIP
    """
    package("nutpie.compiled_pyfunc", "to_nutpie", "nutpie")
    density = density_of(logp, start, transforms, dims, coords)
    data = {name: _as_data(value) for name, value in (data or {}).items()}
    names = tuple(data)

    def function(vector, *values):
        return density(vector, **dict(zip(names, values, strict=True)))

    function.__wrapped__ = density  # type: ignore[attr-defined]
    first = prepare_gradient_cache(function, density.start, *map(Constant, data.values()))
    value, _ = value_and_gradient(first, density.start)
    if not np.isfinite(value):
        raise SpecError(
            f"the log-density at the starting point is {value}; nutpie needs one that is finite there: "
            + why_nonfinite(first, density.unconstrained_names, density.start)
        )
    caches = threading.Lock()

    def make_logp():
        with caches:
            cache = first.clone()  # the memory of one chain

        def logp_and_gradient(x, **shared):
            try:
                value, grads = value_and_gradient(cache, x, *(shared[name] for name in names))
            except np.linalg.LinAlgError as error:
                raise recoverable(error) from None
            return value, grads[0]

        return logp_and_gradient

    def expand(x, **_shared):
        vector = np.asarray(x)
        return {
            path: np.asarray(leaf, float) for path, leaf in density.by_path(density.constrain(vector)).items()
        }

    def initial(seed):
        return density.start + jitter(seed, density.size)

    return pyfunc_model(
        density.size,
        make_logp,
        expand,
        density.shapes,
        dims=density.dims,
        coords=density.coords,
        data=data,
        initial=initial,
    )


def _as_data(value):
    """Return data as the model gets them: a list of numbers is meant as an array."""
    return np.asarray(value) if isinstance(value, (list, tuple)) else value


def _labels(along):
    """Return labels as nutpie takes them: an array of numbers, or a list of strings."""
    labels = np.asarray(along)
    return labels if labels.dtype.kind in "iuf" else [str(label) for label in labels]


def jitter(seed: int, size: int, radius: float = JITTER) -> np.ndarray:
    """Return what is added to a starting point: uniform numbers between -radius and radius."""
    return np.random.default_rng(seed).uniform(-radius, radius, size)


def recoverable(error: Exception) -> Exception:
    """Return an error that nutpie takes for a divergence, after which the chain goes on."""
    error.is_recoverable = True  # type: ignore[attr-defined]
    return error


def pyfunc_model(
    size: int,
    make_logp: Callable,
    expand: Callable,
    shapes: Mapping[str, tuple[int, ...]],
    *,
    initial: Callable,
    dims: Mapping[str, Any] | None = None,
    coords: Mapping[str, Any] | None = None,
    data: Mapping[str, Any] | None = None,
):
    """Return nutpie's model of a log-density and its gradient.

    Parameters
    ----------
    size
        The length of the vector that is sampled.
    make_logp
        Makes the function of one chain: ``logp(x, **data)`` → (value, gradient).
    expand
        ``expand(x, **data)`` → the arrays that are kept of each draw, by name.
    shapes
        Of these arrays.
    initial
        ``initial(seed)`` → a point at which a chain may start.
    dims, coords
        Names of the arrays' axes, and labels along them.
    data
        What ``model.with_data`` may change: arrays, and containers of them.
    """
    pyfunc = package("nutpie.compiled_pyfunc", "sampling", "nutpie")
    return pyfunc.from_pyfunc(
        size,
        make_logp,
        lambda *_seeds: expand,
        [np.dtype(float)] * len(shapes),
        list(shapes.values()),
        list(shapes),
        dims={path: tuple(axes) for path, axes in (dims or {}).items()},
        coords={axis: _labels(along) for axis, along in (coords or {}).items()},
        shared_data=dict(data or {}),
        make_initial_point_fn=initial,
    )
