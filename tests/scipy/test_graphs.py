"""Graphs with traced weights: SciPy's values, derivatives by differences, and one tape for all paths."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse import csgraph

import numbatape as nt
from tests.agreement import agrees

ROWS, COLS = np.array([0, 1, 2, 0, 3, 1, 4]), np.array([1, 2, 3, 2, 4, 4, 1])
X = np.array([1.0, 0.7, 1.3, 2.0, 0.4, 3.1, 0.9])


def sparse(x):
    return sp.csr_array((x**2, (ROWS, COLS)), shape=(6, 6))  # the last vertex is alone


def dense(x):
    return sparse(x).toarray()


def finite(lengths):
    return np.where(np.isinf(lengths), -1.0, lengths)


PATHS = {
    "shortest_path": lambda g: csgraph.shortest_path(g),
    "undirected": lambda g: csgraph.shortest_path(g, directed=False, method="D"),
    "dijkstra": lambda g: csgraph.dijkstra(g, indices=[0, 3]),
    "one start": lambda g: csgraph.dijkstra(g, indices=1, limit=4.0, return_predecessors=True)[0],
    "bellman_ford": lambda g: csgraph.bellman_ford(g, indices=0),
    "floyd_warshall": lambda g: csgraph.floyd_warshall(g),
    "johnson": lambda g: csgraph.johnson(g),
    "unweighted": lambda g: csgraph.shortest_path(g, unweighted=True),
}
OTHERS = {
    "order": lambda g: csgraph.breadth_first_order(g, 0)[0] * g.sum(),
    "tree": lambda g: csgraph.minimum_spanning_tree(g).toarray(),
    "laplacian": lambda g: csgraph.laplacian(g) @ np.arange(6.0),
    "symmetrized": lambda g: csgraph.laplacian(g, symmetrized=True) @ np.arange(6.0),
    "normed": lambda g: csgraph.laplacian(g, normed=True, use_out_degree=True) @ np.arange(6.0),
    "degrees": lambda g: csgraph.laplacian(g, normed=True, return_diag=True)[1],
    "parts": lambda g: csgraph.connected_components(g, connection="strong")[1] * g.sum(),
}


def converted(x):
    return sp.csr_array(dense(x))


@pytest.mark.parametrize("kind", [sparse, dense, converted])
@pytest.mark.parametrize("name", [*PATHS, *OTHERS])
def test_graphs(name, kind):
    function = PATHS.get(name) or OTHERS[name]
    agrees(lambda x: finite(function(kind(x))), X)


def test_one_tape_serves_all_paths():
    f = lambda x: finite(csgraph.shortest_path(sparse(x)))  # noqa: E731
    cache = nt.prepare_pullback_cache(f, X)
    for x in (X, X[::-1].copy(), 0.1 + X**3):
        np.testing.assert_allclose(nt.value_and_pullback(cache, np.ones((6, 6)), x)[0], f(x), rtol=1e-13)
    assert cache.traces == 1


def test_what_is_not_supported():
    with pytest.raises(nt.UnsupportedOperationError, match=r"csgraph\.dijkstra\(min_only=True\)"):
        nt.grad(lambda x: csgraph.dijkstra(sparse(x), indices=[0, 1], min_only=True).sum())(X)
    with pytest.raises(nt.UnsupportedOperationError, match=r"csgraph\.laplacian\(.*dtype=<class"):
        nt.grad(lambda x: csgraph.laplacian(sparse(x), dtype=np.float32).sum())(X)
    with pytest.raises(nt.UnsupportedOperationError, match=r"csgraph\.maximum_flow of a traced graph"):
        nt.grad(lambda x: csgraph.maximum_flow(sparse(x), 0, 1).flow_value + x[0])(X)
