"""Buffers to which cotangents are added start with the first of them instead of with zeros.

``buffer = 0; buffer += x; buffer += y`` becomes ``buffer = x + y``, which saves two passes over memory. A
result may become -0.0 where it was 0.0; all others keep their bits.
"""

from __future__ import annotations

import numpy as np

from ..combinations import flatnonzero
from ..draft import Draft
from ..families import POOLS
from ..instruction import NONE, chosen, copied, opcode, without

# The signs of an op that adds to a buffer, and of one that subtracts from it; the op that replaces such a row
# if it is the first one.
SIGNS = (((1, 1), "copy"), ((1, -1), "neg"))
# The op that replaces the first two rows, by the places of their signs in SIGNS, and whether the operands are
# exchanged. Two subtractions stay two rows, because no op is -x - y.
BOTH = (((0, 0), "add", False), ((0, 1), "sub", False), ((1, 0), "sub", True))
OTHER = len(SIGNS)  # the kind of all other rows


def start_buffers(draft: Draft, code: np.ndarray) -> np.ndarray:
    """Rewrite the first rows of buffers of zeros, if these reach all of their cells."""
    kinds = _kinds(draft, code)
    fills = _fills(draft, code, kinds)
    if not len(fills):
        return code
    uses = draft.uses(code)
    first, second = _next_rows(uses, fills)
    kind = _adding(draft, code, kinds, fills, first)
    fills, first, second, kind = (each[kind != OTHER] for each in (fills, first, second, kind))
    if not len(fills) or not draft.is_felt(code, fills):
        return code
    following = np.where(_adding(draft, code, kinds, fills, second) != OTHER, second, NONE)
    both = following >= 0
    both &= _same_address(draft, code["out"][first], code["out"][following])
    both &= uses.settled(draft.group[code["b"][first]], first)
    code, ops = copied(code), draft.ops
    rows = chosen(code, first)
    taken = np.zeros(len(fills), bool)
    for signs, name, swapped in BOTH:
        pairs = flatnonzero(both & (kind == signs[0]) & (kinds[following] == signs[1]))
        taken[pairs] = True
        operands = [
            (row["b"], row["active"] >> 1 & 1)
            for row in (chosen(rows, pairs), chosen(code, following[pairs]))
        ]
        (x, takes_x), (y, takes_y) = reversed(operands) if swapped else operands
        at = following[pairs]
        code["op"][at] = opcode(ops.number[name], code["op"][at] & 1)
        code["out"][at] = rows["out"][pairs]
        code["a"][at], code["b"][at], code["active"][at] = x, y, takes_x | takes_y << 1
    for which, (_, name) in enumerate(SIGNS):
        at = first[(kind == which) & ~taken]
        code["op"][at] = opcode(ops.number[name], code["op"][at] & 1)
        code["a"][at], code["b"][at], code["active"][at] = code["b"][at], NONE, code["active"][at] >> 1 & 1
    return without(code, np.concatenate([fills, first[taken]]))


def _kinds(draft: Draft, code: np.ndarray) -> np.ndarray:
    """Return for each row the place of its op's signs in SIGNS, or OTHER."""
    kinds = np.full(len(code), OTHER)
    for which, (signs, _) in enumerate(SIGNS):
        kinds[draft.fields(code).of(draft.ops.with_signs(signs))] = which
    return kinds


def _fills(draft: Draft, code: np.ndarray, kinds: np.ndarray) -> np.ndarray:
    """Return the rows that set arrays to zero to which something may be added."""
    fills = draft.array_rows(code, draft.ops.with_trait("repeats"))
    if not len(fills):
        return fills
    storage, out = draft.storage, draft.fields(code).out
    target = out[fills]
    filled = np.zeros(len(draft.storages), bool)
    filled[storage[target]] = True
    adding = out[kinds != OTHER]
    adding = adding[filled[storage[adding]]]
    filled[:] = False
    filled[storage[adding[draft.covers(adding)]]] = True  # parts of buffers are added to more often
    fills = fills[filled[storage[target]]]
    if not len(fills):
        return fills
    source = code["a"][fills]
    zeros = np.zeros(draft.count, bool)
    zeros[draft.literal_groups()[draft.literals.first_numbers() == 0.0]] = True
    first = (storage[source] < len(POOLS)) | (draft.offset[source] == 0)
    return fills[zeros[draft.group[source]] & first]


def _next_rows(uses, fills: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first two rows that touch each filled group after the fill, NONE where there is none.

    A group that a row touches before it is filled counts as one that has no such rows.
    """
    filled = uses.flags(uses.out[fills])
    read = flatnonzero(filled.take(uses.operands.reshape(-1)))
    written = flatnonzero(filled.take(uses.out))
    group = np.concatenate((uses.out[written], uses.operands.reshape(-1)[read]))
    at = np.concatenate((written, read // uses.operands.shape[1]))
    order = np.lexsort((at, group))
    group, at = group[order], at[order]
    new = np.append(True, (group[1:] != group[:-1]) | (at[1:] != at[:-1]))
    group, at = group[new], at[new]
    start = np.searchsorted(group, uses.out[fills])
    padded, of = np.append(at, [NONE, NONE]), np.append(group, [NONE, NONE])
    found = []
    for step in (1, 2):
        mine = (of[start + step] == uses.out[fills]) & (at[start] == fills)
        found.append(np.where(mine, padded[start + step], NONE))
    return found[0], found[1]


def _adding(draft: Draft, code, kinds, fills, rows) -> np.ndarray:
    """Return the kinds of rows that only add to all of the buffer beside them; OTHER for other rows."""
    fill, row, storage = chosen(code, fills), chosen(code, rows), draft.storage
    mine = (rows >= 0) & ((row["op"] ^ fill["op"]) & 1 == 0) & (row["stage"] == fill["stage"])
    mine &= row["out"] == row["a"]
    mine &= storage[row["out"]] == storage[fill["out"]]
    mine &= storage[row["out"]] != storage[row["b"]]
    mine &= draft.covers(row["out"])
    return np.where(mine, kinds[rows], OTHER)


def _same_address(draft: Draft, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    same = draft.storage[x] == draft.storage[y]
    return same & (draft.offset[x] == draft.offset[y]) & (draft.layout[x] == draft.layout[y])
