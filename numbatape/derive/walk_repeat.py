"""Appending what a template says. Kernel language, compiled together with `walk_kernel`."""

from __future__ import annotations

from .walk_words import (
    ADDED_CT,
    ADDED_WORDS,
    ARGUMENTS,
    ARRAY_BASE,
    ARRAY_ENTRIES,
    ARRAY_PART,
    ARRAY_STAYS,
    ARRAY_WORDS,
    BASE,
    CELL_PART,
    CELLS_COUNT,
    CELLS_WORDS,
    CODE,
    CODE_COUNT,
    CODE_OUT,
    CODE_PART,
    CODE_WORDS,
    ENTRIES,
    ENTRY_COUNT,
    ENTRY_CT,
    ENTRY_NEXT,
    ENTRY_WORDS,
    FIRST_TERM,
    FRESH,
    GUARD_COUNT,
    GUARD_PART,
    HEAD,
    HEADER,
    KINDS,
    LAST,
    LINE,
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
    ROW_WORDS,
    ROWS,
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


def number_places(w, i, start):
    """Write down which number each place of a template stands for; return how many places there are.

    Behind the signature's arguments come the new values, the numbers that the template names, new guards, the
    line, and NONE, by which an instruction names a missing operand.
    """
    row_t = w[ROWS]
    at_t = w[NUMBERS]
    word_t = w[WORDS]
    total = w[ARGUMENTS]
    count = word_t[start + NEW_VALUES]
    for k in range(count):
        at_t[total + k] = w[VALUE_COUNT] + k
    total += count
    others = others_at(w, start)
    for k in range(word_t[start + OTHERS]):
        at_t[total + k] = word_t[others + k]
    total += word_t[start + OTHERS]
    for k in range(word_t[start + GUARD_PART]):
        at_t[total + k] = w[GUARD_COUNT] + k
    total += word_t[start + GUARD_PART]
    w[GUARD_COUNT] += word_t[start + GUARD_PART]
    at_t[total] = row_t[ROW_WORDS * i + LINE]
    at_t[total + 1] = NONE
    return total + 2


def others_at(w, start):
    """Where a template has the numbers that it names."""
    word_t = w[WORDS]
    at = start + HEADER + NEW_WORDS * word_t[start + NEW_VALUES]
    return at + CELLS_WORDS * word_t[start + POOL_PART] + STORAGE_WORDS * word_t[start + STORAGE_PART]


def put_values(w, start):
    """Append the new values of a template."""
    value_t = w[VALUES]
    kind_t = w[KINDS]
    slope_t = w[SLOPES]
    sum_t = w[SUMS]
    at_t = w[NUMBERS]
    word_t = w[WORDS]
    pool_q = w[POOLS]
    first = w[VALUE_COUNT]
    count = word_t[start + NEW_VALUES]
    at = start + HEADER
    for value in range(first, first + count):
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
        value_t[VALUE_WORDS * value] = storage
        value_t[VALUE_WORDS * value + VALUE_OFFSET] = offset
        value_t[VALUE_WORDS * value + VALUE_LAYOUT] = word_t[at + NEW_LAYOUT]
        kind_t[value] = word_t[at + NEW_KIND]
        for q in range(SLOPE_WORDS):
            slope_t[SLOPE_WORDS * value + q] = NONE
        sum_t[SUM_WORDS * value] = 0
        at += NEW_WORDS
    w[VALUE_COUNT] = first + count


def put_storages(w, start):
    """Append the new cells of pools, and the new storages."""
    word_t = w[WORDS]
    storage_t = w[STORAGES]
    pool_q = w[POOLS]
    at = start + HEADER + NEW_WORDS * word_t[start + NEW_VALUES]
    for _ in range(word_t[start + POOL_PART]):
        pool_q[word_t[at]] += word_t[at + CELLS_COUNT]
        at += CELLS_WORDS
    for _ in range(word_t[start + STORAGE_PART]):
        for q in range(STORAGE_WORDS):
            storage_t[STORAGE_WORDS * w[NEW_STORAGES] + q] = word_t[at + q]
        w[NEW_STORAGES] += 1
        w[STORAGE_COUNT] += 1
        at += STORAGE_WORDS


def put_code(w, start, at, total):
    """Append the instructions; return where the next part of the template begins."""
    at_t = w[NUMBERS]
    word_t = w[WORDS]
    code_t = w[CODE]
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
    return at


def new_entry(w, value, ct):
    """Write an entry that ends a chain; return where it is."""
    entry_t = w[ENTRIES]
    entry = ENTRY_WORDS * w[ENTRY_COUNT]
    w[ENTRY_COUNT] += 1
    entry_t[entry] = value
    entry_t[entry + ENTRY_CT] = ct
    entry_t[entry + ENTRY_NEXT] = NONE
    return entry


def put_cells(w, i, start, at):
    """Replace the chains of cells by one entry each; return where the next part of the template begins."""
    row_t = w[ROWS]
    place_t = w[PLACES]
    at_t = w[NUMBERS]
    word_t = w[WORDS]
    row = ROW_WORDS * i
    for _ in range(word_t[start + CELL_PART]):
        operand = word_t[at]
        entry = new_entry(w, row_t[row + OUT + operand], at_t[word_t[at + ADDED_CT]])
        place = PLACE_WORDS * row_t[row + PLACE + operand]
        place_t[place + HEAD] = entry
        place_t[place + TAIL] = entry
        at += ADDED_WORDS
    return at


def put_arrays(w, i, start, at):
    """Add entries to the chains of arrays; return where the next part of the template begins."""
    row_t = w[ROWS]
    place_t = w[PLACES]
    entry_t = w[ENTRIES]
    at_t = w[NUMBERS]
    word_t = w[WORDS]
    for _ in range(word_t[start + ARRAY_PART]):
        place = PLACE_WORDS * row_t[ROW_WORDS * i + PLACE + word_t[at]]
        if word_t[at + ARRAY_STAYS] == 0:
            place_t[place + HEAD] = NONE
            place_t[place + TAIL] = NONE
            place_t[place + BASE] = NONE
            if word_t[at + ARRAY_BASE] != NONE:
                place_t[place + BASE] = at_t[word_t[at + ARRAY_BASE]]
        entries = word_t[at + ARRAY_ENTRIES]
        at += ARRAY_WORDS
        for _ in range(entries):
            entry = new_entry(w, at_t[word_t[at]], at_t[word_t[at + ADDED_CT]])
            if place_t[place + HEAD] == NONE:
                place_t[place + HEAD] = entry
            else:
                entry_t[place_t[place + TAIL] + ENTRY_NEXT] = entry
            place_t[place + TAIL] = entry
            at += ADDED_WORDS
    return at


def put_slopes(w, start, at):
    """Note partials of new values; return where the next part of the template begins."""
    slope_t = w[SLOPES]
    at_t = w[NUMBERS]
    word_t = w[WORDS]
    new_slope_t = w[NEW_SLOPES]
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
    return at


def put_sums(w, start, at):
    """Note which values are sums of products; return where the next part of the template begins."""
    sum_t = w[SUMS]
    at_t = w[NUMBERS]
    word_t = w[WORDS]
    for _ in range(word_t[start + SUM_PART]):
        value = at_t[word_t[at]]
        terms = word_t[at + PRODUCTS_COUNT]
        sum_t[SUM_WORDS * value] = terms
        for q in range(terms):
            sum_t[SUM_WORDS * value + FIRST_TERM + q] = at_t[word_t[at + PRODUCTS_FIRST + q]]
        at += PRODUCTS_WORDS
    return at


def repeat(w, i, start):
    """Append what a template says for an instruction, part by part in the template's order."""
    at_t = w[NUMBERS]
    word_t = w[WORDS]
    spare_t = w[SPARE]
    total = number_places(w, i, start)
    put_values(w, start)
    put_storages(w, start)
    at = put_code(w, start, others_at(w, start) + word_t[start + OTHERS], total)
    at = put_cells(w, i, start, at)
    at = put_arrays(w, i, start, at)
    at = put_slopes(w, start, at)
    at = put_sums(w, start, at)
    for k in range(word_t[start + SPARE_PART]):
        spare_t[w[SPARE_COUNT]] = at_t[word_t[at + k]]
        w[SPARE_COUNT] += 1
