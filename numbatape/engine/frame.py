"""The frame: one array of 64-bit words, whose address is all that crosses into a kernel."""

from __future__ import annotations

from ..ops.text import names_in

WORDS = (
    "CODE",  # address of the plan's instructions, six 32-bit words each
    "AUX",  # address of the plan's records, 32-bit words
    "V64",  # address of float64 value cell 0
    "G64",  # where the adjoint of float64 cell 0 would be; only active cells have adjoints
    "V32",
    "G32",
    "FORWARD",  # address of the table of forward kernels, by kernel number
    "REVERSE",
    "COUNT",  # instructions
    "SPLIT",  # instructions of the prologue
    "UNIFORM",  # the first instruction that depends on lanes
    "STOPPED",  # out: the instruction that a sweep stopped at
    "FIRST64",  # active cells: first and number
    "CELLS64",
    "FIRST32",
    "CELLS32",
    "SEEDS",  # address of (family, first cell, cells) per output
    "SEED_COUNT",
    "SEED_DATA",  # address of the cotangents, float64
    "WATCH",  # address of (array, what it was, bytes, whether it has integers) per watched constant
    "WATCH_COUNT",
    "COPY_IN",  # address of (target, source, bytes), bound inputs
    "COPY_IN_COUNT",
    "COPY_OUT",  # the same, bound gradients
    "COPY_OUT_COUNT",
    "CALLS",  # address of the addresses of three functions that call rules, forward and back
    "CALL",  # address of what kernels tell them: first cell, size (and stride) of result and operands
    "RAISED",  # out: the status of a rule that raised in a sweep
    "ITERATIONS",  # address of the address of the sweeps' function `iterations`
    "TABLE",  # what kernels tell it: the table they are in, and where a record's levels begin
    "LEVELS",  # 0 except while it runs
    "ITERATION",  # what it tells kernels: an iteration of the outer levels, and by how many cells this moves
    "MOVED_O",  # result and operands
    "MOVED_A",
    "MOVED_B",
    "MOVED_C",
    "STRIPS",  # address of the blocks that run strip by strip, see `numbatape.engine.strips.strip_kernels`
    "SWEEPS",  # address of the addresses of the functions `SWEEP_FUNCTIONS` of the forward sweeps
    "OUTSIDE",  # address of (address of an array's address, cells from there) per operand outside
    "CONTINUED",  # address of where calls go on that a guard stops (`numbatape.engine.continued`), or 0
)
WORD = {name: k for k, name in enumerate(WORDS)}
# What strips and the reverse sweeps, which are modules of their own, call.
SWEEP_FUNCTIONS = ("strip_range", "watched", "bound_forward")
SWEEP_STRIPS, SWEEP_WATCHED, SWEEP_BOUND = range(len(SWEEP_FUNCTIONS))

# A plan's instruction: word 0 is the op and, above 16 bits, which operands are active.
# Words 1 to 4 are first cells: of the result and the operands. In place of operand c an instruction that is
# called by pointer has the place of its record, and an arm of vectors the number of cells. Word 5 has the
# numbers of its arms of arithmetic (`numbatape.engine.formula_text`), 0 for most other instructions.
STRIDE = 6
CELL_O, CELL_A, CELL_B, CELL_C = 1, 2, 3, 4
RECORD_WORD = COUNT_WORD = CELL_C
ARMS = 5
ACTIVE_SHIFT = 16
OPERANDS_MASK = 7  # flags: operand k takes an adjoint (bit k)
# Flags of products: in place of its first cell, operand a or b has the number of its row of OUTSIDE.
OUTSIDE_A, OUTSIDE_B = 8, 16
OUTSIDE_WORDS = 2
# `plan_tables` has the records. In a level of one, these are the places of the strides.
LEVEL_O, LEVEL_A, LEVEL_B, LEVEL_C = 1, 2, 3, 4
# Rows of the table SEEDS: family, first cell, cells.
SEED_WORDS, SEED_CELL, SEED_CELLS = 3, 1, 2
# Rows of COPY_IN and COPY_OUT: target, source, bytes. Those of WATCH: two addresses, bytes, and whether there
# are integers of 64 bits at the first one, and the same numbers in float64 cells at the second.
MEMORY_WORDS, WATCH_WORDS, WATCH_INTEGERS = 3, 4, 3


def constants(text: str) -> str:
    """Return the frame's words that a generated text names, as assignments for its head."""
    used = names_in(text)
    return "".join(f"{name} = {k}\n" for k, name in enumerate(WORDS) if name in used)
