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
    if storage < POOLS and low != high:  # each cell of a pool is a value of its own
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
        if which == 0 or which != pattern:  # the pattern's number is that of the one-cell operand
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


def verify(w, pc):
    """Prove that each instruction of a plan stays within its storages; return OK or what is wrong.

    It reads the code and the records as the sweeps do, and takes the hull of the cells that each operand
    reaches: from the first cell, by each level's count and stride, by the core's axes, and by the scratch
    memory. If something is wrong, ``w[BAD]`` is the number of the instruction.
    """
    tape_t = w[TAPE]
    code_t = w[ENGINE_CODE]
    r_t = w[ENGINE_AUX]
    info_t = w[OP_INFO]
    used = w[AUX_USED]
    kernels = w[OP_COUNT]
    for k in range(w[ROWS]):
        w[BAD] = k
        at = CODE_WORDS * k
        op = tape_t[TAPE_WORDS * k] & 0xFFFF
        active = (tape_t[TAPE_WORDS * k] >> 16) & 0xFF
        word = code_t[at] & 0x7FFFF  # The mask drops the register flags, which `verify_plan` checks.
        arm = word == (op | (active << 16))
        if op == GUARD:
            if not arm or active != 0:
                return UNKNOWN_OP
            fault = guard_fault(w, k)
            if fault != OK:
                return fault
            continue
        family = op & 1
        info = INFO * (op >> 1)
        kind = info_t[info]
        arity = info_t[info + ARITY]
        pattern = (word & 0xFFFF) - info_t[info + VECTOR]
        vector = info_t[info + VECTOR] > 0 and family == 0 and pattern >= 0
        if pattern > arity or (arity == 1 and pattern > 0):
            vector = False
        if vector:
            arm = False
            if word >> 16 != active:
                return UNKNOWN_OP
            if arity == 3 and active != 0:  # vectors of three operands have no reverse arm
                return NO_ADJOINT
        elif not arm and word != ((op + kernels) | (active << 16)):
            return UNKNOWN_OP
        flags = info_t[info + FLAGS]
        if arm and (kind != HOT or family != 0):
            return UNKNOWN_OP
        if (active >> arity) != 0 or (active & flags) != active:
            return NO_ADJOINT
        if active != 0 and k < w[SPLIT_AT]:
            return NO_ADJOINT
        if vector:
            fault = vector_fault(w, k, pattern, active)
            if fault != OK:
                return fault
            continue
        record = code_t[at + RECORD]
        levels = 0
        levels_at = 0
        if not arm:
            head = LOOP_HEAD
            if kind == CORE:
                head = CORE_HEAD + info_t[info + LETTERS]
                for which in range(arity + 1):
                    head += info_t[info + CORE_RANKS + which]
            if record < 0 or record + head > used:
                return BAD_RECORD
            levels = r_t[record]
            levels_at = record + head
            if levels < 0 or levels > MOST_LEVELS or levels_at + LEVEL * levels > used:
                return BAD_RECORD
        count = 1
        empty = False
        for j in range(levels):
            n = r_t[levels_at + LEVEL * j]
            if n < 0 or (n == 0 and j > 0):  # sweeps divide by the iterations of all levels but the first
                return BAD_RECORD
            if n == 0:
                empty = True
            count = count * n
            if count > LIMIT:
                return BAD_RECORD
        if not arm and kind != CORE:
            if r_t[record + LOOP_COUNT] < 0:
                return BAD_RECORD
            if r_t[record + LOOP_COUNT] == 0:
                if r_t[record + LOOP_STRIDES] != 0:
                    return BAD_RECORD
                empty = True
        strides_at = 0
        if not arm and kind == CORE:
            for j in range(info_t[info + LETTERS]):
                if r_t[record + CORE_HEAD + j] < 0:
                    return BAD_RECORD
            strides_at = record + CORE_HEAD + info_t[info + LETTERS]
            fixed = ((flags >> FREE_STRIDES) & 1) == 0
            if fixed and scattered(r_t, record + CORE_HEAD, strides_at, info_t, info):
                return BAD_RECORD
            cells = r_t[record + CORE_CELLS]
            if cells < 0:
                return BAD_RECORD
            if cells > 0 and count > 0:
                if tape_t[TAPE_WORDS * k + AUX] < 0:
                    return BAD_RECORD
                w[LOW] = 0
                w[HIGH] = 0
                widen(w, cells * count, 1)
                fault = operand_fault(
                    w, tape_t[TAPE_WORDS * k + AUX], r_t[record + CORE_SCRATCH], family, False
                )
                if fault != OK:
                    return fault
        if empty:
            continue
        for which in range(arity + 1):
            first = code_t[at + CELL + which]
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
            if which > 0 and (flags >> (POSITIONS + which - 1)) & 1:
                cells = 0
            takes = active != 0 if which == 0 else ((active >> (which - 1)) & 1) != 0
            fault = operand_fault(w, tape_t[TAPE_WORDS * k + OUT + which], first, cells, takes)
            if fault != OK:
                return fault
    return OK
