"""What an `ElasticEntry` knows of its inputs and results: where they are at any sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import jit
from ..engine.frame import SEED_CELLS
from ..engine.plan_tables import STORAGE_WORDS
from ..tape.tape import ACTIVE
from .leaf_rows import ArrayRow, DataRow, FrozenRow
from .outs import Out

ndarray = np.ndarray


@dataclass(frozen=True)
class Input:
    """An input of the tape: which row of the call it comes from, or what it always is."""

    row: int | None
    fixed: Any
    ndim: int
    family: int
    place: int  # where the planner's storages have its first cell


@dataclass(frozen=True)
class Seed:
    """An output of the tape that has a cotangent: which row of the call it comes from, None for one."""

    row: int | None
    number: int  # the output's
    place: int  # where the planner's storages have the first cell of the output's storage
    offset: int  # a size code, as are the dimensions
    dims: tuple[int, ...]


@dataclass(frozen=True)
class Result:
    """A value or an adjoint that a call returns: as an array, as an entry, or as a number of Python."""

    how: str  # "copy", "entry", "item"
    adjoint: bool
    family: int
    place: int  # where the planner's storages have the first cell of its storage
    offset: int  # a size code, as are the dimensions
    dims: tuple[int, ...]


def ends_of(entry) -> tuple[list[Input], list[Seed]] | None:
    """Return where each input of the tape comes from, and each cotangent; None if a row goes elsewhere."""
    space = entry.space
    tape = space.plan.tape
    rows = {id(row.cells): k for k, row in enumerate(entry.rows) if hasattr(row, "cells")}
    seeds = [] if tape.forward else _seeds_of(space, entry.rows)
    given = [seed.row for seed in seeds if seed.row is not None]
    if (given and len(given) < len(seeds)) or any(seed.dims for seed in seeds if seed.row is None):
        return None  # an array without entries, whose cotangent has no place in the seeds
    for k in given:
        del rows[id(entry.rows[k].cells)]
    found = []
    for cells, slot in zip(space.all_inputs, tape.inputs, strict=True):
        row = rows.pop(id(cells), None)
        fixed = np.array(cells) if row is None else None
        place = STORAGE_WORDS * int(tape.values["storage"][slot.value])
        found.append(Input(row, fixed, len(slot.dims), slot.family, place))
    return None if rows else (found, seeds)


def _seeds_of(space, rows) -> list[Seed]:
    """Return where the cotangent of each output with a derivative comes from."""
    tape, cells = space.plan.tape, space.seed
    its_rows = {
        (address_of(row.cells) - address_of(cells)) // cells.itemsize: k
        for k, row in enumerate(rows)
        if hasattr(row, "cells") and row.cells.size and np.may_share_memory(row.cells, cells)
    }
    found, start = [], 0
    for number, (value, count) in enumerate(
        zip(tape.outputs, space.seeds[:, SEED_CELLS].tolist(), strict=False)
    ):
        storage, offset, layout = tape.values[value].item()
        if tape.storages["level"][storage] == ACTIVE:
            row = its_rows.get(start) if count else None
            found.append(Seed(row, number, STORAGE_WORDS * storage, offset, tape.layouts[layout].dims))
        start += count
    return found


UNKNOWN = object()  # what `result_of` returns for what only the general call makes


def result_of(space, out: Out) -> Any:
    """Return what an out is made of, None if it is the same for all sizes."""
    if out.kind == jit.steady.FIXED:
        return None if not isinstance(out.source, ndarray) else UNKNOWN
    source, how = out.source, "entry"
    if out.kind == jit.steady.CALLED:
        how = getattr(source, "__name__", "")
        source = getattr(source, "__self__", None)
        if how not in ("copy", "item") or not isinstance(source, ndarray):
            return UNKNOWN
    tape = space.plan.tape
    for value, view, adjoint in space.results():
        if view is None or view.dtype != source.dtype:
            continue
        same = view is source if how == "copy" else not view.ndim and address_of(view) == address_of(source)
        if same:
            storage, offset, layout = tape.values[value].item()
            family = int(tape.storages["family"][storage])
            place = STORAGE_WORDS * storage
            return Result(how, adjoint, family, place, offset, tape.layouts[layout].dims)
    return UNKNOWN


def address_of(array: ndarray) -> int:
    """Return where an array's first entry is."""
    return array.__array_interface__["data"][0]


def rows_for_all_sizes(rows: Sequence, tape) -> list:
    """Return the rows of leaves of any sizes; without a prologue, constant arrays are copied like others."""
    if tape.prologue:
        return list(rows)
    return [
        ArrayRow(row.cells, row.known.dtype, row.size)
        if row.__class__ in (DataRow, FrozenRow) and row.cells.dtype == row.known.dtype
        else row
        for row in rows
    ]
