"""What must hold for a tape before anything is derived from it; `verify_plan` proves the rest for its plan.

A tape that passes `check_tape` keeps these rules, on which the proof is built:

* every number refers to something, and operands have the dimensions that their op wants;
* the scratch of an array op is a storage that nothing else touches: LU pivots and permutations are
  kept there between the sweeps, and kernels follow them unchecked;
* positions (the index operand of a gather, the table of a Fourier transform) are not written to after the
  kernel has checked them, because the reverse sweep reads them again;
* the number of a call is a literal that nothing writes to, and the number of a rule of the tape with that
dtype.
"""

from __future__ import annotations

import functools
import itertools

import numpy as np

from ..errors import VerificationError
from ..ops import OPS, ROWS, ArrayOp
from ..ops.table import parameters
from ..tape import Tape
from ..tape.combinations import flatnonzero
from ..tape.instruction import GUARD, INSTRUCTION, NONE, value_numbers
from ..tape.tape import F32, FAMILIES, LEVELS, MOST_DIMENSIONS, POOLS, STORAGE, VALUE
from . import plan_tables as names
from .codegen import FIRST_KERNEL
from .frame import OPERANDS_MASK
from .vectors import first_opcodes

REASONS = (
    "",
    "dimensions of the operands differ",
    "not the op that the tape names",
    "an operand reaches outside of its storage",
    "an adjoint where there is none",
    "the instruction's record is damaged",
    "an operand has another dtype",
)
OPERANDS = ("out", "a", "b", "c")
GUARDS_OPERANDS = 0b0110  # the operands of a guard, as bits of their places in OPERANDS: it has no result


@functools.cache
def op_info(values: str) -> np.ndarray:
    """Return the op table for ``Config(values=...)`` as integers: a row of `plan_tables.INFO` words per op.

    The words that `check_tape` reads are the same for all choices of ``values``.
    """
    vectors = first_opcodes()
    table = np.zeros((len(OPS), names.INFO), np.int32)
    for k, op in enumerate(OPS):
        row = table[k]  # its first word is the kind of the op
        row[names.ARITY] = op.arity
        if isinstance(op, ArrayOp):
            row[0], row[names.LETTERS] = names.CORE, len(op.letters)
            for which, group in enumerate(op.operands):
                row[names.CORE_RANKS + which] = len(group)
                for axis, letter in enumerate(group):
                    at = names.LETTER_NUMBERS + names.MOST_LETTERS * which + axis
                    row[at] = op.letters.index(letter)
            for j, name in enumerate("abc"[: op.arity]):
                if name in op.index:
                    row[names.FLAGS] |= 1 << (names.POSITIONS + j)
                elif op.reverse is not None:
                    row[names.FLAGS] |= 1 << j  # bit j says that operand j may take an adjoint
            if "so0" in parameters(op.forward):
                row[names.FLAGS] |= 1 << names.FREE_STRIDES
        else:
            row[0] = names.CAST if op.casts else names.HOT if op.is_hot(values) else names.LOOP
            row[names.VECTOR] = vectors.get(k, 0)
            row[names.FLAGS] = sum(1 << j for j, partial in enumerate(op.partials) if partial is not None)
    return table


@functools.cache
def _operand_bits() -> np.ndarray:
    """Return for each op which of the result and the operands its instructions have, as bits."""
    return ((2 << op_info("fast")[:, names.ARITY]) - 1).astype(np.uint8)


@functools.cache
def _core_ranks() -> np.ndarray:
    """Return for each op the least number of dimensions of the result and the operands: an op in each row."""
    return op_info("fast")[:, names.CORE_RANKS : names.CORE_RANKS + len(OPERANDS)].astype(np.int8)


def failure(tape: Tape, instruction: int, reason: int | str) -> VerificationError:
    """Return the error that names an instruction, its source line and the reason."""
    line = tape.line_of(instruction)
    where = f" ({line})" if line else ""
    text = reason if isinstance(reason, str) else REASONS[reason]
    return VerificationError(f"instruction {instruction}, {tape.name_of(instruction)}{where}: {text}")


def check_tape(tape: Tape) -> None:
    """Check every number on a tape; the plan's kernels rely on it.

    Raises
    ------
    VerificationError
        Names the instruction and the reason.
    """
    if tape.ops is not ROWS:
        raise VerificationError("the tape was made with another op table")
    for what in ("prologue", "uniform"):
        if not 0 <= getattr(tape, what) <= len(tape):
            raise VerificationError(f"the tape's {what} count is out of range")
    _check_tables(tape)
    _check_instructions(tape)
    _check_ownership(tape)
    _check_calls(tape)


def _check_tables(tape: Tape) -> None:
    """Raise unless all numbers in a tape's tables refer to rows that are there."""
    codes = _check_numbers(tape)
    values, expressions = tape.values, len(tape.sizes.rows)
    for field, count in (("storage", len(tape.storages)), ("layout", len(tape.layouts))):
        if np.count_nonzero((values[field] < 0) | (values[field] >= count)):
            raise VerificationError(f"a value's {field} is out of range")
    storages = tape.storages
    if np.count_nonzero((storages["family"] >= len(FAMILIES)) | (storages["level"] >= len(LEVELS))):
        raise VerificationError("a storage has an unknown dtype or level")
    for layout in tape.layouts:
        if len(layout.dims) != len(layout.strides):
            raise VerificationError("a layout has not one stride a dimension")
        if len(layout.dims) > MOST_DIMENSIONS:
            raise VerificationError("a layout has too many dimensions")
    least = min(codes, default=0)
    for array in (values["offset"], storages["size"]):
        least = min(least, int(array.min(initial=0)))
    if least < -expressions:
        raise VerificationError("a size refers to an expression that is not there")
    ends = [slot.value for slot in tape.inputs] + list(tape.outputs)
    if ends and not 0 <= min(ends) <= max(ends) < len(values):
        raise VerificationError("an input or output is no value of this tape")
    if len(tape.positions) != len(tape) or np.count_nonzero(tape.positions >= len(tape.lines)):
        raise VerificationError("an instruction's source line is out of range")
    if any([guard.position >= len(tape.lines) for guard in tape.guards]):
        raise VerificationError("a guard's source line is out of range")
    if any([not 0 <= item.storage < len(storages) for item in tape.literals]):
        raise VerificationError("a literal's storage is out of range")


def _check_numbers(tape: Tape) -> list[int]:
    """Check that the numbers in the tables fit their words, in which all later checks compute.

    The result are the size codes of inputs, layouts and size guards.

    Python's integers have no bounds: an array of 32-bit words made from too large ones would raise an
    `OverflowError`, and a sum in 64 bits could become negative.
    """
    for name, dtype in (("code", INSTRUCTION), ("values", VALUE), ("storages", STORAGE)):
        array = getattr(tape, name)
        if array.dtype != dtype or array.ndim != 1:
            raise VerificationError(f"the tape's table {name} is made of other words")
    codes = itertools.chain(
        *(slot.dims for slot in tape.inputs),
        *((*layout.dims, *layout.strides) for layout in tape.layouts),
        *((guard.left, guard.right) for guard in tape.sizes.guards),
    )
    found = list(codes)
    if max(found, default=0) > names.LIMIT or min(found, default=0) < -names.LIMIT:
        raise VerificationError("a dimension or stride: more cells than 32-bit offsets can address")
    for item in tape.literals:
        if item.data.ndim != 1 or item.data.dtype.kind not in "biuf":
            raise VerificationError("a literal is no row of real numbers")
        if not 0 <= item.offset <= names.LIMIT:
            raise VerificationError("a literal reaches outside of its storage")
    return found


def _check_instructions(tape: Tape) -> None:
    """Check that each instruction has a known op, the operands that this op takes, and enough axes."""
    code, values = tape.code, tape.values
    guards = code["op"] == GUARD
    row = np.where(guards, 0, code["op"] >> 1)
    numbers = np.ascontiguousarray(value_numbers(code).T)
    operands, aux = numbers[: len(OPERANDS)], numbers[-1]

    def fail(bad, reason):
        """Raise for the first bad instruction; ``bad`` may have a bit for each operand, to be named, too."""
        if np.count_nonzero(bad):
            which, k = min((j, int(k)) for k in flatnonzero(bad) for j in range(4) if bad[k] >> j & 1)
            raise VerificationError(f"instruction {k}: {reason.format(OPERANDS[which])}")

    def bits(flags):
        # Each instruction gets a bit for each operand; np.packbits takes ten times as long.
        each = flags.view(np.uint8)
        return each[0] | each[1] << 1 | each[2] << 2 | each[3] << 3

    fail(~guards & (code["op"] >= FIRST_KERNEL), "unknown op")
    wide = ROWS.is_any(ROWS.with_trait("wide"), code["op"])
    fail(wide & (code["op"] & 1 == F32), "the op has no form for float32 cells")
    given = bits(operands >= 0)
    wanted = _operand_bits()[row]
    wanted[guards] = GUARDS_OPERANDS
    fail(wanted & ~given, "{} is missing")
    fail(given & ~wanted, "{} is one too many")
    if operands.max(initial=NONE) >= len(values) or operands.min(initial=NONE) < NONE:
        fail(bits((operands >= len(values)) | (operands < NONE)), "{} is no value of this tape")
    fail((aux < np.where(guards, 0, NONE)), "the guard has no entry, or the scratch is no value")
    fail(aux >= np.where(guards, len(tape.guards), len(values)), "the guard or the scratch is not there")
    if not len(values):
        return
    rank = tape.layout_tables[0][:, 1].astype(np.int8).take(values["layout"])
    own = rank.take(operands) - _core_ranks().take(row, axis=0).T
    used = np.where(guards, 0, given)
    fail(used & bits(own < 0), "{} has too few dimensions")
    fail(used & bits(own > own[0]), "{} has more dimensions than the result")
    fail(~guards & (aux >= 0) & (rank[np.where(guards, 0, aux)] < 1), "the scratch is a scalar")


def _check_ownership(tape: Tape) -> None:
    """Check that only its owner touches scratch, and that nothing writes to positions that were checked."""
    code, storage = tape.code, np.ascontiguousarray(tape.values["storage"])
    calls = code["op"] != GUARD
    scratch = flatnonzero(calls & (code["aux"] >= 0))
    if len(scratch):
        owned = storage[code["aux"][scratch]]
        touched = np.zeros(len(tape.storages) + 1, int)
        for name in OPERANDS:
            named = code[name]
            touched[storage.take(named[named >= 0])] = 1
        touched[[int(storage[v]) for v in tape.outputs]] = 1
        touched[[int(storage[slot.value]) for slot in tape.inputs]] = 1
        touched[[item.storage for item in tape.literals]] = 1
        touched[: len(POOLS)] = 1
        np.add.at(touched, owned, 1)
        bad = touched[owned] > 1
        if bad.any():
            raise failure(tape, int(scratch[bad][0]), "the scratch is not the instruction's own")
    flags = op_info("fast")[np.where(calls, code["op"] >> 1, 0), names.FLAGS]
    indexed = np.where(calls, flags >> names.POSITIONS, 0) & OPERANDS_MASK
    if not indexed.any():
        return
    group, calls = _groups(tape), flatnonzero(calls)
    written = np.full(group.max() + 1, -1)
    np.maximum.at(written, group[code["out"][calls]], calls)
    for j, name in enumerate("abc"):
        index = flatnonzero(indexed >> j & 1)
        bad = written[group[code[name][index]]] >= index
        if bad.any():
            raise failure(tape, int(index[bad][0]), "its positions are overwritten later")


def call_numbers(tape: Tape) -> dict[int, int | None]:
    """Return the number of the rule that each ``call`` calls; None if it is no literal, or is written to."""
    code = tape.code
    places = flatnonzero(ROWS.is_any(ROWS.with_trait("calls"), code["op"]))
    if not len(places):
        return {}
    operands = tape.values[code["c"][places]]
    ends = np.array([slot.value for slot in tape.inputs], np.int64)
    written = tape.values[np.append(code["out"][code["op"] != GUARD], ends)]
    written = written[np.isin(written["storage"], operands["storage"])]
    changed = {(s, o if s < len(POOLS) else 0) for s, o in zip(*_address(written), strict=True)}
    numbers: dict[tuple[int, int], float] = {}
    storages = {*operands["storage"].tolist()}
    for item in tape.literals:
        if item.storage in storages:
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
    """Number what is written separately: each scalar of the pools, each other storage."""
    storage, offset = tape.values["storage"].astype(np.int64), tape.values["offset"]
    return np.unique(
        np.where(storage < len(POOLS), storage << 32 | offset, storage << 32), return_inverse=True
    )[1]
