"""Which cells each storage of a tape gets, and the memory for cells.

The reverse sweep of a tape needs all of its values. A tape that is only swept forward (a derivative
that is a tape of its own) needs a value until it is read for the last time; then its cells are reused:
the lanes of a Hessian of 30 columns through 40 arrays of 2 000 cells take 2 MB instead of 17, which is the
difference between two levels of the processor's caches.

A write to one position (``y[p] = v`` with a traced ``p``) makes a new array on the tape, which has the cells
of the old one where nobody needs that any more (`overwritten`): it costs what it writes, not the array.
"""

from __future__ import annotations

import contextlib
import functools
import mmap

import numpy as np

from ..jit import address
from ..ops import OPS, ROWS, ArrayOp, Elementwise
from ..ops.reduce import BLOCK as STRIP
from ..ops.table import OPERANDS
from ..tape import Tape
from ..tape.column_scans import lend
from ..tape.combinations import flatnonzero, numbered
from ..tape.instruction import GUARD, NONE
from ..tape.tape import ACTIVE, FAMILIES, LEVELS, POOLS, VARYING
from ..tape.uses import SCRATCH, Fields, Uses
from .formula_text import uses

SMALL = 4096  # cells that are in a core's first cache in any case: there is nothing to gain from sharing them
KINDS = np.arange(len(FAMILIES) * len(LEVELS)).reshape(len(FAMILIES), len(LEVELS))
ALIGNMENT = 64
LARGE = 1 << 20  # bytes
HUGE = 1 << 22  # bytes from which on NumPy, too, asks for huge pages
LINE_CELLS = 8  # every array starts on a cache line (64 bytes)

Placement = tuple[np.ndarray, tuple[int, ...], tuple]  # see `place_storages`


def evaluated(codes: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return the values of size codes."""
    found = codes.astype(np.int64)
    if len(sizes):
        expressions = (found < 0).nonzero()
        found[expressions] = sizes[-1 - found[expressions]]  # code -1 is the first size, -2 the second one
    return found


def storage_sizes(tape: Tape, sizes: np.ndarray) -> np.ndarray:
    """Return the cells of each storage."""
    return evaluated(tape.storages["size"], sizes)


def storage_table(tape: Tape, sizes, bases) -> np.ndarray:
    """Return (first cell, end, family, level) of each storage, as the kernels read it."""
    table = np.empty((len(bases), 4), np.int64)
    table[:, 0], table[:, 1] = bases, bases + storage_sizes(tape, sizes)
    table[:, 2], table[:, 3] = tape.storages["family"], tape.storages["level"]
    return table


def room_of(tape: Tape, sizes: np.ndarray, spare: float = 1.0) -> np.ndarray:
    """Return the cells that each storage gets: whole cache lines, with some to spare."""
    cells = storage_sizes(tape, sizes)
    if spare != 1.0:
        cells = np.ceil(spare * cells).astype(np.int64)
    return -(-cells // LINE_CELLS) * LINE_CELLS


def place_storages(
    tape: Tape, sizes: np.ndarray, narrow: np.ndarray | None = None, blocks=(), spare: float = 1.0, least=0
) -> Placement:
    """Give each storage its first cell: constants first, then varying, then active ones.

    Active cells come last, so that adjoints exist only for them, and one offset serves values and adjoints.

    Parameters
    ----------
    narrow
        The storages that get the cells of one strip (`numbatape.engine.strips.strip_blocks`).
    blocks
        First and last instruction (exclusively) of each block that runs strip by strip.
    spare
        By which factor storages are larger than these sizes need.
    least
        The number of cells beyond which storages take those of dead ones, on a tape that is swept forward.

    Returns
    -------
    bases, cells, active
        First cells by storage; number of cells, and ``(first, number)`` of the active ones, by family.
    """
    room = room_of(tape, sizes, spare)
    if narrow is not None:
        room[narrow] = STRIP
    kind = len(LEVELS) * tape.storages["family"].astype(np.int64) + tape.storages["level"]
    lends = tape.forward and room.sum() > least
    lender = (
        _lenders(tape, kind * (room.max() + 1) + room, narrow, blocks) if lends else overwritten(tape, narrow)
    )
    if lender is not None:
        room = np.where(lender == np.arange(len(room)), room, 0)
    order = kind.argsort(kind="stable")
    ends = room[order].cumsum()
    bases = np.empty(len(room), np.int64)
    bases[order] = ends - room[order]
    if lender is not None:
        bases = bases[lender]
    # Where the cells of each kind end; each family counts its cells from 0.
    last = np.concatenate(([0], ends))[kind[order].searchsorted(KINDS, "right")].tolist()
    starts = (0, last[0][-1])
    bases[kind >= len(LEVELS)] -= starts[1]
    cells = tuple(row[ACTIVE] - start for row, start in zip(last, starts, strict=True))
    active = tuple(
        (row[VARYING] - start, row[ACTIVE] - row[VARYING]) for row, start in zip(last, starts, strict=True)
    )
    return bases, cells, active


def placed_at(tape: Tape, dimensions: tuple[int, ...]) -> Placement:
    """Return what `place_storages` does, at given sizes."""
    return place_storages(tape, np.array(tape.sizes.evaluate(dimensions), np.int64))


def lenders_at_all_sizes(tape: Tape, alike: dict[int, int]) -> np.ndarray:
    """Return, for each storage, the one whose cells it takes at any sizes.

    Only storages with the same size code share cells. ``alike`` has a code that stands for each one that
    guards say is equal to another one.
    """
    if not tape.forward:
        found = overwritten(tape)
        return np.arange(len(tape.storages)) if found is None else found
    size = np.array([alike.get(code, code) for code in tape.storages["size"].tolist()], np.int64)
    size -= size.min(initial=0)
    kind = len(LEVELS) * tape.storages["family"].astype(np.int64) + tape.storages["level"]
    return _lenders(tape, kind * (size.max(initial=0) + 1) + size, None, ())


def _lenders(tape: Tape, alike: np.ndarray, narrow, blocks) -> np.ndarray:
    """Return, for each storage, the storage whose cells it takes: its own, or those of a dead one.

    ``alike`` has equal numbers for storages of one kind that have equally many cells.
    """
    first, last = _lifetimes(tape)
    for start, stop in blocks:  # every strip reads and writes vectors: whole ones live in the whole block
        begins, ends = ((start <= each) & (each < stop) & ~narrow for each in (first, last))
        first[begins], last[ends] = start, stop - 1
    root = overwritten(tape, narrow)
    if root is not None:
        for storage in flatnonzero(root != np.arange(len(root))).tolist():
            its = root[storage]
            first[its], last[its] = min(first[its], first[storage]), max(last[its], last[storage])
            first[storage] = -1
    lender = lend(first, last, numbered(alike)[0], flatnonzero((first >= 0) & (last >= first)))
    return lender if root is None else lender[root]


def overwritten(tape: Tape, narrow: np.ndarray | None = None) -> np.ndarray | None:
    """Return, for each storage, the one whose cells it has because instructions overwrite some of them.

    None where there is none. An instruction may do so if nothing needs what was there: nothing reads the
    storage afterwards, and no reverse rule reads its cells. Linear ones read none.
    """
    code, storage = tape.code, tape.values["storage"]
    rows = flatnonzero(ROWS.is_any(ROWS.with_trait("overwrites"), code["op"]))
    if not len(rows):
        return None
    linear = ROWS.is_any(ROWS.with_trait("linear"), code["op"]) | (code["op"] == GUARD)
    reversible = linear | (code["active"] == 0) | tape.forward
    first, last = _lifetimes(tape)  # -1 for what stays
    count = len(tape.storages)
    uses = Uses(code, np.append(storage + 1, 0).astype(np.int32), count + 1)
    needed = uses.flags(uses.out[~reversible]) | uses.flags(uses.operands[~reversible])
    root = np.arange(count)
    kinds = [tape.storages[name].tolist() for name in ("size", "family", "level")]
    for k in rows.tolist():
        source, target = int(code["a"][k]), int(code["out"][k])
        old, new = int(storage[source]), int(storage[target])
        if min(first[old], first[new]) < tape.prologue or last[old] != k or needed[old + 1]:
            continue
        if uses.writes[new + 1] != 1 or np.count_nonzero(uses.operands[k] == old + 1) != 1:
            continue
        if first[old] < tape.uniform <= k or (narrow is not None and (narrow[old] or narrow[new])):
            continue
        if any(column[old] != column[new] for column in kinds) or not _are_alike(tape, source, target):
            continue
        root[new] = root[old]
    return root


def read_backwards(tape: Tape) -> np.ndarray:
    """Return, for each storage, whether a reverse sweep may read its cells.

    Derivatives of linear instructions read none, but positions, and what was left in scratch.
    """
    code, storage = tape.code, tape.values["storage"]
    active = np.where(code["op"] == GUARD, 0, code["active"])
    groups = Uses(code, np.append(storage + 1, 0).astype(np.int32), len(tape.storages) + 1)
    found = groups.flags(groups.operands[active != 0, 3])
    for op, which in np.unique(np.stack([code["op"] >> 1, active], axis=1)[active != 0], axis=0).tolist():
        rows = (code["op"] >> 1 == op) & (active == which)
        letters = _read_by_partials(OPS[op], which)
        for k in [k for k, letter in enumerate(OPERANDS) if letter in letters]:
            found |= groups.flags(groups.operands[rows, k])
        if "z" in letters:
            found |= groups.flags(groups.out[rows])
    fields = Fields(ROWS, code)
    for name, ops in zip("abc", _positions(), strict=True):
        read = code[name][fields.of(ops)]
        found[storage[read[read != NONE]] + 1] = True
    found[1 : len(POOLS) + 1] = True
    return found[1:]


@functools.cache
def _read_by_partials(op, active: int) -> str:
    """Return which operands, and whether the result (z), the partials by the active operands may read."""
    if isinstance(op, Elementwise):
        partials = [partial for k, partial in enumerate(op.partials) if active >> k & 1]
        return "".join(letter for letter in (*OPERANDS, "z") if any(uses(p, letter) for p in partials))
    if op.linear:
        return ""
    return {1: "y", 2: "x"}.get(active, "xy") if op.bilinear else "xywz"


def _are_alike(tape: Tape, one: int, other: int) -> bool:
    """Whether two values begin their storages and have their entries in the same order there."""
    layouts = [tape.layout_of(value) for value in (one, other)]
    offsets = [int(tape.values["offset"][value]) for value in (one, other)]
    # Along an axis of one entry, the stride says nothing.
    steps = [[stride for dim, stride in zip(*layout, strict=True) if dim != 1] for layout in layouts]
    return offsets == [0, 0] and layouts[0].dims == layouts[1].dims and steps[0] == steps[1]


def _lifetimes(tape: Tape) -> tuple[np.ndarray, np.ndarray]:
    """Return the instructions that write each storage first and touch it last; -1 for what stays."""
    code, storage = tape.code, tape.values["storage"]
    count = len(tape.storages)
    # Storages are the groups of `Uses` here, numbered from 1 on: 0 is for what is not there.
    uses = Uses(code, np.append(storage + 1, np.int32(0)), count + 1)
    first = np.full(count + 1, len(code))
    # NumPy keeps the last of several numbers that are assigned to one entry; here that is the
    # first instruction.
    first[uses.out[::-1]] = np.arange(len(code))[::-1]
    first, last = first[1:], np.maximum(uses.last_write, uses.last_read)[1:]
    stays = np.zeros(count, bool)
    stays[: len(POOLS)] = True
    fields = Fields(ROWS, code)
    for name, ops in zip("abc", _positions(), strict=True):
        read = code[name][fields.of(ops)]
        # The verifier demands that nothing writes to them again.
        stays[storage[read[read != NONE]]] = True
    scratch = uses.operands[:, SCRATCH]
    stays[scratch[scratch > 0] - 1] = True
    stays[[int(storage[value]) for value in (*tape.outputs, *(slot.value for slot in tape.inputs))]] = True
    stays[[item.storage for item in tape.literals]] = True
    # Later sweeps read what the prologue, and the part before the lanes, have computed.
    stays |= first < tape.prologue
    last[(first < tape.uniform) & (last >= tape.uniform)] = len(code)
    first[stays] = -1
    return first, last


@functools.cache
def _positions() -> list[list[int]]:
    """Return for each operand the rows of the op table of which it holds positions."""
    return [[k for k, op in enumerate(OPS) if isinstance(op, ArrayOp) and name in op.index] for name in "abc"]


def zeros(size: int, dense: bool = False) -> np.ndarray:
    """Return bytes whose untouched pages cost nothing; ``dense`` if most pages are going to be touched.

    Many of them are mapped by themselves, and go back to the system when nobody needs them. The heap keeps
    such blocks after some have been freed, and small ones that come between them fragment it.
    """
    if size < LARGE or not hasattr(mmap, "MAP_PRIVATE"):  # Windows has no private mappings
        return np.zeros(size, np.uint8)
    try:
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, OverflowError):
        return np.zeros(size, np.uint8)  # NumPy's error says how much memory is missing
    if dense and size >= HUGE and hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # a system may have no huge pages
            memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, np.uint8)


def aligned(cells: int, dtype) -> np.ndarray:
    """Return zeros that start on a cache line; untouched pages cost nothing."""
    dtype = np.dtype(dtype)
    raw = zeros(cells * dtype.itemsize + ALIGNMENT, dense=True)
    start = -address(raw) % ALIGNMENT
    return raw[start : start + cells * dtype.itemsize].view(dtype)
