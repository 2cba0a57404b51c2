"""Carries that each step of a loop multiplies and adds to: linear recurrences, and sums.

A step makes ``a*z + b`` of the carry ``z``. The coefficients ``a`` and the addends ``b`` of all steps are
vectors, and one instruction goes through the steps (`numbatape.ops.recurrences`). Where ``a`` is one and
nobody reads the carry between two steps, the addends are summed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..tape import TapeBuilder
from ..tape.instruction import Instruction
from ..tape.rerolling.cycles import ADD, DIVIDE, MULTIPLY, NEGATE, SUBTRACT, forms_of
from ..tape.tape import F64
from . import addresses, instructions
from .instructions import row as op_row

# A value of a step as a linear function of the carry: its coefficient (None is one), and addends with signs.
Linear = tuple[int | None, tuple[tuple[int, int], ...]]


class LinearCarry:
    """The instructions of a step that depend on a carry and on which its next value depends.

    Parameters
    ----------
    builder
        The tape that they were recorded on.
    keys
        `numbatape.tape.uses.keys_of` its values.
    rows
        The instructions, in order.
    start, end
        The keys of the carry and of its next value.

    Attributes
    ----------
    is_linear
        Whether the next value is linear in the carry.
    is_sum
        Whether steps only add to the carry.
    """

    def __init__(
        self, builder: TapeBuilder, keys: Sequence[int], rows: Sequence[Instruction], start: int, end: int
    ):
        self.builder, self.keys, self.rows = builder, keys, rows
        self.start, self.end = start, end
        self.is_linear, self.is_sum = self._looked()

    def _looked(self) -> tuple[bool, bool]:
        """Return whether the next carry is linear in the carry, and whether it is the carry plus a term."""
        keys, is_sum = self.keys, True
        linear, written = {self.start}, [self.keys[row.out] for row in self.rows]
        for row in self.rows:
            inside = [keys[x] in linear for x in row.operands]
            form = self._form(row)
            if form in (ADD, SUBTRACT):
                good = True
                is_sum &= inside == [True, False] or (form == ADD and inside == [False, True])
            elif form == MULTIPLY:
                good, is_sum = sum(inside) == 1, False
            elif form == DIVIDE:
                good, is_sum = inside == [True, False], False
            else:
                good = form == NEGATE or self._copies(row)
                is_sum &= form != NEGATE
            alone = written.count(keys[row.out]) == 1 and self._is_number(row.out)
            if not good or not alone:
                return False, False
            linear.add(keys[row.out])
        return self.end in linear, is_sum

    def _form(self, row: Instruction) -> int:
        return int(forms_of(self.builder.ops)[row.row])

    def _copies(self, row: Instruction) -> bool:
        op = self.builder.ops[row.row]
        return op.elementwise and op.moves and len(row.operands) == 1

    def _is_number(self, value: int) -> bool:
        """Whether a value has one cell, which is all that its key names."""
        storage, _, layout = self.builder.values[value]
        return not self.builder.layouts[layout].dims and (
            self.keys[value] < 0 or self.builder.storages[storage][0] == 1
        )

    # ---- in all steps

    def states(self, lanes: Callable[[int], int], length: int, first: int) -> int:
        """Return the carry before each step and behind the last one, as one vector.

        Parameters
        ----------
        lanes
            Returns a value of a step in all steps.
        length
            How many steps there are, a size code.
        first
            The carry before the first step.
        """
        tape, line = self.builder, self.rows[-1].line
        a, addends = self._linear(lanes)
        # The negative zero is added because x + -0.0 is x for all numbers, also for -0.0.
        b = self._folded(addends, line) if addends else tape.literal(-0.0, F64)
        operands = [self._spread(x, length) for x in (self._coefficient(a), b)]
        extent = {"m": tape.sizes.add(length, 1)}
        return instructions.array_op(tape, op_row("recurrence"), F64, [*operands, first], line, extent)

    def total(self, lanes: Callable[[int], int], length: int, first: int) -> int:
        """Return the carry behind the last step, where steps only add to it."""
        tape, line, total = self.builder, self.rows[-1].line, first
        for sign, x in self._linear(lanes)[1]:
            whole = self._spread(x, length)
            part = instructions.array_op(tape, op_row("sum"), F64, [whole], line, {})
            total = self._computed("add" if sign > 0 else "sub", line, total, part)
        return total

    def _spread(self, number: int, length: int) -> int:
        """Return a value in all steps, with an axis for these even if it is the same in all of them."""
        if self.builder.layout_of(number).dims:
            return number
        return addresses.broadcast(self.builder, number, (length,))

    def _linear(self, lanes: Callable[[int], int]) -> Linear:
        """Return the carry's next value as a linear function of it."""
        found: dict[int, Linear] = {self.start: (None, ())}
        for row in self.rows:
            form, line = self._form(row), row.line
            parts = [found.get(self.keys[x]) for x in row.operands]
            if form in (ADD, SUBTRACT):
                left, right = (
                    (None, ((1, lanes(x)),)) if part is None else part
                    for x, part in zip(row.operands, parts, strict=True)
                )
                addends = (*left[1], *(right[1] if form == ADD else _negated(right[1])))
                if parts[1] is None:
                    a = left[0]
                elif parts[0] is None:
                    a = right[0] if form == ADD else self._negative(right[0], line)
                else:
                    both = self._coefficient(left[0]), self._coefficient(right[0])
                    a = self._computed("add" if form == ADD else "sub", line, *both)
                its = a, addends
            elif form in (MULTIPLY, DIVIDE):
                k = 0 if parts[1] is None else 1
                (a, addends), other = parts[k], lanes(row.operands[1 - k])
                name = "mul" if form == MULTIPLY else "div"
                if a is None and form == MULTIPLY:
                    a = other
                else:
                    a = self._computed(name, line, self._coefficient(a), other)
                if addends:
                    addends = ((1, self._computed(name, line, self._folded(addends, line), other)),)
                its = a, addends
            elif form == NEGATE:
                its = self._negative(parts[0][0], line), _negated(parts[0][1])
            else:
                its = parts[0]
            found[self.keys[row.out]] = its
        return found[self.end]

    def _coefficient(self, a: int | None) -> int:
        return self.builder.literal(1.0, F64) if a is None else a

    def _negative(self, a: int | None, line: int) -> int:
        return self.builder.literal(-1.0, F64) if a is None else self._computed("neg", line, a)

    def _folded(self, addends: Sequence[tuple[int, int]], line: int) -> int:
        """Return the sum of addends."""
        (sign, total), *others = addends
        if sign < 0:
            total = self._computed("neg", line, total)
        for sign, x in others:
            total = self._computed("add" if sign > 0 else "sub", line, total, x)
        return total

    def _computed(self, name: str, line: int, *operands: int) -> int:
        return instructions.elementwise(self.builder, op_row(name), F64, operands, line)


def _negated(addends: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    return tuple((-sign, x) for sign, x in addends)
