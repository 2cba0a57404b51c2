"""Freezing: what a builder has recorded becomes a `Tape`.

What no output and no guard needs is dropped, passes rewrite the rest, the prologue moves to the front, and
live cells are packed. The builder's instructions stay as they were recorded.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from ..errors import LeakError
from ..garbage import uncollected
from .instruction import GUARD, NONE, PROLOGUE, frozen
from .liveness import Cells, without_dead
from .passes import PASSES, Goal
from .tape import POOLS, STORAGE, InputSlot, Literal, Tape
from .uses import NO_KEY, keys_of

SCALAR_LAYOUT = 0  # the first layout of each builder


@uncollected
def freeze(builder, goal: Goal, passes: Collection[str], derivatives: bool, forward: bool) -> Tape:
    """Return the tape that computes the goal's outputs; see `TapeBuilder.freeze`."""
    code = without_dead(builder, builder.columns(), goal.outputs)
    if builder.inner:
        _refuse_leaks(builder, code, goal.outputs)
    arrays = _array_ops(Cells.of(builder), code)
    for name, each in PASSES.items():
        wanted = name in passes and (derivatives or not each.derivatives)
        if wanted and (each.trait is None or arrays & builder.ops.with_trait(each.trait)):
            before, code = code, each.run(builder, code, goal)
            if each.leaves_dead and code is not before:
                code = without_dead(builder, code, goal.outputs)
    return _packed(builder, code, goal.outputs, forward)


def _refuse_leaks(builder, code, outputs) -> None:
    """Raise if anything reads what belongs to the body of a loop."""
    keys = np.append(np.array(keys_of(builder.values), np.int64), NO_KEY)
    inner = np.array(list(builder.inner), np.int64)
    read = [(code[name], code["line"]) for name in "abc"] + [(np.array(outputs, int), None)]
    for values, lines in read:
        leaked = np.flatnonzero(np.isin(keys[values], inner))
        if len(leaked):
            name = builder.inner[int(keys[values][leaked[0]])]
            where = "" if lines is None else f" (used at {builder.where(int(lines[leaked[0]]))})"
            raise LeakError(
                f"a value from inside of the body of {name} outlived the step that it was computed in{where}"
                "; return it from the body instead of storing it"
            )


def _array_ops(cells: Cells, code) -> set[int]:
    """Return the ops that make arrays, by row of the op table."""
    made = code[code["op"] != GUARD]
    rows = made["op"][cells.values["layout"][made["out"]] != SCALAR_LAYOUT] >> 1
    return set(rows.tolist())  # np.unique imports numpy.ma


def _packed(builder, code, outputs, forward: bool) -> Tape:
    """Drop dead values, give live pool cells consecutive offsets, size the pools."""
    # The prologue first, program order within.
    code, positions = frozen(code[np.argsort(code["stage"], kind="stable")])
    computing, cells = code["op"] != GUARD, Cells.of(builder)
    live = cells.needed(builder, outputs)
    for numbers in (*(code[name] for name in ("out", "a", "b", "c")), code["aux"][computing]):
        live[cells.group[numbers]] = True
    live[-1] = False  # of operands that are not there
    kept = live[cells.group[:-1]]
    remap = np.append(np.where(kept, np.cumsum(kept) - 1, NONE), NONE).astype(np.int32)
    values, moved = cells.values[kept], []
    storages = np.array(builder.storages, STORAGE).reshape(-1)
    for pool, (start, stop) in enumerate(zip(cells.first, cells.first[1:], strict=False)):
        alive = live[start:stop]
        moved.append(np.cumsum(alive) - 1)
        storages["size"][pool] = np.count_nonzero(alive)
        inside = values["storage"] == pool
        values["offset"][inside] = moved[pool][values["offset"][inside]]
    dead = ~live[cells.first[-1] : -1]
    dead[: len(POOLS)] = False
    storages["size"][dead] = 0
    for name in ("out", "a", "b", "c"):
        code[name] = remap[code[name]]
    code["aux"][computing] = remap[code["aux"][computing]]
    literals = tuple(
        Literal(item.storage, int(moved[item.storage][item.offset]), item.data)
        if item.storage < len(POOLS)
        else item
        for item in builder.literals
        if live[cells.of_literal(item)]
    )
    for array in (code, values, storages, positions):
        array.flags.writeable = False
    return Tape(
        code=code,
        prologue=int(np.count_nonzero(code["stage"] == PROLOGUE)),
        values=values,
        layouts=tuple(builder.layouts),
        storages=storages,
        literals=literals,
        inputs=tuple(InputSlot(int(remap[s.value]), s.dims, s.level, s.family) for s in builder.inputs),
        outputs=tuple(int(remap[v]) for v in outputs),
        guards=tuple(builder.guards),
        positions=positions,
        lines=builder.line_table(),
        sizes=builder.sizes.freeze(),
        ops=builder.ops,
        calls=tuple(builder.calls),
        forward=forward,
    )
