"""Lanes: a tape that computes many points, or many directions, at once.

`lanes` turns a tape into one in which some inputs have one more, leading dimension. What depends on
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

from ..ops import OPCODE, OPS, ArrayOp
from ..savings import uncollected
from ..tape import Tape
from ..tape.combinations import combinations, flatnonzero, stable_order
from ..tape.instruction import (
    GUARD,
    INSTRUCTION,
    MAIN,
    NONE,
    PROLOGUE,
    chosen,
    copied,
    joined,
    opcode,
    value_numbers,
)
from ..tape.shared_results import Results
from ..tape.tape import ACTIVE, F64, POOLS, VARYING, Layout, Literal
from .lane_values import LaneValues

ADD, AGREE, COPY, SUB = (OPCODE[name] for name in ("add", "agree", "copy", "sub"))
IS_PRODUCT = np.array([bool(op.product) for op in OPS])
# For each row of the op table these are the product in a fused product and sum, the sum and whether its first
# operand is the product; and the ranks of the cores of the result and the operands, 0 for elementwise ops.
PRODUCT_IN, SUM_IN = np.full(len(OPS), NONE), np.full(len(OPS), NONE)
IS_FIRST = np.zeros(len(OPS), bool)
CORE_RANKS = np.zeros((4, len(OPS)), np.int64)
for _k, _op in enumerate(OPS):
    if _op.factors == "xy":
        for _name, _sum, _first in (
            (_op.added, ADD, False),
            (_op.taken, SUB, False),
            (_op.taken_from, SUB, True),
        ):
            if _name:
                PRODUCT_IN[OPCODE[_name]], SUM_IN[OPCODE[_name]], IS_FIRST[OPCODE[_name]] = _k, _sum, _first
    if isinstance(_op, ArrayOp):
        CORE_RANKS[: len(_op.operands), _k] = [len(core) for core in _op.operands]
VALUES = ("out", "a", "b", "c", "aux")

_kept: Results[Tape] = Results()


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
    behind
        Whether the lanes are one input dimension behind all others, as in the body of a loop, and not the
        first dimension of each input that has them.
    """

    slots: frozenset[int]
    hoist: bool = True
    fixed: bool = False
    folded: bool = True
    behind: bool = False


def lanes(tape: Tape, level: Lanes, dimensions: tuple[int, ...]) -> Tape:
    """Return a tape whose inputs of the given numbers have a leading dimension of lanes.

    ``dimensions`` are some input dimensions for which the tape holds. The result does not depend on them.
    """
    return _kept.of(tape, level, lambda: _with_lanes(tape, level, dimensions))


@uncollected
def _with_lanes(tape: Tape, level: Lanes, dimensions: tuple[int, ...]) -> Tape:
    return _Widened(tape, level, dimensions).tape()


@dataclass
class Rows:
    """Instructions of the new tape as columns, and what their order is decided by.

    Attributes
    ----------
    code, line
        The instructions, and their positions in the user's source.
    at
        The number of the old instruction whose place each takes.
    laned
        Whether they depend on the lanes.
    """

    code: np.ndarray
    line: np.ndarray
    at: np.ndarray
    laned: bool = True


def _rows(at, line, **fields) -> Rows:
    """Return new instructions of the main part, which depend on the lanes; fields left out name nothing."""
    code = np.zeros(len(at), INSTRUCTION)
    code["stage"] = MAIN
    for name in VALUES:
        code[name] = NONE
    for name, field in fields.items():
        code[name] = field
    return Rows(code, np.broadcast_to(line, len(at)), np.asarray(at))


class _Widened:
    def __init__(self, tape: Tape, level: Lanes, dimensions):
        self.old = tape
        self.level = level
        self.values = LaneValues(tape, level.slots, level.fixed, dimensions, level.behind)
        self.literals: list[Literal] = []

    def tape(self) -> Tape:
        """Return the tape with lanes.

        Instructions that do not depend on them run once: those of the prologue, and before those with lanes.
        """
        old, values, hoist = self.old, self.values, self.level.hoist
        parts = self._literals()
        rows, ends = self._rewritten([*old.outputs, *(slot.value for slot in old.inputs)])
        parts += rows
        outputs, inputs = ends[: len(old.outputs)], ends[len(old.outputs) :]
        parts += self._copies(outputs)
        code = joined([part.code for part in parts])
        line = np.concatenate([part.line for part in parts])
        at = np.concatenate([part.at for part in parts])
        laned = np.repeat([part.laned for part in parts], [len(part.at) for part in parts])
        # The prologue stays first; no instruction with lanes is part of it (but for fixed lanes).
        part = np.where(code["stage"] == PROLOGUE, 0, np.where(laned & hoist, 2, 1))
        order = np.lexsort((at, part))
        first, uniform = np.bincount(part, minlength=3)[:2].cumsum().tolist()
        code, line = chosen(code, order), line[order]
        if hoist:
            code["active"] = 0
        new = replace(
            old,
            code=code,
            values=copied(values.values()),
            layouts=tuple(values.layouts),
            storages=values.storages(),
            literals=tuple(self.literals),
            inputs=tuple(
                slot._replace(value=value, dims=(values.leads[number], *slot.dims))
                if number in values.leads
                else slot
                for number, (slot, value) in enumerate(zip(old.inputs, inputs, strict=True))
            ),
            outputs=tuple(outputs),
            positions=line,
            sizes=values.sizes.freeze(),
            prologue=first,
            uniform=uniform if hoist else 0,
            forward=hoist or old.forward,
        )
        for array in (new.code, new.values, new.storages, new.positions):
            array.flags.writeable = False
        return new

    def _literals(self) -> list[Rows]:
        """Copy literals to which instructions with lanes add from cells of their own into every lane."""
        values = self.values
        found: list[Rows] = []
        storages = np.array([literal.storage for literal in self.old.literals], np.intp)
        adding = (storages >= len(POOLS)) & values.laned[values.group_of(storages)]
        if not np.count_nonzero(adding):
            self.literals += self.old.literals
            return found
        for literal, is_added_to in zip(self.old.literals, adding.tolist(), strict=True):
            group = values.group_of(literal.storage)
            if not is_added_to:
                self.literals.append(literal)
                continue
            family, count = int(self.old.storages["family"][literal.storage]), int(literal.data.size)
            source = values.new_storages(count, family, 0)
            self.literals.append(Literal(int(source[0]), 0, literal.data))
            origin = values.new_values(source, 0, values.layout((count,), (1,)))
            target = values.stretch(literal.storage, literal.offset, count)
            stage = PROLOGUE if values.unchanging[group] else MAIN
            found.append(_rows([-1], NONE, op=opcode(COPY, family), stage=stage, out=target, a=origin))
        return found

    def _rewritten(self, ends: list[int]) -> tuple[list[Rows], list[int]]:
        """Return the instructions of the old tape, those that depend on lanes with lanes; and so its ends."""
        code, values = self.old.code, self.values
        out = values.group[code["out"]]
        laned, guards = values.laned[out], code["op"] == GUARD
        compared = guards & values.laned[values.group[code["a"]]]
        apart = np.zeros(len(code), bool)
        if not self.level.hoist:  # fused vectors can only be swept forward
            fused = PRODUCT_IN[np.where(guards, 0, code["op"] >> 1)] != NONE
            apart = laned & fused & (code["active"] != 0) & (values.ranks_of(code["out"]) == 0)
        same = flatnonzero(~laned & ~compared)
        alone = chosen(code, same)
        alone["stage"][values.unchanging[out[same]]] = PROLOGUE
        rows = [Rows(alone, self.old.positions[same], same, laned=False)]
        wide, found = self._widened(flatnonzero(laned & ~apart), ends)
        rows.append(wide)
        rows += self._compared(flatnonzero(compared))
        rows += self._apart(flatnonzero(apart))
        return rows, found

    def _widened(self, at: np.ndarray, ends: list[int]) -> tuple[Rows, list[int]]:
        """Return instructions with lanes, and values with lanes.

        They are made all at once, because each call takes some time.
        """
        values, code = self.values, chosen(self.old.code, at)
        row, numbers = code["op"] >> 1, value_numbers(code)
        columns = numbers.T.astype(np.int64, order="C")
        code["stage"] = np.where(values.unchanging[values.group[columns[0]]], PROLOGUE, MAIN)
        batch = values.ranks_of(columns[0]) - CORE_RANKS[0].take(row)
        padding = np.zeros(columns.size + len(ends), np.int64)
        for j in (1, 2, 3):
            its = batch - (values.ranks_of(columns[j]) - CORE_RANKS[j].take(row))
            padding[j * len(at) : (j + 1) * len(at)] = its
        found = values.views(np.concatenate([columns.reshape(-1), ends]), padding)
        wide = found[: columns.size]
        numbers[...] = wide.reshape(columns.shape).T
        if self.level.folded:
            self._fold(code, flatnonzero(IS_PRODUCT[row] & (batch == 0)))
        return Rows(code, self.old.positions[at], at), found[wide.size :].tolist()

    def _fold(self, code: np.ndarray, at: np.ndarray) -> None:
        """Turn products of matrices in lanes, of which only one operand has lanes, into one product each."""
        values = self.values
        if not len(at):
            return
        layouts = [values.values()["layout"][code[name][at]] for name in ("a", "b", "out")]
        first, kind = combinations(*layouts)
        alike = np.split(at[stable_order(kind)], np.cumsum(np.bincount(kind))[:-1])
        for k, its in zip(first.tolist(), alike, strict=True):
            left, right, result = (values.layouts[numbers[k]] for numbers in layouts)
            rows = chosen(code, its)
            if len(left.dims) == 2 and len(right.dims) == 3 and right.dims[2] == 1:
                # A @ x with x in lanes is (lanes, k) @ A^T, so the operands change places.
                rows["a"] = values.seen_as(code["b"][its], right.dims[:2], right.strides[:2])
                rows["b"] = values.seen_as(code["a"][its], left.dims[::-1], left.strides[::-1])
                rows["out"] = values.seen_as(code["out"][its], result.dims[:2], result.strides[:2])
                rows["active"] = rows["active"] >> 1 & 1 | (rows["active"] & 1) << 1
            elif len(left.dims) == 3 and len(right.dims) == 2 and left.dims[1] == 1:
                # The left operand is one row for each lane, wherever the rows lie.
                lanes, _, inner = left.dims
                rows["a"] = values.seen_as(code["a"][its], (lanes, inner), left.strides[::2])
                rows["out"] = values.seen_as(code["out"][its], result.dims[::2], result.strides[::2])
            elif len(left.dims) == 3 and len(right.dims) == 2 and self._is_contiguous(left):
                # X @ B with X in lanes multiplies the rows of all lanes at once.
                lanes, m, inner = left.dims
                dims = values.sizes.mul(lanes, m), result.dims[2]
                rows["a"] = values.seen_as(code["a"][its], (dims[0], inner), (inner, 1))
                rows["out"] = values.seen_as(code["out"][its], dims, result.strides[1:])
            else:
                continue
            code[its] = rows

    def _is_contiguous(self, layout: Layout) -> bool:
        """Whether the matrices of all lanes lie one after the other, each row by row."""
        _, m, inner = layout.dims
        return layout.strides == (self.values.sizes.mul(m, inner), inner, 1)

    def _compared(self, at: np.ndarray) -> list[Rows]:
        """Return guards: all lanes must agree, and the guard compares what they have agreed on."""
        if not len(at):
            return []
        values, guards = self.values, chosen(self.old.code, at)
        agreed = values.new_values(
            values.new_storages(1, np.full(len(at), F64), VARYING), 0, values.layout((), ())
        )
        agree = copied(guards)
        agree["op"], agree["stage"], agree["aux"] = opcode(AGREE, F64), MAIN, NONE
        agree["out"], agree["a"] = agreed, values.views(guards["a"])
        guards["stage"], guards["a"] = MAIN, agreed
        line = self.old.positions[at]
        return [Rows(agree, line, at), Rows(guards, line, at)]

    def _apart(self, at: np.ndarray) -> list[Rows]:
        """Return fused products and sums as two instructions each, whose vectors have reverse arms."""
        if not len(at):
            return []
        values, code, line = self.values, chosen(self.old.code, at), self.old.positions[at]
        family = code["op"] & 1
        cells = values.new_storages(values.lanes, family, ACTIVE)
        between = values.new_values(cells, 0, values.layout((values.lanes,), (1,)))
        out, a, b, c = (values.views(code[name]) for name in ("out", "a", "b", "c"))
        factors, addend, fused = code["active"] >> 1, code["active"] & 1, code["op"] >> 1
        product, first = opcode(PRODUCT_IN[fused], family), IS_FIRST[fused]
        takes = np.where(first, addend << 1 | (factors > 0), addend | (factors > 0) << 1)
        one, other = np.where(first, between, a), np.where(first, a, between)
        return [
            _rows(at, line, op=product, active=factors, out=between, a=b, b=c),
            _rows(at, line, op=opcode(SUM_IN[fused], family), active=takes, out=out, a=one, b=other),
        ]

    def _copies(self, outputs: list[int]) -> list[Rows]:
        """Return copies of outputs whose lanes are not contiguous, and let these be the outputs."""
        values, old = self.values, self.old
        copies = []
        for k, value in enumerate(old.outputs):
            storage, _, layout = old.values[value].item()
            if not values.laned[values.group[value]] or storage < len(POOLS) or values.is_whole(value):
                continue
            dims = old.layouts[layout].dims
            strides, size = values.row_major(dims)
            _, family, level = old.storages[storage].item()
            its = values.new_storages(values.sizes.mul(size, values.lanes), family, level)
            copy = values.new_values(its, 0, values.layout((values.lanes, *dims), (size, *strides)))
            active = 1 if level == ACTIVE else 0
            copies.append(
                _rows([len(old)], NONE, op=opcode(COPY, family), active=active, out=copy, a=outputs[k])
            )
            outputs[k] = int(copy[0])
        return copies
