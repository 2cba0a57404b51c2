"""The kernel that walks a tape by templates. Kernel language.

It reads instructions in the order of the walk. For each it writes down the signature, looks up the template,
and appends what this says. It stops where Python must continue: at a signature without a template, and at a
derivative that no template can repeat. The argument ``w`` is an array of 64-bit words, see `walk_words`.
"""

from __future__ import annotations

from .walk_signature import describe, find
from .walk_words import (
    ADDED_CT,
    ADDED_WORDS,
    ARGUMENTS,
    ARRAY_BASE,
    ARRAY_ENTRIES,
    ARRAY_PART,
    ARRAY_STAYS,
    ARRAY_WORDS,
    AT,
    BASE,
    CELL_PART,
    CELLS_COUNT,
    CELLS_WORDS,
    CHAIN,
    CHAIN_CTS,
    CHAIN_VALUES,
    CODE,
    CODE_COUNT,
    CODE_OUT,
    CODE_PART,
    CODE_WORDS,
    COUNT,
    DONE,
    ENTRIES,
    ENTRY_COUNT,
    ENTRY_CT,
    ENTRY_NEXT,
    ENTRY_WORDS,
    FIRST_TERM,
    FORWARD,
    FRESH,
    FULL,
    GUARD_COUNT,
    GUARD_PART,
    HEAD,
    HEADER,
    KINDS,
    LAST,
    LATEST,
    LINE,
    MOST_ENTRIES,
    NEW,
    NEW_KIND,
    NEW_LAYOUT,
    NEW_OFFSET,
    NEW_SLOPES,
    NEW_STORAGES,
    NEW_VALUES,
    NEW_WHAT,
    NEW_WHICH,
    NEW_WORDS,
    NONE,
    NUMBERS,
    OTHERS,
    OUT,
    OWN,
    PLACE,
    PLACE_WORDS,
    PLACES,
    POOL_COUNT,
    POOL_PART,
    POOLS,
    PRODUCTS_COUNT,
    PRODUCTS_FIRST,
    PRODUCTS_WORDS,
    PYTHON,
    REFUSED,
    ROOM,
    ROW_WORDS,
    ROWS,
    SKIP,
    SLOPE_COUNT,
    SLOPE_PART,
    SLOPE_WORDS,
    SLOPED_OPERAND,
    SLOPED_PARTIAL,
    SLOPES,
    SPARE,
    SPARE_COUNT,
    SPARE_PART,
    STORAGE_COUNT,
    STORAGE_PART,
    STORAGE_WORDS,
    STORAGES,
    SUM_PART,
    SUM_WORDS,
    SUMS,
    TAIL,
    TEMPLATE_REPEATS,
    TEMPLATE_START,
    TEMPLATE_WORDS,
    TEMPLATES,
    VALUE_COUNT,
    VALUE_LAYOUT,
    VALUE_OFFSET,
    VALUE_WORDS,
    VALUES,
    VIEW_OFFSET,
    VIEW_WORDS,
    VIEWED,
    VIEWED_COUNT,
    WORDS,
)


def note_view(w, storage, offset):
    """Note a cell of a pool that a further value refers to."""
    viewed_t = w[VIEWED]
    at = VIEW_WORDS * w[VIEWED_COUNT]
    viewed_t[at] = storage
    viewed_t[at + VIEW_OFFSET] = offset
    w[VIEWED_COUNT] += 1


def repeat(w, i, start):
    """Append what a template says."""
    row_t = w[ROWS]
    place_t = w[PLACES]
    entry_t = w[ENTRIES]
    value_t = w[VALUES]
    kind_t = w[KINDS]
    slope_t = w[SLOPES]
    sum_t = w[SUMS]
    at_t = w[NUMBERS]
    word_t = w[WORDS]
    code_t = w[CODE]
    storage_t = w[STORAGES]
    pool_q = w[POOLS]
    spare_t = w[SPARE]
    new_slope_t = w[NEW_SLOPES]
    row = ROW_WORDS * i
    first = w[VALUE_COUNT]
    total = w[ARGUMENTS]
    count = word_t[start + NEW_VALUES]
    for k in range(count):
        at_t[total + k] = first + k
    total += count
    at = start + HEADER
    others = at + NEW_WORDS * count + CELLS_WORDS * word_t[start + POOL_PART]
    others += STORAGE_WORDS * word_t[start + STORAGE_PART]
    for k in range(word_t[start + OTHERS]):
        at_t[total + k] = word_t[others + k]
    total += word_t[start + OTHERS]
    for k in range(word_t[start + GUARD_PART]):
        at_t[total + k] = w[GUARD_COUNT] + k
    total += word_t[start + GUARD_PART]
    w[GUARD_COUNT] += word_t[start + GUARD_PART]
    at_t[total] = row_t[row + LINE]
    at_t[total + 1] = NONE  # an instruction names a missing operand by this place
    total += 2
    for k in range(count):
        where = word_t[at]
        what = word_t[at + NEW_WHAT]
        which = word_t[at + NEW_WHICH]
        offset = word_t[at + NEW_OFFSET]
        if where == FRESH:
            storage = what
            offset = pool_q[what] + offset
            if which != 0:
                note_view(w, storage, offset)
        else:
            if where == OWN:
                storage = w[STORAGE_COUNT] + what
            else:
                storage = value_t[VALUE_WORDS * at_t[what]]
            if which != NONE:
                offset = value_t[VALUE_WORDS * at_t[which] + VALUE_OFFSET]
            if storage < POOL_COUNT:
                note_view(w, storage, offset)
        value = first + k
        value_t[VALUE_WORDS * value] = storage
        value_t[VALUE_WORDS * value + VALUE_OFFSET] = offset
        value_t[VALUE_WORDS * value + VALUE_LAYOUT] = word_t[at + NEW_LAYOUT]
        kind_t[value] = word_t[at + NEW_KIND]
        for q in range(SLOPE_WORDS):
            slope_t[SLOPE_WORDS * value + q] = NONE
        sum_t[SUM_WORDS * value] = 0
        at += NEW_WORDS
    w[VALUE_COUNT] = first + count
    for _ in range(word_t[start + POOL_PART]):
        pool_q[word_t[at]] += word_t[at + CELLS_COUNT]
        at += CELLS_WORDS
    for _ in range(word_t[start + STORAGE_PART]):
        for q in range(STORAGE_WORDS):
            storage_t[STORAGE_WORDS * w[NEW_STORAGES] + q] = word_t[at + q]
        w[NEW_STORAGES] += 1
        w[STORAGE_COUNT] += 1
        at += STORAGE_WORDS
    at = others + word_t[start + OTHERS]
    out = CODE_WORDS * w[CODE_COUNT]
    for _ in range(word_t[start + CODE_PART]):
        for q in range(CODE_WORDS):
            place = word_t[at + q]
            if place < 0:
                place += total
            code_t[out + q] = at_t[place]
        w[LAST] = code_t[out + CODE_OUT]
        at += CODE_WORDS
        out += CODE_WORDS
    w[CODE_COUNT] += word_t[start + CODE_PART]
    for _ in range(word_t[start + CELL_PART]):
        operand = word_t[at]
        entry = ENTRY_WORDS * w[ENTRY_COUNT]
        w[ENTRY_COUNT] += 1
        entry_t[entry] = row_t[row + OUT + operand]
        entry_t[entry + ENTRY_CT] = at_t[word_t[at + ADDED_CT]]
        entry_t[entry + ENTRY_NEXT] = NONE
        place = PLACE_WORDS * row_t[row + PLACE + operand]
        place_t[place + HEAD] = entry
        place_t[place + TAIL] = entry
        at += ADDED_WORDS
    for _ in range(word_t[start + ARRAY_PART]):
        place = PLACE_WORDS * row_t[row + PLACE + word_t[at]]
        if word_t[at + ARRAY_STAYS] == 0:
            place_t[place + HEAD] = NONE
            place_t[place + TAIL] = NONE
            place_t[place + BASE] = NONE
            if word_t[at + ARRAY_BASE] != NONE:
                place_t[place + BASE] = at_t[word_t[at + ARRAY_BASE]]
        entries = word_t[at + ARRAY_ENTRIES]
        at += ARRAY_WORDS
        for _ in range(entries):
            entry = ENTRY_WORDS * w[ENTRY_COUNT]
            w[ENTRY_COUNT] += 1
            entry_t[entry] = at_t[word_t[at]]
            entry_t[entry + ENTRY_CT] = at_t[word_t[at + ADDED_CT]]
            entry_t[entry + ENTRY_NEXT] = NONE
            if place_t[place + HEAD] == NONE:
                place_t[place + HEAD] = entry
            else:
                entry_t[place_t[place + TAIL] + ENTRY_NEXT] = entry
            place_t[place + TAIL] = entry
            at += ADDED_WORDS
    for _ in range(word_t[start + SLOPE_PART]):
        result = at_t[word_t[at]]
        operand = word_t[at + SLOPED_OPERAND]
        partial = at_t[word_t[at + SLOPED_PARTIAL]]
        slope_t[SLOPE_WORDS * result + operand] = partial
        if partial < 0:
            log = SLOPE_WORDS * w[SLOPE_COUNT]
            new_slope_t[log] = result
            new_slope_t[log + SLOPED_OPERAND] = operand
            new_slope_t[log + SLOPED_PARTIAL] = partial
            w[SLOPE_COUNT] += 1
        at += SLOPE_WORDS
    for _ in range(word_t[start + SUM_PART]):
        value = at_t[word_t[at]]
        terms = word_t[at + PRODUCTS_COUNT]
        sum_t[SUM_WORDS * value] = terms
        for q in range(terms):
            sum_t[SUM_WORDS * value + FIRST_TERM + q] = at_t[word_t[at + PRODUCTS_FIRST + q]]
        at += PRODUCTS_WORDS
    for _ in range(word_t[start + SPARE_PART]):
        spare_t[w[SPARE_COUNT]] = at_t[word_t[at]]
        w[SPARE_COUNT] += 1
        at += 1


def fits(w, start):
    """Whether there is room for what a template appends."""
    word_t = w[WORDS]
    room = w[ROOM]
    if w[VALUE_COUNT] + word_t[start + NEW_VALUES] > room:
        return False
    if w[CODE_COUNT] + word_t[start + CODE_PART] > room:
        return False
    if w[NEW_STORAGES] + word_t[start + STORAGE_PART] > room:
        return False
    if w[VIEWED_COUNT] + word_t[start + NEW_VALUES] > room:
        return False
    if w[SLOPE_COUNT] + word_t[start + SLOPE_PART] > room:
        return False
    # Entries of the chains: one for each operand at most, and what waits in arrays.
    return w[ENTRY_COUNT] + 4 * MOST_ENTRIES <= room


def chain(w, pc):
    """Write down a chain of entries, and return its length."""
    entry_t = w[ENTRIES]
    value_t = w[CHAIN_VALUES]
    ct_t = w[CHAIN_CTS]
    entry = w[CHAIN]
    n = 0
    while entry != NONE:
        value_t[n] = entry_t[entry]
        ct_t[n] = entry_t[entry + ENTRY_CT]
        entry = entry_t[entry + ENTRY_NEXT]
        n += 1
    return n


def walk(w, pc):
    """Derive instructions by templates from ``w[AT]`` on; return `DONE`, or why Python has to go on there."""
    template_t = w[TEMPLATES]
    for i in range(w[AT], w[COUNT]):
        w[AT] = i
        n = describe(w, i)
        if n == SKIP:
            if w[FORWARD] != 0:
                w[LATEST] = i
            continue
        if n == REFUSED:
            return PYTHON
        number = find(w, n)
        if number == NONE:
            return NEW
        at = TEMPLATE_WORDS * number
        if template_t[at + TEMPLATE_REPEATS] == 0:
            return PYTHON
        if not fits(w, template_t[at + TEMPLATE_START]):
            return FULL
        repeat(w, i, template_t[at + TEMPLATE_START])
        w[LATEST] = i
    w[AT] = w[COUNT]
    return DONE
