"""Compression: products with the seeds give back every entry, in one fixed structure."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg

from numbatape.errors import PatternError
from numbatape.sparse.compression import check_product, compress_hessian, compress_jacobian, known_pattern
from numbatape.sparse.pattern import as_bool
from tests.every_case import every

from .test_colouring import arrow, banded, blocks, random_pattern, random_symmetric


def filled(pattern, rng):
    return np.where(pattern.toarray(), rng.normal(size=pattern.shape), 0.0)


def products(compression, matrix):
    seeds = compression.seeds()
    return seeds @ matrix if compression.kind == "rows" else seeds @ matrix.T


@every("mode", ["auto", "forward", "reverse"])
@every("shape", [(1, 1), (5, 9), (9, 5), (20, 20)])
@every("density", [0.0, 0.1, 0.4, 1.0])
def test_jacobians(rng, shape, density, mode):
    pattern = random_pattern(rng, *shape, density)
    wanted = filled(pattern, rng)
    compression = compress_jacobian(pattern, mode)
    data = compression.entries(products(compression, wanted))
    np.testing.assert_array_equal(compression.matrix(data).toarray(), wanted)


@pytest.mark.parametrize(
    "pattern",
    [arrow(20), banded(20, 1), banded(20, 3), blocks(4, 5), as_bool(np.eye(6, k=3) + np.eye(6, k=-3)),
     scipy.sparse.csr_array((3, 3), dtype=bool)],
    ids=["arrow", "tridiagonal", "banded", "blocks", "no diagonal", "empty"],
)  # fmt: skip
def test_hessians(rng, pattern):
    half = filled(pattern, rng)
    wanted = half + half.T
    compression = compress_hessian(pattern)
    data = compression.entries(products(compression, wanted))
    np.testing.assert_array_equal(compression.matrix(data).toarray(), wanted)


@pytest.mark.parametrize("n", [1, 3, 10, 30])
@pytest.mark.parametrize("density", [0.05, 0.2, 0.6])
def test_random_hessians(rng, n, density):
    for _ in range(5):
        pattern = random_symmetric(rng, n, density)
        half = filled(pattern, rng)
        wanted = half + half.T
        compression = compress_hessian(pattern)
        data = compression.entries(products(compression, wanted))
        np.testing.assert_array_equal(compression.matrix(data).toarray(), wanted)


def test_auto_takes_the_mode_of_fewer_lanes():
    cells = np.eye(6, dtype=bool)
    cells[0] = True
    by_rows, by_columns = compress_jacobian(as_bool(cells)), compress_jacobian(as_bool(cells.T))
    assert (by_rows.kind, by_rows.lanes) == ("rows", 2)
    assert (by_columns.kind, by_columns.lanes) == ("columns", 2)
    assert compress_jacobian(banded(6, 1)).kind == "columns"


def test_lanes_come_in_chunks():
    compression = compress_jacobian(banded(12, 2))
    parts = [compression.seeds(0, 2), compression.seeds(2, 3), compression.seeds(3)]
    np.testing.assert_array_equal(np.concatenate(parts), compression.seeds())
    assert compression.seeds(dtype=np.float32).dtype == np.float32


def test_structure_is_shared_and_cannot_be_changed(rng):
    compression = compress_hessian(arrow(8))
    first, second = (compression.matrix(rng.normal(size=len(compression.indices))) for _ in range(2))
    assert first.indices is second.indices and first.indptr is second.indptr
    with pytest.raises(ValueError, match="read-only"):
        first.indices[0] = 3
    # What people do with a sparse matrix works all the same.
    dense = first.toarray()
    np.testing.assert_allclose((first + second).toarray(), dense + second.toarray())
    np.testing.assert_allclose(first @ second.toarray(), dense @ second.toarray())
    np.testing.assert_allclose(first[2:, [0]].toarray(), dense[2:, [0]])
    solved = scipy.sparse.linalg.spsolve(first, np.ones(8))
    np.testing.assert_allclose(solved, np.linalg.solve(dense, np.ones(8)))
    np.testing.assert_allclose(first.T.tocsc().sum(axis=0), dense.T.sum(axis=0))
    kept = first.copy()
    kept.data[0] = 0.0
    kept.eliminate_zeros()
    assert kept.nnz == first.nnz - 1


def test_entries_can_be_refilled_in_place(rng):
    pattern = banded(9, 1)
    compression = compress_hessian(pattern)
    data = np.zeros(pattern.nnz)
    matrix = compression.matrix(data)
    for _ in range(2):
        half = filled(pattern, rng)
        assert compression.entries(products(compression, half + half.T), out=data) is data
        np.testing.assert_array_equal(matrix.toarray(), half + half.T)


# ---- patterns that the caller knows


def test_known_patterns():
    lower = np.tril(np.ones((3, 3)))
    for given in (lower, lower.astype(bool), scipy.sparse.coo_array(lower), scipy.sparse.csc_matrix(lower)):
        assert (known_pattern(given, (3, 3)).toarray() == (lower != 0)).all()
        assert known_pattern(given, (3, 3), symmetric=True).nnz == 9
    stored = scipy.sparse.csr_array((np.zeros(2), ([0, 1], [1, 0])), shape=(2, 2))
    assert known_pattern(stored, (2, 2)).nnz == 2  # entries count, whatever their values
    with pytest.raises(PatternError, match=r"shape \(3, 3\), the derivative \(3, 4\)"):
        known_pattern(lower, (3, 4))


def test_a_missing_entry_is_found(rng):
    wanted = filled(banded(8, 1), rng)
    cells = wanted != 0
    cells[2, 3] = False
    compression = compress_jacobian(known_pattern(cells, (8, 8)))
    matrix = compression.matrix(compression.entries(products(compression, wanted)))
    direction = rng.normal(size=8)
    with pytest.raises(PatternError, match=r"the Jacobian's pattern misses an entry: 1 row \(2\) differ"):
        check_product(matrix, direction, wanted @ direction, "Jacobian")
    full = compress_jacobian(banded(8, 1))
    matrix = full.matrix(full.entries(products(full, wanted)))
    check_product(matrix, direction, wanted @ direction, "Jacobian")
