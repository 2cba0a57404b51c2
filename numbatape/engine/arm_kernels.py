"""The kernel that chooses arms of arithmetic (`numbatape.engine.formula_text`). Kernel language.

This file is read as text, behind that of `plan_tables`, like the other kernels of plans.
"""

from __future__ import annotations

from .plan_tables import (
    ARM_NUMBERS,
    ARMS_WORD,
    CELL,
    CODE_WORDS,
    ENGINE_CODE,
    LAST_ARITHMETIC,
    LINKED,
    OK,
    READ_ONCE,
    ROWS,
    SPLIT_AT,
)

ACTIVE_SHIFT = 16  # This and the next one are those of numbatape.engine.frame, the others of `formula_text`.
OPERANDS_MASK = 7
KEYS = 16
LINK = 4
TO_NEXT = 2
ALONE = 1
KEYS_OF_OP = 128


def link_of(code_t, at, linked):
    """The operand, from 1 on, that is the result of the instruction before and may be in a register, or 0."""
    before = code_t[at - CODE_WORDS + CELL]
    if (linked & 1) == 1 and code_t[at + CELL + 1] == before:
        return 1
    if (linked & 2) == 2 and code_t[at + CELL + 2] == before:
        return 2
    if (linked & 4) == 4 and code_t[at + CELL + 3] == before:
        return 3
    return 0


def arms(w, pc):
    code_t = w[ENGINE_CODE]
    linked_t = w[LINKED]
    number_t = w[ARM_NUMBERS]
    once_t = w[READ_ONCE]
    last = w[LAST_ARITHMETIC]
    to_next = 0  # Of the instruction behind: whether it leaves the adjoint of this result in the register.
    for q in range(w[ROWS]):
        k = w[ROWS] - 1 - q
        at = CODE_WORDS * k
        op = code_t[at] & 0xFFFF
        number = 0
        passed = 0
        if op <= last:
            active = (code_t[at] >> ACTIVE_SHIFT) & OPERANDS_MASK
            key = to_next
            # The main part is a sweep of its own, so the prologue hands no register to it.
            if k > 0 and k != w[SPLIT_AT] and linked_t[op] != 0:
                word = code_t[at - CODE_WORDS]
                before = word & 0xFFFF
                if before <= last and linked_t[before] != 0:
                    link = link_of(code_t, at, linked_t[op])
                    key += LINK * link
                    takes = link > 0 and (active << 1 >> link) & 1 == 1
                    if takes and (word >> ACTIVE_SHIFT) & OPERANDS_MASK != 0:
                        passed = TO_NEXT
                        if once_t[k - 1] != 0:
                            key += ALONE
            number = number_t[(op >> 1) * KEYS_OF_OP + active * KEYS + key]
        to_next = passed
        code_t[at + ARMS_WORD] = number
    return OK
