"""The signature of an instruction, and its template. Kernel language, compiled together with `walk_kernel`.

A signature is a row of 32-bit words. Kinds of values are not negative; each negative number has a meaning of
its own (-100 and the number of cotangents that a value has, say), so that no two signatures look alike.
"""

from __future__ import annotations

from .walk_words import (
    ARGUMENTS,
    BASE,
    ENTRIES,
    ENTRY_CT,
    ENTRY_NEXT,
    FIRST_NUMBER,
    FIRST_TERM,
    FLAGS,
    FORWARD,
    HEAD,
    IS_LAST,
    KINDS,
    LAST,
    LENGTH,
    LITERAL,
    MASK,
    MOST_ARGUMENTS,
    MOST_ENTRIES,
    NEEDED,
    NONE,
    NUMBERS,
    OF_COTANGENTS,
    OF_LITERAL,
    OF_TERMS,
    OTHER_VIEW,
    OUT,
    PLACE,
    PLACE_WORDS,
    PLACES,
    POOL_COUNT,
    PYTHONS,
    REFUSED,
    ROW_WORDS,
    ROWS,
    SAME_ADDRESS,
    SAME_STORAGE,
    SAME_VALUE,
    SIGNATURE,
    SIGNATURES,
    SKIP,
    SLOPE_WORDS,
    SLOPED,
    SLOPES,
    SOLE,
    SUM_WORDS,
    SUMS,
    TABLE,
    TEMPLATE_LENGTH,
    TEMPLATE_WORDS,
    TEMPLATES,
    VALUE_LAYOUT,
    VALUE_OFFSET,
    VALUE_WORDS,
    VALUES,
)


def same_address(left, right, value_t):
    """Whether two values have the same offset and layout."""
    first = VALUE_WORDS * left
    second = VALUE_WORDS * right
    if value_t[first + VALUE_OFFSET] != value_t[second + VALUE_OFFSET]:
        return False
    return value_t[first + VALUE_LAYOUT] == value_t[second + VALUE_LAYOUT]


def in_common(k, at_t, value_t):
    """Return a code for what argument k has in common with earlier arguments, 0 for nothing.

    A template may have taken an address from any argument that had it, so instances of one signature must
    agree on which arguments share a value, an address, or the storage of an array.
    """
    value = at_t[k]
    storage = value_t[VALUE_WORDS * value]
    offset = value_t[VALUE_WORDS * value + VALUE_OFFSET]
    code = 0
    beside = 0
    for q in range(k):
        other = at_t[q]
        pair = k * MOST_ARGUMENTS + q
        if other == value:
            return SAME_VALUE - pair
        if value_t[VALUE_WORDS * other] == storage:
            if value_t[VALUE_WORDS * other + VALUE_OFFSET] == offset:
                if code == 0:
                    code = SAME_ADDRESS - pair
            elif beside == 0 and storage >= POOL_COUNT:
                beside = SAME_STORAGE - pair
    if code == 0:
        return beside
    return code


def describe(w, i):
    """Write the signature of an instruction and its arguments, and return the length of the signature."""
    row_t = w[ROWS]
    place_t = w[PLACES]
    entry_t = w[ENTRIES]
    value_t = w[VALUES]
    kind_t = w[KINDS]
    slope_t = w[SLOPES]
    sum_t = w[SUMS]
    sig_t = w[SIGNATURE]
    at_t = w[NUMBERS]
    row = ROW_WORDS * i
    forward = w[FORWARD]
    sig_t[0] = row_t[row]
    n = 1
    m = 0
    for j in range(4):
        if row_t[row + OUT + j] != NONE:
            at_t[m] = row_t[row + OUT + j]
            m += 1
    found = False
    exact = False
    for j in range(4):
        place = row_t[row + PLACE + j]
        if place == NONE:
            continue
        own = row_t[row + OUT + j]
        reads = j > 0
        if forward == 0:
            reads = j == 0
        cell = value_t[VALUE_WORDS * own] < POOL_COUNT
        if not reads and not cell:
            continue
        at = PLACE_WORDS * place
        if place_t[at + PYTHONS] != 0:
            return REFUSED
        entry = place_t[at + HEAD]
        count = 0
        while entry != NONE:
            through = entry_t[entry]
            if not cell and not same_address(through, own, value_t):
                if value_t[VALUE_WORDS * through + VALUE_LAYOUT] == 0:
                    return REFUSED  # the cotangent is that of another cell of the array
                sig_t[n] = OTHER_VIEW
                sig_t[n + 1] = kind_t[through]
                n += 2
                at_t[m] = through
                m += 1
            ct = entry_t[entry + ENTRY_CT]
            if ct > FIRST_NUMBER:
                sig_t[n] = kind_t[ct]
                at_t[m] = ct
                m += 1
            else:
                sig_t[n] = ct
                exact = True
            n += 1
            count += 1
            if count > MOST_ENTRIES:
                return REFUSED
            terms = 0
            if reads and forward != 0 and ct > FIRST_NUMBER and (row_t[row + FLAGS] >> j) & SOLE != 0:
                terms = sum_t[SUM_WORDS * ct]
            if terms > 0:
                sig_t[n] = OF_TERMS - terms
                n += 1
                for k in range(terms):
                    part = sum_t[SUM_WORDS * ct + FIRST_TERM + k]
                    if part > FIRST_NUMBER:
                        sig_t[n] = kind_t[part]
                        at_t[m] = part
                        m += 1
                    else:
                        sig_t[n] = part
                        exact = True
                    n += 1
            entry = entry_t[entry + ENTRY_NEXT]
        base = place_t[at + BASE]
        if base != NONE:
            sig_t[n] = kind_t[base]
            n += 1
            at_t[m] = base
            m += 1
            count += MOST_ENTRIES + 1
        if reads and count > 0:
            found = True
        sig_t[n] = OF_COTANGENTS - count
        n += 1
    if not found:
        return SKIP
    if row_t[row + FLAGS] & SLOPED != 0:
        for j in range(3):
            if (row_t[row + NEEDED] >> j) & 1 != 0:
                slope = slope_t[SLOPE_WORDS * row_t[row + OUT] + j]
                if slope < 0:
                    sig_t[n] = slope
                else:
                    sig_t[n] = kind_t[slope]
                    at_t[m] = slope
                    m += 1
                n += 1
    if exact:  # plain numbers are multiplied with literals at once, so the literals' values decide
        for j in range(3):
            if row_t[row + FLAGS] & (LITERAL << j) != 0:
                sig_t[n] = OF_LITERAL - row_t[row + OUT + 1 + j]
                n += 1
    # Which argument is the result of the last instruction, and what others have in common with earlier ones.
    last = w[LAST]
    for k in range(m):
        if at_t[k] == last:
            sig_t[n] = IS_LAST - k
            n += 1
        code = in_common(k, at_t, value_t)
        if code != 0:
            sig_t[n] = code
            n += 1
    w[ARGUMENTS] = m
    return n


def find(w, n):
    """Return the number of the template of the signature that was written down, NONE if there is none."""
    sig_t = w[SIGNATURE]
    table_t = w[TABLE]
    template_t = w[TEMPLATES]
    signature_t = w[SIGNATURES]
    code = 0
    for k in range(n):
        code = (code * 1000003 + sig_t[k] + 65536) & 0xFFFFFFFF
    slot = code & w[MASK]
    w[LENGTH] = n
    while table_t[slot] != 0:
        number = table_t[slot] - 1
        at = TEMPLATE_WORDS * number
        if template_t[at + TEMPLATE_LENGTH] == n:
            same = True
            for k in range(n):
                if signature_t[template_t[at] + k] != sig_t[k]:
                    same = False
                    break
            if same:
                return number
        slot = (slot + 1) & w[MASK]
    return NONE
