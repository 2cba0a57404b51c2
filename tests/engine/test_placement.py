"""Cells that serve again on tapes that are swept forward alone."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import numbatape as nt
from numbatape.engine import Workspace, kernels, make_plan
from numbatape.engine.checked import CheckedWorkspace
from numbatape.engine.placement import aligned, placed_at
from numbatape.errors import VerificationError
from numbatape.ops import OPS
from numbatape.ops.status import DONE
from numbatape.tape.instruction import GUARD, NONE
from numbatape.tape.tape import POOLS


def recurrence(x):
    s = x[0]
    for k in range(1, 30):
        s = np.sin(s) * x[k % 5] + s * s
    return s


def layered(x):
    for _ in range(4):
        x = np.tanh(x[:, None] * x + 0.1).sum(axis=1)
    return np.sum(x)


def solved(x):
    a = np.outer(x, x) + 5.0 * np.eye(5)
    return np.sum(np.linalg.solve(a, x) * np.sort(x)) + np.linalg.slogdet(a)[1]


def written(x):
    y = np.zeros(5)
    y[1:] = x[:-1] * x[1:]
    y[np.array([0, 2])] += x[:2] ** 2
    return np.sum(y**3)


def chosen(x):
    return np.max(x) * np.sum(np.where(x > 0.3, x**2, np.exp(x))) if x[0] > 0 else x[1]


def nested(x):
    """Its derivative's tape computes constants in the main part."""
    return np.sum(nt.jacobian(lambda y: y**2)(x) ** 2)


FUNCTIONS = [recurrence, layered, solved, written, chosen, nested]
X = np.array([0.5, 0.2, -0.3, 0.9, 0.4])


def lane_tape(function):
    """Return (tape, dimensions, its workspace) of a Hessian's columns in lanes."""
    cache = nt.prepare_hessian_cache(function, X)
    nt.value_gradient_and_hessian(cache, X)
    (evaluator,) = cache._wide._evaluators.values()
    (space,) = evaluator._workspaces.values()
    return space.plan.tape, space.plan.dimensions, space


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_cell_holds_what_is_read_from_it(function):
    """In a whole sweep, and in a second one through what depends on lanes alone."""
    tape, dimensions, _ = lane_tape(function)
    assert tape.forward
    plan = make_plan(tape, dimensions)
    sizes = [plan.size(int(code)) for code in tape.storages["size"]]
    family, storage = tape.storages["family"], tape.values["storage"]
    owner = [np.full(cells, -1) for cells in plan.cells]

    def cells(number):
        first = int(plan.bases[number])
        return owner[family[number]][first : first + sizes[number]]

    for number in range(len(POOLS)):
        cells(number)[...] = number
    for value in [slot.value for slot in tape.inputs]:
        cells(storage[value])[...] = storage[value]
    for literal in tape.literals:
        cells(literal.storage)[...] = literal.storage
    for start in (0, tape.uniform):
        for row in tape.code[start:]:
            for name in "abc":
                if row[name] != NONE:
                    assert (cells(storage[row[name]]) == storage[row[name]]).all()
            if row["op"] != GUARD:
                cells(storage[row["out"]])[...] = storage[row["out"]]
        for value in tape.outputs:
            assert (cells(storage[value]) == storage[value]).all()


@pytest.mark.parametrize("function", FUNCTIONS)
def test_results_are_those_of_cells_of_their_own(function):
    tape, dimensions, space = lane_tape(function)
    apart = dataclasses.replace(tape, forward=False)
    inputs = [view.copy() for view in space.inputs]
    results = []
    for plan in (make_plan(tape, dimensions), make_plan(apart, dimensions)):
        work = Workspace(plan)
        for view, x in zip(work.inputs, inputs, strict=True):
            view[...] = x
        assert work.forward() == DONE
        results.append([view.copy() for view in work.outputs])
        checked = CheckedWorkspace(plan)  # cells that nothing wrote are NaN there
        for slot, x in zip(tape.inputs, inputs, strict=True):
            checked.set(slot.value, x)
        assert checked.forward() == DONE
        for value, view in zip(tape.outputs, work.outputs, strict=True):
            np.testing.assert_allclose(checked.view(value), view, rtol=1e-12, atol=1e-14)
    for ours, its in zip(*results, strict=True):
        np.testing.assert_array_equal(ours, its)


def test_instructions_that_share_a_call_read_operands_of_their_own():
    """The same call has the same cells for its result, but others for its operand."""
    square = nt.function(lambda x: x * x)

    def total(x):
        y = x
        for _ in range(5):
            y = np.sin(square(x * y) + np.cos(square(y)) * y)
        return np.sum(y)

    tape, dimensions, space = lane_tape(total)
    inputs = [view.copy() for view in space.inputs]
    code, first = tape.code.copy(), {}
    literals = {(item.storage, item.offset): item.data[0] for item in tape.literals}
    for row in code:
        if row["op"] != GUARD and OPS[row["op"] >> 1].calls:
            its = tape.calls[int(literals[tuple(tape.values[row["c"]])[:2]])]
            row["c"] = first.setdefault(its.fingerprint(), row["c"])
    results = []
    for its in (tape, dataclasses.replace(tape, code=code)):
        work = Workspace(make_plan(its, dimensions))
        for view, x in zip(work.inputs, inputs, strict=True):
            view[...] = x
        assert work.forward() == DONE
        results.append([view.copy() for view in work.outputs])
    for ours, its in zip(*results, strict=True):
        np.testing.assert_array_equal(ours, its)


def test_a_long_loop_takes_few_cells():
    tape, dimensions, _ = lane_tape(recurrence)
    apart = sum(placed_at(dataclasses.replace(tape, forward=False), dimensions)[1])
    assert sum(placed_at(tape, dimensions)[1]) < 0.5 * apart


@pytest.mark.parametrize("sweep", ["pullback", "gradient", "bound"])
def test_no_way_back_where_cells_served_again(sweep):
    """Not even for Python without assertions (-O): there need not be reverse kernels to call."""
    tape, dimensions, _ = lane_tape(layered)
    plan = make_plan(tape, dimensions)
    space = Workspace(plan)
    starts = (
        lambda: kernels.call_of(sweep, space, space.outputs[0].reshape(-1), lambda: None, np.zeros(1, int)),
        space.reverse,
        CheckedWorkspace(plan).reverse,
    )
    for start in starts:
        with pytest.raises(VerificationError, match="swept forward alone"):
            start()


def test_more_cells_than_there_is_memory():
    with pytest.raises(MemoryError):
        aligned(1 << 57, np.float64)
