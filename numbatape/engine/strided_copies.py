"""Copies of arrays as records for `numbatape.jit.crew`."""

from __future__ import annotations

from collections.abc import Sequence

from ..jit.crew import AXES

TILE = 8  # points that are copied together: those of a cell are a cache line
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
    points, *others = zip(shape, source[2], target[2], strict=True)
    pieces: list[tuple[int, int, list[Axis]]] = [(0, 0, [points, *others])]
    if others:
        # Points in tiles, in each of which the cache lines of both arrays are read and written once.
        count, here, there = points
        whole, rest = divmod(count, TILE)
        pieces = [
            (0, 0, [(whole, TILE * here, TILE * there), (TILE, here, there), *others]),
            (whole * TILE * here, whole * TILE * there, [(rest, here, there), *others]),
        ][whole == 0 : 1 + (rest > 0)]
    records = []
    for here, there, (first, *inner) in pieces:
        # Behind the tiles, entries are in the order in which they follow one another in the target.
        inner.sort(key=lambda axis: -abs(axis[2]))
        axes = _joined([first, *inner])
        if len(axes) > AXES:
            return None
        axes = [(1, 0, 0)] * (AXES - len(axes)) + axes
        ends = (source[0], source[1] + here, target[0], target[1] + there)
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
