"""Sparse Jacobians and Hessians: one lane per colour of a pattern, entries taken from the products."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from ..sparse.compression import (
    ROWS,
    Compression,
    check_product,
    compress_hessian,
    compress_jacobian,
    known_pattern,
)
from ..sparse.pattern import Pattern, among_rows, hessian_pattern, jacobian_pattern
from ..trace.nested.derived import hessian_vector, pullback, pushforward
from .arguments import Flattened
from .base import PreparedCache
from .complex_leaves import require_real
from .derived import Derived, active_leaves, outputs_of
from .directions import like_arguments
from .jacobian import float_outputs, float_rows, rows_in_lanes, samples_of
from .one_at_a_time import one_at_a_time
from .results import scalar_output, value_of
from .variant import VariantWorkspace


class Lanes:
    """Directions of a compression, split into the leaves that they belong to."""

    def __init__(self, compression: Compression, samples):
        self.compression = compression
        self.total = compression.lanes
        self._edges = np.cumsum([int(np.size(sample)) for sample in samples])[:-1]

    def write(self, views, first: int) -> None:
        """Write directions ``first``, ``first + 1``, ... into the lanes of the directions' cells."""
        last = min(first + len(views[0]), self.total)
        parts = np.split(self.compression.seeds(first, last), self._edges, axis=1)
        for view, part in zip(views, parts, strict=True):
            view[...] = 0.0
            view[: last - first] = part.reshape(last - first, *view.shape[1:])


@dataclass
class Prepared:
    """What is known for one variant at one set of sizes."""

    pattern: Pattern | None
    compression: Compression
    derived: Derived
    data: np.ndarray
    indptr: np.ndarray  # of all rows, including those of constant outputs


class SparseCache(PreparedCache, ABC):
    """Base of the sparse caches: compressed products of one derivative."""

    choices = ("_given_pattern", "_check")
    _given_pattern = None
    _check = False

    def _ready(self) -> None:
        require_real(self._prepared, "a sparse derivative")
        self._known: dict[tuple, Prepared] = {}

    def _derivatives(self) -> list[Derived]:
        return [*super()._derivatives(), *(known.derived for known in self._known.values())]

    def _known_for(self, flat: Flattened, primal: VariantWorkspace) -> Prepared:
        """Return pattern and colouring for the path and the sizes of a sweep of the function."""
        # The key has the variant itself: the id of one that was freed may be used again.
        key = primal.variant, flat.dimensions
        found = self._known.get(key)
        if found is not None and (found.pattern is None or found.pattern.holds(primal.v)):
            return found
        detected = None if self._given_pattern is not None else self._detect(primal)
        matrix = self._given_matrix(flat, primal) if detected is None else detected.matrix
        count, rows = self._rows(flat, primal)
        compression = self._compress(matrix[rows] if len(rows) < matrix.shape[0] else matrix)
        data = np.empty(len(compression.indices))
        while len(self._known) >= self._program.config.max_variants:
            del self._known[next(iter(self._known))]
        indptr = among_rows(compression.indptr, count, rows)
        found = Prepared(detected, compression, self._derivative(compression), data, indptr)
        self._known[key] = found
        return found

    def _fill(self, flat: Flattened, primal: VariantWorkspace, samples, part: int):
        """Return (matrix, workspace) of the compressed derivative in a part of its recorded result."""
        known = self._known_for(flat, primal)
        shapes = self._shapes(flat, primal, known.compression)
        return self._matrix(flat, known, samples, shapes, part), known

    def _matrix(self, flat: Flattened, known: Prepared, samples, shapes, part: int):
        """Return the matrix, from products whose parts have the given shapes."""
        compression = known.compression
        cells = sum(int(np.prod(shape)) for shape in shapes)
        products = np.empty((max(1, compression.lanes), cells))

        def visit(space: VariantWorkspace, first: int, count: int) -> None:
            column = 0
            views = outputs_of(space, space.variant.recording.result[part])
            for view, shape in zip(views, shapes, strict=True):
                size = int(np.prod(shape))
                rows = rows_in_lanes(view, count, shape)
                products[first : first + count, column : column + size] = rows
                column += size

        if compression.lanes:
            chunk = self._program.config.chunk_size
            known.derived.columns(flat, samples, visit, chunk, Lanes(compression, samples))
        reuse = self._program.config.reuse_buffers
        data = compression.entries(products, out=known.data if reuse else None)
        return compression.matrix(data, known.indptr)

    @abstractmethod
    def _rows(self, flat, primal) -> tuple[int, np.ndarray]:
        """Return how many rows the matrix has, and the numbers of those that may have entries."""

    @abstractmethod
    def _detect(self, primal) -> Pattern: ...

    @abstractmethod
    def _given_matrix(self, flat, primal) -> scipy.sparse.csr_array: ...

    @abstractmethod
    def _compress(self, matrix) -> Compression: ...

    @abstractmethod
    def _derivative(self, compression) -> Derived: ...

    @abstractmethod
    def _shapes(self, flat, primal, compression) -> list[tuple]: ...

    def __repr__(self) -> str:
        text = super().__repr__()
        for known in self._known.values():
            made = known.compression
            text = text[:-1] + f"; {made.kind}, {made.lanes} colours, {len(made.indices)} entries>"
        return text


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
        return float_rows(primal, primal.variant.recording.result)

    def _detect(self, primal):
        return output_pattern(primal)

    def _given_matrix(self, flat, primal):
        count, _ = self._rows(flat, primal)
        return known_pattern(self._given_pattern, (count, _entries(flat)))

    def _compress(self, matrix):
        return compress_jacobian(matrix)

    def _derivative(self, compression):
        config, function = self._program.config, self._program.function
        transform = pullback if compression.kind == ROWS else pushforward(config.strong_zero)
        return Derived(function, config, transform, lanes=True)

    def _shapes(self, flat, primal, compression):
        if compression.kind == ROWS:
            return [np.shape(leaf) for leaf, _ in active_leaves(flat)]
        return [view.shape for view in float_outputs(primal, primal.variant.recording.result)]

    @one_at_a_time
    def jacobian(self, args):
        """Return the value and the sparse Jacobian, for `value_and_sparse_jacobian`.

        Parameters
        ----------
        args : tuple
            The function's arguments, like those that the cache was prepared with; `Constant` and `Static`
            ones may be left out.

        Returns
        -------
        value : array, number, or pytree of them
            The function's result.
        jacobian : scipy.sparse.csr_array
            Of shape (entries of the result, entries of the differentiated arguments).

        Raises
        ------
        SpecError
            If the arguments do not fit.
        PatternError
            If a given pattern has another shape or, in check mode, misses an entry.

        Examples
        --------
        >>> import numpy as np, numbatape as nt
        >>> cache = nt.prepare_sparse_jacobian_cache(lambda x: x**2, np.ones(3))
        >>> cache.jacobian((np.arange(3.0),))[1].data
        array([0., 2., 4.])
        """
        flat = self._flatten(args)
        self._space = primal = self._evaluator.forward(flat)
        value = value_of(primal)
        samples = samples_of(flat)
        if self._known_for(flat, primal).compression.kind == ROWS:
            views = float_outputs(primal, primal.variant.recording.result)
            samples = [np.zeros(view.shape, view.dtype)[()] for view in views]
        matrix, _ = self._fill(flat, primal, samples, 1)
        if self._check:
            self._compare(flat, matrix[self._rows(flat, primal)[1]])
        return value, matrix

    def _compare(self, flat: Flattened, matrix) -> None:
        directions = _random_directions(flat)
        config = self._program.config
        plain = Derived(self._program.function, config, pushforward(config.strong_zero), lanes=False)
        space = plain.sweep(plain.extended(flat, directions))
        parts = outputs_of(space, space.variant.recording.result[1])
        check_product(matrix, _flat(directions), _flat(parts), "Jacobian")


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
        return _entries(flat), np.arange(_entries(flat))

    def _detect(self, primal):
        return hessian_pattern(primal.plan, primal.v)

    def _given_matrix(self, flat, primal):
        return known_pattern(self._given_pattern, (_entries(flat),) * 2, symmetric=True)

    def _compress(self, matrix):
        return compress_hessian(matrix)

    _shared: Derived | None = None  # the derivative of the dense cache that uses this one

    def _derivative(self, compression):
        if self._shared is not None:
            return self._shared.clone()
        return Derived(self._program.function, self._program.config, self._transform(), lanes=True)

    def _shapes(self, flat, primal, compression):
        return [np.shape(leaf) for leaf, _ in active_leaves(flat)]

    @one_at_a_time
    def hessian(self, args):
        """Return the value, the gradient and the sparse Hessian, for `value_gradient_and_sparse_hessian`.

        Parameters
        ----------
        args : tuple
            The function's arguments, like those that the cache was prepared with; `Constant` and `Static`
            ones may be left out.

        Returns
        -------
        value : numpy.floating
            The function's value.
        gradient : array, number, or pytree of them
            Of the argument's structure and shapes; with several differentiated arguments a tuple.
        hessian : scipy.sparse.csr_array
            Of all entries of the differentiated arguments by all of them.

        Raises
        ------
        SpecError
            If the arguments do not fit.
        PatternError
            If a given pattern has another shape or, in check mode, misses an entry.

        Examples
        --------
        >>> import numpy as np, numbatape as nt
        >>> cache = nt.prepare_sparse_hessian_cache(lambda x: np.sum(x**3), np.ones(3))
        >>> cache.hessian((np.arange(3.0),))[2].data
        array([ 0.,  6., 12.])
        """
        flat = self._flatten(args)
        self._space = primal = self._evaluator.forward(flat)
        matrix, known = self._fill(flat, primal, samples_of(flat), 2)
        plain = self._plain(known)
        directions = _random_directions(flat) if self._check else samples_of(flat)
        if self._check or not known.compression.lanes or known.derived.last is None:
            space = plain.sweep(plain.extended(flat, directions))
        else:
            space = known.derived.last
        result, grads, products = space.variant.recording.result
        gradient = like_arguments(flat, value_of(space, grads))
        if self._check:
            check_product(matrix, _flat(directions), _flat(outputs_of(space, products)), "Hessian")
        chosen = sorted(k for k in flat.differentiated if k >= 0)
        if len(chosen) == 1:
            gradient = gradient[chosen[0]]
        return value_of(space, result), gradient, matrix

    def _plain(self, known: Prepared) -> Derived:
        return Derived(self._program.function, self._program.config, self._transform(), lanes=False)


def output_pattern(primal: VariantWorkspace) -> Pattern:
    """Return the pattern of the Jacobian, including rows for constant leaves of the result."""
    recording = primal.variant.recording
    found = jacobian_pattern(primal.plan, primal.v)
    floats = [np.asarray(value).dtype.kind == "f" for value in recording.values]
    kept: Any = np.repeat(floats, [view.size for view in primal.outputs]) if floats else []
    count, rows = float_rows(primal, recording.result)
    own = found.matrix[np.flatnonzero(kept)]
    parts = own.data, own.indices, among_rows(own.indptr, count, rows)
    return Pattern(scipy.sparse.csr_array(parts, shape=(count, own.shape[1])), found.positions)


def _entries(flat: Flattened) -> int:
    return sum(int(np.size(leaf)) for leaf, _ in active_leaves(flat))


def _random_directions(flat: Flattened) -> list:
    rng = np.random.default_rng(0)
    return [rng.normal(size=np.shape(leaf)).astype(spec.dtype)[()] for leaf, spec in active_leaves(flat)]


def _flat(parts) -> np.ndarray:
    return np.concatenate([np.ravel(part) for part in parts] or [np.zeros(0)])


def prepare_sparse_jacobian_cache(
    f, *args, pattern=None, check=False, kwargs=None, config=None
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
    cache = SparseJacobianCache.prepare(f, args, kwargs, config, False)
    cache._given_pattern, cache._check = pattern, check
    return cache


def value_and_sparse_jacobian(cache: SparseJacobianCache, *args):
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
        raise TypeError(
            "value_and_sparse_jacobian needs a cache of prepare_sparse_jacobian_cache, got "
            f"{type(cache).__name__}"
        )
    return cache.jacobian(args)


def prepare_sparse_hessian_cache(
    f, *args, pattern=None, check=False, kwargs=None, config=None
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
    cache = SparseHessianCache.prepare(f, args, kwargs, config, False)
    cache._given_pattern, cache._check = pattern, check
    return cache


def value_gradient_and_sparse_hessian(cache: SparseHessianCache, *args):
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
        raise TypeError(
            "value_gradient_and_sparse_hessian needs a cache of prepare_sparse_hessian_cache, got "
            f"{type(cache).__name__}"
        )
    return cache.hessian(args)
