"""Regions: which entries of an array a view consists of, as size codes.

NumPy's addresses tell what a view consists of for the sizes of one trace. For every size, the slices that
made the view tell it; they are noted where a function writes to arrays (`numbatape.trace.patches`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .aliasing import root_of
from .primitives import layout_of


class Span(NamedTuple):
    """Positions along an axis: the first one and how many, as size codes, and a positive step."""

    first: int
    size: int
    step: int = 1


class Region(NamedTuple):
    """The entries of an array that a view consists of.

    Attributes
    ----------
    value
        The view, which is kept alive so that no other array gets its id.
    dims
        Size codes of the array that owns the memory.
    spans
        One for each axis of that array.
    kept
        The axes that the view has, too. An integer has selected one position along each other axis.
    """

    value: np.ndarray
    dims: tuple[int, ...]
    spans: tuple[Span, ...]
    kept: tuple[int, ...]


def region_of(x) -> Region | None:
    """Return the region of a traced array, None if it is not known.

    An array that owns its memory is its own region; asking for its layout gives it a value number.
    """
    found = x._trace.memory.regions.get(id(x._value))
    if found is not None and found.value is x._value:
        return found
    if x._value.__class__ is not np.ndarray or root_of(x._value) is not x._value:
        return None
    return whole(x._value, layout_of(x).dims)


def whole(value: np.ndarray, dims) -> Region:
    """Return the region of an array that owns its memory."""
    return Region(value, tuple(dims), tuple(Span(0, dim) for dim in dims), tuple(range(len(dims))))


def selected(sizes, region: Region, spans) -> tuple[tuple[Span, ...], tuple[int, ...]] | None:
    """Return spans and kept axes of what a basic index selects from a region, None where a step is negative.

    Parameters
    ----------
    spans
        For each axis of the view, what `numbatape.trace.index_parts.spans_of` returns for the index.
    """
    result, kept = list(region.spans), []
    for axis, (first, size, step) in zip(region.kept, spans, strict=True):
        own = result[axis]
        if step is not None and step < 1:
            return None
        first = sizes.add(own.first, sizes.mul(first, own.step))
        result[axis] = Span(first, size, own.step * (step or 1))
        if step is not None:
            kept.append(axis)
    return tuple(result), tuple(kept)


def note(x, value, spans) -> None:
    """Note the region of a view that a basic index makes of a traced array.

    Parameters
    ----------
    value
        The view.
    spans
        ``(first, size, step)`` for each axis of ``x``; the step of an integer is None.
    """
    region = region_of(x)
    if region is None or all(dim >= 0 for dim in region.dims):
        return
    found = selected(x._trace.tape.sizes, region, spans)
    if found is not None:
        x._trace.memory.regions[id(value)] = Region(value, region.dims, *found)
