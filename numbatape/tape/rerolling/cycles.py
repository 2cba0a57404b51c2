"""Linear recurrences: cycles of slots that multiply and add to the number of the turn before.

If the slots of a cycle only add, subtract, negate, and multiply or divide by what is computed outside of the
cycle, a turn makes ``a*z + b`` of ``z``. The coefficients ``a`` and the addends ``b`` of all turns are
vectors, and one instruction (`numbatape.ops.recurrences`) goes through the turns. Tangents and cotangents of
a recurrence are linear recurrences, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..families import ACTIVE, CONSTANT, VARYING
from ..instruction import MAIN, PROLOGUE, Instruction, opcode
from ..rows import Rows
from .turns import SAME, TURN, Turns

if TYPE_CHECKING:
    from .rolling import Rolling

# What a slot does with the number of the cycle, if that is linear. WEIGH is the product of a cotangent and a
# partial, in which a cotangent of zero stays zero.
NOT_LINEAR, ADD, SUBTRACT, MULTIPLY, DIVIDE, NEGATE, WEIGH = range(7)
PRODUCTS = {MULTIPLY: "mul", DIVIDE: "div", WEIGH: "weigh"}


@cache
def forms_of(ops: Rows) -> np.ndarray:
    """Return what each op does in a linear recurrence; the last entry is that of a guard."""
    found = np.full(len(ops) + 1, NOT_LINEAR, np.int8)
    for form, rows in (
        (ADD, ops.with_signs((1, 1))),
        (SUBTRACT, ops.with_signs((1, -1))),
        (NEGATE, ops.with_signs((-1,))),
        (DIVIDE, ops.with_trait("quotient")),
        (MULTIPLY, {row for row in ops.with_trait("factors") if ops[row].factors == "xy"}),
        (WEIGH, {row for row in ops.with_trait("zero_wins") if ops[row].zero_wins == "x"}),
    ):
        found[[row for row in rows if ops[row].arity == 2 or form == NEGATE]] = form
    return found


class Step(NamedTuple):
    """A slot of a cycle.

    Attributes
    ----------
    slot
        Its number.
    carried
        Which operand comes from the cycle; the other one, if there is one, comes from elsewhere.
    form
        What it does, one of the forms above.
    """

    slot: int
    carried: int
    form: int


def steps_of(turns: Turns, slots: Sequence[int], forms: np.ndarray) -> list[Step] | None:
    """Return the slots of a cycle in the order of a turn, None where they are no linear recurrence.

    The first one reads what the last one has computed in the turn before.
    """
    inside, follows = set(slots), {}
    first = None
    for slot in slots:
        form = int(forms[slot])
        carried = [
            k for k, column in enumerate(turns.columns[slot]) if column.kind == TURN and column.slot in inside
        ]
        if len(carried) != 1 or form == NOT_LINEAR or (form in (DIVIDE, WEIGH) and carried != [0]):
            return None
        step, column = Step(slot, carried[0], form), turns.columns[slot][carried[0]]
        if column.lag == 0:
            follows[column.slot] = step
        elif column.lag > 1 or first is not None:
            return None
        else:
            first = step
    if first is None:
        return None
    found = [first]
    while found[-1].slot in follows:
        found.append(follows[found[-1].slot])
    mixed = len({step.form == WEIGH for step in found if step.form in PRODUCTS}) > 1
    return found if len(found) == len(slots) and not mixed else None


class Term(NamedTuple):
    """What turns multiply by, or add: a value, whether it takes an adjoint, whether it is a vector."""

    value: int
    active: int
    vector: bool


class RecurrenceRows:
    """Emits the instructions of one recurrence.

    Parameters
    ----------
    rolling
        To which they are added.
    steps
        The slots, see `steps_of`.
    """

    def __init__(self, rolling: Rolling, steps: list[Step]):
        self.rolling, self.steps = rolling, steps
        self.draft, self.turns = rolling.draft, rolling.turns
        self.last = rolling.first_row(steps[-1].slot)
        self.kind = self.draft.kind_of(self.last.out)

    def emit(self) -> int:
        """Emit the instructions; return the states as a vector, the one before the first turn first."""
        head = self.steps[0]
        row = self.rolling.first_row(head.slot)
        start = Term((row.a, row.b)[head.carried], row.active >> head.carried & 1, False)
        a, b = self._coefficients()
        states = self.draft.array((self.turns.count + 1,), *self.kind)
        active = a.active | b.active << 1 | start.active << 2
        operands = self._spread(a), self._spread(b), start.value
        weighed = any(step.form == WEIGH for step in self.steps)
        name = "weighed_recurrence" if weighed else "recurrence"
        self._append(name, active, self.last.stage, states, *operands)
        return states

    def _spread(self, term: Term) -> int:
        """Return a coefficient or an addend as a vector: a scalar is viewed as one in all turns."""
        if term.vector:
            return term.value
        offset = self.draft.address(term.value)[1]
        return self.draft.view(term.value, offset, (self.turns.count,), (0,))

    def _coefficients(self) -> tuple[Term, Term]:
        """Return what a turn multiplies the state by, and what it adds to the product."""
        a: Term | None = None  # None stands for the factor one
        b: Term | None = None  # None stands for the addend zero
        negative = False
        for slot, carried, form in self.steps:
            other = None if form == NEGATE else self._operand(slot, 1 - carried)
            if form == ADD:
                b = other if b is None else self._combined("add", b, other)
            elif form == SUBTRACT and carried == 0:
                b = self._combined("neg", other) if b is None else self._combined("sub", b, other)
            elif form == SUBTRACT:
                b = other if b is None else self._combined("sub", other, b)
                negative = not negative
            elif form == NEGATE:
                b = b and self._combined("neg", b)
                negative = not negative
            else:
                if a is None and form == DIVIDE:
                    a = self._number(1.0)
                a = other if a is None else self._combined(PRODUCTS[form], a, other)
                b = b and self._combined(PRODUCTS[form], b, other)
        if negative:
            a = self._number(-1.0) if a is None else self._combined("neg", a)
        # x + -0.0 is x for all numbers, also for -0.0.
        return a or self._number(1.0), b or self._number(-0.0)

    def _operand(self, slot: int, k: int) -> Term:
        """Return an operand of a slot in all turns, a vector of one dimension or a scalar."""
        column, count = self.turns.columns[slot][k], self.turns.count
        active = self.rolling.first_row(slot).active >> k & 1
        value = self.rolling.operand(slot, k, column.inner)
        if column.kind == SAME or self.rolling.is_once(column):
            return Term(value, active, False)
        if column.inner:
            family, level = self.draft.kind_of(value)
            flat = self.draft.array((count,), family, level)
            dims = count // column.inner, column.inner
            self._copy(Term(value, active, True), self.draft.view(flat, 0, dims, (column.inner, 1)))
            value = flat
        return Term(value, active, True)

    def _number(self, number: float) -> Term:
        return Term(self.draft.literal(np.array(number)), 0, False)

    def _combined(self, name: str, *terms: Term | None) -> Term:
        """Return the result of an op for all turns."""
        known = [term for term in terms if term is not None]
        vector = any(term.vector for term in known)
        active = sum(term.active << k for k, term in enumerate(known))
        level = max(self.draft.kind_of(term.value)[1] for term in known)
        level = ACTIVE if active else min(level, VARYING)
        out = self.draft.array((self.turns.count,) if vector else (), self.kind[0], level)
        stage = PROLOGUE if level == CONSTANT else MAIN
        self._append(name, active, stage, out, *(term.value for term in known))
        return Term(out, int(active > 0), vector)

    def _copy(self, term: Term, target: int) -> None:
        constant = self.draft.kind_of(term.value)[1] == CONSTANT
        self._append("copy", term.active, PROLOGUE if constant else MAIN, target, term.value)

    def _append(self, name: str, active: int, stage: int, out: int, *operands: int) -> None:
        op = opcode(self.draft.ops.number[name], self.kind[0])
        self.rolling.append(Instruction(op, active, stage, out, *operands, line=self.last.line))
