"""Arrays with a box as operands: their cells get into one storage, and the array a value number."""

from __future__ import annotations

import numpy as np

from ..tape.tape import CONSTANT
from .boxes import Box, box_of
from .cell_copies import SHIFT, affine, move_in


def settle(x) -> None:
    """Give an array with a box its value number and level."""
    trace = x._trace
    trace.check_open()
    box = box_of(x)
    assert box is not None
    value = x._value
    codes, levels = box.windows(value)
    number = affine(trace.tape, codes) if codes.size else trace.tape.array(codes.shape, box.family, CONSTANT)
    if number is None:
        number = _at_home(trace, box, value, codes, levels) or _gathered(trace, box, value)
    x._id, x._level = number, max(CONSTANT, int(levels.max(initial=CONSTANT)))
    box.settled.append(x)


def _at_home(trace, box: Box, value, codes, levels) -> int | None:
    """Complete the part of the home that is an array's, unless a slot holds an older entry; else None."""
    if box.home is None:
        return None
    slots = box.slots(value)
    own = slots | box.home << SHIFT
    missing = codes != own
    wanted, once = np.unique(slots[missing], return_index=True)  # the entries of a view may share cells
    if missing.all() or box.used[wanted].any():
        return None
    move_in(trace, codes[missing][once], levels[missing][once], wanted, box.home, box.family, True)
    box.used[wanted] = True
    codes[...] = own
    return affine(trace.tape, codes)


def _gathered(trace, box: Box, value: np.ndarray) -> int:
    """Copy cells into a new storage, whose cells the entries are from now on."""
    around = box.around(value)
    codes, levels = around or box.windows(value)
    level = max(CONSTANT, int(levels.max()))
    number = trace.tape.array(codes.shape, box.family, level)
    storage = trace.tape.storage_of(number)
    slots = np.arange(codes.size).reshape(codes.shape)
    move_in(trace, codes, levels, slots, storage, box.family, box.root.dtype.kind in "fc")
    codes[...] = slots | storage << SHIFT
    if codes.size == len(box.cells):
        box.home = box.used = None
        if around:  # The storage is in the order of the memory.
            start = (value.__array_interface__["data"][0] - box.first) // box.width
            steps = [
                step // box.width if n > 1 else 0 for n, step in zip(value.shape, value.strides, strict=True)
            ]
            return trace.tape.view(storage, start, value.shape, map(trace.tape.sizes.negative, steps))
    return affine(trace.tape, box.windows(value)[0]) if around else number
