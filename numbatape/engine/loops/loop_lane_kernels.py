"""Kernels of loops whose lanes may take different numbers of steps.

All lanes take each step together, as long as one of them has steps left. A lane leaves when it has none: its
carries go to the result at once, and what the further steps of the others compute in its cells is never read.
Where the last row comes first, a lane enters instead, when the first of its rows is reached.

Few lanes may take many more steps than the others, and each step computes all lanes. These few are left to a
loop that computes one lane, which begins anew. If steps are counted by a test, nobody knows how many will
follow: when few lanes are left, they go on together for as many steps as there were, and then alone.
"""

from __future__ import annotations

PART = 4  # Few lanes are at most one of so many.
FEW_STEPS = 16  # and so many further steps are never worth to begin anew

LANES_TEXT = """
def left_by(w, s_q, lane):
    # Copy the carries and sums of one lane to the result.
    r_q = s_q[LEAVE]
    for k in range(s_q[LEAVE_COUNT]):
        at = OUT_WORDS * k
        target = s_q[V] + 8 * (w[CALL_OUT] + r_q[at + OUT_FIRST] + lane * s_q[LANE_OUT])
        source = r_q[at + OUT_ADDRESS] + 8 * lane * r_q[at + OUT_LANE]
        copied(target, source, r_q[at + OUT_STEP], r_q[at + OUT_CELLS])


def entered_by(w, s_q, lane):
    # Copy what one lane starts from into the inputs of the body that have lanes.
    r_q = s_q[ENTER]
    for k in range(s_q[ENTER_COUNT]):
        at = IN_WORDS * k
        gap = r_q[at + IN_LANE]
        first_cell = w[CALL_A] + lane * s_q[LANE_A]
        cell_step = w[CALL_A_STEP]
        if r_q[at + IN_OPERAND] != 0:
            first_cell = w[CALL_B] + lane * s_q[LANE_B]
            cell_step = w[CALL_B_STEP]
        if gap != 0:
            source = s_q[V] + 8 * (first_cell + r_q[at + IN_FIRST] * cell_step)
            target = r_q[at + IN_ADDRESS] + 8 * lane * gap
            moved(target, r_q[at + IN_STEP], 0, source, cell_step, 0, r_q[at + IN_CELLS], 1)


def known_counts(w, s_q):
    # Write down how many steps each lane takes, -1 for one that is left alone; return the most of the others.
    c_q = s_q[COUNTS]
    d = s_q[V]
    lanes = s_q[LANES]
    total = 0
    for lane in range(lanes):
        at = w[CALL_B] + lane * s_q[LANE_B] + s_q[STEPS] * w[CALL_B_STEP]
        count = max(0, min(int(d[at]), s_q[LENGTH]))
        c_q[lane] = count
        total += count
    limit = PART * total // lanes + FEW_STEPS
    most = 0
    for lane in range(lanes):
        if c_q[lane] > limit:
            c_q[lane] = -1
        most = max(most, c_q[lane])
    return most


def tested_lanes(s_q, step):
    # Write down which lanes take no further step; return the status of the test.
    carried(s_q, s_q[TEST_CARRY], s_q[TEST_CARRY_COUNT])
    status = invoke(s_q, VALUE, s_q[TEST], 0)
    if status == 0:
        c_q = s_q[COUNTS]
        d = s_q[TEST_RESULT]
        for lane in range(s_q[LANES]):
            if c_q[lane] > step:
                if d[lane * s_q[TEST_LANE]] == 0.0:
                    c_q[lane] = step
    return status


def running(w, s_q, step, row):
    # Let lanes leave, or enter, whose time has come; return how many have steps left.
    c_q = s_q[COUNTS]
    found = 0
    for lane in range(s_q[LANES]):
        if s_q[BACKWARDS] != 0:
            if c_q[lane] == row + 1:
                entered_by(w, s_q, lane)
            if row >= 0:
                found += 1
        else:
            if c_q[lane] == step:
                left_by(w, s_q, lane)
            if c_q[lane] > step:
                found += 1
    return found


def end_of_lanes(w, s_q, step, alone):
    # Let all lanes leave that have not left; they are left alone if they take further steps.
    c_q = s_q[COUNTS]
    d = s_q[V]
    for lane in range(s_q[LANES]):
        count = c_q[lane]
        if s_q[BACKWARDS] != 0:
            left_by(w, s_q, lane)
        elif count > step:
            if alone != 0:
                c_q[lane] = -1
            else:
                left_by(w, s_q, lane)
        if s_q[TEST] != 0:
            counted = w[CALL_OUT] + s_q[COUNTED] + lane * s_q[LANE_OUT]
            d[counted] = float(min(count, s_q[LENGTH]))
            d[counted + 1] = 0.0
            if count > s_q[LENGTH]:
                d[counted + 1] = 1.0


def steps_of_lanes(w, s_q):
    taken(w, s_q, s_q[ENTER], s_q[ENTER_COUNT], 0)
    taken(w, s_q, s_q[TEST_ENTER], s_q[TEST_ENTER_COUNT], 0)
    lanes = s_q[LANES]
    most = s_q[LENGTH]
    limit = most
    if s_q[TEST] == 0:
        most = known_counts(w, s_q)
    else:
        c_q = s_q[COUNTS]
        for lane in range(lanes):
            c_q[lane] = most + 1
    looks = s_q[EVERY]
    step = 0
    alone = 0
    few = 0
    while True:
        looks -= 1
        if looks == 0:
            looks = s_q[EVERY]
            if invoke(s_q, LOOK, 0, 0) != 0:
                return stopped_at(w, s_q, INTERRUPTED)
        if s_q[TEST] != 0:
            status = tested_lanes(s_q, step)
            if status != 0:
                s_q[TESTING] = 1
                return stopped_at(w, s_q, status)
        row = step
        if s_q[BACKWARDS] != 0:
            row = most - 1 - step
        left = running(w, s_q, step, row)
        if left == 0:
            break
        if step >= most:
            if s_q[STRICT] != 0:
                return stopped_at(w, s_q, TOO_MANY)
            break
        if s_q[TEST] != 0 and PART * left <= lanes:
            if few == 0:
                few = 1
                limit = 2 * step + FEW_STEPS
            elif step >= limit:
                alone = 1
                break
        taken(w, s_q, s_q[SLICES], s_q[SLICES_COUNT], row)
        given(w, s_q, s_q[HISTORY], s_q[HISTORY_COUNT], row)
        status = invoke(s_q, VALUE, s_q[FRAME], 0)
        if status != 0:
            return stopped_at(w, s_q, status)
        given(w, s_q, s_q[OUTPUTS], s_q[OUTPUTS_COUNT], row)
        carried(s_q, s_q[CARRY], s_q[CARRY_COUNT])
        step += 1
    end_of_lanes(w, s_q, step, alone)
    return 0


def forward(w, pc):
    # An instruction with lanes is called once for each. Where the body has lanes, too, the call for the first
    # one computes all of them, but those that are left alone.
    s_q = pc
    if s_q[LANES] == 1:
        return steps(w, s_q)
    if s_q[APART] == 0:
        if w[CALL_OUT] != s_q[FIRST]:
            return 0
        return steps(w, s_q)
    if w[CALL_OUT] == s_q[FIRST]:
        status = steps_of_lanes(w, s_q)
        if status != 0:
            return status
    c_q = s_q[COUNTS]
    if c_q[(w[CALL_OUT] - s_q[FIRST]) // s_q[LANE_OUT]] >= 0:
        return 0
    status = steps(w, s_q[ALONE])
    if status != 0:
        return stopped_at(w, s_q, ALONE_STOPPED)
    return 0
"""
