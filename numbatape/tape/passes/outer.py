"""Outer products: along each axis of such a product one factor changes, and the other is broadcast."""

from __future__ import annotations

from ..draft import Draft


def factors_apart(draft: Draft, product: int, a: int, b: int) -> tuple[int, int] | None:
    """Return the factors of an outer product as matrices, or None if it is none."""
    value = draft.sizes.value
    rank = len(draft.layout_of(product).dims)
    axes = [_varying(draft, x, rank) for x in (a, b)]
    if not all(axes):  # a product of a number and an array is left alone, so that its sum keeps its bits
        return None
    for axis, dim in enumerate(draft.layout_of(product).dims):
        if value(dim) != 1 and (axis in axes[0]) == (axis in axes[1]):
            return None
    matrices = [_as_matrix(draft, x, its) for x, its in zip((a, b), axes, strict=True)]
    return None if None in matrices else (matrices[0], matrices[1])


def _varying(draft: Draft, factor: int, rank: int) -> dict[int, tuple[int, int]]:
    """Return (size, stride) by axis of the product, for the axes along which a factor changes."""
    value, layout = draft.sizes.value, draft.layout_of(factor)
    pairs = enumerate(zip(layout.dims, layout.strides, strict=True), rank - len(layout.dims))
    return {axis: pair for axis, pair in pairs if value(pair[0]) != 1 and value(pair[1]) != 0}


def _as_matrix(draft: Draft, factor: int, axes: dict[int, tuple[int, int]]) -> int | None:
    """Return a matrix of a factor's entries in any order, or None if that takes more than two axes."""
    sizes = draft.sizes
    merged: list[tuple[int, int]] = []
    for dim, stride in sorted(axes.values(), key=lambda pair: -abs(sizes.value(pair[1]))):
        if merged and sizes.settled(merged[-1][1]) == sizes.settled(sizes.mul(dim, stride)):
            merged[-1] = sizes.mul(merged[-1][0], dim), stride
        else:
            merged.append((dim, stride))
    if len(merged) > 2:
        return None
    dims, strides = zip(*[(1, 0)] * (2 - len(merged)), *merged, strict=True)
    return draft.view(factor, draft.address(factor)[1], dims, strides)
