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
from .index_parts import is_plain_basic, marks_of, spans_of
from .operands import lift
from .primitives import value_of
from .regions import Region, Span, end_of, outside, region_of, selected
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

    def __init__(self, x: TracedArray, region: Region):
        self.trace, self.family, self.region = x._trace, x._family, region
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
        """Return what remains of the patches outside of a hole.

        It follows from their spans alone, with the guards that it needs: once for all turns of a loop.
        """
        tape, own = self.trace.tape, tuple([patch.spans for patch in self.patches])
        key = Patchwork._outside, own, spans
        if key not in tape.rearranged:
            tape.rearranged[key] = outside(tape.sizes, self.trace.line(), own, spans)
        found = tape.rearranged[key]
        if found is None:
            return None
        return [Patch(part, *self.patches[k][1:]) for k, part in found]

    def flatten(self) -> int:
        """Copy the patches into one storage; return its value number."""
        if len(self.patches) > 1:
            spans = self.region.spans
            self.patches = [Patch(spans, self._copied(), spans)]
        return self.patches[0].number

    def _copied(self) -> int:
        tape, line, values = self.trace.tape, self.trace.line(), self.trace.tape.values
        numbers = [patch.number for patch in self.patches]
        number = tape.array(self.region.dims, self.family, max(map(tape.level_of, numbers)))
        # Which copies these are follows from the spans, the layouts, and which patches are of one value.
        forms = [(spans, at, values[own][2], numbers.index(own)) for spans, own, at in self.patches]
        key = Patchwork._copied, values[number][2], tuple(forms)
        copies = tape.rearranged.get(key)
        if copies is None:
            copies = tape.rearranged[key] = _copies(tape, self.patches, number, self.region.spans)
        for k, shifts, out_shifts in copies:
            source = _shifted(tape, numbers[k], *shifts)
            out = _shifted(tape, number, *out_shifts)
            instructions.copied_into(tape, out, source, line)
        return number

    def entry(self, k: int) -> int | None:
        """Return the value number of one entry of a vector, None if it is in none of the patches for sure."""
        sizes, line = self.trace.tape.sizes, self.trace.line()
        place = k if k >= 0 else sizes.sub(self.region.dims[0], -k)
        for patch in self.patches:
            (span,) = patch.spans
            end = end_of(sizes, span)
            inside = sizes.value(span.first) <= sizes.value(place) < sizes.value(end)
            if inside and span.step == 1:
                sizes.guard(place, ">=", span.first, line)
                sizes.guard(end, ">=", sizes.add(place, 1), line)
                tape = self.trace.tape
                part = _part(tape, patch.number, patch.at, (Span(place, 1),))
                return addresses.dropped(tape, part, (0,))
        return None


def _part(tape, number: int, at, spans) -> int:
    """Return the view of a value that covers some of the spans that it covers as a whole."""
    if at == spans:
        return number
    key = _part, tape.values[number][2], at, spans
    found = tape.rearranged.get(key)
    if found is None:
        shift, dims, strides = _selection(tape, tape.layout_of(number), at, spans)
        found = tape.rearranged[key] = shift, tape.layout_number(dims, strides)
    return _shifted(tape, number, *found)


def _shifted(tape, number: int, shift: int, layout: int) -> int:
    """Return a view of a value: how far it begins from the value's first cell, and its layout."""
    storage, start, own = tape.values[number]
    if layout == own and not shift:
        return number
    return tape.seen_as(storage, tape.sizes.add(start, shift), layout)


def _selection(tape, layout, at, spans) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """Return how far a part of a value begins from the first cell, its dimensions and strides."""
    sizes, shift, strides = tape.sizes, 0, []
    for own, span, stride in zip(at, spans, layout.strides, strict=True):
        if own == span:
            strides.append(stride)
            continue
        assert own.step == 1
        shift = sizes.add(shift, sizes.mul(sizes.sub(span.first, own.first), stride))
        strides.append(sizes.mul(span.step, stride))
    return shift, tuple([span.size for span in spans]), tuple(strides)


def _copies(tape, patches: list[Patch], number: int, spans) -> list[tuple]:
    """Return the copies that put patches together: of which patch, and how source and target are shifted.

    Parameters
    ----------
    number, spans
        The value that they are copied to, and the spans that it covers.
    """
    copies = []
    for k, patch, twin in _in_pairs(patches):
        ends = []
        for value, at in ((patch.number, patch.at), (number, spans)):
            layout = tape.layout_of(value)
            shift, dims, strides = _selection(tape, layout, at, patch.spans)
            if twin is not None:
                step = _between(tape.sizes, patch, twin, layout)
                dims, strides = (2, *dims), (step, *strides)
            ends.append((shift, tape.layout_number(dims, strides)))
        copies.append((k, *ends))
    return copies


def _in_pairs(patches: list[Patch]):
    """Yield the place of a patch, the patch, and another one that has the same form, or None.

    The two ends of what was around ``u[1:-1]`` are copied by one instruction.
    """
    waiting = list(enumerate(patches))
    while waiting:
        k, patch = waiting.pop(0)
        twin = next((other for other in waiting if _axis_apart(patch, other[1]) is not None), None)
        if twin is not None:
            waiting.remove(twin)
        yield k, patch, None if twin is None else twin[1]


def _axis_apart(patch: Patch, other: Patch) -> int | None:
    """Return the axis along which two patches of one value are apart, None if they are not of one form."""
    if (patch.number, patch.at) != (other.number, other.at):
        return None
    pairs = list(zip(patch.spans, other.spans, strict=True))
    axes = [axis for axis, (own, its) in enumerate(pairs) if own != its]
    if len(axes) != 1 or pairs[axes[0]][0][1:] != pairs[axes[0]][1][1:]:
        return None
    return axes[0]


def _between(sizes, patch: Patch, twin: Patch, layout) -> int:
    """Return how far a patch's twin is from the patch, in a value with a layout."""
    axis = _axis_apart(patch, twin)
    assert axis is not None
    return sizes.mul(sizes.sub(twin.spans[axis].first, patch.spans[axis].first), layout.strides[axis])


# ---- writing


def write(x: TracedArray, keys: tuple, item) -> bool:
    """Do ``x[keys] = item`` for slices and integers where sizes are symbols; return whether it was done."""
    trace, root = x._trace, root_of(x._value)
    work = trace.memory.patchworks.get(id(root))
    if work is None and (boxes.box_of(x) is not None or trace.memory.located):
        return False
    if not all(map(is_plain_basic, keys)) or not _fits(value_of(item), target := x._value[valued(keys)]):
        return False
    sharing = boxes.aliases(x)
    whole = _may_begin(x, root, has_size(keys), sharing) if work is None else work.region
    # Where there are patches, nobody may ask for a value number, which would copy them.
    region = whole if whole is None or x._value is whole.value else region_of(x)
    found = None if region is None else _spans(trace, region, keys, x)
    if found is None or whole is None:
        return False
    spans, kept = found
    if _is_itself(item, target, spans, work):
        return True
    source = item if type(item) is TracedArray else lift(trace, np.asarray(item).astype(root.dtype))
    number = _in_form(trace.tape, source._id, spans, kept)
    work = trace.memory.patchworks.get(id(root))  # reading the item may have copied the patches
    if work is None:
        work = Patchwork(_owner(sharing, root), whole)
    if not work.put(spans, number):
        return False
    x._value[valued(keys)] = value_of(item)
    trace.memory.patchworks[id(root)] = work
    for array in sharing:
        with contextlib.suppress(AttributeError):  # The array may have no value number now.
            del array._id, array._level
    return True


def _in_form(tape, number: int, spans, kept) -> int:
    """Return a value as it covers spans: broadcast along those that are kept, one entry along the others."""
    dims = tuple([spans[axis].size for axis in kept])
    if tape.layout_of(number).dims != dims:
        number = addresses.broadcast(tape, number, dims)
    if len(kept) == len(spans):
        return number
    return addresses.expanded(tape, number, [axis for axis in range(len(spans)) if axis not in kept])


def _fits(item, target) -> bool:
    """Whether an item is broadcast as an operand would be; otherwise NumPy converts it, or raises."""
    own, shape = np.shape(item), np.shape(target)
    item = np.asarray(item)
    if item.dtype.kind not in "fiub" or len(own) > len(shape) or reads_what_it_wrote(target, item):
        return False
    lead = len(shape) - len(own)
    return all(n in (1, shape[lead + k]) for k, n in enumerate(own))


def _may_begin(x: TracedArray, root: np.ndarray, sized: bool, sharing: list[TracedArray]) -> Region | None:
    """Return the region of the array that owns the memory, if all arrays in it are regions of that one.

    Parameters
    ----------
    sized
        Whether it is written to at positions that depend on sizes; otherwise its own size must be a symbol.
    sharing
        The arrays in the memory.
    """
    trace = x._trace
    owner = _owner(sharing, root)
    region = None if owner is None or not root.size or root.dtype != x._value.dtype else region_of(owner)
    if owner is None or region is None:
        return None
    settled = trace.tape.sizes.settled
    # A part may have a symbolic size where the owner has a fixed one: ``x[:len(y)]``.
    if not sized and x is not owner and (own := region_of(x)) is not None:
        sized = any(settled(code) < 0 for span in own.spans for code in (span.first, span.size))
    if not sized and all(settled(dim) >= 0 for dim in region.dims):
        return None
    values, regions = trace.tape.values, trace.memory.regions
    others = [a for a in sharing if a is not owner and id(a._value) not in regions]
    alike = all(values[a._id] == values[owner._id] and is_for_all_sizes(a._value, root) for a in others)
    return region if alike else None


def _owner(sharing: list[TracedArray], root: np.ndarray) -> TracedArray | None:
    """Return the array of the trace that owns the memory, None if it is gone."""
    return next((array for array in sharing if array._value is root), None)


def _spans(trace, region: Region, keys, x: TracedArray):
    """Return the spans and the kept axes of what is written to; None where a step is negative."""
    marks, tape = marks_of(keys), trace.tape
    if marks is None:  # a size is among the places
        return _selected(tape.sizes, region, keys, x)
    key = _spans, region.spans, region.kept, marks
    if key not in tape.rearranged:
        tape.rearranged[key] = _selected(tape.sizes, region, keys, x)
    return tape.rearranged[key]


def _selected(sizes, region: Region, keys, x: TracedArray):
    return selected(sizes, region, spans_of(x, keys, [region.spans[axis].size for axis in region.kept]))


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
