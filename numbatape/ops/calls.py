"""The call of a rule that the user has written, by function pointer.

The two operands are the rule's arguments, flattened one after the other: those that its pullback has
cotangents for, and all others. The kernel writes their places, and the call's number, into the ``CALL``
words, and calls what `numbatape.engine.calls` has put into the frame for this number: Python, or a rule
compiled by Numba (`numbatape.jit.rules`), which needs no interpreter lock.
"""

from .dependencies import dense, everything
from .table import array_op

# The table behind CALLS has this many entries for each call: the addresses of the forward function, of the
# reverse function, of the reverse function where b takes an adjoint, and of the rule's state.
ENTRIES = 4


def place(call_q, o, m, a, n, sa0, b, p, sb0, number):
    """Write where a call's result and its operands are."""
    call_q[0] = o
    call_q[1] = m
    call_q[2] = a
    call_q[3] = n
    call_q[4] = sa0
    call_q[5] = b
    call_q[6] = p
    call_q[7] = sb0
    call_q[8] = number


@array_op("call", "(n),(p),()->(m)", index="c", fallible=True, calls=True)
class Call:
    """Result m of arguments n and p; c is the number of the call on its tape."""

    depends, interacts = dense, everything

    def forward(w, d, o, a, b, c, n, p, m, sa0, sb0):
        number = int(d[c])
        place(w[CALL], o, m, a, n, sa0, b, p, sb0, number)  # noqa: F821  (a word of the frame)
        table_q = w[CALLS]  # noqa: F821
        return invoke(table_q, ENTRIES * number, w[CALL], table_q[ENTRIES * number + 3])  # noqa: F821

    def reverse(w, d, o, a, b, c, n, p, m, sa0, sb0, need_b):
        number = int(d[c])
        place(w[CALL], o, m, a, n, sa0, b, p, sb0, number)  # noqa: F821  (a word of the frame)
        table_q = w[CALLS]  # noqa: F821
        at = ENTRIES * number
        invoke(table_q, at + 1 + need_b, w[CALL], table_q[at + 3])  # noqa: F821
