"""The steady call of the caches of derived tapes: a closure for the specs and sizes of the last call.

It checks the arguments' class, dtype and shape, copies them in, enters one kernel (which compares watched
constants and sweeps) and hands out copies of the outputs. What it does not know it hands to the
general call. `numbatape.caches.steady` does the same for gradients.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..engine import kernels
from ..tape.tape import ACTIVE
from ..trace import pytrees
from ..trace.record import Output
from .arguments import Flattened
from .derived import Derived
from .program import VariantWorkspace
from .steady import is_regular

ndarray = np.ndarray


def make(
    cache,
    flat: Flattened,
    derived: Derived,
    space: VariantWorkspace,
    general: Callable,
    wrap: Callable,
    lanes: int = 0,
):
    """Return the closure, or None where it would not serve.

    Parameters
    ----------
    general
        The general call; takes the same arguments, in the order of the tape's inputs.
    wrap
        Makes the result of what stands in the workspace: called without arguments.
    lanes
        How many lanes the directions have that are given in each call; 0: they have none, or stay in place.
    """
    extended = derived.current
    evaluator = derived.evaluator((), fixed=derived.lanes and not lanes)
    if (
        extended is None
        or space.variant.single_use
        or not is_regular(cache, flat)
        or any(spec.kind not in ("array", "float", "scalar") for spec in extended.active)
        or not evaluator.watch(space, extended)
    ):
        return None
    environment = derived.program.environment
    rebound = None if environment.empty else environment.rebound
    dummy = np.zeros(1)
    sweep, words = kernels.call_of("watched", space.address, dummy, _stopped, space.variant.counter)
    space.alive = words, dummy
    skip = evaluator.lanes
    rows = []
    for number, (cells, (leaf, spec, _)) in enumerate(zip(space.inputs, extended.traced(), strict=True)):
        if number in skip:
            if lanes:
                rows.append((cells, "array", np.dtype(spec.dtype), (lanes, *np.shape(leaf))))
        elif spec.level == ACTIVE:
            rows.append((cells, spec.kind, np.dtype(spec.dtype), np.shape(leaf)))
    count, turn, loaded = len(rows), cache._turn, space.constants

    def call(*arrays):
        if len(arrays) == count and (rebound is None or not rebound()) and not turn.busy:
            turn.busy = True
            try:
                for x, (cells, kind, dtype, shape) in zip(arrays, rows):  # noqa: B905 (0.1 us; they are as many)
                    if x.__class__ is ndarray:
                        # Dtypes of NumPy are single objects; another of the same meaning goes on below.
                        if kind != "array" or x.dtype is not dtype or x.shape != shape:
                            break
                    elif kind == "array" or (x.__class__ is not float and x.__class__ is not np.float64):
                        break
                    cells[...] = x
                else:
                    if space.constants is loaded and sweep() is not None:
                        return wrap()
            finally:
                turn.busy = False
        return general(*arrays)

    return call


def jacobian(
    cache, flat: Flattened, derived: Derived, general: Callable, by_columns: bool
) -> Callable | None:
    """Return the steady call of an array-valued function of one array, whose Jacobian takes one sweep."""
    space = derived.last
    if space is None or flat.count != 1 or len(flat.active) != 1 or flat.active[0].kind != "array":
        return None
    result, parts = space.variant.recording.result
    values, views = arrays_of(space, result), arrays_of(space, parts)
    if result.__class__ is not Output or values is None or views is None or len(views) != 1:
        return None
    value, view = values[0], views[0]
    if space.variant.recording.values[result.number].__class__ is not ndarray:
        return None
    shape = np.shape(flat.leaves[0])
    size = int(np.prod(shape)) if by_columns else value.size
    if view.shape != (size, *(value.shape if by_columns else shape)):
        return None
    full = value.shape + shape
    if by_columns:
        matrix = view.reshape(size, -1).T if view.flags.c_contiguous else np.moveaxis(view, 0, -1)
    else:
        matrix = view

    def wrap():
        return value.copy(), np.array(matrix, order="C").reshape(full)

    return make(cache, flat, derived, space, general, wrap)


def push(cache, flat: Flattened, derived: Derived, space: VariantWorkspace, general: Callable, lanes: int):
    """Return the steady call ``(*primals, *tangents)`` of a function with one result, or None."""
    result, parts = space.variant.recording.result
    views = arrays_of(space, (result, parts))
    if result.__class__ is not Output or views is None or len(views) != 2:
        return None
    value, tangent = views
    if tangent.shape != ((lanes,) if lanes else ()) + value.shape:
        return None
    number = number_of(space, result)
    read = value.copy if number is None else number
    (leaf,) = pytrees.leaves(parts)
    slope = (not lanes and number_of(space, leaf)) or tangent.copy
    return make(cache, flat, derived, space, general, lambda: (read(), slope()), lanes)


def gradient(cache, flat: Flattened, derived: Derived, general: Callable):
    """Return the steady call of a scalar function of one array, whose gradient takes one sweep."""
    space = derived.last
    if space is None or flat.count != 1 or len(flat.active) != 1 or flat.active[0].kind != "array":
        return None
    result, parts = space.variant.recording.result
    number, views = number_of(space, result), arrays_of(space, parts)
    shape = np.shape(flat.leaves[0])
    if number is None or views is None or len(views) != 1 or views[0].shape != (int(np.prod(shape)),):
        return None
    (slopes,) = views
    return make(cache, flat, derived, space, general, lambda: (number(), (slopes.copy().reshape(shape),)))


def _stopped() -> None:
    """The sweep stopped: at a guard, at a constant that changed, or at an error."""


def number_of(space: VariantWorkspace, leaf) -> Callable | None:
    """Return a function that reads a recorded scalar as NumPy gives it; None for anything else."""
    if leaf.__class__ is not Output:
        return None
    kept, cells = space.variant.recording.values[leaf.number], space.outputs[leaf.number]
    if np.ndim(kept):
        return None
    flat = cells.reshape(-1)
    if type(kept) is float:
        return lambda: float(flat[0])
    if kept.dtype == flat.dtype:
        return lambda: flat[0]
    make_number = kept.dtype.type
    return lambda: make_number(flat[0])


def arrays_of(space: VariantWorkspace, part) -> list[ndarray] | None:
    """Return views of the outputs in a part of what was recorded; None if one is no traced array."""
    views = []
    for leaf in pytrees.leaves(part):
        if leaf.__class__ is not Output:
            return None
        views.append(space.outputs[leaf.number])
    return views
