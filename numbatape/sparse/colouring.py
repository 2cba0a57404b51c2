"""Colourings of sparsity patterns: what may share a lane.

Colouring is greedy, in up to three orders; the best result is taken. Sets of colours are bits of Python
integers: a row keeps the colours of its columns, so that colouring a column takes time in proportion to its
entries, and a dense row (of an arrow matrix) costs no more than a sparse one.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse

EDGES = 1 << 20  # graphs with more edges are not ordered by degrees, which would take long


def column_colouring(pattern: scipy.sparse.csr_array) -> np.ndarray:
    """Colour columns so that no two of one colour have entries in the same row.

    Parameters
    ----------
    pattern
        CSR matrix; its entries count, whatever their values.

    Returns
    -------
    ndarray
        A colour for each column, counted from 0; -1 for columns without entries.
    """
    lengths = np.diff(pattern.indptr)
    least = int(lengths.max(initial=0))
    columns = lists(pattern.tocsc())
    best = None
    for order in _column_orders(pattern, lengths):
        colours = _greedy_columns(columns, order, pattern.shape[0])
        if best is None or colours.max(initial=-1) < best.max(initial=-1):
            best = colours
        if best.max(initial=-1) + 1 == least:
            break
    assert best is not None
    return best


def row_colouring(pattern: scipy.sparse.csr_array) -> np.ndarray:
    """Colour rows so that no two of one colour have entries in the same column."""
    return column_colouring(pattern.T.tocsr())


def star_colouring(pattern: scipy.sparse.csr_array) -> np.ndarray:
    """Colour a symmetric pattern so that its entries can be read off products with the colours.

    Neighbours differ, and every path of four vertices has three colours or more: two colours form
    stars. In each, the entry between the hub and a leaf stands alone in the leaf's row of the
    product with the hub's colour. A colouring of columns needs as many colours or more.

    Parameters
    ----------
    pattern
        Symmetric CSR matrix.

    Returns
    -------
    ndarray
        A colour for each vertex; -1 for those without entries.
    """
    near = lists(without_diagonal(pattern))
    used = np.diff(pattern.indptr) > 0
    best = None
    for order in _vertex_orders(near):
        colours = _greedy_stars(near, [v for v in order if used[v]])
        if best is None or colours.max(initial=-1) < best.max(initial=-1):
            best = colours
        # Fewer than three colours cannot be improved: only stars take two, all else needs three.
        if best.max(initial=-1) < 3:
            break
    assert best is not None
    return best


def lists(matrix) -> list[list[int]]:
    """Return the entries of each row (of a CSR matrix) or column (CSC), as Python lists."""
    ends, indices = matrix.indptr.tolist(), matrix.indices.tolist()
    return [indices[first:last] for first, last in zip(ends, ends[1:], strict=False)]


def without_diagonal(pattern) -> scipy.sparse.csr_array:
    """Return the entries off the diagonal."""
    entries = pattern.tocoo()
    row, col = entries.coords
    off = row != col
    data = np.ones(np.count_nonzero(off), bool)
    return scipy.sparse.csr_array((data, (row[off], col[off])), shape=pattern.shape)


# ---- greedy


def _greedy_columns(columns: list[list[int]], order, rows: int) -> np.ndarray:
    taken_in = [0] * rows  # colours in each row, as bits
    colours = np.full(len(columns), -1)
    for j in order:
        column = columns[j]
        if not column:
            continue
        taken = 0
        for i in column:
            taken |= taken_in[i]
        bit = ~taken & (taken + 1)  # the lowest that is free
        for i in column:
            taken_in[i] |= bit
        colours[j] = bit.bit_length() - 1
    return colours


def _greedy_stars(near: list[list[int]], order) -> np.ndarray:
    """Colour vertices in order, keeping track of the stars that each two colours form.

    Gebremedhin, Tarafdar, Manne and Pothen, *New acyclic and star coloring algorithms with
    application to computing Hessians* (2007), algorithm 4.1, with bits for their forbidden colours:
    the path that a vertex v must not complete is v-w-x-y (w's hub x has another leaf y, or v has two
    neighbours of w's colour, and is then the middle of x-w-v-w').
    """
    own = [0] * len(near)  # a vertex's colour, as a bit; 0: none yet
    around = [0] * len(near)  # colours of its neighbours
    hubs = [0] * len(near)  # colours of those neighbours in whose stars of several leaves it is a leaf
    # The value is the only neighbour of that colour; which of the two is the hub is open.
    alone: dict[tuple[int, int], int] = {}
    for v in order:
        seen = twice = 0
        for w in near[v]:
            twice |= seen & own[w]
            seen |= own[w]
        taken = seen
        for w in near[v]:
            taken |= around[w] if own[w] & twice else hubs[w] if own[w] else 0
        bit = own[v] = ~taken & (taken + 1)
        around[v] = seen
        for w in near[v]:
            colour = own[w]
            if not colour:
                continue
            if around[w] & bit:  # w is, or now becomes, a hub
                leaf = alone.pop((w, bit), None)
                if leaf is not None:
                    hubs[leaf] |= colour
                hubs[v] |= colour
                continue
            around[w] |= bit
            if colour & twice:  # v is a hub
                hubs[w] |= bit
            else:
                alone[w, bit] = v
                alone[v, colour] = w
    return np.array([bit.bit_length() - 1 for bit in own], np.int64)


# ---- orders


def _column_orders(pattern, lengths) -> Iterator:
    """Yield orders of columns: as they are, most conflicts first, and smallest last."""
    yield range(pattern.shape[1])
    if int((lengths.astype(np.int64) ** 2).sum()) > EDGES:
        conflicts = np.bincount(pattern.indices, np.repeat(lengths, lengths), pattern.shape[1])
        yield np.argsort(-conflicts, kind="stable").tolist()  # conflicts in two rows count twice
        return
    graph = without_diagonal(pattern.T.tocsr() @ pattern)
    yield np.argsort(-np.diff(graph.indptr), kind="stable").tolist()
    yield smallest_last(lists(graph))


def _vertex_orders(near: list[list[int]]) -> Iterator:
    degrees = np.array([len(row) for row in near], np.int64)
    yield range(len(near))
    yield np.argsort(-degrees, kind="stable").tolist()
    if int(degrees.sum()) <= EDGES:
        yield smallest_last(near)


def smallest_last(near: list[list[int]]) -> list[int]:
    """Return the vertices so that each has few neighbours before it: the smallest degree last."""
    degrees = [len(row) for row in near]
    buckets: list[list[int]] = [[] for _ in range(max(degrees, default=0) + 1)]
    for v, degree in enumerate(degrees):
        buckets[degree].append(v)
    order: list[int] = []
    smallest = 0
    while len(order) < len(near):
        while not buckets[smallest]:
            smallest += 1
        v = buckets[smallest].pop()
        if degrees[v] != smallest:  # its degree has changed since, or it is taken
            continue
        degrees[v] = -1
        order.append(v)
        for w in near[v]:
            if degrees[w] > 0:
                degrees[w] -= 1
                buckets[degrees[w]].append(w)
        smallest = max(smallest - 1, 0)
    order.reverse()
    return order
