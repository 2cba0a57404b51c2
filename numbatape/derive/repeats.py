"""A walk over many instructions, most of which are like earlier ones.

The derivative of an instruction is taken by its pullback in Python, which takes several microseconds for
each instruction that it emits. Programs with loops have thousands of instructions, but these differ in few
ways from one another as far as a derivative can see. What it sees is the *signature* of an instruction: the
op, the kinds of its operands and of their cotangents so far, and which of these values are the same. When a
signature is met for the first time, what the derivative appends is noted as a *template*
(`numbatape.derive.template`). For all other instructions with this signature a kernel (`walk_kernel.py`)
appends the same with their operands; it comes back to Python at the next instruction that is new.

The tape is the same, bit for bit, as if Python had appended all of it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import numpy as np

from ..emitter.emitter import Emitter
from ..ops import OPS
from ..tape.instruction import NONE, Instruction
from . import walk_words as names
from .accumulators import Cells
from .activity import Active
from .row_classes import Kinds, classes_of
from .template import Before, Sums, Unrepeatable
from .walk_memory import Memory, kernel

FEW = 64  # instructions that are like others, from which on the kernel pays
ALIKE = 3  # instructions of a class for which a template pays
# The kernel is given up once the instructions that needed Python are PATIENCE more than one in SHARE of those
# that were walked.
PATIENCE, SHARE = 64, 4
CALLS = np.array([op.calls for op in OPS])


class Walk:
    """One walk.

    Parameters
    ----------
    emitter
        Appends to the tape that is walked.
    cells
        The cotangents, or tangents.
    forward
        Whether the walk goes forward: then it collects tangents of operands, and adds to those of results.
        Otherwise it collects cotangents of results, and adds to those of operands.
    derive
        ``derive(row, needed)`` appends the derivative of an instruction, and sets the emitter's line to the
        instruction's. If the result has no cotangent, it does nothing.
    found
        The instructions in the order of the walk.
    sums
        The products that tangents are sums of.
    sole
        For each instruction, the operands (as bits) whose tangent may be taken apart into these products.
    """

    def __init__(
        self,
        emitter: Emitter,
        cells: Cells,
        forward: bool,
        derive: Callable[[Instruction, int], None],
        found: Active,
        sums: Sums | None = None,
        sole: np.ndarray | None = None,
    ):
        self._emitter = emitter
        self._tape = emitter.tape
        self._cells = cells
        self._forward = forward
        self._derive = derive
        self._found = found
        self._sums = Sums() if sums is None else sums
        self._sole = sole

    def run(self, sources, results) -> None:
        """Take the derivatives of all instructions.

        Parameters
        ----------
        sources
            Values whose cotangents (or tangents) are given.
        results
            Values whose cotangents (or tangents) are wanted: they are in the cells then.
        """
        done = 0
        if self._found.count >= FEW and self._count_alike() >= FEW:
            self._memory = self._remember(sources)
            done = self._by_kernel()
            self._memory.take()
            self._set_line()
            whole = done == self._found.count
            self._memory.give_back([self._memory.place_of(value) for value in results] if whole else None)
        self._by_python(done)

    def _by_python(self, first: int) -> None:
        for row, needed in self._found.pairs(first):
            self._derive(row, needed)

    # ---- by the kernel

    def _count_alike(self) -> int:
        """Number the classes of the instructions; return how many are like others."""
        rows, needed, _ = self._found
        self._kinds = Kinds(self._tape)
        self._classes = classes_of(self._kinds, rows, needed)
        self._alike = np.bincount(self._classes)[self._classes] >= ALIKE
        self._alike &= ~CALLS[rows["op"] >> 1]
        return int(np.count_nonzero(self._alike))

    def _remember(self, sources) -> Memory:
        memory = Memory(self._emitter, self._cells, self._sums, self._kinds)
        memory.set_rows(self._found, self._classes, self._sole, self._forward)
        memory.hand_over([(value, memory.place_of(value)) for value in sources])
        return memory

    def _by_kernel(self) -> int:
        """Walk until the end, or until too many instructions were new; return how many were walked."""
        memory, walk = self._memory, kernel("walk")
        w, turns = memory.w, 0
        while True:
            status = walk(w.ctypes.data, 0)
            at = int(w[names.AT])
            if status == names.DONE:
                return at
            if status == names.FULL:
                memory.take()
                memory.make_room(2 * int(w[names.ROOM]))
                continue
            turns += 1
            if turns > PATIENCE + at // SHARE:
                return at
            self._in_python(at, status == names.NEW and bool(self._alike[at]))
            w[names.AT] = at + 1

    def _set_line(self) -> None:
        """Let what is appended after the walk belong to the line at which Python's walk would have ended."""
        latest = int(self._memory.w[names.LATEST])
        if latest != NONE:
            self._emitter.line = int(self._found.rows["line"][latest])

    def _in_python(self, at: int, noted: bool) -> None:
        """Take the derivative of an instruction by its pullback, and perhaps note a template of it."""
        memory, (row, needed) = self._memory, self._found.one(at)
        signature, arguments = memory.signature, memory.arguments
        memory.take()
        touched = memory.touched(at)
        memory.give_back([place for _, place in touched])
        if self._forward or self._cells.known(row.out):
            memory.w[names.LATEST] = at
            if noted:
                operands = [value for j, value in enumerate(row.operands) if needed >> j & 1]
                collected, added = (operands, [row.out]) if self._forward else ([row.out], operands)
                state = self._emitter, self._cells, self._sums
                moving = memory.moving(arguments)
                before = Before(*state, row, arguments, moving, collected, added, memory.number_of)
            self._derive(row, needed)
            if noted:
                words = None
                with suppress(Unrepeatable):
                    words = before.words(self._kinds)
                memory.note(signature, words)
        memory.follow()
        memory.hand_over(touched)
