"""Linear recurrences: cycles of slots that multiply and add to the number of the turn before.

If the slots of a cycle only add, subtract, negate, and multiply or divide by what is computed outside of the
cycle, a turn makes ``a*z + b`` of ``z``, in however many places it reads ``z``. The coefficients ``a`` and
the addends ``b`` of all turns are vectors, and one instruction (`numbatape.ops.recurrences`) goes through the
turns. Tangents and cotangents of any recurrence of one number are linear recurrences.
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
        Which operands come from the cycle, as bits; the other one, if there is one, comes from elsewhere.
    form
        What it does, one of the forms above.
    """

    slot: int
    carried: int
    form: int


def steps_of(turns: Turns, slots: Sequence[int], forms: np.ndarray) -> list[Step] | None:
    """Return the slots of a cycle in the order of a turn, None where they are no linear recurrence.

    The last one computes the state, which is all that the next turn reads of them.
    """
    inside, tail, starts = set(slots), max(slots), set()
    found = []
    for slot in sorted(slots):  # the operands of an instruction are computed before it
        form, carried = int(forms[slot]), 0
        for k, column in enumerate(turns.columns[slot]):
            if column.kind != TURN or column.slot not in inside:
                continue
            carried |= 1 << k
            if column.lag:
                if column.lag > 1 or column.slot != tail:
                    return None
                starts.add(turns.first_cell(slot, k))
        if form == NOT_LINEAR or (form == MULTIPLY and carried == 3):
            return None
        if form in (DIVIDE, WEIGH) and carried != 1:
            return None
        found.append(Step(slot, carried, form))
    products = [step for step in found if step.form in PRODUCTS]
    if any(step.form == WEIGH for step in products):
        # A state of zero stays zero in a product with a finite number, too, but not in any other one.
        for slot, carried, form in products:
            if form == DIVIDE or (form == MULTIPLY and not turns.is_finite(slot, 2 - carried)):
                return None
    if len(starts) > 1:  # the first turn reads several cells where all others read the state
        turns.deepest = max(turns.deepest, 1)
    return found if len(starts) == 1 else None


class Term(NamedTuple):
    """What turns multiply by, or add: a value, whether it takes an adjoint, whether it is a vector."""

    value: int
    active: int
    vector: bool


class Linear(NamedTuple):
    """What a slot of a cycle makes of the state ``z`` before the turn: ``a*z + b``, or ``b - a*z``.

    Attributes
    ----------
    a, b
        None stands for the factor one, and for the addend zero.
    negative
        Whether ``a*z`` is subtracted.
    """

    a: Term | None
    b: Term | None
    negative: bool


STATE = Linear(None, None, False)


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
        # All operands of the first slot that are carried are the state.
        k = next(k for k in range(2) if head.carried >> k & 1)
        start = Term((row.a, row.b)[k], row.active >> k & 1, False)
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
        before: dict[int, Linear] = {}
        for step in self.steps:
            columns = self.turns.columns[step.slot][:2]
            # The state itself, or what another slot of this turn makes of it.
            read = [STATE if column.lag else before.get(column.slot, STATE) for column in columns]
            before[step.slot] = self._step(step, read)
        a, b, negative = before[self.steps[-1].slot]
        if negative:
            a = self._number(-1.0) if a is None else self._combined("neg", a)
        # The negative zero is added because x + -0.0 is x for all numbers, also for -0.0.
        return a or self._number(1.0), b or self._number(-0.0)

    def _step(self, step: Step, read: list[Linear]) -> Linear:
        """Return what a slot makes of the state, given what its carried operands are of it."""
        slot, carried, form = step
        if carried == 3:
            return self._joined(*read, form)
        k = carried >> 1
        a, b, negative = read[k]
        if form == NEGATE:
            return Linear(a, b and self._combined("neg", b), not negative)
        other = self._operand(slot, 1 - k)
        if form == ADD:
            return Linear(a, other if b is None else self._combined("add", b, other), negative)
        if form == SUBTRACT and k == 0:
            b = self._combined("neg", other) if b is None else self._combined("sub", b, other)
            return Linear(a, b, negative)
        if form == SUBTRACT:
            return Linear(a, other if b is None else self._combined("sub", other, b), not negative)
        if a is None and form == DIVIDE:
            a = self._number(1.0)
        a = other if a is None else self._combined(PRODUCTS[form], a, other)
        return Linear(a, b and self._combined(PRODUCTS[form], b, other), negative)

    def _joined(self, one: Linear, other: Linear, form: int) -> Linear:
        """Return the sum, or the difference, of what two slots make of the state."""
        minus = form == SUBTRACT
        name = "sub" if (one.negative ^ other.negative) != minus else "add"
        a = self._combined(name, one.a or self._number(1.0), other.a or self._number(1.0))
        if other.b is None:
            b = one.b
        elif one.b is None:
            b = self._combined("neg", other.b) if minus else other.b
        else:
            b = self._combined("sub" if minus else "add", one.b, other.b)
        return Linear(a, b, one.negative)

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
