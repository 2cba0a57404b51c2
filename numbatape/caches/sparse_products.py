"""The base of the sparse caches: one lane for each colour of a pattern, entries taken from the products."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse

from ..jit.steady import CALLED
from ..programs.arguments import Flattened
from ..programs.contract import require_real
from ..programs.roles import as_constants
from ..programs.variant import VariantWorkspace
from ..sparse.compression import Compression
from ..sparse.pattern import Pattern, among_rows
from ..steady_calls.front import Front
from ..steady_calls.outs import Out
from .base import PreparedCache
from .dense_jacobian import rows_in_lanes
from .derived import Derived, active_leaves, outputs_of


class ColourSeeds:
    """The directions of a compression, one for each colour, split into the leaves that they belong to."""

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
class KnownPattern:
    """What is known of a function for one variant at one set of sizes."""

    pattern: Pattern | None
    compression: Compression
    derived: Derived
    data: np.ndarray
    indptr: np.ndarray  # All rows have an entry here, also those of constant outputs.

    def matrix(self, products: np.ndarray, place: np.ndarray, reuse: bool) -> scipy.sparse.csr_array:
        """Return the matrix whose entries are at some places in products."""
        data = self.compression.entries(products, self.data if reuse else None, place)
        return self.compression.matrix(data, self.indptr)


class SparseCache(PreparedCache, ABC):
    """Base of the sparse caches: compressed products of one derivative."""

    choices = ("_given_pattern", "_check")
    _given_pattern = None
    _check = False
    prepared_in_call = False  # whether the next call is for the arguments and the run of the preparation

    def _ready(self) -> None:
        require_real(self._prepared, "a sparse derivative")
        self._known: dict[tuple, KnownPattern] = {}
        self._differentiating = Front(self._turn, self._general)

    def _matrix_at(self, args: tuple, variables: dict) -> scipy.sparse.csr_array:
        """Serve a call of a one-shot verb, which wants the sparse derivative alone.

        Parameters
        ----------
        variables
            The values of variables of the function that differ from call to call, by their `MovingName`.
        """
        front = self._differentiating
        serve = front.call if front.keywords or not variables else self._general
        return serve(*args, **variables)[-1]

    def _omitted(self, args: tuple) -> frozenset[int] | None:
        omitted = super()._omitted(args)
        return omitted - {-1} if omitted is not None and self._program.variables["moving"] else omitted

    def _flatten_all(self, args: tuple, variables: dict) -> Flattened:
        """Take arguments apart, with the values of variables that differ from call to call."""
        if variables:
            self._kwargs = as_constants(variables)
        return self._flatten(args)

    @abstractmethod
    def _general(self, *args, **variables):
        """Serve any call, and arrange for the next one like it to be steady."""

    def _derived(self, transform: Callable, lanes: bool) -> Derived:
        """Return a derivative of what the cache traces: the function, or its first result alone."""
        program = self._program
        of_first = program.transform is not None
        return Derived(program.function, program.config, transform, lanes, of_first, **program.variables)

    def _primal(self, flat: Flattened) -> VariantWorkspace:
        """Return a sweep of the function: that of the preparation, if that is a part of the call."""
        if self.prepared_in_call:
            self.prepared_in_call = False
        else:
            self._space = self._evaluator.forward(flat)
        return self._space

    def _derivatives(self) -> list[Derived]:
        return [*super()._derivatives(), *(known.derived for known in self._known.values())]

    def _known_for(self, flat: Flattened, primal: VariantWorkspace) -> KnownPattern:
        """Return pattern and colouring for the path and the sizes of a sweep of the function."""
        # The key has the variant itself: the id of one that was freed may be used again.
        key = primal.variant, primal.dimensions
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
        found = KnownPattern(detected, compression, self._derivative(compression), data, indptr)
        self._known[key] = found
        return found

    def _fill(self, flat: Flattened, primal: VariantWorkspace, samples, part: int):
        """Return (matrix, workspace) of the compressed derivative in a part of its recorded result."""
        known = self._known_for(flat, primal)
        shapes = self._shapes(flat, primal, known.compression)
        return self._matrix(flat, primal, known, samples, shapes, part), known

    def _matrix(self, flat: Flattened, primal, known: KnownPattern, samples, shapes, part: int):
        """Return the matrix, from products whose parts have the given shapes."""
        compression = known.compression
        products = _products(compression, shapes)

        def visit(space: VariantWorkspace, first: int, count: int) -> None:
            _gather(products[first : first + count], _parts(space, part), shapes)

        if compression.lanes:
            chunk = self._program.config.chunk_size
            known.derived.columns(flat, samples, visit, chunk, primal, ColourSeeds(compression, samples))
        return known.matrix(products, compression.place, self._program.config.reuse_buffers)

    def _learn(self, flat: Flattened, known: KnownPattern, made, outs: list[Out] | None, args, part: int):
        """Let calls like the last one be served by a steady call, if it took one sweep.

        Parameters
        ----------
        made
            What the call returned; its last leaf is the matrix.
        outs
            How each other leaf is made.
        """
        derived, pattern, space = known.derived, known.pattern, known.derived.last
        # A steady call goes on when constants have changed, and does not ask whether the pattern still holds.
        fixed = pattern is None or not pattern.varies or len(active_leaves(flat)) == len(flat.specs)
        if space is None or outs is None or self._check or not fixed or self._program.transform is not None:
            return
        reuse = self._program.config.reuse_buffers
        views, shapes = _parts(space, part), self._shapes(flat, self._space, known.compression)
        if len(views) == 1 and views[0].ndim > len(shapes[0]) and views[0].dtype == float:
            products, place = known.compression.in_memory(views[0])

            def matrix():
                return known.matrix(products, place, reuse)

        else:
            gathered = _products(known.compression, shapes)

            def matrix():
                _gather(gathered, views, shapes)
                return known.matrix(gathered, known.compression.place, reuse)

        outs = [*outs, Out(CALLED, matrix)]
        derived.teach(self._differentiating, space, made, outs, self._omitted(args))

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


def _parts(space: VariantWorkspace, part: int) -> list[np.ndarray]:
    """Return the products that a sweep has left, one view for each leaf of a part of the recorded result."""
    return outputs_of(space, space.variant.recording.result[part])


def _products(compression: Compression, shapes) -> np.ndarray:
    """Return room for products: one row for each lane."""
    return np.empty((max(1, compression.lanes), sum(int(np.prod(shape)) for shape in shapes)))


def _gather(rows: np.ndarray, views, shapes) -> None:
    """Copy products to rows, one for each of the first lanes."""
    column = 0
    for view, shape in zip(views, shapes, strict=True):
        size = int(np.prod(shape))
        rows[:, column : column + size] = rows_in_lanes(view, len(rows), shape)
        column += size


def entries_of(flat: Flattened) -> int:
    return sum(int(np.size(leaf)) for leaf, _ in active_leaves(flat))


def random_directions(flat: Flattened) -> list:
    rng = np.random.default_rng(0)
    return [rng.normal(size=np.shape(leaf)).astype(spec.dtype)[()] for leaf, spec in active_leaves(flat)]


def as_vector(parts) -> np.ndarray:
    return np.concatenate([np.ravel(part) for part in parts] or [np.zeros(0)])
