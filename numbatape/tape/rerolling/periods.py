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
PHRASE_CANDIDATES = 2  # and those for each length of phrases
PHRASES = (4, 16, 64)  # lengths of phrases
MULTIPLIER = 0x9E3779B97F4A7C15  # any large odd number
ENOUGH = 0.5  # share of what may be saved at best, at which no phrases are compared

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
    return rank, _previous(rank, stable_order(rank))


def _previous(numbers: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Return the place of the equal number before each one, or -1, given the places in order."""
    previous = np.full(len(numbers), -1, np.int32)
    alike = numbers[order[1:]] == numbers[order[:-1]]
    previous[order[1:][alike]] = order[:-1][alike]
    return previous


def repeating(
    rank: np.ndarray, previous: np.ndarray, low: int, high: int
) -> list[tuple[float, list[Stretch]]]:
    """Return (nanoseconds saved at best, stretches) for each period between two instructions, best first."""
    before, places = previous[low:high], np.arange(low, high)
    found = _repeating(rank, low, high, _frequent((places - before)[before >= low], high - low, CANDIDATES))
    best = max(found.values(), default=(0.0, []))[0]
    if best < ENOUGH * saving(1, high - low):
        others = [period for period in _of_phrases(rank[low:high]) if period not in found]
        found |= _repeating(rank, low, high, others)
    return sorted(found.values(), key=lambda pair: -pair[0])


def _frequent(distance: np.ndarray, count: int, most: int) -> list[int]:
    """Return the distances between instructions, so many of them, that occur most often."""
    times = np.bincount(distance[distance <= count // FEWEST])
    periods = np.argsort(times, kind="stable")[::-1][:most]
    return periods[times[periods] >= FEWEST].tolist()


def _of_phrases(rank: np.ndarray) -> list[int]:
    """Return distances between equal phrases: instructions that follow one another.

    Where lines of a loop have several instructions that are alike, most of these are nearer to each other
    than a turn is long; of long phrases, most occur once a turn.
    """
    found: dict[int, None] = {}
    phrase, length = rank.astype(np.uint64), 1
    while length < max(PHRASES) and 2 * FEWEST * length < len(rank):
        # Two phrases with the same number may differ, and then what is found here is no period.
        phrase = phrase[:-length] * np.uint64(MULTIPLIER + 2 * length) + phrase[length:]
        length *= 2
        if length in PHRASES:
            # NumPy sorts 16 bits in a tenth of the time of 64. Where phrases that differ agree in these, few
            # of them find the one before.
            few = (phrase * np.uint64(MULTIPLIER) >> np.uint64(48)).astype(np.uint16)
            before = _previous(phrase, np.argsort(few, kind="stable"))
            distance = (np.arange(len(phrase)) - before)[before >= 0]
            found |= dict.fromkeys(_frequent(distance, len(rank), PHRASE_CANDIDATES))
    return [*found]


def _repeating(
    rank: np.ndarray, low: int, high: int, periods: list[int]
) -> dict[int, tuple[float, list[Stretch]]]:
    """Return (nanoseconds saved at best, stretches) by period, for those that save any."""
    found = {}
    for period in periods:
        stretches = _stretches(rank, period, low, high)
        saved = sum(saving(its.period, its.turns) for its in stretches)
        if saved > 0:
            found[period] = saved, stretches
    return found


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
