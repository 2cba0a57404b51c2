"""`to_emcee`: a log-density as emcee takes it, for all walkers at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..programs.roles import Constant
from ..verbs.batch import batch
from .vector_functions import density_of, package, require_finite_start


class Walkers(dict):
    """Keywords for ``emcee.EnsembleSampler``; `to_emcee` makes it.

    Attributes
    ----------
    density : Unconstrained
        The log-density of a vector: ``density.constrain(chain)`` gives the parameters.

    Examples
    --------
    >>> from numbatape.integrations.emcee_sampler import Walkers
    >>> issubclass(Walkers, dict)
    True
    """

    def __init__(self, density, keywords: dict):
        super().__init__(keywords)
        self.density = density

    def initial(self, nwalkers: int, seed=None, spread: float = 0.1) -> np.ndarray:
        """Return starting points around the model's start, one for each walker.

        Parameters
        ----------
        nwalkers : int
        seed : int, optional
            Of NumPy's generator.
        spread : float
            Standard deviation around the start, in unconstrained numbers.

        Returns
        -------
        numpy.ndarray
            Of shape ``(nwalkers, ndim)``.

        Examples
        --------
        >>> from numbatape.integrations import to_emcee
        >>> to_emcee(lambda x: -x**2, 0.0).initial(8, seed=0).shape  # doctest: +SKIP
        (8, 1)
        """
        rng = np.random.default_rng(seed)
        return self.density.start + spread * rng.normal(size=(nwalkers, self.density.size))


def to_emcee(
    logp: Callable[..., Any],
    start: Any = None,
    transforms: Any = None,
    *,
    data: Any = None,
    dims: Any = None,
    coords: Any = None,
) -> Walkers:
    """Return keywords for ``emcee.EnsembleSampler``, with which one sweep serves all walkers.

    Parameters
    ----------
    logp : callable or Unconstrained
        ``logp(parameters, **data)`` → log-density; or what `transforms.unconstrained` returned.
    start : array, number, or pytree of them, optional
        Parameters that satisfy the constraints. Left out where ``logp`` is an `Unconstrained`.
    transforms : Transform or pytree of them, optional
        Constraints, as for `transforms.unconstrained`.
    data : dict, optional
        Keyword arguments of ``logp``.
    dims, coords : dict, optional
        As for `transforms.unconstrained`.

    Returns
    -------
    Walkers
        A dictionary to be passed as ``emcee.EnsembleSampler(nwalkers, **walkers)``;
        ``walkers.initial(nwalkers)`` are starting points,
        ``walkers.density.constrain(sampler.get_chain())`` the parameters.

    Raises
    ------
    ModuleNotFoundError
        If emcee is not installed.
    SpecError
        If the starting point does not satisfy a constraint, or the log-density is not finite there.

    Examples
    --------
    >>> import numpy as np
    >>> from numbatape.integrations import to_emcee
    >>> walkers = to_emcee(lambda x: -0.5 * np.sum(x**2), np.zeros(2))  # doctest: +SKIP
    >>> sampler = emcee.EnsembleSampler(8, **walkers)  # doctest: +SKIP
    >>> sampler.run_mcmc(walkers.initial(8), 1000)  # doctest: +SKIP
    """
    package("emcee", "to_emcee")
    density = density_of(logp, start, transforms, dims, coords)
    data = dict(data or {})
    names = tuple(data)

    def values_alone(_nothing, vector, *values):
        return density(vector, **dict(zip(names, values, strict=True)))

    values_alone.__wrapped__ = density  # type: ignore[attr-defined]
    # A batch differentiates with respect to its first argument; as nothing depends on that, it computes
    # values alone.
    many = batch(values_alone, in_axes=(0, 0, *(None for _ in names)))

    def log_prob(points):
        points = np.atleast_2d(points)
        constants = [Constant(value) for value in data.values()]
        return many(np.zeros(len(points)), Constant(points), *constants)[0]

    require_finite_start(log_prob(density.start)[0], density, data, "emcee")
    return Walkers(density, {"ndim": density.size, "log_prob_fn": log_prob, "vectorize": True})
