"""``nt.vmap`` inside of a function that is being traced: the lanes are recorded on its own tape."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..capture import rebinding
from ..control.mapped_axes import Mapped, OutAxes, wholes_of
from ..control.trees import leaves_of
from ..control.vectorised import in_lanes, without_lanes
from ..trace import pytrees
from ..trace.trace import current


def vmap(function: Callable, mapped: Mapped, out_axes: OutAxes):
    """Return the tree of results."""
    trace = current()
    assert trace is not None
    run = rebinding.rebind(function)
    pairs = list(zip(mapped.leaves, mapped.axes, strict=True))
    moved = [np.moveaxis(leaf, axis, 0) if axis else leaf for leaf, axis in pairs if axis is not None]
    rows, structure = leaves_of(moved)

    def of_row(parts):
        row = iter(pytrees.unflatten(structure, parts))
        args, kwargs = mapped.rebuilt([leaf if axis is None else next(row) for leaf, axis in pairs])
        return run(*args, **kwargs)

    found = (in_lanes if mapped.count else without_lanes)(trace, of_row, rows)
    stacks, whole = wholes_of(pytrees.unflatten(found.structure, found.stacks))
    shared, _ = wholes_of(pytrees.unflatten(found.structure, found.shared))
    return out_axes.placed(whole, stacks, shared)
