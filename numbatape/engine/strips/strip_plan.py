"""Plans that run long vectors strip by strip."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ...tape import Tape
from ...tape.tape import F32, F64
from ..frame import CELL_B
from ..placement import evaluated, place_storages, storage_sizes, storage_table
from ..plan import Plan, derive, make_plan
from ..segments import find_cuts, work_of
from ..vectors import PAIR_OPCODES
from ..verifier import op_info
from .strip_blocks import Block, find_blocks, grouped, narrow_storages, owners_of
from .strip_rows import LEAST, Operand, long_rows
from .strip_tables import cuts_of_blocks, pieces_of, with_strips

# For the name of an op, the ops that come before it and are computed in one loop with it.
_PAIRED: dict[str, list[str]] = {}
for _one, _other in PAIR_OPCODES:
    _PAIRED.setdefault(_one, [])
    _PAIRED.setdefault(_other, []).append(_one)
Copied = Callable[[list[Block], np.ndarray], np.ndarray]


def strip_plan(tape: Tape, dimensions: tuple[int, ...], values: str = "fast") -> Plan:
    """Return a plan that runs long vectors strip by strip.

    If there are no long vectors, its strips have no blocks.

    Parameters
    ----------
    tape
        A tape that is swept forward alone.

    Raises
    ------
    VerificationError
        As `make_plan` does.
    """
    whole = make_plan(tape, dimensions, values)
    if _has_long_vectors(whole):
        partners = _partners(tape, whole) if values == "fast" else {}
        return in_strips(make_plan(grouped(tape, whole.code, whole.aux, partners), dimensions, values))[0]
    none = np.zeros(len(tape.storages), bool)
    _, strips = with_strips(whole.code, whole.aux, tape.values["storage"], [], none, whole.cells[F64], [])
    return replace(whole, strips=strips)


def _has_long_vectors(plan: Plan) -> bool:
    """Whether some storage has room for a vector that is worth strips.

    This answers no at once for most tapes.
    """
    return bool(storage_sizes(plan.tape, plan.sizes).max(initial=0) >= LEAST)


def _partners(tape: Tape, whole: Plan) -> dict[int, int]:
    """Return, for each instruction, the later one that a strip may compute in the same loop."""
    owners, found = owners_of(tape), {}
    earlier: dict = {}
    for k, row in long_rows(tape, whole.code, whole.aux).items():
        if row.op not in _PAIRED:
            continue
        place = owners[row.operands[0].value], row.operands[0].cell
        for one in _PAIRED[row.op]:
            its = earlier.pop((one, place), None)
            if its is not None:
                found[its] = k
                break
        else:
            earlier[row.op, place] = k
    return found


def _in_pairs(block: Block, owners: list) -> Block:
    """Return a block in which two neighbours are marked that one kernel computes.

    Nothing runs between the two, so the second result may be there as early as the first one.
    """

    def place(operand: Operand):
        return owners[operand.value], operand.cell, operand.step

    found = [*block.rows]
    for k, (one, other) in enumerate(itertools.pairwise(block.rows)):
        opcode = PAIR_OPCODES.get((one.op, other.op))
        if opcode is None or found[k].done:
            continue
        places = [place(one.operands[0]), place(one.out), place(other.out)]
        reads = [place(operand) for operand in other.operands]
        if reads == places[: len(reads)] and places[0][-1] == 1 and len({its for its, *_ in places}) == 3:
            found[k] = replace(one, single=opcode, second=replace(other.out, place=CELL_B))
            found[k + 1] = replace(other, done=True)
    return replace(block, rows=tuple(found))


def in_strips(
    whole: Plan, spare: float = 1.0, copied: Copied | None = None
) -> tuple[Plan, list[Block], np.ndarray]:
    """Return the plan that runs the vectors of a plan strip by strip, its blocks, and its narrow storages.

    It needs no proof of its own that it stays within its memory, because that of the plan without strips
    holds: an instruction of a block goes over the same cells, part by part. Where a storage has the cells of
    one strip only, each strip starts at its beginning.

    Parameters
    ----------
    whole
        The plan without strips, of a tape whose instructions are `grouped`.
    spare
        By which factor there is room for longer vectors.
    copied
        Returns further storages at whose beginning each strip stands, although they have all cells. It is
        given the blocks and the first cell of each storage.
    """
    tape, sizes = whole.tape, whole.sizes
    long = _has_long_vectors(whole)
    blocks = find_blocks(tape, whole.code, whole.aux) if long else []
    narrow = narrow_storages(tape, blocks, whole.bases, storage_sizes(tape, sizes))
    extents = [(block.start, block.stop) for block in blocks]
    bases, placed, active = place_storages(tape, sizes, narrow, extents, spare)
    code, aux = derive(tape, sizes, storage_table(tape, sizes, bases), op_info(whole.values))
    blocks = find_blocks(tape, code, aux) if long else []  # the same blocks, with the new first cells
    if whole.values == "fast":
        blocks = [_in_pairs(block, owners_of(tape)) for block in blocks]
    cuts = find_cuts(tape, lambda codes: evaluated(codes, sizes), code, aux)
    work = work_of(tape, lambda codes: evaluated(codes, sizes))
    pieces = pieces_of(work, blocks, spare)
    still = narrow if copied is None else narrow | copied(blocks, bases)
    storage, unblocked = tape.values["storage"], (code, aux)
    code, strips = with_strips(code, aux, storage, blocks, still, placed[F64], pieces, spare)
    rows = long_rows(tape, *unblocked) if long else {}
    # A product takes nearly as long in strips as elsewhere, beside what its operands and result do.
    alike = [k for k, row in rows.items() if not row.is_product]
    strips = replace(strips, work=float(work[alike].sum()))
    for array in (code, aux, bases):
        array.flags.writeable = False
    plan = replace(
        whole,
        code=code,
        aux=aux,
        bases=bases,
        cells=(strips.end, placed[F32]),
        active=active,
        cuts=None if cuts is None else cuts_of_blocks(cuts, blocks, strips),
        strips=strips,
    )
    return plan, blocks, narrow
