"""Buffers to which cotangents are added start with the first of them instead of with zeros.

``buffer = 0; buffer += x; buffer += y`` becomes ``buffer = x + y``, with two passes over memory less. A
result may become -0.0 where it was 0.0; all others keep their bits.
"""

from __future__ import annotations

import numpy as np

from ..instruction import NONE, columns, instructions, opcode, rewritten
from ..uses import Uses, array_rows, covers

PLUS, MINUS = (1, 1), (1, -1)  # the signs of what adds to a buffer, and of what subtracts from it
# What the first two of them are together: an op of both operands, and whether these change places.
BOTH = {
    (PLUS, PLUS): ("add", False),
    (PLUS, MINUS): ("sub", False),
    (MINUS, PLUS): ("sub", True),
}
ALONE = {PLUS: "copy", MINUS: "neg"}


def start_buffers(builder, given: np.ndarray, goal) -> np.ndarray:
    """Rewrite the first rows of buffers of zeros, if these reach all of their cells."""
    ops, number = builder.ops, builder.ops.number
    code, values = instructions(given.tolist()), builder.values
    zeros = {
        (item.storage, item.offset) for item in builder.literals if item.data.size and item.data[0] == 0.0
    }
    adding = (k for k in ops.with_trait("signs") if ops[k].signs in ALONE)
    added = {values[code[k].out][0] for k in array_rows(builder, given, adding)}
    fills = [
        k
        for k in array_rows(builder, given, ops.with_trait("repeats"))
        if values[code[k].out][0] in added and values[code[k].a][:2] in zeros
    ]
    if not fills:
        return given
    uses = Uses(builder, given, goal.outputs)
    dropped: set[int] = set()

    def addition(k: int, at: int) -> tuple[int, int] | None:
        """Return the signs with which row ``at`` adds to all of row ``k``'s buffer, if it does no more."""
        fill, row = code[k], code[at]
        if row.is_guard or row.family != fill.family or row.stage != fill.stage or row.out != row.a:
            return None
        signs = ops[row.row].signs
        mine = values[row.out][0] == values[fill.out][0] != values[row.b][0]
        return signs if signs in ALONE and mine and covers(builder, row.out) else None

    for k in fills:
        use = uses.of[uses.key(code[k].out)]
        touched = sorted({row for row in (*use.writers, *use.readers) if row > k})
        if min(use.writers + use.readers) < k or not touched:
            continue
        first, *rest = touched
        signs = addition(k, first)
        if signs is None:
            continue
        row = code[first]
        second = addition(k, rest[0]) if rest else None
        becomes = BOTH.get((signs, second)) if second else None
        same = becomes and values[code[rest[0]].out] == values[row.out]
        if same and uses.settled(row.b, first):
            later = code[rest[0]]
            x, y, takes_x, takes_y = row.b, later.b, row.takes(1), later.takes(1)
            if becomes[1]:
                x, y, takes_x, takes_y = y, x, takes_y, takes_x
            made = opcode(number[becomes[0]], row.family)
            code[rest[0]] = later.replace(op=made, active=takes_x | takes_y << 1, out=row.out, a=x, b=y)
            dropped |= {k, first}
        else:
            made = opcode(number[ALONE[signs]], row.family)
            code[first] = row.replace(op=made, active=int(row.takes(1)), a=row.b, b=NONE)
            dropped.add(k)
    return columns(rewritten(code, {k: () for k in dropped}))
