"""Definitions and uses: which instructions write and read the storages of a tape, and what views cover."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from .instruction import GUARD, NONE, lists
from .tape import POOLS

NO_KEY = np.iinfo(np.int64).min  # the key of a missing operand


def array_rows(builder, code, ops) -> list[int]:
    """Return the numbers of the instructions that make arrays by one of some ops, given by row."""
    wanted = list(ops)
    values = builder.values
    found = np.flatnonzero((code["op"] != GUARD) & np.isin(code["op"] >> 1, wanted))
    return [k for k in found.tolist() if values[code["out"][k]][2]]


def keys_of(values) -> list[int]:
    """Name what holds each value: its storage, or (negative) its cell of a pool, see `cell_of`."""
    pools = len(POOLS)
    if isinstance(values, list):
        return [s if s >= pools else -1 - (offset * pools + s) for s, offset, _ in values]
    rows = values if isinstance(values, np.ndarray) else values.columns()
    storage, offset = rows["storage"].astype(np.int64), rows["offset"]
    return np.where(storage >= pools, storage, -1 - (offset * pools + storage)).tolist()


def cell_of(key: int) -> tuple[int, int]:
    """Return (pool, offset) of the cell that a negative key names."""
    return -(key + 1) % len(POOLS), -(key + 1) // len(POOLS)


def dependents(code, keys: list[int], sources) -> set[int]:
    """Return the keys of values that depend on the given ones (included), and of the scratch of their ops.

    This iterates to a fixed point, because cells that are written several times may be read in between.

    Parameters
    ----------
    code
        Instructions as an array, of a builder or of a tape.
    """
    at = np.append(np.array(keys, np.int64), NO_KEY)  # the last entry is for missing operands
    made = code[code["op"] != GUARD]
    rows = list(zip(*(at[made[name]].tolist() for name in ("out", "a", "b", "c", "aux")), strict=True))
    found, grown = set(sources), -1
    while grown != len(found):
        grown = len(found)
        for out, a, b, c, scratch in rows:
            if out in found or a in found or b in found or c in found:
                found.add(out)
                if scratch != NO_KEY:
                    found.add(scratch)
    return found


class Use:
    """Rows (by number) that write a storage and that read it, and the values they name it by."""

    __slots__ = ("readers", "values", "writers")

    def __init__(self):
        self.writers: list[int] = []
        self.readers: list[int] = []
        self.values: set[int] = set()


class Uses:
    """Which instructions write and read each storage, and each cell of a pool: ``of[uses.key(value)]``.

    Parameters
    ----------
    builder
        A builder or a tape.
    code
        Instructions as columns, without dead ones.
    outputs
        Values that the tape's outputs are.
    """

    def __init__(self, builder, code, outputs):
        self.keys = keys = keys_of(builder.values)
        self.of: defaultdict[int, Use] = defaultdict(Use)
        self.fixed = {keys[value] for value in (*outputs, *(slot.value for slot in builder.inputs))}
        self.fixed |= {item.storage for item in builder.literals}
        of = self.of
        fields = lists(code, "op", "out", "a", "b", "c", "aux")
        for k, (op, out, a, b, c, aux) in enumerate(zip(*fields, strict=True)):
            read: tuple[int, ...] = (a,)
            if op != GUARD:
                use = of[keys[out]]
                use.writers.append(k)
                use.values.add(out)
                read = (a, b, c, aux)
                if aux != NONE:
                    self.fixed.add(keys[aux])
            for value in read:
                if value != NONE:
                    use = of[keys[value]]
                    use.readers.append(k)
                    use.values.add(value)

    def key(self, value: int) -> int:
        """Name what held a value then, see `keys_of`."""
        return self.keys[value]

    def settled(self, value: int, k: int) -> bool:
        """Whether nothing writes a value's cells from row ``k`` on."""
        writers = self.of[self.key(value)].writers
        return not writers or writers[-1] < k


def layout_of(builder, value: int):
    """Return a value's layout."""
    return builder.layouts[builder.values[value][2]]


def covers(builder, value: int) -> bool:
    """Whether a view has every cell of its storage once, for all sizes that guards allow."""
    storage, offset, layout = builder.values[value]
    size, settled, its = builder.sizes.value, builder.sizes.settled, builder.layouts[layout]
    dims, strides = (list(map(settled, codes)) for codes in (its.dims, its.strides))
    axes = sorted((k for k in range(len(dims)) if dims[k] != 1), key=lambda k: -size(strides[k]))
    expected, cells = builder.contiguous_strides([dims[k] for k in axes])
    return (
        offset == 0
        and settled(cells) == settled(builder.storages[storage][0])
        and [strides[k] for k in axes] == list(map(settled, expected))
    )


def axes_of(builder, value: int, whole: int) -> list[int | None] | None:
    """Return which axis of a value that covers the storage each axis of another view walks along.

    None in the list stands for an axis that walks nowhere (one entry, or a broadcast); None for the list
    says that the view walks otherwise: along a part, or along several axes at once.
    """
    its, mine = layout_of(builder, whole), layout_of(builder, value)
    if builder.values[value][1] != 0:
        return None
    walked = {(d, s): k for k, (d, s) in enumerate(zip(its.dims, its.strides, strict=True)) if d != 1}
    axes: list[int | None] = []
    for pair in zip(mine.dims, mine.strides, strict=True):
        if pair[0] == 1 or pair[1] == 0:
            axes.append(None)
        elif pair in walked:
            axes.append(walked[pair])
        else:
            return None
    return axes
