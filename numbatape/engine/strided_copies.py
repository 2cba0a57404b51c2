"""Copies of arrays as records for `numbatape.jit.crew`."""

from __future__ import annotations

from collections.abc import Sequence

from ..jit.crew import AXES

TILE = 64  # points that are copied together
Axis = tuple[int, int, int]  # the number of entries, and the strides of the source and of the target in bytes


def copies(
    shape: Sequence[int],
    width: int,
    source: tuple[int, int, Sequence[int]],
    target: tuple[int, int, Sequence[int]],
) -> list[list[int]] | None:
    """Return records that copy the entries of an array into another one; None where it has too many axes.

    Parameters
    ----------
    shape
        Of both; the first axis numbers points.
    width
        Bytes of an entry: 8 or 4.
    source, target
        Number of a base address, bytes from there to the first entry, and strides in bytes.
    """
    if 0 in shape:
        return []
    first, *others = zip(shape, source[2], target[2], strict=True)
    others = _joined(sorted(others, key=lambda axis: -abs(axis[2])))
    if len(others) > AXES - 2:
        return None
    records = []
    together = _joined([first, *others])
    if len(together) == 1:  # memory without gaps on both sides, for instance
        first, others = together[0], []
    count, here, there = first
    # Points in tiles: within one, the cache lines of both arrays stay in the fastest cache, even where the
    # cells of the next entry of a point are a power of two away.
    whole, rest = divmod(count, TILE)
    pieces = ((0, whole, TILE), (whole * TILE, 1, rest)) if others else ((0, 1, count),)
    for place, tiles, points in pieces:
        if tiles and points:
            axes = [(tiles, TILE * here, TILE * there), *others, (points, here, there)]
            axes[1:1] = [(1, 0, 0)] * (AXES - len(axes))
            ends = (source[0], source[1] + place * here, target[0], target[1] + place * there)
            records.append([*ends, width, *(word for column in zip(*axes, strict=True) for word in column)])
    return records


def _joined(axes: list[Axis]) -> list[Axis]:
    """Return axes without those of one entry, and with one axis for two that are one after the other."""
    found: list[Axis] = []
    for n, here, there in axes:
        if n == 1:
            continue
        if found and found[-1][1:] == (n * here, n * there):
            found[-1] = found[-1][0] * n, here, there
        else:
            found.append((n, here, there))
    return found
