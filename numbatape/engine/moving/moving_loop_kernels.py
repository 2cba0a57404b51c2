"""How loops and branches follow other sizes: a part of the kernel of `engine.moving.moving_kernels`.

What is written here are addresses and counts in the tables of loops. They follow from a body's plan and from
the size codes that the construction of a loop has proved (`numbatape.engine.extents_proof`).
"""

from __future__ import annotations

from ..plan_tables import END, SIZE_VALUES, STORAGES, size_of
from ..replan_kernels import CELLS, DIMENSIONS, FIRST_ACTIVE, LEVELS
from ..segments import INSTRUCTION, MOST
from .space_words import (
    ADDRESS_ADJOINT,
    ADDRESS_COUNT,
    ADDRESS_FAMILY,
    ADDRESS_OFFSET,
    ADDRESS_STORAGE,
    ADDRESS_TEST,
    ADDRESS_WORDS,
    ADDRESSES_AT,
    ADJOINTS_AT,
    BODIES_AT,
    BODY,
    BODY_COUNT,
    BRANCH_STATE_V,
    CALL_WORK,
    CARRIES_COUNT,
    CODES_AT,
    COTANGENTS_ROOM,
    DIMENSION_COUNT,
    DIMENSION_KNOWN,
    DIMENSION_OWN,
    DIMENSION_WORDS,
    DIMENSIONS_AT,
    EXTENT,
    FRAME_G64,
    FRAME_V64,
    LOOKOUT,
    MEMORY_BYTES,
    MEMORY_WORDS,
    MOVED,
    MOVES_BODY,
    ONCE,
    OUTS_COUNT,
    PLANNER,
    ROOM,
    ROOM_COUNT,
    ROOM_FAMILY,
    ROOM_FIRST,
    ROOM_LAST,
    ROOM_WORDS,
    ROOMS_AT,
    SPACE_WORK,
    STACK_ROOM,
    START_COUNT,
    START_WORDS,
    STARTS_AT,
    STATE,
    STATE_EVERY,
    STATE_G,
    STATE_LENGTH,
    STATE_LOOK,
    STATE_RESULT,
    STATE_SAVED,
    STATE_SAVED_COUNT,
    STATE_STACK,
    STATE_STACK_BYTES,
    STATE_V,
    STATUS,
    STEP_WORK,
    TABLES,
    TEST_BODY,
    TOTAL_COUNT,
    TOTAL_FACTOR,
    TOTAL_FIRST,
    TOTAL_STOP,
    TOTAL_WORDS,
    TOTALS_AT,
    UNABLE,
    UNKNOWN,
    VALUES_AT,
)


def starts_follow(c_q, size_q):
    """Write the words of a call that are values of size codes."""
    row_q = c_q[STARTS_AT]
    for k in range(c_q[START_COUNT]):
        target_q = row_q[START_WORDS * k]
        target_q[0] = size_of(row_q[START_WORDS * k + 1], size_q)


def body_planned(p_q, c_q):
    """Let a body follow the dimensions of a loop; return what stopped that."""
    w_q = p_q[PLANNER]
    given_q = w_q[DIMENSIONS]
    row_q = c_q[DIMENSIONS_AT]
    for k in range(c_q[DIMENSION_COUNT]):
        given_q[k] = row_q[DIMENSION_WORDS * k + DIMENSION_KNOWN]
    return invoke(p_q, MOVED, p_q, 0)  # noqa: F821


def bytes_of_cell(family):
    """Return 8 for float64, which is family 0, and 4 for float32."""
    return 8 - 4 * family


def cell_of(p_q, storage, offset):
    """Return the cell at an offset in a storage of a space."""
    w_q = p_q[PLANNER]
    storage_q = w_q[STORAGES]
    return storage_q[storage] + size_of(offset, w_q[SIZE_VALUES])


def tables_follow(c_q):
    """Write the words of a loop that depend on where the cells of its bodies are."""
    row_q = c_q[ADDRESSES_AT]
    for k in range(c_q[ADDRESS_COUNT]):
        at = ADDRESS_WORDS * k
        p_q = c_q[BODY + row_q[at + ADDRESS_TEST]]
        family = row_q[at + ADDRESS_FAMILY]
        cell = cell_of(p_q, row_q[at + ADDRESS_STORAGE], row_q[at + ADDRESS_OFFSET])
        base = p_q[VALUES_AT + family]
        if row_q[at + ADDRESS_ADJOINT] != 0:
            base = p_q[ADJOINTS_AT + family]
            w_q = p_q[PLANNER]
            end_q = w_q[CELLS]
            cell -= end_q[LEVELS * family + FIRST_ACTIVE]
        target_q = row_q[at]
        target_q[0] = base + bytes_of_cell(family) * cell
    p_q = c_q[BODY]
    w_q = p_q[PLANNER]
    storage_q = w_q[STORAGES]
    row_q = c_q[ROOMS_AT]
    for k in range(c_q[ROOM_COUNT]):
        at = ROOM_WORDS * k
        cells = storage_q[row_q[at + ROOM_LAST] + END] - storage_q[row_q[at + ROOM_FIRST]]
        target_q = row_q[at]
        target_q[0] = (bytes_of_cell(row_q[at + ROOM_FAMILY]) * cells + 7) // 8 * 8


def sum_of(code_q, first, stop, size_q):
    """Return the sum of the values of some size codes."""
    total = 0
    for k in range(stop - first):
        total += size_of(code_q[first + k], size_q)
    return total


def totals_follow(c_q, size_q):
    """Write the words of a loop that are sums; return what stopped that."""
    row_q = c_q[TOTALS_AT]
    code_q = c_q[CODES_AT]
    for k in range(c_q[TOTAL_COUNT]):
        at = TOTAL_WORDS * k
        target_q = row_q[at]
        total = sum_of(code_q, row_q[at + TOTAL_FIRST], row_q[at + TOTAL_STOP], size_q)
        target_q[0] = row_q[at + TOTAL_FACTOR] * total
    state_q = c_q[STATE]
    if state_q[STATE_SAVED_COUNT] != 0:
        row_q = state_q[STATE_SAVED]
        saved = 0
        for k in range(state_q[STATE_SAVED_COUNT]):
            saved += row_q[MEMORY_WORDS * k + MEMORY_BYTES]
        state_q[STATE_STACK_BYTES] = saved
    outs = c_q[OUTS_COUNT]
    if sum_of(code_q, outs, outs + c_q[CARRIES_COUNT], size_q) > c_q[COTANGENTS_ROOM]:
        c_q[STATUS] = ROOM
        return ROOM
    return 0


def bodies_follow(c_q, size_q):
    """Let the bodies of a loop follow its dimensions; return what stopped that."""
    row_q = c_q[DIMENSIONS_AT]
    same = True
    for k in range(c_q[DIMENSION_COUNT]):
        at = DIMENSION_WORDS * k
        if row_q[at + DIMENSION_OWN] != 0 and row_q[at + DIMENSION_KNOWN] != size_of(row_q[at], size_q):
            same = False
    if same:
        return 0
    if c_q[MOVES_BODY] == 0:
        return UNABLE
    if c_q[BODY] == 0:
        c_q[STATUS] = TABLES
        return TABLES
    for k in range(c_q[DIMENSION_COUNT]):
        at = DIMENSION_WORDS * k
        row_q[at + DIMENSION_KNOWN] = size_of(row_q[at], size_q)
    status = body_planned(c_q[BODY], c_q)
    if status == 0 and c_q[TEST_BODY] != 0:
        status = body_planned(c_q[TEST_BODY], c_q)
    if status == 0:
        tables_follow(c_q)
        status = totals_follow(c_q, size_q)
    if status != 0:  # the next call must not find the body where this one has left it
        for k in range(c_q[DIMENSION_COUNT]):
            row_q[DIMENSION_WORDS * k + DIMENSION_KNOWN] = UNKNOWN
        return status
    p_q = c_q[BODY]
    c_q[STEP_WORK] = INSTRUCTION + p_q[SPACE_WORK]
    if c_q[TEST_BODY] != 0:
        p_q = c_q[TEST_BODY]
        c_q[STEP_WORK] += p_q[SPACE_WORK]
    return 0


def loop_follows(c_q, size_q, frame_q):
    """Let a loop follow the sizes of the tape that it stands on; return what stopped that."""
    status = bodies_follow(c_q, size_q)
    if status != 0:
        return status
    starts_follow(c_q, size_q)
    state_q = c_q[STATE]
    length = state_q[STATE_LENGTH]
    if state_q[STATE_STACK] != 0 and length * state_q[STATE_STACK_BYTES] > c_q[STACK_ROOM]:
        c_q[STATUS] = ROOM
        return ROOM
    cells = size_of(c_q[EXTENT], size_q)
    if sum_of(c_q[CODES_AT], 0, c_q[OUTS_COUNT], size_q) == cells:
        cells = 0
    state_q[STATE_RESULT] = cells
    state_q[STATE_V] = frame_q[FRAME_V64]
    state_q[STATE_G] = frame_q[FRAME_G64]
    c_q[CALL_WORK] = length * c_q[STEP_WORK]
    if c_q[ONCE] == 0:
        every = max(1, MOST // c_q[STEP_WORK])
        if every >= length:
            every = 0
        state_q[STATE_EVERY] = every
        if every != 0 and state_q[STATE_LOOK] == 0:
            c_q[STATUS] = LOOKOUT
            return LOOKOUT
    return 0


def branches_follow(c_q, size_q, frame_q):
    """Let branches follow the sizes of the tape that they stand on; return what stopped that."""
    body_q = c_q[BODIES_AT]
    work = 0
    for k in range(c_q[BODY_COUNT]):
        status = loop_follows(body_q[k], size_q, frame_q)
        if status != 0:
            return status
        one_q = body_q[k]
        work = max(work, one_q[CALL_WORK])
    starts_follow(c_q, size_q)
    state_q = c_q[STATE]
    state_q[BRANCH_STATE_V] = frame_q[FRAME_V64]
    c_q[CALL_WORK] = work
    return 0
