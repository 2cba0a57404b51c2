"""Steps of freezing in which each instruction depends on those before or after it. Kernel language.

This file is read as text and compiled like every other kernel (`numbatape.tape.column_scans`). An argument
``w`` is an array of 64-bit words, most of them addresses; each kernel begins with the words that it reads.
Names that end in ``_t`` are arrays of 32-bit integers.

Groups of cells are numbered from 1 on (`numbatape.tape.draft.Draft`); 0 stands for an operand that is not
there. In ``operand_t`` each instruction has four entries: its operands and its scratch. In ``place_t`` it has
four, too: its result and its operands, see `numbatape.derive.activity.Places`.
"""

from __future__ import annotations

OPERANDS = 4  # entries of an instruction in operand_t and place_t
MOST_OPERANDS = 3
SCRATCH = 3  # the place of the scratch in operand_t, behind three operands
FIRST_OPERAND = 1  # the place of the operands in place_t, behind the result
FIELDS = 9  # the fields of an instruction in code_t, in the order of numbatape.tape.instruction.Instruction
ACTIVE = 1
STAGE = 2
OUT = 3
A = 4  # the operands follow one another
POOLS = 6  # storages below this number are pools of scalars
STORAGE_FIELDS = 3
GUARD = 65535  # the opcode of a guard, in the lower half of an instruction's first word

# Factors of hashes; a hash has 31 bits, so that its product with one of them fits into 64.
PRIME = 1000003
BITS = 2147483647


def groups(w, pc):
    """Note the group that each instruction writes, and those that it reads."""
    count = w[0]
    word_t = w[1]  # instructions in any form
    width = w[2]  # how many words one has
    first = w[3]  # the place of its result among these; operands and scratch follow
    group_t = w[4]  # the group of each value
    out_t = w[5]  # out
    operand_t = w[6]  # out
    for k in range(count):
        at = width * k + first
        out_t[k] = group_of(group_t, word_t[at])
        for q in range(OPERANDS):
            operand_t[OPERANDS * k + q] = group_of(group_t, word_t[at + 1 + q])
        if word_t[width * k] & GUARD == GUARD:  # the last word is the number of the guard
            operand_t[OPERANDS * k + OPERANDS - 1] = 0
    return 0


def group_of(group_t, value):
    """Return the group of a value, 0 for an operand that is not there."""
    if value < 0:
        return 0
    return group_t[value]


def written(w, pc):
    """Count the instructions that write each group, and note the last one."""
    count = w[0]
    out_t = w[1]
    times_t = w[2]  # out
    last_t = w[3]  # out
    for k in range(count):
        group = out_t[k]
        if group > 0:
            times_t[group] = times_t[group] + 1
            last_t[group] = k
    return 0


def read(w, pc):
    """Count the operands in each group, and note the last instruction that reads it."""
    count = w[0]
    operand_t = w[1]
    times_t = w[2]  # out
    last_t = w[3]  # out
    for place in range(OPERANDS * count):
        group = operand_t[place]
        if group > 0:
            times_t[group] = times_t[group] + 1
            last_t[group] = place // OPERANDS
    return 0


def readers(w, pc):
    """Sort the places in ``operand_t`` by their groups."""
    count = w[0]
    operand_t = w[1]
    next_t = w[2]  # for each group, how many places come before the next one of this group
    place_t = w[3]  # out
    for place in range(OPERANDS * count):
        group = operand_t[place]
        if group > 0:
            place_t[next_t[group]] = place
            next_t[group] = next_t[group] + 1
    return 0


def live(w, pc):
    """Clear ``stays_t`` of the instructions whose results nothing reads that stays, from the last one on."""
    count = w[0]
    out_t = w[1]  # the group that each instruction writes
    operand_t = w[2]
    needed_t = w[3]  # whether each group is read later
    stays_t = w[4]
    for j in range(count):
        k = count - 1 - j
        if stays_t[k] != 0 or needed_t[out_t[k]] != 0:
            stays_t[k] = 1
            for q in range(OPERANDS):
                needed_t[operand_t[OPERANDS * k + q]] = 1
    return 0


def reach(w, pc):
    """Mark the groups that depend on marked ones, and the scratch beside them.

    This is repeated until nothing is added, because cells that are written several times may be read in
    between.
    """
    count = w[0]
    out_t = w[1]
    operand_t = w[2]
    found_t = w[3]
    grown = True
    while grown:
        grown = False
        for k in range(count):
            out = out_t[k]
            if out > 0:
                at = OPERANDS * k
                reached = found_t[out]
                for j in range(MOST_OPERANDS):
                    reached += found_t[operand_t[at + j]]
                if reached > 0:
                    scratch = operand_t[at + SCRATCH]
                    if found_t[out] == 0 or (scratch > 0 and found_t[scratch] == 0):
                        found_t[out] = 1
                        if scratch > 0:
                            found_t[scratch] = 1
                        grown = True
    return 0


def varied(w, pc):
    """Note which operands of each instruction depend on marked places, and mark the places of the results."""
    count = w[0]
    code_t = w[1]
    place_t = w[2]  # the places of each instruction's result and operands
    marked_t = w[3]
    needed_t = w[4]  # out: operands as bits
    for k in range(count):
        active = code_t[FIELDS * k + ACTIVE]
        needed = 0
        for j in range(3):
            if (active >> j) & 1 != 0 and marked_t[place_t[OPERANDS * k + FIRST_OPERAND + j]] != 0:
                needed += 1 << j
        if needed != 0:
            needed_t[k] = needed
            marked_t[place_t[OPERANDS * k]] = 1
    return 0


def useful(w, pc):
    """Mark the instructions that lead to wanted places, from the last one on."""
    count = w[0]
    needed_t = w[1]
    place_t = w[2]
    wanted_t = w[3]
    found_t = w[4]  # out
    for i in range(count):
        k = count - 1 - i
        if wanted_t[place_t[OPERANDS * k]] != 0:
            found_t[k] = 1
            for j in range(3):
                if (needed_t[k] >> j) & 1 != 0:
                    wanted_t[place_t[OPERANDS * k + FIRST_OPERAND + j]] = 1
    return 0


def repeated(w, pc):
    """Mark instructions that repeat an earlier one, and say which group replaces their result's."""
    count = w[0]
    code_t = w[1]
    group_t = w[2]  # the group of each value
    offset_t = w[3]  # the offset of each value; 0 in pools, where the group says it
    layout_t = w[4]  # the group of each value
    several_t = w[5]  # whether several instructions write to a group
    home_t = w[6]  # the storage of each group
    storage_t = w[7]
    alias_t = w[8]  # out: the group that replaces each one, at first itself
    repeats_t = w[9]  # out
    place_t = w[10]  # the groups of each instruction's operands, after replacements
    slot_t = w[11]  # the hash table: numbers of instructions, from 1 on
    last_slot = w[12]  # one less than the number of slots, a power of two
    for k in range(count):
        at = FIELDS * k
        out = code_t[at + OUT]
        if out < 0:
            continue
        target = group_t[out]
        pooled = home_t[target] < POOLS
        if several_t[target] != 0 or (not pooled and offset_t[out] != 0):
            continue
        steady = True
        key = code_t[at] & BITS
        key = (key * PRIME + code_t[at + ACTIVE]) & BITS
        key = (key * PRIME + code_t[at + STAGE]) & BITS
        key = (key * PRIME + layout_t[out]) & BITS
        for j in range(3):
            value = code_t[at + A + j]
            where = 0
            if value >= 0:
                where = alias_t[group_t[value]]
                if several_t[where] != 0:
                    steady = False
                key = (key * PRIME + offset_t[value]) & BITS
                key = (key * PRIME + layout_t[value]) & BITS
            place_t[MOST_OPERANDS * k + j] = where
            key = (key * PRIME + where) & BITS
        if not steady:
            continue
        slot = (key ^ (key >> 15)) & last_slot
        searching = True
        while searching:
            other = slot_t[slot] - 1
            if other < 0:
                slot_t[slot] = k + 1
                searching = False
            elif same(code_t, group_t, offset_t, layout_t, home_t, place_t, k, other):
                searching = False
                first = group_t[code_t[FIELDS * other + OUT]]
                if serves(storage_t, home_t[first], home_t[target]):
                    alias_t[target] = first
                    repeats_t[k] = 1
            else:
                slot = (slot + 1) & last_slot
    return 0


def serves(storage_t, first, target):
    """Whether a result in the first storage can be read in place of one in the other."""
    if target < POOLS:  # whoever reads an active cell may have an adjoint for it, which others have not
        return first >= target  # pools are in the order of their levels
    for j in range(STORAGE_FIELDS):
        if storage_t[STORAGE_FIELDS * first + j] != storage_t[STORAGE_FIELDS * target + j]:
            return False
    return True


def same(code_t, group_t, offset_t, layout_t, home_t, place_t, k, other):
    """Whether two instructions compute the same."""
    for j in range(3):
        if code_t[FIELDS * k + j] != code_t[FIELDS * other + j]:
            return False
        if place_t[MOST_OPERANDS * k + j] != place_t[MOST_OPERANDS * other + j]:
            return False
        x = code_t[FIELDS * k + A + j]
        y = code_t[FIELDS * other + A + j]
        if x >= 0 and (offset_t[x] != offset_t[y] or layout_t[x] != layout_t[y]):
            return False
    x = code_t[FIELDS * k + OUT]
    y = code_t[FIELDS * other + OUT]
    pools = (home_t[group_t[x]] < POOLS) == (home_t[group_t[y]] < POOLS)
    return pools and layout_t[x] == layout_t[y]


def lend(w, pc):
    """Give each storage the cells of one that was read for the last time before, where there is one.

    Of several, it is the one that was read last: its cells are likely to be in a cache.
    """
    count = w[0]
    starting_t = w[1]  # storages by their first instruction
    ending_t = w[2]  # storages by their last instruction
    first_t = w[3]
    last_t = w[4]
    kind_t = w[5]  # a storage may take the cells of one of its kind
    head_t = w[6]  # for each kind, the storage whose cells became free last, or -1
    behind_t = w[7]  # the one that became free before it
    lender_t = w[8]  # out: whose cells a storage takes
    ended = 0
    for j in range(count):
        storage = starting_t[j]
        # An instruction's result never takes the cells of its operands.
        while last_t[ending_t[ended]] < first_t[storage]:
            free = ending_t[ended]
            behind_t[free] = head_t[kind_t[free]]
            head_t[kind_t[free]] = free
            ended += 1
        free = head_t[kind_t[storage]]
        if free >= 0:
            head_t[kind_t[storage]] = behind_t[free]
            lender_t[storage] = lender_t[free]
    return 0


def combined(w, pc):
    """Number the combinations of numbers in rows as they occur; return how many there are."""
    count = w[0]
    width = w[1]  # how many numbers a row has
    row_t = w[2]  # the rows one after another
    number_t = w[3]  # out: the number of each row's combination
    first_t = w[4]  # out: the first row of each combination
    slot_t = w[5]  # the hash table: numbers of combinations, from 1 on
    last_slot = w[6]  # one less than the number of slots, a power of two
    found = 0
    for k in range(count):
        at = width * k
        key = 0
        for q in range(width):
            key = (key * PRIME + row_t[at + q]) & BITS
        slot = (key ^ (key >> 15)) & last_slot
        searching = True
        while searching:
            other = slot_t[slot] - 1
            if other < 0:
                first_t[found] = k
                number_t[k] = found
                found += 1
                slot_t[slot] = found
                searching = False
            elif alike(row_t, at, width * first_t[other], width):
                number_t[k] = other
                searching = False
            else:
                slot = (slot + 1) & last_slot
    return found


def alike(row_t, a, b, width):
    """Whether two rows have the same numbers."""
    q = 0
    while q < width and row_t[a + q] == row_t[b + q]:
        q += 1
    return q == width
