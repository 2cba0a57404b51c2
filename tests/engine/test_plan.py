"""Plans: verified whatever happens to a tape or a plan, the same at other sizes, and small."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import numbatape as nt
from numbatape.engine import Workspace, frame, make_plan, plan_tables, verify
from numbatape.engine.checked import Cells, CheckedWorkspace
from numbatape.errors import VerificationError
from numbatape.ops.fft import padded_plan
from numbatape.ops.status import DONE
from numbatape.ops.text import version_of
from numbatape.tape.instruction import GUARD, INSTRUCTION
from numbatape.tape.rows import Rows
from numbatape.tape.tape import F32, POOLS, VALUE
from numbatape.trace.primitives import array_instruction
from tests.engine.mutations import PROGRAMS, OutOfSteps, dimensions, other_number, traced


@pytest.fixture(scope="module", params=PROGRAMS)
def program(request):
    function, arrays, levels = PROGRAMS[request.param]
    return traced(function, *arrays, levels=levels), arrays


@pytest.fixture
def limited(monkeypatch):
    """Let interpreted kernels stop after some thousand accesses."""
    place, left = Cells._place, [0]

    def counted(self, index):
        left[0] -= 1
        if left[0] < 0:
            raise OutOfSteps
        return place(self, index)

    monkeypatch.setattr(Cells, "_place", counted)

    def start(steps):
        left[0] = steps

    return start


def run_checked(plan, arrays, limited):
    """Run both sweeps, every access checked; True if they came to their end."""
    if max(plan.cells) > 10**6:
        return False
    space = CheckedWorkspace(plan)
    try:
        for slot, array in zip(plan.tape.inputs, arrays, strict=True):
            space.set(slot.value, array)
    except ValueError:  # the mutated input has another shape, which NumPy says
        return False
    limited(4000)
    try:
        if space.forward() != DONE:
            return False
        space.reverse()
    except OutOfSteps:
        return False
    return True


def run_compiled(plan, arrays):
    space = Workspace(plan)
    for cells, array in zip(space.inputs, arrays, strict=True):
        cells[...] = array
    if space.forward() == DONE:
        space.reverse()


def test_programs_pass(program, limited):
    tape, arrays = program
    plan = make_plan(tape, dimensions(*arrays))
    assert run_checked(plan, arrays, lambda steps: limited(10**6))


# ---- mutations


def mutate_words(rng, array, count):
    copy = array.copy()
    flat = copy.reshape(-1)
    for _ in range(count):
        k = int(rng.integers(flat.size))
        new = other_number(rng, int(flat[k]))
        if rng.random() < 0.4:
            new = int(flat[int(rng.integers(flat.size))])
        flat[k] = np.clip(new, -(2**31), 2**31 - 1)
    return copy


@pytest.mark.parametrize("seed", range(3))
def test_mutated_plans(program, seed, limited):
    tape, arrays = program
    plan = make_plan(tape, dimensions(*arrays))
    rng = np.random.default_rng(seed)
    reasons = []
    for _ in range(250):
        field = "code" if rng.random() < 0.5 else "aux"
        words = mutate_words(rng, getattr(plan, field), int(rng.integers(1, 4)))
        mutated = dataclasses.replace(plan, **{field: words})
        try:
            verify(mutated)
        except VerificationError as error:
            reasons.append(str(error))
            continue
        if run_checked(mutated, arrays, limited):
            run_compiled(mutated, arrays)
    assert len(reasons) > 100
    assert all(reason.startswith("instruction ") for reason in reasons)


# ---- each rule by name


def broken(tape, field, k, number):
    code = tape.code.copy()
    code[field][k] = number
    return dataclasses.replace(tape, code=code)


def instruction(tape, name):
    return next(k for k in range(len(tape)) if tape.name_of(k) == name)


@pytest.mark.parametrize(
    "field, number, reason",
    [
        ("op", 5000, "instruction 0: unknown op"),
        ("out", 10_000, "instruction 0: out is no value"),
        ("a", -1, "instruction 0: a is missing"),
        ("c", 0, "instruction 0: c is one too many"),
        ("active", 4, "instruction 0.*an adjoint where there is none"),
    ],
)
def test_reasons(field, number, reason):
    x = np.ones(3)
    tape = traced(lambda x: np.sum(x * x), x)
    with pytest.raises(VerificationError, match=reason):
        make_plan(broken(tape, field, 0, number), (3,))


def test_reason_names_op_and_line():
    tape = traced(lambda x: np.sum(np.sin(x)), np.ones(3))
    values = tape.values.copy()
    values["offset"][tape.code["a"][0]] = 7
    with pytest.raises(VerificationError, match=r"sin \(.*test_plan.py:\d+.*\): an operand reaches outside"):
        make_plan(dataclasses.replace(tape, values=values, inputs=()), (3,))


def test_scratch_is_not_shared():
    tape = traced(lambda x: np.sum(np.sort(x)) + np.sum(np.sort(2 * x)), np.ones(3))
    first, second = (k for k in range(len(tape)) if tape.name_of(k) == "sort")
    with pytest.raises(VerificationError, match=f"instruction {first}, sort.*not the instruction's own"):
        make_plan(broken(tape, "aux", second, tape.code["aux"][first]), (3,))


def test_positions_stay_as_checked():
    function, arrays, levels = PROGRAMS["gathers"]
    tape = traced(function, *arrays, levels=levels)
    k = instruction(tape, "take1")
    later = next(j for j in range(k + 1, len(tape)) if tape.code["op"][j] != GUARD)
    with pytest.raises(VerificationError, match=r"positions are overwritten|more dimensions|another dtype"):
        make_plan(broken(tape, "out", later, tape.code["b"][k]), dimensions(*arrays))


def test_wide_ops_are_of_float64():
    x = np.ones(7, np.float32)
    tape = traced(lambda traced: array_instruction("fft_table", (traced,), padded_plan(x)), x)
    k = instruction(tape, "fft_table")
    with pytest.raises(VerificationError, match="no form for float32"):
        make_plan(broken(tape, "op", k, tape.code["op"][k] | F32), (7,))


def test_other_op_table():
    tape = traced(np.sum, np.ones(3))
    with pytest.raises(VerificationError, match="another op table"):
        make_plan(dataclasses.replace(tape, ops=Rows(tape.ops[::-1], version_of)), (3,))


def test_broadcast_of_other_sizes():
    """Size guards keep such dimensions from a plan; the plan refuses them all the same."""
    tape = traced(lambda x, y: np.sum(x * y + x), np.ones(3), np.ones(3))
    with pytest.raises(VerificationError, match=r"mul.*dimensions of the operands differ"):
        make_plan(tape, (3, 2))


def test_too_large():
    tape = traced(lambda x: np.sum(np.exp(np.outer(x, x))), np.ones(3))
    with pytest.raises(VerificationError, match="32-bit"):
        make_plan(tape, (2**17,))


def test_empty_operands_are_not_read():
    """A (0,1) operand broadcast along the inner axis has no cell that a loop could load ahead."""
    x, y = np.zeros((0, 5)), np.zeros((0, 1))
    tape = traced(lambda x, y: np.sum(x * y, axis=0), x, y)
    space = CheckedWorkspace(make_plan(tape, dimensions(x, y)))
    assert space.forward() == DONE
    space.reverse()


# ---- sizes


def polymorphic(x, y):
    z = np.tanh(x) * y[:, None] + np.sum(x)
    return np.sum(z @ z.T) + np.sum(np.concatenate([y, x[0]])) + np.sum(np.cumsum(z, axis=1)[:, ::-1])


@pytest.mark.parametrize("shape", [(2, 3), (5, 4), (7, 30), (40, 2)])
def test_a_plan_at_other_sizes_is_that_of_a_fresh_trace(shape):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(3, 4)), rng.normal(size=3)
    tape = traced(polymorphic, x, y)
    x, y = rng.normal(size=shape), rng.normal(size=shape[0])
    assert tape.sizes.broken_guard(tape.sizes.evaluate(dimensions(x, y))) is None
    other = traced(polymorphic, x, y)
    results = []
    for one in (tape, other):
        plan = make_plan(one, dimensions(x, y))
        space = Workspace(plan)
        space.inputs[0][...], space.inputs[1][...] = x, y
        assert space.forward() == DONE
        space.reverse()
        results.append((plan.code, plan.aux, space.outputs[0].copy(), *(g.copy() for g in space.gradients)))
    for left, right in zip(*results, strict=True):
        np.testing.assert_array_equal(left, right)
    np.testing.assert_allclose(results[0][2], polymorphic(x, y), rtol=1e-12)


# ---- bytes, as docs state them


def test_bytes_per_scalar_instruction():
    assert INSTRUCTION.itemsize == 24
    assert VALUE.itemsize == 12

    def chain(x, n):
        a, b = x[0], x[1]
        total = a
        for _ in range(n):
            total = b - a / total
        return total

    x = np.ones(2)
    plans = [make_plan(traced(lambda x, n=n: chain(x, n), x), (2,)) for n in (100, 600)]
    ops = 2 * (600 - 100)
    spaces = [Workspace(plan) for plan in plans]
    assert len(plans[1].tape) - len(plans[0].tape) == ops
    assert plans[1].tape.nbytes - plans[0].tape.nbytes == (24 + 12) * ops
    assert plans[1].nbytes - plans[0].nbytes == 24 * ops
    assert abs(spaces[1].nbytes - spaces[0].nbytes - 16 * ops) <= 256


def test_bytes_per_vector_instruction():
    x = np.ones(50)

    def chain(x, n):
        for _ in range(n):
            x = np.sin(x) * 2.0
        return np.sum(x)

    plans = [make_plan(traced(lambda x, n=n: chain(x, n), x), (50,)) for n in (10, 20)]
    assert plans[1].nbytes - plans[0].nbytes <= 48 * 20


def test_repr_states_bytes():
    cache = nt.prepare_gradient_cache(lambda x: np.sum(x * x), np.ones(3))
    plan = cache._space.plan
    assert f"plan {plan.nbytes} bytes" in repr(cache)


def test_the_planning_kernels_describe_instructions_and_records_as_all_others_do():
    tape = (plan_tables.TAPE_WORDS, plan_tables.VALUE_WORDS)
    assert tape == (INSTRUCTION.itemsize // 4, VALUE.itemsize // 4)
    plan = (plan_tables.CODE_WORDS, plan_tables.RECORD, plan_tables.LEVEL_STRIDES)
    assert plan == (frame.STRIDE, frame.RECORD_WORD, frame.LEVEL_O)
    assert len(POOLS) == plan_tables.POOLS
