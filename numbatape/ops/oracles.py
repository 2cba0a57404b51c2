"""What an op should compute, by NumPy and SciPy: for the tests and the reference interpreter."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from .table import ArrayOp, Op, parameters, resolve


def needs_shape(op: Op) -> bool:
    """Whether an op's result has sizes of its own, so that its oracle must be told them."""
    return op.oracle is not None and "shape" in parameters(op.oracle)


@functools.cache
def oracle(op: Op) -> Callable:
    """Return the op as a function of ndarrays, broadcasting over batch dimensions.

    Where `needs_shape` says so, the function takes the result's shape as its last argument.
    """
    function = op.oracle or resolve(op.numpy[0])
    if not isinstance(op, ArrayOp):
        return function
    shaped = needs_shape(op)

    def over_batch(*operands):
        operands, shape = (operands[:-1], operands[-1]) if shaped else (operands, ())
        groups = op.operands
        core = shape[len(shape) - len(groups[0]) :] if shaped else ()
        batches = [a.shape[: a.ndim - len(g)] for a, g in zip(operands, groups[1:], strict=True)]
        batch = np.broadcast_shapes(*batches, shape[: len(shape) - len(core)])
        wide = [
            np.broadcast_to(a, batch + a.shape[a.ndim - len(g) :])
            for a, g in zip(operands, groups[1:], strict=True)
        ]
        one = functools.partial(function, shape=core) if shaped else function
        if not batch:
            return np.asarray(one(*wide), float)
        results = [np.asarray(one(*(a[k] for a in wide)), float) for k in np.ndindex(*batch)]
        if not results:
            return np.zeros(batch + (core if shaped else _core_shape(op, wide)))
        return np.stack(results).reshape(batch + results[0].shape)

    return over_batch


def _core_shape(op, operands):
    sizes: dict[str, int] = {}
    for group, a in zip(op.operands[1:], operands, strict=True):
        sizes |= dict(zip(group, a.shape[a.ndim - len(group) :], strict=True))
    return tuple(sizes.get(letter, 0) for letter in op.operands[0])
