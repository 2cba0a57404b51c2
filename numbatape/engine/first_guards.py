"""The guards that come first on a tape, with the arithmetic on numbers that they hang on."""

from __future__ import annotations

from ..ops import ROWS
from ..tape.instruction import GUARD, NONE
from .plan import Plan

# So many instructions may be run once more in order to know the path, and one for so many others or cells.
FEW, SHARE, MOST = 8, 16, 64


def leading_end(plan: Plan) -> int:
    """Return the number of the instruction behind the guards that come first, 0 if there are none.

    They are run by themselves before a call, and again in its sweep. So there are few instructions.
    """
    tape = plan.tape
    code, first, end = tape.code, tape.prologue, 0
    if not tape.guards:
        return 0
    most = min(MOST, FEW + (len(code) + sum(plan.cells)) // SHARE)
    numbers = ROWS.is_any(ROWS.with_trait("elementwise"), code["op"]) & (code["aux"] == NONE)
    numbers &= ~ROWS.is_any(ROWS.fallible, code["op"])
    for k in range(first, min(first + most, len(code))):
        if code["op"][k] == GUARD:
            end = k + 1
        elif not numbers[k] or tape.layout_of(code["out"][k]).dims:
            break
    return end
