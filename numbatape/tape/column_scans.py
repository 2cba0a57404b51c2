"""Steps that go through instructions in order, each depending on those before: kernels with NumPy's arrays.

All else that freezing does with whole columns is written in NumPy. These steps would take Python a
microsecond for each instruction, as much as tracing it; as kernels they take a few nanoseconds. What is
stored here are numbers of groups of cells, see `numbatape.tape.draft.Draft`.
"""

from __future__ import annotations

import functools
import re
from array import array
from pathlib import Path

import numpy as np

from .. import jit
from ..jit import address
from .instruction import NONE, value_numbers

SHORT = 1000  # instructions: the columns of most functions take NumPy no longer than to load the kernels


def scan_source() -> str:
    """Return the module of these kernels."""
    text = (Path(__file__).parent / "column_scan_kernels.py").read_text()
    return "# cells: f64\n" + re.sub(r"^from \S+ import .*\n", "", text, flags=re.MULTILINE)


@functools.cache
def _kernel(name: str):
    return jit.load("scans", scan_source()).function(name)


def _run(name: str, *words) -> int:
    """Call a kernel with numbers and with arrays, of which it gets the addresses; return what it returns."""
    w = array("q", [word if word.__class__ is int else address(word) for word in words])
    return _kernel(name)(w.buffer_info()[0], 0)


def groups(code: np.ndarray, group: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the group that each instruction writes, and those that it reads; see `numbatape.tape.uses`."""
    code = np.ascontiguousarray(code)
    numbers = value_numbers(code)
    out, operands = np.empty(len(code), np.int32), np.empty((len(code), 4), np.int32)
    width, first = code.dtype.itemsize // 4, (address(numbers) - address(code)) // 4
    _run("groups", len(code), code, width, first, np.ascontiguousarray(group, np.int32), out, operands)
    return out, operands


def written(out: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return how often each of some groups is among others, and the last place there, -1 for none."""
    times, last = np.zeros(count, np.int32), np.full(count, NONE, np.int32)
    _run("written", len(out), out, times, last)
    return times, last


def read(operands: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return how many operands are in each of some groups, and the last instruction with one, -1 for none."""
    times, last = np.zeros(count, np.int32), np.full(count, NONE, np.int32)
    _run("read", len(operands), operands, times, last)
    return times, last


def readers(operands: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Return the places of operands, sorted by group; ``start`` says where those of each group begin."""
    found = np.empty(int(start[-1]), np.int32)
    _run("readers", len(operands), operands, start[:-1].astype(np.int32), found)
    return found


def live(out: np.ndarray, operands: np.ndarray, needed: np.ndarray, stays: np.ndarray) -> np.ndarray:
    """Return which instructions stay: those that must, and those whose results one that stays reads later.

    Parameters
    ----------
    out, operands
        Groups that instructions write, and (four each) read.
    needed
        Whether a group is needed after the last instruction.
    stays
        Whether an instruction must stay.
    """
    found = stays.astype(np.int32)
    _run("live", len(out), out, operands, needed.astype(np.int32), found)
    return found.astype(bool)


def reach(out: np.ndarray, operands: np.ndarray, sources: np.ndarray) -> np.ndarray:
    """Return which groups depend on some, these included, and the scratch of what computes them."""
    found = sources.astype(np.int32)
    _run("reach", len(out), out, operands, found)
    return found.astype(bool)


def varied(code: np.ndarray, places: np.ndarray, marked: np.ndarray) -> np.ndarray:
    """Return which operands of each instruction take part in a derivative, as bits.

    Parameters
    ----------
    places
        The places of each instruction's result and operands.
    marked
        Whether a place depends on what the derivative is taken with respect to, at first. The array is
        changed in place.
    """
    needed = np.zeros(len(code), np.int32)
    _run("varied", len(code), code, places, marked, needed)
    return needed


def useful(needed: np.ndarray, places: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return which instructions lead to results that are wanted, by the operands that `varied` returned.

    Parameters
    ----------
    wanted
        Whether a place is wanted, at first. The array is changed in place.
    """
    found = np.zeros(len(needed), np.int32)
    _run("useful", len(needed), needed, places, wanted, found)
    return found.astype(bool)


def repeated(code, group, offset, layout, several, home, storages) -> tuple[np.ndarray, np.ndarray]:
    """Return which instructions repeat an earlier one, and the group that replaces each group.

    Parameters
    ----------
    code
        Instructions as columns.
    group, offset, layout
        Where values are; the offset counts in storages, not in pools.
    several
        Whether more than one instruction writes to a group.
    home
        The storage of each group.
    storages
        Size, family and level of each storage.
    """
    alias, repeats = np.arange(len(home), dtype=np.int32), np.zeros(len(code), np.int32)
    slots = np.zeros(1 << (2 * len(code) + 1).bit_length(), np.int32)
    places = np.empty((len(code), 3), np.int32)
    words = (np.ascontiguousarray(code), group, offset, layout, several.astype(np.int32), home, storages)
    _run("repeated", len(code), *words, alias, repeats, places, slots, len(slots) - 1)
    return repeats.astype(bool), alias


def lend(first: np.ndarray, last: np.ndarray, kind: np.ndarray, borrowers: np.ndarray) -> np.ndarray:
    """Return whose cells each storage takes: its own, or those of one of its kind that is read no more.

    Parameters
    ----------
    first, last
        The instructions that touch each storage first and last.
    kind
        Numbers of kinds, from 0 on; storages of one kind have equally many cells.
    borrowers
        The storages whose cells are lent.
    """
    lender = np.arange(len(first), dtype=np.int32)
    if not len(borrowers):
        return lender
    first, last, kind = (np.ascontiguousarray(each, np.int32) for each in (first, last, kind))
    starting, ending = (
        borrowers[np.argsort(each[borrowers], kind="stable")].astype(np.int32) for each in (first, last)
    )
    heads = np.full(int(kind.max()) + 1, NONE, np.int32)
    behind = np.empty(len(first), np.int32)
    _run("lend", len(borrowers), starting, ending, first, last, kind, heads, behind, lender)
    return lender


def combined(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first row of each combination of 32-bit integers that occurs, and each row's combination.

    Combinations are numbered as they occur.
    """
    count, width = rows.shape
    number, first = np.empty((2, count), np.int32)
    slots = np.zeros(1 << (2 * count).bit_length(), np.int32)
    found = _run("combined", count, width, rows, number, first, slots, len(slots) - 1)
    return first[:found], number
