"""The kernel that proves a plan safe. Kernel language, compiled together with `plan_kernels`.

The proof is: each instruction does what its tape says (same op, same first cells) and stays within
the storages that the tape names, whatever its record says about sizes and strides. With the rules
that `numbatape.engine.verifier` checks on the tape, no kernel can reach anything else.
"""

from __future__ import annotations

from .plan_tables import (
    ACTIVE,
    ARITY,
    AUX,
    AUX_USED,
    BAD,
    BAD_RECORD,
    CAST,
    CELL,
    CODE_WORDS,
    CORE,
    CORE_CELLS,
    CORE_HEAD,
    CORE_RANKS,
    CORE_SCRATCH,
    CORE_THIRD,
    END,
    ENGINE_AUX,
    ENGINE_CODE,
    FAMILY,
    FLAGS,
    FREE_STRIDES,
    GUARD,
    HIGH,
    HOT,
    INFO,
    LETTER_NUMBERS,
    LETTERS,
    LEVEL,
    LEVEL_OF,
    LEVEL_STRIDES,
    LIMIT,
    LOOP_COUNT,
    LOOP_HEAD,
    LOOP_STRIDES,
    LOOP_THIRD,
    LOW,
    MOST_LETTERS,
    MOST_LEVELS,
    NO_ADJOINT,
    OK,
    OP_COUNT,
    OP_INFO,
    OTHER_DTYPE,
    OUT,
    OUT_OF_RANGE,
    POOLS,
    POSITIONS,
    RECORD,
    ROWS,
    SIZE_VALUES,
    SPLIT_AT,
    STORAGE_WORDS,
    STORAGES,
    TAPE,
    TAPE_WORDS,
    UNKNOWN_OP,
    VALUE_WORDS,
    VALUES,
    VECTOR,
    cell_of,
)


def widen(w, n, stride):
    """Add an axis to the hull (w[LOW], w[HIGH]) of an operand's cells."""
    span = (n - 1) * stride
    w[LOW] += max(-LIMIT, min(0, span))
    w[HIGH] += min(LIMIT, max(0, span))


def operand_fault(w, value, first, cells, takes):
    """Why an operand with the hull (w[LOW], w[HIGH]) is not what the tape says, or OK."""
    value_t = w[VALUES]
    storage_q = w[STORAGES]
    storage = value_t[VALUE_WORDS * value]
    start = storage_q[STORAGE_WORDS * storage]
    low = first + w[LOW]
    high = first + w[HIGH]
    if storage_q[STORAGE_WORDS * storage + FAMILY] != cells:
        return OTHER_DTYPE
    if first != cell_of(value, value_t, storage_q, w[SIZE_VALUES]):
        return OUT_OF_RANGE
    if low < start or high >= storage_q[STORAGE_WORDS * storage + END]:
        return OUT_OF_RANGE
    if storage < POOLS and low != high:  # Each cell of a pool is a value of its own.
        return OUT_OF_RANGE
    if takes and storage_q[STORAGE_WORDS * storage + LEVEL_OF] != ACTIVE:
        return NO_ADJOINT
    return OK


def guard_fault(w, k):
    """Why a guard is not what the tape says, or OK: it reads one cell of each of two operands."""
    tape_t = w[TAPE]
    code_t = w[ENGINE_CODE]
    w[LOW] = 0
    w[HIGH] = 0
    for j in range(1, 3):
        first = code_t[CODE_WORDS * k + CELL + j]
        fault = operand_fault(w, tape_t[TAPE_WORDS * k + OUT + j], first, 0, False)
        if fault != OK:
            return fault
    return OK


def vector_fault(w, k, pattern, active):
    """Why an arm of a vector is not what the tape says, or OK.

    Word 4 is the number of cells, or of a record that has it and the third operand.
    """
    tape_t = w[TAPE]
    code_t = w[ENGINE_CODE]
    info_t = w[OP_INFO]
    r_t = w[ENGINE_AUX]
    arity = info_t[INFO * ((tape_t[TAPE_WORDS * k] & 0xFFFF) >> 1) + ARITY]
    n = code_t[CODE_WORDS * k + RECORD]
    record = n
    if arity == 3:
        if record < 0 or record + LOOP_HEAD > w[AUX_USED]:
            return BAD_RECORD
        n = r_t[record + LOOP_COUNT]
    if n < 1:
        return BAD_RECORD
    for which in range(arity + 1):
        w[LOW] = 0
        w[HIGH] = 0
        if which == 0 or which != pattern:  # The pattern's number is that of the one-cell operand.
            widen(w, n, 1)
        takes = active != 0 if which == 0 else ((active >> (which - 1)) & 1) != 0
        first = code_t[CODE_WORDS * k + CELL + which]
        if which == 3:
            first = r_t[record + LOOP_THIRD]
        fault = operand_fault(w, tape_t[TAPE_WORDS * k + OUT + which], first, 0, takes)
        if fault != OK:
            return fault
    return OK


def scattered(r_t, sizes_at, strides_at, info_t, info):
    """Whether the result's core is anything but row-major and contiguous, as most kernels write it."""
    rank = info_t[info + CORE_RANKS]
    expected = 1
    for q in range(rank):
        axis = rank - 1 - q
        n = r_t[sizes_at + info_t[info + LETTER_NUMBERS + axis]]
        if n == 0:
            return False
        if n > 1 and r_t[strides_at + axis] != expected:
            return True
        expected *= n
    return False


def is_arm(w, k):
    """Whether an arm of the sweeps serves an instruction on single cells, so that it has no record."""
    tape_t = w[TAPE]
    code_t = w[ENGINE_CODE]
    op = tape_t[TAPE_WORDS * k] & 0xFFFF
    active = (tape_t[TAPE_WORDS * k] >> 16) & 0xFF
    return code_t[CODE_WORDS * k] == (op | (active << 16))


def pattern_of(w, k):
    """The number of the arm of vectors that serves an instruction, or -1."""
    tape_t = w[TAPE]
    code_t = w[ENGINE_CODE]
    info_t = w[OP_INFO]
    op = tape_t[TAPE_WORDS * k] & 0xFFFF
    info = INFO * (op >> 1)
    arity = info_t[info + ARITY]
    pattern = (code_t[CODE_WORDS * k] & 0xFFFF) - info_t[info + VECTOR]
    if info_t[info + VECTOR] <= 0 or op & 1 != 0 or pattern > arity or (arity == 1 and pattern > 0):
        return -1
    return pattern if pattern >= 0 else -1


def opcode_fault(w, k, pattern):
    """Why an opcode, or the operands that take an adjoint, are not what the tape says, or OK."""
    tape_t = w[TAPE]
    code_t = w[ENGINE_CODE]
    info_t = w[OP_INFO]
    op = tape_t[TAPE_WORDS * k] & 0xFFFF
    active = (tape_t[TAPE_WORDS * k] >> 16) & 0xFF
    word = code_t[CODE_WORDS * k]
    info = INFO * (op >> 1)
    arity = info_t[info + ARITY]
    if pattern >= 0:
        if word >> 16 != active:
            return UNKNOWN_OP
        if arity == 3 and active != 0:  # Vectors of three operands have no reverse arm.
            return NO_ADJOINT
    elif is_arm(w, k):
        if info_t[info] != HOT or op & 1 != 0:
            return UNKNOWN_OP
    elif word != ((op + w[OP_COUNT]) | (active << 16)):
        return UNKNOWN_OP
    if (active >> arity) != 0 or (active & info_t[info + FLAGS]) != active:
        return NO_ADJOINT
    if active != 0 and k < w[SPLIT_AT]:
        return NO_ADJOINT
    return OK


def head_words(info_t, info):
    """How many words a record has before its levels."""
    if info_t[info] != CORE:
        return LOOP_HEAD
    head = CORE_HEAD + info_t[info + LETTERS]
    for which in range(info_t[info + ARITY] + 1):
        head += info_t[info + CORE_RANKS + which]
    return head


def levels_fault(w, k):
    """Why the levels of a record are not those of a loop, or OK."""
    tape_t = w[TAPE]
    code_t = w[ENGINE_CODE]
    info_t = w[OP_INFO]
    r_t = w[ENGINE_AUX]
    used = w[AUX_USED]
    info = INFO * ((tape_t[TAPE_WORDS * k] & 0xFFFF) >> 1)
    record = code_t[CODE_WORDS * k + RECORD]
    head = head_words(info_t, info)
    if record < 0 or record + head > used:
        return BAD_RECORD
    levels = r_t[record]
    if levels < 0 or levels > MOST_LEVELS or record + head + LEVEL * levels > used:
        return BAD_RECORD
    count = 1
    for j in range(levels):
        n = r_t[record + head + LEVEL * j]
        if n < 0 or (n == 0 and j > 0):  # Sweeps divide by the iterations of all levels but the first.
            return BAD_RECORD
        count = count * n
        if count > LIMIT:
            return BAD_RECORD
    if info_t[info] != CORE:
        n = r_t[record + LOOP_COUNT]
        if n < 0 or (n == 0 and r_t[record + LOOP_STRIDES] != 0):
            return BAD_RECORD
    return OK


def core_fault(w, k):
    """Why the core of an array op's record, or its scratch, is not what the tape says, or OK."""
    tape_t = w[TAPE]
    code_t = w[ENGINE_CODE]
    info_t = w[OP_INFO]
    r_t = w[ENGINE_AUX]
    op = tape_t[TAPE_WORDS * k] & 0xFFFF
    info = INFO * (op >> 1)
    record = code_t[CODE_WORDS * k + RECORD]
    letters = info_t[info + LETTERS]
    for j in range(letters):
        if r_t[record + CORE_HEAD + j] < 0:
            return BAD_RECORD
    fixed = ((info_t[info + FLAGS] >> FREE_STRIDES) & 1) == 0
    if fixed and scattered(r_t, record + CORE_HEAD, record + CORE_HEAD + letters, info_t, info):
        return BAD_RECORD
    cells = r_t[record + CORE_CELLS]
    if cells < 0:
        return BAD_RECORD
    levels_at = record + head_words(info_t, info)
    for j in range(r_t[record]):
        cells = cells * r_t[levels_at + LEVEL * j]
    if cells == 0:
        return OK
    scratch = tape_t[TAPE_WORDS * k + AUX]
    if scratch < 0:
        return BAD_RECORD
    w[LOW] = 0
    w[HIGH] = 0
    widen(w, cells, 1)
    return operand_fault(w, scratch, r_t[record + CORE_SCRATCH], op & 1, False)


def is_empty(w, k):
    """Whether the loop of a record has no turns."""
    tape_t = w[TAPE]
    code_t = w[ENGINE_CODE]
    info_t = w[OP_INFO]
    r_t = w[ENGINE_AUX]
    info = INFO * ((tape_t[TAPE_WORDS * k] & 0xFFFF) >> 1)
    record = code_t[CODE_WORDS * k + RECORD]
    if info_t[info] != CORE and r_t[record + LOOP_COUNT] == 0:
        return True
    return r_t[record] > 0 and r_t[record + head_words(info_t, info)] == 0


def reach_fault(w, k, arm):
    """Why an operand does not stay within its storage, or OK.

    Parameters
    ----------
    arm
        Whether the instruction is one on single cells, without a record.
    """
    tape_t = w[TAPE]
    code_t = w[ENGINE_CODE]
    info_t = w[OP_INFO]
    r_t = w[ENGINE_AUX]
    op = tape_t[TAPE_WORDS * k] & 0xFFFF
    active = (tape_t[TAPE_WORDS * k] >> 16) & 0xFF
    family = op & 1
    info = INFO * (op >> 1)
    kind = info_t[info]
    record = code_t[CODE_WORDS * k + RECORD]
    levels = 0
    levels_at = 0
    if not arm:
        levels = r_t[record]
        levels_at = record + head_words(info_t, info)
    strides_at = record + CORE_HEAD + info_t[info + LETTERS]
    for which in range(info_t[info + ARITY] + 1):
        first = code_t[CODE_WORDS * k + CELL + which]
        if which == 3 and not arm:
            first = r_t[record + CORE_THIRD]
            if kind != CORE:
                first = r_t[record + LOOP_THIRD]
        w[LOW] = 0
        w[HIGH] = 0
        nothing = False
        for j in range(levels):
            level = levels_at + LEVEL * j
            widen(w, r_t[level], r_t[level + LEVEL_STRIDES + which])
        if not arm and kind == CORE:
            for axis in range(info_t[info + CORE_RANKS + which]):
                n = r_t[record + CORE_HEAD + info_t[info + LETTER_NUMBERS + MOST_LETTERS * which + axis]]
                if n == 0:
                    nothing = True
                widen(w, n, r_t[strides_at])
                strides_at += 1
        elif not arm:
            widen(w, r_t[record + LOOP_COUNT], r_t[record + LOOP_STRIDES + which])
        if nothing:
            continue
        cells = family
        if kind == CAST and which == 1:
            cells = 1 - family
        if which > 0 and (info_t[info + FLAGS] >> (POSITIONS + which - 1)) & 1:
            cells = 0
        takes = active != 0 if which == 0 else ((active >> (which - 1)) & 1) != 0
        fault = operand_fault(w, tape_t[TAPE_WORDS * k + OUT + which], first, cells, takes)
        if fault != OK:
            return fault
    return OK


def fault_of(w, k):
    """Why an instruction is not what the tape says, or OK."""
    tape_t = w[TAPE]
    info_t = w[OP_INFO]
    op = tape_t[TAPE_WORDS * k] & 0xFFFF
    active = (tape_t[TAPE_WORDS * k] >> 16) & 0xFF
    if op == GUARD:
        return guard_fault(w, k) if is_arm(w, k) and active == 0 else UNKNOWN_OP
    pattern = pattern_of(w, k)
    fault = opcode_fault(w, k, pattern)
    if fault != OK:
        return fault
    if pattern >= 0:
        return vector_fault(w, k, pattern, active)
    if is_arm(w, k):
        return reach_fault(w, k, True)
    fault = levels_fault(w, k)
    if fault == OK and info_t[INFO * (op >> 1)] == CORE:
        fault = core_fault(w, k)
    if fault != OK or is_empty(w, k):
        return fault
    return reach_fault(w, k, False)


def verify(w, pc):
    """Prove that each instruction of a plan stays within its storages; return OK or what is wrong.

    It reads the code and the records as the sweeps do, and takes the hull of the cells that each operand
    reaches: from the first cell, by each level's count and stride, by the core's axes, and by the scratch
    memory. If something is wrong, ``w[BAD]`` is the number of the instruction.
    """
    for k in range(w[ROWS]):
        w[BAD] = k
        fault = fault_of(w, k)
        if fault != OK:
            return fault
    return OK
