"""Fusing two instructions into one: a product that only a sum reads need not be written and read again.

``sum(x*y)`` becomes one ``dot``, or a product of two sums if x and y are the factors of an outer product;
``sum((x-y)**2, axis=-1)`` becomes one ``distance2``;
``a + x*y`` becomes one ``addmul`` (a third of the instructions of an autoregression), and so does
``a - 0.5*y``; ``a - x*y`` and ``x*y - a`` of numbers become one ``submul`` and one ``mulsub``, those of
arrays where the tape is swept forward alone; ``a + -b`` becomes a subtraction. This is done when the tape is
frozen, because only then it is known what else reads the product. Every result but sums of outer products
keeps its bits (a dot adds up in blocks as a sum does); the reverse sweep does not store that adjoint.
"""

from __future__ import annotations

import numpy as np

from ...late import imported
from ..combinations import by_combination, combinations, flatnonzero
from ..draft import Draft
from ..draft_values import SCALAR_LAYOUT
from ..instruction import NONE, chosen, copied, opcode, without
from ..tape import Layout

# The signs of an op, what it becomes where an operand is a negation, and which operand that may be, in the
# order that is tried.
NEGATED = (((1, 1), "sub", "ba"), ((1, -1), "add", "b"))

NEAR = 8  # A product and the sum that reads it mostly stand so near to each other.


def fuse(draft: Draft, code: np.ndarray) -> np.ndarray:
    """Turn products and the sums that alone read them into one instruction each."""
    return _Fusion(draft, code).run()


class _Fusion:
    """Fuses instructions; ``code`` is then what is left of them."""

    def __init__(self, draft: Draft, code: np.ndarray):
        self.draft, self.ops, self.code = draft, draft.ops, copied(code)
        self.op = draft.fields(code).op.copy()  # the same as in the instructions, but side by side
        self.group, self.layouts = draft.group, draft.layout
        uses = draft.uses(code)
        # Groups that are written once, read once, and neither input nor output.
        self.single = (uses.reads == 1) & (uses.writes == 1) & ~draft.ends()
        self.last = uses.last_write
        self.gone: list[np.ndarray] = []

    def run(self) -> np.ndarray:
        self._negations()
        self._sums()
        self._gaps()
        self._products((1, 1), "added", "added")
        self._subtractions()
        self._products((1, -1), "taken_from", "taken")
        return without(self.code, np.concatenate(self.gone)) if self.gone else self.code

    def _of(self, ops) -> np.ndarray:
        """Return the numbers of the instructions of some ops."""
        return flatnonzero(self.ops.is_any(ops, self.op))

    def _makers(self, rows, values, ops, seen_flat: bool = False, earlier_stages: bool = False) -> np.ndarray:
        """Return the numbers of the rows that make values which only ``rows`` read, one each.

        -1 stands for none: the row must be of an op in ``ops``, and its operands must not be written to in
        between. With ``seen_flat`` a value may be another view of the result of that row, and with
        ``earlier_stages`` it may be computed before the readers' stage.
        """
        code, own = self.code, self.group[values]
        at = np.where(self.single[own], self.last[own], -1)
        at[~self.ops.is_any(ops, self.op[at])] = -1
        found = flatnonzero(at >= 0)
        if len(found):
            makers, readers = chosen(code, at[found]), chosen(code, rows[found])
            wanted = (makers["stage"] == readers["stage"]) | earlier_stages
            wanted &= (makers["op"] ^ readers["op"]) & 1 == 0
            if not seen_flat:
                wanted &= self._are_places(makers["out"], values[found])
            for place in "ab":
                wanted &= ~self._written(self.group[makers[place]], at[found], rows[found])
            at[found[~wanted]] = -1
        return at

    def _are_places(self, results: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Whether values are whole results: views may have sizes that only guards make equal."""
        same = results == values
        for k in flatnonzero(~same).tolist():
            (*place, one), (*other, view) = (self.draft.address(each) for each in (results[k], values[k]))
            same[k] = place == other and self._agree(*(self.draft.layouts[its] for its in (one, view)))
        return same

    def _agree(self, one: Layout, other: Layout) -> bool:
        alike = one.strides == other.strides and len(one.dims) == len(other.dims)
        return alike and all(map(self.draft.sizes.agree, one.dims, other.dims))

    def _written(self, groups, makers, readers) -> np.ndarray:
        """Whether groups may be written to between two instructions.

        What a loop has re-rolled around it writes to a cell of an array in each turn: the last of these
        instructions comes late, but none of them stands between a product and a sum of one turn.
        """
        written = self.last[groups] > makers
        late = flatnonzero(written)
        if len(late):
            groups, makers, readers = groups[late], makers[late], readers[late]
            between = readers - makers > NEAR
            for step in range(1, NEAR):
                inside = makers + step < readers
                row = chosen(self.code, np.minimum(makers + step, readers))
                between |= inside & ((self.group[row["out"]] == groups) | (row["aux"] != NONE))
            written[late] = between
        return written

    def _rewrite(self, rows, name: str, a, b, c, active) -> None:
        code = self.code
        code["op"][rows] = self.op[rows] = opcode(self.ops.number[name], self.op[rows] & 1)
        code["a"][rows], code["b"][rows], code["c"][rows], code["active"][rows] = a, b, c, active

    def _factors(self, at):
        """Return the factors of products, and which of them take an adjoint."""
        a, b, active = (self.code[name][at] for name in ("a", "b", "active"))
        square = b == NONE  # Its only operand is both factors: if it is active (1), both of them are (3).
        return a, np.where(square, a, b), np.where(square, 3 * active, active)

    def _alike(self, *values) -> np.ndarray:
        """Whether all values of a row are single cells, or have one shape and contiguous rows.

        A fused kernel is fast only for these: over operands that broadcast it is slower than two
        instructions.
        """
        return by_combination(self._same_shape, *(self.layouts[each] for each in values))

    def _same_shape(self, *layouts: int) -> bool:
        """Whether all layouts are a cell's, or have one shape with rows in one piece."""
        different = {*layouts}
        if SCALAR_LAYOUT in different:
            return len(different) == 1
        first, *others = (self.draft.layouts[number] for number in different)
        if first.strides[-1] != 1 or any([its.strides[-1] != 1 for its in others]):
            return False
        value = self.draft.sizes.value
        shape = [*map(value, first.dims)]
        return all([[*map(value, its.dims)] == shape for its in others])

    def _negations(self) -> None:
        """Turn additions of a negated value into subtractions, and the other way round."""
        negations = self.ops.with_signs((-1,))
        if not len(self._of(negations)):
            return
        code = self.code
        negated = self.single & self.ops.is_any(negations, self.op.take(self.last))
        both = [(self._of(self.ops.with_signs(signs)), becomes, places) for signs, becomes, places in NEGATED]
        for rows, becomes, places in both:
            for place in places:
                other = "a" if place == "b" else "b"
                at = flatnonzero(negated[self.group[code[place][rows]]])
                if not len(at):
                    continue
                rest, rows = np.delete(rows, at), rows[at]
                # Where only data are negated, this would be done once. But then what reads them would read
                # two arrays in place of one.
                at = self._makers(rows, code[place][rows], negations, earlier_stages=True)
                rest = np.concatenate((rest, rows[at < 0]))
                k, at = rows[at >= 0], at[at >= 0]
                active = code["active"][k]
                takes = active >> "ab".index(other) & 1
                takes |= (active >> "ab".index(place) & code["active"][at] & 1) << 1
                self._rewrite(k, becomes, code[other][k], code["a"][at], NONE, takes)
                self.gone.append(at)
                rows = rest

    def _sums(self) -> None:
        """Turn sums of products into dots."""
        rows = self._of(self.ops.with_trait("totals"))
        if not len(rows):
            return
        makers = self._makers(rows, self.code["a"][rows], self.ops.with_trait("summed"), seen_flat=True)
        rows, makers = rows[makers >= 0], makers[makers >= 0]
        values, products = self.code["a"][rows], self.code["out"][makers]
        a, b, active = self._factors(makers)
        layouts = (self.layouts[each] for each in (values, products, a, b))
        kinds = combinations(self.code["op"][makers], values == products, *layouts)[1]
        columns = (rows, makers, values, products, a, b, active, kinds)
        apart = set()  # the kinds of products whose layouts keep them apart from their sums
        for row in zip(*(each.tolist() for each in columns), strict=True):
            k, at, value, product, a, b, active, kind = row
            if kind in apart:
                continue
            if value != product and not _is_flat(self.draft, value, product):
                continue
            found = self._dot(at, value, product, a, b)
            if found is None:
                apart.add(kind)
                continue
            self._rewrite(k, *found, NONE, active)
            self.gone.append(np.array([at]))

    def _dot(self, at: int, value: int, product: int, a: int, b: int) -> tuple[str, int, int] | None:
        """Return what a product and its sum become together: an op and its operands, which layouts decide."""
        op = self.ops[self.code["op"][at] >> 1]
        if product == value:
            return (op.summed, a, b) if all(_same_length(self.draft, x, value) for x in (a, b)) else None
        if all(_same_cells(self.draft, x, product) for x in (a, b)):  # the sum of all entries of a matrix
            return op.summed, _flat(self.draft, a), _flat(self.draft, b)
        # Few programs have such a sum, so the module is not among those of a first gradient.
        factors = op.summed_apart and imported(".outer", __package__).factors_apart(self.draft, product, a, b)
        return (op.summed_apart, *factors) if factors else None

    def _gaps(self) -> None:
        """Turn sums along an axis of squares of a difference that nothing else reads into one op each."""
        code = self.code
        rows = self._of(self.ops.with_trait("of_gaps"))
        rows = rows[(code["a"][rows] == code["b"][rows]) & (code["op"][rows] & 1 == 0)]
        # For a single vector, strips are as fast.
        rows = rows[self.layouts[code["out"][rows]] != SCALAR_LAYOUT]
        if not len(rows):
            return
        uses = self.draft.uses(without(code, np.concatenate(self.gone)) if self.gone else code)
        single, self.single = self.single, (uses.reads == 2) & (uses.writes == 1) & ~self.draft.ends()
        makers = self._makers(rows, code["a"][rows], self.ops.with_signs((1, -1)))
        self.single = single
        for k, at in zip(rows.tolist(), makers.tolist(), strict=True):
            if at < 0:
                continue
            a, b, value = (int(code[name][at]) for name in ("a", "b", "out"))
            if all(_same_length(self.draft, x, value) and _has_rows(self.draft, x) for x in (a, b)):
                name = self.ops[code["op"][k] >> 1].of_gaps
                self._rewrite(k, name, a, b, NONE, int(code["active"][at]) if code["active"][k] else 0)
                self.gone.append(np.array([at]))

    def _products(self, signs: tuple[int, int], first: str, second: str) -> None:
        """Turn sums of a number and a product into one instruction each, where all operands have one shape.

        Parameters
        ----------
        signs
            Those of the sum.
        first, second
            The traits of products that name what they become as its first operand, and as its second one.
        """
        code, products = self.code, self.ops.with_trait(second)
        rows = self._of(self.ops.with_signs(signs))
        # Those of float32 stay, because the fused instruction would round once, and two instructions round
        # twice. Subtractions of arrays stay where they are swept back, as few programs have any: their
        # kernels would have to be compiled first.
        rows = rows[self.op[rows] & 1 == 0]
        if signs != (1, 1) and not self.draft.forward:
            rows = rows[self.layouts[code["out"][rows]] == SCALAR_LAYOUT]
        made = self.single & self.ops.is_any(products, self.op.take(self.last))
        rows = rows[made[self.group[code["a"][rows]]] | made[self.group[code["b"][rows]]]]
        if not len(rows):
            return
        # Each row is tried twice: the product may be its second operand or its first.
        count, rows = len(rows), np.concatenate((rows, rows))
        behind = np.arange(2 * count) < count
        a, b = code["a"][rows], code["b"][rows]
        product, addend = np.where(behind, b, a), np.where(behind, a, b)
        at = self._makers(rows, product, products)
        found = flatnonzero(at >= 0)
        if not len(found):
            return
        alike = self._alike(code["out"][rows[found]], addend[found], *self._factors(at[found])[:2])
        fit = np.zeros(2 * count, bool)
        fit[found] = alike
        fit[count:] &= ~fit[:count]
        rows, at, addend, behind = rows[fit], at[fit], addend[fit], behind[fit]
        a, b, factors = self._factors(at)
        active = code["active"][rows]
        takes = np.where(behind, active, active >> 1) & 1
        takes |= np.where(np.where(behind, active >> 1, active) & 1, factors << 1, 0)
        for each in products:
            for trait, where in ((first, ~behind), (second, behind)):
                its = flatnonzero((code["op"][at] >> 1 == each) & where)
                if len(its):
                    name = getattr(self.ops[each], trait)
                    self._rewrite(rows[its], name, addend[its], a[its], b[its], takes[its])
        self.gone.append(at)

    def _subtractions(self) -> None:
        """Turn ``a - c*y`` of numbers, where c is a literal, into ``a + (-c)*y``, the same to the bit.

        Arrays stay as they are: a literal times an array is not fused with a sum. So do literal zeros, as the
        product of a weight of zero and an infinite number is zero (`weigh`), but not in ``addmul``.
        """
        code, group = self.code, self.group
        rows = self._of(self.ops.with_signs((1, -1)))
        rows = rows[(self.layouts[code["out"][rows]] == SCALAR_LAYOUT) & (code["op"][rows] & 1 == 0)]
        if not len(rows):
            return
        at = self._makers(rows, code["b"][rows], self.ops.with_trait("added"))
        fit = (at >= 0) & (code["b"][at] != NONE)
        rows, at = rows[fit], at[fit]
        if not len(rows):
            return
        a, b, active = code["a"][at], code["b"][at], code["active"]
        numbers = self.draft.literal_numbers()[group]
        fit = (np.isfinite(numbers[a]) ^ np.isfinite(numbers[b])) & (numbers[a] != 0.0) & (numbers[b] != 0.0)
        rows, at, a, b = rows[fit], at[fit], a[fit], b[fit]
        first = np.isfinite(numbers[a])
        factors = np.where(first, numbers[a], numbers[b])
        literals = {each: self.draft.literal(np.array(-each)) for each in np.unique(factors).tolist()}
        takes = (active[rows] & 1) | (active[at] >> first & active[rows] >> 1 & 1) << 2
        negated = [literals[each] for each in factors.tolist()]
        self._rewrite(rows, "addmul", code["a"][rows], negated, np.where(first, b, a), takes)
        self.gone.append(at)


def _same_length(draft: Draft, factor: int, product: int) -> bool:
    """Whether the last axis of a factor is the product's, and not one that broadcasts to it."""
    mine, its = (draft.layout_of(x).dims[-1:] for x in (factor, product))
    value = draft.sizes.value
    # Equal lengths are equal by a size guard, unless one of them is 1 and was broadcast.
    return bool(mine) and value(mine[0]) == value(its[0]) != 1


def _has_rows(draft: Draft, x: int) -> bool:
    """Whether the entries of each row of a value lie one after another."""
    return draft.layout_of(x).strides[-1] == 1


def _is_flat(draft: Draft, value: int, product: int) -> bool:
    """Whether a value is a vector of all cells of a contiguous product."""
    its = draft.layout_of(product)
    strides, size = draft.builder.contiguous_strides(its.dims)
    return (
        draft.address(value)[:2] == draft.address(product)[:2]
        and its.strides == strides
        and draft.layout_of(value) == Layout((size,), (1,))
    )


def _same_cells(draft: Draft, factor: int, product: int) -> bool:
    """Whether a factor is contiguous, of the product's size in each axis, and broadcast in none."""
    mine, its = (draft.layout_of(x) for x in (factor, product))
    value = draft.sizes.value
    return (
        len(mine.dims) == len(its.dims)
        and mine.strides == draft.builder.contiguous_strides(mine.dims)[0]
        and all(value(a) == value(b) != 1 for a, b in zip(mine.dims, its.dims, strict=True))
    )


def _flat(draft: Draft, factor: int) -> int:
    """Return a contiguous value as one vector."""
    size = draft.builder.contiguous_strides(draft.layout_of(factor).dims)[1]
    return draft.view(factor, draft.address(factor)[1], (size,), (1,))
