"""Constants that are others in each call, such as batches of data, or a step size.

A builtin compares constants, because the prologue may have computed with them. Where they differ, Python
writes them to the cells, which takes 8 µs. So constants that have changed several times, and that the
prologue does not read, are copied in each call, as arguments that are differentiated are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..tape.instruction import GUARD, NONE
from ..tape.tape import POOLS, Tape
from .leaf_rows import LaneRow

if TYPE_CHECKING:
    from .entry import Entry
    from .leaf_rows import Row


def let_constants_follow(entry: Entry) -> None:
    """Copy constants of an entry in each call from now on, as far as that may be."""
    found = _following_rows(entry)
    if found:
        entry.follows_constants, entry.space.constants = True, None
        entry.put(found)


def _following_rows(entry: Entry) -> dict[int, Row]:
    """Return rows for constants of an entry that calls may copy, by the numbers of the rows they replace."""
    space = entry.space
    if entry.counted is not None or any(row.__class__ is LaneRow for row in entry.rows):
        return {}
    tape, found = space.plan.tape, {}
    # The guards that come first may be asked before arrays are copied.
    taken = _read_before(tape, tape.prologue if entry.leading is None else entry.leading.end)
    free = {
        id(cells): slot.value
        for slot, cells in zip(tape.inputs, space.inputs, strict=False)
        if _place(tape, slot.value) not in taken
    }
    in_place = entry.in_place
    for k, row in enumerate(entry.rows):
        kept = in_place is not None and in_place.reads(k)
        if hasattr(row, "following") and id(row.cells) in free and not kept:
            its = row.following()
            if its is not None:
                found[k] = its
    return found


def _place(tape: Tape, value: int) -> tuple[int, int]:
    """Return what tells a value's cells from others: the storage, and in a pool the cell as well."""
    storage, offset = int(tape.values["storage"][value]), int(tape.values["offset"][value])
    return storage, offset if storage < len(POOLS) else 0


def _read_before(tape: Tape, end: int) -> set[tuple[int, int]]:
    """Return the places that the instructions before one read."""
    code = tape.code[:end]
    found: set[tuple[int, int]] = set()
    for name in ("a", "b", "c", "aux"):
        # In the last field, guards have no value, but a number of their own.
        read = code[name][(code[name] != NONE) & ((name != "aux") | (code["op"] != GUARD))]
        found.update(_place(tape, value) for value in read.tolist())
    return found
