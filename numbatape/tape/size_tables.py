"""Sizes of a tape as codes: a literal is itself, an expression in the input dimensions is ``-(row + 1)``.

A tape holds sizes, strides and offsets as codes, so that one tape serves every size of its inputs:
`SizeTable.evaluate` turns the codes into numbers for one set of input dimensions. The rows of a table are
made by `numbatape.tape.sizes.Sizes`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ..savings import frozen

INPUT, ADD, SUB, MUL, FLOORDIV, SCALED, SCALED_UP, SCALED_NEAR, DIVIDED_NEAR, ROOT = range(10)

MOST = 2**63 - 1  # larger values are refused: rows that square one another would grow without bound

# The right side of a SCALED row is a fraction in one number: ``numerator << DENOMINATOR_BITS | denominator``.
DENOMINATOR_BITS = 16
MOST_NUMERATOR = 2**15 - 1  # A larger numerator and the denominator would be no literal of 32 bits.


def fraction(code: int) -> tuple[int, int]:
    """Return numerator and denominator of the right side of a SCALED row."""
    return code >> DENOMINATOR_BITS, code & (1 << DENOMINATOR_BITS) - 1


def _scaled(rounding: Callable[[float], int]):
    """Return a function of a size: a factor times the size, rounded, with the rounding of Python's floats."""

    def apply(left: int, right: int) -> int:
        numerator, denominator = fraction(right)
        return rounding(numerator / denominator * left)

    return apply


APPLY = {
    SCALED: _scaled(int),
    SCALED_UP: _scaled(math.ceil),
    SCALED_NEAR: _scaled(round),
    DIVIDED_NEAR: lambda left, right: round(left / right),
    # A guard refuses sizes for which the operand is negative, but guards are compared only after evaluation.
    ROOT: lambda left, right: math.isqrt(max(left, 0)),
    ADD: lambda left, right: left + right,
    SUB: lambda left, right: left - right,
    MUL: lambda left, right: left * right,
    FLOORDIV: lambda left, right: left // right,
}


@frozen()
class SizeGuard:
    """A relation between sizes that the trace relied on."""

    left: int
    relation: str  # "==", ">=" or "!="
    right: int
    line: int = -1

    def holds(self, left: int, right: int) -> bool:
        if self.relation == ">=":
            return left >= right
        return (left == right) == (self.relation == "==")


@frozen()
class SizeTable:
    """Size expressions ``(operation, left code, right code)``; an INPUT row's left is its number."""

    rows: tuple[tuple[int, int, int], ...]
    guards: tuple[SizeGuard, ...]

    def evaluate(self, dimensions: tuple[int, ...]) -> list[int]:
        """Return the value of each row for the given input dimensions."""
        values: list[int] = []
        for operation, left, right in self.rows:
            if operation == INPUT:
                values.append(dimensions[left])
            else:
                left = left if left >= 0 else values[-left - 1]
                right = right if right >= 0 else values[-right - 1]
                if operation == FLOORDIV and right == 0:
                    raise ZeroDivisionError("a size is divided by zero")
                value = APPLY[operation](left, right)
                if abs(value) > MOST:
                    raise OverflowError("a size is no 64-bit number")
                values.append(value)
        return values

    def broken_guard(self, values: list[int]) -> SizeGuard | None:
        """Return the first guard that does not hold for evaluated sizes."""
        for guard in self.guards:
            left, right = (c if c >= 0 else values[-c - 1] for c in (guard.left, guard.right))
            if not guard.holds(left, right):
                return guard
        return None
