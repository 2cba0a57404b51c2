"""Steady gradients of many sizes that compute in one memory, which stays in the processor's caches.

Each workspace has cells of its own, because it computes its constants once. 500 of them are more than a
second cache holds, so that where their sizes take turns, each call waits for every line of its cells. A
builtin that is looked up by sizes computes in the same memory as all others instead: it has a frame of its
own, and before each sweep it copies the constants, which are few, to where this frame has them. The cells of
the workspace stay as they are, for calls of other kinds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .. import jit
from ..engine.frame import WORD
from ..engine.placement import storage_table
from ..jit import address
from ..tape import Tape
from ..tape.instruction import GUARD, NONE
from ..tape.tape import CONSTANT, F32

if TYPE_CHECKING:
    from .entry import Entry

MOST_KEPT = 64  # constant cells, which take a few nanoseconds to copy
MOST_CELLS = 1 << 15  # a quarter of a megabyte: sweeps through more of them wait for memory anyhow
ROWS = jit.steady.ARRAY, jit.steady.NUMBER, jit.steady.SAME
OUTS = jit.steady.COPIED, jit.steady.NUMBERED


class SharedValues:
    """What a builtin of an entry has in place of the cells of its workspace.

    Attributes
    ----------
    rows, outs
        Those of the builtin.
    frame
        That of the sweeps.
    kept
        The constants, and the address that they are copied to.
    """

    def __init__(self, entry: Entry, family: int, kept: int, rows: Sequence[dict], outs: Sequence[dict]):
        assert entry.values is not None
        own, counts = entry.space.v[family], [0, 0]
        counts[family] = len(own)
        self._cells = entry.values.cells(counts)[family]
        self._begin, self._end = address(own), address(own) + own.nbytes
        self._distance = address(self._cells) - self._begin
        self.rows, self.outs = ([*map(self._moved, records)] for records in (rows, outs))
        self.frame = entry.space.frame.copy()
        self.frame[WORD["V32" if family == F32 else "V64"]] += self._distance
        self.kept = own[:kept].copy(), address(self._cells)

    def _moved(self, record: dict) -> dict:
        """Return the words of a row or an out with shared cells in place of the workspace's."""
        place = record.get("cells", 0)
        return record | {"cells": place + self._distance} if self._begin <= place < self._end else record


def shared_values(entry: Entry, rows: Sequence[dict], outs: Sequence[dict]) -> SharedValues | None:
    """Return what an entry's builtin computes with in place of its workspace; None if it needs that.

    Guards need it, because calls go on in other workspaces from there. So do constants among the arguments,
    which may be others in the next call, and rules and loops, whose tables have addresses of cells. Functions
    of float32 arrays with numbers in float64 would have two ranges of constants to copy.
    """
    space = entry.space
    plan, tape = space.plan, space.plan.tape
    families = [family for family, count in enumerate(plan.cells) if count]
    if entry.sweep != "gradient" or entry.has_data or not space.prologue_done or len(families) != 1:
        return None
    if tape.calls or plan.strips is not None or space.variant.counted is not None:
        return None
    if plan.cells[families[0]] > MOST_CELLS or (tape.code["op"][tape.prologue :] == GUARD).any():
        return None
    if not all(row["kind"] in ROWS for row in rows) or not all(map(_is_of_cells, outs)):
        return None
    if not _are_constants_apart(tape):
        return None
    table = storage_table(tape, plan.sizes, plan.bases)
    kept = int(table[table[:, 3] == CONSTANT, 1].max(initial=0))
    return SharedValues(entry, families[0], kept, rows, outs) if kept <= MOST_KEPT else None


def _are_constants_apart(tape: Tape) -> bool:
    """Whether what stays between sweeps is in storages of its own: no part of an array that a sweep fills."""
    level, storage = tape.storages["level"], tape.values["storage"]
    first = tape.code[: tape.prologue]
    written = [first[name][first[name] != NONE] for name in ("out", "aux")]
    stays = [*storage[np.concatenate(written)].tolist(), *(item.storage for item in tape.literals)]
    return bool((level[stays] == CONSTANT).all())


def _is_of_cells(out: dict) -> bool:
    """Whether a result is a copy of cells, or None."""
    return out["kind"] in OUTS or (out["kind"] == jit.steady.FIXED and out["object"] == id(None))
