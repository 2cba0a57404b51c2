"""Writes to parts of arrays whose size is a symbol: ``out[1:-1] = v`` is recorded for every length.

An array that is written to becomes a patchwork: regions that cover it (`numbatape.trace.regions`), and the
value that each of them holds. Nothing is copied before somebody reads the array: then its patches are copied
into one storage, as `np.concatenate` copies its parts. Writes at other places than slices and integers, and
arrays that consist of very many patches, have boxes instead (`numbatape.trace.boxes`), which fix the sizes.
"""

from __future__ import annotations

import contextlib
from typing import NamedTuple

import numpy as np

from ..emitter import addresses, instructions
from . import boxes, settling
from .aliasing import is_for_all_sizes, is_same, reads_what_it_wrote, root_of
from .array import TracedArray, new_traced
from .index_parts import is_plain_basic, spans_of
from .operands import lift
from .primitives import broadcast_to, value_of
from .regions import Region, Span, region_of, selected
from .symbolic_sizes import has_size, valued

MOST_PATCHES = 16


class Patch(NamedTuple):
    """Spans of an array, and the value that they hold: a part of another value.

    Attributes
    ----------
    spans
        One for each axis of the array.
    number, at
        The value number, and the spans of the array that the whole value would cover.
    """

    spans: tuple[Span, ...]
    number: int
    at: tuple[Span, ...]


class Patchwork:
    """What an array consists of, after writes that nobody has read yet."""

    __slots__ = ("family", "patches", "region", "trace")

    def __init__(self, x: TracedArray):
        self.trace, self.family = x._trace, x._family
        region = region_of(x)
        assert region is not None
        self.region = region
        self.patches = [Patch(region.spans, x._id, region.spans)]

    def put(self, spans: tuple[Span, ...], number: int) -> bool:
        """Let a value cover some spans; return False if the patches that remain are too many."""
        remaining: list[Patch] | None = [patch for patch in self.patches if patch.spans != spans]
        # If a patch had these very spans, the others are outside of them, because patches are disjoint.
        if len(remaining) == len(self.patches):
            remaining = self._outside(spans)
        if remaining is None:  # None says that the steps of two writes are different
            self.flatten()
            remaining = self._outside(spans)
        if remaining is None or len(remaining) >= MOST_PATCHES:
            return False
        self.patches = [*remaining, Patch(spans, number, spans)]
        return True

    def _outside(self, spans) -> list[Patch] | None:
        sizes, line, remaining = self.trace.tape.sizes, self.trace.line(), []
        for patch in self.patches:
            parts = _without(sizes, line, patch, spans)
            if parts is None:
                return None
            remaining += parts
        return remaining

    def flatten(self) -> int:
        """Copy the patches into one storage; return its value number."""
        if len(self.patches) > 1:
            spans = self.region.spans
            self.patches = [Patch(spans, self._copied(), spans)]
        return self.patches[0].number

    def _copied(self) -> int:
        tape, line = self.trace.tape, self.trace.line()
        level = max(tape.level_of(patch.number) for patch in self.patches)
        number = tape.array(self.region.dims, self.family, level)
        for patch, twin in _in_pairs(self.patches):
            source = _part(tape, patch.number, patch.at, patch.spans)
            out = _part(tape, number, self.region.spans, patch.spans)
            if twin is not None:
                source = _doubled(tape, source, patch, twin, tape.layout_of(patch.number))
                out = _doubled(tape, out, patch, twin, tape.layout_of(number))
            instructions.copied_into(tape, out, source, line)
        return number

    def entry(self, k: int) -> int | None:
        """Return the value number of one entry of a vector, None if it is in none of the patches for sure."""
        sizes, line = self.trace.tape.sizes, self.trace.line()
        place = k if k >= 0 else sizes.sub(self.region.dims[0], -k)
        for patch in self.patches:
            (span,) = patch.spans
            end = _end(sizes, span)
            inside = sizes.value(span.first) <= sizes.value(place) < sizes.value(end)
            if inside and span.step == 1:
                sizes.guard(place, ">=", span.first, line)
                sizes.guard(end, ">=", sizes.add(place, 1), line)
                tape = self.trace.tape
                part = _part(tape, patch.number, patch.at, (Span(place, 1),))
                return addresses.dropped(tape, part, (0,))
        return None


def _end(sizes, span: Span) -> int:
    """Return the position behind the last one of a span, as a size code."""
    if span.step == 1:
        return sizes.add(span.first, span.size)
    return sizes.sub(sizes.add(span.first, sizes.mul(span.size, span.step)), span.step - 1)


def _part(tape, number: int, at, spans) -> int:
    """Return the view of a value that covers some of the spans that it covers as a whole."""
    if at == spans:
        return number
    sizes, layout = tape.sizes, tape.layout_of(number)
    offset, strides = tape.offset_of(number), []
    for own, span, stride in zip(at, spans, layout.strides, strict=True):
        if own == span:
            strides.append(stride)
            continue
        assert own.step == 1
        offset = sizes.add(offset, sizes.mul(sizes.sub(span.first, own.first), stride))
        strides.append(sizes.mul(span.step, stride))
    return addresses.view(tape, number, tuple(span.size for span in spans), strides, offset)


def _in_pairs(patches: list[Patch]):
    """Yield patches, together with another one that has the same form, or None.

    The two ends of what was around ``u[1:-1]`` are copied by one instruction.
    """
    waiting = list(patches)
    while waiting:
        patch = waiting.pop(0)
        twin = next((other for other in waiting if _axis_apart(patch, other) is not None), None)
        if twin is not None:
            waiting.remove(twin)
        yield patch, twin


def _axis_apart(patch: Patch, other: Patch) -> int | None:
    """Return the axis along which two patches of one value are apart, None if they are not of one form."""
    if (patch.number, patch.at) != (other.number, other.at):
        return None
    pairs = list(zip(patch.spans, other.spans, strict=True))
    axes = [axis for axis, (own, its) in enumerate(pairs) if own != its]
    if len(axes) != 1 or pairs[axes[0]][0][1:] != pairs[axes[0]][1][1:]:
        return None
    return axes[0]


def _doubled(tape, part: int, patch: Patch, twin: Patch, layout) -> int:
    """Return the view of a patch's part with another axis, whose second entry is the twin's part.

    Parameters
    ----------
    layout
        That of the value that the part is a view of.
    """
    axis, sizes = _axis_apart(patch, twin), tape.sizes
    assert axis is not None
    between = sizes.sub(twin.spans[axis].first, patch.spans[axis].first)
    own = tape.layout_of(part)
    stride = sizes.mul(between, layout.strides[axis])
    return addresses.view(tape, part, (2, *own.dims), (stride, *own.strides))


def _without(sizes, line: int, patch: Patch, hole) -> list[Patch] | None:
    """Return the parts of a patch outside of a hole; None where their steps do not fit together."""
    if any(_apart(sizes, line, own, cut) for own, cut in zip(patch.spans, hole, strict=True)):
        return [patch]
    parts, spans = [], list(patch.spans)
    for axis, cut in enumerate(hole):
        found = _split(sizes, line, spans[axis], cut)
        if found is None:
            return None
        outside, inside = found
        parts += [patch._replace(spans=(*spans[:axis], span, *spans[axis + 1 :])) for span in outside]
        spans[axis] = inside
    return parts


def _apart(sizes, line: int, own: Span, cut: Span) -> bool:
    """Whether two spans have no position in common, which the tape then relies on."""
    if own == cut:
        return False
    for one, other in ((own, cut), (cut, own)):
        end = _end(sizes, one)
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
    first, end, last = cut.first, _end(sizes, own), _end(sizes, cut)
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
    low, high = own.first, _end(sizes, own)
    first, last = cut.first, _end(sizes, cut)
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


# ---- writing


def write(x: TracedArray, keys: tuple, item) -> bool:
    """Do ``x[keys] = item`` for slices and integers where sizes are symbols; return whether it was done."""
    trace, root = x._trace, root_of(x._value)
    if not all(map(is_plain_basic, keys)) or not _fits(value_of(item), target := x._value[valued(keys)]):
        return False
    work = trace.memory.patchworks.get(id(root))
    if work is None and not _may_begin(x, root, has_size(keys)):
        return False
    region = _region_in(work, x)
    found = None if region is None else _spans(trace, region, keys, x)
    if found is None:
        return False
    spans, kept = found
    if _is_itself(item, target, spans, work):
        return True
    source = item if type(item) is TracedArray else lift(trace, np.asarray(item).astype(root.dtype))
    source = broadcast_to(source, np.shape(target), [spans[axis].size for axis in kept])
    dropped = tuple(axis for axis in range(len(spans)) if axis not in kept)
    number = addresses.expanded(trace.tape, source._id, dropped) if dropped else source._id
    work = trace.memory.patchworks.get(id(root))  # reading the item may have copied the patches
    if work is None:
        work = Patchwork(_owner(x, root))
    if not work.put(spans, number):
        return False
    x._value[valued(keys)] = value_of(item)
    trace.memory.patchworks[id(root)] = work
    for array in boxes.aliases(x):
        with contextlib.suppress(AttributeError):  # The array may have no value number now.
            del array._id, array._level
    return True


def _fits(item, target) -> bool:
    """Whether an item is broadcast as an operand would be; otherwise NumPy converts it, or raises."""
    own, shape = np.shape(item), np.shape(target)
    item = np.asarray(item)
    if item.dtype.kind not in "fiub" or len(own) > len(shape) or reads_what_it_wrote(target, item):
        return False
    lead = len(shape) - len(own)
    return all(n in (1, shape[lead + k]) for k, n in enumerate(own))


def _may_begin(x: TracedArray, root: np.ndarray, sized: bool) -> bool:
    """Whether all arrays in the memory are regions of one.

    Parameters
    ----------
    sized
        Whether it is written to at positions that depend on sizes; otherwise its own size must be a symbol.
    """
    trace = x._trace
    if boxes.box_of(x) is not None or trace.memory.located or not root.size or root.dtype != x._value.dtype:
        return False
    owner = _owner(x, root)
    if owner is None:
        return False
    settled = trace.tape.sizes.settled
    region = region_of(owner)
    if region is None:
        return False
    # A part may have a symbolic size where the owner has a fixed one: ``x[:len(y)]``.
    if not sized and x is not owner and (own := region_of(x)) is not None:
        sized = any(settled(code) < 0 for span in own.spans for code in (span.first, span.size))
    if not sized and all(settled(dim) >= 0 for dim in region.dims):
        return False
    values, regions = trace.tape.values, trace.memory.regions
    others = [a for a in boxes.aliases(x) if id(a._value) not in regions]
    return all(values[a._id] == values[owner._id] and is_for_all_sizes(a._value, root) for a in others)


def _owner(x: TracedArray, root: np.ndarray):
    """Return the array of the trace that owns the memory, None if it is gone."""
    return next((array for array in boxes.aliases(x) if array._value is root), None)


def _region_in(work: Patchwork | None, x: TracedArray) -> Region | None:
    """Return the region of an array; without giving it a value number, which would copy the patches."""
    if work is not None and x._value is work.region.value:
        return work.region
    return region_of(x)


def _spans(trace, region: Region, keys, x: TracedArray):
    spans = spans_of(x, keys, [region.spans[axis].size for axis in region.kept])
    return None if spans is None else selected(trace.tape.sizes, region, spans)


def _is_itself(item, target, spans, work: Patchwork | None) -> bool:
    """Whether an array is written to where it is already: what ``u[1:] += v`` does in the end."""
    if type(item) is not TracedArray or target.__class__ is not np.ndarray or work is None:
        return False
    region = item._trace.memory.regions.get(id(item._value))
    return (
        region is not None
        and region.value is item._value
        and region.spans == spans
        and is_same(item._value, target)
        and root_of(target) is root_of(work.region.value)
    )


# ---- reading


def settle(x: TracedArray) -> None:
    """Give an array in written memory its value number and level."""
    work = x._trace.memory.patchworks.pop(id(root_of(x._value)), None)
    if work is None:
        settling.settle(x)
        return
    trace = x._trace
    trace.check_open()
    number = work.flatten()
    for array in boxes.aliases(x):
        array._id, array._level = number, trace.tape.level_of(number)
        region = trace.memory.regions.get(id(array._value))
        if region is not None:
            part = _part(trace.tape, number, work.region.spans, region.spans)
            dropped = [axis for axis in range(len(region.spans)) if axis not in region.kept]
            array._id = addresses.dropped(trace.tape, part, dropped) if dropped else part


def entry_of_patches(x: TracedArray, k: int):
    """Return ``x[k]`` of a vector that consists of patches; None if all patches have to be copied for it."""
    work = x._trace.memory.patchworks.get(id(x._value))
    if work is None or len(work.region.dims) != 1:
        return None
    number = work.entry(k)
    if number is None:
        return None
    return new_traced(x._trace, x._value[k], number, x._trace.tape.level_of(number), work.family)
