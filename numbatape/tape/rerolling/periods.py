"""Repeating stretches of instructions: what the turns of a loop in Python leave behind.

Two instructions are alike if they have the same op, stage and source line, and operands of the same kinds.
The distance from an instruction to the one before that is like it is, for most instructions of a loop, the
number of instructions of a turn. The distances that occur most often are tried as periods.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..combinations import numbered, stable_order

FEWEST = 8  # turns that are worth looking at
CANDIDATES = 6  # periods that are tried

# Nanoseconds that an instruction takes in both sweeps together: of one cell; of a vector, beside its cells;
# a cell of a vector.
SCALAR, VECTOR, CELL = 2.5, 40.0, 0.4


class Stretch(NamedTuple):
    """Instructions that repeat: ``turns`` times ``period`` of them, from ``start`` on."""

    start: int
    period: int
    turns: int

    @property
    def stop(self) -> int:
        return self.start + self.period * self.turns


def ranks_and_previous(signature: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return small numbers for signatures, and for each instruction the one before that is like it, or -1."""
    rank = numbered(signature)[0].astype(np.int32)
    order = stable_order(rank)
    previous = np.full(len(rank), -1, np.int32)
    alike = rank[order[1:]] == rank[order[:-1]]
    previous[order[1:][alike]] = order[:-1][alike]
    return rank, previous


def repeating(
    rank: np.ndarray, previous: np.ndarray, low: int, high: int
) -> list[tuple[float, list[Stretch]]]:
    """Return (nanoseconds saved at best, stretches) for each period between two instructions, best first."""
    before = previous[low:high]
    distance = (np.arange(low, high) - before)[before >= low]
    distance = distance[distance <= (high - low) // FEWEST]
    times = np.bincount(distance)
    periods = np.argsort(times, kind="stable")[::-1][:CANDIDATES]
    found = []
    for period in periods[times[periods] >= FEWEST].tolist():
        stretches = _stretches(rank, period, low, high)
        saved = sum(saving(its.period, its.turns) for its in stretches)
        if saved > 0:
            found.append((saved, stretches))
    return sorted(found, key=lambda pair: -pair[0])


def saving(count: int, turns: int) -> float:
    """Return the nanoseconds that are saved if some instructions of a turn become vectors."""
    return count * ((SCALAR - CELL) * turns - VECTOR)


def _stretches(rank: np.ndarray, period: int, low: int, high: int) -> list[Stretch]:
    alike = rank[low + period : high] == rank[low : high - period]
    steps = np.flatnonzero(np.diff(np.concatenate([[False], alike, [False]]).view(np.int8)))
    first, last = steps[::2], steps[1::2]
    # A stretch with fewer instructions saves nothing, however short its turns are.
    long = last - first >= max((FEWEST - 1) * period, VECTOR / (SCALAR - CELL) - period)
    first, last = first[long], last[long]
    found, end = [], 0
    for start, stop in zip(first.tolist(), (last + period).tolist(), strict=True):
        start = max(start, end)  # the last turn of a stretch may begin like the first one of the next
        turns = (stop - start) // period
        if turns >= FEWEST:
            found.append(_shortest(rank, Stretch(low + start, period, turns)))
            end = found[-1].stop - low
    return found


def _shortest(rank: np.ndarray, stretch: Stretch) -> Stretch:
    """Return a stretch with turns as short as they can be."""
    start, period, turns = stretch
    alike = rank[start : stretch.stop]
    for part in range(1, period // 2 + 1):
        if period % part == 0 and (alike[part : 2 * period] == alike[: 2 * period - part]).all():
            return Stretch(start, part, turns * (period // part))
    return stretch


def aligned(stretch: Stretch, made: np.ndarray) -> Stretch:
    """Return a stretch whose turns begin where fewest results of the turn before are read.

    Parameters
    ----------
    made
        By instruction of the second turn and operand: the instruction that computed it, -1 for none.
    """
    start, period, turns = stretch
    rows = np.arange(start + period, start + 2 * period)[:, None]
    near = (made >= start) & (rows - made < period)
    last = np.zeros(3 * period + 1, np.int64)  # the last reader of each result
    np.maximum.at(last, made[near] - start, np.broadcast_to(rows, made.shape)[near] - start)
    results = np.flatnonzero(last)
    # A result crosses each boundary between its instruction and the last reader once.
    crossed = np.zeros(3 * period + 1, np.int64)
    crossed[results + 1] += 1
    np.subtract.at(crossed, last[results] + 1, 1)
    crossed = np.cumsum(crossed)[: 3 * period].reshape(3, period).sum(0)
    shift = int(np.argmin(crossed))
    return Stretch(start + shift, period, turns - (shift > 0))
