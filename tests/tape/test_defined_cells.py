"""No instruction reads a cell that nothing has written before it.

The verifier proves that operands stay within their storages, not that these hold what was meant: a pass that
puts a reader in front of its writer, or drops the writer, gives wrong numbers without an error.
"""

from dataclasses import replace

import numpy as np
import pytest

import numbatape as nt
from numbatape.engine import plan as plans
from numbatape.programs import variant
from numbatape.tape.instruction import GUARD
from tests.loop_programs import LoopProgram
from tests.whole_program_checks import Check


def cells_of(plan, value):
    """Return the family and the cells of a value."""
    family, first = plan.cell(value)
    cells = np.array([first])
    for n, stride in zip(plan.shape(value), plan.strides(value), strict=True):
        cells = (cells[:, None] + stride * np.arange(n)).ravel()
    return family, cells


def check_defined(plan):
    """Raise if an operand or an output has cells that no input, literal or instruction has written."""
    tape = plan.tape
    written = [np.zeros(count + 1, bool) for count in plan.cells]

    def write(value):
        family, cells = cells_of(plan, value)
        written[family][cells] = True

    def is_written(value):
        family, cells = cells_of(plan, value)
        return written[family][cells].all()

    for slot in tape.inputs:
        write(slot.value)
    for item in tape.literals:
        first = int(plan.bases[item.storage]) + item.offset
        written[int(tape.storages["family"][item.storage])][first : first + item.data.size] = True
    for k, row in enumerate(tape.code):
        for name in "ab" if row["op"] == GUARD else "abc":
            assert row[name] < 0 or is_written(row[name]), f"instruction {k}, {tape.name_of(k)}: {name}"
        if row["op"] != GUARD:
            write(row["out"])
    for value in tape.outputs:
        assert is_written(value), f"output {value}"


@pytest.fixture
def seen(monkeypatch):
    """Check each plan that is made; the list has their numbers of instructions."""
    found = []

    def make_plan(*args, **kwargs):
        plan = plans.make_plan(*args, **kwargs)
        check_defined(plan)
        found.append(len(plan.tape))
        return plan

    monkeypatch.setattr(variant, "make_plan", make_plan)
    return found


@pytest.mark.parametrize("seed", range(200, 208))
def test_loops_over_numbers(seed, seen):
    program = LoopProgram(seed)
    f, (x, y, index) = program.function(), program.arguments()
    nt.value_and_grad(lambda x: f(x, y, index))(x)
    nt.jvp(lambda x: f(x, y, index), (x,), (np.cos(x),))
    nt.hvp(lambda x: f(x, y, index))(x, np.sin(x))
    assert len(seen) >= 3


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("first", range(20_000, 20_040, 20))
def test_whole_programs(first, seen):
    for seed in range(first, first + 20):
        Check(seed, length=3).run()
    assert len(seen) > 20


def test_a_missing_writer_is_noticed():
    tape = nt.prepare_gradient_cache(lambda x: np.sum(np.sin(x) * x), np.ones(3)).tape
    plan = plans.make_plan(tape, (3,))
    check_defined(plan)
    others = np.array([not tape.name_of(k).startswith("sin") for k in range(len(tape))])
    assert np.count_nonzero(~others) == 1
    with pytest.raises(AssertionError, match="instruction"):
        check_defined(replace(plan, tape=replace(tape, code=tape.code[others])))
