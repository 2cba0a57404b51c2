"""A tape as text that a person can read."""

from __future__ import annotations

from collections.abc import Sequence

from .families import CONSTANT, FAMILIES, LEVELS, POOLS
from .html_tables import table
from .instruction import NONE, Instruction
from .size_tables import (
    ADD,
    DIVIDED_NEAR,
    FLOORDIV,
    INPUT,
    MUL,
    ROOT,
    SCALED,
    SCALED_NEAR,
    SCALED_UP,
    SUB,
    SizeTable,
    fraction,
)

SYMBOL = {ADD: "+", SUB: "-", MUL: "*", FLOORDIV: "//"}
FUNCTION = {SCALED: "int", SCALED_UP: "ceil", SCALED_NEAR: "round", DIVIDED_NEAR: "round", ROOT: "isqrt"}
POOL_LETTER = "kud"  # constant, varying, active scalars


def listing(tape) -> str:
    """Return one line per instruction, with inputs above and outputs below."""
    lines = [
        f"tape {tape.digest[:12]}: {len(tape)} instructions ({tape.prologue} in the prologue), "
        f"{len(tape.guards)} guards, {tape.nbytes} bytes"
    ]
    for number, slot in enumerate(tape.inputs):
        kind = f"{FAMILIES[slot.family]}, {LEVELS[slot.level]}"
        lines.append(f"  input {number}: {operand(tape, slot.value)}  {kind}")
    for number, row in enumerate(tape.instructions()):
        line = tape.line_of(number)
        where = f"  # {line.short}" if line else ""
        lines.append(f"{number:6d}  {_instruction(tape, number, row)}{where}")
    lines += [f"  output: {operand(tape, value)}" for value in tape.outputs]
    lines += [
        f"  size guard: {size_text(tape.sizes, g.left)} {g.relation} {size_text(tape.sizes, g.right)}"
        for g in tape.sizes.guards
    ]
    return "\n".join(lines)


def html(tape, most: int = 60) -> str:
    """Return the listing as a table in HTML; of a long one the head."""
    title = (
        f"Tape {tape.digest[:12]}: {len(tape)} instructions ({tape.prologue} in the prologue), "
        f"{len(tape.guards)} guards, {tape.nbytes} bytes"
    )
    rows = [
        (f"input {number}", "", operand(tape, slot.value), "", "") for number, slot in enumerate(tape.inputs)
    ]
    for number, row in enumerate(tape.instructions()):
        if number == most:
            rows.append(("...", f"{len(tape) - most} more", "", "tape.listing()", ""))
            break
        line = tape.line_of(number)
        where = line.short if line else ""
        reads = ", ".join(operand(tape, value) for value in row.operands)
        result = f"is {tape.guards[row.aux].outcome}" if row.is_guard else operand(tape, row.out)
        rows.append((number, tape.name_of(number), result, reads, where))
    rows += [("output", "", operand(tape, value), "", "") for value in tape.outputs]
    return table(title, ("", "op", "result", "reads", "line"), rows)


def _instruction(tape, number: int, row: Instruction) -> str:
    operands = [operand(tape, value) for value in row.operands]
    if row.is_guard:
        guard = tape.guards[row.aux]
        outcome = bool(guard.outcome) if guard.kind == "bool" else guard.outcome
        return f"guard        {operands[0]} is {outcome}"
    return f"{tape.name_of(number):12s} {operand(tape, row.out)} <- {', '.join(operands)}"


def operand(tape, value: int) -> str:
    """Return a value as text: ``d7`` (a scalar), ``s9[n0]``, ``s9+3[4, n1](strides)``."""
    storage, offset, layout = (int(field) for field in tape.values[value])
    if storage < len(POOLS):
        level, family = POOLS[storage]
        if level == CONSTANT:
            for item in tape.literals:
                if item.storage == storage and item.offset == offset:
                    return f"{float(item.data[0]):g}"
        return f"{POOL_LETTER[level]}{offset}" + ("'" if family else "")
    dims, strides = tape.layouts[layout].dims, tape.layouts[layout].strides
    name = f"s{storage}" + (f"+{size_text(tape.sizes, offset)}" if offset else "")
    if not dims:
        return name
    expected, contiguous = 1, []
    for dim in reversed(dims):
        contiguous.append(expected)
        expected = expected * dim if dim >= 0 and expected >= 0 else NONE
    plain = all(s == c or c == NONE for s, c in zip(strides, reversed(contiguous), strict=True))
    body = f"{name}[{_codes(tape, dims)}]"
    return body if plain else f"{body}({_codes(tape, strides)})"


def _codes(tape, codes: Sequence[int]) -> str:
    return ", ".join(size_text(tape.sizes, code) for code in codes)


def size_text(table: SizeTable, code: int, names: Sequence[str] = ()) -> str:
    """Return a size code as a person would write it: ``3``, ``n0``, ``n0*n1``.

    Parameters
    ----------
    names
        What to call the input dimensions instead of ``n0``, ``n1``.
    """
    if code >= 0:
        return str(code)
    operation, left, right = table.rows[-code - 1]
    if operation == INPUT:
        return names[left] if names else f"n{left}"
    size = size_text(table, left, names)
    if operation not in FUNCTION:
        return f"({size}{SYMBOL[operation]}{size_text(table, right, names)})"
    if operation == DIVIDED_NEAR:
        size = f"{size}/{right}"
    elif operation != ROOT:
        numerator, denominator = fraction(right)
        size = f"{numerator / denominator}*{size}"
    return f"{FUNCTION[operation]}({size})"
