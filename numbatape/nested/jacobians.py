"""Jacobians inside of a trace: all unit directions at once, as a leading axis of one walk.

The number of instructions does not depend on the number of directions. Calls of users' rules take one
direction at a time, so a function that contains such a call is walked once for each direction.
"""

from __future__ import annotations

import math

import numpy as np

from ..emitter.symbol import Symbol
from ..ops import OPS, ArrayOp
from ..trace.primitives import sample_of
from .emitting import emitter_of, symbol, traced
from .transforms import Linearised, fixed_shape, or_zeros


def jacobian_blocks(run: Linearised, forward: bool, skipped: list[bool]) -> dict[tuple[int, int], object]:
    """Return the derivative of each output by each input: the axes of the output, then those of the input.

    Parameters
    ----------
    forward
        Whether the directions are those of the inputs; else they are those of the outputs.
    skipped
        Which inputs need no derivative.
    """
    varied = [k for k, skip in enumerate(skipped) if not skip]
    inputs, outputs = run.marks, run.outputs
    sources = [(k, inputs[k]) for k in varied] if forward else list(enumerate(outputs))
    targets = list(enumerate(outputs)) if forward else [(k, inputs[k]) for k in varied]
    count = sum(_size(x) for _, x in sources)
    apart = count > 1 and _calls_rules(run)
    found = _one_by_one(run, forward, sources, count) if apart else _together(run, forward, sources, count)
    blocks: dict[tuple[int, int], object] = {}
    first = 0
    for i, source in sources:
        stop = first + _size(source)
        for j, target in targets:
            place = (j, i) if forward else (i, j)
            blocks[place] = _block(run, found[j], (first, stop), source, target, forward)
        first = stop
    return blocks


def _size(x) -> int:
    return math.prod(fixed_shape(x))  # how many directions there are


def _calls_rules(run: Linearised) -> bool:
    """Whether the function calls a user's rule."""
    rows = run.trace.tape.instructions(*run.rows)
    return any(not row.is_guard and isinstance(OPS[row.row], ArrayOp) and OPS[row.row].calls for row in rows)


def _units(sources, count: int) -> list[np.ndarray]:
    """Return the unit directions of leaves: for each leaf an array with a leading axis of directions."""
    units, first = [], 0
    for _, x in sources:
        value = sample_of(x)
        size = int(np.size(value))
        unit = np.zeros((count, size), np.asarray(value).dtype)
        unit[first : first + size] = np.eye(size)
        units.append(unit.reshape(count, *np.shape(value)))
        first += size
    return units


def _walk(run: Linearised, forward: bool, sources, directions, lanes: int | None) -> list:
    """Return tangents of all outputs, or cotangents of all inputs, as symbols or numbers."""
    seeds: list = [None] * len(run.marks if forward else run.outputs)
    for (k, _), direction in zip(sources, directions, strict=True):
        seeds[k] = symbol(run.trace, direction)
    return (run.pushed if forward else run.pulled)(seeds, lanes=lanes)


def _together(run: Linearised, forward: bool, sources, count: int) -> list:
    """Return derivatives along all unit directions, a leading axis in front; None for zero."""
    emitter = emitter_of(run.trace)
    if count > 1:
        return _walk(run, forward, sources, _units(sources, count), count)
    if count == 0:
        return [None] * len(run.outputs if forward else run.marks)
    parts = _walk(run, forward, sources, [unit[0] for unit in _units(sources, 1)], None)
    likes = run.results if forward else run.inputs
    families = map(run.trace.tape.family_of, likes)
    symbols = [
        part if part is None or part.__class__ is Symbol else emitter.literal(part, family)
        for part, family in zip(parts, families, strict=True)
    ]
    return [None if part is None else emitter.expand(part, (0,)) for part in symbols]


def _one_by_one(run: Linearised, forward: bool, sources, count: int) -> list:
    """Return the same as `_together`, by one walk for each direction."""
    units = _units(sources, count)
    likes = run.outputs if forward else run.marks
    rows: list[list] = [[] for _ in likes]
    for k in range(count):
        parts = _walk(run, forward, sources, [unit[k] for unit in units], None)
        for its, part, like in zip(rows, parts, likes, strict=True):
            its.append(or_zeros(traced(run.trace, part), like))
    return [symbol(run.trace, np.stack(its)) for its in rows]


def _block(run: Linearised, found, span: tuple[int, int], source, target, forward: bool):
    """Return the derivative of one leaf by another, taken out of the derivatives along all directions."""
    its, like = np.shape(sample_of(source)), target if forward else source
    if found is None or span[0] == span[1]:
        other = fixed_shape(target)
        value = np.zeros(other + its if forward else its + other, np.asarray(sample_of(like)).dtype)
        return value[()]
    emitter = emitter_of(run.trace)
    part = emitter.split(emitter.cut(found, *span, axis=0), its)
    if forward:
        part = emitter.ordered(part, [*range(len(its), part.ndim), *range(len(its))])
    return or_zeros(traced(run.trace, part), like)
