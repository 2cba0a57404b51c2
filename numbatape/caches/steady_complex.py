"""The steady call of a gradient cache of complex arguments; `numbatape.caches.steady` says what that is."""

from __future__ import annotations

import numpy as np

from ..tape.tape import ACTIVE
from ..trace.complex.pairs import join
from .arguments import STATIC, Flattened
from .program import VariantWorkspace


def make(flat: Flattened, space: VariantWorkspace, sweep: tuple, rebound, general, turn):
    """Return the closure.

    Parameters
    ----------
    sweep
        The kernel's call, a view of the function's value, and what makes a number of it (or None).
    turn
        Whose turn it is to use the workspace.
    """
    gradient, value, number = sweep
    rows: list[tuple] = []  # (views of a leaf's parts, class, dtype, shape), one a differentiated argument
    packed: list[tuple | None] = []  # (views of a gradient's parts, whether it is an array), one an argument
    views = iter(zip(space.inputs, space.gradients, strict=True))
    for leaf, spec in zip(flat.leaves, flat.specs, strict=True):
        cells, adjoint = (None, None) if spec.level == STATIC else next(views)
        if spec.level != ACTIVE:
            packed.append(None)
        elif spec.part == "imag":
            rows[-1][0].append(cells)
            packed[-1][0].append(adjoint)  # type: ignore[index]
        else:
            is_array = spec.kind == "array"
            kind = np.ndarray if is_array else complex if spec.part else float
            rows.append(([cells], kind, np.dtype(spec.whole_dtype), np.shape(leaf)))
            packed.append(([adjoint], is_array))
    count, loaded = len(rows), space.constants

    def pack(entry):
        if entry is None:
            return None
        views, is_array = entry
        if len(views) == 1:
            return views[0].copy() if is_array else views[0][()]
        return join(*views) if is_array else join(*(view[()] for view in views))

    def call(*args):
        if len(args) == count and (rebound is None or not rebound()) and not turn.busy:
            turn.busy = True
            try:
                for x, (cells, kind, dtype, shape) in zip(args, rows, strict=True):
                    if x.__class__ is not kind or (
                        kind is np.ndarray and (x.dtype != dtype or x.shape != shape)
                    ):
                        break
                    if len(cells) == 1:
                        cells[0][...] = x
                    else:
                        cells[0][...], cells[1][...] = x.real, x.imag
                else:
                    if space.constants is loaded and gradient() is not None:
                        return value[0] if number is None else number(value[0]), tuple(map(pack, packed))
            finally:
                turn.busy = False
        return general(*args)

    return call
