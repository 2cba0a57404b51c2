"""``Config(debug_mode=True)``: every instruction checked, in Python, with its source line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..engine.checked import CheckedWorkspace
from ..engine.failures import failure
from ..engine.reference import Reference
from ..errors import DebugError
from ..ops import status
from ..tape.instruction import GUARD
from ..tape.tape import ACTIVE, F32, POOLS

if TYPE_CHECKING:
    from .variant import VariantWorkspace

# How far kernels may be from NumPy, relative to the largest entry.
TOLERANCE = {"float64": 1e-9, "float32": 1e-4}


def checked_forward(space: VariantWorkspace) -> CheckedWorkspace:
    """Repeat a workspace's forward sweep with checks; return the cells that it leaves.

    Raises
    ------
    DebugError
        At the first instruction whose result is NaN without a NaN operand, or differs from NumPy's; names
        the instruction and the source line.
    """
    plan, tape = space.plan, space.plan.tape
    inputs = [cells.copy() for cells in space.all_inputs]
    checked = CheckedWorkspace(plan)
    for slot, data in zip(tape.inputs, inputs, strict=True):
        checked.set(slot.value, data)

    single, code = _single_precision(tape), tape.instructions()

    def check(k, expected):
        was_nan = any(np.isnan(checked.view(value)).any() for value in code[k].operands)
        outcome = checked.step(k)
        if outcome != status.DONE:
            raise failure(space, outcome)
        _compare(checked, k, expected, TOLERANCE["float32" if single[k] else "float64"], was_nan)

    Reference(tape, plan.dimensions).run(inputs, check)
    space.checked = checked
    return checked


def checked_reverse(space: VariantWorkspace) -> None:
    """Run a workspace's reverse sweep with checks, over what its last `checked_forward` left.

    Raises
    ------
    DebugError
        At the first instruction whose adjoint is NaN.
    """
    checked, tape = space.checked or checked_forward(space), space.plan.tape
    _reverse(checked, space.seed)
    for slot, view in zip(tape.inputs, space.gradients, strict=False):
        if view is not None:
            view[...] = checked.view(slot.value, adjoint=True)


def _single_precision(tape) -> list[bool]:
    """Return, for each instruction, whether its result is float32, or computed from float32.

    There the kernels and NumPy round differently, and a cast to float64 does not undo it.
    """
    single: set[tuple[int, int]] = set()

    def key(value: int) -> tuple[int, int]:
        storage, offset, _ = tape.values[value].item()
        return storage, offset if storage < len(POOLS) else 0  # the cells of an array are treated as one

    found = []
    for row in tape.instructions():
        if row.is_guard:
            found.append(False)
            continue
        out, operands = key(row.out), list(map(key, row.operands))
        narrow = any(tape.storages["family"][storage] == F32 for storage, _ in (out, *operands))
        if narrow or not single.isdisjoint(operands):
            single.add(out)
        found.append(out in single)
    return found


def _compare(checked: CheckedWorkspace, k: int, expected, tolerance: float, was_nan: bool) -> None:
    """Raise if an instruction made a NaN (from operands without one), or another result than NumPy's."""
    code = checked.plan.tape.code
    got = checked.view(int(code["out"][k]))
    if np.isnan(got).any() and not was_nan:
        raise DebugError(f"{_where(checked, k)}: the first NaN appears here")
    finite = np.isfinite(expected) & np.isfinite(got)
    got, expected = got[finite], np.asarray(expected)[finite]
    scale = max(1.0, float(np.abs(expected).max(initial=0.0)))
    if (np.abs(got - expected) > tolerance * scale).any():
        raise DebugError(f"{_where(checked, k)}: the kernel's result differs from NumPy's")


def _reverse(checked: CheckedWorkspace, seed: np.ndarray) -> None:
    plan, tape = checked.plan, checked.plan.tape
    for g in checked.g:
        g[...] = 0.0
    first = 0
    for value in tape.outputs:
        if tape.storages["level"][tape.values["storage"][value]] == ACTIVE:
            family, cell = plan.cell(value)
            cell -= plan.active[family][0]
            count = int(np.prod(plan.shape(value)))
            checked.g[family][cell : cell + count] += seed[first : first + count]
            first += count
    for k in range(len(tape) - 1, plan.prologue - 1, -1):
        if tape.code["op"][k] == GUARD or not tape.code["active"][k]:
            continue
        before = any(np.isnan(g).any() for g in checked.g)
        checked.step_back(k)
        if not before and any(np.isnan(g).any() for g in checked.g):
            raise DebugError(f"{_where(checked, k)}: the first NaN of an adjoint appears here")


def _where(checked: CheckedWorkspace, k: int) -> str:
    tape = checked.plan.tape
    line = tape.line_of(k)
    return f"instruction {k}, {tape.name_of(k)}" + (f", at {line}" if line else "")
