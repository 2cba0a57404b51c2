"""`show`: the tape of a function as a graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..caches.base import PreparedCache
from ..caches.pullback import prepare_pullback_cache
from ..tape.graph import Graph


def show(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Graph:
    """Return the tape of a function as a graph, which prints as text and which a notebook draws.

    Parameters
    ----------
    f : callable, or a prepared cache
        Plain NumPy/SciPy function; it is traced for these arguments. Of a cache, the tape of the last call.
    *args, **kwargs : arrays, numbers, or pytrees of them
        Arguments of ``f``.

    Returns
    -------
    Graph
        ``print(graph)`` shows a line for each input, instruction and result: its number, what it reads, its
        name on the tape with its sizes, and the source line. ``graph.dot`` is the graph in the language of
        Graphviz, whose program ``dot`` draws it in a notebook if it is there.

    Raises
    ------
    DtypeError
        If no argument is a float.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> graph = nt.show(lambda x: np.sum(np.sin(x)), np.ones(3))
    >>> [line.split()[1] for line in str(graph).splitlines()]
    ['x', 'sin(%0)', 'sum(%1)', 'result(%2)']
    """
    cache: Any = f if isinstance(f, PreparedCache) else prepare_pullback_cache(f, *args, kwargs=kwargs)
    return Graph(cache.tape, input_names(cache))


def input_names(cache: PreparedCache) -> list[str]:
    """Return the name of each input of a cache's tape: the argument's, and the way to the leaf."""
    names = [
        _short(spec.path) + (f".{spec.part}" if spec.part else "") for _, spec, _ in cache._prepared.traced()
    ]
    count = len(cache.tape.inputs)  # captured arrays, and directions of derivatives, are inputs, too
    return [*names, *(f"input {k}" for k in range(len(names), count))][:count]


def _short(path: str) -> str:
    """Return the name of a leaf, ``p.x``, of the way that messages name it by."""
    argument, _, leaf = path.partition(", leaf ")
    name = argument.partition("(`")[2].partition("`)")[0]
    return (name or argument) + leaf
