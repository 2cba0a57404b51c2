"""Sums are taken before factors and signs.

- ``sum(-x)`` is ``-sum(x)``,
- ``sum(c*x)`` is ``c*sum(x)`` where ``c`` does not change along what is summed,

but only in the products that derivatives consist of (``weigh``): the last bit of a value stays NumPy's. With
directions in lanes, a sum that no longer contains a tangent has no lanes at all.
"""

from __future__ import annotations

import numpy as np

from ..draft import Draft
from ..instruction import NONE, Instruction, rewritten
from ..liveness import without_dead
from ..tape import Layout, axes_of, steady_along


def sum_first(draft: Draft, code: np.ndarray) -> np.ndarray:
    """Take sums before negations, and before products with factors that do not change along the summed axes.

    Where there was one, there may be another behind it.
    """
    inner = draft.ops.with_signs((-1,)) | draft.ops.with_trait("zero_wins")
    while True:
        changes, passed = {}, []
        for k, at in _candidates(draft, code, inner):
            found = _factored(draft, code, k, at)
            if found:
                changes[k] = found
                passed.append(at)
        if not changes:
            return code
        further = _lead_on(draft, code, inner, passed)
        code = without_dead(draft, rewritten(code, changes))
        if not further:
            return code


def _lead_on(draft: Draft, code: np.ndarray, inner: frozenset[int], passed: list[int]) -> bool:
    """Whether rows that sums are taken before now read negations or products that sums alone read."""
    uses = draft.uses(code)
    read = {uses.last_write.item(group) for k in passed for group in uses.operands[k, :2].tolist()}
    makers = np.array([k for k in read if k >= 0], np.intp)
    sums = draft.fields(code).is_any(draft.ops.with_trait("totals"))
    sums[passed] = True
    makers = makers[draft.ops.is_any(inner, code["op"][makers])]
    return any(sums[uses.readers(uses.out[k])].all() for k in makers.tolist())


def _candidates(draft: Draft, code: np.ndarray, inner: frozenset[int]) -> list[tuple[int, int]]:
    """Return sums of negations and products that only sums read.

    Each is a pair: the row of the sum, and the row of the negation or product.
    """
    ops, fields = draft.ops, draft.fields(code)
    rows = fields.of(ops.with_trait("totals"))
    if not len(rows) or not fields.times[[*inner]].any():
        return []
    uses = draft.uses(code)
    summed = uses.operands[rows, 0]
    at = uses.last_write[summed]
    fit = (at >= 0) & (uses.writes[summed] == 1)
    fit &= ops.is_any(inner, fields.op[at]) & (fields.stage[at] == fields.stage[rows])
    fit &= (fields.op[at] ^ fields.op[rows]) & 1 == 0
    rows, at = rows[fit], at[fit]
    if not len(rows):
        return []
    fit = ~draft.fixed(uses)[uses.operands[rows, 0]] & draft.covers(code["out"][at])
    rows, at = rows[fit].tolist(), at[fit].tolist()
    # If anything but a sum reads the negation or product, it has to be computed anyway.
    op = fields.op >> 1
    return [
        (k, maker)
        for k, maker in zip(rows, at, strict=True)
        if uses.reads[uses.out[maker]] == 1 or (op[uses.readers(uses.out[maker])] == op[k]).all()
    ]


def _factored(draft: Draft, code, k: int, at: int) -> tuple[Instruction, Instruction] | None:
    """Return (the sum of the inner factor, the instruction that makes the former sum from it), or None."""
    total, its = (Instruction._make(code[row].item()) for row in (k, at))
    uses, summed = draft.uses(code), total.a
    whole, view = draft.layout_of(its.out), draft.layout_of(summed)
    axes = axes_of(view, whole) if draft.address(summed)[1] == 0 else None
    alike = its.b == NONE and draft.layout_of(its.a) == whole
    if axes is None and not alike:
        return None
    rank = len(whole.dims)

    def settled(operand: int) -> bool:
        return bool(uses.last_write[draft.group[operand]] < at)

    for operand, factor, bit in ((its.a, its.b, 0), (its.b, its.a, 1)):
        if operand == NONE or not settled(operand):
            continue
        if factor != NONE:
            assert axes is not None
            steady = axes[-1] is not None and steady_along(draft.layout_of(factor), rank - axes[-1])
            if not steady or not settled(factor):
                continue
        made = draft.array(draft.layout_of(total.out).dims, *draft.kind_of(total.out))
        takes = total.active & its.active >> bit & 1
        behind = _beside(draft, operand, summed) if alike else _along(draft, operand, view, axes, rank)
        first = total.replace(active=takes, out=made, a=behind)
        second = its.replace(out=total.out, aux=total.aux, line=total.line)
        if factor == NONE:
            return first, second.replace(active=takes, a=made, b=NONE)
        thin = _along(draft, factor, view, axes, rank, last=False)
        a, b = (made, thin) if bit == 0 else (thin, made)
        flags = takes << bit | (total.active & its.active >> (1 - bit) & 1) << (1 - bit)
        return first, second.replace(active=flags, a=a, b=b)
    return None


def _beside(draft: Draft, operand: int, view: int) -> int:
    """Return the view of an operand that corresponds to a view of a result with the same layout."""
    its = draft.layout_of(view)
    offset = draft.sizes.add(draft.address(operand)[1], draft.address(view)[1])
    return draft.view(operand, offset, its.dims, its.strides)


def _along(draft: Draft, operand: int, view: Layout, axes, rank: int, last: bool = True) -> int:
    """Return the view of a product's operand that corresponds to ``view``, a view of the product."""
    its, dims = draft.layout_of(operand), view.dims
    missing = rank - len(its.dims)
    settled = draft.sizes.settled  # a size of an argument broadcasts, too, if a guard says that it is 1

    def stride(axis) -> int:
        if axis is None or axis < missing or settled(its.dims[axis - missing]) == 1:
            return 0
        return its.strides[axis - missing]

    strides = [stride(axis) for axis in axes]
    if not last:
        dims, strides = dims[:-1], strides[:-1]
    return draft.view(operand, draft.address(operand)[1], dims, strides)
