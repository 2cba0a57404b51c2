"""Sums are taken before factors and signs.

- ``sum(-x)`` is ``-sum(x)``,
- ``sum(c*x)`` is ``c*sum(x)`` where ``c`` does not change along what is summed,

but only in the products that derivatives consist of (``weigh``): the last bit of a value stays NumPy's. With
directions in lanes, a sum that no longer contains a tangent has no lanes at all.
"""

from __future__ import annotations

import numpy as np

from ..instruction import NONE, Instruction, columns, instructions, rewritten
from ..liveness import without_dead
from ..uses import Uses, axes_of, covers, layout_of
from .broadcasts import steady_along


def sum_first(builder, code: np.ndarray, goal) -> np.ndarray:
    """Take sums before negations, and before products with factors that do not change along the summed axes.

    Where there was one, there may be another behind it.
    """
    while True:
        uses, rows = Uses(builder, code, goal.outputs), instructions(code.tolist())
        factored = {}
        for k, row in enumerate(rows):
            if not row.is_guard and builder.ops[row.row].totals:
                found = _factored(builder, uses, rows, row)
                if found:
                    factored[k] = found
        if not factored:
            return code
        code = without_dead(builder, columns(rewritten(rows, factored)), goal.outputs)


def _factored(builder, uses, code, total) -> tuple[Instruction, Instruction] | None:
    """Return (the sum of the inner factor, the instruction that makes the former sum from it), or None."""
    summed = total.a
    use = uses.of[uses.key(summed)]
    if uses.key(summed) in uses.fixed or len(use.writers) != 1:
        return None
    at = use.writers[0]
    its = code[at]
    if its.is_guard or its.stage != total.stage or its.family != total.family or not covers(builder, its.out):
        return None
    op = builder.ops[its.row]
    if op.signs != (-1,) and not op.zero_wins:
        return None
    if any(code[r].row != total.row for r in use.readers):
        return None  # it is needed as it is
    axes = axes_of(builder, summed, its.out)
    alike = its.b == NONE and layout_of(builder, its.a) == layout_of(builder, its.out)
    if axes is None and not alike:
        return None
    rank = len(layout_of(builder, its.out).dims)
    for operand, factor, bit in ((its.a, its.b, 0), (its.b, its.a, 1)):
        if operand == NONE or not uses.settled(operand, at):
            continue
        if factor != NONE:
            steady = axes[-1] is not None and steady_along(builder, factor, rank - axes[-1])
            if not steady or not uses.settled(factor, at):
                continue
        _, family, level = builder.storages[builder.values[total.out][0]]
        made = builder.array(layout_of(builder, total.out).dims, family, level)
        takes = total.active & its.active >> bit & 1
        behind = _beside(builder, operand, summed) if alike else _along(builder, operand, summed, axes, rank)
        first = total.replace(active=takes, out=made, a=behind)
        second = its.replace(out=total.out, aux=total.aux, line=total.line)
        if factor == NONE:
            return first, second.replace(active=takes, a=made, b=NONE)
        thin = _along(builder, factor, summed, axes, rank, last=False)
        a, b = (made, thin) if bit == 0 else (thin, made)
        flags = takes << bit | (total.active & its.active >> (1 - bit) & 1) << (1 - bit)
        return first, second.replace(active=flags, a=a, b=b)
    return None


def _beside(builder, operand: int, view: int) -> int:
    """Return the view of an operand that corresponds to a view of a result with the same layout."""
    storage, offset, _ = builder.values[operand]
    its = layout_of(builder, view)
    return builder.view(storage, builder.sizes.add(offset, builder.values[view][1]), its.dims, its.strides)


def _along(builder, operand: int, view: int, axes, rank: int, last: bool = True) -> int:
    """Return the view of a product's operand that corresponds to ``view``, a view of the product."""
    its, dims = layout_of(builder, operand), layout_of(builder, view).dims
    missing = rank - len(its.dims)

    def stride(axis) -> int:
        if axis is None or axis < missing or its.dims[axis - missing] == 1:
            return 0
        return its.strides[axis - missing]

    strides = [stride(axis) for axis in axes]
    if not last:
        dims, strides = dims[:-1], strides[:-1]
    storage, offset, _ = builder.values[operand]
    return builder.view(storage, offset, dims, strides)
