"""Writes the transpose of a block of eight by eight cells (`transpose8` of the kernel language)."""

from __future__ import annotations

from . import simd_lanes
from .cells import BYTES, ELEMENT
from .writer import Value

SIZE = 8


def write(to, zv: str, o: str, sz: str, xv: str, a: str, sa: str) -> Value:
    """Write ``z[i, j] = x[j, i]``: eight loads, 24 shuffles and eight stores instead of 64 of each.

    Three rounds: blocks of one, two and four cells off the diagonal change places between two rows.
    """
    kind = to.module.cells
    row = simd_lanes.of(SIZE, ELEMENT[kind])
    rows = []
    for _ in range(SIZE):
        rows.append(simd_lanes.load(to, xv, a, SIZE, kind))
        a = to.new(f"add i64 {a}, {sa}")
    for distance in (1, 2, 4):
        for k in range(SIZE):
            if not k & distance:
                upper, lower = rows[k], rows[k + distance]
                rows[k] = _exchanged(to, row, upper, lower, distance, 0)
                rows[k + distance] = _exchanged(to, row, upper, lower, distance, distance)
    for value in rows:
        place = simd_lanes.place(to, zv, o, kind)
        to.line(f"store {row} {value}, ptr {place}, align {BYTES[kind]}")
        o = to.new(f"add i64 {o}, {sz}")
    return Value("", "none")


def _exchanged(to, row: str, upper: str, lower: str, distance: int, first: int) -> str:
    """Return one of two rows after blocks of ``distance`` cells have changed places between them."""
    taken = (SIZE + k - distance + first if k & distance else k + first for k in range(SIZE))
    mask = ", ".join(f"i32 {lane}" for lane in taken)
    return to.new(f"shufflevector {row} {upper}, {row} {lower}, <{SIZE} x i32> <{mask}>")
