"""Patterns of a stretch of a tape that is still being recorded: of a function that a trace differentiates.

The stretch becomes a tape of its own, whose inputs are the marks that it starts from. It is never run: the
only values that patterns need, those of constant index arrays, are known to the trace.
"""

from __future__ import annotations

import copy

import numpy as np

from ..engine.placement import place_storages
from ..engine.plan import Plan
from ..engine.plan_tables import CODE_WORDS
from ..nested.transforms import Linearised
from ..ops import OPS, ArrayOp
from ..tape.code import Code
from ..tape.tape import ACTIVE, CONSTANT, POOLS, VARYING, InputSlot
from ..trace.trace import Trace
from .pattern import Pattern, hessian_pattern, jacobian_pattern, literal_cells
from .walk import Cells, view_in


def pattern_of(run: Linearised, outputs, order: int) -> Pattern:
    """Return the pattern of the Jacobian (order 1) or the Hessian (order 2) of a run's outputs.

    The trace holds for the present sizes then, and notes whether it relies on the contents of constants.

    Parameters
    ----------
    outputs
        Value numbers; of one scalar for order 2.
    """
    plan = _plan(run, tuple(outputs))
    cells, from_inputs = _cells(run, plan)
    pattern = (jacobian_pattern if order == 1 else hessian_pattern)(plan, cells)
    if pattern.positions and from_inputs:
        run.trace.pin_constants()
    return pattern


def _plan(run: Linearised, outputs: tuple[int, ...]) -> Plan:
    """Return where the cells of a stretch would be; there is nothing to run."""
    builder = copy.copy(run.trace.tape)
    dimensions = tuple(builder.sizes.pin(dim) for slot in builder.inputs for dim in slot.dims)
    builder.code = Code(builder.columns()[slice(*run.rows)])
    marks = [
        InputSlot(number, builder.layout_of(number).dims, ACTIVE, builder.family_of(number))
        for number in run.inputs
    ]
    builder.inputs = [*(slot._replace(level=VARYING) for slot in builder.inputs), *marks]
    tape = builder.freeze(outputs)
    found = np.array(tape.sizes.evaluate(dimensions), np.int64)
    bases, cells, active = place_storages(tape, found)
    nothing = np.zeros(0, np.int32)
    return Plan(tape, dimensions, nothing.reshape(0, CODE_WORDS), nothing, bases, cells, active, found, ())


def _cells(run: Linearised, plan: Plan) -> tuple[Cells, bool]:
    """Return value cells with the constant index arrays, and whether one is no literal."""
    trace, tape = run.trace, plan.tape
    cells, from_inputs = literal_cells(plan), False
    literals = {item.storage for item in tape.literals}
    for number, value in _index_arrays(trace, run.rows).items():
        storage = number[0]
        if storage in literals or tape.storages["level"][storage] != CONSTANT:
            continue
        from_inputs = True
        for k in np.flatnonzero(tape.values == np.array(number, tape.values.dtype))[:1].tolist():
            view_in(cells, *plan.cell(k), plan.shape(k), plan.strides(k))[...] = value
    return cells, from_inputs


def _index_arrays(trace: Trace, rows: tuple[int, int]) -> dict[tuple, np.ndarray]:
    """Return the values of index operands that have a storage of their own, by address."""
    found = {}
    for row in trace.tape.instructions(*rows):
        rule = None if row.is_guard else OPS[row.row]
        if isinstance(rule, ArrayOp) and rule.index:
            number = row.operands["abc".index(rule.index)]
            address = trace.tape.values[number]
            if address[0] >= len(POOLS) and trace.tape.level_of(number) == CONSTANT:
                found[address] = np.asarray(trace.evaluation.value(number))
    return found
