"""The state of a loop, as its kernels read it: words by name, and tables of copies.

The words are 64-bit numbers that `numbatape.engine.loops.loop_tables` fills in;
`numbatape.engine.loops.loop_kernels` has the kernels.
"""

from __future__ import annotations

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
    "STACK_BYTES",  # bytes that are saved in one step
    "TESTING",  # out: whether it was the test that stopped
    "STOPPED",  # out: the status that a step stopped with
    "COTANGENTS",  # address of the carries' cotangents, between steps
    "HELD_STEPS",  # how many steps the stacks of deferred products hold
    "MOST_HELD",  # how many of them they hold at most
    "LANES",  # how many lanes the first call of an instruction computes at once, see `forward`
    "FIRST",  # where the result of that call begins, if there are lanes
    "LANE_A",  # steps from lane to lane, in cells: of both operands and of the result
    "LANE_B",
    "LANE_OUT",
    "STEPS",  # where the second operand has the number of steps; -1 where it is LENGTH
    "TEST",  # address of the frame of the test before each step, or 0
    "TEST_RESULT",  # address of what it gives
    "STRICT",  # whether more steps than LENGTH are an error, if there is a test
    "RESULT",  # cells of the result, if a body that runs once does not write all of them; else 0
    "LOOK",  # address of what looks for Ctrl-C
    "EVERY",  # after how many steps LOOK is called; 0 for never
    "TEST_LANE",  # step from lane to lane of what the test gives; 0 where all lanes share it
    "APART",  # whether lanes may take different numbers of steps (`numbatape.engine.loops.loop_lane_kernels`)
    "COUNTS",  # address of the number of steps of each lane, if they may
    "ALONE",  # address of the state of a loop that computes one lane, if they may
    "COUNTED",  # where the result has the number of steps and whether there would be more, if there is a test
)
# The rows of tables. An address is that of cells of the body; STEP and LANE are their steps from cell to cell
# and from lane to lane (0 where all lanes share them), OPERAND is 0 for the first operand of the call and 1
# for the second, FIRST is a place in that operand or in the result.
ROWS = {
    "IN": ("OPERAND", "FIRST", "ADDRESS", "CELLS", "STEP", "LANE"),  # copies from an operand to the body
    "OUT": ("ADDRESS", "FIRST", "CELLS", "STEP", "LANE"),  # copies from the body to the result
    "MOVE": ("SOURCE", "TARGET", "CELLS", "SOURCE_STEP", "SOURCE_LANE", "TARGET_STEP", "TARGET_LANE"),
    "MEMORY": ("ADDRESS", "BYTES"),
    "KEEP": ("ADDRESS", "CELLS", "FIRST"),  # FIRST is -1 for what does not stand in the result
    "SEED": ("ADDRESS", "FIRST", "CELLS", "PLACE"),  # PLACE is among the cotangents of carries
    # Additions of adjoints of the body to those of an operand.
    "ADD": ("ADDRESS", "OPERAND", "FIRST", "CELLS"),
    "PART": ("SOURCE", "ROWS", "CELLS", "ROW_STEP", "STEP", "STACK", "BYTES"),  # a matrix, to rows of a stack
    "PRODUCT": ("TARGET", "ROW_STEP", "STEP", "LEFT", "LEFT_CELLS", "RIGHT", "RIGHT_CELLS", "ROWS"),
    "BACK": ("ADDRESS", "OPERAND", "FIRST", "CELLS", "PLACE", "HISTORY"),  # HISTORY is in the result, or -1
}
# Tables, with the kind of their rows. The state has the address of each, and how many rows it has.
TABLES = {
    "ENTER": "IN",  # carries, captures and sums; before the first step
    "TEST_ENTER": "IN",  # captures of the test
    "TEST_CARRY": "MOVE",  # carries, to the inputs of the test
    "SLICES": "IN",  # rows of stacked operands
    "HISTORY": "OUT",  # carries before a step, to rows of the result
    "OUTPUTS": "OUT",  # outputs of a step, to rows of the result
    "CARRY": "MOVE",  # carries, from outputs of a step to inputs of the next one
    "LEAVE": "OUT",  # the last carries and sums
    "SAVED": "MEMORY",  # what the reverse sweep of a step reads
    "CLEARED": "MEMORY",  # adjoints that are zero before a step is swept back
    "KEPT": "KEEP",  # adjoints of captures, and of sums, which are copied from the result
    "SEED_CARRY": "SEED",  # adjoints of carries; their address is 0 where the body's output takes none
    "SEED_ROWS": "SEED",  # adjoints of stacked outputs
    "BACK_CARRY": "BACK",  # adjoints of carries, after a step was swept back
    "BACK_SLICES": "ADD",  # adjoints of rows of stacked operands
    "PARTS": "PART",  # what deferred products are of (`numbatape.engine.loops.deferred_products`), after that
    "PRODUCTS": "PRODUCT",  # the deferred products: of two stacks, to adjoints of a capture
    "BACK_KEPT": "ADD",  # adjoints of captures and sums, after all steps
}
WORDS = (*STATE, *TABLES, *(f"{name}_COUNT" for name in TABLES))
WORD = {name: k for k, name in enumerate(WORDS)}
FIELDS = {f"{kind}_{field}": k for kind, fields in ROWS.items() for k, field in enumerate(fields)}
LENGTHS = {f"{kind}_WORDS": len(fields) for kind, fields in ROWS.items()}
