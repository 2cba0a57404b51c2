"""Derivatives that are not known: needed while tracing, or by a reverse sweep over a finished tape."""

from __future__ import annotations

import numpy as np

from ..late import imported
from ..ops import OPS, Elementwise
from ..ops.table import UNKNOWN
from ..tape.combinations import flatnonzero
from ..tape.instruction import GUARD
from ..tape.tape import ACTIVE, POOLS, Tape

# By row, the operands whose partial is not known: bits, as in an instruction's "active".
_UNKNOWN = np.array(
    [
        sum(1 << k for k, partial in enumerate(op.partials) if partial == UNKNOWN)
        if isinstance(op, Elementwise)
        else 0
        for op in OPS
    ]
)


def refuse_unknown(tape: Tape) -> None:
    """Raise if a reverse sweep over a tape would need a derivative that is not known."""
    rows = flatnonzero(tape.code["op"] != GUARD)
    op = tape.code["op"][rows] >> 1
    if not np.any(tape.code["active"][rows] & _UNKNOWN[op]):
        return
    values = tape.values

    def cell(value: int) -> tuple[int, int]:
        storage = int(values["storage"][value])
        return storage, int(values["offset"][value]) if storage < len(POOLS) else 0

    # An active operand may depend on no input: it may be differentiated inside of the function.
    depends = {cell(slot.value) for slot in tape.inputs if slot.level == ACTIVE}
    code = tape.instructions()
    for k in rows.tolist():
        row = code[k]
        reached = sum(
            1 << j for j, value in enumerate(row.operands) if row.takes(j) and cell(value) in depends
        )
        its = OPS[row.row]
        if reached & _UNKNOWN[row.row]:
            assert isinstance(its, Elementwise)
            raise imported("..derive.partials", __package__).unknown_derivative(its, tape.line_of(k))
        if reached:
            depends.add(cell(row.out))
