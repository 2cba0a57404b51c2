"""`to_nutpie`: a log-density as a model that nutpie samples."""

from __future__ import annotations

import threading

import numpy as np

from ..caches.arguments import Constant
from ..caches.gradient import prepare_gradient_cache, value_and_gradient
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
        Keyword arguments of ``logp``: arrays and numbers. ``model.with_data(name=value)`` changes them
        without a new trace.
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
    pyfunc = package("nutpie.compiled_pyfunc", "to_nutpie", "nutpie")
    density = density_of(logp, start, transforms, dims, coords)
    data = {name: np.asarray(value) for name, value in (data or {}).items()}
    names = tuple(data)

    def function(vector, *values):
        return density(vector, **dict(zip(names, values, strict=True)))

    function.__wrapped__ = density  # type: ignore[attr-defined]
    first = prepare_gradient_cache(function, density.start, *map(Constant, data.values()))
    value, _ = value_and_gradient(first, density.start)
    if not np.isfinite(value):
        raise SpecError(
            f"the log-density at the starting point is {value}; nutpie needs one that is finite "
            "there. Prepare a cache with nt.Config(debug_mode=True) to see where the first NaN comes from"
        )
    caches = threading.Lock()

    def make_logp():
        with caches:
            cache = first.clone()  # the memory of one chain

        def logp_and_gradient(x, **shared):
            try:
                value, grads = value_and_gradient(cache, x, *(shared[name] for name in names))
            except np.linalg.LinAlgError as error:
                error.is_recoverable = True  # type: ignore[attr-defined]  # a divergence
                raise
            return value, grads[0]

        return logp_and_gradient

    def make_expand(*_seeds):
        def expand(x, **_shared):
            vector = np.asarray(x)
            return {
                path: np.asarray(leaf, float)
                for path, leaf in density.by_path(density.constrain(vector)).items()
            }

        return expand

    def initial(seed):
        jitter = np.random.default_rng(seed).uniform(-JITTER, JITTER, density.size)
        return density.start + jitter

    return pyfunc.from_pyfunc(
        density.size,
        make_logp,
        make_expand,
        [np.dtype(float)] * len(density.shapes),
        list(density.shapes.values()),
        list(density.shapes),
        dims={path: tuple(axes) for path, axes in density.dims.items()},
        coords=dict(density.coords),
        shared_data=data,
        make_initial_point_fn=initial,
    )
