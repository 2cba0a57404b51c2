"""Strongly connected components of a small graph, in topological order."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def components(edges: Sequence[Collection[int]]) -> list[list[int]]:
    """Return the components, those that others depend on first (Tarjan's algorithm, without recursion).

    Parameters
    ----------
    edges
        For each node the nodes that it depends on.
    """
    count = len(edges)
    index, low, on_stack = [0] * count, [0] * count, [False] * count
    stack: list[int] = []
    found: list[list[int]] = []
    visited = 0
    for root in range(count):
        if index[root]:
            continue
        work = [(root, iter(edges[root]))]
        visited += 1
        index[root] = low[root] = visited
        stack.append(root)
        on_stack[root] = True
        while work:
            node, rest = work[-1]
            for other in rest:
                if not index[other]:
                    visited += 1
                    index[other] = low[other] = visited
                    stack.append(other)
                    on_stack[other] = True
                    work.append((other, iter(edges[other])))
                    break
                if on_stack[other]:
                    low[node] = min(low[node], index[other])
            else:
                work.pop()
                if work:
                    above = work[-1][0]
                    low[above] = min(low[above], low[node])
                if low[node] == index[node]:
                    component = []
                    while on_stack[node]:
                        component.append(stack.pop())
                        on_stack[component[-1]] = False
                    found.append(sorted(component))
    return found
