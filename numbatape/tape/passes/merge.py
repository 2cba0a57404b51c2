"""Common subexpressions: an instruction that repeats an earlier one is dropped.

This is value numbering: two instructions with the same op on the same cells have the same value, provided
that nothing writes to those cells twice (a buffer that cotangents are added to, an array filled part by
part).
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from ..instruction import columns, instructions
from ..uses import cell_of, keys_of


def merge_common(builder, code: np.ndarray, goal) -> np.ndarray:
    """Drop repeated instructions, and let their readers read the first one's result."""
    values, keys = builder.values, keys_of(builder.values)
    rows = instructions(code.tolist())
    writers = Counter(keys[row.out] for row in rows if not row.is_guard)
    alias: dict[int, int] = {}  # key of a dropped result -> key of the result that replaces it
    known: dict[tuple, int] = {}
    kept = []
    for row in rows:
        if row.is_guard:
            kept.append(row)
            continue
        operands: list = []
        for value in row.operands:
            _, offset, layout = values[value]
            where = alias.get(keys[value], keys[value])
            if writers.get(where, 0) > 1:
                break
            operands.append((where, offset if where >= 0 else 0, layout))
        else:
            target = keys[row.out]
            _, offset, layout = values[row.out]
            if writers[target] == 1 and (target < 0 or offset == 0):
                signature = (row.op, row.active, row.stage, layout, target < 0, *operands)
                first = known.setdefault(signature, target)
                if first != target and (target < 0 or builder.storages[first] == builder.storages[target]):
                    alias[target] = first
                    continue
        kept.append(row)
    if not alias:
        return code
    for k, (_, offset, layout) in enumerate(values):
        first = alias.get(keys[k])
        if first is not None:
            builder.place(k, *((first, offset) if first >= 0 else cell_of(first)), layout)
    return columns(kept)
