"""A function over an axis of its arguments: outside of traces, and on the tape of one that is under way."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..caches.mapped_points import MappedPoints
from ..config import Config
from ..control.mapped_axes import Mapped, OutAxes, wholes_of
from ..control.trees import leaves_of
from ..control.vectorised import in_lanes, without_lanes
from ..stand_ins import rebinding
from ..trace import pytrees
from ..trace.trace import current
from .verb_calls import Served, dispatch


def mapped_call(served: Served, in_axes, out_axes, args: Sequence, kwargs: dict, config: Config):
    """Return the results of a function over an axis of its arguments, which come without marks of roles.

    Parameters
    ----------
    served
        The function, as the verb serves it.
    in_axes, out_axes
        As `vmap` takes them.
    config
        How the function is recorded, and over how many threads its rows are spread.
    """
    placing, function = OutAxes(out_axes), served.function

    def outside():
        mapped = Mapped(in_axes, args, kwargs)
        with served.caller() as caller:
            return MappedPoints(
                function, served.names, served.shelf, caller, mapped, placing, config
            ).result()

    return dispatch(
        (args, kwargs), outside, lambda: recorded(function, Mapped(in_axes, args, kwargs), placing)
    )


def recorded(function: Callable, mapped: Mapped, out_axes: OutAxes):
    """Return the tree of results, recorded by the trace that is under way."""
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

    if mapped.count:
        found = in_lanes(trace, of_row, rows, function)
    else:
        found = without_lanes(trace, of_row, rows)
    stacks, whole = wholes_of(pytrees.unflatten(found.structure, found.stacks))
    shared, _ = wholes_of(pytrees.unflatten(found.structure, found.shared))
    return out_axes.placed(whole, stacks, shared)
