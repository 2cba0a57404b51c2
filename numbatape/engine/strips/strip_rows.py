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
from ..vectors import FIRST_VECTOR, KNOWN, ROWS, SINGLE_OPCODES, STRIP_OPCODE, SUMS, single_arms, vector_arms
from .strip_kernels import total_kind

LEAST = 16 * STRIP  # shorter vectors stay in the cache as a whole, and do not run strip by strip

EITHER = "either"  # where positions count from, if not all from the first entry
MOST_COLUMNS = 256  # of a wider matrix, a strip does not stay in the second cache until it is read again


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
        For additions at positions and sums of products, how many cells of the result are zeros before the
        first part.
    follows
        Of a product, the words of its record that may change with the vector's length although the rows of
        its matrix stay as far apart.
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
    follows: tuple[int, ...] = ()

    @property
    def gathers_all(self) -> bool:
        """Whether the result is known only behind the last strip."""
        return self.adds or self.clears > 0

    @property
    def has_record(self) -> bool:
        """Whether its kernel in a block reads a record, although it gathers nothing."""
        return self.single in _WITH_RECORDS

    @property
    def is_product(self) -> bool:
        """Whether it is a product of a matrix with a vector."""
        return self.single in _PRODUCTS

    @property
    def in_block(self) -> tuple[int, range]:
        """The word that holds the length, and the words of the record, in a block."""
        if self.done or (self.single is not None and not (self.gathers_all or self.has_record)):
            return COUNT_WORD, range(0)
        return self.count, self.record


_WITH_RECORDS = [opcode for opcode, _, kind, _ in single_arms() if kind in (ROWS, SUMS, KNOWN)]
_PRODUCTS = [opcode for opcode, _, kind, _ in single_arms() if kind in (ROWS, SUMS)]
_ARMS = [(op, pattern) for _, op, pattern in vector_arms()]


def vector_row(tape: Tape, code: np.ndarray, aux: np.ndarray, k: int) -> VectorRow | None:
    """Return what strips need to know of an instruction; None if it is not one over a single vector."""
    word, o, a, b, last, _ = code[k].tolist()
    number, family, clears, third = word & 0xFFFF, F64, 0, LOOP_THIRD
    kind, follows = "", ()
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
        elif op.adds_parts or op.part_of_rows or (op.cut and (ends := _ends_of(tape, k, op, aux, last))):
            sizes, strides = record_fields(op)
            record = range(last, last + CORE_HEAD + len(sizes) + len(strides))
            fields = dict(
                zip(sizes + strides, aux[record.start + CORE_HEAD : record.stop].tolist(), strict=True)
            )
            axis, third = op.cut or sizes[0], CORE_THIRD
            clears = fields["m"] if op.adds_at else 0
            if op.cut:
                kind = "" if op.adds_at else ends
            if op.part_of_rows:
                cut = _cut_of_product(**fields)
                if cut is None:
                    return None
                kind, axis, free = cut
                clears = fields["m"] * fields["n"] if kind == SUMS else 0
                names = sizes + strides
                follows = tuple(record.start + CORE_HEAD + names.index(name) for name in free)
            groups = zip("oabc", op.operands, strict=False)
            steps = [fields[f"s{name}{group.index(axis)}"] if axis in group else 0 for name, group in groups]
        else:
            return None
    else:
        return None
    is_core = not isinstance(op, Elementwise)
    adds = is_core and not (op.cut or kind)
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
    if not is_core:
        kind = "".join("sv"[step] if step in (0, 1) else "-" for step in steps[1:])
    single = SINGLE_OPCODES.get((op.name, kind, family))
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
        follows=follows,
    )


def _cut_of_product(m, k, n, so0, so1, sa0, sa1, sb0, sb1) -> tuple[str, str, list[str]] | None:
    """Return how strips cut a product of a vector with a long matrix of few columns; None if they do not.

    They cut where the kernels for parts add up in the order of `multiply`: matrices of contiguous rows or
    columns.

    Returns
    -------
    kind, axis, free
        Which kernel is that for a part, the letter of the axis that is cut, and the strides that may change
        with its length: that between columns, and those of axes of one entry.
    """
    if n == 1:
        axis, long, step, row, column, vector = "m", m, so0, sa0, sa1, sb0
        names, free = ("sa0", "sa1"), ["so1", "sb1"]
    else:
        axis, long, step, row, column, vector = "n", n, so1, sb1, sb0, sa1
        names, free = ("sb1", "sb0"), ["so0", "sa0"]
    if (n > 1 and m > 1) or step != 1 or not 2 <= min(long, k) <= MOST_COLUMNS:
        return None
    kind, near, far = (ROWS, column, row) if long >= k else (SUMS, row, column)
    if near != 1:  # the matrix is contiguous along what is cut, and its other stride follows the length
        free.append(names[kind == ROWS])
    if 1 not in (near, far) or (vector != 1 and (kind == ROWS or near != 1)):
        return None
    return kind, axis if kind == ROWS else "k", free


def _ends_of(tape: Tape, k: int, op: ArrayOp, aux: np.ndarray, last: int) -> str:
    """Return where positions count from that are numbers of the tape, and within bounds; else "".

    Strips cannot say which position is not: the instruction stands alone then, and fails. Additions count no
    position from the end, and begin with zeros.
    """
    (letter,) = op.index
    sizes = dict(zip(op.letters, aux[last + CORE_HEAD :].tolist(), strict=False))
    numbers = _numbers_of(tape, int(tape.code[letter][k]))
    if numbers is None or numbers.size < sizes[op.cut] or not (numbers < sizes["m"]).all():
        return ""
    is_known = bool((numbers >= 0).all())
    if not op.adds_at:
        return KNOWN if is_known else EITHER if (numbers >= -sizes["m"]).all() else ""
    begins = None if op.arity < 3 else _numbers_of(tape, int(tape.code["a"][k]))
    from_zeros = op.arity < 3 or (begins is not None and not (begins.any() or np.signbit(begins).any()))
    return KNOWN if from_zeros and is_known else ""


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
