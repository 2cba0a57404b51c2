"""Guards come first, if few numbers decide them.

A function of long vectors that asks ``if x[0] > 0`` after some work has its guard behind that work. Where
the guard fails, the work was in vain, because another trace serves the call, and begins anew. So the guard
goes to the front of the tape, with the arithmetic on numbers that it hangs on: a sweep that stops there has
done next to nothing, and steady calls ask these guards before they copy an argument
(`numbatape.steady_calls.leading`).

Guards keep their order, because one that fails says that those before it have held. So the first guard that
hangs on more than that ends the search.
"""

from __future__ import annotations

import numpy as np

from ..combinations import flatnonzero
from ..draft import Draft
from ..instruction import GUARD, NONE, PROLOGUE, chosen
from ..uses import NO_GROUP, Uses

# No more instructions than these go to the front.
MOST = 64


def guards_first(draft: Draft, code: np.ndarray) -> np.ndarray:
    """Move guards, and what decides them, before all other instructions."""
    fields, uses = draft.fields(code), draft.uses(code)
    cheap = _cheap(draft, code)
    moved: set[int] = set()
    front: list[int] = []
    for k in flatnonzero((fields.op == GUARD) & (fields.stage != PROLOGUE)).tolist():
        if draft.builder.guards[int(fields.aux[k])].kind == "count":
            break  # other sizes are tried there, in the same trace
        deciding = _deciding(uses, fields.stage, cheap, k, moved)
        if deciding is None or len(front) + len(deciding) >= MOST:
            break
        front += [*deciding, k]
        moved.update(front)
    last = front[-1] if front else 0
    if not draft.is_array(fields.out[:last][fields.op[:last] != GUARD]).any():
        return code  # what stands before these guards is arithmetic on numbers anyway
    kept = np.ones(len(code), bool)
    kept[front] = False
    return chosen(code, np.concatenate([np.array(front), *kept.nonzero()]))


def _cheap(draft: Draft, code: np.ndarray) -> np.ndarray:
    """Return which instructions are arithmetic on numbers that cannot fail."""
    fields, ops = draft.fields(code), draft.ops
    found = ops.is_any(ops.with_trait("elementwise"), fields.op) & (fields.aux == NONE)
    return found & ~ops.is_any(ops.fallible, fields.op) & ~draft.is_array(fields.out)


def _deciding(uses: Uses, stage: np.ndarray, cheap: np.ndarray, guard: int, known: set) -> list[int] | None:
    """Return in order the instructions that a guard hangs on, without known ones; None if that is more work.

    What they read must have been written once at most, so that it is the same at the front.
    """
    found: set[int] = set()
    waiting = [guard]
    while waiting:
        for group in uses.operands[waiting.pop()].tolist():
            writer = int(uses.last_write[group])
            if group == NO_GROUP or writer == NONE or writer in found or writer in known:
                continue
            if uses.writes[group] != 1:
                return None
            if stage[writer] == PROLOGUE:
                continue
            if not cheap[writer] or len(found) == MOST:
                return None
            found.add(writer)
            waiting.append(writer)
    return sorted(found)
