"""From the op table to kernels as text: one kernel per op for vectors, and per array op.

The dispatch chain of scalars is in `numbatape.engine.chain`. ``python -m numbatape.engine [OP ...]``
prints what is generated.
"""

from __future__ import annotations

import functools
import re
import textwrap

from ..ops import OPS, ArrayOp, Elementwise, scalars
from ..ops.table import OPERANDS, parameters
from ..ops.text import helpers, modules_of, source_of, without_docstring
from .formula_text import LIBRARY_CALL, UNIT, is_simd, kernel_text, product, uses, with_elementary
from .frame import (
    ACTIVE_SHIFT,
    CELL_A,
    CELL_B,
    CELL_O,
    OUTSIDE_A,
    OUTSIDE_B,
    OUTSIDE_WORDS,
    RECORD_WORD,
    STRIDE,
    constants,
)
from .plan_tables import (
    CORE_CELLS,
    CORE_HEAD,
    CORE_SCRATCH,
    CORE_THIRD,
    LOOP_COUNT,
    LOOP_HEAD,
    LOOP_STRIDES,
    LOOP_THIRD,
)

FIRST_KERNEL = 2 * len(OPS)  # opcodes below are arms of the chain, 2 * row + family
DIRECTIONS = ("forward", "reverse")
# ---- vector kernels of elementwise rows

_LETTERS = "abc"


def _levels(operands: str, base: str, direction: str, scratch: bool = False) -> str:
    """Return the lines that read the levels of a record, the innermost of which the kernel's own loop turns.

    Few records have more. For those the sweeps' function `iterations` calls the kernel again, once for each
    iteration of the outer levels, and says in the frame where it begins: that takes no loop here, and a
    loop takes LLVM a quarter of the time of a small kernel.

    Parameters
    ----------
    base
        Where in the records the levels begin.
    scratch
        Whether every turn has scratch cells of its own, from ``s0`` on.
    """
    names = "o" + operands

    def lines(form: str) -> str:
        return "\n".join(form.format(x=x, X=x.upper(), place=1 + "oabc".index(x)) for x in names)

    moved = "            s0 += w[ITERATION] * turns * cells\n" if scratch else ""
    return f"""
    levels = r[record]
    turns = 1
{lines("    step_{x} = 0")}
    if levels > 0:
        turns = r[{base}]
{lines(f"        step_{{x}} = r[{base} + {{place}}]")}
        if levels > 1:
            if w[LEVELS] == 0:
                w[LEVELS] = {base}
                w[TABLE] = w[{direction.upper()}]
                return invoke(w[ITERATIONS], 0, w, pc)
{lines("            {x} += w[MOVED_{X}]")}
{moved}"""


def _turns(letters: str, call: str) -> str:
    """Return the loop that calls a kernel's body once a turn."""
    steps = "".join(f"    {x} += step_{x}\n" for x in letters)
    return f"""for turn in range(turns):
{textwrap.indent(call, " " * 4)}
    if levels == 0:
        return 0
{steps}"""


def _head(cells: str) -> str:
    v, g = ("V64", "G64") if cells == "f64" else ("V32", "G32")
    return f"""    code = w[CODE]
    r = w[AUX]
    v = w[{v}]
    g = w[{g}]
    d = w[V64]
    at = {STRIDE} * pc
    active = code[at] >> {ACTIVE_SHIFT}
    o = code[at + {CELL_O}]
    a = code[at + {CELL_A}]
    b = code[at + {CELL_B}]
    record = code[at + {RECORD_WORD}]
"""


def _outside(flag: int, x: str) -> str:
    """Return what computes the first cell of an operand outside of the cells, counted from theirs."""
    return f"""    if active & {flag}:
        row_q = w[OUTSIDE] + {8 * OUTSIDE_WORDS} * {x}
        word_q = row_q[0]
        {x} = row_q[1] + (word_q[0] - v) // 8
"""


def _condition(pattern: str) -> str:
    tests = [f"s{x} == {s}" for x, s in zip(_LETTERS, pattern, strict=False)]
    return " and ".join(["so == 1", *tests])


def _strips(op: Elementwise, call: str, rest: list[str]) -> str:
    """Return an if/elif chain over strides: a strip where all cells are contiguous or one, else the rest.

    Parameters
    ----------
    call
        The call of the strip, with ``{kinds}`` for which operands are vectors, and ``{first}`` for where the
        three operands begin.
    """
    first = ", ".join([*_LETTERS[: op.arity], *"000"[op.arity :]])
    text = ""
    for pattern in {1: ["1"], 2: ["11", "10", "01"]}.get(op.arity, ["111"]):
        strip = call.format(kinds=pattern.replace("1", "v").replace("0", "s"), first=first)
        text += f"{'elif' if text else 'if'} {_condition(pattern)}:\n"
        text += textwrap.indent(_rows(op, [strip]), "    ") + "\n"
    return text + "else:\n" + textwrap.indent(_rows(op, rest), "    ") + "\n"


def _loads(formula: str, op: Elementwise, source: str) -> list[str]:
    """Return the loads of the operands that a formula uses."""
    named = zip(OPERANDS[: op.arity], _LETTERS, strict=False)
    return [f"{name} = {source}[{x} + i * s{x}]" for name, x in named if uses(formula, name)]


def _cell_loop(formula: str, simd: bool) -> str:
    """Return the head of the loop over a row's cells, for any strides.

    A formula that calls a library, or has a loop, is computed cell by cell.

    Parameters
    ----------
    formula
        As kernels compute it.
    simd
        Whether the kernel computes eight cells at once.
    """
    if simd:
        return "for i in simd(n):"
    whole = formula + "\n" + helpers(formula, scalars)
    alone = LIBRARY_CALL.search(whole) or "while " in whole
    return "for i in range(n):" if alone else "for i in parallel(n):"


def _rows(op: Elementwise, row: list[str]) -> str:
    """Return the loop over the rows of an instruction; the choice by their strides is made outside of it.

    Choosing for each row took a nanosecond of the 3.6 that the product of two rows of eight takes.
    """
    steps = [f"{x} += step_{x}" for x in "o" + _LETTERS[: op.arity]]
    return "\n".join(["for line in range(turns):", *("    " + line for line in (*row, *steps))])


def _of_any_sign(op: Elementwise, loop: list[str]) -> list[str]:
    """Return NumPy's loop of a row that is `signed`, with that of absolute values where a base is negative.

    For a negative base of a power NumPy's SIMD code calls the C library: 60 ns in the place of 3.
    """
    cell = "v[{0} + i * s{0}]".format
    return [
        "least = 0.0",
        "for i in range(n):",
        f"    least = min(least, {cell('a')})",
        "if least < 0.0:",
        "    for i in range(n):",
        f"        {cell('o')} = math.fabs({cell('a')})",
        f"    loop_{op.loop}(n, v, o, so, v, b, sb, v, o, so)",
        "    for i in range(n):",
        f"        {cell('o')} = {op.signed}({cell('a')}, {cell('b')}, {cell('o')})",
        "else:",
        *("    " + line for line in loop),
    ]


def _forward_body(op: Elementwise, source: str, cells: str, simd: bool, loop: str | None, values: str) -> str:
    if loop and source == "v":
        operands = ", ".join(f"v, {x}, s{x}" for x in _LETTERS[: op.arity])
        lines = [f"loop_{loop.replace('sc.', 'sc_')}(n, {operands}, v, o, so)"]
        return _rows(op, _of_any_sign(op, lines) if op.signed and values == "fast" else lines) + "\n"
    text = kernel_text(op.value)

    lines = [*_loads(op.value, op, source), f"v[o + i * so] = {text}"]
    # A strip computes float32 cells in float32: the bits are the same where the result is rounded once.
    if op.vector_arm is not None and (cells == "f64" or op.exact):
        rest = ["for i in range(n):", *("    " + line for line in lines)]
        return _strips(op, f'strip("{op.value}", "{{kinds}}", v, o, {{first}}, n)', rest)
    return _rows(op, [_cell_loop(text, simd), *("    " + line for line in lines)]) + "\n"


def _reverse_body(op: Elementwise, operand: int, source: str, adjoint: str, cells: str, simd: bool) -> str:
    """Return the text of a row that adds to the adjoints of one operand.

    A zero cotangent adds nothing, whatever the partial is. A broadcast operand's cell takes one sum.
    """
    partial = op.partials[operand]
    x = _LETTERS[operand]
    term = kernel_text(product(partial))
    lines = [*_loads(partial, op, source), "gz = g[o + i * so]"]
    if uses(partial, "z"):
        lines.append("z = v[o + i * so]")
    lines.append(f"term = {term}" if UNIT.fullmatch(partial) else f"term = {term} if gz != 0.0 else 0.0")
    update = f"{adjoint}[{x} + i * s{x}] += term"
    each = ["    " + line for line in (*lines, update)]
    if simd:
        # Either one cell takes the sum of all adjoints (its stride is 0), or every cell takes its own.
        lines += [f"if s{x} == 0:", "    total += term", "else:", "    " + update]
        loop = ["total = 0.0", "for i in simd(n):", *("    " + line for line in lines)]
        return _rows(op, [*loop, f"if s{x} == 0 and n > 0:", f"    {adjoint}[{x}] += total"]) + "\n"
    if op.vector_arm is not None and op.arity < 3 and adjoint == "g" and cells == "f64":
        # The sum for a broadcast operand is taken in lanes.
        call = f'strip_adjoint("{product(partial)}", "{{kinds}}", {operand}, v, g, o, {{first}}, n)'
        return _strips(op, call, ["for i in range(n):", *each])
    head = _cell_loop(kernel_text(partial), simd)
    loop = [head, *each]
    if op.arity == 2 and "parallel" in head:  # a broadcast operand gets its adjoint as one sum
        total = ["for i in range(n):", *("    " + line for line in (*lines, "total += term"))]
        total = ["total = 0.0", *total, f"{adjoint}[{x}] += total"]
        branches = [["    " + line for line in branch] for branch in (total, loop)]
        loop = [f"if s{x} == 0 and n > 0:", *branches[0], "else:", *branches[1]]
    return _rows(op, loop) + "\n"


def elementwise_source(op: Elementwise, cells: str, values: str, direction: str) -> str:
    """Return the module of a row's vector kernel in one direction."""
    letters, simd = _LETTERS[: op.arity], is_simd(op, values, direction)
    strides = "".join(f"    s{x} = r[record + {LOOP_STRIDES + 'oabc'.index(x)}]\n" for x in "o" + letters)
    third = f"    c = r[record + {LOOP_THIRD}]\n" if op.arity == 3 else ""
    names = "o" + letters
    passed = ", ".join(["v, g, n, turns", *(f"{x}, s{x}, step_{x}" for x in names)])
    source, adjoint, other = "v", "g", ""
    if op.casts:  # the operand's cells are of the other family
        source, adjoint = ("e", "eg") if cells == "f64" else ("d", "dg")
        v, g = ("V32", "G32") if cells == "f64" else ("V64", "G64")
        other = f"    {source} = w[{v}]\n    {adjoint} = w[{g}]\n"
        passed = f"{source}, {adjoint}, {passed}"
    head = _head(cells) + other + third + f"    n = r[record + {LOOP_COUNT}]\n{strides}"
    base = f"(record + {LOOP_HEAD})"
    text = ""
    if direction == "forward":
        loop = op.loop_for(values)
        if cells == "f32" and values == "fast":
            # SciPy's loops for float32 err by up to 1e-5; the formula is computed in float64.
            loop = op.single_loop or (None if loop and loop.startswith("sc.") else loop)
        body = _forward_body(op, source, cells, simd, loop, values)
        text = f"def forward_inner({passed}):\n" + textwrap.indent(body, "    ")
        text += f"\n\ndef forward(w, pc):\n{head}{_levels(letters, base, direction)}"
        text += f"    forward_inner({passed})\n    return 0\n"
    elif op.differentiable:
        calls = ""
        for k, partial in enumerate(op.partials):
            if partial is None:
                continue
            body = textwrap.indent(_reverse_body(op, k, source, adjoint, cells, simd), "    ")
            text += f"\n\ndef reverse_{letters[k]}({passed}):\n{body}"
            calls += f"    if active & {1 << k}:\n        reverse_{letters[k]}({passed})\n"
        text += f"\n\ndef reverse(w, pc):\n{head}{_levels(letters, base, direction)}{calls}    return 0\n"
    body = helpers(text, scalars) + "\n\n" + text
    if simd:
        body = with_elementary(body, cells)
    return _first_line(op, cells, (direction,)) + constants(text) + body


def _first_line(op, cells: str, directions: tuple[str, ...]) -> str:
    """Return the first line of a kernel's module, which tells the compiler what cells and effort it has."""
    tiers = ", two tiers" if any(each in op.two_tiers for each in directions) else ""
    return f"# cells: {cells}{tiers}\n"


# ---- array ops


def record_fields(op: ArrayOp) -> tuple[list[str], list[str]]:
    """Return the names of a core record's sizes and strides, in order."""
    strides = [
        f"s{name}{axis}"
        for name, group in zip("oabc", op.operands, strict=False)
        for axis in range(len(group))
    ]
    return list(op.letters), strides


def _body_source(function, name: str) -> str:
    source = without_docstring(source_of(function))
    source = re.sub(r"^@\w+\n", "", source)
    return re.sub(r"^def \w+\(", f"def {name}(", source)


def _array_text(op: ArrayOp, cells: str, direction: str) -> str:
    """Return an array op's kernel in one direction, without what it refers to."""
    sizes, strides = record_fields(op)
    letters = _LETTERS[: op.arity]
    fields = "".join(f"    {name} = r[record + {CORE_HEAD + j}]\n" for j, name in enumerate(sizes + strides))
    places = {"c": CORE_THIRD, "s0": CORE_SCRATCH, "cells": CORE_CELLS}
    head = _head(cells) + "".join(f"    {name} = r[record + {k}]\n" for name, k in places.items()) + fields
    head += "".join(f"    need_{x} = (active >> {j}) & 1\n" for j, x in enumerate("abc"))
    if op.product and cells == "f64":
        head += _outside(OUTSIDE_A, "a") + _outside(OUTSIDE_B, "b")
    base = f"(record + {CORE_HEAD + len(sizes) + len(strides)})"
    text = ""
    function = op.forward if direction == "forward" else op.reverse
    if function is not None:
        body = f"{op.name}_{direction}"
        text += "\n\n" + _body_source(function, body)
        names = parameters(function)
        arguments = {"s": "s0 + turn * cells"}
        call = f"{body}({', '.join(arguments.get(p, p) for p in names)})"
        checked = "stopped = {}\nif stopped != 0:\n    return stopped" if direction == "forward" else "{}"
        turning = _turns("o" + letters, checked.format(call))
        if op.across is not None:
            kernel = op.across[direction == "reverse"]
            text += "\n\n" + _body_source(kernel, f"{body}_across")
            given = {"s": "s0"}
            call = f"{body}_across({', '.join(given.get(p, p) for p in parameters(kernel))})"
            across = textwrap.indent(checked.format(call), "    ")
            turning = f"if {op.beside}:\n{across}\nelse:\n{textwrap.indent(turning, '    ')}"
        text += f"\n\ndef {direction}(w, pc):\n{head}{_levels(letters, base, direction, 's' in names)}"
        text += textwrap.indent(turning, "    ") + "    return 0\n"
    return text


def array_source(op: ArrayOp, cells: str, direction: str) -> str:
    """Return the module of an array op's kernel in one direction: its body and the loop over the batch."""
    directions = DIRECTIONS if op.one_module else (direction,)
    text = "".join(_array_text(op, cells, each) for each in directions)
    return (
        _first_line(op, cells, directions) + constants(text) + helpers(text, *modules_of(op)) + "\n\n" + text
    )


@functools.cache
def kernel_source(row: int, family: int, direction: str = "forward", values: str = "fast") -> str:
    """Return the module of the kernel of a row of the op table; values as in `Config`.

    There is one module per direction: tapes that are swept forward only (derivatives, batches of gradients)
    need no reverse kernel, which takes twice as long to compile as the forward one.

    Parameters
    ----------
    direction
        "forward" or "reverse"; the latter's module is empty where nothing can be differentiated.
    """
    op, cells = OPS[row], ("f64", "f32")[family]
    if isinstance(op, Elementwise):
        return elementwise_source(op, cells, values, direction)
    return array_source(op, cells, direction)
