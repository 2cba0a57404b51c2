"""Derivatives with respect to broadcast arguments stay narrow.

The tangent of a parameter that is broadcast over data is the same for all of them. If it were computed at
full width, every rule that it passes through would cost a pass over the data for each direction. So an
instruction whose operands do not change along an axis is computed without that axis.
"""

from __future__ import annotations

from heapq import heappush

import numpy as np

from ..combinations import by_combination
from ..draft import Draft
from ..instruction import NONE, Instruction, first_to_last, rewritten
from ..tape import Layout, axes_of, steady_along
from ..uses import Fields


def narrow_broadcasts(draft: Draft, code: np.ndarray) -> np.ndarray:
    """Compute what does not change along an axis without that axis."""
    rows = draft.array_rows(code, draft.ops.with_trait("narrows"))
    first = rows[_have_steady_axes(draft, draft.fields(code), rows)]
    if not len(first) or not draft.is_felt(code, first):
        return code
    fit = _Fit(draft, code, rows)
    queue = [k for k in first.tolist() if fit(k)]
    if not queue:
        return code
    # A result that is narrow may let those of its readers be narrow too.
    uses, changes = draft.uses(code), {}
    for k in first_to_last(queue):
        row = changes.get(k) or Instruction._make(code[k].item())
        steady = _steady_axes(draft.layout_of(row.out), [draft.layout_of(x) for x in row.operands])
        narrowed = _narrowed(draft, row, steady, uses.values(uses.out[k])) if steady else None
        if narrowed is not None:
            changes[k] = narrowed
            for reader in uses.readers(uses.out[k]).tolist():
                if fit(reader):
                    heappush(queue, reader)
    return rewritten(code, {k: [row] for k, row in changes.items()})


class _Fit:
    """Tells which of some rows may be computed at another width without a change to their readers.

    Most tapes have few instructions to begin with, so each is looked at when somebody asks for it.
    """

    def __init__(self, draft: Draft, code: np.ndarray, rows: np.ndarray):
        self._draft, self._uses = draft, draft.uses(code)
        ops, fields = draft.ops, draft.fields(code)
        self._out, self._fixed = fields.out, draft.fixed(self._uses)
        self._takes_any_width = fields.is_any(ops.with_trait("narrows") | ops.with_trait("reads_narrow"))
        self._is_row = np.zeros(len(code), bool)
        self._is_row[rows] = True
        self._known: dict[int, bool] = {}

    def __call__(self, k: int) -> bool:
        if k not in self._known:
            self._known[k] = bool(self._is_row[k]) and self._fits(k)
        return self._known[k]

    def _fits(self, k: int) -> bool:
        uses, group = self._uses, self._uses.out[k]
        if self._fixed[group] or uses.writes[group] != 1:
            return False
        readers = self._takes_any_width[uses.readers(group)]
        return bool(readers.all()) and bool(self._draft.covers(self._out[k : k + 1])[0])


def _have_steady_axes(draft: Draft, fields: Fields, rows: np.ndarray) -> np.ndarray:
    """Return which of some instructions have an axis along which no operand changes."""
    layout = np.append(draft.layout, NONE)  # the last entry is for missing operands
    layouts = [layout.take(each.take(rows)) for each in (fields.out, fields.a, fields.b, fields.c)]

    def any_steady(out: int, *operands: int) -> bool:
        layouts = [draft.layouts[number] for number in operands if number != NONE]
        return bool(_steady_axes(draft.layouts[out], layouts))

    return by_combination(any_steady, *layouts)


def _steady_axes(out: Layout, operands: list[Layout]) -> set[int]:
    """Return the axes of a result along which no operand changes."""
    rank = len(out.dims)
    return {
        k
        for k in range(rank)
        if out.dims[k] != 1 and all(steady_along(operand, rank - k) for operand in operands)
    }


def _narrowed(draft: Draft, row: Instruction, steady: set[int], values: list[int]) -> Instruction | None:
    """Compute a result, which ``values`` are views of, without the axes that no operand changes along."""
    out = draft.layout_of(row.out)
    dims = out.dims
    left = [axis for axis in range(len(dims)) if axis not in steady]
    views: dict[int, list[int | None]] = {}
    for value in values:  # an array that all turns of a loop read has thousands of views
        axes = axes_of(draft.layout_of(value), out) if draft.address(value)[1] == 0 else None
        if axes is None:
            if any(dims[axis] != 1 for axis in left) or any(draft.address(v)[1] != 0 for v in values):
                return None
            views = {v: [None] * len(draft.layout_of(v).dims) for v in values}  # the same cell everywhere
            break
        views[value] = axes
    made = draft.array(tuple(dims[axis] for axis in left), *draft.kind_of(row.out))
    strides = dict(zip(left, draft.layout_of(made).strides, strict=True))
    for value, axes in views.items():
        its = tuple(0 if axis is None else strides.get(axis, 0) for axis in axes)
        draft.move(value, made, draft.layout_of(value).dims, its)
    a, b, c = (NONE if x == NONE else _without(draft, x, steady, len(dims)) for x in (row.a, row.b, row.c))
    return row.replace(out=made, a=a, b=b, c=c)


def _without(draft: Draft, value: int, axes: set[int], rank: int) -> int:
    """Return a view of an operand without some axes of the result."""
    its = draft.layout_of(value)
    missing = rank - len(its.dims)
    left = [k for k in range(len(its.dims)) if k + missing not in axes]
    if len(left) == len(its.dims):
        return value
    offset = draft.address(value)[1]
    return draft.view(value, offset, [its.dims[k] for k in left], [its.strides[k] for k in left])
