"""The kernels of loops: they run a body's sweeps once a step and move cells in between.

Each kernel gets the words of the ``call`` instruction (`numbatape.jit.call_words`) and the loop's state
(`numbatape.engine.loops.loop_words`).
"""

from __future__ import annotations

import functools

from ...jit import call_words
from ...ops import status
from .branch_kernels import BRANCH_TEXT, BRANCH_WORD, NO_BODY
from .deferred_products import ONE_THREAD
from .loop_lane_kernels import FEW_STEPS, LANES_TEXT, PART
from .loop_words import FIELDS, LENGTHS, WORD

# What loops and bodies that run once have in common.
_SHARED = """def copied(target, source, step, count):
    t_q = target
    s_q = source
    if step == 1 and count > FEW:
        copy_bytes(target, source, 8 * count)
    else:
        for i in range(count):
            t_q[i] = s_q[i * step]


def added(dg, step, d, count):
    for i in range(count):
        dg[i * step] += d[i]


def moved(target, tstep, tlane, source, sstep, slane, count, lanes):
    t_q = target
    s_q = source
    if lanes == 1 and tstep == 1:
        copied(target, source, sstep, count)
    elif tstep == 1 and sstep == 1 and tlane == count and slane == count:
        copied(target, source, 1, count * lanes)
    elif count == 1:
        for lane in range(lanes):
            t_q[lane * tlane] = s_q[lane * slane]
    else:
        for lane in range(lanes):
            t_q = target + 8 * lane * tlane
            s_q = source + 8 * lane * slane
            if tstep == 1:
                copied(t_q, s_q, sstep, count)
            else:
                for i in range(count):
                    t_q[i * tstep] = s_q[i * sstep]


def taken(w, s_q, table, rows, row):
    # Copy parts of the operands, or of row number ``row`` of stacked ones, into the body's inputs.
    r_q = table
    for k in range(rows):
        at = IN_WORDS * k
        count = r_q[at + IN_CELLS]
        first = r_q[at + IN_FIRST] + row * count
        target = r_q[at + IN_ADDRESS]
        step = r_q[at + IN_STEP]
        lane = r_q[at + IN_LANE]
        lanes = s_q[LANES]
        if lane == 0:
            lanes = 1
        first_cell = w[CALL_A]
        cell_step = w[CALL_A_STEP]
        gap = s_q[LANE_A]
        if r_q[at + IN_OPERAND] != 0:
            first_cell = w[CALL_B]
            cell_step = w[CALL_B_STEP]
            gap = s_q[LANE_B]
        source = s_q[V] + 8 * (first_cell + first * cell_step)
        moved(target, step, lane, source, cell_step, gap, count, lanes)


def given(w, s_q, table, rows, row):
    # Copy cells of the body into the result, or into row number ``row`` of its stacked parts.
    r_q = table
    for k in range(rows):
        at = OUT_WORDS * k
        count = r_q[at + OUT_CELLS]
        target = s_q[V] + 8 * (w[CALL_OUT] + r_q[at + OUT_FIRST] + row * count)
        source = r_q[at + OUT_ADDRESS]
        moved(target, 1, s_q[LANE_OUT], source, r_q[at + OUT_STEP], r_q[at + OUT_LANE], count, s_q[LANES])


def stopped_at(w, s_q, status):
    # Tell `numbatape.engine.calls` that this call has failed.
    s_q[STOPPED] = status
    for k in range(CALL_NUMBER + 1):
        w[CALL_COPY + k] = w[k]
    w[CALL_FAILED] = 1
    t_q = w[CALL_RAISED]
    t_q[0] = w[CALL_STATUS]
    return w[CALL_STATUS]


def save(s_q, step):
    # Copy what the reverse sweep of a step reads to the stack.
    place = s_q[STACK] + step * s_q[STACK_BYTES]
    r_q = s_q[SAVED]
    for k in range(s_q[SAVED_COUNT]):
        at = MEMORY_WORDS * k
        copied(place, r_q[at + MEMORY_ADDRESS], 1, r_q[at + MEMORY_BYTES] // 8)
        place += r_q[at + MEMORY_BYTES]


def restore(s_q, step):
    # Copy it back.
    place = s_q[STACK] + step * s_q[STACK_BYTES]
    r_q = s_q[SAVED]
    for k in range(s_q[SAVED_COUNT]):
        at = MEMORY_WORDS * k
        copied(r_q[at + MEMORY_ADDRESS], place, 1, r_q[at + MEMORY_BYTES] // 8)
        place += r_q[at + MEMORY_BYTES]


def zeroed(s_q):
    # Clear the adjoints of a step.
    r_q = s_q[CLEARED]
    for k in range(s_q[CLEARED_COUNT]):
        at = MEMORY_WORDS * k
        if r_q[at + MEMORY_BYTES] == 8:
            t_q = r_q[at + MEMORY_ADDRESS]
            t_q[0] = 0
        else:
            clear(r_q[at + MEMORY_ADDRESS], 0, r_q[at + MEMORY_BYTES], 1)


def seeded(w, s_q, row):
    # Add the adjoints of a row of stacked outputs to those of the body's outputs.
    r_q = s_q[SEED_ROWS]
    for k in range(s_q[SEED_ROWS_COUNT]):
        at = SEED_WORDS * k
        count = r_q[at + SEED_CELLS]
        source = s_q[G] + 8 * (w[CALL_OUT] + r_q[at + SEED_FIRST] + row * count)
        added(r_q[at + SEED_ADDRESS], 1, source, count)


def added_back(w, s_q, table, rows, row):
    # Add the adjoints of inputs of the body to those of the first operand; no others take any.
    r_q = table
    for k in range(rows):
        at = ADD_WORDS * k
        count = r_q[at + ADD_CELLS]
        first = r_q[at + ADD_FIRST] + row * count
        if r_q[at + ADD_OPERAND] == 0:
            target = s_q[G] + 8 * (w[CALL_A] + first * w[CALL_A_STEP])
            added(target, w[CALL_A_STEP], r_q[at + ADD_ADDRESS], count)


"""

_LOOPS = """def carried(s_q, table, rows):
    # Copy cells of the body to other cells of it, or to those of the test.
    r_q = table
    for k in range(rows):
        at = MOVE_WORDS * k
        target = r_q[at + MOVE_TARGET]
        step = r_q[at + MOVE_TARGET_STEP]
        lane = r_q[at + MOVE_TARGET_LANE]
        source = r_q[at + MOVE_SOURCE]
        lanes = s_q[LANES]
        if lane == 0:
            lanes = 1
        source_step = r_q[at + MOVE_SOURCE_STEP]
        source_lane = r_q[at + MOVE_SOURCE_LANE]
        moved(target, step, lane, source, source_step, source_lane, r_q[at + MOVE_CELLS], lanes)


def length_of(w, s_q):
    # Return how many steps there are at most.
    if s_q[STEPS] < 0:
        return s_q[LENGTH]
    d = s_q[V]
    return min(int(d[w[CALL_B] + s_q[STEPS] * w[CALL_B_STEP]]), s_q[LENGTH])


def tested(s_q):
    # Return the status of the test, or -1 if there is no further step.
    carried(s_q, s_q[TEST_CARRY], s_q[TEST_CARRY_COUNT])
    status = invoke(s_q, VALUE, s_q[TEST], 0)
    if status != 0:
        return status
    d = s_q[TEST_RESULT]
    if d[0] == 0.0:
        return -1
    return 0


def steps(w, s_q):
    taken(w, s_q, s_q[ENTER], s_q[ENTER_COUNT], 0)
    taken(w, s_q, s_q[TEST_ENTER], s_q[TEST_ENTER_COUNT], 0)
    length = length_of(w, s_q)
    step = -1
    more = 0
    left = s_q[EVERY]
    while True:
        step += 1
        left -= 1
        if left == 0:
            left = s_q[EVERY]
            if invoke(s_q, LOOK, 0, 0) != 0:
                return stopped_at(w, s_q, INTERRUPTED)
        if s_q[TEST] != 0:
            status = tested(s_q)
            if status > 0:
                s_q[TESTING] = 1
                return stopped_at(w, s_q, status)
            if status < 0:
                break
            more = 1
        if step >= length:
            if more != 0 and s_q[STRICT] != 0:
                return stopped_at(w, s_q, TOO_MANY)
            break
        more = 0
        row = step
        if s_q[BACKWARDS] != 0:
            row = length - 1 - step
        taken(w, s_q, s_q[SLICES], s_q[SLICES_COUNT], row)
        given(w, s_q, s_q[HISTORY], s_q[HISTORY_COUNT], row)
        if s_q[SAVING] != 0 and s_q[RECOMPUTE] != 0:
            save(s_q, step)
        status = invoke(s_q, VALUE, s_q[FRAME], 0)
        if status != 0:
            return stopped_at(w, s_q, status)
        if s_q[SAVING] != 0 and s_q[RECOMPUTE] == 0:
            save(s_q, step)
        given(w, s_q, s_q[OUTPUTS], s_q[OUTPUTS_COUNT], row)
        carried(s_q, s_q[CARRY], s_q[CARRY_COUNT])
    if s_q[TEST] != 0:
        d = s_q[V]
        for lane in range(s_q[LANES]):
            counted = w[CALL_OUT] + s_q[COUNTED] + lane * s_q[LANE_OUT]
            d[counted] = float(step)
            d[counted + 1] = float(more)
    given(w, s_q, s_q[LEAVE], s_q[LEAVE_COUNT], 0)
    return 0


def stacked(s_q):
    # Put what deferred products are of behind the rows of the steps before; multiply full stacks.
    r_q = s_q[PARTS]
    for k in range(s_q[PARTS_COUNT]):
        at = PART_WORDS * k
        rows = r_q[at + PART_ROWS]
        count = r_q[at + PART_CELLS]
        target = r_q[at + PART_STACK] + s_q[HELD_STEPS] * r_q[at + PART_BYTES]
        source = r_q[at + PART_SOURCE]
        for row in range(rows):
            copied(target, source, r_q[at + PART_STEP], count)
            target += 8 * count
            source += 8 * r_q[at + PART_ROW_STEP]
    s_q[HELD_STEPS] += 1
    if s_q[HELD_STEPS] == s_q[MOST_HELD]:
        multiplied(s_q)


def multiplied(s_q):
    # Add the deferred products of the steps whose rows the stacks hold.
    r_q = s_q[PRODUCTS]
    for k in range(s_q[PRODUCTS_COUNT]):
        at = PRODUCT_WORDS * k
        g = r_q[at + PRODUCT_TARGET]
        v = r_q[at + PRODUCT_LEFT]
        dv = r_q[at + PRODUCT_RIGHT]
        m = r_q[at + PRODUCT_LEFT_CELLS]
        n = r_q[at + PRODUCT_RIGHT_CELLS]
        rows = s_q[HELD_STEPS] * r_q[at + PRODUCT_ROWS]
        row_step = r_q[at + PRODUCT_ROW_STEP]
        step = r_q[at + PRODUCT_STEP]
        block = max(1, ONE_THREAD // (n * rows))
        first = 0
        while first < m:  # OpenBLAS divides a larger product among threads
            left = min(block, m - first)
            gemm(g, first * row_step, row_step, step, v, first, 1, m, dv, 0, n, 1, left, n, rows, 1.0, 1.0)
            first += block
    s_q[HELD_STEPS] = 0


def step_back(w, s_q, step, length):
    row = step
    if s_q[BACKWARDS] != 0:
        row = length - 1 - step
    zeroed(s_q)
    restore(s_q, step)
    if s_q[RECOMPUTE] != 0:
        taken(w, s_q, s_q[SLICES], s_q[SLICES_COUNT], row)
        status = invoke(s_q, VALUE, s_q[FRAME], 0)
        if status != 0:
            return stopped_at(w, s_q, status)
    r_q = s_q[SEED_CARRY]
    for k in range(s_q[SEED_CARRY_COUNT]):
        at = SEED_WORDS * k
        if r_q[at + SEED_ADDRESS] != 0:
            source = s_q[COTANGENTS] + 8 * r_q[at + SEED_PLACE]
            added(r_q[at + SEED_ADDRESS], 1, source, r_q[at + SEED_CELLS])
    seeded(w, s_q, row)
    status = invoke(s_q, PULLBACK, s_q[FRAME], 0)
    if status != 0:
        return stopped_at(w, s_q, status)
    if s_q[PARTS_COUNT] != 0:
        stacked(s_q)
    r_q = s_q[BACK_CARRY]
    for k in range(s_q[BACK_CARRY_COUNT]):
        at = BACK_WORDS * k
        count = r_q[at + BACK_CELLS]
        place = s_q[COTANGENTS] + 8 * r_q[at + BACK_PLACE]
        copied(place, r_q[at + BACK_ADDRESS], 1, count)
        history = r_q[at + BACK_HISTORY]
        if history >= 0:
            added(place, 1, s_q[G] + 8 * (w[CALL_OUT] + history + row * count), count)
    added_back(w, s_q, s_q[BACK_SLICES], s_q[BACK_SLICES_COUNT], row)
    return 0


def back(w, s_q):
    if s_q[AGAIN] != 0:
        status = steps(w, s_q)
        if status != 0:
            return status
    out = s_q[G] + 8 * w[CALL_OUT]
    r_q = s_q[KEPT]
    for k in range(s_q[KEPT_COUNT]):
        at = KEEP_WORDS * k
        clear(r_q[at + KEEP_ADDRESS], 0, r_q[at + KEEP_CELLS], 8)
        if r_q[at + KEEP_FIRST] >= 0:
            copied(r_q[at + KEEP_ADDRESS], out + 8 * r_q[at + KEEP_FIRST], 1, r_q[at + KEEP_CELLS])
    r_q = s_q[SEED_CARRY]
    for k in range(s_q[SEED_CARRY_COUNT]):
        at = SEED_WORDS * k
        place = s_q[COTANGENTS] + 8 * r_q[at + SEED_PLACE]
        copied(place, out + 8 * r_q[at + SEED_FIRST], 1, r_q[at + SEED_CELLS])
    s_q[HELD_STEPS] = 0
    length = length_of(w, s_q)
    if s_q[TEST] != 0:
        d = s_q[V]
        length = int(d[w[CALL_OUT] + s_q[COUNTED]])
    step = length
    left = s_q[EVERY]
    while step > 0:
        step -= 1
        left -= 1
        if left == 0:
            left = s_q[EVERY]
            if invoke(s_q, LOOK, 0, 0) != 0:
                return stopped_at(w, s_q, INTERRUPTED)
        status = step_back(w, s_q, step, length)
        if status != 0:
            return status
    r_q = s_q[BACK_CARRY]
    for k in range(s_q[BACK_CARRY_COUNT]):
        at = BACK_WORDS * k
        if r_q[at + BACK_OPERAND] == 0:
            target = s_q[G] + 8 * (w[CALL_A] + r_q[at + BACK_FIRST] * w[CALL_A_STEP])
            source = s_q[COTANGENTS] + 8 * r_q[at + BACK_PLACE]
            added(target, w[CALL_A_STEP], source, r_q[at + BACK_CELLS])
    if s_q[HELD_STEPS] != 0:
        multiplied(s_q)
    added_back(w, s_q, s_q[BACK_KEPT], s_q[BACK_KEPT_COUNT], 0)
    return 0


def reverse(w, pc):
    return back(w, pc)
"""


FEW = 12  # copying so many cells one by one takes no longer than a call of memcpy
TOO_MANY = 99  # This is no status of a sweep; it says that there would be more steps than a loop may take.
# This is no status of a sweep, either; it says that a signal's handler has raised an exception.
INTERRUPTED = 98
ALONE_STOPPED = 97  # nor this, which says that the loop of a single lane has stopped


def _numbers() -> str:
    numbers = {name: k for name, k in vars(call_words).items() if name.startswith("CALL_")}
    numbers |= WORD | BRANCH_WORD | FIELDS | LENGTHS
    numbers |= {"TOO_MANY": TOO_MANY, "INTERRUPTED": INTERRUPTED, "NO_BODY": NO_BODY, "GUARD": status.GUARD}
    numbers |= {"FEW": FEW, "ONE_THREAD": ONE_THREAD, "ALONE_STOPPED": ALONE_STOPPED}
    numbers |= {"FEW_STEPS": FEW_STEPS, "PART": PART}
    return "".join(f"{name} = {value}\n" for name, value in numbers.items())


@functools.cache
def loop_source() -> str:
    """Return the module of the kernels of loops."""
    return _numbers() + _SHARED + _LOOPS + LANES_TEXT


@functools.cache
def body_source() -> str:
    """Return the module of the kernels of bodies that run once; who calls these needs no loop."""
    return _numbers() + _SHARED + BRANCH_TEXT
