"""Dense Jacobians: by forward mode in chunks of columns, or by reverse mode in chunks of rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..nested.recorded_derivatives import pushforward
from ..programs.arguments import Flattened
from ..programs.results import in_dtype, per_argument, require_derivative, value_of
from ..programs.variant import VariantWorkspace
from ..recording.recorded import Output
from ..steady_calls.outs import Out, made_of, out_of, reshaped_out
from ..trace import pytrees
from .derived import Derived, active_leaves, outputs_of

MODES = ("auto", "forward", "reverse")


def samples_of(flat: Flattened) -> list:
    """Return zeros in the shapes of the differentiated leaves."""
    return [np.zeros(np.shape(leaf), spec.dtype)[()] for leaf, spec in active_leaves(flat)]


def float_outputs(space: VariantWorkspace, result) -> list[np.ndarray]:
    """Return views of the float leaves of a recorded result that were traced.

    Their shapes are those of the present sizes; the recorded values may have had others.
    """
    values, leaves = space.variant.recording.values, pytrees.leaves(result)
    pytrees.require_numbers(result, leaves)
    return [
        space.outputs[leaf.number]
        for leaf in leaves
        if leaf.__class__ is Output and np.asarray(values[leaf.number]).dtype.kind == "f"
    ]


def float_rows(space: VariantWorkspace, result) -> tuple[int, np.ndarray]:
    """Return how many entries a recorded result has, and the numbers of those of its traced floats."""
    first, rows = 0, [np.zeros(0, np.intp)]
    leaves = pytrees.leaves(result)
    pytrees.require_numbers(result, leaves)
    for leaf in leaves:
        traced = leaf.__class__ is Output
        value = space.variant.recording.values[leaf.number] if traced else leaf
        size = 0 if leaf is None else space.outputs[leaf.number].size if traced else int(np.size(leaf))
        if traced and np.asarray(value).dtype.kind == "f":
            rows.append(np.arange(first, first + size))
        first += size
    return first, np.concatenate(rows)


def choose(mode: str, flat: Flattened, primal: VariantWorkspace, result) -> str:
    """Return the mode that "auto" stands for: columns if there are no more of them than rows, or no rows.

    Parameters
    ----------
    primal
        A sweep of the function itself.
    result
        What is differentiated: the recorded result, or the part of it in front of aux.
    """
    rows = sum(view.size for view in float_outputs(primal, result))
    if mode != "auto" and rows:
        return mode
    columns = sum(int(np.size(leaf)) for leaf, _ in active_leaves(flat))
    return "forward" if columns <= rows or not rows else "reverse"


def rows_in_lanes(view: np.ndarray, count: int, shape: tuple) -> np.ndarray:
    """Return an output as one flat row for each of the first lanes; one without lanes is repeated."""
    size = int(np.prod(shape))
    if view.ndim == len(shape):
        return np.broadcast_to(view.reshape(1, size), (count, size))
    return view.reshape(view.shape[0], size)[:count]


def forward(
    derived: Derived, flat: Flattened, chunk: int | None, primal: VariantWorkspace | None = None
) -> tuple[VariantWorkspace, Any, Any]:
    """Return (workspace, value, Jacobian) by a pushforward of all unit directions.

    ``derived`` records ``(result, tangents of its float leaves)``; ``primal`` is a sweep of the function
    itself in this call, if there was one.
    """
    samples = samples_of(flat)
    total = sum(int(np.size(s)) for s in samples)
    blocks: list[np.ndarray] = []
    shapes: list[tuple] = []

    def visit(space: VariantWorkspace, first: int, count: int) -> None:
        recording = space.variant.recording
        if not blocks:
            for output in float_outputs(space, recording.result[0]):
                shapes.append(output.shape)
                blocks.append(np.empty((output.size, total), output.dtype))
        for block, shape, view in zip(blocks, shapes, outputs_of(space, recording.result[1]), strict=True):
            block[:, first : first + count] = rows_in_lanes(view, count, shape).T

    space = derived.columns(flat, samples, visit, chunk, primal)
    return space, value_of(space, space.variant.recording.result[0]), assemble(flat, space, blocks)


def reverse(
    derived: Derived, flat: Flattened, primal: VariantWorkspace, result, chunk: int | None
) -> tuple[VariantWorkspace, Any, Any]:
    """Return (workspace, value, Jacobian) by a pullback of all unit cotangents.

    ``derived`` records ``(result, gradients of the differentiated leaves)``; ``primal`` is a sweep of the
    function itself and ``result`` what is differentiated of its result, for the shapes of its outputs.
    """
    outputs = float_outputs(primal, result)
    if not outputs:  # there are no rows; leaves that are not float get zeros
        program = derived.program
        columns = Derived(program.function, program.config, pushforward(False), True)
        return forward(columns, flat, chunk, primal)
    samples = [np.zeros(view.shape, view.dtype)[()] for view in outputs]
    sizes = [view.size for view in outputs]
    leaves = active_leaves(flat)
    total = sum(int(np.size(leaf)) for leaf, _ in leaves)
    whole = np.empty((sum(sizes), total))

    def visit(space: VariantWorkspace, first: int, count: int) -> None:
        column = 0
        views = outputs_of(space, space.variant.recording.result[1])
        for (leaf, _), view in zip(leaves, views, strict=True):
            size = int(np.size(leaf))
            whole[first : first + count, column : column + size] = rows_in_lanes(view, count, np.shape(leaf))
            column += size

    space = derived.columns(flat, samples, visit, chunk, primal)
    split = np.split(whole, np.cumsum(sizes)[:-1]) if sizes else []
    blocks = [part.astype(view.dtype) for part, view in zip(split, outputs, strict=True)]
    return space, value_of(space, space.variant.recording.result[0]), assemble(flat, space, blocks)


def assemble(flat: Flattened, space: VariantWorkspace, blocks) -> Any:
    """Return the result's tree with, in the place of each leaf, one tree per argument of blocks."""
    recording = space.variant.recording
    require_derivative(flat, recording.result[0])
    leaves = active_leaves(flat)
    edges = np.cumsum([int(np.size(leaf)) for leaf, _ in leaves])[:-1]
    parts = iter(blocks)

    def per_output(leaf) -> tuple:
        value = recording.values[leaf.number] if leaf.__class__ is Output else leaf
        shape = space.outputs[leaf.number].shape if leaf.__class__ is Output else np.shape(leaf)
        if leaf.__class__ is Output and np.asarray(value).dtype.kind == "f":
            pieces = np.split(next(parts), edges, axis=1)
        else:
            pieces = [np.zeros((int(np.prod(shape)), int(np.size(x)))) for x, _ in leaves]
        # Contiguous copies, so that no block keeps the memory of the others alive.
        shaped = iter(
            in_dtype(np.ascontiguousarray(piece).reshape(shape + np.shape(x))[()], np.asarray(value).dtype)
            for piece, (x, _) in zip(pieces, leaves, strict=True)
        )
        return per_argument(flat, [next(shaped) if s in active else None for s in flat.specs])

    active = set(flat.active)
    found, structure = pytrees.flatten(recording.result[0])
    return structure, [per_output(leaf) for leaf in found]


def outs_of(flat: Flattened, derived: Derived, by_columns: bool) -> list[Out] | None:
    """Return the outs of ``(value, Jacobian)`` of a function of one array to one, if it took one sweep.

    None for anything else: containers, derivatives with respect to several arguments, chunks. There may be
    further arguments without a derivative.
    """
    space = derived.last
    if space is None or len(flat.active) != 1 or flat.active[0].kind != "array" or len(flat.chosen) != 1:
        return None
    result, parts = space.variant.recording.result[:2]
    pieces = pytrees.leaves(parts)
    if result.__class__ is not Output or len(pieces) != 1 or pieces[0].__class__ is not Output:
        return None
    kept, value = space.variant.recording.values[result.number], space.outputs[result.number]
    view = space.outputs[pieces[0].number]
    ((leaf, _),) = active_leaves(flat)
    shape, dtype = np.shape(leaf), np.asarray(kept).dtype
    lanes = int(np.prod(shape)) if by_columns else value.size
    if view.shape != (lanes, *(value.shape if by_columns else shape)) or dtype == np.float16:
        return None
    full = value.shape + shape
    if not by_columns or not full:
        return [out_of(value, kept), reshaped_out(view, full, dtype)]
    matrix = view.reshape(lanes, -1).T if view.flags.c_contiguous else np.moveaxis(view, 0, -1)
    return [out_of(value, kept), made_of(matrix, _in_rows, full)]


def _in_rows(matrix: np.ndarray, shape: tuple) -> np.ndarray:
    return np.array(matrix, order="C").reshape(shape)


def one_matrix(flat: Flattened, assembled) -> np.ndarray:
    """Return the Jacobians of all leaves of the result by all differentiated entries as one matrix."""
    _structure, rows = assembled
    columns = sum(int(np.size(leaf)) for leaf, _ in active_leaves(flat))
    blocks = [np.zeros((0, columns))]
    for row in rows:
        parts = [part for part in pytrees.leaves(row) if part is not None]
        if parts:
            leading = np.ndim(parts[0]) - np.ndim(active_leaves(flat)[0][0])
            size = int(np.prod(np.shape(parts[0])[:leading]))
            blocks.append(np.concatenate([np.reshape(part, (size, -1)) for part in parts], axis=1))
    return np.concatenate(blocks)


def arranged(assembled, arguments, single: bool):
    """Return the result's tree with, in the place of each leaf, its Jacobians: one a chosen argument.

    Outputs are outside, arguments inside, as in JAX: each leaf becomes a tuple of Jacobians, or with
    ``single`` the Jacobian itself.
    """
    structure, rows = assembled
    if single:
        (k,) = arguments
        return pytrees.unflatten(structure, [row[k] for row in rows])
    return pytrees.unflatten(structure, [tuple(row[k] for k in arguments) for row in rows])
