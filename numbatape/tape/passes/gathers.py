"""Elementwise operations are done before a gather that repeats entries, not behind it.

A hierarchical model has the parameters of few groups beside many measurements: ``mu + tau * raw[group]`` is
two operations on each measurement, and ``(mu + tau * raw)[group]`` two on each group. The positions must be
known when the tape is frozen (a captured array). Then the pass takes the entries that are read at all, so
that what is computed, and what adjoints are multiplied with, are the same numbers as before: an entry that
nobody reads may be 0 or infinite. Results keep their bits; those of derivatives may change by rounding,
because adjoints of one entry are added up before they are multiplied.
"""

from __future__ import annotations

from heapq import heappush
from typing import NamedTuple

import numpy as np

from ..combinations import numbered
from ..draft import Draft
from ..families import POOLS
from ..instruction import MAIN, NONE, Instruction, first_to_last, rewritten
from ..tape import Layout, steady_along

FEWEST = 256  # positions
# How often entries must be read on average: where all entries from the first one on are read, which are a
# view of the table; and where only some are, which another gather takes from it. This was measured with sums
# of squares of what is gathered: with fewer positions, or with entries that are read less often, gradients
# take as long as before, or longer.
REPEATS, REPEATS_OF_SOME = 2, 6


class Read(NamedTuple):
    """What a gather reads: the positions that occur, in order, and for each position which of them it is."""

    positions: np.ndarray
    rank: np.ndarray

    @property
    def from_first_on(self) -> bool:
        """Whether these are all entries up to the last one of them."""
        return np.array_equal(self.positions, np.arange(len(self.positions)))


class Gather(NamedTuple):
    """A gather: its instruction, and its place in the code."""

    row: Instruction
    at: int
    moved: bool  # whether its table has only the entries that are read


def gather_last(draft: Draft, code: np.ndarray) -> np.ndarray:
    """Move elementwise operations, whose other operands are the same for all entries, before gathers."""
    gathers = _gathers(draft, code)
    return _Moves(draft, code, gathers).run() if gathers else code


def _gathers(draft: Draft, code: np.ndarray) -> dict[int, Gather]:
    """Return the gathers along the first axis that have enough positions, by the group of the result."""
    ops, found = draft.ops, {}
    of_moves = ops.with_trait("moves") & ops.with_trait("index")
    rows = draft.array_rows(code, of_moves)
    rows = rows[(code["stage"][rows] == MAIN) & (code["c"][rows] == NONE)]
    for k in rows.tolist():
        row = Instruction._make(code[k].item())
        dims, table = draft.layout_of(row.out).dims, draft.layout_of(row.a).dims
        if len(dims) == len(table) and dims[1:] == table[1:] and dims[0] >= FEWEST:
            found[draft.group.item(row.out)] = Gather(row, k, False)
    return found


class _Moves:
    """Moves instructions before gathers, the first ones first."""

    def __init__(self, draft: Draft, code: np.ndarray, gathers: dict[int, Gather]):
        self.draft, self.code, self.gathers = draft, code, gathers
        self.uses = draft.uses(code)
        self.fixed = draft.fixed(self.uses)
        self.literals = {group: k for k, group in enumerate(draft.literal_groups().tolist())}
        self.known: dict[int, Read | None] = {}  # the keys are the groups of the positions
        # Literals of `Read.positions` and `Read.rank`, by the group of the positions.
        self.of_table: dict[int, int] = {}
        self.ranks: dict[int, int] = {}
        self.changes: dict[int, list[Instruction]] = {}

    def run(self) -> np.ndarray:
        queue = [k for group in self.gathers for k in self._reader(group)]
        for k in first_to_last(queue):
            row = Instruction._make(self.code[k].item())
            if self._move(k, row):
                for reader in self._reader(self.draft.group.item(row.out)):
                    heappush(queue, reader)
        return rewritten(self.code, self.changes)

    def _reader(self, group: int) -> list[int]:
        """Return the instruction that alone reads a result; none if there are several."""
        readers = {*self.uses.readers(group).tolist()}
        alone = len(readers) == 1 and self.uses.writes[group] == 1 and not self.fixed[group]
        return [*readers] if alone else []

    def _move(self, k: int, row: Instruction) -> bool:
        """Compute a result from the entries that are read, and gather it; return whether that is possible."""
        draft = self.draft
        if row.is_guard or row.stage != MAIN or row.aux != NONE:
            return False
        op, layout = draft.ops[row.row], draft.layout_of(row.out)
        # Ops of one result have the same bits in vectors of any length.
        if not (op.elementwise and op.exact) or op.casts or op.jumps or op.wide:
            return False
        if self.uses.writes[self.uses.out[k]] != 1 or not draft.covers(np.array([row.out]))[0]:
            return False
        gathered = {x: self._gather_of(x, row, layout) for x in row.operands}
        its = [each for each in gathered.values() if each]
        if not its or any(not each and not self._is_shared(x, layout) for x, each in gathered.items()):
            return False
        first = its[0].row
        if any(each.row.b != first.b or each.row.op != first.op for each in its):
            return False
        read = self._read(first.b)
        if read is None:
            return False
        made: list[Instruction] = []
        count = len(read.positions)
        operands, active = [], 0
        for place, x in enumerate(row.operands):
            gather = gathered[x]
            takes = row.takes(place) and (gather is None or gather.row.takes(0))
            active |= takes << place
            operands.append(self._shared(x, layout) if gather is None else self._table(gather, read, made))
        table = draft.array((count, *layout.dims[1:]), *draft.kind_of(row.out))
        a, b, c = (*operands, NONE, NONE)[:3]
        last = first.replace(
            active=int(active != 0), out=row.out, a=table, b=self._rank(first.b, read), line=row.line
        )
        made += [row.replace(active=active, out=table, a=a, b=b, c=c), last]
        self.changes[k] = made
        for at, gather in {gather.at: gather for gather in its}.items():
            # What was made to replace the gather is kept, but not the gather itself.
            self.changes[at] = self.changes.get(at, [gather.row])[:-1]
        # Its positions are named as before, so that it can be compared with gathers that have not moved.
        self.gathers[draft.group.item(row.out)] = Gather(last.replace(b=first.b), k, True)
        return True

    def _gather_of(self, x: int, row: Instruction, layout: Layout) -> Gather | None:
        """Return the gather that makes an operand which only this instruction reads, all of it in order."""
        group = self.draft.group.item(x)
        gather = self.gathers.get(group)
        if gather is None or gather.row.family != row.family or not self._reader(group):
            return None
        table = self.draft.group.item(gather.row.a) if not gather.moved else None
        if table is not None and not self.uses.last_write[table] < gather.at:
            return None
        made = self.draft.layout_of(gather.row.out)
        same = self.draft.layout_of(x) == made and self.draft.address(x) == self.draft.address(gather.row.out)
        return gather if same and made == layout else None

    def _is_shared(self, x: int, layout: Layout) -> bool:
        """Whether an operand is the same for all entries of the first axis."""
        return steady_along(self.draft.layout_of(x), len(layout.dims))

    def _shared(self, x: int, layout: Layout) -> int:
        """Return a view of such an operand without the first axis."""
        its = self.draft.layout_of(x)
        if len(its.dims) < len(layout.dims):
            return x
        return self.draft.view(x, self.draft.address(x)[1], its.dims[1:], its.strides[1:])

    def _read(self, positions: int) -> Read | None:
        """Return what a gather reads, where that is known and it reads entries often enough."""
        group = self.draft.group.item(positions)
        if group not in self.known:
            self.known[group] = self._read_by(positions, group)
        return self.known[group]

    def _read_by(self, positions: int, group: int) -> Read | None:
        number = self.literals.get(group)
        if number is None or self.uses.writes[group] or self.draft.storage[positions] < len(POOLS):
            return None
        data, layout = self.draft.literals[number].data, self.draft.layout_of(positions)
        if self.draft.address(positions)[1] != 0 or layout != Layout((len(data),), (1,)):
            return None
        numbers = np.asarray(data).astype(np.int64)
        if not np.array_equal(numbers, data):
            return None
        rank, count = numbered(numbers)
        positions_read = np.empty(count, np.int64)
        positions_read[rank] = numbers
        read = Read(positions_read, rank)
        often = REPEATS if read.from_first_on else REPEATS_OF_SOME
        return read if count * often <= len(numbers) else None

    def _rank(self, positions: int, read: Read) -> int:
        """Return the positions among the entries that are read."""
        if read.from_first_on:
            return positions
        group = self.draft.group.item(positions)
        if group not in self.ranks:
            self.ranks[group] = self.draft.literal(read.rank.astype(float))
        return self.ranks[group]

    def _table(self, gather: Gather, read: Read, made: list[Instruction]) -> int:
        """Return the entries of a gather's table that are read; ``made`` gets what takes them."""
        draft, row = self.draft, gather.row
        if gather.moved:
            return row.a
        layout, count = draft.layout_of(row.a), len(read.positions)
        dims = (count, *layout.dims[1:])
        if read.from_first_on:
            draft.sizes.guard(layout.dims[0], ">=", count)
            return draft.view(row.a, draft.address(row.a)[1], dims, layout.strides)
        group = draft.group.item(row.b)
        if group not in self.of_table:
            self.of_table[group] = draft.literal(read.positions.astype(float))
        table = draft.array(dims, *draft.kind_of(row.out))
        made.append(row.replace(out=table, b=self.of_table[group]))
        return table
