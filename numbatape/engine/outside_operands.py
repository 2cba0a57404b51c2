"""Products whose operands are read where the caller has them, outside of the cells of the workspace.

A matrix of data is copied into cells once, and each steady call compares it with what it was then, because
somebody may have written to it: for a product with a vector this takes as long as the product and its
derivative together. Where nothing but products reads the matrix, they can as well read the caller's memory,
so that there is nothing to compare. The instructions of such a frame are a copy of the plan's, in which the
operand has the number of a row of the table OUTSIDE in place of its first cell. In a block that runs strip by
strip this first cell moves, so there the number stands in the instruction's record.

The proof that a plan stays inside of its storages holds here too: an operand reaches as far into the
caller's array, which has the size of the storage, as into the storage.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable

import numpy as np

from ..jit import address
from ..ops import ROWS
from ..tape.instruction import GUARD, NONE
from ..tape.tape import F64, Tape
from .codegen import FIRST_KERNEL
from .frame import (
    ACTIVE_SHIFT,
    CELL_A,
    CELL_B,
    OUTSIDE_A,
    OUTSIDE_B,
    OUTSIDE_WORDS,
    RECORD_WORD,
    STRIDE,
    WORD,
)
from .placement import storage_sizes
from .plan_tables import CORE_CELLS, CORE_SCRATCH
from .strips.strip_kernels import BLOCK
from .workspace import Workspace

# Name of the operand, its word of an instruction, its flag, and the word of a record in a block.
_OPERANDS = (("a", CELL_A, OUTSIDE_A, CORE_SCRATCH), ("b", CELL_B, OUTSIDE_B, CORE_CELLS))


class OutsideOperands:
    """The instructions of a workspace, with operands that are arrays outside of it.

    Parameters
    ----------
    space
        The workspace.
    storages
        Storages of float64 cells that contiguous arrays of the same size have in each call.

    Attributes
    ----------
    storages
        Those of which the arrays are read in place of the cells.
    """

    def __init__(self, space: Workspace, storages: Iterable[int]):
        plan = space.plan
        self._code, self._strips = plan.code.copy(), plan.strips
        rows: list[tuple[int, int]] = []
        # Instructions of blocks: the instruction, the flag, the word of its record, and what that will be.
        self._in_blocks: list[tuple[int, int, int, int]] = []
        self._words = {its: np.zeros(1, np.int64) for its in storages if only_in_products(plan.tape, its)}
        sizes = storage_sizes(plan.tape, plan.sizes)
        for its, word in list(self._words.items()):
            if not self._reads(plan, its, int(sizes[its]), address(word), rows):
                del self._words[its]
        self.storages = frozenset(self._words)
        self._table = np.array(rows or [(0, 0)], np.int64).reshape(-1, OUTSIDE_WORDS)

    def _reads(self, plan, its: int, size: int, word: int, rows: list[tuple[int, int]]) -> bool:
        """Let instructions read the array in place of a storage; return whether these are all that do."""
        first, found, in_blocks = int(plan.bases[its]), [], []
        products = np.isin(plan.code[:, 0] & 0xFFFF, FIRST_KERNEL + 2 * np.array(_products()) + F64)
        inside_of_block = np.zeros(len(products), bool)
        for start, stop in () if plan.strips is None else plan.strips.extents:
            inside_of_block[start:stop] = True
        storage, code = plan.tape.values["storage"], plan.tape.code
        for name, cell, flag, place in _OPERANDS:
            cells, reads = plan.code[:, cell], storage[code[name]] == its
            inside = products & (first <= cells) & (cells < first + size)
            found += [(pc, cell, flag) for pc in np.flatnonzero(inside).tolist()]
            in_blocks += [(pc, flag, place) for pc in np.flatnonzero(reads & inside_of_block).tolist()]
        reads = sum(np.count_nonzero(storage[code[name]] == its) for name, *_ in _OPERANDS)
        if len(found) + len(in_blocks) != reads:
            return False
        for pc, cell, flag in found:
            rows.append((word, int(self._code[pc, cell]) - first))
            self._code[pc, cell] = len(rows) - 1
            self._code[pc, 0] |= flag << ACTIVE_SHIFT
        for pc, flag, place in in_blocks:
            rows.append((word, -first))
            self._in_blocks.append((pc, flag, place, len(rows) - 1))
        return True

    def word(self, storage: int) -> np.ndarray:
        """Return the word for the address of the array that is read in the next call."""
        return self._words[storage]

    def apply(self, frame: np.ndarray) -> None:
        """Let the sweeps of a frame read the arrays."""
        frame[WORD["CODE"]], frame[WORD["OUTSIDE"]] = address(self._code), address(self._table)
        # No guard lets this call go on in another workspace, whose cells hold the arrays as they were.
        frame[WORD["CONTINUED"]] = 0
        if self._in_blocks:
            self._blocks = self._blocks_of(frame)
            frame[WORD["STRIPS"]] = address(self._blocks)

    def _blocks_of(self, frame: np.ndarray) -> np.ndarray:
        """Return a copy of the blocks of a frame whose products read the arrays."""
        strips = self._strips
        assert strips is not None
        words = ctypes.c_int64 * strips.blocks.size
        blocks = np.array(words.from_address(int(frame[WORD["STRIPS"]]))).reshape(strips.blocks.shape)
        self._first = []
        for (start, stop), parts in zip(strips.extents, strips.parts, strict=True):
            its = [(pc - start, *rest) for pc, *rest in self._in_blocks if start <= pc < stop]
            for part in parts if its else ():
                at, size = (int(blocks[part, BLOCK.index(name)]) for name in ("first", "bytes"))
                first = np.array((ctypes.c_int32 * (size // 4)).from_address(at))
                for k, flag, place, row in its:
                    record = STRIDE * (stop - start) + int(first[STRIDE * k + RECORD_WORD])
                    first[STRIDE * k] |= flag << ACTIVE_SHIFT
                    first[record + place] = row
                self._first.append(first)
                blocks[part, BLOCK.index("first")] = address(first)
        return blocks


def _products() -> list[int]:
    return sorted(ROWS.with_trait("product"))


def only_in_products(tape: Tape, its: int) -> bool:
    """Whether only products behind the prologue read a storage of float64 cells, and nothing writes to it.

    A prologue is computed once, from what the cells hold.
    """
    storage, code = tape.values["storage"], tape.code
    if tape.calls or tape.storages["family"][its] != F64 or its in storage[np.array(tape.outputs, int)]:
        return False
    found = False
    for name in ("out", "a", "b", "c", "aux"):
        given = (code[name] != NONE) & ((code["op"] != GUARD) | (name != "aux"))
        at = np.flatnonzero(given)
        at = at[storage[code[name][at]] == its]
        if not len(at):
            continue
        if (
            name not in ("a", "b")
            or at[0] < tape.prologue
            or not ROWS.is_any(_products(), code["op"][at]).all()
        ):
            return False
        found = True
    return found
