"""`StripReplanner`: plans that run long vectors strip by strip, for further sizes.

A plan with strips has room for vectors that are somewhat longer. As long as vectors fit, all cells stay where
they are: another length changes a few words. Longer ones get a plan with more room, which takes a
millisecond or two, but as the room grows by a factor each time, this happens seldom.
"""

from __future__ import annotations

import numpy as np

from .. import plan_tables as names
from .. import replan_kernels as more
from .. import segments
from ..codegen import FIRST_KERNEL
from ..formula_text import LINK_MASK
from ..frame import ARMS, STRIDE
from ..placement import evaluated, room_of, storage_table
from ..plan import Plan, make_plan
from ..replan import Replanner
from ..replan_kernels import LOOK_CLOSER
from ..segments import INSTRUCTION, Cuts, work_of
from ..verify_plan import address_of, kernel
from .strip_blocks import Block, owners_of
from .strip_plan import in_strips
from .strip_replan_kernels import SETTLE, WORD, WORDS, strip_moves
from .strip_rows import STRIP, vector_row
from .strip_tables import cuts_of_blocks

SPARE = 1.25  # a plan has room for vectors that are longer by this factor
OPCODE = 0xFFFF


class StripReplanner:
    """Plans of one tape in strips, for sizes other than those of a first plan.

    Parameters
    ----------
    first
        A plan with strips, of a tape whose sizes alone decide whether a plan is safe (`Replanner.serves`).
    function
        Plans the function whose value and gradient the tape computes; None for any other tape.
    least
        How many cells the function's plan must have, for a plan in strips: if no vector is worth strips, and
        if there is one.

    Attributes
    ----------
    tape, values, kernels, code, aux, sizes, storages, ends, address, given, mover
        As those of `Replanner`.
    blocks
        The blocks of the last plan, as a frame refers to them.
    is_long
        Whether the sweep of the last plan is cut into segments.
    work, strip_work
        The work of the last plan: all of it, and that of vectors which are worth strips.
    """

    def __init__(self, first: Plan, function: Replanner | None = None, least: tuple[int, int] = (0, 0)):
        self.tape, self.values = first.tape, first.values
        self._whole, self._function, self._least = Replanner(first), function, least
        self.sizes, self.given = self._whole.sizes, self._whole.given
        self._whole.measure(first.dimensions)
        self._whole.only_measure()
        if function is not None:
            function.only_measure(self._whole)
        self.kernels = first.kernels
        self._move = strip_moves().function("move")
        self.settle(first.dimensions)

    @property
    def proved(self) -> bool:
        return self._whole.proved

    def move(self, dimensions) -> int:
        """Plan for other dimensions, in the tables of this object; return `OK` (0), or the reason why not."""
        given = self.given
        for k, n in enumerate(dimensions):
            given[k] = n
        outcome = self._move(self._address, 0)
        if outcome == SETTLE:
            self.settle(tuple(dimensions))
            outcome = self._move(self._address, 0)
        return LOOK_CLOSER if outcome == SETTLE else outcome

    @property
    def mover(self) -> tuple[int, int]:
        return strip_moves().address["move"], self._address

    def pays(self) -> bool:
        """Whether the plan is better for the last dimensions than what does without strips."""
        return True

    @property
    def is_long(self) -> bool:
        return self._work_words[more.WORK] > segments.MOST

    @property
    def work(self) -> int:
        return self._whole.work

    @property
    def strip_work(self) -> int:
        return self._moves[WORD["work"]]

    def cuts(self) -> Cuts | None:
        """Return where the sweep of the last plan is cut; None if it is short."""
        if not self.is_long:
            return None
        found = self._whole.cuts_of(self._derived, self.aux)
        return cuts_of_blocks(found or Cuts([len(self.tape)], {}), self._blocks, self._strips)

    def settle(self, dimensions: tuple[int, ...]) -> None:
        """Make a plan with room to spare."""
        plan, blocks, narrow = in_strips(make_plan(self.tape, dimensions, self.values), SPARE)
        strips = plan.strips
        assert strips is not None
        self._strips = strips  # kept alive, because the blocks refer to its tables by address
        self._blocks = blocks
        self.kernels = tuple(sorted({*self.kernels, *plan.kernels}))
        self.code = plan.code.copy()
        self.blocks, self._memory = strips.words()
        (first, _), (first_single, _) = plan.active
        ends = first, first, plan.cells[0], first_single, first_single, plan.cells[1]
        self.ends = np.array(ends, np.int64)
        self.storages = storage_table(self.tape, plan.sizes, plan.bases)
        self._prepare_derivation()
        kernel("derive")(self.address, 0)
        self._prepare_moves(
            **self._words_of_blocks(blocks, narrow),
            room=room_of(self.tape, plan.sizes, SPARE).astype(np.int64),
            weights=self._weights(),
        )

    def _prepare_derivation(self) -> None:
        """Prepare the call of the kernel that derives a plan's instructions where storages are now."""
        whole, rows = self._whole, len(self.tape)
        # The kernel writes the first ``size`` words. Behind them is room for copies of those that have to
        # stay what they are, so that comparing words with others checks them all.
        size = names.CODE_WORDS * rows + len(whole.aux)
        self._words = np.zeros(2 * size, np.int32)
        code, self.aux, self._fixed = np.split(self._words, [names.CODE_WORDS * rows, size])
        self._derived = code.reshape(rows, names.CODE_WORDS)
        self._arguments = whole.arguments()
        self._arguments[names.STORAGES] = self.storages.ctypes.data
        self._arguments[names.ENGINE_CODE] = self._derived.ctypes.data
        self._arguments[names.ENGINE_AUX] = self.aux.ctypes.data
        self._arguments[more.CELLS] = self.ends.ctypes.data
        self.address, self._work_words = self._arguments.ctypes.data, memoryview(self._arguments)

    def _prepare_moves(self, **tables: np.ndarray) -> None:
        """Prepare the calls of the kernel that follows sizes (`engine.strips.strip_replan_kernels`)."""
        tables = {name: np.ascontiguousarray(table) for name, table in tables.items()}
        self._tables = tables  # kept alive, because the kernels read them by address
        places = {
            **tables,
            "whole": self._whole.storages,
            "storages": self.storages,
            "derived": self._words,
            "code": self.code,
            "blocks": self.blocks,
        }
        words = {name: table.ctypes.data for name, table in places.items()}
        function = self._function
        words |= {name: address_of(name) for name in ("replan", "derive", "verify")}
        words |= {"whole_plan": self._whole.address, "plan": self.address}
        words |= {"function": 0 if function is None else function.address}
        words |= dict(zip(("many", "long"), self._least, strict=True))
        counts = {
            "storage_count": len(self.storages),
            "block_count": len(self.blocks),
            **{f"{name}_count": len(tables[name]) for name in ("checked", "narrow", "outside", "moving")},
            "weight_count": len(tables["weights"]),
        }
        self._move_words = np.array([(words | counts).get(name, 0) for name in WORDS], np.int64)
        self._address, self._moves = self._move_words.ctypes.data, memoryview(self._move_words)

    def _words_of_blocks(self, blocks: list[Block], narrow: np.ndarray) -> dict[str, np.ndarray]:
        """Return which words of the instructions may change with sizes.

        For other sizes the kernel must write all other words as they are now; else the blocks would not be
        the same.
        """
        tape, start = self.tape, self._derived.size
        storage, owners = tape.values["storage"], owners_of(tape)
        # An instruction on numbers may move if no register holds a number between it and its neighbours.
        linked = self.code[:, ARMS] & LINK_MASK > 0
        alone = ~linked & ~np.append(linked[1:], False)
        outside = ((self._derived[:, 0] & OPCODE) >= FIRST_KERNEL) | alone
        fixed = np.ones(self._derived.shape, bool)
        fixed[outside, 1:] = False
        counts, block_of_row, records = [], [], []
        narrows: dict[int, int] = {}
        # Row of blocks, word of its table, word of the instructions, and the shift from that to this.
        moving: list[tuple[int, int, int, int]] = []
        for number, block in enumerate(blocks):
            inside = slice(block.start, block.stop)
            outside[inside], fixed[inside] = False, True
            written = {owners[row.out.value] for row in block.rows}
            end = STRIDE * len(block.rows)  # the block's table has the instructions first, then their records
            for k, row in enumerate(block.rows):
                at = STRIDE * (block.start + k), start + row.record.start - STRIDE
                table = STRIDE * k, end - STRIDE
                end += len(row.in_block[1])
                counts.append(at[row.count >= STRIDE] + row.count)
                block_of_row.append(number)
                records += [start + place for place in row.record if place not in row.follows]
                for place in row.follows:
                    in_table = table[1] + STRIDE + place - row.record.start
                    moving += [(part, in_table, start + place, 0) for part in self._strips.parts[number]]
                for operand in (row.out, *row.operands):
                    if narrow[storage[operand.value]]:
                        narrows[int(storage[operand.value])] = number
                    elif owners[operand.value] not in written:  # an operand from outside of the block
                        in_record = operand.place >= STRIDE
                        places = table[in_record] + operand.place, at[in_record] + operand.place
                        for part in self._strips.parts[number]:
                            begin, _, _ = self._strips.spans[part]
                            moving.append((part, *places, STRIP * operand.step * begin))
        block_of_row = np.array(block_of_row, int)
        first_rows = np.searchsorted(block_of_row, np.arange(len(blocks)))
        lengths = np.array(counts, int)[first_rows]
        stays = np.zeros(len(self._words), bool)
        stays[np.flatnonzero(fixed)] = True
        stays[np.array(records, int)] = True
        stays[np.array([*counts, *(place for _, _, place, _ in moving)], int)] = False
        places = np.flatnonzero(stays)
        self._fixed[: len(places)] = self._words[places]
        # The kernel compares the words that must not change, each with its copy, and the length of each row
        # of a block with that of the block's first row.
        behind = len(self._words) - len(self._fixed) + np.arange(len(places))
        checked = (
            np.concatenate([places, np.array(counts, int)]),
            np.concatenate([behind, lengths[block_of_row]]),
        )
        return {
            "checked": np.stack(checked, 1).astype(np.int32),
            "lengths": self._rows_of_blocks(lengths),
            "narrow": np.array([(s, lengths[number]) for s, number in narrows.items()], np.int32),
            "outside": np.flatnonzero(outside).astype(np.int32),
            "moving": np.array(moving, np.int32),
        }

    def _rows_of_blocks(self, lengths: np.ndarray) -> np.ndarray:
        """Return, for each row of blocks, where its length is, the most that it may be, and its strips."""
        longest = (SPARE * self._words[lengths]).astype(int).tolist()
        rows = [
            (at, most, *self._strips.spans[part])
            for at, most, parts in zip(lengths.tolist(), longest, self._strips.parts, strict=True)
            for part in parts
        ]
        return np.array(rows, np.int32)

    def _weights(self) -> np.ndarray:
        """Return where each instruction over a vector has its length, and how much work a cell of it is."""
        work = work_of(self.tape, lambda codes: evaluated(codes, self.sizes))
        found = []
        for k in range(self.tape.prologue, len(self.tape)):
            row = vector_row(self.tape, self._derived, self.aux, k)
            if row is not None and row.cells and not row.is_product:
                at = self._derived.size + row.record.start - STRIDE if row.record else STRIDE * k
                found.append((at + row.count, round((work[k] - INSTRUCTION) / row.cells)))
        return np.array(found, np.int32)
