"""Formulas of the op table as text of kernels: whose functions they call, and cotangents times partials.

Arms of the dispatch chain (`numbatape.engine.chain`) are little more than that.
"""

from __future__ import annotations

import re
import textwrap

from ..late import imported
from ..ops import Elementwise, scalars
from ..ops.table import OPERANDS
from ..ops.text import helpers
from .frame import CELL_C

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


def forward_arms(ops: list[tuple[int, Elementwise]]) -> list[tuple[int, str, list[str]]]:
    """Return (number, title, lines) of arms of arithmetic on numbers, for each of the flags of word 0.

    The number is the opcode, which is even, plus one with FROM_LAST.
    """
    arms = []
    for code, op in ops:
        for from_last in range(1 + op.in_register):
            lines = loads([op.value], op.arity)
            if from_last:
                lines[0] = "x = last"
            result = "last" if op.in_register else "z"
            lines += [f"{result} = {kernel_text(op.value)}", f"v[o] = {result}", "continue"]
            arms.append((code + from_last, op.name + ", from last" * from_last, lines))
    return arms


def reverse_arms(ops: list[tuple[int, Elementwise]]) -> list[tuple[int, str, list[str]]]:
    """Return the same for the way back.

    The number is eight times the opcode, plus eight with TO_NEXT, plus the flags of active operands.
    """
    arms = []
    for code, op in ops:
        for active in range(1, 1 << op.arity) if op.differentiable else ():
            for to_next in range(1 + op.in_register):
                title = f"{op.name}, {active}" + ", to next" * to_next
                lines = [*_reverse(op, active, bool(to_next)), "continue"]
                arms.append((8 * (code + to_next) + active, title, lines))
    return arms


def reverse_loads(op: Elementwise, partials) -> tuple[list[str], list[str]]:
    """Return the lines that load what partials need, and the partials; "" stands for none."""
    partials = [p or "" for p in partials]
    lines = loads(partials, op.arity)
    if any(uses(p, "z") for p in partials):
        lines.append("z = v[o]")
    if sum(RECIPROCAL in p for p in partials) > 1:
        lines.append(f"inverse = {RECIPROCAL}")
        partials = [p.replace(RECIPROCAL, "inverse") for p in partials]
    return lines, partials


def reverse_order(op: Elementwise) -> range:
    """Return the operands in the order in which adjoints are added: a last if it may be in a register."""
    return range(op.arity - 1, -1, -1) if op.in_register else range(op.arity)


def _reverse(op: Elementwise, active: int, to_next: bool) -> list[str]:
    """Return the lines that add to the adjoints of the active operands; a zero cotangent adds nothing."""
    lines, partials = reverse_loads(op, [p if active >> k & 1 else "" for k, p in enumerate(op.partials)])
    for k in reverse_order(op):
        if not partials[k]:
            continue
        term = kernel_text(product(partials[k]))
        if op.in_register and k == 0:
            lines += [f"last = g[a] + {term}", "g[a] = last"]
        else:
            lines.append(f"g[{TARGETS[k]}] += {term}")
    first = "gz = last" if to_next else "gz = g[o]"
    if op.linear:
        return [first, *lines]
    lines = [first, "if gz != 0.0:", *("    " + line for line in lines)]
    if op.in_register and partials[0]:
        # An instruction that is skipped must also leave its operand's adjoint in the register.
        lines += ["else:", "    last = g[a]"]
    return lines


def chain(name: str, arms: list[tuple[int, str, list[str]]]) -> str:
    """Return the choice of one of some arms."""
    text = ""
    for k, (number, title, lines) in enumerate(arms):
        text += f"{'if' if k == 0 else 'elif'} {name} == {number}:  # {title}\n"
        text += "".join(f"    {line}\n" for line in lines or ["pass"])
    return textwrap.indent(text, " " * 8)
