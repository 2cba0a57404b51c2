"""A stretch of instructions that compute one lane becomes instructions that compute all lanes.

The stretch is recorded for one lane, cut out of the tape under construction, turned into a tape with lanes
(`numbatape.derive.lanes`), and the instructions of that tape are appended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..emitter import addresses, instructions
from ..emitter.emitter import Emitter
from ..emitter.symbol import Symbol
from ..errors import UnsupportedOperationError
from ..tape import Tape, TapeBuilder
from ..tape.bodies import Stretch, address_of, input_codes
from ..tape.inlining import Inlining
from ..tape.tape import F64, VARYING
from .lanes import Lanes, lanes


def append_lanes(
    builder: TapeBuilder,
    body: Tape,
    dimensions: tuple[int, ...],
    inputs: Sequence[int],
    captured: Sequence[int],
    line: int,
    on_guard: Callable[[int, object], bool],
) -> list[int] | None:
    """Append what a body computes, for many lanes.

    Parameters
    ----------
    body
        Computes one lane. Its inputs are those that differ between lanes, and then what it captures.
    dimensions
        Size codes of the builder, one for each input dimension in the sizes of the body.
    inputs
        Values of the builder for the first inputs, in float64 cells; their first axis numbers the lanes.
    captured
        Keys (`numbatape.tape.uses.keys_of`) of what fills the other inputs.
    on_guard
        As in `numbatape.tape.inlining.Inlining.run`.

    Returns
    -------
    list of int or None
        The values of the outputs. The first axis of those that depend on an input numbers the lanes. None if
        ``on_guard`` has returned False.
    """
    count = builder.layout_of(inputs[0]).dims[0]
    given = tuple(map(builder.sizes.value, dimensions))
    laned = lanes(body, Lanes(frozenset(range(len(inputs))), hoist=False, behind=True), given)
    inlining = Inlining(builder, laned, (*dimensions, count))
    slots = iter(laned.inputs)
    for number in inputs:
        _place(inlining, next(slots).value, number, line)
    for key in captured:
        storage, offset = address_of(key)
        size = builder.storages[storage][0] if key >= 0 else 1
        number = builder.view(storage, offset, (size,), (1,))
        _place(inlining, next(slots).value, instructions.in_family(builder, number, F64, line), line)
    return inlining.run(on_guard)


def _place(inlining: Inlining, value: int, number: int, line: int) -> None:
    """Make cells of the builder an input of the body; copy them if the tape has them in another order."""
    builder = inlining.builder
    dims, strides = inlining.layout(value)
    storage = int(inlining.tape.values[value]["storage"])
    own = builder.layout_of(number)
    if any(own.strides[k] != strides[k] for k, dim in enumerate(own.dims) if dim != 1):
        size, family, _ = inlining.tape.storages[storage].item()
        builder.storages.append((inlining.size(size), family, builder.level_of(number)))
        copy = builder.view(len(builder.storages) - 1, 0, dims, strides)
        instructions.copied_into(builder, copy, number, line)
        number = copy
    inlining.places[storage] = builder.values[number][:2]


def in_lanes(
    emitter: Emitter, name: str, function: Callable[[list[Symbol]], Sequence], wide: Sequence[Symbol]
) -> list[Symbol | None]:
    """Return the results of a function of symbols in many lanes.

    Parameters
    ----------
    name
        What error messages call the function.
    function
        Takes one symbol for each of ``wide``, without the first axis, and returns symbols, numbers and None.
        It appends to the emitter's tape.
    wide
        Symbols whose first axis numbers the lanes.
    """
    tape = emitter.tape
    families = [x.family for x in wide]
    wide = [emitter.in_family(x, F64) for x in wide]
    start = len(tape.code)
    rows = [_row(emitter, x) for x in wide]
    given = [emitter.in_family(row, family) for row, family in zip(rows, families, strict=True)]
    parts = [
        part if part is None or part.__class__ is Symbol else emitter.literal(part, F64)
        for part in function(given)
    ]
    found = [None if part is None else part.family for part in parts]
    outputs = [emitter.dense(emitter.in_family(part, F64)).number for part in parts if part is not None]
    stretch = Stretch(tape, start, [row.number for row in rows], outputs, True)
    stretch.cut(name)
    emitter.moved(start)
    outside = [max(VARYING, tape.storages[address_of(key)[0]][2]) for key in stretch.captured]
    stretch.levels([max(VARYING, x.level) for x in wide], outside, [])
    dimensions = input_codes(tape.sizes)
    body = stretch.tape(True, (), True)

    def on_guard(value: int, guard) -> bool:
        seen = Symbol(emitter, value)
        if seen.ndim:
            if not emitter.agrees(seen, guard.outcome):
                raise UnsupportedOperationError(
                    f"{name} branches on a value that differs from lane to lane (at "
                    f"{tape.where(guard.position)}); use np.where"
                )
            seen = emitter.op("agree", seen, float(guard.outcome))
        tape.guard(seen.number, guard.kind, guard.outcome, seen.level, guard.position, guard.counts)
        return True

    inputs = [x.number for x in wide]
    numbers = append_lanes(tape, body, dimensions, inputs, stretch.captured, emitter.line, on_guard)
    assert numbers is not None
    results = iter(numbers)
    return [
        None if family is None else emitter.in_family(Symbol(emitter, next(results)), family)
        for family in found
    ]


def _row(emitter: Emitter, x: Symbol) -> Symbol:
    """Return a new value that stands for one lane of a symbol."""
    tape, layout = emitter.tape, x.layout
    dims = layout.dims[1:]
    strides, size = tape.contiguous_strides(dims)
    tape.storages.append((size if dims else 1, F64, max(VARYING, x.level)))
    row = Symbol(emitter, tape.view(len(tape.storages) - 1, 0, dims, strides))
    emitter.stands_for(row, Symbol(emitter, addresses.view(tape, x.number, dims, layout.strides[1:])))
    return row
