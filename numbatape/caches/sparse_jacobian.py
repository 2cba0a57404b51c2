"""The sparse Jacobian cache: columns or rows of one colour are computed as one direction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse

from ..config import Config
from ..nested.recorded_derivatives import pullback, pushforward
from ..programs.arguments import Flattened
from ..programs.contract import wrong_cache
from ..programs.results import value_of
from ..programs.variant import VariantWorkspace
from ..sparse.compression import ROWS, check_product, compress_jacobian, known_pattern, refuse_complex
from ..sparse.pattern import Pattern, among_rows, jacobian_pattern
from ..steady_calls.outs import result_outs
from ..threads import one_at_a_time
from .dense_jacobian import float_outputs, float_rows, samples_of
from .derived import active_leaves, outputs_of
from .sparse_products import SparseCache, as_vector, entries_of, random_directions


class SparseJacobianCache(SparseCache):
    """A function prepared for `value_and_sparse_jacobian`; made by `prepare_sparse_jacobian_cache`.

    A cache belongs to one thread at a time: give each thread its own `clone`.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> nt.prepare_sparse_jacobian_cache(np.sin, np.ones(3))
    <SparseJacobianCache of sin: mode sparse; ...>
    """

    mode = "sparse"

    def _rows(self, flat, primal):
        return _rows_of(primal)

    def _detect(self, primal):
        return output_pattern(primal)

    def _given_matrix(self, flat, primal):
        count, _ = self._rows(flat, primal)
        return known_pattern(self._given_pattern, (count, entries_of(flat)))

    def _compress(self, matrix):
        return compress_jacobian(matrix)

    def _derivative(self, compression):
        pushed = pushforward(self._program.config.strong_zero)
        return self._derived(pullback if compression.kind == ROWS else pushed, lanes=True)

    def _shapes(self, flat, primal, compression):
        if compression.kind == ROWS:
            return [np.shape(leaf) for leaf, _ in active_leaves(flat)]
        return [view.shape for view in float_outputs(primal, primal.variant.recording.result)]

    @one_at_a_time
    def _general(self, *args, **variables):
        """Serve any call; in check mode one product with a random direction tests the pattern."""
        flat = self._flatten_all(args, variables)
        primal = self._primal(flat)
        samples = samples_of(flat)
        if self._known_for(flat, primal).compression.kind == ROWS:
            views = float_outputs(primal, primal.variant.recording.result)
            samples = [np.zeros(view.shape, view.dtype)[()] for view in views]
        matrix, known = self._fill(flat, primal, samples, 1)
        if self._check:
            self._compare(flat, primal, matrix[self._rows(flat, primal)[1]])
        space = known.derived.last
        if space is None or self._program.transform is not None:
            return value_of(primal), matrix
        result = space.variant.recording.result[0]
        made = value_of(space, result), matrix
        self._learn(flat, known, made, result_outs(space, result), args, 1)
        return made

    def _compare(self, flat: Flattened, primal: VariantWorkspace, matrix) -> None:
        directions = random_directions(flat)
        single = self._derived(pushforward(self._program.config.strong_zero), lanes=False)
        space = single.along(flat, directions, primal)
        parts = outputs_of(space, space.variant.recording.result[1])
        check_product(matrix, as_vector(directions), as_vector(parts), "Jacobian")


def output_pattern(primal: VariantWorkspace) -> Pattern:
    """Return the pattern of the Jacobian, including rows for constant leaves of the result."""
    recording = primal.variant.recording
    found = jacobian_pattern(primal.plan, primal.v)
    floats = [np.asarray(value).dtype.kind == "f" for value in recording.values]
    kept: Any = np.repeat(floats, [view.size for view in primal.outputs]) if floats else []
    count, rows = _rows_of(primal)
    own = found.matrix[np.flatnonzero(kept)]
    parts = own.data, own.indices, among_rows(own.indptr, count, rows)
    return found.of(scipy.sparse.csr_array(parts, shape=(count, own.shape[1])))


def _rows_of(primal: VariantWorkspace) -> tuple[int, np.ndarray]:
    """Return how many rows a Jacobian has, and the numbers of those of traced floats."""
    refuse_complex(primal.variant.recording.result)
    return float_rows(primal, primal.variant.recording.result)


def prepare_sparse_jacobian_cache(
    f: Callable[..., Any],
    *args: Any,
    pattern: Any = None,
    check: bool = False,
    kwargs: dict[str, Any] | None = None,
    config: Config | None = None,
) -> SparseJacobianCache:
    """Trace a function and return its cache for `value_and_sparse_jacobian`.

    Columns or rows that have no entry in common get one colour [1]_, and each colour is one direction.

    Parameters
    ----------
    f : callable
        Plain NumPy/SciPy function with any output.
    *args : arrays, numbers, pytrees of them, `Constant`, `Static` or `Cache`
        Where to trace it: as for `prepare_gradient_cache`. Sizes and values may differ in later calls.
    pattern : sparse or dense matrix, optional
        Where entries may be; read off the tape if it is left out.
    check : bool
        Whether to compare each Jacobian with a directional derivative, to find a pattern that misses an
        entry.
    kwargs : dict, optional
        Keyword arguments, passed through; not differentiated.
    config : Config, optional
        Choices; see `Config`. With ``reuse_buffers=True`` the next call refills the entries in place.

    Returns
    -------
    SparseJacobianCache
        To be given to `value_and_sparse_jacobian`.

    Raises
    ------
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
    >>> cache = nt.prepare_sparse_jacobian_cache(lambda x: x[1:] * x[:-1], np.ones(3))
    >>> value, jacobian = nt.value_and_sparse_jacobian(cache, np.array([1.0, 2.0, 3.0]))
    >>> jacobian.toarray()
    array([[2., 1., 0.],
           [0., 3., 2.]])
    """
    cache = SparseJacobianCache._prepare(f, args, kwargs, config, False)
    cache._given_pattern, cache._check = pattern, check
    return cache


def value_and_sparse_jacobian(cache: SparseJacobianCache, *args: Any) -> Any:
    """Return the function's value and its Jacobian as a ``scipy.sparse.csr_array``.

    The arrays ``indices`` and ``indptr`` are the same objects in every call of one pattern.

    Parameters
    ----------
    cache : SparseJacobianCache
        From `prepare_sparse_jacobian_cache`.
    *args : arrays, numbers, pytrees of them, `Constant`, `Static` or `Cache`
        Like those that the cache was prepared with.

    Returns
    -------
    value : array, number, or pytree of them
        ``f(*args)``.
    jacobian : scipy.sparse.csr_array
        Rows are the entries of the result, columns those of the differentiated arguments, both in C order.

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
    >>> cache = nt.prepare_sparse_jacobian_cache(lambda x: x**2, np.ones(3))
    >>> nt.value_and_sparse_jacobian(cache, np.arange(3.0))[1].data
    array([0., 2., 4.])
    """
    if not isinstance(cache, SparseJacobianCache):
        raise wrong_cache(cache, "value_and_sparse_jacobian", "prepare_sparse_jacobian_cache")
    return cache._differentiating.call(*args)
