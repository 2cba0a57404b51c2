"""Plans: verified whatever happens to a tape or a plan, the same at other sizes, and small."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import numbatape as nt
from numbatape.engine import Workspace, make_plan, verify
from numbatape.engine.checked import Cells, CheckedWorkspace
from numbatape.errors import VerificationError
from numbatape.ops.status import DONE
from numbatape.tape.tape import ACTIVE, CONSTANT, GUARD, INSTRUCTION, VALUE
from numbatape.trace.record import InputLeaf, record

LEVEL = {"x": ACTIVE, "c": CONSTANT}


def traced(function, *arrays, levels=""):
    """Return the tape of a function; ``levels`` says "x" (active) or "c" (constant) an argument."""
    levels = levels or "x" * len(arrays)
    leaves = [InputLeaf(a, LEVEL[k]) for a, k in zip(arrays, levels, strict=True)]
    return record(function, leaves, lambda args: (tuple(args), {})).tape


def dimensions(*arrays):
    return tuple(n for a in arrays for n in np.shape(a))


# ---- programs whose tapes and plans are mutated


def scalars(x):
    total = 0.0
    for i in range(4):
        total = total + np.sin(x[i]) * x[i + 1] - np.where(x[i] > 0, x[i], 2.0)
    return total if total > -1e9 else -total


def vectors(x, y):
    z = np.exp(-(x**2)) / (1 + y[:, None]) + x.T[::-1, 0]
    return np.sum(np.maximum(z, 0.5)) + np.sum(z[:, 1:-1])


def gathers(x, c):
    chosen = x[(c * 2).astype(int)]
    table = np.stack([x, 2 * x], axis=1)[np.array([2, 0, 0, 1])]
    return np.sum(chosen) + np.sum(table * np.sort(x)[:2]) + np.sum(np.tril(np.outer(x, x)))


def algebra(x, y):
    covariance = x @ x.T + np.eye(3)
    factor = np.linalg.cholesky(covariance)
    solved = np.linalg.solve(covariance, y)
    return np.sum(factor) + np.sum(solved) + np.linalg.det(x) + np.linalg.slogdet(covariance)[1]


def reductions(x):
    return np.sum(np.prod(x, axis=0)) + np.sum(np.cumsum(x, axis=1)) + np.max(x) + np.sum(np.sort(x, axis=0))


def mixed(x, y):
    return np.sum(x * y) + np.sum(np.concatenate([x, np.float32(2) * x]))


RNG = np.random.default_rng(1)
PROGRAMS = {
    "scalars": (scalars, (RNG.normal(size=5),), "x"),
    "vectors": (vectors, (RNG.normal(size=(3, 3)), RNG.uniform(size=3)), "xx"),
    "gathers": (gathers, (RNG.normal(size=3), np.array([1.0, 0.0, 1.0])), "xc"),
    "algebra": (algebra, (RNG.normal(size=(3, 3)), RNG.normal(size=(3, 2))), "xx"),
    "reductions": (reductions, (RNG.normal(size=(2, 3)),), "x"),
    "mixed": (mixed, (RNG.normal(size=3).astype(np.float32), RNG.normal(size=3)), "xx"),
}


@pytest.fixture(scope="module", params=PROGRAMS)
def program(request):
    function, arrays, levels = PROGRAMS[request.param]
    return traced(function, *arrays, levels=levels), arrays


class OutOfSteps(Exception):
    """A mutated size makes a loop long: what it reached so far was in range."""


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


def other_number(rng, number):
    """A number near another one, or one that is often wrong."""
    near = [number + 1, number - 1, number + 8, -number, 2 * number]
    return int(rng.choice([*near, 0, -1, 1, 3, 2**15, 2**31 - 1, -(2**31), int(rng.integers(-9, 40))]))


def mutate_cell(rng, array, fields):
    """Return a copy of a structured array with one number changed."""
    copy = array.copy()
    if not len(copy):
        return copy
    k, field = int(rng.integers(len(copy))), fields[int(rng.integers(len(fields)))]
    new = other_number(rng, int(copy[field][k]))
    if rng.random() < 0.4:
        new = int(copy[field][int(rng.integers(len(copy)))])  # another row's number: plausible
    kind = np.iinfo(copy.dtype[field])
    copy[field][k] = np.clip(new, kind.min, kind.max)
    return copy


def mutate_codes(rng, codes):
    codes = list(codes)
    if codes:
        k = int(rng.integers(len(codes)))
        codes[k] = int(np.clip(other_number(rng, codes[k]), -(2**31), 2**31 - 1))
    return tuple(codes)


def mutate_layout(rng, tape):
    layouts = list(tape.layouts)
    k = int(rng.integers(len(layouts)))
    field = "dims" if rng.random() < 0.5 else "strides"
    layouts[k] = dataclasses.replace(layouts[k], **{field: mutate_codes(rng, getattr(layouts[k], field))})
    return dataclasses.replace(tape, layouts=tuple(layouts))


def mutate_sizes(rng, tape):
    rows = list(tape.sizes.rows)
    if rows:
        k = int(rng.integers(len(rows)))
        rows[k] = mutate_codes(rng, rows[k])
    return dataclasses.replace(tape, sizes=dataclasses.replace(tape.sizes, rows=tuple(rows)))


def mutate_ends(rng, tape):
    which = rng.integers(4)
    number = int(rng.integers(-2, len(tape.values) + 2))
    if which == 0:
        return dataclasses.replace(tape, outputs=(number, *tape.outputs[1:]))
    if which == 1:
        first, *rest = tape.inputs
        return dataclasses.replace(tape, inputs=(dataclasses.replace(first, value=number), *rest))
    if which == 2 and tape.literals:
        first, *rest = tape.literals
        return dataclasses.replace(tape, literals=(dataclasses.replace(first, offset=number), *rest))
    return dataclasses.replace(tape, prologue=number)


def mutate_tape(rng, tape):
    kind = rng.integers(10)
    if kind < 4:
        fields = ("op", "active", "out", "a", "b", "c", "aux")
        return dataclasses.replace(tape, code=mutate_cell(rng, tape.code, fields))
    if kind < 6:
        return dataclasses.replace(tape, values=mutate_cell(rng, tape.values, tape.values.dtype.names))
    if kind == 6:
        return dataclasses.replace(tape, storages=mutate_cell(rng, tape.storages, tape.storages.dtype.names))
    return (mutate_layout, mutate_sizes, mutate_ends)[kind - 7](rng, tape)


@pytest.mark.parametrize("seed", range(3))
def test_mutated_tapes(program, seed, limited):
    tape, arrays = program
    sizes = dimensions(*arrays)
    loaded = set(make_plan(tape, sizes).kernels)
    rng = np.random.default_rng(seed)
    refused = 0
    for _ in range(250):
        mutated = mutate_tape(rng, tape)
        try:
            plan = make_plan(mutated, sizes)
        except VerificationError:
            refused += 1
            continue
        if run_checked(plan, arrays, limited) and set(plan.kernels) <= loaded:
            run_compiled(plan, arrays)
    assert refused > 50


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


def test_other_op_table():
    tape = traced(np.sum, np.ones(3))
    with pytest.raises(VerificationError, match="another op table"):
        make_plan(dataclasses.replace(tape, names=tape.names[::-1]), (3,))


def test_broadcast_of_other_sizes():
    """Size guards keep such dimensions from a plan; the plan refuses them all the same."""
    tape = traced(lambda x, y: np.sum(x * y + x), np.ones(3), np.ones(3))
    with pytest.raises(VerificationError, match=r"mul.*dimensions of the operands differ"):
        make_plan(tape, (3, 2))


def test_too_large():
    tape = traced(lambda x: np.sum(np.outer(x, x)), np.ones(3))
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
            total = total * a - b
        return total

    x = np.ones(2)
    plans = [make_plan(traced(lambda x, n=n: chain(x, n), x), (2,)) for n in (100, 600)]
    ops = 2 * (600 - 100)
    spaces = [Workspace(plan) for plan in plans]
    assert len(plans[1].tape) - len(plans[0].tape) == ops
    assert plans[1].tape.nbytes - plans[0].tape.nbytes == (24 + 12) * ops
    assert plans[1].nbytes - plans[0].nbytes == 20 * ops
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
