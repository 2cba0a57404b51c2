"""The words of spaces and of calls, and the rows of their tables.

Python fills them in (`numbatape.engine.moving.moving_spaces`, `numbatape.engine.moving.moving_calls`), and
the kernel of `numbatape.engine.moving.moving_kernels` reads and writes them.
"""

from __future__ import annotations

from ..frame import WORD as FRAME_WORD
from ..loops.loop_words import FIELDS, LENGTHS
from ..loops.loop_words import WORD as LOOP_STATE

# What stops the kernel.
ROOM = 1  # memory is too small: that of cells, of saved steps, of cotangents, of a rule
KERNELS = 2  # the plan calls kernels that may not be loaded
TABLES = 3  # the tables of what is called have not been made
REMADE = 4  # what is called cannot follow: it has to be made anew
LOOKOUT = 5  # a loop has become so long that it needs one
FAILED = 6  # the prologue of a body stopped
UNABLE = 7  # the plan, or a call, cannot follow; who calls it says REMADE
UNPLANNED = 8  # there is no plan for these sizes; OUTCOME says why
LARGE = 9  # the plan has so many cells that Python may know a better way

# The words of a space.
STATUS = 0
PLANNER = 1  # address of the words of the plan
FRAME = 2
VALUES_AT = 3  # addresses of value cells, by family; how many there are
VALUES_ROOM = 5
ADJOINTS_AT = 7
ADJOINTS_ROOM = 9
LITERALS_AT = 11  # numbers of the tape
LITERAL_COUNT = 12
CALLS_AT = 13  # addresses of what is called by compiled code; how many, or -1 if there are no tables yet
CALL_COUNT = 14
RAISED_AT = 15  # addresses of the words that say that a rule failed
FAILED_AT = 16
PROLOGUE = 17  # address of the sweep, or 0
STAYS = 18  # whether the cells stay where they are
MADE = 19  # whether what is called was made for these sizes
FOLLOWS = 20  # whether what is called can follow
MOVES = 21  # out: how often sizes changed
SPACE_WORK = 22  # out: an estimate of the work of a sweep
SEEDS = 23  # whether the frame says how many adjoints sweeps clear
REPLAN = 24  # addresses: of the kernel that plans, of the words that it takes, and of the kernel `moved`
MOVER = 25
MOVED = 26
CALLED = 27  # whether the tape calls anything
OUTCOME = 28  # out: why there is no plan, or what the prologue returned
# The next ones are of a tape that nothing calls, and are zero where it needs none.
MANY = 29  # from how many cells on it is LARGE: if no vector is worth strips, and if there is one
LONG = 30
LEAVES_AT = 31  # arguments that the builtin copies to their cells
LEAF_COUNT = 32
SEEDS_AT = 33  # cotangents that are one: where their cells are
SEED_COUNT = 34
LOCKED_AT = 35  # address of the word that says that sweeps keep Python's lock, because there are few cells
SPACE_WORDS = 36
# A row of leaves: addresses of the builtin's words for its cells and bytes, and of its sizes; family, word of
# its storage, bytes of an entry, the first of its dimensions, and how many there are.
LEAF_WORDS = 8
LEAF_BYTES = 1
LEAF_SHAPE = 2
LEAF_FAMILY = 3
LEAF_STORAGE = 4
LEAF_ITEM = 5
LEAF_FIRST = 6
LEAF_RANK = 7
# A row of seeds: address of the 32-bit word that says which cell it is, word of its storage, offset.
SEED_WORDS = 3
SEED_STORAGE = 1
SEED_OFFSET = 2
# A row of literals: family, word of its storage, offset, address of the numbers, bytes, where they were
# written to.
LITERAL_WORDS = 6
LITERAL_STORAGE = 1
LITERAL_OFFSET = 2
LITERAL_SOURCE = 3
LITERAL_BYTES = 4
LITERAL_LAST = 5

# The words of a call. STATUS is the first one.
KIND = 1
STARTS_AT = 2  # words that are values of size codes: address, code
START_COUNT = 3
STATE = 4  # address of the words that the kernels of loops, of branches or of a rule read
# The words of the call of a loop.
DIMENSIONS_AT = 5  # size codes, the values that the body has now, and whether it depends on them
DIMENSION_COUNT = 6
MOVES_BODY = 7  # whether the body can follow
BODY = 8  # the spaces of the body and of the test, 0 if there is none (yet)
TEST_BODY = 9
ADDRESSES_AT = 10  # words that are addresses of cells
ADDRESS_COUNT = 11
ROOMS_AT = 12  # words that are the bytes of storages
ROOM_COUNT = 13
TOTALS_AT = 14  # words that are factors times sums of size codes
TOTAL_COUNT = 15
CODES_AT = 16  # the size codes that these sums are of
OUTS_COUNT = 17  # the first ones: the cells of outputs
CARRIES_COUNT = 18  # the next ones: the cells of carries
EXTENT = 19  # size code of the cells of the result
COTANGENTS_ROOM = 20
STACK_ROOM = 21
STEP_WORK = 22  # an estimate of the work of a step
ONCE = 23  # whether the body runs once
CALL_WORK = 24  # out: an estimate of all work
# The words of a call of branches.
BODIES_AT = 5  # addresses of loops of one step
BODY_COUNT = 6
# The words of the call of a compiled rule.
BUFFERS_AT = 5  # memory: address of the word that has its address, codes of start and stop, width, bytes
BUFFER_COUNT = 6
RESULT_STORAGE = 7  # where the result is: word of its storage, offset, family
RESULT_OFFSET = 8
RESULT_FAMILY = 9
CALL_WORDS = 25
LOOP = 0  # kinds of calls
BRANCHES = 1
RULE = 2

START_WORDS = 2
DIMENSION_WORDS = 3
DIMENSION_KNOWN = 1
DIMENSION_OWN = 2
# Target, whether it is in the test, whether it is that of an adjoint, family, word of the storage, offset.
ADDRESS_WORDS = 6
ADDRESS_TEST = 1
ADDRESS_ADJOINT = 2
ADDRESS_FAMILY = 3
ADDRESS_STORAGE = 4
ADDRESS_OFFSET = 5
ROOM_WORDS = 4  # target, family, words of the first and of the last storage
ROOM_FAMILY = 1
ROOM_FIRST = 2
ROOM_LAST = 3
TOTAL_WORDS = 4  # target, factor, the first code, the end of the codes
TOTAL_FACTOR = 1
TOTAL_FIRST = 2
TOTAL_STOP = 3
BUFFER_WORDS = 5
BUFFER_START = 1
BUFFER_STOP = 2
BUFFER_WIDTH = 3
BUFFER_ROOM = 4

UNKNOWN = -1  # stands for a dimension whose value is not known; no dimension is negative
# Words of frames and of states, and rows of their tables.
FRAME_V64, FRAME_V32 = FRAME_WORD["V64"], FRAME_WORD["V32"]
FRAME_G64, FRAME_G32 = FRAME_WORD["G64"], FRAME_WORD["G32"]
FRAME_FIRST64, FRAME_FIRST32 = FRAME_WORD["FIRST64"], FRAME_WORD["FIRST32"]
FRAME_CELLS64, FRAME_CELLS32 = FRAME_WORD["CELLS64"], FRAME_WORD["CELLS32"]
STATE_V, STATE_G, STATE_LENGTH = LOOP_STATE["V"], LOOP_STATE["G"], LOOP_STATE["LENGTH"]
STATE_RESULT, STATE_EVERY, STATE_LOOK = LOOP_STATE["RESULT"], LOOP_STATE["EVERY"], LOOP_STATE["LOOK"]
STATE_STACK, STATE_STACK_BYTES = LOOP_STATE["STACK"], LOOP_STATE["STACK_BYTES"]
STATE_SAVED, STATE_SAVED_COUNT = LOOP_STATE["SAVED"], LOOP_STATE["SAVED_COUNT"]
MEMORY_WORDS, MEMORY_BYTES = LENGTHS["MEMORY_WORDS"], FIELDS["MEMORY_BYTES"]
BRANCH_STATE_V = 0  # These are the same words as in numbatape.engine.loops.branch_kernels.
RULE_V, RULE_G, RULE_FIRST = 0, 1, 2  # These are the same words as in numbatape.jit.rules.
