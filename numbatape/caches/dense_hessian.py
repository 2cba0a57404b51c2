"""Dense Hessians: Hessian-vector products with all unit directions, in lanes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..jit.steady import CALLED
from ..programs.arguments import Flattened
from ..programs.results import cells_of, per_argument, scalar_output, value_of
from ..programs.variant import VariantWorkspace
from ..recording.recorded import Output
from ..steady_calls.outs import Out, reshaped_out, result_outs
from ..trace import pytrees
from .dense_jacobian import rows_in_lanes, samples_of
from .derived import Derived, active_leaves, outputs_of
from .directions import like_arguments


def full_hessian(
    derived: Derived, flat: Flattened, chunk: int | None, primal: VariantWorkspace | None = None
) -> tuple[VariantWorkspace, Any, tuple, np.ndarray]:
    """Return (workspace, value, gradients, Hessian over all differentiated entries).

    ``derived`` records ``(result, gradients, Hessian times directions)``; ``primal`` is a sweep of the
    function itself in this call, if there was one.
    """
    leaves = active_leaves(flat)
    sizes = [int(np.size(leaf)) for leaf, _ in leaves]
    total = sum(sizes)
    whole = np.empty((total, total))

    def visit(space: VariantWorkspace, first: int, count: int) -> None:
        recording = space.variant.recording
        if first == 0:
            scalar_output(recording, "Hessian", recording.result[0])
        column = 0
        views = outputs_of(space, recording.result[2])
        for (leaf, _), size, view in zip(leaves, sizes, views, strict=True):
            whole[first : first + count, column : column + size] = rows_in_lanes(view, count, np.shape(leaf))
            column += size

    space = derived.columns(flat, samples_of(flat), visit, chunk, primal)
    result, grads, *_ = space.variant.recording.result
    return space, value_of(space, result), like_arguments(flat, value_of(space, grads)), whole


def hessian_outs(flat: Flattened, space: VariantWorkspace | None) -> list[Out] | None:
    """Return the outs of (value, gradient, Hessian) of a function of one array, if it took one sweep.

    None for anything else: containers, several arguments, chunks.
    """
    if space is None or len(flat.active) != 1 or flat.active[0].kind != "array":
        return None
    ((leaf, spec),) = active_leaves(flat)
    result, grads, products = space.variant.recording.result[:3]
    parts = pytrees.leaves((grads, products))
    if len(parts) != 2 or any(part.__class__ is not Output for part in parts) or spec.dtype == np.float16:
        return None
    gradient, hessian = cells_of(space, parts[0]), space.outputs[parts[1].number]
    shape = np.shape(leaf)
    if hessian.shape != (np.size(leaf), *shape):
        return None
    return [*result_outs(space, result), Out(CALLED, gradient.copy), reshaped_out(hessian, shape + shape)]


def blocks(flat: Flattened, whole: np.ndarray, chosen, single: bool):
    """Return a matrix over all differentiated entries as blocks, as the Jacobian of the gradients.

    The result has one tree per chosen argument, in which each leaf is a tuple with one tree per chosen
    argument; ``single`` leaves out these tuples.
    """
    leaves = active_leaves(flat)
    edges = np.cumsum([int(np.size(leaf)) for leaf, _ in leaves])[:-1]

    def tree_of(make) -> tuple:
        parts = iter(range(len(leaves)))
        return per_argument(flat, [make(next(parts)) if s in active else None for s in flat.specs])

    active = set(flat.active)
    rows = np.split(whole, edges, axis=0)
    shapes = [np.shape(leaf) for leaf, _ in leaves]

    def block(i: int, j: int):
        piece = np.split(rows[i], edges, axis=1)[j]
        dtype = np.result_type(leaves[i][1].dtype, leaves[j][1].dtype)
        return piece.astype(dtype).reshape(shapes[i] + shapes[j])[()]

    def row(i: int):
        trees = tree_of(lambda j: block(i, j))
        return trees[chosen[0]] if single else tuple(trees[k] for k in chosen)

    trees = tree_of(row)
    return trees[chosen[0]] if single else tuple(trees[k] for k in chosen)
