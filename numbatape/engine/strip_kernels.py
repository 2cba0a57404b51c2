"""The kernel that runs a block of instructions strip by strip (`numbatape.engine.strip_blocks`)."""

from __future__ import annotations

from .frame import constants

# Words of a block: addresses of its instructions and records as they are for the first strip, of a copy of
# them that moves from strip to strip, and how many bytes they are; instructions, cells of a strip and of all
# strips; address and number of what moves, of what counts cells, and of the totals.
BLOCK = (
    "first",
    "words",
    "bytes",
    "rows",
    "strip",
    "cells",
    "moves",
    "move_count",
    "counts",
    "count_count",
    "totals",
    "total_count",
)
_TEXT = """
def sum_of(v, first, count):
    total = v[first]
    lost = 0.0
    for k in serial(1, count):
        part = v[first + k]
        new = total + part
        back = new - total
        lost += (total - (new - back)) + (part - back)
        total = new
    if lost - lost == 0.0:
        total += lost
    return total


def run_strips(w, block_q, v):
    words_t = block_q[{words}]
    moves_t = block_q[{moves}]
    counts_t = block_q[{counts}]
    strip = block_q[{strip}]
    left = block_q[{cells}]
    copy_bytes(words_t, block_q[{first}], block_q[{bytes}])
    while left > 0:
        if left < strip:
            for k in serial(block_q[{count_count}]):
                words_t[counts_t[k]] = left
        invoke(w[RANGE], 0, w, block_q[{rows}])
        for k in serial(block_q[{move_count}]):
            words_t[moves_t[2 * k]] += moves_t[2 * k + 1]
        left -= strip
    totals_t = block_q[{totals}]
    for k in serial(block_q[{total_count}]):
        v[totals_t[3 * k]] = sum_of(v, totals_t[3 * k + 1], totals_t[3 * k + 2])


def forward(w, pc):
    code = w[CODE]
    r = w[AUX]
    block_q = w[STRIPS] + {size} * code[5 * pc + 2]
    w[CODE] = block_q[{words}]
    w[AUX] = block_q[{words}] + 20 * block_q[{rows}]
    run_strips(w, block_q, w[V64])
    w[CODE] = code
    w[AUX] = r
    return 0
"""


def strip_source() -> str:
    """Return the module of the kernel."""
    text = _TEXT.format(size=8 * len(BLOCK), **{name: k for k, name in enumerate(BLOCK)})
    return "# cells: f64\n" + constants(text) + text
