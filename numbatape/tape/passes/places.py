"""Results that are copied to a part of another storage are written there at once.

An array that is written to consists of copies when it is read (`numbatape.trace.cell_copies`): after
``u[1:-1] = z`` these are a copy of ``z`` and one of the ends of ``u``. The instruction that makes ``z`` can
write to those cells itself, and whoever else reads ``z`` finds it there.
"""

from __future__ import annotations

from math import prod

import numpy as np

from ..column_scans import reach
from ..draft import Draft
from ..families import POOLS
from ..instruction import Instruction, rewritten
from ..tape import Layout
from ..uses import Uses

_OPERANDS = slice(Instruction._fields.index("a"), Instruction._fields.index("c") + 1)


def write_in_place(draft: Draft, code: np.ndarray) -> np.ndarray:
    """Drop copies of whole results, whose instructions write to the copy instead."""
    uses = draft.uses(code)
    copies = _into_parts(draft, code, uses)
    if not len(copies):
        return code
    copies, makers = _of_results(draft, code, uses, copies)
    # Moves change these columns in place.
    group, offset, layout = draft.group, draft.offset, draft.layout
    places = _Places(draft)
    gone: dict[int, tuple] = {}
    columns = [each.tolist() for each in (copies, code["a"][copies], code["out"][copies], makers)]
    for k, source, target, maker in zip(*columns, strict=True):
        its = group.item(source)
        if uses.writes.item(its) != 1:
            continue  # an earlier move has made the source a part of another array
        read = [group.item(value) for value in code[maker].item()[_OPERANDS]]
        if group.item(target) in read:
            continue
        whole = layout.item(code["out"].item(maker))
        if not places.have_same_shape(layout.item(target), whole):
            continue
        if not places.are_same(layout.item(source), whole):
            # Only a part of a result is read here; thousands may read one result, so the other readers are
            # not looked at.
            continue
        values = uses.values(its)
        if all(offset.item(v) == 0 and places.are_same(layout.item(v), whole) for v in values):
            its_layout = draft.layout_of(target)
            for value in values:
                draft.move(value, target, its_layout.dims, its_layout.strides)
            gone[k] = ()
    return rewritten(code, gone)


class _Places:
    """Compares layouts by their numbers, with the number in place of each size for which guards allow one."""

    def __init__(self, draft: Draft):
        self._draft = draft
        self._known: dict[int, Layout] = {}

    def _settled(self, layout: int) -> Layout:
        found = self._known.get(layout)
        if found is None:
            its, settled = self._draft.layouts[layout], self._draft.sizes.settled
            found = Layout(*(tuple(map(settled, part)) for part in (its.dims, its.strides)))
            self._known[layout] = found
        return found

    def have_same_shape(self, one: int, other: int) -> bool:
        return one == other or self._settled(one).dims == self._settled(other).dims

    def are_same(self, one: int, other: int) -> bool:
        return one == other or self._settled(one) == self._settled(other)


def _positions(draft: Draft, code: np.ndarray, groups: int) -> np.ndarray:
    """Return which groups are read as positions: nothing may write to their storage afterwards."""
    found = np.zeros(groups, bool)
    for k in draft.fields(code).of(draft.ops.with_trait("index")).tolist():
        for name in draft.ops[int(code["op"][k]) >> 1].index:
            found[draft.group[int(code[name][k])]] = True
    return found


def _into_parts(draft: Draft, code: np.ndarray, uses: Uses) -> np.ndarray:
    """Return the copies of arrays into storages that consist of copies, each cell of one."""
    copying, group, size = draft.ops.with_signs((1,)), draft.group, draft.sizes.value
    rows = draft.array_rows(code, copying)
    fields = draft.fields(code)
    rows = rows[draft.storage[fields.out[rows]] >= len(POOLS)]
    rows = rows[uses.writes[group[fields.out[rows]]] > 1]
    if not len(rows):
        return rows
    parts = fields.of(copying)
    targets = fields.out[parts[draft.flags(fields.out[rows])[group[fields.out[parts]]]]]
    layouts, cells = draft.layout[targets].tolist(), {}
    for layout in {*layouts}:
        cells[layout] = prod(map(size, draft.layouts[layout].dims))
    copied = np.bincount(group[targets], [cells[layout] for layout in layouts], draft.count)
    times = np.bincount(group[targets], minlength=draft.count)
    its = group[code["out"][rows]]
    home = draft.storage_columns()[0][draft.storage[code["out"][rows]]]
    return rows[(times[its] == uses.writes[its]) & (copied[its] == [size(code) for code in home.tolist()])]


def _of_results(draft: Draft, code: np.ndarray, uses: Uses, copies) -> tuple[np.ndarray, np.ndarray]:
    """Return the copies of whole results whose instructions may write to the copy, and these instructions."""
    fixed = draft.fixed(uses) | _positions(draft, code, len(uses.writes))
    source, target = code["a"][copies], code["out"][copies]
    its, makers = draft.group[source], uses.last_write[draft.group[source]]
    fit = (makers >= 0) & (uses.writes[its] == 1) & ~fixed[its] & (draft.offset[source] == 0)
    # A storage has lanes if any part of it has, so what does not depend on directions stays apart.
    if draft.directions:
        laned = reach(uses.out, uses.operands, uses.flags(draft.group[list(draft.directions)]))
        fit &= laned[its] == laned[draft.group[target]]
    fit &= draft.ops.is_any(draft.ops.with_trait("narrows"), code["op"][makers])
    fit &= (code["op"][makers] ^ code["op"][copies]) & 1 == 0
    fit &= code["stage"][makers] == code["stage"][copies]
    kinds = draft.storage_columns()[1:]
    fit &= (kinds[:, draft.storage[source]] == kinds[:, draft.storage[target]]).all(axis=0)
    copies, makers = copies[fit], makers[fit]
    fit = draft.covers(code["out"][makers])
    return copies[fit], makers[fit]
