"""Common subexpressions: an instruction that repeats an earlier one is dropped.

This is value numbering: two instructions with the same op on the same cells have the same value, provided
that nothing writes to those cells twice (a buffer that cotangents are added to, an array filled part by
part).
"""

from __future__ import annotations

import numpy as np

from ..instruction import GUARD, lists
from ..uses import NO_KEY, cell_of, keys_of


def merge_common(builder, code: np.ndarray, goal) -> np.ndarray:
    """Drop repeated instructions, and let their readers read the first one's result."""
    values, keys = builder.values, keys_of(builder.values)
    keys.append(NO_KEY)  # of missing operands: NONE is the index of this last entry
    offsets = [offset if key >= 0 else 0 for key, (_, offset, _) in zip(keys, values, strict=False)]
    layouts = [layout for _, _, layout in values]
    offsets.append(0)
    layouts.append(0)
    number = np.array(keys, np.int64)
    written, times = np.unique(number[code["out"][code["op"] != GUARD]], return_counts=True)
    several = set(written[times > 1].tolist())  # keys that more than one instruction writes to
    alias: dict[int, int] = {}  # key of a dropped result -> key of the result that replaces it
    known: dict[tuple, int] = {}
    dropped: list[int] = []
    rows = lists(code, "op", "active", "stage", "out", "a", "b", "c")
    for k, (op, active, stage, out, a, b, c) in enumerate(zip(*rows, strict=True)):
        target = keys[out]
        if op == GUARD or target in several or (target >= 0 and offsets[out]):
            continue
        places: list = []
        for value in (a, b, c):
            where = keys[value]
            where = alias.get(where, where)
            if where in several:
                break
            places += (where, offsets[value], layouts[value])
        else:
            first = known.setdefault((op, active, stage, layouts[out], target < 0, *places), target)
            if first != target and (target < 0 or builder.storages[first] == builder.storages[target]):
                alias[target] = first
                dropped.append(k)
    if not alias:
        return code
    for k, key in enumerate(keys[:-1]):
        if key in alias:
            first = alias[key]
            _, offset, layout = values[k]
            builder.place(k, *((first, offset) if first >= 0 else cell_of(first)), layout)
    kept = np.ones(len(code), bool)
    kept[dropped] = False
    return code[kept]
