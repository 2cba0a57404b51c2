"""Derivatives with respect to broadcast arguments stay narrow; sums are taken before factors and signs.

The tangent of a parameter that is broadcast over data is the same for all of them. If it were computed at
full width, every rule that it passes through would cost a pass over the data for each direction. So an
instruction whose operands do not change along an axis is computed without that axis, and

- ``sum(-x)`` is ``-sum(x)``,
- ``sum(c*x)`` is ``c*sum(x)`` where ``c`` does not change along what is summed,

but only in the products that derivatives consist of (``weigh``): the last bit of a value stays NumPy's. With
directions in lanes, a sum that no longer contains a tangent has no lanes at all.
"""

from __future__ import annotations

from .instruction import NONE, Instruction, rewritten
from .uses import Uses, array_rows, axes_of, covers, layout_of


def narrow_broadcasts(builder, outputs) -> None:
    """Compute what does not change along an axis without that axis."""
    ops, code = builder.ops, builder.instructions()
    uses, readers = Uses(builder, outputs), ops.with_trait("narrows") | ops.with_trait("reads_narrow")
    for k in array_rows(builder, ops.with_trait("narrows")):
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
    builder.code = code


def _steady_axes(builder, out: int, operands) -> set[int]:
    """Return the axes of a result along which no operand changes."""
    dims = layout_of(builder, out).dims
    found = set()
    for k in range(len(dims)):
        if dims[k] != 1 and all(_steady_along(builder, x, len(dims) - k) for x in operands):
            found.add(k)
    return found


def _steady_along(builder, value: int, place: int) -> bool:
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


def sum_first(builder, outputs) -> bool:
    """Take sums before negations, and before products with factors that do not change along the summed axes.

    Returns
    -------
    bool
        Whether there were any. Then another pass, after dead rows are dropped, may find more.
    """
    uses, code = Uses(builder, outputs), builder.instructions()
    factored = {}
    for k, row in enumerate(code):
        if not row.is_guard and builder.ops[row.row].totals:
            found = _factored(builder, uses, code, row)
            if found:
                factored[k] = found
    builder.code = rewritten(code, factored)
    return bool(factored)


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
            steady = axes[-1] is not None and _steady_along(builder, factor, rank - axes[-1])
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
