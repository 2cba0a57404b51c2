"""Loops keep the carries before each step only if an instruction or an output reads them.

These carries are called a loop's history. While derivatives are recorded, a loop stacks its history behind
its result, because a further derivative of the loop would start from it. If no further derivative was taken,
this pass replaces the loop by one without a history.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..combinations import flatnonzero
from ..draft import Draft
from ..instruction import NONE
from ..loop import Loop


def drop_histories(draft: Draft, code: np.ndarray) -> np.ndarray:
    """Let loops keep no history that no instruction and no output reads."""
    rows = flatnonzero(draft.ops.is_any(draft.ops.with_trait("calls"), code["op"])).tolist()
    numbers = {k: int(draft.builder.numbers[int(code["c"][k])]) for k in rows}
    loops = {k: loop for k in rows if isinstance(loop := draft.calls[numbers[k]], Loop) and loop.history}
    if not loops:
        return code
    size = draft.sizes.value
    read = {value for name in "abc" for value in code[name].tolist()} | set(draft.outputs)
    read.discard(NONE)
    results = {draft.address(int(code["out"][k]))[0] for k in loops}
    farthest: dict[int, int] = {}  # for each storage, the last cell that is read by way of any view
    storages = draft.storage
    for value in read:
        storage = int(storages[value])
        if storage in results:
            layout = draft.layout_of(value)
            dims, strides = map(size, layout.dims), map(size, layout.strides)
            steps = [(dim - 1) * stride for dim, stride in zip(dims, strides, strict=True)]
            last = size(draft.address(value)[1]) + sum(max(step, 0) for step in steps)
            farthest[storage] = max(farthest.get(storage, 0), last)
    for k, loop in loops.items():
        out = int(code["out"][k])
        storage, first, layout = draft.address(out)
        extent = min(loop.history, key=size)
        # If there are lanes, a shorter result of one would move those of the next ones.
        alone = len(draft.layouts[layout].dims) == 1
        if alone and out not in read and not first and farthest.get(storage, 0) < size(extent):
            draft.calls[numbers[k]] = replace(loop, history=None, extents=(extent, *loop.extents[1:]))
            draft.shorten(out, extent)
    return code
