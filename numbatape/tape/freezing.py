"""Freezing: what a builder has recorded becomes a `Tape`.

What no output and no guard needs is dropped, passes rewrite the rest, the prologue moves to the front, and
live cells are packed. The builder's instructions and values stay as they were recorded.
"""

from __future__ import annotations

from collections.abc import Collection
from time import perf_counter

import numpy as np

from ..errors import LeakError
from ..savings import uncollected
from .column_scans import SHORT
from .combinations import flatnonzero
from .draft import Draft
from .instruction import GUARD, NONE, PROLOGUE, frozen, value_numbers
from .liveness import without_dead
from .passes import PASSES, REROLL
from .tape import POOLS, STORAGE, VALUE, InputSlot, Literal, Rewrite, Tape
from .uses import NO_GROUP, keys_of


@uncollected
def freeze(draft: Draft, passes: Collection[str], derivatives: bool, forward: bool) -> Tape:
    """Return the tape that computes a draft's outputs; see `TapeBuilder.freeze`."""
    draft.forward = forward
    code = without_dead(draft, draft.builder.columns())
    if draft.builder.inner:
        _refuse_leaks(draft, code)
    arrays = _array_ops(draft, code)
    few = derivatives and _has_few_cells(draft, code)
    log = RewriteLog(draft)
    for name, each in PASSES.items():
        run = each.run if derivatives or not each.derivatives else each.on_functions
        if name not in passes or run is None or len(code) < each.shortest or (each.functions and derivatives):
            continue
        # A tape that is swept forward over many points is frozen without re-rolling, see `Pass.single`.
        if each.single and (not forward or REROLL in passes):
            continue
        if few and (each.wide or (each.laneless and draft.directions)):
            continue
        if each.trait is not None and not arrays & draft.ops.with_trait(each.trait):
            continue
        begun, before = perf_counter(), code
        code = run(draft, code)
        if each.leaves_dead and code is not before:
            code = without_dead(draft, code)
        log.note(name, before, code, perf_counter() - begun)
    return _packed(draft, code, forward)


class RewriteLog:
    """Writes down what each pass has done to the instructions of a draft, and how long it took."""

    def __init__(self, draft: Draft):
        self._draft = draft
        self._counted: tuple[np.ndarray, np.ndarray] | None = None

    def note(self, name: str, before: np.ndarray, after: np.ndarray, seconds: float) -> None:
        """Note a pass, given the instructions before and after it."""
        draft, ops = self._draft, self._draft.ops
        changes: tuple[tuple[str, int], ...] = ()
        if after is not before:
            less, more = self._times(before), self._times(after)
            changed = flatnonzero(more != less).tolist()
            changes = tuple((ops.names[k], int(more[k] - less[k])) for k in changed)
        draft.rewrites.append(Rewrite(name, len(before), len(after), seconds, changes))

    def _times(self, code: np.ndarray) -> np.ndarray:
        """Return how often each op occurs. The last answer is kept: the next pass begins with that code."""
        if self._counted is None or self._counted[0] is not code:
            self._counted = code, self._draft.fields(code).times
        return self._counted[1]


def _refuse_leaks(draft: Draft, code: np.ndarray) -> None:
    """Raise if anything reads what belongs to the body of a loop."""
    builder = draft.builder
    keys = keys_of(builder.values)
    inner = np.append(np.isin(keys, list(builder.inner)), False)  # the last entry is for missing operands
    read = [(code[name], code["line"]) for name in "abc"] + [(np.array(draft.outputs, int), None)]
    for values, lines in read:
        leaked = flatnonzero(inner[values])
        if len(leaked):
            name = builder.inner[keys[int(values[leaked[0]])]]
            where = "" if lines is None else f" (used at {builder.source.where(int(lines[leaked[0]]))})"
            raise LeakError(
                f"a value from inside of the body of {name} outlived the step that it was computed in{where}"
                "; return it from the body instead of storing it"
            )


def _array_ops(draft: Draft, code: np.ndarray) -> set[int]:
    """Return the ops that make arrays, by row of the op table."""
    op = draft.fields(code).op
    made = op[(op != GUARD) & draft.is_array(draft.fields(code).out)] >> 1
    return set(flatnonzero(np.bincount(made)).tolist())  # np.unique imports numpy.ma


def _has_few_cells(draft: Draft, code: np.ndarray) -> bool:
    """Whether all arrays of a short tape are small, with their lanes too, for all sizes that guards allow."""
    if len(code) > SHORT:
        return False
    lanes = sum(draft.sizes.count_few(draft.layout_of(value).dims) for value in draft.directions)
    seen = {*draft.layout[code["out"]].tolist()}
    return all(draft.is_small(layout, max(lanes, 1)) for layout in seen)


def _packed(draft: Draft, code: np.ndarray, forward: bool) -> Tape:
    """Return the tape of a draft without dead values; live cells of pools follow one another."""
    builder = draft.builder
    draft.forget_uses()
    code, positions = frozen(code)
    guards, group = flatnonzero(code["op"] == GUARD), draft.group
    numbers = value_numbers(code)
    # Only value numbers are renumbered: the numbers of guards, which share a column with the scratch, are put
    # aside and back.
    of_guards = numbers[guards, -1]
    numbers[guards, -1] = NONE
    kept = np.zeros(len(group), bool)  # the last entry is for missing operands
    kept[numbers.reshape(-1)] = True
    kept[[*draft.outputs, *(slot.value for slot in builder.inputs)]] = True
    live = draft.ends()
    live[group[kept]] = True
    live[NO_GROUP] = False
    kept = kept[:-1]
    remap = np.full(len(kept) + 1, NONE, np.int32)
    count = np.count_nonzero(kept)
    remap[:-1][kept] = np.arange(count, dtype=np.int32)
    cell, storages = _cells_and_storages(draft, live)
    values = np.empty(count, VALUE)
    values["storage"], values["layout"] = draft.storage[kept], draft.layout[kept]
    values["offset"] = np.where(values["storage"] < len(POOLS), cell[group[:-1][kept]], draft.offset[kept])
    numbers[...] = remap.take(numbers)
    numbers[guards, -1] = of_guards
    for array in (code, values, storages, positions):
        array.flags.writeable = False
    return Tape(
        code=code,
        prologue=int(np.count_nonzero(code["stage"] == PROLOGUE)),
        values=values,
        layouts=tuple(builder.layouts),
        storages=storages,
        literals=_literals(draft, live, cell),
        inputs=tuple(InputSlot(int(remap[s.value]), s.dims, s.level, s.family) for s in builder.inputs),
        outputs=tuple(int(remap[v]) for v in draft.outputs),
        guards=tuple(builder.guards),
        positions=positions,
        lines=builder.source.table(),
        sizes=builder.sizes.freeze(),
        ops=builder.ops,
        calls=tuple(draft.calls),
        rewrites=tuple(draft.rewrites),
        forward=forward,
    )


def _cells_and_storages(draft: Draft, live: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the cell of each live group in its storage, and the storages; unused ones have no cells.

    Cells of pools are numbered anew; a storage keeps its number.
    """
    home, cell = draft.groups()
    pooled = (live & (home < len(POOLS))).nonzero()[0]
    pools = home[pooled]
    counts = np.bincount(pools, minlength=len(POOLS))
    pooled = pooled[pools.argsort(kind="stable")]
    cell = cell.copy()
    cell[pooled] = np.arange(len(pooled)) - (counts.cumsum() - counts).repeat(counts)
    storages = np.empty(len(draft.storages), STORAGE)
    storages["size"], storages["family"], storages["level"] = draft.storage_columns()
    used = np.zeros(len(storages), bool)
    used[home[live]] = True
    storages["size"][~used] = 0
    storages["size"][: len(POOLS)] = counts
    return cell, storages


def _literals(draft: Draft, live: np.ndarray, cell: np.ndarray) -> tuple[Literal, ...]:
    """Return the literals that are needed, where their cells are now."""
    groups, found = draft.literal_groups(), []
    for k in live[groups].nonzero()[0].tolist():
        item = draft.literals[k]
        if item.storage < len(POOLS):
            item = Literal(item.storage, int(cell[groups[k]]), item.data)
        found.append(item)
    return tuple(found)
