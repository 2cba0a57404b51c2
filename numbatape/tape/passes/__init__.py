"""Passes: rewrites of what was recorded, done when the tape is frozen. Each has a name and a file.

A pass takes the instructions as columns (`numbatape.tape.instruction.columns`) and returns them rewritten. It
makes new values and views in a draft (`numbatape.tape.draft.Draft`), whose sizes have the numbers of the
trace. That is why passes work on a draft and not on a frozen tape: cells are packed and numbered once, when
all passes have run.

A pass finds its work by columns: which ops occur, what they read, which layouts these have. Only the few
instructions that it rewrites are looked at one by one.

Results stay what they were, to rounding. Where a function takes no derivatives itself, its value keeps all of
its bits; passes over derivatives may change their last bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...late import imported
from ..instruction import GUARD


class Pass(NamedTuple):
    """A rewrite of instructions.

    Attributes
    ----------
    run
        ``run(draft, code) -> code``; it is given no dead instruction.
    trait
        The pass has work only where instructions with this trait (`numbatape.tape.rows`) make arrays. The
        longest tapes, loops over scalars, have hardly any, and skip it.
    derivatives
        Whether it serves tapes that contain derivatives only.
    functions
        Whether it serves tapes that contain no derivatives only.
    on_functions
        What is run in its place on tapes that contain none; None for nothing, or for the same.
    leaves_dead
        Whether instructions that it leaves may be dead.
    shortest
        The fewest instructions among which it finds work. Shorter tapes don't even import it.
    wide
        Whether it saves only work on cells, and no instructions. Where arrays have few cells for all sizes
        that guards allow, such a pass takes longer than it can ever save.
    laneless
        Whether it saves nothing that can be measured on short tapes whose values have few cells in all of
        their lanes.
    single
        Whether it serves only tapes that are swept forward over many points. Loops on these tapes are not
        re-rolled, because each single cell will be a vector over the points.
    """

    run: Callable[..., np.ndarray]
    trait: str | None = None
    derivatives: bool = False
    functions: bool = False
    on_functions: Callable[..., np.ndarray] | None = None
    leaves_dead: bool = False
    shortest: int = 1
    single: bool = False
    wide: bool = False
    laneless: bool = False


def _later(file: str, function: str) -> Callable[..., np.ndarray]:
    """Return a function whose file is imported when it is first called: most tapes need few passes."""
    return lambda draft, code: getattr(imported(f".{file}", __package__), function)(draft, code)


def merge_arrays(draft, code: np.ndarray, start: int = 0, read_later: bool = False) -> np.ndarray:
    """Merge instructions from a place on that make arrays, if any two have the same op and operand."""
    rows = code[start:][draft.is_array(code["out"][start:])]
    alike = {*zip(rows["op"].tolist(), draft.group[rows["a"]].tolist(), strict=True)}
    if len(alike) == len(rows):
        return code
    return imported(".merge", __package__).merge_arrays(draft, code, start, read_later)


def copy_columns(draft, code: np.ndarray) -> np.ndarray:
    """Copy columns and short rows before they are read; most tapes have none."""
    in_groups = draft.ops.with_trait("rows_at_once")
    if all(layout.is_row() for layout in draft.layouts) and not len(draft.array_rows(code, in_groups)):
        return code
    return imported(".column_copies", __package__).copy_columns(draft, code)


def test_early(draft, code: np.ndarray) -> np.ndarray:
    """Move guards that few numbers decide before all work on arrays; most tapes have none."""
    if not (code["op"] == GUARD).any():
        return code
    return imported(".early_guards", __package__).guards_first(draft, code)


REROLL = "reroll"
# In the order in which they run; the names are those of `numbatape.config.PASSES`.
PASSES = {
    REROLL: Pass(_later("reroll", "reroll"), leaves_dead=True, shortest=24),
    "buffers": Pass(_later("buffers", "start_buffers"), "repeats"),
    "sources": Pass(_later("sources", "copy_originals"), "calls", derivatives=True),
    "stack": Pass(_later("stack", "stack"), functions=True, leaves_dead=True, shortest=24),
    "gathers": Pass(_later("gathers", "gather_last"), "index", functions=True),
    "broadcasts": Pass(
        _later("broadcasts", "narrow_broadcasts"), "narrows", derivatives=True, leaves_dead=True, wide=True
    ),
    "sums": Pass(_later("sums", "sum_first"), "narrows", derivatives=True, wide=True),
    "distribute": Pass(
        _later("distribute", "distribute"), "totals", derivatives=True, leaves_dead=True, wide=True
    ),
    "linear": Pass(_later("linear", "contract"), "narrows", derivatives=True, leaves_dead=True),
    "histories": Pass(_later("histories", "drop_histories"), "calls", derivatives=True),
    "carries": Pass(_later("unread_carries", "drop_carries"), "calls", derivatives=True, leaves_dead=True),
    "literals": Pass(
        _later("literals", "multiply_literals"), derivatives=True, leaves_dead=True, shortest=4, laneless=True
    ),
    "merge": Pass(
        _later("merge", "merge_common"),
        derivatives=True,
        on_functions=merge_arrays,
    ),
    "reciprocals": Pass(
        _later("reciprocals", "multiply_by_reciprocals"), derivatives=True, single=True, shortest=4
    ),
    "places": Pass(_later("places", "write_in_place"), "moves"),
    "stencils": Pass(_later("slices", "make_stencils"), "signs"),
    "columns": Pass(copy_columns, "elementwise", functions=True, wide=True),
    "fuse": Pass(_later("fuse", "fuse")),
    "guards": Pass(test_early, shortest=3),
}
