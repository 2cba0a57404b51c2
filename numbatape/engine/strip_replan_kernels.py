"""The kernels that move a plan with strips to other sizes (`numbatape.engine.strip_replan`)."""

from __future__ import annotations

import functools

from .. import jit
from .plan_tables import CELL, CODE_WORDS, END, OK, STORAGE_WORDS
from .replan_kernels import LOOK_CLOSER
from .segments import INSTRUCTION
from .strip_blocks import LEAST, STRIP
from .strip_kernels import BLOCK, TOTAL_COUNT, TOTAL_WORDS

# The words of ``w``; most are addresses, and a count follows its table.
WORDS = (
    "whole",  # storages of the plan without strips: first cell and end of each
    "storages",  # those of the plan with strips
    "storage_count",
    "room",  # how many cells each of these may have
    "derived",  # instructions and records as the plan's kernel derives them, and what they must be
    "code",  # the plan's instructions
    "checked",  # places in the above: of a word, and of what it must be
    "checked_count",
    "blocks",
    "lengths",  # of each block: where its length is in the above, and the most that it may be
    "block_count",
    "narrow",  # storages that have the cells of one strip: number, and where the length of the block is
    "narrow_count",
    "outside",  # instructions that are in no block
    "outside_count",
    "moving",  # words of blocks that change: number of the block, where in its table, where in the above
    "moving_count",
    "weights",  # vectors that are worth strips: where the length is in the above, work of a cell
    "weight_count",
    "work",  # out: their work
)
WORD = {name: k for k, name in enumerate(WORDS)}
_TEXT = """
def fits(w, pc):
    whole_q = w[{whole}]
    storage_q = w[{storages}]
    room_q = w[{room}]
    for k in serial(w[{storage_count}]):
        at = {STORAGE_WORDS} * k
        cells = whole_q[at + {END}] - whole_q[at]
        if cells > room_q[k]:
            return {LOOK_CLOSER}
        storage_q[at + {END}] = storage_q[at] + cells
    return {OK}


def follow(w, pc):
    derived_t = w[{derived}]
    checked_t = w[{checked}]
    for k in serial(w[{checked_count}]):
        if derived_t[checked_t[2 * k]] != derived_t[checked_t[2 * k + 1]]:
            return {LOOK_CLOSER}
    length_t = w[{lengths}]
    for k in serial(w[{block_count}]):
        if derived_t[length_t[2 * k]] > length_t[2 * k + 1]:
            return {LOOK_CLOSER}
    narrow_t = w[{narrow}]
    storage_q = w[{storages}]
    for k in serial(w[{narrow_count}]):
        at = {STORAGE_WORDS} * narrow_t[2 * k]
        if storage_q[at + {END}] - storage_q[at] != derived_t[narrow_t[2 * k + 1]]:
            return {LOOK_CLOSER}
    outside_t = w[{outside}]
    code_t = w[{code}]
    for k in serial(w[{outside_count}]):
        at = {CODE_WORDS} * outside_t[k]
        for j in serial({CODE_WORDS} - {CELL}):
            code_t[at + {CELL} + j] = derived_t[at + {CELL} + j]
    for k in serial(w[{block_count}]):
        block_q = w[{blocks}] + {block_bytes} * k
        cells = derived_t[length_t[2 * k]]
        block_q[{cells}] = cells
        total_t = block_q[{totals}]
        for j in serial(block_q[{total_count}]):
            total_t[{TOTAL_WORDS} * j + {TOTAL_COUNT}] = (cells + {STRIP} - 1) // {STRIP}
    moving_t = w[{moving}]
    for k in serial(w[{moving_count}]):
        block_q = w[{blocks}] + {block_bytes} * moving_t[3 * k]
        first_t = block_q[{first}]
        first_t[moving_t[3 * k + 1]] = derived_t[moving_t[3 * k + 2]]
    weight_t = w[{weights}]
    work = 0
    for k in serial(w[{weight_count}]):
        cells = derived_t[weight_t[2 * k]]
        if cells >= {LEAST}:
            work += weight_t[2 * k + 1] * cells + {INSTRUCTION}
    w[{work}] = work
    return {OK}
"""


@functools.cache
def strip_moves():
    """Return both kernels; each takes the address of its words, and returns why there is no plan."""
    kernels = jit.load("moves", moves_source())
    return kernels.function("fits"), kernels.function("follow")


def moves_source() -> str:
    """Return the module of the kernels."""
    names = {
        "STORAGE_WORDS": STORAGE_WORDS,
        "END": END,
        "CODE_WORDS": CODE_WORDS,
        "CELL": CELL,
        "OK": OK,
        "LOOK_CLOSER": LOOK_CLOSER,
        "STRIP": STRIP,
        "LEAST": LEAST,
        "TOTAL_WORDS": TOTAL_WORDS,
        "TOTAL_COUNT": TOTAL_COUNT,
        "INSTRUCTION": INSTRUCTION,
        "block_bytes": 8 * len(BLOCK),
    }
    block = {name: BLOCK.index(name) for name in ("cells", "first", "totals", "total_count")}
    return "# cells: f64\n" + _TEXT.format(**names, **block, **WORD)
