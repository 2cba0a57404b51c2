"""`value_and_jacobian`, and the base of the caches that serve it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from . import dense_jacobian as dense
from .arguments import Flattened
from .base import PreparedCache
from .delivery import write_into
from .derived import Derived
from .front import Front
from .one_at_a_time import one_at_a_time


class JacobianCache(PreparedCache, ABC):
    """Base of the caches that compute dense Jacobians, by columns or by rows."""

    by_columns: bool  # whether a direction of a sweep is a column of the Jacobian; otherwise it is a row

    def _ready(self) -> None:
        self._differentiating = Front(self._turn, self._general)

    def jacobian(self, args):
        """Return the value and the Jacobian, in sweeps over chunks of columns or rows.

        `value_and_jacobian` calls this.

        Parameters
        ----------
        args : tuple
            The function's arguments, like those that the cache was prepared with; `Constant` and `Static`
            ones may be left out.

        Returns
        -------
        value : array, number, or pytree of them
            The function's result.
        jacobian : numpy.ndarray or pytree of them
            Of shape output shape + input shape; for containers see `value_and_jacobian`.

        Raises
        ------
        SpecError
            If the arguments do not fit.

        Examples
        --------
        >>> import numpy as np, numbatape as nt
        >>> cache = nt.prepare_pullback_cache(np.cumsum, np.ones(2))
        >>> cache.jacobian((np.ones(2),))[1]
        array([[1., 0.],
               [1., 1.]])
        """
        return self._differentiating.call(*args)

    @one_at_a_time
    def _general(self, *args):
        flat = self._flatten(args)
        derived, value, assembled = self._assembled(flat)
        if not self._program.config.friendly_tangents:
            return value, dense.one_matrix(flat, assembled)
        chosen = sorted(k for k in flat.differentiated if k >= 0)
        made = value, dense.arranged(assembled, chosen, single=len(chosen) == 1)
        outs = dense.outs_of(flat, derived, self.by_columns)
        if derived.last is not None and outs is not None:
            derived.teach(self._differentiating, derived.last, made, outs, self._omitted(args))
        return made

    @abstractmethod
    def _assembled(self, flat: Flattened) -> tuple[Derived, Any, Any]:
        """Return the derivative that was swept, the value, and the Jacobians of its leaves."""


def value_and_jacobian(cache, *args, out=None):
    """Return the function's value and its Jacobian.

    Parameters
    ----------
    cache : DerivativeCache or PullbackCache
        Computes columns by forward mode, or rows by reverse mode.
    *args : arrays, numbers, pytrees of them, `Constant`, `Static` or `Cache`
        Like those that the cache was prepared with.
    out : array or pytree of them, optional
        Arrays to write the Jacobian to, in its structure (None to skip one).

    Returns
    -------
    value : array, number, or pytree of them
        ``f(*args)``.
    jacobian : numpy.ndarray or pytree of them
        Of shape output shape + input shape. For containers the result's tree, with the Jacobian of each
        leaf in its place: a tuple with one entry for each differentiated argument if there are several. One
        matrix with ``friendly_tangents=False``.

    Raises
    ------
    SpecError
        If the arguments do not fit.
    OutputError
        If the function returns complex numbers for complex arguments.
    TypeError
        If the cache was prepared for something else.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> cache = nt.prepare_pullback_cache(lambda x: np.stack([x[0] * x[1], x[0]]), np.ones(2))
    >>> nt.value_and_jacobian(cache, np.array([2.0, 3.0]))
    (array([6., 2.]), array([[3., 2.],
           [1., 0.]]))
    """
    if not hasattr(cache, "jacobian"):
        raise TypeError(
            "value_and_jacobian needs a cache of prepare_derivative_cache or prepare_pullback_cache, got "
            f"{type(cache).__name__}"
        )
    if out is None:
        return cache.jacobian(args)
    value, matrix = cache.jacobian(args)
    return value, write_into(out, matrix, "argument")
