"""The call of a rule that the user has written, by function pointer.

The two operands are the rule's arguments, flattened one after the other: those that its pullback has
cotangents for, and all others. The kernel writes their places, and the call's number, into the ``CALL``
words, and calls what `numbatape.engine.calls` has put into the frame for this number: Python, or a rule
compiled by Numba (`numbatape.jit.rules`), which needs no interpreter lock.
"""

from ..jit.call_words import (
    CALL_A,
    CALL_A_CELLS,
    CALL_A_STEP,
    CALL_B,
    CALL_B_CELLS,
    CALL_B_STEP,
    CALL_NUMBER,
    CALL_OUT,
    CALL_OUT_CELLS,
)
from .dependencies import dense, everything
from .table import array_op

# The table behind the frame's word CALLS has this many entries for each call: the addresses of the forward
# function, of the reverse function, of the reverse function where b takes an adjoint, and of the state.
ENTRIES = 4
BACK = 1  # where the reverse function is; the one that serves b, too, comes next
STATE = 3


def place(call_q, o, m, a, n, sa0, b, p, sb0, number):
    """Write where a call's result and its operands are."""
    call_q[CALL_OUT] = o
    call_q[CALL_OUT_CELLS] = m
    call_q[CALL_A] = a
    call_q[CALL_A_CELLS] = n
    call_q[CALL_A_STEP] = sa0
    call_q[CALL_B] = b
    call_q[CALL_B_CELLS] = p
    call_q[CALL_B_STEP] = sb0
    call_q[CALL_NUMBER] = number


@array_op("call", "(n),(p),()->(m)", index="c", fallible=True, calls=True)
class Call:
    """Result m of arguments n and p; c is the number of the call on its tape."""

    depends, interacts = dense, everything

    def forward(w, d, o, a, b, c, n, p, m, sa0, sb0):
        number = int(d[c])
        place(w[CALL], o, m, a, n, sa0, b, p, sb0, number)  # noqa: F821  (a word of the frame)
        table_q = w[CALLS]  # noqa: F821
        at = ENTRIES * number
        return invoke(table_q, at, w[CALL], table_q[at + STATE])  # noqa: F821

    def reverse(w, d, o, a, b, c, n, p, m, sa0, sb0, need_b):
        number = int(d[c])
        place(w[CALL], o, m, a, n, sa0, b, p, sb0, number)  # noqa: F821  (a word of the frame)
        table_q = w[CALLS]  # noqa: F821
        at = ENTRIES * number
        invoke(table_q, at + BACK + need_b, w[CALL], table_q[at + STATE])  # noqa: F821
