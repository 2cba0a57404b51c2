"""`Compression`: a coloured pattern as seeds, and the place of each entry in the products.

The derivative itself is a plain function here: lanes of directions in, lanes of products out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse

from ..errors import OutputError, PatternError
from ..trace.complex_pairs import holds_complex
from .colouring import column_colouring, row_colouring, star_colouring
from .pattern import as_bool

COLUMNS, ROWS, SYMMETRIC = "columns", "rows", "symmetric"


@dataclass(frozen=True, eq=False)
class Compression:
    """A matrix of fixed structure, to be filled from a few products.

    Attributes
    ----------
    kind
        "columns": a lane is ``J @ seed`` (forward mode), "rows": ``seed @ J`` (reverse mode),
        "symmetric": ``H @ seed``.
    shape, indices, indptr
        The CSR structure; shared by all matrices that come from here, hence read-only.
    colours
        A colour for each column (row, vertex), -1 where it has no entries.
    lanes
        Number of colours.
    place
        Where each entry is in the products, taken as one flat array.
    """

    kind: str
    shape: tuple[int, int]
    indices: np.ndarray
    indptr: np.ndarray
    colours: np.ndarray
    lanes: int
    place: np.ndarray

    def seeds(self, first: int = 0, last: int | None = None, dtype=float) -> np.ndarray:
        """Return the directions of lanes ``first`` to ``last``: (lanes, cells), ones and zeros."""
        last = self.lanes if last is None else last
        result = np.zeros((last - first, len(self.colours)), dtype)
        cells = np.flatnonzero((self.colours >= first) & (self.colours < last))
        result[self.colours[cells] - first, cells] = 1.0
        return result

    def entries(
        self, products: np.ndarray, out: np.ndarray | None = None, place: np.ndarray | None = None
    ) -> np.ndarray:
        """Return the entries in CSR order.

        Parameters
        ----------
        products
            (lanes, cells): row k is the product with seed k; or flat, see `in_memory`.
        out
            Where to put them.
        place
            Where they are in the products, if not at `place`.
        """
        place = self.place if place is None else place
        # NumPy makes a copy of ``out`` if the mode may raise.
        return products.reshape(-1).take(place, out=out, mode="raise" if out is None else "clip")

    def in_memory(self, products: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return products of shape (lanes, ...) as they are in memory, and where each entry is in these."""
        if products.flags.c_contiguous:
            return products.reshape(-1), self.place
        turned = np.moveaxis(products, 0, -1)
        # The outputs of tapes are dense, with lanes first or last, so that one of the two forms is
        # contiguous.
        assert turned.flags.c_contiguous
        lanes, cells = products.shape[0], products[0].size
        return turned.reshape(-1), self.place % cells * lanes + self.place // cells

    def matrix(self, data: np.ndarray, indptr: np.ndarray | None = None) -> scipy.sparse.csr_array:
        """Return the matrix with the given entries; nothing is copied.

        Parameters
        ----------
        indptr
            The ``indptr`` of a larger matrix, with empty rows between these; this one's own if None.
        """
        indptr = self.indptr if indptr is None else indptr
        shape = len(indptr) - 1, self.shape[1]
        result = scipy.sparse.csr_array((data, self.indices, indptr), shape=shape)
        result.indices, result.indptr = self.indices, indptr  # SciPy's constructor would make views of them
        result.has_canonical_format = True
        return result


def compress_jacobian(pattern: scipy.sparse.csr_array, mode: str = "auto") -> Compression:
    """Colour a Jacobian's pattern.

    Parameters
    ----------
    pattern
        CSR of bool in canonical format (`as_bool`).
    mode
        "forward" (columns share lanes), "reverse" (rows do), or "auto": the one of fewer lanes,
        forward where both have as many.
    """
    rows = np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr))
    least = {  # lanes, at least: the entries of the longest row, or column
        COLUMNS: int(np.diff(pattern.indptr).max(initial=0)),
        ROWS: int(np.bincount(pattern.indices, minlength=1).max()),
    }
    kinds = {"forward": [COLUMNS], "reverse": [ROWS], "auto": sorted(least, key=least.__getitem__)}[mode]
    best = None
    for kind in kinds:
        if best is not None and best.lanes <= least[kind]:
            break
        if kind == COLUMNS:
            colours = column_colouring(pattern)
            found = _compression(kind, pattern, colours, colours[pattern.indices], rows)
        else:
            colours = row_colouring(pattern)
            found = _compression(kind, pattern, colours, colours[rows], pattern.indices)
        if best is None or found.lanes < best.lanes:
            best = found
    assert best is not None
    return best


def compress_hessian(pattern: scipy.sparse.csr_array) -> Compression:
    """Colour a Hessian's pattern (symmetric, canonical): star colouring, direct recovery."""
    colours = star_colouring(pattern)
    rows = np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr))
    columns = pattern.indices
    # Entry (i, j) is alone in cell i of the lane of j's colour, or in cell j of the lane of i's.
    lanes = int(colours.max(initial=-1)) + 1
    key = rows * lanes + colours[columns]
    _, inverse, counts = np.unique(key, return_inverse=True, return_counts=True)
    alone = counts[inverse] == 1
    lane = np.where(alone, colours[columns], colours[rows])
    cell = np.where(alone, rows, columns)
    return _compression(SYMMETRIC, pattern, colours, lane, cell)


def _compression(kind, pattern, colours, lane, cell) -> Compression:
    width = pattern.shape[1] if kind == ROWS else pattern.shape[0]
    indices, indptr = pattern.indices.copy(), pattern.indptr.copy()
    for array in (indices, indptr):
        array.flags.writeable = False
    place = lane.astype(np.int64) * width + cell
    return Compression(kind, pattern.shape, indices, indptr, colours, int(colours.max(initial=-1)) + 1, place)


# ---- patterns that the caller knows


def refuse_complex(result) -> None:
    """Raise if a result has complex numbers: a matrix of real entries has no place for their derivatives."""
    if holds_complex(result):
        raise OutputError(
            "a sparse derivative needs a function that returns real numbers, got complex ones: return their "
            "real and imaginary parts (np.real, np.imag), or take nt.jacobian"
        )


def known_pattern(pattern, shape: tuple[int, int], symmetric: bool = False) -> scipy.sparse.csr_array:
    """Return a caller's pattern in canonical form.

    Parameters
    ----------
    pattern
        Sparse matrix (its entries count, whatever their values) or dense array (its nonzeros do).
    shape
        What it must have.
    symmetric
        Whether to add the transpose: one triangle of a Hessian is enough.

    Raises
    ------
    PatternError
        If it has another shape.
    """
    if not scipy.sparse.issparse(pattern):
        pattern = np.asarray(pattern)
        if pattern.ndim != 2 or pattern.dtype.kind not in "biuf":
            raise PatternError(
                "a pattern must be a matrix of numbers or a sparse one, "
                f"got {pattern.dtype} of shape {pattern.shape}"
            )
        pattern = pattern != 0
    result = scipy.sparse.csr_array(pattern)
    if result.shape != shape:
        raise PatternError(f"the pattern has shape {result.shape}, the derivative {shape}")
    result = as_bool(result)
    return as_bool(result + result.T) if symmetric else result


def check_product(matrix, direction: np.ndarray, product: np.ndarray, what: str) -> None:
    """Compare a sparse derivative with a product that needs no pattern.

    Parameters
    ----------
    matrix
        The sparse derivative.
    direction, product
        A random direction, and the derivative times it.
    what
        "Jacobian" or "Hessian", for the message.

    Raises
    ------
    PatternError
        If they differ: the pattern misses an entry in the rows that the message names, or in rows
        whose entries share a lane with it.
    """
    expected = matrix @ direction
    scale = abs(matrix) @ np.abs(direction) + np.abs(product)
    tolerance = np.finfo(product.dtype).eps ** 0.5
    wrong = np.flatnonzero(np.abs(expected - product) > tolerance * scale)
    if wrong.size:
        listed = ", ".join(map(str, wrong[:5])) + (", ..." if wrong.size > 5 else "")
        raise PatternError(
            f"the {what}'s pattern misses an entry: {wrong.size} row{'s' * (wrong.size != 1)} ({listed}) "
            "differ from a product with a random direction; leave pattern= out to have it detected, or "
            "add to it what nt.sparsity gives"
        )
