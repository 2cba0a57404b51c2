"""The sweeps as text: a dispatch chain of one-cell instructions, and the entry points.

Each direction is a module of its own: a tape that is only swept forward does not wait for the compiler to
finish the other chain, which is as large. Arithmetic keeps its last result in a register
(`numbatape.engine.frame`).
"""

from __future__ import annotations

import functools
import textwrap

from ..ops import OPS, Elementwise, scalars, status
from ..ops.table import OPERANDS
from ..ops.text import helpers
from ..tape.instruction import GUARD
from . import frame
from .codegen import FIRST_KERNEL
from .formula_text import kernel_text, product, uses
from .frame import (
    ACTIVE_SHIFT,
    CELL_C,
    CELL_O,
    FROM_LAST,
    STRIDE,
    TO_NEXT,
    constants,
)
from .plan_tables import LEVEL
from .vectors import forward_vector, reverse_vector, vector_arms

RECIPROCAL = "1.0/y"  # what several partials of an op may have in common


def hot_ops() -> list[tuple[int, Elementwise]]:
    """Return (opcode, row) of the ops that have an arm in the chain."""
    return [(2 * k, op) for k, op in enumerate(OPS) if isinstance(op, Elementwise) and op.hot]


def _loads(formulas, arity: int) -> list[str]:
    cells = ("v[a]", "v[b]", f"v[code[at + {CELL_C}]]")
    return [
        f"{name} = {cells[k]}"
        for k, name in enumerate(OPERANDS[:arity])
        if any(uses(f, name) for f in formulas)
    ]


def _while_repeated(body: list[str], step: int, more: str) -> list[str]:
    """Return the body in a loop over the instructions of one kind that follow one another.

    Such a run stays in its arm: dispatching each iteration again would cost a third of the time of a sum.
    """
    onward = [
        f"if not ({more}) or code[at {'+' if step > 0 else '-'} {STRIDE}] != word:",
        "    break",
        f"pc += {step}",
        f"at += {step * STRIDE}",
        *(f"{x} = code[at + {k}]" for k, x in enumerate("oab", CELL_O)),
    ]
    return ["while True:", *("    " + line for line in (*body, *onward))]


def forward_arm(op: Elementwise) -> list[str]:
    """Return the lines that compute a one-cell result."""
    if op.in_register:
        load = [f"if flags & {FROM_LAST}:", "    x = last", "else:", "    x = v[a]"]
        load += ["y = v[b]", f"w = v[code[at + {CELL_C}]]"][: op.arity - 1]
        body = [*load, f"last = {kernel_text(op.value)}", "v[o] = last"]
        return _while_repeated(body, 1, "pc + 1 < stop")
    return [*_loads([op.value], op.arity), f"v[o] = {kernel_text(op.value)}"]


def reverse_arm(op: Elementwise) -> list[str]:
    """Return the lines that add to the operands' adjoints; a zero cotangent adds nothing."""
    register = op.in_register
    lines = _loads(op.partials, op.arity)
    if any(uses(p, "z") for p in op.partials):
        lines.append("z = v[o]")
    partials = op.partials
    if sum(RECIPROCAL in (p or "") for p in partials) > 1:
        # The compiler would divide anew under each of the flags.
        lines.append(f"inverse = {RECIPROCAL}")
        partials = [p and p.replace(RECIPROCAL, "inverse") for p in partials]
    targets = ("a", "b", f"code[at + {CELL_C}]")
    # Operand a comes last, because it stays in the register.
    order = range(op.arity)[::-1] if register else range(op.arity)
    for k in order:
        partial = partials[k]
        if partial is None:
            continue
        term = kernel_text(product(partial))
        update = [f"g[{targets[k]}] += {term}"]
        if register and k == 0:
            update = [f"last = g[a] + {term}", "g[a] = last"]
        lines += update if op.arity == 1 else [f"if flags & {1 << k}:", *("    " + x for x in update)]
    load = ["gz = g[o]"]
    if register:
        load = [f"if flags & {TO_NEXT}:", "    gz = last", "else:", "    gz = g[o]"]
        # An instruction that is skipped must also leave its operand's adjoint in the register.
        if not op.linear:
            skip = ["elif flags & 1:", "    last = g[a]"]
            lines = ["if gz != 0.0:", *("    " + line for line in lines), *skip]
        return _while_repeated([*load, *lines], -1, "pc > start")
    if op.linear:
        return [*load, *lines]
    return [*load, "if gz != 0.0:", *("    " + line for line in lines)]


def _chain(arms) -> str:
    text = ""
    for k, (number, name, lines) in enumerate(arms):
        text += f"{'if' if k == 0 else 'elif'} op == {number}:  # {name}\n"
        text += "".join(f"    {line}\n" for line in lines or ["pass"])
    return textwrap.indent(text, " " * 8)


@functools.cache
def sweep_source(direction: str) -> str:
    """Return the module of the sweeps in a direction: the dispatch chain and the entry points.

    Parameters
    ----------
    direction
        "forward" or "reverse".
    """
    forward = direction == "forward"
    arms = [
        (code, op.name, forward_arm(op) if forward else reverse_arm(op))
        for code, op in hot_ops()
        if forward or op.differentiable
    ]
    for code, op, pattern in vector_arms():
        if forward or op.arity < 3:
            lines = forward_vector(op, pattern) if forward else reverse_vector(op, pattern)
            arms.append((code, f"{op.name} {pattern}", lines))
    body = (_FORWARD if forward else _REVERSE).format(
        GUARD=GUARD,
        SHIFT=ACTIVE_SHIFT,
        FIRST_KERNEL=FIRST_KERNEL,
        LEVEL=LEVEL,
        arms=_chain(arms),
        STATUS_GUARD=status.GUARD,
        STATUS_CONSTANT=status.CONSTANT,
        **{name: number for name, number in vars(frame).items() if isinstance(number, int)},
    )
    body += "\n\n" + COPY_ALL
    return "# cells: f64\n" + constants(body) + helpers(body, scalars) + body


# The frame is frame_q where formulas stand: their third operand is called w.
_FORWARD = """
def forward_range(frame_q, start, stop):
    code = frame_q[CODE]
    v = frame_q[V64]
    r = frame_q[AUX]
    table = frame_q[FORWARD]
    last = 0.0
    if start < stop and code[{STRIDE} * start] & {FROM_LAST} << {SHIFT}:
        last = v[code[{STRIDE} * start + {CELL_A}]]
    pc = start
    while pc < stop:
        at = {STRIDE} * pc
        word = code[at]
        op = word & 0xFFFF
        flags = word >> {SHIFT}
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
def reverse_range(frame_q, start, stop):
    code = frame_q[CODE]
    v = frame_q[V64]
    g = frame_q[G64]
    table = frame_q[REVERSE]
    last = 0.0
    if start < stop and code[{STRIDE} * (stop - 1)] & {TO_NEXT} << {SHIFT}:
        last = g[code[{STRIDE} * (stop - 1) + {CELL_O}]]
    pc = stop
    while pc > start:
        pc -= 1
        at = {STRIDE} * pc
        word = code[at]
        flags = word >> {SHIFT}
        if flags & {OPERANDS_MASK} == 0:
            continue
        op = word & 0xFFFF
        o = code[at + {CELL_O}]
        a = code[at + {CELL_A}]
        b = code[at + {CELL_B}]
{arms}
        else:
            invoke(table, op - {FIRST_KERNEL}, frame_q, pc)


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
