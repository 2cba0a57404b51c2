"""Loops in lanes: which inputs of a body differ from lane to lane, and the body with lanes.

All lanes of an instruction go through a loop together: its body gets lanes where its inputs have them, and
what is the same in all lanes is computed once.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..derive.lanes import Lanes, lanes
from ..ops import ROWS
from ..tape import Tape
from ..tape.families import F64
from ..tape.loop import Loop
from ..tape.uses import dependents, keys_of
from .plan import Plan

COPIES = ROWS.with_signs((1,))


@dataclass(frozen=True)
class LoopLanes:
    """The lanes of a loop's instruction.

    Attributes
    ----------
    count
        How many there are.
    first
        The first cell of the result.
    steps
        Cells from lane to lane: of both operands and of the result.
    ports
        The inputs of the body that differ from lane to lane.
    """

    count: int
    first: int
    steps: tuple[int, int, int]
    ports: frozenset[int]


def lanes_of(loop: Loop, plan: Plan, row) -> LoopLanes | None:
    """Return the lanes of an instruction whose lanes the body can compute at once; None for other ones.

    Lanes may take different numbers of steps, where these are data that differ between lanes. And the kernel
    knows the first lane by its cells of the result, which a loop that computes nothing but what may fail does
    not have.
    """
    out, *operands = (int(row[name]) for name in ("out", "a", "b"))
    *batch, _ = plan.shape(out)
    if len(batch) != 1 or batch[0] < 2 or loop.test is not None:
        return None
    if not plan.size(loop.extents[0]):
        return None
    laned: set[int] = set()
    steps = []
    for number, operand in enumerate(operands):
        strides = plan.strides(operand)
        steps.append(strides[0] if len(strides) == 2 else 0)
        if len(strides) == 2:
            same = _shared(plan, operand)
            if number == 1 and loop.steps is not None and plan.size(loop.steps) not in same:
                return None
            starts = {k: plan.size(port.start) for k, port in enumerate(loop.ports) if port.operand == number}
            laned |= {k for k, start in starts.items() if start not in same}
    keys = keys_of(loop.body.values)
    before = -1
    while before != len(laned):  # a carry has lanes if its next value has
        before = len(laned)
        found = dependents(loop.body.code, keys, {keys[loop.body.inputs[k].value] for k in laned})
        ends = zip(loop.outs, loop.body.outputs, strict=True)
        laned |= {its.port for its, value in ends if its.port >= 0 and keys[value] in found}
    strides = plan.strides(out)
    return LoopLanes(batch[0], plan.cell(out)[1], (*steps, strides[0]), frozenset(laned))


def _shared(plan: Plan, operand: int) -> set[int]:
    """Return where the parts of an operand begin that are copies of values without lanes.

    Parts without cells, the rows of a loop without steps, begin where the next part does.
    """
    tape = plan.tape
    rows = tape.code[ROWS.is_any(COPIES, tape.code["op"]) & (tape.code["op"] & 1 == F64)]
    storage = tape.values["storage"]
    rows = rows[storage[rows["out"]] == storage[operand]]
    base, step = plan.cell(operand)[1], plan.strides(operand)[-1] or 1
    return {
        (plan.cell(out)[1] - base) // step
        for out, source in zip(rows["out"].tolist(), rows["a"].tolist(), strict=True)
        if len(plan.shape(source)) < len(plan.shape(out)) and 0 not in plan.shape(out)
    }


def laned_body(loop: Loop, ports: frozenset[int], dimensions: tuple[int, ...]) -> Tape:
    """Return the body of a loop with lanes; their number is one more input dimension."""
    return lanes(loop.body, Lanes(ports, behind=True), dimensions)
