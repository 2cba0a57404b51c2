"""Blocks that copy arrays strip by strip: arguments before they are read, gradients once they are known.

A bound call copies its arguments into the cells, and its gradients out of them. For vectors that do not fit
into the processor's caches, a copy takes as long as a sum. Where blocks alone read an argument, each strip of
it is copied into the same cells right before it is read, and a gradient's strip to where it belongs as soon
as it is known: value and gradient of `np.sum(x * y)` with 100 000 entries take 0.72 of the time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ...jit import address
from ...tape.instruction import GUARD, NONE
from ...tape.tape import FAMILY_DTYPE
from ..frame import WORD
from ..placement import storage_sizes
from ..plan import Plan, make_plan
from ..workspace import Workspace
from .strip_blocks import Block
from .strip_kernels import BLOCK
from .strip_plan import in_strips


class StripCopies:
    """The blocks of a workspace, with what they copy.

    Parameters
    ----------
    space
        A workspace in strips.
    sources, targets
        Values of the tape that contiguous arrays have in each call: arguments, and gradients.
    start
        What the instructions in front of this one read of the sources is in the cells when a sweep begins.

    Attributes
    ----------
    copied
        Those that the blocks copy.
    """

    def __init__(self, space: Workspace, sources: Iterable[int], targets: Iterable[int], start: int = 0):
        self._space, plan = space, space.plan
        self._usual = int(space.frame[WORD["STRIPS"]])
        self.copied: frozenset[int] = frozenset()
        found = _Storages(
            plan, *(list(filter(self._is_whole, values)) for values in (sources, targets)), start
        )
        moved = in_strips(make_plan(plan.tape, plan.dimensions, plan.values), copied=found)[0]
        if not np.array_equal(moved.code, plan.code) or not np.array_equal(moved.bases, plan.bases):
            return  # the plan has room for longer vectors, so its blocks are not those that were found here
        assert moved.strips is not None
        self._strips = moved.strips
        self._blocks, self._words = moved.strips.words()
        self.copied = frozenset(found.first)
        self._numbers = {value: k for k, value in enumerate(found.first)}
        self._memory = np.zeros(len(found.first), np.int64)  # the addresses of the arrays
        self._tables = []
        for number, parts in enumerate(moved.strips.parts):
            for name, its in ("source", found.read[number]), ("target", found.written[number]):
                table = np.array([self._row(value) for value in its], np.int64).reshape(-1, 3)
                self._tables.append(table)
                self._blocks[parts.start : parts.stop, BLOCK.index(f"{name}s")] = address(table)
                self._blocks[parts.start : parts.stop, BLOCK.index(f"{name}_count")] = len(table)

    def _is_whole(self, value: int) -> bool:
        """Whether a value is all of its storage: a gradient may be a part of that of a concatenation."""
        plan, view = self._space.plan, self._space.value_view(value)
        its = plan.tape.values["storage"][value]
        return view.flags.c_contiguous and view.size == storage_sizes(plan.tape, plan.sizes)[its]

    def _row(self, value: int) -> tuple[int, int, int]:
        family, first = self._space.plan.cell(value)
        item = FAMILY_DTYPE[family].itemsize
        return address(self._space.v[family]) + item * first, address(self.word(value)), item

    def word(self, value: int) -> np.ndarray:
        """Return the word for the address of the array that a copied value has in the next call."""
        return self._memory[self._numbers[value] :]

    def begin(self) -> None:
        """Let the sweeps copy."""
        if self.copied:
            self._space.frame[WORD["STRIPS"]] = address(self._blocks)

    def end(self) -> None:
        """Let the sweeps read and write the cells of the workspace again."""
        self._space.frame[WORD["STRIPS"]] = self._usual

    def frame(self) -> np.ndarray:
        """Return another frame of the workspace, whose sweeps copy."""
        frame = self._space.frame.copy()
        frame[WORD["STRIPS"]] = address(self._blocks)
        return frame


class _Storages:
    """Finds the storages that blocks can copy strip by strip.

    Attributes
    ----------
    first
        Their values among those that were asked for.
    read, written
        For each block, those that it reads and writes.
    """

    def __init__(self, plan: Plan, sources: Sequence[int], targets: Sequence[int], start: int):
        self._plan, self._sources, self._targets = plan, sources, targets
        self._start = max(start, plan.prologue)
        self.first: set[int] = set()
        self.read: list[list[int]] = []
        self.written: list[list[int]] = []

    def __call__(self, blocks: list[Block], bases: np.ndarray) -> np.ndarray:
        """Return which storages are copied: those that blocks alone use, from the first cell on."""
        plan, tape = self._plan, self._plan.tape
        sizes, storage = storage_sizes(tape, plan.sizes), tape.values["storage"]
        touched = np.zeros(len(tape.storages), np.int64)
        inside = np.zeros((len(blocks), len(tape.storages)), np.int64)
        writes = np.zeros((len(blocks), len(tape.storages)), bool)
        good = np.ones(len(tape.storages), bool)
        rows = tape.code
        for name in ("out", "a", "b", "c", "aux"):
            given = (rows[name] != NONE) & ((rows["op"] != GUARD) | (name != "aux"))
            given[plan.prologue : self._start] = False
            np.add.at(touched, storage[rows[name][given]], 1)
            for number, block in enumerate(blocks):
                its = rows[name][block.start : block.stop]
                np.add.at(inside[number], storage[its[its != NONE]], 1)
        for number, block in enumerate(blocks):
            for row in block.rows:
                for operand in (*row.operands, row.out):
                    its = storage[operand.value]
                    whole = operand.cell == bases[its] and row.cells == sizes[its]
                    good[its] &= operand.step == 1 and whole
                    if operand is row.out:
                        writes[number, its] = True
                    else:  # what is copied out is written before it is read
                        good[its] &= bool(writes[number, its]) or not writes[:, its].any()
        good &= inside.sum(0) == touched
        copied = np.zeros(len(tape.storages), bool)
        self.first = set()
        self.read, self.written = ([[] for _ in blocks] for _ in range(2))
        for value in self._sources:
            its = storage[value]
            if good[its] and inside[:, its].any() and not writes[:, its].any():
                self._take(value, inside[:, its] > 0, self.read, copied)
        for value in self._targets:
            its = storage[value]
            if good[its] and writes[:, its].any() and np.count_nonzero(inside[:, its]) == 1:
                self._take(value, writes[:, its], self.written, copied)
        return copied

    def _take(self, value: int, used: np.ndarray, by_block: list[list[int]], copied: np.ndarray) -> None:
        self.first.add(value)
        copied[self._plan.tape.values["storage"][value]] = True
        for number in np.flatnonzero(used).tolist():
            by_block[number].append(value)
