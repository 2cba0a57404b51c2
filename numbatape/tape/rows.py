"""What a tape knows of ops: `Traits` of a row of the op table, and `Rows`, the table that a builder is given.

Passes rewrite instructions by what their ops are (a sum of operands, a product), never by what they are
called. The op table is made above this layer (`numbatape.ops`); its rows have these traits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ..savings import frozen
from .instruction import GUARD


@frozen(eq=False, kw_only=True)
class Traits:
    """What passes and sweeps decide by. In formulas, ``x, y, w`` are the operands and ``z`` is the result.

    Attributes
    ----------
    elementwise
        Each cell of ``z`` is computed from one cell of each operand, by one formula.
    pointwise
        The same, of an array op.
    exact
        Whether IEEE 754 leaves no choice of result (a float32 result rounded from float64 is the same).
    loop
        Name of the ufunc (``numpy.exp`` is "exp", ``scipy.special.psi`` is "sc.psi") whose inner loop runs
        long instructions, or None for the formula itself.
    jumps
        ``z`` may change by a whole step when the last bit of an operand changes, as that of a comparison
        does.
    signs
        ``z`` is the sum of the operands with these signs: ``(1, -1)`` of a subtraction.
    factors
        ``z`` is the product of these operands: "xy", or "xx" of a square.
    quotient
        ``z`` is the first operand divided by the second.
    by_reciprocal
        Of a quotient: the op that computes it with the divisor's reciprocal as a third operand.
    chooses
        ``z`` is the second operand where the first is true, and the third elsewhere.
    compares
        ``z`` tells whether the two operands stand in this relation: "<", "<=", "==", "!=", ">=" or ">".
    logic
        ``z`` is what this makes of the operands' truth values: "not", "and", "or" or "xor".
    magnitude
        ``z`` is the absolute value of the operand.
    floored
        What ``z`` is of a division whose quotient is rounded down: "quotient" or "remainder".
    counts_up
        ``z`` is the numbers from the operand on, along an axis.
    triangle
        ``z`` is the first operand in the entries whose column, less their row, stands in this relation ("<="
        or ">=") to the second operand, and zero in all others.
    zero_wins
        Operands of a product that make it zero when they are, whatever the other factor is.
    added, taken, taken_from
        Of a product: the ops that add it to a number, that take it from one, and that take one from it.
    summed, summed_apart
        Of a product: the ops that sum such products along an axis, and that sum the products of each entry of
        one matrix with each of another.
    of_gaps
        Of a sum of products: the op that computes the sum of squares of a difference from its two terms.
    totals
        ``z`` is the sum of the operand, the only one, along its core axis.
    takes_numbers
        The pullback takes a number for a cotangent that is the same everywhere.
    repeats
        ``z`` is the one cell of the operand, many times.
    product
        ``z`` is the product of two matrices: lanes of one factor may become rows of it, and its work is that
        of the three sizes.
    agrees
        It compares the lanes of its first operand with the second, for the guard that follows.
    calls
        It calls a rule of the user's, whose number is the last operand.
    casts
        The operand is in the other family's cells.
    moves
        Each cell of ``z`` is a cell of an operand, as it is.
    overwrites
        ``z`` is the first operand but for some cells, and its kernels know that both may have the same cells.
    narrows
        An instruction of a derivative is computed without an axis along which none of its operands changes.
    reads_narrow
        An operand that does not change along an axis may be broadcast along it, which costs no time and
        changes no bit. Ops with the trait ``narrows`` have this one, too.
    fallible
        Whether it may fail. Such an instruction stays on a tape where nothing reads its result: whether it
        fails decides what the function does.
    index
        Operands that hold positions, of "abc": float64 cells whatever the op's dtype, never an adjoint.
        Nothing writes to their storage after they were read.
    integers
        How far whole numbers in ``z`` may be from zero: "position" (they count, or are places), "within" (no
        farther than those of the operands), "mirror" (as far, on the other side), "divisor" (no farther than
        the second operand), or, of arithmetic, what they are: "sum", "product", "power", "sum at"
        (positions). Empty where nobody asks.
    rows_at_once
        The longest rows of which its kernel takes several at once, if these lie at equal distances; 0 if it
        takes one row at a time, or parts of one.
    keeps
        The forward sweep keeps something that the reverse sweep reads. (A derivative on a tape has to compute
        it again.)
    wide
        The result is float64 whatever the operands are. Its kernel may pass on its own cells as such of
        float64, so the verifier refuses the instruction for float32 cells.
    """

    elementwise: bool = False
    pointwise: bool = False
    exact: bool = False
    loop: str | None = None
    signs: tuple[int, ...] = ()
    factors: str = ""
    quotient: bool = False
    by_reciprocal: str = ""
    chooses: bool = False
    compares: str = ""
    logic: str = ""
    magnitude: bool = False
    floored: str = ""
    counts_up: bool = False
    triangle: str = ""
    zero_wins: str = ""
    added: str = ""
    taken: str = ""
    taken_from: str = ""
    summed: str = ""
    summed_apart: str = ""
    of_gaps: str = ""
    totals: bool = False
    takes_numbers: bool = False
    repeats: bool = False
    product: bool = False
    agrees: bool = False
    calls: bool = False
    casts: bool = False
    moves: bool = False
    overwrites: bool = False
    narrows: bool = False
    reads_narrow: bool = False
    fallible: bool = False
    index: str = ""
    integers: str = ""
    rows_at_once: int = 0
    keeps: bool = False
    wide: bool = False

    @property
    def jumps(self) -> bool:
        raise NotImplementedError  # each kind of row states this in its own way


class Signature(NamedTuple):
    """What identifies an op in a file.

    Its number in the table cannot, because that may differ in another version of numbatape.

    Attributes
    ----------
    name
        What it is called.
    arity
        How many operands it has.
    version
        A hash of what it computes.
    """

    name: str
    arity: int
    version: str


class Rows(Sequence):
    """The op table: rows by number, which have a ``name``, an ``arity`` and `Traits`.

    Parameters
    ----------
    rows
        The rows in order.
    version_of
        Returns a hash of what an op computes.

    Attributes
    ----------
    names
        Names by row.
    number
        Rows by name, for passes that emit instructions.
    fallible
        The rows that may fail.
    """

    def __init__(self, rows, version_of: Callable):
        self._rows, self._version_of = tuple(rows), version_of
        self.names = tuple(row.name for row in self._rows)
        self.number = {name: k for k, name in enumerate(self.names)}
        self.with_trait, self.signature = cache(self._with_trait), cache(self._signature)
        self.with_signs = cache(self._with_signs)
        self._table = cache(_table)
        self.fallible = self.with_trait("fallible")

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, row) -> Any:
        return self._rows[row]

    def is_any(self, rows: Iterable[int], opcodes: np.ndarray) -> np.ndarray:
        """Return which opcodes of instructions are those of some rows; a guard's is of none."""
        return self._table(frozenset(rows)).take(opcodes)

    def _signature(self, row: int) -> Signature:
        op = self._rows[row]
        return Signature(op.name, op.arity, self._version_of(op))

    def _with_signs(self, signs: tuple[int, ...]) -> frozenset[int]:
        return frozenset(k for k, row in enumerate(self._rows) if row.signs == signs)

    def _with_trait(self, trait: str) -> frozenset[int]:
        return frozenset(k for k, row in enumerate(self._rows) if getattr(row, trait))


def _table(rows: frozenset[int]) -> np.ndarray:
    """Return for each opcode whether it names one of some rows."""
    table = np.zeros(GUARD + 1, bool)
    for row in rows:
        table[2 * row : 2 * row + 2] = True  # a row has one opcode for each family
    return table
