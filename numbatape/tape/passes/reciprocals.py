"""Several divisions by one number become products with its reciprocal, which is computed once.

This serves tapes that are swept over many points. There each single cell is a vector over the points, and the
division of eight of them takes as long as six products. (For one point, the processor divides while it does
other work.) A derivative divides by what the function has divided by: the gradient of
``-0.5*((y - mu)/sigma)**2 - log(sigma)`` has three divisions by ``sigma``.

A product with a reciprocal errs by up to 1.5 units in the last place, a division by 0.5. So nothing that a
guard or a step depends on is rewritten. Where a reciprocal overflows or loses bits, the op divides
(`numbatape.ops.elementwise`).
"""

from __future__ import annotations

import numpy as np

from ..combinations import flatnonzero
from ..draft import Draft
from ..draft_values import SCALAR_LAYOUT
from ..families import CONSTANT, F64
from ..instruction import MAIN, NONE, Instruction, chosen, columns, copied, opcode
from ..liveness import steady

FEWEST = 2  # divisions by one number


def multiply_by_reciprocals(draft: Draft, code: np.ndarray) -> np.ndarray:
    """Replace divisions of single cells by a number that divides several of them."""
    if draft.builder.exact:
        return code
    rows = _divisions(draft, code)
    if len(rows) < FEWEST:
        return code
    number_of = draft.literal_numbers()[draft.group[:-1]]
    divisors = _without_zeros(draft, code, number_of, code["b"][rows])
    cells = _cells(draft, divisors)
    _, cell, count = np.unique(cells, return_inverse=True, return_counts=True)
    several = count[cell] >= FEWEST
    rows, divisors, cells = rows[several], divisors[several], cells[several]
    if not len(rows):
        return code
    _, first, divisor = np.unique(cells, return_index=True, return_inverse=True)
    # The reciprocal is the result of 1/x, but not that of 1/(x + 0).
    inverse = (number_of[code["a"][rows]] == 1.0) & (_cells(draft, code["b"][rows]) == cells)
    inverse &= draft.uses(code).writes[draft.group[code["out"][rows]]] == 1
    inversions = _inversions(draft, code, rows[first], divisors[first])
    reciprocals = inversions["out"][divisor]
    alias = np.arange(draft.count, dtype=np.int32)
    alias[draft.group[code["out"][rows[inverse]]]] = draft.group[reciprocals[inverse]]
    draft.redirect(alias)
    code, ops = copied(code), draft.ops
    assert (code["aux"][rows] == NONE).all()
    for op in set((code["op"][rows] >> 1).tolist()):
        its = rows[code["op"][rows] >> 1 == op]
        code["op"][its] = opcode(ops.number[ops[op].by_reciprocal], F64)
    code["c"][rows], code["active"][rows] = reciprocals, 0
    stays = np.ones(len(code), bool)
    stays[rows[inverse]] = False
    return np.insert(code, rows[first], inversions)[np.insert(stays, rows[first], True)]


def _divisions(draft: Draft, code: np.ndarray) -> np.ndarray:
    """Return the divisions of single cells that may become products."""
    ops = draft.ops
    rows = flatnonzero(ops.is_any(ops.with_trait("by_reciprocal"), code["op"]) & (code["op"] & 1 == F64))
    for name in ("out", "a", "b"):
        rows = rows[draft.layout[code[name][rows]] == SCALAR_LAYOUT]
    divisors = code["b"][rows]
    # What depends on constants alone is divided once for all points.
    fit = (code["stage"][rows] == MAIN) & (draft.uses(code).writes[draft.group[divisors]] <= 1)
    fit &= draft.storage_columns()[2][draft.storage[divisors]] != CONSTANT
    return rows[fit & steady(draft, code)[rows]] if fit.any() else rows[:0]


def _without_zeros(draft: Draft, code: np.ndarray, number_of: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return x for values that are x + 0, and other values as they are.

    The derivative of a square root divides by such a sum, because a zero loses its sign by it. The reciprocal
    of x serves x + 0, too: they differ where it is infinite, and there the op divides.
    """
    uses, found = draft.uses(code), values.copy()
    makers = uses.last_write[draft.group[values]]
    made = chosen(code, makers)
    fit = (makers >= 0) & draft.ops.is_any(draft.ops.with_signs((1, 1)), made["op"])
    fit &= (made["out"] == values) & (number_of[made["b"]] == 0.0)
    fit &= (draft.layout[made["a"]] == SCALAR_LAYOUT) & (uses.writes[draft.group[made["a"]]] <= 1)
    found[fit] = made["a"][fit]
    return found


def _inversions(draft: Draft, code: np.ndarray, rows: np.ndarray, divisors: np.ndarray) -> np.ndarray:
    """Return instructions that divide one by some values, for divisions by these."""
    one, made = draft.literal(np.array(1.0)), []
    for k, divisor in zip(rows.tolist(), divisors.tolist(), strict=True):
        row = Instruction._make(code[k].item())
        out = draft.array((), *draft.kind_of(divisor))
        made.append(row.replace(active=0, out=out, a=one, b=divisor))
    return columns(made).reshape(-1)


def _cells(draft: Draft, values: np.ndarray) -> np.ndarray:
    """Return a number for the address of each single cell; all entries of an array have the same group."""
    return draft.storage[values].astype(np.int64) << 32 | draft.offset[values]
