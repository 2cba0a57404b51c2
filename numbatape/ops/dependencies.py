"""How dependency sets pass through array ops, and which sets an op lets interact: rules that ops share.

Two attributes of an op's class say what sparsity patterns need to know of it. Sets are numbers
(`numbatape.sparse.index_sets.IndexSets`, which a rule is handed as ``sets``), and an operand is an array of
them with one batch axis in front of its core axes; None where it has no derivative.

``depends(sets, operands, positions, core)``
    The sets of the result, an array that broadcasts to ``(batch, *core)``. ``positions`` are the contents of
    the op's index operand, None where they are not known.
``interacts(sets, operands)``
    Arrays of two columns: pairs of sets between which the Hessian may have an entry.

A rule may overestimate, and must never miss anything: `dense` and `everything` are always right.
"""

from __future__ import annotations

import numpy as np


def pairs(left, right) -> np.ndarray:
    """Return the pairs of two arrays of sets, cell by cell; none with an operand without a derivative."""
    if left is None or right is None:
        return np.zeros((0, 2), np.int64)
    return np.stack([x.reshape(-1) for x in np.broadcast_arrays(left, right)], axis=1)


# ---- dependencies


def dense(sets, operands, positions, core):
    """Each cell of the result depends on all cells of all operands."""
    of_all = sets.whole(*operands)
    return np.broadcast_to(of_all.reshape(-1, *[1] * len(core)), (len(of_all), *core))


def running_totals(sets, operands, positions, core):
    """Each cell of the result depends on the operand's cells up to its own."""
    return sets.running(operands[0])


def recurring(sets, operands, positions, core):
    """Each state of a recurrence depends on the start, and on the coefficients and addends before it."""
    x, y, start = operands
    batch = max(len(operand) for operand in operands if operand is not None)
    steps = sets.together((batch, core[0] - 1), x, y)
    first = np.zeros(batch, steps.dtype) if start is None else start.reshape(-1)
    return sets.running(np.concatenate([first[:, None], steps], axis=1))


def added_rows(sets, operands, positions, core):
    """Row ``positions[i]`` of the result depends on row i of the operand; positions may repeat."""
    x = operands[0]
    (batch, _, k), m = x.shape, core[0]
    if positions is None:
        return np.broadcast_to(sets.along_last(x.swapaxes(1, 2))[:, None, :], (batch, m, k))
    rows = np.arange(batch)[:, None] * m + positions % max(m, 1)
    cells = rows[:, :, None] * k + np.arange(k)
    return sets.unite(cells.reshape(-1), x.reshape(-1), batch * m * k).reshape(batch, m, k)


def triangle(x, diagonal, core, sign):
    """Return the sets of a triangle: of ``tril`` with sign 1, of ``triu`` with sign -1."""
    if diagonal is None:
        return x
    above = np.arange(core[1]) - np.arange(core[0])[:, None]
    return np.where(sign * above <= sign * diagonal.reshape(-1, 1, 1), x, 0)


def lower_solution(sets, operands, positions, core):
    """Row i of the solution depends on rows 0 to i of the lower triangle and of the right-hand side."""
    x, y = operands
    above = None if y is None else sets.running(y.swapaxes(1, 2)).swapaxes(1, 2)
    rows = None if x is None else sets.running(sets.along_last(np.tril(x)))[:, :, None]
    return sets.together((len(x if x is not None else y), *core), rows, above)


def upper_solution(sets, operands, positions, core):
    """`lower_solution` from the last row to the first."""
    x, y = operands
    flipped = [None if x is None else x[:, ::-1, ::-1], None if y is None else y[:, ::-1]]
    return lower_solution(sets, flipped, positions, core)[:, ::-1]


# ---- interactions


def everything(sets, operands):
    """All cells of all operands interact with one another."""
    of_all = sets.whole(*operands)
    return [pairs(of_all, of_all)]


def nothing(sets, operands):
    """No cells interact: the op is linear, or piecewise linear."""
    return []


def systems(sets, operands):
    """The matrix interacts with itself and with each right-hand side; right-hand sides enter linearly."""
    x, y = operands
    if x is None:
        return []
    matrix = sets.whole(x)
    found = [pairs(matrix, matrix)]
    if y is not None:
        found.append(pairs(matrix[:, None], sets.along_last(y.swapaxes(1, 2))))
    return found


def coefficients_and_addends(sets, operands):
    """The coefficients of a recurrence interact with each other, and with all that enters linearly."""
    if operands[0] is None:
        return []
    return [pairs(sets.whole(operands[0]), sets.whole(*operands))]
