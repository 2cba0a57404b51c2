"""Kernels that derive a plan from a tape and sizes, and that prove a plan safe. Kernel language.

Read as text and compiled like every other kernel (`numbatape.engine.plan`); ``*_t`` are arrays of
32-bit integers, ``*_q`` of 64-bit ones. The words of ``w`` are named below.
"""

from __future__ import annotations

# Inputs of derive(); the tape's arrays are described in numbatape.tape.tape.
TAPE = 0  # instructions, six words each
ROWS = 1  # number of instructions
VALUES = 2  # storage, offset, layout
LAYOUTS = 3  # start, dimensions: where a layout's codes stand
LAYOUT_DIMS = 4
LAYOUT_STRIDES = 5
SIZE_VALUES = 6  # evaluated size expressions
BASES = 7  # first cell of each storage
OP_INFO = 8  # per row of the op table, see INFO below
ENGINE_CODE = 9  # out: five words an instruction
ENGINE_AUX = 10  # out: records
AUX_USED = 11  # out
BAD = 12  # out: the instruction that failed
# Inputs of verify() besides.
AUX_CELLS = 13
TOTAL64 = 14
TOTAL32 = 15
ACTIVE64 = 16
ACTIVE_CELLS64 = 17
ACTIVE32 = 18
ACTIVE_CELLS32 = 19
OP_COUNT = 20
SPLIT_AT = 21

INFO = 20  # words a row: kind, arity, letters, core ranks of o a b c, letter numbers (3 each), flags
HOT = 0
LOOP = 1
CORE = 2
CAST = 3
GUARD = 0xFFFF

# Reasons, in the order of numbatape.engine.plan.REASONS.
OK = 0
SIZES_DIFFER = 1
UNKNOWN_OP = 2
OUT_OF_RANGE = 3
NO_ADJOINT = 4
BAD_RECORD = 5
TOO_LARGE = 6

LIMIT = 2147483647


def size_of(code, size_q):
    if code >= 0:
        return code
    return size_q[-code - 1]


def cell_of(value, value_t, base_q, size_q):
    if value < 0:
        return 0
    return base_q[value_t[3 * value]] + size_of(value_t[3 * value + 1], size_q)


def rank_of(value, value_t, layout_t):
    return layout_t[2 * value_t[3 * value + 2] + 1]


def dim_of(value, axis, value_t, layout_t, dims_t, size_q):
    return size_of(dims_t[layout_t[2 * value_t[3 * value + 2]] + axis], size_q)


def stride_of(value, axis, rank, n, value_t, layout_t, dims_t, strides_t, size_q):
    """Stride along an axis of a result with `rank` axes, as broadcasting sees it."""
    if value < 0:
        return 0
    own = axis - (rank - rank_of(value, value_t, layout_t))
    if own < 0:
        return 0
    if n != 1 and dim_of(value, own, value_t, layout_t, dims_t, size_q) == 1:
        return 0
    return size_of(strides_t[layout_t[2 * value_t[3 * value + 2]] + own], size_q)


def derive(w, pc):
    tape_t = w[TAPE]
    value_t = w[VALUES]
    layout_t = w[LAYOUTS]
    dims_t = w[LAYOUT_DIMS]
    strides_t = w[LAYOUT_STRIDES]
    size_q = w[SIZE_VALUES]
    base_q = w[BASES]
    info_t = w[OP_INFO]
    code_t = w[ENGINE_CODE]
    r_t = w[ENGINE_AUX]
    top = 0
    for k in range(w[ROWS]):
        w[BAD] = k
        op = tape_t[6 * k] & 0xFFFF
        active = (tape_t[6 * k] >> 16) & 0xFF
        out = tape_t[6 * k + 1]
        a = tape_t[6 * k + 2]
        b = tape_t[6 * k + 3]
        c = tape_t[6 * k + 4]
        aux = tape_t[6 * k + 5]
        o_cell = cell_of(out, value_t, base_q, size_q)
        a_cell = cell_of(a, value_t, base_q, size_q)
        b_cell = cell_of(b, value_t, base_q, size_q)
        c_cell = cell_of(c, value_t, base_q, size_q)
        at = 5 * k
        code_t[at] = op | (active << 16)
        code_t[at + 1] = o_cell
        code_t[at + 2] = a_cell
        code_t[at + 3] = b_cell
        code_t[at + 4] = c_cell
        if op == GUARD:
            continue
        row = op >> 1
        info = INFO * row
        rank = rank_of(out, value_t, layout_t)
        if info_t[info] == HOT and (op & 1) == 0:
            one = True
            for axis in range(rank):
                if dim_of(out, axis, value_t, layout_t, dims_t, size_q) != 1:
                    one = False
            if one:
                continue
        code_t[at] = (op + w[OP_COUNT]) | (active << 16)
        code_t[at + 4] = top
        if info_t[info] == CORE:
            letters = info_t[info + 2]
            r_t[top + 1] = c_cell
            r_t[top + 2] = cell_of(aux, value_t, base_q, size_q)
            r_t[top + 3] = 0
            if aux >= 0:
                last = rank_of(aux, value_t, layout_t) - 1
                r_t[top + 3] = dim_of(aux, last, value_t, layout_t, dims_t, size_q)
            place = top + 4
            for j in range(letters):
                r_t[place + j] = -1
            strides_at = place + letters
            for which in range(info_t[info + 1] + 1):
                value = out
                if which == 1:
                    value = a
                elif which == 2:
                    value = b
                elif which == 3:
                    value = c
                core = info_t[info + 3 + which]
                own = rank_of(value, value_t, layout_t)
                for axis in range(core):
                    letter = info_t[info + 7 + 3 * which + axis]
                    n = dim_of(value, own - core + axis, value_t, layout_t, dims_t, size_q)
                    if r_t[place + letter] >= 0 and r_t[place + letter] != n:
                        return SIZES_DIFFER
                    r_t[place + letter] = n
                    start = layout_t[2 * value_t[3 * value + 2]]
                    r_t[strides_at] = size_of(strides_t[start + own - core + axis], size_q)
                    strides_at += 1
            levels_at = strides_at
            rank = rank - info_t[info + 3]
        else:
            r_t[top + 6] = c_cell
            levels_at = top + 7
        # Collapse the loop from the inside out; axes of size one vanish.
        levels = 0
        empty = False
        m = 1
        mo = 0
        ma = 0
        mb = 0
        mc = 0
        core_a = 0
        core_b = 0
        core_c = 0
        if info_t[info] == CORE:
            core_a = info_t[info + 4]
            core_b = info_t[info + 5]
            core_c = info_t[info + 6]
        for q in range(rank):
            axis = rank - 1 - q
            n = dim_of(out, axis, value_t, layout_t, dims_t, size_q)
            if n == 0:
                empty = True
            if n == 1:
                continue
            so = size_of(strides_t[layout_t[2 * value_t[3 * out + 2]] + axis], size_q)
            sa = stride_of(a, axis, rank + core_a, n, value_t, layout_t, dims_t, strides_t, size_q)
            sb = stride_of(b, axis, rank + core_b, n, value_t, layout_t, dims_t, strides_t, size_q)
            sc = stride_of(c, axis, rank + core_c, n, value_t, layout_t, dims_t, strides_t, size_q)
            if m > 1 and so == mo * m and sa == ma * m and sb == mb * m and sc == mc * m:
                m = m * n
                continue
            if m > 1:
                at_level = levels_at + 5 * levels
                r_t[at_level] = m
                r_t[at_level + 1] = mo
                r_t[at_level + 2] = ma
                r_t[at_level + 3] = mb
                r_t[at_level + 4] = mc
                levels += 1
            m = n
            mo = so
            ma = sa
            mb = sb
            mc = sc
        if m > 1:
            at_level = levels_at + 5 * levels
            r_t[at_level] = m
            r_t[at_level + 1] = mo
            r_t[at_level + 2] = ma
            r_t[at_level + 3] = mb
            r_t[at_level + 4] = mc
            levels += 1
        if info_t[info] == CORE:
            if empty:
                r_t[levels_at] = 0
                levels = 1
                for j in range(4):
                    r_t[levels_at + 1 + j] = 0
            r_t[top] = levels
            top = levels_at + 5 * levels
        else:
            # The innermost level moves into the head.
            r_t[top + 1] = 1
            for j in range(4):
                r_t[top + 2 + j] = 0
            if levels > 0:
                for j in range(5):
                    r_t[top + 1 + j] = r_t[levels_at + j]
                for j in range(5 * (levels - 1)):
                    r_t[levels_at + j] = r_t[levels_at + 5 + j]
                levels -= 1
            if empty:
                levels = 0
                r_t[top + 1] = 0
            r_t[top] = levels
            top = levels_at + 5 * levels
        if top > LIMIT - 256:
            return TOO_LARGE
    w[AUX_USED] = top
    return OK


def reaches(first, low, high, total):
    """Whether cells first+low .. first+high lie in 0 .. total-1."""
    return first + low >= 0 and first + high < total


def verify(w, pc):
    code_t = w[ENGINE_CODE]
    r_t = w[ENGINE_AUX]
    info_t = w[OP_INFO]
    used = w[AUX_USED]
    kernels = w[OP_COUNT]
    for k in range(w[ROWS]):
        w[BAD] = k
        at = 5 * k
        if code_t[at] < 0:
            return UNKNOWN_OP
        op = code_t[at] & 0xFFFF
        active = code_t[at] >> 16
        if active > 7:
            return UNKNOWN_OP
        if op == GUARD:
            if active != 0 or not reaches(code_t[at + 2], 0, 0, w[TOTAL64]):
                return OUT_OF_RANGE
            if not reaches(code_t[at + 3], 0, 0, w[TOTAL64]):
                return OUT_OF_RANGE
            continue
        arm = op < kernels
        if not arm:
            op = op - kernels
        if op >= kernels:
            return UNKNOWN_OP
        family = op & 1
        info = INFO * (op >> 1)
        kind = info_t[info]
        arity = info_t[info + 1]
        if arm and (kind != HOT or family != 0):
            return UNKNOWN_OP
        if (active >> arity) != 0 or (active & info_t[info + 19]) != active:
            return NO_ADJOINT
        if active != 0 and k < w[SPLIT_AT]:
            return NO_ADJOINT
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
                return TOO_LARGE
        if not arm and kind != CORE:
            if r_t[record + 1] < 0:
                return BAD_RECORD
            if r_t[record + 1] == 0:
                empty = True
        if not arm and kind == CORE:
            for j in range(info_t[info + 2]):
                if r_t[record + 4 + j] < 0:
                    return BAD_RECORD
            if r_t[record + 3] < 0:
                return BAD_RECORD
            scratch = r_t[record + 3] * count
            if scratch > 0:
                total = w[TOTAL64]
                if family == 1:
                    total = w[TOTAL32]
                if not reaches(r_t[record + 2], 0, scratch - 1, total):
                    return OUT_OF_RANGE
        if empty:
            continue
        strides_at = record + 4 + info_t[info + 2]
        for which in range(arity + 1):
            first = code_t[at + 1 + which]
            if which == 3 and not arm:
                first = r_t[record + 1]
                if kind != CORE:
                    first = r_t[record + 6]
            low = 0
            high = 0
            nothing = False
            if not arm:
                for j in range(levels):
                    span = (r_t[levels_at + 5 * j] - 1) * r_t[levels_at + 5 * j + 1 + which]
                    low += min(0, span)
                    high += max(0, span)
                if kind == CORE:
                    for axis in range(info_t[info + 3 + which]):
                        n = r_t[record + 4 + info_t[info + 7 + 3 * which + axis]]
                        if n == 0:
                            nothing = True
                        span = (n - 1) * r_t[strides_at]
                        strides_at += 1
                        low += min(0, span)
                        high += max(0, span)
                else:
                    span = (r_t[record + 1] - 1) * r_t[record + 2 + which]
                    low += min(0, span)
                    high += max(0, span)
            if nothing:
                continue
            cells = family
            if kind == CAST and which == 1:
                cells = 1 - family
            if which > 0 and (info_t[info + 19] >> (7 + which)) & 1:
                cells = 0  # positions live in float64 cells
            total = w[TOTAL64]
            first_active = w[ACTIVE64]
            active_cells = w[ACTIVE_CELLS64]
            if cells == 1:
                total = w[TOTAL32]
                first_active = w[ACTIVE32]
                active_cells = w[ACTIVE_CELLS32]
            if not reaches(first, low, high, total):
                return OUT_OF_RANGE
            takes = active != 0 if which == 0 else ((active >> (which - 1)) & 1) != 0
            if takes and not reaches(first - first_active, low, high, active_cells):
                return NO_ADJOINT
    return OK
