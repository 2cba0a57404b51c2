"""The words that a ``call`` instruction writes for what it calls: a rule, a loop, or branches."""

# The kernel of ``call`` (`numbatape.ops.calls`) writes the words up to CALL_NUMBER: the first cell and the
# number of cells of the result and of both operands, and the operands' steps from cell to cell.
CALL_OUT = 0
CALL_OUT_CELLS = 1
CALL_A = 2
CALL_A_CELLS = 3
CALL_A_STEP = 4
CALL_B = 5
CALL_B_CELLS = 6
CALL_B_STEP = 7
CALL_NUMBER = 8  # the number of the call on its tape
# `numbatape.engine.calls` writes the others, or what is called does. Words that have no name are not used.
CALL_RAISED = 9  # address of the frame's word about failures
CALL_STATUS = 10  # what to write there
CALL_FAILED = 15  # out: the direction of a call that failed; 1 is forward, 2 is back
CALL_COPY = 16  # out: the words of that call, as many as there are before this one
CALL_WORDS = 32  # how many words there are
