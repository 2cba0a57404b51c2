"""The kernel that proves a plan safe. Kernel language, compiled together with `plan_kernels`.

The proof is: each instruction does what its tape says (same op, same first cells) and stays within
the storages that the tape names, whatever its record says about sizes and strides. With the rules
that `numbatape.engine.verifier` checks on the tape, no kernel can reach anything else.
"""

from __future__ import annotations

from .plan_kernels import (
    ACTIVE,
    AUX_USED,
    BAD,
    BAD_RECORD,
    CAST,
    CORE,
    ENGINE_AUX,
    ENGINE_CODE,
    FREE_STRIDES,
    GUARD,
    HIGH,
    HOT,
    INFO,
    LIMIT,
    LOW,
    NO_ADJOINT,
    OK,
    OP_COUNT,
    OP_INFO,
    OTHER_DTYPE,
    OUT_OF_RANGE,
    POOLS,
    ROWS,
    SIZE_VALUES,
    SPLIT_AT,
    STORAGES,
    TAPE,
    UNKNOWN_OP,
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
    storage = value_t[3 * value]
    start = storage_q[4 * storage]
    low = first + w[LOW]
    high = first + w[HIGH]
    if storage_q[4 * storage + 2] != cells:
        return OTHER_DTYPE
    if first != cell_of(value, value_t, storage_q, w[SIZE_VALUES]):
        return OUT_OF_RANGE
    if low < start or high >= storage_q[4 * storage + 1]:
        return OUT_OF_RANGE
    if storage < POOLS and low != high:  # a pool's cells are scalars, each on its own
        return OUT_OF_RANGE
    if takes and storage_q[4 * storage + 3] != ACTIVE:
        return NO_ADJOINT
    return OK


def guard_fault(w, k):
    tape_t = w[TAPE]
    code_t = w[ENGINE_CODE]
    w[LOW] = 0
    w[HIGH] = 0
    for j in range(2):
        fault = operand_fault(w, tape_t[6 * k + 2 + j], code_t[5 * k + 2 + j], 0, False)
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
    arity = info_t[INFO * ((tape_t[6 * k] & 0xFFFF) >> 1) + 1]
    n = code_t[5 * k + 4]
    record = n
    if arity == 3:
        if record < 0 or record + 7 > w[AUX_USED]:
            return BAD_RECORD
        n = r_t[record + 1]
    if n < 1:
        return BAD_RECORD
    for which in range(arity + 1):
        w[LOW] = 0
        w[HIGH] = 0
        if which == 0 or which != pattern:  # the pattern's number is that of the one-cell operand
            widen(w, n, 1)
        takes = active != 0 if which == 0 else ((active >> (which - 1)) & 1) != 0
        first = code_t[5 * k + 1 + which]
        if which == 3:
            first = r_t[record + 6]
        fault = operand_fault(w, tape_t[6 * k + 1 + which], first, 0, takes)
        if fault != OK:
            return fault
    return OK


def scattered(r_t, sizes_at, strides_at, info_t, info):
    """Whether the result's core is anything but row-major and contiguous, as most kernels write it."""
    rank = info_t[info + 3]
    expected = 1
    for q in range(rank):
        axis = rank - 1 - q
        n = r_t[sizes_at + info_t[info + 7 + axis]]
        if n == 0:
            return False
        if n > 1 and r_t[strides_at + axis] != expected:
            return True
        expected *= n
    return False


def verify(w, pc):
    tape_t = w[TAPE]
    code_t = w[ENGINE_CODE]
    r_t = w[ENGINE_AUX]
    info_t = w[OP_INFO]
    used = w[AUX_USED]
    kernels = w[OP_COUNT]
    for k in range(w[ROWS]):
        w[BAD] = k
        at = 5 * k
        op = tape_t[6 * k] & 0xFFFF
        active = (tape_t[6 * k] >> 16) & 0xFF
        word = code_t[at] & 0x7FFFF  # without the register flags, which address no cell
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
        arity = info_t[info + 1]
        pattern = (word & 0xFFFF) - info_t[info + VECTOR]
        vector = info_t[info + VECTOR] > 0 and family == 0 and pattern >= 0
        if pattern > arity or (arity == 1 and pattern > 0):
            vector = False
        if vector:
            arm = False
            if word >> 16 != active:
                return UNKNOWN_OP
            if arity == 3 and active != 0:  # there is no reverse arm
                return NO_ADJOINT
        elif not arm and word != ((op + kernels) | (active << 16)):
            return UNKNOWN_OP
        flags = info_t[info + 19]
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
        record = code_t[at + 4]
        levels = 0
        levels_at = 0
        if not arm:
            head = 7
            if kind == CORE:
                head = 4 + info_t[info + 2]
                for which in range(arity + 1):
                    head += info_t[info + 3 + which]
            if record < 0 or record + head > used:
                return BAD_RECORD
            levels = r_t[record]
            levels_at = record + head
            if levels < 0 or levels > 64 or levels_at + 5 * levels > used:
                return BAD_RECORD
        count = 1
        empty = False
        for j in range(levels):
            n = r_t[levels_at + 5 * j]
            if n < 0:
                return BAD_RECORD
            if n == 0:
                empty = True
            count = count * n
            if count > LIMIT:
                return BAD_RECORD
        if not arm and kind != CORE:
            if r_t[record + 1] < 0:
                return BAD_RECORD
            if r_t[record + 1] == 0:
                if r_t[record + 2] != 0:
                    return BAD_RECORD
                empty = True
        strides_at = 0
        if not arm and kind == CORE:
            for j in range(info_t[info + 2]):
                if r_t[record + 4 + j] < 0:
                    return BAD_RECORD
            strides_at = record + 4 + info_t[info + 2]
            fixed = ((flags >> FREE_STRIDES) & 1) == 0
            if fixed and scattered(r_t, record + 4, strides_at, info_t, info):
                return BAD_RECORD
            cells = r_t[record + 3]
            if cells < 0:
                return BAD_RECORD
            if cells > 0 and count > 0:
                if tape_t[6 * k + 5] < 0:
                    return BAD_RECORD
                w[LOW] = 0
                w[HIGH] = 0
                widen(w, cells * count, 1)
                fault = operand_fault(w, tape_t[6 * k + 5], r_t[record + 2], family, False)
                if fault != OK:
                    return fault
        if empty:
            continue
        for which in range(arity + 1):
            first = code_t[at + 1 + which]
            if which == 3 and not arm:
                first = r_t[record + 1]
                if kind != CORE:
                    first = r_t[record + 6]
            w[LOW] = 0
            w[HIGH] = 0
            nothing = False
            for j in range(levels):
                widen(w, r_t[levels_at + 5 * j], r_t[levels_at + 5 * j + 1 + which])
            if not arm and kind == CORE:
                for axis in range(info_t[info + 3 + which]):
                    n = r_t[record + 4 + info_t[info + 7 + 3 * which + axis]]
                    if n == 0:
                        nothing = True
                    widen(w, n, r_t[strides_at])
                    strides_at += 1
            elif not arm:
                widen(w, r_t[record + 1], r_t[record + 2 + which])
            if nothing:
                continue
            cells = family
            if kind == CAST and which == 1:
                cells = 1 - family
            if which > 0 and (flags >> (7 + which)) & 1:
                cells = 0
            takes = active != 0 if which == 0 else ((active >> (which - 1)) & 1) != 0
            fault = operand_fault(w, tape_t[6 * k + 1 + which], first, cells, takes)
            if fault != OK:
                return fault
    return OK
