"""Results that are copied to a part of another storage are written there at once.

An array that is written to consists of copies when it is read (`numbatape.trace.cell_copies`): after
``u[1:-1] = z`` these are a copy of ``z`` and one of the ends of ``u``. The instruction that makes ``z`` can
write to those cells itself, and whoever else reads ``z`` finds it there.
"""

from __future__ import annotations

import numpy as np

from ..column_scans import reach
from ..draft import Draft
from ..families import POOLS
from ..instruction import rewritten
from ..tape import Layout
from ..uses import Uses


def write_in_place(draft: Draft, code: np.ndarray) -> np.ndarray:
    """Drop copies of whole results, whose instructions write to the copy instead."""
    uses = draft.uses(code)
    copies = _into_parts(draft, code, uses)
    if not copies:
        return code
    fixed = draft.fixed(uses) | _positions(draft, code, len(uses.writes))
    # A storage has lanes if any part of it has, so what does not depend on directions stays apart.
    laned = np.zeros(len(fixed), bool)
    if draft.directions:
        laned = reach(uses.out, uses.operands, uses.flags(draft.group[list(draft.directions)]))
    gone: dict[int, tuple] = {}
    for k in copies:
        source, target = int(code["a"][k]), int(code["out"][k])
        group = draft.group[source]
        alike = laned[group] == laned[draft.group[target]]
        if alike and uses.writes[group] == 1 and not fixed[group] and _can_move(draft, code, uses, k):
            layout = draft.layout_of(target)
            for value in uses.values(group):
                draft.move(value, target, layout.dims, layout.strides)
            gone[k] = ()
    return rewritten(code, gone)


def _positions(draft: Draft, code: np.ndarray, groups: int) -> np.ndarray:
    """Return which groups are read as positions: nothing may write to their storage afterwards."""
    found = np.zeros(groups, bool)
    for k in np.flatnonzero(draft.ops.is_any(draft.ops.with_trait("index"), code["op"])).tolist():
        for name in draft.ops[int(code["op"][k]) >> 1].index:
            found[draft.group[int(code[name][k])]] = True
    return found


def _into_parts(draft: Draft, code: np.ndarray, uses: Uses) -> list[int]:
    """Return the copies of arrays into storages that consist of copies, each cell of one."""
    copying = draft.ops.with_signs((1,))
    rows = draft.array_rows(code, copying)
    rows = rows[draft.storage[code["out"][rows]] >= len(POOLS)]
    rows = rows[uses.writes[draft.group[code["out"][rows]]] > 1]
    if not len(rows):
        return []
    parts = np.flatnonzero(draft.ops.is_any(copying, code["op"]))
    parts = parts[draft.flags(code["out"][rows])[draft.group[code["out"][parts]]]]
    size = draft.sizes.value
    copied: dict[int, tuple[int, int]] = {}  # copies and cells by group
    for target in code["out"][parts].tolist():
        group = int(draft.group[target])
        count, cells = copied.get(group, (0, 0))
        copied[group] = count + 1, cells + int(np.prod([size(dim) for dim in draft.layout_of(target).dims]))

    def is_whole(target: int) -> bool:
        group = int(draft.group[target])
        return copied[group] == (uses.writes[group], size(draft.storages[draft.address(target)[0]][0]))

    return [k for k in rows.tolist() if is_whole(int(code["out"][k]))]


def _can_move(draft: Draft, code: np.ndarray, uses: Uses, k: int) -> bool:
    """Whether the row whose result is copied may write to the copy, and all readers may read there."""
    copy = code[k]
    source, target = int(copy["a"]), int(copy["out"])
    group = draft.group[source]
    maker = code[int(uses.last_write[group])]
    out = int(maker["out"])
    fit = draft.ops.is_any(draft.ops.with_trait("narrows"), maker["op"])
    fit = fit and not (maker["op"] ^ copy["op"]) & 1 and maker["stage"] == copy["stage"]
    fit = fit and draft.kind_of(source) == draft.kind_of(target)
    fit = fit and draft.group[target] not in draft.group[[int(maker[name]) for name in "abc"]]
    if not fit or not draft.covers(np.array([out]))[0]:
        return False
    its = _settled(draft, out)
    if _settled(draft, target).dims != its.dims or not _is_whole(draft, source, its):
        return False  # a part of a result; asked first, since thousands of parts may read one result
    return all(_is_whole(draft, x, its) for x in uses.values(group))


def _is_whole(draft: Draft, value: int, its: Layout) -> bool:
    """Whether a value is all of its storage, in the layout in which that was written."""
    return draft.address(value)[1] == 0 and _settled(draft, value) == its


def _settled(draft: Draft, value: int) -> Layout:
    """Return a value's layout, with the number in place of each size for which guards allow only one."""
    layout = draft.layout_of(value)
    return Layout(*(tuple(map(draft.sizes.settled, part)) for part in (layout.dims, layout.strides)))
