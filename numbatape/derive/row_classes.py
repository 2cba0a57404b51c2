"""Kinds of values and classes of instructions: what is the same in those that are alike, as numbers.

The class of an instruction is what is known of its signature (`numbatape.derive.repeats`) before the walk.
"""

from __future__ import annotations

import functools
from math import isfinite

import numpy as np

from ..ops import OPS, Elementwise
from ..tape.instruction import NONE
from ..tape.tape import F64
from .accumulators import POOL_COUNT
from .partials import reads_numbers


def numbered(*columns: np.ndarray) -> np.ndarray:
    """Return numbers that are equal where all columns are, from 0 on."""
    found = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        least, most = int(column.min(initial=0)), int(column.max(initial=0))
        pairs = found * (most - least + 1) + column - least
        order = np.argsort(pairs, kind="stable")
        ordered = pairs[order]
        new = np.zeros(len(pairs), np.int64)
        new[1:] = ordered[1:] != ordered[:-1]
        found[order] = np.cumsum(new)
    return found


class Kinds:
    """The kinds of values: dimensions, strides, family and level.

    Of an array its place in its storage and the size of that count, too. Of a literal it counts that it is
    one, because partials are computed from literals.

    Attributes
    ----------
    values
        The values that there are already, as rows of storage, offset and layout.
    first
        Their kinds.
    """

    def __init__(self, tape):
        self._tape = tape
        addresses = tape.values.columns()
        columns = [addresses[name].astype(np.int64) for name in ("storage", "offset", "layout")]
        self.values = values = np.stack(columns, axis=1)
        storage, offset, layout = columns
        of_storage = np.array(tape.storages, np.int64).reshape(-1, 3)[storage]
        literal = np.zeros(len(values), np.int64)
        finite = [1 if isfinite(number) else 2 for number in tape.numbers.values()]
        literal[list(tape.numbers)] = finite
        pooled = storage < POOL_COUNT
        self.first = numbered(
            np.where(pooled, storage, POOL_COUNT),
            layout,
            np.where(pooled, literal, 0),
            *(np.where(pooled, 0, column) for column in of_storage.T),
            np.where(pooled | (layout == 0), 0, offset),
        )
        samples = np.zeros(int(self.first.max(initial=-1)) + 1, np.int64)
        samples[self.first] = np.arange(len(self.first))
        self._numbers = {self._what(value): kind for kind, value in enumerate(samples.tolist())}

    def of(self, value: int) -> int:
        """Return the kind of a value."""
        return self._numbers.setdefault(self._what(value), len(self._numbers))

    def _what(self, value: int) -> tuple:
        tape = self._tape
        storage, offset, layout = tape.values[value]
        if storage < POOL_COUNT:
            number = tape.numbers.get(value)
            return storage, layout, None if number is None else isfinite(number)
        return *tape.storages[storage], layout, offset if layout else None


@functools.cache
def reading() -> np.ndarray:
    """Return whether the numbers of literal operands decide about partials, for each row of the op table."""
    return np.array([isinstance(op, Elementwise) and reads_numbers(op) for op in OPS])


def classes_of(tape, kinds: np.ndarray, rows: np.ndarray, needed: np.ndarray) -> np.ndarray:
    """Return the class of each instruction, given as columns, of which some operands are ``needed``."""
    is_literal = np.zeros(len(tape.values) + 1, bool)
    is_literal[list(tape.numbers)] = True
    exact = reading()[rows["op"] >> 1] | (rows["op"] & 1 != F64)
    columns = [rows["op"].astype(np.int64), needed]
    with_none = np.append(kinds, NONE)
    for name in ("out", "a", "b", "c"):
        columns.append(with_none[rows[name]])
    for name in ("a", "b", "c"):
        columns.append(np.where(exact & is_literal[rows[name]], rows[name], NONE))
    return numbered(*columns)
