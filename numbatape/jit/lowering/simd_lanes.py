"""Writes SIMD lanes whose number the text states: their types, loads, and copies of one value."""

from __future__ import annotations

from .cells import BYTES, ELEMENT
from .writer import number

# Cells of an iteration of a sum, and of one for the cells that are left. Each addition to a total waits for
# the one before, so there are 16 totals. Other widths would give sums other bits.
SUM_WIDTHS = (16, 4)


def of(width: int, kind: str = "double") -> str:
    return kind if width == 1 else f"<{width} x {kind}>"


def splat(x: float, width: int, element: str = "double") -> str:
    one = f"{element} {number(x)}"
    return number(x) if width == 1 else f"<{', '.join([one] * width)}>"


def place(to, base: str, index: str, kind: str = "f64") -> str:
    return to.element(to.pointer(base), ELEMENT[kind], index)


def load(to, base: str, index: str, width: int, kind: str = "f64") -> str:
    """Return cells as lanes of their own type."""
    return to.new(f"load {of(width, ELEMENT[kind])}, ptr {place(to, base, index, kind)}, align {BYTES[kind]}")


def load_wide(to, base: str, index: str, width: int, kind: str) -> str:
    """Return cells as lanes of float64."""
    value = load(to, base, index, width, kind)
    if kind == "f64":
        return value
    return to.new(f"fpext {of(width, ELEMENT[kind])} {value} to {of(width)}")


def repeated(to, value: str, width: int, element: str) -> str:
    """Return lanes that all hold a value."""
    if width == 1:
        return value
    kind = of(width, element)
    first = to.new(f"insertelement {kind} poison, {element} {value}, i32 0")
    return to.new(f"shufflevector {kind} {first}, {kind} poison, <{width} x i32> zeroinitializer")
