"""The kernel that walks a tape by templates. Kernel language.

It reads instructions in the order of the walk. For each it writes down the signature, looks up the template,
and appends what this says. It stops where Python must continue: at a signature without a template, and at a
derivative that no template can repeat. The argument ``w`` is an array of 64-bit words, see `walk_words`.
"""

from __future__ import annotations

from .walk_signature import describe, find
from .walk_words import (
    ARGUMENTS,
    ARRAY_PART,
    AT,
    BASE,
    CELL_PART,
    CODE,
    CODE_COUNT,
    CODE_PART,
    CODE_WORDS,
    COUNT,
    DONE,
    ENTRIES,
    ENTRY_COUNT,
    ENTRY_WORDS,
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
    NEW_SLOPES,
    NEW_STORAGES,
    NEW_SUMS,
    NEW_VALUES,
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
    PYTHON,
    REFUSED,
    ROOM,
    ROW_WORDS,
    ROWS,
    SKIP,
    SLOPE_COUNT,
    SLOPE_PART,
    SLOPES,
    SPARE,
    SPARE_COUNT,
    SPARE_PART,
    STORAGE_COUNT,
    STORAGE_PART,
    STORAGES,
    SUM_COUNT,
    SUM_PART,
    SUMS,
    TAIL,
    TEMPLATE_WORDS,
    TEMPLATES,
    VALUE_COUNT,
    VALUE_WORDS,
    VALUES,
    VIEWED,
    VIEWED_COUNT,
    WORDS,
)


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
    viewed_t = w[VIEWED]
    spare_t = w[SPARE]
    new_slope_t = w[NEW_SLOPES]
    new_sum_t = w[NEW_SUMS]
    row = ROW_WORDS * i
    first = w[VALUE_COUNT]
    total = w[ARGUMENTS]
    count = word_t[start + NEW_VALUES]
    for k in range(count):
        at_t[total + k] = first + k
    total += count
    at = start + HEADER
    others = at + 6 * count + 2 * word_t[start + POOL_PART] + 3 * word_t[start + STORAGE_PART]
    for k in range(word_t[start + OTHERS]):
        at_t[total + k] = word_t[others + k]
    total += word_t[start + OTHERS]
    for k in range(word_t[start + GUARD_PART]):
        at_t[total + k] = w[GUARD_COUNT] + k
    total += word_t[start + GUARD_PART]
    w[GUARD_COUNT] += word_t[start + GUARD_PART]
    at_t[total] = row_t[row + LINE]
    at_t[total + 1] = NONE
    total += 2
    for k in range(count):
        where = word_t[at]
        what = word_t[at + 1]
        which = word_t[at + 2]
        offset = word_t[at + 3]
        if where == FRESH:
            storage = what
            offset = pool_q[what] + offset
            if which != 0:
                viewed_t[2 * w[VIEWED_COUNT]] = storage
                viewed_t[2 * w[VIEWED_COUNT] + 1] = offset
                w[VIEWED_COUNT] += 1
        else:
            if where == OWN:
                storage = w[STORAGE_COUNT] + what
            else:
                storage = value_t[VALUE_WORDS * at_t[what]]
            if which != NONE:
                offset = value_t[VALUE_WORDS * at_t[which] + 1]
            if storage < POOL_COUNT:
                viewed_t[2 * w[VIEWED_COUNT]] = storage
                viewed_t[2 * w[VIEWED_COUNT] + 1] = offset
                w[VIEWED_COUNT] += 1
        value = first + k
        value_t[VALUE_WORDS * value] = storage
        value_t[VALUE_WORDS * value + 1] = offset
        value_t[VALUE_WORDS * value + 2] = word_t[at + 4]
        kind_t[value] = word_t[at + 5]
        slope_t[3 * value] = NONE
        slope_t[3 * value + 1] = NONE
        slope_t[3 * value + 2] = NONE
        sum_t[4 * value] = 0
        at += 6
    w[VALUE_COUNT] = first + count
    for _ in range(word_t[start + POOL_PART]):
        pool_q[word_t[at]] += word_t[at + 1]
        at += 2
    for _ in range(word_t[start + STORAGE_PART]):
        for q in range(3):
            storage_t[3 * w[NEW_STORAGES] + q] = word_t[at + q]
        w[NEW_STORAGES] += 1
        w[STORAGE_COUNT] += 1
        at += 3
    at = others + word_t[start + OTHERS]
    out = CODE_WORDS * w[CODE_COUNT]
    for _ in range(word_t[start + CODE_PART]):
        for q in range(CODE_WORDS):
            place = word_t[at + q]
            if place < 0:
                place += total
            code_t[out + q] = at_t[place]
        w[LAST] = code_t[out + 3]
        at += CODE_WORDS
        out += CODE_WORDS
    w[CODE_COUNT] += word_t[start + CODE_PART]
    for _ in range(word_t[start + CELL_PART]):
        operand = word_t[at]
        entry = ENTRY_WORDS * w[ENTRY_COUNT]
        w[ENTRY_COUNT] += 1
        entry_t[entry] = row_t[row + OUT + operand]
        entry_t[entry + 1] = at_t[word_t[at + 1]]
        entry_t[entry + 2] = NONE
        place = PLACE_WORDS * row_t[row + PLACE + operand]
        place_t[place + HEAD] = entry
        place_t[place + TAIL] = entry
        at += 2
    for _ in range(word_t[start + ARRAY_PART]):
        place = PLACE_WORDS * row_t[row + PLACE + word_t[at]]
        if word_t[at + 1] == 0:
            place_t[place + HEAD] = NONE
            place_t[place + TAIL] = NONE
            place_t[place + BASE] = NONE
            if word_t[at + 2] != NONE:
                place_t[place + BASE] = at_t[word_t[at + 2]]
        entries = word_t[at + 3]
        at += 4
        for _ in range(entries):
            entry = ENTRY_WORDS * w[ENTRY_COUNT]
            w[ENTRY_COUNT] += 1
            entry_t[entry] = at_t[word_t[at]]
            entry_t[entry + 1] = at_t[word_t[at + 1]]
            entry_t[entry + 2] = NONE
            if place_t[place + HEAD] == NONE:
                place_t[place + HEAD] = entry
            else:
                entry_t[place_t[place + TAIL] + 2] = entry
            place_t[place + TAIL] = entry
            at += 2
    for _ in range(word_t[start + SLOPE_PART]):
        result = at_t[word_t[at]]
        partial = at_t[word_t[at + 2]]
        slope_t[3 * result + word_t[at + 1]] = partial
        log = 3 * w[SLOPE_COUNT]
        new_slope_t[log] = result
        new_slope_t[log + 1] = word_t[at + 1]
        new_slope_t[log + 2] = partial
        w[SLOPE_COUNT] += 1
        at += 3
    for _ in range(word_t[start + SUM_PART]):
        value = at_t[word_t[at]]
        sum_t[4 * value] = word_t[at + 1]
        for q in range(word_t[at + 1]):
            sum_t[4 * value + 1 + q] = at_t[word_t[at + 2 + q]]
        new_sum_t[w[SUM_COUNT]] = value
        w[SUM_COUNT] += 1
        at += 5
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
    if w[SUM_COUNT] + word_t[start + SUM_PART] > room:
        return False
    # Entries of the chains: one for each operand at most, and what waits in arrays.
    return w[ENTRY_COUNT] + 4 * MOST_ENTRIES <= room


def walk(w, pc):
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
        if template_t[at + 3] == 0:
            return PYTHON
        if not fits(w, template_t[at + 2]):
            return FULL
        repeat(w, i, template_t[at + 2])
        w[LATEST] = i
    w[AT] = w[COUNT]
    return DONE
