"""Loop distribution: what the steps of a loop compute independently of each other becomes vectors.

An elementwise instruction that is in no circle (`numbatape.emitter.loop_components`) is one instruction on
vectors over all steps, and so are a product of a vector with a matrix that all steps share, and the entries
of an array that steps take at positions of their own. A carry that is in no circle is a shifted copy of its
next values. A circle that makes ``a*z + b`` of one number ``z`` is a linear recurrence, or a sum. All other
circles, and what stands between two of them, stay in the loop, which gets what is computed before it as
slices, and stacks what is needed behind it. (Re-rolling does the same to the turns of a Python loop, whose
number is known: `numbatape.tape.rerolling.distribution`.)
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from ..tape import TapeBuilder
from ..tape.bodies import Stretch, address_of
from ..tape.instruction import MAIN, PROLOGUE, Instruction, swapped
from ..tape.tape import ACTIVE, CONSTANT, F64, VARYING
from . import addresses, instructions
from .instructions import row as op_row
from .loop_components import SHIFTED, VECTOR, Component, LoopComponents
from .loop_unrolling import UnknownCells, UnrolledSteps, steps_together
from .repeated_steps import RepeatedSteps, array_steps_together

LEAST_GROUPS = 2  # a loop of a fixed length that would have fewer steps, when several are one, is left alone


class Home(NamedTuple):
    """Where a key's cells are in all steps; those of two successive steps are ``stride`` cells apart."""

    storage: int
    offset: int
    stride: int


class Core(NamedTuple):
    """What stays in a loop.

    Attributes
    ----------
    stretch
        The body. Its inputs are carries and then slices, its outputs are carries and then stacked ones.
    carries
        Numbers of its carries among those of the whole loop.
    slices
        What fills its slices: matrices with a row for each step.
    stacks
        Keys of the stacked outputs.
    past
        Carries that are needed as they are before each step: the key and the number of each.
    """

    stretch: Stretch
    carries: list[int]
    slices: list[int]
    stacks: list[int]
    past: list[tuple[int, int]]


class LoopDistribution:
    """The body of a loop, split into what is computed before the loop, in it and behind it.

    Parameters
    ----------
    stretch
        The body. It runs at least once.
    carries
        How many of its inputs, and of its outputs, are carries.
    length
        How many steps there are, a size code.
    line
        The user's line that the loop stands in.
    levels
        The levels of what fills the inputs, if all stays in the loop that is not the same in all calls, and
        several of its steps are one. None if as much as possible leaves the loop.

    Attributes
    ----------
    parts
        What becomes of the body's instructions.
    last
        By carry: its value behind the last step, as far as it was computed.
    """

    def __init__(
        self,
        stretch: Stretch,
        carries: int,
        length: int,
        line: int,
        levels: Sequence[int] | None = None,
    ):
        self.stretch, self.length, self.line = stretch, length, line
        self.builder: TapeBuilder = stretch.builder
        self.keys = stretch.keys
        self.carries = carries
        self.parts = LoopComponents(stretch, carries, length, levels)
        self.homes: dict[int, Home] = {}
        self.last: dict[int, int] = {}

    @cached_property
    def _together(self) -> tuple[type[UnrolledSteps | RepeatedSteps], int]:
        """How several steps of what stays in the loop are written as one, and how many of them.

        Where the length is that of an argument, this does not depend on the present one: a series of two
        entries may be the first that a function gets, and one trace serves all of them.
        """
        count = self.steps_of_numbers()
        if count > 1:
            return UnrolledSteps, count
        return RepeatedSteps, self._fitting(array_steps_together(self.stretch, self.parts.core_rows))

    def steps_of_numbers(self) -> int:
        """Return how many steps become one that is written as instructions on numbers."""
        parts = self.parts
        return self._fitting(steps_together(self.stretch, parts.core_rows, parts.core_carries))

    def _fitting(self, count: int) -> int:
        """Return a number of steps that become one; 1 where there are too few steps for that."""
        sizes = self.builder.sizes
        settled = sizes.is_number(sizes.settled(self.length))
        return count if not settled or count * LEAST_GROUPS <= sizes.value(self.length) else 1

    @property
    def pays(self) -> bool:
        """Whether the split loop is faster."""
        return self.parts.fits and (self.parts.moves or self._together[1] > 1)

    def several_steps(self, core: Core, past: Sequence[int]) -> tuple[Stretch, int]:
        """Return a body that makes several steps of what stays in the loop, and how many.

        Parameters
        ----------
        past
            Numbers of the core's carries that are also stacked as they are before each step, behind the
            other outputs.
        """
        form, count = self._together
        if count > 1:
            try:
                return form(core.stretch, len(core.carries), past, count).stretch, count
            except UnknownCells:
                pass  # a cell is read that this step has not written, and only whole arrays can be handed on
        return core.stretch, 1

    # ---- what stays in the loop

    def core(self) -> Core:
        """Return what stays in the loop, when what is before it has been emitted."""
        stretch, keys = self.stretch, self.keys
        carries = self.parts.core_carries
        rows = self.parts.core_rows
        made = {keys[x] for row in rows for x in row.results}
        ends = [stretch.outputs[k] for k in carries]
        read = dict.fromkeys(keys[x] for x in (*(x for row in rows for x in row.operands), *ends))
        slices = [key for key in read if key in self.homes]
        later = [x for part in self.parts.behind for row in part.rows for x in row.operands]
        later += [x for k, x in enumerate(stretch.outputs) if k not in carries]
        wanted = dict.fromkeys(keys[x] for x in later)
        stacks = [key for key in wanted if key in made]
        own = {keys[stretch.inputs[k]]: k for k in carries}
        past = [(key, own[key]) for key in wanted if key in own]
        part = stretch.part(
            rows,
            [*(stretch.inputs[k] for k in carries), *map(self._whole, slices)],
            [*ends, *map(self._whole, stacks)],
        )
        return Core(part, carries, list(map(self._rows, slices)), stacks, past)

    def place(self, key: int, stack: int) -> None:
        """Note what has a key's cells in all steps, one step after the other."""
        storage, offset, _ = self.builder.values[stack]
        self.homes[key] = Home(storage, offset, self.parts.cells(key))

    def _whole(self, key: int) -> int:
        """Return all cells that a key names as a value of the body."""
        storage, offset = address_of(key)
        return self.builder.view(storage, offset, (self.parts.cells(key),), (1,))

    def _rows(self, key: int) -> int:
        """Return all cells that a key names in all steps: a matrix with a row for each step."""
        home = self.homes[key]
        dims = self.length, self.parts.cells(key)
        return self.builder.view(home.storage, home.offset, dims, (home.stride, 1))

    # ---- vectors

    def take(self, k: int, number: int) -> None:
        """Note what fills input ``k``, a slice: a value whose first axis numbers the steps."""
        tape = self.builder
        if len(tape.layout_of(number).dims) > 1:
            number = self._dense(number)
        storage, offset, _ = tape.values[number]
        stride = tape.layout_of(number).strides[0]
        self.homes[self.keys[self.stretch.inputs[k]]] = Home(storage, offset, stride)

    def _dense(self, number: int) -> int:
        """Return a value in row-major cells, copied if they are not."""
        tape = self.builder
        if addresses.is_dense(tape, number):
            return number
        return instructions.elementwise(tape, op_row("copy"), F64, [number], self.line)

    def emit(self, parts: Sequence[Component], first: Sequence[int]) -> None:
        """Append what components compute; ``first`` are the carries before the first step."""
        for part in parts:
            if part.what == VECTOR:
                for row in part.rows:
                    self._append(row)
            elif part.what == SHIFTED:
                self._shift(part.carries[0], first[part.carries[0]])
            else:
                self._recur(part, first[part.carries[0]])

    def lanes(self, value: int, padding: int = 0) -> int:
        """Return a value of the body in all steps; one that is the same in all of them is returned as it is.

        ``padding`` says how many axes are missing behind that of the steps.
        """
        tape = self.builder
        home = self.homes.get(self.keys[value])
        if home is None:
            return value
        _, offset, layout = tape.values[value]
        dims, strides = tape.layouts[layout].dims, tape.layouts[layout].strides
        offset = home.offset if self.keys[value] < 0 else tape.sizes.add(home.offset, offset)
        wide = (self.length, *[1] * padding, *dims), (home.stride, *[0] * padding, *strides)
        return tape.view(home.storage, offset, *wide)

    def in_all_steps(self, value: int) -> int:
        """Return a value of the body with an axis of steps, even if it is the same in all of them."""
        number = self.lanes(value)
        dims = self.builder.layout_of(value).dims
        return number if number != value else addresses.broadcast(self.builder, value, (self.length, *dims))

    def behind_last(self, k: int) -> int:
        """Return carry ``k`` behind the last step."""
        if k not in self.last:
            value = self.stretch.outputs[k]
            self.last[k] = self._step(self.in_all_steps(value), self.builder.sizes.sub(self.length, 1))
        return self.last[k]

    def _step(self, number: int, step: int) -> int:
        """Return what a value with an axis of steps is in one of them."""
        tape, layout = self.builder, self.builder.layout_of(number)
        offset = tape.sizes.add(tape.offset_of(number), tape.sizes.mul(step, layout.strides[0]))
        return addresses.view(tape, number, layout.dims[1:], layout.strides[1:], offset)

    def _append(self, row: Instruction) -> None:
        """Append an instruction for all steps."""
        tape, key = self.builder, self.keys[row.out]
        if key not in self.homes:
            # Several instructions may fill an array. What they read has been computed.
            level = max(self._level(self.parts.rows[k]) for k in self.parts.writers[key])
            tape.storages.append((tape.sizes.mul(self.length, self.parts.cells(key)), F64, level))
            self.homes[key] = Home(len(tape.storages) - 1, 0, self.parts.cells(key))
        side = self.parts.side_of_steps(row)
        active = self._active(row)
        if self.parts.takes_one(row):
            out, operands = self._vectors(row.out, 0), [row.a, self._vectors(row.b, 0)]
        elif side is None:
            out, operands = self.lanes(row.out), self._operands(row)
        else:
            out, operands = self._vectors(row.out, side), self._factors(row, side)
        if side == 1:  # `_factors` puts the vectors first
            active = swapped(active)
        unused = instructions.UNUSED[4 - len(operands)]
        stage = MAIN if tape.level_of(out) else PROLOGUE
        tape.code.recent += (row.op, active, stage, out, *operands, *unused, row.line)

    def _factors(self, row: Instruction, side: int) -> list[int]:
        """Return the operands of a product for all steps.

        One is the vectors of the steps, which are operand ``side``, as rows of a matrix. The other is the
        other operand, transposed if the vectors are columns.
        """
        if side == 0:
            return [self._vectors(row.a, 0), row.b]
        return [self._vectors(row.b, 1), addresses.transposed(self.builder, row.a, (1, 0))]

    def _vectors(self, value: int, axis: int) -> int:
        """Return a vector of the body in all steps as rows of a matrix; it has an axis of size 1."""
        return addresses.dropped(self.builder, self.lanes(value), (1 + axis,))

    def _operands(self, row: Instruction) -> list[int]:
        rank = self._rank(row.out)
        return [self.lanes(x, rank - self._rank(x)) for x in row.operands]

    def _level(self, row: Instruction) -> int:
        """Return the level of an instruction's result in all steps."""
        if self._active(row):
            return ACTIVE
        levels = (self.builder.storages[self._storage(x)][2] for x in row.operands)
        return VARYING if any(levels) else CONSTANT

    def _active(self, row: Instruction) -> int:
        """Return which operands take an adjoint, as bits."""
        levels = [self.builder.storages[self._storage(x)][2] for x in row.operands]
        return sum(1 << k for k, level in enumerate(levels) if row.takes(k) and level == ACTIVE)

    def _storage(self, value: int) -> int:
        """Return the storage of a value of the body, or of what it is in all steps."""
        home = self.homes.get(self.keys[value])
        return self.builder.storage_of(value) if home is None else home.storage

    def _rank(self, value: int) -> int:
        return len(self.builder.layout_of(value).dims)

    def _shift(self, k: int, first: int) -> None:
        """Compute a carry whose next value does not depend on it."""
        tape, key = self.builder, self.keys[self.stretch.inputs[k]]
        output = self.stretch.outputs[k]
        if self.parts.stays(k):
            storage, offset, _ = tape.values[self._dense(first)]
            self.homes[key] = Home(storage, offset, 0)
            self.last[k] = first
            return
        if not self.parts.read(key, set()):
            return
        rows, line = self.lanes(output), self.line
        level = max(VARYING, tape.level_of(first), tape.level_of(rows))
        dims = tape.layout_of(first).dims
        inner, size = tape.contiguous_strides(dims)
        cells = tape.sizes.mul(tape.sizes.add(self.length, 1), size)
        tape.storages.append((cells, F64, level))
        storage = len(tape.storages) - 1
        instructions.copied_into(tape, tape.view(storage, 0, dims, inner), first, line)
        behind = tape.view(storage, size, (self.length, *dims), (size, *inner))
        instructions.copied_into(tape, behind, rows, line)
        self.homes[key] = Home(storage, 0, size)
        self.last[k] = self._step(behind, tape.sizes.sub(self.length, 1))

    def _recur(self, part: Component, first: int) -> None:
        """Compute a carry that each step multiplies and adds to."""
        (k,) = part.carries
        tape, keys, circle = self.builder, self.keys, self.parts.circle(part.rows, k)
        start, end = keys[self.stretch.inputs[k]], keys[self.stretch.outputs[k]]
        made = {keys[row.out] for row in part.rows}
        read = {key for key in (start, *made) if self.parts.read(key, made)}
        read |= made & {keys[x] for j, x in enumerate(self.stretch.outputs[: self.carries]) if j != k}
        if not read and circle.is_sum:
            self.last[k] = circle.total(self.lanes, self.length, first)
            return
        states = circle.states(self.lanes, self.length, first)
        storage, offset, _ = tape.values[states]
        self.homes[start] = Home(storage, offset, 1)
        self.homes[end] = Home(storage, tape.sizes.add(offset, 1), 1)
        self.last[k] = tape.view(storage, tape.sizes.add(offset, self.length), (), ())
        needed = []
        for row in reversed(part.rows):
            if keys[row.out] in read - {end}:
                needed.append(row)
                read.update(made & {keys[x] for x in row.operands})
        for row in reversed(needed):
            self._append(row)
