"""``nt.batch`` inside of a function that is being traced: one point after the other, on the same tape."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..caches.arguments import Constant
from ..caches.points import batched_leaves, common_length
from ..errors import OutputError
from ..trace import pytrees
from ..trace.array import TracedArray
from ..trace.complex_array import TracedComplex
from ..trace.plain_arrays import as_ndarrays
from ..trace.primitives import value_of
from .inner import Call, jacobian_of
from .verb_calls import bare_arguments


def batch(function, args, axes, no_points: Callable):
    """Return (values, one tree of derivatives per batched argument, alone if there is one).

    Parameters
    ----------
    no_points
        Evaluates the function over no points: called with plain arguments.
    """
    bare = as_ndarrays(bare_arguments(args))
    count = common_length(batched_leaves([_map(value_of, arg) for arg in bare], axes))
    for arg, axis in zip(bare, axes, strict=True):
        if axis is not None:
            # ``int`` records a guard: the tape holds for this number of points.
            _map(lambda leaf, axis=axis: int(leaf.shape[axis]) if _is_traced(leaf) else None, arg)
    if not count:
        plain = [_map(value_of, arg) for arg in bare]
        marks = [arg.__class__ is Constant for arg in args]
        return no_points([Constant(x) if mark else x for x, mark in zip(plain, marks, strict=True)])
    chosen = [k for k, axis in enumerate(axes) if axis is not None and args[k].__class__ is not Constant]
    values, rows = [], []
    for k in range(count):
        point = [arg if axis is None else _at(arg, axis, k) for arg, axis in zip(bare, axes, strict=True)]
        value, grads = _derivative(Call(function, point, {}, chosen))
        values.append(value)
        rows.append(grads)
    stacked = pytrees.mapped(lambda *leaves: None if leaves[0] is None else np.stack(leaves), *rows)
    return np.stack(values), stacked[0] if len(stacked) == 1 else stacked


def _derivative(call: Call) -> tuple:
    """Return (value, one tree of Jacobians per argument) at one point."""
    run = call.linearised()
    if not run.structure.is_leaf():
        raise OutputError(f"nt.batch needs a function that returns one number or array, got {run.structure}")
    return run.require_numbers().result, jacobian_of(call, run, False, "auto")


def _is_traced(leaf) -> bool:
    return leaf.__class__ is TracedArray or leaf.__class__ is TracedComplex


def _map(change: Callable, tree):
    return pytrees.mapped(change, tree)


def _at(tree, axis: int, k: int):
    """Return a batched argument at one point, as a copy: the function may write to it."""

    def pick(leaf):
        ndim = np.ndim(value_of(leaf))
        part = leaf[(*[slice(None)] * (axis % ndim), k)]
        return np.copy(part) if ndim > 1 else part

    return _map(pick, tree)
