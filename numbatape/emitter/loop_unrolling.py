"""Several steps of a loop as one: a body of a few numbers is repeated, entry by entry.

The kernels of a loop take some 70 ns for each step besides its instructions, and a small product of matrices
takes 40, which is as long as a dozen instructions on single numbers take. So the body of a loop over numbers,
and over arrays of two or three entries, is written as instructions on numbers, for many steps one after the
other. What a step hands to the next one stays where it is, and nothing is copied between the two.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from itertools import product
from math import prod

from ..ops import OPCODE, OPS
from ..tape import TapeBuilder
from ..tape.bodies import Stretch
from ..tape.instruction import MAIN, NONE, Instruction, opcode, swapped
from ..tape.tape import ACTIVE, F64, VARYING
from ..tape.uses import key_of

MOST_NUMBERS = 64  # instructions of a step: with more of them, what is saved is less than a tenth
MOST_IN_BODY = 256  # instructions of all steps together, which bounds what it takes to trace and to derive
MOST_STEPS = 20
WORTH_AN_ARRAY = 7  # how many instructions on numbers take as long as one on an array

ADD, MULTIPLY, COPY = (opcode(OPCODE[name], F64) for name in ("add", "mul", "copy"))
BOTH = 0b11  # operands a and b take adjoints
SUMS_OF_PRODUCTS = frozenset(OPCODE[op.summed] for op in OPS if op.summed)

Place = tuple[int, int]  # a cell: its storage and its offset there


class UnknownCells(Exception):
    """An instruction cannot be written entry by entry.

    A size differs between calls, there are many entries, or the instruction is of another kind.
    """


def steps_together(stretch: Stretch, rows: Sequence[Instruction], carries: Sequence[int]) -> int:
    """Return how many steps of a loop become one; 1 where that does not pay.

    Parameters
    ----------
    stretch
        The body.
    rows, carries
        The instructions, and the numbers of the carries, that stay in the loop.
    """
    ends = [its[k] for its in (stretch.inputs, stretch.outputs) for k in carries]
    try:
        cost = sum(_cost(stretch, row) for row in rows)
        for value in (*ends, *(x for row in rows for x in (row.out, *row.operands))):
            _places(stretch.builder, value)
    except UnknownCells:
        return 1
    if cost > MOST_NUMBERS or cost > WORTH_AN_ARRAY * len(rows):
        return 1
    return min(MOST_STEPS, MOST_IN_BODY // max(cost, 1))


def _cost(stretch: Stretch, row: Instruction) -> int:
    """Return how many instructions on numbers an instruction becomes."""
    op, shapes = stretch.builder.ops[row.row], [_shape(stretch.builder, x) for x in (row.out, *row.operands)]
    size = len(_indices(shapes[0]))
    if row.family == F64 and op.elementwise and not op.casts:
        return 0 if op.moves else size
    known = op.product or op.totals or row.row in SUMS_OF_PRODUCTS
    if row.family != F64 or not known or len(shapes[1]) != 1 + op.product:
        raise UnknownCells
    return ((1 if op.totals else 2) * shapes[1][-1] - 1) * size


def _number(tape: TapeBuilder, code: int) -> int:
    """Return the number that a size code always stands for."""
    found = tape.sizes.settled(code)
    if not tape.sizes.is_number(found):
        raise UnknownCells
    return tape.sizes.value(found)


def _shape(tape: TapeBuilder, value: int) -> tuple[int, ...]:
    """Return the dimensions of a value of a few entries as numbers."""
    shape = tuple(_number(tape, dim) for dim in tape.layout_of(value).dims)
    if not 1 <= prod(shape) <= MOST_NUMBERS:
        raise UnknownCells
    return shape


def _indices(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return the indices of all entries, in row-major order."""
    return list(product(*map(range, shape)))


def _places(tape: TapeBuilder, value: int) -> list[Place]:
    """Return where the entries of a value are, in row-major order."""
    storage, offset, _ = tape.values[value]
    strides = [_number(tape, stride) for stride in tape.layout_of(value).strides]
    first = _number(tape, offset)
    return [
        (storage, first + sum(k * stride for k, stride in zip(index, strides, strict=True)))
        for index in _indices(_shape(tape, value))
    ]


def _grouped(rows: Sequence[Instruction], tape: TapeBuilder) -> list[Instruction]:
    """Return instructions on numbers in another order: those of one op come together where they can.

    A sweep goes on within the code of an op as long as its instructions are alike, which takes less time than
    to look the next op up. Each value is written once, so no order is wrong that has operands first.
    """
    writers = {row.out: k for k, row in enumerate(rows)}
    readers: list[list[int]] = [[] for _ in rows]
    waits = [0] * len(rows)
    for k, row in enumerate(rows):
        for writer in {writers[x] for x in row.operands if x in writers}:
            readers[writer].append(k)
            waits[k] += 1
    ready = [k for k, count in enumerate(waits) if not count]
    found: list[Instruction] = []
    while ready:
        k = next((k for k in ready if found and rows[k].op == found[-1].op), ready[0])
        ready.remove(k)
        found.append(_after(found, rows[k], tape))
        for reader in readers[k]:
            waits[reader] -= 1
            if not waits[reader]:
                insort(ready, reader)
    return found


def _after(rows: Sequence[Instruction], row: Instruction, tape: TapeBuilder) -> Instruction:
    """Return the instruction that follows others, with the last result as operand a, if the op commutes.

    A sweep may have that in a register.
    """
    if rows and row.b == rows[-1].out and row.c == NONE and tape.ops[row.row].commutes:
        return row.replace(a=row.b, b=row.a, active=swapped(row.active))
    return row


class UnrolledSteps:
    """A body that makes several steps.

    Parameters
    ----------
    stretch
        The body of one step. Its first inputs and outputs are carries; the other inputs are slices, and the
        other outputs are stacked.
    carries
        How many carries there are.
    past
        Numbers of the carries that are also stacked as they are before each step, behind the other outputs.
    count
        How many steps are made.

    Attributes
    ----------
    stretch
        The body. Its slices, and its stacked outputs, have the rows of all its steps.

    Raises
    ------
    UnknownCells
        If a step reads a cell that nothing has written in it.
    """

    def __init__(self, stretch: Stretch, carries: int, past: Sequence[int], count: int):
        self.one, self.builder, self._count = stretch, stretch.builder, count
        self._inside = stretch.made | {stretch.keys[value] for value in stretch.inputs}
        self._rows: list[Instruction] = []
        # For each cell, the number that stands there in the present step.
        self._numbers: dict[Place, int] = {}
        self._known: dict[int, list[Place]] = {}
        self._homes: dict[int, int] = {}  # for each number, the cell of an output that it is computed in
        self._made: set[int] = set()
        starts = stretch.inputs[:carries]
        slices, rows = stretch.inputs[carries:], [*stretch.outputs[carries:], *(starts[k] for k in past)]
        wide, stacks = [self._wide(value) for value in slices], [self._wide(value) for value in rows]
        given, taken = ([self._rows_of(whole) for whole in wholes] for wholes in (wide, stacks))
        before = [self._cells(value) for value in starts]
        for step in range(count):
            self._numbers = {}
            for value, numbers in zip(starts, before, strict=True):
                self._numbers.update(zip(self._places(value), numbers, strict=True))
            for value, cells in zip(slices, given, strict=True):
                self._numbers.update(zip(self._places(value), cells[step], strict=True))
            earlier = [self._entries(starts[k]) for k in past]
            for row in stretch.body:
                self._repeat(row)
            later = [self._entries(value) for value in stretch.outputs[carries:]]
            for cells, numbers in zip(taken, (*later, *earlier), strict=True):
                self._put(cells[step], numbers)
            before = [self._entries(value) for value in stretch.outputs[:carries]]
        ends = []
        for value, numbers in zip(stretch.outputs[:carries], before, strict=True):
            dims = self.builder.layout_of(value).dims
            ends.append(self.builder.array(dims, F64, self._level(value)))
            self._put(self._cells(ends[-1]), numbers)
        rows = [self._moved(row) for row in _grouped(self._rows, self.builder)]
        self.stretch = stretch.part(rows, [*starts, *wide], [*ends, *stacks])

    # ---- cells

    def _level(self, value: int) -> int:
        return max(VARYING, self.builder.level_of(value))

    def _wide(self, value: int) -> int:
        """Return a new value with rows for all steps, each with the entries of a value."""
        size = len(_indices(_shape(self.builder, value)))
        return self.builder.array((self._count, size), F64, self._level(value))

    def _rows_of(self, whole: int) -> list[list[int]]:
        """Return the entries of each row of a matrix as addresses."""
        cells = self._cells(whole)
        size = len(cells) // self._count
        return [cells[k : k + size] for k in range(0, len(cells), size)]

    def _places(self, value: int) -> list[Place]:
        """Return where the entries of a value are, in row-major order."""
        found = self._known.get(value)
        if found is None:
            found = self._known[value] = _places(self.builder, value)
        return found

    def _cells(self, value: int) -> list[int]:
        """Return the entries of a value as addresses."""
        return [self.builder.view(*place, (), ()) for place in self._places(value)]

    def _entries(self, value: int) -> list[int]:
        """Return the entries of a value, as numbers of the present step."""
        return [self._number(place) for place in self._places(value)]

    def _number(self, place: Place) -> int:
        found = self._numbers.get(place)
        if found is None:  # the number is a literal, or comes from outside of the loop
            if key_of(*place) in self._inside:
                raise UnknownCells
            found = self._numbers[place] = self.builder.view(*place, (), ())
        return found

    # ---- instructions

    def _repeat(self, row: Instruction) -> None:
        """Do what an instruction does, entry by entry."""
        shape, places = _shape(self.builder, row.out), self._places(row.out)
        op = self.builder.ops[row.row]
        if op.product:
            a, b = map(self._entries, row.operands)
            (m, k), n = _shape(self.builder, row.a), shape[1]
            found = [
                self._dot(row, a[i * k : (i + 1) * k], b[j::n], row.active)
                for i in range(m)
                for j in range(n)
            ]
        elif row.row in SUMS_OF_PRODUCTS:
            found = [self._dot(row, *map(self._entries, row.operands), row.active)]
        elif op.totals:
            found = [self._total(row, self._entries(row.a))]
        else:
            operands = [self._spread(x, shape) for x in row.operands]
            found = [self._elementwise(row, numbers) for numbers in zip(*operands, strict=True)]
        self._numbers.update(zip(places, found, strict=True))

    def _spread(self, value: int, shape: tuple[int, ...]) -> list[int]:
        """Return the entries of a value that is broadcast to a shape."""
        own = _shape(self.builder, value)
        if own == shape:
            return self._entries(value)
        entries = dict(zip(_indices(own), self._entries(value), strict=True))
        behind = len(shape) - len(own)
        return [
            entries[tuple(0 if dim == 1 else k for k, dim in zip(index[behind:], own, strict=True))]
            for index in _indices(shape)
        ]

    def _elementwise(self, row: Instruction, numbers: Sequence[int]) -> int:
        # A copy that cuts a derivative off must stay: its operand takes adjoints, but none from here.
        if self.builder.ops[row.row].moves and len(numbers) == 1 and (row.active or not self._takes(row)):
            return numbers[0]
        return self._computed(row, row.op, row.active, *numbers)

    def _takes(self, row: Instruction) -> bool:
        return self.builder.level_of(row.a) == ACTIVE

    def _dot(self, row: Instruction, xs: Sequence[int], ys: Sequence[int], active: int) -> int:
        return self._total(
            row, [self._computed(row, MULTIPLY, active, x, y) for x, y in zip(xs, ys, strict=True)]
        )

    def _total(self, row: Instruction, terms: Sequence[int]) -> int:
        total = terms[0]
        for term in terms[1:]:
            total = self._computed(row, ADD, BOTH if row.active else 0, total, term)
        return total

    def _computed(self, row: Instruction, op: int, active: int, *numbers: int) -> int:
        out = self.builder.scalar(F64, self._level(row.out))
        self._made.add(out)
        operands = (*numbers, NONE, NONE)[:3]
        self._rows.append(Instruction(op, active, MAIN, out, *operands, NONE, row.line))
        return out

    def _put(self, cells: Sequence[int], numbers: Sequence[int]) -> None:
        """Let numbers stand in cells of an output: they are computed there, or copied."""
        for cell, number in zip(cells, numbers, strict=True):
            if number in self._made and number not in self._homes:
                self._homes[number] = cell
            else:
                self._rows.append(Instruction(COPY, 1, MAIN, cell, number))

    def _moved(self, row: Instruction) -> Instruction:
        out, a, b, c = (self._homes.get(x, x) for x in (row.out, row.a, row.b, row.c))
        return row.replace(out=out, a=a, b=b, c=c)
