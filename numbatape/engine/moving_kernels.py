"""The kernel that lets a workspace, and all that its tape calls, follow other sizes. Kernel language.

A *space* is the workspace of a tape, a *call* is what an instruction of the tape calls: a loop, branches, or
a compiled rule. Both are arrays of words, which Python fills in once (`numbatape.engine.moving_spaces`): for
new sizes this kernel walks over them, from a tape to the bodies that it calls, and Python does nothing.
What needs memory, another kernel, or tables that nobody has made yet, stops it: the space or call says so in
its word STATUS. Python helps, and the kernel starts again.

Plans are made by the kernel of `numbatape.engine.replan_kernels`, which has them verified. What is written
here are addresses and counts in the tables of loops and rules. They follow from a body's plan and from the
size codes that the construction of a loop has proved (`numbatape.engine.extents_proof`).
"""

from __future__ import annotations

from .frame import WORD as FRAME_WORD
from .loop_words import FIELDS, LENGTHS
from .loop_words import WORD as LOOP_STATE
from .plan_tables import END, SIZE_VALUES, STORAGES, size_of
from .replan_kernels import CELLS, DIMENSIONS, LEVELS, NEW_KERNELS, SWEEP_WORK, WORK
from .segments import INSTRUCTION, MOST

# What stops it.
ROOM = 1  # memory is too small: that of cells, of saved steps, of cotangents, of a rule
KERNELS = 2  # the plan calls kernels that may not be loaded
TABLES = 3  # the tables of what is called have not been made
REMADE = 4  # what is called cannot follow: it has to be made anew
LOOKOUT = 5  # a loop has become so long that it needs one
FAILED = 6  # the prologue of a body stopped
UNABLE = 7  # the plan, or a call, cannot follow; who calls it says REMADE

# The words of a space.
STATUS = 0
PLANNER = 1  # address of the words of the kernel that plans
FRAME = 2
VALUES_AT = 3  # addresses of value cells, by family; how many there are
VALUES_ROOM = 5
ADJOINTS_AT = 7
ADJOINTS_ROOM = 9
LITERALS_AT = 11  # numbers of the tape
LITERAL_COUNT = 12
CALLS_AT = 13  # addresses of what is called by compiled code; how many, or -1 if there are no tables yet
CALL_COUNT = 14
RAISED_AT = 15  # addresses of the words that say that a rule failed
FAILED_AT = 16
PROLOGUE = 17  # address of the sweep, or 0
STAYS = 18  # whether the cells stay where they are
MADE = 19  # whether what is called was made for these sizes
FOLLOWS = 20  # whether what is called can follow
MOVES = 21  # out: how often sizes changed
SPACE_WORK = 22  # out: an estimate of the work of a sweep
SEEDS = 23  # whether the frame says how many adjoints sweeps clear
REPLAN = 24  # addresses of kernels: what plans, and `moved` below
MOVED = 25
CALLED = 26  # whether the tape calls anything
SPACE_WORDS = 27
# A row of literals: family, word of its storage, offset, address of the numbers, bytes, where they were
# written to.
LITERAL_WORDS = 6
LITERAL_STORAGE = 1
LITERAL_OFFSET = 2
LITERAL_SOURCE = 3
LITERAL_BYTES = 4
LITERAL_LAST = 5

# The words of a call. STATUS is the first one.
KIND = 1
STARTS_AT = 2  # words that are values of size codes: address, code
START_COUNT = 3
STATE = 4  # address of the words that the kernels of loops, of branches or of a rule read
# Of a loop:
DIMENSIONS_AT = 5  # size codes, the values that the body has now, and whether it depends on them
DIMENSION_COUNT = 6
MOVES_BODY = 7  # whether the body can follow
BODY = 8  # the spaces of the body and of the test, 0 if there is none (yet)
TEST_BODY = 9
ADDRESSES_AT = 10  # words that are addresses of cells
ADDRESS_COUNT = 11
ROOMS_AT = 12  # words that are the bytes of storages
ROOM_COUNT = 13
TOTALS_AT = 14  # words that are factors times sums of size codes
TOTAL_COUNT = 15
CODES_AT = 16  # the size codes that these sums are of
OUTS_COUNT = 17  # the first ones: the cells of outputs
CARRIES_COUNT = 18  # the next ones: the cells of carries
EXTENT = 19  # size code of the cells of the result
COTANGENTS_ROOM = 20
STACK_ROOM = 21
STEP_WORK = 22  # an estimate of the work of a step
ONCE = 23  # whether the body runs once
CALL_WORK = 24  # out: an estimate of all work
# Of branches:
BODIES_AT = 5  # addresses of loops of one step
BODY_COUNT = 6
# Of a compiled rule:
BUFFERS_AT = 5  # memory: address of the word that has its address, codes of start and stop, width, bytes
BUFFER_COUNT = 6
RESULT_STORAGE = 7  # where the result is: word of its storage, offset, family
RESULT_OFFSET = 8
RESULT_FAMILY = 9
CALL_WORDS = 25
LOOP = 0  # kinds of calls
BRANCHES = 1
RULE = 2

START_WORDS = 2
DIMENSION_WORDS = 3
DIMENSION_KNOWN = 1
DIMENSION_OWN = 2
# Target, whether it is in the test, whether it is that of an adjoint, family, word of the storage, offset.
ADDRESS_WORDS = 6
ADDRESS_TEST = 1
ADDRESS_ADJOINT = 2
ADDRESS_FAMILY = 3
ADDRESS_STORAGE = 4
ADDRESS_OFFSET = 5
ROOM_WORDS = 4  # target, family, words of the first and of the last storage
ROOM_FAMILY = 1
ROOM_FIRST = 2
ROOM_LAST = 3
TOTAL_WORDS = 4  # target, factor, the first code, the end of the codes
TOTAL_FACTOR = 1
TOTAL_FIRST = 2
TOTAL_STOP = 3
BUFFER_WORDS = 5
BUFFER_START = 1
BUFFER_STOP = 2
BUFFER_WIDTH = 3
BUFFER_ROOM = 4

UNKNOWN = -1  # no value of a dimension
# Words of frames and of states, and rows of their tables.
FRAME_V64, FRAME_V32 = FRAME_WORD["V64"], FRAME_WORD["V32"]
FRAME_G64, FRAME_G32 = FRAME_WORD["G64"], FRAME_WORD["G32"]
FRAME_FIRST64, FRAME_FIRST32 = FRAME_WORD["FIRST64"], FRAME_WORD["FIRST32"]
FRAME_CELLS64, FRAME_CELLS32 = FRAME_WORD["CELLS64"], FRAME_WORD["CELLS32"]
STATE_V, STATE_G, STATE_LENGTH = LOOP_STATE["V"], LOOP_STATE["G"], LOOP_STATE["LENGTH"]
STATE_RESULT, STATE_EVERY, STATE_LOOK = LOOP_STATE["RESULT"], LOOP_STATE["EVERY"], LOOP_STATE["LOOK"]
STATE_STACK, STATE_STACK_BYTES = LOOP_STATE["STACK"], LOOP_STATE["STACK_BYTES"]
STATE_SAVED, STATE_SAVED_COUNT = LOOP_STATE["SAVED"], LOOP_STATE["SAVED_COUNT"]
MEMORY_WORDS, MEMORY_BYTES = LENGTHS["MEMORY_WORDS"], FIELDS["MEMORY_BYTES"]
BRANCH_STATE_V = 0  # as in numbatape.engine.branch_kernels
RULE_V, RULE_G, RULE_FIRST = 0, 1, 2  # as in numbatape.jit.rules


def cells_follow(p_q, w_q):
    """Let the frame say where the cells of a plan are, if there is room for them."""
    end_q = w_q[CELLS]
    for family in serial(2):  # noqa: F821
        end = end_q[LEVELS * family + 1]
        total = end_q[LEVELS * family + 2]
        if total > p_q[VALUES_ROOM + family] or total - end > p_q[ADJOINTS_ROOM + family]:
            p_q[STATUS] = ROOM
            return ROOM
    frame_q = p_q[FRAME]
    frame_q[FRAME_V64] = p_q[VALUES_AT]
    frame_q[FRAME_V32] = p_q[VALUES_AT + 1]
    frame_q[FRAME_FIRST64] = end_q[1]
    frame_q[FRAME_FIRST32] = end_q[LEVELS + 1]
    frame_q[FRAME_G64] = p_q[ADJOINTS_AT] - 8 * end_q[1]
    frame_q[FRAME_G32] = p_q[ADJOINTS_AT + 1] - 4 * end_q[LEVELS + 1]
    if p_q[SEEDS] != 0:
        frame_q[FRAME_CELLS64] = end_q[2] - end_q[1]
        frame_q[FRAME_CELLS32] = end_q[LEVELS + 2] - end_q[LEVELS + 1]
    return 0


def literals_follow(p_q, w_q):
    """Write the numbers of the tape to their cells, unless they are there from the last sizes."""
    storage_q = w_q[STORAGES]
    row_q = p_q[LITERALS_AT]
    for k in serial(p_q[LITERAL_COUNT]):  # noqa: F821
        at = LITERAL_WORDS * k
        family = row_q[at]
        cell = storage_q[row_q[at + LITERAL_STORAGE]] + row_q[at + LITERAL_OFFSET]
        target = p_q[VALUES_AT + family] + (8 - 4 * family) * cell
        if target != row_q[at + LITERAL_LAST]:
            row_q[at + LITERAL_LAST] = target
            copy_bytes(target, row_q[at + LITERAL_SOURCE], row_q[at + LITERAL_BYTES])  # noqa: F821


def starts_follow(c_q, size_q):
    """Write the words of a call that are values of size codes."""
    row_q = c_q[STARTS_AT]
    for k in serial(c_q[START_COUNT]):  # noqa: F821
        target_q = row_q[START_WORDS * k]
        target_q[0] = size_of(row_q[START_WORDS * k + 1], size_q)


def body_planned(p_q, c_q):
    """Let a body follow the dimensions of a loop; return what stopped that."""
    w_q = p_q[PLANNER]
    given_q = w_q[DIMENSIONS]
    row_q = c_q[DIMENSIONS_AT]
    for k in serial(c_q[DIMENSION_COUNT]):  # noqa: F821
        given_q[k] = row_q[DIMENSION_WORDS * k + DIMENSION_KNOWN]
    return invoke(p_q, MOVED, p_q, 0)  # noqa: F821


def cell_of(p_q, storage, offset):
    """Return the cell at an offset in a storage of a space."""
    w_q = p_q[PLANNER]
    storage_q = w_q[STORAGES]
    return storage_q[storage] + size_of(offset, w_q[SIZE_VALUES])


def tables_follow(c_q):
    """Write the words of a loop that depend on where the cells of its bodies are."""
    row_q = c_q[ADDRESSES_AT]
    for k in serial(c_q[ADDRESS_COUNT]):  # noqa: F821
        at = ADDRESS_WORDS * k
        p_q = c_q[BODY + row_q[at + ADDRESS_TEST]]
        family = row_q[at + ADDRESS_FAMILY]
        cell = cell_of(p_q, row_q[at + ADDRESS_STORAGE], row_q[at + ADDRESS_OFFSET])
        base = p_q[VALUES_AT + family]
        if row_q[at + ADDRESS_ADJOINT] != 0:
            base = p_q[ADJOINTS_AT + family]
            w_q = p_q[PLANNER]
            end_q = w_q[CELLS]
            cell -= end_q[LEVELS * family + 1]
        target_q = row_q[at]
        target_q[0] = base + (8 - 4 * family) * cell
    p_q = c_q[BODY]
    w_q = p_q[PLANNER]
    storage_q = w_q[STORAGES]
    row_q = c_q[ROOMS_AT]
    for k in serial(c_q[ROOM_COUNT]):  # noqa: F821
        at = ROOM_WORDS * k
        cells = storage_q[row_q[at + ROOM_LAST] + END] - storage_q[row_q[at + ROOM_FIRST]]
        target_q = row_q[at]
        target_q[0] = ((8 - 4 * row_q[at + ROOM_FAMILY]) * cells + 7) // 8 * 8


def sum_of(code_q, first, stop, size_q):
    """Return the sum of the values of some size codes."""
    total = 0
    for k in serial(stop - first):  # noqa: F821
        total += size_of(code_q[first + k], size_q)
    return total


def totals_follow(c_q, size_q):
    """Write the words of a loop that are sums; return what stopped that."""
    row_q = c_q[TOTALS_AT]
    code_q = c_q[CODES_AT]
    for k in serial(c_q[TOTAL_COUNT]):  # noqa: F821
        at = TOTAL_WORDS * k
        target_q = row_q[at]
        total = sum_of(code_q, row_q[at + TOTAL_FIRST], row_q[at + TOTAL_STOP], size_q)
        target_q[0] = row_q[at + TOTAL_FACTOR] * total
    state_q = c_q[STATE]
    if state_q[STATE_SAVED_COUNT] != 0:
        row_q = state_q[STATE_SAVED]
        saved = 0
        for k in serial(state_q[STATE_SAVED_COUNT]):  # noqa: F821
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
    for k in serial(c_q[DIMENSION_COUNT]):  # noqa: F821
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
    for k in serial(c_q[DIMENSION_COUNT]):  # noqa: F821
        at = DIMENSION_WORDS * k
        row_q[at + DIMENSION_KNOWN] = size_of(row_q[at], size_q)
    status = body_planned(c_q[BODY], c_q)
    if status == 0 and c_q[TEST_BODY] != 0:
        status = body_planned(c_q[TEST_BODY], c_q)
    if status == 0:
        tables_follow(c_q)
        status = totals_follow(c_q, size_q)
    if status != 0:  # the next call must not find the body where this one has left it
        for k in serial(c_q[DIMENSION_COUNT]):  # noqa: F821
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
    for k in serial(c_q[BODY_COUNT]):  # noqa: F821
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


def rule_follows(p_q, c_q, size_q, frame_q):
    """Let a compiled rule follow the sizes of its tape; return what stopped that."""
    row_q = c_q[BUFFERS_AT]
    for k in serial(c_q[BUFFER_COUNT]):  # noqa: F821
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
    for k in serial(p_q[CALL_COUNT]):  # noqa: F821
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
    p_q[SPACE_WORK] = w_q[SWEEP_WORK]
    if p_q[STAYS] == 0:
        status = cells_follow(p_q, w_q)
        if status != 0:
            return status
        literals_follow(p_q, w_q)
    if p_q[CALLED] == 0:
        return 0
    return calls_follow(p_q, w_q)


def placed(w, pc):
    """Do what `followed` does, for the space at the address ``w``."""
    return followed(w)


def moved(w, pc):
    """Plan the body at the address ``w`` for the dimensions that it was given, and let all of it follow."""
    p_q = w
    if invoke(p_q, REPLAN, p_q[PLANNER], 0) != 0:  # noqa: F821
        return UNABLE
    w_q = p_q[PLANNER]
    if w_q[NEW_KERNELS] != 0:
        p_q[STATUS] = KERNELS
        return KERNELS
    if w_q[WORK] > MOST:
        return UNABLE
    status = followed(p_q)
    if status != 0:
        return status
    if p_q[PROLOGUE] != 0:  # noqa: SIM102
        if invoke(p_q, PROLOGUE, p_q[FRAME], 0) != 0:  # noqa: F821
            p_q[STATUS] = FAILED
            return FAILED
    return 0
