"""What `numbatape.derive.walk_kernel` and Python call the numbers in the memory that they share."""

from __future__ import annotations

# The words of ``w``: addresses of arrays, and numbers.
AT = 0  # the instruction of the walk that is next
COUNT = 1  # how many there are
FORWARD = 2  # whether tangents are pushed
ROWS = 3
PLACES = 4
ENTRIES = 5
ENTRY_COUNT = 6
VALUES = 7  # storage, offset and layout of each value of the tape
VALUE_COUNT = 8
KINDS = 9  # the kind of each value
SLOPES = 10  # for each value, its partials with respect to three operands
SUMS = 11  # for each value, how many products it is the sum of, and these
LAST = 12  # the result of the last instruction of the tape
SIGNATURE = 13  # scratch: the signature that is looked up
LENGTH = 14  # the length of that signature
NUMBERS = 15  # scratch: the numbers that a template names by their place
ARGUMENTS = 16  # how many of these are the signature's arguments
TABLE = 17  # numbers of templates plus one, by hashes of their signatures; 0 where there is none
MASK = 18  # the length of this table minus one
TEMPLATES = 19  # where the signature and the words of each template are
SIGNATURES = 20
WORDS = 21
CODE = 22  # out: instructions
CODE_COUNT = 23
STORAGES = 24  # out: size, family and level of new storages
STORAGE_COUNT = 25  # how many there are on the tape
NEW_STORAGES = 26  # how many of them are new
POOLS = 27  # how many cells each pool has
VIEWED = 28  # out: cells of pools that further values refer to
VIEWED_COUNT = 29
SPARE = 30  # out: results that may be dropped
SPARE_COUNT = 31
NEW_SLOPES = 32  # out: result, operand and partial, where that is a plain number
SLOPE_COUNT = 33
EXACT = 34  # scratch: whether there is a plain number in the signature
ROOM = 36  # how many of each of these there is room for
LATEST = 37  # the last instruction whose line Python's walk would have set, NONE for none
GUARD_COUNT = 38  # how many guards are on the tape
CHAIN = 39  # the first entry of a chain that is read
CHAIN_VALUES = 40  # out: the values that its cotangents were added to, and the cotangents
CHAIN_CTS = 41

# The rows of the tables above. A value: storage, offset, layout. What further values refer to: pool, cell.
VALUE_WORDS = 3
VALUE_OFFSET = 1
VALUE_LAYOUT = 2
VIEW_WORDS = 2
VIEW_OFFSET = 1
STORAGE_WORDS = 3
SLOPE_WORDS = 3  # a partial for each operand
SUM_WORDS = 4  # how many products, and up to three of them
FIRST_TERM = 1
CODE_WORDS = 9  # the words of an instruction on the tape; its result is the one with number
CODE_OUT = 3

# An instruction of the walk has the number of its class, operands that are needed (bits), line, result and
# operands, then the place of each of these or NONE, then FLAGS.
ROW_WORDS = 12
NEEDED = 1
LINE = 2
OUT = 3
PLACE = 7
FLAGS = 11
ROW_VALUES = 4  # words from OUT on, and from PLACE on: of the result and of three operands
SLOPED = 1  # a flag: its partials are noted
SOLE = 2  # the flag 2 << j: nothing else reads operand j, to whose sign a plus belongs
LITERAL = 32  # the flag 32 << j: operand j is a literal

# A place is what has one cotangent (or tangent): a cell of a pool, or a storage. Its cotangent is a chain of
# entries: value that it was added to, cotangent, next entry; and perhaps a base.
PLACE_WORDS = 4
HEAD = 0
TAIL = 1
BASE = 2
PYTHONS = 3  # whether Python knows a part of it
ENTRY_WORDS = 3
ENTRY_CT = 1
ENTRY_NEXT = 2

POOL_COUNT = 6
NONE = -1
# A cotangent or a partial is a value, by its number, or this minus the place of a number in Python's list.
FIRST_NUMBER = -1000000

# A template has its signature (start, length), its words, and whether it can be repeated.
TEMPLATE_WORDS = 4
TEMPLATE_LENGTH = 1
TEMPLATE_START = 2
TEMPLATE_REPEATS = 3
# The words of a template: how many there are of each part, and then the parts.
NEW_VALUES = 0  # where, what, which, offset, layout, kind (see `template.NewValue`)
POOL_PART = 1  # pool, number of new cells
STORAGE_PART = 2  # size, family, level
OTHERS = 3  # numbers
CODE_PART = 4  # places of the fields of instructions
CELL_PART = 5  # which operand (the result is number 0), place of its cotangent
ARRAY_PART = 6  # which operand, whether others stay, place of the base, number of entries; places of both
SLOPE_PART = 7  # places of result, number of operand, place of partial
SUM_PART = 8  # place of sum, number of products, places of three
SPARE_PART = 9
# The number of guards; a guard has no words here, because the guards' numbers follow those before them.
GUARD_PART = 10
HEADER = 11
# The words of one new value, of one new cell, ... in these parts; the first one is number 0.
NEW_WORDS = 6
NEW_WHAT = 1
NEW_WHICH = 2
NEW_OFFSET = 3
NEW_LAYOUT = 4
NEW_KIND = 5
CELLS_WORDS = 2
CELLS_COUNT = 1
ADDED_WORDS = 2  # the words of one cell in CELL_PART, and of one entry in ARRAY_PART
ADDED_CT = 1
ARRAY_WORDS = 4
ARRAY_STAYS = 1
ARRAY_BASE = 2
ARRAY_ENTRIES = 3
SLOPED_OPERAND = 1  # the number of the operand, in SLOPE_PART and in NEW_SLOPES
SLOPED_PARTIAL = 2
PRODUCTS_WORDS = 5  # the words of one sum in SUM_PART
PRODUCTS_COUNT = 1
PRODUCTS_FIRST = 2
FRESH = 0
OWN = 1
THEIRS = 2

# What the kernel returns.
DONE = 0
NEW = 1  # the signature has no template yet
PYTHON = 2  # the derivative must be taken by Python
FULL = 3  # there is no room for what a template appends

SKIP = 0
REFUSED = -1
MOST_ENTRIES = 8
MOST_ARGUMENTS = 256  # more than a signature can have: four operands, with so many cotangents of four parts
# What arguments have in common, as words of a signature: minus a pair of arguments, or the last one's number.
IS_LAST = -1000
SAME_VALUE = -10000
SAME_ADDRESS = SAME_VALUE - MOST_ARGUMENTS * MOST_ARGUMENTS
SAME_STORAGE = SAME_ADDRESS - MOST_ARGUMENTS * MOST_ARGUMENTS
# Other marks in a signature.
OF_TERMS = -10  # minus how many products a tangent is the sum of, which follow
OTHER_VIEW = -50  # a cotangent was added through another view of the array
OF_COTANGENTS = -100  # minus how many cotangents a value has
OF_LITERAL = -3000000  # minus the number of an operand that is a literal
