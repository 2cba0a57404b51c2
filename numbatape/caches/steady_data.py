"""Steady gradients whose products read constant arrays where callers have them (`engine.outside_operands`).

Such an array is neither copied nor compared: results follow what it contains.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .. import jit
from ..engine.outside_operands import OutsideOperands
from ..engine.placement import storage_sizes
from ..engine.workspace import LONG_LITERAL
from ..jit import address
from .leaf_rows import DataRow
from .outs import memory_of
from .variant import VariantWorkspace

if TYPE_CHECKING:
    from .entry import Entry
    from .steady_strips import SteadyStrips


def data_of(entry: Entry, strips: SteadyStrips | None) -> SteadyData | None:
    """Return what the gradients of an entry read where it is, None if there is nothing.

    The cells of such an array are not what the last call had, so no later sweep may read them, and no number
    of entries may depend on them.
    """
    space, rows = entry.space, entry.rows
    if not entry.is_gradient or space.variant.contents is not None or space.calls is not None:
        return None
    long = {k: row for k, row in enumerate(rows) if row.__class__ is DataRow and _is_long(row)}
    if not long or space.variant.counted is not None:
        return None
    found = SteadyData(space, long, space.frame if strips is None else strips.frame)
    return found if found.used else None


class SteadyData:
    """What an entry reads in place of the cells of its constants.

    Parameters
    ----------
    space
        The workspace of the entry.
    rows
        Those of the arrays, by their numbers in the entry.
    frame
        That of the entry's sweeps, which stays as it is.

    Attributes
    ----------
    used
        Whether any array is read where it is.
    frame
        The frame of sweeps that do so.
    """

    def __init__(self, space: VariantWorkspace, rows: dict[int, DataRow], frame: np.ndarray):
        tape = space.plan.tape
        sizes = storage_sizes(tape, space.plan.sizes)
        slots = zip(tape.inputs, space.inputs, strict=True)
        storages = {memory_of(view): int(tape.values["storage"][slot.value]) for slot, view in slots}
        at = ((k, storages.get(memory_of(row.cells))) for k, row in rows.items())
        found = {k: its for k, its in at if its is not None and sizes[its] == rows[k].cells.size}
        self._operands = operands = OutsideOperands(space, found.values())
        self._rows = {k: its for k, its in found.items() if its in operands.storages}
        self.used, self.frame = bool(self._rows), frame.copy()
        operands.apply(self.frame)
        # With ``Config(reuse_buffers=True)``, callers may have the arrays that the sweep writes gradients to.
        bounds = [np.lib.array_utils.byte_bounds(view) for view in space.gradients if view is not None]
        self._begin, self._end = min(begin for begin, _ in bounds), max(end for _, end in bounds)

    def rows(self, natives: list[dict]) -> list[dict]:
        """Return the rows for a builtin: those of arrays that are read where they are, and the others."""
        placed = [dict(words) for words in natives]
        for k, its in self._rows.items():
            placed[k] |= {"kind": jit.steady.PLACED, "cells": address(self._operands.word(its))}
            placed[k] |= {"begin": self._begin, "end": self._end}
        return placed


def _is_long(row: DataRow) -> bool:
    return row.known.nbytes >= LONG_LITERAL and row.known.dtype == row.cells.dtype == np.float64
