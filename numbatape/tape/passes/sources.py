"""Copies of parts of an array that was put together from copies are made from the originals.

A loop takes its operands one after the other in one array, and the derivative of a loop takes parts of that
array again. If some of these parts differ between directions and others do not, the array has lanes, and so
would all that is read from it: the values of a Hessian's loops would be computed once for each direction.
"""

from __future__ import annotations

import numpy as np

from ..combinations import flatnonzero
from ..draft import Draft
from ..families import POOLS
from ..instruction import copied


def copy_originals(draft: Draft, code: np.ndarray) -> np.ndarray:
    """Let copies of what was copied read the originals, where these still have the same numbers."""
    fields, uses = draft.fields(code), draft.uses(code)
    rows = draft.array_rows(code, draft.ops.with_signs((1,)))
    target, source = fields.out[rows], fields.a[rows]
    calls = flatnonzero(draft.ops.is_any(draft.ops.with_trait("calls"), fields.op))
    given = np.unique(draft.storage[np.concatenate([fields.a[calls], fields.b[calls]])])
    # A view may only stand for its copy if no later instruction adds to what it shows.
    fits = (draft.layout[target] == draft.layout[source]) & uses.settled(draft.group[source], rows)
    fits &= np.isin(draft.storage[target], given)
    again = flatnonzero(np.isin(draft.storage[source], given)).tolist()
    if not (fits.any() and again):
        return code
    original = {}  # for each address of a part, its copy
    for storage in given[given >= len(POOLS)].tolist():
        parts = flatnonzero(draft.storage[target] == storage)
        if uses.writes[draft.group[target[parts]]].max(initial=0) == len(parts) > 0 and _is_put_together(
            draft, storage, target[parts]
        ):
            mine = parts[fits[parts]]
            original |= zip(map(draft.address, target[mine].tolist()), rows[mine].tolist(), strict=True)
    found: dict[int, int] = {}  # for each copy, that whose original it takes
    for k, value in zip(rows[again].tolist(), source[again].tolist(), strict=True):
        first = original.get(draft.address(value), k)
        if first < k and (fields.op[first] ^ fields.op[k]) & 1 == 0:
            found[k] = found.get(first, first)
    if not found:
        return code
    code = copied(code)
    mine, others = [*found], [*found.values()]
    code["a"][mine] = fields.a[others]
    code["active"][mine] &= fields.active[others]
    return code


def _is_put_together(draft: Draft, storage: int, parts: np.ndarray) -> bool:
    """Whether parts fill an array one behind the other, for all sizes: no part overwrites another."""
    sizes, ends = draft.sizes, {}
    for value in parts.tolist():
        _, offset, layout = draft.address(value)
        its = draft.layouts[layout]
        if len(its.dims) != 1 or its.strides != (1,):
            return False
        ends[offset] = sizes.add(offset, its.dims[0])
    place, steps = 0, 0
    while place in ends and steps < len(ends):
        place, steps = ends[place], steps + 1
    return steps == len(parts) and place == int(draft.storage_columns()[0][storage])
