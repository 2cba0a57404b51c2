"""`Plan`: a tape for given sizes, resolved to cells and verified before anything runs."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .. import jit
from ..errors import VerificationError
from ..ops import OPS, ArrayOp
from ..tape import Tape
from ..tape.tape import ACTIVE, CONSTANT, F64, FAMILIES, GUARD, POOLS, VARYING
from . import plan_kernels as names
from .codegen import FIRST_KERNEL

LINE_CELLS = 8  # storages of a cache line or more start on one (64 bytes)
REASONS = (
    "",
    "core dimensions of the operands differ",
    "unknown op",
    "an operand reaches outside of the workspace",
    "an adjoint reaches outside of the active cells",
    "the instruction's record is damaged",
    "more cells than 32-bit offsets can address",
)


@dataclass(frozen=True, eq=False)
class Plan:
    """A tape at given sizes.

    Attributes
    ----------
    tape, dimensions
        What was planned, for which input dimensions.
    code, aux
        Instructions (five 32-bit words each) and their records.
    bases
        First cell of each storage, within its family's cells.
    cells
        Number of cells by family.
    active
        ``(first, number)`` of the cells that have adjoints, by family.
    kernels
        Kernel numbers (2 * row + family) that the plan calls by pointer.
    """

    tape: Tape
    dimensions: tuple[int, ...]
    code: np.ndarray
    aux: np.ndarray
    bases: np.ndarray
    cells: tuple[int, int]
    active: tuple[tuple[int, int], tuple[int, int]]
    sizes: np.ndarray
    kernels: tuple[int, ...]

    @property
    def prologue(self) -> int:
        return self.tape.prologue

    @property
    def nbytes(self) -> int:
        return self.code.nbytes + self.aux.nbytes

    def size(self, code: int) -> int:
        """Return a size code's value."""
        return int(code if code >= 0 else self.sizes[-code - 1])

    def cell(self, value: int) -> tuple[int, int]:
        """Return (family, first cell) of a value."""
        storage, offset, _ = self.tape.values[value].item()
        family = int(self.tape.storages["family"][storage])
        return family, int(self.bases[storage]) + self.size(offset)

    def shape(self, value: int) -> tuple[int, ...]:
        """Return the shape of a value."""
        return tuple(map(self.size, self.tape.layouts[self.tape.values["layout"][value]].dims))

    def strides(self, value: int) -> tuple[int, ...]:
        """Return the strides of a value, in cells."""
        return tuple(map(self.size, self.tape.layouts[self.tape.values["layout"][value]].strides))


@functools.cache
def op_info() -> np.ndarray:
    """Return the op table as integers, one row of `plan_kernels.INFO` words an op."""
    table = np.zeros((len(OPS), names.INFO), np.int32)
    for k, op in enumerate(OPS):
        row = table[k]
        row[1] = op.arity
        if isinstance(op, ArrayOp):
            row[0], row[2] = names.CORE, len(op.letters)
            for which, group in enumerate(op.operands):
                row[3 + which] = len(group)
                for axis, letter in enumerate(group):
                    row[7 + 3 * which + axis] = op.letters.index(letter)
            for j, name in enumerate("abc"[: op.arity]):
                if name in op.index:
                    row[19] |= 1 << (8 + j)  # float64 positions
                elif op.reverse is not None:
                    row[19] |= 1 << j  # may take an adjoint
        else:
            row[0] = names.CAST if op.name == "cast" else names.HOT if op.hot else names.LOOP
            row[19] = sum(1 << j for j, partial in enumerate(op.partials) if partial is not None)
    return table


@functools.cache
def _kernels() -> jit.Kernels:
    source = Path(names.__file__).read_text()
    return jit.load("plan", "# cells: f64\n" + source.split("from __future__ import annotations")[1])


@functools.cache
def _functions():
    kernels = _kernels()
    return kernels.function("derive"), kernels.function("verify")


def layout_tables(tape: Tape) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (start and rank of each layout, all dims, all strides) as size codes."""
    ranks = [len(layout.dims) for layout in tape.layouts]
    starts = np.concatenate([[0], np.cumsum(ranks)[:-1]])
    index = np.stack([starts, ranks], axis=1).astype(np.int32)
    dims = np.array([d for layout in tape.layouts for d in layout.dims] or [0], np.int32)
    strides = np.array([s for layout in tape.layouts for s in layout.strides] or [0], np.int32)
    return np.ascontiguousarray(index), dims, strides


def place_storages(tape: Tape, sizes) -> tuple[np.ndarray, tuple, tuple]:
    """Give each storage its first cell: constants first, then varying, then active ones.

    Active cells stand together at the end, so that adjoints exist for them alone while one offset
    serves values and adjoints.
    """
    storages = tape.storages
    size = storages["size"].astype(np.int64)
    size = np.where(size >= 0, size, np.append(sizes, 0)[np.where(size < 0, -size - 1, -1)])
    bases = np.zeros(len(storages), np.int64)
    cells, active = [0, 0], [(0, 0), (0, 0)]
    for family in range(len(FAMILIES)):
        top = 0
        for level in (CONSTANT, VARYING, ACTIVE):
            top = -(-top // LINE_CELLS) * LINE_CELLS
            first = top
            inside = np.flatnonzero((storages["family"] == family) & (storages["level"] == level))
            room = -(-size[inside] // LINE_CELLS) * LINE_CELLS
            bases[inside] = top + np.cumsum(room) - room
            top += int(room.sum())
            if level == ACTIVE:
                active[family] = (first, top - first)
        cells[family] = top
    return bases, tuple(cells), tuple(active)


def make_plan(tape: Tape, dimensions: tuple[int, ...]) -> Plan:
    """Derive the plan of a tape for given input dimensions, and verify it.

    Raises
    ------
    VerificationError
        If the tape or the plan is not safe to run; names the instruction and the reason.
    """
    check_tape(tape)
    sizes = np.array(tape.sizes.evaluate(dimensions), np.int64)
    bases, cells, active = place_storages(tape, sizes)
    if max(cells) >= 2**31:
        raise VerificationError(f"a workspace of {max(cells)} cells: {REASONS[6]}")
    index, dims, strides = layout_tables(tape)
    code = np.zeros((len(tape), 5), np.int32)
    ranks = index[:, 1][tape.values["layout"][tape.code["out"]]] if len(tape) else np.zeros(0, int)
    aux = np.zeros(int((24 + 5 * (ranks + 1)).sum()) + 64, np.int32)
    rows = np.ascontiguousarray(tape.code).view(np.int32)
    values = np.ascontiguousarray(tape.values).view(np.int32)
    w = np.zeros(32, np.int64)
    arrays = (rows, None, values, index, dims, strides, sizes, bases, op_info(), code, aux)
    for k, array in enumerate(arrays):
        if array is not None:
            w[k] = array.ctypes.data
    w[names.ROWS] = len(tape)
    w[names.OP_COUNT] = FIRST_KERNEL
    derive, _ = _functions()
    reason = derive(w.ctypes.data, 0)
    if reason:
        raise _failure(tape, int(w[names.BAD]), reason)
    aux = aux[: max(1, int(w[names.AUX_USED]))].copy()
    called = np.unique(code[:, 0] & 0xFFFF) if len(code) else np.zeros(0, np.int64)
    kernels = called[(called >= FIRST_KERNEL) & (called != GUARD)] - FIRST_KERNEL
    for array in (code, aux, bases, sizes):
        array.flags.writeable = False
    plan = Plan(tape, tuple(dimensions), code, aux, bases, cells, active, sizes, tuple(map(int, kernels)))
    verify(plan)
    return plan


def verify(plan: Plan) -> None:
    """Prove that every instruction stays inside the workspace; raise `VerificationError` if not."""
    code, aux = np.ascontiguousarray(plan.code), np.ascontiguousarray(plan.aux)
    w = np.zeros(32, np.int64)
    w[names.ENGINE_CODE], w[names.ENGINE_AUX] = code.ctypes.data, aux.ctypes.data
    w[names.OP_INFO] = op_info().ctypes.data
    w[names.ROWS], w[names.AUX_USED] = len(code), len(aux)
    w[names.TOTAL64], w[names.TOTAL32] = plan.cells
    (w[names.ACTIVE64], w[names.ACTIVE_CELLS64]), (w[names.ACTIVE32], w[names.ACTIVE_CELLS32]) = plan.active
    w[names.OP_COUNT], w[names.SPLIT_AT] = FIRST_KERNEL, plan.prologue
    reason = _functions()[1](w.ctypes.data, 0)
    if reason:
        raise _failure(plan.tape, int(w[names.BAD]), reason)
    _verify_scratch(plan)


def _verify_scratch(plan: Plan) -> None:
    for number in plan.kernels:
        op = OPS[number >> 1]
        if not isinstance(op, ArrayOp) or op.scratch == "0":
            continue
        for k in np.flatnonzero((plan.code[:, 0] & 0xFFFF) == FIRST_KERNEL + number):
            record = plan.aux[plan.code[k, 4] :]
            sizes = dict(zip(op.letters, map(int, record[4 : 4 + len(op.letters)]), strict=True))
            if scratch_cells(op, sizes) > record[3]:
                raise _failure(plan.tape, int(k), 5)


def scratch_cells(op: ArrayOp, sizes: dict[str, int]) -> int:
    """Return the cells of scratch that one batch element of an array op needs."""
    total = 0
    for term in op.scratch.replace(" ", "").split("+"):
        product = 1
        for factor in term.split("*"):
            product *= int(factor) if factor.isdigit() else sizes[factor]
        total += product
    return total


def check_tape(tape: Tape) -> None:
    """Check that every number on a tape refers to something; the plan's kernel relies on it."""
    code, values = tape.code, tape.values
    guards = code["op"] == GUARD

    def fail(bad, reason):
        if bad.any():
            raise VerificationError(f"instruction {int(np.flatnonzero(bad)[0])}: {reason}")

    fail(~guards & (code["op"] >= FIRST_KERNEL), "unknown op")
    arity = np.append(op_info()[:, 1], 2)[np.where(guards, len(OPS), code["op"] >> 1)]
    fail(~guards & ((code["out"] < 0) | (code["out"] >= len(values))), "the result is no value of this tape")
    for k, name in enumerate("abc"):
        needed = arity > k
        fail(needed & (code[name] < 0), f"operand {name} is missing")
        fail((code[name] >= len(values)) | (code[name] < -1), f"operand {name} is no value of this tape")
        fail(~needed & (code[name] >= 0) & ~guards, f"operand {name} is one too many")
    fail(~guards & ((code["aux"] < -1) | (code["aux"] >= len(values))), "the scratch is no value of this tape")
    fail(guards & ((code["aux"] < 0) | (code["aux"] >= len(tape.guards))), "the guard has no entry")
    rank = layout_tables(tape)[0][:, 1]
    fields = (("storage", len(tape.storages)), ("layout", len(tape.layouts)))
    for field, count in fields:
        if ((values[field] < 0) | (values[field] >= count)).any():
            raise VerificationError(f"a value's {field} is out of range")
    expressions = len(tape.sizes.rows)
    codes = [values["offset"], tape.storages["size"]]
    codes += [np.array(x, np.int64) for lay in tape.layouts for x in (lay.dims, lay.strides) if x]
    if any((array < -expressions).any() for array in codes):
        raise VerificationError("a size refers to an expression that is not there")
    core = op_info()[:, 3:7]
    for k, name in enumerate(("out", "a", "b", "c")):
        used = ~guards & (code[name] >= 0)
        has = rank[values["layout"][np.where(used, code[name], 0)]] if len(values) else np.zeros(len(code), int)
        need = core[np.where(used, code["op"] >> 1, 0), k]
        fail(used & (has < need), f"{name} has too few dimensions")
        out_batch = rank[values["layout"][np.where(used, code["out"], 0)]] if len(values) else has
        out_batch = out_batch - core[np.where(used, code["op"] >> 1, 0), 0]
        fail(used & (has - need > out_batch), f"{name} has more dimensions than the result")
    for name in POOLS_CHECK:
        if not 0 <= getattr(tape, name) <= len(code):
            raise VerificationError(f"the tape's {name} count is out of range")


POOLS_CHECK = ("prologue",)


def _failure(tape: Tape, instruction: int, reason: int) -> VerificationError:
    line = tape.line_of(instruction)
    where = f" ({line})" if line else ""
    return VerificationError(f"instruction {instruction}, {tape.name_of(instruction)}{where}: {REASONS[reason]}")


__all__ = ["F64", "POOLS", "Plan", "make_plan", "scratch_cells", "verify"]
