"""Sparsity patterns, read off a tape at given sizes: which output cell depends on which input cells.

A walk over the instructions in program order gives each active cell the set of input cells that it
depends on (`index_sets`). Operands without a partial derivative contribute nothing, as in the reverse
sweep. A pattern holds for one variant: its guards say which branches were taken.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from ..engine.plan import Plan
from ..tape.shared_results import Results
from ..tape.tape import FAMILY_DTYPE
from .index_sets import IndexSets
from .walk import Cells, Walk, view_in

MOST = 4  # patterns that are kept of one tape at the same sizes, for different constants


@dataclass(frozen=True, eq=False)
class Pattern:
    """Where a derivative may be nonzero.

    Attributes
    ----------
    matrix
        `scipy.sparse.csr_array` of bool: rows are output cells (input cells for a Hessian),
        columns are the cells of the active inputs, each in order and in C order.
    positions
        ``(family, first cell, shape, strides, contents)`` of each constant index array that the
        pattern relied on.
    varies
        Whether one of them is no literal, so that other constants may give another pattern.
    """

    matrix: scipy.sparse.csr_array
    positions: tuple
    varies: bool

    def of(self, matrix: scipy.sparse.csr_array) -> Pattern:
        """Return the same pattern in another matrix."""
        return Pattern(matrix, self.positions, self.varies)

    def holds(self, cells: Cells) -> bool:
        """Whether the constant index arrays in a workspace's cells are those of the pattern."""
        return all(np.array_equal(view_in(cells, *place), kept) for *place, kept in self.positions)


def literal_cells(plan: Plan) -> Cells:
    """Return value cells in which nothing is known but the tape's literals; the rest is NaN."""
    cells = tuple(np.full(n, np.nan, FAMILY_DTYPE[f]) for f, n in enumerate(plan.cells))
    plan.write_literals(cells)
    return cells  # type: ignore[return-value]


def jacobian_pattern(plan: Plan, cells: Cells | None = None) -> Pattern:
    """Return the pattern of the Jacobian of a tape's outputs with respect to its active inputs.

    Parameters
    ----------
    plan
        A tape at given sizes.
    cells
        Value cells of a workspace whose prologue has run (`Workspace.v`): constant index arrays
        are read there. Without them only literal ones are known, and what is gathered at other
        positions may depend on everything.

    Returns
    -------
    Pattern
        Of all output cells, one output after the other.
    """

    def matrix(walk: Walk) -> scipy.sparse.csr_array:
        return matrix_of(walk.sets, walk.outputs())

    return _pattern(matrix, plan, cells)


def hessian_pattern(plan: Plan, cells: Cells | None = None, output: int | None = None) -> Pattern:
    """Return the pattern of the Hessian of one scalar output, from the tape of the function itself.

    Each nonlinear instruction lets what its operands depend on interact (Walther, *Computing sparse
    Hessians with automatic differentiation*, 2008): the pattern is symmetric and contains the true
    one; it is larger where interactions cancel or where an array op is taken as dense.

    Parameters
    ----------
    plan, cells
        As in `jacobian_pattern`.
    output
        Number of the output; None: all of them count.
    """

    def matrix(walk: Walk) -> scipy.sparse.csr_array:
        left, right = walk.interactions()
        pairs = matrix_of(walk.sets, left).T @ matrix_of(walk.sets, right)
        return as_bool(pairs + pairs.T)

    return _pattern(matrix, plan, cells, second_order=True, output=output)


def _pattern(matrix: Callable[[Walk], Any], plan: Plan, cells: Cells | None, **options) -> Pattern:
    """Return a pattern, from what is kept if an equal tape had the same sizes and the same constants.

    Callers may change the matrix that they get.
    """
    key = plan.dimensions, plan.bases.tobytes(), cells is None, *options.values()
    kept = _kept.of(plan.tape, key, list)
    given = literal_cells(plan) if cells is None else cells
    found = next((pattern for pattern in kept if pattern.holds(given)), None)
    if found is None:
        walk = Walk(plan, given, **options)
        walk.run()
        found = Pattern(matrix(walk), walk.positions(), walk.varies())
        if cells is None or walk.is_complete:
            kept[MOST - 1 :] = []
            kept.insert(0, found)
    return found.of(found.matrix.copy())


_kept: Results[list[Pattern]] = Results()


def matrix_of(sets: IndexSets, numbers: np.ndarray) -> scipy.sparse.csr_array:
    """Return a matrix of bool with one row per set."""
    indptr, indices = sets.resolve(numbers)
    data = np.ones(len(indices), bool)
    return scipy.sparse.csr_array((data, indices, indptr), shape=(len(numbers), sets.size))


def among_rows(indptr: np.ndarray, count: int, rows: np.ndarray) -> np.ndarray:
    """Return the ``indptr`` of a matrix of ``count`` rows, of which those with entries have these numbers."""
    if len(rows) == count:
        return indptr
    lengths = np.zeros(count, indptr.dtype)
    lengths[rows] = np.diff(indptr)
    return np.concatenate([np.zeros(1, indptr.dtype), np.cumsum(lengths, dtype=indptr.dtype)])


def as_bool(matrix) -> scipy.sparse.csr_array:
    """Return where a sparse matrix has entries: CSR of bool, sorted, each entry once."""
    result = scipy.sparse.csr_array(matrix)
    result.sum_duplicates()
    data = np.ones(len(result.indices), bool)
    return scipy.sparse.csr_array((data, result.indices, result.indptr), shape=result.shape)
