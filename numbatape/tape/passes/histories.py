"""Histories of loops: the carries before each step, which nobody reads, are not kept.

While derivatives are recorded, a loop stacks its carries behind its result, because the next derivative would
start from them. Where none came, the loop is replaced by one that does not.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..instruction import GUARD, NONE
from ..loop import Loop
from ..tape import F64, POOLS


def drop_histories(builder, code: np.ndarray, goal) -> np.ndarray:
    """Let loops keep no history that no instruction and no output reads."""
    calls = list(builder.ops.with_trait("calls"))
    places = np.flatnonzero((code["op"] != GUARD) & np.isin(code["op"] >> 1, calls))
    loops = {k: builder.calls[int(builder.numbers[int(code["c"][k])])] for k in places.tolist()}
    loops = {k: loop for k, loop in loops.items() if isinstance(loop, Loop) and loop.history}
    if not loops:
        return code
    read = {value for name in "abc" for value in code[name].tolist()} | set(goal.outputs)
    read.discard(NONE)
    values, size = builder.values, builder.sizes.value
    farthest: dict[int, int] = {}  # by storage: where the last view of it that is read begins
    for value in read:
        storage, offset, _ = values[value]
        if storage >= len(POOLS):
            farthest[storage] = max(farthest.get(storage, 0), size(offset))
    code = code.copy()
    for k, loop in loops.items():
        out = int(code["out"][k])
        storage, first, _ = values[out]
        extent = min(loop.history, key=size)
        if out in read or first or farthest.get(storage, 0) >= size(extent):
            continue
        shorter = replace(loop, history=None, extents=(extent, *loop.extents[1:]))
        code["c"][k] = builder.literal(np.float64(len(builder.calls)), F64)
        builder.calls.append(shorter)
        _, family, level = builder.storages[storage]
        builder.storages[storage] = (extent, family, level)
        builder.move(out, storage, first, (extent,), (1,))
    return code
