"""Arms of the dispatch chain for arithmetic on vectors: contiguous ones, and scalars beside them.

A kernel that is called by pointer takes 13 ns to decode its record and to find the loop for its strides,
and twice that in reverse; eight multiplications take 2. So the most frequent kinds of vectors have opcodes
of their own, one per op and pattern: the result and an operand ``v`` are contiguous float64 cells, an
operand ``s`` is one cell, word 4 is the number of cells. There is no record, except for the third operand
of a fused product and sum. Fused ops have no reverse arm: vectors of them only arise from lanes, which are
swept forward only, or else are split into two instructions again (`numbatape.derive.lanes`).
"""

from __future__ import annotations

from ..ops import OPCODE, OPS, ArrayOp, Elementwise
from ..tape.tape import F32, F64
from .codegen import FIRST_KERNEL
from .formula_text import product
from .frame import COUNT_WORD, RECORD_WORD
from .plan_tables import LOOP_COUNT, LOOP_THIRD

# The keys are arities. A pattern's place in its tuple is added to the opcode, and is the number of the
# operand that has one cell.
PATTERNS = {1: ("v",), 2: ("vv", "sv", "vs"), 3: ("vvv", "svv", "vsv", "vvs")}
FIRST_VECTOR = 2 * FIRST_KERNEL
# Patterns of array ops in blocks: products of a vector with a part of a matrix, and entries at positions that
# count from the first one and are known.
ROWS, SUMS, KNOWN = "rows", "sums", "known"


def vector_arms() -> list[tuple[int, Elementwise, str]]:
    """Return (opcode, row, pattern) of every vector arm."""
    rows = [op for op in OPS if isinstance(op, Elementwise) and op.vector_arm is not None]
    rows.sort(key=lambda op: op.vector_arm)
    arms = [(op, pattern) for op in rows for pattern in PATTERNS[op.arity]]
    return [(FIRST_VECTOR + k, op, pattern) for k, (op, pattern) in enumerate(arms)]


# The opcode of the instruction that runs a block of others strip by strip
# (`numbatape.engine.strips.strip_blocks`).
STRIP_OPCODE = FIRST_VECTOR + len(vector_arms())


def single_arms() -> list[tuple[int, Elementwise | ArrayOp, str, int]]:
    """Return (opcode, row, pattern, family) of the kernels that occur in blocks only.

    Those for a strip of float32 cells are called by pointer, but they have no record to decode, which takes
    longer than 256 additions. The results of sums, whose pattern is empty, are float64, as those of all parts
    of a sum. The root of a sum has such a kernel for float64 cells, too: that of a part is not wanted. Those
    of additions at positions do not clear the result, and those that read entries there do not look whether
    all are in bounds. Products with a vector have two: for some rows of the
    matrix, each of which gives an entry, and for what some rows add to all entries.
    """
    parts = [op for op in OPS if isinstance(op, ArrayOp) and op.adds_parts is not None]
    arms: list[tuple[Elementwise | ArrayOp, str, int]] = [(op, "", F32) for op in parts]
    arms += [(op, pattern, F32) for _, op, pattern in vector_arms() if op.exact]
    arms += [(op, "", F64) for op in parts if op.rooted]
    at = [op for op in OPS if isinstance(op, ArrayOp) and op.cut]
    arms += [(op, "" if op.adds_at else KNOWN, family) for op in at for family in (F64, F32)]
    products = [op for op in OPS if isinstance(op, ArrayOp) and op.part_of_rows is not None]
    arms += [(op, kind, family) for op in products for kind in (ROWS, SUMS) for family in (F64, F32)]
    return [(STRIP_OPCODE + 1 + k, *arm) for k, arm in enumerate(arms)]


SINGLE_OPCODES = {(op.name, pattern, family): opcode for opcode, op, pattern, family in single_arms()}


def pair_arms() -> list[tuple[int, Elementwise, Elementwise]]:
    """Return (opcode, row, row) of the kernels that compute two results of one operand for a strip.

    The second row may read the first one's result.
    """
    found = [(op, OPS[OPCODE[op.paired]]) for op in OPS if isinstance(op, Elementwise) and op.paired]
    first = STRIP_OPCODE + 1 + len(single_arms())
    return [(first + k, *pair) for k, pair in enumerate(found)]


PAIR_OPCODES = {(one.name, other.name): opcode for opcode, one, other in pair_arms()}
LAST_OPCODE = STRIP_OPCODE + len(single_arms()) + len(PAIR_OPCODES)


def first_opcodes() -> dict[int, int]:
    """Return the opcode of the first vector arm by row of the op table."""
    return {OPCODE[op.name]: opcode for opcode, op, _ in reversed(vector_arms())}


def _operands(op: Elementwise) -> str:
    """Return the text of the first cells of three operands, and of the number of cells."""
    if op.arity < 3:
        return f"a, b, 0, code[at + {COUNT_WORD}]"
    record = f"code[at + {RECORD_WORD}]"
    return f"a, b, r[{record} + {LOOP_THIRD}], r[{record} + {LOOP_COUNT}]"


def forward_vector(op: Elementwise, pattern: str) -> list[str]:
    """Return the lines that compute a vector result."""
    return [f'strip("{op.value}", "{pattern}", v, o, {_operands(op)})']


def reverse_vector(op: Elementwise, pattern: str) -> list[str]:
    """Return the lines that add to the operands' adjoints; a zero cotangent adds nothing."""
    lines = []
    for k, partial in enumerate(op.partials):
        if partial is not None:
            call = f'strip_adjoint("{product(partial)}", "{pattern}", {k}, v, g, o, {_operands(op)})'
            lines += [call] if op.arity == 1 else [f"if flags & {1 << k}:", f"    {call}"]
    return lines
