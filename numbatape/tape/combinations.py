"""Functions of several columns of numbers, computed once for each combination of numbers that occurs.

What passes ask of an instruction often depends on the layouts of its operands alone. A long tape has many
instructions, and few layouts.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .column_scans import SHORT, combined

LARGEST = 2**31 - 1
SPARSE = 8  # a table of flags with at most so many entries per row costs less than sorting the rows
SMALL = 1024  # a table with this many entries costs next to nothing, however few the rows are
FEW = 64  # for up to so many rows, Python takes less time than NumPy


def flatnonzero(flags: np.ndarray) -> np.ndarray:
    """Return the places of a vector that are true, as ``np.flatnonzero`` does after 1.2 µs of dispatch."""
    return flags.nonzero()[0]


def combinations(*columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a row for each combination of numbers that occurs, and the number of each row's combination."""
    if len(columns[0]) <= FEW:
        rows = list(zip(*(column.tolist() for column in columns), strict=True))
        rank = {row: k for k, row in enumerate(sorted(set(rows)))}
        place = {row: k for k, row in reversed([*enumerate(rows)])}
        return np.array([place[row] for row in rank], np.int64), np.array([rank[r] for r in rows], np.int64)
    if len(columns[0]) > SHORT and (rows := _as_rows(columns)) is not None:
        first, number = combined(rows)
        order = np.lexsort(rows.take(first, axis=0).T[::-1])
        rank = np.empty(len(first), np.int64)
        rank[order] = np.arange(len(first))
        return first[order].astype(np.int64), rank.take(number)
    # The numbers of a row are taken for the digits of one number.
    key, bound = np.zeros(len(columns[0]), np.int64), 1
    for column in columns:
        least, most = int(column.min()), int(column.max())
        width = most - least + 1
        if width == 1:
            continue  # a column that is the same in all rows tells nothing apart
        digit = np.subtract(column, least, dtype=np.int64)
        if bound * width > _densest(len(key)):
            (key, bound), (digit, width) = numbered(key), numbered(digit)
        key = digit if bound == 1 else key * width + digit
        bound *= width
        if bound > _densest(len(key)):
            key, bound = numbered(key)
    number, count = numbered(key)
    first = np.empty(count, np.int64)
    # NumPy keeps the last of several assignments; reversed, that is the first.
    first[number[::-1]] = np.arange(len(number))[::-1]
    return first, number


def _as_rows(columns: tuple[np.ndarray, ...]) -> np.ndarray | None:
    """Return columns of integers as rows of 32-bit integers, None if their numbers do not fit."""
    rows = np.empty((len(columns[0]), len(columns)), np.int32)
    for k, column in enumerate(columns):
        wide = not np.can_cast(column.dtype, rows.dtype)
        if wide and max(int(column.max()), ~int(column.min())) > LARGEST:
            return None
        rows[:, k] = column
    return rows


def _densest(rows: int) -> int:
    """Return the largest table of flags that costs less than sorting so many rows."""
    return SPARSE * rows + SMALL


def numbered(column: np.ndarray) -> tuple[np.ndarray, int]:
    """Return the rank of each number of a column among those that occur, and how many of these there are."""
    if not len(column):
        return np.zeros(0, np.int64), 0
    numbers = np.subtract(column, column.min(), dtype=np.int64)
    bound = int(numbers.max()) + 1
    if bound <= _densest(len(numbers)):
        occurs = np.zeros(bound, bool)
        occurs[numbers] = True
        # A large table takes half of the memory of NumPy's integers.
        rank = np.cumsum(occurs, dtype=np.int64 if bound <= len(numbers) else np.int32)
        rank -= 1
        return rank[numbers].astype(np.int64, copy=False), int(rank[-1]) + 1
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    rank = np.cumsum(np.append(False, ordered[1:] != ordered[:-1]))
    found = np.empty(len(numbers), np.int64)
    found[order] = rank
    return found, int(rank[-1]) + 1


def stable_order(numbers: np.ndarray) -> np.ndarray:
    """Return the places of numbers from 0 on in the order of the numbers, equal ones in their order.

    NumPy has a radix sort for 16 bits only. Two of them take less than half of the time of its sort of 32
    bits.
    """
    order = np.argsort((numbers & 0xFFFF).astype(np.uint16), kind="stable")
    if numbers.max(initial=0) > 0xFFFF:
        order = order[np.argsort((numbers >> 16).astype(np.uint16)[order], kind="stable")]
    return order


def by_combination(function: Callable[..., bool], *columns: np.ndarray) -> np.ndarray:
    """Return whether ``function(*numbers)`` holds for each row of some columns of numbers."""
    if len(columns[0]) <= FEW:
        each = list(zip(*(column.tolist() for column in columns), strict=True))
        # The calls have an order that does not vary, because a call may add sizes.
        found = {row: function(*row) for row in sorted({*each})}
        return np.array([found[row] for row in each], bool)
    first, number = combinations(*columns)
    rows = zip(*(column[first].tolist() for column in columns), strict=True)
    return np.array([function(*row) for row in rows], bool)[number]
