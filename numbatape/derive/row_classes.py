"""Kinds of values and classes of instructions: what is the same in those that are alike, as numbers.

The class of an instruction is what is known of its signature (`numbatape.derive.repeats`) before the walk.
"""

from __future__ import annotations

import functools
from math import isfinite

import numpy as np

from ..ops import OPS, Elementwise
from ..tape.combinations import FEW, combinations, flatnonzero
from ..tape.instruction import NONE
from ..tape.tape import F64, FAMILIES
from .accumulators import POOL_COUNT
from .partials import reads_numbers

ELEMENTWISE = np.array([isinstance(op, Elementwise) for op in OPS])
# Sorts of literals, beside 0 for a value that is not one. Those from REPEATED on have one literal each.
ORDINARY, NOT_FINITE, ZERO, REPEATED = 1, 2, 3, 4


class Kinds:
    """The kinds of values: dimensions, strides, family and level.

    The kind of an array includes its place in its storage, and the size of the storage. It does not include
    the offset of a value that is *moving*, because templates take that offset from an argument.

    Each literal of one cell is of a kind of its own, and so are all views of it. Formulas contain literals,
    and a template must not take such a number for an argument that happens to be the same number in one
    instance. A derivative reads the number of a literal, but not of a view of it, so these two have different
    kinds.

    Attributes
    ----------
    moving
        The kinds of moving arrays.
    values
        The values that there are already, as rows of storage, offset and layout.
    first
        Their kinds.
    literal
        Which literal each of them is in the cell of, and at the end NONE, for operands that are not there.
    rough
        Their kinds as operands of most rows. The derivative of such a row asks only whether the number of a
        literal operand is finite, and whether it is 0.0, which derivatives append on their own. A tape may
        have the same number in several cells, because passes add literals. A derivative then names only one
        of them, whichever of them the operand is, so the others are told apart here, too.
    """

    def __init__(self, tape):
        self._tape = tape
        self.moving: set[int] = set()
        storage, offset, layout = columns = tape.values.addresses()
        self.values = np.stack(columns, axis=1)
        of_storage = [column.take(storage) for column in tape.storage_columns()]
        pooled = storage < POOL_COUNT
        self._cells: set[tuple[int, int]] = set()  # the cells of literals
        self._literals = 0  # how many literals have been looked at for these cells
        sort = self._sorts()
        sorts = sort[np.where(storage < len(FAMILIES), storage, 0), np.where(pooled, offset, 0)]
        sorts[storage >= len(FAMILIES)] = 0
        literal = np.where(sorts, len(FAMILIES) * offset.astype(np.int64) + storage, NONE)
        is_number = np.zeros(len(storage), np.int64)
        is_number[list(tape.numbers)] = 1
        its = np.where(pooled, storage, POOL_COUNT), layout, is_number
        arrays = [np.where(pooled, 0, column) for column in of_storage]
        arrays.append(np.where(pooled | (layout == 0), 0, offset))
        alike = combinations(*its, *arrays)[1]
        self.first = combinations(alike, literal)[1]
        self.rough = combinations(alike, sorts)[1]
        self.literal = np.append(literal, NONE)
        samples = np.zeros(int(self.first.max(initial=-1)) + 1, np.int64)
        samples[self.first] = np.arange(len(self.first))
        self._numbers = {
            self._what(value, *tape.values[value]): kind for kind, value in enumerate(samples.tolist())
        }

    def _sorts(self) -> np.ndarray:
        """Return the sort of the literal in each cell of the pools of constants, the first pools."""
        tape = self._tape
        found = np.zeros((len(FAMILIES), max(tape.pool_cells) + 1), np.int64)
        named = {tape.values[value][:2] for value in tape.cell_literals.values()}
        literals = tape.literals
        self._literals = len(literals)
        if not literals:
            return found
        # Most literals are arrays in programs that have many.
        for k in flatnonzero(literals.places()[0] < POOL_COUNT).tolist():
            item = literals[k]
            place = item.storage, item.offset
            found[place] = sort_of(item.data[0]) if place in named else REPEATED + k
            self._cells.add(place)
        return found

    def of(self, value: int, moving: bool = False) -> int:
        """Return the kind of a value."""
        what = self._what(value, *self._tape.values[value])
        if moving and what[-1] is not None:
            what = *what[:-1], None
            self.moving.add(self._numbers.get(what, len(self._numbers)))
        return self._numbers.setdefault(what, len(self._numbers))

    def of_addresses(self, first: int, addresses: np.ndarray) -> np.ndarray:
        """Return the kinds of values that follow one another, given by storage, offset and layout."""
        samples = number = np.arange(len(addresses))
        # Where many cells were added up at once, they are of few kinds, so that a sample of each is enough.
        if len(addresses) > FEW:
            storage, offset, layout = addresses.T
            own = np.where(storage < POOL_COUNT, samples, NONE)
            of_storage = self._tape.storage_columns()[:, storage]
            samples, number = combinations(own, *of_storage, layout, np.where(layout, offset, 0))
        numbers, what = self._numbers, self._what
        its = zip((first + samples).tolist(), addresses[samples].tolist(), strict=True)
        kinds = [numbers.setdefault(what(value, *address), len(numbers)) for value, address in its]
        return np.array(kinds, np.int32)[number]

    def _what(self, value: int, storage: int, offset: int, layout: int) -> tuple:
        if storage < POOL_COUNT:
            if self._is_literal(storage, offset):
                return storage, layout, offset, value in self._tape.numbers
            return storage, layout
        return *self._tape.storages[storage], layout, offset if layout else None

    def _is_literal(self, storage: int, offset: int) -> bool:
        """Whether a cell of a pool is that of a literal."""
        if self._literals < len(self._tape.literals):
            new = self._tape.literals[self._literals :]
            self._cells.update([(item.storage, item.offset) for item in new])
            self._literals += len(new)
        return (storage, offset) in self._cells


def sort_of(number) -> int:
    """Return the sort of a literal."""
    if not isfinite(number):
        return NOT_FINITE
    return ORDINARY if number or np.signbit(number) else ZERO


@functools.cache
def reading() -> np.ndarray:
    """Return whether the numbers of literal operands decide about partials, for each row of the op table."""
    return np.array([isinstance(op, Elementwise) and reads_numbers(op) for op in OPS])


def classes_of(kinds: Kinds, rows: np.ndarray, needed: np.ndarray) -> np.ndarray:
    """Return the class of each instruction, given as columns, of which some operands are ``needed``."""
    op = rows["op"] >> 1
    exact = reading()[op] | ~ELEMENTWISE[op] | (rows["op"] & 1 != F64)
    columns = [rows["op"].astype(np.int64), needed]
    with_none = np.append(kinds.rough, NONE)
    for name in ("out", "a", "b", "c"):
        columns.append(with_none[rows[name]])
    for name in ("a", "b", "c"):
        columns.append(np.where(exact, kinds.literal[rows[name]], NONE))
    return combinations(*columns)[1]
