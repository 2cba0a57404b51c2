"""Arms of arithmetic on numbers: what is in a register is what is in memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import numbatape as nt
from numbatape.engine import Workspace, make_plan
from numbatape.engine.checked import CheckedWorkspace
from numbatape.engine.formula_text import HIGH, LINK_MASK, NUMBERS, SHARED, forward_texts, reverse_arms
from numbatape.engine.frame import ARMS, CELL_O
from numbatape.engine.verify_plan import verify
from numbatape.errors import VerificationError

from .mutations import traced

X = np.array([0.7, -1.3, 0.0, 1.1, np.inf])

ROWS = (
    lambda a, b, c: a + b,
    lambda a, b, c: a - b,
    lambda a, b, c: 0.5 * a * b,
    lambda a, b, c: a - 0.5 * b * c,
    lambda a, b, c: 0.5 * a * b - c,
    lambda a, b, c: a + b * (0.1 * c),
    lambda a, b, c: a / (1.5 + b * b),
    lambda a, b, c: -a,
    lambda a, b, c: 0.1 * a - b,
)


def program(seed: int):
    """Return a function whose operands are often the last results, also twice, and one result a row."""
    rng = np.random.default_rng(seed)
    rows = [(rng.integers(len(ROWS)), *(3.0 * rng.random(3))) for _ in range(300)]

    def function(x):
        numbers = [x[k] for k in range(4 + (seed == 0))]  # with infinities once
        for op, *places in rows:
            a, b, c = (numbers[-1] if at < 1.5 else numbers[int(len(numbers) * at / 3)] for at in places)
            numbers.append(ROWS[op](a, b, c))
        return numbers[-1] * x[1], numbers[-1]  # an output that only the next instruction reads

    return function


def bits(array):
    return np.where(np.isnan(array), np.nan, array).view(np.int64)


def plan_of(seed: int):
    return make_plan(traced(program(seed), X), (len(X),))


@pytest.mark.parametrize("seed", range(5))
def test_registers_change_no_bit(seed):
    plan = plan_of(seed)
    (slot,) = plan.tape.inputs
    space, alone = Workspace(plan), CheckedWorkspace(plan)
    space.inputs[0][...] = X
    alone.set(slot.value, X)
    assert space.forward() == 0
    space.reverse()
    alone.g[0][...] = 0.0
    for value in plan.tape.outputs:
        alone.g[0][plan.cell(value)[1] - plan.active[0][0]] += 1.0
    # Each instruction is run by itself, so that all of its operands are in memory.
    for k in range(len(plan.code)):
        assert alone.step(k) == 0
    for k in reversed(range(len(plan.code))):
        alone.step_back(k)
    results = plan.code[:, CELL_O]
    np.testing.assert_array_equal(bits(space.v[0][results]), bits(alone.v[0][results]))
    np.testing.assert_array_equal(bits(space.gradients[0]), bits(alone.view(slot.value, adjoint=True)))
    whole = CheckedWorkspace(plan)
    whole.set(slot.value, X)
    assert whole.forward() == 0
    whole.reverse()
    np.testing.assert_array_equal(bits(space.gradients[0]), bits(whole.view(slot.value, adjoint=True)))


def test_all_links_occur():
    words = np.concatenate([plan_of(seed).code[:, ARMS] for seed in range(5)])
    back = words >> HIGH & NUMBERS
    links = np.zeros(len(reverse_arms()) + 1, int)
    links[list(reverse_arms().values())] = [arm.link for arm in reverse_arms()]
    assert set(words & LINK_MASK) == set(links[back]) == {0, 1, 2, 3}
    assert {bool(word & SHARED) for word in words[words > 0]} == {True, False}


def test_numbers_of_arms_are_bytes():
    assert 0 < max(number for number, _, _ in forward_texts()) <= NUMBERS
    assert 0 < max(reverse_arms().values()) <= NUMBERS


def test_a_wrong_arm_is_refused():
    plan = plan_of(1)
    verify(plan)
    for k in (3, len(plan.code) - 1):
        for change in (1, 1 << HIGH, SHARED, -1 << 31):
            code = plan.code.copy()
            code[k, ARMS] ^= change
            with pytest.raises(VerificationError, match=f"instruction {k}, .*: its arms are not those"):
                verify(replace(plan, code=code))


def test_an_adjoint_that_is_written_once_may_be_a_negative_zero_and_a_gradient_is_not():
    gradient = nt.grad(lambda x: ((x[0] - x[1]) * 0.0 - x[2]) * 0.0 + x[3])(np.array([1.0, 2.0, 3.0, 4.0]))
    assert not np.signbit(gradient).any()
