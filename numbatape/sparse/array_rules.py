"""How dependency sets pass through array ops, and which of them an array op lets interact.

A rule sees one batch axis in front of the core axes: operands are arrays of set numbers, None where
an operand has no derivative. An op without a rule of its own is dense in a batch element: each result
cell depends on all operand cells. This may overestimate a pattern, and never misses an entry.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ..ops import ArrayOp
from .index_sets import IndexSets

Operands = list[np.ndarray | None]
RULES: dict[str, Callable] = {}
INTERACTIONS: dict[str, Callable] = {}
FLAT = frozenset({"max", "min", "sort"})  # piecewise linear: nothing interacts
ONE_BY_ONE = 16  # batches up to this size take a running union cell by cell


def rule(*names):
    def register(function):
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


def couples(*names):
    def register(function):
        INTERACTIONS.update(dict.fromkeys(names, function))
        return function

    return register


def batched(op: ArrayOp, operands: Operands, batch: tuple[int, ...]) -> Operands:
    """Return operands with one batch axis in front of their core axes."""

    def of(x, group):
        if x is None:
            return None
        core = x.shape[x.ndim - len(group) :]
        return np.broadcast_to(x, batch + core).reshape(math.prod(batch), *core)

    return [of(x, group) for x, group in zip(operands, op.operands[1:], strict=True)]


def apply_rule(sets: IndexSets, op: ArrayOp, operands: Operands, positions, shape) -> np.ndarray:
    """Return the set numbers of an array op's result, an array that broadcasts to ``shape``.

    Parameters
    ----------
    operands
        Set numbers, None for operands without a derivative.
    positions
        Contents of the op's index operand, None where they are not known.
    """
    if all(x is None for x in operands):
        return np.zeros((), np.int64)
    rank = len(op.operands[0])
    batch, core = shape[: len(shape) - rank], shape[len(shape) - rank :]
    if positions is not None:
        own = len(op.operands[1 + "abc".index(op.index)])
        positions = np.broadcast_to(positions, batch + positions.shape[positions.ndim - own :])
        positions = positions.reshape(math.prod(batch), *positions.shape[len(batch) :]).astype(np.int64)
    result = RULES.get(op.name, dense)(sets, batched(op, operands, batch), positions, core)
    return result.reshape(shape)


def interactions_of(sets: IndexSets, op: ArrayOp, operands: Operands, shape) -> list[np.ndarray]:
    """Return the pairs of sets that an array op lets interact: arrays of two columns."""
    if op.linear or op.name in FLAT or all(x is None for x in operands):
        return []
    batch = shape[: len(shape) - len(op.operands[0])]
    inputs = batched(op, operands, batch)
    if op.bilinear:
        if any(x is None for x in inputs):
            return []
        left, right = INTERACTIONS.get(op.name, products)(sets, *inputs)
        return [columns(left, right)]
    return INTERACTIONS.get(op.name, everything)(sets, inputs)


def columns(left, right) -> np.ndarray:
    """Return the pairs of two arrays of sets, cell by cell."""
    return np.stack([x.reshape(-1) for x in np.broadcast_arrays(left, right)], axis=1)


def whole(sets: IndexSets, *operands) -> np.ndarray:
    """Return one set a batch element: of all cells of all operands."""
    present = [x.reshape(len(x), -1) for x in operands if x is not None]
    return sets.unite_rows(np.concatenate(present, axis=1))


def along_last(sets: IndexSets, x: np.ndarray) -> np.ndarray:
    """Return the unions along the last axis."""
    return sets.unite_rows(x.reshape(math.prod(x.shape[:-1]), x.shape[-1])).reshape(x.shape[:-1])


def running(sets: IndexSets, x: np.ndarray) -> np.ndarray:
    """Return the running unions along the last axis."""
    rows = x.reshape(math.prod(x.shape[:-1]), x.shape[-1])
    result = np.zeros_like(rows)
    if len(rows) <= ONE_BY_ONE:
        for row, line in enumerate(rows.tolist()):
            so_far = 0
            for k, number in enumerate(line):
                line[k] = so_far = sets.pair(so_far, number)
            result[row] = line
    else:
        so_far = np.zeros(len(rows), np.int64)
        for k in range(rows.shape[1]):
            result[:, k] = so_far = sets.unite_cells(so_far, rows[:, k])
    return result.reshape(x.shape)


def together(sets: IndexSets, shape, *operands) -> np.ndarray:
    """Return the unions cell by cell of the operands that are not None, broadcast to a shape."""
    present = [np.broadcast_to(x, shape) for x in operands if x is not None]
    return sets.unite_cells(*present) if present else np.zeros(shape, np.int64)


# ---- dependencies


def dense(sets, operands, positions, core):
    of_all = whole(sets, *operands)
    return np.broadcast_to(of_all.reshape(-1, *[1] * len(core)), (len(of_all), *core))


@rule("fill")
def fill(sets, operands, positions, core):
    return np.broadcast_to(operands[0][:, None], (len(operands[0]), *core))


@rule("cumsum", "cumprod")
def running_totals(sets, operands, positions, core):
    return running(sets, operands[0])


@rule("take1")
def take1(sets, operands, positions, core):
    (x, _) = operands
    if positions is None:
        return dense(sets, operands, None, core)
    return np.take_along_axis(x, positions % max(x.shape[1], 1), axis=1)


@rule("take")
def take(sets, operands, positions, core):
    (x, _) = operands
    if positions is None:
        of_column = along_last(sets, x.swapaxes(1, 2))
        return np.broadcast_to(of_column[:, None, :], (len(x), *core))
    return np.take_along_axis(x, (positions % max(x.shape[1], 1))[:, :, None], axis=1)


@rule("scatter1")
def scatter1(sets, operands, positions, core):
    if positions is None:
        return dense(sets, operands, None, core)
    return scatter(sets, [operands[0][:, :, None]], positions, (*core, 1))


@rule("scatter")
def scatter(sets, operands, positions, core):
    x = operands[0]
    (batch, _, k), m = x.shape, core[0]
    if positions is None:
        return np.broadcast_to(along_last(sets, x.swapaxes(1, 2))[:, None, :], (batch, m, k))
    rows = np.arange(batch)[:, None] * m + positions % max(m, 1)
    cells = rows[:, :, None] * k + np.arange(k)
    return sets.unite(cells.reshape(-1), x.reshape(-1), batch * m * k)


@rule("add_at")
def add_at(sets, operands, positions, core):
    x, entries, _ = operands
    if entries is None:
        return x
    if positions is None:
        return together(sets, x.shape, x, dense(sets, [entries], None, core))
    added = scatter(sets, [entries[:, :, None]], positions, (*core, 1))
    return together(sets, added.reshape(-1, *core).shape, x, added.reshape(-1, *core))


@rule("tril")
def tril(sets, operands, positions, core):
    return triangle(operands[0], positions, core, 1)


@rule("triu")
def triu(sets, operands, positions, core):
    return triangle(operands[0], positions, core, -1)


def triangle(x, diagonal, core, sign):
    if diagonal is None:
        return x
    above = np.arange(core[1]) - np.arange(core[0])[:, None]
    return np.where(sign * above <= sign * diagonal.reshape(-1, 1, 1), x, 0)


@rule("matmul")
def matmul(sets, operands, positions, core):
    x, y = operands
    rows = None if x is None else along_last(sets, x)[:, :, None]
    cols = None if y is None else along_last(sets, y.swapaxes(1, 2))[:, None, :]
    return together(sets, (len(x if x is not None else y), *core), rows, cols)


@rule("solve")
def solve(sets, operands, positions, core):
    x, y = operands
    matrix = None if x is None else whole(sets, x)[:, None, None]
    cols = None if y is None else along_last(sets, y.swapaxes(1, 2))[:, None, :]
    return together(sets, (len(x if x is not None else y), *core), matrix, cols)


@rule("solve_lower", "solve_lower_unit")
def solve_lower(sets, operands, positions, core):
    """Row i of the solution: from rows 0 to i of the triangle and of the right-hand side."""
    x, y = operands
    above = None if y is None else running(sets, y.swapaxes(1, 2)).swapaxes(1, 2)
    rows = None if x is None else running(sets, along_last(sets, np.tril(x)))[:, :, None]
    return together(sets, (len(x if x is not None else y), *core), rows, above)


@rule("solve_upper", "solve_upper_unit")
def solve_upper(sets, operands, positions, core):
    x, y = operands
    flipped = [None if x is None else x[:, ::-1, ::-1], None if y is None else y[:, ::-1]]
    return solve_lower(sets, flipped, positions, core)[:, ::-1]


@rule("cholesky")
def cholesky(sets, operands, positions, core):
    """Cell (i, j) of the factor: from rows 0 to j of the lower triangle, and row i up to j."""
    lower = np.tril(operands[0])
    leading = running(sets, along_last(sets, lower))[:, None, :]
    return np.tril(together(sets, lower.shape, leading, running(sets, lower)))


# ---- interactions


def products(sets, x, y):
    """A bilinear op without a rule of its own: all cells of one operand with all of the other."""
    return whole(sets, x), whole(sets, y)


@couples("dot")
def dot_products(sets, x, y):
    return x, y


@couples("matmul")
def matrix_products(sets, x, y):
    """Column k of the one with row k of the other."""
    return along_last(sets, x.swapaxes(1, 2)), along_last(sets, y)


def everything(sets, operands):
    of_all = whole(sets, *operands)
    return [columns(of_all, of_all)]


@couples("solve", "solve_lower", "solve_lower_unit", "solve_upper", "solve_upper_unit")
def systems(sets, operands):
    """The matrix with itself and with each right-hand side; right-hand sides enter linearly."""
    x, y = operands
    if x is None:
        return []
    matrix = whole(sets, x)
    pairs = [columns(matrix, matrix)]
    if y is not None:
        pairs.append(columns(matrix[:, None], along_last(sets, y.swapaxes(1, 2))))
    return pairs
