"""Instructions on small arrays that a loop in Python repeats become one on the arrays of all turns.

``np.exp(-0.5 * (y[t] - mu)**2)`` in each turn of a loop over ``t`` is four instructions a turn on arrays of a
few entries, and none of them needs the turn before. One instruction on a stack of these arrays takes hardly
longer than one of the turns did. A product ``x[t] @ w`` in each turn is one product of matrices.

Instructions are alike if they have the same op and layouts, and each of their operands is the same in all of
them, or a row of one array (the next row in each turn), or a literal, or a result of other instructions that
are alike. What depends on the turn before is like nothing else, because the instructions that lead to it are
more in each turn. (`numbatape.tape.passes.reroll` does this for instructions on single cells.)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..combinations import flatnonzero
from ..draft import Draft
from ..families import F64, POOLS
from ..instruction import GUARD, MAIN, NONE, Instruction, chosen, columns, joined, swapped
from ..liveness import steady

LEAST = 24  # instructions that are alike
WIDEST = 64  # cells of a result: instructions on more of them gain little
DEEPEST = 12  # instructions on small arrays that one may depend on in a row
LOOKED_AT = 512  # instructions, after which the search ends if hardly any of them are alike
HARDLY_ANY = 16  # fewer than one in so many

# What an operand is: a result of another family, a cell, a number, or a part of a literal array or of any
# other array.
MEMBER, CELL, LITERAL, DATA, VIEW = range(5)


class Family:
    """Instructions that are alike.

    Attributes
    ----------
    number
        Its number among the families.
    rows
        Numbers of the instructions.
    parts
        What their operands are.
    columns
        For each instruction: what each operand is there (a place in a family, a number, an offset; a group
        and an offset of a literal array).
    size
        The cells of a result.
    whole
        The value of all results, when they have been stacked.
    """

    def __init__(self, number: int, parts: tuple, size: int):
        self.number, self.parts, self.size = number, parts, size
        self.rows: list[int] = []
        self.columns: list[tuple] = []
        self.whole: int | None = None


def stack(draft: Draft, code: np.ndarray) -> np.ndarray:
    """Replace families of instructions by one instruction each."""
    if draft.builder.exact or np.count_nonzero(draft.is_array(code["out"])) < LEAST:
        return code
    search = _Search(draft, code)
    rows = search.chosen()
    if len(rows) < LEAST:
        return code
    made: list[tuple[int, Instruction]] = []
    gone = np.zeros(len(code), bool)
    for family in search.families(rows):
        row = search.stacked(family) if len(family.rows) >= LEAST else None
        if row is not None:
            made.append((family.rows[0], row))
            gone[family.rows] = True
    if not made:
        return code
    for family in search.found:
        if family.whole is not None:
            draft.join(draft.group[code["out"][family.rows]], family.whole, family.size)
    kept = flatnonzero(~gone)
    places = np.append(kept, [place for place, _ in made])
    rows = joined([chosen(code, kept), columns([row for _, row in made])])
    return rows[np.argsort(places, kind="stable")]


class _Search:
    """Finds families."""

    def __init__(self, draft: Draft, code: np.ndarray):
        self.draft, self.code, self.sizes = draft, code, draft.sizes
        self.uses = draft.uses(code)
        self.literals = draft.literal_numbers()
        self.found: list[Family] = []
        self._storage, self._offset = draft.storage.tolist(), draft.offset.tolist()
        self._layout, self._group = draft.layout.tolist(), draft.group.tolist()
        self._sizes_of: dict[int, int] = {}
        groups = draft.literal_groups()
        arrays = flatnonzero(draft.groups()[0][groups] >= len(POOLS))
        self._data = dict(zip(groups[arrays].tolist(), arrays.tolist(), strict=True))

    def chosen(self) -> np.ndarray:
        """Return the instructions that may be in a family."""
        draft, code, uses = self.draft, self.code, self.uses
        ops = draft.ops
        kinds = ops.with_trait("elementwise") - ops.with_trait("casts") | ops.with_trait("product")
        fit = ops.is_any(kinds, code["op"]) & (code["op"] != GUARD) & (code["op"] & 1 == F64)
        fit &= (code["stage"] == MAIN) & (code["aux"] == NONE) & draft.is_array(code["out"])
        fit &= (uses.writes[uses.out] == 1) & ~draft.fixed(uses)[uses.out] & steady(draft, code)
        rows = flatnonzero(fit)
        rows = rows[draft.covers(code["out"][rows])]
        homes = draft.storage[code["out"][rows]]
        cells = [self._number(size) for size in draft.storage_columns()[0][homes].tolist()]
        return rows[[0 < count <= WIDEST for count in cells]]

    def _number(self, code: int) -> int:
        """Return the number that a size code always stands for, or -1."""
        found = self._sizes_of.get(code)
        if found is None:
            settled = self.sizes.settled(code)
            known = self.sizes.is_number(settled)
            found = self._sizes_of[code] = self.sizes.value(settled) if known else -1
        return found

    def families(self, rows: np.ndarray) -> list[Family]:
        """Return the families, each behind those that its operands are from."""
        code, known = chosen(self.code, rows), dict[tuple, Family]()
        members: dict[int, tuple[Family, int, int]] = {}  # for each group: family, place in it, depth
        deep: set[int] = set()
        levels = self.draft.storage_columns()[2].tolist()
        fields = (code[name].tolist() for name in ("op", "active", "out", "a", "b", "c"))
        for count, (row, op, active, out, *operands) in enumerate(zip(rows.tolist(), *fields, strict=True)):
            if count == LOOKED_AT and HARDLY_ANY * (len(members) - len(known)) < count:
                break
            group, depth, parts, column = self._group[out], 0, [], []
            for x in operands:
                if x == NONE:
                    continue
                its = self._group[x]
                if its in deep:
                    depth = DEEPEST + 1
                    break
                home, layout = self._storage[x], self._layout[x]
                member = members.get(its)
                if member is not None:
                    source, place, below = member
                    depth = max(depth, below + 1)
                    parts.append((MEMBER, source.number, layout, self._offset[x]))
                    column.append(place)
                elif its in self._data:
                    parts.append((DATA, self.draft.storages[home][0], layout))
                    column.append((its, self._offset[x]))
                elif home >= len(POOLS):
                    parts.append((VIEW, its, layout))
                    column.append(self._offset[x])
                elif self.literals[its] == self.literals[its]:
                    parts.append((LITERAL,))
                    column.append(self.literals[its])
                else:
                    parts.append((CELL, its))
                    column.append(0)
            if depth > DEEPEST:
                deep.add(group)
                continue
            home = self._storage[out]
            key = (op, active, self._layout[out], levels[home], *parts)
            family = known.get(key)
            if family is None:
                size = self._number(self.draft.storages[home][0])
                family = known[key] = Family(len(self.found), tuple(parts), size)
                self.found.append(family)
            members[group] = family, len(family.rows), depth
            family.rows.append(row)
            family.columns.append(tuple(column))
        return self.found

    # ---- one family

    def stacked(self, family: Family) -> Instruction | None:
        """Return the instruction that replaces a family, or None if its operands are not rows of an array."""
        draft, row = self.draft, self.code[family.rows[0]]
        op, active, out, line = (int(row[name]) for name in ("op", "active", "out", "line"))
        values = [int(row[name]) for name in "abc"][: len(family.parts)]
        steps = []
        for part, x, column in zip(family.parts, values, zip(*family.columns, strict=True), strict=True):
            step = self._step(part, x, column, family)
            if step is None:
                return None
            steps.append(step)
        its = draft.layout_of(out)
        dims, is_product = tuple(map(self._settled, its.dims)), draft.ops[op >> 1].product
        moving = [k for k, step in enumerate(steps) if step]
        if is_product and (len(moving) != 1 or dims[moving[0]] != 1 or family.parts[moving[0]][0] == LITERAL):
            return None
        count, size = len(family.rows), family.size
        family.whole = draft.array((count * size,), F64, draft.kind_of(out)[1])
        result = draft.view(family.whole, 0, (count, *dims), (size, *its.strides))
        if is_product:
            # The vectors of the turns, which are rows or columns, are the rows of a matrix.
            (side,) = moving
            rows = self._dropped(self._in_all(family, side, values[side], steps[side], 2), 1 + side)
            other = self._shared(family, 1 - side, values[1 - side])
            result = self._dropped(result, 1 + side)
            operands = [rows, self._transposed(other) if side == 1 else other]
            active = active if side == 0 else swapped(active)
        else:
            pairs = enumerate(zip(values, steps, strict=True))
            operands = [self._in_all(family, k, x, step, len(dims)) for k, (x, step) in pairs]
        unused = (NONE,) * (3 - len(operands))
        return Instruction(op, active, MAIN, result, *operands, *unused, NONE, line)

    def _settled(self, code: int) -> int:
        number = self._number(code)
        return code if number < 0 else number

    def _step(self, part: tuple, x: int, column: Sequence, family: Family) -> int | None:
        """Return what lies between an operand and that of the next instruction; None if that differs."""
        kind = part[0]
        if kind == MEMBER:
            if self.found[part[1]].whole is None and len({*column}) > 1:
                return None
        elif not self.uses.settled(np.array([self._group[x]]), np.array([family.rows[0]]))[0]:
            return None
        if kind == LITERAL:  # zeros with different signs are different numbers
            bits = np.array(column).view(np.int64)
            return int((bits != bits[0]).any())
        if kind == DATA:
            offsets = [offset for _, offset in column]
            if len({group for group, _ in column}) == 1:
                column = offsets
            else:
                whole = all(self._whole(group, part[1]) for group, _ in column)
                return part[1] if whole and len({*offsets}) == 1 else None
        step = column[1] - column[0]
        if any(step != b - a for a, b in zip(column, column[1:], strict=False)):
            return None
        if step and kind in (DATA, VIEW) and min(column) < 0:
            return None  # the offset is a symbolic size
        return step if kind != MEMBER or step in (0, 1) else None

    def _whole(self, group: int, size: int) -> bool:
        """Whether a literal is all of its storage."""
        literal = self.draft.literals[self._data[group]]
        return literal.offset == 0 and literal.data.size == size

    def _shared(self, family: Family, k: int, x: int) -> int:
        """Return an operand that is the same in all instructions."""
        part = family.parts[k]
        stacked = part[0] == MEMBER and self.found[part[1]].whole is not None
        return self._at(part, family.columns[0][k]) if stacked else x

    def _at(self, part: tuple, place: int) -> int:
        """Return a value of a member of a family, in the stack."""
        source, layout = self.found[part[1]], self.draft.layouts[part[2]]
        assert source.whole is not None
        offset = self.sizes.add(part[3], place * source.size)
        return self.draft.view(source.whole, offset, layout.dims, layout.strides)

    def _in_all(self, family: Family, k: int, x: int, step: int, rank: int) -> int:
        """Return an operand of all instructions, with a first axis for them if it differs between them.

        ``rank`` is the number of dimensions of a result.
        """
        draft, part, count = self.draft, family.parts[k], len(family.rows)
        if not step:
            return self._shared(family, k, x)
        if part[0] == LITERAL:
            value = draft.literal(np.array([column[k] for column in family.columns]))
            return draft.view(value, 0, (count, *[1] * rank), (1, *[0] * rank))
        if part[0] == MEMBER:
            x, step = self._at(part, family.columns[0][k]), self.found[part[1]].size
        layout, offset = draft.layout_of(x), draft.address(x)[1]
        groups = [column[k][0] for column in family.columns] if part[0] == DATA else []
        if len({*groups}) > 1:
            rows = [draft.literals[self._data[group]].data for group in groups]
            x = draft.literal(np.concatenate(rows))
        missing = rank - len(layout.dims)
        step = step if step > 0 else self.sizes.sub(0, -step)  # numbers below zero are codes
        dims, strides = (count, *[1] * missing, *layout.dims), (step, *[0] * missing, *layout.strides)
        return draft.view(x, offset, dims, strides)

    def _transposed(self, value: int) -> int:
        """Return the transpose of a matrix."""
        its, offset = self.draft.layout_of(value), self.draft.address(value)[1]
        return self.draft.view(value, offset, its.dims[::-1], its.strides[::-1])

    def _dropped(self, value: int, axis: int) -> int:
        """Return a view without an axis of size 1."""
        layout, offset = self.draft.layout_of(value), self.draft.address(value)[1]
        dims, strides = list(layout.dims), list(layout.strides)
        del dims[axis], strides[axis]
        return self.draft.view(value, offset, dims, strides)
