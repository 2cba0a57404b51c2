"""Colourings: valid by their definition, no worse than networkx, and few for the usual shapes."""

from __future__ import annotations

import itertools
import sys

import numpy as np
import pytest
import scipy.sparse

from numbatape.sparse.colouring import column_colouring, row_colouring, smallest_last, star_colouring
from numbatape.sparse.pattern import as_bool


def valid_columns(matrix, colours) -> bool:
    """Whether no two columns of one colour share a row, and those with entries have a colour."""
    matrix = matrix.toarray()
    if ((colours >= 0) != matrix.any(axis=0)).any():
        return False
    return all(
        matrix[:, colours == colour].sum(axis=1).max(initial=0) <= 1
        for colour in range(colours.max(initial=-1) + 1)
    )


def valid_stars(matrix, colours) -> bool:
    """Whether neighbours differ and each path of four vertices has three colours."""
    edges = matrix.toarray() & ~np.eye(len(colours), dtype=bool)
    if (edges & (colours[:, None] == colours)).any():
        return False
    for v, w in np.argwhere(edges):  # the middle of u-v-w-x
        left = {colours[u] for u in np.flatnonzero(edges[v]) if u != w}
        right = {colours[x] for x in np.flatnonzero(edges[w]) if x != v}
        if colours[w] in left and colours[v] in right:
            return False
    return True


def random_pattern(rng, m, n, density):
    return as_bool(scipy.sparse.csr_array(rng.random((m, n)) < density))


def random_symmetric(rng, n, density):
    cells = rng.random((n, n)) < density
    return as_bool(scipy.sparse.csr_array(cells | cells.T))


def arrow(n):
    cells = np.eye(n, dtype=bool)
    cells[0] = cells[:, 0] = True
    return as_bool(scipy.sparse.csr_array(cells))


def banded(n, width):
    offsets = range(-width, width + 1)
    return as_bool(scipy.sparse.diags_array([np.ones(n)] * len(offsets), offsets=offsets, shape=(n, n)))


def blocks(count, size):
    return as_bool(scipy.sparse.kron(scipy.sparse.eye_array(count), np.ones((size, size))))


@pytest.mark.parametrize("shape", [(1, 1), (7, 4), (4, 7), (30, 30), (60, 20)])
@pytest.mark.parametrize("density", [0.0, 0.05, 0.2, 0.7, 1.0])
def test_columns_and_rows_are_valid(rng, shape, density):
    matrix = random_pattern(rng, *shape, density)
    assert valid_columns(matrix, column_colouring(matrix))
    assert valid_columns(matrix.T.tocsr(), row_colouring(matrix))


@pytest.mark.parametrize("n", [1, 2, 5, 12, 40])
@pytest.mark.parametrize("density", [0.0, 0.05, 0.15, 0.4, 1.0])
def test_stars_are_valid(rng, n, density):
    for _ in range(5):
        matrix = random_symmetric(rng, n, density)
        colours = star_colouring(matrix)
        assert valid_stars(matrix, colours)
        assert ((colours >= 0) == matrix.toarray().any(axis=0)).all()


def test_stars_of_all_small_graphs():
    pairs = list(itertools.combinations(range(5), 2))
    for bits in range(1 << len(pairs)):
        cells = np.eye(5, dtype=bool)
        for k, (i, j) in enumerate(pairs):
            if bits >> k & 1:
                cells[i, j] = cells[j, i] = True
        matrix = scipy.sparse.csr_array(cells)
        assert valid_stars(matrix, star_colouring(matrix)), cells


@pytest.mark.parametrize(
    "matrix, star, columns",
    [(arrow(30), 2, 30), (banded(30, 1), 3, 3), (banded(30, 2), 5, 5), (blocks(6, 4), 4, 4)],
    ids=["arrow", "tridiagonal", "pentadiagonal", "blocks"],
)
def test_colours_of_usual_shapes(matrix, star, columns):
    assert star_colouring(matrix).max() + 1 == star
    assert column_colouring(matrix).max() + 1 == columns


def test_no_more_colours_than_networkx(rng):
    networkx = pytest.importorskip("networkx")
    ours = theirs = 0
    for _ in range(60):
        matrix = random_pattern(rng, 40, 30, 0.08)
        graph = networkx.from_numpy_array((matrix.T.tocsr().astype(int) @ matrix).toarray() > 0)
        graph.remove_edges_from(list(networkx.selfloop_edges(graph)))
        strategies = ("largest_first", "smallest_last")
        found = [max(networkx.greedy_color(graph, s).values()) + 1 for s in strategies]
        ours += column_colouring(matrix).max() + 1
        theirs += min(found)
    assert ours <= 1.02 * theirs  # orders break ties differently; over 60 graphs that evens out


def test_smallest_last_is_a_degeneracy_order(rng):
    networkx = pytest.importorskip("networkx")
    matrix = random_symmetric(rng, 40, 0.1).toarray() & ~np.eye(40, dtype=bool)
    near = [np.flatnonzero(row).tolist() for row in matrix]
    order = smallest_last(near)
    assert sorted(order) == list(range(40))
    place = {v: k for k, v in enumerate(order)}
    before = max(sum(place[w] < place[v] for w in near[v]) for v in range(40))
    assert before == max(networkx.core_number(networkx.from_numpy_array(matrix)).values())


def steps(matrix) -> int:
    """Return how many lines of Python the colouring of a matrix runs through."""
    count = 0

    def trace(frame, event, argument):
        nonlocal count
        count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        star_colouring(matrix)
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize(
    "make",
    [arrow, lambda n: banded(n, 2), lambda n: blocks(n // 5, 5)],
    ids=["arrow", "banded", "blocks"],
)
def test_colouring_takes_steps_in_proportion_to_entries(make):
    assert steps(make(800)) < 2.3 * steps(make(400))
