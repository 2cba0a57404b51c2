"""Products of two sparse matrices of which one has traced entries.

The positions are plain, so which entries meet is known when the product is recorded.
"""

from __future__ import annotations

import numpy as np

from ...trace.primitives import value_of
from ...usercode.frames import not_supported
from .dense_products import entries, stands_for_matrix
from .sparse_matrices import TracedSparse, summed_up


def product_of_sparse(left, right) -> TracedSparse:
    """Return the product of two sparse matrices: each entry (i, k) meets each entry (k, j)."""
    (data, rows, cols, shape), (others, inner, ends, other_shape) = _real_entries(left), _real_entries(right)
    if shape[1] != other_shape[0]:
        raise ValueError(f"M @ N: shapes {shape} of M and {other_shape} of N do not fit")
    order = np.argsort(inner, kind="stable")
    starts = np.searchsorted(inner[order], np.arange(shape[1] + 1))
    counts = np.diff(starts)[cols]
    first = np.repeat(np.arange(len(rows)), counts)
    turn = np.arange(len(first)) - np.repeat(np.cumsum(counts) - counts, counts)
    second = order[starts[cols[first]] + turn]
    terms = data[first] * others[second]
    is_matrix = stands_for_matrix(left) and stands_for_matrix(right)
    whole = any(getattr(side, "whole", False) for side in (left, right))
    sides = shape[0], other_shape[1]
    return summed_up(terms, rows[first], ends[second], sides, is_matrix, whole=whole)


def multiplied_by_entries(left, right) -> TracedSparse:
    """Return the product of two sparse matrices entry by entry."""
    sides = [summed_up(*_real_entries(x), is_matrix=False) for x in (left, right)]
    if sides[0].shape != sides[1].shape:
        raise ValueError(f"inconsistent shapes {sides[0].shape} and {sides[1].shape}")
    places = [side.rows * side.shape[1] + side.cols for side in sides]
    _, one, two = np.intersect1d(*places, assume_unique=True, return_indices=True)
    is_matrix = stands_for_matrix(left) and stands_for_matrix(right)
    first, second = sides
    data = first.values[one] * second.values[two]
    places = first.rows[one], first.cols[one]
    return TracedSparse(data, *places, first.shape, is_matrix, whole=True)  # SciPy drops products of zero


def _real_entries(matrix) -> tuple:
    found = entries(matrix)
    if value_of(found[0]).dtype.kind == "c":
        raise not_supported("a product of traced sparse entries with complex numbers", "use real ones")
    return found
