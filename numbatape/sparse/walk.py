"""`Walk`: the dependency sets of a tape's cells, instruction by instruction.

Cells of both families have one numbering here: active float64 cells, then active float32 cells.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from ..engine.plan import Plan
from ..ops import OPS, ArrayOp
from ..tape.instruction import GUARD, NONE, Instruction, tape_instructions
from ..tape.tape import ACTIVE, CONSTANT, FAMILY_DTYPE, POOLS
from .array_rules import apply_rule, interactions_of
from .index_sets import IndexSets

Cells = tuple[np.ndarray, np.ndarray]  # value cells by family


def view_in(cells: Cells, family: int, first: int, shape, strides) -> np.ndarray:
    """Return an array in value cells."""
    dtype = FAMILY_DTYPE[family]
    if 0 in shape:
        return np.zeros(shape, dtype)
    bytes_ = tuple(s * dtype.itemsize for s in strides)
    return np.ndarray(shape, dtype, cells[family], first * dtype.itemsize, bytes_)


@functools.cache
def nonlinear_pairs() -> tuple[tuple[tuple[int, int], ...], ...]:
    """Return, for each elementwise op, the pairs of operands that its second derivative couples."""
    return tuple(
        () if isinstance(op, ArrayOp) else tuple(("xyw".index(p), "xyw".index(q)) for p, q in op.second)
        for op in OPS
    )


class Walk:
    """What each cell of a plan depends on.

    Attributes
    ----------
    sets
        The sets; a cell has the number of one.
    ids
        Set number of each active cell.
    """

    def __init__(self, plan: Plan, cells: Cells, second_order: bool = False, output: int | None = None):
        self.plan, self.tape, self.cells = plan, plan.tape, cells
        (first64, count64), (first32, count32) = plan.active
        # For each family, the distance from the number of a cell to its place in `ids`.
        self._shift = (-first64, count64 - first32)
        self.ids = np.zeros(count64 + count32, np.int64)
        values, storages = self.tape.values, self.tape.storages
        self._active = storages["level"][values["storage"]] == ACTIVE
        offset = values["offset"].astype(np.int64)
        offset = np.where(
            offset >= 0, offset, np.append(plan.sizes, 0)[np.where(offset < 0, -offset - 1, -1)]
        )
        shift = np.array(self._shift)[storages["family"][values["storage"]]]
        self._first = plan.bases[values["storage"]] + offset + shift
        self._shapes: dict[int, tuple] = {}  # the keys are layouts
        self.is_complete = True  # whether all constants were known that the pattern depends on
        self._positions: dict[int, np.ndarray] = {}  # for each value, the positions that were read
        slots = [slot.value for slot in self.tape.inputs if slot.level == ACTIVE]
        sizes = [math.prod(self.shape(value)) for value in slots]
        self.sets = IndexSets(sum(sizes))
        start = 1
        for value, size in zip(slots, sizes, strict=True):
            self.view(value)[...] = start + np.arange(size).reshape(self.shape(value))
            start += size
        self._second_order = second_order
        self._pairs: set[tuple[int, int]] = set()  # pairs that interact by one-cell instructions
        # Pairs that interact by other instructions, in arrays of (n, 2).
        self._pair_arrays: list[np.ndarray] = []
        self._relevant = self._reaching(output) if second_order else np.ones(len(self.tape), bool)

    # ---- values

    def shape(self, value: int) -> tuple[int, ...]:
        return self._extent(value)[0]

    def _extent(self, value: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        layout = int(self.tape.values["layout"][value])
        found = self._shapes.get(layout)
        if found is None:
            found = self._shapes[layout] = self.plan.shape(value), self.plan.strides(value)
        return found

    def view(self, value: int) -> np.ndarray:
        """Return the set numbers of an active value, as a view that aliases as the tape says."""
        shape, strides = self._extent(value)
        if 0 in shape:
            return np.zeros(shape, np.int64)
        bytes_ = tuple(8 * s for s in strides)
        return np.ndarray(shape, np.int64, self.ids, 8 * int(self._first[value]), bytes_)

    def operand(self, value: int) -> np.ndarray:
        """Return the set numbers of a value; zeros (the empty set) where it is not active."""
        return self.view(value) if self._active[value] else np.zeros(self.shape(value), np.int64)

    def constant(self, value: int) -> np.ndarray | None:
        """Return a constant's contents, None for what is not constant or not known.

        What was read is kept: the pattern holds for these contents (`Pattern.holds`).
        """
        if self.tape.storages["level"][self.tape.values["storage"][value]] != CONSTANT:
            return None
        family, first = self.plan.cell(value)
        shape, strides = self._extent(value)
        found = view_in(self.cells, family, first, shape, strides)
        if np.isnan(found).any():
            self.is_complete = False
            return None
        self._positions[value] = found.copy()
        return found

    def positions(self) -> tuple:
        """Return where the constants that were read are, and their contents."""
        return tuple(
            (*self.plan.cell(value), *self._extent(value), kept) for value, kept in self._positions.items()
        )

    def varies(self) -> bool:
        """Whether a constant that was read is no literal: an input, or something that is computed."""
        storage = self.tape.values["storage"]
        read = {int(storage[value]) for value in self._positions}
        out = self.tape.code["out"]
        written = {*storage[out[out != NONE]].tolist(), *(int(storage[x.value]) for x in self.tape.inputs)}
        return not read.isdisjoint(written)

    # ---- instructions

    def run(self) -> None:
        """Walk over the tape: runs of one-cell instructions together, all others one by one."""
        code = self.tape.code
        if not len(code):
            return
        rows = (code["op"] >> 1).astype(np.int64)
        wanted = (code["op"] != GUARD) & self._active[code["out"]] & self._relevant
        sizes = np.array([math.prod(self.plan.size(d) for d in x.dims) for x in self.tape.layouts])
        elementwise = np.array([not isinstance(op, ArrayOp) for op in OPS])
        one = wanted & (sizes[self.tape.values["layout"][code["out"]]] == 1)
        one[one] = elementwise[rows[one]]
        # Where each operand's set stands; -1: it contributes nothing.
        columns = []
        for k, name in enumerate("abc"):
            counts = ((code["active"] >> k & 1) != 0) | self._in_place(name)
            columns.append(np.where(counts, self._first[code[name]], -1))
        kinds = np.where(one, 1, np.where(wanted, 2, 0))
        edges = [*np.flatnonzero(np.append(True, kinds[1:] != kinds[:-1])).tolist(), len(code)]
        out = self._first[code["out"]]
        for first, last in zip(edges, edges[1:], strict=False):
            if kinds[first] == 1:
                span = slice(first, last)
                self._one_cell_run(
                    rows[span].tolist(), out[span].tolist(), *(c[span].tolist() for c in columns)
                )
            elif kinds[first] == 2:
                for row in tape_instructions(code[first:last], self.tape.positions[first:last]):
                    self._instruction(row)

    def _in_place(self, name: str) -> np.ndarray:
        """Whether an operand is what the result overwrites: ``out += a`` keeps what the cells had."""
        code = self.tape.code
        return (code[name] == code["out"]) & (code["op"] != GUARD) & self._active[code["out"]]

    def _one_cell_run(self, rows, outs, first, second, third) -> None:
        """Handle instructions of one cell each, in 0.3 µs for most of them."""
        ids = memoryview(self.ids)
        pair, couples = self.sets.pair, nonlinear_pairs()
        for row, o, a, b, c in zip(rows, outs, first, second, third, strict=True):
            x = ids[a] if a >= 0 else 0
            y = ids[b] if b >= 0 else 0
            w = ids[c] if c >= 0 else 0
            if self._second_order and couples[row]:
                operands = (x, y, w)
                for p, q in couples[row]:
                    if operands[p] and operands[q]:
                        self._pairs.add((operands[p], operands[q]))
            if y:
                x = pair(x, y)
            ids[o] = pair(x, w) if w else x

    def _instruction(self, row: Instruction) -> None:
        """Compute which inputs the entries of a result depend on, and note which of them interact."""
        op = OPS[row.row]
        target = self.view(row.out)
        operands: list[np.ndarray | None] = [
            self.operand(value) if row.takes(k) or value == row.out else None
            for k, value in enumerate(row.operands)
        ]
        if isinstance(op, ArrayOp):
            where = self.constant(row.operands["abc".index(op.index)]) if op.index else None
            result = apply_rule(self.sets, op, operands, where, target.shape)
            if self._second_order:
                self._pair_arrays += interactions_of(self.sets, op, operands, target.shape)
        else:
            wide = [None if x is None else np.broadcast_to(x, target.shape) for x in operands]
            present = [x for x in wide if x is not None]
            result = self.sets.unite_cells(*present) if present else 0
            for p, q in nonlinear_pairs()[row.row] if self._second_order else ():
                if wide[p] is not None and wide[q] is not None:
                    self._pair_arrays.append(np.stack([wide[p].reshape(-1), wide[q].reshape(-1)], axis=1))
        target[...] = result

    # ---- results

    def outputs(self) -> np.ndarray:
        """Return the set numbers of all output cells, one output after the other."""
        parts = [self.operand(value).reshape(-1) for value in self.tape.outputs]
        return np.concatenate([np.zeros(0, np.int64), *parts])

    def interactions(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the pairs of sets that nonlinear instructions couple, as two arrays."""
        singles = np.array(sorted(self._pairs), np.int64).reshape(-1, 2)
        pairs = np.sort(np.concatenate([singles, *self._pair_arrays]), axis=1)
        pairs = pairs[pairs[:, 0] > 0]  # the empty set interacts with nothing
        keys = np.unique(pairs[:, 0] * self.sets.count + pairs[:, 1])
        left, right = np.divmod(keys, self.sets.count)
        return left, right

    def _reaching(self, output: int | None) -> np.ndarray:
        """Return which instructions an output may depend on."""
        outputs = self.tape.outputs if output is None else self.tape.outputs[output : output + 1]
        storage = self.tape.values["storage"]
        # Values that share cells form a group, as in the builder: a pool's cell, or a storage with its views.
        group = np.where(storage < len(POOLS), self._first, len(self.ids) + storage.astype(np.int64)).tolist()
        wanted = {group[value] for value in outputs}
        relevant = np.zeros(len(self.tape), bool)
        columns = (self.tape.code[name].tolist() for name in ("op", "out", "a", "b", "c"))
        for k, (op, out, *operands) in reversed(list(enumerate(zip(*columns, strict=True)))):
            if op != GUARD and group[out] in wanted:
                relevant[k] = True
                wanted.update(group[value] for value in operands if value != NONE)
        return relevant
