"""Copying scattered cells into one storage, by as few and as large copies as possible.

The code of a cell of a written array is ``storage << 32 | offset``, or ``~number`` for a
scalar, whose value number stays the same when the scalar moves.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

import numpy as np

from ..ops import OPCODE
from ..tape.instruction import MAIN, PROLOGUE
from ..tape.tape import ACTIVE, CONSTANT, POOLS

SHIFT = 32
OFFSET = (1 << SHIFT) - 1


class Run(NamedTuple):
    """Cells in equal steps: code and slot of the first, steps of both, number, whether constant."""

    source: int
    step: int
    slot: int
    slot_step: int
    count: int
    constant: bool


def runs(codes: np.ndarray, levels: np.ndarray, slots: np.ndarray) -> list[Run]:
    """Cut a list of cells into runs with one step in the source and one in the target.

    Constant cells are copied in the prologue, so they are separate runs.
    """
    count = len(codes)
    constant = levels <= CONSTANT
    # Each scalar counts as a storage of its own.
    places = 2 * np.where(codes < 0, codes, codes >> SHIFT) + constant
    same = places[1:] == places[:-1]
    steps, slot_steps = np.diff(codes), np.diff(slots)
    changed = (steps[1:] != steps[:-1]) | (slot_steps[1:] != slot_steps[:-1]) | (same[1:] != same[:-1])
    ends = [*(np.flatnonzero(changed) + 1).tolist(), count - 1]
    result, start = [], 0
    while start < count:
        length = 1
        if start + 1 < count and same[start]:
            length = ends[bisect_right(ends, start)] - start + 1
        step, slot_step = (int(steps[start]), int(slot_steps[start])) if length > 1 else (0, 0)
        first = int(codes[start]), step, int(slots[start]), slot_step
        result.append(Run(*first, length, bool(constant[start])))
        start += length
    return result


def _merged(parts: list[Run]):
    """Yield ``(run, rows, source step, slot step)``: equal runs at equal distances form one block."""
    k = 0
    while k < len(parts):
        run, rows, step, slot_step = parts[k], 1, 0, 0
        while k + rows < len(parts) and run.source >= 0:
            before, after = parts[k + rows - 1], parts[k + rows]
            alike = (after.step, after.slot_step) == (run.step, run.slot_step) and after[4:] == run[4:]
            distance = after.source - before.source, after.slot - before.slot
            if not alike or after.source >> SHIFT != run.source >> SHIFT:
                break
            if rows > 1 and distance != (step, slot_step):
                break
            step, slot_step = distance
            rows += 1
        yield run, rows, step, slot_step
        k += rows


def move_in(trace, codes, levels, slots, storage: int, family: int, movable: bool) -> None:
    """Put cells into the slots of a storage, none of which is written yet.

    A scalar to which nothing else refers moves there: its instruction then writes the slot. The
    other cells are copied.

    Parameters
    ----------
    codes, levels, slots
        Arrays of one shape: the cells, what they depend on, and where they go.
    movable
        Whether scalars may move: integers may have been read as positions, after which nothing may write
        to their storage.
    """
    builder = trace.tape
    codes, levels, slots = (np.array(part) for part in (codes, levels, slots))
    level = max(CONSTANT, int(levels.max(initial=CONSTANT)))
    if level > builder.storages[storage][2]:
        builder.storages[storage] = (*builder.storages[storage][:2], level)
    kept = np.ones(codes.shape, bool)
    for place in zip(*np.nonzero(codes < 0), strict=True) if movable else ():
        kept[place] = not builder.rehome(~int(codes[place]), storage, int(slots[place]))
    orders = [(codes[kept], levels[kept], slots[kept])]
    if not len(orders[0][0]):
        return
    if codes.ndim > 1:  # by columns, if that makes fewer pieces
        orders.append((codes.T[kept.T], levels.T[kept.T], slots.T[kept.T]))
    parts = min((runs(*order) for order in orders), key=len)
    for run, rows, step, slot_step in _merged(parts):
        _copy(trace, run, rows, step, slot_step, storage, family)


def _copy(trace, run: Run, rows, row_step, row_slot_step, storage, family) -> None:
    builder = trace.tape
    sizes = builder.sizes
    dims = tuple(n for n in (rows, run.count) if n > 1)
    steps = [step for step, n in ((row_step, rows), (run.step, run.count)) if n > 1]
    slot_steps = [step for step, n in ((row_slot_step, rows), (run.slot_step, run.count)) if n > 1]
    if run.source < 0:
        number = ~run.source
    else:
        strides = [sizes.negative(step) for step in steps]
        number = builder.view(run.source >> SHIFT, run.source & OFFSET, dims, strides)
    out = builder.view(storage, run.slot, dims, [sizes.negative(step) for step in slot_steps])
    active = 1 if not run.constant and builder.storages[builder.values[number][0]][2] == ACTIVE else 0
    stage = PROLOGUE if run.constant else MAIN
    builder.emit(2 * OPCODE["copy"] + family, active, stage, out, number, line=trace.line())


def affine(builder, codes: np.ndarray) -> int | None:
    """Return a view that consists of these cells, or None if no strides describe them."""
    first = int(codes.flat[0])
    if first < 0:
        if not (codes == first).all():
            return None
        storage, offset, _ = builder.values[~first]
        return builder.view(storage, offset, codes.shape, (0,) * codes.ndim)
    strides, expected = [], np.int64(first)
    for axis, n in enumerate(codes.shape):
        key = [0] * codes.ndim
        key[axis] = min(1, n - 1)
        step = int(codes[tuple(key)]) - first
        shape = [1] * codes.ndim
        shape[axis] = n
        expected = expected + step * np.arange(n).reshape(shape)
        strides.append(step)
    if not (codes == expected).all() or (codes >> SHIFT != first >> SHIFT).any():
        return None
    steps = [builder.sizes.negative(step) for step in strides]
    return builder.view(first >> SHIFT, first & OFFSET, codes.shape, steps)


def is_pool(storage: int) -> bool:
    return storage < len(POOLS)
