"""Strips: instructions over long vectors run on a few hundred cells at a time, which stay in the cache.

A block is a run of instructions over vectors of one length: elementwise ones, and sums of vectors. One
instruction of the plan runs the whole block, strip by strip. Values that only the block reads have the cells
of one strip. Everything keeps its bits: a strip has as many cells as a sum adds up before it adds the totals
with compensation (`numbatape.ops.reduce`), and the totals of strips are added in the same way.

Only tapes that are swept forward alone have strips: for the reverse sweep all values have to be kept. That
is why the gradient of long vectors is a tape of its own (`numbatape.programs.one_way`).
"""

from __future__ import annotations

import dataclasses
import heapq
from dataclasses import dataclass

import numpy as np

from ...ops import ROWS
from ...tape import Tape
from ...tape.instruction import GUARD, NONE, chosen
from ...tape.tape import POOLS
from ..codegen import FIRST_KERNEL
from .strip_rows import LEAST, Operand, VectorRow, long_rows, vector_row

# A single instruction gains nothing from strips, unless it reads an argument or writes a result, which are
# copied strip by strip as well (`numbatape.engine.strips.strip_copies`).
FEWEST = 2


@dataclass(frozen=True)
class Block:
    """Instructions ``start`` to ``stop - 1`` of a plan."""

    start: int
    stop: int
    rows: tuple[VectorRow, ...]

    @property
    def cells(self) -> int:
        return self.rows[0].cells


def owners_of(tape: Tape) -> list:
    """Return the memory of each value, which orders the instructions: its storage, or its cell of a pool."""
    columns = (tape.values["storage"].tolist(), tape.values["offset"].tolist())
    return [
        storage if storage >= len(POOLS) else (storage, offset)
        for storage, offset in zip(*columns, strict=True)
    ]


def grouped(tape: Tape, code: np.ndarray, aux: np.ndarray, partners: dict[int, int]) -> Tape:
    """Return a tape with instructions over vectors of one length next to each other where they can be.

    In turns, all other instructions run whose operands are there, and then all such instructions over vectors
    of one length, each followed by its partner. What needs a sum of these waits for the next turn, to stand
    beside what needs a number that follows from the sum. No instruction moves across one whose result it
    reads or overwrites, or which reads what it overwrites. Guards keep their order, because one that fails
    says that those before it have held, and what may fail stays behind the guards that protect it.

    Parameters
    ----------
    code, aux
        A plan of the tape.
    partners
        The instructions that should follow others directly.
    """
    owners, first = owners_of(tape), tape.prologue
    readers: dict = {}
    writer: dict = {}
    after: list[list[int]] = [[] for _ in range(len(code))]
    waits = [0] * len(code)
    rows = long_rows(tape, code, aux)
    kinds = [rows[k].cells if k in rows else 0 for k in range(first, len(code))]
    guard, is_guard, may_fail = None, (tape.code["op"] == GUARD).tolist(), _may_fail(tape).tolist()
    for k in range(first, len(code)):
        out, *operands = (
            owners[value] for value in tape.code[["out", "a", "b", "c"]][k].item() if value != NONE
        )
        before = {writer.get(owner) for owner in (out, *operands)} | set(readers.get(out, ()))
        if is_guard[k] or may_fail[k]:
            before.add(guard)
        if is_guard[k]:
            guard = k
        for earlier in before - {None}:
            after[earlier].append(k)
            waits[k] += 1
        for owner in operands:
            readers.setdefault(owner, []).append(k)
        writer[out], readers[out] = k, []
    ready: dict[int, list[int]] = {}
    for k in range(first, len(code)):
        if not waits[k]:
            ready.setdefault(kinds[k - first], []).append(k)
    order = []
    while ready:
        kind = 0 if 0 in ready else min(ready, key=lambda kind: ready[kind][0])
        behind: set[int] = set()  # what needs a sum of this turn
        later_turn = []
        while waiting := ready.get(kind):
            partner = partners.get(order[-1]) if order else None
            if partner in waiting:
                k = partner
                waiting.remove(k)
                heapq.heapify(waiting)
            else:
                k = heapq.heappop(waiting)
            order.append(k)
            if kind and rows[k].gathers_all:
                behind.update(after[k])
            for later in after[k]:
                waits[later] -= 1
                if waits[later]:
                    continue
                if later in behind and kinds[later - first] == kind:
                    later_turn.append(later)
                else:
                    heapq.heappush(ready.setdefault(kinds[later - first], []), later)
        del ready[kind]
        if later_turn:
            ready[kind] = sorted(later_turn)
    order = np.concatenate([np.arange(first), np.array(order, int)])
    return dataclasses.replace(tape, code=chosen(tape.code, order), positions=tape.positions[order])


def _may_fail(tape: Tape) -> np.ndarray:
    """Return which instructions may stop a sweep: those at positions, factorisations, and calls."""
    failing = ROWS.with_trait("fallible") | ROWS.with_trait("calls")
    return ROWS.is_any(failing, tape.code["op"])


class _Growing:
    """A block while instructions are added to it: which cells it has read and written so far."""

    def __init__(self, owners: list):
        self.owners = owners
        self.rows: list[VectorRow] = []
        self._written: dict = {}
        self._read: dict = {}

    def _owner(self, operand: Operand):
        return self.owners[operand.value]

    def takes(self, row: VectorRow) -> bool:
        """Whether a row may be added to the block.

        If the rows run strip by strip, each must read the numbers that it reads where each row runs over
        whole vectors before the next one begins.
        """
        if self.rows and row.cells != self.rows[0].cells:
            return False
        for operand in row.operands:
            if self._written.get(self._owner(operand), (operand.cell, operand.step)) != (
                operand.cell,
                operand.step,
            ):
                return False
        owner, place = self._owner(row.out), (row.out.cell, row.out.step)
        if row.gathers_all:
            return owner not in self._written and owner not in self._read
        return self._written.get(owner, place) == place and self._read.get(owner, {place}) == {place}

    def add(self, row: VectorRow) -> None:
        self.rows.append(row)
        for operand in row.operands:
            self._read.setdefault(self._owner(operand), set()).add((operand.cell, operand.step))
        # A sum is known only behind the last strip. Its step is None, which no operand has, so that a row
        # that reads the sum does not fit into the block.
        self._written[self._owner(row.out)] = (row.out.cell, None if row.gathers_all else row.out.step)


def find_blocks(tape: Tape, code: np.ndarray, aux: np.ndarray) -> list[Block]:
    """Return the blocks of a plan."""
    found: list[Block] = []
    owners = owners_of(tape)
    growing, start = _Growing(owners), 0
    storage, offset = tape.values["storage"].tolist(), tape.values["offset"].tolist()
    ends = {storage[value] for value in (*tape.outputs, *(slot.value for slot in tape.inputs))}

    def close(stop: int) -> None:
        operands = (each for row in growing.rows for each in (row.out, *row.operands))
        used = [each.value for each in operands if each.step or each.letter == "o"]
        used = [value for value in used if storage[value] >= len(POOLS)]
        alone = not any(offset[value] for value in used) and any(storage[value] in ends for value in used)
        alone = alone and not any(row.is_product for row in growing.rows)
        if len(growing.rows) >= FEWEST or alone:
            found.append(Block(start, stop, tuple(growing.rows)))

    long = code[:, 0] & 0xFFFF >= FIRST_KERNEL
    for k in range(tape.prologue, len(code)):
        row = vector_row(tape, code, aux, k) if long[k] else None
        if row is not None and row.cells < LEAST:
            row = None
        if row is not None and growing.takes(row):
            if not growing.rows:
                start = k
            growing.add(row)
            continue
        close(k)
        growing = _Growing(owners)
        if row is not None and growing.takes(row):
            start = k
            growing.add(row)
    close(len(code))
    return found


def narrow_storages(tape: Tape, blocks: list[Block], bases: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return which storages need the cells of one strip: only one block writes and reads them.

    Parameters
    ----------
    bases, sizes
        First cell of each storage, and its number of cells.
    """
    storage, rows = tape.values["storage"], tape.code
    whole = np.ones(len(tape.storages), bool)
    touched = np.zeros(len(tape.storages), np.int64)
    for name in ("out", "a", "b", "c", "aux"):
        given = (rows[name] != NONE) & ((rows["op"] != GUARD) | (name != "aux"))
        np.add.at(touched, storage[rows[name][given]], 1)
    inside = np.zeros(len(tape.storages), np.int64)
    for block in blocks:
        written: set[int] = set()
        own = np.zeros(len(tape.storages), np.int64)
        good: dict[int, bool] = {}
        for k, row in enumerate(block.rows, block.start):
            for name in ("out", "a", "b", "c", "aux"):
                if rows[name][k] != NONE:
                    own[storage[rows[name][k]]] += 1
            for operand in (*row.operands, row.out):
                its = int(storage[operand.value])
                fits = operand.step == 1 and operand.cell == bases[its] and row.cells == sizes[its]
                fits = fits and (operand is row.out or its in written)
                good[its] = good.get(its, True) and fits
            written.add(int(storage[row.out.value]))
        for its, fits in good.items():
            if fits and own[its] == touched[its]:
                whole[its] = False
        inside += own
    whole[: len(POOLS)] = True
    ends = (*tape.outputs, *(slot.value for slot in tape.inputs))
    whole[[int(storage[value]) for value in ends]] = True
    whole[[item.storage for item in tape.literals]] = True
    return ~whole
