"""Copying scattered cells into one storage, by as few and as large copies as possible.

The code of a cell of a written array is ``storage << 32 | offset``, or ``~number`` for a
scalar, whose value number stays the same when the scalar moves.
"""

from __future__ import annotations

import functools
from bisect import bisect_right
from typing import NamedTuple

import numpy as np

from ..ops import OPCODE
from ..tape.instruction import MAIN, PROLOGUE
from ..tape.tape import ACTIVE, CONSTANT, POOLS

SHIFT = 32
OFFSET = (1 << SHIFT) - 1
FEW = 64  # cells that are compared with earlier ones in less time than they are cut into blocks


class Block(NamedTuple):
    """Cells in equal steps: code and slot of the first, sizes and steps of its axes, whether constant."""

    source: int
    slot: int
    dims: tuple[int, ...]
    steps: tuple[int, ...]
    slot_steps: tuple[int, ...]
    constant: bool


def runs(codes: np.ndarray, levels: np.ndarray, slots: np.ndarray) -> list[Block]:
    """Cut a list of cells into runs with one step in the source and one in the target.

    Constant cells are copied in the prologue, so they are separate runs.
    """
    count = len(codes)
    constant = levels <= CONSTANT
    # Each scalar counts as a storage of its own, and so do the constant cells of a storage: hence the factor.
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
        along = ((length,), (int(steps[start]),), (int(slot_steps[start]),)) if length > 1 else ((), (), ())
        result.append(Block(int(codes[start]), int(slots[start]), *along, bool(constant[start])))
        start += length
    return result


def _stacked(parts: list[Block]) -> list[Block]:
    """Join equal blocks of one storage that lie at equal distances into blocks with one more axis.

    The blocks between them may be of another kind: an array whose interior was written consists of
    alternating pieces of the interior and of its borders.
    """
    kinds: dict[tuple, list[Block]] = {}
    for part in parts:
        # A scalar is a storage of its own, of which there is one cell.
        kinds.setdefault((part.source >> SHIFT if part.source >= 0 else part.source, *part[2:]), []).append(
            part
        )
    result = []
    for alike in kinds.values():
        k = 0
        while k < len(alike):
            first, rows, step, slot_step = alike[k], 1, 0, 0
            while k + rows < len(alike):
                before, after = alike[k + rows - 1], alike[k + rows]
                distance = after.source - before.source, after.slot - before.slot
                if rows > 1 and distance != (step, slot_step):
                    break
                step, slot_step = distance
                rows += 1
            if rows > 1:
                along = (rows, *first.dims), (step, *first.steps), (slot_step, *first.slot_steps)
                first = Block(first.source, first.slot, *along, first.constant)
            result.append(first)
            k += rows
    return result


def blocks(codes: np.ndarray, levels: np.ndarray, slots: np.ndarray) -> list[Block]:
    """Cut a list of cells into few blocks."""
    if len(codes) > FEW:
        return _blocks(codes, levels, slots)
    # The turns of a loop write to arrays in the same way: how few cells are cut is known after the first one.
    places: dict[int, int] = {}  # of each storage and each scalar in the order of the list
    alike = []
    for code in codes.tolist():
        if code < 0:
            alike.append(~places.setdefault(code, len(places)))
        else:
            alike.append(places.setdefault(code >> SHIFT, len(places)) << SHIFT | code & OFFSET)
    found = _blocks_of_few(tuple(alike), tuple(levels.tolist()), tuple(slots.tolist()))
    storages = list(places)
    return [
        block._replace(
            source=storages[~block.source]
            if block.source < 0
            else storages[block.source >> SHIFT] << SHIFT | block.source & OFFSET
        )
        for block in found
    ]


@functools.lru_cache(256)
def _blocks_of_few(*columns: tuple[int, ...]) -> list[Block]:
    return _blocks(*map(np.array, columns))


def _blocks(codes: np.ndarray, levels: np.ndarray, slots: np.ndarray) -> list[Block]:
    parts = runs(codes, levels, slots)
    while len(stacked := _stacked(parts)) < len(parts):
        parts = stacked
    return parts


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
        builder.set_level(storage, level)
    kept, scalars = np.ones(codes.shape, bool), codes < 0
    for place in zip(*np.nonzero(scalars), strict=True) if movable and scalars.any() else ():
        kept[place] = not rehomed(trace, ~int(codes[place]), storage, int(slots[place]))
    orders = [(codes[kept], levels[kept], slots[kept])]
    if not len(orders[0][0]):
        return
    if sum(n > 1 for n in codes.shape) > 1:  # Copying by columns is taken if it makes fewer pieces.
        orders.append((codes.T[kept.T], levels.T[kept.T], slots.T[kept.T]))
    for block in min((blocks(*order) for order in orders), key=len):
        _copy(trace, block, storage, family)


def rehomed(trace, number: int, storage: int, slot: int) -> bool:
    """Move a scalar into a slot of a storage to which nothing writes; return whether that was possible.

    What computes numbers in a trace remembers the cells of the instructions that it has seen.
    """
    evaluation = trace.derivatives.evaluation
    if evaluation is not None and evaluation.has(number):
        return False
    return trace.tape.rehome(number, storage, slot)


def _copy(trace, block: Block, storage: int, family: int) -> None:
    builder = trace.tape
    negative = builder.sizes.negative
    if block.source < 0:
        number = ~block.source
    else:
        strides = [negative(step) for step in block.steps]
        number = builder.view(block.source >> SHIFT, block.source & OFFSET, block.dims, strides)
    out = builder.view(storage, block.slot, block.dims, [negative(step) for step in block.slot_steps])
    # Cells without derivatives may come from a storage that has some, and go to one that has none.
    levels = builder.level_of(number), builder.level_of(out)
    active = 1 if not block.constant and levels == (ACTIVE, ACTIVE) else 0
    stage = PROLOGUE if block.constant else MAIN
    builder.emit(2 * OPCODE["copy"] + family, active, stage, out, number, line=trace.line())


def surrounding(slots: np.ndarray, shape) -> tuple[slice, ...]:
    """Return the block of a contiguous array that is copied for some of its entries, given by number.

    Stencils read several views that are shifted against one another. So the block has all of an axis if the
    entries reach over more than half of it: the next views are then addresses in the same copy.
    """
    block = []
    for places, n in zip(np.unravel_index(slots, shape), shape, strict=True):
        low, high = int(places.min()), int(places.max()) + 1
        block.append(slice(None) if 2 * (high - low) > n else slice(low, high))
    return tuple(block)


def affine(builder, codes: np.ndarray) -> int | None:
    """Return a view that consists of these cells, or None if no strides describe them."""
    first = int(codes.flat[0])
    if first < 0:
        if not (codes == first).all():
            return None
        storage, offset, _ = builder.values[~first]
        return builder.view(storage, offset, codes.shape, (0,) * codes.ndim)
    strides, reached = [], []
    for axis, n in enumerate(codes.shape):
        key = [0] * codes.ndim
        key[axis] = min(1, n - 1)
        strides.append(int(codes[tuple(key)]) - first)
        reached.append(strides[-1] * (n - 1))
    if first + sum(reached) != codes.item(-1):
        return None
    low, high = (first + sum(f(0, step) for step in reached) for f in (min, max))
    if (
        not low >> SHIFT == high >> SHIFT == first >> SHIFT
        or (codes != grid(first, codes.shape, strides)).any()
    ):
        return None
    steps = [builder.sizes.negative(step) for step in strides]
    return builder.view(first >> SHIFT, first & OFFSET, codes.shape, steps)


def grid(first: int, shape, steps) -> np.ndarray:
    """Return the codes of cells in equal steps along each axis."""
    codes = np.array(first, np.int64)
    for n, step in zip(shape, steps, strict=True):
        codes = np.add.outer(codes, step * np.arange(n))
    return codes


def is_pool(storage: int) -> bool:
    return storage < len(POOLS)
