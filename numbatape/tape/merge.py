"""Common subexpressions: instructions that compute what an earlier one has computed are dropped.

Values are numbered by instruction: two with the same op on the same cells are one, provided that nothing
writes those cells twice (a buffer that cotangents are added to, an array filled part by part).
"""

from __future__ import annotations

from collections import Counter

from .tape import GUARD, NONE, POOLS

COUNT = len(POOLS)


def merge_common(builder) -> None:
    """Drop repeated instructions from a builder, and let their readers read the first one's result."""
    values = builder.values

    def cell(value: int) -> int:
        storage, offset, _ = values[value]
        return storage if storage >= COUNT else -1 - (offset * COUNT + storage)

    writers = Counter(cell(row[3]) for row in builder.code if row[0] != GUARD)
    alias: dict[int, int] = {}  # what is dropped -> what stands for it, named as `cell` does
    known: dict[tuple, int] = {}
    kept = []
    for row in builder.code:
        op, active, stage, out, a, b, c = row[:7]
        if op == GUARD:
            kept.append(row)
            continue
        operands: list = []
        for value in (a, b, c):
            if value == NONE:
                continue
            storage, offset, layout = values[value]
            where = storage if storage >= COUNT else -1 - (offset * COUNT + storage)
            where = alias.get(where, where)
            if writers.get(where, 0) > 1:
                break
            operands.append((where, offset if storage >= COUNT else 0, layout))
        else:
            target = cell(out)
            _, offset, layout = values[out]
            if writers[target] == 1 and (target < 0 or offset == 0):
                signature = (op, active, stage, layout, target < 0, *operands)
                first = known.setdefault(signature, target)
                if first != target and (target < 0 or builder.storages[first] == builder.storages[target]):
                    alias[target] = first
                    continue
        kept.append(row)
    if not alias:
        return
    builder.code = kept
    for k, (storage, offset, layout) in enumerate(values):
        where = storage if storage >= COUNT else -1 - (offset * COUNT + storage)
        first = alias.get(where)
        if first is None:
            continue
        if first >= 0:
            values[k] = (first, offset, layout)
        else:
            values[k] = (-(first + 1) % COUNT, -(first + 1) // COUNT, layout)
