"""The call of a rule that the user has written: Python (or what Python calls), by function pointer.

Operands are the rule's arguments, flattened one after the other: those that its pullback is for, and
those that it is not for. The kernel writes where they are into the ``CALL`` words, and calls what
`numbatape.engine.calls` has put into the frame, with the call's number and the result's cell.
"""

from .table import array_op


def place(call_q, o, m, a, n, sa0, b, p, sb0):
    """Write where a call's result and its operands are."""
    call_q[0] = o
    call_q[1] = m
    call_q[2] = a
    call_q[3] = n
    call_q[4] = sa0
    call_q[5] = b
    call_q[6] = p
    call_q[7] = sb0


@array_op("call", "(n),(p),()->(m)", index="c")
class Call:
    """Result m of arguments n and p; c is the number of the call on its tape."""

    def forward(w, d, o, a, b, c, n, p, m, sa0, sb0):
        place(w[CALL], o, m, a, n, sa0, b, p, sb0)  # noqa: F821  (a word of the frame)
        return invoke(w[CALLS], 0, int(d[c]), o)  # noqa: F821

    def reverse(w, d, o, a, b, c, n, p, m, sa0, sb0, need_b):
        place(w[CALL], o, m, a, n, sa0, b, p, sb0)  # noqa: F821  (a word of the frame)
        invoke(w[CALLS], 1 + need_b, int(d[c]), o)  # noqa: F821
