"""What an op should compute, by NumPy and SciPy: for the tests and the reference interpreter."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable

import numpy as np

from .table import ArrayOp, Op, resolve


def _logsumexp(x):
    import scipy.special

    return scipy.special.logsumexp(x) if x.size else -np.inf


def _solve_triangular(lower: bool, unit: bool):
    def solve(a, b):
        import scipy.linalg

        if not (a.size and b.size):
            return np.zeros(b.shape)
        return scipy.linalg.solve_triangular(a, b, lower=lower, unit_diagonal=unit)

    return solve


def _agree(x, y):
    return next((entry for entry in x if entry != y), y)


def _scatter(x, position, shape):
    """Add up x at positions along the core's first axis, over batch dimensions."""
    core = x.ndim - position.ndim + 1
    lead = shape[: len(shape) - core]
    x = np.broadcast_to(x, lead + x.shape[x.ndim - core :])
    position = np.broadcast_to(position, lead + position.shape[-1:]).astype(int)
    result = np.zeros(shape)
    for k in np.ndindex(*lead):
        np.add.at(result[k], position[k], x[k])
    return result


def _add_at(x, entries, position):
    result = np.array(x)
    np.add.at(result, position.astype(int), entries)
    return result


# Ops whose result has sizes of its own: functions of the operands and the result's shape.
SHAPED: dict[str, Callable] = {
    "fill": lambda x, shape: np.broadcast_to(np.asarray(x)[..., None], shape),
    "scatter": _scatter,
    "scatter1": _scatter,
}


def _near_singular(a):
    from .determinants import DEFICIENT

    if not a.size:
        return 0.0
    import scipy.linalg

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", scipy.linalg.LinAlgWarning)
        pivots = np.abs(np.diag(scipy.linalg.lu_factor(a, check_finite=False)[0]))
    return float(pivots.min() == 0.0 or not pivots.min() >= DEFICIENT * pivots.max())


# Ops without a NumPy function of the same signature.
ORACLES: dict[str, Callable] = {
    "ldexp": lambda x, y: np.ldexp(x, np.asarray(y).astype(int)),
    "logsumexp": _logsumexp,
    "logabsdet": lambda a: np.linalg.slogdet(a)[1],
    "near_singular": _near_singular,
    "detsign": lambda a: np.linalg.slogdet(a)[0],
    "solve_lower": _solve_triangular(True, False),
    "solve_upper": _solve_triangular(False, False),
    "solve_lower_unit": _solve_triangular(True, True),
    "solve_upper_unit": _solve_triangular(False, True),
    "take": lambda x, position: x[position.astype(int)],
    "take1": lambda x, position: x[position.astype(int)],
    "add_at": _add_at,
    "agree": _agree,
    "argsort": lambda x: np.argsort(x, kind="stable"),
    "tril": lambda x, k: np.tril(x, int(k)),
    "triu": lambda x, k: np.triu(x, int(k)),
}


@functools.cache
def oracle(op: Op) -> Callable:
    """Return the op as a function of ndarrays, broadcasting over batch dimensions.

    A function in `SHAPED` takes the result's shape as its last argument.
    """
    if op.name in SHAPED:
        return SHAPED[op.name]
    function = ORACLES.get(op.name)
    if function is None:
        function = resolve(op.numpy[0])
    if not isinstance(op, ArrayOp):
        return function

    def over_batch(*operands):
        groups = op.operands
        batches = [a.shape[: a.ndim - len(g)] for a, g in zip(operands, groups[1:], strict=True)]
        batch = np.broadcast_shapes(*batches)
        wide = [
            np.broadcast_to(a, batch + a.shape[a.ndim - len(g) :])
            for a, g in zip(operands, groups[1:], strict=True)
        ]
        if not batch:
            return np.asarray(function(*wide), float)
        results = [np.asarray(function(*(a[k] for a in wide)), float) for k in np.ndindex(*batch)]
        if not results:
            core = _core_shape(op, wide)
            return np.zeros(batch + core)
        return np.stack(results).reshape(batch + results[0].shape)

    return over_batch


def _core_shape(op, operands):
    sizes: dict[str, int] = {}
    for group, a in zip(op.operands[1:], operands, strict=True):
        sizes |= dict(zip(group, a.shape[a.ndim - len(group) :], strict=True))
    return tuple(sizes.get(letter, 0) for letter in op.operands[0])
