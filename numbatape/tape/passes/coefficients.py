"""Coefficients of what is linear in directions: values without lanes, which are multiplied and added."""

from __future__ import annotations

from ..draft import Draft
from ..instruction import MAIN, NONE, PROLOGUE, Instruction, instruction, opcode
from ..tape import CONSTANT, F64

# How a coefficient is applied. The product is zero where the value is, where the coefficient is, or where
# either of them is, whatever the other factor is there.
PLAIN, ZERO_VALUE, ZERO_COEFFICIENT, ZERO_EITHER = "plain", "zero value", "zero coefficient", "zero either"
PRODUCT = {PLAIN: "mul", ZERO_VALUE: "weigh", ZERO_COEFFICIENT: "weigh", ZERO_EITHER: "strong_mul"}

Factors = tuple[tuple[int, str], ...]  # coefficients in the order in which they are applied, and how each is


class Coefficients:
    """Instructions on coefficients, and new values.

    Attributes
    ----------
    emitted
        The instructions so far; those who emit them start with a new list whenever they want one.
    mixed
        How to apply a coefficient that was made of some for which zeros of the value count, and of others for
        which their own zeros count. Products by "weigh" are fused with sums, products by "strong_mul" are
        not.
    """

    mixed = ZERO_VALUE

    def __init__(self, draft: Draft):
        self.draft, self.ops = draft, draft.ops
        # These columns lack the values that are made from now on, for which ``made`` has what is needed.
        self.group, self.storage, self.offset, self.layout = (
            draft.group,
            draft.storage,
            draft.offset,
            draft.layout,
        )
        self.storage_level = draft.storage_columns()[2]
        self.shapes: dict[int, tuple] = {}  # the keys are layouts
        self.made: dict[int, tuple[tuple, int]] = {}  # shape and level of new values
        self.emitted: list[Instruction] = []

    # ---- instructions

    def emit(self, name: str, out: int, a: int, b: int, line: int, stage: int = MAIN) -> None:
        op = opcode(self.ops.number[name], F64)
        self.emitted.append(instruction((op, 0, stage, out, a, b, NONE, NONE, line)))

    def apply(self, out: int, value: int, coefficient: int, applied: str, line: int) -> None:
        """Emit the product of a value with lanes and a coefficient."""
        operands = (coefficient, value) if applied == ZERO_COEFFICIENT else (value, coefficient)
        self.emit(PRODUCT[applied], out, *operands, line)

    def product(self, factors: Factors, sign: int, line: int) -> tuple[int, str]:
        """Emit a product of coefficients; return it, and how it is applied to a value with lanes."""
        (total, how), *rest = factors
        for factor, applied in rest:
            operands = (factor, total) if applied == ZERO_COEFFICIENT else (total, factor)
            total = self.joined(PRODUCT[applied], *operands, line)
            how = self.strictest(how, applied)
        return (total if sign > 0 else self.joined("neg", total, NONE, line)), how

    def strictest(self, one: str, other: str) -> str:
        """Return how a sum or a product of coefficients is applied: zeros stay zeros if they do for one."""
        return one if other in (one, PLAIN) else other if one == PLAIN else self.mixed

    def joined(self, name: str, a: int, b: int, line: int) -> int:
        """Emit an instruction on coefficients into an array of their common shape."""
        dims, level = self.shape(a), self.level(a)
        if b != NONE:
            other, level = self.shape(b), max(level, self.level(b))
            if other != dims:
                dims = _broadcast(dims, other)
        out = self.array(dims, level)
        self.emit(name, out, a, b, line, stage_of(level))
        return out

    # ---- values

    def like(self, value: int) -> int:
        return self.array(self.shape(value), self.level(value))

    def array(self, dims: tuple, level: int) -> int:
        out = self.draft.array(dims, F64, level)
        self.made[out] = dims, level
        return out

    def shape(self, value: int) -> tuple:
        if value in self.made:
            return self.made[value][0]
        layout = self.layout.item(value)
        shape = self.shapes.get(layout)
        if shape is None:
            shape = tuple(map(self.draft.sizes.settled, self.draft.layouts[layout].dims))
            self.shapes[layout] = shape
        return shape

    def level(self, value: int) -> int:
        if value in self.made:
            return self.made[value][1]
        return self.storage_level.item(self.storage.item(value))


def stage_of(level: int) -> int:
    """Return the stage of an instruction on values of a level."""
    return PROLOGUE if level == CONSTANT else MAIN


def _broadcast(*shapes: tuple) -> tuple:
    """Return the common shape of arrays; of two sizes of an axis that differ, one is 1."""
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    return tuple(next((d for d in sizes if d != 1), 1) for sizes in zip(*padded, strict=True))
