"""The kernel that walks a tape by templates. Kernel language.

It reads instructions in the order of the walk. For each it writes down the signature, looks up the template,
and appends what this says. It stops where Python must continue: at a signature without a template, and at a
derivative that no template can repeat. The argument ``w`` is an array of 64-bit words, see `walk_words`.
"""

from __future__ import annotations

from .walk_repeat import repeat
from .walk_signature import describe, find
from .walk_words import (
    AT,
    CHAIN,
    CHAIN_CTS,
    CHAIN_VALUES,
    CODE_COUNT,
    CODE_PART,
    COUNT,
    DONE,
    ENTRIES,
    ENTRY_COUNT,
    ENTRY_CT,
    ENTRY_NEXT,
    FORWARD,
    FULL,
    LATEST,
    MOST_ENTRIES,
    NEW,
    NEW_STORAGES,
    NEW_VALUES,
    NONE,
    PYTHON,
    REFUSED,
    ROOM,
    SKIP,
    SLOPE_COUNT,
    SLOPE_PART,
    STORAGE_PART,
    TEMPLATE_REPEATS,
    TEMPLATE_START,
    TEMPLATE_WORDS,
    TEMPLATES,
    VALUE_COUNT,
    VIEWED_COUNT,
    WORDS,
)


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
