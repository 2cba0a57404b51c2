"""The kernel that plans a tape for further sizes. Kernel language, compiled behind the text of `plan_tables`.

It calls the kernels ``derive`` and ``verify`` by address, so that a process whose sizes never change compiles
neither this kernel nor a second copy of those.

All that does not depend on sizes is prepared once (`numbatape.engine.replan`): a new length then costs one
call of this kernel, a microsecond and 50 ns an instruction. It gives up, with a reason, where the tape is
not for these sizes or Python has to look closer.
"""

from __future__ import annotations

import math

from .plan_tables import (
    CODE_WORDS,
    END,
    ENGINE_CODE,
    GUARD,
    LAYOUT_DIMS,
    LAYOUTS,
    LIMIT,
    OK,
    OP_COUNT,
    OUT,
    RANK,
    ROWS,
    SIZE_VALUES,
    SPLIT_AT,
    STORAGE_WORDS,
    STORAGES,
    TAPE,
    TAPE_WORDS,
    VALUES,
    layout_of,
    size_of,
)

# The words of ``w`` beyond those of derive() and verify().
SIZE_ROWS = 21  # size expressions: operation, left, right
SIZE_COUNT = 22
DIMENSIONS = 23  # the dimensions of the inputs, 64-bit
SIZE_GUARDS = 24  # left, number of the relation, right
GUARD_COUNT = 25
BOUNDED = 26  # size codes whose values must be 32-bit numbers; the first ones must not be negative
BOUNDED_COUNT = 27
POSITIVE_COUNT = 28
STORED = 29  # for each storage: size code, kind (3 * family + level), the storage whose cells it takes
STORED_COUNT = 30
CELLS = 31  # out: where the cells of each kind end, 64-bit
KNOWN_KERNELS = 32  # kernel numbers that were met before, as flags
NEW_KERNELS = 33  # out: whether one is new
WEIGHTS = 34  # for each instruction: work per cell, kind of the estimate, operands that count (bits)
WORK = 35  # out: an estimate of all work
SWEEP_WORK = 36  # out: the same without the prologue
DERIVE = 37  # addresses of the kernels derive(), verify() and, below, arms()
VERIFY = 38
MEASURES = 39  # whether only sizes, ends and the estimate are asked for, not a plan
LONGEST = 40  # out: the cells of the largest storage that is not constant
WORKS = 41  # out: the estimate for each instruction, 64-bit
CHOOSE_ARMS = 42
WORDS = 43

# Size operations, as in numbatape.tape.sizes.
SIZE_INPUT = 0
SIZE_ADD = 1
SIZE_SUB = 2
SIZE_MUL = 3
SIZE_FLOORDIV = 4
SIZE_SCALED = 5
SIZE_SCALED_UP = 6
SIZE_SCALED_NEAR = 7
SIZE_DIVIDED_NEAR = 8
SIZE_ROOT = 9
DENOMINATOR_BITS = 16
DENOMINATOR = 65535

# Why there is no plan.
OTHER_SIZES = 1  # a size guard does not hold
LOOK_CLOSER = 2  # Python's way finds out, and says what is wrong

KINDS = 6
LEVELS = 3  # the number of levels of a family; constants come first
# Of the ends of a family's levels (`CELLS`): active cells, which have adjoints, begin where varying ones end,
# and the end of active cells is the number of all.
FIRST_ACTIVE = 1
ALL_CELLS = 2
LINE_CELLS = 8
PER_INSTRUCTION = 8
PER_MULTIPLICATION = 0.125
POWER = 1  # kinds of estimates: cells ** 1.5, and the square root of a product
PRODUCT = 2
EQUAL = 0  # relations of size guards: "==", ">=" and "!="
AT_LEAST = 1
UNEQUAL = 2
# The rows of its tables, which the names above describe.
SIZE_WORDS = 3
SIZE_LEFT = 1
SIZE_RIGHT = 2
GUARD_WORDS = 3
GUARD_RELATION = 1
GUARD_RIGHT = 2
STORED_WORDS = 3
STORED_KIND = 1
STORED_LENDER = 2
WEIGHT_WORDS = 3
WEIGHT_KIND = 1
WEIGHT_OPERANDS = 2


def nearest(twice_rest, whole, value):
    """Return the value or the next larger integer: which is nearer, or even where the rest is one half."""
    if twice_rest > whole or (twice_rest == whole and (value & 1) == 1):
        return value + 1
    return value


def evaluate(w):
    """Evaluate the size expressions; return whether all are 32-bit numbers."""
    row_t = w[SIZE_ROWS]
    size_q = w[SIZE_VALUES]
    dimension_q = w[DIMENSIONS]
    for k in range(w[SIZE_COUNT]):
        operation = row_t[SIZE_WORDS * k]
        left = row_t[SIZE_WORDS * k + SIZE_LEFT]
        right = row_t[SIZE_WORDS * k + SIZE_RIGHT]
        if operation == SIZE_INPUT:
            value = dimension_q[left]
        else:
            left = size_of(left, size_q)
            right = size_of(right, size_q)
            if operation == SIZE_ADD:
                value = left + right
            elif operation == SIZE_SUB:
                value = left - right
            elif operation == SIZE_MUL:
                value = left * right
            elif operation == SIZE_FLOORDIV and left < 0 and right > 0:  # Python rounds down
                value = -((right - 1 - left) // right)
            elif left < 0:
                return False
            elif operation == SIZE_ROOT:
                value = int(math.sqrt(float(left)))
            elif right < 1:  # a divisor, or a fraction
                return False
            elif operation == SIZE_FLOORDIV:
                value = left // right
            elif operation == SIZE_DIVIDED_NEAR:
                value = left // right
                value = nearest(2.0 * float(left - value * right), float(right), value)
            else:
                scaled = float(right >> DENOMINATOR_BITS) / float(right & DENOMINATOR) * float(left)
                value = int(scaled)
                if operation == SIZE_SCALED_UP and float(value) < scaled:
                    value += 1
                if operation == SIZE_SCALED_NEAR:
                    value = nearest(2.0 * (scaled - float(value)), 1.0, value)
        if value > LIMIT or value < -LIMIT:
            return False
        size_q[k] = value
    return True


def guards_hold(w):
    guard_t = w[SIZE_GUARDS]
    size_q = w[SIZE_VALUES]
    for k in range(w[GUARD_COUNT]):
        left = size_of(guard_t[GUARD_WORDS * k], size_q)
        right = size_of(guard_t[GUARD_WORDS * k + GUARD_RIGHT], size_q)
        relation = guard_t[GUARD_WORDS * k + GUARD_RELATION]
        if relation == UNEQUAL:
            if left == right:
                return False
        elif left < right or (relation == EQUAL and left != right):
            return False
    return True


def in_bounds(w):
    code_t = w[BOUNDED]
    size_q = w[SIZE_VALUES]
    for k in range(w[BOUNDED_COUNT]):
        value = size_of(code_t[k], size_q)
        if value > LIMIT or value < -LIMIT:
            return False
        if k < w[POSITIVE_COUNT] and value < 0:
            return False
    return True


def place(w):
    """Give each storage its cells, as `numbatape.engine.placement` does: new ones or another one's."""
    stored_t = w[STORED]
    size_q = w[SIZE_VALUES]
    storage_q = w[STORAGES]
    end_q = w[CELLS]
    top = 0
    longest = 0
    for kind in range(KINDS):
        if kind % LEVELS == 0:
            top = 0  # each family counts its cells from 0
        for k in range(w[STORED_COUNT]):
            at = STORED_WORDS * k
            if stored_t[at + STORED_KIND] == kind and stored_t[at + STORED_LENDER] == k:
                size = size_of(stored_t[at], size_q)
                storage_q[STORAGE_WORDS * k] = top
                storage_q[STORAGE_WORDS * k + END] = top + size
                if kind % LEVELS != 0:
                    longest = max(longest, size)
                top += (size + LINE_CELLS - 1) // LINE_CELLS * LINE_CELLS
        end_q[kind] = top
        if top > LIMIT:
            return False
    for k in range(w[STORED_COUNT]):
        lender = stored_t[STORED_WORDS * k + STORED_LENDER]
        if lender != k:
            storage_q[STORAGE_WORDS * k] = storage_q[STORAGE_WORDS * lender]
            storage_q[STORAGE_WORDS * k + END] = storage_q[STORAGE_WORDS * lender + END]
    w[LONGEST] = longest
    return True


def note_kernels(w):
    """Note whether instructions call kernels that were not met before."""
    code_t = w[ENGINE_CODE]
    known_t = w[KNOWN_KERNELS]
    w[NEW_KERNELS] = 0
    for k in range(w[ROWS]):
        op = code_t[CODE_WORDS * k] & 0xFFFF
        if op >= w[OP_COUNT] and op != GUARD and op < 2 * w[OP_COUNT] and known_t[op - w[OP_COUNT]] == 0:
            w[NEW_KERNELS] = 1


def cells_in(value, value_t, layout_t, dims_t, size_q):
    """How many entries a value has."""
    if value < 0:
        return 0
    layout = layout_of(value, value_t)
    total = 1
    for axis in range(layout_t[layout + RANK]):
        total *= size_of(dims_t[layout_t[layout] + axis], size_q)
    return total


def estimate(w):
    """Add up the work of all instructions, as `numbatape.engine.segments` estimates it."""
    tape_t = w[TAPE]
    value_t = w[VALUES]
    layout_t = w[LAYOUTS]
    dims_t = w[LAYOUT_DIMS]
    size_q = w[SIZE_VALUES]
    weight_t = w[WEIGHTS]
    work_q = w[WORKS]
    total = 0.0
    of_prologue = 0.0
    for k in range(w[ROWS]):
        if k == w[SPLIT_AT]:
            of_prologue = total
        weight = weight_t[WEIGHT_WORDS * k]
        kind = weight_t[WEIGHT_WORDS * k + WEIGHT_KIND]
        counts = weight_t[WEIGHT_WORDS * k + WEIGHT_OPERANDS]
        most = 0.0
        product = 1.0
        for j in range(4):
            value = tape_t[TAPE_WORDS * k + OUT + j]
            cells = float(cells_in(value, value_t, layout_t, dims_t, size_q))
            if j < 3:
                product *= cells
            if (counts >> j) & 1 == 1 and cells > most:
                most = cells
        if kind == PRODUCT:
            work = PER_MULTIPLICATION * math.sqrt(product)
        elif kind == POWER:
            work = weight * most * math.sqrt(most)
        else:
            work = weight * most
        work += PER_INSTRUCTION
        total += work
        work_q[k] = int(min(work, LIMIT * 1.0))
    w[WORK] = int(min(total, LIMIT * 1.0))
    w[SWEEP_WORK] = int(min(total - of_prologue, LIMIT * 1.0))


def replan(w, pc):
    if not evaluate(w):
        return LOOK_CLOSER
    if not guards_hold(w):
        return OTHER_SIZES
    if not in_bounds(w) or not place(w):
        return LOOK_CLOSER
    estimate(w)
    if w[MEASURES] != 0:
        return OK
    # `invoke` is a function of the kernel language for which there is no Python form.
    if invoke(w, DERIVE, w, pc) != OK:  # noqa: F821
        return LOOK_CLOSER
    invoke(w, CHOOSE_ARMS, w, pc)  # noqa: F821
    note_kernels(w)
    if invoke(w, VERIFY, w, pc) != OK:  # noqa: F821
        return LOOK_CLOSER
    return OK
