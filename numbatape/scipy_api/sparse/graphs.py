"""``scipy.sparse.csgraph``: paths, trees and parts of graphs whose weights are traced.

Which edges a path or a tree has, and which vertices belong together, is data, which is found again in each
call. Lengths are sums of the weights of these edges, so they have derivatives.
"""

from __future__ import annotations

import inspect

import numpy as np
import scipy.sparse

from ...errors import UnsupportedOperationError
from ...numpy_api.function_tables import MAKERS
from ...rules.searches import Search
from ...trace.library_kinds import is_sparse
from ...trace.operands import find_trace, lift_first
from ...trace.trace import failing
from ...usercode.frames import UsersLine, not_supported
from .sparse_matrices import TracedSparse

NAME = "scipy.sparse.csgraph"


def _refuse(what: str, hint: str) -> UnsupportedOperationError:
    return not_supported(f"{NAME}.{what}", hint)


def _of_graph(implementation):
    """Return what makes a stand-in, which calls SciPy's function where the graph is not traced."""

    def make(original):
        signature = inspect.signature(original)

        def call(*args, **kwargs):
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            options = bound.arguments
            graph = options.pop("csgraph" if "csgraph" in options else next(iter(options)))
            trace = graph.values._trace if type(graph) is TracedSparse else find_trace(graph)
            if trace is None:
                return UsersLine().call(original, *args, **kwargs)
            with failing(trace):
                return implementation(original, graph, **options)

        return call

    return make


def _parts(graph) -> tuple:
    """Return the weights, and a function that makes a plain graph of plain weights."""
    if not is_sparse(graph):
        return lift_first(graph), lambda weights: weights
    graph = graph.tocsr().stored
    rows, cols, shape = graph.rows, graph.cols, graph.shape
    return graph.values, lambda weights: scipy.sparse.csr_array((weights, (rows, cols)), shape)


def _matrix_of_edges(graph, directed: bool):
    """Return the weights as a dense matrix, infinite where there is no edge."""
    if is_sparse(graph):
        graph = graph.tocsr().stored
        known = np.zeros(graph.shape, bool)
        known[graph.rows, graph.cols] = True
        weights = np.where(known, graph.toarray(), np.inf)
    else:
        weights = lift_first(graph)
        weights = np.where(np.equal(weights, 0.0) | np.isnan(weights), np.inf, weights)
    return weights if directed else np.minimum(weights, weights.T)


def _shortest_paths(original, graph, return_predecessors=False, **options):
    """Return lengths of paths as sums of traced weights along paths that SciPy finds."""
    if options.get("min_only") or np.iterable(options.get("limit")):
        raise _refuse(
            f"{original.__name__}(min_only=True) of traced weights", "take the minimum of all paths"
        )
    options.pop("overwrite", None)
    weights, plain = _parts(graph)
    search = Search(
        f"{NAME}.{original.__name__}",
        lambda weights: original(plain(weights), return_predecessors=True, **options),
        (weights,),
    )
    before = search.positions("predecessors", lambda found: found[1])
    lengths = search.numbers("lengths", lambda found: found[0])
    if not options.get("unweighted"):
        edges = _matrix_of_edges(graph, options.get("directed", True))
        size = int(edges.shape[0])
        # A negative number says that no node comes before, where a path starts, and where no path leads.
        first = before < 0
        every = np.broadcast_to(np.arange(size), before.shape)
        there = np.where(first, every, before)
        total = np.where(first, 0.0, edges[there, every])
        for _ in range(max(size - 1, 1).bit_length()):  # The paths become twice as long in each round.
            total = total + np.take_along_axis(total, there, -1)
            there = np.take_along_axis(there, there, -1)
        lengths = np.where(np.isinf(lengths), np.inf, total)
    return (lengths, before) if return_predecessors else lengths


def _minimum_spanning_tree(original, graph, overwrite=False):
    """Return the graph with weights of zero for the edges that are not in the tree."""
    weights, plain = _parts(graph)
    if is_sparse(graph):
        graph = graph.tocsr().stored
        rows, cols, shape, data = graph.rows, graph.cols, graph.shape, weights
    else:
        shape = tuple(map(int, weights.shape))
        rows, cols = (index.ravel() for index in np.indices(shape))
        data = np.reshape(weights, (-1,))
    search = Search(
        f"{NAME}.minimum_spanning_tree", lambda weights: original(plain(weights)).toarray(), (weights,)
    )
    chosen = search.numbers("edges", lambda tree: tree[rows, cols] != 0.0)
    data = np.where(np.equal(chosen, 1.0), data, 0.0)
    return TracedSparse(data, rows, cols, shape, False, whole=True)


def _connected_components(original, graph, return_labels=True, **options):
    weights, plain = _parts(graph)
    search = Search(
        f"{NAME}.connected_components", lambda weights: original(plain(weights), **options), (weights,)
    )
    count = int(search.numbers("number of components", lambda found: found[0]))
    return (count, search.positions("labels", lambda found: found[1])) if return_labels else count


def _laplacian(original, graph, normed=False, return_diag=False, use_out_degree=False, symmetrized=False,
               form="array", dtype=None, copy=True):  # fmt: skip
    """Return the Laplacian of a graph: degrees on the diagonal, minus the weights."""
    if form != "array" or dtype is not None:
        raise _refuse(f"laplacian(form={form!r}, dtype={dtype!r}) of traced weights", "form='array' is")
    axis = 1 if use_out_degree else 0
    graph = graph.tocsr() if is_sparse(graph) else lift_first(graph)
    graph = graph + graph.T if symmetrized else graph
    diagonal = graph.diagonal() if is_sparse(graph) else np.diagonal(graph)
    degrees = graph.sum(axis) - diagonal
    ends = degrees
    if normed:
        alone = np.equal(degrees, 0.0)
        degrees = np.where(alone, 1.0, np.sqrt(np.where(alone, 1.0, degrees)))
        ends = np.where(alone, 0.0, 1.0)
    if is_sparse(graph):
        scale = degrees[graph.rows] * degrees[graph.cols] if normed else 1.0
        off = graph.with_data(np.where(graph.rows == graph.cols, 0.0, -graph.values / scale))
        every = np.arange(graph.shape[0])
        found = off + TracedSparse(ends, every, every, graph.shape, graph.is_matrix)
    else:
        scaled = graph / degrees / degrees[:, None] if normed else graph
        found = np.where(np.eye(int(graph.shape[0]), dtype=bool), ends, -scaled)
    return (found, degrees) if return_diag else found


def _of_edges(original, graph, **options):
    """Call a function that goes by which edges there are, and not by their weights."""
    if not is_sparse(graph):
        graph = TracedSparse.of_dense(lift_first(graph), False)
    edges = graph.tocsr().stored
    ones = scipy.sparse.csr_array((np.ones(len(edges.rows)), (edges.rows, edges.cols)), graph.shape)
    return UsersLine().call(original, ones, **options)


def _matching(original, graph, maximize=False):
    weights, plain = _parts(graph)
    search = Search(
        f"{NAME}.{original.__name__}",
        lambda weights: original(scipy.sparse.csr_array(plain(weights)), maximize),
        (weights,),
    )
    return tuple(
        search.counted(what, lambda found, k=k: found[k]) for k, what in enumerate(("rows", "columns"))
    )


def _of_data(name: str):
    """Return what makes a stand-in that refuses a traced graph, for a function whose result is data."""

    def make(original):
        def call(*args, **kwargs):
            graphs = (*args, *kwargs.values())
            if any([type(graph) is TracedSparse or find_trace(graph) is not None for graph in graphs]):
                raise _refuse(
                    f"{name} of a traced graph", "call it outside, and pass the result as nt.Constant"
                )
            return UsersLine().call(original, *args, **kwargs)

        return call

    return make


OF_DATA = ("breadth_first_tree", "depth_first_tree", "maximum_flow", "yen")
OF_EDGES = (
    *("breadth_first_order", "depth_first_order", "maximum_bipartite_matching", "reverse_cuthill_mckee"),
    "structural_rank",
)

MAKERS[NAME].update(
    **{name: _of_data(name) for name in OF_DATA},
    **dict.fromkeys(
        ("bellman_ford", "dijkstra", "floyd_warshall", "johnson", "shortest_path"), _of_graph(_shortest_paths)
    ),
    **dict.fromkeys(OF_EDGES, _of_graph(_of_edges)),
    connected_components=_of_graph(_connected_components),
    laplacian=_of_graph(_laplacian),
    min_weight_full_bipartite_matching=_of_graph(_matching),
    minimum_spanning_tree=_of_graph(_minimum_spanning_tree),
)
