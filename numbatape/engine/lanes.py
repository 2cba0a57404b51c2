"""Lanes: a tape that computes many points, or many directions, at once.

`with_lanes` turns a tape into one in which some inputs have one more, leading dimension. What depends on
them has it, too; everything else comes first and can be computed once. The result is an ordinary tape,
planned, verified and swept like any other; a one-cell instruction becomes a vector instruction over the
lanes, an array op gets a batch dimension.

The lanes of a one-cell value are adjacent. An array is stored one lane after the other, so that array ops
find each lane contiguous; but if it is only read and written cell by cell, the lanes of each cell are
adjacent.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..garbage import uncollected
from ..ops import OPCODE, OPS, ArrayOp, Elementwise
from ..tape import Tape
from ..tape.instruction import GUARD, MAIN, NONE, PROLOGUE, Instruction, columns, frozen, opcode
from ..tape.sizes import Sizes
from ..tape.tape import ACTIVE, CONSTANT, F64, POOLS, STORAGE, VALUE, VARYING, Layout, Literal
from ..tape.uses import cell_of, dependents, keys_of

ADD, AGREE, COPY = (OPCODE[name] for name in ("add", "agree", "copy"))
# The product in a fused product and sum.
WHOLE = [k for k, op in enumerate(OPS) if isinstance(op, ArrayOp) and not op.repeats]  # results in one piece
PARTS = {OPCODE[op.added]: k for k, op in enumerate(OPS) if op.added and op.factors == "xy"}


@dataclass(frozen=True)
class Lanes:
    """Which inputs have lanes, and what runs when.

    Parameters
    ----------
    slots
        Numbers of the inputs.
    hoist
        Whether what does not depend on lanes comes first, so that it need not run again for other
        lanes.
    fixed
        Whether the contents of the lanes never change: what depends on them and on constants only is then
        part of the prologue (all of ``W @ x`` along unit directions, say).
    folded
        Whether products of matrices in lanes may become one product. That is faster, but the last bits of a
        lane then depend on its number.
    """

    slots: frozenset[int]
    hoist: bool = True
    fixed: bool = False
    folded: bool = True


@uncollected
def with_lanes(tape: Tape, level: Lanes, dimensions: tuple[int, ...]) -> Tape:
    """Return a tape whose inputs of the given numbers have a leading dimension of lanes.

    ``dimensions`` are some input dimensions for which the tape holds.
    """
    return _Widened(tape, level, dimensions).tape()


class _Widened:
    def __init__(self, tape: Tape, level: Lanes, dimensions):
        self.old = tape
        self.slots = level.slots
        self.hoist = level.hoist
        self.fixed = level.fixed
        self.folded = level.folded
        self.code = tape.instructions()
        self.values = [tuple(value) for value in tape.values.tolist()]
        self.storages = [tuple(storage) for storage in tape.storages.tolist()]
        self.layouts = list(tape.layouts)
        self.literals = list(tape.literals)
        self._layout_index = {(its.dims, its.strides): k for k, its in enumerate(self.layouts)}
        self._ranks = [len(layout.dims) for layout in self.layouts]
        self.keys = keys_of(self.values)
        self._renumber(dimensions)
        self._find_laned()
        self._place()
        self._views: dict[tuple[int, int], int] = {}  # by value and padding
        self._cells: dict[int, int] = {}  # the views of one-cell values without padding

    # ---- sizes

    def _renumber(self, dimensions) -> None:
        """Number the input dimensions anew: a laned input's first one is the lanes."""
        table, self.moved, self.leads = self.old.sizes, [], []
        new: list[int] = []
        old = iter(dimensions)
        for number, slot in enumerate(self.old.inputs):
            if number in self.slots:
                self.leads.append(len(new))
                new.append(2)
            for _ in slot.dims:
                self.moved.append(len(new))
                new.append(next(old))
        self.sizes = Sizes.resume(table, self.moved, new)
        self.lanes, *others = (self.sizes.input(lead, 2) for lead in self.leads)
        for other in others:
            self.sizes.guard(other, "==", self.lanes)

    # ---- what has lanes

    def _of(self, value: int) -> int:
        """Return the key of what holds a value: its storage, or (negative) its cell of a pool."""
        return self.keys[value]

    def _find_laned(self) -> None:
        inputs = list(enumerate(self.old.inputs))
        sources = {self.keys[slot.value] for number, slot in inputs if number in self.slots}
        self.laned = dependents(self.old.code, self.keys, sources)
        self.steady: frozenset[int] = frozenset()  # keys of what depends on constants and fixed lanes only
        if self.fixed:
            others = (s for number, s in inputs if number not in self.slots and s.level != CONSTANT)
            moving = dependents(self.old.code, self.keys, {self.keys[slot.value] for slot in others})
            self.steady = frozenset(set(self.keys) - moving)

    def _place(self) -> None:
        """Choose where the lanes of each storage are, and make storages for one-cell values."""
        code = self.old.code[self.old.code["op"] != GUARD]
        keys = np.array(self.keys, np.int64)
        whole = np.isin(code["op"] >> 1, WHOLE)
        results = np.concatenate([code["out"][whole], code["aux"][whole & (code["aux"] != NONE)]])
        kept_whole = set(keys[results].tolist())
        # Storages whose cells are more often read and written one at a time than as arrays.
        named = np.concatenate([code[name][code[name] != NONE] for name in ("out", "a", "b", "c")])
        one_cell = np.array(self._ranks)[self.old.values["layout"][named]] == 0
        arrays = keys[named] >= 0
        votes = np.zeros(len(self.storages), int)
        np.add.at(votes, keys[named][arrays], np.where(one_cell, 1, -1)[arrays])
        self.interleaved = {
            key for key in self.laned if key >= 0 and key not in kept_whole and votes[key] > 0
        }
        self.scalar_storage: dict[int, int] = {}
        self.lane_stride: dict[int, int] = {}
        for key in sorted(self.laned):
            if key < 0:
                level, family = POOLS[cell_of(key)[0]]
                self.scalar_storage[key] = len(self.storages)
                self.storages.append((self.lanes, family, level))
                self.lane_stride[key] = 1
            else:
                size, family, level = self.storages[key]
                self.lane_stride[key] = 1 if key in self.interleaved else size
                self.storages[key] = (self.sizes.mul(size, self.lanes), family, level)

    # ---- values with lanes

    def _layout(self, dims, strides) -> int:
        layout = tuple(dims), tuple(strides)
        number = self._layout_index.get(layout)
        if number is None:
            number = self._layout_index[layout] = len(self.layouts)
            self.layouts.append(Layout(*layout))
            self._ranks.append(len(dims))
        return number

    def _cell(self, value: int) -> int:
        """Return a one-cell value with lanes in front, or the missing value for a missing operand."""
        known = self._cells.get(value)
        if known is None:
            known = self._cells[value] = value if value == NONE else self._view(value)
        return known

    def _view(self, value: int, padding: int = 0) -> int:
        """Return the value with lanes in front, then ``padding`` axes of one entry."""
        key = self._of(value)
        if key not in self.laned:
            return value
        known = self._views.get((value, padding))
        if known is not None:
            return known
        storage, offset, layout = self.values[value]
        dims, strides = self.layouts[layout].dims, self.layouts[layout].strides
        if key < 0:
            storage, offset = self.scalar_storage[key], 0
        elif key in self.interleaved:
            offset = self.sizes.mul(offset, self.lanes)
            strides = tuple(self.sizes.mul(s, self.lanes) for s in strides)
        number = len(self.values)
        self.keys.append(key)
        self.values.append(
            (
                storage,
                offset,
                self._layout(
                    (self.lanes, *[1] * padding, *dims), (self.lane_stride[key], *[0] * padding, *strides)
                ),
            )
        )
        self._views[(value, padding)] = number
        return number

    def _rank(self, value: int) -> int:
        return self._ranks[self.values[value][2]]

    # ---- instructions

    def _rewritten(self):
        """Yield (instruction, whether it depends on lanes) of the new tape."""
        for literal in self.old.literals:
            if literal.storage in self.laned:  # first contents, to which instructions with lanes add
                yield self._spread(literal), True
        keys, laned, steady, cell = self.keys, self.laned, self.steady, self._cell
        for row in self.code:
            if row.op == GUARD:
                if self._of(row.a) in self.laned:
                    agreed = self._one_cell(VARYING, F64)
                    compare = opcode(AGREE, F64)
                    yield row.replace(op=compare, stage=MAIN, out=agreed, a=self._view(row.a), aux=NONE), True
                    yield row.replace(stage=MAIN, a=agreed), True
                else:
                    yield row, False
                continue
            stage = PROLOGUE if keys[row.out] in steady else MAIN
            if keys[row.out] not in laned:
                yield row if stage == MAIN else row.replace(stage=stage), False
                continue
            rule = OPS[row.row]
            if row.row in PARTS and row.active and not self.hoist and not self._rank(row.out):
                yield from ((part, True) for part in self._apart(row))
                continue
            batch = self._rank(row.out)
            if isinstance(rule, Elementwise) and not batch:
                a, b, c = cell(row.a), cell(row.b), cell(row.c)
                yield Instruction(row.op, row.active, stage, cell(row.out), a, b, c, NONE, row.line), True
                continue
            cores = rule.operands if isinstance(rule, ArrayOp) else ((),) * 4
            batch -= len(cores[0])
            new = [self._view(row.out)]
            for j, n in enumerate((row.a, row.b, row.c)):
                if n == NONE:
                    new.append(n)
                    continue
                new.append(self._view(n, batch - (self._rank(n) - len(cores[1 + j]))))
            out, a, b, c = new
            extra = NONE if row.aux == NONE else self._view(row.aux)
            wide = row.replace(stage=stage, out=out, a=a, b=b, c=c, aux=extra)
            yield self._folded(wide, rule, batch), True

    def _apart(self, row: Instruction):
        """Return a fused product and sum as two instructions, whose vectors have reverse arms."""
        family, line = row.family, row.line
        self.storages.append((self.lanes, family, ACTIVE))
        self.values.append((len(self.storages) - 1, 0, self._layout((self.lanes,), (1,))))
        self.keys.append(len(self.storages) - 1)
        between = len(self.values) - 1
        factors = row.active >> 1
        takes = row.takes(0) | (2 if factors else 0)
        product, add = opcode(PARTS[row.row], family), opcode(ADD, family)
        b, c = self._view(row.b), self._view(row.c)
        yield Instruction(product, factors, MAIN, between, b, c, line=line)
        yield Instruction(add, takes, MAIN, self._view(row.out), self._view(row.a), between, line=line)

    def _folded(self, row: Instruction, rule, batch: int) -> Instruction:
        """Return a product of matrices in lanes as one product, where only one operand has lanes."""
        if not rule.product or batch or not self.folded:
            return row
        left, right, result = (self.layouts[self.values[n][2]] for n in (row.a, row.b, row.out))
        if len(left.dims) == 2 and len(right.dims) == 3 and right.dims[2] == 1:
            # A @ x with x in lanes is (lanes, k) @ A^T, so the operands change places
            vectors = self._as(row.b, right.dims[:2], right.strides[:2])
            matrix = self._as(row.a, left.dims[::-1], left.strides[::-1])
            rows = self._as(row.out, result.dims[:2], result.strides[:2])
            return row.replace(active=row.takes(1) | row.takes(0) << 1, out=rows, a=vectors, b=matrix)
        if len(left.dims) == 3 and len(right.dims) == 2:
            # X @ B with X in lanes multiplies the rows of all lanes at once, if these are contiguous
            lanes, m, k = left.dims
            if left.strides == (self.sizes.mul(m, k), k, 1):
                dims = self.sizes.mul(lanes, m)
                rows = self._as(row.out, (dims, result.dims[2]), result.strides[1:])
                return row.replace(out=rows, a=self._as(row.a, (dims, k), (k, 1)))
        return row

    def _as(self, value: int, dims, strides) -> int:
        """Return another view of a value's cells."""
        storage, offset, _ = self.values[value]
        self.values.append((storage, offset, self._layout(dims, strides)))
        self.keys.append(self.keys[value])
        return len(self.values) - 1

    def _one_cell(self, level: int, family: int) -> int:
        self.storages.append((1, family, level))
        self.values.append((len(self.storages) - 1, 0, self._layout((), ())))
        self.keys.append(len(self.storages) - 1)
        return len(self.values) - 1

    def _spread(self, literal: Literal) -> Instruction:
        """Return the instruction that copies a literal from its own cells into every lane."""
        family = self.storages[literal.storage][1]
        count = int(literal.data.size)
        self.literals = [item for item in self.literals if item is not literal]
        self.storages.append((count, family, 0))
        source = len(self.storages) - 1
        self.literals.append(Literal(source, 0, literal.data))
        self.values.append((source, 0, self._layout((count,), (1,))))
        origin = len(self.values) - 1
        self.values.append((literal.storage, literal.offset, self._layout((count,), (1,))))
        self.keys += [source, literal.storage]
        stage = PROLOGUE if literal.storage in self.steady else MAIN
        return Instruction(opcode(COPY, family), 0, stage, self._view(len(self.values) - 1), origin)

    def tape(self) -> Tape:
        old = self.old
        inputs = tuple(
            replace(slot, value=self._view(slot.value), dims=(self.leads_code(number), *slot.dims))
            if number in self.slots
            else slot
            for number, slot in enumerate(old.inputs)
        )
        # The prologue stays first; no instruction with lanes is part of it (but for fixed lanes).
        ordered: tuple[list, ...] = [], [], []
        for item in self._rewritten():
            ordered[self._position(item)].append(item)
        first, uniform = len(ordered[0]), len(ordered[0]) + len(ordered[1])
        rows = [*ordered[0], *ordered[1], *ordered[2]]
        copies = [self._dense(value) for value in old.outputs]
        rows += [row for _, row in copies if row is not None]
        outputs = tuple(value for value, _ in copies)
        code, positions = frozen(columns([row for row, _ in rows]))
        if self.hoist:
            code["active"] = 0
        new = replace(
            old,
            code=code,
            values=np.array(self.values, VALUE).reshape(-1),
            layouts=tuple(self.layouts),
            storages=np.array(self.storages, STORAGE).reshape(-1),
            literals=tuple(self.literals),
            inputs=inputs,
            outputs=outputs,
            positions=positions,
            sizes=self.sizes.freeze(),
            prologue=first,
            uniform=uniform if self.hoist else 0,
            forward=self.hoist or old.forward,
        )
        for array in (new.code, new.values, new.storages, new.positions):
            array.flags.writeable = False
        return new

    def _dense(self, value: int):
        """Return (output with lanes, the copy that makes its cells contiguous, or None)."""
        key = self._of(value)
        _, offset, layout = self.values[value]
        if key not in self.laned or key < 0:
            return self._view(value), None
        dims, strides = self.layouts[layout].dims, self.layouts[layout].strides
        expected, size = [], 1
        for dim in reversed(dims):
            expected.append(size)
            size = self.sizes.mul(size, dim)
        whole = offset == 0 and strides == tuple(reversed(expected)) and size == self._old_size(key)
        if whole:
            return self._view(value), None
        _, family, level = self.storages[key]
        self.storages.append((self.sizes.mul(size, self.lanes), family, level))
        layout = self._layout((self.lanes, *dims), (size, *reversed(expected)))
        self.values.append((len(self.storages) - 1, 0, layout))
        self.keys.append(len(self.storages) - 1)
        copy = len(self.values) - 1
        active = 1 if level == ACTIVE else 0
        return copy, (Instruction(opcode(COPY, family), active, MAIN, copy, self._view(value)), True)

    def _old_size(self, storage: int) -> int:
        return int(self.old.storages["size"][storage])

    def _position(self, item) -> int:
        row, laned = item
        if row.stage == PROLOGUE:
            return 0
        return 2 if self.hoist and laned else 1

    def leads_code(self, number: int) -> int:
        """Return the size code of an input's own dimension of lanes."""
        return self.sizes.input(self.leads[sorted(self.slots).index(number)], 2)
