"""What must hold before anything runs: checked on the tape with NumPy, on the plan by a kernel.

A tape that passes `check_tape` keeps these rules, on which `verify_kernels` builds its proof:

* every number refers to something, and operands have the dimensions that their op wants;
* the scratch of an array op is a storage that nothing else touches: LU pivots and permutations are
  kept there between the sweeps, and kernels follow them unchecked;
* positions (the index operand of a gather, the table of a Fourier transform) are not written after they
  were checked by the kernel: the reverse sweep reads them again;
* the number of a call is a literal that nothing writes to, of a rule that is there and of that dtype;
* inputs and outputs are contiguous: they are copied and seeded as one run of cells.
"""

from __future__ import annotations

import functools
import inspect
import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .. import jit
from ..errors import VerificationError
from ..ops import OPCODE, OPS, ArrayOp
from ..tape import Tape
from ..tape.tape import FAMILIES, GUARD, LEVELS, NONE, POOLS
from . import plan_kernels as names
from .chain import register_flags
from .codegen import FIRST_KERNEL
from .vectors import first_opcodes

if TYPE_CHECKING:
    from .plan import Plan

REASONS = (
    "",
    "dimensions of the operands differ",
    "not the op that the tape names",
    "an operand reaches outside of its storage",
    "an adjoint where there is none",
    "the instruction's record is damaged",
    "an operand has another dtype",
)
PLAIN_WORD = 0x7FFFF  # op and active operands of a plan's word 0
OPERANDS = ("out", "a", "b", "c")
MOST_DIMENSIONS = 62  # the plan's kernel keeps a set of axes in 64 bits


@functools.cache
def op_info(values: str = "fast") -> np.ndarray:
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
            if "so0" in inspect.signature(op.forward).parameters:
                row[19] |= 1 << names.FREE_STRIDES
        else:
            row[0] = names.CAST if op.name == "cast" else names.HOT if op.is_hot(values) else names.LOOP
            row[names.VECTOR] = first_opcodes().get(k, 0)
            row[19] = sum(1 << j for j, partial in enumerate(op.partials) if partial is not None)
    return table


@functools.cache
def plan_functions():
    """Return the kernels ``derive`` and ``verify``."""
    here = Path(__file__).parent
    texts = [(here / name).read_text() for name in ("plan_kernels.py", "verify_kernels.py")]
    texts = [re.sub(r"^from \S+ import (\([^)]*\)|.*)\n", "", text, flags=re.MULTILINE) for text in texts]
    kernels = jit.load("plan", "# cells: f64\n" + "\n".join(texts))
    return kernels.function("derive"), kernels.function("verify")


def evaluated(codes: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return the values of size codes."""
    if not len(sizes):
        return codes.astype(np.int64)
    return np.where(codes < 0, sizes[np.where(codes < 0, -codes - 1, 0)], codes)


def storage_sizes(tape: Tape, sizes: np.ndarray) -> np.ndarray:
    """Return the cells of each storage."""
    return evaluated(tape.storages["size"], sizes)


def storage_table(tape: Tape, sizes, bases) -> np.ndarray:
    """Return (first cell, end, family, level) of each storage, as the kernels read it."""
    table = np.empty((len(bases), 4), np.int64)
    table[:, 0], table[:, 1] = bases, bases + storage_sizes(tape, sizes)
    table[:, 2], table[:, 3] = tape.storages["family"], tape.storages["level"]
    return table


def failure(tape: Tape, instruction: int, reason: int | str) -> VerificationError:
    """Return the error that names an instruction, its source line and the reason."""
    line = tape.line_of(instruction)
    where = f" ({line})" if line else ""
    text = reason if isinstance(reason, str) else REASONS[reason]
    return VerificationError(f"instruction {instruction}, {tape.name_of(instruction)}{where}: {text}")


# ---- the tape


@functools.cache
def op_names() -> tuple[str, ...]:
    return tuple(op.name for op in OPS)


def check_tape(tape: Tape) -> None:
    """Check every number on a tape; the plan's kernels rely on it.

    Raises
    ------
    VerificationError
        Names the instruction and the reason.
    """
    if tape.names != op_names():
        raise VerificationError("the tape was made with another op table")
    for what in ("prologue", "uniform"):
        if not 0 <= getattr(tape, what) <= len(tape):
            raise VerificationError(f"the tape's {what} count is out of range")
    _check_tables(tape)
    _check_instructions(tape)
    _check_ownership(tape)
    _check_calls(tape)


def _check_tables(tape: Tape) -> None:
    values, expressions = tape.values, len(tape.sizes.rows)
    for field, count in (("storage", len(tape.storages)), ("layout", len(tape.layouts))):
        if ((values[field] < 0) | (values[field] >= count)).any():
            raise VerificationError(f"a value's {field} is out of range")
    if (tape.storages["family"] >= len(FAMILIES)).any() or (tape.storages["level"] >= len(LEVELS)).any():
        raise VerificationError("a storage has an unknown dtype or level")
    if any(len(layout.dims) != len(layout.strides) for layout in tape.layouts):
        raise VerificationError("a layout has not one stride a dimension")
    if any(len(layout.dims) > MOST_DIMENSIONS for layout in tape.layouts):
        raise VerificationError("a layout has too many dimensions")
    slots = np.array([code for slot in tape.inputs for code in slot.dims], np.int64)
    codes = (values["offset"], tape.storages["size"], slots, *tape.layout_tables[1:])
    if any((array < -expressions).any() for array in codes):
        raise VerificationError("a size refers to an expression that is not there")
    ends = [slot.value for slot in tape.inputs] + list(tape.outputs)
    if any(not 0 <= value < len(values) for value in ends):
        raise VerificationError("an input or output is no value of this tape")
    if len(tape.positions) != len(tape) or (tape.positions >= len(tape.lines)).any():
        raise VerificationError("an instruction's source line is out of range")
    if any(not 0 <= item.storage < len(tape.storages) for item in tape.literals):
        raise VerificationError("a literal's storage is out of range")


def _check_instructions(tape: Tape) -> None:
    code, values = tape.code, tape.values
    guards = code["op"] == GUARD
    operands = np.array([code[name] for name in OPERANDS])
    aux = code["aux"]

    def fail(bad, reason):
        """Raise for the first bad instruction; a row an operand names the operand too."""
        if bad.any():
            which, k = np.argwhere(np.atleast_2d(bad))[0]
            raise VerificationError(f"instruction {k}: {reason.format(OPERANDS[which])}")

    fail(~guards & (code["op"] >= FIRST_KERNEL), "unknown op")
    info = op_info()[np.where(guards, 0, code["op"] >> 1)].T
    given = operands >= 0
    wanted = np.arange(4)[:, None] <= np.where(guards, 2, info[1])
    wanted[0] = ~guards
    fail(wanted & ~given, "{} is missing")
    fail(given & ~wanted, "{} is one too many")
    fail((operands >= len(values)) | (operands < NONE), "{} is no value of this tape")
    fail((aux < np.where(guards, 0, NONE)), "the guard has no entry, or the scratch is no value")
    fail(aux >= np.where(guards, len(tape.guards), len(values)), "the guard or the scratch is not there")
    if not len(values):
        return
    rank = tape.layout_tables[0][:, 1][values["layout"]]
    own = rank[operands] - info[3:7]
    used = given & ~guards
    fail(used & (own < 0), "{} has too few dimensions")
    fail(used & (own > own[0]), "{} has more dimensions than the result")
    fail(~guards & (aux >= 0) & (rank[np.where(guards, 0, aux)] < 1), "the scratch is a scalar")


def _check_ownership(tape: Tape) -> None:
    """Check that nothing touches scratch but its owner, nor writes positions that were checked."""
    code, storage = tape.code, tape.values["storage"]
    calls = code["op"] != GUARD
    scratch = np.flatnonzero(calls & (code["aux"] >= 0))
    if len(scratch):
        owned = storage[code["aux"][scratch]]
        touched = np.zeros(len(tape.storages) + 1, int)
        for name in OPERANDS:
            touched[storage[code[name][code[name] >= 0]]] = 1
        touched[[int(storage[v]) for v in tape.outputs]] = 1
        touched[[int(storage[slot.value]) for slot in tape.inputs]] = 1
        touched[[item.storage for item in tape.literals]] = 1
        touched[: len(POOLS)] = 1
        np.add.at(touched, owned, 1)
        bad = touched[owned] > 1
        if bad.any():
            raise failure(tape, int(scratch[bad][0]), "the scratch is not the instruction's own")
    indexed = np.where(calls, op_info()[np.where(calls, code["op"] >> 1, 0), 19] >> 8, 0) & 7
    if not indexed.any():
        return
    group, calls = _groups(tape), np.flatnonzero(calls)
    written = np.full(group.max() + 1, -1)
    np.maximum.at(written, group[code["out"][calls]], calls)
    for j, name in enumerate("abc"):
        index = np.flatnonzero(indexed >> j & 1)
        bad = written[group[code[name][index]]] >= index
        if bad.any():
            raise failure(tape, int(index[bad][0]), "its positions are overwritten later")


def call_numbers(tape: Tape) -> dict[int, int | None]:
    """Return the number of the rule that each ``call`` calls; None if it is not a literal that stays."""
    code = tape.code
    places = np.flatnonzero((code["op"] != GUARD) & (code["op"] >> 1 == OPCODE["call"]))
    if not len(places):
        return {}
    operands = tape.values[code["c"][places]]
    ends = np.array([slot.value for slot in tape.inputs], np.int64)
    written = tape.values[np.append(code["out"][code["op"] != GUARD], ends)]
    written = written[np.isin(written["storage"], operands["storage"])]
    changed = {(s, o if s < len(POOLS) else 0) for s, o in zip(*_address(written), strict=True)}
    numbers: dict[tuple[int, int], float] = {}
    for item in tape.literals:
        if item.storage in operands["storage"]:
            cells = range(item.offset, item.offset + item.data.size)
            numbers |= zip(
                [(item.storage, cell) for cell in cells], item.data.reshape(-1).tolist(), strict=True
            )
    found: dict[int, int | None] = {}
    for k, place, layout in zip(
        places.tolist(), zip(*_address(operands), strict=True), operands["layout"], strict=True
    ):
        stays = (place[0], place[1] if place[0] < len(POOLS) else 0) not in changed
        number = numbers.get(place, -1.0) if stays and not tape.layouts[layout].dims else -1.0
        found[k] = int(number) if number in range(len(tape.calls)) else None
    return found


def _address(values: np.ndarray) -> tuple[list[int], list[int]]:
    return values["storage"].tolist(), values["offset"].tolist()


def _check_calls(tape: Tape) -> None:
    """Check that each call's number is known, and names a rule that takes cells of this dtype."""
    for k, number in call_numbers(tape).items():
        if number is None:
            raise failure(tape, k, "its number is no literal, or there is no such rule")
        if tape.calls[number].family != tape.code["op"][k] & 1:
            raise failure(tape, k, names.OTHER_DTYPE)


def _groups(tape: Tape) -> np.ndarray:
    """Number what is written apart: each scalar of the pools, each other storage."""
    storage, offset = tape.values["storage"].astype(np.int64), tape.values["offset"]
    return np.unique(
        np.where(storage < len(POOLS), storage << 32 | offset, storage << 32), return_inverse=True
    )[1]


# ---- the plan


def verify(plan: Plan, storages: np.ndarray | None = None) -> None:
    """Prove that every instruction stays inside the storages that the tape gives it.

    Raises
    ------
    VerificationError
        Names the instruction and the reason.
    """
    tape = plan.tape
    code, aux = np.ascontiguousarray(plan.code), np.ascontiguousarray(plan.aux)
    rows = np.ascontiguousarray(tape.code).view(np.int32)
    values = np.ascontiguousarray(tape.values).view(np.int32)
    if storages is None:
        storages = storage_table(tape, plan.sizes, plan.bases)
    w = np.zeros(32, np.int64)
    words = {
        names.TAPE: rows,
        names.VALUES: values,
        names.SIZE_VALUES: plan.sizes,
        names.STORAGES: storages,
        names.OP_INFO: op_info(plan.values),
        names.ENGINE_CODE: code,
        names.ENGINE_AUX: aux,
    }
    for word, array in words.items():
        w[word] = array.ctypes.data
    w[names.ROWS], w[names.AUX_USED] = len(code), len(aux)
    w[names.OP_COUNT], w[names.SPLIT_AT] = FIRST_KERNEL, plan.prologue
    reason = plan_functions()[1](w.ctypes.data, 0)
    if reason:
        raise failure(tape, int(w[names.BAD]), reason)
    flags = code[:, 0] & ~PLAIN_WORD
    wrong = np.flatnonzero(flags != register_flags(code, plan.prologue))
    if wrong.size:
        raise failure(tape, int(wrong[0]), "the register flags are not what the operands say")
    _verify_extents(plan)
    _verify_ends(plan, storages)


def _verify_extents(plan: Plan) -> None:
    """Check core sizes against what array ops, and the rules that are called, make of them."""
    called = call_numbers(plan.tape)
    for number in plan.kernels:
        op = OPS[number >> 1]
        if not isinstance(op, ArrayOp) or (op.scratch == "0" and op.extents == "True" and op.name != "call"):
            continue
        for k in np.flatnonzero((plan.code[:, 0] & 0xFFFF) == FIRST_KERNEL + number):
            record = plan.aux[plan.code[k, 4] :]
            sizes = dict(zip(op.letters, map(int, record[4 : 4 + len(op.letters)]), strict=True))
            if scratch_cells(op, sizes) > record[3] or not extents_hold(op, sizes):
                raise failure(plan.tape, int(k), names.BAD_RECORD)
            if op.name == "call":
                rule = plan.tape.calls[called[int(k)] or 0]
                if any(sizes[letter] < cells for letter, cells in zip("mnp", rule.cells, strict=True)):
                    raise failure(plan.tape, int(k), "the rule needs longer operands")


def extents_hold(op: ArrayOp, sizes: dict[str, int]) -> bool:
    """Whether core sizes are as the op's kernels rely on."""
    return bool(eval(_condition(op.extents), {"min": min}, dict(sizes)))


@functools.cache
def _condition(text: str):
    return compile(text, "<extents>", "eval")


def scratch_cells(op: ArrayOp, sizes: dict[str, int]) -> int:
    """Return the cells of scratch that one batch element of an array op needs."""
    total = 0
    for term in op.scratch.replace(" ", "").split("+"):
        product = 1
        for factor in term.split("*"):
            product *= int(factor) if factor.isdigit() else sizes[factor]
        total += product
    return total


def _verify_ends(plan: Plan, storages) -> None:
    """Check inputs, outputs and literals, which Python and the entry points touch."""
    tape = plan.tape
    for what, values in (("input", [slot.value for slot in tape.inputs]), ("output", tape.outputs)):
        for number, value in enumerate(values):
            storage = int(tape.values["storage"][value])
            first, end = storages[storage, :2]
            # Dense, in whatever order of axes: what a seed or a copy runs over is the value's own.
            expected = 0 if 0 in plan.shape(value) else 1
            axes = [(s, n) for n, s in zip(plan.shape(value), plan.strides(value), strict=True) if n > 1]
            for stride, n in sorted(axes) if expected else []:
                if stride != expected:
                    raise VerificationError(f"{what} {number} is not contiguous")
                expected *= n
            cell = plan.cell(value)[1]
            if expected and not (first <= cell and cell + expected <= end):
                raise VerificationError(f"{what} {number} reaches outside of its storage")
    for slot in tape.inputs:
        family, level = storages[int(tape.values["storage"][slot.value]), 2:]
        if (family, level) != (slot.family, slot.level) or plan.shape(slot.value) != tuple(
            map(plan.size, slot.dims)
        ):
            raise VerificationError("an input's storage has another dtype, level or shape")
    for item in tape.literals:
        first, end = storages[item.storage, :2]
        if item.offset < 0 or first + item.offset + item.data.size > end:
            raise VerificationError("a literal reaches outside of its storage")
