"""``nt.batch`` inside of a function that is being traced: a map of the function with its derivative."""

from __future__ import annotations

from collections.abc import Callable

from ..caches.points import batched_leaves, common_length
from ..control.mapped_axes import Mapped, OutAxes
from ..errors import OutputError
from ..programs.roles import Constant
from ..trace import pytrees
from ..trace.array import TracedArray
from ..trace.complex_array import TracedComplex
from ..trace.plain_arrays import as_ndarrays
from ..trace.primitives import value_of
from .inner import Call, jacobian_of
from .mapping import recorded
from .verb_calls import bare_arguments


def batch(function, args, axes, has_aux: bool, no_points: Callable):
    """Return (values, one tree of derivatives per batched argument, alone if there is one).

    With aux, there is ``(values, aux)`` in the place of the values.

    Parameters
    ----------
    no_points
        Evaluates the function over no points: called with plain arguments.
    """
    bare = as_ndarrays(bare_arguments(args))
    if not common_length(batched_leaves([_map(value_of, arg) for arg in bare], axes)):
        for arg, axis in zip(bare, axes, strict=True):
            if axis is not None:
                # ``int`` records a guard: the tape holds for no points.
                _map(lambda leaf, axis=axis: int(leaf.shape[axis]) if _is_traced(leaf) else None, arg)
        plain = [_map(value_of, arg) for arg in bare]
        marks = [arg.__class__ is Constant for arg in args]
        return no_points([Constant(x) if mark else x for x, mark in zip(plain, marks, strict=True)])
    chosen = [k for k, axis in enumerate(axes) if axis is not None and args[k].__class__ is not Constant]
    mapped = Mapped(axes, bare, {})
    values, grads = recorded(
        lambda *point: _derivative(Call(function, point, {}, chosen, has_aux)), mapped, OutAxes(0)
    )
    return values, grads[0] if len(grads) == 1 else grads


def _derivative(call: Call) -> tuple:
    """Return (value, one tree of Jacobians per argument) at one point."""
    run = call.linearised()
    if not run.structure.is_leaf():
        raise OutputError(f"nt.batch needs a function that returns one number or array, got {run.structure}")
    value = run.require_numbers().result
    return (value, *call.aux) if call.has_aux else value, tuple(jacobian_of(call, run, False, "auto"))


def _is_traced(leaf) -> bool:
    return leaf.__class__ is TracedArray or leaf.__class__ is TracedComplex


def _map(change: Callable, tree):
    return pytrees.mapped(change, tree)
