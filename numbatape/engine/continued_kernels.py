"""The kernel that goes on where a guard stops a sweep, see `numbatape.engine.continued`."""

from __future__ import annotations

from ..ops import status
from .chain import COPY_ALL
from .frame import constants

# The head of the table: the kernel itself, which the sweep calls; the sweeps that it calls; how many rows are
# behind; and the frame of the workspace that the last call has stopped in.
HEAD = ("CONTINUE", "RESUME", "PULLBACK", "ROWS", "REACHED")
ROW = (
    "STOP",  # the guard that stops the sweep
    "GUARD",  # its number in the traces, which they have in common up to there
    "FRAME",  # of the workspace in which the call goes on
    "START",  # with this instruction
    "MEETS",  # the guard in that workspace
    "NUMBER",  # by which rows behind that guard know that a call has come to that workspace here
    "AFTER",  # numbers of rows behind which this one has all that it copies: bits, of which bit 0 is for none
    "OPEN",  # counts calls that came to the end, down where one stopped in that workspace; 0: nothing goes on
    "LEFT",  # so many calls go on before one is left to Python
    "ENTER",  # addresses of what is copied to that workspace, and of its results
    "ENTER_COUNT",
    "LEAVE",
    "LEAVE_COUNT",
    "ITS_HITS",  # addresses of the numbers of calls that took each path to its end
    "OTHER_HITS",
    "BACK",  # the row by which this call came to the workspace that was stopped; 0 for none
)
MOST_OPEN = 1 << 10
MOST_NUMBERS = 61  # behind further rows, calls go on no more
# Calls come back to Python this often, which puts the other path in front where it alone is taken.
TURNS = 64

# Guards have the numbers of the order in which they were traced, and each workspace that is entered parts
# from the one before at a later guard. So no call goes on for ever.
_TEXT = """
def continued(w, pc):
    f_q = w
    came = 0
    parted = -1
    number = 0
    reached = f_q
    while f_q != 0:
        t_q = f_q[CONTINUED]
        n_q = 0
        k = 0
        rows = 0
        if t_q != 0:
            rows = t_q[{ROWS}]
        while k < rows and n_q == 0:
            row_q = t_q + {ROW_BYTES} * k + {HEAD_BYTES}
            k += 1
            fits = row_q[{STOP}] == f_q[STOPPED] and row_q[{OPEN}] > 0 and row_q[{GUARD}] > parted
            if fits and ((row_q[{AFTER}] >> number) & 1) != 0:
                if came == 0:
                    row_q[{LEFT}] -= 1
                    if row_q[{LEFT}] < 0:
                        row_q[{LEFT}] = {TURNS}
                        t_q[{REACHED}] = w
                        return {STATUS_GUARD}
                row_q[{BACK}] = came
                stopped = entered(t_q, row_q)
                if stopped == 0:
                    left(row_q)
                    return 0
                if stopped != {STATUS_GUARD}:
                    return stopped
                o_q = row_q[{FRAME}]
                if o_q[STOPPED] != row_q[{MEETS}]:
                    n_q = o_q
                    number = row_q[{NUMBER}]
                    came = row_q
                    parted = row_q[{GUARD}]
                else:
                    row_q[{OPEN}] -= 1
        reached = f_q
        f_q = n_q
    if came != 0:
        last_q = came
        last_q[{OPEN}] -= 1
    h_q = w[CONTINUED]
    h_q[{REACHED}] = reached
    return {STATUS_GUARD}


def entered(t_q, row_q):
    # Go on in another workspace.
    copy_all(row_q[{ENTER}], row_q[{ENTER_COUNT}])
    stopped = invoke(t_q, {RESUME}, row_q[{FRAME}], row_q[{START}])
    if stopped != 0 or t_q[{PULLBACK}] == 0:
        return stopped
    return invoke(t_q, {PULLBACK}, row_q[{FRAME}], 0)


def left(row):
    # Copy the results back through all workspaces that the call has come through.
    while row != 0:
        row_q = row
        copy_all(row_q[{LEAVE}], row_q[{LEAVE_COUNT}])
        its_q = row_q[{ITS_HITS}]
        its_q[0] -= 1
        other_q = row_q[{OTHER_HITS}]
        other_q[0] += 1
        if row_q[{OPEN}] < {MOST_OPEN}:
            row_q[{OPEN}] += 1
        row = row_q[{BACK}]
"""


def continued_source() -> str:
    """Return the module of the kernel."""
    text = _TEXT.format(
        HEAD_BYTES=8 * len(HEAD),
        ROW_BYTES=8 * len(ROW),
        MOST_OPEN=MOST_OPEN,
        TURNS=TURNS,
        STATUS_GUARD=status.GUARD,
        **{name: k for names in (HEAD, ROW) for k, name in enumerate(names)},
    )
    text += "\n\n" + COPY_ALL
    return "# cells: f64\n" + constants(text) + text
