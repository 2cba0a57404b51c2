"""Steady gradients whose products read constant arrays where callers have them (`engine.outside_operands`).

Such an array is neither copied nor compared: results follow what it contains.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .. import jit
from ..capture.captured_factors import read_in_products
from ..engine.frame import WORD
from ..engine.outside_operands import OutsideOperands
from ..engine.placement import storage_sizes
from ..engine.workspace import LONG_LITERAL
from ..jit import address
from ..programs.variant import Variant, VariantWorkspace
from ..recording.recorded import knows_literals
from .leaf_rows import DataRow
from .outs import memory_of

if TYPE_CHECKING:
    from ..programs.program import Program
    from ..recording.recorded import Factor
    from .entry import Entry
    from .steady_strips import SteadyStrips


def data_of(entry: Entry, strips: SteadyStrips | None) -> SteadyData | None:
    """Return what the gradients of an entry read where it is, None if there is nothing.

    The cells of such an array are not what the last call had, so no later sweep may read them, and no number
    of entries may depend on them.
    """
    space = entry.space
    variant = space.variant
    if not entry.is_gradient or variant.contents is not None or space.calls is not None:
        return None
    rows = {k: row for k, row in enumerate(entry.rows) if row.__class__ is DataRow and _is_long(row)}
    if variant.counted is not None:
        return None
    frame = space.frame if strips is None else strips.frame
    found = SteadyData(space, rows, entry.omitted, entry.factors, frame)
    return found if found.used else None


def factors_of(variant: Variant, program: Program) -> Sequence[Factor]:
    """Return the captured arrays of which the contents decide nothing about a trace."""
    if variant.factors is None:
        given = program.function, program.environment, variant.recording.factors
        variant.factors = read_in_products(*given)
    return variant.factors


class SteadyData:
    """What an entry reads in place of the cells of its constants.

    Parameters
    ----------
    space
        The workspace of the entry.
    rows
        Those of arrays among the arguments, by their numbers in the entry.
    omitted
        Arrays that calls leave out, with their cells.
    factors
        Captured arrays.
    frame
        That of the entry's sweeps, which stays as it is.

    Attributes
    ----------
    used
        Whether any array is read where it is.
    frame
        The frame of sweeps that do so.
    """

    def __init__(
        self,
        space: VariantWorkspace,
        rows: dict[int, DataRow],
        omitted: Sequence[tuple[np.ndarray, np.ndarray]],
        factors: Sequence[Factor],
        frame: np.ndarray,
    ):
        tape = space.plan.tape
        sizes = storage_sizes(tape, space.plan.sizes)
        slots = zip(tape.inputs, space.inputs, strict=True)
        storages = {memory_of(view): int(tape.values["storage"][slot.value]) for slot, view in slots}
        literals = {id(item.data): item.storage for item in tape.literals}
        if not knows_literals(tape, [item.data for item in space.variant.tape.literals]):
            factors = ()  # a pass has made others for the gradient
        at = ((k, storages.get(memory_of(row.cells))) for k, row in rows.items())
        found = {k: its for k, its in at if its is not None and sizes[its] == rows[k].cells.size}
        fixed = [(x, literals.get(id(data))) for x, data, _ in factors]
        fixed += [(x, storages.get(memory_of(cells))) for x, cells in omitted if x.nbytes >= LONG_LITERAL]
        captured = {its: x for x, its in fixed if its is not None and _is_apart(x, space)}
        captured = {its: x for its, x in captured.items() if sizes[its] == x.size}
        self._operands = operands = OutsideOperands(space, [*found.values(), *captured])
        self._rows = {k: its for k, its in found.items() if its in operands.storages}
        self._arrays = [x for its, x in captured.items() if its in operands.storages]
        for its in operands.storages.intersection(captured):
            operands.word(its)[0] = address(captured[its])
        self.used, self.frame = bool(operands.storages), frame.copy()
        operands.apply(self.frame)
        self._watch(*space.watched[:2])
        # With ``Config(reuse_buffers=True)``, callers may have the arrays that the sweep writes gradients to.
        bounds = [np.lib.array_utils.byte_bounds(view) for view in space.gradients if view is not None]
        self._begin, self._end = min(begin for begin, _ in bounds), max(end for _, end in bounds)

    def _watch(self, pairs: Sequence, table: np.ndarray) -> None:
        """Let calls compare what captured arrays contain only where it is not read in place."""
        kept = [k for k, (array, _) in enumerate(pairs) if not any(array is x for x in self._arrays)]
        self._watched = table[kept] if kept else table[:1]
        self.frame[WORD["WATCH"]], self.frame[WORD["WATCH_COUNT"]] = address(self._watched), len(kept)

    def reads(self, number: int) -> bool:
        """Whether an argument's array is read where it is, by the number of its row."""
        return number in self._rows

    def rows(self, natives: list[dict]) -> list[dict]:
        """Return the rows for a builtin: those of arrays that are read where they are, and the others."""
        placed = [dict(words) for words in natives]
        for k, its in self._rows.items():
            placed[k] |= {"kind": jit.steady.PLACED, "cells": address(self._operands.word(its))}
            placed[k] |= {"begin": self._begin, "end": self._end, "scattered": 0}
        return placed


def _is_apart(x: np.ndarray, space: VariantWorkspace) -> bool:
    """Whether a captured array lies as its literal does, and not in the cells, which may be a caller's."""
    usual = x.dtype == np.float64 and x.flags.c_contiguous and x.flags.aligned
    return usual and not any(np.may_share_memory(x, cells) for cells in (*space.v, *space.g))


def _is_long(row: DataRow) -> bool:
    usual = row.known.dtype == row.cells.dtype == np.float64 and not row.was_scattered
    return usual and row.known.nbytes >= LONG_LITERAL
