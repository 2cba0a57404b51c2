"""Directions of the arguments' structure, and derivatives along them as the caller gets them."""

from __future__ import annotations

import numpy as np

from ..errors import SpecError, StructureError
from ..programs.arguments import Flattened, as_array
from ..programs.results import in_dtype, per_argument, value_of
from ..programs.roles import is_mark
from ..programs.variant import VariantWorkspace
from ..recording.recorded import Output
from ..tape.tape import ACTIVE
from ..trace import pytrees
from ..trace.complex_pairs import halves_of


def direction_leaves(flat: Flattened, trees, what: str, lanes: int = 0) -> list[np.ndarray]:
    """Return one array per differentiated leaf, from one tree per argument.

    Parameters
    ----------
    lanes
        The length of a leading axis that each leaf must have; 0 for none.

    Raises
    ------
    SpecError
        If a tree has another structure, or a leaf another shape, than its argument.
    """
    args, _ = pytrees.unflatten(flat.outer, flat.marks)
    given: dict[int, list] = {}
    for k, (arg, tree) in enumerate(zip(args, trees, strict=True)):
        if k not in flat.differentiated:
            continue
        _leaves, structure = pytrees.flatten(arg, is_mark)
        try:
            given[k] = structure.flatten_up_to(tree)
        except ValueError as error:
            raise StructureError(f"{what} of argument {k} has another structure: {error}") from None
    result = []
    position: dict[int, int] = {}
    for leaf, spec in zip(flat.leaves, flat.specs, strict=True):
        k = spec.argument
        if k not in given:
            continue
        place = position[k] = position.get(k, -1) + (spec.part != "imag")
        if spec.level != ACTIVE:
            continue
        part = given[k][place]
        if part is not None and part.__class__ is not np.ndarray:
            part = as_array(part, f"{what} of {spec.path}")
        shape = (lanes, *np.shape(leaf)) if lanes else np.shape(leaf)
        kinds = "fiubc" if spec.part else "fiub"
        if part is None or np.shape(part) != shape or np.asarray(part).dtype.kind not in kinds:
            got = "None" if part is None else f"{np.asarray(part).dtype} of shape {np.shape(part)}"
            numbers = "numbers" if spec.part else "real numbers"
            raise SpecError(f"{what} of {spec.path} needs {numbers} of shape {shape}, got {got}")
        if spec.part:
            part = halves_of(np.asarray(part))[spec.part == "imag"]
        array = np.asarray(part, spec.dtype)
        result.append(array[()] if array.ndim == 0 else array)
    return result


def like_result(space: VariantWorkspace, result, parts, lanes: int = 0):
    """Return a recorded result's tree with derivatives (one per float output) in place of its leaves."""
    recording = space.variant.recording
    found = iter(parts)
    leaves, structure = pytrees.flatten(result)
    filled = []
    for leaf in leaves:
        value = recording.values[leaf.number] if leaf.__class__ is Output else leaf
        if leaf.__class__ is Output and np.asarray(value).dtype.kind == "f":
            part = next(found)
            if lanes and np.ndim(part) == np.ndim(value):  # the same in every lane
                part = np.broadcast_to(part, (lanes, *np.shape(part))).copy()
            filled.append(in_dtype(part, np.asarray(value).dtype))
        else:
            own = space.outputs[leaf.number].shape if leaf.__class__ is Output else np.shape(value)
            shape = (lanes, *own) if lanes else own
            filled.append(np.zeros(shape, _float_of(value))[()])
    return pytrees.unflatten(structure, filled)


def _float_of(value) -> np.dtype:
    dtype = np.asarray(value).dtype
    return dtype if dtype.kind in "fc" else np.dtype(float)


def products_of(flat: Flattened, space: VariantWorkspace) -> tuple[tuple, tuple]:
    """Return (gradients, Hessian-vector products) of a recorded `hessian_vector`, one tree per argument."""
    _, grads, products, *_ = space.variant.recording.result
    return like_arguments(flat, value_of(space, grads)), like_arguments(flat, value_of(space, products))


def like_arguments(flat: Flattened, parts) -> tuple:
    """Return one tree per argument, given one part per differentiated leaf."""
    found = iter(parts)
    return per_argument(
        flat, [in_dtype(next(found), spec.dtype) if spec.level == ACTIVE else None for spec in flat.specs]
    )
