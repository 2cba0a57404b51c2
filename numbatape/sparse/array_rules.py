"""Dependency sets through array ops: what an op says of itself (`numbatape.ops.dependencies`), batched.

A rule of an op sees one batch axis in front of the core axes, whatever the batch dimensions are.
"""

from __future__ import annotations

import math

import numpy as np

from ..ops import ArrayOp
from ..ops.dependencies import dense, everything
from .index_sets import IndexSets

Operands = list[np.ndarray | None]


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
    result = (op.depends or dense)(sets, batched(op, operands, batch), positions, core)
    return result.reshape(shape)


def interactions_of(sets: IndexSets, op: ArrayOp, operands: Operands, shape) -> list[np.ndarray]:
    """Return the pairs of sets that an array op lets interact: arrays of two columns."""
    if op.linear or all(x is None for x in operands):
        return []
    batch = shape[: len(shape) - len(op.operands[0])]
    return (op.interacts or everything)(sets, batched(op, operands, batch))
