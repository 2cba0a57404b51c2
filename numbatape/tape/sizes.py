"""`Sizes`: size expressions of a tape under construction, and what is known about them.

They become the rows of a `SizeTable` (`numbatape.tape.size_tables`, which says what the codes mean).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from .size_tables import ADD, APPLY, FLOORDIV, INPUT, MUL, SUB, SizeGuard, SizeTable

FEW = 128  # cells that an instruction takes hardly longer for than for one


class Sizes:
    """The builder of a `SizeTable`: interns expressions and knows their value while tracing."""

    def __init__(self):
        self.here: Callable[[], int] | None = None  # returns the index of the user's line while one runs
        self.rows: list[tuple[int, int, int]] = []
        self.values: list[int] = []
        self.guards: dict[tuple, SizeGuard] = {}
        self._numbers: dict[int, int] = {}  # code -> what a guard says it is: a number, or an earlier code
        self._settled: dict[int, int] = {}  # what `settled` returns, as long as no guard is added to these
        self._reach: dict[int, int] = {}  # code -> the largest lower bound that is guarded
        self._index: dict[tuple[int, int, int], int] = {}

    @classmethod
    def resume(cls, table: SizeTable, moved: list[int], dimensions: list[int]) -> Sizes:
        """Return a builder that goes on from a table whose input dimension k is now ``moved[k]``."""
        sizes = cls()
        sizes.rows = [
            (op, moved[left], 0) if op == INPUT else (op, left, right) for op, left, right in table.rows
        ]
        sizes.values = SizeTable(tuple(sizes.rows), ()).evaluate(tuple(dimensions))
        sizes._index = {row: -k - 1 for k, row in enumerate(sizes.rows)}
        sizes.guards = {(g.left, g.relation, g.right): g for g in table.guards}
        for key in sizes.guards:
            sizes._note_number(*key)
        return sizes

    def input(self, number: int, value: int) -> int:
        return self._row((INPUT, number, 0), value)

    def _row(self, row, value) -> int:
        code = self._index.get(row)
        if code is None:
            self.rows.append(row)
            self.values.append(value)
            code = self._index[row] = -len(self.rows)
        return code

    def value(self, code: int) -> int:
        return code if code >= 0 else self.values[-code - 1]

    def _combine(self, operation, left, right) -> int:
        result = APPLY[operation](self.value(left), self.value(right))
        if left >= 0 and right >= 0 and result >= 0:
            return result
        return self._row((operation, left, right), result)

    def add(self, left: int, right: int) -> int:
        if right >= 0 or left >= 0:
            return self._shifted(left, right) if right >= 0 else self._shifted(right, left)
        for code, other in ((right, left), (left, right)):
            operation, factor, by = self.rows[-code - 1]
            if operation == MUL and by == self._index.get((SUB, 0, 1)):
                return self.sub(other, factor)  # what a negative stride reaches back from an axis' end
        return self._combine(ADD, left, right)

    def sub(self, left: int, right: int) -> int:
        if right >= 0:
            return self._shifted(left, -right)
        (base, by), (other, less) = self._apart(left), self._apart(right)
        if base == other:
            return self.negative(by - less)
        if base < 0:
            operation, *terms = self.rows[-base - 1]
            if operation == ADD and other in terms:  # ``x[k : k + n]`` has n entries
                terms.remove(other)
                return self._shifted(terms[0], by - less)
        return self._combine(SUB, left, right)

    def _apart(self, code: int) -> tuple[int, int]:
        """Return a code as another one, without a number added to it, and that number."""
        if code < 0:
            operation, left, right = self.rows[-code - 1]
            if operation in (ADD, SUB) and left < 0 <= right:
                return left, right if operation == ADD else -right
        return code, 0

    def _shifted(self, code: int, by: int) -> int:
        """Return a code plus a number; ``(n + 1) - 1`` is the code n again."""
        if code >= 0 and code + by >= 0:
            return code + by
        base, more = self._apart(code)
        by += more
        if by == 0:
            return base
        return self._combine(ADD, base, by) if by > 0 else self._combine(SUB, base, -by)

    def mul(self, left: int, right: int) -> int:
        """Return the product; equal products have equal codes, however they were put together."""
        if left == 1 or right == 1:
            return left if right == 1 else right
        if left == 0 or right == 0:
            return 0
        if left >= 0 and right >= 0:
            return left * right
        literal, symbols = 1, []
        for code in (*self._factors(left), *self._factors(right)):
            if self.is_number(code):
                literal *= self.value(code)  # two negative strides cancel: ``x[::-1][::-1]``
            else:
                symbols.append(code)
        if not symbols:
            return self.negative(literal)
        symbols.sort(reverse=True)
        result = symbols[0]
        for code in symbols[1:]:
            result = self._combine(MUL, result, code)
        return result if literal == 1 else self._combine(MUL, result, self.negative(literal))

    def multiples(self, size: int, codes: list[int]) -> list[int]:
        """Return the products of many codes with one, which are those of `mul`."""
        if self.is_number(size) or self.rows[-size - 1][0] == MUL:
            return [self.mul(code, size) for code in codes]
        value = self.value(size)
        return [
            self._row((MUL, size, code), value * code) if code > 1 else self.mul(code, size) for code in codes
        ]

    def _factors(self, code: int) -> list[int]:
        if code >= 0 or self.rows[-code - 1][0] != MUL:
            return [code]
        _, left, right = self.rows[-code - 1]
        return [*self._factors(left), *self._factors(right)]

    def floordiv(self, left: int, right: int) -> int:
        return left if right == 1 else self._combine(FLOORDIV, left, right)

    def rounded(self, operation: int, code: int, by: int) -> int:
        """Return a size by one of the rounded operations, of a code that is guarded not to be negative.

        Parameters
        ----------
        by
            A factor as a fraction in one number, or a divisor, or 0 for a square root.
        """
        return self._combine(operation, code, by)

    def again(self, operation: int, left: int, right: int) -> int:
        """Return the code for a row of another table whose operands have these codes here."""
        simplified = {ADD: self.add, SUB: self.sub, MUL: self.mul, FLOORDIV: self.floordiv}.get(operation)
        return simplified(left, right) if simplified else self.rounded(operation, left, right)

    def quotient(self, left: int, right: int) -> int:
        """Return ``left // right`` for a divisor that is guarded not to be zero; common factors cancel."""
        above, below = self._factors(left), []
        for factor in self._factors(right):
            if factor in above:
                above.remove(factor)
                continue
            literal = next((n for n in above if n >= 0 and factor > 0 and n % factor == 0), None)
            if literal is None:
                below.append(factor)
            else:
                above[above.index(literal)] = literal // factor
        return self.floordiv(self.product(above), self.product(below))

    def product(self, codes) -> int:
        result = 1
        for code in codes:
            result = self.mul(result, code)
        return result

    def negative(self, value: int) -> int:
        """Return the code of a literal that may be negative (a stride)."""
        return value if value >= 0 else self._row((SUB, 0, -value), value)

    def is_number(self, code: int) -> bool:
        """Whether a code stands for one value, whatever the arguments' dimensions are."""
        return code >= 0 or (self.rows[-code - 1][:2] == (SUB, 0) and self.rows[-code - 1][2] >= 0)

    def guard(self, left: int, relation: str, right: int, line: int = -1) -> None:
        """Record that the trace relied on a relation (which holds now)."""
        if left == right or (self.is_number(left) and self.is_number(right)):
            return
        if relation == "==" and right < 0 <= left:
            left, right = right, left
        (base, by), (other, _) = self._apart(left), self._apart(right)
        if base == other:
            return  # the relation holds for all sizes
        if left < 0 <= right:  # n - 2 >= 3 says of n that it is 5 at least, and n - 2 == 3 that it is 5
            left, number = base, right - by
            is_input = self.rows[-left - 1][0] == INPUT
            if relation == ">=" and (number >= 0 or is_input):
                # If x[0], x[1], ... of one axis are read, only the farthest entry needs a guard. A dimension
                # of an argument is never negative, but a difference of sizes may be negative for other sizes.
                if number > self._reach.get(left, 0 if is_input else -1):
                    self._reach[left] = number
                return
            right = self.negative(number)
        if (left, relation, right) not in self.guards:
            line = self.here() if line < 0 and self.here is not None else line
            self.guards[(left, relation, right)] = SizeGuard(left, relation, right, line)
            self._note_number(left, relation, right)

    def _note_number(self, left: int, relation: str, right: int) -> None:
        if relation == "==":
            code, known = min(left, right), max(left, right)
            if known >= 0 or code not in self._numbers:
                self._numbers[code] = known
            self._settled.clear()

    def settled(self, code: int) -> int:
        """Return the number that guards allow a size alone; the code itself where they allow several."""
        if code >= 0 or code in self._settled:
            return self._settled.get(code, code)
        # Recursion would be too deep for a size that a loop of thousands of turns has put together. Operands
        # have rows before what is made of them: codes in descending order come after their operands.
        for each in sorted(self._unsettled(code), reverse=True):
            self._settled[each] = self._number(each)
        return self._settled[code]

    def agree(self, left: int, right: int) -> bool:
        """Whether two sizes are equal for all arguments that guards allow.

        The products of matrices whose inner sizes are two inputs' are the reason: each size has a code of its
        own, and a result whose rows are as long as the one and as far apart as the other is dense.
        """
        return left == right or self._alike(left) == self._alike(right)

    def all_agree(self, left: Sequence[int], right: Sequence[int]) -> bool:
        """Whether sizes, one after another, are equal for all arguments that guards allow."""
        return left == right or (len(left) == len(right) and all(map(self.agree, left, right)))

    def _alike(self, code: int) -> list[int]:
        """Return the factors of a size, of which each is a number or the first code that guards say it is."""
        number, codes = 1, []
        for factor in self._factors(code):
            its = self.settled(factor)
            while its in self._numbers:
                its = self._numbers[its]
            if its >= 0:
                number *= its
            else:
                codes.append(its)
        return [number, *sorted(codes)] if number else [0]

    def count_few(self, dims) -> int:
        """Return how many entries dimensions have for all sizes that guards allow, or FEW + 1 for more."""
        numbers = [*map(self.settled, dims)]
        return FEW + 1 if min(numbers, default=0) < 0 else min(math.prod(numbers), FEW + 1)

    def _unsettled(self, code: int) -> set[int]:
        """Return the codes that a code is made of, itself too, as far as they have not been settled."""
        found, rest = {code}, [code]
        while rest:
            its = rest.pop()
            operation, *operands = self.rows[-its - 1]
            others = {self._numbers.get(its, 0), *(operands if operation != INPUT else ())}
            new = {x for x in others if x < 0 and x not in found and x not in self._settled}
            found |= new
            rest += new
        return found

    def _number(self, code: int) -> int:
        """Return the number of a code whose operands are settled; the code itself where it has none."""
        known = self._numbers.get(code, code)
        if known != code:
            known = known if known >= 0 else self._settled[known]
            if known >= 0:
                return known
        operation, left, right = self.rows[-code - 1]
        if operation == INPUT:
            return code
        left, right = (x if x >= 0 else self._settled[x] for x in (left, right))
        if left < 0 or right < 0 or (operation == FLOORDIV and right == 0):
            return code
        number = APPLY[operation](left, right)
        # A negative number cannot stand for itself, because it would be another code.
        return number if number >= 0 else code

    def excludes(self, left: int, relation: str, right: int) -> bool:
        """Whether the guards so far are known to rule out a relation."""
        settled = self.settled(left), self.settled(right)
        if min(settled) >= 0:
            return not SizeGuard(settled[0], relation, settled[1]).holds(*settled)
        if left < 0 and right < 0:
            contrary = {"==": "!=", "!=": "=="}.get(relation)
            return (left, contrary, right) in self.guards or (right, contrary, left) in self.guards
        symbol, by = self._apart(min(left, right))
        number = max(left, right) - by
        least, most, others = self._bounds(symbol)
        if relation == ">=":
            return most < number if left < 0 else least > number
        return relation == "==" and (number < least or number > most or number in others)

    def _bounds(self, symbol: int) -> tuple[float, float, set[int]]:
        """Return the least and the largest number that guards allow a size, and those that they exclude."""
        least, most, others = -math.inf, math.inf, set()
        for left, relation, right in self.guards:
            if relation == ">=" and left == symbol and right >= 0:
                least = max(least, right)
            elif relation == ">=" and right == symbol and left >= 0:
                most = min(most, left)
            elif relation == "!=" and left == symbol and right >= 0:
                others.add(right)
        return least, most, others

    def pin(self, code: int, line: int = -1) -> int:
        """Return the value behind a code, guarded: the trace holds for this size alone."""
        if code < 0:
            self.guard(code, "==", self.negative(self.values[-code - 1]), line)
            return self.values[-code - 1]
        return code

    def same(self, left: int, right: int, line: int = -1) -> int:
        """Return the code of two sizes that are equal here and must stay so."""
        self.guard(left, "==", right, line)
        return left if left >= 0 else right

    def freeze(self) -> SizeTable:
        reached = (SizeGuard(code, ">=", least) for code, least in self._reach.items())
        return SizeTable(tuple(self.rows), (*self.guards.values(), *reached))
