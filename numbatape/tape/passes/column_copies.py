"""Columns and short rows are copied before instructions read them, where copying costs less.

``x[:, 0]`` is a view whose entries are apart from one another. Kernels take them one at a time, where they
take eight entries side by side, and so they do with ``x[:, :2]``, whose rows are shorter than that. A copy
costs as much as one product with such a view. So it is made for functions such as ``exp``, which take ten
times as long entry by entry, for views that several instructions read, and for products of a column with a
number that is differentiated: the adjoint of that number is a sum.

``logsumexp(a[:, :, None] + t, axis=1)`` takes eight rows at once if these lie at equal distances. Here only
groups of a few rows do; in a copy all rows do.
"""

from __future__ import annotations

from itertools import pairwise
from math import prod

import numpy as np

from ..draft import Draft
from ..families import CONSTANT, POOLS
from ..instruction import MAIN, NONE, PROLOGUE, Instruction, opcode, rewritten
from ..tape import WIDTH, Layout

FEWEST = 64  # entries for which a further instruction pays

Place = tuple[int, str]  # the number of an instruction, and its operand
Found = dict[tuple[tuple[int, int, int], int], list[Place]]  # who reads a view: by its address and family


def copy_columns(draft: Draft, code: np.ndarray) -> np.ndarray:
    """Let instructions read copies of columns and of short rows."""
    found = {**_read_apart(draft, code), **_rows_in_groups(draft, code)}
    if not found:
        return code
    uses = draft.uses(code)
    changes: dict[int, list] = {}
    new: dict[Place, int] = {}
    for (address, family), places in found.items():
        places.sort()
        first, name = places[0]
        value = code[name].item(first)
        if not uses.last_write[draft.group[value]] < first:
            continue
        level = draft.kind_of(value)[1]
        copy = draft.array(draft.layouts[address[2]].dims, family, level)
        takes = any(code["active"].item(k) >> "abc".index(name) & 1 for k, name in places)
        stage = PROLOGUE if level == CONSTANT else MAIN
        its = opcode(draft.ops.number["copy"], family)
        made = Instruction(its, int(takes), stage, copy, value, line=code["line"].item(first))
        changes.setdefault(first, []).append(made)
        new.update(dict.fromkeys(places, copy))
    for k in {k for k, _ in new}:
        row = Instruction._make(code[k].item())
        copies = {name: new[k, name] for name in "abc" if (k, name) in new}
        changes.setdefault(k, []).append(row.replace(**copies))
    return rewritten(code, changes)


def _read_apart(draft: Draft, code: np.ndarray) -> Found:
    """Return the views that elementwise instructions read more slowly than a copy is made."""
    wanted = np.zeros(len(draft.layouts), bool)
    wanted[[number for number, layout in enumerate(draft.layouts) if _is_apart(draft, layout)]] = True
    if not wanted.any():
        return {}
    rows = draft.array_rows(code, draft.ops.with_trait("elementwise") - draft.ops.with_trait("moves"))
    settled = draft.sizes.settled
    found: Found = {}
    for name in "abc":
        values = code[name][rows]
        reads = (values != NONE) & wanted[draft.layout[values]]
        reads &= draft.storage[values] >= len(POOLS)
        for k, value in zip(rows[reads].tolist(), values[reads].tolist(), strict=True):
            whole, its = (draft.layout_of(v).dims for v in (code["out"].item(k), value))
            if its == whole or [*map(settled, its)] == [*map(settled, whole)]:  # the view is not broadcast
                # The copy has the dtype of the view, which a conversion's result has not.
                found.setdefault((draft.address(value), draft.kind_of(value)[0]), []).append((k, name))
    return {view: places for view, places in found.items() if _pays(draft, code, places)}


def _rows_in_groups(draft: Draft, code: np.ndarray) -> Found:
    """Return the views whose short rows lie at equal distances only within small groups."""
    found: Found = {}
    for k in draft.array_rows(code, draft.ops.with_trait("rows_at_once")).tolist():
        value, op = code["a"].item(k), code["op"].item(k)
        dims, strides = (tuple(map(draft.sizes.value, part)) for part in draft.layout_of(value))
        axes = [(dim, stride) for dim, stride in zip(dims[:-1], strides, strict=False) if dim != 1]
        if dims[-1] > draft.ops[op >> 1].rows_at_once or len(axes) < 2 or prod(dims) < FEWEST:
            continue
        (_, outer), (dim, inner) = axes[-2:]
        if dim < WIDTH and outer != dim * inner and inner:
            found.setdefault((draft.address(value), op & 1), []).append((k, "a"))
    return found


def _is_apart(draft: Draft, layout: Layout) -> bool:
    """Whether a layout has entries that kernels cannot take side by side."""
    if layout.is_row():
        return False
    dims, strides = (tuple(map(draft.sizes.settled, part)) for part in layout)
    axes = [(dim, stride) for dim, stride in zip(dims, strides, strict=True) if dim != 1]
    if not axes or any(stride == 0 for _, stride in axes):
        return False  # the view is one cell, or broadcast
    if any(inner < 0 or 0 <= outer < inner for (_, outer), (_, inner) in pairwise(axes)):
        return False  # the view is transposed: to copy it would be as slow as to read it
    if all(dim >= 0 for dim in dims) and prod(dims) < FEWEST:
        return False
    run = 1  # how many entries follow one another
    for dim, stride in reversed(axes):
        if stride != run:
            break
        if dim < 0:
            return False  # the length of the run is that of an argument
        run *= dim
    return run < WIDTH


def _pays(draft: Draft, code: np.ndarray, places: list[tuple[int, str]]) -> bool:
    """Whether a copy costs less than what reads a view."""
    if len(places) > 1:
        return True
    ((k, name),) = places
    row = Instruction._make(code[k].item())
    op = draft.ops[row.row]
    if not op.exact:
        return True
    return any(
        row.takes(place) and all(dim == 1 for dim in draft.layout_of(value).dims)
        for place, value in enumerate(row.operands)
        if "abc"[place] != name
    )
