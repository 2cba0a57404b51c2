"""``Config(debug_mode=True)``: every instruction checked, in Python, with its source line."""

from __future__ import annotations

import numpy as np

from ..engine.checked import CheckedWorkspace
from ..engine.reference import Reference
from ..errors import DebugError
from ..ops import status
from ..tape.tape import ACTIVE, GUARD
from .program import failure

TOLERANCE = 1e-9  # kernels against NumPy, relative to the largest entry; float32: 1e-4


def run_debug(cache, flat):
    """Return ``(value, gradients)`` by the checked interpreter.

    Raises
    ------
    DebugError
        At the first instruction whose result is NaN without a NaN operand, differs from NumPy's,
        or whose adjoint is NaN; names the instruction and the source line.
    """
    space = cache._evaluator.forward(flat)
    plan = space.plan
    tape = plan.tape
    inputs = [cells.copy() for cells in space.inputs]
    checked = CheckedWorkspace(plan)
    for slot, data in zip(tape.inputs, inputs, strict=True):
        checked.set(slot.value, data)

    def compare(k, expected):
        outcome = checked.step(k)
        if outcome != status.DONE:
            raise failure(space, outcome)
        got = checked.view(int(tape.code["out"][k]))
        _check(tape, k, got, expected, checked)

    reference = Reference(tape, plan.dimensions)
    reference.run(inputs, compare)
    cotangents = [np.ones(plan.shape(value)) for value in tape.outputs]
    _reverse(checked, cotangents)
    for (slot, view) in zip(tape.inputs, space.gradients, strict=True):
        if slot.level == ACTIVE:
            view[...] = checked.view(slot.value, adjoint=True)
    return cache._value(space), cache._gradients(flat, space)


def _where(tape, k) -> str:
    line = tape.line_of(k)
    return f"instruction {k}, {tape.name_of(k)}" + (f", at {line}" if line else "")


def _check(tape, k, got, expected, checked) -> None:
    operands = [int(tape.code[name][k]) for name in "abc" if tape.code[name][k] >= 0]
    if np.isnan(got).any() and not any(np.isnan(checked.view(v)).any() for v in operands):
        raise DebugError(f"{_where(tape, k)}: the first NaN appears here")
    tolerance = TOLERANCE if got.dtype == np.float64 else 1e-4
    finite = np.isfinite(expected) & np.isfinite(got)
    scale = max(1.0, float(np.abs(expected[finite]).max(initial=0.0)))
    if (np.abs(got - expected)[finite] > tolerance * scale).any():
        raise DebugError(f"{_where(tape, k)}: the kernel's result differs from NumPy's")


def _reverse(checked, cotangents) -> None:
    tape = checked.plan.tape
    for g in checked.g:
        g[...] = 0.0
    for value, cotangent in zip(tape.outputs, cotangents, strict=True):
        family, first = checked.plan.cell(value)
        first -= checked.plan.active[family][0]
        if first >= 0:
            checked.g[family][first : first + cotangent.size] += cotangent.reshape(-1)
    for k in range(len(tape) - 1, checked.plan.prologue - 1, -1):
        if tape.code["op"][k] == GUARD or not tape.code["active"][k]:
            continue
        before = any(np.isnan(g).any() for g in checked.g)
        checked.step_back(k)
        if not before and any(np.isnan(g).any() for g in checked.g):
            raise DebugError(f"{_where(tape, k)}: the first NaN of an adjoint appears here")
