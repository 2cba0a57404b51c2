"""`DraftValues`: the values of a recording as columns, with those that passes add.

Passes read whole columns, and append views and values. The builder's own values stay as they were recorded;
only layouts and sizes are added to it.

Cells that are written separately are numbered as *groups*: each cell of a pool is one, and each other storage
with all of its views. Group `NO_GROUP` stands for an operand that is not there.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from .families import CONSTANT, F64, POOLS
from .instruction import NONE, rows_as_columns
from .sizes import FEW
from .tape import Layout, Literal
from .uses import NO_GROUP

SCALAR_LAYOUT = 0  # the first layout of each builder


class DraftValues:
    """The values of a recording, its storages and its literals.

    Parameters
    ----------
    builder
        What was recorded.

    Attributes
    ----------
    storages
        (size, family, level) of each storage.
    layouts
        The builder's layouts, to which passes add.
    literals
        Those of the builder, to which passes add.
    count
        How many groups there are, with NO_GROUP.
    """

    def __init__(self, builder):
        self.builder = builder
        self.sizes, self.layouts = builder.sizes, builder.layouts
        self.storages: list[tuple[int, int, int]] = list(builder.storages)
        self.literals = builder.literals.copy()
        self._literal_values: list[int] = []  # the numbers of the literals that passes have added
        self._cells = list(builder.pool_cells)
        storage, offset, layout = builder.values.addresses()
        # These are the groups of each pool's first cell. The last entry, added to the number of a storage, is
        # the storage's group.
        self._starts = np.array([*accumulate(self._cells, initial=NO_GROUP + 1)], np.int32)
        group = self._group_at(storage, offset)
        self._values = (storage, offset, layout, np.append(group, np.int32(NO_GROUP)))
        self._new_values: list[tuple[int, int, int, int]] = []
        self.count = NO_GROUP + 1 + sum(self._cells) + len(self.storages)
        self._groups: np.ndarray | None = None
        self._new_groups: list[tuple[int, int]] = []
        self._storage_columns = np.zeros((3, 0), np.int32)
        self._recorded_storages = len(self.storages)
        self._recorded_literals: np.ndarray | None = None  # the groups of the literals that were recorded

    def _group_at(self, storage: np.ndarray, offset: np.ndarray) -> np.ndarray:
        pooled = storage < len(POOLS)
        return self._starts[np.minimum(storage, len(POOLS))] + np.where(pooled, offset, storage)

    # ---- values by column

    def _columns(self) -> tuple[np.ndarray, ...]:
        if self._new_values:
            storage, offset, layout, group = self._values
            more = np.array(self._new_values, np.int32).T
            self._values = (
                np.concatenate([storage, more[0]]),
                np.concatenate([offset, more[1]]),
                np.concatenate([layout, more[2]]),
                np.concatenate([group[:-1], more[3], group[-1:]]),
            )
            self._new_values = []
        return self._values

    @property
    def storage(self) -> np.ndarray:
        """The storage of each value."""
        return self._columns()[0]

    @property
    def offset(self) -> np.ndarray:
        """The offset of each value in its storage: a size code."""
        return self._columns()[1]

    @property
    def layout(self) -> np.ndarray:
        """The number of each value's layout."""
        return self._columns()[2]

    @property
    def group(self) -> np.ndarray:
        """The group of each value, and at the end NO_GROUP, so that NONE (-1) is its index."""
        return self._columns()[3]

    def groups(self) -> np.ndarray:
        """Return the storages of all groups, and which cells of their pools they are."""
        if self._groups is None:
            cells, storages = self.builder.pool_cells, len(self.builder.storages)
            pools = NO_GROUP + 1 + sum(cells)  # where the groups of the pools' cells end
            self._groups = np.zeros((2, pools + storages), np.int32)
            self._groups[:, NO_GROUP] = NONE
            self._groups[0, NO_GROUP + 1 : pools] = np.arange(len(cells)).repeat(cells)
            self._groups[0, pools:] = np.arange(storages)
            self._groups[1, NO_GROUP + 1 : pools] = np.arange(NO_GROUP + 1, pools)
            self._groups[1, NO_GROUP + 1 : pools] -= self._starts[:-1].repeat(cells)
        if self._new_groups:
            self._groups = np.append(self._groups, np.array(self._new_groups, np.int32).T, axis=1)
            self._new_groups = []
        return self._groups

    def storage_columns(self) -> np.ndarray:
        """Return size, family and level of all storages."""
        known = self._storage_columns.shape[1]
        if not known:
            self._storage_columns = self.builder.storage_columns()[:, : self._recorded_storages]
            known = self._recorded_storages
        if known < len(self.storages):
            more = rows_as_columns(self.storages[known:], 3)
            self._storage_columns = np.append(self._storage_columns, more, axis=1)
        return self._storage_columns

    def flags(self, values: Sequence[int] | np.ndarray) -> np.ndarray:
        """Return for each group whether some value is in it."""
        found = np.zeros(self.count, bool)
        found[self.group[np.asarray(values, np.intp)]] = True
        return found

    def literal_groups(self) -> np.ndarray:
        """Return the group of each literal."""
        if self._recorded_literals is None:
            self._recorded_literals = self._group_at(*self.builder.literals.places()).astype(np.int32)
        if not self._literal_values:
            return self._recorded_literals
        return np.append(self._recorded_literals, self.group[np.array(self._literal_values, int)])

    def literal_numbers(self) -> np.ndarray:
        """Return for each group the number that it holds if it is a literal of one cell, nan for others."""
        numbers = np.full(self.count, np.nan)
        groups = self.literal_groups()
        cells = self.groups()[0][groups] < len(POOLS)
        numbers[groups[cells]] = self.literals.first_numbers()[cells]
        return numbers

    def is_array(self, values: np.ndarray) -> np.ndarray:
        """Return which values have dimensions."""
        return self.layout.take(values) != SCALAR_LAYOUT

    def is_small(self, layout: int, lanes: int) -> bool:
        """Whether a layout has few cells in the given number of lanes, for all sizes that guards allow."""
        return self.sizes.count_few(self.layouts[layout].dims) * lanes <= FEW

    # ---- one value

    def _row(self, value: int) -> tuple[int, int, int, int]:
        """Return (storage, offset, layout, group) of a value."""
        known = len(self._values[0])
        if value >= known:
            return self._new_values[value - known]
        storage, offset, layout, group = self._values
        return storage.item(value), offset.item(value), layout.item(value), group.item(value)

    def address(self, value: int) -> tuple[int, int, int]:
        """Return (storage, offset, layout) of a value."""
        return self._row(value)[:3]

    def layout_of(self, value: int) -> Layout:
        """Return a value's layout."""
        known, layout = len(self._values[2]), self._values[2]
        return self.layouts[layout.item(value) if value < known else self._new_values[value - known][2]]

    def kind_of(self, value: int) -> tuple[int, int]:
        """Return (family, level) of a value."""
        _, family, level = self.storages[self._row(value)[0]]
        return family, level

    # ---- further values

    def array(self, dims, family: int, level: int) -> int:
        """Return a new contiguous value with cells of its own."""
        storage, offset, strides = 2 * level + family, 0, ()
        if dims:
            strides, size = self.builder.contiguous_strides(dims)
            storage = len(self.storages)
            self.storages.append((size, family, level))
        else:
            offset = self._cells[storage]
            self._cells[storage] += 1
        self._new_groups.append((storage, offset))
        self.count += 1
        return self._appended(storage, offset, dims, strides, self.count - 1)

    def literal(self, data: np.ndarray) -> int:
        """Return a new constant value of float64 cells that holds ``data``."""
        value = self.array(data.shape, F64, CONSTANT)
        storage, offset, _ = self.address(value)
        self.literals.append(Literal(storage, offset, data.flatten()))
        self._literal_values.append(value)
        return value

    def new_literals(self) -> list[tuple[int, Literal]]:
        """Return the literals that passes have added, each with its value."""
        added = self.literals[len(self.literals) - len(self._literal_values) :]
        return [*zip(self._literal_values, added, strict=True)]

    def cells_of(self, pool: int) -> int:
        """Return how many cells a pool has, with those that passes have added."""
        return self._cells[pool]

    def view(self, base: int, offset: int, dims, strides) -> int:
        """Return a new view of a value's storage."""
        storage, _, _, group = self._row(base)
        return self._appended(storage, offset, dims, strides, group)

    def views_again(self, values: np.ndarray) -> list[int]:
        """Return a further view for each of some values, with the same address."""
        first = len(self._columns()[0])
        self._new_values = list(zip(*(column[values].tolist() for column in self._columns()), strict=True))
        return [*range(first, first + len(self._new_values))]

    def _appended(self, storage: int, offset: int, dims, strides, group: int) -> int:
        layout = self.builder.layout_number(tuple(dims), tuple(strides))
        self._new_values.append((storage, offset, layout, group))
        return len(self._values[0]) + len(self._new_values) - 1
