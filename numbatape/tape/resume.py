"""A frozen tape as a tape under construction again, to which derivatives are appended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from .builder import TapeBuilder
from .cell_literals import Literals
from .code import Code, SourceLines
from .combinations import flatnonzero
from .draft_values import SCALAR_LAYOUT
from .instruction import GUARD, chosen, copied
from .loop import Loop
from .packed_values import Values
from .rows import Rows
from .sizes import Sizes
from .tape import POOLS, Tape


def resumed(
    tape: Tape, dimensions: tuple[int, ...], ops: Rows, moved: Sequence[int] | None = None
) -> TapeBuilder:
    """Return a builder that holds all of a tape; values keep their numbers.

    Parameters
    ----------
    tape
        The frozen tape.
    dimensions
        Dimensions of all inputs, in one sequence, for which the tape holds.
    ops
        The op table.
    moved
        By input dimension of the tape: its place among ``dimensions``, if these are more.
    """
    builder = TapeBuilder(ops)
    places = range(len(dimensions)) if moved is None else moved
    builder.sizes = Sizes.resume(tape.sizes, [*places], list(dimensions))
    builder.code = Code(tape.columns())
    builder.values = Values(tape.values)
    builder.pool_cells = tape.storages["size"][: len(POOLS)].tolist()
    builder.storages += [tuple(storage) for storage in tape.storages[len(POOLS) :].tolist()]
    builder.layouts = list(tape.layouts)
    builder.literals = Literals(tape.literals)
    builder.inputs = list(tape.inputs)
    builder.guards = list(tape.guards)
    builder.calls = list(tape.calls)
    builder.source = SourceLines(tape.lines)
    _index(builder)
    return builder


def keep_histories(builder: TapeBuilder) -> None:
    """Let the loops of a resumed tape keep their carries before each step, from which derivatives start.

    A loop that does not keep them would run a second time for each derivative of it, and derivatives of these
    runs would have to be added. The pass "histories" drops what no derivative has read.
    """
    code = builder.columns()
    rows = flatnonzero(builder.ops.is_any(builder.ops.with_trait("calls"), code["op"])).tolist()
    numbers = [int(builder.numbers[int(code["c"][k])]) for k in rows]
    code = copied(code)
    for k, number in zip(rows, numbers, strict=True):
        loop, out = builder.calls[number], int(code["out"][k])
        if not isinstance(loop, Loop) or loop.history is not None or not loop.carries:
            continue
        storage, first, layout = builder.values[out]
        if first or numbers.count(number) > 1 or len(builder.layouts[layout].dims) != 1:
            continue  # A longer result of one lane would move those of the next ones.
        if storage < len(POOLS) or builder.storages[storage][0] != loop.extents[0]:
            continue
        builder.calls[number] = longer = loop.with_history(builder.sizes)
        extent = longer.extents[0]
        builder.storages[storage] = (extent, *builder.storages[storage][1:])
        code["out"][k] = builder.view(storage, 0, (extent,), (1,))
    builder.code = Code(code)


def without_guards(tape: Tape) -> Tape:
    """Return a tape without its guards, for callers that know that they hold."""
    if not tape.guards:
        return tape
    kept = tape.code["op"] != GUARD
    early = int(np.count_nonzero(kept[: tape.prologue]))
    return replace(
        tape, code=chosen(tape.code, kept), positions=tape.positions[kept], prologue=early, guards=()
    )


def _index(builder: TapeBuilder) -> None:
    """Index layouts, one-cell literals and cells that several values refer to, for the builder."""
    builder._layout_index = {(its.dims, its.strides): k for k, its in enumerate(builder.layouts)}
    places: dict[tuple[int, int], int] = {}
    count: Counter = Counter()
    for number, (storage, offset, layout) in enumerate(builder.values):
        if storage < len(POOLS):
            count[storage, offset] += 1
            # A view with dimensions may name a literal, too, but numbers are looked for without any.
            if layout == SCALAR_LAYOUT:
                places.setdefault((storage, offset), number)
    builder._viewed = {place for place, times in count.items() if times > 1}
    for item in builder.literals:
        found = places.get((item.storage, item.offset))
        if found is not None:
            builder.name_literal(found, item.data[0], POOLS[item.storage][1])
