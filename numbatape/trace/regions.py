"""Regions: which entries of an array a view consists of, as size codes.

NumPy's addresses tell what a view consists of for the sizes of one trace. For every size, the slices that
made the view tell it; they are noted where a function writes to arrays (`numbatape.trace.patches`).
What a write leaves of other spans is worked out here, too.
"""

from __future__ import annotations

import functools
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


def whole(value: np.ndarray, dims: tuple[int, ...]) -> Region:
    """Return the region of an array that owns its memory."""
    return Region(value, dims, *_axes(dims))


@functools.lru_cache(256)
def _axes(dims: tuple[int, ...]) -> tuple[tuple[Span, ...], tuple[int, ...]]:
    return tuple(Span(0, dim) for dim in dims), tuple(range(len(dims)))


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


# ---- spans without others


def outside(sizes, line: int, patches: tuple, hole) -> list[tuple] | None:
    """Return what remains of patches outside of a hole: of which patch, and its spans.

    Patches are given by their spans. None says that their steps and those of the hole do not fit together.
    """
    remaining = []
    for k, spans in enumerate(patches):
        parts = _without(sizes, line, spans, hole)
        if parts is None:
            return None
        remaining += [(k, part) for part in parts]
    return remaining


def _without(sizes, line: int, spans: tuple, hole) -> list[tuple] | None:
    """Return the parts of spans outside of a hole; None where their steps do not fit together."""
    if any(_apart(sizes, line, own, cut) for own, cut in zip(spans, hole, strict=True)):
        return [spans]
    parts = []
    for axis, cut in enumerate(hole):
        found = _split(sizes, line, spans[axis], cut)
        if found is None:
            return None
        outside, inside = found
        parts += [(*spans[:axis], span, *spans[axis + 1 :]) for span in outside]
        spans = (*spans[:axis], inside, *spans[axis + 1 :])
    return parts


def _apart(sizes, line: int, own: Span, cut: Span) -> bool:
    """Whether two spans have no position in common, which the tape then relies on."""
    if own == cut:
        return False
    for one, other in ((own, cut), (cut, own)):
        end = end_of(sizes, one)
        if sizes.value(end) <= sizes.value(other.first):
            sizes.guard(other.first, ">=", end, line)
            return True
    return (
        own.step == cut.step > 1 and min(own.first, cut.first) >= 0 and (own.first - cut.first) % own.step > 0
    )


def _split(sizes, line: int, own: Span, cut: Span) -> tuple[list[Span], Span] | None:
    """Return the parts of a span outside of another one that overlaps it, and the part inside."""
    if own == cut:
        return [], own
    if cut.step == 1 == own.step:
        return _split_range(sizes, line, own, cut)
    if own.step > 1:
        return None
    first, end, last = cut.first, end_of(sizes, own), end_of(sizes, cut)
    if not (sizes.value(own.first) <= sizes.value(first) and sizes.value(last) <= sizes.value(end)):
        return None
    for left, right in ((first, own.first), (end, last), (cut.size, 1)):
        sizes.guard(left, ">=", right, line)
    outside = [Span(own.first, sizes.sub(first, own.first))]
    reaches = sizes.value(end) < sizes.value(last) + cut.step
    if reaches:  # What the step leaves out between the positions of the cut goes on to the end.
        sizes.guard(sizes.add(last, cut.step - 1), ">=", end, line)
    for more in range(1, cut.step):
        start = sizes.add(first, more)
        size = sizes.sub(cut.size, 1)
        if reaches:
            size = sizes.floordiv(sizes.add(sizes.sub(end, start), cut.step - 1), cut.step)
        outside.append(Span(start, size, cut.step))
    if not reaches:
        outside.append(Span(last, sizes.sub(end, last)))
    return [part for span in outside for part in _nonempty(span)], cut


def _nonempty(span: Span) -> list[Span]:
    """Return a span, if it is not empty for all sizes."""
    return [span] if span.size else []


def _split_range(sizes, line: int, own: Span, cut: Span) -> tuple[list[Span], Span]:
    low, high = own.first, end_of(sizes, own)
    first, last = cut.first, end_of(sizes, cut)
    sizes.guard(cut.size, ">=", 0, line)
    outside = []
    # Where both are equal for this size alone, the part in between is empty for it, but not for larger sizes.
    if sizes.value(first) > sizes.value(low) or (first < 0 and sizes.value(first) == sizes.value(low)):
        sizes.guard(first, ">=", low, line)
        outside += _nonempty(Span(low, sizes.sub(first, low)))
        low = first
    else:
        sizes.guard(low, ">=", first, line)
    if sizes.value(last) < sizes.value(high) or (high < 0 and sizes.value(last) == sizes.value(high)):
        sizes.guard(high, ">=", last, line)
        outside += _nonempty(Span(last, sizes.sub(high, last)))
        high = last
    else:
        sizes.guard(last, ">=", high, line)
    return outside, Span(low, sizes.sub(high, low))


def end_of(sizes, span: Span) -> int:
    """Return the position behind the last one of a span, as a size code."""
    if span.step == 1:
        return sizes.add(span.first, span.size)
    return sizes.sub(sizes.add(span.first, sizes.mul(span.size, span.step)), span.step - 1)
