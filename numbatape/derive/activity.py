"""Which instructions take part in a derivative, and with which of their operands.

An instruction is *varied* if it depends on what the derivative is taken with respect to, and *useful* if a
result that is wanted depends on it. Both are found by kernels (`numbatape.tape.column_scans`), because a
derivative of thousands of instructions would spend more time on this question in Python than on all else.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from ..tape.column_scans import useful, varied
from ..tape.combinations import flatnonzero
from ..tape.families import POOLS
from ..tape.instruction import NONE, Instruction, chosen, instruction, instructions, value_numbers

OPERANDS = 3


class Places:
    """Numbers of what has one cotangent (or tangent): of cells of pools, then of storages.

    Parameters
    ----------
    tape
        The tape; values that are added to it later have no place.

    Attributes
    ----------
    starts
        The first place of each pool, and at the end the first one of the storages.
    count
        How many places there are.
    """

    def __init__(self, tape):
        self._values = tape.values
        self.starts = np.array([*accumulate(tape.pool_cells, initial=0)])
        self.count = int(self.starts[-1]) + len(tape.storages)

    def of(self, values) -> np.ndarray:
        """Return the places of values; NONE has the place NONE."""
        numbers = np.asarray(values, np.intp)
        # Some values occur several times, so all places are computed once.
        if numbers.size > len(self._values):
            return np.append(self._each(slice(None)), np.int32(NONE))[numbers]
        places = self._each(numbers)
        places[numbers == NONE] = NONE
        return places

    def one(self, value: int) -> int:
        """Return the place of a value."""
        storage, offset, _ = self._values[value]
        if storage < len(POOLS):
            return int(self.starts[storage]) + offset
        return int(self.starts[-1]) + storage

    def _each(self, numbers: np.ndarray | slice) -> np.ndarray:
        storage, offset = self._values.at(numbers)
        places = np.where(storage < len(POOLS), offset, storage)
        places += self.starts[np.minimum(storage, len(POOLS))]
        return places.astype(np.int32)


class Active(NamedTuple):
    """Instructions that take part, in the order of a walk.

    Attributes
    ----------
    rows
        The instructions as columns.
    needed
        The operands of each that take part, as bits.
    places
        The places of result and operands, four for each instruction.
    """

    rows: np.ndarray
    needed: np.ndarray
    places: np.ndarray

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.rows)

    def take(self, which) -> Active:
        """Return some of them."""
        parts = map(np.ascontiguousarray, (self.needed[which], self.places[which]))
        return Active(chosen(self.rows, which), *parts)

    def one(self, k: int) -> tuple[Instruction, int]:
        """Return an instruction, and which operands take part."""
        return instruction(self.rows[k].item()), int(self.needed[k])

    def pairs(self, first: int = 0) -> Iterator[tuple[Instruction, int]]:
        """Return all of them from a place on, each as `one` does."""
        return zip(instructions(self.rows[first:].tolist()), self.needed[first:].tolist(), strict=True)

    def reads(self, places: Places) -> np.ndarray:
        """Return for each place, and at the end for NONE, how many operands that take part are there."""
        bits = self.needed[:, None] >> np.arange(OPERANDS) & 1 != 0
        return np.bincount(self.places[:, 1:][bits], minlength=places.count + 1)


def varied_in(tape, places: Places, start: int, stop: int, sources) -> Active:
    """Return the instructions in a stretch of the tape that depend on some values."""
    rows = tape.code.part(start, stop)
    numbers = value_numbers(rows)[:, : 1 + OPERANDS]
    # Both are found in one call, because a call takes some time however few values there are.
    found = places.of(np.append(numbers, sources))
    at = found[: numbers.size].reshape(numbers.shape)
    marked = np.zeros(places.count, np.int32)
    marked[found[numbers.size :]] = 1
    needed = varied(rows, at, marked)
    return Active(rows, needed, at).take(flatnonzero(needed))


def useful_for(active: Active, places: Places, results) -> Active:
    """Return those of some instructions that some values depend on."""
    wanted = np.zeros(places.count, np.int32)
    wanted[places.of(results)] = 1
    return active.take(useful(active.needed, active.places, wanted))
