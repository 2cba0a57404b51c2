"""Calls that go on in the workspace of another path where a guard stops them: who is joined to whom.

`numbatape.engine.continued` has what serves them then. Two entries with the same key have traces that part at
a guard. If both take the same leaves and make the same kind of results, the sweep of the first one may go on
in the workspace of the second one, so the builtin of the first serves both paths. What the second would check
by itself is proved when the two are joined. It holds until one of them computes with other constants, or
loses its workspace (`Entry.part`).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from operator import is_
from typing import Any, cast

import numpy as np

from .. import jit
from ..engine.continued import Continued
from ..engine.shared_beginnings import Memory, group_of, kept_groups, shared_beginning
from ..jit import address
from ..programs.variant import Variant, VariantWorkspace
from ..tape.tape import CONSTANT
from .entry import Entry
from .leaf_rows import DataRow, KnownNumberRow, LaneRow, Row, SameRow
from .outs import Out, memory_of


def join_in_turn(entry: Entry, other: Entry) -> None:
    """Join two entries, if they can be and nobody uses their workspaces."""
    turn = entry.turn
    if not turn.busy:
        turn.busy = True
        try:
            join(entry, other)
        finally:
            turn.busy = False


def join(entry: Entry, other: Entry) -> bool:
    """Let calls of an entry go on in the workspace of another one; return whether they will, from now on.

    Others must not use the workspaces meanwhile.
    """
    here, there = entry.space, other.space
    continued = here.continued
    if continued is not None and continued.leads_to(other):
        return False
    if not _are_alike(entry, other):
        return False
    guard = _parting(here.variant, there.variant)
    results = _results(here, entry.outs, other.outs)
    beginning = None if guard is None or results is None else shared_beginning(here, there, guard)
    if guard is None or beginning is None or results is None or beginning.stop != here.stopped:
        return False  # perhaps the other one has not served the call to its end itself
    is_bool = here.variant.tape.guards[guard].kind == "bool"
    if continued is not None and not continued.takes(beginning, is_bool):
        return False
    hits = here.variant.counter, there.variant.counter
    continued = here.continued = continued or Continued(here, entry.sweep)
    other.is_entered_by(continued.add(beginning, there, other, results, hits))
    return True


def _parting(one: Variant, other: Variant) -> int | None:
    """Return the number of the guard at which two traces part; None where they differ otherwise."""
    pairs = zip(one.tape.guards, other.tape.guards, strict=False)
    for number, (guard, its) in enumerate(pairs):
        if guard.kind != its.kind or guard.kind == "count":
            return None
        if guard.outcome != its.outcome:
            return number
    return None


def _are_alike(entry: Entry, other: Entry) -> bool:
    """Whether two entries take the same leaves, and serve them in the same way but for the trace."""
    here, there = entry.space, other.space
    if not (_is_simple(entry) and _is_simple(other)) or (here.plan.is_brief and not there.plan.is_brief):
        return False
    own = [
        (each.turn, each.captured, each.noted, each.form, each.sweep, each.key, each.space.plan.values)
        for each in (entry, other)
    ]
    pairs = list(zip(here.plan.tape.inputs, here.inputs, there.inputs, strict=True))
    return (
        own[0] == own[1]
        and here.variant.statics == there.variant.statics
        and here.widths == there.widths
        and here.variant.orders == there.variant.orders
        and _watch_same(here, there)
        and len(entry.rows) == len(other.rows)
        and all(_takes_same(*rows, here, there) for rows in zip(entry.rows, other.rows, strict=True))
        and all(_has_same_bits(*cells) for slot, *cells in pairs if slot.level == CONSTANT)
    )


def _is_simple(entry: Entry) -> bool:
    """Whether an entry sweeps one plan forward and back, and does nothing besides."""
    space = entry.space
    usual = space.__class__ is VariantWorkspace and entry.sweep in ("gradient", "forward")
    calls = space.segments is not None or space.calls is not None or space.variant.effects is not None
    fixed = entry.counted is None and not entry.follows_constants
    return usual and not calls and space.plan.strips is None and fixed and entry.is_current


def _takes_same(one: Row, other: Row, here: VariantWorkspace, there: VariantWorkspace) -> bool:
    """Whether two rows take the same leaves, which they write to the same input."""
    if isinstance(one, DataRow) and isinstance(other, DataRow):
        return _has_same_bits(one.known, other.known)
    if one.__class__ is not other.__class__ or isinstance(one, LaneRow):
        return False
    if isinstance(one, SameRow) and isinstance(other, SameRow):
        changed = isinstance(other, KnownNumberRow) and other.changed(one.known)
        return other.fits(one.known) and not changed
    if any(getattr(one, name, None) != getattr(other, name, None) for name in ("size", "dtype", "kind")):
        return False
    places = [
        [_number_of(vars(row).get(name), space) for name in ("cells", "real", "imag")]
        for row, space in ((one, here), (other, there))
    ]
    return places[0] == places[1] and any(place is not None for place in places[0])


def _number_of(cells: np.ndarray | None, space: VariantWorkspace) -> int | None:
    """Return the number of the input whose cells these are."""
    return next((k for k, its in enumerate(space.inputs) if its is cells), None)


def _has_same_bits(one: np.ndarray, other: np.ndarray) -> bool:
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    bits, its_bits = (np.ascontiguousarray(each).reshape(-1).view(np.uint8) for each in (one, other))
    return np.array_equal(bits, its_bits)


def _watch_same(here: VariantWorkspace, there: VariantWorkspace) -> bool:
    """Whether both workspaces compare the same arrays with the same contents."""
    pairs, others = here.watched[0], there.watched[0]
    return len(pairs) == len(others) and all(
        array is its and _has_same_bits(known, its_known)
        for (array, known), (its, its_known) in zip(pairs, others, strict=True)
    )


def _results(here: VariantWorkspace, outs: Sequence[Out], others: Sequence[Out]) -> list[Memory] | None:
    """Return the rows that copy results to where the first entry looks for them; None if that cannot be."""
    tape = here.plan.tape
    kept = kept_groups(tape)
    own = {
        memory_of(view)
        for value, view, is_adjoint in here.results()
        if view is not None and (is_adjoint or group_of(tape, value) not in kept)
    }
    rows: list[Memory] = []
    for out, other in zip(outs, others, strict=True):
        if out.kind != other.kind:
            return None
        if out.kind == jit.steady.FIXED:
            if not _are_same(out.source, other.source):
                return None
            continue
        (cells, how), (its, its_way) = _cells(out), _cells(other)
        if cells is None or its is None or how != its_way or memory_of(cells) not in own:
            return None
        if (cells.dtype, cells.shape, cells.strides) != (its.dtype, its.shape, its.strides):
            return None
        if address(cells) != address(its):
            rows.append((address(cells), address(its), cells.nbytes))
    return rows


def _are_same(one, other) -> bool:
    if type(one) is type(other) is tuple and len(one) == len(other):
        return all(map(is_, one, other))
    return one is other


def _cells(out: Out) -> tuple[np.ndarray | None, Any]:
    """Return the array without gaps that a result is made of, and how; no array where that is unknown."""
    cells, how = out.source, cast("tuple", ())
    if isinstance(out.source, functools.partial):  # see `made_of`
        cells, how = out.source.args[0], (out.source.func, *out.source.args[1:])
    elif out.kind != jit.steady.ENTRY:  # a method of the array
        cells, how = getattr(out.source, "__self__", None), (getattr(out.source, "__name__", ""),)
    known = type(cells) is np.ndarray and _is_without_gaps(cells)
    return (cells if known else None), how


def _is_without_gaps(cells: np.ndarray) -> bool:
    """Whether an array is a contiguous one, or a transposed one."""
    axes = sorted(range(cells.ndim), key=lambda axis: -cells.strides[axis])
    return cells.transpose(axes).flags.c_contiguous
