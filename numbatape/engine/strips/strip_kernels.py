"""The kernels that run a block of instructions strip by strip (`numbatape.engine.strips.strip_blocks`)."""

from __future__ import annotations

import sys
import textwrap

from ...ops import ArrayOp, Elementwise, reduce, scalars
from ...ops.table import parameters
from ...ops.text import helpers
from ...tape.tape import F32
from ..codegen import record_fields
from ..formula_text import kernel_text, with_elementary
from ..frame import (
    ACTIVE_SHIFT,
    CELL_A,
    CELL_B,
    CELL_O,
    COUNT_WORD,
    OUTSIDE_A,
    OUTSIDE_B,
    OUTSIDE_WORDS,
    RECORD_WORD,
    STRIDE,
    SWEEP_STRIPS,
    constants,
)
from ..plan_tables import CORE_CELLS, CORE_HEAD, CORE_SCRATCH, CORE_THIRD
from ..vectors import KNOWN, ROWS, SUMS, forward_vector, pair_arms, single_arms

# Words of a block: addresses of its instructions and records as they are for the first strip, of a copy of
# them that moves from strip to strip, and how many bytes they are; instructions, cells of a strip and of all
# strips; address and number of what moves, of what counts cells, of the totals, and of what is cleared; the
# cells of the vectors in front of the first strip; address and number of what is copied before a strip, and
# behind it.
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
    "clears",
    "clear_count",
    "begin",
    "sources",
    "source_count",
    "targets",
    "target_count",
)
# The rows of its tables. What moves: the word, and by how much from strip to strip. Totals: the cell of the
# sum, and where the totals of strips begin, with their number; whether the sum is float32, and whether the
# result is its root. The totals of strips are float64 whatever the sum is, so that it is rounded once.
MOVE_WORDS, MOVE_STEP = 2, 1
TOTAL_WORDS, TOTAL_FIRST, TOTAL_COUNT, TOTAL_KIND = 4, 1, 2, 3
SINGLE, ROOT = 1, 2
# What is cleared before the first strip, because strips add to it: first cell, how many, and bytes of a cell.
CLEAR_WORDS, CLEAR_COUNT, CLEAR_ITEM = 3, 1, 2
# What is copied (`numbatape.engine.strips.strip_copies`): the address of a strip's cells, that of the word
# which says where a whole vector outside of the workspace is, and the bytes of a cell.
COPY_WORDS, COPY_WORD, COPY_ITEM = 3, 1, 2
_TEXT = """
def sum_of(v, first, count):
    total = v[first]
    lost = 0.0
    for k in range(1, count):
        part = v[first + k]
        new = total + part
        lost += rounding_error(total, part, new)
        total = new
    return compensated(total, lost)


def run_strips(w, block_q, v, e):
    words_t = block_q[{words}]
    moves_t = block_q[{moves}]
    counts_t = block_q[{counts}]
    strip = block_q[{strip}]
    left = block_q[{cells}]
    done = block_q[{begin}]
    sources_q = block_q[{sources}]
    targets_q = block_q[{targets}]
    copy_bytes(words_t, block_q[{first}], block_q[{bytes}])
    clears_t = block_q[{clears}]
    for k in range(block_q[{clear_count}]):
        at = {CLEAR_WORDS} * k
        first = clears_t[at]
        if clears_t[at + {CLEAR_ITEM}] == 8:
            for i in parallel(clears_t[at + {CLEAR_COUNT}]):
                v[first + i] = 0.0
        else:
            for i in parallel(clears_t[at + {CLEAR_COUNT}]):
                e[first + i] = 0.0
    while left > 0:
        if left < strip:
            for k in range(block_q[{count_count}]):
                words_t[counts_t[k]] = left
        part = min(strip, left)
        for k in range(block_q[{source_count}]):
            at = {COPY_WORDS} * k
            item = sources_q[at + {COPY_ITEM}]
            all_q = sources_q[at + {COPY_WORD}]
            copy_bytes(sources_q[at], all_q[0] + item * done, item * part)
        invoke(w[SWEEPS], {SWEEP_STRIPS}, w, block_q[{rows}])
        for k in range(block_q[{target_count}]):
            at = {COPY_WORDS} * k
            item = targets_q[at + {COPY_ITEM}]
            all_q = targets_q[at + {COPY_WORD}]
            copy_bytes(all_q[0] + item * done, targets_q[at], item * part)
        done += part
        for k in range(block_q[{move_count}]):
            words_t[moves_t[{MOVE_WORDS} * k]] += moves_t[{MOVE_WORDS} * k + {MOVE_STEP}]
        left -= strip
    totals_t = block_q[{totals}]
    for k in range(block_q[{total_count}]):
        at = {TOTAL_WORDS} * k
        first = totals_t[at + {TOTAL_FIRST}]
        count = totals_t[at + {TOTAL_COUNT}]
        kind = totals_t[at + {TOTAL_KIND}]
        total = sum_of(v, first, count)
        if kind & {ROOT} != 0:
            total = math.sqrt(total)
        if kind & {SINGLE} == 0:
            v[totals_t[at]] = total
        else:
            e[totals_t[at]] = total


def forward(w, pc):
    code = w[CODE]
    r = w[AUX]
    block_q = w[STRIPS] + {size} * code[{STRIDE} * pc + {CELL_A}]
    w[CODE] = block_q[{words}]
    w[AUX] = block_q[{words}] + {instruction_bytes} * block_q[{rows}]
    run_strips(w, block_q, w[V64], w[V32])
    w[CODE] = code
    w[AUX] = r
    return 0
"""


_SINGLE = """
def forward(w, pc):
    code = w[CODE]
    v = w[{cells}]
    at = {STRIDE} * pc
    o = code[at + {CELL_O}]
    a = code[at + {CELL_A}]
    b = code[at + {CELL_B}]
{body}
    return 0
"""


# The second result is where an instruction of one operand has no second operand.
_PAIR = """
def forward(w, pc):
    code = w[CODE]
    v = w[V64]
    at = {STRIDE} * pc
    o = code[at + {CELL_O}]
    a = code[at + {CELL_A}]
    b = code[at + {CELL_B}]
    for i in simd(code[at + {COUNT_WORD}]):
        x = v[a + i]
        y = {first}
        v[o + i] = y
        v[b + i] = {second}
    return 0
"""


def total_kind(op: ArrayOp, family: int) -> int:
    """Return what the results of an op for parts of a vector become, as a word of a block's table."""
    return SINGLE * (family == F32) + ROOT * op.rooted


def block_source(opcode: int) -> tuple[str, str]:
    """Return name and module of a kernel that occurs in blocks only, by its opcode."""
    for number, one, other in pair_arms():
        if number == opcode:
            return _pair_source(one, other)
    return _single_source(opcode)


def _pair_source(one: Elementwise, other: Elementwise) -> tuple[str, str]:
    """Return name and module of the kernel for two rows; LLVM computes once what both formulas have."""
    text = _PAIR.format(
        first=kernel_text(one.value),
        second=kernel_text(other.value),
        STRIDE=STRIDE,
        CELL_O=CELL_O,
        CELL_A=CELL_A,
        CELL_B=CELL_B,
        COUNT_WORD=COUNT_WORD,
    )
    body = with_elementary(helpers(text, scalars) + "\n\n" + text, "f64")
    return f"{one.name}-{other.name}-strip", "# cells: f64, all passes\n" + constants(text) + body


def _single_source(opcode: int) -> tuple[str, str]:
    """Return name and module of the kernel for a strip of one row, by its opcode."""
    ((op, pattern, family),) = (arm for number, *arm in single_arms() if number == opcode)
    modules, name = [], "f32" if family == F32 else "f64"
    if isinstance(op, ArrayOp):
        body = _of_part(op, pattern)
        modules.append(sys.modules[(op.adds_parts or op.forward).__module__])
    else:
        body = forward_vector(op, pattern)
    text = _SINGLE.format(
        STRIDE=STRIDE,
        CELL_O=CELL_O,
        CELL_A=CELL_A,
        CELL_B=CELL_B,
        body=textwrap.indent("\n".join(body), "    "),
        cells=f"V{name[1:]}",
    )
    head = f"# cells: {name}\n" + constants(text) + helpers(text, *modules)
    return f"{op.name}{pattern}-{name}-strip", head + text


def _of_part(op: ArrayOp, pattern: str) -> list[str]:
    """Return the lines that add up a strip into a float64 cell, go to positions, or multiply."""
    sizes, strides = record_fields(op)
    fields = [f"{name} = r[record + {CORE_HEAD + k}]" for k, name in enumerate(sizes + strides)]
    record = ["d = w[V64]", "r = w[AUX]", f"record = code[at + {RECORD_WORD}]", *fields]
    if op.adds_parts is not None:
        return [*record, f"d[o] = {op.adds_parts.__name__}({', '.join(parameters(op.adds_parts))})"]
    if pattern in (ROWS, SUMS):
        kernel = op.part_of_rows if pattern == ROWS else op.part_of_sums
        assert kernel is not None
        call = f"{kernel.__name__}({', '.join(parameters(kernel))})"
        return [*record, *_outside("a", OUTSIDE_A, CORE_SCRATCH), *_outside("b", OUTSIDE_B, CORE_CELLS), call]
    if pattern == KNOWN:
        return [*record, "read_at_positions(v, d, o, a, b, n, sa0, sb0)"]
    x, p = "abc"[op.arity - 2], op.index
    third = [f"c = r[record + {CORE_THIRD}]"] if op.arity == 3 else []
    return [*record, *third, f"add_at_positions(v, o, 1, {x}, s{x}0, d, {p}, s{p}0, m, n, FROM_FIRST)"]


def _outside(x: str, flag: int, place: int) -> list[str]:
    """Return what finds the cells of an operand that is read outside of the workspace.

    Its first cell moves from strip to strip as if it were inside, so that the number of its row of the table
    OUTSIDE is in its record.
    """
    return [
        f"if (code[at] >> {ACTIVE_SHIFT}) & {flag}:",
        f"    row_q = w[OUTSIDE] + {8 * OUTSIDE_WORDS} * r[record + {place}]",
        "    word_q = row_q[0]",
        f"    {x} += row_q[1] + (word_q[0] - v) // 8",
    ]


def strip_source() -> str:
    """Return the module of the kernel."""
    text = _TEXT.format(
        size=8 * len(BLOCK),
        instruction_bytes=4 * STRIDE,
        STRIDE=STRIDE,
        CELL_A=CELL_A,
        MOVE_WORDS=MOVE_WORDS,
        MOVE_STEP=MOVE_STEP,
        TOTAL_WORDS=TOTAL_WORDS,
        TOTAL_FIRST=TOTAL_FIRST,
        TOTAL_COUNT=TOTAL_COUNT,
        TOTAL_KIND=TOTAL_KIND,
        SINGLE=SINGLE,
        ROOT=ROOT,
        CLEAR_WORDS=CLEAR_WORDS,
        CLEAR_COUNT=CLEAR_COUNT,
        CLEAR_ITEM=CLEAR_ITEM,
        COPY_WORDS=COPY_WORDS,
        COPY_WORD=COPY_WORD,
        COPY_ITEM=COPY_ITEM,
        SWEEP_STRIPS=SWEEP_STRIPS,
        **{name: k for k, name in enumerate(BLOCK)},
    )
    return "# cells: f64\n" + constants(text) + helpers(text, reduce) + text
