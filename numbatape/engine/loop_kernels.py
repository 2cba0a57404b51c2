"""The kernels of loops: they run a body's sweeps once a step and move cells in between.

Each kernel gets the words of the ``call`` instruction (`numbatape.ops.calls`) and the loop's state: 64-bit
words, named by `STATE`, that `numbatape.engine.loop_tables` fills in. Copies are rows of tables, whose
addresses are in the state.
"""

from __future__ import annotations

import functools

from ..jit.rules import COPY, FAILED, NUMBER, RAISED, STATUS
from ..ops import status
from .branch_kernels import BRANCH_TEXT, BRANCH_WORD, NO_BODY

STATE = (
    "VALUE",  # addresses of the entry points of the body's sweeps
    "PULLBACK",
    "FRAME",  # address of the body's frame
    "V",  # base addresses of the cells that the instruction's words count from
    "G",
    "LENGTH",
    "BACKWARDS",  # whether the last row comes first
    "SAVING",  # whether a reverse sweep will follow, so that cells are saved in each step
    "AGAIN",  # whether the reverse kernel runs the steps first, as saved cells may be those of other operands
    "RECOMPUTE",  # whether the reverse kernel runs each step forward again, after restoring its carries
    "STACK",  # address of the saved cells
    "STACK_BYTES",  # of a step
    "TESTING",  # out: whether it was the test that stopped
    "STOPPED",  # out: the status that a step stopped with
    "COTANGENTS",  # address of the carries' cotangents, between steps
    "LANES",  # how many lanes the first call of an instruction computes at once, see `forward`
    "FIRST",  # with lanes: where the result of that call begins
    "LANE_A",  # steps from lane to lane, in cells: of both operands and of the result
    "LANE_B",
    "LANE_OUT",
    "STEPS",  # where the second operand has the number of steps; -1 where it is LENGTH
    "TEST",  # address of the frame of the test before each step, or 0
    "TEST_RESULT",  # address of what it gives
    "STRICT",  # with a test: whether it is an error if there would be more steps than LENGTH
    "RESULT",  # cells of the result, if a body that runs once does not write all of them; else 0
    "LOOK",  # address of what looks for Ctrl-C
    "EVERY",  # after how many steps it is called; 0 for never
    "COUNTED",  # with a test: where the result has the number of steps, and whether there would be more
)
# Tables: their addresses, then (as words of their own) how many rows each has. Cells of the body are given by
# their address, number and steps: from cell to cell, and from lane to lane (0 where all lanes share them).
TABLES = (
    "ENTER",  # (operand, first, address, count, step, lane): carries, captures, sums; before the first step
    "TEST_ENTER",  # the same, of the test's captures
    "TEST_CARRY",  # as CARRY: carries, to the test's inputs
    "SLICES",  # as ENTER: of rows of stacked operands
    "HISTORY",  # (address, first, count, step, lane): carries before a step, to rows of the result
    "OUTPUTS",  # the same: outputs of a step, to rows of the result
    "CARRY",  # (source address, target address, count, step, lane of the source, step, lane of the target)
    "LEAVE",  # as HISTORY: the last carries and sums, to the result
    "SAVED",  # (address, bytes)
    "CLEARED",  # (address, bytes): adjoints that are zero before a step is swept back
    "KEPT",  # (address, count, first or -1): adjoints of captures; of sums, copied from the result
    "SEED_CARRY",  # (address or 0, first, count, place): adjoints of carries; place among the cotangents
    "SEED_ROWS",  # (address, first, count): adjoints of stacked outputs
    "BACK_CARRY",  # (address, operand, first, count, place, first of the history or -1)
    "BACK_SLICES",  # (address, operand, first, count)
    "BACK_KEPT",  # (address, operand, first, count)
)
WORDS = (*STATE, *TABLES, *(f"{name}_COUNT" for name in TABLES))
WORD = {name: k for k, name in enumerate(WORDS)}

_TEXT = """
def copied(target, source, step, count):
    t_q = target
    s_q = source
    if count == 1:
        t_q[0] = s_q[0]
    elif step == 1:
        copy_bytes(target, source, 8 * count)
    else:
        for i in range(count):
            t_q[i] = s_q[i * step]


def added(dg, step, d, count):
    for i in range(count):
        dg[i * step] += d[i]


def moved(target, tstep, tlane, source, sstep, slane, count, lanes):
    if lanes == 1 and tstep == 1:
        copied(target, source, sstep, count)
    else:
        for lane in range(lanes):
            t_q = target + 8 * lane * tlane
            s_q = source + 8 * lane * slane
            for i in range(count):
                t_q[i * tstep] = s_q[i * sstep]


def taken(w, s_q, table, rows, row):
    # Copy parts of the operands, or of row number ``row`` of stacked ones, into the body's inputs.
    r_q = table
    for k in range(rows):
        at = 6 * k
        count = r_q[at + 3]
        first = r_q[at + 1] + row * count
        lane = r_q[at + 5]
        lanes = s_q[LANES]
        if lane == 0:
            lanes = 1
        if r_q[at] == 0:
            source = s_q[V] + 8 * (w[2] + first * w[4])
            moved(r_q[at + 2], r_q[at + 4], lane, source, w[4], s_q[LANE_A], count, lanes)
        else:
            source = s_q[V] + 8 * (w[5] + first * w[7])
            moved(r_q[at + 2], r_q[at + 4], lane, source, w[7], s_q[LANE_B], count, lanes)


def given(w, s_q, table, rows, row):
    # Copy cells of the body into the result, or into row number ``row`` of its stacked parts.
    r_q = table
    for k in range(rows):
        at = 5 * k
        count = r_q[at + 2]
        target = s_q[V] + 8 * (w[0] + r_q[at + 1] + row * count)
        moved(target, 1, s_q[LANE_OUT], r_q[at], r_q[at + 3], r_q[at + 4], count, s_q[LANES])


def carried(s_q, table, rows):
    r_q = table
    for k in range(rows):
        at = 7 * k
        lanes = s_q[LANES]
        if r_q[at + 6] == 0:
            lanes = 1
        moved(r_q[at + 1], r_q[at + 5], r_q[at + 6], r_q[at], r_q[at + 3], r_q[at + 4], r_q[at + 2], lanes)


def stopped_at(w, s_q, status):
    # Tell `numbatape.engine.calls` that this call has failed.
    s_q[STOPPED] = status
    for k in range(CALL_NUMBER + 1):
        w[CALL_COPY + k] = w[k]
    w[CALL_FAILED] = 1
    t_q = w[CALL_RAISED]
    t_q[0] = w[CALL_STATUS]
    return w[CALL_STATUS]


def length_of(w, s_q):
    # Return how many steps there are at most.
    if s_q[STEPS] < 0:
        return s_q[LENGTH]
    d = s_q[V]
    return min(int(d[w[5] + s_q[STEPS] * w[7]]), s_q[LENGTH])


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
        d[w[0] + s_q[COUNTED]] = float(step)
        d[w[0] + s_q[COUNTED] + 1] = float(more)
    given(w, s_q, s_q[LEAVE], s_q[LEAVE_COUNT], 0)
    return 0


def save(s_q, step):
    place = s_q[STACK] + step * s_q[STACK_BYTES]
    r_q = s_q[SAVED]
    for k in range(s_q[SAVED_COUNT]):
        copied(place, r_q[2 * k], 1, r_q[2 * k + 1] // 8)
        place += r_q[2 * k + 1]


def restore(s_q, step):
    place = s_q[STACK] + step * s_q[STACK_BYTES]
    r_q = s_q[SAVED]
    for k in range(s_q[SAVED_COUNT]):
        copied(r_q[2 * k], place, 1, r_q[2 * k + 1] // 8)
        place += r_q[2 * k + 1]


def zeroed(s_q):
    r_q = s_q[CLEARED]
    for k in range(s_q[CLEARED_COUNT]):
        if r_q[2 * k + 1] == 8:
            t_q = r_q[2 * k]
            t_q[0] = 0
        else:
            clear(r_q[2 * k], 0, r_q[2 * k + 1], 1)


def step_back(w, s_q, step, length):
    row = step
    if s_q[BACKWARDS] != 0:
        row = length - 1 - step
    out = s_q[G] + 8 * w[0]
    zeroed(s_q)
    restore(s_q, step)
    if s_q[RECOMPUTE] != 0:
        taken(w, s_q, s_q[SLICES], s_q[SLICES_COUNT], row)
        status = invoke(s_q, VALUE, s_q[FRAME], 0)
        if status != 0:
            return stopped_at(w, s_q, status)
    r_q = s_q[SEED_CARRY]
    for k in range(s_q[SEED_CARRY_COUNT]):
        if r_q[4 * k] != 0:
            added(r_q[4 * k], 1, s_q[COTANGENTS] + 8 * r_q[4 * k + 3], r_q[4 * k + 2])
    r_q = s_q[SEED_ROWS]
    for k in range(s_q[SEED_ROWS_COUNT]):
        count = r_q[3 * k + 2]
        added(r_q[3 * k], 1, out + 8 * (r_q[3 * k + 1] + row * count), count)
    status = invoke(s_q, PULLBACK, s_q[FRAME], 0)
    if status != 0:
        return stopped_at(w, s_q, status)
    r_q = s_q[BACK_CARRY]
    for k in range(s_q[BACK_CARRY_COUNT]):
        count = r_q[6 * k + 3]
        place = s_q[COTANGENTS] + 8 * r_q[6 * k + 4]
        copied(place, r_q[6 * k], 1, count)
        if r_q[6 * k + 5] >= 0:
            added(place, 1, out + 8 * (r_q[6 * k + 5] + row * count), count)
    r_q = s_q[BACK_SLICES]
    for k in range(s_q[BACK_SLICES_COUNT]):
        count = r_q[4 * k + 3]
        first = r_q[4 * k + 2] + row * count
        if r_q[4 * k + 1] == 0:
            added(s_q[G] + 8 * (w[2] + first * w[4]), w[4], r_q[4 * k], count)
    return 0


def forward(w, pc):
    # An instruction with lanes is called once for each. Where the body has lanes, too, the call for the first
    # one computes all of them.
    s_q = pc
    if s_q[LANES] > 1 and w[0] != s_q[FIRST]:
        return 0
    return steps(w, s_q)


def back(w, s_q):
    if s_q[AGAIN] != 0:
        status = steps(w, s_q)
        if status != 0:
            return status
    out = s_q[G] + 8 * w[0]
    r_q = s_q[KEPT]
    for k in range(s_q[KEPT_COUNT]):
        clear(r_q[3 * k], 0, r_q[3 * k + 1], 8)
        if r_q[3 * k + 2] >= 0:
            copied(r_q[3 * k], out + 8 * r_q[3 * k + 2], 1, r_q[3 * k + 1])
    r_q = s_q[SEED_CARRY]
    for k in range(s_q[SEED_CARRY_COUNT]):
        copied(s_q[COTANGENTS] + 8 * r_q[4 * k + 3], out + 8 * r_q[4 * k + 1], 1, r_q[4 * k + 2])
    length = length_of(w, s_q)
    if s_q[TEST] != 0:
        d = s_q[V]
        length = int(d[w[0] + s_q[COUNTED]])
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
        if r_q[6 * k + 1] == 0:
            place = s_q[COTANGENTS] + 8 * r_q[6 * k + 4]
            added(s_q[G] + 8 * (w[2] + r_q[6 * k + 2] * w[4]), w[4], place, r_q[6 * k + 3])
    r_q = s_q[BACK_KEPT]
    for k in range(s_q[BACK_KEPT_COUNT]):
        if r_q[4 * k + 1] == 0:
            added(s_q[G] + 8 * (w[2] + r_q[4 * k + 2] * w[4]), w[4], r_q[4 * k], r_q[4 * k + 3])
    return 0


def reverse(w, pc):
    return back(w, pc)


"""


TOO_MANY = 99  # no status of a sweep: there would be more steps than a loop may take
INTERRUPTED = 98  # nor is this: a signal's handler has raised an exception


@functools.cache
def loop_source() -> str:
    """Return the module of the loops' kernels."""
    numbers = {f"CALL_{name}": value for name, value in _CALL_WORDS.items()} | WORD | BRANCH_WORD
    numbers |= {"TOO_MANY": TOO_MANY, "INTERRUPTED": INTERRUPTED, "NO_BODY": NO_BODY, "GUARD": status.GUARD}
    return "".join(f"{name} = {value}\n" for name, value in numbers.items()) + _TEXT + BRANCH_TEXT


_CALL_WORDS = {"NUMBER": NUMBER, "RAISED": RAISED, "STATUS": STATUS, "FAILED": FAILED, "COPY": COPY}
