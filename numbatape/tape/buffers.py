"""Buffers that cotangents are added to start with the first ones instead of with zeros.

``buffer = 0; buffer += x; buffer += y`` becomes ``buffer = x + y``, two passes over memory fewer. A copied
-0.0 is not 0.0; all else keeps its bits.
"""

from __future__ import annotations

from .tape import GUARD, NONE
from .uses import Uses, array_rows, covers

# (first, second) of what is done to a buffer: the op on the two operands, and whether they change places
BOTH = {
    ("add", "add"): ("add", False),
    ("add", "sub"): ("sub", False),
    ("sub", "add"): ("sub", True),
}
ALONE = {"add": "copy", "sub": "neg"}


def start_buffers(builder, outputs) -> None:
    """Rewrite the first rows of buffers of zeros, if these reach all of their cells."""
    number = {name: k for k, name in enumerate(builder.names)}
    values = builder.values
    zeros = {
        (item.storage, item.offset) for item in builder.literals if item.data.size and item.data[0] == 0.0
    }
    added = {values[builder.code[k][3]][0] for k in array_rows(builder, ALONE)}
    fills = [
        k
        for k in array_rows(builder, ("fill",))
        if values[builder.code[k][3]][0] in added and values[builder.code[k][4]][:2] in zeros
    ]
    if not fills:
        return
    uses = Uses(builder, outputs)
    code = builder.code
    dropped: set[int] = set()

    def addition(k: int, at: int) -> str | None:
        """Return how row ``at`` adds to all of the buffer that row ``k`` fills, if it does no more."""
        op, _, stage, out, a, b, *_ = code[at]
        if op == GUARD or (op ^ code[k][0]) & 1 or stage != code[k][2] or out != a:
            return None
        name = builder.names[op >> 1]
        mine = builder.values[out][0] == builder.values[code[k][3]][0] != builder.values[b][0]
        return name if name in ALONE and mine and covers(builder, out) else None

    for k in fills:
        use = uses.of[uses.key(code[k][3])]
        touched = sorted({row for row in (*use.writers, *use.readers) if row > k})
        if min(use.writers + use.readers) < k or not touched:
            continue
        first, *rest = touched
        name = addition(k, first)
        if name is None:
            continue
        op, active, stage, out, _, x, *tail = code[first]
        second = addition(k, rest[0]) if rest else None
        becomes = BOTH.get((name, second)) if second else None
        same = becomes and builder.values[code[rest[0]][3]] == builder.values[out]
        if same and uses.settled(x, first):
            at = rest[0]
            _, later, _, _, _, y, *tail = code[at]
            flags = active >> 1 & 1, later >> 1 & 1
            operands = (x, y)
            if becomes[1]:
                flags, operands = flags[::-1], operands[::-1]
            made = 2 * number[becomes[0]] + (op & 1)
            code[at] = (made, flags[0] | flags[1] << 1, stage, out, *operands, *tail)
            dropped |= {k, first}
        else:
            code[first] = (2 * number[ALONE[name]] + (op & 1), active >> 1, stage, out, x, NONE, *tail)
            dropped.add(k)
    builder.code = [row for k, row in enumerate(code) if k not in dropped]
