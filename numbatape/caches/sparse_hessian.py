"""The sparse Hessian cache: symmetry gives back each entry from few Hessian-vector products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..config import Config
from ..nested.recorded_derivatives import hessian_vector
from ..programs.contract import wrong_cache
from ..programs.results import scalar_output, value_of
from ..sparse.compression import check_product, compress_hessian, known_pattern
from ..sparse.pattern import hessian_pattern
from ..steady_calls.outs import parts_outs, result_outs
from ..threads import one_at_a_time
from .dense_jacobian import samples_of
from .derived import Derived, active_leaves, outputs_of
from .directions import like_arguments
from .sparse_products import SparseCache, as_vector, entries_of, random_directions


class SparseHessianCache(SparseCache):
    """A function prepared for `value_gradient_and_sparse_hessian`; made by `prepare_sparse_hessian_cache`.

    A cache belongs to one thread at a time: give each thread its own `clone`.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> nt.prepare_sparse_hessian_cache(np.sum, np.ones(3))
    <SparseHessianCache of sum: mode sparse; ...>
    """

    mode = "sparse"

    def _ready(self) -> None:
        super()._ready()
        scalar_output(self._space.variant.recording, "Hessian")

    def _transform(self):
        config = self._program.config
        return hessian_vector(config.second_order_mode, config.strong_zero)

    def _rows(self, flat, primal):
        return entries_of(flat), np.arange(entries_of(flat))

    def _detect(self, primal):
        return hessian_pattern(primal.plan, primal.v)

    def _given_matrix(self, flat, primal):
        return known_pattern(self._given_pattern, (entries_of(flat),) * 2, symmetric=True)

    def _compress(self, matrix):
        return compress_hessian(matrix)

    _shared: Derived | None = None  # the derivative of the dense cache that uses this one

    def _derivative(self, compression):
        if self._shared is not None:
            return self._shared.clone()
        return self._derived(self._transform(), lanes=True)

    def _shapes(self, flat, primal, compression):
        return [np.shape(leaf) for leaf, _ in active_leaves(flat)]

    @one_at_a_time
    def _general(self, *args, **variables):
        """Serve any call; in check mode one product with a random direction tests the pattern."""
        flat = self._flatten_all(args, variables)
        primal = self._primal(flat)
        matrix, known = self._fill(flat, primal, samples_of(flat), 2)
        directions = random_directions(flat) if self._check else samples_of(flat)
        if self._check or not known.compression.lanes or known.derived.last is None:
            space = self._single().along(flat, directions, primal)
        else:
            space = known.derived.last
        result, grads, products = space.variant.recording.result
        gradient = like_arguments(flat, value_of(space, grads))
        if self._check:
            check_product(matrix, as_vector(directions), as_vector(outputs_of(space, products)), "Hessian")
        chosen = flat.chosen
        if len(chosen) == 1:
            gradient = gradient[chosen[0]]
        made = value_of(space, result), gradient, matrix
        if space is known.derived.last:
            gradients = parts_outs(flat, space, grads, chosen if len(chosen) == 1 else range(flat.count))
            outs = None if gradients is None else [*result_outs(space, result), *gradients]
            self._learn(flat, known, made, outs, args, 2)
        return made

    def _single(self) -> Derived:
        return self._derived(self._transform(), lanes=False)


def prepare_sparse_hessian_cache(
    f: Callable[..., Any],
    *args: Any,
    pattern: Any = None,
    check: bool = False,
    kwargs: dict[str, Any] | None = None,
    config: Config | None = None,
) -> SparseHessianCache:
    """Trace a scalar function and return its cache for `value_gradient_and_sparse_hessian`.

    Columns get colours such that symmetry gives back each entry from one product [1]_, and each colour is
    one direction.

    Parameters
    ----------
    f : callable
        Plain NumPy/SciPy function that returns one real scalar.
    *args : arrays, numbers, pytrees of them, `Constant`, `Static` or `Cache`
        Where to trace it: as for `prepare_gradient_cache`. Sizes and values may differ in later calls.
    pattern : sparse or dense matrix, optional
        Where entries may be (one triangle is enough); read off the tape if it is left out.
    check : bool
        Whether to compare each Hessian with a directional derivative, to find a pattern that misses an entry.
    kwargs : dict, optional
        Keyword arguments, passed through; not differentiated.
    config : Config, optional
        Choices; see `Config`. With ``reuse_buffers=True`` the next call refills the entries in place.

    Returns
    -------
    SparseHessianCache
        To be given to `value_gradient_and_sparse_hessian`.

    Raises
    ------
    OutputError
        If ``f`` does not return one real scalar.
    SpecError
        If the arguments cannot be differentiated.
    UnsupportedOperationError
        If ``f`` uses what numbatape cannot differentiate; the message names the function and the line.

    References
    ----------
    .. [1] A. H. Gebremedhin, F. Manne, A. Pothen, "What color is your Jacobian? Graph coloring for computing
       derivatives", SIAM Review 47 (2005).

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> cache = nt.prepare_sparse_hessian_cache(lambda x: np.sum(x[1:] * x[:-1]), np.ones(3))
    >>> nt.value_gradient_and_sparse_hessian(cache, np.ones(3))[2].toarray()
    array([[0., 1., 0.],
           [1., 0., 1.],
           [0., 1., 0.]])
    """
    cache = SparseHessianCache._prepare(f, args, kwargs, config, False)
    cache._given_pattern, cache._check = pattern, check
    return cache


def value_gradient_and_sparse_hessian(cache: SparseHessianCache, *args: Any) -> Any:
    """Return value, gradient, and the Hessian as a ``scipy.sparse.csr_array`` of fixed structure.

    Parameters
    ----------
    cache : SparseHessianCache
        From `prepare_sparse_hessian_cache`.
    *args : arrays, numbers, pytrees of them, `Constant`, `Static` or `Cache`
        Like those that the cache was prepared with.

    Returns
    -------
    value : numpy.floating
        The function's value.
    gradient : array, number, or pytree of them
        Of the argument's structure and shapes; with several differentiated arguments a tuple.
    hessian : scipy.sparse.csr_array
        Of the argument's entries by its entries, in C order; with several differentiated arguments the
        joint one.

    Raises
    ------
    SpecError
        If the arguments do not fit.
    PatternError
        If a given pattern has another shape or, in check mode, misses an entry.
    TypeError
        If the cache was prepared for something else.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> cache = nt.prepare_sparse_hessian_cache(lambda x: np.sum(x**3), np.ones(3))
    >>> nt.value_gradient_and_sparse_hessian(cache, np.arange(3.0))[2].data
    array([ 0.,  6., 12.])
    """
    if not isinstance(cache, SparseHessianCache):
        raise wrong_cache(cache, "value_gradient_and_sparse_hessian", "prepare_sparse_hessian_cache")
    return cache._differentiating.call(*args)
