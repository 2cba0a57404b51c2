"""Emitting a scan whose body was recorded: as a loop, as vectors, or as vectors around a smaller loop."""

from __future__ import annotations

from collections.abc import Sequence

from ..emitter import addresses
from ..emitter.loop_distribution import LoopDistribution
from ..tape.loop import CARRY, SLICE, STACK, Loop, Out
from .body_traces import BodyTrace, Leaf, Traced
from .packing import Packing, emit, part


def emitted(
    body: BodyTrace,
    name: str,
    length: int,
    reverse: bool,
    carries: list[Leaf],
    slices: list[Leaf],
    numbers: list[int],
) -> tuple[list[int], list[int]]:
    """Cut out the body and emit what all steps compute; return the last carries and the stacked outputs.

    Parameters
    ----------
    body
        What was recorded for one step.
    length
        How many steps there are, a size code.
    reverse
        Whether the last row comes first.
    carries, slices
        What fills the inputs of the body.
    numbers
        Its outputs: the next carries, and then what is stacked.
    """
    trace, tape = body.trace, body.tape
    sizes = tape.sizes
    runs = sizes.value(length) >= 1
    if runs:
        sizes.guard(length, ">=", 1)
    firsts, rows = ([leaf.number for leaf in leaves] for leaves in (carries, slices))
    if not runs:
        levels = [tape.level_of(number) for number in (*firsts, *rows)]
        made = body.close(numbers, len(carries), levels)
    else:
        stretch = body.cut_out(numbers)
        if trace.distributes and not any(tape.ops[row.row].calls for row in stretch.body):
            split = LoopDistribution(stretch, len(carries), length, trace.line())
            if split.parts.pays:
                return _distributed(body, name, split, reverse, firsts, rows)
        levels = [tape.level_of(number) for number in (*firsts, *rows)]
        made = body.close_part(stretch, len(carries), levels)
    shapes = [addresses.layout_of(tape, number).dims for number in numbers]
    loop, result = _loop(body, name, made, length, reverse, firsts, rows, shapes)
    found = [
        part(trace, result, dims if out.role == CARRY else (length, *dims), out.start)
        for dims, out in zip(shapes, loop.outs, strict=True)
    ]
    return found[: len(carries)], found[len(carries) :]


def _distributed(
    body: BodyTrace, name: str, split: LoopDistribution, reverse: bool, firsts: list[int], rows: list[int]
) -> tuple[list[int], list[int]]:
    """Emit vectors, and a loop for what they leave of the body."""
    trace, tape, count = body.trace, body.tape, len(firsts)
    for k, number in enumerate(rows, count):
        split.take(k, addresses.flipped(tape, number, 0) if reverse else number)
    split.emit(split.parts.before, firsts)
    if split.parts.inside:
        core = split.core()
        starts = [firsts[k] for k in core.carries]
        levels = [tape.level_of(number) for number in (*starts, *core.slices)]
        made = body.close_part(core.stretch, len(starts), levels)
        shapes = [addresses.layout_of(tape, number).dims for number in core.stretch.outputs]
        arguments = made, split.length, False, starts, core.slices, shapes
        loop, result = _loop(body, name, *arguments, keep=bool(core.past))
        for k, dims, out in zip(core.carries, shapes, loop.outs, strict=False):
            split.last[k] = part(trace, result, dims, out.start)
        for key, out in zip(core.stacks, loop.outs[len(starts) :], strict=True):
            split.place(key, result, out.start)
        for key, k in core.past:
            assert loop.history is not None
            split.place(key, result, loop.history[core.carries.index(k)])
    split.emit(split.parts.behind, firsts)
    last = [split.behind_last(k) for k in range(count)]
    stacks = [split.in_all_steps(value) for value in split.stretch.outputs[count:]]
    return last, [addresses.flipped(tape, x, 0) for x in stacks] if reverse else stacks


def _loop(
    body: BodyTrace,
    name: str,
    made: Traced,
    length: int,
    reverse: bool,
    carries: Sequence[int],
    slices: Sequence[int],
    shapes: Sequence[tuple[int, ...]],
    keep: bool = False,
) -> tuple[Loop, int]:
    """Emit a loop; return it and its result.

    Parameters
    ----------
    made
        The body.
    carries, slices
        Values that fill its inputs.
    shapes
        The dimensions of its outputs.
    keep
        Whether the carries before each step are needed.
    """
    trace, tape = body.trace, body.tape
    sizes, pack = tape.sizes, Packing(trace)
    ports = [pack.port(CARRY, x, length, _cells(tape, x)) for x in carries]
    ports += [pack.port(SLICE, x, length, _cells(tape, x, 1)) for x in slices]
    ports += [pack.captured(key) for key in made.captured]
    outs, end = [], 0
    for k, dims in enumerate(shapes):
        count, is_carry = sizes.product(dims), k < len(carries)
        outs.append(Out(CARRY if is_carry else STACK, k if is_carry else -1, end, count))
        end = sizes.add(end, count if is_carry else sizes.mul(length, count))
    operands, extents = pack.operands(), (end, *pack.ends)
    places = length, reverse, tuple(ports), tuple(outs), extents
    loop = Loop(name, made.tape, made.dimensions, *places, samples=made.samples)
    if keep or trace.derives:
        loop = loop.with_history(sizes)
    return loop, emit(trace, loop, operands)


def _cells(tape, number: int, behind: int = 0) -> int:
    """Return how many cells a value has along the axes behind some first ones."""
    return tape.sizes.product(addresses.layout_of(tape, number).dims[behind:])
