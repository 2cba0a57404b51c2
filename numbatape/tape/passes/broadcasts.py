"""Derivatives with respect to broadcast arguments stay narrow.

The tangent of a parameter that is broadcast over data is the same for all of them. If it were computed at
full width, every rule that it passes through would cost a pass over the data for each direction. So an
instruction whose operands do not change along an axis is computed without that axis.
"""

from __future__ import annotations

import numpy as np

from ..instruction import NONE, columns, instructions
from ..uses import Uses, array_rows, axes_of, covers, layout_of


def narrow_broadcasts(builder, given: np.ndarray, goal) -> np.ndarray:
    """Compute what does not change along an axis without that axis."""
    ops, code = builder.ops, instructions(given.tolist())
    uses, readers = (
        Uses(builder, given, goal.outputs),
        ops.with_trait("narrows") | ops.with_trait("reads_narrow"),
    )
    for k in array_rows(builder, given, ops.with_trait("narrows")):
        row = code[k]
        out = row.out
        use = uses.of[uses.key(out)]
        if len(use.writers) > 1 or uses.key(out) in uses.fixed or not covers(builder, out):
            continue
        if any(code[r].is_guard or code[r].row not in readers for r in use.readers):
            continue
        steady = _steady_axes(builder, out, row.operands)
        if not steady:
            continue
        views = {v: axes_of(builder, v, out) for v in use.values}
        dims = layout_of(builder, out).dims
        left = [axis for axis in range(len(dims)) if axis not in steady]
        if any(axes is None for axes in views.values()):
            if any(dims[axis] != 1 for axis in left) or any(builder.values[v][1] != 0 for v in views):
                continue
            views = {v: [None] * len(layout_of(builder, v).dims) for v in views}  # the same cell everywhere
        _, family, level = builder.storages[builder.values[out][0]]
        made = builder.array(tuple(dims[axis] for axis in left), family, level)
        strides = dict(zip(left, layout_of(builder, made).strides, strict=True))
        storage, offset, _ = builder.values[made]
        for value, axes in views.items():
            assert axes is not None
            shape = layout_of(builder, value).dims
            its = tuple(0 if axis is None else strides.get(axis, 0) for axis in axes)
            builder.move(value, storage, offset, shape, its)
        a, b, c = (
            NONE if x == NONE else _without(builder, x, steady, len(dims)) for x in (row.a, row.b, row.c)
        )
        code[k] = row.replace(out=made, a=a, b=b, c=c)
    return columns(code)


def _steady_axes(builder, out: int, operands) -> set[int]:
    """Return the axes of a result along which no operand changes."""
    dims = layout_of(builder, out).dims
    found = set()
    for k in range(len(dims)):
        if dims[k] != 1 and all(steady_along(builder, x, len(dims) - k) for x in operands):
            found.add(k)
    return found


def steady_along(builder, value: int, place: int) -> bool:
    """Whether a value does not change along an axis, counted from the last one, which is 1."""
    its = layout_of(builder, value)
    return place > len(its.dims) or its.dims[-place] == 1 or its.strides[-place] == 0


def _without(builder, value: int, axes: set[int], rank: int) -> int:
    """Return a view of an operand without some axes of the result."""
    its = layout_of(builder, value)
    missing = rank - len(its.dims)
    left = [k for k in range(len(its.dims)) if k + missing not in axes]
    if len(left) == len(its.dims):
        return value
    storage, offset, _ = builder.values[value]
    return builder.view(storage, offset, [its.dims[k] for k in left], [its.strides[k] for k in left])
