"""The ways in which instructions are read say the same, on a tape that is built and on one that is frozen."""

from __future__ import annotations

import numpy as np
import pytest

import numbatape as nt
from numbatape.tape.instruction import (
    GUARD,
    INSTRUCTION,
    NONE,
    PROLOGUE,
    Instruction,
    columns,
    frozen,
    instruction,
    instructions,
    joined,
    opcode,
    rewritten,
    tape_instructions,
)

ROWS = [
    (opcode(3, 0), 3, 1, 5, 1, 2, NONE, NONE, 0),
    (opcode(40, 1), 1, 1, 6, 5, NONE, NONE, 7, 1),
    (GUARD, 0, 1, NONE, 6, 0, NONE, 2, 1),
    (opcode(9, 0), 5, 0, 8, 6, 5, 2, NONE, NONE),
]


def steered(x):
    total = x[0]
    for k in range(3):
        total = total * x[k] + np.exp(x[k])
        if total > 100.0:
            total = total - 1.0
    return total + np.sum(np.linalg.cholesky(np.eye(3) * total)[1] * x)


@pytest.fixture(scope="module")
def tape():
    return nt.prepare_gradient_cache(steered, np.array([0.3, 0.2, 0.9])).tape


def test_a_frozen_tape_has_the_fields_of_an_instruction():
    assert INSTRUCTION.names == Instruction._fields[:-1]


def test_one_at_a_time_and_all_at_once_are_the_same():
    code = columns(ROWS)
    for k, row in enumerate(instructions(ROWS)):
        assert row == ROWS[k]
        for name in Instruction._fields:
            assert code[name][k] == getattr(row, name)


def test_freezing_and_reading_again_moves_the_prologue_to_the_front_and_changes_nothing_else():
    expected = sorted(ROWS, key=lambda row: row[Instruction._fields.index("stage")] != PROLOGUE)
    assert tape_instructions(*frozen(columns(ROWS))) == expected


@pytest.mark.parametrize("lengths", [(4,), (2, 0, 3), (0,)])
def test_joined_instructions_follow_one_another(lengths):
    parts = [columns((ROWS * 2)[:length]) for length in lengths]
    assert joined(parts).dtype == parts[0].dtype
    assert joined(parts).tolist() == [row for part in parts for row in part.tolist()]


def test_operands_and_results_are_the_values_that_there_are():
    add, factor, guard, choice = instructions(ROWS)
    assert [row.operands for row in (add, factor, guard, choice)] == [(1, 2), (5,), (6, 0), (6, 5, 2)]
    assert [row.results for row in (add, factor, guard, choice)] == [(5,), (6, 7), (), (8,)]
    assert [row.is_guard for row in (add, factor, guard, choice)] == [False, False, True, False]
    assert (factor.row, factor.family) == (40, 1)
    assert [choice.takes(k) for k in range(3)] == [True, False, True]


def test_instructions_of_a_tape_say_what_its_columns_say(tape):
    code = tape.instructions()
    assert len(code) == len(tape)
    for k, row in enumerate(code):
        assert tuple(row[:-1]) == tape.code[k].item()
        assert (tape.lines[row.line] if row.line != NONE else None) == tape.line_of(k)
    assert sum(row.is_guard for row in code) == len(tape.guards)
    assert any(len(row.results) == 2 for row in code)  # of the factorisation


def test_every_operand_was_made_before_it_is_read(tape):
    """Definitions come before uses; what no instruction makes is an input or a literal."""
    storage = tape.values["storage"]
    made = {storage[slot.value] for slot in tape.inputs} | {item.storage for item in tape.literals}
    for row in tape.instructions():
        assert {storage[value] for value in row.operands} <= made
        made |= {storage[value] for value in row.results}
    assert {storage[value] for value in tape.outputs} <= made


def test_replacing_leaves_the_other_fields():
    row = instruction(ROWS[0])
    other = row.replace(a=9, line=4)
    assert other == (*row[:4], 9, *row[5:8], 4)
    assert row == ROWS[0]


def test_rewriting_drops_replaces_and_inserts():
    extra = Instruction(opcode(1, 0), 0, 1, 11, 12)
    code = columns(ROWS)
    changed = rewritten(code, {0: (), 3: (extra,), 2: (extra, ROWS[2])})
    assert instructions(changed.tolist()) == [ROWS[1], extra, ROWS[2], extra]
    np.testing.assert_array_equal(rewritten(code, {}), code)
    assert len(rewritten(code, {k: () for k in range(4)})) == 0
