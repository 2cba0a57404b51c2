"""The kernel that moves a plan with strips to other sizes (`numbatape.engine.strips.strip_replan`)."""

from __future__ import annotations

import functools

from ... import jit
from ..plan_tables import ARMS_WORD, CELL, CODE_WORDS, END, LIMIT, OK, STORAGE_WORDS
from ..replan_kernels import ALL_CELLS, CELLS, LEVELS, LONGEST, LOOK_CLOSER, WORK
from ..segments import INSTRUCTION
from .strip_kernels import BLOCK, TOTAL_COUNT, TOTAL_WORDS
from .strip_rows import LEAST, STRIP

# What the kernel returns beside the outcomes of `replan`.
OTHER_WAY = -1  # two sweeps are better for these sizes than one in strips
SETTLE = 3  # some vector is longer than the plan has room for

# The words of ``w``; most are addresses, and a count follows its table.
WORDS = (
    *("replan", "derive", "verify"),  # kernels
    "function",  # words for ``replan``: the function whose gradient the tape computes, 0 if it is any tape
    *("many", "long"),  # how many cells its plan must have; the same if there is a vector worth strips
    "whole_plan",  # words for ``replan``: the tape without strips
    "plan",  # words for ``derive`` and ``verify``: the tape with the storages of the plan with strips
    "whole",  # storages of the plan without strips: first cell and end of each
    "storages",  # those of the plan with strips
    "storage_count",
    "room",  # how many cells each of these may have
    "derived",  # instructions and records as the plan's kernel derives them, and what they must be
    "code",  # the plan's instructions
    "checked",  # places in the above: of a word, and of what it must be
    "checked_count",
    "blocks",
    # A row of blocks has here where its length is in the above, the most that it may be, the first strip of
    # the row, how many strips it has at most, and the totals that it adds up behind the last one.
    "lengths",
    "block_count",
    "narrow",  # storages that have the cells of one strip: number, and where the length of the block is
    "narrow_count",
    "outside",  # instructions that are in no block
    "outside_count",
    "moving",  # words of blocks that change: row of blocks, where in its table, where in the above, the shift
    "moving_count",
    "weights",  # vectors that are worth strips: where the length is in the above, work of a cell
    "weight_count",
    "work",  # out: their work
)
WORD = {name: k for k, name in enumerate(WORDS)}
# The rows of its tables: how many words they have, and where each stands that is not the first one.
CHECKED_WORDS, CHECKED_EXPECTED = 2, 1
LENGTH_WORDS, LENGTH_MOST, LENGTH_FIRST, LENGTH_SPAN, LENGTH_TOTALS = 5, 1, 2, 3, 4
NARROW_WORDS, NARROW_LENGTH = 2, 1
MOVING_WORDS, MOVING_TARGET, MOVING_SOURCE, MOVING_SHIFT = 4, 1, 2, 3
WEIGHT_WORDS, WEIGHT_OF_CELL = 2, 1
_TEXT = """
def is_large(w):
    function_q = w[{function}]
    end_q = function_q[{CELLS}]
    least = w[{many}]
    if function_q[{LONGEST}] >= {LEAST}:
        least = w[{long}]
    return end_q[{ALL_CELLS}] + end_q[{LEVELS} + {ALL_CELLS}] >= least


def fits(w):
    whole_q = w[{whole}]
    storage_q = w[{storages}]
    room_q = w[{room}]
    for k in range(w[{storage_count}]):
        at = {STORAGE_WORDS} * k
        cells = whole_q[at + {END}] - whole_q[at]
        if cells > room_q[k]:
            return False
        storage_q[at + {END}] = storage_q[at] + cells
    return True


def follow(w):
    derived_t = w[{derived}]
    checked_t = w[{checked}]
    for k in range(w[{checked_count}]):
        at = {CHECKED_WORDS} * k
        if derived_t[checked_t[at]] != derived_t[checked_t[at + {CHECKED_EXPECTED}]]:
            return False
    length_t = w[{lengths}]
    for k in range(w[{block_count}]):
        at = {LENGTH_WORDS} * k
        if derived_t[length_t[at]] > length_t[at + {LENGTH_MOST}]:
            return False
    narrow_t = w[{narrow}]
    storage_q = w[{storages}]
    for k in range(w[{narrow_count}]):
        row = {NARROW_WORDS} * k
        at = {STORAGE_WORDS} * narrow_t[row]
        if storage_q[at + {END}] - storage_q[at] != derived_t[narrow_t[row + {NARROW_LENGTH}]]:
            return False
    outside_t = w[{outside}]
    code_t = w[{code}]
    for k in range(w[{outside_count}]):
        at = {CODE_WORDS} * outside_t[k]
        for j in range({ARMS_WORD} - {CELL}):
            code_t[at + {CELL} + j] = derived_t[at + {CELL} + j]
    in_parts = False
    for k in range(w[{block_count}]):
        block_q = w[{blocks}] + {block_bytes} * k
        at = {LENGTH_WORDS} * k
        cells = derived_t[length_t[at]]
        first = length_t[at + {LENGTH_FIRST}]
        last = first + length_t[at + {LENGTH_SPAN}]
        strips = (cells + {STRIP} - 1) // {STRIP}
        block_q[{cells}] = max(0, min(cells, {STRIP} * last) - {STRIP} * first)
        count = 0
        if first < strips and strips <= last:
            count = length_t[at + {LENGTH_TOTALS}]
            if first > 0:
                in_parts = True
        block_q[{total_count}] = count
        total_t = block_q[{totals}]
        for j in range(count):
            total_t[{TOTAL_WORDS} * j + {TOTAL_COUNT}] = strips
    moving_t = w[{moving}]
    for k in range(w[{moving_count}]):
        at = {MOVING_WORDS} * k
        block_q = w[{blocks}] + {block_bytes} * moving_t[at]
        first_t = block_q[{first}]
        shifted = derived_t[moving_t[at + {MOVING_SOURCE}]] + moving_t[at + {MOVING_SHIFT}]
        first_t[moving_t[at + {MOVING_TARGET}]] = shifted
    weight_t = w[{weights}]
    work = 0
    for k in range(w[{weight_count}]):
        at = {WEIGHT_WORDS} * k
        cells = derived_t[weight_t[at]]
        if cells >= {LEAST}:
            work += weight_t[at + {WEIGHT_OF_CELL}] * cells + {INSTRUCTION}
    w[{work}] = work
    # A sweep is cut into segments if the plan is long, or if a block has more cells than its first row may.
    plan_q = w[{plan}]
    whole_q = w[{whole_plan}]
    plan_q[{WORK}] = whole_q[{WORK}]
    if in_parts:
        plan_q[{WORK}] = {LIMIT}
    return True


def move(w, pc):
    if w[{function}] != 0:
        outcome = invoke(w, {replan}, w[{function}], pc)
        if outcome != {OK}:
            return outcome
        if not is_large(w):
            return {OTHER_WAY}
    outcome = invoke(w, {replan}, w[{whole_plan}], pc)
    if outcome != {OK}:
        return outcome
    if not fits(w):
        return {SETTLE}
    # The proof is that of a plan without strips: a storage of one strip counts as if it had all cells.
    if invoke(w, {derive}, w[{plan}], pc) != {OK} or invoke(w, {verify}, w[{plan}], pc) != {OK}:
        return {LOOK_CLOSER}
    if not follow(w):
        return {LOOK_CLOSER}
    return {OK}
"""


@functools.cache
def strip_moves():
    """Return the kernels: ``move`` takes the address of its words, and returns why there is no plan."""
    return jit.load("moves", moves_source())


def moves_source() -> str:
    """Return their module."""
    names = {
        "STORAGE_WORDS": STORAGE_WORDS,
        "END": END,
        "ARMS_WORD": ARMS_WORD,
        "CODE_WORDS": CODE_WORDS,
        "CELL": CELL,
        "OK": OK,
        "LOOK_CLOSER": LOOK_CLOSER,
        "OTHER_WAY": OTHER_WAY,
        "SETTLE": SETTLE,
        "ALL_CELLS": ALL_CELLS,
        "CELLS": CELLS,
        "LEVELS": LEVELS,
        "LONGEST": LONGEST,
        "WORK": WORK,
        "LIMIT": LIMIT,
        "STRIP": STRIP,
        "LEAST": LEAST,
        "TOTAL_WORDS": TOTAL_WORDS,
        "TOTAL_COUNT": TOTAL_COUNT,
        "INSTRUCTION": INSTRUCTION,
        "CHECKED_WORDS": CHECKED_WORDS,
        "CHECKED_EXPECTED": CHECKED_EXPECTED,
        "LENGTH_WORDS": LENGTH_WORDS,
        "LENGTH_MOST": LENGTH_MOST,
        "LENGTH_FIRST": LENGTH_FIRST,
        "LENGTH_SPAN": LENGTH_SPAN,
        "LENGTH_TOTALS": LENGTH_TOTALS,
        "NARROW_WORDS": NARROW_WORDS,
        "NARROW_LENGTH": NARROW_LENGTH,
        "MOVING_WORDS": MOVING_WORDS,
        "MOVING_TARGET": MOVING_TARGET,
        "MOVING_SOURCE": MOVING_SOURCE,
        "MOVING_SHIFT": MOVING_SHIFT,
        "WEIGHT_WORDS": WEIGHT_WORDS,
        "WEIGHT_OF_CELL": WEIGHT_OF_CELL,
        "block_bytes": 8 * len(BLOCK),
    }
    block = {name: BLOCK.index(name) for name in ("cells", "first", "totals", "total_count")}
    return "# cells: f64\n" + _TEXT.format(**names, **block, **WORD)
