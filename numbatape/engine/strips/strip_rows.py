"""What strips need to know of an instruction over a vector (`numbatape.engine.strips.strip_blocks`)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...ops import OPS, ArrayOp, Elementwise
from ...ops.reduce import BLOCK as STRIP
from ...tape import Tape
from ...tape.instruction import NONE
from ...tape.tape import F64, FAMILIES, POOLS
from ..codegen import FIRST_KERNEL, record_fields
from ..frame import CELL_A, CELL_B, CELL_O, COUNT_WORD, STRIDE
from ..plan_tables import CORE_HEAD, CORE_THIRD, LOOP_COUNT, LOOP_HEAD, LOOP_STRIDES, LOOP_THIRD
from ..vectors import FIRST_VECTOR, SINGLE_OPCODES, STRIP_OPCODE, vector_arms
from .strip_kernels import total_kind

LEAST = 16 * STRIP  # shorter vectors stay in the cache as a whole, and do not run strip by strip


@dataclass(frozen=True)
class Operand:
    """An operand or the result of an instruction over a vector.

    Attributes
    ----------
    letter
        "o", "a", "b" or "c".
    value
        Its number on the tape.
    cell, step
        Its first cell, and the cells between one entry and the next; 0 for one cell.
    place
        The word that holds the first cell: a word of the instruction or, from ``STRIDE`` on, of its record.
    """

    letter: str
    value: int
    cell: int
    step: int
    place: int


@dataclass(frozen=True)
class VectorRow:
    """What strips need to know of an instruction over a vector.

    Attributes
    ----------
    cells
        The length of the vector.
    count
        The word that holds this length.
    record
        The words of its record, none for arms without one.
    out, operands
        Result and operands.
    adds
        Whether the result is one cell, which follows from its results for parts of the vector.
    single
        The opcode that a block has in the instruction's place, if there is one for a strip of float32 cells,
        for a part, or for this and the next instruction.
    op
        The name of its op, if its cells are of float64.
    second
        The result of the next instruction, if this one computes both.
    done
        Whether the instruction before computes its result.
    total
        What its results for the parts become (`total_kind`).
    family
        Of the cells of its result.
    clears
        For additions at positions, how many cells of the result are zeros before the first part.
    """

    cells: int
    count: int
    record: range
    out: Operand
    operands: tuple[Operand, ...]
    adds: bool
    single: int | None = None
    op: str = ""
    second: Operand | None = None
    done: bool = False
    total: int = 0
    family: int = F64
    clears: int = 0

    @property
    def gathers_all(self) -> bool:
        """Whether the result is known only behind the last strip."""
        return self.adds or self.clears > 0

    @property
    def in_block(self) -> tuple[int, range]:
        """The word that holds the length, and the words of the record, in a block."""
        if self.done or (self.single is not None and not self.gathers_all):
            return COUNT_WORD, range(0)
        return self.count, self.record


_ARMS = [(op, pattern) for _, op, pattern in vector_arms()]


def vector_row(tape: Tape, code: np.ndarray, aux: np.ndarray, k: int) -> VectorRow | None:
    """Return what strips need to know of an instruction; None if it is not one over a single vector."""
    word, o, a, b, last, _ = code[k].tolist()
    number, family, clears, third = word & 0xFFFF, F64, 0, LOOP_THIRD
    if number >= FIRST_VECTOR:
        if number >= STRIP_OPCODE:  # the instruction runs a block itself, or is a guard
            return None
        op, pattern = _ARMS[number - FIRST_VECTOR]
        steps = [1, *(int(kind == "v") for kind in pattern)]
        record = range(last, last + LOOP_HEAD) if op.arity == 3 else range(0)
    elif number >= FIRST_KERNEL:
        table_row, family = divmod(number - FIRST_KERNEL, len(FAMILIES))
        op = OPS[table_row]
        if aux[last] != 0:
            return None
        if isinstance(op, Elementwise):
            record = range(last, last + LOOP_HEAD)
            steps = aux[last + LOOP_STRIDES : last + LOOP_STRIDES + 1 + op.arity].tolist()
        elif op.adds_parts or (op.cut and _are_within(tape, k, op, aux, last)):
            sizes, strides = record_fields(op)
            record = range(last, last + CORE_HEAD + len(sizes) + len(strides))
            fields = dict(
                zip(sizes + strides, aux[record.start + CORE_HEAD : record.stop].tolist(), strict=True)
            )
            axis, third = op.cut or sizes[0], CORE_THIRD
            clears = fields["m"] if op.adds_at else 0
            groups = zip("oabc", op.operands, strict=False)
            steps = [fields[f"s{name}0"] if axis in group else 0 for name, group in groups]
        else:
            return None
    else:
        return None
    is_core = not isinstance(op, Elementwise)
    adds = is_core and not op.cut
    if record:
        place = CORE_HEAD + sizes.index(axis) if is_core else LOOP_COUNT
        count, cells = STRIDE + place, int(aux[last + place])
    else:
        count, cells = COUNT_WORD, last
    firsts = [o, a, b, int(aux[last + third]) if op.arity == 3 else 0]
    places = (CELL_O, CELL_A, CELL_B, STRIDE + third)
    row = tape.code[k]
    found = []
    for letter, name, first, step, place in zip(
        "oabc", ("out", "a", "b", "c"), firsts, steps, places, strict=False
    ):
        value = int(row[name])
        found.append(Operand(letter, int(row["a"]) if value == NONE else value, first, step, place))
    if not (adds or clears) and found[0].step != 1:
        return None
    pattern = "" if adds or clears else "".join("sv"[step] if step in (0, 1) else "-" for step in steps[1:])
    single = SINGLE_OPCODES.get((op.name, pattern, family))
    name, total = op.name if family == F64 else "", total_kind(op, family) if adds else 0
    return VectorRow(
        cells,
        count,
        record,
        found[0],
        tuple(found[1:]),
        adds,
        single,
        name,
        total=total,
        family=family,
        clears=clears,
    )


def _are_within(tape: Tape, k: int, op: ArrayOp, aux: np.ndarray, last: int) -> bool:
    """Whether the positions of an instruction are numbers of the tape, and within bounds.

    Strips cannot say which position is not: the instruction stands alone then, and fails. Additions count no
    position from the end, and begin with zeros.
    """
    (letter,) = op.index
    sizes = dict(zip(op.letters, aux[last + CORE_HEAD :].tolist(), strict=False))
    numbers = _numbers_of(tape, int(tape.code[letter][k]))
    if numbers is None or numbers.size < sizes[op.cut]:
        return False
    if not op.adds_at:
        return bool(((numbers >= -sizes["m"]) & (numbers < sizes["m"])).all())
    begins = None if op.arity < 3 else _numbers_of(tape, int(tape.code["a"][k]))
    from_zeros = op.arity < 3 or (begins is not None and not (begins.any() or np.signbit(begins).any()))
    return from_zeros and bool(((numbers >= 0) & (numbers < sizes["m"])).all())


def _numbers_of(tape: Tape, value: int) -> np.ndarray | None:
    """Return the numbers of the storage of a value if the tape has them, and no instruction writes there."""
    storages = tape.values["storage"]
    its = int(storages[value])
    found = [item for item in tape.literals if item.storage == its]
    if its < len(POOLS) or len(found) != 1 or its in storages[tape.code["out"]] or found[0].offset:
        return None
    return found[0].data


def long_rows(tape: Tape, code: np.ndarray, aux: np.ndarray) -> dict[int, VectorRow]:
    """Return the instructions over vectors that are worth strips, by their numbers."""
    found = {}
    for k in range(tape.prologue, len(code)):
        row = vector_row(tape, code, aux, k)
        if row is not None and row.cells >= LEAST:
            found[k] = row
    return found
