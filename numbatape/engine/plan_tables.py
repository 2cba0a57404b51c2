"""The tables that the kernels of plans read: names of their words, and functions that read them.

The text of this file stands in front of that of each kernel of plans (`numbatape.engine.verify_plan`). It is
in the kernel language. An argument ``w`` is an array of 64-bit words, whose numbers are named below; most of
them are addresses. By their names ``*_t`` are arrays of 32-bit integers, ``*_q`` of 64-bit ones.
"""

from __future__ import annotations

# The words of ``w``: what derive() and verify() read and write. numbatape.tape.tape describes the tape's
# arrays.
TAPE = 0  # the tape's instructions
ROWS = 1  # number of instructions
VALUES = 2
LAYOUTS = 3  # where each layout's dimensions and strides begin in the next two arrays, and how many there are
LAYOUT_DIMS = 4
LAYOUT_STRIDES = 5
SIZE_VALUES = 6  # evaluated size expressions
STORAGES = 7
OP_INFO = 8  # the op table
ENGINE_CODE = 9  # out: the plan's instructions
ENGINE_AUX = 10  # out: their records
AUX_USED = 11  # out: words of all records
BAD = 12  # out: the instruction that failed
OP_COUNT = 13  # kernel numbers that there are
SPLIT_AT = 14  # instructions of the prologue
LOW = 15  # scratch of verify(): the lowest and the highest cell of an operand, relative to its first one
HIGH = 16
# What arms() reads, see `numbatape.engine.formula_text`.
LINKED = 17  # for each opcode of arithmetic: operands that its arms take from a register (bits)
ARM_NUMBERS = 18  # word `ARMS_WORD` by op, active operands and key
READ_ONCE = 19  # for each instruction: whether its result is a number that is read once
LAST_ARITHMETIC = 20  # the last opcode of arithmetic

# An instruction of a tape: op (and, above 16 bits, which operands are active), result, operands a b c, aux.
TAPE_WORDS = 6
OUT = 1  # the operands follow it, so OUT + j is operand j, the result being number 0
AUX = 5

# A value: storage, offset, layout. A layout: start, rank. A storage: first cell, end, family, level.
VALUE_WORDS = 3
OFFSET = 1
LAYOUT = 2
LAYOUT_WORDS = 2
RANK = 1
STORAGE_WORDS = 4
END = 1
FAMILY = 2
LEVEL_OF = 3

# An instruction of a plan: op (and active operands), the first cells of result, a, b, c. In place of c one
# that is called by pointer has the place of its record, and an arm of a vector its number of cells. Then the
# numbers of its arms of arithmetic.
CODE_WORDS = 6
CELL = 1  # CELL + j is the first cell of operand j
RECORD = 4
ARMS_WORD = 5

# The record of a loop: levels, then the innermost loop as n, so, sa, sb, sc, then the first cell of c.
LOOP_COUNT = 1
LOOP_STRIDES = 2
LOOP_THIRD = 6
LOOP_HEAD = 7
# The record of an array op: levels, first cells of c and of the scratch, scratch cells of one batch
# element, then a size for each letter of its signature, and the strides of each operand's core axes.
CORE_THIRD = 1
CORE_SCRATCH = 2
CORE_CELLS = 3
CORE_HEAD = 4
# The further levels of either record: n, so, sa, sb, sc. LEVEL_STRIDES + j is the stride of operand j, the
# result being number 0.
LEVEL = 5
LEVEL_STRIDES = 1

# A row of the op table: kind, arity, number of letters, core ranks of o a b c, the numbers of their letters
# (at most three each), flags, opcode of the first vector arm (0 if there is none). Flags: bit j, operand j
# may take an adjoint; bit POSITIONS + j, operand j holds positions in float64 cells; bit FREE_STRIDES, the
# result may have any strides.
INFO = 21
ARITY = 1
LETTERS = 2
CORE_RANKS = 3
LETTER_NUMBERS = 7
MOST_LETTERS = 3
FLAGS = 19
VECTOR = 20
POSITIONS = 8
FREE_STRIDES = 12
# Kinds of ops.
HOT = 0
LOOP = 1
CORE = 2
CAST = 3
GUARD = 0xFFFF

# Reasons, in the order of numbatape.engine.verifier.REASONS.
OK = 0
SIZES_DIFFER = 1
UNKNOWN_OP = 2
OUT_OF_RANGE = 3
NO_ADJOINT = 4
BAD_RECORD = 5
OTHER_DTYPE = 6

ACTIVE = 2
POOLS = 6
MOST_LEVELS = 64
LIMIT = 2147483647


def size_of(code, size_q):
    if code >= 0:
        return code
    return size_q[-code - 1]


def cell_of(value, value_t, storage_q, size_q):
    if value < 0:
        return 0
    return storage_q[STORAGE_WORDS * value_t[VALUE_WORDS * value]] + size_of(
        value_t[VALUE_WORDS * value + OFFSET], size_q
    )


def layout_of(value, value_t):
    """Where the layout of a value is among the layouts."""
    return LAYOUT_WORDS * value_t[VALUE_WORDS * value + LAYOUT]


def rank_of(value, value_t, layout_t):
    return layout_t[layout_of(value, value_t) + RANK]


def dim_of(value, axis, value_t, layout_t, dims_t, size_q):
    return size_of(dims_t[layout_t[layout_of(value, value_t)] + axis], size_q)
