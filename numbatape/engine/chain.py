"""The sweeps as text: a dispatch chain of one-cell instructions, and the entry points.

Each direction is a module of its own: a tape that is only swept forward does not wait for the compiler to
finish the other chain, which is as large.

Arithmetic on numbers runs in a function of its own until something else comes: its arms
(`numbatape.engine.formula_text`) ask for nothing, and jump to each other (`numbatape.jit.lowering.arms`).
"""

from __future__ import annotations

import functools

from ..ops import scalars, status
from ..ops.text import helpers
from ..tape.instruction import GUARD
from . import frame
from .codegen import FIRST_KERNEL
from .formula_text import (
    HIGH,
    LINK_MASK,
    NUMBERS,
    arithmetic,
    chain,
    forward_arm,
    forward_texts,
    hot_ops,
    reverse_arm,
    reverse_texts,
)
from .frame import (
    ACTIVE_SHIFT,
    STRIDE,
    constants,
)
from .plan_tables import LEVEL
from .vectors import forward_vector, reverse_vector, vector_arms

# The text of the address of an instruction, given that of its number.
_at = f"code + {4 * STRIDE} * ({{}})".format


def _arms(forward: bool, last: int) -> list[tuple[int, str, list[str]]]:
    """Return the arms of the chain; arithmetic up to an opcode leaves it unless it stands alone."""
    if forward:
        test = f"pc + 1 < stop and code[at + {STRIDE}]"
        call = f"forward_arithmetic({_at('pc')}, v, pc, stop)"
    else:
        test = f"pc >= start and code[at - {STRIDE}]"
        call = f"reverse_arithmetic({_at('pc + 1')}, v, g, start, pc + 1)"
    run = [f"if {test} & 0xFFFF <= {last}:", f"    pc = {call}", "    continue"]
    arms = []
    for code, op in hot_ops():
        if forward or op.differentiable:
            lines = forward_arm(op) if forward else reverse_arm(op)
            arms.append((code, op.name, [*(run if code <= last else ()), *lines]))
    for code, op, pattern in vector_arms():
        if forward or op.arity < 3:
            lines = forward_vector(op, pattern) if forward else reverse_vector(op, pattern)
            arms.append((code, f"{op.name} {pattern}", lines))
    return arms


@functools.cache
def sweep_source(direction: str) -> str:
    """Return the module of the sweeps in a direction: the dispatch chain and the entry points.

    Parameters
    ----------
    direction
        "forward" or "reverse".
    """
    forward = direction == "forward"
    # The opcode up to which arms are those of arithmetic.
    last = arithmetic()[-1][0]
    arms = forward_texts() if forward else reverse_texts()
    body = (_FORWARD if forward else _REVERSE).format(
        GUARD=GUARD,
        SHIFT=ACTIVE_SHIFT,
        FIRST_KERNEL=FIRST_KERNEL,
        LEVEL=LEVEL,
        arms=chain("op", _arms(forward, last)),
        arithmetic=chain("arm", arms),
        LAST_ARITHMETIC=last,
        BYTES=4 * STRIDE,
        NUMBERS=NUMBERS,
        HIGH=HIGH,
        LINK_MASK=LINK_MASK,
        STATUS_GUARD=status.GUARD,
        STATUS_CONSTANT=status.CONSTANT,
        **{name: number for name, number in vars(frame).items() if isinstance(number, int)},
    )
    body += "\n\n" + COPY_ALL
    return "# cells: f64\n" + constants(body) + helpers(body, scalars) + body


# The frame is frame_q where formulas stand: their third operand is called w.
_FORWARD = """
def forward_arithmetic(code, v, pc, stop):
    last = 0.0
    link = code[{ARMS}] & {LINK_MASK}
    if link != 0:
        last = v[code[{CELL_O} + link]]
    code -= {BYTES}
    pc -= 1
    while True:
        code += {BYTES}
        pc += 1
        if pc >= stop:
            return pc
        arm = code[{ARMS}] & {NUMBERS}
{arithmetic}
        else:
            return pc


def forward_range(frame_q, start, stop):
    code = frame_q[CODE]
    v = frame_q[V64]
    r = frame_q[AUX]
    table = frame_q[FORWARD]
    pc = start
    while pc < stop:
        at = {STRIDE} * pc
        op = code[at] & 0xFFFF
        o = code[at + {CELL_O}]
        a = code[at + {CELL_A}]
        b = code[at + {CELL_B}]
{arms}
        elif op == {GUARD}:
            if v[a] != v[b]:
                frame_q[STOPPED] = pc
                return {STATUS_GUARD}
        else:
            stopped = invoke(table, op - {FIRST_KERNEL}, frame_q, pc)
            if stopped != 0:
                frame_q[STOPPED] = pc
                return stopped
        pc += 1
    return 0


def iterations(w, pc):
    code = w[CODE]
    r = w[AUX]
    kernel = (code[{STRIDE} * pc] & 0xFFFF) - {FIRST_KERNEL}
    levels = r[code[{STRIDE} * pc + {RECORD_WORD}]]
    first = w[LEVELS]
    turns = r[first + {LEVEL}]
    step_o = r[first + {LEVEL} + {LEVEL_O}]
    step_a = r[first + {LEVEL} + {LEVEL_A}]
    step_b = r[first + {LEVEL} + {LEVEL_B}]
    step_c = r[first + {LEVEL} + {LEVEL_C}]
    count = 1
    for j in range(2, levels):
        count *= r[first + {LEVEL} * j]
    stopped = 0
    q = 0
    outer = 0
    while outer < count and stopped == 0:  # which divides once for all turns of the innermost of the levels
        rest = outer
        moved_o = 0
        moved_a = 0
        moved_b = 0
        moved_c = 0
        for j in range(2, levels):
            level = first + {LEVEL} * j
            digit = rest
            if j + 1 < levels:
                rest = rest // r[level]
                digit -= rest * r[level]
            moved_o += digit * r[level + {LEVEL_O}]
            moved_a += digit * r[level + {LEVEL_A}]
            moved_b += digit * r[level + {LEVEL_B}]
            moved_c += digit * r[level + {LEVEL_C}]
        turn = 0
        while turn < turns and stopped == 0:
            w[ITERATION] = q
            w[MOVED_O] = moved_o
            w[MOVED_A] = moved_a
            w[MOVED_B] = moved_b
            w[MOVED_C] = moved_c
            stopped = invoke(w[TABLE], kernel, w, pc)
            moved_o += step_o
            moved_a += step_a
            moved_b += step_b
            moved_c += step_c
            q += 1
            turn += 1
        outer += 1
    w[LEVELS] = 0
    return stopped


def prologue(w, pc):
    return forward_range(w, pc, w[SPLIT])


def value(w, pc):
    return forward_range(w, w[SPLIT], w[COUNT])


def leading(w, pc):
    return forward_range(w, w[SPLIT], pc)


def resume(w, pc):
    return forward_range(w, pc, w[COUNT])


def lanes(w, pc):
    return forward_range(w, w[UNIFORM], w[COUNT])


def strip_range(w, pc):
    return forward_range(w, 0, pc)


def watched(w, pc):
    words_q = w[WATCH]
    for k in range(w[WATCH_COUNT]):
        at = {WATCH_WORDS} * k
        size = words_q[at + 2]
        changed = 0
        if words_q[at + {WATCH_INTEGERS}] != 0:
            changed = differs_from_integers(words_q[at + 1], words_q[at], size // 8)
        else:
            changed = differs(words_q[at], words_q[at + 1], size)
        if changed != 0:
            w[STOPPED] = k
            return {STATUS_CONSTANT}
    return forward_range(w, w[SPLIT], w[COUNT])


def forward(w, pc):
    stopped = watched(w, pc)
    if stopped == {STATUS_GUARD} and w[CONTINUED] != 0:
        return invoke(w[CONTINUED], 0, w, pc)
    return stopped


def bound_forward(w, pc):
    copy_all(w[COPY_IN], w[COPY_IN_COUNT])
    return forward_range(w, w[SPLIT], w[COUNT])


def bound_value(w, pc):
    stopped = bound_forward(w, pc)
    if stopped != 0:
        return stopped
    copy_all(w[COPY_OUT], w[COPY_OUT_COUNT])
    return 0
"""

_REVERSE = """
def reverse_arithmetic(code, v, g, start, pc):
    last = g[code[{CELL_O}]]
    code += {BYTES}
    pc += 1
    while True:
        code -= {BYTES}
        pc -= 1
        if pc < start:
            return pc
        arm = code[{ARMS}] >> {HIGH} & {NUMBERS}
{arithmetic}
        elif code[0] & 0xFFFF > {LAST_ARITHMETIC}:
            return pc


def reverse_range(frame_q, start, stop):
    code = frame_q[CODE]
    v = frame_q[V64]
    g = frame_q[G64]
    table = frame_q[REVERSE]
    pc = stop - 1
    while pc >= start:
        at = {STRIDE} * pc
        word = code[at]
        op = word & 0xFFFF
        flags = word >> {SHIFT}
        pc -= 1
        if flags & {OPERANDS_MASK} == 0:
            continue
        o = code[at + {CELL_O}]
        a = code[at + {CELL_A}]
        b = code[at + {CELL_B}]
{arms}
        else:
            invoke(table, op - {FIRST_KERNEL}, frame_q, pc + 1)


def clear_adjoints(w):
    clear(w[G64], w[FIRST64], w[CELLS64], 8)
    clear(w[G32], w[FIRST32], w[CELLS32], 4)


def pullback(w, pc):
    clear_adjoints(w)
    r = w[SEEDS]
    d = w[SEED_DATA]
    dg = w[G64]
    eg = w[G32]
    first = 0
    for k in range(w[SEED_COUNT]):
        cell = r[{SEED_WORDS} * k + {SEED_CELL}]
        cells = r[{SEED_WORDS} * k + {SEED_CELLS}]
        for i in range(cells):
            if r[{SEED_WORDS} * k] == 0:
                dg[cell + i] += d[first + i]
            else:
                eg[cell + i] += d[first + i]
        first += cells
    reverse_range(w, w[SPLIT], w[COUNT])
    return w[RAISED]


def gradient(w, pc):
    stopped = invoke(w[SWEEPS], {SWEEP_WATCHED}, w, pc)
    if stopped == {STATUS_GUARD} and w[CONTINUED] != 0:
        return invoke(w[CONTINUED], 0, w, pc)
    if stopped != 0:
        return stopped
    return pullback(w, pc)


def bound(w, pc):
    stopped = invoke(w[SWEEPS], {SWEEP_BOUND}, w, pc)
    if stopped != 0:
        return stopped
    stopped = pullback(w, pc)
    if stopped != 0:
        return stopped
    copy_all(w[COPY_OUT], w[COPY_OUT_COUNT])
    return 0
"""

_ROW_OF_MEMORY = ", ".join(f"words_q[{frame.MEMORY_WORDS} * k{at}]" for at in ("", " + 1", " + 2"))
COPY_ALL = f"""def copy_all(words_q, count):
    for k in range(count):
        copy_bytes({_ROW_OF_MEMORY})
"""
