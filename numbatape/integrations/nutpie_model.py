"""`to_nutpie`: a log-density as a model that nutpie samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..caches.c_function import CGradient, CValue
from ..caches.gradient import prepare_gradient_cache, value_and_gradient
from ..caches.pullback import prepare_pullback_cache
from ..config import Config
from ..programs.roles import Constant
from .compiled_model import as_data, compiled_model
from .vector_functions import density_of, package, require_finite_start, with_data

JITTER = 1.0  # the spread of initial points, in units of the unconstrained parameters; PyMC's is the same


def to_nutpie(
    logp: Callable[..., Any],
    start: Any = None,
    transforms: Any = None,
    *,
    data: Any = None,
    dims: Any = None,
    coords: Any = None,
) -> Any:
    """Return a model for ``nutpie.sample``.

    nutpie's threads call the compiled sweeps directly, without Python and its lock. A call comes back to
    Python where the model takes a branch that was not traced yet.

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
    nutpie.compile_pymc.CompiledPyMCModel
        To be sampled; draws have the constrained parameters, by their paths. What ``logp`` raises ends the
        sampling and comes out of it. Data, and what ``logp`` captures, must stay as they are until it has
        ended; they are read anew when the next one begins.

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
    package("nutpie", "to_nutpie")
    density = density_of(logp, start, transforms, dims, coords)
    data = {name: as_data(value) for name, value in (data or {}).items()}
    function = with_data(density, data)
    gradient = prepare_gradient_cache(function, density.start, *map(Constant, data.values()))
    value, _ = value_and_gradient(gradient, density.start)
    require_finite_start(value, density, data, "nutpie")

    def expanded(vector):
        leaves = density.by_path(density.constrain(vector)).values()
        return np.concatenate([np.ravel(leaf).astype(float) for leaf in leaves])

    # Draws have the bits of NumPy's functions.
    values = prepare_pullback_cache(expanded, density.start, config=Config(values="numpy"))

    def functions(values_of_data, failures):
        constants = [Constant(values_of_data[name]) for name in data]
        if values_of_data is not data:  # those of `with_data`
            value, _ = value_and_gradient(gradient, density.start, *constants)
            require_finite_start(value, density, values_of_data, "nutpie")
        return CGradient(gradient, constants, failures.of_density), CValue(values, (), failures.of_draw)

    def initial(seed):
        return density.start + jitter(seed, density.size)

    return compiled_model(
        density.size,
        functions,
        density.shapes,
        dims=density.dims,
        coords=density.coords,
        data=data,
        initial=initial,
    )


def jitter(seed: int, size: int, radius: float = JITTER) -> np.ndarray:
    """Return what is added to a starting point: uniform numbers between -radius and radius."""
    return np.random.default_rng(seed).uniform(-radius, radius, size)
