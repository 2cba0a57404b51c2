"""The kernel that derives a plan from a tape and sizes. Kernel language.

This file is read as text and compiled like every other kernel (`numbatape.engine.verify_plan`), behind the
text of `plan_tables`.
"""

from __future__ import annotations

from .plan_tables import (
    ARITY,
    AUX,
    AUX_USED,
    BAD,
    CELL,
    CODE_WORDS,
    CORE,
    CORE_CELLS,
    CORE_HEAD,
    CORE_RANKS,
    CORE_SCRATCH,
    CORE_THIRD,
    ENGINE_AUX,
    ENGINE_CODE,
    GUARD,
    HOT,
    INFO,
    LAYOUT_DIMS,
    LAYOUT_STRIDES,
    LAYOUTS,
    LETTER_NUMBERS,
    LETTERS,
    LEVEL,
    LEVEL_STRIDES,
    LOOP_COUNT,
    LOOP_HEAD,
    LOOP_STRIDES,
    LOOP_THIRD,
    MOST_LETTERS,
    OK,
    OP_COUNT,
    OP_INFO,
    OUT,
    RECORD,
    ROWS,
    SIZE_VALUES,
    SIZES_DIFFER,
    STORAGES,
    TAPE,
    TAPE_WORDS,
    VALUES,
    VECTOR,
    cell_of,
    dim_of,
    layout_of,
    rank_of,
    size_of,
)

OPERANDS = 4  # the result and three operands
# What `put_levels` and `put_core` return in place of a number that is not negative.
DIFFERENT = -1  # the sizes of operands differ
EMPTY = -2  # an axis has no entries, so the loop has no turns


def stride_of(value, axis, rank, n, value_t, layout_t, dims_t, strides_t, size_q):
    """Stride along an axis of a result with `rank` axes, as broadcasting sees it."""
    if value < 0:
        return 0
    own = axis - (rank - rank_of(value, value_t, layout_t))
    if own < 0:
        return 0
    if n != 1 and dim_of(value, own, value_t, layout_t, dims_t, size_q) == 1:
        return 0
    return size_of(strides_t[layout_t[layout_of(value, value_t)] + own], size_q)


def broadcasts(value, axis, rank, n, value_t, layout_t, dims_t, size_q):
    """Whether an operand's axis has the result's size, or one that broadcasts to it."""
    own = axis - (rank - rank_of(value, value_t, layout_t)) if value >= 0 else -1
    if own < 0:
        return True
    dim = dim_of(value, own, value_t, layout_t, dims_t, size_q)
    return dim == n or dim == 1


def nearest_axis(value, rank, seen, value_t, layout_t, strides_t, size_q):
    """The axis with the smallest stride of those that are not in a set of bits; of equals the last."""
    start = layout_t[layout_of(value, value_t)]
    best = -1
    least = 0
    for q in range(rank):
        axis = rank - 1 - q
        if (seen >> axis) & 1 == 0:
            stride = abs(size_of(strides_t[start + axis], size_q))
            if best < 0 or stride < least:
                best = axis
                least = stride
    return best


def vector_pattern(info_t, info, n, so, sa, sb, sc):
    """Place of a contiguous loop among the patterns of an op's vector arms, or -1.

    The place is 0 where all operands step along, or else the number of the one that does not.
    """
    if info_t[info + VECTOR] == 0 or n < 1 or so != 1:
        return -1
    arity = info_t[info + ARITY]
    if arity < 2:
        sb = 1
    if arity < 3:
        sc = 1
    if sa == 1 and sb == 1 and sc == 1:
        return 0
    if sa == 0 and sb == 1 and sc == 1 and arity > 1:
        return 1
    if sa == 1 and sb == 0 and sc == 1:
        return 2
    if sa == 1 and sb == 1 and sc == 0:
        return 3
    return -1


def put_level(r_t, at, n, so, sa, sb, sc):
    """Write one level of a record's loop."""
    r_t[at] = n
    r_t[at + LEVEL_STRIDES] = so
    r_t[at + LEVEL_STRIDES + 1] = sa
    r_t[at + LEVEL_STRIDES + 2] = sb
    r_t[at + LEVEL_STRIDES + 3] = sc


def is_one_cell(value, value_t, layout_t, dims_t, size_q):
    """Whether each dimension of a value is one."""
    for axis in range(rank_of(value, value_t, layout_t)):
        if dim_of(value, axis, value_t, layout_t, dims_t, size_q) != 1:
            return False
    return True


def put_core(w, k, top):
    """Write an array op's record up to its levels; return where these begin, or DIFFERENT."""
    tape_t = w[TAPE]
    value_t = w[VALUES]
    layout_t = w[LAYOUTS]
    dims_t = w[LAYOUT_DIMS]
    strides_t = w[LAYOUT_STRIDES]
    size_q = w[SIZE_VALUES]
    storage_q = w[STORAGES]
    info_t = w[OP_INFO]
    r_t = w[ENGINE_AUX]
    info = INFO * ((tape_t[TAPE_WORDS * k] & 0xFFFF) >> 1)
    letters = info_t[info + LETTERS]
    aux = tape_t[TAPE_WORDS * k + AUX]
    r_t[top + CORE_THIRD] = cell_of(tape_t[TAPE_WORDS * k + OUT + 3], value_t, storage_q, size_q)
    r_t[top + CORE_SCRATCH] = cell_of(aux, value_t, storage_q, size_q)
    r_t[top + CORE_CELLS] = 0
    if aux >= 0:
        last = rank_of(aux, value_t, layout_t) - 1
        r_t[top + CORE_CELLS] = dim_of(aux, last, value_t, layout_t, dims_t, size_q)
    place = top + CORE_HEAD
    for j in range(letters):
        r_t[place + j] = -1
    strides_at = place + letters
    for which in range(info_t[info + ARITY] + 1):
        value = tape_t[TAPE_WORDS * k + OUT + which]
        core = info_t[info + CORE_RANKS + which]
        own = rank_of(value, value_t, layout_t)
        for axis in range(core):
            letter = info_t[info + LETTER_NUMBERS + MOST_LETTERS * which + axis]
            n = dim_of(value, own - core + axis, value_t, layout_t, dims_t, size_q)
            if r_t[place + letter] >= 0 and r_t[place + letter] != n:
                return DIFFERENT
            r_t[place + letter] = n
            start = layout_t[layout_of(value, value_t)]
            r_t[strides_at] = size_of(strides_t[start + own - core + axis], size_q)
            strides_at += 1
    return strides_at


def core_rank(info_t, info, which):
    """How many axes of an array op's result or operand the op itself takes; none of an elementwise op's."""
    return info_t[info + CORE_RANKS + which] if info_t[info] == CORE else 0


def put_levels(w, k, at):
    """Write the levels of an instruction's loop; return how many, or EMPTY or DIFFERENT.

    Axes are joined from the inside out to one level where their strides allow it; those of size one vanish.
    """
    tape_t = w[TAPE]
    value_t = w[VALUES]
    layout_t = w[LAYOUTS]
    dims_t = w[LAYOUT_DIMS]
    strides_t = w[LAYOUT_STRIDES]
    size_q = w[SIZE_VALUES]
    info_t = w[OP_INFO]
    r_t = w[ENGINE_AUX]
    out = tape_t[TAPE_WORDS * k + OUT]
    a = tape_t[TAPE_WORDS * k + OUT + 1]
    b = tape_t[TAPE_WORDS * k + OUT + 2]
    c = tape_t[TAPE_WORDS * k + OUT + 3]
    info = INFO * ((tape_t[TAPE_WORDS * k] & 0xFFFF) >> 1)
    rank = rank_of(out, value_t, layout_t) - core_rank(info_t, info, 0)
    rank_a = rank + core_rank(info_t, info, 1)
    rank_b = rank + core_rank(info_t, info, 2)
    rank_c = rank + core_rank(info_t, info, 3)
    levels = 0
    empty = False
    # These are the size and the strides of the level that further axes may join.
    m, mo, ma, mb, mc = 1, 0, 0, 0, 0
    seen = 0
    for q in range(rank):
        axis = rank - 1 - q
        if info_t[info] != CORE:
            # The axis of the result's closest cells is innermost, so that a transposed one is written
            # in order.
            axis = nearest_axis(out, rank, seen, value_t, layout_t, strides_t, size_q)
            seen |= 1 << axis
        n = dim_of(out, axis, value_t, layout_t, dims_t, size_q)
        if not (
            broadcasts(a, axis, rank_a, n, value_t, layout_t, dims_t, size_q)
            and broadcasts(b, axis, rank_b, n, value_t, layout_t, dims_t, size_q)
            and broadcasts(c, axis, rank_c, n, value_t, layout_t, dims_t, size_q)
        ):
            return DIFFERENT
        if n == 0:
            empty = True
        if n == 1:
            continue
        so = size_of(strides_t[layout_t[layout_of(out, value_t)] + axis], size_q)
        sa = stride_of(a, axis, rank_a, n, value_t, layout_t, dims_t, strides_t, size_q)
        sb = stride_of(b, axis, rank_b, n, value_t, layout_t, dims_t, strides_t, size_q)
        sc = stride_of(c, axis, rank_c, n, value_t, layout_t, dims_t, strides_t, size_q)
        if m > 1 and so == mo * m and sa == ma * m and sb == mb * m and sc == mc * m:
            m = m * n
            continue
        if m > 1:
            put_level(r_t, at + LEVEL * levels, m, mo, ma, mb, mc)
            levels += 1
        m, mo, ma, mb, mc = n, so, sa, sb, sc
    if m > 1:
        put_level(r_t, at + LEVEL * levels, m, mo, ma, mb, mc)
        levels += 1
    return EMPTY if empty else levels


def end_core(w, top, levels_at, levels):
    """Finish an array op's record; return where it ends. One level of no turns stands for an empty loop."""
    r_t = w[ENGINE_AUX]
    if levels == EMPTY:
        r_t[levels_at] = 0
        levels = 1
        for j in range(LEVEL - 1):
            r_t[levels_at + LEVEL_STRIDES + j] = 0
    r_t[top] = levels
    return levels_at + LEVEL * levels


def end_loop(w, k, top, levels):
    """Move the innermost level of a loop into the record's head; return where the record ends.

    A loop that an arm of the sweeps serves gets that arm's opcode, and no record if it needs none.
    """
    tape_t = w[TAPE]
    info_t = w[OP_INFO]
    code_t = w[ENGINE_CODE]
    r_t = w[ENGINE_AUX]
    op = tape_t[TAPE_WORDS * k] & 0xFFFF
    active = (tape_t[TAPE_WORDS * k] >> 16) & 0xFF
    info = INFO * (op >> 1)
    arity = info_t[info + ARITY]
    head = top + LOOP_COUNT
    levels_at = top + LOOP_HEAD
    r_t[head] = 1
    for j in range(LEVEL - 1):
        r_t[top + LOOP_STRIDES + j] = 0
    if levels > 0:
        for j in range(LEVEL):
            r_t[head + j] = r_t[levels_at + j]
        for j in range(LEVEL * (levels - 1)):
            r_t[levels_at + j] = r_t[levels_at + LEVEL + j]
        levels -= 1
    elif levels == EMPTY:  # The strides are zero, so that no loop loads its invariant operands.
        levels = 0
        r_t[head] = 0
    r_t[top] = levels
    pattern = -1
    if levels == 0 and (op & 1) == 0 and (arity < 3 or active == 0):
        so = r_t[head + LEVEL_STRIDES]
        sa = r_t[head + LEVEL_STRIDES + 1]
        sb = r_t[head + LEVEL_STRIDES + 2]
        sc = r_t[head + LEVEL_STRIDES + 3]
        pattern = vector_pattern(info_t, info, r_t[head], so, sa, sb, sc)
    if pattern >= 0:
        code_t[CODE_WORDS * k] = (info_t[info + VECTOR] + pattern) | (active << 16)
    if pattern >= 0 and arity < 3:
        code_t[CODE_WORDS * k + RECORD] = r_t[head]  # The number of cells is all there is to say.
        return top
    return levels_at + LEVEL * levels


def derive(w, pc):
    """Derive the plan of a tape for the sizes in the frame `w`; return OK or what is wrong.

    For each instruction it writes a row of the engine's code (the opcode and the first cells of its operands)
    and, where one cell or a vector arm's count does not say all, a record: the sizes and strides of an array
    op's core axes and of the loops around it. If something is wrong, ``w[BAD]`` is the number of the
    instruction.
    """
    tape_t = w[TAPE]
    value_t = w[VALUES]
    layout_t = w[LAYOUTS]
    dims_t = w[LAYOUT_DIMS]
    size_q = w[SIZE_VALUES]
    storage_q = w[STORAGES]
    info_t = w[OP_INFO]
    code_t = w[ENGINE_CODE]
    r_t = w[ENGINE_AUX]
    top = 0
    for k in range(w[ROWS]):
        w[BAD] = k
        op = tape_t[TAPE_WORDS * k] & 0xFFFF
        active = (tape_t[TAPE_WORDS * k] >> 16) & 0xFF
        at = CODE_WORDS * k
        code_t[at] = op | (active << 16)
        for which in range(OPERANDS):
            cell = cell_of(tape_t[TAPE_WORDS * k + OUT + which], value_t, storage_q, size_q)
            code_t[at + CELL + which] = cell
        if op == GUARD:
            continue
        info = INFO * (op >> 1)
        out = tape_t[TAPE_WORDS * k + OUT]
        if info_t[info] == HOT and (op & 1) == 0 and is_one_cell(out, value_t, layout_t, dims_t, size_q):
            continue
        third = code_t[at + CELL + 3]
        code_t[at] = (op + w[OP_COUNT]) | (active << 16)
        code_t[at + RECORD] = top
        if info_t[info] == CORE:
            levels_at = put_core(w, k, top)
            if levels_at == DIFFERENT:
                return SIZES_DIFFER
        else:
            r_t[top + LOOP_THIRD] = third
            levels_at = top + LOOP_HEAD
        levels = put_levels(w, k, levels_at)
        if levels == DIFFERENT:
            return SIZES_DIFFER
        if info_t[info] == CORE:
            top = end_core(w, top, levels_at, levels)
        else:
            top = end_loop(w, k, top, levels)
    w[AUX_USED] = top
    return OK
