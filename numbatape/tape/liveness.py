"""Which instructions nobody needs: no needed instruction reads their results, and these are no outputs."""

from __future__ import annotations

import numpy as np

from .column_scans import SHORT, live
from .draft import Draft
from .instruction import GUARD, chosen, copied


def without_dead(draft: Draft, code: np.ndarray) -> np.ndarray:
    """Return the instructions that an output or a guard needs, and those that may fail.

    Whether an instruction fails decides what the function does, so it stays although nobody reads its result,
    unless it is `TapeBuilder.spare`; but no adjoint ever reaches it.
    """
    fields = draft.fields(code)
    guards = fields.op == GUARD
    dead = _dead(draft, code, guards)  # those that may fail are still among these
    if not np.count_nonzero(dead):
        return code
    fails = fields.is_any(draft.ops.fallible)
    spare = draft.builder.spare
    if spare:
        may_go = np.zeros(len(draft.storage), bool)
        may_go[list(spare)] = True
        fails &= ~may_go.take(fields.out)
    unread = dead & fails
    if np.count_nonzero(unread):
        # What these read stays with them, and no adjoint reaches that either.
        unread, dead = dead, _dead(draft, code, guards | fails)
    kept = chosen(code, ~dead) if np.count_nonzero(dead) else code
    passive = unread[~dead] & (kept["active"] != 0)
    if np.count_nonzero(passive):
        kept = copied(kept) if kept is code else kept
        kept["active"][passive] = 0
    return kept


def _dead(draft: Draft, code: np.ndarray, needed: np.ndarray) -> np.ndarray:
    """Return the instructions that may go; those in ``needed`` stay whether they are read or not.

    What counts is who reads a result later: an instruction that adds to a buffer reads it too.
    """
    uses, ends = draft.uses(code), draft.ends()
    stays = needed | ends.take(uses.out)
    if len(code) <= SHORT:
        dead = ~stays & (uses.last_read[uses.out] <= np.arange(len(code)))
        if not np.count_nonzero(dead):
            return dead
    # What only dead instructions read is dead too.
    return ~live(uses.out, uses.operands, ends, stays)


def steady(draft: Draft, code: np.ndarray) -> np.ndarray:
    """Return which instructions may be computed with other bits in the last place.

    These are all instructions on which no guard and no jump (`Traits.jumps`) depends.
    """
    uses = draft.uses(code)
    fields = draft.fields(code)
    jumps = (fields.op == GUARD) | fields.is_any(draft.ops.with_trait("jumps"))
    return ~live(uses.out, uses.operands, np.zeros(draft.count, bool), jumps)
