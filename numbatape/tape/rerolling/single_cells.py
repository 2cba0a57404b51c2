"""`Cells`: which single cell each scalar value is, who computes it, and where it stands.

A loop in Python leaves thousands of instructions on single cells behind. Passes over them ask for each cell
which instruction writes it, and whether cells follow one another at a constant stride. A cell of a pool may
stand anywhere, so it can be moved into an array, next to others.
"""

from __future__ import annotations

import numpy as np

from ..combinations import numbered
from ..draft import Draft
from ..draft_values import SCALAR_LAYOUT
from ..families import POOLS
from ..instruction import GUARD, NONE
from ..uses import NO_GROUP

UNKNOWN = -1  # an offset that differs with the sizes of arguments


class Cells:
    """The single cells that instructions name, by numbers of their own.

    The number of a pool's cell is its group; the cells of arrays that scalar values name follow.

    Parameters
    ----------
    draft
        What was recorded.
    code
        Its instructions.
    start
        The first instruction whose result may be moved.

    Attributes
    ----------
    code, recorded
        The instructions; what they were at first, which `Draft.uses` knows.
    of
        The cell of each value, and at the end (which NONE is the index of) NO_GROUP. Where a value has
        dimensions, it is its group.
    single
        Whether a value is a single cell of a known place; True for NONE.
    writer
        The instruction that writes a cell, -1 where there is none, or not exactly one.
    home, offset
        The storage that a cell stands in, and where. Cells of pools get new ones by `move`.
    movable
        Whether a cell may be moved into an array.
    reads, ends
        How many operands are a cell; whether it is an output.
    is_literal
        Whether a cell of a pool is a literal.
    alias
        The cell that stands for each one, see `merge`.
    bases
        By storage: a value that has all of its cells, for arrays that cells were moved to.
    """

    def __init__(self, draft: Draft, code: np.ndarray, start: int):
        self.draft, self.code = draft, code
        self.recorded = code
        storage, uses = draft.storage, draft.uses(code)
        self.of = of = draft.group.copy()
        inside = np.flatnonzero((draft.layout == SCALAR_LAYOUT) & (storage >= len(POOLS)))
        offsets = _settled(draft, draft.offset[inside])
        inside, offsets = inside[offsets != UNKNOWN], offsets[offsets != UNKNOWN]
        number, count = numbered(storage[inside].astype(np.int64) << 32 | offsets)
        of[inside] = draft.count + number
        self.single = np.append(draft.layout == SCALAR_LAYOUT, True)
        self.single[:-1] &= storage < len(POOLS)
        self.single[inside] = True
        total = draft.count + count
        # 32-bit words: a long trace takes most memory here.
        self.home, self.offset = np.full(total, NONE, np.int32), np.full(total, UNKNOWN, np.int32)
        self.home[: draft.count], self.offset[: draft.count] = draft.groups()
        self.home[of[inside]], self.offset[of[inside]] = storage[inside], offsets
        self.bases: dict[int, int] = {}  # for each storage, a value with all of its cells
        self.alias = np.arange(total, dtype=np.int32)
        self._moves: list[tuple[np.ndarray, int, np.ndarray]] = []
        fields = draft.fields(code)
        self._writers(fields, uses, inside)
        self._literals(total)
        self.movable = (self.home < len(POOLS)) & (self.home != NONE) & (self.writer >= start)
        self.reads = np.zeros(total, np.int32)
        for operand in (fields.a, fields.b, fields.c):
            self.reads += np.bincount(of.take(operand), minlength=total).astype(np.int32)
        self.ends = np.zeros(total, bool)
        self.ends[of[list(draft.outputs)]] = True

    def _writers(self, fields, uses, inside) -> None:
        of = self.of
        computes, single = fields.op != GUARD, self.single.take(fields.out)
        alone = np.flatnonzero(computes & single)
        cells = of.take(fields.out[alone])
        self.writer = np.full(len(self.home), NONE, np.int32)
        self.writer[cells] = alone
        self.writer[np.bincount(cells, minlength=len(self.home)) > 1] = NONE
        # A cell that an instruction writes together with others has no writer of its own.
        many = np.flatnonzero(computes & ~single)
        aux = computes & (fields.aux != NONE)
        groups = np.concatenate([uses.out[many], self.draft.group[fields.aux[aux]]])
        shared = uses.flags(groups)
        self.writer[: self.draft.count][shared] = NONE
        self.writer[of[inside][shared[self.draft.group[inside]]]] = NONE
        self.writer[NO_GROUP] = NONE

    def _literals(self, total: int) -> None:
        draft = self.draft
        groups = draft.literal_groups()
        cells = np.flatnonzero(draft.groups()[0][groups] < len(POOLS))
        cells = cells[np.argsort(groups[cells], kind="stable")]
        self._literal_cells, self._numbers = groups[cells], draft.literals.first_numbers()[cells]
        self.is_literal = np.zeros(total, bool)
        self.is_literal[self._literal_cells] = True

    def numbers_of(self, values: np.ndarray) -> np.ndarray:
        """Return the numbers that some values are, which are literals."""
        return self._numbers[np.searchsorted(self._literal_cells, self.of[values])]

    def move(self, cells: np.ndarray, base: int, first: int = 0) -> None:
        """Let cells of pools stand in an array from its cell ``first`` on."""
        self.home[cells] = storage = self.draft.address(base)[0]
        self.offset[cells] = places = np.arange(first, first + len(cells))
        self.movable[cells] = False
        self.bases[storage] = base
        self._moves.append((cells, base, places))

    def merge(self, cells: np.ndarray) -> None:
        """Let all cells be the first one of them: they hold the same number."""
        self.alias[cells] = cells[0]
        self.movable[cells] = False

    def settle(self) -> None:
        """Write to the draft what was moved and merged."""
        draft = self.draft
        if (self.alias != np.arange(len(self.alias))).any():
            count = len(self.alias)
            alias = np.arange(max(draft.count, count), dtype=np.int32)
            alias[:count] = self.alias
            draft.redirect(alias)
        if self._moves:
            cells, bases, offsets = zip(*self._moves, strict=True)
            homes = np.repeat(bases, [len(part) for part in cells])
            draft.relocate(np.concatenate(cells), homes, np.concatenate(offsets))


def _settled(draft: Draft, offsets: np.ndarray) -> np.ndarray:
    """Return the numbers that offsets have for all sizes, UNKNOWN for those that have none."""
    found = offsets.astype(np.int64)
    symbols = np.flatnonzero(offsets < 0)
    for place, code in zip(symbols.tolist(), offsets[symbols].tolist(), strict=True):
        found[place] = max(draft.sizes.settled(code), UNKNOWN)
    return found
