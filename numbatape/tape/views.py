"""What views cover: whether one has all cells of its storage, and along which axes another one walks."""

from __future__ import annotations

from collections.abc import Callable

from .tape import Layout


def covers(builder, layout: Layout, size: int) -> bool:
    """Whether a view from a storage's first cell on has every cell once, for all sizes that guards allow.

    Parameters
    ----------
    size
        The storage's size code.
    """
    settled = builder.sizes.settled
    dims, strides = (tuple(map(settled, codes)) for codes in (layout.dims, layout.strides))
    return memory_order(builder, Layout(dims, strides), settled(size), settled) is not None


def memory_order(builder, layout: Layout, size: int, settled: Callable = int) -> list[int] | None:
    """Return the axes of a view, but those of one entry, in the order in which they walk through the storage.

    The view begins at the storage's first cell. None says that it does not have every cell once.

    Parameters
    ----------
    size
        The storage's size code.
    settled
        Gives sizes that are equal by guards the same code.
    """
    dims, strides = layout.dims, layout.strides
    value = builder.sizes.value
    axes = sorted((k for k in range(len(dims)) if dims[k] != 1), key=lambda k: -value(strides[k]))
    expected, cells = builder.contiguous_strides([dims[k] for k in axes])
    fit = settled(cells) == size and [strides[k] for k in axes] == list(map(settled, expected))
    return axes if fit else None


def axes_of(layout: Layout, whole: Layout) -> list[int | None] | None:
    """Return which axis of a view that covers the storage each axis of another view walks along.

    Both begin at the storage's first cell. None in the list stands for an axis that walks nowhere (one entry,
    or a broadcast); None for the list says that the view walks otherwise: along a part, or along several axes
    at once.
    """
    pairs = enumerate(zip(whole.dims, whole.strides, strict=True))
    walked = {(dim, stride): k for k, (dim, stride) in pairs if dim != 1}
    axes: list[int | None] = []
    for pair in zip(layout.dims, layout.strides, strict=True):
        if pair[0] == 1 or pair[1] == 0:
            axes.append(None)
        elif pair in walked:
            axes.append(walked[pair])
        else:
            return None
    return axes


def steady_along(layout: Layout, place: int) -> bool:
    """Whether a value does not change along an axis, counted from the last one, which is 1."""
    return place > len(layout.dims) or layout.dims[-place] == 1 or layout.strides[-place] == 0
