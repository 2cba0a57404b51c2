"""`Leading`: the guards at the beginning of an entry's tape, which its calls ask before anything else.

A function that asks ``if x[0] > 0`` has a trace for each outcome. Such a guard and the few numbers that it
hangs on come first on the tape (`numbatape.tape.passes.early_guards`). So a call runs them before it copies
its arrays: if one of them stops, the call goes to the entry of the other path, and has lost nothing.

A function that takes the same path in all calls is not asked: this begins when another entry has served what
one has stopped at.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .. import jit
from ..engine import kernels
from ..engine.first_guards import leading_end
from ..engine.frame import WORD
from ..jit import address
from ..jit.by_paths import MOST_PATHS, ByPaths
from ..tape.instruction import NONE
from ..tape.tape import CONSTANT, F64, FAMILY_DTYPE, POOLS
from .leaf_rows import ArrayRow

if TYPE_CHECKING:
    from .entry import Entry

LATE_BYTES = 512  # shorter arrays are copied before the guards are asked
ARRAY, LATE, PLACED = jit.steady.ARRAY, jit.steady.LATE, jit.steady.PLACED
KIND, SCATTERED = map(jit.steady.ROW.index, ("kind", "scattered"))
LEADING = jit.steady.WORDS.index("leading")


class Cell(NamedTuple):
    """A cell of an array among the arguments: its row, its first byte there, its bytes, and its address."""

    row: int
    place: int
    item: int
    address: int


def leading_of(entry: Entry) -> Leading | None:
    """Return the guards that an entry's calls may ask first; None where there are none."""
    end = leading_end(entry.space.plan)
    cells = _cells_of_arrays(entry, end) if end else None
    return None if cells is None else Leading(entry, end, cells)


def _cells_of_arrays(entry: Entry, end: int) -> list[Cell] | None:
    """Return which cells of arrays among the arguments the first instructions read.

    None where they read anything else that a call brings.
    """
    space, found = entry.space, set()
    tape = space.plan.tape
    rows = {id(vars(row).get("cells")): k for k, row in enumerate(entry.rows)}
    slots = zip(tape.inputs, space.inputs, strict=False)
    inputs = {int(tape.values["storage"][slot.value]): rows.get(id(cells)) for slot, cells in slots}
    for name in ("a", "b", "c"):
        for value in tape.code[name][tape.prologue : end].tolist():
            storage = NONE if value == NONE else int(tape.values["storage"][value])
            if storage < len(POOLS) or tape.storages["level"][storage] == CONSTANT:
                continue
            k = inputs.get(storage)
            if k is None or entry.rows[k].__class__ is not ArrayRow:
                return None
            cells = entry.rows[k].cells
            family, first = space.plan.cell(value)
            place = address(space.v[family]) + FAMILY_DTYPE[family].itemsize * first
            if not cells.flags.c_contiguous or not 0 <= place - address(cells) < cells.nbytes:
                return None
            found.add(Cell(k, place - address(cells), cells.itemsize, place))
    return sorted(found)


class Leading:
    """The guards of one entry, and where calls go that they stop.

    Parameters
    ----------
    end
        The instruction behind the last of them.
    cells
        What they read of arrays.

    Attributes
    ----------
    is_asked
        Whether calls run these guards first.
    """

    def __init__(self, entry: Entry, end: int, cells: list[Cell]):
        self.end, self._cells = end, cells
        self._space, self._turn = entry.space, entry.turn
        self.is_asked = False
        self._paths = ByPaths()
        self._natives: list[tuple] = []  # (words, rows) of the builtins there are
        self._followers: list[weakref.ref | None] = [None] * MOST_PATHS

    def words(self, natives: Sequence[dict], frame: np.ndarray, alive: list) -> dict[str, int]:
        """Return the words of a builtin with some rows; add to ``alive`` what they refer to.

        Where an array is not copied into the cells, what is read there must be copied in any case.
        """
        placed = [its for its in self._cells if natives[its.row]["kind"] == PLACED]
        self.is_asked = self.is_asked or bool(placed)
        peeks = placed + [its for its in self._cells if _is_long(natives[its.row])]
        table = np.array([tuple(its) for its in peeks] or [(0,)], np.int64)
        self._paths.watch(frame[WORD["STOPPED"] :])
        alive += [table, self._paths]
        return {
            "lead": self.end,
            "peeks": address(table),
            "peek_count": len(peeks),
            "paths": self._paths.address,
        }

    def attend(self, words: np.ndarray, rows: np.ndarray) -> None:
        """Let a builtin with these tables ask first as soon as that is done."""
        self._natives.append((words, rows))
        if self.is_asked:
            self._ask()

    def _ask(self) -> None:
        """Let builtins run these guards first, and copy long arrays behind them."""
        self.is_asked = True
        for words, rows in self._natives:
            words[LEADING] = kernels.sweep_address("leading")
            size = rows[:, jit.steady.ROW.index("bytes")]
            late = (rows[:, KIND] == ARRAY) & (size >= LATE_BYTES)
            rows[late, KIND], rows[late, SCATTERED] = (
                LATE,
                0,
            )  # a cell is looked up where contiguous arrays have it

    def leads_to(self, stop: int, seen: float, entry: Entry) -> bool:
        """Whether a guard that saw a number is one of these: then another entry serves such calls now."""
        if stop >= self.end:
            return False
        self._lead_to(stop, seen, entry)
        return True

    def _lead_to(self, stop: int, seen: float, entry: Entry) -> None:
        cell = self._space.guard_cell(stop)
        if cell is None or entry.builtin is None or entry.turn is not self._turn:
            return
        self._ask()
        where = address(self._space.v[F64]) + FAMILY_DTYPE[F64].itemsize * cell
        found = self._paths.put(stop, where, seen, entry.builtin)
        if found is not None:
            row, end = found
            entry.is_entered_by(end)
            self._followers[row] = weakref.ref(entry, end)

    def stop(self, rows: Sequence, leaves: Sequence) -> bool:
        """Whether one of these guards stops a call, whose numbers are in the cells then."""
        long = {its.row for its in self._cells if rows[its.row].cells.nbytes >= LATE_BYTES}
        for k, (row, leaf) in enumerate(zip(rows, leaves, strict=True)):
            if k not in long and (row.__class__ is not ArrayRow or row.cells.nbytes < LATE_BYTES):
                row.write(leaf)
        for its in self._cells:
            if its.row in long:
                number = its.place // its.item
                rows[its.row].cells.reshape(-1)[number] = leaves[its.row].flat[number]
        return bool(kernels.sweep("leading")(self._space.address, self.end))


def _is_long(words: dict) -> bool:
    return words["kind"] == ARRAY and words["bytes"] >= LATE_BYTES
