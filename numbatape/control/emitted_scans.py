"""Emitting a scan whose body was recorded: as a loop, as vectors, or as vectors around a smaller loop."""

from __future__ import annotations

from collections.abc import Sequence

from ..emitter import addresses, instructions
from ..emitter.loop_distribution import Core, LoopDistribution
from ..emitter.repeated_steps import RepeatedSteps, may_be_written_out
from ..tape.bodies import Stretch
from ..tape.families import F64
from ..tape.loop import CARRY, SLICE, STACK, Loop, Out
from ..trace.trace import Trace
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
    is_segment: bool = False,
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
    is_segment
        Whether it has to be a loop, so that a reverse sweep computes its steps again and saves none of them.
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
        levels = [tape.level_of(number) for number in (*firsts, *rows)]
        short = not is_segment and _is_short(trace, stretch, length)
        if trace.distributes and not any(tape.ops[row.row].calls for row in stretch.body):
            split = _split(trace, stretch, len(carries), length, levels)
            if split.pays and not (split.parts.inside and short):
                return _distributed(body, name, split, reverse, firsts, rows)
        if short:
            return _written_out(body, stretch, length, reverse, firsts, rows)
        made = body.close_part(stretch, len(carries), levels)
    shapes = [tape.layout_of(number).dims for number in numbers]
    loop, result = _loop(body, name, made, length, reverse, firsts, rows, shapes)
    found = [
        part(trace, result, dims if out.role == CARRY else (length, *dims), out.start)
        for dims, out in zip(shapes, loop.outs, strict=True)
    ]
    return found[: len(carries)], found[len(carries) :]


def _is_short(trace: Trace, stretch: Stretch, length: int) -> bool:
    """Whether a loop in the body of another one is so short that to enter it takes longer than its steps."""
    return trace.in_loop and trace.tape.sizes.is_number(length) and may_be_written_out(stretch, length)


def _written_out(
    body: BodyTrace, stretch: Stretch, steps: int, reverse: bool, firsts: list[int], rows: list[int]
) -> tuple[list[int], list[int]]:
    """Append the instructions of all steps, one step after the other."""
    tape, line, count = body.tape, body.trace.line(), len(firsts)
    levels = [tape.level_of(number) for number in stretch.inputs[:count]]  # as the body was recorded
    starts = [
        instructions.copied(tape, number, level, line) for number, level in zip(firsts, levels, strict=True)
    ]
    several = RepeatedSteps(stretch, count, [], steps, [tape.values[x][:2] for x in starts]).stretch
    for wide, number in zip(several.inputs[count:], rows, strict=True):
        number = addresses.flipped(tape, number, 0) if reverse else number
        dims = tape.layout_of(number).dims
        instructions.copied_into(tape, addresses.reshaped(tape, wide, dims), number, line)
    for each in several.body:
        tape.code.append(each)
    shapes = [tape.layout_of(number).dims for number in stretch.outputs[count:]]
    stacks = [
        addresses.reshaped(tape, wide, (steps, *dims))
        for wide, dims in zip(several.outputs[count:], shapes, strict=True)
    ]
    return several.outputs[:count], [addresses.flipped(tape, x, 0) for x in stacks] if reverse else stacks


def _split(
    trace: Trace, stretch: Stretch, carries: int, length: int, levels: Sequence[int]
) -> LoopDistribution:
    """Return how the instructions of a body are split.

    Where points are lanes, each number is a vector over them, which stays in the processor's nearest cache
    from one instruction to the next, and a vector over all steps does not. So a loop over numbers stays
    whole, but for what is the same in all calls, unless vectors leave nothing of it and it is differentiated
    twice: directions make long vectors, too.
    """
    split = LoopDistribution(stretch, carries, length, trace.line())
    if trace.rolls or (trace.derivatives.order > 1 and not split.parts.inside):
        return split
    whole = LoopDistribution(stretch, carries, length, trace.line(), levels)
    return whole if whole.steps_of_numbers() > 1 else split


def _distributed(
    body: BodyTrace, name: str, split: LoopDistribution, reverse: bool, firsts: list[int], rows: list[int]
) -> tuple[list[int], list[int]]:
    """Emit vectors, and a loop for what they leave of the body."""
    tape, count = body.tape, len(firsts)
    for k, number in enumerate(rows, count):
        split.take(k, addresses.flipped(tape, number, 0) if reverse else number)
    split.emit(split.parts.before, firsts)
    if split.parts.inside:
        core = split.core()
        starts = [firsts[k] for k in core.carries]
        lasts, stacks = _stepped(body, name, split, core, starts)
        split.last.update(zip(core.carries, lasts, strict=True))
        for key, stack in zip((*core.stacks, *(key for key, _ in core.past)), stacks, strict=True):
            split.place(key, stack)
    split.emit(split.parts.behind, firsts)
    last = [split.behind_last(k) for k in range(count)]
    stacks = [split.in_all_steps(value) for value in split.stretch.outputs[count:]]
    return last, [addresses.flipped(tape, x, 0) for x in stacks] if reverse else stacks


def _stepped(
    body: BodyTrace, name: str, split: LoopDistribution, core: Core, starts: list[int]
) -> tuple[list[int], list[int]]:
    """Emit what stays in a loop; return its last carries, and one by one its stacked outputs and its past
    carries, in all steps."""
    tape, sizes, length = body.tape, body.tape.sizes, split.length
    past = [core.carries.index(k) for _, k in core.past]
    several, count = split.several_steps(core, past)
    if count == 1:
        return _loop_of(body, name, core.stretch, length, starts, core.slices, past)
    groups = sizes.floordiv(length, count)
    done = sizes.mul(groups, count)
    rest = sizes.sub(length, done)
    first = [addresses.split(tape, addresses.cut(tape, x, 0, 0, done), (groups, count)) for x in core.slices]
    middle, before = _loop_of(body, name, several, groups, starts, first, [])
    behind = [addresses.cut(tape, x, 0, done, rest) for x in core.slices]
    lasts, after = _loop_of(body, name, core.stretch, rest, middle, behind, past)
    line, stacks = body.trace.line(), []
    for parts in zip(before, after, strict=True):
        whole, place = [], 0
        for x in parts:
            extent = sizes.product(tape.layout_of(x).dims)
            whole.append(([(place, extent)], addresses.reshaped(tape, x, (extent,))))
            place = sizes.add(place, extent)
        stacks.append(instructions.pieces(tape, (place,), F64, whole, line))
    return lasts, stacks


def _loop_of(
    body: BodyTrace,
    name: str,
    stretch: Stretch,
    length: int,
    starts: list[int],
    slices: list[int],
    past: list[int],
) -> tuple[list[int], list[int]]:
    """Emit a loop whose body is a part of what was recorded; return what `_stepped` does.

    ``past`` are the numbers of the carries that are needed as they are before each step.
    """
    trace, tape = body.trace, body.tape
    levels = [tape.level_of(number) for number in (*starts, *slices)]
    made = body.close_part(stretch, len(starts), levels)
    shapes = [tape.layout_of(number).dims for number in stretch.outputs]
    arguments = made, length, False, starts, slices, shapes
    loop, result = _loop(body, name, *arguments, keep=bool(past))
    found = [
        part(trace, result, dims if out.role == CARRY else (length, *dims), out.start)
        for dims, out in zip(shapes, loop.outs, strict=True)
    ]
    for k in past:
        assert loop.history is not None
        found.append(part(trace, result, (length, *shapes[k]), loop.history[k]))
    return found[: len(starts)], found[len(starts) :]


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
    if keep or trace.derivatives.taken:
        loop = loop.with_history(sizes)
    return loop, emit(trace, loop, operands)


def _cells(tape, number: int, behind: int = 0) -> int:
    """Return how many cells a value has along the axes behind some first ones."""
    return tape.sizes.product(tape.layout_of(number).dims[behind:])
