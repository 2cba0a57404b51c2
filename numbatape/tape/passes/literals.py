"""Products with literals: two of them become one.

The derivative of ``-0.5 * z**2`` is recorded as ``-0.5 * (2.0 * z)``, which is ``-z``.

Two literals are multiplied only in the products that derivatives consist of (``weigh``), and only if one of
the literals is a power of two. Then every bit stays, unless the inner product overflows or underflows; that
of a value stays always.
"""

from __future__ import annotations

import numpy as np

from ..combinations import by_combination, flatnonzero
from ..draft import Draft
from ..families import F64
from ..instruction import NONE, copied, opcode
from ..liveness import steady


def multiply_literals(draft: Draft, code: np.ndarray) -> np.ndarray:
    """Multiply literals that are factors one after the other."""
    if draft.builder.exact:
        return code
    products = _Products(draft, code)
    if products.known.any():
        products.multiplied()
    return products.code


class _Products:
    """Products of a literal with something else; a negation is one with -1.

    Attributes
    ----------
    code
        The instructions; those that are rewritten are in a copy of it.
    known
        Which of them are such products.
    number, other, active
        Of each of these the literal, the other factor, and whether that takes an adjoint.
    """

    def __init__(self, draft: Draft, code: np.ndarray):
        self.draft, self.code = draft, code
        self._literals: dict[float, int] = {}
        ops, fields = draft.ops, draft.fields(code)
        self.known = np.zeros(len(code), bool)
        self.number = np.full(len(code), -1.0)
        self.other, self.active = fields.a.copy(), fields.active & 1
        self.known[fields.of(ops.with_signs((-1,)))] = True
        rows = fields.of(ops.with_trait("factors"))
        rows = rows[fields.b[rows] != NONE]
        numbers = draft.literal_numbers()
        a, b = (numbers.take(draft.group.take(each[rows])) for each in (fields.a, fields.b))
        in_a, in_b = (np.isfinite(each) & (each != 0.0) for each in (a, b))
        self.known[rows] = in_a ^ in_b
        self.number[rows] = np.where(in_a, a, b)
        rows = rows[in_a]  # the second operand is the other factor
        self.other[rows], self.active[rows] = fields.b[rows], fields.active[rows] >> 1 & 1
        self.known &= fields.op & 1 == F64

    def multiplied(self) -> None:
        """Multiply the literals of products of derivatives with those of the products that they read."""
        ops = self.draft.ops
        rows = flatnonzero(self.known & ops.is_any(ops.with_trait("zero_wins"), self.code["op"]))
        rows, inner = self._makers(rows, self.other[rows])
        if not len(rows):
            return
        number = self.number[rows] * self.number[inner]
        powers = [np.abs(np.frexp(self.number[each])[0]) == 0.5 for each in (rows, inner)]
        fit = (powers[0] | powers[1]) & np.isfinite(number) & (number != 0.0)
        fit &= self._alike(self.other[rows], self.other[inner])
        if fit.any():
            fit &= steady(self.draft, self.code)[rows]
        rows, inner = rows[fit], inner[fit]
        self.number[rows], self.other[rows] = number[fit], self.other[inner]
        self.active[rows] &= self.active[inner]
        if len(rows):
            self._write(rows)

    def _makers(self, rows: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return those of some rows that read a product with a literal, and the product's instruction.

        What it multiplies has the same cells at both instructions, because nothing else writes there.
        """
        uses, group = self.draft.uses(self.code), self.draft.group
        makers = uses.last_write[group[values]]
        fit = (makers >= 0) & self.known[makers]
        rows, makers, values = rows[fit], makers[fit], values[fit]
        if not len(rows):
            return rows, makers
        fit = (self.code["out"][makers] == values) & (self.code["stage"][makers] == self.code["stage"][rows])
        fit &= (uses.writes[group[values]] <= 1) & (uses.writes[group[self.other[makers]]] <= 1)
        return rows[fit], makers[fit]

    def _alike(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        layouts, layout = self.draft.layouts, self.draft.layout
        return by_combination(lambda a, b: layouts[a].dims == layouts[b].dims, layout[x], layout[y])

    def _write(self, rows: np.ndarray) -> None:
        """Let instructions be what is known of them."""
        code, number = copied(self.code), self.draft.ops.number
        factor, other, active = self.number[rows], self.other[rows], self.active[rows]
        alone = np.abs(factor) == 1.0
        names = np.where(alone, np.where(factor > 0.0, number["copy"], number["neg"]), number["mul"])
        code["op"][rows] = opcode(names, F64)
        code["a"][rows] = np.where(alone, other, 0)
        code["a"][rows[~alone]] = [self._literal(each) for each in factor[~alone].tolist()]
        code["b"][rows] = np.where(alone, NONE, other)
        code["active"][rows] = np.where(alone, active, active << 1)
        self.code = code

    def _literal(self, number: float) -> int:
        value = self._literals.get(number)
        if value is None:
            value = self._literals[number] = self.draft.literal(np.array(number))
        return value
