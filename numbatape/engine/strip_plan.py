"""Plans that run long vectors strip by strip."""

from __future__ import annotations

from dataclasses import replace

from ..tape import Tape
from ..tape.tape import F32, F64
from .chain import register_flags
from .placement import evaluated, place_storages, storage_sizes, storage_table
from .plan import Plan, derive, make_plan
from .segments import find_cuts
from .strip_blocks import find_blocks, grouped, narrow_storages
from .strip_tables import cuts_of_blocks, pieces_of, with_strips
from .verifier import op_info


def strip_plan(tape: Tape, dimensions: tuple[int, ...], values: str = "fast") -> Plan | None:
    """Return a plan that runs long vectors strip by strip; None where it would have no strips.

    It is made from the plan without strips, whose proof holds for it: an instruction of a block goes over the
    same cells, part by part, and where a storage has fewer cells than the tape says, it starts from the
    beginning in each strip.

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
    tape = grouped(tape, whole.code, whole.aux)
    whole = make_plan(tape, dimensions, values)
    blocks = find_blocks(tape, whole.code, whole.aux)
    if not blocks:
        return None
    cells = storage_sizes(tape, whole.sizes)
    narrow = narrow_storages(tape, blocks, whole.bases, cells)
    bases, placed, active = place_storages(
        tape, whole.sizes, narrow, [(block.start, block.stop) for block in blocks]
    )
    code, aux = derive(tape, whole.sizes, storage_table(tape, whole.sizes, bases), op_info(values))
    code[:, 0] |= register_flags(code, tape.prologue)
    blocks = find_blocks(tape, code, aux)  # the same ones, at their new cells
    cuts = find_cuts(tape, lambda codes: evaluated(codes, whole.sizes), code, aux)
    pieces = pieces_of(tape, lambda codes: evaluated(codes, whole.sizes), blocks)
    code, strips = with_strips(code, aux, tape.values["storage"], blocks, narrow, placed[F64], pieces)
    for array in (code, aux, bases):
        array.flags.writeable = False
    return replace(
        whole,
        code=code,
        aux=aux,
        bases=bases,
        cells=(strips.end, placed[F32]),
        active=active,
        cuts=None if cuts is None else cuts_of_blocks(cuts, blocks, strips),
        strips=strips,
    )
