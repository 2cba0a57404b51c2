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
    EXACT,
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
    ROW_VALUES,
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


def put_argument(w, number):
    """Add an argument to the signature, with what decides how it is used."""
    kind_t = w[KINDS]
    put_word(w, kind_t[number])
    put_number(w, number)


def put_word(w, word):
    """Add a word to the signature."""
    sig_t = w[SIGNATURE]
    sig_t[w[LENGTH]] = word
    w[LENGTH] += 1


def put_number(w, number):
    """Note an argument of the signature."""
    at_t = w[NUMBERS]
    at_t[w[ARGUMENTS]] = number
    w[ARGUMENTS] += 1


def put_cotangent(w, number):
    """Add a cotangent or tangent, which is a value or a plain number."""
    if number > FIRST_NUMBER:
        put_argument(w, number)
    else:
        put_word(w, number)
        w[EXACT] = 1


def put_terms(w, number):
    """Add the products that a tangent is the sum of."""
    sum_t = w[SUMS]
    terms = sum_t[SUM_WORDS * number]
    if terms > 0:
        put_word(w, OF_TERMS - terms)
        for k in range(terms):
            put_cotangent(w, sum_t[SUM_WORDS * number + FIRST_TERM + k])


def put_chain(w, i, j, reads):
    """Add the cotangents of a place, a chain of entries and perhaps a base; return how many, or REFUSED.

    Parameters
    ----------
    reads
        Whether the instruction's derivative reads them; it may only add to others.
    """
    row_t = w[ROWS]
    place_t = w[PLACES]
    entry_t = w[ENTRIES]
    value_t = w[VALUES]
    row = ROW_WORDS * i
    own = row_t[row + OUT + j]
    cell = value_t[VALUE_WORDS * own] < POOL_COUNT
    sole = reads and w[FORWARD] != 0 and (row_t[row + FLAGS] >> j) & SOLE != 0
    at = PLACE_WORDS * row_t[row + PLACE + j]
    if place_t[at + PYTHONS] != 0:
        return REFUSED
    entry = place_t[at + HEAD]
    count = 0
    while entry != NONE:
        through = entry_t[entry]
        if not cell and not same_address(through, own, value_t):
            if value_t[VALUE_WORDS * through + VALUE_LAYOUT] == 0:
                return REFUSED  # The cotangent is that of another cell of the array.
            put_word(w, OTHER_VIEW)
            put_argument(w, through)
        ct = entry_t[entry + ENTRY_CT]
        put_cotangent(w, ct)
        count += 1
        if count > MOST_ENTRIES:
            return REFUSED
        if sole and ct > FIRST_NUMBER:
            put_terms(w, ct)
        entry = entry_t[entry + ENTRY_NEXT]
    base = place_t[at + BASE]
    if base != NONE:
        put_argument(w, base)
        count += MOST_ENTRIES + 1
    put_word(w, OF_COTANGENTS - count)
    return count


def put_partials(w, i):
    """Add the partials of an instruction that are needed, where they are noted."""
    row_t = w[ROWS]
    slope_t = w[SLOPES]
    row = ROW_WORDS * i
    for j in range(SLOPE_WORDS):
        if (row_t[row + NEEDED] >> j) & 1 != 0:
            slope = slope_t[SLOPE_WORDS * row_t[row + OUT] + j]
            if slope < 0:
                put_word(w, slope)
            else:
                put_argument(w, slope)


def put_relations(w):
    """Add which argument is the last instruction's result, and what each has in common with earlier ones."""
    value_t = w[VALUES]
    at_t = w[NUMBERS]
    for k in range(w[ARGUMENTS]):
        if at_t[k] == w[LAST]:
            put_word(w, IS_LAST - k)
        code = in_common(k, at_t, value_t)
        if code != 0:
            put_word(w, code)


def describe(w, i):
    """Write the signature of an instruction and its arguments, and return the length of the signature."""
    row_t = w[ROWS]
    value_t = w[VALUES]
    row = ROW_WORDS * i
    w[LENGTH] = 0
    w[ARGUMENTS] = 0
    w[EXACT] = 0
    put_word(w, row_t[row])
    for j in range(ROW_VALUES):
        if row_t[row + OUT + j] != NONE:
            put_number(w, row_t[row + OUT + j])
    found = False
    for j in range(ROW_VALUES):
        if row_t[row + PLACE + j] == NONE:
            continue
        reads = j > 0
        if w[FORWARD] == 0:
            reads = j == 0
        if not reads and value_t[VALUE_WORDS * row_t[row + OUT + j]] >= POOL_COUNT:
            continue
        count = put_chain(w, i, j, reads)
        if count == REFUSED:
            return REFUSED
        if reads and count > 0:
            found = True
    if not found:
        return SKIP
    if row_t[row + FLAGS] & SLOPED != 0:
        put_partials(w, i)
    if w[EXACT] != 0:  # Plain numbers are multiplied with literals at once, so the literals' values decide.
        for j in range(ROW_VALUES - 1):
            if row_t[row + FLAGS] & (LITERAL << j) != 0:
                put_word(w, OF_LITERAL - row_t[row + OUT + 1 + j])
    put_relations(w)
    return w[LENGTH]


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
