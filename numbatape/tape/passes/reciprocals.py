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

from ..draft import SCALAR_LAYOUT, Draft
from ..families import CONSTANT, F64
from ..instruction import MAIN, NONE, Instruction, columns, opcode
from ..liveness import steady

FEWEST = 2  # divisions by one number


def multiply_by_reciprocals(draft: Draft, code: np.ndarray) -> np.ndarray:
    """Replace divisions of single cells by a number that divides several of them."""
    if draft.builder.exact:
        return code
    ops = draft.ops
    rows = np.flatnonzero(ops.is_any(ops.with_trait("by_reciprocal"), code["op"]) & (code["op"] & 1 == F64))
    for name in ("out", "a", "b"):
        rows = rows[draft.layout[code[name][rows]] == SCALAR_LAYOUT]
    divisors = code["b"][rows]
    # What depends on constants alone is divided once for all points.
    fit = (code["stage"][rows] == MAIN) & (draft.uses(code).writes[draft.group[divisors]] <= 1)
    fit &= draft.storage_columns()[2][draft.storage[divisors]] != CONSTANT
    rows = rows[fit & steady(draft, code)[rows]]
    _, cell, count = np.unique(_cells(draft, code["b"][rows]), return_inverse=True, return_counts=True)
    rows = rows[count[cell] >= FEWEST]
    if not len(rows):
        return code
    _, first, divisor = np.unique(_cells(draft, code["b"][rows]), return_index=True, return_inverse=True)
    firsts = rows[first]
    one = draft.literal(np.array(1.0))
    made = []
    for k in firsts.tolist():
        row = Instruction._make(code[k].item())
        made.append(row.replace(active=0, out=draft.array((), *draft.kind_of(row.b)), a=one))
    reciprocals = np.array([row.out for row in made], np.int32)
    code = code.copy()
    for op in set((code["op"][rows] >> 1).tolist()):
        its = rows[code["op"][rows] >> 1 == op]
        code["op"][its] = opcode(ops.number[ops[op].by_reciprocal], F64)
    code["c"][rows], code["active"][rows] = reciprocals[divisor], 0
    assert (code["aux"][rows] == NONE).all()
    return np.insert(code, firsts, columns(made).reshape(-1))


def _cells(draft: Draft, values: np.ndarray) -> np.ndarray:
    """Return a number for the address of each single cell; all entries of an array have the same group."""
    return draft.storage[values].astype(np.int64) << 32 | draft.offset[values]
