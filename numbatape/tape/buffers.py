"""Buffers that cotangents are added to start with the first ones instead of with zeros.

``buffer = 0; buffer += x; buffer += y`` becomes ``buffer = x + y``, two passes over memory fewer. A copied
-0.0 is not 0.0; all else keeps its bits.
"""

from __future__ import annotations

from .instruction import NONE, opcode, rewritten
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
    code, values = builder.instructions(), builder.values
    zeros = {
        (item.storage, item.offset) for item in builder.literals if item.data.size and item.data[0] == 0.0
    }
    added = {values[code[k].out][0] for k in array_rows(builder, ALONE)}
    fills = [
        k
        for k in array_rows(builder, ("fill",))
        if values[code[k].out][0] in added and values[code[k].a][:2] in zeros
    ]
    if not fills:
        return
    uses = Uses(builder, outputs)
    dropped: set[int] = set()

    def addition(k: int, at: int) -> str | None:
        """Return how row ``at`` adds to all of the buffer that row ``k`` fills, if it does no more."""
        fill, row = code[k], code[at]
        if row.is_guard or row.family != fill.family or row.stage != fill.stage or row.out != row.a:
            return None
        name = builder.names[row.row]
        mine = values[row.out][0] == values[fill.out][0] != values[row.b][0]
        return name if name in ALONE and mine and covers(builder, row.out) else None

    for k in fills:
        use = uses.of[uses.key(code[k].out)]
        touched = sorted({row for row in (*use.writers, *use.readers) if row > k})
        if min(use.writers + use.readers) < k or not touched:
            continue
        first, *rest = touched
        name = addition(k, first)
        if name is None:
            continue
        row = code[first]
        second = addition(k, rest[0]) if rest else None
        becomes = BOTH.get((name, second)) if second else None
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
            made = opcode(number[ALONE[name]], row.family)
            code[first] = row.replace(op=made, active=int(row.takes(1)), a=row.b, b=NONE)
            dropped.add(k)
    builder.code = rewritten(code, {k: () for k in dropped})
