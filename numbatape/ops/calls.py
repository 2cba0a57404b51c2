"""The call of a rule that the user has written: Python (or what Python calls), by function pointer.

Operands are the rule's arguments, flattened one after the other: those that its pullback is for, and
those that it is not for. What the kernel knows it writes into the frame's ``CALL`` words, and calls
what `numbatape.engine.calls` has put there.
"""

from .table import array_op


@array_op("call", "(n),(p),()->(m)", index="c")
class Call:
    """Result m of arguments n and p; c is the number of the call on its tape."""

    def forward(w, d, o, a, b, c, n, p, m, sa0, sb0):
        call_q = w[CALL]  # noqa: F821  (a word of the frame)
        call_q[0] = int(d[c])
        call_q[1] = o
        call_q[2] = m
        call_q[3] = a
        call_q[4] = n
        call_q[5] = sa0
        call_q[6] = b
        call_q[7] = p
        call_q[8] = sb0
        return invoke(w[CALLS], 0, w, o)  # noqa: F821

    def reverse(w, d, o, a, b, c, n, p, m, sa0, sb0, need_b):
        call_q = w[CALL]  # noqa: F821
        call_q[0] = int(d[c])
        call_q[1] = o
        call_q[2] = m
        call_q[3] = a
        call_q[4] = n
        call_q[5] = sa0
        call_q[6] = b
        call_q[7] = p
        call_q[8] = sb0
        call_q[9] = need_b
        invoke(w[CALLS], 1, w, o)  # noqa: F821
