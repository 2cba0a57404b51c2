"""Steady calls whose blocks copy long arguments and gradients strip by strip (`engine.strips.strip_copies`).

Arguments are read where they are. Gradients are written to arrays that are there already: those of the next
call are made when a call's gradients are handed out. Builtins do so, and Python where it looks for signals
between the segments of a long sweep. With ``Config(reuse_buffers=True)`` gradients are parts of the cells,
and may be arguments of the next call, which would overwrite them before it has read them: it copies these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from .. import jit
from ..engine.strips.strip_copies import StripCopies
from ..jit import address
from ..programs.variant import VariantWorkspace
from .leaf_rows import ArrayRow
from .outs import Out, copied, memory_of

if TYPE_CHECKING:
    from .leading import Leading

ndarray = np.ndarray


class SteadyStrips:
    """What an entry reads and makes in place of the cells of its workspace.

    Parameters
    ----------
    space
        The workspace of the entry, in strips.
    rows, outs
        Those of the entry.
    leading
        The guards of the entry that calls ask first, which have the numbers that they read in the cells then.

    Attributes
    ----------
    frame
        That of the sweeps.
    outs
        How the results are made.
    """

    def __init__(
        self, space: VariantWorkspace, rows: Sequence, outs: Sequence[Out], leading: Leading | None = None
    ):
        inputs = zip(space.plan.tape.inputs, space.inputs, strict=True)
        values = {memory_of(view): slot.value for slot, view in inputs}
        values |= {memory_of(view): value for value, view, _ in space.results() if view is not None}
        arrays = {k: row for k, row in enumerate(rows) if row.__class__ is ArrayRow}
        cells = {k: row.cells for k, row in arrays.items() if row.cells.dtype == row.dtype}
        sources = {k: values[memory_of(view)] for k, view in cells.items() if memory_of(view) in values}
        views = {k: view for k, out in enumerate(outs) if (view := copied(out)) is not None}
        targets = {k: values[memory_of(view)] for k, view in views.items() if memory_of(view) in values}
        if len({*targets.values()}) < len(targets):
            targets = {}  # an array is returned twice
        bounds = [np.lib.array_utils.byte_bounds(view) for view in space.gradients if view is not None]
        self._begin, self._end = min(begin for begin, _ in bounds), max(end for _, end in bounds)
        self._copies = copies = StripCopies(
            space, sources.values(), targets.values(), 0 if leading is None else leading.end
        )
        self._sources = {k: value for k, value in sources.items() if value in copies.copied}
        self.outs = list(outs)
        for k, value in targets.items():
            if value in copies.copied:
                self.outs[k] = Out(jit.steady.CALLED, _Written(views[k], copies.word(value)).take)
        # It is of use until the workspace gets another entry, as what it watches (`Evaluator.watch`).
        self.frame = copies.frame() if copies.copied else space.frame
        self._alive = space.watched

    def rows(self, natives: list[dict]) -> list[dict]:
        """Return the rows for a builtin: those of arrays that are read where they are, and the others."""
        placed = [dict(words) for words in natives]
        for k, value in self._sources.items():
            placed[k] |= {"kind": jit.steady.PLACED, "cells": address(self._copies.word(value))}
            placed[k] |= {"begin": self._begin, "end": self._end, "scattered": 0}
        return placed

    def sweep_with(self, rows: Sequence, leaves: Sequence, sweep: Callable[[], bool]) -> bool:
        """Read the leaves of a call, sweep as an entry does, and return what that returns.

        Arrays that are not contiguous, or that the sweep overwrites, are copied before they are read.
        """
        read = []
        for k, (row, leaf) in enumerate(zip(rows, leaves, strict=True)):
            if k in self._sources:
                begin, end = np.lib.array_utils.byte_bounds(leaf)
                apart = end <= self._begin or begin >= self._end
                read.append(np.require(leaf, requirements=("C", "A")) if apart else leaf.copy())
                self._copies.word(self._sources[k])[0] = address(read[-1])
            else:
                row.write(leaf)
        self._copies.begin()
        try:
            return sweep()
        finally:
            self._copies.end()


class _Written:
    """The array that the next sweep writes."""

    def __init__(self, like: ndarray, word: ndarray):
        self._like, self._word = like, word
        self._next()

    def _next(self) -> None:
        self._array = np.empty(self._like.shape, self._like.dtype)
        self._word[0] = address(self._array)

    def take(self) -> ndarray:
        """Return the array that the last sweep has written, and make another one."""
        written = self._array
        self._next()
        return written
