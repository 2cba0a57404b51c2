"""The kernels of bodies that run once: one by itself, or one of several branches.

They call functions of `numbatape.engine.loops.loop_kernels`.
"""

from __future__ import annotations

BRANCH_STATE = (
    "BRANCH_V",  # base address of the cells
    "BRANCH_INDEX",  # where the second operand has the number of the body to run; -1 if guards choose
    "BRANCH_BODIES",  # how many bodies there are
    "BRANCH_STATES",  # address of the addresses of their states
    "BRANCH_CHOSEN",  # out: the body that ran or stopped, or NO_BODY
    "BRANCH_PLACE",  # where the result gets the number of the body that guards have chosen
)
BRANCH_WORD = {name: k for k, name in enumerate(BRANCH_STATE)}

NO_BODY = 1 << 30  # This is no number of a body; it says that the guards of none of them hold.

BRANCH_TEXT = """def run_once(w, s_q):
    # Run a body of one step; return the status of its sweep.
    if s_q[RESULT] != 0:
        for lane in range(s_q[LANES]):
            clear(s_q[V], w[CALL_OUT] + lane * s_q[LANE_OUT], s_q[RESULT], 8)
    taken(w, s_q, s_q[ENTER], s_q[ENTER_COUNT], 0)
    status = invoke(s_q, VALUE, s_q[FRAME], 0)
    if status != 0:
        return status
    if s_q[SAVING] != 0:
        save(s_q, 0)
    given(w, s_q, s_q[OUTPUTS], s_q[OUTPUTS_COUNT], 0)
    return 0


def once(w, pc):
    s_q = pc
    if s_q[LANES] > 1 and w[CALL_OUT] != s_q[FIRST]:
        return 0
    status = run_once(w, s_q)
    if status != 0:
        return stopped_at(w, s_q, status)
    return 0


def once_back(w, pc):
    s_q = pc
    if s_q[AGAIN] != 0:
        taken(w, s_q, s_q[ENTER], s_q[ENTER_COUNT], 0)
        status = invoke(s_q, VALUE, s_q[FRAME], 0)
        if status != 0:
            return stopped_at(w, s_q, status)
    else:
        restore(s_q, 0)
    zeroed(s_q)
    seeded(w, s_q, 0)
    status = invoke(s_q, PULLBACK, s_q[FRAME], 0)
    if status != 0:
        return stopped_at(w, s_q, status)
    added_back(w, s_q, s_q[BACK_KEPT], s_q[BACK_KEPT_COUNT], 0)
    return 0


def first_that_holds(w, b_q):
    # Run the first body whose guards hold, and note in the result which one that is.
    s_q = b_q[BRANCH_STATES]
    for k in range(b_q[BRANCH_BODIES]):
        status = run_once(w, s_q[k])
        if status == 0:
            d = b_q[BRANCH_V]
            d[w[CALL_OUT] + b_q[BRANCH_PLACE]] = float(k)
            return 0
        if status != GUARD:
            b_q[BRANCH_CHOSEN] = k
            return stopped_at(w, s_q[k], status)
    b_q[BRANCH_CHOSEN] = NO_BODY
    return stopped_at(w, s_q[0], GUARD)


def chosen(w, b_q):
    d = b_q[BRANCH_V]
    if b_q[BRANCH_INDEX] < 0:
        return int(d[w[CALL_OUT] + b_q[BRANCH_PLACE]])
    index = d[w[CALL_B] + b_q[BRANCH_INDEX] * w[CALL_B_STEP]]
    last = b_q[BRANCH_BODIES] - 1
    choice = 0
    if index >= last:
        choice = last
    elif index > 0.0:
        choice = int(index)
    return choice


def branch(w, pc):
    b_q = pc
    if b_q[BRANCH_INDEX] < 0:
        return first_that_holds(w, b_q)
    choice = chosen(w, b_q)
    b_q[BRANCH_CHOSEN] = choice
    s_q = b_q[BRANCH_STATES]
    return once(w, s_q[choice])


def branch_back(w, pc):
    b_q = pc
    choice = chosen(w, b_q)
    b_q[BRANCH_CHOSEN] = choice
    s_q = b_q[BRANCH_STATES]
    return once_back(w, s_q[choice])
"""
