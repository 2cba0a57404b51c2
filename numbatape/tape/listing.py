"""A tape as text that a person can read."""

from __future__ import annotations

from .families import CONSTANT, FAMILIES, LEVELS, POOLS
from .html_tables import table
from .instruction import NONE, Instruction

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
        f"  size guard: {tape.sizes.text(g.left)} {g.relation} {tape.sizes.text(g.right)}"
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
    text = tape.sizes.text
    if storage < len(POOLS):
        level, family = POOLS[storage]
        if level == CONSTANT:
            for item in tape.literals:
                if item.storage == storage and item.offset == offset:
                    return f"{float(item.data[0]):g}"
        return f"{POOL_LETTER[level]}{offset}" + ("'" if family else "")
    dims, strides = tape.layouts[layout].dims, tape.layouts[layout].strides
    name = f"s{storage}" + (f"+{text(offset)}" if offset else "")
    if not dims:
        return name
    expected, contiguous = 1, []
    for dim in reversed(dims):
        contiguous.append(expected)
        expected = expected * dim if dim >= 0 and expected >= 0 else NONE
    plain = all(s == c or c == NONE for s, c in zip(strides, reversed(contiguous), strict=True))
    body = f"{name}[{', '.join(map(text, dims))}]"
    return body if plain else f"{body}({', '.join(map(text, strides))})"
