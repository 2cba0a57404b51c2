"""What the kernels of a loop read: the words of its state, tables of copies, and memory between steps."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from ...tape import Tape
from ...tape.families import ACTIVE, CONSTANT, FAMILY_DTYPE
from ...tape.loop import CAPTURE, CARRY, SLICE, STACK, SUM, Loop
from ..moving.moving_words import Address, MovingWords, Room, Start, Total
from ..placement import overwritten, read_backwards, zeros
from ..plan import Plan
from .deferred_products import DeferredProduct, Stacked, steps_stacked
from .loop_words import WORD, WORDS


class LoopTables:
    """The state of one loop of one workspace (`numbatape.engine.loops.loop_words.STATE`).

    Parameters
    ----------
    loop
        What runs.
    body, plan, space
        Its body, with lanes if an instruction with lanes runs it; the body's plan and workspace.
    size
        Returns the value of a size code of the tape that the loop stands on.

    Attributes
    ----------
    words
        The words of the state.
    moving
        Those of the words, and of the tables that they refer to, that follow sizes.
    stack_room, cotangent_room
        The bytes that there are for saved cells, and the cells for cotangents of carries.
    """

    def __init__(self, loop: Loop, body: Tape, plan: Plan, space, size: Callable[[int], int]):
        self.loop, self._body, self._plan, self._space, self._size = loop, body, plan, space, size
        self.words = np.zeros(len(WORDS), np.int64)
        self.stack_room = self.cotangent_room = 0
        self.moving = MovingWords()
        self._test_space: Any = None
        self._alive: list[np.ndarray] = []

    @property
    def nbytes(self) -> int:
        """The bytes of the tables, and of what is kept of the steps."""
        return self.stack_room + sum(array.nbytes for array in self._alive)

    def again(self) -> LoopTables:
        """Return the same state with saved cells of its own."""
        found = copy.copy(self)
        found.words, found._alive = self.words.copy(), [*self._alive]
        found.take_stack(self.stack_room)
        return found

    @property
    def stack_bytes(self) -> int:
        """The bytes of the saved cells of all steps."""
        return int(self.words[WORD["STACK_BYTES"]]) * self._size(self.loop.length)

    def take_stack(self, size: int) -> None:
        """Make room for the saved cells of all steps."""
        self._stack = zeros(size + 8)
        self.stack_room, self.words[WORD["STACK"]] = size, self._stack.ctypes.data

    def _start(self, code: int) -> int:
        """Return the value of a size code that stands in a table as it is."""
        if code >= 0:
            return code
        found = Start(self._size(code))
        found.code = code
        return found

    def _total(self, factor: int, *codes: int) -> int:
        found = Total(factor * sum(map(self._size, codes)))
        found.factor, found.codes = factor, codes
        return found

    def _table(self, name: str, rows: list[tuple]) -> None:
        """Write a table, whose rows have the fields that `numbatape.engine.loops.loop_words.ROWS` names."""
        if not rows:
            return  # No kernel reads the address of a table without rows.
        array = np.array(rows, np.int64).reshape(-1)
        self._alive.append(array)
        address = array.ctypes.data
        for at, entry in enumerate([x for row in rows for x in row]):
            self.moving.note(address + 8 * at, entry)
        self.words[WORD[name]] = address
        self.words[WORD[f"{name}_COUNT"]] = len(rows)

    def _word(self, name: str, number: int) -> None:
        """Write a word of the state that may follow sizes."""
        self.words[WORD[name]] = number
        self.moving.note(self.words.ctypes.data + 8 * WORD[name], number)

    def write_lengths(self) -> None:
        """Fill in the words that are sizes."""
        loop = self.loop
        self._word("LENGTH", self._start(loop.length))
        self._word("STEPS", -1 if loop.steps is None else self._start(loop.steps))
        if loop.test is not None:
            self._word("COUNTED", self._start(loop.counted))
        self.words[WORD["RESULT"]] = self._unwritten()

    def take_cotangents(self, count: int) -> None:
        """Make room for the cotangents of carries, between steps."""
        self.cotangent_room = count
        self._between = np.empty(count + 1)
        self.words[WORD["COTANGENTS"]] = self._between.ctypes.data

    def _allocated(self, size: int) -> int:
        """Return the address of so many bytes."""
        array = zeros(size + 8)
        self._alive.append(array)
        return array.ctypes.data

    def _address(self, value: int, adjoint: bool = False, of_test: bool = False) -> Address:
        """Return the address of the first cell of a value of the body or of the test, or of its adjoint."""
        space = self._test_space if of_test else self._space
        plan, cells = space.plan, (space.v, space.g)[adjoint]
        family, cell = plan.cell(value)
        first = plan.active[family][0] if adjoint else 0
        found = Address(cells[family].ctypes.data + FAMILY_DTYPE[family].itemsize * (cell - first))
        found.place = of_test, adjoint, family, *plan.tape.values[value].item()[:2]
        return found

    def _is_active(self, value: int) -> bool:
        tape = self.loop.body
        return int(tape.storages["level"][tape.values["storage"][value]]) == ACTIVE

    def _unwritten(self) -> int:
        """Return the cells of the result, or 0 if the outputs of one step are all of them."""
        size, cells = self._size, self._size(self.loop.extents[0])
        return 0 if sum(size(out.count) for out in self.loop.outs) == cells else cells

    def _inputs(self, *roles: str) -> Iterator[tuple]:
        """Yield (port, value, first cell in the operand, cells) of the body's inputs that play a role."""
        for port, slot in zip(self.loop.ports, self.loop.body.inputs, strict=True):
            if port.role in roles and port.count:
                yield port, slot.value, self._start(port.start), self._start(port.count)

    def _outputs(self, *roles: str) -> Iterator[tuple]:
        """Yield (out, value, first cell in the result, cells) of the body's outputs that play a role."""
        for out, value in zip(self.loop.outs, self.loop.body.outputs, strict=True):
            if out.role in roles and out.count:
                yield out, value, self._start(out.start), self._start(out.count)

    def _history(self) -> Iterator[tuple[int, int, int]]:
        """Yield (value, first cell in the result, cells) of the carries that are stacked."""
        loop = self.loop
        for k, start in zip(loop.carries, loop.history or (), strict=False):
            count = loop.ports[k].count
            if count:
                yield loop.body.inputs[k].value, self._start(start), self._start(count)

    def _cells(self, value: int, like: int, of_test: bool = False) -> tuple[Address, int, int]:
        """Return the address of a value of the body, and its steps from cell to cell and from lane to lane.

        ``like`` is the value of the body without lanes. With ``of_test`` they are values of the test.
        """
        plan, tape = self._plan, self.loop.body
        if of_test:
            plan, tape = self._test_space.plan, self.loop.test
        strides, rank = plan.strides(value), len(tape.layout_of(like).dims)
        address = self._address(value, of_test=of_test)
        if len(strides) == rank:
            return address, 1, 0
        return address, (strides[-1] if rank else 1), strides[0]

    def write_forward(self) -> None:
        """Fill in the words for the forward sweep: addresses of what enters, is carried, and leaves."""
        loop, body = self.loop, self._body
        inputs = [
            self._cells(slot.value, old.value)
            for slot, old in zip(body.inputs, loop.body.inputs, strict=True)
        ]
        outputs = [self._cells(*pair) for pair in zip(body.outputs, loop.body.outputs, strict=True)]
        number = {slot.value: k for k, slot in enumerate(loop.body.inputs)}
        place = {id(out): k for k, out in enumerate(loop.outs)}

        def entering(*roles):
            for port, value, first, count in self._inputs(*roles):
                address, step, lane = inputs[number[value]]
                yield port.operand, first, address, count, step, lane

        def leaving(cells, first, count):
            address, step, lane = cells
            return address, first, count, step, lane

        ends = [
            (outputs[place[id(out)]], inputs[out.port], first, n)
            for out, _, first, n in self._outputs(CARRY, SUM)
        ]
        self._table("ENTER", [*entering(CARRY, CAPTURE, SUM)])
        self._table("SLICES", [*entering(SLICE)])
        self._table("HISTORY", [leaving(inputs[number[x]], first, n) for x, first, n in self._history()])
        self._table(
            "OUTPUTS",
            [leaving(outputs[place[id(out)]], first, n) for out, _, first, n in self._outputs(STACK)],
        )
        self._table(
            "CARRY",
            [(y[0], x[0], n, *y[1:], *x[1:]) for y, x, _, n in ends if y[0].place != x[0].place],
        )
        self._table("LEAVE", [leaving(x, first, n) for _, x, first, n in ends])

    def write_test(self, space) -> None:
        """Fill in the words for the test before each step."""
        loop, self._test_space = self.loop, space
        test, its = loop.test, space.plan.tape
        assert test is not None
        enter, carried = [], []
        for port, slot, old in zip(loop.test_ports, its.inputs, test.inputs, strict=True):
            count, (address, step, lane) = self._start(port.count), self._cells(slot.value, old.value, True)
            if port.role == CARRY and port.count:
                source = self._cells(self._body.inputs[port.start].value, loop.body.inputs[port.start].value)
                carried.append((source[0], address, count, *source[1:], step, lane))
            elif port.count:
                enter.append((port.operand, self._start(port.start), address, count, step, lane))
        self._table("TEST_ENTER", enter)
        self._table("TEST_CARRY", carried)
        result, _, self.words[WORD["TEST_LANE"]] = self._cells(its.outputs[0], test.outputs[0], True)
        self._word("TEST_RESULT", result)
        self.words[WORD["TEST"]] = space.address
        self.words[WORD["STRICT"]] = int(loop.strict)

    def write_apart(self, lanes: int, alone: np.ndarray) -> None:
        """Fill in the words for lanes that take different numbers of steps.

        ``alone`` is the state of a loop that computes one lane.
        """
        self.words[WORD["APART"]] = 1
        self.words[WORD["COUNTS"]] = self._allocated(8 * lanes)
        self.words[WORD["ALONE"]] = alone.ctypes.data

    def write_reverse(self) -> None:
        """Fill in the words for the reverse sweep: what is saved, cleared, seeded and added to the operands.

        Only what has a cotangent gets a row.
        """
        loop, back = self.loop, lambda value: self._address(value, adjoint=True)
        # The inputs of a body that runs once are those of this call alone, like its other cells.
        outside = set() if loop.runs_once else self._outside()
        saved = self._ranges(False, outside)
        if loop.runs_once and not self.words[WORD["SAVING"]]:
            saved = []
        elif loop.body.calls:
            saved = [(self._address(x), self._total(8, p.count)) for p, x, _, _ in self._inputs(CARRY)]
        self._table("SAVED", saved)
        self._table("CLEARED", self._ranges(True, outside))
        carried = [loop.ports[k].count for k in loop.carries]
        places = {k: self._total(1, *carried[:number]) for number, k in enumerate(loop.carries)}
        self.take_cotangents(sum(map(self._size, carried)))
        self.words[WORD["STACK_BYTES"]] = sum(size for _, size in saved)
        self.take_stack(self.stack_bytes)
        active = self._is_active
        number = {slot.value: k for k, slot in enumerate(loop.body.inputs)}
        history = {x: first for x, first, _ in self._history()}
        sums = {out.port: first for out, _, first, _ in self._outputs(SUM)}
        carries = [(out, y, first, n) for out, y, first, n in self._outputs(CARRY)]
        carries = [row for row in carries if active(loop.body.inputs[row[0].port].value)]
        stacks = [row for row in self._outputs(STACK) if active(row[1])]
        kept = [row for row in self._inputs(CAPTURE, SUM) if active(row[1])]
        self._table(
            "SEED_CARRY",
            [(back(y) if active(y) else 0, first, n, places[out.port]) for out, y, first, n in carries],
        )
        self._table("SEED_ROWS", [(back(y), first, n, 0) for _, y, first, n in stacks])
        self._table("KEPT", [(back(x), n, sums.get(number[x], -1)) for _, x, _, n in kept])
        self._table(
            "BACK_CARRY",
            [
                (back(x), p.operand, first, n, places[number[x]], history.get(x, -1))
                for p, x, first, n in self._inputs(CARRY)
                if active(x)
            ],
        )
        self._table(
            "BACK_SLICES",
            [(back(x), p.operand, first, n) for p, x, first, n in self._inputs(SLICE) if active(x)],
        )
        self._table("BACK_KEPT", [(back(x), p.operand, first, n) for p, x, first, n in kept])

    def write_deferred(self, products: Sequence[DeferredProduct]) -> None:
        """Fill in the words for products that the reverse sweeps of steps leave out."""
        shape, strides = self._plan.shape, self._plan.strides
        alike: dict[tuple, list[DeferredProduct]] = {}
        for product in products:
            sides = product.left, product.right
            alike.setdefault((product.target, *(shape(x.value) for x in sides)), []).append(product)
        work = [prod((*shape(its[0].target), its[0].rows, len(its))) for its in alike.values()]
        steps = self.words[WORD["MOST_HELD"]] = steps_stacked(max(work, default=0))
        places: dict[tuple[Stacked, ...], int] = {}
        parts, rows = [], []

        def stack(values: tuple[Stacked, ...]) -> tuple[int, int, int]:
            """Return the address of a stack, how many rows it gets in a step, and the cells of a row."""
            sources = []
            for x in values:
                order = -1 if x.transposed else 1
                its = *shape(x.value)[::order], *strides(x.value)[::order]
                sources.append((self._address(x.value, x.adjoint), *its))
            _, m, n, *_ = sources[0]
            if values not in places:
                places[values] = first = self._allocated(8 * steps * len(values) * m * n)
                for k, source in enumerate(sources):
                    parts.append((*source, first + 8 * k * m * n, 8 * len(values) * m * n))
            return places[values], len(values) * m, n

        for (target, *_), several in alike.items():
            left, count, m = stack(tuple(product.left for product in several))
            right, _, n = stack(tuple(product.right for product in several))
            row_step, step = strides(target)
            pair = (left, m, right, n) if step == 1 else (right, n, left, m)
            # Those of the product, or of its transpose.
            gaps = (row_step, step) if step == 1 else (step, row_step)
            rows.append((self._address(target, adjoint=True), *gaps, *pair, count))
        self._table("PARTS", parts)
        self._table("PRODUCTS", rows)

    def _outside(self) -> set[int]:
        """Return the storages of captures and sums, whose cells are the same in all steps.

        Sums are never read, and their adjoints are those of the result.
        """
        return {int(self.loop.body.values["storage"][x]) for _, x, _, _ in self._inputs(CAPTURE, SUM)}

    def _ranges(self, adjoints: bool, kept: set[int]) -> list[tuple[int, int]]:
        """Return (address, bytes) of the cells that differ from step to step, or of their adjoints.

        Of the cells, those are meant that the reverse sweep of a step reads. The storages ``kept`` do not
        differ. Storages stand in the order of their family, level and number, at all sizes
        (`numbatape.engine.placement`): what lies next to each other is one range.
        """
        plan, tape = self._plan, self.loop.body
        cells = (self._space.v, self._space.g)[adjoints]
        rows = sorted((its, level, k, size) for k, (size, its, level) in enumerate(tape.storages.tolist()))
        runs: list[tuple[int, int, int]] = []
        root = overwritten(tape)
        roots = range(len(rows)) if root is None else root.tolist()
        others = {k for k, its in enumerate(roots) if k != its}
        read = {its for its, wanted in zip(roots, read_backwards(tape).tolist(), strict=True) if wanted}
        follows = False
        for family, level, storage, size in rows:
            wanted = level == ACTIVE if adjoints else level != CONSTANT and storage in read
            if wanted and storage not in kept:
                if not size or storage in others:  # The storage has no cells of its own.
                    continue
                if follows and runs[-1][0] == family:
                    runs[-1] = family, runs[-1][1], storage
                else:
                    runs.append((family, storage, storage))
                follows = True
            elif size:
                follows = False
        found = []
        for family, first, last in runs:
            itemsize, base = FAMILY_DTYPE[family].itemsize, int(plan.bases[first])
            stop = int(plan.bases[last]) + plan.size(int(tape.storages["size"][last]))
            room = Room(-(-itemsize * (stop - base) // 8) * 8)
            room.place = family, first, last
            active = plan.active[family][0] if adjoints else 0
            address = Address(cells[family].ctypes.data + itemsize * (base - active))
            address.place = False, adjoints, family, first, 0
            found.append((address, room))
        return found
