"""Formulas of the op table as text of kernels: whose functions they call, and cotangents times partials.

Arms of the dispatch chain (`numbatape.engine.chain`) are little more than that. Those of arithmetic on
numbers, at the end, know what is in a register.

A long chain of arithmetic (``s = s + x[i]``) waits for each result to be stored and loaded again, which takes
as long as the arithmetic. So an arm leaves its last result in a register, from which the next one takes the
operand that it is; in the reverse sweep, what it has added up for the adjoint of such an operand. If nothing
else reads a result, there is nothing to add it to.

Word `ARMS` of an instruction has the number of its arm forward and, above 16 bits, of that on the way back; 0
stands for none. An arm is chosen by the op, the operands that take an adjoint, and the one that is in the
register. Two things more it tests, for four times as many arms take four times as long to compile, and run no
faster: whether its cotangent is in memory (then the word is negative), and whether others add to the adjoint
in the register (`SHARED`).
"""

from __future__ import annotations

import functools
import re
import textwrap
from typing import NamedTuple

import numpy as np

from ..late import imported
from ..ops import OPS, Elementwise, scalars
from ..ops.table import OPERANDS
from ..ops.text import helpers
from ..tape import Tape
from . import plan_tables as names
from .frame import ARMS, CELL_A, CELL_C, CELL_O

# Functions of the C library and of SciPy that kernels have in the kernel language, and the files with them.
OWN = re.compile(
    r"\b(?:math\.(exp|expm1|log|log1p|sin|cos|sinh|cosh|tanh|erf|erfc)|sc_(cbrt|i0e|i1e|gammaln|psi|erfcx|ndtr|log_ndtr))\("
)
# Formulas write log1p of an exponential only where that is at most one, for which there is a form without an
# exponent (`log1p_to_one`).
OF_EXPONENTIAL = "math.log1p(math.exp("
OWN_FILES = ("..ops.elementary", "..ops.error_functions", "..ops.gamma_functions", "..ops.short_functions")
SHORT = re.compile(r"\bfast_(exp|log|log1p|sin|cos)\(")  # those that have a form for float32
UNIT = re.compile(r"(-?)1\.0")
# Calls of SciPy and of the C library; `%` and `//` of floats call its fmod. The others are instructions.
LIBRARY_CALL = re.compile(r"\bsc_|\bmath\.(?!fabs|sqrt|copysign|floor|ceil|trunc)\w+\(|%|//")
FAR = re.compile(r"^def far_\w+\(.*\n(?:    .*\n)*", re.M)  # what few cells of a vector need
TARGETS = ("a", "b", f"code[at + {CELL_C}]")  # the first cells of the operands
RECIPROCAL = "1.0/y"  # what several partials of an op may have in common: the compiler would divide twice
SIDE = re.compile(r"(1\.0|[xy]) if (.+) else 0\.0")


def uses(formula: str | None, name: str) -> bool:
    return bool(formula) and re.search(rf"\b{name}\b", formula) is not None


def product(partial: str) -> str:
    """Return the text of ``gz * partial`` without multiplications by one."""
    unit = UNIT.fullmatch(partial)
    if unit:
        return unit[1] + "gz"
    # Where a condition picks no derivative, nothing is added, whatever the cotangent: inf * 0.0 would be NaN.
    side = SIDE.fullmatch(partial)
    if side:
        return f"({'gz' if side[1] == '1.0' else f'gz * {side[1]}'} if {side[2]} else 0.0)"
    return f"gz * ({partial})"


def kernel_text(formula: str) -> str:
    """Return a formula with SciPy's functions under their kernel names."""
    return re.sub(r"\bsc\.(\w+)\(", r"sc_\1(", formula)


def fast_text(text: str) -> str:
    """Return text in which functions of libraries are those of the kernel language."""
    text = text.replace(OF_EXPONENTIAL, "log1p_to_one(fast_exp(")
    return OWN.sub(lambda found: f"fast_{found[1] or found[2]}(", text)


def with_elementary(text: str, cells: str) -> str:
    """Return the text of a kernel of f64 or f32 cells with these functions in the place of the libraries'."""
    text = fast_text(text)
    if cells == "f32":
        text = SHORT.sub(r"short_\1(", text)
    return helpers(text, *(imported(file, __package__) for file in OWN_FILES)) + "\n" + text


def is_simd(op: Elementwise, values: str, direction: str) -> bool:
    """Whether a row's kernel computes eight cells at once (`numbatape.jit.language.simd`).

    It does if it can have functions of the kernel language in the place of libraries'. It also does if it is
    the reverse kernel of two operands: for one that broadcasts, a loop over `parallel` needs a second loop.
    """
    if direction == "forward" and (values != "fast" or op.loop):
        return False
    text = kernel_text("\n".join([op.value] if direction == "forward" else filter(None, op.partials)))
    text = FAR.sub("", fast_text(text + "\n" + helpers(text, scalars)))
    several = direction == "reverse" and op.arity == 2 and op.vector_arm is None
    return (
        ("fast_" in text or "far_" in text or several)
        and "while " not in text
        and LIBRARY_CALL.search(text) is None
    )


# ---- arms of the dispatch chain


def loads(formulas, arity: int) -> list[str]:
    """Return the loads of the operands that formulas use."""
    named = zip(OPERANDS[:arity], TARGETS, strict=False)
    return [f"{name} = v[{cell}]" for name, cell in named if any(uses(f, name) for f in formulas)]


def forward_arm(op: Elementwise) -> list[str]:
    """Return the lines that compute a one-cell result."""
    return [*loads([op.value], op.arity), f"v[o] = {kernel_text(op.value)}"]


def reverse_arm(op: Elementwise) -> list[str]:
    """Return the lines that add to the operands' adjoints; a zero cotangent adds nothing."""
    lines, partials = reverse_loads(op, op.partials)
    for k in reverse_order(op):
        if partials[k]:
            update = f"g[{TARGETS[k]}] += {kernel_text(product(partials[k]))}"
            lines += [update] if op.arity == 1 else [f"if flags & {1 << k}:", "    " + update]
    if op.linear:
        return ["gz = g[o]", *lines]
    return ["gz = g[o]", "if gz != 0.0:", *("    " + line for line in lines)]


def reverse_loads(op: Elementwise, partials) -> tuple[list[str], list[str]]:
    """Return the lines that load what partials need, and the partials; "" stands for none."""
    lines = loads(partials, op.arity)
    if any(uses(p, "z") for p in partials):
        lines.append("z = v[o]")
    shared, partials = reverse_partials(op, partials)
    return [*lines, *shared], partials


def reverse_partials(op: Elementwise, partials) -> tuple[list[str], list[str]]:
    """Return lines for what several partials have in common, and the partials; "" stands for none."""
    partials = [p or "" for p in partials]
    if sum(RECIPROCAL in p for p in partials) < 2:
        return [], partials
    return [f"inverse = {RECIPROCAL}"], [p.replace(RECIPROCAL, "inverse") for p in partials]


def reverse_order(op: Elementwise) -> range:
    """Return the operands in the order in which adjoints are added: a last if it may be in a register."""
    return range(op.arity - 1, -1, -1) if op.in_register else range(op.arity)


def chain(name: str, arms: list[tuple[int, str, list[str]]]) -> str:
    """Return the choice of one of some arms."""
    text = ""
    for k, (number, title, lines) in enumerate(arms):
        text += f"{'if' if k == 0 else 'elif'} {name} == {number}:  # {title}\n"
        text += "".join(f"    {line}\n" for line in lines or ["pass"])
    return textwrap.indent(text, " " * 8)


# ---- arms of arithmetic on numbers

CELLS = "abc"  # names of the operands' first cells
KEYS = 16  # keys for each op and choice of active operands: `LINK`, and these flags
LINK = 4  # times the number of the operand, from 1 on, that is the result of the instruction before
TO_NEXT = 2  # the result is such an operand of the next instruction, and its cotangent is in the register
ALONE = 1  # nothing else reads the operand in the register
LINK_MASK = 3  # a forward arm's number: its op's place, from 1 on, and below it the operand in the register
HIGH = 16  # where the number of the reverse arm begins
NUMBERS = 0xFF  # Either number has a byte, which is loaded without the rest of the word.
SHARED = 1 << 30
IN_MEMORY = -1 << 31


class Arm(NamedTuple):
    """An arm of the reverse sweep.

    Attributes
    ----------
    op, active
        Its op, and the operands that take an adjoint, as bits.
    link
        The operand, from 1 on, whose adjoint stays in the register, or 0.
    """

    op: Elementwise
    active: int
    link: int


def hot_ops() -> list[tuple[int, Elementwise]]:
    """Return (opcode, row) of the ops that have an arm in the chain."""
    return [(2 * k, op) for k, op in enumerate(OPS) if isinstance(op, Elementwise) and op.hot]


@functools.cache
def arithmetic() -> tuple[tuple[int, Elementwise], ...]:
    """Return (opcode, row) of arithmetic; the last one's opcode ends it, and lower ones are all of it."""
    last = max(code for code, op in hot_ops() if op.vector_arm is not None)
    return tuple((code, op) for code, op in hot_ops() if code <= last)


@functools.cache
def linked() -> np.ndarray:
    """Return, for every opcode, bits of the operands that its arms take from the register."""
    table = np.zeros(1 << 16, np.int32)
    for code, op in arithmetic():
        table[code] = sum(1 << OPERANDS.index(name) for name in op.in_register)
    return table


def reverse_arm_of(op: Elementwise, active: int, link: int) -> Arm | None:
    """Return the arm that goes back; None where there is no adjoint.

    Where the register is not asked for it may hold anything, so that arms for links serve there, too.
    """
    active &= sum(1 << k for k, partial in enumerate(op.partials) if partial is not None)
    links = [k for k in range(1, 1 + op.arity) if _links(op, k) and active >> k - 1 & 1]
    if not active:
        return None
    return Arm(op, active, link if link in links else links[0] if links else 0)


@functools.cache
def reverse_arms() -> dict[Arm, int]:
    """Return the arms of the reverse sweep and their numbers."""
    found: dict[Arm, int] = {}
    for _, op in arithmetic():
        for key in range(KEYS << op.arity):
            arm = _reverse_arm_at(op, key)
            if arm is not None:
                found.setdefault(arm, 1 + len(found))
    return found


def _reverse_arm_at(op: Elementwise, key: int) -> Arm | None:
    return reverse_arm_of(op, key // KEYS, key % KEYS // LINK)


@functools.cache
def numbers() -> np.ndarray:
    """Return word `ARMS` by row of the op table, active operands and key, for the first rows of the table."""
    last = arithmetic()[-1][0] // 2
    table = np.zeros((last + 1, KEYS << len(OPERANDS)), np.int32)
    for place, (code, op) in enumerate(arithmetic(), 1):
        for key in range(KEYS << op.arity):
            link, arm = key % KEYS // LINK, _reverse_arm_at(op, key)
            forward = (LINK_MASK + 1) * place + link * _links(op, link)
            back = 0 if arm is None else reverse_arms()[arm] << HIGH
            tested = (0 if key & ALONE else SHARED) | (0 if key & TO_NEXT else IN_MEMORY)
            table[code // 2, key] = forward | back | tested
    return table.reshape(-1)


def _links(op: Elementwise, link: int) -> bool:
    return 0 < link <= op.arity and OPERANDS[link - 1] in op.in_register


@functools.cache
def _tables() -> dict[int, np.ndarray]:
    return {names.LINKED: linked()[: arithmetic()[-1][0] + 1], names.ARM_NUMBERS: numbers()}


def tables_for_arms(tape: Tape) -> tuple[dict[int, np.ndarray], dict[int, int]]:
    """Return what the kernel that chooses arms reads besides a plan: tables, and numbers."""
    return {**_tables(), names.READ_ONCE: tape.read_once}, {names.LAST_ARITHMETIC: arithmetic()[-1][0]}


def forward_texts() -> list[tuple[int, str, list[str]]]:
    """Return (number, title, lines) of the arms of the forward sweep."""
    arms = []
    for place, (_, op) in enumerate(arithmetic(), 1):
        for link in [0, *(1 + OPERANDS.index(name) for name in op.in_register)]:
            lines = [
                f"{name} = last" if k + 1 == link else f"{name} = v[code[{CELL_A + k}]]"
                for k, name in enumerate(OPERANDS[: op.arity])
                if uses(op.value, name)
            ]
            lines += [f"last = {kernel_text(op.value)}", f"v[code[{CELL_O}]] = last", "continue"]
            title = op.name + f", {OPERANDS[link - 1]} from last" * (link > 0)
            arms.append(((LINK_MASK + 1) * place + link, title, lines))
    return arms


def reverse_texts() -> list[tuple[int, str, list[str]]]:
    """Return the same for the reverse sweep."""
    return [(number, _title(arm), [*_reverse(arm), "continue"]) for arm, number in reverse_arms().items()]


def _title(arm: Arm) -> str:
    taken = "".join(name for k, name in enumerate(OPERANDS) if arm.active >> k & 1)
    return f"{arm.op.name} {taken}" + f", {OPERANDS[arm.link - 1]} to last" * (arm.link > 0)


def _reverse(arm: Arm) -> list[str]:
    """Return the lines that add to the adjoints of the active operands; a zero cotangent adds nothing.

    That of the register comes last: where it is that of two operands, the other one has added to it before.
    """
    op, link = arm.op, arm.link - 1
    shared, partials = reverse_partials(
        op, [p if arm.active >> k & 1 else "" for k, p in enumerate(op.partials)]
    )
    formulas = [*partials, *shared]
    cells, lines = "", []
    for k, name in enumerate(OPERANDS[: op.arity]):
        read = any(uses(formula, name) for formula in formulas)
        if read or partials[k]:
            cells += CELLS[k]
        if read:
            lines.append(f"{name} = v[{CELLS[k]}]")
    if any(uses(formula, "z") for formula in formulas):
        lines.append(f"z = v[code[{CELL_O}]]")
    lines += shared
    for k in sorted(reverse_order(op), key=lambda k: k == link):
        if not partials[k]:
            continue
        term = kernel_text(product(partials[k]))
        if k == link:
            lines += [f"last = {term}", f"if code[{ARMS}] & {SHARED}:", f"    last = g[{CELLS[k]}] + last"]
            lines.append(f"g[{CELLS[k]}] = last")
        else:
            lines.append(f"g[{CELLS[k]}] += {term}")
    head = [f"{name} = code[{CELL_A + CELLS.index(name)}]" for name in cells]
    if op.in_register:
        head += ["gz = last", f"if code[{ARMS}] < 0:", f"    gz = g[code[{CELL_O}]]"]
    else:
        head.append(f"gz = g[code[{CELL_O}]]")
    if op.linear:
        return [*head, *lines]
    # An instruction that is skipped must also leave its operand's adjoint in the register.
    skipped = [] if link < 0 else ["else:", f"    last = g[{CELLS[link]}]"]
    return [*head, "if gz != 0.0:", *("    " + line for line in lines), *skipped]
