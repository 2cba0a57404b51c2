"""Derivatives that are not known, where a reverse sweep over a finished tape would need them."""

from __future__ import annotations

from ..ops import OPS, UNKNOWN_PARTIALS, Elementwise
from ..tape.tape import ACTIVE, POOLS, Tape
from .partials import unknown_derivative


def refuse_unknown(tape: Tape, rows: list[int]) -> None:
    """Raise if a reverse sweep over some instructions of a tape would need a derivative that is not known."""
    values = tape.values

    def cell(value: int) -> tuple[int, int]:
        storage = int(values["storage"][value])
        return storage, int(values["offset"][value]) if storage < len(POOLS) else 0

    # That an operand is active does not mean that it depends on an input: a derivative may have been taken
    # for it inside of the function.
    depends = {cell(slot.value) for slot in tape.inputs if slot.level == ACTIVE}
    code = tape.instructions()
    for k in rows:
        row = code[k]
        reached = sum(
            1 << j for j, value in enumerate(row.operands) if row.takes(j) and cell(value) in depends
        )
        its = OPS[row.row]
        if reached & UNKNOWN_PARTIALS[row.row]:
            assert isinstance(its, Elementwise)
            raise unknown_derivative(its, tape.line_of(k))
        if reached:
            depends.add(cell(row.out))
