"""The kernel that lets a workspace, and all that its tape calls, follow other sizes. Kernel language.

A *space* is the workspace of a tape, a *call* is what an instruction of the tape calls: a loop, branches, or
a compiled rule. Both are arrays of words (`numbatape.engine.moving.space_words`), which Python fills in once
(`numbatape.engine.moving.moving_spaces`): for new sizes this kernel walks over them, from a tape to the
bodies that it calls (`numbatape.engine.moving.moving_loop_kernels`), and Python does nothing. What needs
memory, another kernel, or tables that nobody has made yet, stops it: the space or call says so in its word
STATUS. Python helps, and the kernel starts again.

Plans are made by the kernel of `numbatape.engine.replan_kernels`, which has them verified. What is written
here are the words of frames, literals, and the tables of rules.
"""

from __future__ import annotations

from ..plan import BRIEF_CELLS
from ..plan_tables import SIZE_VALUES, STORAGES, size_of
from ..replan_kernels import (
    ALL_CELLS,
    CELLS,
    DIMENSIONS,
    FIRST_ACTIVE,
    LEVELS,
    LONGEST,
    NEW_KERNELS,
    SWEEP_WORK,
    WORK,
)
from ..segments import MOST
from ..strips.strip_rows import LEAST
from .moving_loop_kernels import branches_follow, bytes_of_cell, cell_of, loop_follows, starts_follow
from .space_words import (
    ADJOINTS_AT,
    ADJOINTS_ROOM,
    BRANCHES,
    BUFFER_COUNT,
    BUFFER_ROOM,
    BUFFER_START,
    BUFFER_STOP,
    BUFFER_WIDTH,
    BUFFER_WORDS,
    BUFFERS_AT,
    CALL_COUNT,
    CALL_WORK,
    CALLED,
    CALLS_AT,
    FAILED,
    FAILED_AT,
    FOLLOWS,
    FRAME,
    FRAME_CELLS32,
    FRAME_CELLS64,
    FRAME_FIRST32,
    FRAME_FIRST64,
    FRAME_G32,
    FRAME_G64,
    FRAME_V32,
    FRAME_V64,
    KERNELS,
    KIND,
    LARGE,
    LEAF_BYTES,
    LEAF_COUNT,
    LEAF_FAMILY,
    LEAF_FIRST,
    LEAF_ITEM,
    LEAF_RANK,
    LEAF_SHAPE,
    LEAF_STORAGE,
    LEAF_WORDS,
    LEAVES_AT,
    LITERAL_BYTES,
    LITERAL_COUNT,
    LITERAL_LAST,
    LITERAL_OFFSET,
    LITERAL_SOURCE,
    LITERAL_STORAGE,
    LITERAL_WORDS,
    LITERALS_AT,
    LOCKED_AT,
    LONG,
    LOOP,
    MADE,
    MANY,
    MOVER,
    MOVES,
    OUTCOME,
    PLANNER,
    PROLOGUE,
    RAISED_AT,
    REMADE,
    REPLAN,
    RESULT_FAMILY,
    RESULT_OFFSET,
    RESULT_STORAGE,
    ROOM,
    RULE_FIRST,
    RULE_G,
    RULE_V,
    SEED_COUNT,
    SEED_OFFSET,
    SEED_STORAGE,
    SEED_WORDS,
    SEEDS,
    SEEDS_AT,
    SPACE_WORK,
    STATE,
    STATUS,
    STAYS,
    TABLES,
    UNABLE,
    UNPLANNED,
    VALUES_AT,
    VALUES_ROOM,
)


def cells_follow(p_q, w_q):
    """Let the frame say where the cells of a plan are, if there is room for them."""
    end_q = w_q[CELLS]
    for family in range(2):
        end = end_q[LEVELS * family + FIRST_ACTIVE]
        total = end_q[LEVELS * family + ALL_CELLS]
        if total > p_q[VALUES_ROOM + family] or total - end > p_q[ADJOINTS_ROOM + family]:
            p_q[STATUS] = ROOM
            return ROOM
    frame_q = p_q[FRAME]
    frame_q[FRAME_V64] = p_q[VALUES_AT]
    frame_q[FRAME_V32] = p_q[VALUES_AT + 1]
    first64 = end_q[FIRST_ACTIVE]
    first32 = end_q[LEVELS + FIRST_ACTIVE]
    frame_q[FRAME_FIRST64] = first64
    frame_q[FRAME_FIRST32] = first32
    # Kernels count adjoints from cell 0, but only active cells have them.
    frame_q[FRAME_G64] = p_q[ADJOINTS_AT] - bytes_of_cell(0) * first64
    frame_q[FRAME_G32] = p_q[ADJOINTS_AT + 1] - bytes_of_cell(1) * first32
    if p_q[SEEDS] != 0:
        frame_q[FRAME_CELLS64] = end_q[ALL_CELLS] - first64
        frame_q[FRAME_CELLS32] = end_q[LEVELS + ALL_CELLS] - first32
    return 0


def literals_follow(p_q, w_q):
    """Write the numbers of the tape to their cells, unless they are there from the last sizes."""
    storage_q = w_q[STORAGES]
    row_q = p_q[LITERALS_AT]
    for k in range(p_q[LITERAL_COUNT]):
        at = LITERAL_WORDS * k
        family = row_q[at]
        cell = storage_q[row_q[at + LITERAL_STORAGE]] + row_q[at + LITERAL_OFFSET]
        target = p_q[VALUES_AT + family] + bytes_of_cell(family) * cell
        if target != row_q[at + LITERAL_LAST]:
            row_q[at + LITERAL_LAST] = target
            copy_bytes(target, row_q[at + LITERAL_SOURCE], row_q[at + LITERAL_BYTES])  # noqa: F821


def rule_follows(p_q, c_q, size_q, frame_q):
    """Let a compiled rule follow the sizes of its tape; return what stopped that."""
    row_q = c_q[BUFFERS_AT]
    for k in range(c_q[BUFFER_COUNT]):
        at = BUFFER_WORDS * k
        entries = size_of(row_q[at + BUFFER_STOP], size_q) - size_of(row_q[at + BUFFER_START], size_q)
        if row_q[at + BUFFER_WIDTH] * entries > row_q[at + BUFFER_ROOM]:
            c_q[STATUS] = ROOM
            return ROOM
    starts_follow(c_q, size_q)
    state_q = c_q[STATE]
    state_q[RULE_V] = frame_q[FRAME_V64]
    state_q[RULE_G] = frame_q[FRAME_G64]
    if c_q[RESULT_FAMILY] != 0:
        state_q[RULE_V] = frame_q[FRAME_V32]
        state_q[RULE_G] = frame_q[FRAME_G32]
    state_q[RULE_FIRST] = cell_of(p_q, c_q[RESULT_STORAGE], c_q[RESULT_OFFSET])
    return 0


def calls_follow(p_q, w_q):
    """Let what a tape calls follow its sizes; return what stopped that."""
    if p_q[MADE] != 0:
        return 0
    if p_q[CALL_COUNT] < 0:
        p_q[STATUS] = TABLES
        return TABLES
    if p_q[FOLLOWS] == 0:
        p_q[STATUS] = REMADE
        return REMADE
    raised_q = p_q[RAISED_AT]
    raised_q[0] = 0
    raised_q = p_q[FAILED_AT]
    raised_q[0] = 0
    call_q = p_q[CALLS_AT]
    size_q = w_q[SIZE_VALUES]
    frame_q = p_q[FRAME]
    for k in range(p_q[CALL_COUNT]):
        c_q = call_q[k]
        if c_q[KIND] == LOOP:
            status = loop_follows(c_q, size_q, frame_q)
        elif c_q[KIND] == BRANCHES:
            status = branches_follow(c_q, size_q, frame_q)
        else:
            status = rule_follows(p_q, c_q, size_q, frame_q)
        if status == UNABLE:
            p_q[STATUS] = REMADE
            return REMADE
        if status != 0:
            return status
        p_q[SPACE_WORK] += c_q[CALL_WORK]
    p_q[MOVES] += 1
    return 0


def followed(p_q):
    """Bring everything to where the plan of a space wants it; return what stopped that."""
    w_q = p_q[PLANNER]
    if w_q[NEW_KERNELS] != 0:
        p_q[STATUS] = KERNELS
        return KERNELS
    p_q[SPACE_WORK] = w_q[SWEEP_WORK]
    if p_q[STAYS] == 0:
        status = cells_follow(p_q, w_q)
        if status != 0:
            return status
        literals_follow(p_q, w_q)
    if p_q[CALLED] == 0:
        return 0
    return calls_follow(p_q, w_q)


def prologue_done(p_q):
    """Compute what depends on constants and sizes alone; return what stopped that."""
    if p_q[PROLOGUE] == 0:
        return 0
    p_q[OUTCOME] = invoke(p_q, PROLOGUE, p_q[FRAME], 0)  # noqa: F821
    if p_q[OUTCOME] == 0:
        return 0
    p_q[STATUS] = FAILED
    return FAILED


def leaves_follow(p_q, w_q):
    """Tell the builtin where arguments go, and which sizes they have."""
    storage_q = w_q[STORAGES]
    dimension_q = w_q[DIMENSIONS]
    row_q = p_q[LEAVES_AT]
    for k in range(p_q[LEAF_COUNT]):
        at = LEAF_WORDS * k
        family = row_q[at + LEAF_FAMILY]
        cell = storage_q[row_q[at + LEAF_STORAGE]]
        word_q = row_q[at]
        word_q[0] = p_q[VALUES_AT + family] + bytes_of_cell(family) * cell
        shape_q = row_q[at + LEAF_SHAPE]
        entries = 1
        for axis in range(row_q[at + LEAF_RANK]):
            n = dimension_q[row_q[at + LEAF_FIRST] + axis]
            shape_q[axis] = n
            entries *= n
        word_q = row_q[at + LEAF_BYTES]
        word_q[0] = row_q[at + LEAF_ITEM] * entries


def seeds_follow(p_q, w_q):
    """Say which cells have a cotangent of one."""
    storage_q = w_q[STORAGES]
    size_q = w_q[SIZE_VALUES]
    row_q = p_q[SEEDS_AT]
    for k in range(p_q[SEED_COUNT]):
        at = SEED_WORDS * k
        word_t = row_q[at]
        word_t[0] = storage_q[row_q[at + SEED_STORAGE]] + size_of(row_q[at + SEED_OFFSET], size_q)


def cells_of(w_q):
    """How many cells a plan has."""
    end_q = w_q[CELLS]
    return end_q[ALL_CELLS] + end_q[LEVELS + ALL_CELLS]


def placed(w, pc):
    """Let everything follow the plan of a tape that nothing calls, whose space is at the address ``w``."""
    p_q = w
    p_q[STATUS] = 0
    status = followed(p_q)
    if status != 0:
        return status
    w_q = p_q[PLANNER]
    leaves_follow(p_q, w_q)
    seeds_follow(p_q, w_q)
    if p_q[LOCKED_AT] != 0:
        locked_q = p_q[LOCKED_AT]
        locked_q[0] = 0
        if cells_of(w_q) <= BRIEF_CELLS:
            locked_q[0] = 1
    if w_q[WORK] > MOST:
        return 0  # Python looks for signals while the prologue runs
    return prologue_done(p_q)


def led(w, pc):
    """Plan such a tape for the dimensions that it was given, and let everything follow."""
    p_q = w
    outcome = invoke(p_q, REPLAN, p_q[MOVER], 0)  # noqa: F821
    if outcome != 0:
        p_q[OUTCOME] = outcome
        p_q[STATUS] = UNPLANNED
        return UNPLANNED
    w_q = p_q[PLANNER]
    large = p_q[MANY]
    if w_q[LONGEST] >= LEAST:
        large = p_q[LONG]
    if large > 0 and cells_of(w_q) >= large:
        p_q[STATUS] = LARGE
        return LARGE
    return placed(w, pc)


def moved(w, pc):
    """Plan the body at the address ``w`` for the dimensions that it was given, and let all of it follow."""
    p_q = w
    if invoke(p_q, REPLAN, p_q[MOVER], 0) != 0:  # noqa: F821
        return UNABLE
    w_q = p_q[PLANNER]
    if w_q[WORK] > MOST:
        return UNABLE
    status = followed(p_q)
    if status != 0:
        return status
    return prologue_done(p_q)
