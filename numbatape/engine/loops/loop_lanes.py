"""Loops in lanes: which inputs of a body differ from lane to lane, and the body with lanes.

All lanes of an instruction go through a loop together: its body gets lanes where its inputs have them, and
what is the same in all lanes is computed once.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...derive.lanes import Lanes, lanes
from ...ops import ROWS
from ...tape import Tape
from ...tape.families import F64
from ...tape.instruction import GUARD
from ...tape.loop import CAPTURE, CARRY, SUM, Loop, Port
from ...tape.uses import dependents, keys_of
from ..plan import Plan

COPIES = ROWS.with_signs((1,))
CALLS = ROWS.with_trait("calls")


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
    tested
        The inputs of the test that do.
    apart
        Whether lanes may take different numbers of steps.
    """

    count: int
    first: int
    steps: tuple[int, int, int]
    ports: frozenset[int]
    tested: frozenset[int] = frozenset()
    apart: bool = False


def lanes_of(loop: Loop, plan: Plan, row) -> LoopLanes | None:
    """Return the lanes of an instruction whose lanes the body can compute at once; None for other ones.

    The kernel knows the first lane by its cells of the result, which a loop that computes nothing but what
    may fail does not have.
    """
    out, *operands = (int(row[name]) for name in ("out", "a", "b"))
    *batch, _ = plan.shape(out)
    if len(batch) != 1 or batch[0] < 2 or not plan.size(loop.extents[0]):
        return None
    laned: set[int] = set()
    tested: set[int] = set()
    steps, apart = [], False
    captured = {k: port for k, port in enumerate(loop.test_ports) if port.role == CAPTURE}
    for number, operand in enumerate(operands):
        strides = plan.strides(operand)
        steps.append(strides[0] if len(strides) == 2 else 0)
        if len(strides) == 2:
            same = _shared(plan, operand)
            apart = apart or (number == 1 and loop.steps is not None and plan.size(loop.steps) not in same)
            laned |= _differing(dict(enumerate(loop.ports)), number, plan, same)
            tested |= _differing(captured, number, plan, same)
    if apart and loop.reverse:  # lanes enter at different steps
        laned |= {k for k, port in enumerate(loop.ports) if port.role in (CARRY, SUM)}
    laned = _with_lanes(loop, laned)
    tested |= {k for k, port in enumerate(loop.test_ports) if port.role == CARRY and port.start in laned}
    if tested:
        tested &= _read_by_test(loop)
    apart = apart or bool(tested)
    if apart and not _runs_on(loop):
        return None
    strides = plan.strides(out)
    return LoopLanes(
        batch[0],
        plan.cell(out)[1],
        (*steps, strides[0]),
        frozenset(laned),
        frozenset(tested),
        apart,
    )


def _differing(ports: dict[int, Port], operand: int, plan: Plan, same: set[int]) -> set[int]:
    """Return the inputs that are parts of an operand, but not copies of values without lanes."""
    its = ((k, plan.size(port.start)) for k, port in ports.items() if port.operand == operand)
    return {k for k, start in its if start not in same}


def _with_lanes(loop: Loop, laned: set[int]) -> set[int]:
    """Return some inputs of a body and the carries that differ from lane to lane with them."""
    keys = keys_of(loop.body.values)
    before = -1
    while before != len(laned):  # a carry has lanes if its next value has
        before = len(laned)
        found = dependents(loop.body.code, keys, {keys[loop.body.inputs[k].value] for k in laned})
        ends = zip(loop.outs, loop.body.outputs, strict=True)
        laned = laned | {its.port for its, value in ends if its.port >= 0 and keys[value] in found}
    return laned


def _read_by_test(loop: Loop) -> set[int]:
    """Return the inputs that decide whether there is a further step."""
    test = loop.test
    assert test is not None
    keys = keys_of(test.values)
    (end,) = (keys[value] for value in test.outputs)
    return {k for k, its in enumerate(test.inputs) if end in dependents(test.code, keys, {keys[its.value]})}


def _runs_on(loop: Loop) -> bool:
    """Whether a lane may go on after its last step, with whatever numbers: nothing fails or is called.

    The bodies of loops that always take the same number of steps may be called.
    """
    for body in loop.bodies:
        code = body.code
        if (code["op"] == GUARD).any() or body.ops.is_any(body.ops.fallible - CALLS, code["op"]).any():
            return False
        for its in body.calls:
            if not isinstance(its, Loop) or its.test is not None or its.steps is not None:
                return False
            if not _runs_on(its):
                return False
    return True


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


def laned_body(body: Tape, inputs: frozenset[int], dimensions: tuple[int, ...]) -> Tape:
    """Return the body or the test of a loop with lanes; their number is one more input dimension."""
    return lanes(body, Lanes(inputs, behind=True), dimensions)
