"""Who writes and who reads the storages of a tape that is being built, and how their views lie."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from .tape import GUARD, NONE, POOLS


def array_rows(builder, names) -> list[int]:
    """Return the numbers of the rows that make arrays by one of some ops."""
    wanted = {k for k, name in enumerate(builder.names) if name in names}
    values = builder.values
    return [k for k, row in enumerate(builder.code) if row[0] >> 1 in wanted and values[row[3]][2]]


@dataclass
class Use:
    """Rows (by number) that write a storage and that read it, and the values they name it by."""

    writers: list[int] = field(default_factory=list)
    readers: list[int] = field(default_factory=list)
    values: set[int] = field(default_factory=set)


class Uses:
    """The use of each storage, and of each cell of the pools, by `Uses.key`.

    Parameters
    ----------
    builder
        Its rows are live ones.
    outputs
        Values that the tape's outputs are.
    """

    def __init__(self, builder, outputs):
        self.builder = builder
        self.of: defaultdict[int, Use] = defaultdict(Use)
        ends = (*outputs, *(slot.value for slot in builder.inputs))
        self.fixed = {self.key(value) for value in ends}
        self.fixed |= {item.storage for item in builder.literals}
        for k, (op, _, _, out, a, b, c, aux, _) in enumerate(builder.code):
            if op == GUARD:
                self._read(a, k)
                continue
            use = self.of[self.key(out)]
            use.writers.append(k)
            use.values.add(out)
            for value in (a, b, c, aux):
                self._read(value, k)
            if aux != NONE:
                self.fixed.add(self.key(aux))

    def _read(self, value: int, k: int) -> None:
        if value != NONE:
            use = self.of[self.key(value)]
            use.readers.append(k)
            use.values.add(value)

    def key(self, value: int) -> int:
        """Name what holds a value: its storage, or (negative) its cell of a pool."""
        storage, offset, _ = self.builder.values[value]
        return storage if storage >= len(POOLS) else -1 - (offset * len(POOLS) + storage)

    def settled(self, value: int, k: int) -> bool:
        """Whether nothing writes a value's cells from row ``k`` on."""
        return not any(row >= k for row in self.of[self.key(value)].writers)


def layout_of(builder, value: int):
    """Return a value's layout."""
    return builder.layouts[builder.values[value][2]]


def covers(builder, value: int) -> bool:
    """Whether a view has every cell of its storage once, whatever the sizes."""
    storage, offset, layout = builder.values[value]
    dims, strides = builder.layouts[layout].dims, builder.layouts[layout].strides
    size = builder.sizes.value
    axes = sorted((k for k in range(len(dims)) if dims[k] != 1), key=lambda k: -size(strides[k]))
    expected, cells = builder.contiguous_strides([dims[k] for k in axes])
    return (
        offset == 0
        and cells == builder.storages[storage][0]
        and (tuple(strides[k] for k in axes) == expected)
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
